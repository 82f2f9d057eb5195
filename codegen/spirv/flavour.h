/* flavour.h - what SPIR-V for Vulkan and SPIR-V for OpenCL and Level Zero spell differently: one emitter, a row each (flavour.c).
 * What rows cannot say is how arguments and places in the grid come: a function a flavour. */
#ifndef AU_CODEGEN_SPIRV_FLAVOUR_H
#define AU_CODEGEN_SPIRV_FLAVOUR_H

#include "module.h"

/* What a kernel reads of its arguments and of its place in the grid. */
typedef struct SpvUses {
    bool *args;
    bool block[3], blocks[3], lane, warp, surfaces; /* surfaces: of loads of blocks (blocks.c) */
} SpvUses;

typedef struct SpvNumbers {
    const uint32_t *at;
    uint32_t count;
} SpvNumbers;

/* How lanes of a subgroup tell each other values: instructions, and what each needs. */
typedef struct SpvExchange {
    const char *extension; /* NULL: none */
    uint32_t shuffle, shuffle_xor, any;
    uint32_t for_all, for_shuffle, for_any; /* capabilities; 0: none */
    bool shuffle_has_scope;
} SpvExchange;

/* Blocks of a matrix for a subgroup: none; functions that the device's compiler knows; instructions; functions that the module brings. */
typedef enum SpvBlocks {
    SPV_BLOCKS_NONE,
    SPV_BLOCKS_BY_NAME,
    SPV_BLOCKS_BY_INSTRUCTION,
    SPV_BLOCKS_OF_MODULE
} SpvBlocks;

struct SpvEmit;
typedef struct SpvFlavour {
    const char *name;        /* in messages */
    uint32_t version;        /* the word of the header: 0x10500 is 1.5 */
    SpvNumbers capabilities; /* of every module */
    uint32_t addressing, memory_model, execution_model;
    SpvNumbers modes; /* of every kernel beside its size; Shader's have an operand, 32 bits */
    bool modes_have_bits;
    uint32_t banner; /* the instruction that carries it: without an id, or OpString */
    const char *
        set; /* of extended instructions, and their numbers; 0: there is none that is good enough */
    uint8_t functions[AU_K_COUNT];
    bool (*native)(AuKOp op); /* whether the set has it: else it is expanded */
    bool (*native_coarse)(
        AuKOp
            op); /* the same of kernels that multiply matrices of 16-bit operands; NULL: they are as others */
    bool marks_exact;     /* each result that must not be contracted; else a mode says it */
    bool fma_rounds_once; /* the set's does so on every device */
    bool negates_by_difference;
    bool meets_after_loops; /* a barrier behind each loop with barriers (flavour.c) */
    bool
        has_pointers; /* arguments are pointers to elements; else numbers, and every access makes a pointer */
    bool
        subgroups; /* the lanes of an executor are a subgroup, which devices promise that get such modules */
    SpvExchange exchange; /* then */
    bool
        asks_lanes; /* a mode of a kernel says how many lanes a subgroup has; else the loader does */
    bool products,
        products_have_bodies; /* matrix units of dpas.c; the module brings functions for them */
    SpvBlocks blocks;         /* how blocks of global memory are loaded (blocks.c) */
    bool wide;                /* vectors move as words where they are aligned */
    bool
        laid_out; /* then shared memory has a layout, and is there as elements and as words; else what moves by words alone is words there */
    bool
        has_halves; /* the device converts f32 to f16, to nearest even, by an instruction; else integers do */
    bool adds_floats;  /* to f32 in global memory, by an instruction; else a loop does */
    bool by_component; /* components of matrices, a loop over those of a lane */
    bool by_place;     /* functions of elements of matrices, their reductions and conversions */
    bool
        tensors; /* then: matrices straight from tensors, by their bounds (surface.c); else element by element */
    uint32_t far;                               /* storage class of global memory */
    uint32_t far_bits16, far_bits8;             /* capabilities of elements there */
    uint32_t seen;                              /* Memory Operands of what others see */
    uint32_t everywhere;                        /* the scope of all blocks of a launch */
    uint32_t order_far, order_block, order_all; /* Memory Semantics of fences between blocks; of
        barriers: of memory of the block, of that and tensors */
    void (*open)(struct SpvEmit *e, const SpvUses *uses); /* arguments, places in the grid */
    void (*close)(struct SpvEmit *e);
} SpvFlavour;
extern const SpvFlavour spirv_shader;      /* Vulkan */
extern const SpvFlavour spirv_shader_sums; /* with VK_EXT_shader_atomic_float */
extern const SpvFlavour
    spirv_shader_subgroups; /* where the loader asks for subgroups of as many lanes */
extern const SpvFlavour
    spirv_shader_words; /* and with words where vectors are aligned, shared memory of these alone */
extern const SpvFlavour spirv_shader_laid_out; /* or of a layout, with both */
extern const SpvFlavour
    spirv_shader_components; /* and where components of matrices are reached one by one */
extern const SpvFlavour spirv_shader_places;    /* and where its matrices are NV2's */
extern const SpvFlavour spirv_shader_tensors;   /* and come straight from tensors */
extern const SpvFlavour spirv_kernel;           /* OpenCL, Level Zero */
extern const SpvFlavour spirv_kernel_subgroups; /* and with subgroups of so many lanes */
extern const SpvFlavour spirv_kernel_products;  /* and with Intel's matrix units */
extern const SpvFlavour spirv_kernel_blocks;    /* the same; blocks are loaded by instructions */
extern const SpvFlavour
    spirv_kernel_bodies; /* the same, for devices without such units: functions in their place */

#endif
