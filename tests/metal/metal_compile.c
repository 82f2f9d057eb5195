/* metal_compile.c - see metal_compile.h. The text is included as it is; behind it stand calls of its kernels by name. Compiling is what tests
 * here wait for, so only what kernels call is optimised (include/metal_stdlib: `kernel`), the shim's header is read once (precompiled), and
 * what comes of it and of a text is kept in the build folder, by a sum of all that it was made of. */
#include "metal_compile.h"
#include "metal_texts.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct MetalText {
    void *library;
    ShimRun run;
    char **kernels;
    unsigned count;
};

static void find_kernels(MetalText *t, const char *source)
{
    static const char before[] = "kernel void ";
    for (const char *at = source; (at = strstr(at, before)) != NULL;) {
        at += sizeof before - 1;
        t->kernels = realloc(t->kernels, (t->count + 1) * sizeof *t->kernels);
        t->kernels[t->count++] = strndup(at, strcspn(at, "( "));
    }
}

static int write_source(const MetalText *t, const char *folder, const char *source)
{
    char path[METAL_PATH];
    snprintf(path, sizeof path, "%s/program_source", folder);
    FILE *file = fopen(path, "w");
    if (!file) return 0;
    fputs(source, file);
    fclose(file);
    snprintf(path, sizeof path, "%s/all.cpp", folder);
    file = fopen(path, "w");
    if (!file) return 0;
    fprintf(file,
            "#include \"program_source\"\nextern \"C\" int shim_enter(const char *name, const "
            "ShimThread *t)\n{\n");
    for (unsigned n = 0; n < t->count; n++)
        fprintf(file, "    if (__builtin_strcmp(name, \"%s\") == 0) return shim_call(%s, *t), 1;\n",
                t->kernels[n], t->kernels[n]);
    fprintf(file, "    return 0;\n}\n");
    return fclose(file) == 0;
}

static void remove_folder(const char *folder)
{
    static const char *const files[] = {"program_source", "all.cpp", "all.so", "said"};
    char path[METAL_PATH];
    for (unsigned n = 0; n < sizeof files / sizeof *files; n++) {
        snprintf(path, sizeof path, "%s/%s", folder, files[n]);
        unlink(path);
    }
    rmdir(folder);
}

static void read_words(const char *folder, char *why, size_t room)
{
    char path[METAL_PATH];
    snprintf(path, sizeof path, "%s/said", folder);
    FILE *file = fopen(path, "r");
    const size_t got = file ? fread(why, 1, room - 1, file) : 0;
    why[got] = 0;
    if (file) fclose(file);
}

static int load(MetalText *t, const char *path, char *why, size_t room)
{
    t->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!t->library) {
        snprintf(why, room, "%s", dlerror());
        return 0;
    }
    *(void **)&t->run = dlsym(t->library, "shim_run");
    return t->run != NULL;
}

/* How the shim and texts are compiled. What is compiled here runs here: a fused multiply-add, which is exact in any case, is an instruction where
 * there is one. */
static void tell_compiler(char *command, size_t room, unsigned version)
{
    snprintf(
        command, room,
        "%s -std=c++17 -O1%s -fPIC -fvisibility=hidden -ffp-contract=off -fno-strict-aliasing "
        "-fno-exceptions -fno-rtti -fno-asynchronous-unwind-tables -w "
        "-fsanitize=thread --param tsan-instrument-func-entry-exit=0 -D__METAL_VERSION__=%u -I%s",
        METAL_CXX, __builtin_cpu_supports("fma") ? " -mfma" : "", version, METAL_INCLUDE);
}

/* The shim's header as the compiler has it once it has read it; an option that names it, "" where nothing can be kept. */
static void use_header(const char *command, char *option, size_t room)
{
    static const char ending[] = ".gch";
    char kept[METAL_PATH], folder[METAL_FOLDER], made[METAL_PATH], line[4096];
    option[0] = 0;
    if (!metal_text_place("", command, ending, kept, sizeof kept)) return;
    if (access(kept, R_OK) != 0) {
        if (!metal_text_folder(folder, sizeof folder)) return;
        snprintf(made, sizeof made, "%s/all.so", folder);
        snprintf(line, sizeof line, "exec 2>%s/said && %s -x c++-header -o %s %s/metal_stdlib",
                 folder, command, made, METAL_INCLUDE);
        const int fine = system(line) == 0 && rename(made, kept) == 0;
        remove_folder(folder);
        if (!fine) return;
        metal_text_make_room(METAL_KEPT, ending, METAL_MOST_HEADERS);
    }
    metal_text_used(kept);
    kept[strlen(kept) - strlen(ending)] = 0;
    snprintf(option, room, " -include %s", kept);
}

/* In [folder], all.so of all.cpp. */
static int compile(const char *folder, const char *command)
{
    char header[METAL_PATH + 16], line[4096];
    use_header(command, header, sizeof header);
    snprintf(line, sizeof line,
             "cd %s && exec 2>said && %s%s -shared -nostdlib -o all.so all.cpp -x none %s -lm -lc",
             folder, command, header, METAL_RUN);
    return system(line) == 0;
}

MetalText *metal_compile(const char *source, unsigned version, char *why, size_t room)
{
    char folder[METAL_FOLDER], kept[METAL_PATH], made[METAL_PATH], command[2048];
    MetalText *t = calloc(1, sizeof *t);
    if (!t) return NULL;
    find_kernels(t, source);
    tell_compiler(command, sizeof command, version);
    const int keeps = metal_text_place(source, command, ".so", kept, sizeof kept);
    if (keeps && access(kept, R_OK) == 0 && load(t, kept, why, room)) {
        metal_text_used(kept);
        return t;
    }
    why[0] = 0;
    if (!metal_text_folder(folder, sizeof folder)) {
        metal_forget(t);
        snprintf(why, room, "no folder for the compiler");
        return NULL;
    }
    snprintf(made, sizeof made, "%s/all.so", folder);
    int fine = write_source(t, folder, source) && compile(folder, command);
    const int moved = fine && keeps && rename(made, kept) == 0;
    fine = fine && load(t, moved ? kept : made, why, room);
    if (moved) metal_text_make_room(METAL_KEPT, ".so", METAL_MOST_KEPT);
    if (!fine && !why[0]) read_words(folder, why, room);
    remove_folder(folder);
    if (fine) return t;
    metal_forget(t);
    return NULL;
}

void metal_forget(MetalText *t)
{
    if (!t) return;
    if (t->library) dlclose(t->library);
    for (unsigned n = 0; n < t->count; n++) free(t->kernels[n]);
    free(t->kernels);
    free(t);
}

int metal_has(const MetalText *t, const char *kernel)
{
    for (unsigned n = 0; n < t->count; n++)
        if (strcmp(t->kernels[n], kernel) == 0) return 1;
    return 0;
}

int metal_run(const MetalText *t, const ShimLaunch *launch, char *why, size_t room)
{
    return t->run(launch, why, room);
}
