/* emit_memory.c - loads and stores. An access is, by the lane kind of its index:
 *   uniform                         one scalar (or short vector); with a mask, under a branch
 *   affine, neighbours side by side one vector; masked intrinsics with a mask
 *   affine, stride -1               the same, reversed
 *   else                            gather and scatter
 *   LANE memory, uniform index      vectors of the array; a mask selects */
#include "emit.h"

/* The value of memory's representation, and back: i1 is a byte there. */
LLVMValueRef emit_fetched(AuEmit *e, AuScalar scalar, LLVMValueRef v)
{
    if (scalar != AU_I1) return v;
    return LLVMBuildICmp(e->builder, LLVMIntNE, v, LLVMConstNull(LLVMTypeOf(v)), "");
}
LLVMValueRef emit_storable(AuEmit *e, AuScalar scalar, LLVMValueRef v)
{
    return scalar == AU_I1 ? LLVMBuildZExt(e->builder, v, emit_stored(e, scalar, emit_count(v)), "")
                           : v;
}

/* ---- accesses: what load and store have in common */

typedef enum Pattern { ONE, ROW, REVERSED, SCATTERED, REGISTER } Pattern;

typedef struct Access {
    const AuInstr *in;
    AuMem mem;
    AuScalar scalar;
    AuVal index, mask, value; /* value: stored, or of lanes without the mask; none: 0 */
    uint32_t width, bytes;
    Pattern pattern;
} Access;

static Access access_of(const AuEmit *e, AuVal v)
{
    const AuInstr *in = kernel_at(e->k, v);
    const bool load = in->op == AU_K_LOAD;
    const uint32_t mask = load ? 1 : 2, value = load ? 2 : 1;
    Access a = {.in = in, .mem = in->mem, .scalar = e->k->mems[in->mem.i].scalar};
    a.index = kernel_operand(e->k, in, 0);
    if (in->count > mask) a.mask = kernel_operand(e->k, in, mask);
    if (in->count > value) a.value = kernel_operand(e->k, in, value);
    a.width = load ? in->type.width : kernel_at(e->k, a.value)->type.width;
    a.bytes = kernel_scalar_bytes(a.scalar);
    const AuLaneKind kind = emit_kind(e, a.index);
    const int64_t stride = kind == AU_AFFINE ? e->lanes.stride[a.index.i] : 0;
    const bool vectors = e->k->mems[in->mem.i].space == AU_LANE && !e->places[in->mem.i].single;
    if (vectors)
        a.pattern = kind == AU_UNIFORM ? REGISTER : SCATTERED;
    else if (kind == AU_UNIFORM)
        a.pattern = ONE;
    else if (stride == (int64_t)a.width)
        a.pattern = ROW;
    else
        a.pattern = stride == -1 && a.width == 1 ? REVERSED : SCATTERED;
    return a;
}

static bool is_true(LLVMValueRef mask)
{
    return LLVMIsAConstantInt(mask) && LLVMConstIntGetZExtValue(mask);
}

/* The mask of <lanes * width> elements; NULL: none. */
static LLVMValueRef element_mask(AuEmit *e, const Access *a)
{
    if (!a->mask.i) return NULL;
    LLVMValueRef mask = emit_wide(e, a->mask);
    return a->width == 1 ? mask : emit_spread(e, mask, a->width, e->k->lanes * a->width);
}

/* One bit for a uniform access: whether any lane takes part. NULL: all do. */
static LLVMValueRef single_mask(AuEmit *e, const Access *a)
{
    if (!a->mask.i) return NULL;
    if (emit_kind(e, a->mask) == AU_VARYING) return emit_any(e, emit_wide(e, a->mask));
    LLVMValueRef mask = emit_base(e, a->mask);
    return is_true(mask) ? NULL : mask;
}

static void align_pointer(AuEmit *e, LLVMValueRef call, unsigned parameter, uint32_t bytes)
{
    const unsigned kind = LLVMGetEnumAttributeKindForName("align", 5);
    LLVMAddCallSiteAttribute(call, parameter, LLVMCreateEnumAttribute(e->context, kind, bytes));
}

/* ---- loads. Each gives memory's representation of <count x T>, or T */

static LLVMValueRef plain_load(AuEmit *e, const Access *a, LLVMValueRef at, uint32_t count)
{
    LLVMValueRef v = LLVMBuildLoad2(e->builder, emit_stored(e, a->scalar, count), at, "");
    if (a->pattern != REGISTER) LLVMSetAlignment(v, a->bytes);
    return emit_mark(e, v, a->mem);
}

static LLVMValueRef masked_load(AuEmit *e, const Access *a, LLVMValueRef at, uint32_t count,
                                LLVMValueRef mask, LLVMValueRef other)
{
    LLVMTypeRef type = LLVMVectorType(emit_stored(e, a->scalar, 1), count);
    LLVMValueRef arguments[3] = {at, mask, other};
    LLVMValueRef v = emit_call(e, "llvm.masked.load", type, e->ptr, arguments, 3);
    align_pointer(e, v, 1, a->bytes);
    return emit_mark(e, v, a->mem);
}

/* Arrays of lanes are read and written even where the mask says no, so that they can become registers: the index must then be
 * one of the array. */
static LLVMValueRef safe_index(AuEmit *e, const Access *a)
{
    LLVMValueRef index = emit_index(e, a->index),
                 mask = LLVMIsConstant(index) ? NULL : single_mask(e, a);
    return mask ? LLVMBuildSelect(e->builder, mask, index, LLVMConstInt(e->i64, 0, false), "")
                : index;
}

static bool in_lanes(const AuEmit *e, const Access *a)
{
    return e->k->mems[a->mem.i].space == AU_LANE;
}

/* A uniform address: the load runs under a branch, which the target makes of a masked load. */
static LLVMValueRef load_one(AuEmit *e, const Access *a)
{
    if (in_lanes(e, a)) {
        LLVMValueRef single =
            emit_step(e, emit_stored(e, a->scalar, 1), e->places[a->mem.i].base, safe_index(e, a));
        return plain_load(e, a, single, a->width);
    }
    LLVMValueRef at = emit_address(e, a->mem, a->index), mask = single_mask(e, a);
    if (!mask) return plain_load(e, a, at, a->width);
    LLVMValueRef all = emit_put(e, LLVMGetPoison(LLVMVectorType(e->element[AU_I1], 1)), mask, 0);
    if (a->width > 1) all = emit_splat(e, mask, 1, a->width);
    LLVMValueRef zero = LLVMConstNull(LLVMVectorType(emit_stored(e, a->scalar, 1), a->width));
    LLVMValueRef v = masked_load(e, a, at, a->width, all, zero);
    return a->width > 1 ? v : emit_at(e, v, 0);
}

/* Elements of 8 and 16 bits, for which no gather exists: the aligned words that hold them are gathered. A word never crosses a
 * page, so that its other bytes, which may lie outside of the tensor, can be read; they are shifted out. */
static LLVMValueRef gather_words(AuEmit *e, const Access *a, LLVMValueRef at, LLVMValueRef mask,
                                 uint32_t count)
{
    LLVMBuilderRef b = e->builder;
    LLVMTypeRef wide = LLVMVectorType(e->i64, count), words = emit_type(e, AU_I32, count);
    LLVMValueRef address = LLVMBuildPtrToInt(b, at, wide, "");
    LLVMValueRef word = LLVMBuildAnd(b, address, emit_int(e, AU_I64, -4, count), "");
    LLVMValueRef byte =
        LLVMBuildAnd(b, LLVMBuildTrunc(b, address, words, ""), emit_int(e, AU_I32, 3, count), "");
    LLVMValueRef arguments[3] = {LLVMBuildIntToPtr(b, word, LLVMTypeOf(at), ""), mask,
                                 LLVMConstNull(words)};
    LLVMValueRef v = emit_call(e, "llvm.masked.gather", words, LLVMTypeOf(at), arguments, 3);
    align_pointer(e, v, 1, 4);
    emit_mark(e, v, a->mem);
    v = LLVMBuildLShr(b, v, LLVMBuildShl(b, byte, emit_int(e, AU_I32, 3, count), ""), "");
    return LLVMBuildTrunc(b, v, emit_stored(e, a->scalar, count), "");
}

static LLVMValueRef load_gathered(AuEmit *e, const Access *a, LLVMValueRef mask, LLVMValueRef other)
{
    const uint32_t count = e->k->lanes * a->width;
    LLVMTypeRef type = LLVMVectorType(emit_stored(e, a->scalar, 1), count);
    LLVMValueRef at = emit_pointers(e, a->mem, a->index, a->width);
    const bool all = !mask;
    if (all) mask = emit_int(e, AU_I1, 1, count);
    if (e->host->gathers_words && a->bytes < 4 && e->k->mems[a->mem.i].space == AU_GLOBAL) {
        LLVMValueRef words = gather_words(e, a, at, mask, count);
        return all ? words : LLVMBuildSelect(e->builder, mask, words, other, "");
    }
    LLVMValueRef arguments[3] = {at, mask, all ? LLVMConstNull(type) : other};
    LLVMValueRef v = emit_call(e, "llvm.masked.gather", type, LLVMTypeOf(at), arguments, 3);
    align_pointer(e, v, 1, a->bytes);
    return emit_mark(e, v, a->mem);
}

/* A LANE memory at a uniform index: [width] vectors, interleaved. */
static LLVMValueRef register_at(AuEmit *e, const Access *a, uint32_t n)
{
    LLVMValueRef index = safe_index(e, a);
    if (n) index = LLVMBuildAdd(e->builder, index, LLVMConstInt(e->i64, n, false), "");
    return emit_step(e, emit_stored(e, a->scalar, e->k->lanes), e->places[a->mem.i].base, index);
}

static LLVMValueRef load_registers(AuEmit *e, const Access *a)
{
    const uint32_t lanes = e->k->lanes;
    LLVMValueRef v = plain_load(e, a, register_at(e, a, 0), lanes);
    if (a->width == 1) return v;
    LLVMValueRef all =
        LLVMGetPoison(LLVMVectorType(emit_stored(e, a->scalar, 1), lanes * a->width));
    for (uint32_t n = 0; n < a->width; n++) {
        if (n) v = plain_load(e, a, register_at(e, a, n), lanes);
        for (uint32_t l = 0; l < lanes; l++)
            all = emit_put(e, all, emit_at(e, v, l), l * a->width + n);
    }
    return all;
}

/* Lanes without the mask get [value]. A uniform value that is masked uniformly stays uniform. */
static LLVMValueRef blend(AuEmit *e, const Access *a, LLVMValueRef v, bool wide)
{
    if (!a->mask.i) return v;
    LLVMValueRef mask = wide ? element_mask(e, a) : emit_base(e, a->mask);
    LLVMValueRef other = a->value.i ? emit_form(e, a->value, wide) : LLVMConstNull(LLVMTypeOf(v));
    return LLVMBuildSelect(e->builder, mask, v, other, "");
}

void emit_load(AuEmit *e, AuVal id)
{
    const Access a = access_of(e, id);
    const uint32_t count = e->k->lanes * a.width;
    const bool varies = emit_kind(e, id) == AU_VARYING;
    LLVMValueRef mask = NULL, other = NULL, v = NULL;
    if (a.pattern == ROW || a.pattern == REVERSED || a.pattern == SCATTERED) {
        mask = element_mask(e, &a);
        if (mask && a.value.i) other = emit_storable(e, a.scalar, emit_wide(e, a.value));
        if (mask && !other) other = LLVMConstNull(emit_stored(e, a.scalar, count));
    }
    LLVMValueRef at = NULL;
    switch (a.pattern) {
    case ONE:
        v = emit_fetched(e, a.scalar, load_one(e, &a));
        if (varies) v = emit_splat(e, v, a.width, e->k->lanes);
        emit_set(e, id, blend(e, &a, v, varies), varies);
        return;
    case REGISTER:
        v = emit_fetched(e, a.scalar, load_registers(e, &a));
        emit_set(e, id, blend(e, &a, v, true), true);
        return;
    case ROW:
        at = emit_address(e, a.mem, a.index);
        v = mask ? masked_load(e, &a, at, count, mask, other) : plain_load(e, &a, at, count);
        break;
    case REVERSED:
        at = emit_address(e, a.mem, a.index);
        at = emit_step(e, emit_stored(e, a.scalar, 1), at,
                       LLVMConstInt(e->i64, (unsigned long long)-(int64_t)(count - 1), true));
        if (mask) {
            mask = emit_pick(e, mask, count - 1, -1, count);
            other = emit_pick(e, other, count - 1, -1, count);
        }
        v = mask ? masked_load(e, &a, at, count, mask, other) : plain_load(e, &a, at, count);
        v = emit_pick(e, v, count - 1, -1, count);
        break;
    case SCATTERED: v = load_gathered(e, &a, mask, other); break;
    }
    emit_set(e, id, emit_fetched(e, a.scalar, v), true);
}

/* ---- stores */

static void plain_store(AuEmit *e, const Access *a, LLVMValueRef at, LLVMValueRef v)
{
    LLVMValueRef store = LLVMBuildStore(e->builder, v, at);
    if (a->pattern != REGISTER) LLVMSetAlignment(store, a->bytes);
    emit_mark(e, store, a->mem);
}

static void masked_store(AuEmit *e, const Access *a, LLVMValueRef at, LLVMValueRef v,
                         LLVMValueRef mask)
{
    LLVMValueRef arguments[3] = {v, at, mask};
    LLVMValueRef call = emit_call(e, "llvm.masked.store", LLVMTypeOf(v), e->ptr, arguments, 3);
    align_pointer(e, call, 2, a->bytes);
    emit_mark(e, call, a->mem);
}

/* One element, or [width] neighbours, under a branch where there is a mask. */
static void store_one(AuEmit *e, const Access *a, LLVMValueRef v, LLVMValueRef mask)
{
    if (in_lanes(e, a)) {
        LLVMValueRef single =
            emit_step(e, emit_stored(e, a->scalar, 1), e->places[a->mem.i].base, safe_index(e, a));
        if (mask) v = LLVMBuildSelect(e->builder, mask, v, plain_load(e, a, single, a->width), "");
        plain_store(e, a, single, v);
        return;
    }
    LLVMValueRef at = emit_address(e, a->mem, a->index);
    if (!mask) {
        plain_store(e, a, at, v);
        return;
    }
    LLVMValueRef all = emit_put(e, LLVMGetPoison(LLVMVectorType(e->element[AU_I1], 1)), mask, 0);
    if (a->width > 1)
        all = emit_splat(e, mask, 1, a->width);
    else
        v = emit_put(e, LLVMGetPoison(LLVMVectorType(LLVMTypeOf(v), 1)), v, 0);
    masked_store(e, a, at, v, all);
}

static bool is_number(const AuEmit *e, AuVal v, int64_t number)
{
    const AuInstr *in = kernel_at(e->k, v);
    return in->op == AU_K_CONST && in->imm == number;
}

/* Does no lane but the first take part? Of what all lanes hold, one stores. */
static bool is_of_first_lane(const AuEmit *e, AuVal mask)
{
    const AuInstr *in = kernel_at(e->k, mask);
    if (in->op == AU_K_LAND)
        return is_of_first_lane(e, kernel_operand(e->k, in, 0)) ||
               is_of_first_lane(e, kernel_operand(e->k, in, 1));
    if (in->op != AU_K_EQ || !is_number(e, kernel_operand(e->k, in, 1), 0)) return false;
    in = kernel_at(e->k, kernel_operand(e->k, in, 0));
    if (in->op == AU_K_AND && is_number(e, kernel_operand(e->k, in, 1), e->k->lanes - 1))
        in = kernel_at(e->k, kernel_operand(e->k, in, 0));
    return in->op == AU_K_LANE;
}

/* Of lanes that meet in one place the last one stays: scatter stores in the order of its elements. */
static void store_scattered(AuEmit *e, const Access *a, LLVMValueRef v, LLVMValueRef mask)
{
    LLVMValueRef at = emit_pointers(e, a->mem, a->index, a->width);
    if (!mask) mask = emit_int(e, AU_I1, 1, emit_count(v));
    LLVMValueRef arguments[3] = {v, at, mask};
    LLVMValueRef call =
        emit_call(e, "llvm.masked.scatter", LLVMTypeOf(v), LLVMTypeOf(at), arguments, 3);
    align_pointer(e, call, 2, a->bytes);
    emit_mark(e, call, a->mem);
}

static void store_registers(AuEmit *e, const Access *a, LLVMValueRef v)
{
    for (uint32_t n = 0; n < a->width; n++) {
        LLVMValueRef at = register_at(e, a, n), part = v;
        if (a->width > 1) part = emit_pick(e, v, n, (int32_t)a->width, e->k->lanes);
        if (a->mask.i) {
            LLVMValueRef before = plain_load(e, a, at, e->k->lanes);
            part = LLVMBuildSelect(e->builder, emit_wide(e, a->mask), part, before, "");
        }
        plain_store(e, a, at, part);
    }
}

void emit_store(AuEmit *e, AuVal id)
{
    const Access a = access_of(e, id);
    const uint32_t count = e->k->lanes * a.width;
    if (a.pattern == ONE && emit_kind(e, a.value) == AU_UNIFORM) {
        store_one(e, &a, emit_storable(e, a.scalar, emit_base(e, a.value)), single_mask(e, &a));
        return;
    }
    LLVMValueRef v = emit_storable(e, a.scalar, emit_wide(e, a.value));
    if (a.pattern == ONE && a.width == 1 && a.mask.i && is_of_first_lane(e, a.mask)) {
        store_one(e, &a, emit_at(e, v, 0), emit_at(e, emit_wide(e, a.mask), 0));
        return;
    }
    if (a.pattern == REGISTER) {
        store_registers(e, &a, v);
        return;
    }
    LLVMValueRef mask = element_mask(e, &a);
    if (a.pattern == ONE || a.pattern == SCATTERED) {
        store_scattered(e, &a, v, mask);
        return;
    }
    LLVMValueRef at = emit_address(e, a.mem, a.index);
    if (a.pattern == REVERSED) {
        at = emit_step(e, emit_stored(e, a.scalar, 1), at,
                       LLVMConstInt(e->i64, (unsigned long long)-(int64_t)(count - 1), true));
        v = emit_pick(e, v, count - 1, -1, count);
        if (mask) mask = emit_pick(e, mask, count - 1, -1, count);
    }
    if (mask)
        masked_store(e, &a, at, v, mask);
    else
        plain_store(e, &a, at, v);
}

/* For reading, into all caches. */
void emit_prefetch(AuEmit *e, const AuInstr *in)
{
    enum { READING = 0, NEAREST = 3, DATA = 1 };
    LLVMValueRef at = emit_address(e, in->mem, kernel_operand(e->k, in, 0));
    LLVMValueRef arguments[4] = {at, emit_int(e, AU_I32, READING, 1),
                                 emit_int(e, AU_I32, NEAREST, 1), emit_int(e, AU_I32, DATA, 1)};
    emit_call(e, "llvm.prefetch", LLVMTypeOf(at), NULL, arguments, 4);
}
