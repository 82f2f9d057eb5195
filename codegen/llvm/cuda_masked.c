/* cuda_masked.c - accesses of lanes under a mask: one predicated instruction, written as such, because a branch would cut the
 * text into blocks, over which neither LLVM nor ptxas orders loads and arithmetic well (LLVM's machine sinking moves whole
 * products behind a masked store, and what they have loaded stays in registers until then). */
#include "cuda.h"

#include <string.h>

/* A value is moved in pieces of 16 or 32 bits, up to four of them in an instruction. */
typedef struct Pieces {
    uint32_t count, bytes; /* of one */
    LLVMTypeRef type;
} Pieces;

static Pieces pieces_of(AuEmit *e, uint32_t bytes, uint32_t element, uint32_t align)
{
    const uint32_t piece = element == 1 ? 1 : align < 4 ? 2 : 4;
    LLVMTypeRef type = piece == 4 ? e->element[AU_I32]
                                  : LLVMInt16TypeInContext(e->context); /* a byte in 16 bits */
    return (Pieces){bytes / piece, piece, type};
}

/* Piece [n] of a value of [p->count] pieces. */
static LLVMValueRef piece_at(AuEmit *e, const Pieces *p, LLVMValueRef v, uint32_t n)
{
    LLVMTypeRef whole = p->bytes == 1 ? e->element[AU_U8] : p->type;
    if (p->count > 1) whole = LLVMVectorType(whole, p->count);
    v = LLVMBuildBitCast(e->builder, v, whole, "");
    if (p->count > 1) v = emit_at(e, v, n);
    return p->bytes == 1 ? LLVMBuildZExt(e->builder, v, p->type, "") : v;
}

static LLVMValueRef joined(AuEmit *e, const Pieces *p, LLVMValueRef *pieces, LLVMTypeRef type)
{
    LLVMTypeRef one = p->bytes == 1 ? e->element[AU_U8] : p->type;
    LLVMValueRef all = p->count > 1 ? LLVMGetPoison(LLVMVectorType(one, p->count)) : NULL;
    for (uint32_t n = 0; n < p->count; n++) {
        LLVMValueRef v = pieces[n];
        if (p->bytes == 1) v = LLVMBuildTrunc(e->builder, v, one, "");
        all = all ? emit_put(e, all, v, n) : v;
    }
    return LLVMBuildBitCast(e->builder, all, type, "");
}

/* ---- text */

static const char *width_text(uint32_t count, uint32_t bytes)
{
    static const char *const texts[3] = {".b32", ".v2.b32", ".v4.b32"};
    return bytes == 1 ? ".u8" : bytes == 2 ? ".b16" : texts[count / 2];
}

/* {$1, $2}, or $1 */
static void registers(AuText *text, uint32_t first, uint32_t count)
{
    au_text_add(text, count > 1 ? "{" : "");
    cuda_list(text, first, count);
    au_text_add(text, count > 1 ? "}" : "");
}

static LLVMValueRef offset_of(AuEmit *e, const GpuPlace *at, uint32_t bytes)
{
    return LLVMConstInt(e->i64, (unsigned long long)(at->offset + bytes), true);
}

/* A tensor that is only read comes through the read-only path. */
static const char *space_of(const GpuPlace *at)
{
    return at->space == AU_SHARED ? ".shared" : at->constant ? ".global.nc" : ".global";
}

/* ---- accesses */

/* [count] pieces from [bytes] on. Lanes without the mask keep what is in the registers, [others]. */
static void load_part(AuEmit *e, const GpuPlace *at, LLVMValueRef mask, const Pieces *p,
                      uint32_t first, uint32_t count, LLVMValueRef *others)
{
    CudaText a = cuda_text(e);
    for (uint32_t n = 0; n < count; n++) cuda_result(&a, p->bytes == 4 ? "=r" : "=h", p->type);
    const uint32_t when = cuda_take(&a, "b", mask), place = cuda_take(&a, "l", at->base);
    const uint32_t offset = cuda_take(&a, "n", offset_of(e, at, first * p->bytes));
    for (uint32_t n = 0; n < count; n++) cuda_take(&a, au_format(e->arena, "%u", n), others[n]);
    au_text_add(&a.text, "@$%u ld%s%s ", when, space_of(at), width_text(count, p->bytes));
    registers(&a.text, 0, count);
    au_text_add(&a.text, ", [$%u+$%u];", place, offset);
    LLVMValueRef v = cuda_build(&a, at->constant ? CUDA_NONE : CUDA_EFFECT);
    for (uint32_t n = 0; n < count; n++) others[n] = cuda_result_at(&a, v, n);
}

static void store_part(AuEmit *e, const GpuPlace *at, LLVMValueRef mask, const Pieces *p,
                       uint32_t first, uint32_t count, LLVMValueRef *values)
{
    CudaText a = cuda_text(e);
    const uint32_t when = cuda_take(&a, "b", mask), place = cuda_take(&a, "l", at->base);
    const uint32_t offset = cuda_take(&a, "n", offset_of(e, at, first * p->bytes));
    for (uint32_t n = 0; n < count; n++) cuda_take(&a, p->bytes == 4 ? "r" : "h", values[n]);
    au_text_add(&a.text, "@$%u st%s%s [$%u+$%u], ", when, space_of(at), width_text(count, p->bytes),
                place, offset);
    registers(&a.text, offset + 1, count);
    au_text_add(&a.text, ";");
    cuda_build(&a, CUDA_EFFECT);
}

/* Pieces of one instruction. */
static uint32_t together(const Pieces *p, uint32_t align)
{
    const uint32_t count = p->bytes == 4 ? align / 4 : 1;
    return count < 1 ? 1 : count > 4 ? 4 : count;
}

LLVMValueRef cuda_masked_load(AuEmit *e, const GpuPlace *at, LLVMValueRef mask, LLVMValueRef other,
                              uint32_t bytes, uint32_t element)
{
    const Pieces p = pieces_of(e, bytes, element, at->align);
    const uint32_t step = together(&p, at->align);
    LLVMValueRef *values = AU_NEW_ARRAY(e->arena, LLVMValueRef, p.count);
    for (uint32_t n = 0; n < p.count; n++) values[n] = piece_at(e, &p, other, n);
    for (uint32_t n = 0; n < p.count; n += step)
        load_part(e, at, mask, &p, n, step < p.count - n ? step : p.count - n, values + n);
    return joined(e, &p, values, LLVMTypeOf(other));
}

void cuda_masked_store(AuEmit *e, const GpuPlace *at, LLVMValueRef mask, LLVMValueRef v,
                       uint32_t bytes, uint32_t element)
{
    const Pieces p = pieces_of(e, bytes, element, at->align);
    const uint32_t step = together(&p, at->align);
    LLVMValueRef *values = AU_NEW_ARRAY(e->arena, LLVMValueRef, p.count);
    for (uint32_t n = 0; n < p.count; n++) values[n] = piece_at(e, &p, v, n);
    for (uint32_t n = 0; n < p.count; n += step)
        store_part(e, at, mask, &p, n, step < p.count - n ? step : p.count - n, values + n);
}

/* A sum in memory that nobody waits for: of one i32 or f32, or of 2 or 4 f32 (sm_90). */
void cuda_reduce(AuEmit *e, const GpuPlace *at, LLVMValueRef mask, LLVMValueRef v)
{
    CudaText a = cuda_text(e);
    const uint32_t count = emit_count(v);
    const bool is_float = count > 1 || LLVMTypeOf(v) == e->element[AU_F32];
    if (mask) au_text_add(&a.text, "@$%u ", cuda_take(&a, "b", mask));
    const uint32_t place = cuda_take(&a, "l", at->base),
                   offset = cuda_take(&a, "n", offset_of(e, at, 0));
    for (uint32_t n = 0; n < count; n++)
        cuda_take(&a, is_float ? "f" : "r", count > 1 ? emit_at(e, v, n) : v);
    au_text_add(&a.text, "red.relaxed.gpu%s.add%s.%s [$%u+$%u], ", space_of(at),
                count > 1 ? count == 2 ? ".v2" : ".v4" : "", is_float ? "f32" : "u32", place,
                offset);
    registers(&a.text, offset + 1, count);
    au_text_add(&a.text, ";");
    cuda_build(&a, CUDA_EFFECT);
}

/* cp.async of 4, 8 or 16 bytes, of which [valid] are read. */
void cuda_masked_copy(AuEmit *e, const GpuPlace *to, const GpuPlace *from, LLVMValueRef mask,
                      LLVMValueRef valid, uint32_t bytes)
{
    CudaText a = cuda_text(e);
    const uint32_t when = cuda_take(&a, "b", mask), place = cuda_take(&a, "l", to->base);
    const uint32_t offset = cuda_take(&a, "n", offset_of(e, to, 0));
    const uint32_t source = cuda_take(&a, "l", from->base),
                   on = cuda_take(&a, "n", offset_of(e, from, 0));
    const uint32_t size = cuda_take(&a, "r", valid);
    au_text_add(&a.text, "@$%u cp.async.%s.shared.global [$%u+$%u], [$%u+$%u], %u, $%u;", when,
                bytes == 16 ? "cg" : "ca", place, offset, source, on, bytes, size);
    cuda_build(&a, CUDA_EFFECT);
}
