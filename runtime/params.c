/* params.c - parameters of a call: values, defaults, requirements. See signature.h. */
#include <math.h>

#include "signature.h"

int32_t rt_find_param(const aule_attention_v1 *attention, const char *name)
{
    for (uint32_t i = 0; i < attention->param_count; i++)
        if (strcmp(rt_param(attention, i)->name, name) == 0) return (int32_t)i;
    return -1;
}

/* A caller's value as the parameter's dtype has it. NULL: [out] is set; else what was expected. */
static const char *convert(const aule_value *given, uint32_t dtype, aule_value *out)
{
    if (given->type > AULE_VALUE_FLOAT) return "a value of type AULE_VALUE_INT or AULE_VALUE_FLOAT";
    bool is_int = given->type == AULE_VALUE_INT;
    if (dtype == AULE_F32) {
        double value = is_int ? (double)given->i : given->f;
        *out = (aule_value){.type = AULE_VALUE_FLOAT, .f = (double)(float)value};
        return NULL;
    }
    int64_t value = given->i;
    if (!is_int) {
        if (!(given->f >= -0x1p63 && given->f < 0x1p63) || given->f != floor(given->f))
            return "a whole number";
        value = (int64_t)given->f;
    }
    if (dtype == AULE_I32 && (value < INT32_MIN || value > INT32_MAX)) return "a number of 32 bits";
    if (dtype == AULE_BOOL && value != 0 && value != 1) return "0 or 1";
    *out = (aule_value){.type = AULE_VALUE_INT, .i = value};
    return NULL;
}

static aule_status bind_param(const aule_attention_v1 *a, uint32_t index, const aule_value *given,
                              AuBound *bound, AuSink sink)
{
    const aule_param_v1 *p = rt_param(a, index);
    const char *expected = convert(given, p->dtype, &bound->params[index]);
    if (!expected) return AULE_OK;
    AuText found = {.memory = sink.memory};
    rt_value_text(&found, given);
    aule_status status =
        rt_fail(sink, AULE_ERROR_PARAM, "%s: param %s: %s is %s, expected %s", a->name, p->name,
                rt_dtype_name(p->dtype), rt_text_str(&found), expected);
    rt_text_free(&found);
    return status;
}

static aule_status fail_unknown(const aule_attention_v1 *a, const char *name, AuSink sink)
{
    AuText names = {.memory = sink.memory};
    for (uint32_t i = 0; i < a->param_count; i++)
        rt_text_add(&names, "%s %s", i ? "," : " has", rt_param(a, i)->name);
    aule_status status = rt_fail(sink, AULE_ERROR_NAME, "%s: no param '%s', it%s", a->name, name,
                                 names.length ? rt_text_str(&names) : " has none");
    rt_text_free(&names);
    return status;
}

static aule_status bind_default(const aule_attention_v1 *a, uint32_t index, AuBound *bound,
                                AuSink sink)
{
    const aule_param_v1 *p = rt_param(a, index);
    if (!p->default_value.code)
        return rt_fail(sink, AULE_ERROR_PARAM, "%s: param %s (%s) is missing, it has no default",
                       a->name, p->name, rt_dtype_name(p->dtype));
    AuEnv env = rt_bound_env(a, bound);
    aule_value value = {.type = AULE_VALUE_INT};
    if (rt_expr_lacks_size(&p->default_value, &env)) /* then no kernel of the operation takes it */
        return bind_param(a, index, &value, bound, sink);
    const char *wrong = rt_evaluate(&p->default_value, &env, &value);
    if (wrong)
        return rt_fail(sink, AULE_ERROR_PARAM, "%s: param %s: its default %s", a->name, p->name,
                       wrong);
    return bind_param(a, index, &value, bound, sink);
}

/* Which sizes of the condition the tensor gives that none before it gave. */
static uint64_t sizes_given(const aule_tensor_v1 *t, const aule_expr *condition, uint64_t before)
{
    uint64_t given = 0;
    for (uint32_t axis = 0; axis < t->rank; axis++) {
        const int32_t size = rt_expr_size(&t->axes[axis]);
        if (size >= 0 && rt_expr_has_size(condition, (uint32_t)size)) given |= 1ull << size;
    }
    return given & ~before;
}

/* Shapes of the tensors that give the sizes of a condition, where a layout brings one of them: scripts do not name such sizes. */
static void add_givers(AuText *text, const aule_attention_v1 *a, const aule_expr *condition,
                       const AuBound *bound)
{
    AuText shapes = {.memory = text->memory};
    uint64_t seen = 0;
    bool brought = false;
    for (uint32_t i = 0; i < a->tensor_count; i++) {
        const DLTensor *given = bound->tensors[i];
        const aule_tensor_v1 *t = rt_tensor(a, i);
        const uint64_t more = given ? sizes_given(t, condition, seen) : 0;
        if (!more) continue;
        seen |= more;
        brought |= (t->flags & AULE_TENSOR_BROUGHT) != 0;
        rt_text_add(&shapes, "%s %s is ", shapes.length ? "," : ";", t->name);
        rt_shape_text(&shapes, given->shape, given->ndim);
    }
    if (brought) rt_text_add(text, "%s", rt_text_str(&shapes));
    text->failed |= shapes.failed;
    rt_text_free(&shapes);
}

static aule_status check_require(const aule_attention_v1 *a, const aule_require_v1 *require,
                                 const AuBound *bound, AuSink sink)
{
    AuEnv env = rt_bound_env(a, bound);
    aule_value holds;
    if (rt_expr_lacks_size(&require->condition, &env)) return AULE_OK;
    const char *wrong = rt_evaluate(&require->condition, &env, &holds);
    if (!wrong && holds.type == AULE_VALUE_INT && holds.i != 0) return AULE_OK;
    AuText names = {.memory = sink.memory};
    rt_expr_names(&names, &require->condition, a, &env);
    add_givers(&names, a, &require->condition, bound);
    aule_status status = rt_fail(sink, AULE_ERROR_REQUIRE, "%s: requirement %s%s: %s%s%s", a->name,
                                 wrong ? wrong : "not met", wrong ? " when evaluated" : "",
                                 require->text, names.length ? ", with " : "", rt_text_str(&names));
    rt_text_free(&names);
    return status;
}

aule_status rt_bind_params(const aule_attention_v1 *a, const aule_param_arg *params, size_t count,
                           const aule_value *values, AuBound *bound, AuSink sink)
{
    uint64_t given = 0;
    if (count > 0 && !params)
        return rt_fail(sink, AULE_ERROR_USAGE, "aule_call.params is NULL, param_count is %zu",
                       count);
    for (size_t i = 0; i < count; i++) {
        if (!params[i].name)
            return rt_fail(sink, AULE_ERROR_USAGE, "%s: param %zu of the call has no name", a->name,
                           i);
        int32_t index = rt_find_param(a, params[i].name);
        if (index < 0) return fail_unknown(a, params[i].name, sink);
        if (given >> index & 1)
            return rt_fail(sink, AULE_ERROR_NAME, "%s: param %s is passed twice", a->name,
                           params[i].name);
        given |= 1ull << index;
        aule_status status =
            bind_param(a, (uint32_t)index, values ? &values[i] : &params[i].value, bound, sink);
        if (status) return status;
    }
    for (uint32_t i = 0; i < a->param_count; i++) {
        aule_status status = given >> i & 1 ? AULE_OK : bind_default(a, i, bound, sink);
        if (status) return status;
    }
    for (uint32_t i = 0; i < a->require_count; i++) {
        aule_status status = check_require(a, &a->requires_[i], bound, sink);
        if (status) return status;
    }
    return AULE_OK;
}
