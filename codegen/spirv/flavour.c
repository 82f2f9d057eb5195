/* flavour.c - the rows of flavour.h. Numbers are those of the SPIR-V specification and of its two sets of extended instructions. */
#include "emit.h"

enum { /* Memory Semantics, Memory Operands */
       ACQUIRE_RELEASE = 8,
       SEQUENTIAL = 0x10,
       OF_BUFFERS = 0x40,
       OF_WORKGROUP = 0x100,
       OF_CROSS_WORKGROUP = 0x200,
       MAKE_AVAILABLE = 0x2000,
       MAKE_VISIBLE = 0x4000,
       NON_PRIVATE = 0x20
};
enum { PHYSICAL_64 = 2, PHYSICAL_STORAGE_BUFFER_64 = 5348, MODEL_OPENCL = 2, MODEL_VULKAN = 3 };
enum { EXECUTES_COMPUTE = 5, EXECUTES_KERNEL = 6 };
enum { SHADER_ORDER = ACQUIRE_RELEASE | MAKE_AVAILABLE | MAKE_VISIBLE };

static bool shader_has(AuKOp op) { return spirv_shader.functions[op] != 0; }
static bool coarse_has(AuKOp op) { return spirv_shader_subgroups.functions[op] != 0; }
static bool places_have(AuKOp op) { return spirv_shader_places.functions[op] != 0; }
static bool places_have_exact(AuKOp op)
{
    return places_have(op) && op != AU_K_EXP && op != AU_K_EXP2;
}
static bool kernel_has(AuKOp op) { return spirv_kernel.functions[op] != 0; }

#define NUMBERS(...)                                                                               \
    {                                                                                              \
        (const uint32_t[]){__VA_ARGS__}, sizeof(uint32_t[]){__VA_ARGS__} / 4                       \
    }

#define SHADER(of_version, has, ...)                                                               \
    .name = "SPIR-V for Vulkan", .version = of_version,                                            \
    .capabilities =                                                                                \
        NUMBERS(SPV_CAP_Shader, SPV_CAP_PhysicalStorageBufferAddresses, SPV_CAP_VulkanMemoryModel, \
                SPV_CAP_SignedZeroInfNanPreserve, SPV_CAP_RoundingModeRTE),                        \
    .addressing = PHYSICAL_STORAGE_BUFFER_64, .memory_model = MODEL_VULKAN,                        \
    .execution_model = EXECUTES_COMPUTE,                                                           \
    .modes = NUMBERS(SPV_MODE_SignedZeroInfNanPreserve, SPV_MODE_RoundingModeRTE),                 \
    .modes_have_bits = true, .banner = SPV_ModuleProcessed, .set = "GLSL.std.450",                 \
    .functions = {[AU_K_RINT] = 2,  [AU_K_ABS] = 4,  [AU_K_FLOOR] = 8, [AU_K_CEIL] = 9,            \
                  [AU_K_SQRT] = 31, [AU_K_FMA] = 50, __VA_ARGS__},                                 \
    .native = has, .marks_exact = true, .far = SPV_IN_PhysicalStorageBuffer,                       \
    .far_bits16 = SPV_CAP_StorageBuffer16BitAccess, .far_bits8 = SPV_CAP_StorageBuffer8BitAccess,  \
    .seen = NON_PRIVATE, .everywhere = SPV_SCOPE_QUEUE_FAMILY,                                     \
    .order_far = SHADER_ORDER | OF_BUFFERS, .order_block = SHADER_ORDER | OF_WORKGROUP,            \
    .order_all = SHADER_ORDER | OF_BUFFERS | OF_WORKGROUP, .open = spirv_shader_open,              \
    .close = spirv_shader_close

const SpvFlavour spirv_shader = {SHADER(0x10500, shader_has, [AU_K_NONE] = 0)};
const SpvFlavour spirv_shader_sums = {SHADER(0x10500, shader_has, [AU_K_NONE] = 0),
                                      .adds_floats = true};
#define NON_UNIFORM                                                                                \
    .subgroups = true, .exchange = {.shuffle = SPV_GroupNonUniformShuffle,                         \
                                    .shuffle_xor = SPV_GroupNonUniformShuffleXor,                  \
                                    .any = SPV_GroupNonUniformAny,                                 \
                                    .for_all = SPV_CAP_GroupNonUniform,                            \
                                    .for_shuffle = SPV_CAP_GroupNonUniformShuffle,                 \
                                    .for_any = SPV_CAP_GroupNonUniformVote,                        \
                                    .shuffle_has_scope = true}
/* Where weights are rounded to 16 bits, what Vulkan promises of exponentials is enough (native_coarse). NMin and NMax give the number where the
 * other is NaN. */
const SpvFlavour spirv_shader_subgroups = {
    SHADER(0x10500, shader_has, [AU_K_EXP] = 27, [AU_K_EXP2] = 29), NON_UNIFORM,
    .native_coarse = coarse_has};
const SpvFlavour spirv_shader_words = {
    SHADER(0x10500, shader_has, [AU_K_EXP] = 27, [AU_K_EXP2] = 29), NON_UNIFORM,
    .native_coarse = coarse_has, .wide = true};
const SpvFlavour spirv_shader_laid_out = {
    SHADER(0x10500, shader_has, [AU_K_EXP] = 27, [AU_K_EXP2] = 29), NON_UNIFORM,
    .native_coarse = coarse_has, .wide = true, .laid_out = true};
const SpvFlavour spirv_shader_components = {
    SHADER(0x10500, shader_has, [AU_K_EXP] = 27, [AU_K_EXP2] = 29), NON_UNIFORM,
    .native_coarse = coarse_has, .by_component = true};
#define PLACES                                                                                     \
    SHADER(                                                                                        \
        0x10600,                                                                                   \
        places_have_exact, [AU_K_EXP] = 27, [AU_K_EXP2] = 29, [AU_K_MIN] = 79, [AU_K_MAX] = 80),   \
        NON_UNIFORM, .native_coarse = places_have, .wide = true, .laid_out = true,                 \
                     .by_place = true
const SpvFlavour spirv_shader_places = {PLACES};
const SpvFlavour spirv_shader_tensors = {PLACES, .tensors = true};

/* SPIR-V 1.0, which every device with modules takes. log2, tanh, erf and pow are too coarse there, as in OpenCL C (codegen/c/opencl.c).
 * Intel's compiler for processors forgets the sign of what lives across a barrier (docs/dev/testing.md), so -a is a difference,
 * and takes what leaves a loop with barriers for the same in all work-items that it computes at once, but where a barrier follows. */
#define KERNEL                                                                                     \
    .name = "SPIR-V for OpenCL", .capabilities = NUMBERS(SPV_CAP_Kernel, SPV_CAP_Addresses),       \
    .addressing = PHYSICAL_64, .memory_model = MODEL_OPENCL, .execution_model = EXECUTES_KERNEL,   \
    .modes = NUMBERS(SPV_MODE_ContractionOff), .banner = SPV_String, .set = "OpenCL.std",          \
    .functions = {[AU_K_CEIL] = 12,  [AU_K_COS] = 14,   [AU_K_EXP] = 19,   [AU_K_EXP2] = 20,       \
                  [AU_K_EXPM1] = 22, [AU_K_ABS] = 23,   [AU_K_FLOOR] = 25, [AU_K_FMA] = 26,        \
                  [AU_K_LOG] = 37,   [AU_K_LOG1P] = 40, [AU_K_RINT] = 53,  [AU_K_RSQRT] = 56,      \
                  [AU_K_SIN] = 57,   [AU_K_SQRT] = 61,  [AU_K_MULHI] = 203},                       \
    .fma_rounds_once = true, .negates_by_difference = true, .meets_after_loops = true,             \
    .has_pointers = true, .far = SPV_IN_CrossWorkgroup, .far_bits16 = SPV_CAP_Int16,               \
    .far_bits8 = SPV_CAP_Int8, .everywhere = SPV_SCOPE_DEVICE,                                     \
    .order_far = SEQUENTIAL | OF_CROSS_WORKGROUP, .order_block = SEQUENTIAL | OF_WORKGROUP,        \
    .order_all = SEQUENTIAL | OF_CROSS_WORKGROUP | OF_WORKGROUP, .open = spirv_kernel_open
const SpvFlavour spirv_kernel = {KERNEL, .version = 0x10000, .native = kernel_has};

/* Version 1.1 is the first that says how many lanes a subgroup has; Intel's drivers say of 1.2 that they take it, and of SPV_INTEL_subgroups
 * nothing, which all have. Loops over registers are written out, so there is nothing that leaves a loop with barriers but by memory. */
#define SUBGROUPS_OF_INTEL                                                                         \
    .version = 0x10100, .native = kernel_has, .subgroups = true, .asks_lanes = true,               \
    .exchange = {.extension = "SPV_INTEL_subgroups",                                               \
                 .shuffle = SPV_SubgroupShuffleINTEL,                                              \
                 .shuffle_xor = SPV_SubgroupShuffleXorINTEL,                                       \
                 .any = SPV_GroupAny,                                                              \
                 .for_shuffle = SPV_CAP_SubgroupShuffleINTEL,                                      \
                 .for_any = SPV_CAP_Groups}
const SpvFlavour spirv_kernel_subgroups = {KERNEL, SUBGROUPS_OF_INTEL};
/* Of maxima that are functions Intel's compiler for GPUs sees, as of sums, that those among all lanes are one number: in kernels with blocks. Of backward it
 * makes a tenth fewer instructions by them, and spills twice as much. */
#define PRODUCTS                                                                                   \
    KERNEL, SUBGROUPS_OF_INTEL, .products = true, .has_halves = true, .functions[AU_K_MAX] = 27,   \
                                .functions[AU_K_MIN] = 28
const SpvFlavour spirv_kernel_products = {PRODUCTS, .blocks = SPV_BLOCKS_BY_NAME};
const SpvFlavour spirv_kernel_blocks = {PRODUCTS, .blocks = SPV_BLOCKS_BY_INSTRUCTION};
const SpvFlavour spirv_kernel_bodies = {PRODUCTS, .products_have_bodies = true,
                                        .blocks = SPV_BLOCKS_OF_MODULE};
