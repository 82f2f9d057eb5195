/* lex.c - tokens of the text form. A newline ends a statement, except inside parentheses and brackets. Names that a script gave
 * have a $ before them. */
#include "reader.h"

#include <string.h>

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$';
}

/* Spaces and comments. */
static uint32_t skip(const char *text, uint32_t at, uint32_t end)
{
    for (;;) {
        while (at < end && (text[at] == ' ' || text[at] == '\t' || text[at] == '\r')) at++;
        if (at + 1 >= end || text[at] != '/' || text[at + 1] != '/') return at;
        while (at < end && text[at] != '\n') at++;
    }
}

static uint32_t number_end(const char *text, uint32_t at, uint32_t end, TokenKind *kind)
{
    *kind = TOKEN_INT;
    while (at < end && is_digit(text[at])) at++;
    if (at < end && text[at] == '.') {
        *kind = TOKEN_FLOAT;
        at++;
        while (at < end && is_digit(text[at])) at++;
    }
    if (at < end && (text[at] == 'e' || text[at] == 'E')) {
        uint32_t digits = at + 1;
        if (digits < end && (text[digits] == '+' || text[digits] == '-')) digits++;
        if (digits == end || !is_digit(text[digits])) return at;
        *kind = TOKEN_FLOAT;
        at = digits;
        while (at < end && is_digit(text[at])) at++;
    }
    return at;
}

/* Length of the sign at `at`, 0 if there is none. */
static uint32_t sign_length(const char *text, uint32_t at, uint32_t end)
{
    static const char *const pairs[] = {
        "+:", "+=", "->", "<=", ">=", "==", "!=", "&&", "||", "<<", ">>"};
    for (size_t i = 0; at + 1 < end && i < sizeof pairs / sizeof *pairs; i++)
        if (text[at] == pairs[i][0] && text[at + 1] == pairs[i][1]) return 2;
    return text[at] && strchr("-+*/%<>=!()[]{},:.@&|^~", text[at]) ? 1 : 0;
}

static void push(Reader *r, TokenKind kind, const char *text, uint32_t begin, uint32_t end)
{
    const Token t = {kind, begin, end, au_name_n(r->names, text + begin, end - begin)};
    AU_PUSH(r->arena, r->tokens, r->count, r->capacity, t);
}

bool lex(Reader *r)
{
    const char *text = r->diags->sources[r->source].text;
    const uint32_t end = r->diags->sources[r->source].length;
    uint32_t at = 0, open = 0;
    while ((at = skip(text, at, end)) < end) {
        const uint32_t begin = at;
        TokenKind kind = TOKEN_SIGN;
        if (text[at] == '\n') {
            at++;
            kind = TOKEN_NEWLINE;
        } else if (is_digit(text[at])) {
            at = number_end(text, at, end, &kind);
        } else if (is_letter(text[at])) {
            kind = TOKEN_NAME;
            while (at < end && (is_letter(text[at]) || is_digit(text[at]))) at++;
        } else {
            at += sign_length(text, at, end);
        }
        if (at == begin) {
            au_error(r->diags, AU_E0701, (AuSpan){r->source, begin, begin + 1},
                     "a character that the tiled IR does not know");
            return false;
        }
        if (kind == TOKEN_SIGN && (text[begin] == '(' || text[begin] == '[')) open++;
        if (kind == TOKEN_SIGN && (text[begin] == ')' || text[begin] == ']')) open -= open > 0;
        if (kind != TOKEN_NEWLINE || !open) push(r, kind, text, begin, at);
    }
    push(r, TOKEN_END, text, end, end);
    return true;
}
