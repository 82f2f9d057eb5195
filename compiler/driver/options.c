/* options.c - the lists of aulec_options against what exists; what is wrong is reported with what
 * there is. */
#include "options.h"

#include "aule/artifact.h"

#include <stdlib.h>
#include <string.h>

bool options_wrong(AuChoice *c, const char *what, const char *found, const char *expected)
{
    au_error(c->diags, AU_E0601, (AuSpan){0}, "unknown %s '%s'; expected %s", what, found,
             expected);
    return false;
}

typedef struct Items {
    const char *at[OPTIONS_MOST];
    uint32_t count;
} Items;

/* Items of a list. None is empty: a comma too many may stand for a name that a script left out. Each stands there once: two variants of one name cannot be linked, and a second
 * one is hardly meant. */
static bool split(AuChoice *c, const char *what, const char *list, char separator, Items *items)
{
    items->count = 0;
    for (const char *at = *list ? list : NULL, *end; at; at = end ? end + 1 : NULL) {
        end = strchr(at, separator);
        const size_t length = end ? (size_t)(end - at) : strlen(at);
        const char *item = au_strndup(c->arena, at, length);
        if (!length) {
            au_error(c->diags, AU_E0601, (AuSpan){0}, "an item is empty in the list of %s: '%s'",
                     what, list);
            return false;
        }
        if (items->count == OPTIONS_MOST) {
            au_error(c->diags, AU_E0601, (AuSpan){0}, "more than %d items in the list of %s",
                     OPTIONS_MOST, what);
            return false;
        }
        for (uint32_t n = 0; n < items->count; n++) {
            if (strcmp(items->at[n], item) != 0) continue;
            au_error(c->diags, AU_E0601, (AuSpan){0}, "'%s' stands twice in the list of %s", item,
                     what);
            return false;
        }
        items->at[items->count++] = item;
    }
    return true;
}

static bool names_arch(const Items *archs, const AuTarget *target)
{
    for (uint32_t n = 0; n < archs->count; n++)
        for (uint32_t a = 0; a < target->arch_count; a++)
            if (strcmp(target->archs[a].name, archs->at[n]) == 0) return true;
    return false;
}

/* All, but host code where C is asked for, which it is not, and what is only made on request: by name,
 * or by that of an architecture. */
static bool choose_all(AuChoice *c, uint32_t emit, const char *archs)
{
    uint32_t count;
    Items named = {.count = 0};
    const AuTarget *const *all = au_targets(&count);
    if (archs && !split(c, "architectures", archs, ',', &named)) return false;
    for (uint32_t n = 0; n < count; n++) {
        if (emit == AULEC_EMIT_C && all[n]->format == AULE_CODE_HOST) continue;
        if (!all[n]->on_request || names_arch(&named, all[n]))
            c->targets[c->target_count++] = all[n];
    }
    return true;
}

static bool wants_modules(uint32_t emit)
{
    return emit == AULEC_EMIT_SPIRV || emit == AULEC_EMIT_SPIRV_TEXT;
}

/* The generators of a target; where a stage is asked for that one of them has, that one. */
static void add_generators(AuChoice *c, const char *name, uint32_t emit)
{
    uint32_t count;
    const AuTarget *const *all = au_targets(&count), *only = NULL;
    for (uint32_t n = 0; n < count; n++)
        if (strcmp(all[n]->name, name) == 0 &&
            ((wants_modules(emit) && all[n]->format == AULE_CODE_SPIRV) ||
             (emit == AULEC_EMIT_OPENCL_C && all[n]->format == AULE_CODE_OPENCL_C)))
            only = all[n];
    for (uint32_t n = 0; n < count; n++)
        if (only ? all[n] == only : strcmp(all[n]->name, name) == 0)
            c->targets[c->target_count++] = all[n];
}

static bool choose_targets(AuChoice *c, const char *list, uint32_t emit, const char *archs)
{
    Items names;
    uint32_t all_count;
    const AuTarget *const *all = au_targets(&all_count);
    AuText known = {.arena = c->arena};
    for (uint32_t n = 0; n < all_count; n++)
        if (au_target(all[n]->name) == all[n])
            au_text_add(&known, "%s%s", n ? ", " : "", all[n]->name);
    if (!list) return choose_all(c, emit, archs);
    if (!split(c, "targets", list, ',', &names)) return false;
    for (uint32_t n = 0; n < names.count; n++) {
        if (au_target_needs_llvm(names.at[n])) {
            au_error(c->diags, AU_E0601, (AuSpan){0},
                     "target '%s' needs LLVM, without which this aulec was built; it has %s",
                     names.at[n], au_text_str(&known));
            return false;
        }
        if (!au_target(names.at[n]))
            return options_wrong(c, "target", names.at[n], au_text_str(&known));
        add_generators(c, names.at[n], emit);
    }
    return names.count > 0 || options_wrong(c, "target", list, au_text_str(&known));
}

/* Names of architectures: of the targets that were named, else of all that there are. */
static const char *known_archs(AuChoice *c, bool named)
{
    uint32_t count;
    AuText known = {.arena = c->arena};
    const AuTarget *const *all = au_targets(&count);
    if (named) all = c->targets, count = c->target_count;
    for (uint32_t t = 0; t < count; t++)
        for (uint32_t a = 0; a < all[t]->arch_count; a++)
            au_text_add(&known, "%s%s", known.length ? ", " : "", all[t]->archs[a].name);
    return au_text_str(&known);
}

/* A target that was named is made for its default architectures where none of its own was; generators of one target are one here. */
static void choose_defaults(AuChoice *c, const Items *archs)
{
    for (uint32_t t = 0; t < c->target_count; t++) {
        c->defaults[t] = true;
        for (uint32_t n = 0; n < c->target_count; n++)
            if (strcmp(c->targets[n]->name, c->targets[t]->name) == 0)
                c->defaults[t] &= !names_arch(archs, c->targets[n]);
    }
}

static bool choose_archs(AuChoice *c, const char *list, bool named_targets)
{
    Items names = {.count = 0};
    if (list && !split(c, "architectures", list, ',', &names)) return false;
    if (!list || named_targets) choose_defaults(c, &names);
    if (!list) return true;
    memcpy(c->archs, names.at, names.count * sizeof *names.at);
    c->arch_count = names.count;
    for (uint32_t n = 0; n < c->arch_count; n++) {
        bool found = false;
        for (uint32_t t = 0; t < c->target_count; t++)
            for (uint32_t a = 0; a < c->targets[t]->arch_count; a++)
                found |= strcmp(c->targets[t]->archs[a].name, c->archs[n]) == 0;
        if (!found)
            return options_wrong(c, "architecture", c->archs[n], known_archs(c, named_targets));
    }
    return c->arch_count > 0 ||
           options_wrong(c, "architecture", list, known_archs(c, named_targets));
}

static bool choose_dtypes(AuChoice *c, const char *list)
{
    static const AuTileElem elems[] = {TILE_F32, TILE_F16, TILE_BF16};
    Items names;
    if (!split(c, "operand types", list ? list : "f32,f16,bf16", ',', &names)) return false;
    for (uint32_t n = 0; n < names.count; n++) {
        uint32_t e = 0;
        while (e < 3 && strcmp(tile_elem(elems[e])->name, names.at[n]) != 0) e++;
        if (e == 3) return options_wrong(c, "operand type", names.at[n], "f32, f16 or bf16");
        c->dtypes[c->dtype_count++] = elems[e];
    }
    return names.count > 0 || options_wrong(c, "operand type", list, "f32, f16 or bf16");
}

/* "D=64,128" */
static bool choose_width(AuChoice *c, const char *axis)
{
    Items numbers;
    const char *equal = strchr(axis, '=');
    if (!equal) return options_wrong(c, "width", axis, "NAME=NUMBER,...");
    const char *name = au_strndup(c->arena, axis, (size_t)(equal - axis));
    if (options_widths(c, name)) {
        au_error(c->diags, AU_E0601, (AuSpan){0},
                 "widths of '%s' are given twice; %s=64,128 has several", name, name);
        return false;
    }
    AuWidths *w = &c->widths[c->width_count++];
    w->name = name;
    if (!split(c, au_format(c->arena, "widths of '%s'", name), equal + 1, ',', &numbers))
        return false;
    if (!numbers.count) return options_wrong(c, "width", axis, "NAME=NUMBER,...");
    for (w->count = 0; w->count < numbers.count; w->count++) {
        const char *digits = numbers.at[w->count];
        const size_t length = strlen(digits);
        const long value = strtol(digits, NULL, 10);
        if (strspn(digits, "0123456789") != length || *digits == '0' || value < 1 || value > 1024)
            return options_wrong(c, "width", axis, "numbers from 1 to 1024");
        w->values[w->count] = (int32_t)value;
    }
    return true;
}

/* "D=64,128;E=64" */
static bool choose_widths(AuChoice *c, const char *list)
{
    Items axes;
    if (!list) return true;
    if (!split(c, "widths", list, ';', &axes)) return false;
    for (uint32_t n = 0; n < axes.count; n++)
        if (!choose_width(c, axes.at[n])) return false;
    return true;
}

bool options_has_tf32(const AuArch *arch)
{
    return tile_rounding_atom(tile_caps(arch->caps), TILE_ON_WARP) != NULL;
}

/* A target without the unit, or an architecture that was named, is refused; of those that a target
 * compiles by default the ones that have it are taken. */
static bool can_tf32(AuChoice *c, uint32_t t)
{
    const AuTarget *target = c->targets[t];
    const bool named = !c->defaults[t];
    bool some = false;
    for (uint32_t n = 0; n < target->arch_count; n++) {
        const AuArch *arch = &target->archs[n];
        if (!options_takes_arch(c, t, arch)) continue;
        some |= options_has_tf32(arch);
        if (!named || options_has_tf32(arch)) continue;
        au_error(c->diags, AU_E0601, (AuSpan){0},
                 "%s %s has no matrix unit for tf32; cuda has, from sm_80 on", target->name,
                 arch->name);
        return false;
    }
    if (!some && !named)
        au_error(c->diags, AU_E0601, (AuSpan){0},
                 "target %s has no matrix unit for tf32; cuda has, from sm_80 on", target->name);
    return some || named;
}

static bool choose_f32(AuChoice *c, const char *how)
{
    if (how && strcmp(how, "exact") != 0 && strcmp(how, "tf32") != 0)
        return options_wrong(c, "way to multiply f32", how, "exact or tf32");
    c->tf32 = how && strcmp(how, "tf32") == 0;
    bool has_f32 = false;
    for (uint32_t n = 0; n < c->dtype_count; n++) has_f32 |= c->dtypes[n] == TILE_F32;
    for (uint32_t n = 0; n < c->target_count && c->tf32 && has_f32; n++)
        if (!can_tf32(c, n)) return false;
    return true;
}

/* All, or the one that has the stage. */
static const char *default_targets(uint32_t emit)
{
    if (emit == AULEC_EMIT_LLVM_IR || emit == AULEC_EMIT_ASM) return "cpu";
    if (emit == AULEC_EMIT_SPIRV || emit == AULEC_EMIT_SPIRV_TEXT) return "vulkan";
    if (emit == AULEC_EMIT_METAL) return "metal";
    return emit == AULEC_EMIT_OPENCL_C ? "opencl" : NULL;
}

/* Of the stage, or those whose architectures were named, between commas; a target may have several generators. */
static const char *targets_for(AuChoice *c, const aulec_options *o)
{
    const char *usual = default_targets(o->emit);
    uint32_t count;
    Items named = {.count = 0};
    const AuTarget *const *all = au_targets(&count);
    AuText text = {.arena = c->arena};
    if (!usual || !o->archs || !split(c, "architectures", o->archs, ',', &named)) return usual;
    for (uint32_t n = 0; n < count; n++)
        if (names_arch(&named, all[n]) && !strstr(au_text_str(&text), all[n]->name))
            au_text_add(&text, "%s%s", text.length ? "," : "", all[n]->name);
    return text.length ? au_text_str(&text) : usual;
}

static bool choose_invariant(AuChoice *c, const aulec_options *o)
{
    if (!o->invariant || !c->is_static) return true;
    au_error(c->diags, AU_E0601, (AuSpan){0},
             "--invariant is for artifacts: functions of static builds take no such calls");
    return false;
}

static bool takes_any_arch(const AuChoice *c, uint32_t t)
{
    for (uint32_t n = 0; n < c->targets[t]->arch_count; n++)
        if (options_takes_arch(c, t, &c->targets[t]->archs[n])) return true;
    return false;
}

/* Architectures of a target that take a type of operands, of those that were asked for or of all; between commas. */
static const char *archs_that_take(const AuChoice *c, uint32_t t, AuTileElem operand, bool asked)
{
    const AuTarget *target = c->targets[t];
    AuText text = {.arena = c->arena};
    for (uint32_t n = 0; n < target->arch_count; n++) {
        const AuArch *arch = &target->archs[n];
        if (options_takes_operand(arch, operand) && (!asked || options_takes_arch(c, t, arch)))
            au_text_add(&text, "%s%s", text.length ? ", " : "", arch->name);
    }
    return au_text_str(&text);
}

/* Some architectures are for some types alone: one that was asked for by its name is made for some target's, or refused. */
static bool choose_types_of_archs(AuChoice *c, const char *list)
{
    for (uint32_t t = 0; t < c->target_count && list; t++)
        for (uint32_t n = 0; n < c->dtype_count; n++) {
            if (!takes_any_arch(c, t) || *archs_that_take(c, t, c->dtypes[n], true)) continue;
            au_error(c->diags, AU_E0601, (AuSpan){0},
                     "no architecture of target %s that was asked for takes %s; there are %s",
                     c->targets[t]->name, tile_elem(c->dtypes[n])->name,
                     archs_that_take(c, t, c->dtypes[n], false));
            return false;
        }
    return true;
}

const AuTarget *options_without_layouts(AuChoice *c, const aulec_options *o)
{
    const AuTarget *first = NULL;
    const uint32_t count = c->target_count;
    c->target_count = 0;
    for (uint32_t t = 0; t < count; t++) {
        const AuTarget *target = c->targets[t];
        const bool asked = o->targets || (c->arch_count && takes_any_arch(c, t));
        if (!target->has_layouts && !first && asked) first = target;
        if (!target->has_layouts) continue;
        c->defaults[c->target_count] = c->defaults[t];
        c->targets[c->target_count++] = target;
    }
    return first;
}

static bool refuse_storage(AuChoice *c, const aulec_options *o, const char *why)
{
    au_error(c->diags, AU_E0601, (AuSpan){0}, "--storage %s: %s", o->storage, why);
    return false;
}

/* "k=e4m3,v=i8"; as with layouts. */
static bool choose_storage(AuChoice *c, const aulec_options *o)
{
    if (!o->storage) return true;
    const char *why = driver_read_storage(c->arena, o->storage, c->storage);
    if (why) return refuse_storage(c, o, why);
    const AuTarget *without = options_without_layouts(c, o);
    static const char lacks[] =
        "target %s has no kernels of stored types yet; cpu, opencl, levelzero and cuda have";
    if (without) return refuse_storage(c, o, au_format(c->arena, lacks, without->name));
    return true;
}

bool options_arch_names(AuChoice *c, const aulec_options *o, AuText *out)
{
    if (!choose_targets(c, o->targets, 0, NULL)) return false;
    au_text_add(out, "%s\n", known_archs(c, o->targets != NULL));
    return true;
}

bool options_choose(AuChoice *c, const aulec_options *o)
{
    const char *targets = o->targets ? o->targets : targets_for(c, o);
    c->modules = wants_modules(o->emit);
    c->is_static = o->emit >= AULEC_EMIT_HEADER && o->emit <= AULEC_EMIT_ARCHIVE;
    return choose_targets(c, targets, o->emit, o->archs) &&
           choose_archs(c, o->archs, targets != NULL) && choose_dtypes(c, o->dtypes) &&
           choose_types_of_archs(c, o->dtypes) && choose_widths(c, o->widths) &&
           choose_f32(c, o->f32) && choose_invariant(c, o) && layouts_choose(c, o) &&
           choose_storage(c, o);
}

bool options_takes_arch(const AuChoice *c, uint32_t t, const AuArch *arch)
{
    /* Static builds know a processor's features, not its maker. */
    if (c->defaults[t]) return (arch->by_default || c->modules) && !(c->is_static && *arch->wish);
    for (uint32_t n = 0; n < c->arch_count; n++)
        if (strcmp(c->archs[n], arch->name) == 0) return true;
    return false;
}

const AuWidths *options_widths(const AuChoice *c, const char *name)
{
    for (uint32_t n = 0; n < c->width_count; n++)
        if (strcmp(c->widths[n].name, name) == 0) return &c->widths[n];
    return NULL;
}

bool options_takes_operand(const AuArch *arch, AuTileElem operand)
{
    return operand == TILE_F32 || (operand == TILE_F16 && arch->f16) ||
           (operand == TILE_BF16 && arch->bf16);
}

/* Whether the words of [list] have all those of [wanted]. */
static bool has_words(const char *list, const char *wanted)
{
    for (size_t length; *wanted; wanted += length + (wanted[length] == ' ')) {
        length = strcspn(wanted, " ");
        const char *at = list;
        while (*at && !(strcspn(at, " ") == length && memcmp(at, wanted, length) == 0)) {
            at += strcspn(at, " ");
            at += *at == ' ';
        }
        if (length && !*at) return false;
    }
    return true;
}

const char *aulec_best_arch(const char *target, const char *features, const char *dtype)
{
    static const AuTileElem elems[] = {TILE_F32, TILE_F16, TILE_BF16};
    const AuTarget *t = target ? au_target(target) : NULL;
    const bool tf32 = dtype && strcmp(dtype, "tf32") == 0;
    for (uint32_t n = t ? t->arch_count : 0; n-- > 0;) { /* from plain to special: the best first */
        const AuArch *arch = &t->archs[n];
        if (tf32 && !options_has_tf32(arch)) continue;
        if (!arch->by_default || !has_words(features ? features : "", arch->features) ||
            !has_words(features ? features : "", arch->wish))
            continue;
        for (uint32_t e = 0; dtype && e < 3; e++)
            if (strcmp(tile_elem(elems[e])->name, tf32 ? "f32" : dtype) == 0 &&
                options_takes_operand(arch, elems[e]))
                return arch->name;
    }
    return NULL;
}
