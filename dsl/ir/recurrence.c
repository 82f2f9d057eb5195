/* recurrence.c - the oracle of `linear`: the recurrence itself, one token after the other, in f64.
 *     S' = D_t S_{t-1},   S_t = S' + b (a' S_{t-1}) - erase k (k' S') + write k v'
 *     o_t = q' S_t,   or q' (S_{t-1} + bonus k v') where the state is read before the token
 * `sum` is the same with a column of ones in place of v. */
#include "oracle.h"

#include <string.h>

#include "meaning.h"

/* One slot of a token: its program, and its value spread over the channels. */
typedef struct Slot {
    AuProgram *program; /* NULL: not given */
    double *value;      /* [width] */
    uint32_t width;
} Slot;

typedef struct Recurrence {
    AuOracle *o;
    Slot q, k, v, decay, erase, write, bonus, skip, a, b;
    AuProgram *norm, *out_mod;
    double *state, *before; /* [K, V + 1]: the last column is the one of ones */
    double *row;            /* [V + 1] */
} Recurrence;

static Slot slot(AuOracle *o, AuExpr e, uint8_t axis, int64_t width)
{
    Slot s = {.width = (uint32_t)width, .value = AU_NEW_ARRAY(o->arena, double, width)};
    const uint8_t across = axis & AU_AX_C ? AU_AX_C : AU_AX_K | AU_AX_V;
    const int64_t most = o->D > o->E ? o->D : o->E;
    if (!e.i) return s;
    s.program = attn_oracle_program(o, &e, 1, across, most);
    s.program->key_count = (uint32_t)o->D;
    return s;
}

static bool run_slot(Recurrence *r, Slot *s)
{
    if (!s->program) return true;
    attn_program_run(s->program, AU_CHANGED_ALL, (uint32_t)r->o->E);
    const AuEvalStep *root = s->program->roots[0];
    for (uint32_t i = 0; i < s->width; i++) {
        if (attn_step_trouble(s->program, root, i))
            return attn_oracle_trouble(r->o, s->program, root, i);
        s->value[i] = attn_step_at(root, i);
    }
    return true;
}

/* q, k and v are the tensors themselves where no slot is given. */
static void default_row(Recurrence *r, Slot *s, uint32_t tensor)
{
    const AuOracle *o = r->o;
    const int32_t source = attn_oracle_source(o, (int32_t)tensor);
    const int64_t *n = o->dims[source];
    const int64_t head = o->h / (o->H / n[1]),
                  first = source != (int32_t)tensor ? o->a->v_first : 0;
    if (!s->program)
        memcpy(s->value,
               o->call->tensors[source] + ((o->b * n[1] + head) * n[2] + o->i) * n[3] + first,
               s->width * sizeof *s->value);
}

static void update_state(Recurrence *r)
{
    const int64_t K = r->o->D, V = r->o->E + 1;
    memcpy(r->before, r->state, (size_t)(K * V) * sizeof *r->state);
    for (int64_t c = 0; c < K && r->decay.program; c++) { /* a factor below 0 has no logarithm */
        const double decay = r->decay.value[c] < 0 ? NAN : r->decay.value[c];
        for (int64_t e = 0; e < V; e++) r->state[c * V + e] *= decay;
    }
    if (r->a.program) {
        for (int64_t e = 0; e < V; e++) r->row[e] = 0;
        for (int64_t c = 0; c < K; c++)
            for (int64_t e = 0; e < V; e++) r->row[e] += r->a.value[c] * r->before[c * V + e];
        for (int64_t c = 0; c < K; c++)
            for (int64_t e = 0; e < V; e++) r->state[c * V + e] += r->b.value[c] * r->row[e];
    }
    if (r->erase.program) {
        for (int64_t e = 0; e < V; e++) r->row[e] = 0;
        for (int64_t c = 0; c < K; c++)
            for (int64_t e = 0; e < V; e++) r->row[e] += r->k.value[c] * r->state[c * V + e];
        for (int64_t c = 0; c < K; c++)
            for (int64_t e = 0; e < V; e++)
                r->state[c * V + e] -= r->erase.value[c] * r->k.value[c] * r->row[e];
    }
    const Slot *write = r->write.program ? &r->write : r->erase.program ? &r->erase : NULL;
    for (int64_t c = 0; c < K; c++)
        for (int64_t e = 0; e < V; e++)
            r->state[c * V + e] +=
                (write ? write->value[c] : 1) * r->k.value[c] * (e < V - 1 ? r->v.value[e] : 1);
}

/* row = q' of the state that is read, the present token by bonus where it is read before. */
static void read_state(Recurrence *r)
{
    const bool before = r->o->a->linear->read_before;
    const double *state = before ? r->before : r->state;
    const int64_t K = r->o->D, V = r->o->E + 1;
    for (int64_t e = 0; e < V; e++) {
        double sum = 0;
        for (int64_t c = 0; c < K; c++) {
            double s = state[c * V + e];
            if (before && r->bonus.program)
                s += r->bonus.value[c] * r->k.value[c] * (e < V - 1 ? r->v.value[e] : 1);
            sum += r->q.value[c] * s;
        }
        r->row[e] = sum;
    }
}

/* row through norm, skip and out_mod into the output. */
static bool write_token(Recurrence *r)
{
    AuOracle *o = r->o;
    const uint32_t E = (uint32_t)o->E;
    double *out = o->call->o + ((o->b * o->H + o->h) * o->S + o->i) * E;
    double norm = 1;
    if (r->norm) {
        o->element = &r->row[E];
        attn_program_run(r->norm, AU_CHANGED_ALL, 1);
        if (attn_step_trouble(r->norm, r->norm->roots[0], 0))
            return attn_oracle_trouble(o, r->norm, r->norm->roots[0], 0);
        norm = attn_step_at(r->norm->roots[0], 0);
    }
    for (uint32_t e = 0; e < E; e++)
        out[e] = r->row[e] = r->row[e] / norm + (r->skip.program ? r->skip.value[e] : 0);
    if (!r->out_mod) return true;
    o->element = r->row;
    attn_program_run(r->out_mod, AU_CHANGED_ALL, E);
    for (uint32_t e = 0; e < E; e++) {
        if (attn_step_trouble(r->out_mod, r->out_mod->roots[0], e))
            return attn_oracle_trouble(o, r->out_mod, r->out_mod->roots[0], e);
        out[e] = attn_step_at(r->out_mod->roots[0], e);
    }
    return true;
}

static bool run_token(Recurrence *r)
{
    Slot *const slots[] = {&r->q,     &r->k,     &r->v,    &r->decay, &r->erase,
                           &r->write, &r->bonus, &r->skip, &r->a,     &r->b};
    default_row(r, &r->q, 0);
    default_row(r, &r->k, 1);
    default_row(r, &r->v, 2);
    for (size_t i = 0; i < sizeof slots / sizeof *slots; i++)
        if (!run_slot(r, slots[i])) return false;
    update_state(r);
    read_state(r);
    return write_token(r);
}

bool attn_oracle_linear(AuOracle *o)
{
    const AuLinear *l = o->a->linear;
    const int64_t K = o->D, V = o->E, cells = K * (V + 1);
    Recurrence r = {.o = o};
    if (o->S != o->T)
        return attn_oracle_fail(o, o->a->span, "a recurrence has as many queries as keys");
    r.q = slot(o, l->q, AU_AX_K, K);
    r.k = slot(o, l->k, AU_AX_K, K);
    r.v = slot(o, l->v, AU_AX_V, V);
    r.decay = slot(o, l->decay, AU_AX_K, K);
    r.erase = slot(o, l->erase, AU_AX_K, K);
    r.write = slot(o, l->write, AU_AX_K, K);
    r.bonus = slot(o, l->bonus, AU_AX_K, K);
    r.skip = slot(o, l->skip, AU_AX_V, V);
    r.a = slot(o, l->lowrank_a, AU_AX_K, K);
    r.b = slot(o, l->lowrank_b, AU_AX_K, K);
    r.norm = slot(o, l->norm, 0, 1).program;
    r.out_mod = slot(o, o->a->out_mod, AU_AX_C, V).program;
    r.state = AU_NEW_ARRAY(o->arena, double, cells);
    r.before = AU_NEW_ARRAY(o->arena, double, cells);
    r.row = AU_NEW_ARRAY(o->arena, double, V + 1);
    for (o->b = 0; o->b < o->B; o->b++)
        for (o->h = 0; o->h < o->H; o->h++) {
            memset(r.state, 0, (size_t)cells * sizeof *r.state);
            for (o->i = 0; o->i < o->T; o->i++)
                if (!run_token(&r)) return false;
        }
    return true;
}
