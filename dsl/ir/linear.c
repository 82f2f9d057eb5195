/* linear.c - see linear.h and linear_rows.h: slots evaluated for all tokens of a head, the recurrence over them, and what
 * follows token by token: bonus, norm, skip, out_mod. */
#include "linear_rows.h"
#include "meaning.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- setting up */

int64_t linear_width(const AuLinearRun *r, AuSlot slot)
{
    if (slot == AU_SLOT_LOG_DECAY) return r->n->decay == AU_DECAY_VECTOR ? r->o.D : 1;
    const uint8_t channel = attn_slot_channel(slot);
    return channel == AU_AX_K ? r->o.D : channel == AU_AX_V ? r->o.E : 1;
}

static AuProgram *program_of(AuLinearRun *r, const AuExpr *roots, uint32_t count, uint8_t across)
{
    AuOracle *o = &r->o;
    if (!count || !roots[0].i) return NULL;
    AuProgram *p = attn_oracle_program(o, roots, count, across, o->D > o->E ? o->D : o->E);
    if (across != AU_AX_C) p->key_count = (uint32_t)o->D;
    return p;
}

static AuSlotBack back_of(AuLinearRun *r, const AuInputGrads *in, uint8_t across)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < in->count; i++) count += 1u + attn_at(r->o.a, in->at[i].read)->count;
    AuExpr *roots = AU_NEW_ARRAY(r->o.arena, AuExpr, count + 1);
    for (uint32_t i = 0, at = 0; i < in->count; i++) {
        const AuExpr read = in->at[i].read;
        roots[at++] = in->at[i].value;
        for (uint32_t k = 0; k < attn_at(r->o.a, read)->count; k++)
            roots[at++] = attn_arg(r->o.a, read, k);
    }
    return (AuSlotBack){program_of(r, roots, count, across), in};
}

static void make_programs(AuLinearRun *r)
{
    const uint8_t across = AU_AX_K | AU_AX_V;
    for (uint32_t s = 0; s < AU_SLOT_COUNT; s++) {
        r->slot[s] = program_of(r, &r->n->slot[s], 1, across);
        if (r->g) r->back[s] = back_of(r, &r->g->slot[s], across);
    }
    r->out_mod = program_of(r, &r->o.a->out_mod, 1, AU_AX_C);
    if (!r->g) return;
    r->out_value = program_of(r, &r->g->out.value, 1, AU_AX_C);
    r->out_back = back_of(r, &r->g->out.inputs, AU_AX_C);
    r->sum_back = program_of(r, &r->g->sum, 1, across);
}

static bool check_sequences(AuLinearRun *r)
{
    AuOracle *o = &r->o;
    const int64_t *cu = r->call->cu_seqlens, count = r->call->sequences;
    const AuSpan span = o->a->span;
    if (o->S != o->T) return attn_oracle_fail(o, span, "a recurrence has as many queries as keys");
    if (!cu) return true;
    if (o->B != 1)
        return attn_oracle_fail(o, span, "packed sequences are one batch, found %" PRId64, o->B);
    for (int64_t n = 0; n < count; n++)
        if (cu[n + 1] < cu[n])
            return attn_oracle_fail(
                o, span, "cu_seqlens decreases at %" PRId64 ": %" PRId64 " after %" PRId64, n + 1,
                cu[n + 1], cu[n]);
    if (cu[0] == 0 && cu[count] == o->T) return true;
    return attn_oracle_fail(
        o, span, "cu_seqlens goes from %" PRId64 " to %" PRId64 ", tokens from 0 to %" PRId64,
        cu[0], cu[count], o->T);
}

bool linear_begin(AuLinearRun *r, const AuAttn *a, const AuNormal *n, const AuNormalGrads *g,
                  const AuLinearCall *call, AuArena *scratch, const char **why)
{
    *r = (AuLinearRun){.n = n, .g = g, .call = call};
    if (!attn_oracle_begin(&r->o, a, &call->call, scratch, why) || !check_sequences(r))
        return false;
    r->columns = r->o.E + (n->slot[AU_SLOT_NORM].i != 0);
    r->o.packed = call->cu_seqlens != NULL;
    make_programs(r);
    return true;
}

/* ---- rows */

bool linear_program(AuLinearRun *r, AuProgram *p)
{
    attn_program_run(p, AU_CHANGED_ALL, (uint32_t)r->o.E);
    for (uint32_t k = 0; k < p->root_count; k++) {
        const AuEvalStep *root = p->roots[k];
        const uint32_t count = !root->vector                   ? 1
                               : root->of_keys && p->key_count ? p->key_count
                                                               : (uint32_t)r->o.E;
        for (uint32_t i = 0; i < count && root->any_bad; i++)
            if (attn_step_trouble(p, root, i)) return attn_oracle_trouble(&r->o, p, root, i);
    }
    return true;
}

static bool load_slot(AuLinearRun *r, AuSlot s)
{
    const int64_t width = linear_width(r, s);
    r->row[s] = NULL;
    if (!r->slot[s] || s == AU_SLOT_NORM) return true;
    r->row[s] = AU_NEW_ARRAY(r->rows_arena, double, r->T *width + 1);
    r->slot[s]->fresh = true; /* another sequence may have another length */
    for (r->o.i = 0; r->o.i < r->T; r->o.i++) {
        if (!linear_program(r, r->slot[s])) return false;
        for (int64_t c = 0; c < width; c++)
            r->row[s][r->o.i * width + c] = s == AU_SLOT_LOG_DECAY && r->o.i + 1 == r->call->reset
                                                ? -INFINITY
                                                : attn_step_at(r->slot[s]->roots[0], (uint32_t)c);
    }
    return true;
}

/* Where products multiply rounded numbers, rows are made in the operand's type, as those of other attentions are. */
static void round_rows(AuLinearRun *r)
{
    const AuSlot rows[] = {AU_SLOT_Q, AU_SLOT_K, AU_SLOT_V};
    if (!r->call->how.chunk || !r->call->how.operand) return;
    for (uint32_t s = 0; s < sizeof rows / sizeof *rows; s++)
        for (int64_t n = 0; n < r->T * linear_width(r, rows[s]); n++)
            r->row[rows[s]][n] = attn_round(r->row[rows[s]][n], r->call->call.round_to);
}

/* Values by the strength of the write, the column of ones with them; the strength of erasing is taken away. */
static void join_rows(AuLinearRun *r)
{
    round_rows(r);
    const int64_t T = r->T, V = r->o.E;
    const double *w = r->row[AU_SLOT_WRITE], *erase = r->row[AU_SLOT_ERASE];
    r->rows = (AuRows){.T = T,
                       .K = r->o.D,
                       .V = r->columns,
                       .G = r->n->decay == AU_DECAY_NONE ? 0 : linear_width(r, AU_SLOT_LOG_DECAY),
                       .feedback = r->n->feedback,
                       .before = r->n->before,
                       .q = r->row[AU_SLOT_Q],
                       .k = r->row[AU_SLOT_K],
                       .v = AU_NEW_ARRAY(r->rows_arena, double, T * r->columns + 1),
                       .g = r->row[AU_SLOT_LOG_DECAY],
                       .e = erase ? AU_NEW_ARRAY(r->rows_arena, double, T + 1) : NULL,
                       .x = r->row[AU_SLOT_READS],
                       .b = r->row[AU_SLOT_WRITES]};
    for (int64_t t = 0; t < T; t++) {
        for (int64_t e = 0; e < r->columns; e++)
            r->rows.v[t * r->columns + e] =
                (w ? w[t] : 1) * (e < V ? r->row[AU_SLOT_V][t * V + e] : 1);
        if (erase) r->rows.e[t] = -erase[t];
    }
}

void linear_load_state(const AuLinearRun *r, const double *state, const double *sum, double *to)
{
    const int64_t K = r->o.D, V = r->o.E, N = r->columns;
    for (int64_t c = 0; c < K; c++)
        for (int64_t e = 0; e < N; e++) {
            const double *from = e < V ? state : sum;
            const int64_t at = r->state_at * K + c;
            to[c * N + e] = !from ? 0 : e < V ? from[at * V + e] : from[at];
        }
}

void linear_store_state(const AuLinearRun *r, const double *from, double *state, double *sum)
{
    const int64_t K = r->o.D, V = r->o.E, N = r->columns;
    for (int64_t c = 0; c < K; c++)
        for (int64_t e = 0; e < N; e++) {
            double *to = e < V ? state : sum;
            const int64_t at = r->state_at * K + c;
            if (to) *(e < V ? &to[at * V + e] : &to[at]) = from[c * N + e];
        }
}

double linear_bonus(const AuLinearRun *r, int64_t t)
{
    const int64_t K = r->o.D;
    double sum = 0;
    for (int64_t c = t * K; c < (t + 1) * K; c++)
        sum += r->row[AU_SLOT_Q][c] * r->row[AU_SLOT_BONUS][c] * r->row[AU_SLOT_K][c];
    return sum;
}

static void read_rows(AuLinearRun *r)
{
    const int64_t V = r->o.E, N = r->columns;
    r->state = AU_NEW_ARRAY(r->rows_arena, double, r->o.D *N);
    r->raw = AU_NEW_ARRAY(r->rows_arena, double, r->T *N + 1);
    linear_load_state(r, r->call->state_in, r->call->sum_in, r->state);
    recurrence_forward(&r->rows, &r->call->how, r->state, r->raw, r->rows_arena);
    linear_store_state(r, r->state, r->call->state_out, r->call->sum_out);
    for (int64_t t = 0; t < r->T && r->row[AU_SLOT_BONUS]; t++) {
        const double weight = linear_bonus(r, t);
        for (int64_t e = 0; e < N; e++)
            r->raw[t * N + e] += weight * (e < V ? r->row[AU_SLOT_V][t * V + e] : 1);
    }
}

static bool run_sequence(AuLinearRun *r, int64_t n, bool (*each)(AuLinearRun *r))
{
    const int64_t *cu = r->call->cu_seqlens;
    bool good = true;
    r->T = cu ? cu[n + 1] - cu[n] : r->o.T;
    r->o.first = cu ? cu[n] : 0;
    r->o.length = r->T;
    r->o.b = cu ? 0 : n;
    for (r->o.h = 0; r->o.h < r->o.H && good; r->o.h++) {
        r->rows_arena = au_arena_new(NULL);
        if (!r->rows_arena) return attn_oracle_fail(&r->o, r->o.a->span, "no memory");
        r->state_at = n * r->o.H + r->o.h;
        for (uint32_t s = 0; s < AU_SLOT_COUNT && good; s++) good = load_slot(r, (AuSlot)s);
        if (good) {
            join_rows(r);
            read_rows(r);
            good = each(r);
        }
        au_arena_free(r->rows_arena);
    }
    return good;
}

bool linear_run(AuLinearRun *r, bool (*each)(AuLinearRun *r))
{
    const int64_t count = r->call->cu_seqlens ? r->call->sequences : r->o.B;
    for (int64_t n = 0; n < count; n++)
        if (!run_sequence(r, n, each)) return false;
    return true;
}

/* ---- outputs */

bool linear_output(AuLinearRun *r, int64_t t, double *out, double *norm)
{
    const int64_t V = r->o.E;
    const double *raw = r->raw + t * r->columns;
    *norm = 1;
    if (r->slot[AU_SLOT_NORM]) {
        r->o.element = &raw[V];
        if (!linear_program(r, r->slot[AU_SLOT_NORM])) return false;
        *norm = attn_step_at(r->slot[AU_SLOT_NORM]->roots[0], 0);
    }
    for (int64_t e = 0; e < V; e++)
        out[e] = raw[e] / *norm + (r->row[AU_SLOT_SKIP] ? r->row[AU_SLOT_SKIP][t * V + e] : 0);
    return true;
}

static bool write_outputs(AuLinearRun *r)
{
    AuOracle *o = &r->o;
    const int64_t V = o->E;
    double *row = AU_NEW_ARRAY(r->rows_arena, double, V), norm;
    if (!r->call->call.o) return true;
    if (r->slot[AU_SLOT_NORM]) r->slot[AU_SLOT_NORM]->fresh = true;
    if (r->out_mod) r->out_mod->fresh = true;
    for (o->i = 0; o->i < r->T; o->i++) {
        double *out = r->call->call.o + ((o->b * o->H + o->h) * o->T + o->first + o->i) * V;
        if (!linear_output(r, o->i, row, &norm) ||
            !attn_oracle_mod(o, r->out_mod, row, out, (uint32_t)V))
            return false;
    }
    return true;
}

bool attn_linear_forward(const AuAttn *a, const AuNormal *n, const AuLinearCall *call,
                         AuArena *scratch, const char **why)
{
    AuLinearRun r;
    return linear_begin(&r, a, n, NULL, call, scratch, why) && linear_run(&r, write_outputs);
}
