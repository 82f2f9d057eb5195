/* static_test.c - functions of libmha.a and window.o called from C: no library of ours, none of LLVM. */
#include "gather.h"
#include "mha.h"
#include "window.h"

#include "reference.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { H = 4, HK = 2, S = 37, T = 53, D = 64 };

static float q[H * S * D], k[HK * T * D], v[HK * T * D], o[H * S * D], lse[H * S];
static int failures;

static void expect(int holds, const char *what)
{
    if (holds) return;
    printf("failed: %s\n", what);
    failures++;
}

static mha_forward_args usual(void)
{
    mha_forward_args a;
    memset(&a, 0, sizeof a);
    a.struct_size = sizeof a, a.dtype = MHA_F32;
    a.B = 1, a.H = H, a.Hk = HK, a.S = S, a.T = T, a.D = D, a.E = D;
    a.q = q, a.k = k, a.v = v, a.o = o, a.lse = lse;
    return a;
}

static Reference formula(void)
{
    const Reference r = {H, HK, S, T, D, q, k, v, NULL, T, 0, 0};
    return r;
}

/* ---- values */

static void test_values(void)
{
    const Reference r = formula();
    mha_forward_args a = usual();
    expect(mha_forward(&a) == 0, "mha runs");
    expect(reference_error(&r, o, lse) < 2e-6, "mha is right");
    memset(o, 0, sizeof o);
    a.lse = NULL;
    expect(mha_forward(&a) == 0 && reference_error(&r, o, NULL) < 2e-6, "mha without lse");
}

/* [S, H, D] in memory, keys in reverse. */
static void test_strides(void)
{
    static float turned[H * S * D], back[HK * T * D];
    const int64_t q_strides[] = {0, D, H * D, 1}, k_strides[] = {0, T * D, -D, 1};
    for (int h = 0; h < H; h++)
        for (int i = 0; i < S; i++)
            memcpy(turned + (i * H + h) * D, q + (h * S + i) * D, D * sizeof *q);
    for (int h = 0; h < HK; h++)
        for (int j = 0; j < T; j++)
            memcpy(back + (h * T + T - 1 - j) * D, k + (h * T + j) * D, D * sizeof *k);
    const Reference r = formula();
    mha_forward_args a = usual();
    a.q = turned, a.q_strides = q_strides;
    a.k = back + (T - 1) * D, a.k_strides = k_strides;
    expect(mha_forward(&a) == 0 && reference_error(&r, o, lse) < 2e-6, "mha with strides");
}

/* ---- a parallel loop of the caller's */

typedef struct Part {
    aule_part part;
    void *job;
    uint64_t first, last;
} Part;

static void *run_part(void *user)
{
    const Part *p = user;
    p->part(p->job, p->first, p->last);
    return NULL;
}

static void in_two(void *user, aule_part part, void *job, uint64_t count)
{
    Part first = {part, job, 0, count / 2};
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, MHA_FORWARD_STACK_BYTES + (1 << 17));
    if (pthread_create(&thread, &attributes, run_part, &first) != 0) abort();
    part(job, count / 2, count);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attributes);
    ++*(int *)user;
}

static void test_parallel(void)
{
    static float alone[H * S * D];
    int loops = 0;
    mha_forward_args a = usual();
    expect(mha_forward(&a) == 0, "alone");
    memcpy(alone, o, sizeof o);
    memset(o, 0, sizeof o);
    a.parallel = in_two, a.parallel_user = &loops;
    expect(mha_forward(&a) == 0 && loops > 0, "the caller's loop is used");
    expect(memcmp(alone, o, sizeof o) == 0, "the same bits in parallel");
}

/* ---- bf16, with the workspace that its kernels may need */

static void to_bf16(uint16_t *to, const float *from, size_t count)
{
    for (size_t n = 0; n < count; n++) {
        uint32_t bits;
        memcpy(&bits, &from[n], sizeof bits);
        to[n] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    }
}

static void test_bf16(void)
{
    static uint16_t bq[H * S * D], bk[HK * T * D], bv[HK * T * D], bo[H * S * D];
    static float wide[H * S * D];
    mha_forward_args a = usual();
    to_bf16(bq, q, H * S * D), to_bf16(bk, k, HK * T * D), to_bf16(bv, v, HK * T * D);
    a.dtype = MHA_BF16, a.q = bq, a.k = bk, a.v = bv, a.o = bo;
    const int64_t bytes = mha_forward_workspace(&a);
    expect(bytes >= 0 && bytes < 1 << 24, "the size of the workspace");
    if (bytes < 0 || bytes >= 1 << 24) return;
    void *workspace = aligned_alloc(64, (size_t)(bytes + 64) / 64 * 64);
    a.workspace = workspace, a.workspace_bytes = (size_t)bytes;
    expect(mha_forward(&a) == 0, "bf16 runs");
    if (bytes > 0) { /* kernels of matrix units have one, those of multiply-adds none */
        a.workspace_bytes--;
        expect(mha_forward(&a) != 0, "a workspace that is too small");
        a.workspace = NULL, a.workspace_bytes++;
        expect(mha_forward(&a) != 0, "no workspace");
    }
    free(workspace);
    for (int n = 0; n < H * S * D; n++) {
        const uint32_t bits = (uint32_t)bo[n] << 16;
        memcpy(&wide[n], &bits, sizeof bits);
    }
    const Reference r = formula();
    expect(reference_error(&r, wide, NULL) < 2e-2, "bf16 is right");
}

/* ---- inputs and parameters */

static void test_parameters(void)
{
    float slope[H] = {0.5f, 0.25f, 0.125f, 0.0625f}, gain = 1.5f;
    const int64_t width = 9;
    Reference r = formula();
    window_forward_args a;
    memset(&a, 0, sizeof a);
    a.struct_size = sizeof a, a.dtype = WINDOW_F32;
    a.B = 1, a.H = H, a.Hk = HK, a.S = S, a.T = T, a.D = D, a.E = D;
    a.q = q, a.k = k, a.v = v, a.o = o, a.slope = slope, a.gain = &gain, a.cap = 2.0;
    r.slope = slope, r.cap = 2.0, r.gain = gain, r.window = 16;
    expect(window_forward(&a) == 0 && reference_error(&r, o, NULL) < 4e-6, "a default value");
    a.width = &width, r.window = width;
    expect(window_forward(&a) == 0 && reference_error(&r, o, NULL) < 4e-6, "a parameter");
    a.cap = -1.0;
    expect(strstr(window_message(window_forward(&a)), "cap > 0.0") != NULL, "a condition");
    const int64_t wide = INT64_C(1) << 40;
    a.cap = 2.0, a.width = &wide;
    expect(strstr(window_message(window_forward(&a)), "width") != NULL,
           "a parameter that is too large");
}

/* ---- indices outside of their tensors */

static void test_checked(void)
{
    static float table[T + 2];
    static unsigned char workspace[1 << 16] __attribute__((aligned(64)));
    int32_t shift = 2; /* the last query looks T - 1 + 2 far */
    gather_forward_args a;
    memset(&a, 0, sizeof a);
    a.struct_size = sizeof a, a.dtype = GATHER_F32;
    a.B = 1, a.H = HK, a.S = S, a.T = T, a.D = D, a.E = D, a.W = T + 2;
    a.q = q, a.k = k, a.v = v, a.o = o, a.table = table, a.shift = &shift;
    a.workspace = workspace, a.workspace_bytes = sizeof workspace;
    expect(gather_forward_workspace(&a) <= (int64_t)sizeof workspace, "a small workspace");
    expect(gather_forward(&a) == 0, "indices inside");
    shift = 3;
    expect(strstr(gather_message(gather_forward(&a)), "outside of axis 0 of table") != NULL,
           "an index after the end");
    shift = -1;
    expect(strstr(gather_message(gather_forward(&a)), "gather.attn:8:") != NULL,
           "an index before the start, with its line");
}

/* ---- gradients */

static void test_backward(void)
{
    static float go[H * S * D], dq[H * S * D], dk[HK * T * D], dv[HK * T * D];
    static double wq[H * S * D], wk[HK * T * D], wv[HK * T * D];
    const Reference r = formula();
    mha_forward_args f = usual();
    mha_backward_args a;
    memset(&a, 0, sizeof a);
    a.struct_size = sizeof a, a.dtype = MHA_F32;
    a.B = 1, a.H = H, a.Hk = HK, a.S = S, a.T = T, a.D = D, a.E = D;
    a.q = q, a.k = k, a.v = v, a.o = o, a.lse = lse;
    a.do_ = go, a.dq = dq, a.dk = dk, a.dv = dv;
    reference_fill(go, H * S * D, 7);
    const int64_t bytes = mha_backward_workspace(&a);
    expect(bytes >= 0 && bytes < 1 << 24, "the size of the gradients' workspace");
    if (bytes < 0 || bytes >= 1 << 24) return;
    a.workspace = aligned_alloc(64, (size_t)(bytes + 64) / 64 * 64);
    a.workspace_bytes = (size_t)bytes;
    memset(a.workspace, 0x7f, (size_t)bytes); /* what must be zero is made so */
    expect(mha_forward(&f) == 0 && mha_backward(&a) == 0, "mha backward runs");
    for (int h = 0; h < H; h++)
        for (int i = 0; i < S; i++) reference_row_back(&r, h, i, go + (h * S + i) * D, wq, wk, wv);
    expect(reference_worst(wq, dq, H * S * D) < 1e-5, "dq");
    expect(reference_worst(wk, dk, HK * T * D) < 1e-5, "dk");
    expect(reference_worst(wv, dv, HK * T * D) < 1e-5, "dv");
    a.lse = NULL;
    expect(strstr(mha_message(mha_backward(&a)), "lse is NULL") != NULL, "gradients need lse");
    free(a.workspace);
}

/* ---- refusals */

static void refused(const mha_forward_args *a, const char *word)
{
    const int status = mha_forward(a);
    expect(status > 0 && strstr(mha_message(status), word), word);
    expect(mha_forward_workspace(a) == -status, "the size of the workspace of a wrong call");
}

static void test_refusals(void)
{
    mha_forward_args a = usual();
    refused(NULL, "arguments are NULL");
    a.struct_size--, refused(&a, "struct_size");
    a = usual(), a.q = NULL, refused(&a, "q is NULL");
    a = usual(), a.o = NULL, refused(&a, "o is NULL");
    a = usual(), a.k = (const char *)k + 1, refused(&a, "k is not aligned");
    a = usual(), a.S = -1, refused(&a, "S is not from 0");
    a = usual(), a.T = INT64_C(1) << 31, refused(&a, "T is not from 0");
    a = usual(), a.T = INT32_MAX, refused(&a, "T is not from 0");
    a = usual(), a.Hk = 3, refused(&a, "H % Hk == 0");
    a = usual(), a.D = 65, refused(&a, "nothing was compiled");
    a = usual(), a.dtype = 0, refused(&a, "nothing was compiled");
    a = usual(), a.Hk = 0, refused(&a, "H % Hk == 0");
    expect(strcmp(mha_message(0), "done") == 0, "the text of success");
    expect(mha_message(-1) && mha_message(1 << 30), "texts of numbers that are no errors");
    a = usual(), a.S = 0, a.q = NULL, a.o = NULL, a.lse = NULL;
    expect(mha_forward(&a) == 0, "no queries at all");
}

int main(void)
{
    reference_fill(q, H * S * D, 1), reference_fill(k, HK * T * D, 2),
        reference_fill(v, HK * T * D, 3);
    test_values();
    test_strides();
    test_parallel();
    test_bf16();
    test_parameters();
    test_checked();
    test_backward();
    test_refusals();
    printf(failures ? "%d failed\n" : "all right\n", failures);
    return failures != 0;
}
