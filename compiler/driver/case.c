/* case.c - reference cases of the public interface (aule/aulec.h): random arguments, what the oracle
 * makes of them, and by how much a kernel may miss that. */
#include "case.h"
#include "far.h"
#include "tensors.h"

#include "aule/artifact.h"
#include "meaning.h"
#include "result.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

static AuDtype dtype_of(const char *name)
{
    return !name || strcmp(name, "f32") == 0 || strcmp(name, "tf32") == 0 ? AU_DT_F32
           : strcmp(name, "f16") == 0                                     ? AU_DT_F16
           : strcmp(name, "bf16") == 0                                    ? AU_DT_BF16
                                                                          : AU_DT_OPERAND;
}

/* ---- numbers as their types hold them */

static size_t bytes_of(AuDtype d)
{
    return d == AU_DT_I64                      ? 8
           : d == AU_DT_F16 || d == AU_DT_BF16 ? 2
           : d == AU_DT_U8 || d == AU_DT_BOOL  ? 1
                                               : 4;
}

static uint16_t f16_bits(double x) /* of a value that f16 holds */
{
    const uint16_t sign = signbit(x) ? 0x8000 : 0;
    int exponent;
    const double part = frexp(fabs(x), &exponent); /* [0.5, 1) */
    if (x != x) return 0x7e00;
    if (isinf(x)) return sign | 0x7c00;
    if (x == 0 || exponent < -13) return sign | (uint16_t)ldexp(fabs(x), 24);
    return sign | (uint16_t)(((exponent + 14) << 10) + (int)(ldexp(part, 11) - 1024));
}

static void encode(unsigned char *at, AuDtype dtype, double x)
{
    const float f = (float)x;
    const int32_t i = dtype >= AU_DT_I32 ? (int32_t)x : 0;
    const int64_t wide = dtype == AU_DT_I64 ? (int64_t)x : 0;
    uint32_t bits;
    memcpy(&bits, &f, 4);
    const uint16_t half = dtype == AU_DT_F16 ? f16_bits(x) : (uint16_t)(bits >> 16);
    switch (dtype) {
    case AU_DT_OPERAND:
    case AU_DT_F32: memcpy(at, &f, 4); break;
    case AU_DT_F16:
    case AU_DT_BF16: memcpy(at, &half, 2); break;
    case AU_DT_I32: memcpy(at, &i, 4); break;
    case AU_DT_I64: memcpy(at, &wide, 8); break;
    case AU_DT_U8:
    case AU_DT_BOOL: *at = (unsigned char)i; break;
    }
}

aulec_case_tensor *case_add(aulec_case *c, const char *name, uint32_t role, AuDtype dtype,
                            const int64_t *shape, uint32_t rank)
{
    if (c->tensor_count == AULE_MAX_TENSORS) return NULL; /* driver_fits */
    aulec_case_tensor *t = &c->tensors[c->tensor_count++];
    *t = (aulec_case_tensor){.struct_size = sizeof *t,
                             .name = name,
                             .role = role,
                             .dtype = (uint32_t)(dtype == AU_DT_OPERAND ? c->operand : dtype),
                             .rank = rank,
                             .shape = shape,
                             .elements = 1};
    for (uint32_t d = 0; d < rank; d++) t->elements *= (uint64_t)shape[d];
    return t;
}

void case_set_data(aulec_case *c, aulec_case_tensor *t, const double *values)
{
    const size_t bytes = bytes_of((AuDtype)t->dtype);
    unsigned char *data = au_alloc(c->arena, t->elements * bytes + 8);
    for (uint64_t n = 0; n < t->elements; n++)
        encode(data + n * bytes, (AuDtype)t->dtype, values[n]);
    t->data = data;
}

double case_error(const aulec_case *c, const double *want, const double *plain, uint64_t count)
{
    double error = 0;
    if (c->kind == AU_TRIAL_FAR) return far_error(want, plain, count);
    for (uint64_t n = 0; n < count; n++)
        if (isfinite(want[n])) error = fmax(error, fabs(plain[n] - want[n]));
    return error;
}

void case_set_want(const aulec_case *c, aulec_case_tensor *t, const double *want, double error,
                   double factor)
{
    t->want = want;
    t->bound = factor * error + 0x1p-21 * trial_largest(want, t->elements);
    if (c->kind == AU_TRIAL_FAR && far_is_lost(want, t->elements, t->bound)) t->bound = INFINITY;
}

void case_set_product(const aulec_case *c, aulec_case_tensor *t, const double *want, double error)
{
    const double rounding = c->operand == AU_DT_BF16  ? 0x1p-8
                            : c->operand == AU_DT_F16 ? 0x1p-11
                                                      : 0;
    case_set_want(c, t, want, error, 2);
    t->bound += rounding * trial_largest(want, t->elements);
}

/* ---- forward */

bool case_fail(aulec_case *c, const char *why)
{
    au_error(c->diags, AU_E0605, c->attn->span, "%s", why);
    return false;
}

static void add_arguments(aulec_case *c)
{
    static const uint32_t roles[] = {
        [AU_ROLE_Q] = AULE_ROLE_Q,
        [AU_ROLE_K] = AULE_ROLE_K,
        [AU_ROLE_V] = AULE_ROLE_V,
        [AU_ROLE_INPUT] = AULE_ROLE_INPUT,
    };
    const AuAttn *a = c->attn;
    for (uint32_t n = 0; n < a->tensor_count; n++) {
        if (n == 2 && a->v_in_k) continue;
        const AuTensor *t = &a->tensors[n];
        aulec_case_tensor *made =
            case_add(c, t->name, roles[t->role], t->dtype, c->trial.shapes[n], t->rank);
        if (made) case_set_data(c, made, c->trial.tensors[n]);
    }
}

static bool run_forward(aulec_case *c, AuDtype round_to, double **o, double **finals)
{
    const char *why = NULL;
    AuOracleCall call = trial_call(&c->trial, c->diags);
    const AuOnline *online = c->attn->online;
    const aulec_case_tensor *first = &c->tensors[c->first_result];
    *o = AU_NEW_ARRAY(c->arena, double, first->elements + 1);
    for (uint32_t n = 0, given = 0; n < online->final_count; n++)
        if (!online->finals[n].kept)
            finals[n] = AU_NEW_ARRAY(c->arena, double, first[++given].elements + 1);
    call.o = *o;
    call.finals = finals;
    call.round_to = round_to;
    call.tf32 = c->tf32 && round_to != AU_DT_OPERAND;
    return attn_interpret(c->attn, &call, c->arena, &why) || case_fail(c, why);
}

void case_add_output(aulec_case *c)
{
    int64_t *shape = AU_NEW_ARRAY(c->arena, int64_t, 4);
    memcpy(shape, c->trial.shapes[0], 3 * sizeof *shape);
    shape[1] = (int64_t)attn_scalar(c->attn, attn_heads(c->attn), c->trial.sizes, c->trial.params);
    shape[3] = c->trial.shapes[2][3];
    c->first_result = c->tensor_count;
    case_add(c, "o", AULE_ROLE_OUTPUT, AU_DT_OPERAND, shape, 4);
}

static bool add_forward(aulec_case *c)
{
    const AuAttn *a = c->attn;
    const AuOnline *online = a->online;
    case_add_output(c);
    const int64_t *shape = c->tensors[c->first_result].shape;
    for (uint32_t n = 0; n < online->final_count; n++)
        if (!online->finals[n].kept &&
            !case_add(c, online->finals[n].name, AULE_ROLE_FINAL, AU_DT_F32, shape, 3))
            return false;
    double *o[2], **finals[2];
    for (int k = 0; k < 2; k++) {
        finals[k] = AU_NEW_ARRAY(c->arena, double *, online->final_count + 1);
        if (!run_forward(c, k ? c->operand : AU_DT_OPERAND, &o[k], finals[k])) return false;
    }
    aulec_case_tensor *t = &c->tensors[c->first_result];
    case_set_want(c, t, o[0], case_error(c, o[0], o[1], t->elements), 2);
    for (uint32_t n = 0; n < online->final_count; n++) {
        if (online->finals[n].kept) continue;
        t++;
        case_set_want(c, t, finals[0][n], case_error(c, finals[0][n], finals[1][n], t->elements),
                      2);
    }
    return true;
}

/* ---- backward */

double *case_add_given(aulec_case *c, const char *name, uint32_t role, AuDtype dtype,
                       const aulec_case_tensor *like, uint64_t *random)
{
    aulec_case_tensor *t = case_add(c, name, role, dtype, like->shape, like->rank);
    if (!t) return NULL;
    double *values = trial_normal(c->arena, t->elements, (AuDtype)t->dtype, random);
    case_set_data(c, t, values);
    return values;
}

bool case_has_gradient(const AuAttn *a, uint32_t n)
{
    return n < 3 ? !(n == 2 && a->v_in_k) : a->tensors[n].grad;
}

/* Gradients of all tensors in f64 and by the plain formula. */
static bool run_backward(aulec_case *c, const AuTrial *trial, const double *dout,
                         const double *const *dfinals, double **grads[2])
{
    const AuAttn *a = c->attn;
    for (int k = 0; k < 2; k++) {
        const char *why = NULL;
        AuOracleCall call = trial_call(trial, c->diags);
        call.round_to = k ? c->operand : AU_DT_OPERAND;
        call.tf32 = k && c->tf32;
        grads[k] = AU_NEW_ARRAY(c->arena, double *, a->tensor_count);
        for (uint32_t n = 0; n < a->tensor_count; n++)
            if (case_has_gradient(a, n))
                grads[k][n] = AU_NEW_ARRAY(c->arena, double, trial->elements[n] + 1);
        if (!attn_interpret_gradients(a, c->grads, &call, dout, dfinals, grads[k], c->arena, &why))
            return case_fail(c, why);
    }
    return true;
}

/* The arguments, of one sequence by itself where that is asked for. */
static bool make_trial(aulec_case *c, const aulec_case_options *o, AuTrialKind kind, uint64_t seed,
                       AuTrial *trial)
{
    if (!trial_make(c->arena, c->diags, c->attn, kind, o->values, c->operand, seed, trial))
        return false;
    const char *why =
        o->alone ? trial_cut(c->arena, trial, o->sequence, o->queries, o->keys) : NULL;
    return !why || case_fail(c, why);
}

enum { FEW = 8, OTHERS = 1, OTHERS_OF_FEW = 3 };

/* How many further sets of arguments the plain formula is asked. */
static uint32_t other_sets(const aulec_case *c)
{
    for (uint32_t n = 0; n < c->attn->tensor_count; n++)
        if (case_has_gradient(c->attn, n) && c->trial.elements[n] > 0 && c->trial.elements[n] < FEW)
            return OTHERS_OF_FEW;
    return OTHERS;
}

/* Gradients of small tables have few elements, each a sum over many pairs that may cancel: how large the
 * plain formula's error is there is asked of several sets of arguments, not left to the luck of one. */
static bool add_gradients(aulec_case *c, const aulec_case_options *o, const double *dout,
                          const double *const *dfinals)
{
    const AuAttn *a = c->attn;
    double **grads[2], **others[OTHERS_OF_FEW][2];
    const uint32_t sets = other_sets(c);
    if (!run_backward(c, &c->trial, dout, dfinals, grads)) return false;
    for (uint32_t s = 0; s < sets; s++) {
        AuTrial other;
        if (!make_trial(c, o, AU_TRIAL_USUAL, o->seed + 1 + s, &other) ||
            !run_backward(c, &other, dout, dfinals, others[s]))
            return false;
    }
    for (uint32_t n = 0; n < a->tensor_count; n++) {
        if (!case_has_gradient(a, n)) continue;
        const AuTensor *t = &a->tensors[n];
        aulec_case_tensor *made = case_add(c, au_format(c->arena, "d%s", t->name), AULE_ROLE_GRAD,
                                           t->dtype, c->trial.shapes[n], t->rank);
        if (!made) return false;
        double error = case_error(c, grads[0][n], grads[1][n], made->elements);
        for (uint32_t s = 0; s < sets; s++)
            error = fmax(error, case_error(c, others[s][0][n], others[s][1][n], made->elements));
        case_set_want(c, made, grads[0][n], error, 4);
    }
    return true;
}

static bool add_backward(aulec_case *c, const aulec_case_options *options)
{
    const AuOnline *online = c->attn->online;
    uint64_t random = options->seed + 7919;
    const aulec_case_tensor *o = &c->tensors[c->first_result];
    if (c->grads->keeps_output &&
        !case_add(c, "o_kept", AULE_ROLE_KEPT, AU_DT_OPERAND, o->shape, 4))
        return false;
    for (uint32_t n = 0; n < online->final_count; n++)
        if (online->finals[n].kept &&
            !case_add(c, au_format(c->arena, "%s_kept", online->finals[n].name), AULE_ROLE_KEPT_ROW,
                      AU_DT_F32, o->shape, 3))
            return false;
    const double *dout = case_add_given(c, "do", AULE_ROLE_DOUT, AU_DT_OPERAND, o, &random);
    const double **dfinals = AU_NEW_ARRAY(c->arena, const double *, online->final_count + 1);
    for (uint32_t n = 0, shown = 0; n < online->final_count; n++) {
        shown += !online->finals[n].kept;
        if (c->grads->reads[n].given)
            dfinals[n] = case_add_given(c, au_format(c->arena, "d%s", online->finals[n].name),
                                        AULE_ROLE_DFINAL, AU_DT_F32, &o[shown], &random);
    }
    return dout && add_gradients(c, options, dout, dfinals);
}

/* ---- the public functions */

static void add_params(aulec_case *c)
{
    c->params = AU_NEW_ARRAY(c->arena, aulec_case_param, c->attn->param_count + 1);
    for (uint32_t n = 0; n < c->attn->param_count; n++)
        c->params[n] = (aulec_case_param){.struct_size = sizeof c->params[n],
                                          .name = c->attn->params[n].name,
                                          .is_float = c->attn->params[n].dtype == AU_DT_F32,
                                          .i = c->trial.params_i64[n],
                                          .f = c->trial.params[n]};
}

static const char *widths_of(const aulec_case *c)
{
    const AuAttn *a = c->attn;
    AuText text = {.arena = c->arena};
    bool *is_width = AU_NEW_ARRAY(c->arena, bool, a->size_count + 1);
    driver_find_widths(a, is_width);
    for (uint32_t n = 0; n < a->size_count; n++)
        if (is_width[n])
            au_text_add(&text, "%s%s=%" PRId64, text.length ? ";" : "", a->sizes[n].name,
                        c->trial.sizes[n]);
    return au_text_str(&text);
}

static bool make(aulec_case *c, const char *name, const char *text, size_t length,
                 const aulec_case_options *o)
{
    c->operand = dtype_of(o->dtype);
    c->tf32 = o->dtype && strcmp(o->dtype, "tf32") == 0;
    if (c->operand == AU_DT_OPERAND) {
        au_error(c->diags, AU_E0601, (AuSpan){0}, "'%s' is no operand type: f32, tf32, f16, bf16",
                 o->dtype);
        return false;
    }
    c->kind = o->far_inputs ? AU_TRIAL_FAR : AU_TRIAL_USUAL;
    c->attn = result_attention(c->arena, c->diags, name, text, length, o->attention);
    if (!c->attn) return false;
    c->far_inputs = c->attn->linear ? NULL : far_inputs(c->arena, c->attn);
    if (o->far_inputs && !c->far_inputs) return case_fail(c, "no input is added to scores");
    if (o->alone && c->attn->linear)
        return case_fail(c, "sequences of a recurrence are packed by cu_seqlens");
    if (!make_trial(c, o, c->kind, o->seed, &c->trial)) return false;
    c->widths = widths_of(c);
    c->grads = attn_gradients(c->attn, c->arena, c->diags);
    if (!c->grads || !driver_fits(c->arena, c->diags, c->attn, c->grads)) return false;
    add_arguments(c);
    add_params(c);
    return c->attn->linear ? case_recurrence(c, o) : add_forward(c) && add_backward(c, o);
}

aulec_status aulec_case_new(const char *name, const char *text, size_t length,
                            const aulec_case_options *options, aulec_case **reference,
                            aulec_result **result)
{
    aulec_case_options given = {.struct_size = sizeof given};
    if (!name || !text || !reference || !result || length > UINT32_MAX / 2 ||
        (options && (options->struct_size < offsetof(aulec_case_options, far_inputs) ||
                     options->struct_size > sizeof *options)))
        return AULEC_ERROR_USAGE;
    if (options) memcpy(&given, options, options->struct_size);
    aulec_result *r = result_new();
    AuArena *arena = r ? au_arena_new(NULL) : NULL; /* the case outlives the result */
    jmp_buf edge;
    if (!arena || setjmp(edge)) {
        aulec_result_free(r);
        if (arena) au_arena_free(arena);
        return AULEC_ERROR_MEMORY;
    }
    au_arena_guard(arena, &edge);
    au_arena_guard(r->arena, &edge);
    aulec_case *c = AU_NEW(arena, aulec_case);
    *c = (aulec_case){.arena = arena, .diags = r->diags};
    const bool good = make(c, name, text, length, &given);
    result_finish(r);
    *result = r;
    if (good)
        *reference = c;
    else
        au_arena_free(arena);
    return good ? AULEC_OK : AULEC_ERROR_SCRIPT;
}

void aulec_case_free(aulec_case *c)
{
    if (c) au_arena_free(c->arena);
}
const char *aulec_case_attention(const aulec_case *c) { return c->attn->name; }
const char *aulec_case_widths(const aulec_case *c) { return c->widths; }
const char *aulec_case_far_inputs(const aulec_case *c) { return c->far_inputs; }
int32_t aulec_case_has_gradients(const aulec_case *c) { return c->grads != NULL; }
size_t aulec_case_tensor_count(const aulec_case *c) { return c->tensor_count; }
const aulec_case_tensor *aulec_case_get_tensor(const aulec_case *c, size_t index)
{
    return index < c->tensor_count ? &c->tensors[index] : NULL;
}
size_t aulec_case_param_count(const aulec_case *c) { return c->attn->param_count; }
const aulec_case_param *aulec_case_get_param(const aulec_case *c, size_t index)
{
    return index < c->attn->param_count ? &c->params[index] : NULL;
}
