/* levelzero_memory.c - memory of the device (USM), copies through 4 MB of the host's that the device sees, and whose memory a tensor is
 * in: any kind of USM of the device's context, or any of the process where the device sees that. */
#include "levelzero.h"

/* ---- whose memory */

aule_status rt_ze_check_memory(void *state, const char *name, void *data, uint64_t bytes,
                               AuSink sink)
{
    LevelZero *z = state;
    ze_memory_allocation_properties_t of = {.stype =
                                                ZE_STRUCTURE_TYPE_MEMORY_ALLOCATION_PROPERTIES};
    ze_device_handle_t device = NULL;
    void *base = NULL;
    size_t size = 0;
    ze_result_t code = z->ze.zeMemGetAllocProperties(z->context, data, &of, &device);
    if (code) return rt_ze_check(z, sink, "zeMemGetAllocProperties", code);
    if (of.type == ZE_MEMORY_TYPE_UNKNOWN && z->facts.sees_host) return AULE_OK;
    if (of.type == ZE_MEMORY_TYPE_UNKNOWN)
        return rt_fail(sink, AULE_ERROR_TENSOR,
                       "%s: its data is no memory of the device's context (USM); memory of another "
                       "context is opened with aule_device_options.context",
                       name);
    code = z->ze.zeMemGetAddressRange(z->context, data, &base, &size);
    if (code) return rt_ze_check(z, sink, "zeMemGetAddressRange", code);
    const uint64_t left = size - (uint64_t)((char *)data - (char *)base);
    if (bytes <= left) return AULE_OK;
    return rt_fail(sink, AULE_ERROR_TENSOR,
                   "%s: its memory has %llu bytes from there on, its shape and strides reach %llu",
                   name, (unsigned long long)left, (unsigned long long)bytes);
}

/* ---- buffers */

static aule_status fail_allocation(LevelZero *z, uint64_t bytes, ze_result_t code, AuSink sink)
{
    AuText more = {.memory = z->heap};
    const bool memory =
        code == ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY || code == ZE_RESULT_ERROR_UNSUPPORTED_SIZE;
    if (!memory) return rt_ze_check(z, sink, "zeMemAllocDevice", code);
    rt_text_add(&more, "%llu bytes were asked for, the device has %llu, %llu at once",
                (unsigned long long)bytes, (unsigned long long)z->facts.memory_bytes,
                (unsigned long long)z->facts.of.maxMemAllocSize);
    aule_status status =
        rt_ze_fail(z, sink, AULE_ERROR_MEMORY, "zeMemAllocDevice", code, rt_text_str(&more));
    rt_text_free(&more);
    return status;
}

/* More than the device has at once is asked for as the extension says (ZE_experimental_relaxed_allocation_limits); drivers without it
 * refuse the size. */
aule_status rt_ze_buffer_new(void *state, uint64_t bytes, void **data, AuSink sink)
{
    LevelZero *z = state;
    const ze_relaxed_allocation_limits_exp_desc_t relaxed = {
        .stype = ZE_STRUCTURE_TYPE_RELAXED_ALLOCATION_LIMITS_EXP_DESC,
        .flags = ZE_RELAXED_ALLOCATION_LIMITS_EXP_FLAG_MAX_SIZE};
    const ze_device_mem_alloc_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC,
                                             .pNext = bytes > z->facts.of.maxMemAllocSize ? &relaxed
                                                                                          : NULL};
    void *at = NULL;
    aule_status status = rt_ze_alive(z, sink);
    if (status) return status;
    const ze_result_t code = z->ze.zeMemAllocDevice(z->context, &desc, bytes ? (size_t)bytes : 1,
                                                    ZE_ALIGN, z->at.device, &at);
    if (code) return fail_allocation(z, bytes, code, sink);
    *data = at;
    return AULE_OK;
}

/* The driver may free what the device still uses, so that is waited for; of what the caller executes the caller knows. */
void rt_ze_buffer_free(void *state, void *data)
{
    LevelZero *z = state;
    if (rt_ze_idle(z)) z->ze.zeMemFree(z->context, data);
}

/* ---- copies */

static aule_status make_stage(LevelZero *z, AuSink sink)
{
    const ze_host_mem_alloc_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC};
    if (z->stage) return AULE_OK;
    const ze_result_t code = z->ze.zeMemAllocHost(z->context, &desc, ZE_STAGE, ZE_ALIGN, &z->stage);
    if (code) z->stage = NULL;
    return rt_ze_check(z, sink, "zeMemAllocHost", code);
}

static aule_status copy_part(LevelZero *z, const ZeWork *work, void *to, const void *from,
                             size_t bytes, AuSink sink)
{
    aule_status status = rt_ze_order(z, work, NULL, sink);
    if (status) return status;
    const ze_result_t code =
        z->ze.zeCommandListAppendMemoryCopy(work->list, to, from, bytes, NULL, 0, NULL);
    if (code) return rt_ze_check(z, sink, "zeCommandListAppendMemoryCopy", code);
    return rt_ze_wait_own(z, work, sink);
}

static aule_status copy(LevelZero *z, char *at, const char *from, char *to, uint64_t bytes,
                        AuSink sink)
{
    ZeWork work;
    aule_status status = rt_ze_open(z, NULL, &work, sink);
    if (status) return status;
    status = make_stage(z, sink);
    for (uint64_t done = 0; !status && done < bytes; done += ZE_STAGE) {
        const size_t part = (size_t)(bytes - done < ZE_STAGE ? bytes - done : ZE_STAGE);
        if (from) memcpy(z->stage, from + done, part);
        status = from ? copy_part(z, &work, at + done, z->stage, part, sink)
                      : copy_part(z, &work, z->stage, at + done, part, sink);
        if (to && !status) memcpy(to + done, z->stage, part);
    }
    return rt_ze_put(z, &work, status, sink);
}

aule_status rt_ze_upload(void *state, void *data, uint64_t offset, const void *from, uint64_t bytes,
                         AuSink sink)
{
    return copy(state, (char *)data + offset, from, NULL, bytes, sink);
}

aule_status rt_ze_download(void *state, void *data, uint64_t offset, void *to, uint64_t bytes,
                           AuSink sink)
{
    return copy(state, (char *)data + offset, NULL, to, bytes, sink);
}
