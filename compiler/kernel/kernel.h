/* kernel.h - the kernel IR: the code of one lane, structured, and the only input of the code
 * generators.
 *
 * A kernel runs on a grid of blocks; a block is [warps] executors of [lanes] lanes each. On a GPU a
 * lane is a thread; on a CPU there is one executor and a lane is an element of its vectors, so that
 * one lowering serves both. Control flow is structured and uniform: every lane of an executor takes
 * the same path (loop bounds and conditions of `if` are uniform values, which kernel_verify
 * proves); what single lanes must not do is said by the mask of a load or store.
 *
 * Values are in SSA form inside the tree of regions: a value may be used by later instructions of
 * its region and of regions inside it. What changes over a loop lives in memory of space LANE
 * (arrays of a lane; with constant indices they are registers). Values are uniform (the same in all
 * lanes), affine (uniform + lane * constant) or varying; kernel_lanes computes which, and
 * generators use it: a CPU loads a uniform address once and an affine one of stride 1 as a vector.
 *
 * Memory accesses name a memory and an index in elements. Barriers, fences and waits are explicit.
 * Specification and text form: docs/dev/kernel-ir.md. */
#ifndef AU_KERNEL_H
#define AU_KERNEL_H

#include "arena.h"
#include "diag.h"
#include "fragment.h"

typedef struct AuVal {
    uint32_t i; /* 0: none; else the instruction that makes it */
} AuVal;
typedef struct AuMem {
    uint32_t i; /* 0: none; else index into AuKernel.mems */
} AuMem;

typedef enum AuScalar {
    AU_VOID,
    AU_I1,
    AU_I32,
    AU_I64,
    AU_F32,
    AU_F16,
    AU_BF16,
    AU_U8,
    AU_SCALARS
} AuScalar;

/* Type of a value: a scalar, or a vector of [width] scalars held by each lane (1, 2, 4, 8, 16).
 * f16, bf16 and u8 are only loaded, stored, converted, put into vectors and multiplied by DOT2 and
 * matrix operations; arithmetic is f32, i32, i64, i1. */
typedef struct AuKType {
    uint8_t scalar, width;
} AuKType;
uint32_t kernel_scalar_bytes(AuScalar scalar); /* I1: 1 */

typedef enum AuSpace {
    AU_GLOBAL, /* a tensor or workspace; its base is an argument */
    AU_SHARED, /* of a block */
    AU_EXEC,   /* of an executor, seen by all of its lanes: the stack of a CPU core */
    AU_LANE,   /* of a lane: registers where indices are constant */
    AU_MATRIX, /* of an executor: matrices whose elements lie nobody knows how */
    AU_TENSOR  /* of a block: rows of tensor memory, reached a lane a row and by products */
} AuSpace;

typedef struct AuMemory {
    const char *name;
    AuSpace space;
    AuScalar scalar;
    uint32_t count;     /* elements (of a lane for AU_LANE); 0 for AU_GLOBAL */
    uint32_t align;     /* bytes, a power of two; 0: the element's */
    bool reads, writes; /* AU_GLOBAL: what the kernel does with it */
    bool
        earlier; /* AU_GLOBAL: a kernel launched before, of the same operation, that may still run writes it, or may read what this one writes */
    uint32_t arg;     /* AU_GLOBAL: the argument that is its base */
    uint32_t swizzle; /* AU_SHARED: 0, or 32, 64, 128: byte address a lies at a ^ (a >> 3 & swizzle
                         - 16); indices do not know it */
    uint32_t rows, columns; /* AU_MATRIX: of each of `count` matrices; AU_TENSOR: of a tile */
    uint32_t use;           /* ... AuMatrixOperand */
    AuSpan span;
} AuMemory;

/* Arguments: the parameter block is an array of 64-bit slots in this order; i32 and f32 in the low
 * half. */
typedef enum AuArgKind { AU_ARG_POINTER, AU_ARG_I32, AU_ARG_I64, AU_ARG_F32 } AuArgKind;
typedef struct AuArg {
    const char *name;
    AuArgKind kind;
    AuMem mem;       /* AU_ARG_POINTER */
    uint32_t source; /* what fills it at launch: an AuSlot of the artifact
                        (include/aule/artifact.h), packed; the IR only carries it */
    uint32_t source_index, source_dim;
} AuArg;

/* core.def: memory, lanes, order, structure; ops.def: functions of values. */
// clang-format off
typedef enum AuKOp {
    AU_K_NONE,
#define CORE(NAME, text, least, most, flags, what) AU_K_##NAME,
#include "core.def"
#undef CORE
#define OP(NAME, text, count, rule, flags, meaning, opencl) AU_K_##NAME,
#include "ops.def"
#undef OP
    AU_K_COUNT
} AuKOp;
// clang-format on

typedef enum AuUnroll { AU_UNROLL_AUTO, AU_UNROLL_FULL, AU_UNROLL_NEVER } AuUnroll;

typedef struct AuInstr {
    uint8_t op;    /* AuKOp */
    AuKType type;  /* of the value; VOID if none */
    uint8_t count; /* operands */
    uint8_t
        unroll; /* AU_K_FOR: AuUnroll, set by the lowering, obeyed by every generator that can */
    uint32_t first; /* of the operands in AuKernel.args_of */
    float number;
    int64_t imm;
    AuMem mem;
    AuMem also[2];        /* further memories of operations between memories (ALSO, FROM) */
    const char *text;     /* AU_K_NOTE; else a name for the value in dumps, or NULL */
    uint32_t body, other; /* regions: first instruction, 0: empty */
    uint32_t next;        /* in its region, 0: last */
    AuSpan span;          /* place in the script it comes from */
} AuInstr;

/* Launch expressions: postfix code over sizes and parameters, evaluated by the runtime
 * (include/aule/artifact.h). */
typedef struct AuLaunchExpr {
    const uint32_t *code;
    uint32_t length;
} AuLaunchExpr;

/* How the unit that copies boxes sees a tensor: `rank` dimensions, the first contiguous. */
enum { AU_MAP_RANK = 5 };
typedef struct AuMap {
    const char *name;
    AuMem mem;
    uint32_t rank, box[AU_MAP_RANK];
    uint32_t swizzle; /* of the shared memory: rows of the box are so many bytes */
    bool nan;         /* what is outside of the tensor is NaN in shared memory, not 0 */
    uint32_t cut; /* a dimension of which copies say where it ends; 0: none (kernel_coordinates) */
    AuLaunchExpr size[AU_MAP_RANK], stride[AU_MAP_RANK]; /* in elements; the first stride is 1 */
    AuSpan span;
} AuMap;

/* A piece of a region that hosts make a function, which kernels of equal text share (parts.c). */
typedef struct AuPart {
    uint32_t first, last;  /* instructions of one region */
    const char *name;      /* of the function: equal ones are equal code */
    bool is_first;         /* of all that have the name: it is defined with this kernel */
    AuVal *made;           /* instructions of the piece that stay before it */
    AuVal *values;         /* from outside: arguments by value */
    AuMem *memories, *own; /* arguments by address; those that nobody else sees */
    bool *copied; /* by memory of the arguments: registers of the kernel, copied in and out */
    bool plain;   /* code of the plainest machine that has such vectors */
    uint32_t made_count, value_count, memory_count, own_count;
} AuPart;
typedef struct AuPartTable AuPartTable;

typedef struct AuKernel {
    AuArena *arena;
    const char *name;
    uint32_t lanes, warps; /* lanes of an executor, executors of a block */
    uint32_t group;        /* executors that operations of a group take; 0: there are none */
    uint32_t
        written; /* instructions at most, once a device's generator has written out loops over arrays of lanes, so
                    that some become registers (kernel_written); 0: all loops, or none where that is too much */
    uint32_t
        paced; /* products at most that operands are read ahead for; 0: as the generator likes */
    uint32_t
        resident; /* blocks that a processor shall have registers for, whatever they cost; 0: not said */
    bool
        is_coarse; /* functions of a few ulp will do, though it has no products of 16-bit operands */
    AuInstr *instrs; /* [0] is unused */
    uint32_t instr_count, instr_capacity;
    AuVal *operands;
    uint32_t operand_count, operand_capacity;
    AuMemory *mems; /* [0] is unused */
    uint32_t mem_count, mem_capacity;
    AuArg *args;
    uint32_t arg_count, arg_capacity;
    AuMap *maps;
    uint32_t map_count, map_capacity;
    uint32_t body; /* first instruction */
    AuLaunchExpr grid[3];
    const char
        *banner; /* what it is: source, schedule, formula; printed at the head of generated code */
    struct AuBuildPoint {
        uint32_t owner, last;
        bool other;
    } stack[64]; /* of the builder: open regions */
    uint32_t depth;
    AuSpan at;   /* of what is emitted next without a span of its own */
    AuSpan span; /* of the attention */
    const AuSource
        *sources; /* of scripts; spans of other sources are of no use to who reads code */
    uint32_t source_count;
    const AuPart *parts; /* in the order of the text; kernel_find_parts */
    uint32_t part_count;
    bool misbuilt; /* regions not balanced or too deep: kernel_verify refuses the kernel */
} AuKernel;

/* ---- building. Folds constants; types are computed; a misuse is found by kernel_verify */
AuKernel *kernel_new(AuArena *arena, const char *name, uint32_t lanes, uint32_t warps);
AuMem kernel_memory(AuKernel *k, AuMemory memory);
/* A global memory and the pointer argument that is its base. */
AuMem kernel_tensor(AuKernel *k, const char *name, AuScalar scalar, bool reads, bool writes,
                    uint32_t source, uint32_t index);
AuVal kernel_arg(AuKernel *k, const char *name, AuArgKind kind, uint32_t source, uint32_t index,
                 uint32_t dim); /* the same twice: one argument */
AuVal kernel_i1(AuKernel *k, bool value);
AuVal kernel_i32(AuKernel *k, int32_t value);
AuVal kernel_i64(AuKernel *k, int64_t value);
AuVal kernel_f32(AuKernel *k, double value);
AuVal kernel_block(AuKernel *k, uint32_t dim);
AuVal kernel_blocks(AuKernel *k, uint32_t dim); /* of the grid */
AuVal kernel_warp(AuKernel *k);
AuVal kernel_lane(AuKernel *k);
AuVal kernel_op1(AuKernel *k, AuKOp op, AuVal a);
AuVal kernel_op2(AuKernel *k, AuKOp op, AuVal a, AuVal b);
AuVal kernel_op3(AuKernel *k, AuKOp op, AuVal a, AuVal b, AuVal c);
AuVal kernel_cvt(AuKernel *k, AuVal a, AuScalar to);
AuVal kernel_bitcast(AuKernel *k, AuVal a, AuScalar to);
AuVal kernel_load(AuKernel *k, AuMem mem, AuVal index, uint32_t width, AuVal mask,
                  AuVal other); /* mask and other may be none */
void kernel_store(AuKernel *k, AuMem mem, AuVal index, AuVal value, AuVal mask);
AuVal kernel_vec(AuKernel *k, const AuVal *elements, uint32_t width);
AuVal kernel_element(AuKernel *k, AuVal vector, uint32_t which);
AuVal kernel_both(AuKernel *k, AuVal words, uint32_t bit);
AuVal kernel_dot2(AuKernel *k, AuVal c, AuVal a, AuVal b);
enum { AU_MOST_DEPTH = 1024 }; /* of a MATMUL */
/* C[rows, vectors] (+)= A[rows, depth] B[depth, vectors]: core.def, MATMUL. */
typedef struct AuMatmul {
    AuMem c, a, b;
    AuVal c_at, a_at, b_at;
    int32_t rows, vectors, depth;
    int32_t c_stride, a_stride, b_stride; /* from row to row, elements of the memory */
    bool add;
} AuMatmul;
void kernel_matmul(AuKernel *k, const AuMatmul *x);
AuMatmul kernel_matmul_of(const AuKernel *k, const AuInstr *in);
/* Matrices whose elements lie nobody knows how: core.def, MATRIX_*. MAP: [x] and [y] are matrices. */
typedef struct AuOpaque {
    AuMem mem;
    AuVal at;
} AuOpaque;
void kernel_matrix_fill(AuKernel *k, AuOpaque to, AuVal value);
void kernel_matrix_move(AuKernel *k, AuKOp op, AuOpaque to, AuOpaque from, AuVal stride,
                        bool columns); /* LOAD, STORE */
void kernel_matrix_mul(AuKernel *k, AuOpaque c, AuOpaque a, AuOpaque b);
void kernel_matrix_map(AuKernel *k, AuKOp op, AuOpaque to, AuOpaque x, AuOpaque y);
void kernel_matrix_scale(AuKernel *k, AuOpaque to, AuOpaque x, AuVal factor);
void kernel_matrix_cvt(AuKernel *k, AuOpaque to, AuOpaque x);
void kernel_matrix_reduce(AuKernel *k, AuKOp op, AuOpaque to, AuOpaque x, bool columns);
AuVal kernel_matrix_any(AuKernel *k, AuOpaque x);
void kernel_matrix_each(AuKernel *k, AuOpaque of); /* opens a region */
AuVal kernel_matrix_place(AuKernel *k, AuKOp op);  /* MATRIX_ROW, MATRIX_COLUMN */
AuVal kernel_matrix_get(AuKernel *k, AuOpaque x);
void kernel_matrix_put(AuKernel *k, AuVal value);
/* Is there an instruction for executors of so many lanes with such operands? Extents and types that
 * are 0 (AU_VOID) may be any. */
typedef struct AuMatrixShape {
    uint32_t lanes, m, n, k;
    AuScalar operands;
} AuMatrixShape;
bool kernel_has_matrix(AuMatrixShape shape);
/* Are matrices of executors of so many lanes held by a block? Then it has one executor. */
bool kernel_has_matrices_of_block(const AuKernel *k);
AuVal kernel_slice(AuKernel *k, AuVal vector, uint32_t first, uint32_t width);

/* Rows of MATRIX in atoms.def. */
typedef enum AuMatrix {
#define MATRIX(NAME, text, atom, elem, form) AU_MATRIX_##NAME,
#include "atoms.def"
    AU_MATRICES
} AuMatrix;
typedef enum AuMatrixOperand { AU_MATRIX_A, AU_MATRIX_B, AU_MATRIX_C } AuMatrixOperand;
typedef struct AuMatrixOp {
    const char *text;
    const AuTileAtom *atom; /* its extents m, n, k and lanes */
    AuKType types[3];       /* of a lane's part of A, B, C */
    AuFragment at[3];       /* which element of the matrix is which of a lane's part */
} AuMatrixOp;
AuMatrixOp kernel_matrix(AuMatrix which); /* which < kernel_matrix_count() */
uint32_t kernel_matrix_count(void);
int32_t kernel_matrix_named(const char *text); /* -1: none */
AuVal kernel_mma(AuKernel *k, AuMatrix row, AuVal c, AuVal a, AuVal b);
/* Rows of GROUP_MATRIX in atoms.def. */
typedef enum AuGroupMatrix {
#define GROUP_MATRIX(NAME, text, atom, elem, form) AU_GROUP_##NAME,
#include "atoms.def"
    AU_GROUP_MATRICES
} AuGroupMatrix;
typedef struct AuGroupOp {
    const char *text;
    const AuTileAtom *atom;
    AuScalar scalar;         /* of A and B */
    bool a_turned, b_turned; /* stored across the contracted axis: A by columns, B by rows */
    AuFragment a;            /* of A in lanes; of C: machine_group_fragment */
} AuGroupOp;
AuGroupOp kernel_group_matrix(AuGroupMatrix which);
/* C[m, columns] (+)= A B by a group: core.def, WGMMA. */
typedef struct AuGroupProduct {
    AuMem c, a, b;
    AuVal c_at, a_at, b_at, add;
    int32_t columns, a_stride, b_stride;
} AuGroupProduct;
void kernel_wgmma(AuKernel *k, AuGroupMatrix row, const AuGroupProduct *x);
void kernel_wgmma_fence(AuKernel *k);
void kernel_wgmma_commit(AuKernel *k);
/* All but the latest so many groups are done; whose registers, up to three. */
void kernel_wgmma_wait(AuKernel *k, const AuMem *mems, uint32_t count, uint32_t groups);
/* Tensor memory: core.def, TENSOR_ALLOC to TENSOR_COMMIT. */
enum { AU_TENSOR_ROWS = 128, AU_TENSOR_COLUMNS = 512 };
uint32_t kernel_tensor_columns(const AuKernel *k); /* that its memories take, of 32 bits */
void kernel_tensor_load(AuKernel *k, AuMem lanes, uint32_t reg, AuMem from, AuVal at,
                        uint32_t count);
void kernel_tensor_store(AuKernel *k, AuMem to, AuVal at, AuMem lanes, uint32_t reg,
                         uint32_t count);
void kernel_tensor_wait(AuKernel *k, AuMem loaded); /* none: for stores */
void kernel_tensor_mul(AuKernel *k, AuGroupMatrix row, const AuGroupProduct *x, AuVal mask);
void kernel_tensor_commit(AuKernel *k, AuMem mem, AuVal index, AuVal mask);
void kernel_tensor_take(AuKernel *k, AuKOp op, uint32_t columns); /* TENSOR_ALLOC, TENSOR_FREE */
enum { AU_LOAD_MATRIX_LANES = 32 }; /* of the executors that have it */
/* core.def, LOAD_MATRIX: each lane gets [count] times 4 bytes, as one vector. */
AuVal kernel_load_matrix(AuKernel *k, AuMem mem, AuVal index, uint32_t count, bool transposed);
/* The same operation by pieces: [n] 16-bit elements, 4 or 8, that each lane names and 64 / n lanes turn. */
AuVal kernel_load_turned(AuKernel *k, AuMem mem, AuVal index, uint32_t n);
enum { AU_TURNED_ELEMENTS = 64 };                 /* of the lanes that turn them, together */
static inline uint32_t kernel_turned(int64_t imm) /* n of LOAD_MATRIX; 0: it is by rows */
{
    return imm == 16 + 4 || imm == 16 + 8 ? (uint32_t)imm - 16 : 0;
}
void kernel_store_matrix(AuKernel *k, AuMem mem, AuVal index, AuVal value, bool transposed);
/* core.def, BLOCK_LOAD: what blocks are cut out of, all but the first i32. */
typedef struct AuSurface {
    AuMem mem;
    AuVal first, columns, rows, pitch; /* pitch: i32, where elements are gathered i64 */
    AuVal step;                        /* then: from column to column, i64; else none */
} AuSurface;
enum {
    AU_BLOCK_LANES =
        16, /* of the executors that have it; columns, or with `across` rows, of a block */
    AU_BLOCK_COLUMNS = 32,  /* of one that BLOCK_AHEAD names */
    AU_BLOCK_ALIGN = 64,    /* bytes: a surface begins at a multiple, and is no narrower */
    AU_BLOCK_PITCH = 16,    /* and its rows are multiples of so many bytes apart */
    AU_BLOCK_MOST = 1 << 24 /* bytes of a row, and rows */
};
enum {
    AU_TENSOR_ALIGN = 16,    /* bytes: of MATRIX_BLOCK_LOAD, where a surface begins */
    AU_TENSOR_MOST = 1 << 30 /* elements, its rows times its pitch: units count in 32 bits */
};
/* [width] elements a lane; [across]: of a row, else of a column. With a step: BLOCK_GATHER. */
AuVal kernel_block_load(AuKernel *k, const AuSurface *of, AuVal column, AuVal row, uint32_t width,
                        bool across);
/* A matrix whose elements lie nobody knows how; [columns]: of the matrix are rows of the surface. With a step: MATRIX_BLOCK_GATHER. */
void kernel_matrix_block(AuKernel *k, AuOpaque to, const AuSurface *of, AuVal column, AuVal row,
                         bool columns);
void kernel_block_ahead(AuKernel *k, const AuSurface *of, AuVal column, AuVal row, uint32_t rows);
void kernel_copy_async(AuKernel *k, AuMem to, AuVal to_at, AuMem from, AuVal from_at,
                       AuVal bytes_valid, uint32_t bytes, AuVal mask); /* mask may be none */
/* COPY_ASYNC of machines that take one place for all lanes, which write side by side: [to_at] is lane 0's. */
enum { KERNEL_DIRECT = 32 };
void kernel_copy_direct(AuKernel *k, AuMem to, AuVal to_at, AuMem from, AuVal from_at,
                        uint32_t bytes, AuVal mask);
static inline bool kernel_is_direct(int64_t imm) { return imm >= KERNEL_DIRECT; }
static inline uint32_t kernel_copied(int64_t imm) /* bytes of a lane */
{
    return (uint32_t)(imm & (KERNEL_DIRECT - 1));
}
void kernel_copy_commit(AuKernel *k);
void kernel_prefetch(AuKernel *k, AuMem mem, AuVal index);
/* What `hint` may say. */
enum {
    KERNEL_HINT_IN_TURN, /* this executor as others */
    KERNEL_HINT_FIRST,   /* before others */
    KERNEL_HINT_BORDER,  /* what stands before is begun before what stands behind */
    KERNEL_HINTS
};
void kernel_hint(AuKernel *k, uint32_t what);
void kernel_copy_wait(AuKernel *k, uint32_t groups); /* but the latest so many */
AuVal kernel_emit(AuKernel *k, AuInstr instr, const AuVal *operands,
                  uint32_t count); /* any other */
void kernel_barrier(AuKernel *k, uint32_t scope);
void kernel_note(AuKernel *k, const char *text);
/* Executors that go different ways (build_async.c; core.def). Masks may be none. */
AuVal kernel_elect(AuKernel *k);
void kernel_sync(AuKernel *k, AuVal barrier, uint32_t lanes);
void kernel_arrive(AuKernel *k, AuVal barrier, uint32_t lanes);
void kernel_mbar_init(AuKernel *k, AuMem mem, AuVal index, uint32_t count, AuVal mask);
void kernel_mbar_arrive(AuKernel *k, AuMem mem, AuVal index, AuVal mask);
void kernel_mbar_expect(AuKernel *k, AuMem mem, AuVal index, AuVal bytes, AuVal mask);
void kernel_mbar_wait(AuKernel *k, AuMem mem, AuVal index, AuVal phase);
void kernel_fence(AuKernel *k, AuKOp fence); /* FENCE_INIT, FENCE_PROXY, TENSOR_FENCE */
void kernel_registers(AuKernel *k, uint32_t count);
uint32_t kernel_map(AuKernel *k, AuMap map); /* gives its number; a name is made unique */
/* How many numbers a copy by the map has. One more than dimensions where one of them, of size R, is cut: coordinates c and, the last, e mean row
 * c + e - R, which is outside where c is not below R. So a box whose first row is r ends at row e <= R for c = R - e + r. */
uint32_t kernel_coordinates(const AuMap *map);
/* Copies by one lane, which [mask] says. Of boxes: the map's rank of coordinates. */
typedef struct AuCopyEnds {
    AuMem shared, global;
    AuVal shared_at, at[AU_MAP_RANK]; /* rows of bytes: at[0], an index */
} AuCopyEnds;
void kernel_box_load(AuKernel *k, uint32_t map, const AuCopyEnds *ends, AuMem barrier,
                     AuVal barrier_at, AuVal mask);
void kernel_box_store(AuKernel *k, AuKOp op, uint32_t map, const AuCopyEnds *ends, AuVal mask);
void kernel_bulk_load(AuKernel *k, const AuCopyEnds *ends, AuMem barrier, AuVal barrier_at,
                      AuVal bytes, AuVal mask);
void kernel_bulk_store(AuKernel *k, AuKOp op, const AuCopyEnds *ends, AuVal bytes, AuVal mask);
void kernel_bulk_commit(AuKernel *k);
void kernel_bulk_wait(AuKernel *k, uint32_t groups, bool only_read);
AuVal kernel_for(AuKernel *k, AuVal low, AuVal high, int32_t step,
                 AuUnroll unroll); /* opens a region; gives the variable */
void kernel_if(AuKernel *k, AuVal condition);
void kernel_else(AuKernel *k);
void kernel_end(AuKernel *k); /* of for, if */
static inline const AuInstr *kernel_at(const AuKernel *k, AuVal v) { return &k->instrs[v.i]; }
static inline AuVal kernel_operand(const AuKernel *k, const AuInstr *in, uint32_t n)
{
    return k->operands[in->first + n];
}

typedef enum AuKRule {
    AU_R_CORE,
    AU_R_SAME,
    AU_R_FLOAT,
    AU_R_INT,
    AU_R_LOGIC,
    AU_R_CMP,
    AU_R_SELECT,
    AU_R_CVT,
    AU_R_DECODE,
    AU_R_ENCODE
} AuKRule;
enum { /* flags: ops.def, core.def */
       AU_KF_COMM = 1,
       AU_KF_MATH = 2,
       AU_KF_RESULT = 4,
       AU_KF_IMM = 8,
       AU_KF_MEM = 16,
       AU_KF_TEXT = 32,
       AU_KF_REGION = 64,
       AU_KF_READ = 128,
       AU_KF_WRITE = 256,
       AU_KF_ORDER = 512,
       AU_KF_LANES = 1024,
       AU_KF_ALSO = 2048,
       AU_KF_FROM = 4096,
       AU_KF_NAMES = 8192,
       AU_KF_COORDS = 16384,
       AU_KF_GROUP = 32768,
       AU_KF_AGENTS = 65536,
       AU_KF_OPAQUE = 131072,
       AU_KF_CODE = 262144,
       AU_KF_PLACE = 524288
};
typedef struct AuKOpInfo {
    const char *text;
    uint8_t count, most; /* operands: at least, at most */
    uint8_t rule;        /* AuKRule; AU_R_CORE for the rows of core.def */
    uint32_t flags;
    const char *opencl; /* NULL: the printer has code of its own */
} AuKOpInfo;
const AuKOpInfo *kernel_op_info(AuKOp op);
/* How many memories an operation names beside `mem`. */
static inline uint32_t kernel_further(const AuKOpInfo *info)
{
    return info->flags & AU_KF_ALSO ? 2 : info->flags & AU_KF_FROM ? 1 : 0;
}
const char *kernel_scalar_name(AuScalar scalar);
/* Computes one operation of ops.def on scalars given and returned as bits (i1 0 or 1; f32, f16,
 * bf16 their encoding; i32 sign-extended or not, the low half counts). [of] is the operands' type
 * (of a SELECT: of b and c), [to] the result's. */
uint64_t kernel_evaluate(AuKOp op, AuScalar of, AuScalar to, uint64_t a, uint64_t b, uint64_t c);
float kernel_from_f16(uint16_t bits);
float kernel_from_bf16(uint16_t bits);
uint16_t kernel_to_f16(float value); /* to nearest even; NaN stays NaN */
uint16_t kernel_to_bf16(float value);

/* ---- text */
void kernel_print(const AuKernel *k, AuText *out);
AuKernel *kernel_read(AuArena *arena, AuNames *names, AuDiags *diags, uint32_t source);

/* ---- checks and analyses */
bool kernel_verify(const AuKernel *k, AuDiags *diags);
/* Of a verified kernel: products of groups go on beside each other, which asks for more than right results: verify_flight.c. A
 * processor has so many registers. */
bool kernel_verify_products(const AuKernel *k, uint32_t processor_registers, AuDiags *diags);

typedef enum AuLaneKind { AU_UNIFORM, AU_AFFINE, AU_VARYING } AuLaneKind;
typedef struct AuLanes {
    uint8_t *kind;   /* per value: AuLaneKind */
    int64_t *stride; /* per value, AU_AFFINE: what one lane adds */
    bool *same; /* per memory: AU_LANE, and all lanes of an executor always hold the same in it */
} AuLanes;
/* Index arithmetic of affine values is taken not to wrap around. */
AuLanes kernel_lanes(const AuKernel *k, AuArena *arena);
/* kernel_lanes over more: a value is uniform where all executors of a block, or of a group, have it. */
typedef enum AuLaneScope { AU_OF_EXECUTOR, AU_OF_BLOCK, AU_OF_GROUP } AuLaneScope;
AuLanes kernel_lanes_of(const AuKernel *k, AuArena *arena, AuLaneScope scope);

/* Has a region, or one inside of it, a barrier of the block or of an executor? */
bool kernel_has_barrier(const AuKernel *k, uint32_t first);
/* Is there a tensor that it both reads and writes? Else barriers need to order memory of the block alone. */
bool kernel_shares_tensors(const AuKernel *k);

/* How many bytes the memories of a block (SHARED, and EXEC for each executor) take, one behind the
 * other in their order, aligned for vectors of 16 bytes and for their swizzles. [offsets], one a
 * memory, gets where each begins; NULL: not wanted. */
uint32_t kernel_shared_bytes(const AuKernel *k, uint32_t *offsets);

/* ---- passes */
void kernel_simplify(AuKernel *k); /* folding, algebra on integers, common subexpressions by scope,
                                      code that is not used; hoists invariants out of loops */
/* The same, and integers' constants go to the end of sums: ((x + c) d + y) is (x d + y) + c d. For printed code, whose indices else are a variable
 * each: what is left of a tile's indices is a sum that they share. */
void kernel_gather_offsets(AuKernel *k);
/* Writes out loops marked AU_UNROLL_FULL whose bounds are constants, each into at most [most]
 * instructions. */
void kernel_unroll(AuKernel *k, uint32_t most);
enum {
    KERNEL_LANE_WORDS = 256, /* that arrays of a lane have as registers: as many as there are */
    /* where another compiler follows, which moves loads to where rows are used */
    KERNEL_SOURCE_WORDS = 512,
};
/* By instruction, the loops by whose variables arrays of a lane are indexed. */
bool *kernel_indexing(const AuKernel *k, AuArena *arena);
/* By instruction, the loops that a device's generator writes out within k->written instructions, as long as arrays have at most
 * so many words; NULL: written is 0. */
bool *kernel_written(const AuKernel *k, AuArena *arena, uint32_t most_words);
/* Of a region where these loops are written out. */
uint64_t kernel_written_size(const AuKernel *k, uint32_t first, const bool *loops);
/* Bytes, a power of two up to 16, of which an element's place is certainly a multiple (alignment.c). [known]: does a generator
 * know the value as a number? NULL: constants of the kernel alone. */
typedef bool AuNumberOf(const void *user, AuVal v, int64_t *value);
uint32_t kernel_alignment(const AuKernel *k, AuMem mem, AuVal index, AuNumberOf *known,
                          const void *user);
/* Which pieces of a kernel of a host are functions; the table is of all kernels that are linked together. Names and hosts begin with [prefix], or, of
 * those that are the same for a plainer machine with such vectors, with that one's. [any]: however little they do. */
AuPartTable *kernel_part_table(AuArena *arena);
void kernel_find_parts(AuKernel *k, AuPartTable *table, const char *prefix,
                       const char *plain_prefix, bool any);
/* Turns of a loop with constant bounds; 0: others. */
uint64_t kernel_turns(const AuKernel *k, const AuInstr *in);
/* Instructions of a kernel that are compiled in reasonable time; long scripts take a quarter of them. */
enum { KERNEL_MOST = 200000 };
/* Expands the MATH ops that are not [native] into arithmetic, accurate to the bounds in
 * docs/dev/kernel-ir.md 7. Stops where a kernel has more than KERNEL_MOST instructions. */
void kernel_legalize_math(AuKernel *k, bool (*native)(AuKOp op));
/* tanh, sigmoid and divisions by constants become powers of two and products, within 8 ulp (sigmoid 8 + 2 |x|): for kernels whose products are of 16-bit
 * operands (MATRIX_MUL). */
void kernel_coarsen_math(AuKernel *k);
bool kernel_multiplies_halves(const AuKernel *k);
/* Expands the CODE ops into arithmetic, exactly; but for those of types that are in [from] and, of those that make codes, in [to]
 * (AuTileCaps.converts, decodes). */
void kernel_legalize_codes(AuKernel *k, uint32_t from, uint32_t to);
bool kernel_has_codes(const AuKernel *k); /* any that are left */

#endif
