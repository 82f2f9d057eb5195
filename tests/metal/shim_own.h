/* shim_own.h - what the files of the shim's runner share: a thread of a threadgroup as a fiber, and the launch that is under way. One text's
 * library has these once; one launch of it runs at a time. */
#ifndef AU_TESTS_METAL_SHIM_OWN_H
#define AU_TESTS_METAL_SHIM_OWN_H

#include "include/shim.h"

enum { LANES = 32, MOST_THREADS = 1024, STACK = 512 << 10, SHARED_MOST = 32 << 10 };

typedef struct Fiber {
    void *at; /* of its stack, where it stopped */
    char *stack;
    ShimThread thread;
    unsigned char value[16], result[16];
    uint32_t bytes, from;
    const float *a, *b;
    float *sums;
} Fiber;

typedef struct ShimState {
    const ShimLaunch *job;
    Fiber *fibers, *now; /* NULL: none runs */
    const char *stack;   /* its */
    uint64_t touch;      /* what it leaves on threadgroup memory (shim_checks.c) */
    uint32_t count;
    uint32_t turn,
        own_turns[MOST_THREADS / LANES]; /* counted by barriers; a simdgroup's in a turn */
    int failed;
} ShimState;
extern ShimState shim;

/* shim_run.c: the first fault is told. The fiber that runs never goes on. */
void shim_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* shim_checks.c */
int shim_checks_open(void); /* 0: out of memory */
void shim_checks_block(void);
void shim_checks_close(void);
void *shim_shared(void);
/* Of a thread in the present turns. */
uint64_t shim_touch_of(uint32_t thread);

/* shim_fibers.c */
int shim_fibers_open(void); /* 0: out of memory */
void shim_fibers_close(void);
void shim_fibers_run(void); /* of one block, to their end or the first fault */
void shim_stop(void) __attribute__((noreturn));

#endif
