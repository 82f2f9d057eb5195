/* metal_texts.c - see metal_texts.h. Several programs may come here at once: files appear whole, by a rename. */
#include "metal_texts.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME = 64 };

/* Two FNV-1a sums, of which the second begins elsewhere. */
typedef struct Sum {
    uint64_t one, two;
} Sum;

static void add(Sum *sum, const void *bytes, size_t length)
{
    const unsigned char *at = bytes;
    for (size_t n = 0; n < length; n++) {
        sum->one = (sum->one ^ at[n]) * 0x100000001b3u;
        sum->two = (sum->two ^ at[n]) * 0x100000001b3u + 0x9e3779b97f4a7c15u;
    }
}

static int add_file(Sum *sum, const char *path)
{
    char bytes[4096];
    FILE *file = fopen(path, "rb");
    if (!file) return 0;
    for (size_t got; (got = fread(bytes, 1, sizeof bytes, file)) > 0;) add(sum, bytes, got);
    fclose(file);
    return 1;
}

int metal_text_place(const char *source, const char *command, const char *ending, char *path,
                     size_t room)
{
    static const char *const files[] = {METAL_INCLUDE "/metal_stdlib", METAL_INCLUDE "/shim.h",
                                        METAL_INCLUDE "/metal_simdgroup_matrix", METAL_RUN};
    Sum sum = {0xcbf29ce484222325u, 0x84222325cbf29ce4u};
    add(&sum, source, strlen(source) + 1);
    add(&sum, command, strlen(command) + 1);
    add(&sum, METAL_CXX_VERSION, sizeof METAL_CXX_VERSION);
    for (size_t n = 0; n < sizeof files / sizeof *files; n++)
        if (!add_file(&sum, files[n])) return 0;
    mkdir(METAL_KEPT, 0777);
    if (access(METAL_KEPT, W_OK) != 0) return 0;
    snprintf(path, room, "%s/%016llx%016llx%s", METAL_KEPT, (unsigned long long)sum.one,
             (unsigned long long)sum.two, ending);
    return 1;
}

int metal_text_folder(char *path, size_t room)
{
    snprintf(path, room, "%s/new-XXXXXX", METAL_KEPT);
    if (mkdtemp(path)) return 1;
    snprintf(path, room, "/tmp/aule-metal-XXXXXX");
    return mkdtemp(path) != NULL;
}

void metal_text_used(const char *path) { utimensat(AT_FDCWD, path, NULL, 0); }

static int ends_so(const char *name, const char *ending)
{
    const size_t length = strlen(name), of_ending = strlen(ending);
    return length < NAME && length > of_ending && strcmp(name + length - of_ending, ending) == 0;
}

/* How many there are, and the name of the oldest. */
static unsigned oldest(int folder, DIR *all, const char *ending, char *name)
{
    unsigned count = 0;
    struct timespec least = {0};
    rewinddir(all);
    for (const struct dirent *entry; (entry = readdir(all)) != NULL;) {
        struct stat of;
        if (!ends_so(entry->d_name, ending) || fstatat(folder, entry->d_name, &of, 0) != 0)
            continue;
        if (count++ && (of.st_mtim.tv_sec > least.tv_sec ||
                        (of.st_mtim.tv_sec == least.tv_sec && of.st_mtim.tv_nsec >= least.tv_nsec)))
            continue;
        least = of.st_mtim;
        snprintf(name, NAME, "%s", entry->d_name);
    }
    return count;
}

void metal_text_make_room(const char *folder, const char *ending, unsigned most)
{
    char name[NAME];
    DIR *all = opendir(folder);
    if (!all) return;
    while (oldest(dirfd(all), all, ending, name) > most)
        if (unlinkat(dirfd(all), name, 0) != 0) break;
    closedir(all);
}
