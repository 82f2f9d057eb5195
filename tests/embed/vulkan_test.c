/* vulkan_test.c - an artifact in a program that has a Vulkan device of its own (vulkan_program.h): vulkan_test mha.so. Tensors and workspaces
 * are the program's, by address; runs wait for its semaphores, signal them, and are in order with its own work on the queue. Results are
 * those of `cpu`. Status 77: no device. */
#include <string.h>
#include <unistd.h>

#include "vulkan_program.h"

static int failures;
static void expect(bool right, const char *what)
{
    if (right) return;
    printf("failed: %s\n", what);
    failures++;
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
                          .workspace_bytes = WORKSPACE,
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
    aule_address at[TENSORS];
    bool right = true;
    program_addresses(p, at);
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
    aule_address at[TENSORS];
    program_addresses(p, at);
    at[O].data = aule_buffer_data(o);
    put(p, &p->forward, 0, at);
    OK(aule_buffer_download(o, 0, back, bytes, &error));
    expect(is_close(back, &p->x, O), "a buffer of libaule is right");
    aule_buffer_free(o);
    free(back);
}

/* ---- threads: two that run the plan, with outputs of their own, and the program, which copies. */

typedef struct Runner {
    Program *p;
    pthread_t thread;
    Memory output, workspace;
    bool right;
} Runner;

static void *keep_running(void *runner)
{
    enum { TIMES = 6 };
    Runner *r = runner;
    aule_address at[TENSORS];
    program_addresses(r->p, at);
    at[O].data = by_address(&r->output);
    const aule_run run = {.struct_size = sizeof run,
                          .workspace = by_address(&r->workspace),
                          .workspace_bytes = WORKSPACE,
                          .tensors = at};
    r->right = true;
    for (int n = 0; n < TIMES && r->right; n++)
        r->right = !aule_plan_run(r->p->forward.plan, &run, NULL) &&
                   !aule_device_synchronize(r->p->device, NULL, NULL) &&
                   is_close(r->output.seen, &r->p->x, O);
    return NULL;
}

static void beside_other_threads(Program *p)
{
    enum { RUNNERS = 2, COPIES = 40 };
    const uint64_t bytes = QUERIES * sizeof(float);
    Runner runners[RUNNERS];
    Memory from = app_memory(&p->app, bytes), to = app_memory(&p->app, bytes);
    VkCommandBuffer copies[COPIES];
    for (int n = 0; n < COPIES; n++) copies[n] = app_copy(&p->app, &from, &to, bytes);
    for (int n = 0; n < RUNNERS; n++) {
        runners[n] = (Runner){.p = p,
                              .output = app_memory(&p->app, bytes),
                              .workspace = app_memory(&p->app, WORKSPACE)};
        pthread_create(&runners[n].thread, NULL, keep_running, &runners[n]);
    }
    for (int n = 0; n < COPIES; n++) {
        pthread_mutex_lock(&p->queue);
        app_submit(&p->app, copies[n], VK_NULL_HANDLE, 0, p->done, ++p->done_value);
        pthread_mutex_unlock(&p->queue);
    }
    for (int n = 0; n < RUNNERS; n++) {
        pthread_join(runners[n].thread, NULL);
        expect(runners[n].right, "runs beside other threads are right");
        app_memory_end(&p->app, &runners[n].output);
        app_memory_end(&p->app, &runners[n].workspace);
    }
    app_wait(&p->app, p->done, p->done_value);
    app_memory_end(&p->app, &from);
    app_memory_end(&p->app, &to);
}

/* ---- memory that the program shares with a device of libaule's own, by file descriptor */

/* What one has on the queue is done before the other begins. */
static void copy_now(Program *p, const Memory *from, const Memory *to, uint64_t bytes)
{
    app_submit(&p->app, app_copy(&p->app, from, to, bytes), VK_NULL_HANDLE, 0, p->done,
               ++p->done_value);
    app_wait(&p->app, p->done, p->done_value);
}

static void shared_memory(Program *p)
{
    const uint64_t bytes = QUERIES * sizeof(float);
    aule_device *own = NULL;
    aule_buffer *buffers[DO] = {NULL}, *space = NULL;
    aule_error *error = NULL;
    void *data[TENSORS];
    uint64_t fd_bytes = 0;
    int fd = -1;
    Call c;
    char id[24];
    if (!p->app.shares) {
        printf("the device shares no memory by file descriptor\n");
        return;
    }
    snprintf(id, sizeof id, "vulkan:%u", p->app.place);
    OK(aule_device_open(id, NULL, &own, &error));
    Memory theirs = app_shared_memory(&p->app, bytes, -1); /* q is the program's, o libaule's */
    fd = app_fd(&p->app, &theirs, &fd_bytes);
    OK(aule_buffer_import(own, fd, fd_bytes, &buffers[Q], &error));
    close(fd);
    OK(aule_buffer_export(own, bytes, &buffers[O], &fd, &fd_bytes, &error));
    Memory ours = app_shared_memory(&p->app, fd_bytes, fd); /* the driver takes the descriptor */
    Memory from = app_memory(&p->app, bytes), to = app_memory(&p->app, bytes);
    memcpy(from.seen, p->x.at[Q], bytes);
    copy_now(p, &from, &theirs, bytes);
    for (int n = 0; n < DO; n++) {
        const uint64_t all = (uint64_t)tensors[n].count * sizeof(float);
        if (!buffers[n]) {
            OK(aule_buffer_new(own, all, &buffers[n], &error));
            OK(aule_buffer_upload(buffers[n], 0, p->x.at[n], all, &error));
        }
        data[n] = aule_buffer_data(buffers[n]);
    }
    plan_call(&c, p->attention, own, false, data);
    OK(aule_buffer_new(own, WORKSPACE, &space, &error));
    const aule_run run = {.struct_size = sizeof run,
                          .workspace = aule_buffer_data(space),
                          .workspace_bytes = WORKSPACE};
    OK(aule_plan_run(c.plan, &run, &error));
    OK(aule_device_synchronize(own, NULL, &error));
    copy_now(p, &ours, &to, bytes);
    expect(is_close(to.seen, &p->x, O), "memory that is shared is right");
    aule_plan_free(c.plan);
    for (int n = 0; n < DO; n++) aule_buffer_free(buffers[n]);
    aule_buffer_free(space);
    aule_device_close(own);
    app_memory_end(&p->app, &theirs);
    app_memory_end(&p->app, &ours);
    app_memory_end(&p->app, &from);
    app_memory_end(&p->app, &to);
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

int main(int argc, char **argv)
{
    static Program p;
    if (argc != 2) return 2;
    if (!program_begin(&p, argv[1], NULL)) return 77;
    waits_and_signals(&p);
    in_order_with_the_program(&p);
    many_in_flight(&p);
    buffers_of_libaule(&p);
    beside_other_threads(&p);
    shared_memory(&p);
    made_without(&p);
    program_end(&p);
    if (!failures) printf("a Vulkan device of the program's: all as on cpu\n");
    return failures != 0;
}
