/* refuse.c - what the language refuses by name, with what to use instead; and guesses for words that were misspelled. */
#include "check.h"
#include "foreign.h"

#include <string.h>

typedef enum RefusedKind { TWO_SWEEPS, KEY_ORDER, HEADS, PREVIOUS_TOKENS, NOT_CAUSAL } RefusedKind;

typedef struct Refusal {
    AuCode code;
    const char *message, *advice;
} Refusal;

// clang-format off
static const Refusal refusals[] = {
    [TWO_SWEEPS] = {AU_E0501, "needs two sweeps over the keys: whether a key counts depends on all the others",
        "weights must be known from running row scales; approximate with a sharper softmax (a factor on the score) or a threshold "
        "from an input: where(score < threshold[b, h, q_idx], -inf, score)"},
    [KEY_ORDER] = {AU_E0502, "makes weights depend on the order in which keys are visited",
        "row scales are sums and maxima, which do not depend on the order; express position through kv_idx in score_mod, "
        "or use a recurrence (linear)"},
    [HEADS] = {AU_E0503, "mixes scores or weights across heads, each of which is computed by itself",
        "mix the heads before, in the projections of q and k, or after, in the projection of the output"},
    [PREVIOUS_TOKENS] = {AU_E0505, "reads previous tokens, a recurrence sees the present token only",
        "shift or convolve the tensor before the call and pass it as an input"},
    [NOT_CAUSAL] = {AU_E0506, "is not possible: a recurrence is causal, token t sees the tokens up to t",
        "use the score-matrix form (online identity), or run the recurrence over the reversed tokens too and add the results"},
};
// clang-format on

bool refuse_word(AuCheck *c, const char *word, AuSpan span)
{
    // clang-format off
    static const struct { const char *word; RefusedKind kind; } words[] = {
#define REFUSED(word, kind) {#word, kind},
#include "refused.def"
#undef REFUSED
    };
    // clang-format on
    for (uint32_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(words[i].word, word) != 0) continue;
        const Refusal *r = &refusals[words[i].kind];
        AuDiag *d = check_error(c, r->code, span, "'%s' %s", word, r->message);
        au_add_note(c->diags, d, (AuSpan){0}, "%s", r->advice);
        return true;
    }
    return false;
}

static AuDiag *refuse(AuCheck *c, RefusedKind kind, AuSpan span, const char *message)
{
    AuDiag *d = check_error(c, refusals[kind].code, span, "%s", message);
    au_add_note(c->diags, d, (AuSpan){0}, "%s", refusals[kind].advice);
    return d;
}

AuDiag *refuse_previous_tokens(AuCheck *c, AuSpan span)
{
    return refuse(c, PREVIOUS_TOKENS, span,
                  "this reads another token than t, a recurrence sees the present token only");
}

AuDiag *refuse_mixing(AuCheck *c, AuSpan span)
{
    return refuse(
        c, HEADS, span,
        "the score is that of one pair in one head: it has no indices to reach others by");
}

void refuse_sum_of_heads(AuCheck *c, AuSpan span)
{
    refuse(c, HEADS, span, "this sums over heads, each of which is computed by itself");
}

AuDiag *refuse_noncausal(AuCheck *c, AuSpan span, const char *why)
{
    return refuse(c, NOT_CAUSAL, span, why);
}

AuDiag *refuse_mask_by_score(AuCheck *c, AuSpan span)
{
    AuDiag *d =
        check_error(c, AU_E0504, span,
                    "a mask does not see the score: it says which pairs are computed at all");
    au_add_note(c->diags, d, (AuSpan){0},
                "give -inf in score_mod: where(condition on the score, score, -inf)");
    return d;
}

void refuse_assignment(AuCheck *c, const AuStmt *stmt, const AuSymbol *s)
{
    if (s && s->kind == AU_SYM_VALUE && strcmp(s->what, "the number of a loop") == 0) {
        check_error(c, AU_E0507, stmt->name.span,
                    "'%s' is the number of a loop, which the loop alone sets", s->name);
        return;
    }
    if (s && s->kind == AU_SYM_VALUE && s->assignable) {
        AuDiag *d =
            check_error(c, AU_E0507, stmt->name.span,
                        "'%s' is set outside of a loop: a let is set anew in loops alone", s->name);
        au_add_note(c->diags, d, (AuSpan){0},
                    "'let %s_2 = ...' names another value, to be used from here on", s->name);
        return;
    }
    AuDiag *d = check_error(c, AU_E0507, stmt->name.span,
                            "assignments are for row scales and finals of online functions, and "
                            "for a let in a loop");
    au_add_note(c->diags, d, (AuSpan){0},
                "'let %s = ...' names a value; a new value needs a new name", stmt->name.text);
}

/* ---- guesses */

enum { LONGEST_WORD = 40, MOST_CANDIDATES = 1000 };

/* Edits (insert, delete, replace, exchange neighbours) from one word to the other, or [bound] if there are as many or more. */
static uint32_t edit_distance(const char *x, const char *y, uint32_t bound)
{
    uint32_t rows[3][LONGEST_WORD + 1];
    const uint32_t m = (uint32_t)strlen(x), n = (uint32_t)strlen(y);
    if (m > LONGEST_WORD || n > LONGEST_WORD) return bound;
    for (uint32_t j = 0; j <= n; j++) rows[0][j] = j;
    for (uint32_t i = 1; i <= m; i++) {
        uint32_t *row = rows[i % 3], least = i;
        const uint32_t *up = rows[(i + 2) % 3], *up2 = rows[(i + 1) % 3];
        row[0] = i;
        for (uint32_t j = 1; j <= n; j++) {
            uint32_t best = up[j - 1] + (x[i - 1] != y[j - 1]);
            if (up[j] + 1 < best) best = up[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            const bool exchanged = i > 1 && j > 1 && x[i - 1] == y[j - 2] && x[i - 2] == y[j - 1];
            if (exchanged && up2[j - 2] + 1 < best) best = up2[j - 2] + 1;
            row[j] = best;
            if (best < least) least = best;
        }
        if (least > bound) return bound; /* rows do not fall by more than one */
    }
    return rows[m % 3][n];
}

/* No guesses for errors that are not shown any more. */
AuGuess guess_new(const AuCheck *c, const char *word)
{
    const uint32_t length = (uint32_t)strlen(word);
    const bool shown = c->diags->errors < 100;
    return (AuGuess){word, NULL, !shown ? 0 : length < 3 ? 1 : length < 6 ? 2 : 3};
}

void guess_try(AuGuess *g, const char *candidate)
{
    if (!g->distance) return;
    const uint32_t distance = edit_distance(g->word, candidate, g->distance + 1);
    const bool tie = distance == g->distance && g->best && strcmp(candidate, g->best) < 0;
    if (distance >= g->distance && !tie) return;
    if (distance >= strlen(g->word)) return; /* nothing in common */
    g->best = candidate;
    g->distance = distance;
}

void guess_set(AuGuess *g, const AuNameSet *set)
{
    if (set->count > MOST_CANDIDATES) return;
    for (uint32_t i = 0; i < set->size; i++)
        if (set->slots[i].value) guess_try(g, set->slots[i].name);
}

void guess_scope(AuGuess *g, const AuScope *scope)
{
    for (; scope; scope = scope->parent) guess_set(g, scope->names);
}

void guess_add_note(AuCheck *c, AuDiag *diag, const AuGuess *g)
{
    if (foreign_word(c->diags, diag, g->word) || !g->best) return;
    diag->fix = g->best;
    au_add_note(c->diags, diag, (AuSpan){0}, "did you mean '%s'?", g->best);
}
