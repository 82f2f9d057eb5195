/* assemble.h - forms as a code object: one kernel, which takes a State from memory, goes to the form of a number, and puts the State back. */
#ifndef INSTRUCTION_ASSEMBLE_H
#define INSTRUCTION_ASSEMBLE_H

#include "arena.h"
#include "diag.h"
#include "instruction.h"
#include "target.h"

/* What the kernel is called with. */
typedef struct Arguments {
    uint64_t before, after;
    uint32_t form, unused;
} Arguments;

/* refused[n]: the assembler does not take form n. False: diags say what went wrong. */
bool assemble(AuArena *arena, AuDiags *diags, const Machine *machine, const Form *forms,
              uint32_t count, bool *refused, AuBlob *code);

#endif
