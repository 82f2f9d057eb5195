#include "descriptor.h"

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

uint32_t rt_block(const aule_launch_v1 *launch, int axis)
{
    return launch->block[axis] ? launch->block[axis] : 1;
}

uint32_t rt_map_count(const aule_launch_v1 *launch)
{
    return launch->struct_size < offsetof(aule_launch_v1, flags) ? 0 : launch->map_count;
}

bool rt_is_early(const aule_launch_v1 *launch)
{
    return launch->struct_size >= offsetof(aule_launch_v1, touches) &&
           launch->flags & AULE_LAUNCH_EARLY;
}

bool rt_is_behind_append(const aule_launch_v1 *launch)
{
    return rt_knows_touches(launch) && launch->flags & AULE_LAUNCH_BEHIND_APPEND;
}

bool rt_is_work(const aule_launch_v1 *launch)
{
    return rt_knows_touches(launch) && launch->flags & AULE_LAUNCH_WORK;
}

uint64_t rt_work_regions(const aule_variant_v1 *variant)
{
    uint64_t regions = 0;
    for (uint32_t i = 0; i < variant->launch_count; i++) {
        const aule_launch_v1 *launch = rt_launch(variant, i);
        for (uint32_t n = 0; rt_is_work(launch) && n < launch->slot_count; n++)
            if (launch->slots[n].kind == AULE_SLOT_WORKSPACE &&
                rt_touch(launch, n) & AULE_TOUCH_WRITE)
                regions |= 1ull << launch->slots[n].index;
    }
    return regions;
}

bool rt_knows_touches(const aule_launch_v1 *launch)
{
    return launch->struct_size >= sizeof *launch && launch->touch_count;
}

uint32_t rt_touch_words(uint32_t slots) { return (slots + 15) / 16; }

uint32_t rt_touch(const aule_launch_v1 *launch, uint32_t slot)
{
    return launch->touches[slot / 16] >> 2 * (slot % 16) & (AULE_TOUCH_READ | AULE_TOUCH_WRITE);
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
bool rt_dtype_is_known(uint32_t dtype) { return dtype < DTYPES; }
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
