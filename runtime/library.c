#include "library.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "descriptor.h"
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
    AuElfFile file = {path, (const unsigned char *)"", (size_t)facts.st_size};
    if (file.length == 0) return check_or_read(&file, symbol, found, image, sink);
    void *map = mmap(NULL, file.length, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED)
        return rt_fail(sink, AULE_ERROR_FILE, "%s: cannot be read: %s", path, strerror(errno));
    file.bytes = map;
    aule_status status = check_or_read(&file, symbol, found, image, sink);
    munmap(map, file.length);
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

static void forget_code(const AuElfImage *image, const aule_variant_v1 *variant)
{
    static const aule_cpu_kernel none = NULL;
    for (uint32_t n = 0; n < variant->launch_count; n++) {
        const size_t at = (size_t)((const unsigned char *)rt_launch(variant, n) - image->memory);
        memcpy(image->memory + at + offsetof(aule_launch_v1, host), &none, sizeof none);
    }
}

aule_status rt_library_seal(AuLibrary *library, const aule_module_v1 *descriptor, AuSink sink)
{
    if (!library->image.memory) return AULE_OK;
    for (uint32_t a = 0; a < descriptor->attention_count; a++) {
        const aule_attention_v1 *attention = rt_attention(descriptor, a);
        for (uint32_t n = 0; n < attention->variant_count; n++)
            forget_code(&library->image, rt_variant(attention, n));
    }
    return rt_seal_image(&library->image) ? AULE_OK : rt_fail_memory(sink);
}

void rt_library_close(AuLibrary *library)
{
    if (library->loaded) dlclose(library->loaded);
    rt_free_image(&library->image);
    if (library->file >= 0) close(library->file);
    *library = (AuLibrary){.file = -1};
}
