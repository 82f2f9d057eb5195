#include "compiler.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *open_in(const char *folder, size_t length)
{
    char path[4096];
    int written = snprintf(path, sizeof path, "%.*s/libaulec.so", (int)length, folder);
    return written > 0 && (size_t)written < sizeof path ? dlopen(path, RTLD_NOW | RTLD_LOCAL)
                                                        : NULL;
}

static void *open_library(void)
{
    void *library = NULL;
    char self[4096];
    for (const char *at = getenv("AULE_LIBRARY_PATH"); at && *at && !library;) {
        const size_t length = strcspn(at, ":");
        library = open_in(at, length);
        at += length + (at[length] == ':');
    }
    const ssize_t length = library ? 0 : readlink("/proc/self/exe", self, sizeof self - 1);
    if (length > 0) {
        self[length] = 0;
        *strrchr(self, '/') = 0;
        library = open_in(self, strlen(self));
        char lib[4096 + 8];
        snprintf(lib, sizeof lib, "%s/../lib", self);
        if (!library) library = open_in(lib, strlen(lib));
    }
    return library ? library : dlopen("libaulec.so", RTLD_NOW | RTLD_LOCAL);
}

int compiler_open(AuCompiler *c)
{
    memset(c, 0, sizeof *c);
    c->library = open_library();
    if (!c->library)
        return command_fail(EXIT_WRONG,
                            "libaulec.so, the compiler, cannot be loaded (%s); its "
                            "folder can be named in AULE_LIBRARY_PATH",
                            dlerror());
    const char *missing = NULL;
#define CALL(name)                                                                                 \
    *(void **)(&c->name) = dlsym(c->library, #name);                                               \
    if (!c->name) missing = #name;
    AU_COMPILER_CALLS(CALL)
#undef CALL
    if (!missing) return 0;
    compiler_close(c);
    return command_fail(EXIT_WRONG, "libaulec.so is of another version: it has no %s", missing);
}

void compiler_close(AuCompiler *c)
{
    if (c->library) dlclose(c->library);
    c->library = NULL;
}
