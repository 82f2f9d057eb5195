/* case.h - what a reference case (aule/aulec.h) is made of, for the families of attentions. */
#ifndef AU_DRIVER_CASE_H
#define AU_DRIVER_CASE_H

#include "trial.h"

#include "aule/artifact.h"
#include "aule/aulec.h"
#include "gradient.h"

struct aulec_case {
    AuArena *arena;
    AuDiags *diags;
    AuAttn *attn;
    AuGrads *grads;
    AuDtype operand;
    bool tf32; /* f32 that products take so */
    AuTrialKind kind;
    AuTrial trial;
    aulec_case_tensor tensors[AULE_MAX_TENSORS];
    size_t tensor_count, first_result; /* o, behind it finals */
    aulec_case_param *params;
    const char *widths, *far_inputs;
};

/* A tensor of the case; NULL: there is no room. AU_DT_OPERAND is the case's operand type. */
aulec_case_tensor *case_add(aulec_case *c, const char *name, uint32_t role, AuDtype dtype,
                            const int64_t *shape, uint32_t rank);
/* The first of the results: o, of the shape that the tensors imply. */
void case_add_output(aulec_case *c);
/* A gradient that is given: random. Its values, NULL if there is no room. */
double *case_add_given(aulec_case *c, const char *name, uint32_t role, AuDtype dtype,
                       const aulec_case_tensor *like, uint64_t *random);
void case_set_data(aulec_case *c, aulec_case_tensor *t, const double *values);
/* The largest error of [plain]. */
double case_error(const aulec_case *c, const double *want, const double *plain, uint64_t count);
/* The rule about errors: [factor] times the largest error of the plain formula in the operand's
 * type, and what rounding the largest result to f32 a few times costs. */
void case_set_want(const aulec_case *c, aulec_case_tensor *t, const double *want, double error,
                   double factor);
/* The same of results in f32 of products of operands: one rounding of those more. */
void case_set_product(const aulec_case *c, aulec_case_tensor *t, const double *want, double error);
/* Which tensors of the attention get a gradient. */
bool case_has_gradient(const AuAttn *a, uint32_t n);
/* Always false, with a diagnostic. */
bool case_fail(aulec_case *c, const char *why);

/* Of an attention with `linear`, whose arguments are there: states, results and gradients. */
bool case_recurrence(aulec_case *c, const aulec_case_options *options);

#endif
