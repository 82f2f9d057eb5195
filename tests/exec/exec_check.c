/* exec_check.c - what a run made beside the oracle. A result may be off by some times what a plain formula in the tensors' types is. */
#include "internal.h"

#include "aule/artifact.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ENOUGH_ELEMENTS = 32, MOST_SETS = 8 }; /* for the plain formula's error (plain_errors) */

/* The oracle's results by tensor, in f64 or rounded as a plain kernel rounds. */
static bool oracle_of_all(Run *r, AuDtype round_to, double *const *results)
{
    const uint32_t o = r->attn->tensor_count;
    const double *tensors[MOST_TENSORS], *dfinals[MOST_TENSORS], *dout = NULL;
    double *grads[MOST_TENSORS] = {NULL}, *finals[MOST_TENSORS];
    const uint32_t final_count = r->attn->online ? r->attn->online->final_count : 0;
    for (uint32_t n = 0, shown = 0, given = 0, kept = 0; n < final_count; n++) {
        const bool is_kept = r->attn->online->finals[n].kept;
        const uint32_t at = is_kept ? exec_find_role(r, AULE_ROLE_KEPT_ROW, kept++)
                                    : exec_find_role(r, AULE_ROLE_FINAL, shown++);
        const bool is_given = r->grads && r->grads->reads[n].given;
        const uint32_t dfinal = is_given ? exec_find_role(r, AULE_ROLE_DFINAL, given++) : EXEC_NONE;
        finals[n] = at == EXEC_NONE ? NULL : results[at];
        dfinals[n] =
            dfinal == EXEC_NONE || r->tensors[dfinal].absent ? NULL : r->tensors[dfinal].values;
    }
    const char *why = NULL;
    for (uint32_t n = 0; n < o; n++) tensors[n] = r->tensors[n].values;
    const AuOracleCall call = {.sizes = r->sizes,
                               .tensors = tensors,
                               .params = r->params,
                               .params_i64 = r->params_i64,
                               .o = results[o],
                               .finals = finals,
                               .round_to = round_to,
                               .tf32 = exec_is_tf32(r) && round_to == AU_DT_F32,
                               .exact_sums = r->suite->is_strict};
    if (!(r->attn->linear ? exec_recurrence(r, call, results, &why)
                          : attn_interpret(r->attn, &call, r->arena, &why)))
        return exec_fail(r, "oracle", why ? why : "");
    if (!r->grads || r->attn->linear) return true;
    dout = r->tensors[exec_find_role(r, AULE_ROLE_DOUT, 0)].values;
    exec_gradients_of(r, results, grads);
    return attn_interpret_gradients(r->attn, r->grads, &call, dout, dfinals, grads, r->arena,
                                    &why) ||
           exec_fail(r, "oracle of gradients", why ? why : "");
}

static bool oracle(Run *r, AuDtype round_to, double *const *results)
{
    if (exec_has(r, "lengths")) return exec_ask_by_sequence(r, round_to, results, oracle_of_all);
    return oracle_of_all(r, round_to, results);
}

static double difference(double x, double y)
{
    return x == y || (isnan(x) && isnan(y)) ? 0
           : isfinite(x) && isfinite(y)     ? fabs(x - y)
                                            : INFINITY;
}

static double largest_of(const Tensor *t, const double *want)
{
    double largest = 0;
    for (size_t n = 0; n < t->elements; n++)
        if (isfinite(want[n])) largest = fmax(largest, fabs(want[n]));
    return largest;
}

static double largest_error(const Tensor *t, const double *want, const double *plain)
{
    double error = 0;
    for (size_t n = 0; n < t->elements; n++) error = fmax(error, difference(plain[n], want[n]));
    return error;
}

static bool ask_oracle(Run *r, double **want, double **plain)
{
    for (uint32_t n = r->attn->tensor_count; n < r->tensor_count; n++) {
        want[n] = AU_NEW_ARRAY(r->arena, double, r->tensors[n].elements + 1);
        plain[n] = AU_NEW_ARRAY(r->arena, double, r->tensors[n].elements + 1);
    }
    return oracle(r, AU_DT_OPERAND, want) && oracle(r, exec_dtype_of(r->dtype), plain);
}

static bool is_small_gradient(const Tensor *t)
{
    return t->role == AULE_ROLE_GRAD && t->elements > 0 && t->elements < ENOUGH_ELEMENTS;
}

/* How large the plain formula's error is. A gradient of few elements, each a sum over many pairs, says it
 * once or twice only, and the quotient of two such numbers can be anything: it is asked of more arguments. */
static bool plain_errors(Run *r, double *const *want, double *const *plain, double *errors)
{
    double *others[2][MOST_TENSORS] = {{NULL}};
    size_t least = ENOUGH_ELEMENTS;
    for (uint32_t n = r->attn->tensor_count; n < r->tensor_count; n++) {
        const Tensor *t = &r->tensors[n];
        errors[n] = largest_error(t, want[n], plain[n]);
        if (is_small_gradient(t) && t->elements < least) least = t->elements;
    }
    for (size_t sets = 1; sets < MOST_SETS && sets * least < ENOUGH_ELEMENTS; sets++) {
        for (uint32_t n = 0; n < r->tensor_count; n++) {
            const uint32_t role = r->tensors[n].role;
            if (n < r->attn->tensor_count || role == AULE_ROLE_DOUT || role == AULE_ROLE_DFINAL ||
                role == AULE_ROLE_DSTATE_OUT || role == AULE_ROLE_STATE)
                exec_fill(r, &r->tensors[n], n);
        }
        if (!ask_oracle(r, others[0], others[1])) return false;
        for (uint32_t n = r->attn->tensor_count; n < r->tensor_count; n++)
            if (is_small_gradient(&r->tensors[n]))
                errors[n] =
                    fmax(errors[n], largest_error(&r->tensors[n], others[0][n], others[1][n]));
    }
    return true;
}

/* Gradients of keys and values are products of whole tiles, in which 0 times NaN is NaN. */
static bool may_be_poisoned(const Run *r, const Tensor *t)
{
    return exec_has(r, "poison") && (strcmp(t->name, "dk") == 0 || strcmp(t->name, "dv") == 0);
}

/* With queries of 0, scores are biases alone, which no rounding touches: then a script whose plain formula in the operand type is not
 * near the truth has the wrong formula, and a kernel that has the same error is not right. */
static bool is_no_measure(const Run *r, const Tensor *t, const double *want, double bound)
{
    const double largest = largest_of(t, want);
    return exec_has(r, "flat") && largest > 0 && bound > largest / 4;
}

/* The plain formula rounds weights to the type, and loses those that it does not hold. */
static bool is_of_small_weights(const Run *r, const Tensor *t)
{
    return exec_has(r, "scaled") && strcmp(t->name, "dv") == 0;
}

/* What a few roundings are of the largest result. A state behind chunks is f32, but it may be little more than the token last written, whose key
 * products take rounded: one rounding of the operand's type. Of a
 * gradient through slots twice the few: of those, the plain formula of recurrences has none. */
static double few_roundings(const Run *r, const Tensor *t)
{
    if (r->attn->linear && t->role == AULE_ROLE_GRAD && t->dtype == AU_DT_F32) return 0x1p-20;
    if (!r->chunk || t->role != AULE_ROLE_STATE_OUT) return 0x1p-21;
    return 0x1p-21 + (strcmp(r->dtype, "bf16") == 0 ? 0x1p-8 : 0x1p-11);
}

/* [plain]: the plain formula's error; [scale]: of which a few roundings are no error. */
static bool compare(Run *r, const Tensor *t, const double *want, double plain, double scale)
{
    const double factor = exec_is_made(t->role, AU_BACKWARD) ? 4 : 2;
    double error = 0;
    size_t worst = 0;
    for (size_t n = 0; n < t->elements; n++) {
        const double got = exec_get(t->bytes + exec_memory_index(t, n) * exec_bytes_of(t->dtype),
                                    t->dtype),
                     e = difference(got, want[n]);
        if (isnan(got) && may_be_poisoned(r, t)) continue;
        if (exec_may_be_later(r, t, n, got)) continue;
        if (e > error || isnan(e)) error = e, worst = n;
    }
    const double bound =
        is_of_small_weights(r, t)
            ? (strcmp(r->dtype, "bf16") == 0 ? 0x1p-6 : 0x1p-9) * largest_of(t, want)
            : factor * plain + few_roundings(r, t) * scale;
    if (is_no_measure(r, t, want, bound))
        return exec_fail(r, t->name, "the plain formula itself is as far off as this is large");
    ExecSuite *suite = r->suite;
    const uint32_t result = suite->result_count++;
    suite->results[result].error = error == 0 ? 0 : error / bound;
    snprintf(suite->results[result].name, sizeof suite->results[result].name, "%s", t->name);
    if (error <= bound) return true;
    char text[200];
    snprintf(text, sizeof text, "element %zu is %.9g, expected %.9g: error %.3g, bound %.3g", worst,
             exec_get(t->bytes + exec_memory_index(t, worst) * exec_bytes_of(t->dtype), t->dtype),
             want[worst], error, bound);
    return exec_fail(r, t->name, text);
}

bool exec_check(Run *r)
{
    double *want[MOST_TENSORS] = {NULL}, *plain[MOST_TENSORS] = {NULL}, errors[MOST_TENSORS];
    if (!ask_oracle(r, want, plain) || !plain_errors(r, want, plain, errors)) return false;
    bool good = true;
    double gradients = 0; /* those that cancel are differences of numbers as large as the others */
    for (uint32_t n = r->attn->tensor_count; n < r->tensor_count; n++)
        if (exec_is_made(r->tensors[n].role, AU_BACKWARD) && !r->tensors[n].absent)
            gradients = fmax(gradients, largest_of(&r->tensors[n], want[n]));
    for (uint32_t n = r->attn->tensor_count; n < r->tensor_count; n++) {
        const Tensor *t = &r->tensors[n];
        if (exec_is_made(t->role, AU_BACKWARD) && !t->absent)
            good &= compare(r, t, want[n], errors[n], gradients);
        else if (t->role == AULE_ROLE_OUTPUT || t->role == AULE_ROLE_FINAL ||
                 ((t->role == AULE_ROLE_STATE_OUT || t->role == AULE_ROLE_POOL) && !t->absent))
            good &= compare(r, t, want[n], errors[n], largest_of(t, want[n]));
    }
    return good;
}
