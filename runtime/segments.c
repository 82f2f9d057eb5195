/* segments.c - see segments.h. */
#include "segments.h"

#include <string.h>

/* How many bytes follow, the one there too, in the segment that has it; 0: none has. */
static uintptr_t bytes_from(const AuSegments *segments, uintptr_t at, bool runs)
{
    for (uint32_t n = 0; n < segments->count; n++)
        if (at >= segments->of[n].begin && at < segments->of[n].end &&
            (!runs || segments->of[n].runs))
            return segments->of[n].end - at;
    return 0;
}

bool rt_is_loaded(const AuSegments *segments, const void *at, uint64_t bytes)
{
    return !segments || bytes <= bytes_from(segments, (uintptr_t)at, false);
}

bool rt_is_loaded_text(const AuSegments *segments, const char *text)
{
    return !segments || memchr(text, 0, bytes_from(segments, (uintptr_t)text, false));
}

bool rt_is_loaded_code(const AuSegments *segments, uintptr_t at)
{
    if (!segments) return at != 0;
    return segments->no_code ? at == 0 : bytes_from(segments, at, true) > 0;
}
