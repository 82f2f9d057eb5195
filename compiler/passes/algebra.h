/* algebra.h - what the rewritings of a run share (algebra.c, distances.c, exponents.c): making expressions and statements, and what is known of
 * those that are there. */
#ifndef AU_PASSES_ALGEBRA_H
#define AU_PASSES_ALGEBRA_H

#include "pass.h"

#define ALGEBRA_LOG2E 1.4426950408889634074

/* exp(x - y) or exp(x - y - rest), y and rest of a row: rest is what rounding took from y, less than y's last place holds. */
typedef struct AlgebraExponent {
    AuTileExpr *x, *y, *rest; /* rest NULL: there is none */
} AlgebraExponent;

/* exp(x - y) as exp2(x * c + row), row = y * -log2(e): what references.c needs to take the difference instead. */
typedef struct AlgebraReference {
    const AuTileVar *row;
    AuTileExpr *y;     /* in the units of the score, as */
    AuTileExpr *rest;  /* by name; NULL: there is none */
    double factor;     /* x times this, */
    AuTileExpr *shift; /* and this of the row more; NULL: nothing */
    bool guarded;      /* y may be -inf, with every x of the row: the result is 0 then */
    double lift;       /* row is more by this (weights.c) */
} AlgebraReference;

/* A weight t that is rounded to f16 times 2^k: the factor goes into its exponent, and out of the gradients that are made of it. */
typedef struct AlgebraLift {
    const AuTileVar *t; /* NULL: there is none */
    double k;
    uint32_t at;   /* the statement that rounds it, */
    AuTileExpr *p; /* and what without the factor */
} AlgebraLift;

typedef struct Algebra {
    Pass *p;
    AuTileStmts run; /* the new one */
    /* The factor that is left out. */
    const AuTileVar *scaled;
    double factor;
    /* The part of the row that is left out (distances.c). */
    const AuTileVar *shifted;
    AuTileExpr *shift;
    AlgebraLift lift;
    struct {
        AlgebraReference *at;
        uint32_t count, capacity;
    } references;
} Algebra;

AuTileExpr *algebra_node(Algebra *x, AuTileOp op, const AuTileType *type, AuTileExpr *a,
                         AuTileExpr *b, AuTileExpr *c);
/* The same node with other operands. */
AuTileExpr *algebra_with(Algebra *x, const AuTileExpr *e, AuTileExpr *const *args);
AuTileExpr *algebra_number(Algebra *x, double value);
const AuTileType *algebra_bool_type(Algebra *x, const AuTileType *type); /* of the same axes */
AuTileExpr *algebra_name(Algebra *x, AuTileVar *var);
bool algebra_is_number(const AuTileExpr *e, double value);
/* Has [row] fewer axes than [all], each of them with a place? */
bool algebra_is_of_row(const AuTileExpr *row, const AuTileExpr *all);
/* Is it such an exponent, and of what? [of] may be NULL. */
bool algebra_is_exponent(const AuTileExpr *e, AlgebraExponent *of);

void algebra_assign(Algebra *x, AuTileVar *var, AuTileExpr *value); /* appends it */
/* Appends the statement with another value. */
void algebra_set(Algebra *x, const AuTileStmt *s, AuTileExpr *value);
/* The last assignment of the variable among the first [count] statements; NULL: none, or no name. */
AuTileExpr *algebra_defined(const AuTileStmts *run, uint32_t count, const AuTileExpr *name);
/* A value of its own, which expressions take by name. */
AuTileExpr *algebra_new_value(Algebra *x, const char *name, AuTileExpr *value);
/* The same in the layout of a variable. */
AuTileExpr *algebra_new_fragment(Algebra *x, const char *name, AuTileExpr *value,
                                 const AuTileVar *like);
/* where(c, x, -inf) */
bool algebra_is_masking(const AuTileExpr *e, const AuTileVar *var);
/* Can something be left out of all that the variable holds from statement [at] on? It is read in this
 * run only, and what else sets it masks it. */
bool algebra_can_leave_out(const Algebra *x, const AuTileStmts *run, uint32_t at);

/* ---- exponents.c: what may be rewritten */
typedef struct AlgebraGradient {
    AuTileExpr *t, *sum;
    double number;
    bool good;
} AlgebraGradient;
/* Does statement [n] make where(test, t * (u + z) * number, 0), the test a guard of t, or that without the test where its readers have
 * it? */
bool algebra_is_gradient(const Algebra *x, const AuTileStmts *run, uint32_t n, AlgebraGradient *f);

/* ---- weights.c */
AlgebraLift algebra_lift(Algebra *x, const AuTileStmts *run);
/* A product with the weight that is lifted, as it is without; NULL: it would cost an operation a pair. */
AuTileExpr *algebra_lowered(Algebra *x, AuTileExpr *e);

/* ---- steps: x->run becomes a better [run] */
void algebra_distances(Algebra *x, const AuTileStmts *run);  /* distances.c */
void algebra_exponents(Algebra *x, const AuTileStmts *run);  /* exponents.c */
void algebra_references(Algebra *x, const AuTileStmts *run); /* references.c */
void algebra_seldom(Algebra *x, const AuTileStmts *run);     /* seldom.c */

#endif
