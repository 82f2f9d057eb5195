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

/* Kernels that own queries have neither further products nor values that begin anywhere in the keys. */
static const char *refusal_of_queries(const AuProblem *p)
{
    AuShape shape;
    if (p->hooks->dot_count || (p->attn->v_in_k && p->e % 16) || !warps_queries_shape(p, &shape))
        return p->deterministic ? "sums in one order"
                                : "sums over keys that need a pass of their own";
    return p->deterministic && p->grads->pairs.count ? "sums of inputs in one order" : NULL;
}

/* Heads that share keys, but not their values or their tiles of queries. */
static bool heads_apart(const AuProblem *p)
{
    const AuAttn *a = p->attn;
    const bool own_mask = a->mask.i && attn_at(a, a->mask)->axes & AU_AX_H;
    return (!a->v_in_k && a->tensors[1].axes[1].i != a->tensors[2].axes[1].i) ||
           (own_mask && a->tensors[0].axes[1].i != a->tensors[1].axes[1].i);
}

const char *warps_back_refusal(AuArena *arena, const AuProblem *p)
{
    const AuGrads *g = p->grads;
    (void)arena;
    if (p->deterministic || g->pass_count) {
        const char *why = refusal_of_queries(p);
        if (why) return why;
    }
    for (uint32_t n = 0; n < g->dot_count; n++)
        if (g->ddots[n].i != g->dscore.i)
            return "further products whose gradient is not that of the score";
    if (p->deterministic && heads_apart(p)) return "sums of heads in one order";
    return NULL;
}

Lanes warps_back_begin(AuArena *arena, AuTileBuild *t, const AuProblem *p, AuSchedule *out)
{
    Lanes x = warps_begin(arena, t, p, out);
    x.block = x.rows * out->shape.executors / out->shape.column_parts;
    x.values_joined = true;
    x.heads_apart = heads_apart(p);
    x.with_dq = !p->deterministic;
    return x;
}
