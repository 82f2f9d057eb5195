/* hip.c - the target `hip`: kernels as AMD's machine code, through LLVM, without ROCm's device libraries or any other.
 *
 * A variant is one code object (ELF): LLVM makes the object, lld links it in the process. Code of one architecture runs on that
 * alone. Arrays of lanes become registers, because their loops are unrolled while emitting; what does not is scratch memory, which
 * is slow, and said (N0801). */
#include "target.h"

#include "hip.h"
#include "llvm.h"

#include <assert.h>
#include <string.h>

// clang-format off
/* caps: rows of compiler/machine/caps.def. features: what the device must report. */
static const AuArch archs[] = {
    {"gfx908",  "gfx908",  "gfx908",  true, true, true, "", NULL},
    {"gfx90a",  "gfx90a",  "gfx90a",  true, true, true, "", NULL},
    {"gfx942",  "gfx942",  "gfx942",  true, true, true, "", NULL},
    {"gfx950",  "gfx950",  "gfx950",  true, true, true, "", NULL},
    {"gfx1100", "gfx1100", "gfx1100", true, true, true, "", NULL},
    {"gfx1200", "gfx1200", "gfx1200", true, true, true, "", NULL},
};
/* ORDER archs. xnack and sramecc are left open: the code runs with and without. */
#define GPU(name, wave) {"amdgcn-amd-amdhsa", name, "", .device = &wave.device}
static const HipHost gpus[] = {
    {GPU("gfx908",  hip_wave64), .mfma = true, .half_rate_bf16 = true},
    {GPU("gfx90a",  hip_wave64), .mfma = true},
    {GPU("gfx942",  hip_wave64), .mfma = true},
    {GPU("gfx950",  hip_wave64), .mfma = true, .mfma_wide = true},
    {GPU("gfx1100", hip_wave32), .rows_cross = true, .wmma11 = true},
    {GPU("gfx1200", hip_wave32), .rows_cross = true, .wmma12 = true},
};
// clang-format on
enum { ARCHS = sizeof archs / sizeof *archs, CODE_OBJECT = 500 };
static_assert(sizeof gpus / sizeof *gpus == ARCHS, "ORDER archs");

/* As for NVIDIA's (cuda.c). */
#define WHOLE                                                                                      \
    "function(sroa,simplifycfg,early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg,"     \
    "loop-mssa(licm),early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg)"
static const char *const pipelines[4] = {
    NULL, "function(sroa,early-cse,simplifycfg,loop-mssa(licm))", WHOLE, WHOLE};

/* Version 5: what ROCm takes from 5.3 on. */
static void set_version(const LlvmUnit *unit)
{
    static const char flag[] = "amdhsa_code_object_version";
    LLVMValueRef version = LLVMConstInt(LLVMInt32TypeInContext(unit->context), CODE_OBJECT, false);
    LLVMAddModuleFlag(unit->module, LLVMModuleFlagBehaviorError, flag, sizeof flag - 1,
                      LLVMValueAsMetadata(version));
}

static bool emit_hip(AuArena *arena, AuDiags *diags, AuKernel *const *kernels, uint32_t count,
                     const AuArch *arch, AuCodeStage stage, uint32_t optimize, AuBlob *out)
{
    const AuHost *host = &gpus[arch - archs].host;
    LlvmUnit unit;
    if (!llvm_open(&unit, diags, host, "kernels", optimize, stage != AU_CODE_FINAL)) return false;
    AuEmit e = {.arena = arena, .diags = diags};
    set_version(&unit);
    emit_open(&e, host, unit.module);
    for (uint32_t n = 0; n < count && !e.failed; n++) emit_kernel(&e, kernels[n]);
    emit_close(&e);
    bool good = !e.failed && llvm_is_sound(&unit, diags, count ? kernels[0]->name : "") &&
                llvm_optimise(&unit, diags, pipelines[optimize > 3 ? 3 : optimize]);
    if (good && stage == AU_CODE_IR) {
        llvm_ir(&unit, arena, kernels, count, out);
    } else if (good) {
        good = llvm_emit(&unit, arena, diags, stage == AU_CODE_ASSEMBLY, out);
        if (good && stage == AU_CODE_ASSEMBLY)
            llvm_text(arena, kernels, count, ";", out->bytes, out->length, out);
    }
    good = llvm_close(&unit, diags) && good;
    return good && (stage != AU_CODE_FINAL || llvm_link_code_object(arena, diags, out));
}

const AuTarget au_target_hip = {
    .name = "hip",
    .on_request = true,
    .format = 3, /* AULE_CODE_HSACO */
    .archs = archs,
    .arch_count = ARCHS,
    .native_math = gpu_native_math,
    .emit = emit_hip,
};
