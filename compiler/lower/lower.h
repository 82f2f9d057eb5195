/* lower.h - from the tiled IR to the kernel IR: CPUs (a lane is an element of a vector), GPUs without
 * matrix units (a lane is a thread that needs nothing of the others), GPUs whose warps have
 * matrix units that end before the next instruction (mma.sync), and those where groups of warps
 * multiply and copies go on beside them (wgmma, tensor maps).
 *
 * In:  an expanded, verified kernel that has been through the passes. Out: kernel IR. Fragments become arrays of a lane,
 * private memory becomes memory of the executor, scalars become values; runs of elementwise
 * statements become as few loops over registers as their reductions allow (fuse.c). With matrix
 * units of warps all registers are written out and lanes exchange what they share; asynchronous
 * copies become those of 16 bytes a lane, or boxes of tensors. Roles become branches, pipelines
 * barriers in memory. Conversions of layouts are exchanges between the lanes of a warp (convert.c).
 * Refused with E0810, naming the construct: conversions that no such exchange makes, and what else
 * docs/dev/lowering.md lists. */
#ifndef AU_LOWER_H
#define AU_LOWER_H

#include "kernel.h"
#include "tile.h"

/* Where an argument of the tiled kernel comes from at launch. */
typedef struct AuLowerTensor {
    const char *name; /* interned in the tile module */
    uint32_t slot;    /* aule_slot_kind: tensor or workspace */
    uint32_t index;   /* of the tensor or workspace region */
    bool optional;    /* may be absent: stores to it are guarded */
} AuLowerTensor;
typedef struct AuLowerScalar {
    const char *name;
    uint32_t slot; /* aule_slot_kind: size or param */
    uint32_t index;
    bool is_i64, is_f32; /* else i32 */
    uint32_t word;       /* of an i64 param read as two i32 words: 0 all, 1 low, 2 high */
} AuLowerScalar;

typedef struct AuLowering {
    const AuLowerTensor *tensors;
    uint32_t tensor_count;
    const AuLowerScalar *scalars; /* sizes and params */
    uint32_t scalar_count;
    const char *banner;
    const AuSource *sources; /* of the script and the standard library */
    uint32_t source_count;
    AuSpan script;  /* the attention */
    AuSpan largest; /* expression of the script: which to blame where a kernel gets too large */
} AuLowering;

/* False, and an error, if a kernel has more instructions than KERNEL_MOST. */
bool lower_is_small(AuDiags *diags, const AuKernel *k, const AuLowering *how);

/* NULL after an error. The kernel's name is that of the tiled kernel. */
AuKernel *lower_kernel(AuArena *arena, AuDiags *diags, const AuTileModule *module,
                       const AuTileKernel *kernel, const AuLowering *how);

/* The size of an argument that lies in the workspace, all elements side by side. */
AuLaunchExpr lower_workspace_bytes(AuArena *arena, AuDiags *diags, const AuTileModule *module,
                                   const AuTileKernel *kernel, const AuTileMemory *memory,
                                   const AuLowering *how);

#endif
