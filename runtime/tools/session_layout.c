/* session_layout.c - which attention of an artifact is meant, where it has several: by name, by the layout of rows, or because there is no other. */
#include <stdio.h>
#include <string.h>

#include "session.h"

/* Is any attention of the artifact one of several layouts? */
static bool has_layouts(const aule_module *module)
{
    const size_t count = aule_module_count(module);
    for (size_t n = 0; n < count; n++)
        if (strchr(aule_attention_descriptor(aule_module_attention(module, n))->name, '@'))
            return true;
    return false;
}

static const char *name_of(const AuSession *s, size_t number)
{
    return aule_attention_descriptor(aule_module_attention(s->module, number))->name;
}

static int find_named(AuSession *s, const char *name)
{
    aule_error *error = NULL;
    return aule_module_find(s->module, name, &s->attention, &error) ? command_error(error) : 0;
}

/* The attention whose rows lie in [layout], "T=paged"; of several the first one's name says whose, unless --attention does. */
static int find_layout(AuSession *s, const char *attention, const char *layout)
{
    char name[512];
    const char *first = name_of(s, 0);
    const int base = attention ? (int)strlen(attention) : (int)strcspn(first, "@");
    const bool dense = !*layout || strcmp(layout, "dense") == 0;
    const int length = snprintf(name, sizeof name, "%.*s%s%s", base, attention ? attention : first,
                                dense ? "" : "@", dense ? "" : layout);
    if (length < 0 || (size_t)length >= sizeof name)
        return command_fail(EXIT_USAGE, "--layout is too long");
    if (!dense && !has_layouts(s->module))
        return command_fail(EXIT_USAGE,
                            "the artifact has no attention for each of several layouts: "
                            "aulec --serve, or --layout with semicolons, makes such");
    return find_named(s, name);
}

/* Has the artifact an attention of this name, or one of none if it is NULL, whose rows lie densely? */
static bool is_plain(const AuSession *s, const char *attention)
{
    const size_t count = aule_module_count(s->module);
    for (size_t n = 0; n < count; n++) {
        const char *name = name_of(s, n);
        if (attention ? strcmp(name, attention) == 0 : !strchr(name, '@')) return true;
    }
    return false;
}

/* Where no rows of an attention are dense: the only layout there is; of several, a word which ones. */
static int take_layout(AuSession *s, const char *attention)
{
    const size_t count = aule_module_count(s->module);
    const char *base = attention ? attention : name_of(s, 0);
    const size_t length = attention ? strlen(attention) : strcspn(base, "@");
    char layouts[512] = "";
    size_t used = 0, found = 0;
    for (size_t n = 0; n < count; n++) {
        const char *name = name_of(s, n), *layout = name + length;
        const bool is_own = strncmp(name, base, length) == 0 && *layout == '@';
        if (!is_own && !attention) return find_named(s, NULL); /* it says which there are */
        if (!is_own) continue;
        s->attention = aule_module_attention(s->module, n);
        if (used < sizeof layouts)
            used += (size_t)snprintf(layouts + used, sizeof layouts - used, "%s%s",
                                     found ? "; " : "", layout + 1);
        found++;
    }
    if (found == 1) return 0;
    if (!found) return find_named(s, attention);
    return command_fail(
        EXIT_USAGE, "the artifact has no dense layout: --layout says which it is of %s", layouts);
}

int session_find(AuSession *s, const char *attention, const char *layout)
{
    if (layout) return find_layout(s, attention, layout);
    return has_layouts(s->module) && !is_plain(s, attention) ? take_layout(s, attention)
                                                             : find_named(s, attention);
}
