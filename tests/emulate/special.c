/* special.c - vector instructions with masks as sources or results, of two halves, between lanes. */
#include "inside.h"

#include <math.h>

/* ---- comparisons: the mask has 0 where EXEC has */

static void put_mask(Wave *w, const Inst *in, uint64_t bits, uint64_t undef, bool to_exec)
{
    static const Operand vcc = {.kind = O_SCALAR, .reg = S_VCC, .regs = 2};
    static const Operand exec = {.kind = O_SCALAR, .reg = S_EXEC, .regs = 2};
    const bool has_result = in->count == 3 && in->o[0].kind != O_OFF;
    bits &= exec_of(w);
    undef &= exec_of(w);
    if (has_result || !to_exec) mask_put(w, has_result ? &in->o[0] : &vcc, bits, undef);
    if (to_exec) mask_put(w, &exec, bits, undef);
}

// clang-format off
#define CMP(name, type, T, M, holds)                                                               \
    static void name(Wave *w, const Inst *in)                                                      \
    {                                                                                              \
        const unsigned first = in->count == 3;                                                     \
        Vec x, y;                                                                                  \
        uint64_t bits = 0;                                                                         \
        vector_get(w, in, first, type, &x);                                                        \
        vector_get(w, in, first + 1, type, &y);                                                    \
        for (int n = 0; n < LANES; n++) {                                                          \
            const T a = x.M[n], b = y.M[n];                                                        \
            bits |= (uint64_t)(holds) << n;                                                        \
        }                                                                                          \
        put_mask(w, in, bits, x.undef | y.undef, in->op->more);                                    \
    }
#define NAN_OF(a, b) (isnan(a) || isnan(b))
#define REAL(ROW, ending, type, T, M)                                                              \
    ROW(lt, ending, type, T, M, a < b)                                                             \
    ROW(eq, ending, type, T, M, a == b)                                                            \
    ROW(le, ending, type, T, M, a <= b) ROW(gt, ending, type, T, M, a > b)                         \
        ROW(lg, ending, type, T, M, a<b || a> b) ROW(ge, ending, type, T, M, a >= b)               \
            ROW(o, ending, type, T, M, !NAN_OF(a, b)) ROW(u, ending, type, T, M, NAN_OF(a, b))     \
                ROW(nge, ending, type, T, M, !(a >= b))                                            \
                    ROW(nlg, ending, type, T, M, !(a < b || a > b))                                \
                        ROW(ngt, ending, type, T, M, !(a > b))                                     \
                            ROW(nle, ending, type, T, M, !(a <= b))                                \
                                ROW(neq, ending, type, T, M, !(a == b))                            \
                                    ROW(nlt, ending, type, T, M, !(a < b))
#define WHOLE(ROW, ending, type, T, M)                                                             \
    ROW(lt, ending, type, T, M, a < b)                                                             \
    ROW(eq, ending, type, T, M, a == b)                                                            \
    ROW(le, ending, type, T, M, a <= b) ROW(gt, ending, type, T, M, a > b)                         \
        ROW(ne, ending, type, T, M, a != b) ROW(ge, ending, type, T, M, a >= b)
#define ALL(ROW)                                                                                   \
    REAL(ROW, f32, 'f', float, f)                                                                  \
    REAL(ROW, f16, 'h', float, f)                                                                  \
    REAL(ROW, f64, 'd', double, d) WHOLE(ROW, i32, 'i', int32_t, i)                                \
        WHOLE(ROW, u32, 'u', uint32_t, u) WHOLE(ROW, i64, 'l', int64_t, l)                         \
            WHOLE(ROW, u64, 'q', uint64_t, q) WHOLE(ROW, u16, 'w', uint32_t, u)
#define DEFINE(condition, ending, type, T, M, holds)                                               \
    CMP(cmp_##condition##_##ending, type, T, M, holds)
// clang-format on
ALL(DEFINE)

static void run_class(Wave *w, const Inst *in)
{
    const unsigned first = in->count == 3;
    Vec x, y;
    uint64_t bits = 0;
    vector_get(w, in, first, 'f', &x);
    vector_get(w, in, first + 1, 'u', &y);
    for (int n = 0; n < LANES; n++) {
        const float a = x.f[n];
        const bool minus = signbit(a);
        unsigned is;
        switch (fpclassify(a)) {
        case FP_NAN: is = x.u[n] & 0x400000 ? 2 : 1; break;
        case FP_INFINITE: is = minus ? 4 : 512; break;
        case FP_NORMAL: is = minus ? 8 : 256; break;
        case FP_SUBNORMAL: is = minus ? 16 : 128; break;
        default: is = minus ? 32 : 64;
        }
        bits |= (uint64_t)((y.u[n] & is) != 0) << n;
    }
    put_mask(w, in, bits, x.undef | y.undef, in->op->more);
}

/* ---- masks as sources */

static const Operand vcc_operand = {.kind = O_SCALAR, .reg = S_VCC, .regs = 2};

static void run_cndmask(Wave *w, const Inst *in)
{
    const char type = (char)in->op->more;
    Vec a, b;
    uint64_t undef;
    const uint64_t mask = mask_get(w, in->count > 3 ? &in->o[3] : &vcc_operand, &undef);
    vector_get(w, in, 1, type, &a);
    vector_get(w, in, 2, type, &b);
    for (int n = 0; n < LANES; n++)
        if (mask >> n & 1) a.u[n] = b.u[n];
    a.undef = (a.undef & ~mask) | (b.undef & mask) | undef;
    for (int half = 0; half < 2; half++)
        a.half[half] = (a.half[half] & ~mask) | (b.half[half] & mask) | undef;
    vector_put(w, in, 0, type, &a, exec_of(w));
    if (type == 'u' && !in->m.dpp && !w->e->failed) vector_halves(w, &in->o[0], &a, exec_of(w));
}

/* Sums with a carry; [more]: bit 0 a carry comes in, bit 1 a difference, bit 2 the other way round. */
static void run_carry(Wave *w, const Inst *in)
{
    Vec a, b;
    uint64_t carries = 0, out = 0, undef = 0;
    const int more = in->op->more;
    if (more & 1) carries = mask_get(w, &in->o[4], &undef);
    vector_get(w, in, 2, 'u', &a);
    vector_get(w, in, 3, 'u', &b);
    for (int n = 0; n < LANES; n++) {
        const uint64_t x = more & 4 ? b.u[n] : a.u[n], y = more & 4 ? a.u[n] : b.u[n],
                       c = carries >> n & 1;
        const uint64_t r = more & 2 ? x - y - c : x + y + c;
        a.u[n] = (uint32_t)r;
        out |= (r >> 32 & 1) << n;
    }
    a.undef |= b.undef | undef;
    mask_put(w, &in->o[1], out & exec_of(w), a.undef & exec_of(w));
    vector_put(w, in, 0, 'u', &a, exec_of(w));
}

static void run_mad_wide(Wave *w, const Inst *in)
{
    Vec a, b, c;
    uint64_t out = 0;
    vector_get(w, in, 2, 'u', &a);
    vector_get(w, in, 3, 'u', &b);
    vector_get(w, in, 4, 'q', &c);
    for (int n = 0; n < LANES; n++) {
        const uint64_t product =
            in->op->more ? (uint64_t)((int64_t)a.i[n] * b.i[n]) : (uint64_t)a.u[n] * b.u[n];
        c.q[n] += product;
        out |= (uint64_t)(c.q[n] < product) << n;
    }
    c.undef |= a.undef | b.undef;
    c.low |= a.undef | b.undef;
    mask_put(w, &in->o[1], out & exec_of(w), c.undef & exec_of(w));
    vector_put(w, in, 0, 'q', &c, exec_of(w));
}

/* Bit by bit, of a table of eight results: "src0 0xf0, src1 0xcc, src2 0xaa". */
static void run_bitop3(Wave *w, const Inst *in)
{
    Vec s[3], r;
    for (unsigned n = 0; n < 3; n++) vector_get(w, in, n + 1, 'u', &s[n]);
    r.undef = s[0].undef | s[1].undef | s[2].undef;
    for (int lane = 0; lane < LANES; lane++) {
        r.u[lane] = 0;
        for (unsigned at = 0; at < 8; at++) {
            uint32_t holds = in->m.swizzle >> at & 1 ? ~0u : 0;
            for (unsigned n = 0; n < 3; n++)
                holds &= at >> (2 - n) & 1 ? s[n].u[lane] : ~s[n].u[lane];
            r.u[lane] |= holds;
        }
    }
    vector_put(w, in, 0, 'u', &r, exec_of(w));
}

static void run_mbcnt(Wave *w, const Inst *in)
{
    Vec a, b;
    vector_get(w, in, 1, 'u', &a);
    vector_get(w, in, 2, 'u', &b);
    for (int n = 0; n < LANES; n++) {
        const int own = n - 32 * in->op->more; /* bits below this lane */
        const uint32_t below = own <= 0 ? 0 : own >= 32 ? ~0u : (1u << own) - 1;
        b.u[n] += (uint32_t)__builtin_popcount(a.u[n] & below);
    }
    b.undef |= a.undef;
    vector_put(w, in, 0, 'u', &b, exec_of(w));
}

/* ---- quotients: scales by 2^64 where an operand is very large or small, so that the steps of Newton's stay in range */

static bool is_denormal(float a) { return a != 0 && fabsf(a) < 0x1p-126f; }
static int exponent_of(float a) { return (int)(bits_of(a) >> 23 & 0xff); }

static void run_div_scale(Wave *w, const Inst *in)
{
    Vec a, b, c, r;
    uint64_t flags = 0;
    vector_get(w, in, 2, 'f', &a);
    vector_get(w, in, 3, 'f', &b);
    vector_get(w, in, 4, 'f', &c);
    for (int n = 0; n < LANES; n++) {
        const float x = a.f[n], below = b.f[n], above = c.f[n];
        const bool numerator = a.u[n] == c.u[n] && a.u[n] != b.u[n];
        bool flag = false;
        float y = x;
        if (above == 0 || below == 0) {
            y = NAN;
        } else if (exponent_of(above) - exponent_of(below) >= 96) {
            flag = true;
            if (!numerator) y = x * 0x1p64f;
        } else if (is_denormal(below)) {
            y = x * 0x1p64f;
        } else if (is_denormal(1.0f / below) && is_denormal(above / below)) {
            flag = true;
            if (!numerator) y = x * 0x1p64f;
        } else if (is_denormal(1.0f / below)) {
            y = x * 0x1p-64f;
        } else if (is_denormal(above / below)) {
            flag = true;
            if (numerator) y = x * 0x1p64f;
        } else if (exponent_of(above) <= 23) {
            y = x * 0x1p64f;
        }
        r.f[n] = y;
        flags |= (uint64_t)flag << n;
    }
    r.undef = a.undef | b.undef | c.undef;
    mask_put(w, &in->o[1], flags & exec_of(w), r.undef & exec_of(w));
    vector_put(w, in, 0, 'f', &r, exec_of(w));
}

static void run_div_fmas(Wave *w, const Inst *in)
{
    Vec a, b, c;
    uint64_t undef;
    const uint64_t flags = mask_get(w, &vcc_operand, &undef);
    vector_get(w, in, 1, 'f', &a);
    vector_get(w, in, 2, 'f', &b);
    vector_get(w, in, 3, 'f', &c);
    for (int n = 0; n < LANES; n++) {
        const float r = fmaf(a.f[n], b.f[n], c.f[n]);
        c.f[n] = !(flags >> n & 1) ? r : exponent_of(c.f[n]) > 127 ? r * 0x1p64f : r * 0x1p-64f;
    }
    c.undef |= a.undef | b.undef | undef;
    vector_put(w, in, 0, 'f', &c, exec_of(w));
}

static void run_div_fixup(Wave *w, const Inst *in)
{
    Vec a, b, c;
    vector_get(w, in, 1, 'f', &a);
    vector_get(w, in, 2, 'f', &b);
    vector_get(w, in, 3, 'f', &c);
    for (int n = 0; n < LANES; n++) {
        const float below = b.f[n], above = c.f[n],
                    sign = signbit(below) != signbit(above) ? -1.0f : 1.0f;
        float r = copysignf(a.f[n], sign);
        if (isnan(below) || isnan(above) || (below == 0 && above == 0) ||
            (isinf(below) && isinf(above)))
            r = NAN;
        else if (below == 0 || isinf(above))
            r = sign * INFINITY;
        else if (isinf(below) || above == 0)
            r = sign * 0.0f;
        else if (exponent_of(above) - exponent_of(below) < -150)
            r = sign * 0.0f;
        else if (exponent_of(below) == 255)
            r = sign * INFINITY;
        a.f[n] = r;
    }
    a.undef |= b.undef | c.undef;
    vector_put(w, in, 0, 'f', &a, exec_of(w));
}

/* ---- halves and floats mixed, and pairs */

static void get_mixed(Wave *w, const Inst *in, unsigned n, Vec *v)
{
    Inst plain = *in;
    memset(plain.m.op_sel, 0, sizeof plain.m.op_sel);
    plain.m.op_sel[n - 1] = in->m.op_sel[n - 1];
    vector_get(w, &plain, n, in->m.op_sel_hi[n - 1] ? 'h' : 'f', v);
}

/* [more]: 0 the result is f32, 1 the low half, 2 the high one. */
static void run_mix(Wave *w, const Inst *in)
{
    Vec a, b, c;
    get_mixed(w, in, 1, &a);
    get_mixed(w, in, 2, &b);
    get_mixed(w, in, 3, &c);
    for (int n = 0; n < LANES; n++) a.f[n] = fmaf(a.f[n], b.f[n], c.f[n]);
    a.undef |= b.undef | c.undef;
    Inst to = *in;
    memset(to.m.op_sel, 0, sizeof to.m.op_sel);
    to.o[0].half = (uint8_t)in->op->more;
    to.m.preserve = true;
    vector_put(w, &to, 0, in->op->more ? 'h' : 'f', &a, exec_of(w));
}

/* Operations on two f32 (registers) or two halves; [more]: an operation. */
enum { PK_ADD, PK_MUL, PK_FMA, PK_MOV, PK_MAX, PK_MIN };

static float pair_value(int operation, float a, float b, float c, bool half)
{
    switch (operation) {
    case PK_ADD: return a + b;
    case PK_MUL: return a * b;
    case PK_FMA: return half ? fused_halves(a, b, c) : fmaf(a, b, c);
    case PK_MAX: return largest(a, b);
    default: return smallest(a, b);
    }
}

static void get_pair(Wave *w, const Inst *in, unsigned n, bool half, bool high, Vec *v)
{
    Inst one = *in;
    Operand *o = &one.o[n];
    memset(one.m.op_sel, 0, sizeof one.m.op_sel);
    one.m.dpp = DPP_NONE;
    const bool second =
        high ? (!in->m.has_op_sel_hi || in->m.op_sel_hi[n - 1]) : in->m.op_sel[n - 1];
    const bool number = o->kind == O_NUMBER || o->kind == O_REAL;
    if (second && half && number) fail(w, "the upper half of a constant");
    if (second && half)
        one.m.op_sel[n - 1] = 1;
    else if (second && !number)
        o->reg++;
    if ((high ? in->m.neg_hi : in->m.neg_lo)[n - 1]) o->neg = !o->neg;
    vector_get(w, &one, n, half ? 'h' : 'f', v);
}

static void run_pair(Wave *w, const Inst *in)
{
    const bool half = in->op->signature[0] == 'h';
    const int operation = in->op->more;
    const unsigned sources = operation == PK_FMA ? 3 : 2;
    Vec r[2], s[3];
    for (int high = 0; high < 2; high++) {
        r[high].undef = 0;
        for (unsigned n = 0; n < sources; n++) get_pair(w, in, n + 1, half, high, &s[n]);
        if (operation ==
            PK_MOV) { /* the low result is of the first source, the high one of the second */
            Inst one = *in;
            const Operand *o = &in->o[1 + high];
            if (in->m.op_sel[high] && o->kind != O_NUMBER && o->kind != O_REAL)
                one.o[1 + high].reg++;
            vector_get(w, &one, (unsigned)(1 + high), 'u', &r[high]);
            continue;
        }
        for (unsigned n = 0; n < sources; n++) r[high].undef |= s[n].undef;
        for (int n = 0; n < LANES; n++)
            r[high].f[n] =
                pair_value(operation, s[0].f[n], s[1].f[n], sources == 3 ? s[2].f[n] : 0, half);
    }
    for (int high = 0; high < 2; high++) {
        Inst to = *in;
        memset(to.m.op_sel, 0, sizeof to.m.op_sel);
        if (half) {
            to.o[0].half = (uint8_t)(1 + high);
            to.m.preserve = true;
        } else {
            to.o[0].reg = (uint16_t)(to.o[0].reg + high);
        }
        vector_put(w, &to, 0, half ? 'h' : operation == PK_MOV ? 'u' : 'f', &r[high], exec_of(w));
    }
}

/* A sum whose last bit says whether it is exact: it may be rounded once more. */
static double sum_to_odd(double a, double b)
{
    const double sum = a + b, part = sum - a, rest = (a - (sum - part)) + (b - part);
    uint64_t bits;
    memcpy(&bits, &sum, sizeof bits);
    const bool exact = !isfinite(sum) || rest == 0 || bits & 1;
    return exact ? sum : nextafter(sum, rest > 0 ? (double)INFINITY : (double)-INFINITY);
}

static float without_denormal(float a) { return fabsf(a) < 0x1p-126f ? copysignf(0, a) : a; }

/* Two products of halves and an f32, rounded once; f32 without denormals, halves with them but on CDNA 2 (docs/dev/hip.md, 3). [more]: the
 * result is the third source. */
static void run_dot2(Wave *w, const Inst *in)
{
    const bool flushes = strcmp(w->e->machine, "gfx90a") == 0;
    Vec of[2][2], c;
    if (in->m.dpp) fail(w, "pairs of another lane");
    vector_get(w, in, in->op->more ? 0 : 3, 'f', &c);
    for (unsigned n = 0; n < 2; n++)
        for (int high = 0; high < 2; high++) {
            Vec *v = &of[n][high];
            get_pair(w, in, n + 1, true, high, v);
            c.undef |= v->undef;
            for (int lane = 0; lane < LANES && flushes; lane++)
                if (fabsf(v->f[lane]) < 0x1p-14f) v->f[lane] = copysignf(0, v->f[lane]);
        }
    for (int n = 0; n < LANES; n++) {
        const double low = (double)of[0][0].f[n] * (double)of[1][0].f[n],
                     high = (double)of[0][1].f[n] * (double)of[1][1].f[n],
                     former = (double)without_denormal(c.f[n]);
        c.f[n] = without_denormal((float)sum_to_odd(sum_to_odd(low, high), former));
    }
    vector_put(w, in, 0, 'f', &c, exec_of(w));
}

/* ---- between lanes */

static void run_readlane(Wave *w, const Inst *in)
{
    Vec a;
    uint64_t undef = 0, lane = 0;
    const uint64_t exec = exec_of(w);
    vector_get(w, in, 1, 'u', &a);
    if (in->op->more)
        lane = scalar_get(w, &in->o[2], 32, &undef) & (w->wide ? 63 : 31);
    else
        lane = exec ? (uint64_t)__builtin_ctzll(exec) : 0;
    scalar_put(w, &in->o[0], 32, a.u[lane], undef || (a.undef >> lane & 1) ? 0xffffffff : 0);
}

static void run_writelane(Wave *w, const Inst *in)
{
    uint64_t undef, lane_undef;
    const uint32_t value = (uint32_t)scalar_get(w, &in->o[1], 32, &undef);
    const uint64_t lane = scalar_get(w, &in->o[2], 32, &lane_undef) & (w->wide ? 63 : 31);
    Vec v = {.undef = undef ? ~0ull : 0};
    for (int n = 0; n < LANES; n++) v.u[n] = value;
    vector_put(w, in, 0, 'u', &v, 1ull << lane);
}

/* Rows of 16 lanes, their own or (x) their neighbour's, by two scalars of places; a lane that is off gives 0 or what was there. */
static void run_permlane16(Wave *w, const Inst *in)
{
    Vec v, r;
    uint64_t undef_low, undef_high;
    const uint64_t low = scalar_get(w, &in->o[2], 32, &undef_low),
                   high = scalar_get(w, &in->o[3], 32, &undef_high);
    const uint64_t places = (low & 0xffffffff) | high << 32, exec = exec_of(w);
    uint64_t lanes = exec;
    vector_get(w, in, 1, 'u', &v);
    r.undef = undef_low || undef_high ? ~0ull : 0;
    for (int n = 0; n < LANES; n++) {
        const int row = (n & ~15) ^ (in->op->more ? 16 : 0),
                  from = row | (int)(places >> 4 * (n & 15) & 15);
        const bool fetches = strstr(in->text, "op_sel:[1") != NULL; /* "fetch inactive" */
        const bool on = fetches || (exec >> from & 1);
        r.u[n] = on ? v.u[from] : 0;
        if (on && v.undef >> from & 1) r.undef |= 1ull << n;
        if (!on && !strstr(in->text, "op_sel:[0,1") && !strstr(in->text, "op_sel:[1,1"))
            lanes &= ~(1ull << n);
    }
    Inst to = *in;
    memset(to.m.op_sel, 0, sizeof to.m.op_sel);
    vector_put(w, &to, 0, 'u', &r, lanes);
}

/* The upper half of the first register changes places with the lower half of the second; [more]: 16 or 32 lanes. */
static void run_permlane_swap(Wave *w, const Inst *in)
{
    Vec a, b;
    const int far = in->op->more;
    vector_get(w, in, 0, 'u', &a);
    vector_get(w, in, 1, 'u', &b);
    Vec x = a, y = b;
    for (int n = 0; n < LANES; n++) {
        const int to = n & far ? n - far : n + far;
        Vec *lane = n & far ? &x : &y;
        const Vec *from = n & far ? &b : &a;
        lane->u[n] = from->u[to];
        lane->undef = (lane->undef & ~(1ull << n)) | (from->undef >> to & 1) << n;
    }
    vector_put(w, in, 0, 'u', &x, exec_of(w));
    vector_put(w, in, 1, 'u', &y, exec_of(w));
}

static void run_swap(Wave *w, const Inst *in)
{
    Vec a, b;
    vector_get(w, in, 0, 'u', &a);
    vector_get(w, in, 1, 'u', &b);
    vector_put(w, in, 0, 'u', &b, exec_of(w));
    vector_put(w, in, 1, 'u', &a, exec_of(w));
}

/* [more]: 1 the source's, 2 the result's number has M0 added. */
static void run_movrel(Wave *w, const Inst *in)
{
    static const Operand m0 = {.kind = O_SCALAR, .reg = S_M0, .regs = 1};
    Inst to = *in;
    Vec v;
    uint64_t undef;
    const uint64_t by = scalar_get(w, &m0, 32, &undef);
    if (undef || by > 255) {
        fail(w, "M0 is no number of a register");
        return;
    }
    to.o[in->op->more == 1].reg += (uint16_t)by;
    vector_get(w, &to, 1, 'u', &v);
    vector_put(w, &to, 0, 'u', &v, exec_of(w));
}

#define ROW_OF(condition, ending, ...)                                                             \
    {"v_cmp_" #condition "_" #ending, "", cmp_##condition##_##ending, NULL, 0, EMU_VECTOR},        \
        {"v_cmpx_" #condition "_" #ending, "", cmp_##condition##_##ending, NULL, 1, EMU_VECTOR},
#define SAY(name, function, more)                                                                  \
    {                                                                                              \
        name, "", function, NULL, more, EMU_VECTOR                                                 \
    }
const Op special_ops[] = {
    ALL(ROW_OF) SAY("v_cmp_class_f32", run_class, 0),
    SAY("v_cmpx_class_f32", run_class, 1),
    SAY("v_cndmask_b32", run_cndmask, 'u'),
    SAY("v_cndmask_b16", run_cndmask, 'w'),
    SAY("v_add_co_u32", run_carry, 0),
    SAY("v_addc_co_u32", run_carry, 1),
    SAY("v_sub_co_u32", run_carry, 2),
    SAY("v_subb_co_u32", run_carry, 3),
    SAY("v_subrev_co_u32", run_carry, 6),
    SAY("v_subbrev_co_u32", run_carry, 7),
    SAY("v_mad_u64_u32", run_mad_wide, 0),
    SAY("v_mad_i64_i32", run_mad_wide, 1),
    SAY("v_bitop3_b32", run_bitop3, 0),
    SAY("v_mbcnt_lo_u32_b32", run_mbcnt, 0),
    SAY("v_mbcnt_hi_u32_b32", run_mbcnt, 1),
    SAY("v_div_scale_f32", run_div_scale, 0),
    SAY("v_div_fmas_f32", run_div_fmas, 0),
    SAY("v_div_fixup_f32", run_div_fixup, 0),
    SAY("v_fma_mix_f32", run_mix, 0),
    SAY("v_fma_mixlo_f16", run_mix, 1),
    SAY("v_fma_mixhi_f16", run_mix, 2),
    {"v_pk_add_f32", "f", run_pair, NULL, PK_ADD, EMU_VECTOR},
    {"v_pk_mul_f32", "f", run_pair, NULL, PK_MUL, EMU_VECTOR},
    {"v_pk_fma_f32", "f", run_pair, NULL, PK_FMA, EMU_VECTOR},
    {"v_pk_mov_b32", "f", run_pair, NULL, PK_MOV, EMU_VECTOR},
    {"v_pk_add_f16", "h", run_pair, NULL, PK_ADD, EMU_VECTOR},
    {"v_pk_mul_f16", "h", run_pair, NULL, PK_MUL, EMU_VECTOR},
    {"v_pk_fma_f16", "h", run_pair, NULL, PK_FMA, EMU_VECTOR},
    {"v_pk_max_f16", "h", run_pair, NULL, PK_MAX, EMU_VECTOR},
    {"v_pk_min_f16", "h", run_pair, NULL, PK_MIN, EMU_VECTOR},
    SAY("v_dot2_f32_f16", run_dot2, 0),
    SAY("v_dot2c_f32_f16", run_dot2, 1),
    SAY("v_dot2acc_f32_f16", run_dot2, 1), /* gfx11's name */
    SAY("v_readfirstlane_b32", run_readlane, 0),
    SAY("v_readlane_b32", run_readlane, 1),
    SAY("v_writelane_b32", run_writelane, 0),
    SAY("v_permlane16_b32", run_permlane16, 0),
    SAY("v_permlanex16_b32", run_permlane16, 1),
    SAY("v_permlane16_swap_b32", run_permlane_swap, 16),
    SAY("v_permlane32_swap_b32", run_permlane_swap, 32),
    SAY("v_swap_b32", run_swap, 0),
    SAY("v_movrels_b32", run_movrel, 1),
    SAY("v_movreld_b32", run_movrel, 2),
    {NULL, NULL, NULL, NULL, 0, 0},
};
