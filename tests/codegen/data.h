/* data.h - what tests of generators share: golden files, random numbers. */
#ifndef AU_TEST_CODEGEN_DATA_H
#define AU_TEST_CODEGEN_DATA_H

#include "kernel_run.h"
#include "kernel_test.h"

void file_read(const char *path, AuText *text);
/* The content of the golden file, in the folder that AU_GOLDEN names. */
const char *golden_read(Bench *b, const char *name);
/* Compares with a golden file; AU_UPDATE=1 in the environment writes it instead. */
void golden_expect(Bench *b, const char *name, const char *text);

/* ---- numbers */

uint32_t test_random(uint32_t *seed);
/* Random numbers of a type, a third of them special: zeros, infinities, NaN, the ends of the range. */
void test_fill(void *data, AuScalar scalar, uint64_t count, uint32_t seed);
/* An f32, f16 or bf16. */
float test_float(const void *data, AuScalar scalar, uint64_t n);
/* Equal bits, both NaN, at most so many floats apart (0: no), or so close (negative: no). */
bool test_same(const void *a, const void *b, AuScalar scalar, uint64_t n, int ulps, float within);

#endif
