/* storage.c - see storage.h. */
#include "storage.h"

#include "layouts.h"

#include <string.h>

static const char *const names[] = {"", "e4m3", "e5m2", "i8"}; /* ORDER AuStored */
static const char *const tensors[] = {"k", "v"};

/* "e4m3", "i8:token" */
static bool read_one(AuArena *arena, const char *text, AuStorage *out)
{
    const char *colon = strchr(text, ':');
    const size_t length = colon ? (size_t)(colon - text) : strlen(text);
    const char *name = au_strndup(arena, text, length);
    if (colon && strcmp(colon, ":head") != 0 && strcmp(colon, ":token") != 0) return false;
    for (uint32_t n = AU_STORED_E4M3; n <= AU_STORED_I8; n++) {
        if (strcmp(names[n], name) != 0) continue;
        *out = (AuStorage){.as = (AuStored)n, .by_token = colon && colon[1] == 't'};
        return true;
    }
    return false;
}

static const char *read_item(AuArena *arena, const char *item, AuStorage storage[2])
{
    const char *equal = strchr(item, '=');
    AuStorage read;
    if (!read_one(arena, equal ? equal + 1 : item, &read))
        return au_format(
            arena,
            "'%s' is no storage, expected e4m3, e5m2 or i8, with ':token' where each token has "
            "a scale of its own",
            equal ? equal + 1 : item);
    if (equal && (equal != item + 1 || (*item != 'k' && *item != 'v')))
        return au_format(arena,
                         "'%s': keys and values can be stored in 8 bits, k and v; queries cannot",
                         au_strndup(arena, item, (size_t)(equal - item)));
    for (uint32_t n = 0; n < 2; n++) {
        if (equal && *tensors[n] != *item) continue;
        if (storage[n].as) return au_format(arena, "'%s' has a storage already", tensors[n]);
        storage[n] = read;
    }
    return NULL;
}

const char *driver_read_storage(AuArena *arena, const char *text, AuStorage storage[2])
{
    const char *why = NULL;
    for (const char *at = text; at && !why; at = *at ? at + 1 : NULL) {
        const size_t length = strcspn(at, ",");
        why = read_item(arena, au_strndup(arena, at, length), storage);
        at += length;
    }
    return why;
}

static bool refuse(AuDiags *diags, AuSpan at, const char *tensor, const char *why)
{
    au_error(diags, AU_E0811, at, "--storage: %s: %s", tensor, why);
    return false;
}

/* Does a further product read it? */
static bool is_multiplied(const AuAttn *a, uint32_t tensor)
{
    for (uint32_t n = 1; n < a->node_count; n++) {
        const AuNode *node = &a->nodes[n];
        if (node->op == AU_OP_DOT &&
            ((uint32_t)node->integer == tensor || (uint32_t)node->integer2 == tensor))
            return true;
    }
    return false;
}

static bool is_carried(AuDiags *diags, const AuAttn *a, uint32_t n, const AuStorage *s)
{
    const char *tensor = tensors[n];
    if (a->linear)
        return refuse(diags, a->span, tensor, "recurrences have no cache of keys and values");
    if (a->keys.layout == AU_LAYOUT_PACKED)
        return refuse(diags, a->tensors[1 + n].span, tensor, "packed keys are not carried yet");
    if (n == 1 && a->v_in_k && s->by_token != a->storage[0].by_token)
        return refuse(diags, a->tensors[2].span, tensor,
                      "values are channels of the keys and are stored as they are");
    if (is_multiplied(a, 1 + n))
        return refuse(diags, a->span, tensor, "further products (`dot`) of it are not carried");
    return true;
}

/* [B, Hk, 1, 1], or one a token, as tokens lie. */
static uint32_t add_scale(AuAttn *a, uint32_t n, bool by_token)
{
    const AuTensor *of = &a->tensors[1 + n];
    const AuExpr one = attn_i32(a, 1, a->span);
    AuTensor t = {.name = au_format(a->arena, "%s_scale", tensors[n]),
                  .role = AU_ROLE_INPUT,
                  .dtype = AU_DT_F32,
                  .axes = {of->axes[0], of->axes[1], of->axes[2], one},
                  .rank = 4,
                  .span = a->span};
    if (by_token || a->keys.layout != AU_LAYOUT_PAGED) driver_place_rows(a, true, t.axes);
    if (!by_token) t.axes[2] = one;
    return attn_add_tensor(a, t);
}

static bool is_free(AuDiags *diags, const AuAttn *a, uint32_t n)
{
    const char *name = n ? "v_scale" : "k_scale";
    for (uint32_t i = 3; i < a->tensor_count; i++) {
        if (strcmp(a->tensors[i].name, name) != 0) continue;
        au_error(
            diags, AU_E0607, a->tensors[i].span,
            "attention '%s' has an input '%s', and so is called a tensor that the compiler adds",
            a->name, name);
        return false;
    }
    return true;
}

bool driver_add_storage(AuArena *arena, AuDiags *diags, AuAttn *a, const AuStorage storage[2])
{
    (void)arena;
    if (attn_is_stored(a)) return true;
    const AuStorage *of_keys = &storage[0];
    for (uint32_t n = 0; n < 2; n++) {
        const AuStorage *s = n && a->v_in_k ? of_keys : &storage[n];
        if (n && a->v_in_k && storage[1].as && storage[1].as != of_keys->as)
            return refuse(diags, a->tensors[2].span, tensors[n],
                          "values are channels of the keys and are stored as they are");
        if (!s->as) continue;
        if (!is_carried(diags, a, n, s) || !is_free(diags, a, n)) return false;
        const bool again = n && a->v_in_k; /* the keys' scale */
        const uint32_t scale = again ? a->storage[0].scale : add_scale(a, n, s->by_token);
        a->storage[n] = (AuStorage){.as = s->as, .by_token = s->by_token, .scale = scale};
    }
    return true;
}

uint32_t driver_storage_flags(const AuAttn *a, uint32_t tensor)
{
    for (uint32_t n = 0; n < 2; n++)
        if (a->storage[n].as && a->storage[n].scale == tensor) return AULE_TENSOR_SPREADS;
    return 0;
}

uint32_t driver_stored_dtype(const AuAttn *a, uint32_t tensor)
{
    static const uint32_t dtypes[] = {AULE_OPERAND, AULE_E4M3, AULE_E5M2, AULE_I8};
    return tensor == 1 || tensor == 2 ? dtypes[a->storage[tensor - 1].as] : AULE_OPERAND;
}
