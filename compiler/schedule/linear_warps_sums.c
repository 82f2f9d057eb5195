/* linear_warps_sums.c - backward by `linear_warps_backward`: the sums of a norm, the recurrence over a column of ones. Its state z is one number
 * a channel of keys, f32, and so is its gradient dz: neither is a column of the tiles, which would be 16 of them. With dsum, the gradient of a
 * token's sum:
 *
 *     dA += dsum_i w_j       dQ += dsum z since       dK += dz until w       dw += (K . dz) until + A' dsum       dz <- dz whole + (Q since)' dsum
 *
 * and the log decay gets whole <z, dz> of what passes. Where dsum is proved to be 0, what is left is what comes of the gradient of the sums that
 * the call gives out. */
#include "linear_warps.h"

/* ---- z before each chunk */

void lw_sums_argument(LinearWarps *w, AuTileMode mode)
{
    lw_chunk_argument(w, "sum_states", mode, "f32", tile_text(w->l.x.t, "d:%d", w->d));
}

/* Warps that share the columns of the state have the same, and blocks that have others. */
void lw_keep_sums(LinearWarps *w)
{
    AuTileBuild *t = w->l.x.t;
    tile_if(t, "vb == 0 && %s == 0", lw_state_column(w));
    tile_store(t, "sum_state -> sum_states[b, h, place, %s +: %d]", lw_state_row(w), w->channels);
    tile_end(t);
}

/* ---- `reverse` */

static bool has_norm(const LinearBack *b) { return b->w.l.has_norm; }
static bool has_dsum(const LinearBack *b) { return lin_has_dsum(&b->w.l); }

/* Is z read? */
static bool has_sums(const LinearBack *b) { return has_norm(b) && (has_dsum(b) || b->has_rate); }

/* What the strengths of writes get of it: of borders, of pairs. */
static bool has_ones(const LinearBack *b)
{
    return has_norm(b) && lin_has_gradient(&b->w.l, AU_SLOT_WRITE);
}

static int32_t edges_of(const LinearBack *b) { return b->key_parts * b->key_strips; }

int32_t lw_sums_of_strengths(const LinearBack *b)
{
    return has_ones(b) ? edges_of(b) + has_dsum(b) * b->w.row_groups : 0;
}

void lw_sums_arguments(LinearBack *b)
{
    if (has_sums(b)) lw_sums_argument(&b->w, TILE_IN);
}

void lw_sums_memories(LinearBack *b)
{
    AuTileBuild *t = b->w.l.x.t;
    if (!has_norm(b)) return;
    tile_shared(t, "Tsums", "f32[d:%d]", b->w.d);
    if (has_sums(b)) tile_shared(t, "Sums", "f32[d:%d]", b->w.d);
    if (has_dsum(b)) tile_shared(t, "Dsum", "f32[kv:%d]", b->w.l.chunk);
    if (has_ones(b))
        tile_shared(t, "Ones", "f32[p:%d, kv:%d]", lw_sums_of_strengths(b), b->w.l.chunk);
}

void lw_sums_declare(LinearBack *b)
{
    LinearWarps *w = &b->w;
    AuTileBuild *t = w->l.x.t;
    if (!has_norm(b)) return;
    tile_frag(t, "dsum_state", "f32[d:%d] like column = 0.0", w->channels);
    tile_frag(t, "tsums", "f32[d:%d] like dx", b->key_columns);
    if (has_sums(b)) {
        tile_frag(t, "next_z", "f32[d:%d] @ along_d = 0.0", w->d);
        tile_frag(t, "sums_of_state", "f32[d:%d] like column", w->channels);
    }
    if (!has_dsum(b)) return;
    tile_frag(t, "next_dsum", "f32[kv:%d] @ along_lanes = 0.0", w->l.chunk);
    tile_frag(t, "sums_of_row", "f32[d:%d] like dx", b->key_columns);
    tile_frag(t, "dsum_of_row", "f32[kv:%d] like dx", LINEAR_ROWS);
    tile_frag(t, "dsum_of_pair", "f32[q:%d] like score", LINEAR_ROWS);
    tile_frag(t, "dsum_of_column", "f32[q:%d] like column", w->l.chunk);
}

/* Numbers of the chunk that comes next, to registers, by a warp each. */
void lw_sums_issue(LinearBack *b, const char *chunk)
{
    LinearWarps *w = &b->w;
    AuTileBuild *t = w->l.x.t;
    if (!has_dsum(b)) return;
    tile_if(t, "self == 0");
    tile_load(t, "next_dsum",
              "dsums[b, h, start + (%s) * %d +: %d from start to end] as [kv] pad 0", chunk,
              w->l.chunk, w->l.chunk);
    tile_end(t);
}

void lw_sums_issue_state(LinearBack *b)
{
    AuTileBuild *t = b->w.l.x.t;
    const int32_t d = b->w.d;
    if (!has_sums(b)) return;
    tile_if(t, "self == 1");
    tile_load(t, "next_z",
              "sum_states[b, h, place, 0 +: %d from 0 to where(chunk_of_state < 0, 0, %d)] pad 0",
              d, d);
    tile_end(t);
}

/* And to memory, for others behind the next barrier; dz, too. */
void lw_sums_share(LinearBack *b)
{
    LinearWarps *w = &b->w;
    AuTileBuild *t = w->l.x.t;
    if (!has_norm(b)) return;
    if (has_dsum(b)) {
        tile_if(t, "self == 0");
        tile_store(t, "next_dsum -> Dsum");
        tile_end(t);
    }
    if (has_sums(b)) {
        tile_if(t, "self == 1");
        tile_store(t, "next_z -> Sums");
        tile_end(t);
    }
    lw_begin_state(w);
    tile_if(t, "%s == 0", lw_state_column(w));
    tile_store(t, "dsum_state -> Tsums[%s +: %d]", lw_state_row(w), w->channels);
    tile_end(t);
    lw_end_state(w);
}

/* dz from what the call gives out to what it gives in. */
void lw_sums_move(LinearBack *b, bool in)
{
    LinearWarps *w = &b->w;
    AuTileBuild *t = w->l.x.t;
    if (!has_norm(b)) return;
    const char *view = tile_text(t, "%s[n, h, %s +: %d]", in ? "dsum_out" : "dsum_in",
                                 lw_state_row(w), w->channels);
    lw_begin_state(w);
    if (in)
        tile_load(t, "dsum_state", "%s pad 0", view);
    else {
        tile_if(t, "%s == 0", lw_state_column(w));
        tile_store(t, "dsum_state -> %s clip", view);
        tile_end(t);
    }
    lw_end_state(w);
}

/* ---- what rows and pairs get */

void lw_sums_of_pairs(LinearBack *b)
{
    LinearWarps *w = &b->w;
    AuTileBuild *t = w->l.x.t;
    if (!has_dsum(b)) return;
    tile_load(t, "dsum_of_pair", "Dsum[%s +: %d] as [q]", lw_row(w), LINEAR_ROWS);
    tile_set(t, "dscore", "dscore + dsum_of_pair");
}

/* Of pairs as they are kept, without strengths, the executor's [columns]. */
void lw_sums_of_kept(LinearBack *b, const char *columns)
{
    LinearWarps *w = &b->w;
    AuTileBuild *t = w->l.x.t;
    if (!has_ones(b) || !has_dsum(b)) return;
    tile_set(t, "of_ones", "reduce_sum(score * dsum_of_pair, q)");
    tile_store(t, "of_ones -> Ones[%d + self %% %d, %s]", edges_of(b), w->row_groups, columns);
}

/* In `dx`, what rows have of the state at one end, before what they keep; channels [columns]. */
void lw_sums_of_rows(LinearBack *b, bool of_keys, const char *columns)
{
    LinearWarps *w = &b->w;
    AuTileBuild *t = w->l.x.t;
    if (!has_norm(b)) return;
    if (of_keys) {
        tile_load(t, "tsums", "Tsums[%s]", columns);
        tile_set(t, "dx", "dx + tsums");
    } else if (has_dsum(b)) {
        tile_load(t, "sums_of_row", "Sums[%s]", columns);
        tile_load(t, "dsum_of_row", "Dsum[%s +: %d]", lw_row(w), LINEAR_ROWS);
        tile_set(t, "dx", "dx + dsum_of_row * sums_of_row");
    }
}

/* K . dz, times what [kept] says; where the log decay has a gradient, rows of K are there for that (lw_gates_of_rows). */
void lw_sums_of_border(LinearBack *b, const char *kept)
{
    LinearWarps *w = &b->w;
    AuTileBuild *t = w->l.x.t;
    if (!has_ones(b)) return;
    if (!b->has_rate) {
        tile_frag(t, "own_key", "%s[kv:%d, d:%d] like dx", w->l.x.operand, LINEAR_ROWS,
                  b->key_columns);
        tile_load(t, "own_key", "K[%s, %s +: %d] as [kv, d]", lw_own_rows(b), lw_key_column(b),
                  b->key_columns);
    }
    tile_set(t, "of_border", "reduce_sum(f32(own_key) * tsums, d)%s", kept);
    tile_store(t, "of_border -> Ones[(%s) / %d, %s +: %d]", lw_key_column(b), b->key_columns,
               lw_row(w), LINEAR_ROWS);
}

/* What passes the chunk, of the warp's channels, before dz does: " + .."; z is there. */
const char *lw_sums_passed(LinearBack *b)
{
    LinearWarps *w = &b->w;
    AuTileBuild *t = w->l.x.t;
    if (!has_norm(b)) return "";
    tile_load(t, "sums_of_state", "Sums[%s +: %d]", lw_state_row(w), w->channels);
    return tile_text(t, " + where(%s == 0, reduce_sum(sums_of_state * dsum_state, d), 0.0)",
                     lw_state_column(w));
}

/* dz; queries of the warp's channels are in `column`, and keep [since] since the chunk's start, "" or "exp(..)". */
void lw_sums_of_state(LinearBack *b, const char *since)
{
    LinearWarps *w = &b->w;
    AuTileBuild *t = w->l.x.t;
    const char *kept = lin_decays(&w->l) ? " * whole" : "", *given = "";
    if (!has_norm(b)) return;
    if (has_dsum(b)) {
        tile_load(t, "dsum_of_column", "Dsum[0 +: %d] as [q]", w->l.chunk);
        given = tile_text(t, " + reduce_sum(f32(column) * (dsum_of_column%s%s), q)",
                          *since ? " * " : "", since);
    }
    if (*kept || *given) tile_set(t, "dsum_state", "dsum_state%s%s", kept, given);
}
