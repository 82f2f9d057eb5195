/* front.h - the front end: the text of a script to the attention IR of each of its attentions.
 *
 *     uint32_t source = au_source_add(diags, "mha.attn", text, length);
 *     AuScript *script = front_parse(arena, names, diags, source);
 *     AuAttn **attns = front_check(arena, names, diags, script, &count);
 *     AuAttn *attn = front_select(diags, script, attns, count, NULL);
 *
 * Problems go to the diagnostics, all those of a file in one run; where diags->errors did not grow, everything returned is
 * complete and passes attn_verify. No input crashes or hangs it: nesting, expansion and size of a script are limited.
 * Widths stay sizes with fixed = -1 unless the script writes a number; the compiler fixes them later. Nothing is derived
 * (combine, gradients) or simplified here. */
#ifndef AU_FRONT_H
#define AU_FRONT_H

#include "ast.h"
#include "attn.h"

/* Never NULL. Syntax errors are reported; what could be parsed is in the tree. */
AuScript *front_parse(AuArena *arena, AuNames *names, AuDiags *diags, uint32_t source);

/* The attentions of a script, in order; an attention with an error is left out. *count may be 0. */
AuAttn **front_check(AuArena *arena, AuNames *names, AuDiags *diags, const AuScript *script,
                     uint32_t *count);

/* The same in steps, for those who need an attention more than once: the script beside the standard library, which is parsed here; all attentions;
 * and one of those that had no error once more, in a graph of its own. That takes what one attention takes, whatever else is in the script. */
typedef struct AuFront AuFront;
AuFront *front_open(AuArena *arena, AuNames *names, AuDiags *diags, const AuScript *script);
AuAttn **front_check_all(const AuFront *front, AuArena *arena, AuDiags *diags, uint32_t *count);
AuAttn *front_check_again(const AuFront *front, AuArena *arena, AuDiags *diags, const char *name);

/* The attention called [name], or the only one when name is NULL; else NULL and a diagnostic. */
AuAttn *front_select(AuDiags *diags, const AuScript *script, AuAttn **attns, uint32_t count,
                     const char *name);

#endif
