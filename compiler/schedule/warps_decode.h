/* warps_decode.h - what kernels for a few queries share: rows of all heads of a group in one tile, each block a part of their keys. */
#ifndef AU_SCHEDULE_WARPS_DECODE_H
#define AU_SCHEDULE_WARPS_DECODE_H

#include "warps.h"

/* warps_decode_parts.c. Of a block's rows (Lanes.block) and how many blocks are on a processor (Lanes.resident). */
const char *warps_parts(Lanes *x); /* how many the keys of a head come in */
/* The workspace: sums `part_acc` and `part_state0`.., of each part and row. */
void warps_part_arguments(Lanes *x, AuTileMode mode);
/* The kernel `keys`, arguments, grid, lets, the list `keys` of the part's tiles. */
void warps_keys_head(Lanes *x);
/* The kernel `forward`, which joins them. */
void warps_join_parts_kernel(Lanes *x);
void warps_part_regions(Lanes *x); /* of the workspace */
/* Why blocks of such rows would not do, whatever their shape; NULL: they would. */
const char *warps_packed_refusal(AuArena *arena, const AuProblem *p);

#endif
