/* wide.c - vectors of 16-bit elements that move as words, up to four at once, where their place is known to be aligned so. A value that came so
 * stays words until an element of it is asked for. Shared memory is seen twice: as elements, and as vectors of words at the same place
 * (SPV_KHR_workgroup_memory_explicit_layout). */
#include "emit.h"

enum { ALIGNED = 2, WORD = 4 }; /* Memory Operands; bytes */

uint32_t spirv_alignment(const SpvEmit *e, AuMem mem, AuVal index)
{
    if (!e->flavour->wide) return kernel_scalar_bytes(e->k->mems[mem.i].scalar);
    return kernel_alignment(e->k, mem, index, NULL, NULL);
}

/* ---- words */

/* How many words go at once; 0: elements do. */
static uint32_t chunk_of(const SpvEmit *e, AuMem mem, AuVal index, uint32_t width)
{
    const AuMemory *m = &e->k->mems[mem.i];
    const uint32_t words = width / 2, aligned = spirv_alignment(e, mem, index) / WORD;
    uint32_t chunk = 4;
    if (!e->flavour->wide || kernel_scalar_bytes(m->scalar) != 2 || width % 2) return 0;
    if (m->space == AU_SHARED) return e->mems[mem.i].wide && aligned >= 4 && words % 4 == 0 ? 4 : 0;
    if (m->space != AU_GLOBAL) return 0;
    while (chunk > 1 && (chunk > aligned || words % chunk)) chunk /= 2;
    return chunk <= aligned ? chunk : 0;
}

static SpvId chunk_type(SpvModule *m, uint32_t chunk)
{
    const SpvId word = spirv_scalar(m, AU_I32);
    return chunk == 1 ? word : spirv_type(m, SPV_TypeVector, SPV_WORDS(word, chunk));
}

/* A pointer to the chunk [ahead] words behind the index, and its Memory Operands. */
static SpvId chunk_at(SpvEmit *e, AuMem mem, AuVal index, uint32_t ahead, uint32_t chunk,
                      uint32_t kind[2], uint32_t *kinds)
{
    SpvModule *m = e->m;
    const SpvId word = spirv_scalar(m, AU_I32), type = chunk_type(m, chunk);
    if (e->k->mems[mem.i].space == AU_GLOBAL) {
        const SpvId address = spirv_far_address(e, mem, index, (uint64_t)ahead * 2);
        kind[0] =
            ALIGNED | (e->k->mems[mem.i].reads && e->k->mems[mem.i].writes ? e->flavour->seen : 0);
        kind[1] = chunk * WORD, *kinds = 2;
        return spirv_make1(m, SPV_ConvertUToPtr, spirv_pointer(m, e->flavour->far, type), address);
    }
    SpvId at = spirv_value(e, index, 0);
    if (kernel_at(e->k, index)->type.scalar == AU_I64) at = spirv_make1(m, SPV_UConvert, word, at);
    at = spirv_make2(m, SPV_ShiftRightLogical, word, at, spirv_u32(m, 3));
    if (ahead) at = spirv_make2(m, SPV_IAdd, word, at, spirv_u32(m, ahead / 4));
    kind[0] = e->flavour->seen, *kinds = 1;
    return spirv_make(m, SPV_AccessChain, spirv_pointer(m, SPV_IN_Workgroup, type),
                      SPV_WORDS(e->mems[mem.i].wide, spirv_u32(m, 0), at));
}

static SpvId packed(SpvEmit *e, AuVal v, uint32_t word)
{
    SpvModule *m = e->m;
    const SpvId type = spirv_scalar(m, AU_I32);
    if (e->words[v.i]) return spirv_seen(e, e->words[v.i][word], type);
    const SpvId high = spirv_make2(m, SPV_ShiftLeftLogical, type, spirv_value(e, v, 2 * word + 1),
                                   spirv_u32(m, 16));
    return spirv_make2(m, SPV_BitwiseOr, type, spirv_value(e, v, 2 * word), high);
}

SpvId spirv_unpacked(SpvEmit *e, AuVal v, uint32_t element)
{
    SpvModule *m = e->m;
    const SpvId type = spirv_scalar(m, AU_I32);
    const SpvId word = spirv_seen(e, e->words[v.i][element / 2], type);
    return element % 2 ? spirv_make2(m, SPV_ShiftRightLogical, type, word, spirv_u32(m, 16))
                       : spirv_make2(m, SPV_BitwiseAnd, type, word, spirv_u32(m, 0xffff));
}

/* ---- moves */

bool spirv_wide_load(SpvEmit *e, AuVal v)
{
    enum { LEAST_WITH_OTHER = 3 };
    SpvModule *m = e->m;
    const AuInstr *in = kernel_at(e->k, v);
    const AuVal index = kernel_operand(e->k, in, 0);
    const uint32_t chunk = chunk_of(e, in->mem, index, in->type.width), count = in->type.width / 2;
    const SpvId word = spirv_scalar(m, AU_I32);
    SpvId before = 0, end = 0, *words = AU_NEW_ARRAY(m->arena, SpvId, count + 1);
    SpvId other[8] = {0};
    if (!chunk || e->element) return false;
    const bool masked = in->count > 1;
    for (uint32_t n = 0; n < count && masked; n++)
        other[n] = in->count >= LEAST_WITH_OTHER ? packed(e, kernel_operand(e->k, in, 2), n)
                                                 : spirv_u32(m, 0);
    if (masked) end = spirv_open_mask(e, spirv_operand(e, in, 1, 0), &before);
    for (uint32_t n = 0; n < count; n += chunk) {
        uint32_t kind[2], kinds;
        const SpvId at = chunk_at(e, in->mem, index, n, chunk, kind, &kinds);
        const uint32_t operands[] = {at, kind[0], kind[1]};
        const SpvId all = spirv_make(m, SPV_Load, chunk_type(m, chunk), operands, 1 + kinds);
        for (uint32_t i = 0; i < chunk; i++)
            words[n + i] =
                chunk == 1 ? all : spirv_make(m, SPV_CompositeExtract, word, SPV_WORDS(all, i));
    }
    const SpvId inside = m->f->label;
    if (end) spirv_close_mask(e, end);
    for (uint32_t n = 0; n < count && end; n++)
        words[n] = spirv_make(m, SPV_Phi, word, SPV_WORDS(words[n], inside, other[n], before));
    e->words[v.i] = words;
    return true;
}

bool spirv_wide_store(SpvEmit *e, const AuInstr *in)
{
    SpvModule *m = e->m;
    const AuVal index = kernel_operand(e->k, in, 0), value = kernel_operand(e->k, in, 1);
    const uint32_t width = kernel_at(e->k, value)->type.width, count = width / 2;
    const uint32_t chunk = chunk_of(e, in->mem, index, width);
    SpvId words[8], before, end = 0;
    if (!chunk) return false;
    for (uint32_t n = 0; n < count; n++) words[n] = packed(e, value, n);
    if (in->count > 2) end = spirv_open_mask(e, spirv_operand(e, in, 2, 0), &before);
    for (uint32_t n = 0; n < count; n += chunk) {
        uint32_t kind[2], kinds;
        const SpvId at = chunk_at(e, in->mem, index, n, chunk, kind, &kinds);
        const SpvId all = chunk == 1 ? words[n]
                                     : spirv_make(m, SPV_CompositeConstruct, chunk_type(m, chunk),
                                                  words + n, chunk);
        const uint32_t operands[] = {at, all, kind[0], kind[1]};
        spirv_do(m, SPV_Store, operands, 2 + kinds);
    }
    if (end) spirv_close_mask(e, end);
    return true;
}
