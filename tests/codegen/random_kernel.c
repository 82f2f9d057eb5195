/* random_kernel.c - see random_kernel.h. */
#include "random_kernel.h"

enum { BLOCKS = RANDOM_BLOCKS, ROOM = 64, POOL = 16, OWN = 4 };
typedef enum Kind { SMALL, BITS, LONG, REAL, TRUTH, KINDS } Kind;
static const AuScalar scalars[KINDS] = {AU_I32, AU_I32, AU_I64, AU_F32, AU_I1};

typedef struct Maker {
    AuKernel *k;
    uint32_t seed, budget, depth;
    bool fma, exchanges;
    AuVal pool[KINDS][POOL];
    uint32_t counts[KINDS];
    AuMem inputs[KINDS], own[KINDS];
} Maker;

static const AuVal none;
static uint32_t draw(Maker *m, uint32_t below) { return test_random(&m->seed) % below; }
static AuVal pick(Maker *m, Kind kind) { return m->pool[kind][draw(m, m->counts[kind])]; }

static void keep(Maker *m, Kind kind, AuVal v)
{
    const uint32_t at = m->counts[kind] < POOL ? m->counts[kind]++ : draw(m, POOL);
    m->pool[kind][at] = v;
}

static AuVal bounded(Maker *m, AuVal v)
{
    return kernel_op2(m->k, AU_K_AND, v, kernel_i32(m->k, 1023));
}

static void make_small(Maker *m)
{
    static const AuKOp two[] = {AU_K_ADD,  AU_K_SUB,  AU_K_MUL, AU_K_MIN, AU_K_MAX,
                                AU_K_IDIV, AU_K_IMOD, AU_K_OR,  AU_K_XOR, AU_K_SHR};
    AuKernel *k = m->k;
    AuVal a = pick(m, SMALL), b = draw(m, 3) ? pick(m, SMALL) : kernel_i32(k, 1 << draw(m, 5));
    AuVal v = kernel_op2(k, two[draw(m, sizeof two / sizeof *two)], a, b);
    if (draw(m, 4) == 0) v = kernel_op1(k, draw(m, 2) ? AU_K_NEG : AU_K_ABS, v);
    if (draw(m, 6) == 0) v = kernel_cvt(k, pick(m, REAL), AU_I32);
    if (draw(m, 6) == 0) v = kernel_cvt(k, pick(m, TRUTH), AU_I32);
    if (draw(m, 6) == 0) v = pick(m, BITS);
    keep(m, SMALL, bounded(m, v));
}

static void make_bits(Maker *m)
{
    static const AuKOp two[] = {AU_K_ADD, AU_K_SUB, AU_K_MUL,  AU_K_XOR,  AU_K_AND,
                                AU_K_OR,  AU_K_SHL, AU_K_USHR, AU_K_MULHI};
    AuKernel *k = m->k;
    AuVal a = pick(m, BITS), b = draw(m, 2) ? pick(m, BITS) : pick(m, SMALL);
    AuVal v = kernel_op2(k, two[draw(m, sizeof two / sizeof *two)], a, b);
    if (draw(m, 5) == 0) v = kernel_op3(k, AU_K_SELECT, pick(m, TRUTH), a, b);
    if (draw(m, 5) == 0) v = kernel_op1(k, AU_K_NEG, a);
    keep(m, BITS, kernel_op2(k, AU_K_MULHI, v, kernel_i32(k, -766435501)));
}

static void make_long(Maker *m)
{
    static const AuKOp two[] = {AU_K_ADD, AU_K_SUB, AU_K_MIN, AU_K_IDIV, AU_K_IMOD, AU_K_AND};
    AuKernel *k = m->k;
    AuVal a = kernel_cvt(k, pick(m, SMALL), AU_I64),
          b = kernel_op2(k, AU_K_SHR, pick(m, LONG), kernel_i64(k, 2));
    keep(m, LONG, kernel_op2(k, two[draw(m, sizeof two / sizeof *two)], draw(m, 2) ? a : b, b));
}

static void make_real(Maker *m)
{
    static const AuKOp two[] = {AU_K_ADD, AU_K_SUB, AU_K_MUL, AU_K_MIN, AU_K_MAX};
    static const AuKOp one[] = {AU_K_NEG, AU_K_ABS, AU_K_FLOOR, AU_K_CEIL, AU_K_RINT};
    AuKernel *k = m->k;
    AuVal a = pick(m, REAL), b = draw(m, 4) ? pick(m, REAL) : kernel_f32(k, -0.5);
    /* Of NaN and a number machines choose either. */
    AuVal v = kernel_op2(k, two[draw(m, m->exchanges ? 3 : 5)], a, b);
    if (draw(m, 4) == 0 && m->fma) v = kernel_op3(k, AU_K_FMA, a, b, pick(m, REAL));
    if (draw(m, 4) == 0) v = kernel_op1(k, one[draw(m, 5)], v);
    if (draw(m, 5) == 0) v = kernel_op3(k, AU_K_SELECT, pick(m, TRUTH), v, a);
    if (draw(m, 6) == 0) v = kernel_cvt(k, kernel_cvt(k, v, draw(m, 2) ? AU_F16 : AU_BF16), AU_F32);
    if (draw(m, 6) == 0) v = kernel_cvt(k, pick(m, SMALL), AU_F32);
    keep(m, REAL, v);
}

static void make_truth(Maker *m)
{
    static const AuKOp compare[] = {AU_K_LT, AU_K_LE, AU_K_EQ, AU_K_NE};
    AuKernel *k = m->k;
    const Kind of = (Kind)draw(m, TRUTH);
    AuVal v = kernel_op2(k, compare[draw(m, 4)], pick(m, of), pick(m, of));
    if (draw(m, 2)) v = kernel_op2(k, draw(m, 2) ? AU_K_LAND : AU_K_LOR, v, pick(m, TRUTH));
    if (draw(m, 4) == 0) v = kernel_op1(k, AU_K_LNOT, v);
    if (draw(m, 6) == 0) v = kernel_op2(k, AU_K_EQ, v, pick(m, TRUTH));
    keep(m, TRUTH, v);
}

static AuVal index_below(Maker *m, uint32_t room)
{
    AuKernel *k = m->k;
    if (draw(m, 3) == 0) return kernel_i32(k, (int32_t)draw(m, room));
    AuVal index = kernel_op2(k, AU_K_AND, pick(m, SMALL), kernel_i32(k, (int32_t)room - 1));
    return draw(m, 4) ? index : kernel_cvt(k, index, AU_I64);
}

static void make_access(Maker *m)
{
    const Kind kind = (Kind)draw(m, KINDS);
    AuKernel *k = m->k;
    AuVal mask = draw(m, 2) ? none : pick(m, TRUTH),
          other = mask.i && draw(m, 2) ? pick(m, kind) : none;
    if (draw(m, 2)) {
        kernel_store(k, m->own[kind], index_below(m, OWN), pick(m, kind), mask);
    } else {
        const bool own = kind == TRUTH || draw(m, 2);
        const AuVal v = kernel_load(k, own ? m->own[kind] : m->inputs[kind],
                                    index_below(m, own ? OWN : ROOM), 1, mask, other);
        keep(m, kind,
             kind == SMALL  ? bounded(m, v)
             : kind == BITS ? kernel_op2(k, AU_K_MULHI, v, kernel_i32(k, 77777777))
                            : v);
    }
}

/* Of the lane at a distance, of one lane for all, of a lane that each names; or whether any has it. */
static void make_exchange(Maker *m)
{
    AuKernel *k = m->k;
    const Kind kind = draw(m, 2) ? BITS : REAL;
    const int64_t distance = 1 + draw(m, k->lanes - 1);
    AuVal v = pick(m, kind), of[2] = {v, none};
    if (draw(m, 6) == 0) {
        of[0] = pick(m, TRUTH);
        v = kernel_emit(k, (AuInstr){.op = AU_K_ANY, .type = {AU_I1, 1}}, of, 1);
        keep(m, SMALL, kernel_cvt(k, v, AU_I32));
        return;
    }
    if (draw(m, 4) == 0) {
        const uint32_t bit = 1u << draw(m, (uint32_t)__builtin_ctz(k->lanes));
        keep(m, kind, kernel_element(k, kernel_both(k, v, bit), draw(m, 2)));
        return;
    }
    of[1] = draw(m, 2)
                ? kernel_i32(k, (int32_t)draw(m, k->lanes))
                : kernel_op2(k, AU_K_AND, pick(m, SMALL), kernel_i32(k, (int32_t)k->lanes - 1));
    const bool by_xor = draw(m, 3);
    keep(m, kind,
         by_xor
             ? kernel_emit(
                   k,
                   (AuInstr){.op = AU_K_SHUFFLE_XOR, .imm = distance, .type = {scalars[kind], 1}},
                   of, 1)
             : kernel_emit(k, (AuInstr){.op = AU_K_SHUFFLE, .type = {scalars[kind], 1}}, of, 2));
}

static void make_block(Maker *m);

/* What a region defines does not leave it; conditions and bounds come from the block, so that they are uniform. */
static void make_region(Maker *m)
{
    AuKernel *k = m->k;
    const Maker outside = *m;
    const AuVal block = kernel_block(k, 0);
    m->depth++;
    if (draw(m, 2)) {
        kernel_if(k, kernel_op2(k, AU_K_LT, block, kernel_i32(k, (int32_t)draw(m, BLOCKS + 1))));
        make_block(m);
        memcpy(m->pool, outside.pool, sizeof m->pool);
        memcpy(m->counts, outside.counts, sizeof m->counts);
        if (draw(m, 2)) {
            kernel_else(k);
            make_block(m);
        }
    } else {
        const int32_t step = 1 + (int32_t)draw(m, 2), bound = (int32_t)draw(m, 5);
        const AuVal start = draw(m, 2) ? block : kernel_i32(k, 0), end = kernel_i32(k, bound);
        const bool up = draw(m, 2);
        keep(m, SMALL,
             kernel_for(k, up ? start : end, up ? end : start, up ? step : -step,
                        (AuUnroll)draw(m, 3)));
        make_block(m);
    }
    kernel_end(k);
    memcpy(m->pool, outside.pool, sizeof m->pool);
    memcpy(m->counts, outside.counts, sizeof m->counts);
    m->depth--;
}

static void make_block(Maker *m)
{
    static void (*const makes[KINDS])(Maker *) = {make_small, make_bits, make_long, make_real,
                                                  make_truth};
    for (uint32_t n = 4 + draw(m, 8); n && m->budget; n--) {
        m->budget--;
        if (m->exchanges && draw(m, 6) == 0) make_exchange(m);
        const uint32_t what = draw(m, 12);
        if (what < 7)
            makes[draw(m, KINDS)](m);
        else if (what < 10 || m->depth == 3)
            make_access(m);
        else
            make_region(m);
    }
}

AuKernel *random_kernel(Bench *b, uint32_t seed, uint32_t lanes, bool with_fma)
{
    Maker m = {.k = kernel_new(b->arena, "random_kernel", lanes, 1),
               .seed = seed * 2654435761u,
               .budget = 80,
               .fma = with_fma,
               .exchanges = lanes > RANDOM_LANES};
    AuKernel *k = m.k;
    const AuVal lane = kernel_lane(k);
    for (Kind n = 0; n < KINDS; n++) {
        const bool truth = n == TRUTH;
        if (!truth) m.inputs[n] = kernel_tensor(k, "in", scalars[n], true, false, 0, 0);
        m.own[n] = kernel_memory(
            k, (AuMemory){.name = "own", .space = AU_LANE, .scalar = scalars[n], .count = OWN});
        AuVal v = truth ? kernel_op2(k, AU_K_LT, lane, kernel_i32(k, 3))
                        : kernel_load(k, m.inputs[n], lane, 1, none, none);
        if (n == SMALL) v = bounded(&m, v);
        if (n == BITS) v = kernel_op2(k, AU_K_XOR, kernel_op2(k, AU_K_MULHI, v, v), v);
        keep(&m, n, v);
        for (int32_t i = 0; i < OWN; i++) kernel_store(k, m.own[n], kernel_i32(k, i), v, none);
    }
    while (m.budget) make_block(&m);
    const AuVal place = kernel_op2(
        k, AU_K_ADD, kernel_op2(k, AU_K_MUL, kernel_block(k, 0), kernel_i32(k, (int32_t)lanes)),
        lane);
    const AuVal first = kernel_op2(k, AU_K_MUL, place, kernel_i32(k, OWN + 1));
    for (Kind n = 0; n < KINDS; n++) {
        const AuMem out =
            kernel_tensor(k, "out", n == TRUTH ? AU_I32 : scalars[n], false, true, 0, 0);
        for (int32_t i = 0; i <= OWN; i++) {
            AuVal v =
                i == OWN ? pick(&m, n) : kernel_load(k, m.own[n], kernel_i32(k, i), 1, none, none);
            if (n == TRUTH) v = kernel_cvt(k, v, AU_I32);
            kernel_store(k, out, kernel_op2(k, AU_K_ADD, first, kernel_i32(k, i)), v, none);
        }
    }
    return k;
}

AuKBuffer *random_buffers(Bench *b, const AuKernel *k, uint32_t seed)
{
    AuKBuffer *buffers = AU_NEW_ARRAY(b->arena, AuKBuffer, k->arg_count);
    for (uint32_t n = 0; n < k->arg_count; n++) {
        const AuMemory *m = &k->mems[k->args[n].mem.i];
        const uint64_t count = m->writes ? BLOCKS * k->lanes * (OWN + 1) : ROOM;
        buffers[n] = (AuKBuffer){
            .data = au_alloc(b->arena, count * 8), .count = count, .initialised = !m->writes};
        if (!m->writes) test_fill(buffers[n].data, m->scalar, count, seed + n);
    }
    return buffers;
}
