/* clocks.h - who is ordered before whom in a block whose executors go different ways and whose
 * copies and products go on by themselves: vector clocks. Kernels without such operations have the
 * cheaper clock of shadow.h.
 *
 * An executor has a time, which every release (an arrival, the issue of an operation) and every
 * barrier of its lanes moves on. What has happened in lanes of one executor before its last such
 * barrier (`synced`) is ordered for all of them; what came later, only for the lane itself. An
 * operation in flight is an actor of its own: what it does is ordered for those who have learnt
 * that it is done. Products of a group are done in their order, so a number says which are. */
#ifndef AU_KERNEL_CLOCKS_H
#define AU_KERNEL_CLOCKS_H

#include "arena.h"

enum { AU_LANES_ALL = 0xffff }; /* an access by lanes together, or by several */

typedef enum AuActorKind { AU_NOBODY, AU_BY_LANES, AU_BY_COPY, AU_BY_PRODUCT } AuActorKind;

/* Who did something and when. */
typedef struct AuStamp {
    uint32_t block, time; /* of a copy: its number; of a product: its number in its executor */
    uint16_t exec, lane;
    uint8_t kind; /* AuActorKind */
} AuStamp;

/* What is known of an executor: everything before `all`, and of one lane what is before `one`. */
typedef struct AuReach {
    uint32_t all, one;
    uint16_t lane;
} AuReach;

/* What somebody knows to have happened. */
typedef struct AuVector {
    uint32_t execs;
    AuReach *seen;      /* by executor */
    AuReach *fenced;    /* ... and units see it that do not go the way of loads and stores */
    uint32_t *products; /* by executor: so many are done */
    uint64_t *copies;   /* a bit for each */
    uint32_t words;
} AuVector;

AuVector clocks_vector(AuArena *arena, uint32_t execs);
void clocks_reset(AuVector *v);
void clocks_join(AuArena *arena, AuVector *into, const AuVector *from);
void clocks_join_copies(AuArena *arena, AuVector *into, const AuVector *from);
void clocks_add_copy(AuArena *arena, AuVector *v, uint32_t number);
bool clocks_has_copy(const AuVector *v, uint32_t number);

/* An executor of the block. */
typedef struct AuClocks {
    AuVector known;
    uint32_t time, synced;
    struct AuLearnt { /* copies that single lanes have waited for since `synced` */
        uint32_t number;
        uint16_t lane;
    } * learnt;
    uint32_t learnt_count, learnt_capacity;
} AuClocks;

void clocks_begin(AuClocks *c);                      /* a block */
void clocks_lanes_meet(AuArena *arena, AuClocks *c); /* a barrier of the executor's lanes */
void clocks_fence(AuClocks *c, uint32_t exec);
void clocks_learn(AuArena *arena, AuClocks *c, uint32_t number, uint16_t lane);
/* What a lane (AU_LANES_ALL: all) has done and knows becomes known to who gets [to]. */
void clocks_release(AuArena *arena, AuClocks *c, uint32_t exec, uint16_t lane, AuVector *to);

/* ---- accesses */

typedef struct AuReader {
    AuStamp stamp;
    struct AuReader *next;
} AuReader;

typedef struct AuMarks { /* of an element */
    AuStamp write;
    AuReader *readers; /* since */
    bool atomic;       /* the writes were */
} AuMarks;

typedef struct AuActor {
    AuStamp stamp;      /* what is left behind */
    const AuClocks *by; /* who acts, or issues what will */
    uint32_t exec;
    uint16_t lane;
    bool unit; /* not the way of loads and stores: what lanes have written must be fenced */
} AuActor;

typedef enum AuConflict { AU_NO_CONFLICT, AU_UNORDERED, AU_UNFENCED } AuConflict;

typedef struct AuReaders { /* where they come from and go to */
    AuArena *arena;
    AuReader *free;
} AuReaders;

/* Is what the stamp says over before the actor acts? */
AuConflict clocks_after(const AuActor *a, const AuStamp *s, bool written);
/* Notes an access; *other gets what it conflicts with. */
AuConflict clocks_read(AuReaders *pool, AuMarks *m, const AuActor *a, AuStamp *other);
AuConflict clocks_write(AuReaders *pool, AuMarks *m, const AuActor *a, bool atomic, AuStamp *other);

#endif
