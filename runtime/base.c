#include "base.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* In front of each block. 32 bytes, so that what follows is aligned like malloc's. */
typedef struct Header {
    AuHeap memory;
    size_t bytes; /* of the block, without the header */
    size_t unused;
} Header;

static void *resize_with_libc(void *user, void *memory, size_t old_bytes, size_t new_bytes)
{
    (void)user;
    (void)old_bytes;
    if (new_bytes == 0) {
        free(memory);
        return NULL;
    }
    return realloc(memory, new_bytes);
}

AuHeap rt_memory(const aule_allocator *allocator)
{
    if (!allocator || !allocator->resize) return (AuHeap){resize_with_libc, NULL};
    return (AuHeap){allocator->resize, allocator->user};
}

void *rt_resize(AuHeap memory, void *block, size_t bytes)
{
    Header *header = block ? (Header *)block - 1 : NULL;
    size_t old_bytes = header ? header->bytes : 0;
    if (bytes > SIZE_MAX - sizeof(Header)) return NULL;
    header = memory.resize(memory.user, header, header ? sizeof(Header) + old_bytes : 0,
                           sizeof(Header) + bytes);
    if (!header) return NULL;
    header->memory = memory;
    header->bytes = bytes;
    char *at = (char *)(header + 1);
    if (bytes > old_bytes) memset(at + old_bytes, 0, bytes - old_bytes);
    return at;
}

void *rt_alloc(AuHeap memory, size_t bytes) { return rt_resize(memory, NULL, bytes); }

void *rt_alloc_array(AuHeap memory, size_t count, size_t item_bytes)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, item_bytes, &bytes)) return NULL;
    return rt_alloc(memory, bytes);
}

void rt_free(void *block)
{
    if (!block) return;
    Header *header = (Header *)block - 1;
    AuHeap memory = header->memory;
    memory.resize(memory.user, header, sizeof(Header) + header->bytes, 0);
}

AuHeap rt_memory_of(const void *block) { return ((const Header *)block - 1)->memory; }

char *rt_strdup(AuHeap memory, const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = rt_alloc(memory, bytes);
    if (copy) memcpy(copy, text, bytes);
    return copy;
}

/* ---- texts */

void rt_text_vadd(AuText *text, const char *format, va_list arguments)
{
    va_list again;
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, again);
    va_end(again);
    if (length < 0) text->failed = true;
    if (text->failed) return;
    size_t needed = text->length + (size_t)length + 1;
    if (needed > text->capacity) {
        size_t capacity = text->capacity * 2 < needed ? needed + 64 : text->capacity * 2;
        char *at = rt_resize(text->memory, text->at, capacity);
        if (!at) {
            text->failed = true;
            return;
        }
        text->at = at;
        text->capacity = capacity;
    }
    vsnprintf(text->at + text->length, (size_t)length + 1, format, arguments);
    text->length += (size_t)length;
}

void rt_text_add(AuText *text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    rt_text_vadd(text, format, arguments);
    va_end(arguments);
}

const char *rt_text_str(const AuText *text) { return text->at ? text->at : ""; }

void rt_text_free(AuText *text)
{
    rt_free(text->at);
    *text = (AuText){.memory = text->memory};
}

bool rt_is_control(char c)
{
    enum { DELETE = 127 };
    return (unsigned char)c < ' ' || c == DELETE;
}

void rt_text_plain(char *text)
{
    for (; text && *text; text++)
        if (rt_is_control(*text) && *text != '\n' && *text != '\t') *text = '?';
}

aule_status rt_text_give(AuText *text, char **out, AuSink sink)
{
    if (text->length == 0) rt_text_add(text, "%s", "");
    if (text->failed) {
        rt_text_free(text);
        return rt_fail_memory(sink);
    }
    *out = text->at;
    *text = (AuText){.memory = text->memory};
    return AULE_OK;
}

void aule_text_free(char *text) { rt_free(text); }

/* ---- errors */

struct aule_error {
    aule_status status;
    const char *message;
};

/* Where there is no memory for an error, this one is given, and its free does nothing. */
static const aule_error no_memory = {AULE_ERROR_MEMORY, "out of memory"};

aule_status rt_fail_memory(AuSink sink)
{
    if (sink.error) *sink.error = (aule_error *)(uintptr_t)&no_memory;
    return AULE_ERROR_MEMORY;
}

aule_status rt_fail(AuSink sink, aule_status status, const char *format, ...)
{
    if (!sink.error) return status;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    aule_error *error =
        rt_alloc(sink.memory, sizeof *error + (size_t)(length < 0 ? 0 : length) + 1);
    if (!error) {
        rt_fail_memory(sink);
        return status;
    }
    va_start(arguments, format);
    if (length >= 0) vsnprintf((char *)(error + 1), (size_t)length + 1, format, arguments);
    va_end(arguments);
    rt_text_plain((char *)(error + 1));
    error->status = status;
    error->message = (const char *)(error + 1);
    *sink.error = error;
    return status;
}

aule_status aule_error_status(const aule_error *error) { return error ? error->status : AULE_OK; }
const char *aule_error_message(const aule_error *error) { return error ? error->message : ""; }

void aule_error_free(aule_error *error)
{
    if (error != &no_memory) rt_free(error);
}

const char *aule_status_name(aule_status status)
{
    switch (status) {
    case AULE_OK: return "ok";
    case AULE_ERROR_USAGE: return "usage";
    case AULE_ERROR_MEMORY: return "memory";
    case AULE_ERROR_FILE: return "file";
    case AULE_ERROR_ARTIFACT: return "artifact";
    case AULE_ERROR_VERSION: return "version";
    case AULE_ERROR_NAME: return "name";
    case AULE_ERROR_DEVICE: return "device";
    case AULE_ERROR_UNSUPPORTED: return "unsupported";
    case AULE_ERROR_TENSOR: return "tensor";
    case AULE_ERROR_PARAM: return "param";
    case AULE_ERROR_REQUIRE: return "require";
    case AULE_ERROR_WORKSPACE: return "workspace";
    case AULE_ERROR_BUILD: return "build";
    case AULE_ERROR_DRIVER: return "driver";
    case AULE_ERROR_INDEX: return "index";
    case AULE_ERROR_WORK: return "work";
    }
    return "unknown";
}

const char *aule_version(uint32_t *api)
{
    if (api) *api = AULE_API_VERSION;
    return AULE_VERSION_TEXT;
}

/* ---- what callers and the environment say */

bool rt_parse_number(const char *text, size_t length, uint32_t most, uint32_t *number)
{
    uint64_t value = 0;
    for (size_t i = 0; i < length && value <= most; i++) {
        if (text[i] < '0' || text[i] > '9') return false;
        value = value * 10 + (uint64_t)(text[i] - '0');
    }
    *number = (uint32_t)value;
    return length > 0 && value <= most;
}

aule_status rt_read_options(void *options, size_t known, size_t least, const void *given,
                            const char *type_name, AuSink sink)
{
    memset(options, 0, known);
    if (!given) return AULE_OK;
    size_t size;
    memcpy(&size, given, sizeof size);
    if (size < least)
        return rt_fail(sink, AULE_ERROR_USAGE,
                       "%s.struct_size is %zu, expected at least %zu: set it to sizeof(%s)",
                       type_name, size, least, type_name);
    memcpy(options, given, size < known ? size : known);
    return AULE_OK;
}

aule_status rt_use_allocator(const aule_allocator *allocator, AuSink *sink)
{
    aule_allocator read;
    aule_status status =
        rt_read_options(&read, sizeof read, sizeof read, allocator, "aule_allocator", *sink);
    if (!status && allocator && !read.resize)
        status = rt_fail(*sink, AULE_ERROR_USAGE, "aule_allocator.resize must not be NULL");
    if (!status) sink->memory = rt_memory(&read);
    return status;
}

aule_status rt_begin(const aule_options *options, AuSink *sink)
{
    aule_options read;
    aule_status status =
        rt_read_options(&read, sizeof read, sizeof read, options, "aule_options", *sink);
    return status ? status : rt_use_allocator(read.allocator, sink);
}
