/* Tensor maps of launches: which calls get kernels with maps and which their twins, what the driver is given, and descriptors that are
 * damaged there. On the mock of CUDA's driver. */
#include "cuda_case.h"

#include <stdio.h>
#include <string.h>

#define SIZE(i) (AULE_E_SIZE | (uint32_t)(i) << 8)
#define EXPR(...)                                                                                  \
    {                                                                                              \
        (const uint32_t[]){__VA_ARGS__}, sizeof((const uint32_t[]){__VA_ARGS__}) / 4               \
    }

/* The sample with kernels for sm_90 alone, of which the first have maps. */
typedef struct Mapped {
    aule_module_v1 module;
    aule_attention_v1 attention;
    aule_variant_v1 variants[2];
    aule_launch_v1 launches[2];
    aule_map_v1 maps[MOCK_MAPS];
} Mapped;

static const char code[] =
    ".version 8.1\n.target sm_90\n"
    ".visible .entry weigh(.param .align 8 .b8 s[232], .param .align 64 .b8 maps[512])\n"
    ".visible .entry divide(.param .align 8 .b8 s[232])\n";

enum { M_Q, M_O, M_LSE, M_SUMS };

// clang-format off
static const aule_map_v1 given[MOCK_MAPS] = {
    [M_Q]    = {sizeof(aule_map_v1), AULE_SLOT_TENSOR, T_Q, AULE_F32, 4, 32, 0, {8, 4, 1, 1},
                {EXPR(SIZE(Z_D)), EXPR(SIZE(Z_S)), EXPR(SIZE(Z_H)), EXPR(SIZE(Z_B))}, {{0}}},
    [M_O]    = {sizeof(aule_map_v1), AULE_SLOT_TENSOR, T_O, AULE_F32, 4, 0, AULE_MAP_WRITTEN, {4, 8, 1, 1},
                {EXPR(SIZE(Z_E)), EXPR(SIZE(Z_S)), EXPR(SIZE(Z_H)), EXPR(SIZE(Z_B))}, {{0}}},
    [M_LSE]  = {sizeof(aule_map_v1), AULE_SLOT_TENSOR, T_LSE, AULE_F32, 3, 0, AULE_MAP_WRITTEN, {4, 1, 1},
                {EXPR(SIZE(Z_S)), EXPR(SIZE(Z_H)), EXPR(SIZE(Z_B))}, {{0}}},
    [M_SUMS] = {sizeof(aule_map_v1), AULE_SLOT_WORKSPACE, 1, AULE_F32, 2, 128, AULE_MAP_NAN, {32, 2},
                {EXPR(SIZE(Z_H)), EXPR(SIZE(Z_S), SIZE(Z_B), AULE_E_MUL)}, {{0}}},
};
static const aule_expr key_heads = EXPR(SIZE(Z_HK)), heads = EXPR(SIZE(Z_H));
// clang-format on

static void make_module(Mapped *m)
{
    const aule_variant_v1 *plain = sample_module.attentions->variants;
    while (strcmp(plain->arch, "sm_90") != 0) plain++;
    m->module = sample_module;
    m->attention = *sample_module.attentions;
    m->module.attentions = &m->attention;
    m->attention.variants = m->variants;
    m->attention.variant_count = 2;
    m->variants[0] = m->variants[1] = *plain;
    memcpy(m->launches, plain->launches, sizeof m->launches);
    m->variants[0].features = "sm_90 ptx81 tensor_maps";
    m->variants[0].code = code;
    m->variants[0].code_bytes = sizeof code;
    m->variants[0].launches = m->launches;
    m->launches[0].maps = m->maps;
    m->launches[0].map_count = MOCK_MAPS;
    memcpy(m->maps, given, sizeof m->maps);
}

/* lse, whose rows of S elements are no multiples of 16 bytes, is not passed. */
static void open_mapped(Setup *s, Mapped *m)
{
    aule_error *error = NULL;
    make_module(m);
    cuda_open(s, "cuda:0", NULL);
    aule_module_close(s->module);
    if (aule_module_from(&m->module, NULL, &s->module, &error))
        fail_msg("%s", aule_error_message(error));
    s->attention = aule_module_attention(s->module, 0);
    s->c->call.tensor_count--;
}

static bool takes_maps(Setup *s)
{
    aule_plan *plan = cuda_plan(s);
    const bool maps = strstr(aule_plan_variant(plan)->features, "tensor_maps") != NULL;
    aule_plan_free(plan);
    return maps;
}

static void test_what_the_driver_gets(void **state)
{
    (void)state;
    Setup s;
    Mapped m;
    open_mapped(&s, &m);
    cuda_run(&s);
    cuda_fetch(&s);
    const MockMap *q = &cuda_mock.launches[0].maps[M_Q], *o = q + 1, *lse = q + 2, *sums = q + 3;
    assert_true(q->address == (uintptr_t)s.c->tensors[T_Q].data && q->rank == 4 && q->type == 7);
    assert_true(q->sizes[0] == 8 && q->sizes[1] == 5 && q->sizes[2] == 4 && q->sizes[3] == 2);
    assert_true(q->strides[0] == 32 && q->strides[1] == 160 && q->strides[2] == 640);
    assert_true(q->box[0] == 8 && q->box[1] == 4 && q->box[2] == 1 && q->swizzle == 1 && !q->fill);
    assert_true(o->address == (uintptr_t)s.c->tensors[T_O].data && o->swizzle == 0);
    assert_int_equal(lse->rank, 0);
    assert_true(sums->address == (uintptr_t)s.c->run.workspace + 64 && sums->rank == 2);
    assert_true(sums->sizes[0] == 4 && sums->sizes[1] == 10 && sums->strides[0] == 16);
    assert_true(sums->swizzle == 3 && sums->fill == 1);
    assert_string_equal(cuda_mock.launches[1].kernel, "divide");
    cuda_close(&s);
}

/* The linker's code would not hand over registers. */
static void test_code_that_is_whole(void **state)
{
    (void)state;
    static const char *const texts[] = {
        ".version 8.1\n.target sm_90a\n.visible .entry weigh()\n.visible .entry divide()\n",
        ".version 8.1\n.target sm_90a\n.visible .entry weigh()\n"
        "setmaxnreg.dec.sync.aligned.u32 24;\n.visible .entry divide()\n",
        ".version 8.1\n.target broken\nsetmaxnreg.dec.sync.aligned.u32 24;\n"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        Setup s;
        Mapped m;
        open_mapped(&s, &m);
        m.variants[0].code = texts[i];
        m.variants[0].code_bytes = strlen(texts[i]) + 1;
        const int links = cuda_mock.links, loads = cuda_mock.loads;
        if (i == 2) {
            expect_plan_error(s.attention, s.device, s.c, AULE_ERROR_BUILD,
                              "cuda:0: cuModuleLoadDataEx: CUDA_ERROR_INVALID_PTX (a PTX JIT "
                              "compilation failed); 'rows sm_90', PTX 8.1 on sm_90, CUDA 12.8; "
                              "the driver's log: ptxas application ptx input, line 2; fatal   : "
                              "Parsing error near 'is'");
        } else {
            aule_plan_free(cuda_plan(&s));
            assert_int_equal(cuda_mock.links - links, i == 0);
            assert_int_equal(cuda_mock.loads - loads, 1);
        }
        cuda_close(&s);
    }
}

static void test_twins(void **state)
{
    (void)state;
    Setup s;
    Mapped m;
    open_mapped(&s, &m);
    DLTensor *q = &s.c->tensors[T_Q], *o = &s.c->tensors[T_O];
    assert_true(takes_maps(&s));
    q->byte_offset = 8;
    assert_false(takes_maps(&s));
    q->byte_offset = 16;
    assert_true(takes_maps(&s));
    q->byte_offset = 0;
    static const struct {
        int axis;
        int64_t stride;
        bool maps;
    } rows[] = {{2, 10, false}, {2, 12, true},         {3, 2, false},
                {1, 42, false}, {1, 44, true},         {0, -160, false},
                {2, 0, false},  {0, 1ll << 39, false}, {0, 1ll << 37, true}};
    for (size_t n = 0; n < sizeof rows / sizeof *rows; n++) {
        int64_t *stride = &q->strides[rows[n].axis], before = *stride;
        *stride = rows[n].stride;
        if (takes_maps(&s) != rows[n].maps) fail_msg("row %d", (int)n);
        *stride = before;
    }
    o->strides[0] = 82; /* o is written */
    assert_false(takes_maps(&s));
    o->strides[0] = 80;
    s.c->call.tensor_count++; /* lse has rows of 20 bytes */
    assert_false(takes_maps(&s));
    cuda_run(&s);
    cuda_fetch(&s);
    assert_true(case_is_right(s.c));
    cuda_close(&s);
}

static void test_rows_that_are_cut(void **state)
{
    (void)state;
    Setup s;
    Mapped m;
    open_mapped(&s, &m);
    m.maps[M_SUMS].size[0] = key_heads; /* two elements, 8 bytes */
    assert_false(takes_maps(&s));       /* the second dimension is two elements on */
    m.maps[M_SUMS].stride[1] = heads;
    assert_true(takes_maps(&s));
    m.maps[M_SUMS].flags = AULE_MAP_WRITTEN;
    assert_false(takes_maps(&s));
    cuda_close(&s);
}

static void test_devices_without(void **state)
{
    (void)state;
    Setup s;
    Mapped m;
    open_mapped(&s, &m);
    assert_non_null(strstr(aule_device_get_info(s.device)->features, " tensor_maps"));
    cuda_close(&s);
    cuda_mock.driver = 12010;
    open_mapped(&s, &m);
    assert_true(takes_maps(&s));
    cuda_close(&s);
    cuda_mock.capability[0] = 80;
    open_mapped(&s, &m);
    assert_null(strstr(aule_device_get_info(s.device)->features, "tensor_maps"));
    cuda_close(&s);
}

/* Another address for a plan, and a driver that refuses. */
static void test_runs(void **state)
{
    (void)state;
    Setup s;
    Mapped m;
    aule_error *error = NULL;
    open_mapped(&s, &m);
    aule_plan *plan = cuda_plan(&s);
    aule_address at[TENSORS];
    for (size_t n = 0; n < s.c->call.tensor_count; n++)
        at[n] = (aule_address){s.c->args[n].tensor->data, s.c->args[n].tensor->byte_offset};
    s.c->run.tensors = at;
    assert_int_equal(aule_plan_run(plan, &s.c->run, NULL), AULE_OK);
    at[0].byte_offset += 8;
    const int launches = cuda_mock.launch_count;
    expect_error(
        aule_plan_run(plan, &s.c->run, &error), &error, AULE_ERROR_TENSOR,
        "sample: q: its address is no multiple of 16 bytes, as it was when the plan was made");
    assert_int_equal(cuda_mock.launch_count, launches);
    at[0].byte_offset -= 8;
    strcpy(cuda_mock.fail, "cuTensorMapEncodeTiled");
    cuda_mock.code = 1;
    expect_error(aule_plan_run(plan, &s.c->run, &error), &error, AULE_ERROR_DRIVER,
                 "kernel weigh, a map of 4 dimensions: 8 every 4 bytes 5 every 32 bytes");
    cuda_mock.fail[0] = 0;
    assert_int_equal(aule_plan_run(plan, &s.c->run, NULL), AULE_OK);
    aule_plan_free(plan);
    cuda_close(&s);
}

static void expect_damage(const Mapped *m, const char *text)
{
    aule_module *module;
    aule_error *error = NULL;
    expect_error(aule_module_from(&m->module, NULL, &module, &error), &error, AULE_ERROR_ARTIFACT,
                 text);
}

/* A dimension that copies end is there once more, one longer, and the map begins as many rows before the tensor. */
static void test_maps_that_are_cut(void **state)
{
    (void)state;
    Setup s;
    Mapped m;
    open_mapped(&s, &m);
    m.variants[0].features = "sm_90 ptx81 tensor_maps cut_maps";
    m.maps[M_Q].flags |= 1u << AULE_MAP_CUT_SHIFT;
    cuda_run(&s);
    const MockMap *q = &cuda_mock.launches[0].maps[M_Q];
    assert_true(q->address == (uintptr_t)s.c->tensors[T_Q].data - 5 * 32 && q->rank == 5);
    assert_true(q->sizes[1] == 5 && q->sizes[4] == 6 && q->strides[3] == 32 && q->box[4] == 1);
    cuda_close(&s);
    make_module(&m);
    m.maps[M_Q].flags = 4u << AULE_MAP_CUT_SHIFT;
    expect_damage(&m, "a launch's maps");
}

static void test_damage(void **state)
{
    (void)state;
    Mapped m;
#define DAMAGED(change)                                                                            \
    make_module(&m);                                                                               \
    m.change;                                                                                      \
    expect_damage(&m, "damaged artifact: sample: a launch's maps")
    DAMAGED(launches[0].maps = NULL);
    DAMAGED(launches[0].map_count = AULE_MAX_MAPS + 1);
    DAMAGED(maps[0].struct_size = 8);
    DAMAGED(maps[1].kind = AULE_SLOT_SIZE);
    DAMAGED(maps[1].index = TENSORS);
    DAMAGED(maps[1].index = T_DO);
    DAMAGED(maps[3].index = 2);
    DAMAGED(maps[1].dtype = AULE_OPERAND);
    DAMAGED(maps[1].rank = 3);
    DAMAGED(maps[3].rank = AULE_MAP_RANK + 1);
    DAMAGED(maps[3].rank = 0);
    DAMAGED(maps[0].swizzle = 48);
    DAMAGED(maps[0].box[1] = 0);
    DAMAGED(maps[0].box[0] = 257);
    DAMAGED(maps[2].size[1].length = 0);
#undef DAMAGED
    make_module(&m);
    m.launches[0].map_count = m.launches[1].map_count = AULE_MAX_MAPS;
    m.launches[1].maps = m.maps;
    aule_map_v1 many[AULE_MAX_MAPS];
    for (int n = 0; n < AULE_MAX_MAPS; n++) many[n] = m.maps[0];
    m.launches[0].maps = m.launches[1].maps = many;
    expect_damage(&m, "a variant's maps");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CUDA_TEST(test_what_the_driver_gets),
        CUDA_TEST(test_code_that_is_whole),
        CUDA_TEST(test_twins),
        CUDA_TEST(test_rows_that_are_cut),
        CUDA_TEST(test_devices_without),
        CUDA_TEST(test_runs),
        CUDA_TEST(test_maps_that_are_cut),
        CUDA_TEST(test_damage),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    cuda_remove_cache();
    return failed;
}
