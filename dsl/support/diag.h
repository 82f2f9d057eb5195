/* diag.h - diagnostics: collected, never printed; positions in sources; rendering with source line
 * and caret. A diagnostic has a severity, a stable code (E0213), a place, a message (lower case, no
 * full stop, says what was expected and what was found), and notes that show other places or a fix.
 * Every code is a row of diag.def and has a test. */
#ifndef AU_SUPPORT_DIAG_H
#define AU_SUPPORT_DIAG_H

#include "arena.h"
#include "text.h"

/* Bytes [begin, end) of a source; source 0 is "no place". */
typedef struct AuSpan {
    uint32_t source, begin, end;
} AuSpan;

typedef enum AuSeverity { AU_NOTE, AU_WARNING, AU_ERROR } AuSeverity;

// clang-format off
typedef enum AuCode {
#define DIAG(code, what) AU_##code,
#include "diag.def"
#undef DIAG
    AU_CODE_COUNT
} AuCode;
// clang-format on

typedef struct AuNoteText {
    AuSpan span;
    const char *message;
    struct AuNoteText *next;
} AuNoteText;

typedef struct AuDiag {
    AuSeverity severity;
    AuCode code;
    AuSpan span;
    const char *message;
    const char *fix; /* text to put in place of span, or NULL */
    AuNoteText *notes;
    struct AuDiag *next;
} AuDiag;

typedef struct AuSource {
    const char *name; /* as the user named the file */
    const char *text;
    uint32_t length;
    uint32_t line; /* number of its first line, from 1 */
} AuSource;

/* What a compilation reports into. */
typedef struct AuDiags {
    AuArena *arena;
    AuSource *sources; /* [0] is "no place" */
    uint32_t source_count, source_capacity;
    AuDiag *first, *last;
    uint32_t errors, warnings;
    uint32_t limit; /* errors after which further ones are dropped, 0: 100 */
} AuDiags;

AuDiags *au_diags_new(AuArena *arena);
uint32_t au_source_add(AuDiags *diags, const char *name, const char *text, size_t length);
/* A part of a file, from that line on; name and text are kept as they are. */
uint32_t au_source_add_part(AuDiags *diags, const char *name, uint32_t line, const char *text,
                            size_t length);

/* Adds a diagnostic; what it returns takes notes and a fix (never NULL). A warning is kept once a place. */
AuDiag *au_error(AuDiags *diags, AuCode code, AuSpan span, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
AuDiag *au_warning(AuDiags *diags, AuCode code, AuSpan span, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* A diagnostic of severity note: something the user may want to know, not a problem. */
AuDiag *au_remark(AuDiags *diags, AuCode code, AuSpan span, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void au_add_note(AuDiags *diags, AuDiag *diag, AuSpan span, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Another list of the same sources, which are read and not added to: of nothing yet, in [arena]. */
AuDiags au_diags_beside(AuArena *arena, const AuDiags *diags);

/* Forgets what was reported since the copy [before] was made, for who tries something else; positions stay known. */
void au_diags_back(AuDiags *diags, const AuDiags *before);

/* Says the same again, with its fix and notes; places are of sources that both have. */
void au_diags_repeat(AuDiags *diags, const AuDiag *diag);
/* Adds copies of what was reported into [from], which began with the same sources; where a place is in one of its further sources, so are these. */
void au_diags_take(AuDiags *diags, const AuDiags *from);

const char *au_code_name(AuCode code); /* "E0213" */

typedef struct AuPosition {
    const char *file;
    uint32_t line, column; /* from 1; the column counts characters, not bytes */
} AuPosition;
AuPosition au_position(const AuDiags *diags, AuSpan span);
AuPosition au_position_in(const AuSource *source, uint32_t offset); /* of a byte of that text */

/* Like clang: file:line:col: error E0213: message, the source line, a caret; notes after it. */
void au_diag_render(const AuDiags *diags, const AuDiag *diag, AuText *out);
void au_diags_render(const AuDiags *diags, AuText *out);

#endif
