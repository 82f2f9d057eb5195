/* lex.c - tokens of the text form. A newline ends a statement, except inside parentheses and brackets. Names that a script gave
 * have a $ before them. */
#include "reader.h"
#include "scan.h"

#include <string.h>

enum {
    MAX_DEPTH = 200
}; /* of parentheses and blocks: far above any program, far below a stack overflow */

/* Length of the sign that comes, 0 if there is none. */
static uint32_t sign_length(const AuScan *s)
{
    static const char *const pairs[] = {
        "+:", "+=", "->", "<=", ">=", "==", "!=", "&&", "||", "<<", ">>"};
    const char c = au_scan_peek(s, 0), next = au_scan_peek(s, 1);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (c == pairs[i][0] && next == pairs[i][1]) return 2;
    return c && strchr("-+*/%<>=!()[]{},:.@&|^~", c) ? 1 : 0;
}

static void refuse(Reader *r, uint32_t begin, uint32_t end, const char *what)
{
    au_error(r->diags, AU_E0701, (AuSpan){r->source, begin, end}, "%s", what);
}

/* The token that comes; false: it is none. */
static bool next_token(Reader *r, AuScan *s, Token *t)
{
    const char c = au_scan_peek(s, 0);
    *t = (Token){.kind = TOKEN_SIGN, .begin = s->at};
    if (c == '\n') {
        s->at++;
        t->kind = TOKEN_NEWLINE;
    } else if (au_is_digit(c)) {
        const AuNumber n = au_scan_number(s);
        t->kind = n.is_real ? TOKEN_FLOAT : TOKEN_INT;
        t->integer = n.integer, t->number = n.real;
        if (!n.is_good) refuse(r, t->begin, s->at, "this is no number, or it is too large");
        if (!n.is_good) return false;
    } else if (au_is_letter(c) || c == '$') {
        t->kind = TOKEN_NAME;
        au_scan_word(s, "$");
    } else {
        s->at += sign_length(s);
    }
    t->end = s->at;
    if (t->end > t->begin) return true;
    refuse(r, t->begin, t->begin + 1, "a character that the tiled IR does not know");
    return false;
}

bool lex(Reader *r)
{
    const AuSource *source = &r->diags->sources[r->source];
    AuScan s = {source->text, 0, source->length};
    uint32_t open = 0;
    Token t;
    for (au_scan_space(&s, false); s.at < s.end; au_scan_space(&s, false)) {
        if (!next_token(r, &s, &t)) return false;
        const char c = source->text[t.begin];
        t.text = au_name_n(r->names, source->text + t.begin, t.end - t.begin);
        if (t.kind == TOKEN_SIGN && (c == '(' || c == '[')) open++;
        if (t.kind == TOKEN_SIGN && (c == ')' || c == ']')) open -= open > 0;
        if (t.kind != TOKEN_NEWLINE || !open)
            AU_PUSH(r->arena, r->tokens, r->count, r->capacity, t);
    }
    t = (Token){TOKEN_END, s.end, s.end, au_name_n(r->names, "", 0), 0, 0};
    AU_PUSH(r->arena, r->tokens, r->count, r->capacity, t);
    return true;
}

/* ---- looking at tokens and taking them */

const Token *token(const Reader *r) { return &r->tokens[r->at]; }

static bool has_text(const Token *t, const char *text)
{
    return (t->kind == TOKEN_NAME || t->kind == TOKEN_SIGN) && strcmp(t->text, text) == 0;
}

bool is(const Reader *r, const char *text) { return has_text(token(r), text); }

bool is_second(const Reader *r, const char *text)
{
    return r->at + 1 < r->count && has_text(&r->tokens[r->at + 1], text);
}

bool accept(Reader *r, const char *text)
{
    if (!is(r, text)) return false;
    r->at++;
    return true;
}

void fail(Reader *r, const char *what)
{
    if (r->failed) return;
    const Token *t = token(r);
    const char *found = t->kind == TOKEN_END       ? "the end of the file"
                        : t->kind == TOKEN_NEWLINE ? "the end of the line"
                                                   : t->text;
    au_error(r->diags, AU_E0701, (AuSpan){r->source, t->begin, t->end}, "expected %s, found %s",
             what, found);
    r->failed = true;
    r->at = r->count - 1;
}

void expect(Reader *r, const char *text)
{
    if (!accept(r, text)) fail(r, text);
}

const char *take_name(Reader *r)
{
    if (token(r)->kind != TOKEN_NAME) {
        fail(r, "a name");
        return au_name(r->names, "");
    }
    return r->tokens[r->at++].text;
}

AuSpan span_from(const Reader *r, uint32_t begin)
{
    const uint32_t end = r->at ? r->tokens[r->at - 1].end : begin;
    return (AuSpan){r->source, begin, end > begin ? end : begin};
}

bool enter(Reader *r)
{
    if (r->depth == MAX_DEPTH) {
        const Token *t = token(r);
        if (!r->failed)
            au_error(r->diags, AU_E0701, (AuSpan){r->source, t->begin, t->end},
                     "nested more than %d deep", MAX_DEPTH);
        r->failed = true;
        r->at = r->count - 1;
        return false;
    }
    r->depth++;
    return true;
}

void leave(Reader *r) { r->depth--; }

void skip_lines(Reader *r)
{
    while (token(r)->kind == TOKEN_NEWLINE) r->at++;
}

void end_line(Reader *r)
{
    if (token(r)->kind != TOKEN_NEWLINE && token(r)->kind != TOKEN_END)
        fail(r, "the end of the line");
    skip_lines(r);
}
