#include "cuda_mock_inside.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sample_kernels.h"

/* ---- state */

CudaMock cuda_mock;
static bool ready;
static CUctx primary[MOCK_DEVICES];
static atomic_int retained[MOCK_DEVICES];
_Thread_local CUcontext mock_stack[16];
_Thread_local int mock_depth;

typedef struct Block {
    struct Block *next, *before;
    size_t bytes;
    int device; /* whose memory it is; -1: none's, an object of the driver */
} Block;
static Block *blocks;
static pthread_mutex_t blocks_lock = PTHREAD_MUTEX_INITIALIZER;
enum { LINE = 256 };

void *mock_new(size_t bytes)
{
    size_t length = LINE + (bytes + LINE - 1) / LINE * LINE;
    Block *block = aligned_alloc(LINE, length);
    memset(block, 0, length);
    block->bytes = bytes;
    block->device = -1;
    pthread_mutex_lock(&blocks_lock);
    block->next = blocks;
    if (blocks) blocks->before = block;
    blocks = block;
    pthread_mutex_unlock(&blocks_lock);
    return (char *)block + LINE;
}

void mock_free(void *object)
{
    Block *block = (Block *)(void *)((char *)object - LINE);
    pthread_mutex_lock(&blocks_lock);
    if (block->next) block->next->before = block->before;
    *(block->before ? &block->before->next : &blocks) = block->next;
    pthread_mutex_unlock(&blocks_lock);
    free(block);
}

void mock_belongs(void *object, int device)
{
    ((Block *)(void *)((char *)object - LINE))->device = device;
}

size_t mock_ranges(MockRange *ranges, size_t most)
{
    size_t count = 0;
    pthread_mutex_lock(&blocks_lock);
    for (const Block *block = blocks; block && count < most; block = block->next)
        ranges[count++] = (MockRange){(uintptr_t)block + LINE, block->bytes, block->device};
    pthread_mutex_unlock(&blocks_lock);
    return count;
}

static void read_environment(void)
{
    const char *text = getenv("MOCK_CUDA");
    for (; text && *text; text += strcspn(text, " "), text += strspn(text, " ")) {
        int value;
        if (sscanf(text, "devices=%d", &value) == 1) cuda_mock.devices = value;
        if (sscanf(text, "driver=%d", &value) == 1) cuda_mock.driver = value;
        if (sscanf(text, "capability=%d", &value) == 1) cuda_mock.capability[0] = value;
        if (sscanf(text, "init=%d", &value) == 1) cuda_mock.init = value;
        if (sscanf(text, "code=%d", &value) == 1) cuda_mock.code = value;
        sscanf(text, "fail=%63s", cuda_mock.fail);
    }
}

void cuda_mock_reset(void)
{
    while (blocks) mock_free((char *)blocks + LINE);
    memset(&cuda_mock, 0, sizeof cuda_mock);
    cuda_mock.devices = 2;
    cuda_mock.driver = 12080;
    cuda_mock.memory_bytes = 1ull << 30;
    for (int i = 0; i < MOCK_DEVICES; i++) {
        cuda_mock.capability[i] = i == 1 ? 80 : 90;
        primary[i] = (CUctx){.device = i};
        atomic_store(&retained[i], 0);
    }
    ready = true;
    read_environment();
}

__attribute__((constructor)) static void begin(void)
{
    if (!ready) cuda_mock_reset();
}

bool mock_fails(const char *function)
{
    if (strcmp(cuda_mock.fail, function) != 0 || cuda_mock.after-- != 0) return false;
    if (cuda_mock.code >= 700 && cuda_mock.code < 720 && cuda_mock.code != OUT_OF_RESOURCES &&
        cuda_mock.code != CONTEXT_IS_DESTROYED && mock_depth > 0)
        atomic_store(&mock_stack[mock_depth - 1]->lost, cuda_mock.code);
    return true;
}

CUresult mock_enter(const char *function, bool needs)
{
    atomic_fetch_add(&cuda_mock.calls, 1);
    if (mock_fails(function)) return cuda_mock.code;
    if (!needs) return OK;
    return mock_depth > 0 ? atomic_load(&mock_stack[mock_depth - 1]->lost) : INVALID_CONTEXT;
}

/* ---- devices */

MOCK_API CUresult cuInit(unsigned flags)
{
    (void)flags;
    ENTER("cuInit", false);
    return cuda_mock.init ? cuda_mock.init : cuda_mock.devices ? OK : NO_DEVICE;
}

MOCK_API CUresult cuDriverGetVersion(int *version)
{
    *version = cuda_mock.driver;
    return OK;
}

typedef struct Result {
    CUresult code;
    const char *name, *text;
} Result;
static const Result results[] = {
    {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {INVALID_PTX, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {UNSUPPORTED_PTX, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
     "the provided PTX was compiled with an unsupported toolchain."},
    {ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {LAUNCH_TIMEOUT, "CUDA_ERROR_LAUNCH_TIMEOUT", "the launch timed out and was terminated"},
    {MISALIGNED_ADDRESS, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
    {LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {OUT_OF_RESOURCES, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
     "too many resources requested for launch"},
};

static const Result *find_result(CUresult code)
{
    for (size_t i = 0; i < sizeof results / sizeof *results; i++)
        if (results[i].code == code) return &results[i];
    return NULL;
}

MOCK_API CUresult cuGetErrorName(CUresult code, const char **name)
{
    const Result *result = find_result(code);
    *name = result ? result->name : NULL;
    return result ? OK : INVALID_VALUE;
}

MOCK_API CUresult cuGetErrorString(CUresult code, const char **text)
{
    const Result *result = find_result(code);
    *text = result ? result->text : NULL;
    return result ? OK : INVALID_VALUE;
}

MOCK_API CUresult cuDeviceGetCount(int *count)
{
    *count = cuda_mock.devices;
    return OK;
}

MOCK_API CUresult cuDeviceGet(CUdevice *device, int index)
{
    if (mock_fails("cuDeviceGet")) return cuda_mock.code;
    *device = index;
    return index >= 0 && index < cuda_mock.devices ? OK : INVALID_DEVICE;
}

MOCK_API CUresult cuDeviceGetName(char *name, int bytes, CUdevice device)
{
    snprintf(name, (size_t)bytes, "Mock %d", device);
    return OK;
}

MOCK_API CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    (void)device;
    *bytes = cuda_mock.memory_bytes;
    return OK;
}

MOCK_API CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device)
{
    int capability = cuda_mock.capability[device];
    switch (attribute) {
    case 16: *value = 132; return OK;
    case 20: *value = cuda_mock.mode[device]; return OK;
    case 75: *value = capability / 10; return OK;
    case 76: *value = capability % 10; return OK;
    case 97: *value = (capability == 90 ? 227 : capability == 80 ? 163 : 99) << 10; return OK;
    default: return INVALID_VALUE;
    }
}

/* ---- contexts */

MOCK_API CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    ENTER("cuDevicePrimaryCtxRetain", false);
    FORBIDDEN;
    atomic_fetch_add(&cuda_mock.contexts, 1);
    atomic_fetch_add(&retained[device], 1);
    *context = &primary[device];
    return OK;
}

MOCK_API CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    atomic_fetch_sub(&cuda_mock.contexts, 1);
    return atomic_fetch_sub(&retained[device], 1) > 0 ? OK : INVALID_CONTEXT;
}

MOCK_API CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device)
{
    (void)flags;
    *context = calloc(1, sizeof **context);
    (*context)->device = device;
    mock_stack[mock_depth++] = *context;
    return OK;
}

MOCK_API CUresult cuCtxDestroy_v2(CUcontext context)
{
    if (mock_depth > 0 && CURRENT == context) mock_depth--;
    free(context);
    return OK;
}

MOCK_API CUresult cuCtxGetCurrent(CUcontext *context)
{
    if (!cuda_mock.idle) atomic_fetch_add(&cuda_mock.calls, 1);
    *context = mock_depth > 0 ? CURRENT : NULL;
    return OK;
}

MOCK_API CUresult cuCtxSetCurrent(CUcontext context)
{
    mock_depth = context != NULL;
    mock_stack[0] = context;
    return OK;
}

MOCK_API CUresult cuCtxGetDevice(CUdevice *device)
{
    ENTER("cuCtxGetDevice", true);
    *device = CURRENT->device;
    return OK;
}

MOCK_API CUresult cuCtxPushCurrent_v2(CUcontext context)
{
    ENTER("cuCtxPushCurrent", false);
    if (!context || mock_depth == 16) return INVALID_CONTEXT;
    mock_stack[mock_depth++] = context;
    return OK;
}

MOCK_API CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
    if (mock_depth == 0) return INVALID_CONTEXT;
    *context = mock_stack[--mock_depth];
    return OK;
}

/* ---- code: PTX becomes "cubin sm_90" and the PTX, by the linker; modules are made of either */

static CUresult check_ptx(const char *ptx, char *log, size_t log_bytes)
{
    unsigned major, minor, capability = (unsigned)cuda_mock.capability[CURRENT->device], target;
    const char *at = strstr(ptx, ".target sm_");
    /* CUDA 11.x brought PTX 7.x, 12.x 8.x; of the smaller numbers 12.8 and 8.7 are the only ones that tests compare. */
    unsigned takes = (unsigned)cuda_mock.driver / 1000 - 4;
    const char *version = strstr(ptx, ".version ");
    if (!version || sscanf(version, ".version %u.%u", &major, &minor) != 2) return INVALID_PTX;
    if (major > takes) return UNSUPPORTED_PTX;
    if (!at || sscanf(at, ".target sm_%u", &target) != 1) {
        snprintf(log, log_bytes,
                 "ptxas application ptx input, line 2; fatal   : Parsing error near 'is'");
        return INVALID_PTX;
    }
    return target > capability ? NO_BINARY : OK;
}

MOCK_API CUresult cuLinkCreate_v2(unsigned count, int *options, void **values, void **state)
{
    ENTER("cuLinkCreate", true);
    FORBIDDEN;
    Linker *linker = calloc(1, sizeof *linker);
    for (unsigned i = 0; i < count; i++) {
        if (options[i] == 5) linker->log = values[i];
        if (options[i] == 6) linker->log_bytes = (size_t)(uintptr_t)values[i];
    }
    *state = linker;
    return OK;
}

MOCK_API CUresult cuLinkAddData_v2(void *state, int type, void *data, size_t bytes,
                                   const char *name, unsigned count, int *options, void **values)
{
    Linker *linker = state;
    (void)name, (void)count, (void)options, (void)values;
    ENTER("cuLinkAddData", true);
    if (type != 1 || ((char *)data)[bytes - 1] != 0) return INVALID_VALUE;
    linker->ptx = strdup(data);
    return check_ptx(data, linker->log, linker->log_bytes);
}

MOCK_API CUresult cuLinkComplete(void *state, void **code, size_t *bytes)
{
    Linker *linker = state;
    ENTER("cuLinkComplete", true);
    atomic_fetch_add(&cuda_mock.links, 1);
    size_t length = strlen(linker->ptx) + 32;
    linker->code = calloc(1, length);
    snprintf(linker->code, length, "cubin sm_%d\n%s", cuda_mock.capability[CURRENT->device],
             linker->ptx);
    *code = linker->code;
    *bytes = strlen(linker->code) + 1;
    return OK;
}

MOCK_API CUresult cuLinkDestroy(void *state)
{
    Linker *linker = state;
    free(linker->ptx);
    free(linker->code);
    free(linker);
    return OK;
}

static void fault(const uint64_t *slots, uint32_t x, uint32_t y, uint32_t z)
{
    (void)slots, (void)x, (void)y, (void)z;
    atomic_store(&CURRENT->lost, ILLEGAL_ADDRESS);
}

static void (*host_kernel(const char *name))(const uint64_t *, uint32_t, uint32_t, uint32_t)
{
    if (strcmp(name, "weigh") == 0) return sample_weigh;
    if (strcmp(name, "divide") == 0) return sample_divide;
    if (strcmp(name, "list") == 0) return sample_list;
    if (strcmp(name, "gradients") == 0) return sample_gradients;
    if (strcmp(name, "move_sums") == 0) return sample_move_sums;
    return strcmp(name, "fault") == 0 ? fault : NULL;
}

static CUresult check_code(const char *code, unsigned count, int *options, void **values)
{
    int capability;
    char unread[256], *log = unread;
    size_t log_bytes = sizeof unread;
    for (unsigned i = 0; i < count; i++) {
        if (options[i] == 5) log = values[i];
        if (options[i] == 6) log_bytes = (size_t)(uintptr_t)values[i];
    }
    if (!strncmp(code, ".version", 8)) return check_ptx(code, log, log_bytes);
    if (sscanf(code, "cubin sm_%d", &capability) != 1) return INVALID_IMAGE;
    return capability == cuda_mock.capability[CURRENT->device] ? OK : NO_BINARY;
}

MOCK_API CUresult cuModuleLoadDataEx(CUmod **module, const void *code, unsigned count, int *options,
                                     void **values)
{
    ENTER("cuModuleLoadDataEx", true);
    FORBIDDEN;
    CUresult bad = check_code(code, count, options, values);
    if (bad) return bad;
    CUmod *made = mock_new(sizeof *made);
    made->context = CURRENT;
    for (const char *at = strstr(code, ".entry "); at; at = strstr(at + 1, ".entry ")) {
        Kernel *kernel = &made->kernels[made->count++];
        sscanf(at, ".entry %127[A-Za-z0-9_]", kernel->name);
        const char *second = strstr(at, " maps["), *end = strchr(at, '\n');
        if (second && end && second < end) sscanf(second, " maps[%d]", &kernel->maps);
        kernel->host = host_kernel(kernel->name);
        kernel->module = made;
        kernel->shared_allowed = 48 << 10;
    }
    atomic_fetch_add(&cuda_mock.loads, 1);
    atomic_fetch_add(&cuda_mock.modules, 1);
    *module = made;
    return OK;
}

MOCK_API CUresult cuModuleUnload(CUmod *module)
{
    ENTER("cuModuleUnload", true);
    if (module->context != CURRENT) return INVALID_CONTEXT;
    atomic_fetch_sub(&cuda_mock.modules, 1);
    mock_free(module);
    return OK;
}

MOCK_API CUresult cuModuleGetFunction(Kernel **function, CUmod *module, const char *name)
{
    ENTER("cuModuleGetFunction", true);
    for (int i = 0; i < module->count; i++)
        if (strcmp(module->kernels[i].name, name) == 0) return *function = &module->kernels[i], OK;
    return NOT_FOUND;
}

MOCK_API CUresult cuFuncGetAttribute(int *value, int attribute, Kernel *function)
{
    ENTER("cuFuncGetAttribute", true);
    (void)function;
    *value = attribute == 0 ? 1024 : attribute == 1 ? cuda_mock.shared : attribute == 4 ? 77 : 0;
    return OK;
}

MOCK_API CUresult cuFuncSetAttribute(Kernel *function, int attribute, int value)
{
    ENTER("cuFuncSetAttribute", true);
    FORBIDDEN;
    if (attribute == 8) function->shared_allowed = value;
    return attribute == 8 ? OK : INVALID_VALUE;
}
