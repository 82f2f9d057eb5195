/* schedule_test.c - the operation `schedule` and calls that are given "work", by an attention made by hand: that of the sample, whose kernels read
 * lengths from a list that a kernel before them makes. On the processor and on the mock of CUDA's driver. */
#include <stdlib.h>
#include <string.h>

#include "cuda_case.h"
#include "sample_kernels.h"

enum { WORK = TENSORS, WORDS = SIZES, REGION_LIST = 0, REGION_SUMS, B = 2, LIST_WORDS = B };

#define SIZE(i) (AULE_E_SIZE | (uint32_t)(i) << 8)
#define INT(i)  AULE_E_CONST_INT, (uint32_t)(i), 0
#define EXPR(...)                                                                                  \
    {                                                                                              \
        (const uint32_t[]){__VA_ARGS__}, sizeof((const uint32_t[]){__VA_ARGS__}) / 4               \
    }
#define TOUCH(slot, what) ((uint32_t)(what) << 2 * (slot))
#define READS(from, to)   (((1u << 2 * (to)) - (1u << 2 * (from))) / 3)

static const aule_expr words[] = {EXPR(SIZE(WORDS))};
static const aule_expr new_axes[] = {EXPR(SIZE(Z_B)), EXPR(SIZE(Z_HK)), EXPR(SIZE(Z_S)),
                                     EXPR(SIZE(Z_D))};
static const aule_expr list_grid[3] = {EXPR(SIZE(Z_B)), EXPR(INT(1)), EXPR(INT(1))};
static const aule_workspace_v1 list_region = {EXPR(SIZE(Z_B), INT(4), AULE_E_MUL), 64, 0};
static const char code[] = ".version 7.0\n.target sm_80\n.visible .entry list()\n.visible .entry "
                           "weigh()\n.visible .entry divide()\n";

/* What tests bend. */
typedef struct Listed {
    aule_size_v1 sizes[SIZES + 1];
    aule_tensor_v1 tensors[TENSORS + 2];
    aule_slot_v1 list_slots[SLOTS], slots[SLOTS], append_slots[SLOTS];
    uint32_t list_touches[(SLOTS + 15) / 16], touches[(SLOTS + 15) / 16];
    aule_workspace_v1 workspaces[2];
    aule_launch_v1 launches[2][3], append;
    aule_variant_v1 variants[3];
    aule_attention_v1 attention;
    aule_module_v1 module;
} Listed;

static const aule_variant_v1 *sample_variant(const char *target)
{
    const aule_attention_v1 *a = sample_module.attentions;
    for (uint32_t n = 0; n < a->variant_count; n++)
        if (!strcmp(a->variants[n].target, target) && !*a->variants[n].features)
            return &a->variants[n];
    return NULL;
}

static void add_launches(Listed *m, uint32_t target, bool host)
{
    const aule_launch_v1 *of = sample_variant("cpu")->launches;
    aule_launch_v1 *to = m->launches[target];
    to[0] = (aule_launch_v1){.struct_size = sizeof *to,
                             .entry = "list",
                             .host = host ? sample_list : NULL,
                             .grid = {list_grid[0], list_grid[1], list_grid[2]},
                             .block = {host ? 1 : 2, 1, 1},
                             .slot_count = SLOTS,
                             .slots = m->list_slots,
                             .flags = AULE_LAUNCH_WORK,
                             .touch_count = (SLOTS + 15) / 16,
                             .touches = m->list_touches};
    for (uint32_t n = 0; n < 2; n++) {
        to[1 + n] = of[n];
        to[1 + n].slots = m->slots;
        if (host) continue;
        to[1 + n].host = NULL;
        to[1 + n].block[0] = 2;
        to[1 + n].flags = AULE_LAUNCH_EARLY;
    }
    to[1].touch_count = (SLOTS + 15) / 16;
    to[1].touches = m->touches;
}

static Listed *listed_new(void)
{
    Listed *m = calloc(1, sizeof *m);
    assert_non_null(m);
    const aule_attention_v1 *a = sample_module.attentions;
    const aule_slot_v1 *slots = sample_variant("cpu")->launches->slots;
    memcpy(m->sizes, a->sizes, sizeof *m->sizes * SIZES);
    m->sizes[WORDS].name = "work_words";
    memcpy(m->tensors, a->tensors, sizeof *m->tensors * TENSORS);
    m->tensors[WORK] = (aule_tensor_v1){sizeof *m->tensors,   "work", AULE_ROLE_WORK, AULE_I32, 1,
                                        AULE_TENSOR_OPTIONAL, words};
    memcpy(m->slots, slots, sizeof m->slots);
    memcpy(m->list_slots, slots, sizeof m->slots);
    const aule_slot_v1 list = {AULE_SLOT_WORKSPACE, AULE_SLOT_PTR, REGION_LIST, 4};
    m->list_slots[L_SUMS] = m->slots[L_LENGTHS] = list;
    m->list_touches[0] = TOUCH(L_LENGTHS, AULE_TOUCH_READ) | TOUCH(L_SUMS, AULE_TOUCH_WRITE);
    m->touches[0] = READS(L_Q, L_O) | TOUCH(L_O, AULE_TOUCH_WRITE) |
                    TOUCH(L_LSE, AULE_TOUCH_WRITE) | TOUCH(L_SUMS, 3);
    const aule_workspace_v1 *sums = &sample_variant("cpu")->workspaces[1];
    m->workspaces[REGION_LIST] = list_region;
    m->workspaces[REGION_SUMS] = *sums;
    add_launches(m, 0, true);
    add_launches(m, 1, false);
    m->variants[0] = *sample_variant("cpu");
    for (uint32_t n = 0; n < 2; n++) {
        if (n) m->variants[n] = *sample_variant("opencl");
        m->variants[n].workspaces = m->workspaces;
        m->variants[n].launch_count = 3;
        m->variants[n].launches = m->launches[n];
    }
    m->variants[1].target = "cuda", m->variants[1].arch = "sm_80";
    m->variants[1].features = "sm_80 ptx70", m->variants[1].code_format = AULE_CODE_PTX;
    m->variants[1].code = code, m->variants[1].code_bytes = sizeof code;
    m->attention = *a;
    m->attention.size_count = SIZES + 1, m->attention.sizes = m->sizes;
    m->attention.tensor_count = TENSORS + 1, m->attention.tensors = m->tensors;
    m->attention.variant_count = 2, m->attention.variants = m->variants;
    m->module = sample_module;
    m->module.attentions = &m->attention;
    return m;
}

/* A call with one tensor more, its lists; on a device, or on the host. */
typedef struct Step {
    Listed *m;
    Setup s;
    int32_t host[64] __attribute__((aligned(64)));
    aule_buffer *lists;
    DLTensor work;
    int64_t shape, stride;
    aule_tensor_arg args[TENSORS + 1];
    aule_call schedule, forward; /* with lists; s.c->call: without */
} Step;

static void begin_with(Step *t, const char *id, Listed *m)
{
    aule_error *error = NULL;
    const bool on_host = strcmp(id, "cpu") == 0;
    memset(t, 0, sizeof *t);
    t->m = m;
    if (aule_module_from(&t->m->module, NULL, &t->s.module, &error))
        fail_msg("%s", aule_error_message(error));
    t->s.attention = aule_module_attention(t->s.module, 0);
    assert_int_equal(aule_device_open(id, NULL, &t->s.device, &error), AULE_OK);
    t->s.c = case_new();
    if (!on_host) cuda_place(&t->s);
    assert_int_equal(aule_buffer_new(t->s.device, sizeof t->host, &t->lists, &error), AULE_OK);
    t->shape = LIST_WORDS, t->stride = 1;
    t->work = (DLTensor){.data = on_host ? t->host : aule_buffer_data(t->lists),
                         .device = aule_device_get_info(t->s.device)->dl,
                         .ndim = 1,
                         .dtype = {kDLInt, 32, 1},
                         .shape = &t->shape,
                         .strides = &t->stride};
    const aule_call *call = &t->s.c->call;
    memcpy(t->args, call->tensors, call->tensor_count * sizeof *t->args);
    t->args[call->tensor_count] = (aule_tensor_arg){"work", &t->work};
    t->forward = t->schedule = *call;
    t->forward.tensors = t->schedule.tensors = t->args;
    t->forward.tensor_count = t->schedule.tensor_count = call->tensor_count + 1;
    t->schedule.operation = "schedule";
}

static void begin(Step *t, const char *id) { begin_with(t, id, listed_new()); }

static void end(Step *t)
{
    aule_buffer_free(t->lists);
    cuda_close(&t->s);
    free(t->m);
}

static aule_plan *plan_of(Step *t, const aule_call *call)
{
    aule_error *error = NULL;
    aule_plan *plan;
    if (aule_plan_new(t->s.attention, t->s.device, call, &plan, &error))
        fail_msg("%s", aule_error_message(error));
    return plan;
}

static void run(Step *t, const aule_call *call)
{
    aule_error *error = NULL;
    if (aule_attention_run(t->s.attention, t->s.device, call, &t->s.c->run, &error))
        fail_msg("%s", aule_error_message(error));
}

static void refused(Step *t, const aule_call *call, aule_status status, const char *text)
{
    aule_error *error = NULL;
    aule_plan *plan = NULL;
    expect_error(aule_plan_new(t->s.attention, t->s.device, call, &plan, &error), &error, status,
                 text);
}

/* ---- what a plan has */

static void test_shape(void **state)
{
    (void)state;
    Step t;
    begin(&t, "cpu");
    int32_t rank;
    int64_t shape[8];
    DLDataType type;
    assert_int_equal(
        aule_attention_shape(t.s.attention, &t.s.c->call, "work", &rank, shape, &type, NULL),
        AULE_OK);
    assert_int_equal(rank, 1);
    assert_int_equal(shape[0], LIST_WORDS);
    assert_int_equal(type.code, kDLInt);
    assert_int_equal(type.bits, 32);
    aule_plan *own = plan_of(&t, &t.s.c->call), *given = plan_of(&t, &t.forward),
              *made = plan_of(&t, &t.schedule);
    assert_int_equal(aule_plan_workspace(own, NULL) - aule_plan_workspace(given, NULL), 64);
    assert_int_equal(aule_plan_workspace(made, NULL), 0);
    aule_plan_free(own), aule_plan_free(given), aule_plan_free(made);
    aule_call few = t.s.c->call; /* without its parameter nobody knows */
    few.param_count = 0;
    aule_error *error = NULL;
    expect_error(aule_attention_shape(t.s.attention, &few, "work", &rank, shape, &type, &error),
                 &error, AULE_ERROR_PARAM, "window");
    end(&t);
}

static void test_steps(void **state)
{
    (void)state;
    Step t;
    begin(&t, "cpu");
    run(&t, &t.s.c->call);
    assert_true(case_is_right(t.s.c));
    case_forget(t.s.c);
    for (int n = 0; n < 64; n++) t.host[n] = -77;
    aule_run bare = {.struct_size = sizeof bare};
    aule_error *error = NULL;
    assert_int_equal(aule_attention_run(t.s.attention, t.s.device, &t.schedule, &bare, &error),
                     AULE_OK);
    const int32_t *lengths = t.s.c->storage[T_LENGTHS];
    for (int b = 0; b < B; b++) assert_int_equal(t.host[b], lengths[b]);
    for (int n = LIST_WORDS; n < 64; n++) assert_int_equal(t.host[n], -77);
    assert_false(case_is_right(t.s.c)); /* nothing else was made */
    for (int layer = 0; layer < 2; layer++) {
        case_forget(t.s.c);
        run(&t, &t.forward);
        assert_true(case_is_right(t.s.c));
    }
    t.host[0] = t.host[1] = 0; /* it is the list that is read */
    run(&t, &t.forward);
    assert_false(case_is_right(t.s.c));
    t.host[0] = INT32_MAX, t.host[1] = INT32_MIN;
    run(&t, &t.forward);
    run(&t, &t.schedule);
    run(&t, &t.forward);
    assert_true(case_is_right(t.s.c));
    end(&t);
}

/* ---- what is refused */

static void test_refusals(void **state)
{
    (void)state;
    Step t;
    begin(&t, "cpu");
    const aule_call *calls[] = {&t.schedule, &t.forward};
    for (int n = 0; n < 2; n++) {
        const aule_call *call = calls[n];
        t.shape = LIST_WORDS + 1;
        refused(&t, call, AULE_ERROR_TENSOR,
                "sample: work has 3 elements, those of this call are 2");
        t.shape = 0;
        refused(&t, call, AULE_ERROR_TENSOR, "work has 0 elements");
        t.shape = -1;
        refused(&t, call, AULE_ERROR_TENSOR, "work: axis 0 has -1 elements");
        t.shape = INT64_MAX / 2;
        refused(&t, call, AULE_ERROR_TENSOR, "work");
        t.shape = LIST_WORDS;
        t.stride = 2;
        refused(&t, call, AULE_ERROR_TENSOR, "work: axis 0 has stride 2, expected 1");
        t.stride = 1;
        t.work.byte_offset = 4;
        refused(&t, call, AULE_ERROR_TENSOR, "work: its address is 4 past a multiple of 64");
        t.work.byte_offset = 0;
        t.work.dtype.bits = 64;
        refused(&t, call, AULE_ERROR_TENSOR, "work: dtype is i64, expected i32");
        t.work.dtype.bits = 32;
        t.work.ndim = 2;
        t.work.shape = (int64_t[]){1, LIST_WORDS}, t.work.strides = NULL;
        refused(&t, call, AULE_ERROR_TENSOR, "work: shape is [1, 2], expected 1 axis");
        t.work.ndim = 1, t.work.shape = &t.shape, t.work.strides = &t.stride;
        t.work.data = NULL;
        refused(&t, call, AULE_ERROR_TENSOR, "work: its data is NULL");
        t.work.data = t.host;
        t.work.device.device_type = kDLCUDA;
        refused(&t, call, AULE_ERROR_TENSOR, "work: it is on cuda:0");
        t.work.device.device_type = kDLCPU;
    }
    t.work.data = t.s.c->storage[T_Q];
    t.work.byte_offset = -(uintptr_t)t.work.data % 64;
    refused(&t, &t.schedule, AULE_ERROR_TENSOR, "work: it is written and overlaps q in memory");
    t.work.data = t.s.c->storage[T_O];
    t.work.byte_offset = -(uintptr_t)t.work.data % 64;
    refused(&t, &t.forward, AULE_ERROR_TENSOR, "o: it is written and overlaps work in memory");
    end(&t);
}

/* Of two variants of which one copies q in boxes: addresses that rule that out would be for the other one's lists. */
static void test_boxes(void **state)
{
    (void)state;
    const aule_map_v1 of_q = {sizeof of_q,
                              AULE_SLOT_TENSOR,
                              T_Q,
                              AULE_F32,
                              4,
                              32,
                              0,
                              {8, 4, 1, 1},
                              {EXPR(SIZE(Z_D)), EXPR(SIZE(Z_S)), EXPR(SIZE(Z_H)), EXPR(SIZE(Z_B))},
                              {{0}}};
    Listed *m = listed_new();
    Step t;
    memcpy(m->launches[1], m->launches[0], sizeof *m->launches);
    m->variants[1] = m->variants[0];
    m->variants[1].launches = m->launches[1];
    m->launches[0][1].map_count = 1, m->launches[0][1].maps = &of_q;
    begin_with(&t, "cpu", m);
    DLTensor *q = &t.s.c->tensors[T_Q];
    q->byte_offset = -(uintptr_t)q->data % 16;
    const aule_call *calls[] = {&t.schedule, &t.forward};
    for (int n = 0; n < 2; n++) {
        aule_plan_free(plan_of(&t, calls[n]));
        q->byte_offset += 4;
        refused(&t, calls[n], AULE_ERROR_WORK,
                "sample: lists of work are those of kernels that copy in boxes");
        q->byte_offset -= 4;
    }
    q->byte_offset += 4;
    aule_plan_free(plan_of(&t, &t.s.c->call)); /* which makes its own */
    end(&t);
}

static void test_names(void **state)
{
    (void)state;
    Step t;
    begin(&t, "cpu");
    t.schedule.tensor_count--;
    refused(&t, &t.schedule, AULE_ERROR_NAME, "sample: work is missing");
    t.schedule.tensor_count++;
    t.args[t.schedule.tensor_count - 2] = t.args[t.schedule.tensor_count - 1];
    refused(&t, &t.schedule, AULE_ERROR_NAME, "work is passed twice");
    aule_call other = t.forward;
    other.operation = "backward";
    refused(&t, &other, AULE_ERROR_UNSUPPORTED, "no operation 'backward'");
    other = t.s.c->call;
    aule_module *sample;
    assert_int_equal(aule_module_from(&sample_module, NULL, &sample, NULL), AULE_OK);
    aule_error *error = NULL;
    aule_plan *plan = NULL;
    other.operation = "schedule";
    expect_error(aule_plan_new(aule_module_attention(sample, 0), t.s.device, &other, &plan, &error),
                 &error, AULE_ERROR_UNSUPPORTED,
                 "sample: no operation 'schedule', the artifact has forward, backward: lists of "
                 "work are of rows in layouts");
    expect_error(
        aule_plan_new(aule_module_attention(sample, 0), t.s.device, &t.forward, &plan, &error),
        &error, AULE_ERROR_NAME, "work");
    aule_module_close(sample);
    end(&t);
}

/* Without o, which only says which kernels are meant; and addresses of a run that lie otherwise. */
static void test_runs(void **state)
{
    (void)state;
    Step t;
    begin(&t, "cpu");
    aule_tensor_arg args[TENSORS + 1];
    aule_call call = t.schedule;
    call.tensor_count = 0, call.tensors = args;
    for (size_t n = 0; n < t.schedule.tensor_count; n++)
        if (strcmp(t.args[n].name, "o") && strcmp(t.args[n].name, "lse"))
            args[call.tensor_count++] = t.args[n];
    run(&t, &call);
    run(&t, &t.forward);
    assert_true(case_is_right(t.s.c));
    aule_plan *plan = plan_of(&t, &t.forward);
    aule_address at[TENSORS + 1];
    for (size_t n = 0; n < t.forward.tensor_count; n++)
        at[n] = (aule_address){t.args[n].tensor->data, t.args[n].tensor->byte_offset};
    aule_run moved = t.s.c->run;
    moved.tensors = at;
    at[t.forward.tensor_count - 1].byte_offset = 16;
    aule_error *error = NULL;
    expect_error(aule_plan_run(plan, &moved, &error), &error, AULE_ERROR_TENSOR,
                 "work: its address is 16 past a multiple of 64");
    at[t.forward.tensor_count - 1] = (aule_address){NULL, 0};
    expect_error(aule_plan_run(plan, &moved, &error), &error, AULE_ERROR_TENSOR,
                 "work: its data is NULL");
    at[t.forward.tensor_count - 1] = (aule_address){t.host + 16, 0};
    memcpy(t.host + 16, t.host, LIST_WORDS * sizeof *t.host);
    memset(t.host, 0, LIST_WORDS * sizeof *t.host);
    case_forget(t.s.c);
    assert_int_equal(aule_plan_run(plan, &moved, &error), AULE_OK);
    assert_true(case_is_right(t.s.c));
    aule_plan_free(plan);
    end(&t);
}

static void expect_damaged(Listed *m)
{
    aule_module *module;
    aule_error *error = NULL;
    expect_error(aule_module_from(&m->module, NULL, &module, &error), &error, AULE_ERROR_ARTIFACT,
                 "its lists of work");
    free(m);
}

/* An artifact whose lists are no such: what `schedule` makes would not be all, or forward would write it. */
static void test_damaged(void **state)
{
    (void)state;
    Listed *m = listed_new();
    m->touches[0] |= TOUCH(L_LENGTHS, AULE_TOUCH_WRITE);
    expect_damaged(m);
    m = listed_new();
    m->list_touches[0] |= TOUCH(L_O, AULE_TOUCH_WRITE);
    expect_damaged(m);
    m = listed_new();
    m->workspaces[REGION_LIST].zeroed = 1;
    expect_damaged(m);
    m = listed_new();
    m->workspaces[REGION_LIST].align = 128;
    expect_damaged(m);
    m = listed_new();
    m->list_touches[0] = TOUCH(L_LENGTHS, AULE_TOUCH_READ);
    expect_damaged(m);
    m = listed_new();
    m->launches[0][0].touch_count = 0;
    expect_damaged(m);
}

/* ---- on a device, in graphs */

typedef struct Graph {
    void *stream, *exec;
} Graph;

/* Lists of a step, and two layers. */
static Graph captured(Step *t, MockContext *context)
{
    Graph g;
    void *graph;
    aule_plan *lists = plan_of(t, &t->schedule), *layer = plan_of(t, &t->forward);
    assert_int_equal(cuDevicePrimaryCtxRetain(context, 0), 0);
    assert_int_equal(cuCtxSetCurrent(*context), 0);
    assert_int_equal(cuStreamCreate(&g.stream, 0), 0);
    t->s.c->run.queue = g.stream;
    cuda_mock.launch_count = 0;
    assert_int_equal(cuStreamBeginCapture_v2(g.stream, 0), 0);
    assert_int_equal(aule_plan_run(lists, &t->s.c->run, NULL), AULE_OK);
    for (int n = 0; n < 2; n++) assert_int_equal(aule_plan_run(layer, &t->s.c->run, NULL), AULE_OK);
    assert_int_equal(cuStreamEndCapture(g.stream, &graph), 0);
    assert_int_equal(cuda_mock.forbidden, 0);
    assert_int_equal(cuGraphInstantiateWithFlags(&g.exec, graph, 0), 0);
    cuGraphDestroy(graph);
    aule_plan_free(lists);
    aule_plan_free(layer);
    return g;
}

static void test_graph(void **state)
{
    (void)state;
    Step t;
    MockContext context;
    begin(&t, "cuda:0");
    const Graph g = captured(&t, &context);
    for (int n = 0; n < 200; n++) {
        int32_t *lengths = t.s.c->storage[T_LENGTHS];
        for (int b = 0; b < B; b++) lengths[b] = n == 0 ? 0 : (n * 5 + b * 3) % 9; /* T is 7 */
        assert_int_equal(
            aule_buffer_upload(t.s.buffers[T_LENGTHS], 0, lengths, t.s.c->bytes[T_LENGTHS], NULL),
            AULE_OK);
        case_forget(t.s.c);
        assert_int_equal(cuGraphLaunch(g.exec, g.stream), 0);
        cuda_fetch(&t.s);
        float *o = t.s.c->storage[T_O], *kept = malloc(t.s.c->bytes[T_O]);
        memcpy(kept, o, t.s.c->bytes[T_O]);
        case_forget(t.s.c);
        run(&t, &t.s.c->call);
        cuda_fetch(&t.s);
        assert_memory_equal(kept, t.s.c->storage[T_O], t.s.c->bytes[T_O]);
        free(kept);
    }
    cuGraphExecDestroy(g.exec);
    assert_int_equal(cuStreamDestroy_v2(g.stream), 0);
    cuCtxSetCurrent(NULL);
    cuDevicePrimaryCtxRelease_v2(0);
    end(&t);
}

/* A kernel that may begin early knows of the one before it. Where that was left out it is launched as others are. */
static void test_early(void **state)
{
    (void)state;
    static const struct {
        int call, launches, early[3];
    } rows[] = {{0, 3, {0, 1, 1}}, {1, 1, {0}}, {2, 2, {0, 1}}};
    Step t;
    begin(&t, "cuda:0");
    const aule_call *calls[] = {&t.s.c->call, &t.schedule, &t.forward};
    for (int n = 0; n < 3; n++) {
        cuda_mock.launch_count = 0;
        run(&t, calls[rows[n].call]);
        assert_int_equal(cuda_mock.launch_count, rows[n].launches);
        for (int l = 0; l < rows[n].launches; l++)
            assert_int_equal(cuda_mock.launches[l].early, rows[n].early[l]);
    }
    cuda_fetch(&t.s);
    assert_true(case_is_right(t.s.c));
    end(&t);
}

/* As where one has nothing to do, which may be the one that waits for those before it. */
static void test_early_behind_nothing(void **state)
{
    (void)state;
    Step t;
    Listed *m = listed_new();
    const aule_expr nothing = EXPR(INT(0));
    m->launches[1][1].grid[0] = nothing;
    begin_with(&t, "cuda:0", m);
    cuda_mock.launch_count = 0;
    run(&t, &t.s.c->call);
    assert_int_equal(cuda_mock.launch_count, 2);
    for (int l = 0; l < 2; l++) assert_int_equal(cuda_mock.launches[l].early, 0);
    end(&t);
}

/* Adds rows that are new, and a kernel of append, which copies some of the cache to itself. Of forward those that wait for it are [marked]. */
static void add_append(Listed *m, bool marked)
{
    m->tensors[WORK + 1] = (aule_tensor_v1){
        sizeof *m->tensors, "k_new", AULE_ROLE_NEW, AULE_F32, 4, AULE_TENSOR_OPTIONAL, new_axes};
    m->attention.tensor_count = WORK + 2;
    for (int n = 0; n < SLOTS; n++) m->append_slots[n] = m->slots[L_K];
    m->append = m->launches[1][0];
    m->append.slots = m->append_slots;
    m->append.flags = 0;
    m->variants[2] = m->variants[1];
    m->variants[2].operation = "append";
    m->variants[2].workspace_count = 0;
    m->variants[2].launch_count = 1;
    m->variants[2].launches = &m->append;
    m->attention.variant_count = 3;
    m->workspaces[REGION_SUMS].zeroed = 0; /* else that is what forward has first */
    for (int l = 0; marked && l < 2; l++) {
        m->launches[1][l].flags |= AULE_LAUNCH_BEHIND_APPEND;
        m->launches[1][l].touch_count = (SLOTS + 15) / 16;
    }
}

/* The first of forward's launches begins beside those of append where it waits for them, whichever of them is the first. */
static void test_early_behind_append(void **state)
{
    (void)state;
    static const struct {
        bool marked, given;
        int launches, early[4];
    } rows[] = {{true, false, 4, {0, 1, 1, 1}},
                {true, true, 3, {0, 1, 1}},
                {false, false, 4, {0, 0, 1, 1}},
                {false, true, 3, {0, 0, 1}}};
    for (size_t n = 0; n < sizeof rows / sizeof *rows; n++) {
        Step t;
        Listed *m = listed_new();
        add_append(m, rows[n].marked);
        begin_with(&t, "cuda:0", m);
        const aule_call *like = rows[n].given ? &t.forward : &t.s.c->call;
        aule_tensor_arg args[TENSORS + 2];
        aule_call call = *like;
        int64_t shape[4];
        DLTensor rows_of_k = *call.tensors[1].tensor;
        memcpy(args, call.tensors, call.tensor_count * sizeof *args);
        memcpy(shape, rows_of_k.shape, sizeof shape);
        shape[2] = call.tensors[0].tensor->shape[2];
        rows_of_k.shape = shape;
        aule_buffer *own;
        assert_int_equal(aule_buffer_new(t.s.device, 4096, &own, NULL), AULE_OK);
        rows_of_k.data = aule_buffer_data(own);
        rows_of_k.strides = NULL, rows_of_k.byte_offset = 0;
        args[call.tensor_count] = (aule_tensor_arg){"k_new", &rows_of_k};
        call.tensors = args;
        call.tensor_count++;
        cuda_mock.launch_count = 0;
        run(&t, &call);
        assert_int_equal(cuda_mock.launch_count, rows[n].launches);
        for (int l = 0; l < rows[n].launches; l++)
            assert_int_equal(cuda_mock.launches[l].early, rows[n].early[l]);
        aule_buffer_free(own);
        end(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CUDA_TEST(test_shape),
        CUDA_TEST(test_steps),
        CUDA_TEST(test_refusals),
        CUDA_TEST(test_boxes),
        CUDA_TEST(test_names),
        CUDA_TEST(test_runs),
        CUDA_TEST(test_damaged),
        CUDA_TEST(test_graph),
        CUDA_TEST(test_early),
        CUDA_TEST(test_early_behind_nothing),
        CUDA_TEST(test_early_behind_append),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
