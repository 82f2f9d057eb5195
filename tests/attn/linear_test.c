/* linear_test.c - recurrences by their normal form: against the words of the language, gradients against central
 * differences, packed sequences and states, logarithms of decays, classes. */
#include <math.h>
#include <string.h>

#include "gradient_support.h"
#include "linear.h"

#define SHAPE "B=2 H=4 G=2 Hk=2 T=7 K=4 V=3 N=4 P=3 W=9"
#define QKV   "attention x { q: [B, H, T, K]; k: [B, H, T, K]; v: [B, H, T, V];\n"

/* A script, its normal form and gradients, arguments, states. */
typedef struct Trial {
    Case *c;
    AuNormal n;
    AuNormalGrads *g;
    AuLinearCall call;
    size_t outs, states, sums;
    double *given[4]; /* o, state, sum; room for what is made */
    double **grads;
} Trial;

static double *numbers(Bench *b, size_t count, Random *r)
{
    double *x = AU_NEW_ARRAY(b->arena, double, count + 1);
    for (size_t i = 0; i < count; i++) x[i] = random_between(r, -1, 1);
    return x;
}

static int64_t extent(const Case *c, uint32_t tensor, uint32_t axis)
{
    return (int64_t)attn_scalar(c->a, c->a->tensors[tensor].axes[axis], c->sizes, c->params);
}

/* [sequences]: states, where they are packed; 0: one a batch. */
static Trial trial_new(Bench *b, const char *name, const char *text, const char *shape,
                       int64_t sequences)
{
    Random r = {99};
    Trial t = {0};
    AuAttn *a = compile_script(b, name, text);
    attn_simplify(a);
    t.c = case_new(b, a, shape, 7);
    for (uint32_t i = 3; i < a->tensor_count; i++) /* integers: some small ones */
        for (size_t n = 0; n < t.c->counts[i] && a->tensors[i].dtype >= AU_DT_I32; n++)
            t.c->tensors[i][n] = (double)(n % 2);
    t.n = attn_normal_form(a, b->arena);
    t.g = attn_normal_gradients(a, &t.n, b->arena, b->diags);
    if (!t.g) fail_msg("%s: %s", name, bench_errors(b));
    int64_t H = 0;
    for (uint32_t i = 0; i < 3; i++) H = extent(t.c, i, 1) > H ? extent(t.c, i, 1) : H;
    const int64_t B = extent(t.c, 0, 0), N = sequences ? sequences : B, T = extent(t.c, 0, 2);
    const int64_t K = extent(t.c, 0, 3), V = extent(t.c, 2, 3);
    t.outs = (size_t)(B * H * T * V), t.states = (size_t)(N * H * K * V),
    t.sums = (size_t)(N * H * K);
    t.c->o = numbers(b, t.outs, &r);
    t.c->call.o = t.c->o;
    t.grads = AU_NEW_ARRAY(b->arena, double *, a->tensor_count);
    for (uint32_t i = 0; i < a->tensor_count; i++) t.grads[i] = numbers(b, t.c->counts[i], &r);
    t.call = (AuLinearCall){.call = t.c->call, .sequences = sequences};
    if (a->v_in_k) t.c->tensors[2] = NULL, t.c->counts[2] = 0; /* no tensor of its own */
    t.call.call.o = numbers(b, t.outs, &r);
    t.call.state_in = numbers(b, t.states, &r), t.call.state_out = numbers(b, t.states, &r);
    t.call.dstate_out = numbers(b, t.states, &r), t.call.dstate_in = numbers(b, t.states, &r);
    t.call.dout = numbers(b, t.outs, &r);
    t.call.grads = t.grads;
    if (t.n.slot[AU_SLOT_NORM].i) {
        double *sum = numbers(b, t.sums, &r);
        for (size_t i = 0; i < t.sums; i++) sum[i] += 3; /* away from 0, which norm divides by */
        t.call.sum_in = sum, t.call.sum_out = numbers(b, t.sums, &r);
        t.call.dsum_out = numbers(b, t.sums, &r), t.call.dsum_in = numbers(b, t.sums, &r);
    }
    return t;
}

static void forward(Bench *b, const Trial *t, const char *name)
{
    const char *why = "";
    if (!attn_linear_forward(t->c->a, &t->n, &t->call, b->arena, &why))
        fail_msg("%s: %s", name, why);
}

static void gradients(Bench *b, const Trial *t, const char *name)
{
    const char *why = "";
    if (!attn_linear_gradients(t->c->a, &t->n, t->g, &t->call, b->arena, &why))
        fail_msg("%s: %s", name, why);
}

static void expect_all_near(const double *found, const double *expected, size_t count, double bound,
                            const char *name)
{
    double size = 1e-3;
    for (size_t i = 0; i < count; i++) size = fmax(size, fabs(expected[i]));
    for (size_t i = 0; i < count; i++)
        if (!(fabs(found[i] - expected[i]) <= bound * size))
            fail_msg("%s: element %zu is %.17g, expected %.17g", name, i, found[i], expected[i]);
}

/* ---- scripts of every slot, and of what makes them hard */

static const struct {
    const char *name, *text;
} scripts[] = {
    {"nothing", QKV "linear { } }"},
    {"a constant", QKV "linear { decay = 0.75; } }"},
    {"a learned constant", QKV "input a: f32[H] grad; linear { decay = sigmoid(a + 1.0); } }"},
    {"a scalar decay", QKV
     "input g: f32[B, H, T] grad; linear { q = q * rsqrt(K); decay = pow(sigmoid(g), 0.25); } }"},
    {"a vector decay", QKV "input g: f32[B, H, T, K] grad; linear { decay = sigmoid(g); } }"},
    {"a vector of the head", QKV "input g: f32[H, K] grad; linear { decay = exp(-exp(g)); } }"},
    {"a decay for the batch", QKV "input g: f32[B] grad; linear { decay = sigmoid(g); } }"},
    {"a decay that grows", QKV "input g: f32[B, H, T] grad; linear { decay = exp(0.3 * g); } }"},
    {"a decay that is itself a tensor",
     QKV "input g: f32[B, H, T] grad; linear { decay = abs(g) + 0.1; } }"},
    {"write", QKV "input w: f32[B, H, T] grad; linear { decay = 0.9; write = w; } }"},
    {"delta",
     QKV "input w: f32[B, H, T] grad; linear { k = l2norm(k); erase = sigmoid(w) * 2.0; } }"},
    {"gated delta, written otherwise",
     QKV "input w: f32[B, H, T] grad; input g: f32[B, H, T, K] grad; "
         "linear { k = l2norm(k); erase = sigmoid(w); write = 1.0 - w; decay = sigmoid(g); } }"},
    {"low rank",
     QKV "input x: [B, H, T, K] grad; input y: f32[H, K] grad; input g: f32[B, H, T] grad; "
         "linear { lowrank = (x * 0.5, y * x); decay = sigmoid(g); } }"},
    {"low rank, vector decay, read before",
     QKV "input x: [B, H, T, K] grad; input g: f32[B, H, T, K] grad; "
         "linear { lowrank = (x * 0.5, k); decay = sigmoid(g); read = before; } }"},
    {"bonus", QKV "input w: f32[B, H, T, K] grad; input u: f32[H, K] grad; "
                  "linear { decay = exp(-exp(w)); read = before; bonus = u; } }"},
    {"bonus and everything",
     QKV "input w: f32[B, H, T] grad; input u: f32[B, T, K] grad; input d: f32[H, V] grad; "
         "linear { q = silu(q); k = elu(k) + 1.0; v = tanh(v); decay = sigmoid(w); read = before; "
         "bonus = u * sigmoid(w); "
         "write = w * w; norm = max(abs(sum), 0.5); skip = d * v; } out_mod(o, b, h, i, c) = "
         "rmsnorm(o) * f32(c + 1); }"},
    {"norm", QKV "linear { q = elu(q) + 1.0; k = elu(k) + 1.0; norm = sum * sum + 0.5; } }"},
    {"norm of an input", QKV "input e: f32[H] grad; linear { q = exp(q); k = exp(k); norm = "
                             "abs(sum) + exp(e); decay = 0.9; } }"},
    {"skip", QKV "input d: f32[] grad; linear { skip = d[] * v * v; decay = 0.5; } }"},
    {"mixed channels", QKV "linear { v = v * sum(k); decay = sigmoid(k * sum(v)); write = sum(q * "
                           "k); skip = mean(v) * sum(k); } }"},
    {"sums that lost their channel",
     QKV "linear { v = v * sum(where(1 < 0, k, 2.0)); q = q * sum(where(1 < 0, v, 0.25)); "
         "k = k + sum(q) * 0.1; } }"},
    {"rope", QKV "input p: i32[B, T]; linear { q = rope(q, t); k = rope(k * 0.5, p, 100.0); v = v "
                 "* sum(rope(k, t)); decay = 0.9; } }"},
    {"stop_grad in nothing that is wanted",
     QKV "input g: f32[B, H, T]; linear { decay = sigmoid(stop_grad(g)); } }"},
    {"shared heads", "attention x { q: [B, G, T, K]; k: [B, 1, T, K]; v: [B, H, T, V]; input g: "
                     "f32[B, G, T] grad; input s: f32[B, 1, T] grad;"
                     "linear { decay = sigmoid(g); erase = sigmoid(s) ; k = l2norm(k); } }"},
    {"shared values",
     "attention x { q: [B, H, T, K]; k: [B, G, T, K]; v: [B, 1, T, V]; linear { decay = 0.8; } }"},
    {"indices", QKV "input table: f32[W] grad; input r: f32[T] grad; linear { decay = "
                    "sigmoid(table[t % 3 + h]); write = r[t] + table[8]; } }"},
    {"one width for both",
     "attention x { q: [B, H, T, K]; k: [B, H, T, K]; v: [B, H, T, K]; input g: f32[K] grad; "
     "linear { decay = sigmoid(g); v = v * g; skip = g * v; } }"},
    {"values inside of keys",
     "attention x { q: [B, H, T, K]; k: [B, G, T, K]; v = k[.., 1:4]; input g: f32[B, H, T] grad; "
     "linear { k = tanh(k); v = v * sum(k); decay = sigmoid(g); } }"},
    {"a position", QKV "linear { decay = 1.0 - 1.0 / f32(t + 2); q = q / f32(T); } }"},
};
enum { SCRIPTS = sizeof scripts / sizeof *scripts };

static const char *const examples[] = {"gated_delta_net", "gla", "mamba2", "retention_linear",
                                       "simple_gla"};

/* Calls for every script, examples too. */
static void each_script(void (*check)(Bench *b, const char *name, const char *text))
{
    for (size_t i = 0; i < SCRIPTS + sizeof examples / sizeof *examples; i++) {
        Bench b = bench_new();
        const char *name = i < SCRIPTS ? scripts[i].name : examples[i - SCRIPTS];
        check(&b, name,
              i < SCRIPTS
                  ? scripts[i].text
                  : bench_file(&b, au_format(b.arena, "../../front/examples/%s.attn", name)));
        bench_free(&b);
    }
}

static void expect_words(Bench *b, const char *name, const char *text)
{
    Trial t = trial_new(b, name, text, SHAPE, 0);
    t.call.state_in = t.call.sum_in = NULL; /* which words do not have */
    case_run(b, t.c);
    static const int64_t chunks[] = {0, 1, 3, 16};
    for (size_t i = 0; i < 4; i++) {
        t.call.how.chunk = chunks[i];
        forward(b, &t, name);
        expect_all_near(t.call.call.o, t.c->o, t.outs, 1e-11,
                        au_format(b->arena, "%s, chunk %d", name, (int)chunks[i]));
    }
}

static void test_words(void **state)
{
    (void)state;
    each_script(expect_words);
}

/* ---- gradients */

static double sum_of(const double *x, const double *y, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count && x && y; i++) sum += x[i] * y[i];
    return sum;
}

static double loss(Bench *b, const Trial *t, const char *name)
{
    AuArena *whole = b->arena;
    b->arena = au_arena_new(NULL);
    forward(b, t, name);
    au_arena_free(b->arena);
    b->arena = whole;
    return sum_of(t->call.dout, t->call.call.o, t->outs) +
           sum_of(t->call.dstate_out, t->call.state_out, t->states) +
           sum_of(t->call.dsum_out, t->call.sum_out, t->sums);
}

static void expect_slopes(Bench *b, const Trial *t, double *x, const double *found, size_t count,
                          const char *name)
{
    double size = 0;
    for (size_t i = 0; i < count; i++) size = fmax(size, fabs(found[i]));
    for (size_t i = 0; i < count; i += count / 5 + 1) {
        double step = 1e-2, expected, f[4];
        const double at = x[i];
        do { /* smaller ones where there is a kink near by */
            step *= 0.1;
            for (int n = 0; n < 4; n++) {
                x[i] = at + step * (n < 2 ? n - 2 : n - 1);
                f[n] = loss(b, t, name);
            }
            x[i] = at;
            expected = (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * step);
        } while (step > 1e-5 && !(fabs(found[i] - expected) <= 1e-8 * (size + fabs(expected))));
        if (!(fabs(found[i] - expected) <= 1e-7 * (size + fabs(expected)) + 1e-9))
            fail_msg("%s[%zu] is %.12g, central differences give %.12g", name, i, found[i],
                     expected);
    }
}

static void expect_gradients(Bench *b, const char *name, const char *text)
{
    Trial t = trial_new(b, name, text, SHAPE, 0);
    const AuAttn *a = t.c->a;
    t.call.how.chunk = 3;
    gradients(b, &t, name);
    for (uint32_t i = 0; i < a->tensor_count; i++)
        if (i < 3 || a->tensors[i].grad)
            expect_slopes(b, &t, t.c->tensors[i], t.grads[i], t.c->counts[i],
                          au_format(b->arena, "%s: d%s", name, a->tensors[i].name));
    expect_slopes(b, &t, (double *)(uintptr_t)t.call.state_in, t.call.dstate_in, t.states,
                  au_format(b->arena, "%s: dstate", name));
    if (t.call.sum_in)
        expect_slopes(b, &t, (double *)(uintptr_t)t.call.sum_in, t.call.dsum_in, t.sums,
                      au_format(b->arena, "%s: dsum", name));
    double *before[17];
    for (uint32_t i = 0; i < a->tensor_count; i++) {
        before[i] = AU_NEW_ARRAY(b->arena, double, t.c->counts[i]);
        memcpy(before[i], t.grads[i], t.c->counts[i] * sizeof(double));
    }
    t.call.how.chunk = 0; /* and token after token */
    gradients(b, &t, name);
    for (uint32_t i = 0; i < a->tensor_count; i++)
        if (i < 3 || a->tensors[i].grad)
            expect_all_near(t.grads[i], before[i], t.c->counts[i], 1e-11, name);
}

static void test_gradients(void **state)
{
    (void)state;
    each_script(expect_gradients);
}

/* ---- packed sequences */

/* One sequence in pieces, lengths of 0 and 1 among them, each going on with the state before it, is the sequence whole:
 * outputs, states and every gradient. */
static void expect_pieces(Bench *b, const char *name, const char *text)
{
    static const int64_t cu[] = {0, 2, 2, 3, 7}, one[] = {0, 7};
    enum { PIECES = 4 };
    const char *shape = "B=1 H=4 G=2 Hk=2 T=7 K=4 V=3 N=4 P=3 W=9";
    Trial whole = trial_new(b, name, text, shape, 1), t = trial_new(b, name, text, shape, PIECES);
    if (strstr(text, "(t") || strstr(text, "[t") || strstr(text, " t)") || strstr(text, "(T)"))
        return;
    whole.call.cu_seqlens = one, t.call.cu_seqlens = cu;
    whole.call.how.chunk = t.call.how.chunk = 3;
    const size_t state = whole.states, sum = whole.sums;
    double *state_in = (double *)(uintptr_t)t.call.state_in,
           *sum_in = (double *)(uintptr_t)t.call.sum_in;
    double *dstate = (double *)(uintptr_t)t.call.dstate_out,
           *dsum = (double *)(uintptr_t)t.call.dsum_out;
    t.call.dout = whole.call.dout;
    memcpy(state_in, whole.call.state_in, state * sizeof(double));
    memcpy(dstate + (PIECES - 1) * state, whole.call.dstate_out, state * sizeof(double));
    if (sum_in) {
        memcpy(sum_in, whole.call.sum_in, sum * sizeof(double));
        memcpy(dsum + (PIECES - 1) * sum, whole.call.dsum_out, sum * sizeof(double));
    }
    gradients(b, &whole, name);
    for (int n = 0; n < PIECES; n++) { /* states forwards, */
        forward(b, &t, name);
        if (n + 1 == PIECES) break;
        memcpy(state_in + (size_t)(n + 1) * state, t.call.state_out + (size_t)n * state,
               state * sizeof(double));
        if (sum_in)
            memcpy(sum_in + (size_t)(n + 1) * sum, t.call.sum_out + (size_t)n * sum,
                   sum * sizeof(double));
    }
    for (int n = PIECES - 1; n >= 0; n--) { /* their gradients backwards */
        gradients(b, &t, name);
        if (!n) break;
        memcpy(dstate + (size_t)(n - 1) * state, t.call.dstate_in + (size_t)n * state,
               state * sizeof(double));
        if (sum_in)
            memcpy(dsum + (size_t)(n - 1) * sum, t.call.dsum_in + (size_t)n * sum,
                   sum * sizeof(double));
    }
    expect_all_near(t.call.call.o, whole.call.call.o, whole.outs, 1e-11, name);
    expect_all_near(t.call.state_out + (PIECES - 1) * state, whole.call.state_out, state, 1e-11,
                    name);
    expect_all_near(t.call.dstate_in, whole.call.dstate_in, state, 1e-11, name);
    for (uint32_t i = 0; i < t.c->a->tensor_count; i++)
        if (i < 3 || t.c->a->tensors[i].grad)
            expect_all_near(
                t.grads[i], whole.grads[i], t.c->counts[i], 1e-11,
                au_format(b->arena, "%s: d%s in pieces", name, t.c->a->tensors[i].name));
}

static void test_pieces(void **state)
{
    (void)state;
    each_script(expect_pieces);
}

/* Positions, lengths and reads by index belong to a sequence: each is what it is alone. */
static void test_positions(void **state)
{
    (void)state;
    Bench b = bench_new();
    static const int64_t cu[] = {0, 3, 3, 7};
    const char *text = QKV "input r: f32[T] grad; linear { decay = 1.0 - 1.0 / f32(t + 2); q = q * "
                           "r[t] / f32(T); } out_mod(o, b, h, i) = o * f32(i + 1); }";
    Trial t = trial_new(&b, "packed", text, "B=1 H=1 T=7 K=4 V=3", 3),
          alone = trial_new(&b, "alone", text, "B=1 H=1 T=4 K=4 V=3", 1);
    t.call.cu_seqlens = cu;
    for (uint32_t i = 0; i < 4; i++) {
        const size_t width = t.c->counts[i] / 7;
        memcpy(alone.c->tensors[i], t.c->tensors[i] + 3 * width, 4 * width * sizeof(double));
    }
    memcpy((double *)(uintptr_t)alone.call.state_in, t.call.state_in + 2 * 12, 12 * sizeof(double));
    memcpy((double *)(uintptr_t)alone.call.dstate_out, t.call.dstate_out + 2 * 12,
           12 * sizeof(double));
    memcpy((double *)(uintptr_t)alone.call.dout, t.call.dout + 3 * 3, 12 * sizeof(double));
    gradients(&b, &t, "packed");
    gradients(&b, &alone, "alone");
    expect_all_near(t.call.call.o + 3 * 3, alone.call.call.o, 12, 1e-14, "o");
    expect_all_near(t.call.dstate_in + 2 * 12, alone.call.dstate_in, 12, 1e-14, "dstate");
    expect_all_near(t.call.state_out + 12, t.call.state_in + 12, 12, 0,
                    "an empty sequence passes its state on");
    for (uint32_t i = 0; i < 4; i++) {
        const size_t width = t.c->counts[i] / 7;
        expect_all_near(t.grads[i] + 3 * width, alone.grads[i], 4 * width, 1e-14, "gradients");
    }
    bench_free(&b);
}

static void test_bad_sequences(void **state)
{
    (void)state;
    static const struct {
        int64_t cu[3];
        const char *shape, *why;
    } cases[] = {
        {{0, 5, 4}, "B=1 H=1 T=7 K=4 V=3", "cu_seqlens decreases at 2: 4 after 5"},
        {{0, 5, 6}, "B=1 H=1 T=7 K=4 V=3", "cu_seqlens goes from 0 to 6, tokens from 0 to 7"},
        {{1, 5, 7}, "B=1 H=1 T=7 K=4 V=3", "cu_seqlens goes from 1 to 7"},
        {{0, 5, 7}, "B=2 H=1 T=7 K=4 V=3", "packed sequences are one batch, found 2"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Bench b = bench_new();
        const char *why = "";
        Trial t = trial_new(&b, "packed", QKV "linear { } }", cases[i].shape, 2);
        t.call.cu_seqlens = cases[i].cu;
        assert_false(attn_linear_forward(t.c->a, &t.n, &t.call, b.arena, &why));
        if (!strstr(why, cases[i].why)) fail_msg("%s", why);
        bench_free(&b);
    }
}

/* ---- logarithms and classes */

static const struct {
    const char *decay, *log;
    AuDecayClass class;
    bool of_value;
} decays[] = {
    {"exp(g)", "g{b, h, t}", AU_DECAY_SCALAR, false},
    {"exp2(-g * g)", "-g{b, h, t} * g{b, h, t} * 0.6931471805599453", AU_DECAY_SCALAR, false},
    {"sigmoid(g)", "-softplus(-g{b, h, t})", AU_DECAY_SCALAR, false},
    {"1.0 - sigmoid(g)", "-softplus(g{b, h, t})", AU_DECAY_SCALAR, false},
    {"1.0 - exp2(-5.0 - h)", "log1p(-exp2(-5.0 - to_f32(h)))", AU_DECAY_CONSTANT, false},
    {"1.0 - g", "log1p(-g{b, h, t})", AU_DECAY_SCALAR, false},
    {"pow(sigmoid(g), 0.0625)", "-softplus(-g{b, h, t}) * 0.0625", AU_DECAY_SCALAR, false},
    {"sqrt(sigmoid(w))", "-softplus(-w{b, h, t, k}) * 0.5", AU_DECAY_VECTOR, false},
    {"sigmoid(g) * exp(-exp(a))", "-softplus(-g{b, h, t}) - exp(a{h})", AU_DECAY_SCALAR, false},
    {"exp(-exp(a)) / 2.0", "-exp(a{h}) + -0.6931471805599453", AU_DECAY_CONSTANT, false},
    {"max(sigmoid(g), 0.5)", "max(-softplus(-g{b, h, t}), -0.6931471805599453)", AU_DECAY_SCALAR,
     false},
    {"where(t % 4 == 0, 0.0, sigmoid(g))", "where(($t & 3) == 0, -inf, -softplus(-g{b, h, t}))",
     AU_DECAY_SCALAR, false},
    {"stop_grad(sigmoid(g))", "stop_grad(-softplus(-g{b, h, t}))", AU_DECAY_SCALAR, false},
    {"g", "log(g{b, h, t})", AU_DECAY_SCALAR, true},
    {"g * w", "log(g{b, h, t} * w{b, h, t, k})", AU_DECAY_VECTOR, true}, /* both may be negative */
    {"g * sigmoid(g)", "log(g{b, h, t}) - softplus(-g{b, h, t})", AU_DECAY_SCALAR, true},
    {"min(g, 1.0)", "log(min(g{b, h, t}, 1.0))", AU_DECAY_SCALAR, true},
    {"1.0 / (1.0 + exp(g))", "0.0 - softplus(g{b, h, t})", AU_DECAY_SCALAR, false},
    {"1.0 / (1.0 + g * g)", "0.0 - log1p(g{b, h, t} * g{b, h, t})", AU_DECAY_SCALAR, false},
    {"0.5", "-0.6931471805599453", AU_DECAY_CONSTANT, false},
    {"0.0", "-inf", AU_DECAY_CONSTANT, false},
    {"w * 0.0 + sigmoid(g)", "log(w{b, h, t, k} * 0.0 + sigmoid(g{b, h, t}))", AU_DECAY_VECTOR,
     true},
};

static void test_logarithms(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof decays / sizeof *decays; i++) {
        Bench b = bench_new();
        AuText text = {.arena = b.arena};
        AuAttn *a =
            compile_script(&b, decays[i].decay,
                           au_format(b.arena,
                                     QKV "input g: f32[B, H, T] grad; input w: f32[B, H, T, K] "
                                         "grad; input a: f32[H] grad; linear { decay = %s; } }",
                                     decays[i].decay));
        attn_simplify(a);
        assert_int_equal(attn_log_of_value(a, a->linear->decay, b.arena).i != 0,
                         decays[i].of_value);
        const AuNormal n = attn_normal_form(a, b.arena);
        attn_print_expr(a, n.slot[AU_SLOT_LOG_DECAY], &text);
        assert_string_equal(au_text_str(&text), decays[i].log);
        assert_int_equal(n.decay, decays[i].class);
        bench_free(&b);
    }
}

/* A graph whose paths double at every step is looked at once a node. */
static void test_shared_decays(void **state)
{
    (void)state;
    Bench b = bench_new();
    AuText text = {.arena = b.arena};
    au_text_add(&text,
                "fn f(x) = sqrt(x * x); fn g(x) = f(f(f(f(f(f(x)))))); " QKV
                "input w: f32[B, H, T] grad; linear { decay = g(g(g(g(g(sigmoid(w)))))); } }");
    AuAttn *a = compile_script(&b, "shared", au_text_str(&text));
    attn_simplify(a);
    const AuNormal n = attn_normal_form(a, b.arena);
    assert_non_null(attn_normal_gradients(a, &n, b.arena, b.diags));
    bench_free(&b);
}

/* The delta rule as a low-rank update is the delta rule, however it is written; what only looks like it is not. */
static void test_delta_by_low_rank(void **state)
{
    (void)state;
    static const struct {
        const char *slots;
        AuFeedback feedback;
    } cases[] = {
        {"lowrank = (-d * k, s * k); write = s; decay = d;", AU_FEEDBACK_KEY},
        {"lowrank = (-(k * d), k * s); write = s; decay = d;", AU_FEEDBACK_KEY},
        {"lowrank = (d * -k, k * s); write = s; decay = d;", AU_FEEDBACK_KEY},
        {"lowrank = (-k, s * k); write = s;", AU_FEEDBACK_KEY},
        {"lowrank = (-k, s * k); write = s; decay = d;", AU_FEEDBACK_OWN},
        {"lowrank = (-d * k, s * k); decay = d;", AU_FEEDBACK_KEY},
        {"lowrank = (-d * k, s * k); decay = d; write = w * w;", AU_FEEDBACK_KEY},
        {"lowrank = (-d * k, d * k); decay = d; write = s;", AU_FEEDBACK_OWN},
        {"lowrank = (d * k, s * k); write = s; decay = d;", AU_FEEDBACK_OWN},
        {"lowrank = (-d * k, s * q); write = s; decay = d;", AU_FEEDBACK_OWN},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Bench b = bench_new();
        const char *text =
            au_format(b.arena,
                      QKV "input g: f32[B, H, T, K] grad; input w: f32[B, H, T] grad; let d = "
                          "sigmoid(g); let s = sigmoid(w); linear { %s } }",
                      cases[i].slots);
        Trial t = trial_new(&b, cases[i].slots, text, SHAPE, 0);
        assert_int_equal(t.n.feedback, cases[i].feedback);
        expect_words(&b, cases[i].slots, text);
        expect_gradients(&b, cases[i].slots, text);
        bench_free(&b);
    }
}

/* A decay of 0 forgets, whatever slope its logarithm has there, and no gradient goes through; a decay below 0 is nan. */
static void test_resets(void **state)
{
    (void)state;
    Bench b = bench_new();
    Trial t =
        trial_new(&b, "resets", QKV "input g: f32[B, H, T] grad; linear { decay = 1.0 - g; } }",
                  "B=1 H=1 T=7 K=4 V=3", 0);
    double *g = case_tensor(t.c, "g"), *dg = t.grads[3], kept[12];
    for (int i = 0; i < 7; i++) g[i] = i == 4 ? 1 : 0.25;
    gradients(&b, &t, "resets");
    for (int i = 0; i < 7; i++)
        if (i == 4 ? dg[i] != 0 : !(fabs(dg[i]) > 0 && isfinite(dg[i])))
            fail_msg("dg[%d] is %g", i, dg[i]);
    memcpy(kept, t.call.state_out, sizeof kept);
    for (int i = 0; i < 12; i++) ((double *)(uintptr_t)t.call.state_in)[i] += 1e6;
    forward(&b, &t, "resets");
    expect_all_near(t.call.state_out, kept, 12, 1e-14, "the state behind a reset");
    g[4] = 1.5;
    forward(&b, &t, "resets");
    assert_true(t.call.call.o[3 * 3] == t.call.call.o[3 * 3] &&
                t.call.call.o[4 * 3] != t.call.call.o[4 * 3]);
    case_run(&b, t.c);
    assert_true(t.c->o[3 * 3] == t.c->o[3 * 3] && t.c->o[4 * 3] != t.c->o[4 * 3]);
    bench_free(&b);
}

static void test_texts(void **state)
{
    (void)state;
    static const char *const all[] = {"gla", "mamba2", "gated_delta_net"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        Bench b = bench_new();
        AuText text = {.arena = b.arena};
        Trial t = trial_new(
            &b, all[i], bench_file(&b, au_format(b.arena, "../../front/examples/%s.attn", all[i])),
            SHAPE, 0);
        attn_print_normal(t.c->a, &t.n, t.g, &text);
        bench_expect(&b, au_format(b.arena, "%s.normal", all[i]), au_text_str(&text));
        bench_free(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),         cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_pieces),        cmocka_unit_test(test_positions),
        cmocka_unit_test(test_bad_sequences), cmocka_unit_test(test_logarithms),
        cmocka_unit_test(test_shared_decays), cmocka_unit_test(test_delta_by_low_rank),
        cmocka_unit_test(test_resets),        cmocka_unit_test(test_texts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
