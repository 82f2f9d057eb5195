/* cuda_codes.c - numbers of 8 bits: cvt.rn.f16x2.e4m3x2 and its kin take and give two at a time, from sm_89 on (caps.def says which there are;
 * others are written in arithmetic before). f16 holds every code exactly. */
#include "cuda.h"

static LLVMValueRef pair_of(AuEmit *e, LLVMValueRef codes, uint32_t n, uint32_t count)
{
    LLVMBuilderRef b = e->builder;
    LLVMTypeRef word = LLVMInt16TypeInContext(e->context);
    if (count == 1) return LLVMBuildZExt(b, codes, word, "");
    return emit_at(e, LLVMBuildBitCast(b, codes, LLVMVectorType(word, count / 2), ""), n);
}

static LLVMValueRef decode(AuEmit *e, const char *name, LLVMValueRef codes)
{
    LLVMBuilderRef b = e->builder;
    const uint32_t count = emit_is_vector(codes) ? emit_count(codes) : 1;
    LLVMTypeRef f32 = e->element[AU_F32];
    LLVMValueRef all = count > 1 ? LLVMGetPoison(LLVMVectorType(f32, count)) : NULL;
    for (uint32_t n = 0; n < count; n += 2) {
        LLVMValueRef word = pair_of(e, codes, n / 2, count);
        LLVMValueRef halves = emit_call(e, name, NULL, NULL, &word, 1);
        for (uint32_t i = 0; i < 2 && n + i < count; i++) {
            LLVMValueRef one = LLVMBuildFPExt(b, emit_at(e, halves, i), f32, "");
            all = all ? emit_put(e, all, one, n + i) : one;
        }
    }
    return all;
}

/* The first operand becomes the high byte. */
static LLVMValueRef encode(AuEmit *e, const char *name, LLVMValueRef x)
{
    LLVMBuilderRef b = e->builder;
    LLVMTypeRef byte = e->element[AU_U8], word = LLVMInt16TypeInContext(e->context);
    const uint32_t count = emit_is_vector(x) ? emit_count(x) : 1;
    LLVMValueRef zero = LLVMConstNull(e->element[AU_F32]);
    if (count == 1)
        return LLVMBuildTrunc(b, emit_call(e, name, NULL, NULL, (LLVMValueRef[]){zero, x}, 2), byte,
                              "");
    LLVMValueRef all = LLVMGetPoison(LLVMVectorType(word, count / 2));
    for (uint32_t n = 0; n < count; n += 2) {
        LLVMValueRef both[] = {emit_at(e, x, n + 1), emit_at(e, x, n)};
        all = emit_put(e, all, emit_call(e, name, NULL, NULL, both, 2), n / 2);
    }
    return LLVMBuildBitCast(b, all, LLVMVectorType(byte, count), "");
}

LLVMValueRef cuda_codes(AuEmit *e, const AuInstr *in, LLVMValueRef x)
{
    switch ((int)in->op) {
    case AU_K_FROM_E4M3: return decode(e, "llvm.nvvm.e4m3x2.to.f16x2.rn", x);
    case AU_K_FROM_E5M2: return decode(e, "llvm.nvvm.e5m2x2.to.f16x2.rn", x);
    case AU_K_TO_E4M3: return encode(e, "llvm.nvvm.ff.to.e4m3x2.rn", x);
    case AU_K_TO_E5M2: return encode(e, "llvm.nvvm.ff.to.e5m2x2.rn", x);
    }
    return NULL;
}
