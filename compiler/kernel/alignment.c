/* alignment.c - how a place in memory is certainly aligned: by what its memory promises, and by the low bits of the index that are zero
 * whatever its parts are. */
#include "internal.h"

enum { DEEPEST = 12, MOST_ALIGNED = 16 };

typedef struct Zeros {
    const AuKernel *k;
    AuNumberOf *known; /* NULL: constants of the kernel alone */
    const void *user;
} Zeros;

static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }
static uint32_t most(uint32_t a, uint32_t b) { return a > b ? a : b; }

static bool constant_of(const Zeros *z, AuVal v, int64_t *value)
{
    const AuInstr *in = kernel_at(z->k, v);
    if (z->known) return z->known(z->user, v, value);
    *value = in->imm;
    return in->op == AU_K_CONST;
}

static uint32_t zeros_of_constant(int64_t value)
{
    return value ? (uint32_t)__builtin_ctzll((uint64_t)value) : 63;
}

/* How many low bits of a value are certainly 0. */
static uint32_t zeros(const Zeros *z, AuVal v, uint32_t depth)
{
    const AuInstr *in = kernel_at(z->k, v);
    int64_t value;
    if (constant_of(z, v, &value)) return zeros_of_constant(value);
    if (!depth || !in->count) return 0;
    const AuVal a = kernel_operand(z->k, in, 0);
    const AuVal b = in->count > 1 ? kernel_operand(z->k, in, 1) : a;
    switch ((int)in->op) {
    case AU_K_ADD:
    case AU_K_SUB:
    case AU_K_OR:
    case AU_K_XOR:
    case AU_K_MIN:
    case AU_K_MAX: return least(zeros(z, a, depth - 1), zeros(z, b, depth - 1));
    case AU_K_AND: return most(zeros(z, a, depth - 1), zeros(z, b, depth - 1));
    case AU_K_MUL: return zeros(z, a, depth - 1) + zeros(z, b, depth - 1);
    case AU_K_SHL:
        return constant_of(z, b, &value) ? zeros(z, a, depth - 1) + (uint32_t)(value & 31) : 0;
    case AU_K_NEG:
    case AU_K_CVT: return zeros(z, a, depth - 1);
    case AU_K_SELECT:
        return least(zeros(z, b, depth - 1), zeros(z, kernel_operand(z->k, in, 2), depth - 1));
    case AU_K_FOR: return least(zeros(z, a, depth - 1), zeros_of_constant(in->imm));
    }
    return 0;
}

uint32_t kernel_alignment(const AuKernel *k, AuMem mem, AuVal index, AuNumberOf *known,
                          const void *user)
{
    const Zeros z = {k, known, user};
    const AuMemory *m = &k->mems[mem.i];
    const uint32_t element = kernel_scalar_bytes(m->scalar);
    const uint32_t base = m->space == AU_GLOBAL ? most(m->align, element) : MOST_ALIGNED;
    const uint32_t by_index = element << least(zeros(&z, index, DEEPEST), 8);
    return least(MOST_ALIGNED, least(base, by_index));
}
