/* tile_fuzz.c - any bytes as the text form of the tiled IR: no crash, no hang. What reads prints and
 * reads back equal, and so does what its expansion gives; the verifier answers. */
#include "driver.h"
#include "tile.h"

#include <stdlib.h>
#include <string.h>

static const char *print(AuArena *arena, const AuTileModule *module)
{
    AuText text = {.arena = arena};
    tile_print(module, &text);
    return au_text_str(&text);
}

static void check_text(AuArena *arena, AuDiags *diags, const AuTileModule *module)
{
    const char *first = print(arena, module);
    const AuTileModule *again =
        tile_read(arena, diags, au_source_add(diags, "tile", first, strlen(first)));
    if (!again || strcmp(first, print(arena, again)) != 0) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AuArena *arena = au_arena_new(NULL);
    AuDiags *diags = au_diags_new(arena);
    AuText out = {.arena = arena};
    const AuTileModule *module =
        tile_read(arena, diags, au_source_add(diags, "fuzz", (const char *)data, size));
    if ((module != NULL) != (diags->errors == 0)) abort();
    if (module) {
        check_text(arena, diags, module);
        AuTileModule *expanded = tile_expand(arena, diags, module, NULL);
        if ((expanded != NULL) != (diags->errors == 0)) abort();
        if (expanded) {
            check_text(arena, diags, expanded);
            if (tile_verify(diags, expanded, TILE_ALL_RULES) != (diags->errors == 0)) abort();
        }
    }
    au_diags_render(diags, &out);
    au_arena_free(arena);
    return 0;
}
