/* builds.c - which kernels a compilation makes: for every set of widths a copy of each attention, for every target, architecture and
 * operand type a variant of it (variant.c). */
#include "append.h"
#include "compile.h"
#include "layouts.h"
#include "stages.h"
#include "work.h"

#include <string.h>

/* ---- widths: sizes that must be known when compiling */

enum { MOST_SETS = 64 };

typedef struct WidthSet {
    int32_t of[AULE_MAX_SIZES]; /* by size; -1: not fixed */
} WidthSet;

static int32_t up(int32_t width, int32_t unit) { return (width + unit - 1) / unit * unit; }

/* Every combination of the widths given; a width that is not given is that of the first axis, q's, or as many channels more as are stored
 * together. */
static uint32_t width_sets(AuJob *job, const AuAttn *a, WidthSet *sets)
{
    static const int32_t usual[] = {64, 128};
    bool is_width[AULE_MAX_SIZES] = {false};
    driver_find_widths(a, is_width);
    for (uint32_t n = 0; n < a->size_count; n++) sets[0].of[n] = -1;
    uint32_t count = 1, first = a->size_count;
    for (uint32_t n = 0; n < a->size_count; n++) {
        if (!is_width[n]) continue;
        const AuWidths *w = options_widths(&job->choice, a->sizes[n].name);
        const int32_t *values = w ? w->values : usual;
        const int32_t unit = w ? 1 : driver_width_unit(a, n);
        const bool both = first == a->size_count && up(usual[0], unit) < up(usual[1], unit);
        const uint32_t choices = w ? w->count : both ? 2 : 1;
        if (count * choices > MOST_SETS) {
            au_error(job->diags, AU_E0602, a->sizes[n].span, "more than %d combinations of widths",
                     MOST_SETS);
            return 0;
        }
        const uint32_t before = count;
        for (uint32_t c = 0; c < choices; c++)
            for (uint32_t s = 0; s < before; s++) {
                if (c) sets[c * before + s] = sets[s];
                sets[c * before + s].of[n] =
                    up(w || first == a->size_count ? values[c] : sets[s].of[first], unit);
            }
        count = before * choices;
        if (first == a->size_count) first = n;
    }
    return count;
}

bool builds_widths_exist(AuJob *job)
{
    for (uint32_t w = 0; w < job->choice.width_count; w++) {
        bool found = false;
        for (uint32_t a = 0; a < job->signature_count; a++)
            found |= attn_size_of(job->signatures[a], job->choice.widths[w].name) >= 0;
        if (!found) {
            job->options_are_wrong = true;
            au_error(job->diags, AU_E0601, (AuSpan){0}, "no axis of the script is called '%s'",
                     job->choice.widths[w].name);
            return false;
        }
    }
    return true;
}

/* ---- variants */

/* On CPUs backward multiplies f32 whatever the operands are, but for matrix units: so what else an architecture can
 * do makes no other code. */
static bool has_own_backward(const AuJob *job, uint32_t target, const AuArch *arch,
                             AuTileElem operand)
{
    const AuTileCaps *caps = tile_caps(arch->caps);
    const AuTileAtom *atom = tile_best_atom(caps, operand, TILE_ON_THREAD);
    const bool plain = caps->has_private && !(atom && atom->m > 1);
    return stages_is_useful(&job->choice, target, arch, plain ? TILE_F32 : operand);
}

static bool add_variant(AuJob *job, AuAttentionBuild *build, const AuVariant *v);

static bool add_form(AuJob *job, AuAttentionBuild *build, const AuVariant *v, AuFewForm form)
{
    AuVariant of = *v;
    of.form = form;
    const bool none = form == AU_FEW_NARROW && !attn_is_stored(v->attn);
    return v->form || v->balanced || none || v->queries != AU_DECODE_QUERIES ||
           v->operation != AU_FORWARD || add_variant(job, build, &of);
}

/* Of several sequences, before those of any number. */
static bool add_balanced(AuJob *job, AuAttentionBuild *build, const AuVariant *v)
{
    AuVariant several = *v;
    several.balanced = true;
    const bool packs = schedule_counts_groups(v->queries) || v->queries == AU_SOME_QUERIES;
    return !packs || v->balanced || v->invariant || add_variant(job, build, &several);
}

static bool add_variant(AuJob *job, AuAttentionBuild *build, const AuVariant *v)
{
    AuVariant one = *v;
    /* narrow ones before those of more rows, crowded ones before those that leave most of a processor idle */
    if (!add_form(job, build, v, AU_FEW_NARROW) || !add_form(job, build, v, AU_FEW_CROWDED) ||
        !add_balanced(job, build, v) || !add_form(job, build, v, AU_FEW_TALL) ||
        !emission_build(job, job->diags, &one, variant_build))
        return false;
    if (one.without_few) build->without_few = one.without_few;
    if (!one.schedule) return true;
    AuVariant *asked = AU_NEW(job->arena, AuVariant);
    *asked = *v;
    one.asked = asked;
    AU_PUSH(job->arena, build->variants, build->count, build->capacity, one);
    if (!one.schedule->by_batch || v->invariant || v->balanced || v->form ||
        !job->options->invariant)
        return true;
    AuVariant twin = *v; /* the same for calls that ask for it */
    twin.invariant = true;
    return add_variant(job, build, &twin);
}

/* Widths and operand types do not make two of a note. */
static bool is_said(const AuJob *job, const char *message)
{
    for (const AuDiag *d = job->diags->first; d; d = d->next)
        if (strcmp(d->message, message) == 0) return true;
    return false;
}

/* Not every machine has kernels of a recurrence's gradients: what is asked of one without them gets a note, and forward. */
static bool add_recurrence_backward(AuJob *job, AuAttentionBuild *build, const AuVariant *v)
{
    AuVariant one = *v;
    AuDiags *quiet = au_diags_new(job->arena);
    *quiet = *job->diags;
    quiet->first = quiet->last = NULL, quiet->errors = 0;
    if (!emission_build(job, quiet, &one, variant_build)) {
        if (!quiet->first || quiet->first->code != AU_E0811) return add_variant(job, build, v);
        const char *message =
            au_format(job->arena, "there are no kernels of the gradients of '%s' for %s %s: %s",
                      v->attn->name, v->target->name, v->arch->name, quiet->first->message);
        if (!is_said(job, message)) au_remark(job->diags, AU_N0601, v->attn->span, "%s", message);
        return true;
    }
    AU_PUSH(job->arena, build->variants, build->count, build->capacity, one);
    return true;
}

/* Further operations may be asked for alone; where there are no parts after all, forward is made, and a note has said so. */
static bool is_asked_for(const aulec_options *o, const AuAttentionBuild *build, AuOperation n)
{
    const bool parts = o->parts == AULEC_ALONE && build->parts, append = o->append == AULEC_ALONE;
    return (!parts && !append) || (parts && (n == AU_UNFINISHED || n == AU_COMBINE)) ||
           (append && n == AU_APPEND);
}

/* Are the kernels that were made last for any number of queries and pages of any size? */
static bool takes_all_pages(const AuAttentionBuild *build, const AuVariant *v)
{
    const AuVariant *last = build->count ? &build->variants[build->count - 1] : NULL;
    return last && last->queries == AU_PAGED_QUERIES && !last->boxes && last->arch == v->arch &&
           last->operand == v->operand && last->operation == v->operation;
}

/* In the order of the operations, the kernels for few queries first, then those that move boxes, of which those for short rows
 * come first. */
static bool add_operations(AuJob *job, AuAttentionBuild *build, const AuVariant *v, bool backward)
{
    const AuFamily *family = schedule_family(v->attn);
    AuVariant one = *v;
    for (uint32_t n = 0; n < AU_OPERATIONS; n++) {
        one.operation = (AuOperation)n;
        const bool of_parts = n == AU_UNFINISHED || n == AU_COMBINE;
        if (!schedule_makes(family, one.operation) || (n == AU_BACKWARD && !backward) ||
            (of_parts && !build->parts) || (n == AU_APPEND && !v->attn->new_sizes) ||
            !is_asked_for(job->options, build, one.operation))
            continue;
        if (n == AU_BACKWARD && family->name == AU_FAMILY_LINEAR) {
            if (!add_recurrence_backward(job, build, &one)) return false;
            continue;
        }
        one.attn = n == AU_APPEND && build->appending ? build->appending : v->attn;
        if (n == AU_APPEND && driver_has_slots(one.attn)) { /* first, since it has a condition */
            one.by_slots = true;
            if (!add_variant(job, build, &one)) return false;
            one.by_slots = false;
        }
        uint32_t queries =
            (n == AU_FORWARD && family->limit) || (n == AU_BACKWARD && family->back_limit)
                ? AU_QUERIES
                : 1;
        while (queries-- > 0) {
            one.queries = (AuQueries)queries;
            if (!queries && takes_all_pages(build, &one)) break;
            one.boxes = schedule_may_have_boxes(one.operation, one.queries);
            one.short_rows = !queries; /* first, since they have a condition */
            if (one.short_rows && !add_variant(job, build, &one)) return false;
            one.short_rows = false;
            if (one.boxes && !add_variant(job, build, &one)) return false;
            one.boxes = false;
            if (!add_variant(job, build, &one)) return false;
        }
    }
    return true;
}

/* Of kernels from number [first] on, of one machine and type. */
static void say_unshared(AuJob *job, const AuAttentionBuild *build, uint32_t first,
                         const AuVariant *v)
{
    bool shares = !v->attn->keys.has_groups, has_few = false;
    for (uint32_t n = first; n < build->count; n++) {
        const AuVariant *one = &build->variants[n];
        shares |= one->schedule->shares_keys;
        has_few |= one->queries == AU_DECODE_QUERIES;
    }
    const char *message = au_format(
        job->arena, "keys that sequences of '%s' share are read for each on %s %s: %s",
        v->attn->name, v->target->name, v->arch->name,
        has_few ? "its kernels for few queries have the keys of one sequence each, or change "
                  "them, or have no room for the rows of several"
                : "it has no kernels for few queries whose parts of the keys are joined");
    if (!shares && !is_said(job, message))
        au_remark(job->diags, AU_N0604, v->attn->span, "%s", message);
}

/* Are keys of few queries in one part, since no function joins several? */
static bool has_one_part(const AuAttentionBuild *build, uint32_t first, const AuVariant *v)
{
    bool has_few = false;
    for (uint32_t n = first; n < build->count; n++)
        has_few |= build->variants[n].queries == AU_DECODE_QUERIES;
    return has_few && !attn_derive_combine(v->attn);
}

/* Of kernels from number [first] on, of one machine and type, over what a server's cache is: who asks for that has few queries. */
static void say_without_few(AuJob *job, const AuAttentionBuild *build, uint32_t first,
                            const AuVariant *v)
{
    const AuLayout layout = v->attn->keys.layout;
    if (layout != AU_LAYOUT_PADDED && layout != AU_LAYOUT_PAGED) return;
    const char *message = NULL;
    if (build->without_few)
        message = au_format(
            job->arena,
            "few queries of '%s' have the kernels for any number on %s %s, which read all keys "
            "of a head in one block: those for few do not take %s",
            v->attn->name, v->target->name, v->arch->name, build->without_few);
    else if (has_one_part(build, first, v))
        message = au_format(job->arena,
                            "few queries of '%s' read all keys of a head in one block on %s %s: "
                            "what parts of them come to no 'combine' joins",
                            v->attn->name, v->target->name, v->arch->name);
    if (message && !is_said(job, message))
        au_remark(job->diags, AU_N0606, v->attn->span, "%s", message);
}

/* Recurrences say why in machines' own words; that --deterministic takes matrix units away nobody would guess. */
static bool is_worth_saying(const char *schedule, const char *why)
{
    static const char lanes[] = "lanes_", tokens[] = "linear_tokens";
    return strncmp(schedule, lanes, sizeof lanes - 1) == 0 ||
           (strncmp(schedule, tokens, sizeof tokens - 1) == 0 && strstr(why, "in one order"));
}

/* Somebody asked for the architecture: by its name, or by that of a target of which no other is made by default. */
static bool is_named(const AuJob *job, const AuVariant *v)
{
    uint32_t defaults = 0;
    for (uint32_t n = 0; n < v->target->arch_count; n++) defaults += v->target->archs[n].by_default;
    return job->choice.arch_count || (job->options->targets && defaults == 1);
}

/* Why a kernel of an architecture with matrix units, or products of pairs, has none: its schedule's name says it, or the table of machines;
 * NULL: it has some, or the architecture has none of any 16-bit type. */
static const char *without_matrices(const AuVariant *v)
{
    static const char mark[] = " # ";
    const AuTileCaps *caps = tile_caps(v->arch->caps);
    const char *why = strstr(v->schedule->name, mark);
    if (why) return is_worth_saying(v->schedule->name, why) ? why + sizeof mark - 1 : NULL;
    if (v->operand != TILE_BF16 || (v->operation != AU_FORWARD && v->operation != AU_BACKWARD) ||
        tile_has_products(caps, TILE_BF16) || !tile_has_products(caps, TILE_F16))
        return NULL;
    return "the machine adds up products of f16 by one instruction, of bf16 by none";
}

/* Of an architecture that somebody asked for, whose matrix units kernels from number [first] on do not use. */
static void say_without_matrices(AuJob *job, const AuAttentionBuild *build, uint32_t first,
                                 const AuVariant *v)
{
    if (!is_named(job, v) || tile_caps(v->arch->caps)->executors & 1u << TILE_ON_THREAD) return;
    for (uint32_t n = first; n < build->count; n++) {
        const AuVariant *one = &build->variants[n];
        const char *why = without_matrices(one);
        if (!why) continue;
        const char *message = au_format(job->arena, "%s of '%s' for %s %s has no matrices: %s",
                                        schedule_operation(one->operation), v->attn->name,
                                        v->target->name, v->arch->name, why);
        if (!is_said(job, message)) au_remark(job->diags, AU_N0605, v->attn->span, "%s", message);
    }
}

static bool add_variants(AuJob *job, AuAttentionBuild *build, AuAttn *attn, const AuGrads *grads)
{
    for (uint32_t t = 0; t < job->choice.target_count; t++)
        for (uint32_t n = job->choice.targets[t]->arch_count;
             n-- > 0;) { /* the table goes from plain to special: the best first */
            const AuArch *arch = &job->choice.targets[t]->archs[n];
            if (!options_takes_arch(&job->choice, t, arch)) continue;
            for (uint32_t d = 0; d < job->choice.dtype_count; d++) {
                AuVariant v = {.attn = attn,
                               .called = build->called,
                               .target = job->choice.targets[t],
                               .arch = arch,
                               .operand = job->choice.dtypes[d]};
                v.grads = grads;
                v.tensors = build->tensors, v.tensor_count = build->tensor_count;
                v.deterministic = job->options->deterministic;
                v.tf32 = job->choice.tf32 && v.operand == TILE_F32;
                v.checked = job->options->checked;
                v.shapes = job->shapes;
                v.ranks = job->options->emit == AULEC_EMIT_SHAPES;
                if (job->options->lines)
                    v.sources = job->sources, v.source_count = job->source_count;
                if (!options_takes_operand(arch, v.operand) ||
                    (v.tf32 && !options_has_tf32(arch)) ||
                    !stages_is_useful(&job->choice, t, arch, v.operand))
                    continue;
                const bool backward = grads && has_own_backward(job, t, arch, v.operand);
                const uint32_t first = build->count;
                build->without_few = NULL;
                if (!add_operations(job, build, &v, backward)) return false;
                say_unshared(job, build, first, &v);
                say_without_few(job, build, first, &v);
                say_without_matrices(job, build, first, &v);
            }
        }
    return true;
}

/* Functions of static builds make their lists in each call: nobody could give them others. */
static bool add_work(const AuJob *job, AuDiags *diags, AuAttn *attn)
{
    return job->choice.is_static || work_add(diags, attn);
}

/* The attention is checked once more for each set of widths and layout: graphs are cheap, and none is shared. What there is to say has been said. */
static AuAttn *checked_again(AuJob *job, AuDiags *quiet, uint32_t which)
{
    return front_check_again(job->front, job->arena, quiet, job->signatures[which]->name);
}

/* NULL: no width is fixed. */
static AuAttn *with_widths(AuJob *job, const AuAttentionBuild *build, uint32_t which,
                           const WidthSet *set)
{
    AuDiags quiet = au_diags_beside(job->arena, job->diags);
    AuAttn *attn = checked_again(job, &quiet, which);
    for (uint32_t n = 0; n < attn->size_count; n++)
        if (set && set->of[n] >= 0) attn->sizes[n].fixed = set->of[n];
    attn_simplify(attn);
    driver_add_sizes(attn);
    driver_add_layouts(job->arena, &quiet, attn, build->layouts->of, build->layouts->count);
    driver_add_storage(job->arena, &quiet, attn, build->storage);
    if (build->appends) driver_add_append(&quiet, attn);
    add_work(job, &quiet, attn);
    return attn;
}

static const AuGrads *gradients_of(AuJob *job, AuAttn *a)
{
    const AuGrads *g = attn_gradients(a, job->arena, job->diags);
    AuDiag *last = job->diags->first;
    while (last && last->next) last = last->next;
    if (!g && last)
        au_add_note(job->diags, last, a->span,
                    "without gradients (--no-grad) '%s' compiles to forward kernels", a->name);
    return g;
}

/* Asked for, and there where the script's functions allow it: else a note says why not, and calls find no such operations. */
static void add_parts(AuJob *job, AuAttentionBuild *build)
{
    const char *why = driver_parts_refusal(job->arena, build->whole);
    build->parts = !why;
    if (!why) {
        driver_add_parts(build->attn);
        driver_add_parts(build->whole);
    } else
        au_remark(job->diags, AU_N0603, build->whole->span,
                  "there are no kernels of 'unfinished' and 'combine' of '%s': %s",
                  build->whole->name, why);
}

static bool add_append(AuJob *job, AuAttn *a)
{
    const char *why = driver_append_refusal(a);
    if (!why) return driver_add_append(job->diags, a);
    au_error(job->diags, AU_E0811, a->span, "--append: '%s': %s", a->name, why);
    return false;
}

/* What kernels are given, once for all of them: by the simplified attention, as theirs are. With its widths fixed a
 * variant may come out simpler still and leave some of them unused, but it has no others. */
static bool settle_tensors(AuJob *job, AuAttentionBuild *build, uint32_t which)
{
    AuAttn *a = build->whole = with_widths(job, build, which, NULL);
    if (schedule_makes(schedule_family(a), AU_BACKWARD) && !job->options->no_gradients &&
        !job->options->serve && driver_has_gradients(a) && !(build->grads = gradients_of(job, a)))
        return false;
    if (job->options->parts) add_parts(job, build);
    build->tensors = driver_tensors(job->arena, a, build->grads, &build->tensor_count);
    return driver_names_differ(job->arena, job->diags, a, build->grads) &&
           driver_fits(job->arena, job->diags, a, build->grads);
}

/* Where a cache holds modified rows, append modifies them and nothing else does. */
static void split_mods(AuJob *job, AuAttentionBuild *build, AuAttn *attn, uint32_t which,
                       const WidthSet *set)
{
    build->appending = with_widths(job, build, which, set);
    build->appending->rows_are_new = true;
    attn->k_mod = attn->v_mod = (AuExpr){0};
}

/* Of several the layout with a cache is what --storage and append are for. */
static bool prepare_layout(AuJob *job, AuAttentionBuild *build)
{
    static const AuStorage as_operands[2];
    AuAttn *a = build->attn;
    driver_add_sizes(a);
    if (!driver_add_layouts(job->arena, job->diags, a, build->layouts->of, build->layouts->count))
        return false;
    const bool is_cache =
        a->keys.layout == AU_LAYOUT_PADDED || a->keys.layout == AU_LAYOUT_PAGED || a->keys.modified;
    build->called = job->choice.several ? layouts_name(job->arena, a, build->layouts) : a->name;
    build->storage = is_cache || !job->choice.several ? job->choice.storage : as_operands;
    if (!driver_add_storage(job->arena, job->diags, a, build->storage)) return false;
    build->appends = job->options->append || job->options->serve;
    if (job->choice.several && (!is_cache || driver_append_refusal(a))) build->appends = false;
    return (!build->appends || add_append(job, a)) && add_work(job, job->diags, a);
}

static bool build_attention(AuJob *job, AuAttentionBuild *build, uint32_t which)
{
    AuAttn *a = build->attn;
    const AuFamily *family = schedule_family(a);
    if (!schedule_makes(family, AU_FORWARD)) {
        au_error(job->diags, AU_E0603, a->linear ? a->linear->span : a->span,
                 "attention '%s' is %s, which this compiler checks but has no kernels for yet",
                 a->name, family->what);
        return false;
    }
    if (!prepare_layout(job, build) || !settle_tensors(job, build, which)) return false;
    build->need_count = driver_needs(a, job->arena, &build->needs);
    WidthSet *sets = AU_NEW_ARRAY(job->arena, WidthSet, MOST_SETS);
    const uint32_t count = width_sets(job, a, sets);
    for (uint32_t n = 0; n < count; n++) {
        AuAttn *attn = with_widths(job, build, which, &sets[n]);
        const char *why = driver_storage_refusal(job->arena, attn);
        if (why) {
            au_error(job->diags, AU_E0811, attn->span, "--storage: %s", why);
            return false;
        }
        if (build->parts) driver_add_parts(attn);
        if (attn->keys.modified) split_mods(job, build, attn, which, &sets[n]);
        const AuGrads *grads = NULL;
        if (build->grads && !(grads = attn_gradients(attn, job->arena, job->diags))) return false;
        if (!add_variants(job, build, attn, grads)) return false;
    }
    return count > 0;
}

/* An attention of the artifact for each layout. What the first one's signature says is said of the script. */
static bool build_layouts(AuJob *job, uint32_t which)
{
    AuLayouts *list = AU_NEW_ARRAY(job->arena, AuLayouts, LAYOUTS_MOST);
    const uint32_t count = layouts_of(&job->choice, job->options, job->signatures[which], list);
    if (!count) job->options_are_wrong |= job->diags->last->code == AU_E0601;
    for (uint32_t n = 0; n < count; n++) {
        AuAttentionBuild *build = &job->builds[job->build_count++];
        AuDiags quiet = au_diags_beside(job->arena, job->diags);
        build->attn = n ? checked_again(job, &quiet, which) : job->signatures[which];
        build->layouts = &list[n];
        if (build_attention(job, build, which)) continue;
        AuDiag *last = job->diags->last;
        if (job->options->serve && last && last->severity == AU_ERROR)
            au_add_note(job->diags, last, (AuSpan){0},
                        "--serve asks for it, as %s; --layout alone "
                        "makes what there is",
                        layouts_name(job->arena, build->attn, &list[n]));
        return false;
    }
    return count > 0;
}

bool builds_make(AuJob *job)
{
    job->builds =
        AU_NEW_ARRAY(job->arena, AuAttentionBuild, job->signature_count * LAYOUTS_MOST + 1);
    bool good = true;
    for (uint32_t n = 0; n < job->signature_count; n++) {
        if (job->options->attention &&
            strcmp(job->options->attention, job->signatures[n]->name) != 0)
            continue;
        good &= build_layouts(job, n);
    }
    if (job->options->attention && !job->build_count) {
        job->options_are_wrong = true;
        au_error(job->diags, AU_E0601, (AuSpan){0}, "the script has no attention '%s'",
                 job->options->attention);
        return false;
    }
    return good;
}
