/* exec.c - see exec.h. */
#include "internal.h"

#include "aule/artifact.h"
#include "meaning.h"
#include "tensors.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool exec_fail(const Run *r, const char *what, const char *detail)
{
    ExecSuite *s = r->suite;
    snprintf(s->trouble, sizeof s->trouble, "%s: %s", what, detail);
    if (!s->is_quiet)
        fprintf(stderr, "%s %s [%s] %s on %s: %s: %s\n", r->c->script, r->dtype, r->c->sizes,
                r->c->how ? r->c->how : "", s->name, what, detail);
    return false;
}

bool exec_has(const Run *r, const char *word) { return r->c->how && strstr(r->c->how, word); }

/* ---- the case */

static char *read_file(AuArena *arena, const char *path, size_t *length)
{
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    char *text = au_alloc(arena, 1 << 16);
    *length = fread(text, 1, (1 << 16) - 1, f);
    fclose(f);
    return text;
}

static bool number_of(const char *list, const char *name, double *value)
{
    const size_t length = strlen(name);
    for (const char *at = list; at && *at; at = strchr(at, ' ')) {
        while (*at == ' ') at++;
        if (strncmp(at, name, length) == 0 && at[length] == '=') {
            *value = strtod(at + length + 1, NULL);
            return true;
        }
    }
    return false;
}

static bool bind(Run *r)
{
    double v;
    for (uint32_t n = 0; n < r->attn->size_count; n++) {
        const AuSize *s = &r->attn->sizes[n];
        if (s->fixed >= 0)
            r->sizes[n] = s->fixed;
        else if (number_of(r->c->sizes, s->name, &v))
            r->sizes[n] = (int64_t)v;
        else
            return exec_fail(r, "the case gives no size", s->name);
    }
    for (uint32_t n = 0; n < r->attn->param_count; n++) {
        const AuParam *p = &r->attn->params[n];
        if (r->c->params && number_of(r->c->params, p->name, &v))
            r->params[n] = p->dtype == AU_DT_F32 ? (double)(float)v : v;
        else if (p->default_value.i)
            r->params[n] =
                (double)(float)attn_scalar(r->attn, p->default_value, r->sizes, r->params);
        else
            return exec_fail(r, "the case gives no parameter", p->name);
        r->params_i64[n] = (int64_t)r->params[n];
    }
    return true;
}

/* `packed=N` among the sizes: as many sequences in the one batch. `pool=N`: states of a step, whose slots are passed. */
static void place_sequences(Run *r)
{
    double count = 0, batch = 0;
    if (!r->attn->linear) return;
    driver_add_sizes(r->attn);
    int64_t *own = &r->sizes[r->attn->linear->own_sizes - 1];
    if (number_of(r->c->sizes, "packed", &count)) own[0] = (int64_t)count + 1;
    if (!number_of(r->c->sizes, "pool", &count) || !number_of(r->c->sizes, "B", &batch)) return;
    own[1] = (int64_t)count;
    own[2] = (int64_t)batch;
}

static bool make_tensors(Run *r)
{
    uint32_t count;
    place_sequences(r);
    const AuTensorRow *rows = driver_tensors(r->arena, r->attn, r->grads, &count);
    for (uint32_t n = 0; n < count; n++) {
        int64_t shape[8];
        for (uint32_t d = 0; d < rows[n].rank; d++)
            shape[d] = (int64_t)attn_scalar(r->attn, rows[n].axes[d], r->sizes, r->params);
        if (!exec_add_tensor(r, rows[n].name, rows[n].dtype, shape, rows[n].rank, rows[n].role))
            return false;
    }
    return true;
}

const char *exec_widths(Run *r)
{
    AuText text = {.arena = r->arena};
    bool *is_width = AU_NEW_ARRAY(r->arena, bool, r->attn->size_count + 1);
    driver_find_widths(r->attn, is_width);
    for (uint32_t n = 0; n < r->attn->size_count; n++)
        if (is_width[n])
            au_text_add(&text, "%s%s=%d", text.length ? ";" : "", r->attn->sizes[n].name,
                        (int)r->sizes[n]);
    return text.length ? au_text_str(&text) : NULL;
}

bool exec_run(ExecSuite *suite, const ExecCase *c, const char *dtype)
{
    Run *r = calloc(1, sizeof *r);
    if (!r) return false;
    suite->result_count = 0;
    suite->trouble[0] = 0;
    *r = (Run){.suite = suite,
               .c = c,
               .dtype = dtype,
               .arena = au_arena_new(NULL),
               .random = 88172645463325252u ^ suite->seed * 0x9E3779B97F4A7C15u};
    r->diags = au_diags_new(r->arena);
    size_t length = 0;
    uint32_t count = 0;
    const char *text =
        read_file(r->arena, au_format(r->arena, "%s/%s", suite->scripts, c->script), &length);
    bool good = text != NULL || exec_fail(r, "read", suite->scripts);
    const AuScript *script = NULL;
    if (good) {
        AuNames *names = r->names = au_names_new(r->arena);
        script = front_parse(r->arena, names, r->diags,
                             au_source_add(r->diags, c->script, text, length));
        AuAttn **all = front_check(r->arena, names, r->diags, script, &count);
        good = (count == 1 && !r->diags->errors) || exec_fail(r, "front end", "errors");
        if (good) r->attn = all[0];
    }
    if (good && !exec_has(r, "forward")) {
        attn_simplify(r->attn);
        r->grads = attn_gradients(r->attn, r->arena, r->diags);
        AuText said = {.arena = r->arena};
        if (!r->grads) au_diags_render(r->diags, &said);
        good = r->grads || exec_fail(r, "gradients", au_text_str(&said));
    }
    if (good && exec_has(r, "parts")) driver_add_parts(r->attn);
    good = good && bind(r) && make_tensors(r) && exec_plant(r) &&
           (suite->device ? exec_on_device(r, text, length) : exec_interpreted(r, script)) &&
           exec_check(r);
    for (uint32_t n = 0; n < r->tensor_count; n++) aule_buffer_free(r->tensors[n].buffer);
    au_arena_free(r->arena);
    free(r);
    return good;
}

ExecSuite *exec_open(const char *device, const char *scripts)
{
    ExecSuite *s = calloc(1, sizeof *s);
    aule_error *error = NULL;
    char id[64];
    if (s) *s = (ExecSuite){.name = device, .scripts = scripts};
    if (s && strstr(device, "-ir:")) return s;
    if (s && strchr(device, '/')) {
        s->arch = strchr(device, '/') + 1;
        snprintf(id, sizeof id, "%.*s", (int)strcspn(device, "/"), device);
    }
    if (!s || aule_device_open(s->arch ? id : device, NULL, &s->device, &error)) {
        fprintf(stderr, "%s: %s\n", device, aule_error_message(error));
        aule_error_free(error);
        free(s);
        return NULL;
    }
    s->info = aule_device_get_info(s->device);
    const char *code = getenv("AULE_OPENCL_CODE");
    if (code && strcmp(code, "spirv") == 0 && !strstr(s->info->features, "SPIR-V_1.0")) {
        fprintf(stderr, "%s: it takes no SPIR-V\n", device);
        exec_close(s);
        return NULL;
    }
    return s;
}

bool exec_is_in_part(ExecTally *tally)
{
    const char *part = getenv("AULE_TEST_PART"), *turn = getenv("AULE_TEST_TURN");
    char *end = NULL;
    const unsigned of = part ? (unsigned)strtoul(part, &end, 10) : 0;
    if (end && *end == '/') turn = end + 1;
    const unsigned which = turn && of ? (unsigned)(strtoul(turn, NULL, 10) % of) : 0;
    const unsigned drawn = ++tally->seen * 2654435761u >> 16; /* Knuth's multiplicative hash */
    return of < 2 || drawn % of == which;
}

bool exec_all(ExecTally *tally, const char *device, const char *scripts, const ExecCase *cases,
              unsigned count, ExecChoice *choose, const void *of)
{
    ExecSuite *suite = exec_open(device, scripts);
    if (!suite) return false;
    for (unsigned n = 0; n < count; n++)
        for (unsigned turn = 0; turn < EXEC_TURNS; turn++) {
            const char *dtype = choose(of, n, turn);
            if (!dtype || !exec_is_in_part(tally) || (tally->stops && tally->failed)) continue;
            *(exec_run(suite, &cases[n], dtype) ? &tally->passed : &tally->failed) += 1;
        }
    exec_close(suite);
    return true;
}

int exec_report(const ExecTally *tally)
{
    printf("%u passed, %u failed\n", tally->passed, tally->failed);
    return tally->failed != 0;
}

void exec_be_strict(ExecSuite *suite, uint64_t seed)
{
    suite->is_strict = true;
    suite->seed = seed;
}

void exec_be_quiet(ExecSuite *suite) { suite->is_quiet = true; }

const char *exec_trouble(const ExecSuite *suite) { return suite->trouble; }

double exec_error(const ExecSuite *suite, uint32_t n, const char **name)
{
    *name = n < suite->result_count ? suite->results[n].name : NULL;
    return *name ? suite->results[n].error : 0;
}

void exec_close(ExecSuite *suite)
{
    if (!suite) return;
    if (suite->device) aule_device_close(suite->device);
    free(suite);
}
