/* algebra.h - expressions as a mathematician writes them: real numbers, no rounding, everything that
 * occurs finite. x - x is 0, a b / a is b, exp(a) exp(b) is exp(a + b). Only for deriving gradients:
 * what comes out is compared with what went in on random rows by whoever uses it. */
#ifndef AU_DSL_ATTN_ALGEBRA_H
#define AU_DSL_ATTN_ALGEBRA_H

#include "attn.h"

/* The normal form: sums with equal terms collected, products with equal factors and exponentials
 * collected. Equal in normal form is equal; not the other way around. */
AuExpr algebra_normal(AuAttn *a, AuExpr e);

/* The x for which e, in which the leaf occurs in one place, is [value]; none: not found. In normal
 * form if e and value are. */
AuExpr algebra_solve(AuAttn *a, AuExpr e, AuExpr leaf, AuExpr value);

#endif
