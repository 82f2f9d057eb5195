/* diag.c - see diag.h. Rendering expands tabs so that the caret stands under its character. */
#include "diag.h"

#include <string.h>

AuDiags *au_diags_new(AuArena *arena)
{
    AuDiags *diags = AU_NEW(arena, AuDiags);
    diags->arena = arena;
    diags->limit = 100;
    au_source_add(diags, "", "", 0);
    return diags;
}

uint32_t au_source_add(AuDiags *diags, const char *name, const char *text, size_t length)
{
    return au_source_add_part(diags, au_format(diags->arena, "%s", name), 1,
                              au_strndup(diags->arena, text, length), length);
}

uint32_t au_source_add_part(AuDiags *diags, const char *name, uint32_t line, const char *text,
                            size_t length)
{
    const AuSource source = {name, text, (uint32_t)length, line};
    AU_PUSH(diags->arena, diags->sources, diags->source_count, diags->source_capacity, source);
    return diags->source_count - 1;
}

/* A compilation looks at a script once a variant; what it has said about a place it does not say again. */
static bool was_said(const AuDiags *diags, const AuDiag *diag)
{
    for (const AuDiag *d = diags->first; d; d = d->next)
        if (d->severity == AU_WARNING && d->code == diag->code &&
            d->span.source == diag->span.source && d->span.begin == diag->span.begin &&
            d->span.end == diag->span.end && strcmp(d->message, diag->message) == 0)
            return true;
    return false;
}

static AuDiag *add(AuDiags *diags, AuSeverity severity, AuCode code, AuSpan span,
                   const char *format, va_list arguments)
{
    AuDiag *diag = AU_NEW(diags->arena, AuDiag);
    *diag = (AuDiag){.severity = severity, .code = code, .span = span};
    diag->message = au_vformat(diags->arena, format, arguments);
    if (severity == AU_ERROR && diags->errors++ >= diags->limit)
        return diag; /* counted, not kept */
    if (severity == AU_WARNING && was_said(diags, diag)) return diag;
    if (severity == AU_WARNING) diags->warnings++;
    if (diags->last)
        diags->last->next = diag;
    else
        diags->first = diag;
    return diags->last = diag;
}

// clang-format off
#define DEFINE(function, severity)                                                                 \
    AuDiag *function(AuDiags *diags, AuCode code, AuSpan span, const char *format, ...)            \
    {                                                                                              \
        va_list arguments;                                                                         \
        va_start(arguments, format);                                                               \
        AuDiag *diag = add(diags, severity, code, span, format, arguments);                        \
        va_end(arguments);                                                                         \
        return diag;                                                                               \
    }
DEFINE(au_error, AU_ERROR)
DEFINE(au_warning, AU_WARNING)
DEFINE(au_remark, AU_NOTE)
#undef DEFINE
// clang-format on

AuDiags au_diags_beside(AuArena *arena, const AuDiags *diags)
{
    AuDiags made = *diags;
    made.arena = arena;
    made.source_capacity = made.source_count;
    made.first = made.last = NULL;
    made.errors = made.warnings = 0;
    return made;
}

void au_diags_back(AuDiags *diags, const AuDiags *before)
{
    diags->errors = before->errors;
    diags->warnings = before->warnings;
    diags->first = before->first;
    diags->last = before->last;
    if (diags->last) diags->last->next = NULL;
}

void au_add_note(AuDiags *diags, AuDiag *diag, AuSpan span, const char *format, ...)
{
    AuNoteText *note = AU_NEW(diags->arena, AuNoteText);
    va_list arguments;
    va_start(arguments, format);
    note->span = span;
    note->message = au_vformat(diags->arena, format, arguments);
    va_end(arguments);
    AuNoteText **end = &diag->notes;
    while (*end) end = &(*end)->next;
    *end = note;
}

/* The number after that of the last source which a diagnostic has a place in. */
static uint32_t sources_end(const AuDiag *d)
{
    uint32_t end = d->span.source + 1;
    for (const AuNoteText *note = d->notes; note; note = note->next)
        if (note->span.source >= end) end = note->span.source + 1;
    return end;
}

void au_diags_repeat(AuDiags *diags, const AuDiag *d)
{
    AuDiag *copy =
        (d->severity == AU_ERROR     ? au_error
         : d->severity == AU_WARNING ? au_warning
                                     : au_remark)(diags, d->code, d->span, "%s", d->message);
    if (d->fix) copy->fix = au_format(diags->arena, "%s", d->fix);
    for (const AuNoteText *note = d->notes; note; note = note->next)
        au_add_note(diags, copy, note->span, "%s", note->message);
}

void au_diags_take(AuDiags *diags, const AuDiags *from)
{
    uint32_t end = 0;
    for (const AuDiag *d = from->first; d; d = d->next)
        if (sources_end(d) > end) end = sources_end(d);
    for (uint32_t n = diags->source_count; n < end; n++) {
        const AuSource *s = &from->sources[n];
        au_source_add_part(diags, au_format(diags->arena, "%s", s->name), s->line,
                           au_strndup(diags->arena, s->text, s->length), s->length);
    }
    for (const AuDiag *d = from->first; d; d = d->next) au_diags_repeat(diags, d);
}

const char *au_code_name(AuCode code)
{
    // clang-format off
    static const char *const names[] = {
#define DIAG(code, what) #code,
#include "diag.def"
#undef DIAG
    };
    // clang-format on
    return names[code];
}

static bool is_continuation(char c) { return ((unsigned char)c & 0xC0) == 0x80; }

/* First byte of the line that holds [at]. */
static uint32_t line_begin(const AuSource *source, uint32_t at)
{
    while (at > 0 && source->text[at - 1] != '\n') at--;
    return at;
}

/* Of a place in a text that is not here, the first one, which is empty. */
static const AuSource *source_of(const AuDiags *diags, AuSpan span)
{
    return &diags->sources[span.source < diags->source_count ? span.source : 0];
}

AuPosition au_position_in(const AuSource *source, uint32_t offset)
{
    const uint32_t at = offset < source->length ? offset : source->length;
    AuPosition p = {source->name, source->line, 1};
    for (uint32_t i = 0; i < at; i++) p.line += source->text[i] == '\n';
    for (uint32_t i = line_begin(source, at); i < at; i++)
        p.column += !is_continuation(source->text[i]);
    return p;
}

AuPosition au_position(const AuDiags *diags, AuSpan span)
{
    return au_position_in(source_of(diags, span), span.begin);
}

/* Bytes of the character at [i] of the source that a terminal shows as it is; 0: it is written as \xNN. The carriage return of
 * a line's end is not shown. */
static uint32_t shown_length(const AuSource *source, uint32_t i)
{
    const unsigned char c = (unsigned char)source->text[i];
    const bool control = (c < 32 && c != '\t' && c != '\r') || c == 127;
    return control ? 0 : au_utf8_length(source->text + i, source->text + source->length);
}

static bool is_text(const AuSource *source, uint32_t begin, uint32_t end)
{
    for (uint32_t length; begin < end; begin += length)
        if (!(length = shown_length(source, begin))) return false;
    return true;
}

/* The part of the line of [at] that is shown: all of it, or of a very long line what is around the place; little of what is no
 * text. */
static void visible_part(const AuSource *source, uint32_t at, uint32_t *begin, uint32_t *end)
{
    *begin = line_begin(source, at);
    *end = at;
    while (*end < source->length && source->text[*end] != '\n') (*end)++;
    const bool text = is_text(source, *begin, *end);
    const uint32_t widest = text ? 400 : 40, before = widest / 4;
    if (*end - *begin <= widest) return;
    if (at - *begin > before) *begin = at - before;
    if (*end - *begin > widest) *end = *begin + widest;
    while (text && is_continuation(source->text[*begin])) (*begin)++;
    while (text && is_continuation(source->text[*end])) (*end)--;
}

/* One character of a line, in [column]; returns its width, *length is that in bytes. */
static uint32_t render_character(const AuSource *source, uint32_t i, uint32_t column,
                                 uint32_t *length, AuText *out)
{
    const char c = source->text[i];
    const uint32_t width = 4 - column % 4, shown = shown_length(source, i);
    *length = shown ? shown : 1;
    if (!shown) {
        au_text_add(out, "\\x%02x", (unsigned char)c);
        return 4;
    }
    if (c == '\t') {
        au_text_add(out, "%*s", (int)width, "");
        return width;
    }
    au_text_bytes(out, c == '\r' ? " " : source->text + i, shown);
    return 1;
}

/* The line of the span, and below it a caret with tildes as far as the span goes on this line. */
static void render_line(const AuDiags *diags, AuSpan span, const char *fix, AuText *out)
{
    const AuSource *source = source_of(diags, span);
    const uint32_t at = span.begin < source->length ? span.begin : source->length;
    uint32_t begin, end, column = 0, caret = 0;
    AuText marks = {.arena = out->arena};
    visible_part(source, at, &begin, &end);
    for (uint32_t i = begin, length; i < end; i += length) {
        if (i == at) caret = column;
        const uint32_t width = render_character(source, i, column, &length, out);
        for (uint32_t n = 0; n < width; n++)
            if (i > at && i < span.end) au_text_add(&marks, "~");
        column += width;
    }
    if (at >= end) caret = column;
    au_text_add(out, "\n%*s^%s\n", (int)caret, "", au_text_str(&marks));
    if (fix) au_text_add(out, "%*s%s\n", (int)caret, "", fix);
}

static void render_message(const AuDiags *diags, AuSpan span, const char *what, const char *code,
                           const char *message, const char *fix, AuText *out)
{
    if (span.source) {
        const AuPosition p = au_position(diags, span);
        au_text_add(out, "%s:%u:%u: ", p.file, p.line, p.column);
    }
    au_text_add(out, "%s%s%s: %s\n", what, *code ? " " : "", code, message);
    if (span.source) render_line(diags, span, fix, out);
}

void au_diag_render(const AuDiags *diags, const AuDiag *diag, AuText *out)
{
    static const char *const severities[] = {"note", "warning", "error"};
    render_message(diags, diag->span, severities[diag->severity], au_code_name(diag->code),
                   diag->message, diag->fix, out);
    for (const AuNoteText *n = diag->notes; n; n = n->next)
        render_message(diags, n->span, "note", "", n->message, NULL, out);
}

void au_diags_render(const AuDiags *diags, AuText *out)
{
    for (const AuDiag *d = diags->first; d; d = d->next) au_diag_render(diags, d, out);
    if (diags->errors > diags->limit)
        au_text_add(out, "note: %u more errors are not shown\n", diags->errors - diags->limit);
}
