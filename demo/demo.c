/* demo.c - two scripts on the data of two language models: compiled in the process, run on every device present, compared with what
 * the models computed, and one head's weights as a picture.
 *
 *     demo --scripts DIR --data DIR [--head N] [--columns N]
 *
 * Exit status: 0 if every device that is available and that the scripts are compiled for gave what the models computed, and one at least did,
 * else 1; 2 for a wrong command line; 3 if the standard output cannot be written. */
#include "call.h"
#include "picture.h"

#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "aule/aulec.h"

static const double error_bound = 5e-6;
enum { LARGEST_PATH = 4096 };

/* One script and the model's tensors for it. */
typedef struct Case {
    const char *script, *model, *files; /* files: what the names of its .npy files begin with */
    const char *lengths; /* file of the lengths of the sequences, NULL: all are whole */
    AuArray q, k, v, length, out, want;
} Case;

typedef struct Demo {
    const char *scripts, *data;
    int64_t head, columns;
    aule_device_list *devices;
    int right, failures, skipped; /* devices, once for each script */
} Demo;

/* ---- input */

static bool read_tensor(const Demo *d, const char *file, const char *part, AuArray *array)
{
    char path[LARGEST_PATH];
    AuWhy why;
    snprintf(path, sizeof path, "%s/%s%s.npy", d->data, file, part);
    if (array_read(array, path, part, &why)) return true;
    fprintf(stderr, "demo: %s\n", why.text);
    return false;
}

static bool read_case(const Demo *d, Case *c)
{
    AuWhy why;
    if (!read_tensor(d, c->files, "q", &c->q) || !read_tensor(d, c->files, "k", &c->k) ||
        !read_tensor(d, c->files, "v", &c->v) || !read_tensor(d, c->files, "out", &c->want))
        return false;
    if (c->lengths && !read_tensor(d, c->lengths, "", &c->length)) return false;
    return array_new(&c->out, AULE_F32, c->want.rank, c->want.shape, &why);
}

static void free_case(Case *c)
{
    AuArray *const arrays[] = {&c->q, &c->k, &c->v, &c->length, &c->out, &c->want};
    for (size_t n = 0; n < sizeof arrays / sizeof *arrays; n++) array_free(arrays[n]);
}

/* ---- numbers */

static int64_t length_of(const Case *c, int64_t batch)
{
    return c->lengths ? ((const int32_t *)c->length.data)[batch] : c->q.shape[2];
}

/* The largest difference in rows of real tokens; what stands in rows of padding means nothing. NaN counts as infinite. */
static double largest_error(const Case *c)
{
    const float *out = c->out.data, *want = c->want.data;
    const int64_t heads = c->out.shape[1], rows = c->out.shape[2], width = c->out.shape[3];
    double error = 0;
    for (int64_t n = 0; n < c->out.shape[0] * heads * rows * width; n++) {
        const int64_t row = n / width % rows, batch = n / width / rows / heads;
        if (row >= length_of(c, batch)) continue;
        const double difference = fabs((double)out[n] - (double)want[n]);
        error = isnan(difference) ? INFINITY : fmax(error, difference);
    }
    return error;
}

/* The weights of a causal head, [tokens, tokens], as the formula says them. */
static void causal_weights(const Case *c, int64_t head, double *weights)
{
    const int64_t tokens = c->q.shape[2], width = c->q.shape[3],
                  group = c->q.shape[1] / c->k.shape[1];
    const float *q = (const float *)c->q.data + head * tokens * width;
    const float *k = (const float *)c->k.data + head / group * tokens * width;
    for (int64_t i = 0; i < tokens; i++) {
        double *row = weights + i * tokens, sum = 0;
        for (int64_t j = 0; j <= i; j++) {
            double score = 0;
            for (int64_t x = 0; x < width; x++)
                score += (double)q[i * width + x] * (double)k[j * width + x];
            row[j] = exp(score / sqrt((double)width));
            sum += row[j];
        }
        for (int64_t j = 0; j <= i; j++) row[j] /= sum;
    }
}

/* ---- output */

static void print_case(const Case *c, double seconds, size_t bytes)
{
    printf("\n%s on %s\n    %lld heads", c->script, c->model, (long long)c->q.shape[1]);
    if (c->k.shape[1] != c->q.shape[1])
        printf(" that share %lld of keys", (long long)c->k.shape[1]);
    printf(" of width %lld; sequences of", (long long)c->q.shape[3]);
    for (int64_t b = 0; b < c->q.shape[0]; b++)
        printf("%s %lld",
               b == 0                   ? ""
               : b + 1 == c->q.shape[0] ? " and"
                                        : ",",
               (long long)length_of(c, b));
    printf(" tokens; compiled in %.2f s to %.0f KB\n", seconds, (double)bytes / 1024);
    printf("    %-10s  %9s  %10s  kernel\n", "device", "error", "time");
}

/* A processor behind OpenCL has the name that the processor has; the platform tells them apart. */
static void print_device(const aule_device_info *info)
{
    const bool is_cpu = info->dl.device_type == kDLCPU;
    if (is_cpu)
        printf("%s\n", info->name);
    else
        printf("%.*s\n", (int)strcspn(info->driver, ","), info->driver);
}

static void run_device(Demo *d, Case *c, aule_module *module, const aule_device_info *info)
{
    const bool padded = c->lengths != NULL;
    CallArguments arguments = {{"q", "k", "v"}, {&c->q, &c->k, &c->v}, 3};
    if (padded)
        arguments.names[3] = "length", arguments.arrays[3] = &c->length, arguments.count = 4;
    arguments.names[arguments.count] = "o", arguments.arrays[arguments.count] = &c->out,
    arguments.count++;
    memset(c->out.data, 0xff, c->out.bytes); /* NaN: what is not written does not go unseen */
    double seconds = 0;
    const char *arch = "";
    AuWhy why;
    if (!call_fits(module, info, &why)) {
        printf("    %-10s  skipped: %s\n", info->id, why.text);
        d->skipped++;
        return;
    }
    if (!call_run(module, info->id, &arguments, &seconds, &arch, &why)) {
        printf("    %-10s  failed: %s\n", info->id, why.text);
        d->failures++;
        return;
    }
    const double error = largest_error(c);
    const bool good = error <= error_bound;
    printf("    %-10s  %9.1e  %7.2f ms  %-9s  %s", info->id, error, seconds * 1e3, arch,
           good ? "" : "WRONG  ");
    print_device(info);
    d->right += good;
    d->failures += !good;
}

static bool has_device(const Demo *d, const char *backend)
{
    for (size_t n = 0; n < aule_device_list_count(d->devices); n++) {
        const aule_device_info *info = aule_device_list_get(d->devices, n);
        if (info->available && strcmp(info->backend, backend) == 0) return true;
    }
    return false;
}

/* A compiler that was built without LLVM has no architecture of processors. */
static bool compiles_for_processors(const Demo *d)
{
    for (size_t n = 0; n < aule_device_list_count(d->devices); n++) {
        const aule_device_info *info = aule_device_list_get(d->devices, n);
        if (strcmp(info->backend, "cpu") == 0 && aulec_best_arch("cpu", info->features, "f32"))
            return true;
    }
    return false;
}

/* What is not compiled unless asked for is asked for where there is such a device. */
static const char *targets_of(const Demo *d, char targets[64])
{
    static const char *const asked[] = {"cuda", "hip", "levelzero", "metal", "vulkan"};
    strcpy(targets, compiles_for_processors(d) ? "cpu,opencl" : "opencl");
    for (size_t n = 0; n < sizeof asked / sizeof *asked; n++)
        if (has_device(d, asked[n])) strcat(strcat(targets, ","), asked[n]);
    return targets;
}

static void run_case(Demo *d, Case *c)
{
    char path[LARGEST_PATH], targets[64];
    snprintf(path, sizeof path, "%s/%s", d->scripts, c->script);
    size_t bytes = 0;
    const double start = call_clock();
    aule_module *module =
        read_case(d, c) ? call_compile(path, c->q.shape[3], targets_of(d, targets), &bytes) : NULL;
    if (!module) {
        d->failures++;
        return;
    }
    print_case(c, call_clock() - start, bytes);
    for (size_t n = 0; n < aule_device_list_count(d->devices); n++) {
        const aule_device_info *info = aule_device_list_get(d->devices, n);
        if (info->available) run_device(d, c, module, info);
    }
    aule_module_close(module);
}

static void draw_head(Demo *d, const Case *c)
{
    if (!c->q.data || !c->k.data) return;
    const int64_t tokens = c->q.shape[2], head = d->head;
    if (head >= c->q.shape[1]) {
        fprintf(stderr, "demo: --head is %lld, %s has heads 0 to %lld\n", (long long)head,
                c->script, (long long)c->q.shape[1] - 1);
        d->failures++;
        return;
    }
    double *weights = calloc((size_t)(tokens * tokens), sizeof *weights), first = 0;
    if (!weights) return;
    causal_weights(c, head, weights);
    for (int64_t i = 0; i < tokens; i++) first += weights[i * tokens] / (double)tokens;
    printf("\nHead %lld of %s: %lld tokens from top to bottom; each divides its weight over those "
           "before it, from left to\n"
           "right. On average %.0f %% falls on the first token.\n\n",
           (long long)head, c->script, (long long)tokens, first * 100);
    picture_draw(weights, tokens, d->columns);
    free(weights);
}

static void print_missing(const Demo *d)
{
    for (size_t n = 0; n < aule_device_list_count(d->devices); n++) {
        const aule_device_info *info = aule_device_list_get(d->devices, n);
        if (!info->available) printf("\n%s is not available: %s\n", info->id, info->reason);
    }
}

static void print_verdict(const Demo *d)
{
    if (d->failures)
        puts("\nNot every device agrees with the models.");
    else if (!d->right)
        puts("\nNo device has run anything.");
    else if (d->skipped)
        puts("\nEvery device that was not skipped agrees with the models.");
    else
        puts("\nEvery device agrees with the models.");
}

/* ---- command line */

/* A whole number of decimal digits. */
static bool read_number(const char *text, int64_t *number)
{
    enum { MOST = 100000 };
    *number = 0;
    for (const char *at = text; *at; at++) {
        if (*at < '0' || *at > '9' || *number > MOST) return false;
        *number = *number * 10 + (*at - '0');
    }
    return *text && *number <= MOST;
}

static bool parse(int argc, char **argv, Demo *d)
{
    enum { SCRIPTS = 256, DATA, HEAD, COLUMNS };
    static const struct option options[] = {{"scripts", required_argument, NULL, SCRIPTS},
                                            {"data", required_argument, NULL, DATA},
                                            {"head", required_argument, NULL, HEAD},
                                            {"columns", required_argument, NULL, COLUMNS},
                                            {NULL, 0, NULL, 0}};
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (c) {
        case SCRIPTS: d->scripts = optarg; break;
        case DATA: d->data = optarg; break;
        case HEAD:
            if (!read_number(optarg, &d->head)) return false;
            break;
        case COLUMNS:
            if (!read_number(optarg, &d->columns)) return false;
            break;
        default: return false;
        }
    }
    return optind == argc;
}

int main(int argc, char **argv)
{
    Demo d = {.scripts = "demo", .data = "tests/data", .head = 4};
    if (!parse(argc, argv, &d)) {
        fputs("usage: demo [--scripts DIR] [--data DIR] [--head N] [--columns N]\n", stderr);
        return 2;
    }
    aule_error *error = NULL;
    if (aule_device_list_new(NULL, &d.devices, &error)) {
        fprintf(stderr, "demo: %s\n", aule_error_message(error));
        aule_error_free(error);
        return 1;
    }
    Case encoder = {.script = "encoder.attn",
                    .model = "all-MiniLM-L6-v2, layer 5",
                    .files = "minilm_layer5_",
                    .lengths = "minilm_lengths"};
    Case decoder = {.script = "decoder.attn",
                    .model = "SmolLM2-135M-Instruct, layer 12",
                    .files = "smollm2_layer12_"};
    printf("aule %s: error is the largest difference from what the model computed, in f32; at most "
           "%.0e is right.\n",
           aule_version(NULL), error_bound);
    run_case(&d, &encoder);
    run_case(&d, &decoder);
    print_missing(&d);
    draw_head(&d, &decoder);
    free_case(&encoder);
    free_case(&decoder);
    aule_device_list_free(d.devices);
    print_verdict(&d);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fputs("demo: the standard output cannot be written\n", stderr);
        return 3;
    }
    return d.failures || !d.right;
}
