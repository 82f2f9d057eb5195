/* element.c - functions of an element. With SPV_NV_cooperative_matrix2 the region of a `matrix_each` becomes a function of the module, which the device
 * calls for each element of a matrix with its row and column, the elements of other matrices at the same place, and what else the region
 * takes of the kernel, each a parameter. Reductions call a function of two numbers. With KHR's extension alone it becomes a loop over the components that a lane has, of
 * which kernels know places by matrices of positions: components of matrices of one type lie alike, which the loader has tried. */
#include "emit.h"

/* ---- in the function */

static SpvId component_of(SpvEmit *e, AuMem mem, AuVal at)
{
    const SpvId pointer = spirv_pointer(e->m, SPV_IN_Function, spirv_scalar(e->m, AU_F32));
    return spirv_make2(e->m, SPV_AccessChain, pointer, spirv_matrix_variable(e, mem, at),
                       e->element->component);
}

/* The element of that matrix here: a parameter, the first one that of the first matrix. */
static SpvId element_of(SpvEmit *e, AuMem mem, AuVal at)
{
    SpvElement *x = e->element;
    if (x->component)
        return spirv_make1(e->m, SPV_Load, spirv_scalar(e->m, AU_F32), component_of(e, mem, at));
    if (!x->mem.i) x->mem = mem, x->at = at;
    if (x->mem.i == mem.i && x->at.i == at.i) return x->x;
    for (uint32_t n = 0; n < x->count; n++)
        if (!x->taken[n].outside && x->taken[n].mem.i == mem.i && x->taken[n].at.i == at.i)
            return x->taken[n].inside;
    const SpvTaken taken = {
        .inside = spirv_id(e->m), .type = spirv_scalar(e->m, AU_F32), .mem = mem, .at = at};
    AU_PUSH(e->m->arena, x->taken, x->count, x->capacity, taken);
    return taken.inside;
}

void spirv_place(SpvEmit *e, AuVal v)
{
    const AuInstr *in = kernel_at(e->k, v);
    SpvElement *x = e->element;
    if (!x) {
        spirv_lacks(e, in);
        return;
    }
    switch ((int)in->op) {
    case AU_K_MATRIX_ROW: spirv_set(e, v, 0, x->row); return;
    case AU_K_MATRIX_COLUMN: spirv_set(e, v, 0, x->column); return;
    case AU_K_MATRIX_GET:
        spirv_set(e, v, 0, element_of(e, in->mem, kernel_operand(e->k, in, 0)));
        return;
    }
    const SpvId value = spirv_operand(e, in, 0, 0);
    if (x->component)
        spirv_do(e->m, SPV_Store, SPV_WORDS(component_of(e, x->mem, x->at), value));
    else
        spirv_do(e->m, SPV_ReturnValue, &value, 1);
    x->puts = true;
}

/* ---- the function and its call */

static SpvId written(SpvEmit *e, const AuInstr *in, SpvElement *x)
{
    SpvModule *m = e->m;
    SpvFunction mine = {.label = 0}, *outside = m->f;
    const SpvId word = spirv_scalar(m, AU_I32), real = spirv_scalar(m, AU_F32);
    const SpvId label = spirv_id(m), function = spirv_id(m);
    x->row = spirv_id(m), x->column = spirv_id(m), x->x = spirv_id(m);
    mine.label = label;
    m->f = &mine;
    e->element = x;
    spirv_region(e, in->body);
    if (!x->puts) spirv_do(m, SPV_ReturnValue, &x->x, 1);
    spirv_do(m, SPV_FunctionEnd, NULL, 0);
    e->element = NULL;
    m->f = outside;
    const SpvTaken first[] = {{.inside = x->row, .type = word},
                              {.inside = x->column, .type = word},
                              {.inside = x->x, .type = real}};
    enum { FIRST = sizeof first / sizeof *first };
    uint32_t *types = AU_NEW_ARRAY(m->arena, uint32_t, 1 + FIRST + x->count);
    types[0] = real;
    for (uint32_t n = 0; n < FIRST; n++) types[1 + n] = first[n].type;
    for (uint32_t n = 0; n < x->count; n++) types[1 + FIRST + n] = x->taken[n].type;
    SpvWords head = {0};
    spirv_put(
        m, &head, SPV_Function,
        SPV_WORDS(real, function, 0, spirv_type(m, SPV_TypeFunction, types, 1 + FIRST + x->count)));
    for (uint32_t n = 0; n < FIRST + x->count; n++) {
        const SpvTaken *p = n < FIRST ? &first[n] : &x->taken[n - FIRST];
        spirv_put(m, &head, SPV_FunctionParameter, SPV_WORDS(p->type, p->inside));
    }
    spirv_put(m, &head, SPV_Label, &label, 1);
    spirv_append(m, SPV_FUNCTIONS, &head);
    spirv_append(m, SPV_FUNCTIONS, &mine.variables);
    spirv_append(m, SPV_FUNCTIONS, &mine.body);
    return function;
}

/* A loop over the components of a lane, which drivers write out, since they know how many there are. */
typedef struct Components {
    SpvId now, next, end, head, then;
} Components;

/* [type]: of the matrices. [carried]: type, id, beginning and id behind a turn of what goes from turn to turn; NULL: nothing does. */
static Components open_components(SpvEmit *e, SpvId type, const uint32_t carried[4])
{
    enum { UNROLL = 1 };
    SpvModule *m = e->m;
    const SpvId word = spirv_scalar(m, AU_I32), truth = spirv_scalar(m, AU_I1);
    const SpvId count = spirv_make1(m, SPV_CooperativeMatrixLengthKHR, word, type);
    const SpvId before = m->f->label, turn = spirv_id(m);
    const Components c = {spirv_id(m), spirv_id(m), spirv_id(m), spirv_id(m), spirv_id(m)};
    spirv_branch(m, c.head);
    spirv_label(m, c.head);
    spirv_do(m, SPV_Phi, SPV_WORDS(word, c.now, spirv_u32(m, 0), before, c.then, c.next));
    if (carried)
        spirv_do(m, SPV_Phi,
                 SPV_WORDS(carried[0], carried[1], carried[2], before, carried[3], c.next));
    const SpvId goes_on = spirv_make2(m, SPV_SLessThan, truth, c.now, count);
    spirv_do(m, SPV_LoopMerge, SPV_WORDS(c.end, c.next, UNROLL));
    spirv_do(m, SPV_BranchConditional, SPV_WORDS(goes_on, turn, c.end));
    spirv_label(m, turn);
    return c;
}

static void close_components(SpvEmit *e, const Components *c)
{
    SpvModule *m = e->m;
    spirv_branch(m, c->next);
    spirv_label(m, c->next);
    spirv_do(m, SPV_IAdd, SPV_WORDS(spirv_scalar(m, AU_I32), c->then, c->now, spirv_u32(m, 1)));
    spirv_branch(m, c->head);
    spirv_label(m, c->end);
}

static void by_component(SpvEmit *e, const AuInstr *in, SpvId type)
{
    const Components c = open_components(e, type, NULL);
    SpvElement x = {.component = c.now, .mem = in->mem, .at = kernel_operand(e->k, in, 0)};
    e->element = &x;
    spirv_region(e, in->body);
    e->element = NULL;
    close_components(e, &c);
}

void spirv_each(SpvEmit *e, const AuInstr *in)
{
    SpvModule *m = e->m;
    const SpvId type = e->mems[in->mem.i].element;
    if (e->flavour->by_component && type) {
        by_component(e, in, type);
        return;
    }
    if (!e->flavour->by_place || !type) {
        spirv_lacks(e, in);
        return;
    }
    spirv_extension(m, "SPV_NV_cooperative_matrix2");
    spirv_capability(m, SPV_CAP_CooperativeMatrixPerElementOperationsNV);
    SpvElement x = {.last = m->ids};
    const SpvId function = written(e, in, &x);
    uint32_t *words = AU_NEW_ARRAY(m->arena, uint32_t, 2 + x.count);
    const SpvId none = spirv_f32(m, 0);
    words[0] = x.mem.i ? spirv_get_matrix(e, x.mem, x.at)
                       : spirv_make1(m, SPV_CompositeConstruct, type, none);
    words[1] = function;
    for (uint32_t n = 0; n < x.count; n++)
        words[2 + n] = x.taken[n].outside ? x.taken[n].outside
                                          : spirv_get_matrix(e, x.taken[n].mem, x.taken[n].at);
    const SpvId all = spirv_make(m, SPV_CooperativeMatrixPerElementOpNV, type, words, 2 + x.count);
    if (x.puts) spirv_set_matrix(e, in->mem, kernel_operand(e->k, in, 0), all);
}

enum { ROW = 1, COLUMN = 2 }; /* Cooperative Matrix Reduce Mode */

static SpvId reduced(SpvEmit *e, SpvId type, SpvId x, uint32_t mode, SpvHelper by)
{
    spirv_extension(e->m, "SPV_NV_cooperative_matrix2");
    spirv_capability(e->m, SPV_CAP_CooperativeMatrixReductionsNV);
    return spirv_make(e->m, SPV_CooperativeMatrixReduceNV, type,
                      SPV_WORDS(x, mode, spirv_helper(e->m, by)));
}

SpvId spirv_reduced(SpvEmit *e, const AuInstr *in, SpvId x)
{
    const SpvHelper which = in->imm == AU_K_ADD   ? SPV_SUM
                            : in->imm == AU_K_MAX ? SPV_MAX
                                                  : SPV_MAXNAN;
    if (e->flavour->by_place)
        return reduced(e, e->mems[in->mem.i].element, x,
                       in->op == AU_K_MATRIX_REDUCE ? ROW : COLUMN, which);
    spirv_lacks(e, in);
    return x;
}

/* Has a lane an element that is more than 0? */
static void any_component(SpvEmit *e, AuVal v, SpvId type)
{
    SpvModule *m = e->m;
    const AuInstr *in = kernel_at(e->k, v);
    const SpvId truth = spirv_scalar(m, AU_I1), before = spirv_id(m), after = spirv_id(m);
    const SpvExchange *how = &e->flavour->exchange;
    const uint32_t carried[] = {truth, before, spirv_bits(m, AU_I1, 0), after};
    const Components c = open_components(e, type, carried);
    SpvElement x = {.component = c.now};
    e->element = &x;
    const SpvId element = spirv_make1(m, SPV_Load, spirv_scalar(m, AU_F32),
                                      component_of(e, in->mem, kernel_operand(e->k, in, 0)));
    e->element = NULL;
    const SpvId more = spirv_make2(m, SPV_FOrdGreaterThan, truth, element, spirv_f32(m, 0));
    spirv_do(m, SPV_LogicalOr, SPV_WORDS(truth, after, before, more));
    close_components(e, &c);
    spirv_capability(m, how->for_all);
    spirv_capability(m, how->for_any);
    spirv_set(e, v, 0, spirv_make2(m, how->any, truth, spirv_u32(m, SPV_SCOPE_SUBGROUP), before));
}

/* All elements become the largest one, and each lane has some. */
void spirv_any(SpvEmit *e, AuVal v)
{
    SpvModule *m = e->m;
    const AuInstr *in = kernel_at(e->k, v);
    const SpvId type = e->mems[in->mem.i].element, real = spirv_scalar(m, AU_F32);
    if (e->flavour->by_component && type) {
        any_component(e, v, type);
        return;
    }
    if (!e->flavour->by_place || !type) {
        spirv_lacks(e, in);
        return;
    }
    const SpvId x = spirv_get_matrix(e, in->mem, kernel_operand(e->k, in, 0));
    const SpvId all = reduced(e, type, x, ROW | COLUMN, SPV_MAX), place = spirv_variable(m, type);
    spirv_do(m, SPV_Store, SPV_WORDS(place, all));
    const SpvId at = spirv_make2(m, SPV_AccessChain, spirv_pointer(m, SPV_IN_Function, real), place,
                                 spirv_u32(m, 0));
    const SpvId most = spirv_make1(m, SPV_Load, real, at);
    spirv_set(e, v, 0,
              spirv_make2(m, SPV_FOrdGreaterThan, spirv_scalar(m, AU_I1), most, spirv_f32(m, 0)));
}
