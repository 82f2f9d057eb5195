/* files.c - see files.h. */
#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int files_complain(const char *what, const char *detail)
{
    fprintf(stderr, "aulec: %s%s%s; see aulec --help\n", what, *detail ? ": " : "", detail);
    return 2;
}

/* ---- read */

/* To the end of the file, or a byte more than a script may have, which the compiler then says. */
static char *read_all(int file, size_t *length)
{
    enum { MOST = (4 << 20) + 1 };
    char *text = malloc(MOST + 1); /* for a NUL after it */
    *length = 0;
    for (ssize_t got = 1; text && got != 0 && *length < MOST;) {
        got = read(file, text + *length, MOST - *length);
        if (got > 0) *length += (size_t)got;
        if (got < 0 && errno != EINTR) {
            const int error = errno;
            free(text);
            text = NULL;
            errno = error;
        }
    }
    return text;
}

/* Only files are opened by name: a pipe may have nobody who writes into it, a device may have no end. -1: see errno. */
static int open_script(const char *name, const char **why)
{
    struct stat what;
    const int file = open(name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (file < 0) return -1;
    const bool folder = fstat(file, &what) == 0 && S_ISDIR(what.st_mode);
    if (!folder && S_ISREG(what.st_mode)) return file;
    *why = folder ? strerror(EISDIR)
                  : "it is a pipe or a device; such are read as the standard input: aulec - < FILE";
    close(file);
    return -1;
}

char *files_read(const char *name, size_t *length)
{
    const char *why = NULL;
    const int file = strcmp(name, "-") == 0 ? STDIN_FILENO : open_script(name, &why);
    char *text = file >= 0 ? read_all(file, length) : NULL;
    if (!text) fprintf(stderr, "aulec: cannot read %s: %s\n", name, why ? why : strerror(errno));
    if (file > STDIN_FILENO) close(file);
    return text;
}

/* ---- written */

/* A device or a pipe is written to as it is: renaming would put a file in its place. */
static bool is_special(const char *name)
{
    struct stat what;
    return stat(name, &what) == 0 && !S_ISREG(what.st_mode) && !S_ISDIR(what.st_mode);
}

/* A new file in the folder of [name], whose name nobody can foretell and which follows no link; readable for whom files of
 * this process are. */
static int open_beside(const char *name, char *path)
{
    const char *slash = strrchr(name, '/');
    sprintf(path, "%.*s.aulec-XXXXXX", slash ? (int)(slash + 1 - name) : 0, name);
    const int file = mkostemp(path, O_CLOEXEC);
    const mode_t mask = umask(0);
    umask(mask);
    if (file >= 0) (void)!fchmod(file, 0666 & ~mask);
    return file;
}

static bool write_bytes(int file, const char *data, size_t length)
{
    while (length) {
        const ssize_t wrote = write(file, data, length);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote <= 0) return false;
        data += wrote;
        length -= (size_t)wrote;
    }
    return true;
}

bool files_are_one(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

int files_write(const char *name, const void *data, size_t length)
{
    const bool special = is_special(name);
    char *path = malloc(strlen(name) + 32);
    if (!path) return files_complain("out of memory", "");
    const int file = special ? open(name, O_WRONLY | O_CLOEXEC) : open_beside(name, path);
    bool good = file >= 0 && write_bytes(file, data, length) && (special || fsync(file) == 0);
    int error = errno;
    if (file >= 0 && close(file) != 0 && good) good = false, error = errno;
    if (good && !special && rename(path, name) != 0) good = false, error = errno;
    if (!good) {
        fprintf(stderr, "aulec: cannot write %s: %s\n", name, strerror(error));
        if (file >= 0 && !special) unlink(path);
    }
    free(path);
    return good ? 0 : 3;
}

int files_flush(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout)) return 0;
    fprintf(stderr, "aulec: cannot write to the standard output: %s\n", strerror(errno));
    return 3;
}
