/* interpret_gradient.c - the oracle of gradients: the forward oracle row by row, and behind each row
 * its part of every gradient. With dO' the gradient of the output before out_mod, and all pairs of
 * the row that take part:
 *     dp_j = dO' . v_j,   delta = dO' . O',   passes = rowsums,   adjoints of the finals
 *     dv_j += weight_j dO',   dk_j += dscore_j q,   dq = sum_j dscore_j k_j
 * and reads of inputs and rows of products get theirs. The gradients of rows of q, k and v go
 * through the row mods: of q at once, of k and v at the end, when all queries have been there. */
#include <string.h>

#include "gradient.h"
#include "meaning.h"
#include "oracle.h"

/* A program with the gradients of inputs behind its own roots: value, then the read's indices. */
typedef struct Scatter {
    AuProgram *program; /* NULL: nothing to do */
    const AuInputGrads *inputs;
    uint32_t first; /* root of the first input */
} Scatter;

typedef struct Backward {
    AuOracle o; /* first: row_done gets it */
    const AuGrads *g;
    const double *dout;
    const double *const *given; /* gradients of finals */
    double *const *grads;
    Scatter pair, rows, q, k, v, out;
    AuProgram *pass, *adjoint;
    uint32_t
        dot_indices[AU_MAX_DOTS]; /* first root of pair that is an index of the product's rows */
    double *dkeys, *dvalues;      /* [B, Hk, T, D], [B, Hv, T, E]: of modified rows */
    double *douts, *outs;         /* [E] dO' and O' of the row */
    double *dweights;             /* [pairs] */
    double *drow;                 /* [D or E] */
    double *changed;              /* the same behind a row mod */
} Backward;

/* ---- programs */

static Scatter new_scatter(Backward *w, const AuExpr *roots, uint32_t count,
                           const AuInputGrads *inputs, uint8_t across, int64_t capacity)
{
    const AuAttn *a = w->o.a;
    uint32_t all = count;
    for (uint32_t i = 0; i < inputs->count; i++) all += 1u + attn_at(a, inputs->at[i].read)->count;
    AuExpr *list = AU_NEW_ARRAY(w->o.arena, AuExpr, all);
    if (count) memcpy(list, roots, count * sizeof *list);
    uint32_t at = count;
    for (uint32_t i = 0; i < inputs->count; i++) {
        list[at++] = inputs->at[i].value;
        for (uint32_t k = 0; k < attn_at(a, inputs->at[i].read)->count; k++)
            list[at++] = attn_arg(a, inputs->at[i].read, k);
    }
    AuProgram *p = all ? attn_oracle_program(&w->o, list, all, across, capacity) : NULL;
    return (Scatter){p, inputs, count};
}

static Scatter row_scatter(Backward *w, const AuRowGrad *g, int64_t width)
{
    return new_scatter(w, &g->value, g->value.i ? 1 : 0, &g->inputs, AU_AX_C, width);
}

static void make_programs(Backward *w)
{
    const AuGrads *g = w->g;
    AuOracle *o = &w->o;
    AuExpr roots[2 + AU_MAX_DOTS * (1 + UINT8_MAX)] = {g->weight, g->dscore};
    uint32_t count = 2 + g->dot_count;
    for (uint32_t n = 0; n < g->dot_count; n++) {
        const uint32_t indices = attn_at(o->a, g->dots[n])->count;
        roots[2 + n] = g->ddots[n];
        w->dot_indices[n] = count;
        for (uint32_t k = 0; k < indices; k++) roots[count++] = attn_arg(o->a, g->dots[n], k);
    }
    w->pair = new_scatter(w, roots, count, &g->pairs, AU_AX_KV, o->T);
    w->rows = new_scatter(w, NULL, 0, &g->rows, 0, 1);
    w->pass = attn_oracle_program(o, g->pass, g->pass_count, AU_AX_KV, o->T);
    w->adjoint = attn_oracle_program(o, g->adjoint, o->a->online->final_count, 0, 1);
    w->q = row_scatter(w, &g->q, o->D);
    w->k = row_scatter(w, &g->k, o->D);
    w->v = row_scatter(w, &g->v, o->E);
    w->out = row_scatter(w, &g->out, o->E);
}

static void make_room(Backward *w)
{
    AuOracle *o = &w->o;
    AuArena *m = o->arena;
    const uint32_t finals = o->a->online->final_count;
    const int64_t wide = o->D > o->E ? o->D : o->E;
    w->dkeys = AU_NEW_ARRAY(m, double, o->B * o->Hk * o->T * o->D);
    w->dvalues = AU_NEW_ARRAY(m, double, o->B * o->Hv * o->T * o->E);
    w->douts = AU_NEW_ARRAY(m, double, o->E);
    w->outs = AU_NEW_ARRAY(m, double, o->E);
    w->dweights = AU_NEW_ARRAY(m, double, o->T);
    w->drow = AU_NEW_ARRAY(m, double, wide);
    w->changed = AU_NEW_ARRAY(m, double, wide);
    o->dweights = w->dweights;
    o->final_values = AU_NEW_ARRAY(m, double, finals);
    o->dfinals = AU_NEW_ARRAY(m, double, finals);
    o->adjoints = AU_NEW_ARRAY(m, double, finals);
    o->passes = AU_NEW_ARRAY(m, double, AU_MAX_PASSES);
}

/* ---- adding up */

static void add(const Backward *w, double *to, double x)
{
    *to = w->o.in_turn ? (double)(float)(*to + x) : *to + x;
}

/* to += x row, of products in f32 where that is asked for. */
static void add_row(const Backward *w, double *restrict to, double x, const double *restrict row,
                    int64_t width)
{
    if (w->o.in_turn)
        for (int64_t c = 0; c < width; c++) to[c] = (float)to[c] + (float)x * (float)row[c];
    else
        for (int64_t c = 0; c < width; c++) to[c] += x * row[c];
}

static double multiply_rows(const Backward *w, const double *x, const double *y, int64_t width)
{
    double sum = 0;
    if (w->o.single)
        for (int64_t c = 0; c < width; c++) sum = (float)sum + (float)x[c] * (float)y[c];
    else
        for (int64_t c = 0; c < width; c++) sum += x[c] * y[c];
    return sum;
}

/* Where indices lead in the leading axes of a tensor, -1: outside. */
static int64_t offset_of(const Backward *w, int32_t tensor, AuEvalStep *const *indices,
                         uint32_t axes, uint32_t n)
{
    int64_t offset = 0;
    for (uint32_t k = 0; k < axes; k++) {
        const double index = attn_step_at(indices[k], n);
        const int64_t extent = w->o.dims[tensor][k];
        if (!(index >= 0 && index < (double)extent)) return -1;
        offset = offset * extent + (int64_t)index;
    }
    return offset;
}

/* The gradients of inputs of a program that has just run, for [count] elements along [across]. */
static bool scatter(Backward *w, const Scatter *s, uint32_t count, uint8_t across)
{
    uint32_t at = s->first;
    for (uint32_t i = 0; i < s->inputs->count; i++) {
        const AuInputGrad *in = &s->inputs->at[i];
        const AuNode *read = attn_at(w->o.a, in->read);
        AuEvalStep *value = s->program->roots[at], **indices = &s->program->roots[at + 1];
        const bool once = across == AU_AX_C && !(read->axes & AU_AX_C);
        at += 1u + read->count;
        for (uint32_t n = 0; n < (once ? 1 : count); n++) {
            if (attn_step_trouble(s->program, value, n))
                return attn_oracle_trouble(&w->o, s->program, value, n);
            const double x = attn_step_at(value, n);
            if (x == 0) continue; /* also where the read was not chosen, and may lie outside */
            const int64_t offset = offset_of(w, (int32_t)in->tensor, indices, read->count, n);
            if (offset < 0)
                return attn_oracle_fail(&w->o, read->span, "an index of '%s' is out of range",
                                        w->o.a->tensors[in->tensor].name);
            if (w->grads[in->tensor]) add(w, &w->grads[in->tensor][offset], x);
        }
    }
    return true;
}

/* A row's gradient through the row mod, back to the row as passed in; [to] gets the sum. */
static bool pass_row(Backward *w, const Scatter *s, const double *element, const double *drow,
                     double *to, uint32_t width)
{
    w->o.delement = drow;
    const bool identity = !s->first;
    if (!attn_oracle_mod(&w->o, identity ? NULL : s->program, identity ? drow : element, w->changed,
                         width))
        return false;
    if (!identity && !scatter(w, s, width, AU_AX_C)) return false;
    attn_oracle_round(&w->o, w->changed, width);
    for (uint32_t c = 0; to && c < width; c++) to[c] += w->changed[c];
    return true;
}

/* ---- one row */

/* dO' and O', as a kernel finds them in memory, and their product. */
static bool load_output(Backward *w, int64_t at)
{
    AuOracle *o = &w->o;
    const uint32_t E = (uint32_t)o->E;
    memcpy(w->outs, o->acc, E * sizeof *w->outs);
    attn_oracle_round(o, w->outs, E);
    memset(w->douts, 0, E * sizeof *w->douts);
    if (!pass_row(w, &w->out, w->outs, w->dout + at * o->E, w->douts, E)) return false;
    o->delta = multiply_rows(w, w->douts, w->outs, o->E);
    attn_oracle_operands(o, w->douts, E);
    return true;
}

/* The pairs that take part, with the raw products as scores, and dp. */
static void load_pairs(Backward *w)
{
    AuOracle *o = &w->o;
    o->pair_first = 0;
    for (uint32_t n = 0; n < o->pairs; n++) {
        o->scores[n] = o->score[o->kv[n]];
        w->dweights[n] = multiply_rows(w, w->douts, o->values + (int64_t)o->kv[n] * o->E, o->E);
    }
}

static void run_finals(Backward *w, int64_t at)
{
    AuOracle *o = &w->o;
    attn_program_run(o->finals, AU_CHANGED_ALL, 1);
    for (uint32_t i = 0; i < o->finals->root_count; i++) {
        o->final_values[i] = attn_step_at(o->finals->roots[i], 0);
        o->dfinals[i] = w->given && w->given[i] ? w->given[i][at] : 0;
    }
}

static bool run_adjoints(Backward *w)
{
    AuOracle *o = &w->o;
    memset(o->passes, 0, AU_MAX_PASSES * sizeof *o->passes);
    if (w->g->pass_count && o->pairs) attn_program_run(w->pass, AU_CHANGED_ALL, o->pairs);
    for (uint32_t k = 0; k < w->g->pass_count && o->pairs; k++)
        for (uint32_t n = 0; n < o->pairs; n++)
            add(w, &o->passes[k], attn_step_at(w->pass->roots[k], n));
    attn_program_run(w->adjoint, AU_CHANGED_ALL, 1);
    for (uint32_t i = 0; i < w->adjoint->root_count; i++)
        o->adjoints[i] = attn_step_at(w->adjoint->roots[i], 0);
    if (!w->rows.program) return true;
    attn_program_run(w->rows.program, AU_CHANGED_ALL, 1);
    return scatter(w, &w->rows, 1, 0);
}

/* to += x row, the row being a tensor's. */
static void add_operands(const Backward *w, double *to, double x, const double *row, int64_t width)
{
    for (int64_t c = 0; c < width; c++)
        add(w, &to[c], attn_oracle_single(&w->o, x * attn_oracle_operand(&w->o, row[c])));
}

/* What product [n] of score_mod gives to the rows that it is made of. */
static void add_dot(Backward *w, uint32_t n, uint32_t pair, double ddot)
{
    const AuOracle *o = &w->o;
    const AuExpr dot = w->g->dots[n];
    const AuNode *node = attn_at(o->a, dot);
    const uint32_t left = o->a->tensors[node->integer].rank - 1, right = node->count - left;
    const int64_t width = o->dims[node->integer][left];
    AuEvalStep **indices = w->pair.program->roots + w->dot_indices[n];
    const int64_t x = offset_of(w, node->integer, indices, left, pair);
    const int64_t y = offset_of(w, node->integer2, indices + left, right, pair);
    if (ddot == 0 || x < 0 || y < 0) return;
    if (w->grads[node->integer])
        add_operands(w, w->grads[node->integer] + x * width, ddot,
                     o->call->tensors[node->integer2] + y * width, width);
    if (w->grads[node->integer2])
        add_operands(w, w->grads[node->integer2] + y * width, ddot,
                     o->call->tensors[node->integer] + x * width, width);
}

/* Weights, gradients of scores and of inputs, for all pairs; the sums over pairs. */
static bool run_pairs(Backward *w)
{
    AuOracle *o = &w->o;
    AuProgram *p = w->pair.program;
    const int64_t v_head = o->h / (o->H / o->Hv);
    double *dkeys = w->dkeys + (o->b * o->Hk + o->kv_h) * o->T * o->D;
    double *dvalues = w->dvalues + (o->b * o->Hv + v_head) * o->T * o->E;
    memset(w->drow, 0, (size_t)o->D * sizeof *w->drow);
    attn_program_run(p, AU_CHANGED_ALL, o->pairs);
    for (uint32_t n = 0; n < o->pairs; n++) {
        const int64_t j = o->kv[n];
        const uint32_t values = 2 + w->g->dot_count;
        double x[2 + AU_MAX_DOTS];
        for (uint32_t k = 0; k < values; k++) {
            if (attn_step_trouble(p, p->roots[k], n))
                return attn_oracle_trouble(o, p, p->roots[k], n);
            x[k] = attn_step_at(p->roots[k], n);
        }
        attn_oracle_operands(o, x, values);
        add_row(w, dvalues + j * o->E, x[0], w->douts, o->E);
        add_row(w, dkeys + j * o->D, x[1], o->query, o->D);
        for (int64_t c = 0; c < o->D; c++) add(w, &w->drow[c], x[1] * o->keys[c * o->T + j]);
        for (uint32_t k = 0; k < w->g->dot_count; k++) add_dot(w, k, n, x[2 + k]);
    }
    return scatter(w, &w->pair, o->pairs, AU_AX_KV);
}

static bool row_done(AuOracle *o)
{
    Backward *w = (Backward *)o;
    const int64_t at = (o->b * o->H + o->h) * o->S + o->i;
    run_finals(w, at);
    o->delta = 0;
    if (o->pairs) {
        if (!load_output(w, at)) return false;
        load_pairs(w);
    }
    if (!run_adjoints(w)) return false;
    if (!o->pairs) return true;
    if (!run_pairs(w)) return false;
    double *dq = w->grads[0] ? w->grads[0] + at * o->D : NULL;
    return pass_row(w, &w->q, attn_oracle_row(o, 0, o->b, o->h, o->i), w->drow, dq, (uint32_t)o->D);
}

/* ---- the end: rows of keys and values through their mods */

static bool finish_keys(Backward *w)
{
    AuOracle *o = &w->o;
    for (o->b = 0; o->b < o->B; o->b++)
        for (o->kv_h = 0; o->kv_h < o->Hk; o->kv_h++)
            for (o->j = 0; o->j < o->T; o->j++) {
                const int64_t at = ((o->b * o->Hk + o->kv_h) * o->T + o->j) * o->D;
                if (!pass_row(w, &w->k, attn_oracle_row(o, 1, o->b, o->kv_h, o->j), w->dkeys + at,
                              w->grads[1] ? w->grads[1] + at : NULL, (uint32_t)o->D))
                    return false;
            }
    return true;
}

static bool finish_values(Backward *w)
{
    AuOracle *o = &w->o;
    const AuAttn *a = o->a;
    const uint32_t tensor = a->v_in_k ? 1 : 2;
    const int64_t first = a->v_in_k ? a->v_first : 0, width = o->dims[tensor][3];
    for (o->b = 0; o->b < o->B; o->b++)
        for (o->kv_h = 0; o->kv_h < o->Hv; o->kv_h++)
            for (o->j = 0; o->j < o->T; o->j++) {
                const int64_t row = (o->b * o->Hv + o->kv_h) * o->T + o->j;
                const double *v = attn_oracle_row(o, tensor, o->b, o->kv_h, o->j) + first;
                double *to = w->grads[tensor] ? w->grads[tensor] + row * width + first : NULL;
                if (!pass_row(w, &w->v, v, w->dvalues + row * o->E, to, (uint32_t)o->E))
                    return false;
            }
    return true;
}

/* Sums are f32; what is written has the tensor's type. */
static void round_grads(Backward *w, const size_t *counts)
{
    const AuAttn *a = w->o.a;
    for (uint32_t i = 0; w->o.single && i < a->tensor_count; i++) {
        const AuDtype dtype = a->tensors[i].dtype;
        for (size_t n = 0; w->grads[i] && n < counts[i]; n++)
            w->grads[i][n] = attn_round(
                w->grads[i][n], i < 3 || dtype == AU_DT_OPERAND ? w->o.call->round_to : dtype);
    }
}

bool attn_interpret_gradients(const AuAttn *a, const AuGrads *g, const AuOracleCall *call,
                              const double *dout, const double *const *dfinals,
                              double *const *grads, AuArena *scratch, const char **why)
{
    Backward *w = AU_NEW(scratch, Backward);
    size_t *counts = AU_NEW_ARRAY(scratch, size_t, a->tensor_count);
    if (!attn_oracle_begin(&w->o, a, call, scratch, why)) return false;
    w->g = g;
    w->dout = dout;
    w->given = dfinals;
    w->grads = grads;
    for (uint32_t i = 0; i < a->tensor_count; i++) {
        counts[i] = 1;
        for (uint32_t n = 0; n < a->tensors[i].rank; n++) counts[i] *= (size_t)w->o.dims[i][n];
        if (grads[i]) memset(grads[i], 0, counts[i] * sizeof **grads);
    }
    make_programs(w);
    make_room(w);
    w->o.row_done = row_done;
    if (!attn_oracle_rows(&w->o) || !finish_keys(w) || !finish_values(w)) return false;
    round_grads(w, counts);
    return true;
}
