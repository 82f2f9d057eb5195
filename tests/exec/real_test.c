/* real_test.c - outputs and gradients on queries, keys and values of published models (tests/data): sentences packed one after
 * the other, where the mask depends on data, and a causal decoder with grouped heads. Compared with gradients from float64.
 * real_test DEVICE DATA */
#include "array.h"
#include "aule/aule.h"
#include "aule/aulec.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char packed[] =
    "attention packed {\n"
    "    q: [B, H, S, D];\n"
    "    k: [B, H, S, D];\n"
    "    v: [B, H, S, D];\n"
    "    input document: i32[S];\n"
    "    score_mod(score) = score * rsqrt(D);\n"
    "    mask(b, h, q_idx, kv_idx) = document[q_idx] == document[kv_idx];\n"
    "    online softmax;\n"
    "}\n";
static const char causal[] = "attention decoder {\n"
                             "    q: [B, H, S, D];\n"
                             "    k: [B, Hk, S, D];\n"
                             "    v: [B, Hk, S, D];\n"
                             "    score_mod(score) = score * rsqrt(D);\n"
                             "    mask(b, h, q_idx, kv_idx) = kv_idx <= q_idx;\n"
                             "    online softmax;\n"
                             "}\n";

enum { MOST = 12 };

/* A tensor of a call; what the device makes is compared with [want]. */
typedef struct Part {
    const char *name;
    AuArray array, want;
    DLTensor dl;
    aule_buffer *buffer;
    bool made;
} Part;

typedef struct Case {
    const char *name, *text, *prefix, *width;
    aule_device *device;
    Part parts[MOST];
    uint32_t count;
} Case;

static bool fail(const Case *c, const char *what, const char *why)
{
    fprintf(stderr, "%s: %s: %s\n", c->name, what, why ? why : "");
    return false;
}

/* [tokens, H, D] is [1, H, S, D] with other strides. */
static void as_packed(Part *p)
{
    static const int order[] = {1, 0, 2};
    if (p->array.rank != 3) return;
    int64_t shape[4] = {1}, strides[4] = {p->array.shape[0] * p->array.strides[0]};
    for (int d = 0; d < 3; d++)
        shape[d + 1] = p->array.shape[order[d]], strides[d + 1] = p->array.strides[order[d]];
    p->array.rank = 4;
    memcpy(p->array.shape, shape, sizeof shape), memcpy(p->array.strides, strides, sizeof strides);
}

static bool on_host(const Case *c)
{
    return strcmp(aule_device_get_info(c->device)->backend, "cpu") == 0;
}

static bool place(Case *c, Part *p)
{
    aule_error *error = NULL;
    void *data = p->array.data;
    if (!on_host(c)) {
        if (aule_buffer_new(c->device, p->array.bytes, &p->buffer, &error) ||
            aule_buffer_upload(p->buffer, 0, p->array.data, p->array.bytes, &error))
            return fail(c, p->name, aule_error_message(error));
        data = aule_buffer_data(p->buffer);
    }
    p->dl = (DLTensor){.data = data,
                       .device = aule_device_get_info(c->device)->dl,
                       .ndim = p->array.rank,
                       .dtype = array_dl_type(p->array.dtype),
                       .shape = p->array.shape,
                       .strides = p->array.strides};
    return true;
}

/* [file]: what the array in it is called, "dout" for do; of what is made it is the expectation. */
static bool add(Case *c, const char *data, const char *name, const char *file, bool made)
{
    AuWhy why;
    char path[512];
    Part *p = &c->parts[c->count++];
    *p = (Part){.name = name, .made = made};
    snprintf(path, sizeof path, "%s/%s_%s.npy", data, c->prefix, file);
    if (!array_read(made ? &p->want : &p->array, path, NULL, &why)) return fail(c, path, why.text);
    if (made && !array_new(&p->array, p->want.dtype, p->want.rank, p->want.shape, &why))
        return fail(c, path, why.text);
    as_packed(p);
    return place(c, p);
}

/* The statistics of rows: [1, H, S]. */
static bool add_lse(Case *c)
{
    AuWhy why;
    Part *p = &c->parts[c->count++];
    *p = (Part){.name = "lse", .made = true};
    return (array_new(&p->array, AULE_F32, 3, c->parts[0].array.shape, &why) ||
            fail(c, "lse", why.text)) &&
           place(c, p);
}

/* The sentence of each token. */
static bool add_documents(Case *c, const char *data)
{
    AuWhy why;
    AuArray ends;
    char path[512];
    Part *p = &c->parts[c->count++];
    *p = (Part){.name = "document"};
    snprintf(path, sizeof path, "%s/minilm_packed_cu_seqlens.npy", data);
    const int64_t tokens = c->parts[0].array.shape[2];
    if (!array_read(&ends, path, NULL, &why) || !array_new(&p->array, AULE_I32, 1, &tokens, &why))
        return fail(c, path, why.text);
    for (int64_t n = 0; n < tokens; n++)
        while (((int32_t *)ends.data)[((int32_t *)p->array.data)[n] + 1] <= n)
            ((int32_t *)p->array.data)[n]++;
    array_free(&ends);
    return place(c, p);
}

static aule_module *compile(Case *c)
{
    const aulec_options options = {.struct_size = sizeof options,
                                   .targets = aule_device_get_info(c->device)->backend,
                                   .dtypes = "f32",
                                   .widths = c->width};
    aulec_result *result = NULL;
    aule_module *module = NULL;
    aule_error *error = NULL;
    char path[] = "/tmp/aule-real-XXXXXX";
    if (aulec_compile(c->name, c->text, strlen(c->text), &options, &result) != AULEC_OK)
        fail(c, "compile", aulec_result_diagnostics(result));
    else {
        const int file = mkstemp(path);
        const size_t bytes = aulec_result_length(result);
        if (file < 0 || write(file, aulec_result_data(result), bytes) != (ssize_t)bytes)
            fail(c, "write", path);
        else if (aule_module_open(path, NULL, &module, &error))
            fail(c, "open", aule_error_message(error));
        close(file), unlink(path);
    }
    aulec_result_free(result);
    aule_error_free(error);
    return module;
}

static bool run(Case *c, aule_module *module, const char *operation)
{
    const bool backward = strcmp(operation, "backward") == 0;
    aule_tensor_arg args[MOST];
    aule_call call = {.struct_size = sizeof call, .tensors = args, .operation = operation};
    aule_attention *attention;
    aule_plan *plan = NULL;
    aule_buffer *workspace = NULL;
    aule_run how = {.struct_size = sizeof how};
    aule_error *error = NULL;
    for (uint32_t n = 0; n < c->count; n++)
        if (backward || c->parts[n].name[0] != 'd' || strcmp(c->parts[n].name, "document") == 0)
            args[call.tensor_count++] = (aule_tensor_arg){c->parts[n].name, &c->parts[n].dl};
    bool good = !aule_module_find(module, NULL, &attention, &error) &&
                !aule_plan_new(attention, c->device, &call, &plan, &error);
    if (good && (how.workspace_bytes = aule_plan_workspace(plan, NULL)) > 0) {
        good = !aule_buffer_new(c->device, how.workspace_bytes, &workspace, &error);
        if (good) how.workspace = aule_buffer_data(workspace);
    }
    good = good && !aule_plan_run(plan, &how, &error) &&
           !aule_device_synchronize(c->device, NULL, &error);
    for (uint32_t n = 0; n < c->count && good; n++)
        if (c->parts[n].made && c->parts[n].buffer)
            good = !aule_buffer_download(c->parts[n].buffer, 0, c->parts[n].array.data,
                                         c->parts[n].array.bytes, &error);
    if (!good) fail(c, operation, aule_error_message(error));
    aule_error_free(error);
    aule_plan_free(plan);
    aule_buffer_free(workspace);
    return good;
}

static double largest_of(const AuArray *a)
{
    double largest = 0;
    for (size_t n = 0; n < a->bytes / sizeof(float); n++)
        largest = fmax(largest, fabs((double)((const float *)a->data)[n]));
    return largest;
}

/* Gradients are differences of terms as large as the largest of them. */
static bool compare(const Case *c, const Part *p)
{
    const float *got = p->array.data, *want = p->want.data;
    double most = 0, largest = 0;
    for (size_t n = 0; n < p->want.bytes / sizeof(float); n++) {
        const double error = fabs((double)got[n] - (double)want[n]);
        if (error > most || isnan(error)) most = isnan(error) ? INFINITY : error;
    }
    for (uint32_t n = 0; n < c->count; n++)
        if (c->parts[n].name[0] == p->name[0] && c->parts[n].want.data)
            largest = fmax(largest, largest_of(&c->parts[n].want));
    printf("%s %s: error %.2e, largest value %.2f\n", c->name, p->name, most, largest);
    return most <= 0x1p-19 * largest || fail(c, p->name, "differs from float64");
}

static bool check(Case *c, const char *data)
{
    bool good = add(c, data, "q", "q", false) && add(c, data, "k", "k", false) &&
                add(c, data, "v", "v", false) && add_lse(c) && add(c, data, "o", "out", true) &&
                add(c, data, "do", "dout", false) && add(c, data, "dq", "dq", true) &&
                add(c, data, "dk", "dk", true) && add(c, data, "dv", "dv", true) &&
                (c->text != packed || add_documents(c, data));
    aule_module *module = good ? compile(c) : NULL;
    good = module && run(c, module, "forward") && run(c, module, "backward");
    for (uint32_t n = 0; n < c->count; n++) {
        if (good && c->parts[n].want.data) good = compare(c, &c->parts[n]);
        aule_buffer_free(c->parts[n].buffer);
        array_free(&c->parts[n].array), array_free(&c->parts[n].want);
    }
    aule_module_close(module);
    return good;
}

int main(int argc, char **argv)
{
    aule_device *device = NULL;
    aule_error *error = NULL;
    if (argc < 3) return 2;
    if (aule_device_open(argv[1], NULL, &device, &error)) {
        fprintf(stderr, "%s\n", aule_error_message(error));
        aule_error_free(error);
        return 77; /* meson: skipped */
    }
    Case cases[] = {
        {.name = "packed sentences",
         .text = packed,
         .prefix = "minilm_packed_layer0",
         .width = "D=32"},
        {.name = "decoder", .text = causal, .prefix = "smollm2_layer12", .width = "D=64"}};
    bool good = true;
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        cases[n].device = device;
        good &= check(&cases[n], argv[2]);
    }
    aule_device_close(device);
    return good ? 0 : 1;
}
