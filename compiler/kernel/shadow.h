/* shadow.h - what the interpreter remembers of each element of a memory that several lanes see: who
 * wrote it and who read it since, so that two accesses that nothing orders are found in every
 * schedule, not only when they happen to collide.
 *
 * Time: `epoch` counts the barriers of blocks and the blocks themselves, over the whole run (blocks
 * run one after another); `x` counts what orders the lanes of one executor. An access is ordered
 * after another of the same block if a barrier of the block lies between, or if both are of one
 * executor with a later x, or of one lane. Between blocks only atomic_inc orders: a block that
 * increments a counter has seen what those before it had done, before their last barrier. Of several
 * earlier blocks only the latest is remembered for an element: where that one is ordered and one
 * before it is not, the race is missed. */
#ifndef AU_KERNEL_SHADOW_H
#define AU_KERNEL_SHADOW_H

#include "arena.h"

enum { AU_MANY = 0xffff };

/* A set of accesses that nothing later has replaced. */
typedef struct AuTrace {
    uint32_t epoch; /* of the last; 0: none */
    uint32_t x;
    uint32_t other;      /* epoch of the last by an earlier block, 0: none */
    uint16_t exec, lane; /* AU_MANY: several */
} AuTrace;

typedef struct AuShadow {
    AuTrace write, read;
    bool atomic; /* the writes were atomic */
} AuShadow;

typedef struct AuRelease {
    uint64_t place; /* of the counter */
    uint32_t *clock;
    struct AuRelease *next;
} AuRelease;

/* The clocks of a run. */
typedef struct AuClock {
    AuArena *arena;
    uint32_t epoch, begin;  /* now; when the present block began */
    uint32_t *begins;       /* epoch at which each block (in the order of running) began */
    uint32_t block, blocks; /* of which the present is number block */
    uint32_t *seen; /* per block: everything before this epoch happened before now; NULL without
                       atomic_inc */
    AuRelease *releases;
} AuClock;

typedef struct AuAccess {
    uint32_t x;
    uint16_t exec, lane;
} AuAccess;

AuClock kernel_clock(AuArena *arena, uint32_t blocks, bool increments);
void kernel_clock_block(AuClock *clock); /* the next block begins */
void kernel_clock_barrier(AuClock *clock);
void kernel_clock_increment(AuClock *clock, uint64_t place);

/* Notes an access. false: it races, with a write or (NULL *other) with something else of the trace
 * that *other gets. */
bool kernel_shadow_read(const AuClock *clock, AuShadow *s, AuAccess a, const AuTrace **other);
bool kernel_shadow_write(const AuClock *clock, AuShadow *s, AuAccess a, bool atomic,
                         const AuTrace **other);
/* An atomic_inc, which orders instead of racing. */
void kernel_shadow_increment(const AuClock *clock, AuShadow *s, AuAccess a);

#endif
