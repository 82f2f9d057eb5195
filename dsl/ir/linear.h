/* linear.h - recurrences evaluated by their normal form: the oracle of their kernels, with states, packed sequences and
 * gradients, token after token or in chunks (dsl/recurrence). attn_interpret evaluates them by the words of the
 * language instead, without any of that; `aule check` compares both. */
#ifndef AU_DSL_ATTN_LINEAR_H
#define AU_DSL_ATTN_LINEAR_H

#include "normal_form.h"

/* Arrays are f64, C order. N states: one a batch, or one a packed sequence. */
typedef struct AuLinearCall {
    AuOracleCall call; /* sizes, tensors, parameters, o (NULL: not wanted), diags */
    AuEngine how;
    const int64_t *cu_seqlens; /* [sequences + 1]: where each begins; NULL: not packed */
    int64_t sequences;
    const double *state_in, *sum_in; /* [N, H, K, V], with `norm` [N, H, K]; NULL: 0 */
    double *state_out, *sum_out;     /* NULL: not wanted */
    int64_t
        reset; /* token before which all is forgotten, counted from 1: its decays are 0; 0: none */
    const double *dout; /* [B, H, T, V]; of gradients alone, like those that follow */
    const double *dstate_out, *dsum_out; /* NULL: 0 */
    double *dstate_in, *dsum_in;         /* NULL: not wanted */
    double *const *grads;                /* one a tensor, set; entries NULL: not wanted */
} AuLinearCall;

/* False: message in *why. */
bool attn_linear_forward(const AuAttn *a, const AuNormal *n, const AuLinearCall *call,
                         AuArena *scratch, const char **why);
/* Everything of the forward, too. */
bool attn_linear_gradients(const AuAttn *a, const AuNormal *n, const AuNormalGrads *g,
                           const AuLinearCall *call, AuArena *scratch, const char **why);

#endif
