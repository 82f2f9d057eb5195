/* lexer.re - a source to tokens, for re2c.
 * What is no token is reported and left out, so that the parser meets only tokens. The text is checked as a whole first: it must
 * be UTF-8 without NUL. Sources end with a NUL that is not part of them, which is re2c's sentinel. */
#include "grammar.h"
#include "token.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LARGEST_SOURCE = 4 << 20, LONGEST_NUMBER = 100 };

typedef struct Lexer {
    AuArena *arena;
    AuNames *names;
    AuDiags *diags;
    uint32_t source;
    const char *text;
    AuTokens tokens;
    bool first_on_line, after_bad;
} Lexer;

static AuSpan span_of(const Lexer *l, const char *begin, const char *end)
{
    return (AuSpan){l->source, (uint32_t)(begin - l->text), (uint32_t)(end - l->text)};
}

static AuToken *add(Lexer *l, int kind, const char *begin, const char *end)
{
    const AuToken token = {
        .kind = kind, .first_on_line = l->first_on_line, .after_bad = l->after_bad, .span = span_of(l, begin, end)};
    AU_PUSH(l->arena, l->tokens.items, l->tokens.count, l->tokens.capacity, token);
    l->first_on_line = l->after_bad = false;
    return &l->tokens.items[l->tokens.count - 1];
}

/* ---- the text */

/* Reports the first NUL and the first byte that is not UTF-8. What has both is no text: false. */
static bool check_text(Lexer *l, const char *end)
{
    bool nul = false, invalid = false;
    for (const char *s = l->text; s < end;) {
        const uint32_t length = au_utf8_length(s, end);
        if (!length && !invalid)
            au_error(l->diags, AU_E0102, span_of(l, s, s + 1), "byte 0x%02x is not UTF-8 here", (unsigned char)*s);
        invalid |= !length;
        if (!*s && !nul) au_error(l->diags, AU_E0103, span_of(l, s, s + 1), "a zero byte in the text");
        nul |= !*s;
        s += length ? length : 1;
    }
    return !(nul && invalid);
}

/* Whether the tokens can be looked for at all; what is in the way is reported. */
static bool is_script(Lexer *l, const AuSource *s)
{
    if (s->length >= 4 && memcmp(s->text, "\177ELF", 4) == 0) {
        AuDiag *d = au_error(l->diags, AU_E0114, (AuSpan){0}, "%s is an artifact or another file of machine code, not a script", s->name);
        au_add_note(l->diags, d, (AuSpan){0}, "'aule inspect' shows what an artifact holds, its script among it");
        return false;
    }
    if (s->length <= LARGEST_SOURCE) return check_text(l, s->text + s->length);
    au_error(l->diags, AU_E0113, (AuSpan){l->source, 0, 1}, "a script has at most %d bytes, this one has more", LARGEST_SOURCE);
    return false;
}

/* ---- numbers */

/* The digits as a double, whatever decimal point the locale of the process has. */
static double to_double(const char *begin, const char *end)
{
    char digits[LONGEST_NUMBER + 1];
    const size_t length = (size_t)(end - begin);
    memcpy(digits, begin, length);
    digits[length] = 0;
    char *point = strchr(digits, '.');
    if (point) *point = localeconv()->decimal_point[0];
    return strtod(digits, NULL);
}

static void add_float(Lexer *l, const char *begin, const char *end)
{
    const double value = end - begin > LONGEST_NUMBER ? INFINITY : to_double(begin, end);
    AuToken *token = add(l, TOK_FLOAT, begin, end);
    if (value > (double)FLT_MAX)
        au_error(l->diags, AU_E0106, token->span, "this number does not fit f32, whose largest is %g", (double)FLT_MAX);
    else token->number = value;
}

static void add_int(Lexer *l, const char *begin, const char *end, int base)
{
    uint64_t value = 0;
    const uint64_t largest = base == 16 ? UINT32_MAX : INT32_MAX;
    for (const char *s = base == 16 ? begin + 2 : begin; s < end && value <= largest; s++) {
        const int digit = *s <= '9' ? *s - '0' : (*s | 32) - 'a' + 10;
        value = value * (uint64_t)base + (uint64_t)digit;
    }
    AuToken *token = add(l, TOK_INT, begin, end);
    if (value > largest)
        au_error(l->diags, AU_E0106, token->span, "this integer does not fit i32, whose largest is %d", INT32_MAX);
    else token->integer = (int32_t)(uint32_t)value; /* hexadecimal digits are the bits */
}

static void add_bad_number(Lexer *l, const char *begin, const char *end)
{
    AuToken *token = add(l, TOK_FLOAT, begin, end);
    au_error(l->diags, AU_E0105, token->span, "'%.*s' is not a number", (int)(end - begin > 40 ? 40 : end - begin), begin);
}

/* `3.` is an integer and a dot; numbers are written 3.0. True if the dot was taken. */
static bool dot_after_integer(Lexer *l, const char *begin)
{
    AuToken *last = l->tokens.count ? &l->tokens.items[l->tokens.count - 1] : NULL;
    if (!last || last->kind != TOK_INT || last->span.end != (uint32_t)(begin - l->text)) return false;
    last->kind = TOK_FLOAT;
    last->number = (double)last->integer;
    last->span.end++;
    AuDiag *diag = au_error(l->diags, AU_E0105, last->span, "a number needs a digit after its point");
    diag->fix = au_format(l->arena, "%lld.0", (long long)last->integer);
    return true;
}

/* ---- tokens */

static void bad_character(Lexer *l, const char *begin, const char *end)
{
    const unsigned char c = (unsigned char)*begin;
    l->after_bad = true;
    if (c >= 0x80) {
        const uint32_t length = au_utf8_length(begin, end);
        if (!length) return; /* reported */
        au_error(l->diags, AU_E0101, span_of(l, begin, begin + length), "'%.*s' is not part of the language", (int)length, begin);
    } else if (c >= 32) au_error(l->diags, AU_E0101, span_of(l, begin, begin + 1), "'%c' is not part of the language", c);
    else if (c) au_error(l->diags, AU_E0101, span_of(l, begin, begin + 1), "character 0x%02x is not part of the language", c);
}

/* `for NAME in` begins a loop; any other `for` is of another language. */
static void mark_loops(Lexer *l)
{
    const char *in = au_name(l->names, "in");
    for (uint32_t i = 0; i + 2 < l->tokens.count; i++) {
        AuToken *t = &l->tokens.items[i];
        if (t->kind != TOK_LOOP || t[1].kind != TOK_NAME || t[2].kind != TOK_NAME || t[2].name != in) continue;
        if (l->text[t->span.begin] != 'f') continue;
        t->kind = TOK_FOR;
        t[2].kind = TOK_IN;
    }
}

AuTokens lex_source(AuArena *arena, AuNames *names, AuDiags *diags, uint32_t source)
{
    const AuSource *s = &diags->sources[source];
    Lexer lexer = {arena, names, diags, source, s->text, {0}, true, false}, *l = &lexer;
    const char *YYCURSOR = s->text, *YYMARKER, *begin;
    const char *const YYLIMIT = s->text + s->length;
    if (!is_script(l, s)) {
        add(l, 0, s->text, s->text);
        return l->tokens;
    }
    if (s->length >= 3 && memcmp(s->text, "\xEF\xBB\xBF", 3) == 0) YYCURSOR += 3; /* a byte order mark */
    for (;;) {
        begin = YYCURSOR;
        /*!re2c
        re2c:define:YYCTYPE = "unsigned char";
        re2c:yyfill:enable = 0;
        re2c:eof = 0;
        re2c:indent:top = 2;

        digits   = [0-9]+;
        exponent = [eE] [+-]? digits;
        float    = (digits? "." digits exponent?) | (digits exponent);
        word     = [A-Za-z_] [A-Za-z_0-9]*;

        "\n"                  { l->first_on_line = true; continue; }
        [ \t\r]+              { continue; }
        "//" [^\n]*           { continue; }
        "#" [^\n]*            {
            AuDiag *d = au_error(diags, AU_E0101, span_of(l, begin, begin + 1), "'#' is not part of the language");
            au_add_note(diags, d, (AuSpan){0}, "a comment begins with //");
            continue;
        }
        "/*"                  {
            const char *end = begin + 2;
            while (end + 1 < YYLIMIT && !(end[0] == '*' && end[1] == '/')) end++;
            if (end + 1 >= YYLIMIT) {
                au_error(diags, AU_E0104, span_of(l, begin, begin + 2), "this comment does not end: expected '*/'");
                YYCURSOR = YYLIMIT;
                continue;
            }
            if (memchr(begin, '\n', (size_t)(end - begin))) l->first_on_line = true;
            YYCURSOR = end + 2;
            continue;
        }

        "const"               { add(l, TOK_CONST, begin, YYCURSOR); continue; }
        "fn"                  { add(l, TOK_FN, begin, YYCURSOR); continue; }
        "online"              { add(l, TOK_ONLINE, begin, YYCURSOR); continue; }
        "attention"           { add(l, TOK_ATTENTION, begin, YYCURSOR); continue; }
        "let"                 { add(l, TOK_LET, begin, YYCURSOR); continue; }
        "return"              { add(l, TOK_RETURN, begin, YYCURSOR); continue; }
        "input"               { add(l, TOK_INPUT, begin, YYCURSOR); continue; }
        "param"               { add(l, TOK_PARAM, begin, YYCURSOR); continue; }
        "require"             { add(l, TOK_REQUIRE, begin, YYCURSOR); continue; }
        "linear"              { add(l, TOK_LINEAR, begin, YYCURSOR); continue; }
        "rowscale"            { add(l, TOK_ROWSCALE, begin, YYCURSOR); continue; }
        "final"               { add(l, TOK_FINAL, begin, YYCURSOR); continue; }
        "kept"                { add(l, TOK_KEPT, begin, YYCURSOR); continue; }
        "true"                { add(l, TOK_TRUE, begin, YYCURSOR); continue; }
        "false"               { add(l, TOK_FALSE, begin, YYCURSOR); continue; }
        "for" | "while" | "do" { add(l, TOK_LOOP, begin, YYCURSOR); continue; }
        "if" | "else"         { add(l, TOK_BRANCH, begin, YYCURSOR); continue; }
        word                  {
            AuToken *token = add(l, TOK_NAME, begin, YYCURSOR);
            token->name = au_name_n(names, begin, (size_t)(YYCURSOR - begin));
            continue;
        }

        digits                { add_int(l, begin, YYCURSOR, 10); continue; }
        '0x' [0-9a-fA-F]+     { add_int(l, begin, YYCURSOR, 16); continue; }
        float                 { add_float(l, begin, YYCURSOR); continue; }
        (digits | float) word { add_bad_number(l, begin, YYCURSOR); continue; }

        "("  { add(l, TOK_LPAREN, begin, YYCURSOR); continue; }
        ")"  { add(l, TOK_RPAREN, begin, YYCURSOR); continue; }
        "["  { add(l, TOK_LBRACKET, begin, YYCURSOR); continue; }
        "]"  { add(l, TOK_RBRACKET, begin, YYCURSOR); continue; }
        "{"  { add(l, TOK_LBRACE, begin, YYCURSOR); continue; }
        "}"  { add(l, TOK_RBRACE, begin, YYCURSOR); continue; }
        ","  { add(l, TOK_COMMA, begin, YYCURSOR); continue; }
        ";"  { add(l, TOK_SEMI, begin, YYCURSOR); continue; }
        ":"  { add(l, TOK_COLON, begin, YYCURSOR); continue; }
        ".." { add(l, TOK_DOTDOT, begin, YYCURSOR); continue; }
        "."  { if (!dot_after_integer(l, begin)) add(l, TOK_DOT, begin, YYCURSOR); continue; }
        "="  { add(l, TOK_ASSIGN, begin, YYCURSOR); continue; }
        "+"  { add(l, TOK_PLUS, begin, YYCURSOR); continue; }
        "-"  { add(l, TOK_MINUS, begin, YYCURSOR); continue; }
        "*"  { add(l, TOK_STAR, begin, YYCURSOR); continue; }
        "/"  { add(l, TOK_SLASH, begin, YYCURSOR); continue; }
        "%"  { add(l, TOK_PERCENT, begin, YYCURSOR); continue; }
        "<"  { add(l, TOK_LT, begin, YYCURSOR); continue; }
        "<=" { add(l, TOK_LE, begin, YYCURSOR); continue; }
        ">"  { add(l, TOK_GT, begin, YYCURSOR); continue; }
        ">=" { add(l, TOK_GE, begin, YYCURSOR); continue; }
        "==" { add(l, TOK_EQ, begin, YYCURSOR); continue; }
        "!=" { add(l, TOK_NE, begin, YYCURSOR); continue; }
        "&&" { add(l, TOK_ANDAND, begin, YYCURSOR); continue; }
        "||" { add(l, TOK_OROR, begin, YYCURSOR); continue; }
        "!"  { add(l, TOK_NOT, begin, YYCURSOR); continue; }
        "&"  { add(l, TOK_AMP, begin, YYCURSOR); continue; }
        "|"  { add(l, TOK_PIPE, begin, YYCURSOR); continue; }
        "^"  { add(l, TOK_CARET, begin, YYCURSOR); continue; }
        "~"  { add(l, TOK_TILDE, begin, YYCURSOR); continue; }
        "<<" { add(l, TOK_SHL, begin, YYCURSOR); continue; }
        ">>" { add(l, TOK_SHR, begin, YYCURSOR); continue; }
        "?"  { add(l, TOK_QUESTION, begin, YYCURSOR); continue; }

        *    {
            bad_character(l, begin, YYLIMIT);
            while (YYCURSOR < YYLIMIT && ((unsigned char)*YYCURSOR & 0xC0) == 0x80) YYCURSOR++;
            continue;
        }
        $    { break; }
        */
    }
    add(l, 0, YYLIMIT, YYLIMIT);
    mark_loops(l);
    return l->tokens;
}
