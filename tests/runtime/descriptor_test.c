/* Descriptors in memory, bent one field at a time: damaged in every way, longer than known, with what devices report of them. */
#include "case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Copy {
    aule_module_v1 module;
    aule_attention_v1 attention;
    aule_tensor_v1 tensors[TENSORS + 1];
    aule_param_v1 params[PARAMS];
    aule_variant_v1 variants[32];
    aule_launch_v1 launches[2];
    aule_slot_v1 slots[64];
    uint32_t touches[4];
    aule_workspace_v1 workspaces[2];
    aule_size_v1 sizes[SIZES];
    aule_check_v1 check;
} Copy;

static void copy_sample(Copy *c)
{
    c->module = sample_module;
    c->attention = sample_module.attentions[0];
    memcpy(c->tensors, c->attention.tensors, TENSORS * sizeof *c->tensors);
    memcpy(c->params, c->attention.params, sizeof c->params);
    memcpy(c->variants, c->attention.variants, c->attention.variant_count * sizeof *c->variants);
    memcpy(c->launches, c->variants[0].launches, sizeof c->launches);
    memcpy(c->slots, c->launches[0].slots, c->launches[0].slot_count * sizeof *c->slots);
    memcpy(c->workspaces, c->variants[0].workspaces, sizeof c->workspaces);
    memcpy(c->sizes, c->attention.sizes, sizeof c->sizes);
    c->check = (aule_check_v1){
        .text = "sample.attn:7:31", .tensor = T_LENGTHS, .axis = 0, .region = 1, .slices = 1};
    c->variants[0].checks = &c->check;
    static const uint32_t always[] = {AULE_E_CONST_INT, 1, 0};
    c->variants[0].condition = (aule_expr){always, 3};
    c->variants[0].check_count = 1;
    c->launches[0].slots = c->slots;
    memset(c->touches, 0, sizeof c->touches);
    c->touches[0] = 1u | 2u << 2 * 5 | 3u << 2 * 7; /* q, o, the sums */
    c->launches[0].touches = c->touches;
    c->launches[0].touch_count = (c->launches[0].slot_count + 15) / 16;
    c->variants[0].launches = c->launches;
    c->variants[0].workspaces = c->workspaces;
    c->attention.variants = c->variants;
    c->attention.tensors = c->tensors;
    c->attention.params = c->params;
    c->attention.sizes = c->sizes;
    c->module.attentions = &c->attention;
}

#define DAMAGES(D)                                                                                 \
    D(c->module.magic[0] = 'A')                                                                    \
    D(c->module.struct_size = 8)                                                                   \
    D(c->module.attention_count = 0)                                                               \
    D(c->module.attention_count = 70000)                                                           \
    D(c->module.attentions = NULL)                                                                 \
    D(c->module.producer = NULL)                                                                   \
    D(c->attention.struct_size = 16)                                                               \
    D(c->attention.name = NULL)                                                                    \
    D(c->attention.size_count = AULE_MAX_SIZES + 1)                                                \
    D(c->attention.sizes = NULL)                                                                   \
    D(c->sizes[1].name = NULL)                                                                     \
    D(c->attention.tensor_count = AULE_MAX_TENSORS + 1)                                            \
    D(c->tensors[0].struct_size = 4)                                                               \
    D(c->tensors[1].name = NULL)                                                                   \
    D(c->tensors[1].rank = AULE_MAX_RANK + 1)                                                      \
    D(c->tensors[1].role = 18)                                                                     \
    D(c->tensors[1].dtype = 11)                                                                    \
    D(c->tensors[1].axes = NULL)                                                                   \
    D(c->attention.size_count = 6)                                                                 \
    D(c->params[0].name = NULL)                                                                    \
    D(c->params[0].dtype = AULE_F16)                                                               \
    D(c->attention.param_count = AULE_MAX_PARAMS + 1)                                              \
    D(c->attention.requires_ = NULL)                                                               \
    D(c->attention.variants = NULL)                                                                \
    D(c->variants[0].arch = NULL)                                                                  \
    D(c->variants[0].features = NULL)                                                              \
    D(c->variants[0].schedule = NULL)                                                              \
    D(c->variants[0].fixed = NULL)                                                                 \
    D(c->variants[3].code = NULL)                                                                  \
    D(c->variants[0].launch_count = AULE_MAX_LAUNCHES + 1)                                         \
    D(c->variants[0].workspace_count = AULE_MAX_REGIONS + 1)                                       \
    D(c->variants[0].workspaces = NULL)                                                            \
    D(c->workspaces[0].align = 3)                                                                  \
    D(c->workspaces[0].bytes.code = NULL)                                                          \
    D(c->launches[0].host = NULL)                                                                  \
    D(c->launches[0].entry = NULL)                                                                 \
    D(c->launches[0].grid[2].length = 0)                                                           \
    D(c->launches[0].slot_count = AULE_MAX_SLOTS + 1)                                              \
    D(c->launches[0].touches = NULL)                                                               \
    D(c->launches[0].touch_count++)                                                                \
    D(c->launches[0].touch_count--)                                                                \
    D(c->touches[0] |= AULE_TOUCH_WRITE) /* q */                                                   \
    D(c->touches[1] = 1)                 /* a stride */                                            \
    D(c->variants[0].struct_size = offsetof(aule_variant_v1, check_count) - 8)                     \
    D(c->variants[0].checks = NULL)                                                                \
    D(c->variants[0].condition.length = 0)                                                         \
    D(c->check.text = NULL)                                                                        \
    D(c->check.tensor = TENSORS)                                                                   \
    D(c->check.axis = 1)                                                                           \
    D(c->check.rows = T_LENGTHS)                                                                   \
    D(c->check.region = 2)                                                                         \
    D(c->check.slice = 1)                                                                          \
    D(c->workspaces[c->check.region].align = 2)                                                    \
    D(c->tensors[T_LENGTHS].flags = AULE_TENSOR_FIRST)                                             \
    D(c->tensors[T_LENGTHS].flags = AULE_TENSOR_TABLE)                                             \
    D(c->tensors[T_LENGTHS].flags = AULE_TENSOR_GROUPS)                                            \
    D(c->tensors[T_LENGTHS].flags = AULE_TENSOR_TABLE_STARTS)                                      \
    D(c->tensors[T_LENGTHS].flags = AULE_TENSOR_LENGTHS | AULE_TENSOR_TABLE)                       \
    D(c->slots[0].index = TENSORS)                                                                 \
    D(c->slots[0].index = T_DO)                                                                    \
    D(c->slots[0].kind = 7)                                                                        \
    D(c->launches[0].slots = (const aule_slot_v1 *)((uintptr_t)c->slots + 1))                      \
    D(c->slots[7].index = 2)                                                                       \
    D(c->tensors[T_K].flags |= AULE_TENSOR_IN_K)                                                   \
    D(c->slots[8].dim = 4)                                                                         \
    D((c->slots[7].dim = 0, c->variants[0].code_format = AULE_CODE_OPENCL_C,                       \
       c->variants[0].code = "x"))

static void test_damaged_descriptors(void **state)
{
    (void)state;
    Copy *c = malloc(sizeof *c);
    aule_module *module;
    copy_sample(c);
    assert_int_equal(aule_module_from(&c->module, NULL, &module, NULL), AULE_OK);
    aule_module_close(module);
#define DAMAGE(change)                                                                             \
    {                                                                                              \
        aule_error *error = NULL;                                                                  \
        copy_sample(c);                                                                            \
        change;                                                                                    \
        aule_status status = aule_module_from(&c->module, NULL, &module, &error);                  \
        if (status != AULE_ERROR_ARTIFACT) fail_msg("%s: %s", #change, aule_status_name(status));  \
        aule_error_free(error);                                                                    \
    }
    DAMAGES(DAMAGE)
    free(c);
}

/* Structures of a later minor version are longer: arrays step by the size they say. */
static void test_longer_structures(void **state)
{
    (void)state;
    typedef struct Longer {
        aule_tensor_v1 tensor;
        uint64_t news[3];
    } Longer;
    Copy *copy = malloc(sizeof *copy);
    Longer longer[TENSORS];
    copy_sample(copy);
    for (int i = 0; i < TENSORS; i++) {
        longer[i] = (Longer){copy->tensors[i], {~0ull, ~0ull, ~0ull}};
        longer[i].tensor.struct_size = sizeof(Longer);
    }
    copy->attention.tensors = &longer[0].tensor;
    copy->module.version_minor = AULE_VERSION_MINOR + 1;
    aule_module *module;
    aule_device *device;
    aule_error *error = NULL;
    Case *c = case_new();
    assert_int_equal(aule_module_from(&copy->module, NULL, &module, &error), AULE_OK);
    assert_int_equal(aule_device_open("cpu", NULL, &device, &error), AULE_OK);
    assert_int_equal(
        aule_attention_run(aule_module_attention(module, 0), device, &c->call, &c->run, &error),
        AULE_OK);
    assert_true(case_is_right(c));
    aule_device_close(device);
    aule_module_close(module);
    case_free(c);
    free(copy);
}

/* Kernels of checks: the first variant's two, which are given the region of their codes. */
static void no_trouble(const uint64_t *slots, uint32_t x, uint32_t y, uint32_t z)
{
    (void)slots, (void)x, (void)y, (void)z;
}

static void write_code(const uint64_t *slots, uint32_t x, uint32_t y, uint32_t z)
{
    int32_t *codes = (int32_t *)(uintptr_t)slots[7]; /* [B, H, 1, S] */
    const uint32_t H = (uint32_t)slots[27], S = (uint32_t)slots[35];
    if (z == 1 && y == 2 && x >= 3) codes[(z * H + y) * S + x] = x == 3 ? -5 : 9;
}

static void expect_report(Copy *copy, Case *c, aule_cpu_kernel kernel, const char *message)
{
    aule_module *module;
    aule_device *device;
    aule_plan *plan;
    aule_error *error = NULL;
    copy->launches[0].host = kernel;
    copy->launches[1].host = no_trouble;
    assert_int_equal(aule_module_from(&copy->module, NULL, &module, &error), AULE_OK);
    assert_int_equal(aule_device_open("cpu", NULL, &device, &error), AULE_OK);
    assert_int_equal(
        aule_plan_new(aule_module_attention(module, 0), device, &c->call, &plan, &error), AULE_OK);
    const aule_value window = {.type = AULE_VALUE_INT, .i = 2};
    for (int again = 0; again < 4;
         again++) { /* also reported afterwards, and with new parameters */
        c->run.params = again & 1 ? &window : NULL;
        const aule_status status = again & 2 ? aule_plan_report(plan, &c->run, &error)
                                             : aule_plan_run(plan, &c->run, &error);
        if (message)
            expect_error(status, &error, AULE_ERROR_INDEX, message);
        else
            assert_int_equal(status, AULE_OK);
    }
    c->run.params = NULL;
    aule_plan_free(plan);
    aule_device_close(device);
    aule_module_close(module);
}

static void test_reports(void **state)
{
    (void)state;
    Copy *copy = malloc(sizeof *copy);
    Case *c = case_new();
    copy_sample(copy);
    copy->variants[0].features = "";
    copy->attention.variant_count = 1;
    expect_report(copy, c, no_trouble, NULL);
    expect_report(copy, c, write_code,
                  "sample.attn:7:31: index -5 on axis 0 of 'lengths' is not in [0, 2) "
                  "(b 1, h 2, q_idx 3)");
    copy->check.tensor = T_SLOPE; /* of 2 H - 1 */
    expect_report(copy, c, write_code, "index -5 on axis 0 of 'slope' is not in [0, 7)");
    copy->check.slices = 2; /* more than the region has */
    aule_module *module;
    aule_device *device;
    aule_error *error = NULL;
    assert_int_equal(aule_module_from(&copy->module, NULL, &module, &error), AULE_OK);
    assert_int_equal(aule_device_open("cpu", NULL, &device, &error), AULE_OK);
    expect_error(
        aule_attention_run(aule_module_attention(module, 0), device, &c->call, &c->run, &error),
        &error, AULE_ERROR_ARTIFACT, "sample: a region of checks is too small");
    expect_error(aule_plan_report(NULL, NULL, &error), &error, AULE_ERROR_USAGE,
                 "plan must not be NULL");
    copy->variants[0].struct_size = offsetof(aule_variant_v1, check_count); /* of version 1.0 */
    assert_int_equal(
        aule_attention_run(aule_module_attention(module, 0), device, &c->call, &c->run, &error),
        AULE_OK);
    aule_device_close(device);
    aule_module_close(module);
    case_free(c);
    free(copy);
}

static const char *planned(aule_attention *attention, aule_device *device, Case *c,
                           const char *arch)
{
    aule_plan *plan;
    c->call.arch = arch;
    if (aule_plan_new(attention, device, &c->call, &plan, NULL)) return NULL;
    const char *schedule = aule_plan_variant(plan)->schedule;
    aule_plan_free(plan);
    return schedule;
}

/* A variant whose architecture is not worth its place on this processor comes after the plain ones, unless AULE_CPU_ARCH says that
 * it is; asked for by name it runs. */
static void test_slow_architecture(void **state)
{
    (void)state;
#ifdef __x86_64__
    Copy *copy = malloc(sizeof *copy);
    Case *c = case_new();
    aule_module *module;
    aule_device *device, *named;
    copy_sample(copy);
    copy->variants[0].features = "";
    copy->variants[0].schedule = "dot";
    copy->variants[0].arch = "x86-64-v4-bf16";
    assert_int_equal(aule_module_from(&copy->module, NULL, &module, NULL), AULE_OK);
    assert_int_equal(aule_device_open("cpu", NULL, &device, NULL), AULE_OK);
    setenv("AULE_CPU_ARCH", "x86-64-v4-bf16", 1);
    assert_int_equal(aule_device_open("cpu", NULL, &named, NULL), AULE_OK);
    unsetenv("AULE_CPU_ARCH");
    aule_attention *attention = aule_module_attention(module, 0);
    const bool fast = strstr(aule_device_get_info(device)->features, "fast-bf16-dot"),
               taken = strstr(aule_device_get_info(named)->features, "fast-bf16-dot");
    assert_int_equal(taken, strstr(aule_device_get_info(named)->features, "avx512bf16") != NULL);
    assert_int_equal(strcmp(planned(attention, device, c, NULL), "dot") == 0, fast);
    assert_int_equal(strcmp(planned(attention, named, c, NULL), "dot") == 0, taken);
    assert_string_equal(planned(attention, device, c, "x86-64-v4-bf16"), "dot");
    aule_module_close(module);
    aule_device_close(device);
    aule_device_close(named);
    case_free(c);
    free(copy);
#endif
}

/* A variant for calls that meet its condition; one that cannot be computed is never met. */
static void test_condition(void **state)
{
    enum { S = 5 };
    static const struct {
        uint32_t code[5], length;
        bool met;
    } rows[] = {{{AULE_E_SIZE | Z_S << 8, AULE_E_CONST_INT, S, 0, AULE_E_LE}, 5, true},
                {{AULE_E_SIZE | Z_S << 8, AULE_E_CONST_INT, S, 0, AULE_E_LT}, 5, false},
                {{AULE_E_SIZE | Z_S << 8, AULE_E_CONST_INT, 0, 0, AULE_E_DIV}, 5, false},
                {{AULE_E_CONST_FLOAT, 0, 1072693248}, 3, false}, /* 1.0 */
                {{AULE_E_ADD}, 1, false}};
    (void)state;
    Copy *copy = malloc(sizeof *copy);
    Case *c = case_new();
    aule_module *module;
    aule_device *device;
    assert_int_equal(aule_device_open("cpu", NULL, &device, NULL), AULE_OK);
    for (size_t n = 0; n < sizeof rows / sizeof *rows; n++) {
        copy_sample(copy);
        copy->variants[0].features = "";
        copy->variants[0].schedule = "few";
        copy->variants[0].condition = (aule_expr){rows[n].code, rows[n].length};
        assert_int_equal(aule_module_from(&copy->module, NULL, &module, NULL), AULE_OK);
        aule_attention *attention = aule_module_attention(module, 0);
        const char *schedule = planned(attention, device, c, NULL);
        assert_int_equal(strcmp(schedule, "few") == 0, rows[n].met);
        const char *alone = planned(attention, device, c, copy->variants[0].arch);
        assert_int_equal(alone != NULL, rows[n].met);
        aule_module_close(module);
    }
    aule_device_close(device);
    case_free(c);
    free(copy);
}

/* Where forward keeps an output for backward, backward needs that one. */
static void test_kept_output(void **state)
{
    (void)state;
    Copy *copy = malloc(sizeof *copy);
    Case *c = case_new();
    aule_module *module;
    aule_device *device;
    aule_plan *plan;
    aule_error *error = NULL;
    float kept[2 * 4 * 5 * SAMPLE_E];
    DLTensor tensor = c->tensors[T_O];
    tensor.data = kept;
    copy_sample(copy);
    copy->tensors[TENSORS] = copy->tensors[T_O];
    copy->tensors[TENSORS].name = "o_kept";
    copy->tensors[TENSORS].role = AULE_ROLE_KEPT;
    copy->tensors[TENSORS].flags = AULE_TENSOR_OPTIONAL;
    copy->attention.tensor_count = TENSORS + 1;
    assert_int_equal(aule_module_from(&copy->module, NULL, &module, &error), AULE_OK);
    assert_int_equal(aule_device_open("cpu", NULL, &device, &error), AULE_OK);
    aule_attention *attention = aule_module_attention(module, 0);
    for (int with = 0; with < 2; with++) { /* forward: as the caller likes */
        c->call.tensor_count = FORWARD_TENSORS + (size_t)with;
        c->args[FORWARD_TENSORS] = (aule_tensor_arg){"o_kept", &tensor};
        assert_int_equal(aule_plan_new(attention, device, &c->call, &plan, &error), AULE_OK);
        aule_plan_free(plan);
    }
    c->args[FORWARD_TENSORS] = (aule_tensor_arg){"do", &c->tensors[T_DO]};
    case_make_backward(c, true);
    expect_plan_error(attention, device, c, AULE_ERROR_NAME,
                      "sample: o_kept is missing, backward needs it");
    c->args[T_O] = (aule_tensor_arg){"o_kept", &tensor};
    assert_int_equal(aule_plan_new(attention, device, &c->call, &plan, &error), AULE_OK);
    aule_plan_free(plan);
    copy->attention.variant_count = 3; /* forward only */
    expect_plan_error(
        attention, device, c, AULE_ERROR_UNSUPPORTED,
        "sample: no operation 'backward', the artifact has forward: the script has no "
        "gradient, or was compiled with --no-grad or in a layout that has none");
    aule_device_close(device);
    aule_module_close(module);
    case_free(c);
    free(copy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_damaged_descriptors),
        cmocka_unit_test(test_longer_structures),
        cmocka_unit_test(test_reports),
        cmocka_unit_test(test_slow_architecture),
        cmocka_unit_test(test_condition),
        cmocka_unit_test(test_kept_output),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
