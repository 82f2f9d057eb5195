/* verify.h - inside tile_verify. verify.c: kernels and what they declare; verify_stmt.c, verify_product.c: statements; verify_vars.c:
 * variables and layouts; verify_expr.c: expressions; verify_view.c: views of memory; flow.c: what is in flight, stages, and what is set, once the types are known. */
#ifndef AU_TILE_VERIFY_H
#define AU_TILE_VERIFY_H

#include "tile.h"

typedef struct Verify {
    AuArena *arena;
    AuDiags *diags;
    AuTileModule *module;
    AuTileKernel *kernel;
    AuTileRole *role;               /* NULL outside of roles */
    TILE_LIST(AuTileVar *) visible; /* variables of the role, innermost last */
    int32_t fragment_registers;     /* a lane, of those of them that are declared fragments */
    TILE_LIST(AuTileMemory *) privates;
    TILE_LIST(AuTileList *) loops; /* enclosing loops over tile lists */
    AuTilePipe *
        *pipe_of; /* by slot of the role: the pipeline that a stage handle was last taken from */
    uint32_t pipe_capacity;
    const AuTileStmt *stmt; /* at hand, for its place */
    const AuTileStmt *loop; /* around it, over one segment; or NULL */
    bool failed;
} Verify;

/* Reports at the expression, else at the statement; remembers that something failed. Returns NULL. */
const AuTileType *verify_error(Verify *v, AuCode code, AuSpan span, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
const char *tile_type_text(Verify *v, const AuTileType *type);

/* verify_expr.c: NULL after an error */
const AuTileType *type_of(Verify *v, AuTileExpr *e); /* a value */
const AuTileType *retyped(Verify *v, const AuTileType *type, AuTileElem elem);
bool is_float(const AuTileType *type);
bool expect_scalar(Verify *v, AuTileExpr *e, const char *what);
bool constant(Verify *v, const AuTileExpr *e, const char *what, int32_t *value); /* positive */
bool is_too_large(Verify *v, AuSpan span, const AuTileType *type);               /* reports it */
AuTileType *new_type(Verify *v, AuTileElem elem, uint32_t axes);
AuTileVar *find_var(const Verify *v, const char *name);
AuTileMemory *find_memory(const Verify *v, const char *name);
AuTileVar *find_var_of_role(const Verify *v, const char *name);

bool same_axes(const AuTileType *a,
               const AuTileType *b); /* the same names and sizes, in any order */

/* verify_view.c: NULL after an error */
const AuTileType *type_of_view(Verify *v, AuTileExpr *e); /* makes `e` a REF with all its indices */
const AuTileType *type_of_gather(Verify *v, AuTileExpr *e); /* one inside of an expression */
/* A fragment's value or a view, whichever `e` is: product operands. */
const AuTileType *type_of_operand(Verify *v, AuTileExpr *e);

/* verify_vars.c: NULL or false after an error */
AuTileVar *declare(Verify *v, const char *name, AuTileVarKind kind, const AuTileType *type);
AuTileVar *set_value(Verify *v, const char *name,
                     const AuTileType *type); /* declares it if it is new */
AuTileVar *set_handle(Verify *v, const char *name,
                      AuTileVarKind kind); /* a stage or token, likewise */
bool fits(Verify *v, const AuTileVar *var, const AuTileType *value);
AuTileType *sized(Verify *v, const AuTileType *declared); /* with the sizes of its extents */
bool place(Verify *v, const AuTileLayoutRef *layout, AuTileType *type);

/* verify_stmt.c, verify_product.c */
bool verify_role(Verify *v, AuTileRole *role);
bool verify_product(Verify *v, AuTileStmt *s);

/* flow.c */
bool verify_flow(AuArena *arena, AuDiags *diags, const AuTileRole *role);

#endif
