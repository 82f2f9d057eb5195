/* metal_double.c - libobjc with Metal behind it, for Linux on x86-64: objects have a class and a count, messages are looked up in a table
 * that was written from Apple's documents, arguments are checked for their classes and limits, and kernels run by the shim
 * (metal_compile.c). Misuse is remembered (broken) and printed; the tests look at it.
 * objc_msgSend is one function here: it is called through pointers of other types, whose arguments the x86-64 ABI puts where this
 * definition finds them; it answers with an integer and a double, which lie where callers of either look. */
#include "metal_objects.h"

#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

typedef struct Answer {
    uint64_t number;
    double real;
} Answer;

/* ---- classes and selectors */

EXPORT void *objc_getClass(const char *name);
void *objc_getClass(const char *name)
{
    static Object of[] = {
        {.is = "class NSString", .count = 1},
        {.is = "class NSArray", .count = 1},
        {.is = "class NSURL", .count = 1},
        {.is = "class NSProcessInfo", .count = 1},
        {.is = "class MTLCompileOptions", .count = 1},
        {.is = "class MTLBinaryArchiveDescriptor", .count = 1},
        {.is = "class MTLComputePipelineDescriptor", .count = 1},
    };
    for (size_t n = 0; n < sizeof of / sizeof *of; n++)
        if (strcmp(of[n].is + strlen("class "), name) == 0) return &of[n];
    return NULL;
}

/* Apple's documents of NSObject, NSString, NSArray, NSError, MTLDevice and what it makes. */
static const MetalDoubleMessage messages[] = {
    {"NSArray", "count", "Q"},
    {"NSArray", "objectAtIndex:", "@Q"},
    {"MTLDevice", "name", "@"},
    {"MTLDevice", "supportsFamily:", "Bq"},
    {"MTLDevice", "registryID", "Q"},
    {"MTLDevice", "recommendedMaxWorkingSetSize", "Q"},
    {"MTLDevice", "maxThreadgroupMemoryLength", "Q"},
    {"MTLDevice", "newCommandQueue", "@"},
    {"MTLDevice", "newBufferWithLength:options:", "@QQ"},
    {"MTLDevice", "newLibraryWithSource:options:error:", "@@@^"},
    {"MTLDevice", "newComputePipelineStateWithDescriptor:options:reflection:error:", "@@Q^^"},
    {"MTLDevice", "newBufferWithBytesNoCopy:length:options:deallocator:", "@^QQ@"},
    {"MTLDevice", "newBinaryArchiveWithDescriptor:error:", "@@^"},
    {"class NSArray", "arrayWithObject:", "@@"},
    {"class NSURL", "fileURLWithPath:", "@@"},
    {"class NSProcessInfo", "processInfo", "@"},
    {"NSProcessInfo", "operatingSystemVersionString", "@"},
    {"NSProcessInfo", "isOperatingSystemAtLeastVersion:", "BS"},
    {"class MTLBinaryArchiveDescriptor", "new", "@"},
    {"MTLBinaryArchiveDescriptor", "setUrl:", "v@"},
    {"class MTLComputePipelineDescriptor", "new", "@"},
    {"MTLComputePipelineDescriptor", "setComputeFunction:", "v@"},
    {"MTLComputePipelineDescriptor", "setBinaryArchives:", "v@"},
    {"MTLBinaryArchive", "addComputePipelineFunctionsWithDescriptor:error:", "B@^"},
    {"MTLBinaryArchive", "serializeToURL:error:", "B@^"},
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
    {"MTLCommandBuffer", "device", "@"},
    {"MTLCommandBuffer", "computeCommandEncoder", "@"},
    {"MTLCommandBuffer", "blitCommandEncoder", "@"},
    {"MTLCommandBuffer", "commit", "v"},
    {"MTLCommandBuffer", "waitUntilCompleted", "v"},
    {"MTLCommandBuffer", "status", "Q"},
    {"MTLCommandBuffer", "error", "@"},
    {"MTLCommandBuffer", "GPUStartTime", "d"},
    {"MTLCommandBuffer", "GPUEndTime", "d"},
    {"MTLBuffer", "device", "@"},
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
    metal_broken("nobody has the selector %s", name);
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

/* ---- devices */

EXPORT void *metal_double_devices(void)
{
    pthread_mutex_lock(&metal_lock);
    Object *all = metal_fails("MTLCopyAllDevices") ? NULL : metal_make("NSArray");
    pthread_mutex_unlock(&metal_lock);
    return all;
}

enum { MOST_SHARED = 32768 };
/* Of a device itself, of what it made or of what that made. */
static Object *device_of(Object *o)
{
    while (o && strcmp(o->is, "MTLDevice") != 0) o = o->owner;
    return o;
}

static Answer to_device(Object *o, const char *selector, const uint64_t *n)
{
    if (strcmp(selector, "name") == 0)
        return (Answer){(uintptr_t)metal_autorelease(metal_string(
                            o == &metal_second ? "second of two GPUs" : "double of a GPU")),
                        0};
    if (strcmp(selector, "registryID") == 0)
        return (Answer){o == &metal_second && !metal_told.alike ? 4712 : 4711, 0};
    if (strncmp(selector, "supports", 8) == 0)
        return (Answer){n[0] == 5001 ? metal_macos() >= 13
                                     : n[0] > 1000 && n[0] - 1000 <= (uint64_t)metal_family(),
                        0};
    if (strcmp(selector, "maxThreadgroupMemoryLength") == 0) return (Answer){MOST_SHARED, 0};
    if (strncmp(selector, "recommended", 11) == 0) return (Answer){8ull << 30, 0};
    Object *made = metal_made(selector, n);
    if (made && !made->owner) made->owner = metal_keep(o);
    return (Answer){(uintptr_t)made, 0};
}

/* ---- commands */

static Object *new_encoder(Object *commands, const char *selector, const char *is)
{
    if (commands->state || commands->encoding)
        metal_broken("%s of commands that are encoded or committed", is);
    if (metal_fails(selector)) return NULL;
    Object *encoder = metal_make(is);
    encoder->owner = metal_keep(commands);
    commands->encoding = 1;
    return metal_autorelease(encoder);
}

static void run(Object *encoder, const uint64_t *grid, const uint64_t *block)
{
    char why[1024];
    Object *pipeline = encoder->pipeline, *commands = encoder->owner;
    if (!pipeline) {
        metal_broken("a dispatch without a pipeline");
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
                               .turned = metal_told.turned};
    if (!launch.threads || launch.threads > 1024 || launch.shared_bytes > MOST_SHARED)
        metal_broken("a dispatch of no threads, of too many or of too much threadgroup memory");
    if (grid[0] * grid[1] * grid[2] == 0) metal_broken("a dispatch of no threadgroups");
    if (metal_told.gpu_fails || commands->fails) {
        commands->fails = 1;
    } else if (metal_run(pipeline->owner->owner->compiled, &launch, why, sizeof why)) {
        commands->fails = 1;
        commands->text = strdup(why);
    }
}

static Answer to_encoder(Object *o, const char *selector, const uint64_t *n, const uint64_t *sizes)
{
    Object *given = (Object *)(uintptr_t)n[0];
    if (!o->owner->encoding) metal_broken("%s after endEncoding", selector);
    if (strncmp(selector, "setComp", 7) == 0) {
        if (metal_must_be(given, "MTLComputePipelineState", selector))
            o->pipeline = metal_keep(given);
    } else if (strncmp(selector, "setBytes", 8) == 0) {
        if (n[1] > 4096 || n[2] > 30)
            metal_broken("setBytes of %llu bytes at %llu", (unsigned long long)n[1],
                         (unsigned long long)n[2]);
        else
            memcpy(o->slots, (const void *)(uintptr_t)n[0], o->slot_bytes = n[1]);
    } else if (strncmp(selector, "setThreadgroup", 14) == 0) {
        if (n[0] % 16 || n[0] > 32 << 10 || n[1] > 30)
            metal_broken("threadgroup memory of %llu bytes", (unsigned long long)n[0]);
        o->shared_bytes = n[0];
    } else if (strncmp(selector, "use", 3) == 0) {
        if (metal_must_be(given, "MTLBuffer", selector) && o->used_count < 256)
            o->used[o->used_count++] = (ShimBuffer){(uintptr_t)given->memory, given->length};
    } else if (strncmp(selector, "dispatch", 8) == 0) {
        run(o, sizes, sizes + 3);
    } else if (strncmp(selector, "fill", 4) == 0) {
        if (metal_must_be(given, "MTLBuffer", selector) &&
            (n[1] > given->length || n[2] > given->length - n[1] || n[2] == 0))
            metal_broken("a fill of bytes outside of its buffer");
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
        if (o->encoding) metal_broken("commit before endEncoding");
        if (o->state) metal_broken("commands are committed twice");
        if (metal_fails(selector)) o->fails = 1;
        o->state = 2;
        if (!metal_told.slow) metal_finish();
        o->start = clock; /* each takes a microsecond, one after the other */
        o->end = clock += 1e-6;
    } else if (strcmp(selector, "waitUntilCompleted") == 0) {
        if (!o->state) metal_broken("a wait for commands that were not committed");
        metal_finish();
    } else if (strcmp(selector, "status") == 0) {
        return (Answer){(uint64_t)o->state, 0};
    } else if (strcmp(selector, "error") == 0) {
        Object *error = metal_make("NSError");
        error->text = strdup(o->text ? o->text : "the GPU was told to fail");
        return (Answer){(uintptr_t)metal_autorelease(error), 0};
    }
    return (Answer){0, strcmp(selector, "GPUStartTime") == 0 ? o->start : o->end};
}

/* ---- the one function */

/* What classes make; but for [new] it is in the pool. */
static Object *of_class(const char *is, const char *selector, const uint64_t *n)
{
    Object *given = (Object *)(uintptr_t)n[0];
    if (strcmp(is, "NSString") == 0)
        return metal_autorelease(metal_string((const char *)(uintptr_t)n[0]));
    Object *o = metal_make(is);
    if (strcmp(selector, "new") == 0) {
        o->fast = 1;
        return o;
    }
    if (strcmp(is, "NSArray") == 0 && given) o->owner = metal_keep(given);
    if (strcmp(is, "NSURL") == 0 && metal_must_be(given, "NSString", selector))
        o->text = strdup(given->text);
    return metal_autorelease(o);
}

static Answer answer(Object *o, const char *selector, const uint64_t *n, const uint64_t *sizes)
{
    const char *is = o->is;
    if (strcmp(selector, "retain") == 0) return (Answer){(uintptr_t)metal_keep(o), 0};
    if (strcmp(selector, "release") == 0) {
        metal_drop(o);
        return (Answer){0, 0};
    }
    if (strncmp(is, "class ", 6) == 0)
        return (Answer){metal_fails(strcmp(selector, "new") == 0 ? is + 6 : selector)
                            ? 0
                            : (uintptr_t)of_class(is + 6, selector, n),
                        0};
    if (strcmp(is, "NSArray") == 0)
        return (Answer){strcmp(selector, "count") == 0 ? 1 + (uint64_t)metal_told.two
                        : n[0]                         ? (uintptr_t)&metal_second
                                                       : (uintptr_t)&metal_device,
                        0};
    if (strcmp(is, "NSProcessInfo") == 0 && selector[0] == 'i')
        return (Answer){(uint64_t)metal_macos() >= sizes[0], 0};
    if (strcmp(is, "NSProcessInfo") == 0)
        return (Answer){(uintptr_t)metal_autorelease(metal_string(
                            metal_told.system ? metal_told.system : "Version 13.0 of the double")),
                        0};
    if (strcmp(is, "MTLBinaryArchive") == 0 || strstr(is, "Descriptor"))
        return (Answer){metal_of_archives(o, selector, n), 0};
    if (strcmp(is, "NSString") == 0) return (Answer){(uintptr_t)o->text, 0};
    if (strcmp(is, "NSError") == 0)
        return (Answer){(uintptr_t)metal_autorelease(metal_string(o->text)), 0};
    if (strcmp(is, "MTLCompileOptions") == 0) {
        if (selector[3] == 'F')
            o->fast = (int8_t)n[0];
        else
            o->language = n[0];
    }
    if (strcmp(selector, "device") == 0) return (Answer){(uintptr_t)device_of(o), 0};
    if (strcmp(is, "MTLDevice") == 0) return to_device(o, selector, n);
    if (strcmp(is, "MTLLibrary") == 0) {
        Object *wanted = (Object *)(uintptr_t)n[0];
        if (!metal_must_be(wanted, "NSString", selector) || metal_fails(selector) ||
            !metal_has(o->compiled, wanted->text))
            return (Answer){0, 0};
        Object *function = metal_make("MTLFunction");
        function->text = strdup(wanted->text);
        function->owner = metal_keep(o);
        return (Answer){(uintptr_t)function, 0};
    }
    if (strcmp(is, "MTLComputePipelineState") == 0)
        return (Answer){(uint64_t)(selector[0] == 'm'
                                       ? metal_told.most_threads ? metal_told.most_threads : 1024
                                   : metal_told.width ? metal_told.width
                                                      : 32),
                        0};
    if (strcmp(is, "MTLCommandQueue") == 0) {
        if (metal_fails(selector)) return (Answer){0, 0};
        Object *commands = metal_make("MTLCommandBuffer");
        commands->owner = metal_keep(o);
        return (Answer){(uintptr_t)metal_autorelease(commands), 0};
    }
    if (strcmp(is, "MTLBuffer") == 0) {
        if (strcmp(selector, "contents") == 0 && metal_fails(selector)) return (Answer){0, 0};
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
    return (Answer){selector[0] == 's' && selector[1] == 't' ? DONE : (uintptr_t)&metal_device, 0};
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
    if (metal_told.idle) return idle_answer(selector);
    pthread_mutex_lock(&metal_lock);
    Answer result = {0, 0};
    if (takes(o->is, selector))
        result = answer(o, selector, n, sizes.n);
    else
        metal_broken("%s does not have %s", o->is, selector);
    pthread_mutex_unlock(&metal_lock);
    return result;
}
