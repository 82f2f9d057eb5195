/* emit.h - kernels as SPIR-V: what the files of the emitter share.
 * In:  verified kernels. Out: one module with an entry point for each.
 * Method: one walk in the order of the IR. A value is as many ids as it has elements: vectors are taken apart, since lanes of GPUs
 *     compute with scalars; loads and stores of neighbours stay together. Regions become structured control flow, arrays of a lane
 *     variables of the function: one an element where all indices are constant.
 * Not: optimisation (every driver has it), what devices have (spirv.c). */
#ifndef AU_CODEGEN_SPIRV_EMIT_H
#define AU_CODEGEN_SPIRV_EMIT_H

#include "flavour.h"

/* Where a memory of the kernel is. */
typedef struct SpvPlace {
    bool used, split,
        atomic;    /* split: a LANE array, or matrices, of which all indices are constant */
    SpvId base;    /* GLOBAL: its address, or a pointer to its first element; else the array */
    SpvId first;   /* EXEC: index of the executor's part; 0: there is one */
    SpvId element; /* type of an element there, and of a pointer to one */
    SpvId pointer;
    bool in_struct; /* SHARED, EXEC: the array is a member of a block */
    SpvId wide;     /* the same place as vectors of four words; 0: there is none */
    uint32_t unit;  /* SHARED: all of it is words, as vectors of so many; 0: elements */
    bool in_words;  /* vectors are stored there as words */
    int32_t *
        partner; /* split, of 16 bits: of the low half of a word the high one's index + 1, of a high one -(low) - 1; NULL: no pairs */
    SpvId *elements; /* split: variables, 0 until first touched */
} SpvPlace;

/* Of the function of a kernel. */
typedef struct SpvParameter {
    SpvId type, id;
} SpvParameter;

/* An element of 16 bits that is half of a word, and where that was loaded. */
typedef struct SpvHalf {
    SpvId word, from, block; /* word 0: it is none */
    uint32_t stores;
    bool high;
} SpvHalf;

/* A function of an element while it is being written (matrix.c). What it takes of the kernel are parameters. */
typedef struct SpvTaken {
    SpvId outside, inside, type; /* outside 0: the element of this matrix */
    AuMem mem;
    AuVal at;
} SpvTaken;
typedef struct SpvElement {
    SpvId last;           /* ids up to here are the kernel's, or of the whole module */
    SpvId row, column, x; /* parameters; x: the element of the first matrix */
    SpvId
        component; /* where components are reached one by one: the number of this one; 0: a function it is */
    AuMem mem; /* that one, none: it is nobody's */
    AuVal at;
    bool puts;
    SpvTaken *taken;
    uint32_t count, capacity;
} SpvElement;

typedef struct SpvEmit {
    SpvModule *m;
    const SpvFlavour *flavour;
    AuDiags *diags;
    const AuKernel *k;
    bool good;
    SpvHalf *halves; /* of each */
    uint32_t stores; /* into pairs, so far; of them the last of a whole word */
    SpvHalf last;
    SpvId **words;  /* of vectors that came as words, two elements in each; NULL: no such */
    SpvId **values; /* of each instruction: an id an element; NULL: none yet */
    SpvPlace *mems;
    SpvId *args, *interface;
    uint32_t interface_count, interface_capacity;
    SpvId block[3], blocks[3], lane, warp; /* 0: not used */
    SpvParameter *parameters;              /* of the function, where arguments come so */
    uint32_t parameter_count;
    SpvId slots;    /* the parameter block; 0: it has no slots */
    bool loops;     /* there are some */
    bool subgroups; /* its executors are subgroups: lanes exchange values, or there are matrices */
    bool of_block;  /* its one executor is the work-group, which holds matrices together */
    uint32_t math;  /* instructions from here on are of expanded functions: fma rounds once */
    AuLanes executors;        /* which values differ between the executors of a block */
    SpvElement *element;      /* NULL: what is written is the kernel */
    SpvId loaded[SPV_BLOCKS]; /* variables that loads of blocks write (blocks.c) */
    uint32_t parted;          /* depth of control flow that executors may take differently */
} SpvEmit;

/* false: something cannot be said; every such place is in diags. Kernels lose their functions of values to arithmetic. */
bool spirv_kernels(AuArena *arena, AuDiags *diags, const SpvFlavour *flavour,
                   AuKernel *const *kernels, uint32_t count, SpvWords *out);

/* ---- emit.c */
SpvId spirv_value(SpvEmit *e, AuVal v, uint32_t element);
void spirv_set(SpvEmit *e, AuVal v, uint32_t element, SpvId id);
/* A value of the kernel where a function of an element may be written: there a parameter. */
SpvId spirv_seen(SpvEmit *e, SpvId id, SpvId type);
void spirv_region(SpvEmit *e, uint32_t first);
void spirv_append(SpvModule *m, SpvSection to, const SpvWords *words);
static inline SpvId spirv_operand(SpvEmit *e, const AuInstr *in, uint32_t n, uint32_t element)
{
    return spirv_value(e, kernel_operand(e->k, in, n), element);
}
/* Reports that the flavour has not this operation. */
void spirv_lacks(SpvEmit *e, const AuInstr *in);

/* ---- functions.c */
enum { SPV_PARAMETERS = 10 };
typedef struct SpvSignature {
    SpvId result;
    const SpvId *parameters; /* types */
    uint32_t count;          /* at most SPV_PARAMETERS */
} SpvSignature;
/* One that is being written: what is made meanwhile is of its body. */
typedef struct SpvOwnFunction {
    SpvId id, given[SPV_PARAMETERS];
    SpvWords head;
    SpvFunction own, *outside;
} SpvOwnFunction;
/* Declares one of the device's compiler, which knows it as [linked]. */
SpvId spirv_known_function(SpvModule *m, const char *name, const char *linked,
                           const SpvSignature *signature);
void spirv_begin_function(SpvModule *m, SpvOwnFunction *f, const char *name,
                          const SpvSignature *signature);
SpvId spirv_end_function(SpvModule *m, SpvOwnFunction *f, SpvId result);

/* ---- lines.c: what is written next is of that place in the script; where nobody asked for lines, nothing happens */
void spirv_open_lines(SpvModule *m, const AuKernel *k);
void spirv_line(SpvEmit *e, AuSpan span);

/* ---- entry.c */
/* What the kernel uses: its memories, arguments and places in the grid, made at its head. */
void spirv_open(SpvEmit *e);
SpvId spirv_builtin(SpvEmit *e, uint32_t which, SpvId type, const char *name);
/* A variable outside of functions, which the entry point names where it must. */
SpvId spirv_global(SpvEmit *e, uint32_t storage, SpvId type, const char *name);
void spirv_names_variable(SpvEmit *e, SpvId id); /* in the entry point */
/* Lane and executor from the number of the work-item in its block. */
void spirv_lanes(SpvEmit *e, SpvId all);
/* Asks for one of two capabilities where numbers have 16 or 8 bits. */
void spirv_narrow(SpvModule *m, AuScalar scalar, uint32_t bits16, uint32_t bits8);
/* The capability that elements of this type ask for. */
void spirv_storage(SpvModule *m, const AuMemory *memory);

/* ---- entry_shader.c, entry_kernel.c: how a flavour's kernels begin and end (flavour.h) */
void spirv_shader_open(SpvEmit *e, const SpvUses *uses);
/* On devices that end loops early, a word behind the slots says so. */
void spirv_shader_close(SpvEmit *e);
void spirv_kernel_open(SpvEmit *e, const SpvUses *uses);

/* ---- value.c */
void spirv_operation(SpvEmit *e, AuVal v);
SpvId spirv_convert(SpvModule *m, AuScalar of, AuScalar to, SpvId a);
/* An operation on floats that must not be contracted. */
SpvId spirv_exactly(SpvModule *m, uint32_t op, SpvId a, SpvId b);

/* ---- matrix.c: what the lanes of a subgroup do together; [flavour->subgroups] */
void spirv_exchange(SpvEmit *e, AuVal v);
SpvId spirv_from_first(SpvEmit *e, SpvId v); /* the word of lane 0 */
void spirv_matrix(SpvEmit *e, const AuInstr *in);
/* ---- dpas.c: products of Intel's matrix units; [flavour->products] */
void spirv_product(SpvEmit *e, AuVal v);
/* ---- blocks.c: blocks of matrices in global memory; [flavour->blocks] */
void spirv_block_load(SpvEmit *e, AuVal v);
void spirv_block_ahead(SpvEmit *e, const AuInstr *in);
/* ---- surface.c: matrices straight from tensors; [flavour->by_place] */
void spirv_surface(SpvEmit *e, const AuInstr *in);
/* ---- element.c: functions of an element of a matrix; [flavour->by_place] */
void spirv_each(SpvEmit *e, const AuInstr *in);
void spirv_place(SpvEmit *e, AuVal v); /* what stands in one and is about the element */
void spirv_any(SpvEmit *e, AuVal v);
SpvId spirv_reduced(SpvEmit *e, const AuInstr *in, SpvId x);
SpvId spirv_extreme(SpvModule *m, AuKOp op, AuScalar of, SpvId a, SpvId b); /* value.c */
/* The variable's matrix; a matrix into it. */
SpvId spirv_matrix_variable(SpvEmit *e, AuMem mem, AuVal index);
SpvId spirv_get_matrix(SpvEmit *e, AuMem mem, AuVal index);
SpvId spirv_zero_matrix(SpvEmit *e, AuMem mem);
void spirv_set_matrix(SpvEmit *e, AuMem mem, AuVal index, SpvId matrix);

/* ---- memory.c */
/* A pointer to the element at the index, and the Memory Operands of an access there, so many words. */
uint32_t spirv_element(SpvEmit *e, AuMem mem, AuVal index, SpvId *at, uint32_t operands[2]);
void spirv_load(SpvEmit *e, AuVal v);
void spirv_store(SpvEmit *e, const AuInstr *in);
void spirv_atomic(SpvEmit *e, AuVal v);
void spirv_barrier(SpvEmit *e, const AuInstr *in);
void spirv_meet(SpvEmit *e); /* a barrier of the block */
SpvId spirv_far_address(SpvEmit *e, AuMem mem, AuVal index, uint64_t ahead); /* elements */
SpvId spirv_open_mask(SpvEmit *e, SpvId mask, SpvId *before);
void spirv_close_mask(SpvEmit *e, SpvId end);

/* ---- wide.c: vectors as words */
bool spirv_wide_load(SpvEmit *e, AuVal v); /* false: it goes by elements */
bool spirv_wide_store(SpvEmit *e, const AuInstr *in);
/* Of a memory of units: whether an access of [width] elements, or a matrix of rows so far apart, moves by these; by how many words at most. */
uint32_t spirv_unit(const SpvEmit *e, AuMem mem, AuVal index, int64_t width);
/* Type of a unit; a pointer to that at the index. */
SpvId spirv_unit_type(SpvModule *m, uint32_t unit);
SpvId spirv_unit_at(SpvEmit *e, AuMem mem, AuVal index);
/* An element by itself, whose index is [at]; its bits are in a word. */
SpvId spirv_unit_get(SpvEmit *e, AuMem mem, SpvId at);
void spirv_unit_put(SpvEmit *e, AuMem mem, SpvId at, SpvId bits);
SpvId spirv_unpacked(SpvEmit *e, AuVal v, uint32_t element);
/* ---- halves.c: elements in pairs */
void spirv_find_pairs(SpvEmit *e, AuMem mem);
bool spirv_load_half(SpvEmit *e, AuVal v); /* false: the memory has no pairs */
bool spirv_store_half(SpvEmit *e, const AuInstr *in);
bool spirv_keeps_half(SpvEmit *e, AuVal v); /* ELEMENT, VEC: nothing is to be computed */
SpvId spirv_of_half(SpvEmit *e, AuVal v);
/* Bytes to which an access is known to be aligned, of vectors and beyond; [flavour->wide], else an element's. */
uint32_t spirv_alignment(const SpvEmit *e, AuMem mem, AuVal index);

/* ---- helpers.c */
typedef enum SpvHelper {
    SPV_FLOOR_DIV,
    SPV_FLOOR_MOD,
    SPV_FLOOR_DIV_LONG,
    SPV_FLOOR_MOD_LONG,
    SPV_TO_I32,
    SPV_TO_I64,
    SPV_FROM_F16,
    SPV_TO_F16,
    SPV_TO_BF16,
    SPV_FMA_ONCE,
    SPV_SUM,
    SPV_MAX,
    SPV_MAXNAN,
    SPV_HELPER_COUNT
} SpvHelper;
SpvId spirv_helper(SpvModule *m,
                   SpvHelper which); /* the function, made where it is not there yet */
/* A call of it. */
SpvId spirv_help(SpvModule *m, SpvHelper which, const SpvId *operands);
/* The number by which the loader says that the device's Fma rounds once. */
enum { SPV_FUSED = 0 };
/* And that it may end loops early (docs/artifact.md). */
enum { SPV_CUTS_LOOPS = 1 };

#endif
