/* docs_test.c - the scripts in docs/language.md compile as the page says.
 *     ```attn               a whole script, without errors
 *     ```attn items         items of an attention, without errors and warnings
 *     ```attn gives E0123   a whole script with that error, warning or note (W0401, N0301)
 *     ```attn items gives E0123 */
#include "harness.h"

#include <stdio.h>
#include <string.h>

static bool compile_block(AuArena *arena, const char *label, const char *text, uint32_t line)
{
    const bool items = strncmp(label, "attn items", 10) == 0;
    const char *end = strchr(label, '\n'), *gives = strstr(label, " gives ");
    const char *code = gives && gives < end ? gives + 7 : NULL;
    const char *script = items ? au_format(arena,
                                           "attention page { q: [B, H, S, D]; k: [B, H, T, D]; v: "
                                           "[B, H, T, E];\n%s\nonline softmax; }",
                                           text)
                               : text;
    Compiled c = compile_text("language.md", script, strlen(script));
    bool ok = !code && !c.diags->errors && !c.diags->warnings;
    for (const AuDiag *d = c.diags->first; d && code; d = d->next)
        ok |= strncmp(au_code_name(d->code), code, 5) == 0;
    for (uint32_t i = 0; i < c.count && !c.diags->errors; i++)
        ok &= attn_verify(c.attns[i], c.diags);
    if (!ok)
        fprintf(stderr, "language.md:%u: this block does not do what its label says\n%s", line,
                diagnostics_of(&c));
    au_arena_free(c.arena);
    return ok;
}

int main(int count, char **arguments)
{
    AuArena *arena = au_arena_new(NULL);
    size_t length = 0;
    char *page = count > 1 ? read_bytes(arena, arguments[1], &length) : NULL;
    uint32_t line = 1, blocks = 0, failures = 0;
    for (char *at = page; at && *at;) {
        char *end = strchr(at, '\n'), *close = end ? strstr(end, "\n```") : NULL;
        if (strncmp(at, "```attn", 7) == 0 && close) {
            *close = 0;
            blocks++;
            failures += !compile_block(arena, at + 3, end + 1, line);
            *close = '\n';
            for (; at < close; at++) line += *at == '\n';
            end = strchr(close + 1, '\n');
        }
        line++;
        at = end ? end + 1 : NULL;
    }
    printf("%u blocks, %u failures\n", blocks, failures);
    au_arena_free(arena);
    return failures || blocks < 10;
}
