/* artifact.c - the descriptor of an artifact (<aule/artifact.h>), as structures that point to each other. What descriptor.h writes of
 * them is the same for the same script: struct_size and what lies between members are not looked at. */
#include "append.h"
#include "descriptor.h"
#include "driver.h"
#include "grids.h"
#include "layouts.h"
#include "tensors.h"
#include "work.h"

#include <string.h>

typedef struct Artifact {
    AuArena *arena;
    AuDiags *diags;
    bool failed;
} Artifact;

/* An array of zeroed structures; NULL: of none. */
#define NEW_OF(arena, type, count) ((count) ? AU_NEW_ARRAY((arena), type, (count)) : NULL)
#define NEW_LIST(x, type, count)   NEW_OF((x)->arena, type, count)

static aule_expr expr_of(AuLaunchExpr e) { return (aule_expr){e.code, e.code ? e.length : 0}; }

/* Of a kernel, which the artifact outlives. */
static aule_expr expr_copy(AuArena *arena, AuLaunchExpr e)
{
    const aule_expr own = expr_of(e);
    if (!own.code) return own;
    uint32_t *code = AU_NEW_ARRAY(arena, uint32_t, own.length);
    memcpy(code, own.code, own.length * sizeof *code);
    return (aule_expr){code, own.length};
}

static aule_expr script_expr(Artifact *x, const AuAttn *a, AuExpr e)
{
    AuLaunchExpr code = {0};
    if (e.i && !launch_code(x->arena, x->diags, a, e, &code)) x->failed = true;
    return expr_of(x->failed ? (AuLaunchExpr){0} : code);
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

static const aule_expr *axes_of(Artifact *x, const AuAttn *a, const AuTensorRow *row)
{
    aule_expr *axes = NEW_LIST(x, aule_expr, row->rank);
    for (uint32_t n = 0; n < row->rank; n++) axes[n] = script_expr(x, a, row->axes[n]);
    return axes;
}

static const aule_tensor_v1 *tensors_of(Artifact *x, const AuAttentionBuild *build)
{
    const AuTensorRow *rows = build->tensors;
    aule_tensor_v1 *list = NEW_LIST(x, aule_tensor_v1, build->tensor_count);
    for (uint32_t n = 0; n < build->tensor_count; n++)
        list[n] =
            (aule_tensor_v1){.name = rows[n].name,
                             .role = rows[n].role,
                             .dtype = rows[n].stored ? rows[n].stored : dtype_of(rows[n].dtype),
                             .rank = rows[n].rank,
                             .flags = rows[n].flags,
                             .axes = axes_of(x, build->whole, &rows[n])};
    return list;
}

static const aule_param_v1 *params_of(Artifact *x, const AuAttn *a)
{
    aule_param_v1 *list = NEW_LIST(x, aule_param_v1, a->param_count);
    for (uint32_t n = 0; n < a->param_count; n++)
        list[n] = (aule_param_v1){.name = a->params[n].name,
                                  .dtype = dtype_of(a->params[n].dtype),
                                  .default_value = script_expr(x, a, a->params[n].default_value)};
    return list;
}

static const aule_size_v1 *sizes_of(Artifact *x, const AuAttn *a)
{
    aule_size_v1 *list = NEW_LIST(x, aule_size_v1, a->size_count);
    for (uint32_t n = 0; n < a->size_count; n++)
        list[n].name = a->sizes[n].fixed >= 0 || driver_is_unknown(a, n) ? "" : a->sizes[n].name;
    return list;
}

/* As the script has it, in one line; NULL: not without what is no part of it, comments or too much text. */
static const char *written(Artifact *x, AuSpan span)
{
    enum { LONGEST = 200 };
    const char *from = x->diags->sources[span.source].text;
    AuText text = {.arena = x->arena};
    for (uint32_t n = span.begin; n < span.end; n++) {
        const bool space = strchr(" \t\r\n", from[n]) != NULL;
        if (from[n] == '/' && (from[n + 1] == '/' || from[n + 1] == '*')) return NULL;
        if (!space)
            au_text_bytes(&text, from + n, 1);
        else if (n == span.begin || !strchr(" \t\r\n", from[n - 1]))
            au_text_add(&text, " ");
    }
    return text.length && text.length <= LONGEST ? au_text_str(&text) : NULL;
}

/* "mha.attn:7: H % Hk == 0"; what the front end asks for by itself is written like the rest. */
static const char *require_text(Artifact *x, AuSpan span, const char *what)
{
    if (!span.source) return what;
    const AuPosition p = au_position(x->diags, span);
    return au_format(x->arena, "%s:%u: %s", p.file, p.line, what);
}

/* Those of the script, then the axes that must have elements. */
static const aule_require_v1 *requires_of(Artifact *x, const AuAttentionBuild *build)
{
    const AuAttn *a = build->attn;
    const uint32_t own = a->require_count;
    aule_require_v1 *list = NEW_LIST(x, aule_require_v1, own + build->need_count);
    for (uint32_t n = 0; n < own; n++) {
        const AuRequire *r = &a->requires[n];
        AuText text = {.arena = x->arena};
        attn_print_expr(a, r->holds, &text);
        const char *words = r->is_written ? written(x, r->span) : NULL;
        list[n].condition = script_expr(x, a, r->holds);
        list[n].text = r->says ? au_format(x->arena, "%s: %s", r->says, au_text_str(&text))
                               : require_text(x, r->span, words ? words : au_text_str(&text));
    }
    for (uint32_t n = 0; n < build->need_count; n++) {
        const AuNeed *need = &build->needs[n];
        list[own + n].condition = script_expr(x, a, need->holds);
        list[own + n].text =
            require_text(x, need->span,
                         au_format(x->arena, "axis %u of '%s', which is read here, has elements",
                                   need->axis, need->tensor));
    }
    return list;
}

/* ---- variants */

static const aule_slot_v1 *slots_of(AuArena *arena, const AuKernel *k)
{
    static const uint16_t types[] = {[AU_ARG_POINTER] = AULE_SLOT_PTR,
                                     [AU_ARG_I32] = AULE_SLOT_I32,
                                     [AU_ARG_I64] = AULE_SLOT_I64,
                                     [AU_ARG_F32] = AULE_SLOT_F32};
    aule_slot_v1 *list = NEW_OF(arena, aule_slot_v1, k->arg_count);
    for (uint32_t n = 0; n < k->arg_count; n++) {
        const AuArg *arg = &k->args[n];
        const bool region = arg->source == AULE_SLOT_WORKSPACE;
        const uint32_t dim =
            region ? kernel_scalar_bytes(k->mems[arg->mem.i].scalar) : arg->source_dim;
        list[n] = (aule_slot_v1){(uint16_t)arg->source, types[arg->kind], arg->source_index, dim};
    }
    return list;
}

enum { SLOTS_A_WORD = 16 };

static uint32_t touch_words(const AuKernel *k)
{
    return (k->arg_count + SLOTS_A_WORD - 1) / SLOTS_A_WORD;
}

/* As the kernel's memories are declared, which kernel_verify has held it to. */
static const uint32_t *touches_of(AuArena *arena, const AuKernel *k)
{
    uint32_t *list = NEW_OF(arena, uint32_t, touch_words(k));
    for (uint32_t n = 0; n < k->arg_count; n++) {
        if (k->args[n].kind != AU_ARG_POINTER) continue;
        const AuMemory *m = &k->mems[k->args[n].mem.i];
        const uint32_t bits = (m->reads ? AULE_TOUCH_READ : 0) | (m->writes ? AULE_TOUCH_WRITE : 0);
        list[n / SLOTS_A_WORD] |= bits << 2 * (n % SLOTS_A_WORD);
    }
    return list;
}

static uint32_t elements_of(AuScalar scalar)
{
    switch (scalar) {
    case AU_F32: return AULE_F32;
    case AU_F16: return AULE_F16;
    case AU_BF16: return AULE_BF16;
    case AU_I32: return AULE_I32;
    case AU_I64: return AULE_I64;
    case AU_U8: return AULE_U8;
    case AU_I1:
    case AU_VOID:
    case AU_SCALARS: break;
    }
    return AULE_BOOL;
}

/* Does a copy of boxes write through it? */
static bool is_written(const AuKernel *k, uint32_t map)
{
    for (uint32_t n = 1; n < k->instr_count; n++) {
        const AuInstr *in = &k->instrs[n];
        if ((in->op == AU_K_TMA_STORE || in->op == AU_K_TMA_REDUCE_ADD) && in->imm == map)
            return true;
    }
    return false;
}

static const aule_map_v1 *maps_of(AuArena *arena, const AuKernel *k)
{
    aule_map_v1 *list = NEW_OF(arena, aule_map_v1, k->map_count);
    for (uint32_t n = 0; n < k->map_count; n++) {
        const AuMap *map = &k->maps[n];
        const AuMemory *mem = &k->mems[map->mem.i];
        const AuArg *arg = &k->args[mem->arg];
        list[n] = (aule_map_v1){.kind = arg->source,
                                .index = arg->source_index,
                                .dtype = elements_of(mem->scalar),
                                .rank = map->rank,
                                .swizzle = map->swizzle,
                                .flags = (map->nan ? AULE_MAP_NAN : 0) |
                                         (is_written(k, n) ? AULE_MAP_WRITTEN : 0) |
                                         map->cut << AULE_MAP_CUT_SHIFT};
        memcpy(list[n].box, map->box, sizeof map->box);
        for (uint32_t d = 0; d < map->rank; d++) {
            list[n].size[d] = expr_copy(arena, map->size[d]);
            list[n].stride[d] = expr_copy(arena, map->stride[d]);
        }
    }
    return list;
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

/* In an artifact's data the kernel that is called as `entry` stands there. */
static void kernel_of_host(const uint64_t *slots, uint32_t x, uint32_t y, uint32_t z)
{
    (void)slots, (void)x, (void)y, (void)z;
}

const aule_launch_v1 *artifact_launches(AuArena *arena, const AuVariant *v)
{
    const AuTarget *target = v->target;
    const bool host = target->format == AULE_CODE_HOST;
    aule_launch_v1 *list = NEW_OF(arena, aule_launch_v1, v->kernel_count);
    const AuKernel *append =
        v->operation == AU_FORWARD ? driver_append_writes(arena, v->attn) : NULL;
    for (uint32_t n = 0; n < v->kernel_count; n++) {
        const AuKernel *k = v->kernels[n];
        list[n] = (aule_launch_v1){
            .entry = au_format(arena, "%s", k->name),
            .host = host ? kernel_of_host : NULL,
            .grid = {expr_copy(arena, k->grid[0]), expr_copy(arena, k->grid[1]),
                     expr_copy(arena, k->grid[2])},
            .block = {host ? 1 : k->lanes * k->warps, 1, 1},
            .shared_bytes = target->dynamic_shared ? target->dynamic_shared(k) : 0,
            .private_bytes = host ? stack_bytes(k) : 0,
            .slot_count = k->arg_count,
            .slots = slots_of(arena, k),
            .map_count = k->map_count,
            .maps = maps_of(arena, k),
            .flags = (grids_waits(k) ? AULE_LAUNCH_EARLY : 0) |
                     (work_makes(v, k) ? AULE_LAUNCH_WORK : 0) |
                     (append && grids_waits_for(k, append) ? AULE_LAUNCH_BEHIND_APPEND : 0),
            .touch_count = touch_words(k),
            .touches = touches_of(arena, k)};
    }
    return list;
}

/* Sizes that the compiler fixed; those that the script writes as numbers are checked with the
 * shapes. */
static const aule_fixed_v1 *fixed_of(Artifact *x, const AuVariant *v, const AuAttn *signature,
                                     uint32_t *count)
{
    const AuAttn *a = v->attn;
    aule_fixed_v1 *list = NEW_LIST(x, aule_fixed_v1, a->size_count);
    *count = 0;
    for (uint32_t n = 0; n < a->size_count; n++)
        if (a->sizes[n].fixed >= 0 && signature->sizes[n].fixed < 0)
            list[(*count)++] = (aule_fixed_v1){.size = n, .value = a->sizes[n].fixed};
    return *count ? list : NULL;
}

static const char *place_of(Artifact *x, AuSpan span)
{
    const AuPosition p = au_position(x->diags, span);
    const char *slash = strrchr(p.file, '/');
    return au_format(x->arena, "%s:%u:%u", slash ? slash + 1 : p.file, p.line, p.column);
}

/* What a layout brings that says of sequences: all but scales. New rows go by slots to dense caches, too. */
static bool is_list(const AuTensorRow *t, const AuVariant *v)
{
    const uint32_t role = v->operation == AU_STEP ? AULE_ROLE_SLOTS : AULE_ROLE_SEQUENCES;
    return t->role == role || t->flags & AULE_TENSOR_SEQUENCES ||
           (v->by_slots && t->role == AULE_ROLE_NEW_SLOTS);
}

/* Indices of the script, and the lists that a recurrence or a layout takes beside the tensors. */
static const aule_check_v1 *checks_of(Artifact *x, const AuAttentionBuild *build,
                                      const AuVariant *v, uint32_t *count)
{
    aule_check_v1 *list = NEW_LIST(x, aule_check_v1, v->checks.count + build->tensor_count);
    for (uint32_t n = 0; n < v->checks.count; n++) {
        const AuCheck *c = &v->checks.at[n];
        list[n] = (aule_check_v1){.text = place_of(x, c->span),
                                  .tensor = c->tensor,
                                  .axis = c->axis,
                                  .region = c->region,
                                  .rows = c->rows,
                                  .slice = c->slice,
                                  .slices = c->slices};
    }
    *count = v->checks.count;
    const bool given = v->checked && v->operation != AU_COMBINE; /* which reads no list */
    for (uint32_t n = 0; given && n < build->tensor_count; n++)
        if (is_list(&build->tensors[n], v))
            list[(*count)++] = (aule_check_v1){.text = place_of(x, v->attn->span), .tensor = n};
    return list;
}

static const aule_workspace_v1 *workspaces_of(Artifact *x, const AuVariant *v)
{
    const uint32_t count = v->schedule->region_count;
    aule_workspace_v1 *list = NEW_LIST(x, aule_workspace_v1, count);
    for (uint32_t n = 0; n < count; n++)
        list[n] = (aule_workspace_v1){expr_of(v->workspace[n]), 64, v->schedule->zeroed[n]};
    return list;
}

static uint32_t flags_of(const AuVariant *v)
{
    if (v->invariant) return AULE_VARIANT_INVARIANT;
    return v->operation != AU_FORWARD || v->attn->linear || v->schedule->by_batch
               ? AULE_VARIANT_BY_BATCH
               : 0;
}

static aule_variant_v1 variant_of(Artifact *x, const AuAttentionBuild *build, const AuVariant *v)
{
    uint32_t check_count;
    const aule_check_v1 *checks = checks_of(x, build, v, &check_count);
    const bool host = v->target->format == AULE_CODE_HOST;
    aule_variant_v1 row = {.operation = schedule_operation(v->operation),
                           .target = v->target->name,
                           .arch = v->arch->name,
                           .features = v->features,
                           .dtype = operand_of(v->operand),
                           .schedule = v->schedule->name,
                           .code_format = v->target->format,
                           .code_bytes = host ? 0 : v->code.length,
                           .workspace_count = v->schedule->region_count,
                           .workspaces = workspaces_of(x, v),
                           .launch_count = v->kernel_count,
                           .launches = v->launches ? v->launches : artifact_launches(x->arena, v),
                           .check_count = check_count,
                           .checks = checks,
                           .condition = expr_of(v->condition),
                           .flags = flags_of(v)};
    row.fixed = fixed_of(x, v, build->attn, &row.fixed_count);
    if (!host) row.code = v->code.bytes ? v->code.bytes : ""; /* with a NUL behind it */
    return row;
}

/* ---- the whole */

static aule_attention_v1 attention_of(Artifact *x, const AuAttentionBuild *build)
{
    const AuAttn *a = build->attn;
    AuText formula = {.arena = x->arena};
    attn_print(a, &formula);
    aule_variant_v1 *variants = NEW_LIST(x, aule_variant_v1, build->count);
    for (uint32_t n = 0; n < build->count; n++)
        variants[n] = variant_of(x, build, &build->variants[n]);
    return (aule_attention_v1){.name = build->called,
                               .formula = au_text_str(&formula),
                               .size_count = a->size_count,
                               .sizes = sizes_of(x, a),
                               .tensor_count = build->tensor_count,
                               .tensors = tensors_of(x, build),
                               .param_count = a->param_count,
                               .params = params_of(x, a),
                               .require_count = a->require_count + build->need_count,
                               .requires_ = requires_of(x, build),
                               .variant_count = build->count,
                               .variants = variants};
}

/* FNV-1a, 64 bits. */
static uint64_t hash(const char *text, size_t length)
{
    uint64_t h = 14695981039346656037u;
    for (size_t n = 0; n < length; n++) h = (h ^ (unsigned char)text[n]) * 1099511628211u;
    return h;
}

const aule_module_v1 *artifact_module(AuArena *arena, AuDiags *diags,
                                      const AuAttentionBuild *builds, uint32_t count,
                                      const char *source_name, const char *source,
                                      size_t source_length)
{
    Artifact x = {.arena = arena, .diags = diags};
    const char *slash = strrchr(source_name, '/');
    aule_attention_v1 *attentions = NEW_LIST(&x, aule_attention_v1, count);
    for (uint32_t n = 0; n < count; n++) attentions[n] = attention_of(&x, &builds[n]);
    aule_module_v1 *module = AU_NEW(arena, aule_module_v1);
    *module = (aule_module_v1){.magic = AULE_MAGIC,
                               .version_major = AULE_VERSION_MAJOR,
                               .version_minor = AULE_VERSION_MINOR,
                               .attention_count = count,
                               .attentions = attentions,
                               .producer = "aulec " AULE_PROJECT_VERSION,
                               .source_name = slash ? slash + 1 : source_name,
                               .source_hash = hash(source, source_length)};
    return x.failed ? NULL : module;
}
