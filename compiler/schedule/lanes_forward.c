/* lanes_forward.c - forward, scores transposed: a lane holds whole query rows, keys pass as
 * broadcast numbers.
 *
 * S' = K Q' and O' = V' P': the accumulators have a key (or a channel of the values) a row in
 * registers and the queries along the lanes. So K and V are read row by row as they lie, nothing is
 * transposed, the weights are the second product's operand where they are, and row statistics are
 * vectors along the lanes that no exchange ever touches. A CPU core is one executor whose lanes are
 * the elements of its vectors, with K and V tiles on its stack (in its caches); on a GPU the
 * executors of a block share them in shared memory.
 *
 * Kernels: `k_rows`, `v_rows` (only if the script changes keys or values), `classes`, `compact`
 * (only for masks that depend on data: lanes_lists.c), `forward`. */
#include "lanes.h"

#include <string.h>

/* The first query row of the executor. */
static const char *first_row(Lanes *x)
{
    if (x->on_cpu) return tile_text(x->t, "mb * %d", x->block);
    return tile_text(x->t, "mb * %d + self * %d", x->block, x->rows);
}

/* ", state0, state1": what follows other results or arguments. */
static const char *states(Lanes *x)
{
    AuText text = {.arena = x->arena};
    for (uint32_t n = 0; n < x->p->hooks->state_count; n++) au_text_add(&text, ", state%u", n);
    return au_text_str(&text);
}

static bool is_shared(const Lanes *x) { return !x->on_cpu; }

/* A tile of keys or values; the executors of a block bring a share of its rows each. */
static void copy_tile(Lanes *x, const char *view, const char *to)
{
    const int32_t n = x->shape->key_tile, share = n / x->shape->executors;
    if (!is_shared(x))
        tile_copy(x->t, "%s -> %s pad 0",
                  tile_text(x->t, view, tile_text(x->t, "n * %d +: %d", n, n)), to);
    else {
        const char *span = tile_text(x->t, "n * %d + self * %d +: %d", n, share, share);
        tile_copy(x->t, "%s -> %s[self * %d +: %d, :] pad 0", tile_text(x->t, view, span), to,
                  share, share);
    }
}

/* ---- further products of score_mod: dot(x[.., q_idx], y[.., kv_idx]) */

/* The view of one side, with %s where the rows go; its axes become [rows, p<n>]. */
static const char *dot_view(Lanes *x, uint32_t n, bool key_side, const char *rows_axis)
{
    AuAttn *a = x->p->attn;
    const AuNode *dot = attn_at(a, x->p->hooks->dots[n]);
    const uint32_t tensor = (uint32_t)(key_side ? dot->integer2 : dot->integer);
    const uint32_t rank = a->tensors[tensor].rank,
                   from = key_side ? a->tensors[dot->integer].rank - 1 : 0;
    AuText text = {.arena = x->arena};
    au_text_add(&text, "%s[", lanes_tensor(x, tensor));
    for (uint32_t i = 0; i + 1 < rank; i++) {
        const AuExpr index = attn_arg(a, x->p->hooks->dots[n], from + i);
        const AuNode *at = attn_at(a, index);
        const bool is_row = at->op == AU_OP_INDEX && at->integer == (key_side ? AU_AX_KV : AU_AX_Q);
        if (is_row)
            au_text_add(&text, "%%s, ");
        else {
            tile_print_expr(hooks_expr(x->p->hooks, a, index), &text);
            au_text_add(&text, ", ");
        }
    }
    au_text_add(&text, ":] as [%s, p%u]", rows_axis, n);
    return au_text_str(&text);
}

static int32_t dot_width(const AuProblem *p, uint32_t n)
{
    AuAttn *a = p->attn;
    const AuTensor *t = &a->tensors[attn_at(a, p->hooks->dots[n])->integer];
    return (int32_t)hooks_expr(p->hooks, a, t->axes[t->rank - 1])->integer;
}

static void dot_memories(Lanes *x)
{
    for (uint32_t n = 0; n < x->p->hooks->dot_count; n++) {
        const char *type = tile_text(x->t, "%s[kv:%d, p%u:%d]", x->held, x->shape->key_tile, n,
                                     dot_width(x->p, n));
        if (is_shared(x))
            tile_shared(x->t, tile_text(x->t, "K%u", n), "%s", type);
        else
            tile_private(x->t, tile_text(x->t, "K%u", n), "%s", type);
    }
}

static void dot_queries(Lanes *x)
{
    AuTileBuild *t = x->t;
    for (uint32_t n = 0; n < x->p->hooks->dot_count; n++) {
        const char *elem =
            lanes_elem(x, (uint32_t)attn_at(x->p->attn, x->p->hooks->dots[n])->integer);
        const char *span = tile_text(t, "%s +: %d", first_row(x), x->rows);
        tile_frag(t, tile_text(t, "raw%u", n), "%s[p%u:%d, q:%d] @ %s.B", elem, n,
                  dot_width(x->p, n), x->rows, x->atom->name);
        tile_load(t, tile_text(t, "raw%u", n), "%s pad 0",
                  tile_text(t, dot_view(x, n, false, "q"), span));
        tile_set(t, tile_text(t, "query%u", n), "%s(raw%u)", x->held, n);
        tile_frag(t, tile_text(t, "dot%u", n), "f32[kv:%d, q:%d] @ %s.C", x->shape->key_tile,
                  x->rows, x->atom->name);
    }
}

static const char *dot_arguments(Lanes *x)
{
    AuText text = {.arena = x->arena};
    for (uint32_t n = 0; n < x->p->hooks->dot_count; n++) au_text_add(&text, ", dot%u", n);
    return au_text_str(&text);
}

/* ---- the kernel's parts, in the order of its text */

static void head(Lanes *x)
{
    AuTileBuild *t = x->t;
    AuAttn *a = x->p->attn;
    const AuHooks *h = x->p->hooks;
    const char *s = lanes_axis(x, 0, 2), *heads = lanes_axis(x, 0, 1), *batch = lanes_axis(x, 0, 0);
    tile_kernel(t, "forward");
    lanes_arguments(x);
    if (lanes_changed_type(x, 1)) tile_arg(t, "k_changed", TILE_IN, "%s", lanes_changed_type(x, 1));
    if (lanes_changed_type(x, 2)) tile_arg(t, "v_changed", TILE_IN, "%s", lanes_changed_type(x, 2));
    if (h->needs_lists)
        for (uint32_t n = 0; n < 4; n++)
            tile_arg(t,
                     (const char *const[]){"partial_count", "partial_index", "full_count",
                                           "full_index"}[n],
                     TILE_IN, "%s", lanes_list_type(x, n % 2 == 0));
    tile_arg(t, "o", TILE_OUT, "%s[b:%s, h:%s, q:%s, e:%d]", x->operand, batch, heads, s, x->p->e);
    for (uint32_t f = 0; f < a->online->final_count; f++)
        tile_arg(t, tile_text(t, "final_%s", a->online->finals[f].name), TILE_OUT,
                 "f32[b:%s, h:%s, q:%s]", batch, heads, s);
    tile_grid(t, "mb: cdiv(%s, %d), h: %s, b: %s", s, x->block, heads, batch);
    tile_let(t, "hk", "h / (%s / %s)", heads, lanes_axis(x, 1, 1));
    if (x->own_v) tile_let(t, "hv", "h / (%s / %s)", heads, lanes_axis(x, 2, 1));
}

static void tile_lists(Lanes *x)
{
    AuTileBuild *t = x->t;
    if (x->p->hooks->needs_lists) {
        const char *h = lanes_list_by_head(x) ? "h" : "0";
        tile_list(t, "keys");
        tile_segment(t, "partial", TILE_INDEX_LIST, tile_text(t, "partial_index[b, %s, mb, :]", h),
                     tile_text(t, "partial_count[b, %s, mb]", h));
        tile_segment(t, "full", TILE_INDEX_LIST, tile_text(t, "full_index[b, %s, mb, :]", h),
                     tile_text(t, "full_count[b, %s, mb]", h));
        return;
    }
    lanes_key_bounds(x);
    tile_list(t, "keys");
    tile_segment(t, "partial", TILE_RANGE, "n_low", "f_low");
    tile_segment(t, "full", TILE_RANGE, "f_low", "f_high");
    tile_segment(t, "partial", TILE_RANGE, "f_high", "n_high");
}

static void memories(Lanes *x)
{
    AuTileBuild *t = x->t;
    const char *k = tile_text(t, "%s[kv:%d, d:%d]", x->held, x->shape->key_tile, x->p->d);
    const char *v = tile_text(t, x->values_in_rows ? "%s[e:%d, kv:%d]" : "%s[kv:%d, e:%d]", x->held,
                              x->values_in_rows ? x->p->e : x->shape->key_tile,
                              x->values_in_rows ? x->shape->key_tile : x->p->e);
    if (is_shared(x)) {
        tile_shared(t, "K", "%s", k);
        if (x->own_v) tile_shared(t, "V", "%s", v);
        dot_memories(x);
        tile_barrier(t, "all", 0, x->shape->executors);
    }
    tile_role(t, "core", is_shared(x) ? x->shape->executors : 0, lanes_executor(x), 0);
    if (is_shared(x)) return;
    tile_private(t, "K", "%s", k);
    if (x->own_v) tile_private(t, "V", "%s", v);
    dot_memories(x);
}

/* The executor's query rows, as operand B of the first product. */
static void load_query(Lanes *x)
{
    AuTileBuild *t = x->t;
    const AuHooks *h = x->p->hooks;
    const bool as_is = !h->has_q_mod && strcmp(x->held, x->operand) == 0 && x->atom->k <= 2;
    const char *loaded = as_is ? "query" : "raw";
    tile_frag(t, loaded, "%s[d:%d, q:%d] @ %s.B", x->operand, x->p->d, x->rows, x->atom->name);
    tile_set(t, "i", "%s + iota(q:%d)", first_row(x), x->rows);
    tile_load(t, loaded, "q[b, h, %s +: %d, :] pad 0", first_row(x), x->rows);
    if (as_is) return;
    if (!h->has_q_mod) {
        tile_set(t, "query", "%s(raw)", x->held);
        return;
    }
    tile_set(t, "c", "iota(d:%d)", x->p->d);
    tile_set(t, "query", "%s(q_mod(f32(raw), b, h, i, 0, c))", x->held);
}

static void scores(Lanes *x)
{
    AuTileBuild *t = x->t;
    const char *last = lanes_axis(x, 1, 2);
    tile_product(t, "score", x->atom, TILE_START, "K", "query");
    for (uint32_t n = 0; n < x->p->hooks->dot_count; n++)
        tile_product(t, tile_text(t, "dot%u", n), x->atom, TILE_START, tile_text(t, "K%u", n),
                     tile_text(t, "query%u", n));
    tile_set(t, "j", "n * %d + iota(kv:%d)", x->shape->key_tile, x->shape->key_tile);
    if (x->p->attn->score_mod.i)
        tile_set(t, "score", "score_mod(score, b, h, i, j%s)", dot_arguments(x));
    tile_on_segment(t, "partial");
    tile_set(t, "score", "where(j < %s%s, score, -inf)", last,
             x->p->hooks->has_mask ? " && mask(b, h, i, j)" : "");
    tile_end(t);
}

/* One tile of keys. */
static void step(Lanes *x)
{
    AuTileBuild *t = x->t;
    AuAttn *a = x->p->attn;
    const AuHooks *h = x->p->hooks;
    copy_tile(x, h->has_k_mod ? "k_changed[b, hk, %s, :]" : "k[b, hk, %s, :]", "K");
    if (x->own_v)
        copy_tile(x,
                  x->values_in_rows ? "v_changed[b, hv, :, %s]"
                  : h->has_v_mod    ? "v_changed[b, hv, %s, :]"
                                    : "v[b, hv, %s, :]",
                  "V");
    for (uint32_t n = 0; n < h->dot_count; n++)
        copy_tile(x, dot_view(x, n, true, "kv"), tile_text(t, "K%u", n));
    if (is_shared(x)) tile_sync(t, "all");
    scores(x);
    tile_set(t, tile_text(t, "p%s%s", h->has_scale ? ", scale" : "", states(x)),
             "online_fwd(score, b, h, i%s)", states(x));
    if (h->has_weight_mod) tile_set(t, "p", "weight_mod(p, score, b, h, i, j)");
    if (h->has_scale) tile_set(t, "acc", "acc * scale");
    const bool as_is = strcmp(x->held, "f32") == 0;
    if (!as_is) tile_set(t, "weight", "%s(p)", x->held);
    const char *values =
        x->own_v ? "V" : tile_text(t, "K[:, %d +: %d] as [kv, e]", a->v_first, x->p->e);
    tile_product(t, "acc", x->atom, TILE_ADD, values, as_is ? "p" : "weight");
    if (is_shared(x)) tile_sync(t, "all");
}

static void finish(Lanes *x)
{
    AuTileBuild *t = x->t;
    const AuOnline *online = x->p->attn->online;
    AuText names = {.arena = x->arena};
    au_text_add(&names, "out");
    for (uint32_t n = 0; n < online->final_count; n++) au_text_add(&names, ", final%u", n);
    tile_set(t, au_text_str(&names), "online_end(acc, b, h, i%s)", states(x));
    if (x->p->hooks->has_out_mod) {
        tile_set(t, "ce", "iota(e:%d)", x->p->e);
        tile_set(t, "out", "out_mod(out, b, h, i, 0, ce)");
    }
    tile_store(t, "%s(out) -> o[b, h, %s +: %d, :] clip", x->operand, first_row(x), x->rows);
    for (uint32_t n = 0; n < online->final_count; n++)
        tile_store(t, "final%u -> final_%s[b, h, %s +: %d] clip", n, online->finals[n].name,
                   first_row(x), x->rows);
}

static void forward_kernel(Lanes *x)
{
    AuTileBuild *t = x->t;
    head(x);
    tile_lists(x);
    memories(x);
    tile_frag(t, "score", "f32[kv:%d, q:%d] @ %s.C", x->shape->key_tile, x->rows, x->atom->name);
    tile_frag(t, "acc", "f32[e:%d, q:%d] @ %s.C = 0.0", x->p->e, x->rows, x->atom->name);
    tile_frag(t, "row_like", "f32[q:%d] like score = 0.0", x->rows);
    load_query(x);
    dot_queries(x);
    if (x->p->hooks->state_count) tile_set(t, states(x) + 2, "online_init(row_like, b, h, i)");
    tile_for_tiles(t, "n", "keys", NULL);
    step(x);
    tile_end(t);
    finish(x);
    tile_end(t);
    tile_end(t);
}

/* Widths that are no multiples of a matrix unit's, and values that are parts of keys, go by
 * multiply-adds of f32. */
static const AuTileAtom *best_atom(const AuProblem *p, AuTileExecutor on)
{
    const AuTileAtom *atom = tile_best_atom(p->caps, p->operand, on);
    if (!atom || atom->k <= 2) return atom;
    bool fits = p->d % atom->k == 0 && p->e % atom->m == 0 && !p->attn->v_in_k;
    for (uint32_t n = 0; n < p->hooks->dot_count; n++)
        fits = fits && dot_width(p, n) % atom->k == 0;
    return fits ? atom : tile_best_atom(p->caps, TILE_F32, on);
}

AuSchedule *schedule_lanes_forward(AuArena *arena, AuDiags *diags, const AuProblem *p,
                                   const AuShape *shape)
{
    AuSchedule *out = AU_NEW(arena, AuSchedule);
    out->shape = *shape;
    out->name = au_format(arena, "lanes_forward q=%d kv=%d rows=%d",
                          p->caps->lanes * shape->query_registers * shape->executors,
                          shape->key_tile, shape->product_rows);
    Lanes x = {.t = tile_build(arena, diags, p->caps, out->name),
               .p = p,
               .shape = shape,
               .out = out,
               .arena = arena};
    x.on_cpu = p->caps->has_private;
    x.own_v = !p->attn->v_in_k;
    x.rows = p->caps->lanes * shape->query_registers;
    x.block = x.rows * shape->executors;
    x.operand = tile_elem(p->operand)->name;
    x.atom = best_atom(p, lanes_executor(&x));
    x.held = x.atom && x.atom->k > 1 ? x.operand : "f32";
    x.values_in_rows = x.atom && x.atom->k > 2;
    if (!x.atom) {
        au_error(diags, AU_E0811, p->attn->span, "%s has no multiply-add of %s for this schedule",
                 p->caps->name, x.operand);
        return NULL;
    }
    if (p->hooks->needs_lists)
        tile_layout(x.t, "along_lanes", tile_text(x.t, "lane:%d@1", p->caps->lanes), NULL);
    lanes_rows_kernel(&x, 1);
    lanes_rows_kernel(&x, 2);
    if (p->hooks->needs_lists) lanes_list_kernels(&x);
    forward_kernel(&x);
    out->written = tile_built(x.t);
    if (!out->written) return NULL;
    const AuTileModule *hooks[2] = {schedule_common(arena, diags), p->hooks->module};
    if (!hooks[0]) return NULL;
    out->module = tile_expand(arena, diags, out->written,
                              &(AuTileExpansion){.hooks = hooks, .hook_count = 2});
    return out->module && tile_verify(diags, out->module, TILE_ALL_RULES) ? out : NULL;
}

/* f32 numbers that the tiles hold for each key. */
static int32_t memory_of_a_key(const AuProblem *p)
{
    int32_t numbers = p->d + (p->attn->v_in_k ? 0 : p->e);
    for (uint32_t n = 0; n < p->hooks->dot_count; n++) numbers += dot_width(p, n);
    return numbers;
}

/* A CPU: 128 query rows a block share the cost of bringing K and V (256 where no mask makes border
 * tiles); blocks of products fill the vector registers (measured: docs/performance.md); fewer rows
 * where the fragments of wide heads would leave the second cache. A GPU: a row a lane, tiles of
 * keys as large as shared memory allows. */
AuShape schedule_lanes_shape(const AuProblem *p)
{
    const AuTileCaps *caps = p->caps;
    AuShape s = {.executors = 1,
                 .key_tile = 64,
                 .product_rows = 6,
                 .product_columns = caps->lanes == 8 ? 2 : 4};
    if (!caps->has_private) {
        const int32_t row_bytes = 4 * memory_of_a_key(p);
        s.query_registers = 1;
        s.executors = 4;
        s.key_tile = 32;
        s.product_rows = 16;
        while (s.key_tile > 2 && s.key_tile * row_bytes > caps->shared_bytes) s.key_tile /= 2;
        return s;
    }
    /* Queries (twice where they are converted), output, scores and those of further products, a few
     * row statistics. */
    const int32_t queries = memory_of_a_key(p) - (p->attn->v_in_k ? 0 : p->e);
    const int32_t of_a_row = queries + (p->operand == TILE_F32 ? 0 : (queries + 1) / 2) + p->e +
                             s.key_tile * (1 + (int32_t)p->hooks->dot_count) + 32;
    s.query_registers = (p->attn->mask.i ? 128 : 256) / caps->lanes;
    while (s.query_registers > 1 && s.query_registers * of_a_row > caps->registers)
        s.query_registers /= 2;
    if (s.product_columns > s.query_registers) s.product_columns = s.query_registers;
    return s;
}
