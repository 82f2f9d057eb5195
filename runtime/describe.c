/* describe.c - modules and devices in words, for people. */
#include "descriptor.h"
#include "device.h"
#include "module.h"
#include "variant.h"

static void add_axes(AuText *text, const aule_attention_v1 *a, const aule_tensor_v1 *t)
{
    rt_text_add(text, "[");
    for (uint32_t axis = 0; axis < t->rank; axis++) {
        int32_t size = rt_expr_size(&t->axes[axis]);
        aule_value value;
        AuEnv nothing = {0};
        rt_text_add(text, "%s", axis ? ", " : "");
        if (size >= 0)
            rt_text_add(text, "%s", a->sizes[size].name[0] ? a->sizes[size].name : "fixed");
        else if (!rt_evaluate(&t->axes[axis], &nothing, &value))
            rt_value_text(text, &value);
        else
            rt_expr_text(text, &t->axes[axis], a);
    }
    rt_text_add(text, "]");
}

static void add_tensor(AuText *text, const aule_attention_v1 *a, const aule_tensor_v1 *t)
{
    static const char *const roles[] = {"query", "key",    "value", "input", "output", "final",
                                        "kept",  "given",  "given", "made",  "kept",   "state",
                                        "state", "packed", "pool",  "slots", "given",  "made",
                                        "part",  "parts",  "new",   "slots", "work"};
    _Static_assert(sizeof roles / sizeof *roles == AULE_ROLES, "a word for each role");
    rt_text_add(text, "  %-6s %s: %s ", roles[t->role], t->name, rt_dtype_name(t->dtype));
    add_axes(text, a, t);
    rt_text_add(text, "%s%s%s%s%s\n", t->flags & AULE_TENSOR_GRAD ? " grad" : "",
                t->flags & AULE_TENSOR_IN_K ? ", a part of k" : "",
                t->flags & AULE_TENSOR_MODIFIED ? ", modified" : "",
                t->flags & AULE_TENSOR_JOINED ? ", for combine too" : "",
                t->flags & AULE_TENSOR_APPENDED ? ", which append writes"
                : t->flags & AULE_TENSOR_CACHED ? ", for append too"
                                                : "");
}

static void add_param(AuText *text, const aule_attention_v1 *a, const aule_param_v1 *p)
{
    aule_value value;
    AuEnv nothing = {0};
    rt_text_add(text, "  param  %s: %s", p->name, rt_dtype_name(p->dtype));
    if (p->default_value.code) {
        bool constant = rt_evaluate(&p->default_value, &nothing, &value) == NULL;
        rt_text_add(text, " = ");
        if (constant)
            rt_value_text(text, &value);
        else
            rt_expr_text(text, &p->default_value, a);
    }
    rt_text_add(text, "\n");
}

static void add_variant(AuText *text, const aule_attention_v1 *a, const aule_variant_v1 *v)
{
    rt_text_add(text, "  kernel %s: ", v->operation);
    rt_variant_text(text, a, v);
    if (v->features[0]) rt_text_add(text, ", needs %s", v->features);
    rt_text_add(text, ", '%s', %u launch%s", v->schedule, v->launch_count,
                v->launch_count == 1 ? "" : "es");
    if (rt_condition(v)) rt_text_add(text, ", for some calls");
    if (!rt_is_for(v, false)) rt_text_add(text, ", for invariant calls");
    if (v->code_bytes) rt_text_add(text, ", %llu bytes of code", (unsigned long long)v->code_bytes);
    if (v->workspace_count) rt_text_add(text, ", workspace");
    uint32_t lists = 0;
    for (uint32_t i = 0; i < rt_check_count(v); i++) lists += v->checks[i].slices == 0;
    if (rt_check_count(v) > lists)
        rt_text_add(text, ", checks %u indices", rt_check_count(v) - lists);
    if (lists) rt_text_add(text, ", checks %u lists", lists);
    rt_text_add(text, "\n");
}

aule_status aule_describe_module(const aule_module *module, char **text, aule_error **error)
{
    AuSink sink = {module ? module->memory : rt_memory(NULL), error};
    if (!module || !text)
        return rt_fail(sink, AULE_ERROR_USAGE,
                       "aule_describe_module: module and text must not be NULL");
    const aule_module_v1 *m = module->descriptor;
    AuText out = {.memory = sink.memory};
    rt_text_add(&out, "artifact of %s by %s, version %u.%u, source hash %016llx\n", m->source_name,
                m->producer, m->version_major, m->version_minor,
                (unsigned long long)m->source_hash);
    for (uint32_t i = 0; i < m->attention_count; i++) {
        const aule_attention_v1 *a = rt_attention(m, i);
        rt_text_add(&out, "attention %s\n", a->name);
        for (uint32_t j = 0; j < a->tensor_count; j++) add_tensor(&out, a, rt_tensor(a, j));
        for (uint32_t j = 0; j < a->param_count; j++) add_param(&out, a, rt_param(a, j));
        for (uint32_t j = 0; j < a->require_count; j++)
            rt_text_add(&out, "  require %s\n", a->requires_[j].text);
        for (uint32_t j = 0; j < a->variant_count; j++) add_variant(&out, a, rt_variant(a, j));
    }
    rt_text_plain(out.at);
    return rt_text_give(&out, text, sink);
}

static void add_device(AuText *text, const aule_device_info *info)
{
    static const char *const kinds[] = {"CPU", "GPU", "other"};
    if (!info->available) {
        rt_text_add(text, "%-10s not available: %s\n", info->id, info->reason);
        return;
    }
    rt_text_add(text, "%-10s %s, %s, %u unit%s, %.1f GiB\n", info->id, info->name,
                kinds[info->kind], info->units, info->units == 1 ? "" : "s",
                (double)info->memory_bytes / (double)(1ull << 30));
    rt_text_add(text, "           %s\n           features: %s\n", info->driver, info->features);
    if (info->uuid[0]) rt_text_add(text, "           uuid: %s\n", info->uuid);
}

aule_status aule_describe_devices(const aule_options *options, char **text, aule_error **error)
{
    AuSink sink = {rt_memory(NULL), error};
    aule_status status = rt_begin(options, &sink);
    if (status) return status;
    if (!text)
        return rt_fail(sink, AULE_ERROR_USAGE, "aule_describe_devices: text must not be NULL");
    aule_device_list *list;
    status = aule_device_list_new(options, &list, error);
    if (status) return status;
    AuText out = {.memory = sink.memory};
    for (size_t i = 0; i < aule_device_list_count(list); i++)
        add_device(&out, aule_device_list_get(list, i));
    aule_device_list_free(list);
    rt_text_plain(out.at);
    return rt_text_give(&out, text, sink);
}
