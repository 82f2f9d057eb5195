/* shim_fibers.c - threads of a threadgroup as fibers. One stops where threads do something together and goes on when all of them have come
 * to the same; those that never do are reported. Switching is a few instructions of x86-64, since the C library's asks the system for the mask
 * of signals each time: that took ten times what kernels themselves did. */
#include "shim_own.h"

#include <string.h>
#include <sys/mman.h>

enum { ROUND_STEP = 37, MOST_TURNS = 1 << 26 /* that a shadow of memory counts */ };

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

static Fiber fibers[MOST_THREADS];
static uint8_t states[MOST_THREADS];
static char *stacks;
static void *scheduler;
static uint32_t first, passed;   /* of a round: where it began, how many threads it has asked */
static uint8_t places[LANES][2]; /* of a lane's elements in a matrix: row * 8 + column */

/* Keeps the stack's pointer in [*from], below it what calls keep, and goes on where [to] was kept. */
void shim_switch(void **from, void *to);
__asm__(".text\n"
        ".hidden shim_switch\n"
        ".globl shim_switch\n"
        ".type shim_switch, @function\n"
        "shim_switch:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size shim_switch, . - shim_switch\n");

/* Where to go on: the next thread of the round that can, else the scheduler. */
static void *next(void)
{
    while (!shim.failed && passed < shim.count) {
        uint32_t n = first + passed++;
        if (n >= shim.count) n -= shim.count;
        if (states[n] != RUNS) continue;
        shim.now = &fibers[n];
        shim.stack = fibers[n].stack;
        shim.touch = shim_touch_of(n);
        return fibers[n].at;
    }
    shim.now = NULL, shim.stack = NULL;
    return scheduler;
}

static void wait_as(State state)
{
    Fiber *f = shim.now;
    states[f - fibers] = (uint8_t)state;
    shim_switch(&f->at, next());
}

void shim_stop(void)
{
    for (;;) wait_as(DONE);
}

/* ---- what threads do together */

unsigned shim_lane(void) { return shim.now->thread.lane; }

void shim_barrier(int of_executor, int flags)
{
    (void)flags;
    wait_as(of_executor ? AT_OWN_BARRIER : AT_BARRIER);
}

const void *shim_exchange(const void *value, size_t bytes, int what, unsigned from)
{
    Fiber *f = shim.now;
    (void)what;
    memcpy(f->value, value, bytes);
    f->bytes = (uint32_t)bytes;
    f->from = from;
    if (from >= LANES) shim_fail("a value of a lane that is not there is asked for");
    wait_as(AT_EXCHANGE);
    return f->result;
}

int shim_any(int value)
{
    Fiber *f = shim.now;
    f->from = (uint32_t)value;
    wait_as(AT_ANY);
    return f->result[0];
}

void shim_multiply(const float *a, const float *b, float *sums)
{
    Fiber *f = shim.now;
    f->a = a, f->b = b, f->sums = sums;
    wait_as(AT_PRODUCT);
}

/* As metal-flash-attention documents it: a lane's two elements are neighbours of a row; of a column, where a test asks for it. */
void shim_place(unsigned lane, unsigned element, unsigned *row, unsigned *column)
{
    const unsigned quad = lane / 4, of_row = (quad & 4) + lane / 2 % 4,
                   of_column = (quad & 2) * 2 + lane % 2 * 2 + element;
    *row = shim.job->turned ? of_column : of_row;
    *column = shim.job->turned ? of_row : of_column;
}

static void find_places(void)
{
    unsigned row, column;
    for (unsigned lane = 0; lane < LANES; lane++)
        for (unsigned e = 0; e < 2; e++) {
            shim_place(lane, e, &row, &column);
            places[lane][e] = (uint8_t)(row * 8 + column);
        }
}

/* Sums in the order of k. */
static void multiply(const Fiber *f)
{
    float a[64], b[64], sums[64];
    for (unsigned lane = 0; lane < LANES; lane++)
        for (unsigned e = 0; e < 2; e++) {
            const unsigned at = places[lane][e];
            a[at] = f[lane].a[e], b[at] = f[lane].b[e], sums[at] = f[lane].sums[e];
        }
    for (unsigned row = 0; row < 64; row += 8)
        for (unsigned k = 0; k < 8; k++)
            for (unsigned column = 0; column < 8; column++)
                sums[row + column] += a[row + k] * b[8 * k + column];
    for (unsigned lane = 0; lane < LANES; lane++)
        for (unsigned e = 0; e < 2; e++) f[lane].sums[e] = sums[places[lane][e]];
}

static int all_are(const uint8_t *of, uint32_t n, uint8_t state)
{
    while (n-- > 0)
        if (of[n] != state) return 0;
    return 1;
}

static void count_turn(uint32_t *turn)
{
    if (++*turn >= MOST_TURNS) shim_say("%s: too many barriers", shim.job->kernel);
}

/* All lanes of an executor have come to the same. */
static void together(uint32_t thread)
{
    Fiber *f = &fibers[thread];
    int any = 0;
    switch ((State)states[thread]) {
    case AT_OWN_BARRIER: count_turn(&shim.own_turns[thread / LANES]); break;
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
    memset(states + thread, RUNS, LANES);
}

/* Lets those go on who can. 0: nobody. */
static int release(void)
{
    int some = 0;
    for (uint32_t n = 0; n < shim.count; n += LANES)
        if (states[n] != DONE && states[n] != AT_BARRIER && all_are(states + n, LANES, states[n])) {
            together(n);
            some = 1;
        }
    if (some || !all_are(states, shim.count, AT_BARRIER)) return some;
    count_turn(&shim.turn);
    memset(shim.own_turns, 0, sizeof shim.own_turns);
    memset(states, RUNS, shim.count);
    return 1;
}

static void say_parted(void)
{
    uint32_t other = 0;
    for (uint32_t n = 0; n < shim.count; n++)
        if (states[n] != states[0]) other = n;
    shim_say("%s: threads do not come together: simdgroup 0, lane 0 is at %s, simdgroup %u, lane "
             "%u at %s",
             shim.job->kernel, state_names[states[0]], other / LANES, other % LANES,
             state_names[states[other]]);
}

/* ---- a block */

static void body(void)
{
    if (!shim_enter(shim.job->kernel, &shim.now->thread)) shim_fail("there is no such kernel");
    shim_stop();
}

/* As if it had called shim_switch where body begins: six registers, where to return to, and what lies where a caller would have kept its own. */
static void begin(Fiber *f)
{
    void **top = (void **)(void *)(f->stack + STACK);
    memset(top - 8, 0, 8 * sizeof *top);
    *(void (**)(void))(void *)(top - 2) = body;
    f->at = top - 8;
}

void shim_fibers_run(void)
{
    shim.turn = 1;
    memset(shim.own_turns, 0, sizeof shim.own_turns);
    memset(states, RUNS, shim.count);
    for (uint32_t n = 0; n < shim.count; n++) begin(&fibers[n]);
    while (!shim.failed && !all_are(states, shim.count, DONE)) {
        first = shim.turn * ROUND_STEP % shim.count;
        passed = 0;
        void *to = next();
        if (shim.now) shim_switch(&scheduler, to);
        if (!shim.failed && !all_are(states, shim.count, DONE) && !release()) say_parted();
    }
}

int shim_fibers_open(void)
{
    find_places();
    shim.fibers = fibers;
    stacks = mmap(NULL, (size_t)STACK * shim.count, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stacks == MAP_FAILED) stacks = NULL;
    for (uint32_t n = 0; n < shim.count && stacks; n++)
        fibers[n].stack = stacks + (size_t)STACK * n;
    return stacks != NULL;
}

void shim_fibers_close(void)
{
    if (stacks) munmap(stacks, (size_t)STACK * shim.count);
    stacks = NULL;
    shim.fibers = NULL, shim.now = NULL, shim.stack = NULL;
}
