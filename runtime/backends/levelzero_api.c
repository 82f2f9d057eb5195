/* levelzero_api.c - Level Zero's loader and its functions; names of results. */
#include "levelzero_api.h"

#include <dlfcn.h>
#include <stdio.h>

/* Functions and objects have no common pointer in C. */
static bool take(void *library, const char *symbol, void *function, AuText *why)
{
    void *found = dlsym(library, symbol);
    memcpy(function, &found, sizeof found);
    if (!found && !why->length)
        rt_text_add(why, "libze_loader.so.1 has no %s: Level Zero 1.0 is needed", symbol);
    return found != NULL;
}

bool rt_ze_api(AuLevelZero *ze, AuText *why)
{
    /* Drivers start threads and do not survive being unloaded. */
    void *library = dlopen("libze_loader.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library) {
        const char *cause = dlerror();
        rt_text_add(why, "libze_loader.so.1, Level Zero's loader, cannot be loaded: %s",
                    cause ? cause : "no cause given");
        return false;
    }
    bool fine = true;
#define ZE(name, arguments) fine = take(library, #name, (void *)&ze->name, why) && fine;
#include "levelzero_api.def"
    dlclose(library);
    return fine;
}

const char *rt_ze_error(ze_result_t code, char buffer[24])
{
#define RESULT(name, value)                                                                        \
    if (code == name) return #name;
#include "levelzero_result.def"
    snprintf(buffer, 24, "error 0x%x", code);
    return buffer;
}
