/* lanes.c - instructions that do the same in every lane: sources with their modifiers, the meaning, what becomes of the result. */
#include "instruction.h"

#include <math.h>

/* ---- the table */

#define BIT24  16777216u
#define TWO_PI 6.28318530717958647692
static double double_of(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
static uint64_t double_bits(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}
static double no_denormal(double a) { return fabs(a) < 0x1p-126 ? copysign(0.0, a) : a; }
/* Rounded after the product and after the sum, without denormals anywhere. */
static double in_two(double a, double b, double c)
{
    const double product = no_denormal((double)(float)(no_denormal(a) * no_denormal(b)));
    return no_denormal((double)(float)(product + no_denormal(c)));
}

#define T_u       uint32_t
#define T_w       uint32_t
#define T_i       int32_t
#define T_q       uint64_t
#define T_l       int64_t
#define T_f       double
#define T_h       double
#define T_d       double
#define FROM_u(x) (uint32_t)(x)
#define FROM_w(x) (uint32_t)((x)&0xffff)
#define FROM_i(x) (int32_t)(uint32_t)(x)
#define FROM_q(x) (x)
#define FROM_l(x) (int64_t)(x)
#define FROM_f(x) real_of((uint32_t)(x))
#define FROM_h(x) half_value((uint32_t)(x)&0xffff)
#define FROM_d(x) double_of(x)
#define TO_u(x)   (uint32_t)(x)
#define TO_w(x)   ((uint32_t)(x)&0xffff)
#define TO_i(x)   (uint32_t)(int32_t)(x)
#define TO_q(x)   (x)
#define TO_l(x)   (uint64_t)(x)
#define TO_f(x)   real_bits(x)
#define TO_h(x)   half_bits(x)
#define TO_d(x)   double_bits(x)
#define TO_P(x)   (x)
#define TO_B(x)   (x)
#define L1(name, D, A, r)                                                                          \
    static uint64_t mean_##name(uint64_t x, uint64_t y, uint64_t z)                                \
    {                                                                                              \
        const T_##A a = FROM_##A(x);                                                               \
        (void)y, (void)z;                                                                          \
        return TO_##D(r);                                                                          \
    }
#define L2(name, D, A, B, r)                                                                       \
    static uint64_t mean_##name(uint64_t x, uint64_t y, uint64_t z)                                \
    {                                                                                              \
        const T_##A a = FROM_##A(x);                                                               \
        const T_##B b = FROM_##B(y);                                                               \
        (void)z;                                                                                   \
        return TO_##D(r);                                                                          \
    }
#define L3(name, D, A, B, C, r)                                                                    \
    static uint64_t mean_##name(uint64_t x, uint64_t y, uint64_t z)                                \
    {                                                                                              \
        const T_##A a = FROM_##A(x);                                                               \
        const T_##B b = FROM_##B(y);                                                               \
        const T_##C c = FROM_##C(z);                                                               \
        return TO_##D(r);                                                                          \
    }
#define LE(name, D, A, r)                                                                          \
    static uint64_t mean_##name(uint64_t x, uint64_t y, uint64_t z)                                \
    {                                                                                              \
        const double a = no_denormal(real_of((uint32_t)x));                                        \
        (void)y, (void)z;                                                                          \
        return real_bits(no_denormal((double)(float)(r)));                                         \
    }
#define LS L1
#define LA L3
#define LK L3
#define LM L3
#include "lane_meanings.def"
#undef L1
#undef L2
#undef L3
#undef LE
#undef LS
#undef LA
#undef LK
#undef LM

#define ROW(name, types, letter) {#name, types, mean_##name, make_lanes, apply_lanes, letter},
#define L1(name, D, A, r)        ROW(name, #D #A, 0)
#define L2(name, D, A, B, r)     ROW(name, #D #A #B, 0)
#define L3(name, D, A, B, C, r)  ROW(name, #D #A #B #C, 0)
#define LE(name, D, A, r)        ROW(name, #D #A, 'E')
#define LS(name, D, A, r)        ROW(name, #D #A, 'S')
#define LA(name, D, A, B, C, r)  ROW(name, #D #A #B #C, 'A')
#define LK(name, D, A, B, C, r)  ROW(name, #D #A #B #C, 'K')
#define LM(name, D, A, B, C, r)  ROW(name, #D #A #B #C, 'M')
static const Meaning rows[] = {
#include "lane_meanings.def"
    {NULL, NULL, NULL, NULL, NULL, 0}};
const Meaning *meanings_of_lanes(void) { return rows; }

/* ---- sources */

bool is_real(char type) { return type == 'f' || type == 'h' || type == 'd'; }

uint64_t exec_lanes(const Form *f, const State *s)
{
    const uint64_t both = s->exec[0] | (uint64_t)s->exec[1] << 32;
    return f->machine->lanes == 64 ? both : (uint32_t)both;
}

uint64_t mask_of(const Form *f, const State *s, uint8_t place)
{
    const uint32_t *at = place == TO_VCC ? s->vcc : s->s + place;
    return f->machine->lanes == 64 ? at[0] | (uint64_t)at[1] << 32 : at[0];
}

void set_mask(const Form *f, State *s, uint8_t place, uint64_t bits)
{
    uint32_t *at = place == TO_VCC ? s->vcc : s->s + place;
    at[0] = (uint32_t)bits;
    if (f->machine->lanes == 64) at[1] = (uint32_t)(bits >> 32);
}

/* The lane of its 16, 8 or 4 that [lane] reads; -1: there is none. */
static int other_lane(const Form *f, int lane)
{
    const int row = lane / 16 * 16, at = lane % 16, by = f->dpp_argument[0];
    switch (f->dpp) {
    case 'q': return lane / 4 * 4 + f->dpp_argument[lane % 4];
    case 'l': return at + by < 16 ? lane + by : -1;
    case 'r': return at - by >= 0 ? lane - by : -1;
    case 'o': return row + (at + 16 - by) % 16;
    case 'm': return row + 15 - at;
    case 'h': return lane / 8 * 8 + 7 - lane % 8;
    case 's': return row + by;
    case 'x': return row + (at ^ by);
    case 'f': return lane >= 16 ? row - 1 : -1;
    case 'w': return lane >= 32 ? 31 : -1;
    default: return lane;
    }
}

static bool other_is_there(const Form *f, const State *s, int lane)
{
    const int other = other_lane(f, lane);
    return other >= 0 && (f->fetches || (exec_lanes(f, s) >> other & 1));
}

static bool lane_takes_part(const Form *f, const State *s, unsigned lane)
{
    if (!f->dpp) return true;
    return (f->rows >> lane / 16 & 1) && (f->banks >> lane / 4 % 4 & 1) &&
           (f->zeros || other_is_there(f, s, (int)lane));
}

static uint64_t signed_bits(const Source *from, uint64_t bits, unsigned width)
{
    const uint64_t top = 1ull << (width - 1);
    if (from->abs) bits &= ~top;
    return from->neg ? bits ^ top : bits;
}

uint64_t source_bits(const Form *f, const State *s, unsigned n, char type, unsigned lane)
{
    const Source *from = &f->source[n];
    const unsigned width = width_of(type);
    uint64_t bits = from->bits;
    int of = (int)lane;
    if (n == 0 && f->dpp) of = other_is_there(f, s, of) ? other_lane(f, of) : -1;
    const uint32_t *at = from->kind == 's' ? s->s + from->reg
                         : of < 0          ? NULL
                                           : s->v[of] + from->reg;
    if (from->kind != 'c' && !at) bits = 0;
    if (from->kind != 'c' && at) bits = width == 64 ? at[0] | (uint64_t)at[1] << 32 : at[0];
    if (from->select >= 5) bits = bits >> 16 * (from->select - 5) & 0xffff;
    if (from->select && from->select < 5) bits = bits >> 8 * (from->select - 1) & 0xff;
    if (from->high && from->kind != 'c') bits >>= 16;
    if (width == 16) bits &= 0xffff;
    return signed_bits(from, bits, width);
}

/* ---- results */

uint64_t limited(const Form *f, char type, uint64_t bits)
{
    if (!f->clamp || !is_real(type)) return bits;
    const double value = type == 'f'   ? real_of((uint32_t)bits)
                         : type == 'h' ? half_value((uint32_t)bits)
                                       : double_of(bits);
    const double cut = value > 1 ? 1 : value > 0 ? value : 0; /* NaN is 0: DX10_CLAMP */
    return type == 'f' ? real_bits(cut) : type == 'h' ? half_bits(cut) : double_bits(cut);
}

/* CDNA: most instructions of 16 bits make the upper half 0; GFX9's own, of three sources, keep it. RDNA keeps it. */
static uint32_t with_half(const Form *f, uint32_t old, uint32_t half)
{
    if (f->high) return old % 65536 + (half << 16);
    const bool zero = f->machine->generation == GFX9 && strcmp(f->meaning->name, "v_fma_f16") != 0;
    return zero ? half : old / 65536 * 65536 + half;
}

static uint32_t with_part(const Form *f, uint32_t old, uint32_t value)
{
    const unsigned at = f->select < 5 ? 8u * (f->select - 1u) : 16u * (f->select - 5u);
    const uint32_t part = (f->select < 5 ? 0xffu : 0xffffu) << at;
    return (f->preserve ? old & ~part : 0) | (value << at & part);
}

static void put_lane(const Form *f, uint32_t *to, char type, uint64_t bits)
{
    if (f->sdwa && f->select)
        *to = with_part(f, *to, (uint32_t)bits);
    else if (width_of(type) == 16)
        *to = with_half(f, *to, (uint32_t)bits);
    else
        *to = (uint32_t)bits;
    if (width_of(type) == 64) to[1] = (uint32_t)(bits >> 32);
}

static Kind kind_of(const Form *f, char type)
{
    if (f->meaning->more == 'E') return NEAR;
    if (f->meaning->more == 'S') return SINE;
    if (f->sdwa && f->select) return type == 'h' ? HALVES : BITS;
    switch (type) {
    case 'f': return REAL;
    case 'd': return REAL64;
    case 'h':
    case 'P': return HALVES;
    case 'B': return BRAINS;
    default: return BITS;
    }
}

void apply_lanes(Form *f, const State *before, State *after)
{
    const char *types = f->meaning->types;
    for (unsigned lane = 0; lane < f->machine->lanes; lane++) {
        uint64_t x[3] = {0, 0, 0};
        for (unsigned n = 0; types[n + 1]; n++)
            x[n] = source_bits(f, before, n, types[n + 1], lane);
        if (f->meaning->more == 'A')
            x[2] = before->v[lane][f->to] |
                   (width_of(types[3]) == 64 ? (uint64_t)before->v[lane][f->to + 1] << 32 : 0);
        if (f->meaning->more == 'S' && !(fabs(real_of((uint32_t)x[0])) <= 256))
            f->unsaid[f->to] |= 1ull << lane;
        if (!(exec_lanes(f, before) >> lane & 1) || !lane_takes_part(f, before, lane)) continue;
        put_lane(f, &after->v[lane][f->to], types[0],
                 limited(f, types[0], f->meaning->lane(x[0], x[1], x[2])));
    }
    f->kinds[f->to] = (uint8_t)kind_of(f, types[0]);
}
