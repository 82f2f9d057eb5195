/* serve.c - aule bench --serve: times what a server does over keys in pages, of an artifact that has the layouts for it (aulec --serve): a step
 * in which every sequence has few rows, and one in which the first has a chunk of its prompt beside rows of the others. Results are compared with
 * dense calls of some of the sequences in the same run. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

enum { SHAPE_BYTES = 1024, MOST_SEQUENCES = 65536 };

typedef struct Serve {
    AuServed of;
    char shape[SHAPE_BYTES]; /* of.shape */
    char names[3][128];      /* of.batch, of.queries, of.keys */
    int64_t *lengths, *rows, *starts;
    uint64_t batch, page, chunk, queries;
    int64_t pages, total; /* rows of q where they are packed */
    bool json;
} Serve;

/* ---- the command line */

/* "1024" or "1024,7,300", which sequences have in turns. */
static int read_lengths(Serve *s, const char *text)
{
    uint64_t values[256];
    size_t count = 0;
    for (const char *at = text; at; at = *at ? at + 1 : NULL) {
        const size_t length = strcspn(at, ",");
        if (count == sizeof values / sizeof *values ||
            !parse_whole(at, length, 1u << 30, &values[count++]))
            return command_fail(EXIT_USAGE,
                                "--keys is '%s', expected a number of keys, or up to 256 of them "
                                "with commas",
                                text);
        at += length;
    }
    for (uint64_t b = 0; b < s->batch; b++) s->lengths[b] = (int64_t)values[b % count];
    return 0;
}

static int read_options(Serve *s, AuOptions *options)
{
    const char *keys = options_take(options, "keys");
    s->batch = 8, s->page = 16, s->chunk = 256, s->queries = 1;
    s->json = options_flag(options, "json");
    int status = options_number(options, "batch", 1, MOST_SEQUENCES, &s->batch);
    if (!status) status = options_number(options, "page", 1, 1 << 20, &s->page);
    if (!status) status = options_number(options, "chunk", 1, 1 << 20, &s->chunk);
    if (!status) status = options_number(options, "queries", 1, 1 << 20, &s->queries);
    if (status) return status;
    if (options_flag(options, "backward"))
        return command_fail(EXIT_USAGE, "--backward: caches have no gradients");
    if (options_take(options, "layout"))
        return command_fail(EXIT_USAGE, "--layout: --serve takes those that it needs");
    s->lengths = calloc(3 * s->batch + 1, sizeof *s->lengths);
    if (!s->lengths) return command_fail(EXIT_WRONG, "out of memory");
    s->rows = s->lengths + s->batch, s->starts = s->rows + s->batch;
    s->of.lengths = s->lengths;
    return read_lengths(s, keys ? keys : "1024");
}

static void count_pages(Serve *s)
{
    s->of.sequences = (int64_t)s->batch, s->of.page = (int64_t)s->page, s->of.entries = 1;
    for (uint64_t b = 0; b < s->batch; b++) {
        const int64_t pages = (s->lengths[b] + s->of.page - 1) / s->of.page;
        if (pages > s->of.entries) s->of.entries = pages;
        s->pages += pages;
    }
    if (!s->pages) s->pages = 1;
}

/* ---- shapes */

static const aule_tensor_v1 *of_role(const AuSession *s, uint32_t role)
{
    const int32_t index = session_find_role(s, role);
    return index < 0 ? NULL : session_tensor(s, (uint32_t)index);
}

/* Names of the script's axes, and sizes that the command line gives; heads that it does not are 32, and 8 of keys. */
static int read_names(Serve *s, AuOptions *options)
{
    AuSession dense;
    const char *shape = options_take(options, "shape");
    int status = session_open_layout(&dense, options, "");
    const aule_tensor_v1 *q = status ? NULL : of_role(&dense, AULE_ROLE_Q),
                         *k = status ? NULL : of_role(&dense, AULE_ROLE_K);
    if (!status && (!q || !k || q->rank != 4 || k->rank != 4 || of_role(&dense, AULE_ROLE_STATE)))
        status = command_fail(EXIT_WRONG,
                              "--serve: %s has no keys in a cache, a recurrence has "
                              "states",
                              dense.signature->name);
    if (!status && shape && strlen(shape) > SHAPE_BYTES / 2)
        status = command_fail(EXIT_USAGE, "--shape is too long");
    if (!status) {
        snprintf(s->shape, sizeof s->shape, "%s", shape ? shape : "");
        const char *own[] = {session_axis_name(&dense, q, 0), session_axis_name(&dense, q, 2),
                             session_axis_name(&dense, k, 2)};
        for (int n = 0; n < 3; n++) snprintf(s->names[n], sizeof s->names[n], "%s", own[n]);
        for (int n = 0; !status && n < 3; n++)
            if (session_says_size(s->shape, s->names[n]))
                status = command_fail(EXIT_USAGE, "--shape: %s is said by %s", s->names[n],
                                      n == 0   ? "--batch"
                                      : n == 1 ? "--queries and --chunk"
                                               : "--keys");
        const char *heads[] = {session_axis_name(&dense, q, 1), session_axis_name(&dense, k, 1)};
        if (!session_says_size(s->shape, heads[0]) && !session_says_size(s->shape, heads[1]))
            session_add_size(&dense, s->shape, sizeof s->shape, heads[0], "", 32),
                session_add_size(&dense, s->shape, sizeof s->shape, heads[1], "", 8);
        s->of.shape = s->shape, s->of.batch = s->names[0];
        s->of.queries = s->names[1], s->of.keys = s->names[2];
    }
    session_close(&dense);
    return status;
}

static void add_sizes(const Serve *s, const AuSession *session, char *shape, bool packed)
{
    const AuServed *of = &s->of;
    snprintf(shape, SHAPE_BYTES, "%s", s->shape);
    session_add_size(session, shape, SHAPE_BYTES, of->batch, "", of->sequences);
    session_add_size(session, shape, SHAPE_BYTES, of->queries, "",
                     packed ? s->total : (int64_t)s->queries);
    session_add_size(session, shape, SHAPE_BYTES, of->queries, "_ends", of->sequences + 1);
    session_add_size(session, shape, SHAPE_BYTES, of->queries, "_most", (int64_t)s->chunk);
    session_add_size(session, shape, SHAPE_BYTES, of->keys, "", of->entries * of->page);
    session_add_size(session, shape, SHAPE_BYTES, of->keys, "_pages", s->pages);
    session_add_size(session, shape, SHAPE_BYTES, of->keys, "_slots", of->page);
    session_add_size(session, shape, SHAPE_BYTES, of->keys, "_entries", of->entries);
}

/* ---- arguments */

/* Pages of a sequence lie apart; entries behind its last one are none. */
static void fill_table(const Serve *s, AuArray *table)
{
    int32_t *values = table->data;
    int64_t next = 0;
    for (int64_t b = 0; b < s->of.sequences; b++)
        for (int64_t n = 0; n < s->of.entries; n++)
            *values++ =
                n * s->of.page < s->lengths[b] ? (int32_t)session_page(next++, s->pages) : -1;
}

static void fill_lists(const Serve *s, AuSession *session)
{
    fill_table(s, session_array(session, s->of.keys, "_table"));
    int32_t *lengths = session_array(session, s->of.keys, "_lengths")->data;
    AuArray *starts = session_array(session, s->of.queries, "_starts");
    for (int64_t b = 0; b < s->of.sequences; b++) lengths[b] = (int32_t)s->lengths[b];
    for (int64_t b = 0; starts && b <= s->of.sequences; b++)
        ((int32_t *)starts->data)[b] = (int32_t)(b == s->of.sequences ? s->total : s->starts[b]);
}

/* Scales with which codes are numbers as others are; random ones may be of any size. */
static int fill_scales(AuSession *session)
{
    AuWhy why;
    static const char *const scales[] = {"k_scale", "v_scale"};
    for (int n = 0; n < 2; n++) {
        AuArray *scale = session_array(session, scales[n], "");
        const int32_t of = session_find_role(session, n ? AULE_ROLE_V : AULE_ROLE_K);
        if (!scale || !scale->data || of < 0) continue;
        const uint32_t stored = session_tensor(session, (uint32_t)of)->dtype, own = scale->dtype;
        if (!array_convert(scale, AULE_F32, &why)) return command_fail(EXIT_WRONG, "%s", why.text);
        const float unit = stored == AULE_I8 ? 0x1p-6f : stored == AULE_U8 ? 0.25f : 1.0f;
        float *values = scale->data;
        for (size_t i = 0; i < scale->bytes / sizeof *values; i++)
            values[i] = unit * (0.75f + 0.25f * fabsf(tanhf(values[i])));
        if (!array_convert(scale, own, &why)) return command_fail(EXIT_WRONG, "%s", why.text);
    }
    return 0;
}

static int no_files(const AuSession *session)
{
    for (uint32_t i = 0; i < session->signature->tensor_count; i++)
        if (session->arrays[i].data)
            return command_fail(EXIT_USAGE, "--%s: --serve makes what it runs on",
                                session_tensor(session, i)->name);
    return 0;
}

/* Params of the layout, which shapes do not say. */
static void add_most(const Serve *s, AuSession *session)
{
    const size_t length = strlen(s->of.queries);
    for (uint32_t i = 0; i < session->signature->param_count; i++) {
        const aule_param_v1 *p = session_param(session->signature, i);
        if (strncmp(p->name, s->of.queries, length) == 0 && strcmp(p->name + length, "_most") == 0)
            session->param_args[session->param_count++] =
                (aule_param_arg){p->name, {.type = AULE_VALUE_INT, .i = (int64_t)s->chunk}};
    }
}

static int open_case(Serve *s, AuSession *session, bool packed)
{
    char layout[320], shape[SHAPE_BYTES];
    const AuServed *of = &s->of;
    uint32_t dtype;
    snprintf(layout, sizeof layout, "%s%s%s=paged", packed ? of->queries : "",
             packed ? "=packed:most," : "", of->keys);
    int status = session_open_layout(session, of->options, layout);
    if (!status) status = session_dtype(of->options, &dtype);
    if (!status) status = session_read(session, of->options, dtype);
    if (!status) status = no_files(session);
    if (status) return status;
    session->param_count = 0; /* which are read again with the shapes */
    add_sizes(s, session, shape, packed);
    status = session_make_shaped(session, of->options, shape);
    if (status) return status;
    if (packed) add_most(s, session);
    fill_lists(s, session);
    status = fill_scales(session);
    return status ? status : session_prepare(session);
}

/* ---- cases */

/* Of keys and values in use, as they are stored, with their scales. */
static double bytes_read(const Serve *s, const AuSession *session)
{
    double slots = 0, keys = 0;
    for (int64_t b = 0; b < s->of.sequences; b++) keys += (double)s->lengths[b];
    for (uint32_t i = 0; i < session->signature->tensor_count; i++) {
        const aule_tensor_v1 *t = session_tensor(session, i);
        const AuArray *array = &session->arrays[i];
        const bool cached = t->role == AULE_ROLE_K || t->role == AULE_ROLE_V ||
                            t->flags & (AULE_TENSOR_SPREADS | AULE_TENSOR_APPENDED);
        if (cached && array->data && array->rank == 4 && array->shape[0] == s->pages &&
            array->shape[2] == s->of.page)
            slots += (double)array->bytes / (double)(s->pages * s->of.page);
    }
    return keys * slots;
}

static void keys_text(const Serve *s, char *text, size_t bytes)
{
    int64_t least = s->lengths[0], most = least;
    for (int64_t b = 1; b < s->of.sequences; b++) {
        if (s->lengths[b] < least) least = s->lengths[b];
        if (s->lengths[b] > most) most = s->lengths[b];
    }
    if (least == most)
        snprintf(text, bytes, "%lld keys", (long long)most);
    else
        snprintf(text, bytes, "%lld to %lld keys", (long long)least, (long long)most);
}

static void report(const Serve *s, AuSession *session, const char *name, const AuTimes *times,
                   double difference)
{
    const aule_variant_v1 *v = aule_plan_variant(session->steps[STEP_FORWARD].plan);
    const aule_device_info *info = aule_device_get_info(session->device);
    const int32_t k = session_find_role(session, AULE_ROLE_K);
    const char *stored = array_dtype_name(session->arrays[k].dtype);
    const double us = times->at[times->count / 2] * 1e3,
                 apart = (times->at[times->count * 3 / 4] - times->at[times->count / 4]) * 1e3,
                 rate = bytes_read(s, session) / us * 1e-3;
    if (s->json) {
        printf("{\"attention\": ");
        bench_print_text(session->signature->name);
        printf(", \"step\": \"%s\", \"device\": \"%s\", \"name\": ", name, info->id);
        bench_print_text(info->name);
        printf(", \"arch\": \"%s\", \"schedule\": ", v->arch);
        bench_print_text(v->schedule);
        printf(", \"dtype\": \"%s\", \"stored\": \"%s\", \"sequences\": %llu, \"rows\": %lld, "
               "\"page\": %llu, \"us\": %.3f, \"us_quartiles\": %.3f, \"runs\": %d, \"gb_s\": "
               "%.3f, \"difference\": %.3g}\n",
               array_dtype_name(v->dtype), stored, (unsigned long long)s->batch,
               (long long)s->total, (unsigned long long)s->page, us, apart, times->count, rate,
               difference);
        return;
    }
    char keys[64];
    keys_text(s, keys, sizeof keys);
    printf("%s on %s (%s, %s), %s: %llu sequence%s of %s as %s, in pages of %llu\n",
           session->signature->name, info->id, info->name, v->arch, array_dtype_name(v->dtype),
           (unsigned long long)s->batch, s->batch == 1 ? "" : "s", keys, stored,
           (unsigned long long)s->page);
    printf("  %s, %lld rows: median %.1f us, quartiles %.1f us apart, %d runs, %.2f GB/s of keys "
           "and values; %.2g of the largest value from dense calls\n",
           name, (long long)s->total, us, apart, times->count, rate, difference);
}

static int run_case(Serve *s, const char *name, bool packed)
{
    AuSession session;
    AuTimes times;
    double difference = 0;
    s->total = 0;
    for (uint64_t b = 0; b < s->batch; b++) {
        s->starts[b] = s->total;
        s->rows[b] = (int64_t)(packed && b == 0 ? s->chunk : s->queries);
        s->total += s->rows[b];
    }
    int status = open_case(s, &session, packed);
    if (!status) status = bench_measure(&session, STEP_FORWARD, STEP_FORWARD, &times);
    if (!status) status = session_wait(&session);
    if (!status) status = session_fetch(&session);
    if (!status)
        status = serve_compare(&s->of, &session, s->rows, packed ? s->starts : NULL, &difference);
    if (!status) {
        report(s, &session, name, &times, difference);
        const double bound =
            session_dense_bound(aule_plan_variant(session.steps[STEP_FORWARD].plan));
        if (!(difference <= bound))
            status = command_fail(EXIT_WRONG,
                                  "%s: o is %.3g of the largest value from dense calls, expected "
                                  "at most %.3g",
                                  name, difference, bound);
    }
    session_close(&session);
    return status;
}

int command_bench_serve(AuOptions *options)
{
    Serve s = {.of = {.options = options}};
    int status = read_options(&s, options);
    if (!status) status = read_names(&s, options);
    if (!status) {
        count_pages(&s);
        status = run_case(&s, "decode", false);
    }
    if (!status) status = run_case(&s, "mixed", true);
    free(s.lengths);
    return status;
}
