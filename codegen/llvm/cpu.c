/* cpu.c - the target `cpu`: kernels as host objects, through LLVM.
 *
 * A module a variant: every kernel becomes a function (emit.c), the module is verified, runs through a short list of passes
 * and becomes an object, LLVM IR or assembly. Objects define the kernels and need nothing: no libc, no libm, no other symbol.
 * Each call owns its LLVM context, so calls may run in parallel; LLVM's table of targets is filled once for the process.
 * Outputs of a kernel must not overlap its inputs or each other: their memories are emitted as not aliasing. */
#include "target.h"

#include "emit.h"
#include "llvm.h"

#include <assert.h>
#include <string.h>

/* caps: rows of compiler/machine/caps.def. features: what the runtime must find (aule_variant_v1.features). */
// clang-format off
static const AuArch archs[] = {
    {"x86-64-v3",      "avx2",       "avx2 fma f16c",                                  true, true, true, "", .machine = "x86-64", .plain = "x86-64-v3"},
    {"x86-64-v4",      "avx512",     "avx512f avx512bw avx512cd avx512dq avx512vl",    true, true, true, "", .machine = "x86-64", .plain = "x86-64-v4"},
    {"x86-64-v4-bf16", "avx512bf16", "avx512f avx512bw avx512cd avx512dq avx512vl avx512bf16", true, true, true, "fast-bf16-dot", .machine = "x86-64", .plain = "x86-64-v4"},
    {"x86-64-v4-amx",  "avx512amx",  "avx512f avx512bw avx512cd avx512dq avx512vl avx512bf16 amx-tile amx-bf16", true, true, true, "", .machine = "x86-64", .plain = "x86-64-v4"},
    {"aarch64",        "neon",       "neon",                                           true, true, false, "", .machine = "aarch64", .plain = "aarch64"},
};
/* ORDER archs. The middle levels of the x86-64 psABI; AArch64 as its base architecture, ARMv8.0-A. */
static const AuHost hosts[] = {
    {"x86_64-unknown-linux-gnu",  "x86-64-v3", "",            .plain = "", .gathers_words = true},
    {"x86_64-unknown-linux-gnu",  "x86-64-v4", "",            .plain = "", .gathers_words = true},
    {"x86_64-unknown-linux-gnu",  "x86-64-v4", "+avx512bf16", .plain = "", .gathers_words = true, .dot_bf16 = true},
    {"x86_64-unknown-linux-gnu",  "x86-64-v4", "+avx512bf16,+amx-tile,+amx-bf16", .plain = "", .gathers_words = true, .dot_bf16 = true, .tiles = true},
    {"aarch64-unknown-linux-gnu", "generic",   "+neon",       .plain = "+neon", .gathers_words = false},
};
// clang-format on
enum { ARCHS = sizeof archs / sizeof *archs };
static_assert(sizeof hosts / sizeof *hosts == ARCHS, "ORDER archs");

const AuHost *llvm_host(const AuArch *arch)
{
    for (uint32_t n = 0; n < ARCHS; n++)
        if (strcmp(archs[n].name, arch->name) == 0) return &hosts[n];
    return NULL;
}

/* Why these: sroa makes arrays of lanes registers; early-cse merges the splats and addresses that emission repeats;
 * instcombine brings addresses and masks into the forms that the target folds, which saves registers in inner loops; licm moves
 * invariants out of loops, where the kernel IR kept them near their use. More (gvn, dse, the whole of default<O3>) costs up to
 * eight times the time and gains nothing measurable: unrolling, packing and blocking were decided above. */
#define WHOLE                                                                                      \
    "function(sroa,early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg,"                 \
    "loop-mssa(licm),early-cse,simplifycfg)"
static const char *const pipelines[4] = {
    NULL, "function(sroa,early-cse,simplifycfg,loop-mssa(licm))", WHOLE, WHOLE};

static bool emit_cpu(AuArena *arena, AuDiags *diags, AuKernel *const *kernels, uint32_t count,
                     const AuArch *arch, AuCodeStage stage, uint32_t optimize, AuBlob *out)
{
    const AuHost *host = llvm_host(arch);
    LlvmUnit unit;
    if (!llvm_open(&unit, diags, host, "kernels", optimize, stage != AU_CODE_FINAL)) return false;
    AuEmit e = {.arena = arena, .diags = diags};
    emit_open(&e, host, unit.module);
    for (uint32_t n = 0; n < count && !e.failed; n++) emit_kernel(&e, kernels[n]);
    emit_close(&e);
    bool good = !e.failed && llvm_is_sound(&unit, diags, count ? kernels[0]->name : "") &&
                llvm_optimise(&unit, diags, pipelines[optimize > 3 ? 3 : optimize]);
    if (good && stage == AU_CODE_IR) {
        llvm_ir(&unit, arena, kernels, count, out);
    } else if (good) {
        good = llvm_emit(&unit, arena, diags, stage == AU_CODE_ASSEMBLY, out);
        const char *comment = strncmp(host->triple, "x86", 3) == 0 ? "#" : "//";
        if (good && stage == AU_CODE_ASSEMBLY)
            llvm_text(arena, kernels, count, comment, out->bytes, out->length, out);
    }
    return llvm_close(&unit, diags) && good;
}

static bool native_math(AuKOp op)
{
    (void)op;
    return false; /* kernel_legalize_math writes every one of them in arithmetic: vectors have no libm */
}

const AuTarget au_target_cpu = {
    .name = "cpu",
    .format = 0, /* AULE_CODE_HOST */
    .has_layouts = true,
    .archs = archs,
    .arch_count = ARCHS,
    .native_math = native_math,
    .emit = emit_cpu,
};
