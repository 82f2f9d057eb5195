/* linear_rows.h - one evaluation of a recurrence by its normal form: programs of the slots, and the rows of the head and
 * sequence at hand. Shared by linear.c (forward) and linear_gradient.c. */
#ifndef AU_DSL_ATTN_LINEAR_ROWS_H
#define AU_DSL_ATTN_LINEAR_ROWS_H

#include "linear.h"
#include "oracle.h"

/* Gradients of the inputs of a slot: values, then indices of each read. */
typedef struct AuSlotBack {
    AuProgram *program; /* NULL: there are none */
    const AuInputGrads *inputs;
} AuSlotBack;

typedef struct AuLinearRun {
    AuOracle o;
    const AuNormal *n;
    const AuNormalGrads *g; /* NULL: forward alone */
    const AuLinearCall *call;
    AuProgram *slot[AU_SLOT_COUNT], *out_mod;
    AuSlotBack back[AU_SLOT_COUNT], out_back;
    AuProgram *out_value, *sum_back;
    int64_t columns; /* V, and one more for `norm` */

    /* the head and sequence: [T, width of the slot] */
    int64_t T, state_at; /* state_at: n * H + h */
    AuArena *rows_arena;
    double *row[AU_SLOT_COUNT];
    AuRows rows;
    double *state; /* [K, columns] */
    double *raw;   /* [T, columns] what q reads, and bonus */
} AuLinearRun;

/* Numbers a token of a slot's rows. */
int64_t linear_width(const AuLinearRun *r, AuSlot slot);
bool linear_begin(AuLinearRun *r, const AuAttn *a, const AuNormal *n, const AuNormalGrads *g,
                  const AuLinearCall *call, AuArena *scratch, const char **why);
/* Every head of every sequence: rows, states, what is read of them; then [each]. */
bool linear_run(AuLinearRun *r, bool (*each)(AuLinearRun *r));
/* The output of token t before out_mod, [V]; *norm: 1 without one. The oracle stands at t. */
bool linear_output(AuLinearRun *r, int64_t t, double *out, double *norm);
/* q . bonus k */
double linear_bonus(const AuLinearRun *r, int64_t t);
/* Runs a program at the oracle's token; false: *why. */
bool linear_program(AuLinearRun *r, AuProgram *p);
/* Joins a state and its sums, [K, V] and [K], NULL: 0. */
void linear_load_state(const AuLinearRun *r, const double *state, const double *sum, double *to);
void linear_store_state(const AuLinearRun *r, const double *from, double *state, double *sum);

#endif
