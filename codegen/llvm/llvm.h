/* llvm.h - one module of LLVM with its machine: opened, turned into bytes, closed. Shared by the files of this folder. */
#ifndef AU_LLVM_H
#define AU_LLVM_H

#include "emit.h"
#include "target.h"

#include <llvm-c/TargetMachine.h>

typedef struct LlvmUnit {
    LLVMContextRef context;
    LLVMModuleRef module;
    LLVMTargetMachineRef machine;
    char complaint
        [512]; /* the first error LLVM reports; a buffer, since nothing may be thrown through LLVM's frames */
} LlvmUnit;

const AuHost *llvm_host(const AuArch *arch); /* cpu.c; NULL: not of target cpu */

/* [keep_names]: values and blocks keep their names, for text. false: diagnostics say why, nothing to close. */
bool llvm_open(LlvmUnit *unit, AuDiags *diags, const AuHost *host, const char *name,
               uint32_t optimize, bool keep_names);
bool llvm_emit(LlvmUnit *unit, AuArena *arena, AuDiags *diags, bool assembly, AuBlob *out);
bool llvm_close(LlvmUnit *unit,
                AuDiags *diags); /* false: LLVM complained meanwhile, now a diagnostic */

#endif
