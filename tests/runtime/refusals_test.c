/* Calls that are refused, with their numbers: everything that can be wrong, one thing at a time. */
#include "case.h"

#include <math.h>

typedef struct Refusal {
    void (*bend)(Case *c);
    aule_status status;
    const char *text;
} Refusal;

static void unknown_tensor(Case *c) { c->args[T_SLOPE].name = "slop"; }
static void no_name(Case *c) { c->args[T_SLOPE].name = NULL; }
static void twice(Case *c) { c->args[T_SLOPE].name = "q"; }
static void missing(Case *c) { c->args[T_K] = c->args[T_LSE], c->call.tensor_count = T_LSE; }
static void null_tensor(Case *c) { c->args[T_V].tensor = NULL; }
static void null_data(Case *c) { c->tensors[T_V].data = NULL; }
static void null_shape(Case *c) { c->tensors[T_V].shape = NULL; }
static void null_tensors(Case *c) { c->call.tensors = NULL; }
static void null_params(Case *c) { c->call.params = NULL; }
static void bad_rank(Case *c) { c->tensors[T_K].ndim = 3; }
static void negative_rank(Case *c) { c->tensors[T_K].ndim = -1; }
static void huge_rank(Case *c) { c->tensors[T_K].ndim = 1000000; }
static void negative_extent(Case *c) { c->shapes[T_K][2] = -7; }
static void bad_extent(Case *c) { c->shapes[T_V][2] = 6; }
static void bad_computed_extent(Case *c) { c->shapes[T_SLOPE][0] = 6; }
static void bad_output(Case *c) { c->shapes[T_O][2] = 4; }
static void bad_dtype(Case *c) { c->tensors[T_LENGTHS].dtype = (DLDataType){kDLInt, 64, 1}; }
static void bad_operand(Case *c) { c->tensors[T_Q].dtype = (DLDataType){kDLFloat, 64, 1}; }
static void mixed_operands(Case *c) { c->tensors[T_K].dtype = (DLDataType){kDLFloat, 16, 1}; }
static void vector_dtype(Case *c) { c->tensors[T_Q].dtype.lanes = 4; }
static void wrong_device(Case *c) { c->tensors[T_V].device = (DLDevice){kDLCUDA, 1}; }
static void misaligned(Case *c) { c->tensors[T_Q].byte_offset = 3; }
static void huge_offset(Case *c) { c->tensors[T_Q].byte_offset = UINT64_MAX - 7; }
/* Queries that 32 bits can count, but not to the end of the last tile; far outputs, so that nothing overlaps. */
static void longest(Case *c)
{
    const int64_t S = INT32_MAX - 100;
    c->shapes[T_Q][2] = c->shapes[T_O][2] = c->shapes[T_LSE][2] = S;
    c->strides[T_Q][2] = 0;
    for (int axis = 0; axis < 2; axis++) {
        c->strides[T_O][axis] = (axis ? 1 : c->shapes[T_Q][1]) * S * SAMPLE_E;
        c->strides[T_LSE][axis] = (axis ? 1 : c->shapes[T_Q][1]) * S;
    }
    c->tensors[T_O].data = (void *)((uintptr_t)1 << 45);
    c->tensors[T_LSE].data = (void *)((uintptr_t)1 << 46);
}
static void overflow(Case *c) { c->strides[T_Q][0] = INT64_MAX / 2; }
static void zero_stride(Case *c) { c->strides[T_O][1] = 0; }
static void folded(Case *c) { c->strides[T_O][2] = 2; }
static void in_place(Case *c) { c->tensors[T_O].data = (float *)c->tensors[T_Q].data + 3; }
static void same_outputs(Case *c) { c->tensors[T_LSE].data = c->tensors[T_O].data; }
static void no_param(Case *c) { c->call.param_count = 0; }
static void unknown_param(Case *c) { c->params[0].name = "windows"; }
static void param_twice(Case *c) { c->params[1] = c->params[0], c->call.param_count = 2; }
static void fraction(Case *c)
{
    c->params[0].value = (aule_value){.type = AULE_VALUE_FLOAT, .f = 2.5};
}
static void nan_param(Case *c)
{
    c->params[0].value = (aule_value){.type = AULE_VALUE_FLOAT, .f = NAN};
}
static void wide_param(Case *c) { c->params[0].value.i = 1ll << 40; }
static void flag_of_two(Case *c)
{
    c->params[1] = (aule_param_arg){"flag", {.type = AULE_VALUE_INT, .i = 2}},
    c->call.param_count = 2;
}
static void wrong_value_type(Case *c) { c->params[0].value.type = 9; }
static void requirement(Case *c) { c->params[0].value.i = -3; }
static void heads(Case *c)
{
    c->shapes[T_K][1] = c->shapes[T_V][1] = 3, c->strides[T_K][0] = 0, c->strides[T_V][0] = 0;
}
static void no_heads(Case *c) { c->shapes[T_K][1] = c->shapes[T_V][1] = 0; }
static void width(Case *c) { c->shapes[T_V][3] = c->shapes[T_O][3] = 2; }
static void no_such_dtype(Case *c)
{
    for (int t = 0; t < TENSORS; t++)
        if (t != T_LENGTHS && t != T_SLOPE && t != T_LSE)
            c->tensors[t].dtype = (DLDataType){kDLBfloat, 16, 1};
}
static void no_such_arch(Case *c) { c->call.arch = "generic"; }
static void no_such_operation(Case *c) { c->call.operation = "sideways"; }
static void gradient_of_forward(Case *c) { c->call.tensor_count = T_DO + 1; }
static void backward_without(Case *c, int t)
{
    case_make_backward(c, true);
    c->args[t] = c->args[--c->call.tensor_count];
}
static void no_final(Case *c) { backward_without(c, T_LSE); }
static void no_output(Case *c) { backward_without(c, T_O); }
static void no_dout(Case *c) { backward_without(c, T_DO); }
static void no_dk(Case *c) { backward_without(c, T_DK); }
static void dq_in_q(Case *c)
{
    case_make_backward(c, true);
    c->tensors[T_DQ].data = c->tensors[T_Q].data;
}
static void dq_in_dout(Case *c)
{
    case_make_backward(c, true);
    c->tensors[T_DQ].data = c->tensors[T_DO].data;
}
static void bad_dv(Case *c)
{
    case_make_backward(c, true);
    c->shapes[T_DV][1] = 4;
}
static void bad_dk_dtype(Case *c)
{
    case_make_backward(c, true);
    c->tensors[T_DK].dtype = (DLDataType){kDLFloat, 16, 1};
}
static void old_struct(Case *c) { c->call.struct_size = 8; }

static const Refusal refusals[] = {
    {unknown_tensor, AULE_ERROR_NAME,
     "sample: no tensor 'slop', it has q, k, v, lengths, slope, o, lse"},
    {no_name, AULE_ERROR_USAGE, "sample: tensor 4 of the call has no name"},
    {twice, AULE_ERROR_NAME, "sample: q is passed twice"},
    {missing, AULE_ERROR_NAME, "sample: k is missing"},
    {null_tensor, AULE_ERROR_TENSOR, "sample: v: the tensor is NULL"},
    {null_data, AULE_ERROR_TENSOR, "sample: v: its data is NULL"},
    {null_shape, AULE_ERROR_TENSOR, "sample: v: its shape is NULL"},
    {null_tensors, AULE_ERROR_USAGE, "aule_call.tensors is NULL, tensor_count is 7"},
    {null_params, AULE_ERROR_USAGE, "aule_call.params is NULL, param_count is 1"},
    {bad_rank, AULE_ERROR_TENSOR, "sample: k: shape is [2, 2, 7], expected 4 axes [B, Hk, T, D]"},
    {negative_rank, AULE_ERROR_TENSOR,
     "sample: k: shape is of -1 axes, expected 4 axes [B, Hk, T, D]"},
    {huge_rank, AULE_ERROR_TENSOR, "sample: k: shape is of 1000000 axes"},
    {negative_extent, AULE_ERROR_TENSOR, "sample: k: axis 2 has -7 elements"},
    {bad_extent, AULE_ERROR_TENSOR,
     "sample: v: axis 2 (T) has 6 elements, expected 7 as in k; its shape is [2, 2, 6, 4]"},
    {bad_computed_extent, AULE_ERROR_TENSOR,
     "sample: slope: axis 0 ((2 * H) - 1) has 6 elements, expected 7"},
    {bad_output, AULE_ERROR_TENSOR, "sample: o: axis 2 (S) has 4 elements, expected 5 as in q"},
    {bad_dtype, AULE_ERROR_TENSOR,
     "sample: lengths: dtype is i64, expected i32: declare i64 in the script, or convert it "
     "(.int() in torch, .astype(\"int32\") in NumPy)"},
    {bad_operand, AULE_ERROR_TENSOR, "sample: q: dtype is float64, expected f32, f16 or bf16"},
    {mixed_operands, AULE_ERROR_TENSOR,
     "sample: k: dtype is f16, expected f32, as the other operands are"},
    {vector_dtype, AULE_ERROR_TENSOR, "sample: q: dtype is float32 in vectors of 4, expected"},
    {wrong_device, AULE_ERROR_TENSOR,
     "sample: v: it is on cuda:1 (DLPack type 2), expected cpu:0 (DLPack type 1)"},
    {misaligned, AULE_ERROR_TENSOR,
     "sample: q: its address is 3 past a multiple of 4, the bytes of f32"},
    {huge_offset, AULE_ERROR_TENSOR,
     "sample: q: its byte_offset is 18446744073709551608, beyond all memory"},
    {longest, AULE_ERROR_TENSOR,
     "sample: the size S is 2147483547, the kernel takes at most 2147418111"},
    {overflow, AULE_ERROR_TENSOR, "sample: q: its shape and strides reach beyond 64 bits"},
    {zero_stride, AULE_ERROR_TENSOR,
     "sample: o: it is written and overlaps itself: axis 1 has 4 elements at stride 0"},
    {folded, AULE_ERROR_TENSOR,
     "sample: o: it is written and overlaps itself: axis 2 has 5 elements at stride 2"},
    {in_place, AULE_ERROR_TENSOR, "sample: o: it is written and overlaps q in memory"},
    {same_outputs, AULE_ERROR_TENSOR, "sample: o: it is written and overlaps lse in memory"},
    {no_param, AULE_ERROR_PARAM, "sample: param window (i32) is missing, it has no default"},
    {unknown_param, AULE_ERROR_NAME,
     "sample: no param 'windows', it has scale, window, flag, seed"},
    {param_twice, AULE_ERROR_NAME, "sample: param window is passed twice"},
    {fraction, AULE_ERROR_PARAM, "sample: param window: i32 is 2.5, expected a whole number"},
    {nan_param, AULE_ERROR_PARAM, "expected a whole number"},
    {wide_param, AULE_ERROR_PARAM,
     "sample: param window: i32 is 1099511627776, expected a number of 32 bits"},
    {flag_of_two, AULE_ERROR_PARAM, "sample: param flag: bool is 2, expected 0 or 1"},
    {wrong_value_type, AULE_ERROR_PARAM, "AULE_VALUE_INT"},
    {requirement, AULE_ERROR_REQUIRE,
     "sample: requirement not met: window > 0 (sample.attn:9), with window = -3"},
    {heads, AULE_ERROR_REQUIRE,
     "requirement not met: H % Hk == 0 (sample.attn:3), with H = 4, Hk = 3"},
    {no_heads, AULE_ERROR_REQUIRE,
     "requirement divides by zero when evaluated: H % Hk == 0 (sample.attn:3), with H = 4, Hk = 0"},
    {width, AULE_ERROR_UNSUPPORTED,
     "sample: no forward kernel for device cpu, dtype f32, D=8, E=2; the artifact has: cpu"},
    {width, AULE_ERROR_UNSUPPORTED, "(needs avx4096)"},
    {width, AULE_ERROR_UNSUPPORTED,
     "to have it: aulec --target cpu --dtype f32 --width D=8 --width E=2"},
    {no_such_dtype, AULE_ERROR_UNSUPPORTED,
     "aulec --target cpu --dtype bf16 --width D=8 --width E=4"},
    {no_such_arch, AULE_ERROR_UNSUPPORTED, "architecture generic"},
    {no_such_operation, AULE_ERROR_UNSUPPORTED,
     "sample: no operation 'sideways', the artifact has forward, backward"},
    {gradient_of_forward, AULE_ERROR_NAME, "sample: do is passed to backward only"},
    {no_final, AULE_ERROR_NAME, "sample: lse is missing, backward needs it"},
    {no_output, AULE_ERROR_NAME, "sample: o is missing"},
    {no_dout, AULE_ERROR_NAME, "sample: do is missing"},
    {no_dk, AULE_ERROR_NAME, "sample: dk is missing"},
    {dq_in_q, AULE_ERROR_TENSOR, "sample: dq: it is written and overlaps q in memory"},
    {dq_in_dout, AULE_ERROR_TENSOR, "sample: dq: it is written and overlaps do in memory"},
    {bad_dv, AULE_ERROR_TENSOR, "sample: dv: axis 1 (Hk) has 4 elements, expected 2 as in k"},
    {bad_dk_dtype, AULE_ERROR_TENSOR, "sample: dk: dtype is f16, expected f32"},
    {old_struct, AULE_ERROR_USAGE, "aule_call.struct_size is 8, expected at least"},
};

static void test_refusals(void **state)
{
    Fixture *f = *state;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        Case *c = case_new();
        refusals[i].bend(c);
        expect_plan_error(f->attention, f->device, c, refusals[i].status, refusals[i].text);
        case_free(c);
    }
}

static void test_null_arguments(void **state)
{
    Fixture *f = *state;
    Case *c = case_new();
    aule_plan *plan;
    aule_error *error = NULL;
    expect_error(aule_plan_new(NULL, f->device, &c->call, &plan, &error), &error, AULE_ERROR_USAGE,
                 "must not be NULL");
    expect_error(aule_plan_new(f->attention, NULL, &c->call, &plan, &error), &error,
                 AULE_ERROR_USAGE, "must not be NULL");
    expect_error(aule_plan_new(f->attention, f->device, NULL, &plan, &error), &error,
                 AULE_ERROR_USAGE, "must not be NULL");
    expect_error(aule_plan_new(f->attention, f->device, &c->call, NULL, &error), &error,
                 AULE_ERROR_USAGE, "must not be NULL");
    expect_error(aule_plan_run(NULL, NULL, &error), &error, AULE_ERROR_USAGE, "must not be NULL");
    expect_error(aule_module_from(NULL, NULL, NULL, &error), &error, AULE_ERROR_USAGE,
                 "must not be NULL");
    expect_error(aule_module_open(NULL, NULL, NULL, &error), &error, AULE_ERROR_USAGE,
                 "must not be NULL");
    expect_error(aule_device_open("cpu", NULL, NULL, &error), &error, AULE_ERROR_USAGE,
                 "must not be NULL");
    expect_error(aule_buffer_new(NULL, 1, NULL, &error), &error, AULE_ERROR_USAGE,
                 "must not be NULL");
    aule_plan_free(NULL);
    aule_module_close(NULL);
    aule_device_close(NULL);
    aule_buffer_free(NULL);
    aule_event_free(NULL);
    aule_error_free(NULL);
    aule_text_free(NULL);
    aule_device_list_free(NULL);
    assert_int_equal(aule_error_status(NULL), AULE_OK);
    case_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_null_arguments),
    };
    return cmocka_run_group_tests(tests, fixture_open, fixture_close);
}
