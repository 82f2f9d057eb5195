/* helpers.c - which helper functions a text needs, and their vector forms.
 * Found by looking for calls in the text: names of helpers are kept from variables, so that a call is what it looks like; one that
 * stands in a comment costs an unused function. */
#include "internal.h"

#include <string.h>

/* `result name(type a, type b)`; [width] 1: as the table says. */
static void print_head(const AuCHelper *h, uint32_t width, AuText *out)
{
    if (width > 1)
        au_text_add(out, "\n%s%u %s_%u(", h->result, width, h->name, width);
    else
        au_text_add(out, "\n%s %s(", h->result, h->name);
    for (uint32_t n = 0; n < 3 && h->parameters[n]; n++) {
        const char *type = h->parameters[n];
        au_text_add(out, "%s%s", n ? ", " : "", type);
        if (width > 1) au_text_add(out, "%u", width);
        au_text_add(out, type[strlen(type) - 1] == '*' ? "%c" : " %c", 'a' + (int)n);
    }
    au_text_add(out, ")\n");
}

/* The vector form: element by element. */
static void print_lifted(const AuCDialect *d, const AuCHelper *h, uint32_t width, AuText *out)
{
    AuText elements = {.arena = out->arena};
    for (uint32_t e = 0; e < width; e++) {
        au_text_add(&elements, "%s%s(", e ? ", " : "", h->name);
        for (uint32_t n = 0; n < 3 && h->parameters[n]; n++) {
            const char parameter[] = {(char)('a' + n), 0};
            au_text_add(&elements, "%s", n ? ", " : "");
            au_text_add(&elements, d->element, parameter, e);
        }
        au_text_add(&elements, ")");
    }
    const char *type = au_format(out->arena, "%s%u", h->result, width);
    print_head(h, width, out);
    au_text_add(out, "{\n    return ");
    au_text_add(out, d->vector, type, au_text_str(&elements));
    au_text_add(out, ";\n}\n");
}

static bool calls(const char *text, AuArena *arena, const char *name, uint32_t width)
{
    const char *call =
        width > 1 ? au_format(arena, "%s_%u(", name, width) : au_format(arena, "%s(", name);
    return strstr(text, call);
}

/* The helpers that the text calls, or that such helpers call; from the last to the first, since they may call earlier ones. */
const char *cprint_helpers(AuArena *arena, const AuCDialect *d, const char *text)
{
    const char *all = "";
    for (uint32_t n = d->helper_count; n-- > 0;) {
        const AuCHelper *h = &d->helpers[n];
        AuText lifted = {.arena = arena}, own = {.arena = arena};
        for (uint32_t width = 2; width <= 16; width *= 2)
            if (calls(text, arena, h->name, width) || calls(all, arena, h->name, width))
                print_lifted(d, h, width, &lifted);
        if (lifted.length || calls(text, arena, h->name, 1) || calls(all, arena, h->name, 1))
            print_head(h, 1, &own), au_text_add(&own, "%s", h->body);
        all = au_format(arena, "%s%s%s", au_text_str(&own), au_text_str(&lifted), all);
    }
    return all;
}
