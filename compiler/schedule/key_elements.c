/* key_elements.c - tiles of keys and values whose codes become elements before products take them: their channels have scales of their own,
 * or zero points, or two of them lie in a byte.
 *
 * Copies bring codes to a tile of their own, and each executor makes elements of the rows that it has brought, so that it waits for
 * nobody. Rows that no pair of the block has become 0: their codes may be anything, and so may be what is called their scales. */
#include "key_layout.h"
#include "key_storage.h"

#include <string.h>

enum { TOGETHER = 4 }; /* rows whose codes are under way together */

static bool has_parts(const AuProblem *p, uint32_t n)
{
    return attn_stores_parts(&p->attn->storage[n - 1]);
}

bool lanes_makes_elements(const AuProblem *p)
{
    return (has_parts(p, 1) || has_parts(p, 2)) && p->d % p->caps->lanes == 0 &&
           p->e % p->caps->lanes == 0;
}

int32_t schedule_code_bytes(const AuProblem *p)
{
    return (has_parts(p, 1) ? p->d : 0) + (has_parts(p, 2) && !p->attn->v_in_k ? p->e : 0);
}

bool lanes_has_codes(Lanes *x, uint32_t n)
{
    return has_parts(x->p, n) && x->makes_elements && !lanes_changed_type(x, n);
}

static int32_t width_of(const Lanes *x, uint32_t n) { return n == 1 ? x->p->d : x->p->e; }

static const char *axis_of(uint32_t n) { return n == 1 ? "d" : "e"; }

static const char *token_of(Lanes *x, uint32_t n)
{
    return tile_text(x->t, "token_of_%s", axis_of(n));
}

const char *lanes_codes_of(uint32_t n) { return n == 1 ? "K_codes" : "V_codes"; }

void lanes_code_memory(Lanes *x, uint32_t n)
{
    lanes_memory(x, TILE_NAME(lanes_codes_of(n)),
                 tile_text(x->t, "%s[kv:%d, %s:%d]", lanes_stored_elem(x, n), x->shape->key_tile,
                           axis_of(n), lanes_stored_width(x, n, width_of(x, n))));
}

int32_t schedule_scale_width(const AuProblem *p, uint32_t n, int32_t width)
{
    const AuStorage *s = &p->attn->storage[n - 1];
    return s->channels ? s->channels : width;
}

/* Of the keys' channels, the first one of the tile's. */
static int32_t first_of(const Lanes *x, uint32_t n)
{
    return n == 2 && x->p->attn->v_in_k ? x->p->attn->v_first : 0;
}

/* Do tiles consist of whole groups? */
static bool has_groups(const Lanes *x, uint32_t n, int32_t width)
{
    const int32_t group = schedule_scale_width(x->p, n, width);
    return first_of(x, n) % group == 0 && width % group == 0;
}

/* The channels of a group at a time, where they are whole vectors; else all. */
static int32_t columns_of(const Lanes *x, uint32_t n)
{
    const int32_t width = width_of(x, n), group = schedule_scale_width(x->p, n, width);
    return has_groups(x, n, width) && group % x->p->caps->lanes == 0 ? group : width;
}

/* The group of the channels that are at hand; NULL: they are of several. */
static const char *group_of(Lanes *x, uint32_t n, const LanesElements *e)
{
    const int32_t group = schedule_scale_width(x->p, n, e->width);
    if (!x->p->attn->storage[n - 1].channels) return "0";
    if (!has_groups(x, n, e->width) || e->columns != group) return NULL;
    const char *first = tile_text(x->t, "%d", first_of(x, n) / group);
    if (e->columns == e->width) return first;
    return *first == '0' ? "group_of_row" : tile_text(x->t, "group_of_row + %s", first);
}

/* What a row has once, as a fragment beside its codes. */
static const char *of_rows(Lanes *x, const char *name, const char *codes, const char *token,
                           int32_t rows, const char *value)
{
    tile_frag(x->t, name, "f32[kv:%d] like %s", rows, codes);
    tile_set(x->t, name, "where(%s, %s, 0.0)", lanes_key_inside(x, token), value);
    return name;
}

/* The elements of what was read; of rows that no pair has, 0. */
static const char *elements(Lanes *x, uint32_t n, const LanesElements *e, const char *codes,
                            LanesPlace at)
{
    AuTileBuild *t = x->t;
    const char *number = e->by_halves ? codes : lanes_number_of(x, n, codes, at.channel);
    if (!at.group) /* one a channel */
        return tile_text(t, "where(%s, %s, 0.0)", lanes_key_inside(x, at.rows),
                         lanes_element_of(x, n, number, at));
    const char *zero = lanes_zero_at(x, n, at), *axis = axis_of(n),
               *scale = of_rows(x, tile_text(t, "scale_of_%s", axis), codes, at.rows, e->rows,
                                lanes_scale_at(x, n, at));
    if (!zero) return tile_text(t, "%s * %s", number, scale);
    return tile_text(t, "(%s - %s) * %s", number,
                     of_rows(x, tile_text(t, "zero_of_%s", axis), codes, at.rows, e->rows, zero),
                     scale);
}

/* Of those rows. */
static void make_some(Lanes *x, uint32_t n, const LanesElements *e, const char *rows)
{
    AuTileBuild *t = x->t;
    const AuStorage *s = &x->p->attn->storage[n - 1];
    const int32_t columns = e->columns;
    const char *axis = axis_of(n), *codes = tile_text(t, "codes_of_%s", axis),
               *channel = tile_text(t, "channel_of_%s", axis);
    const bool whole = columns == e->width, halves = attn_stores_halves(s);
    const char *span = whole ? ":" : tile_text(t, "group_of_row * %d +: %d", columns, columns);
    const LanesPlace at = {
        .head = n == 1 ? "hk" : lanes_value_head(x),
        .rows = token_of(x, n),
        .channel = channel,
        .group = group_of(x, n, e),
    };
    if ((halves && !e->by_halves) || !at.group)
        tile_set(t, channel, "%siota(%s:%d)",
                 whole ? "" : tile_text(t, "group_of_row * %d + ", columns), axis, columns);
    if (e->by_halves)
        tile_load(t, codes, "%s[%s, %s] @ %s halves", lanes_codes_of(n), rows,
                  whole ? ":" : tile_text(t, "group_of_row * %d +: %d", columns / 2, columns / 2),
                  e->layout);
    else
        tile_load(t, codes, "%s[%s, %s] @ %s", lanes_codes_of(n), rows,
                  halves ? tile_text(t, "%s / 2", channel) : span, e->layout);
    tile_set(t, codes, "%s", elements(x, n, e, codes, at));
    const char *value = tile_text(t, "%s(%s)", x->operand, codes);
    if (strcmp(x->held, x->operand) != 0) value = tile_text(t, "%s(%s)", x->held, value);
    tile_store(t, "%s -> %s[%s, %s]%s", value, e->to, rows, span, e->after);
}

void lanes_make_elements(Lanes *x, uint32_t n, LanesElements e)
{
    AuTileBuild *t = x->t;
    const int32_t share = x->shape->key_tile / x->shape->executors;
    while (share % e.rows) e.rows /= 2;
    const char *own = x->shape->executors > 1 ? tile_text(t, "self * %d + ", share) : "";
    tile_for_range(t, "some_rows", "0", tile_text(t, "%d", share / e.rows));
    const char *first = tile_text(t, "%ssome_rows * %d", own, e.rows);
    tile_set(t, token_of(x, n), "n * %d + %s + iota(kv:%d)", x->shape->key_tile, first, e.rows);
    if (e.columns < e.width)
        tile_for_range(t, "group_of_row", "0", tile_text(t, "%d", e.width / e.columns));
    make_some(x, n, &e, tile_text(t, "%s +: %d", first, e.rows));
    if (e.columns < e.width) tile_end(t);
    tile_end(t);
}

void lanes_copy_codes(Lanes *x, uint32_t n)
{
    lanes_copy_tile(x, LANES_KEYS, lanes_operand_rows(x, n, ":"), TILE_NAME(lanes_codes_of(n)));
}

void lanes_make_rows(Lanes *x, uint32_t n, const char *to)
{
    lanes_make_elements(x, n,
                        (LanesElements){.to = to,
                                        .after = "",
                                        .layout = "a_row_along",
                                        .width = width_of(x, n),
                                        .rows = TOGETHER,
                                        .columns = columns_of(x, n)});
}
