/* support.h - what the tests of the attention IR share: an arena for a test, texts read and
 * verified. */
#ifndef AU_TESTS_ATTN_SUPPORT_H
#define AU_TESTS_ATTN_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "attn.h"

typedef struct Bench {
    AuArena *arena;
    AuNames *names;
    AuDiags *diags;
} Bench;

Bench bench_new(void);
void bench_free(Bench *b);

/* The attention of a text; the test fails with the diagnostics if it cannot be read. */
AuAttn *bench_read(Bench *b, const char *text);
AuAttn *bench_read_file(Bench *b, const char *name); /* of the folder of golden texts */
const char *bench_file(Bench *b, const char *name);
/* The text equals the golden file, which is rewritten first if AU_UPDATE is set. */
void bench_expect(Bench *b, const char *name, const char *text);
const char *bench_print(Bench *b, const AuAttn *a);
const char *bench_errors(Bench *b); /* rendered */

/* A softmax attention around these lines, on sizes B, H, S, D, Hk, T, E. */
const char *bench_softmax(Bench *b, const char *declarations, const char *lines);

/* A seeded generator: the same numbers on every machine. */
typedef struct Random {
    uint64_t state;
} Random;
uint32_t random_bits(Random *r);
uint32_t random_below(Random *r, uint32_t count);
double random_between(Random *r, double low, double high);

/* Arguments of an attention, tensors filled with numbers in [-1, 1], integers with 0. */
typedef struct Case {
    AuAttn *a;
    int64_t sizes[16];
    double *tensors[16];
    size_t counts[16]; /* elements */
    double params[16];
    int64_t params_i64[16];
    double *o, *finals[8], *weights;
    size_t rows; /* B * H * S */
    AuOracleCall call;
} Case;

/* Sizes as text: "B=2 H=4 S=5"; parameters get their defaults. */
Case *case_new(Bench *b, AuAttn *a, const char *sizes, uint64_t seed);
/* Of softmax attention with these declarations and lines (bench_softmax). */
Case *case_softmax(Bench *b, const char *declarations, const char *lines, const char *sizes);
double *case_tensor(Case *c, const char *name);
void case_param(Case *c, const char *name, double value);
/* Runs the oracle; the test fails if it fails. */
void case_run(Bench *b, Case *c);
/* Runs it and returns why it fails; the test fails if it does not. */
const char *case_fail(Bench *b, Case *c);
void expect_near(double found, double expected, double tolerance);

#endif
