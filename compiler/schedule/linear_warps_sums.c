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
