/* metal_made.c - what the double's device makes: libraries, buffers, archives, pipelines. An archive holds the names of kernels with a sum of
 * their source; its file begins with a line that tells whole ones from others, on which Apple's reader may do anything. */
#include "metal_lint.h"
#include "metal_objects.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KEPT = 8 };
static MetalText *kept[KEPT];
static char *kept_source[KEPT];
static unsigned kept_version[KEPT];

static Object *object(uint64_t n) { return (Object *)(uintptr_t)n; }

/* ---- libraries and buffers */

int metal_is_kept(const MetalText *text)
{
    int found = 0;
    for (int n = 0; n < KEPT; n++) found |= text == kept[n];
    return found;
}

static MetalText *compile(const char *source, unsigned version, char *why, size_t room)
{
    int n = 0;
    for (; n < KEPT && kept[n]; n++)
        if (kept_version[n] == version && strcmp(source, kept_source[n]) == 0) return kept[n];
    if (strncmp(source, "// MSL", 6) == 0 && metal_lint(source, version, why, room))
        return NULL; /* not what tests write by hand */
    MetalText *compiled = metal_compile(source, version, why, room);
    if (!metal_told.keeps || !compiled || n == KEPT) return compiled;
    kept_source[n] = strdup(source);
    kept_version[n] = version;
    return kept[n] = compiled;
}

/* macOS 13 has 3.0, each later one a minor version more. */
static uint64_t newest_language(void) { return (3 << 16) + (uint64_t)metal_macos() - 13; }

static Object *new_library(Object *source, Object *options, uint64_t error)
{
    char why[4096] = "";
    if (!metal_must_be(source, "NSString", "newLibraryWithSource") ||
        !metal_must_be(options, "MTLCompileOptions", "newLibraryWithSource"))
        return NULL;
    if (options->fast) metal_broken("a library is compiled with fast math");
    if (options->language < 3 << 16)
        metal_broken("a library is compiled for a language before 3.0");
    if (options->language > newest_language())
        metal_broken("a library is compiled for a language that the system does not have");
    const unsigned version =
        (unsigned)(options->language >> 16) * 100 + (unsigned)(options->language & 0xffff) * 10;
    MetalText *compiled = compile(source->text, version, why, sizeof why);
    if (!compiled) {
        metal_set_error(error, why);
        return NULL;
    }
    Object *library = metal_make("MTLLibrary");
    library->compiled = compiled;
    library->sum = 0xcbf29ce484222325u;
    for (const char *at = source->text; *at; at++)
        library->sum = (library->sum ^ (unsigned char)*at) * 0x100000001b3u;
    return library;
}

static Object *new_buffer(uint64_t length)
{
    Object *o = metal_make("MTLBuffer");
    o->length = length;
    if (length == 0 || posix_memalign(&o->memory, 4096, length)) {
        metal_drop(o);
        return NULL;
    }
    memset(o->memory, 0xff, length);
    return o;
}

/* Whole pages of the caller's, which it keeps as long as the buffer lives. */
static Object *new_borrowed(const uint64_t *n)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    if (!n[0] || n[0] % page || !n[1] || n[1] % page)
        metal_broken("a buffer of no whole pages: %llu bytes at %llx", (unsigned long long)n[1],
                     (unsigned long long)n[0]);
    if (n[2] || n[3]) metal_broken("a buffer of memory of the caller's has options or frees it");
    if (metal_fails("newBufferWithBytesNoCopy:length:options:deallocator:")) return NULL;
    Object *o = metal_make("MTLBuffer");
    o->length = n[1];
    o->memory = (void *)(uintptr_t)n[0];
    o->borrowed = 1;
    return o;
}

/* ---- archives */

static const char head[] = "archive of the double\n";
enum { HEAD = sizeof head - 1, ROOM = 1 << 16 };

/* Does it hold the kernel, or is it to? */
static void entry_of(const Object *function, char *line, size_t room)
{
    snprintf(line, room, "%s %016llx\n", function->text, (unsigned long long)function->owner->sum);
}

static int holds(const Object *archive, const Object *function)
{
    char line[256];
    entry_of(function, line, sizeof line);
    return archive && archive->text && strstr(archive->text, line) != NULL;
}

static Object *new_archive(const Object *descriptor, uint64_t error)
{
    char text[ROOM];
    size_t got = 0;
    const Object *url = descriptor->owner;
    if (url) {
        FILE *file = fopen(url->text, "rb");
        got = file ? fread(text, 1, sizeof text - 1, file) : 0;
        if (file) fclose(file);
        if (got < HEAD || memcmp(text, head, HEAD) != 0) {
            metal_broken("an archive is made of a damaged file, %s", url->text);
            metal_set_error(error, "damaged");
            return NULL;
        }
    }
    text[got] = 0;
    Object *archive = metal_make("MTLBinaryArchive");
    archive->text = strdup(url ? text + HEAD : "");
    return archive;
}

static int add_functions(Object *archive, const Object *descriptor)
{
    char line[256];
    const Object *function = descriptor->owner;
    if (!function) {
        metal_broken("a descriptor without a kernel");
        return 0;
    }
    entry_of(function, line, sizeof line);
    archive->text = realloc(archive->text, strlen(archive->text) + strlen(line) + 1);
    strcat(archive->text, line);
    metal_told.built++;
    return 1;
}

static int serialize(const Object *archive, const Object *url)
{
    if (!archive->text[0]) metal_broken("an archive of nothing is written");
    FILE *file = fopen(url->text, "wb");
    if (!file) return 0;
    fprintf(file, "%s%s", head, archive->text);
    return fclose(file) == 0;
}

static void set(Object **place, uint64_t value)
{
    metal_drop(*place);
    *place = value ? metal_keep(object(value)) : NULL;
}

static uint64_t to_archive(Object *o, const char *selector, const uint64_t *n)
{
    const int adds = strncmp(selector, "add", 3) == 0;
    if (!metal_must_be(object(n[0]), adds ? "MTLComputePipelineDescriptor" : "NSURL", selector))
        return 0;
    if (metal_fails(selector)) {
        metal_set_error(n[1], "told to fail");
        return 0;
    }
    return (uint64_t)(adds ? add_functions(o, object(n[0])) : serialize(o, object(n[0])));
}

uint64_t metal_of_archives(Object *o, const char *selector, const uint64_t *n)
{
    if (strcmp(o->is, "MTLBinaryArchive") == 0) return to_archive(o, selector, n);
    if (strcmp(selector, "setUrl:") == 0 && metal_must_be(object(n[0]), "NSURL", selector))
        set(&o->owner, n[0]);
    if (strcmp(selector, "setComputeFunction:") == 0 &&
        metal_must_be(object(n[0]), "MTLFunction", selector))
        set(&o->owner, n[0]);
    if (strcmp(selector, "setBinaryArchives:") == 0 &&
        metal_must_be(object(n[0]), "NSArray", selector) &&
        metal_must_be(object(n[0])->owner, "MTLBinaryArchive", selector))
        set(&o->pipeline, n[0]);
    return 0;
}

/* ---- what a device makes */

static Object *new_pipeline(const Object *descriptor)
{
    Object *function = descriptor->owner, *list = descriptor->pipeline;
    if (!function) {
        metal_broken("a pipeline of no kernel");
        return NULL;
    }
    if (list && holds(list->owner, function))
        metal_told.found++;
    else
        metal_told.built++;
    Object *pipeline = metal_make("MTLComputePipelineState");
    pipeline->owner = metal_keep(function);
    return pipeline;
}

/* The types of its first argument, by the selector; what it makes. [error]: which of its arguments that is. */
static const struct {
    const char *selector, *takes;
    int error;
} makers[] = {
    {"newLibraryWithSource:options:error:", "NSString", 2},
    {"newBinaryArchiveWithDescriptor:error:", "MTLBinaryArchiveDescriptor", 1},
    {"newComputePipelineStateWithDescriptor:options:reflection:error:",
     "MTLComputePipelineDescriptor", 3},
};

Object *metal_made(const char *selector, const uint64_t *n)
{
    if (strcmp(selector, "newCommandQueue") == 0)
        return metal_fails(selector) ? NULL : metal_make("MTLCommandQueue");
    if (strncmp(selector, "newBufferWithBytes", 18) == 0) return new_borrowed(n);
    if (strncmp(selector, "newBuffer", 9) == 0) {
        if (n[1]) metal_broken("a buffer has options %llu", (unsigned long long)n[1]);
        return metal_fails(selector) ? NULL : new_buffer(n[0]);
    }
    for (int m = 0; m < 3; m++) {
        if (strcmp(makers[m].selector, selector) != 0) continue;
        if (!metal_must_be(object(n[0]), makers[m].takes, selector)) return NULL;
        if (metal_fails(selector)) {
            metal_set_error(n[makers[m].error], "told to fail");
            return NULL;
        }
        if (m == 0) return new_library(object(n[0]), object(n[1]), n[2]);
        if (m == 1) return new_archive(object(n[0]), n[1]);
        if (n[1] || n[2]) metal_broken("a pipeline is made with options or asked what it reads");
        return new_pipeline(object(n[0]));
    }
    return NULL;
}
