/* back_rows.h - kernels over rows, before and after the products of backward. */
#ifndef AU_SCHEDULE_BACK_ROWS_H
#define AU_SCHEDULE_BACK_ROWS_H

#include "lanes_back.h"

/* A kernel over rows of q (0), k (1), v (2). */
typedef struct RowSpace {
    uint32_t tensor;
    const char *axis, *channel, *index; /* "q", "d", "i" */
    int32_t width;
} RowSpace;

/* As many blocks as the rows take, or [times], 0 or 1, as many. Gives the nested ones to be ended. */
uint32_t back_open_rows(Lanes *x, const RowSpace *r, BackSums sums);
uint32_t back_open_rows_times(Lanes *x, const RowSpace *r, const char *times, BackSums sums);
LanesSide back_side(const RowSpace *r);
const char *back_place(Lanes *x, const RowSpace *r); /* the block's rows, "b, h, nb * 64 +: 64" */
void back_end_kernel(Lanes *x, uint32_t blocks);
/* The rows of a tensor as f32 in the fragment [name]; `row`, a number of f32 a row, as [like] has them. */
void back_load_rows(Lanes *x, const RowSpace *r, const char *name, const char *elem,
                    const char *tensor);
void back_declare_row(Lanes *x, const RowSpace *r, const char *like);
/* Gradients of inputs that rows read: arguments, names of what the mod's hook gives (", value0"), and where they are added. [element]: the
 * variable that the mod was given. */
void back_sum_arguments(Lanes *x, const AuInputGrads *inputs);
const char *back_value_names(Lanes *x, uint32_t count);
void back_scatter_rows(Lanes *x, const RowSpace *r, const AuInputGrads *inputs,
                       const char *element);

#endif
