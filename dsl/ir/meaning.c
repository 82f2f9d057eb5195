/* meaning.c - operations on single numbers, the random numbers of dropout, and rounding to element
 * types. */
#include "meaning.h"
#include "round.h"

double attn_eval_op(AuOp op, AuType type, double a, double b, double c)
{
    double result = 0;
    if (op == AU_OP_MUL && type == AU_T_I32) return wrap_product(a, b);
    switch (op) {
#define OP(NAME, text, count, rule, flags, meaning)                                                \
    case AU_OP_##NAME:                                                                             \
        result = meaning;                                                                          \
        break;
#include "ops.def"
#undef OP
    case AU_NO_OP: /* leaves, which take their values from elsewhere */
    case AU_OP_F32:
    case AU_OP_I32:
    case AU_OP_SIZE:
    case AU_OP_INDEX:
    case AU_OP_KV_H:
    case AU_OP_PARAM:
    case AU_OP_INPUT:
    case AU_OP_SCORE:
    case AU_OP_WEIGHT:
    case AU_OP_DWEIGHT:
    case AU_OP_ELEMENT:
    case AU_OP_STATE:
    case AU_OP_STATE_B:
    case AU_OP_FINAL:
    case AU_OP_DELTA:
    case AU_OP_DFINAL:
    case AU_OP_ADJOINT:
    case AU_OP_PASS:
    case AU_OP_DELEMENT:
    case AU_OP_TENSOR:
    case AU_OP_ROWMAX:
    case AU_OP_ROWSUM:
    case AU_OP_ROW_SUM_C:
    case AU_OP_DOT:
    case AU_OP_ROPE:
    case AU_OP_DROPOUT:
    case AU_OP_SEED_WORD:
    case AU_OP_COUNT: break;
    }
    return type == AU_T_I32 ? as_i32(result) : result;
}

void attn_philox(const uint32_t key[2], const uint32_t counter[4], uint32_t out[4])
{
    uint32_t k0 = key[0], k1 = key[1];
    uint32_t x0 = counter[0], x1 = counter[1], x2 = counter[2], x3 = counter[3];
    for (int round = 0; round < 10; round++) {
        const uint64_t p0 = (uint64_t)0xD2511F53u * x0, p1 = (uint64_t)0xCD9E8D57u * x2;
        x0 = (uint32_t)(p1 >> 32) ^ x1 ^ k0;
        x1 = (uint32_t)p1;
        x2 = (uint32_t)(p0 >> 32) ^ x3 ^ k1;
        x3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = x0, out[1] = x1, out[2] = x2, out[3] = x3;
}

double attn_dropout_uniform(const uint32_t seed[2], uint32_t b, uint32_t h, uint32_t q_idx,
                            uint32_t kv_idx)
{
    uint32_t words[4];
    attn_philox(seed, (const uint32_t[4]){b, h, q_idx, kv_idx}, words);
    return (words[0] >> 8) * 0x1p-24;
}

/* A significand of [bits] bits, the leading one included, and no finer step than 2^[least]. */
static double round_bits(double x, int bits, int least, double largest)
{
    const double rounded = au_round_bits(x, bits, least);
    return fabs(rounded) > largest ? copysign(INFINITY, x) : rounded;
}

double attn_round(double x, AuDtype dtype)
{
    switch (dtype) {
    case AU_DT_F32: return (double)(float)x;
    case AU_DT_F16: return round_bits(x, 11, -24, 65504.0);
    case AU_DT_BF16: return round_bits(x, 8, -133, 3.3895313892515355e38);
    case AU_DT_OPERAND:
    case AU_DT_I32:
    case AU_DT_I64:
    case AU_DT_U8:
    case AU_DT_BOOL: break;
    }
    return x;
}

double attn_round_tf32(double x) { return round_bits(x, 11, -136, 3.4011621342146535e38); }

double attn_scalar(const AuAttn *a, AuExpr e, const int64_t *sizes, const double *params)
{
    double *value = AU_NEW_ARRAY(a->arena, double, e.i + 1);
    for (uint32_t i = 1; i <= e.i; i++) {
        const AuNode *n = &a->nodes[i];
        double x[3] = {0};
        for (uint32_t k = 0; k < n->count && k < 3; k++) x[k] = value[a->args[n->first + k].i];
        if (n->op == AU_OP_F32)
            value[i] = n->number;
        else if (n->op == AU_OP_I32)
            value[i] = n->integer;
        else if (n->op == AU_OP_SIZE)
            value[i] = sizes ? (double)sizes[n->integer] : 0;
        else if (n->op == AU_OP_PARAM)
            value[i] = params ? params[n->integer] : 0;
        else
            value[i] = attn_eval_op((AuOp)n->op, (AuType)n->type, x[0], x[1], x[2]);
    }
    return value[e.i];
}
