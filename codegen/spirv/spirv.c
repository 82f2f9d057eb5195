/* spirv.c - modules for any Vulkan 1.2 device with the features that docs/dev/vulkan.md lists (target `vulkan`), for OpenCL devices
 * that take them (target `opencl`, beside its source), and for Level Zero (target `levelzero`). */
#include "emit.h"
#include "target.h"

#include <aule/artifact.h>
#include <string.h>

/* Subgroups of so many lanes that exchange values, without matrices. */
#define LANES_OF_VULKAN(lanes)                                                                     \
    {                                                                                              \
        .name = "vulkan12-lanes" lanes, .caps = "lanes" lanes,                                     \
        .features = "shared32k lanes" lanes, .f16 = true, .bf16 = true, .wish = "",                \
        .flavour = &spirv_shader_subgroups                                                         \
    }

/* Of the first nothing is known of lanes: their number is that of a work-group, and what they tell each other goes through shared memory.
 * The others' lanes are subgroups, which the loader asks for, with cooperative matrices of f16. */
static const AuArch archs[] = {{.name = "vulkan12",
                                .caps = "simt32",
                                .features = "shared32k",
                                .f16 = true,
                                .bf16 = true,
                                .by_default = true,
                                .wish = "",
                                .flavour = &spirv_shader},
                               {.name = "vulkan12-sums",
                                .caps = "simt32",
                                .features = "shared32k atomic_f32",
                                .f16 = true,
                                .bf16 = true,
                                .wish = "",
                                .flavour = &spirv_shader_sums},
                               {.name = "vulkan12-shared16",
                                .caps = "simt32s",
                                .features = "shared16k",
                                .f16 = true,
                                .bf16 = true,
                                .wish = "",
                                .flavour = &spirv_shader},
                               LANES_OF_VULKAN("8"),
                               LANES_OF_VULKAN("16"),
                               LANES_OF_VULKAN("32"),
                               LANES_OF_VULKAN("64"),
                               {.name = "vulkan12-coop16",
                                .caps = "vulkan",
                                .features = "shared48k lanes32 coopmat16x16x16_f16",
                                .f16 = true,
                                .wish = "",
                                .flavour = &spirv_shader_subgroups},
                               {.name = "vulkan12-coop16-at",
                                .caps = "vulkan_at",
                                .features = "shared48k lanes32 coopmat16x16x16_f16 positions",
                                .f16 = true,
                                .wish = "",
                                .flavour = &spirv_shader_components},
                               {.name = "vulkan12-coop8-at",
                                .caps = "vulkan8_at",
                                .features = "shared32k lanes8 coopmat8x8x8_f16 positions",
                                .f16 = true,
                                .wish = "",
                                .flavour = &spirv_shader_components},
                               {.name = "vulkan13-coop16-nv2",
                                .caps = "vulkan_nv",
                                .features = "shared48k lanes32 coopmat16x16x16_f16 nv2",
                                .f16 = true,
                                .wish = "",
                                .flavour = &spirv_shader_places},
                               {.name = "vulkan13-coop16-nv2-bf16",
                                .caps = "vulkan_nv",
                                .features = "shared48k lanes32 coopmat16x16x16_bf16 nv2",
                                .bf16 = true,
                                .wish = "",
                                .flavour = &spirv_shader_places},
                               {.name = "vulkan12-coop16-bf16",
                                .caps = "vulkan",
                                .features = "shared48k lanes32 coopmat16x16x16_bf16",
                                .bf16 = true,
                                .wish = "",
                                .flavour = &spirv_shader_subgroups},
                               {.name = "vulkan13-coop8-nv2",
                                .caps = "vulkan8_nv",
                                .features = "shared32k lanes8 coopmat8x8x8_f16 nv2",
                                .f16 = true,
                                .wish = "",
                                .flavour = &spirv_shader_places},
                               {.name = "vulkan12-coop8",
                                .caps = "vulkan8",
                                .features = "shared32k lanes8 coopmat8x8x8_f16",
                                .f16 = true,
                                .wish = "",
                                .flavour = &spirv_shader_subgroups}};

#define OF_SUBGROUPS(lanes)                                                                        \
    {                                                                                              \
        .name = "spirv-lanes" lanes, .caps = "lanes" lanes,                                        \
        .features = "SPIR-V_1.1 subgroup" lanes, .f16 = true, .bf16 = true, .wish = "",            \
        .flavour = &spirv_kernel_subgroups                                                         \
    }

/* Version 1.0 is enough. Nothing more is known of the device than of one that is given source. */
static const AuArch opencl_archs[] = {
    {.name = "spirv",
     .caps = "simt32",
     .features = "SPIR-V_1.0",
     .f16 = true,
     .bf16 = true,
     .wish = "",
     .flavour = &spirv_kernel},
    OF_SUBGROUPS("8"),
    OF_SUBGROUPS("16"),
    OF_SUBGROUPS("32"),
    {.name = "spirv-dpas",
     .caps = "xe2",
     .features = "SPIR-V_1.1 shared128k dpas16 blocks2d registers256",
     .f16 = true,
     .bf16 = true,
     .wish = "",
     .flavour = &spirv_kernel_blocks},
    {.name = "spirv-dpas-bodies",
     .caps = "xe2",
     .features = "SPIR-V_1.1 shared64k subgroup16",
     .f16 = true,
     .bf16 = true,
     .wish = "",
     .flavour = &spirv_kernel_bodies}};
enum { OPENCL_ARCHS = sizeof opencl_archs / sizeof *opencl_archs };

/* The same modules. Drivers must be told of shared memory: OpenCL promises 32 KB, Level Zero nothing. */
static const AuArch levelzero_archs[] = {{.name = "levelzero10",
                                          .caps = "simt32",
                                          .features = "SPIR-V_1.0 shared32k",
                                          .f16 = true,
                                          .bf16 = true,
                                          .by_default = true,
                                          .wish = "",
                                          .flavour = &spirv_kernel},
                                         {.name = "xe2",
                                          .caps = "xe2",
                                          .features = "SPIR-V_1.1 shared128k dpas16 registers256",
                                          .f16 = true,
                                          .bf16 = true,
                                          .wish = "",
                                          .flavour = &spirv_kernel_products},
                                         {.name = "xe2-bodies",
                                          .caps = "xe2",
                                          .features = "SPIR-V_1.1 shared64k subgroup16",
                                          .f16 = true,
                                          .bf16 = true,
                                          .wish = "",
                                          .flavour = &spirv_kernel_bodies}};

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
