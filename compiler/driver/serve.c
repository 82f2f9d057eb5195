/* serve.c - the layouts that an artifact has attentions of: those of --layout, and those that calls of a server have (--serve). */
#include "append.h"
#include "options.h"

#include <string.h>

/* ---- reading */

static const char *const layout_names[] = {"dense", "padded", "paged",
                                           "packed"}; /* ORDER AuLayout */

static bool refuse_layout(AuChoice *c, const char *axis, const char *why)
{
    au_error(c->diags, AU_E0601, (AuSpan){0}, "--layout %s: %s", axis, why);
    return false;
}

static bool is_word(const char *text, size_t length, const char *word)
{
    return strlen(word) == length && strncmp(text, word, length) == 0;
}

static const char *wrong_beside(const AuAxisLayout *of)
{
    if (of->rows && of->layout == AU_LAYOUT_PACKED)
        return "packed rows are where starts say, they have no `rows`";
    if (of->most && of->layout != AU_LAYOUT_PACKED)
        return "`most` is how many packed rows a sequence has, of others shapes say it";
    if (of->csr && of->layout != AU_LAYOUT_PAGED) return "`csr` is a table of pages";
    if (of->groups && of->layout != AU_LAYOUT_PAGED) return "`groups` share pages";
    if (of->groups && of->positions)
        return "what `groups` share are keys from position 0 on, `positions` are not carried yet";
    return NULL;
}

enum { WORDS = 6 };
static const char *const words[WORDS] = {"rows", "csr", "positions", "groups", "most", "modified"};

/* What a word behind a layout sets; in the order of [words]. */
static bool *flag_of(AuAxisLayout *of, uint32_t word)
{
    bool *const flags[WORDS] = {&of->rows,   &of->csr,  &of->positions,
                                &of->groups, &of->most, &of->modified};
    return flags[word];
}

/* NULL: it is none. */
static bool *beside(AuAxisLayout *of, const char *word, size_t length)
{
    for (uint32_t n = 0; n < WORDS; n++)
        if (is_word(word, length, words[n])) return flag_of(of, n);
    return NULL;
}

/* ":rows:modified", behind a layout: what a call gives beside, what a cache holds. */
static bool choose_beside(AuChoice *c, const char *text, AuAxisLayout *of)
{
    while (*text) {
        const char *word = ++text;
        const size_t length = strcspn(word, ":");
        const char *name = au_strndup(c->arena, word, length);
        bool *set = beside(of, word, length);
        text += length;
        if (!set)
            return options_wrong(c, "word behind a layout", name,
                                 "rows, csr, positions, groups, most or modified");
        if (*set)
            return refuse_layout(c, of->axis, au_format(c->arena, "`%s` is there twice", name));
        *set = true;
    }
    if (wrong_beside(of)) return refuse_layout(c, of->axis, wrong_beside(of));
    if ((of->rows || of->positions) && of->layout == AU_LAYOUT_DENSE)
        of->layout = AU_LAYOUT_PADDED, of->has_no_lengths = true;
    return true;
}

/* "T=paged", of one axis. */
static bool choose_axis(AuChoice *c, const char *text, AuLayouts *to)
{
    const char *equal = strchr(text, '=');
    if (!equal || equal == text) return options_wrong(c, "layout", text, "AXIS=LAYOUT");
    const size_t length = strcspn(equal + 1, ":");
    uint32_t n = 0;
    while (n < 4 && !is_word(equal + 1, length, layout_names[n])) n++;
    if (n == 4)
        return options_wrong(c, "layout", au_strndup(c->arena, equal + 1, length),
                             "dense, padded, paged or packed");
    const char *axis = au_strndup(c->arena, text, (size_t)(equal - text));
    for (uint32_t k = 0; k < to->count; k++)
        if (strcmp(to->of[k].axis, axis) == 0)
            return refuse_layout(c, text, "the axis has a layout already");
    AuAxisLayout of = {.layout = (AuLayout)n, .axis = axis};
    if (!choose_beside(c, equal + 1 + length, &of)) return false;
    if (to->count == 2) return refuse_layout(c, text, "queries and keys have two axes");
    to->of[to->count++] = of;
    return true;
}

/* "S=packed,T=packed". */
static bool choose_one(AuChoice *c, const char *text)
{
    if (c->layout_count == LAYOUTS_MOST)
        return refuse_layout(c, text,
                             au_format(c->arena, "there are more than %d", (int)LAYOUTS_MOST));
    AuLayouts *to = &c->layouts[c->layout_count++];
    for (const char *at = text; at; at = *at ? at + 1 : NULL) {
        const size_t length = strcspn(at, ",");
        if (!choose_axis(c, au_strndup(c->arena, at, length), to)) return false;
        at += length;
    }
    return true;
}

static bool is_dense(const AuLayouts *layouts)
{
    for (uint32_t n = 0; n < layouts->count; n++)
        if (layouts->of[n].layout || layouts->of[n].modified) return false;
    return true;
}

static bool refuse_option(AuChoice *c, const aulec_options *o, const char *why)
{
    if (!o->serve) return refuse_layout(c, o->layout, why);
    au_error(c->diags, AU_E0601, (AuSpan){0}, "--serve: %s", why);
    return false;
}

/* What goes with layouts is forward of artifacts for processors, OpenCL, Level Zero and CUDA. */
static bool are_carried(AuChoice *c, const aulec_options *o)
{
    const AuTarget *without = options_without_layouts(c, o);
    if (without)
        return refuse_option(
            c, o,
            au_format(
                c->arena,
                "target %s has no kernels of layouts yet; cpu, opencl, levelzero and cuda have",
                without->name));
    return true;
}

bool layouts_choose(AuChoice *c, const aulec_options *o)
{
    bool all_dense = true;
    for (const char *at = o->layout; at; at = *at ? at + 1 : NULL) {
        const size_t length = strcspn(at, ";");
        if (!choose_one(c, au_strndup(c->arena, at, length))) return false;
        all_dense &= is_dense(&c->layouts[c->layout_count - 1]);
        at += length;
    }
    c->several = o->serve || c->layout_count > 1;
    if (c->several && c->is_static)
        return refuse_option(c, o,
                             "an object has one layout, since its functions are called as the "
                             "attention is: compile each by itself");
    return (all_dense && !o->serve) || are_carried(c, o);
}

/* ---- of one attention */

static const char *axis_of(const AuAttn *a, uint32_t tensor)
{
    const AuNode *n = attn_at(a, a->tensors[tensor].axes[2]);
    return n->op == AU_OP_SIZE ? a->sizes[n->integer].name : NULL;
}

const char *layouts_name(AuArena *arena, const AuAttn *attn, const AuLayouts *layouts)
{
    AuText text = {.arena = arena};
    const char *queries = axis_of(attn, 0);
    const bool swapped = layouts->count == 2 && queries && !strcmp(layouts->of[1].axis, queries);
    au_text_add(&text, "%s", attn->name);
    for (uint32_t n = 0, count = 0; n < layouts->count; n++) {
        AuAxisLayout of = layouts->of[swapped ? 1 - n : n];
        if (!of.layout && !of.modified) continue;
        au_text_add(&text, "%s%s=%s", count++ ? "," : "@", of.axis,
                    layout_names[of.has_no_lengths ? AU_LAYOUT_DENSE : of.layout]);
        for (uint32_t w = 0; w < WORDS; w++)
            if (*flag_of(&of, w)) au_text_add(&text, ":%s", words[w]);
    }
    return au_text_str(&text);
}

/* Prompts by themselves, caches with as much room for each or in pages, rows of several sequences over pages and over keys that are as
 * packed; what has no server is a script of one axis, or without weights. */
static uint32_t of_server(AuChoice *c, const AuAttn *a, AuLayouts *list)
{
    const char *s = axis_of(a, 0), *t = axis_of(a, 1);
    const char *why = a->linear  ? "it is a recurrence, whose state is its cache: its artifacts "
                                   "serve as they are, by `step`"
                      : !s || !t ? "the length of q or of k is a number"
                      : strcmp(s, t) == 0
                          ? "q and k have one axis, and keys of a cache have one of their own"
                          : NULL;
    if (why) {
        au_error(c->diags, AU_E0811, a->span, "--serve: '%s': %s", a->name, why);
        return 0;
    }
    const AuAxisLayout rows = {.layout = AU_LAYOUT_PACKED, .axis = s, .most = true},
                       padded = {.layout = AU_LAYOUT_PADDED, .axis = t},
                       paged = {.layout = AU_LAYOUT_PAGED, .axis = t},
                       keys = {.layout = AU_LAYOUT_PACKED, .axis = t, .most = true};
    list[0] = (AuLayouts){.count = 0};
    list[1] = (AuLayouts){{padded}, 1};
    list[2] = (AuLayouts){{paged}, 1};
    list[3] = (AuLayouts){{rows, paged}, 2};
    list[4] = (AuLayouts){{rows, keys}, 2};
    return 5;
}

/* None stands there twice: names of an artifact's attentions differ. */
static bool differ(AuChoice *c, const AuAttn *a, const AuLayouts *list, uint32_t count)
{
    for (uint32_t n = 1; n < count; n++)
        for (uint32_t k = 0; k < n; k++) {
            const char *name = layouts_name(c->arena, a, &list[n]);
            if (strcmp(name, layouts_name(c->arena, a, &list[k])) != 0) continue;
            const char *at = strchr(name, '@');
            return refuse_layout(c, at ? at + 1 : "dense",
                                 "it is asked for twice, by --serve or in the list");
        }
    return true;
}

uint32_t layouts_of(AuChoice *c, const aulec_options *o, const AuAttn *a, AuLayouts *list)
{
    uint32_t count = o->serve ? of_server(c, a, list) : 0;
    if (o->serve && !count) return 0;
    if (!o->serve && !c->layout_count) list[count++] = (AuLayouts){.count = 0};
    for (uint32_t n = 0; n < c->layout_count; n++) {
        if (count == LAYOUTS_MOST) {
            refuse_layout(c, o->layout,
                          "with those of --serve there are more than an artifact has");
            return 0;
        }
        list[count++] = c->layouts[n];
    }
    return differ(c, a, list, count) ? count : 0;
}
