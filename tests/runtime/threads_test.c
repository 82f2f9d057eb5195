/* Many threads: one plan, one device, one module from all of them at once; pools of every size; blocks run exactly once; a fork.
 * Built a second time with the thread sanitizer, which watches the same program. */
#include "case.h"

#include <fenv.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../runtime/backends/pool.h"

enum { THREADS = 4, ROUNDS = 50 };

typedef struct Shared {
    aule_attention *attention;
    aule_device *device;
    const aule_plan *plan;
    atomic_int wrong;
} Shared;

/* Runs the common plan on its own tensors, and makes plans of its own meanwhile. */
static void *call_often(void *argument)
{
    Shared *shared = argument;
    Case *c = case_new();
    aule_address at[TENSORS];
    for (int t = 0; t < TENSORS; t++) at[t] = (aule_address){c->storage[t], 0};
    for (int i = 0; i < ROUNDS; i++) {
        case_forget(c);
        c->run.tensors = i % 2 ? at : NULL;
        aule_status status =
            i % 2 ? aule_plan_run(shared->plan, &c->run, NULL)
                  : aule_attention_run(shared->attention, shared->device, &c->call, &c->run, NULL);
        if (status || !case_is_right(c)) atomic_fetch_add(&shared->wrong, 1);
    }
    case_free(c);
    return NULL;
}

static void test_concurrent_calls(void **state)
{
    Fixture *f = *state;
    Case *c = case_new();
    aule_plan *plan;
    pthread_t threads[THREADS];
    assert_int_equal(aule_plan_new(f->attention, f->device, &c->call, &plan, NULL), AULE_OK);
    Shared shared = {f->attention, f->device, plan, 0};
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, call_often, &shared), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    assert_int_equal(shared.wrong, 0);
    aule_plan_free(plan);
    case_free(c);
}

static void count_block(const uint64_t *slots, uint32_t x, uint32_t y, uint32_t z)
{
    atomic_uint *counts = (atomic_uint *)(uintptr_t)slots[0];
    atomic_fetch_add_explicit(&counts[(z * slots[2] + y) * slots[1] + x], 1, memory_order_relaxed);
}

static void run_grid(AuPool *pool, uint32_t x, uint32_t y, uint32_t z, uint32_t stack)
{
    size_t total = (size_t)x * y * z;
    atomic_uint *counts = calloc(total, sizeof *counts);
    uint64_t slots[] = {(uint64_t)(uintptr_t)counts, x, y};
    uint32_t grid[] = {x, y, z};
    rt_pool_run(pool, count_block, slots, grid, stack);
    for (size_t i = 0; i < total; i++)
        if (counts[i] != 1)
            fail_msg("block %zu of %u x %u x %u ran %u times", i, x, y, z, counts[i]);
    free(counts);
}

static void test_blocks_run_once(void **state)
{
    (void)state;
    for (uint32_t threads = 1; threads <= 9; threads += 2) {
        AuPool *pool = rt_pool_new(rt_memory(NULL), threads);
        assert_int_equal(rt_pool_threads(pool), threads);
        assert_true(rt_pool_reserve(pool, 0));
        run_grid(pool, 1, 1, 1, 0);
        run_grid(pool, 7, 1, 1, 0);
        run_grid(pool, 13, 5, 3, 0);
        run_grid(pool, 1, 1, 1000, 0);
        run_grid(pool, 3, 1000, 2, 0);
        assert_true(rt_pool_reserve(pool, 4 << 20)); /* other threads, with deeper stacks */
        run_grid(pool, 13, 5, 3, 4 << 20);
        run_grid(pool, 1, 1, 1, 4 << 20);
        rt_pool_free(pool);
    }
}

typedef struct Meeting {
    atomic_uint inside, most; /* blocks that run at a time */
    uint32_t expected;
} Meeting;

/* Waits, a minute at most, for as many blocks as are expected to be inside together. */
static void meet(const uint64_t *slots, uint32_t x, uint32_t y, uint32_t z)
{
    Meeting *m = (Meeting *)(uintptr_t)slots[0];
    const uint32_t now = atomic_fetch_add(&m->inside, 1) + 1;
    uint32_t most = atomic_load(&m->most);
    (void)x, (void)y, (void)z;
    while (most < now && !atomic_compare_exchange_weak(&m->most, &most, now)) continue;
    for (int turn = 0; turn < 60000 && atomic_load(&m->most) < m->expected; turn++) usleep(1000);
    atomic_fetch_sub(&m->inside, 1);
}

/* Whether the caller can take part or not: as many work as were asked for. */
static void test_all_threads_work(void **state)
{
    (void)state;
    for (uint32_t threads = 1; threads <= 4; threads++) {
        AuPool *pool = rt_pool_new(rt_memory(NULL), threads);
        for (uint32_t deep = 0; deep < 3; deep++) { /* stacks stay deep once they are */
            const uint32_t stack = deep == 1 ? 4 << 20 : 0;
            Meeting m = {.expected = threads};
            const uint64_t slots[] = {(uint64_t)(uintptr_t)&m};
            assert_true(rt_pool_reserve(pool, stack));
            rt_pool_run(pool, meet, slots, (uint32_t[]){threads * 3, 1, 1}, stack);
            assert_int_equal(m.most, threads);
        }
        assert_int_equal(rt_pool_threads(pool), threads);
        rt_pool_free(pool);
    }
}

static void use_stack(const uint64_t *slots, uint32_t x, uint32_t y, uint32_t z)
{
    volatile char deep[3 << 20];
    for (size_t i = 0; i < sizeof deep; i += 4096) deep[i] = (char)i;
    count_block(slots, x, y, z);
    (void)deep[4096];
}

/* What a block makes of a denormal operand, of a denormal result, and of 1 + 2^-24 + 2^-30. */
static void compute(const uint64_t *slots, uint32_t x, uint32_t y, uint32_t z)
{
    volatile float *at = (volatile float *)(uintptr_t)slots[0] + 3 * x;
    volatile float denormal = 0x1p-130f, least = 0x1p-126f, one = 1, half_unit = 0x1.04p-24f;
    (void)y, (void)z;
    at[0] = denormal * 0x1p30f;
    at[1] = least * 0.5f;
    at[2] = one + half_unit;
}

/* Whatever the caller has set, which it finds again. */
static void test_float_mode(void **state)
{
    enum { BLOCKS = 64 };
    (void)state;
#if defined(__x86_64__)
    volatile float denormal = 0x1p-130f, at[3 * BLOCKS];
    const uint64_t slots[] = {(uint64_t)(uintptr_t)at};
    AuPool *pool = rt_pool_new(rt_memory(NULL), 3);
    assert_true(rt_pool_reserve(pool, 4096));
    assert_int_equal(fesetround(FE_DOWNWARD), 0);
    rt_pool_run(pool, compute, slots, (uint32_t[]){BLOCKS, 1, 1}, 4096);
    assert_int_equal(fegetround(), FE_DOWNWARD);
    assert_int_equal(fesetround(FE_TONEAREST), 0);
    assert_true(denormal * 0x1p30f == 0x1p-100f);
    for (int n = 0; n < BLOCKS; n++) {
        assert_true(at[3 * n] == 0 && at[3 * n + 1] == 0);
        assert_true(at[3 * n + 2] == 0x1.000002p0f);
    }
    rt_pool_free(pool);
#endif
}

static void test_deep_stacks(void **state)
{
    (void)state;
    AuPool *pool = rt_pool_new(rt_memory(NULL), 2);
    atomic_uint counts[8] = {0};
    uint64_t slots[] = {(uint64_t)(uintptr_t)counts, 8, 1};
    assert_true(rt_pool_reserve(pool, 3 << 20));
    rt_pool_run(pool, use_stack, slots, (uint32_t[]){8, 1, 1}, 3 << 20);
    for (int i = 0; i < 8; i++) assert_int_equal(counts[i], 1);
    rt_pool_free(pool);
}

/* Threads do not survive a fork: the child runs its blocks alone. */
static void test_fork(void **state)
{
    Fixture *f = *state;
    Case *c = case_new();
    assert_int_equal(aule_attention_run(f->attention, f->device, &c->call, &c->run, NULL), AULE_OK);
    case_forget(c);
    pid_t child = fork();
    if (child == 0) {
        alarm(20);
        aule_status status = aule_attention_run(f->attention, f->device, &c->call, &c->run, NULL);
        _exit(status == AULE_OK && case_is_right(c) ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    case_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_concurrent_calls), cmocka_unit_test(test_blocks_run_once),
        cmocka_unit_test(test_all_threads_work), cmocka_unit_test(test_float_mode),
        cmocka_unit_test(test_deep_stacks),      cmocka_unit_test(test_fork),
    };
    return cmocka_run_group_tests(tests, fixture_open, fixture_close);
}
