/* pairs.c - vector instructions of two numbers at once, of halves mixed with reals, of a table of bits; those that move numbers between lanes and
 * registers. */
#include "instruction.h"

#include <math.h>
#include <stdio.h>

static bool is_on(const Form *f, const State *s, unsigned lane)
{
    return exec_lanes(f, s) >> lane & 1;
}

/* ---- pairs: [types] is of one number; [more] an operation */

enum { ADD, MUL, FMA, MOV, MAX, MIN };

static void say_list(Form *f, const char *name, unsigned count, const Source *s, int what)
{
    say(f, " %s:[", name);
    for (unsigned n = 0; n < count; n++)
        say(f, "%s%d", n ? "," : "", what < 2 ? s[n].second[what] : s[n].minus[what - 2]);
    say(f, "]");
}

static void make_pair(Form *f, const char *name, Random *r)
{
    const bool halves = f->meaning->types[0] == 'h', moves = f->meaning->more == MOV;
    const unsigned sources = f->meaning->more == FMA ? 3 : 2;
    const char type = halves ? 'u' : 'q';
    f->to = (uint8_t)(halves ? draw(r, VECTORS) : 2 * draw(r, VECTORS / 2));
    say(f, halves ? "%s v%u" : "%s v[%u:%u]", name, FIRST_V + f->to, FIRST_V + f->to + 1);
    for (unsigned n = 0; n < sources; n++) {
        draw_source(f, n, type, r, "vs");
        for (int half = 0; half < 2; half++) {
            f->source[n].second[half] = !moves && draw(r, 4) ? half == 1 : draw(r, 2) == 1;
            f->source[n].minus[half] = !moves && draw(r, 4) == 0;
        }
        say(f, ", ");
        say_source(f, n, type, false);
    }
    f->clamp = !moves && draw(r, 4) == 0;
    say_list(f, "op_sel", sources, f->source, 0);
    if (!moves)
        say_list(f, "op_sel_hi", sources, f->source, 1),
            say_list(f, "neg_lo", sources, f->source, 2),
            say_list(f, "neg_hi", sources, f->source, 3);
    if (f->clamp) say(f, " clamp");
}

static double of_two(int operation, double a, double b, double c)
{
    switch (operation) {
    case ADD: return a + b;
    case MUL: return a * b;
    case FMA: return sum_to_odd(a * b, c);
    case MAX: return greater(a, b);
    default: return -greater(-a, -b);
    }
}

static uint32_t one_of_pair(const Form *f, const State *s, unsigned n, int half, unsigned lane)
{
    const Source *from = &f->source[n];
    const bool halves = f->meaning->types[0] == 'h';
    const uint64_t both = source_bits(f, s, n, halves ? 'u' : 'q', lane);
    const uint32_t bits = (uint32_t)(both >> (from->second[half] ? halves ? 16 : 32 : 0)) &
                          (halves ? 0xffff : 0xffffffff);
    return from->minus[half] ? bits ^ (halves ? 0x8000u : 0x80000000u) : bits;
}

static void apply_pair(Form *f, const State *before, State *after)
{
    const bool halves = f->meaning->types[0] == 'h';
    const unsigned sources = f->meaning->more == FMA ? 3 : f->meaning->more == MOV ? 0 : 2;
    for (unsigned lane = 0; lane < f->machine->lanes; lane++) {
        uint32_t made[2];
        if (!is_on(f, before, lane)) continue;
        for (int half = 0; half < 2; half++) {
            double x[3] = {0, 0, 0};
            for (unsigned n = 0; n < sources; n++) {
                const uint32_t bits = one_of_pair(f, before, n, half, lane);
                x[n] = halves ? half_value(bits) : real_of(bits);
            }
            const double r = of_two(f->meaning->more, x[0], x[1], x[2]);
            made[half] =
                (uint32_t)limited(f, f->meaning->types[0], halves ? half_bits(r) : real_bits(r));
        }
        if (f->meaning->more ==
            MOV) { /* the low result of the first source, the high one of the second */
            for (unsigned n = 0; n < 2; n++)
                made[n] = (uint32_t)(source_bits(f, before, n, 'q', lane) >>
                                     (f->source[n].second[0] ? 32 : 0));
        }
        after->v[lane][f->to] = halves ? pair_of(made[0], made[1]) : made[0];
        if (!halves) after->v[lane][f->to + 1] = made[1];
    }
    if (f->meaning->more == MOV) return;
    f->kinds[f->to] = halves ? HALVES : REAL;
    if (!halves) f->kinds[f->to + 1] = REAL;
}

/* ---- halves and reals mixed; [more]: 0 the result is a real, 1 the low half, 2 the high one */

static void make_mix(Form *f, const char *name, Random *r)
{
    f->to = (uint8_t)draw(r, VECTORS);
    say(f, "%s v%u", name, FIRST_V + f->to);
    for (unsigned n = 0; n < 3; n++) {
        Source *s = &f->source[n];
        draw_source(f, n, 'f', r, "vvs");
        s->second[1] = draw(r, 2);                 /* a half */
        s->second[0] = s->second[1] && draw(r, 2); /* the upper one */
        s->neg = draw(r, 2), s->abs = draw(r, 2);
        say(f, ", ");
        say_source(f, n, 'f', false);
    }
    f->clamp = draw(r, 4) == 0;
    say_list(f, "op_sel", 3, f->source, 0), say_list(f, "op_sel_hi", 3, f->source, 1);
    if (f->clamp) say(f, " clamp");
}

static void apply_mix(Form *f, const State *before, State *after)
{
    for (unsigned lane = 0; lane < f->machine->lanes; lane++) {
        double x[3];
        if (!is_on(f, before, lane)) continue;
        for (unsigned n = 0; n < 3; n++) {
            Source *s = &f->source[n], plain = *s;
            s->neg = s->abs = false;
            const uint32_t bits = (uint32_t)source_bits(f, before, n, 'f', lane);
            *s = plain;
            x[n] = !s->second[1] ? real_of(bits)
                                 : half_value(s->second[0] ? bits >> 16 : bits & 0xffff);
            if (s->abs) x[n] = fabs(x[n]);
            if (s->neg) x[n] = -x[n];
        }
        const uint32_t sum = real_bits(sum_to_odd(x[0] * x[1], x[2]));
        uint32_t *to = &after->v[lane][f->to];
        const uint32_t half = (uint32_t)limited(f, 'h', half_bits(real_of(sum)));
        *to = f->meaning->more == 0   ? (uint32_t)limited(f, 'f', sum)
              : f->meaning->more == 1 ? (*to & 0xffff0000) + half
                                      : (*to & 0xffff) + half * 65536;
    }
    f->kinds[f->to] = f->meaning->more ? HALVES : REAL;
}

/* ---- two products of halves and a real; [more]: the result is the third source. RDNA 2 document, "V_DOT2_F32_F16": D = A0 B0 + A1 B1 + C; that the
 * sum is rounded once and reals are without denormals, that CDNA 2 alone takes those of halves for 0: docs/dev/hip.md. */

static void make_dot(Form *f, const char *name, Random *r)
{
    const bool adds = f->meaning->more;
    f->to = (uint8_t)draw(r, VECTORS);
    say(f, "%s v%u", name, FIRST_V + f->to);
    for (unsigned n = 0; n < 3; n++) {
        Source *s = &f->source[n];
        draw_source(f, n, n < 2 ? 'u' : 'f', r, n == 1 ? "v" : "vs");
        for (int half = 0; half < 2 && n < 2; half++)
            s->second[half] = half == 1, s->minus[half] = !adds && draw(r, 4) == 0;
        if (n == 2 && adds) break;
        say(f, ", ");
        say_source(f, n, n < 2 ? 'u' : 'f', false);
    }
    if (adds) f->source[2] = (Source){.kind = 'v', .reg = f->to};
    if (adds) return;
    f->clamp = draw(r, 4) == 0;
    say_list(f, "neg_lo", 3, f->source, 2), say_list(f, "neg_hi", 3, f->source, 3);
    if (f->clamp) say(f, " clamp");
}

static double no_denormal(double a, double least) { return fabs(a) < least ? copysign(0, a) : a; }

static void apply_dot(Form *f, const State *before, State *after)
{
    const double least = strcmp(f->machine->name, "gfx90a") ? 0 : 0x1p-14;
    for (unsigned lane = 0; lane < f->machine->lanes; lane++) {
        double product[2] = {1, 1};
        if (!is_on(f, before, lane)) continue;
        for (unsigned n = 0; n < 4; n++) {
            const Source *s = &f->source[n % 2];
            const uint32_t both = (uint32_t)source_bits(f, before, n % 2, 'u', lane);
            const double x = half_value(both >> (s->second[n / 2] ? 16 : 0) & 0xffff);
            product[n / 2] *= no_denormal(s->minus[n / 2] ? -x : x, least);
        }
        const double c =
            no_denormal(real_of((uint32_t)source_bits(f, before, 2, 'f', lane)), 0x1p-126);
        const double sum = sum_to_odd(sum_to_odd(product[0], product[1]), c);
        const double rounded = no_denormal(real_of(real_bits(sum)), 0x1p-126);
        after->v[lane][f->to] = (uint32_t)limited(f, 'f', real_bits(rounded));
    }
    f->kinds[f->to] = REAL;
}

/* ---- a table of bits (bitop3) */

static void make_bits(Form *f, const char *name, Random *r)
{
    f->to = (uint8_t)draw(r, VECTORS);
    f->immediate = (int32_t)draw(r, 256);
    say(f, "%s v%u", name, FIRST_V + f->to);
    for (unsigned n = 0; n < 3; n++) {
        draw_source(f, n, 'u', r, "vsc");
        say(f, ", ");
        say_source(f, n, 'u', false);
    }
    say(f, " bitop3:0x%x", (unsigned)f->immediate);
}

static void apply_bits(Form *f, const State *before, State *after)
{
    for (unsigned lane = 0; lane < f->machine->lanes; lane++) {
        uint32_t made = 0;
        if (!is_on(f, before, lane)) continue;
        for (int bit = 0; bit < 32; bit++) {
            unsigned at = 0;
            for (unsigned n = 0; n < 3; n++)
                at = at * 2 + (source_bits(f, before, n, 'u', lane) >> bit & 1);
            made |= ((uint32_t)f->immediate >> at & 1) << bit;
        }
        after->v[lane][f->to] = made;
    }
}

/* Bits of a mask below this lane; [more]: of the upper 32. */
static void make_count(Form *f, const char *name, Random *r)
{
    f->to = (uint8_t)draw(r, VECTORS);
    draw_source(f, 0, 'u', r, "vsc"), draw_source(f, 1, 'u', r, "vsc");
    say(f, "%s v%u, ", name, FIRST_V + f->to);
    say_source(f, 0, 'u', false);
    say(f, ", ");
    say_source(f, 1, 'u', false);
}

static void apply_count(Form *f, const State *before, State *after)
{
    for (unsigned lane = 0; lane < f->machine->lanes; lane++) {
        const uint32_t mask = (uint32_t)source_bits(f, before, 0, 'u', lane);
        uint32_t sum = (uint32_t)source_bits(f, before, 1, 'u', lane);
        for (unsigned n = 0; n < 32; n++)
            sum += n + (f->meaning->more ? 32 : 0) < lane && (mask >> n & 1);
        if (is_on(f, before, lane)) after->v[lane][f->to] = sum;
    }
}

/* ---- between lanes and scalars */

static void make_read(Form *f, const char *name, Random *r)
{
    f->to = (uint8_t)draw(r, SCALARS);
    draw_source(f, 0, 'u', r, "v"), draw_source(f, 1, 'u', r, "s");
    say(f, "%s s%u, ", name, FIRST_S + f->to);
    say_source(f, 0, 'u', false);
    if (!f->meaning->more) return;
    say(f, ", ");
    say_source(f, 1, 'u', false);
}

static void apply_read(Form *f, const State *before, State *after)
{
    uint32_t lane = (uint32_t)source_bits(f, before, 1, 'u', 0) % f->machine->lanes;
    if (!f->meaning->more)
        for (lane = 0; lane < f->machine->lanes && !is_on(f, before, lane);) lane++;
    after->s[f->to] = before->v[lane == f->machine->lanes ? 0 : lane][f->source[0].reg];
}

static void make_write(Form *f, const char *name, Random *r)
{
    f->to = (uint8_t)draw(r, VECTORS);
    draw_source(f, 0, 'u', r, "s"), draw_source(f, 1, 'u', r, "s");
    if (f->machine->generation == GFX9) f->source[1] = f->source[0]; /* one scalar */
    say(f, "%s v%u, ", name, FIRST_V + f->to);
    say_source(f, 0, 'u', false);
    say(f, ", ");
    say_source(f, 1, 'u', false);
}

static void apply_write(Form *f, const State *before, State *after)
{
    const uint32_t lane = before->s[f->source[1].reg] % f->machine->lanes;
    after->v[lane][f->to] = before->s[f->source[0].reg];
}

/* Of 16 lanes, or (x) of the other 16, by places of four bits in two scalars. */
static void make_permute(Form *f, const char *name, Random *r)
{
    f->to = (uint8_t)draw(r, VECTORS);
    draw_source(f, 0, 'u', r, "v");
    f->fetches = draw(r, 2), f->zeros = draw(r, 2);
    f->source[1].reg = (uint8_t)draw(r, SCALARS), f->source[2].reg = (uint8_t)draw(r, SCALARS);
    say(f, "%s v%u, v%u, s%u, s%u op_sel:[%d,%d]", name, FIRST_V + f->to,
        FIRST_V + f->source[0].reg, FIRST_S + f->source[1].reg, FIRST_S + f->source[2].reg,
        f->fetches, f->zeros);
}

static void apply_permute(Form *f, const State *before, State *after)
{
    for (unsigned lane = 0; lane < f->machine->lanes; lane++) {
        const uint32_t places = before->s[f->source[lane % 16 < 8 ? 1 : 2].reg];
        unsigned from = lane / 16 * 16 + (places >> 4 * (lane % 8) & 15);
        if (f->meaning->more) from = from < lane / 32 * 32 + 16 ? from + 16 : from - 16;
        const bool there = f->fetches || is_on(f, before, from);
        if (is_on(f, before, lane) && (there || f->zeros))
            after->v[lane][f->to] = there ? before->v[from][f->source[0].reg] : 0;
    }
}

/* Two registers change; [more]: 0 all lanes, else how many lanes each half that changes has. */
static void make_swap(Form *f, const char *name, Random *r)
{
    f->to = (uint8_t)draw(r, VECTORS - 1);
    f->source[0].reg = (uint8_t)(f->to + 1);
    say(f, "%s v%u, v%u", name, FIRST_V + f->to, FIRST_V + f->source[0].reg);
}

static void apply_swap(Form *f, const State *before, State *after)
{
    const unsigned far = (unsigned)f->meaning->more, x = f->to, y = f->source[0].reg;
    for (unsigned lane = 0; lane < f->machine->lanes; lane++) {
        if (!is_on(f, before, lane)) continue;
        if (!far) after->v[lane][x] = before->v[lane][y], after->v[lane][y] = before->v[lane][x];
        /* odd rows of the first register and even rows of the second change places */
        if (far && lane / far % 2 == 1) after->v[lane][x] = before->v[lane - far][y];
        if (far && lane / far % 2 == 0) after->v[lane][y] = before->v[lane + far][x];
    }
}

/* ---- through LDS's crossbar: waits are written behind */

static void make_exchange(Form *f, const char *name, Random *r)
{
    const int more = f->meaning->more;
    f->to = (uint8_t)draw(r, VECTORS);
    draw_source(f, 0, 'u', r, "v"), draw_source(f, 1, 'u', r, "v");
    f->immediate = (int32_t)(more         ? draw(r, 4) * 4
                             : draw(r, 2) ? draw(r, 32768)
                                          : 32768 + draw(r, 256));
    say(f, "%s v%u, v%u", name, FIRST_V + f->to, FIRST_V + f->source[0].reg);
    if (more) say(f, ", v%u", FIRST_V + f->source[1].reg);
    say(f, f->immediate ? " offset:%d" : "", f->immediate);
    say(f, f->machine->generation == GFX12 ? "\ns_wait_dscnt 0" : "\ns_waitcnt lgkmcnt(0)");
}

static unsigned swizzle(unsigned lane, unsigned how)
{
    if (how >= 32768) return lane / 4 * 4 + (how >> 2 * (lane % 4)) % 4;
    return lane / 32 * 32 + (((lane % 32 & how % 32) | how / 32 % 32) ^ how / 1024 % 32);
}

static void apply_exchange(Form *f, const State *before, State *after)
{
    const unsigned lanes = f->machine->lanes, by = (unsigned)f->immediate;
    uint32_t got[WIDEST] = {0};
    for (unsigned lane = 0; lane < lanes; lane++) {
        const uint32_t at = before->v[lane][f->source[0].reg],
                       named = (uint32_t)(at + by) / 4 % lanes;
        const unsigned from = f->meaning->more == 0 ? swizzle(lane, by) : named;
        if (f->meaning->more == 2) {
            if (is_on(f, before, lane)) got[named] = before->v[lane][f->source[1].reg];
        } else if (is_on(f, before, from))
            got[lane] = before->v[from][f->source[f->meaning->more].reg];
    }
    for (unsigned lane = 0; lane < lanes; lane++)
        if (is_on(f, before, lane)) after->v[lane][f->to] = got[lane];
}

/* ---- accumulation registers: there and back */

static void make_there(Form *f, const char *name, Random *r)
{
    (void)name;
    f->to = (uint8_t)draw(r, VECTORS);
    draw_source(f, 0, 'u', r, "v");
    say(f, "v_accvgpr_write_b32 a3, v%u\ns_nop 3\n", FIRST_V + f->source[0].reg);
    if (f->meaning->more) say(f, "v_accvgpr_mov_b32 a4, a3\n");
    say(f, "v_accvgpr_read_b32 v%u, a%d", FIRST_V + f->to, 3 + f->meaning->more);
}

static void apply_there(Form *f, const State *before, State *after)
{
    for (unsigned lane = 0; lane < f->machine->lanes; lane++)
        if (is_on(f, before, lane)) after->v[lane][f->to] = before->v[lane][f->source[0].reg];
}

/* ---- two instructions at once, of which neither sees the other's result (VOPD) */

typedef struct Half {
    const char *name, *newer;
    uint8_t sources;
} Half;
static const Half halves_of[] = {
    {"add_f32", NULL, 2},     {"sub_f32", NULL, 2},          {"subrev_f32", NULL, 2},
    {"mul_f32", NULL, 2},     {"mov_b32", NULL, 1},          {"fmac_f32", NULL, 3},
    {"lshlrev_b32", NULL, 2}, {"max_f32", "max_num_f32", 2}, {"min_f32", "min_num_f32", 2},
    {"add_nc_u32", NULL, 2},  {"and_b32", NULL, 2}};
enum { HALVES_OF = sizeof halves_of / sizeof *halves_of };

/* immediate: which two; mask_to: the second's result. */
static void say_half(Form *f, const Half *half, unsigned to, const uint8_t *from)
{
    const bool newer = half->newer && f->machine->generation == GFX12;
    say(f, "v_dual_%s v%u, v%u", newer ? half->newer : half->name, FIRST_V + to,
        (unsigned)FIRST_V + from[0]);
    if (half->sources > 1) say(f, ", v%u", (unsigned)FIRST_V + from[1]);
}

static void make_dual(Form *f, const char *name, Random *r)
{
    (void)name;
    f->immediate = (int32_t)(draw(r, HALVES_OF) * HALVES_OF + draw(r, HALVES_OF));
    f->to = (uint8_t)draw(r, VECTORS);
    f->mask_to = (uint8_t)((draw(r, VECTORS / 2) * 2 + 1 + f->to) %
                           VECTORS);   /* one is even, the other odd */
    for (unsigned n = 0; n < 2; n++) { /* of different banks, which are registers modulo 4 */
        f->first_from[n] = (uint8_t)draw(r, VECTORS);
        f->second_from[n] = (uint8_t)((f->first_from[n] + 1 + draw(r, 3)) % VECTORS);
    }
    say_half(f, &halves_of[f->immediate / HALVES_OF], f->to, f->first_from);
    say(f, " :: ");
    say_half(f, &halves_of[f->immediate % HALVES_OF], f->mask_to, f->second_from);
}

static uint32_t half_means(const Half *half, uint32_t a, uint32_t b, uint32_t c)
{
    char name[32];
    snprintf(name, sizeof name, "v_%s",
             strcmp(half->name, "add_nc_u32") == 0 ? "add_u32" : half->name);
    for (const Meaning *row = meanings_of_lanes(); row->name; row++)
        if (strcmp(row->name, name) == 0) return (uint32_t)row->lane(a, b, c);
    return 0;
}

static void apply_dual(Form *f, const State *before, State *after)
{
    const Half *first = &halves_of[f->immediate / HALVES_OF],
               *second = &halves_of[f->immediate % HALVES_OF];
    for (unsigned lane = 0; lane < f->machine->lanes; lane++) {
        const uint32_t *x = before->v[lane];
        if (!is_on(f, before, lane)) continue;
        after->v[lane][f->to] =
            half_means(first, x[f->first_from[0]], x[f->first_from[1]], x[f->to]);
        after->v[lane][f->mask_to] =
            half_means(second, x[f->second_from[0]], x[f->second_from[1]], x[f->mask_to]);
    }
    f->kinds[f->to] = strstr(first->name, "f32") ? REAL : BITS;
    f->kinds[f->mask_to] = strstr(second->name, "f32") ? REAL : BITS;
}

/* ---- the table */

/* Of two at once there are many. */
#define DUAL                                                                                       \
    {                                                                                              \
        "v_dual_", "", NULL, make_dual, apply_dual, 0                                              \
    }
static const Meaning rows[] = {DUAL,
                               DUAL,
                               DUAL,
                               DUAL,
                               DUAL,
                               DUAL,
                               DUAL,
                               DUAL,
                               DUAL,
                               DUAL,
                               DUAL,
                               DUAL,
                               {"v_pk_add_f32", "f", NULL, make_pair, apply_pair, ADD},
                               {"v_pk_mul_f32", "f", NULL, make_pair, apply_pair, MUL},
                               {"v_pk_fma_f32", "f", NULL, make_pair, apply_pair, FMA},
                               {"v_pk_mov_b32", "f", NULL, make_pair, apply_pair, MOV},
                               {"v_pk_add_f16", "h", NULL, make_pair, apply_pair, ADD},
                               {"v_pk_mul_f16", "h", NULL, make_pair, apply_pair, MUL},
                               {"v_pk_fma_f16", "h", NULL, make_pair, apply_pair, FMA},
                               {"v_pk_max_f16", "h", NULL, make_pair, apply_pair, MAX},
                               {"v_pk_min_f16", "h", NULL, make_pair, apply_pair, MIN},
                               {"v_fma_mix_f32", "f", NULL, make_mix, apply_mix, 0},
                               {"v_fma_mixlo_f16", "h", NULL, make_mix, apply_mix, 1},
                               {"v_fma_mixhi_f16", "h", NULL, make_mix, apply_mix, 2},
                               {"v_dot2_f32_f16", "f", NULL, make_dot, apply_dot, 0},
                               {"v_dot2c_f32_f16", "f", NULL, make_dot, apply_dot, 1},
                               {"v_dot2acc_f32_f16", "f", NULL, make_dot, apply_dot, 1},
                               {"v_bitop3_b32", "", NULL, make_bits, apply_bits, 0},
                               {"v_mbcnt_lo_u32_b32", "", NULL, make_count, apply_count, 0},
                               {"v_mbcnt_hi_u32_b32", "", NULL, make_count, apply_count, 1},
                               {"v_readfirstlane_b32", "", NULL, make_read, apply_read, 0},
                               {"v_readlane_b32", "", NULL, make_read, apply_read, 1},
                               {"v_writelane_b32", "", NULL, make_write, apply_write, 0},
                               {"v_permlane16_b32", "", NULL, make_permute, apply_permute, 0},
                               {"v_permlanex16_b32", "", NULL, make_permute, apply_permute, 1},
                               {"v_permlane16_swap_b32", "", NULL, make_swap, apply_swap, 16},
                               {"v_permlane32_swap_b32", "", NULL, make_swap, apply_swap, 32},
                               {"v_swap_b32", "", NULL, make_swap, apply_swap, 0},
                               {"ds_swizzle_b32", "", NULL, make_exchange, apply_exchange, 0},
                               {"ds_bpermute_b32", "", NULL, make_exchange, apply_exchange, 1},
                               {"ds_permute_b32", "", NULL, make_exchange, apply_exchange, 2},
                               {"v_accvgpr_write_b32", "", NULL, make_there, apply_there, 0},
                               {"v_accvgpr_mov_b32", "", NULL, make_there, apply_there, 1},
                               {NULL, NULL, NULL, NULL, NULL, 0}};
const Meaning *meanings_of_pairs(void) { return rows; }
