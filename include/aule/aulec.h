/* aule/aulec.h - libaulec: compiles attention scripts (docs/language.md) in the process. C99.
 *
 *     aulec_result *result = NULL;
 *     aulec_options options = {.struct_size = sizeof options, .targets = "cpu"};
 *     if (aulec_compile("mha.attn", text, strlen(text), &options, &result) == AULEC_OK)
 *         write_to_a_file(aulec_result_data(result), aulec_result_length(result));
 *     fputs(aulec_result_diagnostics(result), stderr);
 *     aulec_result_free(result);
 *
 * Reentrant: calls from several threads at once share nothing (the linker inside takes turns). The
 * library never prints, never exits, reads no file and writes none: artifacts are linked in memory.
 *
 * With one exception: where memory runs out within LLVM, which targets cpu and cuda and the linker use,
 * LLVM ends the process (abort). aulec's own allocations give AULEC_ERROR_MEMORY. A program that must
 * outlive that, or limits its memory, compiles in a process of its own.
 *
 * Option structs begin with struct_size = sizeof the struct as the caller was compiled, zeroed
 * before they are filled. */
#ifndef AULE_AULEC_H
#define AULE_AULEC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define AULEC_API __attribute__((visibility("default")))
#else
#define AULEC_API
#endif

typedef enum aulec_status {
    AULEC_OK = 0,
    AULEC_ERROR_SCRIPT = 1, /* diagnostics tell */
    AULEC_ERROR_USAGE = 2,  /* an option is wrong; diagnostics tell */
    AULEC_ERROR_MEMORY = 3
} aulec_status;

/* What the result is. Stages that exist for each variant (tiled IR and later) are given for all of
 * those asked for, one after another, each under a line that names it. */
typedef enum aulec_emit {
    AULEC_EMIT_ARTIFACT = 0,     /* a shared library, x.so */
    AULEC_EMIT_AST = 1,          /* the syntax tree */
    AULEC_EMIT_ATTENTION_IR = 2, /* typed expressions over named axes */
    AULEC_EMIT_TILED_IR = 3,     /* the schedule's block programs, hooks and their inlined form */
    AULEC_EMIT_KERNEL_IR = 4,    /* code of a lane */
    AULEC_EMIT_LLVM_IR = 5,      /* target cpu */
    AULEC_EMIT_ASM = 6,          /* target cpu */
    AULEC_EMIT_OPENCL_C = 7,     /* target opencl */
    AULEC_EMIT_STDLIB = 8,       /* the standard library of online functions; needs no script */
    /* For static builds, see docs/embedding.md. The header fits what is made with the same options. */
    AULEC_EMIT_HEADER = 9,     /* x.h: functions of target cpu, the descriptor */
    AULEC_EMIT_C = 10,         /* x.c: an artifact without target cpu, as data */
    AULEC_EMIT_OBJECT = 11,    /* x.o: the artifact and the functions */
    AULEC_EMIT_ARCHIVE = 12,   /* libx.a: the same, a member a variant */
    AULEC_EMIT_GRADIENTS = 13, /* what backward computes, derived as expressions */
    AULEC_EMIT_SPIRV =
        14, /* target vulkan or opencl: modules one behind the other, each from its magic number on */
    AULEC_EMIT_SPIRV_TEXT = 15, /* the same, disassembled */
    AULEC_EMIT_METAL = 16,      /* target metal: source text in Metal's shading language */
    AULEC_EMIT_SHAPES =
        17 /* shapes that kernels could have: a forecast of each, or why it does not do (docs/tuning.md) */
} aulec_emit;

/* Of `parts` and `append`: kernels of these operations and of no others, for who has the others already. */
enum { AULEC_ALONE = 2 };

/* Lists are names between commas; NULL: the default. */
typedef struct aulec_options {
    size_t struct_size;
    const char *
        targets; /* "cpu,opencl,cuda,vulkan"; default cpu, opencl, vulkan, levelzero and metal, of layouts, stored types and
                    stages those that have them */
    /* "x86-64-v4,generic"; default those that each target compiles by default, which targets that are named keep where none of theirs is. */
    const char *archs;
    const char *dtypes;    /* operand types: "f32,f16,bf16"; default all three */
    const char *widths;    /* "D=64,128;E=64": names of width axes of the script and their sizes;
                              default D=64,128 and others as D */
    const char *attention; /* only this one of the script; default all */
    uint32_t optimize;     /* 0: default (3); else 1 + level */
    uint32_t emit;         /* aulec_emit */
    uint32_t no_gradients; /* 1: forward only */
    uint32_t
        deterministic; /* 1: gradients are summed in a fixed order, the same bits in every run, which takes longer */
    uint32_t checked; /* 1: indices outside of their tensors are errors of the call, which kernels
                          that run first look for; not of static builds */
    const char
        *f32; /* how operands of f32 are multiplied: "exact", or "tf32", rounded to 10 bits of
                        mantissa by the matrix units of cuda from sm_80 on; default exact */
    const char *after; /* with AULEC_EMIT_TILED_IR: the programs after this pass of the compiler,
                          "segments"; default: as schedules give them. "help": the passes' names,
                          with any stage and without a script */
    uint32_t
        lines; /* 1: PTX (.loc) and SPIR-V (OpLine) name the lines of the script, for profilers */
    const char
        *shape; /* "warps_forward: warps=4 rows=32": shapes that kernels must have, a line each
                           (docs/tuning.md); NULL: as tables and rules say */
    const char
        *shapes; /* the text of a table of shapes, whose rows come before the compiler's; NULL:
                           the compiler's alone */
    const char *shapes_name; /* what diagnostics call it, a file's name; NULL: "<shapes>" */
    uint32_t
        parts; /* 1: kernels of the operations "unfinished" and "combine", too (AULEC_ALONE: alone), of which an attention of keys in several
                       places is made */
    const char *
        layout; /* "T=padded", "T=paged", "S=packed,T=packed": how the rows of axes of keys and queries lie in memory
                   (docs/dev/serving.md); NULL: dense; on cpu, opencl, levelzero and cuda. "T=paged;S=packed,T=paged": an attention of the artifact for each, "mha@T=paged" and so
                   on, the dense one "mha" */
    const char *
        storage; /* "e4m3", "k=e4m3,v=i8:token", "i4:channels32:zero:f16": keys and values are stored in 8 or 4 bits, with scales and
                    zero points of f32, f16 or bf16 (docs/dev/serving.md); NULL: as operands. Forward on cpu, opencl and cuda */
    uint32_t
        append; /* 1: kernels of the operation "append", too (AULEC_ALONE: alone), which writes new keys and values into a cache */
    uint32_t
        invariant; /* 1: of kernels for few queries whose results depend on the batch others, too, for calls with AULE_CALL_INVARIANT; not of
                      static builds */
    uint32_t
        serve; /* 1: the layouts that calls of a server have, before those of `layout`: dense, "T=padded", "T=paged",
                  "S=packed:most,T=paged", "S=packed:most,T=packed:most" by the script's names of axes; forward, and of caches append.
                  `storage` is that of caches, then */
} aulec_options;

typedef struct aulec_result aulec_result;

/* Compiles [text] ([length] bytes of UTF-8; need not end with a NUL); [name] is what diagnostics
 * call it. *result is made in every case but AULEC_ERROR_MEMORY and a NULL argument; the caller
 * frees it. [options] NULL: all defaults. */
AULEC_API aulec_status aulec_compile(const char *name, const char *text, size_t length,
                                     const aulec_options *options, aulec_result **result);

/* The artifact or the text that was asked for; NULL and 0 after an error. Texts end with a NUL that
 * is not counted. Owned by the result. */
AULEC_API const void *aulec_result_data(const aulec_result *result);
AULEC_API size_t aulec_result_length(const aulec_result *result);
/* All errors, warnings and notes as text, "" if none; owned by the result. */
AULEC_API const char *aulec_result_diagnostics(const aulec_result *result);
AULEC_API uint32_t aulec_result_errors(const aulec_result *result);

typedef enum aulec_severity { AULEC_NOTE = 0, AULEC_WARNING = 1, AULEC_ERROR = 2 } aulec_severity;

/* One of them by its parts. */
typedef struct aulec_diagnostic {
    size_t struct_size;
    uint32_t severity;     /* aulec_severity */
    const char *code;      /* "W0401" */
    const char *file;      /* as aulec_compile was told; "" where there is no place */
    uint32_t line, column; /* from 1; 0: no place */
    const char *message;   /* one line */
    const char *text;      /* what aulec_result_diagnostics has of it: lines, caret, notes */
} aulec_diagnostic;

/* In the order of the text; owned by the result. NULL: there is none of that index. */
AULEC_API size_t aulec_result_diagnostic_count(const aulec_result *result);
AULEC_API const aulec_diagnostic *aulec_result_get_diagnostic(const aulec_result *result,
                                                              size_t index);
AULEC_API void aulec_result_free(aulec_result *result); /* NULL is fine */

/* ---- checking what a script means, in f64, without a device */

typedef struct aulec_check_options {
    size_t struct_size;
    const char *attention; /* only this one of the script; NULL: all */
    const char *values; /* sizes and parameters of the trials, "S=100,T=7,window=16"; what is left
                              out gets small numbers, parameters their defaults */
    uint64_t seed;
    uint32_t as_svg;  /* 1: the result is not the report but the mask's tiles as an SVG document, of
                        one attention */
    uint32_t columns; /* of the report's lines, for the drawing of the mask; 0: 80 */
} aulec_check_options;

/* Checks on random data that the result does not depend on how keys are cut into tiles, that
 * online_fwd, forward and combine say the same, that gradients are those of central differences, and
 * draws the tiles of the mask; and that gradients are right in f32, too, where inputs that are added to scores put whole rows far
 * below 0. The result's text is a report, also where AULEC_ERROR_SCRIPT says that
 * something is wrong: the diagnostics then name the clause, the numbers and what would be right. */
AULEC_API aulec_status aulec_check(const char *name, const char *text, size_t length,
                                   const aulec_check_options *options, aulec_result **result);

/* A reference case: random arguments of an attention and what they give in f64, with the error that
 * a kernel may have: twice that of the plain formula computed in the operand type, four times for
 * gradients. For testing kernels on a device. */
typedef struct aulec_case aulec_case;

typedef struct aulec_case_options {
    size_t struct_size;
    const char *attention; /* NULL: the only one */
    const char *
        dtype; /* operand type: "f32", "tf32" (f32 that products take so), "f16", "bf16"; NULL: f32 */
    const char *values; /* as in aulec_check_options */
    uint64_t seed;
    uint32_t
        far_inputs; /* 1: those that aulec_case_far_inputs names are 0 or far below 0 (-1e9), in whole rows and at some keys */
    uint32_t
        chunk; /* of a recurrence: its forward kernel multiplies chunks of so many tokens by matrix units, which rounds more
                       than a token after another does; 0: it does not */
    uint32_t backward_chunk; /* likewise, its kernels of gradients */
    uint32_t
        alone; /* 1: of the sequences that there would be, number `sequence` by itself, of which the first `queries` and `keys`; of what all
                  have, a table, its part. Refused where the script asks for a sequence's number, as `dropout` does. Not of a recurrence */
    uint32_t sequence;
    int64_t queries, keys;
} aulec_case_options;

typedef struct aulec_case_tensor {
    size_t struct_size;
    const char *name; /* as in the artifact: "q", "bias", "o", "lse", "do", "dq" */
    uint32_t role;    /* aule_role */
    uint32_t dtype;   /* aule_dtype, of operand type the one that was asked for */
    uint32_t rank;
    const int64_t *shape;
    uint64_t elements;
    const void *data;   /* an argument: its values in C order; NULL of a result */
    const double *want; /* a result: the expected values in C order; NULL of an argument */
    double
        bound; /* a result: how far from [want] an element may be; infinite: with far inputs the plain formula itself
                     loses the result, and there is nothing to compare with */
} aulec_case_tensor;

typedef struct aulec_case_param {
    size_t struct_size;
    const char *name;
    int32_t is_float;
    int64_t i;
    double f;
} aulec_case_param;

/* *result has the diagnostics; *reference is made when AULEC_OK is returned. */
AULEC_API aulec_status aulec_case_new(const char *name, const char *text, size_t length,
                                      const aulec_case_options *options, aulec_case **reference,
                                      aulec_result **result);
AULEC_API void aulec_case_free(aulec_case *reference);
AULEC_API const char *aulec_case_attention(const aulec_case *reference);
/* The widths of the case as aulec_options has them: "D=64;E=64;P=24". */
AULEC_API const char *aulec_case_widths(const aulec_case *reference);
/* The inputs that are added to scores, "bias, slope"; NULL: none is. */
AULEC_API const char *aulec_case_far_inputs(const aulec_case *reference);
/* 1 if there are gradients: tensors of the operation "backward" follow those of "forward". */
AULEC_API int32_t aulec_case_has_gradients(const aulec_case *reference);
AULEC_API size_t aulec_case_tensor_count(const aulec_case *reference);
AULEC_API const aulec_case_tensor *aulec_case_get_tensor(const aulec_case *reference, size_t index);
AULEC_API size_t aulec_case_param_count(const aulec_case *reference);
AULEC_API const aulec_case_param *aulec_case_get_param(const aulec_case *reference, size_t index);

/* The best architecture of [target] for a device with these [features] (space-separated, as
 * aule_device_info has them) among those that are compiled by default, for aulec_options.archs. NULL:
 * there is none that takes this operand type. */
AULEC_API const char *aulec_best_arch(const char *target, const char *features, const char *dtype);

/* "0.1.0" */
AULEC_API const char *aulec_version(void);
#ifdef __cplusplus
}
#endif
#endif
