/* gradient.h - gradients of an attention, derived as expressions (docs/dev/attention-ir.md, Gradients).
 *
 * With P = f(s, R) the weight of a pair by its score and the finals R of its row, g_R the gradient
 * given for a final and dO' the gradient of the output before out_mod:
 *
 *     dS = f_s dP + sum_R dR/ds (rowsum(dP f_R) + g_R)        what stands in () is adjoint R
 *
 * Everything is an expression of the attention's own graph, over its leaves and those of gradients
 * (AU_OP_DWEIGHT dp = dO' . v_j, DELTA, DFINAL, ADJOINT, PASS, DELEMENT). They are no roots of the
 * attention, so that attn_simplify must not run between attn_gradients and their use. In score_mod's
 * sense, SCORE is the raw product q_i . k_j in all of them. Pairs that take no part have weight 0 and
 * gradient 0: whoever evaluates guards, since finals may be -inf there. */
#ifndef AU_DSL_ATTN_GRADIENT_H
#define AU_DSL_ATTN_GRADIENT_H

#include "attn.h"

enum { AU_MAX_DOTS = 4, AU_MAX_PASSES = 4 };

/* The gradient of one read of an input. The value is added at the read's indices once for each
 * combination of the axes that the place has: for each pair, each row (q, i), each channel of a row;
 * in a row mod, a read without the channel among its axes once a row, and its value has none. A value
 * that is 0 is added nowhere: the indices of a read that was not chosen may be out of range, and are
 * clamped as those of the read are. */
typedef struct AuInputGrad {
    uint32_t tensor;
    AuExpr read;  /* the INPUT node: its args are the indices */
    AuExpr value; /* its adjoint */
} AuInputGrad;

typedef struct AuInputGrads {
    AuInputGrad *at;
    uint32_t count, capacity;
} AuInputGrads;

/* The vector-Jacobian product of a row mod. */
typedef struct AuRowGrad {
    /* The gradient at channel c of what the mod was given, of ELEMENT (the row as passed in) and
     * DELEMENT; none: the mod is the identity. */
    AuExpr value;
    AuInputGrads inputs;
} AuRowGrad;

/* Who reads a final and its adjoint: what nobody reads is not brought, nor made. */
typedef struct AuGradReads {
    bool final_by_pairs, adjoint_by_pairs, final_by_rows, adjoint_by_rows;
    bool
        given; /* the final takes a gradient from outside: it is an output, and no running maximum */
} AuGradReads;

typedef struct AuGrads {
    AuExpr score;  /* pair: score_mod; the pair takes part unless -inf (and if the mask holds) */
    AuExpr weight; /* pair: the weight as it meets the values, of SCORE and FINAL:
                      dV_j = sum_i weight dO'_i */
    AuExpr dscore; /* pair: gradient of the raw product, of SCORE, DWEIGHT, FINAL, ADJOINT */
    AuExpr dots[AU_MAX_DOTS],
        ddots[AU_MAX_DOTS]; /* DOT nodes of score_mod, and the gradient of each
                                                     product */
    uint32_t dot_count;
    AuInputGrads
        pairs;       /* of score_mod, weight_mod, forward: pair expressions, fewer axes possible */
    AuExpr *adjoint; /* row, one a final: of FINAL, DELTA, DFINAL, PASS */
    AuExpr
        pass[AU_MAX_PASSES]; /* pair expressions of SCORE, DWEIGHT, FINAL, whose sums over the row
                                   the extra pass makes */
    uint32_t pass_count;     /* 0: no extra pass */
    AuInputGrads
        rows; /* of online parameters in start values and epilogue: row expressions of FINAL
                          and ADJOINT */
    AuRowGrad q, k, v, out; /* out: ELEMENT is O' (before out_mod), DELEMENT is dO, value is dO' */
    bool keeps_output;      /* there is an out_mod: the backward needs O' */
    int32_t
        has_pair; /* the final that is 1 where a row has a pair, which out_mod's gradients ask for
                               (attn_asks_for_pairs); negative: none */
    AuGradReads *reads;                 /* one a final */
    bool weights_are_parts;             /* no weight is more than 1, by proof (parts.c) */
    const struct AuNormalGrads *normal; /* of a recurrence, and nothing else (normal_form.h) */
} AuGrads;

/* Of a recurrence `normal` alone. Of a softmax family, verified and simplified: completes [a] for gradients: sets `forward` where it is missing (online_fwd run once over the whole
 * row from the start values), and adds finals, by the names of row scales, where the closed form or
 * dR/ds cannot be said by the finals there are. NULL:
 * diagnostics say why this script has no gradient. */
AuGrads *attn_gradients(AuAttn *a, AuArena *arena, AuDiags *diags);

bool gradient_has_adjoint(const AuGrads *g, uint32_t final);
/* Is something made once a row, adjoints or gradients of inputs? */
bool gradient_has_rows(const AuAttn *a, const AuGrads *g);

/* Text of gradients, block by block as the text form of attentions. */
void gradient_print(const AuAttn *a, const AuGrads *g, AuText *out);

/* The oracle of gradients: attn_interpret's call (o, finals and weights may be NULL: not wanted), the
 * gradient of the output, gradients of finals (entries, or all, may be NULL: 0), and one array a tensor
 * to be set (NULL: not wanted; of v with v_in_k nothing is set). With round_to, as plain kernels of the
 * type compute: q', k', v', weights, dO', O' and dS rounded to the type, sums in f32. */
bool attn_interpret_gradients(const AuAttn *a, const AuGrads *g, const AuOracleCall *call,
                              const double *dout, const double *const *dfinals,
                              double *const *grads, AuArena *scratch, const char **why);

#endif
