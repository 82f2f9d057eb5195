/* lanes.h - what the kernels of the lanes schedule share. */
#ifndef AU_SCHEDULE_LANES_H
#define AU_SCHEDULE_LANES_H

#include "schedule.h"

typedef struct Lanes {
    AuTileBuild *t;
    const AuProblem *p;
    const AuShape *shape;
    const AuTileAtom *atom;
    AuSchedule *out;
    const char *operand; /* "bf16" */
    const char *held; /* element type of the operands of products: the operand type where the atom
                         takes it, else f32 */
    bool on_cpu, own_v;
    bool values_in_rows; /* products take V as rows of e: v_rows writes it so once */
    AuArena *arena;
    int32_t rows, block; /* query rows of an executor, of a block */
} Lanes;

const char *lanes_tensor(Lanes *x, uint32_t n); /* the name of a tensor of the script */
const char *lanes_axis(Lanes *x, uint32_t tensor, uint32_t axis); /* extent of an axis, as text */
const char *lanes_elem(Lanes *x, uint32_t tensor);                /* its element type */
void lanes_arguments(Lanes *x);                /* tensors and parameters of the script */
void lanes_region(Lanes *x, const char *name); /* an argument that lies in the workspace */
AuTileExecutor lanes_executor(const Lanes *x);
void lanes_key_bounds(
    Lanes *x); /* lets n_low, f_low, f_high, n_high: tiles of keys for the block's rows */

/* lanes_rows.c: keys or values with k_mod or v_mod applied, once a row, or values transposed; into
 * NAME_changed. */
void lanes_rows_kernel(Lanes *x, uint32_t n);
/* The type of NAME_changed; NULL: there is none. */
const char *lanes_changed_type(Lanes *x, uint32_t n);
/* lanes_lists.c: for masks that depend on data, the key tiles of each block of rows as lists. */
void lanes_list_kernels(Lanes *x);
const char *lanes_list_type(Lanes *x, bool counts);
bool lanes_list_by_head(
    const Lanes *x); /* else all heads share the lists: their head axis has one element */

#endif
