/* hooks.c - see hooks.h: which functions an attention has, and what they say beyond the script
 * about pairs and rows that take no part. Their expressions are written by hook_writer.c. */
#include "hook_writer.h"

#include <math.h>
#include <string.h>

#define PARAMS(...)                                                                                \
    (const char *const[]){__VA_ARGS__},                                                            \
        sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *)

static void simple_hook(AuHookWriter *w, const char *name, const char *const *params,
                        uint32_t count, AuExpr e)
{
    writer_begin(w, name, params, count);
    writer_count_uses(w, e);
    AuTileExpr *x = writer_expr(w, e);
    writer_finish(w, &x, 1);
}

/* What an expression is when the score is -inf, its row scales being finite: enough to see that
 * softmax needs no test of each pair. */
typedef enum AtMinusInf { IS_UNKNOWN, IS_FINITE, IS_ZERO, IS_MINUS_INF } AtMinusInf;

static AtMinusInf of_arguments(const AuNode *n, AtMinusInf x, AtMinusInf y)
{
    if (n->op == AU_OP_SCORE) return IS_MINUS_INF;
    if (!(n->axes & AU_AX_KV)) return IS_FINITE;
    switch ((int)n->op) {
    case AU_OP_ADD:
        return (x == IS_MINUS_INF && y == IS_FINITE) || (x == IS_FINITE && y == IS_MINUS_INF)
                   ? IS_MINUS_INF
                   : IS_UNKNOWN;
    case AU_OP_SUB: return x == IS_MINUS_INF && y == IS_FINITE ? IS_MINUS_INF : IS_UNKNOWN;
    case AU_OP_MUL:
        return (x == IS_ZERO && y != IS_UNKNOWN && y != IS_MINUS_INF) ||
                       (y == IS_ZERO && x == IS_FINITE)
                   ? IS_ZERO
                   : IS_UNKNOWN;
    case AU_OP_EXP:
    case AU_OP_EXP2:
    case AU_OP_SIGMOID:
    case AU_OP_SOFTPLUS: return x == IS_MINUS_INF ? IS_ZERO : IS_UNKNOWN;
    default: return IS_UNKNOWN;
    }
}

/* By node, arguments before their users. */
static AtMinusInf *all_at_minus_inf(const AuAttn *a)
{
    AtMinusInf *at = AU_NEW_ARRAY(a->arena, AtMinusInf, a->node_count);
    for (uint32_t i = 1; i < a->node_count; i++) {
        const AuNode *n = &a->nodes[i];
        at[i] = of_arguments(n, n->count > 0 ? at[a->args[n->first].i] : IS_UNKNOWN,
                             n->count > 1 ? at[a->args[n->first + 1].i] : IS_UNKNOWN);
    }
    return at;
}

/* Do the reductions that are marked leave out pairs of score -inf by themselves? */
static bool reductions_are_neutral(const AuAttn *a, const bool *marked, const AtMinusInf *at)
{
    for (uint32_t i = 1; i < a->node_count; i++) {
        const AuNode *n = &a->nodes[i];
        if (!marked[i] || (n->op != AU_OP_ROWMAX && n->op != AU_OP_ROWSUM)) continue;
        if (at[a->args[n->first].i] != (n->op == AU_OP_ROWMAX ? IS_MINUS_INF : IS_ZERO))
            return false;
    }
    return true;
}

static bool is_one(const AuAttn *a, AuExpr e)
{
    return attn_at(a, e)->op == AU_OP_F32 && attn_at(a, e)->number == 1;
}

static const char *state_name(AuHookWriter *w, uint32_t n)
{
    return au_format(writer_module(w)->arena, "state%u", n);
}

static uint32_t with_states(AuHookWriter *w, const char **params, uint32_t count)
{
    for (uint32_t n = 0; n < w->hooks->state_count; n++) params[count++] = state_name(w, n);
    return count;
}

static void write_init(AuHookWriter *w)
{
    const AuOnline *online = w->attn->online;
    writer_begin(w, "online_init", PARAMS("row", "b", "h", "i"));
    for (uint32_t n = 0; n < online->scale_count; n++)
        writer_count_uses(w, online->scales[n].start);
    AuTileExpr *items[32];
    for (uint32_t n = 0; n < online->scale_count; n++) {
        AuTileExpr *start = writer_expr(w, online->scales[n].start);
        const bool scalar = attn_at(w->attn, online->scales[n].start)->axes == 0;
        items[n] = scalar ? writer_op2(w, TILE_X_FILL, writer_variable(w, "row"), start)
                          : writer_op2(w, TILE_X_ADD, writer_variable(w, "row"), start);
    }
    if (w->hooks->state_count > online->scale_count)
        items[online->scale_count] =
            writer_op2(w, TILE_X_FILL, writer_variable(w, "row"), writer_number(w, 0));
    writer_finish(w, items, w->hooks->state_count);
}

/* Has a row an unmasked pair? Maxima leave NaN out, sums do not. */
static AuTileExpr *any_unmasked(AuHookWriter *w)
{
    AuTileExpr *most = writer_op1(w, TILE_X_ROWMAX, writer_variable(w, "s")), *sum[2];
    for (int n = 0; n < 2; n++) sum[n] = writer_op1(w, TILE_X_ROWSUM, writer_variable(w, "s"));
    return writer_op2(w, TILE_X_OR,
                      writer_op2(w, TILE_X_GT, most, writer_number(w, -(double)INFINITY)),
                      writer_op2(w, TILE_X_NE, sum[0], sum[1]));
}

static void write_forward(AuHookWriter *w)
{
    AuAttn *a = w->attn;
    const AuOnline *online = a->online;
    const uint32_t scales = online->scale_count;
    const char *params[40] = {"s", "b", "h", "i"};
    writer_begin(w, "online_fwd", params, with_states(w, params, 4));
    writer_count_uses(w, online->weight);
    if (w->hooks->has_scale) writer_count_uses(w, online->rescale);
    bool *marked = AU_NEW_ARRAY(a->arena, bool, a->node_count);
    attn_mark(a, online->weight, marked);
    attn_mark(a, online->rescale, marked);
    for (uint32_t n = 0; n < scales; n++) {
        writer_count_uses(w, online->scales[n].next);
        attn_mark(a, online->scales[n].next, marked);
    }
    const AtMinusInf *at = all_at_minus_inf(a);
    w->guard_ok = !reductions_are_neutral(a, marked, at);
    AuTileExpr *any = NULL, *items[40], *p = writer_expr(w, online->weight);
    if (w->hooks->state_count > scales) any = writer_assign(w, "any", any_unmasked(w));
    if (at[online->weight.i] != IS_ZERO)
        p = writer_op3(
            w, TILE_X_WHERE,
            writer_op2(w, TILE_X_NE, writer_variable(w, "s"), writer_number(w, -(double)INFINITY)),
            p, writer_number(w, 0));
    else if (any)
        p = writer_op3(w, TILE_X_WHERE, any, p, writer_number(w, 0));
    uint32_t count = 0;
    items[count++] = p;
    if (w->hooks->has_scale) {
        AuTileExpr *scale = writer_expr(w, online->rescale);
        items[count++] = any ? writer_op3(w, TILE_X_WHERE, any, scale, writer_number(w, 1)) : scale;
    }
    for (uint32_t n = 0; n < scales; n++) {
        AuTileExpr *next = writer_expr(w, online->scales[n].next);
        items[count++] =
            any ? writer_op3(w, TILE_X_WHERE, any, next, writer_variable(w, state_name(w, n)))
                : next;
    }
    if (any)
        items[count++] = writer_op3(w, TILE_X_WHERE, any, writer_number(w, 1),
                                    writer_variable(w, state_name(w, scales)));
    w->guard_ok = false;
    writer_finish(w, items, count);
}

/* Final [n], one a row also where no row scale tells rows apart. */
static AuTileExpr *final_value(AuHookWriter *w, uint32_t n)
{
    const AuAttn *a = w->attn;
    const AuExpr value = a->online->finals[n].value;
    AuTileExpr *x = writer_expr(w, value);
    if (attn_has_op(a, value, AU_OP_STATE)) return x;
    return writer_spread(w, x, state_name(w, 0), au_format(writer_module(w)->arena, "final%u", n));
}

static void write_end(AuHookWriter *w)
{
    const AuOnline *online = w->attn->online;
    const char *params[40] = {"x", "b", "h", "i"};
    writer_begin(w, "online_end", params, with_states(w, params, 4));
    writer_count_uses(w, online->epilogue);
    for (uint32_t n = 0; n < online->final_count; n++)
        writer_count_uses(w, online->finals[n].value);
    AuTileExpr *items[32];
    items[0] = writer_row_value(w, online->epilogue, "output");
    if (w->hooks->state_count > online->scale_count) {
        AuTileExpr *seen =
            writer_op2(w, TILE_X_GT, writer_variable(w, state_name(w, online->scale_count)),
                       writer_number(w, 0));
        items[0] = writer_op3(w, TILE_X_WHERE, seen, items[0], writer_number(w, 0));
    }
    for (uint32_t n = 0; n < online->final_count; n++) items[1 + n] = final_value(w, n);
    writer_finish(w, items, 1 + online->final_count);
}

static void write_join(AuHookWriter *w)
{
    const AuOnline *online = w->attn->online;
    const uint32_t scales = online->scale_count, states = w->hooks->state_count;
    const char *params[64] = {"b", "h", "i"};
    uint32_t count = with_states(w, params, 3);
    for (uint32_t n = 0; n < states; n++)
        params[count++] = au_format(writer_module(w)->arena, "other%u", n);
    writer_begin(w, "online_join", params, count);
    writer_count_uses(w, online->combine_a);
    writer_count_uses(w, online->combine_b);
    for (uint32_t n = 0; n < scales; n++) writer_count_uses(w, online->scales[n].combined);
    /* each result, and what it is where only the one part or the other saw a pair of the row */
    AuTileExpr *items[40], *first[40], *second[40];
    items[0] = writer_expr(w, online->combine_a), items[1] = writer_expr(w, online->combine_b);
    for (uint32_t n = 0; n < 2; n++)
        first[n] = writer_number(w, n == 0), second[n] = writer_number(w, n == 1);
    for (uint32_t n = 0; n < scales; n++) {
        items[2 + n] = writer_expr(w, online->scales[n].combined);
        first[2 + n] = writer_variable(w, params[3 + n]);
        second[2 + n] = writer_variable(w, params[3 + states + n]);
    }
    if (states > scales) {
        AuTileExpr *seen[2], *saw[2];
        for (uint32_t n = 0; n < 2; n++) {
            seen[n] = writer_variable(w, params[3 + n * states + scales]);
            saw[n] = writer_op2(w, TILE_X_GT, seen[n], writer_number(w, 0));
        }
        AuTileExpr *later = writer_assign(w, "later", saw[1]);
        AuTileExpr *both = writer_assign(w, "both", writer_op2(w, TILE_X_AND, saw[0], later));
        for (uint32_t n = 0; n < 2 + scales; n++)
            items[n] = writer_op3(w, TILE_X_WHERE, both, items[n],
                                  writer_op3(w, TILE_X_WHERE, later, second[n], first[n]));
        items[2 + scales] = writer_op2(w, TILE_X_MAX, seen[0], seen[1]);
    }
    writer_finish(w, items, 2 + states);
}

bool hooks_join(AuHooks *hooks, AuDiags *diags, AuAttn *attn)
{
    AuHookWriter w = {.hooks = hooks, .attn = attn, .diags = diags, .channel = "d"};
    hooks->has_join = attn_derive_combine(attn);
    if (hooks->has_join) write_join(&w);
    return !w.failed;
}

static void write_range(AuHookWriter *w)
{
    AuRange range;
    w->in_range = true;
    writer_begin(
        w, "key_range",
        PARAMS("b", "h", "i", "j")); /* i, j: the tile's first row and the row after its last */
    AuTileExpr *items[4] = {writer_integer(w, 0), writer_expr(w, w->attn->tensors[1].axes[2]),
                            writer_integer(w, 0), writer_expr(w, w->attn->tensors[1].axes[2])};
    if (w->attn->mask.i) {
        attn_key_range(w->attn, &range);
        /* The ranges are new nodes of the graph. */
        w->done = AU_NEW_ARRAY(writer_module(w)->arena, AuTileExpr *, w->attn->node_count);
        w->uses = AU_NEW_ARRAY(writer_module(w)->arena, uint32_t, w->attn->node_count);
        const AuExpr all[4] = {range.low, range.high, range.full_low, range.full_high};
        for (uint32_t n = 0; n < 4; n++) writer_count_uses(w, all[n]);
        for (uint32_t n = 0; n < 4; n++) items[n] = writer_expr(w, all[n]);
        w->hooks->needs_lists = range.needs_lists;
        w->hooks->needs_most = range.needs_lists && attn_range_is_most(w->attn, &range);
    }
    w->hooks->range_begins = items[0]->op != TILE_X_INT || items[0]->integer > 0;
    w->hooks->full_begins = items[2]->op != TILE_X_INT || items[2]->integer > 0;
    for (uint32_t n = 0; n < 4; n++) items[n] = writer_row_of(w, items[n]);
    writer_finish(w, items, 4);
    w->in_range = false;
}

/* [asks]: 0 in rows without a pair. */
static void write_row_mod(AuHookWriter *w, const char *name, AuExpr mod, const char *tensor,
                          const char *head, const char *row, const char *channel, bool asks)
{
    static const char *const params[] = {"x", "b", "h", "i", "j", "c", "seen"};
    w->channel = channel;
    w->row_tensor = tensor, w->row_h = head, w->row_i = row;
    w->own_head = row[0] == 'j';
    writer_begin(w, name, params, asks ? 7 : 6);
    writer_count_uses(w, mod);
    AuTileExpr *x = writer_row_value(w, mod, "change");
    if (asks) x = writer_where_seen(w, x);
    writer_finish(w, &x, 1);
}

static void write_pairs(AuHookWriter *w)
{
    AuAttn *a = w->attn;
    AuHooks *h = w->hooks;
    const char *params[9] = {"s", "b", "h", "i", "j"};
    if (a->score_mod.i) {
        writer_begin(w, "score_mod", params, 5);
        writer_count_uses(w, a->score_mod);
        AuTileExpr *x = writer_expr(w, a->score_mod);
        writer_finish(w, &x, 1);
        for (uint32_t n = 0; n < h->dot_count; n++) /* known only now */
            AU_PUSH(h->module->arena, w->fn->params.at, w->fn->params.count, w->fn->params.capacity,
                    writer_name(w, au_format(h->module->arena, "dot%u", n)));
    }
    if ((h->has_mask = a->mask.i != 0)) simple_hook(w, "mask", PARAMS("b", "h", "i", "j"), a->mask);
    if ((h->has_weight_mod = a->weight_mod.i != 0)) {
        writer_begin(w, "weight_mod", PARAMS("p", "s", "b", "h", "i", "j"));
        writer_count_uses(w, a->weight_mod);
        AuTileExpr *ok =
            writer_op2(w, TILE_X_NE, writer_variable(w, "s"), writer_number(w, -(double)INFINITY));
        AuTileExpr *x =
            writer_op3(w, TILE_X_WHERE, ok, writer_expr(w, a->weight_mod), writer_number(w, 0));
        writer_finish(w, &x, 1);
    }
}

static void must_call(AuHooks *h, AuTileNames *names, const char *name, bool is_there)
{
    if (is_there) AU_PUSH(h->module->arena, names->at, names->count, names->capacity, name);
}

/* Ranges of keys are left out: who visits every tile computes the same. */
static void list_needed(AuHooks *h, const AuAttn *a)
{
    const struct {
        const char *name;
        bool is_there, in_backward, before_sums, behind_sums;
    } all[] = {
        {"q_mod", h->has_q_mod, true, true, false},
        {"k_mod", h->has_k_mod, true, true, false},
        {"v_mod", h->has_v_mod, true, true, false},
        {"score_mod", a->score_mod.i != 0, false, true, false}, /* backward_pair has these */
        {"mask", h->has_mask, false, true, false},
        {"weight_mod", h->has_weight_mod, false, true, false},
        {"online_init", h->state_count > 0, false, true, true},
        {"online_fwd", true, false, true, false},
        {"online_end", true, false, false, true},
        {"out_mod", h->has_out_mod, false, false, true},
    };
    for (uint32_t n = 0; n < sizeof all / sizeof *all; n++) {
        must_call(h, &h->forward, all[n].name, all[n].is_there);
        must_call(h, &h->backward, all[n].name, all[n].is_there && all[n].in_backward);
        must_call(h, &h->unfinished, all[n].name, all[n].is_there && all[n].before_sums);
        must_call(h, &h->combine, all[n].name, all[n].is_there && all[n].behind_sums);
    }
    must_call(h, &h->append, "k_mod", a->rows_are_new && h->has_k_mod);
    must_call(h, &h->append, "v_mod", a->rows_are_new && h->has_v_mod);
    must_call(h, &h->combine, "online_join", true);
}

/* Executors ask whether any row of a tile has a new maximum (passes/lag.c), or an argument that a polynomial is not for (passes/tanh.c), and what they
 * then compute has other bits. Rows and keys of a tile that are behind the sequence's end must not answer, or a result depended on who lies there:
 * they see what the last one sees. Maxima are of keys that the mask has let through, so these answer for tanh alone. */
static void guard(AuHookWriter *w, const AuTileCaps *caps, bool before_sums)
{
    const AuAttn *a = w->attn;
    const bool lags = w->hooks->free_reference && (caps->lags || caps->group_matrix > 0),
               has_cap = caps->tanh_near && attn_has_op(a, a->score_mod, AU_OP_TANH);
    w->guards_rows = before_sums && a->queries.layout && (lags || has_cap);
    w->guards_keys = before_sums && a->keys.layout && has_cap;
}

AuHooks *hooks_make(AuArena *arena, AuDiags *diags, AuAttn *attn, const AuTileCaps *caps,
                    AuHooksFor what)
{
    AuHooks *h = AU_NEW(arena, AuHooks);
    h->module = tile_module_new(arena, caps);
    AuHookWriter w = {.hooks = h,
                      .attn = attn,
                      .diags = diags,
                      .channel = "d",
                      .of_sequence = attn->linear != NULL};
    const AuOnline *online = attn->online;
    if (attn->linear) {
        if ((h->has_out_mod = attn->out_mod.i != 0))
            write_row_mod(&w, "out_mod", attn->out_mod, "o", "h", "i", "e", false);
        must_call(h, &h->forward, "out_mod", h->has_out_mod);
        return hooks_linear(&w) ? h : NULL;
    }
    if (online->scale_count > 24 || online->final_count > 24) {
        au_error(diags, AU_E0811, online->span,
                 "an online function with more than 24 row scales or finals");
        return NULL;
    }
    h->has_scale = !is_one(attn, online->rescale);
    h->free_reference = attn_has_free_reference(attn);
    h->asks_for_pairs = attn_asks_for_pairs(attn);
    h->state_count = hooks_state_count(attn);
    guard(&w, caps, what == AU_HOOKS_OF_RESULTS);
    write_pairs(&w);
    write_range(&w);
    if (h->needs_lists) writer_mask_bounds(&w);
    write_init(&w);
    write_forward(&w);
    guard(&w, caps, false);
    write_end(&w);
    guard(&w, caps, what == AU_HOOKS_OF_RESULTS);
    if ((h->has_q_mod = attn->q_mod.i != 0))
        write_row_mod(&w, "q_mod", attn->q_mod, "q", "h", "i", "d", false);
    guard(&w, caps, false);
    if ((h->has_k_mod = attn->k_mod.i != 0))
        write_row_mod(&w, "k_mod", attn->k_mod, "k", "h", "j", "d", false);
    if ((h->has_v_mod = attn->v_mod.i != 0))
        write_row_mod(&w, "v_mod", attn->v_mod, "v", "h", "j", "e", false);
    if ((h->has_out_mod = attn->out_mod.i != 0))
        write_row_mod(&w, "out_mod", attn->out_mod, "o", "h", "i", "e", h->asks_for_pairs);
    list_needed(h, attn);
    return w.failed ? NULL : h;
}

const char *hooks_heads(const AuHooks *hooks, AuAttn *attn)
{
    AuText text = {.arena = hooks->module->arena};
    tile_print_expr(hooks_expr(hooks, attn, attn_heads(attn)), &text);
    return au_text_str(&text);
}

const char *hooks_name(AuArena *arena, const char *name) { return au_format(arena, "$%s", name); }

AuTileExpr *hooks_expr(const AuHooks *hooks, AuAttn *attn, AuExpr e)
{
    AuHooks copy = *hooks;
    AuHookWriter w = {.hooks = &copy, .attn = attn, .of_extents = true};
    w.done = AU_NEW_ARRAY(copy.module->arena, AuTileExpr *, attn->node_count);
    w.uses = AU_NEW_ARRAY(copy.module->arena, uint32_t, attn->node_count);
    return writer_expr(&w, e);
}

enum { LONGEST_INDEX = 64 }; /* nodes of an index that is written as one expression */

/* Is [e] better written as statements: does it use a value twice that is more than a name, or is it long? */
static bool wants_statements(const AuAttn *a, const uint32_t *uses, AuExpr e)
{
    uint32_t nodes = 0;
    for (uint32_t i = 1; i <= e.i; i++) {
        if (uses[i] > 1 && a->nodes[i].count > 0) return true;
        nodes += uses[i] > 0;
    }
    return nodes > LONGEST_INDEX;
}

/* An index as a call of a hook of its own, of what it depends on. */
static AuTileExpr *called_index(AuHookWriter *w, AuExpr index)
{
    static const struct {
        uint8_t axis;
        const char *name;
    } all[] = {{AU_AX_B, "b"}, {AU_AX_H, "h"}, {AU_AX_Q, "i"}, {AU_AX_KV, "j"}, {AU_AX_C, "c"}};
    const char *params[sizeof all / sizeof *all], *name;
    uint32_t count = 0;
    for (uint32_t n = 0; n < sizeof all / sizeof *all; n++)
        if (attn_at(w->attn, index)->axes & all[n].axis) params[count++] = all[n].name;
    name = au_format(writer_module(w)->arena, "index%u", writer_module(w)->fns.count);
    simple_hook(w, name, params, count, index);
    AuTileExpr *call = writer_variable(w, name);
    call->op = TILE_X_CALL;
    for (uint32_t n = 0; n < count; n++)
        AU_PUSH(writer_module(w)->arena, call->args.at, call->args.count, call->args.capacity,
                writer_variable(w, params[n]));
    return call;
}

const AuTileExpr *hooks_read(const AuHooks *hooks, AuAttn *attn, AuExpr read, bool of_keys)
{
    AuHooks copy = *hooks;
    AuHookWriter w = {
        .hooks = &copy, .attn = attn, .own_head = of_keys, .of_sequence = attn->linear != NULL};
    AuArena *arena = hooks->module->arena;
    uint32_t *uses = w.uses = AU_NEW_ARRAY(arena, uint32_t, attn->node_count);
    AuTileExpr **done = AU_NEW_ARRAY(arena, AuTileExpr *, attn->node_count);
    for (uint32_t n = 0; n < attn_at(attn, read)->count; n++) {
        const AuExpr index = attn_arg(attn, read, n);
        memset(uses, 0, attn->node_count * sizeof *uses);
        w.uses = uses;
        writer_count_uses(&w, index);
        if (wants_statements(attn, uses, index)) done[index.i] = called_index(&w, index);
    }
    w.done = done;
    w.uses = AU_NEW_ARRAY(arena, uint32_t, attn->node_count);
    const AuTileExpr *e = writer_expr(&w, read);
    return e->op == TILE_X_REF ? e : e->args.at[0]; /* without the conversion to f32 */
}
