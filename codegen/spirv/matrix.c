/* matrix.c - what the lanes of a subgroup do together: values that they give each other, and matrices whose elements lie as the device
 * likes (SPV_KHR_cooperative_matrix). A matrix is a variable of the function, and all operations on it are whole. Only for modules whose
 * loader asks for subgroups of as many lanes as the kernel's executors have. */
#include "emit.h"

enum { ROWS = 0, COLUMNS = 1 }; /* Cooperative Matrix Layout */

/* ---- values of other lanes */

static void needs(SpvModule *m, uint32_t capability)
{
    if (capability) spirv_capability(m, capability);
}

static SpvId exchanged(SpvEmit *e, const AuInstr *in, uint32_t element)
{
    SpvModule *m = e->m;
    const SpvExchange *how = &e->flavour->exchange;
    const SpvId type = spirv_scalar(m, (AuScalar)in->type.scalar);
    const uint32_t half = in->type.width / 2u;
    const SpvId scope = spirv_u32(m, SPV_SCOPE_SUBGROUP),
                of = spirv_operand(e, in, 0, in->op == AU_K_BOTH ? element % half : element);
    if (in->op == AU_K_ANY) {
        needs(m, how->for_any);
        return spirv_make2(m, how->any, type, scope, of);
    }
    needs(m, how->for_shuffle);
    const bool turned = in->op == AU_K_SHUFFLE_XOR;
    const uint32_t bit = (uint32_t)in->imm;
    const SpvId lane = turned ? spirv_u32(m, bit)
                       : in->op == AU_K_BOTH
                           ? spirv_make2(m, element < half ? SPV_BitwiseAnd : SPV_BitwiseOr,
                                         spirv_scalar(m, AU_I32), e->lane,
                                         spirv_u32(m, element < half ? ~bit : bit))
                           : spirv_make2(m, SPV_BitwiseAnd, spirv_scalar(m, AU_I32),
                                         spirv_operand(e, in, 1, 0), spirv_u32(m, e->k->lanes - 1));
    const uint32_t operands[] = {scope, of, lane}, first = how->shuffle_has_scope ? 0 : 1;
    return spirv_make(m, turned ? how->shuffle_xor : how->shuffle, type, operands + first,
                      3 - first);
}

void spirv_exchange(SpvEmit *e, AuVal v)
{
    const AuInstr *in = kernel_at(e->k, v);
    const bool known = in->op == AU_K_SHUFFLE || in->op == AU_K_SHUFFLE_XOR ||
                       in->op == AU_K_BOTH || in->op == AU_K_ANY;
    const bool words = in->op != AU_K_BOTH || kernel_scalar_bytes((AuScalar)in->type.scalar) == 4;
    if (!known || !words || e->of_block ||
        in->type.scalar == AU_I64) { /* which devices need not exchange */
        spirv_lacks(e, in);
        return;
    }
    needs(e->m, e->flavour->exchange.for_all);
    if (e->flavour->exchange.extension) spirv_extension(e->m, e->flavour->exchange.extension);
    for (uint32_t n = 0; n < in->type.width; n++) spirv_set(e, v, n, exchanged(e, in, n));
}

SpvId spirv_from_first(SpvEmit *e, SpvId v)
{
    SpvModule *m = e->m;
    const SpvExchange *how = &e->flavour->exchange;
    const uint32_t operands[] = {spirv_u32(m, SPV_SCOPE_SUBGROUP), v, spirv_u32(m, 0)},
                   first = how->shuffle_has_scope ? 0 : 1;
    needs(m, how->for_all);
    needs(m, how->for_shuffle);
    if (how->extension) spirv_extension(m, how->extension);
    return spirv_make(m, how->shuffle, spirv_scalar(m, AU_I32), operands + first, 3 - first);
}

/* ---- matrices */

SpvId spirv_matrix_variable(SpvEmit *e, AuMem mem, AuVal index)
{
    SpvModule *m = e->m;
    SpvPlace *place = &e->mems[mem.i];
    const AuInstr *which = kernel_at(e->k, index);
    if (!place->split) {
        const SpvId at = spirv_value(e, index, 0);
        return spirv_make2(m, SPV_AccessChain, place->pointer, place->base, at);
    }
    SpvId *one = &place->elements[which->imm];
    if (!*one) {
        *one = spirv_variable(m, place->element);
        spirv_name(m, *one,
                   au_format(m->arena, "%s_%u", e->k->mems[mem.i].name, (unsigned)which->imm));
    }
    return *one;
}

SpvId spirv_get_matrix(SpvEmit *e, AuMem mem, AuVal index)
{
    return spirv_make1(e->m, SPV_Load, e->mems[mem.i].element,
                       spirv_matrix_variable(e, mem, index));
}

void spirv_set_matrix(SpvEmit *e, AuMem mem, AuVal index, SpvId matrix)
{
    const SpvId to = spirv_matrix_variable(e, mem, index);
    spirv_do(e->m, SPV_Store, SPV_WORDS(to, matrix));
}

SpvId spirv_zero_matrix(SpvEmit *e, AuMem mem)
{
    const SpvId element = spirv_matrix_element(e->m, e->k->mems[mem.i].scalar);
    return spirv_make1(e->m, SPV_CompositeConstruct, e->mems[mem.i].element,
                       spirv_null(e->m, element));
}

/* A number as an element of the memory's matrices. */
static SpvId number(SpvEmit *e, AuMem mem, AuVal v)
{
    const SpvId wide = spirv_value(e, v, 0);
    if (e->k->mems[mem.i].scalar == AU_F32) return wide;
    return spirv_make1(e->m, SPV_FConvert, spirv_half(e->m), wide);
}

static void move(SpvEmit *e, const AuInstr *in)
{
    SpvModule *m = e->m;
    const bool load = in->op == AU_K_MATRIX_LOAD;
    const AuMem matrix = load ? in->mem : in->also[0], other = load ? in->also[0] : in->mem;
    const AuVal which = kernel_operand(e->k, in, load ? 0 : 1);
    const AuVal index = kernel_operand(e->k, in, load ? 1 : 0);
    const SpvId layout = spirv_u32(m, in->imm ? COLUMNS : ROWS);
    const uint32_t unit = e->mems[other.i].unit;
    const SpvId stride =
        unit
            ? spirv_u32(m, (uint32_t)kernel_at(e->k, kernel_operand(e->k, in, 2))->imm / (2 * unit))
            : spirv_operand(e, in, 2, 0);
    SpvId at;
    uint32_t kind[2] = {e->flavour->seen}, words = 1;
    if (unit)
        at = spirv_unit_at(e, other, index);
    else
        words = spirv_element(e, other, index, &at, kind);
    if (load) {
        const uint32_t operands[] = {at, layout, stride, kind[0], kind[1]};
        spirv_set_matrix(e, matrix, which,
                         spirv_make(m, SPV_CooperativeMatrixLoadKHR, e->mems[matrix.i].element,
                                    operands, 3 + words));
        return;
    }
    const uint32_t operands[] = {
        at, spirv_get_matrix(e, matrix, which), layout, stride, kind[0], kind[1]};
    spirv_do(m, SPV_CooperativeMatrixStoreKHR, operands, 4 + words);
}

static SpvId result(SpvEmit *e, const AuInstr *in)
{
    SpvModule *m = e->m;
    const SpvId type = e->mems[in->mem.i].element;
    const AuVal a = kernel_operand(e->k, in, 1);
    if (in->op == AU_K_MATRIX_FILL) {
        const SpvId all = number(e, in->mem, a);
        return spirv_make1(m, SPV_CompositeConstruct, type, all);
    }
    const SpvId x = spirv_get_matrix(e, in->also[0], a);
    if (in->op == AU_K_MATRIX_CVT) {
        if (e->k->mems[in->mem.i].use != e->k->mems[in->also[0].i].use)
            spirv_capability(m, SPV_CAP_CooperativeMatrixConversionsNV);
        return spirv_make1(m, SPV_FConvert, type, x);
    }
    if (in->op == AU_K_MATRIX_REDUCE || in->op == AU_K_MATRIX_REDUCE_COLUMNS)
        return spirv_reduced(e, in, x);
    const AuVal b = kernel_operand(e->k, in, 2);
    if (in->op == AU_K_MATRIX_SCALE)
        return spirv_make2(m, SPV_MatrixTimesScalar, type, x, number(e, in->mem, b));
    const SpvId y = spirv_get_matrix(e, in->also[1], b);
    if (in->op == AU_K_MATRIX_MUL) {
        const SpvId c = spirv_get_matrix(e, in->mem, kernel_operand(e->k, in, 0));
        return spirv_make(m, SPV_CooperativeMatrixMulAddKHR, type, SPV_WORDS(x, y, c));
    }
    const uint32_t op = in->imm == AU_K_ADD   ? SPV_FAdd
                        : in->imm == AU_K_SUB ? SPV_FSub
                        : in->imm == AU_K_MUL ? SPV_FMul
                                              : SPV_FDiv;
    const SpvId all = spirv_make2(m, op, type, x, y);
    spirv_exact(m, all);
    return all;
}

/* The device has matrices of these elements. */
static bool has_type(SpvEmit *e, const AuInstr *in, AuMem mem)
{
    const AuMemory *memory = &e->k->mems[mem.i];
    if (memory->space != AU_MATRIX || e->mems[mem.i].element) return true;
    au_error(e->diags, AU_E0620, in->span, "kernel %s uses matrices of %s, which %s does not have",
             e->k->name, kernel_scalar_name(memory->scalar), e->flavour->name);
    e->good = false;
    return false;
}

void spirv_matrix(SpvEmit *e, const AuInstr *in)
{
    if (!has_type(e, in, in->mem) || !has_type(e, in, in->also[0]) || !has_type(e, in, in->also[1]))
        return;
    if (in->op == AU_K_MATRIX_LOAD || in->op == AU_K_MATRIX_STORE)
        move(e, in);
    else if (in->op == AU_K_MATRIX_BLOCK_LOAD || in->op == AU_K_MATRIX_BLOCK_GATHER)
        spirv_surface(e, in);
    else
        spirv_set_matrix(e, in->mem, kernel_operand(e->k, in, 0), result(e, in));
}
