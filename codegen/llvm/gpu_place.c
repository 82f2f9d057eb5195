/* gpu_place.c - where memories lie on a GPU, and addresses in them.
 *
 * Addresses end in a constant wherever an index does: what unrolled loops add goes into the instruction, and what is left is
 * the same for many accesses and computed once. The kernel IR's promise that sums of an index do not wrap allows to take it
 * apart. A swizzle moves bytes inside its period, so whole periods stay outside of it. */
#include "gpu.h"

enum { DEEPEST = 12, MOST_ALIGNED = 16 };

/* ---- memories */

uint32_t gpu_dynamic_shared(const GpuDevice *device, const AuKernel *k)
{
    const uint32_t bytes = kernel_shared_bytes(k, NULL);
    return bytes > device->static_bytes ? bytes : 0;
}

/* One array for all of the block: known to the code, or, where that would be too much, what the launch adds. */
static LLVMValueRef shared_array(AuEmit *e, uint32_t bytes)
{
    const bool fixed = bytes <= gpu_device(e)->static_bytes;
    const char *name = fixed ? au_format(e->arena, "%s_shared", e->k->name) : "shared_memory";
    LLVMValueRef array = LLVMGetNamedGlobal(e->module, name);
    if (array) return array;
    LLVMTypeRef type = LLVMArrayType2(e->element[AU_U8], fixed ? bytes : 0);
    array = LLVMAddGlobalInAddressSpace(e->module, type, name, gpu_device(e)->shared);
    LLVMSetLinkage(array, fixed ? LLVMInternalLinkage : LLVMExternalLinkage);
    if (fixed) LLVMSetInitializer(array, LLVMGetUndef(type));
    LLVMSetAlignment(array, 128);
    return array;
}

/* Memories are aligned in the array as they want to be, and it as the first of them. */
static void align_array(LLVMValueRef array, const AuKernel *k)
{
    for (uint32_t m = 1; m < k->mem_count; m++)
        if (k->mems[m].space == AU_SHARED && k->mems[m].align > LLVMGetAlignment(array))
            LLVMSetAlignment(array, k->mems[m].align);
}

static LLVMValueRef shared_place(AuEmit *e, LLVMValueRef array, const AuMemory *mem,
                                 uint32_t offset)
{
    LLVMValueRef at = gpu_i32(e, offset);
    if (mem->space == AU_EXEC) {
        const uint32_t bytes = mem->count * kernel_scalar_bytes(mem->scalar);
        LLVMValueRef own = LLVMBuildMul(e->builder, e->gpu->warp, gpu_i32(e, bytes), "");
        at = LLVMBuildAdd(e->builder, own, at, "");
    }
    return emit_step(e, e->element[AU_U8], array, at);
}

void gpu_places(AuEmit *e)
{
    const AuKernel *k = e->k;
    uint32_t *offsets = AU_NEW_ARRAY(e->arena, uint32_t, k->mem_count);
    const uint32_t bytes = kernel_shared_bytes(k, offsets);
    LLVMValueRef array = bytes ? shared_array(e, bytes) : NULL;
    if (array) align_array(array, k);
    LLVMTypeRef global = LLVMPointerTypeInContext(e->context, gpu_device(e)->global);
    for (uint32_t m = 1; m < k->mem_count; m++) {
        const AuMemory *mem = &k->mems[m];
        AuEmitMemory *place = &e->places[m];
        switch (mem->space) {
        case AU_GLOBAL: place->base = emit_argument(e, mem->arg, global); break;
        case AU_SHARED:
        case AU_EXEC: place->base = shared_place(e, array, mem, offsets[m]); break;
        case AU_MATRIX:
        case AU_TENSOR: break; /* whoever names it is refused */
        case AU_LANE:
            place->single = true;
            place->base = emit_lane_array(e, mem, false);
            break;
        }
    }
    emit_scopes(e);
}

/* ---- what is known of an index */

static bool constant_of(const AuEmit *e, AuVal v, int64_t *value)
{
    LLVMValueRef base = e->forms[v.i].base;
    if (!base || !LLVMIsAConstantInt(base)) return false;
    *value = LLVMConstIntGetSExtValue(base);
    return true;
}

static bool known(const void *user, AuVal v, int64_t *value) { return constant_of(user, v, value); }

uint32_t gpu_alignment(const AuEmit *e, AuMem mem, AuVal index, uint32_t bytes)
{
    const uint32_t known_to_be = kernel_alignment(e->k, mem, index, known, e);
    uint32_t align = 1;
    while (align < MOST_ALIGNED && align < bytes) align *= 2;
    return align < known_to_be ? align : known_to_be;
}

/* ---- addresses */

typedef struct Sum { /* rest + constant, in elements; no rest: 0 */
    LLVMValueRef rest;
    int64_t constant;
    uint32_t bits; /* that can be set in rest */
} Sum;

/* How an index is taken apart: how deep, and whether operations on bits are, too. */
typedef struct Split {
    uint32_t depth;
    bool by_bits;
} Split;

static Sum split(AuEmit *e, AuVal v, Split how);

static Sum whole(AuEmit *e, AuVal v, uint32_t bits) { return (Sum){e->forms[v.i].base, 0, bits}; }

static Split deeper(Split how) { return (Split){how.depth - 1, how.by_bits}; }

/* A product with a constant factor. */
static Sum split_product(AuEmit *e, AuVal v, AuVal x, int64_t factor, Split how)
{
    const Sum a = split(e, x, deeper(how));
    const bool shifts = factor > 0 && !(factor & (factor - 1));
    const uint32_t bits = shifts ? a.bits * (uint32_t)factor : UINT32_MAX;
    if (!a.rest && how.by_bits) return (Sum){NULL, a.constant * factor, 0};
    if (!a.constant || !a.rest) return whole(e, v, a.rest ? bits : UINT32_MAX);
    LLVMValueRef by = LLVMConstInt(LLVMTypeOf(a.rest), (unsigned long long)factor, true);
    return (Sum){LLVMBuildMul(e->builder, a.rest, by, ""), a.constant * factor, bits};
}

static Sum split_sum(AuEmit *e, AuVal v, AuVal x, AuVal y, bool minus, Split how)
{
    LLVMBuilderRef b = e->builder;
    const Sum p = split(e, x, deeper(how)), q = split(e, y, deeper(how));
    const uint32_t both = p.bits & q.bits; /* from the lowest of them on there are carries */
    const uint32_t bits = p.bits | q.bits | (both ? ~((both & -both) - 1) : 0);
    if (!p.constant && !q.constant) return whole(e, v, minus ? UINT32_MAX : bits);
    const int64_t constant = minus ? p.constant - q.constant : p.constant + q.constant;
    if (!q.rest) return (Sum){p.rest, constant, p.bits};
    if (!p.rest)
        return (Sum){minus ? LLVMBuildNeg(b, q.rest, "") : q.rest, constant,
                     minus ? UINT32_MAX : q.bits};
    LLVMValueRef rest =
        minus ? LLVMBuildSub(b, p.rest, q.rest, "") : LLVMBuildAdd(b, p.rest, q.rest, "");
    return (Sum){rest, constant, minus ? UINT32_MAX : bits};
}

/* x >> n or x & n, n constant, where the constant of x has no bit that its rest can have: both parts by themselves. */
static Sum split_bits(AuEmit *e, AuVal v, AuVal x, uint32_t n, bool shifts, Split how)
{
    LLVMBuilderRef b = e->builder;
    const Sum a = split(e, x, deeper(how));
    const bool apart = a.constant >= 0 && a.constant <= INT32_MAX && !(a.bits >> 31) &&
                       !(a.bits & (uint32_t)a.constant);
    if (!apart) return whole(e, v, shifts ? UINT32_MAX : n);
    const uint32_t bits = shifts ? a.bits >> n : a.bits & n;
    const int64_t constant = shifts ? a.constant >> n : a.constant & n;
    if (!bits) return (Sum){NULL, constant, 0};
    if (!a.constant) return whole(e, v, bits);
    LLVMValueRef by = gpu_i32(e, n);
    LLVMValueRef rest = shifts ? LLVMBuildLShr(b, a.rest, by, "") : LLVMBuildAnd(b, a.rest, by, "");
    return (Sum){rest, constant, bits};
}

/* x ^ constant, the place of a piece in a swizzled line: made where it is used, of x that nothing is known of, since each that was
 * kept through a loop would be a register, of which there are fewer than time for the operation. */
static LLVMValueRef turned(AuEmit *e, AuVal x, int64_t constant)
{
    LLVMValueRef at = gpu_device(e)->pin(e, emit_base(e, x));
    return LLVMBuildXor(e->builder, at, gpu_i32(e, (uint32_t)constant), "");
}

static Sum split(AuEmit *e, AuVal v, Split how)
{
    const AuInstr *in = kernel_at(e->k, v);
    LLVMValueRef base = emit_base(e, v);
    int64_t value;
    if (constant_of(e, v, &value)) return (Sum){NULL, value, 0};
    if (!how.depth || !in->count) return (Sum){base, 0, UINT32_MAX};
    const AuVal x = kernel_operand(e->k, in, 0);
    const AuVal y = in->count > 1 ? kernel_operand(e->k, in, 1) : x;
    const bool by_bits = how.by_bits && in->type.scalar == AU_I32 && in->type.width == 1;
    switch ((int)in->op) {
    case AU_K_ADD: return split_sum(e, v, x, y, false, how);
    case AU_K_SUB: return split_sum(e, v, x, y, true, how);
    case AU_K_MUL:
        if (constant_of(e, y, &value)) return split_product(e, v, x, value, how);
        if (constant_of(e, x, &value)) return split_product(e, v, y, value, how);
        break;
    case AU_K_XOR:
        if (!constant_of(e, y, &value) || in->type.scalar != AU_I32) break;
        return (Sum){turned(e, x, value), 0, UINT32_MAX};
    case AU_K_SHL:
        if (constant_of(e, y, &value))
            return split_product(e, v, x, (int64_t)1 << (value & 31), how);
        break;
    case AU_K_SHR:
    case AU_K_AND:
        if (by_bits && constant_of(e, y, &value) && value >= 0 &&
            (in->op == AU_K_AND || value < 32))
            return split_bits(e, v, x, (uint32_t)value, in->op == AU_K_SHR, how);
        break;
    case AU_K_CVT: {
        if (kernel_at(e->k, x)->type.scalar != AU_I32 || in->type.scalar != AU_I64) break;
        const Sum a = split(e, x, deeper(how));
        if (!a.constant || !a.rest) break;
        return (Sum){LLVMBuildSExt(e->builder, a.rest, e->i64, ""), a.constant, UINT32_MAX};
    }
    }
    return (Sum){base, 0, UINT32_MAX};
}

/* x + y as rest + constant, like an address: the index of each element of a fragment is then one addition away from a value that
 * all share, and no loop keeps the elements' own parts in registers. Integers wrap around, so it is the same sum. */
bool gpu_sum(AuEmit *e, AuVal v)
{
    enum { NEAR = 3 };
    const AuInstr *in = kernel_at(e->k, v);
    if (in->type.scalar != AU_I32 || in->type.width != 1) return false;
    const Split near = {NEAR, false};
    const Sum x = split(e, kernel_operand(e->k, in, 0), near);
    const Sum y = split(e, kernel_operand(e->k, in, 1), near);
    if (!x.rest || !y.rest || (!x.constant && !y.constant)) return false;
    LLVMValueRef rest = LLVMBuildAdd(e->builder, x.rest, y.rest, "");
    LLVMValueRef constant = gpu_i32(e, (uint32_t)(x.constant + y.constant));
    emit_set(e, v, LLVMBuildAdd(e->builder, rest, constant, ""), false);
    return true;
}

/* Byte a lies at a ^ (a >> 3 & mask). */
static LLVMValueRef swizzled(AuEmit *e, LLVMValueRef at, uint32_t swizzle)
{
    LLVMBuilderRef b = e->builder;
    LLVMValueRef row = LLVMBuildLShr(b, at, gpu_i32(e, 3), "");
    return LLVMBuildXor(b, at, LLVMBuildAnd(b, row, gpu_i32(e, swizzle - 16), ""), "");
}

static bool is_uniform(const AuEmit *e, AuVal v)
{
    if (!e->gpu->lanes.kind) e->gpu->lanes = kernel_lanes(e->k, e->arena);
    return e->gpu->lanes.kind[v.i] == AU_UNIFORM;
}

/* from + step, the step the same for all lanes and not constant: an address that walks. Its steps are
 * added to the address before, two instructions each, and not to the index, four. */
static bool walks(const AuEmit *e, AuVal index, AuVal *from, AuVal *step)
{
    const AuInstr *in = kernel_at(e->k, index);
    int64_t value;
    for (uint32_t n = 0; n < 2 && in->op == AU_K_ADD; n++) {
        *from = kernel_operand(e->k, in, n), *step = kernel_operand(e->k, in, 1 - n);
        if (is_uniform(e, *step) && !is_uniform(e, *from) && !constant_of(e, *step, &value))
            return true;
    }
    return false;
}

static GpuPlace global_place(AuEmit *e, LLVMValueRef base, LLVMTypeRef element, Sum at,
                             uint32_t bytes)
{
    if (at.rest) {
        LLVMValueRef rest = LLVMBuildSExt(e->builder, at.rest, e->i64, "");
        base = emit_step(e, element, base, rest);
    }
    return (GpuPlace){.base = base, .offset = at.constant * bytes, .space = AU_GLOBAL};
}

/* A constant inside of a swizzled line, of bits that the rest does not have, is xor what the rest gives: one operation where it is used, as
 * in turned(). */
static GpuPlace block_place(AuEmit *e, LLVMValueRef base, Sum at, uint32_t bytes, uint32_t swizzle)
{
    LLVMBuilderRef b = e->builder;
    LLVMTypeRef i32 = e->element[AU_I32];
    int64_t constant = at.constant * bytes, inside = 0;
    LLVMValueRef rest = at.rest ? LLVMBuildIntCast2(b, at.rest, i32, true, "") : gpu_i32(e, 0);
    rest = LLVMBuildMul(b, rest, gpu_i32(e, bytes), "");
    if (swizzle) {
        inside = constant & (8 * (int64_t)swizzle - 1);
        const uint32_t line = (uint32_t)inside & (swizzle - 1);
        const bool apart = line && !(at.bits * bytes & line);
        rest = LLVMBuildAdd(b, rest, gpu_i32(e, (uint32_t)inside - (apart ? line : 0)), "");
        rest = swizzled(e, rest, swizzle);
        if (apart) rest = LLVMBuildXor(b, gpu_device(e)->pin(e, rest), gpu_i32(e, line), "");
    }
    return (GpuPlace){.base = emit_step(e, e->element[AU_U8], base, rest),
                      .offset = constant - inside,
                      .space = AU_SHARED};
}

GpuPlace gpu_place(AuEmit *e, AuMem mem, AuVal index, uint32_t bytes)
{
    const AuMemory *m = &e->k->mems[mem.i];
    const uint32_t element = kernel_scalar_bytes(m->scalar);
    AuVal from, step;
    if (m->space == AU_GLOBAL && walks(e, index, &from, &step)) {
        GpuPlace place = gpu_place(e, mem, from, bytes);
        LLVMValueRef by = LLVMBuildSExt(e->builder, emit_base(e, step), e->i64, "");
        place.base = emit_step(e, emit_stored(e, m->scalar, 1), place.base, by);
        place.align = gpu_alignment(e, mem, index, bytes);
        return place;
    }
    const Sum at = split(e, index, (Split){DEEPEST, m->swizzle != 0});
    LLVMValueRef base = e->places[mem.i].base;
    GpuPlace place = m->space == AU_GLOBAL
                         ? global_place(e, base, emit_stored(e, m->scalar, 1), at, element)
                         : block_place(e, base, at, element, m->swizzle);
    place.constant = m->space == AU_GLOBAL && !m->writes && !m->earlier;
    place.align = gpu_alignment(e, mem, index, bytes);
    return place;
}

GpuPlace gpu_line(AuEmit *e, AuMem mem, AuVal index)
{
    const uint32_t element = kernel_scalar_bytes(e->k->mems[mem.i].scalar);
    return block_place(e, e->places[mem.i].base, split(e, index, (Split){DEEPEST, false}), element,
                       0);
}

LLVMValueRef gpu_address(AuEmit *e, AuMem mem, AuVal index)
{
    const GpuPlace place = gpu_place(e, mem, index, 1);
    LLVMTypeRef type = e->k->mems[mem.i].space == AU_GLOBAL ? e->i64 : e->element[AU_I32];
    if (!place.offset) return place.base;
    return emit_step(e, e->element[AU_U8], place.base,
                     LLVMConstInt(type, (unsigned long long)place.offset, true));
}
