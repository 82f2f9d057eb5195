/* template.c - see template.h. */
#include "template.h"

/* One hole with its argument. */
static bool fill_hole(char hole, const AuTileArg *arg, AuText *out)
{
    switch (arg->kind) {
    case TILE_ARG_HANDLE:
        if (hole != 'v' || !arg->text) return false;
        au_text_add(out, "%s", arg->text);
        return true;
    case TILE_ARG_TEXT:
        if (hole != 's' || !arg->text) return false;
        au_text_add(out, "%s", arg->text);
        return true;
    case TILE_ARG_NUMBER:
        if (hole == 'c')
            au_text_add(out, "%c", (char)arg->number);
        else if (hole == 'd' || hole == 'u')
            au_text_add(out, "%lld", (long long)arg->number);
        else
            return false;
        return true;
    }
    return false;
}

const char *tile_fill(AuArena *arena, AuTileTemplate template)
{
    AuText out = {.arena = arena};
    uint32_t used = 1;
    const char *c = template.at[0].text;
    if (template.at[0].kind != TILE_ARG_TEXT || !c) return NULL;
    while (*c) {
        const char *from = c;
        while (*c && *c != '%') c++;
        au_text_bytes(&out, from, (size_t)(c - from));
        if (!*c) break;
        const char hole = *++c;
        if (!hole) return NULL;
        c++;
        if (hole == '%')
            au_text_bytes(&out, "%", 1);
        else if (used == template.count || !fill_hole(hole, &template.at[used++], &out))
            return NULL;
    }
    return used == template.count ? au_text_str(&out) : NULL;
}
