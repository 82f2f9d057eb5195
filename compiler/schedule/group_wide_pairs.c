/* group_wide_pairs.c - forward of values wider than a warp holds by two groups of warps which make weights in turn (AuShape.paired).
 *
 *     role even on group         S, weights of tiles 0, 2, ..; O[first half of the channels] of all tiles
 *     role odd on group          S, weights of tiles 1, 3, ..; O[the other half]
 *
 * Who has made weights leaves them for the other, with the factors of sums and the states of rows, and adds the values of its half with those in its
 * registers. The other goes on from these states, so tiles come strictly one after the other, and the online function is what it is elsewhere; it adds
 * the values of its half beside the making of its own weights, whose scores it has had before. So while one makes weights the unit has products of
 * both. Tiles are numbered and not walked, since every second is another group's.
 *
 * Scores are waited for before anything is asked of the other group: sums that lanes scale while a product is in flight would be taken only when it
 * has ended, and ptxas says so for all (C7517). */
#include "group_wide.h"
#include "warps_decode.h"

/* A group: which it is, and the pipelines of what it leaves and of what it finds. */
typedef struct Half {
    const char *name;
    int32_t number;
    const char *left, *found;
} Half;
static const Half halves[] = {{"even", 0, "evens", "odds"}, {"odd", 1, "odds", "evens"}};

/* ---- memories */

static void weights_ring(Lanes *x, const Half *from, const Half *to)
{
    AuTileBuild *t = x->t;
    AuText tiles = {.arena = x->arena};
    const int32_t keys = x->shape->key_tile;
    au_text_add(&tiles, "P: %s[q:%d, kv:%d] swizzle %d", x->operand, x->block, keys,
                group_swizzle(x->p, keys));
    if (x->p->hooks->has_scale) au_text_add(&tiles, ", factor: f32[q:%d]", x->block);
    for (uint32_t n = 0; n < x->p->hooks->state_count; n++)
        au_text_add(&tiles, ", state%u: f32[q:%d]", n, x->block);
    tile_pipeline(t, from->left, x->shape->exchange_stages, from->name, to->name, "%s",
                  au_text_str(&tiles));
}

void group_wide_pair_memories(Lanes *x)
{
    weights_ring(x, &halves[0], &halves[1]);
    weights_ring(x, &halves[1], &halves[0]);
}

/* ---- a tile */

/* Of fragment [n], in the output. */
static const char *channels(Lanes *x, const Half *half, int32_t n)
{
    const int32_t own = group_wide_columns(x->p, x->shape),
                  part = own / group_wide_fragments(x->p, x->shape);
    return tile_text(x->t, "%d +: %d", half->number * own + n * part, part);
}

/* ---- stages of a tile of keys: "y", or a name for each piece */

static const char *piece_stage(Lanes *x, const char *stage, int32_t n)
{
    return tile_text(x->t, "%s%s", stage, group_wide_piece(x->p, x->shape, n).suffix);
}

static void wait_piece(Lanes *x, const char *stage, int32_t n)
{
    tile_wait_stage(x->t, tile_text(x->t, "%s", piece_stage(x, stage, n)),
                    group_wide_piece(x->p, x->shape, n).ring);
}

/* Which piece has the half's values. */
static int32_t own_piece(const Lanes *x, const Half *half)
{
    return x->shape->key_pieces ? half->number : 0;
}

/* Those pieces that have not: waited for, released. */
static void wait_others(Lanes *x, const Half *half, const char *stage)
{
    for (int32_t n = group_wide_piece_count(x->shape) - 1; n >= 0; n--)
        if (n != own_piece(x, half)) wait_piece(x, stage, n);
}

static void release_others(Lanes *x, const Half *half, const char *stage)
{
    for (int32_t n = group_wide_piece_count(x->shape) - 1; n >= 0; n--)
        if (n != own_piece(x, half)) tile_release(x->t, piece_stage(x, stage, n));
}

/* Scores of one piece after the other, from the queries' channels of each; those in registers are the last ones. */
static void start_scores(Lanes *x, const Half *half, const char *stage)
{
    AuTileBuild *t = x->t;
    const int32_t count = group_wide_piece_count(x->shape), held = x->shape->query_channels;
    if (count == 1) {
        wait_piece(x, stage, 0);
        group_wide_start_scores(x, "score", stage);
        return;
    }
    for (int32_t turn = 0; turn < count; turn++) {
        const int32_t n = group_wide_piece_at(x->shape, turn, half->number);
        const GroupWidePiece piece = group_wide_piece(x->p, x->shape, n);
        wait_piece(x, stage, n);
        tile_product(t, "score", x->atom, turn ? TILE_ADD : TILE_START,
                     held && !turn ? tile_part(t, "query")
                                   : tile_part(t, "x.Q[:, %d +: %d]", piece.first, piece.count),
                     tile_text(t, "%s.K[:, :]", piece_stage(x, stage, n)));
    }
}

/* Adds weights, a fragment or a tile, times the half's values of the stage of keys [stage]. */
static void start_values(Lanes *x, const Half *half, const char *weights, const char *stage)
{
    AuTileBuild *t = x->t;
    const int32_t own = group_wide_columns(x->p, x->shape),
                  count = group_wide_fragments(x->p, x->shape), n_own = own_piece(x, half),
                  first = (x->own_v ? 0 : x->p->attn->v_first) + half->number * own -
                          group_wide_piece(x->p, x->shape, n_own).first;
    for (int32_t n = 0; n < count; n++)
        tile_product(t, group_wide_sum(x, n), x->atom, TILE_ADD, tile_text(t, "%s", weights),
                     tile_text(t, "%s.%s[:, %d +: %d] as [kv, e]", piece_stage(x, stage, n_own),
                               x->own_v ? "V" : "K", first + n * (own / count), own / count));
}

static void wait_values(Lanes *x, const Half *half, const char *before, const char *stage)
{
    tile_wait(x->t, group_wide_sums(x));
    tile_release(x->t, tile_text(x->t, "%s%s", before, piece_stage(x, stage, own_piece(x, half))));
}

/* What the other group has left of a tile: states, and sums with its weights under way. */
static void take_weights(Lanes *x, const Half *half, const char *stage, bool scores)
{
    AuTileBuild *t = x->t;
    if (scores) tile_wait(t, "score");
    tile_wait_stage(t, "u", half->found);
    for (uint32_t n = 0; n < x->p->hooks->state_count; n++)
        tile_load(t, tile_numbered(t, "state", n), "u.state%u as [q] like row_like", n);
    if (x->p->hooks->has_scale) {
        tile_load(t, "factor", "u.factor as [q] like row_like");
        group_wide_scale_sums(x, "factor");
    }
    start_values(x, half, "u.P", stage);
}

/* Of tile [number] of the list, whose scores are there, beside products with the other's weights. */
static void make_weights(Lanes *x, const char *number)
{
    const bool whole = warps_is_whole(x);
    tile_set(x->t, "n", "%s %s (%s)", whole ? "n_high - 1" : "first_tile", whole ? "-" : "+",
             number);
    group_wide_scores_of(x, "n");
    lanes_online(x);
    tile_set(x->t, "weight", "%s(p)", x->operand);
}

/* Weights go to the other group first: a stage is free when that has added their values, too. */
static void leave_weights(Lanes *x, const Half *half, const char *stage)
{
    AuTileBuild *t = x->t;
    tile_acquire(t, "w", half->left);
    tile_store(t, "weight -> w.P");
    if (x->p->hooks->has_scale) tile_store(t, "scale -> w.factor");
    for (uint32_t n = 0; n < x->p->hooks->state_count; n++)
        tile_store(t, "state%u -> w.state%u", n, n);
    tile_commit(t, "w");
    if (x->p->hooks->has_scale) group_wide_scale_sums(x, "scale");
    start_values(x, half, "weight", stage);
    wait_values(x, half, "", stage);
}

/* ---- tiles, two by two */

static void begin_tiles(Lanes *x)
{
    tile_set(x->t, "tiles", "%s", warps_is_whole(x) ? "n_high - n_low" : "last_tile - first_tile");
}

/* The stage of a tile that is the other group's; what of it this one does not need is not kept. */
static void find_other_tile(Lanes *x, const Half *half, const char *stage)
{
    wait_others(x, half, stage);
    release_others(x, half, stage);
    wait_piece(x, stage, own_piece(x, half));
}

/* Scores of the next tile, [own], then the values of the other group's, [found], beside which its weights are made. */
static void next_weights(Lanes *x, const Half *half, const char *own, const char *found,
                         const char *number)
{
    start_scores(x, half, own);
    take_weights(x, half, found, true);
    release_others(x, half, own);
    make_weights(x, number);
    wait_values(x, half, "u, ", found);
}

static void last_values(Lanes *x, const Half *half, const char *stage)
{
    take_weights(x, half, stage, false);
    wait_values(x, half, "u, ", stage);
}

static void even_tiles(Lanes *x, const Half *half)
{
    AuTileBuild *t = x->t;
    begin_tiles(x);
    tile_if(t, "tiles > 0");
    start_scores(x, half, "y");
    tile_wait(t, "score");
    release_others(x, half, "y");
    make_weights(x, "0");
    tile_set(t, "pairs", "cdiv(tiles, 2)");
    tile_for_range(t, "pair", "1", "pairs");
    leave_weights(x, half, "y");
    find_other_tile(x, half, "z");
    next_weights(x, half, "y", "z", "pair * 2");
    tile_end(t);
    leave_weights(x, half, "y");
    tile_if(t, "tiles %% 2 == 0");
    find_other_tile(x, half, "z");
    last_values(x, half, "z");
    tile_end(t);
    tile_end(t);
}

static void odd_tiles(Lanes *x, const Half *half)
{
    AuTileBuild *t = x->t;
    begin_tiles(x);
    tile_for_range(t, "pair", "0", "tiles / 2");
    find_other_tile(x, half, "y");
    next_weights(x, half, "z", "y", "pair * 2 + 1");
    leave_weights(x, half, "z");
    tile_end(t);
    tile_if(t, "tiles %% 2 == 1");
    find_other_tile(x, half, "y");
    last_values(x, half, "y");
    tile_end(t);
}

/* ---- ends */

/* Rows whose keys the block has all. Both groups have the states of the last tile. */
static void end_rows(Lanes *x, const Half *half)
{
    AuTileBuild *t = x->t;
    const uint32_t count = x->p->hooks->state_count;
    warps_name_all_rows(x);
    for (uint32_t n = 0; n < count; n++) tile_set(t, tile_numbered(t, "end", n), "state%u", n);
    for (int32_t n = 0; n < group_wide_fragments(x->p, x->shape); n++)
        warps_end_whole(x, tile_text(t, "acc%d", n), channels(x, half, n));
    if (!half->number) warps_store_whole_finals(x);
}

static void store_part(Lanes *x, const Half *half)
{
    AuTileBuild *t = x->t;
    const char *place = warps_part_place(x);
    for (int32_t n = 0; n < group_wide_fragments(x->p, x->shape); n++)
        tile_store(t, "acc%d -> part_acc[%s, mb * %d +: %d, %s] clip", n, place, x->block, x->block,
                   channels(x, half, n));
    for (uint32_t n = 0; n < x->p->hooks->state_count && !half->number; n++)
        tile_store(t, "state%u -> part_state%u[%s, mb * %d +: %d] clip", n, n, place, x->block,
                   x->block);
}

static void end_half(Lanes *x, const Half *half)
{
    AuTileBuild *t = x->t;
    if (warps_is_whole(x)) {
        end_rows(x, half);
        return;
    }
    if (x->ends_rows) {
        tile_if(t, "%s", warps_is_whole_part(x));
        end_rows(x, half);
        tile_else(t);
    }
    store_part(x, half);
    if (x->ends_rows) tile_end(t);
}

static void half_role(Lanes *x, const Half *half)
{
    AuTileBuild *t = x->t;
    const AuShape *s = x->shape;
    const int32_t count = group_wide_fragments(x->p, s);
    tile_role(t, half->name, 0, TILE_ON_WARPGROUP, s->consumer_registers);
    warps_begin_part(x);
    lanes_declare_scores(
        x, tile_text(t, "f32[q:%d, kv:%d] @ %s.C", x->rows, s->key_tile, x->atom->name));
    for (int32_t n = 0; n < count; n++)
        tile_frag(t, group_wide_sum(x, n), "f32[q:%d, e:%d] @ %s.C = 0.0", x->block,
                  group_wide_columns(x->p, s) / count, x->atom->name);
    tile_frag(t, "row_like", "f32[q:%d] like score = 0.0", x->rows);
    warps_name_rows(x, warps_first_row(x));
    lanes_begin_states(x);
    group_wide_hold_queries(x);
    tile_wait_stage(t, "x", "queries");
    if (half->number)
        odd_tiles(x, half);
    else
        even_tiles(x, half);
    tile_release(t, "x");
    end_half(x, half);
    warps_end_part(x);
    tile_end(t);
}

void group_wide_pair_roles(Lanes *x)
{
    half_role(x, &halves[0]);
    half_role(x, &halves[1]);
}
