/* linear_warps_pairs.c - decays a channel: the kernel `pairs_of_chunks`, which makes in the workspace what chains take, chunk by chunk without
 * waiting for another: the forward's, and those of the states and their gradients before the kernel `chunks` of linear_warps_channels.c.
 *
 *     kept_pairs   A, the pairs of queries with keys
 *     queries      kept since the chunk's start (linear_warps_rows.c)
 *     keys         kept until its end, likewise
 *     totals       what channels keep over it, its logarithm */
#include "linear_warps.h"

void lw_pairs_argument(LinearWarps *w, AuTileMode mode)
{
    lw_chunk_argument(w, "kept_pairs", mode, w->l.x.operand,
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
    lw_begin_sharers(w);
    lw_vector_weights(w);
    tile_frag(t, "made_pairs", "%s[kv:%d, q:%d] @ across_kv", w->l.x.operand, w->l.chunk,
              LINEAR_ROWS);
    tile_load(t, "made_pairs", "P[%s, :]", lw_pair_rows(w));
    tile_store(t, "made_pairs -> kept_pairs[b, h, place_of_pairs, %s, :]", lw_pair_rows(w));
    tile_end(t);
}

static void pairs_kernel(LinearWarps *w)
{
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    tile_kernel(t, "pairs_of_chunks");
    lanes_arguments(&l->x);
    lin_sequences_argument(l);
    lw_numbers_argument(w, TILE_IN);
    lw_pairs_argument(w, TILE_INOUT);
    lw_rows_arguments(w);
    lw_totals_argument(w, TILE_INOUT);
    lw_chunks_grid(w);
    lw_memories(w);
    warps_tile(&l->x, TILE_NAME("P"), "q", l->chunk, "kv", l->chunk, 1);
    lw_vector_memories(w);
    tile_barrier(t, "all", 0, l->x.shape->executors);
    tile_role(t, "core", l->x.shape->executors, TILE_ON_WARP, 0);
    lin_name_heads(l);
    lw_find_chunk(w);
    lw_vector_declare_rows(w);
    lw_vector_declare_pairs(w);
    lw_declare(w);
    lw_begin_chunk(w);
    lw_place_of_states(w, "place_of_pairs", "chunk");
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
                   const AuShape *s, bool without_strengths)
{
    static const char *const regions[] = {"kept_pairs", "totals"};
    const AuShape shape = linear_warps_pairs_shape(p, s);
    LinearWarps w = lw_begin(arena, t, p, out, &shape);
    w.makes_pairs = w.without_values = true;
    w.without_strengths = without_strengths;
    warps_across(&w.l.x, "across_kv", w.l.chunk);
    pairs_kernel(&w);
    for (uint32_t n = 0; n < sizeof regions / sizeof *regions; n++)
        lanes_region(&w.l.x, regions[n]);
    lw_rows_regions(&w);
}
