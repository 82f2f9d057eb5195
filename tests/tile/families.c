/* families.c - see families.h. */
#include "families.h"
#include "random.h"

#include <math.h>
#include <stdio.h>

/* ---- random inputs */

typedef struct Random {
    uint64_t state;
} Random;

static double unit(Random *r) { return au_uniform(&r->state); }

static int below(Random *r, int n) { return (int)(unit(r) * n); }

static float normal(Random *r)
{
    return (float)(sqrt(-2 * log(unit(r) + 1e-300)) * cos(6.283185307179586 * unit(r)));
}

static float *normals(AuArena *arena, Random *r, AuTileElem elem, size_t count, float scale)
{
    float *x = AU_NEW_ARRAY(arena, float, count);
    for (size_t n = 0; n < count; n++) x[n] = round_to_elem(elem, normal(r) * scale);
    return x;
}

/* ---- a launch */

typedef struct Run {
    Session *s;
    const Trial *t;
    AuTileModule *module; /* as read */
    AuTileTensor tensors[16];
    uint32_t count;
    Outcome out;
} Run;

static void give_up(Run *r, Stage stage)
{
    r->out.failed = stage;
    r->out.code = r->s->diags->first ? r->s->diags->first->code : AU_E0001;
    r->out.message = session_errors(r->s);
}

static AuTileTensor *add_tensor(Run *r, const char *name, uint32_t rank, const int *shape)
{
    AuTileTensor *t = &r->tensors[r->count++];
    *t = (AuTileTensor){.name = name, .rank = rank};
    for (uint32_t i = 0; i < rank; i++) t->shape[i] = shape[i];
    return t;
}

static size_t elements(const AuTileTensor *t)
{
    size_t n = 1;
    for (uint32_t i = 0; i < t->rank; i++) n *= (size_t)t->shape[i];
    return n;
}

#define SHAPE(...)                                                                                 \
    (sizeof((int[]){__VA_ARGS__}) / sizeof(int)), (int[]) { __VA_ARGS__ }

/* An input gets a copy, since the interpreter rounds in place. */
static void add_floats(Run *r, const char *name, const float *data, uint32_t rank, const int *shape)
{
    AuTileTensor *t = add_tensor(r, name, rank, shape);
    t->f32 = AU_NEW_ARRAY(r->s->arena, float, elements(t));
    memcpy(t->f32, data, elements(t) * sizeof *data);
}

static void add_integers(Run *r, const char *name, int32_t *data, uint32_t rank, const int *shape)
{
    add_tensor(r, name, rank, shape)->i32 = data;
}

static const float *add_output(Run *r, const char *name, uint32_t rank, const int *shape)
{
    AuTileTensor *t = add_tensor(r, name, rank, shape);
    t->fresh = true;
    return t->f32 = AU_NEW_ARRAY(r->s->arena, float, elements(t));
}

static bool launch(Run *r, const char *hooks, const AuTileOverride *consts, uint32_t const_count)
{
    Session *s = r->s;
    AuTileModule *files[3] = {
        read_text(s, "common.hooks", example_text(s->arena, "common.hooks")),
        read_text(s, "causal_softmax.hooks", example_text(s->arena, "causal_softmax.hooks")),
        read_text(s, "attention", hooks)};
    if (!files[0] || !files[1] || !files[2]) fail_msg("%s", session_errors(s));
    const AuTileExpansion expansion = {.hooks = (const AuTileModule *const *)files,
                                       .hook_count = 3,
                                       .consts = consts,
                                       .const_count = const_count};
    AuTileModule *module = tile_expand(s->arena, s->diags, r->module, &expansion);
    if (!module) return give_up(r, READ_OR_EXPAND), false;
    if (!tile_verify(s->diags, module, r->t->rules)) return give_up(r, VERIFY), false;
    const uint32_t items = r->t->items ? r->t->items : 1 + (uint32_t)r->t->number % 3;
    AuTileLaunch l = {.tensors = r->tensors,
                      .tensor_count = r->count,
                      .seed = (uint64_t)r->t->number,
                      .items = items};
    AuTileTensor before[16];
    if (!tile_run(s->diags, module, &l)) return give_up(r, RUN), false;
    if (!r->t->twice) return true;
    memcpy(before, r->tensors, sizeof before);
    for (uint32_t i = 0; i < r->count; i++)
        if (r->tensors[i].fresh)
            r->tensors[i].f32 = AU_NEW_ARRAY(s->arena, float, elements(&r->tensors[i]));
    l.seed += 1000;
    l.items = 1;
    if (!tile_run(s->diags, module, &l)) return give_up(r, RUN), false;
    for (uint32_t i = 0; i < r->count; i++) {
        const AuTileTensor *one = &before[i], *two = &r->tensors[i];
        if (one->fresh && memcmp(one->f32, two->f32, elements(one) * sizeof(float)) != 0)
            fail_msg("%s: %s depends on the schedule", r->t->file, one->name);
    }
    return true;
}

/* Error against its bound. */
static void judge(Run *r, const char *what, double error, double bound)
{
    const double ratio = error / bound;
    if (ratio > r->out.worst) r->out.worst = ratio;
    if (error <= bound) return;
    r->out.failed = NUMBERS;
    r->out.message = au_format(r->s->arena, "%s %d: error of %s %.2e > %.2e", r->t->file,
                               r->t->number, what, error, bound);
}

/* ---- forward */

static const struct {
    const char *file;
    AuTileElem operand;
} forwards[] = {
    {"hopper_forward.tile", TILE_BF16},   {"blackwell_forward.tile", TILE_BF16},
    {"mma_sync_forward.tile", TILE_BF16}, {"mfma_forward.tile", TILE_F16},
    {"wmma_forward.tile", TILE_F16},      {"wmma11_forward.tile", TILE_F16},
    {"coopmat_forward.tile", TILE_F16},   {"cpu_forward.tile", TILE_F32},
    {"simt_forward.tile", TILE_F32},      {"vector_forward.tile", TILE_F32},
    {"dot2_forward.tile", TILE_BF16},
};

static int forward_index(const char *file)
{
    for (size_t i = 0; i < sizeof forwards / sizeof *forwards; i++)
        if (strcmp(forwards[i].file, file) == 0) return (int)i;
    return -1;
}

bool is_forward(const char *file) { return forward_index(file) >= 0; }

/* What the hooks of causal softmax are replaced by. */
static const char *const attention_hooks[] = {
    [CAUSAL] = "",
    [LOCAL] = "fn score_mod(s, b, h, i, j) = 5.0 * tanh(s * rsqrt(D) / 5.0) - 0.1 * (h + 1) * "
              "abs(i + (T - S) - j)\n"
              "fn mask(b, h, i, j) = i + (T - S) - j >= 0 && i + (T - S) - j < 40\n"
              "fn key_range(i0, i1) {\n"
              "    shift = T - S\n"
              "    return clamp(i0 + shift - 39, 0, T), clamp(i1 + shift, 0, T), clamp(i1 + shift "
              "- 40, 0, T), "
              "clamp(i0 + 1 + shift, 0, T)\n"
              "}\n",
    [SIGMOID] =
        "fn score_mod(s, b, h, i, j) = sigmoid(s * rsqrt(D) - 1.0)\n"
        "fn masked() = 0.0\n"
        "fn online_init(row, h) = (row, row)\n"
        "fn online_fwd(s, state) {\n    a, b = state\n    return s, fill(a, 1.0), state\n}\n"
        "fn online_end(o, state) {\n    a, b = state\n    return o, a\n}\n",
    [RETENTION] =
        "fn score_mod(s, b, h, i, j) = s * rsqrt(D) * exp2(-0.05 * (h + 1) * (i + (T - S) - j))\n"
        "fn masked() = 0.0\n"
        "fn online_init(row, h) = (row, fill(row, 1.0))\n"
        "fn online_fwd(s, state) {\n    total, r = state\n    total = total + rowsum(abs(s))\n"
        "    r_new = max(total, 1.0)\n    return s / r_new, r / r_new, (total, r_new)\n}\n"
        "fn online_end(o, state) {\n    total, r = state\n    return o, r\n}\n",
    [BIAS] = "fn score_mod(s, b, h, i, j) = s * rsqrt(D) + bias[h, i, j]\n",
    [SLOPE] =
        "fn score_mod(s, b, h, i, j) = s * rsqrt(D) - slope[h] * abs(i + (T - S) - j)\n"
        "fn slope_grad(dp, p, s, delta, b, h, i, j) = -abs(i + (T - S) - j) * p * (dp - delta)\n",
    [DOCUMENTS] = "",
};

static int const_of(const AuTileModule *m, const char *name)
{
    for (uint32_t i = 0; i < m->consts.count; i++)
        if (strcmp(m->consts.at[i].name, name) == 0) return (int)m->consts.at[i].value->integer;
    return 0;
}

static void check_forward(Run *r, const Problem *p, const float *o, const float *lse)
{
    const size_t rows = (size_t)(p->B * p->H * p->S), count = rows * (size_t)p->E;
    double *want = AU_NEW_ARRAY(r->s->arena, double, count),
           *plain = AU_NEW_ARRAY(r->s->arena, double, count);
    double *final = AU_NEW_ARRAY(r->s->arena, double, rows),
           *plain_final = AU_NEW_ARRAY(r->s->arena, double, rows);
    reference_forward(p, false, want, final);
    reference_forward(p, true, plain, plain_final);
    judge(r, "o", largest_error(o, want, count), 2 * largest_difference(plain, want, count) + 1e-5);
    judge(r, "lse", largest_error(lse, final, rows),
          2 * largest_difference(plain_final, final, rows) + 1e-5);
}

/* What a tuned table would hold for these two. */
static uint32_t variant_of(const Trial *t, AuTileOverride *out)
{
    static const AuTileOverride hopper[][2] = {
        {{0}}, {{"W", 3}}, {{"N", 80}}, {{"N", 176}, {"STAGES", 1}}};
    static const AuTileOverride mma[][2] = {{{0}}, {{"N", 64}}, {{"N", 96}}, {{"N", 16}}};
    const bool is_hopper = strcmp(t->file, "hopper_forward.tile") == 0;
    if (t->causal_only || (!is_hopper && strcmp(t->file, "mma_sync_forward.tile") != 0)) return 0;
    const AuTileOverride *from = is_hopper ? hopper[t->number % 4] : mma[t->number % 4];
    uint32_t n = 0;
    while (n < 2 && from[n].name) {
        out[n] = from[n];
        n++;
    }
    return n;
}

static void run_forward(Run *r)
{
    static const Shape shapes[] = {{1, 2, 1, 150, 150},
                                   {1, 2, 2, 70, 200},
                                   {2, 1, 1, 200, 70},
                                   {1, 1, 1, 1, 1},
                                   {1, 2, 1, 128, 128}};
    const Trial *t = r->t;
    const Shape shape = t->shape ? *t->shape : shapes[(t->number / 5 + t->number) % 5];
    Random random = {(uint64_t)t->number};
    AuArena *arena = r->s->arena;
    Problem p = {t->causal_only ? CAUSAL : (Kind)(t->number % 5),
                 shape.B,
                 shape.H,
                 shape.Hk,
                 shape.S,
                 shape.T,
                 const_of(r->module, "D"),
                 const_of(r->module, "E"),
                 forwards[forward_index(t->file)].operand,
                 NULL,
                 NULL,
                 NULL,
                 NULL,
                 NULL,
                 NULL,
                 NULL};
    p.q = normals(arena, &random, p.operand, (size_t)(p.B * p.H * p.S * p.D), 1);
    p.k = normals(arena, &random, p.operand, (size_t)(p.B * p.Hk * p.T * p.D), 1);
    p.v = normals(arena, &random, p.operand, (size_t)(p.B * p.Hk * p.T * p.E), 1);
    p.bias = normals(arena, &random, TILE_F32, (size_t)(p.H * p.S * p.T), 1);
    add_floats(r, "q", p.q, SHAPE(p.B, p.H, p.S, p.D));
    add_floats(r, "k", p.k, SHAPE(p.B, p.Hk, p.T, p.D));
    add_floats(r, "v", p.v, SHAPE(p.B, p.Hk, p.T, p.E));
    if (p.kind == BIAS) add_floats(r, "bias", p.bias, SHAPE(p.H, p.S, p.T));
    const float *o = add_output(r, "o", SHAPE(p.B, p.H, p.S, p.E));
    const float *lse = add_output(r, "lse", SHAPE(p.B, p.H, p.S));
    AuTileOverride consts[2];
    const uint32_t n = variant_of(t, consts);
    if (launch(r, attention_hooks[p.kind], consts, n)) check_forward(r, &p, o, lse);
}

/* ---- the other families */

/* Block lists of tiles of 64 x 32: partial and full. */
static void add_block_lists(Run *r, const Problem *p)
{
    enum { M = 64, N = 32 };
    const int Mb = (p->S + M - 1) / M, Nb = (p->S + N - 1) / N;
    int32_t *index[2], *count[2];
    for (int kind = 0; kind < 2; kind++) {
        index[kind] = AU_NEW_ARRAY(r->s->arena, int32_t, p->B * Mb * Nb);
        count[kind] = AU_NEW_ARRAY(r->s->arena, int32_t, p->B * Mb);
    }
    for (int b = 0; b < p->B; b++)
        for (int m = 0; m < Mb; m++)
            for (int n = 0; n < Nb; n++) {
                int some = 0, all = 1;
                for (int i = m * M; i < m * M + M && i < p->S; i++)
                    for (int j = n * N; j < n * N + N; j++) {
                        const bool ok = j < p->S && is_unmasked(p, b, i, j);
                        some |= ok;
                        all &= ok;
                    }
                const int row = b * Mb + m;
                if (some) index[all][row * Nb + count[all][row]++] = n;
            }
    add_integers(r, "partial_index", index[0], SHAPE(p->B, Mb, Nb));
    add_integers(r, "full_index", index[1], SHAPE(p->B, Mb, Nb));
    add_integers(r, "partial_count", count[0], SHAPE(p->B, Mb));
    add_integers(r, "full_count", count[1], SHAPE(p->B, Mb));
}

static void run_documents(Run *r)
{
    static const Shape shapes[] = {
        {1, 2, 1, 150, 150}, {2, 1, 1, 90, 90}, {1, 1, 1, 64, 64}, {1, 2, 2, 33, 33}};
    const Shape shape = shapes[r->t->number % 4];
    Random random = {(uint64_t)r->t->number};
    AuArena *arena = r->s->arena;
    Problem p = {DOCUMENTS, shape.B, shape.H, shape.Hk, shape.S, shape.T, 64,   64,
                 TILE_BF16, NULL,    NULL,    NULL,     NULL,    NULL,    NULL, NULL};
    p.q = normals(arena, &random, p.operand, (size_t)(p.B * p.H * p.S * 64), 1);
    p.k = normals(arena, &random, p.operand, (size_t)(p.B * p.Hk * p.T * 64), 1);
    p.v = normals(arena, &random, p.operand, (size_t)(p.B * p.Hk * p.T * 64), 1);
    int32_t *document = AU_NEW_ARRAY(arena, int32_t, p.B * p.T);
    for (int n = 0; n < p.B * p.T; n++) {
        const bool first = n % p.T == 0;
        document[n] = (first ? 0 : document[n - 1]) + (unit(&random) < 3.0 / p.T);
    }
    p.document = document;
    add_floats(r, "q", p.q, SHAPE(p.B, p.H, p.S, 64));
    add_floats(r, "k", p.k, SHAPE(p.B, p.Hk, p.T, 64));
    add_floats(r, "v", p.v, SHAPE(p.B, p.Hk, p.T, 64));
    add_integers(r, "document", document, SHAPE(p.B, p.T));
    add_block_lists(r, &p);
    const float *o = add_output(r, "o", SHAPE(p.B, p.H, p.S, 64));
    const float *lse = add_output(r, "lse", SHAPE(p.B, p.H, p.S));
    if (launch(r, "", NULL, 0)) check_forward(r, &p, o, lse);
}

enum { PAGE = 16 };

/* Keys [Hk, pages * PAGE, 64] of one sequence into its pages [page, slot, Hk, 64]; what lies beyond its length stays NaN. */
static void fill_pages(const Problem *p, const float *from, float *pages, const int32_t *table,
                       int length)
{
    for (int t = 0; t < length; t++)
        for (int h = 0; h < p->Hk; h++)
            memcpy(pages +
                       ((size_t)(table[t / PAGE] * PAGE + t % PAGE) * (size_t)p->Hk + (size_t)h) *
                           64,
                   from + ((size_t)h * (size_t)p->T + (size_t)t) * 64, 64 * sizeof(float));
}

static void run_decode(Run *r)
{
    static const Shape shapes[] = {
        {2, 4, 1, 1, 300}, {1, 8, 2, 3, 170}, {2, 2, 2, 2, 40}, {1, 16, 1, 1, 97}};
    const Shape shape = shapes[r->t->number / 2 % 4];
    const Kind kind = r->t->number % 2 ? LOCAL : CAUSAL;
    Random random = {(uint64_t)r->t->number};
    AuArena *arena = r->s->arena;
    const int per = (shape.T + PAGE - 1) / PAGE, pages = shape.B * per;
    Problem p = {kind,      1,    shape.H, shape.Hk, shape.S, 0,    64,   64,
                 TILE_BF16, NULL, NULL,    NULL,     NULL,    NULL, NULL, NULL};
    int32_t *table = AU_NEW_ARRAY(arena, int32_t, pages),
            *length = AU_NEW_ARRAY(arena, int32_t, shape.B);
    for (int n = 0; n < pages; n++) table[n] = n;
    for (int n = pages; n > 1; n--) {
        const int other = below(&random, n), kept = table[n - 1];
        table[n - 1] = table[other];
        table[other] = kept;
    }
    const size_t cache = (size_t)(pages * PAGE * shape.Hk * 64),
                 q_size = (size_t)(shape.H * shape.S * 64);
    float *q = normals(arena, &random, TILE_BF16, q_size * (size_t)shape.B, 1), *cached[2],
          *dense[2][2];
    for (int x = 0; x < 2; x++) {
        cached[x] = AU_NEW_ARRAY(arena, float, cache);
        for (size_t n = 0; n < cache; n++) cached[x][n] = NAN;
    }
    for (int b = 0; b < shape.B; b++) {
        p.T = length[b] = b ? 1 + below(&random, shape.T) : shape.T;
        for (int x = 0; x < 2; x++) {
            dense[b][x] = normals(arena, &random, TILE_BF16, (size_t)(shape.Hk * p.T * 64), 1);
            fill_pages(&p, dense[b][x], cached[x], table + b * per, p.T);
        }
    }
    add_floats(r, "q", q, SHAPE(shape.B, shape.H, shape.S, 64));
    add_floats(r, "k", cached[0], SHAPE(pages, PAGE, shape.Hk, 64));
    add_floats(r, "v", cached[1], SHAPE(pages, PAGE, shape.Hk, 64));
    add_integers(r, "table", table, SHAPE(shape.B, per));
    add_integers(r, "length", length, SHAPE(shape.B));
    add_output(r, "o_part", SHAPE(shape.B, 3, shape.H, shape.S, 64));
    add_output(r, "lse_part", SHAPE(shape.B, 3, shape.H, shape.S));
    const float *o = add_output(r, "o", SHAPE(shape.B, shape.H, shape.S, 64));
    const float *lse = add_output(r, "lse", SHAPE(shape.B, shape.H, shape.S));
    if (!launch(r, attention_hooks[kind], NULL, 0)) return;
    for (int b = 0; b < shape.B; b++) {
        p.T = length[b];
        p.q = q + (size_t)b * q_size;
        p.k = dense[b][0];
        p.v = dense[b][1];
        check_forward(r, &p, o + (size_t)b * q_size, lse + b * shape.H * shape.S);
    }
}

static void run_linear(Run *r)
{
    static const Shape shapes[] = {{1, 2, 64, 0, 150},
                                   {1, 1, 32, 0, 64},
                                   {2, 1, 32, 0, 65},
                                   {1, 1, 40, 0, 1},
                                   {1, 1, 32, 0, 200}};
    const Shape shape = shapes[r->t->number % 5]; /* Hk: value columns */
    Random random = {(uint64_t)r->t->number};
    AuArena *arena = r->s->arena;
    Problem p = {CAUSAL,    shape.B, shape.H, shape.H, shape.T, shape.T, 64,   shape.Hk,
                 TILE_BF16, NULL,    NULL,    NULL,    NULL,    NULL,    NULL, NULL};
    const size_t tokens = (size_t)(p.B * p.H * p.T), heads = (size_t)(p.B * p.H), E = (size_t)p.E;
    p.q = normals(arena, &random, p.operand, tokens * 64, 1);
    p.k = normals(arena, &random, p.operand, tokens * 64, 1);
    p.v = normals(arena, &random, p.operand, tokens * E, 1);
    const float *gate = normals(arena, &random, TILE_F32, tokens, 3),
                *state = normals(arena, &random, TILE_F32, heads * 64 * E, 3);
    add_floats(r, "q", p.q, SHAPE(p.B, p.H, p.T, 64));
    add_floats(r, "k", p.k, SHAPE(p.B, p.H, p.T, 64));
    add_floats(r, "v", p.v, SHAPE(p.B, p.H, p.T, p.E));
    add_floats(r, "gate", gate, SHAPE(p.B, p.H, p.T));
    add_floats(r, "state_in", state, SHAPE(p.B, p.H, 64, p.E));
    const float *o = add_output(r, "o", SHAPE(p.B, p.H, p.T, p.E));
    const float *state_out = add_output(r, "state_out", SHAPE(p.B, p.H, 64, p.E));
    if (!launch(r, "", NULL, 0)) return;
    double *want = AU_NEW_ARRAY(arena, double, tokens *E),
           *plain = AU_NEW_ARRAY(arena, double, tokens *E);
    double *final = AU_NEW_ARRAY(arena, double, heads * 64 * E),
           *unused = AU_NEW_ARRAY(arena, double, heads * 64 * E), scale = 0;
    reference_linear(&p, gate, state, false, want, final);
    reference_linear(&p, gate, state, true, plain, unused);
    for (size_t n = 0; n < heads * 64 * E; n++)
        scale = fabs(final[n]) > scale ? fabs(final[n]) : scale;
    judge(r, "o", largest_error(o, want, tokens * E),
          3 * largest_difference(plain, want, tokens * E));
    judge(r, "state", largest_error(state_out, final, heads * 64 * E), 1e-2 * scale);
}

static void run_backward(Run *r)
{
    static const Shape shapes[] = {{1, 4, 2, 150, 150},
                                   {1, 2, 1, 70, 200},
                                   {1, 2, 1, 200, 70},
                                   {1, 1, 1, 1, 1},
                                   {2, 1, 1, 128, 256}};
    const Shape shape = shapes[r->t->number % 5];
    Random random = {(uint64_t)r->t->number};
    AuArena *arena = r->s->arena;
    Problem p = {SLOPE,     shape.B, shape.H, shape.Hk, shape.S, shape.T, 64,   64,
                 TILE_BF16, NULL,    NULL,    NULL,     NULL,    NULL,    NULL, NULL};
    const size_t rows = (size_t)(p.B * p.H * p.S), queries = rows * 64,
                 keys = (size_t)(p.B * p.Hk * p.T) * 64;
    p.q = normals(arena, &random, p.operand, queries, 1);
    p.k = normals(arena, &random, p.operand, keys, 1);
    p.v = normals(arena, &random, p.operand, keys, 1);
    p.grad = normals(arena, &random, p.operand, queries, 1);
    float *slope = AU_NEW_ARRAY(arena, float, p.H), *o = AU_NEW_ARRAY(arena, float, queries),
          *lse = AU_NEW_ARRAY(arena, float, rows);
    for (int h = 0; h < p.H; h++) slope[h] = 0.1f * (float)(h + 1);
    p.slope = slope;
    double *o_ref = AU_NEW_ARRAY(arena, double, queries),
           *lse_ref = AU_NEW_ARRAY(arena, double, rows);
    reference_forward(&p, false, o_ref, lse_ref);
    for (size_t n = 0; n < queries; n++) o[n] = (float)o_ref[n];
    for (size_t n = 0; n < rows; n++) lse[n] = (float)lse_ref[n];
    add_floats(r, "q", p.q, SHAPE(p.B, p.H, p.S, 64));
    add_floats(r, "k", p.k, SHAPE(p.B, p.Hk, p.T, 64));
    add_floats(r, "v", p.v, SHAPE(p.B, p.Hk, p.T, 64));
    add_floats(r, "do", p.grad, SHAPE(p.B, p.H, p.S, 64));
    add_floats(r, "o", o, SHAPE(p.B, p.H, p.S, 64));
    add_floats(r, "lse", lse, SHAPE(p.B, p.H, p.S));
    add_floats(r, "slope", slope, SHAPE(p.H));
    add_output(r, "delta", SHAPE(p.B, p.H, p.S));
    const bool whole = strcmp(r->t->file, "mma_sync_backward.tile") == 0; /* tiles of 32 rows */
    add_output(r, "dq_sum", SHAPE(p.B, p.H, whole ? (p.S + 31) / 32 * 32 : p.S, 64));
    static const char *const names[] = {"dq", "dk", "dv", "dslope"};
    const size_t counts[] = {queries, keys, keys, (size_t)p.H};
    const float *got[4] = {add_output(r, "dq", SHAPE(p.B, p.H, p.S, 64)),
                           add_output(r, "dk", SHAPE(p.B, p.Hk, p.T, 64)),
                           add_output(r, "dv", SHAPE(p.B, p.Hk, p.T, 64)), NULL};
    add_floats(r, "dslope", AU_NEW_ARRAY(arena, float, p.H), SHAPE(p.H));
    got[3] = r->tensors[r->count - 1].f32;
    if (!launch(r, attention_hooks[SLOPE], NULL, 0)) return;
    double *want[4], *plain[4];
    for (int n = 0; n < 4; n++) {
        want[n] = AU_NEW_ARRAY(arena, double, counts[n]);
        plain[n] = AU_NEW_ARRAY(arena, double, counts[n]);
    }
    reference_backward(&p, false, want[0], want[1], want[2], want[3]);
    reference_backward(&p, true, plain[0], plain[1], plain[2], plain[3]);
    for (int n = 0; n < 4; n++) {
        double largest = 0;
        for (size_t x = 0; x < counts[n]; x++)
            largest = fabs(want[n][x]) > largest ? fabs(want[n][x]) : largest;
        judge(r, names[n], largest_error(got[n], want[n], counts[n]),
              4 * largest_difference(plain[n], want[n], counts[n]) +
                  (n == 3 ? 6e-3 : 1e-3) * largest + 1e-6);
    }
}

Outcome run_trial(Session *s, const Trial *t)
{
    Run run = {.s = s, .t = t, .out = {.failed = PASSED, .message = ""}};
    const char *text = t->text ? t->text : example_text(s->arena, t->file);
    if (is_forward(t->file) && !t->causal_only && t->number % 5 == BIAS)
        text = replaced(s->arena, text, "lse: out", "bias: in f32[h:H, q:S, kv:T], lse: out");
    run.module = read_text(s, t->file, text);
    if (!run.module)
        give_up(&run, READ_OR_EXPAND);
    else if (is_forward(t->file))
        run_forward(&run);
    else if (strcmp(t->file, "documents.tile") == 0)
        run_documents(&run);
    else if (strcmp(t->file, "decode.tile") == 0)
        run_decode(&run);
    else if (strcmp(t->file, "linear_forward.tile") == 0)
        run_linear(&run);
    else
        run_backward(&run);
    return run.out;
}
