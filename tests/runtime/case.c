#include "case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { B = 2, H = 4, HK = 2, S = 5, T = 7, WINDOW = 4 };

static const char *const names[TENSORS] = {"q",  "k",    "v",  "lengths", "slope", "o",     "lse",
                                           "do", "dlse", "dq", "dk",      "dv",    "dslope"};
static const int ranks[TENSORS] = {4, 4, 4, 1, 1, 4, 3, 4, 3, 4, 4, 4, 1};
static const int64_t shapes[TENSORS][4] = {{B, H, S, SAMPLE_D},
                                           {B, HK, T, SAMPLE_D},
                                           {B, HK, T, SAMPLE_E},
                                           {B},
                                           {2 * H - 1},
                                           {B, H, S, SAMPLE_E},
                                           {B, H, S},
                                           {B, H, S, SAMPLE_E},
                                           {B, H, S},
                                           {B, H, S, SAMPLE_D},
                                           {B, HK, T, SAMPLE_D},
                                           {B, HK, T, SAMPLE_E},
                                           {2 * H - 1}};

static float random_float(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (float)(int32_t)*state * 0x1p-31f;
}

static void add_tensor(Case *c, int t)
{
    int64_t stride = 1;
    memcpy(c->shapes[t], shapes[t], sizeof shapes[t]);
    for (int axis = ranks[t] - 1; axis >= 0; axis--) {
        c->strides[t][axis] = stride;
        stride *= shapes[t][axis];
    }
    c->bytes[t] = (size_t)stride * 4;
    c->storage[t] = calloc(1, c->bytes[t]);
    assert_non_null(c->storage[t]);
    DLDataType f32 = {kDLFloat, 32, 1}, i32 = {kDLInt, 32, 1};
    c->tensors[t] = (DLTensor){.data = c->storage[t],
                               .device = {kDLCPU, 0},
                               .ndim = ranks[t],
                               .dtype = t == T_LENGTHS ? i32 : f32,
                               .shape = c->shapes[t],
                               .strides = c->strides[t]};
    c->args[t] = (aule_tensor_arg){names[t], &c->tensors[t]};
}

/* The formula, over compact tensors, in double: [x] by index of the signature. */
static void formula(const Case *c, double *const *x)
{
    const int32_t *lengths = c->storage[T_LENGTHS];
    for (int row = 0; row < B * H * S; row++) {
        int i = row % S, h = row / S % H, b = row / S / H;
        double sum = 0, acc[SAMPLE_E] = {0};
        for (int j = 0; j < lengths[b]; j++) {
            if (abs(i - j) >= WINDOW) continue;
            double s = 0;
            int key = (b * HK + h / (H / HK)) * T + j;
            for (int d = 0; d < SAMPLE_D; d++)
                s += x[T_Q][row * SAMPLE_D + d] * x[T_K][key * SAMPLE_D + d];
            double weight = exp(s / sqrt(SAMPLE_D) + x[T_SLOPE][h]);
            sum += weight;
            for (int e = 0; e < SAMPLE_E; e++) acc[e] += weight * x[T_V][key * SAMPLE_E + e];
        }
        for (int e = 0; e < SAMPLE_E; e++) x[T_O][row * SAMPLE_E + e] = acc[e] / sum;
        x[T_LSE][row] = log(sum);
    }
}

/* All tensors in double. */
typedef struct Doubles {
    double *at[TENSORS];
} Doubles;

static Doubles doubles_new(const Case *c)
{
    Doubles x;
    for (int t = 0; t < TENSORS; t++) {
        size_t count = c->bytes[t] / 4;
        x.at[t] = calloc(count, sizeof(double));
        assert_non_null(x.at[t]);
        for (size_t i = 0; i < count; i++) x.at[t][i] = (double)((float *)c->storage[t])[i];
    }
    return x;
}

static void doubles_free(Doubles *x)
{
    for (int t = 0; t < TENSORS; t++) free(x->at[t]);
}

static void fill_expected(Case *c)
{
    Doubles x = doubles_new(c);
    formula(c, x.at);
    for (size_t i = 0; i < c->bytes[T_O] / 4; i++) c->expected[i] = (float)x.at[T_O][i];
    for (size_t i = 0; i < c->bytes[T_LSE] / 4; i++) c->expected_lse[i] = (float)x.at[T_LSE][i];
    doubles_free(&x);
}

Case *case_new(void)
{
    Case *c = aligned_alloc(64, (sizeof *c + 63) / 64 * 64);
    assert_non_null(c);
    memset(c, 0, sizeof *c);
    uint32_t state = 1;
    for (int t = 0; t < TENSORS; t++) {
        add_tensor(c, t);
        float *values = c->storage[t];
        for (size_t i = 0; i < c->bytes[t] / 4 && t != T_LENGTHS; i++)
            values[i] = random_float(&state);
    }
    memcpy(c->storage[T_LENGTHS], (int32_t[]){7, 5}, 8);
    c->params[0] = (aule_param_arg){"window", {.type = AULE_VALUE_INT, .i = WINDOW}};
    c->call = (aule_call){.struct_size = sizeof c->call,
                          .tensors = c->args,
                          .tensor_count = FORWARD_TENSORS,
                          .params = c->params,
                          .param_count = 1};
    c->run = (aule_run){.struct_size = sizeof c->run,
                        .workspace = c->workspace,
                        .workspace_bytes = sizeof c->workspace};
    c->expected = malloc(c->bytes[T_O]);
    c->expected_lse = malloc(c->bytes[T_LSE]);
    assert_true(c->expected && c->expected_lse);
    fill_expected(c);
    case_forget(c);
    return c;
}

void case_free(Case *c)
{
    for (int t = 0; t < TENSORS; t++) free(c->storage[t]);
    free(c->expected);
    free(c->expected_lse);
    free(c);
}

void case_forget(Case *c)
{
    memset(c->storage[T_O], 0xff, c->bytes[T_O]);
    memset(c->storage[T_LSE], 0xff, c->bytes[T_LSE]);
    for (int t = T_DQ; t < TENSORS; t++) memset(c->storage[t], 0xff, c->bytes[t]);
    memset(c->workspace, 0xff, sizeof c->workspace);
}

static bool close_to(const float *found, const float *expected, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!(fabsf(found[i] - expected[i]) < 2e-6f)) return false;
    return true;
}

bool case_is_right(const Case *c)
{
    return close_to(c->storage[T_O], c->expected, c->bytes[T_O] / 4) &&
           (c->call.tensor_count < FORWARD_TENSORS ||
            close_to(c->storage[T_LSE], c->expected_lse, c->bytes[T_LSE] / 4));
}

/* ---- gradients */

void case_make_backward(Case *c, bool dlse)
{
    c->call.operation = "backward";
    c->call.tensor_count = dlse ? TENSORS : TENSORS - 1;
    if (!dlse) c->args[T_DLSE] = c->args[T_DSLOPE];
}

/* What do and dlse make of o and lse. */
static double loss(const Case *c, const Doubles *x)
{
    double sum = 0;
    formula(c, x->at);
    for (size_t i = 0; i < c->bytes[T_O] / 4; i++) sum += x->at[T_DO][i] * x->at[T_O][i];
    for (size_t i = 0; c->call.tensor_count == TENSORS && i < c->bytes[T_LSE] / 4; i++)
        sum += x->at[T_DLSE][i] * x->at[T_LSE][i];
    return sum;
}

/* Central differences of the loss beside gradient [of], of the tensor [by]. */
static bool gradient_is_right(const Case *c, const Doubles *x, int of, int by)
{
    const double step = 1e-4;
    const float *found = c->storage[of];
    for (size_t i = 0; i < c->bytes[of] / 4; i++) {
        double value = x->at[by][i], up, down;
        x->at[by][i] = value + step;
        up = loss(c, x);
        x->at[by][i] = value - step;
        down = loss(c, x);
        x->at[by][i] = value;
        if (!(fabs((double)found[i] - (up - down) / (2 * step)) < 1e-5)) return false;
    }
    return true;
}

bool case_has_gradients(const Case *c)
{
    Doubles x = doubles_new(c);
    bool right = gradient_is_right(c, &x, T_DQ, T_Q) && gradient_is_right(c, &x, T_DK, T_K) &&
                 gradient_is_right(c, &x, T_DV, T_V) && gradient_is_right(c, &x, T_DSLOPE, T_SLOPE);
    doubles_free(&x);
    return right;
}

void expect_error(aule_status found, aule_error **error, aule_status status, const char *text)
{
    const char *message = aule_error_message(*error);
    if (found != status || aule_error_status(*error) != status || !strstr(message, text))
        fail_msg("found status %s, '%s'; expected %s, '%s'", aule_status_name(found), message,
                 aule_status_name(status), text);
    if (strchr(message, '\n') && status != AULE_ERROR_BUILD)
        fail_msg("more than one line: %s", message);
    aule_error_free(*error);
    *error = NULL;
}

void expect_plan_error(aule_attention *attention, aule_device *device, const Case *c,
                       aule_status status, const char *text)
{
    aule_plan *plan = (aule_plan *)(uintptr_t)1;
    aule_error *error = NULL;
    aule_status found = aule_plan_new(attention, device, &c->call, &plan, &error);
    expect_error(found, &error, status, text);
    assert_ptr_equal(plan, (aule_plan *)(uintptr_t)1); /* not written by a failure */
    assert_int_equal(aule_plan_new(attention, device, &c->call, &plan, NULL), status);
}

/* ---- on devices */

void case_module(CaseModule *m, const aule_variant_v1 *instead)
{
    m->module = sample_module;
    m->attention = *m->module.attentions;
    const uint32_t count = m->attention.variant_count;
    assert_true(count <= sizeof m->variants / sizeof *m->variants);
    memcpy(m->variants, m->attention.variants, count * sizeof *m->variants);
    for (uint32_t n = 0; n < count; n++) {
        aule_variant_v1 *v = &m->variants[n];
        if (strcmp(v->target, "cuda") != 0 || strcmp(v->arch, "sm_80") != 0 ||
            (instead->operation && strcmp(v->operation, instead->operation) != 0))
            continue;
        v->target = instead->target;
        v->arch = instead->arch;
        v->features = instead->features;
        v->code_format = instead->code_format;
        v->code = instead->code;
        v->code_bytes = instead->code_bytes;
    }
    m->attention.variants = m->variants;
    m->module.attentions = &m->attention;
}

aule_status case_place(Case *c, aule_device *device, int tensors, aule_buffer **buffers,
                       aule_buffer **workspace, aule_error **error)
{
    enum { WORKSPACE = 4096 };
    aule_status status = AULE_OK;
    for (int t = 0; t < tensors && !status; t++) {
        status = aule_buffer_new(device, c->bytes[t], &buffers[t], error);
        if (!status) status = aule_buffer_upload(buffers[t], 0, c->storage[t], c->bytes[t], error);
        if (status) break;
        c->tensors[t].data = aule_buffer_data(buffers[t]);
        c->tensors[t].device = aule_device_get_info(device)->dl;
    }
    if (!status) status = aule_buffer_new(device, WORKSPACE, workspace, error);
    c->run.workspace = status ? NULL : aule_buffer_data(*workspace);
    c->run.workspace_bytes = WORKSPACE;
    return status;
}

aule_status case_fetch(Case *c, int tensors, aule_buffer *const *buffers, aule_error **error)
{
    aule_status status = AULE_OK;
    for (int t = T_O; t < tensors && !status; t++)
        status = aule_buffer_download(buffers[t], 0, c->storage[t], c->bytes[t], error);
    return status;
}

void on_device_begin(OnDevice *s, const aule_module_v1 *module, int tensors)
{
    *s = (OnDevice){.tensors = tensors, .c = case_new()};
    assert_int_equal(aule_module_from(module, NULL, &s->module, NULL), AULE_OK);
}

aule_status on_device_run(OnDevice *s, const char *id, aule_error **error)
{
    uint64_t nanoseconds;
    aule_status status = aule_device_open(id, s->options, &s->device, error);
    if (!status) status = case_place(s->c, s->device, s->tensors, s->buffers, &s->workspace, error);
    if (!status)
        status = aule_plan_new(aule_module_attention(s->module, 0), s->device, &s->c->call,
                               &s->plan, error);
    if (!status) status = aule_event_record(s->device, NULL, &s->first, error);
    if (!status) status = aule_plan_run(s->plan, &s->c->run, error);
    if (!status) status = aule_event_record(s->device, NULL, &s->last, error);
    if (!status) status = aule_device_synchronize(s->device, NULL, error);
    if (!status) status = aule_event_elapsed(s->first, s->last, &nanoseconds, error);
    return status ? status : case_fetch(s->c, s->tensors, s->buffers, error);
}

void on_device_end(OnDevice *s)
{
    aule_event_free(s->first);
    aule_event_free(s->last);
    aule_plan_free(s->plan);
    for (int t = 0; t < s->tensors; t++) aule_buffer_free(s->buffers[t]);
    aule_buffer_free(s->workspace);
    aule_device_close(s->device);
    aule_module_close(s->module);
    case_free(s->c);
}

int fixture_open(void **state)
{
    Fixture *f = calloc(1, sizeof *f);
    aule_error *error = NULL;
    aule_device_options options = {.struct_size = sizeof options, .threads = 3};
    if (!f || aule_module_from(&sample_module, NULL, &f->module, &error) ||
        aule_module_find(f->module, NULL, &f->attention, &error) ||
        aule_device_open("cpu", &options, &f->device, &error)) {
        print_error("%s\n", aule_error_message(error));
        return -1;
    }
    *state = f;
    return 0;
}

int fixture_close(void **state)
{
    Fixture *f = *state;
    aule_device_close(f->device);
    aule_module_close(f->module);
    free(f);
    return 0;
}
