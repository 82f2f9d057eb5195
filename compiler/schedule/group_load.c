/* group_load.c - the warp that brings tiles to groups of warps: the pipelines that it fills, in the declarations of the kernel, and its role.
 *
 *     forward       queries: Q          key: K     value: V           once; then of each tile of keys
 *     backward      keys: K, V          query: Q   grad: dO           once; then of each tile of queries
 *     dQ alone      queries: Q, dO      key: K, V                     once; then of each tile of keys
 *
 * A pipeline has more tiles than one where these are waited for together: those of further products beside Q and K; statistics of rows beside
 * what asks for them first, finals beside queries, adjoints beside output gradients.
 *
 * Tiles are boxes of tensors. Those in which the mask's range begins are copied by the lanes of the warp (group_issue_within). */
#include "group.h"
#include "key_layout.h"
#include "lanes_back.h"

/* ---- pipelines */

typedef struct Tile {
    const char *name, *type; /* "K", "bf16[kv:64, d:128] swizzle 128" */
    LanesRows from;
    bool is_whole; /* the mask's range does not cut it */
    const char *
        by_lanes; /* the fragment through which the warp's lanes bring it, a row a lane; NULL: copies do */
} Tile;

typedef struct Ring {
    const char *name, *stage; /* the pipeline; the stage of it that is being filled */
    LanesSide side;           /* whose rows */
    int32_t stages;
    uint32_t count;
    Tile *tiles;
    const char *role; /* that fills it */
} Ring;

/* With place for so many tiles. */
static Ring ring(Lanes *x, const char *name, const char *stage, LanesSide side, int32_t stages,
                 uint32_t most)
{
    return (Ring){name, stage, side, stages, 0, AU_NEW_ARRAY(x->arena, Tile, most), "load"};
}

static void add(Ring *r, Tile tile) { r->tiles[r->count++] = tile; }

static void declare(Lanes *x, const Ring *r)
{
    AuText tiles = {.arena = x->arena};
    for (uint32_t n = 0; n < r->count; n++)
        au_text_add(&tiles, "%s%s: %s", n ? ", " : "", r->tiles[n].name, r->tiles[n].type);
    tile_pipeline(x->t, r->name, r->stages, r->role, "mma", "%s", au_text_str(&tiles));
}

/* A stage: rows as they lie in memory, and with limits of the range, for the tiles that it cuts. */
static void fill_spans(Lanes *x, const Ring *r, const char *whole, const char *within)
{
    for (uint32_t n = 0; n < r->count; n++) { /* on their way while the stage is waited for */
        const Tile *tile = &r->tiles[n];
        if (tile->by_lanes)
            tile_load(x->t, tile->by_lanes, "%v @ rows_along_lanes pad 0",
                      lanes_at(x, tile->from, whole));
    }
    tile_acquire(x->t, r->stage, r->name);
    for (uint32_t n = 0; n < r->count; n++) {
        const Tile *tile = &r->tiles[n];
        if (tile->by_lanes)
            tile_store(x->t, "%s -> %s.%s", tile->by_lanes, r->stage, tile->name);
        else
            group_issue(x, lanes_at(x, tile->from, tile->is_whole ? whole : within),
                        tile_part(x->t, "%s.%s", r->stage, tile->name));
    }
    tile_commit(x->t, r->stage);
}

/* The same of one tile whose rows lie in pages. */
static void fill_pages(Lanes *x, const Ring *r, const GroupTile *of, bool by_lanes)
{
    const Tile *tile = &r->tiles[0];
    tile_acquire(x->t, r->stage, r->name);
    group_pages_issue(x, of, tile->from, tile_text(x->t, "%s.%s", r->stage, tile->name),
                      tile->is_whole ? "d" : "e", by_lanes);
    tile_commit(x->t, r->stage);
}

/* Rows of a tile of the sequence. */
static void fill(Lanes *x, const Ring *r, const GroupTile *of, bool by_lanes)
{
    const char *rows = tile_text(x->t, "%s * %d +: %d", of->number, of->rows, of->rows);
    if (r->tiles[0].from.head) {
        fill_pages(x, r, of, by_lanes);
        return;
    }
    fill_spans(x, r, group_span(x, r->side, rows, ""),
               group_span(x, r->side, rows, group_limits(x, of, by_lanes)));
}

static const char *type_of(Lanes *x, const char *rows, int32_t count, const char *columns,
                           int32_t width, int32_t swizzle)
{
    return tile_text(x->t, "%s[%s:%d, %s:%d] swizzle %d", x->operand, rows, count, columns, width,
                     swizzle);
}

/* ---- forward */

/* Queries or keys, and those of further products beside them. */
static Ring ring_of_side(Lanes *x, LanesSide side)
{
    const bool keys = side == LANES_KEYS;
    Ring r = keys ? ring(x, "key", "y", side, x->shape->stages, lanes_term_count(x))
                  : ring(x, "queries", "x", side, 1, lanes_term_count(x));
    for (uint32_t n = 0; n < lanes_term_count(x); n++) {
        const LanesTerm term = lanes_term(x, n);
        add(&r, (Tile){lanes_term_name(x, keys ? "K" : "Q", n).text,
                       type_of(x, keys ? "kv" : "q", keys ? x->shape->key_tile : x->block,
                               term.axis, term.width, group_swizzle(x->p, term.width)),
                       lanes_term_rows(x, n, side, ":"), true, NULL});
    }
    return r;
}

static Ring ring_of_values(Lanes *x)
{
    Ring r = ring(x, "value", "z", LANES_KEYS, x->shape->stages, 1);
    add(&r, (Tile){"V",
                   type_of(x, "kv", x->shape->key_tile, "e", x->p->e, group_swizzle(x->p, x->p->e)),
                   lanes_operand_rows(x, 2, ":"), false, NULL});
    if (lanes_has_pages(x)) r.role = "load_values";
    return r;
}

void group_forward_pipelines(Lanes *x)
{
    Ring queries = ring_of_side(x, LANES_QUERIES);
    const Ring keys = ring_of_side(x, LANES_KEYS), values = ring_of_values(x);
    if (schedule_packs_rows(x->p)) queries.role = "load_queries";
    if (!group_holds_packed(x->p, x->shape)) declare(x, &queries);
    declare(x, &keys);
    declare(x, &values);
}

static void fill_values(Lanes *x, const GroupTile *tile, bool by_lanes)
{
    const Ring values = ring_of_values(x);
    fill(x, &values, tile, by_lanes);
}

static void open_role(Lanes *x, const char *name)
{
    tile_role(x->t, name, 0, TILE_ON_WARP, x->shape->producer_registers);
    group_begin_rows(x);
}

static void end_role(Lanes *x)
{
    group_end_rows(x);
    tile_end(x->t);
}

static void open_tiles(Lanes *x, const GroupTile *keys)
{
    const bool paged = lanes_has_pages(x);
    if (paged) group_pages_begin(x);
    tile_for_tiles(x->t, "n", "keys", NULL);
    if (paged) group_pages_find(x, keys);
}

/* Keys in pages take a box for each 16 rows, and a warp is busy for long with those of a tile: another brings the values. */
void group_forward_load(Lanes *x)
{
    const GroupTile keys = {"n", x->shape->key_tile, "k", NULL, false};
    const Ring of_queries = ring_of_side(x, LANES_QUERIES), of_keys = ring_of_side(x, LANES_KEYS);
    const bool packed = schedule_packs_rows(x->p);
    if (packed && !group_holds_packed(x->p, x->shape)) { /* rows of several heads, one by one */
        open_role(x, "load_queries");
        group_bring_packed(x, ":");
        end_role(x);
    }
    open_role(x, "load");
    if (!packed) fill_spans(x, &of_queries, group_first_span(x), NULL);
    open_tiles(x, &keys);
    fill(x, &of_keys, &keys, false);
    if (lanes_has_pages(x)) {
        tile_end(x->t);
        end_role(x);
        open_role(x, "load_values");
        open_tiles(x, &keys);
    }
    group_issue_of_list(x, &keys, fill_values);
    tile_end(x->t);
    end_role(x);
}

/* ---- backward */

/* [part]: channels of keys that units read side by side, which who fills the tile need not know. */
static Ring ring_of_block(Lanes *x, int32_t part)
{
    Ring r = ring(x, "keys", "x", LANES_KEYS, 1, 2);
    const int32_t bytes = tile_elem(x->p->operand)->bytes;
    add(&r, (Tile){"K", type_of(x, "kv", x->block, "d", x->p->d, group_back_swizzle(part * bytes)),
                   lanes_operand_rows(x, 1, ":"), false, NULL});
    add(&r, (Tile){"V", type_of(x, "kv", x->block, "e", x->p->e, group_swizzle(x->p, x->p->e)),
                   lanes_operand_rows(x, 2, ":"), false, NULL});
    return r;
}

static void add_statistics(Lanes *x, Ring *r, uint32_t from, uint32_t to)
{
    for (uint32_t n = from; n < to; n++)
        add(r, (Tile){tile_text(x->t, "row%u", n),
                      tile_text(x->t, "f32[q:%d]", x->shape->query_tile),
                      {tile_text(x->t, "%s[%s, h, ", back_row_name(x, n),
                                 lanes_row_b(x, LANES_QUERIES)),
                       "]", NULL, false},
                      true,
                      tile_text(x->t, "row%u_all", n)});
}

static Ring ring_of_queries(Lanes *x)
{
    Ring r = ring(x, "query", "y", LANES_QUERIES, x->shape->stages, 1 + back_row_count(x, true));
    add(&r,
        (Tile){"Q",
               type_of(x, "q", x->shape->query_tile, "d", x->p->d, group_swizzle(x->p, x->p->d)),
               lanes_operand_rows(x, 0, ":"), false, NULL});
    add_statistics(x, &r, 0, back_row_count(x, false));
    return r;
}

static Ring ring_of_gradients(Lanes *x)
{
    Ring r = ring(x, "grad", "z", LANES_QUERIES, x->shape->stages, 1 + back_row_count(x, true));
    add(&r,
        (Tile){"dO",
               type_of(x, "q", x->shape->query_tile, "e", x->p->e, group_swizzle(x->p, x->p->e)),
               lanes_rows(x, back_output_gradient(x), "h", ":"), false, NULL});
    add_statistics(x, &r, back_row_count(x, false), back_row_count(x, true));
    return r;
}

void group_back_pipelines(Lanes *x, int32_t part)
{
    const Ring block = ring_of_block(x, part), queries = ring_of_queries(x),
               gradients = ring_of_gradients(x);
    declare(x, &block);
    declare(x, &queries);
    declare(x, &gradients);
}

static void fill_block(Lanes *x, const GroupTile *tile, bool by_lanes)
{
    const Ring block = ring_of_block(x, x->p->d);
    fill(x, &block, tile, by_lanes);
}

static void fill_queries(Lanes *x, const GroupTile *tile, bool by_lanes)
{
    const Ring queries = ring_of_queries(x), gradients = ring_of_gradients(x);
    fill(x, &queries, tile, by_lanes);
    fill(x, &gradients, tile, by_lanes);
}

/* Scores that are a tile ahead ask for one behind the last. It carries the first rows of the keys, wherever they belong to, since their place takes no
 * registers; nobody uses its scores. */
static void fill_behind(Lanes *x)
{
    const char *rows = tile_text(x->t, "0 +: %d", x->shape->query_tile);
    tile_acquire(x->t, "y", "query");
    tile_async_copy(x->t, NULL, "%v as [q, d] -> y.Q pad 0",
                    lanes_at(x, lanes_operand_rows(x, 1, ":"), rows));
    tile_commit(x->t, "y");
}

void group_back_load(Lanes *x)
{
    const GroupTile keys = {"nb", x->block, "k", lanes_axis(x, 1, 2), true},
                    queries = {"m", x->shape->query_tile, "q", lanes_axis(x, 0, 2), false};
    tile_role(x->t, "load", 0, TILE_ON_WARP, x->shape->producer_registers);
    group_issue_within(x, &keys, fill_block);
    group_back_open_walk(x);
    group_issue_of_list(x, &queries, fill_queries);
    group_back_end_walk(x);
    if (x->shape->scores_ahead) fill_behind(x);
    tile_end(x->t);
}

/* ---- gradients of queries */

static Ring ring_of_own_rows(Lanes *x)
{
    Ring r = ring(x, "queries", "x", LANES_QUERIES, 1, 2);
    add(&r, (Tile){"Q", type_of(x, "q", x->block, "d", x->p->d, group_swizzle(x->p, x->p->d)),
                   lanes_operand_rows(x, 0, ":"), true, NULL});
    add(&r, (Tile){"dO", type_of(x, "q", x->block, "e", x->p->e, group_swizzle(x->p, x->p->e)),
                   lanes_rows(x, back_output_gradient(x), "h", ":"), true, NULL});
    return r;
}

static Ring ring_of_key_pairs(Lanes *x)
{
    const int32_t keys = x->shape->key_tile;
    Ring r = ring(x, "key", "y", LANES_KEYS, x->shape->stages, 2);
    add(&r, (Tile){"K", type_of(x, "kv", keys, "d", x->p->d, group_swizzle(x->p, x->p->d)),
                   lanes_operand_rows(x, 1, ":"), false, NULL});
    add(&r, (Tile){"V", type_of(x, "kv", keys, "e", x->p->e, group_swizzle(x->p, x->p->e)),
                   lanes_operand_rows(x, 2, ":"), true, NULL});
    return r;
}

void group_query_pipelines(Lanes *x)
{
    const Ring rows = ring_of_own_rows(x), keys = ring_of_key_pairs(x);
    declare(x, &rows);
    declare(x, &keys);
}

static void fill_key_pairs(Lanes *x, const GroupTile *tile, bool by_lanes)
{
    const Ring keys = ring_of_key_pairs(x);
    fill(x, &keys, tile, by_lanes);
}

void group_query_load(Lanes *x)
{
    const GroupTile keys = {"n", x->shape->key_tile, "k", NULL, false};
    const Ring rows = ring_of_own_rows(x);
    tile_role(x->t, "load", 0, TILE_ON_WARP, x->shape->producer_registers);
    fill_spans(x, &rows, group_first_span(x), NULL);
    tile_for_tiles(x->t, "n", "keys", NULL);
    group_issue_of_list(x, &keys, fill_key_pairs);
    tile_end(x->t);
    tile_end(x->t);
}
