/* code.c - modules and kernels of the mock. A binary is the head below and the SPIR-V that it was made of. */
#include "inside.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ze_log {
    Object head;
    char text[4096];
};
typedef struct BinaryHead {
    char magic[8];
    uint32_t driver;
} BinaryHead;

static BinaryHead binary_head(void) { return (BinaryHead){"binary", levelzero_mock.driver}; }

#define FAR_BUFFERS "-ze-opt-greater-than-4GB-buffer-required"
#define LARGE       FAR_BUFFERS " -ze-opt-large-register-file"

/* Of build options, the words that drivers know. */
static bool knows(const char *flags)
{
    return !flags || !*flags || strcmp(flags, FAR_BUFFERS) == 0 || strcmp(flags, LARGE) == 0;
}

static Program *build(const ze_module_desc_t *desc, const void **code, size_t *bytes, char *log,
                      ze_result_t *result)
{
    const BinaryHead head = binary_head();
    *code = desc->pInputModule;
    *bytes = desc->inputSize;
    *result = ZE_RESULT_ERROR_MODULE_BUILD_FAILURE;
    if (desc->format == ZE_MODULE_FORMAT_NATIVE) {
        *result = ZE_RESULT_ERROR_INVALID_NATIVE_BINARY;
        if (*bytes <= sizeof head || memcmp(*code, &head, sizeof head) != 0) return NULL;
        *code = desc->pInputModule + sizeof head;
        *bytes -= sizeof head;
    }
    return run_build(*code, *bytes, log, 4096);
}

ze_result_t zeModuleCreate(ze_context_handle_t context, ze_device_handle_t device,
                           const ze_module_desc_t *desc, ze_module_handle_t *module,
                           ze_module_build_log_handle_t *log)
{
    char text[4096] = "";
    const void *code;
    size_t bytes;
    ze_result_t result;
    mock_lock();
    const bool fails = mock_fails(__func__);
    if (fails && levelzero_mock.code != ZE_RESULT_ERROR_MODULE_BUILD_FAILURE)
        LEAVE(levelzero_mock.code);
    LIVE(context, MOCK_CONTEXT);
    RULE(mock_is_device(device), ZE_RESULT_ERROR_INVALID_NULL_HANDLE);
    DESC(desc, MODULE_DESC);
    NOT_NULL(desc->pInputModule);
    NOT_NULL(module);
    RULE(desc->format <= ZE_MODULE_FORMAT_NATIVE, ZE_RESULT_ERROR_INVALID_ENUMERATION);
    RULE(desc->inputSize > 0, ZE_RESULT_ERROR_INVALID_SIZE);
    RULE(knows(desc->pBuildFlags), ZE_RESULT_ERROR_INVALID_ARGUMENT);
    if (fails) snprintf(text, sizeof text, "mock: it fails as it was told to");
    Program *made = fails ? NULL : build(desc, &code, &bytes, text, &result);
    if (fails) result = levelzero_mock.code;
    if (log) {
        *log = mock_new(MOCK_LOG, sizeof **log, context);
        memcpy((*log)->text, text, sizeof text);
    }
    if (!made) LEAVE(result);
    levelzero_mock.large += desc->pBuildFlags && strcmp(desc->pBuildFlags, LARGE) == 0;
    ++*(desc->format ? &levelzero_mock.taken : &levelzero_mock.compiled);
    *module = mock_new(MOCK_MODULE, sizeof **module, context);
    (*module)->program = made;
    (*module)->code = malloc(bytes);
    (*module)->bytes = bytes;
    memcpy((*module)->code, code, bytes);
    LEAVE(ZE_RESULT_SUCCESS);
}
ze_result_t zeModuleDestroy(ze_module_handle_t module)
{
    END();
    LIVE(module, MOCK_MODULE);
    RULE(!mock_has_children(module, MOCK_KERNEL), ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE);
    run_end(module->program);
    free(module->code);
    mock_end(module);
    LEAVE(ZE_RESULT_SUCCESS);
}
ze_result_t zeModuleGetNativeBinary(ze_module_handle_t module, size_t *size, uint8_t *binary)
{
    ENTER();
    LIVE(module, MOCK_MODULE);
    NOT_NULL(size);
    const BinaryHead head = binary_head();
    const size_t needs = sizeof head + module->bytes;
    RULE(!binary || *size >= needs, ZE_RESULT_ERROR_INVALID_SIZE);
    *size = needs;
    if (binary) {
        memcpy(binary, &head, sizeof head);
        memcpy(binary + sizeof head, module->code, module->bytes);
    }
    LEAVE(ZE_RESULT_SUCCESS);
}
ze_result_t zeModuleBuildLogGetString(ze_module_build_log_handle_t log, size_t *size, char *text)
{
    ENTER();
    LIVE(log, MOCK_LOG);
    NOT_NULL(size);
    const size_t needs = strlen(log->text) + 1;
    if (text) memcpy(text, log->text, *size < needs ? *size : needs);
    *size = needs;
    LEAVE(ZE_RESULT_SUCCESS);
}
ze_result_t zeModuleBuildLogDestroy(ze_module_build_log_handle_t log)
{
    END();
    LIVE(log, MOCK_LOG);
    mock_end(log);
    LEAVE(ZE_RESULT_SUCCESS);
}

/* ---- kernels */

ze_result_t zeKernelCreate(ze_module_handle_t module, const ze_kernel_desc_t *desc,
                           ze_kernel_handle_t *kernel)
{
    KernelFacts facts = {.arg_count = 0};
    ENTER();
    LIVE(module, MOCK_MODULE);
    DESC(desc, KERNEL_DESC);
    NOT_NULL(desc->pKernelName);
    NOT_NULL(kernel);
    if (!run_facts(module->program, desc->pKernelName, &facts))
        LEAVE(ZE_RESULT_ERROR_INVALID_KERNEL_NAME);
    *kernel =
        mock_new(MOCK_KERNEL, sizeof **kernel, (ze_context_handle_t)(void *)module->head.context);
    (*kernel)->module = module;
    (*kernel)->facts = facts;
    snprintf((*kernel)->name, sizeof(*kernel)->name, "%s", desc->pKernelName);
    LEAVE(ZE_RESULT_SUCCESS);
}
ze_result_t zeKernelDestroy(ze_kernel_handle_t kernel)
{
    END();
    LIVE(kernel, MOCK_KERNEL);
    RULE(!kernel->waiting, ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE);
    mock_end(kernel);
    LEAVE(ZE_RESULT_SUCCESS);
}
static atomic_uint kernels_asked;

ze_result_t zeKernelGetProperties(ze_kernel_handle_t kernel, ze_kernel_properties_t *p)
{
    ENTER();
    LIVE(kernel, MOCK_KERNEL);
    DESC(p, KERNEL_PROPERTIES);
    p->numKernelArgs = kernel->facts.arg_count;
    p->requiredGroupSizeX = kernel->facts.block[0];
    p->requiredGroupSizeY = kernel->facts.block[1];
    p->requiredGroupSizeZ = kernel->facts.block[2];
    p->localMemSize = kernel->facts.local_bytes;
    p->spillMemSize = levelzero_mock.spilled >> kernels_asked++ % 2;
    LEAVE(ZE_RESULT_SUCCESS);
}
ze_result_t zeKernelSetGroupSize(ze_kernel_handle_t kernel, uint32_t x, uint32_t y, uint32_t z)
{
    const uint32_t size[3] = {x, y, z};
    ENTER();
    LIVE(kernel, MOCK_KERNEL);
    RULE(x && y && z, ZE_RESULT_ERROR_INVALID_ARGUMENT);
    RULE((uint64_t)x * y * z <= levelzero_mock.most_threads && x <= levelzero_mock.most_x,
         ZE_RESULT_ERROR_INVALID_GROUP_SIZE_DIMENSION);
    for (int n = 0; n < 3; n++)
        RULE(!kernel->facts.block[n] || kernel->facts.block[n] == size[n],
             ZE_RESULT_ERROR_INVALID_GROUP_SIZE_DIMENSION);
    memcpy(kernel->block, size, sizeof size);
    LEAVE(ZE_RESULT_SUCCESS);
}
ze_result_t zeKernelSetArgumentValue(ze_kernel_handle_t kernel, uint32_t index, size_t size,
                                     const void *value)
{
    ENTER();
    LIVE(kernel, MOCK_KERNEL);
    RULE(index < kernel->facts.arg_count, ZE_RESULT_ERROR_INVALID_KERNEL_ARGUMENT_INDEX);
    RULE(size == kernel->facts.args[index].bytes, ZE_RESULT_ERROR_INVALID_KERNEL_ARGUMENT_SIZE);
    RULE(value || kernel->facts.args[index].pointer, ZE_RESULT_ERROR_INVALID_ARGUMENT);
    kernel->values[index] = 0;
    if (value) memcpy(&kernel->values[index], value, size);
    const void *at = (const void *)(uintptr_t)kernel->values[index];
    RULE(!kernel->facts.args[index].pointer || !at || levelzero_mock.sees_host ||
             mock_memory(at, 0),
         ZE_RESULT_ERROR_INVALID_ARGUMENT);
    kernel->set[index] = true;
    LEAVE(ZE_RESULT_SUCCESS);
}
