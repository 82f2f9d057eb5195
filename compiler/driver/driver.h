/* driver.h - what the files of the driver share: a compilation, its variants, the artifact. */
#ifndef AU_DRIVER_H
#define AU_DRIVER_H

#include "attn.h"
#include "kernel.h"
#include "lower.h"
#include "schedule.h"
#include "target.h"

/* One way to run an attention: on one architecture, for one operand type and set of widths. */
typedef struct AuVariant {
    AuAttn *attn;       /* sizes fixed */
    const char *called; /* the artifact's name of the attention; NULL: the script's */
    const AuTarget *target;
    const AuArch *arch;
    AuTileElem operand;
    AuOperation operation;
    const AuGrads *grads;              /* of attn; NULL: not asked for */
    const struct AuTensorRow *tensors; /* the artifact's, which slots count */
    uint32_t tensor_count;
    bool deterministic, checked;
    bool invariant; /* for calls that ask for results that do not depend on the batch */
    bool
        balanced; /* of few queries: parts of keys are equal whatever the lengths; its condition: several sequences */
    AuFewForm form;          /* of AU_DECODE_QUERIES; its condition: how many sequences, or rows */
    const AuSource *sources; /* whose lines code is to name: script, standard library; NULL: none */
    uint32_t source_count;
    bool tf32;              /* operands of f32 are multiplied so */
    const AuShapes *shapes; /* of the tuned table and of the caller */
    bool boxes;             /* a launch passes tensors that boxes of tensor maps describe */
    int32_t spare_shared;   /* bytes of shared memory that shapes leave free */
    int32_t too_large;      /* bytes that a kernel takes beyond a block's shared memory */
    const AuShapeRow *row;  /* which of them its shape was asked for by; NULL: by none */
    bool ranks;             /* it is asked which shapes it could have */
    const char *ranking;    /* that, as text */
    AuQueries queries;      /* how many there are; its condition */
    bool short_rows;        /* there are SCHEDULE_SHORT_ROWS queries at most; its condition */
    bool by_slots;          /* append: the call says where each row goes; its condition */
    AuLaunchExpr condition;
    const char *without_few; /* what of the script, that there are none of AU_DECODE_QUERIES */
    AuSchedule *
        schedule; /* NULL: kernels for so many queries, or with boxes, are none of this attention */
    AuChecks checks; /* their kernels are the first; their regions follow those of the schedule */
    AuKernel *kernels
        [AULE_MAX_LAUNCHES]; /* in the order of their launches; NULL where they are code by now */
    const struct aule_launch_v1 *launches; /* the artifact's of these; NULL: not said yet */
    struct AuPiece *piece;                 /* their code, which is being made (emission.c) */
    AuLowering bindings;
    AuLaunchExpr workspace[AULE_MAX_REGIONS];
    uint32_t kernel_count;
    const char **
        part_names; /* functions that hosts' kernels share and that are defined with these (compiler/kernel/parts.c) */
    uint32_t part_name_count;
    const struct AuVariant *asked; /* what was built: this before it had kernels */
    const char *features;          /* what its code needs of the device */
    AuBlob code;
} AuVariant;

/* An axis that must have elements, since kernels may read it at an index that is not its own. */
typedef struct AuNeed {
    AuExpr holds;
    AuSpan span; /* of the read */
    const char *tensor;
    uint32_t axis;
} AuNeed;

/* All variants of one attention of the script. */
typedef struct AuAttentionBuild {
    const char *called; /* as the script does, or with a layout behind it, "mha@T=paged" */
    const struct AuLayouts *layouts;
    const AuStorage *storage;
    bool appends;
    AuAttn *attn;                      /* sizes not fixed, as the script says it: the signature */
    AuAttn *whole;                     /* the same, simplified and, with gradients, completed */
    const AuGrads *grads;              /* of whole; NULL: no backward */
    const struct AuTensorRow *tensors; /* axes are expressions of whole */
    uint32_t tensor_count;
    bool parts; /* unfinished and combine are made */
    AuAttn
        *appending; /* of the widths that are made now: as append has it; NULL: as the others do */
    AuNeed *needs;
    uint32_t need_count;
    AuVariant *variants;
    uint32_t count, capacity;
    const char
        *without_few; /* of the machine and type that are made now: why none are for few queries */
} AuAttentionBuild;

/* variant.c: schedule, lowering and kernel passes; fills schedule, kernels, bindings; no schedule where one for so
 * many queries is not worth it. false: diagnostics are in diags. */
bool variant_build(AuArena *arena, AuDiags *diags, AuVariant *v, const char *source_name);
/* The same once, with the errors of its steps as they are. */
bool variant_try(AuArena *arena, AuDiags *diags, AuVariant *v, const char *source_name);
/* fit.c: what a shape that does not do might be instead: "with keys=64 or registers=8 it does"; NULL: nothing does. [v] is as it was before
 * it was built. */
const char *fit_instead(AuArena *arena, AuDiags *diags, const AuVariant *v, const AuShapeRow *row,
                        const char *source_name);
/* The kernel's names are unique in an artifact: attention, operand type, widths, architecture. */
const char *variant_symbol(AuArena *arena, const AuVariant *v, const char *kernel);
/* And of what kernels of an attention for an architecture share. */
const char *variant_prefix(AuArena *arena, const AuVariant *v, const char *arch);

/* launch_code.c: a scalar expression of sizes and params. false: a diagnostic names what cannot be
 * computed at launch. */
bool launch_code(AuArena *arena, AuDiags *diags, const AuAttn *attn, AuExpr e, AuLaunchExpr *out);

/* needs.c: what a call's shapes must meet beside what the script requires; adds to the graph. */
uint32_t driver_needs(AuAttn *attn, AuArena *arena, AuNeed **needs);

/* kept.c: after variant_build in an arena that does not stay: what is needed of the variant without its kernels is copied. [given]: the shapes
 * that it was built with. */
void variant_keep(AuArena *arena, AuVariant *v, const AuShapes *given);

/* artifact.c: the launches of a variant, which point to none of its kernels. */
const struct aule_launch_v1 *artifact_launches(AuArena *arena, const AuVariant *v);
/* artifact.c: the descriptor of all attentions; `host` of a launch only says that there is such a kernel. NULL: a diagnostic says
 * why there is none. */
const struct aule_module_v1 *artifact_module(AuArena *arena, AuDiags *diags,
                                             const AuAttentionBuild *builds, uint32_t count,
                                             const char *source_name, const char *source,
                                             size_t source_length);

#endif
