/* file.c - whole files in and out of memory. See array.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "array.h"

/* ---- reading */

/* Opening does not wait for whoever writes to a pipe. */
static int open_file(const char *path, struct stat *facts, AuWhy *why)
{
    int file = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (file < 0 || fstat(file, facts) != 0)
        array_wrong(why, "%s: cannot be read: %s", *path ? path : "''", strerror(errno));
    else if (!S_ISREG(facts->st_mode))
        array_wrong(why, "%s: cannot be read: not a file", path);
    else
        return file;
    if (file >= 0) close(file);
    return -1;
}

static bool read_all(int file, unsigned char *bytes, size_t count)
{
    while (count > 0) {
        ssize_t got = read(file, bytes, count);
        if (got < 0 && errno == EINTR) continue;
        if (got == 0) errno = EIO; /* it was longer a moment ago */
        if (got <= 0) return false;
        bytes += got;
        count -= (size_t)got;
    }
    return true;
}

bool file_read(AuFile *file, const char *path, AuWhy *why)
{
    struct stat facts;
    *file = (AuFile){0};
    int opened = open_file(path, &facts, why);
    if (opened < 0) return false;
    size_t length = (size_t)facts.st_size;
    file->bytes = malloc(length + 1);
    bool fine = file->bytes && read_all(opened, file->bytes, length);
    if (!fine) array_wrong(why, "%s: cannot be read: %s", path, strerror(errno));
    close(opened);
    file->length = length;
    if (!fine) file_free(file);
    return fine;
}

void file_free(AuFile *file)
{
    free(file->bytes);
    *file = (AuFile){0};
}

/* ---- writing */

/* A new file beside [path], whose name is put into [beside]; with the rights that the user gives to new files. */
static int open_beside(const char *path, char *beside, size_t room)
{
    enum { TRIES = 100 };
    for (unsigned n = 0; n < TRIES; n++) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        unsigned long long stamp = (unsigned long long)now.tv_nsec * 1000 + n;
        int length = snprintf(beside, room, "%s.%lx.%llx.part", path, (long)getpid(), stamp);
        if (length < 0 || (size_t)length >= room) return errno = ENAMETOOLONG, -1;
        int file = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (file >= 0 || errno != EEXIST) return file;
    }
    return -1;
}

static bool is_special(const char *path)
{
    struct stat facts;
    return stat(path, &facts) == 0 && !S_ISREG(facts.st_mode);
}

bool file_write(const char *path, bool (*put)(FILE *stream, const void *what), const void *what,
                AuWhy *why)
{
    char beside[4096];
    if (is_special(path))
        return array_wrong(why, "%s: cannot be written: it is there and is no file", path);
    int file = open_beside(path, beside, sizeof beside);
    FILE *stream = file >= 0 ? fdopen(file, "wb") : NULL;
    if (!stream) {
        array_wrong(why, "%s: cannot be written: %s", path, strerror(errno));
        if (file >= 0) close(file), unlink(beside);
        return false;
    }
    bool fine = put(stream, what) && fflush(stream) == 0 && fsync(file) == 0;
    int cause = errno;
    if (fclose(stream) != 0 && fine) fine = false, cause = errno;
    if (fine && rename(beside, path) == 0) return true;
    if (fine) cause = errno;
    unlink(beside);
    return array_wrong(why, "%s: cannot be written: %s", path, strerror(cause));
}
