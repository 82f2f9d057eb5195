/* reference_body.h - attention and its gradients by their formulas, included once for REAL double (the truth) and once for REAL
 * float with weights, outputs and gradients rounded to the operand type (the plain computation, whose error bounds ours). */

static REAL NAME(score)(const Problem *p, int h, int i, int j, REAL s)
{
    const REAL root = REAL_FN(sqrt)((REAL)p->D), distance = (REAL)(i + p->T - p->S - j);
    switch (p->kind) {
    case CAUSAL:
    case DOCUMENTS: return s / root;
    case LOCAL:
        return 5 * REAL_FN(tanh)(s / root / 5) -
               (REAL)0.1 * (REAL)(h + 1) * REAL_FN(fabs)(distance);
    case SIGMOID: return 1 / (1 + REAL_FN(exp)(1 - s / root));
    case RETENTION: return s / root * REAL_FN(exp2)((REAL)-0.05 * (REAL)(h + 1) * distance);
    case BIAS:
        return s / root +
               (REAL)p->bias[((size_t)h * (size_t)p->S + (size_t)i) * (size_t)p->T + (size_t)j];
    case SLOPE: return s / root - (REAL)p->slope[h] * REAL_FN(fabs)(distance);
    }
    return 0;
}

static REAL NAME(dot)(const float *a, const float *b, int n)
{
    REAL lanes[8] = {0};
    for (int x = 0; x < n; x++) lanes[x % 8] += (REAL)a[x] * (REAL)b[x];
    REAL sum = 0;
    for (int x = 0; x < 8; x++) sum += lanes[x];
    return sum;
}

/* The weights of one row before the normaliser, the factor of its output, and the final row scale. */
static void NAME(weights)(const Problem *p, const REAL *s, const bool *ok, REAL *w, REAL *factor,
                          REAL *final)
{
    REAL m = -INFINITY, r = 0;
    for (int j = 0; j < p->T; j++) m = ok[j] && s[j] > m ? s[j] : m;
    if (p->kind == SIGMOID || p->kind == RETENTION) {
        for (int j = 0; j < p->T; j++) r += ok[j] ? REAL_FN(fabs)(s[j]) : 0;
        r = r > 1 ? r : 1;
        const REAL scale = p->kind == RETENTION ? r : 1;
        for (int j = 0; j < p->T; j++) w[j] = ok[j] ? s[j] / scale : 0;
        *factor = 1;
        *final = p->kind == RETENTION ? r : 0;
        return;
    }
    const REAL base = m == -INFINITY ? 0 : m;
    for (int j = 0; j < p->T; j++) r += w[j] = ok[j] ? REAL_FN(exp)(s[j] - base) : 0;
    *factor = r == 0 ? 0 : 1 / r;
    *final = m + REAL_FN(log)(r);
}

static void NAME(row)(const Problem *p, int b, int h, int i, REAL *s, bool *ok)
{
    const float *q =
        p->q + (((size_t)b * (size_t)p->H + (size_t)h) * (size_t)p->S + (size_t)i) * (size_t)p->D;
    const float *k = p->k + ((size_t)b * (size_t)p->Hk + (size_t)(h / (p->H / p->Hk))) *
                                (size_t)p->T * (size_t)p->D;
    for (int j = 0; j < p->T; j++) {
        s[j] = NAME(score)(p, h, i, j, NAME(dot)(q, k + (size_t)j * (size_t)p->D, p->D));
        ok[j] = is_unmasked(p, b, i, j);
    }
}

static void NAME(forward)(const Problem *p, bool rounds, double *o, double *final)
{
    REAL *s = malloc(sizeof *s * (size_t)p->T), *w = malloc(sizeof *w * (size_t)p->T),
         *out = malloc(sizeof *out * (size_t)p->E);
    bool *ok = malloc((size_t)p->T);
    for (int row = 0; row < p->B * p->H * p->S; row++) {
        const int b = row / (p->H * p->S), h = row / p->S % p->H, i = row % p->S;
        const float *v = p->v + ((size_t)b * (size_t)p->Hk + (size_t)(h / (p->H / p->Hk))) *
                                    (size_t)p->T * (size_t)p->E;
        REAL factor, last;
        NAME(row)(p, b, h, i, s, ok);
        NAME(weights)(p, s, ok, w, &factor, &last);
        for (int e = 0; e < p->E; e++) out[e] = 0;
        for (int j = 0; j < p->T; j++) {
            const REAL weight = rounds ? (REAL)round_to(p->operand, (float)w[j]) : w[j];
            for (int e = 0; weight != 0 && e < p->E; e++)
                out[e] += weight * (REAL)v[(size_t)j * (size_t)p->E + (size_t)e];
        }
        for (int e = 0; e < p->E; e++) {
            const REAL value = out[e] * factor;
            o[(size_t)row * (size_t)p->E + (size_t)e] =
                (double)(rounds ? (REAL)round_to(p->operand, (float)value) : value);
        }
        final[row] = (double)last;
    }
    free(s), free(w), free(out), free(ok);
}

/* dq, dk, dv, dslope of causal softmax with linear biases; D is E. */
static void NAME(backward)(const Problem *p, bool rounds, double *dq, double *dk, double *dv,
                           double *dslope)
{
    const size_t D = (size_t)p->D, T = (size_t)p->T;
    REAL *s = malloc(sizeof *s * T), *w = malloc(sizeof *w * T), *dp = malloc(sizeof *dp * T),
         *out = malloc(sizeof *out * D);
    bool *ok = malloc(T);
    const REAL root = REAL_FN(sqrt)((REAL)p->D);
#define ROUNDED(x) (rounds ? (REAL)round_to(p->operand, (float)(x)) : (x))
    for (int row = 0; row < p->B * p->H * p->S; row++) {
        const int b = row / (p->H * p->S), h = row / p->S % p->H, i = row % p->S;
        const size_t keys = ((size_t)b * (size_t)p->Hk + (size_t)(h / (p->H / p->Hk))) * T * D,
                     at = (size_t)row * D;
        REAL factor, last, delta = 0, slope = 0;
        NAME(row)(p, b, h, i, s, ok);
        NAME(weights)(p, s, ok, w, &factor, &last);
        for (size_t e = 0; e < D; e++) out[e] = 0;
        for (size_t j = 0; j < T; j++) {
            w[j] *= factor;
            dp[j] = NAME(dot)(p->grad + at, p->v + keys + j * D, p->D);
            for (size_t e = 0; e < D; e++) out[e] += ROUNDED(w[j]) * (REAL)p->v[keys + j * D + e];
        }
        for (size_t e = 0; e < D; e++) delta += (REAL)p->grad[at + e] * ROUNDED(out[e]);
        for (size_t j = 0; j < T; j++) {
            const REAL ds = w[j] * (dp[j] - delta), scaled = ROUNDED(ds / root);
            slope -= REAL_FN(fabs)((REAL)(i + p->T - p->S - (int)j)) * ds;
            for (size_t e = 0; e < D; e++) {
                dq[at + e] += (double)(scaled * (REAL)p->k[keys + j * D + e]);
                dk[keys + j * D + e] += (double)(scaled * (REAL)p->q[at + e]);
                dv[keys + j * D + e] += (double)(ROUNDED(w[j]) * (REAL)p->grad[at + e]);
            }
        }
        dslope[h] += (double)slope;
    }
#undef ROUNDED
    free(s), free(w), free(dp), free(out), free(ok);
}

/* Linear attention with a scalar decay a token; the state [d, e] rounded where it is used. */
static void NAME(linear)(const Problem *p, const float *gate, const float *state_in, bool rounds,
                         double *o, double *state_out)
{
    const size_t D = (size_t)p->D, E = (size_t)p->E;
    REAL *state = malloc(sizeof *state * D * E);
    for (int head = 0; head < p->B * p->H; head++) {
        for (size_t x = 0; x < D * E; x++) state[x] = (REAL)state_in[(size_t)head * D * E + x];
        for (int t = 0; t < p->T; t++) {
            const size_t at = (size_t)head * (size_t)p->T + (size_t)t;
            const REAL g = (REAL)gate[at],
                       log_decay =
                           -REAL_FN(log1p)(REAL_FN(exp)(-REAL_FN(fabs)(g))) - (g < 0 ? -g : 0);
            const REAL decay = REAL_FN(exp)(log_decay / 16);
            for (size_t d = 0; d < D; d++)
                for (size_t e = 0; e < E; e++)
                    state[d * E + e] =
                        state[d * E + e] * decay + (REAL)p->k[at * D + d] * (REAL)p->v[at * E + e];
            for (size_t e = 0; e < E; e++) {
                REAL sum = 0;
                for (size_t d = 0; d < D; d++) {
                    const REAL used = rounds ? (REAL)round_to(p->operand, (float)state[d * E + e])
                                             : state[d * E + e];
                    sum += (REAL)p->q[at * D + d] / REAL_FN(sqrt)((REAL)p->D) * used;
                }
                o[at * E + e] = (double)(rounds ? (REAL)round_to(p->operand, (float)sum) : sum);
            }
        }
        for (size_t x = 0; x < D * E; x++) state_out[(size_t)head * D * E + x] = (double)state[x];
    }
    free(state);
}
