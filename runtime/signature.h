/* signature.h - checks the arguments of a call against an attention's signature and binds its sizes and parameters.
 * Every refusal names the attention, the tensor or parameter, what was expected and what was found, with the numbers. */
#ifndef AU_RUNTIME_SIGNATURE_H
#define AU_RUNTIME_SIGNATURE_H

#include "descriptor.h"
#include "expr.h"

/* A call's arguments by index of the signature. */
typedef struct AuBound {
    const AuOperation *operation;
    const AuOperation *
        first; /* that the same call does before it: append, of a forward that is given new rows; else NULL */
    const DLTensor *tensors[AULE_MAX_TENSORS]; /* NULL: not passed */
    int64_t strides[AULE_MAX_TENSORS]
                   [AULE_MAX_RANK];    /* in elements, also where DLPack leaves them out */
    uint32_t dtypes[AULE_MAX_TENSORS]; /* aule_dtype of each that was passed */
    uint32_t operand;                  /* aule_dtype that `operand` stands for */
    int64_t sizes[AULE_MAX_SIZES];
    aule_value params[AULE_MAX_PARAMS];
} AuBound;

AuEnv rt_bound_env(const aule_attention_v1 *attention, const AuBound *bound);

/* Index of the tensor or parameter [name], or -1. */
int32_t rt_find_tensor(const aule_attention_v1 *attention, const char *name);
int32_t rt_find_param(const aule_attention_v1 *attention, const char *name);

/* Tensors: names, ranks, dtypes, sizes. [whole]: all that the call's operation needs must be there, nothing else may, and data must be
 * there; else q, k, v and inputs are enough, and shapes alone count. */
aule_status rt_bind_tensors(const aule_attention_v1 *attention, const aule_call *call, bool whole,
                            AuBound *bound, AuSink sink);

/* Parameters and their defaults, then the requirements. Sizes must be bound. [values] NULL: those of the call; else for each parameter of
 * the call its value. */
aule_status rt_bind_params(const aule_attention_v1 *attention, const aule_param_arg *params,
                           size_t count, const aule_value *values, AuBound *bound, AuSink sink);

/* What the operation writes must not overlap itself or any other tensor. [flat]: data are addresses. */
aule_status rt_check_overlaps(const aule_attention_v1 *attention, const AuBound *bound, bool flat,
                              AuSink sink);

/* What the call does with a tensor, by its operation and what it does before that. */
AuPart rt_bound_part(const AuBound *bound, const aule_tensor_v1 *tensor);

/* The first tensor of a role that was passed; -1: none was. */
int32_t rt_passed_of(const aule_attention_v1 *attention, const AuBound *bound, uint32_t role);

/* append.c: of rows that are appended, the shapes that no size has in common. */
aule_status rt_check_new_rows(const aule_attention_v1 *attention, const AuBound *bound,
                              AuSink sink);

/* Element range of a tensor around its element 0; false: beyond 64 bits. Empty tensors: low = 0, high = -1. */
bool rt_extent(const DLTensor *tensor, const int64_t *strides, int64_t *low, int64_t *high);

/* "[1, 8, 128, 64]" */
void rt_shape_text(AuText *text, const int64_t *shape, int32_t rank);

#endif
