/* packed.c - tensors that lie in the pieces of an instruction's operand (docs/dev/tiled-ir.md 2).
 *
 * A piece is what the instruction takes at once. In it come, lane after lane, the first registers of each, as many as a sum in
 * memory takes; then the next ones. So what a warp holds in that layout is contiguous in memory, whatever rows and columns it
 * stands for, and a sum of it is a few whole lines instead of parts of many. Everybody else finds an element by the digits of its
 * row and its column, each of which has a stride. */
#include "internal.h"

/* What a step of a lane's register along an axis of the piece is in the order of its registers. */
static int32_t register_weight(const AuTileType *piece, uint32_t axis, int32_t regs)
{
    int32_t at[TILE_MAX_AXES] = {0};
    at[axis] = regs;
    return (int32_t)lower_register_number(piece, at);
}

static void set_strides(AuPacked *p, uint32_t axis)
{
    const AuAxisDigits digits = lower_digits(p->piece->axes[axis].places);
    for (uint32_t n = 0; n < digits.count; n++) {
        const AuAxisDigit d = digits.at[n];
        if (d.unit == TILE_UNIT_LANE) {
            p->strides[axis][n] = d.apart * p->words;
            continue;
        }
        const int32_t weight = register_weight(p->piece, axis, d.apart);
        p->strides[axis][n] = weight < p->words ? weight : weight * p->lanes;
    }
}

/* Which registers along the axes a lane's register number [n] of a piece is. */
static void set_registers(AuPacked *p)
{
    int32_t regs[TILE_MAX_AXES] = {0};
    do {
        const uint32_t number = lower_register_number(p->piece, regs);
        p->rows[number] = regs[0], p->columns[number] = regs[1];
    } while (lower_next_register(p->piece, regs, TILE_MAX_AXES, 1));
}

const AuPacked *lower_pack(AuLower *l, const AuTileMemory *m)
{
    AuPacked *p = AU_NEW(l->arena, AuPacked);
    const AuTileAxis *axes = m->piece->axes;
    const int32_t registers = (int32_t)lower_registers(m->piece), most = l->module->caps->sum_words;
    p->piece = m->piece;
    p->lanes = l->module->caps->lanes;
    p->size = axes[0].size * axes[1].size;
    p->across = m->type.axes[m->type.count - 1].size / axes[1].size;
    p->words = registers < most ? registers : most;
    if (registers > LOWER_PACKED || registers * p->lanes != p->size) {
        lower_refuse(l, "%s packed as %s.%s, of which lanes hold copies or warps parts", m->name,
                     m->packed.atom->name, tile_use_names[m->packed.use]);
        return NULL;
    }
    for (uint32_t n = 0; n < 2; n++) set_strides(p, n);
    set_registers(p);
    return p;
}

/* ---- an element */

AuVal lower_packed_offset(AuLower *l, const AuPacked *p, AuVal row, AuVal column)
{
    AuKernel *k = l->k;
    const AuVal at[2] = {row, column};
    AuVal pieces[2], sum = kernel_i32(k, 0);
    for (uint32_t axis = 0; axis < 2; axis++) {
        const AuTileAxis *a = &p->piece->axes[axis];
        AuVal rest = kernel_op2(k, AU_K_IMOD, at[axis], kernel_i32(k, a->size));
        pieces[axis] = kernel_op2(k, AU_K_IDIV, at[axis], kernel_i32(k, a->size));
        const AuAxisDigits digits = lower_digits(a->places);
        for (uint32_t n = 0; n < digits.count; n++) {
            const AuVal size = kernel_i32(k, digits.at[n].size);
            const AuVal digit = kernel_op2(k, AU_K_IMOD, rest, size);
            sum = kernel_op2(k, AU_K_ADD, sum,
                             kernel_op2(k, AU_K_MUL, digit, kernel_i32(k, p->strides[axis][n])));
            rest = kernel_op2(k, AU_K_IDIV, rest, size);
        }
    }
    sum = kernel_op2(k, AU_K_ADD, sum, kernel_op2(k, AU_K_MUL, pieces[1], kernel_i32(k, p->size)));
    return kernel_op2(k, AU_K_ADD,
                      kernel_op2(k, AU_K_MUL, lower_as(l, pieces[0], AU_I64),
                                 kernel_i64(k, (int64_t)p->across * p->size)),
                      lower_as(l, sum, AU_I64));
}

/* ---- a fragment in the order of the tensor */

/* Do warps have rows of pieces each, one behind the other, as in an operand of a group? */
static bool is_of_warps(const AuTilePlaces *rows, const AuTilePlaces *piece)
{
    if (!rows || rows->extent <= piece->extent || rows->extent % piece->extent) return false;
    for (int32_t i = 0; i < rows->extent; i++)
        if (rows->place[i] != piece->place[i % piece->extent] + TILE_WARP * (i / piece->extent))
            return false;
    return true;
}

bool lower_is_packed_so(AuLower *l, const AuTileExpr *ref, const AuTileType *type, bool tested)
{
    const AuPacked *p = lower_memory(l, ref->memory)->packed;
    const uint32_t count = ref->memory->type.count;
    if (!p || type->count != 2) return false;
    for (uint32_t n = 0; n < count; n++)
        if (tested && lower_may_be_outside(ref, n)) return false;
    for (uint32_t n = 0; n < 2; n++) {
        const uint32_t at = count - 2 + n;
        const AuTileAxis *axis = &type->axes[n], *piece = &p->piece->axes[n];
        const bool alike = lower_repeats(axis->places, piece->places) ||
                           (n == 0 && is_of_warps(axis->places, piece->places));
        if (lower_view_axis(ref, at) != axis->name || !alike ||
            !lower_starts_at(ref->has_index ? ref->args.at[at] : NULL, piece->size))
            return false;
    }
    return true;
}

/* Where the span along dimension [n] begins, in pieces. */
static AuVal first_piece(AuLower *l, const AuTileExpr *ref, uint32_t n, int32_t size)
{
    const AuTileExpr *index = ref->has_index ? ref->args.at[n] : NULL;
    if (!index || index->op == TILE_X_ALL) return kernel_i32(l->k, 0);
    const AuVal low = lower_integer(l, index->args.at[0]);
    return kernel_op2(l->k, AU_K_IDIV, low, kernel_i32(l->k, size));
}

/* In the offsets of the memory: what is shared has small ones. */
static AuVal as_offset(AuLower *l, const AuTileExpr *ref, AuVal v)
{
    return lower_as(l, v, ref->memory->space == TILE_GLOBAL ? AU_I64 : AU_I32);
}

static AuVal offset(AuLower *l, const AuTileExpr *ref, int64_t v)
{
    return ref->memory->space == TILE_GLOBAL ? kernel_i64(l->k, v) : kernel_i32(l->k, (int32_t)v);
}

/* Where the view begins: [rows] pieces below what it says, and [own] elements further on. */
static AuVal start_of(AuLower *l, const AuTileExpr *ref, AuVal rows, AuVal own)
{
    AuKernel *k = l->k;
    const AuLowerMemory *place = lower_memory(l, ref->memory);
    const AuPacked *p = place->packed;
    const AuPoint nowhere = {.count = 0};
    const uint32_t last = ref->memory->type.count - 1;
    const AuVal columns = first_piece(l, ref, last, p->piece->axes[1].size),
                first = first_piece(l, ref, last - 1, p->piece->axes[0].size);
    rows = rows.i ? kernel_op2(k, AU_K_ADD, first, rows) : first;
    AuVal sum = kernel_op2(k, AU_K_MUL, columns, kernel_i32(k, p->size));
    if (own.i) sum = kernel_op2(k, AU_K_ADD, sum, own);
    sum = as_offset(l, ref, sum);
    if (ref->field && place->stage)
        sum = kernel_op2(k, AU_K_ADD, sum,
                         kernel_op2(k, AU_K_MUL, as_offset(l, ref, lower_stage_of(l, ref->var)),
                                    offset(l, ref, place->stage)));
    for (uint32_t n = 0; n + 1 < last; n++)
        sum = kernel_op2(k, AU_K_ADD, sum,
                         kernel_op2(k, AU_K_MUL,
                                    as_offset(l, ref, lower_position(l, ref, n, &nowhere)),
                                    place->strides[n]));
    return kernel_op2(k, AU_K_ADD, sum,
                      kernel_op2(k, AU_K_MUL, as_offset(l, ref, rows),
                                 offset(l, ref, (int64_t)p->across * p->size)));
}

AuVal lower_packed_start(AuLower *l, const AuTileExpr *ref)
{
    return start_of(l, ref, (AuVal){0}, (AuVal){0});
}

/* The constant part is added last, that of rows, which loops change, before it. */
AuVal lower_packed_address(AuLower *l, const AuTileExpr *ref, const AuTileType *type, int32_t row,
                           int32_t column, int32_t word)
{
    AuKernel *k = l->k;
    const AuPacked *p = lower_memory(l, ref->memory)->packed;
    const AuVal own = kernel_op2(k, AU_K_MUL, kernel_lane(k), kernel_i32(k, p->words)),
                rows = is_of_warps(type->axes[0].places, p->piece->axes[0].places) ? l->r.warp
                                                                                   : (AuVal){0},
                sum = start_of(l, ref, rows, own);
    const int64_t down = (int64_t)p->across * p->size;
    return kernel_op2(k, AU_K_ADD, sum,
                      offset(l, ref, row * down + column * p->size + word * p->lanes));
}
