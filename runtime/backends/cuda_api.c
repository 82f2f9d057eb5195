/* cuda_api.c - the driver's functions, and what its versions mean. */
#include "cuda_api.h"

#include <dlfcn.h>

/* Where the loader's answer goes: functions and objects have no common pointer in C. [why] NULL: it may be missing. */
static bool load_function(void *library, const char *symbol, void *function, AuText *why)
{
    void *found = dlsym(library, symbol);
    memcpy(function, &found, sizeof found);
    if (!found && why && !why->length)
        rt_text_add(
            why,
            "libcuda.so.1 has no %s: the driver is too old, at least 450 (CUDA 11.0) is needed",
            symbol);
    return found != NULL;
}

bool rt_cuda_api(AuCuda *cuda, AuText *why)
{
    /* The driver starts threads and does not survive being unloaded. */
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library) {
        const char *cause = dlerror();
        rt_text_add(why, "libcuda.so.1, which NVIDIA's driver brings, cannot be loaded: %s",
                    cause ? cause : "no cause given");
        return false;
    }
    bool fine = true;
#define CU(name, symbol, arguments)                                                                \
    fine = load_function(library, symbol, (void *)&cuda->name, why) && fine;
#define CU_LATER(name, symbol, arguments)                                                          \
    (void)load_function(library, symbol, (void *)&cuda->name, NULL);
#include "cuda_api.def"
    dlclose(library);
    return fine;
}

void rt_cuda_error(const AuCuda *cuda, CUresult code, AuText *text)
{
    const char *name = NULL, *meaning = NULL;
    if (cuda->cuGetErrorName(code, &name) != 0 || !name) name = NULL;
    if (cuda->cuGetErrorString(code, &meaning) != 0 || !meaning) meaning = "no meaning given";
    if (name)
        rt_text_add(text, "%s (%s)", name, meaning);
    else
        rt_text_add(text, "error %d", code);
}

/* ---- versions */

/* PTX ISA, "Release Notes": the PTX that each CUDA brought. */
// clang-format off
static const struct { int driver; uint32_t ptx; } ptx_versions[] = {
    {13010, 91}, {13000, 90}, {12090, 88}, {12080, 87}, {12070, 86}, {12050, 85}, {12040, 84}, {12030, 83}, {12020, 82}, {12010, 81},
    {12000, 80}, {11080, 78}, {11070, 77}, {11060, 76}, {11050, 75}, {11040, 74}, {11030, 73}, {11020, 72}, {11010, 71}, {11000, 70},
    {10020, 65}, {10010, 64}, {10000, 63},
};
/* Architectures whose code may be asked for; PTX for one runs on all later devices. */
static const uint32_t capabilities[] = {121, 120, 110, 103, 101, 100, 90, 89, 88, 87, 86, 80, 75, 72, 70};
// clang-format on

enum { CUDA_WITH_MAPS = 12000 };

uint32_t rt_cuda_ptx(int driver)
{
    for (size_t i = 0; i < sizeof ptx_versions / sizeof *ptx_versions; i++)
        if (ptx_versions[i].driver <= driver) return ptx_versions[i].ptx;
    return 0;
}

void rt_cuda_features(int driver, uint32_t capability, AuText *text)
{
    if (capability >= 90) rt_text_add(text, "sm_%ua ", capability);
    rt_text_add(text, "sm_%u", capability);
    for (size_t i = 0; i < sizeof capabilities / sizeof *capabilities; i++)
        if (capabilities[i] < capability) rt_text_add(text, " sm_%u", capabilities[i]);
    for (size_t i = 0; i < sizeof ptx_versions / sizeof *ptx_versions; i++)
        if (ptx_versions[i].driver <= driver) rt_text_add(text, " ptx%u", ptx_versions[i].ptx);
    if (capability >= 90 && driver >= CUDA_WITH_MAPS) rt_text_add(text, " tensor_maps cut_maps");
}
