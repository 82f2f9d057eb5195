/* fit.c - for who asked for a shape that does not do: the nearest value of each of its keys with which it does, found by building
 * kernels with it. Kernels of a refused shape are seldom built to the end, so that this takes little time. */
#include "driver.h"
#include "shapes.h"

#include <string.h>

typedef struct Fit {
    AuArena *arena;
    AuDiags *diags;
    const AuVariant *v;
    const AuShapeRow *row;
    const char *source_name;
} Fit;

/* Do kernels come with the other row instead? NULL: with none, as by rule. *made: what did. */
static bool does(const Fit *f, const AuShapeRow *other, AuVariant *made)
{
    const AuDiags before = *f->diags;
    *made = *f->v;
    made->shapes = shapes_without(f->arena, f->v->shapes, f->row, other);
    const bool good = variant_try(f->arena, f->diags, made, f->source_name);
    au_diags_back(f->diags, &before);
    return good && made->schedule; /* which may be none at all with boxes */
}

static bool does_with(const Fit *f, uint32_t key, int32_t value)
{
    AuVariant made;
    AuShapeRow other = *f->row;
    other.values[key] = value;
    return does(f, &other, &made);
}

/* The values that are tried are powers of two and three times such: the nearest below, else above; -1: none of them does. */
static int32_t nearest(const Fit *f, uint32_t key)
{
    int32_t least, most, round[64];
    uint32_t count = 0;
    const int32_t now = f->row->values[key];
    shape_key(key, &least, &most);
    for (int32_t n = 0; n <= 1; n++)
        if (n >= least && n <= most) round[count++] = n;
    for (int32_t power = 2; power <= most; power *= 2) {
        round[count++] = power;
        if (power * 3 / 2 <= most) round[count++] = power * 3 / 2;
    }
    for (uint32_t n = count; n-- > 0;)
        if (round[n] < now && does_with(f, key, round[n])) return round[n];
    for (uint32_t n = 0; n < count; n++)
        if (round[n] > now && does_with(f, key, round[n])) return round[n];
    return -1;
}

const char *fit_instead(AuArena *arena, AuDiags *diags, const AuVariant *v, const AuShapeRow *row,
                        const char *source_name)
{
    const Fit f = {arena, diags, v, row, source_name};
    AuText text = {.arena = arena};
    AuVariant made;
    int32_t least, most;
    for (uint32_t key = 0; key < SHAPE_KEYS; key++) {
        const int32_t value = row->values[key] < 0 ? -1 : nearest(&f, key);
        if (value >= 0)
            au_text_add(&text, "%s%s=%d", text.length ? " or " : "", shape_key(key, &least, &most),
                        value);
    }
    if (text.length) return au_format(arena, "with %s it does", au_text_str(&text));
    if (!does(&f, NULL, &made)) return NULL;
    return au_format(arena, "the compiler's own is %s", made.schedule->name);
}
