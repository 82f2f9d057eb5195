/* survey.c - what is known of a kernel before a line of it is printed: uses of values, where the arrays of lanes can be declared,
 * which loops must be unrolled. */
#include "internal.h"

#include <string.h>

/* Trips of a loop that is unrolled although the IR would rather not. */
enum { MOST_TRIPS = 128 };

static uint32_t owner_of(uint32_t region) { return region / 2; }
static uint32_t outer(const AuCPrinter *p, uint32_t region)
{
    return p->values[owner_of(region)].region;
}

static uint32_t depth_of(const AuCPrinter *p, uint32_t region)
{
    uint32_t depth = 0;
    for (; region; region = outer(p, region)) depth++;
    return depth;
}

static uint32_t common_region(const AuCPrinter *p, uint32_t a, uint32_t b)
{
    uint32_t da = depth_of(p, a), db = depth_of(p, b);
    for (; da > db; da--) a = outer(p, a);
    for (; db > da; db--) b = outer(p, b);
    for (; a != b; a = outer(p, a)) b = outer(p, b);
    return a;
}

static void note_access(AuCPrinter *p, const AuInstr *in, uint32_t region)
{
    const AuMemory *memory = &p->k->mems[in->mem.i];
    AuCMemory *m = &p->mems[in->mem.i];
    const AuInstr *index = kernel_at(p->k, kernel_operand(p->k, in, 0));
    if (!m->used) {
        *m = (AuCMemory){.used = true, .split = memory->space == AU_LANE, .scope = region};
        if (m->split) m->elements = AU_NEW_ARRAY(p->arena, const char *, memory->count);
    }
    m->scope = common_region(p, m->scope, region);
    const uint32_t width = in->op == AU_K_STORE
                               ? kernel_at(p->k, kernel_operand(p->k, in, 1))->type.width
                               : in->type.width;
    if (index->op != AU_K_CONST || width > 1 || (uint64_t)index->imm >= memory->count)
        m->split = false;
    else if (m->elements)
        m->elements[index->imm] = ""; /* used; the name comes later */
}

/* With a list of its own, since chains of values may be long. */
static void make_live(AuCPrinter *p, AuVal root)
{
    p->pending_count = 0;
    AU_PUSH(p->arena, p->pending, p->pending_count, p->pending_capacity, root);
    while (p->pending_count) {
        const AuVal v = p->pending[--p->pending_count];
        const AuInstr *in = kernel_at(p->k, v);
        if (p->values[v.i].live) continue;
        p->values[v.i].live = true;
        for (uint32_t n = 0; n < in->count; n++)
            AU_PUSH(p->arena, p->pending, p->pending_count, p->pending_capacity,
                    kernel_operand(p->k, in, n));
    }
}

/* Values that something visible comes of. Uses by others do not count. */
static void mark_live(AuCPrinter *p, uint32_t first)
{
    for (uint32_t i = first; i; i = p->k->instrs[i].next) {
        const AuInstr *in = &p->k->instrs[i];
        const uint32_t flags = kernel_op_info(in->op)->flags;
        if (flags & (AU_KF_WRITE | AU_KF_ORDER | AU_KF_REGION)) make_live(p, (AuVal){i});
        mark_live(p, in->body);
        mark_live(p, in->other);
    }
}

static void note_region(AuCPrinter *p, uint32_t first, uint32_t region)
{
    for (uint32_t i = first; i; i = p->k->instrs[i].next) {
        const AuInstr *in = &p->k->instrs[i];
        p->values[i].region = region;
        if (!p->values[i].live) continue;
        for (uint32_t n = 0; n < in->count; n++) {
            AuCValue *v = &p->values[kernel_operand(p->k, in, n).i];
            v->used_in = v->uses++ && v->used_in != region ? C_MANY_REGIONS : region;
        }
        if (kernel_op_info(in->op)->flags & AU_KF_MEM) note_access(p, in, region);
        if (in->op == AU_K_LANE) p->lane_name = "lane";
        if (in->op == AU_K_WARP) p->warp_name = "warp";
        if (in->op == AU_K_BLOCK) p->block_name[in->imm] = "block";
        if (in->op == AU_K_BLOCKS) p->blocks_name[in->imm] = "blocks";
        note_region(p, in->body, cprint_region(i, false));
        note_region(p, in->other, cprint_region(i, true));
    }
}

/* ---- where a lane's array begins to live */

static bool touches(const AuKernel *k, uint32_t i, uint32_t mem)
{
    const AuInstr *in = &k->instrs[i];
    if (kernel_op_info(in->op)->flags & AU_KF_MEM && in->mem.i == mem) return true;
    for (uint32_t c = in->body; c; c = k->instrs[c].next)
        if (touches(k, c, mem)) return true;
    for (uint32_t c = in->other; c; c = k->instrs[c].next)
        if (touches(k, c, mem)) return true;
    return false;
}

static uint32_t first_touch(const AuKernel *k, uint32_t first, uint32_t mem)
{
    while (first && !touches(k, first, mem)) first = k->instrs[first].next;
    return first;
}

/* scale * variable + offset */
typedef struct Linear {
    bool is; /* of this form at all */
    int64_t scale, offset;
} Linear;

static Linear linear_to(const AuKernel *k, AuVal v, uint32_t variable, uint32_t depth)
{
    const AuInstr *in = kernel_at(k, v);
    const bool small = in->imm > -65536 && in->imm < 65536; /* so that nothing below overflows */
    if (v.i == variable) return (Linear){true, 1, 0};
    if (in->op == AU_K_CONST) return (Linear){small, 0, in->imm};
    if (in->op != AU_K_ADD && in->op != AU_K_SUB && in->op != AU_K_MUL) return (Linear){0};
    if (depth == 0) return (Linear){0};
    const Linear a = linear_to(k, kernel_operand(k, in, 0), variable, depth - 1),
                 b = linear_to(k, kernel_operand(k, in, 1), variable, depth - 1);
    if (!a.is || !b.is) return (Linear){0};
    if (in->op == AU_K_ADD) return (Linear){true, a.scale + b.scale, a.offset + b.offset};
    if (in->op == AU_K_SUB) return (Linear){true, a.scale - b.scale, a.offset - b.offset};
    const bool products = a.scale && b.scale;
    return (Linear){!products, a.scale * b.offset + b.scale * a.offset, a.offset * b.offset};
}

/* (i + 3) * 4 + 2 and simpler: an index, not a formula. */
static Linear linear(const AuKernel *k, AuVal v, uint32_t variable)
{
    return linear_to(k, v, variable, 3);
}

static bool is_plain_store(const AuKernel *k, const AuInstr *in, uint32_t mem)
{
    return in->op == AU_K_STORE && in->mem.i == mem && in->count == 2 &&
           kernel_at(k, kernel_operand(k, in, 1))->type.width == 1;
}

static bool constant_bounds(const AuKernel *k, const AuInstr *loop, int64_t *low, int64_t *high)
{
    const AuInstr *a = kernel_at(k, kernel_operand(k, loop, 0)),
                  *b = kernel_at(k, kernel_operand(k, loop, 1));
    *low = a->imm;
    *high = b->imm;
    return a->op == AU_K_CONST && b->op == AU_K_CONST;
}

/* A loop over all elements, so many a turn, that stores each of them before it looks at any. */
static bool loop_fills(const AuCPrinter *p, uint32_t i, uint32_t mem)
{
    const AuKernel *k = p->k;
    const AuInstr *loop = &k->instrs[i];
    const int64_t count = k->mems[mem].count;
    int64_t low, high, turn = 0, left = 0;
    uint8_t *stored = AU_NEW_ARRAY(p->arena, uint8_t, k->mems[mem].count);
    if (!constant_bounds(k, loop, &low, &high) || low != 0 || loop->imm < 1) return false;
    for (uint32_t c = loop->body; c; c = k->instrs[c].next) {
        const AuInstr *in = &k->instrs[c];
        if (!touches(k, c, mem)) continue;
        if (!is_plain_store(k, in, mem)) return false;
        const Linear at = linear(k, kernel_operand(k, in, 0), i);
        if (turn == 0) {
            turn = left = at.scale * loop->imm;
            if (!at.is || turn < 1 || high * at.scale != count || count % turn) return false;
        }
        if (!at.is || at.scale * loop->imm != turn || at.offset < 0 || at.offset >= turn)
            return false;
        left -= !stored[at.offset];
        stored[at.offset] = 1;
        if (left == 0) return true;
    }
    return false;
}

/* Whether every element is stored in the region before one is looked at: nothing then comes from an earlier turn of a loop. */
static bool begins_anew(const AuCPrinter *p, uint32_t first, uint32_t mem)
{
    const AuKernel *k = p->k;
    const uint32_t count = k->mems[mem].count;
    uint8_t *stored = AU_NEW_ARRAY(p->arena, uint8_t, count);
    uint32_t left = count;
    for (uint32_t i = first_touch(k, first, mem); i; i = first_touch(k, k->instrs[i].next, mem)) {
        const AuInstr *in = &k->instrs[i];
        if (in->op == AU_K_FOR) return loop_fills(p, i, mem);
        if (in->op == AU_K_IF)
            return begins_anew(p, in->body, mem) && begins_anew(p, in->other, mem);
        const AuInstr *index = kernel_at(k, kernel_operand(k, in, 0));
        if (!is_plain_store(k, in, mem) || index->op != AU_K_CONST || index->imm < 0 ||
            index->imm >= count)
            return false;
        left -= !stored[index->imm];
        stored[index->imm] = 1;
        if (left == 0) return true;
    }
    return false;
}

static uint32_t first_of(const AuKernel *k, uint32_t region)
{
    const AuInstr *owner = &k->instrs[owner_of(region)];
    return region == 0 ? k->body : region & 1 ? owner->other : owner->body;
}

static bool is_in_loop(const AuCPrinter *p, uint32_t region)
{
    for (; region; region = outer(p, region))
        if (p->k->instrs[owner_of(region)].op == AU_K_FOR) return true;
    return false;
}

static void place(AuCPrinter *p, uint32_t mem)
{
    AuCMemory *m = &p->mems[mem];
    while (is_in_loop(p, m->scope) && !begins_anew(p, first_of(p->k, m->scope), mem))
        m->scope = outer(p, m->scope);
    m->first_use = first_touch(p->k, first_of(p->k, m->scope), mem);
    /* A variable that begins with an assignment is declared by it. */
    m->starts_here = m->split && p->k->mems[mem].count == 1 &&
                     is_plain_store(p->k, &p->k->instrs[m->first_use], mem);
}

void cprint_survey(AuCPrinter *p)
{
    p->written = kernel_written(p->k, p->arena, KERNEL_SOURCE_WORDS);
    mark_live(p, p->k->body);
    note_region(p, p->k->body, 0);
    for (uint32_t n = 1; n < p->k->mem_count; n++)
        if (p->mems[n].used && p->k->mems[n].space == AU_LANE) place(p, n);
}

/* ---- loops */

static bool indexes_arrays(const AuCPrinter *p, uint32_t first, uint32_t variable)
{
    for (uint32_t i = first; i; i = p->k->instrs[i].next) {
        const AuInstr *in = &p->k->instrs[i];
        const bool of_lane =
            kernel_op_info(in->op)->flags & AU_KF_MEM && p->k->mems[in->mem.i].space == AU_LANE;
        if (of_lane && linear(p->k, kernel_operand(p->k, in, 0), variable).scale) return true;
        if (indexes_arrays(p, in->body, variable) || indexes_arrays(p, in->other, variable))
            return true;
    }
    return false;
}

const char *cprint_unroll(const AuCPrinter *p, AuVal loop)
{
    const AuCDialect *d = p->dialect;
    const AuInstr *in = kernel_at(p->k, loop);
    int64_t low, high;
    const bool constant = constant_bounds(p->k, in, &low, &high);
    const bool over_arrays = p->written ? p->written[loop.i]
                                        : constant && (high - low) / in->imm <= MOST_TRIPS &&
                                              indexes_arrays(p, in->body, loop.i);
    switch ((AuUnroll)in->unroll) {
    case AU_UNROLL_FULL: return d->unroll;
    case AU_UNROLL_AUTO: return over_arrays ? d->unroll : NULL;
    case AU_UNROLL_NEVER: return over_arrays ? d->unroll : d->no_unroll;
    }
    return NULL;
}
