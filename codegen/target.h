/* target.h - what a code generator is to the compiler: one const struct a target, listed in
 * targets.c. A generator turns kernels (kernel IR, verified, math legalised for it) into code: text
 * or bytes to be embedded in the artifact, or, for host code, an object file that the linker puts
 * into the .so. */
#ifndef AU_CODEGEN_TARGET_H
#define AU_CODEGEN_TARGET_H

#include "kernel.h"

typedef struct AuBlob {
    const void *bytes;
    size_t length;
} AuBlob;

/* A row of a target's table of architectures. */
typedef struct AuArch {
    const char *name; /* as in --arch= and in the artifact: "x86-64-v4", "generic" */
    const char *caps; /* row of the tiled IR's table of capabilities */
    const char
        *features;  /* what the device must report for this code to run, space-separated, "" none */
    bool f16, bf16; /* operand types it takes beside f32 */
    bool by_default; /* compiled when no --arch is given */
    const char
        *wish; /* word of the device without which code for plainer rows is faster; "" none */
    const char *machine; /* host code: rows of one can be in one object; NULL: no host code */
    const char *plain;   /* host code: the plainest row with the same vectors */
    const struct SpvFlavour *flavour; /* SPIR-V: how its modules spell things; NULL elsewhere */
} AuArch;

typedef enum AuCodeStage {
    AU_CODE_FINAL,
    AU_CODE_IR,
    AU_CODE_ASSEMBLY
} AuCodeStage; /* --emit: object or text; LLVM IR; assembly */

typedef struct AuTarget {
    const char *name; /* "cpu", "opencl" */
    uint32_t format;  /* aule_code_format of the artifact */
    bool on_request;  /* only compiled for where --target names it: it takes long */
    bool
        apart; /* code of an architecture runs on no other: none serves what is plainer or more special */
    bool
        same_code; /* of equal kernels, whatever the architecture, which neither names nor texts say: it is stored once */
    bool gathers;  /* its compiler is given text, with indices as a shared sum and a constant */
    bool has_layouts; /* its schedules take keys in a layout (docs/dev/serving.md) */
    bool has_handles; /* kernels take pointers with offsets, as OpenCL's; else addresses, numbers */
    bool sees_addresses; /* beside handles: kernels may ask for a tensor's address as a number */
    const AuArch *archs;
    uint32_t arch_count;
    bool (*native_math)(AuKOp op); /* which MATH ops it takes as they are */
    /* What the device must report beside an architecture's features where kernels have CODE ops; NULL: nothing. */
    const char *codes_feature;
    /* Shared memory that the launch must bring, in bytes. NULL: the code declares all it needs. */
    uint32_t (*dynamic_shared)(const AuKernel *k);
    /* All kernels of one variant into one piece of code. [optimize] 0..3. false: diagnostics are in
     * diags. Host code: an object file whose functions are named by kernel name. Memory of *out
     * lives in the arena. */
    bool (*emit)(AuArena *arena, AuDiags *diags, AuKernel *const *kernels, uint32_t count,
                 const AuArch *arch, AuCodeStage stage, uint32_t optimize, AuBlob *out);
    /* Registers of a lane that code keeps in memory, of all its kernels: of the final one or of assembly. NULL: that is not known here. */
    uint32_t (*spilled)(const AuBlob *code);
} AuTarget;

extern const AuTarget au_target_cpu;       /* codegen/llvm/cpu.c */
extern const AuTarget au_target_cuda;      /* codegen/llvm/cuda.c */
extern const AuTarget au_target_hip;       /* codegen/llvm/hip.c */
extern const AuTarget au_target_metal;     /* codegen/c/metal.c */
extern const AuTarget au_target_opencl;    /* codegen/c/opencl.c */
extern const AuTarget au_target_vulkan;    /* codegen/spirv/spirv.c */
extern const AuTarget au_target_levelzero; /* the same */
extern const AuTarget
    au_target_opencl_modules; /* the same: `opencl`, too, where devices take them */

/* targets.c. Generators of one target, whose code is of different formats, have the same name. */
const AuTarget *const *au_targets(uint32_t *count);
const AuTarget *au_target(const char *name); /* the first one; NULL: unknown */
/* Is it one that this build lacks, since it was made without LLVM? */
bool au_target_needs_llvm(const char *name);
/* The machine of objects that hold no code; NULL: this build makes no objects. */
const AuArch *au_object_arch(void);

/* ---- artifacts: data alone (codegen/elf.c); host objects and shared libraries (codegen/llvm/link.c, or codegen/without_llvm.c) */

/* A constant image: bytes with addresses in them, to become the artifact's data. */
typedef struct AuImageFix {
    uint64_t at;        /* offset of an 8-byte field, multiple of 8 */
    const char *symbol; /* a function of another object; NULL: an address inside the image */
    uint64_t offset;    /* then: where in the image */
} AuImageFix;
typedef struct AuImage {
    const unsigned char *bytes;
    uint64_t length;
    const AuImageFix *fixes;
    uint32_t fix_count;
} AuImage;
bool au_image_is_sound(AuDiags *diags, const AuImage *image);
/* An image without functions as a shared library that exports [symbol]. */
bool au_data_library(AuArena *arena, AuDiags *diags, const AuImage *image, const char *symbol,
                     AuBlob *out);
/* An object file for [arch] of the cpu target that defines [symbol] (exported, read-only data) with
 * the image's content. */
bool au_image_object(AuArena *arena, AuDiags *diags, const AuImage *image, const char *symbol,
                     const AuArch *arch, AuBlob *out);
/* Links objects into a shared library in memory, in the process (lld). Only [export_symbol] is
 * exported; no dependencies. */
bool au_link_shared(AuArena *arena, AuDiags *diags, const AuBlob *objects, uint32_t count,
                    const char *export_symbol, const AuArch *arch, AuBlob *out);

#endif
