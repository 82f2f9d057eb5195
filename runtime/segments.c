/* segments.c - see segments.h. Segments are those of the loader's own list, which has the program headers of all that it loaded. */
#include "segments.h"

#include <link.h>
#include <string.h>

typedef struct Search {
    uintptr_t address;
    AuSegments *segments;
} Search;

static int look(struct dl_phdr_info *info, size_t bytes, void *user)
{
    const Search *s = user;
    AuSegments found = {.count = 0};
    bool has = false;
    (void)bytes;
    for (uint32_t n = 0; n < info->dlpi_phnum; n++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[n];
        const uintptr_t begin = info->dlpi_addr + p->p_vaddr, end = begin + p->p_memsz;
        if (p->p_type != PT_LOAD || !(p->p_flags & PF_R) || end < begin) continue;
        has |= s->address >= begin && s->address < end;
        if (found.count == AU_SEGMENTS_MOST) continue;
        found.of[found.count].begin = begin;
        found.of[found.count].end = end;
        found.of[found.count++].runs = (p->p_flags & PF_X) != 0;
    }
    if (has) *s->segments = found;
    return has;
}

void rt_find_segments(const void *address, AuSegments *segments)
{
    Search search = {(uintptr_t)address, segments};
    *segments = (AuSegments){.count = 0};
    dl_iterate_phdr(look, &search);
}

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
    return !segments || bytes_from(segments, at, true) > 0;
}
