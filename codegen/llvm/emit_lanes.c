/* emit_lanes.c - vectors of a lane, products of pairs, and exchange between lanes. */
#include "emit.h"

/* <w x T> of uniform scalars; of varying ones their elements interleaved. */
void emit_vec(AuEmit *e, AuVal v)
{
    const AuInstr *in = kernel_at(e->k, v);
    const bool wide = emit_kind(e, v) == AU_VARYING;
    const uint32_t width = in->type.width, lanes = wide ? e->k->lanes : 1;
    if (width == 1) {
        emit_set(e, v, emit_form(e, kernel_operand(e->k, in, 0), wide), wide);
        return;
    }
    if (wide && width == 2) {
        LLVMValueRef a = emit_wide(e, kernel_operand(e->k, in, 0));
        LLVMValueRef b = emit_wide(e, kernel_operand(e->k, in, 1));
        for (uint32_t n = 0; n < 2 * lanes; n++) e->order[n] = n / 2 + (n & 1) * lanes;
        emit_set(e, v, emit_permute(e, a, b, 2 * lanes), true);
        return;
    }
    LLVMValueRef all = LLVMGetPoison(emit_type(e, (AuScalar)in->type.scalar, width * lanes));
    for (uint32_t n = 0; n < width; n++) {
        LLVMValueRef part = emit_form(e, kernel_operand(e->k, in, n), wide);
        for (uint32_t l = 0; l < lanes; l++)
            all = emit_put(e, all, wide ? emit_at(e, part, l) : part, l * width + n);
    }
    emit_set(e, v, all, wide);
}

void emit_element(AuEmit *e, AuVal v)
{
    const AuInstr *in = kernel_at(e->k, v);
    const AuVal from = kernel_operand(e->k, in, 0);
    const bool wide = emit_kind(e, v) == AU_VARYING;
    const uint32_t width = kernel_at(e->k, from)->type.width;
    LLVMValueRef vector = emit_form(e, from, wide);
    if (width == 1)
        emit_set(e, v, vector, wide);
    else if (wide)
        emit_set(e, v, emit_pick(e, vector, (uint32_t)in->imm, (int32_t)width, e->k->lanes), true);
    else
        emit_set(e, v, emit_at(e, vector, (uint32_t)in->imm), false);
}

/* vdpbf16ps for a whole vector of lanes; it takes denormals for zero, and its rounding is its own, as DOT2 allows. */
static const char *native_dot(const AuEmit *e, AuScalar of, bool wide)
{
    if (!wide || of != AU_BF16 || !e->host->dot_bf16) return NULL;
    switch (e->k->lanes) {
    case 4: return "llvm.x86.avx512bf16.dpbf16ps.128";
    case 8: return "llvm.x86.avx512bf16.dpbf16ps.256";
    case 16: return "llvm.x86.avx512bf16.dpbf16ps.512";
    default: return NULL;
    }
}

void emit_slice(AuEmit *e, AuVal v)
{
    const AuInstr *in = kernel_at(e->k, v);
    const AuVal from = kernel_operand(e->k, in, 0);
    const bool wide = emit_kind(e, v) == AU_VARYING;
    const uint32_t width = kernel_at(e->k, from)->type.width, part = in->type.width;
    const uint32_t count = part * (wide ? e->k->lanes : 1);
    LLVMValueRef vector = emit_form(e, from, wide);
    if (count == 1) {
        emit_set(e, v, width == 1 ? vector : emit_at(e, vector, (uint32_t)in->imm), wide);
        return;
    }
    for (uint32_t n = 0; n < count; n++)
        e->order[n] = n / part * width + (uint32_t)in->imm + n % part;
    emit_set(e, v, emit_permute(e, vector, NULL, count), wide);
}

void emit_dot2(AuEmit *e, AuVal v)
{
    const AuInstr *in = kernel_at(e->k, v);
    const bool wide = emit_kind(e, v) == AU_VARYING;
    const uint32_t lanes = wide ? e->k->lanes : 1;
    const AuVal first = kernel_operand(e->k, in, 1);
    const AuScalar of = (AuScalar)kernel_at(e->k, first)->type.scalar;
    LLVMValueRef c = emit_form(e, kernel_operand(e->k, in, 0), wide);
    LLVMValueRef pair[2] = {emit_form(e, first, wide),
                            emit_form(e, kernel_operand(e->k, in, 2), wide)};
    const char *native = native_dot(e, of, wide);
    if (native) {
        LLVMTypeRef type = LLVMVectorType(LLVMBFloatTypeInContext(e->context), 2 * lanes);
        LLVMValueRef arguments[3] = {c, LLVMBuildBitCast(e->builder, pair[0], type, ""),
                                     LLVMBuildBitCast(e->builder, pair[1], type, "")};
        emit_set(e, v, emit_call(e, native, NULL, NULL, arguments, 3), true);
        return;
    }
    for (uint32_t n = 2; n-- > 0;) { /* a fused step rounds once and takes the product exactly */
        LLVMValueRef arguments[3] = {NULL, NULL, c};
        for (uint32_t side = 0; side < 2; side++)
            arguments[side] = emit_to_f32(
                e, of, wide ? emit_pick(e, pair[side], n, 2, lanes) : emit_at(e, pair[side], n));
        c = emit_call(e, "llvm.fma", LLVMTypeOf(c), NULL, arguments, 3);
    }
    emit_set(e, v, c, wide);
}

/* SHUFFLE_XOR is a constant permutation; SHUFFLE takes lane by lane (its lane modulo the lanes). */
void emit_shuffle(AuEmit *e, AuVal v)
{
    const AuInstr *in = kernel_at(e->k, v);
    const uint32_t lanes = e->k->lanes;
    LLVMBuilderRef b = e->builder;
    LLVMValueRef from = emit_wide(e, kernel_operand(e->k, in, 0));
    if (in->op == AU_K_SHUFFLE_XOR) {
        for (uint32_t l = 0; l < lanes; l++) e->order[l] = l ^ (uint32_t)in->imm;
        emit_set(e, v, emit_permute(e, from, NULL, lanes), true);
        return;
    }
    const AuVal lane = kernel_operand(e->k, in, 1);
    const bool varies = emit_kind(e, lane) != AU_UNIFORM;
    LLVMValueRef at = LLVMBuildAnd(b, emit_form(e, lane, varies),
                                   emit_int(e, AU_I32, lanes - 1, varies ? lanes : 1), "");
    if (!varies) {
        emit_set(e, v, LLVMBuildExtractElement(b, from, at, ""), false);
        return;
    }
    LLVMValueRef all = LLVMGetPoison(LLVMTypeOf(from));
    for (uint32_t l = 0; l < lanes; l++)
        all = emit_put(e, all, LLVMBuildExtractElement(b, from, emit_at(e, at, l), ""), l);
    emit_set(e, v, all, true);
}

/* A vector is the elements of one lane behind those of another. */
void emit_both(AuEmit *e, AuVal v)
{
    const AuInstr *in = kernel_at(e->k, v);
    const uint32_t lanes = e->k->lanes, width = in->type.width, half = width / 2,
                   bit = (uint32_t)in->imm;
    LLVMValueRef from = emit_wide(e, kernel_operand(e->k, in, 0));
    for (uint32_t l = 0; l < lanes; l++)
        for (uint32_t n = 0; n < width; n++)
            e->order[l * width + n] = (n < half ? l & ~bit : l | bit) * half + n % half;
    emit_set(e, v, emit_permute(e, from, NULL, lanes * width), true);
}
