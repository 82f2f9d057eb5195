/* mods.c - mods of an attention, and bodies of whatever has one. */
#include "check.h"

#include <string.h>

/* ---- signatures */

// clang-format off
#define COUNT(...) (uint32_t)(sizeof((const char *[]){__VA_ARGS__}) / sizeof(const char *))
static const AuSignature mods[] = {
#define MOD(NAME, ...) {#NAME, 1, COUNT(__VA_ARGS__), {__VA_ARGS__}},
#include "mods.def"
};
static const AuSignature clauses[] = {
#define CLAUSE(NAME, returned, ...) {#NAME, returned, COUNT(__VA_ARGS__), {__VA_ARGS__}},
#include "mods.def"
};
#undef COUNT
// clang-format on

const AuSignature *mod_at(uint32_t n) { return n < sizeof mods / sizeof *mods ? &mods[n] : NULL; }
const AuSignature *clause_at(uint32_t n)
{
    return n < sizeof clauses / sizeof *clauses ? &clauses[n] : NULL;
}

const AuSignature *mod_find(const char *name)
{
    for (uint32_t i = 0; mod_at(i); i++)
        if (strcmp(mod_at(i)->name, name) == 0) return mod_at(i);
    return NULL;
}

const AuSignature *clause_find(const char *name)
{
    for (uint32_t i = 0; clause_at(i); i++)
        if (strcmp(clause_at(i)->name, name) == 0) return clause_at(i);
    return NULL;
}

/* ---- bodies */

/* In a loop a `let` of the body may be set anew: the next turn sees the new value. */
static bool assign_let(AuCheck *c, const AuStmt *stmt, AuSymbol *s, AuValue v)
{
    if (!c->loops || !s || s->kind != AU_SYM_VALUE || !s->assignable) return false;
    const AuType was = s->value.type;
    if (was != AU_T_NONE && v.type != AU_T_NONE && (was == AU_T_BOOL) != (v.type == AU_T_BOOL)) {
        AuDiag *d = check_error(c, AU_E0301, stmt->value->span, "'%s' is %s, this is %s", s->name,
                                value_type_text(was), value_type_text(v.type));
        au_add_note(c->diags, d, s->span, "'%s' is declared here", s->name);
        v = value_none();
    }
    s->value = was == AU_T_NONE ? value_none() : v; /* what is wrong stays it */
    return true;
}

static void assign(AuCheck *c, const AuStmt *stmt)
{
    const AuValue v = check_expr(c, stmt->value);
    AuSymbol *s = scope_find(c->scope, stmt->name.text);
    if (assign_let(c, stmt, s, v)) return;
    const bool online = c->site >= AU_SITE_FWD && c->site <= AU_SITE_COMBINE;
    const bool state = s && (s->kind == AU_SYM_ROWSCALE || s->kind == AU_SYM_FINAL);
    if (state && s->assignable) {
        s->value = value_to_f32(c, v, stmt->value->span, s->what);
        if (s->value.type && value_axes(c, s->value) & (AU_AX_KV | AU_AX_C)) {
            const bool channel = value_axes(c, s->value) & AU_AX_C;
            AuDiag *d = check_error(c, AU_E0405, stmt->value->span,
                                    "'%s' has one value for each row, this has one for each %s",
                                    stmt->name.text, channel ? "channel" : "key");
            if (!channel)
                au_add_note(c->diags, d, (AuSpan){0},
                            "rowmax and rowsum reduce the keys of a tile to one value");
            s->value = value_none();
        }
        s->assigned = true;
    } else if (!online) {
        refuse_assignment(c, stmt, s);
    } else if (!s && !nameset_has(c->module->script->lost, stmt->name.text)) {
        AuGuess guess = guess_new(c, stmt->name.text);
        guess_scope(&guess, c->scope);
        AuDiag *d = check_error(c, AU_E0403, stmt->name.span,
                                "'%s' is neither a row scale nor a final of this online function",
                                stmt->name.text);
        guess_add_note(c, d, &guess);
    } else if (s) {
        AuDiag *d = state ? check_error(c, AU_E0403, stmt->name.span,
                                        "'%s' is %s, which is not assigned in %s", s->name, s->what,
                                        site_text(c->site))
                          : check_error(c, AU_E0403, stmt->name.span,
                                        "'%s' is %s; only row scales and finals are assigned",
                                        s->name, s->what);
        if (s->span.source) au_add_note(c->diags, d, s->span, "'%s' is declared here", s->name);
    }
}

static void check_let(AuCheck *c, const AuStmt *stmt)
{
    const AuValue v = check_expr(c, stmt->value);
    AuSymbol *s = scope_declare(c, c->scope, AU_SYM_VALUE, stmt->name, "a let");
    s->value = v;
    s->assignable = true;
}

/* A bound of a loop: a number, or the size of an axis that the script fixes. */
static bool bound_of(AuCheck *c, const AuAst *e, int64_t *bound)
{
    const AuValue v = check_expr(c, e);
    if (v.type == AU_T_NONE) return false;
    if (value_constant(c, v, bound)) return true;
    const AuNode *node = attn_at(c->a, v.e);
    if (node->op == AU_OP_SIZE && c->a->sizes[node->integer].fixed > 0) {
        *bound = c->a->sizes[node->integer].fixed;
        return true;
    }
    check_error(c, AU_E0508, e->span,
                "the bounds of a loop are integers that are known when compiling");
    return false;
}

static void check_statement(AuCheck *c, const AuStmt *stmt);

/* Before anything is written out: loops within one another take their turns times each other. */
static bool turns_are_few(AuCheck *c, const AuStmt *stmt, int64_t turns)
{
    const int64_t together = c->turns ? c->turns * turns : turns;
    if (turns > AU_MOST_TURNS) {
        check_error(c, AU_E0508, stmt->value->span,
                    "a loop is written out: it has at most %d turns, this one has %lld",
                    AU_MOST_TURNS, (long long)turns);
        return false;
    }
    if (together <= AU_MOST_TURNS_TOGETHER) return true;
    check_error(c, AU_E0508, stmt->value->span,
                "loops are written out: within one another they have at most %d turns together, "
                "with this one they are %lld",
                AU_MOST_TURNS_TOGETHER, (long long)together);
    c->gave_up = true; /* said once, not in each turn of the loops around */
    return false;
}

/* Written out, turn after turn. */
static void check_loop(AuCheck *c, const AuStmt *stmt)
{
    int64_t low, high;
    if (!bound_of(c, stmt->value->args.items[0], &low) ||
        !bound_of(c, stmt->value->args.items[1], &high) || !turns_are_few(c, stmt, high - low))
        return;
    AuScope *outer = c->scope;
    const uint32_t around = c->turns;
    c->loops++;
    if (high > low) c->turns = (around ? around : 1) * (uint32_t)(high - low);
    for (int64_t turn = low; turn < high && check_spend(c, stmt->span); turn++) {
        c->scope = scope_new(c, outer);
        scope_declare(c, c->scope, AU_SYM_VALUE, stmt->name, "the number of a loop")->value =
            value_int(c, (int32_t)turn, stmt->name.span);
        for (uint32_t i = 0; i < stmt->body->count; i++) check_statement(c, &stmt->body->stmts[i]);
    }
    c->loops--;
    c->turns = around;
    c->scope = outer;
}

static void check_statement(AuCheck *c, const AuStmt *stmt)
{
    switch (stmt->kind) {
    case AU_STMT_LET: check_let(c, stmt); break;
    case AU_STMT_ASSIGN: assign(c, stmt); break;
    case AU_STMT_FOR: check_loop(c, stmt); break;
    case AU_STMT_RETURN: break; /* of the body: check_body */
    }
}

uint32_t check_body(AuCheck *c, const AuItem *function, AuValue *out, uint32_t most)
{
    const AuBody *body = function->body;
    AuScope *outer = c->scope;
    const uint32_t loops = c->loops; /* of the body from which this one is called */
    uint32_t returned = 0;
    c->scope = scope_new(c, outer);
    c->loops = 0;
    for (uint32_t i = 0; i < body->count; i++) {
        const AuStmt *stmt = &body->stmts[i];
        check_statement(c, stmt);
        if (stmt->kind == AU_STMT_RETURN) returned = stmt->values.count;
        for (uint32_t n = 0; n < stmt->values.count; n++) {
            const AuValue v = check_expr(c, stmt->values.items[n]);
            if (n < most) out[n] = v;
        }
    }
    c->loops = loops;
    c->scope = outer;
    return body->broken ? 0 : returned;
}

/* ---- mods */

static AuSite site_of(const AuSignature *sig)
{
    static const AuSite sites[] = {AU_SITE_Q_MOD,     AU_SITE_K_MOD, AU_SITE_V_MOD,
                                   AU_SITE_SCORE_MOD, AU_SITE_MASK,  AU_SITE_WEIGHT_MOD,
                                   AU_SITE_OUT_MOD};
    return sites[sig - mods];
}

static AuExpr *target_of(AuAttn *a, AuSite site)
{
    switch (site) {
    case AU_SITE_Q_MOD: return &a->q_mod;
    case AU_SITE_K_MOD: return &a->k_mod;
    case AU_SITE_V_MOD: return &a->v_mod;
    case AU_SITE_OUT_MOD: return &a->out_mod;
    case AU_SITE_SCORE_MOD: return &a->score_mod;
    case AU_SITE_MASK: return &a->mask;
    default: return &a->weight_mod;
    }
}

/* The leaf that the first parameter stands for. */
static AuValue subject(AuCheck *c, AuSpan span)
{
    const uint8_t pair = AU_AX_B | AU_AX_H | AU_AX_Q | AU_AX_KV;
    switch (c->site) {
    case AU_SITE_SCORE_MOD:
        return value_of(c, attn_leaf(c->a, AU_OP_SCORE, AU_T_F32, pair, 0, 0, span));
    case AU_SITE_WEIGHT_MOD:
        return value_of(c, attn_leaf(c->a, AU_OP_WEIGHT, AU_T_F32, pair, 0, 0, span));
    case AU_SITE_K_MOD:
        return value_of(c, attn_leaf(c->a, AU_OP_ELEMENT, AU_T_F32,
                                     attn_element_axes(AU_PLACE_K_MOD), 0, 0, span));
    case AU_SITE_V_MOD:
        return value_of(c, attn_leaf(c->a, AU_OP_ELEMENT, AU_T_F32,
                                     attn_element_axes(AU_PLACE_V_MOD), 0, 0, span));
    default:
        return value_of(c, attn_leaf(c->a, AU_OP_ELEMENT, AU_T_F32,
                                     attn_element_axes(AU_PLACE_Q_MOD), 0, 0, span));
    }
}

/* "none may take the name that belongs to another place": nearly always an exchange or an omission. */
static bool belongs_elsewhere(const AuSignature *sig, uint32_t n, const char *name)
{
    if (strcmp(sig->params[n], name) == 0) return false;
    for (uint32_t i = 0; i < sig->count; i++)
        if (strcmp(sig->params[i], name) == 0) return true;
    return scope_is_always_there(name);
}

/* i and j are what most call the query and the key: where the batch and the head were left out in front, all that follows is another's. */
static void warn_of_left_out(AuCheck *c, const AuSignature *sig, uint32_t n, AuAstName name)
{
    const char *role = sig->params[n];
    const bool is_letter = strcmp(name.text, "i") == 0 || strcmp(name.text, "j") == 0;
    if (!is_letter || (strcmp(role, "b") && strcmp(role, "h") && strcmp(role, "kv_h"))) return;
    AuText places = {.arena = c->arena};
    for (uint32_t k = 0; k < sig->count; k++)
        au_text_add(&places, "%s%s", k ? ", " : "", sig->params[k]);
    AuDiag *d = check_warning(c, AU_W0303, name.span,
                              "parameter %u of %s is '%s' by its place, '%s' looks like an index "
                              "of queries or keys",
                              n + 1, sig->name, role, name.text);
    au_add_note(c->diags, d, (AuSpan){0}, "the places are %s(%s)", sig->name, au_text_str(&places));
}

static bool bind_param(AuCheck *c, AuScope *scope, const AuSignature *sig, uint32_t n,
                       AuAstName name)
{
    const char *role = sig->params[n];
    const AuSymbol *index = scope_find(c->outside, au_name(c->names, role));
    const bool is_index = index && index->kind == AU_SYM_INDEX;
    const char *what = is_index ? index->what : "a parameter";
    AuSymbol *s;
    if (belongs_elsewhere(sig, n, name.text)) {
        AuDiag *d =
            check_error(c, AU_E0205, name.span,
                        "parameter %u of %s is '%s' by its place, '%s' is the name of another",
                        n + 1, sig->name, role, name.text);
        au_add_note(
            c->diags, d, (AuSpan){0},
            "parameters are positional, their names are free, trailing ones may be left out");
        return false;
    }
    warn_of_left_out(c, sig, n, name);
    if (is_index && strcmp(role, name.text) == 0)
        s = scope_shadow(c, scope, AU_SYM_INDEX, name, what);
    else
        s = scope_declare(c, scope, is_index ? AU_SYM_INDEX : AU_SYM_VALUE, name, what);
    if (is_index)
        s->site_bit = index->site_bit;
    else if (n == 0)
        s->value = subject(c, name.span);
    else
        s->value = value_index(c, AU_AX_C, name.span);
    return true;
}

static bool sees_score(const AuSignature *sig, uint32_t n, const char *name)
{
    return n == 0 && strcmp(sig->name, "mask") == 0 &&
           (strcmp(name, "score") == 0 || strcmp(name, "scores") == 0);
}

static void unknown_mod(AuCheck *c, const AuItem *mod)
{
    AuGuess guess = guess_new(c, mod->name.text);
    if (clause_find(mod->name.text)) {
        AuDiag *d =
            check_error(c, AU_E0204, mod->name.span,
                        "'%s' is a clause of online functions, not of attentions", mod->name.text);
        au_add_note(c->diags, d, (AuSpan){0},
                    "write it in 'online NAME { ... }' at the top of the file and use it here with "
                    "'online NAME;'");
        return;
    }
    if (refuse_word(c, mod->name.text, mod->name.span)) return;
    for (uint32_t i = 0; mod_at(i); i++) guess_try(&guess, mod_at(i)->name);
    AuDiag *d = check_error(c, AU_E0204, mod->name.span, "unknown mod '%s'", mod->name.text);
    guess_add_note(c, d, &guess);
}

/* With a recurrence only out_mod has something to do. */
static bool goes_with_linear(AuCheck *c, const AuItem *mod, AuSite site)
{
    if (!c->linear || site == AU_SITE_OUT_MOD) return true;
    if (site == AU_SITE_MASK) {
        refuse_noncausal(c, mod->name.span,
                         "a recurrence has no mask: it is causal, token t sees the tokens up to t");
        return false;
    }
    AuDiag *d =
        check_error(c, AU_E0408, mod->name.span,
                    "'%s' does not go with linear, which has no matrix of scores", mod->name.text);
    au_add_note(c->diags, d, (AuSpan){0},
                "the slots q, k, v of linear change the rows; decay and out_mod do the rest");
    return false;
}

void check_mod(AuCheck *c, const AuItem *mod)
{
    const AuSignature *sig = mod_find(mod->name.text);
    AuValue v = value_none();
    bool wrong = false;
    if (!sig) {
        unknown_mod(c, mod);
        return;
    }
    if (!goes_with_linear(c, mod, site_of(sig))) return;
    c->site = site_of(sig);
    if (mod->params.count > sig->count)
        check_error(c, AU_E0206, mod->params.items[sig->count].span,
                    "%s has at most %u parameters, found %u", sig->name, sig->count,
                    mod->params.count);
    AuScope *scope = scope_new(c, c->outside);
    for (uint32_t i = 0; i < mod->params.count && i < sig->count; i++) {
        if (sees_score(sig, i, mod->params.items[i].text)) {
            refuse_mask_by_score(c, mod->params.items[i].span);
            return;
        }
        wrong |= !bind_param(c, scope, sig, i, mod->params.items[i]);
    }
    if (wrong) return; /* names would mean other things than they say */
    c->scope = scope;
    const uint32_t returned = check_body(c, mod, &v, 1);
    c->scope = c->outside;
    if (returned > 1)
        check_error(c, AU_E0317, mod->name.span, "%s returns one value, found %u", sig->name,
                    returned);
    if (v.type == AU_T_NONE) return;
    const AuStmt *last = &mod->body->stmts[mod->body->count - 1];
    const AuSpan span = last->values.items[0]->span;
    if (c->site != AU_SITE_MASK) {
        v = value_to_f32(c, v, span, sig->name);
    } else if (v.type != AU_T_BOOL) {
        AuDiag *d = check_error(c, AU_E0401, span, "a mask is a condition, found %s",
                                value_type_text(v.type));
        au_add_note(c->diags, d, (AuSpan){0},
                    "a pair takes part where the mask is true; what is added to a score belongs in "
                    "score_mod");
        return;
    }
    *target_of(c->a, c->site) = v.e;
}
