/* check_kernels.c - `aule check`: one case on one device, its results beside what they must be. */
#include "check.h"
#include "session.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    aule_tensor_arg arguments[CHECK_MOST];
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

double check_element(const AuArray *array, uint64_t n)
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

static int fetch(Trial *t)
{
    aule_error *error = NULL;
    for (size_t n = 0; n < t->count; n++)
        if (tensor_of(t, n)->want && t->buffers[n] &&
            aule_buffer_download(t->buffers[n], 0, t->arrays[n].data, t->arrays[n].bytes, &error))
            return give_up(error);
    return 0;
}

double check_apart(double a, double b)
{
    return a == b || (isnan(a) && isnan(b)) ? 0 : isnan(a - b) ? INFINITY : fabs(a - b);
}

void check_tell(const char *name, double worst, double size, double bound)
{
    const bool good = worst <= bound;
    if (good && isinf(bound))
        printf(" %s (not tested: lost by rounding)", name);
    else if (good && size == 0)
        printf(" %s (not tested: all 0)", name);
    else
        printf(" %s %.1e/%.2g%s", name, worst, size, good ? "" : " (!)");
    if (!good) printf(" [bound %.1e]", bound);
}

/* Prints the error, and the size of what it is an error of; true if it is inside of its bound. Nothing but zeros is no test. */
static bool compare(Trial *t, size_t n)
{
    const aulec_case_tensor *tensor = tensor_of(t, n);
    double worst = 0, size = 0;
    for (uint64_t i = 0; i < tensor->elements; i++) {
        const double got = check_element(&t->arrays[n], i), want = tensor->want[i];
        worst = fmax(worst, check_apart(got, want));
        if (isfinite(want)) size = fmax(size, fabs(want));
    }
    check_tell(tensor->name, worst, size, tensor->bound);
    return worst <= tensor->bound;
}

/* Whether gradients are to be compared: a recurrence may have no kernel of them on a device (N0601), which the report says;
 * all else has them everywhere. */
static bool runs_backward(const Trial *t, const aule_attention *attention)
{
    const aule_attention_v1 *a = aule_attention_descriptor(attention);
    bool recurs = false;
    for (size_t n = 0; n < t->count; n++) recurs |= tensor_of(t, n)->role == AULE_ROLE_STATE;
    for (uint32_t n = 0; recurs && n < a->variant_count; n++)
        if (strcmp(session_variant(a, n)->operation, "backward") == 0) return true;
    return !recurs && t->script->compiler.aulec_case_has_gradients(t->reference);
}

int check_run(Trial *t, aule_module *module)
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
    t->has_gradients = runs_backward(t, attention);
    if (!status && t->has_gradients) status = run_operation(t, attention, "backward");
    return status ? status : fetch(t);
}

Trial *check_trial(Script *s, aule_device *device, const aulec_case *reference)
{
    Trial *t = calloc(1, sizeof *t);
    if (t)
        *t = (Trial){.script = s,
                     .device = device,
                     .reference = reference,
                     .count = s->compiler.aulec_case_tensor_count(reference),
                     .param_count = s->compiler.aulec_case_param_count(reference)};
    else
        command_fail(EXIT_WRONG, "%s: no memory", s->path);
    return t;
}

void check_free(Trial *t)
{
    for (size_t n = 0; t && n < t->count; n++) {
        aule_buffer_free(t->buffers[n]);
        array_free(&t->arrays[n]);
    }
    free(t);
}

int check_case(Script *s, aule_device *device, const aulec_case *reference, aule_module *module)
{
    Trial *t = check_trial(s, device, reference);
    if (!t) return EXIT_WRONG;
    const int status = check_run(t, module);
    bool good = !status;
    for (size_t n = 0; n < t->count && !status; n++)
        if (tensor_of(t, n)->want &&
            (t->has_gradients || operation_takes("forward", tensor_of(t, n)->role)))
            good &= compare(t, n);
    if (!status) puts(t->has_gradients ? "" : " (no kernels of gradients here)");
    check_free(t);
    return good ? 0 : EXIT_WRONG;
}
