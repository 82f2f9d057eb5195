/* simplify.c - one walk that makes a kernel smaller without changing any bit of what it computes,
 * then sweeps what is not used. In the order of the text each instruction is folded (fold.c, and
 * the integer algebra here), replaced by an equal one that is in sight, and, where a loop does not
 * change its operands, moved before the loop. Values without operands all move to the top. Loads
 * are merged only from tensors that the kernel does not write, and never moved: a loop that does
 * not run must not load. Floating point is only folded where every argument gives the same bits;
 * nothing is reassociated. */
#include "internal.h"

#include <string.h>

enum { BUCKETS = 4096 };

typedef struct Info { /* of an instruction */
    AuVal value;      /* what it has become */
    uint32_t chain;   /* the next with the same hash */
    uint8_t level;    /* depth of the region where its value exists */
    bool visible;
} Info;

typedef struct Simplify {
    AuKernel *k;
    bool gathers; /* constants of sums and products of integers go to their end */
    Info *info;
    uint32_t info_count, info_capacity;
    uint32_t bucket[BUCKETS];
} Simplify;

static Info *info_of(Simplify *s, uint32_t i)
{
    while (s->info_count <= i) {
        const Info fresh = {.value = {s->info_count}};
        AU_PUSH(s->k->arena, s->info, s->info_count, s->info_capacity, fresh);
    }
    return &s->info[i];
}

/* No effect, and the same operands give the same value. */
static bool is_pure(const AuInstr *in)
{
    return (kernel_op_info(in->op)->flags & AU_KF_RESULT) &&
           !(kernel_op_info(in->op)->flags & (AU_KF_MEM | AU_KF_ORDER | AU_KF_REGION));
}

static bool is_constant_load(const AuKernel *k, const AuInstr *in)
{
    const AuMemory *m = &k->mems[in->mem.i];
    return in->op == AU_K_LOAD && m->space == AU_GLOBAL && !m->writes && !m->earlier;
}

/* A division by what may be zero must stay behind what guards it, and `late` where it was said. */
static bool may_move(const AuKernel *k, const AuInstr *in)
{
    if (!is_pure(in) || in->op == AU_K_LATE || kernel_op_info(in->op)->flags & AU_KF_PLACE)
        return false;
    if (in->op != AU_K_IDIV && in->op != AU_K_IMOD) return true;
    const AuInstr *divisor = kernel_at(k, kernel_operand(k, in, 1));
    return divisor->op == AU_K_CONST && divisor->imm != 0;
}

/* ---- finding equal instructions */

static uint32_t hash_of(const AuKernel *k, const AuInstr *in)
{
    uint32_t number;
    memcpy(&number, &in->number, sizeof number);
    uint64_t h = in->op | (uint64_t)in->type.scalar << 8 | (uint64_t)in->type.width << 16 |
                 (uint64_t)in->mem.i << 24;
    h = (h ^ (uint64_t)in->imm ^ number) * 0x9e3779b97f4a7c15u;
    for (uint32_t n = 0; n < in->count; n++)
        h = (h ^ h >> 29 ^ kernel_operand(k, in, n).i) * 0xbf58476d1ce4e5b9u;
    return (uint32_t)(h >> 32) % BUCKETS;
}

static bool is_equal(const AuKernel *k, const AuInstr *a, const AuInstr *b)
{
    if (a->op != b->op || !kernel_same_type(a->type, b->type) || a->imm != b->imm ||
        a->mem.i != b->mem.i || memcmp(&a->number, &b->number, sizeof a->number) != 0 ||
        a->count != b->count)
        return false;
    return memcmp(k->operands + a->first, k->operands + b->first, a->count * sizeof *k->operands) ==
           0;
}

static uint32_t find_equal(Simplify *s, uint32_t i, uint32_t bucket)
{
    const AuKernel *k = s->k;
    for (uint32_t other = s->bucket[bucket]; other; other = s->info[other].chain)
        if (s->info[other].visible && is_equal(k, &k->instrs[i], &k->instrs[other])) return other;
    return 0;
}

/* ---- placing */

/* The depth where an instruction may stand: outside of all loops, and functions of an element, that do not change its operands. */
static uint32_t best_level(Simplify *s, const AuInstr *in)
{
    const AuKernel *k = s->k;
    uint32_t least = 0;
    if (!may_move(k, in)) return k->depth;
    for (uint32_t n = 0; n < in->count; n++) {
        const uint32_t level = info_of(s, kernel_operand(k, in, n).i)->level;
        if (level > least) least = level;
    }
    if (!in->count) return 0;
    for (uint32_t d = least + 1; d <= k->depth; d++) {
        const uint8_t owner = k->instrs[k->stack[d].owner].op;
        if (owner == AU_K_FOR || owner == AU_K_MATRIX_EACH) return d - 1;
    }
    return k->depth;
}

static void link_at(Simplify *s, uint32_t i, uint32_t level)
{
    const uint32_t depth = s->k->depth;
    s->k->depth = level;
    kernel_link(s->k, i);
    s->k->depth = depth;
    info_of(s, i)->level = (uint8_t)level;
    info_of(s, i)->visible = true;
}

/* The instruction, or an equal one that is there already. */
static AuVal place(Simplify *s, uint32_t i)
{
    const AuInstr in = s->k->instrs[i];
    if (!is_pure(&in) && !is_constant_load(s->k, &in)) {
        link_at(s, i, s->k->depth);
        return (AuVal){i};
    }
    const uint32_t bucket = hash_of(s->k, &in), other = find_equal(s, i, bucket);
    if (other) return (AuVal){other};
    link_at(s, i, best_level(s, &in));
    info_of(s, i)->chain = s->bucket[bucket];
    s->bucket[bucket] = i;
    return (AuVal){i};
}

static AuVal constant(Simplify *s, AuKType type, int64_t imm)
{
    AuInstr in = kernel_const_of(type, (uint64_t)imm);
    in.first = s->k->operand_count;
    AU_PUSH(s->k->arena, s->k->instrs, s->k->instr_count, s->k->instr_capacity, in);
    info_of(s, s->k->instr_count - 1);
    return place(s, s->k->instr_count - 1);
}

/* ---- algebra on integers that folding a single instruction does not see */

static bool integer_constant(const AuKernel *k, AuVal v, int64_t *imm)
{
    const AuInstr *in = kernel_at(k, v);
    *imm = in->imm;
    return in->op == AU_K_CONST && (in->type.scalar == AU_I32 || in->type.scalar == AU_I64);
}

static void set_operand(AuKernel *k, const AuInstr *in, uint32_t n, AuVal v)
{
    k->operands[in->first + n] = v;
}

/* (x op c) op d is x op (c op d) for sums and products. */
static bool gather_constants(Simplify *s, AuInstr *in)
{
    int64_t c, d;
    const AuVal x = kernel_operand(s->k, in, 0), y = kernel_operand(s->k, in, 1);
    const AuInstr left = *kernel_at(s->k, x);
    if ((in->op != AU_K_ADD && in->op != AU_K_MUL) || left.op != in->op ||
        !integer_constant(s->k, y, &d))
        return false;
    if (!integer_constant(s->k, kernel_operand(s->k, &left, 1), &c)) return false;
    const uint64_t both =
        kernel_evaluate(in->op, in->type.scalar, in->type.scalar, (uint64_t)c, (uint64_t)d, 0);
    set_operand(s->k, in, 0, kernel_operand(s->k, &left, 0));
    set_operand(s->k, in, 1, constant(s, in->type, (int64_t)both));
    return true;
}

static AuVal pure(Simplify *s, uint32_t i);

/* x op y, in the place of [like]. */
static AuVal pair(Simplify *s, const AuInstr *like, AuKOp op, AuVal x, AuVal y)
{
    AuInstr in = *like;
    in.op = (uint8_t)op;
    in.first = s->k->operand_count;
    in.imm = 0;
    in.text = NULL;
    AU_PUSH(s->k->arena, s->k->operands, s->k->operand_count, s->k->operand_capacity, x);
    AU_PUSH(s->k->arena, s->k->operands, s->k->operand_count, s->k->operand_capacity, y);
    AU_PUSH(s->k->arena, s->k->instrs, s->k->instr_count, s->k->instr_capacity, in);
    info_of(s, s->k->instr_count - 1);
    return pure(s, s->k->instr_count - 1);
}

/* x + c of integers, whose parts are given. */
static bool is_offset(const AuKernel *k, AuVal v, AuVal *x, int64_t *c)
{
    const AuInstr *in = kernel_at(k, v);
    if (in->op != AU_K_ADD || !integer_constant(k, kernel_operand(k, in, 1), c)) return false;
    *x = kernel_operand(k, in, 0);
    return true;
}

/* (x + c) + y and y + (x + c) are (x + y) + c; (x + c) d is x d + c d: places of a tile become a sum that they share and a constant. */
static bool gather_offset(Simplify *s, AuInstr *in)
{
    int64_t c, d;
    AuVal x, a = kernel_operand(s->k, in, 0), b = kernel_operand(s->k, in, 1);
    const bool times = in->op == AU_K_MUL, by_constant = integer_constant(s->k, b, &d);
    const AuInstr like = *in;
    if (!s->gathers || by_constant != times || (in->op != AU_K_ADD && !times)) return false;
    if (is_offset(s->k, a, &x, &c)) {
        a = pair(s, &like, (AuKOp)in->op, x, b);
    } else if (!times && is_offset(s->k, b, &x, &c)) {
        a = pair(s, &like, AU_K_ADD, a, x);
    } else {
        return false;
    }
    if (times)
        c = (int64_t)kernel_evaluate(AU_K_MUL, like.type.scalar, like.type.scalar, (uint64_t)c,
                                     (uint64_t)d, 0);
    in->op = AU_K_ADD;
    set_operand(s->k, in, 0, a);
    set_operand(s->k, in, 1, constant(s, like.type, c));
    return true;
}

/* Division by a power of two is a shift, its remainder a mask, since both round down; x - c is x +
 * -c. */
static bool change_operation(Simplify *s, AuInstr *in)
{
    int64_t c;
    if (in->count != 2 || !integer_constant(s->k, kernel_operand(s->k, in, 1), &c)) return false;
    const bool power = c > 0 && (c & (c - 1)) == 0;
    const AuKType t = in->type;
    if (in->op == AU_K_SUB) {
        in->op = AU_K_ADD;
        set_operand(s->k, in, 1, constant(s, t, (int64_t)(0 - (uint64_t)c)));
    } else if (in->op == AU_K_IDIV && power) {
        in->op = AU_K_SHR;
        set_operand(s->k, in, 1, constant(s, t, __builtin_ctzll((uint64_t)c)));
    } else if (in->op == AU_K_IMOD && power) {
        in->op = AU_K_AND;
        set_operand(s->k, in, 1, constant(s, t, c - 1));
    } else
        return false;
    return true;
}

/* One order for what commutes: constants last, else the older value first. */
static void order_operands(AuKernel *k, const AuInstr *in)
{
    if (!(kernel_op_info(in->op)->flags & AU_KF_COMM)) return;
    const AuVal a = kernel_operand(k, in, 0), b = kernel_operand(k, in, 1);
    const bool a_last = kernel_at(k, a)->op == AU_K_CONST,
               b_last = kernel_at(k, b)->op == AU_K_CONST;
    if (a_last == b_last ? a.i <= b.i : b_last) return;
    set_operand(k, in, 0, b);
    set_operand(k, in, 1, a);
}

static AuVal pure(Simplify *s, uint32_t i)
{
    AuKernel *k = s->k;
    for (bool again = true; again;) {
        AuInstr in = k->instrs[i];
        const AuFold fold = kernel_fold(k, &in, k->operands + in.first);
        if (fold.value.i) return fold.value;
        again = fold.instr.op != AU_K_NONE;
        if (again) {
            for (uint32_t n = 0; n < fold.count; n++) set_operand(k, &in, n, fold.operands[n]);
            k->instrs[i] = fold.instr;
            k->instrs[i].first = in.first;
            k->instrs[i].count = (uint8_t)fold.count;
            k->instrs[i].text = in.text;
            k->instrs[i].span = in.span;
            continue;
        }
        order_operands(k, &in);
        again = change_operation(s, &in) ||
                (in.count == 2 && (gather_constants(s, &in) || gather_offset(s, &in)));
        k->instrs[i].op = in.op;
    }
    return place(s, i);
}

/* ---- structure */

static void region(Simplify *s, uint32_t first);

static void child(Simplify *s, uint32_t owner, uint32_t first, bool other)
{
    AuKernel *k = s->k;
    k->stack[++k->depth] = (struct AuBuildPoint){.owner = owner, .other = other};
    if (other)
        k->instrs[owner].other = 0;
    else
        k->instrs[owner].body = 0;
    region(s, first);
    for (uint32_t i = other ? k->instrs[owner].other : k->instrs[owner].body; i;
         i = k->instrs[i].next)
        s->info[i].visible = false;
    k->depth--;
}

/* A branch that is known becomes straight text, and so does a loop of one turn. */
static bool straighten(Simplify *s, uint32_t i)
{
    AuKernel *k = s->k;
    const AuInstr in = k->instrs[i];
    int64_t low, high;
    const AuInstr *condition = kernel_at(k, kernel_operand(k, &in, 0));
    if (in.op == AU_K_IF) {
        if (condition->op != AU_K_CONST) return false;
        region(s, condition->imm & 1 ? in.body : in.other);
        return true;
    }
    if (in.op != AU_K_FOR) return false;
    if (!integer_constant(k, kernel_operand(k, &in, 0), &low) ||
        !integer_constant(k, kernel_operand(k, &in, 1), &high))
        return false;
    if (in.imm > 0 ? low >= high : low <= high) return true;
    if (in.imm > 0 ? low + in.imm < high : low + in.imm > high) return false;
    info_of(s, i)->value = kernel_operand(k, &in, 0);
    region(s, in.body);
    return true;
}

static void structure(Simplify *s, uint32_t i)
{
    AuKernel *k = s->k;
    const AuInstr in = k->instrs[i];
    if (straighten(s, i)) return;
    info_of(s, i)->level = (uint8_t)(k->depth + 1); /* the loop's variable */
    child(s, i, in.body, false);
    if (in.other) child(s, i, in.other, true);
    const uint8_t level = info_of(s, i)->level;
    link_at(s, i, k->depth); /* after what has moved out of it */
    info_of(s, i)->level = level;
}

static void region(Simplify *s, uint32_t first)
{
    AuKernel *k = s->k;
    for (uint32_t i = first, next; i; i = next) {
        next = k->instrs[i].next;
        const AuInstr in = k->instrs[i];
        for (uint32_t n = 0; n < in.count; n++)
            set_operand(k, &in, n, info_of(s, kernel_operand(k, &in, n).i)->value);
        if (kernel_op_info(in.op)->flags & AU_KF_REGION)
            structure(s, i);
        else {
            const AuVal value = is_pure(&in) ? pure(s, i) : place(s, i);
            info_of(s, i)->value = value;
        }
    }
}

/* ---- what is not used */

typedef struct Sweep {
    AuKernel *k;
    bool *live, *read; /* instructions; memories that something loads from */
    bool changed;      /* another memory is read: stores before may have become live */
    uint32_t *order, order_used;
} Sweep;

static bool has_effect(const Sweep *w, const AuInstr *in)
{
    const uint32_t flags = kernel_op_info(in->op)->flags;
    if (in->op == AU_K_STORE) return w->k->mems[in->mem.i].space == AU_GLOBAL || w->read[in->mem.i];
    return flags & (AU_KF_WRITE | AU_KF_ORDER | AU_KF_TEXT);
}

static void use(Sweep *w, const AuInstr *in)
{
    for (uint32_t n = 0; n < in->count; n++) w->live[kernel_operand(w->k, in, n).i] = true;
    if (!(kernel_op_info(in->op)->flags & AU_KF_READ)) return;
    const AuMem read[3] = {in->mem, in->also[0], in->also[1]};
    for (uint32_t n = 0; n <= kernel_further(kernel_op_info(in->op)); n++) {
        w->changed = w->changed || !w->read[read[n].i];
        w->read[read[n].i] = true;
    }
}

/* Backwards, so that users come before what they use. True where something in the region is live;
 * notes alone do not keep it. */
static bool mark(Sweep *w, uint32_t first)
{
    uint32_t count = 0, *order;
    bool any = false;
    for (uint32_t i = first; i; i = w->k->instrs[i].next) count++;
    order = w->order + w->order_used;
    w->order_used += count;
    for (uint32_t i = first, n = 0; i; i = w->k->instrs[i].next) order[n++] = i;
    while (count--) {
        const uint32_t i = order[count];
        const AuInstr *in = &w->k->instrs[i];
        const bool regions = kernel_op_info(in->op)->flags & AU_KF_REGION;
        const bool other = regions && mark(w, in->other), body = regions && mark(w, in->body);
        if (regions ? body || other : w->live[i] || has_effect(w, in)) {
            w->live[i] = true;
            use(w, in);
        }
        any = any || (w->live[i] && in->op != AU_K_NOTE);
    }
    return any;
}

static uint32_t sweep(Sweep *w, uint32_t first)
{
    uint32_t head = 0, *end = &head;
    for (uint32_t i = first; i; i = w->k->instrs[i].next) {
        if (!w->live[i]) continue;
        *end = i;
        end = &w->k->instrs[i].next;
        w->k->instrs[i].body = sweep(w, w->k->instrs[i].body);
        w->k->instrs[i].other = sweep(w, w->k->instrs[i].other);
    }
    *end = 0;
    return head;
}

static void remove_unused(AuKernel *k)
{
    Sweep w = {.k = k, .changed = true};
    w.live = AU_NEW_ARRAY(k->arena, bool, k->instr_count);
    w.read = AU_NEW_ARRAY(k->arena, bool, k->mem_count);
    w.order = AU_NEW_ARRAY(k->arena, uint32_t, k->instr_count);
    while (w.changed) {
        w.changed = false;
        w.order_used = 0;
        mark(&w, k->body);
    }
    k->body = sweep(&w, k->body);
}

static void simplify(AuKernel *k, bool gathers)
{
    Simplify *s = AU_NEW(k->arena, Simplify);
    const uint32_t first = k->body;
    s->k = k;
    s->gathers = gathers;
    s->info_capacity = k->instr_count + k->instr_count / 8; /* folding adds constants */
    s->info = AU_NEW_ARRAY(k->arena, Info, s->info_capacity);
    info_of(s, k->instr_count - 1);
    k->body = 0;
    k->stack[0] = (struct AuBuildPoint){0};
    region(s, first);
    remove_unused(k);
}

void kernel_simplify(AuKernel *k) { simplify(k, false); }

void kernel_gather_offsets(AuKernel *k) { simplify(k, true); }
