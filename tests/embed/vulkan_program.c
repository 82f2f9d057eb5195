/* vulkan_program.c - see vulkan_program.h. */
#include "vulkan_program.h"

#include <math.h>
#include <string.h>

const Tensor tensors[TENSORS] = {
    [Q] = {"q", 4, {B, H, S, D}, QUERIES},   [K] = {"k", 4, {B, H, T, D}, KEYS},
    [V] = {"v", 4, {B, H, T, D}, KEYS},      [O] = {"o", 4, {B, H, S, D}, QUERIES},
    [LSE] = {"lse", 3, {B, H, S}, B *H *S},  [DO] = {"do", 4, {B, H, S, D}, QUERIES},
    [DQ] = {"dq", 4, {B, H, S, D}, QUERIES}, [DK] = {"dk", 4, {B, H, T, D}, KEYS},
    [DV] = {"dv", 4, {B, H, T, D}, KEYS}};

void give_up(aule_error *error, const char *what)
{
    printf("failed: %s: %s\n", what, aule_error_message(error));
    exit(1);
}

/* ---- calls */

void plan_call(Call *c, aule_attention *attention, aule_device *device, bool backward,
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

bool is_close(const float *found, const Expected *x, int tensor)
{
    for (int i = 0; i < tensors[tensor].count; i++)
        if (!(fabsf(found[i] - x->at[tensor][i]) < 2e-5f)) return false;
    return true;
}

/* ---- the program */

static void lock_queue(void *mutex) { pthread_mutex_lock(mutex); }
static void unlock_queue(void *mutex) { pthread_mutex_unlock(mutex); }

void *by_address(const Memory *m) { return (void *)(uintptr_t)m->address; }

void program_addresses(const Program *p, aule_address at[TENSORS])
{
    for (int n = 0; n < TENSORS; n++) at[n] = (aule_address){by_address(&p->memory[n]), 0};
}

bool program_begin(Program *p, const char *path,
                   aule_vulkan_function (*functions)(void *instance, const char *name))
{
    aule_vulkan_device given;
    const aule_device_options options = {.struct_size = sizeof options, .context = &given};
    aule_error *error = NULL;
    char id[24];
    void *data[TENSORS];
    if (!app_begin(&p->app)) {
        printf("no Vulkan device with all that kernels need\n");
        return false;
    }
    OK(aule_module_open(path, NULL, &p->module, &error));
    p->path = path;
    p->attention = aule_module_attention(p->module, 0);
    p->x = on_cpu(p->attention);
    pthread_mutex_init(&p->queue, NULL);
    given = app_given(&p->app);
    given.lock = lock_queue, given.unlock = unlock_queue, given.user = &p->queue;
    given.get_instance_proc_addr = functions;
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
    if (aule_plan_workspace(p->backward.plan, NULL) > WORKSPACE) give_up(NULL, "the workspace");
    p->ready = app_timeline(&p->app);
    p->done = app_timeline(&p->app);
    return true;
}

void program_end(Program *p)
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
    aule_module_close(p->module);
    app_end(&p->app);
}
