/* kernel_fuzz.c - any bytes as the text form of the kernel IR: no crash, no hang. What reads prints
 * and reads back equal; what verifies goes through the passes, after which the verifier may find an
 * index outside of its memory that was hidden in a variable, and what it takes reads back equal. */
#include "driver.h"
#include "kernel.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_UNROLLED = 500 };

static const char *print(AuArena *arena, const AuKernel *k)
{
    AuText text = {.arena = arena};
    kernel_print(k, &text);
    return au_text_str(&text);
}

static void check_text(AuArena *arena, AuNames *names, AuDiags *diags, const AuKernel *k)
{
    const char *first = print(arena, k);
    const AuKernel *again =
        kernel_read(arena, names, diags, au_source_add(diags, "kernel", first, strlen(first)));
    if (!again || strcmp(first, print(arena, again)) != 0) abort();
}

static bool none_is_native(AuKOp op)
{
    (void)op;
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AuArena *arena = au_arena_new(NULL);
    AuNames *names = au_names_new(arena);
    AuDiags *diags = au_diags_new(arena);
    AuText out = {.arena = arena};
    AuKernel *k =
        kernel_read(arena, names, diags, au_source_add(diags, "fuzz", (const char *)data, size));
    if ((k != NULL) != (diags->errors == 0)) abort();
    if (k) check_text(arena, names, diags, k);
    if (k && kernel_verify(k, diags)) {
        kernel_simplify(k);
        kernel_unroll(k, MOST_UNROLLED);
        kernel_legalize_math(k, none_is_native);
        kernel_legalize_codes(k, 0, 0);
        kernel_simplify(k);
        if (kernel_verify(k, diags)) {
            check_text(arena, names, diags, k);
            kernel_lanes(k, arena);
        }
    }
    au_diags_render(diags, &out);
    au_arena_free(arena);
    return 0;
}
