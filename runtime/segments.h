/* segments.h - which memory a loaded library has, so that what its descriptor points to is known to be there before it is read. */
#ifndef AU_RUNTIME_SEGMENTS_H
#define AU_RUNTIME_SEGMENTS_H

#include <stdbool.h>
#include <stdint.h>

/* Linkers make four or five; of more the rest counts as not there. */
enum { AU_SEGMENTS_MOST = 16 };

typedef struct AuSegments {
    struct {
        uintptr_t begin, end;
        bool runs; /* is code */
    } of[AU_SEGMENTS_MOST];
    uint32_t count;
    bool no_code; /* it was read as data, and pointers to code were taken out of it */
} AuSegments;

/* Are there so many bytes from there on? NULL has everything. */
bool rt_is_loaded(const AuSegments *segments, const void *at, uint64_t bytes);
/* Is it a text, with its end? */
bool rt_is_loaded_text(const AuSegments *segments, const char *text);
/* Does code begin there, or nothing where there is none? */
bool rt_is_loaded_code(const AuSegments *segments, uintptr_t at);

#endif
