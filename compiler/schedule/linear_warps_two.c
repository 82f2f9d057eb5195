/* linear_warps_two.c - forward in two kernels, where an out_mod or a norm takes all columns of values and a block of one kernel has no room for
 * them beside its part of the state:
 *
 *     states     the chain, a strip of columns a block: S before each chunk, in the workspace, and the last one out
 *     outputs    a block a chunk, no chain (linear_warps_given.c): what q reads, all columns, norm, skip and out_mod, the output
 *
 * Before them is what stands before one kernel: numbers, inverses with rows, or pairs with rows. */
#include "linear_warps.h"

enum { REGISTER = 4, FRAGMENT_SHARE = 48 };

/* ---- shapes: the columns and parts are those of `states` */

static const char *refusal_of_problem(const AuProblem *p)
{
    if (lin_problem_is_own(p)) return "feedback by rows of its own";
    if (lin_problem_by_channel(p) && lin_problem_is_fed(p))
        return "a decay a channel beside feedback";
    if (lin_problem_by_channel(p) && !linear_warps_rows_apart(p))
        return lin_problem_has(p, AU_SLOT_NORM) ? "a norm beside a decay a channel"
                                                : "a decay a channel, and no asynchronous copies";
    if (lin_problem_is_fed(p) && p->hooks->normal->before)
        return "feedback and a read before the token";
    if (lin_problem_has(p, AU_SLOT_V) && p->hooks->slots[AU_SLOT_V].has_sums)
        return "a slot that sums over values";
    return NULL;
}

/* Keys, values, S; with feedback M, two numbers an element, of each stage, and U. */
static int32_t shared_of_states(const AuProblem *p, const AuShape *s)
{
    const int32_t span = s->swizzle_span, d = linear_warps_channels(p), c = s->key_tile,
                  keys = warps_row_bytes(p, span, d), columns = warps_row_bytes(p, span, c),
                  values = warps_row_bytes(p, span, s->query_tile);
    return WARPS_ALIGNMENT + s->stages * c * (keys + values) + d * values + 3 * REGISTER * c +
           (lin_problem_is_fed(p) ? 2 * (s->stages * c + s->query_tile) * columns : 0);
}

/* The part of the state, keys as operand, and with feedback R, U and what is written. */
static int32_t registers_of_states(const AuProblem *p, const AuShape *s)
{
    const int32_t channels = linear_warps_channels(p) / linear_warps_state_groups(p, s),
                  key = channels * s->key_tile * tile_elem(p->operand)->bytes / REGISTER,
                  solved = lin_problem_is_fed(p) ? 3 * linear_warps_solved(s) * s->key_tile : 0;
    return (channels * s->query_tile / s->column_parts + (solved > key ? solved : key)) /
           p->caps->lanes;
}

static int32_t shared_before(const AuProblem *p, const AuShape *s)
{
    return lin_problem_by_channel(p) ? linear_warps_shared_of_pairs(p, s)
                                     : linear_warps_shared_of_inverse(p, s);
}

const char *linear_warps_two_fit(AuArena *arena, const AuProblem *p, AuShape *s)
{
    const char *why = refusal_of_problem(p);
    if (!lin_problem_has(p, AU_SLOT_NORM) && !p->hooks->has_out_mod) return "";
    if (why) return why;
    if (!linear_warps_states_divide(p, s))
        return au_format(arena, "%d tokens and widths %d and %d do not divide among %d warps",
                         s->key_tile, p->d, p->e, s->executors);
    if (s->stages > 1 && !warps_copy_ahead(p))
        return au_format(arena, "%s has no asynchronous copies for stages", p->caps->name);
    linear_warps_complete(p, s);
    why = linear_warps_given_refusal(arena, p, s);
    if (why) return why;
    const int32_t chain = shared_of_states(p, s), before = shared_before(p, s),
                  shared = chain > before ? chain : before, registers = registers_of_states(p, s),
                  room = tile_share(p->caps, FRAGMENT_SHARE);
    if (shared > p->caps->shared_bytes)
        return au_format(arena, "%d bytes of shared memory of %d", shared, p->caps->shared_bytes);
    return registers > room
               ? au_format(arena, "states take %d registers of a lane, %d are for them", registers,
                           room)
               : NULL;
}

/* As gradients have them: long chunks but with feedback and decays a channel, whose tiles and pairs are as long as that. */
bool linear_warps_two_shape(AuArena *arena, const AuProblem *p, AuShape *out, const char **why)
{
    *why = "";
    static const int32_t tokens[] = {64, 32, 16}, warps[] = {8, 4};
    for (uint32_t n = lin_problem_is_fed(p) || lin_problem_by_channel(p) ? 4 : 0; n < 3 * 2 * 2;
         n++) {
        AuShape s = {.key_tile = tokens[n / 4], .stages = 2 - (int32_t)(n % 2)};
        s.executors = warps[lin_problem_is_fed(p) ? 1 - n / 2 % 2 : n / 2 % 2];
        if (s.executors % (2 * linear_warps_row_groups(&s))) continue;
        linear_warps_strips(p, &s);
        *why = linear_warps_two_fit(arena, p, &s);
        if (*why) continue;
        *out = s;
        return true;
    }
    return false;
}

/* ---- the kernels */

void lw_two_kernels(AuArena *arena, AuTileBuild *t, const AuProblem *p, AuSchedule *out,
                    LinearWarps *states)
{
    Linear *l = &states->l;
    states->kept_columns = linear_warps_value_columns(p, &out->shape);
    states->has_rows = lin_is_fed(l);
    states->has_decayed = lw_by_channel(states);
    if (states->has_decayed) lw_make_pairs(arena, t, p, out, &out->shape, false);
    if (states->has_rows) lw_inverse_kernel(arena, t, p, out, true);
    if (lw_takes_segments(states)) l->segments = lw_segments(states);
    lw_segment_kernels(states);
    states->keeps_states = states->in_two = true;
    states->keeps_written = lin_is_fed(l);
    lw_forward_kernel(states);
    lw_make_given(arena, t, p, out, states);
    lanes_region(&l->x, "states");
    if (states->keeps_written) lanes_region(&l->x, "updates");
}
