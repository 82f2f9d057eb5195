/* case_recurrence.c - reference cases of recurrences: token after token, in f64, and by the plain formula: in f32 with what
 * products multiply, and the output and gradients, in the operand's type. */
#include "case.h"

#include "linear.h"
#include "meaning.h"

#include <math.h>
#include <string.h>

/* What is given and made, the parts of a state in the order of the artifact: the state, and with `norm` the sum. */
typedef struct Recurrence {
    int64_t chunk, back_chunk; /* of kernels by products; 0: token after token */
    const AuNormal *n;
    uint32_t parts;
    int64_t *shape; /* [B, H, K, V]; of the sum without V */
    const double *state_in[2], *dout, *dstate_out[2];
    double *o, *state_out[2], **grads, *dstate_in[2];
} Recurrence;

static const char *const names[][2] = {{"state_in", "sum_in"},
                                       {"state_out", "sum_out"},
                                       {"dstate_out", "dsum_out"},
                                       {"dstate_in", "dsum_in"}};

static aulec_case_tensor *add_part(aulec_case *c, const Recurrence *r, uint32_t which,
                                   uint32_t part, uint32_t role)
{
    return case_add(c, names[which][part], role, AU_DT_F32, r->shape, part ? 3 : 4);
}

static uint64_t elements_of(const Recurrence *r, uint32_t part)
{
    const uint64_t rows = (uint64_t)(r->shape[0] * r->shape[1] * r->shape[2]);
    return part ? rows : rows * (uint64_t)r->shape[3];
}

/* Makes everything of [r] that is made, of a trial's tensors. */
static bool evaluate(aulec_case *c, const AuTrial *trial, Recurrence *r, bool plain)
{
    static const int32_t bits[] = {[AU_DT_F16] = 11, [AU_DT_BF16] = 8};
    const char *why = NULL;
    const AuAttn *a = c->attn;
    const uint64_t elements = c->tensors[c->first_result].elements;
    for (uint32_t i = 0; i < r->parts; i++) {
        r->state_out[i] = AU_NEW_ARRAY(c->arena, double, elements_of(r, i) + 1);
        r->dstate_in[i] = AU_NEW_ARRAY(c->arena, double, elements_of(r, i) + 1);
    }
    r->o = AU_NEW_ARRAY(c->arena, double, elements + 1);
    r->grads = AU_NEW_ARRAY(c->arena, double *, a->tensor_count);
    for (uint32_t n = 0; n < a->tensor_count; n++)
        if (case_has_gradient(a, n))
            r->grads[n] = AU_NEW_ARRAY(c->arena, double, trial->elements[n] + 1);
    AuLinearCall call = {.call = trial_call(trial, c->diags),
                         .how = {.single = plain},
                         .state_in = r->state_in[0],
                         .sum_in = r->state_in[1],
                         .state_out = r->state_out[0],
                         .sum_out = r->state_out[1],
                         .dout = r->dout,
                         .dstate_out = r->dstate_out[0],
                         .dsum_out = r->dstate_out[1],
                         .dstate_in = r->dstate_in[0],
                         .dsum_in = r->dstate_in[1],
                         .grads = r->grads};
    call.call.o = r->o;
    if (plain) {
        call.call.round_to = c->operand;
        call.how.operand = c->tf32 ? 11 : c->operand == AU_DT_F32 ? 0 : bits[c->operand];
    }
    const int32_t operand = call.how.operand;
    if (plain && r->back_chunk) call.how = recurrence_by_products(r->back_chunk, operand);
    if (!attn_linear_gradients(a, r->n, c->grads->normal, &call, c->arena, &why))
        return case_fail(c, why);
    if (plain && r->chunk) {
        call.how = recurrence_by_products(r->chunk, operand);
        if (!attn_linear_forward(a, r->n, &call, c->arena, &why)) return case_fail(c, why);
    }
    for (uint64_t i = 0; plain && i < elements; i++) r->o[i] = attn_round(r->o[i], c->operand);
    for (uint32_t n = 0; plain && n < a->tensor_count; n++)
        for (uint64_t i = 0; r->grads[n] && i < trial->elements[n]; i++)
            if (a->tensors[n].dtype == AU_DT_OPERAND)
                r->grads[n][i] = attn_round(r->grads[n][i], c->operand);
    return true;
}

/* States before the first token, and room for what forward makes. */
static bool add_forward(aulec_case *c, Recurrence *r, uint64_t seed)
{
    uint64_t random = seed + 104729;
    for (uint32_t i = 0; i < r->parts; i++) {
        aulec_case_tensor *given = add_part(c, r, 0, i, AULE_ROLE_STATE);
        if (!given) return false;
        r->state_in[i] = trial_normal(c->arena, given->elements, AU_DT_F32, &random);
        case_set_data(c, given, r->state_in[i]);
    }
    case_add_output(c);
    for (uint32_t i = 0; i < r->parts; i++)
        if (!add_part(c, r, 1, i, AULE_ROLE_STATE_OUT)) return false;
    return true;
}

static bool add_given(aulec_case *c, Recurrence *r, uint64_t seed)
{
    uint64_t random = seed + 7919;
    const aulec_case_tensor *o = &c->tensors[c->first_result];
    r->dout = case_add_given(c, "do", AULE_ROLE_DOUT, AU_DT_OPERAND, o, &random);
    if (!r->dout) return false;
    for (uint32_t i = 0; i < r->parts; i++) {
        r->dstate_out[i] =
            case_add_given(c, names[2][i], AULE_ROLE_DSTATE_OUT, AU_DT_F32, &o[1 + i], &random);
        if (!r->dstate_out[i]) return false;
    }
    return true;
}

/* Gradients of small tables have few elements, each a sum over many tokens that may cancel: how large the plain formula's
 * error is there is asked of two sets of arguments ([want] and [plain] [0] and [1]), not left to the luck of one. */
static bool add_gradients(aulec_case *c, const Recurrence *want, const Recurrence *plain)
{
    const AuAttn *a = c->attn;
    for (uint32_t n = 0; n < a->tensor_count; n++) {
        if (!case_has_gradient(a, n)) continue;
        const AuTensor *t = &a->tensors[n];
        aulec_case_tensor *made = case_add(c, au_format(c->arena, "d%s", t->name), AULE_ROLE_GRAD,
                                           t->dtype, c->trial.shapes[n], t->rank);
        if (!made) return false;
        const double errors[] = {
            case_error(c, want[0].grads[n], plain[0].grads[n], made->elements),
            case_error(c, want[1].grads[n], plain[1].grads[n], made->elements)};
        case_set_want(c, made, want->grads[n], fmax(errors[0], errors[1]), 4);
    }
    for (uint32_t i = 0; i < want->parts; i++) {
        aulec_case_tensor *made = add_part(c, want, 3, i, AULE_ROLE_DSTATE);
        if (!made) return false;
        const double errors[] = {
            case_error(c, want[0].dstate_in[i], plain[0].dstate_in[i], made->elements),
            case_error(c, want[1].dstate_in[i], plain[1].dstate_in[i], made->elements)};
        case_set_want(c, made, want->dstate_in[i], fmax(errors[0], errors[1]), 4);
    }
    return true;
}

static void want_forward(aulec_case *c, const Recurrence *want, const Recurrence *plain)
{
    aulec_case_tensor *o = &c->tensors[c->first_result];
    case_set_want(c, o, want->o, case_error(c, want->o, plain->o, o->elements), 2);
    for (uint32_t i = 0; i < want->parts; i++) {
        const double error =
            case_error(c, want->state_out[i], plain->state_out[i], o[1 + i].elements);
        if (want->chunk)
            case_set_product(c, &o[1 + i], want->state_out[i], error);
        else
            case_set_want(c, &o[1 + i], want->state_out[i], error, 2);
    }
}

bool case_recurrence(aulec_case *c, const aulec_case_options *o)
{
    AuAttn *a = c->attn;
    const AuNormal n = attn_normal_form(a, c->arena);
    const AuTrial *t = &c->trial;
    AuTrial other;
    int64_t *shape = AU_NEW_ARRAY(c->arena, int64_t, 4);
    shape[0] = t->shapes[0][0], shape[2] = t->shapes[0][3], shape[3] = t->shapes[2][3];
    shape[1] = (int64_t)attn_scalar(a, attn_heads(a), t->sizes, t->params);
    Recurrence want[2] = {{.chunk = o->chunk,
                           .back_chunk = o->backward_chunk,
                           .n = &n,
                           .parts = 1u + (n.slot[AU_SLOT_NORM].i != 0),
                           .shape = shape}};
    if (!add_forward(c, &want[0], o->seed) || !add_given(c, &want[0], o->seed) ||
        !trial_make(c->arena, c->diags, a, AU_TRIAL_USUAL, o->values, c->operand, o->seed + 1,
                    &other))
        return false;
    want[1] = want[0];
    Recurrence plain[2] = {want[0], want[0]};
    if (!evaluate(c, t, &want[0], false) || !evaluate(c, t, &plain[0], true) ||
        !evaluate(c, &other, &want[1], false) || !evaluate(c, &other, &plain[1], true))
        return false;
    want_forward(c, want, plain);
    return add_gradients(c, want, plain);
}
