/* linear_warps_carry.c - gradients apart: the kernel `carry`, the chain of T, the gradient of the state behind each chunk, from the last one to
 * the first, a strip of value columns a block. It keeps T, rounded as it is as an operand, for the kernel `chunks`. With decays a channel
 * queries come as they reach T, kept since the chunk's start (linear_warps_pairs.c):
 *
 *     T <- T whole + (Q since)' dO
 *
 * With feedback `key` it keeps y, too, one number an element; P is made by warps that do not solve.
 *
 *     y = M' (P' dO + (K T) until)       T <- T whole + (Q since)' dO + (e K since)' y
 *
 * With both P comes, too, and keys as readers are rows of their own. With feedback `own` rows x read and rows b write, A(q, b) comes as P, and
 * there are no strengths: y = M' (A(q, b)' dO + (b until) T). */
#include "linear_warps.h"

/* Do pairs of queries come with a chunk? */
static bool has_pairs(const LinearWarps *w) { return lw_kept_of_chain(w) != NULL; }

static void head(LinearWarps *w)
{
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    tile_kernel(t, "carry");
    lanes_arguments(&l->x);
    tile_arg(t, "do", TILE_IN, "%s[b:%s, h:%s, q:%s, e:%d]", l->x.operand, lanes_axis(&l->x, 0, 0),
             l->heads, l->tokens, l->x.p->e);
    lin_sequences_argument(l);
    for (uint32_t in = 0; in < 2; in++)
        tile_arg(t, in ? "dstate_in" : "dstate_out", in ? TILE_OUT : TILE_IN,
                 "f32[b:%s, h:%s, d:%d, e:%d]", lin_sequences(l), l->heads, l->x.p->d, l->x.p->e);
    lw_kept_argument(w, "dstates", TILE_INOUT, false);
    if (lw_is_fed(w)) lw_kept_argument(w, "solutions", TILE_INOUT, true);
    lw_numbers_argument(w, TILE_IN);
    if (lw_is_fed(w)) lw_inverses_argument(w, TILE_IN);
    lw_rows_arguments(w);
    if (w->has_decayed) lw_totals_argument(w, TILE_IN);
    lw_given_argument(w, TILE_IN);
    if (has_pairs(w)) lw_pairs_argument(w, lw_kept_of_chain(w), TILE_IN);
    tile_grid(t, "vb: %d, h: %s, n: %s", (w->kept_columns + w->e - 1) / w->e, l->heads,
              lin_sequences(l));
}

/* Are queries kept since the chunk's start here, beside those of pairs? */
static bool keeps_queries(const LinearBack *b)
{
    return b->is_fed && lin_decays(&b->w.l) && !b->w.has_decayed;
}

static void memories(LinearBack *b)
{
    LinearWarps *w = &b->w;
    Linear *l = &w->l;
    lw_memories(w);
    lw_given_memory(w);
    warps_tile(&l->x, TILE_NAME("T"), "d", w->d, "e", w->e, 1);
    if (b->is_fed)
        warps_tile(&l->x, TILE_NAME(has_pairs(w) ? lw_kept_of_chain(w)->memory : "P"), "q",
                   l->chunk, "kv", l->chunk, has_pairs(w) ? l->x.shape->stages : 1);
    if (keeps_queries(b)) warps_tile(&l->x, TILE_NAME("Qs"), "q", l->chunk, "d", w->d, 1);
    if (b->is_fed) {
        lw_key_memories(w);
        lw_key_back_memories(b);
    }
    tile_barrier(l->x.t, "all", 0, l->x.shape->executors);
}

static void declare_pairs(LinearWarps *w)
{
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const char *atom = l->x.atom->name;
    tile_frag(t, "score", "f32[q:%d, kv:%d] @ %s.C", LINEAR_ROWS, l->chunk, atom);
    tile_frag(t, "row_q", "%s[q:%d, d:%d] @ %s.A", l->x.operand, LINEAR_ROWS, w->d, atom);
    tile_frag(t, "since_row", "f32[q:%d] like row_q", LINEAR_ROWS);
    if (lin_decays_by_token(l)) {
        tile_frag(t, "since", "f32[q:%d] like score", LINEAR_ROWS);
        tile_frag(t, "at_writer", "f32[kv:%d] like score", l->chunk);
    }
    if (l->n->decay == AU_DECAY_CONSTANT) lin_rate(l);
}

static void fragments(LinearBack *b)
{
    LinearWarps *w = &b->w;
    AuTileBuild *t = w->l.x.t;
    tile_frag(t, "dstate", "f32[d:%d, e:%d] @ %s.C = 0.0", w->channels, w->columns,
              w->l.x.atom->name);
    if (w->has_decayed) tile_frag(t, "whole", "f32[d:%d] like dstate", w->channels);
    lw_keep_declare(w);
    if (b->is_fed) {
        if (!has_pairs(w)) declare_pairs(w);
        lw_key_declare(w);
        if (lin_is_fed(&w->l))
            tile_frag(t, "erase_of_solved", "f32[kv:%d] like solved", w->l.chunk);
    }
    lw_declare(w);
}

void lw_given_memory(LinearWarps *w)
{
    Linear *l = &w->l;
    warps_tile(&l->x, TILE_NAME("D"), "q", l->chunk, "e", w->e, l->x.shape->stages);
}

/* "vb * 64 + ", before columns of the block's in a tensor; nothing where it has them all. */
static const char *of_block(LinearWarps *w)
{
    return w->e == w->kept_columns ? "" : tile_text(w->l.x.t, "vb * %d + ", w->e);
}

void lw_issue_given(LinearWarps *w, const char *chunk, const char *stage)
{
    AuTileBuild *t = w->l.x.t;
    warps_issue(&w->l.x, TILE_NAME("td"),
                tile_part(t,
                          "%s[b, h, start + (%s) * %d + self * %d +: %d from start to end, %s0 "
                          "+: %d]",
                          lin_needs_output(&w->l) ? "given" : "do", chunk, w->l.chunk, w->share,
                          w->share, of_block(w), w->e),
                tile_part(t, "D[%sself * %d +: %d, :]", stage, w->share, w->share));
}

static void issue(LinearWarps *w, const char *chunk, const char *stage)
{
    lw_issue(w, chunk, stage);
    lw_issue_given(w, chunk, stage);
}

/* Of the warp's part of T, in a tensor of all columns. */
static const char *part_of(LinearWarps *w, const char *before)
{
    return tile_text(w->l.x.t, "%s, %s +: %d, %s%s +: %d]", before, lw_state_row(w), w->channels,
                     of_block(w), lw_state_column(w), w->columns);
}

void lw_move_gradient(LinearWarps *w, bool in)
{
    AuTileBuild *t = w->l.x.t;
    lw_begin_state(w);
    if (in)
        tile_load(t, "dstate", "%s pad 0", part_of(w, "dstate_out[n, h"));
    else
        tile_store(t, "dstate -> %s clip", part_of(w, "dstate_in[n, h"));
    lw_end_state(w);
}

void lw_share_gradient(LinearWarps *w)
{
    AuTileBuild *t = w->l.x.t;
    lw_begin_state(w);
    tile_store(t, "%s(dstate) -> T[%s +: %d, %s +: %d]", w->l.x.operand, lw_state_row(w),
               w->channels, lw_state_column(w), w->columns);
    lw_end_state(w);
}

/* P, by the last warps. */
static void pairs(LinearWarps *w)
{
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const char *stage = warps_stage(&l->x, false), *kept = "";
    tile_if(t, "self >= %d", l->x.shape->executors - w->row_groups);
    tile_set(t, "i", "%s + iota(q:%d)", lw_row(w), LINEAR_ROWS);
    tile_set(t, "j", "iota(kv:%d)", l->chunk);
    tile_product(t, "score", l->x.atom, TILE_START,
                 tile_text(t, "Q[%s%s +: %d, :]", stage, lw_row(w), LINEAR_ROWS),
                 tile_text(t, "K[%s:, :]", stage));
    if (lin_decays_by_token(l)) {
        tile_load(t, "since", "G[%s +: %d] as [q]", lw_row(w), LINEAR_ROWS);
        tile_load(t, "at_writer", "G[0 +: %d]", l->chunk);
        kept = " * exp(where(j <= i, since - at_writer, -inf))";
    } else if (lin_decays(l))
        kept = " * exp(f32(i - j) * rate)";
    tile_store(t, "%s(where(j <= i, score%s, 0.0)) -> P[%s +: %d, :]", l->x.operand, kept,
               lw_row(w), LINEAR_ROWS);
    tile_end(t);
}

/* Queries kept since the chunk's start, by the warps before those that make P. */
static void keep_queries(LinearBack *b)
{
    LinearWarps *w = &b->w;
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const int32_t groups = w->row_groups, first = l->x.shape->executors - 2 * groups;
    const char *kept = tile_text(t, "exp(f32(%s + iota(q:%d) + 1) * rate)", lw_row(w), LINEAR_ROWS);
    if (!keeps_queries(b)) return;
    tile_if(t, "self >= %d && self < %d", first, first + groups);
    if (lin_decays_by_token(l)) {
        tile_load(t, "since_row", "G[%s +: %d] as [q]", lw_row(w), LINEAR_ROWS);
        kept = "exp(since_row)";
    }
    tile_load(t, "row_q", "Q[%s%s +: %d, :]", warps_stage(&l->x, false), lw_row(w), LINEAR_ROWS);
    tile_store(t, "%s(f32(row_q) * %s) -> Qs[%s +: %d, :]", l->x.operand, kept, lw_row(w),
               LINEAR_ROWS);
    tile_end(t);
}

/* T; Yh and Yl are y, erased and kept since the chunk's start. */
static void carry(LinearBack *b)
{
    LinearWarps *w = &b->w;
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const char *stage = warps_stage(&l->x, false),
               *rows = tile_text(t, "%s +: %d", lw_state_row(w), w->channels),
               *columns = tile_text(t, "%s +: %d", lw_state_column(w), w->columns);
    lw_begin_state(w);
    if (lin_decays(l))
        tile_set(t, "dstate", w->has_decayed ? "dstate * exp2(whole)" : "dstate * whole");
    tile_product(t, "dstate", l->x.atom, TILE_ADD,
                 keeps_queries(b) ? tile_text(t, "Qs[:, %s]", rows)
                                  : tile_text(t, "Q[%s:, %s]", stage, rows),
                 tile_text(t, "D[%s:, %s]", stage, columns));
    if (b->is_fed)
        lw_add_halves(w, "dstate",
                      tile_text(t, "%s[%s:, %s] as [q, d]", lw_fed_readers(w), stage, rows), "Y",
                      tile_text(t, "[%s, :] as [e, q]", columns));
    lw_end_state(w);
}

/* What chunks write comes of T, between barriers. */
static void solve(LinearBack *b)
{
    LinearWarps *w = &b->w;
    AuTileBuild *t = w->l.x.t;
    lw_begin_solvers(w);
    lw_key_back_right(b);
    if (!has_pairs(w)) {
        lw_end_solvers(w);
        pairs(w);
        keep_queries(b);
        tile_sync(t, "all");
        lw_begin_solvers(w);
    }
    lw_key_back_solve(b);
    lw_end_solvers(w);
    tile_sync(t, "all");
}

static void chunk_back(LinearBack *b)
{
    LinearWarps *w = &b->w;
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const bool ahead = warps_are_async(&l->x), two = l->x.shape->stages > 1;
    tile_set(t, "chunk", "cdiv(length, %d) - 1 - back", l->chunk);
    tile_set(t, "first", "start + chunk * %d", l->chunk);
    lw_place_of_states(w, "place", "chunk");
    if (lw_decay(w) == AU_DECAY_CONSTANT) {
        lin_count(l);
        tile_set(t, "whole", "exp(f32(count) * rate)");
    }
    if (w->has_decayed) lw_load_total(w);
    if (!ahead) issue(w, "chunk", "");
    lw_wait(w);
    warps_wait(&l->x, "td");
    lw_change(w);
    lw_numbers(w);
    lw_share_gradient(w);
    tile_sync(t, "all");
    if (two) issue(w, "chunk - 1", warps_stage(&l->x, true));
    if (lin_decays_by_token(l) && !lw_by_channel(w)) {
        tile_load(t, "total", "G[%d]", l->chunk - 1);
        tile_set(t, "whole", "exp(total)");
    }
    lw_keep_rows(w, "T", "dstates");
    if (b->is_fed) solve(b);
    carry(b);
    tile_sync(t, "all");
    if (ahead && !two) issue(w, "chunk - 1", "");
    if (two) tile_set(t, "at", "1 - at");
}

void lw_carry_kernel(LinearWarps *w)
{
    LinearBack b = {.w = *w, .is_fed = lw_is_fed(w)};
    Linear *l = &b.w.l;
    AuTileBuild *t = l->x.t;
    b.w.without_values = true;
    b.w.without_keys = !b.is_fed;
    b.w.rounds_written = true;
    b.w.keeps_states = b.w.keeps_written = false;
    head(&b.w);
    memories(&b);
    tile_role(t, "core", l->x.shape->executors, TILE_ON_WARP, 0);
    lin_find_sequence(l);
    lin_name_heads(l);
    fragments(&b);
    lw_move_gradient(&b.w, true);
    if (l->x.shape->stages > 1) tile_set(t, "at", "0");
    tile_set(t, "last", "cdiv(length, %d) - 1", l->chunk);
    if (warps_are_async(&l->x)) issue(&b.w, "last", warps_stage(&l->x, false));
    tile_for_range(t, "back", "0", tile_text(t, "cdiv(length, %d)", l->chunk));
    chunk_back(&b);
    tile_end(t);
    lw_wait(&b.w);
    warps_wait(&l->x, "td");
    lw_move_gradient(&b.w, false);
    tile_end(t);
    tile_end(t);
}
