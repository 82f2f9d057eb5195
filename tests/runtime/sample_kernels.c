#include "sample_kernels.h"

#include <math.h>
#include <string.h>

/* ---- forward: one query row a block; the sums of weights go through the workspace, to the second launch */

static float float_slot(uint64_t slot)
{
    uint32_t low = (uint32_t)slot;
    float value;
    memcpy(&value, &low, sizeof value);
    return value;
}

static float *row_sum(const uint64_t *p, uint32_t x, uint32_t y, uint32_t z)
{
    int64_t heads = (int32_t)p[L_H], rows = (int32_t)p[L_S];
    return (float *)(uintptr_t)p[L_SUMS] + ((int64_t)z * heads + y) * rows + x;
}

void sample_weigh(const uint64_t *p, uint32_t x, uint32_t y, uint32_t z)
{
    const float *q = (const float *)(uintptr_t)p[L_Q], *k = (const float *)(uintptr_t)p[L_K],
                *v = (const float *)(uintptr_t)p[L_V];
    const int64_t *qs = (const int64_t *)&p[L_QS], *ks = (const int64_t *)&p[L_KS],
                  *vs = (const int64_t *)&p[L_VS], *os = (const int64_t *)&p[L_OS];
    float *o = (float *)(uintptr_t)p[L_O] + z * os[0] + y * os[1] + x * os[2];
    int64_t head = (int32_t)y / ((int32_t)p[L_H] / (int32_t)p[L_HK]), window = (int32_t)p[L_WINDOW];
    int64_t keys = ((const int32_t *)(uintptr_t)p[L_LENGTHS])[z];
    if (keys > (int64_t)p[L_T]) keys = (int64_t)p[L_T];
    q += z * qs[0] + y * qs[1] + x * qs[2];
    k += z * ks[0] + head * ks[1];
    v += z * vs[0] + head * vs[1];
    float top = -INFINITY, sum = 0, acc[SAMPLE_E] = {0};
    for (int64_t j = 0; j < keys; j++) {
        if (j - (int64_t)x >= window || (int64_t)x - j >= window) continue;
        float s = 0;
        for (int d = 0; d < SAMPLE_D; d++) s += q[d * qs[3]] * k[j * ks[2] + d * ks[3]];
        s = s * float_slot(p[L_SCALE]) + ((const float *)(uintptr_t)p[L_SLOPE])[y];
        float new_top = s > top ? s : top, rescale = expf(top - new_top),
              weight = expf(s - new_top);
        sum = sum * rescale + weight;
        for (int e = 0; e < SAMPLE_E; e++)
            acc[e] = acc[e] * rescale + weight * v[j * vs[2] + e * vs[3]];
        top = new_top;
    }
    *row_sum(p, x, y, z) += sum; /* the workspace is zeroed */
    for (int e = 0; e < SAMPLE_E; e++) o[e * os[3]] = acc[e];
    const int64_t *ls = (const int64_t *)&p[L_LSES];
    if ((int32_t)p[L_PRESENT])
        ((float *)(uintptr_t)p[L_LSE])[z * ls[0] + y * ls[1] + x * ls[2]] = top + logf(sum);
}

void sample_divide(const uint64_t *p, uint32_t x, uint32_t y, uint32_t z)
{
    const int64_t *os = (const int64_t *)&p[L_OS];
    float *o = (float *)(uintptr_t)p[L_O] + z * os[0] + y * os[1] + x * os[2],
          sum = *row_sum(p, x, y, z);
    for (int e = 0; e < SAMPLE_E; e++) o[e * os[3]] = sum > 0 ? o[e * os[3]] / sum : 0;
}

void sample_list(const uint64_t *p, uint32_t x, uint32_t y, uint32_t z)
{
    (void)y, (void)z;
    ((int32_t *)(uintptr_t)p[L_SUMS])[x] = ((const int32_t *)(uintptr_t)p[L_LENGTHS])[x];
}

/* ---- backward */

static float *floats(const uint64_t *p, int slot) { return (float *)(uintptr_t)p[slot]; }

/* Address of a tensor's row [b, h, i], whose channels are [step] apart. */
typedef struct Row {
    float *at;
    int64_t step;
} Row;

static Row row_of(const uint64_t *p, int tensor, int strides, int64_t b, int64_t h, int64_t i)
{
    const int64_t *s = (const int64_t *)&p[strides];
    return (Row){floats(p, tensor) + b * s[0] + h * s[1] + i * s[2], s[3]};
}

static float *final_of(const uint64_t *p, int tensor, int strides, int64_t b, int64_t h, int64_t i)
{
    const int64_t *s = (const int64_t *)&p[strides];
    return floats(p, tensor) + b * s[0] + h * s[1] + i * s[2];
}

static float product(Row a, Row b, int count)
{
    float sum = 0;
    for (int c = 0; c < count; c++) sum += a.at[c * a.step] * b.at[c * b.step];
    return sum;
}

static void add(Row to, float factor, Row from, int count)
{
    for (int c = 0; c < count; c++) to.at[c * to.step] += factor * from.at[c * from.step];
}

static void clear(Row row, int count)
{
    for (int c = 0; c < count; c++) row.at[c * row.step] = 0;
}

static void clear_outputs(const uint64_t *p)
{
    for (int64_t b = 0; b < (int32_t)p[G_B]; b++) {
        for (int64_t h = 0; h < (int32_t)p[G_HK]; h++)
            for (int64_t j = 0; j < (int32_t)p[G_T]; j++) {
                clear(row_of(p, G_DK, G_DKS, b, h, j), SAMPLE_D);
                clear(row_of(p, G_DV, G_DVS, b, h, j), SAMPLE_E);
            }
        for (int64_t h = 0; h < (int32_t)p[G_H]; h++)
            for (int64_t i = 0; i < (int32_t)p[G_S]; i++)
                clear(row_of(p, G_DQ, G_DQS, b, h, i), SAMPLE_D);
    }
}

static void query_row(const uint64_t *p, int64_t b, int64_t h, int64_t i)
{
    int64_t group = h / ((int32_t)p[G_H] / (int32_t)p[G_HK]), window = (int32_t)p[G_WINDOW];
    int32_t keys = ((const int32_t *)(uintptr_t)p[G_LENGTHS])[b];
    if (keys > (int32_t)p[G_T]) keys = (int32_t)p[G_T];
    Row q = row_of(p, G_Q, G_QS, b, h, i), dout = row_of(p, G_DO, G_DOS, b, h, i),
        dq = row_of(p, G_DQ, G_DQS, b, h, i);
    float delta = product(dout, row_of(p, G_O, G_OS, b, h, i), SAMPLE_E);
    float lse = *final_of(p, G_LSE, G_LSES, b, h, i);
    if ((int32_t)p[G_PRESENT]) delta -= *final_of(p, G_DLSE, G_DLSES, b, h, i);
    float scale = float_slot(p[G_SCALE]);
    for (int64_t j = 0; j < keys; j++) {
        if (j - i >= window || i - j >= window) continue;
        Row k = row_of(p, G_K, G_KS, b, group, j);
        float weight = expf(product(q, k, SAMPLE_D) * scale + floats(p, G_SLOPE)[h] - lse);
        float dscore =
            weight * (product(dout, row_of(p, G_V, G_VS, b, group, j), SAMPLE_E) - delta);
        add(row_of(p, G_DV, G_DVS, b, group, j), weight, dout, SAMPLE_E);
        add(row_of(p, G_DK, G_DKS, b, group, j), scale * dscore, q, SAMPLE_D);
        add(dq, scale * dscore, k, SAMPLE_D);
        floats(p, G_SUMS)[h] += dscore; /* the workspace is zeroed */
    }
}

void sample_gradients(const uint64_t *p, uint32_t x, uint32_t y, uint32_t z)
{
    (void)x, (void)y, (void)z;
    clear_outputs(p);
    for (int64_t b = 0; b < (int32_t)p[G_B]; b++)
        for (int64_t h = 0; h < (int32_t)p[G_H]; h++)
            for (int64_t i = 0; i < (int32_t)p[G_S]; i++) query_row(p, b, h, i);
}

void sample_move_sums(const uint64_t *p, uint32_t x, uint32_t y, uint32_t z)
{
    (void)y, (void)z;
    floats(p, G_DSLOPE)[x * (int64_t)p[G_DSLOPES]] = floats(p, G_SUMS)[x];
}
