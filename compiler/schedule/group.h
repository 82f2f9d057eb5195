/* group.h - what the files of the schedule `group` share, beyond warps.h. */
#ifndef AU_SCHEDULE_GROUP_H
#define AU_SCHEDULE_GROUP_H

#include "warps.h"

enum { GROUP_ROWS = 64 }; /* query rows of a group of warps: those of one instruction */

/* The matrix unit of a group of warps for the operands; NULL: there is none. */
const AuTileAtom *group_atom(const AuProblem *p);
/* What follows from the rest of a shape. */
void group_complete(const AuProblem *p, AuShape *shape);
/* Why the shape does not do for the problem: what it has no form for, widths, registers, shared memory; NULL: it does. */
const char *schedule_group_refusal(AuArena *arena, const AuProblem *p, const AuShape *shape);
/* Bytes of rows of [width] elements that units move and multiply side by side. */
int32_t group_swizzle(const AuProblem *p, int32_t width);

#endif
