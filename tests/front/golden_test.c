/* golden_test.c - syntax trees and attention IR of some scripts, as text.
 *     golden_test SCRIPTS GOLDEN [--update] */
#include "harness.h"

#include <stdio.h>
#include <string.h>

static const char *const scripts[] = {
    "mha", "mla_train", "documents_bias_sink", "gated_delta_net", "dropout",
    "gla", "mamba2",    "retention_linear",    "simple_gla"};

int main(int count, char **arguments)
{
    const bool update = count > 3 && strcmp(arguments[3], "--update") == 0;
    uint32_t failures = 0;
    if (count < 3) return 2;
    for (uint32_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        AuArena *arena = au_arena_new(NULL);
        size_t length = 0;
        char *text =
            read_bytes(arena, au_format(arena, "%s/%s.attn", arguments[1], scripts[i]), &length);
        Compiled c = compile_text(scripts[i], text ? text : "", length);
        failures += !matches_file(
            arena, au_format(arena, "%s/ast/%s.txt", arguments[2], scripts[i]), ast_of(&c), update);
        failures += !matches_file(
            arena, au_format(arena, "%s/attention-ir/%s.txt", arguments[2], scripts[i]), ir_of(&c),
            update);
        au_arena_free(c.arena);
        au_arena_free(arena);
    }
    printf("%u failures\n", failures);
    return failures != 0;
}
