/* lanes_mixed.c - on processors, forward for batches of packed queries in which some sequences decode and others are chunks of prefills: the kernel for any
 * number (lanes_forward.c) and those for few queries (lanes_decode.c), each for the sequences that are its own, as warps_mixed.c has them.
 *
 * Kernels: `work`, `k_rows`, `v_rows` (rows that the script changes), `forward`, `keys`, `few` (joins), `rest`. */
#include "key_layout.h"

static Lanes few_of(const Lanes *many, const AuProblem *p, const AuShape *shape)
{
    Lanes few = *many;
    few.p = p;
    few.shape = shape;
    few.atom = NULL;
    few.values_in_rows = few.values_beside = false;
    lanes_decode_begin(&few);
    few.only = LANES_FEW;
    lanes_decode_share_keys(&few);
    return few;
}

static void kernels(Lanes *given)
{
    Lanes many = *given;
    AuProblem *p = AU_NEW(given->arena, AuProblem);
    AuShape *shape = AU_NEW(given->arena, AuShape);
    const char *why;
    *p = schedule_problem_for(given->p, AU_DECODE_QUERIES);
    if (!schedule_lanes_decode_shape(given->arena, p, shape, &why)) return;
    Lanes few = few_of(given, p, shape);
    many.only = LANES_MANY;
    lanes_forward_kernel(&many);
    lanes_decode_kernels(&few);
}

AuSchedule *schedule_lanes_mixed(AuArena *arena, AuDiags *diags, const AuProblem *p,
                                 const AuShape *shape)
{
    AuProblem *many = AU_NEW(arena, AuProblem);
    *many = schedule_problem_for(p, AU_ANY_QUERIES);
    AuSchedule *out = schedule_new(arena, diags, p, "lanes_mixed", shape, NULL);
    Lanes x;
    if (!lanes_forward_begin(arena, diags, many, out, &x)) return NULL;
    if (!x.makes_elements)
        tile_layout(x.t, "a_row_along", "reg", tile_text(x.t, "lane:%d@1", p->caps->lanes));
    out->by_batch = !p->invariant;
    return lanes_forward_built(&x, diags, kernels);
}

/* ---- shapes */

static const char *refusal(AuArena *arena, const AuProblem *p)
{
    AuShape few;
    const char *why;
    if (p->queries != AU_MIXED_QUERIES) return "queries of one kind";
    if (p->attn->queries.layout != AU_LAYOUT_PACKED) return "queries that are not packed";
    if (!p->caps->has_private) return "machines whose executors have no memory of their own";
    const AuTileAtom *atom = lanes_forward_atom(p, TILE_ON_THREAD);
    if (p->hooks->has_v_mod && atom && atom->k > 2)
        return "changed values, which matrix units take as rows of their own";
    if (schedule_heads_apart_refusal(p)) return schedule_heads_apart_refusal(p);
    const AuProblem one = schedule_problem_for(p, AU_DECODE_QUERIES);
    return schedule_lanes_decode_shape(arena, &one, &few, &why) ? NULL : why;
}

const char *schedule_lanes_mixed_fit(AuArena *arena, const AuProblem *p, AuShape *s)
{
    const AuProblem many = schedule_problem_for(p, AU_ANY_QUERIES);
    const char *why = refusal(arena, p);
    return why ? why : schedule_lanes_forward_fit(arena, &many, s);
}

/* Blocks of 64 rows where 128 are usual: the chunks beside rows that decode may be short, and long ones take 3 % more (docs/dev/performance-notes.md). Matrix
 * units want all of 128. */
bool schedule_lanes_mixed_shape(AuArena *arena, const AuProblem *p, AuShape *out, const char **why)
{
    const AuTileAtom *atom = lanes_forward_atom(p, TILE_ON_THREAD);
    const bool matrix = atom && atom->k > 2;
    const AuProblem many = schedule_problem_for(p, matrix ? AU_ANY_QUERIES : AU_SOME_QUERIES);
    *why = refusal(arena, p);
    return !*why && schedule_lanes_forward_shape(arena, &many, out, why);
}
