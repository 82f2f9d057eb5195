/* calls_ir.h - what the calls*.c files share: LLVM IR under construction as text, which LLVM then reads.
 * Text, since what is written is mostly fixed and is easier to follow as it stands than as calls that
 * build it. Every value that a call binds lies in one array of 64-bit words, %b. */
#ifndef AU_LLVM_CALLS_IR_H
#define AU_LLVM_CALLS_IR_H

#include "../calls.h"

#include "llvm.h"

enum { CALLS_WORDS = 64 }; /* of features */

typedef struct AuCalls {
    AuArena *arena;
    AuDiags *diags;
    AuText text;
    uint32_t next;              /* number of the next value or label */
    const aule_attention_v1 *a; /* the present one */
    uint32_t param_at, tensor_at[AULE_MAX_TENSORS], region_at, workspace_at, bytes_at, parallel_at,
        user_at, words;         /* in %b */
    bool knows[AULE_MAX_SIZES]; /* sizes that the operation has */
    const char *slots_given;    /* i1, of append: is there a tensor of slots? NULL: it has none */
    const char **messages;
    uint32_t message_count, message_capacity;
    const char *features[CALLS_WORDS]; /* asked for so far: bit n of @features */
    uint32_t feature_count;
    const char **kernels; /* named so far */
    uint32_t kernel_count, kernel_capacity;
    bool failed;
} AuCalls;

typedef struct AuCallValue {
    const char *name;
    bool is_float; /* double, else i64 */
} AuCallValue;

/* "  %v7 = ..."; gives "%v7". */
const char *calls_value(AuCalls *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *calls_load(AuCalls *c, uint32_t word);
void calls_store(AuCalls *c, uint32_t word, const char *value);
/* Where the i1 [holds] is not true, the function returns minus the number of the message. */
void calls_check(AuCalls *c, const char *holds, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* calls_expr.c: a launch expression on the sizes and parameters in %b. *wrong is an i1: true where it
 * has no value (it divides by zero). */
AuCallValue calls_expr(AuCalls *c, const aule_expr *e, const char **wrong);
/* The same of an integer expression of sizes; no value: checked with a message about [what]. */
const char *calls_count(AuCalls *c, const aule_expr *e, const char *what);

/* calls_bind.c: the fields read into %b and checked; gives the dtype. */
const char *calls_bind(AuCalls *c, const AuCall *call);

/* calls_host.c: text that does not depend on the attention, and @features for the words asked for. */
uint64_t calls_features(AuCalls *c, const char *words); /* as bits */
void calls_host(AuCalls *c, bool is_x86);

/* calls_run.c: the function that runs one variant: `i64 @run.ENTRY(ptr %b, i1 %measure)`. */
void calls_variant(AuCalls *c, const aule_variant_v1 *variant);

#endif
