/* decay.c - is the decay of a recurrence at most 1, and is its logarithm in the script? Proved above 1: an error, the state
 * would grow without bound. Not proved either way: a note; the compiler then takes the chunked form that needs no bound. */
#include "check.h"

#include "interval.h"
#include "normal_form.h"

#include <math.h>

static void note_values(AuCheck *c, AuExpr decay)
{
    const AuExpr part = attn_log_of_value(c->a, decay, c->arena);
    if (!part.i) return;
    AuDiag *d =
        check_remark(c, AU_N0402, attn_at(c->a, part)->span,
                     "the logarithm of this decay is taken of its value, which is less exact "
                     "near 1; below 0 it is nan");
    au_add_note(c->diags, d, (AuSpan){0},
                "exp(x), sigmoid(x), pow(x, c), 1.0 - sigmoid(x), 1.0 - x, and products, quotients "
                "and choices of such keep it");
}

/* What is a number whatever the arguments are, infinite ones too, which intervals do not tell. */
static AuInterval range_of(const AuCheck *c, AuExpr decay)
{
    const AuNode *n = attn_at(c->a, attn_simplify_expr(c->a, decay));
    return n->op == AU_OP_F32 ? (AuInterval){n->number, n->number}
                              : attn_interval(c->a, decay, c->arena);
}

void check_decay(AuCheck *c, AuExpr decay, AuSpan span)
{
    const AuInterval range = range_of(c, decay);
    const char *always = isnan(range.low) ? "nan"
                         : range.high < 0 ? "negative"
                         : range.low > 1  ? "above 1"
                                          : NULL;
    if (always) {
        check_error(c, AU_E0410, span, "a decay is a factor between 0 and 1, this is always %s",
                    always);
        return;
    }
    if (range.high > 1) {
        AuDiag *d = check_remark(
            c, AU_N0401, span,
            "this decay is not proved to be at most 1; the form that needs no bound is chosen");
        au_add_note(
            c->diags, d, (AuSpan){0},
            "sigmoid(x), exp(-exp(a) * softplus(x)), and products and powers of such are proved");
    }
    note_values(c, decay);
}
