/* stages.h - what --emit shows. */
#ifndef AU_DRIVER_STAGES_H
#define AU_DRIVER_STAGES_H

#include "driver.h"
#include "front.h"
#include "options.h"

void stages_stdlib(AuText *out);
void stages_ast(const AuScript *script, AuText *out);
void stages_attention(AuAttn *const *attns, uint32_t count, AuText *out);
/* Gradients; false: a script has none, diagnostics say why. */
bool stages_gradients(AuArena *arena, AuDiags *diags, AuAttn *const *attns, uint32_t count,
                      AuText *out);
/* The passes over the tiled IR in their order, a line each. */
void stages_pass_names(AuText *out);
/* Is there a pass of that name? Else an error that lists them. */
bool stages_is_pass(AuDiags *diags, const char *name);
/* Tiled IR after the passes up to [after], which is one; false after an error. */
bool stages_passed(AuArena *arena, AuDiags *diags, const AuAttentionBuild *builds, uint32_t count,
                   const char *after, AuText *out);
/* Tiled or kernel IR of every variant, or which shapes it could have. */
void stages_variants(const AuAttentionBuild *builds, uint32_t count, uint32_t emit, AuText *out);
/* Has one of the targets this stage of source text or of modules? Asked before anything is compiled; all else is for later. */
bool stages_is_there(const AuChoice *choice, uint32_t emit, AuDiags *diags);
/* The generated code of every variant of the stage's target; false: there is none. */
bool stages_code(const AuAttentionBuild *builds, uint32_t count, uint32_t emit, AuDiags *diags,
                 AuText *out);
/* Does the architecture make other code for this operand type than a plainer one that is taken too? */
bool stages_is_useful(const AuChoice *choice, uint32_t target, const AuArch *arch,
                      AuTileElem operand);

#endif
