/* engine_test.c - the recurrence token after token against its definition and central differences, chunks against it, and
 * what must hold of any: sequences cut anywhere, resets, numbers that are none, f32. */
#include <math.h>
#include <string.h>

#include "support.h"

static const AuEngine steps = {0};
static const AuFeedback feedbacks[] = {AU_FEEDBACK_NONE, AU_FEEDBACK_KEY, AU_FEEDBACK_OWN};
static const int64_t chunk_sizes[] = {1, 16, 64};

static AuArena *arena;
static int begin(void **state)
{
    (void)state;
    return !(arena = au_arena_new(NULL));
}
static int end(void **state)
{
    (void)state;
    au_arena_free(arena);
    return 0;
}

static const char *name_of(const Shape *s, int64_t chunk)
{
    return au_format(arena, "feedback %d, %d numbers a decay, %s%s, T %d, K %d, V %d, chunk %d",
                     (int)s->feedback, (int)s->G, gate_names[s->gates], s->before ? ", before" : "",
                     (int)s->T, (int)s->K, (int)s->V, (int)chunk);
}

static void expect_close(const Run *found, const Run *expected, double bound, const char *name)
{
    char where;
    const double error = run_error(found, expected, &where);
    if (!(error <= bound)) fail_msg("%s: '%c' is off by %.2g of its largest", name, where, error);
}

/* ---- the definition, with matrices: S = (D + e k k' D, or D + b x') S + k v' */

static void expect_definition(const Run *run, const char *name)
{
    enum { MOST = 8 };
    const AuRows *r = &run->rows;
    double S[MOST][MOST], next[MOST][MOST];
    for (int64_t n = 0; n < r->K * r->V; n++) S[n / r->V][n % r->V] = run->state[n];
    for (int64_t t = 0; t < r->T; t++) {
        const double *q = r->q + t * r->K, *k = r->k + t * r->K;
        for (int64_t e = 0; e < r->V; e++) {
            double o = 0;
            for (int64_t c = 0; c < r->K; c++) {
                next[c][e] = k[c] * r->v[t * r->V + e];
                for (int64_t n = 0; n < r->K; n++) {
                    const double D = r->G ? exp(r->g[t * r->G + (r->G > 1 ? n : 0)]) : 1;
                    double M = c == n ? D : 0;
                    if (r->e) M += r->e[t] * k[c] * k[n] * D;
                    if (r->x) M += r->b[t * r->K + c] * r->x[t * r->K + n];
                    next[c][e] += M * S[n][e];
                }
                o += q[c] * (r->before ? S[c][e] : next[c][e]);
            }
            if (!(fabs(o - run->o[t * r->V + e]) <= 1e-12 * (1 + fabs(o))))
                fail_msg("%s: o[%d] is %.17g, expected %.17g", name, (int)t, run->o[t * r->V + e],
                         o);
        }
        memcpy(S, next, sizeof S);
    }
    for (int64_t n = 0; n < r->K * r->V; n++)
        if (!(fabs(S[n / r->V][n % r->V] - run->last[n]) <= 1e-12 * (1 + fabs(run->last[n]))))
            fail_msg("%s: the last state differs", name);
}

static double slope(const Run *run, double *x)
{
    const double at = *x, h = 1e-3;
    double f[4];
    Run moved = run_like(run);
    for (int n = 0; n < 4; n++) {
        AuArena *scratch = au_arena_new(NULL);
        *x = at + h * (n < 2 ? n - 2 : n - 1);
        memcpy(moved.last, run->state, (size_t)(run->rows.K * run->rows.V) * sizeof(double));
        recurrence_forward(&run->rows, &steps, moved.last, moved.o, scratch);
        f[n] = run_loss(&moved);
        au_arena_free(scratch);
    }
    *x = at;
    return (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * h);
}

static void expect_slopes(Run *run, double *x, const double *found, int64_t count, char field,
                          const char *name)
{
    for (int64_t n = 0; n < count; n++) {
        const double expected = slope(run, &x[n]);
        if (!(fabs(found[n] - expected) <= 1e-8 * (1 + fabs(expected))))
            fail_msg("%s: d%c[%d] is %.12g, central differences give %.12g", name, field, (int)n,
                     found[n], expected);
    }
}

static void test_definition(void **state)
{
    (void)state;
    for (size_t f = 0; f < 3; f++)
        for (int64_t G = 0; G < 3; G++)
            for (int before = 0; before < 2; before++) {
                const Shape s = {7, 4, 3, G == 2 ? 4 : G, feedbacks[f], before, SOFT};
                Run run = run_new(arena, &s, f * 10 + (uint64_t)G);
                const char *name = name_of(&s, 0);
                run_make(&run, &steps);
                expect_definition(&run, name);
                for (const char *field = "qkvgexb"; *field; field++) {
                    int64_t count;
                    double *x = rows_field(&run.rows, *field, &count);
                    if (x)
                        expect_slopes(&run, x, rows_field(&run.d, *field, &count), count, *field,
                                      name);
                }
                expect_slopes(&run, run.state, run.dfirst, s.K * s.V, '0', name);
            }
}

/* ---- chunks against steps */

static void test_chunks(void **state)
{
    (void)state;
    static const int64_t lengths[] = {1, 15, 16, 17, 37, 63, 65, 100},
                         widths[][2] = {{5, 3}, {8, 16}, {16, 7}};
    uint64_t n = 0;
    for (size_t f = 0; f < 3; f++)
        for (int64_t G = 0; G < 3; G++)
            for (int gates = 0; gates < (G ? GATES : 1); gates++)
                for (size_t c = 0; c < 3; c++, n++) {
                    const int64_t *w = widths[n % 3];
                    const Shape s = {lengths[n * 5 % 8], w[0],  w[1],        G == 2 ? w[0] : G,
                                     feedbacks[f],       n % 2, (Gates)gates};
                    Run expected = run_new(arena, &s, n), found = run_like(&expected);
                    run_make(&expected, &steps);
                    run_make(&found, &(AuEngine){.chunk = chunk_sizes[c]});
                    expect_close(&found, &expected, 2e-10, name_of(&s, chunk_sizes[c]));
                }
}

/* ---- whatever is cut */

static Run part_of(const Run *run, int64_t first, int64_t count, const double *state)
{
    Run out = *run;
    AuRows *r = &out.rows;
    r->T = count;
    r->q += first * r->K, r->k += first * r->K, r->v += first * r->V;
    if (r->g) r->g += first * r->G;
    if (r->e) r->e += first;
    if (r->x) r->x += first * r->K, r->b += first * r->K;
    out.dout += first * r->V;
    out.state = (double *)(uintptr_t)state;
    return run_like(&out);
}

/* A sequence in two, the state and its gradient carried; nothing at all is a sequence, too. */
static void test_cuts(void **state)
{
    (void)state;
    static const int64_t cuts[] = {0, 1, 13, 40, 64, 83};
    for (size_t f = 0; f < 3; f++)
        for (int64_t G = 0; G < 3; G++)
            for (size_t c = 0; c < 6; c++) {
                const AuEngine how = {.chunk = chunk_sizes[c % 3]};
                const Shape s = {83, 6, 4, G == 2 ? 6 : G, feedbacks[f], c % 2, MIXED};
                Run whole = run_new(arena, &s, c), joined = run_like(&whole);
                run_make(&whole, &how);
                Run one = part_of(&whole, 0, cuts[c], whole.state);
                run_make(&one, &how);
                Run two = part_of(&whole, cuts[c], s.T - cuts[c], one.last);
                run_make(&two, &how);
                one.dlast = two.dfirst;
                run_make(&one, &how);
                memcpy(joined.last, two.last, (size_t)(s.K * s.V) * sizeof(double));
                memcpy(joined.dfirst, one.dfirst, (size_t)(s.K * s.V) * sizeof(double));
                memcpy(joined.o, one.o, (size_t)(cuts[c] * s.V) * sizeof(double));
                memcpy(joined.o + cuts[c] * s.V, two.o,
                       (size_t)((s.T - cuts[c]) * s.V) * sizeof(double));
                for (const char *field = "qkvgexb"; *field; field++) {
                    int64_t all, first, rest;
                    double *to = rows_field(&joined.d, *field, &all);
                    if (!to) continue;
                    const double *a = rows_field(&one.d, *field, &first),
                                 *b = rows_field(&two.d, *field, &rest);
                    memcpy(to, a, (size_t)first * sizeof *to);
                    memcpy(to + first, b, (size_t)rest * sizeof *to);
                }
                expect_close(&joined, &whole, 1e-10, name_of(&s, cuts[c]));
            }
}

/* ---- numbers */

static void convert(double *x, int64_t count)
{
    for (int64_t n = 0; n < count && x; n++) x[n] = (double)(float)x[n];
}

static void to_single(Run *run)
{
    for (const char *f = "qkvgexb"; *f; f++) {
        int64_t count;
        double *x = rows_field(&run->rows, *f, &count);
        if (x) convert(x, count);
    }
    convert(run->state, run->rows.K * run->rows.V);
    convert(run->dlast, run->rows.K * run->rows.V);
    convert(run->dout, run->rows.T * run->rows.V);
}

/* In f32: at most 3 times the error of the recurrence in f32, gradients 4 times. */
static void test_single(void **state)
{
    (void)state;
    for (size_t f = 0; f < 3; f++)
        for (int64_t G = 0; G < 3; G++)
            for (int gates = 0; gates < (G ? GATES : 1); gates++) {
                const Shape s = {150,          16,        12,          G == 2 ? 16 : G,
                                 feedbacks[f], gates % 2, (Gates)gates};
                if (s.feedback == AU_FEEDBACK_OWN && gates == GROWING)
                    continue; /* without a bound */
                Run exact = run_new(arena, &s, (uint64_t)gates);
                to_single(&exact);
                Run plain = run_like(&exact), found = run_like(&exact);
                run_make(&exact, &steps);
                run_make(&plain, &(AuEngine){.single = true});
                run_make(&found, &(AuEngine){.single = true, .chunk = gates % 2 ? 16 : 64});
                char where;
                const double error = run_error(&plain, &exact, &where);
                expect_close(&found, &exact, 4 * error + 2e-6, name_of(&s, gates % 2 ? 16 : 64));
            }
}

/* d(decay) = dg / decay, where a script gives the decay itself: no sum may cancel. */
static void test_small_decays(void **state)
{
    (void)state;
    static const double decays[] = {0.5, 1e-3, 1e-6, 1e-12, 1e-30};
    for (int64_t G = 1; G < 3; G++)
        for (size_t n = 0; n < 5; n++) {
            const Shape s = {64, 16, 12, G == 2 ? 16 : 1, AU_FEEDBACK_NONE, false, SOFT};
            Run exact = run_new(arena, &s, n);
            uint64_t random = n;
            for (int64_t i = 0; i < s.T * s.G; i++)
                exact.rows.g[i] = random_between(&random, 0, 1) < 0.3 ? log(decays[n]) : -0.05;
            to_single(&exact);
            Run found = run_like(&exact);
            run_make(&exact, &steps);
            run_make(&found, &(AuEngine){.single = true, .chunk = 64});
            for (int64_t i = 0; i < s.T * s.G; i++) {
                exact.d.g[i] /= exp(exact.rows.g[i]);
                found.d.g[i] /= exp(exact.rows.g[i]);
            }
            const double error = relative(found.d.g, exact.d.g, s.T * s.G);
            if (!(error < 2e-4))
                fail_msg("d(decay) at %g, %d a token: %.2g", decays[n], (int)s.G, error);
        }
}

static double rms(const double *found, const double *expected, int64_t count)
{
    double error = 0, size = 0;
    for (int64_t n = 0; n < count; n++) {
        error += (found[n] - expected[n]) * (found[n] - expected[n]);
        size += expected[n] * expected[n];
    }
    return sqrt(error / size);
}

static void to_bits(double *x, int64_t count, int bits)
{
    for (int64_t n = 0; n < count; n++) {
        int e;
        frexp(x[n], &e);
        x[n] = nearbyint(x[n] / ldexp(1, e - bits)) * ldexp(1, e - bits);
    }
}

/* The delta rule on keys that are nearly equal, strengths near 2, operands of bf16: the inverse and what is written behind
 * it are two numbers each, and errors are those of the recurrence that reads and writes in bf16. */
static void test_near_keys(void **state)
{
    (void)state;
    static const double cases[][2] = {{0.1, 1.0}, {0.1, 1.9}, {0.02, 1.99}};
    for (size_t n = 0; n < 3; n++) {
        enum { T = 256, K = 32, V = 24 };
        const Shape s = {T, K, V, 0, AU_FEEDBACK_KEY, false, ONE};
        Run exact = run_new(arena, &s, n);
        for (int64_t i = T * K - 1; i >= 0; i--)
            exact.rows.k[i] = exact.rows.k[i % K] + cases[n][0] * exact.rows.k[i];
        for (int64_t t = 0; t < T; t++) {
            double sum = 0;
            for (int64_t c = 0; c < K; c++)
                sum += exact.rows.k[t * K + c] * exact.rows.k[t * K + c];
            for (int64_t c = 0; c < K; c++) exact.rows.k[t * K + c] /= sqrt(sum);
            exact.rows.e[t] = -cases[n][1];
        }
        to_bits(exact.rows.q, T * K, 8), to_bits(exact.rows.k, T * K, 8),
            to_bits(exact.rows.v, T * V, 8);
        Run found = run_like(&exact);
        run_make(&exact, &steps);
        double S[K * V], o[T * V], read[V], rounded[K * V];
        memcpy(S, exact.state, sizeof S);
        for (int64_t t = 0; t < T; t++) {
            const double *k = exact.rows.k + t * K, *q = exact.rows.q + t * K;
            memcpy(rounded, S, sizeof S);
            to_bits(rounded, K * V, 8);
            for (int64_t e = 0; e < V; e++) {
                read[e] = 0;
                for (int64_t c = 0; c < K; c++) read[e] += k[c] * rounded[c * V + e];
                read[e] = exact.rows.v[t * V + e] + exact.rows.e[t] * read[e];
            }
            to_bits(read, V, 8);
            for (int64_t i = 0; i < K * V; i++) S[i] += k[i / V] * read[i % V];
            memcpy(rounded, S, sizeof S);
            to_bits(rounded, K * V, 8);
            for (int64_t e = 0; e < V; e++) {
                o[t * V + e] = 0;
                for (int64_t c = 0; c < K; c++) o[t * V + e] += q[c] * rounded[c * V + e];
            }
        }
        for (size_t c = 1; c < 3; c++) {
            run_make(&found, &(AuEngine){.chunk = chunk_sizes[c],
                                         .single = true,
                                         .plain_sums = true,
                                         .operand = 8,
                                         .solve = 16,
                                         .values = 16});
            const double errors[] = {rms(found.o, exact.o, T * V) / rms(o, exact.o, T * V),
                                     rms(found.last, exact.last, K * V) /
                                         rms(S, exact.last, K * V)};
            for (int i = 0; i < 2; i++)
                if (!(errors[i] < 2))
                    fail_msg("near keys, strength %g, chunk %d, %s: %.2f of the recurrence's error",
                             cases[n][1], (int)chunk_sizes[c], i ? "state" : "o", errors[i]);
        }
    }
}

/* ---- what is no number, and resets */

static bool all_nan(const double *x, int64_t count)
{
    for (int64_t n = 0; n < count; n++)
        if (x[n] == x[n]) return false;
    return true;
}

static void test_bad_numbers(void **state)
{
    (void)state;
    enum { T = 90, AT = 40, K = 6, V = 4 };
    for (size_t f = 0; f < 3; f++)
        for (int64_t G = 1; G < 3; G++)
            for (int64_t chunk = 0; chunk <= 32; chunk += 16) {
                const AuEngine how = {.chunk = chunk};
                const Shape s = {T, K, V, G == 2 ? K : 1, feedbacks[f], false, SOFT};
                const char *name = name_of(&s, chunk);
                const int64_t untouched = chunk ? AT / chunk * chunk : AT;
                Run clean = run_new(arena, &s, 3), bad = run_like(&clean);
                run_make(&clean, &how);
                for (int what = 0; what < 2; what++) {
                    double *x = what ? &bad.rows.v[AT * V] : &bad.rows.g[AT * s.G];
                    const int64_t count = what ? V : s.G;
                    double kept[K];
                    memcpy(kept, x, (size_t)count * sizeof *x);
                    for (int64_t n = 0; n < count; n++) x[n] = NAN;
                    run_make(&bad, &how);
                    memcpy(x, kept, (size_t)count * sizeof *x);
                    if (memcmp(bad.o, clean.o, (size_t)(untouched * V) * sizeof *x) != 0)
                        fail_msg("%s: nan reaches back", name);
                    if (!all_nan(bad.o + AT * V, (T - AT) * V) || !all_nan(bad.last, K * V))
                        fail_msg("%s: nan is lost", name);
                }
                if (s.feedback == AU_FEEDBACK_OWN) continue; /* reads behind the reset */
                for (int64_t n = 0; n < s.G; n++)
                    clean.rows.g[AT * s.G + n] = n % 2 ? -1e9 : -INFINITY;
                for (int64_t n = 0; n < K * V; n++) clean.state[n] += 1e30;
                run_make(&clean, &how);
                const double *none = AU_NEW_ARRAY(arena, double, K *V);
                Run alone = part_of(&clean, AT, T - AT, none);
                run_make(&alone, &how);
                if (!(relative(clean.o + AT * V, alone.o, (T - AT) * V) < 1e-12) ||
                    !(relative(clean.last, alone.last, K * V) < 1e-12))
                    fail_msg("%s: a reset does not forget", name);
                for (int64_t n = 0; n < s.G; n++)
                    if (clean.d.g[AT * s.G + n] != 0)
                        fail_msg("%s: a gradient through a reset", name);
                if (!(fabs(clean.dfirst[0]) < 1e3)) fail_msg("%s: the state's gradient", name);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_definition, begin, end),
        cmocka_unit_test_setup_teardown(test_chunks, begin, end),
        cmocka_unit_test_setup_teardown(test_cuts, begin, end),
        cmocka_unit_test_setup_teardown(test_single, begin, end),
        cmocka_unit_test_setup_teardown(test_small_decays, begin, end),
        cmocka_unit_test_setup_teardown(test_near_keys, begin, end),
        cmocka_unit_test_setup_teardown(test_bad_numbers, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
