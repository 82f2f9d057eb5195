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
    AuAttn **signatures; /* widths not fixed */
    uint32_t signature_count;
    AuAttentionBuild *builds;
    uint32_t build_count;
    struct AuWork *work; /* while code is being made: its arenas outlast none of the ways out */
} AuJob;

/* builds.c: does the script have the axes that widths are given for? Then the variants of each attention. False: reported. */
bool builds_widths_exist(AuJob *job);
bool builds_make(AuJob *job);

/* emission.c: the code of all variants. */
bool emission_code(AuJob *job, AuCodeStage stage);
/* Of these alone; good[n]: whether there is code of the n-th. False: not of all, and diagnostics say why. */
bool emission_run(AuJob *job, AuVariant **variants, uint32_t count, AuCodeStage stage, bool *good);
/* spills.c: other shapes for those whose code keeps registers in memory. */
void spills_avoid(AuJob *job, AuVariant **variants, uint32_t count, AuCodeStage stage);
void emission_free(AuJob *job); /* what is left of it after a jump out of it */
/* An artifact of the code; or what a static build takes, which makes the code itself if it needs any. */
bool emission_link(AuJob *job, AuBlob *out);
bool emission_embed(AuJob *job, AuBlob *out);

#endif
