/* masks.c - vector instructions with a bit a lane: comparisons, choices, sums with carries; and quotients' steps, which have flags. */
#include "instruction.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t lane_bit(unsigned lane) { return 1ull << lane; }

static double value_of(uint64_t bits, char type)
{
    double value;
    if (type == 'f') return real_of((uint32_t)bits);
    if (type == 'h') return half_value((uint32_t)bits);
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* ---- comparisons: [more] is the condition, times 2, plus 1 for those that write EXEC, too. */

enum { LT, EQ, LE, GT, LG, GE, ORDERED, UNORDERED, NGE, NLG, NGT, NLE, NEQ, NLT, NE };

static bool holds_of_reals(int condition, double a, double b)
{
    const bool less = a<b, more = a> b, same = a == b;
    switch (condition) {
    case LT: return less;
    case EQ: return same;
    case LE: return less || same;
    case GT: return more;
    case LG: return less || more;
    case GE: return more || same;
    case ORDERED: return less || more || same;
    case UNORDERED: return !less && !more && !same;
    case NGE: return !more && !same;
    case NLG: return !less && !more;
    case NGT: return !more;
    case NLE: return !less && !same;
    case NEQ: return !same;
    default: return !less;
    }
}

static bool holds_of_order(int condition, int order)
{
    switch (condition) {
    case LT: return order < 0;
    case EQ: return order == 0;
    case LE: return order <= 0;
    case GT: return order > 0;
    case GE: return order >= 0;
    default: return order != 0;
    }
}

static int order_of(uint64_t a, uint64_t b, char type)
{
    if (type == 'i') {
        a = (a & 0xffffffff) ^ 0x80000000;
        b = (b & 0xffffffff) ^ 0x80000000;
    }
    if (type == 'l') {
        a ^= 1ull << 63;
        b ^= 1ull << 63;
    }
    if (type == 'u') a &= 0xffffffff, b &= 0xffffffff;
    return a < b ? -1 : a > b;
}

static void make_compare(Form *f, const char *name, Random *r)
{
    const char type = f->meaning->types[1], second = f->meaning->types[2];
    const bool to_exec = f->meaning->more & 1, alone = to_exec && f->machine->generation > GFX9;
    /* LLVM 22's disassembler of gfx12 does not read upper halves in the short form. */
    const bool lng = draw(r, 2) || (f->machine->generation == GFX12 && width_of(type) == 16);
    const bool named = f->machine->generation >= GFX11 && width_of(type) == 16 && draw(r, 4) != 0;
    f->mask_to = lng ? draw_mask(r) : TO_VCC;
    draw_source(f, 0, type, r, "vsc");
    draw_source(f, 1, second, r, lng ? "vsc" : "v");
    for (unsigned n = 0; n < 2; n++) {
        Source *s = &f->source[n];
        if (lng && is_real(n ? second : type) && s->kind != 'c')
            s->neg = draw(r, 2), s->abs = draw(r, 2);
        if (named && s->kind == 'v') s->high = draw(r, 2);
    }
    say(f, "%s%s ", name, lng ? "_e64" : "_e32");
    if (!alone) {
        say_mask(f, f->mask_to);
        say(f, ", ");
    }
    say_source(f, 0, type, named);
    say(f, ", ");
    say_source(f, 1, second, named && width_of(second) == 16);
}

static void put_compared(Form *f, const State *before, State *after, uint64_t bits)
{
    const bool to_exec = f->meaning->more & 1;
    bits &= exec_lanes(f, before);
    if (!to_exec || f->machine->generation == GFX9) set_mask(f, after, f->mask_to, bits);
    if (!to_exec) return;
    after->exec[0] = (uint32_t)bits;
    if (f->machine->lanes == 64) after->exec[1] = (uint32_t)(bits >> 32);
}

static void apply_compare(Form *f, const State *before, State *after)
{
    const char type = f->meaning->types[1];
    const int condition = f->meaning->more / 2;
    uint64_t bits = 0;
    for (unsigned lane = 0; lane < f->machine->lanes; lane++) {
        const uint64_t a = source_bits(f, before, 0, type, lane),
                       b = source_bits(f, before, 1, type, lane);
        const bool holds = is_real(type)
                               ? holds_of_reals(condition, value_of(a, type), value_of(b, type))
                               : holds_of_order(condition, order_of(a, b, type));
        if (holds) bits |= lane_bit(lane);
    }
    put_compared(f, before, after, bits);
}

/* Ten bits, from signalling NaN, quiet NaN, -inf, -normal, -denormal, -0 up to +inf. */
static unsigned class_of(uint32_t bits)
{
    const uint32_t size = bits & 0x7fffffff;
    const bool minus = bits >> 31;
    if (size > 0x7f800000) return size >= 0x7fc00000 ? 2 : 1;
    const unsigned how = size == 0x7f800000 ? 0 : size >= 0x00800000 ? 1 : size ? 2 : 3;
    return minus ? 4u << how : 512u >> how;
}

static void apply_class(Form *f, const State *before, State *after)
{
    uint64_t bits = 0;
    for (unsigned lane = 0; lane < f->machine->lanes; lane++)
        if (class_of((uint32_t)source_bits(f, before, 0, 'f', lane)) &
            source_bits(f, before, 1, 'u', lane))
            bits |= lane_bit(lane);
    put_compared(f, before, after, bits);
}

/* ---- choices, sums */

static void make_choice(Form *f, const char *name, Random *r)
{
    const bool lng = draw(r, 2), half = f->meaning->types[0] == 'w';
    f->to = (uint8_t)draw(r, VECTORS);
    f->mask_to = lng ? draw_mask(r) : TO_VCC;
    draw_source(f, 0, 'u', r, "vsc"), draw_source(f, 1, 'u', r, lng ? "vsc" : "v");
    if (half)
        f->source[0].high = f->source[0].kind == 'v' && draw(r, 2),
        f->source[1].high = f->source[1].kind == 'v' && draw(r, 2), f->high = draw(r, 2);
    for (unsigned n = 0; n < 2; n++)
        if (lng && !half && f->source[n].kind != 'c')
            f->source[n].neg = draw(r, 2), f->source[n].abs = draw(r, 2);
    say(f, "%s%s v%u%s, ", name, lng ? "_e64" : "_e32", FIRST_V + f->to,
        !half     ? ""
        : f->high ? ".h"
                  : ".l");
    say_source(f, 0, 'u', half);
    say(f, ", ");
    say_source(f, 1, 'u', half);
    say(f, ", ");
    say_mask(f, f->mask_to);
}

static void apply_choice(Form *f, const State *before, State *after)
{
    const bool half = f->meaning->types[0] == 'w';
    const uint64_t mask = mask_of(f, before, f->mask_to);
    for (unsigned lane = 0; lane < f->machine->lanes; lane++) {
        if (!(exec_lanes(f, before) & lane_bit(lane))) continue;
        const uint32_t made =
            (uint32_t)source_bits(f, before, mask & lane_bit(lane) ? 1 : 0, half ? 'w' : 'u', lane);
        uint32_t *to = &after->v[lane][f->to];
        *to = !half ? made : f->high ? (*to & 0xffff) | made << 16 : (*to & 0xffff0000) | made;
    }
}

/* [more]: 1 with a carry, 2 a difference, 4 the other way round. */
static void make_carry(Form *f, const char *name, Random *r)
{
    const bool lng = draw(r, 2);
    f->to = (uint8_t)draw(r, VECTORS);
    f->mask_to = lng ? draw_mask(r) : TO_VCC;
    f->source[2].reg = lng ? draw_mask(r) : TO_VCC;
    draw_source(f, 0, 'u', r, "vsc"), draw_source(f, 1, 'u', r, lng ? "vsc" : "v");
    say(f, "%s%s v%u, ", name, lng ? "_e64" : "_e32", FIRST_V + f->to);
    say_mask(f, f->mask_to);
    for (unsigned n = 0; n < 2; n++) {
        say(f, ", ");
        say_source(f, n, 'u', false);
    }
    if (!(f->meaning->more & 1)) return;
    say(f, ", ");
    say_mask(f, f->source[2].reg);
}

static void apply_carry(Form *f, const State *before, State *after)
{
    const int more = f->meaning->more;
    const uint64_t carries = more & 1 ? mask_of(f, before, f->source[2].reg) : 0,
                   exec = exec_lanes(f, before);
    uint64_t out = 0;
    for (unsigned lane = 0; lane < f->machine->lanes; lane++) {
        if (!(exec & lane_bit(lane))) continue;
        const int64_t x = (int64_t)(uint32_t)source_bits(f, before, more & 4 ? 1 : 0, 'u', lane),
                      y = (int64_t)(uint32_t)source_bits(f, before, more & 4 ? 0 : 1, 'u', lane),
                      c = carries & lane_bit(lane) ? 1 : 0;
        const int64_t made = more & 2 ? x - y - c : x + y + c;
        after->v[lane][f->to] = (uint32_t)made;
        if (made < 0 || made > 4294967295ll) out |= lane_bit(lane);
    }
    set_mask(f, after, f->mask_to, out);
}

/* ---- products of 64 bits */

static void make_wide(Form *f, const char *name, Random *r)
{
    f->to = (uint8_t)(2 * draw(r, VECTORS / 2));
    f->mask_to = draw_mask(r);
    draw_source(f, 0, 'u', r, "vsc"), draw_source(f, 1, 'u', r, "vs"),
        draw_source(f, 2, 'q', r, "vc");
    say(f, "%s v[%u:%u], ", name, FIRST_V + f->to, FIRST_V + f->to + 1);
    say_mask(f, f->mask_to);
    for (unsigned n = 0; n < 3; n++) {
        say(f, ", ");
        say_source(f, n, n == 2 ? 'q' : 'u', false);
    }
}

static void apply_wide(Form *f, const State *before, State *after)
{
    const bool minus = f->meaning->more;
    uint64_t out = 0;
    for (unsigned lane = 0; lane < f->machine->lanes; lane++) {
        if (!(exec_lanes(f, before) & lane_bit(lane))) continue;
        const uint64_t a = source_bits(f, before, 0, 'u', lane) & 0xffffffff,
                       b = source_bits(f, before, 1, 'u', lane) & 0xffffffff,
                       c = source_bits(f, before, 2, 'q', lane);
        const uint64_t product =
            minus ? (uint64_t)((int64_t)(int32_t)(uint32_t)a * (int64_t)(int32_t)(uint32_t)b)
                  : a * b;
        const uint64_t made = product + c;
        after->v[lane][f->to] = (uint32_t)made;
        after->v[lane][f->to + 1] = (uint32_t)(made >> 32);
        if (made < c) out |= lane_bit(lane);
    }
    /* The carry of the signed product is not said plainly: CDNA's and RDNA's documents write "overflow". */
    set_mask(f, after, f->mask_to, out);
}

/* ---- steps of a quotient (ISA documents, V_DIV_SCALE_F32, V_DIV_FMAS_F32, V_DIV_FIXUP_F32) */

static int exponent(double a)
{
    return a == 0 ? 0 : fabs(a) < 0x1p-126 ? 0 : isfinite(a) ? ilogb(a) + 127 : 255;
}
static bool is_small(double a) { return a != 0 && fabs(a) < 0x1p-126; }

static double scaled(double x, double denominator, double numerator, bool is_numerator,
                     bool is_denominator, bool *flag)
{
    const double inverse = (double)(float)(1 / denominator),
                 quotient = (double)(float)(numerator / denominator);
    *flag = false;
    if (numerator == 0 || denominator == 0) return NAN;
    if (exponent(numerator) - exponent(denominator) >= 96) {
        *flag = true;
        return is_denominator ? ldexp(x, 64) : x;
    }
    if (is_small(denominator)) return ldexp(x, 64);
    if (is_small(inverse) && is_small(quotient)) {
        *flag = true;
        return is_denominator ? ldexp(x, 64) : x;
    }
    if (is_small(inverse)) return ldexp(x, -64);
    if (is_small(quotient)) {
        *flag = true;
        return is_numerator ? ldexp(x, 64) : x;
    }
    return exponent(numerator) <= 23 ? ldexp(x, 64) : x;
}

/* The first source is one of the others. */
static void make_scale(Form *f, const char *name, Random *r)
{
    f->to = (uint8_t)draw(r, VECTORS);
    f->mask_to = TO_VCC;
    for (unsigned n = 1; n < 3; n++) draw_source(f, n, 'f', r, "v");
    f->source[0] = f->source[1 + draw(r, 2)];
    say(f, "%s v%u, ", name, FIRST_V + f->to);
    say_mask(f, f->mask_to);
    for (unsigned n = 0; n < 3; n++) {
        say(f, ", ");
        say_source(f, n, 'f', false);
    }
}

static void apply_scale(Form *f, const State *before, State *after)
{
    const uint64_t exec = exec_lanes(f, before);
    uint64_t flags = 0;
    for (unsigned lane = 0; lane < f->machine->lanes; lane++) {
        uint32_t x[3];
        bool flag;
        for (unsigned n = 0; n < 3; n++) x[n] = (uint32_t)source_bits(f, before, n, 'f', lane);
        const double y = scaled(real_of(x[0]), real_of(x[1]), real_of(x[2]),
                                x[0] == x[2] && x[0] != x[1], x[0] == x[1], &flag);
        if (!(exec & lane_bit(lane))) continue;
        after->v[lane][f->to] = real_bits(y);
        if (flag) flags |= lane_bit(lane);
    }
    set_mask(f, after, f->mask_to, flags);
    f->kinds[f->to] = REAL;
}

static void make_steps(Form *f, const char *name, Random *r)
{
    f->to = (uint8_t)draw(r, VECTORS);
    say(f, "%s v%u", name, FIRST_V + f->to);
    for (unsigned n = 0; n < 3; n++) {
        draw_source(f, n, 'f', r, "v");
        f->source[n].neg = draw(r, 2);
        say(f, ", ");
        say_source(f, n, 'f', false);
    }
}

static void apply_fmas(Form *f, const State *before, State *after)
{
    const uint64_t vcc = mask_of(f, before, TO_VCC);
    for (unsigned lane = 0; lane < f->machine->lanes; lane++) {
        if (!(exec_lanes(f, before) & lane_bit(lane))) continue;
        double x[3];
        for (unsigned n = 0; n < 3; n++)
            x[n] = real_of((uint32_t)source_bits(f, before, n, 'f', lane));
        const double sum = (double)(float)sum_to_odd(x[0] * x[1], x[2]);
        after->v[lane][f->to] = real_bits(!(vcc & lane_bit(lane)) ? sum
                                          : exponent(x[2]) > 127  ? ldexp(sum, 64)
                                                                  : ldexp(sum, -64));
    }
    f->kinds[f->to] = REAL;
}

static double fixed(double quotient, double denominator, double numerator)
{
    const double sign = !signbit(denominator) == !signbit(numerator) ? 1 : -1;
    if (isnan(denominator)) return denominator;
    if (isnan(numerator)) return numerator;
    if ((numerator == 0 && denominator == 0) || (isinf(numerator) && isinf(denominator)))
        return NAN;
    if (denominator == 0 || isinf(numerator)) return sign * INFINITY;
    if (numerator == 0 || isinf(denominator)) return sign * 0.0;
    if (exponent(numerator) - exponent(denominator) < -150) return sign * 0.0;
    return copysign(quotient, sign);
}

static void apply_fixup(Form *f, const State *before, State *after)
{
    for (unsigned lane = 0; lane < f->machine->lanes; lane++) {
        if (!(exec_lanes(f, before) & lane_bit(lane))) continue;
        double x[3];
        for (unsigned n = 0; n < 3; n++)
            x[n] = real_of((uint32_t)source_bits(f, before, n, 'f', lane));
        after->v[lane][f->to] = real_bits(fixed(x[0], x[1], x[2]));
    }
    f->kinds[f->to] = REAL;
}

/* ---- the table */

// clang-format off
#define C(condition, n, ending, type)                                                                        \
    {"v_cmp_" condition "_" ending, "m" type type, NULL, make_compare, apply_compare, 2 * (n)},              \
    {"v_cmpx_" condition "_" ending, "m" type type, NULL, make_compare, apply_compare, 2 * (n) + 1},
#define BOTH(ending, type)                                                                                   \
    C("lt", LT, ending, type) C("eq", EQ, ending, type) C("le", LE, ending, type) C("gt", GT, ending, type) C("ge", GE, ending, type)
#define CR(ending, type)                                                                                     \
    BOTH(ending, type) C("lg", LG, ending, type) C("o", ORDERED, ending, type) C("u", UNORDERED, ending, type) C("nge", NGE, ending, type) \
    C("nlg", NLG, ending, type) C("ngt", NGT, ending, type) C("nle", NLE, ending, type) C("neq", NEQ, ending, type) C("nlt", NLT, ending, type)
#define CW(ending, type) BOTH(ending, type) C("ne", NE, ending, type)
static const Meaning rows[] = {
    CR("f32", "f") CR("f16", "h") CR("f64", "d") CW("i32", "i") CW("u32", "u") CW("i64", "l")
        CW("u64", "q") CW("u16", "w"){"v_cmp_class_f32", "mfu", NULL, make_compare, apply_class, 0},
    {"v_cmpx_class_f32", "mfu", NULL, make_compare, apply_class, 1},
    {"v_cndmask_b32", "u", NULL, make_choice, apply_choice, 0},
    {"v_cndmask_b16", "w", NULL, make_choice, apply_choice, 0},
    {"v_add_co_u32", "", NULL, make_carry, apply_carry, 0},
    {"v_addc_co_u32", "", NULL, make_carry, apply_carry, 1},
    {"v_sub_co_u32", "", NULL, make_carry, apply_carry, 2},
    {"v_subb_co_u32", "", NULL, make_carry, apply_carry, 3},
    {"v_subrev_co_u32", "", NULL, make_carry, apply_carry, 6},
    {"v_subbrev_co_u32", "", NULL, make_carry, apply_carry, 7},
    {"v_mad_u64_u32", "", NULL, make_wide, apply_wide, 0},
    {"v_mad_i64_i32", "", NULL, make_wide, apply_wide, 1},
    {"v_div_scale_f32", "", NULL, make_scale, apply_scale, 0},
    {"v_div_fmas_f32", "", NULL, make_steps, apply_fmas, 0},
    {"v_div_fixup_f32", "", NULL, make_steps, apply_fixup, 0},
    {NULL, NULL, NULL, NULL, NULL, 0}};
// clang-format on
const Meaning *meanings_of_masks(void) { return rows; }
