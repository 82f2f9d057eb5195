/* append.c - see append.h. */
#include "append.h"

#include "hooks.h"
#include "layouts.h"
#include "tensors.h"

/* ORDER AuNewSize */
static const char *const names[] = {"new_batch", "new_rows", "slots_rows"};

static bool is_modified(const AuAttn *a) { return a->keys.modified && (a->k_mod.i || a->v_mod.i); }

/* Rows of keys of further products go where those of k do. */
static bool lie_otherwise(const AuAttn *a)
{
    enum { RANK = 4 };
    bool some = false;
    for (uint32_t n = 3; n < a->tensor_count; n++) {
        const AuTensor *t = &a->tensors[n];
        some |= t->as_keys && (t->rank != RANK || t->axes[0].i != a->tensors[0].axes[0].i ||
                               t->axes[2].i != a->tensors[1].axes[2].i);
    }
    return some;
}

const char *driver_append_refusal(const AuAttn *a)
{
    if (a->linear) return "a recurrence has a state instead of a cache, which `step` updates";
    if (a->keys.layout == AU_LAYOUT_PACKED) return "packed keys are no cache: they have no room";
    if (a->keys.is_csr || a->keys.has_positions)
        return "it takes no caches by `csr` or `positions` yet";
    if (a->queries.layout == AU_LAYOUT_PADDED)
        return "beside it queries are dense or packed: no padded ones, no `rows` or `positions` of "
               "dense ones yet";
    if (lie_otherwise(a))
        return "rows of keys of a further product (`dot`) are no [B, heads, T, channels]";
    if (is_modified(a) && (attn_stores_parts(&a->storage[0]) || attn_stores_parts(&a->storage[1])))
        return "rows that it modifies do not become codes of parts of them (channels, zero, i4) "
               "yet";
    return NULL;
}

bool driver_has_slots(const AuAttn *a) { return !is_modified(a); }

bool driver_add_append(AuDiags *diags, AuAttn *a)
{
    const uint32_t count = driver_has_slots(a) ? AU_NEW_SIZES : AU_SLOTS_ROWS;
    if (a->new_sizes) return true;
    for (uint32_t n = 0; n < count; n++)
        if (!driver_is_free(diags, a, a->size_count, names[n])) return false;
    a->new_sizes = 1 + a->size_count;
    for (uint32_t n = 0; n < count; n++) attn_add_size(a, names[n], -1, a->span);
    return true;
}

AuExpr driver_new_size(AuAttn *a, AuNewSize which)
{
    const int32_t size = (int32_t)a->new_sizes - 1 + (int32_t)which;
    return attn_node(a, AU_OP_SIZE, NULL, 0, size, 0, a->span);
}

/* A scale a token, and its zero point, are made of the token. */
static uint32_t scale_flags(const AuAttn *a, uint32_t tensor)
{
    for (uint32_t n = 0; n < 2; n++)
        if (attn_storage_has(&a->storage[n], tensor))
            return AULE_TENSOR_CACHED | (a->storage[n].by_token ? AULE_TENSOR_APPENDED : 0);
    return 0;
}

uint32_t driver_append_flags(const AuAttn *a, uint32_t tensor)
{
    const uint32_t lists = AULE_TENSOR_LISTS & ~AULE_TENSOR_STARTS_K;
    if (!a->new_sizes) return 0;
    if (driver_layout_flags(a, tensor) & lists ||
        (is_modified(a) && tensor > 2 && hooks_read_by_mods(a->arena, a)[tensor]))
        return AULE_TENSOR_CACHED;
    if (a->tensors[tensor].as_keys) return AULE_TENSOR_CACHED | AULE_TENSOR_APPENDED;
    return scale_flags(a, tensor);
}

static void add_written(AuKernel *k, uint32_t tensor)
{
    const AuArg arg = {.kind = AU_ARG_POINTER, .source = AULE_SLOT_TENSOR, .source_index = tensor};
    const AuMemory memory = {.space = AU_GLOBAL, .writes = true, .arg = k->arg_count};
    AU_PUSH(k->arena, k->args, k->arg_count, k->arg_capacity, arg);
    AU_PUSH(k->arena, k->mems, k->mem_count, k->mem_capacity, memory);
}

AuKernel *driver_append_writes(AuArena *arena, const AuAttn *a)
{
    AuKernel *k = AU_NEW(arena, AuKernel);
    if (!a->new_sizes) return NULL;
    k->arena = arena;
    AU_PUSH(arena, k->mems, k->mem_count, k->mem_capacity, (AuMemory){0}); /* [0] is unused */
    add_written(k, 1);
    add_written(k, 2);
    for (uint32_t n = 3; n < a->tensor_count; n++)
        if (driver_append_flags(a, n) & AULE_TENSOR_APPENDED) add_written(k, n);
    return k;
}
