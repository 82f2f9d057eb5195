/* linux.c - see platform.h: Linux. */
#include "platform.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

uint32_t rt_usable_cores(void)
{
    cpu_set_t set;
    int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set)
                                                            : (int)sysconf(_SC_NPROCESSORS_ONLN);
    return count > 0 ? (uint32_t)count : 1;
}

void rt_name_thread(const char *name) { pthread_setname_np(pthread_self(), name); }

struct timespec rt_change_time(const struct stat *facts) { return facts->st_mtim; }

/* ---- artifacts by the loader */

bool rt_loads_elf(unsigned machine)
{
#if defined(__x86_64__)
    return machine == EM_X86_64;
#elif defined(__aarch64__)
    return machine == EM_AARCH64;
#else
    return machine == EM_NONE;
#endif
}

/* The loader knows libraries by name: by its path it would return what it loaded before, if the file was replaced meanwhile. The name
 * of an open descriptor stands for the very file that was checked; but the loader also remembers every name under which it was asked
 * for a file that it has already, for as long as it has it, and descriptors are numbered again. So the time is spelled into the name, in
 * dots and slashes, which change nothing in a path. */
void *rt_load_elf(const char *path, int file)
{
    char name[192] = "/proc/self/fd";
    size_t length = strlen(name);
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t stamp = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    for (; stamp; stamp >>= 1, length += 2) memcpy(name + length, stamp & 1 ? "/." : "//", 2);
    snprintf(name + length, sizeof name - length, "/%d", file);
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library || access(name, R_OK) == 0) return library;
    return dlopen(path, RTLD_NOW | RTLD_LOCAL); /* no /proc here */
}

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

/* Of the loader's own list, which has the program headers of all that it loaded. */
void rt_find_segments(const void *address, AuSegments *segments)
{
    Search search = {(uintptr_t)address, segments};
    *segments = (AuSegments){.count = 0};
    dl_iterate_phdr(look, &search);
}

/* ---- processors */

bool rt_arm_has(unsigned word, unsigned bit, const char *apple)
{
    (void)apple;
    return getauxval(word ? AT_HWCAP2 : AT_HWCAP) >> bit & 1;
}

void rt_arm_name(char *name, size_t bytes) { snprintf(name, bytes, "AArch64"); }

/* Documentation/arch/x86/xstate.rst: large states are for processes that have asked, once, for all their threads. */
bool rt_may_use_tiles(void)
{
#ifdef SYS_arch_prctl
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
    return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
#else
    return false;
#endif
}
