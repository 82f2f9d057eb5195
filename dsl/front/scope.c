/* scope.c - scopes of names, and the names that are always there. */
#include "check.h"

#include <math.h>
#include <string.h>

AuScope *scope_new(AuCheck *c, AuScope *parent)
{
    AuScope *scope = AU_NEW(c->arena, AuScope);
    *scope = (AuScope){nameset_new(c->arena), parent};
    return scope;
}

AuSymbol *scope_find(const AuScope *scope, const char *name)
{
    for (; scope; scope = scope->parent) {
        AuSymbol *symbol = nameset_get(scope->names, name);
        if (symbol) return symbol;
    }
    return NULL;
}

static AuSymbol *new_symbol(AuCheck *c, AuSymbolKind kind, AuAstName name, const char *what)
{
    AuSymbol *symbol = AU_NEW(c->arena, AuSymbol);
    *symbol = (AuSymbol){.kind = kind, .name = name.text, .span = name.span, .what = what};
    return symbol;
}

AuSymbol *scope_shadow(AuCheck *c, AuScope *scope, AuSymbolKind kind, AuAstName name,
                       const char *what)
{
    AuSymbol *symbol = new_symbol(c, kind, name, what);
    nameset_put(scope->names, name.text, symbol);
    return symbol;
}

void scope_check_reserved(AuCheck *c, AuAstName name)
{
    static const char *const words[] = {"state", "other", "inf", "nan"};
    bool reserved = scope_is_always_there(name.text);
    for (uint32_t i = 0; i < sizeof words / sizeof *words; i++)
        reserved |= strcmp(name.text, words[i]) == 0;
    if (reserved)
        check_error(c, AU_E0203, name.span, "'%s' is a word of the language; choose another name",
                    name.text);
}

/* Names that the attention IR carries. */
static bool is_carried(AuSymbolKind kind)
{
    return kind == AU_SYM_SIZE || kind == AU_SYM_PARAM || kind == AU_SYM_TENSOR ||
           kind == AU_SYM_ROWSCALE || kind == AU_SYM_FINAL;
}

AuSymbol *scope_declare(AuCheck *c, AuScope *scope, AuSymbolKind kind, AuAstName name,
                        const char *what)
{
    const AuSymbol *taken = scope_find(scope, name.text);
    if (!taken && is_carried(kind)) scope_check_reserved(c, name);
    if (!taken) return scope_shadow(c, scope, kind, name, what);
    if (taken->span.source) {
        AuDiag *d = check_error(c, AU_E0203, name.span, "'%s' is already the name of %s", name.text,
                                taken->what);
        au_add_note(c->diags, d, taken->span, "'%s' is declared here", name.text);
    } else {
        check_error(c, AU_E0203, name.span, "'%s' is always %s; choose another name", name.text,
                    taken->what);
    }
    return new_symbol(c, kind, name, what);
}

/* ---- names of the language */

typedef struct IndexName {
    const char *name, *what;
    uint32_t site_bit;
} IndexName;

static const IndexName index_names[] = {
    {"b", "the index of the batch", AU_SITE_B},
    {"h", "the index of the query head", AU_SITE_H},
    {"kv_h", "the index of the key head", AU_SITE_KVH},
    {"q_idx", "the index of the query", AU_SITE_Q},
    {"q_pos", "the position of the query", AU_SITE_Q},
    {"kv_idx", "the index of the key", AU_SITE_KV},
    {"t", "the index of the token", AU_SITE_TOK},
};

void scope_add_language(AuCheck *c, AuScope *root)
{
    static const struct {
        const char *name, *what;
        double number;
    } numbers[] = {{"inf", "infinity", INFINITY},
                   {"nan", "not-a-number", NAN},
                   {"pi", "3.14159...", 3.14159265358979323846}};
    for (uint32_t i = 0; i < 3; i++) {
        const AuAstName name = {au_name(c->names, numbers[i].name), {0}};
        AuSymbol *s = scope_shadow(c, root, AU_SYM_VALUE, name, numbers[i].what);
        s->value = value_float(c, numbers[i].number, (AuSpan){0});
    }
}

/* `t` is a name of recurrences only. */
void scope_add_indices(AuCheck *c, AuScope *scope)
{
    for (uint32_t i = 0; i < sizeof index_names / sizeof *index_names; i++) {
        const IndexName *n = &index_names[i];
        if (n->site_bit == AU_SITE_TOK && !c->linear) continue;
        const AuAstName name = {au_name(c->names, n->name), {0}};
        scope_shadow(c, scope, AU_SYM_INDEX, name, n->what)->site_bit = n->site_bit;
    }
}

bool scope_is_always_there(const char *name)
{
    for (uint32_t i = 0; i < sizeof index_names / sizeof *index_names; i++)
        if (index_names[i].site_bit != AU_SITE_TOK && strcmp(index_names[i].name, name) == 0)
            return true;
    return false;
}
