/* Calls: right results through strides, windows and workspaces. What is refused is in refusals_test.c. */
#include "case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void run_case(Fixture *f, Case *c)
{
    aule_error *error = NULL;
    if (aule_attention_run(f->attention, f->device, &c->call, &c->run, &error))
        fail_msg("%s", aule_error_message(error));
}

static void test_result(void **state)
{
    Case *c = case_new();
    run_case(*state, c);
    assert_true(case_is_right(c));
    case_free(c);
}

static void test_final_left_out(void **state)
{
    Case *c = case_new();
    c->call.tensor_count = T_LSE;
    run_case(*state, c);
    assert_true(case_is_right(c));
    assert_true(isnan(((float *)c->storage[T_LSE])[0]));
    case_free(c);
}

static void test_kernels_of_deep_stacks(void **state)
{
    Case *c = case_new();
#if defined(__aarch64__)
    c->call.arch = "aarch64-deep";
#else
    c->call.arch = "x86-64-deep";
#endif
    run_case(*state, c);
    assert_true(case_is_right(c));
    case_free(c);
}

static void test_strides(void **state)
{
    /* q as [B, S, H, D] in memory, v with reversed keys, k without strides. */
    Case *c = case_new();
    float *q = c->storage[T_Q], *moved = malloc(c->bytes[T_Q]);
    int64_t strides[4] = {4 * 5 * SAMPLE_D, SAMPLE_D, 4 * SAMPLE_D, 1};
    for (int b = 0; b < 2; b++)
        for (int h = 0; h < 4; h++)
            for (int s = 0; s < 5; s++)
                memcpy(moved + b * strides[0] + h * strides[1] + s * strides[2],
                       q + ((b * 4 + h) * 5 + s) * SAMPLE_D, SAMPLE_D * 4);
    memcpy(c->strides[T_Q], strides, sizeof strides);
    c->tensors[T_Q].data = moved;
    c->tensors[T_K].strides = NULL;
    float *v = c->storage[T_V], *reversed = malloc(c->bytes[T_V]);
    for (int row = 0; row < 4; row++)
        for (int t = 0; t < 7; t++)
            memcpy(reversed + (row * 7 + 6 - t) * SAMPLE_E, v + (row * 7 + t) * SAMPLE_E,
                   SAMPLE_E * 4);
    c->tensors[T_V].data = reversed;
    c->tensors[T_V].byte_offset = 6 * SAMPLE_E * 4;
    c->strides[T_V][2] = -SAMPLE_E;
    run_case(*state, c);
    assert_true(case_is_right(c));
    free(moved);
    free(reversed);
    case_free(c);
}

static void test_plan_runs_again_elsewhere(void **state)
{
    Fixture *f = *state;
    Case *c = case_new(), *other = case_new();
    aule_plan *plan;
    aule_error *error = NULL;
    assert_int_equal(aule_plan_new(f->attention, f->device, &c->call, &plan, &error), AULE_OK);
    assert_string_equal(aule_plan_variant(plan)->target, "cpu");
    uint32_t align;
    assert_int_equal(aule_plan_workspace(plan, &align), 64 + 2 * 4 * 5 * 4);
    assert_int_equal(align, 64);
    aule_address at[TENSORS];
    for (int t = 0; t < TENSORS; t++) at[t] = (aule_address){other->storage[t], 0};
    c->run.tensors = at;
    for (int i = 0; i < 3; i++) {
        case_forget(other);
        assert_int_equal(aule_plan_run(plan, &c->run, &error), AULE_OK);
        assert_true(case_is_right(other));
    }
    assert_true(isnan(((float *)c->storage[T_O])[0]));

    /* New parameters: the whole window, and back. */
    aule_value wide = {.type = AULE_VALUE_INT, .i = 1000},
               narrow = {.type = AULE_VALUE_INT, .i = 4}, none = {.type = AULE_VALUE_INT, .i = 0};
    c->run.params = &wide;
    assert_int_equal(aule_plan_run(plan, &c->run, &error), AULE_OK);
    assert_false(case_is_right(other));
    c->run.params = &narrow;
    assert_int_equal(aule_plan_run(plan, &c->run, &error), AULE_OK);
    assert_true(case_is_right(other));
    c->run.params = &none;
    expect_error(aule_plan_run(plan, &c->run, &error), &error, AULE_ERROR_REQUIRE,
                 "window > 0 (sample.attn:9), with window = 0");
    c->run.params = NULL;

    error = NULL;
    at[T_K].data = NULL;
    expect_error(aule_plan_run(plan, &c->run, &error), &error, AULE_ERROR_TENSOR,
                 "sample: k: its data is NULL");
    error = NULL;
    at[T_K] = (aule_address){other->storage[T_K], 2};
    expect_error(aule_plan_run(plan, &c->run, &error), &error, AULE_ERROR_TENSOR,
                 "sample: k: its address is 2 past a multiple of 4");
    aule_plan_free(plan);
    case_free(c);
    case_free(other);
}

static void test_empty(void **state)
{
    /* No rows: nothing is launched, and no data is needed. */
    Case *c = case_new();
    c->shapes[T_Q][2] = c->shapes[T_O][2] = c->shapes[T_LSE][2] = 0;
    c->tensors[T_Q].data = c->tensors[T_O].data = NULL;
    run_case(*state, c);
    case_free(c);

    /* No keys: rows without any pair. */
    c = case_new();
    c->shapes[T_K][2] = c->shapes[T_V][2] = 0;
    c->tensors[T_K].data = c->tensors[T_V].data = NULL;
    run_case(*state, c);
    for (size_t i = 0; i < c->bytes[T_O] / 4; i++) assert_true(((float *)c->storage[T_O])[i] == 0);
    case_free(c);
}

static void test_workspace(void **state)
{
    Fixture *f = *state;
    Case *c = case_new();
    aule_plan *plan;
    aule_error *error = NULL;
    assert_int_equal(aule_plan_new(f->attention, f->device, &c->call, &plan, &error), AULE_OK);
    expect_error(aule_plan_run(plan, NULL, &error), &error, AULE_ERROR_WORKSPACE,
                 "sample: no workspace, expected 224 bytes");
    c->run.workspace_bytes = 223;
    expect_error(aule_plan_run(plan, &c->run, &error), &error, AULE_ERROR_WORKSPACE,
                 "the workspace has 223 bytes, expected 224");
    c->run.workspace_bytes = 300;
    c->run.workspace = c->workspace + 4;
    expect_error(aule_plan_run(plan, &c->run, &error), &error, AULE_ERROR_WORKSPACE,
                 "not aligned to 64 bytes");
    c->run.workspace = c->workspace;
    c->run.queue = c;
    expect_error(aule_plan_run(plan, &c->run, &error), &error, AULE_ERROR_USAGE,
                 "expected aule_run.queue to be NULL");
    aule_plan_free(plan);
    case_free(c);
}

static void test_shape_query(void **state)
{
    Fixture *f = *state;
    Case *c = case_new();
    int32_t rank;
    int64_t shape[8];
    DLDataType type;
    aule_error *error = NULL;
    c->call.tensor_count = T_O; /* inputs alone */
    assert_int_equal(
        aule_attention_shape(f->attention, &c->call, "lse", &rank, shape, &type, &error), AULE_OK);
    assert_int_equal(rank, 3);
    assert_true(shape[0] == 2 && shape[1] == 4 && shape[2] == 5 && type.code == kDLFloat &&
                type.bits == 32);
    c->tensors[T_Q].dtype = c->tensors[T_K].dtype = c->tensors[T_V].dtype =
        (DLDataType){kDLBfloat, 16, 1};
    assert_int_equal(aule_attention_shape(f->attention, &c->call, "o", &rank, shape, &type, &error),
                     AULE_OK);
    assert_true(rank == 4 && shape[3] == SAMPLE_E && type.code == kDLBfloat);
    expect_error(aule_attention_shape(f->attention, &c->call, "p", &rank, shape, &type, &error),
                 &error, AULE_ERROR_NAME, "no tensor 'p'");
    case_free(c);
}

/* ---- backward */

static void test_gradients(void **state)
{
    for (int dlse = 0; dlse < 2; dlse++) {
        Case *c = case_new();
        run_case(*state, c);
        case_make_backward(c, dlse);
        memset(c->workspace, 0xff, sizeof c->workspace);
        run_case(*state, c);
        assert_true(case_has_gradients(c));
        memset(c->storage[T_DLSE], 0, c->bytes[T_DLSE]);
        assert_int_equal(case_has_gradients(c), !dlse);
        case_free(c);
    }
}

static void test_shapes_of_gradients(void **state)
{
    static const struct {
        const char *name;
        int like;
    } rows[] = {{"do", T_O}, {"dlse", T_LSE}, {"dq", T_Q},
                {"dk", T_K}, {"dv", T_V},     {"dslope", T_SLOPE}};
    Fixture *f = *state;
    Case *c = case_new();
    c->call.tensor_count = T_O;
    for (int operation = 0; operation < 2; operation++)
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            int32_t rank;
            int64_t shape[8];
            DLDataType type;
            c->call.operation = operation ? "backward" : NULL;
            assert_int_equal(aule_attention_shape(f->attention, &c->call, rows[i].name, &rank,
                                                  shape, &type, NULL),
                             AULE_OK);
            assert_int_equal(rank, c->tensors[rows[i].like].ndim);
            assert_memory_equal(shape, c->shapes[rows[i].like], (size_t)rank * sizeof *shape);
            assert_true(type.code == kDLFloat && type.bits == 32);
        }
    case_free(c);
}

/* Interleaved in one allocation, but never the same byte. */
static void test_packed_is_no_overlap(void **state)
{
    Case *c = case_new();
    float *packed = calloc(2 * 4 * 5, 16 * 4);
    float *q = c->storage[T_Q];
    for (int row = 0; row < 2 * 4 * 5; row++)
        memcpy(packed + row * 16, q + row * SAMPLE_D, SAMPLE_D * 4);
    for (int axis = 0; axis < 3; axis++) {
        c->strides[T_Q][axis] = c->strides[T_Q][axis] / SAMPLE_D * 16;
        c->strides[T_O][axis] = c->strides[T_O][axis] / SAMPLE_E * 16;
    }
    c->tensors[T_Q].data = packed;
    c->tensors[T_O].data = packed + SAMPLE_D;
    run_case(*state, c);
    for (int row = 0; row < 2 * 4 * 5; row++)
        for (int e = 0; e < SAMPLE_E; e++)
            assert_true(fabsf(packed[row * 16 + 8 + e] - c->expected[row * SAMPLE_E + e]) < 2e-6f);
    c->tensors[T_O].data = packed + SAMPLE_D - 1;
    Fixture *f = *state;
    expect_plan_error(f->attention, f->device, c, AULE_ERROR_TENSOR, "overlaps q in memory");
    free(packed);
    case_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_result),
        cmocka_unit_test(test_final_left_out),
        cmocka_unit_test(test_strides),
        cmocka_unit_test(test_kernels_of_deep_stacks),
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_plan_runs_again_elsewhere),
        cmocka_unit_test(test_workspace),
        cmocka_unit_test(test_shape_query),
        cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_shapes_of_gradients),
        cmocka_unit_test(test_packed_is_no_overlap),
    };
    return cmocka_run_group_tests(tests, fixture_open, fixture_close);
}
