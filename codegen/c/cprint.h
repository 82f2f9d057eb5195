/* cprint.h - prints kernels as C for people and for compilers of devices: OpenCL C here, other dialects from the same printer.
 * In:  verified kernels (kernel_verify), functions that the dialect lacks expanded (kernel_legalize_math).
 * Out: one file of text: the dialect's prelude, the helper functions that the kernels call, then each kernel below its banner.
 * Method: statements in the order of the IR. A value used once, in its own region, becomes part of the expression that uses it;
 *     loads only as far as nothing that they could see changes in between. Everything else is a constant declared where it is made.
 * Not: what a target may do (opencl.c), optimisation (the device's compiler). */
#ifndef AU_CODEGEN_CPRINT_H
#define AU_CODEGEN_CPRINT_H

#include "kernel.h"
#include "target.h"

typedef struct AuCPrinter AuCPrinter;

/* How tightly an expression binds, loosest first. */
typedef enum AuCBinding {
    C_TERNARY,
    C_OR,
    C_AND,
    C_BIT_OR,
    C_BIT_XOR,
    C_BIT_AND,
    C_EQUALITY,
    C_RELATION,
    C_SHIFT,
    C_SUM,
    C_PRODUCT,
    C_UNARY,
    C_PRIMARY
} AuCBinding;

/* The text of a value. 16-bit floats are bits (`ushort`) in most dialects, so two texts more may stand for one:
 * [wide], the same value as a float; [unrounded], the float that becomes this value when a store rounds it. */
typedef struct AuCExpr {
    const char *text; /* NULL: none */
    uint8_t binding;  /* AuCBinding */
    bool
        is_unsigned; /* an integer held in the unsigned type: its arithmetic wraps around by the rules of C */
    uint8_t wide_binding;
    const char *wide, *unrounded;
} AuCExpr;

/* A function that printed kernels may call: `result name(a a_, b b_, ...)`. Vectors call it as name_2, name_4, ..., which is made
 * from it element by element. Names are kept from variables. */
typedef struct AuCHelper {
    const char *name, *result;
    const char *parameters[3]; /* types of a, b, c; NULL: fewer */
    const char *body;          /* lines in braces */
} AuCHelper;

typedef struct AuCDialect {
    const char *name;                  /* in messages: "OpenCL C" */
    const char *target, *stage;        /* as in --target and --emit: "opencl", "opencl-c" */
    const char *prelude;               /* head of the file */
    const char *scalars[AU_SCALARS];   /* types of values */
    const char *unsigneds[AU_SCALARS]; /* of i32 and i64 */
    const char *elements[AU_SCALARS];  /* types of elements of arrays */
    const char *spaces[AU_LANE +
                       1]; /* what stands before the type of an array or pointer, with its blank */
    const char *lane, *executor; /* expressions; NULL: from [thread], with lanes side by side */
    const char *thread, *block,
        *blocks; /* expressions: position in the block; of the block, and how many there are, formats of the dimension */
    const char *barriers[2]; /* by AU_K_BARRIER's imm; [1] NULL: executors only have the block's */
    const char *after_barriers; /* the line after a loop that has barriers in it; NULL: none */
    const char *fence;          /* before and after AU_K_ATOMIC_INC */
    const char *vector,
        *element; /* formats: of type and elements; of a vector and the index of an element */
    const char *reinterpret; /* format: of a type and a value of as many bits */
    const char *half;        /* format: of a float, a constant of f16; NULL: its bits */
    const char *aligned_before,
        *aligned_after; /* formats of bytes, around an array's declaration */
    bool has_bools;     /* conditions of vectors are vectors of bool; else of int, 0 or -1 */
    bool offsets;       /* a sum with a constant is part of each expression that uses it */
    uint32_t widest;    /* elements of a vector at most; 0: 16 */
    const char
        *eight; /* then: type of the bits of 8 numbers of 16 bits, which are moved and no more */
    const char *unroll, *no_unroll; /* lines before a loop */
    const AuCHelper *helpers;       /* a helper may call earlier ones */
    uint32_t helper_count;
    const char *const *reserved; /* identifiers that variables must not take, NULL-ended */

    /* The pattern of an operation of ops.def, or of DOT2, by the types of its last operand and its result: %0 %1 %2 are the
     * operands, %t the result's type, %n the width or nothing, %w the same with an underscore, %i the instruction's number. NULL: there is no such operation. */
    const char *(*pattern)(const AuCPrinter *p, AuKOp op, AuKType of, AuKType to);
    /* The head of a kernel up to its `{`, and lines that open its body. */
    void (*open)(AuCPrinter *p);
    /* Lines that declare the arrays of the block, each of which is named. NULL: as arrays of the kernel. */
    void (*shared)(AuCPrinter *p);
    /* A value of the type at an index, without mask; and the statement that stores one. */
    AuCExpr (*load)(AuCPrinter *p, AuMem mem, AuCExpr index, AuKType type);
    const char *(*store)(AuCPrinter *p, AuMem mem, AuCExpr index, AuCExpr value, AuKType type);
    /* The expression of an atomic operation at an index; value.text is NULL for AU_K_ATOMIC_INC. */
    const char *(*atomic)(AuCPrinter *p, AuMem mem, AuCExpr index, AuCExpr value, uint32_t width);
} AuCDialect;

/* Appends the file to *out. false: the dialect cannot say something; every such place is in diags. */
bool cprint_kernels(AuArena *arena, AuDiags *diags, const AuCDialect *dialect,
                    AuKernel *const *kernels, uint32_t count, AuText *out);
/* The same as the code of a target that is source text: it has no other stage than the final one. */
bool cprint_target(AuArena *arena, AuDiags *diags, const AuCDialect *dialect,
                   AuKernel *const *kernels, uint32_t count, AuCodeStage stage, AuBlob *out);

#endif
