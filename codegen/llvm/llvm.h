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
/* [passes] as opt -passes= takes them; NULL: none. */
bool llvm_optimise(LlvmUnit *unit, AuDiags *diags, const char *passes);
bool llvm_is_sound(LlvmUnit *unit, AuDiags *diags, const char *kernel);
/* The banners of the kernels as comments, then [body]; or the module as text. */
void llvm_text(AuArena *arena, AuKernel *const *kernels, uint32_t count, const char *comment,
               const char *body, size_t length, AuBlob *out);
void llvm_ir(LlvmUnit *unit, AuArena *arena, AuKernel *const *kernels, uint32_t count, AuBlob *out);
/* link.c: an object of an AMD GPU becomes what drivers load. */
bool llvm_link_code_object(AuArena *arena, AuDiags *diags, AuBlob *object);
bool llvm_close(LlvmUnit *unit,
                AuDiags *diags); /* false: LLVM complained meanwhile, now a diagnostic */

#endif
