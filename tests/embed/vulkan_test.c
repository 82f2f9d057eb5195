/* vulkan_test.c - an artifact in a program that has a Vulkan device of its own (vulkan_app.h): vulkan_test mha.so [bench]. Tensors and workspaces
 * are the program's, by address; runs wait for its semaphores, signal them, and are in order with its own work on the queue. Results are
 * those of `cpu`. With `bench`: what a run takes beside the driver's own vkQueueSubmit, and a plan. Status 77: no device. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "vulkan_app.h"

enum { B = 2, H = 3, S = 37, T = 53, D = 64, QUERIES = B * H * S * D, KEYS = B * H * T * D };
enum { Q, K, V, O, LSE, DO, DQ, DK, DV, TENSORS };

static const struct {
    const char *name;
    int rank;
    int64_t shape[4];
    int count;
} tensors[TENSORS] = {
    [Q] = {"q", 4, {B, H, S, D}, QUERIES},   [K] = {"k", 4, {B, H, T, D}, KEYS},
    [V] = {"v", 4, {B, H, T, D}, KEYS},      [O] = {"o", 4, {B, H, S, D}, QUERIES},
    [LSE] = {"lse", 3, {B, H, S}, B *H *S},  [DO] = {"do", 4, {B, H, S, D}, QUERIES},
    [DQ] = {"dq", 4, {B, H, S, D}, QUERIES}, [DK] = {"dk", 4, {B, H, T, D}, KEYS},
    [DV] = {"dv", 4, {B, H, T, D}, KEYS}};

static void give_up(aule_error *error, const char *what)
{
    printf("failed: %s: %s\n", what, aule_error_message(error));
    exit(1);
}

#define OK(call)                                                                                   \
    do {                                                                                           \
        if (call) give_up(error, #call);                                                           \
    } while (0)

static int failures;
static void expect(bool right, const char *what)
{
    if (right) return;
    printf("failed: %s\n", what);
    failures++;
}

/* ---- calls */

typedef struct Call {
    DLTensor dl[TENSORS];
    aule_tensor_arg args[TENSORS];
    aule_call call;
    aule_plan *plan;
} Call;

static void plan_call(Call *c, aule_attention *attention, aule_device *device, bool backward,
                      void *const *data)
{
    aule_error *error = NULL;
    const DLDevice dl = aule_device_get_info(device)->dl;
    const int count = backward ? TENSORS : DO;
    for (int n = 0; n < count; n++) {
        c->dl[n] = (DLTensor){.data = data[n],
                              .device = dl,
                              .ndim = tensors[n].rank,
                              .dtype = {kDLFloat, 32, 1},
                              .shape = (int64_t *)(uintptr_t)tensors[n].shape};
        c->args[n] = (aule_tensor_arg){tensors[n].name, &c->dl[n]};
    }
    c->call = (aule_call){.struct_size = sizeof c->call,
                          .operation = backward ? "backward" : "forward",
                          .tensors = c->args,
                          .tensor_count = (size_t)count};
    OK(aule_plan_new(attention, device, &c->call, &c->plan, &error));
}

/* What `cpu` makes of it. */
typedef struct Expected {
    float *at[TENSORS];
} Expected;

static Expected on_cpu(aule_attention *attention)
{
    Expected x;
    Call c;
    aule_device *device;
    aule_error *error = NULL;
    uint32_t seed = 1;
    void *data[TENSORS];
    OK(aule_device_open("cpu", NULL, &device, &error));
    for (int n = 0; n < TENSORS; n++) {
        data[n] = x.at[n] = malloc((size_t)tensors[n].count * sizeof(float));
        for (int i = 0; i < tensors[n].count; i++) {
            seed = seed * 1664525u + 1013904223u;
            x.at[n][i] = (float)(int32_t)seed * 0x1p-31f;
        }
    }
    for (int backward = 0; backward < 2; backward++) {
        plan_call(&c, attention, device, backward, data);
        const uint64_t bytes = aule_plan_workspace(c.plan, NULL);
        void *workspace = aligned_alloc(64, (size_t)(bytes + 64) / 64 * 64);
        const aule_run run = {
            .struct_size = sizeof run, .workspace = workspace, .workspace_bytes = bytes};
        OK(aule_plan_run(c.plan, &run, &error));
        aule_plan_free(c.plan);
        free(workspace);
    }
    aule_device_close(device);
    return x;
}

static bool is_close(const float *found, const Expected *x, int tensor)
{
    for (int i = 0; i < tensors[tensor].count; i++)
        if (!(fabsf(found[i] - x->at[tensor][i]) < 2e-5f)) return false;
    return true;
}

/* ---- the driver, with a clock */

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static double in_driver; /* nanoseconds in the functions below */
static VKAPI_ATTR VkResult VKAPI_CALL timed_submit(VkQueue queue, uint32_t count,
                                                   const VkSubmitInfo *submits, VkFence fence)
{
    const double start = now();
    const VkResult code = vkQueueSubmit(queue, count, submits, fence);
    in_driver += now() - start;
    return code;
}

static VKAPI_ATTR VkResult VKAPI_CALL timed_pipelines(VkDevice device, VkPipelineCache cache,
                                                      uint32_t count,
                                                      const VkComputePipelineCreateInfo *infos,
                                                      const VkAllocationCallbacks *allocator,
                                                      VkPipeline *pipelines)
{
    const double start = now();
    const VkResult code =
        vkCreateComputePipelines(device, cache, count, infos, allocator, pipelines);
    in_driver += now() - start; /* mha's forward has one */
    return code;
}

static aule_vulkan_function timed_functions(void *instance, const char *name)
{
    if (strcmp(name, "vkQueueSubmit") == 0) return (aule_vulkan_function)timed_submit;
    if (strcmp(name, "vkCreateComputePipelines") == 0) return (aule_vulkan_function)timed_pipelines;
    return (aule_vulkan_function)vkGetInstanceProcAddr(instance, name);
}

/* ---- the program */

typedef struct Program {
    App app;
    Expected x;
    aule_attention *attention;
    aule_device *device;
    Memory memory[TENSORS], workspace;
    Call forward, backward;
    VkSemaphore ready, done;
    uint64_t done_value;
} Program;

static void *by_address(const Memory *m) { return (void *)(uintptr_t)m->address; }

static void begin(Program *p, bool timed)
{
    enum { WORKSPACE = 1 << 20 };
    aule_vulkan_device given = app_given(&p->app);
    const aule_device_options options = {.struct_size = sizeof options, .context = &given};
    aule_error *error = NULL;
    char id[24];
    void *data[TENSORS];
    if (timed) given.get_instance_proc_addr = timed_functions;
    snprintf(id, sizeof id, "vulkan:%u", p->app.place);
    OK(aule_device_open(id, &options, &p->device, &error));
    for (int n = 0; n < TENSORS; n++) {
        p->memory[n] = app_memory(&p->app, (uint64_t)tensors[n].count * sizeof(float));
        data[n] = by_address(&p->memory[n]);
        if (n < O || n == DO)
            memcpy(p->memory[n].seen, p->x.at[n], (size_t)tensors[n].count * sizeof(float));
    }
    p->workspace = app_memory(&p->app, WORKSPACE);
    plan_call(&p->forward, p->attention, p->device, false, data);
    plan_call(&p->backward, p->attention, p->device, true, data);
    expect(aule_plan_workspace(p->backward.plan, NULL) <= WORKSPACE, "the workspace is enough");
    p->ready = app_timeline(&p->app);
    p->done = app_timeline(&p->app);
}

static void end(Program *p)
{
    aule_plan_free(p->forward.plan);
    aule_plan_free(p->backward.plan);
    aule_device_close(p->device);
    for (int n = 0; n < TENSORS; n++) {
        app_memory_end(&p->app, &p->memory[n]);
        free(p->x.at[n]);
    }
    app_memory_end(&p->app, &p->workspace);
    vkDestroySemaphore(p->app.device, p->ready, NULL);
    vkDestroySemaphore(p->app.device, p->done, NULL);
}

/* Puts a run on the queue that waits for [ready], where that is not 0, and signals the next value of `done`. */
static void put(Program *p, const Call *c, uint64_t ready, const aule_address *at)
{
    const aule_vulkan_semaphore waits[] = {{(uint64_t)p->ready, ready}};
    const aule_vulkan_semaphore signals[] = {{(uint64_t)p->done, ++p->done_value}};
    const aule_vulkan_queue queue = {.struct_size = sizeof queue,
                                     .waits = waits,
                                     .wait_count = ready != 0,
                                     .signals = signals,
                                     .signal_count = 1};
    const aule_run run = {.struct_size = sizeof run,
                          .queue = (void *)(uintptr_t)&queue,
                          .workspace = by_address(&p->workspace),
                          .workspace_bytes = 1 << 20,
                          .tensors = at};
    aule_error *error = NULL;
    OK(aule_plan_run(c->plan, &run, &error));
}

/* Nothing begins before the program says so, and it waits by its own semaphore. */
static void waits_and_signals(Program *p)
{
    put(p, &p->forward, 1, NULL);
    expect(app_value(&p->app, p->done) == 0, "a run waits");
    app_signal(&p->app, p->ready, 1);
    app_wait(&p->app, p->done, p->done_value);
    expect(is_close(p->memory[O].seen, &p->x, O), "forward is right");
    expect(is_close(p->memory[LSE].seen, &p->x, LSE), "lse is right");
    for (int n = 0; n < 2; n++) put(p, &p->backward, 0, NULL); /* the second one, too */
    app_wait(&p->app, p->done, p->done_value);
    expect(is_close(p->memory[DQ].seen, &p->x, DQ), "dq is right");
    expect(is_close(p->memory[DK].seen, &p->x, DK), "dk is right");
    expect(is_close(p->memory[DV].seen, &p->x, DV), "dv is right");
}

/* A copy to q, a run and a copy from o, one behind the other on the queue, which waits for the program to begin. */
static void in_order_with_the_program(Program *p)
{
    const uint64_t bytes = QUERIES * sizeof(float);
    Memory from = app_memory(&p->app, bytes), to = app_memory(&p->app, bytes);
    memcpy(from.seen, p->x.at[Q], bytes);
    memset(p->memory[Q].seen, 0, bytes);
    memset(p->memory[O].seen, 0, bytes);
    app_submit(&p->app, app_copy(&p->app, &from, &p->memory[Q], bytes), p->ready, 2, VK_NULL_HANDLE,
               0);
    put(p, &p->forward, 0, NULL);
    app_submit(&p->app, app_copy(&p->app, &p->memory[O], &to, bytes), VK_NULL_HANDLE, 0, p->done,
               ++p->done_value);
    app_signal(&p->app, p->ready, 2);
    app_wait(&p->app, p->done, p->done_value);
    expect(is_close(to.seen, &p->x, O), "a run is in order with copies of the program");
    app_memory_end(&p->app, &from);
    app_memory_end(&p->app, &to);
}

/* More runs than a plan has turns, each to another place. */
static void many_in_flight(Program *p)
{
    enum { RUNS = 50, PART = QUERIES };
    Memory all = app_memory(&p->app, (uint64_t)RUNS * PART * sizeof(float));
    aule_address at[DO];
    bool right = true;
    for (int n = 0; n < DO; n++) at[n] = (aule_address){by_address(&p->memory[n]), 0};
    at[O].data = by_address(&all);
    for (int n = 0; n < RUNS; n++) {
        at[O].byte_offset = (uint64_t)n * PART * sizeof(float);
        put(p, &p->forward, 0, at);
    }
    app_wait(&p->app, p->done, p->done_value);
    for (int n = 0; n < RUNS; n++) right &= is_close(all.seen + (size_t)n * PART, &p->x, O);
    expect(right, "runs in flight are right");
    app_memory_end(&p->app, &all);
}

/* Buffers of libaule's on the program's device, which a call that waits orders behind the program's work. */
static void buffers_of_libaule(Program *p)
{
    const uint64_t bytes = QUERIES * sizeof(float);
    aule_buffer *o = NULL;
    aule_error *error = NULL;
    float *back = malloc(bytes);
    OK(aule_buffer_new(p->device, bytes, &o, &error));
    aule_address at[DO];
    for (int n = 0; n < DO; n++) at[n] = (aule_address){by_address(&p->memory[n]), 0};
    at[O].data = aule_buffer_data(o);
    put(p, &p->forward, 0, at);
    OK(aule_buffer_download(o, 0, back, bytes, &error));
    expect(is_close(back, &p->x, O), "a buffer of libaule is right");
    aule_buffer_free(o);
    free(back);
}

/* What a device was made without is named. */
static void made_without(Program *p)
{
    aule_vulkan_device given = app_given(&p->app);
    const aule_device_options options = {.struct_size = sizeof options, .context = &given};
    aule_device *device = NULL;
    aule_error *error = NULL;
    char id[24];
    snprintf(id, sizeof id, "vulkan:%u", p->app.place);
    p->app.features_12.shaderInt8 = VK_FALSE;
    expect(aule_device_open(id, &options, &device, &error) == AULE_ERROR_DEVICE &&
               strstr(aule_error_message(error), "the VkDevice given was made without shaderInt8"),
           "what a device was made without is named");
    aule_error_free(error);
    p->app.features_12.shaderInt8 = VK_TRUE;
}

/* ---- what it takes */

/* The least of many: runs on a queue with room, waited for outside of the clock. */
static void measure_runs(Program *p, const Call *c, const aule_address *at, const char *what)
{
    enum { ROUNDS = 10, RUNS = 8 };
    double least = 1e30, beside = 1e30;
    for (int round = 0; round < ROUNDS; round++) {
        const aule_run run = {.struct_size = sizeof run,
                              .workspace = by_address(&p->workspace),
                              .workspace_bytes = 1 << 20,
                              .tensors = at};
        aule_error *error = NULL;
        in_driver = 0;
        const double start = now();
        for (int n = 0; n < RUNS; n++) OK(aule_plan_run(c->plan, &run, &error));
        const double each = (now() - start) / RUNS, ours = each - in_driver / RUNS;
        OK(aule_device_synchronize(p->device, NULL, &error));
        if (each < least) least = each;
        if (ours < beside) beside = ours;
    }
    printf("%-40s %6.0f ns, beside vkQueueSubmit %5.0f ns\n", what, least, beside);
}

/* A device opened anew has no program yet: its plan builds the pipelines, which the driver has kept. */
static void measure_plans(Program *p, const char *path)
{
    aule_vulkan_device given = app_given(&p->app);
    const aule_device_options options = {.struct_size = sizeof options, .context = &given};
    double first = 1e30, next = 1e30, beside = 1e30;
    void *data[TENSORS];
    char id[24];
    given.get_instance_proc_addr = timed_functions;
    snprintf(id, sizeof id, "vulkan:%u", p->app.place);
    for (int n = 0; n < TENSORS; n++) data[n] = by_address(&p->memory[n]);
    for (int round = 0; round < 10; round++) {
        aule_module *module;
        aule_device *device;
        aule_error *error = NULL;
        Call a, b;
        OK(aule_module_open(path, NULL, &module, &error));
        OK(aule_device_open(id, &options, &device, &error));
        in_driver = 0;
        double start = now();
        plan_call(&a, aule_module_attention(module, 0), device, false, data);
        const double each = now() - start;
        first = fmin(first, each);
        beside = fmin(beside, each - in_driver);
        start = now();
        plan_call(&b, aule_module_attention(module, 0), device, false, data);
        next = fmin(next, now() - start);
        aule_plan_free(a.plan);
        aule_plan_free(b.plan);
        aule_device_close(device);
        aule_module_close(module);
    }
    printf("%-40s %6.0f us, beside vkCreateComputePipelines %5.0f us, another of it %5.0f us\n",
           "a plan, its pipelines kept", first / 1e3, beside / 1e3, next / 1e3);
}

static void measure(Program *p, const char *path)
{
    aule_address at[DO];
    for (int n = 0; n < DO; n++) at[n] = (aule_address){by_address(&p->memory[n]), 0};
    measure_runs(p, &p->forward, NULL, "forward");
    measure_runs(p, &p->forward, at, "forward, new addresses");
    measure_runs(p, &p->backward, NULL, "backward");
    measure_plans(p, path);
}

int main(int argc, char **argv)
{
    static Program p;
    const bool bench = argc == 3 && strcmp(argv[2], "bench") == 0;
    aule_module *module = NULL;
    aule_error *error = NULL;
    if (argc != 2 && !bench) return 2;
    if (!app_begin(&p.app)) {
        printf("no Vulkan device with all that kernels need\n");
        return 77;
    }
    OK(aule_module_open(argv[1], NULL, &module, &error));
    p.attention = aule_module_attention(module, 0);
    p.x = on_cpu(p.attention);
    begin(&p, bench);
    waits_and_signals(&p);
    if (bench)
        measure(&p, argv[1]);
    else {
        in_order_with_the_program(&p);
        many_in_flight(&p);
        buffers_of_libaule(&p);
        made_without(&p);
    }
    end(&p);
    aule_module_close(module);
    app_end(&p.app);
    if (!failures && !bench) printf("a Vulkan device of the program's: all as on cpu\n");
    return failures != 0;
}
