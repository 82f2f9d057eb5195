/* Products of matrices on AMX against the interpreter: every shape of blocks, strides and places that are no multiples of
 * anything, sums added to and begun anew. Numbers are small integers, so that sums are exact in any order. */
#include "host.h"

typedef struct Shape {
    int32_t rows, vectors, depth;
    int32_t c_stride, a_stride, b_stride;
    bool add;
} Shape;

static uint16_t small(Host *host) { return kernel_to_bf16((float)host_random(host, 17) - 8); }

/* Rows of lanes between a tensor and memory of lanes. */
static void copy_lanes(Case *c, AuMem tensor, AuMem mem, uint32_t count, bool out)
{
    AuKernel *k = c->k;
    const AuVal none = {0}, at = kernel_for(k, kernel_i32(k, 0), kernel_i32(k, (int32_t)count), 1,
                                            AU_UNROLL_NEVER);
    const AuVal row = kernel_op2(k, AU_K_MUL, at, kernel_i32(k, (int32_t)k->lanes));
    const AuVal place = kernel_op2(k, AU_K_ADD, row, kernel_lane(k));
    if (out)
        kernel_store(k, tensor, place, kernel_load(k, mem, at, 1, none, none), none);
    else
        kernel_store(k, mem, at, kernel_load(k, tensor, place, 1, none, none), none);
    kernel_end(k);
}

static AuMem lane_matrix(Host *host, Case *c, const char *name, AuScalar scalar, uint32_t count)
{
    const AuMem tensor = case_tensor(host, c, au_format(host->arena, "%s_in", name), scalar,
                                     (uint64_t)count * host->lanes, true, false);
    uint32_t *words = case_data(c, tensor);
    for (uint32_t n = 0; n < count * host->lanes; n++) {
        const float value = (float)host_random(host, 100);
        if (scalar == AU_F32)
            memcpy(&words[n], &value, sizeof value);
        else
            words[n] = small(host) | (uint32_t)small(host) << 16;
    }
    const AuMem mem = kernel_memory(
        c->k, (AuMemory){.name = name, .space = AU_LANE, .scalar = scalar, .count = count});
    copy_lanes(c, tensor, mem, count, false);
    return mem;
}

static AuMem exec_matrix(Host *host, Case *c, uint32_t count)
{
    AuKernel *k = c->k;
    const AuVal none = {0};
    const AuMem tensor = case_tensor(host, c, "a_in", AU_BF16, count, true, false);
    for (uint32_t n = 0; n < count; n++) ((uint16_t *)case_data(c, tensor))[n] = small(host);
    const AuMem mem = kernel_memory(
        k, (AuMemory){.name = "a", .space = AU_EXEC, .scalar = AU_BF16, .count = count});
    const AuVal first = kernel_for(k, kernel_i32(k, 0), kernel_i32(k, (int32_t)count),
                                   (int32_t)k->lanes, AU_UNROLL_NEVER);
    const AuVal place = kernel_op2(k, AU_K_ADD, first, kernel_lane(k));
    const AuVal inside = kernel_op2(k, AU_K_LT, place, kernel_i32(k, (int32_t)count));
    kernel_store(k, mem, place, kernel_load(k, tensor, place, 1, inside, none), inside);
    kernel_end(k);
    return mem;
}

static void add_case(Host *host, const Shape *s)
{
    enum { PLACE = 3 };
    Case *c = host_case(host, "%d x %d x %d, strides %d %d %d%s", s->rows, s->vectors, s->depth,
                        s->c_stride, s->a_stride, s->b_stride, s->add ? ", added" : "");
    const uint32_t sums = (uint32_t)(s->rows * s->c_stride + PLACE),
                   pairs = (uint32_t)(s->depth / 2 * s->b_stride + PLACE);
    const AuMem sum = lane_matrix(host, c, "c", AU_F32, sums),
                b = lane_matrix(host, c, "b", AU_I32, pairs);
    const AuMem a = exec_matrix(host, c, (uint32_t)(s->rows * s->a_stride + PLACE));
    const AuVal place = case_i32(c, "place", PLACE);
    kernel_matmul(c->k, &(AuMatmul){.c = sum,
                                    .a = a,
                                    .b = b,
                                    .c_at = place,
                                    .a_at = place,
                                    .b_at = place,
                                    .rows = s->rows,
                                    .vectors = s->vectors,
                                    .depth = s->depth,
                                    .c_stride = s->c_stride,
                                    .a_stride = s->a_stride,
                                    .b_stride = s->b_stride,
                                    .add = s->add});
    copy_lanes(c, case_tensor(host, c, "out", AU_F32, (uint64_t)sums * host->lanes, false, true),
               sum, sums, true);
}

static void products_are_the_interpreters(void **state)
{
    (void)state;
    Host *host = host_new("x86-64-v4-amx");
    if (!host) skip();
    for (int32_t rows = 16; rows <= 32; rows += 16)
        for (int32_t vectors = 1; vectors <= 2; vectors++)
            for (int32_t depth = 32; depth <= 96; depth += 64)
                for (int32_t add = 0; add < 2; add++) {
                    add_case(host, &(Shape){rows, vectors, depth, vectors, depth, vectors, add});
                    add_case(host, &(Shape){rows, vectors, depth, 4, depth + 5, 3, add});
                }
    host_run(host);
    host_free(host);
}

/* Other machines refuse it, they do not compute something else. */
static void others_refuse(void **state)
{
    (void)state;
    Host *host = host_new("x86-64-v4-amx");
    if (!host) skip();
    host->arch = host_arch("x86-64-v4");
    add_case(host, &(Shape){16, 1, 32, 1, 32, 1, false});
    AuBlob blob;
    assert_false(au_target_cpu.emit(host->arena, host->diags, &host->cases[0]->k, 1, host->arch,
                                    AU_CODE_IR, 2, &blob));
    assert_non_null(strstr(host->diags->first->message, "need AMX"));
    host_free(host);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(products_are_the_interpreters),
                                       cmocka_unit_test(others_refuse)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
