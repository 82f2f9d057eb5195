/* online.c - online functions: row scales, finals and clauses into an AuOnline, parameters substituted.
 * Every clause sees other values under the names of row scales and finals: online_fwd the state before the tile, the epilogue the
 * last state, forward the finals, combine only the two sides. Assignments follow each other: a name means what was assigned
 * last. */
#include "check.h"

#include <string.h>

enum { PAIR = AU_AX_B | AU_AX_H | AU_AX_Q | AU_AX_KV, ROW = AU_AX_B | AU_AX_H | AU_AX_Q };

typedef struct Online {
    AuCheck *c;
    const AuItem *item;
    AuOnline *out;
    AuScope *scope;
    AuSymbol **scales; /* one for each row scale, in order */
    AuSymbol **finals; /* one for each final or kept; a row scale's symbol where it is one */
} Online;

/* ---- declarations */

static void declare_scale(Online *o, const AuItem *item)
{
    AuCheck *c = o->c;
    c->site = AU_SITE_START;
    const AuValue start =
        value_to_f32(c, check_expr(c, item->value), item->value->span, "a row scale");
    AuSymbol *s = scope_declare(c, o->scope, AU_SYM_ROWSCALE, item->name, "a row scale");
    const uint32_t n = o->out->scale_count++;
    s->index = (int32_t)n;
    o->scales[n] = s;
    o->out->scales[n] =
        (AuRowScale){.name = item->name.text, .start = start.e, .span = item->name.span};
}

static void declare_final(Online *o, AuAstName name, bool kept)
{
    AuCheck *c = o->c;
    AuSymbol *s = scope_find(o->scope, name.text);
    if (s && s->is_final) {
        check_error(c, AU_E0203, name.span, "'%s' is final or kept already", name.text);
        return;
    }
    if (!s || s->kind != AU_SYM_ROWSCALE)
        s = scope_declare(c, o->scope, AU_SYM_FINAL, name, kept ? "kept" : "a final");
    s->is_final = true;
    const uint32_t n = o->out->final_count++;
    if (s->kind == AU_SYM_FINAL) s->index = (int32_t)n;
    o->finals[n] = s;
    o->out->finals[n] = (AuFinal){.name = name.text, .kept = kept, .span = name.span};
}

static uint32_t count_names(const AuItem *online, AuItemKind kind)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < online->items.count; i++) {
        const AuItem *item = online->items.items[i];
        if (item->kind == kind) n += kind == AU_ITEM_ROWSCALE ? 1 : item->params.count;
    }
    return n;
}

static void declare_state(Online *o)
{
    const AuItemList *items = &o->item->items;
    const uint32_t scales = count_names(o->item, AU_ITEM_ROWSCALE),
                   finals =
                       count_names(o->item, AU_ITEM_FINAL) + count_names(o->item, AU_ITEM_KEPT);
    o->scales = AU_NEW_ARRAY(o->c->arena, AuSymbol *, scales);
    o->out->scales = AU_NEW_ARRAY(o->c->arena, AuRowScale, scales);
    o->finals = AU_NEW_ARRAY(o->c->arena, AuSymbol *, finals);
    o->out->finals = AU_NEW_ARRAY(o->c->arena, AuFinal, finals);
    for (uint32_t i = 0; i < items->count; i++)
        if (items->items[i]->kind == AU_ITEM_ROWSCALE) declare_scale(o, items->items[i]);
    for (uint32_t i = 0; i < items->count; i++) {
        const AuItem *item = items->items[i];
        if (item->kind != AU_ITEM_FINAL && item->kind != AU_ITEM_KEPT) continue;
        for (uint32_t n = 0; n < item->params.count; n++)
            declare_final(o, item->params.items[n], item->kind == AU_ITEM_KEPT);
    }
}

/* ---- clauses */

static const AuItem *find_clause(const Online *o, const char *name)
{
    for (uint32_t i = 0; i < o->item->items.count; i++) {
        const AuItem *item = o->item->items.items[i];
        if (item->kind == AU_ITEM_MOD && strcmp(item->name.text, name) == 0) return item;
    }
    return NULL;
}

static const AuItem *wanted_clause(const Online *o, const char *name, AuText *lacking)
{
    const AuItem *clause = find_clause(o, name);
    if (!clause) au_text_add(lacking, "%s%s", lacking->length ? ", " : "", name);
    return clause;
}

/* What row scales and finals are in a clause. */
static void set_state(Online *o, AuSite site)
{
    AuCheck *c = o->c;
    const AuSpan none = {0};
    c->site = site;
    for (uint32_t i = 0; i < o->out->scale_count; i++) {
        AuSymbol *s = o->scales[i];
        const bool state = site == AU_SITE_FWD || site == AU_SITE_EPILOGUE;
        s->value =
            state ? value_of(c, attn_leaf(c->a, AU_OP_STATE, AU_T_F32, ROW, (int32_t)i, 0, none))
                  : value_none();
        s->assignable = site == AU_SITE_FWD || site == AU_SITE_COMBINE;
        s->assigned = false;
    }
    for (uint32_t i = 0; i < o->out->final_count; i++) {
        AuSymbol *s = o->finals[i];
        if (site == AU_SITE_FORWARD)
            s->value =
                value_of(c, attn_leaf(c->a, AU_OP_FINAL, AU_T_F32, ROW, (int32_t)i, 0, none));
        if (s->kind == AU_SYM_ROWSCALE) continue;
        if (site != AU_SITE_FORWARD) s->value = value_none();
        s->assignable = site == AU_SITE_EPILOGUE;
        s->assigned = false;
    }
}

/* What the n-th parameter of a clause stands for. */
static void bind_param(Online *o, AuScope *scope, const AuSignature *sig, uint32_t n,
                       AuAstName name)
{
    AuCheck *c = o->c;
    const bool side = c->site == AU_SITE_COMBINE;
    AuSymbol *s = scope_declare(c, scope, side ? AU_SYM_SIDE : AU_SYM_VALUE, name,
                                side ? "a side of combine" : "a parameter");
    if (side)
        s->index = (int32_t)n;
    else if (c->site == AU_SITE_EPILOGUE)
        s->value = value_of(c, attn_leaf(c->a, AU_OP_ELEMENT, AU_T_F32,
                                         attn_element_axes(AU_PLACE_EPILOGUE), 0, 0, name.span));
    else {
        const AuOp op = c->site != AU_SITE_BACKWARD         ? AU_OP_SCORE
                        : strcmp(sig->params[n], "dp") == 0 ? AU_OP_DWEIGHT
                                                            : AU_OP_WEIGHT;
        s->value = value_of(c, attn_leaf(c->a, op, AU_T_F32, PAIR, 0, 0, name.span));
    }
}

/* Where the n-th returned value stands. */
static AuSpan returned_span(const AuItem *clause, uint32_t n)
{
    const AuBody *body = clause->body;
    const AuStmt *last = &body->stmts[body->count - 1];
    return last->values.items[n < last->values.count ? n : 0]->span;
}

/* Evaluates a clause; its values, as f32, go to out. False: something was reported. */
static bool run_clause(Online *o, const AuItem *clause, AuSite site, AuValue *out)
{
    static const char *const wants[] = {"", "one value", "two values"};
    AuCheck *c = o->c;
    const AuSignature *sig = clause_find(clause->name.text);
    AuScope *scope = scope_new(c, o->scope);
    set_state(o, site);
    if (clause->params.count > sig->count)
        check_error(c, AU_E0206, clause->params.items[sig->count].span, "%s has %u %s, found %u",
                    sig->name, sig->count, sig->count == 1 ? "parameter" : "parameters",
                    clause->params.count);
    for (uint32_t i = 0; i < clause->params.count && i < sig->count; i++)
        bind_param(o, scope, sig, i, clause->params.items[i]);
    c->scope = scope;
    const uint32_t returned = check_body(c, clause, out, 2);
    c->scope = o->scope;
    if (!returned) return false;
    if (returned != sig->returned) {
        AuDiag *d = check_error(c, AU_E0317, returned_span(clause, 0), "%s returns %s, found %u",
                                sig->name, wants[sig->returned], returned);
        if (sig->returned == 2)
            au_add_note(c->diags, d, (AuSpan){0},
                        site == AU_SITE_FWD
                            ? "the weights of the tile, and the factor for the output so far"
                            : "the factors for the unfinished outputs of the two sides");
        return false;
    }
    for (uint32_t n = 0; n < returned; n++)
        out[n] = value_to_f32(c, out[n], returned_span(clause, n), sig->name);
    return out[0].type && (returned < 2 || out[1].type);
}

static bool one_a_row(AuCheck *c, AuValue v, AuSpan span, const char *what)
{
    if (!(value_axes(c, v) & AU_AX_KV)) return true;
    AuDiag *d = check_error(c, AU_E0405, span,
                            "%s is one value for each row, this has one for each key", what);
    au_add_note(c->diags, d, (AuSpan){0},
                "rowmax and rowsum reduce the keys of a tile to one value");
    return false;
}

static void forward_tile(Online *o, const AuItem *clause)
{
    AuValue v[2] = {{{0}, AU_T_NONE, 0, {0}}};
    if (!clause || !run_clause(o, clause, AU_SITE_FWD, v)) return;
    o->out->weight = v[0].e;
    if (one_a_row(o->c, v[1], returned_span(clause, 1), "the factor for the output so far"))
        o->out->rescale = v[1].e;
    for (uint32_t i = 0; i < o->out->scale_count; i++)
        o->out->scales[i].next = o->scales[i]->value.e;
}

static void epilogue(Online *o, const AuItem *clause)
{
    AuCheck *c = o->c;
    AuValue v[2] = {{{0}, AU_T_NONE, 0, {0}}};
    if (!clause || !run_clause(o, clause, AU_SITE_EPILOGUE, v)) return;
    o->out->epilogue = v[0].e;
    for (uint32_t i = 0; i < o->out->final_count; i++) {
        const AuSymbol *s = o->finals[i];
        o->out->finals[i].value = s->value.e;
        if (s->kind == AU_SYM_ROWSCALE || s->assigned) continue;
        AuDiag *d = check_error(c, AU_E0404, o->out->finals[i].span, "%s '%s' gets no value",
                                o->out->finals[i].kept ? "kept" : "the final", s->name);
        au_add_note(c->diags, d, clause->name.span, "name a row scale, or assign it here");
    }
}

static void combine(Online *o, const AuItem *clause)
{
    AuCheck *c = o->c;
    AuValue v[2] = {{{0}, AU_T_NONE, 0, {0}}};
    if (!clause || !run_clause(o, clause, AU_SITE_COMBINE, v)) return;
    o->out->combine_a = v[0].e;
    o->out->combine_b = v[1].e;
    o->out->has_combine = true;
    for (uint32_t i = 0; i < o->out->scale_count; i++) {
        const AuSymbol *s = o->scales[i];
        o->out->scales[i].combined = s->value.e;
        if (s->assigned) continue;
        AuDiag *d = check_error(c, AU_E0406, clause->name.span,
                                "combine does not say what '%s' is after joining", s->name);
        au_add_note(c->diags, d, s->span, "'%s' is declared here", s->name);
    }
}

static void check_names(Online *o)
{
    AuCheck *c = o->c;
    AuNameSet *seen = nameset_new(c->arena);
    for (uint32_t i = 0; i < o->item->items.count; i++) {
        AuItem *item = o->item->items.items[i];
        if (item->kind != AU_ITEM_MOD) continue;
        const AuItem *before = nameset_put(seen, item->name.text, item);
        if (before) {
            AuDiag *d =
                check_error(c, AU_E0214, item->name.span, "'%s' is given twice", item->name.text);
            au_add_note(c->diags, d, before->name.span, "it is given here, too");
        } else if (!clause_find(item->name.text)) {
            AuGuess guess = guess_new(c, item->name.text);
            for (uint32_t n = 0; clause_at(n); n++) guess_try(&guess, clause_at(n)->name);
            AuDiag *d = check_error(c, AU_E0204, item->name.span,
                                    "'%s' is no clause of an online function", item->name.text);
            if (mod_find(item->name.text))
                au_add_note(c->diags, d, (AuSpan){0}, "it is a mod: it belongs in the attention");
            else
                guess_add_note(c, d, &guess);
        }
    }
}

static void check_clauses(Online *o)
{
    AuText lacking = {.arena = o->c->arena};
    const AuItem *forward = wanted_clause(o, "online_fwd", &lacking);
    const AuItem *last = wanted_clause(o, "online_fwd_epilogue", &lacking);
    const AuItem *weight = wanted_clause(o, "forward", &lacking);
    const AuItem *backward = find_clause(o, "backward");

    AuValue v[2] = {{{0}, AU_T_NONE, 0, {0}}};
    if (lacking.length && !o->item->broken)
        check_error(o->c, AU_E0402, o->item->name.span, "the online function '%s' lacks %s",
                    o->item->name.text, lacking.at);
    check_names(o);
    forward_tile(o, forward);
    epilogue(o, last);
    if (weight && run_clause(o, weight, AU_SITE_FORWARD, v)) o->out->forward = v[0].e;
    if (backward && run_clause(o, backward, AU_SITE_BACKWARD, v)) o->out->backward = v[0].e;
    combine(o, find_clause(o, "combine"));
}

/* ---- use */

static AuOnline *build(AuCheck *c, const AuItem *item, AuModule *module, const AuValue *args,
                       AuSpan use)
{
    AuFrame frame = {item, use, c->frame};
    AuScope *caller = c->scope;
    AuModule *calling = c->module;
    Online o = {.c = c, .item = item, .out = AU_NEW(c->arena, AuOnline)};
    o.out->name = item->name.text;
    o.out->span = item->name.span;
    o.scope = scope_new(c, check_consts(c, module));
    c->scope = o.scope;
    c->module = module;
    c->frame = &frame;
    for (uint32_t i = 0; i < item->params.count; i++)
        scope_declare(c, o.scope, AU_SYM_VALUE, item->params.items[i], "a parameter")->value =
            args[i];
    declare_state(&o);
    check_clauses(&o);
    c->scope = caller;
    c->module = calling;
    c->frame = frame.outer;
    return o.out;
}

static void unknown_online(AuCheck *c, const AuItem *use)
{
    c->wrong = true;
    if (refuse_word(c, use->name.text, use->name.span) ||
        nameset_has(c->user.script->lost, use->name.text))
        return;
    AuGuess guess = guess_new(c, use->name.text);
    guess_set(&guess, c->user.onlines);
    guess_set(&guess, c->std.onlines);
    AuDiag *d =
        check_error(c, AU_E0208, use->name.span, "unknown online function '%s'", use->name.text);
    guess_add_note(c, d, &guess);
    au_add_note(c->diags, d, (AuSpan){0}, "the library's are shown by aulec --emit=stdlib");
}

void check_online_use(AuCheck *c, const AuItem *use)
{
    AuModule *module;
    const AuItem *item = check_find_online(c, use->name.text, &module);
    const uint32_t given = use->list.count;
    AuValue *args = AU_NEW_ARRAY(c->arena, AuValue, (item ? item->params.count : 0) + given);
    c->site = AU_SITE_ARGUMENT;
    for (uint32_t i = 0; i < given; i++)
        args[i] = value_to_f32(c, check_expr(c, use->list.items[i]), use->list.items[i]->span,
                               "an online function");
    if (!item) {
        unknown_online(c, use);
        return;
    }
    if (given != item->params.count) {
        AuDiag *d = check_error(c, AU_E0407, use->span, "'%s' takes %u %s, found %u",
                                item->name.text, item->params.count,
                                item->params.count == 1 ? "argument" : "arguments", given);
        au_add_note(c->diags, d, item->name.span, "'%s' is declared here", item->name.text);
    }
    c->a->online = build(c, item, module, args, use->name.span);
}

void check_online_unused(AuCheck *c, const AuItem *online)
{
    build(c, online, &c->user, AU_NEW_ARRAY(c->arena, AuValue, online->params.count), (AuSpan){0});
}
