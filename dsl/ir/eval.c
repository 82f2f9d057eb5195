/* eval.c - see eval.h. One loop an operation, made from ops.def. */
#include "eval.h"

#include <string.h>

#include "meaning.h"

/* ---- making a program */

static void place_step(AuProgram *p, AuArena *arena, AuEvalStep **of, uint32_t i, uint8_t across)
{
    const AuNode *n = &p->a->nodes[i];
    AuEvalStep *s = of[i] = &p->steps[p->step_count++];
    *s = (AuEvalStep){.node = n,
                      .depends = n->axes,
                      .vector = (n->axes & across) != 0,
                      .of_keys = (n->axes & across) == AU_AX_K};
    for (uint32_t k = 0; k < n->count; k++) {
        s->args[k] = of[p->a->args[n->first + k].i];
        s->depends |= s->args[k]->depends;
    }
    if (n->op == AU_OP_ROWMAX || n->op == AU_OP_ROWSUM) s->depends |= AU_AX_Q | AU_AX_KV;
    const uint32_t room = s->vector ? p->capacity : 1;
    s->value = AU_NEW_ARRAY(arena, double, room);
    s->bad = AU_NEW_ARRAY(arena, uint32_t, room);
}

AuProgram *attn_program_new(AuArena *arena, const AuAttn *a, const AuExpr *roots,
                            uint32_t root_count, uint8_t across, uint32_t capacity,
                            AuLeafFunction leaf, void *user)
{
    AuProgram *p = AU_NEW(arena, AuProgram);
    *p = (AuProgram){
        .a = a, .capacity = capacity ? capacity : 1, .leaf = leaf, .user = user, .fresh = true};
    bool *mark = AU_NEW_ARRAY(arena, bool, a->node_count);
    AuEvalStep **of = AU_NEW_ARRAY(arena, AuEvalStep *, a->node_count);
    uint32_t count = 0;
    for (uint32_t i = 0; i < root_count; i++) attn_mark(a, roots[i], mark);
    for (uint32_t i = 1; i < a->node_count; i++) count += mark[i];
    p->steps = AU_NEW_ARRAY(arena, AuEvalStep, count);
    for (uint32_t i = 1; i < a->node_count; i++)
        if (mark[i]) place_step(p, arena, of, i, across);
    p->roots = AU_NEW_ARRAY(arena, AuEvalStep *, root_count);
    p->root_count = root_count;
    for (uint32_t i = 0; i < root_count; i++) p->roots[i] = roots[i].i ? of[roots[i].i] : NULL;
    for (uint32_t k = 0; k < 3; k++) p->spread[k] = AU_NEW_ARRAY(arena, double, p->capacity);
    return p;
}

/* Elements of a step in a run of [count]. */
static uint32_t length(const AuProgram *p, const AuEvalStep *s, uint32_t count)
{
    if (!s->vector) return 1;
    return s->of_keys && p->key_count ? p->key_count : count;
}

/* ---- trouble */

void attn_step_mark_bad(AuProgram *p, AuEvalStep *step, uint32_t i)
{
    if (!step->any_bad) memset(step->bad, 0, (step->vector ? p->capacity : 1) * sizeof *step->bad);
    step->any_bad = true;
    step->bad[i] = (uint32_t)(step - p->steps) + 1;
}

static uint32_t bad_at(const AuEvalStep *s, uint32_t i)
{
    return s->any_bad ? s->bad[s->vector ? i : 0] : 0;
}

const AuEvalStep *attn_step_trouble(const AuProgram *p, const AuEvalStep *step, uint32_t i)
{
    const uint32_t bad = bad_at(step, i);
    return bad ? &p->steps[bad - 1] : NULL;
}

/* The trouble that element i of a step inherits from the arguments it chose. */
static uint32_t inherited(const AuEvalStep *s, uint32_t i)
{
    const uint32_t first = bad_at(s->args[0], i);
    if (first) return first;
    const bool chosen = attn_step_at(s->args[0], i) != 0;
    if (s->node->op == AU_OP_WHERE) return bad_at(s->args[chosen ? 1 : 2], i);
    if (s->node->op == AU_OP_AND) return chosen ? bad_at(s->args[1], i) : 0;
    if (s->node->op == AU_OP_OR) return chosen ? 0 : bad_at(s->args[1], i);
    for (uint32_t k = 1; k < s->node->count; k++)
        if (bad_at(s->args[k], i)) return bad_at(s->args[k], i);
    return 0;
}

static void spread_trouble(const AuProgram *p, AuEvalStep *s, uint32_t count)
{
    bool below = false;
    for (uint32_t k = 0; k < s->node->count; k++) below |= s->args[k]->any_bad;
    if (!below) return;
    uint32_t along = length(p, s, count);
    const bool reduces = s->node->count == 1 && s->args[0]->vector && !s->vector;
    if (!s->any_bad) memset(s->bad, 0, along * sizeof *s->bad);
    if (reduces) along = length(p, s->args[0], count); /* from all elements */
    for (uint32_t i = 0; i < along; i++) {
        uint32_t *bad = &s->bad[s->vector ? i : 0];
        if (!*bad) *bad = inherited(s, i);
        s->any_bad |= *bad != 0;
    }
}

/* Integers have no quotient by zero. */
static void check_divisor(AuProgram *p, AuEvalStep *s, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (attn_step_at(s->args[1], i) != 0) continue;
        attn_step_mark_bad(p, s, i);
        s->value[i] = 0;
    }
}

/* ---- running */

static const double *operand(AuProgram *p, const AuEvalStep *s, uint32_t k, uint32_t count)
{
    if (k >= s->node->count) return p->spread[k];
    const AuEvalStep *x = s->args[k];
    if (x->vector || count == 1) return x->value;
    for (uint32_t i = 0; i < count; i++) p->spread[k][i] = x->value[0];
    return p->spread[k];
}

static void run_table_op(AuProgram *p, AuEvalStep *s, uint32_t count)
{
    const double *restrict x = operand(p, s, 0, count);
    const double *restrict y = operand(p, s, 1, count);
    const double *restrict z = operand(p, s, 2, count);
    double *restrict out = s->value;
    if (s->node->op == AU_OP_MUL && s->node->type == AU_T_I32) {
        for (uint32_t i = 0; i < count; i++) out[i] = wrap_product(x[i], y[i]);
        return;
    }
    switch (s->node->op) {
#define OP(NAME, text, arguments, rule, flags, meaning)                                            \
    case AU_OP_##NAME:                                                                             \
        for (uint32_t i = 0; i < count; i++) {                                                     \
            const double a = x[i], b = y[i], c = z[i];                                             \
            (void)a, (void)b, (void)c;                                                             \
            out[i] = (double)(meaning);                                                            \
        }                                                                                          \
        break;
#include "ops.def"
#undef OP
    }
    if (s->node->type == AU_T_I32)
        for (uint32_t i = 0; i < count; i++)
            if (!(fabs(out[i]) <= 2147483647.0)) out[i] = as_i32(out[i]);
    if ((s->node->op == AU_OP_IDIV || s->node->op == AU_OP_MOD) && s->node->type == AU_T_I32)
        check_divisor(p, s, count);
}

/* Over a vector, or over the [count] equal elements of a single value. */
static void run_reduction(AuProgram *p, AuEvalStep *s, uint32_t count)
{
    const AuEvalStep *x = s->args[0];
    double result = s->node->op == AU_OP_ROWMAX ? -INFINITY : 0;
    if (x->vector) count = length(p, x, count);
    if (s->node->op == AU_OP_ROWMAX) {
        for (uint32_t i = 0; i < count; i++) result = maximum(result, attn_step_at(x, i));
    } else {
        for (uint32_t i = 0; i < count; i++) {
            result += attn_step_at(x, i);
            if (p->single) result = (double)(float)result;
        }
    }
    s->value[0] = result;
}

static void run_step(AuProgram *p, AuEvalStep *s, uint32_t count)
{
    const AuNode *n = s->node;
    const uint32_t room = length(p, s, count);
    s->any_bad = false;
    if (n->op == AU_OP_ROWMAX || n->op == AU_OP_ROWSUM || n->op == AU_OP_ROW_SUM_C)
        run_reduction(p, s, count);
    else {
        if (n->op == AU_OP_F32)
            s->value[0] = n->number;
        else if (n->op == AU_OP_I32)
            s->value[0] = n->integer;
        else if (attn_op_info((AuOp)n->op)->rule == AU_RULE_LEAF)
            p->leaf(p->user, p, s, room);
        else
            run_table_op(p, s, room);
    }
    if (n->count) spread_trouble(p, s, count);
    if (p->single && n->type == AU_T_F32)
        for (uint32_t i = 0; i < room; i++) s->value[i] = (double)(float)s->value[i];
}

void attn_program_run(AuProgram *p, uint8_t changed, uint32_t count)
{
    p->count = count;
    for (uint32_t i = 0; i < p->step_count; i++)
        if (p->fresh || p->steps[i].depends & changed) run_step(p, &p->steps[i], count);
    p->fresh = false;
}
