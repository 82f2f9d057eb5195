/* llvm.c - LLVM's context, module and target machine of one piece of code (llvm.h).
 * The only state of the process is LLVM's own table of targets, which is filled once, whichever thread comes first. LLVM's
 * handler of fatal errors is left alone: it belongs to the process, and this may be a library inside another compiler. */
#include "llvm.h"

#include <llvm-c/Analysis.h>
#include <llvm-c/Target.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <stdio.h>
#include <string.h>
#include <threads.h>

static void fill_targets(void)
{
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeX86AsmParser(); /* of the calls' questions to the processor */
    LLVMInitializeAArch64TargetInfo();
    LLVMInitializeAArch64Target();
    LLVMInitializeAArch64TargetMC();
    LLVMInitializeAArch64AsmPrinter();
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    LLVMInitializeAMDGPUTargetInfo();
    LLVMInitializeAMDGPUTarget();
    LLVMInitializeAMDGPUTargetMC();
    LLVMInitializeAMDGPUAsmPrinter();
}

static void on_diagnostic(LLVMDiagnosticInfoRef info, void *user)
{
    LlvmUnit *unit = user;
    if (LLVMGetDiagInfoSeverity(info) != LLVMDSError || unit->complaint[0]) return;
    char *message = LLVMGetDiagInfoDescription(info);
    snprintf(unit->complaint, sizeof unit->complaint, "%s", message);
    LLVMDisposeMessage(message);
}

static LLVMTargetMachineRef open_machine(LLVMTargetRef target, const AuHost *host,
                                         uint32_t optimize)
{
    static const LLVMCodeGenOptLevel levels[4] = {LLVMCodeGenLevelNone, LLVMCodeGenLevelLess,
                                                  LLVMCodeGenLevelDefault, LLVMCodeGenLevelDefault};
    LLVMTargetMachineOptionsRef options = LLVMCreateTargetMachineOptions();
    LLVMTargetMachineOptionsSetCPU(options, host->cpu);
    LLVMTargetMachineOptionsSetFeatures(options, host->features);
    LLVMTargetMachineOptionsSetCodeGenOptLevel(options, levels[optimize > 3 ? 3 : optimize]);
    LLVMTargetMachineOptionsSetRelocMode(options, LLVMRelocPIC);
    LLVMTargetMachineRef machine =
        LLVMCreateTargetMachineWithOptions(target, host->triple, options);
    LLVMDisposeTargetMachineOptions(options);
    return machine;
}

bool llvm_open(LlvmUnit *unit, AuDiags *diags, const AuHost *host, const char *name,
               uint32_t optimize, bool keep_names)
{
    static once_flag once = ONCE_FLAG_INIT;
    call_once(&once, fill_targets);
    *unit = (LlvmUnit){0};
    LLVMTargetRef target = NULL;
    char *message = NULL;
    if (LLVMGetTargetFromTriple(host->triple, &target, &message)) {
        au_error(diags, AU_E0004, (AuSpan){0}, "this LLVM has no target %s: %s", host->triple,
                 message);
        LLVMDisposeMessage(message);
        return false;
    }
    unit->context = LLVMContextCreate();
    LLVMContextSetDiscardValueNames(unit->context, !keep_names);
    LLVMContextSetDiagnosticHandler(unit->context, on_diagnostic, unit);
    unit->module = LLVMModuleCreateWithNameInContext(name, unit->context);
    unit->machine = open_machine(target, host, optimize);
    LLVMSetTargetMachineAsmVerbosity(unit->machine, keep_names);
    LLVMSetTarget(unit->module, host->triple);
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(unit->machine);
    LLVMSetModuleDataLayout(unit->module, layout);
    LLVMDisposeTargetData(layout);
    return true;
}

bool llvm_optimise(LlvmUnit *unit, AuDiags *diags, const char *passes)
{
    if (!passes) return true;
    LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
    LLVMErrorRef error = LLVMRunPasses(unit->module, passes, unit->machine, options);
    LLVMDisposePassBuilderOptions(options);
    if (!error) return true;
    char *message = LLVMGetErrorMessage(error);
    au_error(diags, AU_E0004, (AuSpan){0}, "code: passes: %s", message);
    LLVMDisposeErrorMessage(message);
    return false;
}

bool llvm_is_sound(LlvmUnit *unit, AuDiags *diags, const char *kernel)
{
    char *message = NULL;
    const bool broken = LLVMVerifyModule(unit->module, LLVMReturnStatusAction, &message);
    if (broken)
        au_error(diags, AU_E0004, (AuSpan){0}, "code of kernel '%s' is not valid: %s", kernel,
                 message);
    LLVMDisposeMessage(message);
    return !broken;
}

static void add_banner(AuText *text, AuKernel *const *kernels, uint32_t count, const char *comment)
{
    for (uint32_t n = 0; n < count; n++)
        for (const char *line = kernels[n]->banner; line && *line;) {
            const size_t length = strcspn(line, "\n");
            au_text_add(text, "%s %.*s\n", comment, (int)length, line);
            line += length + (line[length] == '\n');
        }
}

void llvm_text(AuArena *arena, AuKernel *const *kernels, uint32_t count, const char *comment,
               const char *body, size_t length, AuBlob *out)
{
    AuText text = {.arena = arena};
    add_banner(&text, kernels, count, comment);
    au_text_bytes(&text, body, length);
    *out = (AuBlob){au_text_str(&text), text.length};
}

void llvm_ir(LlvmUnit *unit, AuArena *arena, AuKernel *const *kernels, uint32_t count, AuBlob *out)
{
    char *text = LLVMPrintModuleToString(unit->module);
    llvm_text(arena, kernels, count, ";", text, strlen(text), out);
    LLVMDisposeMessage(text);
}

bool llvm_emit(LlvmUnit *unit, AuArena *arena, AuDiags *diags, bool assembly, AuBlob *out)
{
    char *message = NULL;
    LLVMMemoryBufferRef buffer = NULL;
    if (LLVMTargetMachineEmitToMemoryBuffer(unit->machine, unit->module,
                                            assembly ? LLVMAssemblyFile : LLVMObjectFile, &message,
                                            &buffer)) {
        au_error(diags, AU_E0004, (AuSpan){0}, "code cannot be written: %s", message);
        LLVMDisposeMessage(message);
        return false;
    }
    const size_t length = LLVMGetBufferSize(buffer);
    void *bytes = au_alloc(arena, length + 1);
    memcpy(bytes, LLVMGetBufferStart(buffer), length);
    LLVMDisposeMemoryBuffer(buffer);
    *out = (AuBlob){bytes, length};
    return true;
}

bool llvm_close(LlvmUnit *unit, AuDiags *diags)
{
    LLVMDisposeTargetMachine(unit->machine);
    LLVMDisposeModule(unit->module);
    LLVMContextDispose(unit->context);
    if (!unit->complaint[0]) return true;
    au_error(diags, AU_E0004, (AuSpan){0}, "code: LLVM: %s", unit->complaint);
    return false;
}
