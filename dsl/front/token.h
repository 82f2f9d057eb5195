/* token.h - what passes between lexer, parser driver and grammar: tokens of one file, and the state of a parse. */
#ifndef AU_FRONT_TOKEN_H
#define AU_FRONT_TOKEN_H

#include "ast.h"

typedef struct AuToken {
    int kind; /* TOK_... of the generated grammar.h; 0 at the end */
    bool first_on_line;
    bool invented;  /* put in by the driver where one was missing */
    bool after_bad; /* behind something that was no token, which is reported */
    AuSpan span;
    const char *name; /* interned text of a name */
    int64_t integer;
    double number;
} AuToken;

typedef struct AuTokens {
    AuToken *items; /* the last one has kind 0 */
    uint32_t count, capacity;
} AuTokens;

/* lexer.re: all tokens of a source. Whatever is no token is reported and left out. */
AuTokens lex_source(AuArena *arena, AuNames *names, AuDiags *diags, uint32_t source);

typedef struct AuParse {
    AuAstMaker make;
    AuScript *script;
    const AuToken *first; /* of the file */
    bool
        failed; /* a syntax error at the token just given; the driver skips to where the parser can go on */
    bool overflow; /* the parser's stack is full: parsing cannot go on */
} AuParse;

/* parse.c, called by the grammar. [expected] has one flag for each kind of token that could have come. */
void parse_unexpected(AuParse *p, const AuToken *token, const bool *expected, int kinds);

/* grammar.y: the generated parser, in the arena of the parse. Kind 0 ends the file. */
void *grammar_new(AuParse *p);
void grammar_feed(void *parser, const AuToken *token);

#endif
