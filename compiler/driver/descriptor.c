/* descriptor.c - see descriptor.h: the tables. Rows stand in the order of the members. */
#include "descriptor.h"

#include <string.h>

// clang-format off
/* Of T, the structure whose members stand below: kind, member, how many numbers, the member that counts them, what they are. */
#define MEMBER(member)                  offsetof(T, member)
#define ROW(kind, member, many, of)     {AU_M_##kind, MEMBER(member), many, 0, of}
#define COUNTED(kind, member, n, of)    {AU_M_##kind, MEMBER(member), 1, MEMBER(n), of}
#define SIZE                            ROW(SIZE, struct_size, 1, NULL)
#define U16(member)                     ROW(U16, member, 1, NULL)
#define U32(member)                     ROW(U32, member, sizeof(((T *)0)->member) / 4, NULL)
#define U64(member)                     ROW(U64, member, 1, NULL)
#define I64(member)                     ROW(I64, member, 1, NULL)
#define TEXT(member)                    ROW(TEXT, member, 1, NULL)
#define EXPRS(member, many)             ROW(INLINE, member, many, &expr)
#define POINTER(kind, member, n)        COUNTED(kind, member, n, NULL)
#define LIST(member, n, structure)      COUNTED(LIST, member, n, &structure)
#define END                             {AU_M_END, 0, 0, 0, NULL}
#define STRUCT(name)                    static const AuStruct name = {TEXT_OF(T), sizeof(T), name##_members}
#define TEXT_OF(type)                   QUOTED(type)
#define QUOTED(type)                    #type

#define T aule_expr
static const AuStructMember expr_members[] = {POINTER(WORDS, code, length), U32(length), END};
STRUCT(expr);
#undef T
#define T aule_size_v1
static const AuStructMember size_members[] = {TEXT(name), END};
STRUCT(size);
#undef T
#define T aule_tensor_v1
static const AuStructMember tensor_members[] = {SIZE, TEXT(name), U32(role), U32(dtype), U32(rank), U32(flags), LIST(axes, rank, expr), END};
STRUCT(tensor);
#undef T
#define T aule_param_v1
static const AuStructMember param_members[] = {SIZE, TEXT(name), U32(dtype), EXPRS(default_value, 1), END};
STRUCT(param);
#undef T
#define T aule_require_v1
static const AuStructMember require_members[] = {EXPRS(condition, 1), TEXT(text), END};
STRUCT(require);
#undef T
#define T aule_slot_v1
static const AuStructMember slot_members[] = {U16(kind), U16(type), U32(index), U32(dim), END};
STRUCT(slot);
#undef T
#define T aule_map_v1
static const AuStructMember map_members[] = {
    SIZE, U32(kind), U32(index), U32(dtype), U32(rank), U32(swizzle), U32(flags), U32(box), EXPRS(size, AULE_MAP_RANK),
    EXPRS(stride, AULE_MAP_RANK), END};
STRUCT(map);
#undef T
#define T aule_launch_v1
static const AuStructMember launch_members[] = {
    SIZE, TEXT(entry), POINTER(HOST, host, entry), EXPRS(grid, 3), U32(block), U32(shared_bytes), U32(private_bytes), U32(slot_count),
    LIST(slots, slot_count, slot), U32(map_count), LIST(maps, map_count, map), U32(flags), U32(touch_count),
    POINTER(WORDS, touches, touch_count), END};
STRUCT(launch);
#undef T
#define T aule_workspace_v1
static const AuStructMember workspace_members[] = {EXPRS(bytes, 1), U32(align), U32(zeroed), END};
STRUCT(workspace);
#undef T
#define T aule_fixed_v1
static const AuStructMember fixed_members[] = {U32(size), I64(value), END};
STRUCT(fixed);
#undef T
#define T aule_check_v1
static const AuStructMember check_members[] = {TEXT(text), U32(tensor), U32(axis), U32(region), U32(rows), U32(slice), U32(slices), END};
STRUCT(check);
#undef T
#define T aule_variant_v1
static const AuStructMember variant_members[] = {
    SIZE, TEXT(operation), TEXT(target), TEXT(arch), TEXT(features), U32(dtype), U32(fixed_count), LIST(fixed, fixed_count, fixed),
    TEXT(schedule), U32(code_format), U64(code_bytes), POINTER(CODE, code, code_bytes), U32(workspace_count),
    LIST(workspaces, workspace_count, workspace), U32(launch_count), LIST(launches, launch_count, launch), U32(check_count),
    LIST(checks, check_count, check), EXPRS(condition, 1), U32(flags), END};
STRUCT(variant);
#undef T
#define T aule_attention_v1
static const AuStructMember attention_members[] = {
    SIZE, TEXT(name), TEXT(formula), U32(size_count), LIST(sizes, size_count, size), U32(tensor_count), LIST(tensors, tensor_count, tensor),
    U32(param_count), LIST(params, param_count, param), U32(require_count), LIST(requires_, require_count, require), U32(variant_count),
    LIST(variants, variant_count, variant), END};
STRUCT(attention);
#undef T
#define T aule_module_v1
static const AuStructMember module_members[] = {
    ROW(MAGIC, magic, 1, NULL), U32(version_major), U32(version_minor), SIZE, U32(attention_count),
    LIST(attentions, attention_count, attention), TEXT(producer), TEXT(source_name), U64(source_hash), END};
const AuStruct descriptor_module = {TEXT_OF(T), sizeof(T), module_members};
#undef T
// clang-format on

uint64_t descriptor_count(const AuStructMember *member, const void *data)
{
    const char *at = (const char *)data + member->count_at;
    uint32_t count;
    uint64_t bytes;
    if (member->kind == AU_M_CODE) return memcpy(&bytes, at, sizeof bytes), bytes;
    return memcpy(&count, at, sizeof count), count;
}

typedef struct AuWritten {
    const void *bytes;
    uint64_t length, at;
} AuWritten;

uint64_t *descriptor_code(AuArena *arena, AuCodes *all, const void *bytes, uint64_t length,
                          bool *fresh)
{
    *fresh = false;
    for (uint32_t n = 0; n < all->count; n++)
        if (all->codes[n].length == length && memcmp(all->codes[n].bytes, bytes, length) == 0)
            return &all->codes[n].at;
    const AuWritten code = {.bytes = bytes, .length = length};
    AU_PUSH(arena, all->codes, all->count, all->capacity, code);
    *fresh = true;
    return &all->codes[all->count - 1].at;
}
