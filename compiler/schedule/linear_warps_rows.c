/* linear_warps_rows.c - see linear_warps.h. Where the kernel `inverse` brings keys anyway, it makes those slots of queries and keys that are
 * more than a tensor, once, in the workspace; others copy them from there: those who go over chunks in order wait for all that they do
 * themselves, and strips of columns would do it each. Else tensors of the operands' type are copied as they are, and slots that are more than a tensor
 * are applied in place by the warp that copied the rows, eight at a time, so that neither code nor registers grow with the chunk. */
#include "linear_warps.h"

#include <string.h>

enum { ROWS_AT_ONCE = 8 };

typedef struct Tile {
    AuSlot slot;
    const char *name, *token; /* the memory; the copy in flight */
    const char *tokens, *channel;
    const char *layout;
    bool of_keys;
    const char *kept; /* in the workspace */
    bool only_kept;   /* there alone: keys as readers, where rows come as chains take them */
} Tile;

static const Tile tiles[] = {
    {AU_SLOT_Q, "Q", "tq", "q", "d", "across_d", true, "queries", false},
    {AU_SLOT_K, "K", "tk", "kv", "d", "across_d", true, "keys", false},
    {AU_SLOT_K, "Ks", "tr", "kv", "d", "across_d", true, "readers", true},
    {AU_SLOT_READS, "X", "tx", "kv", "d", "across_d", true, "readers", false},
    {AU_SLOT_WRITES, "B", "tb", "kv", "d", "across_d", true, "writers", false},
    {AU_SLOT_V, "V", "tv", "kv", "e", "across_e", false, NULL, false},
};
enum { TILES = sizeof tiles / sizeof *tiles };

static const AuHookSlot *slot_of(const LinearWarps *w, const Tile *tile)
{
    return &w->l.slots[tile->slot];
}

static int32_t width_of(const LinearWarps *w, const Tile *tile)
{
    return tile->of_keys ? w->d : w->e;
}

static bool is_own(const Tile *tile)
{
    return tile->slot == AU_SLOT_READS || tile->slot == AU_SLOT_WRITES;
}

static bool is_of_problem(const LinearWarps *w, const Tile *tile)
{
    return is_own(tile) ? lw_is_own(w) : !tile->only_kept || lin_is_fed(&w->l);
}

/* Feedback `own`: T is made without keys. */
static bool goes_back(const LinearWarps *w)
{
    return lw_is_own(w) && w->has_decayed && lw_has_output(w);
}

/* States are made without queries, inverses of keys alone. */
static bool is_there(const LinearWarps *w, const Tile *tile)
{
    if (tile->slot == AU_SLOT_V && w->without_values) return false;
    if (tile->slot == AU_SLOT_K && w->makes_given && w->has_decayed) return false; /* pairs are */
    if (!is_of_problem(w, tile) || (tile->only_kept && !w->has_decayed)) return false;
    if (tile->only_kept) return true;
    if (w->without_keys) return tile->slot == AU_SLOT_Q;
    if (is_own(tile)) return true;
    if (tile->slot == AU_SLOT_K && goes_back(w)) return false;
    return tile->slot == AU_SLOT_K ||
           (!w->makes_inverse && (tile->slot != AU_SLOT_Q || lw_has_output(w)));
}

/* Is M brought with the rows? */
static bool has_inverse(const LinearWarps *w)
{
    return lw_is_fed(w) && !w->makes_inverse && !w->without_inverse && !lw_inverts(w);
}

/* Is the tensor of the operands' type? */
static bool is_as_it_lies(LinearWarps *w, const Tile *tile)
{
    const AuHookSlot *s = slot_of(w, tile);
    return s->held.i && strcmp(lin_elem(&w->l, s->held), w->l.x.operand) == 0;
}

/* More than that: of queries and keys the workspace may have it. */
static bool is_made(LinearWarps *w, const Tile *tile)
{
    return !is_as_it_lies(w, tile) || !slot_of(w, tile)->is_plain;
}

static bool is_kept(LinearWarps *w, const Tile *tile)
{
    return tile->kept && (w->has_decayed || (w->has_rows && is_made(w, tile)));
}

/* Does memory have the rows as they lie? */
static bool is_copied(LinearWarps *w, const Tile *tile)
{
    return is_there(w, tile) && (is_kept(w, tile) || is_as_it_lies(w, tile));
}

static bool is_changed(LinearWarps *w, const Tile *tile)
{
    return is_there(w, tile) && !is_kept(w, tile) && is_made(w, tile);
}

/* Do rows of V in memory have that tensor as it stands? */
bool lw_has_tensor(LinearWarps *w, AuExpr held)
{
    const Tile *values = &tiles[TILES - 1];
    return held.i && slot_of(w, values)->held.i == held.i && is_copied(w, values) &&
           !is_changed(w, values);
}

static const char *view(LinearWarps *w, const Tile *tile, const char *rows)
{
    Linear *l = &w->l;
    const AuExpr held = slot_of(w, tile)->held;
    const char *columns = tile->of_keys
                              ? lin_columns(l, held, NULL, w->d == l->x.p->d ? 0 : w->d)
                              : lin_columns(l, held, tile_text(l->x.t, "vb * %d", w->e), w->e);
    return lin_view(l, held, tile->tokens, tile->channel, columns, rows);
}

void lw_memories(LinearWarps *w)
{
    Linear *l = &w->l;
    for (uint32_t n = 0; n < TILES; n++)
        if (is_there(w, &tiles[n]))
            warps_tile(&l->x, TILE_NAME(tiles[n].name), tiles[n].tokens, l->chunk, tiles[n].channel,
                       width_of(w, &tiles[n]), l->x.shape->stages);
    lw_numbers_memories(w);
}

static int32_t rows_at_once(const LinearWarps *w)
{
    return w->share < ROWS_AT_ONCE ? w->share : ROWS_AT_ONCE;
}

/* Are rows made here, for all? Queries are where nothing else is done with them. */
static bool makes(LinearWarps *w, const Tile *tile)
{
    return w->makes_rows && tile->kept && !tile->only_kept && !is_own(tile) && is_made(w, tile);
}

void lw_declare(LinearWarps *w)
{
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    for (uint32_t n = 0; n < TILES; n++) {
        const Tile *tile = &tiles[n];
        if (!is_changed(w, tile) && !makes(w, tile)) continue;
        const bool held = slot_of(w, tile)->held.i != 0;
        tile_frag(t, tile_text(t, "raw_%s", tile->name), "%s[%s:%d, %s:%d] @ %s%s",
                  held ? lin_elem(l, slot_of(w, tile)->held) : "f32", tile->channel,
                  width_of(w, tile), tile->tokens, rows_at_once(w),
                  tile->slot == AU_SLOT_V && w->makes_given ? "across_o" : tile->layout,
                  held ? "" : " = 0.0");
    }
    lw_numbers_declare(w);
}

/* Of what the workspace has of the chunk, and how many tokens; none of one that is not there. */
static void find_place(LinearWarps *w, const char *chunk)
{
    AuTileBuild *t = w->l.x.t;
    const int32_t tokens = w->l.chunk;
    tile_set(t, "chunk_brought", "%s", chunk);
    lw_place_of_states(w, "place_brought",
                       tile_text(t, "max(min(chunk_brought, cdiv(length, %d) - 1), 0)", tokens));
    tile_set(t, "rows_brought",
             "where(chunk_brought >= 0 && chunk_brought < cdiv(length, %d), %d, 0)", tokens,
             tokens);
}

/* The executor's rows of it. */
static AuTileHandle kept_rows(LinearWarps *w, const char *tensor)
{
    return tile_part(w->l.x.t, "%s[b, h, place_brought, self * %d +: %d from 0 to rows_brought, :]",
                     tensor, w->share, w->share);
}

static AuTileHandle brought(LinearWarps *w, const Tile *tile, const char *chunk)
{
    AuTileBuild *t = w->l.x.t;
    if (is_kept(w, tile)) return kept_rows(w, tile->kept);
    const char *rows =
        tile_text(t, "start + (%s) * %d + self * %d +: %d", chunk, w->l.chunk, w->share, w->share);
    return TILE_NAME(view(w, tile, rows));
}

static void issue_rows(LinearWarps *w, const char *token, AuTileHandle from, const char *memory,
                       const char *stage)
{
    warps_issue(&w->l.x, TILE_NAME(token), from,
                tile_part(w->l.x.t, "%s[%sself * %d +: %d, :]", memory, stage, w->share, w->share));
}

void lw_issue(LinearWarps *w, const char *chunk, const char *stage)
{
    const LinearKept *pairs = lw_kept_of_chain(w);
    if (lw_has_numbers(w) || has_inverse(w) || w->has_rows || w->has_decayed) find_place(w, chunk);
    for (uint32_t n = 0; n < TILES; n++)
        if (is_copied(w, &tiles[n]))
            issue_rows(w, tiles[n].token, brought(w, &tiles[n], chunk), tiles[n].name, stage);
    lw_numbers_issue(w);
    if (pairs) issue_rows(w, pairs->token, kept_rows(w, pairs->tensor), pairs->memory, stage);
    if (has_inverse(w)) lw_key_issue(w, stage);
}

void lw_wait(LinearWarps *w)
{
    for (uint32_t n = 0; n < TILES; n++)
        if (is_copied(w, &tiles[n])) warps_wait(&w->l.x, tiles[n].token);
    if (lw_kept_of_chain(w)) warps_wait(&w->l.x, lw_kept_of_chain(w)->token);
    if (has_inverse(w)) lw_key_wait(w);
}

static void change(LinearWarps *w, const Tile *tile)
{
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const AuHookSlot *s = slot_of(w, tile);
    const int32_t rows = rows_at_once(w), width = width_of(w, tile);
    const char *raw = tile_text(t, "raw_%s", tile->name),
               *made = tile_text(t, "made_%s", tile->name),
               *part = tile_text(t, "part_%s", tile->name);
    const char *row = tile_text(t, "self * %d + %s * %d", w->share, part, rows);
    const char *place = tile_text(t, "first + %s + iota(%s:%d)", row, tile->tokens, rows);
    const char *own =
        tile_text(t, "%s[%s%s +: %d, :]", tile->name, warps_stage(&l->x, false), row, rows);
    tile_for_range(t, part, "0", tile_text(t, "%d", w->share / rows));
    if (is_copied(w, tile))
        tile_load(t, raw, "%s", own);
    else if (s->held.i)
        tile_load(t, raw, "%s pad 0", view(w, tile, tile_text(t, "first + %s +: %d", row, rows)));
    if (s->name)
        tile_set(t, made, "%s(f32(%s), b, h, %s, %siota(%s:%d))", s->name, raw, place,
                 tile->of_keys ? "" : tile_text(t, "vb * %d + ", w->e), tile->channel, width);
    else
        tile_set(t, made, "f32(%s)", raw);
    tile_set(t, made, "where(%s < end%s, %s, 0.0)", place,
             tile->of_keys && w->d > l->x.p->d
                 ? tile_text(t, " && iota(d:%d) < %d", w->d, l->x.p->d)
                 : "",
             made);
    if (is_there(w, tile)) tile_store(t, "%s(%s) -> %s", l->x.operand, made, own);
    if (makes(w, tile))
        tile_store(t, "%s(%s) -> %s[b, h, place_of_inverse, %s +: %d, :]", l->x.operand, made,
                   tile->kept, row, rows);
    tile_end(t);
}

void lw_change(LinearWarps *w)
{
    for (uint32_t n = 0; n < TILES; n++)
        if (is_changed(w, &tiles[n])) change(w, &tiles[n]);
}

/* Of the kernel that makes rows: queries, of which it has no tile. */
void lw_make_rows(LinearWarps *w)
{
    for (uint32_t n = 0; n < TILES; n++)
        if (makes(w, &tiles[n]) && !is_there(w, &tiles[n])) change(w, &tiles[n]);
}

static void each_kept(LinearWarps *w, void (*what)(LinearWarps *w, const Tile *tile))
{
    for (uint32_t n = 0; n < TILES; n++)
        if (makes(w, &tiles[n]) ||
            (w->makes_pairs && tiles[n].kept && is_of_problem(w, &tiles[n])) ||
            (is_there(w, &tiles[n]) && is_kept(w, &tiles[n])))
            what(w, &tiles[n]);
}

static void argument(LinearWarps *w, const Tile *tile)
{
    lw_chunk_argument(w, tile->kept, w->makes_rows || w->makes_pairs ? TILE_INOUT : TILE_IN,
                      w->l.x.operand,
                      tile_text(w->l.x.t, "%s:%d, d:%d", tile->tokens, w->l.chunk, w->d));
}

static void region(LinearWarps *w, const Tile *tile) { lanes_region(&w->l.x, tile->kept); }

void lw_rows_arguments(LinearWarps *w) { each_kept(w, argument); }
void lw_rows_regions(LinearWarps *w) { each_kept(w, region); }
