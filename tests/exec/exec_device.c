/* exec_device.c - a case compiled by libaulec, loaded and called through libaule. */
#include "internal.h"

#include "aule/aulec.h"
#include "target.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool has_word(const char *words, const char *word, size_t length)
{
    for (const char *at = words; (at = strstr(at, word)) != NULL; at++)
        if ((at == words || at[-1] == ' ') && (at[length] == 0 || at[length] == ' ')) return true;
    return false;
}

static bool runs(const aule_device_info *device, const AuArch *arch)
{
    char word[64];
    for (const char *at = arch->features; *at; at += strspn(at, " ")) {
        const size_t length = strcspn(at, " ");
        snprintf(word, sizeof word, "%.*s", (int)length, at);
        if (!has_word(device->features, word, length)) return false;
        at += length;
    }
    return true;
}

/* The only one whose code a host would run: others are not compiled. NULL: all that are made by default. */
static const char *best_arch(const ExecSuite *suite)
{
    const aule_device_info *device = suite->info;
    if (suite->arch) return suite->arch;
    const char *code = getenv("AULE_OPENCL_CODE");
    if (strcmp(device->backend, "opencl") == 0 && code && strcmp(code, "spirv") == 0)
        return "spirv";
    const AuTarget *t = au_target(device->backend);
    for (uint32_t n = 0; t && strcmp(device->backend, "hip") == 0 && n < t->arch_count; n++)
        if (has_word(device->features, t->archs[n].name, strlen(t->archs[n].name)))
            return t->archs[n].name;
    if (!t || strcmp(device->backend, "cpu") != 0) return NULL;
    for (uint32_t n = t->arch_count; n-- > 0;)
        if (t->archs[n].by_default && runs(device, &t->archs[n])) return t->archs[n].name;
    return NULL;
}

static aule_module *compile(Run *r, const char *text, size_t length)
{
    aulec_options o = {.struct_size = sizeof o,
                       .targets = r->suite->info->backend,
                       .archs = best_arch(r->suite),
                       .dtypes = exec_is_tf32(r) ? "f32" : r->dtype,
                       .f32 = exec_is_tf32(r) ? "tf32" : "exact",
                       .widths = exec_widths(r),
                       .shape = getenv("AULE_TEST_SHAPE"), /* of what is tried by hand */
                       .no_gradients = !r->grads,
                       .deterministic = exec_has(r, "repeat"),
                       .checked = exec_has(r, "checked")};
    aulec_result *result = NULL;
    aule_module *module = NULL;
    aule_error *error = NULL;
    if (aulec_compile(r->c->script, text, length, &o, &result) != AULEC_OK) {
        exec_fail(r, "compile", aulec_result_diagnostics(result));
        aulec_result_free(result);
        return NULL;
    }
    char path[] = "/tmp/aule-exec-XXXXXX";
    const int file = mkstemp(path);
    const size_t bytes = aulec_result_length(result);
    if (file < 0 || write(file, aulec_result_data(result), bytes) != (ssize_t)bytes)
        exec_fail(r, "write", path);
    else if (aule_module_open(path, NULL, &module, &error))
        exec_fail(r, "open", aule_error_message(error));
    close(file);
    unlink(path);
    aule_error_free(error);
    aulec_result_free(result);
    return module;
}

static bool call_kernel(Run *r, aule_module *module)
{
    aule_tensor_arg tensors[MOST_TENSORS];
    aule_param_arg params[MOST_SIZES];
    aule_call call = {.struct_size = sizeof call,
                      .tensors = tensors,
                      .params = params,
                      .param_count = r->attn->param_count,
                      .operation = schedule_operation(r->operation)};
    for (uint32_t n = 0; n < r->tensor_count; n++)
        if (!(n == 2 && r->attn->v_in_k) && !r->tensors[n].absent &&
            ((r->operation == AU_BACKWARD && r->tensors[n].role != AULE_ROLE_STATE_OUT &&
              r->tensors[n].role != AULE_ROLE_POOL && r->tensors[n].role != AULE_ROLE_SLOTS) ||
             r->tensors[n].output || n < r->attn->tensor_count ||
             r->tensors[n].role == AULE_ROLE_STATE || r->tensors[n].role == AULE_ROLE_SEQUENCES ||
             r->tensors[n].role == AULE_ROLE_SLOTS))
            tensors[call.tensor_count++] = (aule_tensor_arg){r->tensors[n].name, &r->tensors[n].dl};
    for (uint32_t n = 0; n < r->attn->param_count; n++) {
        const bool real = r->attn->params[n].dtype == AU_DT_F32;
        params[n] = (aule_param_arg){r->attn->params[n].name,
                                     {.type = real ? AULE_VALUE_FLOAT : AULE_VALUE_INT,
                                      .i = r->params_i64[n],
                                      .f = r->params[n]}};
    }
    aule_attention *attention;
    aule_plan *plan = NULL;
    aule_buffer *workspace = NULL;
    aule_error *error = NULL;
    aule_run run = {.struct_size = sizeof run};
    unsigned warps, tokens;
    bool good = !aule_module_find(module, r->attn->name, &attention, &error) &&
                !aule_plan_new(attention, r->suite->device, &call, &plan, &error);
    if (good && sscanf(aule_plan_variant(plan)->schedule, "linear_warps: warps=%u tokens=%u",
                       &warps, &tokens) == 2)
        r->chunk = tokens;
    if (good && sscanf(aule_plan_variant(plan)->schedule,
                       "linear_warps_backward: warps=%u tokens=%u", &warps, &tokens) == 2)
        r->back_chunk = tokens;
    if (good && (run.workspace_bytes = aule_plan_workspace(plan, NULL)) > 0) {
        good = !aule_buffer_new(r->suite->device, run.workspace_bytes, &workspace, &error);
        if (good) run.workspace = aule_buffer_data(workspace);
    }
    good = good && !aule_plan_run(plan, &run, &error) &&
           !aule_device_synchronize(r->suite->device, NULL, &error);
    for (uint32_t n = 0; n < r->tensor_count && good; n++)
        if (r->tensors[n].output && r->tensors[n].buffer)
            good = !aule_buffer_download(r->tensors[n].buffer, 0, r->tensors[n].bytes,
                                         r->tensors[n].span * exec_bytes_of(r->tensors[n].dtype),
                                         &error);
    if (!good) exec_fail(r, "call", aule_error_message(error));
    aule_error_free(error);
    aule_plan_free(plan);
    aule_buffer_free(workspace);
    return good;
}

/* Called again, it writes the same bits. */
static bool is_repeated(Run *r, aule_module *module)
{
    enum { TIMES = 4 };
    unsigned char *before[MOST_TENSORS] = {NULL};
    for (uint32_t n = 0; n < r->tensor_count; n++) {
        const Tensor *t = &r->tensors[n];
        if (!t->output) continue;
        before[n] = AU_NEW_ARRAY(r->arena, unsigned char, t->span *exec_bytes_of(t->dtype));
        memcpy(before[n], t->bytes, t->span * exec_bytes_of(t->dtype));
    }
    for (uint32_t again = 0; again < TIMES; again++) {
        if (!call_kernel(r, module)) return false;
        for (uint32_t n = 0; n < r->tensor_count; n++)
            if (before[n] && memcmp(before[n], r->tensors[n].bytes,
                                    r->tensors[n].span * exec_bytes_of(r->tensors[n].dtype)) != 0)
                return exec_fail(r, r->tensors[n].name, "not the same bits again");
    }
    return true;
}

bool exec_on_device(Run *r, const char *text, size_t length)
{
    aule_module *module = compile(r, text, length);
    exec_begin(r, exec_has(r, "step") ? AU_STEP : AU_FORWARD);
    bool good = module && call_kernel(r, module);
    if (good && r->grads) {
        exec_begin(r, AU_BACKWARD);
        good = call_kernel(r, module) && (!exec_has(r, "repeat") || is_repeated(r, module));
    }
    aule_module_close(module);
    return good;
}
