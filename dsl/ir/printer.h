/* printer.h - of print.c and print_expr.c: the printer of the attention IR. */
#ifndef AU_ATTN_PRINTER_H
#define AU_ATTN_PRINTER_H

#include "attn.h"

typedef struct Printer {
    const AuAttn *a;
    AuText *out;
    AuArena *scratch;
    uint32_t indent;
    uint32_t budget; /* nodes that may still be written, then "..."; 0: any number */
    /* one entry a node */
    uint32_t *let; /* number of its let in the present block; 0: written in place */
    uint32_t *uses, *height;
    bool *mark;
} Printer;

/* In parentheses where operators around it bind more tightly than [precedence]. */
void printer_expr(Printer *p, AuExpr e, int precedence);
void printer_size(Printer *p, int32_t i); /* the name of a size */

#endif
