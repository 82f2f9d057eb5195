/* group_wide_keys.c - tiles of keys of the schedule `group_wide`: their rings, and the role that fills them.
 *
 * A tile is one stage, of all channels; or, of AuShape.key_pieces, three, in rings of their own: the channels behind the value, and those of the two groups
 * that make weights in turn. Scores of the first piece begin before the last one is there, and each is free for the tile after the next when
 * nobody needs it any more: the group's half whose scores they were, soon, the other one when the other group has added its values. */
#include "group_wide.h"
#include "key_layout.h"
#include "warps_decode.h"

int32_t group_wide_piece_count(const AuShape *s) { return s->key_pieces ? s->key_pieces : 1; }

GroupWidePiece group_wide_piece(const AuProblem *p, const AuShape *s, int32_t n)
{
    const int32_t half = p->e / 2;
    if (!s->key_pieces) return (GroupWidePiece){"key", "", 0, p->d};
    if (n == 2) return (GroupWidePiece){"key_rest", "_rest", p->e, p->d - p->e};
    return (GroupWidePiece){n ? "key_odd" : "key_even", n ? "_odd" : "_even", n * half, half};
}

int32_t group_wide_piece_at(const AuShape *s, int32_t turn, int32_t half)
{
    const int32_t count = group_wide_piece_count(s), rest = count == 3;
    if (count == 1) return 0;
    return turn < rest ? 2 : (turn - rest + half) % 2;
}

void group_wide_key_memories(Lanes *x)
{
    AuTileBuild *t = x->t;
    const AuShape *s = x->shape;
    const AuProblem *p = x->p;
    for (int32_t n = 0; n < group_wide_piece_count(s); n++) {
        const GroupWidePiece piece = group_wide_piece(p, s, n);
        const char *tiles = tile_text(t, "K: %s[kv:%d, d:%d] swizzle %d", x->operand, s->key_tile,
                                      piece.count, group_swizzle(p, piece.count));
        if (x->own_v)
            tiles = tile_text(t, "%s, V: %s[kv:%d, e:%d] swizzle %d", tiles, x->operand,
                              s->key_tile, p->e, group_swizzle(p, p->e));
        tile_pipeline(t, piece.ring, s->stages, "load", s->paired ? "even, odd" : "scores, mma",
                      "%s", tiles);
    }
}

/* Rows of k (1) or v (2), such channels. */
static void bring_operand(Lanes *x, const GroupTile *tile, uint32_t operand, const char *channels,
                          bool by_lanes)
{
    AuTileBuild *t = x->t;
    const bool v = operand == 2, whole = !v && x->own_v;
    const LanesRows view = lanes_operand_rows(x, operand, channels);
    const char *to = v ? "y.V" : "y.K",
               *rows = tile_text(t, "%s * %d +: %d", tile->number, tile->rows, tile->rows);
    if (view.head && x->shape->paired)
        group_pages_send(x, tile, view, to, v ? "e" : "d", by_lanes && !whole);
    else if (view.head)
        group_pages_issue(x, tile, view, to, v ? "e" : "d", by_lanes && !whole);
    else
        group_issue(
            x,
            lanes_at(x, view,
                     group_span(x, LANES_KEYS, rows, whole ? "" : group_limits(x, tile, by_lanes))),
            tile_part(t, "%s", to));
}

/* In the order in which the group that makes the tile's weights, the even or the odd one, takes them for its scores. */
static void bring_pieces(Lanes *x, const GroupTile *tile, bool by_lanes, int32_t half)
{
    AuTileBuild *t = x->t;
    const int32_t count = group_wide_piece_count(x->shape);
    for (int32_t turn = 0; turn < count; turn++) {
        const GroupWidePiece piece =
            group_wide_piece(x->p, x->shape, group_wide_piece_at(x->shape, turn, half));
        const char *channels = count > 1 ? tile_text(t, "%d +: %d", piece.first, piece.count) : ":";
        tile_acquire(t, "y", piece.ring);
        bring_operand(x, tile, 1, channels, by_lanes);
        if (x->own_v) bring_operand(x, tile, 2, ":", by_lanes);
        tile_commit(t, "y");
    }
}

static void bring_tile(Lanes *x, const GroupTile *tile, bool by_lanes)
{
    AuTileBuild *t = x->t;
    if (!x->shape->key_pieces) {
        bring_pieces(x, tile, by_lanes, 0);
        return;
    }
    const char *first = warps_is_whole(x) ? "n_high - 1" : "first_tile";
    tile_if(t, "(%s - %s) %% 2 == 0", tile->number, first);
    bring_pieces(x, tile, by_lanes, 0);
    tile_else(t);
    bring_pieces(x, tile, by_lanes, 1);
    tile_end(t);
}

void group_wide_load_role(Lanes *x)
{
    const GroupTile keys = {"n", x->shape->key_tile, "k", NULL, false};
    const bool paged = lanes_has_pages(x);
    tile_role(x->t, "load", 0, TILE_ON_WARP, x->shape->producer_registers);
    warps_begin_part(x);
    if (paged) group_pages_begin(x);
    tile_for_tiles(x->t, "n", "keys", NULL);
    if (paged) group_pages_find(x, &keys);
    if (paged && x->shape->paired) group_pages_find_all(x, &keys); /* before it waits for a stage */
    group_issue_of_list(x, &keys, bring_tile);
    tile_end(x->t);
    warps_end_part(x);
    tile_end(x->t);
}
