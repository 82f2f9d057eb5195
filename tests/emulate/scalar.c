/* scalar.c - instructions of the scalar unit (SOP1, SOP2, SOPC, SOPK, SOPP). Each is a row: width, result, what it says to SCC. */
#include "inside.h"

#include <math.h>

typedef struct Scalar {
    uint64_t a, b, ua, ub;
} Scalar;

static Scalar sources(Wave *w, const Inst *in, unsigned first, unsigned bits_a, unsigned bits_b)
{
    Scalar x = {0, 0, 0, 0};
    if (in->count <= first) {
        fail(w, "it has no operand");
        return x;
    }
    x.a = scalar_get(w, &in->o[first], bits_a, &x.ua);
    if (in->o[first].abs) x.a &= ~(uint64_t)0x80000000;
    if (in->o[first].neg) x.a ^= 0x80000000;
    if (in->count > first + 1) x.b = scalar_get(w, &in->o[first + 1], bits_b, &x.ub);
    return x;
}

static void set_scc(Wave *w, bool value, bool undef)
{
    w->scc = value;
    w->scc_undef = undef;
}

static uint64_t cut_to(uint64_t value, unsigned bits)
{
    return bits == 64 ? value : (uint32_t)value;
}

/* What nobody wrote makes all of the result so, but for operations of single bits. */
static uint64_t spread_undef(const Scalar *x) { return x->ua | x->ub ? UINT64_MAX : 0; }
static uint64_t undef_and(const Scalar *x)
{
    return (x->ua & x->ub) | (x->ua & x->b) | (x->ub & x->a);
}
static uint64_t undef_or(const Scalar *x)
{
    return (x->ua & x->ub) | (x->ua & ~x->b) | (x->ub & ~x->a);
}
static uint64_t undef_either(const Scalar *x) { return x->ua | x->ub; }

static uint64_t low_bits(uint64_t count) { return count >= 64 ? UINT64_MAX : (1ull << count) - 1; }
static int64_t s32(uint64_t a) { return (int32_t)(uint32_t)a; }
static int64_t extract(uint64_t a, uint64_t how, unsigned bits)
{
    const unsigned from = (unsigned)how & (bits - 1), length = (unsigned)(how >> 16) & 0x7f;
    if (!length) return 0;
    /* an arithmetic shift: what lies above the register is its sign */
    const uint64_t field =
        (uint64_t)((bits == 64 ? (int64_t)a : s32(a)) >> from) & low_bits(length);
    const uint64_t top = length >= 64 ? 1ull << 63 : 1ull << (length - 1);
    return (int64_t)((field ^ top) - top);
}
static float as_float(uint64_t a) { return float_of((uint32_t)a); }
static float flushed(float a) { return fabsf(a) < 0x1p-126f ? copysignf(0.0f, a) : a; }
static int64_t to_i32(double a)
{
    if (isnan(a)) return 0;
    return a > -2147483648.0 ? a < 2147483647.0 ? (int64_t)a : INT32_MAX : INT32_MIN;
}
static uint64_t to_u32(double f) { return f > 0 ? f < 4294967295.0 ? (uint32_t)f : 0xffffffff : 0; }

enum { KEEP = 2 };

/* ---- with a result: ROW(name, bits of the result, of a, of b, first source, result, SCC or KEEP, undef) */
// clang-format off
#define A32 (uint32_t)a
#define B32 (uint32_t)b
#define SOP2(ROW) \
    ROW(s_add_u32, 32, 32, 32, a + b, r >> 32 != 0, spread_undef) \
    ROW(s_sub_u32, 32, 32, 32, a - b, b > a, spread_undef) \
    ROW(s_addc_u32, 32, 32, 32, a + b + w->scc, r >> 32 != 0, spread_undef) \
    ROW(s_subb_u32, 32, 32, 32, a - b - w->scc, b + scc > a, spread_undef) \
    ROW(s_add_i32, 32, 32, 32, a + b, s32(a) + s32(b) != s32(r), spread_undef) \
    ROW(s_sub_i32, 32, 32, 32, a - b, s32(a) - s32(b) != s32(r), spread_undef) \
    ROW(s_add_nc_u64, 64, 64, 64, a + b, KEEP, spread_undef) \
    ROW(s_sub_nc_u64, 64, 64, 64, a - b, KEEP, spread_undef) \
    ROW(s_mul_i32, 32, 32, 32, a * b, KEEP, spread_undef) \
    ROW(s_mul_u64, 64, 64, 64, a * b, KEEP, spread_undef) \
    ROW(s_mul_hi_u32, 32, 32, 32, a * b >> 32, KEEP, spread_undef) \
    ROW(s_mul_hi_i32, 32, 32, 32, (uint64_t)(s32(a) * s32(b)) >> 32, KEEP, spread_undef) \
    ROW(s_min_i32, 32, 32, 32, s32(a) < s32(b) ? a : b, s32(a) < s32(b), spread_undef) \
    ROW(s_max_i32, 32, 32, 32, s32(a) > s32(b) ? a : b, s32(a) > s32(b), spread_undef) \
    ROW(s_min_u32, 32, 32, 32, a < b ? a : b, a < b, spread_undef) \
    ROW(s_max_u32, 32, 32, 32, a > b ? a : b, a > b, spread_undef) \
    ROW(s_and_b32, 32, 32, 32, a & b, r != 0, undef_and) \
    ROW(s_and_b64, 64, 64, 64, a & b, r != 0, undef_and) \
    ROW(s_or_b32, 32, 32, 32, a | b, r != 0, undef_or) \
    ROW(s_or_b64, 64, 64, 64, a | b, r != 0, undef_or) \
    ROW(s_xor_b32, 32, 32, 32, a ^ b, r != 0, undef_either) \
    ROW(s_xor_b64, 64, 64, 64, a ^ b, r != 0, undef_either) \
    ROW(s_andn2_b32, 32, 32, 32, a & ~b, (uint32_t)r != 0, undef_either) \
    ROW(s_andn2_b64, 64, 64, 64, a & ~b, r != 0, undef_either) \
    ROW(s_orn2_b32, 32, 32, 32, a | ~b, (uint32_t)r != 0, undef_either) \
    ROW(s_orn2_b64, 64, 64, 64, a | ~b, r != 0, undef_either) \
    ROW(s_nand_b32, 32, 32, 32, ~(a & b), (uint32_t)r != 0, undef_either) \
    ROW(s_nand_b64, 64, 64, 64, ~(a & b), r != 0, undef_either) \
    ROW(s_nor_b32, 32, 32, 32, ~(a | b), (uint32_t)r != 0, undef_either) \
    ROW(s_nor_b64, 64, 64, 64, ~(a | b), r != 0, undef_either) \
    ROW(s_xnor_b32, 32, 32, 32, ~(a ^ b), (uint32_t)r != 0, undef_either) \
    ROW(s_xnor_b64, 64, 64, 64, ~(a ^ b), r != 0, undef_either) \
    ROW(s_lshl_b32, 32, 32, 32, a << (b & 31), (uint32_t)r != 0, spread_undef) \
    ROW(s_lshl_b64, 64, 64, 32, a << (b & 63), r != 0, spread_undef) \
    ROW(s_lshr_b32, 32, 32, 32, a >> (b & 31), r != 0, spread_undef) \
    ROW(s_lshr_b64, 64, 64, 32, a >> (b & 63), r != 0, spread_undef) \
    ROW(s_ashr_i32, 32, 32, 32, (uint64_t)(s32(a) >> (b & 31)), (uint32_t)r != 0, spread_undef) \
    ROW(s_ashr_i64, 64, 64, 32, (uint64_t)((int64_t)a >> (b & 63)), r != 0, spread_undef) \
    ROW(s_lshl1_add_u32, 32, 32, 32, (a << 1) + b, r >> 32 != 0, spread_undef) \
    ROW(s_lshl2_add_u32, 32, 32, 32, (a << 2) + b, r >> 32 != 0, spread_undef) \
    ROW(s_lshl3_add_u32, 32, 32, 32, (a << 3) + b, r >> 32 != 0, spread_undef) \
    ROW(s_lshl4_add_u32, 32, 32, 32, (a << 4) + b, r >> 32 != 0, spread_undef) \
    ROW(s_bfe_u32, 32, 32, 32, a >> (b & 31) & low_bits(b >> 16 & 0x7f), (uint32_t)r != 0, spread_undef) \
    ROW(s_bfe_i32, 32, 32, 32, (uint64_t)extract(a, b, 32), (uint32_t)r != 0, spread_undef) \
    ROW(s_bfe_u64, 64, 64, 32, a >> (b & 63) & low_bits(b >> 16 & 0x7f), r != 0, spread_undef) \
    ROW(s_bfe_i64, 64, 64, 32, (uint64_t)extract(a, b, 64), r != 0, spread_undef) \
    ROW(s_bfm_b32, 32, 32, 32, low_bits(a & 31) << (b & 31), KEEP, spread_undef) \
    ROW(s_bfm_b64, 64, 32, 32, low_bits(a & 63) << (b & 63), KEEP, spread_undef) \
    ROW(s_pack_ll_b32_b16, 32, 32, 32, (a & 0xffff) | b << 16, KEEP, spread_undef) \
    ROW(s_pack_lh_b32_b16, 32, 32, 32, (a & 0xffff) | (b & 0xffff0000), KEEP, spread_undef) \
    ROW(s_pack_hh_b32_b16, 32, 32, 32, a >> 16 | (b & 0xffff0000), KEEP, spread_undef) \
    ROW(s_pack_hl_b32_b16, 32, 32, 32, a >> 16 | b << 16, KEEP, spread_undef) \
    ROW(s_absdiff_i32, 32, 32, 32, (uint64_t)(s32(a) > s32(b) ? s32(a) - s32(b) : s32(b) - s32(a)), (uint32_t)r != 0, spread_undef) \
    ROW(s_add_f32, 32, 32, 32, bits_of(as_float(a) + as_float(b)), KEEP, spread_undef) \
    ROW(s_sub_f32, 32, 32, 32, bits_of(as_float(a) - as_float(b)), KEEP, spread_undef) \
    ROW(s_mul_f32, 32, 32, 32, bits_of(as_float(a) * as_float(b)), KEEP, spread_undef) \
    ROW(s_min_num_f32, 32, 32, 32, bits_of(smallest(as_float(a), as_float(b))), KEEP, spread_undef) \
    ROW(s_max_num_f32, 32, 32, 32, bits_of(largest(as_float(a), as_float(b))), KEEP, spread_undef) \
    ROW(s_mov_b32, 32, 32, 32, a, KEEP, undef_either) \
    ROW(s_mov_b64, 64, 64, 32, a, KEEP, undef_either) \
    ROW(s_movk_i32, 32, 32, 32, (uint64_t)(int16_t)a, KEEP, spread_undef) \
    ROW(s_not_b32, 32, 32, 32, ~a, (uint32_t)r != 0, undef_either) \
    ROW(s_not_b64, 64, 64, 32, ~a, r != 0, undef_either) \
    ROW(s_abs_i32, 32, 32, 32, (uint64_t)(s32(a) < 0 ? -s32(a) : s32(a)), (uint32_t)r != 0, spread_undef) \
    ROW(s_brev_b32, 32, 32, 32, reversed(a) >> 32, KEEP, spread_undef) \
    ROW(s_bcnt1_i32_b32, 32, 32, 32, (uint64_t)__builtin_popcountll(a), r != 0, spread_undef) \
    ROW(s_bcnt1_i32_b64, 32, 64, 32, (uint64_t)__builtin_popcountll(a), r != 0, spread_undef) \
    ROW(s_ff1_i32_b32, 32, 32, 32, a ? (uint64_t)__builtin_ctzll(a) : UINT64_MAX, KEEP, spread_undef) \
    ROW(s_ff1_i32_b64, 32, 64, 32, a ? (uint64_t)__builtin_ctzll(a) : UINT64_MAX, KEEP, spread_undef) \
    ROW(s_flbit_i32_b32, 32, 32, 32, a ? (uint64_t)__builtin_clzll(a) - 32 : UINT64_MAX, KEEP, spread_undef) \
    ROW(s_flbit_i32_b64, 32, 64, 32, a ? (uint64_t)__builtin_clzll(a) : UINT64_MAX, KEEP, spread_undef) \
    ROW(s_sext_i32_i8, 32, 32, 32, (uint64_t)(int8_t)a, KEEP, spread_undef) \
    ROW(s_sext_i32_i16, 32, 32, 32, (uint64_t)(int16_t)a, KEEP, spread_undef) \
    ROW(s_ceil_f32, 32, 32, 32, bits_of(ceilf(as_float(a))), KEEP, spread_undef) \
    ROW(s_floor_f32, 32, 32, 32, bits_of(floorf(as_float(a))), KEEP, spread_undef) \
    ROW(s_trunc_f32, 32, 32, 32, bits_of(truncf(as_float(a))), KEEP, spread_undef) \
    ROW(s_rndne_f32, 32, 32, 32, bits_of(nearbyintf(as_float(a))), KEEP, spread_undef) \
    ROW(s_cvt_f16_f32, 32, 32, 32, half_of_float(as_float(a)), KEEP, spread_undef) \
    ROW(s_cvt_f32_f16, 32, 32, 32, bits_of(float_of_half((uint32_t)a & 0xffff)), KEEP, spread_undef) \
    ROW(s_cvt_hi_f32_f16, 32, 32, 32, bits_of(float_of_half((uint32_t)a >> 16)), KEEP, spread_undef) \
    ROW(s_cvt_pk_rtz_f16_f32, 32, 32, 32, half_cut(as_float(a)) | (uint64_t)half_cut(as_float(b)) << 16, KEEP, spread_undef) \
    ROW(v_s_exp_f32, 32, 32, 32, bits_of(flushed(exp2f(flushed(as_float(a))))), KEEP, spread_undef) \
    ROW(v_s_log_f32, 32, 32, 32, bits_of(flushed(log2f(flushed(as_float(a))))), KEEP, spread_undef) \
    ROW(v_s_rcp_f32, 32, 32, 32, bits_of(flushed(1.0f / flushed(as_float(a)))), KEEP, spread_undef) \
    ROW(v_s_rsq_f32, 32, 32, 32, bits_of(flushed((float)(1.0 / sqrt((double)flushed(as_float(a)))))), KEEP, spread_undef) \
    ROW(v_s_sqrt_f32, 32, 32, 32, bits_of(flushed(sqrtf(flushed(as_float(a))))), KEEP, spread_undef) \
    ROW(s_cvt_i32_f32, 32, 32, 32, (uint64_t)to_i32((double)as_float(a)), KEEP, spread_undef) \
    ROW(s_cvt_f32_u32, 32, 32, 32, bits_of((float)A32), KEEP, spread_undef) \
    ROW(s_cvt_f32_i32, 32, 32, 32, bits_of((float)s32(a)), KEEP, spread_undef) \
    ROW(s_cvt_u32_f32, 32, 32, 32, to_u32((double)as_float(a)), KEEP, spread_undef)

/* Adding to the result: the result is a source. */
#define SOPK(ROW) \
    ROW(s_addk_i32, 32, 32, 32, a + (uint64_t)(int16_t)b, s32(a) + (int16_t)b != s32(r), spread_undef) \
    ROW(s_mulk_i32, 32, 32, 32, a * (uint64_t)(int64_t)(int16_t)b, KEEP, spread_undef)

#define COMPARE(ROW) \
    ROW(s_cmp_eq_u32, 32, a == b) ROW(s_cmp_lg_u32, 32, a != b) ROW(s_cmp_gt_u32, 32, a > b) ROW(s_cmp_ge_u32, 32, a >= b) \
    ROW(s_cmp_lt_u32, 32, a < b) ROW(s_cmp_le_u32, 32, a <= b) ROW(s_cmp_eq_u64, 64, a == b) ROW(s_cmp_lg_u64, 64, a != b) \
    ROW(s_cmp_eq_i32, 32, a == b) ROW(s_cmp_lg_i32, 32, a != b) ROW(s_cmp_gt_i32, 32, s32(a) > s32(b)) ROW(s_cmp_ge_i32, 32, s32(a) >= s32(b)) \
    ROW(s_cmp_lt_i32, 32, s32(a) < s32(b)) ROW(s_cmp_le_i32, 32, s32(a) <= s32(b)) \
    ROW(s_cmpk_eq_u32, 32, a == (uint16_t)b) ROW(s_cmpk_lg_u32, 32, a != (uint16_t)b) ROW(s_cmpk_gt_u32, 32, a > (uint16_t)b) \
    ROW(s_cmpk_ge_u32, 32, a >= (uint16_t)b) ROW(s_cmpk_lt_u32, 32, a < (uint16_t)b) ROW(s_cmpk_le_u32, 32, a <= (uint16_t)b) \
    ROW(s_cmpk_eq_i32, 32, s32(a) == (int16_t)b) ROW(s_cmpk_lg_i32, 32, s32(a) != (int16_t)b) ROW(s_cmpk_gt_i32, 32, s32(a) > (int16_t)b) \
    ROW(s_cmpk_ge_i32, 32, s32(a) >= (int16_t)b) ROW(s_cmpk_lt_i32, 32, s32(a) < (int16_t)b) ROW(s_cmpk_le_i32, 32, s32(a) <= (int16_t)b) \
    ROW(s_bitcmp0_b32, 32, !(a >> (b & 31) & 1)) ROW(s_bitcmp1_b32, 32, a >> (b & 31) & 1) \
    ROW(s_bitcmp0_b64, 64, !(a >> (b & 63) & 1)) ROW(s_bitcmp1_b64, 64, a >> (b & 63) & 1) \
    ROW(s_cmp_lt_f32, 32, as_float(a) < as_float(b)) ROW(s_cmp_gt_f32, 32, as_float(a) > as_float(b)) \
    ROW(s_cmp_le_f32, 32, as_float(a) <= as_float(b)) ROW(s_cmp_ge_f32, 32, as_float(a) >= as_float(b)) \
    ROW(s_cmp_eq_f32, 32, as_float(a) == as_float(b)) ROW(s_cmp_lg_f32, 32, as_float(a) < as_float(b) || as_float(a) > as_float(b)) \
    ROW(s_cmp_neq_f32, 32, !(as_float(a) == as_float(b))) ROW(s_cmp_nlt_f32, 32, !(as_float(a) < as_float(b))) \
    ROW(s_cmp_ngt_f32, 32, !(as_float(a) > as_float(b))) ROW(s_cmp_nle_f32, 32, !(as_float(a) <= as_float(b))) \
    ROW(s_cmp_nge_f32, 32, !(as_float(a) >= as_float(b))) ROW(s_cmp_u_f32, 32, isnan(as_float(a)) || isnan(as_float(b))) \
    ROW(s_cmp_o_f32, 32, !isnan(as_float(a)) && !isnan(as_float(b))) \
    ROW(s_cmp_nlg_f32, 32, !(as_float(a) < as_float(b) || as_float(a) > as_float(b)))

#define SAVEEXEC(ROW) \
    ROW(s_and_saveexec, a & exec) ROW(s_or_saveexec, a | exec) ROW(s_xor_saveexec, a ^ exec) \
    ROW(s_andn2_saveexec, a & ~exec) ROW(s_orn1_saveexec, ~a | exec) ROW(s_orn2_saveexec, a | ~exec)
// clang-format on

static uint64_t reversed(uint64_t a)
{
    uint64_t r = 0;
    for (int n = 0; n < 64; n++) r |= (a >> n & 1) << (63 - n);
    return r;
}

static void finish(Wave *w, const Inst *in, unsigned bits, uint64_t r, int scc, uint64_t undef)
{
    scalar_put(w, &in->o[0], bits, cut_to(r, bits), cut_to(undef, bits));
    if (scc != KEEP) set_scc(w, scc, undef != 0);
}

#define USES_SCC(name) (strcmp(#name, "s_addc_u32") == 0 || strcmp(#name, "s_subb_u32") == 0)
#define RUN(name, bits, bits_a, bits_b, first, result, says, undefs)                               \
    static void run_##name(Wave *w, const Inst *in)                                                \
    {                                                                                              \
        const Scalar x = sources(w, in, first, bits_a, bits_b);                                    \
        const uint64_t a = x.a, b = x.b, scc = w->scc, r = result;                                 \
        uint64_t undef = undefs(&x);                                                               \
        if (USES_SCC(name) && w->scc_undef) undef = UINT64_MAX;                                    \
        (void)b, (void)scc;                                                                        \
        finish(w, in, bits, r, says, undef);                                                       \
    }
#define RUN2(name, bits, bits_a, bits_b, result, says, undefs)                                     \
    RUN(name, bits, bits_a, bits_b, 1, result, says, undefs)
#define RUNK(name, bits, bits_a, bits_b, result, says, undefs)                                     \
    RUN(name, bits, bits_a, bits_b, 0, result, says, undefs)
SOP2(RUN2)
SOPK(RUNK)

#define RUN_COMPARE(name, bits, holds)                                                             \
    static void run_##name(Wave *w, const Inst *in)                                                \
    {                                                                                              \
        const Scalar x = sources(w, in, 0, bits, bits);                                            \
        const uint64_t a = x.a, b = x.b;                                                           \
        set_scc(w, holds, (x.ua | x.ub) != 0);                                                     \
    }
COMPARE(RUN_COMPARE)

static void save_exec(Wave *w, const Inst *in, uint64_t r)
{
    const Operand to = {.kind = O_SCALAR, .reg = S_EXEC, .regs = 2};
    uint64_t undef;
    mask_get(w, &in->o[1], &undef);
    const uint64_t exec = exec_of(w), all = w->wide ? UINT64_MAX : 0xffffffff;
    mask_put(w, &in->o[0], exec, 0);
    mask_put(w, &to, r & all, undef);
    set_scc(w, (r & all) != 0, false);
}
#define RUN_SAVEEXEC(name, result)                                                                 \
    static void run_##name(Wave *w, const Inst *in)                                                \
    {                                                                                              \
        uint64_t undef;                                                                            \
        const uint64_t a = mask_get(w, &in->o[1], &undef), exec = exec_of(w);                      \
        save_exec(w, in, result);                                                                  \
    }
SAVEEXEC(RUN_SAVEEXEC)

/* [more]: the product's sum is the result before. */
static void run_fma(Wave *w, const Inst *in)
{
    uint64_t a, b, c, undef[3];
    a = scalar_get(w, &in->o[1], 32, &undef[0]);
    b = scalar_get(w, &in->o[2], 32, &undef[1]);
    c = scalar_get(w, &in->o[in->op->more ? 0 : 3], 32, &undef[2]);
    const bool unknown = undef[0] || undef[1] || undef[2];
    const float r = fmaf(as_float(a), as_float(b), as_float(c));
    scalar_put(w, &in->o[0], 32, bits_of(r), unknown ? UINT32_MAX : 0);
}

static void run_cselect(Wave *w, const Inst *in)
{
    const unsigned bits = (unsigned)in->op->more;
    const Scalar x = sources(w, in, 1, bits, bits);
    const uint64_t undef = w->scc_undef ? UINT64_MAX : w->scc ? x.ua : x.ub;
    scalar_put(w, &in->o[0], bits, w->scc ? x.a : x.b, cut_to(undef, bits));
}

static void run_cmov(Wave *w, const Inst *in)
{
    const unsigned bits = (unsigned)in->op->more;
    const Scalar x = sources(w, in, 1, bits, bits);
    const bool immediate = strcmp(in->op->name, "s_cmovk_i32") == 0;
    if (w->scc_undef) fail(w, "SCC is what nobody wrote");
    if (w->scc) scalar_put(w, &in->o[0], bits, immediate ? (uint64_t)(int16_t)x.a : x.a, x.ua);
}

static void run_bitset(Wave *w, const Inst *in)
{
    uint64_t undef, old_undef;
    const uint64_t at = scalar_get(w, &in->o[1], 32, &undef),
                   old = scalar_get(w, &in->o[0], 32, &old_undef);
    const uint64_t bit = 1ull << (at & 31);
    scalar_put(w, &in->o[0], 32, in->op->more ? old | bit : old & ~bit, undef | old_undef);
}

/* ---- control */

enum { ALWAYS, SCC0, SCC1, VCCZ, VCCNZ, EXECZ, EXECNZ };

static void run_branch(Wave *w, const Inst *in)
{
    uint64_t undef = 0;
    const Operand vcc = {.kind = O_SCALAR, .reg = S_VCC, .regs = 2};
    bool taken = true;
    switch (in->op->more) {
    case SCC0: taken = !w->scc, undef = w->scc_undef; break;
    case SCC1: taken = w->scc, undef = w->scc_undef; break;
    case VCCZ: taken = mask_get(w, &vcc, &undef) == 0; break;
    case VCCNZ: taken = mask_get(w, &vcc, &undef) != 0; break;
    case EXECZ: taken = exec_of(w) == 0; break;
    case EXECNZ: taken = exec_of(w) != 0; break;
    default: break;
    }
    if (undef) fail(w, "the branch depends on what nobody wrote");
    if (taken) w->next = in->address + 4 + (uint64_t)(4 * (int64_t)(int16_t)in->o[0].number);
}

static void run_end(Wave *w, const Inst *in)
{
    (void)in;
    w->ended = true;
}

static void run_barrier(Wave *w, const Inst *in)
{
    (void)in;
    lds_barrier(w);
    w->waiting = true;
}

/* gfx12: the signal says what a wave has done, the wait is where it stops. */
static void run_signal(Wave *w, const Inst *in)
{
    (void)in;
    lds_barrier(w);
}
static void run_barrier_wait(Wave *w, const Inst *in)
{
    (void)in;
    w->waiting = true;
}

static void run_getpc(Wave *w, const Inst *in) { scalar_put(w, &in->o[0], 64, w->next, 0); }

static void run_index_on(Wave *w, const Inst *in)
{
    uint64_t undef;
    w->index = (uint8_t)scalar_get(w, &in->o[0], 32, &undef);
    w->indexed = in->m.indexed;
    if (undef) fail(w, "the number of a register is what nobody wrote");
}
static void run_index_off(Wave *w, const Inst *in)
{
    (void)in;
    w->indexed = 0;
}

static void run_setpc(Wave *w, const Inst *in)
{
    uint64_t undef;
    w->next = scalar_get(w, &in->o[0], 64, &undef);
    if (undef) fail(w, "it goes to where nobody wrote");
}

#define ENTRY(name, ...) {#name, "", run_##name, NULL, 0, EMU_SCALAR},
#define ENTRY_SAVE(name, ...)                                                                      \
    {#name "_b32", "", run_##name, NULL, 0, EMU_SCALAR},                                           \
        {#name "_b64", "", run_##name, NULL, 0, EMU_SCALAR},
const Op scalar_ops[] = {
    SOP2(ENTRY) SOPK(ENTRY) COMPARE(ENTRY)
        SAVEEXEC(ENTRY_SAVE){"s_fmaak_f32", "", run_fma, NULL, 0, EMU_SCALAR},
    {"s_fmamk_f32", "", run_fma, NULL, 0, EMU_SCALAR},
    {"s_fmac_f32", "", run_fma, NULL, 1, EMU_SCALAR},
    {"s_cselect_b32", "", run_cselect, NULL, 32, EMU_SCALAR},
    {"s_cselect_b64", "", run_cselect, NULL, 64, EMU_SCALAR},
    {"s_cmov_b32", "", run_cmov, NULL, 32, EMU_SCALAR},
    {"s_cmov_b64", "", run_cmov, NULL, 64, EMU_SCALAR},
    {"s_cmovk_i32", "", run_cmov, NULL, 32, EMU_SCALAR},
    {"s_bitset0_b32", "", run_bitset, NULL, 0, EMU_SCALAR},
    {"s_bitset1_b32", "", run_bitset, NULL, 1, EMU_SCALAR},
    {"s_branch", "", run_branch, NULL, ALWAYS, EMU_SCALAR},
    {"s_cbranch_scc0", "", run_branch, NULL, SCC0, EMU_SCALAR},
    {"s_cbranch_scc1", "", run_branch, NULL, SCC1, EMU_SCALAR},
    {"s_cbranch_vccz", "", run_branch, NULL, VCCZ, EMU_SCALAR},
    {"s_cbranch_vccnz", "", run_branch, NULL, VCCNZ, EMU_SCALAR},
    {"s_cbranch_execz", "", run_branch, NULL, EXECZ, EMU_SCALAR},
    {"s_cbranch_execnz", "", run_branch, NULL, EXECNZ, EMU_SCALAR},
    {"s_endpgm", "", run_end, NULL, 0, EMU_SCALAR},
    {"s_barrier", "", run_barrier, NULL, 0, EMU_WAIT},
    {"s_barrier_signal", "", run_signal, NULL, 0, EMU_WAIT},
    {"s_barrier_wait", "", run_barrier_wait, NULL, 0, EMU_WAIT},
    {"s_set_gpr_idx_on", "", run_index_on, NULL, 0, EMU_SCALAR},
    {"s_set_gpr_idx_off", "", run_index_off, NULL, 0, EMU_SCALAR},
    {"s_setpc_b64", "", run_setpc, NULL, 0, EMU_SCALAR},
    {"s_getpc_b64", "", run_getpc, NULL, 0, EMU_SCALAR},
    {NULL, NULL, NULL, NULL, 0, 0},
};
