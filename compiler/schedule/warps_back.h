/* warps_back.h - backward on the matrix units of warps, beyond what all schedules share (lanes_back.h). */
#ifndef AU_SCHEDULE_WARPS_BACK_H
#define AU_SCHEDULE_WARPS_BACK_H

#include "warps.h"

/* Statistics of rows that pairs need: finals, then their adjoints. */
uint32_t back_row_count(const Lanes *x);
const char *back_row_name(Lanes *x, uint32_t n);     /* the tensor */
const char *back_row_variable(Lanes *x, uint32_t n); /* the fragment */
const char *back_output_gradient(Lanes *x);          /* dO', as [b, h, q, e] */

/* Why this schedule does not have the attention's gradients; NULL: it has. */
const char *warps_back_refusal(AuArena *arena, const AuProblem *p);
/* The same of a shape. */
const char *schedule_warps_back_refusal(AuArena *arena, const AuProblem *p, const AuShape *shape);
Lanes warps_back_begin(AuArena *arena, AuTileBuild *t, const AuProblem *p, AuSchedule *out);
/* Rows and channels of the piece of dQ that one warp makes of a tile. */
void warps_dq_piece(const Lanes *x, int32_t *rows, int32_t *channels);

#endif
