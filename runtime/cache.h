/* cache.h - files of what took long to make, in a folder of this user's alone: $XDG_CACHE_HOME/aule, else ~/.cache/aule. There may be
 * none, then nothing is kept; reading and writing never fail. Files are written beside their place, to the disk, and renamed, so that
 * readers see whole ones and writers do not meet; they say how long they are and what they sum to, so that one that was cut or damaged
 * counts as missing. Those used least recently go where all would take more than AULE_CACHE_MAX: a file's time of change is that of its
 * last use. Python keeps artifacts in the same folder (python/aule/_cache.py). */
#ifndef AU_RUNTIME_CACHE_H
#define AU_RUNTIME_CACHE_H

#include "base.h"
#include "cache_names.h"

/* A sum of contents in 128 bits: no two files of a cache meet by chance. Not for adversaries; the folder has none. */
typedef struct AuSum {
    uint64_t low, high;
} AuSum;
AuSum rt_sum(const void *bytes, size_t count);

/* Adds the file name of what was made of [bytes] in the way that [how] says: "KIND-SUM". [how] has no '/'. */
void rt_cache_name(AuText *name, AuCacheKind kind, const void *bytes, size_t count,
                   const char *how);

/* The contents of [name], to be freed with rt_free; NULL: there is none that is whole. */
void *rt_cache_read(AuHeap memory, const char *name, size_t *count);
void rt_cache_write(AuHeap memory, const char *name, const void *bytes, size_t count);

/* For libraries that read and write files of their own: the path of one beside [name], which is not there yet and which the caller removes;
 * one that is left behind goes after a while. false: nothing is kept. */
bool rt_cache_beside(AuHeap memory, const char *name, AuText *path);

/* How many bytes the folder may hold, as AULE_CACHE_MAX says ("512M"), else 1 GiB. AULE_ERROR_USAGE: it says something else. */
aule_status rt_cache_limit(uint64_t *most, AuSink sink);

/* The folder, made if need be, and its path; -1 after an error. */
int rt_cache_open(AuText *path, AuSink sink);

/* Keeps to the limit, if it can. */
void rt_cache_trim(AuHeap memory, int folder);

#endif
