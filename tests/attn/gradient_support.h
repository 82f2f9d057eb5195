/* gradient_support.h - derived gradients of a case, and central differences of the oracle beside them. */
#ifndef AU_TESTS_ATTN_GRADIENT_SUPPORT_H
#define AU_TESTS_ATTN_GRADIENT_SUPPORT_H

#include "support.h"

#include "gradient.h"

/* The beginning of an attention on sizes B, H, Hk, Hv, S, T, D, E, and sizes for it and more. */
#define HEAD   "attention x { q: f32[B, H, S, D]; k: f32[B, Hk, T, D]; v: f32[B, Hv, T, E];\n"
#define CAUSAL "mask(b, h, q_idx, kv_idx) = kv_idx <= q_pos;\n"

#define SIZES "B=2 H=2 Hk=1 Hv=2 S=4 T=5 D=4 E=3 P=2 G=1 N=7 R=3"

typedef struct Check {
    Bench *b;
    Case *c;
    double *dout, *dfinals[8], *grads[16];
    size_t outs; /* elements of o */
} Check;

Check *check_new(Bench *b, Case *c, uint64_t seed);
/* Gradients for those of the first [count] finals that take one, where rows have keys. */
void check_give_finals(Check *k, const AuGrads *g, uint32_t count, uint64_t seed);
/* Derived gradients of all tensors into grads; the test fails if the oracle does. */
void check_gradients(Check *k, const AuGrads *g, const char *name);
/* The same, against central differences; the test fails where they differ. */
void check_differences(Check *k, const AuGrads *g, const char *name);

/* The only attention of a script; the test fails with the diagnostics if there is none. */
AuAttn *compile_script(Bench *b, const char *name, const char *text);
/* Simplified, with gradients; the test fails if it has none, or does not verify then. */
AuGrads *derive_gradients(Bench *b, AuAttn *a, const char *name);

#endif
