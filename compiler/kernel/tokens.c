/* tokens.c - see tokens.h. */
#include "tokens.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct Scan {
    const char *text;
    uint32_t at, end;
    AuNames *names;
    AuArena *arena;
} Scan;

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_' || c == '.';
}
static char peek(const Scan *s, uint32_t ahead)
{
    return ahead < s->end - s->at ? s->text[s->at + ahead] : 0;
}

/* True where a line ended on the way (or the text begins). */
static bool skip_space(Scan *s)
{
    bool line = s->at == 0;
    while (s->at < s->end) {
        const char c = s->text[s->at];
        if (c == '/' && peek(s, 1) == '/')
            while (s->at < s->end && s->text[s->at] != '\n') s->at++;
        else if (c == ' ' || c == '\t' || c == '\r' || c == '\n') {
            line = line || c == '\n';
            s->at++;
        } else
            break;
    }
    return line;
}

static const char *word(Scan *s)
{
    const uint32_t begin = s->at;
    while (s->at < s->end && is_word(s->text[s->at])) s->at++;
    return au_name_n(s->names, s->text + begin, s->at - begin);
}

static int hex(char c) { return is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }

/* At the opening quote. */
static void string(Scan *s, AuKToken *t)
{
    AuText out = {.arena = s->arena};
    t->kind = AU_KT_BAD; /* until it ends */
    for (s->at++; s->at < s->end; s->at++) {
        char c = s->text[s->at];
        if (c == '"') {
            s->at++;
            t->kind = AU_KT_STRING;
            break;
        }
        if (c == '\n' || c == 0) break;
        if (c == '\\') {
            c = peek(s, 1);
            if (c == 'x' && hex(peek(s, 2)) >= 0 && hex(peek(s, 3)) >= 0) {
                c = (char)(hex(peek(s, 2)) * 16 + hex(peek(s, 3)));
                s->at += 3;
                if (c == 0) break;
            } else if (c == 'n' || c == '"' || c == '\\') {
                c = c == 'n' ? '\n' : c;
                s->at++;
            } else
                break;
        }
        au_text_bytes(&out, &c, 1);
    }
    t->text = au_name_n(s->names, au_text_str(&out), out.length);
}

/* Digits with an optional sign, point and exponent; an l behind makes an i64. */
static void number(Scan *s, AuKToken *t)
{
    char digits[64];
    uint32_t length = 0;
    bool real = false;
    for (; s->at < s->end; s->at++) {
        const char c = s->text[s->at];
        const bool sign = (c == '-' || c == '+') &&
                          (length == 0 || digits[length - 1] == 'e' || digits[length - 1] == 'E');
        if (!sign && !is_digit(c) && c != '.' && c != 'e' && c != 'E') break;
        real = real || c == '.' || c == 'e' || c == 'E';
        if (length < sizeof digits - 1) digits[length++] = c;
    }
    digits[length] = 0;
    char *end = digits;
    errno = 0;
    if (real)
        t->number = strtod(digits, &end);
    else
        t->integer = strtoll(digits, &end, 10);
    const bool bad = end == digits || *end || (errno == ERANGE && !real);
    t->kind = bad ? AU_KT_BAD : real ? AU_KT_FLOAT : AU_KT_INT;
    if (!real && peek(s, 0) == 'l') {
        s->at++;
        if (!bad) t->kind = AU_KT_LONG;
    }
}

static void value(Scan *s, AuKToken *t)
{
    s->at++;
    for (; is_digit(peek(s, 0)); s->at++) {
        if (t->integer < 1 << 26) t->integer = t->integer * 10 + (peek(s, 0) - '0');
        t->kind = AU_KT_VALUE;
    }
    if (peek(s, 0) != '.') return;
    s->at++;
    t->text = word(s);
}

/* inf and nan are numbers, with a sign too. */
static bool is_special(Scan *s, AuKToken *t)
{
    const bool minus = peek(s, 0) == '-';
    const uint32_t from = s->at + minus;
    if (s->end - s->at < 3u + minus || (s->end - from > 3 && is_word(s->text[from + 3])))
        return false;
    const bool inf = memcmp(s->text + from, "inf", 3) == 0,
               nan = memcmp(s->text + from, "nan", 3) == 0;
    if (!inf && !nan) return false;
    t->kind = AU_KT_FLOAT;
    t->number = inf ? minus ? -__builtin_inf() : __builtin_inf() : __builtin_nan("");
    s->at = from + 3;
    return true;
}

AuKToken kernel_token(const AuDiags *diags, AuNames *names, AuArena *arena, uint32_t source,
                      uint32_t *at)
{
    const AuSource *text = &diags->sources[source];
    Scan s = {text->text, *at, text->length, names, arena};
    AuKToken t = {.kind = AU_KT_BAD};
    t.starts_line = skip_space(&s);
    t.span = (AuSpan){source, s.at, s.at};
    const char c = peek(&s, 0);
    if (s.at >= s.end)
        t.kind = AU_KT_END;
    else if (is_special(&s, &t)) {
    } else if (c == '"')
        string(&s, &t);
    else if (c == '%')
        value(&s, &t);
    else if (is_digit(c) || c == '-')
        number(&s, &t);
    else if (is_word(c)) {
        t.kind = AU_KT_WORD;
        t.text = word(&s);
    } else {
        t.kind = c && strchr("@[]{},=:#", c) ? AU_KT_PUNCT : AU_KT_BAD;
        t.punct = c;
        s.at++;
    }
    if (s.at == t.span.begin && s.at < s.end) s.at++;
    t.span.end = s.at;
    *at = s.at;
    return t;
}
