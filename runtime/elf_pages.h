/* elf_pages.h - a file as AuElfFile reads it, a few pages of it in memory at a time. It is not mapped: a file that somebody cuts short while it is
 * looked at would end the process, by SIGBUS; so the reader says that bytes are missing. */
#ifndef AU_RUNTIME_ELF_PAGES_H
#define AU_RUNTIME_ELF_PAGES_H

#include "elf_file.h"

typedef struct AuElfPages AuElfPages;

/* Of an open file, which stays the caller's. NULL: no memory. rt_free ends it. */
AuElfPages *rt_elf_pages(AuHeap memory, int descriptor);
/* AuElfFile.read of them. */
bool rt_elf_read_pages(void *pages, uint64_t offset, void *to, size_t bytes);

#endif
