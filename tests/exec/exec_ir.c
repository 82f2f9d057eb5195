/* exec_ir.c - a case on the interpreters: the variant that the compiler would make for an
 * architecture, as tiled IR (of the schedule, or after all passes) or as kernel IR. They find what a device would do silently: races,
 * reads of what was not written, positions outside, outputs not written. */
#include "internal.h"

#include "aule/artifact.h"
#include "driver.h"
#include "layouts.h"
#include "codes.h"
#include "storage.h"
#include "kernel_run.h"
#include "passes.h"
#include "run.h"
#include "tensors.h"
#include "shapes.h"

#include <stdlib.h>
#include <string.h>

/* A machine of caps.def that no code is generated for yet: its kernels run here all the same. */
static bool only_interpreted(AuArena *arena, const char *name, const AuTarget **target,
                             const AuArch **arch)
{
    if (!tile_caps(name)) return false;
    AuArch *a = AU_NEW(arena, AuArch);
    AuTarget *t = AU_NEW(arena, AuTarget);
    *a = (AuArch){.name = name, .caps = name, .features = "", .f16 = true, .bf16 = true};
    *t = *au_target("opencl");
    t->archs = a, t->arch_count = 1;
    t->format = AULE_CODE_HSACO,
    t->has_handles = false; /* as on GPUs but OpenCL's, addresses are numbers */
    *target = t, *arch = a;
    return true;
}

bool exec_find_arch(AuArena *arena, const char *name, const AuTarget **target, const AuArch **arch)
{
    uint32_t count;
    const AuTarget *const *all = au_targets(&count);
    for (uint32_t t = 0; t < count; t++)
        for (uint32_t a = 0; a < all[t]->arch_count; a++)
            if (strcmp(all[t]->archs[a].name, name) == 0) {
                *target = all[t], *arch = &all[t]->archs[a];
                return true;
            }
    return only_interpreted(arena, name, target, arch);
}

/* Shapes that a case asks for; NULL: rules decide. */
static const AuShapes *shapes_of(Run *r)
{
    static const struct {
        const char *word, *row;
    } asked[] = {
        {"wide_queried",
         "group_back_wide: parts=2 stages=2 exchange=1 results=1 producer=24 consumer=240"},
        {"wide_apart", "group_back_wide: stages=2 exchange=2 results=2 producer=24 consumer=240"},
        {"wide", "group_back_wide: stages=2 exchange=1 results=1 producer=24 consumer=240"},
        {"queried", "group_backward: groups=2 queries=64 stages=2 exchange=1 results=1 stmatrix=0 "
                    "turned=0 producer=24 consumer=240"},
        {"stays", "group_forward: persistent=1"},
        {"elements", "group_backward: ahead=0 early=0 boxes=0 exchange=2 stmatrix=0 turned=0"},
        {"held", "group_backward: queries=64 held=64 exchange=1"},
        {"opaque_forward", "matrices_forward: subgroups=2"},
        {"opaque", "matrices_backward: subgroups=2"},
        {"stored", "group_backward: ahead=0 early=0 stmatrix=1 turned=0"},
        {"paired_two", "group_wide: groups=2 keys=64 stages=2 weights=1 held=0 producer=56 "
                       "consumer=224 paired=1 pieces=2"},
        {"paired", "group_wide: groups=2 keys=64 stages=2 weights=1 held=64 producer=56 "
                   "consumer=224 paired=1 pieces=3"},
        {"windowed", "warps_decode: start=3"},
        {"turned", "group_backward: ahead=0 stmatrix=0 turned=1"},
        {"weighed",
         "warps_decode: sharing=2"}, /* as the rule has it: what groups save is weighed */
        {"groups", "warps_decode: sharing=0"}};
    const uint32_t all = sizeof asked / sizeof *asked;
    uint32_t n = 0;
    while (n < all && !exec_has(r, asked[n].word)) n++;
    const bool of_warps = n < all && strncmp(asked[n].row, "warps", 5) == 0;
    /* Values that no warp holds are warps_wide's, which has no such key. */
    const bool takes = strstr(r->suite->name, ":sm_") && !strstr(r->c->script, "latent");
    if (n == all || (of_warps && !takes)) return NULL;
    AuShapes *shapes = shapes_new(r->arena, r->diags);
    const char *row = asked[n].row;
    return shapes_read(shapes, r->diags, asked[n].word, row, strlen(row), SHAPES_FORCED) ? shapes
                                                                                         : NULL;
}

/* The layout of keys, or of queries and keys. */
static uint32_t layouts_of(const Run *r, const AuAttn *a, bool groups, AuAxisLayout *out)
{
    const char *axes[2];
    uint32_t count = 0;
    for (uint32_t n = 0; n < 2; n++)
        axes[n] = a->sizes[attn_at(a, a->tensors[n].axes[2])->integer].name;
    const bool packed = exec_has(r, "packed"), shared = strcmp(axes[0], axes[1]) == 0;
    const AuLayout keys = exec_has(r, "paged")    ? AU_LAYOUT_PAGED
                          : exec_has(r, "padded") ? AU_LAYOUT_PADDED
                          : packed                ? AU_LAYOUT_PACKED
                                                  : AU_LAYOUT_DENSE;
    if (exec_has(r, "ragged"))
        out[count++] = (AuAxisLayout){.layout = AU_LAYOUT_PADDED,
                                      .axis = axes[0],
                                      .rows = exec_has(r, "lines"),
                                      .positions = exec_has(r, "turns")};
    const bool most = packed && exec_has(r, "most");
    if (packed)
        out[count++] = (AuAxisLayout){.layout = AU_LAYOUT_PACKED,
                                      .axis = axes[0],
                                      .positions = exec_has(r, "turns"),
                                      .most = most};
    if (keys && !((packed || exec_has(r, "ragged")) && shared))
        out[count++] = (AuAxisLayout){.layout = keys,
                                      .axis = axes[1],
                                      .rows = exec_has(r, "rows"),
                                      .csr = exec_has(r, "csr"),
                                      .positions = exec_has(r, "positions"),
                                      .most = most && keys == AU_LAYOUT_PACKED,
                                      .groups = groups};
    return count;
}

static AuFewForm form_of(const Run *r)
{
    return exec_has(r, "tall")      ? AU_FEW_TALL
           : exec_has(r, "crowded") ? AU_FEW_CROWDED
           : exec_has(r, "narrow")  ? AU_FEW_NARROW
                                    : AU_FEW_USUAL;
}

/* As the conditions of variants have it: strides that boxes can have, pages of multiples of their rows. */
static bool takes_boxes(const Run *r)
{
    const char *slots = strstr(r->c->sizes, "slots=");
    return !exec_has(r, "odd") && (!slots || atoi(slots + 6) % SCHEDULE_PAGE_ROWS == 0);
}

/* [as_any]: for any number of queries, whatever the case says. */
static bool build_for(Run *r, const AuScript *script, bool groups, bool as_any, AuVariant *v)
{
    uint32_t count;
    AuAttn *attn = front_check(r->arena, r->names, r->diags, script, &count)[0];
    const char *widths = exec_widths(r);
    for (const char *at = widths; at && *at; at = strchr(at, ';') ? strchr(at, ';') + 1 : NULL) {
        char name[2] = {*at, 0};
        attn->sizes[attn_size_of(attn, au_name(r->names, name))].fixed = atoi(at + 2);
    }
    attn_simplify(attn);
    driver_add_sizes(attn);
    AuAxisLayout layouts[2];
    const uint32_t layout = layouts_of(r, attn, groups, layouts);
    if (!driver_add_layouts(r->arena, r->diags, attn, layouts, layout))
        return exec_fail(r, "layout", "refused");
    AuStorage storage[2];
    const bool stored = exec_storage(r, storage);
    if (!driver_add_storage(r->arena, r->diags, attn, storage))
        return exec_fail(r, "storage", "refused");
    if (exec_has(r, "parts")) driver_add_parts(attn);
    const AuGrads *grads = r->grads ? attn_gradients(attn, r->arena, r->diags) : NULL;
    uint32_t row_count;
    const AuTensorRow *rows =
        driver_tensors(r->arena, layout || stored ? attn : r->attn, r->grads, &row_count);
    const AuDtype d = exec_dtype_of(r->dtype);
    *v = (AuVariant){.attn = attn,
                     .grads = grads,
                     .tensors = rows,
                     .tensor_count = row_count,
                     .operation = r->operation,
                     .deterministic = exec_has(r, "repeat"),
                     .invariant = exec_has(r, "invariant"),
                     .tf32 = exec_is_tf32(r),
                     .shapes = shapes_of(r),
                     .operand = d == AU_DT_F16    ? TILE_F16
                                : d == AU_DT_BF16 ? TILE_BF16
                                                  : TILE_F32};
    if (!exec_find_arch(r->arena, strchr(r->suite->name, ':') + 1, &v->target, &v->arch))
        return exec_fail(r, "no architecture", r->suite->name);
    const AuVariant any = *v;
    const AuQueries queries = exec_has(r, "few")      ? AU_FEW_QUERIES
                              : exec_has(r, "decode") ? AU_DECODE_QUERIES
                              : exec_has(r, "chunk")  ? AU_CHUNK_QUERIES
                              : exec_has(r, "some")   ? AU_SOME_QUERIES
                              : exec_has(r, "mixed")  ? AU_MIXED_QUERIES
                              : exec_has(r, "pages")  ? AU_PAGED_QUERIES
                                                      : AU_ANY_QUERIES;
    const bool few =
        r->operation == AU_FORWARD || (r->operation == AU_BACKWARD && queries == AU_DECODE_QUERIES);
    if (queries && few && !as_any) {
        v->queries = queries;
        v->balanced = exec_has(r, "balanced");
        v->form = form_of(r);
    } else
        v->boxes = takes_boxes(r);
    if (schedule_may_have_boxes(r->operation, v->queries)) v->boxes = takes_boxes(r);
    v->short_rows = v->boxes && !v->queries && !exec_has(r, "long");
    bool good = variant_build(r->arena, r->diags, v, r->c->script);
    const bool many = good && v->schedule && v->queries && r->operation == AU_BACKWARD &&
                      !exec_evaluate(r, v->condition); /* too many for them */
    if (many) v->schedule = NULL;
    if (good && !v->schedule && v->short_rows) {
        *v = any;
        v->boxes = takes_boxes(r);
        good = variant_build(r->arena, r->diags, v, r->c->script);
    }
    if (good && !v->schedule && v->queries && v->boxes && !many) {
        *v = any;
        v->queries = queries;
        v->balanced = exec_has(r, "balanced");
        v->form = form_of(r);
        good = variant_build(r->arena, r->diags, v, r->c->script);
    }
    if (good && !v->schedule) { /* an architecture or an attention without such kernels */
        *v = any;
        good = variant_build(r->arena, r->diags, v, r->c->script);
    }
    if (good) return true;
    AuText text = {.arena = r->arena};
    au_diags_render(r->diags, &text);
    return exec_fail(r, "variant", au_text_str(&text));
}

static bool build(Run *r, const AuScript *script, bool groups, AuVariant *v)
{
    return build_for(r, script, groups, false, v);
}

/* ---- tiled IR */

/* Tensors by the names of the tiled kernels; dense, in f32 or i32. */
static void tile_tensor(Run *r, AuTileTensor *out, const char *name, const Tensor *t,
                        AuTileElem elem)
{
    *out = (AuTileTensor){.name = name,
                          .rank = t->rank,
                          .fresh =
                              t->output && t->role != AULE_ROLE_POOL && r->operation != AU_APPEND};
    for (uint32_t d = 0; d < t->rank; d++) out->shape[d] = t->shape[d];
    const bool is_code = tile_elem(elem)->is_code;
    const bool whole = !is_code && (t->dtype == AU_DT_I32 || t->dtype == AU_DT_I64 ||
                                    t->dtype == AU_DT_U8 || t->dtype == AU_DT_BOOL);
    if (whole)
        out->i32 = AU_NEW_ARRAY(r->arena, int32_t, t->elements + 1);
    else
        out->f32 = AU_NEW_ARRAY(r->arena, float, t->elements + 1);
    for (size_t n = 0; n < t->elements; n++) {
        if (whole)
            out->i32[n] = (int32_t)t->values[n];
        else if (is_code)
            out->f32[n] = machine_decode(elem, (uint8_t)t->values[n]);
        else
            out->f32[n] = t->absent ? 0 : (float)t->values[n];
    }
}

static const AuTileMemory *argument(const AuTileModule *m, const char *name)
{
    for (uint32_t k = 0; k < m->kernels.count; k++)
        for (uint32_t a = 0; a < m->kernels.at[k]->args.count; a++)
            if (strcmp(m->kernels.at[k]->args.at[a]->name, name) == 0)
                return m->kernels.at[k]->args.at[a];
    return NULL;
}

static uint32_t tile_params(Run *r, AuTileScalar *out)
{
    uint32_t count = 0;
    for (uint32_t n = 0; n < r->attn->param_count; n++) {
        const char *name = hooks_name(r->arena, r->attn->params[n].name);
        const uint64_t bits = (uint64_t)r->params_i64[n];
        if (r->attn->params[n].dtype != AU_DT_I64)
            out[count++] = (AuTileScalar){name, r->params[n]};
        else
            for (uint32_t word = 0; word < 2; word++)
                out[count++] =
                    (AuTileScalar){au_format(r->arena, "%s_%s", name, word ? "high" : "low"),
                                   (double)(int32_t)(uint32_t)(bits >> (32 * word))};
    }
    return count;
}

static bool run_tiles(Run *r, const AuVariant *v, const AuTileModule *module)
{
    AuTileTensor tensors[MOST_TENSORS + AULE_MAX_REGIONS];
    AuTileScalar params[2 * MOST_SIZES];
    AuTileLaunch launch = {.tensors = tensors, .params = params, .seed = 7 + r->suite->order};
    for (uint32_t n = 0; n < v->bindings.tensor_count; n++) {
        const AuLowerTensor *b = &v->bindings.tensors[n];
        const AuTileMemory *memory = argument(module, b->name);
        if (!memory) continue;
        AuTileTensor *t = &tensors[launch.tensor_count++];
        if (b->slot == AULE_SLOT_TENSOR) {
            tile_tensor(r, t, b->name, &r->tensors[b->index], memory->type.elem);
            continue;
        }
        /* A region: its extents are those of the kernel's argument. */
        *t = (AuTileTensor){.name = b->name,
                            .rank = memory->type.count,
                            .fresh = !v->schedule->zeroed[b->index],
                            .workspace = true};
        size_t elements = 1;
        for (uint32_t d = 0; d < t->rank; d++) {
            AuLowering how = v->bindings;
            const AuTileMemory one = {
                .span = memory->span,
                .type = {.elem = TILE_U8, .count = 1, .axes = &memory->type.axes[d]}};
            t->shape[d] = exec_evaluate(
                r, lower_workspace_bytes(r->arena, r->diags, v->schedule->module,
                                         v->schedule->module->kernels.at[0], &one, &how));
            elements *= (size_t)t->shape[d];
        }
        if (memory->type.elem == TILE_I32)
            t->i32 = AU_NEW_ARRAY(r->arena, int32_t, elements + 1);
        else
            t->f32 = AU_NEW_ARRAY(r->arena, float, elements + 1);
    }
    launch.param_count = tile_params(r, params);
    if (!tile_run(r->diags, module, &launch)) {
        AuText text = {.arena = r->arena};
        au_diags_render(r->diags, &text);
        return exec_fail(r, "tiled IR", au_text_str(&text));
    }
    uint32_t at = 0;
    for (uint32_t n = 0; n < v->bindings.tensor_count; n++) {
        const AuLowerTensor *b = &v->bindings.tensors[n];
        if (!argument(module, b->name)) continue;
        const AuTileTensor *t = &tensors[at++];
        if (b->slot != AULE_SLOT_TENSOR || !r->tensors[b->index].output) continue;
        Tensor *o = &r->tensors[b->index];
        const AuTileElem elem = argument(module, b->name)->type.elem;
        const bool is_code = tile_elem(elem)->is_code;
        for (size_t i = 0; i < o->elements; i++)
            exec_put(o->bytes + exec_memory_index(o, i) * exec_bytes_of(o->dtype), o->dtype,
                     is_code ? machine_encode(elem, t->f32[i]) : (double)t->f32[i]);
    }
    return true;
}

bool exec_run_once(Run *r, const AuVariant *v)
{
    if (strncmp(r->suite->name, "tiled", 5) == 0) return run_tiles(r, v, v->schedule->module);
    if (strncmp(r->suite->name, "passed", 6) != 0) return exec_run_kernels(r, v);
    const AuTileModule *m = passes_run(r->arena, r->diags, v->schedule->module, NULL);
    return m && run_tiles(r, v, m);
}

/* `groups`, beside the oracle: sequences of other lengths. */
static bool run_uneven(Run *r, const AuScript *script, const AuVariant *with)
{
    AuVariant *without = AU_NEW(r->arena, AuVariant);
    return build(r, script, false, without) && exec_uneven_groups(r, with, without);
}

/* A list is for several sequences whose lines of the table have room for so many keys that they may differ. */
static bool is_for_uneven_keys(Run *r, const AuVariant *v)
{
    if (v->attn->keys.layout != AU_LAYOUT_PAGED || v->attn->keys.is_csr || v->attn->queries.layout)
        return true;
    Run *paged = exec_paged(r, v->attn);
    const AuNode *keys = attn_at(v->attn, v->attn->tensors[1].axes[2]);
    if (keys->op == AU_OP_SIZE) paged->sizes[keys->integer] = -1; /* in calls no tensor has it */
    const int64_t room = paged->tensors[v->attn->keys.table].shape[1] * paged->tensors[1].shape[2];
    const bool wanted =
        r->tensors[0].shape[0] >= SCHEDULE_UNEVEN_SEQUENCES && room > SCHEDULE_UNEVEN_KEYS;
    if ((exec_evaluate(paged, v->condition) != 0) == wanted) return true;
    return exec_fail(r, "condition", wanted ? "not for the call" : "for the call");
}

/* `balanced`: the same kernels without a list of parts. */
static bool run_uneven_keys(Run *r, const AuVariant *v)
{
    AuVariant *plain = AU_NEW(r->arena, AuVariant);
    if (!v->balanced || v->attn->queries.has_positions) return true;
    if (!is_for_uneven_keys(r, v)) return false;
    *plain = (AuVariant){.attn = v->attn,
                         .grads = v->grads,
                         .tensors = v->tensors,
                         .tensor_count = v->tensor_count,
                         .operation = v->operation,
                         .shapes = v->shapes,
                         .operand = v->operand,
                         .target = v->target,
                         .arch = v->arch,
                         .queries = v->queries,
                         .boxes = v->boxes};
    return variant_build(r->arena, r->diags, plain, r->c->script) &&
           exec_uneven_groups(r, v, plain);
}

/* Kernels for few queries that are packed or padded, beside the oracle: sequences with rows of their own. */
static bool run_uneven_rows(Run *r, const AuScript *script, const AuVariant *few)
{
    AuVariant *any = AU_NEW(r->arena, AuVariant);
    const AuAttn *a = few->attn;
    if (!a->queries.layout ||
        (few->queries != AU_DECODE_QUERIES && few->queries != AU_MIXED_QUERIES) ||
        attn_is_stored(a) || a->keys.has_positions || a->queries.has_positions)
        return true;
    return build_for(r, script, false, true, any) && exec_uneven_rows(r, few, any);
}

/* The rows of [r] in the variant's layout, and back; [rank]: those that the rank has, -1: all. */
static bool run_laid_out(Run *r, Run *stored, AuVariant *v, int64_t rank)
{
    const AuLayout layout = v->attn->keys.layout, queries = v->attn->queries.layout;
    Run *own = rank < 0 ? r : exec_turn(r, rank);
    if (rank >= 0) stored = exec_turn(stored, rank);
    if (v->attn->keys.has_positions) stored = exec_odd_keys(stored, v->attn);
    Run *laid_out = queries == AU_LAYOUT_PACKED   ? exec_packed(stored, v->attn)
                    : queries == AU_LAYOUT_PADDED ? exec_ragged(stored, v->attn)
                    : layout == AU_LAYOUT_PAGED   ? exec_paged(stored, v->attn)
                    : layout == AU_LAYOUT_PADDED  ? exec_padded(stored, v->attn)
                                                  : stored;
    if (rank >= 0) exec_say_turn(r, laid_out, rank);
    if (attn_is_stored(v->attn)) laid_out = exec_with_scales(stored, laid_out, v->attn);
    if (exec_has(r, "lengths")) exec_set_lengths(r, laid_out);
    if (r->has_others) exec_be_among_others(laid_out);
    const bool uneven = v->balanced || v->queries || v->attn->keys.has_groups; /* was there */
    if (!exec_run_variant(laid_out, v) || (!uneven && !exec_given_work(laid_out, v)) ||
        ((queries || layout) && !exec_unpack(own, laid_out)))
        return false;
    if (rank >= 0) exec_join_turn(r, own, rank);
    return true;
}

static bool run_all(Run *r, AuVariant *v)
{
    Run *stored = attn_is_stored(v->attn) ? exec_stored(r, v->attn) : r;
    if (!v->attn->queries.has_positions) return run_laid_out(r, stored, v, -1);
    for (int64_t rank = 0; rank < EXEC_RANKS; rank++)
        if (!run_laid_out(r, stored, v, rank)) return false;
    return true;
}

bool exec_interpret_operation(Run *r, const AuScript *script, AuOperation operation)
{
    AuVariant *v = AU_NEW(r->arena, AuVariant);
    exec_begin(r, operation);
    if (!build(r, script, exec_has(r, "groups"), v)) return false;
    if (v->attn->keys.has_groups && !run_uneven(r, script, v)) return false;
    if (!run_uneven_keys(r, v)) return false;
    if (!run_uneven_rows(r, script, v)) return false;
    if (!run_all(r, v)) return false;
    if (exec_has(r, "neighbours") && !exec_has_own_bits(r, v, run_all)) return false;
    if (strncmp(v->schedule->name, "linear_warps", 12) == 0)
        *(operation == AU_BACKWARD ? &r->back_chunk : &r->chunk) = v->schedule->shape.key_tile;
    return true;
}

bool exec_interpreted(Run *r, const AuScript *script)
{
    if (exec_has(r, "parts")) return exec_in_parts(r, script);
    const AuOperation first = exec_has(r, "step") ? AU_STEP : AU_FORWARD,
                      last = r->grads ? AU_BACKWARD : first;
    for (AuOperation op = first; op <= last; op++)
        if (!exec_interpret_operation(r, script, op)) return false;
    return true;
}
