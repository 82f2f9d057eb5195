/* levelzero_module.c - modules: the driver compiles SPIR-V; what it made is kept on disk (cache.h, whose files carry their length and a sum)
 * under a name made of the code, the device, the driver and its version. What the driver does not take any more is made again. */
#include "../cache.h"
#include "../descriptor.h"
#include "../spirv.h"
#include "levelzero.h"

/* Addresses are numbers of 64 bits to our kernels, which may lie on either side of a tensor's element 0 (strides may be negative); without
 * this option drivers may take them for offsets of 32 bits in a buffer. */
#define EVERYWHERE "-ze-opt-greater-than-4GB-buffer-required"

/* With variants that need so many registers, half as many threads have twice as many. */
static const char *flags_of(const aule_variant_v1 *variant)
{
    static const char word[] = "registers256";
    return rt_has_word(variant->features, word, sizeof word - 1) ? EVERYWHERE
               " -ze-opt-large-register-file"
                                                                 : EVERYWHERE;
}

/* The driver's words, shortened; "empty". */
static void read_log(LevelZero *z, ze_module_build_log_handle_t log, AuText *text)
{
    enum { SHOWN = 4000 };
    size_t bytes = 0;
    char *words = NULL;
    if (log && z->ze.zeModuleBuildLogGetString(log, &bytes, NULL) == 0 && bytes)
        words = rt_alloc(z->heap, bytes + 1);
    if (words && z->ze.zeModuleBuildLogGetString(log, &bytes, words) != 0) *words = 0;
    rt_text_add(text, "the driver's log: %.*s", (int)SHOWN, words && *words ? words : "empty");
    rt_free(words);
}

static aule_status fail_build(LevelZero *z, const aule_variant_v1 *variant,
                              ze_module_build_log_handle_t log, ze_result_t code, AuSink sink)
{
    const bool ours = code == ZE_RESULT_ERROR_MODULE_BUILD_FAILURE ||
                      code == ZE_RESULT_ERROR_INVALID_MODULE_UNLINKED ||
                      code == ZE_RESULT_ERROR_MODULE_LINK_FAILURE;
    if (!ours) return rt_ze_check(z, sink, "zeModuleCreate", code);
    AuText call = {.memory = z->heap}, more = {.memory = z->heap};
    rt_text_add(&call, "zeModuleCreate of '%s'", variant->schedule);
    read_log(z, log, &more);
    aule_status status =
        rt_ze_fail(z, sink, AULE_ERROR_BUILD, rt_text_str(&call), code, rt_text_str(&more));
    rt_text_free(&call);
    rt_text_free(&more);
    return status;
}

static ze_result_t create(LevelZero *z, const aule_variant_v1 *variant, uint32_t format,
                          const void *code, size_t bytes, ze_module_handle_t *module,
                          ze_module_build_log_handle_t *log)
{
    const ze_module_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_MODULE_DESC,
                                   .format = format,
                                   .inputSize = bytes,
                                   .pInputModule = code,
                                   .pBuildFlags = flags_of(variant)};
    *log = NULL;
    const ze_result_t result = z->ze.zeModuleCreate(z->context, z->at.device, &desc, module, log);
    if (result) *module = NULL;
    return result;
}

/* ---- on disk */

static void name_of(const LevelZero *z, const aule_variant_v1 *variant, AuText *name)
{
    AuText how = {.memory = z->heap};
    for (uint32_t n = 0; n < 16; n++)
        rt_text_add(&how, "%02x%02x", z->facts.of.uuid[n], z->facts.driver.uuid[n]);
    rt_text_add(&how, " %x %x %u %s", z->facts.of.vendorId, z->facts.of.deviceId,
                z->facts.driver.driverVersion, flags_of(variant));
    if (!how.failed)
        rt_cache_name(name, CACHE_LEVELZERO, variant->code, (size_t)variant->code_bytes,
                      rt_text_str(&how));
    name->failed |= how.failed;
    rt_text_free(&how);
}

static bool load_kept(LevelZero *z, const aule_variant_v1 *variant, const char *name,
                      ze_module_handle_t *module)
{
    size_t bytes;
    ze_module_build_log_handle_t log;
    void *code = rt_cache_read(z->heap, name, &bytes);
    if (!code) return false;
    const ze_result_t result =
        create(z, variant, ZE_MODULE_FORMAT_NATIVE, code, bytes, module, &log);
    if (log) z->ze.zeModuleBuildLogDestroy(log);
    rt_free(code);
    return result == ZE_RESULT_SUCCESS;
}

/* Nothing here fails: without it, modules are compiled each time. */
static void keep(LevelZero *z, ze_module_handle_t module, const char *name)
{
    size_t bytes = 0;
    if (z->ze.zeModuleGetNativeBinary(module, &bytes, NULL) != 0 || !bytes) return;
    uint8_t *code = rt_alloc(z->heap, bytes);
    if (code && z->ze.zeModuleGetNativeBinary(module, &bytes, code) == 0)
        rt_cache_write(z->heap, name, code, bytes);
    rt_free(code);
}

static aule_status compile(LevelZero *z, const aule_variant_v1 *variant, const char *name,
                           ze_module_handle_t *module, AuSink sink)
{
    ze_module_build_log_handle_t log;
    const ze_result_t result = create(z, variant, ZE_MODULE_FORMAT_IL_SPIRV, variant->code,
                                      (size_t)variant->code_bytes, module, &log);
    aule_status status = result ? fail_build(z, variant, log, result, sink) : AULE_OK;
    if (log) z->ze.zeModuleBuildLogDestroy(log);
    if (!status) keep(z, *module, name);
    return status;
}

aule_status rt_ze_module(LevelZero *z, const aule_variant_v1 *variant, ze_module_handle_t *module,
                         AuSink sink)
{
    AuText name = {.memory = z->heap};
    uint64_t most;
    if (variant->code_format != AULE_CODE_SPIRV)
        return rt_fail(sink, AULE_ERROR_UNSUPPORTED,
                       "levelzero:%u: code of format %u, expected SPIR-V", z->index,
                       variant->code_format);
    const char *wrong = rt_spirv_wrong(variant, RT_SPIRV_KERNEL);
    if (wrong)
        return rt_fail(sink, AULE_ERROR_ARTIFACT, "levelzero:%u: the code of '%s' is %s", z->index,
                       variant->schedule, wrong);
    aule_status status = rt_cache_limit(&most, sink);
    if (status) return status;
    name_of(z, variant, &name);
    if (name.failed)
        status = rt_fail_memory(sink);
    else if (!load_kept(z, variant, rt_text_str(&name), module))
        status = compile(z, variant, rt_text_str(&name), module, sink);
    rt_text_free(&name);
    return status;
}
