/* scalars.c - instructions of the scalar unit, and of the vector unit on scalars (gfx12's v_s_). */
#include "instruction.h"

#include <math.h>
#include <stdlib.h>

#define ALL32 0xffffffffull
enum { K = 2 };
static int64_t w32(uint64_t a)
{
    return (int64_t)(a % 4294967296u) - (a & 0x80000000 ? 4294967296ll : 0);
}
static bool too_large(int64_t a) { return a > 2147483647ll || a < -2147483648ll; }
static int64_t down(int64_t a, uint64_t by) { return a < 0 ? ~(~a >> by) : a >> by; }
static double no_denormal(double a) { return fabs(a) < 0x1p-126 ? copysign(0.0, a) : a; }

typedef struct Said {
    uint64_t result;
    int scc;
} Said;
typedef Said Scalar(uint64_t a, uint64_t b, uint64_t d, uint64_t c, uint64_t k);
typedef struct ScalarRow {
    const char *name;
    Scalar *means;
    uint8_t bits, sources, bits_a, bits_b;
    bool immediate;
    const char *kind; /* of a real's result: f, h, P, E */
} ScalarRow;

#define O(name, bits, sources, ba, bb, imm, r, scc)                                                \
    static Said mean_##name(uint64_t a, uint64_t b, uint64_t d, uint64_t c, uint64_t k)            \
    {                                                                                              \
        (void)a, (void)b, (void)c, (void)d, (void)k;                                               \
        return (Said){(r), (scc)};                                                                 \
    }
#define REALS(name, made, says)                                                                    \
    static Said mean_##name(uint64_t a, uint64_t b, uint64_t d, uint64_t c, uint64_t k)            \
    {                                                                                              \
        const double x = real_of((uint32_t)a), y = real_of((uint32_t)b), z = real_of((uint32_t)d); \
        (void)x, (void)y, (void)z, (void)c, (void)k;                                               \
        return (Said){(made), (says)};                                                             \
    }
#define R(name, kind, sources, r)  REALS(name, real_bits(r), K)
#define RU(name, kind, sources, r) REALS(name, r, K)
#define RC(name, holds)            REALS(name, 0, holds)
#define RE(name, kind, sources, r)                                                                 \
    static Said mean_##name(uint64_t a, uint64_t b, uint64_t d, uint64_t c, uint64_t k)            \
    {                                                                                              \
        const double x = no_denormal(real_of((uint32_t)a));                                        \
        (void)b, (void)d, (void)c, (void)k;                                                        \
        return (Said){real_bits(no_denormal((double)(float)(r))), K};                              \
    }
#include "scalar_meanings.def"
#undef O
#undef R
#undef RU
#undef RC
#undef RE
#define O(name, bits, sources, ba, bb, imm, r, scc)                                                \
    {#name, mean_##name, bits, sources, ba, bb, imm, ""},
#define R(name, kind, sources, r)  {#name, mean_##name, 32, sources, 32, 32, false, #kind},
#define RU                         R
#define RE(name, kind, sources, r) {#name, mean_##name, 32, sources, 32, 32, false, "E"},
#define RC(name, holds)            {#name, mean_##name, 0, 2, 32, 32, false, ""},
static const ScalarRow scalars[] = {
#include "scalar_meanings.def"
};

/* ---- forms */

static void make_scalar(Form *f, const char *name, Random *r)
{
    const ScalarRow *row = &scalars[f->meaning->more];
    const char types[2] = {row->bits_a == 64 ? 'q' : 'u', row->bits_b == 64 ? 'q' : 'u'};
    f->to = (uint8_t)(row->bits == 64 ? 2 * draw(r, SCALARS / 2) : draw(r, SCALARS));
    f->immediate = draw(r, 2) ? (int32_t)draw(r, 65536) - 32768 : (int32_t)draw(r, 40) - 20;
    const unsigned registers = row->immediate && row->sources && row->bits ? 0u : row->sources;
    say(f, "%s ", name);
    if (row->bits == 64) say(f, "s[%u:%u]", FIRST_S + f->to, FIRST_S + f->to + 1);
    if (row->bits == 32) say(f, "s%u", FIRST_S + f->to);
    for (unsigned n = 0; n < registers; n++) {
        draw_source(f, n, types[n], r, row->immediate ? "s" : "sc");
        Source *s = &f->source[n];
        if (*row->kind == 'E' && s->kind == 's') s->neg = draw(r, 2), s->abs = draw(r, 2);
        say(f, "%s", n || row->bits ? ", " : "");
        say_source(f, n, types[n], false);
    }
    if (row->immediate) say(f, ", 0x%x", (unsigned)f->immediate & 0xffff);
}

/* What is known of a constant of 64 bits is its sign alone. */
static uint64_t scalar_source(const Form *f, const State *s, unsigned n, unsigned bits)
{
    return source_bits(f, s, n, bits == 64 ? 'q' : 'f', 0) & (bits == 64 ? ~0ull : ALL32);
}

static void apply_scalar(Form *f, const State *before, State *after)
{
    const ScalarRow *row = &scalars[f->meaning->more];
    const uint64_t d =
        before->s[f->to] | (row->bits == 64 ? (uint64_t)before->s[f->to + 1] << 32 : 0);
    const uint64_t k = (uint64_t)((int64_t)(int16_t)f->immediate & 0xffffffffll);
    const bool only = row->immediate && row->sources && row->bits;
    const Said said = row->means(only ? k : scalar_source(f, before, 0, row->bits_a),
                                 scalar_source(f, before, 1, row->bits_b), d, before->scc, k);
    if (row->bits) after->s[f->to] = (uint32_t)said.result;
    if (row->bits == 64) after->s[f->to + 1] = (uint32_t)(said.result >> 32);
    if (said.scc != K) after->scc = (uint32_t)said.scc;
    f->scalar_kind = *row->kind == 'f'                        ? REAL
                     : *row->kind == 'E'                      ? NEAR
                     : *row->kind == 'h' || *row->kind == 'P' ? HALVES
                                                              : BITS;
}

/* ---- masks of lanes by the scalar unit, and multiply-adds with a constant */

enum { AND, OR, XOR, ANDN2, ORN1, ORN2 };
static void make_saveexec(Form *f, const char *name, Random *r)
{
    f->source[0].reg = draw_mask(r);
    f->mask_to = draw_mask(r);
    say(f, "%s_b%u ", name, (unsigned)f->machine->lanes);
    say_mask(f, f->mask_to);
    say(f, ", ");
    say_mask(f, f->source[0].reg);
}

static void apply_saveexec(Form *f, const State *before, State *after)
{
    const uint64_t exec = exec_lanes(f, before), a = mask_of(f, before, f->source[0].reg);
    const uint64_t all[] = {exec & a, exec | a, exec ^ a, a & ~exec, ~a | exec, a | ~exec};
    uint64_t made = all[f->meaning->more];
    if (f->machine->lanes == 32) made = (uint32_t)made;
    set_mask(f, after, f->mask_to, exec);
    after->exec[0] = (uint32_t)made;
    if (f->machine->lanes == 64) after->exec[1] = (uint32_t)(made >> 32);
    after->scc = made != 0;
}

static void make_constant_fma(Form *f, const char *name, Random *r)
{
    const bool adds = f->meaning->more;
    f->to = (uint8_t)draw(r, SCALARS);
    draw_source(f, 0, 'f', r, "s"), draw_source(f, 1, 'f', r, "s");
    say(f, "%s s%u, s%u, %s", name, FIRST_S + f->to, FIRST_S + f->source[0].reg,
        adds ? "" : "0x3eabcdef, ");
    say(f, "s%u%s", FIRST_S + f->source[1].reg, adds ? ", 0x3eabcdef" : "");
}

static void apply_constant_fma(Form *f, const State *before, State *after)
{
    const double x = real_of(before->s[f->source[0].reg]), y = real_of(before->s[f->source[1].reg]),
                 k = real_of(0x3eabcdef);
    after->s[f->to] = real_bits(f->meaning->more ? sum_to_odd(x * y, k) : sum_to_odd(x * k, y));
    f->scalar_kind = REAL;
}

/* ---- all of them as meanings: rows are numbered by the table's order */

#undef O
#undef R
#undef RU
#undef RE
#undef RC
#define O(name, ...) N_##name,
#define R            O
#define RU           O
#define RE           O
#define RC           O
enum {
#include "scalar_meanings.def"
};
#undef O
#define O(name, ...) {#name, "", NULL, make_scalar, apply_scalar, N_##name},
#define SAVE(name, how)                                                                            \
    {                                                                                              \
        "s_" name "_saveexec", "", NULL, make_saveexec, apply_saveexec, how                        \
    }
static const Meaning rows[] = {
#include "scalar_meanings.def"
    SAVE("and", AND),
    SAVE("or", OR),
    SAVE("xor", XOR),
    SAVE("andn2", ANDN2),
    SAVE("and_not1", ANDN2),
    SAVE("orn1", ORN1),
    SAVE("or_not0", ORN1),
    SAVE("orn2", ORN2),
    SAVE("or_not1", ORN2),
    {"s_fmaak_f32", "", NULL, make_constant_fma, apply_constant_fma, 1},
    {"s_fmamk_f32", "", NULL, make_constant_fma, apply_constant_fma, 0},
    {NULL, NULL, NULL, NULL, NULL, 0}};
const Meaning *meanings_of_scalars(void) { return rows; }
