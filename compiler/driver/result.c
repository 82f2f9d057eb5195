/* result.c - see result.h. */
#include "result.h"

#include "front.h"

#include <setjmp.h>
#include <string.h>

aulec_result *result_new(void)
{
    AuArena *arena = au_arena_new(NULL);
    jmp_buf edge;
    if (!arena) return NULL;
    if (setjmp(edge)) {
        au_arena_free(arena);
        return NULL;
    }
    au_arena_guard(arena, &edge);
    aulec_result *r = AU_NEW(arena, aulec_result);
    *r = (aulec_result){.arena = arena, .diags = au_diags_new(arena), .rendered = ""};
    return r;
}

static void list_diagnostic(aulec_result *r, const AuDiag *d, aulec_diagnostic *out)
{
    static const uint32_t severities[] = {
        [AU_NOTE] = AULEC_NOTE, [AU_WARNING] = AULEC_WARNING, [AU_ERROR] = AULEC_ERROR};
    const AuPosition at = d->span.source ? au_position(r->diags, d->span) : (AuPosition){"", 0, 0};
    AuText text = {.arena = r->arena};
    au_diag_render(r->diags, d, &text);
    *out = (aulec_diagnostic){.struct_size = sizeof *out,
                              .severity = severities[d->severity],
                              .code = au_code_name(d->code),
                              .file = at.file,
                              .line = at.line,
                              .column = at.column,
                              .message = d->message,
                              .text = au_text_str(&text)};
}

void result_finish(aulec_result *r)
{
    AuText rendered = {.arena = r->arena};
    au_diags_render(r->diags, &rendered);
    r->rendered = au_text_str(&rendered);
    for (const AuDiag *d = r->diags->first; d; d = d->next) r->count++;
    r->list = AU_NEW_ARRAY(r->arena, aulec_diagnostic, r->count + 1);
    size_t n = 0;
    for (const AuDiag *d = r->diags->first; d; d = d->next) list_diagnostic(r, d, &r->list[n++]);
}

AuAttn *result_attention(AuArena *arena, AuDiags *diags, const char *name, const char *text,
                         size_t length, const char *which)
{
    AuNames *names = au_names_new(arena);
    AuScript *script = front_parse(arena, names, diags, au_source_add(diags, name, text, length));
    uint32_t count = 0;
    AuAttn **all = front_check(arena, names, diags, script, &count);
    if (diags->errors) return NULL;
    for (uint32_t n = 0; n < count; n++)
        if (which ? strcmp(all[n]->name, which) == 0 : count == 1) return all[n];
    if (which)
        au_error(diags, AU_E0601, (AuSpan){0}, "the script has no attention '%s'", which);
    else
        au_error(diags, AU_E0604, (AuSpan){0}, "%s has %u attentions: say which", name, count);
    return NULL;
}

const void *aulec_result_data(const aulec_result *result) { return result ? result->data : NULL; }
size_t aulec_result_length(const aulec_result *result) { return result ? result->length : 0; }
const char *aulec_result_diagnostics(const aulec_result *result)
{
    return result ? result->rendered : "";
}
uint32_t aulec_result_errors(const aulec_result *result)
{
    return result ? result->diags->errors : 0;
}
size_t aulec_result_diagnostic_count(const aulec_result *result)
{
    return result ? result->count : 0;
}
const aulec_diagnostic *aulec_result_get_diagnostic(const aulec_result *result, size_t index)
{
    return result && index < result->count ? &result->list[index] : NULL;
}
void aulec_result_free(aulec_result *result)
{
    if (result) au_arena_free(result->arena);
}
