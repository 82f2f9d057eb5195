/* spirv.c - the target `vulkan`: SPIR-V modules for any Vulkan 1.2 device with the features that docs/dev/vulkan.md lists. */
#include "emit.h"
#include "target.h"

#include <aule/artifact.h>

/* Nothing is known of lanes: their number is that of a work-group, and what they tell each other goes through shared memory. */
static const AuArch archs[] = {{.name = "vulkan12",
                                .caps = "simt32",
                                .features = "shared32k",
                                .f16 = true,
                                .bf16 = true,
                                .by_default = true,
                                .wish = ""}};

/* All of them are expanded, by the emitter, which must know which sums belong to an expansion (docs/dev/vulkan.md, 4). */
static bool native_math(AuKOp op)
{
    (void)op;
    return true;
}

static bool emit(AuArena *arena, AuDiags *diags, AuKernel *const *kernels, uint32_t count,
                 const AuArch *arch, AuCodeStage stage, uint32_t optimize, AuBlob *out)
{
    (void)arch, (void)optimize;
    SpvWords words = {0};
    if (stage == AU_CODE_IR) {
        const AuSpan nowhere = {0};
        au_error(diags, AU_E0623, nowhere,
                 "target vulkan has no LLVM IR; it emits modules: spirv, spirv-text");
        return false;
    }
    if (!spirv_kernels(arena, diags, &spirv_shader, kernels, count, &words)) return false;
    *out = (AuBlob){words.at, (size_t)words.count * sizeof *words.at};
    if (stage == AU_CODE_FINAL) return true;
    AuText text = {.arena = arena};
    spirv_print(words.at, words.count, &text);
    *out = (AuBlob){au_text_str(&text), text.length};
    return true;
}

const AuTarget au_target_vulkan = {.name = "vulkan",
                                   .format = AULE_CODE_SPIRV,
                                   .on_request = true,
                                   .archs = archs,
                                   .arch_count = sizeof archs / sizeof *archs,
                                   .native_math = native_math,
                                   .emit = emit};
