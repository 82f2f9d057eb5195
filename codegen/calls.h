/* calls.h - functions for C programs that run an artifact's host kernels without libaule.
 *
 * A function takes the address of one structure of 64-bit fields (AuCallField, in order), which the
 * driver also declares in the header that it writes. It checks the arguments, chooses among the
 * variants of one operation, and runs its launches: by itself, or through a function of the caller's
 * that runs parts of a grid in parallel. It needs nothing: no libc, no runtime. For an operation
 * `forward` of an attention `mha` the object defines
 *
 *     int mha_forward(const args *);               0, or the number of an error, whose text is
 *     const char *mha_message(int);                (one for all operations)
 *     int64_t mha_forward_workspace(const args *); bytes that the call needs, or minus an error
 *
 * Everything else in the object is local to it. */
#ifndef AU_CODEGEN_CALLS_H
#define AU_CODEGEN_CALLS_H

#include "target.h"

#include "aule/artifact.h"

typedef enum AuCallFieldKind {
    AU_CALL_STRUCT_SIZE,     /* bytes of the structure */
    AU_CALL_DTYPE,           /* of operands: aule_dtype */
    AU_CALL_SIZE,            /* index: size */
    AU_CALL_TENSOR,          /* index: tensor; an address */
    AU_CALL_STRIDES,         /* index: tensor; address of its strides, NULL: compact */
    AU_CALL_PARAM,           /* index: param; double or int64_t; with `optional` the address of one,
                                NULL: the default value */
    AU_CALL_WORKSPACE,       /* address */
    AU_CALL_WORKSPACE_BYTES, /* what it has */
    AU_CALL_PARALLEL,        /* address of the caller's parallel loop; NULL: none */
    AU_CALL_USER             /* what is passed to it */
} AuCallFieldKind;

typedef struct AuCallField {
    AuCallFieldKind kind;
    uint32_t index;
    bool optional;
    const char *name;
} AuCallField;

/* One operation of an attention. */
typedef struct AuCall {
    const aule_attention_v1 *attention;
    const char *operation;
    const AuCallField *fields;
    uint32_t field_count;
} AuCall;

/* The object with the functions of [calls], which are grouped by attention; kernels are those of the
 * variants of target `cpu`. [text] (may be NULL) receives it as LLVM IR. */
bool au_calls_object(AuArena *arena, AuDiags *diags, const AuCall *calls, uint32_t count,
                     const AuArch *arch, AuBlob *out);

/* Joins objects into one, undefined and global names as they are. */
bool au_link_object(AuArena *arena, AuDiags *diags, const AuBlob *objects, uint32_t count,
                    AuBlob *out);

#endif
