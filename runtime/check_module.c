/* check_module.c - see descriptor.h: is a descriptor one that we understand, and is all there that it points to? Nothing is read before that is
 * known: a count that was changed by hand is a damaged artifact and no crash. */
#include "descriptor.h"

#include "expr.h"

enum { ROWS_RANK = 4 }; /* of q and k */

/* What is being checked, for the messages. */
typedef struct Check {
    const char *where;     /* the file */
    const char *attention; /* "" before one is known */
    const AuSegments *segments;
    uint64_t left; /* bytes that may still be looked at */
    AuSink sink;
} Check;

/* Arrays and texts that many point to are looked at for each: so a small file may speak of endless ones. What is spoken of may be a
 * few times what the file has, beside a constant that no script comes near; nobody who walks through a module later takes longer. */
static uint64_t allowance(const AuSegments *segments)
{
    enum { TIMES = 8, ANYWAY = 1 << 26 };
    uint64_t bytes = ANYWAY;
    if (!segments) return UINT64_MAX;
    for (uint32_t n = 0; n < segments->count; n++)
        bytes += (segments->of[n].end - segments->of[n].begin) * TIMES;
    return bytes;
}

static bool too_much(Check *check, uint64_t bytes)
{
    if (bytes > check->left) return true;
    check->left -= bytes;
    return false;
}

static aule_status damaged(const Check *check, const char *what)
{
    return rt_fail(check->sink, AULE_ERROR_ARTIFACT, "%s: damaged artifact: %s%s%s", check->where,
                   check->attention, check->attention[0] ? ": " : "", what);
}

/* What an array is of. */
#define ITEM(type) sizeof(type), _Alignof(type)

/* Arrays: both empty or both there, not too many, where such items may lie, and all of it in the file. */
static bool bad_array(Check *check, const void *items, uint32_t count, uint32_t limit, size_t bytes,
                      size_t alignment)
{
    return count > limit ||
           (count > 0 && (!items || (uintptr_t)items % alignment ||
                          !rt_is_loaded(check->segments, items, (uint64_t)count * bytes) ||
                          too_much(check, (uint64_t)count * bytes)));
}

/* Of structures that begin with their size, which is that of a step, and at least as long as we know them. */
static bool bad_rows(Check *check, const void *items, uint32_t count, uint32_t limit, size_t least)
{
    enum { ROWS_ALIGNMENT = 8 };
    uint32_t size;
    if (count == 0) return false;
    if (bad_array(check, items, 1, limit, sizeof size, ROWS_ALIGNMENT)) return true;
    memcpy(&size, items, sizeof size);
    return size < least || size % ROWS_ALIGNMENT ||
           bad_array(check, items, count, limit, size, ROWS_ALIGNMENT);
}

static bool bad_text(Check *check, const char *text)
{
    return !text || !rt_is_loaded_text(check->segments, text) || too_much(check, strlen(text) + 1);
}

/* Of what programs say by name, on terminals and as files: aule run writes outputs to DIR/NAME.npy. */
static bool bad_name(Check *check, const char *name)
{
    if (bad_text(check, name)) return true;
    for (; *name; name++)
        if (rt_is_control(*name) || *name == '/') return true;
    return false;
}

static bool bad_expr(Check *check, const aule_expr *expr)
{
    return !expr->code || expr->length == 0 || (uintptr_t)expr->code % sizeof *expr->code ||
           !rt_is_loaded(check->segments, expr->code,
                         (uint64_t)expr->length * sizeof *expr->code) ||
           too_much(check, (uint64_t)expr->length * sizeof *expr->code);
}

/* One that need not be there. */
static bool bad_option(Check *check, const aule_expr *expr)
{
    return expr->code && bad_expr(check, expr);
}

/* A list of a layout is numbers that callers give, a row a sequence of a table that is no list of all pages; where a table begins for each sequence there
 * is one. It says one thing, or the same of queries and keys. */
static const uint32_t of_both[] = {AULE_TENSOR_STARTS_Q | AULE_TENSOR_STARTS_K,
                                   AULE_TENSOR_LENGTHS_Q | AULE_TENSOR_LENGTHS};
/* What is said beside another list alone. */
static const struct {
    uint32_t list, beside;
} partners[] = {
    {AULE_TENSOR_TABLE_STARTS, AULE_TENSOR_TABLE}, {AULE_TENSOR_FIRST, AULE_TENSOR_WHOLE},
    {AULE_TENSOR_WHOLE, AULE_TENSOR_FIRST},        {AULE_TENSOR_FIRST_Q, AULE_TENSOR_WHOLE_Q},
    {AULE_TENSOR_WHOLE_Q, AULE_TENSOR_FIRST_Q},    {AULE_TENSOR_GROUPS, AULE_TENSOR_SHARED},
    {AULE_TENSOR_SHARED, AULE_TENSOR_GROUPS}};

static bool has_flag(const aule_attention_v1 *a, uint32_t flag)
{
    for (uint32_t i = 0; i < a->tensor_count; i++)
        if (rt_tensor(a, i)->flags & flag) return true;
    return false;
}

static bool bad_list(const aule_attention_v1 *a, const aule_tensor_v1 *t)
{
    const uint32_t said = t->flags & AULE_TENSOR_SEQUENCES;
    if (!said) return false;
    const uint32_t rank =
        said & AULE_TENSOR_TABLE && !has_flag(a, AULE_TENSOR_TABLE_STARTS) ? 2 : 1;
    if (t->role != AULE_ROLE_INPUT || t->dtype != AULE_I32 || t->rank != rank) return true;
    bool one = !(said & (said - 1));
    for (uint32_t n = 0; n < sizeof of_both / sizeof *of_both; n++) one |= said == of_both[n];
    if (!one) return true;
    for (uint32_t n = 0; n < sizeof partners / sizeof *partners; n++)
        if (said & partners[n].list && !has_flag(a, partners[n].beside)) return true;
    return false;
}

/* Lists of a layout are looked at beside the rows of the one q and the one k. */
static bool bad_rows_of_lists(const aule_attention_v1 *a)
{
    static const uint32_t roles[] = {AULE_ROLE_Q, AULE_ROLE_K};
    if (!has_flag(a, AULE_TENSOR_SEQUENCES)) return false;
    for (uint32_t n = 0; n < sizeof roles / sizeof *roles; n++) {
        uint32_t found = 0;
        for (uint32_t i = 0; i < a->tensor_count; i++) {
            const aule_tensor_v1 *t = rt_tensor(a, i);
            if (t->role == roles[n]) found += t->rank == ROWS_RANK ? 1 : 2;
        }
        if (found != 1) return true;
    }
    return false;
}

static aule_status check_signature(Check *check, const aule_attention_v1 *a)
{
    if (bad_array(check, a->sizes, a->size_count, AULE_MAX_SIZES, ITEM(aule_size_v1)))
        return damaged(check, "the table of sizes");
    for (uint32_t i = 0; i < a->size_count; i++)
        if (bad_name(check, a->sizes[i].name)) return damaged(check, "a size without a name");
    if (bad_rows(check, a->tensors, a->tensor_count, AULE_MAX_TENSORS, sizeof *a->tensors))
        return damaged(check, "the table of tensors");
    for (uint32_t i = 0; i < a->tensor_count; i++) {
        const aule_tensor_v1 *t = rt_tensor(a, i);
        if (bad_name(check, t->name) || t->role >= AULE_ROLES || !rt_dtype_is_known(t->dtype) ||
            bad_array(check, t->axes, t->rank, AULE_MAX_RANK, ITEM(aule_expr)) || bad_list(a, t))
            return damaged(check, "a tensor of the signature");
        for (uint32_t axis = 0; axis < t->rank; axis++) {
            if (bad_expr(check, &t->axes[axis])) return damaged(check, "an axis without an extent");
            int32_t size = rt_expr_size(&t->axes[axis]);
            if (size >= (int32_t)a->size_count) return damaged(check, "an axis of an unknown size");
        }
    }
    if (bad_rows_of_lists(a)) return damaged(check, "lists of a layout without q and k");
    if (bad_rows(check, a->params, a->param_count, AULE_MAX_PARAMS, sizeof *a->params))
        return damaged(check, "the table of parameters");
    for (uint32_t i = 0; i < a->param_count; i++) {
        const aule_param_v1 *p = rt_param(a, i);
        bool known = p->dtype == AULE_F32 || p->dtype == AULE_I32 || p->dtype == AULE_I64 ||
                     p->dtype == AULE_BOOL;
        if (bad_name(check, p->name) || !known || bad_option(check, &p->default_value))
            return damaged(check, "a parameter of the signature");
    }
    if (bad_array(check, a->requires_, a->require_count, UINT16_MAX, ITEM(aule_require_v1)))
        return damaged(check, "the table of requirements");
    for (uint32_t i = 0; i < a->require_count; i++)
        if (bad_text(check, a->requires_[i].text) || bad_expr(check, &a->requires_[i].condition))
            return damaged(check, "a requirement");
    return AULE_OK;
}

/* A tensor that is a part of k, or of no use to the operation, is never passed: it has neither address nor strides. */
static bool bad_tensor_slot(const aule_attention_v1 *a, const aule_variant_v1 *v,
                            const aule_slot_v1 *slot)
{
    if (slot->index >= a->tensor_count) return true;
    const aule_tensor_v1 *t = rt_tensor(a, slot->index);
    return (t->flags & AULE_TENSOR_IN_K) ||
           rt_part(rt_operation(v->operation), t) == AU_PART_NONE ||
           (slot->kind == AULE_SLOT_STRIDE && slot->dim >= t->rank);
}

static bool bad_slot(const aule_attention_v1 *a, const aule_variant_v1 *v, const aule_slot_v1 *slot)
{
    switch (slot->kind) {
    case AULE_SLOT_TENSOR:
    case AULE_SLOT_STRIDE:
    case AULE_SLOT_PRESENT: return bad_tensor_slot(a, v, slot);
    case AULE_SLOT_SIZE: return slot->index >= a->size_count;
    case AULE_SLOT_PARAM: return slot->index >= a->param_count;
    case AULE_SLOT_WORKSPACE:
        /* Regions after the first begin somewhere, which handles say in elements. */
        return slot->index >= v->workspace_count ||
               (v->code_format == AULE_CODE_OPENCL_C && slot->index > 0 && slot->dim == 0);
    }
    return true;
}

static bool bad_map(Check *check, const aule_attention_v1 *a, const aule_variant_v1 *v,
                    const aule_map_v1 *map)
{
    const aule_slot_v1 from = {.kind = (uint16_t)map->kind, .index = map->index};
    const bool tensor = map->kind == AULE_SLOT_TENSOR;
    const uint32_t swizzle = map->swizzle;
    if ((!tensor && map->kind != AULE_SLOT_WORKSPACE) || bad_slot(a, v, &from)) return true;
    if (!map->rank || map->rank > AULE_MAP_RANK ||
        (tensor && map->rank != rt_tensor(a, map->index)->rank) || !rt_dtype_bytes(map->dtype) ||
        (swizzle && swizzle != 32 && swizzle != 64 && swizzle != 128))
        return true;
    if (AULE_MAP_CUT(map->flags) &&
        (AULE_MAP_CUT(map->flags) >= map->rank || map->rank == AULE_MAP_RANK))
        return true;
    for (uint32_t d = 0; d < map->rank; d++)
        if (!map->box[d] || map->box[d] > 256 || bad_expr(check, &map->size[d]) ||
            bad_option(check, &map->stride[d]))
            return true;
    return false;
}

/* Only addresses are memory, and what the operation only reads no kernel of it writes. */
static bool bad_touch(const aule_attention_v1 *a, const aule_variant_v1 *v,
                      const aule_slot_v1 *slot, uint32_t touch)
{
    const bool tensor = slot->kind == AULE_SLOT_TENSOR;
    if (!touch) return false;
    if (slot->type != AULE_SLOT_PTR || (!tensor && slot->kind != AULE_SLOT_WORKSPACE)) return true;
    return tensor && touch & AULE_TOUCH_WRITE &&
           rt_part(rt_operation(v->operation), rt_tensor(a, slot->index)) != AU_PART_WRITTEN;
}

static bool bad_touches(Check *check, const aule_attention_v1 *a, const aule_variant_v1 *v,
                        const aule_launch_v1 *launch)
{
    const uint32_t words = rt_touch_words(launch->slot_count);
    if (!rt_knows_touches(launch)) return false;
    if (launch->touch_count != words || (uintptr_t)launch->touches % sizeof words ||
        bad_array(check, launch->touches, words, AULE_MAX_SLOTS, ITEM(uint32_t)))
        return true;
    for (uint32_t n = 0; n < launch->slot_count; n++)
        if (bad_touch(a, v, &launch->slots[n], rt_touch(launch, n))) return true;
    return false;
}

static aule_status check_launch(Check *check, const aule_attention_v1 *a, const aule_variant_v1 *v,
                                const aule_launch_v1 *launch)
{
    bool host = v->code_format == AULE_CODE_HOST;
    if (bad_text(check, launch->entry) ||
        (host && !rt_is_loaded_code(check->segments, (uintptr_t)launch->host)))
        return damaged(check, "a kernel without an entry");
    if (bad_array(check, launch->slots, launch->slot_count, AULE_MAX_SLOTS, ITEM(aule_slot_v1)))
        return damaged(check, "a parameter block");
    for (uint32_t i = 0; i < launch->slot_count; i++)
        if (bad_slot(a, v, &launch->slots[i])) return damaged(check, "a slot of a parameter block");
    if (bad_touches(check, a, v, launch))
        return damaged(check, "what a kernel does with the memory of its slots");
    for (int axis = 0; axis < 3; axis++)
        if (bad_expr(check, &launch->grid[axis])) return damaged(check, "a grid");
    if (!rt_map_count(launch)) return AULE_OK;
    if (bad_rows(check, launch->maps, launch->map_count, AULE_MAX_MAPS, sizeof *launch->maps))
        return damaged(check, "a launch's maps");
    for (uint32_t i = 0; i < launch->map_count; i++)
        if (bad_map(check, a, v, rt_map(launch, i))) return damaged(check, "a launch's maps");
    return AULE_OK;
}

/* Of regions launches of lists of work have a part in lists alone, which no other launch writes; of tensors they write none. */
static bool bad_work(const aule_variant_v1 *v)
{
    const uint64_t lists = rt_work_regions(v);
    for (uint32_t i = 0; i < v->launch_count; i++) {
        const aule_launch_v1 *launch = rt_launch(v, i);
        const bool marked =
            launch->struct_size >= sizeof *launch && launch->flags & AULE_LAUNCH_WORK;
        if (marked && (!lists || !launch->touch_count)) return true;
        for (uint32_t n = 0; rt_knows_touches(launch) && n < launch->slot_count; n++) {
            const aule_slot_v1 *slot = &launch->slots[n];
            const uint32_t touch = rt_touch(launch, n);
            const bool writes = touch & AULE_TOUCH_WRITE;
            const bool tensor = slot->kind == AULE_SLOT_TENSOR;
            const bool list =
                !tensor && slot->kind == AULE_SLOT_WORKSPACE && lists >> slot->index & 1;
            if (touch && (rt_is_work(launch) ? !list && (writes || !tensor) : list && writes))
                return true;
        }
    }
    for (uint32_t i = 0; i < v->workspace_count; i++)
        if (lists >> i & 1 && (v->workspaces[i].zeroed || v->workspaces[i].align > AU_WORK_ALIGN))
            return true;
    return false;
}

static bool bad_check(Check *check, const aule_attention_v1 *a, const aule_variant_v1 *v,
                      const aule_check_v1 *of)
{
    if (bad_text(check, of->text) || of->tensor >= a->tensor_count) return true;
    if (of->slices == 0) {
        const aule_tensor_v1 *t = rt_tensor(a, of->tensor);
        return t->role != AULE_ROLE_SEQUENCES && t->role != AULE_ROLE_SLOTS &&
               t->role != AULE_ROLE_NEW_SLOTS && !(t->flags & AULE_TENSOR_SEQUENCES);
    }
    return of->rows >= a->tensor_count || of->axis >= rt_tensor(a, of->tensor)->rank ||
           rt_tensor(a, of->rows)->rank < 3 || of->region >= v->workspace_count ||
           v->workspaces[of->region].align < sizeof(int32_t) || of->slice >= of->slices;
}

static aule_status check_variant(Check *check, const aule_attention_v1 *a, const aule_variant_v1 *v)
{
    const char *const texts[] = {v->operation, v->target, v->arch, v->features, v->schedule};
    for (uint32_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (bad_text(check, texts[i])) return damaged(check, "a variant");
    if (v->code_format != AULE_CODE_HOST &&
        (!v->code || v->code_bytes == 0 || !rt_is_loaded(check->segments, v->code, v->code_bytes)))
        return damaged(check, "a variant");
    if (bad_array(check, v->fixed, v->fixed_count, AULE_MAX_SIZES, ITEM(aule_fixed_v1)))
        return damaged(check, "a variant's fixed sizes");
    for (uint32_t i = 0; i < v->fixed_count; i++)
        if (v->fixed[i].size >= a->size_count) return damaged(check, "a variant's fixed sizes");
    if (bad_array(check, v->workspaces, v->workspace_count, AULE_MAX_REGIONS,
                  ITEM(aule_workspace_v1)))
        return damaged(check, "a variant's workspace");
    for (uint32_t i = 0; i < v->workspace_count; i++) {
        uint32_t align = v->workspaces[i].align;
        if (bad_expr(check, &v->workspaces[i].bytes) || (align & (align - 1)) != 0 || align > 65536)
            return damaged(check, "a variant's workspace");
    }
    const size_t before_maps = offsetof(aule_launch_v1, map_count); /* before 1.4 */
    if (bad_rows(check, v->launches, v->launch_count, AULE_MAX_LAUNCHES, before_maps))
        return damaged(check, "a variant's launches");
    for (uint32_t i = 0; i < v->launch_count; i++) {
        aule_status status = check_launch(check, a, v, rt_launch(v, i));
        if (status) return status;
    }
    if (bad_work(v)) return damaged(check, "its lists of work");
    uint32_t maps = 0;
    for (uint32_t i = 0; i < v->launch_count; i++) maps += rt_map_count(rt_launch(v, i));
    if (maps > AULE_MAX_MAPS) return damaged(check, "a variant's maps");
    if (rt_condition(v) && bad_expr(check, rt_condition(v)))
        return damaged(check, "a variant's condition");
    if (rt_check_count(v) &&
        bad_array(check, v->checks, v->check_count, UINT16_MAX, ITEM(aule_check_v1)))
        return damaged(check, "a variant's table of checks");
    for (uint32_t i = 0; i < rt_check_count(v); i++)
        if (bad_check(check, a, v, &v->checks[i]))
            return damaged(check, "a variant's table of checks");
    return AULE_OK;
}

static aule_status check_attention(Check *check, const aule_attention_v1 *a)
{
    check->attention = "";
    if (bad_name(check, a->name) || bad_text(check, a->formula))
        return damaged(check, "an attention without a name");
    check->attention = a->name;
    aule_status status = check_signature(check, a);
    if (status) return status;
    const size_t before_checks = offsetof(aule_variant_v1, check_count); /* version 1.0 */
    if (bad_rows(check, a->variants, a->variant_count, UINT16_MAX, before_checks))
        return damaged(check, "the table of variants");
    for (uint32_t i = 0; i < a->variant_count; i++) {
        status = check_variant(check, a, rt_variant(a, i));
        if (status) return status;
    }
    return AULE_OK;
}

aule_status rt_check_module(const aule_module_v1 *module, const AuSegments *segments,
                            const char *where, AuSink sink)
{
    Check check = {where, "", segments, allowance(segments), sink};
    if (!rt_is_loaded(segments, module, sizeof *module) || (uintptr_t)module % 8)
        return damaged(&check, "its head is not in it");
    if (memcmp(module->magic, AULE_MAGIC, sizeof module->magic) != 0)
        return rt_fail(sink, AULE_ERROR_ARTIFACT, "%s: not an aule artifact: its magic is wrong",
                       where);
    if (module->version_major != AULE_VERSION_MAJOR)
        return rt_fail(sink, AULE_ERROR_VERSION,
                       "%s: artifact of version %u.%u, this libaule reads version %d: %s", where,
                       module->version_major, module->version_minor, AULE_VERSION_MAJOR,
                       module->version_major > AULE_VERSION_MAJOR ? "a newer libaule is needed"
                                                                  : "compile it again");
    if (module->struct_size < sizeof *module) return damaged(&check, "its head is too short");
    if (bad_rows(&check, module->attentions, module->attention_count, UINT16_MAX,
                 sizeof *module->attentions))
        return damaged(&check, "the table of attentions");
    if (module->attention_count == 0) return damaged(&check, "no attention in it");
    if (bad_text(&check, module->producer) || bad_text(&check, module->source_name))
        return damaged(&check, "its head");
    for (uint32_t i = 0; i < module->attention_count; i++) {
        aule_status status = check_attention(&check, rt_attention(module, i));
        if (status) return status;
    }
    return AULE_OK;
}
