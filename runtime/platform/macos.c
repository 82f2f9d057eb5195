/* macos.c - see platform.h: macOS. Compiled and linked by tests (tests/macos), never run on a Mac. */
#include "platform.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/sysctl.h>
#include <unistd.h>

uint32_t rt_usable_cores(void) /* threads are not bound to processors here */
{
    const long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count > 0 ? (uint32_t)count : 1;
}

void rt_name_thread(const char *name) { pthread_setname_np(name); }

struct timespec rt_change_time(const struct stat *facts) { return facts->st_mtimespec; }

/* The loader takes Mach-O alone: artifacts are read (elf_image.h). */
bool rt_loads_elf(unsigned machine)
{
    (void)machine;
    return false;
}

void *rt_load_elf(const char *path, int file)
{
    (void)path;
    (void)file;
    return NULL;
}

void rt_find_segments(const void *address, AuSegments *segments)
{
    (void)address;
    *segments = (AuSegments){.count = 0};
}

/* ---- processors */

bool rt_arm_has(unsigned word, unsigned bit, const char *apple)
{
    int has = 0;
    size_t bytes = sizeof has;
    (void)word;
    (void)bit;
    return sysctlbyname(apple, &has, &bytes, NULL, 0) == 0 && has;
}

void rt_arm_name(char *name, size_t bytes)
{
    if (sysctlbyname("machdep.cpu.brand_string", name, &bytes, NULL, 0) != 0)
        snprintf(name, bytes, "Apple");
}

bool rt_may_use_tiles(void) { return false; }
