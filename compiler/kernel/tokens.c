/* tokens.c - see tokens.h. */
#include "tokens.h"

#include "scan.h"

#include <string.h>

typedef struct Scan {
    AuScan in;
    AuNames *names;
    AuArena *arena;
} Scan;

static char peek(const Scan *s, uint32_t ahead) { return au_scan_peek(&s->in, ahead); }
static bool is_word(char c) { return au_is_letter(c) || au_is_digit(c) || c == '.'; }

static const char *word(Scan *s)
{
    const uint32_t length = au_scan_word(&s->in, ".");
    return au_name_n(s->names, s->in.text + s->in.at - length, length);
}

static int hex(char c)
{
    return au_is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* At the opening quote. */
static void string(Scan *s, AuKToken *t)
{
    AuText out = {.arena = s->arena};
    t->kind = AU_KT_BAD; /* until it ends */
    for (s->in.at++; s->in.at < s->in.end; s->in.at++) {
        char c = s->in.text[s->in.at];
        if (c == '"') {
            s->in.at++;
            t->kind = AU_KT_STRING;
            break;
        }
        if (c == '\n' || c == 0) break;
        if (c == '\\') {
            c = peek(s, 1);
            if (c == 'x' && hex(peek(s, 2)) >= 0 && hex(peek(s, 3)) >= 0) {
                c = (char)(hex(peek(s, 2)) * 16 + hex(peek(s, 3)));
                s->in.at += 3;
                if (c == 0) break;
            } else if (c == 'n' || c == '"' || c == '\\') {
                c = c == 'n' ? '\n' : c;
                s->in.at++;
            } else
                break;
        }
        au_text_bytes(&out, &c, 1);
    }
    t->text = au_name_n(s->names, au_text_str(&out), out.length);
}

/* A number; an l behind an integer makes an i64. */
static void number(Scan *s, AuKToken *t)
{
    const AuNumber n = au_scan_number(&s->in);
    t->integer = n.integer, t->number = n.real;
    t->kind = !n.is_good ? AU_KT_BAD : n.is_real ? AU_KT_FLOAT : AU_KT_INT;
    if (n.is_real || peek(s, 0) != 'l') return;
    s->in.at++;
    if (n.is_good) t->kind = AU_KT_LONG;
}

static void value(Scan *s, AuKToken *t)
{
    s->in.at++;
    for (; au_is_digit(peek(s, 0)); s->in.at++) {
        if (t->integer < 1 << 26) t->integer = t->integer * 10 + (peek(s, 0) - '0');
        t->kind = AU_KT_VALUE;
    }
    if (peek(s, 0) != '.') return;
    s->in.at++;
    t->text = word(s);
}

/* inf and nan are numbers, with a sign too. */
static bool is_special(Scan *s, AuKToken *t)
{
    const bool minus = peek(s, 0) == '-';
    const uint32_t from = s->in.at + minus;
    if (s->in.end - s->in.at < 3u + minus ||
        (s->in.end - from > 3 && is_word(s->in.text[from + 3])))
        return false;
    const bool inf = memcmp(s->in.text + from, "inf", 3) == 0,
               nan = memcmp(s->in.text + from, "nan", 3) == 0;
    if (!inf && !nan) return false;
    t->kind = AU_KT_FLOAT;
    t->number = inf ? minus ? -__builtin_inf() : __builtin_inf() : __builtin_nan("");
    s->in.at = from + 3;
    return true;
}

AuKToken kernel_token(const AuDiags *diags, AuNames *names, AuArena *arena, uint32_t source,
                      uint32_t *at)
{
    const AuSource *text = &diags->sources[source];
    Scan s = {{text->text, *at, text->length}, names, arena};
    AuKToken t = {.kind = AU_KT_BAD};
    t.starts_line = au_scan_space(&s.in, true) || *at == 0;
    t.span = (AuSpan){source, s.in.at, s.in.at};
    const char c = peek(&s, 0);
    if (s.in.at >= s.in.end)
        t.kind = AU_KT_END;
    else if (is_special(&s, &t)) {
    } else if (c == '"')
        string(&s, &t);
    else if (c == '%')
        value(&s, &t);
    else if (au_is_digit(c) || c == '-')
        number(&s, &t);
    else if (is_word(c)) {
        t.kind = AU_KT_WORD;
        t.text = word(&s);
    } else {
        t.kind = c && strchr("@[]{},=:#", c) ? AU_KT_PUNCT : AU_KT_BAD;
        t.punct = c;
        s.in.at++;
    }
    if (s.in.at == t.span.begin && s.in.at < s.in.end) s.in.at++;
    t.span.end = s.in.at;
    *at = s.in.at;
    return t;
}
