/* internal.h - what the files of the kernel IR share and nobody else sees. */
#ifndef AU_KERNEL_INTERNAL_H
#define AU_KERNEL_INTERNAL_H

#include "kernel.h"

/* A constant as bits of its scalar (i1 as 0 or 1), and back. */
uint64_t kernel_const_bits(const AuInstr *constant);
AuInstr kernel_const_of(AuKType type, uint64_t bits);
bool kernel_same_type(AuKType a, AuKType b);

/* The type that an operation has from its operands; void for one without result, {VOID, 1} where
 * operands do not fit. CONST, LOAD, VEC, CVT and BITCAST keep the type that the instruction already
 * says. */
AuKType kernel_type_of(const AuKernel *k, const AuInstr *in, const AuVal *operands);

/* Appends as it is: no folding, the type as the instruction says. */
AuVal kernel_append(AuKernel *k, AuInstr in, const AuVal *operands, uint32_t count);

/* Opens the body of an operation with regions, which is there already. */
void kernel_open(AuKernel *k, AuVal owner);

/* Puts an instruction that stands nowhere at the end of the innermost open region. */
void kernel_link(AuKernel *k, uint32_t i);

/* Rebuilds the tree in order. [visit] is called for each instruction (its operands already
 * replaced, the region it belongs to open for building) and gives the value that takes its place
 * everywhere: the instruction itself, which then stays, or what visit has built or knows instead.
 */
void kernel_rewrite(AuKernel *k, AuVal (*visit)(AuKernel *k, AuVal v, void *user), void *user);

/* What an immediate is called: a row of a table, or a map; NULL: it is a number. And back; -1: none. */
const char *kernel_imm_name(const AuKernel *k, const AuInstr *in);
int32_t kernel_imm_named(const AuKernel *k, AuKOp op, const char *text);

/* One instruction as kernel_print prints it, without region and end of line. */
void kernel_print_instr(const AuKernel *k, AuVal v, AuText *out);

/* What an instruction of ops.def (or SHUFFLE..., ELEMENT) may become:
 * an operand as it is (value), a constant (constant.op == AU_K_CONST), another instruction
 * (constant.op, operands), or nothing. */
typedef struct AuFold {
    AuVal value;
    AuInstr instr;
    AuVal operands[3];
    uint32_t count;
} AuFold;
AuFold kernel_fold(const AuKernel *k, const AuInstr *in, const AuVal *operands);

#endif
