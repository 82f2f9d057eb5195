/* oracle.h - the state of one evaluation: sizes, programs of the places, and the row at hand.
 * Shared by interpret.c (softmax family), recurrence.c (`linear`) and oracle.c (leaves, messages,
 * setting up). */
#ifndef AU_DSL_ATTN_ORACLE_H
#define AU_DSL_ATTN_ORACLE_H

#include "eval.h"

typedef struct AuOracle {
    const AuAttn *a;
    const AuOracleCall *call;
    AuArena *arena;
    const char **why;
    bool single;  /* arithmetic in f32 */
    bool in_turn; /* and long sums, each term after the one before */
    int64_t B, H, Hk, Hv, S, T, D, E;
    int64_t (*dims)[8]; /* of each tensor */

    /* programs, NULL where the attention has none; those of a softmax family first */
    AuProgram *q_mod, *k_mod, *v_mod, *out_mod, *mask, *score_mod, *weight_mod;
    AuProgram *starts, *online, *finals, *epilogue, *weight_epilogue;

    /* where we are */
    int64_t b, h, kv_h, i, j;
    bool packed; /* of a recurrence: i counts from the start of a sequence, of [length] tokens */
    int64_t first, length; /* where it begins in what is packed */
    uint8_t pending;       /* axes that changed since score_mod ran last */

    /* the head */
    double *keys;   /* [D, T] modified */
    double *values; /* [T, E] modified */

    /* the row */
    const double *element; /* of a row mod: x, or o */
    uint32_t width;
    double *row, *query, *acc;
    double *score;       /* [T] raw products */
    uint8_t *admitted;   /* [T] by the mask */
    uint32_t pairs;      /* that take part */
    uint32_t *kv;        /* [pairs] their keys */
    double *scores;      /* [pairs] */
    double *weights;     /* [pairs] */
    uint32_t pair_first; /* of the tile at hand */
    double *state;       /* [scales] */

    /* Gradients: called once a row is done, where acc is the output before out_mod. */
    bool (*row_done)(struct AuOracle *o);
    const double *dweights; /* [pairs] */
    const double *delement;
    double *final_values, *dfinals, *adjoints, *passes; /* of the row */
    double delta;
} AuOracle;

/* Sizes, checks, programs, room. False: *why says what does not fit. */
bool attn_oracle_begin(AuOracle *o, const AuAttn *a, const AuOracleCall *call, AuArena *arena,
                       const char **why);
/* False, with a message about what went wrong in element i of the root. */
bool attn_oracle_trouble(AuOracle *o, const AuProgram *p, const AuEvalStep *root, uint32_t i);
bool attn_oracle_fail(AuOracle *o, AuSpan span, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
double attn_oracle_single(const AuOracle *o, double x); /* rounded to f32 if that is asked for */

/* To the type of the call's rounding. */
void attn_oracle_round(const AuOracle *o, double *row, uint32_t count);
/* What is about to be multiplied, a number that has that type and a row that may not: as the units take it. */
double attn_oracle_operand(const AuOracle *o, double x);
void attn_oracle_operands(const AuOracle *o, double *row, uint32_t count);
const double *attn_oracle_row(const AuOracle *o, uint32_t tensor, int64_t b, int64_t head,
                              int64_t row);
/* One row through a program of q_mod, k_mod, v_mod, out_mod, or of a gradient of one; NULL: as it
 * is. */
bool attn_oracle_mod(AuOracle *o, AuProgram *mod, const double *in, double *out, uint32_t width);
/* Every row of a softmax family. */
bool attn_oracle_rows(AuOracle *o);
/* A program whose leaves are the oracle's; across: AU_AX_KV, AU_AX_C or 0. */
AuProgram *attn_oracle_program(AuOracle *o, const AuExpr *roots, uint32_t count, uint8_t across,
                               int64_t capacity);

/* Leaves of every place; user is the AuOracle. */
void attn_oracle_leaf(void *user, AuProgram *p, AuEvalStep *s, uint32_t count);

bool attn_oracle_linear(AuOracle *o);
/* The tensor that has the elements of this one: values that are a slice of the keys lie there. */
static inline int32_t attn_oracle_source(const AuOracle *o, int32_t tensor)
{
    return o->a->v_in_k && tensor == 2 ? 1 : tensor;
}
/* In that tensor, where a TENSOR node of a recurrence lies at the present token, and how far a channel is from the next. */
int64_t attn_oracle_tensor(const AuOracle *o, const AuNode *node, int64_t *channel);

#endif
