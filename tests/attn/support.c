/* support.c - see support.h. */
#include "support.h"
#include "random.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Bench bench_new(void)
{
    Bench b = {.arena = au_arena_new(NULL)};
    b.names = au_names_new(b.arena);
    b.diags = au_diags_new(b.arena);
    return b;
}

void bench_free(Bench *b) { au_arena_free(b->arena); }

const char *bench_errors(Bench *b)
{
    AuText text = {.arena = b->arena};
    au_diags_render(b->diags, &text);
    return au_text_str(&text);
}

AuAttn *bench_read(Bench *b, const char *text)
{
    const uint32_t source = au_source_add(b->diags, "test.air", text, strlen(text));
    AuAttn *a = attn_read(b->arena, b->names, b->diags, source);
    if (!a) fail_msg("%s\n%s", bench_errors(b), text);
    return a;
}

const char *bench_file(Bench *b, const char *name)
{
    const char *path = au_format(b->arena, "%s/%s", AU_GOLDEN, name);
    FILE *file = fopen(path, "rb");
    if (!file) fail_msg("%s cannot be read", path);
    AuText text = {.arena = b->arena};
    char part[4096];
    for (size_t n; (n = fread(part, 1, sizeof part, file)) > 0;) au_text_bytes(&text, part, n);
    fclose(file);
    return au_text_str(&text);
}

void bench_expect(Bench *b, const char *name, const char *text)
{
    if (getenv("AU_UPDATE")) {
        FILE *file = fopen(au_format(b->arena, "%s/%s", AU_GOLDEN, name), "wb");
        if (!file || fputs(text, file) < 0 || fclose(file)) fail_msg("%s cannot be written", name);
    }
    assert_string_equal(text, bench_file(b, name));
}

AuAttn *bench_read_file(Bench *b, const char *name) { return bench_read(b, bench_file(b, name)); }

const char *bench_print(Bench *b, const AuAttn *a)
{
    AuText text = {.arena = b->arena};
    attn_print(a, &text);
    return au_text_str(&text);
}

const char *bench_softmax(Bench *b, const char *declarations, const char *lines)
{
    return au_format(
        b->arena,
        "attention test {\n"
        "size B\nsize H\nsize S\nsize D\nsize Hk\nsize T\nsize E\n"
        "query q: f32[B, H, S, D]\nkey k: f32[B, Hk, T, D]\nvalue v: f32[B, Hk, T, E]\n"
        "%s\n%s\n"
        "online softmax {\n"
        "rowscale m = -inf\nrowscale r = 0.0\nfinal lse\n"
        "online_fwd {\n$1 = max(state.m, rowmax($score))\n$2 = exp(state.m - $1)\n"
        "$3 = exp($score - $1)\nm = $1\nr = state.r * $2 + rowsum($3)\nreturn $3, $2\n}\n"
        "epilogue {\nlse = state.m + log(state.r)\nreturn $x / state.r\n}\n"
        "forward = exp($score - final.lse)\n}\n}\n",
        declarations, lines);
}

uint32_t random_bits(Random *r) { return (uint32_t)(au_random(&r->state) >> 32); }

uint32_t random_below(Random *r, uint32_t count) { return random_bits(r) % count; }

double random_between(Random *r, double low, double high)
{
    return low + (high - low) * random_bits(r) / 4294967296.0;
}

/* "NAME=number" in a list separated by spaces; -1 where there is none. */
static int64_t find_number(const char *list, const char *name)
{
    const size_t length = strlen(name);
    for (const char *at = list; (at = strstr(at, name)); at += length)
        if ((at == list || at[-1] == ' ') && at[length] == '=') return atoll(at + length + 1);
    return -1;
}

Case *case_new(Bench *b, AuAttn *a, const char *sizes, uint64_t seed)
{
    Case *c = AU_NEW(b->arena, Case);
    Random r = {seed};
    c->a = a;
    for (uint32_t i = 0; i < a->size_count; i++) {
        c->sizes[i] = a->sizes[i].fixed;
        if (c->sizes[i] < 0) c->sizes[i] = find_number(sizes, a->sizes[i].name);
        if (c->sizes[i] < 0) fail_msg("no size %s", a->sizes[i].name);
    }
    for (uint32_t i = 0; i < a->param_count; i++)
        if (a->params[i].default_value.i)
            c->params[i] = attn_scalar(a, a->params[i].default_value, c->sizes, c->params);
    for (uint32_t i = 0; i < a->tensor_count; i++) {
        const AuTensor *t = &a->tensors[i];
        c->counts[i] = 1;
        for (uint32_t k = 0; k < t->rank; k++)
            c->counts[i] *= (size_t)attn_scalar(a, t->axes[k], c->sizes, c->params);
        c->tensors[i] = AU_NEW_ARRAY(b->arena, double, c->counts[i]);
        for (size_t n = 0; n < c->counts[i] && attn_type_of(t->dtype) == AU_T_F32; n++)
            c->tensors[i][n] = random_between(&r, -1, 1);
    }
    const AuExpr *q = a->tensors[0].axes;
    c->rows = (size_t)(attn_scalar(a, q[0], c->sizes, NULL) * attn_scalar(a, q[1], c->sizes, NULL) *
                       attn_scalar(a, q[2], c->sizes, NULL));
    const size_t T = (size_t)attn_scalar(a, a->tensors[1].axes[2], c->sizes, NULL);
    const size_t E = (size_t)attn_scalar(a, a->tensors[2].axes[3], c->sizes, NULL);
    c->o = AU_NEW_ARRAY(b->arena, double, c->rows *E);
    c->weights = AU_NEW_ARRAY(b->arena, double, c->rows *T);
    for (int i = 0; i < 8; i++) c->finals[i] = AU_NEW_ARRAY(b->arena, double, c->rows);
    c->call = (AuOracleCall){.sizes = c->sizes,
                             .tensors = (const double *const *)c->tensors,
                             .params = c->params,
                             .params_i64 = c->params_i64,
                             .o = c->o,
                             .finals = c->finals,
                             .weights = c->weights,
                             .diags = b->diags};
    return c;
}

double *case_tensor(Case *c, const char *name)
{
    for (uint32_t i = 0; i < c->a->tensor_count; i++)
        if (strcmp(c->a->tensors[i].name, name) == 0) return c->tensors[i];
    fail_msg("no tensor %s", name);
    return NULL;
}

void case_param(Case *c, const char *name, double value)
{
    for (uint32_t i = 0; i < c->a->param_count; i++)
        if (strcmp(c->a->params[i].name, name) == 0) {
            c->params[i] = value;
            c->params_i64[i] = (int64_t)value;
            return;
        }
    fail_msg("no parameter %s", name);
}

void case_run(Bench *b, Case *c)
{
    const char *why = "";
    if (!attn_interpret(c->a, &c->call, b->arena, &why)) fail_msg("%s", why);
}

const char *case_fail(Bench *b, Case *c)
{
    const char *why = "";
    if (attn_interpret(c->a, &c->call, b->arena, &why)) fail_msg("the oracle did not fail");
    return why;
}

void expect_near(double found, double expected, double tolerance)
{
    if (found == expected || (found != found && expected != expected)) return;
    if (!(fabs(found - expected) <= tolerance * (1 + fabs(expected))))
        fail_msg("expected %.17g, found %.17g", expected, found);
}

Case *case_softmax(Bench *b, const char *declarations, const char *lines, const char *sizes)
{
    return case_new(b, bench_read(b, bench_softmax(b, declarations, lines)), sizes, 4);
}
