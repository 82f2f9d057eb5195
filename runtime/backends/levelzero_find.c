/* levelzero_find.c - Level Zero's devices of all drivers, what they say of themselves, and why kernels of ours cannot run on some. */
#include "levelzero.h"

#include <stdio.h>

/* ---- counting */

static bool no_driver(ze_result_t code, AuText *why)
{
    char number[24];
    if (code == ZE_RESULT_ERROR_UNINITIALIZED)
        rt_text_add(why, "libze_loader.so.1 is there, but no driver that works: Intel's is "
                         "libze_intel_gpu.so.1 (ZE_ENABLE_LOADER_DEBUG_TRACE=1 tells what the "
                         "loader tried)");
    else if (code != ZE_RESULT_SUCCESS)
        rt_text_add(why, "libze_loader.so.1 is there, but zeInit: %s", rt_ze_error(code, number));
    return code != ZE_RESULT_SUCCESS;
}

/* The devices of one driver, or with [whole] the parts of one of its devices, behind those that are there. */
static ze_result_t add_devices(const AuLevelZero *ze, ze_driver_handle_t driver,
                               ze_device_handle_t whole, ZeListed *listed, uint32_t *count)
{
    ze_device_handle_t found[ZE_DEVICES];
    uint32_t most = ZE_DEVICES;
    const ze_result_t code = whole ? ze->zeDeviceGetSubDevices(whole, &most, found)
                                   : ze->zeDeviceGet(driver, &most, found);
    if (code != ZE_RESULT_SUCCESS) return code;
    for (uint32_t n = 0; n < most && *count < ZE_DEVICES; n++)
        listed[(*count)++] = (ZeListed){driver, found[n]};
    return code;
}

uint32_t rt_ze_devices(AuLevelZero *ze, ZeListed *listed, AuText *why)
{
    ze_driver_handle_t drivers[ZE_DRIVERS];
    uint32_t driver_count = ZE_DRIVERS, count = 0;
    char number[24];
    if (!rt_ze_api(ze, why) || no_driver(ze->zeInit(0), why)) return 0;
    const char *call = "zeDriverGet";
    ze_result_t code = ze->zeDriverGet(&driver_count, drivers), last = code;
    for (uint32_t n = 0; code == ZE_RESULT_SUCCESS && n < driver_count && n < ZE_DRIVERS; n++) {
        call = "zeDeviceGet"; /* a driver whose device is gone does not hide another's */
        const ze_result_t one = add_devices(ze, drivers[n], NULL, listed, &count);
        if (one != ZE_RESULT_SUCCESS) last = one;
    }
    const uint32_t whole = count;
    for (uint32_t n = 0; n < whole; n++) /* one without parts says so, or that it knows no parts */
        add_devices(ze, listed[n].driver, listed[n].device, listed, &count);
    if (!count && last != ZE_RESULT_SUCCESS)
        rt_text_add(why, "libze_loader.so.1 is there, but %s: %s", call, rt_ze_error(last, number));
    else if (!count)
        rt_text_add(why, "libze_loader.so.1 finds %u driver%s, but no device", driver_count,
                    driver_count == 1 ? "" : "s");
    return count;
}

/* ---- facts */

static ze_result_t find_queues(const AuLevelZero *ze, ze_device_handle_t device, ZeFacts *facts)
{
    enum { GROUPS = 16 };
    ze_command_queue_group_properties_t groups[GROUPS];
    uint32_t count = GROUPS;
    memset(groups, 0, sizeof groups);
    for (uint32_t n = 0; n < GROUPS; n++)
        groups[n].stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_GROUP_PROPERTIES;
    facts->ordinal = UINT32_MAX;
    const ze_result_t code = ze->zeDeviceGetCommandQueueGroupProperties(device, &count, groups);
    for (uint32_t n = count < GROUPS ? count : GROUPS; code == 0 && n-- > 0;)
        if (groups[n].flags & ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COMPUTE && groups[n].numQueues)
            facts->ordinal = n;
    return code;
}

static ze_result_t find_memory(const AuLevelZero *ze, ze_device_handle_t device, ZeFacts *facts)
{
    enum { MEMORIES = 8 };
    ze_device_memory_properties_t memories[MEMORIES];
    uint32_t count = MEMORIES;
    memset(memories, 0, sizeof memories);
    for (uint32_t n = 0; n < MEMORIES; n++)
        memories[n].stype = ZE_STRUCTURE_TYPE_DEVICE_MEMORY_PROPERTIES;
    const ze_result_t code = ze->zeDeviceGetMemoryProperties(device, &count, memories);
    for (uint32_t n = 0; code == 0 && n < count && n < MEMORIES; n++)
        facts->memory_bytes += memories[n].totalSize;
    return code;
}

static ze_result_t find_units(const AuLevelZero *ze, ze_device_handle_t device, ZeFacts *facts)
{
    ze_intel_device_module_dp_exp_properties_t units = {
        .stype = ZE_INTEL_DEVICE_MODULE_DP_EXP_PROPERTIES};
    facts->module.stype = ZE_STRUCTURE_TYPE_DEVICE_MODULE_PROPERTIES;
    facts->module.pNext = &units;
    const ze_result_t code = ze->zeDeviceGetModuleProperties(device, &facts->module);
    facts->module.pNext = NULL;
    facts->multiplies = units.flags & ZE_INTEL_DEVICE_MODULE_DPAS;
    return code;
}

const char *rt_ze_facts(const AuLevelZero *ze, const ZeListed *listed, ZeFacts *f,
                        ze_result_t *code)
{
    const ze_device_handle_t device = listed->device;
    ze_device_memory_access_properties_t access = {
        .stype = ZE_STRUCTURE_TYPE_DEVICE_MEMORY_ACCESS_PROPERTIES};
    memset(f, 0, sizeof *f);
    f->driver.stype = ZE_STRUCTURE_TYPE_DRIVER_PROPERTIES;
    f->compute.stype = ZE_STRUCTURE_TYPE_DEVICE_COMPUTE_PROPERTIES;
    *code = ze->zeDriverGetApiVersion(listed->driver, &f->version);
    if (*code) return "zeDriverGetApiVersion";
    f->of.stype = f->version >= ZE_API_1_2 ? ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES_1_2
                                           : ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES;
    *code = ze->zeDriverGetProperties(listed->driver, &f->driver);
    if (*code) return "zeDriverGetProperties";
    *code = ze->zeDeviceGetProperties(device, &f->of);
    if (*code) return "zeDeviceGetProperties";
    *code = ze->zeDeviceGetComputeProperties(device, &f->compute);
    if (*code) return "zeDeviceGetComputeProperties";
    *code = find_units(ze, device, f);
    if (*code) return "zeDeviceGetModuleProperties";
    *code = find_queues(ze, device, f);
    if (*code) return "zeDeviceGetCommandQueueGroupProperties";
    *code = find_memory(ze, device, f);
    if (*code) return "zeDeviceGetMemoryProperties";
    *code = ze->zeDeviceGetMemoryAccessProperties(device, &access);
    if (*code) return "zeDeviceGetMemoryAccessProperties";
    f->sees_host = access.sharedSystemAllocCapabilities & ZE_MEMORY_ACCESS_CAP_FLAG_RW;
    return NULL;
}

const char *rt_ze_lacks(const ZeFacts *facts)
{
    if (facts->of.type == ZE_DEVICE_TYPE_VPU) return "it is an NPU, which runs no kernels of ours";
    if (facts->module.spirvVersionSupported < 1 << 16) return "its driver takes no SPIR-V";
    if (facts->ordinal == UINT32_MAX) return "it has no queue that computes";
    return NULL;
}

/* ---- the list */

/* Units of which a subgroup of 16 lanes has a product: those of devices on which subgroups have at least 16. Lanes of such a subgroup have 128
 * registers of 32 bits, or 256 where a module is built for half as many threads. */
static void add_units(const ZeFacts *f, AuText *words)
{
    bool of_16 = f->multiplies && f->compute.numSubGroupSizes;
    for (uint32_t n = 0; n < f->compute.numSubGroupSizes && n < ZE_SUBGROUPSIZE_COUNT; n++)
        of_16 &= f->compute.subGroupSizes[n] >= 16;
    if (of_16) rt_text_add(words, " dpas16 registers256");
}

static void add_features(const ZeFacts *f, AuText *words)
{
    static const uint32_t kilobytes[] = {16, 32, 48, 64, 96, 128};
    static const struct {
        uint32_t flag;
        const char *word;
    } flags[] = {{ZE_DEVICE_MODULE_FLAG_FP16, "fp16"},
                 {ZE_DEVICE_MODULE_FLAG_FP64, "fp64"},
                 {ZE_DEVICE_MODULE_FLAG_INT64_ATOMICS, "int64_atomics"},
                 {ZE_DEVICE_MODULE_FLAG_DP4A, "dp4a"}};
    const uint32_t spirv = f->module.spirvVersionSupported;
    rt_text_add(words, "levelzero%u.%u", f->version >> 16, f->version & 0xffff);
    for (uint32_t minor = 0; spirv >> 16 == 1 && minor <= (spirv & 0xffff) && minor < 10; minor++)
        rt_text_add(words, " SPIR-V_1.%u", minor);
    for (size_t n = 0; n < sizeof kilobytes / sizeof *kilobytes; n++)
        if (f->compute.maxSharedLocalMemory >= kilobytes[n] * 1024)
            rt_text_add(words, " shared%uk", kilobytes[n]);
    for (uint32_t n = 0; n < f->compute.numSubGroupSizes && n < ZE_SUBGROUPSIZE_COUNT; n++)
        rt_text_add(words, " subgroup%u", f->compute.subGroupSizes[n]);
    for (size_t n = 0; n < sizeof flags / sizeof *flags; n++)
        if (f->module.flags & flags[n].flag) rt_text_add(words, " %s", flags[n].word);
    add_units(f, words);
    if (f->of.flags & ZE_DEVICE_PROPERTY_FLAG_INTEGRATED) rt_text_add(words, " integrated");
    if (f->of.flags & ZE_DEVICE_PROPERTY_FLAG_SUBDEVICE) rt_text_add(words, " tile");
}

static void add_driver(const ZeFacts *f, AuText *text)
{
    rt_text_add(text, "Level Zero %u.%u, driver %u, device %04x:%04x", f->version >> 16,
                f->version & 0xffff, f->driver.driverVersion, f->of.vendorId, f->of.deviceId);
    if (f->of.flags & ZE_DEVICE_PROPERTY_FLAG_SUBDEVICE)
        rt_text_add(text, ", tile %u of it", f->of.subdeviceId);
    rt_text_add(text, ", groups of %u, %u bytes of shared memory", f->compute.maxTotalGroupSize,
                f->compute.maxSharedLocalMemory);
}

static aule_status found(AuFinder *finder, const AuLevelZero *ze, const ZeListed *listed,
                         uint32_t index, AuSink sink)
{
    char id[24], number[24];
    ZeFacts f;
    ze_result_t code;
    AuText why = {.memory = sink.memory}, driver = {.memory = sink.memory};
    AuText words = {.memory = sink.memory}, uuid = {.memory = sink.memory};
    const char *call = rt_ze_facts(ze, listed, &f, &code);
    const char *lacks = call ? NULL : rt_ze_lacks(&f);
    if (call) rt_text_add(&why, "%s: %s", call, rt_ze_error(code, number));
    if (lacks) rt_text_add(&why, "%s", lacks);
    add_features(&f, &words);
    add_driver(&f, &driver);
    if (!call) rt_add_uuid(f.of.uuid, &uuid);
    f.of.name[sizeof f.of.name - 1] = 0;
    snprintf(id, sizeof id, "levelzero:%u", index);
    const aule_device_info info = {.id = id,
                                   .backend = "levelzero",
                                   .available = !why.length,
                                   .reason = why.length ? rt_text_str(&why) : NULL,
                                   .name = f.of.name,
                                   .driver = rt_text_str(&driver),
                                   .features = rt_text_str(&words),
                                   .kind = f.of.type == ZE_DEVICE_TYPE_GPU   ? AULE_DEVICE_GPU
                                           : f.of.type == ZE_DEVICE_TYPE_CPU ? AULE_DEVICE_CPU
                                                                             : AULE_DEVICE_OTHER,
                                   .units = f.of.numSlices * f.of.numSubslicesPerSlice,
                                   .memory_bytes = f.memory_bytes,
                                   .dl = {kDLOneAPI, (int32_t)index},
                                   .uuid = rt_text_str(&uuid)};
    const bool failed = why.failed || driver.failed || words.failed || uuid.failed;
    aule_status status = failed ? rt_fail_memory(sink) : rt_found(finder, &info, sink);
    rt_text_free(&why);
    rt_text_free(&driver);
    rt_text_free(&words);
    rt_text_free(&uuid);
    return status;
}

aule_status rt_ze_find(AuFinder *finder, AuSink sink)
{
    AuLevelZero ze;
    ZeListed listed[ZE_DEVICES];
    AuText why = {.memory = sink.memory};
    const uint32_t count = rt_ze_devices(&ze, listed, &why);
    aule_status status = AULE_OK;
    if (!count) return rt_found_none(finder, "levelzero", (DLDevice){kDLOneAPI, 0}, &why, sink);
    for (uint32_t n = 0; !status && n < count; n++)
        status = found(finder, &ze, &listed[n], n, sink);
    rt_text_free(&why);
    return status;
}
