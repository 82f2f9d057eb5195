/* Runs of plans on the mock of Vulkan: commands are written once, a run fills parameter blocks and submits; many are on the queue at once, with
 * other addresses and other parameters each. */
#include "sample_kernels.h"
#include "vulkan_case.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include <sys/mman.h>
#include <unistd.h>

/* As many turns as a plan has (vulkan_record.c). */
enum { TURNS = 16, RUNS = 3 * TURNS };

typedef struct Started {
    OnDevice s;
    aule_address at[TENSORS];
} Started;

static void start(Started *t)
{
    aule_error *error = NULL;
    vulkan_mock_reset();
    on_device_begin(&t->s, vulkan_case_module(), FORWARD_TENSORS);
    if (on_device_run(&t->s, "vulkan:0", &error)) fail_msg("%s", aule_error_message(error));
    assert_true(case_is_right(t->s.c));
    for (int n = 0; n < FORWARD_TENSORS; n++)
        t->at[n] = (aule_address){aule_buffer_data(t->s.buffers[n]), 0};
}

static void run_plan(Started *t)
{
    aule_error *error = NULL;
    if (aule_plan_run(t->s.plan, &t->s.c->run, &error)) fail_msg("%s", aule_error_message(error));
}

static void finish(Started *t)
{
    on_device_end(&t->s);
    expect_nothing_left();
}

/* One submission a run, and nothing is written, made or waited for, after the plan was made. */
static void test_commands_are_written_once(void **state)
{
    (void)state;
    Started t;
    start(&t);
    const VulkanMock before = vulkan_mock;
    for (int n = 0; n < RUNS; n++) run_plan(&t);
    assert_int_equal(vulkan_mock.submits, before.submits + RUNS);
    assert_int_equal(vulkan_mock.begun, before.begun);
    assert_int_equal(vulkan_mock.waits, before.waits);
    assert_int_equal(vulkan_mock.memories, before.memories);
    assert_int_equal(vulkan_mock.buffers, before.buffers);
    assert_int_equal(vulkan_mock.commands, before.commands);
    /* zeros, barrier, weigh, barrier, divide */
    assert_int_equal(vulkan_mock.dispatches, before.dispatches + 3 * RUNS);
    assert_int_equal(vulkan_mock.barriers, before.barriers + 2 * RUNS);
    finish(&t);
}

/* A plan whose kernels do nothing, of launches that are a test's. */
typedef struct Idle {
    CaseModule m;
    OnDevice s;
} Idle;

static const aule_launch_v1 *idle_launch(int n)
{
    const aule_attention_v1 *a = vulkan_case_module()->attentions;
    uint32_t k = 0;
    while (strcmp(a->variants[k].target, "vulkan") != 0) k++; /* forward */
    return &a->variants[k].launches[n % 2];
}

static void start_idle(Idle *i, const aule_launch_v1 *launches, uint32_t count)
{
    aule_error *error = NULL;
    *i = (Idle){
        .m = {.attention = *vulkan_case_module()->attentions, .module = *vulkan_case_module()}};
    CaseModule *m = &i->m;
    memcpy(m->variants, m->attention.variants, m->attention.variant_count * sizeof *m->variants);
    m->module.attentions = &m->attention;
    m->attention.variants = m->variants;
    for (uint32_t k = 0; k < m->attention.variant_count; k++) {
        aule_variant_v1 *v = &m->variants[k];
        if (strcmp(v->target, "vulkan") != 0 || strcmp(v->operation, "forward") != 0) continue;
        v->launches = launches;
        v->launch_count = count;
        v->workspace_count = 1; /* which is not zeroed */
    }
    vulkan_mock_reset();
    vulkan_mock.idle = true;
    OnDevice *s = &i->s;
    on_device_begin(s, &m->module, FORWARD_TENSORS);
    assert_int_equal(aule_device_open("vulkan:0", NULL, &s->device, &error), AULE_OK);
    assert_int_equal(
        case_place(s->c, s->device, FORWARD_TENSORS, s->buffers, &s->workspace, &error), AULE_OK);
    if (aule_plan_new(aule_module_attention(s->module, 0), s->device, &s->c->call, &s->plan,
                      &error))
        fail_msg("%s", aule_error_message(error));
}

static void run_idle(Idle *i, const aule_value *params)
{
    aule_error *error = NULL;
    i->s.c->run.params = params;
    if (aule_plan_run(i->s.plan, &i->s.c->run, &error)) fail_msg("%s", aule_error_message(error));
}

static void end_idle(Idle *i)
{
    on_device_end(&i->s);
    expect_nothing_left();
}

/* Kernels that touch nothing of each other's that one of them writes have no barrier between them. */
static void test_barriers(void **state)
{
#define TOUCHES(t)                                                                                 \
    {                                                                                              \
        AULE_SLOT_TENSOR, AULE_SLOT_PTR, t, 0                                                      \
    }
    static const aule_slot_v1 o[] = {TOUCHES(T_Q), TOUCHES(T_K), TOUCHES(T_O)};
    static const aule_slot_v1 lse[] = {TOUCHES(T_K), TOUCHES(T_LSE)};
    static const aule_slot_v1 both[] = {TOUCHES(T_LSE), TOUCHES(T_O)}, keys[] = {TOUCHES(T_K)};
    static const struct {
        const aule_slot_v1 *slots[3];
        uint32_t counts[3];
        int barriers;
    } all[] = {{{o, lse, keys}, {3, 2, 1}, 0},
               {{o, lse, both}, {3, 2, 2}, 1},
               {{o, o, o}, {3, 3, 3}, 2},
               {{both, lse, o}, {2, 2, 3}, 1},
               {{keys, both, lse}, {1, 2, 2}, 1}};
    (void)state;
    for (size_t n = 0; n < sizeof all / sizeof *all; n++) {
        aule_launch_v1 launches[3];
        Idle idle;
        for (int l = 0; l < 3; l++) {
            launches[l] = *idle_launch(l);
            launches[l].slots = all[n].slots[l];
            launches[l].slot_count = all[n].counts[l];
            launches[l].touch_count = 0;
        }
        start_idle(&idle, launches, 3);
        run_idle(&idle, NULL);
        assert_int_equal(vulkan_mock.barriers, all[n].barriers);
        end_idle(&idle);
    }
}

/* The same where slots say what kernels do: with q, the region and o, in this order. As backward has it, two kernels that read what the one
 * before them wrote need none between them; a kernel that writes what was only read waits, and nothing is to be seen. */
static void test_barriers_of_touches(void **state)
{
    enum { R = AULE_TOUCH_READ, W = AULE_TOUCH_WRITE, B = R | W, KERNELS = 4 };
    static const aule_slot_v1 slots[] = {{AULE_SLOT_TENSOR, AULE_SLOT_PTR, T_Q, 0},
                                         {AULE_SLOT_WORKSPACE, AULE_SLOT_PTR, 0, 4},
                                         {AULE_SLOT_TENSOR, AULE_SLOT_PTR, T_O, 0}};
    static const struct {
        uint32_t does[KERNELS][3];
        int barriers, seen;
    } all[] = {
        {{{R, W, 0}, {R, R, 0}, {R, R, W}}, 1, 1}, /* backward */
        {{{R, R, 0}, {R, R, 0}, {0, R, 0}, {R, R, R}}, 0, 0},
        {{{R, R, 0}, {R, W, 0}}, 1, 0},
        {{{R, B, 0}, {R, B, 0}}, 1, 1},
        {{{0, W, 0}, {0, W, 0}}, 1, 1},
        {{{R, 0, W}, {R, R, 0}, {0, W, 0}, {0, 0, R}}, 2, 1}, /* o is not seen behind the first */
        {{{R, W, W}, {0, R, 0}, {0, W, 0}, {0, 0, B}}, 2, 1},
    };
    (void)state;
    for (size_t n = 0; n < sizeof all / sizeof *all; n++)
        for (int known = 0; known < 2; known++) {
            aule_launch_v1 launches[KERNELS];
            uint32_t words[KERNELS];
            Idle idle;
            /* of before 1.17: what stood behind `flags` was not written */
            const size_t size = known ? sizeof *launches : offsetof(aule_launch_v1, touches);
            for (int l = 0; l < KERNELS; l++) {
                const uint32_t *does = all[n].does[l];
                aule_launch_v1 launch = *idle_launch(l);
                words[l] = does[0] | does[1] << 2 | does[2] << 4;
                launch.struct_size = (uint32_t)size;
                launch.slots = slots, launch.slot_count = 3;
                launch.touches = &words[l], launch.touch_count = 1;
                memcpy((char *)launches + (size_t)l * size, &launch, size);
            }
            start_idle(&idle, launches, KERNELS);
            run_idle(&idle, NULL);
            assert_int_equal(vulkan_mock.barriers, known ? all[n].barriers : KERNELS - 1);
            assert_int_equal(vulkan_mock.seen, known ? all[n].seen : KERNELS - 1);
            end_idle(&idle);
        }
}

/* The sample's backward, whose first kernel's slots say that it only reads the sums that it makes, if it [lies]. */
typedef struct Backward {
    CaseModule m;
    aule_launch_v1 launches[2];
    uint32_t words[(BACKWARD_SLOTS + 15) / 16];
} Backward;

static void make_backward(Backward *b, bool lies)
{
    CaseModule *m = &b->m;
    *m = (CaseModule){.attention = *vulkan_case_module()->attentions,
                      .module = *vulkan_case_module()};
    memcpy(m->variants, m->attention.variants, m->attention.variant_count * sizeof *m->variants);
    m->module.attentions = &m->attention;
    m->attention.variants = m->variants;
    uint32_t k = 0;
    while (strcmp(m->variants[k].target, "vulkan") != 0 ||
           strcmp(m->variants[k].operation, "backward") != 0)
        k++;
    memcpy(b->launches, m->variants[k].launches, sizeof b->launches);
    memcpy(b->words, b->launches[0].touches, sizeof b->words);
    if (lies) b->words[0] &= ~(AULE_TOUCH_WRITE << 2 * G_SUMS);
    b->launches[0].touches = b->words;
    m->variants[k].launches = b->launches;
}

/* On a device that does the last kernel first unless a barrier orders them, results are right; and wrong where slots lie. */
static void test_touches_that_lie(void **state)
{
    (void)state;
    for (int lies = 0; lies < 2; lies++) {
        Backward b;
        OnDevice s;
        aule_error *error = NULL;
        make_backward(&b, lies);
        vulkan_mock_reset();
        vulkan_mock.unordered = true;
        on_device_begin(&s, &b.m.module, TENSORS);
        if (on_device_run(&s, "vulkan:0", &error)) fail_msg("%s", aule_error_message(error));
        assert_true(case_is_right(s.c));
        aule_plan_free(s.plan);
        case_make_backward(s.c, true);
        const int before = vulkan_mock.seen;
        if (aule_plan_new(aule_module_attention(s.module, 0), s.device, &s.c->call, &s.plan,
                          &error) ||
            aule_plan_run(s.plan, &s.c->run, &error) || case_fetch(s.c, TENSORS, s.buffers, &error))
            fail_msg("%s", aule_error_message(error));
        assert_int_equal(case_has_gradients(s.c), !lies);
        assert_int_equal(vulkan_mock.seen - before, lies ? 1 : 2); /* zeros, gradients, move_sums */
        on_device_end(&s);
        expect_nothing_left();
    }
}

/* Where parameters change a grid, commands are written again; a turn that is taken next keeps no grid of another run. */
static void test_parameters_that_change_a_grid(void **state)
{
    static const uint32_t code[] = {AULE_E_PARAM | P_WINDOW << 8};
    aule_launch_v1 launch = *idle_launch(0);
    Idle idle;
    (void)state;
    launch.grid[0] = (aule_expr){code, 1};
    launch.slot_count = launch.touch_count = 1; /* q */
    start_idle(&idle, &launch, 1);
    const int begun = vulkan_mock.begun;
    for (int n = 0, turns = 0; n < RUNS; n++) {
        const int before = vulkan_mock.blocks;
        const aule_value window = {.type = AULE_VALUE_INT, .i = 1 + n % 3};
        run_idle(&idle, n % 4 ? &window : NULL); /* 4 of B 2, H 4 as planned */
        assert_int_equal(vulkan_mock.blocks - before, (n % 4 ? 1 + n % 3 : 4) * 2 * 4);
        turns += n % 4 != 0; /* the first time round, turns have the planned one */
        if (n < TURNS) assert_int_equal(vulkan_mock.begun - begun, turns);
    }
    /* What cannot be written is not run, and written the next time. */
    static const char *const calls[] = {"vkBeginCommandBuffer", "vkEndCommandBuffer"};
    for (int n = 0; n < 2; n++) {
        const aule_value window = {.type = AULE_VALUE_INT, .i = 7};
        const int before = vulkan_mock.blocks;
        aule_error *error = NULL;
        vulkan_mock.fail = calls[n], vulkan_mock.code = -2;
        idle.s.c->run.params = &window;
        expect_error(aule_plan_run(idle.s.plan, &idle.s.c->run, &error), &error, AULE_ERROR_MEMORY,
                     calls[n]);
        assert_int_equal(vulkan_mock.blocks, before);
        vulkan_mock.fail = NULL;
        for (int k = 0; k < TURNS; k++) run_idle(&idle, &window);
        assert_int_equal(vulkan_mock.blocks, before + TURNS * 7 * 2 * 4);
        for (int k = 0; k < TURNS; k++) run_idle(&idle, NULL);
        assert_int_equal(vulkan_mock.blocks, before + TURNS * (7 + 4) * 2 * 4);
    }
    for (int n = 0; n < TURNS; n++) run_idle(&idle, &(aule_value){.type = AULE_VALUE_INT, .i = 2});
    const int written = vulkan_mock.begun;
    for (int n = 0; n < TURNS; n++) run_idle(&idle, NULL);
    assert_true(vulkan_mock.begun > written);
    const int last = vulkan_mock.begun;
    for (int n = 0; n < TURNS; n++) run_idle(&idle, NULL);
    assert_int_equal(vulkan_mock.begun, last);
    end_idle(&idle);
}

/* Each run has other outputs and another workspace, and nothing is done before all turns are taken. */
static void test_runs_in_flight(void **state)
{
    (void)state;
    Started t;
    aule_buffer *outputs[RUNS], *workspaces[RUNS];
    start(&t);
    Case *c = t.s.c;
    vulkan_mock.lazy = true;
    c->run.tensors = t.at;
    for (int n = 0; n < RUNS; n++) {
        assert_int_equal(aule_buffer_new(t.s.device, c->bytes[T_O], &outputs[n], NULL), AULE_OK);
        assert_int_equal(aule_buffer_new(t.s.device, 4096, &workspaces[n], NULL), AULE_OK);
    }
    const VulkanMock before = vulkan_mock;
    for (int n = 0; n < RUNS; n++) {
        t.at[T_O].data = aule_buffer_data(outputs[n]);
        c->run.workspace = aule_buffer_data(workspaces[n]);
        run_plan(&t);
        if (n < TURNS) assert_int_equal(vulkan_mock.dispatches, before.dispatches);
    }
    assert_int_equal(vulkan_mock.waits, before.waits + RUNS / TURNS - 1);
    for (int n = 0; n < RUNS; n++) {
        case_forget(c);
        assert_int_equal(aule_buffer_download(outputs[n], 0, c->storage[T_O], c->bytes[T_O], NULL),
                         AULE_OK);
        assert_int_equal(
            aule_buffer_download(t.s.buffers[T_LSE], 0, c->storage[T_LSE], c->bytes[T_LSE], NULL),
            AULE_OK);
        assert_true(case_is_right(c));
        aule_buffer_free(outputs[n]);
        aule_buffer_free(workspaces[n]);
    }
    finish(&t);
}

/* New parameters that change no grid leave the commands as they are. */
static void test_new_parameters(void **state)
{
    (void)state;
    Started t;
    aule_value window = {.type = AULE_VALUE_INT, .i = 1};
    start(&t);
    Case *c = t.s.c;
    float *expected = malloc(c->bytes[T_O]);
    memcpy(expected, c->storage[T_O], c->bytes[T_O]);
    const int begun = vulkan_mock.begun;
    vulkan_mock.lazy = true;
    c->run.params = &window;
    run_plan(&t);
    c->run.params = NULL;
    case_forget(c);
    assert_int_equal(
        aule_buffer_download(t.s.buffers[T_O], 0, c->storage[T_O], c->bytes[T_O], NULL), AULE_OK);
    /* a window of one key gives its value, where it is there */
    const float *o = c->storage[T_O], *v = c->storage[T_V];
    for (int e = 0; e < SAMPLE_E; e++) assert_true(fabsf(o[e] - v[e]) < 1e-6f);
    assert_true(memcmp(o, expected, c->bytes[T_O]) != 0);
    run_plan(&t);
    assert_int_equal(
        aule_buffer_download(t.s.buffers[T_O], 0, c->storage[T_O], c->bytes[T_O], NULL), AULE_OK);
    assert_memory_equal(c->storage[T_O], expected, c->bytes[T_O]);
    assert_int_equal(vulkan_mock.begun, begun); /* memory is seen: copies need no commands */
    free(expected);
    finish(&t);
}

/* No rows: nothing is launched, and nothing submitted. */
static void test_nothing_to_launch(void **state)
{
    (void)state;
    Started t;
    aule_plan *plan = NULL;
    aule_error *error = NULL;
    start(&t);
    Case *c = t.s.c;
    c->shapes[T_Q][2] = c->shapes[T_O][2] = c->shapes[T_LSE][2] = 0;
    if (aule_plan_new(aule_module_attention(t.s.module, 0), t.s.device, &c->call, &plan, &error))
        fail_msg("%s", aule_error_message(error));
    const int submits = vulkan_mock.submits;
    assert_int_equal(aule_plan_run(plan, &c->run, &error), AULE_OK);
    assert_int_equal(vulkan_mock.submits, submits);
    aule_plan_free(plan);
    finish(&t);
}

/* What fails in a run leaves the plan as it was: the next one is right. */
static void test_a_run_that_fails(void **state)
{
    (void)state;
    static const char *const calls[] = {"vkQueueSubmit", "vkGetSemaphoreCounterValue",
                                        "vkWaitSemaphores"};
    for (size_t n = 0; n < sizeof calls / sizeof *calls; n++) {
        Started t;
        aule_error *error = NULL;
        start(&t);
        vulkan_mock.lazy = true;
        for (int k = 0; k < TURNS; k++) run_plan(&t);
        vulkan_mock.fail = calls[n];
        vulkan_mock.code = -1;
        if (strcmp(calls[n], "vkQueueSubmit") == 0) vulkan_mock_work();
        expect_error(aule_plan_run(t.s.plan, &t.s.c->run, &error), &error, AULE_ERROR_MEMORY,
                     calls[n]);
        vulkan_mock.fail = NULL;
        case_forget(t.s.c);
        run_plan(&t);
        assert_int_equal(case_fetch(t.s.c, FORWARD_TENSORS, t.s.buffers, &error), AULE_OK);
        assert_true(case_is_right(t.s.c));
        finish(&t);
    }
}

/* What a plan leaves that is freed while its runs are on the queue is given back later: the device reads its commands and blocks. */
static void test_a_plan_freed_in_flight(void **state)
{
    (void)state;
    Started t;
    aule_plan *plan = NULL;
    aule_error *error = NULL;
    start(&t);
    vulkan_mock.lazy = true;
    for (int n = 0; n < 3; n++) run_plan(&t);
    const VulkanMock before = vulkan_mock;
    aule_plan_free(t.s.plan);
    t.s.plan = NULL;
    assert_int_equal(vulkan_mock.waits, before.waits);
    assert_int_equal(vulkan_mock.commands, before.commands);
    case_forget(t.s.c);
    assert_int_equal(aule_plan_new(aule_module_attention(t.s.module, 0), t.s.device, &t.s.c->call,
                                   &plan, &error),
                     AULE_OK);
    assert_int_equal(vulkan_mock.commands, before.commands + TURNS);
    aule_plan_free(plan);
    assert_int_equal(vulkan_mock.commands, before.commands); /* it had no run */
    assert_int_equal(case_fetch(t.s.c, FORWARD_TENSORS, t.s.buffers, &error), AULE_OK);
    assert_true(case_is_right(t.s.c));
    assert_int_equal(aule_plan_new(aule_module_attention(t.s.module, 0), t.s.device, &t.s.c->call,
                                   &t.s.plan, &error),
                     AULE_OK);
    assert_int_equal(vulkan_mock.commands, before.commands); /* the first one's are gone */
    finish(&t);
}

/* Threads that run one plan, each with outputs and a workspace of its own, and make buffers and plans meanwhile. */
typedef struct Worker {
    Started *t;
    pthread_t thread;
    bool right;
} Worker;

static void *work(void *argument)
{
    enum { EACH = 40 };
    Worker *w = argument;
    const OnDevice *s = &w->t->s;
    const Case *c = s->c;
    aule_address at[FORWARD_TENSORS];
    aule_buffer *output = NULL, *workspace = NULL;
    float *found = malloc(c->bytes[T_O]);
    memcpy(at, w->t->at, sizeof at);
    w->right = true;
    for (int n = 0; n < EACH && w->right; n++) {
        aule_plan *plan = NULL;
        w->right = !aule_buffer_new(s->device, c->bytes[T_O], &output, NULL) &&
                   !aule_buffer_new(s->device, 4096, &workspace, NULL) &&
                   (n % 8 || !aule_plan_new(aule_module_attention(s->module, 0), s->device,
                                            &c->call, &plan, NULL));
        at[T_O].data = aule_buffer_data(output);
        const aule_run run = {.struct_size = sizeof run,
                              .workspace = aule_buffer_data(workspace),
                              .workspace_bytes = 4096,
                              .tensors = at};
        w->right = w->right && !aule_plan_run(plan ? plan : s->plan, &run, NULL) &&
                   !aule_buffer_download(output, 0, found, c->bytes[T_O], NULL) &&
                   memcmp(found, c->storage[T_O], c->bytes[T_O]) == 0;
        aule_plan_free(plan);
        aule_buffer_free(output);
        aule_buffer_free(workspace);
    }
    free(found);
    return NULL;
}

static void test_threads(void **state)
{
    enum { THREADS = 4 };
    (void)state;
    for (int lazy = 0; lazy < 2; lazy++) {
        Started t;
        Worker workers[THREADS];
        start(&t);
        vulkan_mock.lazy = lazy;
        for (int n = 0; n < THREADS; n++) {
            workers[n].t = &t;
            assert_int_equal(pthread_create(&workers[n].thread, NULL, work, &workers[n]), 0);
        }
        for (int n = 0; n < THREADS; n++) pthread_join(workers[n].thread, NULL);
        for (int n = 0; n < THREADS; n++) assert_true(workers[n].right);
        finish(&t);
    }
}

/* The two pipelines of a module are made at once, where there are two processors. */
static void test_pipelines_beside_each_other(void **state)
{
    (void)state;
    OnDevice s;
    setenv("AULE_CACHE_MAX", "0", 1);
    aule_error *error = NULL;
    on_device_begin(&s, vulkan_case_module(), FORWARD_TENSORS);
    vulkan_mock_reset();
    assert_int_equal(aule_device_open("vulkan:0", NULL, &s.device, &error), AULE_OK);
    assert_int_equal(case_place(s.c, s.device, FORWARD_TENSORS, s.buffers, &s.workspace, &error),
                     AULE_OK);
    vulkan_mock.together = 2;
    assert_int_equal(
        aule_plan_new(aule_module_attention(s.module, 0), s.device, &s.c->call, &s.plan, &error),
        AULE_OK);
    cpu_set_t processors;
    assert_int_equal(sched_getaffinity(0, sizeof processors, &processors), 0);
    assert_int_equal(vulkan_mock.most_together, CPU_COUNT(&processors) > 1 ? 2 : 1);
    on_device_end(&s);
    expect_nothing_left();
    unsetenv("AULE_CACHE_MAX");
}

/* ---- numbers that another driver has, too */

/* Who has the descriptor sees them, and sets them: a run begins when it has, and says when it has ended. */
static void test_timelines(void **state)
{
    (void)state;
    Started t;
    aule_error *error = NULL;
    aule_timeline *timeline = NULL;
    int fd = -1;
    vulkan_mock_reset();
    vulkan_mock.signals = true;
    on_device_begin(&t.s, vulkan_case_module(), FORWARD_TENSORS);
    if (on_device_run(&t.s, "vulkan:0", &error)) fail_msg("%s", aule_error_message(error));
    if (aule_timeline_export(t.s.device, &timeline, &fd, &error))
        fail_msg("%s", aule_error_message(error));
    volatile uint64_t *number =
        mmap(NULL, sizeof *number, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(number != MAP_FAILED && *number == 0);
    close(fd);
    const aule_vulkan_semaphore before = {aule_timeline_handle(timeline), 3},
                                behind = {aule_timeline_handle(timeline), 4};
    aule_vulkan_queue queue = {.struct_size = sizeof queue,
                               .waits = &before,
                               .wait_count = 1,
                               .signals = &behind,
                               .signal_count = 1};
    const int done = vulkan_mock.blocks;
    t.s.c->run.queue = &queue;
    run_plan(&t);
    assert_int_equal(vulkan_mock.blocks, done); /* it waits */
    *number = 3;
    vulkan_mock_work();
    assert_true(vulkan_mock.blocks > done);
    assert_int_equal(*number, 4);
    assert_int_equal(aule_timeline_wait(timeline, NULL, 5, &error), AULE_OK);
    assert_int_equal(aule_timeline_signal(timeline, NULL, 6, &error), AULE_OK);
    assert_int_equal(*number, 4); /* behind what waits */
    *number = 5;
    vulkan_mock_work();
    assert_int_equal(*number, 6);
    aule_timeline_free(timeline);
    munmap((void *)(uintptr_t)number, sizeof *number);
    t.s.c->run.queue = NULL;
    finish(&t);
}

/* Each call in turn, and devices that have none. */
static void test_timelines_fail(void **state)
{
    (void)state;
    aule_error *error = NULL;
    aule_device *device = NULL;
    aule_timeline *timeline = NULL;
    int fd = -1;
    vulkan_mock_reset();
    assert_int_equal(aule_device_open("vulkan:0", NULL, &device, &error), AULE_OK);
    expect_error(aule_timeline_export(device, &timeline, &fd, &error), &error,
                 AULE_ERROR_UNSUPPORTED,
                 "timelines cannot be exported: the device lacks VK_KHR_external_semaphore_fd");
    expect_error(aule_timeline_import(device, 0, &timeline, &error), &error, AULE_ERROR_UNSUPPORTED,
                 "vulkan:0: timelines are not imported by file descriptor on vulkan");
    expect_error(aule_timeline_signal(NULL, NULL, 1, &error), &error, AULE_ERROR_USAGE,
                 "aule_timeline_signal: timeline must not be NULL");
    aule_device_close(device);
    vulkan_mock.signals = true;
    assert_int_equal(aule_device_open("vulkan:0", NULL, &device, &error), AULE_OK);
    vulkan_mock.lacks = 1u << MOCK_TIMELINES;
    expect_error(aule_timeline_export(device, &timeline, &fd, &error), &error,
                 AULE_ERROR_UNSUPPORTED, "the driver lets no timelines be exported");
    vulkan_mock.lacks = 0;
    for (int n = 1;; n++) {
        vulkan_mock.calls = 0, vulkan_mock.fail_at = n, vulkan_mock.code = -3;
        vulkan_mock.failed = NULL;
        const aule_status status = aule_timeline_export(device, &timeline, &fd, &error);
        if (!vulkan_mock.failed) {
            assert_int_equal(status, AULE_OK);
            assert_int_equal(n, 3);
            break;
        }
        if (!status || !strstr(aule_error_message(error), vulkan_mock.failed))
            fail_msg("%s: %s", vulkan_mock.failed, aule_error_message(error));
        aule_error_free(error);
        error = NULL;
    }
    vulkan_mock.fail_at = 0;
    close(fd);
    aule_timeline_free(timeline);
    aule_device_close(device);
    expect_nothing_left();
}

static int run(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_commands_are_written_once),
        cmocka_unit_test(test_barriers),
        cmocka_unit_test(test_barriers_of_touches),
        cmocka_unit_test(test_touches_that_lie),
        cmocka_unit_test(test_parameters_that_change_a_grid),
        cmocka_unit_test(test_runs_in_flight),
        cmocka_unit_test(test_new_parameters),
        cmocka_unit_test(test_nothing_to_launch),
        cmocka_unit_test(test_a_run_that_fails),
        cmocka_unit_test(test_a_plan_freed_in_flight),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_pipelines_beside_each_other),
        cmocka_unit_test(test_timelines),
        cmocka_unit_test(test_timelines_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void) { return vulkan_case_run(run); }
