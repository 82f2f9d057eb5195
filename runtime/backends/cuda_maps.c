/* cuda_maps.c - tensor maps, as the driver encodes them: arithmetic alone, nothing is asked of the device. */
#include <stdio.h>

#include "cuda.h"

/* CUtensorMapDataType. */
static int type_of(uint32_t dtype)
{
    switch (dtype) {
    case AULE_F32: return 7;
    case AULE_F16: return 6;
    case AULE_BF16: return 9;
    case AULE_I32: return 3;
    case AULE_I64: return 5;
    }
    return 0; /* bytes */
}

static int swizzle_of(uint32_t bytes)
{
    int swizzle = 0;
    for (uint32_t rows = 16; rows < bytes; rows *= 2) swizzle++;
    return swizzle;
}

static aule_status fail_map(Cuda *c, const CudaKernel *kernel, const AuMapped *from, CUresult code,
                            AuSink sink)
{
    AuText more = {.memory = c->memory};
    rt_text_add(&more, "; kernel %s, a map of %u dimensions:", kernel->launch->entry,
                from->view->rank);
    for (uint32_t d = 0; d < from->view->rank; d++)
        rt_text_add(&more, " %llu every %llu bytes", (unsigned long long)from->view->size[d],
                    (unsigned long long)from->view->stride[d]);
    aule_status status = rt_cuda_fail(c, sink, AULE_ERROR_DRIVER, "cuTensorMapEncodeTiled", code,
                                      rt_text_str(&more));
    rt_text_free(&more);
    return status;
}

static aule_status encode(Cuda *c, const CudaKernel *kernel, const AuMapped *from, void *map,
                          AuSink sink)
{
    static const uint32_t steps[AULE_MAP_RANK] = {1, 1, 1, 1, 1};
    const AuMapView *view = from->view;
    memset(map, 0, CUDA_MAP_BYTES);
    if (!view->rank) return AULE_OK; /* of a tensor that was not passed */
    uint32_t box[AULE_MAP_RANK];
    memcpy(box, from->map->box, sizeof box);
    if (AULE_MAP_CUT(from->map->flags)) box[view->rank - 1] = 1;
    CUresult code = c->cu.cuTensorMapEncodeTiled(
        map, type_of(from->map->dtype), view->rank,
        (void *)(uintptr_t)(from->address - view->before), view->size, view->stride + 1, box, steps,
        0, swizzle_of(from->map->swizzle), CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
        (from->map->flags & AULE_MAP_NAN) != 0);
    return code == 0 ? AULE_OK : fail_map(c, kernel, from, code, sink);
}

aule_status rt_cuda_maps(Cuda *c, const CudaKernel *kernel, const AuLaunch *given, void *maps,
                         AuSink sink)
{
    aule_status status = AULE_OK;
    if (!c->cu.cuTensorMapEncodeTiled)
        return rt_fail(sink, AULE_ERROR_UNSUPPORTED,
                       "cuda:%u: the driver has no cuTensorMapEncodeTiled, which kernel %s needs",
                       c->index, kernel->launch->entry);
    for (uint32_t n = 0; n < given->map_count && !status; n++)
        status =
            encode(c, kernel, &given->maps[n], (char *)maps + (size_t)n * CUDA_MAP_BYTES, sink);
    return status;
}
