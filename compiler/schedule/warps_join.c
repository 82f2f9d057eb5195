/* warps_join.c - the end of forward kernels for few queries, whose warps share their rows and have each its part of the keys; or several have the same
 * keys, and each a part of the channels.
 *
 * Each warp puts its output so far and its row states into shared memory; after a barrier each takes its part of the channels
 * of all of them, in pairs, in the same order, so a result does not depend on who was first. Row states are few:
 * every warp joins them. What joins them is derived from the online function (`online_join`). */
#include "key_layout.h"
#include "warps.h"

/* A row's states lie behind its sums, in whole vectors of so many numbers: rows of 2^n numbers would begin in one bank, where lanes that store neighbouring
 * rows meet (of 16 rows of 128 channels 8 at once, 2 so; it was a quarter of a microsecond each way). */
enum { VECTOR = 4 };

static int32_t row_length(const AuProblem *p)
{
    const int32_t states = (int32_t)p->hooks->state_count;
    return p->e + (states ? (states + VECTOR - 1) / VECTOR : 1) * VECTOR;
}

static const char *state_rows(Lanes *x, uint32_t state, const char *part)
{
    return tile_text(x->t, "PARTS[%s * %d +: %d, %d] as [q]", part, x->rows, x->rows,
                     x->p->e + (int32_t)state);
}

void warps_join_memories(Lanes *x)
{
    tile_shared(x->t, "PARTS", "f32[q:%d, e:%d]", x->rows * schedule_key_groups(x->shape),
                row_length(x->p));
}

int32_t warps_join_bytes(const AuProblem *p, const AuShape *s)
{
    return s->rows * schedule_key_groups(s) * row_length(p) * 4;
}

/* Variables of warp [n]: the first one's become those of all. */
static const char *sums_of(Lanes *x, int32_t n)
{
    return n ? tile_text(x->t, "part_%d", n) : "part";
}

static const char *state_of(Lanes *x, uint32_t state, int32_t n)
{
    return n ? tile_text(x->t, "other%u_%d", state, n) : tile_text(x->t, "state%u", state);
}

static const char *states_of(Lanes *x, int32_t n)
{
    AuText all = {.arena = x->arena};
    for (uint32_t s = 0; s < x->p->hooks->state_count; s++)
        au_text_add(&all, ", %s", state_of(x, s, n));
    return au_text_str(&all);
}

/* The part of the sums that this warp joins. */
static void load_part(Lanes *x, int32_t n)
{
    const int32_t share = x->p->e / x->shape->executors;
    const char *part = tile_text(x->t, "%d", n);
    tile_load(x->t, sums_of(x, n), "PARTS[%s * %d +: %d, self * %d +: %d] as [q, e] @ %s.C", part,
              x->rows, x->rows, share, share, x->atom->name);
    for (uint32_t s = 0; s < x->p->hooks->state_count; s++)
        tile_load(x->t, state_of(x, s, n), "%s like row_like", state_rows(x, s, part));
}

/* What [count] warps from [n] on have becomes what warp n has: neighbours, then pairs of these, so that a chain of as few joins as can be is waited for. */
static void join_parts(Lanes *x, int32_t n, int32_t count)
{
    AuTileBuild *t = x->t;
    if (count == 1) {
        load_part(x, n);
        return;
    }
    const int32_t other = n + count / 2;
    join_parts(x, n, count / 2);
    join_parts(x, other, count - count / 2);
    tile_set(t, tile_text(t, "first, second%s", states_of(x, n)), "online_join(b, h, i%s%s)",
             states_of(x, n), states_of(x, other));
    tile_set(t, sums_of(x, n), "%s * first + %s * second", sums_of(x, n), sums_of(x, other));
}

void warps_join_warps(Lanes *x)
{
    AuTileBuild *t = x->t;
    const int32_t sharers = schedule_row_sharers(x->shape);
    const char *group = lanes_group(x), *channels = sharers > 1 ? warps_own_channels(x).span
                                                                : tile_text(t, "0 +: %d", x->p->e);
    tile_store(t, "acc -> PARTS[%s * %d +: %d, %s] as [q, e]", group, x->rows, x->rows, channels);
    if (sharers > 1) tile_if(t, "self %% %d == 0", sharers); /* they have the same */
    for (uint32_t n = 0; n < x->p->hooks->state_count; n++)
        tile_store(t, "state%u -> %s", n, state_rows(x, n, group));
    if (sharers > 1) tile_end(t);
    tile_sync(t, "all");
    join_parts(x, 0, schedule_key_groups(x->shape));
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
