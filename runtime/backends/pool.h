/* pool.h - a pool of threads that run the blocks of grids.
 * Threads live as long as their device. A grid's blocks are claimed from an atomic counter, a few at a time, by whoever is free: the
 * caller takes part, so that a grid is finished even if every worker is busy with another caller's. Any number of callers may run
 * grids at once; a kernel must not call back into the pool.
 * Blocks are independent: which thread runs which block never changes a result. */
#ifndef AU_RUNTIME_POOL_H
#define AU_RUNTIME_POOL_H

#include "../base.h"

typedef struct AuPool AuPool;

/* [threads] that work, the caller's included; 0: as many as the process may use. */
AuPool *rt_pool_new(AuHeap memory, uint32_t threads);
void rt_pool_free(AuPool *pool);
uint32_t rt_pool_threads(const AuPool *pool);

/* Makes every worker's stack fit kernels that need so many bytes. false: no memory for them. */
bool rt_pool_reserve(AuPool *pool, uint32_t stack_bytes);

/* Kernels that need more stack than this never run on the caller's thread. */
enum { AU_CALLER_STACK = 512 * 1024 };

/* Runs all blocks of the grid and returns when they are done. */
void rt_pool_run(AuPool *pool, aule_cpu_kernel kernel, const uint64_t *slots,
                 const uint32_t grid[3], uint32_t stack_bytes);

#endif
