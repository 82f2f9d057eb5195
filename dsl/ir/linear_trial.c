/* linear_trial.c - see linear_trial.h. */
#include "linear_trial.h"

#include <math.h>

/* ---- arguments and room */

size_t laws_extent(const Laws *l, const AuOracleCall *c, uint32_t tensor, uint32_t axis)
{
    return (size_t)attn_scalar(l->a, l->a->tensors[tensor].axes[axis], c->sizes, c->params);
}

static size_t heads(const Laws *l, const AuOracleCall *c)
{
    size_t most = 0;
    for (uint32_t t = 0; t < 3; t++)
        most = laws_extent(l, c, t, 1) > most ? laws_extent(l, c, t, 1) : most;
    return most;
}

size_t laws_elements(const Laws *l, const AuOracleCall *c, uint32_t tensor)
{
    size_t count = 1;
    for (uint32_t k = 0; k < l->a->tensors[tensor].rank; k++) count *= laws_extent(l, c, tensor, k);
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
    return laws_extent(l, c, 0, 0) * heads(l, c) * laws_extent(l, c, 0, 2) *
           laws_extent(l, c, 2, 3);
}

AuLinearCall laws_call(const Laws *l, const AuOracleCall *c, size_t states)
{
    const size_t rows = states * heads(l, c) * laws_extent(l, c, 0, 3);
    const size_t cells = rows * laws_extent(l, c, 2, 3);
    AuLinearCall call = {.call = *c,
                         .state_in = numbers(l->arena, cells, 1, 0),
                         .dstate_out = numbers(l->arena, cells, 2, 0),
                         .dout = numbers(l->arena, outputs(l, c), 3, 0)};
    if (!l->n->slot[AU_SLOT_NORM].i) return call;
    call.sum_in = numbers(l->arena, rows, 4, 3); /* away from 0, which a norm divides by */
    call.dsum_out = numbers(l->arena, rows, 5, 0);
    return call;
}

Made laws_made(const Laws *l, const AuOracleCall *c, size_t states)
{
    AuArena *m = l->arena;
    const size_t rows = states * heads(l, c) * laws_extent(l, c, 0, 3);
    const bool sums = l->n->slot[AU_SLOT_NORM].i != 0;
    Made made = {.o = part(m, "o", outputs(l, c)),
                 .state = part(m, "the last state", rows * laws_extent(l, c, 2, 3)),
                 .sum = part(m, "the last sum", sums ? rows : 0),
                 .dstate =
                     part(m, "the gradient of the first state", rows * laws_extent(l, c, 2, 3)),
                 .dsum = part(m, "the gradient of the first sum", sums ? rows : 0),
                 .grads = AU_NEW_ARRAY(m, Part, l->a->tensor_count),
                 .grad_arrays = AU_NEW_ARRAY(m, double *, l->a->tensor_count)};
    for (uint32_t t = 0; t < l->a->tensor_count; t++) {
        if ((t >= 3 && !l->a->tensors[t].grad) || (t == 2 && l->a->v_in_k)) continue;
        made.grads[t] = part(m, au_format(m, "d%s", l->a->tensors[t].name), laws_elements(l, c, t));
        made.grad_arrays[t] = made.grads[t].at;
    }
    return made;
}

bool laws_run(Laws *l, AuLinearCall *call, const Made *to, bool backward)
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

const char *laws_compare_part(Laws *l, const Part *found, const Part *expected, const Part *plain,
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

const char *laws_compare(Laws *l, const Made *found, const Made *expected, const Made *plain,
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
        off =
            laws_compare_part(l, all[n].found, all[n].expected, all[n].plain, bound, all[n].times);
    for (uint32_t t = 0; t < l->a->tensor_count && !off; t++)
        if (expected->grads[t].at)
            off = laws_compare_part(l, &found->grads[t], &expected->grads[t],
                                    plain ? &plain->grads[t] : NULL, bound, 4);
    return off;
}
