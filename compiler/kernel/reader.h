/* reader.h - the reader of kernels to its parts: the word at hand, and what several of them ask. */
#ifndef AU_KERNEL_READER_H
#define AU_KERNEL_READER_H

#include <string.h>

#include "internal.h"
#include "tokens.h"

typedef struct Reader {
    AuKernel *k;
    AuArena *arena;
    AuNames *names;
    AuDiags *diags;
    uint32_t source, at;
    AuKToken t; /* the word at hand */
    AuVal *values;
    uint32_t value_count; /* numbers that the table has room for */
    bool stop;            /* too deep: the rest cannot be understood */
} Reader;

static inline void next(Reader *r)
{
    r->t = kernel_token(r->diags, r->names, r->arena, r->source, &r->at);
}

/* To the beginning of a line behind [from]. */
static inline void skip_line(Reader *r, uint32_t from)
{
    while (r->t.kind != AU_KT_END && (!r->t.starts_line || r->t.span.begin <= from)) next(r);
}

static inline bool expected(Reader *r, const char *what)
{
    const AuSource *s = &r->diags->sources[r->source];
    uint32_t shown = r->t.span.end - r->t.span.begin;
    if (shown > 40) shown = 40;
    if (r->t.kind == AU_KT_END)
        au_error(r->diags, AU_E0801, r->t.span, "expected %s, found the end of the text", what);
    else
        au_error(r->diags, AU_E0801, r->t.span, "expected %s, found '%.*s'", what, (int)shown,
                 s->text + r->t.span.begin);
    return false;
}

static inline bool is_punct(const Reader *r, char c)
{
    return r->t.kind == AU_KT_PUNCT && r->t.punct == c;
}

static inline bool punct(Reader *r, char c)
{
    if (!is_punct(r, c)) return expected(r, (char[]){'\'', c, '\'', 0});
    next(r);
    return true;
}

static inline bool is_word(const Reader *r, const char *word)
{
    return r->t.kind == AU_KT_WORD && strcmp(r->t.text, word) == 0;
}

static inline bool accept(Reader *r, const char *word)
{
    if (!is_word(r, word)) return false;
    next(r);
    return true;
}

static inline bool keyword(Reader *r, const char *word)
{
    return accept(r, word) || expected(r, word);
}

static inline bool name(Reader *r, const char **out)
{
    if (r->t.kind != AU_KT_WORD && r->t.kind != AU_KT_STRING) return expected(r, "a name");
    *out = r->t.text;
    next(r);
    return true;
}

static inline bool count(Reader *r, uint32_t *out)
{
    if (r->t.kind != AU_KT_INT || r->t.integer < 0 || r->t.integer > UINT32_MAX)
        return expected(r, "a count");
    *out = (uint32_t)r->t.integer;
    next(r);
    return true;
}

static inline bool scalar_named(const char *text, size_t length, uint8_t *out)
{
    for (uint8_t s = AU_I1; s < AU_SCALARS; s++) {
        const char *known = kernel_scalar_name(s);
        if (strlen(known) != length || memcmp(known, text, length) != 0) continue;
        *out = s;
        return true;
    }
    return false;
}

static inline bool memory_named(Reader *r, AuMem *out)
{
    const char *wanted = NULL;
    if (!punct(r, '@')) return false;
    const AuSpan span = r->t.span;
    if (!name(r, &wanted)) return false;
    for (uint32_t n = 1; n < r->k->mem_count; n++)
        if (strcmp(r->k->mems[n].name, wanted) == 0) {
            out->i = n;
            return true;
        }
    au_error(r->diags, AU_E0802, span, "there is no memory @%s", wanted);
    return false;
}

/* read_header.c */
bool kernel_read_first_line(Reader *r);
void kernel_read_header(Reader *r); /* up to { */

#endif
