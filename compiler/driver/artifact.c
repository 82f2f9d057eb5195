/* artifact.c - the descriptor of an artifact (<aule/artifact.h>) as an image. Structures are filled
 * with zeros where a pointer goes, put, and the pointers fixed; arrays are put as a whole so that
 * they step by struct_size. */
#include "driver.h"
#include "image.h"
#include "tensors.h"

#include "aule/artifact.h"

#include <string.h>

typedef struct Artifact {
    AuImageBuilder b;
    AuArena *arena;
    AuDiags *diags;
    bool failed;
} Artifact;

/* Copies a structure with zeros between its members, so that a script always gives the same artifact. */
#if defined(__has_builtin)
#if __has_builtin(__builtin_clear_padding)
#define CLEAR_PADDING(value) __builtin_clear_padding(&(value))
#endif
#endif
#ifndef CLEAR_PADDING
#define CLEAR_PADDING(value) ((void)0)
#endif
#define PUT(x, offset, value)                                                                      \
    (CLEAR_PADDING(value), (void)memcpy((x)->b.bytes.at + (offset), &(value), sizeof(value)))

static void put_expr(Artifact *x, uint64_t at, AuLaunchExpr e)
{
    if (!e.code) return;
    aule_expr expr = {.length = e.length};
    PUT(x, at, expr);
    IMAGE_POINT(&x->b, aule_expr, at, code, image_put(&x->b, e.code, e.length * sizeof *e.code, 4));
}

static void put_script_expr(Artifact *x, uint64_t at, const AuAttn *a, AuExpr e)
{
    AuLaunchExpr code;
    if (!e.i) return;
    if (launch_code(x->arena, x->diags, a, e, &code))
        put_expr(x, at, code);
    else
        x->failed = true;
}

static void put_name(Artifact *x, uint64_t field, const char *text)
{
    image_point(&x->b, field, image_string(&x->b, text));
}

/* An array of [count] zeroed structures, to be filled in place. */
static uint64_t put_array(Artifact *x, size_t bytes, uint32_t count)
{
    return image_put(&x->b, au_alloc(x->arena, bytes * count + 1), bytes * count, 8);
}

static uint32_t dtype_of(AuDtype d)
{
    switch (d) {
    case AU_DT_OPERAND: return AULE_OPERAND;
    case AU_DT_F32: return AULE_F32;
    case AU_DT_F16: return AULE_F16;
    case AU_DT_BF16: return AULE_BF16;
    case AU_DT_I32: return AULE_I32;
    case AU_DT_I64: return AULE_I64;
    case AU_DT_U8: return AULE_U8;
    case AU_DT_BOOL: return AULE_BOOL;
    }
    return AULE_OPERAND;
}

static uint32_t operand_of(AuTileElem e)
{
    return e == TILE_F16 ? AULE_F16 : e == TILE_BF16 ? AULE_BF16 : AULE_F32;
}

static void put_tensor(Artifact *x, uint64_t at, const AuAttn *a, const char *name,
                       aule_tensor_v1 t, const AuExpr *axes)
{
    t.struct_size = sizeof t;
    PUT(x, at, t);
    put_name(x, at + offsetof(aule_tensor_v1, name), name);
    const uint64_t list = put_array(x, sizeof(aule_expr), t.rank);
    IMAGE_POINT(&x->b, aule_tensor_v1, at, axes, list);
    for (uint32_t n = 0; n < t.rank; n++)
        put_script_expr(x, list + n * sizeof(aule_expr), a, axes[n]);
}

static uint64_t put_tensors(Artifact *x, const AuAttentionBuild *build)
{
    const AuTensorRow *rows = build->tensors;
    const uint64_t at = put_array(x, sizeof(aule_tensor_v1), build->tensor_count);
    for (uint32_t n = 0; n < build->tensor_count; n++) {
        const aule_tensor_v1 row = {.role = rows[n].role,
                                    .dtype = dtype_of(rows[n].dtype),
                                    .rank = rows[n].rank,
                                    .flags = rows[n].flags};
        put_tensor(x, at + n * sizeof(aule_tensor_v1), build->whole, rows[n].name, row,
                   rows[n].axes);
    }
    return at;
}

static uint64_t put_params(Artifact *x, const AuAttn *a)
{
    const uint64_t at = put_array(x, sizeof(aule_param_v1), a->param_count);
    for (uint32_t n = 0; n < a->param_count; n++) {
        const uint64_t here = at + n * sizeof(aule_param_v1);
        aule_param_v1 p = {.struct_size = sizeof p, .dtype = dtype_of(a->params[n].dtype)};
        PUT(x, here, p);
        put_name(x, here + offsetof(aule_param_v1, name), a->params[n].name);
        put_script_expr(x, here + offsetof(aule_param_v1, default_value), a,
                        a->params[n].default_value);
    }
    return at;
}

/* "mha.attn:7: H % Hk == 0"; what the front end asks for by itself is written like the rest. */
static const char *require_text(Artifact *x, AuSpan span, const char *what)
{
    if (!span.source) return what;
    const AuPosition p = au_position(x->diags, span);
    return au_format(x->arena, "%s:%u: %s", p.file, p.line, what);
}

static void put_require(Artifact *x, uint64_t at, const AuAttn *a, AuExpr holds, AuSpan span,
                        const char *what)
{
    put_script_expr(x, at + offsetof(aule_require_v1, condition), a, holds);
    put_name(x, at + offsetof(aule_require_v1, text), require_text(x, span, what));
}

/* Those of the script, then the axes that must have elements. */
static uint64_t put_requires(Artifact *x, const AuAttentionBuild *build)
{
    const AuAttn *a = build->attn;
    const uint64_t at = put_array(x, sizeof(aule_require_v1), a->require_count + build->need_count);
    for (uint32_t n = 0; n < a->require_count; n++) {
        AuText text = {.arena = x->arena};
        attn_print_expr(a, a->requires[n], &text);
        put_require(x, at + n * sizeof(aule_require_v1), a, a->requires[n], a -> require_spans[n],
                    au_text_str(&text));
    }
    for (uint32_t n = 0; n < build->need_count; n++) {
        const AuNeed *need = &build->needs[n];
        put_require(x, at + (a->require_count + n) * sizeof(aule_require_v1), a, need->holds,
                    need->span,
                    au_format(x->arena, "axis %u of '%s', which is read here, has elements",
                              need->axis, need->tensor));
    }
    return at;
}

static void put_slots(Artifact *x, uint64_t launch, const AuKernel *k)
{
    static const uint16_t types[] = {[AU_ARG_POINTER] = AULE_SLOT_PTR,
                                     [AU_ARG_I32] = AULE_SLOT_I32,
                                     [AU_ARG_I64] = AULE_SLOT_I64,
                                     [AU_ARG_F32] = AULE_SLOT_F32};
    const uint64_t at = put_array(x, sizeof(aule_slot_v1), k->arg_count);
    for (uint32_t n = 0; n < k->arg_count; n++) {
        const AuArg *arg = &k->args[n];
        const bool region = arg->source == AULE_SLOT_WORKSPACE;
        const uint32_t dim =
            region ? kernel_scalar_bytes(k->mems[arg->mem.i].scalar) : arg->source_dim;
        aule_slot_v1 slot = {.kind = (uint16_t)arg->source,
                             .type = types[arg->kind],
                             .index = arg->source_index,
                             .dim = dim};
        PUT(x, at + n * sizeof slot, slot);
    }
    IMAGE_POINT(&x->b, aule_launch_v1, launch, slots, at);
}

/* Stack of a host kernel: its arrays, and room for what the generator spills. */
static uint32_t stack_bytes(const AuKernel *k)
{
    uint64_t bytes = 64 << 10;
    for (uint32_t n = 1; n < k->mem_count; n++) {
        const AuMemory *m = &k->mems[n];
        if (m->space == AU_GLOBAL) continue;
        bytes += (uint64_t)m->count * kernel_scalar_bytes(m->scalar) *
                     (m->space == AU_LANE ? k->lanes : 1) +
                 64;
    }
    return (uint32_t)bytes;
}

static void put_launch(Artifact *x, uint64_t at, const AuVariant *v, const AuKernel *k)
{
    const AuTarget *target = v->target;
    const bool host = target->format == AULE_CODE_HOST;
    aule_launch_v1 launch = {.struct_size = sizeof launch,
                             .block = {host ? 1 : k->lanes * k->warps, 1, 1},
                             .shared_bytes = target->dynamic_shared ? target->dynamic_shared(k) : 0,
                             .private_bytes = host ? stack_bytes(k) : 0,
                             .slot_count = k->arg_count};
    PUT(x, at, launch);
    put_name(x, at + offsetof(aule_launch_v1, entry), k->name);
    if (host) image_symbol(&x->b, at + offsetof(aule_launch_v1, host), k->name);
    for (uint32_t n = 0; n < 3; n++)
        put_expr(x, at + offsetof(aule_launch_v1, grid) + n * sizeof(aule_expr), k->grid[n]);
    put_slots(x, at, k);
}

/* Sizes that the compiler fixed; those that the script writes as numbers are checked with the
 * shapes. */
static void put_fixed(Artifact *x, uint64_t variant, const AuVariant *v, const AuAttn *signature)
{
    const AuAttn *a = v->attn;
    uint32_t count = 0;
    for (uint32_t n = 0; n < a->size_count; n++)
        count += a->sizes[n].fixed >= 0 && signature->sizes[n].fixed < 0;
    const uint64_t at = put_array(x, sizeof(aule_fixed_v1), count);
    uint64_t here = at;
    for (uint32_t n = 0; n < a->size_count; n++) {
        if (a->sizes[n].fixed < 0 || signature->sizes[n].fixed >= 0) continue;
        aule_fixed_v1 fixed = {.size = n, .value = a->sizes[n].fixed};
        PUT(x, here, fixed);
        here += sizeof fixed;
    }
    memcpy(x->b.bytes.at + variant + offsetof(aule_variant_v1, fixed_count), &count, sizeof count);
    IMAGE_POINT(&x->b, aule_variant_v1, variant, fixed, at);
}

static void put_checks(Artifact *x, uint64_t variant, const AuVariant *v)
{
    const uint64_t at = put_array(x, sizeof(aule_check_v1), v->checks.count);
    for (uint32_t n = 0; n < v->checks.count; n++) {
        const AuCheck *c = &v->checks.at[n];
        const uint64_t here = at + n * sizeof(aule_check_v1);
        aule_check_v1 row = {.tensor = c->tensor,
                             .axis = c->axis,
                             .region = c->region,
                             .rows = c->rows,
                             .slice = c->slice,
                             .slices = c->slices};
        PUT(x, here, row);
        const AuPosition p = au_position(x->diags, c->span);
        const char *slash = strrchr(p.file, '/');
        put_name(x, here + offsetof(aule_check_v1, text),
                 au_format(x->arena, "%s:%u:%u", slash ? slash + 1 : p.file, p.line, p.column));
    }
    if (v->checks.count) IMAGE_POINT(&x->b, aule_variant_v1, variant, checks, at);
}

static void put_variant(Artifact *x, uint64_t at, const AuVariant *v, const AuAttn *signature)
{
    const bool host = v->target->format == AULE_CODE_HOST;
    aule_variant_v1 row = {.struct_size = sizeof row,
                           .dtype = operand_of(v->operand),
                           .code_format = v->target->format,
                           .code_bytes = host ? 0 : v->code.length,
                           .workspace_count = v->schedule->region_count,
                           .launch_count = v->kernel_count,
                           .check_count = v->checks.count};
    PUT(x, at, row);
    put_name(x, at + offsetof(aule_variant_v1, operation), schedule_operation(v->operation));
    put_name(x, at + offsetof(aule_variant_v1, target), v->target->name);
    put_name(x, at + offsetof(aule_variant_v1, arch), v->arch->name);
    put_name(x, at + offsetof(aule_variant_v1, features), v->features);
    put_name(x, at + offsetof(aule_variant_v1, schedule), v->schedule->name);
    put_expr(x, at + offsetof(aule_variant_v1, condition), v->condition);
    put_fixed(x, at, v, signature);
    if (!host) { /* text ends with a NUL that is not counted */
        const char *copy = au_strndup(x->arena, v->code.bytes, v->code.length);
        IMAGE_POINT(&x->b, aule_variant_v1, at, code,
                    image_put(&x->b, copy, v->code.length + 1, 16));
    }
    const uint64_t workspaces = put_array(x, sizeof(aule_workspace_v1), v->schedule->region_count);
    for (uint32_t n = 0; n < v->schedule->region_count; n++) {
        aule_workspace_v1 w = {.align = 64, .zeroed = v->schedule->zeroed[n]};
        PUT(x, workspaces + n * sizeof w, w);
        put_expr(x, workspaces + n * sizeof w + offsetof(aule_workspace_v1, bytes),
                 v->workspace[n]);
    }
    IMAGE_POINT(&x->b, aule_variant_v1, at, workspaces, workspaces);
    put_checks(x, at, v);
    const uint64_t launches = put_array(x, sizeof(aule_launch_v1), v->kernel_count);
    IMAGE_POINT(&x->b, aule_variant_v1, at, launches, launches);
    for (uint32_t n = 0; n < v->kernel_count; n++)
        put_launch(x, launches + n * sizeof(aule_launch_v1), v, v->kernels[n]);
}

static void put_attention(Artifact *x, uint64_t at, const AuAttentionBuild *build)
{
    const AuAttn *a = build->attn;
    aule_attention_v1 row = {.struct_size = sizeof row,
                             .size_count = a->size_count,
                             .tensor_count = build->tensor_count,
                             .param_count = a->param_count,
                             .require_count = a->require_count + build->need_count,
                             .variant_count = build->count};
    AuText formula = {.arena = x->arena};
    attn_print(a, &formula);
    const uint64_t tensors = put_tensors(x, build);
    PUT(x, at, row);
    IMAGE_POINT(&x->b, aule_attention_v1, at, tensors, tensors);
    put_name(x, at + offsetof(aule_attention_v1, name), a->name);
    put_name(x, at + offsetof(aule_attention_v1, formula), au_text_str(&formula));
    const uint64_t sizes = put_array(x, sizeof(aule_size_v1), a->size_count);
    for (uint32_t n = 0; n < a->size_count; n++)
        put_name(x, sizes + n * sizeof(aule_size_v1),
                 a->sizes[n].fixed >= 0 ? "" : a->sizes[n].name);
    IMAGE_POINT(&x->b, aule_attention_v1, at, sizes, sizes);
    IMAGE_POINT(&x->b, aule_attention_v1, at, params, put_params(x, a));
    IMAGE_POINT(&x->b, aule_attention_v1, at, requires_, put_requires(x, build));
    const uint64_t variants = put_array(x, sizeof(aule_variant_v1), build->count);
    IMAGE_POINT(&x->b, aule_attention_v1, at, variants, variants);
    for (uint32_t n = 0; n < build->count; n++)
        put_variant(x, variants + n * sizeof(aule_variant_v1), &build->variants[n], a);
}

/* FNV-1a, 64 bits. */
static uint64_t hash(const char *text, size_t length)
{
    uint64_t h = 14695981039346656037u;
    for (size_t n = 0; n < length; n++) h = (h ^ (unsigned char)text[n]) * 1099511628211u;
    return h;
}

bool artifact_image(AuArena *arena, AuDiags *diags, const AuAttentionBuild *builds, uint32_t count,
                    const char *source_name, const char *source, size_t source_length, AuImage *out)
{
    Artifact x = {.b = {.arena = arena}, .arena = arena, .diags = diags};
    const aule_module_v1 head = {.magic = AULE_MAGIC,
                                 .version_major = AULE_VERSION_MAJOR,
                                 .version_minor = AULE_VERSION_MINOR,
                                 .struct_size = sizeof head,
                                 .attention_count = count,
                                 .source_hash = hash(source, source_length)};
    const uint64_t at = image_put(&x.b, &head, sizeof head, 16);
    put_name(&x, at + offsetof(aule_module_v1, producer), "aulec " AULE_PROJECT_VERSION);
    const char *slash = strrchr(source_name, '/');
    put_name(&x, at + offsetof(aule_module_v1, source_name), slash ? slash + 1 : source_name);
    const uint64_t attentions = put_array(&x, sizeof(aule_attention_v1), count);
    IMAGE_POINT(&x.b, aule_module_v1, at, attentions, attentions);
    for (uint32_t n = 0; n < count; n++)
        put_attention(&x, attentions + n * sizeof(aule_attention_v1), &builds[n]);
    *out = image_done(&x.b);
    return !x.failed;
}
