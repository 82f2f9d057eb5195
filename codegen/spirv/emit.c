/* emit.c - regions as structured control flow, and the module around the kernels. */
#include "emit.h"

/* ---- values */

void spirv_set(SpvEmit *e, AuVal v, uint32_t element, SpvId id)
{
    if (!e->values[v.i]) {
        const uint32_t width = kernel_at(e->k, v)->type.width;
        e->values[v.i] = AU_NEW_ARRAY(e->m->arena, SpvId, width ? width : 1);
    }
    e->values[v.i][element] = id;
}

static SpvId constant(SpvModule *m, const AuInstr *in)
{
    switch ((AuScalar)in->type.scalar) {
    case AU_F32: return spirv_f32(m, in->number);
    case AU_F16: return spirv_u32(m, kernel_to_f16(in->number));
    case AU_BF16: return spirv_u32(m, kernel_to_bf16(in->number));
    case AU_U8: return spirv_u32(m, (uint32_t)in->imm & 255);
    case AU_I1:
    case AU_I32:
    case AU_I64:
    case AU_VOID:
    case AU_SCALARS: break;
    }
    const bool wide = in->type.scalar == AU_I64;
    return spirv_bits(m, (AuScalar)in->type.scalar, wide ? (uint64_t)in->imm : (uint32_t)in->imm);
}

/* Where it is read and not computed; 0: it is computed. */
static SpvId place_of(const SpvEmit *e, const AuInstr *in)
{
    switch ((int)in->op) {
    case AU_K_ARG: return e->args[in->imm];
    case AU_K_BLOCK: return e->block[in->imm];
    case AU_K_BLOCKS: return e->blocks[in->imm];
    case AU_K_WARP: return e->warp;
    case AU_K_LANE: return e->lane;
    }
    return 0;
}

SpvId spirv_value(SpvEmit *e, AuVal v, uint32_t element)
{
    const AuInstr *in = kernel_at(e->k, v);
    if (in->op == AU_K_CONST) return constant(e->m, in);
    if (e->words[v.i]) return spirv_unpacked(e, v, element);
    if (e->halves[v.i].word) return spirv_of_half(e, v);
    const SpvId place = place_of(e, in);
    const SpvId id = place ? place : e->values[v.i] ? e->values[v.i][element] : 0;
    return spirv_seen(e, id, spirv_scalar(e->m, (AuScalar)in->type.scalar));
}

SpvId spirv_seen(SpvEmit *e, SpvId id, SpvId type)
{
    SpvElement *x = e->element;
    if (!x || !id || id > x->last) return id;
    for (uint32_t n = 0; n < x->count; n++)
        if (x->taken[n].outside == id) return x->taken[n].inside;
    const SpvTaken taken = {.outside = id, .inside = spirv_id(e->m), .type = type};
    AU_PUSH(e->m->arena, x->taken, x->count, x->capacity, taken);
    return taken.inside;
}

void spirv_lacks(SpvEmit *e, const AuInstr *in)
{
    au_error(e->diags, AU_E0620, in->span, "kernel %s uses '%s', which %s does not have",
             e->k->name, kernel_op_info((AuKOp)in->op)->text, e->flavour->name);
    e->good = false;
    for (uint32_t n = 0; n < in->type.width; n++) /* something to go on with */
        spirv_set(e, (AuVal){(uint32_t)(in - e->k->instrs)}, n,
                  spirv_bits(e->m, (AuScalar)in->type.scalar, 0));
}

/* ---- control flow */

/* Whether executors of the block may decide differently. */
static bool parts(const SpvEmit *e, const AuInstr *in)
{
    for (uint32_t n = 0; n < in->count; n++)
        if (e->executors.kind[kernel_operand(e->k, in, n).i] != AU_UNIFORM) return true;
    return false;
}

static void loop(SpvEmit *e, AuVal v)
{
    static const uint32_t how[] = {
        [AU_UNROLL_AUTO] = 0, [AU_UNROLL_FULL] = 1, [AU_UNROLL_NEVER] = 2};
    SpvModule *m = e->m;
    const AuInstr in = *kernel_at(e->k, v);
    const SpvId word = spirv_scalar(m, AU_I32), truth = spirv_scalar(m, AU_I1);
    const SpvId low = spirv_operand(e, &in, 0, 0), high = spirv_operand(e, &in, 1, 0);
    const SpvId step = spirv_u32(m, (uint32_t)in.imm), before = m->f->label;
    const SpvId head = spirv_id(m), turn = spirv_id(m), next = spirv_id(m), end = spirv_id(m);
    const SpvId now = spirv_id(m), then = spirv_id(m);
    const bool apart = parts(e, &in);
    spirv_branch(m, head);
    spirv_label(m, head);
    spirv_do(m, SPV_Phi, SPV_WORDS(word, now, low, before, then, next));
    spirv_name(m, now, in.text);
    const SpvId goes_on =
        spirv_make2(m, in.imm > 0 ? SPV_SLessThan : SPV_SGreaterThan, truth, now, high);
    spirv_do(m, SPV_LoopMerge, SPV_WORDS(end, next, how[in.unroll]));
    spirv_do(m, SPV_BranchConditional, SPV_WORDS(goes_on, turn, end));
    spirv_label(m, turn);
    spirv_set(e, v, 0, now);
    e->parted += apart;
    spirv_region(e, in.body);
    e->parted -= apart;
    spirv_branch(m, next);
    spirv_label(m, next);
    spirv_do(m, SPV_IAdd, SPV_WORDS(word, then, now, step));
    spirv_branch(m, head);
    spirv_label(m, end);
    if (e->flavour->meets_after_loops && kernel_has_barrier(e->k, in.body)) spirv_meet(e);
}

static void branch(SpvEmit *e, const AuInstr *in)
{
    SpvModule *m = e->m;
    const SpvId condition = spirv_operand(e, in, 0, 0);
    const SpvId inside = spirv_id(m), end = spirv_id(m), other = in->other ? spirv_id(m) : end;
    const bool apart = parts(e, in);
    spirv_do(m, SPV_SelectionMerge, SPV_WORDS(end, 0));
    spirv_do(m, SPV_BranchConditional, SPV_WORDS(condition, inside, other));
    e->parted += apart;
    spirv_label(m, inside);
    spirv_region(e, in->body);
    spirv_branch(m, end);
    if (in->other) {
        spirv_label(m, other);
        spirv_region(e, in->other);
        spirv_branch(m, end);
    }
    e->parted -= apart;
    spirv_label(m, end);
}

static void instruction(SpvEmit *e, AuVal v)
{
    const AuInstr *in = kernel_at(e->k, v);
    if (in->op == AU_K_CONST || in->op == AU_K_NOTE || place_of(e, in)) return;
    spirv_line(e, in->span);
    switch ((int)in->op) {
    case AU_K_LOAD: spirv_load(e, v); return;
    case AU_K_STORE: spirv_store(e, in); return;
    case AU_K_ATOMIC_ADD:
    case AU_K_ATOMIC_INC: spirv_atomic(e, v); return;
    case AU_K_BARRIER: spirv_barrier(e, in); return;
    case AU_K_HINT: return;
    case AU_K_FOR: loop(e, v); return;
    case AU_K_IF: branch(e, in); return;
    case AU_K_MMA:
        if (!e->flavour->products) break;
        spirv_product(e, v);
        return;
    case AU_K_BLOCK_LOAD:
    case AU_K_BLOCK_GATHER:
        if (!e->flavour->blocks) break;
        spirv_block_load(e, v);
        return;
    case AU_K_BLOCK_AHEAD:
        if (!e->flavour->blocks) break;
        spirv_block_ahead(e, in);
        return;
    case AU_K_MATRIX_EACH: spirv_each(e, in); return;
    case AU_K_MATRIX_ANY: spirv_any(e, v); return;
    case AU_K_MATRIX_ROW:
    case AU_K_MATRIX_COLUMN:
    case AU_K_MATRIX_GET:
    case AU_K_MATRIX_PUT: spirv_place(e, v); return;
    }
    const uint32_t flags = kernel_op_info((AuKOp)in->op)->flags;
    if (!(flags & AU_KF_LANES) || !e->subgroups)
        spirv_operation(e, v);
    else if (flags & AU_KF_OPAQUE)
        spirv_matrix(e, in);
    else
        spirv_exchange(e, v);
}

void spirv_region(SpvEmit *e, uint32_t first)
{
    for (uint32_t i = first; i; i = e->k->instrs[i].next) instruction(e, (AuVal){i});
}

/* ---- kernels */

void spirv_append(SpvModule *m, SpvSection to, const SpvWords *words)
{
    SpvWords *s = &m->sections[to];
    for (uint32_t n = 0; n < words->count; n++)
        AU_PUSH(m->arena, s->at, s->count, s->capacity, words->at[n]);
}

static void banner(SpvEmit *e)
{
    SpvModule *m = e->m;
    const bool is_string = e->flavour->banner == SPV_String;
    const SpvId id = is_string && e->k->banner ? spirv_id(m) : 0;
    if (e->k->banner)
        spirv_put_text(m, &m->sections[is_string ? SPV_STRINGS : SPV_NOTES], e->flavour->banner,
                       &id, is_string, e->k->banner, NULL, 0);
}

static void entry_point(SpvEmit *e, SpvId function)
{
    enum { FLOAT_BITS = 32, HALF_BITS = 16 };
    SpvModule *m = e->m;
    SpvWords *modes = &m->sections[SPV_MODES];
    spirv_put_text(m, &m->sections[SPV_ENTRIES], SPV_EntryPoint,
                   (uint32_t[]){e->flavour->execution_model, function}, 2, e->k->name, e->interface,
                   e->interface_count);
    spirv_put(m, modes, SPV_ExecutionMode,
              SPV_WORDS(function, SPV_MODE_LocalSize, e->k->lanes * e->k->warps, 1, 1));
    for (uint32_t n = 0; n < e->flavour->modes.count; n++)
        spirv_put(m, modes, SPV_ExecutionMode,
                  (uint32_t[]){function, e->flavour->modes.at[n], FLOAT_BITS},
                  e->flavour->modes_have_bits ? 3 : 2);
    if (e->flavour->asks_lanes) {
        spirv_capability(m, SPV_CAP_SubgroupDispatch);
        spirv_put(m, modes, SPV_ExecutionMode,
                  SPV_WORDS(function, SPV_MODE_SubgroupSize, e->k->lanes));
    }
    if (e->flavour->by_place ||
        e->flavour->by_component) /* sums that become operands are rounded to nearest */
        spirv_put(m, modes, SPV_ExecutionMode,
                  SPV_WORDS(function, SPV_MODE_RoundingModeRTE, HALF_BITS));
    spirv_name(m, function, e->k->name);
    banner(e);
}

static bool kernel(SpvModule *m, AuDiags *diags, const SpvFlavour *flavour, AuKernel *k)
{
    SpvEmit e = {.m = m, .flavour = flavour, .diags = diags, .k = k, .good = true};
    SpvFunction mine = {.label = 0};
    const bool coarse = flavour->native_coarse && (k->is_coarse || kernel_multiplies_halves(k));
    if (coarse) kernel_coarsen_math(k);
    e.math = k->instr_count;
    kernel_legalize_math(k, coarse ? flavour->native_coarse : flavour->native);
    e.values = AU_NEW_ARRAY(m->arena, SpvId *, k->instr_count);
    e.halves = AU_NEW_ARRAY(m->arena, SpvHalf, k->instr_count);
    e.words = AU_NEW_ARRAY(m->arena, SpvId *, k->instr_count);
    e.mems = AU_NEW_ARRAY(m->arena, SpvPlace, k->mem_count);
    e.args = AU_NEW_ARRAY(m->arena, SpvId, k->arg_count + 1);
    e.executors = kernel_lanes_of(k, m->arena, AU_OF_BLOCK);
    m->f = &mine;
    const SpvId nothing = spirv_scalar(m, AU_VOID), function = spirv_id(m), label = spirv_id(m);
    mine.label = label;
    spirv_open(&e);
    spirv_region(&e, k->body);
    if (flavour->close) flavour->close(&e);
    spirv_do(m, SPV_Return, NULL, 0);
    spirv_do(m, SPV_FunctionEnd, NULL, 0);
    uint32_t *types = AU_NEW_ARRAY(m->arena, uint32_t, e.parameter_count + 1);
    types[0] = nothing;
    for (uint32_t n = 0; n < e.parameter_count; n++) types[1 + n] = e.parameters[n].type;
    const SpvId signature = spirv_type(m, SPV_TypeFunction, types, 1 + e.parameter_count);
    SpvWords head = {0};
    spirv_put(m, &head, SPV_Function, SPV_WORDS(nothing, function, 0, signature));
    for (uint32_t n = 0; n < e.parameter_count; n++)
        spirv_put(m, &head, SPV_FunctionParameter,
                  SPV_WORDS(e.parameters[n].type, e.parameters[n].id));
    spirv_put(m, &head, SPV_Label, &label, 1);
    spirv_append(m, SPV_FUNCTIONS, &head);
    spirv_append(m, SPV_FUNCTIONS, &mine.variables);
    spirv_append(m, SPV_FUNCTIONS, &mine.body);
    entry_point(&e, function);
    return e.good;
}

bool spirv_kernels(AuArena *arena, AuDiags *diags, const SpvFlavour *flavour,
                   AuKernel *const *kernels, uint32_t count, SpvWords *out)
{
    SpvModule *m = spirv_new(arena, flavour);
    bool good = true;
    for (uint32_t n = 0; n < flavour->capabilities.count; n++)
        spirv_capability(m, flavour->capabilities.at[n]);
    m->functions = spirv_id(m);
    spirv_put_text(m, &m->sections[SPV_IMPORTS], SPV_ExtInstImport, &m->functions, 1, flavour->set,
                   NULL, 0);
    spirv_put(m, &m->sections[SPV_MODEL], SPV_MemoryModel,
              SPV_WORDS(flavour->addressing, flavour->memory_model));
    if (count) spirv_open_lines(m, kernels[0]);
    for (uint32_t n = 0; n < count; n++) good = kernel(m, diags, flavour, kernels[n]) && good;
    *out = spirv_finish(m);
    return good;
}
