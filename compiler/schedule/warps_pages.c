/* warps_pages.c - tiles of keys and values that lie in pages of any size, brought by asynchronous copies of a warp (warps_decode.c).
 *
 * A lane knows the page and the slot of one key of the tile, and the copy is one of rows at places that lanes hold (lower/gather.c). What
 * the table says of a tile is read while the tile before it is brought. */
#include "key_layout.h"
#include "warps.h"

/* Tiles of a whole sequence come from its last one down (warps_forward.c), those of a part of it from its first one. */
static bool goes_down(const Lanes *x) { return x->p->queries == AU_PAGED_QUERIES; }

/* Of masks that depend on data they are those of a list. */
static bool is_listed(const Lanes *x) { return x->p->hooks->needs_lists; }

/* Rows of a tile that a warp brings. */
static int32_t share(const Lanes *x) { return x->shape->key_tile / x->shape->executors; }

/* Of them, those of one copy: each lane knows one. */
static int32_t together(const Lanes *x)
{
    const int32_t lanes = x->p->caps->lanes;
    int32_t rows = share(x) < lanes ? share(x) : lanes;
    while (share(x) % rows) rows--;
    return rows;
}

static int32_t pieces(const Lanes *x) { return share(x) / together(x); }

/* The warp's keys of piece [n] of that tile. */
static const char *keys_of(Lanes *x, const char *tile, int32_t n)
{
    return tile_text(x->t, "(%s * %d + self * %d + %d + iota(kv:%d))", tile, x->shape->key_tile,
                     share(x), n * together(x), together(x));
}

/* Entries behind the end of the line are read from the line: what they say is not used. */
static const char *entry(Lanes *x, const char *key)
{
    return lanes_page_entry(x, tile_text(x->t, "%s / page_rows", key));
}

/* Do tiles follow each other, so that a key's page and slot are so many pages and slots behind those of the tile before? */
static bool steps(const Lanes *x) { return !goes_down(x) && !is_listed(x); }

static void read_entry(Lanes *x, uint32_t n)
{
    tile_set(x->t, tile_numbered(x->t, "ahead", n), "%s",
             lanes_page_entry(x, tile_text(x->t, "ahead_page%u", n)));
}

static void read_ahead(Lanes *x, const char *tile)
{
    AuTileBuild *t = x->t;
    for (uint32_t n = 0; n < (uint32_t)pieces(x); n++) {
        const char *key = keys_of(x, tile, (int32_t)n);
        tile_set(t, tile_numbered(t, "ahead_slot", n), "%s %% page_rows", key);
        if (!steps(x)) {
            tile_set(t, tile_numbered(t, "ahead", n), "%s", entry(x, key));
            continue;
        }
        tile_set(t, tile_numbered(t, "ahead_page", n), "%s / page_rows", key);
        read_entry(x, n);
    }
}

/* The same of the next tile, without a division. */
static void step_ahead(Lanes *x)
{
    AuTileBuild *t = x->t;
    for (uint32_t n = 0; n < (uint32_t)pieces(x); n++) {
        tile_set(t, "slot_behind", "ahead_slot%u + tile_slots", n);
        tile_set(t, tile_numbered(t, "ahead_page", n),
                 "ahead_page%u + tile_pages + where(slot_behind < page_rows, 0, 1)", n);
        tile_set(t, tile_numbered(t, "ahead_slot", n),
                 "where(slot_behind < page_rows, slot_behind, slot_behind - page_rows)");
        read_entry(x, n);
    }
}

/* Of tiles of many queries when they are brought, for keys and for values: products hide that, and leave no registers for what is known
 * before. */
static void next_entries(Lanes *x, const char *tile)
{
    AuTileBuild *t = x->t;
    const bool now = goes_down(x);
    for (uint32_t n = 0; n < (uint32_t)pieces(x); n++) {
        const char *key = keys_of(x, tile, (int32_t)n);
        tile_set(t, tile_numbered(t, "page", n), "clamp(%s, 0, %s - 1)",
                 now ? entry(x, key) : tile_text(t, "ahead%u", n),
                 lanes_size(x, x->p->attn->keys.pages));
        if (now)
            tile_set(t, tile_numbered(t, "slot", n), "%s %% page_rows", key);
        else
            tile_set(t, tile_numbered(t, "slot", n), "ahead_slot%u", n);
    }
    if (!now && steps(x)) step_ahead(x);
    if (!now && !steps(x)) read_ahead(x, tile_text(t, "(%s + 1)", tile));
}

static void hold(Lanes *x, const char *what)
{
    for (uint32_t n = 0; n < (uint32_t)pieces(x); n++)
        tile_frag(x->t, tile_part(x->t, "%s%u", what, n), "i32[kv:%d] @ along_lanes = 0",
                  together(x));
}

void warps_pages_begin(Lanes *x)
{
    static const char *const held[] = {"page", "slot", "ahead", "ahead_slot", "ahead_page"};
    if (!lanes_has_pages(x)) return;
    for (uint32_t n = 0; n < (goes_down(x) ? 2u : steps(x) ? 5u : 4u); n++) hold(x, held[n]);
    tile_set(x->t, "page_rows", "max(%s, 1)", lanes_size(x, x->p->attn->keys.slots));
    if (steps(x)) {
        tile_set(x->t, "tile_pages", "%d / page_rows", x->shape->key_tile);
        tile_set(x->t, "tile_slots", "%d %% page_rows", x->shape->key_tile);
    }
    if (goes_down(x))
        tile_set(x->t, "part_end",
                 x->p->attn->mask.i && !is_listed(x) ? "min(k_high, kv_length)" : "kv_length");
    else
        read_ahead(x, "first_tile");
}

/* ---- copies */

static AuTileHandle piece_token(Lanes *x, const char *token, int32_t n)
{
    return n ? tile_part(x->t, "%s_%d", token, n) : tile_part(x->t, "%s", token);
}

/* Keys that somebody sees, of those that are there. */
static const char *admitted(Lanes *x, const char *key, bool from_low)
{
    AuTileBuild *t = x->t;
    const char *low = is_listed(x)   ? NULL
                      : from_low     ? "k_low"
                      : goes_down(x) ? tile_text(t, "n_low * %d", x->shape->key_tile)
                                     : NULL;
    return tile_text(t, "%s < part_end%s", key, low ? tile_text(t, " && %s >= %s", key, low) : "");
}

/* Where the rows of piece [n] go in the tile. */
static const char *rows_of(Lanes *x, const char *memory, const char *stage, int32_t n)
{
    return tile_text(x->t, "%s[%sself * %d + %d +: %d, :]", memory, stage, share(x),
                     n * together(x), together(x));
}

static void issue(Lanes *x, const char *token, LanesRows view, const char *memory, const char *tile,
                  const char *stage, bool by_weight)
{
    const bool from_low = by_weight && x->p->attn->mask.i;
    for (int32_t n = 0; n < pieces(x); n++) {
        const char *to = rows_of(x, memory, stage, n),
                   *when = admitted(x, keys_of(x, tile, n), from_low);
        tile_async_copy(x->t, piece_token(x, token, n), "%spage%d%sslot%d%s -> %s pad 0 when %s",
                        view.before, n, view.head, n, view.after, to, when);
    }
}

/* "first(keys)" or "next(n)", as numbers: tiles of a part follow each other. */
static const char *number(const Lanes *x, const char *n)
{
    const bool down = goes_down(x);
    if (is_listed(x)) return n;
    if (*n == 'f') return down ? "(n_high - 1)" : "first_tile";
    return *n == 'n' && n[1] ? down ? "(n - 1)" : "(n + 1)" : n;
}

/* With its axes called as those of the tile. */
static LanesRows operand_rows(Lanes *x, uint32_t operand)
{
    const char *to = warps_brought(x, operand);
    LanesRows view = lanes_operand_rows(x, operand, operand == 1 ? warps_key_columns(x) : ":");
    view.after = tile_text(x->t, "%s as [kv, %s]", view.after, *to == 'K' ? "d" : "e");
    return view;
}

static bool is_paged(Lanes *x, uint32_t term)
{
    return term ? lanes_dot_rows(x, term - 1, LANES_KEYS, ":").head != NULL
                : lanes_rows_are_paged(x, 1);
}

static bool some_keys_are_paged(Lanes *x)
{
    bool some = false;
    for (uint32_t n = 0; n < lanes_term_count(x); n++) some |= is_paged(x, n);
    return some;
}

static void issue_term(Lanes *x, uint32_t term, const char *n, const char *stage)
{
    if (!is_paged(x, term)) {
        warps_forward_issue_term(x, term, n, stage);
        return;
    }
    const LanesRows rows =
        term ? lanes_dot_rows(x, term - 1, LANES_KEYS, warps_columns(x, lanes_term(x, term).width))
             : operand_rows(x, 1);
    issue(x, lanes_term_name(x, "tk", term).text, rows,
          term ? lanes_term_name(x, "K", term).text : warps_brought(x, 1), number(x, n), stage,
          !term && !x->own_v);
}

bool warps_pages_issue_keys(Lanes *x, const char *n, const char *stage)
{
    if (!lanes_has_pages(x)) return false;
    const bool some = some_keys_are_paged(x);
    if (some || !goes_down(x)) next_entries(x, number(x, n));
    for (uint32_t term = 0; term < lanes_term_count(x) && some; term++)
        issue_term(x, term, n, stage);
    return some;
}

bool warps_pages_issue_values(Lanes *x, const char *n, const char *stage)
{
    if (!lanes_rows_are_paged(x, 2)) return false;
    if (goes_down(x)) next_entries(x, number(x, n));
    issue(x, "tv", operand_rows(x, 2), warps_brought(x, 2), number(x, n), stage, true);
    return true;
}

/* "tk", "tk, tk_1": of copies of a tile. */
static void add_tokens(Lanes *x, AuText *text, const char *token, bool paged)
{
    au_text_add(text, "%s%s", text->length ? ", " : "", token);
    for (int32_t n = 1; paged && n < pieces(x); n++) au_text_add(text, ", %s_%d", token, n);
}

const char *warps_pages_key_tokens(Lanes *x)
{
    AuText text = {.arena = x->arena};
    for (uint32_t n = 0; n < lanes_term_count(x); n++)
        add_tokens(x, &text, lanes_term_name(x, "tk", n).text, is_paged(x, n));
    return au_text_str(&text);
}

const char *warps_pages_value_tokens(Lanes *x)
{
    AuText text = {.arena = x->arena};
    add_tokens(x, &text, "tv", lanes_rows_are_paged(x, 2));
    return au_text_str(&text);
}
