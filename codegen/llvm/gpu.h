/* gpu.h - what the generators of all GPUs of LLVM share, and what each has in its own way (GpuDevice).
 *
 * A lane is a thread, so a value is one LLVM value. Memories of the block are parts of one array in
 * shared memory. Threads are lanes in the order of their executors. Control flow is uniform in an
 * executor, so exchanges find all lanes. */
#ifndef AU_LLVM_GPU_H
#define AU_LLVM_GPU_H

#include "emit.h"

/* Of the kernel at hand. A device's own struct begins with it. */
typedef struct GpuKernel {
    LLVMValueRef lane, warp;
    bool coarse;   /* results are about to become 16-bit floats: functions of a few ulp will do */
    AuLanes lanes; /* which values differ between lanes; made when first asked for */
} GpuKernel;

/* An address as a pointer and a constant, for instructions that are written as text. */
typedef struct GpuPlace {
    LLVMValueRef base;
    int64_t offset;
    AuSpace space;  /* AU_GLOBAL or AU_SHARED */
    bool constant;  /* a tensor that is only read */
    uint32_t align; /* bytes, of the access */
} GpuPlace;

/* Functions of f32 that every GPU has an instruction for, within a few ulp. */
typedef enum GpuApproximation {
    GPU_EXP2,
    GPU_RECIPROCAL,
    GPU_RSQRT,
    GPU_APPROXIMATIONS
} GpuApproximation;
typedef struct GpuFunction {
    const char *intrinsic;
    bool typed; /* its name has the type behind it */
} GpuFunction;

/* Joins loads and stores of neighbouring numbers, which LLVM's code generators do, too, but for a block whole: each join numbers the block's
 * instructions anew. Kernels of multiply-adds have blocks of ten thousands, and 40 to 60 % of the compiler's time was this (mha in f32, width 128, on
 * gfx942 and sm_90). So their loops that are written out are in pieces of so many instructions (AuEmit.longest), and this comes before the passes that
 * make one block of these. */
#define GPU_JOIN "function(sroa,early-cse,load-store-vectorizer)"
enum { GPU_PIECE = 512 };

typedef struct GpuDevice {
    AuDevice device;         /* gpu_open, gpu_instruction, its own functions of values */
    uint32_t lanes;          /* of an executor */
    uint32_t threads;        /* of a block, at most */
    unsigned global, shared; /* address spaces */
    uint32_t static_bytes;   /* of shared memory that code may declare; more is what launches add */
    const char *all_blocks;  /* LLVM's name for the scope of all blocks */
    const char *refusal;     /* what a block of another size is told */
    GpuFunction approximate[GPU_APPROXIMATIONS];
    /* The function and its attributes, and the struct that begins with GpuKernel. */
    GpuKernel *(*open)(AuEmit *e);
    LLVMValueRef (*thread)(AuEmit *e);
    LLVMValueRef (*block)(AuEmit *e, int64_t dimension);
    LLVMValueRef (*blocks)(AuEmit *e, int64_t dimension); /* of the grid */
    /* A value from the lane whose number is [lane], or differs from the own one in the bits of [lane]. */
    LLVMValueRef (*exchange)(AuEmit *e, bool by_xor, LLVMValueRef bits, LLVMValueRef lane);
    /* Of a word what the lane without [bit] in its number has, and what the one with it; NULL: made of an exchange. */
    bool (*both)(AuEmit *e, LLVMValueRef word, uint32_t bit, LLVMValueRef out[2]);
    LLVMValueRef (*any)(AuEmit *e, LLVMValueRef mask);
    void (*barrier)(AuEmit *e, bool of_executor);
    void (*forget_loads)(AuEmit *e); /* between phases: nothing that was loaded is kept */
    LLVMValueRef (*pin)(AuEmit *e, LLVMValueRef v); /* of which nothing is known any more */
    /* Under a mask that is not constant: [bytes] in all, [element] of one; [other] and [v] as in memory. */
    LLVMValueRef (*masked_load)(AuEmit *e, const GpuPlace *at, LLVMValueRef mask,
                                LLVMValueRef other, uint32_t bytes, uint32_t element);
    void (*masked_store)(AuEmit *e, const GpuPlace *at, LLVMValueRef mask, LLVMValueRef v,
                         uint32_t bytes, uint32_t element);
    /* Sums in memory, asynchronous copies, matrix units. */
    bool (*instruction)(AuEmit *e, AuVal v);
} GpuDevice;

static inline const GpuDevice *gpu_device(const AuEmit *e) { return (const GpuDevice *)e->device; }

static inline LLVMValueRef gpu_i32(AuEmit *e, uint32_t value)
{
    return LLVMConstInt(e->element[AU_I32], value, false);
}
/* Whether [mask] is no mask or true. */
static inline bool gpu_always(LLVMValueRef mask)
{
    return !mask || (LLVMIsAConstantInt(mask) && LLVMConstIntGetZExtValue(mask));
}

/* gpu_emit.c */
bool gpu_open(AuEmit *e);
bool gpu_instruction(AuEmit *e, AuVal v);

/* gpu_place.c */
void gpu_places(AuEmit *e);
uint32_t gpu_dynamic_shared(const GpuDevice *device, const AuKernel *k);
LLVMValueRef gpu_address(AuEmit *e, AuMem mem, AuVal index);
bool gpu_sum(AuEmit *e, AuVal v); /* an addition of i32; false: nothing to gain, nothing emitted */
GpuPlace gpu_place(AuEmit *e, AuMem mem, AuVal index, uint32_t bytes);
/* In shared memory, as if it had no swizzle: for units that have their own idea of it. */
GpuPlace gpu_line(AuEmit *e, AuMem mem, AuVal index);
/* To what power of two of bytes an access of [bytes] at [index] is certainly aligned, up to 16. */
uint32_t gpu_alignment(const AuEmit *e, AuMem mem, AuVal index, uint32_t bytes);

/* gpu_memory.c */
typedef struct GpuAccess {
    const AuInstr *in;
    AuMem mem;
    AuScalar scalar;
    AuVal index;
    LLVMValueRef mask; /* NULL: none */
    uint32_t width, bytes, align;
} GpuAccess;
/* [mask]: which operand it is, if it is there. */
GpuAccess gpu_access(AuEmit *e, AuVal v, uint32_t width, uint32_t mask);
void gpu_load(AuEmit *e, AuVal v);
void gpu_store(AuEmit *e, AuVal v);
void gpu_atomic_inc(AuEmit *e, AuVal v);

/* gpu_math.c */
LLVMValueRef gpu_op(AuEmit *e, const AuInstr *in, AuScalar of, const LLVMValueRef *operands);
bool gpu_native_math(AuKOp op);
bool gpu_multiplies_halves(const AuKernel *k);
bool gpu_is_coarse(const AuKernel *k); /* GpuKernel.coarse */
bool gpu_any_multiplies_halves(AuKernel *const *kernels, uint32_t count);

#endif
