/* tensor.c - tensor memory: its tiles, loads and stores by a group of warps, a lane a row.
 *
 * A tile is 128 rows, a row's elements side by side, tiles one behind the other (halves of a buffer, stages). A lane's registers of a
 * fragment are neighbours in its row, so they move as few runs. A load is waited for where it stands, and so is a store: who hands the
 * tile on has nothing left to wait for but the fence. */
#include "internal.h"

enum { MOST_MOVED = 128, WORD = 4 };

bool lower_has_tensor(const AuLower *l)
{
    bool found = false;
    for (uint32_t n = 0; n < l->place_count; n++)
        found |= l->places[n].memory->space == TILE_TENSOR;
    return found;
}

void lower_add_tensor(AuLower *l, const AuTileMemory *m)
{
    AuKernel *k = l->k;
    const uint32_t count = m->type.count;
    AuLowerMemory p = {.memory = m, .swizzle_span = 16};
    int32_t step = 1;
    for (uint32_t n = count; n-- > 0;) {
        p.extents[n] = kernel_i32(k, m->type.axes[n].size);
        p.strides[n] = kernel_i32(k, step);
        step *= m->type.axes[n].size;
    }
    p.stage = step;
    if (count < 2 || m->type.axes[count - 2].size != AU_TENSOR_ROWS) {
        lower_refuse(l, "tensor memory %s of other than %d rows", m->name, AU_TENSOR_ROWS);
        return;
    }
    const int32_t stages = m->pipe ? m->pipe->rings * m->pipe->stage_count : 1;
    p.mem = kernel_memory(k, (AuMemory){.name = m->name,
                                        .space = AU_TENSOR,
                                        .scalar = lower_scalar(m->type.elem),
                                        .count = (uint32_t)(step * stages),
                                        .rows = AU_TENSOR_ROWS,
                                        .columns = (uint32_t)m->type.axes[count - 1].size,
                                        .span = m->span});
    AU_PUSH(l->arena, l->places, l->place_count, l->place_capacity, p);
}

/* ---- the block has it while its roles run */

static uint32_t columns_of(AuLower *l)
{
    uint32_t columns = 32;
    while (columns < kernel_tensor_columns(l->k) && columns < AU_TENSOR_COLUMNS) columns *= 2;
    return columns;
}

void lower_take_tensor(AuLower *l)
{
    AuKernel *k = l->k;
    if (!lower_has_tensor(l)) return;
    kernel_if(k, kernel_op2(k, AU_K_EQ, kernel_warp(k), kernel_i32(k, 0)));
    kernel_tensor_take(k, AU_K_TENSOR_ALLOC, columns_of(l));
    kernel_end(k);
    kernel_barrier(k, 0);
    kernel_fence(k, AU_K_TENSOR_FENCE);
}

void lower_give_tensor(AuLower *l)
{
    AuKernel *k = l->k;
    if (!lower_has_tensor(l)) return;
    kernel_barrier(k, 0);
    kernel_fence(k, AU_K_TENSOR_FENCE);
    kernel_if(k, kernel_op2(k, AU_K_EQ, kernel_warp(k), kernel_i32(k, 0)));
    kernel_tensor_take(k, AU_K_TENSOR_FREE, columns_of(l));
    kernel_end(k);
}

/* ---- loads and stores */

static const AuTileAxis *row_axis(const AuTileType *type, const AuTileExpr *ref,
                                  uint32_t *registers)
{
    const AuTileType *view = ref->type;
    const AuTileAxis *axis = view->count ? tile_axis(type, view->axes[view->count - 1].name) : NULL;
    *registers = axis ? (uint32_t)axis->size : 0;
    return axis && lower_is_of_lane(axis) && *registers == lower_registers(type) ? axis : NULL;
}

/* The first element of the lane's row, and how many there are; 0: refused. */
static uint32_t row_of(AuLower *l, const AuTileType *type, const AuTileExpr *ref, AuVal *at)
{
    uint32_t registers;
    if (type->count != 2 || !row_axis(type, ref, &registers)) {
        lower_refuse(l, "lanes of %s that do not have a row each", ref->memory->name);
        return 0;
    }
    const AuPoint first = {
        .at = {lower_coord(l, &type->axes[0], 0), lower_coord(l, &type->axes[1], 0)}, .count = 2};
    *at = lower_address(l, ref, &first, OUTSIDE_TRUSTED, NULL, false);
    return registers;
}

/* The next run: a power of two of words, as many as are left. */
static uint32_t run_of(uint32_t left, AuScalar scalar)
{
    const uint32_t each = WORD / kernel_scalar_bytes(scalar);
    uint32_t run = MOST_MOVED * each;
    while (run > left && run > each) run /= 2;
    return run;
}

void lower_tensor_load(AuLower *l, const AuTileStmt *s)
{
    AuKernel *k = l->k;
    const AuTileExpr *ref = s->load.source;
    const AuMem lanes = lower_var_array(l, s->var), tensor = lower_memory(l, ref->memory)->mem;
    AuVal at;
    const uint32_t count = row_of(l, s->var->type, ref, &at);
    if (s->load.pad || s->load.when || k->mems[lanes.i].scalar != k->mems[tensor.i].scalar)
        lower_refuse(l, "a load of tensor memory that tests or converts");
    for (uint32_t n = 0, run; n < count && !l->failed; n += run) {
        run = run_of(count - n, (AuScalar)k->mems[tensor.i].scalar);
        kernel_tensor_load(k, lanes, n, tensor,
                           kernel_op2(k, AU_K_ADD, at, kernel_i32(k, (int32_t)n)), run);
    }
    kernel_tensor_wait(k, lanes);
}

typedef struct Stored {
    const AuTileStmt *s;
    AuMem lanes;
} Stored;

static void store_one(AuLower *l, const AuPoint *p, void *user)
{
    const Stored *x = user;
    const AuTileExpr *value = x->s->move.source;
    const AuVal v = lower_as(l, lower_eval(l, value, p), (AuScalar)l->k->mems[x->lanes.i].scalar);
    kernel_store(l->k, x->lanes, lower_register(l, value->type, p), v, (AuVal){0});
}

void lower_tensor_store(AuLower *l, const AuTileStmt *s)
{
    AuKernel *k = l->k;
    const AuTileExpr *ref = s->move.dest;
    const AuMem tensor = lower_memory(l, ref->memory)->mem;
    const AuScalar scalar = (AuScalar)k->mems[tensor.i].scalar;
    AuVal at;
    const uint32_t count = row_of(l, s->move.source->type, ref, &at);
    if (s->move.op != TILE_STORE || s->move.clip || s->move.when)
        lower_refuse(l, "a %s of tensor memory that tests or adds", tile_move_names[s->move.op]);
    if (l->failed) return;
    Stored x = {s, lower_array(l, ref->memory->name, scalar, count)};
    const AuSpaces spaces = lower_spaces(l, s->move.source->type);
    lower_each(l, &spaces, store_one, &x);
    for (uint32_t n = 0, run; n < count && !l->failed; n += run) {
        run = run_of(count - n, scalar);
        kernel_tensor_store(k, tensor, kernel_op2(k, AU_K_ADD, at, kernel_i32(k, (int32_t)n)),
                            x.lanes, n, run);
    }
    kernel_tensor_wait(k, (AuMem){0});
}
