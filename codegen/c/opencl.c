/* opencl.c - the target `opencl`: source text for any OpenCL 1.2 device, compiled by the device's driver when it is loaded. */
#include "opencl.h"

#include <aule/artifact.h>

/* Nothing is known of the device but what every one has: the generic row of the tiled IR. 16-bit types are stored, not computed
 * with, and that is in the core language. */
static const AuArch archs[] = {{.name = "generic",
                                .caps = "simt32",
                                .features = "",
                                .f16 = true,
                                .bf16 = true,
                                .by_default = true,
                                .wish = ""}};

/* log2 must be exact at powers of two (LANGUAGE.md, Expressions), which OpenCL does not promise: 3 ulp. Its bounds for tanh (5), erf
 * and pow (16 ulp) are wider than ours as well. */
static bool native_math(AuKOp op)
{
    return op != AU_K_LOG2 && op != AU_K_TANH && op != AU_K_ERF && op != AU_K_POW;
}

static bool emit(AuArena *arena, AuDiags *diags, AuKernel *const *kernels, uint32_t count,
                 const AuArch *arch, AuCodeStage stage, uint32_t optimize, AuBlob *out)
{
    (void)arch, (void)optimize;
    return cprint_target(arena, diags, &opencl_dialect, kernels, count, stage, out);
}

const AuTarget au_target_opencl = {.name = "opencl",
                                   .format = AULE_CODE_OPENCL_C,
                                   .has_layouts = true,
                                   .has_handles = true,
                                   .archs = archs,
                                   .arch_count = sizeof archs / sizeof *archs,
                                   .native_math = native_math,
                                   .emit = emit};
