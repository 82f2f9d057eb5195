/* linear_gradient.c - gradients of a recurrence by its normal form: from the output back through out_mod, skip and norm to
 * what is read of the state, through the recurrence to the rows of the slots, and through the slots to tensors and
 * inputs. Axes that a tensor lacks are summed. */
#include "linear_rows.h"

#include <string.h>

/* Gradients of the head and sequence at hand. */
typedef struct Back {
    AuLinearRun r; /* first */
    double *draw;  /* [T, columns] of what q reads */
    double *of[AU_SLOT_COUNT];
} Back;

/* ---- into tensors */

/* Where indices lead, which were in range where the value is not 0. */
static int64_t offset_of(const AuOracle *o, uint32_t tensor, AuEvalStep *const *indices, uint32_t n)
{
    const AuAttn *a = o->a;
    int64_t offset = 0;
    for (uint32_t k = 0; k < a->tensors[tensor].rank; k++) {
        const double index = attn_step_at(indices[k], n);
        const bool packed = o->packed && a->tensors[tensor].axes[k].i == a->tensors[1].axes[2].i;
        if (!(index >= 0 && index < (double)(packed ? o->length : o->dims[tensor][k]))) return -1;
        offset = offset * o->dims[tensor][k] + (packed ? o->first : 0) + (int64_t)index;
    }
    return offset;
}

/* [delement] is the gradient of the program's value at the oracle's token. */
static bool scatter(AuLinearRun *r, const AuSlotBack *back, const double *delement)
{
    if (!back->program) return true;
    r->o.delement = delement;
    if (!linear_program(r, back->program)) return false;
    for (uint32_t i = 0, at = 0; i < back->inputs->count; i++) {
        const AuInputGrad *in = &back->inputs->at[i];
        const AuNode *read = attn_at(r->o.a, in->read);
        AuEvalStep *const *roots = back->program->roots + at;
        double *to = r->call->grads[attn_oracle_source(&r->o, (int32_t)in->tensor)];
        int64_t step = 0;
        at += 1u + read->count;
        if (!to) continue;
        const bool whole = read->op == AU_OP_TENSOR;
        const int64_t start = whole ? attn_oracle_tensor(&r->o, read, &step) : 0;
        const uint8_t channel = read->axes & (AU_AX_C | AU_AX_K | AU_AX_V);
        const int64_t count = !channel ? 1 : channel == AU_AX_K ? r->o.D : r->o.E;
        for (int64_t n = 0; n < count; n++) {
            const double x = attn_step_at(roots[0], (uint32_t)n);
            const int64_t offset =
                whole ? start + step * n : offset_of(&r->o, in->tensor, roots + 1, (uint32_t)n);
            if (x != 0 && offset >= 0) to[offset] += x;
        }
    }
    return true;
}

/* ---- from the output to what is read of the state */

/* Through norm: of the raw row, whose last column is the sum. */
static bool norm_back(Back *w, int64_t t, const double *dout, double norm)
{
    AuLinearRun *r = &w->r;
    const int64_t V = r->o.E, N = r->columns;
    const double *raw = r->raw + t * N;
    double *draw = w->draw + t * N, dnorm = 0;
    for (int64_t e = 0; e < V; e++) {
        draw[e] = dout[e] / norm;
        dnorm -= dout[e] * raw[e] / norm / norm;
    }
    if (!r->slot[AU_SLOT_NORM]) return true;
    r->o.element = &raw[V];
    r->o.delement = &dnorm;
    if (!linear_program(r, r->sum_back)) return false;
    draw[V] = attn_step_at(r->sum_back->roots[0], 0);
    return scatter(r, &r->back[AU_SLOT_NORM], &dnorm);
}

static bool output_back(Back *w, int64_t t, double *out, double *dout)
{
    AuLinearRun *r = &w->r;
    AuOracle *o = &r->o;
    const int64_t V = o->E;
    const double *given = r->call->dout + ((o->b * o->H + o->h) * o->T + o->first + t) * V;
    double norm;
    if (!linear_output(r, t, out, &norm)) return false;
    memcpy(dout, given, (size_t)V * sizeof *dout);
    if (r->out_mod) {
        o->element = out;
        if (!scatter(r, &r->out_back, given)) return false;
        o->delement = given;
        if (!linear_program(r, r->out_value)) return false;
        for (int64_t e = 0; e < V; e++) dout[e] = attn_step_at(r->out_value->roots[0], (uint32_t)e);
    }
    if (!scatter(r, &r->back[AU_SLOT_SKIP], dout)) return false;
    return norm_back(w, t, dout, norm);
}

/* ---- rows */

static void bonus_back(Back *w, int64_t t)
{
    const AuLinearRun *r = &w->r;
    const int64_t K = r->o.D, V = r->o.E, N = r->columns;
    const double *draw = w->draw + t * N, weight = linear_bonus(r, t);
    double along = N > V ? draw[V] : 0;
    for (int64_t e = 0; e < V; e++) {
        along += draw[e] * r->row[AU_SLOT_V][t * V + e];
        w->of[AU_SLOT_V][t * V + e] += weight * draw[e];
    }
    for (int64_t c = t * K; c < (t + 1) * K; c++) {
        const double q = r->row[AU_SLOT_Q][c], k = r->row[AU_SLOT_K][c],
                     bonus = r->row[AU_SLOT_BONUS][c];
        w->of[AU_SLOT_Q][c] += along * bonus * k;
        w->of[AU_SLOT_K][c] += along * q * bonus;
        w->of[AU_SLOT_BONUS][c] = along * q * k;
    }
}

/* dv and dw of w v, the column of ones with them. */
static void write_back(Back *w, int64_t t, const double *d)
{
    const AuLinearRun *r = &w->r;
    const int64_t V = r->o.E, N = r->columns;
    const double *strength = r->row[AU_SLOT_WRITE];
    double along = N > V ? d[V] : 0;
    for (int64_t e = 0; e < V; e++) {
        along += d[e] * r->row[AU_SLOT_V][t * V + e];
        w->of[AU_SLOT_V][t * V + e] += (strength ? strength[t] : 1) * d[e];
    }
    if (strength) w->of[AU_SLOT_WRITE][t] = along;
}

static void recurrence_back(Back *w)
{
    AuLinearRun *r = &w->r;
    AuArena *m = r->rows_arena;
    AuRows d = r->rows;
    double *state = AU_NEW_ARRAY(m, double, r->o.D * r->columns),
           *ds = AU_NEW_ARRAY(m, double, r->o.D * r->columns);
    for (uint32_t s = 0; s < AU_SLOT_COUNT; s++)
        if (r->row[s]) w->of[s] = AU_NEW_ARRAY(m, double, r->T *linear_width(r, (AuSlot)s) + 1);
    d.q = w->of[AU_SLOT_Q], d.k = w->of[AU_SLOT_K], d.g = w->of[AU_SLOT_LOG_DECAY];
    d.x = w->of[AU_SLOT_READS], d.b = w->of[AU_SLOT_WRITES], d.e = w->of[AU_SLOT_ERASE];
    d.v = AU_NEW_ARRAY(m, double, r->T * r->columns + 1);
    linear_load_state(r, r->call->state_in, r->call->sum_in, state);
    linear_load_state(r, r->call->dstate_out, r->call->dsum_out, ds);
    recurrence_backward(&r->rows, &r->call->how, state, w->draw, ds, &d, m);
    linear_store_state(r, ds, r->call->dstate_in, r->call->dsum_in);
    for (int64_t t = 0; t < r->T; t++) {
        if (d.e) d.e[t] = -d.e[t];
        write_back(w, t, d.v + t * r->columns);
        if (r->row[AU_SLOT_BONUS]) bonus_back(w, t);
    }
}

static void begin_sequence(AuLinearRun *r)
{
    AuProgram *const around[] = {r->out_mod, r->out_value, r->out_back.program, r->sum_back,
                                 r->slot[AU_SLOT_NORM]};
    for (size_t n = 0; n < sizeof around / sizeof *around; n++)
        if (around[n]) around[n]->fresh = true;
    for (uint32_t s = 0; s < AU_SLOT_COUNT; s++)
        if (r->back[s].program) r->back[s].program->fresh = true;
}

static bool head_back(AuLinearRun *r)
{
    Back *w = (Back *)r;
    const int64_t V = r->o.E;
    double *out = AU_NEW_ARRAY(r->rows_arena, double, V),
           *dout = AU_NEW_ARRAY(r->rows_arena, double, V);
    w->draw = AU_NEW_ARRAY(r->rows_arena, double, r->T * r->columns + 1);
    memset(w->of, 0, sizeof w->of);
    begin_sequence(r);
    for (r->o.i = 0; r->o.i < r->T; r->o.i++)
        if (!output_back(w, r->o.i, out, dout)) return false;
    recurrence_back(w);
    for (uint32_t s = 0; s < AU_SLOT_COUNT; s++)
        for (r->o.i = 0; r->o.i < r->T && s != AU_SLOT_NORM && s != AU_SLOT_SKIP && w->of[s];
             r->o.i++)
            if (!scatter(r, &r->back[s], w->of[s] + r->o.i * linear_width(r, (AuSlot)s)))
                return false;
    return true;
}

bool attn_linear_gradients(const AuAttn *a, const AuNormal *n, const AuNormalGrads *g,
                           const AuLinearCall *call, AuArena *scratch, const char **why)
{
    Back w = {0};
    if (!attn_linear_forward(a, n, call, scratch, why) ||
        !linear_begin(&w.r, a, n, g, call, scratch, why))
        return false;
    for (uint32_t i = 0; i < a->tensor_count; i++) {
        size_t count = 1;
        for (uint32_t k = 0; k < a->tensors[i].rank; k++) count *= (size_t)w.r.o.dims[i][k];
        if (call->grads[i]) memset(call->grads[i], 0, count * sizeof(double));
    }
    return linear_run(&w.r, head_back);
}
