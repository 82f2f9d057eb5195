/* cuda_smoke.c - the runtime on an NVIDIA GPU, from end to end: cuda_smoke x.so --shape B=2,H=4,S=256,T=256 [--dtype f16] [--NAME ...]
 * Runs an artifact on random data, forward and backward if it has both: on the device's own stream, on a stream of the caller's, captured
 * in a graph, from two threads at once with a module for each, and beside `cpu` where the artifact has a kernel for that. The caller's
 * current context must stay what it was. Takes what `aule bench` takes. Ends with "N passed, M failed". */
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../runtime/tools/session.h"

/* ---- the driver, as a caller has it */

typedef struct Driver {
    int (*cuDeviceGet)(int *device, int index);
    int (*cuDevicePrimaryCtxRetain)(void **context, int device);
    int (*cuCtxSetCurrent)(void *context);
    int (*cuCtxGetCurrent)(void **context);
    int (*cuStreamCreate)(void **stream, unsigned flags);
    int (*cuStreamBeginCapture_v2)(void *stream, int mode);
    int (*cuStreamEndCapture)(void *stream, void **graph);
    int (*cuGraphInstantiateWithFlags)(void **exec, void *graph, unsigned long long flags);
    int (*cuGraphExecDestroy)(void *exec);
    int (*cuGraphDestroy)(void *graph);
    int (*cuGraphLaunch)(void *exec, void *stream);
    int (*cuStreamSynchronize)(void *stream);
    int (*cuMemsetD8Async)(uint64_t at, unsigned char value, size_t bytes, void *stream);
} Driver;

static bool open_driver(Driver *d)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    bool fine = library != NULL;
    void *found;
#define FIND(name)                                                                                 \
    found = library ? dlsym(library, #name) : NULL;                                                \
    memcpy(&d->name, &found, sizeof found);                                                        \
    fine = fine && found;
    FIND(cuDeviceGet)
    FIND(cuDevicePrimaryCtxRetain)
    FIND(cuCtxSetCurrent)
    FIND(cuCtxGetCurrent)
    FIND(cuStreamCreate)
    FIND(cuStreamBeginCapture_v2)
    FIND(cuStreamEndCapture)
    FIND(cuGraphInstantiateWithFlags)
    FIND(cuGraphExecDestroy)
    FIND(cuGraphDestroy)
    FIND(cuGraphLaunch)
    FIND(cuStreamSynchronize)
    FIND(cuMemsetD8Async)
    return fine;
}

/* ---- counting */

typedef struct Smoke {
    Driver cu;
    AuSession session;
    void *context, *stream;
    void *expected[MAX_ARGS]; /* what the first run made, by index of the signature */
    int passed, failed;
} Smoke;

static void tell(Smoke *s, bool fine, const char *what, const char *more)
{
    printf("%s %s%s\n", fine ? "pass" : "FAIL", what, more);
    s->passed += fine;
    s->failed += !fine;
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

/* ---- results */

static double element(const void *data, uint32_t dtype, size_t n)
{
    const uint16_t *half = data;
    uint32_t bits;
    float value;
    if (dtype == AULE_F16) return (double)array_from_half(half[n]);
    if (dtype == AULE_F32) return (double)((const float *)data)[n];
    bits = (uint32_t)half[n] << 16;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

/* The largest difference, by the largest value; nan must meet nan, and infinities the same. */
static double difference(const void *a, const void *b, uint32_t dtype, size_t count)
{
    double worst = 0, most = 1e-30;
    for (size_t i = 0; i < count; i++) {
        double x = element(a, dtype, i), y = element(b, dtype, i);
        if (x == y || (isnan(x) && isnan(y))) continue;
        if (!isfinite(x) || !isfinite(y)) return INFINITY;
        worst = fmax(worst, fabs(x - y));
        most = fmax(most, fabs(y));
    }
    return worst / most;
}

static size_t element_bytes(uint32_t dtype) { return dtype == AULE_F32 ? 4 : 2; }

/* The gradient of an input that pairs read sums what cancels. With outputs of 16 bits, whose rounding it sees in every row's delta, two right
 * kernels may differ by a tenth of it and more; `scripts` and `check` compare it with the oracle, by what rounding makes of the formula. */
static bool cancels(const Smoke *s, const aule_tensor_v1 *t)
{
    const int32_t output = session_find_role(&s->session, AULE_ROLE_OUTPUT);
    return t->role == AULE_ROLE_GRAD && t->dtype != AULE_OPERAND && output >= 0 &&
           s->session.arrays[output].dtype != AULE_F32;
}

/* Atomics add in any order: gradients differ in their last places, all else not at all. */
static bool compare(Smoke *s, AuSession *with, const char *what, double allowed)
{
    char more[512] = "";
    bool fine = true;
    for (uint32_t i = 0; i < s->session.signature->tensor_count; i++) {
        const aule_tensor_v1 *t = session_tensor(&s->session, i);
        const AuArray *array = &with->arrays[i];
        if (!session_is_made(t) || !s->expected[i] || !array->data) continue;
        /* What rounding took from a final is what this device's rounding took. */
        if (allowed > 0 && t->role == AULE_ROLE_KEPT_ROW) continue;
        size_t used = strlen(more);
        double most = t->role == AULE_ROLE_GRAD && allowed == 0 ? 1.0 / 128 : allowed;
        double found = difference(array->data, s->expected[i], array->dtype,
                                  array->bytes / element_bytes(array->dtype));
        if (allowed > 0 && cancels(s, t)) most = 0.25;
        snprintf(more + used, sizeof more - used, " %s %.1e%s", t->name, found,
                 found <= most ? "" : " (!)");
        fine = fine && found <= most;
    }
    tell(s, fine, what, more);
    return fine;
}

/* Outputs become nan, so that what is not written shows; initcheck does not see what bulk copies write. */
static void forget(const Smoke *s, const AuSession *session)
{
    s->cu.cuCtxSetCurrent(s->context);
    for (uint32_t i = 0; i < session->signature->tensor_count; i++)
        if (session->buffers[i] && session_is_made(session_tensor(session, i)))
            s->cu.cuMemsetD8Async((uint64_t)(uintptr_t)aule_buffer_data(session->buffers[i]), 0xff,
                                  aule_buffer_bytes(session->buffers[i]), s->stream);
    s->cu.cuStreamSynchronize(s->stream);
    s->cu.cuCtxSetCurrent(NULL);
}

static int run_steps(AuSession *session)
{
    int status = session_run(session, STEP_FORWARD);
    return !status && session->backward ? session_run(session, STEP_BACKWARD) : status;
}

/* ---- trials */

static void keep_expected(Smoke *s)
{
    for (uint32_t i = 0; i < s->session.signature->tensor_count; i++) {
        const AuArray *array = &s->session.arrays[i];
        if (!array->data || !session_is_made(session_tensor(&s->session, i))) continue;
        s->expected[i] = malloc(array->bytes + 1);
        if (s->expected[i]) memcpy(s->expected[i], array->data, array->bytes);
    }
}

static void try_stream(Smoke *s)
{
    void *current = NULL;
    for (int i = 0; i < STEPS; i++) s->session.steps[i].run.queue = s->stream;
    forget(s, &s->session);
    bool fine = !run_steps(&s->session) && s->cu.cuCtxGetCurrent(&current) == 0 && !current;
    s->cu.cuCtxSetCurrent(s->context);
    fine = fine && s->cu.cuStreamSynchronize(s->stream) == 0 && !session_fetch(&s->session);
    tell(s, fine, "a stream of the caller's, whose thread has no current context", "");
    if (fine) compare(s, &s->session, "the same results there:", 0);
}

static void try_graph(Smoke *s)
{
    void *graph = NULL, *exec = NULL;
    forget(s, &s->session);
    s->cu.cuCtxSetCurrent(s->context);
    bool fine = s->cu.cuStreamBeginCapture_v2(s->stream, 0) == 0 && !run_steps(&s->session);
    fine = s->cu.cuStreamEndCapture(s->stream, &graph) == 0 && graph && fine;
    fine = fine && s->cu.cuGraphInstantiateWithFlags(&exec, graph, 0) == 0;
    for (int i = 0; fine && i < 3; i++) fine = s->cu.cuGraphLaunch(exec, s->stream) == 0;
    fine = fine && s->cu.cuStreamSynchronize(s->stream) == 0 && !session_fetch(&s->session);
    if (exec) s->cu.cuGraphExecDestroy(exec);
    if (graph) s->cu.cuGraphDestroy(graph);
    tell(s, fine, "captured in a graph, which ran three times", "");
    if (fine) compare(s, &s->session, "the same results there:", 0);
}

static void time_calls(Smoke *s)
{
    enum { ROUNDS = 200 };
    char more[64];
    double begin = now();
    bool fine = true;
    for (int i = 0; fine && i < ROUNDS; i++) fine = !session_run(&s->session, STEP_FORWARD);
    snprintf(more, sizeof more, " %.2f us", (now() - begin) / ROUNDS / 1e3);
    fine = s->cu.cuStreamSynchronize(s->stream) == 0 && fine;
    tell(s, fine, "a forward call takes of the caller's time:", more);
}

/* ---- other sessions */

typedef struct Other {
    pthread_t thread;
    int count;
    char **arguments;
    const char *backend; /* NULL: as the arguments say, else cuda */
    const Smoke *of;     /* whose context it is in, or NULL: not on the device */
    AuSession session;
    double seconds;
    int status;
} Other;

static int open_session(AuSession *session, int count, char **arguments, const char *backend)
{
    static const AuCommand smoke = {.name = "smoke",
                                    .flags = "forward-only",
                                    .values = "shape dtype backend attention arch threads",
                                    .named = true};
    AuOptions options;
    int status = options_parse(&options, &smoke, count, arguments);
    if (status) return status;
    bool forward = options_flag(&options, "forward-only");
    bool said = false; /* the last one counts */
    for (size_t i = 0; i < options.count; i++) said = said || option_is(&options.at[i], "backend");
    if ((backend || !said) && options.count < MAX_OPTIONS)
        options.at[options.count++] =
            (AuOption){"backend", backend ? backend : "cuda", strlen("backend"), false};
    status = session_open(session, &options);
    if (status) return status;
    session->backward = !forward && session_find_role(session, AULE_ROLE_DOUT) >= 0;
    status = session_make_inputs(session, &options);
    return status ? status : session_prepare(session);
}

static void *run_other(void *given)
{
    Other *o = given;
    double begin = now();
    o->status = open_session(&o->session, o->count, o->arguments, o->backend);
    o->seconds = (now() - begin) * 1e-9;
    if (!o->status && o->of) forget(o->of, &o->session);
    if (!o->status) o->status = run_steps(&o->session);
    if (!o->status) o->status = session_wait(&o->session);
    if (!o->status) o->status = session_fetch(&o->session);
    return NULL;
}

static void try_threads(Smoke *s, int count, char **arguments)
{
    static Other others[2];
    char more[64];
    bool fine = true;
    for (int i = 0; i < 2; i++) {
        others[i] = (Other){.count = count, .arguments = arguments, .of = s};
        fine = pthread_create(&others[i].thread, NULL, run_other, &others[i]) == 0 && fine;
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(others[i].thread, NULL);
        fine = fine && others[i].status == 0;
    }
    snprintf(more, sizeof more, "; opened and loaded in %.0f ms", others[0].seconds * 1e3);
    tell(s, fine, "two threads with a module each", more);
    for (int i = 0; i < 2; i++) {
        if (fine) compare(s, &others[i].session, "the same results there:", 0);
        session_close(&others[i].session);
    }
}

/* Rounding in other places: a bound that finds wrong code, not wrong rounding, which tests/exec has. */
static void try_cpu(Smoke *s, int count, char **arguments)
{
    static Other cpu;
    cpu = (Other){.count = count, .arguments = arguments, .backend = "cpu"};
    run_other(&cpu);
    if (cpu.status)
        printf("skip beside cpu\n");
    else
        compare(s, &cpu.session, "beside cpu:", 1.0 / 32);
    session_close(&cpu.session);
}

static void try_all(Smoke *s, int count, char **arguments)
{
    int device = 0;
    const aule_device_info *info = aule_device_get_info(s->session.device);
    printf("%s, %s, %s\n", info->id, info->name, info->driver);
    for (int i = 0; i < STEPS; i++)
        if (s->session.steps[i].plan)
            printf("%s: %s\n", aule_plan_variant(s->session.steps[i].plan)->operation,
                   aule_plan_variant(s->session.steps[i].plan)->schedule);
    if (s->cu.cuDeviceGet(&device, info->dl.device_id) != 0 ||
        s->cu.cuDevicePrimaryCtxRetain(&s->context, device) != 0 ||
        s->cu.cuCtxSetCurrent(s->context) != 0 || s->cu.cuStreamCreate(&s->stream, 1) != 0) {
        tell(s, false, "a context and a stream", "");
        return;
    }
    forget(s, &s->session);
    bool fine =
        !run_steps(&s->session) && !session_wait(&s->session) && !session_fetch(&s->session);
    tell(s, fine, "the device's own stream", "");
    if (!fine) return;
    keep_expected(s);
    try_stream(s);
    try_graph(s);
    time_calls(s);
    try_threads(s, count, arguments);
    try_cpu(s, count, arguments);
}

int main(int count, char **arguments)
{
    static Smoke s;
    double begin = now();
    if (!open_driver(&s.cu)) {
        printf("skipped: no driver: libcuda.so.1 cannot be loaded, or is too old\n");
        return 77;
    }
    int status = open_session(&s.session, count - 1, arguments + 1, NULL);
    printf("opened and loaded in %.0f ms\n", (now() - begin) * 1e-6);
    if (!status)
        try_all(&s, count - 1, arguments + 1);
    else
        s.failed++;
    session_close(&s.session);
    for (int i = 0; i < MAX_ARGS; i++) free(s.expected[i]);
    printf("%d passed, %d failed\n", s.passed, s.failed);
    return s.failed != 0;
}
