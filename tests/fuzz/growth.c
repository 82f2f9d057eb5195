/* growth.c - see growth.h. */
#include "growth.h"

#include <stdio.h>
#include <string.h>

const GrowthPlace growth_places[] = {
#define PLACE(name, kinds, file, start, items) {name, kinds, file, start, items},
#include "growth.def"
};
const size_t growth_place_count = sizeof growth_places / sizeof *growth_places;

const GrowthStep growth_steps[] = {
#define STEP(name, kinds, text) {name, kinds, text},
#include "growth.def"
};
const size_t growth_step_count = sizeof growth_steps / sizeof *growth_steps;

bool growth_fits(const GrowthPlace *place, const GrowthStep *step)
{
    return strpbrk(place->kinds, step->kinds) != NULL;
}

typedef struct Writer {
    const GrowthPlace *place;
    const GrowthStep *const *steps;
    size_t count; /* of steps */
    char *at;
    size_t used, size;
} Writer;

static void put(Writer *w, const char *text, size_t length)
{
    for (size_t n = 0; n < length; n++, w->used++)
        if (w->used < w->size) w->at[w->used] = text[n];
}

static void put_number(Writer *w, const char *before, size_t number)
{
    char text[32];
    put(w, text, (size_t)snprintf(text, sizeof text, "%s%zu", before, number));
}

static void put_steps(Writer *w);

/* [level]: how many values there are beside the first. */
static void put_text(Writer *w, const char *text, size_t level)
{
    for (const char *c = text; *c; c++) {
        if (*c != '$') {
            put(w, c, 1);
            continue;
        }
        switch (*++c) {
        case '0': put_number(w, "x", level); break;
        case '1': put_number(w, "x", level + 1); break;
        case '2': put_number(w, "x", level ? level - 1 : 0); break;
        case 'L': put_number(w, "", level); break;
        case 'S': put_steps(w); break;
        }
    }
}

/* The first value is 0 where the steps stand, the last one wherever else. */
static void put_steps(Writer *w)
{
    put_text(w, w->place->start, 0);
    for (size_t n = 0; n < w->count; n++) {
        put(w, " ", 1);
        put_text(w, w->steps[n]->text, n);
    }
}

static size_t write_all(Writer *w)
{
    w->used = 0;
    put_text(w, w->place->file, w->count);
    put_text(
        w,
        "\nattention grown {\n    q: [B, H, S, D]; k: [B, H, T, D]; v: [B, H, T, E];\n"
        "    input slope: f32[H] grad; input row: f32[S] grad; input column: f32[T] grad;\n"
        "    input bias: f32[N] grad; input single: f32[]; input document: i32[S]; input keep: "
        "bool[S];\n    ",
        0);
    put_text(w, w->place->items, w->count);
    put_text(w, strstr(w->place->items, "online ") ? "\n}\n" : "\n    online softmax;\n}\n", 0);
    return w->used;
}

size_t growth_script(const GrowthPlace *place, const GrowthStep *const *steps, size_t count,
                     char *text, size_t size)
{
    Writer w = {.place = place, .steps = steps, .count = count, .at = text, .size = size};
    while (write_all(&w) >= size && w.count) w.count--;
    text[w.used < size ? w.used : size - 1] = 0;
    return w.count;
}
