#include "library.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "descriptor.h"
#include "elf_pages.h"
#include "platform/platform.h"

/* By the loader if it takes files for that machine; tests have all of them read. */
static bool is_loaded(const AuElfLibrary *found)
{
    const char *text = getenv("AULE_READ_ARTIFACTS");
    return rt_loads_elf(found->head.e_machine) && !(text && strcmp(text, "1") == 0);
}

static aule_status check_or_read(const AuElfFile *file, const char *symbol, AuElfLibrary *found,
                                 AuElfImage *image, AuSink sink)
{
    aule_status status = rt_check_library(file, symbol, found, sink);
    return status || is_loaded(found) ? status : rt_read_image(file, found, image, sink);
}

static aule_status look_at_file(const char *path, int fd, const char *symbol, AuElfLibrary *found,
                                AuElfImage *image, AuSink sink)
{
    struct stat facts;
    if (fstat(fd, &facts) != 0)
        return rt_fail(sink, AULE_ERROR_FILE, "%s: cannot be read: %s", path, strerror(errno));
    if (!S_ISREG(facts.st_mode))
        return rt_fail(sink, AULE_ERROR_FILE, "%s: cannot be read: not a file", path);
    AuElfPages *pages = rt_elf_pages(sink.memory, fd);
    if (!pages) return rt_fail_memory(sink);
    const AuElfFile file = {path, NULL, (size_t)facts.st_size, rt_elf_read_pages, pages};
    aule_status status = check_or_read(&file, symbol, found, image, sink);
    rt_free(pages);
    return status;
}

static aule_status load(const char *path, const char *symbol, AuLibrary *library,
                        const aule_module_v1 **descriptor, AuSegments *segments, AuSink sink)
{
    library->loaded = rt_load_elf(path, library->file);
    if (!library->loaded) {
        const char *cause = dlerror();
        return rt_fail(sink, AULE_ERROR_ARTIFACT, "%s: cannot be loaded: %s", path,
                       cause ? cause : "no cause given");
    }
    *descriptor = dlsym(library->loaded, symbol);
    rt_find_segments(*descriptor, segments);
    if (*descriptor) return AULE_OK;
    return rt_fail(sink, AULE_ERROR_ARTIFACT,
                   "%s: not an aule artifact: a shared library without the symbol %s", path,
                   symbol);
}

aule_status rt_library_open(const char *path, const char *symbol, AuLibrary *library,
                            const aule_module_v1 **descriptor, AuSegments *segments, AuSink sink)
{
    AuElfLibrary found;
    /* Opening does not wait for whoever writes to a pipe. */
    *library = (AuLibrary){.file = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC)};
    if (library->file < 0)
        return rt_fail(sink, AULE_ERROR_FILE, "%s: cannot be read: %s", *path ? path : "''",
                       strerror(errno));
    aule_status status = look_at_file(path, library->file, symbol, &found, &library->image, sink);
    if (!status && !library->image.memory)
        status = load(path, symbol, library, descriptor, segments, sink);
    else if (!status) {
        *descriptor = library->image.symbol;
        *segments = library->image.segments;
    }
    if (status) rt_library_close(library);
    return status;
}

/* Where host kernels are named. A descriptor may say that such a place is also something else, so that whoever clears one while it
 * goes through the others would no longer go where the checks went: all are found before the first is cleared. NULL in [found]: they are only counted. */
static size_t find_code(const AuElfImage *image, const aule_module_v1 *descriptor, size_t *found)
{
    size_t count = 0;
    for (uint32_t a = 0; a < descriptor->attention_count; a++) {
        const aule_attention_v1 *attention = rt_attention(descriptor, a);
        for (uint32_t v = 0; v < attention->variant_count; v++) {
            const aule_variant_v1 *variant = rt_variant(attention, v);
            for (uint32_t n = 0; n < variant->launch_count; n++, count++) {
                const unsigned char *launch = (const void *)rt_launch(variant, n);
                if (found)
                    found[count] =
                        (size_t)(launch - image->memory) + offsetof(aule_launch_v1, host);
            }
        }
    }
    return count;
}

static aule_status forget_code(const AuElfImage *image, const aule_module_v1 *descriptor,
                               AuSink sink)
{
    static const aule_cpu_kernel none = NULL;
    const size_t count = find_code(image, descriptor, NULL);
    size_t *found = rt_alloc_array(sink.memory, count, sizeof *found);
    if (!found) return rt_fail_memory(sink);
    find_code(image, descriptor, found);
    for (size_t n = 0; n < count; n++) memcpy(image->memory + found[n], &none, sizeof none);
    rt_free(found);
    return AULE_OK;
}

/* What is cleared may have been something that the checks saw: they are made again, by who makes a module of it, when nobody changes it any more. */
aule_status rt_library_seal(AuLibrary *library, const char *path, const aule_module_v1 *descriptor,
                            AuSegments *segments, AuSink sink)
{
    if (!library->image.memory) return AULE_OK;
    aule_status status = rt_check_module(descriptor, segments, path, sink);
    if (!status) status = forget_code(&library->image, descriptor, sink);
    if (status) return status;
    segments->no_code = true;
    return rt_seal_image(&library->image) ? AULE_OK : rt_fail_memory(sink);
}

void rt_library_close(AuLibrary *library)
{
    if (library->loaded) dlclose(library->loaded);
    rt_free_image(&library->image);
    if (library->file >= 0) close(library->file);
    *library = (AuLibrary){.file = -1};
}
