/* warps.h - what the kernels of the schedule `warps` share, beyond lanes.h. */
#ifndef AU_SCHEDULE_WARPS_H
#define AU_SCHEDULE_WARPS_H

#include "lanes.h"

/* Why the shape does not do for the problem: widths, registers, shared memory; NULL: it does. */
const char *schedule_warps_refusal(AuArena *arena, const AuProblem *p, const AuShape *shape);

Lanes warps_begin(AuArena *arena, AuDiags *diags, const AuProblem *p, AuSchedule *out);
int32_t warps_padded(const AuTileAtom *atom, int32_t width); /* to the depth of a product */
/* The last index of a view of rows of that width: `:`, or a span up to the padded width. */
const char *warps_columns(Lanes *x, int32_t width);
/* A tile in shared memory, swizzled; tiles of keys (rows `kv`) have a stage as their first axis if there are stages. */
void warps_tile(Lanes *x, const char *name, const char *rows, int32_t count, const char *columns,
                int32_t width);

#endif
