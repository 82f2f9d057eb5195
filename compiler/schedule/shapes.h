/* shapes.h - shapes of kernels as text, a row each, and tables of rows.
 *
 *     warps_forward: warps=4 rows=32 keys=64 stages=1             what --shape takes: every kernel of that schedule
 *     sm_90 bf16 64 64 warps_forward: warps=4 rows=32 keys=96     a row of a table: on that machine, for that operand
 *                                                                 type and those widths of keys and values
 *     sm_90a bf16 64 64 causal short group_forward: keys=64       and for such masks and lengths alone (conditions.def)
 *
 * What a row leaves out is as the schedule's rule has it. A # begins a comment. */
#ifndef AU_SCHEDULE_SHAPES_H
#define AU_SCHEDULE_SHAPES_H

#include "schedule.h"

/* Which part of a problem a row is for. */
typedef enum AuShapesAre { SHAPES_TUNED, SHAPES_FORCED } AuShapesAre;

enum {
    SHAPE_KEYS = 0
#define KEY(...) +1
#include "shape_keys.def"
};

/* What one row says. */
struct AuShapeRow {
    AuShapesAre which;
    const char *machine, *operand; /* tuned */
    int32_t d, e;
    AuMaskKind mask; /* ANY: of any */
    AuLengthClass
        length; /* likewise; else of kernels that move boxes, which alone have variants by length */
    const char *schedule;
    int32_t values[SHAPE_KEYS]; /* by the rows of shape_keys.def; -1: left out */
    AuSpan span;
    bool own;      /* of the compiler's table */
    bool *matched; /* was there a kernel that it is for? */
};

/* With the rows of shapes.def. */
AuShapes *shapes_new(AuArena *arena, AuDiags *diags);
/* Adds the rows of a text, which diagnostics call [name]; later ones come before earlier ones. false: an error, with its line. */
bool shapes_read(AuShapes *shapes, AuDiags *diags, const char *name, const char *text,
                 size_t length, AuShapesAre which);

/* "warps_forward: warps=4 rows=32 ..", which reads back as the same shape. */
const char *shape_text(AuArena *arena, const char *schedule, const AuShape *shape);

/* The row that is for the problem; NULL: none is. */
const AuShapeRow *shapes_row(const AuShapes *shapes, const AuProblem *problem, const char *schedule,
                             AuShapesAre which);
/* Changes a shape, which is that of the rule, to what the row says. */
void shape_apply(const AuShapeRow *row, AuShape *shape);
/* Of a key of the schedule, which it has. */
void shape_set(AuShape *shape, const char *schedule, const char *key, int32_t value);
/* "lanes_forward: keys=96", what was written. */
const char *shape_row_text(AuArena *arena, const AuShapeRow *row);
/* "keys"; its limits. */
const char *shape_key(uint32_t key, int32_t *least, int32_t *most);
bool shape_is_key(uint32_t key, const char *schedule, const char *name);

/* The same without the row; with [other] instead, if it is not NULL. */
AuShapes *shapes_without(AuArena *arena, const AuShapes *shapes, const AuShapeRow *row,
                         const AuShapeRow *other);
/* Says which rows of users were for no kernel at all; false: one of them must have been. */
bool shapes_report(const AuShapes *shapes, AuDiags *diags);
/* Is there a row that kernels must follow? */
bool shapes_force(const AuShapes *shapes);
/* Does the span lie in one of the texts? */
bool shapes_have(const AuShapes *shapes, AuSpan span);
/* Is every key of the schedule in its limits? NULL, or the key that is not. */
const char *shape_missing(const char *schedule, const AuShape *shape);

#endif
