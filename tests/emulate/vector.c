/* vector.c - vector instructions that do the same in every lane: a row of vector.def each. Results of transcendental functions are those of
 * the host's f32 functions, within the documents' 1 ulp; they take and give no denormals, as the documents say. */
#include "inside.h"

#include <math.h>

static float flushed(float a) { return fabsf(a) < 0x1p-126f ? copysignf(0.0f, a) : a; }
/* v_mad_: without denormals, whatever the modes say. */
static float product_and_sum(float a, float b, float c)
{
    return flushed(flushed(flushed(a) * flushed(b)) + flushed(c));
}
static uint32_t to_u32(double a) { return a > 0 ? a < 4294967295.0 ? (uint32_t)a : 0xffffffff : 0; }
static int32_t to_i32(double a)
{
    return isnan(a) ? 0 : a > -2147483648.0 ? a < 2147483647.0 ? (int32_t)a : INT32_MAX : INT32_MIN;
}
static float middle(float a, float b, float c)
{
    if (isnan(a) || isnan(b) || isnan(c)) return smallest(smallest(a, b), c);
    const float most = largest(largest(a, b), c);
    return most == a ? largest(b, c) : most == b ? largest(a, c) : largest(a, b);
}
/* Of a fraction of a turn, sources up to 256 in size. */
static float wave_of(float a, double (*of)(double))
{
    return (float)of(((double)a - nearbyint((double)a)) * 6.28318530717958647692);
}
static uint32_t low_bits(uint32_t count) { return (1u << (count & 31)) - 1; }
static int32_t field(uint32_t a, uint32_t from, uint32_t count)
{
    count &= 31;
    if (!count) return 0;
    /* an arithmetic shift: what lies above the register is its sign */
    const uint32_t top = 1u << (count - 1), shifted = (uint32_t)((int32_t)a >> (from & 31));
    return (int32_t)(((shifted & low_bits(count)) ^ top) - top);
}
static uint32_t reversed(uint32_t a)
{
    uint32_t r = 0;
    for (int n = 0; n < 32; n++) r |= (a >> n & 1) << (31 - n);
    return r;
}
static int64_t i24(uint32_t a) { return (int32_t)(a << 8) >> 8; }
static uint32_t u24(uint32_t a) { return a & 0xffffff; }
static uint32_t byte_of(uint64_t both, uint32_t select)
{
    select &= 0xff;
    if (select < 8) return (uint32_t)(both >> 8 * select) & 0xff;
    if (select < 12) return (both >> (16 * (select - 8) + 15) & 1) ? 0xff : 0;
    return select == 12 ? 0 : 0xff;
}
static uint32_t permute(uint32_t a, uint32_t b, uint32_t select)
{
    const uint64_t both = (uint64_t)a << 32 | b;
    uint32_t r = 0;
    for (int n = 0; n < 4; n++) r |= byte_of(both, select >> 8 * n) << 8 * n;
    return r;
}
static uint32_t packed_halves(float a, float b)
{
    return half_of_float(a) | half_of_float(b) << 16;
}
#define LOOP(D, R, ...)                                                                            \
    for (int n = 0; n < LANES; n++) {                                                              \
        __VA_ARGS__                                                                                \
        d->D[n] = R;                                                                               \
    }
#define V1(name, D, A, R)                                                                          \
    static void lanes_##name(Vec *d, const Vec *va, const Vec *vb, const Vec *vc)                  \
    {                                                                                              \
        (void)vb, (void)vc;                                                                        \
        LOOP(m_##D, R, const t_##A a = va->m_##A[n];)                                              \
    }
#define V2(name, D, A, B, R)                                                                       \
    static void lanes_##name(Vec *d, const Vec *va, const Vec *vb, const Vec *vc)                  \
    {                                                                                              \
        (void)vc;                                                                                  \
        LOOP(m_##D, R, const t_##A a = va->m_##A[n]; const t_##B b = vb->m_##B[n];)                \
    }
#define V3(name, D, A, B, C, R)                                                                    \
    static void lanes_##name(Vec *d, const Vec *va, const Vec *vb, const Vec *vc)                  \
    {                                                                                              \
        LOOP(m_##D, R, const t_##A a = va->m_##A[n]; const t_##B b = vb->m_##B[n];                 \
             const t_##C c = vc->m_##C[n];)                                                        \
    }
#define VA V3
#define A1 V1
/* Members and types of the letters. */
#define m_u u
#define m_w u
#define m_p u
#define m_i i
#define m_f f
#define m_h f
#define m_q q
#define m_l l
#define m_d d
typedef uint32_t t_u, t_w, t_p;
typedef int32_t t_i;
typedef float t_f, t_h;
typedef uint64_t t_q;
typedef int64_t t_l;
typedef double t_d;
#include "vector.def"
#undef V1
#undef V2
#undef V3
#undef VA
#undef A1

/* Operations that move bits: of these sources (a bit each), as the others say. What nobody wrote moves with them, so they are done on masks. */
static const struct {
    Lanes *lanes;
    unsigned moved;
} movers[] = {{lanes_v_perm_b32, 3},     {lanes_v_alignbit_b32, 3}, {lanes_v_lshrrev_b32, 2},
              {lanes_v_lshlrev_b32, 2},  {lanes_v_lshl_or_b32, 5},  {lanes_v_and_or_b32, 5},
              {lanes_v_pack_b32_f16, 3}, {lanes_v_bfi_b32, 6},      {lanes_v_or_b32, 3},
              {lanes_v_bfe_u32, 1}};

static unsigned moved_by(const Inst *in, const Vec *s)
{
    if (in->op->lanes == lanes_v_and_b32) return !s[1].undef ? 1 : !s[0].undef ? 2 : 0;
    for (size_t n = 0; n < sizeof movers / sizeof *movers; n++)
        if (in->op->lanes == movers[n].lanes) return movers[n].moved;
    return 0;
}

/* Which halves of the result are not known. False: it is no such operation. */
static bool move_unknown(const Inst *in, const Vec *s, Vec *d)
{
    const unsigned moved = moved_by(in, s);
    const bool halves = (in->op->signature[1] == 'w' || in->op->signature[1] == 'p');
    uint64_t control = 0;
    Vec masks[3], made, none[3], given;
    if (!moved || in->m.dpp) return false;
    for (unsigned n = 0; in->op->signature[n + 1]; n++) {
        masks[n] = none[n] = s[n];
        if (!(moved >> n & 1)) {
            control |= s[n].undef;
            continue;
        }
        const uint64_t low = halves ? s[n].undef : s[n].half[0], high = halves ? 0 : s[n].half[1];
        for (int lane = 0; lane < LANES; lane++)
            masks[n].u[lane] =
                (low >> lane & 1 ? 0xffffu : 0) | (high >> lane & 1 ? 0xffff0000u : 0);
        memset(none[n].u, 0, sizeof none[n].u);
    }
    in->op->lanes(&made, &masks[0], &masks[1], &masks[2]);
    in->op->lanes(&given, &none[0], &none[1], &none[2]); /* bits that no source gives */
    d->half[0] = d->half[1] = control;
    for (int lane = 0; lane < LANES; lane++) {
        const uint32_t unknown = made.u[lane] ^ given.u[lane];
        d->half[0] |= (uint64_t)((unknown & 0xffff) != 0) << lane;
        d->half[1] |= (uint64_t)(unknown >> 16 != 0) << lane;
    }
    return true;
}

/* A move of two registers: of each what was known of it. */
static void run_move_two(Wave *w, const Inst *in)
{
    Vec v;
    uint64_t undef[2][2] = {{0}};
    const Operand *to = &in->o[0], *from = &in->o[1];
    const uint64_t lanes = exec_of(w);
    vector_get(w, in, 1, 'q', &v);
    for (int half = 0; half < 2 && from->kind == O_VECTOR; half++)
        for (int r = 0; r < 2; r++) undef[half][r] = w->undef[half][from->reg + r];
    vector_put(w, in, 0, 'q', &v, lanes);
    if (w->e->failed || from->kind != O_VECTOR) return;
    for (int half = 0; half < 2; half++)
        for (int r = 0; r < 2; r++) {
            uint64_t *at = &w->undef[half][to->reg + r];
            *at = (*at & ~lanes) | (undef[half][r] & lanes);
        }
}

/* What a row's [more] says. */
enum { SUM = 1 /* the result is the third source */, APPROXIMATE = 2 };

static double exact_of(const Inst *in, double a)
{
    if (in->op->lanes == lanes_v_exp_f32) return exp2(a);
    if (in->op->lanes == lanes_v_log_f32) return log2(a);
    if (in->op->lanes == lanes_v_sqrt_f32) return sqrt(a);
    return in->op->lanes == lanes_v_rsq_f32 ? 1 / sqrt(a) : 1 / a;
}

/* A machine's function is one: the error follows from the argument and the seed. All of it is one unit of the last place at most, as the documents
 * have it and LLVM's division of whole numbers needs it: the number below or the one above; of powers of two and such, which are exact, those beside. */
static void err(const Inst *in, Vec *d, const Vec *of, uint64_t seed)
{
    for (int n = 0; n < LANES; n++) {
        uint64_t h = (of->u[n] ^ seed) * 0x9e3779b97f4a7c15u;
        h = (h ^ h >> 29) * 0xbf58476d1ce4e5b9u;
        const double beyond = fabs(exact_of(in, of->f[n])) - fabs((double)d->f[n]);
        const uint32_t turn = (uint32_t)(h >> 33) % 3;
        Vec moved;
        moved.u[0] = d->u[n];
        if (beyond == 0)
            moved.u[0] += turn - 1;
        else if (turn)
            moved.u[0] += beyond > 0 ? 1u : -1u;
        if (isnormal(d->f[n]) && isnormal(moved.f[0])) d->u[n] = moved.u[0];
    }
}

static void run_lanes(Wave *w, const Inst *in)
{
    Vec d, s[3];
    const char *types = in->op->signature;
    d.undef = d.low = 0;
    for (unsigned n = 1; types[n]; n++) {
        const bool result = in->op->more == SUM && n == 3;
        vector_get(w, in, result ? 0 : n, types[n], &s[n - 1]);
        d.undef |= s[n - 1].undef;
        d.low |= s[n - 1].low;
    }
    /* a sum's low word knows nothing of the high ones */
    if (*types != 'q' || in->op->lanes == lanes_v_lshrrev_b64) d.low = d.undef;
    in->op->lanes(&d, &s[0], &s[1], &s[2]);
    if (in->op->more == APPROXIMATE && w->e->errors) err(in, &d, &s[0], w->e->errors);
    vector_put(w, in, 0, *types, &d, exec_of(w));
    if (w->e->failed || !d.undef || *types != 'u' || in->m.select[0]) return;
    const bool copies =
        in->op->lanes == lanes_v_mov_b32 || in->op->lanes == lanes_v_accvgpr_read_b32 ||
        in->op->lanes == lanes_v_accvgpr_write_b32 || in->op->lanes == lanes_v_accvgpr_mov_b32;
    if (copies && !in->m.dpp)
        vector_halves(w, &in->o[0], &s[0], exec_of(w));
    else if (move_unknown(in, s, &d))
        vector_halves(w, &in->o[0], &d, exec_of(w));
}

#define V1(name, D, A, R)       {#name, #D #A, run_lanes, lanes_##name, 0, EMU_VECTOR},
#define V2(name, D, A, B, R)    {#name, #D #A #B, run_lanes, lanes_##name, 0, EMU_VECTOR},
#define V3(name, D, A, B, C, R) {#name, #D #A #B #C, run_lanes, lanes_##name, 0, EMU_VECTOR},
#define VA(name, D, A, B, C, R) {#name, #D #A #B #C, run_lanes, lanes_##name, SUM, EMU_VECTOR},
#define A1(name, D, A, R)       {#name, #D #A, run_lanes, lanes_##name, APPROXIMATE, EMU_VECTOR},
const Op vector_ops[] = {
#include "vector.def"
    {"v_mov_b64", "qq", run_move_two, NULL, 0, EMU_VECTOR},
    {NULL, NULL, NULL, NULL, 0, 0},
};
