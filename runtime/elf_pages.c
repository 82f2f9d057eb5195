#include "elf_pages.h"

#include <errno.h>
#include <unistd.h>

/* Tables are read in turns: a relocation, its symbol, the next. */
enum { PAGE = 4096, KEPT = 16 };

typedef struct Page {
    uint64_t number;
    size_t held; /* bytes that the file has of it; 0: nothing was read yet */
    unsigned char bytes[PAGE];
} Page;

struct AuElfPages {
    int descriptor;
    Page kept[KEPT]; /* by the last digits of their numbers */
};

AuElfPages *rt_elf_pages(AuHeap memory, int descriptor)
{
    AuElfPages *pages = rt_alloc(memory, sizeof *pages);
    if (pages) pages->descriptor = descriptor;
    return pages;
}

/* How many of the bytes are there. */
static size_t read_at(int descriptor, uint64_t offset, void *to, size_t bytes)
{
    size_t done = 0;
    while (done < bytes) {
        const ssize_t got =
            pread(descriptor, (char *)to + done, bytes - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        done += (size_t)got;
    }
    return done;
}

static const Page *page_of(AuElfPages *pages, uint64_t number)
{
    Page *page = &pages->kept[number % KEPT];
    if (page->held && page->number == number) return page;
    page->number = number;
    page->held = read_at(pages->descriptor, number * PAGE, page->bytes, PAGE);
    return page;
}

bool rt_elf_read_pages(void *user, uint64_t offset, void *to, size_t bytes)
{
    AuElfPages *pages = user;
    if (bytes > PAGE) return read_at(pages->descriptor, offset, to, bytes) == bytes;
    while (bytes > 0) {
        const Page *page = page_of(pages, offset / PAGE);
        const size_t begin = offset % PAGE, part = bytes < PAGE - begin ? bytes : PAGE - begin;
        if (begin + part > page->held) return false;
        memcpy(to, page->bytes + begin, part);
        to = (char *)to + part;
        offset += part;
        bytes -= part;
    }
    return true;
}
