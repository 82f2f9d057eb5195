/* cache_names.h - how files of the cache are called; for the library and for `aule cache`. */
#ifndef AU_RUNTIME_CACHE_NAMES_H
#define AU_RUNTIME_CACHE_NAMES_H

#include <stdbool.h>
#include <string.h>

/* Whose machine code it is: "cuda-SUM". */
typedef enum AuCacheKind {
    CACHE_CUDA,
    CACHE_LEVELZERO,
    CACHE_METAL,
    CACHE_VULKAN,
    CACHE_KINDS
} AuCacheKind;

static inline const char *rt_cache_prefix(AuCacheKind kind)
{
    static const char *const prefixes[CACHE_KINDS] = {"cuda-", "levelzero-", "metal-", "vulkan-"};
    return prefixes[kind];
}

/* Machine code, or an artifact of the Python package (NAME.so). Files of other names are not the cache's. */
static inline bool rt_cache_has(const char *name)
{
    const size_t length = strlen(name);
    for (int kind = 0; kind < CACHE_KINDS; kind++) {
        const char *prefix = rt_cache_prefix((AuCacheKind)kind);
        if (strncmp(name, prefix, strlen(prefix)) == 0) return true;
    }
    return length >= 3 && strcmp(name + length - 3, ".so") == 0;
}

#endif
