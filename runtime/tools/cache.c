/* cache.c - `aule cache`: what is kept on disk, and letting go of it. */
#include "command.h"

#include "../cache_names.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

/* 1234567 as "1.2 MB". */
static const char *size_text(char to[32], uint64_t bytes)
{
    static const char *const units[] = {"B", "KB", "MB", "GB", "TB"};
    double size = (double)bytes;
    size_t unit = 0;
    for (; size >= 999.5 && unit + 1 < sizeof units / sizeof *units; unit++) size /= 1000;
    snprintf(to, 32, "%.*f %s", unit && size < 99.5 ? 1 : 0, size, units[unit]);
    return to;
}

static void list_file(const char *folder, const char *name)
{
    char path[4096], size[32], used[32];
    struct stat facts;
    struct tm when;
    const int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    if (length < 0 || (size_t)length >= sizeof path || lstat(path, &facts) != 0 ||
        !S_ISREG(facts.st_mode))
        return;
    const bool dated =
        localtime_r(&facts.st_mtime, &when) && strftime(used, sizeof used, "%Y-%m-%d %H:%M", &when);
    printf("%10s  %16s  %s\n", size_text(size, (uint64_t)facts.st_size), dated ? used : "", name);
}

static int list(const char *folder)
{
    DIR *entries = opendir(folder);
    if (!entries) return command_fail(EXIT_FILE, "%s: %s", folder, strerror(errno));
    for (struct dirent *e; (e = readdir(entries));)
        if (rt_cache_has(e->d_name)) list_file(folder, e->d_name);
    closedir(entries);
    return 0;
}

/* Trims to [most] and says what there is then. */
static int trim(const char *folder, uint64_t most, uint64_t limit)
{
    char bytes[32], all[32];
    aule_cache_use left = {.struct_size = sizeof left};
    aule_error *error = NULL;
    if (aule_cache_trim(most, &left, &error)) return command_error(error);
    printf("%s: %llu files, %s of at most %s\n", folder, (unsigned long long)left.files,
           size_text(bytes, left.bytes), size_text(all, limit));
    return 0;
}

int command_cache(AuOptions *options)
{
    char *folder;
    uint64_t limit;
    aule_error *error = NULL;
    const char *what = options->artifact ? options->artifact : "size";
    const bool lists = strcmp(what, "list") == 0, clears = strcmp(what, "clear") == 0,
               prunes = strcmp(what, "prune") == 0;
    if (!lists && !clears && !prunes && strcmp(what, "size") != 0)
        return command_fail(EXIT_USAGE, "'cache %s': expected list, size, prune or clear", what);
    if (aule_cache_limit(&limit, &error) || aule_cache_folder(&folder, &error))
        return command_error(error);
    int status = lists ? list(folder) : 0;
    if (!status) status = trim(folder, clears ? 0 : prunes ? limit : UINT64_MAX, limit);
    aule_text_free(folder);
    return status;
}
