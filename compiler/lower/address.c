/* address.c - where an element of a view is: its index along each dimension of the memory, whether that is inside, and the sum of
 * indices times strides.
 *
 * Warps: what a loop over tiles does not change of an address in a tensor, the lane's place in a tile above all, is added up first
 * and the tile's part last. So the first is computed before the loop, and in it an address is a lane's base plus a number that the
 * warp shares. */
#include "internal.h"

/* Is it another number in each turn of a loop over tiles? */
static bool follows_tile(const AuTileExpr *e)
{
    if (e->op == TILE_X_NEXT || e->op == TILE_X_FIRST) return true;
    if (e->op == TILE_X_NAME && e->var && e->var->origin == TILE_FROM_LOOP && e->var->list)
        return true;
    for (uint32_t n = 0; n < e->args.count; n++)
        if (e->args.at[n] && follows_tile(e->args.at[n])) return true;
    return false;
}

static AuVal sum_of(AuLower *l, AuVal sum, AuVal term)
{
    return sum.i ? kernel_op2(l->k, AU_K_ADD, sum, term) : term;
}

/* Adds the terms of a sum to the part of the position that they belong to. */
static void add_terms(AuLower *l, const AuTileExpr *e, const AuPoint *p, AuParts *at)
{
    if (e->op == TILE_X_ADD && follows_tile(e)) {
        for (uint32_t n = 0; n < 2; n++) add_terms(l, e->args.at[n], p, at);
        return;
    }
    AuVal *part = follows_tile(e) ? &at->tile : &at->own;
    *part = sum_of(l, *part, lower_as(l, lower_eval(l, e, p), AU_I32));
}

AuParts lower_parted_position(AuLower *l, const AuTileExpr *ref, uint32_t n, const AuPoint *p)
{
    const AuTileExpr *index = ref->has_index ? ref->args.at[n] : NULL;
    AuParts at = {.own = {0}};
    if (l->r.unit->vector_access && ref->memory->space == TILE_GLOBAL && index &&
        index->op == TILE_X_SPAN) {
        const AuCoord *c = lower_coordinate(l, p, lower_view_axis(ref, n));
        if (c) at.own = c->index;
        add_terms(l, index->args.at[0], p, &at);
    }
    if (!at.own.i) at.own = lower_position(l, ref, n, p);
    return at;
}

/* Index along one dimension of a view: a scalar, a tile of indices, or a span whose axis is the
 * memory's. */
static AuVal dimension_index(AuLower *l, const AuTileExpr *index, const char *view_axis,
                             const AuPoint *p)
{
    if (index && index->op != TILE_X_ALL && index->op != TILE_X_SPAN)
        return lower_as(l, lower_eval(l, index, p), AU_I32);
    const AuCoord *c = lower_coordinate(l, p, view_axis);
    if (!c) return kernel_i32(l->k, 0);
    if (!index || index->op == TILE_X_ALL) return c->index;
    return kernel_op2(l->k, AU_K_ADD, lower_as(l, lower_eval(l, index->args.at[0], p), AU_I32),
                      c->index);
}

/* May this index lie outside of the memory? Grid positions and whole axes do not. */
static bool may_be_outside(const AuTileExpr *index, const AuTileAxis *axis)
{
    if (!index || index->op == TILE_X_ALL) return false;
    if (index->op == TILE_X_SPAN) {
        const AuTileExpr *low = index->args.at[0], *size = index->args.at[1];
        return tile_is_limited(index) ||
               !(low->op == TILE_X_INT && size->op == TILE_X_INT && axis->size &&
                 low->integer >= 0 && low->integer + size->integer <= axis->size);
    }
    if (index->op == TILE_X_INT && axis->size)
        return index->integer < 0 || index->integer >= axis->size;
    return !(index->op == TILE_X_NAME && index->var &&
             (index->var->origin == TILE_FROM_GRID || index->var->origin == TILE_FROM_LET ||
              index->var->origin == TILE_FROM_SELF));
}

bool lower_may_be_outside(const AuTileExpr *ref, uint32_t dimension)
{
    return may_be_outside(ref->has_index ? ref->args.at[dimension] : NULL,
                          &ref->memory->type.axes[dimension]);
}

/* How many of the axes of a vector of indices are not among the [count] in [seen], to which they are added. */
static uint32_t add_axes(const AuTileType *type, const char **seen, uint32_t count)
{
    for (uint32_t i = 0; type && i < type->count; i++) {
        uint32_t at = 0;
        while (at < count && seen[at] != type->axes[i].name) at++;
        if (at == count && count < TILE_MAX_AXES) seen[count++] = type->axes[i].name;
    }
    return count;
}

/* The view's axes stand in its type in the order in which dimensions bring them, those of vectors of indices among them. */
const char *lower_view_axis(const AuTileExpr *ref, uint32_t n)
{
    const char *seen[TILE_MAX_AXES];
    uint32_t count = 0;
    for (uint32_t i = 0; i <= n; i++) {
        const AuTileExpr *index = ref->has_index ? ref->args.at[i] : NULL;
        const bool spans = !index || index->op == TILE_X_ALL || index->op == TILE_X_SPAN;
        const char *own = ref->memory->type.axes[i].name;
        if (i == n) return !spans ? NULL : ref->names.count ? ref->names.at[count] : own;
        if (!spans)
            count = add_axes(index->type, seen, count);
        else if (count < TILE_MAX_AXES)
            seen[count++] = own;
    }
    return NULL;
}

AuVal lower_position(AuLower *l, const AuTileExpr *ref, uint32_t n, const AuPoint *p)
{
    return dimension_index(l, ref->has_index ? ref->args.at[n] : NULL, lower_view_axis(ref, n), p);
}

static const AuTileExpr *limits_of(const AuTileExpr *ref, uint32_t n)
{
    const AuTileExpr *index = ref->has_index ? ref->args.at[n] : NULL;
    return tile_is_limited(index) ? index : NULL;
}

AuVal lower_end(AuLower *l, const AuTileExpr *ref, uint32_t n)
{
    const AuVal extent = lower_memory(l, ref->memory)->extents[n];
    const AuTileExpr *limits = limits_of(ref, n);
    return limits ? kernel_op2(l->k, AU_K_MIN, extent, lower_integer(l, limits->args.at[3]))
                  : extent;
}

AuVal lower_begin(AuLower *l, const AuTileExpr *ref, uint32_t n)
{
    const AuTileExpr *limits = limits_of(ref, n);
    if (!limits) return (AuVal){0};
    const AuVal first = lower_integer(l, limits->args.at[2]);
    const AuInstr *in = kernel_at(l->k, first);
    return in->op == AU_K_CONST && (int32_t)in->imm <= 0 ? (AuVal){0} : first;
}

AuVal lower_view_inside(AuLower *l, const AuTileExpr *ref)
{
    AuKernel *k = l->k;
    AuVal inside = {0};
    for (uint32_t n = 0; n < ref->memory->type.count; n++) {
        if (!lower_may_be_outside(ref, n)) continue;
        const AuTileExpr *index = ref->args.at[n];
        const bool span = index->op == TILE_X_SPAN;
        if (!span && index->type->count) return kernel_i1(k, false);
        const AuVal low = lower_integer(l, span ? index->args.at[0] : index),
                    size = span ? lower_integer(l, index->args.at[1]) : kernel_i32(k, 1),
                    begin = lower_begin(l, ref, n);
        inside = lower_both(
            l, inside,
            kernel_op2(k, AU_K_LE, kernel_op2(k, AU_K_ADD, low, size), lower_end(l, ref, n)));
        if (begin.i) inside = lower_both(l, inside, kernel_op2(k, AU_K_LE, begin, low));
    }
    return inside;
}

static AuVal whole(AuLower *l, const AuParts *at)
{
    return at->tile.i ? kernel_op2(l->k, AU_K_ADD, at->own, at->tile) : at->own;
}

/* The number that ends a loop at the latest; [most] where none is known. */
static int64_t loop_end(const AuKernel *k, AuVal v, int64_t most)
{
    const AuInstr *in = kernel_at(k, v);
    if (in->op == AU_K_CONST) return in->imm;
    if (in->op != AU_K_MIN) return most;
    for (uint32_t n = 0; n < 2; n++) {
        const AuInstr *limit = kernel_at(k, kernel_operand(k, in, n));
        if (limit->op == AU_K_CONST) return limit->imm;
    }
    return most;
}

/* The largest number that an index may be, of loops that end at numbers, of lanes and executors; [most] where nothing is known. */
static int64_t largest(const AuKernel *k, AuVal v, int32_t depth, int64_t most)
{
    const AuInstr *in = kernel_at(k, v);
    if (in->op == AU_K_CONST) return in->imm;
    if (in->op == AU_K_LANE) return k->lanes - 1;
    if (in->op == AU_K_WARP) return k->warps - 1;
    if (in->op == AU_K_FOR) {
        const int64_t end = loop_end(k, kernel_operand(k, in, 1), most);
        return end < most ? end - 1 : most;
    }
    if ((in->op != AU_K_ADD && in->op != AU_K_MUL) || !depth) return most;
    const AuInstr *second = kernel_at(k, kernel_operand(k, in, 1));
    const int64_t a = largest(k, kernel_operand(k, in, 0), depth - 1, most);
    if (in->op == AU_K_MUL)
        return a < most && second->op == AU_K_CONST && second->imm >= 0 ? a * second->imm : most;
    const int64_t b = largest(k, kernel_operand(k, in, 1), depth - 1, most);
    return a < most && b < most ? a + b : most;
}

/* Nothing where it is below whatever a loop is at. (Of warps that share rows: those kernels stay as they were measured.) */
static AuVal below(AuLower *l, AuVal index, AuVal end)
{
    enum { DEEP = 6 };
    const AuInstr *in = kernel_at(l->k, end);
    if (!l->r.unit->written_out && in->op == AU_K_CONST &&
        largest(l->k, index, DEEP, INT32_MAX) < in->imm)
        return (AuVal){0};
    return kernel_op2(l->k, AU_K_LT, index, end);
}

/* Index along dimension [n] of a view, seen to by [outside]; in one part where it is clamped. */
static AuParts position(AuLower *l, const AuTileExpr *ref, uint32_t n, const AuPoint *p,
                        AuOutside outside, AuVal *inside)
{
    AuKernel *k = l->k;
    const bool trusted = outside == OUTSIDE_TRUSTED || !lower_may_be_outside(ref, n);
    if (trusted) return lower_parted_position(l, ref, n, p);
    const AuVal extent = lower_end(l, ref, n);
    if (outside == OUTSIDE_TESTED && inside) {
        const AuParts at = lower_parted_position(l, ref, n, p);
        const AuVal first = lower_begin(l, ref, n), index = whole(l, &at);
        *inside = lower_both(l, *inside, below(l, index, extent));
        if (first.i) *inside = lower_both(l, *inside, kernel_op2(k, AU_K_LE, first, index));
        return at;
    }
    const AuVal at = lower_position(l, ref, n, p),
                last = kernel_op2(k, AU_K_SUB, extent, kernel_i32(k, 1));
    return (AuParts){
        .own = kernel_op2(k, AU_K_MAX, kernel_op2(k, AU_K_MIN, at, last), kernel_i32(k, 0))};
}

/* The index as large as the memory's strides are. */
static AuVal widened(AuLower *l, const AuTileExpr *ref, AuVal at)
{
    return ref->memory->space == TILE_GLOBAL ? lower_as(l, at, AU_I64) : at;
}

static AuVal number(AuLower *l, const AuTileExpr *ref, int32_t value)
{
    return ref->memory->space == TILE_GLOBAL ? kernel_i64(l->k, value) : kernel_i32(l->k, value);
}

/* ---- swizzled rows: the number of a 16-byte vector in its swizzle span is xor the row's among eight, of which a span of fewer than
 * eight vectors takes the high bits: the other rows differ by where they begin */

enum { VECTOR = 16, ROWS = 8 };

static bool is_swizzled(AuLower *l, const AuTileExpr *ref)
{
    return lower_memory(l, ref->memory)->swizzle_span > VECTOR;
}

/* Elements of a swizzle span; rows after which vectors change places. */
static int32_t span_of(AuLower *l, const AuTileExpr *ref, int32_t *rows)
{
    const int32_t span = lower_memory(l, ref->memory)->swizzle_span;
    *rows = ROWS * VECTOR / span;
    return span / tile_elem(ref->memory->type.elem)->bytes;
}

static int32_t vector_of(const AuTileExpr *ref)
{
    return VECTOR / tile_elem(ref->memory->type.elem)->bytes;
}

/* Where column [at] of a row is. */
static AuVal swizzled(AuLower *l, const AuTileExpr *ref, AuVal row, AuVal at)
{
    AuKernel *k = l->k;
    int32_t rows;
    const int32_t span = span_of(l, ref, &rows);
    const AuVal in_eight = kernel_op2(k, AU_K_AND, row, kernel_i32(k, ROWS - rows)),
                turn =
                    kernel_op2(k, AU_K_MUL, kernel_op2(k, AU_K_IDIV, in_eight, kernel_i32(k, rows)),
                               kernel_i32(k, vector_of(ref))),
                in_span = kernel_op2(k, AU_K_AND, at, kernel_i32(k, span - 1)),
                first = kernel_op2(k, AU_K_AND, at, kernel_i32(k, -span));
    return kernel_op2(k, AU_K_ADD, first, kernel_op2(k, AU_K_XOR, in_span, turn));
}

bool lower_has_steps(AuLower *l, const AuTileExpr *ref)
{
    const uint32_t last = ref->memory->type.count - 1;
    int32_t rows;
    if (!is_swizzled(l, ref)) return false;
    return !ref->has_index || (lower_starts_at(ref->args.at[last], span_of(l, ref, &rows)) &&
                               lower_starts_at(ref->args.at[last - 1], ROWS));
}

AuVal lower_step(AuLower *l, const AuTileExpr *ref, AuVal at, int32_t rows, int32_t columns)
{
    AuKernel *k = l->k;
    int32_t each;
    const int32_t span = span_of(l, ref, &each),
                  turn = columns % span ^ rows % ROWS / each * vector_of(ref);
    const AuVal pitch = lower_memory(l, ref->memory)->strides[ref->memory->type.count - 2];
    if (turn) at = kernel_op2(k, AU_K_XOR, at, kernel_i32(k, turn));
    return kernel_op2(k, AU_K_ADD, at,
                      kernel_op2(k, AU_K_ADD, kernel_op2(k, AU_K_MUL, kernel_i32(k, rows), pitch),
                                 kernel_i32(k, columns / span * span)));
}

/* ---- rows in parts: column [at] of a row */

static AuVal in_parts(AuLower *l, const AuLowerMemory *place, AuVal at)
{
    AuKernel *k = l->k;
    const AuVal part = kernel_i32(k, place->part),
                first = kernel_op2(k, AU_K_MUL, kernel_op2(k, AU_K_IDIV, at, part),
                                   kernel_i32(k, place->part_step));
    return kernel_op2(k, AU_K_ADD, first, kernel_op2(k, AU_K_IMOD, at, part));
}

/* ---- addresses */

/* Rows' strides in units, a power of two; the position along the last axis (of stride 1 if
 * [last_stride_is_one]) is added in elements. */
static AuVal address(AuLower *l, const AuTileExpr *ref, const AuPoint *p, AuOutside outside,
                     AuVal *inside, bool last_stride_is_one, int32_t unit)
{
    AuKernel *k = l->k;
    AuLowerMemory *place = lower_memory(l, ref->memory);
    const AuTileType *type = &ref->memory->type;
    AuVal sum = {0}, by_tile = {0}, pair = {0}, in_unit = {0}, row = {0};
    if (inside) *inside = (AuVal){0};
    if (ref->field && place->stage)
        sum = kernel_op2(k, AU_K_MUL, lower_stage_of(l, ref->var),
                         kernel_i32(k, place->stage / unit));
    for (uint32_t n = 0; n < type->count; n++) {
        const bool last = n + 1 == type->count, packed = place->packed && n + 2 >= type->count;
        const AuParts parts = position(l, ref, n, p, outside, inside);
        const bool one = packed || (last && last_stride_is_one);
        AuVal at = one ? whole(l, &parts) : parts.own, stride = place->strides[n];
        if (packed) {
            if (ref->memory->space != TILE_GLOBAL)
                lower_refuse(l, "single elements of %s, which is packed", ref->memory->name);
            if (last) sum = sum_of(l, sum, lower_packed_offset(l, place->packed, row, at));
            row = at;
            continue;
        }
        if (place->swizzle_span > VECTOR && last) at = swizzled(l, ref, row, whole(l, &parts));
        if (place->swizzle_span > VECTOR) row = whole(l, &parts);
        if (place->part && last) at = in_parts(l, place, at);
        if (place->pair_axis == type->axes[n].name) { /* (i / 2) * (2 * stride) + i % 2 */
            pair = kernel_op2(k, AU_K_AND, at, kernel_i32(k, 1));
            at = kernel_op2(k, AU_K_SHR, at, kernel_i32(k, 1));
        }
        if (last && unit > 1) {
            in_unit = widened(l, ref, at);
            continue;
        }
        if (unit > 1) stride = kernel_op2(k, AU_K_IDIV, stride, number(l, ref, unit));
        if (one) stride = number(l, ref, 1);
        sum = sum_of(l, sum, kernel_op2(k, AU_K_MUL, widened(l, ref, at), stride));
        if (parts.tile.i && !one)
            by_tile =
                sum_of(l, by_tile, kernel_op2(k, AU_K_MUL, widened(l, ref, parts.tile), stride));
    }
    if (in_unit.i && sum.i) sum = kernel_op2(k, AU_K_MUL, sum, number(l, ref, unit));
    if (in_unit.i) sum = sum_of(l, sum, in_unit);
    if (pair.i) sum = sum_of(l, sum, pair);
    if (by_tile.i) sum = sum_of(l, sum, kernel_op2(k, AU_K_MUL, by_tile, number(l, ref, unit)));
    return sum.i ? sum : number(l, ref, 0);
}

AuVal lower_address(AuLower *l, const AuTileExpr *ref, const AuPoint *p, AuOutside outside,
                    AuVal *inside, bool last_stride_is_one)
{
    return address(l, ref, p, outside, inside, last_stride_is_one, 1);
}

AuVal lower_piece_address(AuLower *l, const AuTileExpr *ref, const AuPoint *p, AuOutside outside,
                          AuVal *inside, int32_t unit)
{
    return address(l, ref, p, outside, inside, true, unit);
}
