#include "cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- sums: FNV-1a, and a second one that turns and multiplies by another odd number */

AuSum rt_sum(const void *bytes, size_t count)
{
    const unsigned char *at = bytes;
    AuSum sum = {0xcbf29ce484222325u, 0x9e3779b97f4a7c15u};
    for (size_t i = 0; i < count; i++) {
        sum.low = (sum.low ^ at[i]) * 0x100000001b3u;
        sum.high = ((sum.high << 23 | sum.high >> 41) ^ at[i]) * 0xd6e8feb86659fd93u;
    }
    return sum;
}

void rt_cache_name(AuText *name, AuCacheKind kind, const void *bytes, size_t count, const char *how)
{
    AuSum content = rt_sum(bytes, count), way = rt_sum(how, strlen(how));
    rt_text_add(name, "%s%016llx%016llx%016llx", rt_cache_prefix(kind),
                (unsigned long long)content.high, (unsigned long long)content.low,
                (unsigned long long)(way.high ^ way.low));
}

/* ---- the folder */

static int fail_folder(AuSink sink, const AuText *path, const char *why)
{
    rt_fail(sink, AULE_ERROR_FILE, "%s: %s", rt_text_str(path), why);
    return -1;
}

/* Opened and checked: ours, and written by nobody else. */
static int open_private(const AuText *path, AuSink sink)
{
    struct stat facts;
    const char *at = rt_text_str(path);
    if (mkdir(at, 0700) != 0 && errno != EEXIST) return fail_folder(sink, path, strerror(errno));
    int folder = open(at, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0) return fail_folder(sink, path, strerror(errno));
    if (fstat(folder, &facts) == 0 && facts.st_uid == geteuid() && !(facts.st_mode & 022))
        return folder;
    close(folder);
    return fail_folder(sink, path, "not a folder that this user alone can write");
}

int rt_cache_open(AuText *path, AuSink sink)
{
    const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    bool given = base && base[0] == '/';
    if (!given && (!home || home[0] != '/')) {
        rt_fail(sink, AULE_ERROR_FILE, "neither XDG_CACHE_HOME nor HOME names a folder");
        return -1;
    }
    rt_text_add(path, "%s%s", given ? base : home, given ? "" : "/.cache");
    if (!path->failed && mkdir(rt_text_str(path), 0700) != 0 && errno != EEXIST)
        return fail_folder(sink, path, strerror(errno));
    rt_text_add(path, "/aule");
    if (!path->failed) return open_private(path, sink);
    rt_fail_memory(sink);
    return -1;
}

/* -1: there is none, or nothing is to be kept. */
static int open_kept(AuHeap memory, AuText *path)
{
    AuSink quiet = {.memory = memory};
    uint64_t most;
    bool kept = rt_cache_limit(&most, quiet) == AULE_OK && most > 0;
    return kept ? rt_cache_open(path, quiet) : -1;
}

static int open_folder(AuHeap memory)
{
    AuText path = {.memory = memory};
    int folder = open_kept(memory, &path);
    rt_text_free(&path);
    return folder;
}

/* A name that no other thread or process uses now, and that says who left it. */
static void add_beside(AuText *text, const char *name)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    rt_text_add(text, "%s.%lx.%llx.part", name, (unsigned long)getpid(),
                (unsigned long long)now.tv_nsec ^ (unsigned long long)(uintptr_t)&now);
}

bool rt_cache_beside(AuHeap memory, const char *name, AuText *path)
{
    int folder = open_kept(memory, path);
    if (folder < 0) return false;
    close(folder);
    rt_text_add(path, "/");
    add_beside(path, name);
    return !path->failed;
}

/* ---- files: a head, then the contents */

typedef struct Head {
    char magic[8];
    uint64_t count;
    AuSum sum;
} Head;
static const char magic[] = "aulekept"; /* without its end */
enum { MOST = 1 << 28 };

static bool read_all(int file, void *to, size_t count)
{
    for (size_t done = 0; done < count;) {
        ssize_t got = read(file, (char *)to + done, count - done);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        done += (size_t)got;
    }
    return true;
}

static bool write_all(int file, const void *from, size_t count)
{
    for (size_t done = 0; done < count;) {
        ssize_t put = write(file, (const char *)from + done, count - done);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return false;
        done += (size_t)put;
    }
    return true;
}

static void *read_file(AuHeap memory, int file, size_t *count)
{
    Head head;
    struct stat facts;
    if (fstat(file, &facts) != 0 || !S_ISREG(facts.st_mode) || facts.st_uid != geteuid())
        return NULL;
    if (!read_all(file, &head, sizeof head) || memcmp(head.magic, magic, sizeof head.magic) != 0 ||
        head.count == 0 || head.count > MOST || (uint64_t)facts.st_size != sizeof head + head.count)
        return NULL;
    void *bytes = rt_alloc(memory, (size_t)head.count);
    if (!bytes) return NULL;
    bool whole = read_all(file, bytes, (size_t)head.count);
    AuSum sum = rt_sum(bytes, (size_t)head.count);
    if (whole && sum.low == head.sum.low && sum.high == head.sum.high) {
        *count = (size_t)head.count;
        return bytes;
    }
    rt_free(bytes);
    return NULL;
}

void *rt_cache_read(AuHeap memory, const char *name, size_t *count)
{
    int folder = open_folder(memory);
    if (folder < 0) return NULL;
    int file = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    close(folder);
    if (file < 0) return NULL;
    void *bytes = read_file(memory, file, count);
    if (bytes) futimens(file, NULL); /* used now: what was not used for long goes first */
    close(file);
    return bytes;
}

void rt_cache_write(AuHeap memory, const char *name, const void *bytes, size_t count)
{
    Head head = {.count = count, .sum = rt_sum(bytes, count)};
    AuText beside = {.memory = memory};
    int folder = count > 0 && count <= MOST ? open_folder(memory) : -1;
    if (folder < 0) return;
    memcpy(head.magic, magic, sizeof head.magic);
    add_beside(&beside, name);
    int file = beside.failed ? -1
                             : openat(folder, rt_text_str(&beside),
                                      O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file >= 0) {
        bool whole = write_all(file, &head, sizeof head) && write_all(file, bytes, count);
        whole = whole &&
                fsync(file) == 0; /* before its name is: a power cut leaves no pages of zeros */
        whole = close(file) == 0 && whole;
        if (!whole || renameat(folder, rt_text_str(&beside), folder, name) != 0)
            unlinkat(folder, rt_text_str(&beside), 0);
        else
            fsync(folder);
    }
    rt_text_free(&beside);
    rt_cache_trim(memory, folder);
    close(folder);
}
