/* group_forward.c - forward by groups of four warps whose products go on beside them (wgmma), fed by a warp that brings tiles by boxes of
 * tensors.
 *
 *     role load on warp        queries once; keys and values of each tile into rings of stages, as far ahead as there are stages
 *     role mma[W] on group     64 query rows each: S = Q K', online function, O += P V; P stays in registers
 *
 * With `ahead` the products of a tile's scores start before those of the weights of the tile before, and both are in flight while
 * the scores become weights:
 *
 *     S(0); weights                      the first tile, always masked
 *     for each tile n after the first    S(n) starts; O += P(n - 1) V starts; wait S; weights; wait O; scale O
 *     O += P V                           of the last tile
 *
 * The conversion of weights and the scaling of O come after the wait for O: the unit reads the one and writes the other. With `turns`
 * the groups start their products in turn, so that one's weights are made while the other's products run.
 *
 * Values beyond the mask's range in the tiles at its ends must be zeros (lanes_limits). Boxes end where the range or the sequence does, or the
 * tensor; tiles in which the range begins are copied by the lanes of the warp.
 *
 * The output leaves through shared memory, by boxes: in the place of the queries, or in a tile of its own where it is of another width.
 *
 * Kernels: as those of warps_forward.c. */
#include "group.h"
#include "key_layout.h"

/* ---- memories */

static void memories(Lanes *x)
{
    AuTileBuild *t = x->t;
    const AuShape *s = x->shape;
    group_forward_pipelines(x);
    if (s->output_apart)
        tile_shared(t, "O", "%s[q:%d, e:%d] swizzle %d", x->operand, x->block, x->p->e,
                    group_swizzle(x->p, x->p->e));
    if (s->turns) tile_barrier(t, "turn", s->executors, 2);
}

/* ---- groups that multiply */

static AuTileHandle query(Lanes *x, uint32_t n)
{
    if (n == 0 && x->shape->query_in_registers) return TILE_NAME("query");
    return TILE_NAME(group_own_rows(x, lanes_term_name(x, "x.Q", n).text));
}

static AuTileHandle key(Lanes *x, uint32_t n) { return lanes_term_name(x, "y.K", n); }

static void start_scores(Lanes *x) { lanes_score_products(x, query, key); }

static void end_scores(Lanes *x)
{
    tile_wait(x->t, lanes_score_names(x));
    tile_release(x->t, "y");
}

static void start_sums(Lanes *x)
{
    tile_wait_stage(x->t, "z", "value");
    tile_product(x->t, "acc", x->atom, TILE_ADD, "weight", "z.V");
}

static void end_sums(Lanes *x)
{
    tile_wait(x->t, "acc");
    tile_release(x->t, "z");
}

static void round_weights(Lanes *x) { tile_set(x->t, "weight", "%s(p)", x->operand); }

/* Tiles beyond the tensor are the first of all, which is masked in any case: without a mask no other is partial. */
static AuLanesMasked masked_after_first(const Lanes *x)
{
    return x->p->attn->mask.i ? LANES_MASK_PARTIAL : LANES_MASK_NOWHERE;
}

static bool passes_last(const Lanes *x)
{
    return x->shape->passes && schedule_mask_kind(x->p) == AU_MASK_WINDOW;
}

/* Tiles of the block that are beyond the range of a group's rows: it gives them back as they come, in its turn. */
static void pass_over(Lanes *x, const char *from, const char *to)
{
    AuTileBuild *t = x->t;
    tile_for_range(t, "over", from, to);
    tile_wait_stage(t, "y", "key");
    tile_release(t, "y");
    group_take_turn(x);
    group_pass_turn(x);
    tile_wait_stage(t, "z", "value");
    tile_release(t, "z");
    tile_end(t);
}

/* Ranges of a block's first groups end earlier than that of its last rows, and where masks are windows those of its last groups begin later.
 * One tile stays, for who sees none. */
static void pass_over_first(Lanes *x)
{
    AuTileBuild *t = x->t;
    const char *rows = lanes_first_row(x), *all = lanes_key_end(x);
    const int32_t keys = x->shape->key_tile;
    tile_set(t, "own_low, own_high, own_full_low, own_full_high",
             "key_range(b, h, %s, min(%s + %d, %s))", rows, rows, x->rows, lanes_query_end(x));
    tile_set(t, "passed", "clamp(n_high - cdiv(clamp(own_high, 0, %s), %d), 0, count(keys) - 1)",
             all, keys);
    if (passes_last(x))
        tile_set(t, "kept", "clamp(n_high - clamp(own_low, 0, %s) / %d, passed + 1, count(keys))",
                 all, keys);
    group_first_turn(x);
    pass_over(x, "0", "passed");
}

/* There may be no tile: then there is no first one. */
static void tiles_ahead(Lanes *x)
{
    AuTileBuild *t = x->t;
    const bool passes = x->shape->passes;
    tile_if(t, "count(keys) > 0");
    if (passes) pass_over_first(x);
    tile_wait_stage(t, "y", "key");
    start_scores(x);
    end_scores(x);
    lanes_scores_of(x, passes ? "(first(keys) - passed)" : "first(keys)", LANES_MASK_ALWAYS);
    lanes_online(x);
    round_weights(x);
    if (!passes) group_first_turn(x);
    tile_for_tiles(t, "n", "keys",
                   !passes          ? "1"
                   : passes_last(x) ? "passed + 1 to kept"
                                    : "passed + 1");
    tile_wait_stage(t, "y", "key");
    group_take_turn(x);
    start_scores(x);
    start_sums(x);
    group_pass_turn(x);
    end_scores(x);
    lanes_scores_of(x, "n", masked_after_first(x));
    lanes_online(x);
    end_sums(x);
    round_weights(x);
    lanes_scale_sums(x);
    tile_end(t);
    if (passes_last(x)) {
        start_sums(x);
        end_sums(x);
        pass_over(x, "kept", "count(keys)");
        group_last_turn(x);
    } else {
        group_last_turn(x);
        start_sums(x);
        end_sums(x);
    }
    tile_end(t);
}

static void tiles_alone(Lanes *x)
{
    AuTileBuild *t = x->t;
    tile_for_tiles(t, "n", "keys", NULL);
    tile_wait_stage(t, "y", "key");
    start_scores(x);
    end_scores(x);
    lanes_scores(x);
    lanes_online(x);
    round_weights(x);
    lanes_scale_sums(x);
    start_sums(x);
    end_sums(x);
    tile_end(t);
}

/* ---- the kernel */

void group_forward_fragments(Lanes *x)
{
    AuTileBuild *t = x->t;
    const char *atom = x->atom->name;
    const int32_t keys = x->shape->key_tile;
    lanes_declare_scores(x, tile_text(t, "f32[q:%d, kv:%d] @ %s.C", x->rows, keys, atom));
    tile_frag(t, "weight", "%s[q:%d, kv:%d] @ %s.A", x->operand, x->rows, keys, atom);
    tile_frag(t, "acc", "f32[q:%d, e:%d] @ %s.C = 0.0", x->rows, x->p->e, atom);
}

void group_forward_tiles(Lanes *x)
{
    if (x->shape->scores_ahead)
        tiles_ahead(x);
    else
        tiles_alone(x);
}

void group_forward_hold(Lanes *x)
{
    tile_wait_stage(x->t, "x", "queries");
    if (x->shape->query_in_registers)
        tile_load(x->t, "query", "%s @ %s.A", group_own_rows(x, "x.Q"), x->atom->name);
}

bool group_holds_packed(const AuProblem *p, const AuShape *s)
{
    return schedule_packs_rows(p) && s->query_in_registers;
}

static void store_output(Lanes *x)
{
    const char *tile = x->shape->output_apart ? "O" : "x.Q";
    group_store_rows(x, "out", tile_text(x->t, "%s as [q, e]", group_own_rows(x, tile)), "o");
}

/* Queries are released as soon as nobody reads them: with a tile for the output that is before the results, and at once where they are
 * held and the groups take no turns, which one must not begin anew before another has ended them. */
static void group_role(Lanes *x)
{
    AuTileBuild *t = x->t;
    const bool held = x->shape->query_in_registers, apart = x->shape->output_apart,
               early = held && apart && !x->p->hooks->dot_count && !x->shape->turns;
    tile_role(t, "mma", x->shape->executors, TILE_ON_WARPGROUP, x->shape->consumer_registers);
    group_begin_rows(x);
    group_forward_fragments(x);
    lanes_declare_rows(x);
    lanes_begin_states(x);
    group_forward_hold(x);
    if (early) tile_release(t, "x");
    group_forward_tiles(x);
    if (apart && !early) tile_release(t, "x");
    lanes_results(x);
    store_output(x);
    if (!apart) tile_release(t, "x");
    lanes_store_finals(x);
    group_end_rows(x);
    tile_end(t);
}

/* Where only the first tile is masked there is one segment, and one loop. */
static void key_tiles(Lanes *x)
{
    if (x->p->attn->mask.i || !x->shape->scores_ahead) {
        lanes_key_tiles(x, TILE_DOWN);
        return;
    }
    const char *last = lanes_passing_end(x, LANES_QUERIES, "mb", x->block);
    tile_list(x->t, "keys");
    tile_segment(x->t, "full", TILE_DOWN, tile_text(x->t, "cdiv(%s, %d)", last, x->shape->key_tile),
                 "0");
}

void group_forward_kernel(Lanes *x)
{
    lanes_forward_head(x);
    group_let_first(x);
    key_tiles(x);
    memories(x);
    group_forward_load(x);
    group_role(x);
    tile_end(x->t);
}

AuSchedule *schedule_group_forward(AuArena *arena, AuDiags *diags, const AuProblem *p,
                                   const AuShape *shape)
{
    AuSchedule *out = schedule_new(arena, diags, p, "group_forward", shape,
                                   schedule_group_refusal(arena, p, shape));
    if (!out) return NULL;
    out->by_batch = p->short_rows && p->attn->queries.layout; /* all rows together are few */
    Lanes x = group_begin(warps_begin(arena, schedule_begin(arena, diags, p, out), p, out));
    return lanes_forward_built(&x, diags, group_forward_kernel);
}
