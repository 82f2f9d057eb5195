/* shapes.h - shapes of kernels as text, a row each, and tables of rows.
 *
 *     warps_forward: warps=4 rows=32 keys=64 stages=1             what --shape takes: every kernel of that schedule
 *     sm_90 bf16 64 64 warps_forward: warps=4 rows=32 keys=96     a row of a table: on that machine, for that operand
 *                                                                 type and those widths of keys and values
 *
 * What a row leaves out is as the schedule's rule has it. A # begins a comment. */
#ifndef AU_SCHEDULE_SHAPES_H
#define AU_SCHEDULE_SHAPES_H

#include "schedule.h"

/* Which part of a problem a row is for. */
typedef enum AuShapesAre { SHAPES_TUNED, SHAPES_FORCED } AuShapesAre;

/* With the rows of shapes.def. */
AuShapes *shapes_new(AuArena *arena, AuDiags *diags);
/* Adds the rows of a text, which diagnostics call [name]; later ones come before earlier ones. false: an error, with its line. */
bool shapes_read(AuShapes *shapes, AuDiags *diags, const char *name, const char *text,
                 size_t length, AuShapesAre which);

/* "warps_forward: warps=4 rows=32 ..", which reads back as the same shape. */
const char *shape_text(AuArena *arena, const char *schedule, const AuShape *shape);

/* Changes the shape, which is that of the rule, to what a row says; false: no row is for the problem. *span is the row's. */
bool shapes_apply(const AuShapes *shapes, const AuProblem *problem, const char *schedule,
                  AuShapesAre which, AuShape *shape, AuSpan *span);
/* Does the span lie in one of the texts? */
bool shapes_have(const AuShapes *shapes, AuSpan span);
/* Is every key of the schedule in its limits? NULL, or the key that is not. */
const char *shape_missing(const char *schedule, const AuShape *shape);

#endif
