/* emission.c - the code of a compilation's variants, several at a time, and what is made of it: an image (artifact.c) and the code as
 * one object, linked, or what a static build takes (embed.c). */
#include "compile.h"
#include "descriptor.h"
#include "embed.h"

#include "aule/artifact.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

/* ---- each variant by itself, so several at a time
 *
 * A variant's kernels lie in an arena of their own, from which whichever thread comes first makes their code; then it is freed. So a compilation has
 * the kernels of a few variants at once and not those of all, and code of the first is made while the last are being built. */

enum { MOST_THREADS = 16 };

typedef struct AuPiece {
    struct AuPiece *next;
    const AuTarget *target;
    const AuArch *arch;
    AuKernel *kernels[AULE_MAX_LAUNCHES];
    uint32_t count;
    const char *name; /* of the first kernel */
    AuArena *made;    /* of the kernels; NULL once they are code */
    AuArena *kept;    /* of that and of what was said; NULL once the compilation's has it */
    AuDiags *diags;
    AuBlob code;
    bool good;
} AuPiece;

typedef struct AuWork {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t threads[MOST_THREADS];
    uint32_t started, processors;
    AuPiece *last;
    AuPiece *next;       /* the first that no thread has taken */
    uint32_t waiting;    /* so many are left */
    bool ending;         /* no more will come */
    bool held;           /* until emission_code: whether there can be code is not known */
    AuPiece *ungathered; /* the first whose code is its own */
    AuArena *building;   /* of the variant that is being built */
    AuPartTable *parts;  /* of hosts' kernels, in the order in which they come */
    AuCodeStage stage;
    uint32_t optimize;
} AuWork;

static void emit_one(const AuWork *w, AuPiece *p)
{
    jmp_buf edge;
    if (!setjmp(edge)) {
        AuBlob code = {0};
        au_arena_guard(p->made, &edge);
        au_arena_guard(p->kept, &edge);
        p->diags = au_diags_new(p->kept);
        const bool good = p->target->emit(p->made, p->diags, p->kernels, p->count, p->arch,
                                          w->stage, w->optimize, &code);
        if (good) p->code = (AuBlob){au_strndup(p->kept, code.bytes, code.length), code.length};
        p->good = good;
    } /* else out of memory: not good */
    au_arena_free(p->made);
    p->made = NULL;
}

/* The lock is the caller's. */
static AuPiece *take(AuWork *w)
{
    AuPiece *p = w->next;
    if (p) w->next = p->next, w->waiting--;
    return p;
}

static void *worker(void *user)
{
    AuWork *w = user;
    pthread_mutex_lock(&w->lock);
    while (w->next || !w->ending) {
        AuPiece *p = take(w);
        if (!p) {
            pthread_cond_wait(&w->changed, &w->lock);
            continue;
        }
        pthread_mutex_unlock(&w->lock);
        emit_one(w, p);
        pthread_mutex_lock(&w->lock);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* This thread makes code, too, as long as there is more to do than [most]. */
static void help(AuWork *w, uint32_t most)
{
    for (;;) {
        pthread_mutex_lock(&w->lock);
        AuPiece *p = w->waiting > most ? take(w) : NULL;
        pthread_mutex_unlock(&w->lock);
        if (!p) return;
        emit_one(w, p);
    }
}

static void start(AuWork *w)
{
    if (w->started + 1 < w->processors &&
        pthread_create(&w->threads[w->started], NULL, worker, w) == 0)
        w->started++;
}

static void join(AuWork *w)
{
    pthread_mutex_lock(&w->lock);
    w->ending = true;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    while (w->started) pthread_join(w->threads[--w->started], NULL);
    w->ending = false;
}

bool emission_open(AuJob *job, AuCodeStage stage, bool held)
{
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    AuWork *w = AU_NEW(job->arena, AuWork);
    w->processors = (uint32_t)(cores < 1 ? 1 : cores > MOST_THREADS ? MOST_THREADS : cores);
    w->held = held;
    w->stage = stage;
    w->optimize = job->options->optimize ? job->options->optimize - 1 : 3;
    if (pthread_mutex_init(&w->lock, NULL) == 0) {
        if (pthread_cond_init(&w->changed, NULL) == 0) return job->work = w, true;
        pthread_mutex_destroy(&w->lock);
    }
    au_error(job->diags, AU_E0003, (AuSpan){0}, "no memory for threads");
    return false;
}

void emission_free(AuJob *job)
{
    AuWork *w = job->work;
    if (!w) return;
    job->work = NULL;
    pthread_mutex_lock(&w->lock);
    w->next = NULL, w->waiting = 0;
    pthread_mutex_unlock(&w->lock);
    join(w);
    for (AuPiece *p = w->ungathered; p; p = p->next) {
        au_arena_free(p->made);
        au_arena_free(p->kept);
    }
    au_arena_free(w->building);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
}

/* Loops that several kernels have, of which the first has the code: objects of hosts are linked together. */
static void share(AuJob *job, AuWork *w, const AuVariant *built)
{
    if (!built->arch->machine) return;
    if (!w->parts) w->parts = kernel_part_table(job->arena);
    const char *prefix = variant_prefix(w->building, built, built->arch->name),
               *plain = variant_prefix(w->building, built, built->arch->plain);
    for (uint32_t n = 0; n < built->kernel_count; n++)
        kernel_find_parts(built->kernels[n], w->parts, prefix, plain, false);
}

/* Functions of them that this variant's object defines: others look for them there. */
static void name_parts(AuJob *job, AuVariant *v, const AuVariant *built)
{
    uint32_t all = 0;
    for (uint32_t n = 0; n < built->kernel_count; n++) all += built->kernels[n]->part_count;
    v->part_names = AU_NEW_ARRAY(job->arena, const char *, all);
    for (uint32_t n = 0; n < built->kernel_count; n++)
        for (uint32_t i = 0; i < built->kernels[n]->part_count; i++) {
            const AuPart *part = &built->kernels[n]->parts[i];
            if (part->is_first) v->part_names[v->part_name_count++] = part->name;
        }
}

static void add(AuJob *job, AuWork *w, AuVariant *v, const AuVariant *built)
{
    share(job, w, built);
    name_parts(job, v, built);
    AuPiece *p = AU_NEW(job->arena, AuPiece);
    *p = (AuPiece){.target = v->target,
                   .arch = v->arch,
                   .count = v->kernel_count,
                   .name = v->kernel_count ? v->launches[0].entry : ""};
    memcpy(p->kernels, built->kernels, sizeof p->kernels);
    p->kept = au_arena_beside(job->arena);
    p->made = w->building;
    w->building = NULL;
    v->piece = p;
    pthread_mutex_lock(&w->lock);
    if (w->last) w->last->next = p;
    w->last = p;
    if (!w->next) w->next = p;
    if (!w->ungathered) w->ungathered = p;
    w->waiting++;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
    if (w->held) return;
    start(w);
    help(w, w->processors);
}

bool emission_build(AuJob *job, AuDiags *diags, AuVariant *v, AuVariantBuild *build)
{
    AuWork *w = job->work;
    if (!w) return build(job->arena, diags, v, job->name);
    const AuShapes *given = v->shapes;
    w->building = au_arena_beside(job->arena);
    AuDiags said = au_diags_beside(w->building, diags);
    const bool good = build(w->building, &said, v, job->name);
    au_diags_take(diags, &said);
    if (good && v->schedule) {
        const AuVariant built = *v;
        variant_keep(job->arena, v, given);
        add(job, w, v, &built);
        return true;
    }
    au_arena_free(w->building);
    w->building = NULL;
    return good;
}

/* Said of the variant before in the same words: of no place, as of a stage that a target has not. */
static bool is_said(const AuDiags *diags, const AuDiag *d)
{
    const AuDiag *last = diags->last;
    return last && d->severity == AU_ERROR && last->code == d->code && !last->span.source &&
           !d->span.source && strcmp(last->message, d->message) == 0;
}

/* What was reported while code was made, and the code, into the compilation's own arena. */
static bool gather(AuJob *job, AuPiece *p)
{
    if (p->good) p->code.bytes = au_strndup(job->arena, p->code.bytes, p->code.length);
    for (const AuDiag *d = p->diags ? p->diags->first : NULL; d; d = d->next)
        if (!is_said(job->diags, d)) au_diags_repeat(job->diags, d);
    if (!p->good && !(p->diags && p->diags->errors))
        au_error(job->diags, AU_E0003, (AuSpan){0}, "no memory for the code of %s", p->name);
    au_arena_free(p->kept);
    p->kept = NULL;
    return p->good;
}

bool emission_wait(AuJob *job)
{
    AuWork *w = job->work;
    bool good = true;
    pthread_mutex_lock(&w->lock);
    const uint32_t waiting = w->waiting; /* threads that run take from it meanwhile */
    pthread_mutex_unlock(&w->lock);
    while (w->started + 1 < waiting && w->started + 1 < w->processors) {
        const uint32_t before = w->started;
        start(w);
        if (w->started == before) break;
    }
    help(w, 0);
    join(w);
    for (; w->ungathered; w->ungathered = w->ungathered->next)
        good = gather(job, w->ungathered) && good;
    return good;
}

bool emission_take(AuVariant *v)
{
    v->code = v->piece->code;
    return v->piece->good;
}

bool emission_code(AuJob *job)
{
    uint32_t most = 0, count = 0;
    job->work->held = false;
    if (!emission_wait(job)) return false;
    for (uint32_t b = 0; b < job->build_count; b++) most += job->builds[b].count;
    AuVariant **variants = AU_NEW_ARRAY(job->arena, AuVariant *, most + 1);
    for (uint32_t b = 0; b < job->build_count; b++)
        for (uint32_t n = 0; n < job->builds[b].count; n++) {
            variants[count] = &job->builds[b].variants[n];
            emission_take(variants[count++]);
        }
    if (job->work->stage != AU_CODE_IR) spills_avoid(job, variants, count);
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
    if (!host) return au_data_library(job->arena, job->diags, &image, "aule_module_v1", out);
    AuBlob data;
    if (!au_image_object(job->arena, job->diags, &image, "aule_module_v1", host, &data))
        return false;
    AU_PUSH(job->arena, objects, count, capacity, data);
    return au_link_shared(job->arena, job->diags, objects, count, "aule_module_v1", host, out);
}

/* For a static build: a header, C, an object or an archive. Of a header there is no code to be made. */
bool emission_embed(AuJob *job, AuBlob *out)
{
    AuEmbed e = {.arena = job->arena,
                 .diags = job->diags,
                 .emit = job->options->emit,
                 .name = job->name,
                 .attention = job->options->attention,
                 .builds = job->builds,
                 .build_count = job->build_count};
    if (!embed_is_possible(&e)) return false;
    if (job->work && !emission_code(job)) return false;
    e.module = descriptor(job);
    return e.module && embed_emit(&e, out);
}
