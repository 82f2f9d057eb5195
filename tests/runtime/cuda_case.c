#include "cuda_case.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void cuda_place(Setup *s)
{
    for (int t = 0; t < TENSORS; t++) {
        assert_int_equal(aule_buffer_new(s->device, s->c->bytes[t], &s->buffers[t], NULL), AULE_OK);
        assert_int_equal(
            aule_buffer_upload(s->buffers[t], 0, s->c->storage[t], s->c->bytes[t], NULL), AULE_OK);
        s->c->tensors[t].data = aule_buffer_data(s->buffers[t]);
        s->c->tensors[t].device = aule_device_get_info(s->device)->dl;
    }
    assert_int_equal(aule_buffer_new(s->device, 4096, &s->workspace, NULL), AULE_OK);
    assert_int_equal(aule_buffer_upload(s->workspace, 0, s->c->workspace, 4096, NULL), AULE_OK);
    s->c->run.workspace = aule_buffer_data(s->workspace);
    s->c->run.workspace_bytes = 4096;
}

void cuda_fetch(Setup *s)
{
    for (int t = T_O; t < TENSORS; t++)
        assert_int_equal(
            aule_buffer_download(s->buffers[t], 0, s->c->storage[t], s->c->bytes[t], NULL),
            AULE_OK);
}

void cuda_open(Setup *s, const char *id, void *context)
{
    aule_error *error = NULL;
    aule_device_options options = {.struct_size = sizeof options, .context = context};
    memset(s, 0, sizeof *s);
    assert_int_equal(aule_module_from(&sample_module, NULL, &s->module, &error), AULE_OK);
    s->attention = aule_module_attention(s->module, 0);
    if (aule_device_open(id, &options, &s->device, &error))
        fail_msg("%s", aule_error_message(error));
    s->c = case_new();
    cuda_place(s);
}

void cuda_close(Setup *s)
{
    for (int t = 0; t < TENSORS; t++) aule_buffer_free(s->buffers[t]);
    aule_buffer_free(s->workspace);
    aule_device_close(s->device);
    aule_module_close(s->module);
    case_free(s->c);
}

void cuda_run(Setup *s)
{
    aule_error *error = NULL;
    if (aule_attention_run(s->attention, s->device, &s->c->call, &s->c->run, &error))
        fail_msg("%s", aule_error_message(error));
}

aule_plan *cuda_plan(Setup *s)
{
    aule_plan *plan = NULL;
    aule_error *error = NULL;
    if (aule_plan_new(s->attention, s->device, &s->c->call, &plan, &error))
        fail_msg("%s", aule_error_message(error));
    return plan;
}

/* ---- threads */

enum { THREADS = 6 };

typedef struct Worker {
    pthread_t thread;
    Setup *s;
    Case *c;
    bool right;
} Worker;

static void *work(void *given)
{
    Worker *w = given;
    Setup own = *w->s;
    own.c = w->c;
    memset(own.buffers, 0, sizeof own.buffers);
    cuda_place(&own);
    w->right = true;
    for (int i = 0; i < 20; i++) {
        aule_error *error = NULL;
        w->right = w->right && aule_attention_run(own.attention, own.device, &own.c->call,
                                                  &own.c->run, &error) == AULE_OK;
        aule_error_free(error);
    }
    cuda_fetch(&own);
    w->right = w->right && case_is_right(own.c);
    for (int t = 0; t < TENSORS; t++) aule_buffer_free(own.buffers[t]);
    aule_buffer_free(own.workspace);
    return NULL;
}

void cuda_work_at_once(Setup *s, int count)
{
    Worker workers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (Worker){.s = &s[i % count], .c = case_new()};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        assert_true(workers[i].right);
        case_free(workers[i].c);
    }
}

/* Nothing of the driver's is left. */
static void expect_nothing_left(void)
{
    assert_int_equal(cuda_mock.modules, 0);
    assert_int_equal(cuda_mock.buffers, 0);
    assert_int_equal(cuda_mock.streams, 0);
    assert_int_equal(cuda_mock.events, 0);
    assert_int_equal(cuda_mock.contexts, 0);
}

/* ---- the cache: every test has one of its own */

char cuda_cache[64];

void cuda_remove_cache(void)
{
    char command[128];
    if (!cuda_cache[0]) return;
    snprintf(command, sizeof command, "rm -rf %s", cuda_cache);
    assert_int_equal(system(command), 0);
}

void cuda_new_cache(void)
{
    cuda_remove_cache();
    snprintf(cuda_cache, sizeof cuda_cache, "/tmp/aule-cuda-test-XXXXXX");
    assert_non_null(mkdtemp(cuda_cache));
    setenv("XDG_CACHE_HOME", cuda_cache, 1);
}

int cuda_begin(void **state)
{
    (void)state;
    cuda_new_cache();
    cuda_mock_reset();
    return 0;
}

int cuda_end(void **state)
{
    (void)state;
    expect_nothing_left();
    return 0;
}
