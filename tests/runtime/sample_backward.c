#include "sample_backward.h"

#include <math.h>
#include <string.h>

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
    float delta = product(dout, row_of(p, G_O, G_OS, b, h, i), SAMPLE_E), scale;
    float lse = *final_of(p, G_LSE, G_LSES, b, h, i);
    if ((int32_t)p[G_PRESENT]) delta -= *final_of(p, G_DLSE, G_DLSES, b, h, i);
    uint32_t bits = (uint32_t)p[G_SCALE];
    memcpy(&scale, &bits, sizeof scale);
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
