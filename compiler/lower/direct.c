/* direct.c - asynchronous copies of machines that take one place in shared memory for all lanes (TILE_COPIES_DIRECT): lane l writes its 16 bytes l
 * times 16 behind lane 0.
 *
 * So a lane does not choose where its vector goes but which one it brings: the tile's rows lie one behind the other without a gap, vectors are
 * numbered as they lie there, and where the swizzle puts another vector of the row than the one of that number, the lane brings that one.
 * Such copies write no zeros. A view that is not inside of the tensor as a whole, or whose rows are no vectors, goes by way of
 * registers as where nothing copies by itself, behind one branch. */
#include "internal.h"

enum { VECTOR = 16, ROWS = 8 }; /* bytes of a lane; rows after which a swizzle repeats itself */

typedef struct Direct {
    const AuTileExpr *from, *to;
    const AuTileAxis *rows, *columns;
    int32_t unit, units, total; /* elements of a vector; vectors of a row, of the view */
    int32_t span;               /* vectors within which those of a row change places */
} Direct;

bool lower_copies_direct(const AuLower *l)
{
    const AuTileCaps *caps = l->module->caps;
    return !(caps->copies & TILE_COPIES_LANES) && (caps->copies & TILE_COPIES_DIRECT);
}

/* Rows of the view are whole rows of the tile, from a multiple of eight on, and these lie one behind the other. */
static bool suits(AuLower *l, const AuTileStmt *s, Direct *x)
{
    const AuTileExpr *to = s->move.dest, *from = s->move.source;
    const AuTileType *type = from->type, *tile = &to->memory->type;
    const int32_t bytes = tile_elem(tile->elem)->bytes;
    if (l->module->caps->direct_bytes < VECTOR || to->memory->space != TILE_SHARED ||
        type->count != 2 || tile->count < 2 || s->move.when || s->move.clip)
        return false;
    const AuTileAxis *row = &tile->axes[tile->count - 1];
    const AuLowerMemory *place = lower_memory(l, to->memory);
    *x = (Direct){.from = from,
                  .to = to,
                  .rows = &type->axes[0],
                  .columns = &type->axes[1],
                  .unit = VECTOR / bytes,
                  .units = row->size * bytes / VECTOR,
                  .total = type->axes[0].size * row->size * bytes / VECTOR,
                  .span = place->swizzle_span / VECTOR};
    return row->size == x->columns->size && row->size * bytes % VECTOR == 0 && !place->part &&
           !place->packed && !place->pair_axis &&
           kernel_at(l->k, place->strides[tile->count - 2])->imm == row->size &&
           (!to->has_index || lower_starts_at(to->args.at[tile->count - 2], ROWS)) &&
           lower_in_vectors(l, from, x->columns->name, x->unit) &&
           lower_in_vectors(l, to, x->columns->name, x->unit);
}

/* Which vector of the view lane [lane] brings in turn [turn]. */
static AuPoint brought(AuLower *l, const Direct *x, int32_t turn)
{
    AuKernel *k = l->k;
    const int32_t each = ROWS / x->span; /* rows after which vectors change places */
    const AuVal flat = kernel_op2(k, AU_K_ADD, kernel_lane(k),
                                  kernel_i32(k, turn * (int32_t)k->lanes)),
                row = kernel_op2(k, AU_K_IDIV, flat, kernel_i32(k, x->units));
    AuVal at = kernel_op2(k, AU_K_IMOD, flat, kernel_i32(k, x->units));
    if (x->span > 1) {
        const AuVal in_eight = kernel_op2(k, AU_K_AND, row, kernel_i32(k, ROWS - each));
        at = kernel_op2(k, AU_K_XOR, at, kernel_op2(k, AU_K_IDIV, in_eight, kernel_i32(k, each)));
    }
    return (AuPoint){.at = {{.axis = x->rows->name, .index = row},
                            {.axis = x->columns->name,
                             .index = kernel_op2(k, AU_K_MUL, at, kernel_i32(k, x->unit))}},
                     .count = 2};
}

/* Turns after which a lane brings the same vector of a row further down; all of them: there are none. */
static int32_t period(const AuLower *l, const Direct *x, int32_t turns)
{
    const int32_t lanes = (int32_t)l->k->lanes;
    if (lanes % x->units) return turns;
    const int32_t rows = lanes / x->units;
    return x->span > 1 && rows < ROWS ? ROWS / rows : 1;
}

/* From row to row of the tensor, a whole number of vectors. */
static AuVal row_stride(AuLower *l, const Direct *x)
{
    uint32_t n = 0;
    while (lower_view_axis(x->from, n) != x->rows->name) n++;
    const AuVal unit = kernel_i64(l->k, x->unit),
                stride = lower_memory(l, x->from->memory)->strides[n];
    return kernel_op2(l->k, AU_K_MUL, kernel_op2(l->k, AU_K_IDIV, stride, unit), unit);
}

static bool has_rows(const Direct *x)
{
    for (uint32_t n = 0; n + 1 < x->from->memory->type.count; n++)
        if (lower_view_axis(x->from, n) == x->rows->name) return true;
    return false;
}

static void all_turns(AuLower *l, const Direct *x)
{
    AuKernel *k = l->k;
    const int32_t lanes = (int32_t)k->lanes, turns = (x->total + lanes - 1) / lanes,
                  again = period(l, x, turns);
    const AuLowerMemory *from = lower_memory(l, x->from->memory),
                        *to = lower_memory(l, x->to->memory);
    const AuPoint first = {.at = {{.axis = x->rows->name, .index = kernel_i32(k, 0)},
                                  {.axis = x->columns->name, .index = kernel_i32(k, 0)}},
                           .count = 2};
    const AuVal base = lower_piece_address(l, x->to, &first, OUTSIDE_TRUSTED, NULL, x->unit);
    const AuVal stride = row_stride(l, x);
    AuVal *at = AU_NEW_ARRAY(l->arena, AuVal, (size_t)turns);
    for (int32_t t = 0; t < turns; t++) {
        const AuPoint p = brought(l, x, t);
        if (t < again)
            at[t] = lower_piece_address(l, x->from, &p, OUTSIDE_TRUSTED, NULL, x->unit);
        else
            at[t] = kernel_op2(k, AU_K_ADD, at[t % again],
                               kernel_op2(k, AU_K_MUL, stride,
                                          kernel_i64(k, t / again * again * lanes / x->units)));
        const AuVal place = kernel_op2(k, AU_K_ADD, base, kernel_i32(k, t * lanes * x->unit));
        const int32_t left = x->total - t * lanes;
        kernel_copy_direct(k, to->mem, place, from->mem, at[t], VECTOR,
                           left < lanes
                               ? kernel_op2(k, AU_K_LT, kernel_lane(k), kernel_i32(k, left))
                               : (AuVal){0});
    }
}

void lower_direct(AuLower *l, const AuTileStmt *s)
{
    Direct x = {0};
    AuTileStmt by_registers = *s;
    by_registers.move.is_async = false;
    AuVal whole = kernel_i1(l->k, false);
    if (suits(l, s, &x) && has_rows(&x)) {
        const AuLowerMemory *from = lower_memory(l, x.from->memory);
        whole = lower_both(l, lower_both(l, from->by_vectors, from->present),
                           lower_view_inside(l, x.from));
        if (!whole.i) whole = kernel_i1(l->k, true);
    }
    if (!lower_is_known(l, whole, false)) {
        kernel_if(l->k, whole);
        all_turns(l, &x);
        kernel_else(l->k);
        const AuStrides known = lower_strides_late(l, x.from);
        lower_transfer(l, &by_registers);
        lower_strides_again(l, x.from, &known);
        kernel_end(l->k);
    } else
        lower_transfer(l, &by_registers);
    kernel_copy_commit(l->k);
}
