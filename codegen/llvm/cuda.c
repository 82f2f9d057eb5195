/* cuda.c - the target `cuda`: kernels as PTX, through LLVM, without libdevice or any other library.
 *
 * A module a variant. The PTX is as old as the architecture allows, since the driver of the machine must know it; it runs on
 * every later GPU. Arrays of lanes become registers, because their loops are unrolled while emitting; what does not is local
 * memory, which is slow, and said (N0801). */
#include "target.h"

#include "cuda.h"
#include "cuda_gate.h"
#include "llvm.h"

#include <assert.h>
#include <string.h>

// clang-format off
/* caps: rows of compiler/machine/caps.def; of sm_90a what sm_90 does, until schedules make groups of warps for it. features: what the driver must report. */
static const AuArch archs[] = {
    {"sm_70",  "sm_70",  "sm_70 ptx64",  true, true, true, "", .machine = NULL},
    {"sm_75",  "sm_75",  "sm_75 ptx65",  true, true, false, "", .machine = NULL},
    {"sm_80",  "sm_80",  "sm_80 ptx70",  true, true, true, "", .machine = NULL},
    {"sm_86",  "sm_86",  "sm_86 ptx71",  true, true, true, "", .machine = NULL},
    {"sm_89",  "sm_89",  "sm_89 ptx78",  true, true, false, "", .machine = NULL},
    {"sm_90",  "sm_90",  "sm_90 ptx81",  true, true, true, "", .machine = NULL},
    {"sm_90a", "sm_90a", "sm_90a ptx81", true, true, false, "", .machine = NULL},
    {"sm_120", "sm_120", "sm_120 ptx87", true, true, false, "", .machine = NULL},
};
/* ORDER archs. PTX 6.4 for sm_70, not 6.3: mma of its own; 8.1 for sm_90, not 7.8: red.add of vectors. */
#define GPU(number, more, ptx) {{"nvptx64-nvidia-cuda", "sm_" #number more, "+ptx" #ptx, .device = &cuda_device.device}, number, .groups = sizeof more > 1}
static const CudaHost gpus[] = {GPU(70, "", 64), GPU(75, "", 65), GPU(80, "", 70), GPU(86, "", 71), GPU(89, "", 78), GPU(90, "", 81), GPU(90, "a", 81), GPU(120, "", 87)};
// clang-format on
enum { ARCHS = sizeof archs / sizeof *archs };
static_assert(sizeof gpus / sizeof *gpus == ARCHS, "ORDER archs");

/* As on hosts (cpu.c), but blocks are joined first: instcombine moves what is used in the next block there, and what it had
 * loaded stays in registers. The code generator adds passes of its own for addresses. */
#define WHOLE                                                                                      \
    "function(sroa,simplifycfg,early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg,"     \
    "loop-mssa(licm),early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg)"
static const char *const pipelines[4] = {
    NULL, "function(sroa,early-cse,simplifycfg,loop-mssa(licm))", WHOLE, WHOLE};

/* Not an error: the code is right. */
static void note_local_memory(AuDiags *diags, AuKernel *const *kernels, uint32_t count,
                              const char *text)
{
    if (strstr(text, "__local_depot"))
        au_remark(diags, AU_N0801, (AuSpan){0},
                  "kernel '%s' and its like keep arrays in local memory",
                  count ? kernels[0]->name : "");
}

/* Labels that tables for debuggers would refer to, and the head of an empty one: ptxas takes the labels for places that are branched
 * to and allots registers otherwise. `.file` and `.loc` alone leave the machine code as it is. */
static AuBlob without_labels(AuArena *arena, AuBlob text)
{
    static const char *const dropped[] = {"$L__tmp", "$L__func_", "\t.section\t.debug_macinfo"};
    AuText out = {.arena = arena};
    const char *end = (const char *)text.bytes + text.length;
    for (const char *line = text.bytes; line < end;) {
        const char *after = memchr(line, '\n', (size_t)(end - line));
        const size_t size = (size_t)((after ? after + 1 : end) - line);
        bool keep = true;
        for (uint32_t n = 0; n < 3; n++) keep &= strncmp(line, dropped[n], strlen(dropped[n])) != 0;
        if (keep) au_text_bytes(&out, line, size);
        line += size;
    }
    return (AuBlob){au_text_str(&out), out.length};
}

/* Conversions of numbers of 8 bits that were left as they are: of sm_89 they are as old as PTX 8.1. */
#define CODES_PTX "81"
static bool have_codes(AuKernel *const *kernels, uint32_t count)
{
    bool any = false;
    for (uint32_t n = 0; n < count; n++) any |= kernel_has_codes(kernels[n]);
    return any;
}

static bool emit_cuda(AuArena *arena, AuDiags *diags, AuKernel *const *kernels, uint32_t count,
                      const AuArch *arch, AuCodeStage stage, uint32_t optimize, AuBlob *out)
{
    CudaHost gpu = gpus[arch - archs];
    if (have_codes(kernels, count) && gpu.capability < 90) gpu.host.features = "+ptx" CODES_PTX;
    const AuHost *host = &gpu.host;
    LlvmUnit unit;
    if (!llvm_open(&unit, diags, host, "kernels", optimize, true)) return false;
    CudaGate *gate = gpu.groups ? cuda_gate_open(unit.context) : NULL;
    AuEmit e = {.arena = arena, .diags = diags};
    emit_open(&e, host, unit.module);
    emit_lines_open(&e, kernels, count);
    for (uint32_t n = 0; n < count && !e.failed; n++) emit_kernel(&e, kernels[n]);
    emit_close(&e);
    const bool joins = optimize > 1 && !gpu_any_multiplies_halves(kernels, count);
    bool good = !e.failed && llvm_is_sound(&unit, diags, count ? kernels[0]->name : "") &&
                (!joins || llvm_optimise(&unit, diags, GPU_JOIN)) &&
                llvm_optimise(&unit, diags, pipelines[optimize > 3 ? 3 : optimize]);
    if (good && stage == AU_CODE_IR) {
        llvm_ir(&unit, arena, kernels, count, out);
    } else if (good && (good = llvm_emit(&unit, arena, diags, true, out))) {
        if (e.lines) *out = without_labels(arena, *out);
        llvm_text(arena, kernels, count, "//", out->bytes, out->length, out);
        note_local_memory(diags, kernels, count, out->bytes);
    }
    good = llvm_close(&unit, diags) && good;
    cuda_gate_close(gate);
    return good;
}

const AuTarget au_target_cuda = {
    .name = "cuda",
    .on_request = true,
    .has_layouts = true,
    .format = 2, /* AULE_CODE_PTX */
    .archs = archs,
    .arch_count = ARCHS,
    .native_math = gpu_native_math,
    .codes_feature = "ptx" CODES_PTX,
    .dynamic_shared = cuda_dynamic_shared,
    .emit = emit_cuda,
};
