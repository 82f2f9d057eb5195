/* lanes_lists.c - block lists: for masks that depend on data, which tiles of keys each block of
 * query rows visits. `classes` tests every pair of the tiles that the mask's range leaves, a tile a
 * lane; `compact` writes the lists, a block of rows a lane. Cost: one mask a pair and head (or one
 * for all heads, if the mask does not ask for the head), against 2 (D + E) multiply-adds. */
#include "lanes.h"

bool lanes_list_by_head(const Lanes *x)
{
    return (attn_at(x->p->attn, x->p->attn->mask)->axes & AU_AX_H) != 0;
}

static const char *heads(Lanes *x) { return lanes_list_by_head(x) ? lanes_axis(x, 0, 1) : "1"; }
static const char *row_blocks(Lanes *x)
{
    return tile_text(x->t, "cdiv(%s, %d)", lanes_axis(x, 0, 2), x->block);
}
static const char *key_tiles(Lanes *x)
{
    return tile_text(x->t, "cdiv(%s, %d)", lanes_axis(x, 1, 2), x->shape->key_tile);
}

const char *lanes_list_type(Lanes *x, bool counts)
{
    const char *rest = counts ? "" : tile_text(x->t, ", n:%s", key_tiles(x));
    return tile_text(x->t, "i32[b:%s, h:%s, m:%s%s]", lanes_axis(x, 0, 0), heads(x), row_blocks(x),
                     rest);
}

static void begin(Lanes *x, const char *name, const char *first, bool key_bounds)
{
    AuTileBuild *t = x->t;
    tile_grid(t, "%s, hb: %s * %s", first, heads(x), lanes_axis(x, 0, 0));
    tile_let(t, "h", "hb %% %s", heads(x));
    tile_let(t, "b", "hb / %s", heads(x));
    if (key_bounds) lanes_key_bounds(x);
    tile_role(t, name, 0, lanes_executor(x), 0);
}

static void classes(Lanes *x)
{
    AuTileBuild *t = x->t;
    const int32_t lanes = x->p->caps->lanes, n = x->shape->key_tile;
    const char *s = lanes_axis(x, 0, 2), *last = lanes_axis(x, 1, 2);
    tile_kernel(t, "classes");
    lanes_arguments(x);
    tile_arg(t, "tile_class", TILE_OUT, "%s", lanes_list_type(x, false));
    begin(x, "core", tile_text(t, "nb: cdiv(%s, %d), mb: %s", key_tiles(x), lanes, row_blocks(x)),
          true);
    tile_frag(t, "some", "f32[n:%d] @ along_lanes = 0.0", lanes);
    tile_frag(t, "every", "f32[n:%d] @ along_lanes = 1.0", lanes);
    tile_set(t, "tile", "nb * %d + iota(n:%d)", lanes, lanes);
    tile_if(t, "nb * %d < n_high && nb * %d + %d > n_low", lanes, lanes, lanes);
    tile_for_range(t, "row", tile_text(t, "mb * %d", x->block),
                   tile_text(t, "min(mb * %d + %d, %s)", x->block, x->block, s));
    tile_for_range(t, "key", "0", tile_text(t, "%d", n));
    tile_set(t, "j", "tile * %d + key", n);
    tile_set(t, "taken", "where(j < %s && mask(b, h, row, j), 1.0, 0.0)", last);
    tile_set(t, "some", "max(some, taken)");
    tile_set(t, "every", "min(every, taken)");
    tile_end(t);
    tile_end(t);
    tile_end(t);
    tile_store(t,
               "where(some > 0.0, where(every > 0.0, 2, 1), 0) -> tile_class[b, h, mb, nb * %d +: "
               "%d] clip",
               lanes, lanes);
    tile_end(t);
    tile_end(t);
    lanes_region(x, "tile_class");
}

static void compact(Lanes *x)
{
    static const char *const names[] = {"partial", "full"};
    AuTileBuild *t = x->t;
    const int32_t lanes = x->p->caps->lanes;
    tile_kernel(t, "compact");
    lanes_arguments(x);
    tile_arg(t, "tile_class", TILE_IN, "%s", lanes_list_type(x, false));
    for (uint32_t n = 0; n < 2; n++) {
        tile_arg(t, tile_text(t, "%s_count", names[n]), TILE_OUT, "%s", lanes_list_type(x, true));
        tile_arg(t, tile_text(t, "%s_index", names[n]), TILE_INOUT, "%s",
                 lanes_list_type(x, false));
        lanes_region(x, tile_text(t, "%s_count", names[n]));
        lanes_region(x, tile_text(t, "%s_index", names[n]));
    }
    begin(x, "core", tile_text(t, "mbb: cdiv(%s, %d)", row_blocks(x), lanes), false);
    tile_set(t, "m", "mbb * %d + iota(m:%d)", lanes, lanes);
    for (uint32_t n = 0; n < 2; n++) tile_frag(t, names[n], "i32[m:%d] @ along_lanes = 0", lanes);
    tile_frag(t, "kind", "i32[m:%d] @ along_lanes", lanes);
    tile_for_range(t, "tile", "0", key_tiles(x));
    tile_load(t, "kind", "tile_class[b, h, m, tile] pad 0 when m < %s", row_blocks(x));
    for (uint32_t n = 0; n < 2; n++) {
        tile_store(t, "tile + 0 * kind -> %s_index[b, h, m, %s] when kind == %u && m < %s",
                   names[n], names[n], n + 1, row_blocks(x));
        tile_set(t, names[n], "%s + where(kind == %u, 1, 0)", names[n], n + 1);
    }
    tile_end(t);
    for (uint32_t n = 0; n < 2; n++)
        tile_store(t, "%s -> %s_count[b, h, mbb * %d +: %d] clip", names[n], names[n], lanes,
                   lanes);
    tile_end(t);
    tile_end(t);
}

void lanes_list_kernels(Lanes *x)
{
    classes(x);
    compact(x);
}
