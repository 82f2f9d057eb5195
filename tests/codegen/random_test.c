/* Random kernels on the host against the interpreter: values of every lane kind, loads and stores with masks, arrays of lanes and
 * of the executor, nested loops and branches. `host_random_test [SEED [COUNT]]`; a failure names the seed of its kernel. */
#include "host.h"

enum { POOL = 24, ROOM = 64, BLOCKS = 2, KINDS = 4 };
static const AuScalar kinds[KINDS] = {AU_I32, AU_F32, AU_I64, AU_I1};

typedef struct Maker {
    Host *host;
    Case *c;
    AuKernel *k;
    AuVal pool[KINDS][POOL]; /* values that may be used here */
    uint32_t counts[KINDS];
    AuMem inputs[KINDS], lanes[KINDS], exec;
    uint32_t depth, budget;
} Maker;

static AuVal none(void) { return (AuVal){0}; }
static uint32_t draw(Maker *m, uint32_t below) { return host_random(m->host, below); }

static void keep(Maker *m, uint32_t kind, AuVal v)
{
    const uint32_t at = m->counts[kind] < POOL ? m->counts[kind]++ : draw(m, POOL);
    m->pool[kind][at] = v;
}

static AuVal pick(Maker *m, uint32_t kind) { return m->pool[kind][draw(m, m->counts[kind])]; }

/* An index below ROOM (a power of two): constant, uniform, affine or varying. */
static AuVal index_below(Maker *m, uint32_t room)
{
    AuKernel *k = m->k;
    if (draw(m, 4) == 0) return kernel_i32(k, (int32_t)draw(m, room));
    const int32_t lanes = (int32_t)m->host->lanes;
    if (draw(m, 3) == 0 && room >= 4u * (uint32_t)lanes) {
        AuVal step =
            kernel_op2(k, AU_K_MUL, kernel_lane(k), kernel_i32(k, 1 + (int32_t)draw(m, 2)));
        AuVal start = kernel_op2(k, AU_K_AND, pick(m, 0), kernel_i32(k, 15));
        return kernel_op2(k, AU_K_ADD, step, start);
    }
    AuVal index = kernel_op2(k, AU_K_AND, pick(m, 0), kernel_i32(k, (int32_t)room - 1));
    return draw(m, 3) ? index : kernel_cvt(k, index, AU_I64);
}

static void make_op(Maker *m)
{
    static const AuKOp of_int[] = {AU_K_ADD,   AU_K_SUB, AU_K_MUL, AU_K_IDIV, AU_K_IMOD,
                                   AU_K_MULHI, AU_K_MIN, AU_K_MAX, AU_K_AND,  AU_K_OR,
                                   AU_K_XOR,   AU_K_SHL, AU_K_SHR, AU_K_USHR};
    static const AuKOp of_float[] = {AU_K_ADD, AU_K_SUB, AU_K_MUL, AU_K_DIV,
                                     AU_K_MIN, AU_K_MAX}; /* the last two may choose at a NaN */
    static const AuKOp single[] = {AU_K_NEG, AU_K_ABS, AU_K_FLOOR, AU_K_CEIL, AU_K_RINT, AU_K_SQRT};
    static const AuKOp compare[] = {AU_K_LT, AU_K_LE, AU_K_EQ, AU_K_NE};
    AuKernel *k = m->k;
    const uint32_t kind = draw(m, KINDS);
    const bool is_float = kinds[kind] == AU_F32;
    AuVal a = pick(m, kind), b = pick(m, kind);
    if (kinds[kind] == AU_I1) {
        AuVal v = draw(m, 3) ? kernel_op2(k, draw(m, 2) ? AU_K_LAND : AU_K_LOR, a, b)
                             : kernel_op1(k, AU_K_LNOT, a);
        keep(m, kind, v);
        return;
    }
    switch (draw(m, 6)) {
    case 0: keep(m, 3, kernel_op2(k, compare[draw(m, 4)], a, b)); return;
    case 1: keep(m, kind, kernel_op3(k, AU_K_SELECT, pick(m, 3), a, b)); return;
    case 2: keep(m, kind, kernel_op1(k, single[draw(m, is_float ? 6 : 2)], a)); return;
    case 3:
        if (is_float)
            keep(m, kind, kernel_op3(k, AU_K_FMA, a, b, pick(m, kind)));
        else
            keep(m, 2 - kind, kernel_cvt(k, a, kinds[2 - kind]));
        return;
    case 4: { /* to and from f32, inside the range of i32 */
        AuVal x = pick(m, 1);
        x = kernel_op2(k, AU_K_MAX, kernel_op2(k, AU_K_MIN, x, kernel_f32(k, 1e6)),
                       kernel_f32(k, -1e6));
        if (draw(m, 2))
            keep(m, 0, kernel_cvt(k, x, AU_I32));
        else
            keep(m, 1, kernel_cvt(k, pick(m, draw(m, 2) ? 0 : 3), AU_F32));
        return;
    }
    default:
        keep(m, kind,
             kernel_op2(k, is_float ? of_float[draw(m, m->host->gpu ? 4 : 6)] : of_int[draw(m, 14)],
                        a, b));
        return;
    }
}

static void make_load(Maker *m)
{
    AuKernel *k = m->k;
    const uint32_t kind = draw(m, KINDS), mem = draw(m, 3);
    AuVal mask = draw(m, 3) ? none() : pick(m, 3),
          other = mask.i && draw(m, 2) ? pick(m, kind) : none();
    if (mem == 0 && kinds[kind] == AU_F32)
        keep(m, kind, kernel_load(k, m->exec, index_below(m, ROOM), 1, mask, other));
    else if (mem == 1)
        keep(m, kind, kernel_load(k, m->lanes[kind], index_below(m, 8), 1, mask, other));
    else
        keep(m, kind, kernel_load(k, m->inputs[kind], index_below(m, ROOM), 1, mask, other));
}

/* Lanes write their own arrays anywhere, the executor's where no other lane does. */
static void make_store(Maker *m)
{
    AuKernel *k = m->k;
    const uint32_t kind = draw(m, KINDS);
    AuVal mask = draw(m, 2) ? none() : pick(m, 3);
    if (draw(m, 3)) {
        kernel_store(k, m->lanes[kind], index_below(m, 8), pick(m, kind), mask);
        return;
    }
    AuVal lane = kernel_lane(k), start = kernel_i32(k, (int32_t)draw(m, ROOM - m->host->lanes));
    if (draw(m, 4) == 0)
        lane = kernel_op2(k, AU_K_SUB, kernel_i32(k, (int32_t)m->host->lanes - 1), lane);
    if (draw(m, 4) == 0) lane = kernel_op2(k, AU_K_XOR, lane, kernel_i32(k, 1));
    kernel_barrier(k, 1); /* for threads: a store must not meet what other lanes do */
    kernel_store(k, m->exec, kernel_op2(k, AU_K_ADD, lane, start), pick(m, 1), mask);
    kernel_barrier(k, 1);
}

static void make_block(Maker *m);

/* What a region defines does not leave it; conditions and bounds are uniform by way of any. */
static void make_region(Maker *m)
{
    Maker outside = *m;
    AuKernel *k = m->k;
    m->depth++;
    if (draw(m, 2)) {
        AuVal some = pick(m, 3);
        kernel_if(k, kernel_emit(k, (AuInstr){.op = AU_K_ANY, .type = {AU_I1, 1}}, &some, 1));
        make_block(m);
        if (draw(m, 2)) {
            memcpy(m->pool, outside.pool, sizeof m->pool);
            memcpy(m->counts, outside.counts, sizeof m->counts);
            kernel_else(k);
            make_block(m);
        }
    } else {
        AuVal block = kernel_block(k, 0), some = kernel_op2(k, AU_K_AND, block, kernel_i32(k, 3));
        const int32_t step = draw(m, 2) ? 1 + (int32_t)draw(m, 2) : -1 - (int32_t)draw(m, 2);
        AuVal low = draw(m, 2) ? some : kernel_i32(k, (int32_t)draw(m, 3)),
              high = kernel_i32(k, (int32_t)draw(m, 6));
        keep(m, 0,
             kernel_for(k, step > 0 ? low : high, step > 0 ? high : low, step,
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
    for (uint32_t n = 4 + draw(m, 8); n && m->budget; n--) {
        m->budget--;
        const uint32_t what = draw(m, 12);
        if (what < 6)
            make_op(m);
        else if (what < 8)
            make_load(m);
        else if (what < 10 || m->depth == 3)
            make_store(m);
        else
            make_region(m);
    }
}

static void add_kernel(Host *host, uint32_t seed)
{
    Maker m = {.host = host, .budget = 60};
    host->random = seed * 0x9e3779b97f4a7c15u;
    m.c = host_case(host, "seed %u", seed);
    m.c->grid[0] = BLOCKS;
    AuKernel *k = m.k = m.c->k;
    AuVal lane = kernel_lane(k), block = kernel_block(k, 0);
    for (uint32_t n = 0; n < KINDS; n++) {
        m.inputs[n] = case_tensor(host, m.c, "in", kinds[n], ROOM, true, false);
        m.lanes[n] = kernel_memory(
            k, (AuMemory){.name = "own", .space = AU_LANE, .scalar = kinds[n], .count = 8});
        keep(&m, n, kernel_load(k, m.inputs[n], lane, 1, none(), none()));
        keep(&m, n, kernel_load(k, m.inputs[n], block, 1, none(), none()));
        for (int32_t i = 0; i < 8; i++)
            kernel_store(k, m.lanes[n], kernel_i32(k, i), m.pool[n][draw(&m, 2)], none());
    }
    m.exec = kernel_memory(
        k, (AuMemory){.name = "shared", .space = AU_EXEC, .scalar = AU_F32, .count = ROOM});
    for (int32_t i = 0; i < ROOM; i += (int32_t)host->lanes)
        kernel_store(k, m.exec, kernel_op2(k, AU_K_ADD, lane, kernel_i32(k, i)), m.pool[1][0],
                     none());
    kernel_barrier(k, 1);
    keep(&m, 0, lane);
    keep(&m, 0, block);
    make_block(&m);
    while (m.budget > 20) make_region(&m);
    for (uint32_t n = 0; n < KINDS; n++) {
        const AuMem o =
            case_tensor(host, m.c, "out", kinds[n], 9 * BLOCKS * host->lanes, false, true);
        AuVal place = kernel_op2(k, AU_K_MUL, case_place(m.c), kernel_i32(k, 9));
        for (int32_t i = 0; i < 9; i++) {
            AuVal v = i < 8 ? kernel_load(k, m.lanes[n], kernel_i32(k, i), 1, none(), none())
                            : pick(&m, n);
            kernel_store(k, o, kernel_op2(k, AU_K_ADD, place, kernel_i32(k, i)), v, none());
        }
    }
    const AuMem o = case_tensor(host, m.c, "exec", AU_F32, ROOM * BLOCKS, false, true);
    for (int32_t i = 0; i < ROOM; i += (int32_t)host->lanes) {
        AuVal at = kernel_op2(k, AU_K_ADD, lane, kernel_i32(k, i)),
              to = kernel_op2(k, AU_K_MUL, block, kernel_i32(k, ROOM));
        kernel_store(k, o, kernel_op2(k, AU_K_ADD, to, at),
                     kernel_load(k, m.exec, at, 1, none(), none()), none());
    }
}

static uint32_t first_seed = 1, kernels = 10;

static void on_arch(const char *arch, uint32_t optimize)
{
    Host *host = host_new(arch);
    if (!host) skip();
    host->optimize = optimize;
    for (uint32_t n = 0; n < kernels; n++) add_kernel(host, first_seed + n);
    host_run(host);
    host_free(host);
}

static void test_avx2(void **state) { (void)state, on_arch("x86-64-v3", 3); }
static void test_avx512(void **state) { (void)state, on_arch("x86-64-v4", 2); }
static void test_avx512_plain(void **state) { (void)state, on_arch("x86-64-v4", 0); }
static void test_aarch64(void **state) { (void)state, on_arch("aarch64", 1); }
static void test_cuda_first(void **state) { (void)state, on_arch("sm_70", 3); }
static void test_cuda(void **state) { (void)state, on_arch("sm_80", 2); }

int main(int count, char **arguments)
{
    if (count > 1) first_seed = (uint32_t)strtoul(arguments[1], NULL, 10);
    if (count > 2) kernels = (uint32_t)strtoul(arguments[2], NULL, 10);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_avx2),         cmocka_unit_test(test_avx512),
        cmocka_unit_test(test_avx512_plain), cmocka_unit_test(test_aarch64),
        cmocka_unit_test(test_cuda),         cmocka_unit_test(test_cuda_first)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
