/* expr.h - launch expressions: postfix code of artifacts over sizes and params (aule/artifact.h).
 * Evaluation checks everything as it goes, so that a damaged artifact gives an error and never a wild read. */
#ifndef AU_RUNTIME_EXPR_H
#define AU_RUNTIME_EXPR_H

#include "base.h"

/* Values of the names an expression may use. */
typedef struct AuEnv {
    const int64_t *sizes;
    const aule_value *params;
    size_t size_count, param_count;
    uint32_t processors; /* 0: not known, and then as many as anyone asks for */
} AuEnv;

/* NULL: [value] is set; else what is wrong, a text without end: "divides by zero". */
const char *rt_evaluate(const aule_expr *expr, const AuEnv *env, aule_value *value);

/* Does it ask for a size that no tensor of the call gave (-1)? */
bool rt_expr_lacks_size(const aule_expr *expr, const AuEnv *env);
bool rt_expr_has_size(const aule_expr *expr, uint32_t size);
/* The size that [expr] is and nothing more, or -1. */
int32_t rt_expr_size(const aule_expr *expr);
/* The size that it is a part of, [size / *parts], or -1. */
int32_t rt_expr_part_of(const aule_expr *expr, int64_t *parts);

/* Adds "window = -1, T = 64" for every name in [expr]. */
void rt_expr_names(AuText *text, const aule_expr *expr, const aule_attention_v1 *attention,
                   const AuEnv *env);

/* Adds [expr] as a script has it, "max(G, H)"; "computed" where that would be long. */
void rt_expr_text(AuText *text, const aule_expr *expr, const aule_attention_v1 *attention);

/* Adds "3" or "0.5". */
void rt_value_text(AuText *text, const aule_value *value);

#endif
