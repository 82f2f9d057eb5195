/* lanes_append.h - rows of new keys and values that become codes on their way into a cache (lanes_append.c). */
#ifndef AU_SCHEDULE_LANES_APPEND_H
#define AU_SCHEDULE_LANES_APPEND_H

#include "lanes.h"

typedef struct LanesAppended {
    uint32_t n;                       /* k (1), v (2), or an input that has rows of keys */
    const char *cache, *given, *axis; /* "k", "k_new", "d" */
    int32_t width;
} LanesAppended;

/* The scale of the row [row], a fragment, which goes to k[place, :]: given, or made of the row and written beside it. */
const char *lanes_scale_of_row(Lanes *x, const LanesAppended *s, const char *row,
                               const char *place);

/* ---- codes that have scales along channels, zero points, or half a byte each: a row goes in parts, the channels of one scale */
bool lanes_appends_parts(const Lanes *x, const LanesAppended *s);
void lanes_append_layout(Lanes *x, const LanesAppended *s);
void lanes_append_fragments(Lanes *x, const LanesAppended *s);
/* k_new[from, :] as codes to k[place, :]. */
void lanes_append_parts(Lanes *x, const LanesAppended *s, const char *from, const char *place);

#endif
