/* linear_warps_channels_chain.c - gradients of decays a channel: what the kernel `chunks` (linear_warps_channels.c) finds in the workspace,
 * beside the states before chunks, which the forward without outputs makes.
 *
 *     pairs     A, the pairs of queries with keys, of each chunk; queries kept since its start, keys until its end, and what is kept over it,
 *               as chains take them; no chain
 *     carry     T, the gradient of the state behind each chunk, from the last one to the first: T <- whole T + (Q since)' dO
 */
#include "linear_warps.h"

/* ---- pairs */

void lw_pairs_argument(LinearWarps *w, AuTileMode mode)
{
    Linear *l = &w->l;
    const char *batch = lanes_axis(&l->x, 0, 0);
    tile_arg(l->x.t, "kept_pairs", mode,
             "%s[b:%s, h:%s, n:cdiv(%s, %d) + %s - %s + 1, q:%d, kv:%d]", l->x.operand, batch,
             l->heads, l->tokens, l->chunk, lin_sequences(l), batch, l->chunk, l->chunk);
}

void lw_totals_argument(LinearWarps *w, AuTileMode mode)
{
    Linear *l = &w->l;
    const char *batch = lanes_axis(&l->x, 0, 0);
    tile_arg(l->x.t, "totals", mode, "f32[b:%s, h:%s, n:cdiv(%s, %d) + %s - %s + 1, d:%d]", batch,
             l->heads, l->tokens, l->chunk, lin_sequences(l), batch, w->d);
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

void lw_issue_pairs(LinearWarps *w, const char *stage)
{
    AuTileBuild *t = w->l.x.t;
    warps_issue(&w->l.x, TILE_NAME("tp"),
                tile_part(t,
                          "kept_pairs[b, h, place_brought, self * %d +: %d from 0 to rows_brought, "
                          ":]",
                          w->share, w->share),
                tile_part(t, "P[%sself * %d +: %d, :]", stage, w->share, w->share));
}

/* ---- the chain */

static void issue(LinearWarps *w, const char *chunk, const char *stage)
{
    lw_issue(w, chunk, stage);
    lw_issue_given(w, chunk, stage);
}

static void chunk_back(LinearWarps *w)
{
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const bool ahead = warps_are_async(&l->x), two = l->x.shape->stages > 1;
    tile_set(t, "chunk", "cdiv(length, %d) - 1 - back", l->chunk);
    tile_set(t, "first", "start + chunk * %d", l->chunk);
    lw_place_of_states(w, "place", "chunk");
    lw_load_total(w);
    if (!ahead) issue(w, "chunk", "");
    lw_wait(w);
    warps_wait(&l->x, "td");
    lw_change(w);
    lw_numbers(w);
    lw_share_gradient(w);
    tile_sync(t, "all");
    if (two) issue(w, "chunk - 1", warps_stage(&l->x, true));
    lw_keep_rows(w, "T", "dstates");
    lw_begin_state(w);
    tile_set(t, "dstate", "dstate * exp2(whole)");
    tile_product(
        t, "dstate", l->x.atom, TILE_ADD,
        tile_text(t, "Q[%s:, %s +: %d]", warps_stage(&l->x, false), lw_state_row(w), w->channels),
        tile_text(t, "D[%s:, %s +: %d]", warps_stage(&l->x, false), lw_state_column(w),
                  w->columns));
    lw_end_state(w);
    tile_sync(t, "all");
    if (ahead && !two) issue(w, "chunk - 1", "");
    if (two) tile_set(t, "at", "1 - at");
}

void lw_channels_carry_kernel(LinearWarps *w)
{
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    lw_carry_head(w);
    lw_memories(w);
    lw_given_memory(w);
    warps_tile(&l->x, TILE_NAME("T"), "d", w->d, "e", w->e, 1);
    tile_barrier(t, "all", 0, l->x.shape->executors);
    tile_role(t, "core", l->x.shape->executors, TILE_ON_WARP, 0);
    lin_find_sequence(l);
    lin_name_heads(l);
    tile_frag(t, "dstate", "f32[d:%d, e:%d] @ %s.C = 0.0", w->channels, w->columns,
              l->x.atom->name);
    tile_frag(t, "whole", "f32[d:%d] like dstate", w->channels);
    lw_keep_declare(w);
    lw_declare(w);
    lw_move_gradient(w, true);
    if (l->x.shape->stages > 1) tile_set(t, "at", "0");
    tile_set(t, "last", "cdiv(length, %d) - 1", l->chunk);
    if (warps_are_async(&l->x)) issue(w, "last", warps_stage(&l->x, false));
    tile_for_range(t, "back", "0", tile_text(t, "cdiv(length, %d)", l->chunk));
    chunk_back(w);
    tile_end(t);
    lw_wait(w);
    warps_wait(&l->x, "td");
    lw_move_gradient(w, false);
    tile_end(t);
    tile_end(t);
    l->names_heads = false;
}
