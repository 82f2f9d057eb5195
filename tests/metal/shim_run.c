/* shim_run.c - runs the kernels of a text that was compiled as C++ (include/metal_stdlib): every thread of a threadgroup is a fiber
 * (shim_fibers.c) whose accesses to memory are checked (shim_checks.c). Linked into each text's library, in which nothing else is of these
 * names. */
#include "shim_own.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

ShimState shim;
static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER; /* launch at a time */
static char said[512];

void shim_say(const char *format, ...)
{
    va_list arguments;
    if (shim.failed++) return;
    va_start(arguments, format);
    vsnprintf(said, sizeof said, format, arguments);
    va_end(arguments);
}

void shim_fail(const char *why)
{
    const ShimThread *t = &shim.now->thread;
    shim_say("%s: %s: threadgroup %u %u %u, simdgroup %u, lane %u", shim.job->kernel, why, t->at[0],
             t->at[1], t->at[2], t->executor, t->lane);
    shim_stop();
}

static void run_grid(void)
{
    const uint64_t *grid = shim.job->grid;
    for (uint64_t z = 0; z < grid[2]; z++)
        for (uint64_t y = 0; y < grid[1]; y++)
            for (uint64_t x = 0; x < grid[0] && !shim.failed; x++) {
                for (uint32_t n = 0; n < shim.count; n++)
                    shim.fibers[n].thread =
                        (ShimThread){shim.job->slots,
                                     shim_shared(),
                                     shim.job->slot_bytes,
                                     {(uint32_t)x, (uint32_t)y, (uint32_t)z},
                                     {(uint32_t)grid[0], (uint32_t)grid[1], (uint32_t)grid[2]},
                                     n / LANES,
                                     n % LANES};
                shim_checks_block();
                shim_fibers_run();
            }
}

static int prepare(const ShimLaunch *launch)
{
    shim = (ShimState){.job = launch, .count = (uint32_t)launch->threads};
    said[0] = 0;
    if (launch->threads % LANES || !launch->threads || launch->threads > MOST_THREADS)
        shim_say("%s: %llu threads a threadgroup", launch->kernel,
                 (unsigned long long)launch->threads);
    if (launch->shared_bytes > SHARED_MOST)
        shim_say("%s: %llu bytes of threadgroup memory", launch->kernel,
                 (unsigned long long)launch->shared_bytes);
    if (shim.failed) return 0;
    const int fine = shim_checks_open() && shim_fibers_open();
    if (!fine) shim_say("out of memory");
    return fine;
}

__attribute__((visibility("default"))) int shim_run(const ShimLaunch *launch, char *message,
                                                    size_t room);
int shim_run(const ShimLaunch *launch, char *message, size_t room)
{
    pthread_mutex_lock(&one);
    if (prepare(launch)) run_grid();
    shim_fibers_close();
    shim_checks_close();
    snprintf(message, room, "%s", said);
    const int wrong = shim.failed;
    pthread_mutex_unlock(&one);
    return wrong;
}
