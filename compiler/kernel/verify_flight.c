/* verify_flight.c - products of groups (wgmma) go on beside each other, or the assembler ends each before the next and says so in a
 * warning (ptxas: C7510 to C7519; docs/dev/hopper.md 4): what it asks of a kernel, asked of the kernel IR, so that it is an error.
 *
 * In:  a kernel that kernel_verify accepts. A walk in the order of execution, twice through each loop, knows which memories of lanes products
 *      in flight hold. Groups of products have numbers in the order of their commits; those above `done` are in flight.
 * Not: what the interpreter finds of shared memory and barriers; calls, of which the kernel IR has none. */
#include "verify.h"

#include <string.h>

enum {
    BESIDE = 24, /* registers of a lane below the first that sums of products may have */
    MOST_OF_LANE = 255,
    EIGHT = 8 /* registers change hands so many at a time */
};

/* Of each memory: the last group that writes it or reads it, and the last that was in flight when lanes wrote it. */
typedef struct Flights {
    uint32_t begun, done; /* groups */
    bool open;            /* products since the last commit */
    uint32_t *sums, *operands, *wrote;
    bool *touched; /* by lanes since the last fence */
} Flights;

typedef struct Walk {
    AuVerifier v;
    Flights now;
    uint32_t budget; /* registers of a lane */
    bool *said;      /* of an instruction: once is enough */
    bool *kept;      /* of a memory: products add to what lies there */
    bool *moved;     /* that others become its sums has been said */
} Walk;

static void wrong(Walk *w, uint32_t i, const char *what)
{
    if (!w->said[i]) verify_wrong(&w->v, AU_E0809, i, "%s", what);
    w->said[i] = true;
}

static const char *name(const Walk *w, AuMem mem) { return w->v.k->mems[mem.i].name; }

#define SAY(w, i, ...) wrong(w, i, au_format((w)->v.diags->arena, __VA_ARGS__))

/* ---- states */

static Flights copy_of(const Walk *w)
{
    const uint32_t count = w->v.k->mem_count;
    AuArena *arena = w->v.diags->arena;
    Flights out = w->now;
    out.sums = AU_NEW_ARRAY(arena, uint32_t, count);
    out.operands = AU_NEW_ARRAY(arena, uint32_t, count);
    out.wrote = AU_NEW_ARRAY(arena, uint32_t, count);
    out.touched = AU_NEW_ARRAY(arena, bool, count);
    for (uint32_t m = 0; m < count && w->now.sums; m++) {
        out.sums[m] = w->now.sums[m], out.operands[m] = w->now.operands[m];
        out.wrote[m] = w->now.wrote[m], out.touched[m] = w->now.touched[m];
    }
    return out;
}

/* How many groups have begun behind it; NEVER: it is not in flight. */
static int64_t age(const Flights *f, uint32_t group)
{
    enum { NEVER = INT32_MAX };
    return group > f->done ? (int64_t)f->begun - group : NEVER;
}

static bool same_flights(const Walk *w, const Flights *a, const Flights *b)
{
    bool same = a->open == b->open;
    for (uint32_t m = 1; m < w->v.k->mem_count && same; m++)
        same = age(a, a->sums[m]) == age(b, b->sums[m]) &&
               age(a, a->operands[m]) == age(b, b->operands[m]);
    return same;
}

/* What lanes may have done in another way to this place. */
static void join(Walk *w, const Flights *other)
{
    Flights *f = &w->now;
    for (uint32_t m = 1; m < w->v.k->mem_count; m++) {
        f->touched[m] |= other->touched[m];
        if (other->wrote[m] <= other->done) continue;
        const uint32_t wrote = f->begun + other->wrote[m] - other->begun;
        if (f->wrote[m] < wrote) f->wrote[m] = wrote;
    }
}

static bool is_in_flight(const Flights *f, uint32_t m)
{
    return f->sums[m] > f->done || f->operands[m] > f->done;
}

/* ---- lanes */

/* A copy as it is would move sums to other registers. */
static void check_copy(Walk *w, uint32_t i)
{
    const AuKernel *k = w->v.k;
    const AuInstr *in = &k->instrs[i], *from = kernel_at(k, kernel_operand(k, in, 1));
    const bool sums = w->kept[in->mem.i] && from->op == AU_K_LOAD && w->kept[from->mem.i];
    if (!sums || from->mem.i == in->mem.i || w->moved[in->mem.i]) return;
    SAY(w, i, "sums of @%s become those of @%s: neither would stay in its registers",
        name(w, from->mem), name(w, in->mem));
    w->moved[in->mem.i] = true;
}

static void touch(Walk *w, uint32_t i)
{
    const AuInstr *in = &w->v.k->instrs[i];
    const uint32_t m = in->mem.i, flags = kernel_op_info(in->op)->flags;
    Flights *f = &w->now;
    if (w->v.k->mems[m].space != AU_LANE) return;
    if (f->sums[m] > f->done)
        SAY(w, i, "a product in flight adds to @%s", name(w, in->mem));
    else if (f->operands[m] > f->done && flags & AU_KF_WRITE)
        SAY(w, i, "a product in flight reads @%s", name(w, in->mem));
    f->touched[m] = true;
    if (!(flags & AU_KF_WRITE)) return;
    f->wrote[m] = f->begun + f->open;
    if (in->op == AU_K_STORE) check_copy(w, i);
}

/* ---- products */

/* Registers that a product takes as lanes left them. */
static void take(Walk *w, uint32_t i, AuMem mem)
{
    const Flights *f = &w->now;
    if (f->touched[mem.i])
        SAY(w, i, "lanes have used @%s since the last wgmma_fence", name(w, mem));
    else if (f->wrote[mem.i] > f->done)
        SAY(w, i, "lanes wrote @%s beside a product that is still in flight", name(w, mem));
}

static void product(Walk *w, uint32_t i)
{
    const AuKernel *k = w->v.k;
    const AuInstr *in = &k->instrs[i], *add = kernel_at(k, kernel_operand(k, in, 3));
    const uint32_t group = w->now.begun + 1;
    const bool fresh = add->op == AU_K_CONST && !add->imm;
    if (w->now.operands[in->mem.i] > w->now.done)
        SAY(w, i, "a product in flight reads @%s", name(w, in->mem));
    if (!fresh && w->now.sums[in->mem.i] <= w->now.done) {
        w->kept[in->mem.i] = true;
        take(w, i, in->mem);
    }
    w->now.sums[in->mem.i] = group;
    w->now.open = true;
    if (k->mems[in->also[0].i].space != AU_LANE) return;
    if (w->now.sums[in->also[0].i] > w->now.done)
        SAY(w, i, "a product in flight adds to @%s", name(w, in->also[0]));
    take(w, i, in->also[0]);
    w->now.operands[in->also[0].i] = group;
}

/* What products in flight hold lies behind registers that ptxas keeps for other things. */
static void check_registers(Walk *w, uint32_t i)
{
    const AuKernel *k = w->v.k;
    uint32_t held = 0;
    for (uint32_t m = 1; m < k->mem_count; m++)
        if (is_in_flight(&w->now, m))
            held += k->mems[m].count * kernel_scalar_bytes(k->mems[m].scalar) / 4;
    if (held + BESIDE >= w->budget)
        SAY(w, i, "products in flight hold %u registers beside %d others, where a lane has %u",
            held, BESIDE, w->budget);
}

static void commit(Walk *w, uint32_t i)
{
    w->now.begun++;
    w->now.open = false;
    check_registers(w, i);
}

static void wait(Walk *w, uint32_t i)
{
    const uint32_t late = (uint32_t)w->v.k->instrs[i].imm;
    if (w->now.open) SAY(w, i, "products behind the last wgmma_commit are not waited for");
    if (w->now.begun >= late && w->now.begun - late > w->now.done)
        w->now.done = w->now.begun - late;
}

/* ---- control flow */

static void region(Walk *w, uint32_t first);

/* Loops that generators write out have no back edge. */
static bool is_written_out(const Walk *w, const AuInstr *in)
{
    const bool known = kernel_at(w->v.k, kernel_operand(w->v.k, in, 0))->op == AU_K_CONST &&
                       kernel_at(w->v.k, kernel_operand(w->v.k, in, 1))->op == AU_K_CONST;
    return known && in->unroll != AU_UNROLL_NEVER;
}

/* Sums that a turn begins must be at rest at its end, or they are not where the next one has them. */
static void check_turn(Walk *w, uint32_t i, const Flights *before, uint32_t begun)
{
    if (w->now.done < w->now.begun && w->now.begun > begun)
        SAY(w, i, "a turn ends with a product in flight that began in it");
    else if (!same_flights(w, before, &w->now))
        SAY(w, i, "a turn waits for a product that began before the loop");
}

static void loop(Walk *w, uint32_t i)
{
    const AuInstr *in = &w->v.k->instrs[i];
    const Flights before = copy_of(w);
    for (int turn = 0; turn < 2; turn++) {
        const uint32_t begun = w->now.begun;
        region(w, in->body);
        if (!is_written_out(w, in)) check_turn(w, i, &before, begun);
    }
    join(w, &before);
}

static void branch(Walk *w, uint32_t i)
{
    const AuInstr *in = &w->v.k->instrs[i];
    const Flights before = copy_of(w);
    region(w, in->body);
    const Flights body = w->now;
    w->now = before;
    w->now = copy_of(w);
    region(w, in->other);
    if (!same_flights(w, &body, &w->now))
        SAY(w, i, "its two ways end with other products in flight");
    join(w, &body);
}

static void step(Walk *w, uint32_t i)
{
    const AuInstr *in = &w->v.k->instrs[i];
    switch ((int)in->op) {
    case AU_K_FOR: loop(w, i); return;
    case AU_K_IF: branch(w, i); return;
    case AU_K_REGISTERS: w->budget = (uint32_t)in->imm; return;
    case AU_K_WGMMA: product(w, i); return;
    case AU_K_WGMMA_FENCE:
        memset(w->now.touched, 0, w->v.k->mem_count * sizeof *w->now.touched);
        return;
    case AU_K_WGMMA_COMMIT: commit(w, i); return;
    case AU_K_WGMMA_WAIT: wait(w, i); return;
    }
    if (kernel_op_info(in->op)->flags & AU_KF_MEM) touch(w, i);
}

/* `registers` is for its region. */
static void region(Walk *w, uint32_t first)
{
    const uint32_t budget = w->budget;
    for (uint32_t i = first; i; i = w->v.k->instrs[i].next) step(w, i);
    w->budget = budget;
}

static uint32_t last_product(const AuKernel *k)
{
    uint32_t last = 0;
    for (uint32_t i = 1; i < k->instr_count; i++)
        if (k->instrs[i].op == AU_K_WGMMA) last = i;
    return last;
}

bool kernel_verify_products(const AuKernel *k, uint32_t processor_registers, AuDiags *diags)
{
    Walk w = {.v = {.k = k, .diags = diags, .good = true}};
    const uint32_t last = last_product(k);
    if (!last) return true;
    w.kept = AU_NEW_ARRAY(diags->arena, bool, k->mem_count);
    w.moved = AU_NEW_ARRAY(diags->arena, bool, k->mem_count);
    w.said = AU_NEW_ARRAY(diags->arena, bool, k->instr_count);
    w.budget = processor_registers / (k->lanes * k->warps) / EIGHT * EIGHT;
    if (w.budget > MOST_OF_LANE) w.budget = MOST_OF_LANE;
    w.now = copy_of(&w);
    region(&w, k->body);
    if (w.now.open || w.now.begun > w.now.done) wrong(&w, last, "nobody waits for it");
    return w.v.good;
}
