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
 * library never prints, never exits and reads no file. Linking an artifact uses a private folder
 * in $TMPDIR (or /tmp), which is gone when the call returns.
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
    AULEC_EMIT_STDLIB = 8        /* the standard library of online functions; needs no script */
} aulec_emit;

/* Lists are names between commas; NULL: the default. */
typedef struct aulec_options {
    size_t struct_size;
    const char *targets; /* "cpu,opencl"; default all, of a stage those that have it */
    const char *archs; /* "x86-64-v4,generic"; default those that each target compiles by default */
    const char *dtypes;    /* operand types: "f32,f16,bf16"; default all three */
    const char *widths;    /* "D=64,128;E=64": names of width axes of the script and their sizes;
                              default D=64,128 and others as D */
    const char *attention; /* only this one of the script; default all */
    uint32_t optimize;     /* 0: default (3); else 1 + level */
    uint32_t emit;         /* aulec_emit */
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
AULEC_API void aulec_result_free(aulec_result *result); /* NULL is fine */

/* "0.1.0" */
AULEC_API const char *aulec_version(void);
#ifdef __cplusplus
}
#endif
#endif
