/* wide.c - vectors of 16-bit elements that move as words, up to four at once, where their place is known to be aligned so. A value that came so
 * stays words until an element of it is asked for. Shared memory is seen twice: as elements, and as vectors of words at the same place
 * (SPV_KHR_workgroup_memory_explicit_layout); or, where devices have not that, as words alone, if all that a kernel does there moves by words: matrices
 * are loaded from words, too, in which their rows are then counted. */
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
    if (m->space == AU_SHARED && e->mems[mem.i].unit)
        return spirv_unit(e, mem, index, width) ? e->mems[mem.i].unit : 0;
    if (m->space == AU_SHARED) return e->mems[mem.i].wide && aligned >= 4 && words % 4 == 0 ? 4 : 0;
    if (m->space != AU_GLOBAL) return 0;
    while (chunk > 1 && (chunk > aligned || words % chunk)) chunk /= 2;
    return chunk <= aligned ? chunk : 0;
}

SpvId spirv_unit_type(SpvModule *m, uint32_t chunk)
{
    const SpvId word = spirv_scalar(m, AU_I32);
    return chunk == 1 ? word : spirv_type(m, SPV_TypeVector, SPV_WORDS(word, chunk));
}

uint32_t spirv_unit(const SpvEmit *e, AuMem mem, AuVal index, int64_t width)
{
    const AuMemory *m = &e->k->mems[mem.i];
    const uint32_t aligned = spirv_alignment(e, mem, index) / WORD;
    const bool words = e->flavour->wide && !e->flavour->laid_out && m->space == AU_SHARED &&
                       kernel_scalar_bytes(m->scalar) == 2;
    for (uint32_t unit = 4; words && unit; unit /= 4)
        if (aligned >= unit && width % (2 * (int64_t)unit) == 0 && m->count % (2 * unit) == 0)
            return unit;
    return 0;
}

/* Of words at the index, plus [ahead] of them, which units divide. */
static SpvId unit_behind(SpvEmit *e, AuVal index, uint32_t ahead, uint32_t unit)
{
    SpvModule *m = e->m;
    const SpvId word = spirv_scalar(m, AU_I32);
    SpvId at = spirv_value(e, index, 0);
    if (kernel_at(e->k, index)->type.scalar == AU_I64) at = spirv_make1(m, SPV_UConvert, word, at);
    at = spirv_make2(m, SPV_ShiftRightLogical, word, at, spirv_u32(m, unit == 4 ? 3 : 1));
    return ahead ? spirv_make2(m, SPV_IAdd, word, at, spirv_u32(m, ahead / unit)) : at;
}

SpvId spirv_unit_at(SpvEmit *e, AuMem mem, AuVal index)
{
    const SpvPlace *place = &e->mems[mem.i];
    return spirv_make2(e->m, SPV_AccessChain, place->pointer, place->base,
                       unit_behind(e, index, 0, place->unit));
}

/* A pointer to the word that an element is half of, and by how many bits that is shifted there. */
static SpvId word_of(SpvEmit *e, AuMem mem, SpvId at, SpvId *shift)
{
    SpvModule *m = e->m;
    const SpvPlace *place = &e->mems[mem.i];
    const SpvId type = spirv_scalar(m, AU_I32), pointer = spirv_pointer(m, SPV_IN_Workgroup, type);
    const SpvId high = spirv_make2(m, SPV_BitwiseAnd, type, at, spirv_u32(m, 1));
    const SpvId word = spirv_make2(m, SPV_ShiftRightLogical, type, at, spirv_u32(m, 1));
    *shift = spirv_make2(m, SPV_ShiftLeftLogical, type, high, spirv_u32(m, 4));
    if (place->unit == 1) return spirv_make2(m, SPV_AccessChain, pointer, place->base, word);
    const SpvId vector = spirv_make2(m, SPV_ShiftRightLogical, type, word, spirv_u32(m, 2));
    const SpvId part = spirv_make2(m, SPV_BitwiseAnd, type, word, spirv_u32(m, 3));
    return spirv_make(m, SPV_AccessChain, pointer, SPV_WORDS(place->base, vector, part));
}

SpvId spirv_unit_get(SpvEmit *e, AuMem mem, SpvId at)
{
    SpvModule *m = e->m;
    const SpvId type = spirv_scalar(m, AU_I32);
    SpvId shift;
    const SpvId pointer = word_of(e, mem, at, &shift);
    const SpvId word = spirv_make(m, SPV_Load, type, SPV_WORDS(pointer, e->flavour->seen));
    return spirv_make2(m, SPV_BitwiseAnd, type,
                       spirv_make2(m, SPV_ShiftRightLogical, type, word, shift),
                       spirv_u32(m, 0xffff));
}

/* Another lane may store the other half meanwhile; nobody reads this one before they meet. */
void spirv_unit_put(SpvEmit *e, AuMem mem, SpvId at, SpvId bits)
{
    SpvModule *m = e->m;
    const SpvId type = spirv_scalar(m, AU_I32), none = spirv_u32(m, 0);
    const SpvId scope = spirv_u32(m, SPV_SCOPE_WORKGROUP);
    SpvId shift;
    const SpvId pointer = word_of(e, mem, at, &shift);
    const SpvId own = spirv_make2(m, SPV_ShiftLeftLogical, type, spirv_u32(m, 0xffff), shift);
    const SpvId others = spirv_make1(m, SPV_Not, type, own);
    spirv_make(m, SPV_AtomicAnd, type, SPV_WORDS(pointer, scope, none, others));
    spirv_make(
        m, SPV_AtomicOr, type,
        SPV_WORDS(pointer, scope, none, spirv_make2(m, SPV_ShiftLeftLogical, type, bits, shift)));
}

/* A pointer to the chunk [ahead] words behind the index, and its Memory Operands. */
static SpvId chunk_at(SpvEmit *e, AuMem mem, AuVal index, uint32_t ahead, uint32_t chunk,
                      uint32_t kind[2], uint32_t *kinds)
{
    SpvModule *m = e->m;
    const SpvId type = spirv_unit_type(m, chunk);
    const SpvPlace *place = &e->mems[mem.i];
    if (e->k->mems[mem.i].space == AU_GLOBAL) {
        const SpvId address = spirv_far_address(e, mem, index, (uint64_t)ahead * 2);
        kind[0] =
            ALIGNED | (e->k->mems[mem.i].reads && e->k->mems[mem.i].writes ? e->flavour->seen : 0);
        kind[1] = chunk * WORD, *kinds = 2;
        return spirv_make1(m, SPV_ConvertUToPtr, spirv_pointer(m, e->flavour->far, type), address);
    }
    const SpvId at = unit_behind(e, index, ahead, chunk);
    kind[0] = e->flavour->seen, *kinds = 1;
    if (place->unit) return spirv_make2(m, SPV_AccessChain, place->pointer, place->base, at);
    return spirv_make(m, SPV_AccessChain, spirv_pointer(m, SPV_IN_Workgroup, type),
                      SPV_WORDS(place->wide, spirv_u32(m, 0), at));
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
        const SpvId all = spirv_make(m, SPV_Load, spirv_unit_type(m, chunk), operands, 1 + kinds);
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
                                     : spirv_make(m, SPV_CompositeConstruct,
                                                  spirv_unit_type(m, chunk), words + n, chunk);
        const uint32_t operands[] = {at, all, kind[0], kind[1]};
        spirv_do(m, SPV_Store, operands, 2 + kinds);
    }
    if (end) spirv_close_mask(e, end);
    return true;
}
