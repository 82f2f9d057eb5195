/* recurrence_test.c - the oracle of `linear` against closed forms and matrices written out here. */
#include "support.h"

#include <math.h>
#include <string.h>

/* Retention: the recurrence is sum_j gamma^(i-j) (q_i k_j) v_j. */
static void test_retention(void **state)
{
    (void)state;
    Bench b = bench_new();
    const char *text =
        "attention r {\nsize B\nsize H\nsize T\nsize K\nsize V\n"
        "query q: f32[B, H, T, K]\nkey k: f32[B, H, T, K]\nvalue v: f32[B, H, T, V]\n"
        "linear {\nq = q{b, h, t, k} * rsqrt(to_f32(K))\ndecay = 1.0 - exp2(-5.0 - to_f32(h))\n"
        "norm = max(abs($x), 1.0)\nskip = v{b, h, t, v} * 0.5\n}\nout_mod = $x * to_f32(q_idx + "
        "1)\n}\n";
    enum { H = 2, T = 9, K = 3, V = 4 };
    Case *c = case_new(&b, bench_read(&b, text), "B=2 H=2 T=9 K=3 V=4", 2);
    case_run(&b, c);
    for (int64_t head = 0; head < 2 * H; head++)
        for (int64_t i = 0; i < T; i++) {
            double o[V] = {0}, sum = 0;
            for (int64_t j = 0; j <= i; j++) {
                double s = 0;
                for (int64_t x = 0; x < K; x++)
                    s += c->tensors[0][(head * T + i) * K + x] *
                         c->tensors[1][(head * T + j) * K + x];
                s *= pow(1 - exp2(-5 - (double)(head % H)), (double)(i - j)) / sqrt(K);
                sum += s;
                for (int64_t e = 0; e < V; e++) o[e] += s * c->tensors[2][(head * T + j) * V + e];
            }
            for (int64_t e = 0; e < V; e++)
                expect_near(
                    c->o[(head * T + i) * V + e],
                    (o[e] / fmax(fabs(sum), 1) + 0.5 * c->tensors[2][(head * T + i) * V + e]) *
                        (double)(i + 1),
                    1e-12);
        }
    bench_free(&b);
}

/* The gated delta rule, with matrices: S_t = (I - beta k k') alpha S_{t-1} + beta k v', normalised
 * keys, two value heads a key head. */
static void test_gated_delta_net(void **state)
{
    (void)state;
    enum { B = 1, Hk = 2, H = 4, T = 6, K = 3, V = 2 };
    Bench b = bench_new();
    Case *c =
        case_new(&b, bench_read_file(&b, "gated_delta_net.air"), "B=1 Hk=2 H=4 T=6 K=3 V=2", 8);
    case_run(&b, c);
    for (int h = 0; h < H; h++) {
        double S[K][V] = {{0}};
        for (int t = 0; t < T; t++) {
            const double *q = c->tensors[0] + (h / 2 * T + t) * K,
                         *k = c->tensors[1] + (h / 2 * T + t) * K;
            const double *v = c->tensors[2] + (h * T + t) * V;
            double qq = 1e-6, kk = 1e-6, kn[K];
            for (int x = 0; x < K; x++) qq += q[x] * q[x], kk += k[x] * k[x];
            for (int x = 0; x < K; x++) kn[x] = k[x] / sqrt(kk);
            const double a = case_tensor(c, "a")[h * T + t] + case_tensor(c, "dt_bias")[h];
            const double alpha = exp(-exp(case_tensor(c, "A_log")[h]) * log1p(exp(a)));
            const double beta = 1 / (1 + exp(-case_tensor(c, "beta")[h * T + t]));
            double next[K][V];
            for (int x = 0; x < K; x++)
                for (int e = 0; e < V; e++) {
                    double erased = 0;
                    for (int y = 0; y < K; y++) erased += kn[x] * kn[y] * alpha * S[y][e];
                    next[x][e] = alpha * S[x][e] - beta * erased + beta * kn[x] * v[e];
                }
            memcpy(S, next, sizeof S);
            for (int e = 0; e < V; e++) {
                double o = 0;
                for (int x = 0; x < K; x++) o += q[x] / sqrt(qq) / sqrt(K) * S[x][e];
                expect_near(c->o[(h * T + t) * V + e], o, 1e-12);
            }
        }
    }
    bench_free(&b);
}

/* Read before the token, with a bonus for it; a low-rank update. */
static void test_read_before(void **state)
{
    (void)state;
    enum { T = 5, K = 2, V = 2 };
    Bench b = bench_new();
    const char *text =
        "attention r {\nsize B\nsize H\nsize T\nsize K\nsize V\n"
        "query q: f32[B, H, T, K]\nkey k: f32[B, H, T, K]\nvalue v: f32[B, H, T, V]\n"
        "input w: f32[B, H, T, K]\ninput u: f32[H, K]\ninput x: f32[B, H, T, K]\ninput y: f32[B, "
        "H, T, K]\n"
        "linear {\ndecay = sigmoid(w{b, h, t, k})\nbonus = u{h, k}\nwrite = 0.5\n"
        "lowrank = x{b, h, t, k}, y{b, h, t, k}\nread before\n}\n}\n";
    Case *c = case_new(&b, bench_read(&b, text), "B=1 H=1 T=5 K=2 V=2", 2);
    case_run(&b, c);
    double S[K][V] = {{0}};
    for (int t = 0; t < T; t++) {
        const double *q = c->tensors[0] + t * K, *k = c->tensors[1] + t * K,
                     *v = c->tensors[2] + t * V;
        const double *x = case_tensor(c, "x") + t * K, *y = case_tensor(c, "y") + t * K,
                     *u = case_tensor(c, "u");
        for (int e = 0; e < V; e++) {
            double o = 0, low = 0;
            for (int n = 0; n < K; n++)
                o += q[n] * (S[n][e] + u[n] * k[n] * v[e]), low += x[n] * S[n][e];
            expect_near(c->o[t * V + e], o, 1e-12);
            for (int n = 0; n < K; n++)
                S[n][e] = S[n][e] / (1 + exp(-case_tensor(c, "w")[t * K + n])) + y[n] * low +
                          0.5 * k[n] * v[e];
        }
    }
    bench_free(&b);
}

/* Axes in another order, a head axis of 1, a channel that is not last: the same gates by name. */
static void test_axes_by_name(void **state)
{
    (void)state;
    enum { H = 2, T = 4, K = 3 };
    Bench b = bench_new();
    const char *text =
        "attention r {\nsize B\nsize H\nsize T\nsize K\nsize V\n"
        "query q: f32[B, H, T, K]\nkey k: f32[B, 1, T, K]\nvalue v: f32[B, H, T, V]\n"
        "input g: f32[%s]\nlinear {\ndecay = g{b, h, t, k}\n}\n}\n";
    Case *plain = case_new(&b, bench_read(&b, au_format(b.arena, text, "B, H, T, K")),
                           "B=2 H=2 T=4 K=3 V=2", 2);
    Case *turned = case_new(&b, bench_read(&b, au_format(b.arena, text, "K, T, 1, B, H")),
                            "B=2 H=2 T=4 K=3 V=2", 2);
    for (int n = 0; n < 2; n++)
        for (int h = 0; h < H; h++)
            for (int t = 0; t < T; t++)
                for (int c = 0; c < K; c++)
                    turned->tensors[3][((c * T + t) * 2 + n) * H + h] =
                        plain->tensors[3][((n * H + h) * T + t) * K + c];
    case_run(&b, plain);
    case_run(&b, turned);
    for (size_t i = 0; i < plain->rows * 2; i++) expect_near(turned->o[i], plain->o[i], 1e-15);
    bench_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_retention), cmocka_unit_test(test_gated_delta_net),
        cmocka_unit_test(test_read_before), cmocka_unit_test(test_axes_by_name)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
