/* cuda_bulk.c - copies by the unit of its own: boxes of tensors as maps have them, and rows of bytes. Each is one predicated
 * instruction. Maps are the kernel's second parameter, 128 bytes each, which the launch fills and nobody writes. */
#include "cuda.h"

enum { MAP_BYTES = 128, ONLY_READ = 16 };

static LLVMValueRef operand(AuEmit *e, const AuInstr *in, uint32_t n)
{
    return emit_base(e, kernel_operand(e->k, in, n));
}

/* ---- boxes */

static LLVMValueRef map_at(AuEmit *e, int64_t map)
{
    LLVMValueRef maps = LLVMGetParam(e->function, e->k->arg_count ? 1 : 0);
    LLVMValueRef at = LLVMConstInt(e->i64, (unsigned long long)map * MAP_BYTES, false);
    return emit_step(e, e->element[AU_U8], maps, at);
}

/* [map, {x, y}], coordinates from operand [first] on */
static void take_box(CudaText *t, const AuInstr *in, uint32_t first)
{
    AuEmit *e = t->e;
    const uint32_t rank = kernel_coordinates(&e->k->maps[in->imm]);
    au_text_add(&t->text, "[$%u, {", cuda_take(t, "l", map_at(e, in->imm)));
    for (uint32_t d = 0; d < rank; d++)
        au_text_add(&t->text, "%s$%u", d ? ", " : "", cuda_take(t, "r", operand(e, in, first + d)));
    au_text_add(&t->text, "}]");
}

static void load_box(AuEmit *e, const AuInstr *in)
{
    const uint32_t rank = kernel_coordinates(&e->k->maps[in->imm]);
    CudaText t = cuda_text(e);
    cuda_when(&t, operand(e, in, in->count - 1u));
    au_text_add(
        &t.text,
        "cp.async.bulk.tensor.%ud.shared::cluster.global.tile.mbarrier::complete_tx::bytes ", rank);
    cuda_at(&t, cuda_shared(e, in->mem, kernel_operand(e->k, in, 0)));
    au_text_add(&t.text, ", ");
    take_box(&t, in, 1);
    au_text_add(&t.text, ", ");
    cuda_at(&t, cuda_shared(e, in->also[1], kernel_operand(e->k, in, 1 + rank)));
    au_text_add(&t.text, ";");
    cuda_build(&t, CUDA_EFFECT);
}

static void store_box(AuEmit *e, const AuInstr *in)
{
    const uint32_t rank = kernel_coordinates(&e->k->maps[in->imm]);
    const bool adds = in->op == AU_K_TMA_REDUCE_ADD;
    CudaText t = cuda_text(e);
    cuda_when(&t, operand(e, in, in->count - 1u));
    au_text_add(&t.text, "cp%s.async.bulk.tensor.%ud.global.shared::cta%s.tile.bulk_group ",
                adds ? ".reduce" : "", rank, adds ? ".add" : "");
    take_box(&t, in, 0);
    au_text_add(&t.text, ", ");
    cuda_at(&t, cuda_shared(e, in->also[0], kernel_operand(e->k, in, rank)));
    au_text_add(&t.text, ";");
    cuda_build(&t, CUDA_EFFECT);
}

/* ---- rows of bytes */

static void load_bytes(AuEmit *e, const AuInstr *in)
{
    CudaText t = cuda_text(e);
    cuda_when(&t, in->count > 4 ? operand(e, in, 4) : NULL);
    au_text_add(&t.text, "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes ");
    cuda_at(&t, cuda_shared(e, in->mem, kernel_operand(e->k, in, 0)));
    LLVMValueRef from = gpu_address(e, in->also[0], kernel_operand(e->k, in, 1));
    au_text_add(&t.text, ", [$%u], ", cuda_take(&t, "l", from));
    au_text_add(&t.text, "$%u, ", cuda_take(&t, "r", operand(e, in, 3)));
    cuda_at(&t, cuda_shared(e, in->also[1], kernel_operand(e->k, in, 2)));
    au_text_add(&t.text, ";");
    cuda_build(&t, CUDA_EFFECT);
}

static const char *sum_of(AuScalar scalar)
{
    return scalar == AU_F32 ? ".add.f32" : scalar == AU_F16 ? ".add.noftz.f16" : ".add.noftz.bf16";
}

static void store_bytes(AuEmit *e, const AuInstr *in)
{
    const bool adds = in->op == AU_K_BULK_REDUCE_ADD;
    CudaText t = cuda_text(e);
    cuda_when(&t, in->count > 3 ? operand(e, in, 3) : NULL);
    au_text_add(&t.text, "cp%s.async.bulk.global.shared::cta.bulk_group%s ", adds ? ".reduce" : "",
                adds ? sum_of(e->k->mems[in->mem.i].scalar) : "");
    LLVMValueRef to = gpu_address(e, in->mem, kernel_operand(e->k, in, 0));
    au_text_add(&t.text, "[$%u], ", cuda_take(&t, "l", to));
    cuda_at(&t, cuda_shared(e, in->also[0], kernel_operand(e->k, in, 1)));
    au_text_add(&t.text, ", $%u;", cuda_take(&t, "r", operand(e, in, 2)));
    cuda_build(&t, CUDA_EFFECT);
}

/* ---- groups of copies out of shared memory */

static void end_group(AuEmit *e, const AuInstr *in)
{
    CudaText t = cuda_text(e);
    if (in->op == AU_K_BULK_COMMIT)
        au_text_add(&t.text, "cp.async.bulk.commit_group;");
    else
        au_text_add(&t.text, "cp.async.bulk.wait_group%s %d;", in->imm & ONLY_READ ? ".read" : "",
                    (int)(in->imm & ~(int64_t)ONLY_READ));
    cuda_build(&t, CUDA_EFFECT);
}

bool cuda_bulk(AuEmit *e, AuVal v)
{
    const AuInstr *in = kernel_at(e->k, v);
    void (*emit)(AuEmit *, const AuInstr *) = NULL;
    switch ((int)in->op) {
    case AU_K_TMA_LOAD: emit = load_box; break;
    case AU_K_TMA_STORE:
    case AU_K_TMA_REDUCE_ADD: emit = store_box; break;
    case AU_K_BULK_LOAD: emit = load_bytes; break;
    case AU_K_BULK_STORE:
    case AU_K_BULK_REDUCE_ADD: emit = store_bytes; break;
    case AU_K_BULK_COMMIT:
    case AU_K_BULK_WAIT: emit = end_group; break;
    default: return false;
    }
    if (cuda_host(e)->capability < 90)
        emit_fault(e, in, "copies by a unit of their own need sm_90");
    else
        emit(e, in);
    return true;
}
