/* matrix_test.c - programs of warps with matrix units, lowered, against the interpreter of the tiled
 * IR: the example of mma.sync, and small programs for what it does not have. */
#include "lowered.h"

static const char causal[] = "causal_softmax.hooks", common[] = "common.hooks";

static void check(const Lowered *t)
{
    Session s = session_begin();
    lowered_check(&s, t);
    session_end(&s);
}

static void forward(int32_t heads, int32_t key_heads, int32_t rows, int32_t keys, bool odd)
{
    const Size sizes[] = {{"B", 1},    {"H", heads}, {"Hk", key_heads},
                          {"S", rows}, {"T", keys},  {NULL, 0}};
    check(&(Lowered){
        .file = "mma_sync_forward.tile", .hooks = {common, causal}, .sizes = sizes, .odd = odd});
}

static void test_forward(void **state)
{
    (void)state;
    forward(2, 1, 70, 101, false);
    forward(1, 1, 1, 1, false);
    forward(1, 1, 130, 90, false);
}

static void test_forward_with_strides(void **state)
{
    (void)state;
    forward(1, 1, 20, 40, true);
}

static void backward(int32_t heads, int32_t key_heads, int32_t rows, int32_t keys, bool odd)
{
    const Size sizes[] = {{"B", 1},    {"H", heads}, {"Hk", key_heads},
                          {"S", rows}, {"T", keys},  {NULL, 0}};
    check(&(Lowered){
        .file = "mma_sync_backward.tile", .hooks = {common, causal}, .sizes = sizes, .odd = odd});
}

/* Transposed operands, scores through shared memory, sums into global memory. */
static void test_backward(void **state)
{
    (void)state;
    backward(2, 1, 37, 70, false);
    backward(1, 1, 70, 37, true);
}

/* A loop for each segment of the tile list. */
static void test_split(void **state)
{
    (void)state;
    const Size sizes[] = {{"B", 1}, {"H", 2}, {"Hk", 2}, {"S", 70}, {"T", 101}, {NULL, 0}};
    check(&(Lowered){
        .file = "mma_sync_forward.tile", .hooks = {common, causal}, .sizes = sizes, .split = true});
    check(&(Lowered){.file = "mma_sync_backward.tile",
                     .hooks = {common, causal},
                     .sizes = sizes,
                     .split = true});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forward),
        cmocka_unit_test(test_forward_with_strides),
        cmocka_unit_test(test_backward),
        cmocka_unit_test(test_split),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
