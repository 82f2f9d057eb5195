/* parse.c - drives the generated parser over the tokens of a file.
 *
 * Recovery: after an unexpected token the driver skips to the `;` that ends the statement or the `}` that ends the block around
 * it (whole blocks are skipped over), where the grammar's error rules take up again. A `;` or `}` that is certainly missing,
 * because the next token can only start a statement, is reported and put in, so that nothing is lost at all. The names in a
 * lost statement are remembered (AuScript.lost), so that their uses elsewhere are not reported as unknown. */
#include "check.h"
#include "foreign.h"
#include "grammar.h"
#include "token.h"

#include <ctype.h>
#include <string.h>

typedef struct Driver {
    AuParse parse;
    void *parser;
    AuTokens tokens;
    uint32_t *braces; /* tokens of the braces that are open */
    uint32_t brace_count, brace_capacity;
    int parens; /* parentheses and brackets that are open in the present statement */
} Driver;

/* ---- messages */

typedef struct TokenText {
    int kind;
    const char *text;
} TokenText;

static const char *text_of(int kind)
{
    static const TokenText texts[] = {
        {TOK_NAME, "a name"},
        {TOK_INT, "an integer"},
        {TOK_FLOAT, "a number"},
        {TOK_LPAREN, "'('"},
        {TOK_RPAREN, "')'"},
        {TOK_LBRACE, "'{'"},
        {TOK_RBRACE, "'}'"},
        {TOK_LBRACKET, "'['"},
        {TOK_RBRACKET, "']'"},
        {TOK_COMMA, "','"},
        {TOK_SEMI, "';'"},
        {TOK_COLON, "':'"},
        {TOK_ASSIGN, "'='"},
        {TOK_LET, "'let'"},
        {TOK_FOR, "'for'"},
        {TOK_RETURN, "'return'"},
        {TOK_ROWSCALE, "'rowscale'"},
        {TOK_FINAL, "'final'"},
        {TOK_KEPT, "'kept'"},
        {TOK_CONST, "'const'"},
        {TOK_FN, "'fn'"},
        {TOK_ONLINE, "'online'"},
        {TOK_ATTENTION, "'attention'"},
        {TOK_DOTDOT, "'..'"},
        {TOK_INPUT, "'input'"},
        {TOK_PARAM, "'param'"},
        {TOK_REQUIRE, "'require'"},
        {TOK_LINEAR, "'linear'"},
        {0, "the end of the file"},
    };
    for (uint32_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i].kind == kind) return texts[i].text;
    return NULL;
}

/* What could have come, in words: "',' or ')'", "an expression". */
static const char *expectation(AuArena *arena, const bool *expected, int kinds)
{
    AuText text = {.arena = arena};
    const char *items[8];
    uint32_t count = 0;
    const bool expression = expected[TOK_INT] && expected[TOK_LPAREN];
    const bool operators = expected[TOK_PLUS] && expected[TOK_STAR];
    if (expression) items[count++] = "an expression";
    if (operators) items[count++] = "an operator";
    for (int kind = 0; kind < kinds && count < 7; kind++) {
        const bool in_expression =
            kind == TOK_NAME || kind == TOK_INT || kind == TOK_FLOAT || kind == TOK_LPAREN;
        if (!expected[kind] || !text_of(kind) || (expression && in_expression)) continue;
        items[count++] = text_of(kind);
    }
    for (uint32_t i = 0; i < count; i++)
        au_text_add(&text, "%s%s", i == 0 ? "" : i + 1 == count ? " or " : ", ", items[i]);
    return au_text_str(&text);
}

/* The token as the user wrote it. */
static const char *written(const AuParse *p, const AuToken *token)
{
    const AuSource *s = &p->make.diags->sources[token->span.source];
    if (!token->kind) return "the end of the file";
    return au_format(p->make.arena, "'%.*s'", (int)(token->span.end - token->span.begin),
                     s->text + token->span.begin);
}

/* A word of the language: spelled as a name, and no name. */
static bool is_word(const AuParse *p, const AuToken *token)
{
    const char *text = p->make.diags->sources[token->span.source].text + token->span.begin;
    return token->kind && token->kind != TOK_NAME && isalpha((unsigned char)text[0]);
}

/* Is a name the one thing that can stand here? */
static bool is_only_name(const bool *expected, int kinds)
{
    int count = 0;
    for (int k = 0; k < kinds; k++) count += expected[k];
    return count == 1 && expected[TOK_NAME];
}

void parse_unexpected(AuParse *p, const AuToken *token, const bool *expected, int kinds)
{
    AuDiags *diags = p->make.diags;
    p->failed = true;
    if (token->invented || token->after_bad) return; /* reported already */
    const bool is_declared = is_only_name(expected, kinds);
    const bool as_name = expected[TOK_NAME] && !expected[TOK_INT] && is_word(p, token);
    if (token->kind == TOK_LOOP && !is_declared) {
        AuDiag *d = au_error(diags, AU_E0508, token->span,
                             "a loop goes over a range of numbers: 'for i in 0:8 { ... }'");
        au_add_note(
            diags, d, (AuSpan){0},
            "a script says what happens to one pair or one row; sums over keys are rowsum, rowmax "
            "and "
            "the row scales of an online function, sums over channels are sum(x) in a row mod");
    } else if (token->kind == TOK_BRANCH && !is_declared) {
        AuDiag *d = au_error(diags, AU_E0510, token->span, "the language has no branches");
        au_add_note(diags, d, (AuSpan){0},
                    "where(c, a, b) chooses between values; what it does not choose is not read");
    } else if (token->kind == TOK_QUESTION) {
        AuDiag *d = au_error(diags, AU_E0107, token->span, "the language has no '?:'");
        au_add_note(diags, d, (AuSpan){0}, "where(c, a, b) chooses between values");
    } else {
        AuDiag *d = au_error(diags, AU_E0107, token->span, "unexpected %s, expected %s",
                             written(p, token), expectation(p->make.arena, expected, kinds));
        if (as_name)
            au_add_note(diags, d, (AuSpan){0},
                        "%s is a word of the language and names nothing else", written(p, token));
        if (token->kind == TOK_ASSIGN && expected[TOK_RPAREN])
            au_add_note(diags, d, (AuSpan){0},
                        "arguments have places, not names: rmsnorm(x, 1e-5) instead of "
                        "rmsnorm(x, eps = 1e-5)");
        foreign_form(diags, d, p->first, token);
    }
}

/* ---- missing semicolons and braces */

static bool starts_statement(const Driver *d, uint32_t i)
{
    const AuToken *t = &d->tokens.items[i];
    switch (t->kind) {
    case TOK_LET:
    case TOK_FOR:
    case TOK_RETURN: return true;
    case TOK_CONST:
    case TOK_FN:
    case TOK_ATTENTION:
    case TOK_INPUT:
    case TOK_PARAM:
    case TOK_REQUIRE:
    case TOK_ROWSCALE:
    case TOK_FINAL:
    case TOK_KEPT:
    case TOK_ONLINE:
    case TOK_LINEAR: return t->first_on_line;
    case TOK_NAME: /* `q:`, `r =` or `mask(` at the begin of a line */
        if (!t->first_on_line) return false;
        if (t[1].kind == TOK_LPAREN) return mod_find(t->name) || clause_find(t->name);
        return t[1].kind == TOK_ASSIGN || (t[1].kind == TOK_COLON && t[2].kind != TOK_INT);
    default: return false;
    }
}

static bool ends_statement(int kind)
{
    return kind == TOK_SEMI || kind == TOK_LBRACE || kind == TOK_RBRACE;
}

static bool semicolon_missing(const Driver *d, uint32_t i)
{
    if (i == 0 || ends_statement(d->tokens.items[i - 1].kind)) return false;
    if (d->tokens.items[i].kind != TOK_RBRACE && !starts_statement(d, i)) return false;
    return d->parens == 0;
}

static void feed(Driver *d, const AuToken *token)
{
    if (!d->parse.overflow) grammar_feed(d->parser, token);
    if (d->parse.overflow && !d->parse.make.too_deep) {
        au_error(d->parse.make.diags, AU_E0110, token->span,
                 "this is nested too deeply to be read");
        d->parse.make.too_deep = true;
    }
}

static void feed_invented(Driver *d, int kind, AuSpan span)
{
    AuToken *token = AU_NEW(d->parse.make.arena, AuToken);
    *token = (AuToken){.kind = kind, .invented = true, .span = span};
    feed(d, token);
    d->parse.failed = false;
}

/* The place behind token [i]. */
static AuSpan behind(const Driver *d, uint32_t i)
{
    const AuSpan s = d->tokens.items[i].span;
    return (AuSpan){s.source, s.end, s.end};
}

/* `i // 8` and `i//n` of Python have a comment here: said where what follows on the line looks so. */
static void note_comment(Driver *d, AuDiag *diag, AuSpan after)
{
    const AuSource *source = &d->parse.make.diags->sources[after.source];
    const char *text = source->text, *end = text + source->length, *at = text + after.end;
    while (at < end && *at == ' ') at++;
    if (end - at < 3 || at[0] != '/' || at[1] != '/') return;
    const char *by = at + 2;
    while (by < end && *by == ' ') by++;
    if (by == end || (!isdigit((unsigned char)*by) && by - (text + after.end) > 2)) return;
    const uint32_t begin = (uint32_t)(at - text);
    au_add_note(d->parse.make.diags, diag, (AuSpan){after.source, begin, begin + 2},
                "a comment begins here; of integers '/' rounds down");
}

static void insert_semicolon(Driver *d, uint32_t i)
{
    AuDiag *diag = au_error(d->parse.make.diags, AU_E0108, behind(d, i - 1),
                            "expected ';' after %s", written(&d->parse, &d->tokens.items[i - 1]));
    diag->fix = ";";
    note_comment(d, diag, behind(d, i - 1));
    feed_invented(d, TOK_SEMI, behind(d, i - 1));
    d->parens = 0;
}

static void close_braces(Driver *d, uint32_t end)
{
    AuDiags *diags = d->parse.make.diags;
    for (uint32_t n = d->brace_count; n-- > 0;) {
        const AuSpan place = end ? behind(d, end - 1) : d->tokens.items[end].span;
        AuDiag *diag = au_error(diags, AU_E0109, place, "expected '}' before the end of the file");
        au_add_note(diags, diag, d->tokens.items[d->braces[n]].span, "to close this '{'");
        d->parse.script->truncated = true;
        feed_invented(d, TOK_RBRACE, d->tokens.items[end].span);
    }
    d->brace_count = 0;
}

/* ---- skipping a statement with an error */

static void lose_names(Driver *d, uint32_t first, uint32_t end)
{
    for (uint32_t i = first; i < end; i++)
        if (d->tokens.items[i].kind == TOK_NAME)
            nameset_put(d->parse.script->lost, d->tokens.items[i].name, NULL);
}

/* The error is at token [i], which the parser has seen. Returns the token to go on with. A loop or branch goes with its
 * parentheses and blocks; elsewhere a `;` ends the statement even where a parenthesis was forgotten. */
static uint32_t skip_statement(Driver *d, uint32_t i)
{
    uint32_t first = i, depth = 0, parens = 0;
    AuToken *items = d->tokens.items;
    const bool control = items[i].kind == TOK_LOOP || items[i].kind == TOK_BRANCH;
    while (first > 0 && !ends_statement(items[first - 1].kind)) first--;
    if (ends_statement(items[i].kind) && items[i].kind != TOK_LBRACE) {
        lose_names(d, first, i);
        return i + 1;
    }
    for (;; i++) {
        const int kind = items[i].kind;
        if (control && kind == TOK_LPAREN) parens++;
        if (control && kind == TOK_RPAREN && parens) parens--;
        if (kind == 0 || (kind == TOK_SEMI && depth == 0 && parens == 0)) break;
        if (kind == TOK_LBRACE) depth++;
        if (kind == TOK_RBRACE && depth == 0) break;
        if (kind == TOK_RBRACE && --depth == 0 && !(control && items[i + 1].kind == TOK_BRANCH)) {
            feed_invented(d, TOK_SEMI, items[i].span);
            i++;
            break;
        }
    }
    lose_names(d, first, i);
    return i;
}

/* Keeps account of what is open, behind token [i]. */
static void track(Driver *d, uint32_t i)
{
    const int kind = d->tokens.items[i].kind;
    if (kind == TOK_LBRACE)
        AU_PUSH(d->parse.make.arena, d->braces, d->brace_count, d->brace_capacity, i);
    if (kind == TOK_RBRACE && d->brace_count) d->brace_count--;
    if (kind == TOK_LPAREN || kind == TOK_LBRACKET) d->parens++;
    if (kind == TOK_RPAREN || kind == TOK_RBRACKET) d->parens--;
    if (ends_statement(kind)) d->parens = 0;
}

AuScript *front_parse(AuArena *arena, AuNames *names, AuDiags *diags, uint32_t source)
{
    const uint32_t errors = diags->errors;
    AuScript *script = AU_NEW(arena, AuScript);
    *script = (AuScript){.source = source, .lost = nameset_new(arena)};
    Driver driver = {.parse = {.make = {arena, diags, false}, .script = script}};
    Driver *d = &driver;
    d->tokens = lex_source(arena, names, diags, source);
    d->parse.first = d->tokens.items;
    d->parser = grammar_new(&d->parse);
    for (uint32_t i = 0; !d->parse.overflow;) {
        if (semicolon_missing(d, i)) insert_semicolon(d, i);
        if (d->tokens.items[i].kind == 0) close_braces(d, i);
        d->parse.failed = false;
        feed(d, &d->tokens.items[i]);
        if (d->tokens.items[i].kind == 0) break;
        if (d->parse.failed) {
            if (d->tokens.items[i].kind == TOK_RBRACE) track(d, i);
            d->parens = 0;
            i = skip_statement(d, i);
        } else {
            track(d, i++);
        }
    }
    script->broken |= diags->errors > errors;
    return script;
}
