/* sample.c - see sample.h. */
#include "sample.h"

#include <math.h>
#include <string.h>

#include "meaning.h"
#include "random.h"

/* Scores of several magnitudes and levels, some of them positive only. */
static void fill_row(AuSample *row, uint64_t *random)
{
    const double spread = row->index % 3 == 0 ? 0.5 : row->index % 3 == 1 ? 4 : 30;
    const double level = row->index % 4 == 3 ? 40 * au_uniform(random) - 20
                         : row->index % 2    ? spread
                                             : 0;
    row->count = 2 + (uint32_t)(au_uniform(random) * (AU_SAMPLE_PAIRS - 1));
    for (uint32_t n = 0; n < row->count; n++) {
        row->scores[n] = level + spread * (2 * au_uniform(random) - 1);
        row->dweights[n] = 2 * au_uniform(random) - 1;
        row->weights[n] = au_uniform(random);
    }
    row->element = 0.5 + au_uniform(random);
    row->delement = 2 * au_uniform(random) - 1;
    row->delta = 2 * au_uniform(random) - 1;
}

AuSamples *samples_new(const AuAttn *a, AuArena *arena)
{
    AuSamples *t = AU_NEW(arena, AuSamples);
    const uint32_t most = a->online->scale_count * 2 + a->online->final_count + 8;
    uint64_t random = 1;
    t->count = AU_SAMPLE_ROWS;
    for (uint32_t i = 0; i < t->count; i++) {
        AuSample *row = &t->rows[i];
        *row = (AuSample){.a = a, .arena = arena, .index = i};
        row->states = AU_NEW_ARRAY(arena, double, most);
        row->finals = AU_NEW_ARRAY(arena, double, most);
        row->dfinals = AU_NEW_ARRAY(arena, double, most);
        row->adjoints = AU_NEW_ARRAY(arena, double, most);
        row->passes = AU_NEW_ARRAY(arena, double, most);
        row->adjoint_sizes = AU_NEW_ARRAY(arena, double, most);
        row->pass_sizes = AU_NEW_ARRAY(arena, double, most);
        fill_row(row, &random);
    }
    return t;
}

static uint32_t some_bits(const AuSample *row, uint32_t node, uint32_t pair)
{
    const uint32_t key[2] = {row->index, 7};
    uint32_t words[4];
    attn_philox(key, (const uint32_t[4]){node, pair}, words);
    return words[0];
}

/* Some value for a leaf that the laws do not speak of, by its node and the row. */
static double some_value(const AuSample *row, uint32_t node, uint32_t pair)
{
    const AuNode *n = &row->a->nodes[node];
    const uint32_t bits = some_bits(row, node, n->axes & AU_AX_KV ? pair : 0);
    if (n->type == AU_T_I32) return 1 + bits % 8;
    if (n->type == AU_T_BOOL) return bits & 1;
    return bits * 0x1p-31 - 0.5;
}

static double leaf_value(const AuSample *row, uint32_t node, uint32_t pair)
{
    const AuNode *n = &row->a->nodes[node];
    switch ((int)n->op) { /* what is not named may be anything */
    case AU_OP_F32: return n->number;
    case AU_OP_I32: return n->integer;
    case AU_OP_SCORE: return row->scores[pair];
    case AU_OP_WEIGHT: return row->weights[pair];
    case AU_OP_DWEIGHT: return row->dweights[pair];
    case AU_OP_ELEMENT: return row->element;
    case AU_OP_DELEMENT: return row->delement;
    case AU_OP_STATE: return row->states[n->integer];
    case AU_OP_FINAL: return row->finals[n->integer];
    case AU_OP_DFINAL: return row->dfinals[n->integer];
    case AU_OP_ADJOINT: return row->adjoints[n->integer];
    case AU_OP_PASS: return row->passes[n->integer];
    case AU_OP_DELTA: return row->delta;
    }
    return some_value(row, node, pair);
}

static double reduce(const AuSample *row, AuOp op, const double *x)
{
    double result = op == AU_OP_ROWMAX ? -INFINITY : 0;
    for (uint32_t n = 0; n < row->count; n++)
        result = op == AU_OP_ROWMAX ? maximum(result, x[n]) : result + x[n];
    return result;
}

static double node_value(AuSample *row, uint32_t node, uint32_t pair)
{
    const AuNode *n = &row->a->nodes[node];
    double x[3] = {0};
    for (uint32_t k = 0; k < n->count && k < 3; k++)
        x[k] = row->value[row->a->args[n->first + k].i][pair];
    if (attn_op_info((AuOp)n->op)->rule != AU_RULE_LEAF)
        return attn_eval_op((AuOp)n->op, (AuType)n->type, x[0], x[1], x[2]);
    if (n->op == AU_OP_DROPOUT) /* keeps the pair or not, by the seed */
        return some_bits(row, row->a->args[n->first + 2].i, pair) & 1 ? x[0] / (1 - x[1]) : 0;
    return leaf_value(row, node, pair);
}

static void compute_value(AuSample *row, uint32_t node)
{
    const AuNode *n = &row->a->nodes[node];
    double *value = row->value[node] = AU_NEW_ARRAY(row->arena, double, row->count);
    if (n->op == AU_OP_ROWMAX || n->op == AU_OP_ROWSUM) {
        const double result = reduce(row, (AuOp)n->op, row->value[row->a->args[n->first].i]);
        for (uint32_t pair = 0; pair < row->count; pair++) value[pair] = result;
        return;
    }
    for (uint32_t pair = 0; pair < row->count; pair++) value[pair] = node_value(row, node, pair);
}

/* ---- magnitudes */

/* Of the terms that a leaf's value is the sum of. */
static double leaf_size(const AuSample *row, const AuNode *n, double value)
{
    switch ((int)n->op) { /* others are exact */
    case AU_OP_DELTA: return row->delta_size;
    case AU_OP_ADJOINT: return row->adjoint_sizes[n->integer];
    case AU_OP_PASS: return row->pass_sizes[n->integer];
    }
    return fabs(value);
}

/* x, y: what the arguments are; sx, sy: the magnitudes of their terms. */
static double size_of_op(AuOp op, double value, double x, double y, double sx, double sy)
{
    switch ((int)op) { /* others: relative errors stay what they are */
    case AU_OP_ADD:
    case AU_OP_SUB: return sx + sy;
    case AU_OP_MUL: return sx * sy;
    case AU_OP_DIV: return x == 0 ? sx / fabs(y) : fabs(value) * (sx / fabs(x)) * (sy / fabs(y));
    case AU_OP_EXP: return value * (1 + sx);
    case AU_OP_EXP2: return value * (1 + sx);
    case AU_OP_LOG: return fabs(value) + sx / fabs(x);
    case AU_OP_LOG2: return fabs(value) + sx / fabs(x);
    case AU_OP_NEG:
    case AU_OP_ABS: return sx;
    }
    return fabs(value);
}

static void compute_size(AuSample *row, uint32_t node)
{
    const AuNode *n = &row->a->nodes[node];
    const uint32_t count = n->count < 2 ? n->count : 2;
    const double *value = row->value[node], *x[2] = {value, value}, *s[2] = {value, value};
    double *size = row->size[node] = AU_NEW_ARRAY(row->arena, double, row->count);
    for (uint32_t k = 0; k < count; k++) {
        const uint32_t arg = row->a->args[n->first + k].i;
        x[k] = row->value[arg], s[k] = row->size[arg];
    }
    double total = 0;
    for (uint32_t pair = 0; pair < row->count; pair++) {
        size[pair] = n->count ? size_of_op((AuOp)n->op, value[pair], x[0][pair], x[1][pair],
                                           s[0][pair], s[1][pair])
                              : leaf_size(row, n, value[pair]);
        total += s[0][pair];
    }
    for (uint32_t pair = 0; pair < row->count && n->op == AU_OP_ROWSUM; pair++) size[pair] = total;
}

/* ---- what is asked for */

static double **more_nodes(const AuSample *row, double **known)
{
    double **more = AU_NEW_ARRAY(row->arena, double *, 2 * row->a->node_count);
    if (row->known) memcpy(more, known, row->known * sizeof *more);
    return more;
}

static void compute(AuSample *row, AuExpr e)
{
    if (row->known < row->a->node_count) {
        row->value = more_nodes(row, row->value);
        row->size = more_nodes(row, row->size);
        row->known = 2 * row->a->node_count;
    }
    if (row->value[e.i]) return;
    bool *mark = AU_NEW_ARRAY(row->arena, bool, e.i + 1);
    attn_mark(row->a, e, mark);
    for (uint32_t i = 1; i <= e.i; i++)
        if (mark[i] && !row->value[i]) {
            compute_value(row, i);
            compute_size(row, i);
        }
}

const double *sample_value(AuSample *row, AuExpr e)
{
    compute(row, e);
    return row->value[e.i];
}

const double *sample_size(AuSample *row, AuExpr e)
{
    compute(row, e);
    return row->size[e.i];
}

void sample_forget(AuSample *row) { row->known = 0; }

bool sample_near(double x, double y, double size)
{
    return x == y || fabs(x - y) <= 1e-8 * (fabs(x) + fabs(y)) + 1e-10 * size;
}

bool samples_are_few(const AuSamples *t)
{
    uint32_t usable = 0;
    for (uint32_t i = 0; i < t->count; i++) usable += !t->rows[i].unusable;
    return usable < t->count / 6;
}
