/* pass.h - what passes share. A pass changes the statements of a role in place; types are those of the verifier, which runs again
 * after it. */
#ifndef AU_PASSES_PASS_H
#define AU_PASSES_PASS_H

#include "passes.h"

typedef struct Pass {
    AuArena *arena;
    AuDiags *diags;
    AuTileModule *module;
    AuTileKernel *kernel;
    AuTileRole *role;
    bool shares_rows; /* tile_shares_rows */
    AuSpan span;      /* of the statement at hand */
    AuTileNames new_names;
    /* of the run at hand, in the program before the pass */
    AuTileStmts run, after;    /* it, and the rest of its body */
    const AuTileStmts *beside; /* in half of a branch: the other half */
    const AuTileCount *counts;
    AuTileExpr **formulas; /* by slot, of tiles without a layout: what they are, after the pass */
    bool in_branch;        /* the run stands under `if anywhere(x)` */
    bool failed;
} Pass;

void pass_indices(Pass *p);                                               /* indices.c */
void pass_empty(Pass *p);                                                 /* empty.c */
void pass_sums(Pass *p);                                                  /* sums.c */
void pass_segments(Pass *p);                                              /* segments.c */
void pass_bounds(Pass *p), pass_maxima(Pass *p), pass_exponents(Pass *p); /* algebra.c */

void pass_refuse(Pass *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
void pass_push(Pass *p, AuTileStmts *to, AuTileStmt *s);
/* Do pairs take so many operations that code for all segments is one, and that none is worth a branch? (segments.c) */
bool pass_is_heavy(const AuTileStmts *body);
/* Is it a loop over a whole list? */
bool pass_is_list_loop(const AuTileStmt *s);

void pass_statistics(Pass *p); /* statistics.c */
void pass_lag(Pass *p);        /* lag.c */
void pass_tanh(Pass *p);       /* tanh.c */
void pass_sink(Pass *p);       /* sink.c */
void pass_waits(Pass *p);      /* waits.c */
void pass_places(Pass *p);     /* places.c */
void pass_rings(Pass *p);      /* rings.c */
void pass_turns(Pass *p);      /* turns.c */
void pass_order(Pass *p);      /* order.c */

/* ---- make.c: expressions and statements without types */
AuTileExpr *pass_expr(Pass *p, AuTileOp op, AuTileExpr *a, AuTileExpr *b,
                      AuSpan span); /* b, or both: NULL */
AuTileExpr *pass_number(Pass *p, int64_t value, AuSpan span);
AuTileExpr *pass_name(Pass *p, const char *name, AuSpan span);
/* A copy, types too, with another expression instead of each reading of the variable; of NULL: NULL. */
AuTileExpr *pass_with(Pass *p, const AuTileExpr *e, const AuTileVar *var, AuTileExpr *instead);
AuTileStmt *pass_assignment(Pass *p, const char *name, AuTileExpr *value, AuSpan span);
AuTileStmt *pass_branch(Pass *p, AuTileExpr *asked, AuSpan span); /* if anywhere(asked) { } */

/* ---- runs.c: runs of assignments */
typedef void (*PassRun)(Pass *p, AuTileStmts *run); /* becomes another one */
void pass_each_run(Pass *p, PassRun change);
/* Of a name that nothing has, and to be assigned. */
AuTileVar *pass_new_var(Pass *p, const char *name, const AuTileType *type);
AuTileType pass_written_type(Pass *p, const AuTileType *type); /* as a declaration has it */
const AuTileCount *pass_count(const Pass *p, const AuTileVar *var);
AuTileExpr *pass_formula(const Pass *p, const AuTileVar *var); /* NULL: it has none */
/* Is all that the variable holds in this run read in it, and set anew before by each step of a loop, or by whoever else reads it? */
bool pass_ends_in_run(const Pass *p, const AuTileVar *var);

#endif
