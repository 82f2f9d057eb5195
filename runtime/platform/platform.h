/* platform.h - what systems do each in a way of its own: one file a system, linux.c or macos.c (meson.build). */
#ifndef AU_RUNTIME_PLATFORM_H
#define AU_RUNTIME_PLATFORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <time.h>

#include "../segments.h"

/* Processors that the process may use. */
uint32_t rt_usable_cores(void);
/* What tools for threads call this one; at most 15 characters. */
void rt_name_thread(const char *name);

/* When a file was last changed. */
struct timespec rt_change_time(const struct stat *facts);

/* Does the system's loader take artifacts for that machine (EM_ of ELF)? Then: loads the very file that [file] is open on, [path] where it lies;
 * NULL: dlerror says why not. And the segments of the library that has an address; none if no library has. */
bool rt_loads_elf(unsigned machine);
void *rt_load_elf(const char *path, int file);
void rt_find_segments(const void *address, AuSegments *segments);

/* Has an AArch64 processor a feature? Linux counts it as bit [bit] of word [word], Apple calls it [apple]. */
bool rt_arm_has(unsigned word, unsigned bit, const char *apple);
/* What a processor is called that does not say so itself. */
void rt_arm_name(char *name, size_t bytes);
/* May an x86-64 processor's tiles be used? They are for processes that have asked. */
bool rt_may_use_tiles(void);

#endif
