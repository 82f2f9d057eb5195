/* exec_storage.c - a case with its keys and values in 8 or 4 bits: words `e4m3`, `e5m2`, `i8`, `i4` say how, `token` that each token has a scale of its own,
 * `channels16` that so many channels of one have it, `zero` that codes have zero points, `scales16` and `scalesbf` that both are f16 or bf16. What the oracle then has are the elements, scale times
 * stored less zero, in f32, and where they become operands of products by themselves as those are; scales of tokens that no sequence has are NaN. */
#include "internal.h"

#include "codes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static AuStored word_of(const Run *r)
{
    return exec_has(r, "e4m3")   ? AU_STORED_E4M3
           : exec_has(r, "e5m2") ? AU_STORED_E5M2
           : exec_has(r, "i8")   ? AU_STORED_I8
           : exec_has(r, "i4")   ? AU_STORED_I4
                                 : AU_STORED_OPERAND;
}

bool exec_storage(const Run *r, AuStorage storage[2])
{
    const char *channels = r->c->how ? strstr(r->c->how, "channels") : NULL;
    const AuStorage one = {.as = word_of(r),
                           .by_token = channels || exec_has(r, "token"),
                           .channels = channels ? atoi(channels + strlen("channels")) : 0,
                           .has_zero = exec_has(r, "zero"),
                           .scales = exec_has(r, "scales16")   ? AU_DT_F16
                                     : exec_has(r, "scalesbf") ? AU_DT_BF16
                                                               : AU_DT_F32};
    storage[0] = storage[1] = one;
    if (exec_has(r, "values")) storage[0] = (AuStorage){.as = AU_STORED_OPERAND};
    return one.as != AU_STORED_OPERAND;
}

/* The tensor's elements of one scale: rows from one on, and of each so many channels. */
typedef struct Group {
    size_t row, rows, channel, channels;
} Group;

static double largest(const Tensor *t, const Group *g)
{
    double most = 0;
    for (size_t row = g->row; row < g->row + g->rows; row++)
        for (size_t c = g->channel; c < g->channel + g->channels; c++)
            most = fmax(most, fabs(t->values[row * (size_t)t->shape[3] + c]));
    return most > 0 ? most : 1;
}

/* Of two codes in a byte the one of the lower channel is its lower half. */
static float coded(const AuStorage *s, Tensor *codes, size_t n, float x)
{
    static const AuTileElem elems[] = {TILE_F32, TILE_E4M3, TILE_E5M2, TILE_I8, TILE_I8};
    if (s->as != AU_STORED_I4) {
        const uint8_t code = machine_encode(elems[s->as], x);
        exec_put_at(codes, n, code);
        return machine_decode(elems[s->as], code);
    }
    const int code = (int)fmax(fmin(nearbyint((double)x), 7), -8),
              other = n % 2 ? (int)codes->values[n / 2] & 15 : 0;
    exec_put_at(codes, n / 2, (code & 15) << (n % 2 * 4) | other);
    return (float)code;
}

/* As an operand of the products, if it is that before anything else is made of it. */
static double as_operand(const Run *r, double x, bool is_changed)
{
    unsigned char bytes[8];
    const AuDtype d = exec_dtype_of(r->dtype);
    if (is_changed) return x;
    exec_put(bytes, d, x);
    return exec_get(bytes, d);
}

/* Whose scale scale [g] is: where sequences share keys, that of the group's first one. */
static size_t scale_of(const Run *r, const Tensor *t, const AuStorage *s, size_t groups, size_t g)
{
    const int64_t heads = t->shape[1], tokens = s->by_token ? t->shape[2] : 1,
                  token = (int64_t)(g / groups), b = token / tokens / heads;
    if (s->by_token && token % tokens >= exec_shared(r)) return g;
    return g - (size_t)((b - exec_leader(r, b)) * heads * tokens) * groups;
}

static float held(const Tensor *t, size_t n)
{
    return (float)exec_get(t->bytes + n * exec_bytes_of(t->dtype), t->dtype);
}

/* The tensor's elements become those that codes have. */
static void encode(Run *r, Tensor *t, const AuStorage *s, bool is_changed, Run *out, uint32_t n)
{
    static const double most[] = {1, 448, 57344, 127, 7}; /* ORDER AuStored */
    const size_t width = (size_t)t->shape[3], keys = (size_t)t->shape[2],
                 each = s->channels ? (size_t)s->channels : width, groups = width / each;
    const int64_t tokens = s->by_token ? t->shape[2] : 1, bytes = s->as == AU_STORED_I4 ? 2 : 1,
                  scales[4] = {t->shape[0], t->shape[1], tokens, (int64_t)groups},
                  shape[4] = {t->shape[0], t->shape[1], t->shape[2], t->shape[3] / bytes};
    Tensor *codes = &out->tensors[1 + n], *scale = &out->scales[n], *zero = &out->zeros[n];
    *codes = exec_new_tensor(r, t->name, AU_DT_U8, shape, 4);
    *scale = exec_new_tensor(r, "scale", s->scales, scales, 4);
    *zero = exec_new_tensor(r, "zero", s->scales, scales, 4);
    for (size_t g = 0; g < scale->elements; g++) {
        const size_t rows = s->by_token ? 1 : keys, from = scale_of(r, t, s, groups, g);
        const Group at = {g / groups * rows, rows, g % groups * each, each};
        double tight = largest(t, &at) / most[s->as] * (s->has_zero ? 1.2 : 0.9);
        /* some kernels round elements of halves and others multiply what products give: the same where scales are powers of two */
        if (attn_stores_halves(s) && !attn_scales_parts(s)) tight = exp2(ceil(log2(tight)));
        exec_put_at(scale, g, from == g ? tight : scale->values[from]);
        exec_put_at(zero, g, s->has_zero ? ((double)(from % 7) - 2.75) / 16 * most[s->as] : 0);
        const float factor = held(scale, g), shift = held(zero, g);
        for (size_t i = 0; i < rows * each; i++) {
            const size_t e = (at.row + i / each) * width + at.channel + i % each;
            const float code = coded(s, codes, e, (float)t->values[e] / factor + shift);
            t->values[e] = (double)(factor * (code - shift));
            if (attn_stores_parts(s)) t->values[e] = as_operand(r, t->values[e], is_changed);
        }
    }
}

Run *exec_stored(Run *r, const AuAttn *attn)
{
    Run *out = AU_NEW(r->arena, Run);
    *out = *r;
    for (uint32_t n = 0; n < 2 && !(n == 1 && attn->v_in_k); n++) {
        if (!attn->storage[n].as) continue;
        encode(r, &r->tensors[1 + n], &attn->storage[n], (n ? attn->v_mod : attn->k_mod).i != 0,
               out, n);
        out->tensors[1 + n].role = r->tensors[1 + n].role;
    }
    return out;
}

/* A scale or a zero point as it lies beside the rows. */
static Tensor beside(Run *stored, const AuAttn *attn, const AuStorage *s, Tensor *dense)
{
    return s->by_token ? exec_key_rows(stored, attn, dense) : exec_sequences(stored, attn, dense);
}

Run *exec_with_scales(Run *stored, Run *laid_out, AuAttn *attn)
{
    Run *out = laid_out;
    if (out == stored) { /* dense */
        out = AU_NEW(stored->arena, Run);
        *out = *stored;
        out->attn = attn;
        exec_add_outputs(stored, out);
    }
    for (uint32_t n = 0; n < 2 && !(n == 1 && attn->v_in_k); n++) {
        const AuStorage *s = &attn->storage[n];
        if (!s->as) continue;
        out->tensors[s->scale] = beside(stored, attn, s, &stored->scales[n]);
        if (s->has_zero) out->tensors[s->zero] = beside(stored, attn, s, &stored->zeros[n]);
    }
    return out;
}
