/* linear_warps_given.c - gradients where a norm or an out_mod stands between what q reads and the output: the kernel `outputs`. Of the state
 * before a chunk, which `states` has kept, it makes what q reads once more, then what stands behind it, and goes back through that:
 *
 *     read     A = Q K' kept w,  O = (Q S) since + A V,  sum = (q . z) since + rowsum(A)       16 rows and some columns a warp      barrier
 *     back     dO through out_mod, skip and norm                                               some rows a warp, channels along the lanes
 *
 * What is left, the gradient of what q reads, is `given`, of operands' type, which the kernels behind it take in place of dO, and that of the norm's
 * sums is `dsums`. Forward, in two kernels (linear_warps_two.c), `back` is what stands behind, alone: the output. Chunks do not wait for each
 * other: a block each. With feedback U stands where V does; with decays a channel A and queries are those of `pairs_of_chunks`, which strengths
 * do not belong to. */
#include "linear_warps.h"

/* As the output lies, its columns padded. */
void lw_given_argument(LinearWarps *w, AuTileMode mode)
{
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    if (!lin_needs_output(l)) return;
    const char *batch = lanes_axis(&l->x, 0, 0);
    tile_arg(t, "given", mode, "%s[b:%s, h:%s, q:%s, e:%d]", l->x.operand, batch, l->heads,
             l->tokens, linear_warps_padded(l->x.p->e));
    if (lin_has_dsum(l))
        tile_arg(t, "dsums", mode, "f32[b:%s, h:%s, q:%s]", batch, l->heads, l->tokens);
}

static void forward_arguments(Linear *l)
{
    tile_kernel(l->x.t, "outputs");
    lanes_arguments(&l->x);
    lin_output_argument(l);
    lin_sequences_argument(l);
}

static void head(LinearBack *b)
{
    LinearWarps *w = &b->w;
    Linear *l = &w->l;
    if (w->in_two)
        forward_arguments(l);
    else
        lin_back_arguments(l, "outputs", false);
    lw_states_argument(w, TILE_IN);
    if (l->has_norm) lw_sums_argument(w, TILE_IN);
    if (b->is_fed) lw_kept_argument(w, "updates", TILE_IN, true);
    lw_numbers_argument(w, TILE_IN);
    lw_rows_arguments(w);
    if (w->has_decayed) lw_pairs_argument(w, lw_kept(LINEAR_KEPT_PAIRS), TILE_IN);
    if (!w->in_two) lw_given_argument(w, TILE_INOUT);
    lw_chunks_grid(w);
    if (b->blocks > 1) tile_resident(l->x.t, b->blocks);
}

static void memories(LinearBack *b)
{
    LinearWarps *w = &b->w;
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const int32_t c = l->chunk, warps = l->x.shape->executors;
    lw_memories(w);
    warps_tile(&l->x, TILE_NAME("S"), "d", w->d, "e", w->e, 1);
    if (b->is_fed) warps_tile(&l->x, TILE_NAME("Uh"), "e", w->e, "kv", c, 1);
    if (lw_has_pairs(w))
        warps_tile(&l->x, TILE_NAME("P"), "q", w->has_decayed ? c : LINEAR_ROWS * warps, "kv", c,
                   1);
    tile_shared(t, "O", "f32[kv:%d, e:%d]%s", c, w->e, warps_swizzle(&l->x, w->e * LINEAR_F32));
    if (l->has_norm) {
        tile_shared(t, "Sums", "f32[d:%d]", w->d);
        tile_shared(t, "Read", "f32[kv:%d]", c);
    }
    tile_barrier(t, "all", 0, warps);
}

static void declare_read(LinearWarps *w)
{
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const char *atom = l->x.atom->name;
    tile_frag(t, "acc", "f32[q:%d, e:%d] @ %s.C", LINEAR_ROWS, w->out_columns, atom);
    if (!w->has_decayed)
        tile_frag(t, "score", "f32[q:%d, kv:%d] @ %s.C", LINEAR_ROWS, l->chunk, atom);
    if (lin_decays_by_token(l)) {
        tile_frag(t, "since", "f32[q:%d] like score", LINEAR_ROWS);
        tile_frag(t, "at_writer", "f32[kv:%d] like score", l->chunk);
    }
    if (lw_has_strength(w)) tile_frag(t, "strength_of_pair", "f32[kv:%d] like score", l->chunk);
    if (l->has_norm) {
        tile_frag(t, "query_part", "%s[q:%d, d:%d] @ %s.C", l->x.operand, LINEAR_ROWS, LINEAR_ROWS,
                  atom);
        tile_frag(t, "sum_part", "f32[d:%d] like query_part", LINEAR_ROWS);
        tile_frag(t, "sum_pairs", "f32[q:%d, d:%d] @ %s.C = 0.0", LINEAR_ROWS, LINEAR_ROWS, atom);
    }
    if (l->n->decay == AU_DECAY_CONSTANT) lin_rate(l);
}

static void fragments(LinearBack *b)
{
    LinearWarps *w = &b->w;
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const int32_t rows = lw_slot_rows(w);
    declare_read(w);
    tile_frag(t, "kept_out", "f32[e:%d, kv:%d] @ across_o", w->e, rows);
    if (!w->in_two) {
        tile_frag(t, "raw_given", "%s[e:%d, kv:%d] like kept_out", l->x.operand, w->e, rows);
        tile_frag(t, "row", "f32[kv:%d] like kept_out = 0.0", rows);
    }
    if (l->has_norm) {
        tile_frag(t, "sums", "f32[kv:%d] like kept_out", rows);
        tile_frag(t, "sum_row", "f32[d:%d] @ along_d", w->d);
    }
    if (lin_has(l, AU_SLOT_SKIP) && (w->in_two || l->x.p->hooks->has_out_mod)) {
        const AuExpr held = l->slots[AU_SLOT_SKIP].held;
        tile_frag(t, "raw_skip", "%s[e:%d, kv:%d] like kept_out%s",
                  held.i ? lin_elem(l, held) : "f32", w->e, rows, held.i ? "" : " = 0.0");
    }
    lw_declare(w);
}

/* ---- copies */

static void bring(LinearBack *b)
{
    LinearWarps *w = &b->w;
    AuTileBuild *t = w->l.x.t;
    const int32_t share = w->d / w->l.x.shape->executors;
    lw_issue(w, "chunk", "");
    warps_issue(&w->l.x, TILE_NAME("ts"),
                tile_part(t, "states[b, h, place, self * %d +: %d, 0 +: %d]", share, share, w->e),
                tile_part(t, "S[self * %d +: %d, :]", share, share));
    if (b->is_fed) lw_issue_kept(w, "tu", "updates", "Uh", w->e);
    if (w->l.has_norm) {
        tile_if(t, "self == 0");
        tile_load(t, "sum_row", "sum_states[b, h, place, :]");
        tile_store(t, "sum_row -> Sums");
        tile_end(t);
    }
    lw_wait(w);
    lw_change(w);
    lw_numbers(w);
    warps_wait(&w->l.x, "ts");
    if (b->is_fed) warps_wait(&w->l.x, "tu");
}

/* ---- what q reads, to memory, for rows of others */

static void share_read(LinearWarps *w)
{
    AuTileBuild *t = w->l.x.t;
    const char *rows = tile_text(t, "%s +: %d", lw_row(w), LINEAR_ROWS);
    tile_store(t, "acc -> O[%s, %s +: %d] as [q, e]", rows, lw_out_column(w), w->out_columns);
    if (!w->l.has_norm) return;
    tile_if(t, "%s == 0", lw_out_column(w));
    tile_store(t, "sum -> Read[%s] as [q]", rows);
    tile_end(t);
}

/* ---- what stands behind that */

static void load_norms(LinearBack *b, const char *rows)
{
    AuTileBuild *t = b->w.l.x.t;
    if (!b->w.l.has_norm) return;
    tile_load(t, "sums", "Read[%s]", rows);
    tile_set(t, "norms", "slot_norm(sums, b, h, t, 0)");
}

/* `finished`, what an out_mod takes. */
static void finish(LinearBack *b)
{
    Linear *l = &b->w.l;
    const bool skips = lin_has(l, AU_SLOT_SKIP);
    if (skips) lw_load_columns(b, AU_SLOT_SKIP, "raw_skip", "skipped");
    tile_set(l->x.t, "finished", "kept_out%s%s", l->has_norm ? " / norms" : "",
             skips ? " + skipped" : "");
}

static void rows_forward(LinearBack *b)
{
    LinearWarps *w = &b->w;
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const char *rows = lw_begin_rows(b);
    tile_set(t, "c", "iota(e:%d)", w->e);
    tile_load(t, "kept_out", "O[%s, :] as [kv, e]", rows);
    load_norms(b, rows);
    finish(b);
    if (l->x.p->hooks->has_out_mod) tile_set(t, "finished", "out_mod(finished, b, h, t, 0, c)");
    tile_store(t, "%s(finished) -> o[b, h, %s from start to end, 0 +: %d] as [kv, e] clip",
               l->x.operand, b->part.rows, w->e);
    tile_end(t);
}

/* ---- and backwards, from `change`, the gradient of the output */

/* dsum is of `given` as it is rounded: pairs get dO' V' + dsum, in which values that are much alike cancel, and so does then what was rounded. */
static void norm_back(LinearBack *b)
{
    Linear *l = &b->w.l;
    AuTileBuild *t = l->x.t;
    tile_set(t, "change", "f32(%s(change / norms))", l->x.operand);
    lin_norm_back(l, "-reduce_sum(change * kept_out, e) / norms");
    if (lin_has_dsum(l))
        tile_store(t, "dsum -> dsums[b, h, %s from start to end] as [kv] clip", b->part.rows);
}

static void rows_back(LinearBack *b)
{
    LinearWarps *w = &b->w;
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const bool skips = lin_has(l, AU_SLOT_SKIP), mod = l->x.p->hooks->has_out_mod;
    const char *rows = lw_begin_rows(b);
    tile_set(t, "i", "t");
    tile_set(t, "c", "iota(e:%d)", w->e);
    tile_load(t, "raw_given", "do[b, h, %s from start to end, 0 +: %d] as [kv, e] pad 0",
              b->part.rows, w->e);
    tile_load(t, "kept_out", "O[%s, :] as [kv, e]", rows);
    tile_set(t, "change", "f32(raw_given)");
    load_norms(b, rows);
    if (mod) {
        finish(b);
        lin_out_mod_back(l);
    }
    if (skips) lw_gradient(b, AU_SLOT_SKIP, "change", "kept_out");
    if (l->has_norm) norm_back(b);
    tile_store(t, "%s(change) -> given[b, h, %s from start to end, :] as [kv, e] clip",
               l->x.operand, b->part.rows);
    tile_end(t);
}

static void chunk(LinearBack *b)
{
    LinearWarps *w = &b->w;
    AuTileBuild *t = w->l.x.t;
    lw_place_of_states(w, "place", "chunk");
    bring(b);
    tile_sync(t, "all");
    lw_output(w);
    share_read(w);
    tile_sync(t, "all");
    w->in_two ? rows_forward(b) : rows_back(b);
}

static void kernel(LinearBack *b)
{
    LinearWarps *w = &b->w;
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const int32_t power = w->d & -w->d, lanes = l->x.p->caps->lanes;
    warps_across(&l->x, "across_o", w->e);
    if (l->has_norm)
        tile_layout(t, "along_d", tile_text(t, "lane:%d@1", power < lanes ? power : lanes), NULL);
    head(b);
    memories(b);
    tile_role(t, "core", l->x.shape->executors, TILE_ON_WARP, 0);
    lin_name_heads(l);
    lw_find_chunk(w);
    tile_set(t, "vb", "0");
    tile_set(t, "reader", "%s + iota(q:%d)", lw_row(w), LINEAR_ROWS);
    tile_set(t, "j", "iota(kv:%d)", l->chunk);
    fragments(b);
    b->part = (LinearPart){NULL, NULL, tile_text(t, "0 +: %d", w->e)};
    l->of_warps = &b->part;
    lw_begin_chunk(w);
    chunk(b);
    for (uint32_t n = 0; n < 3; n++) tile_end(t);
}

void lw_make_given(AuArena *arena, AuTileBuild *t, const AuProblem *p, AuSchedule *out,
                   const LinearWarps *states)
{
    const AuShape shape = linear_warps_given_shape(p, &out->shape);
    LinearBack b = {.w = lw_begin(arena, t, p, out, &shape), .parts = 1};
    Linear *l = &b.w.l;
    if (!lin_needs_output(l)) return;
    b.is_fed = lin_is_fed(l);
    b.value_columns = b.w.e;
    l->asks_heads = !states->in_two;
    b.blocks = linear_warps_given_blocks(p, &out->shape);
    b.w.makes_given = true;
    b.w.in_two = states->in_two;
    b.w.without_values = b.w.without_inverse = b.is_fed;
    b.w.has_rows = states->has_rows;
    b.w.has_decayed = states->has_decayed;
    b.w.kept_columns = states->kept_columns;
    kernel(&b);
    if (!b.w.in_two) lanes_region(&l->x, "given");
    if (!b.w.in_two && lin_has_dsum(l)) lanes_region(&l->x, "dsums");
    if (l->has_norm) lanes_region(&l->x, "sum_states");
}
