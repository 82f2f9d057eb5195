/* scan.h - what readers of text forms have in common: spaces and comments, words, numbers. What tokens there are beyond these is each
 * form's own (dsl/ir/read_expr.c, compiler/tile/lex.c, compiler/kernel/tokens.c, compiler/schedule/shapes.c). Any bytes are acceptable.
 * Scripts are not read by this: their lexer is generated (dsl/front/lexer.re). */
#ifndef AU_SUPPORT_SCAN_H
#define AU_SUPPORT_SCAN_H

#include <stdbool.h>
#include <stdint.h>

typedef struct AuScan {
    const char *text;
    uint32_t at, end; /* the next byte; behind the last one */
} AuScan;

/* Of ASCII, whatever the locale; _ is a letter. */
bool au_is_digit(char c);
bool au_is_letter(char c);

/* The byte so many ahead, 0 behind the end. */
char au_scan_peek(const AuScan *s, uint32_t ahead);
/* Skips spaces and comments (from // on), and [lines] too: then, whether a line ended on the way. */
bool au_scan_space(AuScan *s, bool lines);
/* Skips letters, digits and bytes of [also]; how many there were. */
uint32_t au_scan_word(AuScan *s, const char *also);

typedef struct AuNumber {
    bool is_real; /* has a point or an exponent */
    bool
        is_good; /* else it is digits, points and e in an order that is no number, too long, or an integer beyond 64 bits */
    int64_t integer;
    double real;
} AuNumber;
/* At a digit, or a - before one: digits, a point and more of them, an exponent. All that may be meant as part of it is skipped. */
AuNumber au_scan_number(AuScan *s);

#endif
