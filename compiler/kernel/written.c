/* written.c - which loops over arrays of lanes a device's generator writes out, where not all can be. Registers have no indices, so an
 * array becomes registers if every loop that indexes it is written out; what is left stays in memory, and its loops
 * stay loops. The arrays that are used most for their size are taken, as long as what is written out is bearable. */
#include "internal.h"

#include <string.h>

enum {
    MANY = 16, /* turns of a loop whose bounds are not known */
};

typedef struct Written {
    const AuKernel *k;
    uint8_t *chosen; /* by memory: 0: not; 1: its loops are written out */
    double *uses;    /* by memory: how often it is accessed */
    uint8_t *marks;  /* by value: depends on the loop at hand */
    bool *loops;     /* by instruction */
    uint32_t
        *fixed; /* by memory: accesses whose index depends on a loop that cannot be written out */
} Written;

uint64_t kernel_turns(const AuKernel *k, const AuInstr *in)
{
    if (in->op != AU_K_FOR) return 0;
    const AuInstr *low = kernel_at(k, kernel_operand(k, in, 0)),
                  *high = kernel_at(k, kernel_operand(k, in, 1));
    if (low->op != AU_K_CONST || high->op != AU_K_CONST) return 0;
    const int64_t span = in->imm > 0 ? high->imm - low->imm : low->imm - high->imm;
    const int64_t size = in->imm > 0 ? in->imm : -in->imm;
    return span > 0 ? (uint64_t)((span + size - 1) / size) : 0;
}

/* The array of lanes that the instruction accesses, or 0. */
static uint32_t array_of(const Written *w, const AuInstr *in)
{
    if (!(kernel_op_info((AuKOp)in->op)->flags & AU_KF_MEM)) return 0;
    const AuMemory *m = &w->k->mems[in->mem.i];
    return m->space == AU_LANE && m->count > 1 ? in->mem.i : 0;
}

static void count_uses(Written *w, uint32_t first, double times)
{
    for (uint32_t i = first; i; i = w->k->instrs[i].next) {
        const AuInstr *in = &w->k->instrs[i];
        const uint64_t turns = kernel_turns(w->k, in);
        const double inside = in->op != AU_K_FOR ? times : times * (double)(turns ? turns : MANY);
        w->uses[array_of(w, in)] += times;
        count_uses(w, in->body, inside);
        count_uses(w, in->other, inside);
    }
}

/* Marks what depends on the loop's variable; is a chosen array indexed by it? [found], unless NULL, counts all arrays' accesses. */
static bool indexes(Written *w, uint32_t first, uint32_t *found)
{
    bool some = false;
    for (uint32_t i = first; i; i = w->k->instrs[i].next) {
        const AuInstr *in = &w->k->instrs[i];
        const uint32_t array = array_of(w, in);
        w->marks[i] = 0;
        for (uint32_t n = 0; n < in->count; n++)
            w->marks[i] |= w->marks[kernel_operand(w->k, in, n).i];
        if (array && w->marks[kernel_operand(w->k, in, 0).i]) {
            some |= w->chosen[array];
            if (found) found[array]++;
        }
        some |= indexes(w, in->body, found);
        some |= indexes(w, in->other, found);
    }
    return some;
}

static void begin_marks(Written *w, uint32_t loop)
{
    memset(w->marks, 0, w->k->instr_count);
    w->marks[loop] = 1;
}

static void find_fixed(Written *w)
{
    for (uint32_t i = 1; i < w->k->instr_count; i++) {
        const AuInstr *in = &w->k->instrs[i];
        if (in->op != AU_K_FOR || kernel_turns(w->k, in)) continue;
        begin_marks(w, i);
        indexes(w, in->body, w->fixed);
    }
}

static void decide_loops(Written *w)
{
    for (uint32_t i = 1; i < w->k->instr_count; i++) {
        const AuInstr *in = &w->k->instrs[i];
        w->loops[i] = false;
        if (in->op != AU_K_FOR || !kernel_turns(w->k, in)) continue;
        begin_marks(w, i);
        w->loops[i] = in->unroll == AU_UNROLL_FULL || indexes(w, in->body, NULL);
    }
}

uint64_t kernel_written_size(const AuKernel *k, uint32_t first, const bool *loops)
{
    uint64_t size = 0;
    for (uint32_t i = first; i; i = k->instrs[i].next) {
        const AuInstr *in = &k->instrs[i];
        const uint64_t body =
            kernel_written_size(k, in->body, loops) + kernel_written_size(k, in->other, loops);
        size += 1 + (loops[i] ? kernel_turns(k, in) : 1) * body;
    }
    return size;
}

/* Of those not tried yet the one that is used most for its size; 0: none. */
static uint32_t next_array(const Written *w, const bool *tried)
{
    uint32_t best = 0;
    double most = 0;
    for (uint32_t m = 1; m < w->k->mem_count; m++) {
        const double each = w->uses[m] / (w->k->mems[m].count ? w->k->mems[m].count : 1);
        if (tried[m] || w->fixed[m] || each <= most) continue;
        best = m, most = each;
    }
    return best;
}

bool *kernel_indexing(const AuKernel *k, AuArena *arena)
{
    Written w = {.k = k,
                 .chosen = AU_NEW_ARRAY(arena, uint8_t, k->mem_count),
                 .marks = AU_NEW_ARRAY(arena, uint8_t, k->instr_count),
                 .loops = AU_NEW_ARRAY(arena, bool, k->instr_count)};
    memset(w.chosen, 1, k->mem_count);
    for (uint32_t i = 1; i < k->instr_count; i++) {
        if (k->instrs[i].op != AU_K_FOR) continue;
        begin_marks(&w, i);
        w.loops[i] = indexes(&w, k->instrs[i].body, NULL);
    }
    return w.loops;
}

bool *kernel_written(const AuKernel *k, AuArena *arena, uint32_t most_words)
{
    Written w = {.k = k,
                 .chosen = AU_NEW_ARRAY(arena, uint8_t, k->mem_count),
                 .uses = AU_NEW_ARRAY(arena, double, k->mem_count),
                 .marks = AU_NEW_ARRAY(arena, uint8_t, k->instr_count),
                 .loops = AU_NEW_ARRAY(arena, bool, k->instr_count),
                 .fixed = AU_NEW_ARRAY(arena, uint32_t, k->mem_count)};
    bool *tried = AU_NEW_ARRAY(arena, bool, k->mem_count);
    uint64_t words = 0;
    if (!k->written) return NULL;
    count_uses(&w, k->body, 1);
    w.uses[0] = 0;
    find_fixed(&w);
    for (uint32_t m; (m = next_array(&w, tried)) != 0;) {
        const uint64_t own = (k->mems[m].count * kernel_scalar_bytes(k->mems[m].scalar) + 3) / 4;
        tried[m] = true;
        if (words + own > most_words) continue;
        w.chosen[m] = 1;
        decide_loops(&w);
        if (kernel_written_size(k, k->body, w.loops) > k->written)
            w.chosen[m] = 0;
        else
            words += own;
    }
    decide_loops(&w);
    return w.loops;
}
