/* decode_rows.c - see decode_rows.h. */
#include "decode_rows.h"
#include "key_layout.h"
#include "key_storage.h"

enum {
    VALUES = 4,   /* keys whose values are under way together */
    MOST_KEYS = 4 /* whose scores are: more registers along an axis would be a loop */
};

DecodeBundle decode_bundle(const Lanes *x, int32_t rows)
{
    const int32_t lanes = x->p->caps->lanes, sums = x->p->caps->registers / 2;
    DecodeBundle of = {.rows = rows, .keys = sums / rows, .channels = sums / rows * lanes};
    if (of.keys > MOST_KEYS) of.keys = MOST_KEYS;
    while (x->shape->key_tile % of.keys) of.keys /= 2;
    while (x->p->e % of.channels) of.channels -= lanes;
    return of;
}

int32_t decode_brought(const Lanes *x) { return x->shape->key_tile / 4; }

DecodeNext decode_next(const Lanes *x, uint32_t n)
{
    return n == 1 && x->own_v ? (DecodeNext){2, "n"} : (DecodeNext){1, "(n + 1)"};
}

const char *decode_tile_elem(Lanes *x, uint32_t n)
{
    return lanes_is_stored(x, n) ? "f32" : x->operand;
}

const char *decode_term_elem(Lanes *x, uint32_t term)
{
    return term ? lanes_elem(x, lanes_dot_tensor(x->p, term - 1, true)) : decode_tile_elem(x, 1);
}

/* A vector of keys of a product. */
static const char *keys_of(Lanes *x, const DecodeBundle *of, uint32_t term)
{
    return tile_text(x->t, term ? "further%s_keys%d" : "%skeys%d", lanes_term(x, term).number,
                     of->rows);
}

/* The name of what row [row] of a bundle has. */
static const char *of_row(Lanes *x, const DecodeBundle *of, const char *name, int32_t row)
{
    return tile_text(x->t, "%s%d_%d", name, of->rows, row);
}

void decode_declare(Lanes *x, const DecodeBundle *of)
{
    AuTileBuild *t = x->t;
    const int32_t lanes = x->p->caps->lanes;
    for (uint32_t n = 0; n < lanes_term_count(x); n++)
        tile_frag(t, keys_of(x, of, n), "%s[kv:%d, d:%d] @ a_row_along", decode_term_elem(x, n),
                  of->keys, lanes);
    tile_frag(t, tile_text(t, "value%d", of->rows), "%s[e:%d] @ along_lanes",
              decode_tile_elem(x, 2), of->channels);
    tile_frag(t, tile_text(t, "before%d", of->rows), "f32[e:%d] @ along_lanes", of->channels);
    for (int32_t r = 0; r < of->rows; r++) {
        tile_frag(t, of_row(x, of, "query", r), "f32[d:%d] @ along_lanes", lanes);
        tile_frag(t, of_row(x, of, "total", r), "f32[kv:%d, d:%d] @ a_row_along = 0.0", of->keys,
                  lanes);
        tile_frag(t, of_row(x, of, "sum", r), "f32[e:%d] @ along_lanes = 0.0", of->channels);
    }
}

/* The first rows bring what is copied next: its lines come while there is work to do. Step [step] of so many brings its share of keys (1)
 * or values (2) [from] .. [to] of tile [tile]. */
static void bring(Lanes *x, uint32_t n, const char *tile, const char *first, const char *step,
                  int32_t steps, int32_t from, int32_t to)
{
    AuTileBuild *t = x->t;
    const int32_t each = (to - from + steps - 1) / steps;
    if (to <= from) return;
    tile_if(t, "%s == 0 && %s < %d", first, step, (to - from + each - 1) / each);
    lanes_prefetch(x, n, tile, tile_text(t, "%d + %s * %d", from, step, each), each);
    tile_end(t);
}

/* With each part of the output's channels, or with each step of them. */
static void bring_keys(Lanes *x, const DecodeBundle *of, const char *first, bool in_step)
{
    const int32_t keys = x->shape->key_tile, from = decode_brought(x),
                  parts = x->p->e / of->channels, steps = keys / VALUES;
    if (!x->own_v) return; /* they have come with the scores */
    if (in_step != (keys - from >= parts * steps)) return;
    const char *step =
        in_step ? tile_text(x->t, "(part_of_row * %d + turn)", steps) : "part_of_row";
    bring(x, 1, "(n + 1)", first, step, in_step ? parts * steps : parts, from, keys);
}

/* Scores of a product. */
static void product(Lanes *x, const DecodeBundle *of, const char *first, uint32_t term)
{
    AuTileBuild *t = x->t;
    const int32_t lanes = x->p->caps->lanes;
    const LanesTerm product = lanes_term(x, term);
    const char *keys = keys_of(x, of, term);
    tile_for_range(t, "turn", "0", tile_text(t, "%d", x->shape->key_tile / of->keys));
    const DecodeNext next = decode_next(x, 1);
    if (!term)
        bring(x, next.of, next.tile, first, "turn", x->shape->key_tile / of->keys,
              decode_brought(x), x->shape->key_tile - decode_brought(x));
    for (int32_t r = 0; r < of->rows; r++) {
        const char *total = of_row(x, of, "total", r);
        tile_set(t, total, "fill(%s, 0.0)", total);
    }
    tile_for_range(t, "channel", "0", tile_text(t, "%d", product.width / lanes));
    tile_load(t, keys, "K%s[turn * %d +: %d, channel * %d +: %d]%s", product.number, of->keys,
              of->keys, lanes, lanes, term ? " as [kv, d]" : "");
    for (int32_t r = 0; r < of->rows; r++)
        tile_load(t, of_row(x, of, "query", r), "Q%s[%s + %d, channel * %d +: %d]%s",
                  product.number, first, r, lanes, lanes, term ? " as [d]" : "");
    for (int32_t r = 0; r < of->rows; r++) {
        const char *total = of_row(x, of, "total", r);
        tile_set(t, total, "fma(f32(%s), %s, %s)", keys, of_row(x, of, "query", r), total);
    }
    tile_end(t);
    for (int32_t r = 0; r < of->rows; r++)
        tile_store(t, "reduce_sum(%s, d) -> S%s[%s + %d, turn * %d +: %d]",
                   of_row(x, of, "total", r), product.number, first, r, of->keys, of->keys);
    tile_end(t);
}

void decode_scores(Lanes *x, const DecodeBundle *of, const char *first)
{
    for (uint32_t n = 0; n < lanes_term_count(x); n++) product(x, of, first, n);
}

/* Values of key [key] of a turn: channels of the part of the row. */
static const char *values_of(Lanes *x, const DecodeBundle *of, int32_t key)
{
    AuTileBuild *t = x->t;
    const char *row = tile_text(t, "turn * %d + %d", VALUES, key),
               *columns = tile_text(t, "part_of_row * %d +: %d", of->channels, of->channels);
    if (x->own_v) return tile_text(t, "V[%s, %s]", row, columns);
    return tile_text(t, "K[%s, %d + %s] as [e]", row, x->p->attn->v_first, columns);
}

/* What the tile adds is summed apart, as products do it. */
void decode_sums(Lanes *x, const DecodeBundle *of, const char *first)
{
    AuTileBuild *t = x->t;
    const bool scales = x->p->hooks->has_scale;
    tile_for_range(t, "part_of_row", "0", tile_text(t, "%d", x->p->e / of->channels));
    bring_keys(x, of, first, false);
    const char *columns = tile_text(t, "part_of_row * %d +: %d", of->channels, of->channels);
    for (int32_t r = 0; r < of->rows; r++) {
        const char *sum = of_row(x, of, "sum", r);
        tile_set(t, sum, "fill(%s, 0.0)", sum);
    }
    tile_for_range(t, "turn", "0", tile_text(t, "%d", x->shape->key_tile / VALUES));
    bring_keys(x, of, first, true);
    for (int32_t key = 0; key < VALUES; key++) {
        const char *value = tile_text(t, "value%d", of->rows);
        tile_load(t, value, "%s", values_of(x, of, key));
        for (int32_t r = 0; r < of->rows; r++)
            tile_load(t, of_row(x, of, "weight", r), "S[%s + %d, turn * %d + %d]", first, r, VALUES,
                      key);
        for (int32_t r = 0; r < of->rows; r++) {
            const char *sum = of_row(x, of, "sum", r);
            tile_set(t, sum, "fma(f32(%s), %s, %s)", value, of_row(x, of, "weight", r), sum);
        }
    }
    tile_end(t);
    for (int32_t r = 0; r < of->rows; r++) {
        const char *before = tile_text(t, "before%d", of->rows), *sum = of_row(x, of, "sum", r);
        tile_load(t, before, "ACC[%s + %d, %s]", first, r, columns);
        if (scales) tile_load(t, "factor", "SCALE[%s + %d]", first, r);
        tile_set(t, sum, scales ? "fma(%s, factor, %s)" : "%s + %s", before, sum);
        tile_store(t, "%s -> ACC[%s + %d, %s]", sum, first, r, columns);
    }
    tile_end(t);
}
