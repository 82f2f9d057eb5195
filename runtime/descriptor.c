#include "descriptor.h"

#include "expr.h"

/* ---- stepping */

#define STEP(type, first, index)                                                                   \
    ((const type *)(const void *)((const char *)(first) + (size_t)(first)->struct_size * (index)))

const aule_attention_v1 *rt_attention(const aule_module_v1 *module, uint32_t index)
{
    return STEP(aule_attention_v1, module->attentions, index);
}
const aule_tensor_v1 *rt_tensor(const aule_attention_v1 *attention, uint32_t index)
{
    return STEP(aule_tensor_v1, attention->tensors, index);
}
const aule_param_v1 *rt_param(const aule_attention_v1 *attention, uint32_t index)
{
    return STEP(aule_param_v1, attention->params, index);
}
const aule_variant_v1 *rt_variant(const aule_attention_v1 *attention, uint32_t index)
{
    return STEP(aule_variant_v1, attention->variants, index);
}
const aule_launch_v1 *rt_launch(const aule_variant_v1 *variant, uint32_t index)
{
    return STEP(aule_launch_v1, variant->launches, index);
}

uint32_t rt_map_count(const aule_launch_v1 *launch)
{
    return launch->struct_size < offsetof(aule_launch_v1, flags) ? 0 : launch->map_count;
}

bool rt_is_early(const aule_launch_v1 *launch)
{
    return launch->struct_size >= sizeof *launch && launch->flags & AULE_LAUNCH_EARLY;
}
const aule_map_v1 *rt_map(const aule_launch_v1 *launch, uint32_t index)
{
    return STEP(aule_map_v1, launch->maps, index);
}

uint32_t rt_check_count(const aule_variant_v1 *variant)
{
    return variant->struct_size < offsetof(aule_variant_v1, condition) ? 0 : variant->check_count;
}
const aule_expr *rt_condition(const aule_variant_v1 *variant)
{
    const bool known = variant->struct_size >= offsetof(aule_variant_v1, flags);
    return known && variant->condition.code ? &variant->condition : NULL;
}

bool rt_is_for(const aule_variant_v1 *variant, bool invariant)
{
    const bool known = variant->struct_size >= sizeof *variant;
    if (!known) return !invariant;
    return !(variant->flags & (invariant ? AULE_VARIANT_BY_BATCH : AULE_VARIANT_INVARIANT));
}

/* ---- element types */

typedef struct DType {
    const char *name;
    uint32_t bytes;
    DLDataType dl;
} DType;

// clang-format off
static const DType dtypes[] = {
    [AULE_OPERAND] = {"operand", 0, {0, 0, 0}},
    [AULE_F32]     = {"f32",  4, {kDLFloat, 32, 1}},
    [AULE_F16]     = {"f16",  2, {kDLFloat, 16, 1}},
    [AULE_BF16]    = {"bf16", 2, {kDLBfloat, 16, 1}},
    [AULE_I32]     = {"i32",  4, {kDLInt, 32, 1}},
    [AULE_I64]     = {"i64",  8, {kDLInt, 64, 1}},
    [AULE_U8]      = {"u8",   1, {kDLUInt, 8, 1}},
    [AULE_BOOL]    = {"bool", 1, {kDLBool, 8, 1}},
    [AULE_E4M3]    = {"e4m3", 1, {kDLFloat8_e4m3fn, 8, 1}},
    [AULE_E5M2]    = {"e5m2", 1, {kDLFloat8_e5m2, 8, 1}},
    [AULE_I8]      = {"i8",   1, {kDLInt, 8, 1}},
};
// clang-format on
enum { DTYPES = sizeof dtypes / sizeof *dtypes };

const char *rt_dtype_name(uint32_t dtype)
{
    return dtype < DTYPES ? dtypes[dtype].name : "unknown";
}
uint32_t rt_dtype_bytes(uint32_t dtype) { return dtype < DTYPES ? dtypes[dtype].bytes : 0; }
DLDataType rt_dtype_dl(uint32_t dtype) { return dtypes[dtype < DTYPES ? dtype : 0].dl; }

uint32_t rt_dtype_from_dl(DLDataType type)
{
    for (uint32_t i = 1; i < DTYPES; i++)
        if (dtypes[i].dl.code == type.code && dtypes[i].dl.bits == type.bits && type.lanes == 1)
            return i;
    return AULE_OPERAND;
}

/* ---- operations */

struct AuOperation {
    const char *name;
    struct {
        uint8_t part, passed;
    } of[AULE_ROLES];
};

enum {
#define OPERATION(NAME, text) NAME,
#include "aule/operations.def"
    OPERATIONS
};

static const AuOperation operations[OPERATIONS] = {
#define OPERATION(NAME, text) [NAME].name = text,
#define PART(NAME, ROLE, what, when)                                                               \
    [NAME].of[AULE_ROLE_##ROLE] = {AU_PART_##what, AU_PASSED_##when},
#include "aule/operations.def"
};

const AuOperation *rt_operation(const char *name)
{
    for (uint32_t n = 0; name && n < OPERATIONS; n++)
        if (strcmp(operations[n].name, name) == 0) return &operations[n];
    return &operations[FORWARD];
}

AuPart rt_part(const AuOperation *operation, const aule_tensor_v1 *tensor)
{
    const AuPassed passed = rt_passed(operation, tensor);
    if ((passed == AU_PASSED_IF_JOINED && !(tensor->flags & AULE_TENSOR_JOINED)) ||
        (passed == AU_PASSED_IF_CACHED && !(tensor->flags & AULE_TENSOR_CACHED)))
        return AU_PART_NONE;
    if (passed == AU_PASSED_IF_CACHED && tensor->flags & AULE_TENSOR_APPENDED)
        return AU_PART_WRITTEN;
    return (AuPart)operation->of[tensor->role].part;
}

AuPassed rt_passed(const AuOperation *operation, const aule_tensor_v1 *tensor)
{
    return (AuPassed)operation->of[tensor->role].passed;
}

const char *rt_operation_with(const aule_tensor_v1 *tensor)
{
    uint32_t n = 0;
    while (n + 1 < OPERATIONS && rt_part(&operations[n], tensor) == AU_PART_NONE) n++;
    return operations[n].name;
}

bool rt_keeps_output(const aule_attention_v1 *attention)
{
    for (uint32_t i = 0; i < attention->tensor_count; i++)
        if (rt_tensor(attention, i)->role == AULE_ROLE_KEPT) return true;
    return false;
}

const char *rt_size_name(const aule_attention_v1 *attention, uint32_t size)
{
    const char *name = attention->sizes[size].name;
    return name[0] ? name : "a fixed width";
}

bool rt_has_word(const char *words, const char *word, size_t length)
{
    while (*words) {
        size_t span = strcspn(words, " ");
        if (span == length && memcmp(words, word, length) == 0) return true;
        words += span + (words[span] == ' ');
    }
    return false;
}

/* ---- checks */

/* What is being checked, for the messages. */
typedef struct Check {
    const char *where;     /* the file */
    const char *attention; /* "" before one is known */
    AuSink sink;
} Check;

static aule_status damaged(const Check *check, const char *what)
{
    return rt_fail(check->sink, AULE_ERROR_ARTIFACT, "%s: damaged artifact: %s%s%s", check->where,
                   check->attention, check->attention[0] ? ": " : "", what);
}

/* Arrays: both empty or both there, not too many, elements at least as long as we know them. */
static bool bad_array(const void *items, uint32_t count, uint32_t limit)
{
    return count > limit || (count > 0 && !items);
}
#define BAD_ARRAY(items, count, limit)                                                             \
    (bad_array((items), (count), (limit)) ||                                                       \
     ((count) > 0 &&                                                                               \
      ((items)->struct_size < sizeof *(items) || (items)->struct_size % 8)) /* they step by it */)

static bool bad_expr(const aule_expr *expr) { return !expr->code || expr->length == 0; }

static aule_status check_signature(const Check *check, const aule_attention_v1 *a)
{
    if (bad_array(a->sizes, a->size_count, AULE_MAX_SIZES))
        return damaged(check, "the table of sizes");
    for (uint32_t i = 0; i < a->size_count; i++)
        if (!a->sizes[i].name) return damaged(check, "a size without a name");
    if (BAD_ARRAY(a->tensors, a->tensor_count, AULE_MAX_TENSORS))
        return damaged(check, "the table of tensors");
    for (uint32_t i = 0; i < a->tensor_count; i++) {
        const aule_tensor_v1 *t = rt_tensor(a, i);
        if (!t->name || t->role >= AULE_ROLES || t->dtype >= DTYPES || t->rank > AULE_MAX_RANK ||
            bad_array(t->axes, t->rank, AULE_MAX_RANK))
            return damaged(check, "a tensor of the signature");
        for (uint32_t axis = 0; axis < t->rank; axis++) {
            if (bad_expr(&t->axes[axis])) return damaged(check, "an axis without an extent");
            int32_t size = rt_expr_size(&t->axes[axis]);
            if (size >= (int32_t)a->size_count) return damaged(check, "an axis of an unknown size");
        }
    }
    if (BAD_ARRAY(a->params, a->param_count, AULE_MAX_PARAMS))
        return damaged(check, "the table of parameters");
    for (uint32_t i = 0; i < a->param_count; i++) {
        const aule_param_v1 *p = rt_param(a, i);
        bool known = p->dtype == AULE_F32 || p->dtype == AULE_I32 || p->dtype == AULE_I64 ||
                     p->dtype == AULE_BOOL;
        if (!p->name || !known) return damaged(check, "a parameter of the signature");
    }
    if (bad_array(a->requires_, a->require_count, UINT16_MAX))
        return damaged(check, "the table of requirements");
    for (uint32_t i = 0; i < a->require_count; i++)
        if (!a->requires_[i].text || bad_expr(&a->requires_[i].condition))
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

static bool bad_map(const aule_attention_v1 *a, const aule_variant_v1 *v, const aule_map_v1 *map)
{
    const aule_slot_v1 from = {.kind = (uint16_t)map->kind, .index = map->index};
    const bool tensor = map->kind == AULE_SLOT_TENSOR;
    const uint32_t swizzle = map->swizzle;
    if ((!tensor && map->kind != AULE_SLOT_WORKSPACE) || bad_slot(a, v, &from)) return true;
    if (!map->rank || map->rank > AULE_MAP_RANK ||
        (tensor && map->rank != rt_tensor(a, map->index)->rank) || !rt_dtype_bytes(map->dtype) ||
        (swizzle && swizzle != 32 && swizzle != 64 && swizzle != 128))
        return true;
    for (uint32_t d = 0; d < map->rank; d++)
        if (!map->box[d] || map->box[d] > 256 || bad_expr(&map->size[d])) return true;
    return false;
}

static aule_status check_launch(const Check *check, const aule_attention_v1 *a,
                                const aule_variant_v1 *v, const aule_launch_v1 *launch)
{
    bool host = v->code_format == AULE_CODE_HOST;
    if (!launch->entry || (host && !launch->host))
        return damaged(check, "a kernel without an entry");
    if (bad_array(launch->slots, launch->slot_count, AULE_MAX_SLOTS))
        return damaged(check, "a parameter block");
    for (uint32_t i = 0; i < launch->slot_count; i++)
        if (bad_slot(a, v, &launch->slots[i])) return damaged(check, "a slot of a parameter block");
    for (int axis = 0; axis < 3; axis++)
        if (bad_expr(&launch->grid[axis])) return damaged(check, "a grid");
    if (!rt_map_count(launch)) return AULE_OK;
    if (BAD_ARRAY(launch->maps, launch->map_count, AULE_MAX_MAPS))
        return damaged(check, "a launch's maps");
    for (uint32_t i = 0; i < launch->map_count; i++)
        if (bad_map(a, v, rt_map(launch, i))) return damaged(check, "a launch's maps");
    return AULE_OK;
}

static bool bad_check(const aule_attention_v1 *a, const aule_variant_v1 *v,
                      const aule_check_v1 *check)
{
    if (check->slices == 0 && check->text && check->tensor < a->tensor_count) {
        const uint32_t role = rt_tensor(a, check->tensor)->role;
        return role != AULE_ROLE_SEQUENCES && role != AULE_ROLE_SLOTS;
    }
    return !check->text || check->tensor >= a->tensor_count || check->rows >= a->tensor_count ||
           check->axis >= rt_tensor(a, check->tensor)->rank ||
           rt_tensor(a, check->rows)->rank < 3 || check->region >= v->workspace_count ||
           check->slice >= check->slices;
}

static aule_status check_variant(const Check *check, const aule_attention_v1 *a,
                                 const aule_variant_v1 *v)
{
    if (!v->operation || !v->target || !v->arch || !v->features || !v->schedule ||
        (v->code_format != AULE_CODE_HOST && (!v->code || v->code_bytes == 0)))
        return damaged(check, "a variant");
    if (bad_array(v->fixed, v->fixed_count, AULE_MAX_SIZES))
        return damaged(check, "a variant's fixed sizes");
    for (uint32_t i = 0; i < v->fixed_count; i++)
        if (v->fixed[i].size >= a->size_count) return damaged(check, "a variant's fixed sizes");
    if (bad_array(v->workspaces, v->workspace_count, AULE_MAX_REGIONS))
        return damaged(check, "a variant's workspace");
    for (uint32_t i = 0; i < v->workspace_count; i++) {
        uint32_t align = v->workspaces[i].align;
        if (bad_expr(&v->workspaces[i].bytes) || (align & (align - 1)) != 0 || align > 65536)
            return damaged(check, "a variant's workspace");
    }
    if (bad_array(v->launches, v->launch_count, AULE_MAX_LAUNCHES) ||
        (v->launch_count > 0 &&
         (v->launches->struct_size < offsetof(aule_launch_v1, map_count) || /* before 1.4 */
          v->launches->struct_size % _Alignof(aule_launch_v1))))
        return damaged(check, "a variant's launches");
    for (uint32_t i = 0; i < v->launch_count; i++) {
        aule_status status = check_launch(check, a, v, rt_launch(v, i));
        if (status) return status;
    }
    uint32_t maps = 0;
    for (uint32_t i = 0; i < v->launch_count; i++) maps += rt_map_count(rt_launch(v, i));
    if (maps > AULE_MAX_MAPS) return damaged(check, "a variant's maps");
    if (rt_condition(v) && bad_expr(rt_condition(v)))
        return damaged(check, "a variant's condition");
    if (rt_check_count(v) && bad_array(v->checks, v->check_count, UINT16_MAX))
        return damaged(check, "a variant's table of checks");
    for (uint32_t i = 0; i < rt_check_count(v); i++)
        if (bad_check(a, v, &v->checks[i])) return damaged(check, "a variant's table of checks");
    return AULE_OK;
}

static aule_status check_attention(Check *check, const aule_attention_v1 *a)
{
    check->attention = "";
    if (!a->name || !a->formula) return damaged(check, "an attention without a name");
    check->attention = a->name;
    aule_status status = check_signature(check, a);
    if (status) return status;
    if (bad_array(a->variants, a->variant_count, UINT16_MAX) ||
        (a->variant_count > 0 &&
         (a->variants->struct_size < offsetof(aule_variant_v1, check_count) || /* version 1.0 */
          a->variants->struct_size % _Alignof(aule_variant_v1))))
        return damaged(check, "the table of variants");
    for (uint32_t i = 0; i < a->variant_count; i++) {
        status = check_variant(check, a, rt_variant(a, i));
        if (status) return status;
    }
    return AULE_OK;
}

aule_status rt_check_module(const aule_module_v1 *module, const char *where, AuSink sink)
{
    Check check = {where, "", sink};
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
    if (BAD_ARRAY(module->attentions, module->attention_count, UINT16_MAX))
        return damaged(&check, "the table of attentions");
    if (module->attention_count == 0) return damaged(&check, "no attention in it");
    if (!module->producer || !module->source_name) return damaged(&check, "its head");
    for (uint32_t i = 0; i < module->attention_count; i++) {
        aule_status status = check_attention(&check, rt_attention(module, i));
        if (status) return status;
    }
    return AULE_OK;
}
