/* shim_checks.c - the compiler was told to call __tsan_* before accesses to memory: these must lie in what the launch was given, and
 * threadgroup memory must have been written, and not be touched by other threads between two barriers if one of them writes. */
#include "shim_own.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Who touched a unit of threadgroup memory last, and when; 0: nobody. In one word, since most of what kernels of the shim do is here. */
typedef uint64_t Touch;
enum { OTHERS = 1, OWN_OTHERS = 2, THREAD_AT = 2, OWN_TURN_AT = 12, TURN_AT = 38 };

typedef struct Shadow {
    Touch write, read;
} Shadow;

/* Units are of four bytes until something touches less, then of as much: what is told apart is the same as if they were bytes. */
enum { WORD_SHIFT = 2 };
static uint32_t unit_shift;

static unsigned char *shared;
static Shadow *shadow;
static ShimBuffer latest;

int shim_checks_open(void)
{
    latest = (ShimBuffer){0};
    unit_shift = WORD_SHIFT;
    shadow = malloc(SHARED_MOST * sizeof *shadow);
    shared = aligned_alloc(16, SHARED_MOST);
    return shadow && shared;
}

void shim_checks_block(void)
{
    const size_t bytes = shim.job->shared_bytes;
    memset(shadow, 0, (bytes >> unit_shift) * sizeof *shadow);
    memset(shared, 0xff, bytes);
}

void shim_checks_close(void)
{
    free(shadow), free(shared);
    shadow = NULL, shared = NULL;
}

void *shim_shared(void) { return shared; }

/* ---- threadgroup memory */

static uint32_t executor_of(Touch t) { return t >> THREAD_AT & (MOST_THREADS - 1) / LANES * LANES; }
static uint32_t turn_of(Touch t) { return (uint32_t)(t >> TURN_AT); }

uint64_t shim_touch_of(uint32_t thread)
{
    return (Touch)shim.turn << TURN_AT | (Touch)shim.own_turns[thread / LANES] << OWN_TURN_AT |
           thread << THREAD_AT;
}

/* Was it another thread's, without a barrier since? */
static int meets(Touch t, Touch now)
{
    if (turn_of(t) != turn_of(now)) return 0;
    if ((t & OTHERS) || executor_of(t) != executor_of(now)) return 1;
    return t >> OWN_TURN_AT == now >> OWN_TURN_AT &&
           ((t & OWN_OTHERS) || t >> THREAD_AT != now >> THREAD_AT);
}

/* OTHERS stays until the next turn: nothing that comes behind it is told apart. */
static Touch touched(Touch before, Touch now)
{
    if (turn_of(before) != turn_of(now)) return now;
    if ((before & OTHERS) || executor_of(before) != executor_of(now)) return now | OTHERS;
    return meets(before, now) ? now | OWN_OTHERS : now;
}

static void halve_units(void)
{
    unit_shift--;
    for (size_t n = shim.job->shared_bytes >> unit_shift; n-- > 0;) shadow[n] = shadow[n / 2];
}

/* Read since the last barrier by others, too, and not written since: then nothing is new. */
static int is_read_by_all(const Shadow *s, Touch now)
{
    return (s->read & OTHERS) && turn_of(s->read) == turn_of(now) &&
           turn_of(s->write) != turn_of(now) && s->write;
}

static inline void touch_unit(Shadow *s, Touch now, int write)
{
    if (!write && is_read_by_all(s, now)) return;
    if (!write && !s->write) shim_fail("threadgroup memory is read that nobody has written");
    if (meets(s->write, now) || (write && meets(s->read, now)))
        shim_fail(write ? "threadgroup memory is written that another thread uses, without a "
                          "barrier in between"
                        : "threadgroup memory is read that another thread writes, without a "
                          "barrier in between");
    Touch *kept = write ? &s->write : &s->read;
    *kept = touched(*kept, now);
}

static inline void touch_shared(uint64_t from, size_t bytes, int write)
{
    const Touch now = shim.touch;
    while ((from | bytes) & ((1u << unit_shift) - 1)) halve_units();
    Shadow *s = shadow + (from >> unit_shift);
    for (const Shadow *end = s + (bytes >> unit_shift); s < end; s++) touch_unit(s, now, write);
}

/* ---- any memory */

static int is_in(uint64_t at, size_t bytes, uint64_t from, uint64_t length)
{
    return at >= from && bytes <= length && at - from <= length - bytes;
}

static void check_others(uint64_t at, size_t bytes, int write)
{
    const ShimLaunch *job = shim.job;
    if (!write && is_in(at, bytes, (uint64_t)(uintptr_t)shim.now, sizeof *shim.now))
        return; /* shim_call, results of exchanges */
    if (!write && is_in(at, bytes, (uint64_t)(uintptr_t)job->slots, job->slot_bytes)) return;
    for (uint64_t n = 0; n < job->buffer_count; n++)
        if (is_in(at, bytes, job->buffers[n].at, job->buffers[n].bytes)) {
            latest = job->buffers[n];
            return;
        }
    char why[128];
    snprintf(why, sizeof why, "%zu bytes at %#llx are %s outside of every buffer", bytes,
             (unsigned long long)at, write ? "written" : "read");
    shim_fail(why);
}

static inline void check(uint64_t at, size_t bytes, int write, int atomic)
{
    if (is_in(at, bytes, (uint64_t)(uintptr_t)shim.stack, STACK) || !shim.now) return;
    if (is_in(at, bytes, latest.at, latest.bytes)) return;
    if (!is_in(at, bytes, (uint64_t)(uintptr_t)shared, shim.job->shared_bytes))
        check_others(at, bytes, write);
    else if (!atomic)
        touch_shared(at - (uint64_t)(uintptr_t)shared, bytes, write);
}

void shim_atomic(void *at, void *value, size_t bytes, int write)
{
    check((uint64_t)(uintptr_t)at, bytes, write, 1);
    memcpy(write ? at : value, write ? value : at, bytes);
}

/* What the compiler calls. */
#define ACCESS(name, bytes, write)                                                                 \
    void name(void *at);                                                                           \
    void name(void *at) { check((uint64_t)(uintptr_t)at, bytes, write, 0); }
ACCESS(__tsan_read1, 1, 0)
ACCESS(__tsan_read2, 2, 0)
ACCESS(__tsan_read4, 4, 0)
ACCESS(__tsan_read8, 8, 0)
ACCESS(__tsan_read16, 16, 0)
ACCESS(__tsan_write1, 1, 1)
ACCESS(__tsan_write2, 2, 1)
ACCESS(__tsan_write4, 4, 1)
ACCESS(__tsan_write8, 8, 1)
ACCESS(__tsan_write16, 16, 1)
ACCESS(__tsan_unaligned_read2, 2, 0)
ACCESS(__tsan_unaligned_read4, 4, 0)
ACCESS(__tsan_unaligned_read8, 8, 0)
ACCESS(__tsan_unaligned_read16, 16, 0)
ACCESS(__tsan_unaligned_write2, 2, 1)
ACCESS(__tsan_unaligned_write4, 4, 1)
ACCESS(__tsan_unaligned_write8, 8, 1)
ACCESS(__tsan_unaligned_write16, 16, 1)
#undef ACCESS
void __tsan_read_range(void *at, unsigned long bytes);
void __tsan_read_range(void *at, unsigned long bytes)
{
    check((uint64_t)(uintptr_t)at, bytes, 0, 0);
}
void __tsan_write_range(void *at, unsigned long bytes);
void __tsan_write_range(void *at, unsigned long bytes)
{
    check((uint64_t)(uintptr_t)at, bytes, 1, 0);
}
void __tsan_init(void);
void __tsan_init(void) {}
void __tsan_func_entry(void *caller);
void __tsan_func_entry(void *caller) { (void)caller; }
void __tsan_func_exit(void *caller);
void __tsan_func_exit(void *caller) { (void)caller; }
