/* interpret_test.c - the oracle against loops written out here, formula by formula, and against
 * itself under other tilings. */
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

/* everything.air written out: row mods, two products, table, bias, distance, window, lengths,
 * dropout, gate. */
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

/* ---- rows and pairs that take no part */

/* No pair at all: output 0 whatever out_mod makes of 0, finals from the start values, weights 0. */
static void test_empty_rows(void **state)
{
    (void)state;
    Bench b = bench_new();
    Case *c =
        case_softmax(&b, "input length: i32[B]", "mask = kv_idx < length[b]\nout_mod = $x + 1.0",
                     "B=2 H=2 Hk=1 S=3 T=4 D=2 E=2");
    case_tensor(c, "length")[1] = 4;
    for (size_t i = 0; i < c->rows * 2; i++) c->o[i] = NAN;
    case_run(&b, c);
    for (size_t row = 0; row < 6; row++) {
        assert_true(c->o[2 * row] == 0 && c->o[2 * row + 1] == 0);
        assert_true(c->finals[0][row] == -INFINITY);
        for (size_t j = 0; j < 4; j++) assert_true(c->weights[row * 4 + j] == 0);
    }
    for (size_t i = 12; i < 24; i++) assert_true(isfinite(c->o[i]) && c->o[i] != 0);
    bench_free(&b);
}

/* T = 0 is the same for all rows. */
static void test_no_keys(void **state)
{
    (void)state;
    Bench b = bench_new();
    Case *c = case_softmax(&b, "", "score_mod = $score * 2.0", "B=1 H=1 Hk=1 S=2 T=0 D=2 E=3");
    case_run(&b, c);
    for (size_t i = 0; i < 6; i++) assert_true(c->o[i] == 0);
    bench_free(&b);
}

/* A score of -inf takes no part, a tile of such pairs is not there; one of nan reaches its row. */
static void test_scores_of_no_size(void **state)
{
    (void)state;
    static const char *const bad[] = {"-inf", "where(q_idx == 1, nan, -inf)"};
    for (int n = 0; n < 2; n++) {
        Bench b = bench_new();
        const char *lines =
            au_format(b.arena, "score_mod = where(kv_idx / 4 == 1, $score, %s)", bad[n]);
        Case *c = case_softmax(&b, "", lines, "B=1 H=1 Hk=1 S=3 T=13 D=2 E=2");
        Case *m = case_softmax(&b, "", "mask = kv_idx / 4 == 1", "B=1 H=1 Hk=1 S=3 T=13 D=2 E=2");
        case_run(&b, m);
        for (int64_t tile = 0; tile < 6; tile++) {
            c->call.key_tile = tile;
            case_run(&b, c);
            for (size_t i = 0; i < 6; i++)
                if (n && i / 2 == 1)
                    assert_true(isnan(c->o[i]) && isnan(c->finals[0][i / 2]));
                else {
                    expect_near(c->o[i], m->o[i], 1e-13);
                    expect_near(c->finals[0][i / 2], m->finals[0][i / 2], 1e-13);
                }
        }
        bench_free(&b);
    }
}

/* Scores up to 1e4, scale 0, negative scale: finite, rows of weights that sum to 1, the same in
 * every tiling. */
static void test_hard_scores(void **state)
{
    (void)state;
    const char *mods[] = {"$score * 0.0",
                          "$score * -3.0",
                          "$score * 5000.0",
                          "$score * 0.001 - 10000.0",
                          "where(kv_idx == 5, 10000.0, $score)",
                          "to_f32(kv_idx) * 1000.0",
                          "-(to_f32(kv_idx) * 1000.0)"};
    for (size_t n = 0; n < sizeof mods / sizeof *mods; n++) {
        Bench b = bench_new();
        Case *c = case_softmax(&b, "", au_format(b.arena, "score_mod = %s", mods[n]),
                               "B=1 H=2 Hk=2 S=5 T=11 D=4 E=3");
        case_run(&b, c);
        double o[30];
        for (size_t i = 0; i < 30; i++) assert_true(isfinite(o[i] = c->o[i]));
        for (int64_t tile = 1; tile < 5; tile++) {
            c->call.key_tile = tile;
            case_run(&b, c);
            for (size_t i = 0; i < 30; i++) expect_near(c->o[i], o[i], 1e-12);
            for (size_t row = 0; row < 10; row++) {
                double sum = 0;
                for (size_t j = 0; j < 11; j++) sum += c->weights[row * 11 + j];
                expect_near(sum, 1, 1e-12);
            }
        }
        bench_free(&b);
    }
}

/* ---- values that are part of the keys, heads that share */

static void test_values_in_keys(void **state)
{
    (void)state;
    Bench b = bench_new();
    const char *text =
        "attention mla {\nsize B\nsize H\nsize S\nsize T\nsize E = 3\n"
        "query q: f32[B, H, S, 5]\nkey k: f32[B, 1, T, 5]\nvalue v = 0:3: f32[B, 1, T, E]\n"
        "k_mod = $x * 2.0\nscore_mod = $score * 0.5\n"
        "online sum {\nonline_fwd {\nreturn $score, 1.0\n}\nepilogue {\nreturn $x\n}\nforward = "
        "$score\n}\n}\n";
    Case *c = case_new(&b, bench_read(&b, text), "B=2 H=3 S=2 T=4", 9);
    c->tensors[2] = NULL;
    case_run(&b, c);
    for (int row = 0; row < 12; row++)
        for (int e = 0; e < 3; e++) {
            double o = 0;
            const double *q = c->tensors[0] + row * 5;
            for (int j = 0; j < 4; j++) {
                const double *k = c->tensors[1] + (row / 6 * 4 + j) * 5;
                double s = 0;
                for (int d = 0; d < 5; d++) s += q[d] * k[d];
                o += s * k[e]; /* values are taken before k_mod */
            }
            expect_near(c->o[row * 3 + e], o, 1e-13);
        }
    bench_free(&b);
}

/* ---- what is not chosen is not read */

static const struct {
    const char *lines;
    const char *why; /* NULL: it runs */
} reads[] = {
    {"score_mod = $score + table[kv_idx]",
     "test.air:14:22: index 3 on axis 0 of 'table' is not in [0, 3)"},
    {"mask = kv_idx < 3\nscore_mod = $score + table[kv_idx]", NULL}, /* the mask protects */
    {"score_mod = $score + where(kv_idx < 3, table[kv_idx], 0.0)", NULL},
    {"score_mod = $score + where(kv_idx < 4, table[kv_idx], 0.0)", "index 3 on axis 0 of 'table'"},
    {"score_mod = $score + table[min(max(kv_idx, 0), 2)]", NULL},
    {"mask = kv_idx < 3 && table[kv_idx] < 0.0", NULL},
    {"mask = table[kv_idx] < 0.0 && kv_idx < 3", "index 3 on axis 0 of 'table'"},
    {"mask = 3 <= kv_idx || table[kv_idx] < 0.0", NULL},
    {"mask = !(kv_idx < 3 && table[kv_idx] < 0.0)", NULL},
    {"score_mod = $score + table[kv_idx - 1]", "index -1 on axis 0 of 'table'"},
    {"mask = q_idx / (kv_idx - 1) == 0", "test.air:14:8: division of an integer by 0"},
    {"mask = kv_idx == 1 || q_idx % (kv_idx - 1) == 0", NULL},
    {"mask = ids[b] == 0", "5000000000 in 'ids' does not fit i32"},
    {"q_mod = $x * channel_sum(where($c < 3, table[$c], 0.0))", NULL},
    {"q_mod = $x * channel_sum(table[$c + 2])", "index 3 on axis 0 of 'table'"},
    {"score_mod = dot(q[b, h, q_idx], k[b, h, kv_idx + 1])",
     "index 5 on axis 2 of 'k' is not in [0, 5)"},
    {"q_mod = rope($x, q_idx, 100.0, 1, 2)",
     "rope turns 2 channels from channel 1 on in a row of 2"},
    {"out_mod = $x * table[q_idx + 1]", "index 3 on axis 0 of 'table'"},
    {"mask = q_idx == 0\nout_mod = $x * table[q_idx * 3]",
     NULL}, /* rows without a pair have no out_mod */
};

static void test_reads(void **state)
{
    (void)state;
    for (size_t n = 0; n < sizeof reads / sizeof *reads; n++) {
        Bench b = bench_new();
        Case *c = case_softmax(&b, "input table: f32[3]\ninput ids: i64[B]", reads[n].lines,
                               "B=1 H=1 Hk=1 S=3 T=5 D=2 E=2");
        case_tensor(c, "ids")[0] = 5e9;
        if (!reads[n].why)
            case_run(&b, c);
        else if (!strstr(case_fail(&b, c), reads[n].why))
            fail_msg("%s: expected '%s', found '%s'", reads[n].lines, reads[n].why,
                     case_fail(&b, c));
        bench_free(&b);
    }
}

/* Sizes and tensors that do not fit are refused with the numbers. */
static void test_refusals(void **state)
{
    (void)state;
    Bench b = bench_new();
    Case *c = case_softmax(&b, "", "", "B=1 H=3 Hk=2 S=2 T=2 D=2 E=2");
    assert_string_equal(case_fail(&b, c) + strlen("test.air:1:1: "),
                        "3 heads cannot share 2 heads of keys and 2 of values");
    c = case_softmax(&b, "", "", "B=1 H=2 Hk=2 S=2 T=2 D=2 E=2");
    c->tensors[1] = NULL;
    assert_non_null(strstr(case_fail(&b, c), "'k' is missing"));
    bench_free(&b);
}

/* ---- sizes from shapes */

static void test_bind_sizes(void **state)
{
    (void)state;
    Bench b = bench_new();
    AuAttn *a = bench_read(
        &b, bench_softmax(&b, "input table: f32[2 * T + 1]", "score_mod = $score + table[kv_idx]"));
    const int64_t q[] = {2, 4, 5, 8}, k[] = {2, 2, 7, 8}, v[] = {2, 2, 7, 6}, table[] = {15},
                  wrong[] = {14}, narrow[] = {2, 2, 7, 9};
    const int64_t *shapes[] = {q, k, v, table};
    uint32_t ranks[] = {4, 4, 4, 1};
    int64_t sizes[16];
    const char *why = "";
    assert_true(attn_bind_sizes(a, shapes, ranks, NULL, sizes, b.arena, &why));
    assert_int_equal(sizes[attn_size_of(a, "T")], 7);
    assert_int_equal(sizes[attn_size_of(a, "E")], 6);
    shapes[3] = wrong;
    assert_false(attn_bind_sizes(a, shapes, ranks, NULL, sizes, b.arena, &why));
    assert_string_equal(why, "axis 0 of 'table': expected 15 (2 * T + 1), found 14");
    shapes[1] = narrow;
    assert_false(attn_bind_sizes(a, shapes, ranks, NULL, sizes, b.arena, &why));
    assert_string_equal(why, "axis 3 of 'k': expected 8 (D), found 9");
    ranks[2] = 3;
    shapes[1] = k;
    assert_false(attn_bind_sizes(a, shapes, ranks, NULL, sizes, b.arena, &why));
    assert_string_equal(why, "'v': expected 4 axes, found 3");
    bench_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mha),         cmocka_unit_test(test_weights),
        cmocka_unit_test(test_everything),  cmocka_unit_test(test_empty_rows),
        cmocka_unit_test(test_no_keys),     cmocka_unit_test(test_scores_of_no_size),
        cmocka_unit_test(test_hard_scores), cmocka_unit_test(test_values_in_keys),
        cmocka_unit_test(test_reads),       cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_bind_sizes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
