#include "mock.h"

#include "../descriptor.h"

static aule_status called(AuMock *mock, const char *function, AuSink sink)
{
    if (++mock->calls != mock->fail_at) return AULE_OK;
    return rt_fail(sink, mock->fail_with, "mock: %s: told to fail", function);
}

static aule_status find(AuFinder *finder, AuSink sink)
{
    for (int i = 0; i < 2; i++) {
        aule_device_info info = {.id = i ? "mock:1" : "mock:0",
                                 .backend = "mock",
                                 .available = 1,
                                 .name = "mock",
                                 .features = "alpha beta",
                                 .kind = AULE_DEVICE_OTHER,
                                 .units = 1,
                                 .dl = {(DLDeviceType)AU_MOCK_DL, i}};
        aule_status status = rt_found(finder, &info, sink);
        if (status) return status;
    }
    return AULE_OK;
}

static aule_status open_mock(AuHeap memory, uint32_t index, const aule_device_options *options,
                             void **state, AuSink sink)
{
    (void)memory;
    (void)index;
    aule_status status = called(options->context, "open", sink);
    if (!status) *state = options->context;
    return status;
}

static void close_mock(void *state) { (void)state; }

static aule_status load(void *state, const aule_variant_v1 *variant, void **program, AuSink sink)
{
    AuMock *mock = state;
    aule_status status = called(mock, "load", sink);
    if (status) return status;
    *program = (void *)(uintptr_t)variant;
    mock->programs++;
    return AULE_OK;
}

static void unload(void *state, void *program)
{
    (void)program;
    ((AuMock *)state)->programs--;
}

static aule_status check_memory(void *state, const char *name, void *data, uint64_t bytes,
                                AuSink sink)
{
    (void)data;
    aule_status status = called(state, "check_memory", sink);
    if (status || bytes <= AU_MOCK_BUFFER_BYTES) return status;
    return rt_fail(sink, AULE_ERROR_TENSOR,
                   "%s: its buffer has %d bytes, its shape and strides reach %llu", name,
                   AU_MOCK_BUFFER_BYTES, (unsigned long long)bytes);
}

static aule_status launch(void *state, void *program, void *queue, const AuLaunch *given,
                          AuSink sink)
{
    AuMock *mock = state;
    const aule_launch_v1 *kernel = rt_launch(program, given->index);
    aule_status status = called(mock, "launch", sink);
    if (status || mock->launch_count == AU_MOCK_LAUNCHES) return status;
    AuMockLaunch *record = &mock->launches[mock->launch_count++];
    *record =
        (AuMockLaunch){.index = given->index, .slot_count = kernel->slot_count, .queue = queue};
    memcpy(record->grid, given->grid, sizeof record->grid);
    for (uint32_t i = 0; i < kernel->slot_count && i < AU_MOCK_SLOTS; i++) {
        record->slots[i] = given->slots[i];
        record->offsets[i] = given->offsets[i];
    }
    return AULE_OK;
}

static aule_status zero(void *state, void *queue, void *data, uint64_t offset, uint64_t bytes,
                        AuSink sink)
{
    (void)queue;
    (void)data;
    (void)offset;
    ((AuMock *)state)->zeroed += bytes;
    return called(state, "zero", sink);
}

static aule_status synchronize(void *state, void *queue, AuSink sink)
{
    (void)queue;
    return called(state, "synchronize", sink);
}

static aule_status buffer_new(void *state, uint64_t bytes, void **data, AuSink sink)
{
    AuMock *mock = state;
    (void)bytes;
    aule_status status = called(mock, "buffer_new", sink);
    if (!status) *data = (void *)(uintptr_t)(0x1000u * ++mock->buffers);
    return status;
}

static void buffer_free(void *state, void *data)
{
    (void)data;
    ((AuMock *)state)->buffers--;
}

static aule_status upload(void *state, void *data, uint64_t offset, const void *from,
                          uint64_t bytes, AuSink sink)
{
    (void)data;
    (void)offset;
    (void)from;
    (void)bytes;
    return called(state, "upload", sink);
}

static aule_status download(void *state, void *data, uint64_t offset, void *to, uint64_t bytes,
                            AuSink sink)
{
    (void)data;
    (void)offset;
    memset(to, 0, (size_t)bytes);
    return called(state, "download", sink);
}

const AuBackend au_backend_mock = {
    .api_version = AU_BACKEND_API,
    .name = "mock",
    .flat = false,
    .dl = {(DLDeviceType)AU_MOCK_DL},
    .find = find,
    .open = open_mock,
    .close = close_mock,
    .load = load,
    .unload = unload,
    .check_memory = check_memory,
    .launch = launch,
    .zero = zero,
    .synchronize = synchronize,
    .buffer_new = buffer_new,
    .buffer_free = buffer_free,
    .upload = upload,
    .download = download,
};
