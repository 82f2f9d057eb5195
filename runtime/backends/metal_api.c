/* metal_api.c - Apple's libraries, which only macOS has. */
#include "metal.h"

#include <dlfcn.h>

/* Where macOS has it, else by its name alone. [why]: that the system's own could not be loaded, not that there is none of that name. */
static void *open_library(const char *path, const char *name, AuText *why)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library) return library;
#ifdef __APPLE__
    const char *cause = dlerror();
    rt_text_add(why, "Metal cannot be loaded: %s", cause ? cause : "no cause given");
#else
    rt_text_add(why, "Metal is a part of macOS, which this system is not");
#endif
    library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library) rt_text_free(why);
    return library;
}

static bool find(void *library, const char *name, void *function, AuText *why)
{
    void *found = dlsym(library, name);
    *(void **)function = found;
    if (!found && !why->length) rt_text_add(why, "the system's libraries have no %s", name);
    return found != NULL;
}

bool rt_metal_begin(MetalApi *m, AuText *why)
{
    void *objc = open_library("/usr/lib/libobjc.A.dylib", "libobjc.A.dylib", why);
    void *metal = objc ? open_library("/System/Library/Frameworks/Metal.framework/Metal",
                                      "libMetal.dylib", why)
                       : NULL;
    if (!metal) {
        if (objc) dlclose(objc);
        return false;
    }
    bool good = find(objc, "objc_getClass", &m->objc_getClass, why);
    good = find(objc, "sel_registerName", &m->sel_registerName, why) && good;
    good = find(objc, "objc_msgSend", &m->objc_msgSend, why) && good;
    good = find(objc, "objc_autoreleasePoolPush", &m->objc_autoreleasePoolPush, why) && good;
    good = find(objc, "objc_autoreleasePoolPop", &m->objc_autoreleasePoolPop, why) && good;
    good = find(metal, "MTLCopyAllDevices", &m->MTLCopyAllDevices, why) && good;
    if (!good) return false;
    *(void **)&m->malloc_size = dlsym(objc, "malloc_size"); /* of libSystem, on which it depends */
#define MESSAGE(name, selector, result, arguments) m->sel.name = m->sel_registerName(selector);
#include "metal_api.def"
    return true;
}

uint32_t rt_metal_language(const MetalApi *m)
{
    MetalId process = METAL_GET(m, m->objc_getClass("NSProcessInfo"), process);
    uint32_t minor = 0;
    for (; process && minor < METAL_NEWEST; minor++) {
        const MetalSize next = {14 + minor, 0,
                                0}; /* as NSOperatingSystemVersion has three numbers */
        if (!METAL_CALL(m, process, at_least, next)) break;
    }
    return minor;
}

MetalId rt_metal_string(const MetalApi *m, const char *text)
{
    return METAL_CALL(m, m->objc_getClass("NSString"), string, text);
}

const char *rt_metal_words(const MetalApi *m, MetalId string)
{
    const char *words = string ? METAL_GET(m, string, utf8) : NULL;
    return words ? words : "";
}

const char *rt_metal_error(const MetalApi *m, MetalId error)
{
    return error ? rt_metal_words(m, METAL_GET(m, error, description)) : "";
}
