/* threads_test.c - libaulec compiles different scripts from memory in eight threads at once: each result is, byte for byte, what the
 * same compilation gives alone. threads_test SCRIPTS */
#include "aule/aulec.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 8, LONGEST = 4096 };

typedef struct Job {
    const char *script;
    uint32_t emit;
    const char *targets;
    char text[LONGEST];
    size_t length;
    pthread_t thread;
    aulec_result *alone, *together;
} Job;

static Job jobs[THREADS] = {
    {.script = "mha.attn", .emit = AULEC_EMIT_ARTIFACT},
    {.script = "gemma_local.attn", .emit = AULEC_EMIT_OBJECT},
    {.script = "documents_bias_sink.attn", .emit = AULEC_EMIT_ARCHIVE},
    {.script = "dropout.attn", .emit = AULEC_EMIT_C, .targets = "opencl"},
    {.script = "sigmoid.attn", .emit = AULEC_EMIT_ASM},
    {.script = "gated_qknorm.attn", .emit = AULEC_EMIT_OPENCL_C},
    {.script = "relu.attn", .emit = AULEC_EMIT_ARTIFACT},
    {.script = "gla.attn", .emit = AULEC_EMIT_ATTENTION_IR},
};

static aulec_result *compile(const Job *job)
{
    const int is_opencl = job->emit == AULEC_EMIT_OPENCL_C || job->emit == AULEC_EMIT_C;
    const aulec_options options = {.struct_size = sizeof options,
                                   .emit = job->emit,
                                   .targets = job->targets,
                                   .archs = is_opencl                     ? "generic"
                                            : job->emit == AULEC_EMIT_ASM ? "x86-64-v3"
                                                                          : "x86-64-v3,generic",
                                   .dtypes = "f32",
                                   .widths = job->emit == AULEC_EMIT_ATTENTION_IR ? NULL : "D=32"};
    aulec_result *result = NULL;
    const aulec_status status =
        aulec_compile(job->script, job->text, job->length, &options, &result);
    if (status)
        fprintf(stderr, "%s: status %d\n%s", job->script, (int)status,
                aulec_result_diagnostics(result));
    return result;
}

static void *run(void *user)
{
    Job *job = user;
    job->together = compile(job);
    return NULL;
}

static int read_script(Job *job, const char *folder)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, job->script);
    FILE *file = fopen(path, "rb");
    if (!file) return 0;
    job->length = fread(job->text, 1, LONGEST, file);
    fclose(file);
    return job->length > 0 && job->length < LONGEST;
}

static int same(const Job *job)
{
    const size_t length = aulec_result_length(job->alone);
    return length > 0 && length == aulec_result_length(job->together) &&
           memcmp(aulec_result_data(job->alone), aulec_result_data(job->together), length) == 0 &&
           strcmp(aulec_result_diagnostics(job->alone), aulec_result_diagnostics(job->together)) ==
               0;
}

int main(int argc, char **argv)
{
    int failed = argc != 2;
    for (int n = 0; n < THREADS && !failed; n++) failed = !read_script(&jobs[n], argv[1]);
    if (failed) return 2;
    for (int n = 0; n < THREADS; n++) jobs[n].alone = compile(&jobs[n]);
    for (int n = 0; n < THREADS; n++)
        if (pthread_create(&jobs[n].thread, NULL, run, &jobs[n]) != 0) abort();
    for (int n = 0; n < THREADS; n++) {
        pthread_join(jobs[n].thread, NULL);
        if (!same(&jobs[n])) {
            printf("failed: %s differs\n", jobs[n].script);
            failed = 1;
        }
        aulec_result_free(jobs[n].alone);
        aulec_result_free(jobs[n].together);
    }
    return failed;
}
