/* shim_run.c - runs the kernels of a text that was compiled as C++ (include/metal_stdlib): every thread of a threadgroup is a fiber. A
 * fiber stops where threads do something together and goes on when all of them have come to the same; those that never do are reported.
 * The compiler was told to call __tsan_* before accesses to memory: these must lie in what the launch was given, and threadgroup memory
 * must have been written, and not be touched by other threads between two barriers if one of them writes. Linked into each text's
 * library, in which nothing else is of these names. */
#include "include/shim.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

enum { LANES = 32, MOST_THREADS = 1024, STACK = 512 << 10, SHARED_MOST = 32 << 10 };

typedef enum State {
    RUNS,
    AT_BARRIER,
    AT_OWN_BARRIER,
    AT_EXCHANGE,
    AT_ANY,
    AT_PRODUCT,
    DONE
} State;
static const char *const state_names[] = {"runs",
                                          "a threadgroup_barrier",
                                          "a simdgroup_barrier",
                                          "an exchange",
                                          "simd_any",
                                          "a product",
                                          "the end"};

typedef struct Fiber {
    ucontext_t context;
    char *stack;
    State state;
    ShimThread thread;
    unsigned char value[16], result[16];
    size_t bytes;
    unsigned from;
    int flags;
    const float *a, *b;
    float *sums;
} Fiber;

/* Who touched a byte of threadgroup memory last, and when: turns are counted by barriers. */
typedef struct Touch {
    uint32_t turn, own_turn;
    uint16_t thread;
    uint8_t is, others, own_others;
} Touch;
typedef struct Shadow {
    Touch write, read;
} Shadow;

static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER; /* launch at a time */
static Fiber *fibers, *now;
static uint32_t count, turn, own_turns[MOST_THREADS / LANES];
static ucontext_t scheduler;
static const ShimLaunch *job;
static unsigned char *shared;
static Shadow *shadow;
static ShimBuffer latest;
static char said[512];
static int failed;

/* ---- faults */

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *format, ...)
{
    va_list arguments;
    if (failed++) return;
    va_start(arguments, format);
    vsnprintf(said, sizeof said, format, arguments);
    va_end(arguments);
}

/* Never comes back to the fiber. */
static void stop(void)
{
    for (;;) swapcontext(&now->context, &scheduler);
}

void shim_fail(const char *why)
{
    const ShimThread *t = &now->thread;
    say("%s: %s: threadgroup %u %u %u, simdgroup %u, lane %u", job->kernel, why, t->at[0], t->at[1],
        t->at[2], t->executor, t->lane);
    stop();
}

/* ---- memory */

static int is_in(uint64_t at, size_t bytes, uint64_t from, uint64_t length)
{
    return at >= from && bytes <= length && at - from <= length - bytes;
}

static int meets(const Touch *t, uint32_t thread)
{
    if (!t->is || t->turn != turn) return 0;
    if (t->others) return 1;
    const uint32_t executor = thread / LANES;
    if (t->thread / LANES != executor) return 1;
    return t->own_turn == own_turns[executor] && (t->own_others || t->thread != thread);
}

static void touch(Touch *t, uint32_t thread)
{
    const uint32_t executor = thread / LANES;
    const Touch before = *t;
    *t = (Touch){turn, own_turns[executor], (uint16_t)thread, 1, 0, 0};
    if (!before.is || before.turn != turn) return;
    t->others = before.others || before.thread / LANES != executor;
    t->own_others =
        before.own_turn == own_turns[executor] && (before.own_others || before.thread != thread);
}

static void touch_shared(uint64_t from, size_t bytes, int write)
{
    const uint32_t thread = (uint32_t)(now - fibers);
    for (size_t n = 0; n < bytes; n++) {
        Shadow *s = &shadow[from + n];
        if (!write && !s->write.is) shim_fail("threadgroup memory is read that nobody has written");
        if (meets(&s->write, thread) || (write && meets(&s->read, thread)))
            shim_fail(write ? "threadgroup memory is written that another thread uses, without a "
                              "barrier in between"
                            : "threadgroup memory is read that another thread writes, without a "
                              "barrier in between");
        touch(write ? &s->write : &s->read, thread);
    }
}

static void check(uint64_t at, size_t bytes, int write, int atomic)
{
    if (!now || failed) return;
    if (is_in(at, bytes, latest.at, latest.bytes)) return;
    if (is_in(at, bytes, (uint64_t)(uintptr_t)now->stack, STACK)) return;
    if (!write && is_in(at, bytes, (uint64_t)(uintptr_t)now, sizeof *now))
        return; /* shim_call, results of exchanges */
    if (is_in(at, bytes, (uint64_t)(uintptr_t)shared, job->shared_bytes)) {
        if (!atomic) touch_shared(at - (uint64_t)(uintptr_t)shared, bytes, write);
        return;
    }
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

/* ---- what threads do together */

static void wait_as(State state)
{
    now->state = state;
    swapcontext(&now->context, &scheduler);
}

unsigned shim_lane(void) { return now->thread.lane; }

void shim_barrier(int of_executor, int flags)
{
    now->flags = flags;
    wait_as(of_executor ? AT_OWN_BARRIER : AT_BARRIER);
}

const void *shim_exchange(const void *value, size_t bytes, int what, unsigned from)
{
    (void)what;
    memcpy(now->value, value, bytes);
    now->bytes = bytes;
    now->from = from;
    if (from >= LANES) shim_fail("a value of a lane that is not there is asked for");
    wait_as(AT_EXCHANGE);
    return now->result;
}

int shim_any(int value)
{
    now->from = (unsigned)value;
    wait_as(AT_ANY);
    return now->result[0];
}

void shim_multiply(const float *a, const float *b, float *sums)
{
    now->a = a, now->b = b, now->sums = sums;
    wait_as(AT_PRODUCT);
}

/* As metal-flash-attention documents it: a lane's two elements are neighbours of a row; of a column, where a test asks for it. */
void shim_place(unsigned lane, unsigned element, unsigned *row, unsigned *column)
{
    const unsigned quad = lane / 4, of_row = (quad & 4) + lane / 2 % 4,
                   of_column = (quad & 2) * 2 + lane % 2 * 2 + element;
    *row = job->turned ? of_column : of_row;
    *column = job->turned ? of_row : of_column;
}

static void multiply(Fiber *f)
{
    float a[8][8], b[8][8];
    unsigned row, column;
    for (unsigned lane = 0; lane < LANES; lane++)
        for (unsigned e = 0; e < 2; e++) {
            shim_place(lane, e, &row, &column);
            a[row][column] = f[lane].a[e];
            b[row][column] = f[lane].b[e];
        }
    for (unsigned lane = 0; lane < LANES; lane++)
        for (unsigned e = 0; e < 2; e++) {
            shim_place(lane, e, &row, &column);
            float sum = f[lane].sums[e];
            for (unsigned k = 0; k < 8; k++) sum += a[row][k] * b[k][column];
            f[lane].sums[e] = sum;
        }
}

/* All lanes of an executor have come to the same. */
static void together(Fiber *f, uint32_t executor)
{
    int any = 0;
    switch (f->state) {
    case AT_OWN_BARRIER: own_turns[executor]++; break;
    case AT_EXCHANGE:
        for (unsigned n = 0; n < LANES; n++) memcpy(f[n].result, f[f[n].from].value, f[n].bytes);
        break;
    case AT_ANY:
        for (unsigned n = 0; n < LANES; n++) any |= f[n].from != 0;
        for (unsigned n = 0; n < LANES; n++) f[n].result[0] = (unsigned char)any;
        break;
    case AT_PRODUCT: multiply(f); break;
    case RUNS:
    case AT_BARRIER:
    case DONE: return;
    }
    for (unsigned n = 0; n < LANES; n++) f[n].state = RUNS;
}

static int all_are(const Fiber *f, uint32_t n, State state)
{
    while (n-- > 0)
        if (f[n].state != state) return 0;
    return 1;
}

/* Lets those go on who can. 0: nobody. */
static int release(void)
{
    int some = 0;
    for (uint32_t n = 0; n < count; n += LANES)
        if (fibers[n].state != DONE && fibers[n].state != AT_BARRIER &&
            all_are(fibers + n, LANES, fibers[n].state)) {
            together(fibers + n, n / LANES);
            some = 1;
        }
    if (some || !all_are(fibers, count, AT_BARRIER)) return some;
    turn++;
    for (uint32_t n = 0; n < count; n++) fibers[n].state = RUNS;
    return 1;
}

static void say_parted(void)
{
    const Fiber *first = &fibers[0], *other = first;
    for (uint32_t n = 0; n < count; n++)
        if (fibers[n].state != first->state) other = &fibers[n];
    say("%s: threads do not come together: simdgroup 0, lane 0 is at %s, simdgroup %u, lane %u at "
        "%s",
        job->kernel, state_names[first->state], other->thread.executor, other->thread.lane,
        state_names[other->state]);
}

/* ---- a launch */

static void body(void)
{
    if (!shim_enter(job->kernel, &now->thread)) shim_fail("there is no such kernel");
    now->state = DONE;
    stop();
}

static void run_block(void)
{
    memset(shadow, 0, SHARED_MOST * sizeof *shadow);
    memset(shared, 0xff, SHARED_MOST);
    turn = 1;
    for (uint32_t n = 0; n < count; n++) {
        Fiber *f = &fibers[n];
        getcontext(&f->context);
        f->context.uc_stack.ss_sp = f->stack;
        f->context.uc_stack.ss_size = STACK;
        f->context.uc_link = NULL;
        f->state = RUNS;
        makecontext(&f->context, body, 0);
    }
    while (!failed && !all_are(fibers, count, DONE)) {
        for (uint32_t n = 0; n < count && !failed; n++) {
            now = &fibers[(n + turn * 37) % count];
            if (now->state == RUNS) swapcontext(&scheduler, &now->context);
        }
        now = NULL;
        if (!failed && !all_are(fibers, count, DONE) && !release()) say_parted();
    }
}

static void run_grid(void)
{
    for (uint64_t z = 0; z < job->grid[2]; z++)
        for (uint64_t y = 0; y < job->grid[1]; y++)
            for (uint64_t x = 0; x < job->grid[0] && !failed; x++) {
                for (uint32_t n = 0; n < count; n++)
                    fibers[n].thread = (ShimThread){
                        job->slots,
                        shared,
                        job->slot_bytes,
                        {(uint32_t)x, (uint32_t)y, (uint32_t)z},
                        {(uint32_t)job->grid[0], (uint32_t)job->grid[1], (uint32_t)job->grid[2]},
                        n / LANES,
                        n % LANES};
                run_block();
            }
}

static int prepare(const ShimLaunch *launch)
{
    job = launch;
    failed = 0;
    said[0] = 0;
    latest = (ShimBuffer){0};
    count = (uint32_t)launch->threads;
    if (launch->threads % LANES || !launch->threads || launch->threads > MOST_THREADS)
        say("%s: %llu threads a threadgroup", launch->kernel, (unsigned long long)launch->threads);
    if (launch->shared_bytes > SHARED_MOST)
        say("%s: %llu bytes of threadgroup memory", launch->kernel,
            (unsigned long long)launch->shared_bytes);
    if (failed) return 0;
    fibers = calloc(count, sizeof *fibers);
    shadow = calloc(SHARED_MOST, sizeof *shadow);
    shared = aligned_alloc(16, SHARED_MOST);
    int fine = fibers && shadow && shared;
    for (uint32_t n = 0; n < count && fine; n++) fine = (fibers[n].stack = malloc(STACK)) != NULL;
    if (!fine) say("out of memory");
    return fine;
}

__attribute__((visibility("default"))) int shim_run(const ShimLaunch *launch, char *message,
                                                    size_t room);
int shim_run(const ShimLaunch *launch, char *message, size_t room)
{
    pthread_mutex_lock(&one);
    if (prepare(launch)) run_grid();
    for (uint32_t n = 0; fibers && n < count; n++) free(fibers[n].stack);
    free(fibers), free(shadow), free(shared);
    fibers = NULL, shadow = NULL, shared = NULL, now = NULL;
    snprintf(message, room, "%s", said);
    const int wrong = failed;
    pthread_mutex_unlock(&one);
    return wrong;
}

/* ---- half, written out: not every compiler has it */

float shim_from_half(uint16_t bits)
{
    const uint32_t rest = bits & 0x7fffu, sign = (uint32_t)(bits & 0x8000u) << 16;
    uint32_t all = sign | ((rest << 13) + 0x38000000u);
    float value;
    if (rest < 0x400) {
        value = (float)rest * 0x1p-24f;
        memcpy(&all, &value, 4);
        all |= sign;
    } else if (rest >= 0x7c00) {
        all = sign | rest << 13 | 0x7f800000u;
    }
    memcpy(&value, &all, 4);
    return value;
}

uint16_t shim_to_half(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, 4);
    const uint32_t rest = bits & 0x7fffffffu, sign = bits >> 16 & 0x8000u;
    if (rest > 0x7f800000u) return (uint16_t)(sign | 0x7e00u);
    if (rest >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u);
    if (rest < 0x38800000u) {
        const float half = 0.5f;
        float sum;
        uint32_t all, base;
        memcpy(&sum, &rest, 4);
        sum += half;
        memcpy(&all, &sum, 4);
        memcpy(&base, &half, 4);
        return (uint16_t)(sign | (all - base));
    }
    return (uint16_t)(sign | (rest - 0x38000000u + 0xfffu + (rest >> 13 & 1u)) >> 13);
}
