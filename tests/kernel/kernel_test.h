/* kernel_test.h - what the tests of the kernel IR share: kernels from text, and running them on
 * small buffers. */
#ifndef AU_KERNEL_TEST_H
#define AU_KERNEL_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "kernel_run.h"

typedef struct Bench {
    AuArena *arena;
    AuNames *names;
    AuDiags *diags;
} Bench;

static inline Bench bench_new(void)
{
    Bench b = {.arena = au_arena_new(NULL)};
    b.names = au_names_new(b.arena);
    b.diags = au_diags_new(b.arena);
    return b;
}

static inline void bench_free(Bench *b) { au_arena_free(b->arena); }

static inline AuKernel *bench_read(Bench *b, const char *text)
{
    return kernel_read(b->arena, b->names, b->diags,
                       au_source_add(b->diags, "test", text, strlen(text)));
}

/* Reads and verifies; a diagnostic fails the test. */
static inline AuKernel *bench_kernel(Bench *b, const char *text)
{
    AuKernel *k = bench_read(b, text);
    if (!k || !kernel_verify(k, b->diags)) {
        AuText shown = {.arena = b->arena};
        au_diags_render(b->diags, &shown);
        fail_msg("%s", au_text_str(&shown));
    }
    return k;
}

static inline const char *bench_print(Bench *b, const AuKernel *k)
{
    AuText text = {.arena = b->arena};
    kernel_print(k, &text);
    return au_text_str(&text);
}

#endif
