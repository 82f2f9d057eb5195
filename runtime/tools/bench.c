/* bench.c - aule bench: times one call on random data. Medians of single runs, by the device's clock where it has one.
 * FLOPs are those of all pairs, 2 B H S T (D + E), and 2.5 times as many backward: what a mask leaves out is not known here, so the rate of a masked attention reads
 * higher than what its arithmetic units did. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "session.h"

enum { WARM_UP = 3, LEAST_RUNS = 9, MOST_RUNS = 1000 };
static const double LEAST_SECONDS = 0.5;

/* ---- shapes */

typedef struct Shape {
    int64_t at[MAX_ARGS]; /* by index of the signature's sizes; -1: not given */
} Shape;

static int parse_shape(const AuSession *s, const char *text, Shape *shape)
{
    for (uint32_t i = 0; i < MAX_ARGS; i++) shape->at[i] = -1;
    while (text && *text) {
        size_t length = strcspn(text, "="), item = strcspn(text, ",");
        char *end = NULL;
        long long value = length < item ? strtoll(text + length + 1, &end, 10) : -1;
        uint32_t i = 0;
        while (i < s->signature->size_count &&
               (strlen(s->signature->sizes[i].name) != length ||
                memcmp(s->signature->sizes[i].name, text, length) != 0))
            i++;
        if (length >= item || end != text + item || value < 0)
            return command_fail(EXIT_USAGE, "--shape: '%.*s', expected NAME=NUMBER", (int)item,
                                text);
        if (i == s->signature->size_count)
            return command_fail(EXIT_USAGE, "--shape: %s has no size '%.*s'", s->signature->name,
                                (int)length, text);
        shape->at[i] = value;
        text += item + (text[item] == ',');
    }
    return 0;
}

/* Widths that were not given: those of the first kernel for the device and type that agrees with what was. */
static void add_fixed(const AuSession *s, uint32_t dtype, Shape *shape)
{
    const aule_variant_v1 *v = s->signature->variants;
    const char *target = aule_device_get_info(s->device)->backend;
    for (uint32_t i = 0; i < s->signature->variant_count; i++) {
        bool fits = v->dtype == dtype && strcmp(v->target, target) == 0;
        for (uint32_t j = 0; fits && j < v->fixed_count; j++)
            fits =
                shape->at[v->fixed[j].size] < 0 || shape->at[v->fixed[j].size] == v->fixed[j].value;
        for (uint32_t j = 0; fits && j < v->fixed_count; j++)
            shape->at[v->fixed[j].size] = v->fixed[j].value;
        if (fits) return;
        v = (const aule_variant_v1 *)(const void *)((const char *)v + v->struct_size);
    }
}

/* The size that is axis 1 of the tensor in [role], or -1. */
static int32_t heads_of(const AuSession *s, uint32_t role)
{
    for (uint32_t i = 0; i < s->signature->tensor_count; i++) {
        const aule_tensor_v1 *t = session_tensor(s, i);
        if (t->role != role || t->rank != 4 || t->axes[1].length != 1) continue;
        if ((t->axes[1].code[0] & 255u) == AULE_E_SIZE) return (int32_t)(t->axes[1].code[0] >> 8);
    }
    return -1;
}

/* Key and value heads that were not given: as many as query heads. */
static void add_heads(const AuSession *s, Shape *shape)
{
    int32_t q = heads_of(s, AULE_ROLE_Q),
            others[] = {heads_of(s, AULE_ROLE_K), heads_of(s, AULE_ROLE_V)};
    for (int i = 0; q >= 0 && i < 2; i++)
        if (others[i] >= 0 && shape->at[others[i]] < 0) shape->at[others[i]] = shape->at[q];
}

/* ---- data */

typedef struct Random {
    uint64_t state;
} Random;

static double uniform(Random *r) /* splitmix64; (0, 1) */
{
    uint64_t z = r->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return ((double)((z ^ z >> 31) >> 11) + 0.5) * 0x1p-53;
}

static double normal(Random *r)
{
    return sqrt(-2 * log(uniform(r))) * cos(6.283185307179586 * uniform(r));
}

static int make_input(AuSession *s, uint32_t index, uint32_t operand, const Shape *shape,
                      Random *random)
{
    const aule_tensor_v1 *t = session_tensor(s, index);
    AuArray *array = &s->arrays[index];
    int64_t extents[8];
    AuWhy why;
    for (uint32_t axis = 0; axis < t->rank; axis++) {
        aule_value value;
        aule_error *error = NULL;
        if (aule_evaluate(&t->axes[axis], shape->at, s->signature->size_count, NULL, 0, &value,
                          &error))
            return command_error(error);
        uint32_t size = t->axes[axis].code[0] >> 8;
        if (value.i < 0)
            return command_fail(
                EXIT_USAGE, "--shape does not give %s, of which %s has an axis",
                t->axes[axis].length == 1 ? s->signature->sizes[size].name : "the sizes", t->name);
        extents[axis] = value.i;
    }
    uint32_t dtype = t->dtype == AULE_OPERAND ? operand : t->dtype;
    bool is_float = dtype == AULE_F32 || dtype == AULE_F16 || dtype == AULE_BF16;
    if (!array_new(array, is_float ? AULE_F32 : dtype, (int32_t)t->rank, extents, &why))
        return command_fail(EXIT_WRONG, "%s", why.text);
    float *values = array->data;
    if (is_float)
        for (size_t i = 0; i < array->bytes / 4; i++) values[i] = (float)normal(random);
    else if (dtype == AULE_BOOL)
        memset(array->data, 1, array->bytes);
    return is_float && !array_convert(array, dtype, &why) ? command_fail(EXIT_WRONG, "%s", why.text)
                                                          : 0;
}

static int make_inputs(AuSession *s, AuOptions *options, Shape *shape)
{
    const char *name = options_take(options, "dtype");
    uint32_t dtype = name ? array_dtype_named(name) : AULE_F32;
    Random random = {1};
    if (dtype != AULE_F32 && dtype != AULE_F16 && dtype != AULE_BF16)
        return command_fail(EXIT_USAGE, "--dtype is '%s', expected f32, f16 or bf16", name);
    int status = parse_shape(s, options_take(options, "shape"), shape);
    if (!status) status = session_read(s, options);
    if (status) return status;
    add_fixed(s, dtype, shape);
    add_heads(s, shape);
    for (uint32_t i = 0; i < s->signature->tensor_count; i++) {
        const aule_tensor_v1 *t = session_tensor(s, i);
        bool wanted = !session_is_of_backward(t) || (s->backward && t->role == AULE_ROLE_DOUT);
        if (session_is_made(t) || !wanted || (t->flags & AULE_TENSOR_IN_K) || s->arrays[i].data)
            continue;
        status = make_input(s, i, dtype, shape, &random);
        if (status) return status;
    }
    return 0;
}

/* ---- timing */

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* Milliseconds of one run of the steps. */
static int time_one(AuSession *s, AuStep from, AuStep to, double *milliseconds)
{
    aule_error *error = NULL;
    aule_event *first = NULL, *last = NULL;
    uint64_t nanoseconds = 0;
    int status = 0;
    if (aule_event_record(s->device, NULL, &first, &error)) return command_error(error);
    for (AuStep step = from; !status && step <= to; step++) status = session_run(s, step);
    if (!status && aule_event_record(s->device, NULL, &last, &error)) status = command_error(error);
    if (!status && aule_event_elapsed(first, last, &nanoseconds, &error))
        status = command_error(error);
    aule_event_free(first);
    aule_event_free(last);
    *milliseconds = (double)nanoseconds * 1e-6;
    return status;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

typedef struct Times {
    double at[MOST_RUNS]; /* milliseconds, sorted */
    int count;
} Times;

static int measure(AuSession *s, AuStep from, AuStep to, Times *times)
{
    double discard, begin = now();
    for (int i = 0; i < WARM_UP; i++) {
        int status = time_one(s, from, to, &discard);
        if (status) return status;
    }
    times->count = 0;
    while (times->count < LEAST_RUNS ||
           (times->count < MOST_RUNS && now() - begin < LEAST_SECONDS)) {
        int status = time_one(s, from, to, &times->at[times->count++]);
        if (status) return status;
    }
    qsort(times->at, (size_t)times->count, sizeof times->at[0], by_value);
    return 0;
}

/* ---- report */

static double flops(const AuSession *s)
{
    const AuArray *q = NULL, *k = NULL, *o = NULL;
    for (uint32_t i = 0; i < s->signature->tensor_count; i++) {
        uint32_t role = session_tensor(s, i)->role;
        if (role == AULE_ROLE_Q) q = &s->arrays[i];
        if (role == AULE_ROLE_K) k = &s->arrays[i];
        if (role == AULE_ROLE_OUTPUT) o = &s->arrays[i];
    }
    if (!q || !k || !o || q->rank != 4 || k->rank != 4 || o->rank != 4) return 0;
    double pairs =
        (double)q->shape[0] * (double)q->shape[1] * (double)q->shape[2] * (double)k->shape[2];
    return 2 * pairs * (double)(q->shape[3] + o->shape[3]);
}

static void print_text(const char *text) /* as JSON */
{
    putchar('"');
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') putchar('\\');
        if ((unsigned char)*text >= 32) putchar(*text);
    }
    putchar('"');
}

/* "q[1,16,4096,64] k[..." of what was given. */
static void shape_text(const AuSession *s, char *text, size_t bytes)
{
    size_t used = 0;
    text[0] = 0;
    for (uint32_t i = 0; i < s->signature->tensor_count && used < bytes - 1; i++) {
        const AuArray *array = &s->arrays[i];
        if (!array->data || session_is_made(session_tensor(s, i))) continue;
        used += (size_t)snprintf(text + used, bytes - used, "%s%s[", used ? " " : "",
                                 session_tensor(s, i)->name);
        for (int32_t axis = 0; axis < array->rank && used < bytes - 1; axis++)
            used += (size_t)snprintf(text + used, bytes - used, "%s%lld", axis ? "," : "",
                                     (long long)array->shape[axis]);
        if (used < bytes - 1) used += (size_t)snprintf(text + used, bytes - used, "]");
    }
}

/* What was measured: the steps, and how many times forward's work they are. */
typedef struct Result {
    const char *name;
    AuStep from, to;
    double work;
    Times times;
} Result;

static void report_numbers(const AuSession *s, const Result *r, bool json)
{
    double median = r->times.at[r->times.count / 2], rate = r->work * flops(s) / median * 1e-6;
    double quartiles = r->times.at[r->times.count * 3 / 4] - r->times.at[r->times.count / 4];
    if (json) {
        printf("\"ms\": %.6f, \"ms_quartiles\": %.6f, \"ms_least\": %.6f, \"runs\": %d, "
               "\"gflops\": %.3f",
               median, quartiles, r->times.at[0], r->times.count, rate);
        return;
    }
    printf("  %s: median %.4f ms, quartiles %.4f ms apart, least %.4f ms, %d runs", r->name, median,
           quartiles, r->times.at[0], r->times.count);
    if (rate > 0) printf(", %.1f GFLOP/s of all pairs", rate);
    printf("\n");
}

static void report(const AuSession *s, const Result *results, size_t count, bool json)
{
    const aule_variant_v1 *v = aule_plan_variant(s->steps[results[0].to].plan);
    const aule_device_info *info = aule_device_get_info(s->device);
    char shape[512];
    shape_text(s, shape, sizeof shape);
    if (!json) {
        printf("%s on %s (%s, %s): %s %s\n", s->signature->name, info->id, info->name, v->arch,
               array_dtype_name(v->dtype), shape);
        for (size_t i = 0; i < count; i++) report_numbers(s, &results[i], false);
        return;
    }
    printf("{\"attention\": ");
    print_text(s->signature->name);
    printf(", \"operation\": \"%s\", \"device\": \"%s\", \"name\": ", results[0].name, info->id);
    print_text(info->name);
    printf(", \"arch\": \"%s\", \"schedule\": ", v->arch);
    print_text(v->schedule);
    printf(", \"dtype\": \"%s\", \"shape\": ", array_dtype_name(v->dtype));
    print_text(shape);
    printf(", ");
    report_numbers(s, &results[0], true);
    for (size_t i = 1; i < count; i++) {
        printf(", \"%s\": {", results[i].name);
        report_numbers(s, &results[i], true);
        printf("}");
    }
    printf("}\n");
}

/* Forward; or backward, which needs what one run of forward made, and then both together. */
static int measure_all(AuSession *s, Result *results, size_t *count)
{
    static const Result forward[] = {{.name = "forward", .to = STEP_FORWARD, .work = 1}};
    static const Result backward[] = {
        {.name = "backward", .from = STEP_BACKWARD, .to = STEP_BACKWARD, .work = 2.5},
        {.name = "both", .to = STEP_BACKWARD, .work = 3.5}};
    int status = s->backward ? session_run(s, STEP_FORWARD) : 0;
    *count = s->backward ? 2 : 1;
    for (size_t i = 0; !status && i < *count; i++) {
        results[i] = s->backward ? backward[i] : forward[i];
        status = measure(s, results[i].from, results[i].to, &results[i].times);
    }
    return status;
}

int command_bench(AuOptions *options)
{
    AuSession session;
    Shape shape;
    Result results[2];
    size_t count;
    bool json = options_flag(options, "json"), backward = options_flag(options, "backward");
    int status = session_open(&session, options);
    if (!status && backward && session_find_role(&session, AULE_ROLE_DOUT) < 0)
        status = command_fail(EXIT_WRONG, "--backward: the artifact has no backward kernels");
    session.backward = backward;
    if (!status) status = make_inputs(&session, options, &shape);
    if (!status) status = session_prepare(&session);
    if (!status) status = measure_all(&session, results, &count);
    if (!status) report(&session, results, count, json);
    session_close(&session);
    return status;
}
