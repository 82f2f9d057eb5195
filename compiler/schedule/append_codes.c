/* append_codes.c - rows of new keys and values become codes: their scales and zero points, given or made of the row.
 *
 * The scale of a row is that with which its largest number is the largest code; with zero points, that with which its numbers reach
 * from the least code to the largest. A row of zeros, or of numbers that are none for a scale's arithmetic, has 1; one with a number that is
 * infinite or NaN has such a scale, and is NaN as it is read.
 *
 * Scales and zero points of 16 bits are rounded first, and codes are made with what they are then. Those of f16 are as large as zero points
 * that they divide by allow, and of those that are no normal numbers the next larger one, so that the largest number still has a code; a row too
 * large for any is NaN as it is read. */
#include "key_layout.h"
#include "key_storage.h"
#include "lanes_append.h"

static const int32_t largest[] = {1, 448, 57344, 127, 7}; /* ORDER AuStored */

static const AuStorage *storage(const Lanes *x, const LanesAppended *s)
{
    return &x->p->attn->storage[s->n - 1];
}

/* k_scale[b, h, 0, 0]: of a cache by rows it is that of the row, of pages that of the sequence. */
static const char *given_at(Lanes *x, uint32_t tensor)
{
    const bool paged = lanes_keys_are_paged(x), by_rows = x->p->attn->keys.has_rows && !paged;
    const char *b = x->p->by_slots ? paged ? "m" : "page" : by_rows ? "line" : "b";
    const char *given = tile_text(x->t, "%s[%s, h, 0, 0]", lanes_tensor(x, tensor), b);
    return x->p->attn->tensors[tensor].dtype == AU_DT_F32 ? given
                                                          : tile_text(x->t, "f32(%s)", given);
}

static const char *tiny(Lanes *x) { return tile_number(x->t, 0x1p-100); }

static AuDtype dtype_of(const Lanes *x, uint32_t tensor)
{
    return x->p->attn->tensors[tensor].dtype;
}

/* As the tensor holds it. */
static const char *held(Lanes *x, uint32_t tensor, const char *name)
{
    return dtype_of(x, tensor) == AU_DT_F32
               ? name
               : tile_text(x->t, "%s(%s)", lanes_elem(x, tensor), name);
}

static void round_as_held(Lanes *x, uint32_t tensor, const char *name)
{
    if (dtype_of(x, tensor) != AU_DT_F32) tile_set(x->t, name, "f32(%s)", held(x, tensor, name));
}

static void keep(Lanes *x, uint32_t tensor, const char *name, const char *place, const char *group)
{
    tile_store(x->t, "%s -> %s[%s, %s]", held(x, tensor, name), lanes_tensor(x, tensor), place,
               group);
}

/* The scale for numbers that reach over [spread] of so many codes; [apart]: what zero points are a multiple of, NULL: there are none. */
static void make_scale(Lanes *x, uint32_t tensor, const char *name, const char *spread,
                       int32_t codes, const char *apart)
{
    AuTileBuild *t = x->t;
    const AuDtype dtype = dtype_of(x, tensor);
    if (dtype == AU_DT_F32) {
        tile_set(t, name, "where(%s < %s, 1.0, %s / %d.0)", spread, tiny(x), spread, codes);
        return;
    }
    if (apart) /* zero points are 2^15 and some codes at most */
        tile_set(t, name, "%s / %d.0 + abs(%s) * %s", spread, codes, apart,
                 tile_number(t, 0x1p-16));
    else
        tile_set(t, name, "%s / %d.0", spread, codes);
    const char *larger =
        dtype == AU_DT_F16 ? tile_text(t, "(%s + %s)", name, tile_number(t, 0x1p-25)) : name;
    tile_set(t, name, "where(%s < %s, 1.0, %s)", name, tiny(x), larger);
    round_as_held(x, tensor, name);
}

const char *lanes_scale_of_row(Lanes *x, const LanesAppended *s, const char *row, const char *place)
{
    AuTileBuild *t = x->t;
    const uint32_t tensor = storage(x, s)->scale;
    if (!storage(x, s)->by_token) return given_at(x, tensor);
    const char *top = tile_text(t, "top_of_%s", s->cache),
               *scale = tile_text(t, "scale_of_%s", s->cache);
    tile_set(t, top, "reduce_maxnan(abs(f32(%s)), %s)", row, s->axis);
    make_scale(x, tensor, scale, top, largest[storage(x, s)->as], NULL);
    keep(x, tensor, scale, place, "0");
    return scale;
}

/* ---- rows in parts */

bool lanes_appends_parts(const Lanes *x, const LanesAppended *s)
{
    return s->n < 3 && attn_stores_parts(storage(x, s));
}

/* Channels of a scale. */
static int32_t columns_of(const Lanes *x, const LanesAppended *s)
{
    return schedule_scale_width(x->p, s->n, s->width);
}

/* Elements of memory that they are; a fragment has one for each. */
static int32_t elements_of(const Lanes *x, const LanesAppended *s)
{
    return lanes_stored_width(x, s->n, columns_of(x, s));
}

/* With what lanes have beyond the part, where all of them must take part in a sum. */
static int32_t padded(const Lanes *x, const LanesAppended *s)
{
    const int32_t lanes = x->p->caps->lanes, elements = elements_of(x, s);
    return tile_exchange_words(x->p->caps) ? (elements + lanes - 1) / lanes * lanes : elements;
}

static bool is_padded(const Lanes *x, const LanesAppended *s)
{
    return padded(x, s) > elements_of(x, s);
}

static const char *within(Lanes *x, const LanesAppended *s)
{
    return tile_text(x->t, "iota(%s:%d) < %d", s->axis, padded(x, s), elements_of(x, s));
}

void lanes_append_layout(Lanes *x, const LanesAppended *s)
{
    int32_t lanes = x->p->caps->lanes;
    const int32_t elements = padded(x, s);
    while (elements % lanes) lanes /= 2;
    tile_layout(x->t, tile_text(x->t, "part_of_%s", s->cache),
                tile_text(x->t, elements > lanes ? "lane:%d@1 reg" : "lane:%d@1", lanes), NULL);
}

/* "low_k", and of codes of 4 bits "high_k": those of the odd channels. */
static const char *half(Lanes *x, const LanesAppended *s, bool high)
{
    return tile_text(x->t, "%s_%s", high ? "high" : "low", s->cache);
}

void lanes_append_fragments(Lanes *x, const LanesAppended *s)
{
    for (int32_t high = 0; high < 1 + lanes_stores_halves(x, s->n); high++)
        tile_frag(x->t, half(x, s, high), "%s[%s:%d] @ part_of_%s", x->operand, s->axis,
                  padded(x, s), s->cache);
}

/* The largest of all numbers of the part; NaN where one is. */
static void most(Lanes *x, const LanesAppended *s, const char *name, const char *of)
{
    AuTileBuild *t = x->t;
    const char *low = tile_text(t, of, half(x, s, false)), *all = low;
    if (lanes_stores_halves(x, s->n)) {
        const char *high = tile_text(t, of, half(x, s, true));
        all = tile_text(t, "where(%s >= %s, %s, where(%s >= %s, %s, %s + %s))", low, high, low,
                        high, low, high, low, high);
    }
    if (is_padded(x, s)) all = tile_text(t, "where(%s, %s, -inf)", within(x, s), all);
    tile_set(t, name, "reduce_maxnan(%s, %s)", all, s->axis);
}

/* What the part's codes are divided by, and what is added then (NULL: nothing). */
typedef struct Scale {
    const char *scale, *zero;
} Scale;

/* Made of the part and written beside it. */
static Scale made(Lanes *x, const LanesAppended *s, const char *place, const char *group)
{
    AuTileBuild *t = x->t;
    const AuStorage *as = storage(x, s);
    const char *top = tile_text(t, "top_of_%s", s->cache),
               *under = tile_text(t, "under_of_%s", s->cache);
    const int32_t high = largest[as->as], low = as->as >= AU_STORED_I8 ? -high - 1 : -high;
    Scale out = {tile_text(t, "scale_of_%s", s->cache), NULL};
    if (as->has_zero) {
        most(x, s, top, "f32(%s)");
        most(x, s, under, "(0.0 - f32(%s))");
        make_scale(x, as->scale, out.scale, tile_text(t, "(%s + %s)", top, under), high - low,
                   tile_text(t, "(%s - %s)", top, under));
        out.zero = tile_text(t, "zero_of_%s", s->cache);
        tile_set(t, out.zero, "%s / %s + %d.0", under, out.scale, low);
        round_as_held(x, as->zero, out.zero);
        keep(x, as->zero, out.zero, place, group);
    } else {
        most(x, s, top, "abs(f32(%s))");
        make_scale(x, as->scale, out.scale, top, high, NULL);
    }
    keep(x, as->scale, out.scale, place, group);
    return out;
}

static Scale scale_of(Lanes *x, const LanesAppended *s, const char *place, const char *group)
{
    const AuStorage *as = storage(x, s);
    if (as->by_token) return made(x, s, place, group);
    return (Scale){given_at(x, as->scale), as->has_zero ? given_at(x, as->zero) : NULL};
}

static const char *code(Lanes *x, const LanesAppended *s, const Scale *scale, bool high)
{
    const char *number = tile_text(x->t, "f32(%s) / %s", half(x, s, high), scale->scale);
    return scale->zero ? tile_text(x->t, "%s + %s", number, scale->zero) : number;
}

/* Of 4 bits: to the nearest, of two the even one, since a sum so large has whole numbers alone; 0 of what is no number. */
static const char *rounded(Lanes *x, const LanesAppended *s, const Scale *scale, bool high)
{
    const char *name = tile_text(x->t, "%s_code_%s", high ? "high" : "low", s->cache);
    tile_set(x->t, name, "%s", code(x, s, scale, high));
    tile_set(x->t, name, "where(%s == %s, clamp(%s, -8.0, 7.0) + 12582912.0 - 12582912.0, 0.0)",
             name, name, name);
    return name;
}

void lanes_append_parts(Lanes *x, const LanesAppended *s, const char *from, const char *place)
{
    AuTileBuild *t = x->t;
    const int32_t columns = columns_of(x, s), elements = elements_of(x, s);
    const bool halves = lanes_stores_halves(x, s->n), whole = columns == s->width;
    const char *group = whole ? "0" : "part", *at = tile_text(t, "at_%s", s->cache);
    if (!whole) tile_for_range(t, group, "0", tile_text(t, "%d", s->width / columns));
    tile_set(t, at, "%s * %d + iota(%s:%d)", group, elements, s->axis, padded(x, s));
    const char *when = is_padded(x, s) ? tile_text(t, " when %s", within(x, s)) : "";
    for (int32_t high = 0; high < 1 + halves; high++)
        tile_load(t, half(x, s, high), "%s[%s, %s%s]%s%s", s->given, from,
                  halves ? tile_text(t, "%s * 2", at) : at, high ? " + 1" : "",
                  *when ? " pad 0" : "", when);
    const Scale scale = scale_of(x, s, place, group);
    const char *codes = halves ? rounded(x, s, &scale, false) : code(x, s, &scale, false);
    if (halves)
        codes = tile_text(t, "where(%s < 0.0, %s + 16.0, %s) + 16.0 * %s", codes, codes, codes,
                          rounded(x, s, &scale, true));
    tile_store(t, "%s -> %s[%s, %s]%s", codes, s->cache, place, at, when);
    if (!whole) tile_end(t);
}
