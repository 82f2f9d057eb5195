/* check.c - aule check: tries the laws of the language on a script, then its compiled kernels on every device there is,
 * forward and backward, in every operand type, beside what the interpreter computes in f64. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "compiler.h"

enum { MOST = 96 };

typedef struct Script {
    AuCompiler compiler;
    AuFile file;
    const char *path, *attention, *values;
    bool tf32;         /* f32 is multiplied so */
    const char *dtype; /* of the operands; NULL: all */
    uint64_t seed;
} Script;

/* ---- laws and the mask, by the compiler */

/* Of the terminal; 0 where there is none. */
static uint32_t line_columns(void)
{
    struct winsize size;
    return isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

static aulec_check_options check_options(const Script *s, bool as_svg)
{
    return (aulec_check_options){.struct_size = sizeof(aulec_check_options),
                                 .attention = s->attention,
                                 .values = s->values,
                                 .seed = s->seed,
                                 .as_svg = as_svg,
                                 .columns = line_columns()};
}

static int check_laws(Script *s)
{
    aulec_result *result = NULL;
    const aulec_check_options options = check_options(s, false);
    const aulec_status status = s->compiler.aulec_check(s->path, (const char *)s->file.bytes,
                                                        s->file.length, &options, &result);
    if (!result) return command_fail(EXIT_WRONG, "%s: no memory", s->path);
    const char *report = s->compiler.aulec_result_data(result);
    if (report) fputs(report, stdout);
    fflush(stdout);
    fputs(s->compiler.aulec_result_diagnostics(result), stderr);
    s->compiler.aulec_result_free(result);
    return status == AULEC_OK ? 0 : status == AULEC_ERROR_USAGE ? EXIT_USAGE : EXIT_WRONG;
}

typedef struct Bytes {
    const void *at;
    size_t length;
} Bytes;

static bool put_bytes(FILE *stream, const void *what)
{
    const Bytes *bytes = what;
    return fwrite(bytes->at, 1, bytes->length, stream) == bytes->length;
}

static int write_plot(Script *s, const char *path)
{
    AuWhy why;
    aulec_result *result = NULL;
    const aulec_check_options options = check_options(s, true);
    int status = s->compiler.aulec_check(s->path, (const char *)s->file.bytes, s->file.length,
                                         &options, &result) == AULEC_OK
                     ? 0
                     : EXIT_USAGE; /* the script itself is right by now */
    if (!result) return command_fail(EXIT_WRONG, "%s: no memory", s->path);
    if (status) fputs(s->compiler.aulec_result_diagnostics(result), stderr);
    const Bytes drawing = {s->compiler.aulec_result_data(result),
                           s->compiler.aulec_result_length(result)};
    if (!status && !file_write(path, put_bytes, &drawing, &why))
        status = command_fail(EXIT_FILE, "%s", why.text);
    s->compiler.aulec_result_free(result);
    return status;
}

/* ---- kernels: one artifact a backend, in a file of its own */

/* The loader takes files: one of our own, gone when it is loaded. */
static int load_artifact(const Bytes *artifact, aule_module **module)
{
    char path[4096];
    const char *folder = getenv("TMPDIR");
    const int length =
        snprintf(path, sizeof path, "%s/aule-check-XXXXXX", folder && *folder ? folder : "/tmp");
    if (length < 0 || (size_t)length >= sizeof path)
        return command_fail(EXIT_USAGE, "TMPDIR is too long for a path");
    const int file = mkstemp(path);
    FILE *stream = file >= 0 ? fdopen(file, "wb") : NULL;
    bool written = stream && put_bytes(stream, artifact);
    int cause = errno;
    if (stream && fclose(stream) != 0 && written) written = false, cause = errno;
    aule_error *error = NULL;
    int status = written ? 0
                         : command_fail(EXIT_FILE, "%s: a temporary file cannot be written: %s",
                                        path, strerror(cause));
    if (!status && aule_module_open(path, NULL, module, &error)) status = command_error(error);
    if (file >= 0) unlink(path);
    return status;
}

/* Only what the device will run: its best architecture, the widths of the case. */
static int compile_for(Script *s, const aule_device_info *device, const aulec_case *reference,
                       const char *dtype, aule_module **module)
{
    const bool tf32 = strcmp(dtype, "tf32") == 0;
    const aulec_options options = {
        .struct_size = sizeof options,
        .targets = device->backend,
        .archs = s->compiler.aulec_best_arch(device->backend, device->features, dtype),
        .dtypes = tf32 ? "f32" : dtype,
        .f32 = tf32 ? "tf32" : "exact",
        .widths = s->compiler.aulec_case_widths(reference),
        .attention = s->compiler.aulec_case_attention(reference)};
    aulec_result *result = NULL;
    const aulec_status status = s->compiler.aulec_compile(s->path, (const char *)s->file.bytes,
                                                          s->file.length, &options, &result);
    if (status != AULEC_OK) {
        fputs(s->compiler.aulec_result_diagnostics(result), stderr);
        s->compiler.aulec_result_free(result);
        return EXIT_WRONG;
    }
    const Bytes artifact = {s->compiler.aulec_result_data(result),
                            s->compiler.aulec_result_length(result)};
    const int failed = load_artifact(&artifact, module);
    s->compiler.aulec_result_free(result);
    return failed;
}

/* ---- one case on one device */

typedef struct Trial {
    Script *script;
    aule_device *device;
    const aulec_case *reference;
    AuArray arrays[MOST]; /* by tensor of the case */
    aule_buffer *buffers[MOST];
    DLTensor tensors[MOST];
    aule_param_arg params[MOST];
    size_t count, param_count;
} Trial;

static const aulec_case_tensor *tensor_of(const Trial *t, size_t n)
{
    return t->script->compiler.aulec_case_get_tensor(t->reference, n);
}

static int give_up(aule_error *error)
{
    printf("%s\n", aule_error_message(error));
    aule_error_free(error);
    return EXIT_WRONG;
}

static int place(Trial *t, size_t n)
{
    const aulec_case_tensor *tensor = tensor_of(t, n);
    AuArray *array = &t->arrays[n];
    aule_error *error = NULL;
    AuWhy why;
    if (!array_new(array, tensor->dtype, (int32_t)tensor->rank, tensor->shape, &why))
        return command_fail(EXIT_WRONG, "%s", why.text);
    if (tensor->data)
        memcpy(array->data, tensor->data, array->bytes);
    else
        memset(array->data, 0xff, array->bytes); /* nan: what is not written shows */
    void *data = array->data;
    if (aule_device_get_info(t->device)->dl.device_type != kDLCPU) {
        if (aule_buffer_new(t->device, array->bytes ? array->bytes : 4, &t->buffers[n], &error) ||
            aule_buffer_upload(t->buffers[n], 0, array->data, array->bytes, &error))
            return give_up(error);
        data = aule_buffer_data(t->buffers[n]);
    }
    t->tensors[n] = (DLTensor){.data = data,
                               .device = aule_device_get_info(t->device)->dl,
                               .ndim = array->rank,
                               .dtype = array_dl_type(array->dtype),
                               .shape = array->shape,
                               .strides = array->strides};
    return 0;
}

static int run_operation(Trial *t, aule_attention *attention, const char *operation)
{
    aule_tensor_arg arguments[MOST];
    aule_call call = {.struct_size = sizeof call,
                      .operation = operation,
                      .tensors = arguments,
                      .params = t->params,
                      .param_count = t->param_count};
    for (size_t n = 0; n < t->count; n++) {
        const aulec_case_tensor *tensor = tensor_of(t, n);
        if (operation_takes(operation, tensor->role))
            arguments[call.tensor_count++] = (aule_tensor_arg){tensor->name, &t->tensors[n]};
    }
    aule_plan *plan = NULL;
    aule_buffer *workspace = NULL;
    aule_error *error = NULL;
    if (aule_plan_new(attention, t->device, &call, &plan, &error)) return give_up(error);
    aule_run run = {.struct_size = sizeof run, .workspace_bytes = aule_plan_workspace(plan, NULL)};
    int status = 0;
    if (run.workspace_bytes && aule_buffer_new(t->device, run.workspace_bytes, &workspace, &error))
        status = give_up(error);
    if (workspace) run.workspace = aule_buffer_data(workspace);
    if (!status &&
        (aule_plan_run(plan, &run, &error) || aule_device_synchronize(t->device, NULL, &error)))
        status = give_up(error);
    aule_buffer_free(workspace);
    aule_plan_free(plan);
    return status;
}

static double element(const AuArray *array, uint64_t n)
{
    const uint16_t *half = array->data;
    uint32_t bits;
    float value;
    if (array->dtype == AULE_F16) return (double)array_from_half(half[n]);
    if (array->dtype == AULE_F32) return (double)((const float *)array->data)[n];
    bits = (uint32_t)half[n] << 16;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

/* Prints the error, and the size of what it is an error of; true if it is inside of its bound. Nothing but zeros is no test. */
static bool compare(Trial *t, size_t n)
{
    const aulec_case_tensor *tensor = tensor_of(t, n);
    aule_error *error = NULL;
    double worst = 0, size = 0;
    if (t->buffers[n] &&
        aule_buffer_download(t->buffers[n], 0, t->arrays[n].data, t->arrays[n].bytes, &error)) {
        give_up(error);
        return false;
    }
    for (uint64_t i = 0; i < tensor->elements; i++) {
        const double got = element(&t->arrays[n], i), want = tensor->want[i];
        const double off = got == want || (isnan(got) && isnan(want)) ? 0 : fabs(got - want);
        if (!(off <= worst)) worst = isnan(off) ? INFINITY : off;
        if (isfinite(want)) size = fmax(size, fabs(want));
    }
    const bool good = worst <= tensor->bound;
    if (good && isinf(tensor->bound))
        printf(" %s (not tested: lost by rounding)", tensor->name);
    else if (good && size == 0)
        printf(" %s (not tested: all 0)", tensor->name);
    else
        printf(" %s %.1e/%.2g%s", tensor->name, worst, size, good ? "" : " (!)");
    if (!good) printf(" [bound %.1e]", tensor->bound);
    return good;
}

/* Whether gradients are to be compared: a recurrence may have no kernel of them on a device (N0601), which the report says;
 * all else has them everywhere. */
static bool runs_backward(const Trial *t, const aule_attention *attention)
{
    const aule_attention_v1 *a = aule_attention_descriptor(attention);
    const aule_variant_v1 *v = a->variants;
    bool recurs = false;
    for (size_t n = 0; n < t->count; n++) recurs |= tensor_of(t, n)->role == AULE_ROLE_STATE;
    for (uint32_t n = 0; recurs && n < a->variant_count; n++) {
        if (strcmp(v->operation, "backward") == 0) return true;
        v = (const aule_variant_v1 *)(const void *)((const char *)v + v->struct_size);
    }
    return !recurs && t->script->compiler.aulec_case_has_gradients(t->reference);
}

static int run_trial(Trial *t, aule_module *module)
{
    aule_attention *attention = NULL;
    aule_error *error = NULL;
    AuCompiler *c = &t->script->compiler;
    int status = 0;
    if (aule_module_find(module, c->aulec_case_attention(t->reference), &attention, &error))
        return give_up(error);
    for (size_t n = 0; n < t->param_count; n++) {
        const aulec_case_param *p = c->aulec_case_get_param(t->reference, n);
        t->params[n] = (aule_param_arg){
            p->name,
            {.type = p->is_float ? AULE_VALUE_FLOAT : AULE_VALUE_INT, .i = p->i, .f = p->f}};
    }
    for (size_t n = 0; n < t->count && !status; n++) status = place(t, n);
    if (!status) status = run_operation(t, attention, "forward");
    const bool backward = runs_backward(t, attention);
    if (!status && backward) status = run_operation(t, attention, "backward");
    bool good = !status;
    for (size_t n = 0; n < t->count && !status; n++)
        if (tensor_of(t, n)->want &&
            (backward || operation_takes("forward", tensor_of(t, n)->role)))
            good &= compare(t, n);
    if (!status) puts(backward ? "" : " (no kernels of gradients here)");
    return good ? 0 : EXIT_WRONG;
}

/* [far]: of inputs far below 0. */
static int new_case(Script *s, const char *dtype, bool far, aulec_case **reference)
{
    const aulec_case_options options = {.struct_size = sizeof options,
                                        .attention = s->attention,
                                        .dtype = dtype,
                                        .values = s->values,
                                        .seed = s->seed,
                                        .far_inputs = far};
    aulec_result *result = NULL;
    *reference = NULL;
    if (s->compiler.aulec_case_new(s->path, (const char *)s->file.bytes, s->file.length, &options,
                                   reference, &result) != AULEC_OK)
        fputs(result ? s->compiler.aulec_result_diagnostics(result) : "aule: no memory\n", stderr);
    s->compiler.aulec_result_free(result);
    if (!*reference) return EXIT_WRONG;
    if (s->compiler.aulec_case_tensor_count(*reference) <= MOST &&
        s->compiler.aulec_case_param_count(*reference) <= MOST)
        return 0;
    s->compiler.aulec_case_free(*reference);
    *reference = NULL;
    return command_fail(EXIT_WRONG, "%s: more than %d tensors or parameters", s->path, MOST);
}

static int run_case(Script *s, aule_device *device, const aulec_case *reference,
                    aule_module *module)
{
    Trial *t = calloc(1, sizeof *t);
    if (!t) return command_fail(EXIT_WRONG, "%s: no memory", s->path);
    *t = (Trial){.script = s,
                 .device = device,
                 .reference = reference,
                 .count = s->compiler.aulec_case_tensor_count(reference),
                 .param_count = s->compiler.aulec_case_param_count(reference)};
    const int status = run_trial(t, module);
    for (size_t n = 0; n < t->count; n++) {
        aule_buffer_free(t->buffers[n]);
        array_free(&t->arrays[n]);
    }
    free(t);
    return status;
}

static int check_dtype(Script *s, aule_device *device, const char *dtype)
{
    const aule_device_info *info = aule_device_get_info(device);
    aulec_case *reference = NULL, *far = NULL;
    aule_module *module = NULL;
    int status = new_case(s, dtype, false, &reference);
    if (status) return status;
    printf("  %-10s %-4s ", info->id, dtype);
    fflush(stdout);
    status = compile_for(s, info, reference, dtype, &module);
    if (!status) status = run_case(s, device, reference, module);
    if (!status && s->compiler.aulec_case_far_inputs(reference)) {
        status = new_case(s, dtype, true, &far);
        if (!status) printf("  %-10s %-4s  far ", info->id, dtype);
        if (!status) status = run_case(s, device, far, module);
    }
    aule_module_close(module);
    s->compiler.aulec_case_free(far);
    s->compiler.aulec_case_free(reference);
    return status;
}

static int check_device(Script *s, const char *id)
{
    const char *const dtypes[] = {s->tf32 ? "tf32" : "f32", "f16", "bf16"};
    aule_device *device = NULL;
    aule_error *error = NULL;
    int status = 0;
    if (aule_device_open(id, NULL, &device, &error)) return command_error(error);
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
        if (s->dtype && strcmp(s->dtype, d ? dtypes[d] : "f32") != 0) continue;
        const int failed = check_dtype(s, device, dtypes[d]);
        if (failed) status = failed;
    }
    aule_device_close(device);
    return status;
}

/* Every device there is; with [only], "opencl" or "opencl:1", those that it names; without, the one that AULE_BACKEND names, if it
 * does. */
static int check_devices(Script *s, const char *only)
{
    const char *variable = getenv("AULE_BACKEND");
    const bool named = !only && variable && *variable;
    aule_device_list *list = NULL;
    aule_error *error = NULL;
    int status = 0;
    size_t tried = 0;
    if (aule_device_list_new(NULL, &list, &error)) return command_error(error);
    puts(
        "  kernels: largest error against f64 / largest value; each error within twice (gradients: "
        "four times) that of the plain formula in the type");
    for (size_t n = 0; !named && n < aule_device_list_count(list); n++) {
        const aule_device_info *info = aule_device_list_get(list, n);
        if (!info->available ||
            (only && strcmp(only, info->id) != 0 && strcmp(only, info->backend) != 0))
            continue;
        const int failed = check_device(s, info->id);
        if (failed) status = failed;
        tried++;
    }
    aule_device_list_free(list);
    return tried ? status : check_device(s, only); /* which tells why there is none */
}

static int read_options(Script *s, AuOptions *options)
{
    const char *f32 = options_take(options, "f32");
    if (!s->path) return command_fail(EXIT_USAGE, "expected: aule check x.attn ...");
    s->tf32 = f32 && strcmp(f32, "tf32") == 0;
    if (f32 && !s->tf32 && strcmp(f32, "exact") != 0)
        return command_fail(EXIT_USAGE, "--f32 is '%s', expected exact or tf32", f32);
    const char *dtype = s->dtype = options_take(options, "dtype");
    if (dtype && strcmp(dtype, "f32") != 0 && strcmp(dtype, "f16") != 0 &&
        strcmp(dtype, "bf16") != 0)
        return command_fail(EXIT_USAGE, "--dtype is '%s', expected f32, f16 or bf16", dtype);
    return options_number(options, "seed", 0, UINT64_MAX, &s->seed);
}

/* Opens the device that is asked for, before anything takes time. */
static int find_device(const char *backend)
{
    aule_device *device = NULL;
    aule_error *error = NULL;
    if (aule_device_open(backend, NULL, &device, &error)) return command_error(error);
    aule_device_close(device);
    return 0;
}

int command_check(AuOptions *options)
{
    AuWhy why;
    Script s = {.path = options->artifact,
                .attention = options_take(options, "attention"),
                .values = options_take(options, "shape")};
    const char *plot = options_take(options, "plot"), *backend = options_take(options, "backend");
    int status = read_options(&s, options);
    if (!status && !file_read(&s.file, s.path, &why))
        status = command_fail(EXIT_FILE, "%s", why.text);
    if (!status) status = find_device(backend);
    if (!status) status = compiler_open(&s.compiler);
    if (!status) status = check_laws(&s);
    if (!status && plot) status = write_plot(&s, plot);
    if (!status) status = check_devices(&s, backend);
    compiler_close(&s.compiler);
    file_free(&s.file);
    return status;
}
