/* group_packed.c - forward for more rows than a few of all heads that share keys, by groups of four warps whose products go on beside them (wgmma), fed by
 * warps that bring tiles by boxes of tensors.
 *
 * What a block does with its tiles is group_forward.c's. Its rows and tiles are those of warps_decode.c: a block has a part of the keys of one head, and 64 rows
 * a group, of all query heads that share it: row r is query r / G of the head's G query heads' number r % G. So keys are read once for all of them,
 * and one sequence of a few rows has all processors. (FlashAttention-3 packs heads and cuts keys alike.)
 *
 *     role load on warp      keys of each tile, and values where they do not lie in pages, of which another warp brings those
 *     role mma[W] on group   64 rows each, which it takes from the tensor, row by row, since neighbours are rows of other heads; or, where registers do
 *                            not hold them, a warp brings them (role load_queries)
 *
 * Rows of one part are ended by their block, others are joined by a kernel behind.
 *
 * Kernels: those of rows that the script changes and of lists, as of warps_decode.c; `keys`, `forward` (joins). */
#include "group.h"
#include "key_layout.h"
#include "warps_decode.h"

enum {
    HEAVY_KEYS = 96
}; /* of a tile, where pairs hold more than their scores: of 128 they spill */

/* Without a pipeline of queries nobody keeps a group from taking turns for its next rows before another has ended them. */
static bool starts_anew(const Lanes *x)
{
    return x->shape->turns && x->shape->persistent && group_holds_packed(x->p, x->shape);
}

static void memories(Lanes *x)
{
    group_forward_pipelines(x);
    if (!x->shape->turns) return;
    tile_barrier(x->t, "turn", x->shape->executors, 2);
    if (starts_anew(x)) tile_barrier(x->t, "all", 0, x->shape->executors);
}

static void hold_queries(Lanes *x)
{
    AuTileBuild *t = x->t;
    if (!group_holds_packed(x->p, x->shape)) {
        group_forward_hold(x);
        return;
    }
    const LanesRows rows = lanes_rows(x, lanes_changed_name(x, 0), "h", ":");
    tile_load(t, "query", "%v @ %s.A pad 0 when i < %s",
              lanes_at(x, rows, tile_text(t, "%si", lanes_row_start(x, LANES_QUERIES))),
              x->atom->name, lanes_query_end(x));
}

static void roles(Lanes *x)
{
    AuTileBuild *t = x->t;
    const bool held = group_holds_packed(x->p, x->shape);
    group_forward_load(x);
    tile_role(t, "mma", x->shape->executors, TILE_ON_WARPGROUP, x->shape->consumer_registers);
    group_begin_rows(x);
    group_forward_fragments(x);
    tile_frag(t, "row_like", "f32[q:%d] like score = 0.0", x->rows);
    warps_name_rows(x, warps_own_first_row(x));
    lanes_begin_states(x);
    hold_queries(x);
    group_forward_tiles(x);
    if (!held) tile_release(t, "x");
    if (starts_anew(x)) tile_sync(t, "all");
    warps_store_part(x);
    group_end_rows(x);
    tile_end(t);
}

static void kernels(Lanes *x)
{
    if (x->p->balanced) warps_share_kernel(x);
    warps_kernels_behind_lists(x, memories, roles);
}

/* ---- shapes */

static const char *refusal(AuArena *arena, const AuProblem *p)
{
    if (p->queries != AU_CHUNK_QUERIES) return "no rows of all heads that share keys";
    if (p->invariant) return "rows that must not depend on how many others there are";
    if (p->attn->keys.has_groups) return "prefixes";
    if (p->hooks->dot_count) return "further products";
    if (lanes_mask_by_head(&(Lanes){.p = p})) return "a mask that depends on the head";
    if (!schedule_joins_parts(p)) return "an online function whose parts cannot be joined";
    if (p->e % p->caps->lanes) /* which the kernel that joins has along its lanes */
        return au_format(arena, "values of %d channels, no multiple of %d", p->e, p->caps->lanes);
    const char *why = warps_packed_refusal(arena, p);
    return why ? why : group_refusal_of_problem(arena, p);
}

const char *schedule_group_packed_fit(AuArena *arena, const AuProblem *p, AuShape *s)
{
    const char *why = refusal(arena, p);
    group_complete(p, s);
    return why ? why : schedule_group_refusal(arena, p, s);
}

/* Two groups: what 128 rows multiply takes little longer than reading the keys. Where no mask makes some blocks
 * shorter than others, a block a processor, so that the first tiles of its next rows come while its rows end (docs/dev/hopper.md). */
bool schedule_group_packed_shape(AuArena *arena, const AuProblem *p, AuShape *out, const char **why)
{
    static const int32_t groups[] = {2, 1};
    *why = refusal(arena, p);
    if (*why || !group_shape_of(arena, p, groups, 2, out, why)) return false;
    if (group_pairs_are_heavy(p) && out->key_tile > HEAVY_KEYS) out->key_tile = HEAVY_KEYS;
    out->persistent = p->attn->mask.i ? 0 : 1;
    out->part_start = warps_part_start(p);
    return true;
}

AuSchedule *schedule_group_packed(AuArena *arena, AuDiags *diags, const AuProblem *p,
                                  const AuShape *shape)
{
    AuSchedule *out = schedule_new(arena, diags, p, "group_packed", shape,
                                   schedule_group_refusal(arena, p, shape));
    if (!out) return NULL;
    out->overlaps = true;
    Lanes x = group_begin(warps_begin(arena, schedule_begin(arena, diags, p, out), p, out));
    tile_set_option(x.t, "late_strides", 1); /* of rows element by element, which few calls have */
    x.key_parts = 1;
    x.resident = 1;
    x.ends_rows = warps_may_end_rows(p);
    return lanes_forward_built(&x, diags, kernels);
}
