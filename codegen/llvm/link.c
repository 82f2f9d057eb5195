/* link.c - constant images as objects, and objects as shared libraries, all in memory.
 *
 * An image becomes one constant of LLVM, bytes and addresses alternating, so that relocations are LLVM's business.
 * Linking is lld's, in the process. Its inputs are memory (memfd), its output is a pipe that a thread of ours empties: lld maps
 * an output that is a file, and a full disk under a mapping is a signal, no error. No folder is written to. The result exports
 * one symbol, needs no library, and depends on nothing but its inputs: no build id, no paths, no symbol table beyond the
 * dynamic one. */
#include "../calls.h"
#include "lld_bridge.h"
#include "llvm.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- images */

static int by_place(const void *a, const void *b)
{
    const AuImageFix *x = a, *y = b;
    return x->at < y->at ? -1 : x->at > y->at;
}

static AuImageFix *sorted_fixes(AuArena *arena, const AuImage *image)
{
    AuImageFix *fixes = AU_NEW_ARRAY(arena, AuImageFix, image->fix_count + 1);
    if (image->fix_count) memcpy(fixes, image->fixes, image->fix_count * sizeof *fixes);
    qsort(fixes, image->fix_count, sizeof *fixes, by_place);
    return fixes;
}

static LLVMValueRef bytes_between(const LlvmUnit *unit, const AuImage *image, uint64_t from,
                                  uint64_t to)
{
    return LLVMConstStringInContext2(unit->context, (const char *)image->bytes + from, to - from,
                                     true);
}

static LLVMValueRef address_in(const LlvmUnit *unit, LLVMValueRef self, const AuImageFix *fix)
{
    if (fix->symbol) {
        LLVMTypeRef none = LLVMFunctionType(LLVMVoidTypeInContext(unit->context), NULL, 0, false);
        LLVMValueRef known = LLVMGetNamedFunction(unit->module, fix->symbol);
        return known ? known : LLVMAddFunction(unit->module, fix->symbol, none);
    }
    LLVMValueRef offset = LLVMConstInt(LLVMInt64TypeInContext(unit->context), fix->offset, false);
    return LLVMConstGEP2(LLVMInt8TypeInContext(unit->context), self, &offset, 1);
}

/* The type must be known before the constant that names its own address: first the shape, then the content. */
static void define_image(AuArena *arena, const LlvmUnit *unit, const AuImage *image,
                         const char *symbol)
{
    const AuImageFix *fixes = sorted_fixes(arena, image);
    const uint32_t parts = 2 * image->fix_count + 1;
    LLVMTypeRef *types = AU_NEW_ARRAY(arena, LLVMTypeRef, parts);
    LLVMValueRef *values = AU_NEW_ARRAY(arena, LLVMValueRef, parts);
    LLVMTypeRef ptr = LLVMPointerTypeInContext(unit->context, 0);
    uint64_t at = 0;
    for (uint32_t n = 0; n <= image->fix_count; n++) {
        const uint64_t next = n < image->fix_count ? fixes[n].at : image->length;
        values[2 * n] = bytes_between(unit, image, at, next);
        types[2 * n] = LLVMTypeOf(values[2 * n]);
        if (n < image->fix_count) types[2 * n + 1] = ptr;
        at = next + sizeof(uint64_t);
    }
    LLVMTypeRef type = LLVMStructTypeInContext(unit->context, types, parts, true);
    LLVMValueRef self = LLVMAddGlobal(unit->module, type, symbol);
    for (uint32_t n = 0; n < image->fix_count; n++)
        values[2 * n + 1] = address_in(unit, self, &fixes[n]);
    LLVMSetInitializer(self, LLVMConstStructInContext(unit->context, values, parts, true));
    LLVMSetGlobalConstant(self, true);
    LLVMSetAlignment(self, 64);
}

bool au_image_object(AuArena *arena, AuDiags *diags, const AuImage *image, const char *symbol,
                     const AuArch *arch, AuBlob *out)
{
    LlvmUnit unit;
    if (!au_image_is_sound(diags, image)) return false;
    if (!llvm_open(&unit, diags, llvm_host(arch), symbol, 0, false)) return false;
    define_image(arena, &unit, image, symbol);
    const bool good = llvm_emit(&unit, arena, diags, false, out);
    return llvm_close(&unit, diags) && good;
}

/* ---- linking */

typedef struct MemoryFile {
    int handle;
    char path[32];
} MemoryFile;

static bool open_file(AuDiags *diags, MemoryFile *file, const void *bytes, size_t length)
{
    file->handle = memfd_create("aule", MFD_CLOEXEC);
    snprintf(file->path, sizeof file->path, "/proc/self/fd/%d", file->handle);
    const char *at = bytes;
    bool good = file->handle >= 0;
    while (good && length) {
        const ssize_t wrote = write(file->handle, at, length);
        if (wrote < 0 && errno == EINTR) continue;
        good = wrote > 0;
        if (good) at += wrote, length -= (size_t)wrote;
    }
    if (!good) au_error(diags, AU_E0002, (AuSpan){0}, "memory for the linker: %s", strerror(errno));
    return good;
}

/* What comes out of a pipe, gathered by a thread so that who writes into it need not wait for us. */
typedef struct Collector {
    pthread_t thread;
    int ends[2]; /* to read from, to write into */
    char *bytes; /* malloc's: arenas are not shared between threads */
    size_t length, capacity;
    int error;
} Collector;

static bool make_room(Collector *c)
{
    enum { LEAST = 1 << 20 };
    if (c->length < c->capacity) return true;
    const size_t capacity = c->capacity ? c->capacity * 2 : LEAST;
    char *more = realloc(c->bytes, capacity);
    if (!more) return false;
    c->bytes = more;
    c->capacity = capacity;
    return true;
}

/* Reads to the end also where there is no memory: the writer must not wait for ever. */
static void *collect(void *user)
{
    Collector *c = user;
    char lost[4096];
    for (ssize_t got = 1; got != 0;) {
        if (!c->error && !make_room(c)) c->error = ENOMEM;
        got = c->error ? read(c->ends[0], lost, sizeof lost)
                       : read(c->ends[0], c->bytes + c->length, c->capacity - c->length);
        if (got > 0 && !c->error) c->length += (size_t)got;
    }
    return NULL;
}

static bool start_collecting(Collector *c)
{
    *c = (Collector){.ends = {-1, -1}};
    /* The thread, once it runs, has `error` for itself. */
    const int failed =
        pipe2(c->ends, O_CLOEXEC) ? errno : pthread_create(&c->thread, NULL, collect, c);
    if (failed) c->error = failed;
    for (int n = 0; failed && n < 2; n++)
        if (c->ends[n] >= 0) close(c->ends[n]);
    return !failed;
}

/* When nobody else writes any more. */
static void stop_collecting(Collector *c)
{
    close(c->ends[1]);
    pthread_join(c->thread, NULL);
    close(c->ends[0]);
}

/* arguments: of a command line, which ends in two places for the output. While the thread runs nothing is taken from the
 * arena, which may leave this frame when memory is short. */
static bool run_linker(AuArena *arena, AuDiags *diags, const char **arguments, uint32_t count,
                       AuBlob *out)
{
    Collector c;
    char path[32], *message = NULL;
    int code = 1;
    if (start_collecting(&c)) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", c.ends[1]);
        arguments[count++] = "-o";
        arguments[count++] = path;
        code = lld_link_elf((int)count, arguments, &message);
        stop_collecting(&c);
    }
    if (c.error)
        au_error(diags, AU_E0001, (AuSpan){0}, "what the linker writes: %s", strerror(c.error));
    else if (code)
        au_error(diags, AU_E0004, (AuSpan){0}, "linking: %s", message ? message : "failed");
    else
        *out = (AuBlob){au_strndup(arena, c.bytes, c.length), c.length};
    free(c.bytes);
    free(message);
    return code == 0 && !c.error;
}

static bool link_files(AuArena *arena, AuDiags *diags, MemoryFile *files, const AuBlob *objects,
                       uint32_t count, const char *const *options, uint32_t option_count,
                       AuBlob *out)
{
    const char **arguments = AU_NEW_ARRAY(arena, const char *, option_count + count + 3);
    uint32_t at = 0;
    bool good = true;
    arguments[at++] = "ld.lld";
    for (uint32_t n = 0; n < option_count; n++) arguments[at++] = options[n];
    for (uint32_t n = 0; n < count; n++) files[n].handle = -1;
    for (uint32_t n = 0; good && n < count; n++) {
        good = open_file(diags, &files[n], objects[n].bytes, objects[n].length);
        arguments[at++] = files[n].path;
    }
    good = good && run_linker(arena, diags, arguments, at, out);
    for (uint32_t n = 0; n < count; n++)
        if (files[n].handle >= 0) close(files[n].handle);
    return good;
}

bool au_link_shared(AuArena *arena, AuDiags *diags, const AuBlob *objects, uint32_t count,
                    const char *export_symbol, const AuArch *arch, AuBlob *out)
{
    (void)arch; /* lld takes the machine from the objects */
    MemoryFile script = {.handle = -1};
    const char *text = au_format(arena, "{ global: %s; local: *; };\n", export_symbol);
    bool good = open_file(diags, &script, text, strlen(text));
    const char *const options[] = {
        "-shared",           "--no-undefined",        "--gc-sections",    "--build-id=none",
        "--strip-all",       "--hash-style=gnu",      "--threads=1",      "-znow",
        "-znoseparate-code", "-zmax-page-size=65536", "--version-script", script.path};
    MemoryFile *files = AU_NEW_ARRAY(arena, MemoryFile, count + 1);
    good = good && link_files(arena, diags, files, objects, count, options,
                              sizeof options / sizeof *options, out);
    if (script.handle >= 0) close(script.handle);
    return good;
}

bool au_link_object(AuArena *arena, AuDiags *diags, const AuBlob *objects, uint32_t count,
                    AuBlob *out)
{
    static const char *const options[] = {"-r", "--build-id=none", "--threads=1"};
    MemoryFile *files = AU_NEW_ARRAY(arena, MemoryFile, count + 1);
    return link_files(arena, diags, files, objects, count, options,
                      sizeof options / sizeof *options, out);
}

/* Symbols stay: of each kernel its code and its descriptor, by which drivers find it. */
bool llvm_link_code_object(AuArena *arena, AuDiags *diags, AuBlob *object)
{
    static const char *const options[] = {"-shared", "--no-undefined", "--build-id=none",
                                          "--strip-debug", "--threads=1"};
    MemoryFile file;
    return link_files(arena, diags, &file, object, 1, options, sizeof options / sizeof *options,
                      object);
}
