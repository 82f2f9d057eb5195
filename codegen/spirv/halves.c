/* halves.c - elements of 16 bits that lie in pairs in registers: arrays of a lane whose elements come as the words of vectors and go as such. Two
 * neighbours of a vector share a variable of 32 bits, so that what is only carried is never taken apart. [flavour->wide] */
#include "emit.h"

enum { NEAR = 4 }; /* instructions from one store of a pair to the other */

/* ---- which elements are pairs */

static bool is_element(const AuKernel *k, AuVal v, AuVal *of, int64_t *which)
{
    const AuInstr *in = kernel_at(k, v);
    if (in->op != AU_K_ELEMENT) return false;
    *of = kernel_operand(k, in, 0), *which = in->imm;
    return true;
}

static bool stores_to(const AuInstr *in, AuMem mem)
{
    return in->op == AU_K_STORE && in->mem.i == mem.i && in->count == 2;
}

/* The index to which the neighbour of this store's element goes, next to it; -1: none. */
static int64_t neighbour(const AuKernel *k, const AuInstr *in, AuMem mem)
{
    AuVal of, other;
    int64_t which, next;
    if (!is_element(k, kernel_operand(k, in, 1), &of, &which) || which % 2) return -1;
    uint32_t i = in->next;
    for (uint32_t n = 0; n < NEAR && i; n++, i = k->instrs[i].next) {
        const AuInstr *at = &k->instrs[i];
        if (at->op == AU_K_LOAD && at->mem.i == mem.i) return -1;
        if (stores_to(at, mem) && is_element(k, kernel_operand(k, at, 1), &other, &next) &&
            other.i == of.i && next == which + 1)
            return kernel_at(k, kernel_operand(k, at, 0))->imm;
    }
    return -1;
}

static bool pair(int32_t *partner, int64_t low, int64_t high)
{
    if ((partner[low] && partner[low] != high + 1) || (partner[high] && partner[high] != -low - 1))
        return false;
    partner[low] = (int32_t)high + 1, partner[high] = -(int32_t)low - 1;
    return true;
}

static bool find_pairs(const AuKernel *k, uint32_t first, AuMem mem, int32_t *partner)
{
    bool good = true;
    for (uint32_t i = first; i && good; i = k->instrs[i].next) {
        const AuInstr *in = &k->instrs[i];
        if (in->mem.i == mem.i &&
            (in->op == AU_K_LOAD ? in->type.width != 1 || in->count > 1 : !stores_to(in, mem)))
            return false;
        if (stores_to(in, mem)) {
            const int64_t low = kernel_at(k, kernel_operand(k, in, 0))->imm;
            const int64_t high = neighbour(k, in, mem);
            good = kernel_at(k, kernel_operand(k, in, 1))->type.width == 1 &&
                   (high < 0 || pair(partner, low, high));
        }
        good =
            good && find_pairs(k, in->body, mem, partner) && find_pairs(k, in->other, mem, partner);
    }
    return good;
}

void spirv_find_pairs(SpvEmit *e, AuMem mem)
{
    SpvPlace *place = &e->mems[mem.i];
    const AuMemory *m = &e->k->mems[mem.i];
    if (!e->flavour->wide || !place->split || kernel_scalar_bytes(m->scalar) != 2) return;
    int32_t *partner = AU_NEW_ARRAY(e->m->arena, int32_t, m->count);
    if (!find_pairs(e->k, e->k->body, mem, partner)) return;
    for (uint32_t n = 0; n < m->count; n++)
        if (!partner[n]) return;
    place->partner = partner;
}

/* ---- elements */

static SpvId word_of(SpvEmit *e, SpvPlace *place, uint32_t n)
{
    const uint32_t low = place->partner[n] > 0 ? n : (uint32_t)(-place->partner[n] - 1);
    if (!place->elements[low])
        place->elements[low] = spirv_variable(e->m, spirv_scalar(e->m, AU_I32));
    return place->elements[low];
}

bool spirv_load_half(SpvEmit *e, AuVal v)
{
    const AuInstr *in = kernel_at(e->k, v);
    SpvPlace *place = &e->mems[in->mem.i];
    if (!place->partner) return false;
    const uint32_t n = (uint32_t)kernel_at(e->k, kernel_operand(e->k, in, 0))->imm;
    const SpvId at = word_of(e, place, n);
    e->halves[v.i] = (SpvHalf){.word = spirv_make1(e->m, SPV_Load, spirv_scalar(e->m, AU_I32), at),
                               .high = place->partner[n] < 0,
                               .from = at,
                               .block = e->m->f->label,
                               .stores = e->stores};
    return true;
}

bool spirv_store_half(SpvEmit *e, const AuInstr *in)
{
    SpvModule *m = e->m;
    SpvPlace *place = &e->mems[in->mem.i];
    if (!place->partner) return false;
    const uint32_t n = (uint32_t)kernel_at(e->k, kernel_operand(e->k, in, 0))->imm;
    const AuVal value = kernel_operand(e->k, in, 1);
    const SpvHalf *half = &e->halves[value.i];
    const bool high = place->partner[n] < 0;
    const SpvId at = word_of(e, place, n), type = spirv_scalar(m, AU_I32);
    SpvId word = half->word;
    e->stores++;
    if (word && !half->high && !high && neighbour(e->k, in, in->mem) >= 0) {
        /* what is above comes next, and is there already */
        spirv_do(m, SPV_Store, SPV_WORDS(at, word));
        e->last = (SpvHalf){.word = word, .from = at, .block = m->f->label};
        return true;
    }
    if (word && half->high && high && e->last.word == word && e->last.from == at &&
        e->last.block == m->f->label)
        return true;
    const SpvId old = spirv_make1(m, SPV_Load, type, at), x = spirv_value(e, value, 0);
    const SpvId kept =
        spirv_make2(m, SPV_BitwiseAnd, type, old, spirv_u32(m, high ? 0xffff : 0xffff0000));
    word = high ? spirv_make2(m, SPV_ShiftLeftLogical, type, x, spirv_u32(m, 16)) : x;
    word = spirv_make2(m, SPV_BitwiseOr, type, kept, word);
    spirv_do(m, SPV_Store, SPV_WORDS(at, word));
    return true;
}

/* Elements of vectors that came as words, and vectors of such elements, stay words. */
bool spirv_keeps_half(SpvEmit *e, AuVal v)
{
    const AuInstr *in = kernel_at(e->k, v);
    if (!e->flavour->wide || kernel_scalar_bytes((AuScalar)in->type.scalar) != 2) return false;
    if (in->op == AU_K_ELEMENT) {
        const SpvId *words = e->words[kernel_operand(e->k, in, 0).i];
        if (words) e->halves[v.i] = (SpvHalf){.word = words[in->imm / 2], .high = in->imm % 2};
        return words != NULL;
    }
    if (in->op != AU_K_VEC || in->type.width % 2) return false;
    SpvId *words = AU_NEW_ARRAY(e->m->arena, SpvId, in->type.width / 2);
    for (uint32_t n = 0; n < in->type.width / 2u; n++) {
        const SpvHalf *low = &e->halves[kernel_operand(e->k, in, 2 * n).i],
                      *high = &e->halves[kernel_operand(e->k, in, 2 * n + 1).i];
        const bool same =
            low->word == high->word || (low->from && low->from == high->from &&
                                        low->block == high->block && low->stores == high->stores);
        if (!low->word || !high->word || low->high || !high->high || !same) return false;
        words[n] = low->word;
    }
    e->words[v.i] = words;
    return true;
}

SpvId spirv_of_half(SpvEmit *e, AuVal v)
{
    const SpvHalf *half = &e->halves[v.i];
    const SpvId type = spirv_scalar(e->m, AU_I32), word = spirv_seen(e, half->word, type);
    return half->high ? spirv_make2(e->m, SPV_ShiftRightLogical, type, word, spirv_u32(e->m, 16))
                      : spirv_make2(e->m, SPV_BitwiseAnd, type, word, spirv_u32(e->m, 0xffff));
}
