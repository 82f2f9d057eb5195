/* check.c - aulec_check: the laws of the language tried on one script, and its mask drawn. */
#include "check_recurrence.h"
#include "far.h"
#include "findings.h"
#include "mask_plot.h"
#include "result.h"

#include "front.h"

#include <stddef.h>
#include <string.h>

typedef struct Check {
    AuArena *arena;
    AuDiags *diags;
    const aulec_check_options *options;
    AuText *out;
    bool options_are_wrong;
} Check;

static const char far_remedy[] =
    "`kept rest` with what is lost, exp(score - lse - rest) (docs/language.md, section 10)";

enum { MOST_TILES = 64, USUAL_COLUMNS = 80, MOST_COLUMNS = 200 };

static bool fail_trial(Check *c, const AuAttn *a, const char *why)
{
    au_error(c->diags, AU_E0605, a->span, "%s", why);
    return false;
}

/* ---- the mask */

static uint32_t most_tiles(const aulec_check_options *o)
{
    const uint32_t columns = o->columns == 0             ? USUAL_COLUMNS
                             : o->columns > MOST_COLUMNS ? MOST_COLUMNS
                                                         : o->columns;
    return o->as_svg ? MOST_TILES : mask_plot_most(columns);
}

static bool plot(Check *c, AuAttn *a)
{
    AuTrial trial;
    AuMaskPlot made;
    const char *why = NULL;
    if (!trial_make(c->arena, c->diags, a, AU_TRIAL_LONG, c->options->values, AU_DT_F32,
                    c->options->seed, &trial))
        return false;
    if (!mask_plot_make(c->arena, &trial, c->diags, most_tiles(c->options), &made, &why))
        return fail_trial(c, a, why);
    if (c->options->as_svg)
        mask_plot_svg(&made, c->out);
    else {
        au_text_add(c->out, "  mask\n");
        mask_plot_text(&made, c->out);
    }
    return true;
}

/* ---- what the data of a trial cannot show */

static void not_tested(Check *c, const AuTrial *t, const char *what)
{
    au_text_add(c->out, "  --   not tested: %s, where S = %lld, T = %lld; --shape gives others\n",
                what, (long long)t->shapes[0][2], (long long)t->shapes[1][2]);
}

/* The trial that kernels are given: does its mask leave out pairs, and have its rows several keys? Where one says so, the rest
 * follows from it. */
static bool look_at_rows(Check *c, const AuAttn *a)
{
    AuTrial t;
    const char *why = NULL;
    if (!trial_make(c->arena, c->diags, a, AU_TRIAL_USUAL, c->options->values, AU_DT_F32,
                    c->options->seed, &t))
        return false;
    const int64_t B = t.shapes[0][0], H = t.shapes[0][1], S = t.shapes[0][2], T = t.shapes[1][2];
    const AuOracleCall call = trial_call(&t, c->diags);
    uint8_t *map = AU_NEW_ARRAY(c->arena, uint8_t, (size_t)(S * T + 1));
    int64_t pairs = 0, longest = 0;
    for (int64_t n = 0; n < B * H; n++) {
        if (!attn_mask_map(a, &call, n / H, n % H, map, c->arena, &why))
            return fail_trial(c, a, why);
        for (int64_t i = 0; i < S; i++) {
            int64_t keys = 0;
            for (int64_t j = 0; j < T; j++) keys += map[i * T + j];
            pairs += keys;
            longest = keys > longest ? keys : longest;
        }
    }
    if (pairs == 0)
        not_tested(c, &t, "anything but empty rows: no pair takes part");
    else if (longest == 1)
        not_tested(c, &t, "weights: no row has more than one key");
    else if (a->mask.i && pairs == B * H * S * T)
        not_tested(c, &t, "the mask: every pair takes part");
    return true;
}

/* ---- laws */

/* Messages of laws that the front end tells, too, begin with the clause themselves. */
static const char *without_clause(const AuFinding *f)
{
    const size_t length = strlen(f->clause);
    const bool begins = strncmp(f->message, f->clause, length) == 0;
    return begins && strncmp(f->message + length, ": ", 2) == 0 ? f->message + length + 2
                                                                : f->message;
}

static void report(Check *c, const AuAttn *a, const AuFindings *found)
{
    for (uint32_t n = 0; n < found->count; n++) {
        const AuFinding *f = &found->at[n];
        const char *message = without_clause(f);
        au_text_add(c->out, "  FAIL %s: %s\n", f->clause, message);
        if (f->right) au_text_add(c->out, "       right would be: %s\n", f->right);
        au_error(c->diags, AU_E0606, f->span.source ? f->span : a->span, "%s: %s%s%s", f->clause,
                 message, f->right ? "; right would be " : "", f->right ? f->right : "");
    }
    if (!found->count) au_text_add(c->out, "  ok   tiles of keys, forward, backward, combine\n");
    if (found->has_differences && found->all_zero)
        au_text_add(c->out, "  ok   gradients, beside central differences; not tested: %s, all 0\n",
                    found->all_zero);
    else if (found->has_differences)
        au_text_add(c->out, "  ok   gradients, beside central differences\n");
    else
        au_text_add(c->out, "  --   gradients beside central differences: %s\n",
                    found->why_not ? found->why_not : "not tried");
}

/* Rows that inputs put far below 0: what the laws, which are tried in f64, cannot find. */
static bool try_far_rows(Check *c, const AuAttn *a, const AuGrads *g)
{
    const char *inputs = far_inputs(c->arena, a), *message = NULL;
    AuTrial t;
    if (!g || !inputs) return true;
    if (!trial_make(c->arena, c->diags, a, AU_TRIAL_FAR, c->options->values, AU_DT_F32,
                    c->options->seed, &t))
        return false;
    switch (far_try(c->arena, c->diags, &t, g, &message)) {
    case FAR_GOOD:
        au_text_add(c->out, "  ok   gradients of rows far below 0: %s = -1e9\n", inputs);
        return true;
    case FAR_LOSSY:
        au_text_add(
            c->out,
            "  --   not tested: rows far below 0: f32 holds nothing else beside %s = -1e9\n",
            inputs);
        return true;
    case FAR_WRONG:
        au_text_add(c->out, "  FAIL forward: %s\n       right would be: %s\n", message, far_remedy);
        au_error(c->diags, AU_E0606, a->online->span, "forward: %s; right would be %s", message,
                 far_remedy);
        return false;
    case FAR_FAILED: return false;
    }
    return false;
}

static bool laws(Check *c, AuAttn *a)
{
    AuTrial trial;
    AuDiags *quiet = au_diags_new(c->arena); /* sizes that a `require` refuses: no differences */
    const bool made = trial_make(c->arena, quiet, a, AU_TRIAL_FEW, c->options->values,
                                 AU_DT_OPERAND, c->options->seed, &trial);
    const AuOracleCall call = made ? trial_call(&trial, c->diags) : (AuOracleCall){0};
    const AuFindings found = attn_check(a, made ? &call : NULL, c->arena, c->diags);
    report(c, a, &found);
    return found.count == 0 && try_far_rows(c, a, found.grads);
}

static bool check_attention(Check *c, AuAttn *a)
{
    if (c->options->as_svg && a->linear)
        return fail_trial(c, a, "a recurrence has no mask that could be drawn");
    if (c->options->as_svg) return plot(c, a);
    au_text_add(c->out, "%s\n", a->name);
    if (a->linear) return check_recurrence(c->arena, c->diags, a, c->options, c->out);
    const bool drawn = plot(c, a); /* first: laws() changes the attention */
    const bool looked = drawn && look_at_rows(c, a);
    return laws(c, a) && looked;
}

static bool run(Check *c, const char *name, const char *text, size_t length)
{
    AuNames *names = au_names_new(c->arena);
    AuScript *script =
        front_parse(c->arena, names, c->diags, au_source_add(c->diags, name, text, length));
    uint32_t count = 0, checked = 0;
    AuAttn **all = front_check(c->arena, names, c->diags, script, &count);
    const bool good_script = c->diags->errors == 0;
    bool good = good_script;
    for (uint32_t n = 0; good && n < count; n++) {
        if (c->options->attention && strcmp(c->options->attention, all[n]->name) != 0) continue;
        if (checked++ && c->options->as_svg) { /* a document holds one drawing */
            au_error(c->diags, AU_E0604, all[n]->span,
                     "%s has several attentions: name the one to draw", name);
            return false;
        }
        good &= check_attention(c, all[n]);
    }
    /* What the script is not to blame for. */
    c->options_are_wrong = good_script && c->diags->last && c->diags->last->code == AU_E0601;
    if (c->diags->errors || checked) return good;
    if (c->options->attention)
        au_error(c->diags, AU_E0601, (AuSpan){0}, "the script has no attention '%s'",
                 c->options->attention);
    else
        au_error(c->diags, AU_E0604, (AuSpan){0}, "%s has no attention", name);
    c->options_are_wrong = c->options->attention != NULL;
    return false;
}

aulec_status aulec_check(const char *name, const char *text, size_t length,
                         const aulec_check_options *options, aulec_result **result)
{
    aulec_check_options given = {.struct_size = sizeof given};
    if (!name || !text || !result || length > UINT32_MAX / 2 ||
        (options && (options->struct_size < offsetof(aulec_check_options, columns) ||
                     options->struct_size > sizeof *options)))
        return AULEC_ERROR_USAGE;
    if (options) memcpy(&given, options, options->struct_size);
    aulec_result *r = result_new();
    jmp_buf edge;
    if (!r || setjmp(edge)) {
        aulec_result_free(r);
        return AULEC_ERROR_MEMORY;
    }
    au_arena_guard(r->arena, &edge);
    AuText out = {.arena = r->arena};
    Check c = {.arena = r->arena, .diags = r->diags, .options = &given, .out = &out};
    const bool good = run(&c, name, text, length);
    r->data = au_text_str(&out);
    r->length = out.length;
    result_finish(r);
    *result = r;
    return good ? AULEC_OK : c.options_are_wrong ? AULEC_ERROR_USAGE : AULEC_ERROR_SCRIPT;
}
