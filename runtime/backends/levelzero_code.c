/* levelzero_code.c - a variant's kernels, and launches. A kernel's arguments are state of its handle, of which the list takes a copy when a
 * launch is appended. An address of a parameter block is two arguments, a pointer and a `long`, the offset of element 0: always 0 here,
 * since memory has addresses. */
#include "levelzero.h"

#include "../descriptor.h"

/* What an argument was last set to. Addresses are set each time: memory at an address may be another's by now. */
typedef struct Held {
    uint64_t number;
    bool known;
} Held;

typedef struct Kernel {
    ze_kernel_handle_t handle;
    Held *held; /* one a slot */
} Kernel;

typedef struct Program {
    const aule_variant_v1 *variant;
    ze_module_handle_t module;
    Kernel *kernels;  /* one a launch */
    uint32_t spilled; /* bytes, of the kernel that has most */
} Program;

/* ---- kernels */

void rt_ze_unload(void *state, void *program)
{
    LevelZero *z = state;
    Program *p = program;
    if (p->module && !rt_ze_idle(z)) return; /* the device may still be in it */
    for (uint32_t n = 0; n < p->variant->launch_count; n++) {
        if (p->kernels[n].handle) z->ze.zeKernelDestroy(p->kernels[n].handle);
        rt_free(p->kernels[n].held);
    }
    if (p->module) z->ze.zeModuleDestroy(p->module);
    rt_free(p->kernels);
    rt_free(p);
}

uint64_t rt_ze_spilled(const void *program)
{
    const Program *p = program;
    return p->spilled;
}

static aule_status check_block(const LevelZero *z, const aule_launch_v1 *launch,
                               const uint32_t *block, AuSink sink)
{
    const ze_device_compute_properties_t *c = &z->facts.compute;
    const uint32_t most[3] = {c->maxGroupSizeX, c->maxGroupSizeY, c->maxGroupSizeZ};
    const uint64_t threads = (uint64_t)block[0] * block[1] * block[2];
    if (threads > c->maxTotalGroupSize)
        return rt_fail(sink, AULE_ERROR_UNSUPPORTED,
                       "levelzero:%u: kernel %s needs %llu threads a block, the device takes %u",
                       z->index, launch->entry, (unsigned long long)threads, c->maxTotalGroupSize);
    if (block[0] <= most[0] && block[1] <= most[1] && block[2] <= most[2]) return AULE_OK;
    return rt_fail(sink, AULE_ERROR_UNSUPPORTED,
                   "levelzero:%u: kernel %s needs blocks of %u x %u x %u threads, the device takes "
                   "%u x %u x %u",
                   z->index, launch->entry, block[0], block[1], block[2], most[0], most[1],
                   most[2]);
}

static uint32_t arg_count(const aule_launch_v1 *launch)
{
    uint32_t count = launch->slot_count;
    for (uint32_t n = 0; n < launch->slot_count; n++)
        count += launch->slots[n].type == AULE_SLOT_PTR;
    return count;
}

/* What each launch would be refused for, once and with numbers. */
static aule_status check_kernel(LevelZero *z, Program *p, const Kernel *kernel,
                                const aule_launch_v1 *launch, AuSink sink)
{
    ze_kernel_properties_t of = {.stype = ZE_STRUCTURE_TYPE_KERNEL_PROPERTIES};
    const ze_result_t code = z->ze.zeKernelGetProperties(kernel->handle, &of);
    if (code) return rt_ze_check(z, sink, "zeKernelGetProperties", code);
    if (of.spillMemSize > p->spilled) p->spilled = of.spillMemSize;
    if (of.numKernelArgs != arg_count(launch))
        return rt_fail(sink, AULE_ERROR_ARTIFACT,
                       "levelzero:%u: kernel %s takes %u arguments, its parameter block makes %u",
                       z->index, launch->entry, of.numKernelArgs, arg_count(launch));
    const uint64_t shared = (uint64_t)of.localMemSize + launch->shared_bytes;
    if (shared <= z->facts.compute.maxSharedLocalMemory && !launch->shared_bytes) return AULE_OK;
    return rt_fail(sink, AULE_ERROR_UNSUPPORTED,
                   "levelzero:%u: kernel %s needs %llu bytes of shared memory%s, the device has %u",
                   z->index, launch->entry, (unsigned long long)shared,
                   launch->shared_bytes ? " that the launch brings" : "",
                   z->facts.compute.maxSharedLocalMemory);
}

static aule_status make_kernel(LevelZero *z, Program *p, Kernel *kernel,
                               const aule_launch_v1 *launch, AuSink sink)
{
    const ze_kernel_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_KERNEL_DESC,
                                   .pKernelName = launch->entry};
    uint32_t block[3];
    for (int axis = 0; axis < 3; axis++) block[axis] = rt_block(launch, axis);
    aule_status status = check_block(z, launch, block, sink);
    if (status) return status;
    kernel->held = rt_alloc_array(z->heap, launch->slot_count, sizeof *kernel->held);
    if (!kernel->held) return rt_fail_memory(sink);
    ze_result_t code = z->ze.zeKernelCreate(p->module, &desc, &kernel->handle);
    if (code) {
        kernel->handle = NULL;
        return rt_ze_fail(z, sink,
                          code == ZE_RESULT_ERROR_INVALID_KERNEL_NAME ? AULE_ERROR_ARTIFACT
                                                                      : AULE_ERROR_DRIVER,
                          "zeKernelCreate", code, launch->entry);
    }
    status = check_kernel(z, p, kernel, launch, sink);
    if (status) return status;
    code = z->ze.zeKernelSetGroupSize(kernel->handle, block[0], block[1], block[2]);
    return rt_ze_check(z, sink, "zeKernelSetGroupSize", code);
}

aule_status rt_ze_load(void *state, const aule_variant_v1 *variant, void **program, AuSink sink)
{
    LevelZero *z = state;
    aule_status status = rt_ze_alive(z, sink);
    if (status) return status;
    Program *p = rt_alloc(z->heap, sizeof *p);
    Kernel *kernels = rt_alloc_array(z->heap, variant->launch_count, sizeof *kernels);
    if (!p || !kernels) {
        rt_free(p);
        rt_free(kernels);
        return rt_fail_memory(sink);
    }
    *p = (Program){.variant = variant, .kernels = kernels};
    status = rt_ze_module(z, variant, &p->module, sink);
    for (uint32_t n = 0; !status && n < variant->launch_count; n++)
        status = make_kernel(z, p, &kernels[n], rt_launch(variant, n), sink);
    if (status)
        rt_ze_unload(z, p);
    else
        *program = p;
    return status;
}

/* ---- launches */

static aule_status set(LevelZero *z, const Kernel *kernel, const aule_launch_v1 *launch,
                       uint32_t at, size_t bytes, const uint64_t *value, AuSink sink)
{
    const ze_result_t code = z->ze.zeKernelSetArgumentValue(kernel->handle, at, bytes, value);
    if (code == ZE_RESULT_SUCCESS) return AULE_OK;
    AuText more = {.memory = z->heap};
    rt_text_add(&more, "argument %u of %s", at, launch->entry);
    aule_status status = rt_ze_fail(z, sink, AULE_ERROR_DRIVER, "zeKernelSetArgumentValue", code,
                                    rt_text_str(&more));
    rt_text_free(&more);
    return status;
}

static aule_status set_arguments(LevelZero *z, const Kernel *kernel, const aule_launch_v1 *launch,
                                 const uint64_t *slots, AuSink sink)
{
    const uint64_t none = 0;
    aule_status status = AULE_OK;
    for (uint32_t n = 0, at = 0; !status && n < launch->slot_count; n++, at++) {
        Held *held = &kernel->held[n];
        const uint32_t type = launch->slots[n].type;
        const size_t bytes = type == AULE_SLOT_I32 || type == AULE_SLOT_F32 ? 4 : 8;
        if (type == AULE_SLOT_PTR) {
            status = set(z, kernel, launch, at++, 8, slots[n] ? &slots[n] : NULL, sink);
            if (!status && !held->known) status = set(z, kernel, launch, at, 8, &none, sink);
        } else if (!held->known || held->number != slots[n])
            status = set(z, kernel, launch, at, bytes, &slots[n], sink); /* little-endian */
        *held = (Held){slots[n], status == AULE_OK};
    }
    return status;
}

static aule_status check_grid(const LevelZero *z, const aule_launch_v1 *launch,
                              const uint32_t *grid, AuSink sink)
{
    const ze_device_compute_properties_t *c = &z->facts.compute;
    if (grid[0] <= c->maxGroupCountX && grid[1] <= c->maxGroupCountY &&
        grid[2] <= c->maxGroupCountZ)
        return AULE_OK;
    return rt_fail(
        sink, AULE_ERROR_UNSUPPORTED,
        "levelzero:%u: a grid of %u x %u x %u blocks of %s, at most %u x %u x %u can be launched",
        z->index, grid[0], grid[1], grid[2], launch->entry, c->maxGroupCountX, c->maxGroupCountY,
        c->maxGroupCountZ);
}

aule_status rt_ze_launch(void *state, void *program, void *queue, const AuLaunch *given,
                         AuSink sink)
{
    LevelZero *z = state;
    const Program *p = program;
    const aule_launch_v1 *launch = rt_launch(p->variant, given->index);
    const Kernel *kernel = &p->kernels[given->index];
    const ze_group_count_t groups = {given->grid[0], given->grid[1], given->grid[2]};
    ZeWork work;
    aule_status status = check_grid(z, launch, given->grid, sink);
    if (!status) status = rt_ze_open(z, queue, &work, sink);
    if (status) return status;
    status = set_arguments(z, kernel, launch, given->slots, sink);
    if (!status) status = rt_ze_order(z, &work, NULL, sink);
    if (!status) {
        const ze_result_t code = z->ze.zeCommandListAppendLaunchKernel(work.list, kernel->handle,
                                                                       &groups, NULL, 0, NULL);
        if (code)
            status = rt_ze_fail(z, sink,
                                code == ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY ||
                                        code == ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY
                                    ? AULE_ERROR_MEMORY
                                    : AULE_ERROR_DRIVER,
                                "zeCommandListAppendLaunchKernel", code, launch->entry);
    }
    return rt_ze_put(z, &work, status, sink);
}
