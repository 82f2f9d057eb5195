/* foreign.c - words and forms of other languages, with what to write instead. */
#include "foreign.h"
#include "grammar.h"

#include <string.h>

typedef struct Foreign {
    const char *word, *fix, *advice;
} Foreign;

static const Foreign *find(const char *word)
{
    // clang-format off
    static const Foreign words[] = {
#define FOREIGN(word, fix, advice) {#word, fix, advice},
#include "foreign.def"
#undef FOREIGN
    };
    // clang-format on
    for (uint32_t i = 0; word && i < sizeof words / sizeof *words; i++)
        if (strcmp(words[i].word, word) == 0) return &words[i];
    return NULL;
}

bool foreign_word(AuDiags *diags, AuDiag *diag, const char *word)
{
    const Foreign *f = find(word);
    if (!f) return false;
    diag->fix = f->fix;
    au_add_note(diags, diag, (AuSpan){0}, "%s", f->advice);
    return true;
}

static bool is_arithmetic(int kind)
{
    return kind == TOK_PLUS || kind == TOK_MINUS || kind == TOK_STAR || kind == TOK_SLASH;
}

/* `param NAME: type` before [t]. */
static bool ends_param(const AuToken *first, const AuToken *t)
{
    return t - first >= 4 && t[-1].kind == TOK_NAME && t[-2].kind == TOK_COLON &&
           t[-4].kind == TOK_PARAM;
}

void foreign_form(AuDiags *diags, AuDiag *diag, const AuToken *first, const AuToken *t)
{
    const int before = t > first ? t[-1].kind : 0;
    static const char in_full[] = "in a loop, and for row scales, in full: y = y + 1.0; elsewhere "
                                  "a value does not change: let NAME = ...; names a new one";
    const char *note = NULL;
    if (t->kind == TOK_NAME && ends_param(first, t) && strcmp(t->name, "grad") == 0)
        note = au_format(diags->arena,
                         "a param has no gradient; a number in memory has: input %s: f32[] grad;",
                         t[-3].name);
    else if (t->kind == TOK_LBRACKET && ends_param(first, t))
        note = "a param is one number of the launch; what has axes is an input";
    else if (t->kind == TOK_STAR && before == TOK_STAR)
        note = "pow(x, y) is the power";
    else if (t->kind == TOK_ASSIGN && is_arithmetic(before))
        note = in_full;
    else if (is_arithmetic(t->kind) && t[1].kind == TOK_ASSIGN)
        note = in_full;
    else if (t->kind == TOK_LPAREN && t - first >= 2 && t[-2].kind == TOK_DOT)
        note = "functions are called by their names alone, as in where(c, a, b)";
    else if (foreign_word(diags, diag, t->name))
        return;
    else if (before == TOK_NAME && find(t[-1].name))
        note = find(t[-1].name)->advice;
    if (note) au_add_note(diags, diag, (AuSpan){0}, "%s", note);
}
