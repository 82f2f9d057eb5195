#include "opencl_api.h"

#include <dlfcn.h>
#include <stdio.h>

/* Where the loader's answer goes: functions and objects have no common pointer in C. */
static void look_up(void *library, const char *name, void *function)
{
    void *found = dlsym(library, name);
    memcpy(function, &found, sizeof found);
}

static bool load_function(void *library, const char *name, void *function, AuText *why)
{
    void *found;
    look_up(library, name, function);
    memcpy(&found, function, sizeof found);
    if (!found && !why->length)
        rt_text_add(why, "libOpenCL.so.1 has no %s: OpenCL 1.2 is needed", name);
    return found != NULL;
}

/* A process that has OpenCL already has the contexts and buffers of that one: its own, or a tool's that stands in for it (Oclgrind). */
static void *open_library(AuText *why)
{
    if (dlsym(RTLD_DEFAULT, "clGetPlatformIDs")) return dlopen(NULL, RTLD_NOW);
    /* Drivers start threads and do not survive being unloaded. */
    void *library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library) return library;
    const char *cause = dlerror();
    rt_text_add(why, "libOpenCL.so.1 cannot be loaded: %s", cause ? cause : "no cause given");
    return NULL;
}

bool rt_opencl_api(AuOpenCL *cl, AuText *why)
{
    void *library = open_library(why);
    bool fine = library != NULL;
    if (!fine) return false;
#define CL(result, name, arguments)                                                                \
    fine = load_function(library, #name, (void *)&cl->name, why) && fine;
#define MAYBE(result, name, arguments) look_up(library, #name, (void *)&cl->name);
#include "opencl_api.def"
    dlclose(library);
    return fine;
}

// clang-format off
#define ERRORS(E) \
    E(-1, DEVICE_NOT_FOUND) E(-2, DEVICE_NOT_AVAILABLE) E(-3, COMPILER_NOT_AVAILABLE) E(-4, MEM_OBJECT_ALLOCATION_FAILURE) \
    E(-5, OUT_OF_RESOURCES) E(-6, OUT_OF_HOST_MEMORY) E(-7, PROFILING_INFO_NOT_AVAILABLE) E(-11, BUILD_PROGRAM_FAILURE) \
    E(-14, EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST) E(-30, INVALID_VALUE) E(-33, INVALID_DEVICE) E(-34, INVALID_CONTEXT) \
    E(-36, INVALID_COMMAND_QUEUE) E(-38, INVALID_MEM_OBJECT) E(-43, INVALID_BUILD_OPTIONS) E(-45, INVALID_PROGRAM_EXECUTABLE) \
    E(-46, INVALID_KERNEL_NAME) E(-48, INVALID_KERNEL) E(-49, INVALID_ARG_INDEX) E(-50, INVALID_ARG_VALUE) E(-51, INVALID_ARG_SIZE) \
    E(-52, INVALID_KERNEL_ARGS) E(-54, INVALID_WORK_GROUP_SIZE) E(-55, INVALID_WORK_ITEM_SIZE) E(-61, INVALID_BUFFER_SIZE) \
    E(-63, INVALID_GLOBAL_WORK_SIZE) E(-1001, PLATFORM_NOT_FOUND_KHR)
// clang-format on

const char *rt_opencl_error(cl_int code, char buffer[16])
{
    switch (code) {
#define E(number, name)                                                                            \
    case number: return "CL_" #name;
        ERRORS(E)
#undef E
    }
    snprintf(buffer, 16, "error %d", code);
    return buffer;
}
