/* lanes_combine.c - the operation `combine`: joins what attentions of disjoint sets of keys left unfinished, and finishes it.
 *
 *     acc, state = 0, online_init        for each part, in order: before, behind, state = online_join(state, state of the part)
 *                                                                 acc = acc before + acc of the part behind
 *     out, finals = online_end(acc, state)
 *
 * One kernel, which reads each part once. A lane holds a whole row, so that online functions, whatever they say, and an out_mod's
 * sums over channels are those of forward kernels. Parts are joined one after the other: a result is the same bits every time.
 *
 * Rows of packed queries are those of one batch: nothing that follows the sums asks which sequence they are of
 * (driver_parts_refusal), and parts of rows that are of none say that they have no pair. */
#include "key_layout.h"

/* Only inputs that what follows the sums reads are passed; other tensors are arguments of no kernel. */
static void arguments(Lanes *x)
{
    const AuAttn *a = x->p->attn;
    const bool *joined = hooks_joined(x->arena, a);
    for (uint32_t n = 3; n < a->tensor_count; n++)
        if (joined[n])
            tile_arg(x->t, lanes_tensor(x, n), TILE_IN, "%s", lanes_type(x, lanes_elem(x, n), n));
    lanes_param_arguments(x);
    lanes_part_arguments(x, hooks_name(x->arena, a->sizes[a->online->parts_size - 1].name));
    lanes_result_arguments(x);
}

static void kernel(Lanes *x)
{
    AuTileBuild *t = x->t;
    const AuAttn *a = x->p->attn;
    const char *fragment = tile_text(t, "f32[e:%d, q:%d] @ %s.C", x->p->e, x->rows, x->atom->name);
    tile_kernel(t, "combine");
    arguments(x);
    tile_grid(t, "mb: cdiv(%s, %d), h: %s, b: %s", lanes_axis(x, 0, 2), x->block,
              lanes_axis(x, 0, 1), lanes_row_batch(x, LANES_QUERIES));
    tile_role(t, "core", 0, lanes_executor(x), 0);
    tile_frag(t, "acc", "%s = 0.0", fragment);
    tile_frag(t, "further", "%s", fragment);
    tile_frag(t, "row_like", "f32[q:%d] like acc = 0.0", x->rows);
    tile_set(t, "i", "%s + iota(q:%d)", lanes_first_row(x), x->rows);
    lanes_begin_states(x);
    tile_for_range(t, "part", "0", hooks_name(x->arena, a->sizes[a->online->parts_size - 1].name));
    lanes_join_part(x, "part_acc_parts", "part_%u_parts", lanes_part_place(x));
    tile_end(t);
    lanes_results(x);
    const char *rows = tile_text(t, "b, h, %s +: %d", lanes_first_row(x), x->rows);
    tile_store(t, "%s(out) -> o[%s, :] clip", x->operand, rows);
    lanes_store_finals_at(x, rows);
    tile_end(t);
    tile_end(t);
}

/* ---- the shape: a row a lane, a block an executor */

const char *schedule_lanes_combine_fit(AuArena *arena, const AuProblem *p, AuShape *s)
{
    (void)s;
    if (!p->hooks->has_join) return "an online function without combine";
    return tile_best_atom(p->caps, TILE_F32, p->caps->has_private ? TILE_ON_THREAD : TILE_ON_WARP)
               ? NULL
               : au_format(arena, "%s has no multiply-add of f32", p->caps->name);
}

bool schedule_lanes_combine_shape(AuArena *arena, const AuProblem *p, AuShape *s, const char **why)
{
    *s = (AuShape){.executors = 1, .query_registers = 1};
    *why = schedule_lanes_combine_fit(arena, p, s);
    return !*why;
}

AuSchedule *schedule_lanes_combine(AuArena *arena, AuDiags *diags, const AuProblem *p,
                                   const AuShape *shape)
{
    AuSchedule *out = schedule_new(arena, diags, p, "lanes_combine", shape, NULL);
    Lanes x = lanes_begin(arena, schedule_begin(arena, diags, p, out), p, out);
    x.atom = tile_best_atom(p->caps, TILE_F32, lanes_executor(&x));
    kernel(&x);
    return lanes_built(&x, diags);
}
