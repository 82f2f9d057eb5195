/* warps_decode.c - forward for a few queries on the matrix units of warps (mma.sync), at the speed of memory.
 *
 * A block has a part of the keys of one head, and query rows of all heads that share it, packed into one tile: row r is query r / G of
 * the head's G query heads' number r % G. Keys and values come once a tile of rows. The block's warps share the rows, and each has keys
 * of its own of a tile, as in the forward kernel for few queries (warps_forward.c), so that nobody waits in the loop; warps_join.c joins
 * the warps. What a block then has of each row, sums and states, goes to the workspace; a second kernel joins a row's parts in their
 * order and finishes it, so that results depend neither on who was first nor on which processor was free.
 *
 * There are as many parts as keep the machine's processors busy once; the keys of each are a run of tiles of the mask's range.
 *
 * Kernels: `q_rows`, `k_rows`, `v_rows` (rows that the script changes), `keys`, `forward` (joins). */
#include "warps.h"
#include "key_layout.h"
#include "key_storage.h"

enum {
    MOST_QUERIES = 32,     /* of a head: of more, blocks of queries reuse keys more often */
    AT_ONCE = 8,           /* parts of a row whose loads are under way together */
    MOST_OPERATIONS = 512, /* of the script, and what its gradients add to them */
    PROCESSORS = 132,      /* that blocks are made for: an H200 */
};

/* Query heads that share a head of keys; rows that they have together. */
static const char *heads_of_group(Lanes *x)
{
    return tile_text(x->t, "(%s / %s)", lanes_axis(x, 0, 1), lanes_axis(x, 1, 1));
}

static const char *packed_rows(Lanes *x)
{
    return tile_text(x->t, "%s * %s", lanes_axis(x, 0, 2), heads_of_group(x));
}

static const char *row_blocks(Lanes *x)
{
    return tile_text(x->t, "cdiv(%s, %d)", packed_rows(x), x->rows);
}

/* As many as fill the processors with blocks, at most as there are tiles. */
static const char *parts(Lanes *x)
{
    const int32_t blocks = PROCESSORS * warps_decode_resident(x->p, x->shape);
    return tile_text(x->t, "min(max(%d / max(%s * %s * %s, 1), 1), max(cdiv(%s, %d), 1))", blocks,
                     lanes_axis(x, 0, 0), lanes_axis(x, 1, 1), row_blocks(x), lanes_axis(x, 1, 2),
                     x->shape->key_tile);
}

/* What a block leaves of each row. */
static void part_arguments(Lanes *x, AuTileMode mode)
{
    AuTileBuild *t = x->t;
    const char *axes = tile_text(t, "part:%s, b:%s, h:%s, q:%s", parts(x), lanes_axis(x, 0, 0),
                                 lanes_axis(x, 1, 1), packed_rows(x));
    tile_arg(t, "part_acc", mode, "f32[%s, e:%d]", axes, x->p->e);
    for (uint32_t n = 0; n < x->p->hooks->state_count; n++)
        tile_arg(t, tile_text(t, "part_state%u", n), mode, "f32[%s]", axes);
}

/* ---- a part of the keys */

/* The part's run of tiles, in the segments of the mask's range. */
static void key_tiles(Lanes *x)
{
    AuTileBuild *t = x->t;
    tile_let(t, "k_low, k_high, k_full_low, k_full_high", "%s", lanes_range_of_all(x, "0"));
    tile_let(t, "n_low, f_low, f_high, n_high",
             "key_tiles(k_low, k_high, k_full_low, k_full_high, %s, %d)", lanes_key_end(x),
             x->shape->key_tile);
    tile_let(t, "share", "cdiv(n_high - n_low, %s)", parts(x));
    tile_let(t, "first_tile", "min(n_low + span * share, n_high)");
    tile_let(t, "last_tile", "min(first_tile + share, n_high)");
    tile_let(t, "part_end", "min(%s, last_tile * %d)",
             x->p->attn->mask.i ? "k_high" : lanes_key_end(x), x->shape->key_tile);
    tile_let(t, "full_tile", "clamp(f_low, first_tile, last_tile)");
    tile_let(t, "rest_tile", "clamp(f_high, full_tile, last_tile)");
    tile_list(t, "keys");
    tile_segment(t, "partial", TILE_RANGE, "first_tile", "full_tile");
    tile_segment(t, "full", TILE_RANGE, "full_tile", "rest_tile");
    tile_segment(t, "partial", TILE_RANGE, "rest_tile", "last_tile");
}

static void keys_head(Lanes *x)
{
    AuTileBuild *t = x->t;
    tile_kernel(t, "keys");
    lanes_arguments(x);
    for (uint32_t n = 0; n < 3; n++)
        if (lanes_changed_type(x, n))
            tile_arg(t, lanes_changed_name(x, n), TILE_IN, "%s", lanes_changed_type(x, n));
    part_arguments(x, TILE_OUT);
    tile_grid(t, "turn: (%s) * %s, hk: %s, b: %s", parts(x), row_blocks(x), lanes_axis(x, 1, 1),
              lanes_axis(x, 0, 0));
    tile_let(t, "mb", "turn %% %s", row_blocks(x)); /* neighbours read the same keys */
    tile_let(t, "span", "turn / %s", row_blocks(x));
    tile_let(t, "group", "%s", heads_of_group(x));
    lanes_let_key_length(x);
    if (x->own_v) tile_let(t, "hv", "hk");
    key_tiles(x);
}

/* Row r of the tile: its head and query. */
static void name_rows(Lanes *x)
{
    AuTileBuild *t = x->t;
    tile_set(t, "r", "mb * %d + iota(q:%d)", x->rows, x->rows);
    tile_set(t, "h", "hk * group + r %% group");
    tile_set(t, "i", "r / group");
}

static void fragments(Lanes *x)
{
    AuTileBuild *t = x->t;
    lanes_declare_scores(
        x, tile_text(t, "f32[q:%d, kv:%d] @ %s.C", x->rows, lanes_keys(x), x->atom->name));
    tile_frag(t, "acc", "f32[q:%d, e:%d] @ %s.C = 0.0", x->rows, x->p->e, x->atom->name);
    tile_frag(t, "row_like", "f32[q:%d] like score = 0.0", x->rows);
    name_rows(x);
}

/* Sums and states of the block: of its one warp, or joined, each warp's channels of them. */
static void store_part(Lanes *x)
{
    AuTileBuild *t = x->t;
    const bool joined = x->shape->keys_apart;
    const int32_t share = x->p->e / x->shape->executors;
    const char *rows = tile_text(t, "[span, b, hk, mb * %d +: %d", x->rows, x->rows);
    if (joined) warps_join_warps(x);
    if (joined)
        tile_store(t, "part -> part_acc%s, self * %d +: %d] clip", rows, share, share);
    else
        tile_store(t, "acc -> part_acc%s, :] clip", rows);
    if (joined) tile_if(t, "self == 0");
    for (uint32_t n = 0; n < x->p->hooks->state_count; n++)
        tile_store(t, "state%u -> part_state%u%s] clip", n, n, rows);
    if (joined) tile_end(t);
}

static void keys_kernel(Lanes *x)
{
    AuTileBuild *t = x->t;
    keys_head(x);
    warps_forward_memories(x);
    tile_barrier(t, "all", 0, x->shape->executors);
    tile_role(t, "core", x->shape->executors, TILE_ON_WARP, 0);
    fragments(x);
    warps_forward_issue_packed_rows(x);
    lanes_begin_states(x);
    warps_pages_begin(x);
    warps_forward_loop(x);
    lanes_scale_values(x);
    store_part(x);
    tile_end(t);
    tile_end(t);
}

/* ---- the parts of a row: a warp, channels along its lanes */

/* Of part round * AT_ONCE + n; of none behind the last. */
static void load_part(Lanes *x, int32_t n)
{
    AuTileBuild *t = x->t;
    const char *at = tile_text(t, "min(round * %d + %d, parts - 1), b, hk, row +: 1", AT_ONCE, n);
    tile_load(t, tile_numbered(t, "further", (uint32_t)n), "part_acc[%s, :] @ a_row_along", at);
    for (uint32_t s = 0; s < x->p->hooks->state_count; s++)
        tile_load(t, tile_text(t, "other%u_%d", s, n), "part_state%u[%s] like row_like", s, at);
}

static void join_part(Lanes *x, int32_t n)
{
    AuTileBuild *t = x->t;
    AuText others = {.arena = x->arena};
    const char *states = lanes_states(x);
    for (uint32_t s = 0; s < x->p->hooks->state_count; s++)
        au_text_add(&others, ", other%u_%d", s, n);
    tile_if(t, "round * %d + %d < parts", AT_ONCE, n);
    tile_set(t, tile_text(t, "before, behind%s", states), "online_join(b, h, i%s%s)", states,
             au_text_str(&others));
    tile_set(t, "acc", "acc * before + further%d * behind", n);
    tile_end(t);
}

static void join_kernel(Lanes *given)
{
    AuTileBuild *t = given->t;
    Lanes one = *given, *x = &one;
    tile_kernel(t, "forward");
    lanes_arguments(x);
    part_arguments(x, TILE_IN);
    lanes_result_arguments(x);
    tile_grid(t, "mb: %s, h: %s, b: %s", lanes_axis(x, 0, 2), lanes_axis(x, 0, 1),
              lanes_axis(x, 0, 0));
    tile_let(t, "group", "%s", heads_of_group(x));
    tile_let(t, "hk", "h / group");
    lanes_let_key_length(x);
    tile_let(t, "row", "mb * group + h %% group");
    tile_let(t, "parts", "%s", parts(x));
    tile_role(t, "core", 0, TILE_ON_WARP, 0);
    x->rows = x->block = 1;
    tile_frag(t, "acc", "f32[q:1, e:%d] @ a_row_along = 0.0", x->p->e);
    tile_frag(t, "row_like", "f32[q:1] like acc = 0.0");
    tile_set(t, "i", "mb + iota(q:1)");
    lanes_begin_states(x);
    tile_for_range(t, "round", "0", tile_text(t, "cdiv(parts, %d)", AT_ONCE));
    for (int32_t n = 0; n < AT_ONCE; n++) load_part(x, n);
    for (int32_t n = 0; n < AT_ONCE; n++) join_part(x, n);
    tile_end(t);
    lanes_results(x);
    tile_store(t, "%s(out) -> o[b, h, mb +: 1, :]", x->operand);
    lanes_store_finals(x);
    tile_end(t);
    tile_end(t);
}

static void kernels(Lanes *x)
{
    keys_kernel(x);
    join_kernel(x);
    lanes_region(x, "part_acc");
    for (uint32_t n = 0; n < x->p->hooks->state_count; n++)
        lanes_region(x, tile_text(x->t, "part_state%u", n));
}

AuSchedule *schedule_warps_decode(AuArena *arena, AuDiags *diags, const AuProblem *p,
                                  const AuShape *shape)
{
    AuSchedule *out = schedule_new(arena, diags, p, "warps_decode", shape,
                                   schedule_warps_refusal(arena, p, shape));
    if (!out) return NULL;
    Lanes x = warps_begin(arena, schedule_begin(arena, diags, p, out), p, out);
    warps_layouts(&x);
    tile_layout(x.t, "a_row_along", "reg", tile_text(x.t, "lane:%d@1", p->caps->lanes));
    return lanes_forward_built(&x, diags, kernels);
}

/* ---- shapes */

static const char *refusal(AuArena *arena, const AuProblem *p)
{
    if (p->queries != AU_DECODE_QUERIES) return "many queries";
    if (p->attn->node_count > MOST_OPERATIONS)
        return "functions so large that kernels of them once more take too much memory to make";
    if (p->caps->has_private || !warps_copy_ahead(p))
        return "machines without asynchronous copies of lanes";
    if (schedule_values_apart(p)) return "values that are rows of their own";
    if (!attn_derive_combine(p->attn)) return "an online function whose parts cannot be joined";
    if (p->attn->tensors[1].axes[1].i != p->attn->tensors[2].axes[1].i)
        return "values of other heads than the keys'";
    if (lanes_mask_by_head(&(Lanes){.p = p})) return "a mask that depends on the head";
    if (attn_is_packed(p->attn)) return "packed rows";
    if (p->hooks->needs_lists) return "a mask that depends on data";
    if (p->hooks->dot_count) return "further products";
    if (p->e % p->caps->lanes)
        return au_format(arena, "values of %d channels, no multiple of %d", p->e, p->caps->lanes);
    return warps_refusal_of_problem(arena, p);
}

const char *schedule_warps_decode_fit(AuArena *arena, const AuProblem *p, AuShape *s)
{
    const char *why = refusal(arena, p);
    if (why) return why;
    s->rows = warps_atom(p)->m;
    s->keys_apart = s->executors > 1;
    warps_complete(p, s);
    return schedule_warps_refusal(arena, p, s);
}

/* The first that fits: four warps, which hide what one waits for. */
bool schedule_warps_decode_shape(AuArena *arena, const AuProblem *p, AuShape *out, const char **why)
{
    static const int32_t warps[] = {4, 2, 1}, keys[] = {32, 16}, stages[] = {2, 1};
    *why = refusal(arena, p);
    if (*why) return false;
    for (uint32_t n = 0; n < 3 * 2 * 2 * 2; n++) {
        AuShape s = {.executors = warps[n / 8],
                     .key_tile = keys[n / 4 % 2] * warps[n / 8],
                     .stages = stages[n / 2 % 2],
                     .query_in_registers = n % 2 == 0};
        *why = schedule_warps_decode_fit(arena, p, &s);
        if (*why) continue;
        *out = s;
        return true;
    }
    return false;
}

int32_t schedule_warps_decode_limit(AuArena *arena, const AuProblem *p)
{
    AuShape shape;
    const char *why;
    return schedule_warps_decode_shape(arena, p, &shape, &why) ? MOST_QUERIES : 0;
}
