/* group_pages.c - tiles of keys and values that lie in pages, brought by boxes (group_load.c).
 *
 * Pages are multiples of 16 rows (the variant's condition, variant.c), so 16 keys lie in one page: a tile is a box for each 16 of its rows,
 * of the page that the table names. Boxes end where the mask's range or the sequence does; since such a box has a row that is there
 * (kernel-ir.md, 10.4), those behind the end bring the last rows again: their keys are masked, their weights 0, and the rows are ones that
 * somebody of the block sees. So no entry of the table is read behind the sequence's last one. */
#include "group.h"
#include "key_layout.h"

/* Pages are read for so many boxes, and then these are sent: what is read is on its way together. */
enum { TOGETHER = 2 };

void group_pages_begin(Lanes *x)
{
    tile_set(x->t, "page_rows", "max(%s, 1)", lanes_size(x, x->p->attn->keys.slots));
    tile_set(x->t, "paged_end", x->p->attn->mask.i ? "min(k_high, kv_length)" : "kv_length");
    tile_set(x->t, "paged_last", "(paged_end - 1) / %d * %d", SCHEDULE_PAGE_ROWS,
             SCHEDULE_PAGE_ROWS);
}

/* Found once, for keys and values: a division takes as long as all else of a box. */
void group_pages_find(Lanes *x, const GroupTile *tile)
{
    AuTileBuild *t = x->t;
    tile_set(t, "tile_key", "%s * %d", tile->number, tile->rows);
    tile_set(t, "tile_entry", "tile_key / page_rows");
    tile_set(t, "tile_slot", "tile_key - tile_entry * page_rows");
}

/* Where box [n] lies: its key, its page and its first row there, behind those of the box before; behind the last one with a key it is that again. */
static void find(Lanes *x, uint32_t n)
{
    AuTileBuild *t = x->t;
    if (!n) {
        tile_set(t, "key0", "tile_key");
        tile_set(t, "slot0", "tile_slot");
        tile_set(t, "entry", "tile_entry");
    } else {
        tile_set(t, "more", "key%u < paged_last", n - 1);
        tile_set(t, "turned", "slot%u + %d >= page_rows", n - 1, SCHEDULE_PAGE_ROWS);
        tile_set(t, tile_numbered(t, "key", n), "where(more, key%u + %d, key%u)", n - 1,
                 SCHEDULE_PAGE_ROWS, n - 1);
        tile_set(t, tile_numbered(t, "slot", n),
                 "where(more, where(turned, 0, slot%u + %d), slot%u)", n - 1, SCHEDULE_PAGE_ROWS,
                 n - 1);
        tile_set(t, "entry", "where(more && turned, entry + 1, entry)");
    }
    tile_set(t, tile_numbered(t, "page", n), "clamp(%s, 0, %s - 1)", lanes_page_entry(x, "entry"),
             lanes_size(x, x->p->attn->keys.pages));
}

static void send(Lanes *x, LanesRows view, const char *to, const char *axis, uint32_t n,
                 bool by_lanes)
{
    AuTileBuild *t = x->t;
    const uint32_t rows = SCHEDULE_PAGE_ROWS;
    const char *low = by_lanes ? tile_text(t, "slot%u + k_low - key%u", n, n) : "0",
               *part = tile_text(t, "%s[%u +: %u, :]", to, n * rows, rows);
    tile_async_copy(t, NULL,
                    "%spage%u%sslot%u +: %u from %s to slot%u + paged_end - key%u%s as [kv, %s] "
                    "-> %s pad 0",
                    view.before, n, view.head, n, rows, low, n, n, view.after, axis, part);
}

static uint32_t boxes_of(const GroupTile *tile)
{
    return (uint32_t)(tile->rows / SCHEDULE_PAGE_ROWS);
}

void group_pages_issue(Lanes *x, const GroupTile *tile, LanesRows view, const char *to,
                       const char *axis, bool by_lanes)
{
    const uint32_t boxes = boxes_of(tile);
    for (uint32_t first = 0; first < boxes; first += TOGETHER) {
        const uint32_t end = first + TOGETHER < boxes ? first + TOGETHER : boxes;
        for (uint32_t n = first; n < end; n++) find(x, n);
        for (uint32_t n = first; n < end; n++) send(x, view, to, axis, n, by_lanes);
    }
}

void group_pages_find_all(Lanes *x, const GroupTile *tile)
{
    for (uint32_t n = 0; n < boxes_of(tile); n++) find(x, n);
}

void group_pages_send(Lanes *x, const GroupTile *tile, LanesRows view, const char *to,
                      const char *axis, bool by_lanes)
{
    for (uint32_t n = 0; n < boxes_of(tile); n++) send(x, view, to, axis, n, by_lanes);
}
