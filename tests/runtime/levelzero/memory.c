/* memory.c - contexts and memory of the mock. What is the device's can be touched while work is done alone. */
#include "inside.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct ze_context {
    Object head;
};
static Memory *list[1 << 14];
static uint32_t count;

#define DEVICE(handle) RULE(mock_is_device(handle), ZE_RESULT_ERROR_INVALID_NULL_HANDLE)

ze_result_t zeContextCreate(ze_driver_handle_t driver, const ze_context_desc_t *desc,
                            ze_context_handle_t *context)
{
    ENTER();
    RULE(driver != NULL, ZE_RESULT_ERROR_INVALID_NULL_HANDLE);
    DESC(desc, CONTEXT_DESC);
    NOT_NULL(context);
    *context = mock_new(MOCK_CONTEXT, sizeof(struct ze_context), NULL);
    LEAVE(ZE_RESULT_SUCCESS);
}
ze_result_t zeContextDestroy(ze_context_handle_t context)
{
    int others = 0;
    END();
    LIVE(context, MOCK_CONTEXT);
    for (int n = 0; n < MOCK_KINDS; n++) others += n == MOCK_CONTEXT ? 0 : levelzero_mock.alive[n];
    RULE(!others || levelzero_mock.alive[MOCK_CONTEXT] > 1,
         ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE); /* what was made in it ends before it */
    mock_end(context);
    LEAVE(ZE_RESULT_SUCCESS);
}
ze_result_t zeContextGetStatus(ze_context_handle_t context)
{
    ENTER();
    LIVE(context, MOCK_CONTEXT);
    LEAVE(ZE_RESULT_SUCCESS);
}

/* ---- memory */

void mock_open_memory(bool open)
{
    for (uint32_t n = 0; n < count; n++)
        if (list[n]->mapped)
            mprotect(list[n]->at, list[n]->mapped, open ? PROT_READ | PROT_WRITE : PROT_NONE);
}

Memory *mock_memory(const void *at, size_t bytes)
{
    for (uint32_t n = 0; n < count; n++) {
        const Memory *m = list[n];
        const char *from = at;
        if (from >= m->at && from < m->at + m->size && bytes <= m->size - (size_t)(from - m->at))
            return list[n];
    }
    return NULL;
}

static ze_result_t allocate(ze_context_handle_t context, size_t size, size_t alignment,
                            uint32_t type, ze_device_handle_t device, void **memory)
{
    enum { PAGE = 4096 };
    const size_t rounded = (size + PAGE - 1) / PAGE * PAGE;
    if (count == sizeof list / sizeof *list) return ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    char *at = alignment > PAGE ? NULL
                                : mmap(NULL, rounded, PROT_READ | PROT_WRITE,
                                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!at || at == MAP_FAILED) return ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY;
    if (size < 1 << 20) memset(at, 0x55, rounded); /* nobody said that it is 0 */
    Memory *made = mock_new(MOCK_MEMORY, sizeof *made, context);
    made->at = at;
    made->size = size;
    made->type = type;
    made->device = device;
    made->mapped = type == ZE_MEMORY_TYPE_DEVICE ? rounded : 0;
    if (made->mapped) mprotect(at, rounded, PROT_NONE);
    list[count++] = made;
    *memory = at;
    return ZE_RESULT_SUCCESS;
}

static bool fits(size_t size, const void *next)
{
    const ze_relaxed_allocation_limits_exp_desc_t *relaxed = next;
    const bool asks = relaxed &&
                      relaxed->stype == ZE_STRUCTURE_TYPE_RELAXED_ALLOCATION_LIMITS_EXP_DESC &&
                      relaxed->flags == ZE_RELAXED_ALLOCATION_LIMITS_EXP_FLAG_MAX_SIZE;
    return size <= levelzero_mock.memory_bytes ||
           (asks && (levelzero_mock.relaxed || getenv("LEVELZERO_DOUBLE_RELAXED")));
}
static bool is_power(size_t n) { return (n & (n - 1)) == 0; }

ze_result_t zeMemAllocDevice(ze_context_handle_t context, const ze_device_mem_alloc_desc_t *desc,
                             size_t size, size_t alignment, ze_device_handle_t device,
                             void **memory)
{
    ENTER();
    LIVE(context, MOCK_CONTEXT);
    DEVICE(device);
    DESC(desc, DEVICE_MEM_ALLOC_DESC);
    NOT_NULL(memory);
    RULE(size > 0, ZE_RESULT_ERROR_UNSUPPORTED_SIZE);
    RULE(is_power(alignment), ZE_RESULT_ERROR_UNSUPPORTED_ALIGNMENT);
    if (!fits(size, desc->pNext)) LEAVE(ZE_RESULT_ERROR_UNSUPPORTED_SIZE);
    LEAVE(allocate(context, size, alignment, ZE_MEMORY_TYPE_DEVICE, device, memory));
}
ze_result_t zeMemAllocHost(ze_context_handle_t context, const ze_host_mem_alloc_desc_t *desc,
                           size_t size, size_t alignment, void **memory)
{
    ENTER();
    LIVE(context, MOCK_CONTEXT);
    DESC(desc, HOST_MEM_ALLOC_DESC);
    NOT_NULL(memory);
    RULE(size > 0, ZE_RESULT_ERROR_UNSUPPORTED_SIZE);
    RULE(is_power(alignment), ZE_RESULT_ERROR_UNSUPPORTED_ALIGNMENT);
    LEAVE(allocate(context, size, alignment, ZE_MEMORY_TYPE_HOST, NULL, memory));
}
ze_result_t zeMemAllocShared(ze_context_handle_t context, const ze_device_mem_alloc_desc_t *desc,
                             const ze_host_mem_alloc_desc_t *host, size_t size, size_t alignment,
                             ze_device_handle_t device, void **memory)
{
    ENTER();
    LIVE(context, MOCK_CONTEXT);
    DESC(desc, DEVICE_MEM_ALLOC_DESC);
    DESC(host, HOST_MEM_ALLOC_DESC);
    NOT_NULL(memory);
    RULE(size > 0, ZE_RESULT_ERROR_UNSUPPORTED_SIZE);
    LEAVE(allocate(context, size, alignment, ZE_MEMORY_TYPE_SHARED, device, memory));
}
ze_result_t zeMemFree(ze_context_handle_t context, void *memory)
{
    END();
    LIVE(context, MOCK_CONTEXT);
    NOT_NULL(memory);
    Memory *m = mock_memory(memory, 0);
    RULE(m && m->at == memory, ZE_RESULT_ERROR_INVALID_ARGUMENT);
    RULE(m->head.context == &context->head, ZE_RESULT_ERROR_INVALID_ARGUMENT);
    RULE(!mock_is_used(m), ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE);
    for (uint32_t n = 0; n < count; n++)
        if (list[n] == m) list[n] = list[--count];
    munmap(m->at, (m->size + 4095) / 4096 * 4096);
    mock_end(m);
    LEAVE(ZE_RESULT_SUCCESS);
}
ze_result_t zeMemGetAllocProperties(ze_context_handle_t context, const void *at,
                                    ze_memory_allocation_properties_t *p,
                                    ze_device_handle_t *device)
{
    ENTER();
    LIVE(context, MOCK_CONTEXT);
    NOT_NULL(at);
    DESC(p, MEMORY_ALLOCATION_PROPERTIES);
    const Memory *m = mock_memory(at, 0);
    const bool ours = m && m->head.context == &context->head;
    p->type = ours ? m->type : ZE_MEMORY_TYPE_UNKNOWN;
    if (device) *device = ours ? m->device : NULL;
    LEAVE(ZE_RESULT_SUCCESS);
}
ze_result_t zeMemGetAddressRange(ze_context_handle_t context, const void *at, void **base,
                                 size_t *size)
{
    ENTER();
    LIVE(context, MOCK_CONTEXT);
    NOT_NULL(at);
    const Memory *m = mock_memory(at, 0);
    if (!m) LEAVE(ZE_RESULT_ERROR_UNKNOWN);
    if (base) *base = m->at;
    if (size) *size = m->size;
    LEAVE(ZE_RESULT_SUCCESS);
}
