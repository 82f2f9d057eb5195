/* steps_body.h - a recurrence token after token, and its adjoint: the meaning of the normal form. Included once for each
 * type of numbers: REAL, and NAME(x), the name of x for it. */
/* NAME(x)(..) is a call, which the formatter takes for a cast. */
// clang-format off

typedef struct NAME(Rows) {
    int64_t T, K, V, G;
    AuFeedback feedback;
    bool before;
    REAL *q, *k, *v, *g, *e, *x, *b;
} NAME(Rows);

/* The decay of channel c at token t: a floor makes a reset exact, and leaves nan what it is. */
static REAL NAME(log_decay)(const NAME(Rows) *r, int64_t t, int64_t c)
{
    if (!r->G) return 0;
    const REAL g = r->g[t * r->G + (r->G > 1 ? c : 0)];
    return g < NAME(FLOOR) ? NAME(FLOOR) : g;
}

static REAL NAME(decay)(const NAME(Rows) *r, int64_t t, int64_t c)
{
    return r->G ? NAME(EXP)(NAME(log_decay)(r, t, c)) : 1;
}

/* out[V] = row' state */
static void NAME(read)(REAL *restrict out, const REAL *row, const REAL *restrict state, int64_t K,
                       int64_t V)
{
    for (int64_t e = 0; e < V; e++) out[e] = 0;
    for (int64_t c = 0; c < K; c++)
        for (int64_t e = 0; e < V; e++) out[e] += row[c] * state[c * V + e];
}

/* state += row values' */
static void NAME(write)(REAL *restrict state, const REAL *row, const REAL *restrict values,
                        int64_t K, int64_t V)
{
    for (int64_t c = 0; c < K; c++)
        for (int64_t e = 0; e < V; e++) state[c * V + e] += row[c] * values[e];
}

/* out[K] = state values */
static void NAME(pull)(REAL *restrict out, const REAL *restrict state, const REAL *values,
                       int64_t K, int64_t V)
{
    for (int64_t c = 0; c < K; c++) {
        out[c] = 0;
        for (int64_t e = 0; e < V; e++) out[c] += state[c * V + e] * values[e];
    }
}

static REAL NAME(dot)(const REAL *x, const REAL *y, int64_t count)
{
    REAL sum = 0;
    for (int64_t n = 0; n < count; n++) sum += x[n] * y[n];
    return sum;
}

/* state' = D state; p[V]: what is fed back; u[V]: what k writes. */
static void NAME(next_state)(const NAME(Rows) *r, int64_t t, REAL *state, REAL *p, REAL *u)
{
    const int64_t K = r->K, V = r->V;
    if (r->feedback == AU_FEEDBACK_OWN) NAME(read)(p, r->x + t * K, state, K, V);
    for (int64_t c = 0; c < K && r->G; c++)
        for (int64_t e = 0; e < V; e++) state[c * V + e] *= NAME(decay)(r, t, c);
    if (r->feedback == AU_FEEDBACK_KEY) NAME(read)(p, r->k + t * K, state, K, V);
    for (int64_t e = 0; e < V; e++)
        u[e] = r->v[t * V + e] + (r->feedback == AU_FEEDBACK_KEY ? r->e[t] * p[e] : 0);
    NAME(write)(state, r->k + t * K, u, K, V);
    if (r->feedback == AU_FEEDBACK_OWN) NAME(write)(state, r->b + t * K, p, K, V);
}

/* states: [T + 1, K, V], those before each token and the last one; NULL: not wanted. */
static void NAME(steps_forward)(const NAME(Rows) *r, REAL *state, REAL *o, REAL *states,
                                AuArena *m)
{
    const int64_t K = r->K, V = r->V;
    REAL *p = AU_NEW_ARRAY(m, REAL, V), *u = AU_NEW_ARRAY(m, REAL, V);
    for (int64_t t = 0; t < r->T; t++) {
        if (states) memcpy(states + t * K * V, state, (size_t)(K * V) * sizeof *state);
        if (o && r->before) NAME(read)(o + t * V, r->q + t * K, state, K, V);
        NAME(next_state)(r, t, state, p, u);
        if (o && !r->before) NAME(read)(o + t * V, r->q + t * K, state, K, V);
    }
    if (states) memcpy(states + r->T * K * V, state, (size_t)(K * V) * sizeof *state);
}

/* Room for the adjoint of one token. */
typedef struct NAME(Token) {
    REAL *decayed; /* [K, V] D S_{t-1} */
    REAL *kept;    /* [V] what is read for the feedback */
    REAL *row;     /* [K] */
    REAL *dp;      /* [V] */
    REAL *direct;  /* [K, V] of S_{t-1}, not through the decay */
} NAME(Token);

/* Through the write of k: dv, dk, and with feedback `key` de and the gradient of D S (into ds, which becomes it). */
static void NAME(key_back)(const NAME(Rows) *r, int64_t t, NAME(Token) *w, REAL *ds,
                           NAME(Rows) *d)
{
    const int64_t K = r->K, V = r->V;
    const REAL *k = r->k + t * K;
    REAL *dv = d->v + t * V, *dk = d->k + t * K;
    NAME(read)(dv, k, ds, K, V);
    if (r->feedback == AU_FEEDBACK_KEY) {
        NAME(read)(w->kept, k, w->decayed, K, V);
        for (int64_t e = 0; e < V; e++) w->dp[e] = r->v[t * V + e] + r->e[t] * w->kept[e];
        NAME(pull)(dk, ds, w->dp, K, V);
        d->e[t] = NAME(dot)(w->kept, dv, V);
        NAME(pull)(w->row, w->decayed, dv, K, V);
        for (int64_t c = 0; c < K; c++) dk[c] += r->e[t] * w->row[c];
        for (int64_t e = 0; e < V; e++) w->dp[e] = r->e[t] * dv[e];
        NAME(write)(ds, k, w->dp, K, V);
    } else
        NAME(pull)(dk, ds, r->v + t * V, K, V);
}

static void NAME(own_back)(const NAME(Rows) *r, int64_t t, const REAL *before, NAME(Token) *w,
                           const REAL *ds, NAME(Rows) *d)
{
    const int64_t K = r->K, V = r->V;
    const REAL *x = r->x + t * K, *b = r->b + t * K;
    NAME(read)(w->dp, b, ds, K, V);
    NAME(read)(w->kept, x, before, K, V);
    NAME(pull)(d->b + t * K, ds, w->kept, K, V);
    NAME(pull)(d->x + t * K, before, w->dp, K, V);
    NAME(write)(w->direct, x, w->dp, K, V);
}

/* ds, of D S, becomes that of S; dg. */
static void NAME(decay_back)(const NAME(Rows) *r, int64_t t, const NAME(Token) *w, REAL *ds,
                             NAME(Rows) *d)
{
    const int64_t K = r->K, V = r->V;
    if (!r->G) return;
    for (int64_t c = 0; c < r->G; c++) d->g[t * r->G + c] = 0;
    for (int64_t c = 0; c < K; c++) {
        REAL *dg = &d->g[t * r->G + (r->G > 1 ? c : 0)];
        const REAL decay = NAME(decay)(r, t, c);
        *dg += NAME(dot)(ds + c * V, w->decayed + c * V, V);
        for (int64_t e = 0; e < V; e++) ds[c * V + e] *= decay;
    }
}

static void NAME(steps_backward)(const NAME(Rows) *r, const REAL *state, const REAL *dout,
                                 REAL *ds, NAME(Rows) *d, AuArena *m)
{
    const int64_t K = r->K, V = r->V, cells = K * V;
    REAL *states = AU_NEW_ARRAY(m, REAL, (r->T + 1) * cells), *last = AU_NEW_ARRAY(m, REAL, cells);
    NAME(Token)
    w = {AU_NEW_ARRAY(m, REAL, cells), AU_NEW_ARRAY(m, REAL, V), AU_NEW_ARRAY(m, REAL, K),
         AU_NEW_ARRAY(m, REAL, V), AU_NEW_ARRAY(m, REAL, cells)};
    memcpy(last, state, (size_t)cells * sizeof *last);
    NAME(steps_forward)(r, last, NULL, states, m);
    for (int64_t t = r->T - 1; t >= 0; t--) {
        const REAL *before = states + t * cells, *after = before + cells;
        const REAL *given = dout + t * V, *q = r->q + t * K;
        memset(w.direct, 0, (size_t)cells * sizeof *w.direct);
        NAME(pull)(d->q + t * K, r->before ? before : after, given, K, V);
        NAME(write)(r->before ? w.direct : ds, q, given, K, V);
        for (int64_t c = 0; c < K; c++)
            for (int64_t e = 0; e < V; e++)
                w.decayed[c * V + e] = NAME(decay)(r, t, c) * before[c * V + e];
        if (r->feedback == AU_FEEDBACK_OWN) NAME(own_back)(r, t, before, &w, ds, d);
        NAME(key_back)(r, t, &w, ds, d);
        NAME(decay_back)(r, t, &w, ds, d);
        for (int64_t n = 0; n < cells; n++) ds[n] += w.direct[n];
    }
}
// clang-format on
