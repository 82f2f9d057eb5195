/* agents.h - the part of the interpreter for kernels whose executors go different ways: named
 * barriers, barriers in memory, operations in flight, groups of executors. Who has done what before
 * whom is told by the clocks of clocks.h. interpret_agents.c: the schedule and accesses;
 * interpret_sync.c: barriers; interpret_bulk.c: copies; interpret_group.c: products of
 * groups; interpret_tensor.c: tensor memory. */
#ifndef AU_KERNEL_AGENTS_H
#define AU_KERNEL_AGENTS_H

#include "interpret.h"

enum { AU_NAMED_BARRIERS = 16 };

/* A named barrier; 0 is that of the whole block. */
typedef struct AuNamed {
    uint32_t expected, arrived; /* lanes */
    uint64_t here;              /* executors */
    AuVector current;
} AuNamed;

/* A barrier in memory. */
typedef struct AuPhases {
    AuStamp init, fence; /* of a block before this one: not initialised, not fenced */
    int32_t count, missing;
    int64_t bytes;
    int32_t complete; /* phases */
    AuVector current, done;
} AuPhases;

typedef enum AuWaitKind {
    AU_WAITS_NOT,
    AU_FOR_NAMED,
    AU_FOR_PHASE,
    AU_FOR_COPIES,
    AU_FOR_PRODUCTS
} AuWaitKind;

/* An element of a memory of lanes, in all lanes of an executor. */
typedef struct AuHeld {
    uint32_t written, read; /* by a product in flight: its number, from 1 on */
    int64_t base;           /* the sums that it belongs to */
    uint32_t count;
    bool touched; /* by lanes, since the last fence */
} AuHeld;

typedef struct AuProduct {
    const AuStep *step;
    int64_t c_at, a_at, b_at;
    bool add;
    uint32_t group;
} AuProduct;

/* An arrival that the end of products makes. */
typedef struct AuSignal {
    const AuStep *step;
    uint32_t lane, products; /* so many are done by then */
    AuPhases *phases;
    AuVector known; /* copies done before these products, which their end tells of too */
} AuSignal;

/* An element of tensor memory that lanes have stored or loaded; its stamp is not yet one of their clock. */
typedef struct AuUnsettled {
    uint32_t mem;
    uint64_t at;
    const AuStep *step;
    bool done; /* waited for, not yet fenced */
} AuUnsettled;

typedef struct AuAgent { /* of an executor */
    AuClocks clocks;
    AuWaitKind wait;
    uint32_t named;   /* what it waits for */
    AuPhases *phases; /* ... or which, and number */
    int32_t number;
    AuProduct *products; /* of this block, in their order */
    uint32_t product_count, product_capacity, ended, commits;
    bool fenced;         /* wgmma_fence, once at least */
    uint32_t *committed; /* groups of copies, by lane */
    AuClocks ordered;    /* what is known since the last tensor_fence */
    AuUnsettled *unsettled;
    uint32_t unsettled_count, unsettled_capacity;
    AuSignal *signals;
    uint32_t signal_count, signal_capacity, signalled;
    uint32_t met; /* operations of its group that it has come to */
} AuAgent;

/* Elements of a tensor, rows of bytes being of one dimension. */
typedef struct AuBox {
    uint32_t rank, count[AU_MAP_RANK];
    int64_t start[AU_MAP_RANK], size[AU_MAP_RANK], stride[AU_MAP_RANK];
    int64_t base; /* where coordinates of 0 are */
} AuBox;

typedef struct AuCopy { /* by one lane, in flight or done */
    const AuStep *step;
    AuExecutor *e;
    uint32_t lane, shared, global;         /* memories */
    uint32_t shared_number, global_number; /* as actors, at both ends */
    uint32_t group;
    int64_t shared_at, bytes;
    AuBox box;
    AuPhases *signals; /* of loads */
    bool done, read_known, known;
} AuCopy;

typedef struct AuMeeting { /* an operation of a group, as the first who came has it */
    uint32_t instr, first;
    int64_t operands[4];
} AuMeeting;

typedef struct AuGroup {
    AuMeeting *meetings;
    uint32_t count, capacity;
} AuGroup;

typedef struct AuAgents {
    AuAgent *of; /* by executor */
    AuNamed named[AU_NAMED_BARRIERS];
    AuGroup *groups;
    AuCopy *copies; /* of this block */
    uint32_t copy_count, copy_capacity, copy_number, copies_pending;
    uint32_t laziness; /* how late what goes on by itself ends: 0 to 2 */
    AuReaders readers;
    uint32_t block;    /* number of the present one, from 1 on */
    AuStamp allocated; /* tensor memory; of another block, or nobody: it is not */
    bool tensor;       /* the kernel has such */
} AuAgents;

AuAgents *agents_new(AuMachine *m);
void agents_prepare(AuMachine *m); /* places and executors are there */
void agents_run_block(AuMachine *m);
void agents_step(AuMachine *m, AuExecutor *e, const AuStep *s);
void agents_barrier(AuMachine *m, AuExecutor *e, const AuStep *s);
bool agents_note(AuMachine *m, AuExecutor *e, const AuStep *s, uint32_t lane, uint64_t at,
                 int64_t index);

/* Lanes use element [index] of a memory of lanes; false: a product holds it. */
bool agents_use_register(AuMachine *m, const AuExecutor *e, const AuStep *s, int64_t index,
                         bool store);

/* ---- to each other */

#define AU_BY_TENSOR_LOAD UINT32_MAX /* AuHeld.written */
/* Times of stamps that are none yet: a load or store of tensor memory in flight; waited for. */
#define AU_IN_FLIGHT  UINT32_MAX
#define AU_NOT_FENCED (UINT32_MAX - 1)

static inline AuHeld *agents_held(const AuMachine *m, const AuExecutor *e, uint32_t mem,
                                  int64_t index)
{
    return &m->places[mem].held[(int64_t)e->index * m->k->mems[mem].count + index];
}

static inline uint64_t agents_register(const AuMachine *m, const AuExecutor *e, uint32_t mem,
                                       int64_t index, uint32_t lane)
{
    const uint64_t row = (uint64_t)e->index * m->k->mems[mem].count + (uint64_t)index;
    return row * m->k->lanes + lane;
}

static inline AuAgent *agents_of(AuMachine *m, const AuExecutor *e)
{
    return &m->agents->of[e->index];
}
/* A lane as who acts. */
AuActor agents_lane(AuMachine *m, const AuExecutor *e, uint32_t lane);
/* An access to element [at], [index] in messages, of the memory; false: the run has failed. */
typedef struct AuTouch {
    uint32_t mem;
    uint64_t at;
    int64_t index;
    bool writes, atomic;
} AuTouch;
bool agents_touch(AuMachine *m, const AuExecutor *e, const AuStep *s, const AuActor *actor,
                  AuTouch touch);
/* Operand [n] of a lane, of i1, i32 or i64; -1 where it is left out. */
int64_t agents_operand(const AuMachine *m, const AuExecutor *e, const AuStep *s, uint32_t n,
                       uint32_t lane);
/* Is the lane in the mask, which is operand [n] or left out? */
bool agents_is_active(const AuMachine *m, const AuExecutor *e, const AuStep *s, uint32_t n,
                      uint32_t lane);
/* The executor comes to an operation of its group with these operands. */
void agents_meet(AuMachine *m, AuExecutor *e, const AuStep *s, const int64_t operands[4]);
void agents_step_sync(AuMachine *m, AuExecutor *e, const AuStep *s);
AuPhases *agents_phases(AuMachine *m, const AuExecutor *e, const AuStep *s, uint32_t mem,
                        int64_t index, uint32_t lane); /* NULL: the run has failed */
void agents_settle(AuMachine *m, AuPhases *b);         /* after an arrival, or bytes */
void agents_step_product(AuMachine *m, AuExecutor *e, const AuStep *s);
uint32_t agents_products_pending(const AuMachine *m); /* executors that have such */
void agents_end_product(AuMachine *m, uint32_t which);
/* A or B of a product, in shared or tensor memory. */
typedef struct AuOperand {
    uint32_t mem;
    int64_t at, stride; /* from one part of the columns to the next */
    int64_t line;       /* elements of a row of the swizzle, or of the tile */
    bool turned;        /* stored along the contracted axis, not across it */
} AuOperand;
AuOperand agents_matrix(const AuMachine *m, const AuProduct *x, const AuGroupOp *op, bool b);
/* Element [k] of row [r] of A, or of column [r] of B. */
float agents_matrix_element(const AuMachine *m, const AuOperand *o, int64_t r, int64_t k);
bool agents_touch_matrix(AuMachine *m, const AuExecutor *e, const AuStep *s, const AuOperand *o,
                         int64_t first, int64_t count, int64_t depth, const AuActor *actor);
/* Has the barrier been made known to units that arrive there by themselves? Else it is a mistake. */
bool agents_units_know(AuMachine *m, const AuExecutor *e, const AuStep *s, uint32_t lane,
                       const AuPhases *b);
void agents_step_tensor(AuMachine *m, AuExecutor *e, const AuStep *s);
void agents_multiply_tensor(AuMachine *m, const AuProduct *x);
void agents_signal_products(AuMachine *m, AuExecutor *e); /* after one has ended */
/* May lanes or a product use the element? What knows of it goes to *actor; false: the run has failed. */
bool agents_may_use_tensor(AuMachine *m, const AuExecutor *e, const AuStep *s, AuActor *actor,
                           const AuTouch *touch);
void agents_begin_tensor(AuMachine *m);
void agents_end_tensor(AuMachine *m); /* of the block */
void agents_begin_products(AuMachine *m);
void agents_end_products(AuMachine *m); /* of the block */
void agents_step_copy(AuMachine *m, AuExecutor *e, const AuStep *s);
void agents_end_copy(AuMachine *m, uint32_t which); /* of those that are pending */
void agents_end_copies(AuMachine *m);               /* of the block */
void agents_begin_barriers(AuMachine *m);
/* At the end of a block: bytes that nobody brought. */
void agents_end_barriers(AuMachine *m);

#endif
