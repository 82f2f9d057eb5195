/* lines.c - lines of the script for what kernels do, where the driver asked for lines (AuKernel.sources): a comment before the first statement of
 * each, "// x.attn:12". It holds until the next one. No #line, by which compilers would name the script but no line of this text, where what they
 * complain of is; and the script has one line for many of ours. */
#include "internal.h"

#include <string.h>

void cprint_place(AuCPrinter *p, const AuInstr *in)
{
    const AuKernel *k = p->k;
    AuSpan span = in->span;
    if (!k->source_count || !k->span.source) return;
    if (!span.source || span.source >= k->source_count) span = k->span;
    const AuSource *source = &k->sources[span.source];
    const uint32_t line = au_position_in(source, span.begin).line;
    if (p->placed.source == span.source && p->placed.line == line) return;
    p->placed.source = span.source, p->placed.line = line;
    const char *name = strrchr(source->name, '/');
    cprint_comment(p, au_format(p->arena, "%s:%u", name ? name + 1 : source->name, line));
}
