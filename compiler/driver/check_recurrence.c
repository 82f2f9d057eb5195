/* check_recurrence.c - see check_recurrence.h. */
#include "check_recurrence.h"

#include "linear_laws.h"
#include "trial.h"

static void report_form(const AuAttn *a, const AuNormal *n, AuText *out)
{
    static const char *const feedbacks[] = {"", ", feedback by the key (erase)",
                                            ", feedback of its own (lowrank)"};
    static const char *const classes[] = {"no decay", "a constant decay", "a decay a token",
                                          "a decay a channel"};
    au_text_add(out, "  a recurrence with %s%s%s\n", classes[n->decay], feedbacks[n->feedback],
                n->before ? ", read before the token" : "");
    if (n->decay == AU_DECAY_NONE) return;
    const AuExpr g = n->slot[AU_SLOT_LOG_DECAY];
    au_text_add(out, "       its logarithm: ");
    attn_print_expr(a, g, out);
    au_text_add(out, n->log_decay.high <= 0 ? ", proved at most 0" : ", not proved at most 0");
    if (n->log_decay.low >= -1e6) au_text_add(out, " and at least %.4g", n->log_decay.low);
    au_text_add(out, "\n");
}

bool check_recurrence(AuArena *arena, AuDiags *diags, AuAttn *a, const aulec_check_options *options,
                      AuText *out)
{
    AuTrial few, more;
    attn_simplify(a);
    const AuNormal n = attn_normal_form(a, arena);
    const AuNormalGrads *g = attn_normal_gradients(a, &n, arena, diags);
    if (!g ||
        !trial_make(arena, diags, a, AU_TRIAL_FEW, options->values, AU_DT_OPERAND, options->seed,
                    &few) ||
        !trial_make(arena, diags, a, AU_TRIAL_USUAL, options->values, AU_DT_F32, options->seed,
                    &more))
        return false;
    report_form(a, &n, out);
    const AuOracleCall few_call = trial_call(&few, diags), more_call = trial_call(&more, diags);
    const AuLaws laws = attn_check_linear(a, &n, g, &few_call, &more_call, arena);
    bool good = true;
    for (uint32_t i = 0; i < laws.count; i++) {
        const AuLaw *law = &laws.at[i];
        if (law->why_not)
            au_text_add(out, "  --   %s: not tried, %s\n", law->what, law->why_not);
        else
            au_text_add(out, "  %s %s%s%s\n", law->broken ? "FAIL" : "ok  ", law->what,
                        law->broken ? ": " : "", law->broken ? law->broken : "");
        if (!law->broken) continue;
        au_error(diags, AU_E0606, a->span, "%s: %s", law->what, law->broken);
        good = false;
    }
    return good;
}
