/* cuda_codes.c - numbers of 8 bits: cvt.rn.f16x2.e4m3x2 and its kin take and give two at a time, from sm_89 on (caps.def says which there are;
 * others are written in arithmetic before). f16 holds every code exactly.
 *
 * Integers become operands of 16 bits two at a time, without an f32 on the way: their bits are put behind the exponent of a power of two, beside
 * which they are whole, and it is subtracted. Of i8 and f16 that is 1024, whose last place is 1; a bf16 has seven places, so the sign goes apart:
 * 128 + (b & 127) less 128, or 256 where the sign is there, which is the same bits with the sign below the exponent. */
#include "cuda.h"

static LLVMValueRef word(AuEmit *e, uint32_t bits)
{
    return LLVMConstInt(e->element[AU_I32], bits, false);
}

/* Bytes of [a], which are 0 .. 3, and of [b], 4 .. 7, by four digits from the lowest on (PTX ISA, prmt). */
static LLVMValueRef bytes_of(AuEmit *e, LLVMValueRef a, LLVMValueRef b, uint32_t which)
{
    LLVMValueRef operands[] = {a, b, word(e, which)};
    return emit_call(e, "llvm.nvvm.prmt", NULL, NULL, operands, 3);
}

/* Codes 4 n .. 4 n + 3 of a vector of whole words. */
static LLVMValueRef word_at(AuEmit *e, LLVMValueRef codes, uint32_t n)
{
    const uint32_t count = emit_count(codes);
    LLVMTypeRef type = e->element[AU_I32];
    if (count == 4) return LLVMBuildBitCast(e->builder, codes, type, "");
    return emit_at(e, LLVMBuildBitCast(e->builder, codes, LLVMVectorType(type, count / 4), ""), n);
}

/* Are these the elements of two vectors by turns, from [first] of each on? So V's codes come, of which two rows have a register together. */
typedef struct Turns {
    AuVal of[2];
    uint32_t first;
} Turns;

static bool by_turns(AuEmit *e, AuVal codes, Turns *out)
{
    const AuInstr *vec = kernel_at(e->k, codes);
    if (vec->op != AU_K_VEC || vec->type.width % 8) return false;
    for (uint32_t n = 0; n < vec->type.width; n++) {
        const AuInstr *in = kernel_at(e->k, kernel_operand(e->k, vec, n));
        if (in->op != AU_K_ELEMENT) return false;
        const AuVal of = kernel_operand(e->k, in, 0);
        if (n < 2) out->of[n] = of;
        if (n == 0) out->first = (uint32_t)in->imm;
        if (of.i != out->of[n % 2].i || (uint32_t)in->imm != out->first + n / 2) return false;
    }
    return out->first % 4 == 0 && kernel_at(e->k, out->of[0])->type.width % 4 == 0;
}

/* Codes 4 n .. 4 n + 3 of what is decoded, of which there are perhaps two. */
static LLVMValueRef word_of(AuEmit *e, AuVal from, uint32_t n)
{
    LLVMBuilderRef b = e->builder;
    Turns turns = {.first = 0};
    if (by_turns(e, from, &turns)) {
        const uint32_t at = turns.first / 4 + n / 2;
        return bytes_of(e, word_at(e, emit_base(e, turns.of[0]), at),
                        word_at(e, emit_base(e, turns.of[1]), at), n % 2 ? 0x7362 : 0x5140);
    }
    LLVMValueRef codes = emit_base(e, from);
    if (emit_count(codes) > 2) return word_at(e, codes, n);
    LLVMTypeRef halfword = LLVMInt16TypeInContext(e->context);
    return LLVMBuildZExt(b, LLVMBuildBitCast(b, codes, halfword, ""), e->element[AU_I32], "");
}

static LLVMValueRef pair_of(AuEmit *e, LLVMValueRef codes, uint32_t n, uint32_t count)
{
    LLVMBuilderRef b = e->builder;
    LLVMTypeRef halfword = LLVMInt16TypeInContext(e->context);
    if (count == 1) return LLVMBuildZExt(b, codes, halfword, "");
    return emit_at(e, LLVMBuildBitCast(b, codes, LLVMVectorType(halfword, count / 2), ""), n);
}

static LLVMValueRef decode(AuEmit *e, const char *name, LLVMValueRef codes)
{
    LLVMBuilderRef b = e->builder;
    const uint32_t count = emit_is_vector(codes) ? emit_count(codes) : 1;
    LLVMTypeRef f32 = e->element[AU_F32];
    LLVMValueRef all = count > 1 ? LLVMGetPoison(LLVMVectorType(f32, count)) : NULL;
    for (uint32_t n = 0; n < count; n += 2) {
        LLVMValueRef pair = pair_of(e, codes, n / 2, count);
        LLVMValueRef halves = emit_call(e, name, NULL, NULL, &pair, 1);
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

/* ---- integers */

/* Codes 2 n and 2 n + 1 of a word, each the low byte of 16 bits, whose others are byte [which] of the constant: one for all, so that it has a
 * register, and the digits are in the instruction. */
static LLVMValueRef spread(AuEmit *e, LLVMValueRef codes, uint32_t n, uint32_t constant,
                           uint32_t which)
{
    return bytes_of(e, codes, word(e, constant), (n ? 0x0302 : 0x0100) + (4 + which) * 0x1010);
}

static LLVMValueRef both(AuEmit *e, LLVMValueRef operand, uint32_t bits)
{
    return LLVMBuildAnd(e->builder, operand, word(e, bits), "");
}

static LLVMValueRef as_pair(AuEmit *e, LLVMValueRef bits, AuScalar to)
{
    return LLVMBuildBitCast(e->builder, bits, LLVMVectorType(e->element[to], 2), "");
}

/* Of pairs that are given as bits; of bf16 as a multiply-add, since sm_80 has no other sum of them. */
static LLVMValueRef sum_of(AuEmit *e, LLVMValueRef x, LLVMValueRef y, AuScalar to)
{
    LLVMValueRef operands[] = {as_pair(e, x, to), as_pair(e, word(e, 0x3f803f80), AU_BF16),
                               as_pair(e, y, to)};
    if (to == AU_F16) return LLVMBuildFAdd(e->builder, operands[0], operands[2], "");
    return emit_call(e, "llvm.fma", LLVMTypeOf(operands[0]), NULL, operands, 3);
}

static LLVMValueRef pair_of_bytes(AuEmit *e, LLVMValueRef codes, uint32_t n, AuScalar to)
{
    const uint32_t exponents = 0xc343; /* of 128 and 256, and of -128 and -256 */
    if (to == AU_F16) {
        LLVMValueRef turned = LLVMBuildXor(e->builder, codes, word(e, 0x80808080), "");
        return sum_of(e, spread(e, turned, n, 0x64, 0), word(e, 0xe480e480), to); /* -1024 - 128 */
    }
    LLVMValueRef sum = spread(e, both(e, codes, 0x7f7f7f7f), n, exponents, 0),
                 less = spread(e, both(e, codes, 0x80808080), n, exponents, 1);
    return sum_of(e, sum, less, to);
}

/* Halves of bytes, shifted so that they are the lower ones: 1024 or 128 with their sign turned, less that and 8. */
static LLVMValueRef pair_of_halves(AuEmit *e, LLVMValueRef codes, uint32_t n, bool upper,
                                   AuScalar to)
{
    const bool f16 = to == AU_F16;
    if (upper) codes = LLVMBuildLShr(e->builder, codes, word(e, 4), "");
    codes = LLVMBuildXor(e->builder, both(e, codes, 0x0f0f0f0f), word(e, 0x08080808), "");
    return sum_of(e, spread(e, codes, n, f16 ? 0x64 : 0x43, 0),
                  word(e, f16 ? 0xe408e408 : 0xc308c308), to);
}

static LLVMValueRef pair_to(AuEmit *e, AuKOp op, LLVMValueRef codes, uint32_t n, AuScalar to)
{
    return op == AU_K_FROM_I8 ? pair_of_bytes(e, codes, n, to)
                              : pair_of_halves(e, codes, n, op == AU_K_FROM_I4_HIGH, to);
}

static bool is_of_integers(AuKOp op)
{
    return op == AU_K_FROM_I8 || op == AU_K_FROM_I4 || op == AU_K_FROM_I4_HIGH;
}

static LLVMValueRef splat(AuEmit *e, LLVMValueRef one, uint32_t count)
{
    return count > 1 ? emit_splat(e, one, 1, count) : one;
}

/* NULL: not of these. */
static LLVMValueRef integers_to_halves(AuEmit *e, const AuInstr *in)
{
    LLVMBuilderRef b = e->builder;
    const AuScalar to = (AuScalar)in->type.scalar;
    if (in->op != AU_K_CVT || (to != AU_F16 && to != AU_BF16)) return NULL;
    const AuInstr *from = kernel_at(e->k, kernel_operand(e->k, in, 0));
    const uint32_t count = in->type.width;
    if (!is_of_integers((AuKOp)from->op) || (count != 2 && count % 4)) return NULL;
    if (to == AU_BF16 && cuda_host(e)->capability < 80) return NULL;
    const AuVal codes = kernel_operand(e->k, from, 0);
    LLVMValueRef all = LLVMGetPoison(LLVMVectorType(e->element[AU_I32], count / 2));
    for (uint32_t n = 0; n < count / 2; n++) {
        LLVMValueRef four = word_of(e, codes, n / 2),
                     two = pair_to(e, (AuKOp)from->op, four, n % 2, to);
        all = emit_put(e, all, LLVMBuildBitCast(b, two, e->element[AU_I32], ""), n);
    }
    return LLVMBuildBitCast(b, all, LLVMVectorType(e->element[to], count), "");
}

/* As codes.c has it: 2^23 + 128 + value, or + 8, whose low bits are the code with its sign turned. */
static LLVMValueRef integers(AuEmit *e, AuKOp op, LLVMValueRef codes)
{
    LLVMBuilderRef b = e->builder;
    const uint32_t count = emit_is_vector(codes) ? emit_count(codes) : 1,
                   sign = op == AU_K_FROM_I8 ? 128 : 8;
    LLVMTypeRef f32 = emit_type(e, AU_F32, count), i32 = emit_type(e, AU_I32, count);
    LLVMValueRef turn = splat(e, word(e, 0x4b000000 + sign), count),
                 less = splat(e, LLVMConstReal(e->element[AU_F32], 8388608.0 + sign), count),
                 bits = LLVMBuildZExt(b, codes, i32, "");
    if (op == AU_K_FROM_I4) bits = LLVMBuildAnd(b, bits, splat(e, word(e, 15), count), "");
    if (op == AU_K_FROM_I4_HIGH) bits = LLVMBuildLShr(b, bits, splat(e, word(e, 4), count), "");
    bits = LLVMBuildXor(b, bits, turn, "");
    return LLVMBuildFSub(b, LLVMBuildBitCast(b, bits, f32, ""), less, "");
}

LLVMValueRef cuda_codes(AuEmit *e, const AuInstr *in, LLVMValueRef x)
{
    switch ((int)in->op) {
    case AU_K_CVT: return integers_to_halves(e, in);
    case AU_K_FROM_I8:
    case AU_K_FROM_I4:
    case AU_K_FROM_I4_HIGH: return integers(e, (AuKOp)in->op, x);
    case AU_K_FROM_E4M3: return decode(e, "llvm.nvvm.e4m3x2.to.f16x2.rn", x);
    case AU_K_FROM_E5M2: return decode(e, "llvm.nvvm.e5m2x2.to.f16x2.rn", x);
    case AU_K_TO_E4M3: return encode(e, "llvm.nvvm.ff.to.e4m3x2.rn", x);
    case AU_K_TO_E5M2: return encode(e, "llvm.nvvm.ff.to.e5m2x2.rn", x);
    }
    return NULL;
}
