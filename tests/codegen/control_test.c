/* Loops, branches, vectors of a lane, products of pairs, exchange between lanes and atomics on the host. */
#include "host.h"

enum { BLOCKS = 5 };

static AuVal none(void) { return (AuVal){0}; }
static AuVal times(Case *c, AuVal a, int32_t by)
{
    return kernel_op2(c->k, AU_K_MUL, a, kernel_i32(c->k, by));
}
static AuVal plus(Case *c, AuVal a, AuVal b) { return kernel_op2(c->k, AU_K_ADD, a, b); }
static AuVal load(Case *c, AuMem mem, AuVal at)
{
    return kernel_load(c->k, mem, at, 1, none(), none());
}

static Case *open_case(Host *host, const char *label)
{
    Case *c = host_case(host, "%s", label);
    c->grid[0] = BLOCKS;
    return c;
}

static AuMem input(Host *host, Case *c, AuScalar scalar, uint32_t each)
{
    return case_tensor(host, c, "a", scalar, (uint64_t)BLOCKS * host->lanes * each, true, false);
}

static void output(Host *host, Case *c, AuScalar scalar, AuVal v, uint32_t width)
{
    const AuMem o =
        case_tensor(host, c, "o", scalar, (uint64_t)BLOCKS * host->lanes * width, false, true);
    kernel_store(c->k, o, times(c, case_place(c), (int32_t)width), v, none());
}

static AuMem accumulator(Case *c, AuScalar scalar, uint32_t count)
{
    const AuMem mem = kernel_memory(
        c->k, (AuMemory){.name = "acc", .space = AU_LANE, .scalar = scalar, .count = count});
    for (uint32_t n = 0; n < count; n++)
        kernel_store(c->k, mem, kernel_i32(c->k, (int32_t)n),
                     scalar == AU_F32 ? kernel_f32(c->k, 0) : kernel_i32(c->k, 0), none());
    return mem;
}

/* acc = 31 acc + i * (lane + 1) for i from low to high: tells order and number of the rounds. */
static void add_loop(Host *host, int32_t low, int32_t high, int32_t step, AuUnroll unroll,
                     bool from_arguments)
{
    Case *c = host_case(host, "for %d to %d step %d, unroll %d%s", low, high, step, (int)unroll,
                        from_arguments ? ", bounds are arguments" : "");
    AuKernel *k = c->k;
    c->grid[0] = BLOCKS;
    const AuMem acc = accumulator(c, AU_I32, 1);
    AuVal from = from_arguments ? case_i32(c, "low", low) : kernel_i32(k, low);
    AuVal to = from_arguments ? case_i32(c, "high", high) : kernel_i32(k, high),
          zero = kernel_i32(k, 0);
    AuVal i = kernel_for(k, from, to, step, unroll);
    AuVal term = kernel_op2(k, AU_K_MUL, i, plus(c, kernel_lane(k), kernel_i32(k, 1)));
    kernel_store(k, acc, zero, plus(c, times(c, load(c, acc, zero), 31), term), none());
    kernel_end(k);
    output(host, c, AU_I32, load(c, acc, zero), 1);
}

/* A triangle of loops with branches inside, the bounds of one the variable of another. */
static void add_nest(Host *host, AuUnroll unroll)
{
    Case *c = host_case(host, "nest, unroll %d", (int)unroll);
    AuKernel *k = c->k;
    c->grid[0] = BLOCKS;
    const AuMem a = input(host, c, AU_F32, 8), acc = accumulator(c, AU_F32, 3);
    kernel_note(k, "outer: rows");
    AuVal i =
        kernel_for(k, kernel_i32(k, 0), plus(c, kernel_block(k, 0), kernel_i32(k, 3)), 1, unroll);
    kernel_note(k, "inner, to the diagonal");
    AuVal j = kernel_for(k, kernel_i32(k, 0), i, 1, unroll);
    AuVal v = load(c, a, plus(c, times(c, j, (int32_t)host->lanes), kernel_lane(k)));
    AuVal which = kernel_op2(k, AU_K_IMOD, plus(c, i, j), kernel_i32(k, 3));
    kernel_if(k, kernel_op2(k, AU_K_LT, which, kernel_i32(k, 2)));
    kernel_store(k, acc, which, kernel_op2(k, AU_K_ADD, load(c, acc, which), v), none());
    kernel_if(k, kernel_op2(k, AU_K_EQ, j, kernel_block(k, 0)));
    kernel_store(k, acc, kernel_i32(k, 0), kernel_cvt(k, i, AU_F32), none());
    kernel_end(k);
    kernel_else(k);
    kernel_store(k, acc, kernel_i32(k, 2),
                 kernel_op2(k, AU_K_SUB, load(c, acc, kernel_i32(k, 2)), v), none());
    kernel_end(k);
    kernel_end(k);
    kernel_end(k);
    for (int32_t n = 0; n < 3; n++) output(host, c, AU_F32, load(c, acc, kernel_i32(k, n)), 1);
}

/* A vector made by one branch must not be used, as a form, by the other or after. */
static void add_forms(Host *host)
{
    Case *c = open_case(host, "forms of a value in several regions");
    AuKernel *k = c->k;
    AuVal block = kernel_block(k, 0), lane = kernel_lane(k),
          odd = kernel_op2(k, AU_K_AND, block, kernel_i32(k, 1));
    AuVal scaled = times(c, block, 7);
    const AuMem acc = accumulator(c, AU_I32, 1);
    AuVal zero = kernel_i32(k, 0);
    kernel_if(k, kernel_op2(k, AU_K_EQ, odd, zero));
    kernel_store(k, acc, zero, kernel_op2(k, AU_K_XOR, scaled, lane), none());
    kernel_else(k);
    kernel_store(k, acc, zero,
                 kernel_op2(k, AU_K_MUL, kernel_op2(k, AU_K_XOR, scaled, lane), scaled), none());
    kernel_end(k);
    kernel_for(k, zero, odd, 1, AU_UNROLL_NEVER);
    kernel_store(k, acc, zero,
                 kernel_op2(k, AU_K_XOR, load(c, acc, zero), kernel_op2(k, AU_K_OR, scaled, lane)),
                 none());
    kernel_end(k);
    output(host, c, AU_I32, plus(c, load(c, acc, zero), kernel_op2(k, AU_K_AND, scaled, lane)), 1);
}

static void add_vectors(Host *host, AuScalar scalar, uint32_t width, bool uniform)
{
    Case *c = host_case(host, "vectors [%u] of %s%s", width, kernel_scalar_name(scalar),
                        uniform ? ", uniform" : "");
    AuKernel *k = c->k;
    c->grid[0] = BLOCKS;
    const AuMem a = input(host, c, scalar, width);
    AuVal parts[16], turned[16];
    for (uint32_t n = 0; n < width; n++)
        parts[n] =
            load(c, a,
                 plus(c, times(c, uniform ? kernel_block(k, 0) : case_place(c), (int32_t)width),
                      kernel_i32(k, (int32_t)n)));
    AuVal v = kernel_vec(k, parts, width);
    for (uint32_t n = 0; n < width; n++) turned[n] = kernel_element(k, v, (n * 3 + 1) % width);
    output(host, c, scalar, kernel_vec(k, turned, width), width);
}

/* Small integers: products and sums are exact in any order. */
static void add_dot(Host *host, AuScalar scalar, bool a_uniform, bool b_uniform)
{
    Case *c = host_case(host, "dot2 of %s%s%s", kernel_scalar_name(scalar),
                        a_uniform ? ", a uniform" : "", b_uniform ? ", b uniform" : "");
    AuKernel *k = c->k;
    c->grid[0] = BLOCKS;
    AuMem mems[2] = {input(host, c, scalar, 2), input(host, c, scalar, 2)};
    for (int side = 0; side < 2; side++)
        for (uint32_t n = 0; n < BLOCKS * host->lanes * 2; n++) {
            const float x = (float)host_random(host, 201) - 100;
            ((uint16_t *)case_data(c, mems[side]))[n] =
                scalar == AU_F16 ? kernel_to_f16(x) : kernel_to_bf16(x);
        }
    const AuMem sums = input(host, c, AU_I32, 1);
    for (uint32_t n = 0; n < BLOCKS * host->lanes; n++)
        ((int32_t *)case_data(c, sums))[n] = (int32_t)host_random(host, 1000);
    AuVal s = kernel_cvt(
        k, load(c, sums, a_uniform && b_uniform ? kernel_block(k, 0) : case_place(c)), AU_F32);
    AuVal pairs[2];
    for (int side = 0; side < 2; side++) {
        AuVal at = times(c, (side ? b_uniform : a_uniform) ? kernel_block(k, 0) : case_place(c), 2);
        pairs[side] = kernel_load(k, mems[side], at, 2, none(), none());
    }
    output(host, c, AU_F32, kernel_dot2(k, s, pairs[0], pairs[1]), 1);
}

static void add_exchange(Host *host, AuScalar scalar)
{
    Case *c = host_case(host, "exchange of %s between lanes", kernel_scalar_name(scalar));
    AuKernel *k = c->k;
    c->grid[0] = BLOCKS;
    AuVal v = load(c, input(host, c, scalar, 1), case_place(c));
    const AuMem to = input(host, c, AU_I32, 1);
    for (uint32_t n = 0; n < BLOCKS * host->lanes; n++)
        ((int32_t *)case_data(c, to))[n] = (int32_t)host_random(host, host->lanes);
    const AuKType type = {(uint8_t)scalar, 1};
    for (uint32_t by = 1; by < host->lanes; by *= 2)
        output(host, c, scalar,
               kernel_emit(k, (AuInstr){.op = AU_K_SHUFFLE_XOR, .type = type, .imm = by}, &v, 1),
               1);
    AuVal anywhere[2] = {v, load(c, to, case_place(c))},
          one[2] = {v, kernel_op2(k, AU_K_AND, kernel_block(k, 0), kernel_i32(k, 3))};
    output(host, c, scalar,
           kernel_emit(k, (AuInstr){.op = AU_K_SHUFFLE, .type = type}, anywhere, 2), 1);
    output(host, c, scalar, kernel_emit(k, (AuInstr){.op = AU_K_SHUFFLE, .type = type}, one, 2), 1);
    for (uint32_t by = 1; by < host->lanes; by *= 2)
        output(host, c, scalar, kernel_both(k, v, by), 2);
}

/* Words of which lanes get two lanes' each: pairs of 16 bits, and several words at once. */
static void add_both(Host *host, AuScalar scalar)
{
    Case *c = host_case(host, "both of vectors of %s", kernel_scalar_name(scalar));
    AuKernel *k = c->k;
    c->grid[0] = BLOCKS;
    const uint32_t least = kernel_scalar_bytes(scalar) == 2 ? 2 : 1;
    for (uint32_t width = least; width <= 8; width *= 2) {
        const AuVal place = times(c, case_place(c), (int32_t)width);
        const AuVal v = kernel_load(k, input(host, c, scalar, width), place, width, none(), none());
        for (uint32_t by = 1; by < host->lanes; by *= 2)
            output(host, c, scalar, kernel_both(k, v, by), 2 * width);
    }
}

static void add_any(Host *host)
{
    Case *c = open_case(host, "any");
    AuKernel *k = c->k;
    const AuMem a = input(host, c, AU_I32, 1);
    for (uint32_t n = 0; n < BLOCKS * host->lanes; n++)
        ((int32_t *)case_data(c, a))[n] = n % (2 * host->lanes) == 3;
    AuVal some = kernel_op2(k, AU_K_NE, load(c, a, case_place(c)), kernel_i32(k, 0));
    AuVal any = kernel_emit(k, (AuInstr){.op = AU_K_ANY, .type = {AU_I1, 1}}, &some, 1);
    const AuMem acc = accumulator(c, AU_I32, 1);
    kernel_if(k, any);
    kernel_store(k, acc, kernel_i32(k, 0), kernel_i32(k, 5), none());
    kernel_end(k);
    output(host, c, AU_I32, load(c, acc, kernel_i32(k, 0)), 1);
}

/* Sums of small integers, exact in any order: at one place for all lanes, and at places that lanes share. */
static void add_atomics(Host *host, AuScalar scalar, bool masked)
{
    Case *c =
        host_case(host, "atomic add of %s%s", kernel_scalar_name(scalar), masked ? ", masked" : "");
    AuKernel *k = c->k;
    c->grid[0] = BLOCKS;
    const AuMem a = input(host, c, AU_I32, 1);
    for (uint32_t n = 0; n < BLOCKS * host->lanes; n++)
        ((int32_t *)case_data(c, a))[n] = (int32_t)host_random(host, 100);
    AuVal v = load(c, a, case_place(c)), mask = kernel_op2(k, AU_K_LT, v, kernel_i32(k, 50));
    AuVal place = kernel_op2(k, AU_K_AND, v, kernel_i32(k, 3));
    if (scalar == AU_F32) v = kernel_cvt(k, v, scalar);
    AuMem sums[2] = {case_tensor(host, c, "sum", scalar, 1, true, true),
                     case_tensor(host, c, "sums", scalar, 4, true, true)};
    memset(case_data(c, sums[0]), 0, 4), memset(case_data(c, sums[1]), 0, 16);
    for (int n = 0; n < 2; n++) {
        AuVal operands[3] = {n ? place : kernel_i32(k, 0), v, mask};
        kernel_emit(k, (AuInstr){.op = AU_K_ATOMIC_ADD, .mem = sums[n]}, operands, masked ? 3 : 2);
    }
}

/* Each lane that takes part draws a number; with one block the numbers are those of the lanes in order. */
static void add_counter(Host *host, bool masked)
{
    Case *c = host_case(host, "atomic inc%s", masked ? ", masked" : "");
    AuKernel *k = c->k;
    const AuMem counter = case_tensor(host, c, "counter", AU_I32, 1, true, true);
    memset(case_data(c, counter), 0, 4);
    AuVal mask = kernel_op2(k, AU_K_NE, kernel_op2(k, AU_K_IMOD, kernel_lane(k), kernel_i32(k, 3)),
                            kernel_i32(k, 1));
    AuVal operands[2] = {kernel_i32(k, 0), mask};
    AuVal v = kernel_emit(k, (AuInstr){.op = AU_K_ATOMIC_INC, .type = {AU_I32, 1}, .mem = counter},
                          operands, masked ? 2 : 1);
    const AuMem o = case_tensor(host, c, "o", AU_I32, host->lanes, false, true);
    kernel_store(k, o, kernel_lane(k), v, masked ? mask : none());
}

/* Every kind of argument, and the three dimensions of the grid. */
static void add_arguments(Host *host)
{
    Case *c = open_case(host, "arguments and grid");
    AuKernel *k = c->k;
    c->grid[1] = 2, c->grid[2] = 3;
    AuVal n = case_i32(c, "n", -7);
    AuVal wide = kernel_arg(k, "wide", AU_ARG_I64, 0, 1, 0),
          scale = kernel_arg(k, "scale", AU_ARG_F32, 0, 2, 0);
    const float number = -2.5f;
    c->slots[1] = (uint64_t)-5000000000;
    memcpy(&c->slots[2], &number, sizeof number);
    AuVal block =
        plus(c, kernel_block(k, 0),
             times(c, plus(c, kernel_block(k, 1), times(c, kernel_block(k, 2), 2)), BLOCKS));
    AuVal place = plus(c, times(c, block, (int32_t)host->lanes), kernel_lane(k));
    const uint64_t count = 6 * BLOCKS * host->lanes;
    const AuMem o = case_tensor(host, c, "o", AU_I64, count, false, true),
                f = case_tensor(host, c, "f", AU_F32, count, false, true);
    AuVal sum =
        kernel_op2(k, AU_K_ADD, kernel_cvt(k, kernel_op2(k, AU_K_MUL, place, n), AU_I64), wide);
    kernel_store(k, o, kernel_cvt(k, place, AU_I64), sum, none());
    kernel_store(k, f, place, kernel_op3(k, AU_K_FMA, kernel_cvt(k, place, AU_F32), scale, scale),
                 none());
}

static void fill_cases(Host *host)
{
    static const int32_t bounds[][3] = {{0, 7, 1}, {0, 7, 3}, {-4, 9, 5}, {6, -1, -1}, {9, -4, -3},
                                        {3, 3, 1}, {5, 2, 1}, {1, 4, -1}, {0, 1, 1}};
    for (uint32_t n = 0; n < sizeof bounds / sizeof *bounds; n++)
        for (uint32_t form = 0; form < 4; form++)
            add_loop(host, bounds[n][0], bounds[n][1], bounds[n][2],
                     form & 1 ? AU_UNROLL_FULL : AU_UNROLL_NEVER, form & 2);
    add_loop(host, INT32_MAX - 5, INT32_MAX, 2, AU_UNROLL_NEVER, true);
    add_loop(host, INT32_MIN + 5, INT32_MIN, -3, AU_UNROLL_NEVER, true);
    add_nest(host, AU_UNROLL_NEVER);
    add_nest(host, AU_UNROLL_FULL);
    add_forms(host);
    static const AuScalar types[] = {AU_F32, AU_I32, AU_I64, AU_F16, AU_BF16};
    for (uint32_t t = 0; t < 5; t++)
        for (uint32_t width = 2; width <= 16; width *= 2) {
            if (width > 4 && types[t] != AU_F16) continue;
            add_vectors(host, types[t], width, false);
            add_vectors(host, types[t], width, true);
        }
    for (uint32_t bits = 0; bits < 8; bits++)
        add_dot(host, bits & 4 ? AU_F16 : AU_BF16, bits & 1, bits & 2);
    add_exchange(host, AU_F32);
    add_exchange(host, AU_I32);
    add_both(host, AU_F32);
    add_both(host, AU_F16);
    add_both(host, AU_BF16);
    add_any(host);
    for (uint32_t bits = 0; bits < 4; bits++)
        add_atomics(host, bits & 2 ? AU_F32 : AU_I32, bits & 1);
    if (!host->gpu) { /* threads draw in any order */
        add_counter(host, false);
        add_counter(host, true);
    }
    add_arguments(host);
}

static void on_arch(const char *arch)
{
    Host *host = host_new(arch);
    if (!host) skip();
    fill_cases(host);
    host_run(host);
    host_free(host);
}

static void test_avx2(void **state) { (void)state, on_arch("x86-64-v3"); }
static void test_avx512(void **state) { (void)state, on_arch("x86-64-v4"); }
static void test_avx512_bf16(void **state) { (void)state, on_arch("x86-64-v4-bf16"); }
static void test_aarch64(void **state) { (void)state, on_arch("aarch64"); }
static void test_cuda(void **state) { (void)state, on_arch("sm_80"); }

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_avx2), cmocka_unit_test(test_avx512),
                                       cmocka_unit_test(test_avx512_bf16),
                                       cmocka_unit_test(test_aarch64), cmocka_unit_test(test_cuda)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
