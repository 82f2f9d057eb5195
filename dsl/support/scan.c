/* scan.c - see scan.h. */
#include "scan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool au_is_digit(char c) { return c >= '0' && c <= '9'; }
bool au_is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

char au_scan_peek(const AuScan *s, uint32_t ahead)
{
    return s->at < s->end && ahead < s->end - s->at ? s->text[s->at + ahead] : 0;
}

bool au_scan_space(AuScan *s, bool lines)
{
    bool ended = false;
    while (s->at < s->end) {
        const char c = s->text[s->at];
        if (c == '/' && au_scan_peek(s, 1) == '/')
            while (s->at < s->end && s->text[s->at] != '\n') s->at++;
        else if (c == ' ' || c == '\t' || c == '\r' || (lines && c == '\n')) {
            ended = ended || c == '\n';
            s->at++;
        } else
            break;
    }
    return ended;
}

uint32_t au_scan_word(AuScan *s, const char *also)
{
    const uint32_t begin = s->at;
    for (; s->at < s->end; s->at++) {
        const char c = s->text[s->at];
        if (!au_is_letter(c) && !au_is_digit(c) && !(c && strchr(also, c))) break;
    }
    return s->at - begin;
}

static void skip_digits(AuScan *s)
{
    while (au_is_digit(au_scan_peek(s, 0))) s->at++;
}

static bool is_exponent(const AuScan *s)
{
    const char e = au_scan_peek(s, 0), sign = au_scan_peek(s, 1);
    return (e == 'e' || e == 'E') &&
           (au_is_digit(sign) || ((sign == '-' || sign == '+') && au_is_digit(au_scan_peek(s, 2))));
}

/* A part of a number where none may be. */
static bool goes_on(const AuScan *s)
{
    const char c = au_scan_peek(s, 0);
    return au_is_digit(c) || c == '.' || c == 'e' || c == 'E';
}

AuNumber au_scan_number(AuScan *s)
{
    AuNumber out = {.is_good = false};
    char text[128];
    const uint32_t begin = s->at;
    if (au_scan_peek(s, 0) == '-') s->at++;
    const uint32_t first = s->at;
    skip_digits(s);
    const bool has_digits = s->at > first;
    if (au_scan_peek(s, 0) == '.') {
        out.is_real = true;
        s->at++;
        skip_digits(s);
    }
    if (is_exponent(s)) {
        out.is_real = true;
        s->at += 2;
        skip_digits(s);
    }
    const uint32_t length = s->at - begin;
    const bool is_whole = has_digits && !goes_on(s) && length < sizeof text;
    while (goes_on(s)) s->at++;
    if (!is_whole) return out;
    memcpy(text, s->text + begin, length);
    text[length] = 0;
    errno = 0;
    if (out.is_real)
        out.real = strtod(text, NULL);
    else
        out.integer = strtoll(text, NULL, 10);
    out.is_good = out.is_real || errno != ERANGE;
    return out;
}
