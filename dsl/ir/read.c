/* read.c - reads the text form of the attention IR (docs/dev/attention-ir.md), line by line. A line
 * that cannot be read is reported once and left out, so that all errors of a text come in one run.
 * What was read is verified: the reader returns a valid attention or none. */
#include "read.h"

#include <string.h>

enum { MAX_RANK = 8 };

static void end_line(AuReader *r)
{
    const char c = attn_read_peek(r);
    if (!r->failed && c != '\n' && c != 0)
        attn_read_error(r, AU_E0901, r->at, "expected the end of the line, found '%c'", c);
    while (r->at < r->length && r->text[r->at] != '\n') r->at++;
    r->failed = false;
    r->depth = 0;
}

/* To the first word of the next line that is not empty; false at the end. */
static bool next_line(AuReader *r)
{
    while (attn_read_peek(r) == '\n') r->at++;
    return r->at < r->length && r->text[r->at] != 0 && r->diags->errors < 50;
}

static void clear_lets(AuReader *r) { r->let_count = 0; }

/* `$n = value`, lets being numbered in order. */
static bool accept_let(AuReader *r)
{
    const uint32_t begin = r->at;
    int64_t n;
    if (!attn_read_accept(r, "$")) return false;
    if (attn_read_int(r, &n) && n != (int64_t)r->let_count + 1)
        attn_read_error(r, AU_E0906, begin, "expected $%u, found $%lld", r->let_count + 1,
                        (long long)n);
    AuExpr e = {0};
    if (!r->failed && attn_read_expect(r, "=")) e = attn_read_expr(r);
    AU_PUSH(r->a->arena, r->lets, r->let_count, r->let_capacity, e);
    end_line(r);
    return true;
}

/* Once each: what was set before must be none. */
static void set_once(AuReader *r, AuExpr *at, AuExpr value, uint32_t begin, const char *what)
{
    if (r->failed) return;
    if (at->i)
        attn_read_error(r, AU_E0906, begin, "%s is given twice", what);
    else
        *at = value;
}

/* [count] values, separated by commas. */
static void read_list(AuReader *r, AuExpr **values, uint32_t count, const char *what)
{
    for (uint32_t i = 0; i < count && !r->failed; i++) {
        if (i && !attn_read_expect(r, ",")) return;
        attn_read_peek(r);
        const uint32_t begin = r->at;
        const AuExpr e = attn_read_expr(r);
        set_once(r, values[i], e, begin, what);
    }
}

/* Where an assignment of a clause goes; NULL: there is no such name. */
typedef AuExpr *(*FindTarget)(AuReader *r, const char *name);

/* The inside of braces: lets, assignments where the clause has targets, `return` values. */
static void read_block(AuReader *r, AuExpr **values, uint32_t count, const char *what,
                       FindTarget find)
{
    end_line(r);
    clear_lets(r);
    while (next_line(r) && !attn_read_accept(r, "}")) {
        if (accept_let(r)) continue;
        const uint32_t begin = r->at;
        if (attn_read_accept_word(r, "return")) {
            read_list(r, values, count, what);
        } else {
            const char *name = attn_read_name(r);
            AuExpr *target = name && find ? find(r, name) : NULL;
            if (!target)
                attn_read_error(r, AU_E0902, begin, "expected '$n =', 'return' or a name to set");
            else if (attn_read_expect(r, "="))
                set_once(r, target, attn_read_expr(r), begin, name);
        }
        end_line(r);
    }
    clear_lets(r);
}

/* `= values` or a block. */
static void read_value(AuReader *r, AuPlace place, AuExpr **values, uint32_t count,
                       const char *what)
{
    r->place = place;
    if (attn_read_accept(r, "{"))
        read_block(r, values, count, what, NULL);
    else if (attn_read_expect(r, "="))
        read_list(r, values, count, what);
}

/* ---- declarations */

static bool read_dtype(AuReader *r, AuDtype *dtype)
{
    static const char *const words[] = {"operand", "f32", "f16", "bf16",
                                        "i32",     "i64", "u8",  "bool"};
    for (uint32_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (!attn_read_accept_word(r, words[i])) continue;
        *dtype = (AuDtype)i;
        return true;
    }
    attn_read_error(r, AU_E0901, r->at, "expected operand, f32, f16, bf16, i32, i64, u8 or bool");
    return false;
}

static bool is_taken(const AuReader *r, const char *name)
{
    const AuAttn *a = r->a;
    bool taken = attn_size_of(a, name) >= 0;
    for (uint32_t i = 0; i < a->tensor_count; i++) taken |= a->tensors[i].name == name;
    for (uint32_t i = 0; i < a->param_count; i++) taken |= a->params[i].name == name;
    return taken;
}

static const char *read_new_name(AuReader *r)
{
    attn_read_peek(r);
    const uint32_t begin = r->at;
    const char *name = attn_read_name(r);
    if (name && is_taken(r, name))
        attn_read_error(r, AU_E0906, begin, "'%s' is declared twice", name);
    return r->failed ? NULL : name;
}

static void read_size(AuReader *r, uint32_t begin)
{
    int64_t number = 0, fixed = -1;
    const char *name = NULL;
    if (attn_read_accept(r, "#")) {
        if (attn_read_int(r, &number) && number != r->a->size_count)
            attn_read_error(r, AU_E0906, begin, "expected #%u", r->a->size_count);
    } else
        name = read_new_name(r);
    if (!r->failed && attn_read_accept(r, "=") && attn_read_int(r, &fixed) && fixed < 0)
        attn_read_error(r, AU_E0905, begin, "a size is not negative");
    if (!r->failed) attn_add_size(r->a, name, fixed, (AuSpan){r->source, begin, r->at});
}

static void read_param(AuReader *r, uint32_t begin)
{
    AuParam param = {.name = read_new_name(r)};
    if (r->failed || !attn_read_expect(r, ":") || !read_dtype(r, &param.dtype)) return;
    param.span = (AuSpan){r->source, begin, r->at};
    const char c = attn_read_peek(r);
    if (c == '=' || c == '{')
        read_value(r, AU_PLACE_DEFAULT, (AuExpr *[]){&param.default_value}, 1, param.name);
    if (!r->failed) attn_add_param(r->a, param);
}

static void read_tensor(AuReader *r, AuTensorRole role, uint32_t begin)
{
    AuAttn *a = r->a;
    AuTensor t = {.name = read_new_name(r), .role = role};
    int64_t first, last;
    if (r->failed) return;
    if (role == AU_ROLE_V && attn_read_accept(r, "=")) {
        if (!attn_read_int(r, &first) || !attn_read_expect(r, ":") || !attn_read_int(r, &last))
            return;
        if (first < 0 || last <= first || last > INT32_MAX) {
            attn_read_error(r, AU_E0905, begin, "the slice of the keys is empty or too large");
            return;
        }
        a->v_in_k = true;
        a->v_first = (int32_t)first;
        a->v_last = (int32_t)last;
    }
    if (!attn_read_expect(r, ":") || !read_dtype(r, &t.dtype) || !attn_read_expect(r, "[")) return;
    r->place = AU_PLACE_SIZE_AXIS;
    while (!r->failed && !attn_read_accept(r, "]")) {
        if (t.rank == MAX_RANK)
            attn_read_error(r, AU_E0903, begin, "a tensor has at most %d axes", MAX_RANK);
        else
            t.axes[t.rank++] = attn_read_expr(r);
        if (!r->failed && !attn_read_accept(r, ",") && attn_read_peek(r) != ']')
            attn_read_expect(r, "]");
    }
    if (r->failed) return;
    t.grad = attn_read_accept_word(r, "grad");
    t.span = (AuSpan){r->source, begin, r->at};
    attn_add_tensor(a, t);
}

static void read_require(AuReader *r, uint32_t begin)
{
    AuExpr e = {0};
    read_value(r, AU_PLACE_REQUIRE, (AuExpr *[]){&e}, 1, "require");
    if (e.i) attn_add_require(r->a, (AuRequire){.holds = e, .span = {r->source, begin, r->at}});
}

/* ---- online functions */

static AuExpr *find_next(AuReader *r, const char *name)
{
    AuOnline *o = r->a->online;
    for (uint32_t i = 0; i < o->scale_count; i++)
        if (o->scales[i].name == name) return &o->scales[i].next;
    return NULL;
}

static AuExpr *find_combined(AuReader *r, const char *name)
{
    AuOnline *o = r->a->online;
    for (uint32_t i = 0; i < o->scale_count; i++)
        if (o->scales[i].name == name) return &o->scales[i].combined;
    return NULL;
}

static AuExpr *find_final(AuReader *r, const char *name)
{
    AuOnline *o = r->a->online;
    for (uint32_t i = 0; i < o->final_count; i++)
        if (o->finals[i].name == name) return &o->finals[i].value;
    return NULL;
}

static void read_clause(AuReader *r, AuPlace place, AuExpr **values, uint32_t count,
                        const char *what, FindTarget find)
{
    r->place = place;
    if (attn_read_expect(r, "{")) read_block(r, values, count, what, find);
}

static void read_rowscale(AuReader *r, AuOnline *o, uint32_t begin)
{
    AuRowScale scale = {.name = attn_read_name(r)};
    if (scale.name && find_next(r, scale.name))
        attn_read_error(r, AU_E0906, begin, "row scale '%s' is declared twice", scale.name);
    if (r->failed) return;
    read_value(r, AU_PLACE_START, (AuExpr *[]){&scale.start}, 1, scale.name);
    scale.span = (AuSpan){r->source, begin, r->at};
    AU_PUSH(r->a->arena, o->scales, o->scale_count, r->scale_capacity, scale);
}

static void read_final(AuReader *r, AuOnline *o, uint32_t begin, bool kept)
{
    AuFinal final = {.name = attn_read_name(r), .kept = kept};
    if (final.name && find_final(r, final.name))
        attn_read_error(r, AU_E0906, begin, "final '%s' is declared twice", final.name);
    if (r->failed) return;
    final.span = (AuSpan){r->source, begin, r->at};
    AU_PUSH(r->a->arena, o->finals, o->final_count, r->final_capacity, final);
}

static void read_online_line(AuReader *r, AuOnline *o)
{
    const uint32_t begin = r->at;
    if (attn_read_accept_word(r, "rowscale"))
        read_rowscale(r, o, begin);
    else if (attn_read_accept_word(r, "final"))
        read_final(r, o, begin, false);
    else if (attn_read_accept_word(r, "kept"))
        read_final(r, o, begin, true);
    else if (attn_read_accept_word(r, "online_fwd"))
        read_clause(r, AU_PLACE_P, (AuExpr *[]){&o->weight, &o->rescale}, 2, "online_fwd",
                    find_next);
    else if (attn_read_accept_word(r, "epilogue"))
        read_clause(r, AU_PLACE_EPILOGUE, (AuExpr *[]){&o->epilogue}, 1, "epilogue", find_final);
    else if (attn_read_accept_word(r, "forward"))
        read_value(r, AU_PLACE_FORWARD, (AuExpr *[]){&o->forward}, 1, "forward");
    else if (attn_read_accept_word(r, "backward"))
        read_value(r, AU_PLACE_BACKWARD, (AuExpr *[]){&o->backward}, 1, "backward");
    else if (attn_read_accept_word(r, "combine")) {
        o->has_combine = true;
        o->combine_derived = attn_read_accept_word(r, "derived");
        read_clause(r, AU_PLACE_COMBINE_A, (AuExpr *[]){&o->combine_a, &o->combine_b}, 2, "combine",
                    find_combined);
    } else
        attn_read_error(r, AU_E0901, begin, "expected a part of an online function");
}

static void read_online(AuReader *r, uint32_t begin)
{
    AuAttn *a = r->a;
    AuOnline *o = AU_NEW(a->arena, AuOnline);
    o->name = attn_read_name(r);
    o->span = (AuSpan){r->source, begin, r->at};
    if (a->online) attn_read_error(r, AU_E0906, begin, "online is given twice");
    if (r->failed || !attn_read_expect(r, "{")) return;
    a->online = o;
    r->scale_capacity = r->final_capacity = 0;
    end_line(r);
    while (next_line(r) && !attn_read_accept(r, "}")) {
        read_online_line(r, o);
        end_line(r);
    }
}

/* ---- recurrences */

static void read_linear_line(AuReader *r, AuLinear *l)
{
    const struct {
        const char *word;
        AuPlace place;
        AuExpr *at;
    } slots[] = {{"q", AU_PLACE_LIN_Q, &l->q},
                 {"k", AU_PLACE_LIN_K, &l->k},
                 {"v", AU_PLACE_LIN_V, &l->v},
                 {"decay", AU_PLACE_LIN_DECAY, &l->decay},
                 {"erase", AU_PLACE_LIN_ERASE, &l->erase},
                 {"write", AU_PLACE_LIN_WRITE, &l->write},
                 {"bonus", AU_PLACE_LIN_BONUS, &l->bonus},
                 {"norm", AU_PLACE_LIN_NORM, &l->norm},
                 {"skip", AU_PLACE_LIN_SKIP, &l->skip}};
    const uint32_t begin = r->at;
    for (size_t i = 0; i < sizeof slots / sizeof *slots; i++) {
        if (!attn_read_accept_word(r, slots[i].word)) continue;
        AuExpr *at = slots[i].at;
        read_value(r, slots[i].place, &at, 1, slots[i].word);
        return;
    }
    if (attn_read_accept_word(r, "lowrank"))
        read_value(r, AU_PLACE_LIN_A, (AuExpr *[]){&l->lowrank_a, &l->lowrank_b}, 2, "lowrank");
    else if (attn_read_accept_word(r, "read") && attn_read_accept_word(r, "before"))
        l->read_before = true;
    else
        attn_read_error(r, AU_E0901, begin, "expected a slot of a recurrence");
}

static void read_linear(AuReader *r, uint32_t begin)
{
    AuLinear *l = AU_NEW(r->a->arena, AuLinear);
    l->span = (AuSpan){r->source, begin, r->at};
    if (r->a->linear) attn_read_error(r, AU_E0906, begin, "linear is given twice");
    if (r->failed || !attn_read_expect(r, "{")) return;
    r->a->linear = l;
    end_line(r);
    while (next_line(r) && !attn_read_accept(r, "}")) {
        read_linear_line(r, l);
        end_line(r);
    }
}

/* ---- the attention */

static bool read_mod(AuReader *r)
{
    AuAttn *a = r->a;
    const struct {
        AuPlace place;
        AuExpr *at;
    } mods[] = {{AU_PLACE_Q_MOD, &a->q_mod},    {AU_PLACE_K_MOD, &a->k_mod},
                {AU_PLACE_V_MOD, &a->v_mod},    {AU_PLACE_SCORE_MOD, &a->score_mod},
                {AU_PLACE_MASK, &a->mask},      {AU_PLACE_WEIGHT_MOD, &a->weight_mod},
                {AU_PLACE_OUT_MOD, &a->out_mod}};
    for (size_t i = 0; i < sizeof mods / sizeof *mods; i++) {
        const char *word = attn_place_info(mods[i].place)->text;
        if (!attn_read_accept_word(r, word)) continue;
        AuExpr *at = mods[i].at;
        read_value(r, mods[i].place, &at, 1, word);
        return true;
    }
    return false;
}

static void read_item(AuReader *r)
{
    static const char *const roles[] = {"query", "key", "value", "input"};
    const uint32_t begin = r->at;
    for (uint32_t i = 0; i < 4; i++) {
        if (!attn_read_accept_word(r, roles[i])) continue;
        read_tensor(r, (AuTensorRole)i, begin);
        return;
    }
    if (attn_read_accept_word(r, "size"))
        read_size(r, begin);
    else if (attn_read_accept_word(r, "param"))
        read_param(r, begin);
    else if (attn_read_accept_word(r, "require"))
        read_require(r, begin);
    else if (attn_read_accept_word(r, "online"))
        read_online(r, begin);
    else if (attn_read_accept_word(r, "linear"))
        read_linear(r, begin);
    else if (!read_mod(r))
        attn_read_error(r, AU_E0901, begin, "expected a part of an attention");
}

AuAttn *attn_read(AuArena *arena, AuNames *names, AuDiags *diags, uint32_t source)
{
    const AuSource *s = &diags->sources[source];
    const uint32_t errors = diags->errors;
    AuReader r = {
        .names = names, .diags = diags, .source = source, .text = s->text, .length = s->length};
    r.a = attn_new(arena, "");
    next_line(&r);
    const uint32_t begin = r.at;
    if (!attn_read_accept_word(&r, "attention")) {
        attn_read_error(&r, AU_E0901, begin, "expected 'attention'");
        return NULL;
    }
    r.a->name = attn_read_name(&r);
    r.a->span = (AuSpan){source, begin, r.at};
    if (r.failed || !attn_read_expect(&r, "{")) return NULL;
    end_line(&r);
    bool closed = false;
    while (next_line(&r) && !(closed = attn_read_accept(&r, "}"))) {
        if (accept_let(&r)) continue;
        read_item(&r);
        end_line(&r);
        clear_lets(&r);
    }
    if (!closed && diags->errors == errors)
        attn_read_error(&r, AU_E0901, r.at, "expected '}' at the end of the attention");
    if (diags->errors != errors || !attn_verify(r.a, diags)) return NULL;
    return r.a;
}
