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
    bool failed;
} Pass;

void pass_empty(Pass *p);    /* empty.c */
void pass_sums(Pass *p);     /* sums.c */
void pass_segments(Pass *p); /* segments.c */

void pass_refuse(Pass *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
void pass_push(Pass *p, AuTileStmts *to, AuTileStmt *s);
/* Is it a loop over a whole list? */
bool pass_is_list_loop(const AuTileStmt *s);

#endif
