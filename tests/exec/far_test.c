/* far_test.c - heads, and rows, whose strides are past 2^32 bytes, on a device: the results are those of tensors that lie close, to the bit.
 *
 *     far_test DEVICE ARTIFACT        of an attention of q, k, v and o [1, 2, rows, 8], f32
 *
 * All four lie side by side in one buffer, of which a few pages at both ends are touched; devices for processors give memory that nobody touches
 * no pages. Where a device has no such buffer it says so, and the test is skipped with that. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "aule/aule.h"

enum { TENSORS = 4, HEADS = 2, ROWS = 2, WIDTH = 8, COUNT = HEADS * ROWS * WIDTH, SKIPPED = 77 };
static const char *const names[TENSORS] = {"q", "k", "v", "o"};
static const int64_t FAR = ((int64_t)1 << 30) + 1024; /* elements: 2^32 bytes and 4096 */

typedef struct Far {
    aule_device *device;
    aule_module *module;
    aule_buffer *buffer, *workspace;
    aule_error *error;
} Far;

static int fail(Far *f, const char *what)
{
    fprintf(stderr, "%s: %s\n", what, f->error ? aule_error_message(f->error) : "wrong");
    aule_error_free(f->error);
    f->error = NULL;
    return 1;
}

/* How far heads, rows and tensors lie apart, in elements. */
typedef struct Place {
    const char *name;
    int64_t head, row, tensor;
} Place;

static float value_of(int tensor, int n) { return (float)((tensor * 37 + n * 29) % 31 - 15) / 16; }

/* Rows of a tensor to the device, or back. */
static aule_status move(Far *f, const Place *p, int tensor, float *values, bool back)
{
    aule_status status = AULE_OK;
    for (int64_t row = 0; row < (int64_t)HEADS * ROWS && !status; row++) {
        const int64_t at = tensor * p->tensor + row / ROWS * p->head + row % ROWS * p->row;
        const uint64_t bytes = WIDTH * sizeof *values, offset = (uint64_t)at * sizeof *values;
        status =
            back ? aule_buffer_download(f->buffer, offset, values + row * WIDTH, bytes, &f->error)
                 : aule_buffer_upload(f->buffer, offset, values + row * WIDTH, bytes, &f->error);
    }
    return status;
}

static aule_status run(Far *f, const Place *p)
{
    int64_t shape[] = {1, HEADS, ROWS, WIDTH}, strides[] = {0, p->head, p->row, 1};
    DLTensor tensors[TENSORS];
    aule_tensor_arg args[TENSORS];
    aule_plan *plan = NULL;
    strides[0] = HEADS * p->head;
    for (int n = 0; n < TENSORS; n++) {
        tensors[n] = (DLTensor){.data = aule_buffer_data(f->buffer),
                                .device = aule_device_get_info(f->device)->dl,
                                .ndim = 4,
                                .dtype = {kDLFloat, 32, 1},
                                .shape = shape,
                                .strides = strides,
                                .byte_offset = (uint64_t)(n * p->tensor) * sizeof(float)};
        args[n] = (aule_tensor_arg){names[n], &tensors[n]};
    }
    const aule_call call = {.struct_size = sizeof call, .tensors = args, .tensor_count = TENSORS};
    aule_status status =
        aule_plan_new(aule_module_attention(f->module, 0), f->device, &call, &plan, &f->error);
    if (status) return status;
    const uint64_t bytes = aule_plan_workspace(plan, NULL);
    aule_run with = {.struct_size = sizeof with, .workspace_bytes = bytes};
    if (bytes) status = aule_buffer_new(f->device, bytes, &f->workspace, &f->error);
    if (!status && bytes) with.workspace = aule_buffer_data(f->workspace);
    if (!status) status = aule_plan_run(plan, &with, &f->error);
    if (!status) status = aule_device_synchronize(f->device, NULL, &f->error);
    aule_plan_free(plan);
    aule_buffer_free(f->workspace);
    f->workspace = NULL;
    return status;
}

/* What the call makes of tensors that lie so. */
static int result(Far *f, const Place *p, float *o)
{
    float values[COUNT];
    for (int n = 0; n < TENSORS; n++) {
        for (int i = 0; i < COUNT; i++) values[i] = n == TENSORS - 1 ? -1 : value_of(n, i);
        if (move(f, p, n, values, false)) return fail(f, "upload");
    }
    if (run(f, p)) return fail(f, p->name);
    return move(f, p, TENSORS - 1, o, true) ? fail(f, "download") : 0;
}

static int compare(Far *f)
{
    const Place near = {"near", ROWS * WIDTH, WIDTH, COUNT},
                heads = {"heads", FAR, WIDTH, ROWS * WIDTH},
                rows = {"rows", WIDTH, FAR, HEADS * WIDTH};
    const Place *const far[] = {&heads, &rows};
    float want[COUNT], made[COUNT];
    int status = result(f, &near, want);
    bool any = false;
    for (int i = 0; i < COUNT; i++) any = any || (want[i] != 0 && want[i] != -1);
    if (!status && !any) status = fail(f, "near: all zeros");
    for (int n = 0; n < 2 && !status; n++) {
        status = result(f, far[n], made);
        if (!status && memcmp(made, want, sizeof made) != 0) status = fail(f, far[n]->name);
    }
    return status;
}

int main(int count, char **arguments)
{
    Far f = {0};
    struct rusage used;
    if (count != 3) return 2;
    if (aule_device_open(arguments[1], NULL, &f.device, &f.error)) {
        fail(&f, "skipped");
        return SKIPPED;
    }
    if (aule_module_open(arguments[2], NULL, &f.module, &f.error)) return fail(&f, "module");
    const uint64_t bytes = ((uint64_t)FAR + (1 << 20)) * sizeof(float);
    int status = 0;
    if (aule_buffer_new(f.device, bytes, &f.buffer, &f.error)) {
        fail(&f, "skipped");
        status = SKIPPED;
    }
    if (!status) status = compare(&f);
    getrusage(RUSAGE_SELF, &used);
    printf("%s: %s, %ld MB of memory\n", arguments[1], status ? "not passed" : "passed",
           used.ru_maxrss >> 10);
    aule_buffer_free(f.buffer);
    aule_module_close(f.module);
    aule_device_close(f.device);
    return status;
}
