/* append_test.c - the operation `append` on the interpreters of both IRs, for processors, GPUs and what is known of neither: each byte of the
 * cache beside what a few lines of C make of the same numbers, gaps between rows and slots that nobody has among them.
 *
 *     append_test [RUNG...]     all, or those: "kernel-ir:sm_80"
 *     append_test orders        on two, in 50 orders of blocks and threads, the same bits in each (exec_orders.c) */
#include "internal.h"

#include "append.h"
#include "driver.h"
#include "layouts.h"
#include "storage.h"
#include "tensors.h"

#include "aule/artifact.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Case {
    const char *name, *script, *layout, *storage; /* "S=packed,T=paged" */
    bool slots;                                   /* say where rows go */
    int32_t b, n, hk, hv, d, e;                   /* new rows are [b, h, n, ..] */
    int32_t rows, entries;                        /* of a page or a sequence; of the table */
    bool odd;                                     /* strides with gaps */
} Case;

#define HEADS "attention a { q: [B, H, S, D]; k: [B, Hk, T, D]; v: [B, Hk, T, E]; online softmax; }"
#define APART "attention a { q: [B, H, S, D]; k: [B, Hk, T, D]; v: [B, Hv, T, E]; online softmax; }"
#define FURTHER                                                                                    \
    "attention a { q: [B, H, S, D]; k: [B, Hk, T, D]; v: [B, Hk, T, E]; input x: [B, 1, T, P]; "   \
    "input y: [B, H, S, P]; "                                                                      \
    "score_mod(s, b, h) = s + dot(y[b, h, q_idx], x[b, 0, kv_idx]); online softmax; }"
#define LATENT "attention a { q: [B, H, S, D]; k: [B, Hk, T, D]; v = k[.., 0:8]; online softmax; }"

// clang-format off
static const Case cases[] = {
    {"dense, the last rows", HEADS, NULL, NULL, false, 3, 5, 2, 2, 16, 24, 19, 0, false},
    {"dense, more rows than there are", HEADS, NULL, NULL, false, 2, 7, 1, 1, 40, 8, 4, 0, true},
    {"dense, slots", HEADS, NULL, NULL, true, 3, 5, 2, 2, 16, 72, 19, 0, true},
    {"padded, the last rows", HEADS, "T=padded", NULL, false, 6, 5, 2, 2, 32, 32, 19, 0, false},
    {"padded, slots, heads apart", APART, "T=padded", NULL, true, 3, 5, 2, 3, 64, 128, 19, 0, false},
    {"pages of 16, the last rows", HEADS, "T=paged", NULL, false, 6, 5, 2, 2, 64, 64, 16, 3, false},
    {"pages of 1, heads apart", APART, "T=paged", NULL, false, 6, 3, 2, 1, 16, 33, 1, 40, true},
    {"pages of 7, slots", HEADS, "T=paged", NULL, true, 3, 9, 2, 2, 128, 32, 7, 3, true},
    {"pages of 16, latent keys", LATENT, "T=paged", NULL, false, 6, 5, 1, 1, 72, 8, 16, 3, false},
    {"one row each", HEADS, "T=paged", NULL, false, 6, 1, 4, 4, 64, 64, 16, 3, false},
    {"no row", HEADS, "T=paged", NULL, true, 2, 0, 2, 2, 16, 16, 16, 3, false},
    {"packed rows over pages", HEADS, "S=packed,T=paged", NULL, false, 6, 23, 2, 2, 16, 24, 16, 3, true},
    {"packed rows over padded keys", HEADS, "S=packed,T=padded", NULL, false, 6, 23, 1, 1, 16, 24, 40, 0, false},
    {"packed rows, slots", HEADS, "S=packed,T=paged", NULL, true, 1, 23, 2, 2, 16, 24, 16, 3, false},
    {"pages, rows of the table", HEADS, "T=paged:rows", NULL, false, 6, 5, 2, 2, 16, 24, 16, 3, false},
    {"rows of a cache", HEADS, "T=padded:rows", "e4m3", false, 6, 5, 2, 2, 32, 24, 19, 0, true},
    {"rows of a whole cache, slots", HEADS, "T=dense:rows", "k=i8,v=i8:token", true, 6, 5, 2, 2, 32, 24, 19, 0, false},
    {"rows of a whole cache", HEADS, "T=dense:rows", "v=i8:token", false, 6, 5, 2, 2, 32, 24, 19, 0, false},
    {"packed rows, rows of the table", HEADS, "S=packed,T=paged:rows", NULL, false, 6, 23, 2, 2, 16, 24, 16, 3, false},
    {"e4m3, a scale a head", HEADS, "T=paged", "e4m3", false, 6, 5, 2, 2, 64, 24, 16, 3, false},
    {"e5m2 and i8, slots", HEADS, "T=padded", "k=e5m2,v=i8", true, 3, 5, 2, 2, 16, 72, 19, 0, true},
    {"e4m3, slots of pages", HEADS, "T=paged", "e4m3", true, 3, 5, 2, 2, 64, 64, 16, 3, false},
    {"e4m3, a scale a token", HEADS, "T=paged", "e4m3:token", false, 6, 5, 2, 2, 64, 40, 16, 3, true},
    {"i8, a scale a token, slots", APART, "T=paged", "i8:token", true, 3, 9, 2, 1, 128, 16, 7, 3, false},
    {"e5m2, a scale a token, padded", HEADS, "T=padded", "e5m2:token", false, 6, 5, 2, 2, 16, 16, 19, 0, true},
    {"i8 of values alone", HEADS, NULL, "v=i8:token", false, 3, 5, 2, 2, 32, 24, 19, 0, false},
    {"latent keys in i8", LATENT, "T=paged", "i8:token", true, 3, 5, 1, 1, 72, 8, 16, 3, false},
    {"packed rows, a scale a token", HEADS, "S=packed,T=paged", "e4m3:token", false, 6, 23, 2, 2, 16, 24, 16, 3, false},
    {"i4, a scale a head", HEADS, "T=paged", "i4", false, 6, 5, 2, 2, 64, 24, 16, 3, false},
    {"i4, a scale a token", HEADS, "T=padded", "i4:token", false, 6, 5, 2, 2, 16, 40, 19, 0, true},
    {"i4, scales of groups, zero points", HEADS, "T=paged", "i4:channels8:zero", false, 6, 5, 2, 2, 64, 128, 16, 3, false},
    {"groups of channels, slots", HEADS, "T=paged", "k=e4m3:channels32,v=i8:channels8:zero", true, 3, 5, 2, 2, 64, 24, 16, 3, true},
    {"zero points of heads and tokens", APART, "T=paged", "k=i8:zero,v=e5m2:token:zero", false, 6, 5, 2, 1, 32, 16, 7, 3, false},
    {"further product, the last rows", FURTHER, NULL, NULL, false, 3, 5, 2, 2, 16, 24, 19, 0, true},
    {"further product, pages", FURTHER, "T=paged", NULL, false, 6, 5, 2, 2, 16, 40, 7, 3, false},
    {"further product, slots of pages, codes beside it", FURTHER, "T=paged", "v=i8:token", true, 3, 9, 2, 2, 32, 24, 16, 3, true},
    {"further product, packed rows, rows of a cache", FURTHER, "S=packed,T=padded:rows", NULL, false, 6, 23, 2, 2, 16, 64, 40, 0, false},
    {"scales of f16", HEADS, "T=paged", "i8:token:f16", false, 6, 5, 2, 2, 64, 40, 16, 3, true},
    {"scales and zero points of f16", HEADS, "T=padded", "k=i8:token:zero:f16,v=i4:channels8:zero:f16", false, 6, 5, 2, 2, 64, 128, 19, 0, false},
    {"of bf16, slots", APART, "T=paged", "k=i4:channels8:zero:bf16,v=e4m3:token:bf16", true, 3, 9, 2, 1, 32, 16, 7, 3, false},
    {"given scales of 16 bits", HEADS, "T=paged", "k=e5m2:f16,v=i8:zero:bf16", false, 6, 5, 2, 2, 64, 24, 16, 3, false},
    {"latent keys in i4", LATENT, "T=paged", "i4:token:zero", true, 3, 5, 1, 1, 72, 8, 16, 3, false},
};
static const char *const rungs[] = {
    "tiled-ir:sm_80", "kernel-ir:sm_80", "passed-ir:sm_80", "kernel-ir:sm_90", "kernel-ir:generic", "tiled-ir:generic",
    "kernel-ir:x86-64-v4", "tiled-ir:x86-64-v4", "kernel-ir:x86-64-v3", "kernel-ir:aarch64", "kernel-ir:sm_70", "kernel-ir:gfx942", "kernel-ir:vulkan",
};
// clang-format on
static const char *const dtypes[] = {"f32", "f16", "bf16"};

/* ---- the numbers of a case */

static double drawn(Run *r)
{
    r->random = r->random * 6364136223846793005u + 1442695040888963407u; /* Knuth, MMIX */
    return (double)(r->random >> 40) / 8388608 - 1;
}

/* Rows of zeros, with one NaN or infinity, very large and very small ones among them. */
static double new_number(Run *r, size_t row, size_t column)
{
    const double v = drawn(r);
    switch (row % 11) {
    case 3: return 0;
    case 5: return column == 2 ? (double)NAN : v;
    case 7: return column == 3 ? (double)-INFINITY : v;
    case 8: return v * 30000;
    case 9: return v * 1e-7;
    }
    return v;
}

/* Of a kernel's lists some are wrong: no kernel may follow them. The tiled interpreter has i64 as i32. */
static double list_number(Run *r, const Case *c, const AuTensorRow *row, size_t n, int64_t all)
{
    static const double wrong[] = {-1, 1e6, -2147483648.0, 2147483647};
    const bool is_tiled = strncmp(r->suite->name, "kernel", 6) != 0;
    const double room = (double)(c->rows * (c->entries ? c->entries : 1));
    if (row->role == AULE_ROLE_NEW_SLOTS)
        return n % 5 == 4 ? n % 2 && !is_tiled ? 4294967296.0 + 2
                            : n % 3            ? wrong[n / 5 % 4]
                                               : (double)all
                          : (double)((int64_t)n * 11 % all);
    if (row->flags & AULE_TENSOR_TABLE) return n % 4 == 3 ? wrong[n / 4 % 4] : (double)(n + 1);
    if (row->flags & AULE_TENSOR_ROWS) { /* in another order; one is none */
        const double lines[] = {7, 2, 0, 9, 1, -1};
        return lines[n % 6];
    }
    if (row->flags & AULE_TENSOR_LENGTHS) {
        const double lengths[] = {room, 3, 0, room + 2, -7, 17};
        return lengths[n % 6];
    }
    const double starts[] = {0, 5, 5, 6, 9, 9, 20}; /* of packed rows; none has those behind */
    return starts[n % 7];
}

/* Axes from the innermost one outwards; with gaps that are no multiples of anything. */
static void lay_out(Run *r, const Case *c, Tensor *t)
{
    int64_t step = c->odd ? 3 : 1;
    t->span = 1;
    for (uint32_t d = t->rank; d-- > 0;) {
        t->strides[d] = step;
        step = step * t->shape[d] + (c->odd ? 5 : 0);
        t->span += (size_t)(t->shape[d] > 0 ? (t->shape[d] - 1) * t->strides[d] : 0);
    }
    t->bytes = au_alloc(r->arena, (t->span + 1) * exec_bytes_of(t->dtype) + 16);
    memset(t->bytes, 0x7f, (t->span + 1) * exec_bytes_of(t->dtype));
}

static bool is_passed(const Case *c, const AuTensorRow *row)
{
    switch (row->role) {
    case AULE_ROLE_K: return true;
    case AULE_ROLE_V: return !(row->flags & AULE_TENSOR_IN_K);
    case AULE_ROLE_NEW: return true;
    case AULE_ROLE_NEW_SLOTS: return c->slots;
    case AULE_ROLE_INPUT:
        return row->flags & AULE_TENSOR_CACHED && !(c->slots && row->flags & AULE_TENSOR_LISTS);
    default: return false;
    }
}

static Tensor make(Run *r, const Case *c, const AuTensorRow *row)
{
    Tensor t = {.name = row->name, .rank = row->rank, .role = row->role, .elements = 1};
    t.dtype = row->stored                   ? AU_DT_U8
              : row->dtype == AU_DT_OPERAND ? exec_dtype_of(r->dtype)
                                            : row->dtype;
    t.output =
        row->role == AULE_ROLE_K || row->role == AULE_ROLE_V || row->flags & AULE_TENSOR_APPENDED;
    for (uint32_t d = 0; d < t.rank; d++) {
        t.shape[d] = (int64_t)attn_scalar(r->attn, row->axes[d], r->sizes, r->params);
        t.elements *= (size_t)t.shape[d];
    }
    lay_out(r, c, &t);
    t.values = AU_NEW_ARRAY(r->arena, double, t.elements + 1);
    const int64_t all = r->tensors[1].shape[0] * r->tensors[1].shape[2];
    for (size_t n = 0; n < t.elements; n++) {
        const size_t width = (size_t)t.shape[t.rank - 1];
        const double v = row->role == AULE_ROLE_NEW ? new_number(r, n / width, n % width)
                         : t.dtype == AU_DT_I32 || t.dtype == AU_DT_I64
                             ? list_number(r, c, row, n, all)
                         : t.output                     ? 0x31
                         : row->role == AULE_ROLE_INPUT ? 0.01 + 0.003 * (double)(n % 7)
                                                        : 0;
        unsigned char *at = t.bytes + exec_memory_index(&t, n) * exec_bytes_of(t.dtype);
        const int64_t wide = (int64_t)(isfinite(v) ? v : 0);
        exec_put(at, t.dtype, v);
        if (t.dtype == AU_DT_I64) memcpy(at, &wide, sizeof wide);
        t.values[n] = t.dtype == AU_DT_I64 ? (double)wide : exec_get(at, t.dtype);
    }
    return t;
}

/* ---- what must be there then */

/* A number of 8 bits by its definition: s eeee mmm, s eeeee mm; a NaN of either is the code 0x7f. */
static double decoded(AuStored as, unsigned code)
{
    if (as == AU_STORED_I8) return (double)(signed char)code;
    if (as == AU_STORED_I4) return (double)((int)(code & 15) - (code & 8 ? 16 : 0));
    const int bits = as == AU_STORED_E4M3 ? 3 : 2, bias = as == AU_STORED_E4M3 ? 7 : 15;
    const int exponent = (int)(code & 0x7f) >> bits, mantissa = (int)code & ((1 << bits) - 1);
    const double size = exponent ? ldexp((1 << bits) + mantissa, exponent - bias - bits)
                                 : ldexp(mantissa, 1 - bias - bits);
    return code & 0x80 ? -size : size;
}

/* The nearest of all numbers, of two the even one; what is larger than all of them is the largest. */
static unsigned encoded(AuStored as, double v)
{
    const unsigned top = as == AU_STORED_E4M3 ? 0x7e : as == AU_STORED_E5M2 ? 0x7b : 0x7f;
    unsigned best = 0;
    double far = INFINITY;
    const bool whole = as == AU_STORED_I8 || as == AU_STORED_I4;
    if (isnan(v)) return whole ? 0 : 0x7f;
    for (unsigned code = 0; code < (as == AU_STORED_I4 ? 16 : 256); code++) {
        if (!whole && (code & 0x7f) > top) continue;
        double away = fabs(decoded(as, code) - v);
        if (isinf(v)) away = -decoded(as, code) * (v > 0 ? 1 : -1);
        const bool even = !(code & 1) && (best & 1);
        const bool sign = whole || (code & 0x80) == (signbit(v) ? 0x80u : 0u);
        if (sign && (away < far || (away == far && even))) far = away, best = code;
    }
    return best;
}

static int64_t list_at(const Tensor *t, int64_t n) { return (int64_t)t->values[n]; }

/* Row n of batch m: page or sequence, and the row of it. false: it is written nowhere. */
static bool place_of(const Run *r, const Case *c, int64_t m, int64_t n, int64_t *sequence,
                     int64_t *page, int64_t *row)
{
    const AuRowLayout *keys = &r->attn->keys;
    const Tensor *k = &r->tensors[1];
    const int64_t rows = k->shape[2];
    int64_t b = m, count = c->n, token = n, length = rows;
    if (c->slots) {
        const int64_t slot =
            list_at(&r->tensors[exec_find_role(r, AULE_ROLE_NEW_SLOTS, 0)], m * c->n + n);
        *page = slot / (rows ? rows : 1), *row = slot % (rows ? rows : 1);
        *sequence = keys->layout == AU_LAYOUT_PAGED ? m : *page;
        return slot >= 0 && slot < k->shape[0] * rows;
    }
    if (r->attn->queries.layout == AU_LAYOUT_PACKED) {
        const Tensor *starts = &r->tensors[r->attn->queries.starts];
        for (b = 0; b < c->b && !(n >= list_at(starts, b) && n < list_at(starts, b + 1));) b++;
        if (b == c->b) return false;
        token = n - list_at(starts, b), count = list_at(starts, b + 1) - list_at(starts, b);
    }
    const int64_t line = keys->has_rows ? list_at(&r->tensors[keys->rows], b) : b;
    if (line < 0 || (keys->has_rows && line >= r->sizes[keys->lines])) return false;
    if (keys->layout && !keys->has_no_lengths) length = list_at(&r->tensors[keys->lengths], b);
    const int64_t at = (length < 0 ? 0 : length) - count + token;
    *sequence = keys->layout == AU_LAYOUT_PAGED ? b : line, *page = line, *row = at;
    if (keys->layout != AU_LAYOUT_PAGED) return at >= 0 && at < rows;
    if (at < 0 || at >= rows * c->entries) return false;
    *page = list_at(&r->tensors[keys->table], line * c->entries + at / rows), *row = at % rows;
    return *page >= 0 && *page < k->shape[0];
}

static size_t index_of(const Tensor *t, int64_t p, int64_t h, int64_t row, int64_t column)
{
    const int64_t at[] = {p, h, row, column};
    size_t n = 0;
    for (uint32_t d = 0; d < 4; d++)
        n = n * (size_t)t->shape[d] + (size_t)(t->shape[d] > 1 ? at[d] : 0);
    return n;
}

static void put(const Tensor *t, unsigned char *bytes, size_t n, double v)
{
    exec_put(bytes + exec_memory_index(t, n) * exec_bytes_of(t->dtype), t->dtype, v);
}

/* Of k (0), v (1), rows of keys of a further product (2), which is tensor 3 and has no codes. */
static AuStorage storage_of(const Run *r, uint32_t side)
{
    return side < 2 ? r->attn->storage[side] : (AuStorage){0};
}

static uint32_t sides_of(const Run *r)
{
    return r->attn->v_in_k ? 1 : r->attn->tensor_count > 3 && r->attn->tensors[3].as_keys ? 3 : 2;
}

/* What a side's tensors must be. */
typedef struct Wanted {
    unsigned char *cache, *scale, *zero;
} Wanted;

/* The largest of [sign] times each number, or of their sizes (0); NaN where one is. */
static float largest_of(const double *row, int64_t count, float sign)
{
    float top = -INFINITY;
    for (int64_t e = 0; e < count; e++) {
        const float v = (float)row[e], x = sign != 0 ? sign * v : fabsf(v);
        if (!(x <= top)) top = isnan(top) ? top : x;
    }
    return top;
}

typedef struct Place {
    int64_t sequence, page, h, row;
} Place;

/* Scales and zero points as their tensors hold them. */
static float as_held(const AuStorage *s, float x)
{
    unsigned char bytes[8];
    exec_put(bytes, s->scales, (double)x);
    return (float)exec_get(bytes, s->scales);
}

/* For numbers that reach over [spread] of so many codes. Of 16 bits: no zero point is beyond 2^15 and some codes, and one that is no normal number
 * is not less than it would be. */
static float made_scale(const AuStorage *s, float spread, float codes, float apart)
{
    if (s->scales == AU_DT_F32) return spread < 0x1p-100f ? 1 : spread / codes;
    const float scale = spread / codes + fabsf(apart) * 0x1p-16f;
    return as_held(s, scale < 0x1p-100f ? 1 : s->scales == AU_DT_F16 ? scale + 0x1p-25f : scale);
}

/* The scale of a group of channels of one row, and its zero point: given, or made of them. */
static void scale_of(const Run *r, const AuStorage *s, const double *row, int64_t count,
                     int64_t group, const Place *at, const Wanted *want, float *scale, float *zero)
{
    static const float most[] = {1, 448, 57344, 127, 7};
    const Tensor *scales = &r->tensors[s->scale], *zeros = &r->tensors[s->zero];
    const float high = most[s->as], low = s->as >= AU_STORED_I8 ? -high - 1 : -high;
    if (!s->by_token) {
        *scale = (float)scales->values[index_of(scales, at->sequence, at->h, 0, 0)];
        if (s->has_zero) *zero = (float)zeros->values[index_of(zeros, at->sequence, at->h, 0, 0)];
        return;
    }
    if (s->has_zero) {
        const float under = largest_of(row, count, -1), top = largest_of(row, count, 1);
        *scale = made_scale(s, top + under, high - low, top - under);
        *zero = as_held(s, under / *scale + low);
        put(zeros, want->zero, index_of(zeros, at->page, at->h, at->row, group), (double)*zero);
    } else {
        *scale = made_scale(s, largest_of(row, count, 0), high, 0);
    }
    put(scales, want->scale, index_of(scales, at->page, at->h, at->row, group), (double)*scale);
}

/* One row of a side, of a head. Of two codes in a byte the lower channel's is the lower half. */
static void write_row(const Run *r, uint32_t side, size_t from, int64_t width, const Place *at,
                      const Wanted *want)
{
    const AuStorage stored = storage_of(r, side), *s = &stored;
    const Tensor *cache = &r->tensors[1 + side],
                 *given = &r->tensors[exec_find_role(r, AULE_ROLE_NEW, side)];
    const int64_t each = s->channels ? s->channels : width;
    const bool halves = s->as == AU_STORED_I4;
    float scale = 1, zero = 0;
    unsigned low = 0;
    for (int64_t e = 0; e < width; e++) {
        const double *row = given->values + from;
        if (s->as && e % each == 0)
            scale_of(r, s, row + e, each, e / each, at, want, &scale, &zero);
        const float x = (float)row[e] / scale;
        const unsigned code = s->as ? encoded(s->as, (double)(s->has_zero ? x + zero : x)) : 0;
        if (halves && e % 2 == 0) low = code;
        if (halves && e % 2 == 0) continue;
        put(cache, want->cache, index_of(cache, at->page, at->h, at->row, halves ? e / 2 : e),
            halves  ? (double)(code << 4 | low)
            : s->as ? (double)code
                    : row[e]);
    }
}

static unsigned char *copy_of(Run *r, const Tensor *t)
{
    const size_t bytes = (t->span + 1) * exec_bytes_of(t->dtype);
    return memcpy(au_alloc(r->arena, bytes), t->bytes, bytes);
}

static void expect(Run *r, const Case *c, uint32_t side, const Wanted *want)
{
    const Tensor *given = &r->tensors[exec_find_role(r, AULE_ROLE_NEW, side)];
    const int64_t heads = given->shape[1], width = given->shape[3];
    for (int64_t m = 0; m < given->shape[0]; m++)
        for (int64_t h = 0; h < heads; h++)
            for (int64_t n = 0; n < c->n; n++) {
                Place at = {.h = h};
                if (place_of(r, c, m, n, &at.sequence, &at.page, &at.row))
                    write_row(r, side, (size_t)(((m * heads + h) * c->n + n) * width), width, &at,
                              want);
            }
}

/* NaN has many bits, one of which kernels choose. */
static bool is_same(const Tensor *t, const unsigned char *want, char *where, size_t room)
{
    const size_t bytes = exec_bytes_of(t->dtype);
    for (size_t n = 0; n < t->span; n++) {
        const unsigned char *a = t->bytes + n * bytes, *b = want + n * bytes;
        if (memcmp(a, b, bytes) == 0) continue;
        if (t->dtype == AU_DT_U8 ? (*a & 0x7f) != 0x7f || (*b & 0x7f) != 0x7f
                                 : !isnan(exec_get(a, t->dtype)) || !isnan(exec_get(b, t->dtype))) {
            snprintf(where, room, "element %zu in memory is %g, expected %g", n,
                     exec_get(a, t->dtype), exec_get(b, t->dtype));
            return false;
        }
    }
    return true;
}

static bool compare(Run *r, uint32_t sides, const Wanted *wanted)
{
    bool good = true;
    char where[100];
    for (uint32_t side = 0; side < sides; side++) {
        const AuStorage stored = storage_of(r, side), *s = &stored;
        const Wanted *want = &wanted[side];
        if (!is_same(&r->tensors[1 + side], want->cache, where, sizeof where))
            good = exec_fail(r, r->tensors[1 + side].name, where);
        if (s->as && !is_same(&r->tensors[s->scale], want->scale, where, sizeof where))
            good = exec_fail(r, r->tensors[s->scale].name, where);
        if (s->has_zero && !is_same(&r->tensors[s->zero], want->zero, where, sizeof where))
            good = exec_fail(r, r->tensors[s->zero].name, where);
    }
    return good;
}

/* ---- a case */

static void set_size(Run *r, const char *name, int64_t value)
{
    const int32_t at = attn_size_of(r->attn, name);
    if (at >= 0) r->sizes[at] = value;
}

static bool attention(Run *r, const Case *c)
{
    uint32_t count;
    const AuScript *script =
        front_parse(r->arena, r->names, r->diags,
                    au_source_add(r->diags, "append.attn", c->script, strlen(c->script)));
    AuAttn *a = r->attn = front_check(r->arena, r->names, r->diags, script, &count)[0];
    const struct {
        const char *name;
        int32_t width;
    } widths[] = {{"D", c->d}, {"E", c->e}, {"P", c->e}};
    for (size_t n = 0; n < sizeof widths / sizeof *widths; n++)
        if (attn_size_of(a, widths[n].name) >= 0)
            a->sizes[attn_size_of(a, widths[n].name)].fixed = widths[n].width;
    attn_simplify(a);
    AuAxisLayout layouts[2];
    uint32_t layout_count = 0;
    const bool packed = c->layout && strstr(c->layout, "packed");
    if (packed) layouts[layout_count++] = (AuAxisLayout){.layout = AU_LAYOUT_PACKED, .axis = "S"};
    if (c->layout)
        layouts[layout_count++] = (AuAxisLayout){
            .layout = strstr(c->layout, "paged") ? AU_LAYOUT_PAGED : AU_LAYOUT_PADDED,
            .has_no_lengths = strstr(c->layout, "dense") != NULL,
            .axis = "T",
            .rows = strstr(c->layout, "rows") != NULL};
    AuStorage storage[2] = {{0}, {0}};
    if (c->storage && driver_read_storage(r->arena, c->storage, storage)) return false;
    if (!driver_add_layouts(r->arena, r->diags, a, layouts, layout_count) ||
        !driver_add_storage(r->arena, r->diags, a, storage) || driver_append_refusal(a) ||
        !driver_add_append(r->diags, a))
        return exec_fail(r, "attention", "refused");
    const int64_t batch = c->slots && packed ? 4 : c->b;
    const struct {
        const char *name;
        int64_t value;
    } sizes[] = {{"D", c->d},
                 {"E", c->e},
                 {"P", c->e},
                 {"Hk", c->hk},
                 {"Hv", c->hv},
                 {"B", batch},
                 {"T", c->rows},
                 {"T_slots", c->rows},
                 {"T_entries", c->entries},
                 {"T_lines", 9},
                 {"T_pages", batch * c->entries + 3},
                 {"S_ends", batch + 1},
                 {"new_batch", packed ? 1 : c->b},
                 {"new_rows", c->n},
                 {"slots_rows", c->slots ? c->n : -1}};
    for (size_t n = 0; n < sizeof sizes / sizeof *sizes; n++)
        set_size(r, sizes[n].name, sizes[n].value);
    return true;
}

static bool variant(Run *r, const Case *c, AuVariant *v)
{
    const AuDtype d = exec_dtype_of(r->dtype);
    uint32_t count;
    const AuTensorRow *rows = driver_tensors(r->arena, r->attn, NULL, &count);
    *v = (AuVariant){.attn = r->attn,
                     .tensors = rows,
                     .tensor_count = count,
                     .operation = AU_APPEND,
                     .by_slots = c->slots,
                     .operand = d == AU_DT_F16    ? TILE_F16
                                : d == AU_DT_BF16 ? TILE_BF16
                                                  : TILE_F32};
    if (!exec_find_arch(r->arena, strchr(r->suite->name, ':') + 1, &v->target, &v->arch))
        return exec_fail(r, "no architecture", r->suite->name);
    if (!variant_build(r->arena, r->diags, v, c->name)) {
        AuText text = {.arena = r->arena};
        au_diags_render(r->diags, &text);
        return exec_fail(r, "variant", au_text_str(&text));
    }
    r->tensor_count = count;
    for (uint32_t n = 1; n < count; n++)
        if (is_passed(c, &rows[n]))
            r->tensors[n] = make(r, c, &rows[n]);
        else
            r->tensors[n] = (Tensor){.role = AULE_ROLE_OUTPUT, .absent = true};
    return true;
}

static bool run(const char *rung, const Case *c, const char *dtype, uint32_t orders)
{
    ExecSuite suite = {.name = rung, .orders = orders};
    const ExecCase named = {.script = c->name, .sizes = ""};
    Run *r = calloc(1, sizeof *r);
    if (!r) return false;
    *r = (Run){.suite = &suite,
               .c = &named,
               .dtype = dtype,
               .arena = au_arena_new(NULL),
               .operation = AU_APPEND,
               .random = 42};
    r->diags = au_diags_new(r->arena);
    r->names = au_names_new(r->arena);
    AuVariant *v = AU_NEW(r->arena, AuVariant);
    bool good = attention(r, c) && variant(r, c, v);
    if (good) {
        const uint32_t sides = sides_of(r);
        Wanted want[3] = {0};
        for (uint32_t side = 0; side < sides; side++) {
            const AuStorage stored = storage_of(r, side), *s = &stored;
            want[side].cache = copy_of(r, &r->tensors[1 + side]);
            if (s->as) want[side].scale = copy_of(r, &r->tensors[s->scale]);
            if (s->has_zero) want[side].zero = copy_of(r, &r->tensors[s->zero]);
            expect(r, c, side, &want[side]);
        }
        good = exec_run_variant(r, v) && compare(r, sides, want);
    }
    au_arena_free(r->arena);
    free(r);
    return good;
}

static bool is_wanted(const char *rung, int argc, char **argv)
{
    bool found = argc < 2;
    for (int n = 1; n < argc; n++) found |= strcmp(argv[n], rung) == 0;
    return found;
}

static int run_orders(void)
{
    enum { ORDERS = 50 };
    static const char *const of[] = {"kernel-ir:sm_80", "tiled-ir:sm_80"};
    ExecTally tally = {0};
    for (unsigned n = 0; n < 2 * sizeof cases / sizeof *cases; n++) {
        const bool good = run(of[n % 2], &cases[n / 2], dtypes[n % 3], ORDERS);
        *(good ? &tally.passed : &tally.failed) += 1;
    }
    return exec_report(&tally);
}

int main(int argc, char **argv)
{
    ExecTally tally = {0};
    if (argc == 2 && strcmp(argv[1], "orders") == 0) return run_orders();
    const unsigned count = sizeof cases / sizeof *cases;
    for (unsigned rung = 0; rung < sizeof rungs / sizeof *rungs; rung++)
        for (unsigned n = 0; n < count; n++) {
            if (!is_wanted(rungs[rung], argc, argv)) continue;
            const bool good = run(rungs[rung], &cases[n], dtypes[(n + rung) % 3], 0);
            *(good ? &tally.passed : &tally.failed) += 1;
        }
    return exec_report(&tally);
}
