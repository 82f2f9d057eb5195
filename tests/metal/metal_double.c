/* metal_double.c - libobjc with Metal behind it, for Linux on x86-64: objects have a class and a count, messages are looked up in a table
 * that was written from Apple's documents, arguments are checked for their classes and limits, and kernels run by the shim
 * (metal_compile.c). Misuse is remembered (broken) and printed; the tests look at it.
 * objc_msgSend is one function here: it is called through pointers of other types, whose arguments the x86-64 ABI puts where this
 * definition finds them; it answers with an integer and a double, which lie where callers of either look. */
#include "metal_double.h"
#include "metal_compile.h"
#include "metal_lint.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

typedef struct Object Object;
struct Object {
    const char *is; /* class */
    int count;
    char *text;   /* NSString, NSError */
    void *memory; /* MTLBuffer */
    uint64_t length;
    MetalText *compiled; /* MTLLibrary */
    Object *owner;       /* retained: what it was made of */
    Object *pipeline;    /* encoder */
    unsigned char slots[4096];
    uint64_t slot_bytes, shared_bytes;
    ShimBuffer used[256];
    unsigned used_count;
    int state,
        fast; /* command buffer: 0 open, 2 committed, 4 done, 5 failed; options: of math, 1 by default */
    int encoding;
    uint64_t language;
    double start, end;
};

typedef struct Answer {
    uint64_t number;
    double real;
} Answer;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static MetalDouble told;
static Object device = {.is = "MTLDevice", .count = 1};
static Object *pool[4096];
static unsigned pooled, marks[256];
enum { KEPT = 4 };
static MetalText *kept[KEPT];
static char *kept_source[KEPT];

EXPORT MetalDouble *metal_double(void) { return &told; }

static void broken(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void broken(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (!told.broken[0]) {
        vsnprintf(told.broken, sizeof told.broken, format, arguments);
        fprintf(stderr, "metal double: %s\n", told.broken);
    }
    va_end(arguments);
}

/* ---- objects */

static Object *make(const char *is)
{
    Object *o = calloc(1, sizeof *o);
    o->is = is;
    o->count = 1;
    told.objects++;
    return o;
}

static int is_kept(const MetalText *text)
{
    int found = 0;
    for (int n = 0; n < KEPT; n++) found |= text == kept[n];
    return found;
}

static void drop(Object *o)
{
    if (!o) return;
    if (o->count <= (o == &device)) broken("%s is released once too often", o->is);
    o->count--;
    if (o == &device) told.objects--; /* a hold of it */
    if (o->count > 0) return;
    told.objects--;
    free(o->text);
    free(o->memory);
    if (!is_kept(o->compiled)) metal_forget(o->compiled);
    drop(o->owner);
    drop(o->pipeline);
    free(o);
}

static Object *keep(Object *o)
{
    o->count++;
    if (o == &device) told.objects++;
    return o;
}

/* Given to the innermost pool. */
static Object *autorelease(Object *o)
{
    if (!told.pools) broken("%s is autoreleased without a pool", o->is);
    if (pooled == 4096)
        broken("a pool holds too much");
    else
        pool[pooled++] = o;
    return o;
}

static Object *string(const char *text)
{
    Object *o = make("NSString");
    o->text = strdup(text);
    return o;
}

EXPORT void *objc_autoreleasePoolPush(void);
EXPORT void objc_autoreleasePoolPop(void *mark);
void *objc_autoreleasePoolPush(void)
{
    if (told.idle) return NULL;
    pthread_mutex_lock(&lock);
    marks[told.pools++] = pooled;
    void *mark = (void *)(uintptr_t)told.pools;
    pthread_mutex_unlock(&lock);
    return mark;
}
void objc_autoreleasePoolPop(void *mark)
{
    if (told.idle) return;
    pthread_mutex_lock(&lock);
    if ((uintptr_t)mark != (uintptr_t)told.pools) broken("pools are not popped in order");
    told.pools--;
    while (pooled > marks[told.pools]) drop(pool[--pooled]);
    pthread_mutex_unlock(&lock);
}

/* ---- classes and selectors */

static const char *const classes[] = {"NSString", "MTLCompileOptions"};
EXPORT void *objc_getClass(const char *name);
void *objc_getClass(const char *name)
{
    static Object of[2] = {{.is = "class NSString", .count = 1},
                           {.is = "class MTLCompileOptions", .count = 1}};
    for (int n = 0; n < 2; n++)
        if (strcmp(classes[n], name) == 0) return &of[n];
    return NULL;
}

/* Apple's documents of NSObject, NSString, NSArray, NSError, MTLDevice and what it makes. */
static const MetalDoubleMessage messages[] = {
    {"NSArray", "count", "Q"},
    {"NSArray", "objectAtIndex:", "@Q"},
    {"MTLDevice", "name", "@"},
    {"MTLDevice", "supportsFamily:", "Bq"},
    {"MTLDevice", "recommendedMaxWorkingSetSize", "Q"},
    {"MTLDevice", "newCommandQueue", "@"},
    {"MTLDevice", "newBufferWithLength:options:", "@QQ"},
    {"MTLDevice", "newLibraryWithSource:options:error:", "@@@^"},
    {"MTLDevice", "newComputePipelineStateWithFunction:error:", "@@^"},
    {"NSString", "UTF8String", "*"},
    {"class NSString", "stringWithUTF8String:", "@*"},
    {"class MTLCompileOptions", "new", "@"},
    {"MTLCompileOptions", "setFastMathEnabled:", "vB"},
    {"MTLCompileOptions", "setLanguageVersion:", "vQ"},
    {"NSError", "localizedDescription", "@"},
    {"MTLLibrary", "newFunctionWithName:", "@@"},
    {"MTLComputePipelineState", "maxTotalThreadsPerThreadgroup", "Q"},
    {"MTLComputePipelineState", "threadExecutionWidth", "Q"},
    {"MTLCommandQueue", "device", "@"},
    {"MTLCommandQueue", "commandBuffer", "@"},
    {"MTLCommandBuffer", "computeCommandEncoder", "@"},
    {"MTLCommandBuffer", "blitCommandEncoder", "@"},
    {"MTLCommandBuffer", "commit", "v"},
    {"MTLCommandBuffer", "waitUntilCompleted", "v"},
    {"MTLCommandBuffer", "status", "Q"},
    {"MTLCommandBuffer", "error", "@"},
    {"MTLCommandBuffer", "GPUStartTime", "d"},
    {"MTLCommandBuffer", "GPUEndTime", "d"},
    {"MTLBuffer", "contents", "^"},
    {"MTLBuffer", "length", "Q"},
    {"MTLBuffer", "gpuAddress", "Q"},
    {"MTLComputeCommandEncoder", "setComputePipelineState:", "v@"},
    {"MTLComputeCommandEncoder", "setBytes:length:atIndex:", "v^QQ"},
    {"MTLComputeCommandEncoder", "setThreadgroupMemoryLength:atIndex:", "vQQ"},
    {"MTLComputeCommandEncoder", "useResource:usage:", "v@Q"},
    {"MTLComputeCommandEncoder", "dispatchThreadgroups:threadsPerThreadgroup:", "vSS"},
    {"MTLComputeCommandEncoder", "endEncoding", "v"},
    {"MTLBlitCommandEncoder", "fillBuffer:range:value:", "v@RC"},
    {"MTLBlitCommandEncoder", "endEncoding", "v"},
    {"*", "retain", "@"},
    {"*", "release", "v"},
};
enum { MESSAGES = sizeof messages / sizeof *messages };

EXPORT const MetalDoubleMessage *metal_double_messages(unsigned *count)
{
    *count = MESSAGES;
    return messages;
}

/* A selector is the first message of its name. */
EXPORT const void *sel_registerName(const char *name);
const void *sel_registerName(const char *name)
{
    for (int n = 0; n < MESSAGES; n++)
        if (strcmp(messages[n].selector, name) == 0) return messages[n].selector;
    broken("nobody has the selector %s", name);
    return "";
}

static int takes(const char *is, const char *selector)
{
    for (int n = 0; n < MESSAGES; n++)
        if ((strcmp(messages[n].of, is) == 0 || messages[n].of[0] == '*') &&
            strcmp(messages[n].selector, selector) == 0)
            return 1;
    return 0;
}

static int must_be(const Object *o, const char *is, const char *selector)
{
    if (o && strcmp(o->is, is) == 0) return 1;
    broken("%s is given %s, expected %s", selector, o ? o->is : "nil", is);
    return 0;
}

/* ---- devices */

/* Is this call, one of those that can, told to fail? */
static int fails(const char *selector)
{
    if (++told.calls != told.fail_at) return 0;
    told.failed = selector;
    return 1;
}

EXPORT void *metal_double_devices(void)
{
    pthread_mutex_lock(&lock);
    Object *all = fails("MTLCopyAllDevices") ? NULL : make("NSArray");
    pthread_mutex_unlock(&lock);
    return all;
}

static void set_error(uint64_t place, const char *text)
{
    if (!place) return;
    Object *error = make("NSError");
    error->text = strdup(text);
    *(Object **)(uintptr_t)place = autorelease(error);
}

/* A text, compiled; the first few are kept where a test asks for the same again and again. */
static MetalText *compile(const char *source, char *why, size_t room)
{
    int n = 0;
    for (; n < KEPT && kept[n]; n++)
        if (strcmp(source, kept_source[n]) == 0) return kept[n];
    if (strncmp(source, "// MSL", 6) == 0 && metal_lint(source, why, room))
        return NULL; /* not what tests write by hand */
    MetalText *compiled = metal_compile(source, why, room);
    if (!told.keeps || !compiled || n == KEPT) return compiled;
    kept_source[n] = strdup(source);
    return kept[n] = compiled;
}

static Object *new_library(Object *source, Object *options, uint64_t error)
{
    char why[4096] = "";
    if (!must_be(source, "NSString", "newLibraryWithSource") ||
        !must_be(options, "MTLCompileOptions", "newLibraryWithSource"))
        return NULL;
    if (options->fast) broken("a library is compiled with fast math");
    if (options->language < 3 << 16) broken("a library is compiled for a language before 3.0");
    MetalText *compiled = compile(source->text, why, sizeof why);
    if (!compiled) {
        set_error(error, why);
        return NULL;
    }
    Object *library = make("MTLLibrary");
    library->compiled = compiled;
    return library;
}

static Object *new_buffer(uint64_t length)
{
    Object *o = make("MTLBuffer");
    o->length = length;
    if (length == 0 || posix_memalign(&o->memory, 4096, length)) {
        drop(o);
        return NULL;
    }
    memset(o->memory, 0xff, length);
    return o;
}

/* What a double of a device makes; what it cannot make is nil. */
static Object *make_of_device(const char *selector, uint64_t a, uint64_t b, uint64_t c)
{
    if (strcmp(selector, "newCommandQueue") == 0)
        return fails(selector) ? NULL : make("MTLCommandQueue");
    if (strncmp(selector, "newBuffer", 9) == 0) {
        if (b) broken("a buffer has options %llu", (unsigned long long)b);
        return fails(selector) ? NULL : new_buffer(a);
    }
    if (strncmp(selector, "newLibrary", 10) == 0) {
        if (!fails(selector)) return new_library((Object *)(uintptr_t)a, (Object *)(uintptr_t)b, c);
        set_error(c, "told to fail");
        return NULL;
    }
    if (!must_be((Object *)(uintptr_t)a, "MTLFunction", selector)) return NULL;
    if (fails(selector)) {
        set_error(b, "told to fail");
        return NULL;
    }
    Object *pipeline = make("MTLComputePipelineState");
    pipeline->owner = keep((Object *)(uintptr_t)a);
    return pipeline;
}

static Answer to_device(const char *selector, uint64_t a, uint64_t b, uint64_t c)
{
    if (strcmp(selector, "name") == 0)
        return (Answer){(uintptr_t)autorelease(string("double of a GPU")), 0};
    if (strncmp(selector, "supports", 8) == 0)
        return (Answer){a == 5001 || (a == 1007 && !told.old), 0};
    if (strncmp(selector, "recommended", 11) == 0) return (Answer){8ull << 30, 0};
    return (Answer){(uintptr_t)make_of_device(selector, a, b, c), 0};
}

/* ---- commands */

static Object *new_encoder(Object *commands, const char *selector, const char *is)
{
    if (commands->state || commands->encoding)
        broken("%s of commands that are encoded or committed", is);
    if (fails(selector)) return NULL;
    Object *encoder = make(is);
    encoder->owner = keep(commands);
    commands->encoding = 1;
    return autorelease(encoder);
}

static void run(Object *encoder, const uint64_t *grid, const uint64_t *block)
{
    char why[1024];
    Object *pipeline = encoder->pipeline, *commands = encoder->owner;
    if (!pipeline) {
        broken("a dispatch without a pipeline");
        return;
    }
    const ShimLaunch launch = {.kernel = pipeline->owner->text,
                               .slots = encoder->slots,
                               .slot_bytes = encoder->slot_bytes,
                               .shared_bytes = encoder->shared_bytes,
                               .grid = {grid[0], grid[1], grid[2]},
                               .threads = block[0] * block[1] * block[2],
                               .buffers = encoder->used,
                               .buffer_count = encoder->used_count,
                               .turned = told.turned};
    if (grid[0] * grid[1] * grid[2] == 0) broken("a dispatch of no threadgroups");
    if (told.gpu_fails || commands->state == 5) {
        commands->state = 5;
    } else if (metal_run(pipeline->owner->owner->compiled, &launch, why, sizeof why)) {
        commands->state = 5;
        commands->text = strdup(why);
    }
}

static Answer to_encoder(Object *o, const char *selector, const uint64_t *n, const uint64_t *sizes)
{
    Object *given = (Object *)(uintptr_t)n[0];
    if (!o->owner->encoding) broken("%s after endEncoding", selector);
    if (strncmp(selector, "setComp", 7) == 0) {
        if (must_be(given, "MTLComputePipelineState", selector)) o->pipeline = keep(given);
    } else if (strncmp(selector, "setBytes", 8) == 0) {
        if (n[1] > 4096 || n[2] > 30)
            broken("setBytes of %llu bytes at %llu", (unsigned long long)n[1],
                   (unsigned long long)n[2]);
        else
            memcpy(o->slots, (const void *)(uintptr_t)n[0], o->slot_bytes = n[1]);
    } else if (strncmp(selector, "setThreadgroup", 14) == 0) {
        if (n[0] % 16 || n[0] > 32 << 10 || n[1] > 30)
            broken("threadgroup memory of %llu bytes", (unsigned long long)n[0]);
        o->shared_bytes = n[0];
    } else if (strncmp(selector, "use", 3) == 0) {
        if (must_be(given, "MTLBuffer", selector) && o->used_count < 256)
            o->used[o->used_count++] = (ShimBuffer){(uintptr_t)given->memory, given->length};
    } else if (strncmp(selector, "dispatch", 8) == 0) {
        run(o, sizes, sizes + 3);
    } else if (strncmp(selector, "fill", 4) == 0) {
        if (must_be(given, "MTLBuffer", selector) &&
            (n[1] > given->length || n[2] > given->length - n[1] || n[2] == 0))
            broken("a fill of bytes outside of its buffer");
        else
            memset((char *)given->memory + n[1], (int)(uint8_t)n[3], n[2]);
    } else {
        o->owner->encoding = 0;
    }
    return (Answer){0, 0};
}

static Answer to_commands(Object *o, const char *selector)
{
    static double clock;
    if (strcmp(selector, "computeCommandEncoder") == 0)
        return (Answer){(uintptr_t)new_encoder(o, selector, "MTLComputeCommandEncoder"), 0};
    if (strcmp(selector, "blitCommandEncoder") == 0)
        return (Answer){(uintptr_t)new_encoder(o, selector, "MTLBlitCommandEncoder"), 0};
    if (strcmp(selector, "commit") == 0) {
        if (o->encoding) broken("commit before endEncoding");
        if (o->state && o->state != 5) broken("commands are committed twice");
        if (o->state != 5) o->state = 4;
        if (fails(selector)) o->state = 5;
        o->start = clock; /* each takes a microsecond, one after the other */
        o->end = clock += 1e-6;
    } else if (strcmp(selector, "waitUntilCompleted") == 0) {
        if (!o->state) broken("a wait for commands that were not committed");
    } else if (strcmp(selector, "status") == 0) {
        return (Answer){(uint64_t)o->state, 0};
    } else if (strcmp(selector, "error") == 0) {
        Object *error = make("NSError");
        error->text = strdup(o->text ? o->text : "the GPU was told to fail");
        return (Answer){(uintptr_t)autorelease(error), 0};
    }
    return (Answer){0, strcmp(selector, "GPUStartTime") == 0 ? o->start : o->end};
}

/* ---- the one function */

static Answer answer(Object *o, const char *selector, const uint64_t *n, const uint64_t *sizes)
{
    const char *is = o->is;
    if (strcmp(selector, "retain") == 0) return (Answer){(uintptr_t)keep(o), 0};
    if (strcmp(selector, "release") == 0) {
        drop(o);
        return (Answer){0, 0};
    }
    if (strcmp(is, "NSArray") == 0)
        return (Answer){strcmp(selector, "count") == 0 ? 1 : (uintptr_t)&device, 0};
    if (strcmp(is, "class NSString") == 0) {
        if (fails(selector)) return (Answer){0, 0};
        return (Answer){(uintptr_t)autorelease(string((const char *)(uintptr_t)n[0])), 0};
    }
    if (strcmp(is, "class MTLCompileOptions") == 0) {
        if (fails(selector)) return (Answer){0, 0};
        Object *options = make("MTLCompileOptions");
        options->fast = 1;
        return (Answer){(uintptr_t)options, 0};
    }
    if (strcmp(is, "NSString") == 0) return (Answer){(uintptr_t)o->text, 0};
    if (strcmp(is, "NSError") == 0) return (Answer){(uintptr_t)autorelease(string(o->text)), 0};
    if (strcmp(is, "MTLCompileOptions") == 0) {
        if (selector[3] == 'F')
            o->fast = (int8_t)n[0];
        else
            o->language = n[0];
    }
    if (strcmp(is, "MTLDevice") == 0) return to_device(selector, n[0], n[1], n[2]);
    if (strcmp(is, "MTLLibrary") == 0) {
        Object *wanted = (Object *)(uintptr_t)n[0];
        if (!must_be(wanted, "NSString", selector) || fails(selector) ||
            !metal_has(o->compiled, wanted->text))
            return (Answer){0, 0};
        Object *function = make("MTLFunction");
        function->text = strdup(wanted->text);
        function->owner = keep(o);
        return (Answer){(uintptr_t)function, 0};
    }
    if (strcmp(is, "MTLComputePipelineState") == 0)
        return (Answer){(uint64_t)(selector[0] == 'm' ? told.most_threads ? told.most_threads : 1024
                                   : told.width       ? told.width
                                                      : 32),
                        0};
    if (strcmp(is, "MTLCommandQueue") == 0) {
        if (strcmp(selector, "device") == 0) return (Answer){(uintptr_t)&device, 0};
        return (Answer){fails(selector) ? 0 : (uintptr_t)autorelease(make("MTLCommandBuffer")), 0};
    }
    if (strcmp(is, "MTLBuffer") == 0) {
        if (strcmp(selector, "contents") == 0 && fails(selector)) return (Answer){0, 0};
        return (Answer){selector[0] == 'l' ? o->length : (uintptr_t)o->memory, 0};
    }
    if (strcmp(is, "MTLCommandBuffer") == 0) return to_commands(o, selector);
    if (strstr(is, "Encoder")) return to_encoder(o, selector, n, sizes);
    return (Answer){0, 0};
}

/* Something that is not nil; of command buffers that they are done. */
static Answer idle_answer(const char *selector)
{
    enum { DONE = 4 };
    return (Answer){selector[0] == 's' && selector[1] == 't' ? DONE : (uintptr_t)&device, 0};
}

typedef struct Six {
    uint64_t n[6];
} Six;
EXPORT Answer objc_msgSend(Object *o, const char *selector, uint64_t a, uint64_t b, uint64_t c,
                           uint64_t d, Six sizes);
Answer objc_msgSend(Object *o, const char *selector, uint64_t a, uint64_t b, uint64_t c, uint64_t d,
                    Six sizes)
{
    const uint64_t n[4] = {a, b, c, d};
    if (!o) return (Answer){0, 0};
    if (told.idle) return idle_answer(selector);
    pthread_mutex_lock(&lock);
    Answer result = {0, 0};
    if (takes(o->is, selector))
        result = answer(o, selector, n, sizes.n);
    else
        broken("%s does not have %s", o->is, selector);
    pthread_mutex_unlock(&lock);
    return result;
}
