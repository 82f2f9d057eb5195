/* emit_lines.c - lines of the script for what kernels do: debug locations, of which PTX has `.file` and `.loc` and nothing else.
 *
 * LLVM's C API makes compile units with tables for debuggers or with nothing; the kind that only prints directives, without which
 * assemblers would take the code for code to be debugged and not optimise it, exists in IR text alone. So units, files and a scope
 * for each kernel and source are read as text and linked into the module; named metadata hands them out. */
#include "emit.h"

#include <llvm-c/DebugInfo.h>
#include <llvm-c/IRReader.h>
#include <llvm-c/Linker.h>

#include <string.h>

typedef struct Starts { /* of the lines of a source, as offsets */
    uint32_t *at;
    uint32_t count, capacity;
} Starts;

struct AuLines {
    AuKernel *const *kernels;
    LLVMMetadataRef *scopes; /* by kernel and source */
    Starts *starts;          /* by source */
    uint32_t source_count;
    uint32_t kernel; /* at hand */
    AuSpan last;     /* whose location is set */
};

/* ---- the text */

static void quoted(AuText *out, const char *name)
{
    au_text_add(out, "\"");
    for (const char *c = name; *c; c++)
        if (*c == '"' || *c == '\\' || (unsigned char)*c < ' ')
            au_text_add(out, "\\%02x", (unsigned)(unsigned char)*c);
        else
            au_text_bytes(out, c, 1);
    au_text_add(out, "\"");
}

static uint32_t line_at(const Starts *s, uint32_t offset)
{
    uint32_t low = 0, high = s->count;
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (s->at[middle] <= offset)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* !0 unit, !1 flags, !2 no type; then a file a source; then for each kernel a scope a source, its function among them. */
static const char *text_of(const struct AuLines *l, AuKernel *const *kernels, uint32_t count,
                           AuArena *arena)
{
    enum { FILES = 3 };
    AuText out = {.arena = arena}, list = {.arena = arena};
    const AuKernel *first = kernels[0];
    const uint32_t files = l->source_count - 1, scopes = FILES + files;
    au_text_add(&out,
                "!llvm.dbg.cu = !{!0}\n!llvm.module.flags = !{!1}\n"
                "!0 = distinct !DICompileUnit(language: DW_LANG_C99, file: !%u, "
                "emissionKind: DebugDirectivesOnly)\n"
                "!1 = !{i32 2, !\"Debug Info Version\", i32 3}\n"
                "!2 = !DISubroutineType(types: !{})\n",
                FILES + first->span.source - 1);
    for (uint32_t s = 1; s <= files; s++) {
        au_text_add(&out, "!%u = !DIFile(filename: ", FILES + s - 1);
        quoted(&out, first->sources[s].name);
        au_text_add(&out, ", directory: \"\")\n");
    }
    for (uint32_t n = 0; n < count; n++)
        for (uint32_t s = 1; s <= files; s++) {
            const uint32_t own = kernels[n]->span.source, id = scopes + n * files + s - 1;
            au_text_add(&list, "%s!%u", list.length ? ", " : "", id);
            if (s != own) {
                au_text_add(&out,
                            "!%u = !DILexicalBlockFile(scope: !%u, file: !%u, discriminator: 0)\n",
                            id, scopes + n * files + own - 1, FILES + s - 1);
                continue;
            }
            au_text_add(&out, "!%u = distinct !DISubprogram(name: ", id);
            quoted(&out, kernels[n]->name);
            au_text_add(&out,
                        ", scope: !%u, file: !%u, line: %u, type: !2, "
                        "spFlags: DISPFlagDefinition, unit: !0)\n",
                        FILES + s - 1, FILES + s - 1,
                        line_at(&l->starts[s], kernels[n]->span.begin) + 1);
        }
    au_text_add(&out, "!aule.scopes = !{%s}\n", au_text_str(&list));
    return au_text_str(&out);
}

/* ---- into the module */

static bool link_text(AuEmit *e, const char *text)
{
    char *message = NULL;
    LLVMModuleRef lines = NULL;
    LLVMMemoryBufferRef buffer =
        LLVMCreateMemoryBufferWithMemoryRangeCopy(text, strlen(text), "lines");
    bool bad = LLVMParseIRInContext2(e->context, buffer, &lines, &message);
    LLVMDisposeMemoryBuffer(buffer);
    if (!bad) {
        LLVMSetTarget(lines, LLVMGetTarget(e->module));
        LLVMSetDataLayout(lines, LLVMGetDataLayoutStr(e->module));
        bad = LLVMLinkModules2(e->module, lines);
    }
    if (bad)
        au_error(e->diags, AU_E0004, (AuSpan){0}, "lines of the script: %s",
                 message ? message : "cannot be linked");
    LLVMDisposeMessage(message);
    e->failed |= bad;
    return !bad;
}

static void find_starts(AuArena *arena, const AuSource *source, Starts *out)
{
    AU_PUSH(arena, out->at, out->count, out->capacity, 0);
    for (uint32_t n = 0; n < source->length; n++)
        if (source->text[n] == '\n') AU_PUSH(arena, out->at, out->count, out->capacity, n + 1);
}

void emit_lines_open(AuEmit *e, AuKernel *const *kernels, uint32_t count)
{
    const AuKernel *first = count ? kernels[0] : NULL;
    if (!first || !first->source_count || !first->span.source) return;
    struct AuLines *l = AU_NEW(e->arena, struct AuLines);
    *l = (struct AuLines){.kernels = kernels, .source_count = first->source_count};
    l->starts = AU_NEW_ARRAY(e->arena, Starts, l->source_count);
    for (uint32_t s = 1; s < l->source_count; s++)
        find_starts(e->arena, &first->sources[s], &l->starts[s]);
    if (!link_text(e, text_of(l, kernels, count, e->arena))) return;
    const uint32_t scopes = LLVMGetNamedMetadataNumOperands(e->module, "aule.scopes");
    LLVMValueRef *values = AU_NEW_ARRAY(e->arena, LLVMValueRef, scopes);
    l->scopes = AU_NEW_ARRAY(e->arena, LLVMMetadataRef, scopes);
    LLVMGetNamedMetadataOperands(e->module, "aule.scopes", values);
    for (uint32_t n = 0; n < scopes; n++) l->scopes[n] = LLVMValueAsMetadata(values[n]);
    e->lines = l;
}

/* ---- places */

static LLVMMetadataRef scope_of(const struct AuLines *l, uint32_t source)
{
    return l->scopes[l->kernel * (l->source_count - 1) + source - 1];
}

static void set(AuEmit *e, AuSpan span)
{
    struct AuLines *l = e->lines;
    const Starts *s = &l->starts[span.source];
    const uint32_t line = line_at(s, span.begin), column = span.begin - s->at[line];
    LLVMSetCurrentDebugLocation2(e->builder,
                                 LLVMDIBuilderCreateDebugLocation(e->context, line + 1, column + 1,
                                                                  scope_of(l, span.source), NULL));
    l->last = span;
}

void emit_lines_kernel(AuEmit *e)
{
    struct AuLines *l = e->lines;
    if (!l) return;
    for (l->kernel = 0; l->kernels[l->kernel] != e->k;) l->kernel++;
    LLVMSetSubprogram(e->function, scope_of(l, e->k->span.source));
    set(e, e->k->span);
}

void emit_lines_at(AuEmit *e, AuSpan span)
{
    struct AuLines *l = e->lines;
    if (!l) return;
    if (!span.source || span.source >= l->source_count) span = e->k->span;
    if (span.source != l->last.source || span.begin != l->last.begin) set(e, span);
}
