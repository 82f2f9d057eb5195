/* compile.h - a compilation: what its steps share (compile.c has their order). */
#ifndef AU_DRIVER_COMPILE_H
#define AU_DRIVER_COMPILE_H

#include "options.h"
#include "shapes.h"
#include "tensors.h"

#include "front.h"

typedef struct AuJob {
    AuArena *arena;
    AuNames *names;
    AuDiags *diags;
    AuChoice choice;
    const char *name;
    const char *text;
    size_t length;
    const AuSource *sources; /* script, standard library */
    uint32_t source_count;
    const aulec_options *options;
    const AuShapes *shapes;
    bool options_are_wrong; /* which may show after the script is read */
    AuScript *script;
    const AuFront *front; /* the same, to be checked again */
    AuAttn **signatures;  /* widths not fixed */
    uint32_t signature_count;
    AuAttentionBuild *builds;
    uint32_t build_count;
    struct AuWork
        *work; /* where code is to be made: its threads and arenas outlast none of the ways out */
} AuJob;

/* builds.c: does the script have the axes that widths are given for? Then the variants of each attention. False: reported. */
bool builds_widths_exist(AuJob *job);
bool builds_make(AuJob *job);

/* emission.c. Before variants are built: each is to become code, of that stage, while others are being built; [held]: all wait for emission_code. Without
 * this they keep their kernels. */
bool emission_open(AuJob *job, AuCodeStage stage, bool held);
void emission_free(AuJob *job); /* after that and whatever came of it, a jump out of it too */
/* A variant's kernels, by variant_build or variant_try, and on to their code: what is left of the variant is what variant_keep says. */
typedef bool AuVariantBuild(AuArena *arena, AuDiags *diags, AuVariant *v, const char *source_name);
bool emission_build(AuJob *job, AuDiags *diags, AuVariant *v, AuVariantBuild *build);
/* The code of all that were built. False: not of all, and diagnostics say why. */
bool emission_code(AuJob *job);
/* Of those that were built since; then each one's, false: there is none. */
bool emission_wait(AuJob *job);
bool emission_take(AuVariant *v);
/* spills.c: other shapes for those whose code keeps registers in memory. */
void spills_avoid(AuJob *job, AuVariant **variants, uint32_t count);
/* An artifact of the code; or what a static build takes, which makes the code itself if it needs any. */
bool emission_link(AuJob *job, AuBlob *out);
bool emission_embed(AuJob *job, AuBlob *out);

#endif
