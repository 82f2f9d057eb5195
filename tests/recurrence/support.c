/* support.c - see support.h. */
#include "support.h"
#include "random.h"

#include <math.h>
#include <string.h>

const char *const gate_names[GATES] = {"one",    "soft",  "strong",      "1e-30",  "zero",
                                       "resets", "mixed", "alternating", "growing"};

double random_between(uint64_t *random, double low, double high)
{
    return low + (high - low) * au_uniform(random);
}

static double *numbers(AuArena *arena, int64_t count, double scale, uint64_t *random)
{
    double *out = AU_NEW_ARRAY(arena, double, count + 1);
    for (int64_t n = 0; n < count; n++) out[n] = scale * random_between(random, -1.7, 1.7);
    return out;
}

static double log_decay(Gates gates, int64_t t, uint64_t *random)
{
    static const double mixed[] = {0, -1e-6, -1e-2, -1, -20, -69.08, -INFINITY};
    const double u = random_between(random, 0, 1), w = random_between(random, 0, 1);
    switch (gates) {
    case ONE: return 0;
    case SOFT: return -0.3 * u;
    case STRONG: return -20 * u;
    case TINY: return log(1e-30);
    case ZERO: return -INFINITY;
    case RESETS: return w < 0.1 ? -INFINITY : -0.1 * u;
    case MIXED: return mixed[(int)(u * 7)];
    case ALTERNATING: return t % 2 ? -20 : 0;
    case GROWING: return 0.07 * u - 0.03;
    }
    return 0;
}

static void normalise(double *rows, int64_t count, int64_t width)
{
    for (int64_t i = 0; i < count; i++) {
        double sum = 1e-6;
        for (int64_t c = 0; c < width; c++) sum += rows[i * width + c] * rows[i * width + c];
        for (int64_t c = 0; c < width; c++) rows[i * width + c] /= sqrt(sum);
    }
}

static AuRows room_for(const AuRows *r, AuArena *arena)
{
    AuRows d = *r;
    d.q = AU_NEW_ARRAY(arena, double, r->T * r->K + 1);
    d.k = AU_NEW_ARRAY(arena, double, r->T * r->K + 1);
    d.v = AU_NEW_ARRAY(arena, double, r->T * r->V + 1);
    if (r->g) d.g = AU_NEW_ARRAY(arena, double, r->T * r->G + 1);
    if (r->e) d.e = AU_NEW_ARRAY(arena, double, r->T + 1);
    if (r->x) d.x = AU_NEW_ARRAY(arena, double, r->T * r->K + 1);
    if (r->b) d.b = AU_NEW_ARRAY(arena, double, r->T * r->K + 1);
    return d;
}

Run run_new(AuArena *arena, const Shape *s, uint64_t seed)
{
    uint64_t random = seed;
    Run out = {.arena = arena};
    AuRows *r = &out.rows;
    *r = (AuRows){.T = s->T, .K = s->K, .V = s->V, .G = s->G, s->feedback, s->before};
    r->q = numbers(arena, s->T * s->K, 1 / sqrt((double)s->K), &random);
    r->k = numbers(arena, s->T * s->K, 1, &random);
    r->v = numbers(arena, s->T * s->V, 1, &random);
    normalise(r->k, s->T, s->K);
    if (s->G) r->g = AU_NEW_ARRAY(arena, double, s->T * s->G + 1);
    for (int64_t n = 0; n < s->T * s->G; n++) r->g[n] = log_decay(s->gates, n / s->G, &random);
    if (s->feedback == AU_FEEDBACK_KEY) {
        r->e = AU_NEW_ARRAY(arena, double, s->T + 1);
        for (int64_t n = 0; n < s->T; n++) r->e[n] = -random_between(&random, 0, 2);
    }
    if (s->feedback == AU_FEEDBACK_OWN) {
        r->x = numbers(arena, s->T * s->K, 0.6 / sqrt((double)s->K), &random);
        r->b = numbers(arena, s->T * s->K, 0.6 / sqrt((double)s->K), &random);
    }
    out.state = numbers(arena, s->K * s->V, 1, &random);
    out.dout = numbers(arena, s->T * s->V, 1, &random);
    out.dlast = numbers(arena, s->K * s->V, 1, &random);
    return run_like(&out);
}

Run run_like(const Run *run)
{
    Run out = *run;
    const AuRows *r = &run->rows;
    out.d = room_for(r, run->arena);
    out.o = AU_NEW_ARRAY(run->arena, double, r->T * r->V + 1);
    out.last = AU_NEW_ARRAY(run->arena, double, r->K * r->V);
    out.dfirst = AU_NEW_ARRAY(run->arena, double, r->K * r->V);
    return out;
}

void run_make(Run *run, const AuEngine *how)
{
    AuArena *scratch = au_arena_new(NULL);
    const size_t bytes = (size_t)(run->rows.K * run->rows.V) * sizeof(double);
    memcpy(run->last, run->state, bytes);
    memcpy(run->dfirst, run->dlast, bytes);
    recurrence_forward(&run->rows, how, run->last, run->o, scratch);
    recurrence_backward(&run->rows, how, run->state, run->dout, run->dfirst, &run->d, scratch);
    au_arena_free(scratch);
}

double run_loss(const Run *run)
{
    double sum = 0;
    for (int64_t n = 0; n < run->rows.T * run->rows.V; n++) sum += run->dout[n] * run->o[n];
    for (int64_t n = 0; n < run->rows.K * run->rows.V; n++) sum += run->dlast[n] * run->last[n];
    return sum;
}

double *rows_field(const AuRows *r, char field, int64_t *count)
{
    *count = r->T * (field == 'v' ? r->V : field == 'g' ? r->G : field == 'e' ? 1 : r->K);
    return field == 'q'   ? r->q
           : field == 'k' ? r->k
           : field == 'v' ? r->v
           : field == 'g' ? r->g
           : field == 'e' ? r->e
           : field == 'x' ? r->x
                          : r->b;
}

double relative(const double *found, const double *expected, int64_t count)
{
    double worst = 0, size = 1e-6;
    for (int64_t n = 0; n < count; n++) {
        if (isfinite(expected[n]) && fabs(expected[n]) > size) size = fabs(expected[n]);
        if (!isfinite(found[n]) != !isfinite(expected[n])) return INFINITY;
        if (isfinite(found[n]) && fabs(found[n] - expected[n]) > worst)
            worst = fabs(found[n] - expected[n]);
    }
    return worst / size;
}

double run_error(const Run *found, const Run *expected, char *where)
{
    const AuRows *r = &expected->rows;
    double worst = relative(found->o, expected->o, r->T * r->V);
    *where = 'o';
    const double states[] = {relative(found->last, expected->last, r->K * r->V),
                             relative(found->dfirst, expected->dfirst, r->K * r->V)};
    for (int n = 0; n < 2; n++)
        if (states[n] > worst) worst = states[n], *where = n ? '0' : 'S';
    for (const char *f = "qkvgexb"; *f; f++) {
        int64_t count;
        const double *want = rows_field(&expected->d, *f, &count);
        const double error = want ? relative(rows_field(&found->d, *f, &count), want, count) : 0;
        if (error > worst) worst = error, *where = *f;
    }
    return worst;
}
