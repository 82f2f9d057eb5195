/* warps_mixed.c - forward for batches of packed queries in which some sequences decode and others are chunks of prefills: the kernels for few
 * queries (warps_decode.c) and the one for any number (warps_forward.c, or group_forward.c: the schedule group_mixed), one behind the other, each
 * for the sequences that are its own.
 *
 * Whose a sequence is says the number of its rows, which each block reads where it reads the starts: to the others' kernels it is one without
 * rows, whose blocks leave. So nobody waits for the host, and lists may change between replays of a graph. Few are as many as a call would have
 * that decodes alone, so that a sequence has the same kernels, and with parts of its own the same bits, whatever the others are.
 *
 * Rows of many come first: their products leave memory idle, and `keys`, which waits for nothing of theirs, begins beside their last blocks. What
 * lists it reads are made before them.
 *
 * Kernels: `work`, `q_rows`, `k_rows`, `v_rows` (rows that the script changes, of all), `many` (lists the sequences of many rows), the lists of
 * warps_decode.c, `forward`, `keys`, `few` (joins), `rest`. */
#include "group.h"
#include "key_layout.h"
#include "shapes.h"
#include "warps_decode.h"

/* The schedule whose kernel is that of many rows. */
typedef struct OfMany {
    const char *name, *schedule; /* of the batch; where its rows are alone */
    bool (*shape)(AuArena *arena, const AuProblem *p, AuShape *shape, const char **why);
    const char *(*fit)(AuArena *arena, const AuProblem *p, AuShape *shape);
    const char *(*refusal)(AuArena *arena, const AuProblem *p, const AuShape *shape);
    void (*kernel)(Lanes *x);
} OfMany;

static const OfMany warps = {"warps_mixed",
                             "warps_forward",
                             schedule_warps_forward_shape,
                             schedule_warps_forward_fit,
                             schedule_warps_refusal,
                             warps_forward_kernel},
                    groups = {"group_mixed",
                              "group_forward",
                              schedule_group_forward_shape,
                              schedule_group_forward_fit,
                              schedule_group_refusal,
                              group_forward_kernel};

/* Blocks of groups of warps that a processor begins at most (AuShape.persistent), each for several of the list's, of which most may be left over:
 * measured on an H100 (docs/dev/hopper.md). */
enum { BLOCKS_A_PROCESSOR = 4 };

static const OfMany *of_many(const AuProblem *p) { return p->boxes ? &groups : &warps; }

static AuProblem problem_of_many(const AuProblem *p)
{
    const bool paged = p->attn->keys.layout == AU_LAYOUT_PAGED;
    return schedule_problem_for(p, paged ? AU_PAGED_QUERIES : AU_ANY_QUERIES);
}

/* What a row of text says of the kernels where they are alone holds beside others, too: sequences have the same kernels then. */
static void follow_rows(AuArena *arena, const AuProblem *p, const char *schedule,
                        const char *(*fit)(AuArena *, const AuProblem *, AuShape *), AuShape *s)
{
    const AuShapeRow *row = shapes_row(p->shapes, p, schedule, SHAPES_FORCED);
    if (!row) row = shapes_row(p->shapes, p, schedule, SHAPES_TUNED);
    AuShape said = *s;
    if (!row) return;
    shape_apply(row, &said);
    if (!fit(arena, p, &said)) *s = said;
}

/* The shape for few. Where those of the other kernel are warps' tiles they lie in memory alike: that is said of all (option swizzle_span). */
static bool shape_of_few(AuArena *arena, const AuProblem *few, AuShape *many, AuShape *out,
                         const char **why)
{
    if (!schedule_warps_decode_shape(arena, few, out, why)) return false;
    follow_rows(arena, few, "warps_decode", schedule_warps_decode_fit, out);
    if (few->boxes)
        many->swizzle_span = out->swizzle_span;
    else
        out->swizzle_span = many->swizzle_span;
    *why = schedule_warps_refusal(arena, few, out);
    return !*why;
}

static Lanes lanes_of_few(const Lanes *given, const AuProblem *p, const AuShape *shape)
{
    Lanes few = *given;
    few.p = p;
    few.shape = shape;
    few.rows = few.block = shape->rows;
    few.resident = warps_decode_resident(p, shape);
    few.only = LANES_FEW;
    if (!given->sum_atom) return few;
    few.atom = given->sum_atom; /* single warps */
    few.sum_atom = NULL;
    few.via_shared = warps_via_shared(p, shape);
    few.is_exact = true; /* as where they are alone */
    return few;
}

static void kernels(Lanes *given)
{
    Lanes many = *given;
    AuShape *shape = AU_NEW(given->arena, AuShape), of_many_rows = *given->shape;
    AuProblem *p = AU_NEW(given->arena, AuProblem);
    const char *why;
    *p = schedule_problem_for(given->p, AU_DECODE_QUERIES);
    p->balanced = schedule_balances(given->arena, p);
    if (!shape_of_few(given->arena, p, &of_many_rows, shape, &why)) return;
    p->balanced &= shape->part_start != 0;
    Lanes few = lanes_of_few(given, p, shape);
    warps_code_layouts(&few);
    warps_prefix_begin(&few);
    many.only = LANES_MANY;
    lanes_many_kernel(&many);
    warps_decode_lists(&few);
    of_many(given->p)->kernel(&many);
    warps_decode_kernels(&few);
}

static AuSchedule *build(AuArena *arena, AuDiags *diags, const AuProblem *p, const AuShape *shape)
{
    AuProblem *many = AU_NEW(arena, AuProblem);
    *many = problem_of_many(p);
    AuSchedule *out = schedule_new(arena, diags, p, of_many(p)->name, shape,
                                   of_many(p)->refusal(arena, many, shape));
    if (!out) return NULL;
    out->overlaps = true;
    Lanes x = warps_begin(arena, schedule_begin(arena, diags, many, out), many, out);
    if (p->boxes)
        x = group_begin(x);
    else {
        warps_layouts(&x);
        warps_forward_layouts(&x);
    }
    x.lists_many = true;
    return lanes_forward_built(&x, diags, kernels);
}

AuSchedule *schedule_warps_mixed(AuArena *arena, AuDiags *diags, const AuProblem *p,
                                 const AuShape *shape)
{
    return build(arena, diags, p, shape);
}

AuSchedule *schedule_group_mixed(AuArena *arena, AuDiags *diags, const AuProblem *p,
                                 const AuShape *shape)
{
    return build(arena, diags, p, shape);
}

/* ---- shapes */

static const char *refusal(const AuProblem *p)
{
    if (p->queries != AU_MIXED_QUERIES) return "queries of one kind";
    if (!lanes_is_packed(&(Lanes){.p = p}, LANES_QUERIES)) return "queries that are not packed";
    return NULL;
}

static const char *fit(AuArena *arena, const AuProblem *p, AuShape *s)
{
    AuShape few;
    const char *why = refusal(p);
    if (why) return why;
    const AuProblem one = schedule_problem_for(p, AU_DECODE_QUERIES), many = problem_of_many(p);
    why = of_many(p)->fit(arena, &many, s);
    if (why) return why;
    return shape_of_few(arena, &one, s, &few, &why) ? NULL : why;
}

const char *schedule_warps_mixed_fit(AuArena *arena, const AuProblem *p, AuShape *s)
{
    return fit(arena, p, s);
}

const char *schedule_group_mixed_fit(AuArena *arena, const AuProblem *p, AuShape *s)
{
    return fit(arena, p, s);
}

static bool shape_by_rule(AuArena *arena, const AuProblem *p, AuShape *out, const char **why)
{
    AuShape few;
    *why = refusal(p);
    if (*why) return false;
    const OfMany *as = of_many(p);
    const AuProblem one = schedule_problem_for(p, AU_DECODE_QUERIES), many = problem_of_many(p);
    if (!as->shape(arena, &many, out, why)) return false;
    if (p->boxes) out->persistent = BLOCKS_A_PROCESSOR;
    follow_rows(arena, &many, as->schedule, as->fit, out);
    return shape_of_few(arena, &one, out, &few, why);
}

bool schedule_warps_mixed_shape(AuArena *arena, const AuProblem *p, AuShape *out, const char **why)
{
    return shape_by_rule(arena, p, out, why);
}

bool schedule_group_mixed_shape(AuArena *arena, const AuProblem *p, AuShape *out, const char **why)
{
    return shape_by_rule(arena, p, out, why);
}
