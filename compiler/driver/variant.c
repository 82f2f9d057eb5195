/* variant.c - one variant: from an attention with fixed widths to kernels that a generator takes.
 * Each step verifies what it made; a failure of a verifier here is a fault of the compiler and
 * names the kernel. */
#include "append.h"
#include "driver.h"
#include "shapes.h"
#include "passes.h"
#include "grids.h"
#include "rank.h"
#include "slots.h"
#include "tensors.h"
#include "work.h"

#include "aule/artifact.h"

#include <string.h>

/* As kernels multiply them. */
static const char *operand_name(const AuVariant *v)
{
    return v->tf32 ? "tf32" : tile_elem(v->operand)->name;
}

const char *variant_symbol(AuArena *arena, const AuVariant *v, const char *kernel)
{
    AuText text = {.arena = arena};
    au_text_add(&text, "%s_%s", v->called ? v->called : v->attn->name, operand_name(v));
    for (uint32_t n = 0; n < v->attn->size_count; n++)
        if (v->attn->sizes[n].fixed >= 0) au_text_add(&text, "_%d", (int)v->attn->sizes[n].fixed);
    static const char *const queries[AU_QUERIES] = {"",     "pages_",  "mixed_", "some_",
                                                    "few_", "decode_", "chunk_"};
    static const char *const forms[] = {"", "crowded_", "tall_", "narrow_"};
    if (!v->target->same_code) au_text_add(&text, "_%s", v->arch->name);
    au_text_add(
        &text, "_%s%s%s%s%s%s%s%s", queries[v->queries], v->boxes ? "boxes_" : "",
        v->operation == AU_FORWARD ? "" : au_format(arena, "%s_", schedule_operation(v->operation)),
        v->by_slots ? "slots_" : "", v->short_rows ? "short_" : "",
        v->invariant  ? "invariant_"
        : v->balanced ? "balanced_"
                      : "",
        forms[v->form], kernel);
    for (char *c = text.at; *c; c++)
        if (strchr("-.@=:,", *c)) *c = '_';
    return au_text_str(&text);
}

const char *variant_prefix(AuArena *arena, const AuVariant *v, const char *arch)
{
    char *name = au_format(arena, "%s_%s", v->called ? v->called : v->attn->name, arch);
    for (char *c = name; *c; c++)
        if (strchr("-.@=:,", *c)) *c = '_';
    return name;
}

static void add_tensor(AuArena *arena, AuLowering *l, AuNames *names, const char *name,
                       uint32_t slot, uint32_t index, bool optional)
{
    AuLowerTensor *all = AU_NEW_ARRAY(arena, AuLowerTensor, l->tensor_count + 1);
    for (uint32_t n = 0; n < l->tensor_count; n++) all[n] = l->tensors[n];
    all[l->tensor_count++] = (AuLowerTensor){au_name(names, name), slot, index, optional};
    l->tensors = all;
}

static void add_scalar(AuArena *arena, AuLowering *l, AuLowerScalar scalar)
{
    AuLowerScalar *all = AU_NEW_ARRAY(arena, AuLowerScalar, l->scalar_count + 1);
    for (uint32_t n = 0; n < l->scalar_count; n++) all[n] = l->scalars[n];
    all[l->scalar_count++] = scalar;
    l->scalars = all;
}

static AuSpan largest_expression(AuArena *arena, const AuAttn *a)
{
    AuRoot *roots;
    AuSpan largest = a->span;
    uint32_t most = 0;
    const uint32_t count = attn_roots(a, arena, &roots);
    bool *mark = AU_NEW_ARRAY(arena, bool, a->node_count);
    for (uint32_t n = 0; n < count; n++) {
        uint32_t nodes = 0;
        memset(mark, 0, a->node_count);
        attn_mark(a, *roots[n].at, mark);
        for (uint32_t i = 1; i < a->node_count; i++) nodes += mark[i];
        if (nodes > most) most = nodes, largest = attn_at(a, *roots[n].at)->span;
    }
    return largest;
}

/* Names of the tiled kernels' arguments to the launch's slots: tensors, sizes, parameters. */
static AuLowering bind(AuArena *arena, const AuVariant *v, const AuSchedule *schedule)
{
    const AuAttn *a = v->attn;
    AuNames *names = schedule->module->names;
    AuLowering l = {.largest = largest_expression(arena, a),
                    .script = a->span,
                    .sources = v->sources,
                    .source_count = v->source_count};
    for (uint32_t n = 0; n < v->tensor_count; n++)
        add_tensor(arena, &l, names, v->tensors[n].kernel, AULE_SLOT_TENSOR, n,
                   v->tensors[n].flags & AULE_TENSOR_OPTIONAL);
    for (uint32_t n = 0; n < v->schedule->region_count; n++)
        add_tensor(arena, &l, names, v->schedule->regions[n], AULE_SLOT_WORKSPACE, n, false);
    for (uint32_t n = 0; n < a->size_count; n++)
        if (a->sizes[n].fixed < 0)
            add_scalar(arena, &l,
                       (AuLowerScalar){.name = au_name(names, hooks_name(arena, a->sizes[n].name)),
                                       .slot = AULE_SLOT_SIZE,
                                       .index = n});
    for (uint32_t n = 0; n < a->param_count; n++) {
        const char *name = hooks_name(arena, a->params[n].name);
        const bool wide = a->params[n].dtype == AU_DT_I64;
        AuLowerScalar s = {.slot = AULE_SLOT_PARAM,
                           .index = n,
                           .is_i64 = wide,
                           .is_f32 = a->params[n].dtype == AU_DT_F32};
        for (uint32_t word = 0; word < (wide ? 2u : 1u); word++) {
            s.name = au_name(names,
                             wide ? au_format(arena, "%s_%s", name, word ? "high" : "low") : name);
            s.word = wide ? word + 1 : 0;
            add_scalar(arena, &l, s);
        }
    }
    return l;
}

/* Of the regions from [first] on that the kernels of [m] have. */
static bool measure_workspace(AuArena *arena, AuDiags *diags, AuVariant *v, uint32_t first,
                              uint32_t end, const AuTileModule *m, const AuLowering *how)
{
    for (uint32_t r = first; r < end; r++) {
        const char *name = au_name(m->names, v->schedule->regions[r]);
        for (uint32_t k = 0; k < m->kernels.count; k++)
            for (uint32_t a = 0; a < m->kernels.at[k]->args.count; a++)
                if (m->kernels.at[k]->args.at[a]->name == name && !v->workspace[r].code)
                    v->workspace[r] = lower_workspace_bytes(arena, diags, m, m->kernels.at[k],
                                                            m->kernels.at[k]->args.at[a], how);
        if (!v->workspace[r].code) return false;
    }
    return true;
}

/* Pitches and beginnings that the lowering chose are in it. */
static bool fits(AuDiags *diags, AuVariant *v, const AuKernel *k)
{
    const uint32_t bytes = kernel_shared_bytes(k, NULL);
    const AuTileCaps *caps = tile_caps(v->arch->caps);
    if (caps->has_private || bytes <= (uint32_t)caps->shared_bytes) return true;
    v->too_large = (int32_t)bytes - caps->shared_bytes;
    au_error(diags, AU_E0709, v->attn->span, "%s takes %u bytes of shared memory, %s has %d",
             k->name, bytes, caps->name, caps->shared_bytes);
    return false;
}

static AuKernel *make_kernel(AuArena *arena, AuDiags *diags, AuVariant *v, const AuTileModule *m,
                             const AuTileKernel *tile, const AuLowering *how)
{
    AuKernel *k = lower_kernel(arena, diags, m, tile, how);
    if (!k) return NULL;
    k->name = variant_symbol(arena, v, tile->name);
    kernel_simplify(k);
    if (!kernel_verify(k, diags)) return NULL;
    kernel_legalize_math(k, v->target->native_math);
    const AuTileCaps *caps = tile_caps(v->arch->caps);
    kernel_legalize_codes(k, caps->converts | caps->decodes, caps->converts);
    if (!lower_is_small(diags, k, how)) return NULL;
    if (v->target->gathers)
        kernel_gather_offsets(k);
    else
        kernel_simplify(k);
    const uint32_t registers = (uint32_t)tile_caps(v->arch->caps)->processor_registers;
    return kernel_verify(k, diags) && kernel_verify_products(k, registers, diags) &&
                   fits(diags, v, k) && slots_verify(diags, v, k)
               ? k
               : NULL;
}

static bool make_kernels(AuArena *arena, AuDiags *diags, AuVariant *v, const AuTileModule *m,
                         const AuLowering *how)
{
    if (!m) return false;
    if (v->kernel_count + m->kernels.count > AULE_MAX_LAUNCHES) {
        au_error(diags, AU_E0811, v->attn->span, "more than %d kernels for one operation",
                 AULE_MAX_LAUNCHES);
        return false;
    }
    for (uint32_t n = 0; n < m->kernels.count; n++) {
        v->kernels[v->kernel_count] = make_kernel(arena, diags, v, m, m->kernels.at[n], how);
        if (!v->kernels[v->kernel_count++]) return false;
    }
    return true;
}

static bool overlap(AuDiags *diags, const AuVariant *v, const AuTileCaps *caps)
{
    bool good = true, are_short[1 + AULE_MAX_LAUNCHES] = {true};
    AuKernel *kernels[1 + AULE_MAX_LAUNCHES];
    if (caps->overlaps && v->operation == AU_APPEND)
        grids_let_next(v->kernels[v->kernel_count - 1]);
    if (!caps->overlaps || !v->schedule->overlaps) return true;
    for (uint32_t n = 0; n < v->kernel_count; n++) {
        kernels[1 + n] = v->kernels[n];
        are_short[1 + n] = work_makes(v, v->kernels[n]);
    }
    kernels[0] = v->operation == AU_FORWARD ? driver_append_writes(v->attn->arena, v->attn) : NULL;
    if (kernels[0])
        grids_overlap(kernels, are_short, 1 + v->kernel_count);
    else
        grids_overlap(kernels + 1, are_short + 1, v->kernel_count);
    for (uint32_t n = 0; n < v->kernel_count; n++)
        good = kernel_verify(v->kernels[n], diags) && good;
    return good;
}

/* The kernels that look for indices outside; their regions become the last of the schedule. */
static bool add_checks(AuArena *arena, AuDiags *diags, AuVariant *v, const AuProblem *problem)
{
    if (!schedule_checks(arena, diags, problem, &v->checks)) return false;
    const AuSchedule *checks = v->checks.schedule;
    AuSchedule *s = v->schedule;
    if (!checks) return true;
    if (s->region_count + checks->region_count > AULE_MAX_REGIONS) {
        au_error(diags, AU_E0811, v->attn->span, "more than %d regions of workspace with --checked",
                 AULE_MAX_REGIONS);
        return false;
    }
    for (uint32_t n = 0; n < v->checks.count; n++) v->checks.at[n].region += s->region_count;
    for (uint32_t n = 0; n < checks->region_count; n++) {
        s->zeroed[s->region_count] = checks->zeroed[n];
        s->regions[s->region_count++] = checks->regions[n];
    }
    return true;
}

/* How many queries a sequence has at most: those of packed ones all together are not what kernels for few ask for. */
static AuExpr most_queries(AuAttn *a)
{
    const AuRowLayout *rows = &a->queries;
    if (rows->layout != AU_LAYOUT_PACKED || !rows->says_most) return a->tensors[0].axes[2];
    return rows->most ? attn_node(a, AU_OP_SIZE, NULL, 0, (int32_t)rows->most - 1, 0, a->span)
                      : attn_node(a, AU_OP_PARAM, NULL, 0, (int32_t)rows->most_rows, 0, a->span);
}

static bool may_be_mixed(const AuAttn *a)
{
    return a->queries.layout == AU_LAYOUT_PACKED && a->queries.says_most;
}

/* Are there kernels for fewer rows of queries in a layout: for few alone, where a call says that there are few, and beside many; lists of parts are
 * of forward and of keys in a layout, gradients of rows that are counted together. */
static bool takes_few(const AuVariant *v)
{
    const AuAttn *a = v->attn;
    const bool backward = v->operation == AU_BACKWARD;
    if (backward && v->queries && v->queries != AU_DECODE_QUERIES) return false;
    if (v->balanced && (backward || !a->keys.layout)) return false;
    if (v->queries == AU_MIXED_QUERIES) return may_be_mixed(a);
    if (!v->queries || v->queries == AU_PAGED_QUERIES) return true;
    if (!attn_is_packed(a) && !a->queries.layout) return true;
    return may_be_mixed(a) || a->queries.layout == AU_LAYOUT_PADDED;
}

/* What a sequence gets must not depend on whether all have few queries: kernels for few run then if they do so beside many, too. */
static bool is_own(AuArena *arena, const AuProblem *p)
{
    return !p->invariant || !p->attn->queries.layout || schedule_takes_mixed(arena, p);
}

/* How many sequences there are. */
static AuExpr sequences(AuAttn *a)
{
    const AuSpan at = a->span;
    if (a->queries.layout != AU_LAYOUT_PACKED) return a->tensors[0].axes[0];
    return attn_op2(a, AU_OP_SUB,
                    attn_node(a, AU_OP_SIZE, NULL, 0, (int32_t)a->queries.ends, 0, at),
                    attn_i32(a, 1, at), at);
}

/* How many keys a sequence may have. Of pages no tensor has that axis: a table's entries times the slots of a page. */
static AuExpr room(AuAttn *a)
{
    const AuSpan at = a->span;
    if (a->keys.layout != AU_LAYOUT_PAGED) return a->tensors[1].axes[2];
    return attn_op2(a, AU_OP_MUL,
                    attn_node(a, AU_OP_SIZE, NULL, 0, (int32_t)a->keys.entries, 0, at),
                    attn_node(a, AU_OP_SIZE, NULL, 0, (int32_t)a->keys.slots, 0, at), at);
}

/* Where sequences have a quarter of what the longest has, some have few. Kernels for few alone come first. Calls that must not depend on the others have
 * one kernel for all that have as many. */
static AuExpr are_mixed(AuAttn *a, bool invariant, bool mixed)
{
    const AuSpan at = a->span;
    const AuExpr all = attn_op2(a, AU_OP_MUL, attn_i32(a, 4, at), a->tensors[0].axes[2], at),
                 room = attn_op2(a, AU_OP_MUL, sequences(a), most_queries(a), at);
    if (invariant) return attn_bool(a, mixed, at);
    return mixed ? attn_op2(a, AU_OP_LT, all, room, at) : attn_op2(a, AU_OP_LE, room, all, at);
}

static AuExpr at_most(AuAttn *a, AuExpr value, int32_t most)
{
    return attn_op2(a, AU_OP_LE, value, attn_i32(a, most, a->span), a->span);
}

/* Heads whose keys and values kernels for few queries take each for the rows of all query heads that share them (lanes_groups). */
static AuExpr groups_of_heads(AuAttn *a)
{
    const AuExpr of_keys = a->tensors[1].axes[1], of_values = a->tensors[2].axes[1];
    if (!schedule_has_value_heads(a)) return of_keys;
    return attn_op2(a, AU_OP_MAX, of_keys, of_values, a->span);
}

/* Have all sequences and heads so many keys that reading them twice takes longer than what a block of two tiles of rows loses? */
static AuExpr have_tall_keys(AuAttn *a)
{
    const AuSpan at = a->span;
    const AuExpr blocks = attn_op2(a, AU_OP_MUL, sequences(a), groups_of_heads(a), at),
                 keys = attn_op2(a, AU_OP_MUL, blocks, room(a), at);
    return attn_op2(a, AU_OP_LE, attn_i32(a, SCHEDULE_TALL_KEYS, at), keys, at);
}

/* Crowded: blocks enough. Tall: more rows than a tile, and keys enough that reading them twice takes longer than what a block of both tiles
 * loses where few blocks have work (warps_decode.c). */
static AuExpr has_form(AuAttn *a, AuFewForm form)
{
    const AuSpan at = a->span;
    const AuExpr heads = groups_of_heads(a);
    if (form == AU_FEW_CROWDED)
        return attn_op2(a, AU_OP_LE, attn_i32(a, SCHEDULE_CROWD, at),
                        attn_op2(a, AU_OP_MUL, sequences(a), heads, at), at);
    const AuExpr rows = attn_op2(a, AU_OP_MUL, most_queries(a), a->tensors[0].axes[1], at),
                 tile = attn_op2(a, AU_OP_MUL, attn_i32(a, SCHEDULE_TILE_ROWS, at), heads, at);
    return attn_op2(a, AU_OP_AND, attn_op2(a, AU_OP_LT, tile, rows, at), have_tall_keys(a), at);
}

/* "Hk % max(Hv, 1) == 0", of tensors [of] and [in] */
static AuExpr divides(AuAttn *a, uint32_t of, uint32_t in)
{
    const AuSpan at = a->span;
    const AuExpr heads = attn_op2(a, AU_OP_MAX, a->tensors[of].axes[1], attn_i32(a, 1, at), at),
                 rest = attn_op2(a, AU_OP_MOD, a->tensors[in].axes[1], heads, at);
    return attn_op2(a, AU_OP_EQ, rest, attn_i32(a, 0, at), at);
}

/* Has each head of keys one of values, or each of values one of keys? */
static AuExpr have_one_value_head(AuAttn *a)
{
    return attn_op2(a, AU_OP_OR, divides(a, 2, 1), divides(a, 1, 2), a->span);
}

/* Have sequences room for so many times as many keys as they have queries? */
static AuExpr have_keys(AuAttn *a, int32_t times)
{
    const AuSpan at = a->span;
    const AuExpr some = attn_op2(a, AU_OP_MUL, attn_i32(a, times, at), most_queries(a), at);
    return attn_op2(a, AU_OP_LE, some, room(a), at);
}

/* "32 * Hk < S * H && (S <= 128 && 2 * S <= T || B * S * H <= 32768 && 8 * S <= T)": measured (an H200, bf16, 32 heads on 8, pages of 16, us by other kernels
 * and by these): 16 rows of 64 sequences of 1024 keys 118 and 83, 64 of one of 65536 333 and 117, 512 of 16 of 8192 1850 and 2150, 1024 of one of 65536
 * 2400 and 1720, as many queries as keys 0.5 to 0.97 of the speed. */
static AuExpr has_chunk(AuAttn *a)
{
    enum { FEW = 2, MANY = 8 };
    const AuSpan at = a->span;
    const AuExpr queries = most_queries(a),
                 rows = attn_op2(a, AU_OP_MUL, queries, a->tensors[0].axes[1], at),
                 few = attn_op2(a, AU_OP_MUL, attn_i32(a, SCHEDULE_CHUNK_ROWS, at),
                                groups_of_heads(a), at),
                 all = attn_op2(a, AU_OP_MUL, sequences(a), rows, at),
                 chunk = attn_op2(a, AU_OP_AND, at_most(a, queries, SCHEDULE_CHUNK_QUERIES),
                                  have_keys(a, FEW), at),
                 leave = attn_op2(a, AU_OP_AND, at_most(a, all, SCHEDULE_CHUNK_ALL),
                                  have_keys(a, MANY), at);
    return attn_op2(a, AU_OP_AND, attn_op2(a, AU_OP_LT, few, rows, at),
                    attn_op2(a, AU_OP_OR, chunk, leave, at), at);
}

/* What kernels for few queries are taken for. */
typedef struct Few {
    int32_t queries, rows; /* at most: of a head, of the heads that share keys */
    bool
        more; /* more rows, too, where kernels for any number waste most of a block or of the processors */
    bool leaves_mixed;
} Few;

/* "S <= 32 && S * H <= 64 * Hk", or "S <= 32 || S <= 128 && (B * S * H <= 2048 || B * S * H <= 4096 && 131072 <= B * Hk * T)": measured (an H200, bf16, keys in pages of 16, 32 heads on 8, us by kernels for any
 * number and by these: 17 rows of one sequence of 65536 keys 1043 and 138, of 64 sequences of 4096 keys 1118 and 558; 64 rows 1046 and 347, 1143 and 1505; 5 rows of 32
 * heads on 2 over 16384 keys 261 and 19). */
static AuExpr has_few_rows(AuAttn *a, const Few *few, bool invariant)
{
    const AuSpan at = a->span;
    const AuExpr queries = most_queries(a), heads = a->tensors[0].axes[1],
                 rows = attn_op2(a, AU_OP_MUL, queries, heads, at),
                 is_few = at_most(a, queries, few->queries);
    if (!few->more) {
        const AuExpr most =
            attn_op2(a, AU_OP_MUL, attn_i32(a, few->rows, at), groups_of_heads(a), at);
        return attn_op2(a, AU_OP_AND, is_few, attn_op2(a, AU_OP_LE, rows, most, at), at);
    }
    if (invariant) return is_few; /* whatever the batch is */
    const AuExpr all = attn_op2(a, AU_OP_MUL, sequences(a), rows, at),
                 twice = attn_op2(a, AU_OP_AND, at_most(a, all, 2 * SCHEDULE_MORE_ROWS),
                                  have_tall_keys(a), at),
                 leave = attn_op2(a, AU_OP_OR, at_most(a, all, SCHEDULE_MORE_ROWS), twice, at),
                 some =
                     attn_op2(a, AU_OP_AND, at_most(a, queries, SCHEDULE_MORE_QUERIES), leave, at);
    return attn_op2(a, AU_OP_OR, is_few, some, at);
}

/* "S <= 32", of kernels that have the rows of all heads of a group as above, beside kernels for both "B S <= 4 rows", and of pages that come by boxes "T_slots % 16 == 0". */
static bool set_condition(AuArena *arena, AuDiags *diags, AuVariant *v, const Few *few)
{
    AuAttn *a = v->attn;
    const AuSpan at = a->span;
    if (v->queries == AU_PAGED_QUERIES && !v->boxes) return true; /* pages of any size */
    AuExpr test = v->queries == AU_PAGED_QUERIES    ? attn_bool(a, true, at)
                  : v->queries == AU_MIXED_QUERIES  ? are_mixed(a, v->invariant, true)
                  : v->queries == AU_CHUNK_QUERIES  ? has_chunk(a)
                  : v->queries == AU_DECODE_QUERIES ? has_few_rows(a, few, v->invariant)
                                                    : at_most(a, most_queries(a), few->queries);
    if ((schedule_counts_groups(v->queries) || v->queries == AU_MIXED_QUERIES) &&
        schedule_has_value_heads(a))
        test = attn_op2(a, AU_OP_AND, test, have_one_value_head(a), at);
    if (v->form == AU_FEW_CROWDED || v->form == AU_FEW_TALL)
        test = attn_op2(a, AU_OP_AND, test, has_form(a, v->form), at);
    if (few->leaves_mixed)
        test = attn_op2(a, AU_OP_AND, test, are_mixed(a, v->invariant, false), at);
    if (v->balanced) {
        const AuExpr several = attn_op2(a, AU_OP_LE, attn_i32(a, SCHEDULE_UNEVEN_SEQUENCES, at),
                                        sequences(a), at),
                     some_keys =
                         attn_op2(a, AU_OP_LT, attn_i32(a, SCHEDULE_UNEVEN_KEYS, at), room(a), at);
        test = attn_op2(a, AU_OP_AND, test, several, at);
        if (!a->keys.is_csr) test = attn_op2(a, AU_OP_AND, test, some_keys, at);
    }
    if (a->keys.layout == AU_LAYOUT_PAGED && v->boxes) {
        const AuExpr slots = attn_node(a, AU_OP_SIZE, NULL, 0, (int32_t)a->keys.slots, 0, at),
                     rest = attn_op2(a, AU_OP_MOD, slots, attn_i32(a, SCHEDULE_PAGE_ROWS, at), at);
        test =
            attn_op2(a, AU_OP_AND, test, attn_op2(a, AU_OP_EQ, rest, attn_i32(a, 0, at), at), at);
    }
    return launch_code(arena, diags, a, test, &v->condition);
}

/* Most queries, or of backward rows of the heads that share keys, of kernels for few; 0: there are none, *why says why of gradients on
 * machines that have such kernels. */
static int32_t few_limit(AuArena *arena, const AuProblem *p, AuOperation operation,
                         const char **why)
{
    const AuFamily *family = schedule_family(p->attn);
    *why = NULL;
    if (operation == AU_BACKWARD) return family->back_limit ? family->back_limit(arena, p, why) : 0;
    return family->limit(arena, p);
}

static bool begin_few(AuArena *arena, AuDiags *diags, AuVariant *v, const AuProblem *p,
                      AuHooks *hooks, int32_t limit)
{
    const bool few_rows = v->queries == AU_FEW_QUERIES || v->queries == AU_SOME_QUERIES;
    const Few few = {.queries = limit,
                     .rows = schedule_decode_rows(arena, p),
                     .more = schedule_takes_more_rows(arena, p),
                     .leaves_mixed = few_rows && may_be_mixed(v->attn) && p->caps->has_private &&
                                     schedule_takes_mixed(arena, p)};
    return set_condition(arena, diags, v, &few) &&
           (v->queries == AU_PAGED_QUERIES || hooks_join(hooks, diags, v->attn));
}

/* "S <= 4096": of packed rows those of the longest sequence, where a call says them, so that a sequence has the tiles that a dense call of it has. */
static bool set_short_condition(AuArena *arena, AuDiags *diags, AuVariant *v)
{
    AuAttn *a = v->attn;
    const AuExpr most = attn_i32(a, SCHEDULE_SHORT_ROWS, a->span);
    return launch_code(arena, diags, a, attn_op2(a, AU_OP_LE, most_queries(a), most, a->span),
                       &v->condition);
}

/* "0 <= slots_rows": the call has slots. */
static bool set_slots_condition(AuArena *arena, AuDiags *diags, AuVariant *v)
{
    AuAttn *a = v->attn;
    const AuExpr zero = attn_i32(a, 0, a->span), rows = driver_new_size(a, AU_SLOTS_ROWS);
    return launch_code(arena, diags, a, attn_op2(a, AU_OP_LE, zero, rows, a->span), &v->condition);
}

static bool say_codes(AuArena *arena, AuVariant *v)
{
    const char *feature = v->target->codes_feature;
    bool has = false;
    for (uint32_t n = 0; n < v->kernel_count; n++) has |= kernel_has_codes(v->kernels[n]);
    if (has && feature && !strstr(v->features, feature))
        v->features = au_format(arena, "%s %s", v->features, feature);
    return true;
}

/* Readers of artifacts that know no maps, or none that are cut, leave alone what has these words among its features. */
static bool say_maps(AuArena *arena, AuDiags *diags, AuVariant *v)
{
    uint32_t count = 0;
    bool cut = false;
    for (uint32_t n = 0; n < v->kernel_count; n++) {
        const AuKernel *k = v->kernels[n];
        count += k->map_count;
        for (uint32_t m = 0; m < k->map_count; m++) cut |= k->maps[m].cut != 0;
    }
    if (count)
        v->features = au_format(arena, "%s tensor_maps%s", v->features, cut ? " cut_maps" : "");
    if (count <= AULE_MAX_MAPS) return true;
    au_error(diags, AU_E0608, v->attn->span,
             "%u tensor maps for one operation; there is room for %d", count, AULE_MAX_MAPS);
    return false;
}

bool variant_try(AuArena *arena, AuDiags *diags, AuVariant *v, const char *source_name)
{
    if (!takes_few(v)) return true; /* one kernel for any number */
    AuAttn *a = v->attn;
    const AuTileCaps *caps = tile_caps(v->arch->caps);
    const bool finishes =
        v->operation == AU_FORWARD || v->operation == AU_BACKWARD || v->operation == AU_STEP;
    AuHooks *hooks =
        hooks_make(arena, diags, a, caps,
                   v->operation == AU_BACKWARD ? AU_HOOKS_OF_GRADIENTS : AU_HOOKS_OF_RESULTS);
    if (!hooks || (v->grads && !hooks_backward(hooks, diags, a, v->grads))) return false;
    const AuProblem problem = {.attn = a,
                               .hooks = hooks,
                               .caps = caps,
                               .operand = v->operand,
                               .grads = finishes ? v->grads : NULL,
                               .unfinished = v->operation == AU_UNFINISHED,
                               .deterministic = v->deterministic,
                               .invariant = v->invariant,
                               .balanced = v->balanced,
                               .tf32 = v->tf32,
                               .queries = v->queries,
                               .form = v->form,
                               .short_rows = v->short_rows,
                               .by_slots = v->by_slots,
                               .boxes = v->boxes,
                               .spare_shared = v->spare_shared,
                               .shapes = v->shapes,
                               .row = &v->row,
                               .d = (int32_t)hooks_expr(hooks, a, a->tensors[0].axes[3])->integer,
                               .e = (int32_t)hooks_expr(hooks, a, a->tensors[2].axes[3])->integer};
    const bool backward = v->operation == AU_BACKWARD;
    const char *why;
    if (v->queries) {
        const int32_t limit = few_limit(arena, &problem, v->operation, &why);
        if (!limit && !backward && v->queries == AU_DECODE_QUERIES)
            v->without_few = schedule_few_refusal(&problem);
        if (!limit || !is_own(arena, &problem)) return true;
        if (v->balanced && !schedule_balances(arena, &problem)) return true;
        if (!schedule_has_form(arena, &problem, v->form)) return true;
        if (!backward && !begin_few(arena, diags, v, &problem, hooks, limit)) return false;
    }
    if (v->operation == AU_COMBINE && !hooks_join(hooks, diags, a)) return false;
    if (v->by_slots && !set_slots_condition(arena, diags, v)) return false;
    const bool boxes = schedule_has_boxes(arena, &problem, v->operation, &why);
    if (v->boxes && !boxes) return true;
    if (v->short_rows) {
        if (v->invariant || !schedule_has_short(arena, &problem, v->operation)) return true;
        if (!set_short_condition(arena, diags, v)) return false;
    }
    if (v->operation == AU_FORWARD && schedule_joins_warps(arena, &problem) &&
        !hooks_join(hooks, diags, a))
        return false;
    v->schedule = schedule_choose(arena, diags, &problem, v->operation);
    if (!v->schedule) return false;
    if (v->balanced && !v->schedule->shape.part_start) { /* by rule, or a row of text */
        v->schedule = NULL;
        return true;
    }
    if (v->ranks) { /* that is all that is asked for */
        v->ranking = schedule_ranking_text(arena, &problem, v->schedule);
        return true;
    }
    const int32_t tile =
        v->schedule->shape.query_tile; /* has all rows of the heads that share keys */
    if (backward && v->queries &&
        !set_condition(arena, diags, v, &(Few){.queries = tile, .rows = tile}))
        return false;
    if (!boxes && why && !v->queries)
        v->schedule->name = au_format(arena, "%s # no boxes: %s", v->schedule->name, why);
    if (backward && !v->queries && !v->boxes && !few_limit(arena, &problem, v->operation, &why) &&
        why)
        v->schedule->name = au_format(arena, "%s # few queries, too: %s", v->schedule->name, why);
    v->features = v->arch->features;
    const uint32_t own = v->schedule->region_count;
    /* unfinished looks at all that the script reads for combine; append is given no queries. */
    const bool reads = v->operation != AU_COMBINE && v->operation != AU_APPEND;
    if (v->checked && reads && !add_checks(arena, diags, v, &problem)) return false;
    const char *banner =
        au_format(arena, "%s: attention %s, %s, widths %d and %d, for %s%s%s\nschedule: %s",
                  source_name, a->name, operand_name(v), problem.d, problem.e, v->target->name,
                  v->target->same_code ? "" : " ", v->target->same_code ? "" : v->arch->name,
                  v->schedule->name);
    const AuSchedule *checks = v->checks.schedule;
    if (checks) {
        AuLowering how = bind(arena, v, checks);
        how.banner = banner;
        if (!make_kernels(arena, diags, v, passes_run(arena, diags, checks->module, NULL), &how) ||
            !measure_workspace(arena, diags, v, own, v->schedule->region_count, checks->module,
                               &how))
            return false;
    }
    v->bindings = bind(arena, v, v->schedule);
    v->bindings.banner = banner;
    return make_kernels(arena, diags, v, passes_run(arena, diags, v->schedule->module, NULL),
                        &v->bindings) &&
           work_verify(diags, v) && overlap(diags, v, caps) &&
           measure_workspace(arena, diags, v, 0, own, v->schedule->module, &v->bindings) &&
           say_codes(arena, v) && say_maps(arena, diags, v);
}

/* The first error since then; the script has one already. */
static const char *first_error(const AuDiags *diags, const AuDiags *before)
{
    const AuDiag *d = before->last ? before->last->next : diags->first;
    while (d && d->severity != AU_ERROR) d = d->next;
    return d ? d->message : "its kernels are refused";
}

/* A row of a table is a wish: the rule decides where it does not do, and that is said. */
static bool build_by_rule(AuArena *arena, AuDiags *diags, AuVariant *v, const char *source_name,
                          const AuShapeRow *row, const char *why)
{
    au_warning(diags, AU_W0601, row->span,
               "this row does not do for %s %s of '%s' on %s, where the rule decides: %s",
               operand_name(v), schedule_operation(v->operation), v->attn->name, v->arch->caps,
               why);
    v->shapes = shapes_without(arena, v->shapes, row, NULL);
    return variant_build(arena, diags, v, source_name);
}

/* What was asked for is made or refused, with what would do instead. */
static void refuse_shape(AuArena *arena, AuDiags *diags, const AuVariant *v,
                         const char *source_name, const AuShapeRow *row, const char *why)
{
    AuDiag *error = au_error(diags, AU_E0811, row->span, "%s", why);
    const char *instead = fit_instead(arena, diags, v, row, source_name);
    if (instead) au_add_note(diags, error, row->span, "%s", instead);
}

/* Shapes count tiles; rows that a pass makes of others, and sums of lanes, are in kernels alone. Where those do not fit, shapes of the rule leave them room, twice
 * as much each time. */
static bool build_smaller(AuArena *arena, AuDiags *diags, AuVariant *v, const AuVariant *given,
                          const char *source_name, const AuDiags *before)
{
    enum { LEAST = 256 };
    const int32_t first = v->too_large > LEAST ? v->too_large : LEAST,
                  spare = given->spare_shared ? 2 * given->spare_shared : first;
    au_diags_back(diags, before);
    *v = *given;
    v->spare_shared = spare;
    return variant_build(arena, diags, v, source_name);
}

/* An error in a text of ours says nothing of the script: a note names the attention and what was asked for. */
bool variant_build(AuArena *arena, AuDiags *diags, AuVariant *v, const char *source_name)
{
    enum { MOST_SPARE = 4096 };
    const AuDiags before = *diags;
    const AuVariant given = *v;
    if (variant_try(arena, diags, v, source_name)) return true;
    const AuShapeRow *row = v->row;
    AuDiag *last = diags->last;
    if (v->too_large && v->boxes && given.spare_shared < MOST_SPARE && (!row || row->own))
        return build_smaller(arena, diags, v, &given, source_name, &before);
    if (row && !row->own) {
        const bool complete = last && last->span.source == row->span.source;
        const char *why = first_error(diags, &before);
        if (row->which == SHAPES_FORCED && !complete)
            why = au_format(arena, "%s does not do for %s %s on %s: %s", shape_row_text(arena, row),
                            operand_name(v), schedule_operation(v->operation), v->arch->caps, why);
        au_diags_back(diags, &before);
        *v = given;
        if (row->which == SHAPES_TUNED)
            return build_by_rule(arena, diags, v, source_name, row, why);
        refuse_shape(arena, diags, &given, source_name, row, why);
        return false;
    }
    if (last && last->span.source != v->attn->span.source)
        au_add_note(diags, last, v->attn->span,
                    "while making kernels of '%s': %s, %s, %s %s; a fault or a limit of the "
                    "compiler, not of the script",
                    v->attn->name, schedule_operation(v->operation), operand_name(v),
                    v->target->name, v->arch->name);
    return false;
}
