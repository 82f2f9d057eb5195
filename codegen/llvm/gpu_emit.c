/* gpu_emit.c - a kernel as a function of a thread, on any GPU: places of threads, exchanges, barriers, and the way of each instruction
 * to its file (AuDevice). */
#include "gpu.h"

static LLVMValueRef exchange(AuEmit *e, bool by_xor, LLVMValueRef v, LLVMValueRef lane)
{
    LLVMTypeRef f32 = e->element[AU_F32], i32 = e->element[AU_I32];
    const bool is_float = LLVMTypeOf(v) == f32;
    if (is_float) v = LLVMBuildBitCast(e->builder, v, i32, "");
    v = gpu_device(e)->exchange(e, by_xor, v, lane);
    return is_float ? LLVMBuildBitCast(e->builder, v, f32, "") : v;
}

static bool names_executor(const AuKernel *k)
{
    for (uint32_t n = 1; n < k->mem_count; n++)
        if (k->mems[n].space == AU_EXEC) return true;
    for (uint32_t n = 1; n < k->instr_count; n++)
        if (k->instrs[n].op == AU_K_WARP) return true;
    return false;
}

/* That an executor's number is the same in its lanes is said by an exchange: assemblers then branch without a mask. */
static void find_thread(AuEmit *e)
{
    LLVMBuilderRef b = e->builder;
    const uint32_t lanes = gpu_device(e)->lanes;
    LLVMValueRef thread = gpu_device(e)->thread(e);
    if (e->k->warps == 1) {
        e->gpu->lane = thread;
        e->gpu->warp = gpu_i32(e, 0);
        return;
    }
    e->gpu->lane = LLVMBuildAnd(b, thread, gpu_i32(e, lanes - 1), "lane");
    e->gpu->warp = LLVMBuildLShr(b, thread, gpu_i32(e, (uint32_t)__builtin_ctz(lanes)), "warp");
    if (names_executor(e->k)) e->gpu->warp = exchange(e, false, e->gpu->warp, gpu_i32(e, 0));
}

bool gpu_open(AuEmit *e)
{
    const GpuDevice *device = gpu_device(e);
    if (e->k->lanes != device->lanes || e->k->warps * device->lanes > device->threads) {
        emit_fault(e, NULL, device->refusal);
        return false;
    }
    e->gpu = device->open(e);
    find_thread(e);
    gpu_places(e);
    return true;
}

/* ---- instructions */

static LLVMValueRef shuffle(AuEmit *e, const AuInstr *in)
{
    LLVMValueRef v = emit_base(e, kernel_operand(e->k, in, 0));
    if (in->op == AU_K_SHUFFLE_XOR) return exchange(e, true, v, gpu_i32(e, (uint32_t)in->imm));
    LLVMValueRef lane = emit_base(e, kernel_operand(e->k, in, 1));
    LLVMValueRef last = gpu_i32(e, gpu_device(e)->lanes - 1);
    return exchange(e, false, v, LLVMBuildAnd(e->builder, lane, last, ""));
}

/* The own word and the other lane's, in the order of their lanes. */
static void both_words(AuEmit *e, LLVMValueRef word, uint32_t bit, LLVMValueRef out[2])
{
    const GpuDevice *device = gpu_device(e);
    LLVMBuilderRef b = e->builder;
    if (device->both && device->both(e, word, bit, out)) return;
    LLVMValueRef other = device->exchange(e, true, word, gpu_i32(e, bit)),
                 own = LLVMBuildAnd(b, e->gpu->lane, gpu_i32(e, bit), ""),
                 upper = LLVMBuildICmp(b, LLVMIntNE, own, gpu_i32(e, 0), "");
    out[0] = LLVMBuildSelect(b, upper, other, word, "");
    out[1] = LLVMBuildSelect(b, upper, word, other, "");
}

/* Words of 32 bits, whatever numbers are in them. */
static LLVMValueRef both(AuEmit *e, const AuInstr *in)
{
    LLVMBuilderRef b = e->builder;
    LLVMTypeRef i32 = e->element[AU_I32];
    const uint32_t words = in->type.width / 2u * kernel_scalar_bytes((AuScalar)in->type.scalar) / 4;
    LLVMValueRef v = LLVMBuildBitCast(b, emit_base(e, kernel_operand(e->k, in, 0)),
                                      words == 1 ? i32 : LLVMVectorType(i32, words), ""),
                 all = LLVMGetPoison(LLVMVectorType(i32, 2 * words));
    for (uint32_t n = 0; n < words; n++) {
        LLVMValueRef of[2], at = gpu_i32(e, n);
        both_words(e, words == 1 ? v : LLVMBuildExtractElement(b, v, at, ""), (uint32_t)in->imm,
                   of);
        all = LLVMBuildInsertElement(b, all, of[0], at, "");
        all = LLVMBuildInsertElement(b, all, of[1], gpu_i32(e, words + n), "");
    }
    return LLVMBuildBitCast(b, all, emit_type(e, (AuScalar)in->type.scalar, in->type.width), "");
}

static bool in_registers(const AuEmit *e, const AuInstr *in)
{
    return e->k->mems[in->mem.i].space == AU_LANE;
}

bool gpu_instruction(AuEmit *e, AuVal v)
{
    const AuInstr *in = kernel_at(e->k, v);
    const GpuDevice *device = gpu_device(e);
    switch ((int)in->op) {
    case AU_K_ADD: return gpu_sum(e, v);
    case AU_K_BLOCK: emit_set(e, v, device->block(e, in->imm), false); return true;
    case AU_K_BLOCKS: emit_set(e, v, device->blocks(e, in->imm), false); return true;
    case AU_K_WARP: emit_set(e, v, e->gpu->warp, false); return true;
    case AU_K_LANE: emit_set(e, v, e->gpu->lane, false); return true;
    case AU_K_LOAD:
        if (in_registers(e, in)) return false;
        gpu_load(e, v);
        return true;
    case AU_K_STORE:
        if (in_registers(e, in)) return false;
        gpu_store(e, v);
        return true;
    case AU_K_ATOMIC_INC: gpu_atomic_inc(e, v); return true;
    case AU_K_SHUFFLE:
    case AU_K_SHUFFLE_XOR: emit_set(e, v, shuffle(e, in), false); return true;
    case AU_K_BOTH: emit_set(e, v, both(e, in), false); return true;
    case AU_K_ANY:
        emit_set(e, v, device->any(e, emit_base(e, kernel_operand(e->k, in, 0))), false);
        return true;
    case AU_K_BARRIER: /* a block of one executor needs no more than its own */
        device->barrier(e, in->imm || e->k->warps == 1);
        return true;
    case AU_K_NOTE: device->forget_loads(e); return false; /* and a name for what follows */
    case AU_K_MATMUL: emit_fault(e, in, "an operation of CPUs"); return true;
    }
    return device->instruction(e, v);
}
