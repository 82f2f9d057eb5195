/* foreign.h - words and forms of other languages in a script: what to write instead. */
#ifndef AU_FRONT_FOREIGN_H
#define AU_FRONT_FOREIGN_H

#include "token.h"

/* Adds to [diag], which is about [word] at its span, what to write instead; false: the word is none of foreign.def. */
bool foreign_word(AuDiags *diags, AuDiag *diag, const char *word);
/* The same for token [t], which the grammar does not expect where it stands; [first] is the first of the file, and a token of
 * kind 0 ends it. */
void foreign_form(AuDiags *diags, AuDiag *diag, const AuToken *first, const AuToken *t);

#endif
