/* storage.c - see storage.h. */
#include "storage.h"

#include "layouts.h"

#include <stdlib.h>
#include <string.h>

static const char *const names[] = {"", "e4m3", "e5m2", "i8", "i4"}; /* ORDER AuStored */
static const char *const tensors[] = {"k", "v"};

enum { MOST_CHANNELS = 1 << 15, CODES_OF_BYTE = 2 }; /* of a scale; of 4 bits */

/* "channels32" */
static int32_t read_channels(const char *part)
{
    static const char WORD[] = "channels";
    const char *digits = part + sizeof WORD - 1;
    if (strncmp(part, WORD, sizeof WORD - 1) != 0 || !*digits || strlen(digits) > 5 ||
        digits[strspn(digits, "0123456789")])
        return 0;
    const long count = strtol(digits, NULL, 10);
    return count <= MOST_CHANNELS ? (int32_t)count : 0;
}

/* "f16": the type of scales and zero points, f32 where none is named. */
static bool read_type(const char *part, AuStorage *out)
{
    static const AuDtype types[] = {AU_DT_F32, AU_DT_F16, AU_DT_BF16};
    static const char *const words[] = {"f32", "f16", "bf16"};
    for (uint32_t n = 0; n < sizeof words / sizeof *words; n++)
        if (strcmp(part, words[n]) == 0) out->scales = types[n];
    return out->scales != AU_DT_OPERAND;
}

/* What scales are for: "head", "token", "channels32"; or "zero"; or of what type they are. */
static bool read_part(const char *part, AuStorage *out, bool *has_grain)
{
    const bool had_type = out->scales != AU_DT_OPERAND;
    AuStorage typed = {0};
    if (read_type(part, &typed)) return out->scales = typed.scales, !had_type;
    if (strcmp(part, "zero") == 0) {
        const bool first = !out->has_zero;
        return out->has_zero = true, first;
    }
    out->channels = read_channels(part);
    out->by_token = out->channels || strcmp(part, "token") == 0;
    const bool first = !*has_grain;
    *has_grain = true;
    return first && (out->by_token || strcmp(part, "head") == 0);
}

/* "e4m3", "i8:token", "e4m3:channels32:zero" */
static bool read_one(AuArena *arena, const char *text, AuStorage *out)
{
    size_t length = strcspn(text, ":");
    const char *name = au_strndup(arena, text, length);
    bool has_grain = false;
    *out = (AuStorage){0};
    for (const char *at = text + length; *at; at += length) {
        length = strcspn(++at, ":");
        if (!read_part(au_strndup(arena, at, length), out, &has_grain)) return false;
    }
    for (uint32_t n = AU_STORED_E4M3; n < sizeof names / sizeof *names; n++)
        if (strcmp(names[n], name) == 0) out->as = (AuStored)n;
    if (out->scales == AU_DT_OPERAND) out->scales = AU_DT_F32;
    return out->as;
}

static const char *read_item(AuArena *arena, const char *item, AuStorage storage[2])
{
    const char *equal = strchr(item, '=');
    AuStorage read;
    if (!read_one(arena, equal ? equal + 1 : item, &read))
        return au_format(
            arena,
            "'%s' is no storage, expected e4m3, e5m2, i8 or i4, with ':token' where each token has "
            "a scale of its own, ':channels32' where it has one for each 32 channels, ':zero' "
            "where codes have zero points, and ':f16' or ':bf16' where scales are no f32",
            equal ? equal + 1 : item);
    if (equal && (equal != item + 1 || (*item != 'k' && *item != 'v')))
        return au_format(arena,
                         "'%s': keys and values can be stored as codes, k and v; queries cannot",
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

static bool is_carried(AuDiags *diags, const AuAttn *a, uint32_t n)
{
    const char *tensor = tensors[n];
    if (a->linear)
        return refuse(diags, a->span, tensor, "recurrences have no cache of keys and values");
    if (is_multiplied(a, 1 + n))
        return refuse(diags, a->span, tensor, "further products (`dot`) of it are not carried");
    return true;
}

static AuExpr over(AuAttn *a, AuExpr x, int32_t by, AuOp op)
{
    return attn_op2(a, op, x, attn_i32(a, by, a->span), a->span);
}

/* As many as there are sequences: of packed rows what their starts say, since no other tensor may have the batch. */
static AuExpr sequences(AuAttn *a, AuExpr batch)
{
    if (a->keys.layout != AU_LAYOUT_PACKED) return batch;
    const AuExpr ends = attn_node(a, AU_OP_SIZE, NULL, 0, (int32_t)a->keys.ends, 0, a->span);
    return over(a, ends, 1, AU_OP_SUB);
}

/* "k_scale" or "v_zero": [B, Hk, 1, 1], or those of a token, as tokens lie. */
static uint32_t add_tensor(AuAttn *a, uint32_t n, const char *what, const AuStorage *s)
{
    const AuTensor *of = &a->tensors[1 + n];
    const AuExpr one = attn_i32(a, 1, a->span);
    AuTensor t = {.name = au_format(a->arena, "%s_%s", tensors[n], what),
                  .role = AU_ROLE_INPUT,
                  .dtype = s->scales,
                  .axes = {sequences(a, of->axes[0]), of->axes[1], of->axes[2], one},
                  .rank = 4,
                  .span = a->span};
    const bool by_lines = a->keys.layout == AU_LAYOUT_DENSE || a->keys.layout == AU_LAYOUT_PADDED;
    if (s->by_token || by_lines) driver_place_rows(a, true, t.axes);
    if (!s->by_token) t.axes[2] = one;
    if (s->channels) t.axes[3] = over(a, of->axes[3], s->channels, AU_OP_IDIV);
    return attn_add_tensor(a, t);
}

/* The width consists of whole groups. */
static void add_divides(AuAttn *a, uint32_t n, int32_t by)
{
    const AuExpr rest = over(a, a->tensors[1 + n].axes[3], by, AU_OP_MOD);
    const AuExpr none = attn_i32(a, 0, a->span);
    attn_add_require(
        a, (AuRequire){.holds = attn_op2(a, AU_OP_EQ, rest, none, a->span), .span = a->span});
}

static bool is_free(AuDiags *diags, const AuAttn *a, uint32_t n, const char *what)
{
    const char *name = au_format(a->arena, "%s_%s", tensors[n], what);
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

static bool add_tensors(AuDiags *diags, AuAttn *a, uint32_t n, AuStorage s)
{
    if (!is_carried(diags, a, n) || !is_free(diags, a, n, "scale") ||
        (s.has_zero && !is_free(diags, a, n, "zero")))
        return false;
    s.scale = add_tensor(a, n, "scale", &s);
    if (s.has_zero) s.zero = add_tensor(a, n, "zero", &s);
    if (s.channels) add_divides(a, n, s.channels);
    if (attn_stores_halves(&s)) add_divides(a, n, CODES_OF_BYTE);
    a->storage[n] = s;
    return true;
}

/* Did the call ask for another storage of values that are channels of the keys? */
static bool differs(const AuStorage *keys, const AuStorage *values)
{
    return values->as && (values->as != keys->as || values->by_token != keys->by_token ||
                          values->channels != keys->channels ||
                          values->has_zero != keys->has_zero || values->scales != keys->scales);
}

bool driver_add_storage(AuArena *arena, AuDiags *diags, AuAttn *a, const AuStorage storage[2])
{
    (void)arena;
    if (attn_is_stored(a)) return true;
    if (a->v_in_k && differs(&storage[0], &storage[1]))
        return refuse(diags, a->tensors[2].span, tensors[1],
                      "values are channels of the keys and are stored as they are");
    if (a->v_in_k && attn_stores_halves(&storage[0]) &&
        (a->v_first % CODES_OF_BYTE || a->v_last % CODES_OF_BYTE))
        return refuse(diags, a->tensors[2].span, tensors[1],
                      "channels of keys that begin or end within a byte of codes");
    for (uint32_t n = 0; n < 2; n++) {
        const bool again = n && a->v_in_k; /* with the keys' scales */
        if (!(again ? a->storage[0].as : storage[n].as)) continue;
        if (again ? !is_carried(diags, a, n) : !add_tensors(diags, a, n, storage[n])) return false;
        if (again) a->storage[n] = a->storage[0];
    }
    return true;
}

/* -1: it is not fixed. */
static int32_t width_of(const AuAttn *a, uint32_t n)
{
    const AuNode *axis = attn_at(a, a->tensors[1 + n].axes[3]);
    return axis->op == AU_OP_I32    ? axis->integer
           : axis->op == AU_OP_SIZE ? (int32_t)a->sizes[axis->integer].fixed
                                    : -1;
}

const char *driver_storage_refusal(AuArena *arena, const AuAttn *a)
{
    for (uint32_t n = 0; n < 2 && !(n && a->v_in_k); n++) {
        const AuStorage *s = &a->storage[n];
        const int32_t width = width_of(a, n), unit = attn_stores_halves(s) ? CODES_OF_BYTE : 1;
        if (!s->as || width < 0) continue;
        if (width % unit)
            return au_format(arena, "%s: %d channels of 4 bits do not fill whole bytes", tensors[n],
                             width);
        if (s->channels && width % s->channels)
            return au_format(arena, "%s: %d channels do not consist of groups of %d", tensors[n],
                             width, s->channels);
    }
    return NULL;
}

int32_t driver_width_unit(const AuAttn *a, uint32_t size)
{
    int32_t unit = 1;
    for (uint32_t n = 0; n < 2; n++) {
        const AuStorage *s = &a->storage[n];
        const AuNode *axis = attn_at(a, a->tensors[1 + n].axes[3]);
        if (!s->as || axis->op != AU_OP_SIZE || (uint32_t)axis->integer != size) continue;
        const int32_t own = s->channels ? s->channels : 1, before = unit;
        while (unit % own || (attn_stores_halves(s) && unit % CODES_OF_BYTE)) unit += before;
    }
    return unit;
}

uint32_t driver_storage_flags(const AuAttn *a, uint32_t tensor)
{
    for (uint32_t n = 0; n < 2; n++)
        if (attn_storage_has(&a->storage[n], tensor)) return AULE_TENSOR_SPREADS;
    return 0;
}

uint32_t driver_stored_dtype(const AuAttn *a, uint32_t tensor)
{
    static const uint32_t dtypes[] = {AULE_OPERAND, AULE_E4M3, AULE_E5M2, AULE_I8,
                                      AULE_U8}; /* ORDER AuStored */
    return tensor == 1 || tensor == 2 ? dtypes[a->storage[tensor - 1].as] : AULE_OPERAND;
}

void driver_place_codes(AuAttn *a, uint32_t tensor, AuExpr *axes)
{
    if (attn_stores_halves(&a->storage[tensor - 1]))
        axes[3] = over(a, axes[3], CODES_OF_BYTE, AU_OP_IDIV);
}
