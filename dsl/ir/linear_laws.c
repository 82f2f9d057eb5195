/* linear_laws.c - see linear_laws.h. Each law compares two ways to everything that a recurrence makes: outputs, last
 * states, and gradients of tensors and of first states. */
#include "linear_laws.h"
#include "linear_trial.h"

#include <math.h>
#include <string.h>

static void tell(Laws *l, const char *what, const char *broken, const char *why_not)
{
    const AuLaw law = {what, broken, why_not};
    AU_PUSH(l->arena, l->out.at, l->out.count, l->out.capacity, law);
}

static const char *const cuts =
    "cut anywhere, states carried; packed, with lengths of 0; steps of one token";
static const char *const gradients =
    "gradients of tensors and first states, beside central differences";

/* ---- the laws */

static void try_words(Laws *l, const AuOracleCall *c)
{
    AuLinearCall call = laws_call(l, c, laws_extent(l, c, 0, 0));
    const Made words = laws_made(l, c, laws_extent(l, c, 0, 0)),
               made = laws_made(l, c, laws_extent(l, c, 0, 0));
    AuOracleCall plain = *c;
    const char *why = NULL;
    plain.o = words.o.at;
    call.state_in = call.sum_in = NULL;
    if (!laws_run(l, &call, &made, false)) return;
    if (!attn_interpret(l->a, &plain, l->arena, &why)) {
        l->why = why;
        return;
    }
    tell(l, "the normal form, beside what the slots say",
         laws_compare_part(l, &made.o, &words.o, NULL, 1e-10, 0), NULL);
}

static void try_chunks(Laws *l, const AuOracleCall *c)
{
    static const int64_t chunks[] = {1, 16, 64};
    const size_t B = laws_extent(l, c, 0, 0);
    AuLinearCall call = laws_call(l, c, B);
    const Made steps = laws_made(l, c, B), made = laws_made(l, c, B), single = laws_made(l, c, B);
    const char *off = NULL;
    if (!laws_run(l, &call, &steps, true)) return;
    for (int n = 0; n < 3 && !off; n++) {
        call.how.chunk = chunks[n];
        if (!laws_run(l, &call, &made, true)) return;
        off = laws_compare(l, &made, &steps, NULL, 1e-9);
        if (off) off = au_format(l->arena, "chunks of %d: %s", (int)chunks[n], off);
    }
    tell(l, "chunks of 1, 16 and 64 tokens, forward and backward", off, NULL);
    call.how = (AuEngine){.single = true};
    if (!laws_run(l, &call, &single, true)) return;
    call.how.chunk = 64;
    if (!laws_run(l, &call, &made, true)) return;
    off = laws_compare(l, &made, &steps, &single, 4e-6);
    tell(l, "chunks in f32: errors within three times those of single tokens, gradients four times",
         off, NULL);
}

static void carry(double *to, const double *from, size_t state, size_t size, int by)
{
    if (to && from)
        memcpy(to + (size_t)((int64_t)state + by) * size, from + state * size, size * sizeof *to);
}

/* The sequence in [pieces], states carried forwards and their gradients backwards, beside the whole. */
static const char *try_pieces(Laws *l, const AuOracleCall *c, const int64_t *cu, size_t pieces,
                              AuLinearCall *whole_call, const Made *whole)
{
    AuLinearCall call = laws_call(l, c, pieces);
    const Made made = laws_made(l, c, pieces);
    const size_t state = whole->state.count, sum = whole->sum.count;
    double *state_in = (double *)(uintptr_t)call.state_in,
           *sum_in = (double *)(uintptr_t)call.sum_in,
           *dstate = (double *)(uintptr_t)call.dstate_out,
           *dsum = (double *)(uintptr_t)call.dsum_out;
    call.cu_seqlens = cu;
    call.sequences = (int64_t)pieces;
    call.how = whole_call->how;
    carry(state_in, whole_call->state_in, 0, state, 0);
    carry(sum_in, whole_call->sum_in, 0, sum, 0);
    carry(dstate + (pieces - 1) * state, whole_call->dstate_out, 0, state, 0);
    if (dsum) carry(dsum + (pieces - 1) * sum, whole_call->dsum_out, 0, sum, 0);
    for (size_t n = 0; n < pieces; n++) {
        if (!laws_run(l, &call, &made, false)) return NULL;
        if (n + 1 == pieces) break;
        carry(state_in, made.state.at, n, state, 1);
        carry(sum_in, made.sum.at, n, sum, 1);
    }
    for (size_t n = pieces; n-- > 0;) {
        if (!laws_run(l, &call, &made, true)) return NULL;
        if (!n) break;
        carry(dstate, made.dstate.at, n, state, -1);
        carry(dsum, made.dsum.at, n, sum, -1);
    }
    Made joined = made;
    joined.state.at += (pieces - 1) * state, joined.sum.at += (pieces - 1) * sum;
    return laws_compare(l, &joined, whole, NULL, 1e-9);
}

/* What its slots and its out_mod are made of. */
static const bool *marked(const Laws *l)
{
    bool *mark = AU_NEW_ARRAY(l->arena, bool, l->a->node_count);
    for (uint32_t s = 0; s < AU_SLOT_COUNT; s++) attn_mark(l->a, l->n->slot[s], mark);
    attn_mark(l->a, l->a->out_mod, mark);
    return mark;
}

static bool is_index_of_token(const AuNode *n)
{
    return n->op == AU_OP_INDEX && n->integer & (AU_AX_TOK | AU_AX_Q);
}

/* Does the node take the token's index as a number? A read of the token's own element does not. */
static bool takes_position(const AuAttn *a, AuExpr e)
{
    const AuNode *n = attn_at(a, e);
    for (uint32_t k = 0; k < n->count; k++) {
        if (!is_index_of_token(attn_at(a, attn_arg(a, e, k)))) continue;
        if (n->op != AU_OP_INPUT || a->tensors[n->integer].axes[k].i != a->tensors[1].axes[2].i)
            return true;
    }
    return false;
}

static bool has_position(const Laws *l)
{
    const AuAttn *a = l->a;
    const bool *mark = marked(l);
    const AuNode *length = attn_at(a, a->tensors[1].axes[2]);
    for (uint32_t i = 1; i < a->node_count; i++) {
        const AuNode *n = &a->nodes[i];
        if (mark[i] && takes_position(a, (AuExpr){i})) return true;
        if (mark[i] && n->op == AU_OP_SIZE && length->op == AU_OP_SIZE &&
            n->integer == length->integer)
            return true;
    }
    return false;
}

static void try_cuts(Laws *l, const AuOracleCall *c)
{
    const int64_t T = (int64_t)laws_extent(l, c, 0, 2);
    if (laws_extent(l, c, 0, 0) != 1 || T < 1) {
        tell(l, cuts, NULL, "the script fixes its batches");
        return;
    }
    if (has_position(l)) {
        tell(l, cuts, NULL, "the script reads positions, which begin again in each part");
        return;
    }
    AuLinearCall call = laws_call(l, c, 1);
    const Made whole = laws_made(l, c, 1);
    call.how.chunk = 2;
    if (!laws_run(l, &call, &whole, true)) return;
    int64_t *steps = AU_NEW_ARRAY(l->arena, int64_t, T + 1);
    for (int64_t t = 0; t <= T; t++) steps[t] = t;
    const char *off = try_pieces(l, c, steps, (size_t)T, &call, &whole);
    if (off) off = au_format(l->arena, "token by token: %s", off);
    for (int64_t t = 0; t <= T && !off; t++) {
        const int64_t cu[] = {0, t, t, T};
        off = try_pieces(l, c, cu, 3, &call, &whole);
        if (off) off = au_format(l->arena, "cut behind %d tokens: %s", (int)t, off);
    }
    tell(l, cuts, off, NULL);
}

/* With the decays of one token set to 0, the state before it does not matter, nor has it a gradient. */
static void try_reset(Laws *l, const AuOracleCall *c)
{
    static const char *const what = "a decay of 0 forgets";
    const size_t T = laws_extent(l, c, 0, 2), V = laws_extent(l, c, 2, 3),
                 B = laws_extent(l, c, 0, 0);
    const char *why_not = l->n->decay <= AU_DECAY_CONSTANT ? "the decay is not a token's"
                          : l->n->feedback == AU_FEEDBACK_OWN
                              ? "lowrank reads what the decay has not touched"
                          : T < 3 ? "there are too few tokens"
                                  : NULL;
    if (why_not) {
        tell(l, what, NULL, why_not);
        return;
    }
    AuLinearCall call = laws_call(l, c, B);
    const Made one = laws_made(l, c, B), other = laws_made(l, c, B);
    call.reset = 1 + (int64_t)T / 2;
    call.how.chunk = 16;
    if (!laws_run(l, &call, &one, true)) return;
    double *state = (double *)(uintptr_t)call.state_in;
    for (size_t n = 0; n < one.state.count; n++) state[n] += 1e6;
    if (!laws_run(l, &call, &other, true)) return;
    const char *off = laws_compare_part(l, &other.state, &one.state, NULL, 1e-12, 0);
    for (size_t n = 0; n < one.o.count && !off; n++) { /* read before: from the next token on */
        const size_t t = n / V % T;
        if (t >= (size_t)call.reset - 1 + l->n->before &&
            !(fabs(one.o.at[n] - other.o.at[n]) <= 1e-9 * (1 + fabs(one.o.at[n]))))
            off = au_format(l->arena, "token %zu still has what was before: %.9g and %.9g", t,
                            one.o.at[n], other.o.at[n]);
    }
    tell(l, what, off, NULL);
}

/* ---- gradients */

static double loss(Laws *l, AuLinearCall *call, const Made *made)
{
    double sum = 0;
    const Part *parts[] = {&made->o, &made->state, &made->sum};
    const double *given[] = {call->dout, call->dstate_out, call->dsum_out};
    if (!laws_run(l, call, made, false)) return NAN;
    for (int k = 0; k < 3; k++)
        for (size_t n = 0; n < parts[k]->count; n++) sum += given[k][n] * parts[k]->at[n];
    return sum;
}

/* Of fourth order in the step. */
static double difference(Laws *l, AuLinearCall *call, const Made *made, double *x, double step)
{
    const double at = *x;
    double f[4];
    for (int n = 0; n < 4; n++) {
        *x = at + step * (n < 2 ? n - 2 : n - 1);
        f[n] = loss(l, call, made);
    }
    *x = at;
    return (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * step);
}

/* A few elements of one array; NULL: they agree. */
static const char *try_array(Laws *l, AuLinearCall *call, const Made *made, double *x,
                             const Part *found)
{
    enum { ELEMENTS = 12 };
    double size = 0;
    for (size_t n = 0; n < found->count; n++) size = fmax(size, fabs(found->at[n]));
    for (size_t n = 0; n < found->count; n += found->count / ELEMENTS + 1) {
        double step = 1e-2, expected;
        do { /* smaller ones where there is a kink near by */
            step *= 0.1;
            expected = difference(l, call, made, &x[n], step);
        } while (step > 1e-5 && !(fabs(found->at[n] - expected) <= 1e-7 * (size + fabs(expected))));
        if (fabs(found->at[n] - expected) <= 1e-6 * (size + fabs(expected)) + 1e-9) continue;
        return au_format(l->arena, "element %zu of %s is %.9g, central differences give %.9g", n,
                         found->name, found->at[n], expected);
    }
    return NULL;
}

static void try_gradients(Laws *l, const AuOracleCall *c)
{
    const size_t B = laws_extent(l, c, 0, 0);
    AuLinearCall call = laws_call(l, c, B);
    const Made found = laws_made(l, c, B), made = laws_made(l, c, B);
    const char *off = NULL;
    double **tensors = AU_NEW_ARRAY(l->arena, double *, l->a->tensor_count);
    if (attn_has_marked(l->a, marked(l), AU_OP_STOP_GRAD)) {
        tell(l, gradients, NULL, "stop_grad, which differences do not know");
        return;
    }
    for (uint32_t t = 0; t < l->a->tensor_count; t++) {
        const size_t count = laws_elements(l, c, t);
        tensors[t] = AU_NEW_ARRAY(l->arena, double, count + 1);
        memcpy(tensors[t], c->tensors[t], count * sizeof(double));
    }
    call.call.tensors = (const double *const *)tensors;
    call.how.chunk = 2;
    if (!laws_run(l, &call, &found, true)) return;
    call.how.chunk = 0;
    for (uint32_t t = 0; t < l->a->tensor_count && !off; t++)
        if (found.grads[t].at) off = try_array(l, &call, &made, tensors[t], &found.grads[t]);
    if (!off) off = try_array(l, &call, &made, (double *)(uintptr_t)call.state_in, &found.dstate);
    if (!off && call.sum_in)
        off = try_array(l, &call, &made, (double *)(uintptr_t)call.sum_in, &found.dsum);
    tell(l, gradients, off, NULL);
}

/* What is of few elements may not suit a script: its rows may be too short for it. */
static void try_few(Laws *l, const AuOracleCall *few, const char *what,
                    void (*law)(Laws *l, const AuOracleCall *c))
{
    if (l->why) return;
    law(l, few);
    if (l->why) tell(l, what, NULL, l->why);
    l->why = NULL;
}

static bool are_numbers(const Made *made)
{
    for (size_t n = 0; n < made->o.count; n++)
        if (!isfinite(made->o.at[n])) return false;
    return true;
}

AuLaws attn_check_linear(AuAttn *a, const AuNormal *n, const AuNormalGrads *g,
                         const AuOracleCall *few, const AuOracleCall *more, AuArena *arena)
{
    Laws l = {.a = a, .n = n, .g = g, .arena = arena};
    AuLinearCall call = laws_call(&l, more, laws_extent(&l, more, 0, 0));
    const Made made = laws_made(&l, more, laws_extent(&l, more, 0, 0));
    const bool good = laws_run(&l, &call, &made, false);
    if (good && !are_numbers(&made)) {
        tell(&l, "laws of recurrences", NULL,
             "on random data the output is not finite: is a decay below 0, or far above 1?");
        return l.out;
    }
    if (good) try_words(&l, more);
    if (!l.why) try_chunks(&l, more);
    try_few(&l, few, cuts, try_cuts);
    if (!l.why) try_reset(&l, more);
    try_few(&l, few, gradients, try_gradients);
    if (l.why) tell(&l, "evaluation", l.why, NULL);
    return l.out;
}
