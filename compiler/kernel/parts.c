/* parts.c - pieces of hosts' kernels that become functions, so that kernels which have the same piece share its code: operand types differ in how
 * tiles are brought, and have the same products, weights and sums.
 *
 * A part is a loop of constant turns that stands in no other such loop, and what stands beside it as far as arrays that are registers go: what a
 * block of a product leaves over is made behind its loop. Its text is numbered by itself (values and memories in the order in which they are met),
 * and 128 bits of hash are its name, so equal text has one name in all kernels of a table. What it takes from outside, scalars and vectors by
 * value and memories by their address, are its arguments. What it would give to the text behind it, places in memories, is made before it. Little
 * is no part: a call is a few nanoseconds. Nor is what uses registers of the whole kernel. */
#include "internal.h"

#include <string.h>

enum {
    LEAST_TEXT = 22, /* instructions */
    LEAST_AROUND =
        24000, /* that are done around a call, a tile of a block of many rows: what calls take is nothing then */
    MOST_VALUES = 16,   /* arguments; what has more is kept where it is */
    MOST_MEMORIES = 24, /* ... */
    MOST_MADE = 64,     /* before a part */
    NEAR = 64,          /* instructions */
    LEAST_COPIED = 256, /* so many times as much is done in a part as registers are copied for it */
    BUCKETS = 256
};

typedef struct Known {
    struct Known *next;
    uint64_t hash[2];
    const char *name;
} Known;

struct AuPartTable {
    AuArena *arena;
    Known *buckets[BUCKETS];
};

typedef struct Parts {
    AuKernel *k;
    AuPartTable *table;
    const char *prefix, *plain_prefix;
    bool any;
    AuLanes lanes;
    uint32_t *uses; /* by memory: accesses in the kernel */
    bool *indexed;  /* by memory: some of them by what is no constant */
    double *
        times; /* by memory: how often it is accessed, loops of turns that are not known done once */
    uint32_t *depth;    /* by memory: the most such loops around an access */
    uint32_t *position; /* by instruction: in the order of the text */
    uint32_t *last_use; /* by instruction: the position of the last one that takes its value */
    uint32_t positions;
    uint32_t *numbers; /* by instruction: of this part, from 1 on; 0: it is no part of it */
    uint32_t *places;  /* by memory: the same */
    uint32_t *within;  /* by memory: accesses in this part, and how often */
    double *done;
    /* of the part at hand */
    AuPart part;
    uint32_t end;   /* position of the last instruction */
    uint32_t limit; /* position behind which the part must begin: others end there */
    uint64_t hash[2];
    uint32_t number, text, place;
    double work;
    uint32_t level; /* loops of unknown turns around it */
    bool refused;
    AuVal values[MOST_VALUES], made[MOST_MADE];
    AuMem memories[MOST_MEMORIES]; /* in the order of their numbers */
    AuPart *at;
    uint32_t count, capacity;
} Parts;

AuPartTable *kernel_part_table(AuArena *arena)
{
    AuPartTable *t = AU_NEW(arena, AuPartTable);
    t->arena = arena;
    return t;
}

static void mix(Parts *p, uint64_t word)
{
    p->hash[0] = (p->hash[0] ^ word) * 0x9e3779b97f4a7c15u;
    p->hash[0] ^= p->hash[0] >> 29;
    p->hash[1] = (p->hash[1] + word + 0x632be59bd9b4e019u) * 0xbf58476d1ce4e5b9u;
    p->hash[1] ^= p->hash[1] >> 31;
}

static void mix_constant(Parts *p, const AuInstr *in)
{
    uint32_t bits;
    memcpy(&bits, &in->number, sizeof bits);
    mix(p, bits);
    mix(p, (uint64_t)in->imm);
}

/* What lanes have in it decides about its code. */
static void mix_type(Parts *p, AuVal v)
{
    const AuKType type = kernel_at(p->k, v)->type;
    mix(p, type.scalar | (uint64_t)type.width << 8 | (uint64_t)p->lanes.kind[v.i] << 16);
    mix(p, (uint64_t)p->lanes.stride[v.i]);
}

/* ---- memories */

static bool is_register(const Parts *p, uint32_t m)
{
    return p->k->mems[m].space == AU_LANE && !p->indexed[m];
}

static void take_memory(Parts *p, AuMem mem, double times)
{
    const AuMemory *m = &p->k->mems[mem.i];
    p->within[mem.i]++;
    p->done[mem.i] += times;
    if (!p->places[mem.i]) {
        if (p->place == MOST_MEMORIES) {
            p->refused = true;
            return;
        }
        p->memories[p->place] = mem;
        p->places[mem.i] = ++p->place;
        mix(p, m->space | (uint64_t)m->scalar << 8 | (uint64_t)m->align << 16 |
                   (uint64_t)p->lanes.same[mem.i] << 48 | (uint64_t)m->reads << 49 |
                   (uint64_t)m->writes << 50);
        mix(p, m->count);
    }
    mix(p, p->places[mem.i]);
}

/* ---- values */

static void take_value(Parts *p, AuVal v)
{
    const AuInstr *in = kernel_at(p->k, v);
    if (p->numbers[v.i]) {
        mix(p, p->numbers[v.i]);
        return;
    }
    mix_type(p, v);
    if (in->op == AU_K_CONST) {
        mix_constant(p, in);
        return;
    }
    uint32_t n = 0;
    while (n < p->part.value_count && p->values[n].i != v.i) n++;
    if (n == MOST_VALUES) {
        p->refused = true;
        return;
    }
    if (n == p->part.value_count) p->values[p->part.value_count++] = v;
    mix(p, ~(uint64_t)n);
}

static void take_region(Parts *p, uint32_t first, double times);

/* Machines with more than vectors have instructions for it: then the code is an architecture's own. */
static bool is_special(const AuInstr *in)
{
    return in->op == AU_K_DOT2 || (in->op == AU_K_CVT && in->type.scalar == AU_BF16);
}

/* The kernel's own arguments: a part has others. */
static bool is_of_kernel(const AuInstr *in) { return in->op == AU_K_ARG || in->op == AU_K_BLOCK; }

static void take(Parts *p, uint32_t i, double times)
{
    const AuKernel *k = p->k;
    const AuInstr *in = &k->instrs[i];
    const AuKOpInfo *info = kernel_op_info((AuKOp)in->op);
    const uint64_t turns = kernel_turns(k, in);
    p->text++;
    p->work += times;
    p->part.plain &= !is_special(in);
    p->refused |=
        is_of_kernel(in) || in->op == AU_K_MATMUL || (info->flags & (AU_KF_NAMES | AU_KF_OPAQUE));
    mix(p, in->op | (uint64_t)in->count << 8 | (uint64_t)in->unroll << 16);
    mix_type(p, (AuVal){i});
    if (in->op != AU_K_NOTE) mix_constant(p, in);
    for (uint32_t n = 0; n < in->count; n++) take_value(p, kernel_operand(k, in, n));
    if (info->flags & AU_KF_MEM) take_memory(p, in->mem, times);
    for (uint32_t n = 0; n < kernel_further(info); n++) take_memory(p, in->also[n], times);
    p->numbers[i] = ++p->number;
    const double inside = in->op == AU_K_FOR ? times * (double)(turns ? turns : 1) : times;
    take_region(p, in->body, inside);
    take_region(p, in->other, inside);
}

static void take_region(Parts *p, uint32_t first, double times)
{
    mix(p, first != 0);
    for (uint32_t i = first; i && !p->refused; i = p->k->instrs[i].next) take(p, i, times);
    mix(p, 0);
}

/* ---- what nobody else sees of a memory is the part's own */

/* Is each element that is read written before, by its number, whichever way is gone? Looked at where the text is in order: [known] has what was
 * written in the regions that are open. */
static bool is_begun(const Parts *p, uint32_t first, uint32_t last, uint32_t mem, uint64_t *known)
{
    enum { MOST = 64 }; /* elements */
    const AuKernel *k = p->k;
    for (uint32_t i = first, before = 0; i && before != last; before = i, i = k->instrs[i].next) {
        const AuInstr *in = &k->instrs[i];
        if ((kernel_op_info((AuKOp)in->op)->flags & AU_KF_MEM) && in->mem.i == mem) {
            const AuInstr *at = kernel_at(k, kernel_operand(k, in, 0));
            const bool store = in->op == AU_K_STORE;
            const uint32_t width =
                store ? kernel_at(k, kernel_operand(k, in, 1))->type.width : in->type.width;
            if (at->op != AU_K_CONST || at->imm < 0 || at->imm + width > MOST ||
                (!store && in->op != AU_K_LOAD))
                return false;
            const uint64_t all = (width == MOST ? ~UINT64_C(0) : (UINT64_C(1) << width) - 1)
                                 << at->imm;
            if (!store && (*known & all) != all) return false;
            if (store && in->count == 2) *known |= all;
            if (store && in->count > 2 && (*known & all) != all) return false;
        }
        uint64_t body = *known, other = *known;
        if (!is_begun(p, in->body, UINT32_MAX, mem, &body) ||
            !is_begun(p, in->other, UINT32_MAX, mem, &other))
            return false;
        if (kernel_turns(k, in)) *known = body;
    }
    return true;
}

static bool is_own(const Parts *p, uint32_t mem)
{
    uint64_t known = 0;
    return p->k->mems[mem].space == AU_LANE && p->within[mem] == p->uses[mem] &&
           is_begun(p, p->part.first, p->part.last, mem, &known);
}

/* ---- how far a part goes */

static bool uses_memory(const AuKernel *k, uint32_t i, uint32_t mem)
{
    const AuInstr *in = &k->instrs[i];
    const AuKOpInfo *info = kernel_op_info((AuKOp)in->op);
    if ((info->flags & AU_KF_MEM) && in->mem.i == mem) return true;
    for (uint32_t n = 0; n < kernel_further(info); n++)
        if (in->also[n].i == mem) return true;
    for (uint32_t j = in->body; j; j = k->instrs[j].next)
        if (uses_memory(k, j, mem)) return true;
    for (uint32_t j = in->other; j; j = k->instrs[j].next)
        if (uses_memory(k, j, mem)) return true;
    return false;
}

/* Up to the last one of the region, and from the first one on, that uses a register which the part uses. */
static bool widen(Parts *p, uint32_t region)
{
    const AuKernel *k = p->k;
    const AuPart before = p->part;
    for (uint32_t n = 0; n < p->place; n++) {
        const uint32_t mem = p->memories[n].i;
        if (!is_register(p, mem) || p->within[mem] == p->uses[mem]) continue;
        bool found = false;
        for (uint32_t i = region; i; i = k->instrs[i].next) {
            if (!uses_memory(k, i, mem)) continue;
            if (!found && p->position[i] < p->position[p->part.first]) p->part.first = i;
            if (p->position[i] > p->position[p->part.last]) p->part.last = i;
            found = true;
        }
    }
    return p->part.first != before.first || p->part.last != before.last;
}

/* ---- what the text behind it takes is made before it */

static bool is_made_before(const Parts *p, uint32_t i)
{
    for (uint32_t n = 0; n < p->part.made_count; n++)
        if (p->made[n].i == i) return true;
    return false;
}

static bool is_pure(const AuInstr *in)
{
    const uint32_t flags = kernel_op_info((AuKOp)in->op)->flags;
    return (flags & AU_KF_RESULT) &&
           !(flags & (AU_KF_MEM | AU_KF_ORDER | AU_KF_REGION | AU_KF_LANES));
}

/* What was read from memory is taken by the text right behind it: that belongs to the part, too. false: it is too far away. */
static bool reach(Parts *p, uint32_t last_use)
{
    if (last_use > p->end + NEAR) return false;
    for (uint32_t i = p->part.last; i && p->position[i] <= last_use; i = p->k->instrs[i].next)
        p->part.last = i;
    return true;
}

enum { NEEDED = 1, OF_MEMORY = 2 };

/* Of a value's operands, or what the instruction is itself. */
static void mark_memory(Parts *p, uint32_t i)
{
    const AuInstr *in = &p->k->instrs[i];
    bool marked = !is_pure(in);
    for (uint32_t n = 0; n < in->count; n++)
        marked |= (p->numbers[kernel_operand(p->k, in, n).i] & OF_MEMORY) != 0;
    p->numbers[i] = marked ? OF_MEMORY : 0;
}

/* [numbers] tells what is needed behind the part, and what memory says; then it is clear again. false: the part has become longer. */
static bool make_before(Parts *p)
{
    const AuKernel *k = p->k;
    const uint32_t last = p->part.last;
    uint32_t count = 0, capacity = 0, *all = NULL;
    p->part.made_count = 0;
    for (uint32_t i = p->part.first;; i = k->instrs[i].next) {
        AU_PUSH(k->arena, all, count, capacity, i);
        mark_memory(p, i);
        if (i == last) break;
    }
    for (uint32_t n = count; n-- > 0;) {
        const AuInstr *in = &k->instrs[all[n]];
        const bool used = p->last_use[all[n]] > p->end || is_of_kernel(in);
        if (used && p->numbers[all[n]] & OF_MEMORY) p->refused |= !reach(p, p->last_use[all[n]]);
        if (p->numbers[all[n]] & OF_MEMORY || (!used && !p->numbers[all[n]])) continue;
        p->numbers[all[n]] = NEEDED;
        for (uint32_t o = 0; o < in->count; o++) p->numbers[kernel_operand(k, in, o).i] |= NEEDED;
    }
    for (uint32_t n = 0; n < count; n++) {
        if (p->numbers[all[n]] != NEEDED) continue;
        if (p->part.made_count == MOST_MADE)
            p->refused = true;
        else
            p->made[p->part.made_count++] = (AuVal){all[n]};
    }
    memset(p->numbers, 0, k->instr_count * sizeof *p->numbers);
    return p->part.last == last;
}

/* ---- parts */

static void begin(Parts *p)
{
    memset(p->numbers, 0, p->k->instr_count * sizeof *p->numbers);
    memset(p->places, 0, p->k->mem_count * sizeof *p->places);
    memset(p->within, 0, p->k->mem_count * sizeof *p->within);
    memset(p->done, 0, p->k->mem_count * sizeof *p->done);
    p->hash[0] = 0x243f6a8885a308d3u;
    p->hash[1] = 0x13198a2e03707344u;
    p->number = p->text = p->place = p->part.value_count = 0;
    p->work = 0;
    p->refused = false;
    p->part.plain = true;
    mix(p, p->k->lanes);
}

/* The position of the last instruction of what ends with [i]. */
static uint32_t end_of(const Parts *p, uint32_t i)
{
    const AuInstr *in = &p->k->instrs[i];
    uint32_t end = p->position[i];
    for (uint32_t j = in->body; j; j = p->k->instrs[j].next) end = end_of(p, j);
    for (uint32_t j = in->other; j; j = p->k->instrs[j].next) end = end_of(p, j);
    return end;
}

static void take_part(Parts *p)
{
    begin(p);
    do p->end = end_of(p, p->part.last);
    while (!make_before(p) && !p->refused);
    for (uint32_t i = p->part.first; !p->refused; i = p->k->instrs[i].next) {
        if (!is_made_before(p, i)) take(p, i, 1);
        if (i == p->part.last) return;
    }
}

static void *copied(Parts *p, const void *from, size_t bytes)
{
    void *to = au_alloc(p->k->arena, bytes + 1);
    if (bytes) memcpy(to, from, bytes);
    return to;
}

/* Registers that others use, too, are copied for a part that does much, if they are nowhere used more often. */
static bool may_copy(const Parts *p, uint32_t mem, double *copied)
{
    *copied += 2 * p->k->mems[mem].count + p->times[mem] - p->done[mem];
    return p->any || (p->depth[mem] <= p->level && LEAST_COPIED * *copied <= p->work);
}

static bool share_memories(Parts *p)
{
    AuPart *part = &p->part;
    double copied = 0;
    part->memories = AU_NEW_ARRAY(p->k->arena, AuMem, p->place + 1);
    part->own = AU_NEW_ARRAY(p->k->arena, AuMem, p->place + 1);
    part->copied = AU_NEW_ARRAY(p->k->arena, bool, p->place + 1);
    part->memory_count = part->own_count = 0;
    for (uint32_t n = 0; n < p->place; n++) {
        const AuMem mem = p->memories[n];
        const bool own = is_own(p, mem.i), copies = !own && is_register(p, mem.i);
        mix(p, own | (uint64_t)copies << 1);
        if (copies && !may_copy(p, mem.i, &copied)) return false;
        if (own)
            part->own[part->own_count++] = mem;
        else
            part->memories[part->memory_count] = mem, part->copied[part->memory_count++] = copies;
    }
    return true;
}

static const char *name_of(Parts *p, bool *known)
{
    const char *prefix = p->part.plain ? p->plain_prefix : p->prefix;
    for (const char *c = prefix; *c; c++) mix(p, (unsigned char)*c);
    Known **bucket = &p->table->buckets[p->hash[0] % BUCKETS];
    for (const Known *n = *bucket; n; n = n->next)
        if (n->hash[0] == p->hash[0] && n->hash[1] == p->hash[1]) return *known = true, n->name;
    Known *fresh = AU_NEW(p->table->arena, Known);
    *fresh = (Known){.next = *bucket, .hash = {p->hash[0], p->hash[1]}};
    fresh->name = au_format(p->table->arena, "%s_part_%016llx%016llx", prefix,
                            (unsigned long long)p->hash[0], (unsigned long long)p->hash[1]);
    *bucket = fresh;
    *known = false;
    return fresh->name;
}

/* The last instruction of the part with this loop, or the loop. */
static uint32_t add_part(Parts *p, uint32_t region, uint32_t loop)
{
    p->part = (AuPart){.first = loop, .last = loop};
    do take_part(p);
    while (!p->refused && widen(p, region));
    if (p->refused || p->position[p->part.first] <= p->limit || (p->text < LEAST_TEXT && !p->any) ||
        !share_memories(p))
        return loop;
    bool known;
    p->part.name = name_of(p, &known);
    p->part.is_first = !known;
    p->part.values = copied(p, p->values, p->part.value_count * sizeof *p->values);
    p->part.made = copied(p, p->made, p->part.made_count * sizeof *p->made);
    AU_PUSH(p->k->arena, p->at, p->count, p->capacity, p->part);
    p->limit = p->end;
    return p->part.last;
}

/* Instructions done of a region, once around loops of unknown turns. */
static double work_of(const Parts *p, uint32_t first)
{
    double work = 0;
    for (uint32_t i = first; i; i = p->k->instrs[i].next) {
        const AuInstr *in = &p->k->instrs[i];
        const uint64_t turns = kernel_turns(p->k, in);
        const double body = work_of(p, in->body) + work_of(p, in->other);
        work += 1 + body * (double)(turns ? turns : 1);
    }
    return work;
}

/* [much]: enough is done around. What is done once, before and behind loops over tiles, is so beside them. */
static void find(Parts *p, uint32_t first, uint32_t level, bool much)
{
    for (uint32_t i = first; i; i = p->k->instrs[i].next) {
        const AuInstr *in = &p->k->instrs[i];
        if (kernel_turns(p->k, in)) {
            p->level = level;
            if (much) i = add_part(p, first, i);
        } else if (in->op == AU_K_FOR) {
            find(p, in->body, level + 1, p->any || work_of(p, in->body) >= LEAST_AROUND);
        } else {
            find(p, in->body, level, much);
            find(p, in->other, level, much);
        }
    }
}

static void count_use(Parts *p, AuMem mem, AuVal index, double times, uint32_t level)
{
    p->uses[mem.i]++;
    p->times[mem.i] += times;
    if (p->depth[mem.i] < level) p->depth[mem.i] = level;
    p->indexed[mem.i] |= kernel_at(p->k, index)->op != AU_K_CONST;
}

static void count_uses(Parts *p, uint32_t first, double times, uint32_t level)
{
    for (uint32_t i = first; i; i = p->k->instrs[i].next) {
        const AuInstr *in = &p->k->instrs[i];
        const AuKOpInfo *info = kernel_op_info((AuKOp)in->op);
        const uint64_t turns = kernel_turns(p->k, in);
        const double inside = turns ? times * (double)turns : times;
        const uint32_t below = level + (in->op == AU_K_FOR && !turns);
        p->position[i] = ++p->positions;
        for (uint32_t n = 0; n < in->count; n++)
            p->last_use[kernel_operand(p->k, in, n).i] = p->position[i];
        if (info->flags & AU_KF_MEM)
            count_use(p, in->mem, kernel_operand(p->k, in, 0), times, level);
        for (uint32_t n = 0; n < kernel_further(info); n++)
            count_use(p, in->also[n], kernel_operand(p->k, in, n + 1), times, level);
        count_uses(p, in->body, inside, below);
        count_uses(p, in->other, inside, below);
    }
}

void kernel_find_parts(AuKernel *k, AuPartTable *table, const char *prefix,
                       const char *plain_prefix, bool any)
{
    Parts p = {.k = k,
               .table = table,
               .prefix = prefix,
               .plain_prefix = plain_prefix,
               .any = any,
               .lanes = kernel_lanes(k, k->arena),
               .uses = AU_NEW_ARRAY(k->arena, uint32_t, k->mem_count),
               .indexed = AU_NEW_ARRAY(k->arena, bool, k->mem_count),
               .position = AU_NEW_ARRAY(k->arena, uint32_t, k->instr_count),
               .last_use = AU_NEW_ARRAY(k->arena, uint32_t, k->instr_count),
               .numbers = AU_NEW_ARRAY(k->arena, uint32_t, k->instr_count),
               .places = AU_NEW_ARRAY(k->arena, uint32_t, k->mem_count),
               .times = AU_NEW_ARRAY(k->arena, double, k->mem_count),
               .depth = AU_NEW_ARRAY(k->arena, uint32_t, k->mem_count),
               .done = AU_NEW_ARRAY(k->arena, double, k->mem_count),
               .within = AU_NEW_ARRAY(k->arena, uint32_t, k->mem_count)};
    count_uses(&p, k->body, 1, 0);
    find(&p, k->body, 0, any || work_of(&p, k->body) >= LEAST_AROUND);
    k->parts = p.at;
    k->part_count = p.count;
}
