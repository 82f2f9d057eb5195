#include "module.h"

#include <string.h>

#include "descriptor.h"

static const char symbol[] = "aule_module_v1";

/* ---- programs */

static AuProgram *find_program(const aule_module *module, const aule_device *device,
                               const aule_variant_v1 *variant)
{
    AuProgram *program = module->programs;
    while (program && (program->device != device || program->variant != variant))
        program = program->next;
    return program;
}

static aule_status load_program(aule_module *module, aule_device *device,
                                const aule_variant_v1 *variant, void **code, AuSink sink)
{
    AuProgram *program = rt_alloc(module->memory, sizeof *program);
    if (!program) return rt_fail_memory(sink);
    aule_status status = device->backend->load(device->state, variant, &program->code, sink);
    if (status) {
        rt_free(program);
        return status;
    }
    program->device = rt_device_keep(device);
    program->variant = variant;
    program->next = module->programs;
    module->programs = program;
    *code = program->code;
    return AULE_OK;
}

aule_status rt_module_program(aule_module *module, aule_device *device,
                              const aule_variant_v1 *variant, void **code, AuSink sink)
{
    aule_status status = AULE_OK;
    pthread_mutex_lock(&module->lock);
    AuProgram *program = find_program(module, device, variant);
    if (program)
        *code = program->code;
    else
        status = load_program(module, device, variant, code, sink);
    pthread_mutex_unlock(&module->lock);
    return status;
}

static void unload_programs(aule_module *module)
{
    while (module->programs) {
        AuProgram *program = module->programs;
        module->programs = program->next;
        program->device->backend->unload(program->device->state, program->code);
        rt_device_release(program->device);
        rt_free(program);
    }
}

/* ---- opening and closing */

aule_module *rt_module_keep(aule_module *module)
{
    atomic_fetch_add_explicit(&module->users, 1, memory_order_relaxed);
    return module;
}

void rt_module_release(aule_module *module)
{
    if (atomic_fetch_sub_explicit(&module->users, 1, memory_order_acq_rel) != 1) return;
    unload_programs(module);
    rt_library_close(&module->library);
    pthread_mutex_destroy(&module->lock);
    rt_free(module->attentions);
    rt_free(module);
}

void aule_module_close(aule_module *module)
{
    if (module) rt_module_release(module);
}

static aule_status make_module(const aule_module_v1 *descriptor, const AuSegments *segments,
                               const char *where, aule_module **module, AuSink sink)
{
    aule_status status = rt_check_module(descriptor, segments, where, sink);
    if (status) return status;
    aule_module *made = rt_alloc(sink.memory, sizeof *made);
    aule_attention *attentions =
        rt_alloc_array(sink.memory, descriptor->attention_count, sizeof *attentions);
    if (!made || !attentions || pthread_mutex_init(&made->lock, NULL) != 0) {
        rt_free(made);
        rt_free(attentions);
        return rt_fail_memory(sink);
    }
    made->memory = sink.memory;
    atomic_init(&made->users, 1);
    made->descriptor = descriptor;
    made->library.file = -1;
    made->attentions = attentions;
    for (uint32_t i = 0; i < descriptor->attention_count; i++)
        attentions[i] = (aule_attention){made, rt_attention(descriptor, i)};
    *module = made;
    return AULE_OK;
}

aule_status aule_module_from(const aule_module_v1 *descriptor, const aule_options *options,
                             aule_module **module, aule_error **error)
{
    AuSink sink = {rt_memory(NULL), error};
    aule_status status = rt_begin(options, &sink);
    if (status) return status;
    if (!descriptor || !module)
        return rt_fail(sink, AULE_ERROR_USAGE,
                       "aule_module_from: descriptor and module must not be NULL");
    return make_module(descriptor, NULL, "the descriptor", module, sink);
}

aule_status aule_module_open(const char *path, const aule_options *options, aule_module **module,
                             aule_error **error)
{
    AuSink sink = {rt_memory(NULL), error};
    aule_status status = rt_begin(options, &sink);
    if (status) return status;
    if (!path || !module)
        return rt_fail(sink, AULE_ERROR_USAGE,
                       "aule_module_open: path and module must not be NULL");
    AuLibrary library;
    AuSegments segments;
    const aule_module_v1 *descriptor = NULL;
    aule_module *made = NULL;
    status = rt_library_open(path, symbol, &library, &descriptor, &segments, sink);
    if (status) return status;
    status = rt_library_seal(&library, path, descriptor, &segments, sink);
    if (!status) status = make_module(descriptor, &segments, path, &made, sink);
    if (status) {
        rt_library_close(&library);
        return status;
    }
    made->library = library;
    *module = made;
    return AULE_OK;
}

/* ---- looking in */

const aule_module_v1 *aule_module_descriptor(const aule_module *module)
{
    return module ? module->descriptor : NULL;
}
size_t aule_module_count(const aule_module *module)
{
    return module ? module->descriptor->attention_count : 0;
}

aule_attention *aule_module_attention(const aule_module *module, size_t index)
{
    return index < aule_module_count(module) ? &module->attentions[index] : NULL;
}

const aule_attention_v1 *aule_attention_descriptor(const aule_attention *attention)
{
    return attention ? attention->descriptor : NULL;
}

/* Of several layouts of one attention, "mha", "mha@T=paged", is it the one that needs no word behind it? */
static bool is_plain(const aule_module *module, const char *name)
{
    const size_t length = strlen(name);
    for (uint32_t i = 0; i < module->descriptor->attention_count; i++) {
        const char *other = module->attentions[i].descriptor->name;
        if (strncmp(other, name, length) != 0 || (other[length] && other[length] != '@'))
            return false;
    }
    return true;
}

static aule_attention *find_name(const aule_module *module, const char *name)
{
    for (uint32_t i = 0; i < module->descriptor->attention_count; i++)
        if (strcmp(module->attentions[i].descriptor->name, name) == 0)
            return &module->attentions[i];
    return NULL;
}

/* Of all names only the shortest may be that of the plain one. NULL: none is. */
static const char *plain_name(const aule_module *module)
{
    const char *shortest = module->attentions[0].descriptor->name;
    size_t least = strlen(shortest);
    for (uint32_t i = 1; i < module->descriptor->attention_count; i++) {
        const char *name = module->attentions[i].descriptor->name;
        if (memchr(name, 0, least)) shortest = name, least = strlen(name);
    }
    return is_plain(module, shortest) ? shortest : NULL;
}

aule_status aule_module_find(const aule_module *module, const char *name,
                             aule_attention **attention, aule_error **error)
{
    AuSink sink = {module ? module->memory : rt_memory(NULL), error};
    if (!module || !attention)
        return rt_fail(sink, AULE_ERROR_USAGE,
                       "aule_module_find: module and attention must not be NULL");
    const uint32_t count = module->descriptor->attention_count;
    const char *meant = name ? name : plain_name(module);
    aule_attention *found = meant ? find_name(module, meant) : NULL;
    if (found) {
        *attention = found;
        return AULE_OK;
    }
    AuText names = {.memory = sink.memory};
    for (uint32_t i = 0; i < count; i++)
        rt_text_add(&names, "%s%s", i ? ", " : "", module->attentions[i].descriptor->name);
    aule_status status =
        name ? rt_fail(sink, AULE_ERROR_NAME, "there is no attention '%s', the artifact has %s",
                       name, rt_text_str(&names))
             : rt_fail(sink, AULE_ERROR_NAME, "the artifact has several attentions, name one of %s",
                       rt_text_str(&names));
    rt_text_free(&names);
    return status;
}
