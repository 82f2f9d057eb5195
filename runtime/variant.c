#include "variant.h"

#include "descriptor.h"
#include "maps.h"
#include "module.h"

/* The next word of [*features] that [info] has not, of *length bytes, behind which [*features] then is; NULL: it has all of them. */
static const char *next_missing(const aule_device_info *info, const char **features, size_t *length)
{
    while (**features) {
        const char *word = *features;
        *length = strcspn(word, " ");
        *features = word + *length + (word[*length] == ' ');
        if (*length > 0 && !rt_has_word(info->features, word, *length)) return word;
    }
    return NULL;
}

static bool has_features(const aule_device_info *info, const char *features)
{
    size_t length;
    return !next_missing(info, &features, &length);
}

/* Host kernels of an artifact that was read as data cannot be called (library.h). */
static bool is_callable(const aule_variant_v1 *variant)
{
    return variant->code_format != AULE_CODE_HOST || !variant->launch_count ||
           rt_launch(variant, 0)->host;
}

/* As AuBackend.rank_arch; -1 also where features are missing. */
static int rank_device(const aule_variant_v1 *variant, const AuBackend *backend,
                       const aule_device_info *info)
{
    if (strcmp(variant->target, backend->name) != 0 || !is_callable(variant) ||
        !has_features(info, variant->features))
        return -1;
    return backend->rank_arch ? backend->rank_arch(info, variant->arch) : 0;
}

bool rt_any_variant_fits(const aule_attention *attention, const aule_device_info *info)
{
    const AuBackend *backend = rt_backend(info->backend, strlen(info->backend));
    const aule_attention_v1 *a = attention->descriptor;
    for (uint32_t i = 0; backend && i < a->variant_count; i++)
        if (rank_device(rt_variant(a, i), backend, info) >= 0) return true;
    return false;
}

enum { NAMED = 32 }; /* architectures; of a file that has more nobody reads them */

static bool is_among(const char *const *names, uint32_t count, const char *name)
{
    for (uint32_t n = 0; n < count; n++)
        if (strcmp(names[n], name) == 0) return true;
    return false;
}

void rt_no_variant_text(AuText *text, const aule_attention *attention, const aule_device_info *info)
{
    const aule_attention_v1 *a = attention->descriptor;
    const char *named[NAMED];
    uint32_t count = 0;
    rt_text_add(text, "%s%s: the artifact has no kernel for it", text->length ? "; " : "",
                info->id);
    for (uint32_t i = 0; i < a->variant_count && count < NAMED; i++) {
        const aule_variant_v1 *v = rt_variant(a, i);
        if (strcmp(v->target, info->backend) != 0 || is_among(named, count, v->arch)) continue;
        rt_text_add(text, "%s%s", count ? ", " : ", only for ", v->arch);
        named[count++] = v->arch;
    }
}

bool rt_any_variant_for(const aule_attention *attention, const AuBackend *backend)
{
    const aule_attention_v1 *a = attention->descriptor;
    for (uint32_t i = 0; i < a->variant_count; i++)
        if (strcmp(rt_variant(a, i)->target, backend->name) == 0) return true;
    return false;
}

/* A size that no tensor of the operation has (-1: the width of the keys in combine) is nothing that its kernels ask for. */
static bool fits_sizes(const aule_variant_v1 *variant, const AuBound *bound)
{
    for (uint32_t i = 0; i < variant->fixed_count; i++) {
        const int64_t size = bound->sizes[variant->fixed[i].size];
        if (size >= 0 && size != variant->fixed[i].value) return false;
    }
    return true;
}

/* Conditions that cannot be computed do not hold: variants without one are right for every call. */
bool rt_meets_condition(const aule_attention_v1 *attention, const aule_variant_v1 *variant,
                        const AuBound *bound)
{
    const aule_expr *condition = rt_condition(variant);
    const AuEnv env = rt_bound_env(attention, bound);
    aule_value value;
    return !condition ||
           (!rt_evaluate(condition, &env, &value) && value.type == AULE_VALUE_INT && value.i != 0);
}

void rt_variant_text(AuText *text, const aule_attention_v1 *attention,
                     const aule_variant_v1 *variant)
{
    rt_text_add(text, "%s %s %s", variant->target, variant->arch, rt_dtype_name(variant->dtype));
    for (uint32_t i = 0; i < variant->fixed_count; i++) {
        const aule_fixed_v1 *fixed = &variant->fixed[i];
        const char *name = attention->sizes[fixed->size].name;
        rt_text_add(text, " %s%s%lld", name, name[0] ? "=" : "width ", (long long)fixed->value);
    }
}

/* The sizes that variants of this attention fix, as the call has them. */
static void add_widths(AuText *text, const aule_attention_v1 *a, const AuBound *bound,
                       const char *before)
{
    uint64_t fixed = 0;
    for (uint32_t i = 0; i < a->variant_count; i++) {
        const aule_variant_v1 *v = rt_variant(a, i);
        for (uint32_t j = 0; j < v->fixed_count; j++) fixed |= 1ull << v->fixed[j].size;
    }
    for (uint32_t i = 0; i < a->size_count; i++)
        if ((fixed >> i & 1) && a->sizes[i].name[0])
            rt_text_add(text, "%s%s=%lld", before, a->sizes[i].name, (long long)bound->sizes[i]);
}

/* Each of them, and what the backend has to say of the first. */
static void add_missing(AuText *text, const AuBackend *backend, const aule_device_info *info,
                        const char *features)
{
    size_t length;
    const char *first = NULL, *word, *before = " (needs ";
    while ((word = next_missing(info, &features, &length)) != NULL) {
        rt_text_add(text, "%s%.*s", before, (int)length, word);
        if (!first) first = word;
        before = " and ";
    }
    if (first && backend->explain) backend->explain(info, first, text);
    rt_text_add(text, ")");
}

/* Adds why the device does not hold what the variant relies on. */
static void add_denied(AuText *text, const aule_device *device, const aule_variant_v1 *v)
{
    aule_error *why = NULL;
    const AuSink own = {text->memory, &why};
    if (device->backend->confirm && device->backend->confirm(device->state, v, own) && why)
        rt_text_add(text, " (%s)", aule_error_message(why));
    aule_error_free(why);
}

static void add_what_there_is(AuText *text, const aule_attention_v1 *a, const char *operation,
                              const aule_device *device)
{
    const AuBackend *backend = device->backend;
    const aule_device_info *info = &device->info;
    enum { SHOWN = 12 };
    uint32_t shown = 0, left = 0;
    for (uint32_t i = 0; i < 2 * a->variant_count; i++) { /* first those for the device */
        const aule_variant_v1 *v = rt_variant(a, i % a->variant_count);
        bool other = strcmp(v->target, info->backend) != 0;
        if (strcmp(v->operation, operation) != 0 || other != (i >= a->variant_count) ||
            rt_condition(v)) /* what has one has a twin without */
            continue;
        if (shown == SHOWN) {
            left++;
            continue;
        }
        rt_text_add(text, "%s", shown++ ? ", " : "");
        rt_variant_text(text, a, v);
        if (!other && !is_callable(v))
            rt_text_add(text, " (functions for a loader of Linux on such a processor; here "
                              "the artifact was read as data)");
        else if (!other && !has_features(info, v->features))
            add_missing(text, backend, info, v->features);
        else if (!other && backend->refuses && backend->refuses(v->arch))
            rt_text_add(text, " (%s)", backend->refuses(v->arch));
        else if (!other)
            add_denied(text, device, v);
    }
    if (shown == 0) rt_text_add(text, "nothing for this operation");
    if (left > 0) rt_text_add(text, " and %u more", left);
}

static aule_status fail_unsupported(const aule_attention_v1 *a, const aule_device *device,
                                    const AuBound *bound, const char *operation, const char *arch,
                                    AuSink sink)
{
    const AuBackend *backend = device->backend;
    const aule_device_info *info = &device->info;
    AuText text = {.memory = sink.memory};
    rt_text_add(&text, "%s: no %s kernel for device %s, dtype %s", a->name, operation, info->id,
                rt_dtype_name(bound->operand));
    add_widths(&text, a, bound, ", ");
    if (arch) rt_text_add(&text, ", architecture %s", arch);
    rt_text_add(&text, "; the artifact has: ");
    add_what_there_is(&text, a, operation, device);
    rt_text_add(&text, "; to have it: aulec --target %s --dtype %s", info->backend,
                rt_dtype_name(bound->operand));
    add_widths(&text, a, bound, " --width ");
    if (backend->names_machine)
        rt_text_add(&text, " --arch %.*s", (int)strcspn(info->features, " "), info->features);
    else if (arch)
        rt_text_add(&text, " --arch %s", arch);
    const char *layout = strchr(a->name, '@'); /* one of several of an artifact */
    if (layout) rt_text_add(&text, " --layout \"%s\", or --serve", layout + 1);
    aule_status status =
        text.failed ? rt_fail_memory(sink) : rt_fail(sink, AULE_ERROR_UNSUPPORTED, "%s", text.at);
    rt_text_free(&text);
    return status;
}

bool rt_is_asked_for(const aule_attention_v1 *attention, const aule_variant_v1 *v,
                     const AuBound *bound, const char *operation, const char *arch, bool invariant)
{
    return strcmp(v->operation, operation) == 0 && v->dtype == bound->operand &&
           (!arch || strcmp(v->arch, arch) == 0) && fits_sizes(v, bound) &&
           rt_is_for(v, invariant) && rt_meets_condition(attention, v, bound);
}

/* false: it does not, and another may serve; what else goes wrong is an error. */
static aule_status is_confirmed(const aule_device *device, const aule_variant_v1 *variant,
                                bool *yes, AuSink sink)
{
    aule_error *why = NULL;
    const AuSink own = {sink.memory, &why};
    *yes = true;
    if (!device->backend->confirm) return AULE_OK;
    aule_status status = device->backend->confirm(device->state, variant, own);
    *yes = status == AULE_OK;
    if (status == AULE_ERROR_UNSUPPORTED)
        status = AULE_OK;
    else if (status)
        status = rt_fail(sink, status, "%s", why ? aule_error_message(why) : "out of memory");
    aule_error_free(why);
    return status;
}

/* What a call wants of a variant. */
typedef struct Asked {
    const AuBound *bound;
    const char *operation, *arch;
    bool invariant;
} Asked;

/* The best for the device; NULL: none. [by_maps]: only if tensor maps describe the call's tensors, where it has any. */
static aule_status best_variant(const aule_attention_v1 *attention, const aule_device *device,
                                const Asked *of, bool by_maps, const aule_variant_v1 **found,
                                AuSink sink)
{
    int best = -1;
    *found = NULL;
    for (uint32_t i = 0; i < attention->variant_count; i++) {
        const aule_variant_v1 *v = rt_variant(attention, i);
        bool confirmed, asked = rt_is_asked_for(attention, v, of->bound, of->operation, of->arch,
                                                of->invariant) &&
                                (!by_maps || rt_maps_fit(attention, v, of->bound));
        int rank = asked ? rank_device(v, device->backend, &device->info) : -1;
        if (rank < 0 || (best >= 0 && best <= rank)) continue;
        aule_status status = is_confirmed(device, v, &confirmed, sink);
        if (status) return status;
        if (confirmed) *found = v, best = rank;
    }
    return AULE_OK;
}

aule_status rt_choose_variant(const aule_attention_v1 *attention, const aule_device *device,
                              const AuBound *bound, const char *operation, const char *arch,
                              bool invariant, const aule_variant_v1 **variant, AuSink sink)
{
    const Asked asked = {bound, operation, arch, invariant};
    const bool has_work = rt_passed_of(attention, bound, AULE_ROLE_WORK) >= 0;
    const aule_variant_v1 *best = NULL;
    aule_status status = best_variant(attention, device, &asked, true, variant, sink);
    if (!status && *variant && has_work)
        status = best_variant(attention, device, &asked, false, &best, sink);
    if (status) return status;
    /* Lists of work are those of one variant, and who makes them sees other tensors than who reads them: so it is the best one, whatever tensors there are. */
    if (best && *variant != best && (rt_work_regions(*variant) || rt_work_regions(best)))
        return rt_fail(
            sink, AULE_ERROR_WORK,
            "%s: lists of work are those of kernels that copy in boxes, which strides or "
            "addresses that are no multiples of 16 bytes rule out: such a call makes its own",
            attention->name);
    if (*variant) return AULE_OK;
    if (invariant)
        return rt_fail(
            sink, AULE_ERROR_UNSUPPORTED,
            "%s: no %s kernel for device %s whose results do not depend on the batch "
            "(AULE_CALL_INVARIANT): of forward of attentions with weights artifacts from "
            "version 1.15 on have some",
            attention->name, operation, device->info.id);
    return fail_unsupported(attention, device, bound, operation, arch, sink);
}
