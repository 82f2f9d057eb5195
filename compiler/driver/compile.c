/* compile.c - libaulec: the order of a compilation.
 *   parse, check -> for every set of widths a copy of each attention -> for every target,
 * architecture and operand type a variant (variant.c) -> code, several variants at a time -> image
 * (artifact.c) -> one object, linked. Nothing here knows what a target is like. */
#include "descriptor.h"
#include "embed.h"
#include "options.h"
#include "result.h"
#include "shapes.h"
#include "stages.h"
#include "tensors.h"

#include "aule/artifact.h"
#include "front.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

typedef struct Job {
    AuArena *arena;
    AuNames *names;
    AuDiags *diags;
    AuChoice choice;
    const char *name;
    const char *text;
    size_t length;
    const AuSource *sources; /* script, standard library */
    uint32_t source_count;
    const aulec_options *options;
    const AuShapes *shapes;
    bool options_are_wrong; /* which may show after the script is read */
    AuScript *script;
    AuAttn **signatures; /* widths not fixed */
    uint32_t signature_count;
    AuAttentionBuild *builds;
    uint32_t build_count;
    struct Work *work; /* while code is being made: its arenas outlast none of the ways out */
} Job;

/* ---- widths: sizes that must be known when compiling */

enum { MOST_SETS = 64 };

typedef struct WidthSet {
    int32_t of[AULE_MAX_SIZES]; /* by size; -1: not fixed */
} WidthSet;

/* Every combination of the widths given; a width that is not given is that of the first axis, q's.
 */
static uint32_t width_sets(Job *job, const AuAttn *a, WidthSet *sets)
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
        const uint32_t choices = w ? w->count : first == a->size_count ? 2 : 1;
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
                    w || first == a->size_count ? values[c] : sets[s].of[first];
            }
        count = before * choices;
        if (first == a->size_count) first = n;
    }
    return count;
}

static bool widths_exist(Job *job)
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
static bool has_own_backward(const Job *job, uint32_t target, const AuArch *arch,
                             AuTileElem operand)
{
    const AuTileCaps *caps = tile_caps(arch->caps);
    const AuTileAtom *atom = tile_best_atom(caps, operand, TILE_ON_THREAD);
    const bool plain = caps->has_private && !(atom && atom->m > 1);
    return stages_is_useful(&job->choice, target, arch, plain ? TILE_F32 : operand);
}

static bool add_variant(Job *job, AuAttentionBuild *build, const AuVariant *v)
{
    AuVariant one = *v;
    if (!variant_build(job->arena, job->diags, &one, job->name)) return false;
    if (one.schedule) AU_PUSH(job->arena, build->variants, build->count, build->capacity, one);
    return true;
}

/* Widths and operand types do not make two of a note. */
static bool is_said(const Job *job, const char *message)
{
    for (const AuDiag *d = job->diags->first; d; d = d->next)
        if (strcmp(d->message, message) == 0) return true;
    return false;
}

/* Not every machine has kernels of a recurrence's gradients: what is asked of one without them gets a note, and forward. */
static bool add_recurrence_backward(Job *job, AuAttentionBuild *build, const AuVariant *v)
{
    AuVariant one = *v;
    AuDiags *quiet = au_diags_new(job->arena);
    *quiet = *job->diags;
    quiet->first = quiet->last = NULL, quiet->errors = 0;
    if (!variant_build(job->arena, quiet, &one, job->name)) {
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

/* In the order of the operations, the kernels for few queries first, then those that move boxes. */
static bool add_operations(Job *job, AuAttentionBuild *build, const AuVariant *v, bool backward)
{
    const AuFamily *family = schedule_family(v->attn);
    AuVariant one = *v;
    for (uint32_t n = 0; n < AU_OPERATIONS; n++) {
        one.operation = (AuOperation)n;
        if (!schedule_makes(family, one.operation) || (n == AU_BACKWARD && !backward)) continue;
        if (n == AU_BACKWARD && family->name == AU_FAMILY_LINEAR) {
            if (!add_recurrence_backward(job, build, &one)) return false;
            continue;
        }
        uint32_t queries = n == AU_FORWARD && family->limit ? AU_QUERIES : 1;
        while (queries-- > 0) {
            one.queries = (AuQueries)queries;
            one.boxes = !queries;
            if (one.boxes && !add_variant(job, build, &one)) return false;
            one.boxes = false;
            if (!add_variant(job, build, &one)) return false;
        }
    }
    return true;
}

static bool add_variants(Job *job, AuAttentionBuild *build, AuAttn *attn, const AuGrads *grads)
{
    for (uint32_t t = 0; t < job->choice.target_count; t++)
        for (uint32_t n = job->choice.targets[t]->arch_count;
             n-- > 0;) { /* the table goes from plain to special: the best first */
            const AuArch *arch = &job->choice.targets[t]->archs[n];
            if (!options_takes_arch(&job->choice, arch)) continue;
            for (uint32_t d = 0; d < job->choice.dtype_count; d++) {
                AuVariant v = {.attn = attn,
                               .target = job->choice.targets[t],
                               .arch = arch,
                               .operand = job->choice.dtypes[d]};
                v.grads = grads;
                v.tensors = build->tensors, v.tensor_count = build->tensor_count;
                v.deterministic = job->options->deterministic;
                v.tf32 = job->choice.tf32 && v.operand == TILE_F32;
                v.checked = job->options->checked;
                v.shapes = job->shapes;
                if (job->options->lines)
                    v.sources = job->sources, v.source_count = job->source_count;
                if (!options_takes_operand(arch, v.operand) ||
                    (v.tf32 && !options_has_tf32(arch)) ||
                    !stages_is_useful(&job->choice, t, arch, v.operand))
                    continue;
                const bool backward = grads && has_own_backward(job, t, arch, v.operand);
                if (!add_operations(job, build, &v, backward)) return false;
            }
        }
    return true;
}

/* The script is checked once more for each set of widths (NULL: none is fixed): graphs are cheap, and none is shared. */
static AuAttn *with_widths(Job *job, uint32_t which, const WidthSet *set)
{
    uint32_t count;
    AuDiags *quiet = au_diags_new(job->arena); /* what there is to say has been said */
    au_source_add(quiet, job->name, job->text, job->length);
    AuAttn *attn = front_check(job->arena, job->names, quiet, job->script, &count)[which];
    for (uint32_t n = 0; n < attn->size_count; n++)
        if (set && set->of[n] >= 0) attn->sizes[n].fixed = set->of[n];
    attn_simplify(attn);
    driver_add_sizes(attn);
    return attn;
}

static const AuGrads *gradients_of(Job *job, AuAttn *a)
{
    const AuGrads *g = attn_gradients(a, job->arena, job->diags);
    AuDiag *last = job->diags->first;
    while (last && last->next) last = last->next;
    if (!g && last)
        au_add_note(job->diags, last, a->span,
                    "without gradients (--no-grad) '%s' compiles to forward kernels", a->name);
    return g;
}

/* What kernels are given, once for all of them: by the simplified attention, as theirs are. With its widths fixed a
 * variant may come out simpler still and leave some of them unused, but it has no others. */
static bool settle_tensors(Job *job, AuAttentionBuild *build, uint32_t which)
{
    AuAttn *a = build->whole = with_widths(job, which, NULL);
    if (schedule_makes(schedule_family(a), AU_BACKWARD) && !job->options->no_gradients &&
        !(build->grads = gradients_of(job, a)))
        return false;
    build->tensors = driver_tensors(job->arena, a, build->grads, &build->tensor_count);
    return driver_names_differ(job->arena, job->diags, a, build->grads) &&
           driver_fits(job->arena, job->diags, a, build->grads);
}

static bool build_attention(Job *job, AuAttentionBuild *build, uint32_t which)
{
    AuAttn *a = build->attn = job->signatures[which];
    const AuFamily *family = schedule_family(a);
    if (!schedule_makes(family, AU_FORWARD)) {
        au_error(job->diags, AU_E0603, a->linear ? a->linear->span : a->span,
                 "attention '%s' is %s, which this compiler checks but has no kernels for yet",
                 a->name, family->what);
        return false;
    }
    driver_add_sizes(a);
    if (!settle_tensors(job, build, which)) return false;
    build->need_count = driver_needs(a, job->arena, &build->needs);
    WidthSet *sets = AU_NEW_ARRAY(job->arena, WidthSet, MOST_SETS);
    const uint32_t count = width_sets(job, a, sets);
    for (uint32_t n = 0; n < count; n++) {
        AuAttn *attn = with_widths(job, which, &sets[n]);
        const AuGrads *grads = NULL;
        if (build->grads && !(grads = attn_gradients(attn, job->arena, job->diags))) return false;
        if (!add_variants(job, build, attn, grads)) return false;
    }
    return count > 0;
}

static bool build_variants(Job *job)
{
    job->builds = AU_NEW_ARRAY(job->arena, AuAttentionBuild, job->signature_count + 1);
    bool good = true;
    for (uint32_t n = 0; n < job->signature_count; n++) {
        if (job->options->attention &&
            strcmp(job->options->attention, job->signatures[n]->name) != 0)
            continue;
        good &= build_attention(job, &job->builds[job->build_count++], n);
    }
    if (job->options->attention && !job->build_count) {
        job->options_are_wrong = true;
        au_error(job->diags, AU_E0601, (AuSpan){0}, "the script has no attention '%s'",
                 job->options->attention);
        return false;
    }
    return good;
}

/* ---- code: each variant by itself, so several at a time */

typedef struct Work {
    AuVariant **variants;
    AuArena **arenas; /* each its own: arenas are not shared between threads */
    AuDiags **diags;
    uint32_t count;
    atomic_uint next;
    AuCodeStage stage;
    uint32_t optimize;
    bool *good;
} Work;

static void emit_one(Work *w, uint32_t n)
{
    jmp_buf edge;
    AuVariant *v = w->variants[n];
    if (!w->arenas[n]) return;
    if (setjmp(edge)) return; /* out of memory: not good */
    au_arena_guard(w->arenas[n], &edge);
    w->diags[n] = au_diags_new(w->arenas[n]);
    w->good[n] = v->target->emit(w->arenas[n], w->diags[n], v->kernels, v->kernel_count, v->arch,
                                 w->stage, w->optimize, &v->code);
}

static void *worker(void *user)
{
    Work *w = user;
    for (uint32_t n; (n = atomic_fetch_add(&w->next, 1)) < w->count;) emit_one(w, n);
    return NULL;
}

static void run_workers(Work *w)
{
    enum { MOST = 16 };
    pthread_t threads[MOST];
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t started = 0, wanted = (uint32_t)(cores < 1 ? 1 : cores > MOST ? MOST : cores);
    if (wanted > w->count) wanted = w->count;
    while (started + 1 < wanted && pthread_create(&threads[started], NULL, worker, w) == 0)
        started++;
    worker(w);
    while (started) pthread_join(threads[--started], NULL);
}

static void free_work(Job *job)
{
    Work *w = job->work;
    for (uint32_t n = 0; w && n < w->count; n++) au_arena_free(w->arenas[n]);
    job->work = NULL;
}

/* What a worker reported, and its code, into the compilation's own arena. */
static bool gather(Job *job, Work *w)
{
    bool good = true;
    for (uint32_t n = 0; n < w->count; n++) {
        good &= w->good[n];
        if (w->good[n])
            w->variants[n]->code.bytes =
                au_strndup(job->arena, w->variants[n]->code.bytes, w->variants[n]->code.length);
        for (const AuDiag *d = w->diags[n] ? w->diags[n]->first : NULL; d; d = d->next) {
            switch (d->severity) {
            case AU_ERROR: au_error(job->diags, d->code, d->span, "%s", d->message); break;
            case AU_WARNING: au_warning(job->diags, d->code, d->span, "%s", d->message); break;
            case AU_NOTE: au_remark(job->diags, d->code, d->span, "%s", d->message); break;
            }
        }
        if (!w->good[n] && !(w->diags[n] && w->diags[n]->errors))
            au_error(job->diags, AU_E0003, (AuSpan){0}, "no memory for the code of %s",
                     w->variants[n]->kernels[0]->name);
    }
    return good;
}

static bool emit_code(Job *job, AuCodeStage stage)
{
    Work *w = AU_NEW(job->arena, Work);
    *w =
        (Work){.stage = stage, .optimize = job->options->optimize ? job->options->optimize - 1 : 3};
    uint32_t most = 0;
    for (uint32_t b = 0; b < job->build_count; b++) most += job->builds[b].count;
    w->variants = AU_NEW_ARRAY(job->arena, AuVariant *, most + 1);
    w->arenas = AU_NEW_ARRAY(job->arena, AuArena *, most + 1);
    w->diags = AU_NEW_ARRAY(job->arena, AuDiags *, most + 1);
    w->good = AU_NEW_ARRAY(job->arena, bool, most + 1);
    job->work = w;
    for (uint32_t b = 0; b < job->build_count; b++)
        for (uint32_t n = 0; n < job->builds[b].count; n++) {
            w->arenas[w->count] = au_arena_new(NULL);
            w->variants[w->count++] = &job->builds[b].variants[n];
        }
    run_workers(w);
    const bool good = gather(job, w);
    free_work(job);
    return good;
}

static const aule_module_v1 *descriptor(Job *job)
{
    return artifact_module(job->arena, job->diags, job->builds, job->build_count, job->name,
                           job->text, job->length);
}

static bool link_artifact(Job *job, AuBlob *out)
{
    const aule_module_v1 *module = descriptor(job);
    if (!module) return false;
    const AuImage image = descriptor_image(job->arena, module);
    AuBlob *objects = NULL;
    uint32_t count = 0, capacity = 0;
    const AuArch *host = NULL;
    for (uint32_t b = 0; b < job->build_count; b++)
        for (uint32_t n = 0; n < job->builds[b].count; n++) {
            const AuVariant *v = &job->builds[b].variants[n];
            if (v->target->format != AULE_CODE_HOST) continue;
            AU_PUSH(job->arena, objects, count, capacity, v->code);
            host = v->arch;
        }
    if (!host)
        host = &au_target_cpu.archs[0]; /* a shared library is for some machine, if only as a
                                           container: the first of the table */
    AuBlob data;
    if (!au_image_object(job->arena, job->diags, &image, "aule_module_v1", host, &data))
        return false;
    AU_PUSH(job->arena, objects, count, capacity, data);
    return au_link_shared(job->arena, job->diags, objects, count, "aule_module_v1", host, out);
}

/* For a static build: a header, C, an object or an archive. */
static bool embed(Job *job, AuBlob *out)
{
    AuEmbed e = {.arena = job->arena,
                 .diags = job->diags,
                 .emit = job->options->emit,
                 .name = job->name,
                 .builds = job->builds,
                 .build_count = job->build_count};
    if (!embed_is_possible(&e)) return false;
    if (embed_needs_code(e.emit) && !emit_code(job, AU_CODE_FINAL)) return false;
    e.module = descriptor(job);
    return e.module && embed_emit(&e, out);
}

/* ---- the whole */

static bool parse(Job *job)
{
    const uint32_t source = au_source_add(job->diags, job->name, job->text, job->length);
    job->script = front_parse(job->arena, job->names, job->diags, source);
    if (job->options->emit == AULEC_EMIT_AST) return job->diags->errors == 0;
    job->signatures =
        front_check(job->arena, job->names, job->diags, job->script, &job->signature_count);
    if (!job->diags->errors && !job->signature_count)
        au_error(job->diags, AU_E0604, (AuSpan){0}, "%s has no attention", job->name);
    job->source_count = job->diags->source_count;
    AuSource *sources = AU_NEW_ARRAY(job->arena, AuSource, job->source_count);
    memcpy(sources, job->diags->sources, job->source_count * sizeof *sources);
    job->sources = sources;
    return job->diags->errors == 0;
}

/* After parse: the texts of options are no sources of code. */
static bool read_shapes(Job *job)
{
    const char *forced = job->options->shape, *tuned = job->options->shapes,
               *name = job->options->shapes_name;
    AuShapes *s = shapes_new(job->arena, job->diags);
    job->shapes = s;
    bool good = s != NULL;
    if (good && tuned)
        good = shapes_read(s, job->diags, name ? name : "<shapes>", tuned, strlen(tuned),
                           SHAPES_TUNED);
    if (good && forced)
        good = shapes_read(s, job->diags, "<shape>", forced, strlen(forced), SHAPES_FORCED);
    if (good && forced && !shapes_force(s)) {
        au_error(job->diags, AU_E0601, (AuSpan){0},
                 "there is no row in what shapes kernels must have: it is '%s', expected "
                 "'warps_forward: rows=32'",
                 forced);
        good = false;
    }
    job->options_are_wrong = !good;
    return good;
}

/* What was asked for by options is not the script's fault. */
static bool build_all(Job *job)
{
    const bool good = build_variants(job) && shapes_report(job->shapes, job->diags);
    const AuDiag *last = job->diags->last;
    job->options_are_wrong |= last && shapes_have(job->shapes, last->span);
    return good;
}

/* `after` is for one stage, and a pass. */
static bool after_is_sound(const Job *job)
{
    const char *after = job->options->after;
    if (!after) return true;
    if (job->options->emit == AULEC_EMIT_TILED_IR) return stages_is_pass(job->diags, after);
    au_error(job->diags, AU_E0601, (AuSpan){0},
             "after a pass there are programs of the tiled IR only: after '%s' goes with the stage "
             "tiled-ir",
             after);
    return false;
}

static bool compile(Job *job, AuBlob *out)
{
    AuText text = {.arena = job->arena};
    const uint32_t emit = job->options->emit;
    bool good = true;
    if (emit == AULEC_EMIT_STDLIB)
        stages_stdlib(&text);
    else if (job->options->after && strcmp(job->options->after, "help") == 0)
        stages_pass_names(&text);
    else if (!after_is_sound(job))
        return false;
    else if (!options_choose(&job->choice, job->options) || !parse(job) || !read_shapes(job))
        return false;
    else if (emit == AULEC_EMIT_AST)
        stages_ast(job->script, &text);
    else if (emit == AULEC_EMIT_ATTENTION_IR)
        stages_attention(job->signatures, job->signature_count, &text);
    else if (emit == AULEC_EMIT_GRADIENTS)
        good =
            stages_gradients(job->arena, job->diags, job->signatures, job->signature_count, &text);
    else if (!widths_exist(job) || !build_all(job))
        return false;
    else if (emit == AULEC_EMIT_ARTIFACT)
        return emit_code(job, AU_CODE_FINAL) && link_artifact(job, out);
    else if (emit >= AULEC_EMIT_HEADER && emit <= AULEC_EMIT_ARCHIVE)
        return embed(job, out);
    else if (emit == AULEC_EMIT_TILED_IR && job->options->after)
        good = stages_passed(job->arena, job->diags, job->builds, job->build_count,
                             job->options->after, &text);
    else if (emit == AULEC_EMIT_TILED_IR || emit == AULEC_EMIT_KERNEL_IR)
        stages_variants(job->builds, job->build_count, emit, &text);
    else {
        const bool is_text = emit == AULEC_EMIT_ASM || emit == AULEC_EMIT_SPIRV_TEXT;
        good = emit_code(job, emit == AULEC_EMIT_LLVM_IR ? AU_CODE_IR
                              : is_text                  ? AU_CODE_ASSEMBLY
                                                         : AU_CODE_FINAL);
        if (good) good = stages_code(job->builds, job->build_count, emit, job->diags, &text);
    }
    *out = (AuBlob){au_text_str(&text), text.length};
    return good;
}

static bool options_are_sound(AuDiags *diags, const aulec_options *options)
{
    if (options->optimize > 4) {
        au_error(
            diags, AU_E0601, (AuSpan){0},
            "aulec_options: optimize is 0 for the default, or 1 more than a level from 0 to 3: "
            "at most 4, not %u",
            options->optimize);
        return false;
    }
    if (options->struct_size >= offsetof(aulec_options, no_gradients) &&
        options->struct_size <= sizeof *options && options->emit <= AULEC_EMIT_SPIRV_TEXT &&
        options->no_gradients <= 1 && options->deterministic <= 1 && options->checked <= 1 &&
        options->lines <= 1)
        return true;
    au_error(diags, AU_E0601, (AuSpan){0},
             "aulec_options: struct_size %zu (expected %zu), emit %u or a flag is out of range",
             options->struct_size, sizeof *options, options->emit);
    return false;
}

aulec_status aulec_compile(const char *name, const char *text, size_t length,
                           const aulec_options *options, aulec_result **result)
{
    const aulec_options defaults = {.struct_size = sizeof defaults};
    if (!name || (!text && length) || !result || length > UINT32_MAX / 2) return AULEC_ERROR_USAGE;
    aulec_result *r = result_new();
    Job *volatile job = NULL;
    jmp_buf edge;
    if (!r || setjmp(edge)) {
        if (job) free_work(job);
        aulec_result_free(r);
        return AULEC_ERROR_MEMORY;
    }
    AuArena *arena = r->arena;
    au_arena_guard(arena, &edge);
    aulec_options *o =
        AU_NEW(arena, aulec_options); /* callers may be older: what they do not say is 0 */
    memcpy(o, options ? options : &defaults,
           options && options->struct_size < sizeof *o ? options->struct_size : sizeof *o);
    aulec_status status = AULEC_ERROR_USAGE;
    if (options_are_sound(r->diags, o)) {
        Job *const j = AU_NEW(arena, Job);
        *j = (Job){.arena = arena,
                   .names = au_names_new(arena),
                   .diags = r->diags,
                   .name = name,
                   .text = text ? text : "",
                   .length = length,
                   .options = o,
                   .choice = {.arena = arena, .diags = r->diags}};
        AuBlob out;
        job = j;
        const bool good = compile(j, &out);
        if (good) r->data = out.bytes, r->length = out.length;
        status = good                                 ? AULEC_OK
                 : j->script && !j->options_are_wrong ? AULEC_ERROR_SCRIPT
                                                      : AULEC_ERROR_USAGE;
    }
    result_finish(r);
    *result = r;
    return status;
}

const char *aulec_version(void) { return AULE_PROJECT_VERSION; }
