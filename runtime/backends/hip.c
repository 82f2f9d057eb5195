/* hip.c - AMD's devices. The driver's functions have the meanings of NVIDIA's (hip_api.def), so contexts, memory, events and launches are
 * cuda.c's and cuda_launch.c's; here is what differs: the library, devices, code.
 *
 * Types and numbers from HIP's documentation, ROCm 6 and 7. Never run against the library itself: tests have a double of it. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "cuda.h"
#include "hip_object.h"

#include "../descriptor.h"

enum {
    HIP_ATTRIBUTE_MULTIPROCESSOR_COUNT = 63,
    HIP_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS = 65,
    HIP_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK = 74,
    /* hipDeviceProp_t of ROCm 6 on (hipGetDevicePropertiesR0600): its size and its fields uuid and gcnArchName */
    PROPERTIES_BYTES = 1472,
    UUID_AT = 256,
    ARCH_AT = 1160,
    ARCH_BYTES = 256
};

/* hipPointerAttribute_t from ROCm 6 on. */
typedef struct Attributes {
    int type, device;
    void *on_device, *on_host;
    int is_managed;
    unsigned flags;
} Attributes;
enum { UNREGISTERED = 0, ON_HOST = 1, ON_DEVICE = 2 };

typedef CUresult (*GetProperties)(void *properties, CUdevice device);

/* ---- the library */

/* Is [cause] of opening [name] that there is no such file? A file that is damaged, or lacks what it depends on, tells of something else. */
static bool is_absent(const char *name, const char *cause)
{
    return strstr(cause, name) && strstr(cause, "No such file or directory");
}

/* The copy that the process has, else the newest. It starts threads, so it stays. [why]: of the newest that is there, else of the last name. */
static void *open_library(AuText *why)
{
    static const char *const names[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so"};
    enum { NAMES = sizeof names / sizeof *names, HOW = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE };
    for (size_t n = 0; n < NAMES; n++) {
        void *library = dlopen(names[n], HOW | RTLD_NOLOAD);
        if (library) return library;
    }
    AuText causes = {.memory = why->memory};
    void *library = NULL;
    for (size_t n = 0; !library && n < NAMES; n++) {
        library = dlopen(names[n], HOW);
        const char *cause = library ? "" : dlerror();
        if (!cause) cause = "no cause given";
        if (!causes.length && (n + 1 == NAMES || !is_absent(names[n], cause)))
            rt_text_add(&causes, "%s", cause);
    }
    if (!library)
        rt_text_add(why, "libamdhip64.so, which ROCm brings, cannot be loaded: %s",
                    rt_text_str(&causes));
    rt_text_free(&causes);
    return library;
}

static bool load_function(void *library, const char *symbol, void *function, AuText *why)
{
    void *found = dlsym(library, symbol);
    memcpy(function, &found, sizeof found);
    if (!found && !why->length)
        rt_text_add(why, "libamdhip64.so has no %s: ROCm is too old, at least 6.0 is needed",
                    symbol);
    return found != NULL;
}

static bool load_api(AuCuda *cu, GetProperties *properties, AuText *why)
{
    void *library = open_library(why);
    if (!library) return false;
    memset(cu, 0, sizeof *cu);
    bool fine = load_function(library, "hipGetDevicePropertiesR0600", (void *)properties, why);
#define HIP(name, symbol) fine = load_function(library, symbol, (void *)&cu->name, why) && fine;
#include "hip_api.def"
    dlclose(library);
    return fine;
}

static const char *call_name(const char *call)
{
#define HIP(name, symbol)                                                                          \
    if (strcmp(call, #name) == 0) return symbol;
#include "hip_api.def"
    return call;
}

static bool begin_with(AuCuda *cu, GetProperties *properties, int *count, int *driver, AuText *why)
{
    if (!load_api(cu, properties, why)) return false;
    const char *call = "hipInit";
    CUresult code = cu->cuInit(0);
    if (code == 0) {
        call = "hipDriverGetVersion";
        code = cu->cuDriverGetVersion(driver);
    }
    if (code == 0) {
        call = "hipGetDeviceCount";
        code = cu->cuDeviceGetCount(count);
    }
    if (code == 0 && *count > 0) return true;
    if (code == 0) code = CUDA_ERROR_NO_DEVICE;
    rt_text_add(why, "libamdhip64.so is there, but %s: ", call);
    rt_cuda_error(cu, code, why);
    return false;
}

static bool begin(AuCuda *cu, int *count, int *driver, AuText *why)
{
    GetProperties properties;
    return begin_with(cu, &properties, count, driver, why);
}

/* ---- devices */

/* Generic ISAs, code of which runs on machines that are not of the same name ("User Guide for AMDGPU Backend", Generic Processor). Loaders
 * take such code from ROCm 6.4 on; older ones refuse it. */
static const struct {
    const char *isa, *machines;
} covered[] = {
    {"gfx9-4-generic", " gfx942 gfx950 "},
    {"gfx10-3-generic", " gfx1030 gfx1031 gfx1032 gfx1033 gfx1034 gfx1035 gfx1036 "},
    {"gfx11-generic", " gfx1100 gfx1101 gfx1102 gfx1103 gfx1150 gfx1151 gfx1152 gfx1153 "},
    {"gfx12-generic", " gfx1200 gfx1201 "}};

static void add_generic(AuText *features, const char *machine, size_t length)
{
    char word[ARCH_BYTES + 3];
    snprintf(word, sizeof word, " %.*s ", (int)length, machine);
    for (size_t n = 0; n < sizeof covered / sizeof *covered; n++)
        if (strstr(covered[n].machines, word)) rt_text_add(features, " %s", covered[n].isa);
}

/* Characters, of machines that have one: 16 hexadecimal digits, which the tools write behind "GPU-". Others have "XX" there, or nothing. */
static void add_uuid(const char *uuid, AuText *text)
{
    if (uuid[0] && memcmp(uuid, "XX", 3) != 0) rt_add_uuid((const uint8_t *)uuid, text);
}

static aule_status found(AuFinder *finder, const AuCuda *cu, GetProperties properties,
                         uint32_t index, int driver, AuSink sink)
{
    _Alignas(16) char all[2 * PROPERTIES_BYTES] = "", id[24], name[128] = "";
    size_t bytes = 0;
    CUdevice device;
    AuText words = {.memory = sink.memory}, features = {.memory = sink.memory},
           uuid = {.memory = sink.memory};
    const DLDevice dl = {kDLROCM, (int32_t)index};
    const char *call = "hipDeviceGet";
    snprintf(id, sizeof id, "hip:%u", index);
    CUresult code = cu->cuDeviceGet(&device, (int)index);
    if (code == 0) {
        call = "hipGetDevicePropertiesR0600";
        code = properties(all, device);
    }
    if (code != 0) return rt_cuda_found_mute(finder, cu, id, dl, call, code, sink);
    const char *arch = all + ARCH_AT; /* gfx942:sramecc+:xnack- */
    all[ARCH_AT + ARCH_BYTES - 1] = 0;
    cu->cuDeviceGetName(name, sizeof name - 1, device);
    cu->cuDeviceTotalMem(&bytes, device);
    rt_text_add(&words, "HIP %d.%d, %s", driver / 10000000, driver / 100000 % 100, arch);
    for (const char *at = arch; *at; at += strspn(at, ":")) {
        const size_t span = strcspn(at, ":");
        rt_text_add(&features, "%s%.*s", at == arch ? "" : " ", (int)span, at);
        if (at == arch) add_generic(&features, at, span);
        at += span;
    }
    add_uuid(all + UUID_AT, &uuid);
    const bool known = strncmp(arch, "gfx", 3) == 0;
    aule_device_info info = {
        .id = id,
        .backend = "hip",
        .available = known,
        .reason = known ? NULL : "the driver does not tell its architecture (gcnArchName)",
        .name = name,
        .driver = rt_text_str(&words),
        .features = rt_text_str(&features),
        .kind = AULE_DEVICE_GPU,
        .units = (uint32_t)rt_cuda_attribute(cu, device, HIP_ATTRIBUTE_MULTIPROCESSOR_COUNT),
        .memory_bytes = bytes,
        .dl = dl,
        .uuid = rt_text_str(&uuid),
    };
    const bool failed = words.failed || features.failed || uuid.failed;
    aule_status status = failed ? rt_fail_memory(sink) : rt_found(finder, &info, sink);
    rt_text_free(&words);
    rt_text_free(&features);
    rt_text_free(&uuid);
    return status;
}

static aule_status find(AuFinder *finder, AuSink sink)
{
    AuCuda cu;
    GetProperties properties;
    AuText why = {.memory = sink.memory};
    int count = 0, driver = 0;
    aule_status status = AULE_OK;
    if (begin_with(&cu, &properties, &count, &driver, &why)) {
        for (uint32_t i = 0; !status && i < (uint32_t)count; i++)
            status = found(finder, &cu, properties, i, driver, sink);
        return status;
    }
    return rt_found_none(finder, "hip", (DLDevice){kDLROCM, 0}, &why, sink);
}

static void explain(const aule_device_info *info, const char *feature, AuText *text)
{
    /* Code may be made for one way of these alone; a device says which it has, if it has any. */
    static const char *const switches[][2] = {{"xnack+", "xnack-"}, {"sramecc+", "sramecc-"}};
    if (strncmp(feature, "gfx", 3) == 0)
        rt_text_add(text, ", the device is %.*s", (int)strcspn(info->features, " "),
                    info->features);
    for (size_t n = 0; n < sizeof switches / sizeof *switches; n++) {
        const size_t length = strlen(switches[n][0]), name = length - 1;
        const bool on = rt_has_word(info->features, switches[n][0], length),
                   off = rt_has_word(info->features, switches[n][1], length);
        if (strncmp(feature, switches[n][0], name) != 0) continue;
        if (!on && !off) {
            rt_text_add(text, ", the device has no %.*s", (int)name, switches[n][0]);
            continue;
        }
        rt_text_add(text, ", the device has %s", switches[n][on ? 0 : 1]);
        if (n == 0)
            rt_text_add(text, ": HSA_XNACK=%d in the environment changes it", feature[name] == '+');
    }
}

static void describe(Cuda *c)
{
    c->shared_most =
        rt_cuda_attribute(&c->cu, c->device, HIP_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
    c->sees_host = rt_cuda_attribute(&c->cu, c->device, HIP_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS) != 0;
}

/* What the driver says of a tensor's address: a kernel that reads what is not its device's ends the process. How far an allocation reaches is
 * not asked, since memory that is mapped piece by piece has an end at each piece. */
static aule_status check_memory(void *state, const char *name, void *data, uint64_t bytes,
                                AuSink sink)
{
    Cuda *c = state;
    Attributes of = {.type = UNREGISTERED};
    const CUresult code = c->cu.hipPointerGetAttributes(&of, data);
    (void)bytes;
    if (code != 0 && code != CUDA_ERROR_INVALID_VALUE)
        return rt_cuda_check(c, sink, "hipPointerGetAttributes", code);
    if (code != 0 || of.type == UNREGISTERED) {
        if (c->sees_host) return AULE_OK;
        return rt_fail(sink, AULE_ERROR_TENSOR,
                       "%s: its data is no memory of hip:%u, nor of the host's that HIP knows",
                       name, c->index);
    }
    if (of.type != ON_DEVICE || of.device == c->device) return AULE_OK;
    return rt_fail(sink, AULE_ERROR_TENSOR, "%s: its data is memory of hip:%d, expected hip:%u",
                   name, of.device, c->index);
}

/* ---- code */

static aule_status refuse(const Cuda *c, const CudaProgram *p, AuText *why, AuSink sink)
{
    aule_status status = rt_fail(
        sink, AULE_ERROR_ARTIFACT, "%s:%u: a code object cannot be loaded: %s; '%s', code for %s",
        c->kind->name, c->index, rt_text_str(why), p->variant->schedule, p->variant->arch);
    rt_text_free(why);
    return status;
}

static aule_status make(Cuda *c, CudaProgram *p, AuSink sink)
{
    AuText why = {.memory = c->memory};
    if (!rt_hip_object_is_whole(p->variant->code, p->variant->code_bytes, &why))
        return refuse(c, p, &why, sink);
    const CUresult code = c->cu.cuModuleLoadDataEx(&p->module, p->variant->code, 0, NULL, NULL);
    const bool ours = code == CUDA_ERROR_NO_BINARY_FOR_GPU || code == CUDA_ERROR_INVALID_IMAGE;
    AuText more = {.memory = c->memory};
    if (code == 0) return AULE_OK;
    rt_text_add(&more, "; '%s', code for %s", p->variant->schedule, p->variant->arch);
    aule_status status = rt_cuda_fail(c, sink, ours ? AULE_ERROR_BUILD : AULE_ERROR_DRIVER,
                                      "cuModuleLoadDataEx", code, rt_text_str(&more));
    rt_text_free(&more);
    return status;
}

/* ---- the backend */

static const CudaKind kind = {
    .name = "hip",
    .forked = "HIP does not work in a process that was forked after it began",
    .most_threads = UINT32_MAX,
    .no_stream =
        CUDA_ERROR_CONTEXT_IS_DESTROYED, /* contexts do not end, and are asked with the stream */
    .legacy_is_null = true, /* hipStreamLegacy came late; NULL always was that stream */
    .format = AULE_CODE_HSACO,
    .code = "a code object",
    .begin = begin,
    .describe = describe,
    .call = call_name,
    .make = make,
};

static aule_status open_hip(AuHeap memory, uint32_t index, const aule_device_options *options,
                            void **state, AuSink sink)
{
    return rt_cuda_open(&kind, memory, index, options, state, sink);
}

const AuBackend au_backend_hip = {
    .name = "hip",
    .dl = {kDLROCM, kDLROCMHost},
    .has_uuids = true,
    .find = find,
    .open = open_hip,
    .rank_arch = rt_cuda_rank_arch, /* the machine's own code before that of a generic ISA */
    .explain = explain,
    .check_memory = check_memory,
    .names_machine = true,
    RT_CUDA_SHARED,
};
