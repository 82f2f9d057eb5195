/* call.c - calls: functions of the script (inlined), functions of the language, dot, dropout. Row functions are in rowfunc.c. */
#include "check.h"

#include <string.h>

/* ---- the table */

static const AuBuiltin builtins[] = {
// clang-format off
#define BUILTIN(name, least, most, build, op) {name, least, most, AU_BUILD_##build, AU_##op},
#include "builtins.def"
#undef BUILTIN
    // clang-format on
};

const AuBuiltin *builtin_at(uint32_t n)
{
    return n < sizeof builtins / sizeof *builtins ? &builtins[n] : NULL;
}

const AuBuiltin *builtin_find(const char *name)
{
    for (uint32_t i = 0; i < sizeof builtins / sizeof *builtins; i++)
        if (strcmp(builtins[i].name, name) == 0) return &builtins[i];
    return NULL;
}

/* ---- functions of the script */

static bool is_recursive(AuCheck *c, const AuAst *e, const AuItem *fn)
{
    for (const AuFrame *f = c->frame; f; f = f->outer) {
        if (f->fn != fn) continue;
        AuDiag *d =
            check_error(c, AU_E0207, e->span,
                        "'%s' calls itself: functions are inlined, so they cannot", e->name);
        au_add_note(c->diags, d, fn->name.span, "'%s' is declared here", e->name);
        return true;
    }
    return false;
}

static bool count_is(AuCheck *c, const AuAst *e, uint32_t least, uint32_t most, const AuItem *fn)
{
    const uint32_t n = e->args.count;
    if (n >= least && n <= most) return true;
    const char *range = least == most ? au_format(c->arena, "%u", least)
                                      : au_format(c->arena, "%u to %u", least, most);
    AuDiag *d = check_error(c, AU_E0302, e->span, "'%s' takes %s %s, found %u", e->name, range,
                            most == 1 ? "argument" : "arguments", n);
    if (fn) au_add_note(c->diags, d, fn->name.span, "'%s' is declared here", e->name);
    return false;
}

/* What is wrong inside of arguments is reported even if the call is wrong itself. */
static AuValue check_arguments(AuCheck *c, const AuAst *e)
{
    for (uint32_t i = 0; i < e->args.count; i++) check_expr(c, e->args.items[i]);
    return value_none();
}

static AuValue inline_function(AuCheck *c, const AuAst *e, AuModule *module, const AuItem *fn)
{
    AuScope *scope = scope_new(c, check_consts(c, module)), *caller = c->scope;
    AuModule *calling = c->module;
    AuFrame frame = {fn, e->span, c->frame};
    AuValue out = value_none();
    if (!count_is(c, e, fn->params.count, fn->params.count, fn) || is_recursive(c, e, fn))
        return check_arguments(c, e);
    for (uint32_t i = 0; i < fn->params.count; i++) {
        const AuValue argument = check_expr(c, e->args.items[i]);
        scope_declare(c, scope, AU_SYM_VALUE, fn->params.items[i], "a parameter")->value = argument;
    }
    c->scope = scope;
    c->module = module;
    c->frame = &frame;
    const uint32_t returned = check_body(c, fn, &out, 1);
    if (returned > 1) {
        check_error(c, AU_E0317, fn->name.span, "a function returns one value, '%s' returns %u",
                    fn->name.text, returned);
        out = value_none();
    }
    c->scope = caller;
    c->module = calling;
    c->frame = frame.outer;
    return out;
}

/* ---- functions of the language */

static AuValue map(AuCheck *c, const AuAst *e, const AuBuiltin *f, const AuValue *args,
                   const char *what)
{
    const AuValue x = value_to_f32(c, args[0], e->args.items[0]->span, what);
    AuValue v = e->args.count == 1
                    ? value_unary(c, f->op, x, e->span)
                    : value_binary(c, f->op, x,
                                   value_to_f32(c, args[1], e->args.items[1]->span, what), e->span);
    if (f->op == AU_OP_LOG) v.flags |= AU_V_LOG;
    return v;
}

static AuValue num(AuCheck *c, const AuAst *e, const AuBuiltin *f, const AuValue *args,
                   const char *what)
{
    AuValue x = args[0], y = args[1];
    if (e->args.count == 1)
        return value_unary(c, f->op, value_number(c, x, e->args.items[0]->span, what), e->span);
    if (!value_promote_pair(c, &x, &y, e->args.items[0]->span, e->args.items[1]->span, what))
        return value_none();
    return value_binary(c, f->op, x, y, e->span);
}

/* min(max(x, low), high): at a bound the derivative passes, because ties go to the first argument. */
static AuValue clamp(AuCheck *c, const AuAst *e, const AuValue *args, const char *what)
{
    AuValue v[3] = {args[0], args[1], args[2]};
    bool real = false;
    for (int i = 0; i < 3; i++) {
        v[i] = value_number(c, v[i], e->args.items[i]->span, what);
        real |= v[i].type == AU_T_F32;
    }
    for (int i = 0; i < 3 && real; i++) v[i] = value_to_f32(c, v[i], e->args.items[i]->span, what);
    return value_binary(c, AU_OP_MIN, value_binary(c, AU_OP_MAX, v[0], v[1], e->span), v[2],
                        e->span);
}

static AuValue choose(AuCheck *c, const AuAst *e, const AuValue *args)
{
    AuValue x = args[1], y = args[2];
    if (!value_is_bool(c, args[0], e->args.items[0]->span, "the first argument of where"))
        return value_none();
    if (x.type != AU_T_BOOL || y.type != AU_T_BOOL)
        if (!value_promote_pair(c, &x, &y, e->args.items[1]->span, e->args.items[2]->span, "where"))
            return value_none();
    return value_where(c, args[0], x, y, e->span);
}

static AuValue cast(AuCheck *c, const AuAst *e, const AuBuiltin *f, AuValue x)
{
    const AuType to = f->op == AU_OP_TO_F32 ? AU_T_F32 : AU_T_I32;
    if (x.type == AU_T_NONE || x.type == to) return x;
    AuValue v = value_of(c, attn_op1(c->a, f->op, x.e, e->span));
    v.flags = x.flags & AU_V_LOG;
    if (to == AU_T_I32 && v.flags & AU_V_LOG) v.flags |= AU_V_LOG_INT;
    return v;
}

/* Activations, written with operations of the attention IR. */
static AuValue activation(AuCheck *c, const AuAst *e, AuBuild build, AuValue x, const char *what)
{
    const AuSpan s = e->span;
    x = value_to_f32(c, x, e->args.items[0]->span, what);
    if (x.type == AU_T_NONE) return x;
    if (build == AU_BUILD_RELU) /* 0 first: at a tie the derivative goes to the constant */
        return value_binary(c, AU_OP_MAX, value_float(c, 0, s), x, s);
    if (build == AU_BUILD_SILU)
        return value_binary(c, AU_OP_MUL, x, value_unary(c, AU_OP_SIGMOID, x, s), s);
    if (build == AU_BUILD_ELU) {
        const AuValue positive = value_binary(c, AU_OP_LT, value_float(c, 0, s), x, s);
        return value_where(c, positive, x, value_unary(c, AU_OP_EXPM1, x, s), s);
    }
    const AuValue scaled =
        value_binary(c, AU_OP_MUL, x, value_float(c, 0.70710678118654752440, s), s);
    const AuValue cdf =
        value_binary(c, AU_OP_ADD, value_float(c, 1, s), value_unary(c, AU_OP_ERF, scaled, s), s);
    return value_binary(c, AU_OP_MUL, value_binary(c, AU_OP_MUL, value_float(c, 0.5, s), x, s), cdf,
                        s);
}

/* Whether a matrix of heads by heads is read. */
static bool reads_heads_by_heads(const AuCheck *c, const AuAst *e)
{
    const AuSymbol *s = check_tensor_symbol(c, e);
    uint32_t heads = 0;
    for (uint32_t n = 0; s && n < c->a->tensors[s->index].rank; n++)
        heads += c->a->tensors[s->index].axes[n].i == check_heads(c).i;
    if (heads > 1) return true;
    for (uint32_t n = 0; n < e->args.count; n++)
        if (reads_heads_by_heads(c, e->args.items[n])) return true;
    return false;
}

static bool allowed(AuCheck *c, const AuAst *e, const AuBuiltin *f)
{
    static const struct {
        uint32_t bit;
        const char *place;
    } places[] = {
        [AU_BUILD_KEYS] = {AU_SITE_KEYS, "online_fwd and backward, where there is a tile of keys"},
        [AU_BUILD_SUM] = {AU_SITE_ROW, "row mods and linear, where there is a row of channels"},
        [AU_BUILD_MEAN] = {AU_SITE_ROW, "row mods and linear, where there is a row of channels"},
        [AU_BUILD_L2NORM] = {AU_SITE_ROW, "row mods and linear, where there is a row of channels"},
        [AU_BUILD_RMSNORM] = {AU_SITE_ROW, "row mods and linear, where there is a row of channels"},
        [AU_BUILD_ROPE] = {AU_SITE_ROW, "row mods and linear, where there is a row of channels"},
        [AU_BUILD_ROPE_INTERLEAVED] = {AU_SITE_ROW,
                                       "row mods and linear, where there is a row of channels"},
        [AU_BUILD_DOT] = {AU_SITE_DOT, "score_mod"},
        [AU_BUILD_DROPOUT] = {AU_SITE_DROPOUT, "weight_mod"},
    };
    if (!places[f->build].bit || site_bits(c->site) & places[f->build].bit) return true;
    const bool sum = f->build == AU_BUILD_SUM || f->build == AU_BUILD_MEAN;
    const bool pairs = c->site == AU_SITE_SCORE_MOD || c->site == AU_SITE_WEIGHT_MOD;
    if (sum && pairs && reads_heads_by_heads(c, e)) {
        refuse_sum_of_heads(c, e->span);
        return false;
    }
    AuDiag *d = check_error(c, AU_E0314, e->span, "'%s' is for %s, not for %s", f->name,
                            places[f->build].place, site_text(c->site));
    if (sum && pairs)
        au_add_note(c->diags, d, (AuSpan){0},
                    "sums over keys are row scales of an online function (rowsum); heads are not "
                    "summed, each is computed by itself");
    return false;
}

static AuValue keys(AuCheck *c, const AuAst *e, const AuBuiltin *f, AuValue x, const char *what)
{
    return value_unary(c, f->op, value_to_f32(c, x, e->args.items[0]->span, what), e->span);
}

/* A rate is in [0, 1): of numbers that is seen here, of params and sizes at launch. What comes from inputs is only known in the
 * kernel: there a rate below 0 counts as 0. */
static bool rate_is_sound(AuCheck *c, AuValue *rate, AuSpan span)
{
    double number = 0;
    const AuExpr zero = attn_f32(c->a, 0, span), one = attn_f32(c->a, 1, span);
    if (value_is_number(c, *rate, &number)) {
        if (number >= 0 && number < 1) return true;
        check_error(c, AU_E0320, span, "the rate of dropout is at least 0 and below 1, found %g",
                    number);
        return false;
    }
    if (value_is_of_launch(c, *rate))
        attn_add_require(
            c->a, (AuRequire){.holds = attn_op2(
                                  c->a, AU_OP_AND, attn_op2(c->a, AU_OP_LE, zero, rate->e, span),
                                  attn_op2(c->a, AU_OP_LT, rate->e, one, span), span)});
    else
        rate->e = attn_op2(c->a, AU_OP_MAX, rate->e, zero, span);
    return true;
}

/* p / (1 - rate) or 0. The seed is 64 bits wide, which no value of the language is: it is named, not computed. */
static AuValue dropout(AuCheck *c, const AuAst *e, const AuValue *args)
{
    const AuSpan seed_span = e->args.items[2]->span;
    const AuValue p = value_to_f32(c, args[0], e->args.items[0]->span, "the weight of dropout");
    AuValue rate = value_to_f32(c, args[1], e->args.items[1]->span, "the rate of dropout");
    if (p.type == AU_T_NONE || rate.type == AU_T_NONE || args[2].type == AU_T_NONE ||
        !rate_is_sound(c, &rate, e->args.items[1]->span))
        return value_none();
    const AuNode seed = *attn_at(c->a, args[2].e);
    int32_t where = 0;
    if (seed.op == AU_OP_PARAM && c->a->params[seed.integer].dtype == AU_DT_I64)
        where = seed.integer;
    else if (seed.op == AU_OP_INPUT && seed.count == 0 &&
             c->a->tensors[seed.integer].dtype == AU_DT_I64)
        where = ~seed.integer;
    else {
        check_error(c, AU_E0311, seed_span,
                    "the seed of dropout is an i64 param, or an input i64[]");
        return value_none();
    }
    const AuExpr low = attn_leaf(c->a, AU_OP_SEED_WORD, AU_T_I32, 0, 0, where, seed_span);
    const AuExpr high = attn_leaf(c->a, AU_OP_SEED_WORD, AU_T_I32, 0, 1, where, seed_span);
    return value_of(
        c, attn_node(c->a, AU_OP_DROPOUT, (AuExpr[]){p.e, rate.e, low, high}, 4, 0, 0, e->span));
}

static AuValue call_builtin(AuCheck *c, const AuAst *e, const AuBuiltin *f)
{
    AuValue args[5] = {{{0}, AU_T_NONE, 0, {0}}};
    const char *what = au_format(c->arena, "'%s'", f->name);
    if (!allowed(c, e, f)) return value_none();
    if (!count_is(c, e, f->least, f->most, NULL)) return check_arguments(c, e);
    if (f->build == AU_BUILD_DOT) return check_dot(c, e);
    for (uint32_t i = 0; i < e->args.count; i++) args[i] = check_expr(c, e->args.items[i]);
    switch (f->build) {
    case AU_BUILD_MAP: return map(c, e, f, args, what);
    case AU_BUILD_NUM: return num(c, e, f, args, what);
    case AU_BUILD_CLAMP: return clamp(c, e, args, what);
    case AU_BUILD_WHERE: return choose(c, e, args);
    case AU_BUILD_RELU:
    case AU_BUILD_ELU:
    case AU_BUILD_SILU:
    case AU_BUILD_GELU: return activation(c, e, f->build, args[0], what);
    case AU_BUILD_CAST: return cast(c, e, f, args[0]);
    case AU_BUILD_KEYS: return keys(c, e, f, args[0], what);
    case AU_BUILD_SUM:
    case AU_BUILD_MEAN:
    case AU_BUILD_L2NORM:
    case AU_BUILD_RMSNORM:
    case AU_BUILD_ROPE:
    case AU_BUILD_ROPE_INTERLEAVED: return check_row_function(c, e, f, args);
    case AU_BUILD_DROPOUT: return dropout(c, e, args);
    case AU_BUILD_DOT: break; /* above: its arguments are no values */
    }
    return value_none();
}

/* ---- dot */

typedef struct DotSide {
    int32_t tensor;
    uint32_t count;
    uint8_t axes;
    AuExpr index[8];
} DotSide;

static bool dot_side(AuCheck *c, const AuAst *e, DotSide *side)
{
    const AuSymbol *s = check_tensor_symbol(c, e);
    if (!s || e->kind != AU_AST_INDEX) {
        check_error(c, AU_E0312, e->span,
                    "dot takes two tensors, each with indices for all axes but the last");
        return false;
    }
    const AuTensor tensor = c->a->tensors[s->index];
    if (tensor.rank == 0 || attn_type_of(tensor.dtype) != AU_T_F32) {
        check_error(c, AU_E0312, e->span,
                    "dot contracts rows of numbers; '%s' is no tensor of f32, f16 or bf16 rows",
                    s->name);
        return false;
    }
    *side = (DotSide){.tensor = s->index, .count = tensor.rank - 1};
    if (!check_indices(c, e, &tensor, side->count, side->index)) return false;
    for (uint32_t i = 0; i < side->count; i++) side->axes |= attn_at(c->a, side->index[i])->axes;
    return true;
}

/* dot(x[.., q_idx], y[.., kv_idx]): a row that depends on the query with one that depends on the key, in either order. */
AuValue check_dot(AuCheck *c, const AuAst *e)
{
    DotSide x, y;
    const bool first = dot_side(c, e->args.items[0], &x),
               second = dot_side(c, e->args.items[1], &y);
    if (!first || !second) return value_none();
    if (x.axes & AU_AX_KV && !(y.axes & AU_AX_KV)) {
        const DotSide swap = x;
        x = y;
        y = swap;
    }
    if (x.axes & AU_AX_KV || y.axes & AU_AX_Q) {
        AuDiag *d = check_error(
            c, AU_E0312, e->span,
            "dot takes a row that depends on the query (q_idx) and one that depends on the "
            "key (kv_idx), "
            "not on both");
        au_add_note(
            c->diags, d, (AuSpan){0},
            "rows chosen by the distance of a pair: multiply before the call (qr = q r', of axes "
            "[B, H, S, R]), and read qr[b, h, q_idx, clamp(q_pos - kv_idx, 0, R - 1)]");
        return value_none();
    }
    const AuTensor *tx = &c->a->tensors[x.tensor], *ty = &c->a->tensors[y.tensor];
    if (tx->axes[x.count].i != ty->axes[y.count].i) {
        AuDiag *d =
            check_error(c, AU_E0312, e->span, "dot contracts the last axes, which differ in name");
        if (tx->span.source) au_add_note(c->diags, d, tx->span, "'%s' is declared here", tx->name);
        if (ty->span.source) au_add_note(c->diags, d, ty->span, "'%s' is declared here", ty->name);
        return value_none();
    }
    AuExpr index[16];
    memcpy(index, x.index, x.count * sizeof *index);
    memcpy(index + x.count, y.index, y.count * sizeof *index);
    return value_of(
        c, attn_node(c->a, AU_OP_DOT, index, x.count + y.count, x.tensor, y.tensor, e->span));
}

/* ---- all calls */

static void unknown_function(AuCheck *c, const AuAst *e)
{
    c->wrong =
        true; /* also where nothing is said, because the name stands in a statement with an error */
    const AuSymbol *s = scope_find(c->scope, e->name);
    if (s) {
        AuDiag *d =
            check_error(c, AU_E0211, e->name_span, "'%s' is %s, not a function", e->name, s->what);
        if (s->span.source) au_add_note(c->diags, d, s->span, "'%s' is declared here", e->name);
        return;
    }
    if (refuse_word(c, e->name, e->name_span) || nameset_has(c->module->script->lost, e->name))
        return;
    AuGuess guess = guess_new(c, e->name);
    guess_set(&guess, c->module->fns);
    for (uint32_t i = 0; builtin_at(i); i++) guess_try(&guess, builtin_at(i)->name);
    AuDiag *d = check_error(c, AU_E0202, e->name_span, "unknown function '%s'", e->name);
    guess_add_note(c, d, &guess);
}

AuValue check_call(AuCheck *c, const AuAst *e)
{
    AuItem *own = nameset_get(c->module->fns, e->name), *library = nameset_get(c->std.fns, e->name);
    const AuBuiltin *f = builtin_find(e->name);
    if (own) return inline_function(c, e, c->module, own);
    if (f) return call_builtin(c, e, f);
    if (library) return inline_function(c, e, &c->std, library);
    unknown_function(c, e);
    return check_arguments(c, e);
}
