#include "sample_call.h"

#include <stdlib.h>
#include <string.h>

#include "../../runtime/backends/mock.h"
#include "../../runtime/device.h"
#include "../runtime/sample.h"

uint64_t take_value(Source *s)
{
    static const uint64_t ends[] = {0x7fffffff, 0xffffffff, 0x80000000, UINT64_MAX,
                                    1ull << 63, 1ull << 40, 65,         513};
    uint64_t kind = take(s, 1);
    if (kind < 128) return kind % 48;
    if (kind < 192) return (kind % 48) | take(s, 1) << 8;
    return kind < 224 ? ends[kind % 8] : take(s, 8);
}

typedef struct Given {
    int64_t shapes[TENSORS][AULE_MAX_RANK], strides[TENSORS][AULE_MAX_RANK];
    DLTensor tensors[TENSORS];
    aule_tensor_arg args[TENSORS];
    aule_param_arg params[2];
    aule_call call;
} Given;

static void make_call(Given *g, Source *s, bool backward)
{
    static const char *const names[TENSORS] = {
        "q", "k", "v", "lengths", "slope", "o", "lse", "do", "dlse", "dq", "dk", "dv", "dslope"};
    static const int8_t ranks[TENSORS] = {4, 4, 4, 1, 1, 4, 3, 4, 3, 4, 4, 4, 1};
    static const int8_t like[TENSORS][4] = {{2, 4, 5, 8}, {2, 2, 7, 8}, {2, 2, 7, 4}, {2},
                                            {7},          {2, 4, 5, 4}, {2, 4, 5},    {2, 4, 5, 4},
                                            {2, 4, 5},    {2, 4, 5, 8}, {2, 2, 7, 8}, {2, 2, 7, 4},
                                            {7}};
    memset(g, 0, sizeof *g);
    for (int t = 0; t < TENSORS; t++) {
        int64_t stride = 1;
        for (int axis = ranks[t] - 1; axis >= 0; axis--) {
            g->shapes[t][axis] = like[t][axis];
            g->strides[t][axis] = stride;
            stride *= like[t][axis];
        }
        g->tensors[t] = (DLTensor){.data = (void *)(uintptr_t)(0x1000 * (t + 1)),
                                   .device = {(DLDeviceType)AU_MOCK_DL, 0},
                                   .ndim = ranks[t],
                                   .dtype = t == T_LENGTHS ? (DLDataType){kDLInt, 32, 1}
                                                           : (DLDataType){kDLFloat, 32, 1},
                                   .shape = g->shapes[t],
                                   .strides = g->strides[t]};
        g->args[t] = (aule_tensor_arg){names[t], &g->tensors[t]};
    }
    for (uint64_t changes = take(s, 1) % 4; changes > 0; changes--) {
        uint64_t t = take(s, 1) % TENSORS, what = take(s, 1) % 6, axis = take(s, 1) % AULE_MAX_RANK,
                 value = take_value(s);
        if (what == 0) g->shapes[t][axis] = (int64_t)value;
        if (what == 1) g->strides[t][axis] = (int64_t)value;
        if (what == 2) g->tensors[t].ndim = (int32_t)(value % (AULE_MAX_RANK + 1));
        if (what == 3)
            g->tensors[t].dtype =
                (DLDataType){(uint8_t)(value % 8), (uint8_t)(8u << (value / 8 % 4)), 1};
        if (what == 4) g->tensors[t].byte_offset = value;
        if (what == 5) g->args[t].name = names[value % TENSORS];
    }
    g->params[0] = (aule_param_arg){"window", {.type = AULE_VALUE_INT, .i = 4}};
    g->params[1] = (aule_param_arg){"scale", {.type = AULE_VALUE_FLOAT, .f = (double)take(s, 1)}};
    g->call = (aule_call){.struct_size = sizeof g->call,
                          .operation = backward ? "backward" : NULL,
                          .tensors = g->args,
                          .tensor_count = backward ? TENSORS : FORWARD_TENSORS,
                          .params = g->params,
                          .param_count = 1 + take(s, 1) % 2};
}

static void try_operation(aule_module *module, aule_device *device, Source *s, bool backward)
{
    Given g;
    aule_plan *plan;
    aule_attention *attention = aule_module_attention(module, 0);
    make_call(&g, s, backward);
    if (aule_plan_new(attention, device, &g.call, &plan, NULL) == AULE_OK) {
        aule_run run = {.struct_size = sizeof run,
                        .workspace = (void *)(uintptr_t)0x100000,
                        .workspace_bytes = aule_plan_workspace(plan, NULL)};
        aule_value values[2] = {g.params[0].value, g.params[1].value};
        aule_plan_run(plan, &run, NULL);
        run.params = values;
        values[0].i = (int64_t)take(s, 1);
        aule_plan_run(plan, &run, NULL);
        aule_plan_free(plan);
    }
    int32_t rank;
    int64_t shape[8];
    DLDataType type;
    g.call.tensor_count = T_O;
    aule_attention_shape(attention, &g.call, backward ? "dk" : "o", &rank, shape, &type, NULL);
}

void call_and_close(aule_module *module, Source *s)
{
    aule_device *device;
    AuMock *mock = calloc(1, sizeof *mock);
    aule_device_options options = {.struct_size = sizeof options, .context = mock};
    if (mock && rt_device_open(&au_backend_mock, 0, &options, &device,
                               (AuSink){rt_memory(NULL), NULL}) == AULE_OK) {
        try_operation(module, device, s, false);
        try_operation(module, device, s, true);
        aule_device_close(device);
    }
    aule_module_close(module); /* which keeps the device */
    free(mock);
}
