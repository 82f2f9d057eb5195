/* mock.c - see mock.h: the lock, objects, drivers, devices. */
#include "inside.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

LevelZeroMock levelzero_mock;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool begun; /* zeInit was called */

enum { DRIVERS = 2, DEVICES = 4, PARTS = 4 };
struct ze_driver {
    uint32_t index;
};
struct ze_device {
    uint32_t driver, index, part; /* [part] 0: the whole */
};
static struct ze_driver drivers[DRIVERS];
static struct ze_device devices[DRIVERS][DEVICES][PARTS + 1];

void levelzero_mock_reset(void)
{
    levelzero_mock = (LevelZeroMock){.drivers = 1,
                                     .devices = 1,
                                     .api = 1 << 16 | 3,
                                     .driver = 7,
                                     .type = ZE_DEVICE_TYPE_GPU,
                                     .spirv = 1 << 16 | 4,
                                     .computes = true,
                                     .most_threads = 1024,
                                     .most_x = 1024,
                                     .most_blocks = INT32_MAX,
                                     .shared_bytes = 64 << 10,
                                     .time_bits = 32,
                                     .memory_bytes = 1u << 31};
}

/* Behind the real loader nobody calls it. */
__attribute__((constructor)) static void begin(void)
{
    levelzero_mock_reset();
    for (uint32_t a = 0; a < DRIVERS; a++) {
        drivers[a].index = a;
        for (uint32_t b = 0; b < DEVICES; b++)
            for (uint32_t c = 0; c <= PARTS; c++) devices[a][b][c] = (struct ze_device){a, b, c};
    }
}

void mock_lock(void) { pthread_mutex_lock(&lock); }
ze_result_t mock_unlock(ze_result_t code)
{
    pthread_mutex_unlock(&lock);
    return code;
}

bool mock_fails(const char *function)
{
    const bool now = ++levelzero_mock.calls == levelzero_mock.fail_at ||
                     (levelzero_mock.fail && strcmp(levelzero_mock.fail, function) == 0);
    if (now) levelzero_mock.failed = function;
    if (now && levelzero_mock.code == ZE_RESULT_ERROR_DEVICE_LOST) mock_lose();
    return now;
}

ze_result_t mock_broken(const char *function, const char *rule, ze_result_t code)
{
    static char first[256];
    fprintf(stderr, "Level Zero's double: %s: not so: %s\n", function, rule);
    if (!levelzero_mock.broken) {
        snprintf(first, sizeof first, "%s: %s", function, rule);
        levelzero_mock.broken = first;
    }
    return code;
}

/* ---- objects */

static Object *all;

void *mock_new(MockKind kind, size_t bytes, ze_context_handle_t context)
{
    Object *made = calloc(1, bytes);
    made->kind = kind;
    made->context = (Object *)(void *)context;
    made->next = all;
    all = made;
    levelzero_mock.alive[kind]++;
    return made;
}

void mock_end(void *object)
{
    for (Object **at = &all; *at; at = &(*at)->next) {
        if (*at != object) continue;
        *at = (*at)->next;
        break;
    }
    levelzero_mock.alive[((Object *)object)->kind]--;
    free(object);
}

bool mock_lives(const void *object, MockKind kind)
{
    for (const Object *at = all; at; at = at->next)
        if (at == object) return at->kind == kind;
    return false;
}

bool mock_has_children(const void *parent, MockKind kind)
{
    for (const Object *at = all; at; at = at->next)
        if (at->kind == kind &&
            (kind == MOCK_EVENT ? ((const struct ze_event *)at)->pool == parent
                                : ((const struct ze_kernel *)at)->module == parent))
            return true;
    return false;
}

bool mock_is_device(const void *device)
{
    const char *at = device;
    return at >= (const char *)devices && at < (const char *)devices + sizeof devices;
}
static bool is_driver(const void *driver)
{
    const char *at = driver;
    return at >= (const char *)drivers && at < (const char *)drivers + sizeof drivers;
}
#define DRIVER(handle) RULE(is_driver(handle), ZE_RESULT_ERROR_INVALID_NULL_HANDLE)
#define DEVICE(handle) RULE(mock_is_device(handle), ZE_RESULT_ERROR_INVALID_NULL_HANDLE)

/* As all lists: without room only the number is told. */
static void give(uint32_t *count, uint32_t there, void *to, const void *from, size_t each)
{
    if (*count == 0 || *count > there) *count = there;
    if (to) memcpy(to, from, *count * each);
}

/* ---- drivers */

ze_result_t zeInit(uint32_t flags)
{
    ENTER();
    RULE(flags <= 3, ZE_RESULT_ERROR_INVALID_ENUMERATION);
    if (!levelzero_mock.drivers || !run_ready()) LEAVE(ZE_RESULT_ERROR_UNINITIALIZED);
    begun = true;
    LEAVE(ZE_RESULT_SUCCESS);
}
ze_result_t zeDriverGet(uint32_t *count, ze_driver_handle_t *found)
{
    ENTER();
    NOT_NULL(count);
    RULE(begun, ZE_RESULT_ERROR_UNINITIALIZED);
    ze_driver_handle_t list[DRIVERS];
    for (uint32_t n = 0; n < DRIVERS; n++) list[n] = &drivers[n];
    give(count, levelzero_mock.drivers, found, list, sizeof *list);
    LEAVE(ZE_RESULT_SUCCESS);
}
ze_result_t zeDriverGetApiVersion(ze_driver_handle_t driver, uint32_t *version)
{
    ENTER();
    DRIVER(driver);
    NOT_NULL(version);
    *version = levelzero_mock.api;
    LEAVE(ZE_RESULT_SUCCESS);
}
ze_result_t zeDriverGetProperties(ze_driver_handle_t driver, ze_driver_properties_t *p)
{
    ENTER();
    DRIVER(driver);
    DESC(p, DRIVER_PROPERTIES);
    memset(p->uuid, 0xd0 + (int)driver->index, sizeof p->uuid);
    p->driverVersion = levelzero_mock.driver;
    LEAVE(ZE_RESULT_SUCCESS);
}

/* ---- devices */

ze_result_t zeDeviceGet(ze_driver_handle_t driver, uint32_t *count, ze_device_handle_t *found)
{
    ENTER();
    DRIVER(driver);
    NOT_NULL(count);
    ze_device_handle_t list[DEVICES];
    for (uint32_t n = 0; n < DEVICES; n++) list[n] = &devices[driver->index][n][0];
    give(count, levelzero_mock.devices, found, list, sizeof *list);
    LEAVE(ZE_RESULT_SUCCESS);
}
ze_result_t zeDeviceGetSubDevices(ze_device_handle_t device, uint32_t *count,
                                  ze_device_handle_t *found)
{
    ENTER();
    DEVICE(device);
    NOT_NULL(count);
    ze_device_handle_t list[PARTS];
    for (uint32_t n = 0; n < PARTS; n++) list[n] = &devices[device->driver][device->index][n + 1];
    give(count, device->part ? 0 : levelzero_mock.parts, found, list, sizeof *list);
    LEAVE(ZE_RESULT_SUCCESS);
}
ze_result_t zeDeviceGetProperties(ze_device_handle_t device, ze_device_properties_t *p)
{
    ENTER();
    DEVICE(device);
    NOT_NULL(p);
    const bool hertz = p->stype == ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES_1_2;
    RULE(p->stype == ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES ||
             (hertz && levelzero_mock.api >= ZE_API_1_2),
         ZE_RESULT_ERROR_INVALID_ARGUMENT);
    p->type = levelzero_mock.type;
    p->vendorId = 0x8086;
    p->deviceId = 0xbd5;
    p->flags = device->part ? ZE_DEVICE_PROPERTY_FLAG_SUBDEVICE : 0;
    p->subdeviceId = device->part ? device->part - 1 : 0;
    p->maxMemAllocSize = levelzero_mock.memory_bytes;
    p->numThreadsPerEU = 8;
    p->numEUsPerSubslice = 8;
    p->numSubslicesPerSlice = 7;
    p->numSlices = device->part ? 1 : 2;
    p->timerResolution = hertz ? 10000000 : 100;
    p->timestampValidBits = p->kernelTimestampValidBits = levelzero_mock.time_bits;
    for (int n = 0; n < 16; n++) p->uuid[n] = (uint8_t)(device->driver * 64 + device->index * 16);
    p->uuid[15] = (uint8_t)device->part;
    snprintf(p->name, sizeof p->name, "double %u.%u", device->driver, device->index);
    LEAVE(ZE_RESULT_SUCCESS);
}
ze_result_t zeDeviceGetComputeProperties(ze_device_handle_t device,
                                         ze_device_compute_properties_t *p)
{
    ENTER();
    DEVICE(device);
    DESC(p, DEVICE_COMPUTE_PROPERTIES);
    const LevelZeroMock *m = &levelzero_mock;
    p->maxTotalGroupSize = p->maxGroupSizeY = p->maxGroupSizeZ = m->most_threads;
    p->maxGroupSizeX = m->most_x;
    p->maxGroupCountX = p->maxGroupCountY = p->maxGroupCountZ = m->most_blocks;
    p->maxSharedLocalMemory = m->shared_bytes;
    p->numSubGroupSizes = 2;
    p->subGroupSizes[0] = 16;
    p->subGroupSizes[1] = 32;
    LEAVE(ZE_RESULT_SUCCESS);
}
ze_result_t zeDeviceGetModuleProperties(ze_device_handle_t device, ze_device_module_properties_t *p)
{
    ENTER();
    DEVICE(device);
    DESC(p, DEVICE_MODULE_PROPERTIES);
    ze_intel_device_module_dp_exp_properties_t *units = p->pNext;
    if (units && units->stype == ZE_INTEL_DEVICE_MODULE_DP_EXP_PROPERTIES)
        units->flags = levelzero_mock.multiplies ? 3 : 1; /* the lower bit: DP4A */
    p->spirvVersionSupported = levelzero_mock.spirv;
    p->flags = ZE_DEVICE_MODULE_FLAG_FP16 | ZE_DEVICE_MODULE_FLAG_INT64_ATOMICS;
    p->maxArgumentsSize = 2048;
    LEAVE(ZE_RESULT_SUCCESS);
}
ze_result_t zeDeviceGetMemoryProperties(ze_device_handle_t device, uint32_t *count,
                                        ze_device_memory_properties_t *p)
{
    ENTER();
    DEVICE(device);
    NOT_NULL(count);
    if (*count && p) DESC(p, DEVICE_MEMORY_PROPERTIES);
    *count = 1;
    if (p) p->totalSize = 4ull << 30;
    LEAVE(ZE_RESULT_SUCCESS);
}
ze_result_t zeDeviceGetMemoryAccessProperties(ze_device_handle_t device,
                                              ze_device_memory_access_properties_t *p)
{
    ENTER();
    DEVICE(device);
    DESC(p, DEVICE_MEMORY_ACCESS_PROPERTIES);
    p->hostAllocCapabilities = p->deviceAllocCapabilities = ZE_MEMORY_ACCESS_CAP_FLAG_RW;
    p->sharedSystemAllocCapabilities = levelzero_mock.sees_host ? ZE_MEMORY_ACCESS_CAP_FLAG_RW : 0;
    LEAVE(ZE_RESULT_SUCCESS);
}
/* One that copies, then one that computes. */
ze_result_t zeDeviceGetCommandQueueGroupProperties(ze_device_handle_t device, uint32_t *count,
                                                   ze_command_queue_group_properties_t *p)
{
    ENTER();
    DEVICE(device);
    NOT_NULL(count);
    if (*count && p) DESC(p, COMMAND_QUEUE_GROUP_PROPERTIES);
    RULE(!p || *count >= 2, ZE_RESULT_ERROR_INVALID_SIZE);
    *count = 2;
    for (uint32_t n = 0; p && n < 2; n++) {
        p[n].flags = n && levelzero_mock.computes ? 3 : 2;
        p[n].maxMemoryFillPatternSize = 16;
        p[n].numQueues = 1;
    }
    LEAVE(ZE_RESULT_SUCCESS);
}
