/* check.c - aule check: tries the laws of the language on a script, then its compiled kernels on every device there is,
 * forward and backward, in every operand type, beside what the interpreter computes in f64. */
#include "check.h"
#include "session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "compiler.h"

enum { MOST = 96 };

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

/* The loader takes files. */
int check_write(const aulec_result *result, Script *s, char *path)
{
    const Bytes artifact = {s->compiler.aulec_result_data(result),
                            s->compiler.aulec_result_length(result)};
    const char *folder = getenv("TMPDIR");
    const int length =
        snprintf(path, CHECK_PATH, "%s/aule-check-XXXXXX", folder && *folder ? folder : "/tmp");
    if (length < 0 || length >= CHECK_PATH) {
        *path = 0;
        return command_fail(EXIT_USAGE, "TMPDIR is too long for a path");
    }
    const int file = mkstemp(path);
    FILE *stream = file >= 0 ? fdopen(file, "wb") : NULL;
    bool written = stream && put_bytes(stream, &artifact);
    int cause = errno;
    if (stream && fclose(stream) != 0 && written) written = false, cause = errno;
    const int status = written
                           ? 0
                           : command_fail(EXIT_FILE, "%s: a temporary file cannot be written: %s",
                                          path, strerror(cause));
    if (file < 0) *path = 0;
    return status;
}

/* One of our own, gone when it is loaded. */
static int load_artifact(Script *s, const aulec_result *result, aule_module **module)
{
    char path[CHECK_PATH];
    aule_error *error = NULL;
    int status = check_write(result, s, path);
    if (!status && aule_module_open(path, NULL, module, &error)) status = command_error(error);
    if (*path) unlink(path);
    return status;
}

/* Only what the device will run: its best architecture, the widths of the case. */
int check_compile(Script *s, const aule_device_info *device, const aulec_case *reference,
                  const char *dtype, const char *layout, aulec_result **result)
{
    const bool tf32 = strcmp(dtype, "tf32") == 0;
    const aulec_options options = {
        .struct_size = sizeof options,
        .targets = device->backend,
        .archs = s->compiler.aulec_best_arch(device->backend, device->features, dtype),
        .dtypes = tf32 ? "f32" : dtype,
        .f32 = tf32 ? "tf32" : "exact",
        .widths = s->compiler.aulec_case_widths(reference),
        .attention = s->compiler.aulec_case_attention(reference),
        .layout = layout};
    *result = NULL;
    const aulec_status status = s->compiler.aulec_compile(s->path, (const char *)s->file.bytes,
                                                          s->file.length, &options, result);
    return status == AULEC_OK ? 0 : status == AULEC_ERROR_USAGE ? EXIT_USAGE : EXIT_WRONG;
}

void check_tell_why(Script *s, const aulec_result *result)
{
    fputs(result ? s->compiler.aulec_result_diagnostics(result) : "aule: no memory\n", stderr);
}

static int compile_for(Script *s, const aule_device_info *device, const aulec_case *reference,
                       const char *dtype, aule_module **module)
{
    aulec_result *result;
    int status = check_compile(s, device, reference, dtype, NULL, &result);
    if (status) check_tell_why(s, result);
    if (!status) status = load_artifact(s, result, module);
    s->compiler.aulec_result_free(result);
    return status == EXIT_USAGE ? EXIT_WRONG : status;
}

/* ---- the cases of a type */

/* Tokens of a chunk, of kernels by products; 0: of others. */
typedef struct Chunks {
    uint32_t forward, backward;
} Chunks;

int check_reference(Script *s, const aulec_case_options *options, aulec_case **reference)
{
    aulec_result *result = NULL;
    *reference = NULL;
    if (s->compiler.aulec_case_new(s->path, (const char *)s->file.bytes, s->file.length, options,
                                   reference, &result) != AULEC_OK)
        check_tell_why(s, result);
    s->compiler.aulec_result_free(result);
    if (!*reference) return EXIT_WRONG;
    if (s->compiler.aulec_case_tensor_count(*reference) <= CHECK_MOST &&
        s->compiler.aulec_case_param_count(*reference) <= CHECK_MOST)
        return 0;
    s->compiler.aulec_case_free(*reference);
    *reference = NULL;
    return command_fail(EXIT_WRONG, "%s: more than %d tensors or parameters", s->path, CHECK_MOST);
}

/* [far]: of inputs far below 0. */
static int new_case(Script *s, const char *dtype, bool far, Chunks chunks, aulec_case **reference)
{
    const aulec_case_options options = {.struct_size = sizeof options,
                                        .attention = s->attention,
                                        .dtype = dtype,
                                        .values = s->values,
                                        .seed = s->seed,
                                        .far_inputs = far,
                                        .chunk = chunks.forward,
                                        .backward_chunk = chunks.backward};
    return check_reference(s, &options, reference);
}

/* Where the module's kernels multiply chunks by matrix units, they are held against the formula that rounds where they do. A module that
 * was compiled for one device and type has one such kernel for each operation. */
static Chunks chunks_of(const aule_module *module)
{
    const aule_attention_v1 *a = aule_attention_descriptor(aule_module_attention(module, 0));
    Chunks chunks = {0, 0};
    unsigned warps, tokens;
    for (uint32_t n = 0; n < a->variant_count; n++) {
        const aule_variant_v1 *v = session_variant(a, n);
        if (sscanf(v->schedule, "linear_warps: warps=%u tokens=%u", &warps, &tokens) == 2)
            chunks.forward = tokens;
        if (sscanf(v->schedule, "linear_warps_backward: warps=%u tokens=%u", &warps, &tokens) == 2)
            chunks.backward = tokens;
    }
    return chunks;
}

static int compile_case(Script *s, const aule_device_info *device, const char *dtype,
                        aulec_case **reference, aule_module **module)
{
    int status = compile_for(s, device, *reference, dtype, module);
    if (status) return status;
    const Chunks chunks = chunks_of(*module);
    if (!chunks.forward && !chunks.backward) return 0;
    s->compiler.aulec_case_free(*reference);
    return new_case(s, dtype, false, chunks, reference);
}

static int check_dtype(Script *s, aule_device *device, const char *dtype)
{
    const aule_device_info *info = aule_device_get_info(device);
    aulec_case *reference = NULL, *far = NULL;
    aule_module *module = NULL;
    int status = new_case(s, dtype, false, (Chunks){0, 0}, &reference);
    if (status) return status;
    printf("  %-10s %-4s ", info->id, dtype);
    fflush(stdout);
    status = compile_case(s, info, dtype, &reference, &module);
    if (!status) status = check_case(s, device, reference, module);
    if (!status && s->compiler.aulec_case_far_inputs(reference)) {
        status = new_case(s, dtype, true, (Chunks){0, 0}, &far);
        if (!status) printf("  %-10s %-4s  far ", info->id, dtype);
        if (!status) status = check_case(s, device, far, module);
    }
    if (!status && s->layout) status = check_layouts(s, device, dtype, reference, module);
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

/* A processor behind Vulkan takes seconds to build each kernel, and the same processor is tried as `cpu`. */
static bool is_left_out(const aule_device_info *info, const char *only)
{
    if (only || info->kind != AULE_DEVICE_CPU || strcmp(info->backend, "vulkan") != 0) return false;
    printf("  %-10s tried with --backend %s alone: it is a processor\n", info->id, info->id);
    return true;
}

static bool is_set(const char *variable)
{
    const char *value = getenv(variable);
    return value && *value;
}

/* Every device there is; with [only], "opencl" or "opencl:1", those that it names; without, the one that AULE_BACKEND and AULE_DEVICE
 * name, if they do. */
static int check_devices(Script *s, const char *only)
{
    const bool named = !only && (is_set("AULE_BACKEND") || is_set("AULE_DEVICE"));
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
            (only && strcmp(only, info->id) != 0 && strcmp(only, info->backend) != 0) ||
            is_left_out(info, only))
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
                .values = options_take(options, "shape"),
                .layout = options_take(options, "layout")};
    const char *plot = options_take(options, "plot"), *backend = options_take(options, "backend");
    int status = read_options(&s, options);
    if (!status && !file_read(&s.file, s.path, &why))
        status = command_fail(EXIT_FILE, "%s", why.text);
    if (!status) status = find_device(backend);
    if (!status) status = compiler_open(&s.compiler);
    if (!status && s.layout) status = check_layouts_fit(&s);
    if (!status) status = check_laws(&s);
    if (!status && plot) status = write_plot(&s, plot);
    if (!status) status = check_devices(&s, backend);
    compiler_close(&s.compiler);
    file_free(&s.file);
    return status;
}
