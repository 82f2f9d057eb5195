/* warps_back.c - see warps_back.h: statistics of rows, and what this schedule does not have. */
#include "key_layout.h"
#include "lanes_back.h"

#include <string.h>

typedef struct Statistic {
    const char *kind; /* "final", "adjoint"; NULL: there are fewer */
    uint32_t final;
} Statistic;

/* The n-th that pairs read. */
static Statistic statistic(const Lanes *x, uint32_t n, bool adjoints)
{
    const AuGradReads *reads = x->p->grads->reads;
    const uint32_t finals = x->p->attn->online->final_count;
    for (uint32_t i = 0; i < finals; i++)
        if (reads[i].final_by_pairs && n-- == 0) return (Statistic){"final", i};
    for (uint32_t i = 0; i < finals && adjoints; i++)
        if (reads[i].adjoint_by_pairs && n-- == 0) return (Statistic){"adjoint", i};
    return (Statistic){NULL, 0};
}

uint32_t back_row_count(const Lanes *x, bool adjoints)
{
    uint32_t count = 0;
    while (statistic(x, count, adjoints).kind) count++;
    return count;
}

const char *back_row_name(Lanes *x, uint32_t n)
{
    const Statistic s = statistic(x, n, true);
    return tile_text(x->t, "%s_%s", s.kind, x->p->attn->online->finals[s.final].name);
}

const char *back_row_variable(Lanes *x, uint32_t n)
{
    const Statistic s = statistic(x, n, true);
    return tile_text(x->t, "%s%u", s.kind, s.final);
}

void back_load_statistics(Lanes *x, bool adjoints)
{
    for (uint32_t n = 0; n < back_row_count(x, adjoints); n++)
        tile_load(x->t, back_row_variable(x, n), "%s[%s] like score pad 0", back_row_name(x, n),
                  lanes_query_place(x));
}

/* A weight is exp(s - F), F the final that is not kept apart and has an adjoint: -inf in rows without a pair, and in no others
 * (dsl/ir/parts.c). */
bool back_is_paired(const Lanes *x, uint32_t final)
{
    const AuGrads *g = x->p->grads;
    const AuOnline *online = x->p->attn->online;
    uint32_t adjoints = 0;
    for (uint32_t n = 0; n < online->final_count; n++) adjoints += g->reads[n].adjoint_by_pairs;
    return x->sums_by_units && g->weights_are_parts && adjoints == 1 &&
           !online->finals[final].kept && g->reads[final].adjoint_by_pairs &&
           g->reads[final].final_by_pairs;
}

bool back_row_is_paired(const Lanes *x, uint32_t n)
{
    const Statistic s = statistic(x, n, true);
    return strcmp(s.kind, "adjoint") == 0 && back_is_paired(x, s.final);
}

const char *back_output_gradient(Lanes *x)
{
    return x->p->hooks->has_out_mod ? "do_changed" : "do";
}

bool warps_dq_is_apart(const AuProblem *p)
{
    const AuTileAtom *atom = warps_atom(p);
    return p->deterministic || (atom && atom->by_place);
}

/* Pairs are numbers, and operands beside them. Intel's compiler copies what a loop carries once a turn, so that sums take their registers twice there:
 * seen without spills up to 212 of 256 by this count, and with from 224 on (docs/dev/blocks.md, 9). */
bool warps_far_fits(const AuProblem *p, const WarpsFar *needs)
{
    enum { SHARE = 54 };
    const int32_t bytes = tile_elem(p->operand)->bytes, word = (int32_t)sizeof(float),
                  operands = needs->held + needs->made,
                  copies = p->caps->loads & TILE_LOADS_BLOCK ? 2 : 1;
    return copies * needs->sums + needs->pairs + operands * bytes / word <=
           tile_share(p->caps, SHARE) * p->caps->lanes;
}

/* Kernels that own queries have neither further products nor values that begin anywhere in the keys. */
static const char *refusal_of_queries(const AuProblem *p)
{
    AuShape shape;
    if (p->hooks->dot_count || (p->attn->v_in_k && p->e % 16) || !warps_queries_shape(p, &shape))
        return p->deterministic       ? "sums in one order"
               : warps_dq_is_apart(p) ? "sums of queries in a kernel of their own"
                                      : "sums over keys that need a pass of their own";
    return !p->deterministic && warps_dq_is_apart(p) && back_sums_by_query(p)
               ? "sums of inputs of elements that lie nobody knows where"
               : NULL;
}

bool warps_heads_apart(const AuProblem *p)
{
    const AuAttn *a = p->attn;
    const bool own_mask = a->mask.i && attn_at(a, a->mask)->axes & AU_AX_H;
    return (!a->v_in_k && a->tensors[1].axes[1].i != a->tensors[2].axes[1].i) ||
           (own_mask && a->tensors[0].axes[1].i != a->tensors[1].axes[1].i);
}

const char *warps_refusal_of_order(const AuProblem *p)
{
    if (!p->deterministic) return NULL;
    if (p->grads->pairs.count) return "sums of inputs in one order";
    return warps_heads_apart(p) ? "sums of heads in one order" : NULL;
}

const char *warps_back_refusal(AuArena *arena, const AuProblem *p)
{
    const AuGrads *g = p->grads;
    const char *why = NULL;
    (void)arena;
    if (back_layout_refusal(p)) return back_layout_refusal(p);
    if (warps_dq_is_apart(p) || g->pass_count) why = refusal_of_queries(p);
    if (!why) why = warps_refusal_of_order(p);
    if (why) return why;
    for (uint32_t n = 0; n < g->dot_count; n++)
        if (g->ddots[n].i != g->dscore.i)
            return "further products whose gradient is not that of the score";
    if (warps_dq_is_apart(p) && warps_heads_apart(p))
        return "sums of heads of elements that lie nobody knows where";
    return NULL;
}

Lanes warps_back_begin(AuArena *arena, AuTileBuild *t, const AuProblem *p, AuSchedule *out)
{
    Lanes x = warps_begin(arena, t, p, out);
    x.values_joined = true;
    x.heads_apart = warps_heads_apart(p);
    x.with_dq = !warps_dq_is_apart(p) && !out->shape.far;
    return x;
}

Lanes warps_back_of_queries(Lanes *x, const AuShape *shape)
{
    Lanes y = *x;
    y.shape = shape;
    y.rows = shape->rows;
    y.block = shape->rows * shape->executors;
    y.via_shared = warps_via_shared(x->p, shape);
    x->item_rows[LANES_QUERIES] = y.item_rows[LANES_QUERIES] = y.block;
    return y;
}

/* Tiles of queries that the keys of the block meet. */
void back_query_tiles(Lanes *x)
{
    AuTileBuild *t = x->t;
    const char *s = lanes_query_end(x), *last = lanes_key_end(x),
               *head = x->heads_apart ? "h" : "hk";
    const char *seen = lanes_passing_end(x, LANES_KEYS, "nb", x->block);
    tile_let(t, "q_low, q_high, q_full_low, q_full_high",
             "query_range(b, %s, nb * %d, min(nb * %d + %d, %s))", head, x->block, x->block,
             x->block, last);
    if (x->p->attn->mask.i)
        tile_let(t, "k_low, k_high, k_full_low, k_full_high", "%s", lanes_range_of_all(x, head));
    if (x->p->hooks->needs_lists) {
        lanes_list_segments(x, "queries", "back_", head, "nb");
        return;
    }
    tile_let(
        t, "m_low, f_low, f_high, m_high",
        "key_tiles(q_low, q_high, where(nb * %d + %d > %s, %s, q_full_low), q_full_high, %s, %d)",
        x->block, x->block, last, s, seen, x->shape->query_tile);
    tile_list(t, "queries");
    tile_segment(t, "partial", TILE_RANGE, "m_low", "f_low");
    tile_segment(t, "full", TILE_RANGE, "f_low", "f_high");
    tile_segment(t, "partial", TILE_RANGE, "f_high", "m_high");
}
