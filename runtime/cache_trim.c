/* cache_trim.c - how much the cache holds, and what goes when it is too much. Processes need not agree: a file that another one took away
 * is as good as one that this one did, and who has a file open keeps it. */
#include "cache.h"
#include "platform/platform.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { NAME_BYTES = 96, FORSAKEN_SECONDS = 3600 };
static const uint64_t usual_limit = (uint64_t)1 << 30;

typedef struct Kept {
    char name[NAME_BYTES];
    uint64_t bytes;
    struct timespec used;
    bool is_part; /* being written, or left by a process that ended while it wrote */
} Kept;

typedef struct Listing {
    Kept *at;
    size_t count, capacity;
    uint64_t bytes;
} Listing;

/* ---- the limit */

aule_status rt_cache_limit(uint64_t *most, AuSink sink)
{
    static const char units[] = "KMGT";
    const char *text = getenv("AULE_CACHE_MAX");
    *most = usual_limit;
    if (!text || !*text) return AULE_OK;
    char *end;
    errno = 0;
    const unsigned long long number = strtoull(text, &end, 10);
    const char *unit = *end ? strchr(units, *end) : NULL;
    const unsigned shift = unit ? 10 * (unsigned)(unit - units + 1) : 0;
    if (text[0] < '0' || text[0] > '9' || errno || end[unit ? 1 : 0] ||
        number > UINT64_MAX >> shift)
        return rt_fail(
            sink, AULE_ERROR_USAGE,
            "AULE_CACHE_MAX is '%s', expected bytes as in 500M or 2G, or 0: keep nothing", text);
    *most = (uint64_t)number << shift;
    return AULE_OK;
}

/* ---- what there is */

static bool ends(const char *name, const char *with)
{
    const size_t length = strlen(name), tail = strlen(with);
    return length >= tail && strcmp(name + length - tail, with) == 0;
}

static bool read_entry(int folder, const char *name, Kept *kept)
{
    struct stat facts;
    *kept = (Kept){.is_part = ends(name, ".part")};
    if (strlen(name) >= NAME_BYTES || !(kept->is_part || rt_cache_has(name)) ||
        fstatat(folder, name, &facts, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(facts.st_mode))
        return false;
    strcpy(kept->name, name);
    kept->bytes = (uint64_t)facts.st_size;
    kept->used = rt_change_time(&facts);
    return true;
}

static bool add_entry(AuHeap memory, Listing *all, const Kept *kept)
{
    if (all->count == all->capacity) {
        const size_t capacity = all->capacity ? 2 * all->capacity : 64;
        Kept *at = all->at ? rt_resize(memory, all->at, capacity * sizeof *at)
                           : rt_alloc_array(memory, capacity, sizeof *at);
        if (!at) return false;
        all->at = at;
        all->capacity = capacity;
    }
    all->at[all->count++] = *kept;
    all->bytes += kept->bytes;
    return true;
}

/* The longest unused first. */
static int compare_use(const void *a, const void *b)
{
    const struct timespec *x = &((const Kept *)a)->used, *y = &((const Kept *)b)->used;
    if (x->tv_sec != y->tv_sec) return x->tv_sec < y->tv_sec ? -1 : 1;
    return (x->tv_nsec > y->tv_nsec) - (x->tv_nsec < y->tv_nsec);
}

static bool list_folder(AuHeap memory, int folder, Listing *all)
{
    Kept kept;
    const int again = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *entries = again >= 0 ? fdopendir(again) : NULL;
    bool good = entries;
    if (!entries && again >= 0) close(again);
    for (struct dirent *e; good && (e = readdir(entries));)
        if (read_entry(folder, e->d_name, &kept)) good = add_entry(memory, all, &kept);
    if (entries) closedir(entries);
    if (all->count) qsort(all->at, all->count, sizeof *all->at, compare_use);
    return good;
}

/* ---- what goes */

static void trim(int folder, Listing *all, uint64_t most, aule_cache_use *left)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    for (size_t n = 0; n < all->count; n++) {
        const Kept *kept = &all->at[n];
        const bool goes =
            kept->is_part ? kept->used.tv_sec < now.tv_sec - FORSAKEN_SECONDS : all->bytes > most;
        if (goes && unlinkat(folder, kept->name, 0) == 0)
            all->bytes -= kept->bytes;
        else
            left->files++;
    }
    left->bytes = all->bytes;
}

static aule_status trim_to(AuHeap memory, int folder, uint64_t most, aule_cache_use *left,
                           AuSink sink)
{
    Listing all = {0};
    const bool good = list_folder(memory, folder, &all);
    if (good) trim(folder, &all, most, left);
    rt_free(all.at);
    return good ? AULE_OK
                : rt_fail(sink, AULE_ERROR_FILE, "the cache cannot be read: %s", strerror(errno));
}

void rt_cache_trim(AuHeap memory, int folder)
{
    const AuSink quiet = {.memory = memory};
    aule_cache_use left = {0};
    uint64_t most;
    if (rt_cache_limit(&most, quiet) == AULE_OK) (void)trim_to(memory, folder, most, &left, quiet);
}

/* ---- the interface */

aule_status aule_cache_folder(char **path, aule_error **error)
{
    const AuHeap memory = rt_memory(NULL);
    const AuSink sink = {.memory = memory, .error = error};
    AuText text = {.memory = memory};
    if (!path) return rt_fail(sink, AULE_ERROR_USAGE, "path is NULL");
    const int folder = rt_cache_open(&text, sink);
    if (folder < 0) {
        rt_text_free(&text);
        return error && *error ? aule_error_status(*error) : AULE_ERROR_FILE;
    }
    close(folder);
    return rt_text_give(&text, path, sink);
}

aule_status aule_cache_limit(uint64_t *bytes, aule_error **error)
{
    const AuSink sink = {.memory = rt_memory(NULL), .error = error};
    return bytes ? rt_cache_limit(bytes, sink) : rt_fail(sink, AULE_ERROR_USAGE, "bytes is NULL");
}

aule_status aule_cache_trim(uint64_t most, aule_cache_use *left, aule_error **error)
{
    const AuHeap memory = rt_memory(NULL);
    const AuSink sink = {.memory = memory, .error = error};
    AuText path = {.memory = memory};
    aule_cache_use use = {.struct_size = sizeof use};
    if (left && left->struct_size < sizeof use)
        return rt_fail(sink, AULE_ERROR_USAGE,
                       "aule_cache_use.struct_size is %zu, expected at least %zu",
                       left->struct_size, sizeof use);
    const int folder = rt_cache_open(&path, sink);
    rt_text_free(&path);
    if (folder < 0) return error && *error ? aule_error_status(*error) : AULE_ERROR_FILE;
    const aule_status status = trim_to(memory, folder, most, &use, sink);
    close(folder);
    if (!status && left) use.struct_size = left->struct_size, *left = use;
    return status;
}
