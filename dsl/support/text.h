/* text.h - a growing text, for printers. Lives in an arena; always ends with a NUL that is not
 * counted. */
#ifndef AU_SUPPORT_TEXT_H
#define AU_SUPPORT_TEXT_H

#include "arena.h"

typedef struct AuText {
    AuArena *arena;
    char *at; /* NULL while empty */
    size_t length, capacity;
} AuText;

void au_text_add(AuText *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void au_text_vadd(AuText *text, const char *format, va_list arguments);
void au_text_bytes(AuText *text, const void *bytes, size_t length);
const char *au_text_str(const AuText *text); /* never NULL */

/* The shortest decimal that reads back as the same double (or float), always with a point or an
 * exponent: "0.5", "1e-06", "inf", "nan". */
void au_text_number(AuText *text, double value);
void au_text_float(AuText *text, float value);

/* Bytes of the UTF-8 character at [s], which lies before [end]; 0 if it is none: no overlong forms,
 * no surrogates, nothing above U+10FFFF. */
uint32_t au_utf8_length(const char *s, const char *end);

#endif
