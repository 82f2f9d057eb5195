/* warps_back.h - what backward kernels of warps ask of the attention. */
#ifndef AU_SCHEDULE_WARPS_BACK_H
#define AU_SCHEDULE_WARPS_BACK_H

#include "warps.h"

/* Statistics of rows that pairs need: finals, then their adjoints. */
uint32_t back_row_count(const Lanes *x);
const char *back_row_name(Lanes *x, uint32_t n);     /* the tensor */
const char *back_row_variable(Lanes *x, uint32_t n); /* the fragment */
const char *back_output_gradient(Lanes *x);          /* dO', as [b, h, q, e] */
/* The tensor that takes the gradient of keys (1) or values (2), and whether it is one of f32 sums. */
const char *back_key_gradient(Lanes *x, uint32_t n);
bool back_is_sum(const Lanes *x, uint32_t n);

void back_head(Lanes *x);              /* kernel, arguments, grid, lets, the list `queries` */
void back_pairs(Lanes *x);             /* p and ds of the products score and dp */
const char *back_takes_part(Lanes *x); /* does the pair (i, j) of a partial tile? */

#endif
