/* ast.h - the syntax tree of a script, as written: nothing is resolved, typed or moved.
 *
 * Everything lives in the arena of the compilation; names are interned, so that they compare with ==. Every node knows its span.
 * One AuItem shape carries every declaration, from `const` down to a slot of `linear`: its kind says which fields are used.
 * What could not be parsed leaves `broken` set on what encloses it, and the names it mentioned in AuScript.lost, so that later
 * stages do not complain about what the user did write. */
#ifndef AU_FRONT_AST_H
#define AU_FRONT_AST_H

#include "arena.h"
#include "diag.h"
#include "nameset.h"

typedef enum AuAstKind {
    AU_AST_ERROR, /* was reported already */
    AU_AST_INT,   /* integer */
    AU_AST_FLOAT, /* number */
    AU_AST_BOOL,  /* integer 0 or 1 */
    AU_AST_NAME,
    AU_AST_UNARY,  /* op, args[0] */
    AU_AST_BINARY, /* op, args[0], args[1] */
    AU_AST_CALL,   /* name(args) */
    AU_AST_INDEX,  /* name[args] */
    AU_AST_FIELD,  /* name.field */
    AU_AST_REST,   /* `..` among indices */
    AU_AST_RANGE   /* args[0] : args[1] among indices */
} AuAstKind;

// clang-format off
typedef enum AuAstOp {
    AU_AST_NO_OP,
#define BINARY(NAME, text) AU_AST_##NAME,
#define UNARY(NAME, text) AU_AST_##NAME,
#include "operators.def"
    AU_AST_OP_COUNT
} AuAstOp;
// clang-format on

/* Deepest nesting of an expression; keeps every recursive walk within the stack. */
enum { AU_AST_MAX_DEPTH = 400 };

typedef struct AuAst AuAst;

typedef struct AuAstList {
    AuAst **items;
    uint32_t count, capacity;
} AuAstList;

struct AuAst {
    AuAstKind kind;
    AuAstOp op;
    AuSpan span;
    const char *name, *field;
    AuSpan name_span;
    int64_t integer;
    double number;
    AuAstList args;
    uint32_t depth; /* of the tree below, 1 for a leaf */
};

typedef struct AuAstName {
    const char *text; /* NULL: not given */
    AuSpan span;
} AuAstName;

typedef struct AuAstNames {
    AuAstName *items;
    uint32_t count, capacity;
} AuAstNames;

typedef enum AuStmtKind { AU_STMT_LET, AU_STMT_ASSIGN, AU_STMT_FOR, AU_STMT_RETURN } AuStmtKind;

typedef struct AuBody AuBody;

typedef struct AuStmt {
    AuStmtKind kind;
    AuSpan span;
    AuAstName name;
    AuAst *value;     /* of let and assignment; of for: the range */
    AuAstList values; /* of return */
    AuBody *body;     /* of for */
} AuStmt;

/* `= expr;` is the body { return expr; }. */
struct AuBody {
    AuStmt *stmts;
    uint32_t count, capacity;
    AuSpan span;
    bool braces, broken;
};

typedef enum AuItemKind {
    /* of a file */
    AU_ITEM_CONST,     /* name, value */
    AU_ITEM_FN,        /* name, params, body */
    AU_ITEM_ONLINE,    /* name, params, items */
    AU_ITEM_ATTENTION, /* name, items */
    /* of an attention */
    AU_ITEM_TENSOR,  /* name, dtype, list: axes */
    AU_ITEM_SLICE,   /* name = value */
    AU_ITEM_INPUT,   /* name, dtype, list: axes, tail: `grad` or none */
    AU_ITEM_PARAM,   /* name, dtype, value or NULL */
    AU_ITEM_REQUIRE, /* value */
    AU_ITEM_LET,     /* name, value */
    AU_ITEM_MOD,     /* name, params, body; also a clause of an online function */
    AU_ITEM_USE,     /* online name(list) */
    AU_ITEM_LINEAR,  /* items */
    /* of an online function */
    AU_ITEM_ROWSCALE, /* name, value */
    AU_ITEM_FINAL,    /* params: the names */
    AU_ITEM_KEPT,     /* params: the names */
    /* of linear */
    AU_ITEM_SLOT /* name, list: one value, or the pair of lowrank */
} AuItemKind;

typedef struct AuItem AuItem;

typedef struct AuItemList {
    AuItem **items;
    uint32_t count, capacity;
} AuItemList;

struct AuItem {
    AuItemKind kind;
    AuSpan span;
    AuAstName name, dtype, tail;
    AuAstNames params;
    AuAst *value;
    AuAstList list;
    AuBody *body;
    AuItemList items;
    bool broken; /* something inside could not be parsed */
};

typedef struct AuScript {
    uint32_t source;
    AuItemList items;
    AuNameSet *lost;        /* names in statements that could not be parsed */
    bool broken, truncated; /* truncated: braces are open at the end */
} AuScript;

/* ---- what the grammar's actions build with (ast.c) */
typedef struct AuAstMaker {
    AuArena *arena;
    AuDiags *diags;
    bool too_deep; /* reported once a file */
} AuAstMaker;

AuSpan ast_join(AuSpan first, AuSpan last);
AuAst *ast_leaf(AuAstMaker *m, AuAstKind kind, AuSpan span);
AuAst *ast_unary(AuAstMaker *m, AuAstOp op, AuAst *x, AuSpan span);
AuAst *ast_binary(AuAstMaker *m, AuAstOp op, AuAst *x, AuAst *y);
/* A call or an index: NAME with arguments. */
AuAst *ast_apply(AuAstMaker *m, AuAstKind kind, AuAstName name, AuAstList args, AuSpan last);
AuAst *ast_range(AuAstMaker *m, AuAst *first, AuAst *last);
AuAst *ast_grouped(AuAst *x, AuSpan first, AuSpan last); /* (x): only the span grows */

AuItem *ast_item(AuAstMaker *m, AuItemKind kind, AuAstName name, AuSpan first, AuSpan last);
AuBody *ast_body(AuAstMaker *m);
AuBody *ast_body_of_expr(AuAstMaker *m, AuAst *value, AuSpan span);
/* Checks that the body returns once, at its end. */
void ast_body_end(AuAstMaker *m, AuBody *body, AuSpan span);
/* Checks that the body of a loop does not return. */
void ast_loop_end(AuAstMaker *m, AuBody *body, AuSpan span);

/* ---- text form, for --emit=ast: an outline with every expression fully parenthesised (ast_print.c) */
void front_print_ast(const AuScript *script, AuText *out);
void ast_print_expr(const AuAst *e, AuText *out);
const char *ast_op_text(AuAstOp op);

#endif
