/* link.c - constant images as objects, and objects as shared libraries, all in memory.
 *
 * An image becomes one constant of LLVM, bytes and addresses alternating, so that relocations are LLVM's business.
 * Linking is lld's, in the process. Its files are memory (memfd), never on a disk: nobody can read or replace them, nothing
 * is left behind. The result exports one symbol, needs no library, and depends on nothing but its inputs: no build id, no
 * paths, no symbol table beyond the dynamic one. */
#include "lld_bridge.h"
#include "llvm.h"

#include <errno.h>
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

static bool read_file(AuArena *arena, AuDiags *diags, const MemoryFile *file, AuBlob *out)
{
    struct stat info;
    if (fstat(file->handle, &info) || info.st_size <= 0) {
        au_error(diags, AU_E0004, (AuSpan){0}, "the linker wrote nothing");
        return false;
    }
    const size_t length = (size_t)info.st_size;
    char *bytes = au_alloc(arena, length);
    for (size_t at = 0; at < length;) {
        const ssize_t got = pread(file->handle, bytes + at, length - at, (off_t)at);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) {
            au_error(diags, AU_E0001, (AuSpan){0}, "what the linker wrote: %s", strerror(errno));
            return false;
        }
        at += (size_t)got;
    }
    *out = (AuBlob){bytes, length};
    return true;
}

static bool run_linker(AuArena *arena, AuDiags *diags, const MemoryFile *files, uint32_t count,
                       const MemoryFile *script, const MemoryFile *result)
{
    const char *const fixed[] = {"ld.lld",
                                 "-shared",
                                 "--no-undefined",
                                 "--gc-sections",
                                 "--build-id=none",
                                 "--strip-all",
                                 "--hash-style=gnu",
                                 "--threads=1",
                                 "--no-mmap-output-file",
                                 "-znow",
                                 "-znoseparate-code",
                                 "-zmax-page-size=65536",
                                 "--version-script",
                                 script->path,
                                 "-o",
                                 result->path};
    enum { FIXED = sizeof fixed / sizeof *fixed };
    const char **arguments = AU_NEW_ARRAY(arena, const char *, FIXED + count);
    memcpy(arguments, fixed, sizeof fixed);
    for (uint32_t n = 0; n < count; n++) arguments[FIXED + n] = files[n].path;
    char *message = NULL;
    const int code = lld_link_elf((int)(FIXED + count), arguments, &message);
    if (code) au_error(diags, AU_E0004, (AuSpan){0}, "linking: %s", message ? message : "failed");
    free(message);
    return code == 0;
}

bool au_link_shared(AuArena *arena, AuDiags *diags, const AuBlob *objects, uint32_t count,
                    const char *export_symbol, const AuArch *arch, AuBlob *out)
{
    (void)arch; /* lld takes the machine from the objects */
    const char *script = au_format(arena, "{ global: %s; local: *; };\n", export_symbol);
    MemoryFile *files = AU_NEW_ARRAY(arena, MemoryFile, count + 2);
    for (uint32_t n = 0; n < count + 2; n++) files[n].handle = -1;
    bool good = open_file(diags, &files[count], script, strlen(script)) &&
                open_file(diags, &files[count + 1], "", 0);
    for (uint32_t n = 0; good && n < count; n++)
        good = open_file(diags, &files[n], objects[n].bytes, objects[n].length);
    good = good && run_linker(arena, diags, files, count, &files[count], &files[count + 1]) &&
           read_file(arena, diags, &files[count + 1], out);
    for (uint32_t n = 0; n < count + 2; n++)
        if (files[n].handle >= 0) close(files[n].handle);
    return good;
}
