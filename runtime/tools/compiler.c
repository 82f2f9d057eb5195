#include "compiler.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "platform/place.h"

static const char file_name[] = AULE_COMPILER;

/* Where the library was looked for, and what came of it. */
typedef struct Search {
    void *library;
    bool stop;         /* it was there, and could not be loaded: another one is no replacement */
    char looked[4096]; /* folders, with commas */
    char cause[1024];
} Search;

static void load(Search *s, const char *path)
{
    s->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const char *cause = s->library ? NULL : dlerror();
    if (cause) snprintf(s->cause, sizeof s->cause, "%s", cause);
}

static void look_in(Search *s, const char *folder, int length)
{
    char path[4096];
    if (s->library || s->stop || length == 0) return;
    const size_t used = strlen(s->looked);
    snprintf(s->looked + used, sizeof s->looked - used, "%s%.*s", used ? ", " : "", length, folder);
    const int written = snprintf(path, sizeof path, "%.*s/%s", length, folder, file_name);
    if (written < 0 || (size_t)written >= sizeof path || access(path, F_OK) != 0) return;
    load(s, path);
    s->stop = !s->library;
}

static void look_in_variable(Search *s)
{
    const char *at = getenv("AULE_LIBRARY_PATH");
    while (at && *at) {
        const size_t length = strcspn(at, ":");
        look_in(s, at, (int)length);
        at += length + (at[length] == ':');
    }
}

/* Beside the tool; as installed; as built; where pip puts the libraries of a package whose tools are in bin/. */
static void look_around(Search *s)
{
    static const char *const folders[] = {"", ("/../" AULE_LIBDIR), "/../../compiler/driver",
                                          "/../lib*/python3*/*-packages/.aule*.mesonpy.libs"};
    char self[2048], pattern[4096];
    if (!place_of_program(self, sizeof self)) return;
    *strrchr(self, '/') = 0;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        glob_t found = {0};
        snprintf(pattern, sizeof pattern, "%s%s", self, folders[i]);
        if (!strchr(folders[i], '*'))
            look_in(s, pattern, (int)strlen(pattern));
        else if (glob(pattern, 0, NULL, &found) == 0)
            for (size_t n = 0; n < found.gl_pathc; n++)
                look_in(s, found.gl_pathv[n], (int)strlen(found.gl_pathv[n]));
        globfree(&found);
    }
}

int compiler_open(AuCompiler *c)
{
    Search s = {0};
    memset(c, 0, sizeof *c);
    look_in_variable(&s);
    look_around(&s);
    if (!s.library && !s.stop) load(&s, file_name); /* where the system keeps libraries */
    c->library = s.library;
    if (!c->library)
        return command_fail(EXIT_WRONG,
                            "%s, the compiler, cannot be loaded: %s; looked for in %s and the "
                            "system's folders; AULE_LIBRARY_PATH can name its folder",
                            file_name, s.cause, s.looked);
    const char *missing = NULL;
#define CALL(name)                                                                                 \
    *(void **)(&c->name) = dlsym(c->library, #name);                                               \
    if (!c->name) missing = #name;
    AU_COMPILER_CALLS(CALL)
#undef CALL
    if (!missing) return 0;
    compiler_close(c);
    return command_fail(EXIT_WRONG, "%s is of another version: it has no %s", file_name, missing);
}

void compiler_close(AuCompiler *c)
{
    if (c->library) dlclose(c->library);
    c->library = NULL;
}
