/* linear_warps_pairs.c - decays a channel: the kernel `pairs_of_chunks`, which makes in the workspace what chains take, chunk by chunk without
 * waiting for another: the forward's, and those of the states and their gradients before the kernel `chunks` of linear_warps_channels.c.
 *
 *     kept_pairs   A, the pairs of queries with keys
 *     queries      kept since the chunk's start (linear_warps_rows.c)
 *     keys         kept until its end, likewise
 *     totals       what channels keep over it, its logarithm
 *
 * With feedback `key` keys are readers, too, in tiles of their own:
 *
 *     inverses     M = (1 - e A(k, k))^-1, two numbers an element (linear_warps_inverse.c)
 *     readers      keys kept since the chunk's start
 *     key_pairs    A(k, k), as far as rows see, for gradients of e
 *
 * With feedback `own`, for gradients alone, all four matrices of pairs are made (linear_warps_own.c):
 *
 *     inverses     M = (1 - A(x, b))^-1
 *     readers      x kept since the chunk's start
 *     writers      b kept until its end
 *     writer_pairs, reader_pairs    A(q, b), A(x, k) */
#include "linear_warps.h"

static const LinearKept kept[LINEAR_KEPT] = {
    {"P", "tp", "kept_pairs"},
    {"Pb", "tpb", "writer_pairs"},
    {"Px", "tpx", "reader_pairs"},
};

const LinearKept *lw_kept(int which) { return &kept[which]; }

const LinearKept *lw_kept_of_chain(const LinearWarps *w)
{
    if (!w->has_decayed || w->without_keys) return NULL;
    if (lw_is_own(w)) return &kept[lw_has_output(w) ? LINEAR_KEPT_WRITERS : LINEAR_KEPT_READERS];
    return lw_has_output(w) ? &kept[LINEAR_KEPT_PAIRS] : NULL;
}

void lw_pairs_argument(LinearWarps *w, const LinearKept *of, AuTileMode mode)
{
    lw_chunk_argument(w, of->tensor, mode, w->l.x.operand,
                      tile_text(w->l.x.t, "q:%d, kv:%d", w->l.chunk, w->l.chunk));
}

void lw_key_pairs_argument(LinearWarps *w, AuTileMode mode)
{
    lw_chunk_argument(w, "key_pairs", mode, w->l.x.operand,
                      tile_text(w->l.x.t, "q:%d, kv:%d", w->l.chunk, w->l.chunk));
}

void lw_totals_argument(LinearWarps *w, AuTileMode mode)
{
    lw_chunk_argument(w, "totals", mode, "f32", tile_text(w->l.x.t, "d:%d", w->d));
}

void lw_load_total(LinearWarps *w)
{
    tile_load(w->l.x.t, "whole", "totals[b, h, place, %s +: %d]", lw_state_row(w), w->channels);
}

static void keep_totals(LinearWarps *w)
{
    AuTileBuild *t = w->l.x.t;
    tile_if(t, "self == 0");
    tile_load(t, "row_total", "G[%d, :]", w->l.chunk - 1);
    tile_store(t, "row_total -> totals[b, h, place_of_pairs, :]");
    tile_end(t);
}

/* Of the warps that make them, each the rows that are its own. */
static void keep_pairs(LinearWarps *w)
{
    AuTileBuild *t = w->l.x.t;
    if (lw_inverts(w)) lw_inverse_make(w);
    if (lw_is_own(w)) {
        lw_own_keep_pairs(w);
        return;
    }
    lw_begin_sharers(w);
    if (!lw_inverts(w)) lw_vector_weights(w);
    tile_frag(t, "made_pairs", "%s[kv:%d, q:%d] @ across_kv", w->l.x.operand, w->l.chunk,
              LINEAR_ROWS);
    tile_load(t, "made_pairs", "P[%s, :]", lw_pair_rows(w));
    tile_store(t, "made_pairs -> kept_pairs[b, h, place_of_pairs, %s, :]", lw_pair_rows(w));
    tile_end(t);
}

static int pairs_of(const LinearWarps *w) { return lw_is_own(w) ? LINEAR_KEPT : 1; }

static void pairs_kernel(LinearWarps *w)
{
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    lin_begin_kernel(l, "pairs_of_chunks");
    lw_numbers_argument(w, TILE_IN);
    for (int n = 0; n < pairs_of(w); n++) lw_pairs_argument(w, &kept[n], TILE_INOUT);
    lw_rows_arguments(w);
    lw_totals_argument(w, TILE_INOUT);
    if (lw_inverts(w)) lw_inverses_argument(w, TILE_INOUT);
    if (w->keeps_key_pairs) lw_key_pairs_argument(w, TILE_INOUT);
    lw_chunks_grid(w);
    lw_memories(w);
    warps_tile(&l->x, TILE_NAME("P"), "q", l->chunk, "kv", l->chunk, 1);
    lw_vector_memories(w);
    if (lw_inverts(w)) {
        lw_key_memories(w);
        lw_inverse_memories(w);
    }
    tile_barrier(t, "all", 0, l->x.shape->executors);
    tile_role(t, "core", l->x.shape->executors, TILE_ON_WARP, 0);
    lin_name_heads(l);
    lw_find_chunk(w);
    lw_vector_declare_rows(w);
    lw_vector_declare_pairs(w);
    if (lw_inverts(w)) lw_inverse_declare(w);
    if (l->n->decay == AU_DECAY_CONSTANT) lin_rate(l);
    lw_declare(w);
    lw_begin_chunk(w);
    lw_place_of_states(w, "place_of_pairs", "chunk");
    if (lw_inverts(w)) tile_set(t, "place_of_inverse", "place_of_pairs");
    lw_issue(w, "chunk", "");
    lw_wait(w);
    lw_change(w);
    lw_numbers(w);
    lw_vector_sums(w);
    tile_sync(t, "all");
    lw_vector_make(w);
    keep_totals(w);
    tile_sync(t, "all");
    keep_pairs(w);
    for (uint32_t n = 0; n < 3; n++) tile_end(t);
    l->names_heads = false;
}

void lw_make_pairs(AuArena *arena, AuTileBuild *t, const AuProblem *p, AuSchedule *out,
                   const AuShape *s, bool for_gradients)
{
    const AuShape shape = linear_warps_pairs_shape(p, s);
    LinearWarps w = lw_begin(arena, t, p, out, &shape);
    w.makes_pairs = w.without_values = true;
    w.without_strengths = for_gradients;
    w.keeps_key_pairs = for_gradients && lin_is_fed(&w.l);
    warps_across(&w.l.x, "across_kv", w.l.chunk);
    pairs_kernel(&w);
    for (int n = 0; n < pairs_of(&w); n++) lanes_region(&w.l.x, kept[n].tensor);
    lanes_region(&w.l.x, "totals");
    if (lw_inverts(&w)) lanes_region(&w.l.x, "inverses");
    if (w.keeps_key_pairs) lanes_region(&w.l.x, "key_pairs");
    lw_rows_regions(&w);
}
