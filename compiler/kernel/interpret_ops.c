/* interpret_ops.c - operations on values in all lanes: loops over flat arrays from the meanings in
 * ops.def. */
#include "interpret.h"

#include <string.h>

#include "meaning.h"

// clang-format off
/* One loop per operation and type; rows whose rule does not fit the type vanish. */
#define EACH(NAME, T, R, meaning)                                                                  \
    case AU_K_##NAME: {                                                                            \
        R *restrict out = (R *)(void *)(frame + s->result);                                        \
        for (uint32_t n = 0; n < s->n; n++) {                                                      \
            const T a = x[n], b = y[n], c = z[n];                                                  \
            (void)a, (void)b, (void)c;                                                             \
            out[n] = (R)(meaning);                                                                 \
        }                                                                                          \
        return;                                                                                    \
    }
#define NONE(NAME, meaning)
#define OP(NAME, text, count, rule, flags, meaning, opencl) IN_##rule(NAME, meaning)
#define IN_R_SELECT NONE
#define IN_R_CVT NONE
#define IN_R_DECODE NONE
#define IN_R_ENCODE NONE
#define BEGIN(function, T)                                                                         \
static void function(const AuStep *s, char *frame)                                                 \
{                                                                                                  \
    const T *x = (const T *)(const void *)(frame + s->a);                                          \
    const T *y = (const T *)(const void *)(frame + s->b);                                          \
    const T *z = (const T *)(const void *)(frame + s->c);                                          \
    switch ((int)s->op) {
#define END } }

#define IN_R_LOGIC NONE
#define IN_R_FLOAT NONE
#define IN_R_SAME(NAME, meaning) EACH(NAME, int32_t, int32_t, meaning)
#define IN_R_INT(NAME, meaning)  EACH(NAME, int32_t, int32_t, meaning)
#define IN_R_CMP(NAME, meaning)  EACH(NAME, int32_t, uint8_t, meaning)
BEGIN(on_i32, int32_t)
#include "ops.def"
END
#undef IN_R_SAME
#undef IN_R_INT
#undef IN_R_CMP
#define IN_R_SAME(NAME, meaning) EACH(NAME, int64_t, int64_t, meaning)
#define IN_R_INT(NAME, meaning)  EACH(NAME, int64_t, int64_t, meaning)
#define IN_R_CMP(NAME, meaning)  EACH(NAME, int64_t, uint8_t, meaning)
BEGIN(on_i64, int64_t)
#include "ops.def"
END
#undef IN_R_SAME
#undef IN_R_INT
#undef IN_R_CMP
#undef IN_R_FLOAT
#define IN_R_INT NONE
#define IN_R_SAME(NAME, meaning)  EACH(NAME, float, float, meaning)
#define IN_R_FLOAT(NAME, meaning) EACH(NAME, float, float, meaning)
#define IN_R_CMP(NAME, meaning)   EACH(NAME, float, uint8_t, meaning)
BEGIN(on_f32, float)
#include "ops.def"
END
#undef IN_R_SAME
#undef IN_R_FLOAT
#undef IN_R_CMP
#undef IN_R_LOGIC
#define IN_R_SAME NONE
#define IN_R_FLOAT NONE
#define IN_R_CMP NONE
#define IN_R_LOGIC(NAME, meaning) EACH(NAME, uint8_t, uint8_t, meaning)
BEGIN(on_i1, uint8_t)
#include "ops.def"
EACH(EQ, uint8_t, uint8_t, a == b)
EACH(NE, uint8_t, uint8_t, a != b)
END
#undef IN_R_LOGIC
#undef IN_R_DECODE
#define IN_R_LOGIC NONE
#define IN_R_DECODE(NAME, meaning) EACH(NAME, uint8_t, float, meaning)
BEGIN(on_code, uint8_t)
#include "ops.def"
END
#undef IN_R_DECODE
#undef IN_R_ENCODE
#define IN_R_DECODE NONE
#define IN_R_ENCODE(NAME, meaning) EACH(NAME, float, uint8_t, meaning)
BEGIN(to_code, float)
#include "ops.def"
END
#undef OP

#define SELECT(T)                                                                                  \
    {                                                                                              \
        const T *y = (const T *)(const void *)(frame + s->b), *z = (const T *)(const void *)(frame + s->c); \
        T *out = (T *)(void *)(frame + s->result);                                                 \
        for (uint32_t n = 0; n < s->n; n++) out[n] = x[n] ? y[n] : z[n];                           \
        return;                                                                                    \
    }

static void on_select(const AuStep *s, char *frame)
{
    const uint8_t *x = (const uint8_t *)(frame + s->a);
    switch (s->bytes) {
    case 1: SELECT(uint8_t)
    case 2: SELECT(uint16_t)
    case 4: SELECT(uint32_t)
    case 8: SELECT(uint64_t)
    }
}

#define CONVERT(OF, TO, T, R, meaning)                                                             \
    if (s->of == OF && s->to == TO) {                                                              \
        const T *x = (const T *)(const void *)(frame + s->a);                                      \
        R *out = (R *)(void *)(frame + s->result);                                                 \
        for (uint32_t n = 0; n < s->n; n++) { const T a = x[n]; out[n] = (R)(meaning); }           \
        return;                                                                                    \
    }

static uint64_t bits_at(const char *at, uint32_t bytes)
{
    uint64_t bits = 0;
    memcpy(&bits, at, bytes); /* little endian, as all our hosts */
    return bits;
}

static void on_cvt(const AuStep *s, char *frame)
{
    CONVERT(AU_F32, AU_BF16, float, uint16_t, kernel_to_bf16(a))
    CONVERT(AU_F32, AU_F16, float, uint16_t, kernel_to_f16(a))
    CONVERT(AU_BF16, AU_F32, uint16_t, float, kernel_from_bf16(a))
    CONVERT(AU_F16, AU_F32, uint16_t, float, kernel_from_f16(a))
    CONVERT(AU_I32, AU_I64, int32_t, int64_t, a)
    CONVERT(AU_I64, AU_I32, int64_t, int32_t, a)
    CONVERT(AU_I32, AU_F32, int32_t, float, a)
    CONVERT(AU_F32, AU_I32, float, int32_t, float_to_i32(a))
    const uint32_t from = kernel_scalar_bytes(s->of), to = kernel_scalar_bytes(s->to);
    for (uint32_t n = 0; n < s->n; n++) {
        const uint64_t a = bits_at(frame + s->a + n * from, from);
        const uint64_t out = kernel_evaluate(AU_K_CVT, s->of, s->to, a, 0, 0);
        memcpy(frame + s->result + n * to, &out, to);
    }
}

static void on_dot2(const AuStep *s, char *frame)
{
    const float *x = (const float *)(const void *)(frame + s->a);
    const uint16_t *y = (const uint16_t *)(const void *)(frame + s->b), *z = (const uint16_t *)(const void *)(frame + s->c);
    float *out = (float *)(void *)(frame + s->result);
    float (*const of)(uint16_t) = s->of == AU_BF16 ? kernel_from_bf16 : kernel_from_f16;
    for (uint32_t n = 0; n < s->n; n++)
        out[n] = x[n] + of(y[n]) * of(z[n]) + of(y[s->n + n]) * of(z[s->n + n]);
}
// clang-format on

void kernel_step_value(const AuStep *s, char *frame)
{
    switch ((int)s->op) {
    case AU_K_SELECT: on_select(s, frame); return;
    case AU_K_CVT: on_cvt(s, frame); return;
    case AU_K_DOT2: on_dot2(s, frame); return;
    case AU_K_ELEMENT:
    case AU_K_SLICE:
    case AU_K_BITCAST: memcpy(frame + s->result, frame + s->a, (size_t)s->n * s->bytes); return;
    }
    if (kernel_op_info(s->op)->rule == AU_R_DECODE) {
        on_code(s, frame);
        return;
    }
    if (kernel_op_info(s->op)->rule == AU_R_ENCODE) {
        to_code(s, frame);
        return;
    }
    switch ((AuScalar)s->of) {
    case AU_I1: on_i1(s, frame); return;
    case AU_I32: on_i32(s, frame); return;
    case AU_I64: on_i64(s, frame); return;
    case AU_F32: on_f32(s, frame); return;
    case AU_VOID:
    case AU_F16:
    case AU_BF16:
    case AU_U8:
    case AU_SCALARS: return;
    }
}

/* The first half of the elements from lanes whose number has not the bit, the second from those whose has it. */
static void both(const AuStep *s, uint32_t lanes, char *frame)
{
    const uint32_t width = s->n / lanes / 2, bit = (uint32_t)s->imm;
    const char *x = frame + s->a;
    char *out = frame + s->result;
    for (uint32_t e = 0; e < 2 * width; e++)
        for (uint32_t l = 0; l < lanes; l++) {
            const uint32_t from = e < width ? l & ~bit : l | bit;
            memcpy(out + (e * lanes + l) * s->bytes, x + (e % width * lanes + from) * s->bytes,
                   s->bytes);
        }
}

void kernel_step_lanes(const AuMachine *m, const AuStep *s, char *frame)
{
    const uint32_t lanes = m->k->lanes;
    const char *x = frame + s->a;
    char *out = frame + s->result;
    const int32_t *from = (const int32_t *)(const void *)(frame + s->b);
    if (s->op == AU_K_ANY) {
        memset(out, memchr(x, 1, lanes) != NULL, lanes);
        return;
    }
    if (s->op == AU_K_BOTH) {
        both(s, lanes, frame);
        return;
    }
    for (uint32_t l = 0; l < lanes; l++) {
        const uint32_t other =
            s->op == AU_K_SHUFFLE ? (uint32_t)from[l] % lanes : l ^ (uint32_t)s->imm;
        memcpy(out + l * s->bytes, x + other * s->bytes, s->bytes);
    }
}
