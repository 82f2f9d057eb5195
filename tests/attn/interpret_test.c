/* interpret_test.c - the oracle against loops written out here, formula by formula, and against itself under other tilings. */
#include "support.h"

#include <math.h>
#include <string.h>

#include "meaning.h"

enum { MAX_T = 64 };

typedef struct Shape {
    int64_t B, H, Hk, S, T, D, E;
} Shape;

/* Causal softmax attention with grouped heads, the direct formula. */
static void plain_attention(const Case *c, Shape n, double *o, double *lse)
{
    const double *q = c->tensors[0], *k = c->tensors[1], *v = c->tensors[2];
    for (int64_t b = 0; b < n.B; b++)
        for (int64_t h = 0; h < n.H; h++)
            for (int64_t i = 0; i < n.S; i++) {
                const int64_t head = b * n.Hk + h / (n.H / n.Hk), row = (b * n.H + h) * n.S + i;
                double p[MAX_T] = {0}, top = -INFINITY, sum = 0;
                const int64_t last = i + (n.T - n.S);
                for (int64_t j = 0; j <= last && j < n.T; j++) {
                    for (int64_t x = 0; x < n.D; x++)
                        p[j] += q[row * n.D + x] * k[(head * n.T + j) * n.D + x];
                    p[j] /= sqrt((double)n.D);
                    top = fmax(top, p[j]);
                }
                for (int64_t j = 0; j <= last && j < n.T; j++) sum += p[j] = exp(p[j] - top);
                lse[row] = top + log(sum);
                for (int64_t e = 0; e < n.E; e++) {
                    o[row * n.E + e] = 0;
                    for (int64_t j = 0; j <= last && j < n.T; j++)
                        o[row * n.E + e] += p[j] / sum * v[(head * n.T + j) * n.E + e];
                }
            }
}

static void test_mha(void **state)
{
    (void)state;
    const Shape shapes[] = {{1, 1, 1, 1, 1, 1, 1},
                            {2, 4, 2, 5, 7, 3, 4},
                            {1, 6, 1, 17, 17, 8, 5},
                            {1, 2, 2, 13, 4, 4, 4}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        const Shape n = shapes[s];
        Bench b = bench_new();
        AuAttn *a = bench_read_file(&b, "mha.air");
        Case *c = case_new(&b, a,
                           au_format(b.arena, "B=%d H=%d Hk=%d S=%d T=%d D=%d E=%d", (int)n.B,
                                     (int)n.H, (int)n.Hk, (int)n.S, (int)n.T, (int)n.D, (int)n.E),
                           s);
        double *o = AU_NEW_ARRAY(b.arena, double, c->rows *(size_t)n.E),
               *lse = AU_NEW_ARRAY(b.arena, double, c->rows);
        plain_attention(c, n, o, lse);
        const int64_t tiles[] = {0, 1, 2, 3, 16};
        for (size_t t = 0; t < sizeof tiles / sizeof *tiles; t++) {
            c->call.key_tile = tiles[t];
            case_run(&b, c);
            for (size_t i = 0; i < c->rows * (size_t)n.E; i++)
                expect_near(c->o[i], o[i] == o[i] ? o[i] : 0, 1e-12);
            for (size_t i = 0; i < c->rows; i++)
                expect_near(c->finals[0][i], lse[i] == lse[i] ? lse[i] : -INFINITY, 1e-12);
        }
        bench_free(&b);
    }
}

/* Weights are those that make the output, whatever the tiles. */
static void test_weights(void **state)
{
    (void)state;
    Bench b = bench_new();
    Case *c = case_new(&b, bench_read_file(&b, "mha.air"), "B=1 H=2 Hk=1 S=6 T=9 D=4 E=3", 7);
    c->call.key_tile = 2;
    case_run(&b, c);
    for (size_t row = 0; row < c->rows; row++) {
        double total = 0;
        for (size_t e = 0; e < 3; e++) {
            double o = 0;
            for (size_t j = 0; j < 9; j++) o += c->weights[row * 9 + j] * c->tensors[2][j * 3 + e];
            expect_near(c->o[row * 3 + e], o, 1e-12);
        }
        for (size_t j = 0; j < 9; j++) total += c->weights[row * 9 + j];
        expect_near(total, 1, 1e-12);
        assert_true(c->weights[row * 9 + 8] == 0 ||
                    row % 6 == 5); /* causal, the last row sees all */
    }
    bench_free(&b);
}

static double rotate(const double *x, int width, int c, double position, double theta, int first,
                     int count, int interleaved)
{
    const int l = c - first;
    (void)width;
    if (l < 0 || l >= count) return x[c];
    const int j = interleaved ? l / 2 : l % (count / 2);
    const int upper = interleaved ? l % 2 : l >= count / 2;
    const int partner =
        interleaved ? (upper ? c - 1 : c + 1) : (upper ? c - count / 2 : c + count / 2);
    const double angle = position * pow(theta, -2.0 * j / count);
    return upper ? x[c] * cos(angle) + x[partner] * sin(angle)
                 : x[c] * cos(angle) - x[partner] * sin(angle);
}

/* everything.air written out: row mods, two products, table, bias, distance, window, lengths, dropout, gate. */
static void everything_row(const Case *c, int64_t b, int64_t h, int64_t i, double *out,
                           double *final)
{
    enum { B = 2, H = 4, Hk = 2, S = 5, T = 7, D = 8, E = 6, P = 4, W = 3 };
    Case *m = (Case *)(uintptr_t)c;
    const double *q = c->tensors[0] + ((b * H + h) * S + i) * D, *gain = case_tensor(m, "gain");
    const double *bias = case_tensor(m, "bias"), *table = case_tensor(m, "table"),
                 *length = case_tensor(m, "length");
    const double *q_pe = case_tensor(m, "q_pe") + ((b * H + h) * S + i) * P,
                 *k_pe = case_tensor(m, "k_pe") + b * T * P;
    double x[D], y[D], query[D], squares = 0, weight[T], sum = 0;
    for (int d = 0; d < D; d++) squares += q[d] * q[d];
    for (int d = 0; d < D; d++) x[d] = q[d] / sqrt(squares / D + 1e-6) * gain[d];
    for (int d = 0; d < D; d++) query[d] = rotate(x, D, d, (double)(i + T - S), 10000, 0, D, 0);
    for (int64_t j = 0; j < T; j++) {
        const int64_t distance = i + (T - S) - j;
        weight[j] = 0;
        if (!(j < length[b] && distance >= 0 && distance < c->params[1])) continue;
        const double *k = c->tensors[1] + ((b * Hk + h / 2) * T + j) * D;
        double s = 0, pe = 0;
        for (int d = 0; d < D; d++) y[d] = rotate(k, D, d, (double)j, 10000, 2, 4, 1);
        for (int d = 0; d < D; d++) s += query[d] * y[d];
        for (int d = 0; d < P; d++) pe += q_pe[d] * k_pe[j * P + d];
        s = tanh((s + pe) * 0.3) + bias[(h * S + i) * T + j];
        s += table[(distance > W ? W : distance < -W ? -W : distance) + W];
        if (distance > 0) s -= (double)distance * exp2(-0.5 * (double)(h + 1));
        sum += fabs(s);
        weight[j] = s;
    }
    const double r = *final = sum > 1 ? sum : 1;
    for (int e = 0; e < E; e++) {
        double o = 0;
        for (int64_t j = 0; j < T; j++) {
            const uint32_t seed[2] = {(uint32_t)c->params_i64[3],
                                      (uint32_t)(c->params_i64[3] >> 32)};
            const double u =
                attn_dropout_uniform(seed, (uint32_t)b, (uint32_t)h, (uint32_t)i, (uint32_t)j);
            const double p = u >= 0.25 ? weight[j] / r / 0.75 : 0;
            o += p * c->tensors[2][((b * H + h) * T + j) * E + e] * (double)(h + 1);
        }
        const double gate = case_tensor(m, "gate")[((b * H + h) * S + i) * E + e];
        out[e] = o / (1 + exp(-gate));
    }
}

static void test_everything(void **state)
{
    (void)state;
    Bench b = bench_new();
    Case *c = case_new(&b, bench_read_file(&b, "everything.air"), "B=2 H=4 Hk=2 S=5 T=7", 3);
    case_tensor(c, "length")[0] = 7;
    case_tensor(c, "length")[1] = 4;
    case_param(c, "window", 3);
    c->params_i64[3] = 0x123456789ABCDEF;
    for (int64_t tile = 0; tile < 4; tile++) {
        c->call.key_tile = tile;
        case_run(&b, c);
        for (int64_t row = 0; row < 2 * 4 * 5; row++) {
            double o[6], r;
            everything_row(c, row / 20, row / 5 % 4, row % 5, o, &r);
            expect_near(c->finals[0][row], r, 1e-12);
            for (int e = 0; e < 6; e++) expect_near(c->o[row * 6 + e], o[e], 1e-12);
        }
    }
    bench_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_mha), cmocka_unit_test(test_weights),
                                       cmocka_unit_test(test_everything)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
