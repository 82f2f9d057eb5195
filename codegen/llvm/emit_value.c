/* emit_value.c - the forms of a value (emit.h), and small pieces of vector code that several files need.
 * Forms are cached per value and dropped when the region in which they were made ends: a splat made inside a loop does not
 * dominate what follows it. */
#include "emit.h"

#include <string.h>

LLVMTypeRef emit_type(const AuEmit *e, AuScalar scalar, uint32_t count)
{
    return count == 1 ? e->element[scalar] : LLVMVectorType(e->element[scalar], count);
}

/* ---- constants and rearrangement */

LLVMValueRef emit_int(AuEmit *e, AuScalar scalar, int64_t value, uint32_t count)
{
    LLVMValueRef one = LLVMConstInt(e->element[scalar], (unsigned long long)value, true);
    if (count == 1) return one;
    for (uint32_t n = 0; n < count; n++) e->list[n] = one;
    return LLVMConstVector(e->list, count);
}

LLVMValueRef emit_ramp(AuEmit *e, AuScalar scalar, uint32_t count, int64_t step)
{
    for (uint32_t n = 0; n < count; n++)
        e->list[n] = LLVMConstInt(e->element[scalar], (unsigned long long)(n * step), true);
    return LLVMConstVector(e->list, count);
}

LLVMValueRef emit_permute(AuEmit *e, LLVMValueRef a, LLVMValueRef b, uint32_t count)
{
    for (uint32_t n = 0; n < count; n++)
        e->list[n] = LLVMConstInt(e->element[AU_I32], e->order[n], false);
    if (!b) b = LLVMGetPoison(LLVMTypeOf(a));
    return LLVMBuildShuffleVector(e->builder, a, b, LLVMConstVector(e->list, count), "");
}

LLVMValueRef emit_pick(AuEmit *e, LLVMValueRef a, uint32_t first, int32_t step, uint32_t count)
{
    for (uint32_t n = 0; n < count; n++)
        e->order[n] = (uint32_t)((int32_t)first + (int32_t)n * step);
    return emit_permute(e, a, NULL, count);
}

LLVMValueRef emit_spread(AuEmit *e, LLVMValueRef a, uint32_t width, uint32_t count)
{
    for (uint32_t n = 0; n < count; n++) e->order[n] = n / width;
    return emit_permute(e, a, NULL, count);
}

LLVMValueRef emit_at(AuEmit *e, LLVMValueRef vector, uint32_t n)
{
    return LLVMBuildExtractElement(e->builder, vector, emit_int(e, AU_I32, n, 1), "");
}

LLVMValueRef emit_put(AuEmit *e, LLVMValueRef vector, LLVMValueRef element, uint32_t n)
{
    return LLVMBuildInsertElement(e->builder, vector, element, emit_int(e, AU_I32, n, 1), "");
}

/* Broadcasts a scalar; a short vector whole. Vectors of 32 or 64 bits go through an integer, which every target can broadcast
 * straight from memory. */
LLVMValueRef emit_splat(AuEmit *e, LLVMValueRef base, uint32_t width, uint32_t times)
{
    LLVMTypeRef type = LLVMTypeOf(base);
    if (width == 1) {
        LLVMValueRef none = LLVMGetPoison(LLVMVectorType(type, times));
        return emit_pick(e, emit_put(e, none, base, 0), 0, 0, times);
    }
    LLVMTypeRef element = LLVMGetElementType(type);
    if (LLVMGetTypeKind(element) == LLVMIntegerTypeKind) {
        const uint32_t bits = width * LLVMGetIntTypeWidth(element);
        if (bits == 32 || bits == 64) {
            LLVMValueRef whole =
                LLVMBuildBitCast(e->builder, base, e->element[bits == 32 ? AU_I32 : AU_I64], "");
            return LLVMBuildBitCast(e->builder, emit_splat(e, whole, 1, times),
                                    LLVMVectorType(element, width * times), "");
        }
    }
    for (uint32_t n = 0; n < width * times; n++) e->order[n] = n % width;
    return emit_permute(e, base, NULL, width * times);
}

/* Intrinsics are looked up by name once per types; [intrinsic] must be a literal, its address is the key. */
LLVMValueRef emit_call(AuEmit *e, const char *intrinsic, LLVMTypeRef t0, LLVMTypeRef t1,
                       LLVMValueRef *arguments, uint32_t count)
{
    AuIntrinsic *at = e->intrinsics, *end = at + e->intrinsic_count;
    while (at < end && (at->name != intrinsic || at->types[0] != t0 || at->types[1] != t1)) at++;
    if (at == end) {
        if (e->intrinsic_count < AU_INTRINSICS)
            e->intrinsic_count++;
        else
            at = e->intrinsics;
        const unsigned id = LLVMLookupIntrinsicID(intrinsic, strlen(intrinsic)), types = t1   ? 2
                                                                                         : t0 ? 1
                                                                                              : 0;
        *at = (AuIntrinsic){.name = intrinsic, .types = {t0, t1}};
        at->function = LLVMGetIntrinsicDeclaration(e->module, id, at->types, types);
        at->signature = LLVMGlobalGetValueType(at->function);
    }
    return LLVMBuildCall2(e->builder, at->signature, at->function, arguments, count, "");
}

LLVMValueRef emit_any(AuEmit *e, LLVMValueRef mask)
{
    return emit_call(e, "llvm.vector.reduce.or", LLVMTypeOf(mask), NULL, &mask, 1);
}

/* ---- forms */

void emit_set(AuEmit *e, AuVal v, LLVMValueRef value, bool wide)
{
    const AuInstr *in = kernel_at(e->k, v);
    AuForms *at = &e->forms[v.i];
    *at = (AuForms){0};
    if (wide && emit_kind(e, v) != AU_VARYING) { /* lanes agree, or differ by what is known */
        value =
            in->type.width == 1 ? emit_at(e, value, 0) : emit_pick(e, value, 0, 1, in->type.width);
        wide = false;
    }
    if (wide)
        at->wide = value;
    else
        at->base = value;
    if (in->text && !LLVMIsConstant(value) && in->op != AU_K_FOR)
        LLVMSetValueName2(value, in->text, strlen(in->text));
}

static void remember(AuEmit *e, AuVal v)
{
    AU_PUSH(e->arena, e->trail, e->trail_count, e->trail_capacity, v.i);
}

void emit_forget(AuEmit *e, uint32_t mark)
{
    while (e->trail_count > mark) {
        AuForms *at = &e->forms[e->trail[--e->trail_count]];
        at->index = NULL;
        if (at->base) at->wide = NULL;
    }
}

LLVMValueRef emit_base(AuEmit *e, AuVal v)
{
    AuForms *at = &e->forms[v.i];
    if (at->base) return at->base;
    const uint32_t width = kernel_at(e->k, v)->type.width;
    return width == 1 ? emit_at(e, at->wide, 0) : emit_pick(e, at->wide, 0, 1, width);
}

LLVMValueRef emit_wide(AuEmit *e, AuVal v)
{
    AuForms *at = &e->forms[v.i];
    if (at->wide) return at->wide;
    const AuInstr *in = kernel_at(e->k, v);
    LLVMValueRef wide = emit_splat(e, at->base, in->type.width, e->k->lanes);
    if (emit_kind(e, v) == AU_AFFINE)
        wide = LLVMBuildAdd(
            e->builder, wide,
            emit_ramp(e, (AuScalar)in->type.scalar, e->k->lanes, e->lanes.stride[v.i]), "");
    remember(e, v);
    return at->wide = wide;
}

LLVMValueRef emit_form(AuEmit *e, AuVal v, bool wide)
{
    return wide ? emit_wide(e, v) : emit_base(e, v);
}

/* One step of an index expression in 64 bits; NULL: [in] is none. */
static LLVMValueRef widened(AuEmit *e, const AuInstr *in)
{
    LLVMBuilderRef b = e->builder;
    if (!in->count) return NULL;
    const AuVal x = kernel_operand(e->k, in, 0), y = kernel_operand(e->k, in, in->count > 1);
    const AuScalar of = (AuScalar)kernel_at(e->k, x)->type.scalar;
    if (of != AU_I32 && of != AU_I64) return NULL;
    if (in->op == AU_K_ADD) return LLVMBuildNSWAdd(b, emit_index(e, x), emit_index(e, y), "");
    if (in->op == AU_K_SUB) return LLVMBuildNSWSub(b, emit_index(e, x), emit_index(e, y), "");
    if (in->op == AU_K_MUL) return LLVMBuildNSWMul(b, emit_index(e, x), emit_index(e, y), "");
    if (in->op == AU_K_NEG) return LLVMBuildNSWNeg(b, emit_index(e, x), "");
    if (in->op == AU_K_CVT && in->type.scalar == AU_I64) return emit_index(e, x);
    const AuInstr *count = kernel_at(e->k, y);
    if (in->op == AU_K_SHL && count->op == AU_K_CONST)
        return LLVMBuildShl(
            b, emit_index(e, x),
            LLVMConstInt(e->i64, (uint64_t)count->imm & (of == AU_I64 ? 63 : 31), false), "");
    return NULL;
}

/* Only for uniform and affine values: those are index arithmetic; what varies is extended as a vector. */
LLVMValueRef emit_index(AuEmit *e, AuVal v)
{
    AuForms *at = &e->forms[v.i];
    if (at->index) return at->index;
    LLVMValueRef index = emit_kind(e, v) == AU_VARYING ? NULL : widened(e, kernel_at(e->k, v));
    if (!index) index = LLVMBuildSExt(e->builder, emit_base(e, v), e->i64, "");
    remember(e, v);
    return at->index = index;
}
