/* parts.c - weights that are at most 1, whatever the scores are, so that a factor fits beside them in f16.
 *
 * Let the weight of a score s be exp(s - F), F a final, and dF/ds the weight too, for each score of the row. Then
 *
 *     d exp(F) / ds = exp(F) exp(s - F) = exp(s),   so   exp(F) = exp(s) + C, and C does not depend on s.
 *
 * exp(F) is positive for all s, also where exp(s) is as near to 0 as one likes: C is not negative. So F >= s, and the weight is at
 * most 1: of softmax with any sinks, which are C, and of a function of a user's own that is one. That dF/ds is the weight was found on
 * random rows, as all is that is known of online functions; where F is made of sums, products, exponentials, logarithms and maxima, equal
 * there is equal everywhere. Anything else (a sigmoid, powers, weights that a weight_mod changes) has no such bound. */
#include "deriver.h"

/* F of exp(score - F), or of exp(score - F - R), R what rounding took from F; negative: it is neither. */
static int32_t reference_of(const AuDeriver *d)
{
    const AuAttn *a = d->a;
    const AuExpr e = a->online->forward;
    if (attn_at(a, e)->op != AU_OP_EXP) return -1;
    AuExpr difference = attn_arg(a, e, 0);
    if (attn_at(a, difference)->op != AU_OP_SUB) return -1;
    const AuNode *rest = attn_at(a, attn_arg(a, difference, 1));
    if (attn_at(a, attn_arg(a, difference, 0))->op == AU_OP_SUB) {
        if (rest->op != AU_OP_FINAL || !a->online->finals[rest->integer].kept) return -1;
        difference = attn_arg(a, difference, 0);
    }
    const AuNode *final = attn_at(a, attn_arg(a, difference, 1));
    return attn_at(a, attn_arg(a, difference, 0))->op == AU_OP_SCORE && final->op == AU_OP_FINAL
               ? final->integer
               : -1;
}

/* Is all that depends on scores in [e] made of functions that are what they are near any point? */
static bool is_analytic(const AuDeriver *d, AuExpr e)
{
    static const bool scores[AU_OP_COUNT] = {[AU_OP_SCORE] = true, [AU_OP_STATE] = true};
    static const bool good[AU_OP_COUNT] = {
        [AU_OP_ROWMAX] = true,   [AU_OP_ROWSUM] = true, [AU_OP_ADD] = true,
        [AU_OP_SUB] = true,      [AU_OP_MUL] = true,    [AU_OP_DIV] = true,
        [AU_OP_NEG] = true,      [AU_OP_MAX] = true,    [AU_OP_EXP] = true,
        [AU_OP_EXP2] = true,     [AU_OP_EXPM1] = true,  [AU_OP_LOG] = true,
        [AU_OP_LOG2] = true,     [AU_OP_LOG1P] = true,  [AU_OP_SOFTPLUS] = true,
        [AU_OP_LOGADDEXP] = true};
    return e.i && derive_is_made_by(d, e, scores, good);
}

bool derive_weights_are_parts(const AuDeriver *d)
{
    const AuOnline *online = d->a->online;
    const int32_t final = reference_of(d);
    if (final < 0 || d->a->weight_mod.i || !d->finals[final].slope.i ||
        !derive_is_weight(d, d->finals[final].slope))
        return false;
    for (uint32_t n = 0; n < online->scale_count; n++)
        if (!is_analytic(d, online->scales[n].next)) return false;
    return is_analytic(d, online->finals[final].value);
}
