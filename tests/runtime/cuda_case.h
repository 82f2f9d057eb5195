/* cuda_case.h - the sample's call on a device of the mock of CUDA's driver, and a cache on disk for each test. */
#ifndef CUDA_CASE_H
#define CUDA_CASE_H

#include "case.h"
#include "cuda_mock.h"

typedef struct Setup {
    aule_module *module;
    aule_attention *attention;
    aule_device *device;
    Case *c;
    aule_buffer *buffers[TENSORS], *workspace;
} Setup;

void cuda_open(Setup *s, const char *id, void *context); /* its tensors are in buffers */
void cuda_close(Setup *s);
void cuda_place(Setup *s);
void cuda_fetch(Setup *s); /* results into the case */
void cuda_run(Setup *s);
aule_plan *cuda_plan(Setup *s);
void cuda_work_at_once(Setup *s, int count); /* threads that share these, with cases of their own */

/* Of each test: a driver as new, an empty cache; nothing of the driver's is left. */
extern char cuda_cache[64]; /* $XDG_CACHE_HOME */
int cuda_begin(void **state);
int cuda_end(void **state);
void cuda_new_cache(void);
void cuda_remove_cache(void);
#define CUDA_TEST(name) cmocka_unit_test_setup_teardown(name, cuda_begin, cuda_end)

#endif
