/* support.c - see support.h. */
#include "support.h"

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
    const char *path = au_format(b->arena, "%s/%s", getenv("AU_GOLDEN"), name);
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
        FILE *file = fopen(au_format(b->arena, "%s/%s", getenv("AU_GOLDEN"), name), "wb");
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
    return au_format(b->arena,
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

/* splitmix64 */
uint32_t random_bits(Random *r)
{
    uint64_t z = r->state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return (uint32_t)((z ^ z >> 31) >> 32);
}

uint32_t random_below(Random *r, uint32_t count) { return random_bits(r) % count; }

double random_between(Random *r, double low, double high)
{
    return low + (high - low) * random_bits(r) / 4294967296.0;
}
