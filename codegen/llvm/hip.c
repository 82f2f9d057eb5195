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
/* caps: rows of compiler/machine/caps.def. features: what the device must report. Machines of one generation differ in what no kernel
 * uses, so they have their eldest's row; code of a generic ISA runs on all that it names (runtime/backends/hip.c, covered). */
#define ARCH(name, row, by_default) {name, row, name, true, true, by_default, "", .machine = NULL}
static const AuArch archs[] = {
    ARCH("gfx908",  "gfx908",  true),  ARCH("gfx90a",  "gfx90a",  true),  ARCH("gfx942",  "gfx942",  true),  ARCH("gfx950",  "gfx950",  true),
    ARCH("gfx1030", "gfx1030", false), ARCH("gfx1100", "gfx1100", true),  ARCH("gfx1101", "gfx1100", false), ARCH("gfx1102", "gfx1100", false),
    ARCH("gfx1103", "gfx1100", false), ARCH("gfx1150", "gfx1100", false), ARCH("gfx1151", "gfx1100", false), ARCH("gfx1152", "gfx1100", false),
    ARCH("gfx1153", "gfx1100", false), ARCH("gfx1200", "gfx1200", true),  ARCH("gfx1201", "gfx1200", false),
    ARCH("gfx9-4-generic", "gfx942", false), ARCH("gfx10-3-generic", "gfx1030", false),
    ARCH("gfx11-generic", "gfx1100", false), ARCH("gfx12-generic", "gfx1200", false),
};
/* ORDER archs. xnack and sramecc are left open: the code runs with and without. */
#define GPU(name, wave) {"amdgcn-amd-amdhsa", name, "", .device = &wave.device}
#define RDNA(name, ...) {GPU(name, hip_wave32), .rows_cross = true, .mixes = true, __VA_ARGS__}
static const HipHost gpus[] = {
    {GPU("gfx908", hip_wave64), .mfma = true, .half_rate_bf16 = true, .mixes = true},
    {GPU("gfx90a", hip_wave64), .mfma = true, .one_file = true, .mixes = true},
    {GPU("gfx942", hip_wave64), .mfma = true, .one_file = true, .mixes = true},
    {GPU("gfx950", hip_wave64), .mfma = true, .one_file = true, .mfma_wide = true, .turns = true, .copies_direct = true, .halves_swap = true},
    RDNA("gfx1030", .dots = true),  RDNA("gfx1100", .wmma11 = true), RDNA("gfx1101", .wmma11 = true), RDNA("gfx1102", .wmma11 = true),
    RDNA("gfx1103", .wmma11 = true), RDNA("gfx1150", .wmma11 = true), RDNA("gfx1151", .wmma11 = true), RDNA("gfx1152", .wmma11 = true),
    RDNA("gfx1153", .wmma11 = true), RDNA("gfx1200", .wmma12 = true), RDNA("gfx1201", .wmma12 = true),
    {GPU("gfx9-4-generic", hip_wave64), .mfma = true, .one_file = true, .mixes = true, .generic = true}, RDNA("gfx10-3-generic", .dots = true, .generic = true),
    RDNA("gfx11-generic", .wmma11 = true, .generic = true), RDNA("gfx12-generic", .wmma12 = true, .generic = true),
};
// clang-format on
enum { ARCHS = sizeof archs / sizeof *archs, CODE_OBJECT = 500, GENERIC_CODE_OBJECT = 600 };
static_assert(sizeof gpus / sizeof *gpus == ARCHS, "ORDER archs");

/* As for NVIDIA's (cuda.c). */
#define WHOLE                                                                                      \
    "function(sroa,simplifycfg,early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg,"     \
    "loop-mssa(licm),early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg"
#define EACH WHOLE ")"
/* Machines with one file of registers take two f32 at once. Beside products of matrices LLVM's pass finds what hip_pairs does not, above all
 * multiplications. Kernels of multiply-adds alone it makes no shorter (forward of mha, f32, width 64: 28953 cycles of 32 x 32 pairs by the
 * emulator, 28979 without), gives backward 140 registers too many, and takes half of the compiler's time. */
#define PAIRS  "function(slp-vectorizer)"
#define LITTLE "function(sroa,early-cse,simplifycfg,loop-mssa(licm))"
static const char *const pipelines[4] = {NULL, LITTLE, EACH, EACH};

/* Version 5: what ROCm takes from 5.3 on. Generic ISAs begin with 6. */
static void set_version(const LlvmUnit *unit, bool generic)
{
    static const char flag[] = "amdhsa_code_object_version";
    LLVMValueRef version = LLVMConstInt(LLVMInt32TypeInContext(unit->context),
                                        generic ? GENERIC_CODE_OBJECT : CODE_OBJECT, false);
    LLVMAddModuleFlag(unit->module, LLVMModuleFlagBehaviorError, flag, sizeof flag - 1,
                      LLVMValueAsMetadata(version));
}

/* Has one of them copies that go on by themselves? */
static bool copies(AuKernel *const *kernels, uint32_t count)
{
    for (uint32_t n = 0; n < count; n++)
        for (uint32_t i = 1; i < kernels[n]->instr_count; i++)
            if (kernels[n]->instrs[i].op == AU_K_COPY_ASYNC) return true;
    return false;
}

static bool emit_hip(AuArena *arena, AuDiags *diags, AuKernel *const *kernels, uint32_t count,
                     const AuArch *arch, AuCodeStage stage, uint32_t optimize, AuBlob *out)
{
    const AuHost *host = &gpus[arch - archs].host;
    LlvmUnit unit;
    if (!llvm_open(&unit, diags, host, "kernels", optimize, stage != AU_CODE_FINAL)) return false;
    AuEmit e = {.arena = arena, .diags = diags};
    set_version(&unit, gpus[arch - archs].generic);
    emit_open(&e, host, unit.module);
    for (uint32_t n = 0; n < count && !e.failed; n++) emit_kernel(&e, kernels[n]);
    emit_close(&e);
    const char *first = count ? kernels[0]->name : "";
    const bool products = gpu_any_multiplies_halves(kernels, count),
               joins = optimize > 1 && !products && gpus[arch - archs].mfma;
    bool good = !e.failed && llvm_is_sound(&unit, diags, first) &&
                (!joins || llvm_optimise(&unit, diags, GPU_JOIN)) &&
                llvm_optimise(&unit, diags, pipelines[optimize > 3 ? 3 : optimize]);
    if (good && optimize > 1 && gpus[arch - archs].one_file) {
        hip_pairs(arena, unit.module, copies(kernels, count));
        good =
            llvm_is_sound(&unit, diags, first) && (!products || llvm_optimise(&unit, diags, PAIRS));
    }
    if (good && optimize > 1 && gpus[arch - archs].mixes) {
        hip_halves(unit.module);
        hip_bf16(unit.module);
        good = llvm_is_sound(&unit, diags, first);
    }
    if (good && (gpus[arch - archs].wmma11 || gpus[arch - archs].wmma12)) {
        hip_pace(unit.module);
        hip_stay(unit.module);
        good = llvm_is_sound(&unit, diags, first);
    }
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

/* The number behind a key of the code object's notes (MessagePack, big-endian) or of their text. */
static uint32_t number_at(const unsigned char *at, size_t length)
{
    enum { BYTE = 0xcc, WORD = 0xcd, LONG = 0xce, BIG = 128 };
    if (length > 5 && at[0] == LONG)
        return (uint32_t)at[1] << 24 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 8 | at[4];
    if (length > 3 && at[0] == WORD) return (uint32_t)at[1] << 8 | at[2];
    if (length > 2 && at[0] == BYTE) return at[1];
    if (length > 1 && at[0] != ':') return at[0] < BIG ? at[0] : 0;
    uint32_t number = 0;
    while (length && (*at == ':' || *at == ' ')) at++, length--;
    for (; length && *at >= '0' && *at <= '9'; at++, length--) number = number * 10 + (*at - '0');
    return number;
}

static uint32_t spilled(const AuBlob *code)
{
    static const char key[] = ".vgpr_spill_count";
    const size_t size = sizeof key - 1;
    const unsigned char *at = code->bytes, *end = at + code->length;
    uint32_t sum = 0;
    while (at && (size_t)(end - at) >= size &&
           (at = memchr(at, key[0], (size_t)(end - at) - size + 1)) != NULL) {
        if (memcmp(at, key, size) == 0) sum += number_at(at + size, (size_t)(end - at) - size);
        at++;
    }
    return sum;
}

const AuTarget au_target_hip = {
    .name = "hip",
    .on_request = true,
    .apart = true,
    .format = 3, /* AULE_CODE_HSACO */
    .archs = archs,
    .arch_count = ARCHS,
    .native_math = gpu_native_math,
    .emit = emit_hip,
    .spilled = spilled,
};
