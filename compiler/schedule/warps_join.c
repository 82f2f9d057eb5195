/* warps_join.c - the end of forward kernels for few queries, whose warps share their rows and have each its part of the keys; or several have the same
 * keys, and each a part of the channels.
 *
 * Each warp puts its output so far and its row states into shared memory; after a barrier each takes its part of the channels
 * of all of them, one after the other, in the same order, so a result does not depend on who was first. Row states are few:
 * every warp joins them. What joins them is derived from the online function (`online_join`). */
#include "key_layout.h"
#include "warps.h"

static const char *state_rows(Lanes *x, uint32_t state, const char *part)
{
    return tile_text(x->t, "ROWS%u[%s * %d +: %d] as [q]", state, part, x->rows, x->rows);
}

static int32_t key_groups(const AuShape *s) { return s->executors / schedule_row_sharers(s); }

void warps_join_memories(Lanes *x)
{
    const int32_t rows = x->rows * key_groups(x->shape);
    tile_shared(x->t, "PARTS", "f32[q:%d, e:%d]", rows, x->p->e);
    for (uint32_t n = 0; n < x->p->hooks->state_count; n++)
        tile_shared(x->t, tile_numbered(x->t, "ROWS", n), "f32[q:%d]", rows);
}

int32_t warps_join_bytes(const AuProblem *p, const AuShape *s)
{
    return s->rows * key_groups(s) * (p->e + (int32_t)p->hooks->state_count) * 4;
}

/* The part of the sums that this warp joins. */
static void load_part(Lanes *x, const char *to, const char *states, const char *part)
{
    const int32_t share = x->p->e / x->shape->executors;
    tile_load(x->t, to, "PARTS[%s * %d +: %d, self * %d +: %d] as [q, e] @ %s.C", part, x->rows,
              x->rows, share, share, x->atom->name);
    for (uint32_t n = 0; n < x->p->hooks->state_count; n++)
        tile_load(x->t, tile_text(x->t, "%s%u", states, n), "%s like row_like",
                  state_rows(x, n, part));
}

static void join_parts(Lanes *x)
{
    AuTileBuild *t = x->t;
    const char *states = lanes_states(x), *others = lanes_states_called(x, "other");
    load_part(x, "part", "state", "0");
    for (int32_t n = 1; n < key_groups(x->shape); n++) {
        load_part(x, "further", "other", tile_text(t, "%d", n));
        tile_set(t, tile_text(t, "first, second%s", states), "online_join(b, h, i%s%s)", states,
                 others);
        tile_set(t, "part", "part * first + further * second");
    }
}

void warps_join_warps(Lanes *x)
{
    AuTileBuild *t = x->t;
    const int32_t sharers = schedule_row_sharers(x->shape);
    const char *group = lanes_group(x);
    tile_store(t, "acc -> PARTS[%s * %d +: %d, %s] as [q, e]", group, x->rows, x->rows,
               warps_own_channels(x).span);
    if (sharers > 1) tile_if(t, "self %% %d == 0", sharers); /* they have the same */
    for (uint32_t n = 0; n < x->p->hooks->state_count; n++)
        tile_store(t, "state%u -> %s", n, state_rows(x, n, group));
    if (sharers > 1) tile_end(t);
    tile_sync(t, "all");
    join_parts(x);
}

void warps_join_results(Lanes *x)
{
    AuTileBuild *t = x->t;
    const int32_t share = x->p->e / x->shape->executors;
    warps_join_warps(x);
    lanes_end(x, "part");
    const char *rows =
        tile_text(t, "%s, h, %s +: %d", lanes_row_b(x, LANES_QUERIES), lanes_first_row(x), x->rows);
    tile_store(t, "%s(out) -> o[%s, self * %d +: %d] clip", x->operand, rows, share, share);
    tile_if(t, "self == 0");
    lanes_store_finals(x);
    tile_end(t);
    tile_sync(t, "all"); /* before another block's parts, in a persistent kernel */
}
