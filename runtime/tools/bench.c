/* bench.c - aule bench: times one call on random data. Medians of single runs, by the device's clock where it has one.
 * FLOPs are those of all pairs, 2 B H S T (D + E), and 2.5 times as many backward, S and T of each sequence where a layout's lists say
 * them: what a mask leaves out is not known here, so the rate of a masked attention reads higher than what its arithmetic units did. A recurrence has no pairs and no rate. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench.h"

enum { WARM_UP = 3, LEAST_RUNS = 9 };
static const double LEAST_SECONDS = 0.5;

/* ---- timing */

static double seconds_of(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* Milliseconds of one run of the steps. */
static int time_one(AuSession *s, AuDirection from, AuDirection to, double *milliseconds)
{
    aule_error *error = NULL;
    aule_event *first = NULL, *last = NULL;
    uint64_t nanoseconds = 0;
    int status = 0;
    if (aule_event_record(s->device, NULL, &first, &error)) return command_error(error);
    for (AuDirection step = from; !status && step <= to; step++) status = session_run(s, step);
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

int bench_measure(AuSession *s, AuDirection from, AuDirection to, AuTimes *times)
{
    double discard, begin = seconds_of(CLOCK_MONOTONIC), worked;
    for (int i = 0; i < WARM_UP; i++) {
        int status = time_one(s, from, to, &discard);
        if (status) return status;
    }
    times->count = 0;
    worked = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    while (times->count < LEAST_RUNS || (times->count < BENCH_MOST_RUNS &&
                                         seconds_of(CLOCK_MONOTONIC) - begin < LEAST_SECONDS)) {
        int status = time_one(s, from, to, &times->at[times->count++]);
        if (status) return status;
    }
    times->processor = (seconds_of(CLOCK_PROCESS_CPUTIME_ID) - worked) * 1e3 / times->count;
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
        if (role == AULE_ROLE_STATE) return 0;
    }
    if (!q || !k || !o || q->rank != 4 || k->rank != 4 || o->rank != 4) return 0;
    return 2 * session_pairs(s) * (double)(q->shape[3] + o->shape[3]);
}

void bench_print_text(const char *text)
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
    AuDirection from, to;
    double work;
    AuTimes times;
} Result;

static void report_numbers(const AuSession *s, const Result *r, bool json)
{
    double median = r->times.at[r->times.count / 2], rate = r->work * flops(s) / median * 1e-6;
    double quartiles = r->times.at[r->times.count * 3 / 4] - r->times.at[r->times.count / 4];
    if (json) {
        printf("\"ms\": %.6f, \"ms_quartiles\": %.6f, \"ms_least\": %.6f, \"runs\": %d, "
               "\"processor_ms\": %.6f, \"gflops\": %.3f",
               median, quartiles, r->times.at[0], r->times.count, r->times.processor, rate);
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
    const uint64_t spilled = aule_plan_spilled(s->steps[results[0].to].plan);
    char shape[512];
    shape_text(s, shape, sizeof shape);
    if (!json) {
        printf("%s on %s (%s, %s): %s %s\n", s->signature->name, info->id, info->name, v->arch,
               array_dtype_name(v->dtype), shape);
        for (size_t i = 0; i < count; i++) report_numbers(s, &results[i], false);
        if (spilled)
            printf("  the driver's compiler spills registers: %llu bytes a thread\n",
                   (unsigned long long)spilled);
        return;
    }
    printf("{\"attention\": ");
    bench_print_text(s->signature->name);
    printf(", \"operation\": \"%s\", \"device\": \"%s\", \"name\": ", results[0].name, info->id);
    bench_print_text(info->name);
    printf(", \"arch\": \"%s\", \"schedule\": ", v->arch);
    bench_print_text(v->schedule);
    printf(", \"dtype\": \"%s\", \"shape\": ", array_dtype_name(v->dtype));
    bench_print_text(shape);
    printf(", \"spilled\": %llu, ", (unsigned long long)spilled);
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
        status = bench_measure(s, results[i].from, results[i].to, &results[i].times);
    }
    return status;
}

int command_bench(AuOptions *options)
{
    AuSession session;
    Result results[2];
    size_t count;
    if (options_flag(options, "serve")) return command_bench_serve(options);
    bool json = options_flag(options, "json"), backward = options_flag(options, "backward");
    int status = session_open(&session, options);
    if (!status && backward && session_find_role(&session, AULE_ROLE_DOUT) < 0)
        status = command_fail(EXIT_WRONG, "--backward: the artifact has no backward kernels");
    session.backward = backward;
    if (!status) status = session_make_inputs(&session, options);
    if (!status) status = session_prepare(&session);
    if (!status) status = measure_all(&session, results, &count);
    if (!status) report(&session, results, count, json);
    session_close(&session);
    return status;
}
