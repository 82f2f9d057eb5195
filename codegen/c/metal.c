/* metal.c - the target `metal`: source text in Metal's shading language for Apple's GPUs, compiled by the system when it is loaded. */
#include "metal.h"

#include <aule/artifact.h>

/* MSL 3.0 and the family Apple7 (M1, A14): pointers in the parameter block, simdgroup matrices, sums of f32 in device memory. bf16 is
 * bits there; matrices of it are multiplied as f32, which holds them exactly. */
static const AuArch archs[] = {
    {.name = "apple7",
     .caps = "metal",
     .features = "apple7 metal3",
     .f16 = true,
     .bf16 = true,
     .by_default = true,
     .wish = ""},
    /* M3, A17 Pro: operands of products straight from memory. */
    {.name = "apple9",
     .caps = "metal9",
     .features = "apple9 metal3",
     .f16 = true,
     .bf16 = true,
     .wish = ""},
};

/* MSL's bounds without fast math: rsqrt is correctly rounded, sin and cos have 4 ulp. exp, exp2 and logarithms have 4 where 2 are
 * allowed, tanh 5, pow 16; erf, expm1 and log1p are not there. */
static bool native_math(AuKOp op)
{
    return op == AU_K_RSQRT || op == AU_K_SQRT || op == AU_K_SIN || op == AU_K_COS;
}

static bool emit(AuArena *arena, AuDiags *diags, AuKernel *const *kernels, uint32_t count,
                 const AuArch *arch, AuCodeStage stage, uint32_t optimize, AuBlob *out)
{
    (void)arch, (void)optimize;
    return cprint_target(arena, diags, &metal_dialect, kernels, count, stage, out);
}

/* All of it: a kernel takes the memory of its block as an argument. */
static uint32_t shared_bytes(const AuKernel *k) { return kernel_shared_bytes(k, NULL); }

const AuTarget au_target_metal = {.name = "metal",
                                  .format = AULE_CODE_MSL,
                                  .same_code = true,
                                  .gathers = true,
                                  .archs = archs,
                                  .arch_count = sizeof archs / sizeof *archs,
                                  .native_math = native_math,
                                  .dynamic_shared = shared_bytes,
                                  .emit = emit};
