#include "pool.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "../platform/platform.h"

/* A grid that is being run. Lives on its caller's stack: nobody may look at it once it is out of the list and [workers] is 0. */
typedef struct Job {
    aule_cpu_kernel kernel;
    const uint64_t *slots;
    uint32_t grid[3];
    uint64_t total, chunk;
    _Atomic uint64_t next; /* first block that nobody has claimed */
    atomic_uint workers;   /* threads of the pool inside; changed under the lock */
    uint32_t most;         /* of them: as many as work together, less a caller that takes part */
    struct Job *link;
} Job;

struct AuPool {
    AuHeap memory;
    pid_t process;     /* threads do not survive a fork */
    uint32_t together; /* threads that work on one grid, its caller counted where it takes part */
    atomic_uint
        wanted; /* workers: one less than that, until a kernel comes that callers have no stack for */
    uint32_t running;
    uint32_t stack_bytes;
    pthread_t *threads;
    pthread_mutex_t resizing; /* one thread at a time starts or stops workers */
    pthread_mutex_t lock;     /* of everything below */
    pthread_cond_t work, done;
    Job *jobs;
    atomic_uint posted; /* changes when there may be work, for those who spin */
    uint32_t asleep;
    bool stop;
};

/* Of spinning before a thread sleeps: about 20 us, a few times what waking one up takes. */
enum { SPINS = 400, STACK_MARGIN = 128 * 1024, LEAST_STACK = 512 * 1024 };
/* Stacks are whole pages, which have up to 64 KB. */
enum { STACK_PAGE = 65536 };

static void pause_briefly(void)
{
#if defined(__x86_64__)
    _mm_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb");
#endif
}

/* The same for all, so that a block's result does not depend on the thread it lands on: rounding to nearest, no traps, and 0
 * for denormals. Weights of keys far away (ALiBi) make products of 1e-38 in gradients, and a multiply-add that meets one
 * takes a hundred cycles more on Intel's cores. */
static uint64_t enter_float_mode(void)
{
#if defined(__x86_64__)
    enum { NO_TRAPS = 0x1f80, DENORMAL_RESULTS_ARE_0 = 0x8000, DENORMAL_OPERANDS_ARE_0 = 0x40 };
    uint64_t mode = _mm_getcsr();
    _mm_setcsr(NO_TRAPS | DENORMAL_RESULTS_ARE_0 | DENORMAL_OPERANDS_ARE_0);
    return mode;
#elif defined(__aarch64__)
    uint64_t mode;
    const uint64_t denormals_are_0 = 1u << 24;
    __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
    __asm__ volatile("msr fpcr, %0" ::"r"(denormals_are_0));
    return mode;
#else
    return 0;
#endif
}

static void leave_float_mode(uint64_t mode)
{
#if defined(__x86_64__)
    _mm_setcsr((unsigned)mode);
#elif defined(__aarch64__)
    __asm__ volatile("msr fpcr, %0" ::"r"(mode));
#else
    (void)mode;
#endif
}

static void run_blocks(const Job *job, uint64_t first, uint64_t last)
{
    uint32_t x = (uint32_t)(first % job->grid[0]);
    uint64_t row = first / job->grid[0];
    uint32_t y = (uint32_t)(row % job->grid[1]), z = (uint32_t)(row / job->grid[1]);
    for (uint64_t block = first; block < last; block++) {
        job->kernel(job->slots, x, y, z);
        if (++x < job->grid[0]) continue;
        x = 0;
        if (++y < job->grid[1]) continue;
        y = 0;
        z++;
    }
}

static void run_job(Job *job)
{
    for (;;) {
        uint64_t first = atomic_fetch_add_explicit(&job->next, job->chunk, memory_order_relaxed);
        if (first >= job->total) return;
        run_blocks(job, first, first + job->chunk < job->total ? first + job->chunk : job->total);
    }
}

/* ---- workers */

static Job *open_job(AuPool *pool) /* under the lock */
{
    Job *job = pool->jobs;
    while (job && (atomic_load_explicit(&job->next, memory_order_relaxed) >= job->total ||
                   atomic_load_explicit(&job->workers, memory_order_relaxed) >= job->most))
        job = job->link;
    return job;
}

static void spin_for_work(AuPool *pool, unsigned seen)
{
    for (int i = 0; i < SPINS && atomic_load_explicit(&pool->posted, memory_order_relaxed) == seen;
         i++)
        pause_briefly();
}

static void *work(void *argument)
{
    AuPool *pool = argument;
    rt_name_thread("aule");
    enter_float_mode();
    pthread_mutex_lock(&pool->lock);
    while (!pool->stop) {
        Job *job = open_job(pool);
        if (job) {
            atomic_fetch_add_explicit(&job->workers, 1, memory_order_relaxed);
            pthread_mutex_unlock(&pool->lock);
            run_job(job);
            pthread_mutex_lock(&pool->lock);
            if (atomic_fetch_sub_explicit(&job->workers, 1, memory_order_release) == 1)
                pthread_cond_broadcast(&pool->done);
            continue;
        }
        unsigned seen = atomic_load_explicit(&pool->posted, memory_order_relaxed);
        pthread_mutex_unlock(&pool->lock);
        spin_for_work(pool, seen);
        pthread_mutex_lock(&pool->lock);
        if (pool->stop || atomic_load_explicit(&pool->posted, memory_order_relaxed) != seen)
            continue;
        pool->asleep++;
        pthread_cond_wait(&pool->work, &pool->lock);
        pool->asleep--;
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

/* With [resizing] held. Signals are for the threads of the program, not for ours. */
static bool start_workers(AuPool *pool)
{
    pthread_attr_t attributes;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, pool->stack_bytes);
    pool->stop = false;
    while (pool->running < pool->wanted &&
           pthread_create(&pool->threads[pool->running], &attributes, work, pool) == 0)
        pool->running++;
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return pool->running == pool->wanted;
}

static void stop_workers(AuPool *pool) /* with [resizing] held */
{
    pthread_mutex_lock(&pool->lock);
    pool->stop = true;
    atomic_fetch_add_explicit(&pool->posted, 1, memory_order_relaxed);
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->lock);
    for (; pool->running > 0; pool->running--) pthread_join(pool->threads[pool->running - 1], NULL);
}

/* ---- the pool */

AuPool *rt_pool_new(AuHeap memory, uint32_t threads)
{
    AuPool *pool = rt_alloc(memory, sizeof *pool);
    if (!pool) return NULL;
    if (threads == 0) threads = rt_usable_cores();
    if (threads > 1024) threads = 1024;
    pool->memory = memory;
    pool->process = getpid();
    pool->together = threads;
    atomic_init(&pool->wanted, threads - 1);
    /* Room for one more, for kernels whose caller cannot take part. */
    pool->threads = rt_alloc_array(memory, threads, sizeof *pool->threads);
    if (!pool->threads) {
        rt_free(pool);
        return NULL;
    }
    pthread_mutex_init(&pool->resizing, NULL);
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->work, NULL);
    pthread_cond_init(&pool->done, NULL);
    return pool;
}

void rt_pool_free(AuPool *pool)
{
    if (!pool) return;
    if (pool->process == getpid()) {
        stop_workers(pool);
        pthread_cond_destroy(&pool->done);
        pthread_cond_destroy(&pool->work);
        pthread_mutex_destroy(&pool->lock);
        pthread_mutex_destroy(&pool->resizing);
    }
    rt_free(pool->threads);
    rt_free(pool);
}

uint32_t rt_pool_threads(const AuPool *pool) { return pool->together; }

bool rt_pool_reserve(AuPool *pool, uint32_t stack_bytes)
{
    if (pool->process != getpid()) return stack_bytes <= AU_CALLER_STACK;
    pthread_mutex_lock(&pool->resizing);
    uint32_t needed = stack_bytes > UINT32_MAX - STACK_MARGIN - STACK_PAGE
                          ? UINT32_MAX
                          : (stack_bytes + STACK_MARGIN + STACK_PAGE - 1) / STACK_PAGE * STACK_PAGE;
    if (needed < LEAST_STACK) needed = LEAST_STACK;
    if (stack_bytes > AU_CALLER_STACK) pool->wanted = pool->together;
    bool fine = true;
    if (needed > pool->stack_bytes || pool->running < pool->wanted) {
        stop_workers(pool);
        if (needed > pool->stack_bytes) pool->stack_bytes = needed;
        fine = start_workers(pool);
    }
    /* Fewer workers than wanted are slower, but enough; none are not, where the caller cannot take part. */
    fine = fine || stack_bytes <= AU_CALLER_STACK || pool->running > 0;
    pthread_mutex_unlock(&pool->resizing);
    return fine;
}

/* ---- running */

static void post(AuPool *pool, Job *job)
{
    pthread_mutex_lock(&pool->lock);
    Job **end = &pool->jobs;
    while (*end) end = &(*end)->link;
    *end = job;
    atomic_fetch_add_explicit(&pool->posted, 1, memory_order_relaxed);
    if (pool->asleep > 0) pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->lock);
}

static void finish(AuPool *pool, Job *job)
{
    for (int i = 0; i < SPINS && atomic_load_explicit(&job->workers, memory_order_relaxed) > 0; i++)
        pause_briefly();
    pthread_mutex_lock(&pool->lock);
    while (atomic_load_explicit(&job->next, memory_order_relaxed) < job->total ||
           atomic_load_explicit(&job->workers, memory_order_acquire) > 0)
        pthread_cond_wait(&pool->done, &pool->lock);
    Job **at = &pool->jobs;
    while (*at != job) at = &(*at)->link;
    *at = job->link;
    pthread_mutex_unlock(&pool->lock);
}

void rt_pool_run(AuPool *pool, aule_cpu_kernel kernel, const uint64_t *slots,
                 const uint32_t grid[3], uint32_t stack_bytes)
{
    Job job = {.kernel = kernel, .slots = slots, .grid = {grid[0], grid[1], grid[2]}};
    job.total = (uint64_t)grid[0] * grid[1] * grid[2];
    uint64_t shares = job.total / ((uint64_t)pool->together * 16);
    job.chunk = shares > 0 ? shares : 1;
    bool caller = stack_bytes <= AU_CALLER_STACK;
    bool forked = pool->process != getpid();
    job.most = pool->together - caller;
    if (forked || (caller && (job.total == 1 || job.most == 0))) {
        uint64_t mode = enter_float_mode();
        run_blocks(&job, 0, job.total);
        leave_float_mode(mode);
        return;
    }
    post(pool, &job);
    if (caller) {
        uint64_t mode = enter_float_mode();
        run_job(&job);
        leave_float_mode(mode);
    }
    finish(pool, &job);
}
