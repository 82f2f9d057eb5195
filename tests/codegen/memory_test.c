/* Loads and stores on the host: every element type, place of lanes, width and mask, in every memory. */
#include "host.h"

enum { BLOCKS = 3, ROOM = 8 /* elements of the memory for each lane and element of a vector */ };

typedef enum Path { SAME, SIDE_BY_SIDE, BACKWARDS, APART, BACK_APART, ANYWHERE, PATHS } Path;
static const char *const paths[PATHS] = {"same",  "side by side",   "backwards",
                                         "apart", "back and apart", "anywhere"};
typedef enum Mask { NONE, OF_BLOCK, OF_LANE, TAIL, MASKS } Mask;
static const char *const masks[MASKS] = {"all", "of block", "of lane", "tail"};

static const AuScalar types[] = {AU_F32, AU_I32, AU_I64, AU_F16, AU_BF16, AU_U8, AU_I1};
enum { TYPES = sizeof types / sizeof *types };

static AuVal times(Case *c, AuVal a, int32_t by)
{
    return kernel_op2(c->k, AU_K_MUL, a, kernel_i32(c->k, by));
}
static AuVal plus(Case *c, AuVal a, AuVal b) { return kernel_op2(c->k, AU_K_ADD, a, b); }

/* A different place in the memory for every lane, but for SAME; [width] elements fit there. */
static AuVal index_on(Host *host, Case *c, Path path, int32_t width)
{
    AuKernel *k = c->k;
    const int32_t lanes = (int32_t)host->lanes;
    AuVal lane = kernel_lane(k), start = times(c, kernel_block(k, 0), lanes * width * ROOM);
    AuVal end = plus(c, start, kernel_i32(k, (lanes - 1) * width * ROOM));
    switch (path) {
    case SAME: return plus(c, start, kernel_i32(k, 3));
    case SIDE_BY_SIDE: return plus(c, start, times(c, lane, width));
    case BACKWARDS: return kernel_op2(k, AU_K_SUB, end, times(c, lane, width));
    case APART: return plus(c, start, times(c, lane, 3 * width));
    case BACK_APART: return kernel_op2(k, AU_K_SUB, end, times(c, lane, 5 * width));
    case ANYWHERE:
    case PATHS: break;
    }
    const AuMem mem = case_tensor(host, c, "index", AU_I32, (uint64_t)lanes, true, false);
    int32_t *to = case_data(c, mem);
    for (int32_t n = 0; n < lanes; n++)
        to[n] = (n * 5 + 3) % lanes * width * 2 + (int32_t)host_random(host, (uint32_t)width + 1);
    return plus(c, start, kernel_load(k, mem, lane, 1, (AuVal){0}, (AuVal){0}));
}

static AuVal mask_on(Host *host, Case *c, Mask mask)
{
    AuKernel *k = c->k;
    switch (mask) {
    case NONE:
    case MASKS: break;
    case OF_BLOCK: return kernel_op2(k, AU_K_NE, kernel_block(k, 0), kernel_i32(k, 1));
    case TAIL: return kernel_op2(k, AU_K_LT, kernel_lane(k), times(c, kernel_block(k, 0), 2));
    case OF_LANE: {
        const uint64_t count = BLOCKS * host->lanes;
        return kernel_load(k, case_tensor(host, c, "mask", AU_I1, count, true, false),
                           case_place(c), 1, (AuVal){0}, (AuVal){0});
    }
    }
    return (AuVal){0};
}

static Case *open_case(Host *host, const char *what, AuScalar scalar, Path path, Mask mask,
                       uint32_t width, bool exec)
{
    Case *c = host_case(host, "%s %s[%u] %s, mask %s%s", what, kernel_scalar_name(scalar), width,
                        paths[path], masks[mask], exec ? ", memory of the executor" : "");
    c->grid[0] = BLOCKS;
    return c;
}

/* Copies the block's part of a tensor into a memory of the executor, or back; places keep their index in the tensor. */
static void copy(Host *host, Case *c, AuMem from, AuMem to, uint32_t count, bool into)
{
    AuKernel *k = c->k;
    const int32_t lanes = (int32_t)host->lanes;
    AuVal n = kernel_for(k, kernel_i32(k, 0), kernel_i32(k, (int32_t)count), lanes, AU_UNROLL_AUTO);
    AuVal in_block = plus(c, n, kernel_lane(k));
    AuVal in_tensor = plus(c, times(c, kernel_block(k, 0), (int32_t)count), in_block);
    AuVal v = kernel_load(k, from, into ? in_tensor : in_block, 1, (AuVal){0}, (AuVal){0});
    kernel_store(k, to, into ? in_block : in_tensor, v, (AuVal){0});
    kernel_end(k);
    kernel_barrier(k, 1);
}

static AuMem exec_memory(Case *c, AuScalar scalar, uint32_t count)
{
    return kernel_memory(
        c->k, (AuMemory){.name = "local", .space = AU_EXEC, .scalar = scalar, .count = count});
}

/* An index in the block's part. */
static AuVal within(Case *c, AuVal index, uint32_t count)
{
    return kernel_op2(c->k, AU_K_SUB, index, times(c, kernel_block(c->k, 0), (int32_t)count));
}

static void add_load(Host *host, AuScalar scalar, Path path, Mask mask, uint32_t width, bool exec,
                     uint32_t other)
{
    Case *c = open_case(host, "load", scalar, path, mask, width, exec);
    AuKernel *k = c->k;
    const uint32_t part = host->lanes * width * ROOM, outs = BLOCKS * host->lanes * width;
    AuMem mem = case_tensor(host, c, "a", scalar, BLOCKS * part, true, false);
    AuVal taken = mask_on(host, c, mask), index = index_on(host, c, path, (int32_t)width),
          rest = {0};
    AuVal place = times(c, case_place(c), (int32_t)width);
    if (other && mask != NONE) {
        const AuMem others = case_tensor(host, c, "other", scalar, outs, true, false);
        rest = kernel_load(k, others, other == 1 ? kernel_block(k, 0) : place, width, (AuVal){0},
                           (AuVal){0});
    }
    if (exec) {
        const AuMem local = exec_memory(c, scalar, part);
        copy(host, c, mem, local, part, true);
        mem = local;
        index = within(c, index, part);
    }
    AuVal v = kernel_load(k, mem, index, width, taken, rest);
    kernel_store(k, case_tensor(host, c, "o", scalar, outs, false, true), place, v, (AuVal){0});
}

static void add_store(Host *host, AuScalar scalar, Path path, Mask mask, uint32_t width, bool exec,
                      bool uniform)
{
    Case *c = open_case(host, uniform ? "store uniform" : "store", scalar, path, mask, width, exec);
    AuKernel *k = c->k;
    const uint32_t part = host->lanes * width * ROOM;
    AuMem source = case_tensor(host, c, "a", scalar, BLOCKS * host->lanes * width, true, false);
    AuMem mem = case_tensor(host, c, "o", scalar, BLOCKS * part, true, true), local = {0};
    AuVal place = times(c, uniform ? kernel_block(k, 0) : case_place(c), (int32_t)width);
    AuVal v = kernel_load(k, source, place, width, (AuVal){0}, (AuVal){0});
    AuVal taken = mask_on(host, c, mask), index = index_on(host, c, path, (int32_t)width);
    if (path == SAME) { /* only one lane may write there */
        AuVal one = kernel_op2(k, AU_K_EQ, kernel_lane(k), kernel_i32(k, 2));
        taken = taken.i ? kernel_op2(k, AU_K_LAND, taken, one) : one;
    }
    if (exec) {
        local = exec_memory(c, scalar, part);
        copy(host, c, mem, local, part, true);
        index = within(c, index, part);
    }
    kernel_store(k, exec ? local : mem, index, v, taken);
    kernel_barrier(k, 1);
    if (exec) copy(host, c, local, mem, part, false);
}

static void fill_cases(Host *host)
{
    for (uint32_t t = 0; t < TYPES; t++)
        for (uint32_t path = 0; path < PATHS; path++)
            for (uint32_t mask = 0; mask < MASKS; mask++) {
                /* 1, 2, 4: each meets each of the others; four gathered elements of 16 lanes are much code */
                const bool gathered = path != SAME && path != SIDE_BY_SIDE;
                const uint32_t width =
                    1u << (t + path + mask) % (gathered && types[t] != AU_F32 ? 2 : 3);
                const bool exec = (t + mask) % 2;
                add_load(host, types[t], (Path)path, (Mask)mask, 1, exec, (t + path) % 3);
                add_load(host, types[t], (Path)path, (Mask)mask, width, !exec, (t + path + 1) % 3);
                add_store(host, types[t], (Path)path, (Mask)mask, 1, exec, path % 2);
                add_store(host, types[t], (Path)path, (Mask)mask, width, !exec, t % 2);
            }
}

/* Arrays of a lane: constant and computed indices, masks, content that is the same in all lanes and content that is not. */
static void add_lane_array(Host *host, AuScalar scalar, bool varies, bool masked, bool full)
{
    Case *c =
        host_case(host, "lane array of %s%s%s%s", kernel_scalar_name(scalar),
                  varies ? ", varying" : "", masked ? ", masked" : "", full ? ", unrolled" : "");
    AuKernel *k = c->k;
    enum { COUNT = 6 };
    c->grid[0] = BLOCKS;
    const AuMem a = case_tensor(host, c, "a", scalar, 64 * host->lanes, true, false);
    const AuMem array = kernel_memory(
        k, (AuMemory){.name = "array", .space = AU_LANE, .scalar = scalar, .count = COUNT});
    const AuMem o = case_tensor(host, c, "o", scalar, BLOCKS * COUNT * host->lanes, false, true);
    AuVal lane = kernel_lane(k), block = kernel_block(k, 0), none = {0};
    AuVal odd =
        kernel_op2(k, AU_K_EQ, kernel_op2(k, AU_K_AND, varies ? lane : block, kernel_i32(k, 1)),
                   kernel_i32(k, 1));
    const AuUnroll unroll = full ? AU_UNROLL_FULL : AU_UNROLL_NEVER;
    for (int round = 0; round < (masked ? 2 : 1); round++) {
        AuVal n = kernel_for(k, kernel_i32(k, 0), kernel_i32(k, COUNT), 1, unroll);
        AuVal from = plus(c, plus(c, times(c, n, 5 + round), block),
                          varies ? times(c, lane, 2) : kernel_i32(k, 0));
        kernel_store(k, array, n, kernel_load(k, a, from, 1, none, none), round ? odd : none);
        kernel_end(k);
    }
    AuVal n = kernel_for(k, kernel_i32(k, COUNT - 1), kernel_i32(k, -1), -1, unroll);
    AuVal v = kernel_load(k, array, n, 1, masked ? odd : none, none);
    AuVal at = plus(c, times(c, plus(c, times(c, block, COUNT), n), (int32_t)host->lanes), lane);
    kernel_store(k, o, at, v, none);
    kernel_end(k);
}

/* Each lane reads and writes its own array at an index of its own, in pairs too. */
static void add_lane_lookup(Host *host, uint32_t width)
{
    Case *c = host_case(host, "lane array at an index of the lane, [%u]", width);
    AuKernel *k = c->k;
    const int32_t count = 8, lanes = (int32_t)host->lanes, w = (int32_t)width;
    const AuMem a = case_tensor(host, c, "a", AU_I32, (uint64_t)(count * lanes), true, false);
    const AuMem array = kernel_memory(
        k,
        (AuMemory){.name = "array", .space = AU_LANE, .scalar = AU_I32, .count = (uint32_t)count});
    const AuMem o = case_tensor(host, c, "o", AU_I32, (uint64_t)(count * lanes), false, true);
    AuVal lane = kernel_lane(k), none = {0};
    AuVal n = kernel_for(k, kernel_i32(k, 0), kernel_i32(k, count), w, AU_UNROLL_FULL);
    AuVal turned = kernel_op2(k, AU_K_AND, plus(c, n, times(c, lane, w)), kernel_i32(k, count - 1));
    AuVal from = plus(c, times(c, n, lanes), times(c, lane, w));
    kernel_store(k, array, turned, kernel_load(k, a, from, width, none, none), none);
    kernel_end(k);
    n = kernel_for(k, kernel_i32(k, 0), kernel_i32(k, count), w, AU_UNROLL_NEVER);
    turned = kernel_op2(k, AU_K_AND, kernel_op2(k, AU_K_XOR, n, times(c, lane, w)),
                        kernel_i32(k, count - 1));
    AuVal both = kernel_op2(k, AU_K_ADD, kernel_load(k, array, turned, width, none, none),
                            kernel_load(k, array, n, width, none, none));
    kernel_store(k, o, plus(c, times(c, n, lanes), times(c, lane, w)), both, none);
    kernel_end(k);
}

static void fill_lane_cases(Host *host)
{
    for (uint32_t t = 0; t < TYPES; t++)
        for (uint32_t bits = 0; bits < 8; bits++)
            add_lane_array(host, types[t], bits & 1, bits & 2, bits & 4);
    add_lane_lookup(host, 1);
    add_lane_lookup(host, 2);
}

static void on_arch(const char *arch, void (*fill)(Host *))
{
    Host *host = host_new(arch);
    if (!host) skip();
    fill(host);
    host_run(host);
    host_free(host);
}

static void test_avx2(void **state) { (void)state, on_arch("x86-64-v3", fill_cases); }
static void test_avx512(void **state) { (void)state, on_arch("x86-64-v4", fill_cases); }
static void test_aarch64(void **state) { (void)state, on_arch("aarch64", fill_cases); }
static void test_lanes_avx2(void **state) { (void)state, on_arch("x86-64-v3", fill_lane_cases); }
static void test_lanes_avx512(void **state) { (void)state, on_arch("x86-64-v4", fill_lane_cases); }
static void test_lanes_aarch64(void **state) { (void)state, on_arch("aarch64", fill_lane_cases); }

static void test_cuda(void **state) { (void)state, on_arch("sm_80", fill_cases); }
static void test_lanes_cuda(void **state) { (void)state, on_arch("sm_80", fill_lane_cases); }

/* An argument: which tests, as cmocka's filter. */
int main(int count, char **arguments)
{
    cmocka_set_test_filter(count > 1 ? arguments[1] : NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_avx2),         cmocka_unit_test(test_avx512),
        cmocka_unit_test(test_aarch64),      cmocka_unit_test(test_lanes_avx2),
        cmocka_unit_test(test_lanes_avx512), cmocka_unit_test(test_lanes_aarch64),
        cmocka_unit_test(test_cuda),         cmocka_unit_test(test_lanes_cuda)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
