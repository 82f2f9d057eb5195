/* state.c - registers read and written: by type, with a lane's definedness, the waits that a load still needs, and an operand's modifiers. */
#include "inside.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

void fail(Wave *w, const char *format, ...)
{
    Emulator *e = w->e;
    if (e->failed) return;
    e->failed = true;
    const bool in_code = w->pc >= e->text_at && w->pc < e->text_at + e->text_bytes;
    const Inst *in = in_code ? e->cache[(w->pc - e->text_at) / 4] : NULL;
    int at = snprintf(
        e->error, sizeof e->error, "%s, %s at 0x%llx, wave %u of block %u,%u,%u: ", e->kernel,
        in ? in->text : "an instruction", (unsigned long long)w->pc, (unsigned)w->number,
        (unsigned)w->g->id[0], (unsigned)w->g->id[1], (unsigned)w->g->id[2]);
    va_list arguments;
    va_start(arguments, format);
    if (at > 0 && (size_t)at < sizeof e->error)
        vsnprintf(e->error + at, sizeof e->error - (size_t)at, format, arguments);
    va_end(arguments);
}

/* ---- numbers of 16 bits */

/* To nearest, ties to even; denormals are kept. */
uint32_t half_of_float(float value)
{
    const uint32_t bits = bits_of(value), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) return sign | 0x7e00;
    if (magnitude >= 0x47800000) return sign | 0x7c00; /* 65536 and above */
    if (magnitude < 0x38800000) {                      /* below 2^-14: in units of 2^-24 */
        const float scaled = float_of(magnitude) * 16777216.0f;
        return sign | (uint32_t)nearbyintf(scaled);
    }
    const uint32_t odd = magnitude >> 13 & 1;
    return sign | ((magnitude - 0x38000000 + 0xfff + odd) >> 13); /* may carry to infinity */
}

/* Towards zero. */
uint32_t half_cut(float a)
{
    const uint32_t near = half_of_float(a);
    if (isnan(a) || fabsf(float_of_half(near)) <= fabsf(a)) return near;
    return near - 1;
}

float float_of_half(uint32_t half)
{
    const uint32_t sign = (half & 0x8000) << 16, exponent = half >> 10 & 31, mantissa = half & 1023;
    if (exponent == 31) return float_of(sign | 0x7f800000 | mantissa << 13);
    if (exponent) return float_of(sign | (exponent + 112) << 23 | mantissa << 13);
    const float small = (float)mantissa * 0x1p-24f;
    return sign ? -small : small;
}

uint32_t bf16_of_float(float value)
{
    const uint32_t bits = bits_of(value);
    if ((bits & 0x7fffffff) > 0x7f800000) return bits >> 16 | 0x40;
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

/* a b + c of halves, rounded once when it becomes a half: the sum is rounded to odd, in 53 bits and in 24. */
float fused_halves(float a, float b, float c)
{
    const double p = (double)a * (double)b, sum = p + (double)c, part = sum - p,
                 rest = (p - (sum - part)) + ((double)c - part);
    float r = (float)sum;
    if (!isfinite(sum) || ((double)r == sum && rest == 0)) return r;
    if (fabs((double)r) > fabs(sum) || ((double)r == sum && (rest > 0) != (sum > 0)))
        r = nextafterf(r, 0);
    return float_of(bits_of(r) | 1);
}

/* ---- scalars */

void scalar_ready(Wave *w, unsigned reg, unsigned count)
{
    for (unsigned n = reg; n < reg + count && n < SGPRS; n++)
        if (is_pending(w, w->s_pending[n]))
            fail(w, "s%u is used before the wait for the load that writes it", n);
}

static uint64_t real_bits(const Operand *o, unsigned bits)
{
    const double real = (double)o->real;
    uint64_t wide;
    memcpy(&wide, &real, sizeof wide);
    return bits == 64 ? wide : bits_of(o->real);
}

uint64_t scalar_get(Wave *w, const Operand *o, unsigned bits, uint64_t *undef)
{
    *undef = 0;
    switch (o->kind) {
    case O_NUMBER: return bits == 64 ? (uint64_t)o->number : (uint32_t)o->number;
    case O_REAL: return real_bits(o, bits);
    case O_SCC: *undef = w->scc_undef; return w->scc;
    case O_SCALAR: break;
    default: fail(w, "an operand is no scalar"); return 0;
    }
    if (o->reg == S_NULL) return 0;
    const unsigned more = bits == 64 && o->reg + 1 < SGPRS;
    scalar_ready(w, o->reg, 1 + more);
    *undef = w->s_undef[o->reg] | (more ? (uint64_t)w->s_undef[o->reg + 1] << 32 : 0);
    return w->s[o->reg] | (more ? (uint64_t)w->s[o->reg + 1] << 32 : 0);
}

void scalar_put(Wave *w, const Operand *o, unsigned bits, uint64_t value, uint64_t undef)
{
    if (o->kind != O_SCALAR) {
        fail(w, "the result is no scalar register");
        return;
    }
    if (o->reg == S_NULL) return;
    scalar_ready(w, o->reg, bits / 32);
    if (undef && o->reg >= S_EXEC) fail(w, "EXEC becomes what nobody wrote");
    for (unsigned n = 0; n < bits / 32 && o->reg + n < SGPRS; n++) {
        w->s[o->reg + n] = (uint32_t)(value >> 32 * n);
        w->s_undef[o->reg + n] = (uint32_t)(undef >> 32 * n);
        w->s_pending[o->reg + n] = (Pending){0};
    }
}

uint64_t mask_get(Wave *w, const Operand *o, uint64_t *undef)
{
    return scalar_get(w, o, w->wide ? 64 : 32, undef);
}

void mask_put(Wave *w, const Operand *o, uint64_t value, uint64_t undef)
{
    scalar_put(w, o, w->wide ? 64 : 32, value, undef);
}

/* ---- lanes */

void vector_ready(Wave *w, unsigned reg, unsigned count)
{
    if (reg + count > VGPRS) {
        fail(w, "a register beyond the last");
        return;
    }
    for (unsigned n = reg; n < reg + count; n++)
        if (is_pending(w, w->v_pending[n]))
            fail(w, "%c%u is used before the wait for the load that writes it",
                 n < AGPR ? 'v' : 'a', n % AGPR);
}

/* The lane that [lane] reads in a DPP instruction, -1: none. */
static int dpp_source(const Modifiers *m, int lane)
{
    const int row = lane & ~15, in_row = lane & 15, by = m->dpp_argument[0];
    int at;
    switch (m->dpp) {
    case QUAD_PERM: return (lane & ~3) | m->dpp_argument[lane & 3];
    case ROW_SHL: at = in_row + by; return at < 16 ? row | at : -1;
    case ROW_SHR: at = in_row - by; return at >= 0 ? row | at : -1;
    case ROW_ROR: return row | ((in_row - by) & 15);
    case ROW_MIRROR: return row | (15 - in_row);
    case HALF_MIRROR: return (lane & ~7) | (7 - (lane & 7));
    case ROW_SHARE: return row | by;
    case ROW_XMASK: return row | (in_row ^ by);
    case ROW_BCAST:
        if (by == 15) return row ? row - 1 : -1;
        return lane >= 32 ? 31 : -1;
    default: return lane;
    }
}

static bool dpp_reads(const Wave *w, const Modifiers *m, int source)
{
    return source >= 0 && (m->fetches || (exec_of(w) >> source & 1));
}

static uint64_t dpp_lanes(const Wave *w, const Modifiers *m)
{
    uint64_t lanes = 0;
    for (int lane = 0; lane < LANES; lane++)
        if ((m->row_mask >> (lane / 16) & 1) && (m->bank_mask >> (lane / 4 % 4) & 1) &&
            (m->bound_ctrl || dpp_reads(w, m, dpp_source(m, lane))))
            lanes |= 1ull << lane;
    return lanes;
}

static void dpp_move(const Wave *w, const Modifiers *m, Vec *v)
{
    const Vec from = *v;
    v->undef = 0;
    for (int lane = 0; lane < LANES; lane++) {
        const int source = dpp_source(m, lane);
        const bool reads = dpp_reads(w, m, source);
        v->u[lane] = reads ? from.u[source] : 0;
        if (reads && from.undef >> source & 1) v->undef |= 1ull << lane;
    }
    v->half[0] = v->half[1] = v->undef;
}

static bool is_wide(char type) { return type == 'q' || type == 'l' || type == 'd'; }
static bool is_real(char type) { return type == 'f' || type == 'd' || type == 'h'; }

static void spread(Wave *w, const Operand *o, char type, Vec *v)
{
    uint64_t undef, value;
    if (o->kind == O_REAL && (type == 'h' || type == 'p'))
        value = half_of_float(o->real);
    else if (o->kind == O_NUMBER && type == 'd' && (o->number > 64 || o->number < -16))
        value = (uint64_t)o->number << 32; /* a literal is the high half */
    else
        value = scalar_get(w, o, is_wide(type) ? 64 : 32, &undef);
    if (o->kind != O_SCALAR && o->kind != O_SCC) undef = 0;
    v->undef = undef ? ~0ull : 0;
    v->low = (uint32_t)undef ? ~0ull : 0;
    v->half[0] = v->half[1] = v->undef;
    for (int lane = 0; lane < LANES; lane++) {
        if (is_wide(type))
            v->q[lane] = value;
        else
            v->u[lane] = (uint32_t)value;
    }
}

static void load_registers(Wave *w, const Operand *o, char type, Vec *v)
{
    vector_ready(w, o->reg, is_wide(type) ? 2 : 1);
    if (o->reg + 1u > VGPRS) return;
    for (int half = 0; half < 2; half++) v->half[half] = w->undef[half][o->reg];
    v->undef = v->low = v->half[0] | v->half[1];
    if (!is_wide(type)) {
        memcpy(v->u, w->v[o->reg], sizeof v->u);
        return;
    }
    v->undef |= w->undef[0][o->reg + 1] | w->undef[1][o->reg + 1];
    for (int lane = 0; lane < LANES; lane++)
        v->q[lane] = w->v[o->reg][lane] | (uint64_t)w->v[o->reg + 1][lane] << 32;
}

/* The high or the low half, as a float or (w) as it is. */
static void take_half(Wave *w, const Inst *in, unsigned n, char type, Vec *v)
{
    const Operand *o = &in->o[n];
    const bool high = o->half == 2 || (n > 0 && in->m.op_sel[n - 1]);
    if (o->kind == O_VECTOR) v->undef = w->undef[high][o->reg];
    const bool whole = o->kind == O_NUMBER || o->kind == O_REAL;
    for (int lane = 0; lane < LANES; lane++) {
        const uint32_t bits = (high && !whole ? v->u[lane] >> 16 : v->u[lane]) & 0xffff;
        if (type == 'h')
            v->f[lane] = float_of_half(bits);
        else
            v->u[lane] = bits;
    }
}

/* A byte (1 to 4) or a half (5, 6) of a register: where it begins, and its bits. */
static unsigned part_shift(int select)
{
    return select < 5 ? 8u * (unsigned)(select - 1) : 16u * (unsigned)(select - 5);
}

static uint32_t part_bits(int select) { return select < 5 ? 0xffu : 0xffffu; }

static void take_part(const Inst *in, unsigned n, char type, Vec *v)
{
    const int select = in->m.select[n];
    v->undef = v->low = v->half[0] = v->half[select < 5 ? (select - 1) / 2 : select - 5];
    v->half[1] = 0;
    for (int lane = 0; lane < LANES; lane++) {
        v->u[lane] = v->u[lane] >> part_shift(select) & part_bits(select);
        if (type == 'h') v->f[lane] = float_of_half(v->u[lane]);
    }
}

static void apply_signs(const Operand *o, char type, Vec *v)
{
    for (int lane = 0; lane < LANES; lane++) {
        if (type == 'd') {
            if (o->abs) v->d[lane] = fabs(v->d[lane]);
            if (o->neg) v->d[lane] = -v->d[lane];
        } else {
            const uint32_t sign = type == 'p' || type == 'w' ? 0x8000 : 0x80000000;
            if (o->abs) v->u[lane] &= ~sign;
            if (o->neg) v->u[lane] ^= sign;
        }
    }
}

void vector_get(Wave *w, const Inst *in, unsigned n, char type, Vec *v)
{
    const Operand *o = &in->o[n];
    if (n >= in->count) {
        fail(w, "it has no operand %u", n);
        memset(v, 0, sizeof *v);
        return;
    }
    if (o->kind == O_VECTOR)
        load_registers(w, o, type, v);
    else
        spread(w, o, type, v);
    if (n == 1 && in->m.dpp) dpp_move(w, &in->m, v);
    if (n < 3 && in->m.select[n])
        take_part(in, n, type, v);
    else if (type == 'h' || type == 'w' || type == 'p')
        take_half(w, in, n, type, v);
    if (o->neg || o->abs) apply_signs(o, type, v);
}

/* mul:2, mul:4, div:2 mean nothing where denormals are kept (ISA documents, "output modifiers"), as they are here (run.c, is_modelled). */
static double limited(const Modifiers *m, double value)
{
    if (!m->clamp) return value;
    return value > 0 ? value < 1 ? value : 1 : 0; /* NaN is 0, too */
}

static void put_half(Wave *w, const Inst *in, unsigned n, char type, const Vec *v, uint64_t lanes)
{
    const Operand *o = &in->o[n];
    const bool high = o->half == 2 || in->m.op_sel[3];
    /* the other half is 0, but of instructions that GFX9 brought */
    const bool alone =
        w->family == CDNA && !high && !in->m.preserve && strncmp(in->op->name, "v_fma_f16", 9) != 0;
    uint64_t *undef = &w->undef[high][o->reg];
    *undef = (*undef & ~lanes) | (v->undef & lanes);
    if (alone) w->undef[1][o->reg] &= ~lanes;
    for (int lane = 0; lane < LANES; lane++) {
        if (!(lanes >> lane & 1)) continue;
        uint32_t *at = &w->v[o->reg][lane];
        const uint32_t bits = type == 'h'
                                  ? half_of_float((float)limited(&in->m, (double)v->f[lane]))
                                  : v->u[lane] & 0xffff;
        *at = high ? (*at & 0xffff) | bits << 16 : (alone ? 0 : *at & 0xffff0000) | bits;
    }
}

/* A byte or a half of the register; the rest becomes 0 or stays (UNUSED_PAD, UNUSED_PRESERVE). */
static void put_part(Wave *w, const Inst *in, unsigned n, char type, const Vec *v, uint64_t lanes)
{
    const int select = in->m.select[0], reg = in->o[n].reg;
    const unsigned shift = part_shift(select);
    const uint32_t all = part_bits(select) << shift;
    for (unsigned half = 0; half < 2; half++) {
        const uint64_t made = half == shift / 16 ? v->undef : 0;
        const uint64_t left =
            !in->m.preserve || (half == shift / 16 && select > 4) ? ~lanes : ~0ull;
        w->undef[half][reg] = (w->undef[half][reg] & left) | (made & lanes);
    }
    for (int lane = 0; lane < LANES; lane++) {
        if (!(lanes >> lane & 1)) continue;
        uint32_t *at = &w->v[reg][lane];
        const uint32_t bits =
            type == 'h' ? half_of_float((float)limited(&in->m, (double)v->f[lane])) : v->u[lane];
        *at = (in->m.preserve ? *at & ~all : 0) | (bits << shift & all);
    }
}

void vector_put(Wave *w, const Inst *in, unsigned n, char type, const Vec *v, uint64_t lanes)
{
    const Operand *o = &in->o[n];
    const unsigned count = is_wide(type) ? 2 : 1;
    if (o->kind != O_VECTOR) {
        fail(w, "the result is no vector register");
        return;
    }
    vector_ready(w, o->reg, count);
    if (in->m.clamp && !is_real(type)) fail(w, "numbers that are clamped and not real");
    if (w->e->failed) return;
    if (in->m.dpp) lanes &= dpp_lanes(w, &in->m);
    for (unsigned r = 0; r < count; r++) w->v_pending[o->reg + r] = (Pending){0};
    if (in->m.select[0]) {
        put_part(w, in, n, type, v, lanes);
        return;
    }
    if (type == 'h' || type == 'w') {
        put_half(w, in, n, type, v, lanes);
        return;
    }
    for (unsigned r = 0; r < count; r++)
        for (int half = 0; half < 2; half++)
            w->undef[half][o->reg + r] = (w->undef[half][o->reg + r] & ~lanes) |
                                         ((r + 1 < count ? v->low : v->undef) & lanes);
    const bool limits = is_real(type) && in->m.clamp;
    if (lanes == ~0ull && !limits && count == 1) {
        memcpy(w->v[o->reg], v->u, sizeof v->u);
        return;
    }
    for (int lane = 0; lane < LANES; lane++) {
        if (!(lanes >> lane & 1)) continue;
        if (count == 2) {
            Vec one;
            one.q[0] = v->q[lane];
            if (limits) one.d[0] = limited(&in->m, v->d[lane]);
            w->v[o->reg][lane] = (uint32_t)one.q[0];
            w->v[o->reg + 1][lane] = (uint32_t)(one.q[0] >> 32);
        } else {
            w->v[o->reg][lane] =
                limits ? bits_of((float)limited(&in->m, (double)v->f[lane])) : v->u[lane];
        }
    }
}

void vector_halves(Wave *w, const Operand *o, const Vec *v, uint64_t lanes)
{
    for (int half = 0; half < 2; half++)
        w->undef[half][o->reg] = (w->undef[half][o->reg] & ~lanes) | (v->half[half] & lanes);
}
