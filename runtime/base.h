/* base.h - memory, texts and errors of the runtime.
 * Every block carries the allocator it came from, so that rt_free needs the block alone. Nothing here aborts: out of memory is a
 * NULL that callers turn into AULE_ERROR_MEMORY, for whose error object no memory is needed. */
#ifndef AU_RUNTIME_BASE_H
#define AU_RUNTIME_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

#include "aule/aule.h"

typedef struct AuHeap {
    void *(*resize)(void *user, void *memory, size_t old_bytes, size_t new_bytes);
    void *user;
} AuHeap;

AuHeap rt_memory(const aule_allocator *allocator); /* NULL: malloc's */

void *rt_alloc(AuHeap memory, size_t bytes); /* zeroed, aligned to 16; NULL: out of memory */
void *rt_alloc_array(AuHeap memory, size_t count, size_t item_bytes);
void *rt_resize(AuHeap memory, void *block,
                size_t bytes); /* keeps contents; on failure the block stays */
void rt_free(void *block);
char *rt_strdup(AuHeap memory, const char *text);
AuHeap rt_memory_of(const void *block);

/* A growing text. Out of memory sets [failed] and drops what follows; who needs the whole text looks at it once, at the end. */
typedef struct AuText {
    AuHeap memory;
    char *at; /* NULL while empty */
    size_t length, capacity;
    bool failed;
} AuText;

void rt_text_add(AuText *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void rt_text_vadd(AuText *text, const char *format, va_list arguments);
const char *rt_text_str(const AuText *text); /* never NULL */
void rt_text_free(AuText *text);

/* Where the errors of a call go: the caller's pointer, which may be NULL. */
typedef struct AuSink {
    AuHeap memory;
    aule_error **error;
} AuSink;

/* Makes the error object, if wanted, and returns [status]. */
aule_status rt_fail(AuSink sink, aule_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
aule_status rt_fail_memory(AuSink sink);

/* Is it an order to a terminal, not a character? */
bool rt_is_control(char c);
/* Puts '?' for such: files and drivers may have said them. Lines and tabs stay. */
void rt_text_plain(char *text);

/* Hands a finished text (or AULE_ERROR_MEMORY) to a caller who frees it with aule_text_free. */
aule_status rt_text_give(AuText *text, char **out, AuSink sink);

/* [length] decimal digits, and nothing else, that make at most [most]. */
bool rt_parse_number(const char *text, size_t length, uint32_t most, uint32_t *number);

/* Copies an option struct of the caller, who may be older or newer, over [known] bytes of zeros. AULE_ERROR_USAGE if its
 * struct_size is smaller than [least]. [given] NULL: all zeros. */
aule_status rt_read_options(void *options, size_t known, size_t least, const void *given,
                            const char *type_name, AuSink sink);
/* From here on the caller's allocator is the sink's, or malloc where it is NULL. */
aule_status rt_use_allocator(const aule_allocator *allocator, AuSink *sink);
/* Of calls that take nothing but an allocator: from here on it is the sink's. */
aule_status rt_begin(const aule_options *options, AuSink *sink);

#endif
