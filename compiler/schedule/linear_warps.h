/* linear_warps.h - the parts of the schedule `linear_warps`: recurrences on the matrix units of a warp. */
#ifndef AU_SCHEDULE_LINEAR_WARPS_H
#define AU_SCHEDULE_LINEAR_WARPS_H

#include "linear.h"
#include "warps.h"

/* Who has what. A chunk's rows are shared out among [row_groups] warps, 16 rows each; what warps there are more share the value columns
 * of the output. Of the state, a warp has [channels] of the keys' and [columns] of the values'. */
typedef struct LinearWarps {
    Linear l;
    int32_t d, e;         /* channels of a tile of keys, padded; value columns of a block */
    int32_t row_groups;   /* of 16 rows of a chunk */
    int32_t out_columns;  /* of an executor's part of the output */
    int32_t state_groups; /* of rows of the state, the others share its columns */
    int32_t channels, columns;
    int32_t holders; /* warps that have a part of the state, the first ones */
    int32_t share;   /* rows of a chunk that an executor brings */
    int32_t solved;  /* feedback: columns that a warp solves for */
    bool has_since;  /* places in the sums of log decays lie one behind those of their tokens */
} LinearWarps;

enum { LINEAR_ROWS = 16 };

/* linear_warps_shape.c */
void linear_warps_complete(const AuProblem *p, AuShape *shape);
int32_t linear_warps_row_groups(const AuShape *s);
int32_t linear_warps_state_groups(const AuProblem *p, const AuShape *s);
int32_t linear_warps_solved(const AuShape *s);     /* feedback: columns that a warp solves for */
int32_t linear_warps_channels(const AuProblem *p); /* padded to the depth of a product */

/* linear_warps_rows.c: tiles of q, k and v in the block's memory, of the operands' type, slots applied, and what is a number a token. */
void lw_memories(LinearWarps *w);
void lw_declare(LinearWarps *w);
/* Starts to bring chunk [chunk] to the stage, as far as tensors can be copied. */
void lw_issue(LinearWarps *w, const char *chunk, const char *stage);
void lw_wait(LinearWarps *w);
/* What of the chunk's rows is not as copied, by who copied it; sums of log decays, G, and strengths, W. */
void lw_change(LinearWarps *w);
void lw_numbers(LinearWarps *w);

const char *lw_row(LinearWarps *w); /* linear_warps.c: the first of the executor's rows */

/* linear_warps_key.c: feedback `key`; what is written lies in Uh and Ul, two numbers an element. */
void lw_key_memories(LinearWarps *w);
void lw_key_declare(LinearWarps *w);
void lw_key_pairs(LinearWarps *w); /* behind a barrier; others read it behind the next one */
void lw_key_solve(LinearWarps *w);

#endif
