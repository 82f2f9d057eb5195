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

/* As many lanes as a device's subgroups have where nobody can ask for that: kernels do not depend on it, since what lanes tell each other goes through
 * shared memory, with barriers of the work-group. */
#define AS_SUBGROUPS(prefix, lanes, needs, of)                                                     \
    {                                                                                              \
        .name = prefix "-simt" lanes, .caps = "simt" lanes, .features = needs " subgroup" lanes,   \
        .f16 = true, .bf16 = true, .wish = "", .flavour = of                                       \
    }
/* For devices of which nothing is known: each lane is alone. */
#define ONE_LANE(prefix, needs, of)                                                                \
    {                                                                                              \
        .name = prefix "-simt1", .caps = "simt1", .features = needs, .f16 = true, .bf16 = true,    \
        .wish = "", .flavour = of                                                                  \
    }

/* KHR's matrices through shared memory of 16 bits that moves by words: words alone, or (word layout16) elements and words at one place. */
#define MATRICES(of_name, of_caps, needs, of_f16, of_bf16, of)                                     \
    {                                                                                              \
        .name = of_name, .caps = of_caps, .features = needs, .f16 = of_f16, .bf16 = of_bf16,       \
        .wish = "", .flavour = of                                                                  \
    }
#define OF_16(operand) "shared48k lanes32 coopmat16x16x16_" operand
#define OF_8           "shared32k lanes8 coopmat8x8x8_f16"

/* From plain to special. Of the first, to the subgroups, nothing is known of lanes: their number is that of a work-group, and what they tell each
 * other goes through shared memory. The others' lanes are subgroups, which the loader asks for, with cooperative matrices of f16. */
static const AuArch archs[] = {
    ONE_LANE("vulkan12", "shared32k", &spirv_shader),
    {.name = "vulkan12",
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
    AS_SUBGROUPS("vulkan12", "8", "shared32k", &spirv_shader),
    AS_SUBGROUPS("vulkan12", "16", "shared32k", &spirv_shader),
    AS_SUBGROUPS("vulkan12", "64", "shared32k", &spirv_shader),
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
    MATRICES("vulkan12-coop16-words", "vulkan", OF_16("f16"), true, false, &spirv_shader_words),
    MATRICES("vulkan12-coop16-layout", "vulkan", OF_16("f16") " layout16", true, false,
             &spirv_shader_laid_out),
    MATRICES("vulkan12-coop16-words-bf16", "vulkan", OF_16("bf16"), false, true,
             &spirv_shader_words),
    MATRICES("vulkan12-coop16-layout-bf16", "vulkan", OF_16("bf16") " layout16", false, true,
             &spirv_shader_laid_out),
    MATRICES("vulkan12-coop8-words", "vulkan8", OF_8, true, false, &spirv_shader_words),
    MATRICES("vulkan12-coop8-layout", "vulkan8", OF_8 " layout16", true, false,
             &spirv_shader_laid_out),
    {.name = "vulkan12-coop16-at",
     .caps = "vulkan_at",
     .features = "shared48k lanes32 coopmat16x16x16_f16 positions",
     .f16 = true,
     .wish = "",
     .flavour = &spirv_shader_components},
    {.name = "vulkan12-coop16-at-bf16",
     .caps = "vulkan_at",
     .features = "shared48k lanes32 coopmat16x16x16_f16 coopmat16x16x16_bf16 positions",
     .bf16 = true,
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

#define OF_SUBGROUPS(prefix, lanes, needs)                                                         \
    {                                                                                              \
        .name = prefix "-lanes" lanes, .caps = "lanes" lanes, .features = needs " subgroup" lanes, \
        .f16 = true, .bf16 = true, .wish = "", .flavour = &spirv_kernel_subgroups                  \
    }

/* Version 1.0 is enough. Nothing more is known of the device than of one that is given source. */
static const AuArch opencl_archs[] = {
    ONE_LANE("spirv", "SPIR-V_1.0", &spirv_kernel),
    {.name = "spirv",
     .caps = "simt32",
     .features = "SPIR-V_1.0",
     .f16 = true,
     .bf16 = true,
     .wish = "",
     .flavour = &spirv_kernel},
    AS_SUBGROUPS("spirv", "8", "SPIR-V_1.0", &spirv_kernel),
    AS_SUBGROUPS("spirv", "16", "SPIR-V_1.0", &spirv_kernel),
    AS_SUBGROUPS("spirv", "64", "SPIR-V_1.0", &spirv_kernel),
    OF_SUBGROUPS("spirv", "8", "SPIR-V_1.1"),
    OF_SUBGROUPS("spirv", "16", "SPIR-V_1.1"),
    OF_SUBGROUPS("spirv", "32", "SPIR-V_1.1"),
    OF_SUBGROUPS("spirv", "64", "SPIR-V_1.1"),
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
#define PLAIN "SPIR-V_1.0 shared32k"
static const AuArch levelzero_archs[] = {ONE_LANE("levelzero10", PLAIN, &spirv_kernel),
                                         {.name = "levelzero10",
                                          .caps = "simt32",
                                          .features = PLAIN,
                                          .f16 = true,
                                          .bf16 = true,
                                          .by_default = true,
                                          .wish = "",
                                          .flavour = &spirv_kernel},
                                         AS_SUBGROUPS("levelzero10", "8", PLAIN, &spirv_kernel),
                                         AS_SUBGROUPS("levelzero10", "16", PLAIN, &spirv_kernel),
                                         AS_SUBGROUPS("levelzero10", "64", PLAIN, &spirv_kernel),
                                         OF_SUBGROUPS("levelzero10", "8", "SPIR-V_1.1 shared32k"),
                                         OF_SUBGROUPS("levelzero10", "16", "SPIR-V_1.1 shared32k"),
                                         OF_SUBGROUPS("levelzero10", "32", "SPIR-V_1.1 shared32k"),
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
