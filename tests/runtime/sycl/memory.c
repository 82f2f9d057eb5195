/* memory.c - a program that has Level Zero's context, lists and memory, as torch has by SYCL: for Python. On the double (tests/runtime/levelzero). */
#include <string.h>

#include "../levelzero/inside.h"

#define API __attribute__((visibility("default")))

typedef struct Own {
    ze_device_handle_t device;
    ze_context_handle_t context;
    ze_command_list_handle_t list; /* immediate */
    ze_command_queue_handle_t queue;
    uint8_t uuid[16];
} Own;

API int own_begin(Own *own)
{
    uint32_t one = 1;
    ze_driver_handle_t driver;
    const ze_context_desc_t context = {.stype = ZE_STRUCTURE_TYPE_CONTEXT_DESC};
    const ze_command_queue_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC,
                                          .ordinal = 1,
                                          .mode = ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS};
    ze_device_properties_t of = {.stype = ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES_1_2};
    memset(own, 0, sizeof *own);
    int failed = zeInit(0) || zeDriverGet(&one, &driver) || zeDeviceGet(driver, &one, &own->device);
    failed = failed || zeDeviceGetProperties(own->device, &of);
    memcpy(own->uuid, of.uuid, sizeof own->uuid);
    failed = failed || zeContextCreate(driver, &context, &own->context);
    failed = failed || zeCommandListCreateImmediate(own->context, own->device, &desc, &own->list);
    return failed || zeCommandQueueCreate(own->context, own->device, &desc, &own->queue);
}

API void *own_memory(const Own *own, size_t bytes)
{
    const ze_device_mem_alloc_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC};
    void *at = NULL;
    return zeMemAllocDevice(own->context, &desc, bytes, 64, own->device, &at) ? NULL : at;
}

/* On the list, as commands of SYCL's are: nothing orders them with others'. */
API int own_copy(const Own *own, void *to, const void *from, size_t bytes)
{
    return (int)zeCommandListAppendMemoryCopy(own->list, to, from, bytes, NULL, 0, NULL);
}

/* Memory that the host and the device see. */
API void *own_host(const Own *own, size_t bytes)
{
    const ze_host_mem_alloc_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC};
    void *at = NULL;
    return zeMemAllocHost(own->context, &desc, bytes, 64, &at) ? NULL : at;
}

API void own_free(const Own *own, void *at) { zeMemFree(own->context, at); }
API void own_work(void) { levelzero_mock_work(); }
API const char *own_broken(void) { return levelzero_mock.broken; }
