/* ladder.c - a rung of the ladder (tests/exec): whole scripts through the functions that aulec puts into objects. The object is linked into
 * a library by the system's compiler, the order of its arguments read from its header, which is how programs in other languages see it.
 * Takes the place of exec_device.c, so that every script of attn_scripts/ runs here with the same data and the same bounds. */
#include "internal.h"

#include "aule/aulec.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_FIELDS = 160 };

typedef struct Built {
    void *library;
    const char *header;
} Built;

static bool write_file(const char *path, const void *bytes, size_t length)
{
    FILE *file = fopen(path, "wb");
    const bool good = file && fwrite(bytes, 1, length, file) == length;
    return file && fclose(file) == 0 && good;
}

/* The object, linked; NULL: the reason is printed. */
static void *link_object(Run *r, const char *folder, const aulec_result *object)
{
    const char *from = au_format(r->arena, "%s/x.o", folder);
    const char *to = au_format(r->arena, "%s/x.so", folder);
    void *library = NULL;
    if (write_file(from, aulec_result_data(object), aulec_result_length(object)) &&
        system(au_format(r->arena, "cc -shared -Wl,-z,defs -o %s %s", to, from)) == 0)
        library = dlopen(to, RTLD_NOW | RTLD_LOCAL);
    if (!library) exec_fail(r, "link", dlerror());
    unlink(from);
    unlink(to);
    return library;
}

static bool build(Run *r, const char *text, size_t length, Built *built)
{
    char folder[] = "/tmp/aule-embed-XXXXXX";
    aulec_result *results[2] = {NULL, NULL};
    bool good = mkdtemp(folder) != NULL;
    for (int n = 0; n < 2; n++) {
        const aulec_options o = {.struct_size = sizeof o,
                                 .targets = "cpu",
                                 .dtypes = r->dtype,
                                 .widths = exec_widths(r),
                                 .emit = n ? AULEC_EMIT_HEADER : AULEC_EMIT_OBJECT,
                                 .no_gradients = !r->grads};
        if (aulec_compile(r->c->script, text, length, &o, &results[n]) != AULEC_OK)
            good = exec_fail(r, "compile", aulec_result_diagnostics(results[n]));
    }
    built->library = good ? link_object(r, folder, results[0]) : NULL;
    built->header =
        good ? au_strndup(r->arena, aulec_result_data(results[1]), aulec_result_length(results[1]))
             : NULL;
    rmdir(folder);
    aulec_result_free(results[0]);
    aulec_result_free(results[1]);
    return built->library != NULL;
}

/* ---- arguments, by the names of the header's fields */

typedef struct Value {
    uint64_t word;
    double number; /* what a pointer to a parameter points to */
    int64_t whole;
} Value;

static uint64_t address(const void *at) { return (uint64_t)(uintptr_t)at; }

static bool tensor_field(Run *r, const char *name, Value *v)
{
    for (uint32_t n = 0; n < r->tensor_count; n++) {
        const Tensor *t = &r->tensors[n];
        const size_t length = strlen(t->name);
        if (strncmp(name, t->name, length) != 0) continue;
        const bool is_it = !name[length] || strcmp(name + length, "_") == 0;
        if (!is_it && strcmp(name + length, "_strides") != 0) continue;
        v->word = t->absent ? 0 : address(is_it ? (const void *)t->bytes : t->strides);
        return true;
    }
    return false;
}

static bool scalar_field(Run *r, const char *name, bool is_pointer, Value *v)
{
    for (uint32_t n = 0; n < r->attn->size_count; n++)
        if (strcmp(name, r->attn->sizes[n].name) == 0) return v->word = (uint64_t)r->sizes[n], true;
    for (uint32_t n = 0; n < r->attn->param_count; n++) {
        if (strcmp(name, r->attn->params[n].name) != 0) continue;
        const bool real = r->attn->params[n].dtype == AU_DT_F32;
        v->number = r->params[n], v->whole = r->params_i64[n];
        if (is_pointer)
            v->word = real ? address(&v->number) : address(&v->whole);
        else if (real)
            memcpy(&v->word, &v->number, sizeof v->word);
        else
            v->word = (uint64_t)v->whole;
        return true;
    }
    return false;
}

/* Fills [values] in the order of the structure; gives the number of fields, 0 where one is not known. */
static uint32_t fill(Run *r, const char *header, const char *operation, Value *values)
{
    const char *head =
        au_format(r->arena, "typedef struct %s_%s_args {\n", r->attn->name, operation);
    const char *line = strstr(header, head);
    uint32_t count = 0;
    for (line = line ? line + strlen(head) : "}"; *line != '}'; line = strchr(line, '\n') + 1) {
        const char *end = strchr(line, ';'), *first = end;
        while (strchr(" *", first[-1]) == NULL) first--;
        const char *name = au_strndup(r->arena, first, (size_t)(end - first));
        Value *v = &values[count++];
        *v = (Value){0};
        if (strcmp(name, "dtype") == 0)
            v->word = strcmp(r->dtype, "f16") == 0    ? AULE_F16
                      : strcmp(r->dtype, "bf16") == 0 ? AULE_BF16
                                                      : AULE_F32;
        else if (strcmp(name, "struct_size") != 0 && strncmp(name, "workspace", 9) != 0 &&
                 strncmp(name, "parallel", 8) != 0 && !tensor_field(r, name, v) &&
                 !scalar_field(r, name, first[-1] == '*', v))
            return exec_fail(r, "a field of the header", name), 0;
    }
    values[0].word = 8 * count;
    return count;
}

/* ---- the call */

static void *symbol(Run *r, void *library, const char *format, const char *operation)
{
    char name[512];
    snprintf(name, sizeof name, format, r->attn->name, operation);
    return dlsym(library, name);
}

static bool call(Run *r, const Built *built, const char *operation)
{
    static Value values[MOST_FIELDS];
    uint64_t words[MOST_FIELDS];
    const uint32_t count = fill(r, built->header, operation, values);
    void *run = symbol(r, built->library, "%s_%s", operation);
    void *measure = symbol(r, built->library, "%s_%s_workspace", operation);
    void *message = symbol(r, built->library, "%s_message", "");
    if (!count || !run || !measure || !message) return exec_fail(r, "functions", operation);
    for (uint32_t n = 0; n < count; n++) words[n] = values[n].word;
    const int64_t bytes = ((int64_t(*)(const void *))measure)(words);
    void *workspace = bytes > 0 ? aligned_alloc(64, (size_t)(bytes + 63) / 64 * 64) : NULL;
    if (workspace) memset(workspace, 0x7f, (size_t)bytes);
    words[count - 4] = address(workspace);
    words[count - 3] = bytes > 0 ? (uint64_t)bytes : 0;
    const int status = ((int (*)(const void *))run)(words);
    free(workspace);
    return status == 0 || exec_fail(r, operation, ((const char *(*)(int))message)(status));
}

bool exec_on_device(Run *r, const char *text, size_t length)
{
    Built built = {0};
    exec_begin(r, AU_FORWARD);
    bool good = build(r, text, length, &built) && call(r, &built, "forward");
    if (good && r->grads) {
        exec_begin(r, AU_BACKWARD);
        good = call(r, &built, "backward");
    }
    if (built.library) dlclose(built.library);
    return good;
}
