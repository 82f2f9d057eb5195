/* reader.h - inside the reader of the text form: tokens, and what the parts of the grammar share.
 * The reader stops at the first error: it says so once and then sees nothing but the end of the file. */
#ifndef AU_TILE_READER_H
#define AU_TILE_READER_H

#include "tile.h"

typedef enum TokenKind {
    TOKEN_NAME,
    TOKEN_INT,
    TOKEN_FLOAT,
    TOKEN_SIGN,
    TOKEN_NEWLINE,
    TOKEN_END
} TokenKind;

typedef struct Token {
    TokenKind kind;
    uint32_t begin, end;
    const char *text; /* interned */
    int64_t integer;  /* of TOKEN_INT */
    double number;    /* of TOKEN_FLOAT */
} Token;

typedef struct Reader {
    AuArena *arena;
    AuDiags *diags;
    AuNames *names;
    AuTileModule *module;
    uint32_t source;
    Token *tokens; /* ends with TOKEN_END; no newlines inside parentheses and brackets */
    uint32_t count, capacity, at, depth;
    bool failed;
} Reader;

/* lex.c: the tokens of a text; looking at them and taking them */
bool lex(Reader *r);
const Token *token(const Reader *r);
bool is(const Reader *r, const char *text);        /* the next token, a name or sign */
bool is_second(const Reader *r, const char *text); /* the one after it */
bool accept(Reader *r, const char *text);
void expect(Reader *r, const char *text);
const char *take_name(Reader *r); /* never NULL */
AuSpan span_from(const Reader *r,
                 uint32_t begin);       /* from the byte `begin` to what was taken last */
void fail(Reader *r, const char *what); /* "expected ..., found ..." */
void skip_lines(Reader *r);             /* those without anything */
void end_line(Reader *r);               /* and those without anything */
bool enter(Reader *r);                  /* one deeper; leave() when it returned true */
void leave(Reader *r);

/* What the text of a file consists of, for the reader of files and for the builder (build.c). */
void read_definition(Reader *r); /* of a file: "option ..", a whole kernel */
void read_arg(Reader *r, AuTileKernel *k);
void read_grid(Reader *r, AuTileKernel *k);
AuTileSegment read_segment(Reader *r);      /* of a list of tiles */
void read_item(Reader *r, AuTileKernel *k); /* of a kernel: "let ..", a whole role */

/* read_expr.c */
AuTileExpr *read_expr(Reader *r);
AuTileExpr *read_ref(Reader *r);
AuTileAxis read_axis(Reader *r);
AuTileType read_type(Reader *r);
AuTileExpr *new_expr(Reader *r, AuTileOp op, uint32_t begin);

/* read_stmt.c */
AuTileStmt *read_statement(Reader *r);
void read_block(Reader *r, AuTileStmts *out);
AuTileStmt *new_stmt(Reader *r, AuTileStmtKind kind, uint32_t begin);
AuTileLayoutRef read_operand(Reader *r); /* "wgmma.C" */
AuTileMemory *read_memory(Reader *r, AuTileSpace space);

#endif
