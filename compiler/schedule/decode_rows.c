/* decode_rows.c - see decode_rows.h. */
#include "decode_rows.h"

enum { VALUES = 4 }; /* keys whose values are under way together */

DecodeBundle decode_bundle(const Lanes *x, int32_t rows)
{
    const int32_t lanes = x->p->caps->lanes, sums = x->p->caps->registers / 2;
    DecodeBundle of = {.rows = rows, .keys = sums / rows, .channels = sums / rows * lanes};
    while (x->shape->key_tile % of.keys) of.keys /= 2;
    while (x->p->e % of.channels) of.channels -= lanes;
    return of;
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
    tile_frag(t, tile_text(t, "keys%d", of->rows), "f32[kv:%d, d:%d] @ a_row_along", of->keys,
              lanes);
    tile_frag(t, tile_text(t, "values%d", of->rows), "f32[kv:%d, e:%d] @ a_row_along", VALUES,
              of->channels);
    for (int32_t r = 0; r < of->rows; r++) {
        tile_frag(t, of_row(x, of, "query", r), "f32[d:%d] @ along_lanes", lanes);
        tile_frag(t, of_row(x, of, "total", r), "f32[kv:%d, d:%d] like keys%d = 0.0", of->keys, lanes,
                  of->rows);
        tile_frag(t, of_row(x, of, "sum", r), "f32[q:1, e:%d] @ a_row_along", of->channels);
        tile_frag(t, of_row(x, of, "some", r), "f32[kv:%d] like values%d", VALUES, of->rows);
    }
}

void decode_scores(Lanes *x, const DecodeBundle *of, const char *first)
{
    AuTileBuild *t = x->t;
    const int32_t lanes = x->p->caps->lanes, d = x->p->d;
    tile_for_range(t, "turn", "0", tile_text(t, "%d", x->shape->key_tile / of->keys));
    for (int32_t r = 0; r < of->rows; r++) {
        const char *total = of_row(x, of, "total", r);
        tile_set(t, total, "fill(%s, 0.0)", total);
    }
    tile_for_range(t, "channel", "0", tile_text(t, "%d", d / lanes));
    tile_load(t, tile_text(t, "keys%d", of->rows), "K[turn * %d +: %d, channel * %d +: %d]",
              of->keys, of->keys, lanes, lanes);
    for (int32_t r = 0; r < of->rows; r++)
        tile_load(t, of_row(x, of, "query", r), "Q[%s + %d, channel * %d +: %d]", first, r, lanes,
                  lanes);
    for (int32_t r = 0; r < of->rows; r++) {
        const char *total = of_row(x, of, "total", r);
        tile_set(t, total, "%s + keys%d * %s", total, of->rows, of_row(x, of, "query", r));
    }
    tile_end(t);
    for (int32_t r = 0; r < of->rows; r++)
        tile_store(t, "reduce_sum(%s, d) -> S[%s + %d, turn * %d +: %d]", of_row(x, of, "total", r),
                   first, r, of->keys, of->keys);
    tile_end(t);
}

void decode_sums(Lanes *x, const DecodeBundle *of, const char *first)
{
    AuTileBuild *t = x->t;
    tile_for_range(t, "part_of_row", "0", tile_text(t, "%d", x->p->e / of->channels));
    const char *columns = tile_text(t, "part_of_row * %d +: %d", of->channels, of->channels);
    for (int32_t r = 0; r < of->rows; r++)
        tile_load(t, of_row(x, of, "sum", r), "ACC[%s + %d +: 1, %s]", first, r, columns);
    for (int32_t r = 0; r < of->rows && x->p->hooks->has_scale; r++) {
        const char *sum = of_row(x, of, "sum", r);
        tile_load(t, "factor", "SCALE[%s + %d +: 1] like row_like", first, r);
        tile_set(t, sum, "%s * factor", sum);
    }
    tile_for_range(t, "turn", "0", tile_text(t, "%d", x->shape->key_tile / VALUES));
    tile_load(t, tile_text(t, "values%d", of->rows), "V[turn * %d +: %d, %s]", VALUES, VALUES,
              columns);
    for (int32_t r = 0; r < of->rows; r++)
        tile_load(t, of_row(x, of, "some", r), "S[%s + %d, turn * %d +: %d]", first, r, VALUES,
                  VALUES);
    for (int32_t r = 0; r < of->rows; r++) {
        const char *sum = of_row(x, of, "sum", r);
        tile_set(t, sum, "%s + reduce_sum(values%d * %s, kv)", sum, of->rows,
                 of_row(x, of, "some", r));
    }
    tile_end(t);
    for (int32_t r = 0; r < of->rows; r++)
        tile_store(t, "%s -> ACC[%s + %d +: 1, %s]", of_row(x, of, "sum", r), first, r, columns);
    tile_end(t);
}
