/* warps_decode.h - what kernels for a few queries share: rows of all heads of a group in one tile, each block a part of their keys. */
#ifndef AU_SCHEDULE_WARPS_DECODE_H
#define AU_SCHEDULE_WARPS_DECODE_H

#include "warps.h"

/* warps_decode_parts.c. The kernel `keys`, of a part of a head's keys: of its list `keys` of tiles [part] makes sums and states, and stores
 * them as `part_acc` and `part_state0`..; and the kernel `forward`, which joins a row's parts. Of a block's rows (Lanes.block) and how many
 * blocks are on a processor (Lanes.resident). */
void warps_parts_kernels(Lanes *x, void (*memories)(Lanes *x), void (*part)(Lanes *x));
/* Lanes.rows rows from [first] on: `r`, and the head `h` and the query `i` of each. */
void warps_name_rows(Lanes *x, const char *first);
/* Why blocks of such rows would not do, whatever their shape; NULL: they would. */
const char *warps_packed_refusal(AuArena *arena, const AuProblem *p);

#endif
