/* parts_test.c - the operations `unfinished` and `combine`: attentions of some of the keys, joined, are the attention of all of them.
 * parts_test BACKEND [DTYPE] */
#include "aule/aule.h"
#include "aule/aulec.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Keys of a part are numbered from `first` on, so that each script means the same of a part as of all keys. */
#define HEAD                                                                                       \
    "attention tried {\n"                                                                          \
    "    q: [B, H, S, D]; k: [B, Hk, T, D]; v: [B, Hk, T, E];\n"                                   \
    "    input sink: f32[H]; input gate: [B, H, S, E]; input bias: f32[];\n"                       \
    "    param first: i32 = 0; param window: i32 = 1000; param power: f32 = rsqrt(E);\n"
#define BAND "    mask(b, h, i, j) = first + j <= 2 * i + 3 && 2 * i - (first + j) < window;\n"
enum {
    B = 2,
    H = 4,
    HK = 2,
    S = 37,
    T = 45,
    D = 16,
    E = 24,
    MOST = 6,
    MOST_PARTS = 5,
    PADDED = S + 3
};

static const struct {
    const char *name, *script;
} scripts[] = {
    {"softmax", HEAD "score_mod(s) = s * rsqrt(D); online softmax; }"},
    {"band and soft cap", HEAD BAND "score_mod(s) = 5.0 * tanh(s / 5.0); online softmax; }"},
    {"sink", HEAD BAND "score_mod(s) = s; online softmax_sink(sink[h]); }"},
    {"gate", HEAD BAND "out_mod(o, b, h, i, c) = o * sigmoid(gate[b, h, i, c]) * power;\n"
                       "online softmax; }"},
    {"offset of the output", HEAD BAND "out_mod(o, b, h, i, c) = o + gate[b, h, i, c];\n"
                                       "online softmax; }"},
    {"sigmoid", HEAD BAND "score_mod(s) = sigmoid(s + bias); online identity; }"},
    {"true maximum", HEAD BAND "score_mod(s) = s * 40.0; online softmax; }"},
};
enum { SCRIPTS = sizeof scripts / sizeof *scripts };

static const struct {
    int count, keys[MOST];
} splits[] = {
    {1, {T}},     {2, {20, 25}},           {3, {20, 0, 25}}, {4, {0, 0, T, 0}},
    {2, {44, 1}}, {6, {7, 8, 7, 8, 7, 8}}, {3, {0, 0, 0}},   {0, {0}},
};
enum { SPLITS = sizeof splits / sizeof *splits };

/* ---- arrays */

typedef struct Array {
    char name[24];
    size_t elements; /* of f32 in memory */
    float *host;
    aule_buffer *buffer;
    int rank;
    int64_t shape[5], strides[5];
    DLTensor dl;
} Array;

typedef struct Bench {
    aule_device *device;
    aule_attention *attention;
    int failures;
} Bench;

static float number(uint32_t seed, size_t n)
{
    uint32_t x = (uint32_t)n * 2654435761u + seed * 40503u;
    x ^= x >> 15, x *= 2246822519u, x ^= x >> 13;
    return (float)(x % 2001u) / 1000.0f - 1.0f;
}

/* Rows of axis [padded] have three more behind them, of NaN. */
static Array array(Bench *b, const char *name, int rank, const int64_t *shape, int padded)
{
    Array a = {.rank = rank, .elements = 1};
    snprintf(a.name, sizeof a.name, "%s", name);
    for (int n = rank - 1; n >= 0; n--) {
        a.shape[n] = shape[n];
        a.strides[n] = (int64_t)a.elements;
        a.elements *= (size_t)(n == padded ? shape[n] + PADDED - S : shape[n]);
    }
    a.host = malloc((a.elements + 1) * sizeof *a.host);
    for (size_t n = 0; n < a.elements; n++) a.host[n] = NAN;
    if (!a.host || aule_buffer_new(b->device, (a.elements + 1) * sizeof *a.host, &a.buffer, NULL))
        exit(1);
    return a;
}

static void send(Array *a)
{
    if (aule_buffer_upload(a->buffer, 0, a->host, a->elements * sizeof *a->host, NULL)) exit(1);
}

static void fetch(Array *a)
{
    if (aule_buffer_download(a->buffer, 0, a->host, a->elements * sizeof *a->host, NULL)) exit(1);
}

static void drop(Array *a)
{
    free(a->host);
    aule_buffer_free(a->buffer);
}

/* As a call sees it, from [offset] elements on, without its first [skipped] axes. */
static DLTensor view(const Bench *b, Array *a, int skipped, int64_t offset)
{
    return (DLTensor){.data = aule_buffer_data(a->buffer),
                      .byte_offset = (uint64_t)offset * sizeof(float),
                      .device = aule_device_get_info(b->device)->dl,
                      .ndim = a->rank - skipped,
                      .dtype = {kDLFloat, 32, 1},
                      .shape = a->shape + skipped,
                      .strides = a->strides + skipped};
}

typedef struct Call {
    aule_tensor_arg args[24];
    DLTensor tensors[24];
    size_t count;
} Call;

static void add(Call *c, const char *name, DLTensor tensor)
{
    c->tensors[c->count] = tensor;
    c->args[c->count] = (aule_tensor_arg){name, &c->tensors[c->count]};
    c->count++;
}

/* NULL: it ran; else what was said. */
static const char *run(Bench *b, const char *operation, Call *c, int64_t first)
{
    static char said[1024];
    aule_error *error = NULL;
    const aule_param_arg params[] = {{"first", {.type = AULE_VALUE_INT, .i = first}},
                                     {"window", {.type = AULE_VALUE_INT, .i = 60}}};
    const aule_call call = {.struct_size = sizeof call,
                            .operation = operation,
                            .tensors = c->args,
                            .tensor_count = c->count,
                            .params = params,
                            .param_count = 2};
    if (!aule_attention_run(b->attention, b->device, &call, NULL, &error) &&
        !aule_device_synchronize(b->device, NULL, &error))
        return NULL;
    snprintf(said, sizeof said, "%s", aule_error_message(error));
    aule_error_free(error);
    return said;
}

/* ---- one script */

typedef struct Inputs {
    Array q, k, v, sink, gate, bias;
} Inputs;

static void fill(Array *a, uint32_t seed)
{
    for (size_t n = 0; n < a->elements; n++) a->host[n] = number(seed, n);
    send(a);
}

static Inputs inputs(Bench *b)
{
    Inputs x = {array(b, "q", 4, (int64_t[]){B, H, S, D}, -1),
                array(b, "k", 4, (int64_t[]){B, HK, T, D}, -1),
                array(b, "v", 4, (int64_t[]){B, HK, T, E}, -1),
                array(b, "sink", 1, (int64_t[]){H}, -1),
                array(b, "gate", 4, (int64_t[]){B, H, S, E}, -1),
                array(b, "bias", 0, NULL, -1)};
    Array *all[] = {&x.q, &x.k, &x.v, &x.sink, &x.gate, &x.bias};
    for (uint32_t n = 0; n < 6; n++) fill(all[n], n + 1);
    return x;
}

/* Some of the keys: their number is that of the view's third axis. */
static void add_inputs(Bench *b, Call *c, Inputs *x, int64_t first, int64_t keys)
{
    add(c, "q", view(b, &x->q, 0, 0));
    x->k.shape[2] = x->v.shape[2] = keys;
    add(c, "k", view(b, &x->k, 0, first * D));
    add(c, "v", view(b, &x->v, 0, first * E));
    add(c, "sink", view(b, &x->sink, 0, 0));
    add(c, "gate", view(b, &x->gate, 0, 0));
    add(c, "bias", view(b, &x->bias, 0, 0));
}

/* The n-th tensor of a role; NULL: there are not so many. */
static const aule_tensor_v1 *of_role(const aule_attention_v1 *a, uint32_t role, int n)
{
    for (uint32_t i = 0; i < a->tensor_count; i++) {
        const char *base = (const char *)a->tensors + (size_t)i * a->tensors->struct_size;
        const aule_tensor_v1 *t = (const aule_tensor_v1 *)(const void *)base;
        if (t->role == role && n-- == 0) return t;
    }
    return NULL;
}

static bool has_lse(const aule_attention_v1 *a) { return of_role(a, AULE_ROLE_FINAL, 0); }

static void complain(Bench *b, const char *script, int split, const char *what)
{
    fprintf(stderr, "%s, split %d: %s\n", script, split, what);
    b->failures++;
}

static double worst(const Array *is, const Array *should)
{
    double most = 0;
    for (size_t n = 0; n < is->elements; n++) {
        const double x = (double)is->host[n], y = (double)should->host[n];
        if (isinf(y) || isnan(y) ? (x != y && !(isnan(x) && isnan(y))) : !(fabs(x - y) < 1e30))
            return INFINITY;
        if (isfinite(y)) most = fmax(most, fabs(x - y) / fmax(1, fabs(y)));
    }
    return most;
}

/* All parts into slices of arrays with one more axis: the sum, then the states. */
static const char *make_parts(Bench *b, const aule_attention_v1 *a, Inputs *x, int split,
                              Array *parts)
{
    const aule_tensor_v1 *t;
    int64_t first = 0;
    for (int n = 0; n < splits[split].count; n++) {
        Call c = {.count = 0};
        add_inputs(b, &c, x, first, splits[split].keys[n]);
        for (int s = 0; (t = of_role(a, AULE_ROLE_PART_OUT, s)) != NULL; s++)
            add(&c, t->name, view(b, &parts[s], 1, n * parts[s].strides[0]));
        const char *said = run(b, "unfinished", &c, first);
        if (said) return said;
        first += splits[split].keys[n];
    }
    return NULL;
}

static const char *join_parts(Bench *b, const aule_attention_v1 *a, Inputs *x, Array *parts,
                              Array *o, Array *lse)
{
    Array *const given[] = {&x->sink, &x->gate, &x->bias};
    const aule_tensor_v1 *t;
    Call c = {.count = 0};
    for (int s = 0; (t = of_role(a, AULE_ROLE_PART, s)) != NULL; s++)
        add(&c, t->name, view(b, &parts[s], 0, 0));
    for (int n = 0; n < 3; n++)
        if (of_role(a, AULE_ROLE_INPUT, n)->flags & AULE_TENSOR_JOINED)
            add(&c, given[n]->name, view(b, given[n], 0, 0));
    add(&c, "o", view(b, o, 0, 0));
    if (has_lse(a)) add(&c, "lse", view(b, lse, 0, 0));
    return run(b, "combine", &c, 0);
}

static void try_split(Bench *b, const char *name, const aule_attention_v1 *a, int split)
{
    const int64_t count = splits[split].count;
    int64_t keys = 0;
    for (int n = 0; n < count; n++) keys += splits[split].keys[n];
    Inputs x = inputs(b);
    Array o = array(b, "o", 4, (int64_t[]){B, H, S, E}, -1), joined = array(b, "o", 4, o.shape, -1);
    Array lse = array(b, "lse", 3, o.shape, -1), joined_lse = array(b, "lse", 3, o.shape, -1);
    Array parts[MOST_PARTS] = {array(b, "acc", 5, (int64_t[]){count, B, H, S, E}, 3)};
    for (int s = 1; s < MOST_PARTS; s++)
        parts[s] = array(b, "state", 4, (int64_t[]){count, B, H, S}, 3);
    Array *const results[] = {&o, &joined, &lse, &joined_lse};
    for (int n = 0; n < 4; n++) send(results[n]);
    for (int s = 0; s < MOST_PARTS; s++) send(&parts[s]);
    Call c = {.count = 0};
    add_inputs(b, &c, &x, 0, keys);
    add(&c, "o", view(b, &o, 0, 0));
    if (has_lse(a)) add(&c, "lse", view(b, &lse, 0, 0));
    const char *said = run(b, "forward", &c, 0);
    if (!said) said = make_parts(b, a, &x, split, parts);
    if (!said) said = join_parts(b, a, &x, parts, &joined, &joined_lse);
    if (said) complain(b, name, split, said);
    for (int n = 0; n < 4; n++) fetch(results[n]);
    const double far = fmax(worst(&joined, &o), has_lse(a) ? worst(&joined_lse, &lse) : 0);
    if (!said && !(far < 2e-6)) {
        char text[64];
        snprintf(text, sizeof text, "differs from forward of all keys by %g", far);
        complain(b, name, split, text);
    }
    for (int n = 0; n < 4; n++) drop(results[n]);
    for (int s = 0; s < MOST_PARTS; s++) drop(&parts[s]);
    Array *given[] = {&x.q, &x.k, &x.v, &x.sink, &x.gate, &x.bias};
    for (int n = 0; n < 6; n++) drop(given[n]);
}

static aule_module *compiled(const char *backend, const char *script, bool gradients,
                             const char **notes)
{
    static char said[2048];
    const aulec_options options = {.struct_size = sizeof options,
                                   .targets = backend,
                                   .dtypes = "f32",
                                   .widths = "D=16;E=24",
                                   .no_gradients = !gradients,
                                   .parts = 1};
    aulec_result *result = NULL;
    aule_module *module = NULL;
    aule_error *error = NULL;
    char path[] = "/tmp/aule-parts-XXXXXX";
    const aulec_status status =
        aulec_compile("tried.attn", script, strlen(script), &options, &result);
    snprintf(said, sizeof said, "%s", result ? aulec_result_diagnostics(result) : "");
    *notes = said;
    if (status != AULEC_OK) return NULL;
    const size_t length = aulec_result_length(result);
    const int file = mkstemp(path);
    if (file >= 0 && write(file, aulec_result_data(result), length) == (ssize_t)length &&
        aule_module_open(path, NULL, &module, &error))
        fprintf(stderr, "%s\n", aule_error_message(error));
    close(file);
    unlink(path);
    aule_error_free(error);
    aulec_result_free(result);
    return module;
}

static const char underivable[] =
    "online of_length_one {\n"
    "    rowscale r = 0.0;\n"
    "    final norm;\n"
    "    online_fwd(s) { r = sqrt(r * r + rowsum(s * s)); return s, 1.0; }\n"
    "    online_fwd_epilogue(o) { norm = r; return o / r; }\n"
    "    forward(score) = score / norm;\n"
    "}\n" HEAD "online of_length_one; }";

/* A note when compiling, and no such operations in the artifact. */
static void try_underivable(Bench *b, const char *backend)
{
    const char *notes;
    aule_module *module = compiled(backend, underivable, false, &notes);
    if (!module || !strstr(notes, "N0603") || !strstr(notes, "'tried'"))
        complain(b, "without combine", 0, notes);
    Call c = {.count = 0};
    Inputs x = inputs(b);
    if (module && !aule_module_find(module, NULL, &b->attention, NULL)) {
        add_inputs(b, &c, &x, 0, T);
        const char *said = run(b, "unfinished", &c, 0);
        if (!said || !strstr(said, "unfinished"))
            complain(b, "without combine", 0, said ? said : "it is called");
    }
    Array *given[] = {&x.q, &x.k, &x.v, &x.sink, &x.gate, &x.bias};
    for (int n = 0; n < 6; n++) drop(given[n]);
    aule_module_close(module);
}

int main(int argc, char **argv)
{
    Bench b = {.failures = 0};
    const char *backend = argc > 1 ? argv[1] : "cpu", *notes;
    aule_error *error = NULL;
    if (aule_device_open(backend, NULL, &b.device, &error)) {
        printf("skipped: %s\n", aule_error_message(error));
        aule_error_free(error);
        return 77;
    }
    const int step =
        strcmp(backend, "cpu") == 0 ? 1 : 2; /* drivers of others take long to compile */
    for (int n = 0; n < SCRIPTS; n += step) {
        aule_module *module = compiled(backend, scripts[n].script, n == 2, &notes);
        if (!module || *notes || aule_module_find(module, NULL, &b.attention, NULL)) {
            complain(&b, scripts[n].name, 0, notes);
            continue;
        }
        for (int s = 0; s < SPLITS; s++)
            try_split(&b, scripts[n].name, aule_attention_descriptor(b.attention), s);
        aule_module_close(module);
    }
    try_underivable(&b, backend);
    aule_device_close(b.device);
    return b.failures != 0;
}
