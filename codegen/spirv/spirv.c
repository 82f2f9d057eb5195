/* spirv.c - modules for any Vulkan 1.2 device with the features that docs/dev/vulkan.md lists (target `vulkan`), for OpenCL devices
 * that take them (target `opencl`, beside its source), and for Level Zero (target `levelzero`). */
#include "emit.h"
#include "target.h"

#include <aule/artifact.h>
#include <string.h>

/* A row of a table: its name, that of its machine (caps.def), words of the device, whether it takes f16 and bf16, how modules are spelt. */
#define ROW(of_name, of_caps, words, halves, brains, of)                                           \
    .name = of_name, .caps = of_caps, .features = words, .f16 = halves, .bf16 = brains,            \
    .wish = "", .flavour = of

/* From plain to special. Of `simt` and plain names nothing is known of lanes: their number is that of a work-group, or (simt8) of a device's subgroups where
 * nobody can ask for that, and what they tell each other goes through shared memory, with barriers of the work-group; of simt1 each lane is alone. The lanes of
 * others (lanes8, coop16, coop16x8x16) are subgroups, which the loader asks for, and exchange values; `coop` has KHR's matrices, through shared memory that moves by words
 * alone (words) or that is there as elements and as words (layout), or with matrices of positions (at); nv2 NVIDIA's functions of them, which tensors loads straight
 * from tensors, where devices take them so, and bodies element by element, for devices that do not. */
static const AuArch archs[] = {
    {ROW("vulkan12-simt1", "simt1", "shared32k", true, true, &spirv_shader)},
    {ROW("vulkan12", "simt32", "shared32k", true, true, &spirv_shader), .by_default = true},
    {ROW("vulkan12-sums", "simt32", "shared32k atomic_f32", true, true, &spirv_shader_sums)},
    {ROW("vulkan12-shared16", "simt32s", "shared16k", true, true, &spirv_shader)},
    {ROW("vulkan12-simt8", "simt8", "shared32k subgroup8", true, true, &spirv_shader)},
    {ROW("vulkan12-simt16", "simt16", "shared32k subgroup16", true, true, &spirv_shader)},
    {ROW("vulkan12-simt64", "simt64", "shared32k subgroup64", true, true, &spirv_shader)},
    {ROW("vulkan12-lanes8", "lanes8", "shared32k lanes8", true, true, &spirv_shader_subgroups)},
    {ROW("vulkan12-lanes16", "lanes16", "shared32k lanes16", true, true, &spirv_shader_subgroups)},
    {ROW("vulkan12-lanes32", "lanes32", "shared32k lanes32", true, true, &spirv_shader_subgroups)},
    {ROW("vulkan12-lanes64", "lanes64", "shared32k lanes64", true, true, &spirv_shader_subgroups)},
    {ROW("vulkan12-coop16x8x16", "vulkan_16x8x16", "shared48k lanes32 coopmat16x8x16_f16", true,
         false, &spirv_shader_subgroups)},
    {ROW("vulkan12-coop16x8x16-bf16", "vulkan_16x8x16", "shared48k lanes32 coopmat16x8x16_bf16",
         false, true, &spirv_shader_subgroups)},
    {ROW("vulkan12-coop8x16x16", "vulkan_8x16x16", "shared48k lanes16 coopmat8x16x16_f16", true,
         false, &spirv_shader_subgroups)},
    {ROW("vulkan12-coop8x16x16-bf16", "vulkan_8x16x16", "shared48k lanes16 coopmat8x16x16_bf16",
         false, true, &spirv_shader_subgroups)},
    {ROW("vulkan12-coop8x8x16", "vulkan_8x8x16", "shared48k lanes8 coopmat8x8x16_f16", true, false,
         &spirv_shader_subgroups)},
    {ROW("vulkan12-coop8x8x16-bf16", "vulkan_8x8x16", "shared48k lanes8 coopmat8x8x16_bf16", false,
         true, &spirv_shader_subgroups)},
    {ROW("vulkan12-coop16", "vulkan", "shared48k lanes32 coopmat16x16x16_f16", true, false,
         &spirv_shader_subgroups)},
    {ROW("vulkan12-coop16-words", "vulkan", "shared48k lanes32 coopmat16x16x16_f16", true, false,
         &spirv_shader_words)},
    {ROW("vulkan12-coop16-layout", "vulkan", "shared48k lanes32 coopmat16x16x16_f16 layout16", true,
         false, &spirv_shader_laid_out)},
    {ROW("vulkan12-coop16-words-bf16", "vulkan", "shared48k lanes32 coopmat16x16x16_bf16", false,
         true, &spirv_shader_words)},
    {ROW("vulkan12-coop16-layout-bf16", "vulkan", "shared48k lanes32 coopmat16x16x16_bf16 layout16",
         false, true, &spirv_shader_laid_out)},
    {ROW("vulkan12-coop8-words", "vulkan8", "shared32k lanes8 coopmat8x8x8_f16", true, false,
         &spirv_shader_words)},
    {ROW("vulkan12-coop8-layout", "vulkan8", "shared32k lanes8 coopmat8x8x8_f16 layout16", true,
         false, &spirv_shader_laid_out)},
    {ROW("vulkan12-coop16-at", "vulkan_at", "shared48k lanes32 coopmat16x16x16_f16 positions", true,
         false, &spirv_shader_components)},
    {ROW("vulkan12-coop16-at-bf16", "vulkan_at",
         "shared48k lanes32 coopmat16x16x16_f16 coopmat16x16x16_bf16 positions", false, true,
         &spirv_shader_components)},
    {ROW("vulkan12-coop8-at", "vulkan8_at", "shared32k lanes8 coopmat8x8x8_f16 positions", true,
         false, &spirv_shader_components)},
    {ROW("vulkan13-coop16-nv2", "vulkan_nv", "shared48k lanes32 coopmat16x16x16_f16 nv2", true,
         false, &spirv_shader_places)},
    {ROW("vulkan13-coop16-nv2-bf16", "vulkan_nv", "shared48k lanes32 coopmat16x16x16_bf16 nv2",
         false, true, &spirv_shader_places)},
    {ROW("vulkan13-coop16-nv2-tensors", "vulkan_nv_tensors",
         "shared48k lanes32 coopmat16x16x16_f16 nv2 tensors", true, false, &spirv_shader_tensors)},
    {ROW("vulkan13-coop16-nv2-tensors-bf16", "vulkan_nv_tensors",
         "shared48k lanes32 coopmat16x16x16_bf16 nv2 tensors", false, true, &spirv_shader_tensors)},
    {ROW("vulkan13-coop16-nv2-blocks", "vulkan_nv_blocks",
         "shared48k lanes32 coopmat16x16x16_f16 nv2 tensors coopmat32x16x16_f16_block128", true,
         false, &spirv_shader_tensors)},
    {ROW("vulkan13-coop16-nv2-blocks-bf16", "vulkan_nv_blocks",
         "shared48k lanes32 coopmat16x16x16_bf16 nv2 tensors coopmat32x16x16_bf16_block128", false,
         true, &spirv_shader_tensors)},
    {ROW("vulkan13-coop16-nv2-blocks256", "vulkan_nv_blocks256",
         "shared48k lanes32 coopmat16x16x16_f16 nv2 tensors coopmat32x32x16_f16_block256", true,
         false, &spirv_shader_tensors)},
    {ROW("vulkan13-coop16-nv2-blocks256-bf16", "vulkan_nv_blocks256",
         "shared48k lanes32 coopmat16x16x16_bf16 nv2 tensors coopmat32x32x16_bf16_block256", false,
         true, &spirv_shader_tensors)},
    {ROW("vulkan12-coop16-bf16", "vulkan", "shared48k lanes32 coopmat16x16x16_bf16", false, true,
         &spirv_shader_subgroups)},
    {ROW("vulkan13-coop8-nv2", "vulkan8_nv", "shared32k lanes8 coopmat8x8x8_f16 nv2", true, false,
         &spirv_shader_places)},
    {ROW("vulkan13-coop8-nv2-tensors", "vulkan8_nv_tensors",
         "shared32k lanes8 coopmat8x8x8_f16 nv2 tensors", true, false, &spirv_shader_tensors)},
    {ROW("vulkan13-coop8-nv2-bodies", "vulkan8_nv_tensors", "shared32k lanes8 coopmat8x8x8_f16 nv2",
         true, false, &spirv_shader_places)},
    {ROW("vulkan12-coop8", "vulkan8", "shared32k lanes8 coopmat8x8x8_f16", true, false,
         &spirv_shader_subgroups)}};

/* Version 1.0 is enough. Nothing more is known of the device than of one that is given source. */
static const AuArch opencl_archs[] = {
    {ROW("spirv-simt1", "simt1", "SPIR-V_1.0", true, true, &spirv_kernel)},
    {ROW("spirv", "simt32", "SPIR-V_1.0", true, true, &spirv_kernel)},
    {ROW("spirv-simt8", "simt8", "SPIR-V_1.0 subgroup8", true, true, &spirv_kernel)},
    {ROW("spirv-simt16", "simt16", "SPIR-V_1.0 subgroup16", true, true, &spirv_kernel)},
    {ROW("spirv-simt64", "simt64", "SPIR-V_1.0 subgroup64", true, true, &spirv_kernel)},
    {ROW("spirv-lanes8", "lanes8", "SPIR-V_1.1 subgroup8", true, true, &spirv_kernel_subgroups)},
    {ROW("spirv-lanes16", "lanes16", "SPIR-V_1.1 subgroup16", true, true, &spirv_kernel_subgroups)},
    {ROW("spirv-lanes32", "lanes32", "SPIR-V_1.1 subgroup32", true, true, &spirv_kernel_subgroups)},
    {ROW("spirv-lanes64", "lanes64", "SPIR-V_1.1 subgroup64", true, true, &spirv_kernel_subgroups)},
    {ROW("spirv-dpas", "xe2", "SPIR-V_1.1 shared128k dpas16 blocks2d registers256", true, true,
         &spirv_kernel_blocks)},
    {ROW("spirv-dpas-bodies", "xe2", "SPIR-V_1.1 shared64k subgroup16", true, true,
         &spirv_kernel_bodies)}};
enum { OPENCL_ARCHS = sizeof opencl_archs / sizeof *opencl_archs };

/* The same modules. Drivers must be told of shared memory: OpenCL promises 32 KB, Level Zero nothing. */
static const AuArch levelzero_archs[] = {
    {ROW("levelzero10-simt1", "simt1", "SPIR-V_1.0 shared32k", true, true, &spirv_kernel)},
    {ROW("levelzero10", "simt32", "SPIR-V_1.0 shared32k", true, true, &spirv_kernel),
     .by_default = true},
    {ROW("levelzero10-simt8", "simt8", "SPIR-V_1.0 shared32k subgroup8", true, true,
         &spirv_kernel)},
    {ROW("levelzero10-simt16", "simt16", "SPIR-V_1.0 shared32k subgroup16", true, true,
         &spirv_kernel)},
    {ROW("levelzero10-simt64", "simt64", "SPIR-V_1.0 shared32k subgroup64", true, true,
         &spirv_kernel)},
    {ROW("levelzero10-lanes8", "lanes8", "SPIR-V_1.1 shared32k subgroup8", true, true,
         &spirv_kernel_subgroups)},
    {ROW("levelzero10-lanes16", "lanes16", "SPIR-V_1.1 shared32k subgroup16", true, true,
         &spirv_kernel_subgroups)},
    {ROW("levelzero10-lanes32", "lanes32", "SPIR-V_1.1 shared32k subgroup32", true, true,
         &spirv_kernel_subgroups)},
    {ROW("xe2", "xe2", "SPIR-V_1.1 shared128k dpas16 registers256", true, true,
         &spirv_kernel_products)},
    {ROW("xe2-bodies", "xe2", "SPIR-V_1.1 shared64k subgroup16", true, true,
         &spirv_kernel_bodies)}};

enum { LEVELZERO_ARCHS = sizeof levelzero_archs / sizeof *levelzero_archs };

static bool is_levelzero(const AuArch *arch)
{
    return arch >= levelzero_archs && arch < levelzero_archs + LEVELZERO_ARCHS;
}

static bool is_opencl(const AuArch *arch)
{
    return arch >= opencl_archs && arch < opencl_archs + OPENCL_ARCHS;
}

/* Whose architecture it is. */
static const char *target_of(const AuArch *arch)
{
    return is_opencl(arch) ? "opencl" : is_levelzero(arch) ? "levelzero" : "vulkan";
}

/* All of them are expanded, by the emitter, which must know which sums belong to an expansion (docs/dev/vulkan.md, 4). */
static bool native_math(AuKOp op)
{
    (void)op;
    return true;
}

static bool emit(AuArena *arena, AuDiags *diags, AuKernel *const *kernels, uint32_t count,
                 const AuArch *arch, AuCodeStage stage, uint32_t optimize, AuBlob *out)
{
    (void)optimize;
    SpvWords words = {0};
    if (stage == AU_CODE_IR) {
        const AuSpan nowhere = {0};
        au_error(diags, AU_E0623, nowhere,
                 "target %s has no LLVM IR; it emits modules: spirv, spirv-text", target_of(arch));
        return false;
    }
    if (!spirv_kernels(arena, diags, arch->flavour, kernels, count, &words)) return false;
    *out = (AuBlob){words.at, (size_t)words.count * sizeof *words.at};
    if (stage == AU_CODE_FINAL) return true;
    AuText text = {.arena = arena};
    spirv_print(words.at, words.count, &text);
    *out = (AuBlob){au_text_str(&text), text.length};
    return true;
}

const AuTarget au_target_vulkan = {.name = "vulkan",
                                   .format = AULE_CODE_SPIRV,
                                   .archs = archs,
                                   .arch_count = sizeof archs / sizeof *archs,
                                   .native_math = native_math,
                                   .emit = emit};

const AuTarget au_target_opencl_modules = {.name = "opencl",
                                           .format = AULE_CODE_SPIRV,
                                           .has_layouts = true,
                                           .has_handles = true,
                                           .sees_addresses = true,
                                           .archs = opencl_archs,
                                           .arch_count = OPENCL_ARCHS,
                                           .native_math = native_math,
                                           .emit = emit};

const AuTarget au_target_levelzero = {.name = "levelzero",
                                      .format = AULE_CODE_SPIRV,
                                      .has_layouts = true,
                                      .has_handles = true,
                                      .sees_addresses = true,
                                      .archs = levelzero_archs,
                                      .arch_count = LEVELZERO_ARCHS,
                                      .native_math = native_math,
                                      .emit = emit};
