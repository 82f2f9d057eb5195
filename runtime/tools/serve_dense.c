/* serve_dense.c - what `aule bench --serve` is held to: dense calls of single sequences, whose keys and values are gathered from the pages and are
 * elements of the operand type, whatever they are stored as. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

/* ---- elements of what is stored */

static float from_e4m3(uint8_t code)
{
    const int exponent = code >> 3 & 15, mantissa = code & 7;
    const float size =
        exponent ? ldexpf((float)(8 + mantissa), exponent - 10) : ldexpf((float)mantissa, -9);
    if ((code & 127) == 127) return NAN;
    return code & 128 ? -size : size;
}

/* Channel [d] of a row of codes. */
static float from_code(uint32_t dtype, const uint8_t *row, int64_t d)
{
    if (dtype == AULE_E4M3) return from_e4m3(row[d]);
    if (dtype == AULE_E5M2) return array_from_half((uint16_t)(row[d] << 8));
    if (dtype == AULE_I8) return (float)(int8_t)row[d];
    const int nibble = row[d / 2] >> 4 * (d % 2) & 15;
    return (float)(nibble < 8 ? nibble : nibble - 16);
}

/* An element of f32, f16 or bf16. */
static float number_at(const AuArray *array, int64_t at)
{
    if (array->dtype == AULE_F32) return ((const float *)array->data)[at];
    const uint16_t bits = ((const uint16_t *)array->data)[at];
    const uint32_t wide = (uint32_t)bits << 16;
    float number;
    memcpy(&number, &wide, sizeof number);
    return array->dtype == AULE_F16 ? array_from_half(bits) : number;
}

/* Of a scale or a zero point at a place [sequence or page, head, slot, channel]: an axis of one element is that of all. */
static float at_place(const AuArray *array, int64_t sequence, int64_t page, int64_t head,
                      int64_t slot, int64_t d, int64_t width)
{
    if (!array || !array->data) return 0;
    const bool by_token = array->shape[2] > 1 || array->shape[3] > 1;
    const int64_t first = array->shape[0] == 1 ? 0
                          : by_token           ? page
                                               : sequence,
                  index[] = {first, array->shape[1] == 1 ? 0 : head,
                             array->shape[2] == 1 ? 0 : slot, d * array->shape[3] / width};
    int64_t at = 0;
    for (int n = 0; n < 4; n++) at += index[n] * array->strides[n];
    return number_at(array, at);
}

/* ---- one sequence */

/* Keys or values of sequence [b], [1, heads, T, width]. */
static int gather(const AuServed *of, AuSession *pages, int64_t b, const char *name, AuArray *to)
{
    const AuArray *pool = session_array(pages, name, ""),
                  *scale = session_array(pages, name, "_scale"),
                  *zero = session_array(pages, name, "_zero");
    const int32_t *table = session_array(pages, of->keys, "_table")->data;
    const uint32_t bytes = array_dtype_bytes(pool->dtype), wanted = to->dtype;
    const bool stored = scale && scale->data;
    const int64_t width = to->shape[3];
    AuArray rows = {0};
    AuWhy why;
    if (stored && !array_new(&rows, AULE_F32, 4, to->shape, &why))
        return command_fail(EXIT_WRONG, "%s", why.text);
    for (int64_t h = 0; h < to->shape[1]; h++)
        for (int64_t j = 0; j < to->shape[2]; j++) {
            const int64_t page = table[b * of->entries + j / of->page], slot = j % of->page,
                          row = h * to->shape[2] + j;
            const uint8_t *from =
                (const uint8_t *)pool->data +
                ((page * pool->shape[1] + h) * of->page + slot) * pool->shape[3] * bytes;
            if (!stored)
                memcpy((char *)to->data + row * width * bytes, from, (size_t)width * bytes);
            for (int64_t d = 0; stored && d < width; d++)
                ((float *)rows.data)[row * width + d] =
                    at_place(scale, b, page, h, slot, d, width) *
                    (from_code(pool->dtype, from, d) - at_place(zero, b, page, h, slot, d, width));
        }
    if (!stored) return 0;
    array_free(to);
    *to = rows;
    return array_convert(to, wanted, &why) ? 0 : command_fail(EXIT_WRONG, "%s", why.text);
}

/* The part of [from] that begins at [first] and is as large as [to]. */
static bool slice(AuArray *to, const AuArray *from, const int64_t first[ARRAY_RANK])
{
    const size_t bytes = array_dtype_bytes(to->dtype);
    const size_t count = to->bytes / bytes;
    if (to->rank != from->rank || to->dtype != from->dtype) return false;
    for (int32_t n = 0; n < to->rank; n++)
        if (first[n] + to->shape[n] > from->shape[n]) return false;
    for (size_t i = 0; i < count; i++) {
        int64_t at = 0, rest = (int64_t)i;
        for (int32_t n = to->rank; n-- > 0; rest /= to->shape[n])
            at += (first[n] + rest % to->shape[n]) * from->strides[n];
        memcpy((char *)to->data + i * bytes, (const char *)from->data + (size_t)at * bytes, bytes);
    }
    return true;
}

/* An input, or q, as sequence [b] has it: a packed axis from its first row on. */
static int take_own(const AuServed *of, const AuSession *dense, const AuSession *pages,
                    uint32_t index, const AuArray *from, AuArray *to, int64_t b,
                    const int64_t *starts)
{
    const aule_tensor_v1 *t = session_tensor(dense, index);
    const AuArray *q = &pages->arrays[session_find_role(pages, AULE_ROLE_Q)];
    int64_t first[ARRAY_RANK] = {0};
    bool packed = starts != NULL;
    for (uint32_t n = 0; n < t->rank; n++) {
        const char *axis = session_axis_name(dense, t, n);
        if (strcmp(axis, of->batch) == 0 && from->shape[n] == of->sequences) first[n] = b;
        if (strcmp(axis, of->queries) != 0 || !packed || from->shape[n] != q->shape[2]) continue;
        first[n] = starts[b], packed = false; /* a second one counts the rows of a sequence */
        if (n > 0 && strcmp(session_axis_name(dense, t, 0), of->batch) == 0) first[0] = 0;
    }
    return slice(to, from, first) ? 0
                                  : command_fail(EXIT_WRONG,
                                                 "--serve: there is no comparing, since '%s' of a "
                                                 "sequence is no part of that of all",
                                                 t->name);
}

/* Keys, values, and inputs that lie as these do. */
static bool lies_in_pages(const AuServed *of, const AuSession *pages, const char *name)
{
    char axis[192];
    snprintf(axis, sizeof axis, "%s_pages", of->keys);
    for (uint32_t i = 0; i < pages->signature->tensor_count; i++) {
        const aule_tensor_v1 *t = session_tensor(pages, i);
        if (strcmp(t->name, name) == 0)
            return t->rank == 4 && strcmp(session_axis_name(pages, t, 0), axis) == 0;
    }
    return false;
}

static int fill_own(const AuServed *of, AuSession *dense, AuSession *pages, int64_t b,
                    const int64_t *starts)
{
    int status = 0;
    for (uint32_t i = 0; !status && i < dense->signature->tensor_count; i++) {
        const aule_tensor_v1 *t = session_tensor(dense, i);
        AuArray *to = &dense->arrays[i], *from = session_array(pages, t->name, "");
        if (!to->data || !from || !from->data) continue;
        status = lies_in_pages(of, pages, t->name)
                     ? gather(of, pages, b, t->name, to)
                     : take_own(of, dense, pages, i, from, to, b, starts);
    }
    return status;
}

/* ---- comparing */

static int as_floats(const AuArray *array, AuArray *floats)
{
    AuWhy why;
    if (array_new(floats, array->dtype, array->rank, array->shape, &why)) {
        memcpy(floats->data, array->data, array->bytes);
        if (array_convert(floats, AULE_F32, &why)) return 0;
    }
    return command_fail(EXIT_WRONG, "%s", why.text);
}

/* Rows of sequence [b] of all o, [B, H, S, E] or packed, beside [want], [1, H, rows, E], or beside 0. */
static void compare_rows(const AuArray *o, const AuArray *want, int64_t b, int64_t first,
                         int64_t rows, double *largest, double *apart)
{
    const int64_t width = o->shape[3];
    for (int64_t h = 0; h < o->shape[1]; h++)
        for (int64_t i = 0; i < rows * width; i++) {
            const double found = ((const float *)o->data)[b * o->strides[0] + h * o->strides[1] +
                                                          first * o->strides[2] + i],
                         right = want ? ((const float *)want->data)[h * want->strides[1] + i] : 0.0,
                         off = fabs(found - right);
            if (fabs(right) > *largest) *largest = fabs(right);
            if (!(off <= *apart)) *apart = isnan(off) ? (double)INFINITY : off;
        }
}

static int run_dense(const AuServed *of, AuSession *dense, AuSession *pages, int64_t b,
                     int64_t rows, const int64_t *starts)
{
    char shape[2048];
    snprintf(shape, sizeof shape, "%s%s%s=1,%s=%lld,%s=%lld", of->shape, *of->shape ? "," : "",
             of->batch, of->queries, (long long)rows, of->keys, (long long)of->lengths[b]);
    int status = session_open_layout(dense, of->options, "");
    if (!status) status = session_make_shaped(dense, of->options, shape);
    if (!status) status = fill_own(of, dense, pages, b, starts);
    if (!status) status = session_prepare(dense);
    if (!status) status = session_run(dense, STEP_FORWARD);
    if (!status) status = session_wait(dense);
    return status ? status : session_fetch(dense);
}

static int compare_one(const AuServed *of, AuSession *pages, const AuArray *o, int64_t b,
                       int64_t rows, const int64_t *starts, double *largest, double *apart)
{
    const int64_t sequence = starts ? 0 : b, first = starts ? starts[b] : 0;
    AuSession dense;
    AuArray want = {0};
    if (!of->lengths
             [b]) { /* no keys: rows are 0, and shapes without elements are not for dense calls */
        compare_rows(o, NULL, sequence, first, rows, largest, apart);
        return 0;
    }
    int status = run_dense(of, &dense, pages, b, rows, starts);
    if (!status)
        status = as_floats(&dense.arrays[session_find_role(&dense, AULE_ROLE_OUTPUT)], &want);
    if (!status) compare_rows(o, &want, sequence, first, rows, largest, apart);
    array_free(&want);
    session_close(&dense);
    return status;
}

/* The first sequence, which may have a chunk, and a few others. */
int serve_compare(const AuServed *of, AuSession *pages, const int64_t *rows, const int64_t *starts,
                  double *difference)
{
    enum { SOME = 4 };
    double largest = 0, apart = 0;
    AuArray o = {0};
    int status = as_floats(&pages->arrays[session_find_role(pages, AULE_ROLE_OUTPUT)], &o);
    for (int64_t n = 0; !status && n < SOME; n++) {
        const int64_t b = n * (of->sequences - 1) / (SOME - 1);
        if (n > 0 && b == (n - 1) * (of->sequences - 1) / (SOME - 1)) continue;
        status = compare_one(of, pages, &o, b, rows[b], starts, &largest, &apart);
    }
    array_free(&o);
    *difference = apart / (largest > 0 ? largest : 1);
    return status;
}
