/* warps_back.c - see warps_back.h: statistics of rows, and what this schedule does not have. */
#include "warps_back.h"

static uint32_t finals(const Lanes *x) { return x->p->attn->online->final_count; }

uint32_t back_row_count(const Lanes *x) { return 2 * finals(x); }

const char *back_row_name(Lanes *x, uint32_t n)
{
    const bool given = n < finals(x);
    return tile_text(x->t, "%s_%s", given ? "final" : "adjoint",
                     x->p->attn->online->finals[n % finals(x)].name);
}

const char *back_row_variable(Lanes *x, uint32_t n)
{
    return tile_text(x->t, "%s%u", n < finals(x) ? "final" : "adjoint", n % finals(x));
}

const char *back_output_gradient(Lanes *x)
{
    return x->p->hooks->has_out_mod ? "do_changed" : "do";
}

const char *warps_back_refusal(AuArena *arena, const AuProblem *p)
{
    const AuAttn *a = p->attn;
    const AuGrads *g = p->grads;
    (void)arena;
    if (p->deterministic) return "gradients of queries are summed in any order";
    for (uint32_t n = 0; n < g->dot_count; n++)
        if (g->ddots[n].i != g->dscore.i)
            return "further products whose gradient is not that of the score";
    if (g->pass_count) return "sums over keys that need a pass of their own";
    if (!a->v_in_k && a->tensors[1].axes[1].i != a->tensors[2].axes[1].i)
        return "keys and values with different numbers of heads";
    if (a->mask.i && attn_at(a, a->mask)->axes & AU_AX_H &&
        a->tensors[0].axes[1].i != a->tensors[1].axes[1].i)
        return "masks of their own for heads that share keys";
    return NULL;
}

Lanes warps_back_begin(AuArena *arena, AuTileBuild *t, const AuProblem *p, AuSchedule *out)
{
    Lanes x = warps_begin(arena, t, p, out);
    x.block = x.rows * out->shape.executors / out->shape.column_parts;
    x.with_dq = x.values_joined = true;
    return x;
}
