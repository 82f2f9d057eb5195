/* exec_linear.c - the oracle of recurrences: outputs, states, and gradients of both. */
#include "internal.h"

#include "aule/artifact.h"
#include "linear.h"
#include "meaning.h"

#include <string.h>

/* By role: state, sum. */
static void states_of(const Run *r, uint32_t role, double *const *results, double *states[2])
{
    for (uint32_t n = 0; n < 2; n++) {
        const uint32_t at = exec_find_role(r, role, n);
        const bool made = role == AULE_ROLE_STATE_OUT || role == AULE_ROLE_DSTATE;
        states[n] = at == EXEC_NONE || r->tensors[at].absent ? NULL
                    : made                                   ? results[at]
                                                             : r->tensors[at].values;
    }
}

int64_t exec_slot(const Run *r, size_t sequence)
{
    return r->sizes[r->attn->linear->own_sizes] - 1 - (int64_t)sequence;
}

/* States of a step: those of the slots before it, and room for them behind it; with [results], they go where they came from, and
 * states that no sequence has stay. */
static void pool_of(Run *r, double *const *results, double *in[2], double *out[2])
{
    for (uint32_t n = 0; n < 2; n++) {
        const uint32_t at = exec_find_role(r, AULE_ROLE_POOL, n);
        if (at == EXEC_NONE || r->tensors[at].absent) continue;
        const Tensor *t = &r->tensors[at];
        const size_t sequences = (size_t)r->sizes[r->attn->linear->own_sizes + 1],
                     each = t->elements / (size_t)t->shape[0];
        if (results) memcpy(results[at], t->values, t->elements * sizeof(double));
        if (!in[n]) in[n] = AU_NEW_ARRAY(r->arena, double, sequences *each + 1);
        if (!out[n]) out[n] = AU_NEW_ARRAY(r->arena, double, sequences *each + 1);
        for (size_t b = 0; b < sequences; b++) {
            const size_t slot = (size_t)exec_slot(r, b) * each;
            if (results)
                memcpy(results[at] + slot, out[n] + b * each, each * sizeof(double));
            else
                memcpy(in[n] + b * each, t->values + slot, each * sizeof(double));
        }
    }
}

/* Arrays of gradients by tensor. */
void exec_gradients_of(const Run *r, double *const *results, double **grads)
{
    uint32_t of = 0;
    for (uint32_t n = r->attn->tensor_count + 1; n < r->tensor_count; n++) {
        if (r->tensors[n].role != AULE_ROLE_GRAD) continue;
        while (!r->attn->tensors[of].grad || (of == 2 && r->attn->v_in_k)) of++;
        grads[of++] = results[n];
    }
}

/* The forward once more, in chunks of products that round what they multiply. */
static bool by_products(Run *r, const AuLinearCall *all, const AuNormal *n, const char **why)
{
    AuLinearCall forward = *all;
    forward.how = recurrence_by_products(r->chunk, all->how.operand);
    return attn_linear_forward(r->attn, n, &forward, r->arena, why);
}

/* Token after token. Plain: in f32, the output and gradients in the operand's type; by products where the kernels are. */
bool exec_recurrence(Run *r, AuOracleCall call, double *const *results, const char **why)
{
    double *in[2], *out[2], *dout[2], *din[2], *grads[MOST_TENSORS] = {NULL};
    states_of(r, AULE_ROLE_STATE, results, in);
    states_of(r, AULE_ROLE_STATE_OUT, results, out);
    states_of(r, AULE_ROLE_DSTATE_OUT, results, dout);
    states_of(r, AULE_ROLE_DSTATE, results, din);
    exec_gradients_of(r, results, grads);
    if (exec_has(r, "step")) pool_of(r, NULL, in, out);
    static const int32_t bits[] = {
        [AU_DT_F32] = 0, [AU_DT_F16] = 11, [AU_DT_BF16] = 8, [AU_DT_OPERAND] = 0};
    const bool plain = call.round_to != AU_DT_OPERAND;
    const AuNormal n = attn_normal_form(r->attn, r->arena);
    const uint32_t given = r->grads ? exec_find_role(r, AULE_ROLE_DOUT, 0) : EXEC_NONE;
    AuLinearCall all = {.call = call,
                        .how = {.single = plain, .operand = plain ? bits[call.round_to] : 0},
                        .cu_seqlens = r->cu_seqlens,
                        .sequences = r->sizes[r->attn->linear->own_sizes - 1] - 1,
                        .state_in = in[0],
                        .sum_in = in[1],
                        .state_out = out[0],
                        .sum_out = out[1],
                        .dout = given == EXEC_NONE ? NULL : r->tensors[given].values,
                        .dstate_out = dout[0],
                        .dsum_out = dout[1],
                        .dstate_in = din[0],
                        .dsum_in = din[1],
                        .grads = grads};
    if (plain && r->back_chunk) all.how = recurrence_by_products(r->back_chunk, all.how.operand);
    if (!(r->grads ? attn_linear_gradients(r->attn, &n, r->grads->normal, &all, r->arena, why)
                   : attn_linear_forward(r->attn, &n, &all, r->arena, why)))
        return false;
    if (plain && r->chunk && !by_products(r, &all, &n, why)) return false;
    if (exec_has(r, "step")) pool_of(r, results, in, out);
    for (uint32_t t = r->attn->tensor_count; plain && t < r->tensor_count; t++)
        for (size_t i = 0; i < r->tensors[t].elements; i++)
            if (t == r->attn->tensor_count || r->tensors[t].role == AULE_ROLE_GRAD)
                results[t][i] = attn_round(results[t][i], r->tensors[t].dtype);
    return true;
}
