/* emission.c - the code of a compilation's variants, several at a time, and what is made of it: an image (artifact.c) and the code as
 * one object, linked, or what a static build takes (embed.c). */
#include "compile.h"
#include "descriptor.h"
#include "embed.h"

#include "aule/artifact.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

/* ---- each variant by itself, so several at a time */

typedef struct AuWork {
    AuVariant **variants;
    AuArena **arenas; /* each its own: arenas are not shared between threads */
    AuDiags **diags;
    uint32_t count;
    atomic_uint next;
    AuCodeStage stage;
    uint32_t optimize;
    bool *good;
} AuWork;

static void emit_one(AuWork *w, uint32_t n)
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
    AuWork *w = user;
    for (uint32_t n; (n = atomic_fetch_add(&w->next, 1)) < w->count;) emit_one(w, n);
    return NULL;
}

static void run_workers(AuWork *w)
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

void emission_free(AuJob *job)
{
    AuWork *w = job->work;
    for (uint32_t n = 0; w && n < w->count; n++) au_arena_free(w->arenas[n]);
    job->work = NULL;
}

/* Said of the variant before in the same words: of no place, as of a stage that a target has not. */
static bool is_said(const AuDiags *diags, const AuDiag *d)
{
    const AuDiag *last = diags->last;
    return last && d->severity == AU_ERROR && last->code == d->code && !last->span.source &&
           !d->span.source && strcmp(last->message, d->message) == 0;
}

/* What a worker reported, and its code, into the compilation's own arena. */
static bool gather(AuJob *job, AuWork *w)
{
    bool good = true;
    for (uint32_t n = 0; n < w->count; n++) {
        good &= w->good[n];
        if (w->good[n])
            w->variants[n]->code.bytes =
                au_strndup(job->arena, w->variants[n]->code.bytes, w->variants[n]->code.length);
        for (const AuDiag *d = w->diags[n] ? w->diags[n]->first : NULL; d; d = d->next) {
            if (is_said(job->diags, d)) continue;
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

bool emission_run(AuJob *job, AuVariant **variants, uint32_t count, AuCodeStage stage, bool *good)
{
    AuWork *w = AU_NEW(job->arena, AuWork);
    *w = (AuWork){.variants = variants,
                  .good = good,
                  .stage = stage,
                  .optimize = job->options->optimize ? job->options->optimize - 1 : 3};
    w->arenas = AU_NEW_ARRAY(job->arena, AuArena *, count + 1);
    w->diags = AU_NEW_ARRAY(job->arena, AuDiags *, count + 1);
    job->work = w;
    while (w->count < count) w->arenas[w->count++] = au_arena_new(NULL);
    run_workers(w);
    const bool all = gather(job, w);
    emission_free(job);
    return all;
}

bool emission_code(AuJob *job, AuCodeStage stage)
{
    uint32_t most = 0, count = 0;
    for (uint32_t b = 0; b < job->build_count; b++) most += job->builds[b].count;
    AuVariant **variants = AU_NEW_ARRAY(job->arena, AuVariant *, most + 1);
    for (uint32_t b = 0; b < job->build_count; b++)
        for (uint32_t n = 0; n < job->builds[b].count; n++)
            variants[count++] = &job->builds[b].variants[n];
    if (!emission_run(job, variants, count, stage, AU_NEW_ARRAY(job->arena, bool, count + 1)))
        return false;
    spills_avoid(job, variants, count, stage);
    return true;
}

static const aule_module_v1 *descriptor(AuJob *job)
{
    return artifact_module(job->arena, job->diags, job->builds, job->build_count, job->name,
                           job->text, job->length);
}

bool emission_link(AuJob *job, AuBlob *out)
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
bool emission_embed(AuJob *job, AuBlob *out)
{
    AuEmbed e = {.arena = job->arena,
                 .diags = job->diags,
                 .emit = job->options->emit,
                 .name = job->name,
                 .builds = job->builds,
                 .build_count = job->build_count};
    if (!embed_is_possible(&e)) return false;
    if (embed_needs_code(e.emit) && !emission_code(job, AU_CODE_FINAL)) return false;
    e.module = descriptor(job);
    return e.module && embed_emit(&e, out);
}
