/* tokens.h - the words of the kernel IR's text form. Any bytes are acceptable input: what is no
 * word becomes T_BAD. */
#ifndef AU_KERNEL_TOKENS_H
#define AU_KERNEL_TOKENS_H

#include "diag.h"

typedef enum AuKTokenKind {
    AU_KT_END,
    AU_KT_BAD,
    AU_KT_WORD,   /* letters, digits, _ and . */
    AU_KT_STRING, /* text: without quotes and escapes */
    AU_KT_VALUE,  /* %12 or %12.name: integer and text */
    AU_KT_INT,    /* 12 */
    AU_KT_LONG,   /* 12l */
    AU_KT_FLOAT,  /* 1.0, inf, nan */
    AU_KT_PUNCT   /* one character: punct */
} AuKTokenKind;

typedef struct AuKToken {
    AuKTokenKind kind;
    char punct;
    bool starts_line; /* first on its line */
    const char *text;
    int64_t integer;
    double number;
    AuSpan span;
} AuKToken;

/* Reads one word from *at, which moves behind it. */
AuKToken kernel_token(const AuDiags *diags, AuNames *names, AuArena *arena, uint32_t source,
                      uint32_t *at);

#endif
