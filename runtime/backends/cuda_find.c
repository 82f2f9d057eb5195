/* cuda_find.c - which of NVIDIA's devices there are, and which code suits them. */
#include <stdio.h>

#include "cuda.h"

/* ---- finding */

int rt_cuda_attribute(const AuCuda *cu, CUdevice device, int which)
{
    int value = 0;
    return cu->cuDeviceGetAttribute(&value, which, device) == 0 ? value : 0;
}

uint32_t rt_cuda_capability(const AuCuda *cu, CUdevice device)
{
    return (uint32_t)(rt_cuda_attribute(cu, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) *
                          10 +
                      rt_cuda_attribute(cu, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
}

static const char *why_not(const AuCuda *cu, CUdevice device, int driver)
{
    if (rt_cuda_attribute(cu, device, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE) ==
        CU_COMPUTEMODE_PROHIBITED)
        return "its compute mode is 'prohibited' (nvidia-smi -c)";
    if (rt_cuda_capability(cu, device) < 70)
        return "it is older than compute capability 7.0, for which there are kernels";
    if (rt_cuda_ptx(driver) == 0) return "its driver is older than CUDA 10.0";
    return NULL;
}

aule_status rt_cuda_found_mute(AuFinder *finder, const AuCuda *cu, const char *id, DLDevice dl,
                               const char *call, CUresult code, AuSink sink)
{
    AuText why = {.memory = sink.memory};
    rt_text_add(&why, "%s: ", call);
    rt_cuda_error(cu, code, &why);
    const aule_device_info info = {.id = id,
                                   .backend = dl.device_type == kDLROCM ? "hip" : "cuda",
                                   .reason = rt_text_str(&why),
                                   .kind = AULE_DEVICE_GPU,
                                   .dl = dl};
    const aule_status status = why.failed ? rt_fail_memory(sink) : rt_found(finder, &info, sink);
    rt_text_free(&why);
    return status;
}

static aule_status found(AuFinder *finder, const AuCuda *cu, uint32_t index, int driver,
                         AuSink sink)
{
    CUdevice device;
    char id[24], name[128] = "";
    size_t bytes = 0;
    AuText words = {.memory = sink.memory}, features = {.memory = sink.memory};
    snprintf(id, sizeof id, "cuda:%u", index);
    const CUresult code = cu->cuDeviceGet(&device, (int)index);
    if (code != 0)
        return rt_cuda_found_mute(finder, cu, id, (DLDevice){kDLCUDA, (int32_t)index},
                                  "cuDeviceGet", code, sink);
    cu->cuDeviceGetName(name, sizeof name - 1, device);
    cu->cuDeviceTotalMem(&bytes, device);
    uint32_t capability = rt_cuda_capability(cu, device), ptx = rt_cuda_ptx(driver);
    rt_text_add(&words, "CUDA %d.%d, PTX up to %u.%u, compute capability %u.%u", driver / 1000,
                driver % 1000 / 10, ptx / 10, ptx % 10, capability / 10, capability % 10);
    rt_cuda_features(driver, capability, &features);
    const char *reason = why_not(cu, device, driver);
    aule_device_info info = {
        .id = id,
        .backend = "cuda",
        .available = reason == NULL,
        .reason = reason,
        .name = name,
        .driver = rt_text_str(&words),
        .features = rt_text_str(&features),
        .kind = AULE_DEVICE_GPU,
        .units = (uint32_t)rt_cuda_attribute(cu, device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
        .memory_bytes = bytes,
        .dl = {kDLCUDA, (int32_t)index},
    };
    bool failed = words.failed || features.failed;
    aule_status status = failed ? rt_fail_memory(sink) : rt_found(finder, &info, sink);
    rt_text_free(&words);
    rt_text_free(&features);
    return status;
}

bool rt_cuda_begin(AuCuda *cu, int *count, int *driver, AuText *why)
{
    if (!rt_cuda_api(cu, why)) return false;
    const char *call = "cuInit";
    CUresult code = cu->cuInit(0);
    if (code == 0) {
        call = "cuDriverGetVersion";
        code = cu->cuDriverGetVersion(driver);
    }
    if (code == 0) {
        call = "cuDeviceGetCount";
        code = cu->cuDeviceGetCount(count);
    }
    if (code == 0 && *count > 0) return true;
    if (code == 0) code = CUDA_ERROR_NO_DEVICE;
    rt_text_add(why, "libcuda.so.1 is there, but %s: ", call);
    rt_cuda_error(cu, code, why);
    if (code == CUDA_ERROR_NOT_INITIALIZED)
        rt_text_add(why, ": CUDA does not work in a process that was forked after it began");
    return false;
}

aule_status rt_cuda_find(AuFinder *finder, AuSink sink)
{
    AuCuda cu;
    AuText why = {.memory = sink.memory};
    int count = 0, driver = 0;
    if (!rt_cuda_begin(&cu, &count, &driver, &why))
        return rt_found_none(finder, "cuda", (DLDevice){kDLCUDA, 0}, &why, sink);
    aule_status status = AULE_OK;
    for (uint32_t i = 0; !status && i < (uint32_t)count; i++)
        status = found(finder, &cu, i, driver, sink);
    return status;
}

/* ---- suiting */

/* Features begin with the architectures whose code runs, the newest first. */
int rt_cuda_rank_arch(const aule_device_info *info, const char *arch)
{
    size_t length = strlen(arch);
    int rank = 0;
    for (const char *word = info->features; *word; rank++) {
        size_t span = strcspn(word, " ");
        if (span == length && memcmp(word, arch, length) == 0) return rank;
        word += span + (word[span] == ' ');
    }
    return -1;
}

void rt_cuda_explain(const aule_device_info *info, const char *feature, AuText *text)
{
    bool ptx = strncmp(feature, "ptx", 3) == 0;
    const char *first = strstr(info->features, ptx ? "ptx" : "sm_");
    if (!first) return;
    rt_text_add(text, ", the %s %.*s", ptx ? "driver takes up to" : "device is",
                (int)strcspn(first, " "), first);
}
