/* vulkan_bench.c - what a run takes beside the driver's own vkQueueSubmit, and a plan whose pipelines are kept beside vkCreateComputePipelines, in a
 * program with a Vulkan device of its own: vulkan_bench mha.so. The program's functions have a clock in them. */
#include <math.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "vulkan_program.h"

/* ---- the driver, with a clock */

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

/* Nanoseconds in which one of the functions below ran, or several beside each other: pipelines are made by several threads. */
static struct {
    pthread_mutex_t lock;
    unsigned calls; /* that run now */
    double since, total;
} driver = {PTHREAD_MUTEX_INITIALIZER, 0, 0, 0};

static void enter_driver(void)
{
    pthread_mutex_lock(&driver.lock);
    if (driver.calls++ == 0) driver.since = now();
    pthread_mutex_unlock(&driver.lock);
}

static void leave_driver(void)
{
    pthread_mutex_lock(&driver.lock);
    if (--driver.calls == 0) driver.total += now() - driver.since;
    pthread_mutex_unlock(&driver.lock);
}

static VKAPI_ATTR VkResult VKAPI_CALL timed_submit(VkQueue queue, uint32_t count,
                                                   const VkSubmitInfo *submits, VkFence fence)
{
    enter_driver();
    const VkResult code = vkQueueSubmit(queue, count, submits, fence);
    leave_driver();
    return code;
}

static VKAPI_ATTR VkResult VKAPI_CALL timed_pipelines(VkDevice device, VkPipelineCache cache,
                                                      uint32_t count,
                                                      const VkComputePipelineCreateInfo *infos,
                                                      const VkAllocationCallbacks *allocator,
                                                      VkPipeline *pipelines)
{
    enter_driver();
    const VkResult code =
        vkCreateComputePipelines(device, cache, count, infos, allocator, pipelines);
    leave_driver();
    return code;
}

static aule_vulkan_function timed_functions(void *instance, const char *name)
{
    if (strcmp(name, "vkQueueSubmit") == 0) return (aule_vulkan_function)timed_submit;
    if (strcmp(name, "vkCreateComputePipelines") == 0) return (aule_vulkan_function)timed_pipelines;
    return (aule_vulkan_function)vkGetInstanceProcAddr(instance, name);
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
                              .workspace_bytes = WORKSPACE,
                              .tensors = at};
        aule_error *error = NULL;
        driver.total = 0; /* nothing of ours runs */
        const double start = now();
        for (int n = 0; n < RUNS; n++) OK(aule_plan_run(c->plan, &run, &error));
        const double each = (now() - start) / RUNS, ours = each - driver.total / RUNS;
        OK(aule_device_synchronize(p->device, NULL, &error));
        if (each < least) least = each;
        if (ours < beside) beside = ours;
    }
    printf("%-40s %6.0f ns, beside vkQueueSubmit %5.0f ns\n", what, least, beside);
}

/* A device opened anew has no program yet: its plan builds the pipelines, which the driver has kept. */
static bool measure_plans(Program *p)
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
        OK(aule_module_open(p->path, NULL, &module, &error));
        OK(aule_device_open(id, &options, &device, &error));
        driver.total = 0;
        double start = now();
        plan_call(&a, aule_module_attention(module, 0), device, false, data);
        const double each = now() - start;
        first = fmin(first, each);
        beside = fmin(beside, each - driver.total);
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
    return beside >= 0; /* else the driver's time was counted twice */
}

int main(int argc, char **argv)
{
    static Program p;
    aule_address at[TENSORS];
    if (argc != 2) return 2;
    if (!program_begin(&p, argv[1], timed_functions)) return 77;
    program_addresses(&p, at);
    measure_runs(&p, &p.forward, NULL, "forward");
    measure_runs(&p, &p.forward, at, "forward, new addresses");
    measure_runs(&p, &p.backward, NULL, "backward");
    const bool fine = measure_plans(&p);
    program_end(&p);
    return fine ? 0 : 1;
}
