/* expand.h - inside tile_expand: expand.c inlines and folds expressions, expand_copy.c copies declarations and statements. */
#ifndef AU_TILE_EXPAND_H
#define AU_TILE_EXPAND_H

#include "tile.h"

typedef struct Binding {
    const char *name; /* as the function or kernel interned it */
    AuTileExpr *value;
    struct Binding *before;
} Binding;

typedef struct Pair {
    const char *name;
    AuTileExpr *value;
} Pair;
typedef TILE_LIST(Pair) Pairs;

typedef struct Expand {
    AuArena *arena;
    AuDiags *diags;
    const AuTileModule *in;
    const AuTileExpansion *expansion;
    AuTileModule *out;
    AuTileExpr **consts; /* literals, in the order of in->consts */
    Binding *tuples;     /* variables of the kernel that hold tuples; interned in out */
    AuTileNames taken;   /* what is called something in this kernel */
    AuTileStmts *emit;   /* where statements go; NULL where none may stand */
    AuSpan span;         /* of the statement at hand */
    uint32_t depth;
    bool failed;
} Expand;

const char *keep(Expand *x, const char *name); /* the name, interned in the new module */
void take(Expand *x, const char *name);        /* nothing new may be called so */
void expand_error(Expand *x, AuCode code, AuSpan span, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* env: parameters and variables of the hook that the expression stands in; NULL: it stands in the kernel. */
AuTileExpr *expand_expr(Expand *x, Binding *env, const AuTileExpr *e);
void expand_assign(Expand *x, const AuTileStmt *s);

#endif
