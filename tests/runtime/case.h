/* case.h - a call of the sample attention with everything in place, which tests then bend. */
#ifndef CASE_H
#define CASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "sample.h"

typedef struct Case {
    int64_t shapes[TENSORS][4], strides[TENSORS][4];
    DLTensor tensors[TENSORS];
    aule_tensor_arg args[TENSORS];
    aule_param_arg params[PARAMS]; /* [0] is the window */
    aule_call call;
    void *storage[TENSORS];
    size_t bytes[TENSORS];
    float *expected; /* [B, H, S, E] */
    float *expected_lse;
    unsigned char workspace[1 << 16] __attribute__((aligned(64)));
    aule_run run;
} Case;

/* B 2, H 4, Hk 2, S 5, T 7, random data, all tensors compact, host memory, window 4, a workspace. */
Case *case_new(void);
void case_free(Case *c);
bool case_is_right(const Case *c); /* o and lse against the formula in double */
void case_forget(Case *c);         /* outputs to NaN */

/* Makes the call one of backward, of what forward left, with or without a gradient given for lse. */
void case_make_backward(Case *c, bool dlse);
bool case_has_gradients(const Case *c); /* beside central differences of the formula in double */

/* The call fails with [status] and a message that contains [text]. */
void expect_plan_error(aule_attention *attention, aule_device *device, const Case *c,
                       aule_status status, const char *text);
void expect_error(aule_status found, aule_error **error, aule_status status,
                  const char *text); /* frees it */

/* The sample's module with code for another target in place of PTX for sm_80. */
typedef struct CaseModule {
    aule_variant_v1 variants[32];
    aule_attention_v1 attention;
    aule_module_v1 module;
} CaseModule;
/* [instead]: target, arch, features, format and code of these variants; of one operation, if it says which. */
void case_module(CaseModule *m, const aule_variant_v1 *instead);

/* The tensors of a call in a device's memory, and a workspace; results back. */
aule_status case_place(Case *c, aule_device *device, int tensors, aule_buffer **buffers,
                       aule_buffer **workspace, aule_error **error);
aule_status case_fetch(Case *c, int tensors, aule_buffer *const *buffers, aule_error **error);

/* A call on a device that has one queue, its own. */
typedef struct OnDevice {
    int tensors;                        /* of the call */
    const aule_device_options *options; /* NULL: none */
    aule_module *module;
    aule_device *device;
    aule_plan *plan;
    aule_buffer *buffers[TENSORS], *workspace;
    aule_event *first, *last;
    Case *c;
} OnDevice;
void on_device_begin(OnDevice *s, const aule_module_v1 *module, int tensors);
/* All that a program does, until something fails. */
aule_status on_device_run(OnDevice *s, const char *id, aule_error **error);
void on_device_end(OnDevice *s);

/* The sample module and a cpu device, as group setup. */
typedef struct Fixture {
    aule_module *module;
    aule_attention *attention;
    aule_device *device;
} Fixture;
int fixture_open(void **state);
int fixture_close(void **state);

#endif
