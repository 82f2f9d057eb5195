/* group_queries.c - gradients of queries by groups of four warps (`with_dq` 0), in one order: a block owns queries, 64 rows of each group,
 * and walks over tiles of keys, so that who adds to a row of dQ is one group, tile after tile.
 *
 *     role load on warp        Q and dO once; K and V of each tile into a ring of stages
 *     role mma[W] on group     S = Q K', dP = dO V', functions of pairs, dQ += dS K
 *
 * Rows are queries here, so that what is known of a row is two numbers a lane, loaded once, and dS is operand A in the registers where it is made.
 * Kernels of keys need no tile of dS' then, nor sums of dQ in memory; scores are made twice instead: seven products of a pair, not five.
 *
 * Keys beyond the mask's range must be zeros (lanes_limits); of values nothing is asked there, since dS is. */
#include "group.h"
#include "key_layout.h"
#include "lanes_back.h"

static void fragments(Lanes *x)
{
    AuTileBuild *t = x->t;
    const char *atom = x->atom->name,
               *pair = tile_text(t, "f32[q:%d, kv:%d] @ %s.C", x->rows, x->shape->key_tile, atom);
    tile_frag(t, "score", "%s", pair);
    tile_frag(t, "dp", "%s", pair);
    tile_frag(t, "dq_acc", "f32[q:%d, d:%d] @ %s.C = 0.0", x->rows, x->p->d, atom);
    tile_set(t, "i", "%s + iota(q:%d)", lanes_first_row(x), x->rows);
    back_load_statistics(x, true);
}

/* Weights are made under dP; what hides the rest of a group's tile are the products of the others. */
static void step(Lanes *x)
{
    AuTileBuild *t = x->t;
    tile_wait_stage(t, "y", "key");
    tile_product(t, "score", x->atom, TILE_START, group_own_rows(x, "x.Q"), "y.K");
    tile_product(t, "dp", x->atom, TILE_START, group_own_rows(x, "x.dO"), "y.V");
    tile_set(t, "j", "n * %d + iota(kv:%d)", x->shape->key_tile, x->shape->key_tile);
    tile_wait(t, "score");
    tile_wait(t, "dp");
    warps_query_pairs(x);
    tile_product(t, "dq_acc", x->atom, TILE_ADD, "ds_operand", "y.K");
    tile_wait(t, "dq_acc");
    tile_release(t, "y");
}

static void store(Lanes *x)
{
    if (back_has_rows(x, 0))
        tile_store(x->t, "dq_acc -> dq_sum[%s, :] clip", lanes_query_place(x));
    else
        group_store_rows(x, "dq_acc", tile_text(x->t, "%s as [q, d]", group_own_rows(x, "x.Q")),
                         back_gradient(x, 0));
}

static void group_role(Lanes *x)
{
    AuTileBuild *t = x->t;
    tile_role(t, "mma", x->shape->executors, TILE_ON_WARPGROUP, x->shape->consumer_registers);
    fragments(x);
    tile_wait_stage(t, "x", "queries");
    tile_for_tiles(t, "n", "keys", NULL);
    step(x);
    tile_end(t);
    store(x);
    tile_release(t, "x");
    tile_end(t);
}

void group_dq(Lanes *x)
{
    warps_queries_head(x, false);
    group_let_first(x);
    group_query_pipelines(x);
    group_query_load(x);
    group_role(x);
    tile_end(x->t);
}

/* ---- shapes, measured (docs/dev/hopper.md): three groups for narrow heads, else two and 64 keys a tile at most */

/* dQ all the time; beside it S and dP, or dP and dS as operand. */
static int32_t fragment_registers(const AuProblem *p, const AuShape *s)
{
    enum { LANES = 128, PAIRS = 2, OPERAND = 2, ROWS = 4 };
    const int32_t pairs = s->rows * s->key_tile;
    return (s->rows * p->d + PAIRS * pairs + pairs / OPERAND) / LANES + ROWS;
}

static int32_t shared_bytes(const AuProblem *p, const AuShape *s)
{
    enum { BARRIERS = 512 };
    const int32_t row = tile_elem(p->operand)->bytes * (p->d + p->e);
    return BARRIERS + row * (s->executors * s->rows + s->stages * s->key_tile);
}

static const char *refusal(AuArena *arena, const AuProblem *p, AuShape *s)
{
    group_complete(p, s);
    const char *why = group_refusal_of_registers(arena, p, s, fragment_registers(p, s));
    return why ? why : group_refusal_of_shared_memory(arena, p, shared_bytes(p, s));
}

const char *group_queries_shape(AuArena *arena, const AuProblem *p, AuShape *out)
{
    enum { NARROW = 64, KEYS = 64, KEYS_OF_NARROW = 128, STEP = 16, LEAST_STAGES = 2, STAGES = 4 };
    const bool narrow = p->d <= NARROW && p->e <= NARROW;
    const char *why = NULL;
    for (int32_t keys = narrow ? KEYS_OF_NARROW : KEYS; keys >= STEP; keys -= STEP)
        for (int32_t stages = STAGES; stages >= LEAST_STAGES; stages--) {
            *out = (AuShape){.executors = narrow ? 3 : 2,
                             .key_tile = keys,
                             .stages = stages,
                             .column_parts = 1,
                             .matrix_stores = p->caps->matrix_stores};
            why = refusal(arena, p, out);
            if (!why) return NULL;
        }
    return why;
}
