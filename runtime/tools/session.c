#include "session.h"

#include <stdlib.h>
#include <string.h>

static const void *row_of(const void *first, uint32_t bytes, uint32_t index)
{
    return (const char *)first + (size_t)bytes * index;
}

const aule_tensor_v1 *session_tensor(const AuSession *session, uint32_t index)
{
    const aule_tensor_v1 *first = session->signature->tensors;
    return row_of(first, first->struct_size, index);
}

const aule_variant_v1 *session_variant(const aule_attention_v1 *attention, uint32_t index)
{
    return row_of(attention->variants, attention->variants->struct_size, index);
}

const aule_param_v1 *session_param(const aule_attention_v1 *attention, uint32_t index)
{
    return row_of(attention->params, attention->params->struct_size, index);
}

AuArray *session_array(AuSession *session, const char *name, const char *suffix)
{
    const size_t length = strlen(name);
    for (uint32_t i = 0; i < session->signature->tensor_count; i++) {
        const char *own = session_tensor(session, i)->name;
        if (strncmp(own, name, length) == 0 && strcmp(own + length, suffix) == 0)
            return &session->arrays[i];
    }
    return NULL;
}

static const aule_param_v1 *param(const AuSession *session, uint32_t index)
{
    const aule_param_v1 *first = session->signature->params;
    return (const aule_param_v1 *)(const void *)((const char *)first +
                                                 (size_t)first->struct_size * index);
}

bool session_is_made(const aule_tensor_v1 *tensor)
{
    return operation_writes("forward", tensor->role) ||
           operation_writes("backward", tensor->role) ||
           operation_writes("unfinished", tensor->role);
}

static bool is_named(const AuSession *s, const char *operation)
{
    return s->operation && strcmp(s->operation, operation) == 0;
}

bool session_is_result(const AuSession *s, const aule_tensor_v1 *tensor)
{
    const bool appended =
        operation_writes("append", tensor->role) || tensor->flags & AULE_TENSOR_APPENDED;
    if (is_named(s, "append")) return appended;
    if (is_named(s, "schedule")) return tensor->role == AULE_ROLE_WORK;
    if (s->appends && appended) return true;
    return session_is_made(tensor) || (s->on_pool && operation_writes("step", tensor->role));
}

bool session_is_of_backward(const aule_tensor_v1 *tensor)
{
    static const char *const others[] = {"forward", "step", "unfinished", "combine", "append"};
    for (size_t n = 0; n < sizeof others / sizeof *others; n++)
        if (operation_takes(others[n], tensor->role)) return false;
    return true;
}

const char *session_operation(const AuSession *s, AuDirection step)
{
    if (step == STEP_BACKWARD) return "backward";
    return s->operation ? s->operation : s->on_pool ? "step" : "forward";
}

int32_t session_find_role(const AuSession *session, uint32_t role)
{
    for (uint32_t i = 0; i < session->signature->tensor_count; i++)
        if (session_tensor(session, i)->role == role) return (int32_t)i;
    return -1;
}

/* As options name it: a script may well have an input that is called like our `do`. */
static const char *option_name(const aule_tensor_v1 *tensor)
{
    return tensor->role == AULE_ROLE_DOUT ? "dout" : tensor->name;
}

/* ---- opening */

static int open_device(AuSession *s, AuOptions *options)
{
    aule_error *error = NULL;
    const char *backend = options_take(options, "backend");
    uint64_t threads = 0;
    int status = options_number(options, "threads", 1, 1024, &threads);
    if (status) return status;
    aule_device_options wanted = {
        .struct_size = sizeof wanted, .attention = s->attention, .threads = (uint32_t)threads};
    if (aule_device_open(backend, &wanted, &s->device, &error)) return command_error(error);
    const aule_device_info *info = aule_device_get_info(s->device);
    s->host = info->dl.device_type == kDLCPU;
    if (threads && strcmp(info->backend, "cpu") != 0)
        return command_fail(EXIT_USAGE, "--threads is for cpu, the device is %s", info->id);
    return 0;
}

int session_open(AuSession *s, AuOptions *options)
{
    return session_open_layout(s, options, options_take(options, "layout"));
}

int session_open_layout(AuSession *s, AuOptions *options, const char *layout)
{
    aule_error *error = NULL;
    memset(s, 0, sizeof *s);
    if (!options->artifact)
        return command_fail(EXIT_USAGE, "expected: aule %s x.so ...", options->command);
    if (aule_module_open(options->artifact, NULL, &s->module, &error)) return command_error(error);
    const int status = session_find(s, options_take(options, "attention"), layout);
    if (status) return status;
    s->signature = aule_attention_descriptor(s->attention);
    s->arch = options_take(options, "arch");
    s->operation = options_take(options, "operation");
    s->invariant = options_flag(options, "invariant");
    if (s->operation && !is_named(s, "unfinished") && !is_named(s, "combine") &&
        !is_named(s, "append") && !is_named(s, "schedule"))
        return command_fail(EXIT_USAGE,
                            "--operation is '%s', expected unfinished, combine, append or schedule",
                            s->operation);
    return open_device(s, options);
}

void session_close(AuSession *s)
{
    for (int step = 0; step < STEPS; step++) {
        aule_plan_free(s->steps[step].plan);
        aule_buffer_free(s->steps[step].workspace);
    }
    for (uint32_t i = 0; i < MAX_ARGS; i++) {
        aule_buffer_free(s->buffers[i]);
        array_free(&s->arrays[i]);
    }
    aule_device_close(s->device);
    aule_module_close(s->module);
}

/* ---- arguments */

int session_dtype(AuOptions *options, uint32_t *dtype)
{
    const char *name = options_take(options, "dtype");
    *dtype = name ? array_dtype_named(name) : AULE_OPERAND;
    if (!name || *dtype == AULE_F32 || *dtype == AULE_F16 || *dtype == AULE_BF16) return 0;
    return command_fail(EXIT_USAGE, "--dtype is '%s', expected f32, f16 or bf16", name);
}

static int convert(const aule_tensor_v1 *t, AuArray *array, uint32_t dtype)
{
    AuWhy why;
    bool operand = t->dtype == AULE_OPERAND, wide = array->dtype == ARRAY_F64;
    if (wide && dtype == AULE_OPERAND)
        return command_fail(
            EXIT_WRONG, "%s: dtype is f64, which no kernel takes: --dtype f32 rounds it", t->name);
    if (dtype == AULE_OPERAND || !(operand || wide) ||
        array_convert(array, operand ? dtype : t->dtype, &why))
        return 0;
    return command_fail(EXIT_WRONG, "%s: %s", t->name, why.text);
}

/* Rows that append writes, and where. Forward takes them, too, and appends them first. */
static bool is_new(const aule_tensor_v1 *t)
{
    return t->role == AULE_ROLE_NEW || t->role == AULE_ROLE_NEW_SLOTS;
}

static int read_input(AuSession *s, uint32_t index, const char *spec, uint32_t dtype)
{
    AuWhy why;
    const aule_tensor_v1 *t = session_tensor(s, index);
    if (!array_read(&s->arrays[index], spec, t->name, &why))
        return command_fail(EXIT_FILE, "%s", why.text);
    int status = convert(t, &s->arrays[index], dtype);
    if (status) return status;
    s->backward = s->backward || t->role == AULE_ROLE_DOUT;
    s->on_pool = s->on_pool || t->role == AULE_ROLE_POOL;
    s->appends = s->appends || (!s->operation && is_new(t));
    return 0;
}

static int read_param(AuSession *s, const char *name, const char *text)
{
    aule_value value;
    if (!parse_value(text, &value))
        return command_fail(EXIT_USAGE, "--%s is '%s', expected a number", name, text);
    s->param_args[s->param_count++] = (aule_param_arg){name, value};
    return 0;
}

static int fail_option(const AuSession *s, const AuOption *option)
{
    if (option_is(option, "dout"))
        return command_fail(EXIT_WRONG, "--dout: the artifact has no backward kernels");
    if (option_is(option, "k_new") || option_is(option, "v_new"))
        return command_fail(EXIT_WRONG,
                            "--%.*s: the artifact writes no rows into caches; aulec --append makes "
                            "one that does",
                            (int)option->name_length, option->name);
    char names[512] = "";
    size_t used = 0;
    for (uint32_t i = 0; i < s->signature->tensor_count && used < sizeof names - 1; i++)
        if (!session_is_made(session_tensor(s, i)))
            used += (size_t)snprintf(names + used, sizeof names - used, " --%s",
                                     option_name(session_tensor(s, i)));
    for (uint32_t i = 0; i < s->signature->param_count && used < sizeof names - 1; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, " --%s", param(s, i)->name);
    return command_fail(EXIT_USAGE, "unknown option --%.*s; %s takes%s", (int)option->name_length,
                        option->name, s->signature->name, names);
}

/* "input.arch" is what the script calls arch, whatever --arch is. */
static AuOption of_script(const AuOption *option)
{
    static const char prefix[] = "input.";
    const size_t length = sizeof prefix - 1;
    AuOption own = *option;
    if (own.name_length > length && memcmp(own.name, prefix, length) == 0) {
        own.name += length;
        own.name_length -= length;
    }
    return own;
}

static int read_option(AuSession *s, const AuOption *given, uint32_t dtype)
{
    const AuOption own = of_script(given), *option = &own;
    for (uint32_t i = 0; i < s->signature->tensor_count; i++) {
        const aule_tensor_v1 *t = session_tensor(s, i);
        if (option_is(option, option_name(t)) && !session_is_made(t))
            return read_input(s, i, option->value, dtype);
    }
    for (uint32_t i = 0; i < s->signature->param_count; i++)
        if (option_is(option, param(s, i)->name))
            return read_param(s, param(s, i)->name, option->value);
    return fail_option(s, given);
}

/* An input goes into each part; combine takes those alone that what follows the sums reads, append those of the cache. */
static bool is_of(const char *operation, const aule_tensor_v1 *t)
{
    if (strcmp(operation, "combine") == 0 && t->role == AULE_ROLE_INPUT)
        return t->flags & AULE_TENSOR_JOINED;
    if (strcmp(operation, "append") == 0 && t->role == AULE_ROLE_INPUT)
        return t->flags & AULE_TENSOR_CACHED;
    return operation_takes(operation, t->role);
}

/* Of tensors that were given, each belongs to what is run. */
static int check_operations(const AuSession *s)
{
    for (uint32_t i = 0; i < s->signature->tensor_count; i++) {
        const aule_tensor_v1 *t = session_tensor(s, i);
        const char *name = option_name(t);
        if (!s->arrays[i].data) continue;
        if (is_named(s, "schedule") && t->role == AULE_ROLE_WORK)
            return command_fail(EXIT_USAGE, "--%s is what the operation schedule writes", name);
        if (s->operation && !is_of(s->operation, t))
            return command_fail(EXIT_USAGE, "--%s is not for the operation %s", name, s->operation);
        if (!s->operation && t->role == AULE_ROLE_PART)
            return command_fail(EXIT_USAGE, "--%s is for --operation combine", name);
        if (s->appends && is_new(t) && s->backward)
            return command_fail(EXIT_USAGE, "--%s is not beside --dout: caches have no gradients",
                                name);
        if (s->on_pool && !operation_takes("step", t->role))
            return command_fail(EXIT_USAGE, "--%s is not for a step, which --state asks for", name);
        if (!s->on_pool && t->role == AULE_ROLE_SLOTS)
            return command_fail(
                EXIT_USAGE, "--%s is for a step: it needs --state, the states it numbers", name);
        if (session_is_of_backward(t) && !s->backward)
            return command_fail(EXIT_USAGE, "--%s needs --dout, the gradient given for the output",
                                name);
    }
    return 0;
}

int session_read(AuSession *s, AuOptions *options, uint32_t dtype)
{
    s->operand = dtype;
    for (size_t i = 0; i < options->count; i++) {
        int status = options->at[i].used ? 0 : read_option(s, &options->at[i], dtype);
        if (status) return status;
    }
    return check_operations(s);
}

/* ---- running */

/* The array as the device sees it. Lists of work begin where a buffer does. */
static int place(AuSession *s, uint32_t index, bool upload)
{
    aule_error *error = NULL;
    AuArray *array = &s->arrays[index];
    void *data = array->data;
    if (!s->host || session_tensor(s, index)->role == AULE_ROLE_WORK) {
        if (aule_buffer_new(s->device, array->bytes, &s->buffers[index], &error))
            return command_error(error);
        if (upload && aule_buffer_upload(s->buffers[index], 0, array->data, array->bytes, &error))
            return command_error(error);
        data = aule_buffer_data(s->buffers[index]);
    }
    s->tensors[index] = (DLTensor){.data = data,
                                   .device = aule_device_get_info(s->device)->dl,
                                   .ndim = array->rank,
                                   .dtype = array_dl_type(array->dtype),
                                   .shape = array->shape,
                                   .strides = array->strides};
    return 0;
}

static uint32_t dtype_of(DLDataType type)
{
    for (uint32_t i = AULE_F32; i <= AULE_I8; i++) {
        DLDataType known = array_dl_type(i);
        if (known.code == type.code && known.bits == type.bits) return i;
    }
    return AULE_F32;
}

/* The call of one step with all its tensors that there are; [args] has room for all. */
static aule_call make_call(const AuSession *s, AuDirection step, aule_tensor_arg args[MAX_ARGS])
{
    aule_call call = {.struct_size = sizeof call,
                      .operation = session_operation(s, step),
                      .tensors = args,
                      .params = s->param_args,
                      .param_count = s->param_count,
                      .arch = s->arch,
                      .flags = s->invariant ? AULE_CALL_INVARIANT : 0};
    for (uint32_t i = 0; i < s->signature->tensor_count; i++) {
        const aule_tensor_v1 *t = session_tensor(s, i);
        const bool first = step == STEP_FORWARD && s->appends && is_new(t);
        if (s->arrays[i].data && (first || is_of(call.operation, t)))
            args[call.tensor_count++] = (aule_tensor_arg){t->name, &s->tensors[i]};
    }
    return call;
}

static int make_output(AuSession *s, uint32_t index)
{
    aule_error *error = NULL;
    AuWhy why;
    int32_t rank;
    int64_t shape[8];
    DLDataType type;
    aule_tensor_arg args[MAX_ARGS];
    aule_call call = make_call(s, STEP_FORWARD, args);
    if (aule_attention_shape(s->attention, &call, session_tensor(s, index)->name, &rank, shape,
                             &type, &error))
        return command_error(error);
    const bool any = s->operand != AULE_OPERAND && session_tensor(s, index)->dtype == AULE_OPERAND;
    if (!array_new(&s->arrays[index], any ? s->operand : dtype_of(type), rank, shape, &why))
        return command_fail(EXIT_WRONG, "%s", why.text);
    return place(s, index, false);
}

static int make_workspace(AuSession *s, AuPrepared *step)
{
    aule_error *error = NULL;
    step->run = (aule_run){.struct_size = sizeof step->run};
    uint64_t bytes = aule_plan_workspace(step->plan, NULL);
    if (bytes == 0) return 0;
    if (aule_buffer_new(s->device, bytes, &step->workspace, &error)) return command_error(error);
    step->run.workspace = aule_buffer_data(step->workspace);
    step->run.workspace_bytes = bytes;
    return 0;
}

static int make_plan(AuSession *s, AuDirection step)
{
    aule_error *error = NULL;
    aule_tensor_arg args[MAX_ARGS];
    aule_call call = make_call(s, step, args);
    if (aule_plan_new(s->attention, s->device, &call, &s->steps[step].plan, &error))
        return command_error(error);
    return make_workspace(s, &s->steps[step]);
}

/* Gradients of states before the first token are made where there are such states. */
static bool is_wanted(const AuSession *s, const aule_tensor_v1 *t)
{
    const int32_t before = session_find_role(s, AULE_ROLE_STATE);
    if (t->role == AULE_ROLE_DSTATE && (before < 0 || !s->arrays[before].data)) return false;
    if (is_named(s, "schedule")) return t->role == AULE_ROLE_WORK;
    if (t->role == AULE_ROLE_KEPT || t->role == AULE_ROLE_KEPT_ROW) return s->backward;
    return session_is_made(t) && (operation_takes(session_operation(s, STEP_FORWARD), t->role) ||
                                  (s->backward && operation_takes("backward", t->role)));
}

int session_prepare(AuSession *s)
{
    int status = 0;
    for (uint32_t i = 0; !status && i < s->signature->tensor_count; i++)
        if (s->arrays[i].data) status = place(s, i, true);
    for (uint32_t i = 0; !status && i < s->signature->tensor_count; i++)
        if (is_wanted(s, session_tensor(s, i))) status = make_output(s, i);
    if (!status) status = make_plan(s, STEP_FORWARD);
    if (!status && s->backward) status = make_plan(s, STEP_BACKWARD);
    return status;
}

int session_run(AuSession *s, AuDirection step)
{
    aule_error *error = NULL;
    return aule_plan_run(s->steps[step].plan, &s->steps[step].run, &error) ? command_error(error)
                                                                           : 0;
}

int session_wait(AuSession *s)
{
    aule_error *error = NULL;
    if (aule_device_synchronize(s->device, NULL, &error)) return command_error(error);
    for (int step = 0; step < STEPS; step++)
        if (s->steps[step].plan &&
            aule_plan_report(s->steps[step].plan, &s->steps[step].run, &error))
            return command_error(error);
    return 0;
}

int session_fetch(AuSession *s)
{
    aule_error *error = NULL;
    for (uint32_t i = 0; i < s->signature->tensor_count; i++)
        if (s->buffers[i] && session_is_result(s, session_tensor(s, i)) &&
            aule_buffer_download(s->buffers[i], 0, s->arrays[i].data, s->arrays[i].bytes, &error))
            return command_error(error);
    return 0;
}
