/* hip_shuffle.c - exchange between the lanes of a wave, by the cheapest instruction that a distance has.
 *
 * Lanes that differ in their low four bits read each other in an instruction of the vector unit (DPP: "data parallel primitives" of
 * the ISA documents), rows of 16 in one where the machine has v_permlanex16, halves of 32 and 64 lanes by v_permlane16_swap and
 * v_permlane32_swap (gfx950), and through the crossbar of the LDS otherwise: with the
 * distance in the instruction (ds_swizzle) within 32 lanes, else with addresses (ds_bpermute). */
#include "hip.h"

enum { /* DPP controls */
       QUAD_PERM = 0x000,
       ROW_ROR = 0x120,
       ROW_MIRROR = 0x140,
       ROW_HALF_MIRROR = 0x141,
       ALL_ROWS = 0xf
};

static LLVMValueRef dpp(AuEmit *e, LLVMValueRef v, uint32_t control)
{
    LLVMValueRef yes = LLVMConstInt(e->element[AU_I1], 1, false);
    LLVMValueRef arguments[6] = {
        v, v, gpu_i32(e, control), gpu_i32(e, ALL_ROWS), gpu_i32(e, ALL_ROWS), yes};
    return emit_call(e, "llvm.amdgcn.update.dpp", e->element[AU_I32], NULL, arguments, 6);
}

/* Lane l of four reads l ^ distance. */
static uint32_t quad(uint32_t distance)
{
    uint32_t control = QUAD_PERM;
    for (uint32_t l = 0; l < 4; l++) control |= (l ^ distance) << 2 * l;
    return control;
}

/* Within a row of 16: mirrors are distances of 15 and 7, and half a turn of the row is 8. */
static LLVMValueRef within_row(AuEmit *e, LLVMValueRef v, uint32_t distance)
{
    if (distance & 8) {
        if ((distance & 7) == 7) return dpp(e, v, ROW_MIRROR);
        v = dpp(e, v, ROW_ROR + 8);
    }
    if (distance & 4) {
        v = dpp(e, v, ROW_HALF_MIRROR);
        distance = (distance & 3) ^ 3;
    }
    return distance & 3 ? dpp(e, v, quad(distance & 3)) : v;
}

/* Lane l of a row reads lane l of the row beside it. */
static LLVMValueRef across_rows(AuEmit *e, LLVMValueRef v)
{
    enum { LOW_LANES = 0x76543210, HIGH_LANES = (int)0xfedcba98 };
    LLVMValueRef no = LLVMConstInt(e->element[AU_I1], 0, false);
    LLVMValueRef arguments[6] = {v,  v, gpu_i32(e, LOW_LANES), gpu_i32(e, (uint32_t)HIGH_LANES),
                                 no, no};
    return emit_call(e, "llvm.amdgcn.permlanex16", e->element[AU_I32], NULL, arguments, 6);
}

/* Is the lane in an upper row of 16? Asked in each block that chooses by it, of a copy of which LLVM knows nothing: so the answer is in VCC, which
 * choices of two words at once (v_dual_cndmask_b32) take it from, and not in a register that is kept throughout a loop. */
static LLVMValueRef is_upper(AuEmit *e)
{
    HipKernel *k = (HipKernel *)e->gpu;
    LLVMBuilderRef b = e->builder;
    if (k->asked == LLVMGetInsertBlock(b)) return k->upper;
    LLVMTypeRef i32 = e->element[AU_I32], type = LLVMFunctionType(i32, &i32, 1, false);
    LLVMValueRef copy = LLVMGetInlineAsm(type, "", 0, "=v,0", 4, true, false,
                                         LLVMInlineAsmDialectATT, false),
                 bit = LLVMBuildAnd(b, e->gpu->lane, gpu_i32(e, 16), ""),
                 own = LLVMBuildCall2(b, type, copy, &bit, 1, "");
    k->asked = LLVMGetInsertBlock(b);
    k->upper = LLVMBuildICmp(b, LLVMIntNE, own, gpu_i32(e, 0), "upper");
    return k->upper;
}

static void both_rows(AuEmit *e, LLVMValueRef word, LLVMValueRef out[2])
{
    LLVMValueRef other = across_rows(e, word), upper = is_upper(e);
    out[0] = LLVMBuildSelect(e->builder, upper, other, word, "");
    out[1] = LLVMBuildSelect(e->builder, upper, word, other, "");
}

/* By an exchange and choices; where halves swap, two copies, of which the upper half of the first and the lower half of the second change places, in each 64 lanes or in each 32: the first
 * has the lower half twice then, the second the upper one. */
bool hip_both(AuEmit *e, LLVMValueRef word, uint32_t bit, LLVMValueRef out[2])
{
    if (bit == 16 && hip_host(e)->rows_cross) {
        both_rows(e, word, out);
        return true;
    }
    if ((bit != 16 && bit != 32) || !hip_host(e)->halves_swap) return false;
    LLVMValueRef no = LLVMConstInt(e->element[AU_I1], 0, false),
                 arguments[4] = {word, word, no, no};
    LLVMValueRef all =
        emit_call(e, bit == 32 ? "llvm.amdgcn.permlane32.swap" : "llvm.amdgcn.permlane16.swap",
                  NULL, NULL, arguments, 4);
    for (uint32_t n = 0; n < 2; n++) out[n] = LLVMBuildExtractValue(e->builder, all, n, "");
    return true;
}

static LLVMValueRef swap_halves(AuEmit *e, LLVMValueRef v, uint32_t distance)
{
    LLVMValueRef of[2] = {NULL, NULL};
    hip_both(e, v, distance, of);
    LLVMValueRef bit = LLVMBuildAnd(e->builder, e->gpu->lane, gpu_i32(e, distance), ""),
                 upper = LLVMBuildICmp(e->builder, LLVMIntNE, bit, gpu_i32(e, 0), "");
    return LLVMBuildSelect(e->builder, upper, of[0], of[1], "");
}

static LLVMValueRef swizzle(AuEmit *e, LLVMValueRef v, uint32_t distance)
{
    enum { KEEP = 0x1f, XOR_AT = 10 }; /* lane' = lane & KEEP ^ distance, in each 32 */
    LLVMValueRef arguments[2] = {v, gpu_i32(e, KEEP | distance << XOR_AT)};
    return emit_call(e, "llvm.amdgcn.ds.swizzle", NULL, NULL, arguments, 2);
}

static LLVMValueRef by_address(AuEmit *e, LLVMValueRef v, LLVMValueRef lane)
{
    LLVMValueRef arguments[2] = {LLVMBuildShl(e->builder, lane, gpu_i32(e, 2), ""), v};
    return emit_call(e, "llvm.amdgcn.ds.bpermute", NULL, NULL, arguments, 2);
}

LLVMValueRef hip_exchange(AuEmit *e, bool by_xor, LLVMValueRef bits, LLVMValueRef lane)
{
    const bool known = LLVMIsAConstantInt(lane) != NULL;
    if (!by_xor) {
        LLVMValueRef arguments[2] = {bits, lane};
        if (!known) return by_address(e, bits, lane);
        return emit_call(e, "llvm.amdgcn.readlane", e->element[AU_I32], NULL, arguments, 2);
    }
    const uint32_t distance = known ? (uint32_t)LLVMConstIntGetZExtValue(lane) : UINT32_MAX;
    if (distance < 16) return within_row(e, bits, distance);
    if (distance < 32 && hip_host(e)->rows_cross)
        return within_row(e, across_rows(e, bits), distance & 15);
    if ((distance == 16 || distance == 32) && hip_host(e)->halves_swap)
        return swap_halves(e, bits, distance);
    if (distance < 32) return swizzle(e, bits, distance);
    return by_address(e, bits, LLVMBuildXor(e->builder, e->gpu->lane, lane, ""));
}
