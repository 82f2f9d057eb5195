/* result.h - what calls of the public interface give back: data, diagnostics, and their memory. */
#ifndef AU_DRIVER_RESULT_H
#define AU_DRIVER_RESULT_H

#include "attn.h"
#include "aule/aulec.h"

struct aulec_result {
    AuArena *arena;
    AuDiags *diags;
    const void *data;
    size_t length;
    const char *rendered;
    aulec_diagnostic *list;
    size_t count;
};

/* NULL: no memory. The caller guards result->arena before it allocates from it. */
aulec_result *result_new(void);
/* Renders the diagnostics; nothing is reported after it. */
void result_finish(aulec_result *result);

/* The attention [which] of a script, or its only one if NULL, without errors; NULL: diagnostics. */
AuAttn *result_attention(AuArena *arena, AuDiags *diags, const char *name, const char *text,
                         size_t length, const char *which);

#endif
