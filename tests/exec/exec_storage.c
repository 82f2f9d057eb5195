/* exec_storage.c - a case with its keys and values in 8 bits: words `e4m3`, `e5m2`, `i8` say how, `token` that each token has a scale of its own. What the
 * oracle then has are the elements, scale times stored, in f32; scales of tokens that no sequence has are NaN. */
#include "internal.h"

#include "codes.h"

#include <math.h>

static AuStored word_of(const Run *r)
{
    return exec_has(r, "e4m3")   ? AU_STORED_E4M3
           : exec_has(r, "e5m2") ? AU_STORED_E5M2
           : exec_has(r, "i8")   ? AU_STORED_I8
                                 : AU_STORED_OPERAND;
}

bool exec_storage(const Run *r, AuStorage storage[2])
{
    const AuStorage one = {.as = word_of(r), .by_token = exec_has(r, "token")};
    storage[0] = storage[1] = one;
    if (exec_has(r, "values")) storage[0] = (AuStorage){.as = AU_STORED_OPERAND};
    return one.as != AU_STORED_OPERAND;
}

static double largest(const Tensor *t, size_t from, size_t count)
{
    double most = 0;
    for (size_t n = from; n < from + count; n++)
        if (fabs(t->values[n]) > most) most = fabs(t->values[n]);
    return most > 0 ? most : 1;
}

/* The tensor's elements become those that codes have. */
static void encode(Run *r, Tensor *t, const AuStorage *s, Tensor *codes, Tensor *scale)
{
    static const AuTileElem elems[] = {TILE_F32, TILE_E4M3, TILE_E5M2, TILE_I8};
    static const double most[] = {1, 448, 57344, 127};
    const int64_t tokens = s->by_token ? t->shape[2] : 1;
    *codes = exec_new_tensor(r, t->name, AU_DT_U8, t->shape, 4);
    *scale =
        exec_new_tensor(r, "scale", AU_DT_F32, (int64_t[]){t->shape[0], t->shape[1], tokens, 1}, 4);
    const size_t group = scale->elements ? t->elements / scale->elements : 0;
    for (size_t g = 0; g < scale->elements; g++) {
        const float factor = (float)(largest(t, g * group, group) / most[s->as] * 0.9);
        exec_put_at(scale, g, (double)factor);
        for (size_t n = g * group; n < (g + 1) * group; n++) {
            const uint8_t code = machine_encode(elems[s->as], (float)t->values[n] / factor);
            exec_put_at(codes, n, code);
            t->values[n] = (double)(factor * machine_decode(elems[s->as], code));
        }
    }
}

Run *exec_stored(Run *r, const AuAttn *attn)
{
    Run *out = AU_NEW(r->arena, Run);
    *out = *r;
    for (uint32_t n = 0; n < 2 && !(n == 1 && attn->v_in_k); n++) {
        if (!attn->storage[n].as) continue;
        encode(r, &r->tensors[1 + n], &attn->storage[n], &out->tensors[1 + n], &out->scales[n]);
        out->tensors[1 + n].role = r->tensors[1 + n].role;
    }
    return out;
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
        if (!attn->storage[n].as) continue;
        const bool rows = attn->storage[n].by_token;
        out->tensors[attn->storage[n].scale] =
            rows ? exec_key_rows(stored, attn, &stored->scales[n])
            : attn->keys.layout == AU_LAYOUT_PADDED ? exec_lines(stored, &stored->scales[n])
                                                    : stored->scales[n];
    }
    return out;
}
