/* link.c - constant images as objects, and objects as shared libraries, all in memory.
 *
 * An image becomes one constant of LLVM, bytes and addresses alternating, so that relocations are LLVM's business.
 * Linking is lld's, in the process. Its inputs are memory (memfd). Its output must be a name it can create beside a temporary
 * one, so that lies in a folder of our own in $TMPDIR, which nobody else may enter, and is gone before we return. The result exports one symbol, needs no library, and depends on nothing but its inputs: no build id, no
 * paths, no symbol table beyond the dynamic one. */
#include "../calls.h"
#include "lld_bridge.h"
#include "llvm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
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

static bool is_sound(AuDiags *diags, const AuImage *image)
{
    for (uint32_t n = 0; n < image->fix_count; n++) {
        const AuImageFix *fix = &image->fixes[n];
        if (fix->at % 8 == 0 && fix->at + 8 <= image->length &&
            (fix->symbol || fix->offset <= image->length))
            continue;
        au_error(diags, AU_E0004, (AuSpan){0},
                 "address %u of an image of %llu bytes lies outside of it", n,
                 (unsigned long long)image->length);
        return false;
    }
    return true;
}

bool au_image_object(AuArena *arena, AuDiags *diags, const AuImage *image, const char *symbol,
                     const AuArch *arch, AuBlob *out)
{
    LlvmUnit unit;
    if (!is_sound(diags, image)) return false;
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

/* All of a file whose length is known to the system. */
static bool read_file(AuArena *arena, AuDiags *diags, const char *path, AuBlob *out)
{
    struct stat info;
    const int handle = open(path, O_RDONLY | O_CLOEXEC);
    bool good = handle >= 0 && !fstat(handle, &info);
    if (good) {
        *out = (AuBlob){mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, handle, 0),
                        (size_t)info.st_size};
        good = out->bytes != MAP_FAILED;
    }
    if (!good) au_error(diags, AU_E0001, (AuSpan){0}, "what the linker wrote: %s", strerror(errno));
    if (handle >= 0) close(handle);
    if (!good) return false;
    char *bytes = au_alloc(arena, out->length);
    memcpy(bytes, out->bytes, out->length);
    munmap((void *)(uintptr_t)out->bytes, out->length);
    out->bytes = bytes;
    return true;
}

static bool run_linker(AuArena *arena, AuDiags *diags, const MemoryFile *files, uint32_t count,
                       const char *const *options, uint32_t option_count, const char *result)
{
    const char **arguments = AU_NEW_ARRAY(arena, const char *, option_count + count + 3);
    uint32_t at = 0;
    arguments[at++] = "ld.lld";
    for (uint32_t n = 0; n < option_count; n++) arguments[at++] = options[n];
    arguments[at++] = "-o";
    arguments[at++] = result;
    for (uint32_t n = 0; n < count; n++) arguments[at++] = files[n].path;
    char *message = NULL;
    const int code = lld_link_elf((int)at, arguments, &message);
    if (code) au_error(diags, AU_E0004, (AuSpan){0}, "linking: %s", message ? message : "failed");
    free(message);
    return code == 0;
}

/* A folder that only we may enter; NULL: none could be made. */
static char *open_folder(AuArena *arena, AuDiags *diags)
{
    const char *where = getenv("TMPDIR");
    char *folder = au_format(arena, "%s/aulec-XXXXXX", where && *where ? where : "/tmp");
    if (mkdtemp(folder)) return folder;
    au_error(diags, AU_E0002, (AuSpan){0}, "no temporary folder '%s': %s", folder, strerror(errno));
    return NULL;
}

static bool link_files(AuArena *arena, AuDiags *diags, MemoryFile *files, const AuBlob *objects,
                       uint32_t count, const char *const *options, uint32_t option_count,
                       AuBlob *out)
{
    const char *folder = open_folder(arena, diags);
    if (!folder) return false;
    const char *result = au_format(arena, "%s/out", folder);
    bool good = true;
    for (uint32_t n = 0; n < count; n++) files[n].handle = -1;
    for (uint32_t n = 0; good && n < count; n++)
        good = open_file(diags, &files[n], objects[n].bytes, objects[n].length);
    good = good && run_linker(arena, diags, files, count, options, option_count, result) &&
           read_file(arena, diags, result, out);
    unlink(result);
    rmdir(folder);
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
