/* emit.h - kernel IR to LLVM IR: what the emit_*.c, gpu_*.c, cuda_*.c and hip_*.c files share and nobody else sees.
 *
 * On hosts one executor runs as one function; its lanes are the elements of LLVM vectors. A value of the
 * kernel has up to three forms, each made when first asked for:
 *
 *   base    what lane 0 has: a scalar T, or <w x T> for a vector of width w. The whole of a uniform
 *           value; of an affine one lane l has base + l * stride
 *   wide    all lanes: <lanes * w x T>, the elements of a lane side by side
 *   index   base as i64, for addresses
 *
 * f16 and bf16 are i16 everywhere and become half or float only inside a conversion, so that no target
 * needs 16-bit floats and none passes through a library call. i1 is i1 in values and a byte in memory.
 *
 * Indices: the additions, subtractions, products and shifts of i32 from which an index is made are
 * taken not to wrap (docs/dev/kernel-ir.md); they are redone in 64 bits, which lets the target fold
 * them into addresses.
 *
 * On devices a lane is a thread: every value has its base only, as if there were one lane, 16-bit
 * floats have types of their own, and what concerns memory, lanes and order is the device's (AuDevice). */
#ifndef AU_LLVM_EMIT_H
#define AU_LLVM_EMIT_H

#include "kernel.h"

#include <llvm-c/Core.h>

struct AuEmit;

/* What a device does in its own way; emit.c does the rest. */
typedef struct AuDevice {
    bool (*open)(struct AuEmit *e); /* the function and the places of memories; false: refused */
    bool (*instruction)(struct AuEmit *e, AuVal v); /* false: nothing emitted, as on hosts */
    void (*end)(struct AuEmit *e);                  /* of a region: what was held back is written */
    void (*before_loop)(struct AuEmit *e, const AuInstr *loop); /* that stays one; NULL: nothing */
    LLVMValueRef (*op)(struct AuEmit *e, const AuInstr *in, AuScalar of,
                       const LLVMValueRef *operands); /* of ops.def; NULL: as on hosts */
    bool (*keeps_long)(const AuKernel *k); /* long loops whose variables are no index of arrays of
                                              lanes stay loops; NULL: of no kernel */
} AuDevice;

/* What emission asks of an architecture. */
typedef struct AuHost {
    const char *triple, *cpu, *features;
    const char *plain; /* features of the plainest host with the same vectors; NULL: of a device */
    const AuDevice *device; /* NULL: a host */
    bool gathers_words;     /* of 32 and 64 bits, in hardware */
    bool dot_bf16;          /* vdpbf16ps, vcvtneps2bf16 */
    bool tiles;             /* AMX: tdpbf16ps */
} AuHost;

typedef struct AuForms {
    LLVMValueRef base, wide, index;
} AuForms;

typedef struct AuEmitMemory { /* of a memory */
    LLVMValueRef base;
    bool single; /* AU_LANE whose content is uniform: one element for all lanes */
    LLVMValueRef scope,
        others; /* lists of alias scopes: its own, all that it cannot overlap; NULL: neither */
} AuEmitMemory;

enum { AU_INTRINSICS = 64, AU_MOST_LANES = 64, AU_MOST_ELEMENTS = 16 * AU_MOST_LANES };
typedef struct AuIntrinsic {
    const char *name;
    LLVMTypeRef types[2], signature;
    LLVMValueRef function;
} AuIntrinsic;

typedef struct AuEmit {
    AuArena *arena;
    AuDiags *diags;
    const AuHost *host;
    const AuKernel *k;
    AuLanes lanes;
    LLVMContextRef context;
    LLVMModuleRef module;
    LLVMBuilderRef builder;
    LLVMValueRef function;
    const AuDevice *device;
    struct AuLines *lines;                     /* of the script; NULL: code does not name them */
    struct GpuKernel *gpu;                     /* of the kernel at hand, for a device */
    LLVMTypeRef i64, ptr, element[AU_SCALARS]; /* element: of values; memory: emit_stored */
    AuForms *forms;                            /* per value */
    AuEmitMemory *places;                      /* per memory */
    uint32_t *trail; /* values with forms made since the function began: forms die with the region
                        they were made in */
    uint32_t trail_count, trail_capacity;
    const char *phase; /* names basic blocks */
    uint32_t emitted;  /* instructions so far, copies counted */
    uint32_t longest;  /* of them, a piece of a loop that is written out; 0: as long as it is */
    uint32_t begun;    /* of them, when the last piece began */
    const bool *
        indexing; /* by instruction: loops whose variable is an index of arrays of lanes; NULL: it matters nowhere */
    bool writes_out;     /* loops over arrays of lanes, whatever the kernel says: */
    const bool *written; /* by instruction, these; NULL: all */
    bool in_part;        /* of a kernel (emit_parts.c) */
    bool failed;
    AuIntrinsic intrinsics[AU_INTRINSICS];
    uint32_t intrinsic_count;
    uint32_t order[AU_MOST_ELEMENTS]; /* what emit_permute is to do: element n comes from order[n]
                                         of (a, b) */
    LLVMValueRef list[AU_MOST_ELEMENTS]; /* of the constant vector being made */
} AuEmit;

/* emit.c */
void emit_open(AuEmit *e, const AuHost *host, LLVMModuleRef module);
void emit_close(AuEmit *e);
void emit_kernel(AuEmit *e, const AuKernel *k);
void emit_host_attributes(AuEmit *e, const char *features); /* of the function */
void emit_attribute(AuEmit *e, unsigned at, const char *name,
                    const char *value); /* of the function; value NULL: no string */
void emit_fault(AuEmit *e, const AuInstr *in, const char *what);
LLVMBasicBlockRef emit_block(AuEmit *e, const char *name); /* appended, named after the phase */
/* Runs what is emitted between the two only if [condition]; no values come out. */
LLVMBasicBlockRef emit_when(AuEmit *e, LLVMValueRef condition);
void emit_when_end(AuEmit *e, LLVMBasicBlockRef after);

LLVMValueRef emit_argument(AuEmit *e, uint32_t index, LLVMTypeRef type);
void emit_instr(AuEmit *e, AuVal v);
void emit_region(AuEmit *e, uint32_t first);

/* emit_loops.c */
void emit_if(AuEmit *e, const AuInstr *in);
void emit_for(AuEmit *e, AuVal v, const AuInstr *in);
/* Whether the arrays of lanes can become registers at all, and the code that makes them such is bearable. */
bool emit_is_worth_writing(const AuEmit *e);

/* emit_parts.c: the call of a piece that is a function and begins with that instruction; gives its last one, 0: there is none. The function is
 * defined where this is its first kernel. */
uint32_t emit_part(AuEmit *e, uint32_t first);

/* emit_lines.c: of kernels that have sources; before the first is emitted, of each its function, of each instruction its place */
void emit_lines_open(AuEmit *e, AuKernel *const *kernels, uint32_t count);
void emit_lines_kernel(AuEmit *e);
void emit_lines_at(AuEmit *e, AuSpan span);

/* emit_value.c */
static inline AuLaneKind emit_kind(const AuEmit *e, AuVal v)
{
    return (AuLaneKind)e->lanes.kind[v.i];
}
LLVMTypeRef emit_type(const AuEmit *e, AuScalar scalar, uint32_t count); /* count 1: no vector */
LLVMValueRef emit_int(AuEmit *e, AuScalar scalar, int64_t value, uint32_t count);
LLVMValueRef emit_base(AuEmit *e, AuVal v);
LLVMValueRef emit_wide(AuEmit *e, AuVal v);
LLVMValueRef emit_index(AuEmit *e, AuVal v);
void emit_forget(AuEmit *e, uint32_t mark); /* the forms made since trail_count was [mark] */
LLVMValueRef emit_form(AuEmit *e, AuVal v, bool wide);
void emit_set(AuEmit *e, AuVal v, LLVMValueRef value, bool wide);
LLVMValueRef emit_splat(AuEmit *e, LLVMValueRef base, uint32_t width, uint32_t times);
LLVMValueRef emit_ramp(AuEmit *e, AuScalar scalar, uint32_t count,
                       int64_t step); /* 0, step, 2 step.. */
LLVMValueRef emit_permute(AuEmit *e, LLVMValueRef a, LLVMValueRef b,
                          uint32_t count); /* by e->order; b may be NULL */
/* first, first + step..; every element [width] times */
LLVMValueRef emit_pick(AuEmit *e, LLVMValueRef a, uint32_t first, int32_t step, uint32_t count);
LLVMValueRef emit_spread(AuEmit *e, LLVMValueRef a, uint32_t width, uint32_t count);
LLVMValueRef emit_at(AuEmit *e, LLVMValueRef vector, uint32_t n);
LLVMValueRef emit_put(AuEmit *e, LLVMValueRef vector, LLVMValueRef element, uint32_t n);
LLVMValueRef emit_any(AuEmit *e, LLVMValueRef mask); /* <n x i1> -> i1 */
LLVMValueRef emit_call(AuEmit *e, const char *intrinsic, LLVMTypeRef t0, LLVMTypeRef t1,
                       LLVMValueRef *arguments, uint32_t count);
static inline bool emit_is_vector(LLVMValueRef v)
{
    return LLVMGetTypeKind(LLVMTypeOf(v)) == LLVMVectorTypeKind;
}
static inline uint32_t emit_count(LLVMValueRef v)
{
    return emit_is_vector(v) ? LLVMGetVectorSize(LLVMTypeOf(v)) : 1;
}

/* emit_ops.c: the operations of ops.def on operands of one shape */
LLVMValueRef emit_op(AuEmit *e, const AuInstr *in, AuScalar of, const LLVMValueRef *operands);
LLVMValueRef emit_to_f32(AuEmit *e, AuScalar from, LLVMValueRef v);
LLVMValueRef emit_from_f32(AuEmit *e, AuScalar to, LLVMValueRef v);

/* emit_place.c */
void emit_places(AuEmit *e);
void emit_scopes(AuEmit *e); /* says which memories do not overlap */
LLVMValueRef emit_lane_array(AuEmit *e, const AuMemory *mem, bool vectors);
LLVMTypeRef emit_stored(const AuEmit *e, AuScalar scalar,
                        uint32_t count); /* in memory: i1 is a byte */
LLVMValueRef emit_step(AuEmit *e, LLVMTypeRef type, LLVMValueRef base, LLVMValueRef index);
void emit_prefetch(AuEmit *e, const AuInstr *in);
LLVMValueRef emit_address(AuEmit *e, AuMem mem, AuVal index); /* of a uniform index, or lane 0's */
/* <lanes * width x ptr>: of each lane [width] neighbours. */
LLVMValueRef emit_pointers(AuEmit *e, AuMem mem, AuVal index, uint32_t width);
LLVMValueRef emit_mark(AuEmit *e, LLVMValueRef access,
                       AuMem mem); /* says what it does not alias; gives access */

/* emit_memory.c */
void emit_load(AuEmit *e, AuVal v);
void emit_store(AuEmit *e, AuVal v);

LLVMValueRef emit_fetched(AuEmit *e, AuScalar scalar,
                          LLVMValueRef v); /* as a value; i1 is a byte in memory */
LLVMValueRef emit_storable(AuEmit *e, AuScalar scalar, LLVMValueRef v);

/* emit_atomic.c */
void emit_atomic_add(AuEmit *e, AuVal v);
void emit_atomic_inc(AuEmit *e, AuVal v);

/* emit_lanes.c */
void emit_vec(AuEmit *e, AuVal v);
void emit_element(AuEmit *e, AuVal v);
void emit_slice(AuEmit *e, AuVal v);
void emit_dot2(AuEmit *e, AuVal v);
void emit_shuffle(AuEmit *e, AuVal v);
void emit_both(AuEmit *e, AuVal v);

/* emit_matrix.c */
void emit_tiles_open(AuEmit *e);
void emit_tiles_close(AuEmit *e);
void emit_matmul(AuEmit *e, AuVal v);

#endif
