/* recurrence_test.c - functions of a recurrence called from C: packed sequences, steps in a pool, and lists that do not fit their counts. */
#include "decay.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { T = 5, K = 2, V = 3, POOL = 4 };

static float q[T * K], k[T * K], v[T * V], o[T * V], state[POOL * K * V];
static const int32_t cu_seqlens[] = {0, 2, 2, 5};
static int failures;

static void expect(int holds, const char *what)
{
    if (holds) return;
    printf("failed: %s\n", what);
    failures++;
}

static void fill(void)
{
    for (int n = 0; n < T * K; n++) q[n] = 0.25f * (float)(n % 5 - 2), k[n] = 0.5f * (float)(n % 3);
    for (int n = 0; n < T * V; n++) v[n] = (float)(n % 7 - 3);
}

/* The largest error of tokens [first, last) of o, which start from [from] (NULL: 0). */
static double error_of(int first, int last, const float *from)
{
    double s[K][V] = {{0}}, most = 0;
    for (int c = 0; c < K; c++)
        for (int e = 0; e < V; e++) s[c][e] = from ? (double)from[c * V + e] : 0;
    for (int t = first; t < last; t++)
        for (int e = 0; e < V; e++) {
            double sum = 0;
            for (int c = 0; c < K; c++) {
                s[c][e] = 0.5 * s[c][e] + (double)k[t * K + c] * (double)v[t * V + e];
                sum += (double)q[t * K + c] * s[c][e];
            }
            most = fmax(most, fabs(sum - (double)o[t * V + e]));
        }
    return most;
}

static decay_forward_args usual(void)
{
    decay_forward_args a;
    memset(&a, 0, sizeof a);
    a.struct_size = sizeof a, a.dtype = DECAY_F32;
    a.B = 1, a.H = 1, a.T = T, a.K = K, a.V = V;
    a.q = q, a.k = k, a.v = v, a.o = o;
    return a;
}

static void test_packed(void)
{
    decay_forward_args a = usual();
    expect(decay_forward(&a) == 0 && error_of(0, T, NULL) < 1e-6, "one sequence");
    a.cu_seqlens = cu_seqlens, a.cu_seqlens_count = 4;
    expect(decay_forward(&a) == 0, "packed sequences");
    expect(error_of(0, 2, NULL) < 1e-6 && error_of(2, T, NULL) < 1e-6,
           "packed sequences are right");
}

static void refused(const decay_forward_args *a, const char *why)
{
    expect(strstr(decay_message(decay_forward(a)), why) != NULL, why);
}

static void test_counts(void)
{
    decay_forward_args a = usual();
    a.cu_seqlens_count = 4, refused(&a, "cu_seqlens_count is below 2, or not 0 without cu_seqlens");
    a = usual(), a.cu_seqlens = cu_seqlens, refused(&a, "cu_seqlens_count is below 2");
    a.cu_seqlens_count = 1, refused(&a, "cu_seqlens_count is below 2");
    a.cu_seqlens_count = 4, a.B = 2, a.T = 2,
    refused(&a, "cu_seqlens packs sequences into one batch");
}

static decay_step_args one_token(void)
{
    decay_step_args a;
    memset(&a, 0, sizeof a);
    a.struct_size = sizeof a, a.dtype = DECAY_F32;
    a.B = 1, a.H = 1, a.T = 1, a.K = K, a.V = V;
    a.q = q, a.k = k, a.v = v, a.o = o;
    a.state = state, a.pool = POOL;
    return a;
}

static void test_steps(void)
{
    const int32_t slots[] = {2};
    float before[K * V];
    for (int n = 0; n < POOL * K * V; n++) state[n] = (float)n;
    memcpy(before, state + 2 * K * V, sizeof before);
    decay_step_args a = one_token();
    expect(strstr(decay_message(decay_step(&a)), "pass slots") != NULL, "a pool without slots");
    a.slots_count = 1;
    expect(strstr(decay_message(decay_step(&a)), "slots_count") != NULL, "a count without slots");
    a.slots = slots, a.slots_count = 2;
    expect(strstr(decay_message(decay_step(&a)), "slots_count") != NULL,
           "two slots of one sequence");
    a.slots_count = 1;
    expect(decay_step(&a) == 0 && error_of(0, 1, before) < 1e-5, "a step of slot 2");
    expect(state[0] == 0.0f && state[3 * K * V] == (float)(3 * K * V),
           "other slots are as they were");
    a = one_token(), a.pool = 1;
    memcpy(before, state, sizeof before);
    expect(decay_step(&a) == 0 && error_of(0, 1, before) < 1e-5, "a pool of the batch's size");
}

int main(void)
{
    fill();
    test_packed();
    test_counts();
    test_steps();
    return failures != 0;
}
