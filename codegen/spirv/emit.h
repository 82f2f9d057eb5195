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
    SpvId *elements; /* split: variables, 0 until first touched */
} SpvPlace;

/* Of the function of a kernel. */
typedef struct SpvParameter {
    SpvId type, id;
} SpvParameter;

typedef struct SpvEmit {
    SpvModule *m;
    const SpvFlavour *flavour;
    AuDiags *diags;
    const AuKernel *k;
    bool good;
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
    uint32_t math;  /* instructions from here on are of expanded functions: fma rounds once */
    AuLanes executors; /* which values differ between the executors of a block */
    uint32_t parted;   /* depth of control flow that executors may take differently */
} SpvEmit;

/* false: something cannot be said; every such place is in diags. Kernels lose their functions of values to arithmetic. */
bool spirv_kernels(AuArena *arena, AuDiags *diags, const SpvFlavour *flavour,
                   AuKernel *const *kernels, uint32_t count, SpvWords *out);

/* ---- emit.c */
SpvId spirv_value(SpvEmit *e, AuVal v, uint32_t element);
void spirv_set(SpvEmit *e, AuVal v, uint32_t element, SpvId id);
static inline SpvId spirv_operand(SpvEmit *e, const AuInstr *in, uint32_t n, uint32_t element)
{
    return spirv_value(e, kernel_operand(e->k, in, n), element);
}
/* Reports that the flavour has not this operation. */
void spirv_lacks(SpvEmit *e, const AuInstr *in);

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
void spirv_matrix(SpvEmit *e, const AuInstr *in);

/* ---- memory.c */
/* A pointer to the element at the index, and the Memory Operands of an access there, so many words. */
uint32_t spirv_element(SpvEmit *e, AuMem mem, AuVal index, SpvId *at, uint32_t operands[2]);
void spirv_load(SpvEmit *e, AuVal v);
void spirv_store(SpvEmit *e, const AuInstr *in);
void spirv_atomic(SpvEmit *e, AuVal v);
void spirv_barrier(SpvEmit *e, const AuInstr *in);
void spirv_meet(SpvEmit *e); /* a barrier of the block */

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
    SPV_HELPER_COUNT
} SpvHelper;
/* A call of the function, which is made where it is not there yet. */
SpvId spirv_help(SpvModule *m, SpvHelper which, const SpvId *operands);
/* The number by which the loader says that the device's Fma rounds once. */
enum { SPV_FUSED = 0 };
/* And that it may end loops early (docs/artifact.md). */
enum { SPV_CUTS_LOOPS = 1 };

#endif
