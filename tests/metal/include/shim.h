/* shim.h - what the shim of metal_stdlib, its runner and the double of Metal say to each other. */
#ifndef AU_TESTS_METAL_SHIM_H
#define AU_TESTS_METAL_SHIM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A range of device memory that the launch may touch. */
typedef struct ShimBuffer {
    uint64_t at, bytes;
} ShimBuffer;

typedef struct ShimLaunch {
    const char *kernel;
    const void *slots;
    uint64_t slot_bytes, shared_bytes, grid[3], threads;
    const ShimBuffer *buffers;
    uint64_t buffer_count;
    int turned; /* elements of matrices have rows and columns exchanged */
} ShimLaunch;

/* Of a compiled text. 0: fine; else what is wrong is in [message]. */
typedef int (*ShimRun)(const ShimLaunch *launch, char *message, size_t room);

/* A thread of a launch. */
typedef struct ShimThread {
    const void *slots;
    void *shared;
    uint64_t slot_bytes;
    uint32_t at[3], grid[3], executor, lane;
} ShimThread;

enum { SHIM_SHUFFLE };
void shim_barrier(int of_executor, int flags);
const void *shim_exchange(const void *value, size_t bytes, int what, unsigned from);
int shim_any(int value);
void shim_multiply(const float *a, const float *b, float *sums);
/* Where a lane has an element of a matrix. */
void shim_place(unsigned lane, unsigned element, unsigned *row, unsigned *column);
void shim_atomic(void *at, void *value, size_t bytes, int write);
unsigned shim_lane(void);
void shim_fail(const char *why) __attribute__((noreturn));
uint16_t shim_to_half(float value);
float shim_from_half(uint16_t bits);

/* Made for each text: calls the kernel of the name, 0 if there is none. */
int shim_enter(const char *kernel, const ShimThread *thread);

#ifdef __cplusplus
}
#endif
#endif
