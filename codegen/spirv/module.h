/* module.h - a SPIR-V module that is being written: sections of words, types and constants that exist once, capabilities that are
 * declared where something needs them.
 * Ids are made in the order in which they are asked for; nothing is looked at twice. Not: what kernels mean (emit.h). */
#ifndef AU_CODEGEN_SPIRV_MODULE_H
#define AU_CODEGEN_SPIRV_MODULE_H

#include "kernel.h"

// clang-format off
enum {
#define OP(name, number, form) SPV_##name = number,
#include "spirv.def"
#define CAPABILITY(name, number) SPV_CAP_##name = number,
#include "spirv.def"
#define STORAGE(name, number) SPV_IN_##name = number,
#include "spirv.def"
#define DECORATION(name, number) SPV_IS_##name = number,
#include "spirv.def"
#define BUILTIN(name, number) SPV_BUILTIN_##name = number,
#include "spirv.def"
#define MODE(name, number) SPV_MODE_##name = number,
#include "spirv.def"
    SPV_MAGIC = 0x07230203, SPV_HEADER = 5,
    SPV_SCOPE_DEVICE = 1, SPV_SCOPE_WORKGROUP = 2, SPV_SCOPE_SUBGROUP = 3, SPV_SCOPE_QUEUE_FAMILY = 5
};
// clang-format on

typedef uint32_t SpvId; /* 0: none */
typedef struct SpvWords {
    uint32_t *at;
    uint32_t count, capacity;
} SpvWords;

/* In the order in which a module has them. */
typedef enum SpvSection {
    SPV_CAPABILITIES,
    SPV_EXTENSIONS,
    SPV_IMPORTS,
    SPV_MODEL,
    SPV_ENTRIES,
    SPV_MODES,
    SPV_STRINGS,
    SPV_NAMES,
    SPV_NOTES,
    SPV_DECORATIONS,
    SPV_GLOBALS,
    SPV_DECLARATIONS, /* of functions that others bring */
    SPV_FUNCTIONS,
    SPV_SECTIONS
} SpvSection;

/* A function that is being written. */
typedef struct SpvFunction {
    SpvWords variables, body;
    SpvId label; /* of the present block */
    SpvId lined; /* the block of the last line, and whose that is (lines.c) */
    uint32_t source, begin;
} SpvFunction;

/* What was made once, and where its instruction stands in SPV_GLOBALS. */
typedef struct SpvKnown {
    uint32_t at, id, hash;
} SpvKnown;

enum { SPV_HELPERS = 16, SPV_ASKED = 6, SPV_PLACES = 5, SPV_PRODUCTS = 2, SPV_BLOCKS = 7 };
typedef struct SpvModule {
    AuArena *arena;
    const struct SpvFlavour *flavour; /* flavour.h */
    SpvWords sections[SPV_SECTIONS];
    SpvFunction *f; /* where instructions go */
    uint32_t ids;
    SpvKnown *known; /* a hash table of the types and constants in SPV_GLOBALS */
    uint32_t known_count, known_room;
    const char *asked[SPV_ASKED]; /* extensions */
    SpvId functions;              /* the set of extended instructions */
    SpvId places[SPV_PLACES];     /* built-in variables that kernels share (entry_kernel.c) */
    SpvId helpers[SPV_HELPERS];   /* functions that kernels call (helpers.c) */
    bool
        compares; /* maxima and minima of this kernel are comparisons, also where there are functions */
    SpvId products[SPV_PRODUCTS]; /* the same (dpas.c) */
    SpvId blocks[SPV_BLOCKS],
        gathers[SPV_BLOCKS]; /* and (blocks.c): of the device, of the module */
    SpvId surfaces[4];       /* and (surface.c), of f16 and bf16 */
    SpvId *files;            /* by source, where lines are asked for */
    const AuSource *sources;
    uint32_t source_count;
    SpvId fused, cuts_loops; /* specialisation constants of helpers.c and entry.c; 0: not made */
} SpvModule;

#define SPV_WORDS(...) (const uint32_t[]){__VA_ARGS__}, sizeof(uint32_t[]){__VA_ARGS__} / 4

SpvModule *spirv_new(AuArena *arena, const struct SpvFlavour *flavour);
SpvId spirv_id(SpvModule *m);
void spirv_put(SpvModule *m, SpvWords *to, uint32_t op, const uint32_t *words, size_t count);
/* The instruction ends in a text, behind which [after] words may come. */
void spirv_put_text(SpvModule *m, SpvWords *to, uint32_t op, const uint32_t *words, size_t count,
                    const char *text, const uint32_t *after, size_t after_count);
void spirv_capability(SpvModule *m, uint32_t capability);
void spirv_extension(SpvModule *m, const char *name);
void spirv_name(SpvModule *m, SpvId id, const char *name);
void spirv_decorate(SpvModule *m, SpvId id, uint32_t decoration);
/* The result is not part of a contracted operation; where kernels say that of all results, nothing is written. */
void spirv_exact(SpvModule *m, SpvId id);

/* ---- types and constants, each once */
SpvId spirv_type(SpvModule *m, uint32_t op, const uint32_t *words, size_t count);
SpvId spirv_int(SpvModule *m, uint32_t bits);
/* Of values in registers: i1 bool, i32 and i64 integers, f32; what is stored in fewer bits and not computed with, f16, bf16 and u8,
 * are its bits in an integer of 32. */
SpvId spirv_scalar(SpvModule *m, AuScalar scalar);
/* As it lies in memory. */
SpvId spirv_stored(SpvModule *m, AuScalar scalar);
/* A matrix whose elements lie as the device likes, shared by the lanes of a subgroup. 0: elements of that type have none. */
SpvId spirv_matrix_type(SpvModule *m, const AuMemory *memory, uint32_t scope); /* of who holds it */
SpvId spirv_matrix_element(SpvModule *m, AuScalar scalar);
SpvId spirv_half(SpvModule *m); /* f16 that is computed with */
SpvId spirv_pointer(SpvModule *m, uint32_t storage, SpvId type);
SpvId spirv_array(SpvModule *m, SpvId element, uint32_t count);
SpvId spirv_null(SpvModule *m, SpvId type); /* all of it 0 */
SpvId spirv_u32(SpvModule *m, uint32_t value);
SpvId spirv_u64(SpvModule *m, uint64_t value);
SpvId spirv_f32(SpvModule *m, float value);
SpvId spirv_bool(SpvModule *m, bool value);
SpvId spirv_bits(SpvModule *m, AuScalar scalar, uint64_t bits); /* a constant of that type */

/* ---- instructions of the present function */
void spirv_do(SpvModule *m, uint32_t op, const uint32_t *words, size_t count);
SpvId spirv_make(SpvModule *m, uint32_t op, SpvId type, const uint32_t *operands, size_t count);
SpvId spirv_make1(SpvModule *m, uint32_t op, SpvId type, SpvId a);
SpvId spirv_make2(SpvModule *m, uint32_t op, SpvId type, SpvId a, SpvId b);
SpvId spirv_choose(SpvModule *m, SpvId type, SpvId condition, SpvId a, SpvId b);
/* A function of the set of extended instructions; [which] is an AuKOp, which the flavour has a number for. */
SpvId spirv_function(SpvModule *m, uint32_t which, SpvId type, const uint32_t *operands,
                     size_t count);
SpvId spirv_variable(SpvModule *m, SpvId type); /* of the function */
void spirv_label(SpvModule *m, SpvId label);
void spirv_branch(SpvModule *m, SpvId label);
/* A loop of so many turns that drivers shall not write out, between both calls; [now] counts them from 0. Afterwards it is how many were made. */
typedef struct SpvTurns {
    SpvId now, then, head, next, end, step;
} SpvTurns;
SpvTurns spirv_open_turns(SpvModule *m, uint32_t count);
void spirv_close_turns(SpvModule *m, const SpvTurns *turns);

/* The module, SPV_HEADER words first. */
SpvWords spirv_finish(SpvModule *m);

/* ---- text.c: the module for people, one instruction a line, as disassemblers write it */
void spirv_print(const uint32_t *words, size_t count, AuText *out);

#endif
