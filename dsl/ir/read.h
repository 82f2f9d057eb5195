/* read.h - what the parts of the reader share: read.c (statements), read_expr.c (expressions) and read_scan.c (scanner). */
#ifndef AU_DSL_ATTN_READ_H
#define AU_DSL_ATTN_READ_H

#include "attn.h"

typedef struct AuReader {
    AuAttn *a;
    AuNames *names;
    AuDiags *diags;
    uint32_t source;
    const char *text;
    uint32_t at, length;
    uint32_t depth; /* of the expression being read */
    bool failed;    /* the present line is given up */
    AuPlace place;  /* of the block being read */
    AuExpr *lets;   /* $1, $2, ... of it */
    uint32_t let_count, let_capacity;
    uint32_t scale_capacity, final_capacity;
} AuReader;

/* The first error of a line is reported; the rest of the line is then skipped by whoever reads
 * lines. */
void attn_read_error(AuReader *r, AuCode code, uint32_t begin, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* ---- read_scan.c: spaces and comments are skipped, line ends are not */
char attn_read_peek(AuReader *r); /* next character, '\n' at the end of a line, 0 at the end */
char attn_read_at(const AuReader *r, uint32_t ahead);   /* the byte so many on; 0: none */
const char *attn_read_found(AuReader *r);               /* what comes next, for a message */
bool attn_read_accept(AuReader *r, const char *symbol); /* skips it if it comes next */
bool attn_read_expect(AuReader *r, const char *symbol);
bool attn_read_accept_word(AuReader *r, const char *word);
const char *attn_read_name(AuReader *r); /* an identifier, NULL and an error if there is none */
bool attn_read_int(AuReader *r, int64_t *value);

/* ---- expressions; none after an error */
AuExpr attn_read_expr(AuReader *r);

#endif
