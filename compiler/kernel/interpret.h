/* interpret.h - the parts of the interpreter to each other.
 * The tree of regions becomes a list of steps with jumps, so that executors can be stopped anywhere
 * and continued. Each executor has a frame that holds every value in all its lanes, element after
 * element: element e of lane l at [e * lanes + l]. A step does all lanes at once. Nothing is
 * allocated while steps run. */
#ifndef AU_KERNEL_INTERPRET_H
#define AU_KERNEL_INTERPRET_H

#include "clocks.h"
#include "internal.h"
#include "kernel_run.h"
#include "shadow.h"

typedef struct AuStep {
    uint8_t op;       /* AuKOp; AU_K_NONE: jump, or with a loop the end of its body */
    uint8_t of, to;   /* scalars of the operands (of a select, of b and c) and of the result */
    uint8_t bytes;    /* of one scalar of the value moved */
    uint8_t width;    /* of the value moved */
    uint32_t n;       /* scalars in all lanes: lanes * width */
    uint32_t result;  /* offsets in the frame */
    uint32_t a, b, c; /* ... of operands; memory: index, value, mask (0: none) */
    uint32_t other;   /* load: for lanes without the mask (0: zeros) */
    uint32_t jump;    /* step to go on with; of what is about an element: its `matrix_each` */
    uint32_t instr;   /* the instruction, for messages; of a loop's end: the loop */
    uint32_t mem;
    int64_t imm;
} AuStep;

typedef struct AuRunMemory { /* of a memory, while running */
    char *data;
    uint64_t count;          /* elements (in all copies of it) */
    AuShadow *shadow;        /* one per element; NULL where nobody writes and all is initialised */
    AuMarks *marks;          /* instead, in kernels with agents */
    struct AuHeld *held;     /* AU_LANE: elements of an executor, where products may take them */
    struct AuPhases *phases; /* of each mbarrier, where the memory holds them */
    uint32_t *written;       /* AU_LANE: epoch of the last write, per element and lane */
    uint8_t *flight;         /* AU_SHARED of a kernel with copies: being copied to */
    bool given;              /* a buffer that was initialised from outside */
} AuRunMemory;

/* A matrix instruction, and where the scalars of a lane's part lie, in the order of frames: row * MACHINE_LARGEST + column. */
typedef struct AuMatrixPlaces {
    AuMatrixOp op;
    const uint16_t *at[3];
    bool copies[3]; /* lanes hold copies */
} AuMatrixPlaces;

typedef struct AuFlight { /* a copy by one lane, issued and not yet waited for */
    const AuStep *step;
    int64_t to, from;
    uint32_t lane, good; /* elements that are read */
    uint32_t group;
} AuFlight;

typedef struct AuExecutor {
    char *frame;
    uint32_t pc, index;
    uint32_t x;       /* of shadow.h */
    uint32_t elected; /* the lane that is */
    uint32_t element; /* the first of those that a `matrix_each` is at, one a lane */
    bool waits, ended;
    AuFlight *flights;
    uint32_t flight_count, flight_capacity, committed;
} AuExecutor;

typedef struct AuMachine {
    const AuKernel *k;
    const AuKRun *run;
    AuArena *arena;
    AuStep *steps;
    uint32_t step_count, step_capacity;
    uint32_t *slot; /* per instruction: offset of its value */
    uint32_t frame_bytes;
    uint32_t *given, given_count,
        given_capacity; /* instructions without operands: their values are filled in beforehand */
    uint32_t each;      /* while steps are made: the `matrix_each` that they are in */
    bool increments, copies;
    const AuMatrixPlaces **matrices; /* by kernel_matrix_count: those that the kernel has */
    AuRunMemory *places;             /* per memory */
    AuExecutor *executors;
    struct AuAgents *agents; /* of kernels whose executors go different ways */
    AuClock clock;
    uint32_t block[3];
    uint64_t random;
    const char *why; /* set: the run has failed */
} AuMachine;

uint32_t kernel_draw(AuMachine *m, uint32_t below);
void kernel_flatten(AuMachine *m, uint32_t first);
void kernel_take_turn(AuMachine *m, AuExecutor *e);
static inline bool kernel_is_traced(const AuRunMemory *p) { return p->shadow || p->marks; }

void kernel_step_value(const AuStep *s, char *frame);
void kernel_step_memory(AuMachine *m, AuExecutor *e, const AuStep *s);
void kernel_step_matmul(AuMachine *m, AuExecutor *e, const AuStep *s);
const AuMatrixPlaces *kernel_matrix_places(AuArena *arena, AuMatrix which);
void kernel_step_mma(const AuMachine *m, const AuStep *s, char *frame);
void kernel_step_rows(AuMachine *m, AuExecutor *e, const AuStep *s);
void kernel_step_block(AuMachine *m, AuExecutor *e, const AuStep *s);
/* A number that is the same in all lanes, i32 or i64: that operand of the step's. */
int64_t kernel_number_at(const AuMachine *m, const AuExecutor *e, const AuStep *s,
                         uint32_t operand);
/* A surface and the place in it that is loaded, by either kind of matrices: operands from [n] on. */
typedef struct AuSurfaceAt {
    int64_t first, columns, rows, pitch, step, column, row;
} AuSurfaceAt;
AuSurfaceAt kernel_surface_at(const AuMachine *m, const AuExecutor *e, const AuStep *s, uint32_t n,
                              bool gathers);
void kernel_step_opaque(AuMachine *m, AuExecutor *e, const AuStep *s);
void kernel_step_place(AuMachine *m, AuExecutor *e, const AuStep *s);
void kernel_begin_each(AuMachine *m, AuExecutor *e, const AuStep *s);
void kernel_end_each(AuMachine *m, AuExecutor *e, const AuStep *s);
void kernel_step_copy(AuMachine *m, AuExecutor *e, const AuStep *s);
void kernel_fail_flight(AuMachine *m, const AuExecutor *e, const AuStep *s, uint32_t lane,
                        int64_t index);
/* A lane's index, which is the step's operand a. */
static inline int64_t kernel_index_at(const AuStep *s, const char *frame, uint32_t lane)
{
    if (s->of == AU_I64) return ((const int64_t *)(const void *)(frame + s->a))[lane];
    return ((const int32_t *)(const void *)(frame + s->a))[lane];
}
/* Notes a lane's access by [s] to element [at] of its memory, [index] in messages. false: the run
 * has failed. */
bool kernel_note_access(AuMachine *m, AuExecutor *e, const AuStep *s, uint32_t lane, uint64_t at,
                        int64_t index);
void kernel_step_lanes(const AuMachine *m, const AuStep *s, char *frame);
/* Notes why the run fails: kind, then what. */
void kernel_fail(AuMachine *m, const AuExecutor *e, const AuStep *s, uint32_t lane,
                 const char *format, ...) __attribute__((format(printf, 5, 6)));

#endif
