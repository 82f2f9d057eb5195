/* gradient_fuzz.c - bytes as random expressions in the mods of an attention, with much sharing: derived
 * gradients are those of central differences, wherever differences with three steps agree with each
 * other (at a kink they do not). Functions are kept where they are smooth and small, or behind a
 * `where` that must protect them. */
#include "driver.h"
#include "findings.h"
#include "gradient.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POOL = 40, TENSORS = 6 };

static const char *const onlines[] = {
    "online x {\nrowscale m = -inf\nrowscale r = 0.0\nfinal lse\nonline_fwd {\n"
    "$1 = max(state.m, rowmax($score))\n$2 = exp(state.m - $1)\n$3 = exp($score - $1)\nm = $1\n"
    "r = state.r * $2 + rowsum($3)\nreturn $3, $2\n}\nepilogue {\n$1 = max(state.m, w[h])\n"
    "$2 = state.r * exp(state.m - $1) + exp(w[h] - $1)\nlse = $1 + log($2)\n"
    "return $x * exp(state.m - $1) / $2\n}\nforward = exp($score - final.lse)\n}\n",
    "online x {\nonline_fwd {\nreturn $score, 1.0\n}\nepilogue {\nreturn $x\n}\nforward = "
    "$score\n}\n",
    "online x {\nrowscale sum = 0.0\nrowscale r = 1.0\nfinal r\nonline_fwd {\n"
    "$1 = state.sum + rowsum(abs($score))\n$2 = max($1, 1.0)\nsum = $1\nr = $2\n"
    "return $score / $2, state.r / $2\n}\nepilogue {\nr = state.r\nreturn $x\n}\n"
    "forward = $score / final.r\n}\n",
};

static const char head[] =
    "attention x {\nsize B\nsize H\nsize S\nsize D\nsize T\nsize E\n"
    "query q: f32[B, H, S, D]\nkey k: f32[B, H, T, D]\nvalue v: f32[B, H, T, E]\n"
    "input w: f32[H] grad\ninput bias: f32[S, T] grad\ninput gain: f32[2] grad\n";

typedef struct Source {
    const uint8_t *at;
    size_t size;
    AuAttn *a;
    AuExpr pool[POOL]; /* f32; what was made, to be used again */
    uint32_t count;
} Source;

static uint32_t take(Source *s, uint32_t below)
{
    if (!s->size) return 0;
    s->size--;
    return *s->at++ % below;
}

static AuExpr number(Source *s, double x) { return attn_f32(s->a, x, (AuSpan){0}); }
static AuExpr op1(Source *s, AuOp op, AuExpr x) { return attn_op1(s->a, op, x, (AuSpan){0}); }
static AuExpr op2(Source *s, AuOp op, AuExpr x, AuExpr y)
{
    return attn_op2(s->a, op, x, y, (AuSpan){0});
}

static void keep(Source *s, AuExpr e)
{
    if (s->count < POOL) s->pool[s->count++] = e;
}

static AuExpr pick(Source *s) { return s->pool[take(s, s->count)]; }

static AuExpr positive(Source *s, AuExpr x)
{
    return op2(s, AU_OP_ADD, op2(s, AU_OP_MUL, x, x), number(s, 0.5));
}

static AuExpr small(Source *s, AuExpr x)
{
    return op2(s, AU_OP_MIN, op1(s, AU_OP_TANH, x), number(s, 0.9));
}

/* f(x) where x > 0.2, behind a choice. */
static AuExpr guarded(Source *s, AuOp op, AuExpr x, AuExpr other)
{
    const AuExpr c = op2(s, AU_OP_LT, number(s, 0.2), x);
    return attn_where(s->a, c, op1(s, op, x), other, (AuSpan){0});
}

static AuExpr make_unary(Source *s, AuExpr x)
{
    static const AuOp smooth[] = {AU_OP_NEG,   AU_OP_ABS,  AU_OP_TANH, AU_OP_SIGMOID,
                                  AU_OP_ERF,   AU_OP_SIN,  AU_OP_COS,  AU_OP_SOFTPLUS,
                                  AU_OP_FLOOR, AU_OP_SIGN, AU_OP_CEIL};
    static const AuOp growing[] = {AU_OP_EXP, AU_OP_EXP2, AU_OP_EXPM1};
    static const AuOp partial[] = {AU_OP_LOG, AU_OP_LOG2, AU_OP_SQRT, AU_OP_RSQRT, AU_OP_LOG1P};
    const uint32_t n = take(s, 24);
    if (n < 11) return op1(s, smooth[n], x);
    if (n < 14) return op1(s, growing[n - 11], small(s, x));
    if (n < 19) return op1(s, partial[n - 14], positive(s, x));
    return guarded(s, partial[n - 19], x, pick(s));
}

static AuExpr make_binary(Source *s, AuExpr x, AuExpr y)
{
    switch (take(s, 12)) {
    case 0: return op2(s, AU_OP_ADD, x, y);
    case 1: return op2(s, AU_OP_SUB, x, y);
    case 2: return op2(s, AU_OP_DIV, x, positive(s, y));
    case 3: return op2(s, AU_OP_MIN, x, y);
    case 4: return op2(s, AU_OP_MAX, x, y);
    case 5: return op2(s, AU_OP_POW, positive(s, x), small(s, y));
    case 6: return op2(s, AU_OP_LOGADDEXP, x, y);
    case 7: return op2(s, AU_OP_MOD, x, positive(s, y));
    case 8: {
        const AuExpr c = op2(s, AU_OP_LT, x, y);
        return attn_where(s->a, c, pick(s), pick(s), (AuSpan){0});
    }
    case 9: {
        const AuExpr c = op2(s, AU_OP_AND, op2(s, AU_OP_LT, x, y),
                             op1(s, AU_OP_NOT, op2(s, AU_OP_LE, number(s, 0.4), y)));
        return attn_where(s->a, c, pick(s), pick(s), (AuSpan){0});
    }
    default: return op2(s, AU_OP_MUL, x, y);
    }
}

/* An expression over the pool of leaves; [channels]: sums and rotations are allowed. */
static AuExpr make(Source *s, bool channels)
{
    AuExpr e = s->pool[0];
    for (uint32_t n = 2 + take(s, 14); n > 0; n--) {
        e = take(s, 2) ? make_unary(s, pick(s)) : make_binary(s, e, pick(s));
        if (channels && take(s, 6) == 0) e = op1(s, AU_OP_ROW_SUM_C, e);
        if (channels && take(s, 8) == 0) {
            const AuExpr args[] = {e, attn_i32(s->a, (int32_t)take(s, 5), (AuSpan){0}),
                                   number(s, 100), attn_i32(s->a, 0, (AuSpan){0}),
                                   attn_i32(s->a, 2, (AuSpan){0})};
            e = attn_node(s->a, AU_OP_ROPE, args, 5, (int32_t)take(s, 2), 0, (AuSpan){0});
        }
        e = attn_simplify_expr(s->a, e); /* no constants but folded ones */
        keep(s, e);
    }
    return op2(s, AU_OP_ADD, op1(s, AU_OP_TANH, e), s->pool[0]); /* of moderate size */
}

static AuExpr index_of(Source *s, AuAxisBit axis)
{
    return attn_leaf(s->a, AU_OP_INDEX, AU_T_I32, (uint8_t)axis, (int32_t)axis, 0, (AuSpan){0});
}

static AuExpr read(Source *s, int32_t tensor, AuAxisBit x, AuAxisBit y)
{
    const AuExpr args[] = {index_of(s, x), y ? index_of(s, y) : (AuExpr){0}};
    return attn_node(s->a, AU_OP_INPUT, args, y ? 2 : 1, tensor, 0, (AuSpan){0});
}

static AuExpr make_row_mod(Source *s, AuPlace place)
{
    s->count = 0;
    keep(s, attn_leaf(s->a, AU_OP_ELEMENT, AU_T_F32, attn_element_axes(place), 0, 0, (AuSpan){0}));
    keep(s, number(s, 0.7));
    keep(s, read(s, 5, AU_AX_C, 0));
    if (place == AU_PLACE_Q_MOD || place == AU_PLACE_OUT_MOD) keep(s, read(s, 3, AU_AX_H, 0));
    return make(s, true);
}

static AuExpr make_score_mod(Source *s, AuOp leaf)
{
    s->count = 0;
    keep(s, attn_leaf(s->a, leaf, AU_T_F32, AU_AX_B | AU_AX_H | AU_AX_Q | AU_AX_KV, 0, 0,
                      (AuSpan){0}));
    keep(s, number(s, 0.7));
    keep(s, read(s, 3, AU_AX_H, 0));
    keep(s, read(s, 4, AU_AX_Q, AU_AX_KV));
    return make(s, false);
}

/* ---- differences */

typedef struct Run {
    const AuAttn *a;
    AuOracleCall call;
    double *tensors[TENSORS], *grads[TENSORS];
    size_t counts[TENSORS];
    double o[64], dout[64];
} Run;

static const int64_t sizes[] = {1, 2, 2, 2, 3, 2}; /* B, H, S, D, T, E */

static void fill(Run *r, AuArena *arena, const AuAttn *a)
{
    static const size_t counts[TENSORS] = {8, 12, 12, 2, 6, 2};
    r->a = a;
    for (uint32_t t = 0; t < TENSORS; t++) {
        r->counts[t] = counts[t];
        r->tensors[t] = AU_NEW_ARRAY(arena, double, counts[t]);
        r->grads[t] = AU_NEW_ARRAY(arena, double, counts[t]);
        for (size_t n = 0; n < counts[t]; n++)
            r->tensors[t][n] = 0.9 * sin((double)(t * 17 + n * 5 + 1) * 1.7);
    }
    for (size_t n = 0; n < 8; n++) r->dout[n] = cos((double)n * 2.3 + 1);
    r->call =
        (AuOracleCall){.sizes = sizes, .tensors = (const double *const *)r->tensors, .o = r->o};
}

static double loss(void *user)
{
    Run *r = user;
    const char *why;
    double sum = 0;
    AuArena *scratch = au_arena_new(NULL);
    if (!attn_interpret(r->a, &r->call, scratch, &why)) sum = NAN;
    au_arena_free(scratch);
    for (size_t n = 0; n < 8; n++) sum += r->dout[n] * r->o[n];
    return sum;
}

static void check_element(Run *r, AuArena *arena, const AuGrads *g, uint32_t t, size_t n)
{
    const double found = r->grads[t][n];
    double d[3];
    for (int k = 0; k < 3; k++)
        d[k] = attn_difference(&r->tensors[t][n], k == 0 ? 1e-3 : k == 1 ? 1e-4 : 2e-5, loss, r);
    const double size = 1e-2 + fabs(d[1]);
    if (!(fabs(d[0] - d[1]) < 1e-6 * size && fabs(d[2] - d[1]) < 1e-6 * size)) return;
    if (fabs(found - d[1]) < 1e-5 * size) return;
    AuText text = {.arena = arena};
    attn_print(r->a, &text);
    gradient_print(r->a, g, &text);
    fprintf(stderr, "%sd%s[%zu] is %.12g, expected %.12g\n", au_text_str(&text),
            r->a->tensors[t].name, n, found, d[1]);
    abort();
}

static void check(AuArena *arena, AuAttn *a, Source *s, AuDiags *diags)
{
    const char *why;
    Run r = {0};
    const AuGrads *g = attn_gradients(a, arena, diags);
    if (!g) {
        AuText text = {.arena = arena};
        au_diags_render(diags, &text);
        fprintf(stderr, "%s\n", au_text_str(&text));
        abort();
    }
    fill(&r, arena, a);
    if (!isfinite(loss(&r))) return;
    if (!attn_interpret_gradients(a, g, &r.call, r.dout, NULL, r.grads, arena, &why)) abort();
    for (uint32_t t = 0; t < TENSORS; t++)
        for (int n = 0; n < 2; n++) check_element(&r, arena, g, t, take(s, 255) % r.counts[t]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AuArena *arena = au_arena_new(NULL);
    AuNames *names = au_names_new(arena);
    AuDiags *diags = au_diags_new(arena);
    Source s = {.at = data, .size = size};
    const char *text = au_format(arena, "%s%s}\n", head, onlines[take(&s, 3)]);
    AuAttn *a = attn_read(arena, names, diags, au_source_add(diags, "ir", text, strlen(text)));
    if (!a) abort();
    s.a = a;
    const uint32_t parts = take(&s, 32);
    if (parts & 1) a->score_mod = make_score_mod(&s, AU_OP_SCORE);
    if (parts & 2) a->q_mod = make_row_mod(&s, AU_PLACE_Q_MOD);
    if (parts & 4) a->k_mod = make_row_mod(&s, AU_PLACE_K_MOD);
    if (parts & 8) a->v_mod = make_row_mod(&s, AU_PLACE_V_MOD);
    if (parts & 16) a->out_mod = make_row_mod(&s, AU_PLACE_OUT_MOD);
    attn_simplify(a);
    if (!attn_verify(a, diags)) abort();
    check(arena, a, &s, diags);
    au_arena_free(arena);
    return 0;
}
