/* far.c - see far.h. */
#include "far.h"

#include "meaning.h"

#include <float.h>

/* ---- inputs that are added to scores */

/* With which sign node [i] is part of the score, 0: it is not. Sums, what scales them or chooses among them, from the root down. */
static int8_t *signs_of(AuArena *arena, const AuAttn *a)
{
    int8_t *sign = AU_NEW_ARRAY(arena, int8_t, a->node_count);
    bool *scored = AU_NEW_ARRAY(arena, bool, a->node_count);
    for (uint32_t i = 1; i <= a->score_mod.i; i++) {
        const AuNode *n = &a->nodes[i];
        scored[i] = n->op == AU_OP_SCORE;
        for (uint32_t k = 0; k < n->count; k++) scored[i] |= scored[a->args[n->first + k].i];
    }
    sign[a->score_mod.i] = 1;
    for (uint32_t i = a->score_mod.i; i > 0; i--) {
        const AuNode *n = &a->nodes[i];
        const bool adds = n->op == AU_OP_ADD || n->op == AU_OP_SUB || n->op == AU_OP_NEG;
        const bool chooses = n->op == AU_OP_WHERE || n->op == AU_OP_MIN || n->op == AU_OP_MAX;
        const bool scales = n->op == AU_OP_MUL || n->op == AU_OP_DIV || n->op == AU_OP_TANH;
        for (uint32_t k = 0; sign[i] && k < n->count; k++) {
            const AuExpr arg = a->args[n->first + k];
            const bool turns = n->op == AU_OP_NEG || (n->op == AU_OP_SUB && k == 1);
            if (!sign[arg.i] && (adds || (chooses && attn_at(a, arg)->type == AU_T_F32) ||
                                 (scales && scored[arg.i])))
                sign[arg.i] = (int8_t)(turns ? -sign[i] : sign[i]);
        }
    }
    return sign;
}

/* Of tensor [n], the sign with which it is added; *of_keys: its last axis is one of keys. */
static int8_t sign_of(const AuAttn *a, const int8_t *sign, uint32_t n, bool *of_keys)
{
    int8_t found = 0;
    for (uint32_t i = 1; i <= a->score_mod.i; i++) {
        const AuNode *node = &a->nodes[i];
        if (!sign[i] || node->op != AU_OP_INPUT || node->integer != (int32_t)n) continue;
        if (!found) found = sign[i];
        if (node->count)
            *of_keys |= attn_at(a, attn_arg(a, (AuExpr){i}, node->count - 1u))->axes & AU_AX_KV;
    }
    return attn_type_of(a->tensors[n].dtype) == AU_T_F32 ? found : 0;
}

const char *far_inputs(AuArena *arena, const AuAttn *a)
{
    AuText text = {.arena = arena};
    const int8_t *sign = a->score_mod.i ? signs_of(arena, a) : NULL;
    for (uint32_t n = 3; sign && n < a->tensor_count; n++) {
        bool of_keys = false;
        if (sign_of(a, sign, n, &of_keys))
            au_text_add(&text, "%s%s", text.length ? ", " : "", a->tensors[n].name);
    }
    return text.length ? au_text_str(&text) : NULL;
}

/* ---- the data */

typedef enum FarPart { NOWHERE, WHOLE, LAST_THIRD, FIRST_THIRD } FarPart;

static const struct {
    FarPart part;
    double value;
} patterns[] = {{WHOLE, -1e9},       {LAST_THIRD, -1e9},     {NOWHERE, 0},
                {WHOLE, -FLT_MAX},   {FIRST_THIRD, -1e4},    {WHOLE, -1e4},
                {LAST_THIRD, -1e20}, {FIRST_THIRD, -FLT_MAX}};

/* The finite number of a type next to it. */
static double in_type(double x, AuDtype dtype)
{
    const double lowest = dtype == AU_DT_F16    ? -65504
                          : dtype == AU_DT_BF16 ? -0x1.FEp127
                                                : (double)-FLT_MAX;
    return fmax(attn_round(x, dtype), lowest);
}

static void fill(AuTrial *t, uint32_t n, int8_t sign, bool of_keys, AuDtype dtype, double lowest)
{
    const uint32_t rank = t->attn->tensors[n].rank;
    const uint64_t keys = of_keys ? (uint64_t)t->shapes[n][rank - 1] : 1;
    for (uint64_t i = 0; i < t->elements[n]; i++) {
        const uint64_t row = i / keys + 2 * (n - 3), key = i % keys;
        const uint32_t k = (uint32_t)(row % (sizeof patterns / sizeof *patterns));
        const FarPart part = patterns[k].part;
        const bool is_far = part == WHOLE || (part == LAST_THIRD && 3 * key >= 2 * keys) ||
                            (part == FIRST_THIRD && 3 * key < keys);
        t->tensors[n][i] = is_far ? sign * in_type(fmax(patterns[k].value, lowest), dtype) : 0;
    }
}

static void fill_all(AuArena *arena, AuTrial *t, AuDtype operand, double lowest)
{
    const AuAttn *a = t->attn;
    const int8_t *sign = signs_of(arena, a);
    for (uint32_t n = 3; n < a->tensor_count; n++) {
        bool of_keys = false;
        const int8_t s = sign_of(a, sign, n, &of_keys);
        const AuDtype dtype = a->tensors[n].dtype == AU_DT_OPERAND ? operand : a->tensors[n].dtype;
        if (s) fill(t, n, s, of_keys, dtype, lowest);
    }
}

/* Next to 0, not 0, by which a norm divides. */
static void shrink_queries(AuTrial *t, const double *highest, AuDtype operand)
{
    const double factor = operand == AU_DT_F16 ? 0x1p-13 : 0x1p-20;
    const uint64_t width = (uint64_t)t->shapes[0][3];
    for (uint64_t i = 0; i < t->elements[0]; i++)
        if (fabs(highest[i / width]) > 1e3)
            t->tensors[0][i] = attn_round(t->tensors[0][i] * factor, operand);
}

bool far_set(AuArena *arena, AuDiags *diags, AuTrial *t, AuDtype operand)
{
    const AuAttn *a = t->attn;
    const uint64_t rows = (uint64_t)(t->shapes[0][0] * t->shapes[0][1] * t->shapes[0][2]);
    double *highest = AU_NEW_ARRAY(arena, double, rows + 1);
    /* several of them added up, or scaled, may be more than f32 holds */
    for (double lowest = -FLT_MAX; lowest < 0; lowest = lowest < -1e9 ? -1e9 : 0) {
        const char *why = NULL;
        bool fits = true;
        fill_all(arena, t, operand, lowest);
        const AuOracleCall call = trial_call(t, diags);
        if (!attn_highest_scores(a, &call, highest, arena, &why)) {
            au_error(diags, AU_E0605, a->span, "%s", why);
            return false;
        }
        for (uint64_t i = 0; i < rows; i++)
            fits &= fabs(highest[i]) <= FLT_MAX || highest[i] == -INFINITY;
        if (fits) break;
    }
    shrink_queries(t, highest, operand);
    return true;
}

/* ---- the script's own formula */

double far_error(const double *want, const double *plain, uint64_t count)
{
    double error = 0;
    for (uint64_t n = 0; n < count; n++) {
        if (!isfinite(want[n])) continue;
        if (!isfinite(plain[n])) return INFINITY;
        error = fmax(error, fabs(plain[n] - want[n]));
    }
    return error;
}

bool far_is_lost(const double *want, uint64_t count, double error)
{
    const double largest = trial_largest(want, count);
    return largest > 0 && !(error <= largest / 4);
}

static uint64_t output_count(const AuTrial *t)
{
    return t->elements[0] / (uint64_t)t->shapes[0][3] * (uint64_t)t->shapes[2][3];
}

typedef struct Formula {
    double *o, **grads; /* one a tensor; NULL of those without */
} Formula;

static bool evaluate(AuArena *arena, AuDiags *diags, const AuTrial *t, const AuGrads *g,
                     const double *dout, AuDtype round_to, Formula *out)
{
    const AuAttn *a = t->attn;
    const char *why = NULL;
    AuOracleCall call = trial_call(t, diags);
    out->o = AU_NEW_ARRAY(arena, double, output_count(t) + 1);
    out->grads = AU_NEW_ARRAY(arena, double *, a->tensor_count);
    for (uint32_t n = 0; n < a->tensor_count; n++)
        if (n < 3 ? !(n == 2 && a->v_in_k) : a->tensors[n].grad)
            out->grads[n] = AU_NEW_ARRAY(arena, double, t->elements[n] + 1);
    call.o = out->o;
    call.round_to = round_to;
    if (attn_interpret_gradients(a, g, &call, dout, NULL, out->grads, arena, &why)) return true;
    au_error(diags, AU_E0605, a->span, "%s", why);
    return false;
}

FarResult far_try(AuArena *arena, AuDiags *diags, const AuTrial *t, const AuGrads *g,
                  const char **message)
{
    enum { GOOD_BITS = 9 }; /* of an output that rounding of scores has left alone */
    const AuAttn *a = t->attn;
    const uint64_t outs = output_count(t);
    uint64_t random = 7919;
    const double *dout = trial_normal(arena, outs, AU_DT_F32, &random);
    Formula right, plain;
    if (!evaluate(arena, diags, t, g, dout, AU_DT_OPERAND, &right) ||
        !evaluate(arena, diags, t, g, dout, AU_DT_F32, &plain))
        return FAR_FAILED;
    const double largest = trial_largest(right.o, outs);
    if (!(far_error(right.o, plain.o, outs) <= ldexp(largest, -GOOD_BITS))) return FAR_LOSSY;
    for (uint32_t n = 0; n < a->tensor_count; n++) {
        if (!right.grads[n]) continue;
        const double error = far_error(right.grads[n], plain.grads[n], t->elements[n]);
        if (!far_is_lost(right.grads[n], t->elements[n], error)) continue;
        *message = au_format(arena,
                             "rows far below 0, as where '%s' is -1e9: the gradient of '%s', at "
                             "most %.3g, is off by "
                             "%.3g, since no final alone holds what such a row sums up to in f32",
                             far_inputs(arena, a), a->tensors[n].name,
                             trial_largest(right.grads[n], t->elements[n]), error);
        return FAR_WRONG;
    }
    return FAR_GOOD;
}
