/* metal_kept.c - machine code that Metal made of kernels, kept on disk (cache.h): a binary archive for each code, device and system. Metal
 * reads and writes archives as files of its own; what of them is kept has our head around it, so that a file which was cut or damaged is
 * found before Metal reads it. Nothing here fails: without an archive pipelines are compiled. */
#include "metal.h"

#include <unistd.h>

#include "../cache.h"

static MetalId url_of(const MetalApi *m, const char *path)
{
    MetalId text = rt_metal_string(m, path);
    if (!text) return NULL;
    return METAL_CALL(m, m->objc_getClass("NSURL"), file_url, text);
}

/* "13.1 (22C65)": an update of the system brings another compiler. */
static const char *system_version(const MetalApi *m)
{
    MetalId process = METAL_GET(m, m->objc_getClass("NSProcessInfo"), process);
    return process ? rt_metal_words(m, METAL_GET(m, process, version)) : "";
}

/* false: who does not know its system keeps nothing. */
static bool name_of(const Metal *d, const aule_variant_v1 *v, AuText *name)
{
    const MetalApi *m = &d->api;
    AuText how = {.memory = d->memory};
    const char *version = system_version(m),
               *device = rt_metal_words(m, METAL_GET(m, d->device, name));
    rt_text_add(&how, "%s, %s, 3.%u", version, device, d->language);
    if (!how.failed)
        rt_cache_name(name, CACHE_METAL, v->code, (size_t)v->code_bytes, rt_text_str(&how));
    const bool good = version[0] && device[0] && !how.failed && !name->failed;
    rt_text_free(&how);
    return good;
}

/* ---- files as Metal wants them */

static bool write_file(const char *path, const void *bytes, size_t count)
{
    FILE *file = fopen(path, "wb");
    if (!file) return false;
    const bool whole = fwrite(bytes, 1, count, file) == count;
    return fclose(file) == 0 && whole;
}

static void *read_file(AuHeap memory, const char *path, size_t *count)
{
    FILE *file = fopen(path, "rb");
    long end = -1;
    if (file && fseek(file, 0, SEEK_END) == 0) end = ftell(file);
    void *bytes = end > 0 ? rt_alloc(memory, (size_t)end) : NULL;
    if (bytes &&
        (fseek(file, 0, SEEK_SET) != 0 || fread(bytes, 1, (size_t)end, file) != (size_t)end)) {
        rt_free(bytes);
        bytes = NULL;
    }
    if (file) fclose(file);
    *count = bytes ? (size_t)end : 0;
    return bytes;
}

/* ---- archives */

/* Of the file at [path]; NULL: an empty one. */
static MetalId new_archive(const Metal *d, const char *path)
{
    const MetalApi *m = &d->api;
    MetalId descriptor = METAL_GET(m, m->objc_getClass("MTLBinaryArchiveDescriptor"), new_object);
    MetalId url = path ? url_of(m, path) : NULL, archive = NULL, error = NULL;
    if (descriptor && url) METAL_CALL(m, descriptor, set_url, url);
    if (descriptor && (url || !path))
        archive = METAL_CALL(m, d->device, new_archive, descriptor, &error);
    if (descriptor) METAL_GET(m, descriptor, release);
    return archive;
}

static MetalId read_archive(const Metal *d, MetalKept *kept)
{
    size_t count = 0;
    void *bytes = rt_cache_read(d->memory, rt_text_str(&kept->name), &count);
    MetalId archive = NULL;
    if (bytes && write_file(rt_text_str(&kept->path), bytes, count))
        archive = new_archive(d, rt_text_str(&kept->path));
    rt_free(bytes);
    return archive;
}

void rt_metal_kept_open(const Metal *d, MetalKept *kept, const aule_variant_v1 *variant)
{
    const MetalApi *m = &d->api;
    *kept = (MetalKept){.name = {.memory = d->memory}, .path = {.memory = d->memory}};
    kept->begun = name_of(d, variant, &kept->name) &&
                  rt_cache_beside(d->memory, rt_text_str(&kept->name), &kept->path);
    if (!kept->begun) return;
    kept->archive = read_archive(d, kept);
    kept->known = kept->archive != NULL;
    if (!kept->archive) kept->archive = new_archive(d, NULL);
    if (kept->archive)
        kept->list = METAL_CALL(m, m->objc_getClass("NSArray"), array, kept->archive);
}

void rt_metal_kept_add(const Metal *d, MetalKept *kept, MetalId descriptor)
{
    const MetalApi *m = &d->api;
    MetalId error = NULL;
    if (!kept->list) return;
    if (!kept->known && !METAL_CALL(m, kept->archive, add_functions, descriptor, &error))
        kept->lacks = true;
    METAL_CALL(m, descriptor, set_archives, kept->list);
}

static void keep(const Metal *d, const MetalKept *kept)
{
    const MetalApi *m = &d->api;
    const char *path = rt_text_str(&kept->path);
    MetalId url = url_of(m, path), error = NULL;
    size_t count;
    unlink(path); /* what could not be read as an archive */
    if (!url || !METAL_CALL(m, kept->archive, serialize, url, &error)) return;
    void *bytes = read_file(d->memory, path, &count);
    if (bytes) rt_cache_write(d->memory, rt_text_str(&kept->name), bytes, count);
    rt_free(bytes);
}

void rt_metal_kept_close(const Metal *d, MetalKept *kept, bool good)
{
    if (kept->list && good && !kept->known && !kept->lacks) keep(d, kept);
    if (kept->archive) METAL_GET(&d->api, kept->archive, release);
    if (kept->begun) unlink(rt_text_str(&kept->path));
    rt_text_free(&kept->path);
    rt_text_free(&kept->name);
}
