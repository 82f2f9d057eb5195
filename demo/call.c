/* call.c - see call.h. */
#include "call.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "aule/aulec.h"

enum { MOST_RUNS = 101, FEWEST_RUNS = 5 };
static const double time_to_measure = 0.3; /* seconds a device */

double call_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* ---- compiling */

/* The artifact is a shared library: it is loaded from a file, which is not needed afterwards. */
static aule_module *load(const void *artifact, size_t bytes)
{
    char path[] = "/tmp/aule-demo-XXXXXX";
    const int file = mkstemp(path);
    aule_module *module = NULL;
    aule_error *error = NULL;
    if (file < 0 || write(file, artifact, bytes) != (ssize_t)bytes)
        perror(path);
    else if (aule_module_open(path, NULL, &module, &error))
        fprintf(stderr, "%s\n", aule_error_message(error));
    if (file >= 0) {
        close(file);
        unlink(path);
    }
    aule_error_free(error);
    return module;
}

aule_module *call_compile(const char *path, int64_t width, const char *targets, size_t *bytes)
{
    AuFile script;
    AuWhy why;
    if (!file_read(&script, path, &why)) {
        fprintf(stderr, "%s\n", why.text);
        return NULL;
    }
    char widths[32];
    snprintf(widths, sizeof widths, "D=%lld", (long long)width);
    const aulec_options options = {.struct_size = sizeof options,
                                   .targets = targets,
                                   .dtypes = "f32",
                                   .widths = widths,
                                   .no_gradients = 1};
    aulec_result *result = NULL;
    const aulec_status status =
        aulec_compile(path, (const char *)script.bytes, script.length, &options, &result);
    aule_module *module = NULL;
    fputs(aulec_result_diagnostics(result), stderr);
    if (status == AULEC_OK) {
        *bytes = aulec_result_length(result);
        module = load(aulec_result_data(result), *bytes);
    }
    aulec_result_free(result);
    file_free(&script);
    return module;
}

/* ---- which devices it is for */

static bool has_word(const char *all, const char *word, size_t length)
{
    for (const char *at = all; *at; at += strspn(at, " ")) {
        const size_t here = strcspn(at, " ");
        if (here == length && memcmp(at, word, length) == 0) return true;
        at += here;
    }
    return false;
}

static bool has_words(const char *all, const char *words)
{
    for (words += strspn(words, " "); *words; words += strspn(words, " ")) {
        const size_t length = strcspn(words, " ");
        if (!has_word(all, words, length)) return false;
        words += length;
    }
    return true;
}

/* Appends a word to those of a list that lacks it; what has no room is left out. */
static void add_word(char *list, size_t room, const char *word)
{
    const size_t length = strlen(list);
    if (has_word(list, word, strlen(word)) || length + strlen(word) + 2 > room) return;
    snprintf(list + length, room - length, "%s%s", length ? " " : "", word);
}

bool call_fits(const aule_module *module, const aule_device_info *info, AuWhy *why)
{
    const aule_attention_v1 *a = aule_attention_descriptor(aule_module_attention(module, 0));
    char archs[256] = "";
    for (uint32_t n = 0; n < a->variant_count; n++) {
        /* An artifact's structures may be longer than those that this program was compiled with. */
        const aule_variant_v1 *v =
            (const void *)((const char *)a->variants + (size_t)n * a->variants->struct_size);
        if (strcmp(v->target, info->backend) != 0) continue;
        if (has_words(info->features, v->features)) return true;
        add_word(archs, sizeof archs, v->arch);
    }
    if (!*archs) return array_wrong(why, "nothing was compiled for %s", info->backend);
    return array_wrong(why, "compiled for %s, not for %s (%s)", archs, info->name, info->driver);
}

/* ---- running */

typedef struct Call {
    const CallArguments *arguments;
    aule_device *device;
    bool is_host; /* the device reads the arrays where they are */
    DLTensor tensors[CALL_TENSORS];
    aule_buffer *buffers[CALL_TENSORS];
    aule_plan *plan;
    aule_buffer *workspace;
    aule_run run;
    aule_error *error;
} Call;

static bool place_tensors(Call *c)
{
    const DLDevice device = aule_device_get_info(c->device)->dl;
    c->is_host = device.device_type == kDLCPU;
    for (size_t n = 0; n < c->arguments->count; n++) {
        AuArray *a = c->arguments->arrays[n];
        c->tensors[n] = (DLTensor){.data = a->data,
                                   .device = device,
                                   .ndim = a->rank,
                                   .dtype = array_dl_type(a->dtype),
                                   .shape = a->shape,
                                   .strides = a->strides};
        if (c->is_host) continue;
        if (aule_buffer_new(c->device, a->bytes, &c->buffers[n], &c->error) ||
            aule_buffer_upload(c->buffers[n], 0, a->data, a->bytes, &c->error))
            return false;
        c->tensors[n].data = aule_buffer_data(c->buffers[n]);
    }
    return true;
}

static bool plan(Call *c, aule_module *module, const char **arch)
{
    aule_tensor_arg tensors[CALL_TENSORS];
    for (size_t n = 0; n < c->arguments->count; n++)
        tensors[n] = (aule_tensor_arg){c->arguments->names[n], &c->tensors[n]};
    const aule_call call = {
        .struct_size = sizeof call, .tensors = tensors, .tensor_count = c->arguments->count};
    if (aule_plan_new(aule_module_attention(module, 0), c->device, &call, &c->plan, &c->error))
        return false;
    *arch = aule_plan_variant(c->plan)->arch;
    c->run.struct_size = sizeof c->run;
    c->run.workspace_bytes = aule_plan_workspace(c->plan, NULL);
    if (c->run.workspace_bytes == 0) return true;
    if (aule_buffer_new(c->device, c->run.workspace_bytes, &c->workspace, &c->error)) return false;
    c->run.workspace = aule_buffer_data(c->workspace);
    return true;
}

static bool run_once(Call *c)
{
    return !aule_plan_run(c->plan, &c->run, &c->error) &&
           !aule_device_synchronize(c->device, NULL, &c->error);
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static bool measure(Call *c, double *seconds)
{
    double times[MOST_RUNS];
    int count = 0;
    for (const double start = call_clock(); count < MOST_RUNS; count++) {
        const double before = call_clock();
        if (count >= FEWEST_RUNS && before - start > time_to_measure) break;
        if (!run_once(c)) return false;
        times[count] = call_clock() - before;
    }
    qsort(times, (size_t)count, sizeof *times, by_size);
    *seconds = times[count / 2];
    return true;
}

static bool fetch_output(Call *c)
{
    const size_t last = c->arguments->count - 1;
    const AuArray *output = c->arguments->arrays[last];
    return c->is_host ||
           !aule_buffer_download(c->buffers[last], 0, output->data, output->bytes, &c->error);
}

bool call_run(aule_module *module, const char *device, const CallArguments *arguments,
              double *seconds, const char **arch, AuWhy *why)
{
    Call c = {.arguments = arguments};
    const bool good = !aule_device_open(device, NULL, &c.device, &c.error) && place_tensors(&c) &&
                      plan(&c, module, arch) && run_once(&c) && measure(&c, seconds) &&
                      fetch_output(&c);
    if (!good) array_wrong(why, "%s", aule_error_message(c.error));
    aule_error_free(c.error);
    aule_plan_free(c.plan);
    aule_buffer_free(c.workspace);
    for (size_t n = 0; n < arguments->count; n++) aule_buffer_free(c.buffers[n]);
    aule_device_close(c.device);
    return good;
}
