/* front_fuzz.c - any bytes as a script: no crash, no hang, no leak; what has no error verifies, and its text form reads back equal. */
#include "driver.h"
#include "front.h"

#include <stdlib.h>
#include <string.h>

static void check_attention(AuArena *arena, AuNames *names, AuDiags *diags, const AuAttn *a)
{
    AuText first = {.arena = arena}, second = {.arena = arena};
    if (!attn_verify(a, diags)) abort();
    attn_print(a, &first);
    const AuAttn *again =
        attn_read(arena, names, diags, au_source_add(diags, "ir", first.at, first.length));
    if (!again) abort();
    attn_print(again, &second);
    if (strcmp(first.at, second.at) != 0) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AuArena *arena = au_arena_new(NULL);
    AuNames *names = au_names_new(arena);
    AuDiags *diags = au_diags_new(arena);
    AuText out = {.arena = arena};
    uint32_t count;
    const AuScript *script = front_parse(
        arena, names, diags, au_source_add(diags, "fuzz.attn", (const char *)data, size));
    AuAttn **attns = front_check(arena, names, diags, script, &count);
    front_print_ast(script, &out);
    au_diags_render(diags, &out);
    if (!diags->errors)
        for (uint32_t i = 0; i < count; i++) check_attention(arena, names, diags, attns[i]);
    au_arena_free(arena);
    return 0;
}
