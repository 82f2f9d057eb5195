/* compile.c - libaulec: the order of a compilation.
 *   parse, check -> variants (builds.c) -> their code, an artifact (emission.c). Nothing here knows what a target is like. */
#include "compile.h"
#include "embed.h"
#include "result.h"
#include "stages.h"

#include <string.h>

static bool parse(AuJob *job)
{
    const uint32_t source = au_source_add(job->diags, job->name, job->text, job->length);
    job->script = front_parse(job->arena, job->names, job->diags, source);
    if (job->options->emit == AULEC_EMIT_AST) return job->diags->errors == 0;
    job->front = front_open(job->arena, job->names, job->diags, job->script);
    job->signatures = front_check_all(job->front, job->arena, job->diags, &job->signature_count);
    if (!job->diags->errors && !job->signature_count)
        au_error(job->diags, AU_E0604, (AuSpan){0}, "%s has no attention", job->name);
    job->source_count = job->diags->source_count;
    AuSource *sources = AU_NEW_ARRAY(job->arena, AuSource, job->source_count);
    memcpy(sources, job->diags->sources, job->source_count * sizeof *sources);
    job->sources = sources;
    return job->diags->errors == 0;
}

/* After parse: the texts of options are no sources of code. */
static bool read_shapes(AuJob *job)
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
static bool build_all(AuJob *job)
{
    const bool good = builds_make(job) && shapes_report(job->shapes, job->diags);
    const AuDiag *last = job->diags->last;
    job->options_are_wrong |= last && shapes_have(job->shapes, last->span);
    return good;
}

/* `after` is for one stage, and a pass. */
static bool after_is_sound(const AuJob *job)
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

/* Code comes with the variants, as each is built; where it is for a static build, once it is known that there can be one. */
static bool begin_code(AuJob *job)
{
    const uint32_t emit = job->options->emit;
    const bool is_static = emit >= AULEC_EMIT_HEADER && emit <= AULEC_EMIT_ARCHIVE,
               is_text = emit == AULEC_EMIT_ASM || emit == AULEC_EMIT_SPIRV_TEXT,
               has_none = emit == AULEC_EMIT_TILED_IR || emit == AULEC_EMIT_KERNEL_IR ||
                          emit == AULEC_EMIT_SHAPES || (is_static && !embed_needs_code(emit));
    return has_none || emission_open(job,
                                     emit == AULEC_EMIT_LLVM_IR ? AU_CODE_IR
                                     : is_text                  ? AU_CODE_ASSEMBLY
                                                                : AU_CODE_FINAL,
                                     is_static);
}

static bool compile(AuJob *job, AuBlob *out)
{
    AuText text = {.arena = job->arena};
    const uint32_t emit = job->options->emit;
    bool good = true;
    if (emit == AULEC_EMIT_STDLIB)
        stages_stdlib(&text);
    else if (job->options->after && strcmp(job->options->after, "help") == 0)
        stages_pass_names(&text);
    else if (job->options->archs && strcmp(job->options->archs, "help") == 0)
        good = options_arch_names(&job->choice, job->options, &text);
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
    else if (!stages_is_there(&job->choice, emit, job->diags) || !builds_widths_exist(job) ||
             !begin_code(job) || !build_all(job))
        return false;
    else if (emit == AULEC_EMIT_ARTIFACT)
        return emission_code(job) && emission_link(job, out);
    else if (emit >= AULEC_EMIT_HEADER && emit <= AULEC_EMIT_ARCHIVE)
        return emission_embed(job, out);
    else if (emit == AULEC_EMIT_TILED_IR && job->options->after)
        good = stages_passed(job->arena, job->diags, job->builds, job->build_count,
                             job->options->after, &text);
    else if (emit == AULEC_EMIT_TILED_IR || emit == AULEC_EMIT_KERNEL_IR ||
             emit == AULEC_EMIT_SHAPES)
        stages_variants(job->builds, job->build_count, emit, &text);
    else
        good = emission_code(job) &&
               stages_code(job->builds, job->build_count, emit, job->diags, &text);
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
        options->struct_size <= sizeof *options && options->emit <= AULEC_EMIT_SHAPES &&
        options->no_gradients <= 1 && options->deterministic <= 1 && options->checked <= 1 &&
        options->lines <= 1 && options->parts <= AULEC_ALONE && options->append <= AULEC_ALONE &&
        options->invariant <= 1 && options->serve <= 1)
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
    AuJob *volatile job = NULL;
    jmp_buf edge;
    if (!r || setjmp(edge)) {
        if (job) emission_free(job);
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
        AuJob *const j = AU_NEW(arena, AuJob);
        *j = (AuJob){.arena = arena,
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
        emission_free(j);
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
