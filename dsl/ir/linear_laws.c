/* linear_laws.c - see linear_laws.h. Each law compares two ways to everything that a recurrence makes: outputs, last
 * states, and gradients of tensors and of first states. */
#include "linear_laws.h"

#include <math.h>
#include <string.h>

/* An array that is made, by the name that messages give it. */
typedef struct Part {
    const char *name;
    double *at;
    size_t count;
} Part;

typedef struct Made {
    Part o, state, sum, dstate, dsum, *grads;
    double **grad_arrays;
} Made;

typedef struct Laws {
    AuAttn *a;
    const AuNormal *n;
    const AuNormalGrads *g;
    AuArena *arena;
    AuLaws out;
    const char *why; /* the oracle failed */
} Laws;

static void tell(Laws *l, const char *what, const char *broken, const char *why_not)
{
    const AuLaw law = {what, broken, why_not};
    AU_PUSH(l->arena, l->out.at, l->out.count, l->out.capacity, law);
}

static const char *const cuts =
    "cut anywhere, states carried; packed, with lengths of 0; steps of one token";
static const char *const gradients =
    "gradients of tensors and first states, beside central differences";

/* ---- arguments and room */

static size_t extent(const Laws *l, const AuOracleCall *c, uint32_t tensor, uint32_t axis)
{
    return (size_t)attn_scalar(l->a, l->a->tensors[tensor].axes[axis], c->sizes, c->params);
}

static size_t heads(const Laws *l, const AuOracleCall *c)
{
    size_t most = 0;
    for (uint32_t t = 0; t < 3; t++) most = extent(l, c, t, 1) > most ? extent(l, c, t, 1) : most;
    return most;
}

static size_t elements(const Laws *l, const AuOracleCall *c, uint32_t tensor)
{
    size_t count = 1;
    for (uint32_t k = 0; k < l->a->tensors[tensor].rank; k++) count *= extent(l, c, tensor, k);
    return count;
}

/* Any numbers, the same each time. */
static double *numbers(AuArena *m, size_t count, double first, double shift)
{
    double *x = AU_NEW_ARRAY(m, double, count + 1);
    for (size_t n = 0; n < count; n++) x[n] = sin(first + (double)n * 1.7) + shift;
    return x;
}

static Part part(AuArena *m, const char *name, size_t count)
{
    return (Part){name, AU_NEW_ARRAY(m, double, count + 1), count};
}

static size_t outputs(const Laws *l, const AuOracleCall *c)
{
    return extent(l, c, 0, 0) * heads(l, c) * extent(l, c, 0, 2) * extent(l, c, 2, 3);
}

/* A call with [states] states, all that is given filled in. */
static AuLinearCall call_of(const Laws *l, const AuOracleCall *c, size_t states)
{
    const size_t rows = states * heads(l, c) * extent(l, c, 0, 3);
    const size_t cells = rows * extent(l, c, 2, 3);
    AuLinearCall call = {.call = *c,
                         .state_in = numbers(l->arena, cells, 1, 0),
                         .dstate_out = numbers(l->arena, cells, 2, 0),
                         .dout = numbers(l->arena, outputs(l, c), 3, 0)};
    if (!l->n->slot[AU_SLOT_NORM].i) return call;
    call.sum_in = numbers(l->arena, rows, 4, 3); /* away from 0, which a norm divides by */
    call.dsum_out = numbers(l->arena, rows, 5, 0);
    return call;
}

static Made made_of(const Laws *l, const AuOracleCall *c, size_t states)
{
    AuArena *m = l->arena;
    const size_t rows = states * heads(l, c) * extent(l, c, 0, 3);
    const bool sums = l->n->slot[AU_SLOT_NORM].i != 0;
    Made made = {.o = part(m, "o", outputs(l, c)),
                 .state = part(m, "the last state", rows * extent(l, c, 2, 3)),
                 .sum = part(m, "the last sum", sums ? rows : 0),
                 .dstate = part(m, "the gradient of the first state", rows * extent(l, c, 2, 3)),
                 .dsum = part(m, "the gradient of the first sum", sums ? rows : 0),
                 .grads = AU_NEW_ARRAY(m, Part, l->a->tensor_count),
                 .grad_arrays = AU_NEW_ARRAY(m, double *, l->a->tensor_count)};
    for (uint32_t t = 0; t < l->a->tensor_count; t++) {
        if ((t >= 3 && !l->a->tensors[t].grad) || (t == 2 && l->a->v_in_k)) continue;
        made.grads[t] = part(m, au_format(m, "d%s", l->a->tensors[t].name), elements(l, c, t));
        made.grad_arrays[t] = made.grads[t].at;
    }
    return made;
}

static bool run(Laws *l, AuLinearCall *call, const Made *to, bool backward)
{
    AuArena *scratch = au_arena_new(NULL);
    const char *why = "no memory";
    call->call.o = to->o.at;
    call->state_out = to->state.at, call->sum_out = to->sum.at;
    call->dstate_in = to->dstate.at, call->dsum_in = to->dsum.at;
    call->grads = to->grad_arrays;
    const bool good =
        scratch && (backward ? attn_linear_gradients(l->a, l->n, l->g, call, scratch, &why)
                             : attn_linear_forward(l->a, l->n, call, scratch, &why));
    if (!good) l->why = au_format(l->arena, "%s", why);
    if (scratch) au_arena_free(scratch);
    return good;
}

/* ---- comparing */

/* NULL: as near as [bound] of the largest number. [plain]: what the other may be off by, times [times]; its arrays too. */
static const char *compare_part(Laws *l, const Part *found, const Part *expected, const Part *plain,
                                double bound, double times)
{
    double size = 0, allowed = 0;
    for (size_t n = 0; n < expected->count; n++) {
        if (isfinite(expected->at[n])) size = fmax(size, fabs(expected->at[n]));
        if (plain) allowed = fmax(allowed, fabs(plain->at[n] - expected->at[n]));
    }
    allowed = allowed * times + bound * size + 1e-12;
    for (size_t n = 0; n < expected->count; n++) {
        const double x = found->at[n], y = expected->at[n];
        if (x == y || (isnan(x) && isnan(y)) || fabs(x - y) <= allowed) continue;
        return au_format(l->arena, "element %zu of %s is %.9g, expected %.9g", n, expected->name, x,
                         y);
    }
    return NULL;
}

static const char *compare(Laws *l, const Made *found, const Made *expected, const Made *plain,
                           double bound)
{
    const struct {
        const Part *found, *expected, *plain;
        double times;
    } all[] = {{&found->o, &expected->o, plain ? &plain->o : NULL, 3},
               {&found->state, &expected->state, plain ? &plain->state : NULL, 3},
               {&found->sum, &expected->sum, plain ? &plain->sum : NULL, 3},
               {&found->dstate, &expected->dstate, plain ? &plain->dstate : NULL, 4},
               {&found->dsum, &expected->dsum, plain ? &plain->dsum : NULL, 4}};
    const char *off = NULL;
    for (size_t n = 0; n < sizeof all / sizeof *all && !off; n++)
        off = compare_part(l, all[n].found, all[n].expected, all[n].plain, bound, all[n].times);
    for (uint32_t t = 0; t < l->a->tensor_count && !off; t++)
        if (expected->grads[t].at)
            off = compare_part(l, &found->grads[t], &expected->grads[t],
                               plain ? &plain->grads[t] : NULL, bound, 4);
    return off;
}

/* ---- the laws */

static void try_words(Laws *l, const AuOracleCall *c)
{
    AuLinearCall call = call_of(l, c, extent(l, c, 0, 0));
    const Made words = made_of(l, c, extent(l, c, 0, 0)), made = made_of(l, c, extent(l, c, 0, 0));
    AuOracleCall plain = *c;
    const char *why = NULL;
    plain.o = words.o.at;
    call.state_in = call.sum_in = NULL;
    if (!run(l, &call, &made, false)) return;
    if (!attn_interpret(l->a, &plain, l->arena, &why)) {
        l->why = why;
        return;
    }
    tell(l, "the normal form, beside what the slots say",
         compare_part(l, &made.o, &words.o, NULL, 1e-10, 0), NULL);
}

static void try_chunks(Laws *l, const AuOracleCall *c)
{
    static const int64_t chunks[] = {1, 16, 64};
    const size_t B = extent(l, c, 0, 0);
    AuLinearCall call = call_of(l, c, B);
    const Made steps = made_of(l, c, B), made = made_of(l, c, B), single = made_of(l, c, B);
    const char *off = NULL;
    if (!run(l, &call, &steps, true)) return;
    for (int n = 0; n < 3 && !off; n++) {
        call.how.chunk = chunks[n];
        if (!run(l, &call, &made, true)) return;
        off = compare(l, &made, &steps, NULL, 1e-9);
        if (off) off = au_format(l->arena, "chunks of %d: %s", (int)chunks[n], off);
    }
    tell(l, "chunks of 1, 16 and 64 tokens, forward and backward", off, NULL);
    call.how = (AuEngine){.single = true};
    if (!run(l, &call, &single, true)) return;
    call.how.chunk = 64;
    if (!run(l, &call, &made, true)) return;
    off = compare(l, &made, &steps, &single, 4e-6);
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
    AuLinearCall call = call_of(l, c, pieces);
    const Made made = made_of(l, c, pieces);
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
        if (!run(l, &call, &made, false)) return NULL;
        if (n + 1 == pieces) break;
        carry(state_in, made.state.at, n, state, 1);
        carry(sum_in, made.sum.at, n, sum, 1);
    }
    for (size_t n = pieces; n-- > 0;) {
        if (!run(l, &call, &made, true)) return NULL;
        if (!n) break;
        carry(dstate, made.dstate.at, n, state, -1);
        carry(dsum, made.dsum.at, n, sum, -1);
    }
    Made joined = made;
    joined.state.at += (pieces - 1) * state, joined.sum.at += (pieces - 1) * sum;
    return compare(l, &joined, whole, NULL, 1e-9);
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
    const int64_t T = (int64_t)extent(l, c, 0, 2);
    if (extent(l, c, 0, 0) != 1 || T < 1) {
        tell(l, cuts, NULL, "the script fixes its batches");
        return;
    }
    if (has_position(l)) {
        tell(l, cuts, NULL, "the script reads positions, which begin again in each part");
        return;
    }
    AuLinearCall call = call_of(l, c, 1);
    const Made whole = made_of(l, c, 1);
    call.how.chunk = 2;
    if (!run(l, &call, &whole, true)) return;
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
    const size_t T = extent(l, c, 0, 2), V = extent(l, c, 2, 3), B = extent(l, c, 0, 0);
    const char *why_not = l->n->decay <= AU_DECAY_CONSTANT ? "the decay is not a token's"
                          : l->n->feedback == AU_FEEDBACK_OWN
                              ? "lowrank reads what the decay has not touched"
                          : T < 3 ? "there are too few tokens"
                                  : NULL;
    if (why_not) {
        tell(l, what, NULL, why_not);
        return;
    }
    AuLinearCall call = call_of(l, c, B);
    const Made one = made_of(l, c, B), other = made_of(l, c, B);
    call.reset = 1 + (int64_t)T / 2;
    call.how.chunk = 16;
    if (!run(l, &call, &one, true)) return;
    double *state = (double *)(uintptr_t)call.state_in;
    for (size_t n = 0; n < one.state.count; n++) state[n] += 1e6;
    if (!run(l, &call, &other, true)) return;
    const char *off = compare_part(l, &other.state, &one.state, NULL, 1e-12, 0);
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
    if (!run(l, call, made, false)) return NAN;
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
    const size_t B = extent(l, c, 0, 0);
    AuLinearCall call = call_of(l, c, B);
    const Made found = made_of(l, c, B), made = made_of(l, c, B);
    const char *off = NULL;
    double **tensors = AU_NEW_ARRAY(l->arena, double *, l->a->tensor_count);
    if (attn_has_marked(l->a, marked(l), AU_OP_STOP_GRAD)) {
        tell(l, gradients, NULL, "stop_grad, which differences do not know");
        return;
    }
    for (uint32_t t = 0; t < l->a->tensor_count; t++) {
        const size_t count = elements(l, c, t);
        tensors[t] = AU_NEW_ARRAY(l->arena, double, count + 1);
        memcpy(tensors[t], c->tensors[t], count * sizeof(double));
    }
    call.call.tensors = (const double *const *)tensors;
    call.how.chunk = 2;
    if (!run(l, &call, &found, true)) return;
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
    AuLinearCall call = call_of(&l, more, extent(&l, more, 0, 0));
    const Made made = made_of(&l, more, extent(&l, more, 0, 0));
    const bool good = run(&l, &call, &made, false);
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
