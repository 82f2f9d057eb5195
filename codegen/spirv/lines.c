/* lines.c - lines of the script for what kernels do: OpLine, where the driver asked for lines (AuKernel.sources). Files are OpStrings, named
 * when something of theirs is first met. A line holds until the next one or the end of its block. */
#include "emit.h"

void spirv_open_lines(SpvModule *m, const AuKernel *k)
{
    if (!k->source_count || !k->span.source) return;
    m->files = AU_NEW_ARRAY(m->arena, SpvId, k->source_count);
    m->sources = k->sources;
    m->source_count = k->source_count;
}

static SpvId file_of(SpvModule *m, uint32_t source)
{
    enum { UNKNOWN_LANGUAGE = 0 };
    SpvId *file = &m->files[source];
    if (*file) return *file;
    *file = spirv_id(m);
    spirv_put_text(m, &m->sections[SPV_STRINGS], SPV_String, file, 1, m->sources[source].name, NULL,
                   0);
    return *file;
}

void spirv_line(SpvEmit *e, AuSpan span)
{
    SpvModule *m = e->m;
    if (!m->files) return;
    if (!span.source || span.source >= m->source_count) span = e->k->span;
    SpvFunction *f = m->f;
    if (f->lined == f->label && f->source == span.source && f->begin == span.begin) return;
    f->lined = f->label, f->source = span.source, f->begin = span.begin;
    const AuPosition p = au_position_in(&m->sources[span.source], span.begin);
    spirv_do(m, SPV_Line, SPV_WORDS(file_of(m, span.source), p.line, p.column));
}
