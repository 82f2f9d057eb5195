/* growth_test.c - scripts that grow are compiled, or refused, in time and memory that fit their size. Each compilation is a process of
 * its own, so that what it takes can be measured: seconds of its processor, and the most memory that it had at once.
 *     growth_test sweep WAYS [PLACE [STEP]]     every place with each of its steps, as far as a script of 2 KB goes
 *     growth_test share N WAYS                  every Nth of these, by turns (AULE_TEST_TURN, docs/dev/testing.md)
 *     growth_test random WAYS SEED COUNT        places with steps in any order
 *     growth_test many                          attentions in a file: four times as many take four times as much at most
 *     growth_test print PLACE STEP COUNT        one of the scripts
 * WAYS are letters of the table below. */
#include "aule/aulec.h"
#include "growth.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* Two seconds on a processor of its own; what shares one with others takes up to three times as long. LLVM's part is linear, and long
 * where each line is a function of its own (pow, logaddexp): about 100 microseconds an instruction. For sm_90a there are kernels of
 * groups of warps beside all those of sm_90. What is measured is the kernel IR's text, for which all kernels are kept: a form more of those
 * for few queries, of which there are three, takes 20 MB. */
enum {
    SCRIPT = 2048,
    MEGABYTES = 370,
    MEGABYTES_OF_GROUPS = 450,
    SECONDS = 6,
    SECONDS_OF_LLVM = 20
};

#ifdef __SANITIZE_ADDRESS__
static const bool is_measured = false;
#else
static const bool is_measured = true;
#endif

typedef struct Way {
    char letter;
    const char *name;
    aulec_options options;
    int megabytes; /* at most */
} Way;

// clang-format off
static const Way ways[] = {
    {'c', "cpu", {.targets = "cpu", .archs = "x86-64-v3", .dtypes = "f32", .emit = AULEC_EMIT_ARTIFACT}, MEGABYTES},
    {'f', "cpu, forward", {.targets = "cpu", .archs = "x86-64-v3", .dtypes = "f32", .emit = AULEC_EMIT_ARTIFACT, .no_gradients = 1}, MEGABYTES},
    {'o', "opencl", {.targets = "opencl", .dtypes = "f32", .emit = AULEC_EMIT_OPENCL_C}, MEGABYTES},
    {'k', "opencl, checked", {.targets = "opencl", .dtypes = "f32", .emit = AULEC_EMIT_OPENCL_C, .checked = 1}, MEGABYTES},
    {'n', "cuda", {.targets = "cuda", .archs = "sm_90", .dtypes = "bf16", .emit = AULEC_EMIT_KERNEL_IR}, MEGABYTES},
    {'h', "cuda, groups", {.targets = "cuda", .archs = "sm_90a", .dtypes = "bf16", .emit = AULEC_EMIT_KERNEL_IR}, MEGABYTES_OF_GROUPS},
    {'g', "gradients", {.dtypes = "f32", .emit = AULEC_EMIT_GRADIENTS}, MEGABYTES},
};
// clang-format on

typedef struct Outcome {
    int status; /* of the compilation; -1: it did not end by itself */
    double seconds, megabytes;
    char error[256]; /* the first */
} Outcome;

static void compile(const Way *way, const char *text, int out)
{
    aulec_options options = way->options;
    options.struct_size = sizeof options;
    options.widths = "D=64";
    aulec_result *result = NULL;
    const aulec_status status = aulec_compile("grown.attn", text, strlen(text), &options, &result);
    const char *said = result ? aulec_result_diagnostics(result) : "";
    const char *error = strstr(said, "error E");
    while (error && error > said && error[-1] != '\n') error--; /* with its place */
    if (error && write(out, error, strcspn(error, "\n")) < 0) _exit(99);
    _exit((int)status);
}

static Outcome run(const Way *way, const char *text)
{
    Outcome o = {.status = -1};
    int ends[2], status = 0;
    struct rusage used;
    if (pipe(ends)) abort();
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        const rlim_t seconds = way->options.emit == AULEC_EMIT_ARTIFACT ? SECONDS_OF_LLVM : SECONDS;
        if (is_measured) setrlimit(RLIMIT_CPU, &(struct rlimit){seconds, seconds});
        if (is_measured) setrlimit(RLIMIT_AS, &(struct rlimit){1u << 31, 1u << 31});
        compile(way, text, ends[1]);
    }
    close(ends[1]);
    const ssize_t length = read(ends[0], o.error, sizeof o.error - 1);
    o.error[length > 0 ? length : 0] = 0;
    close(ends[0]);
    if (wait4(child, &status, 0, &used) != child) abort();
    if (WIFEXITED(status)) o.status = WEXITSTATUS(status);
    o.seconds = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
    o.megabytes = (double)used.ru_maxrss / 1024;
    return o;
}

/* An error of the compiler's own texts is one from inside; a user's is at a line of the script. */
static bool is_users(const char *error)
{
    const bool is_placed =
        strncmp(error, "grown.attn:", 11) == 0 || strncmp(error, "<std>:", 6) == 0;
    return is_placed && !strstr(error, "error E07") && !strstr(error, "error E080") &&
           !strstr(error, "error E0810") && !strstr(error, "error E09");
}

/* False: it took too much, or ended by a fault. */
static bool try(const Way *way, const char *what, const char *text, size_t steps)
{
    const Outcome o = run(way, text);
    const bool good =
        (o.status == AULEC_OK || (o.status == AULEC_ERROR_SCRIPT && is_users(o.error))) &&
        (!is_measured || o.megabytes <= way->megabytes);
    printf("%s %-16s %-50s %3zu steps %6.2f s %5.0f MB  %d %s\n", good ? "ok  " : "FAIL", way->name,
           what, steps, o.seconds, o.megabytes, o.status, o.error);
    if (!good) printf("%s\n", text);
    return good;
}

/* How many of the ways that are asked for fail. */
static int try_all(const char *letters, const char *what, const GrowthPlace *place,
                   const GrowthStep *const *steps, size_t count)
{
    char text[SCRIPT + 1];
    int failed = 0;
    count = growth_script(place, steps, count, text, sizeof text);
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++)
        if (strchr(letters, ways[w].letter)) failed += !try(&ways[w], what, text, count);
    return failed;
}

/* Every [part]th; which is by AULE_TEST_TURN. */
static int sweep(const char *letters, const char *place_name, const char *step_name, unsigned part)
{
    const char *turn = getenv("AULE_TEST_TURN");
    const size_t first = turn ? strtoul(turn, NULL, 10) % part : 0;
    int failed = 0;
    for (size_t p = 0; p < growth_place_count; p++)
        for (size_t s = 0; s < growth_step_count; s++) {
            const GrowthPlace *place = &growth_places[p];
            const GrowthStep *step = &growth_steps[s], *steps[SCRIPT / 16];
            char what[64];
            if (!growth_fits(place, step) || (place_name && strcmp(place_name, place->name) != 0) ||
                (step_name && strcmp(step_name, step->name) != 0) || (p + s + first) % part)
                continue;
            for (size_t n = 0; n < SCRIPT / 16; n++) steps[n] = step;
            snprintf(what, sizeof what, "%s: %s", place->name, step->name);
            failed += try_all(letters, what, place, steps, SCRIPT / 16);
        }
    return failed;
}

/* xorshift64*, Vigna 2016. */
static uint64_t below(uint64_t *state, uint64_t bound)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return (*state * 0x2545F4914F6CDD1Du >> 11) % bound;
}

static int mix(const char *letters, uint64_t seed, int count)
{
    uint64_t state = seed * 0x9E3779B97F4A7C15u + 1;
    int failed = 0;
    for (int round = 0; round < count; round++) {
        const GrowthPlace *place = &growth_places[below(&state, growth_place_count)];
        const GrowthStep *steps[SCRIPT / 16];
        size_t many = 0;
        char what[64];
        const size_t wanted = 4 + below(&state, SCRIPT / 16 - 4);
        while (many < wanted) {
            const GrowthStep *step = &growth_steps[below(&state, growth_step_count)];
            if (growth_fits(place, step)) steps[many++] = step;
        }
        const char one[] = {letters[below(&state, strlen(letters))], 0};
        snprintf(what, sizeof what, "%s, round %d", place->name, round);
        failed += try_all(one, what, place, steps, many);
    }
    return failed;
}

/* Of all of them together what one takes, as often as there are some: a file that is looked at again for each of its attentions takes the square of their
 * number. */
static bool try_many(void)
{
    enum { FEW = 50, TIMES = 4, LONGEST = 256 };
    static char text[FEW * TIMES * LONGEST];
    static const char attention[] =
        "attention a%d { q: [B, H, S, D]; k: [B, H, T, D]; v: [B, H, T, E]; "
        "score_mod(s) = s * %d.0; online identity; }\n";
    const Way way = {
        .options = {
            .targets = "opencl", .dtypes = "f32", .emit = AULEC_EMIT_OPENCL_C, .no_gradients = 1}};
    Outcome of[2];
    size_t length = 0;
    for (int n = 0; n < FEW * TIMES; n++) {
        if (n == FEW) of[0] = run(&way, text);
        length += (size_t)snprintf(text + length, LONGEST, attention, n, n + 1);
    }
    of[1] = run(&way, text);
    for (int n = 0; n < 2; n++)
        printf("%d attentions: %.2f s %.0f MB  %d %s\n", n ? FEW * TIMES : FEW, of[n].seconds,
               of[n].megabytes, of[n].status, of[n].error);
    const bool good = of[0].status == AULEC_OK && of[1].status == AULEC_OK;
    return good && (!is_measured ||
                    (of[1].megabytes <
                         of[0].megabytes * TIMES && /* 6.6 times as much when each knew of all */
                     of[1].seconds < of[0].seconds * TIMES * 1.5));
}

static int print(const char *place_name, const char *step_name, size_t count)
{
    for (size_t p = 0; p < growth_place_count; p++)
        for (size_t s = 0; s < growth_step_count; s++) {
            const GrowthStep *steps[SCRIPT / 16];
            char text[SCRIPT + 1];
            if (strcmp(growth_places[p].name, place_name) != 0 ||
                strcmp(growth_steps[s].name, step_name) != 0 ||
                !growth_fits(&growth_places[p], &growth_steps[s]))
                continue;
            for (size_t n = 0; n < SCRIPT / 16; n++) steps[n] = &growth_steps[s];
            growth_script(&growth_places[p], steps, count < SCRIPT / 16 ? count : SCRIPT / 16, text,
                          sizeof text);
            fputs(text, stdout);
        }
    return 0;
}

int main(int argc, char **argv)
{
    int failed = -1;
    if (argc == 5 && strcmp(argv[1], "print") == 0)
        return print(argv[2], argv[3], strtoul(argv[4], NULL, 10));
    if (argc >= 3 && strcmp(argv[1], "sweep") == 0)
        failed = sweep(argv[2], argc > 3 ? argv[3] : NULL, argc > 4 ? argv[4] : NULL, 1);
    else if (argc == 4 && strcmp(argv[1], "share") == 0 && atoi(argv[2]) > 0)
        failed = sweep(argv[3], NULL, NULL, (unsigned)atoi(argv[2]));
    else if (argc == 2 && strcmp(argv[1], "many") == 0)
        failed = !try_many();
    if (argc == 5 && strcmp(argv[1], "random") == 0)
        failed = mix(argv[2], strtoull(argv[3], NULL, 10), atoi(argv[4]));
    if (failed < 0) return 2;
    printf("%d failed\n", failed);
    return failed > 0;
}
