/* vulkan_positions.c - do the components of a subgroup's matrices of one type lie alike, those of matrices loaded with stride 0 among them?
 *
 * Kernels with the word `positions` reach components one by one (VK_KHR_cooperative_matrix), and take their row and column from matrices
 * of row and of column numbers, at the same component. The extension says nothing of where a component lies, and so not that one
 * number means the same place in two matrices, either. A kernel makes 16 row + column so, component by component, and stores it by
 * rows, which is specified. It runs before the first such module is loaded; where other numbers come, these are refused by name. The modules are what
 * the emitter makes of tests/golden/spirv/positions16.kir and positions8.kir; `spirv text` of the tests compares them. */
#include "vulkan.h"

#include "../descriptor.h"

static const uint32_t module16[] = {
#include "vulkan_positions16.def"
};
static const uint32_t module8[] = {
#include "vulkan_positions8.def"
};

/* Matrices of so many rows and columns, of subgroups of so many lanes. */
typedef struct Side {
    uint32_t side, lanes;
    const char *words;
    const void *code;
    size_t bytes;
} Side;
static const Side sides[] = {
    {16, 32, "lanes32", module16, sizeof module16},
    {8, 8, "lanes8", module8, sizeof module8},
};
enum { SIDES = sizeof sides / sizeof *sides, MOST = 16 * 16 };

static aule_status run(Vulkan *v, const Side *s, const VulkanBuffer *told, AuSink sink)
{
    const aule_launch_v1 launch = {.struct_size = sizeof launch,
                                   .entry = "positions",
                                   .block = {s->lanes, 1, 1},
                                   .slot_count = 1};
    const aule_variant_v1 variant = {.struct_size = sizeof variant,
                                     .schedule = "positions",
                                     .features = s->words,
                                     .code_format = AULE_CODE_SPIRV,
                                     .code = s->code,
                                     .code_bytes = s->bytes,
                                     .launch_count = 1,
                                     .launches = &launch};
    const AuLaunch given = {.grid = {1, 1, 1}, .slots = &told->address};
    void *program = NULL;
    aule_status status = rt_vulkan_load(v, &variant, &program, sink);
    if (status) return status;
    status = rt_vulkan_launch(v, program, NULL, &given, sink);
    rt_vulkan_unload(v, program); /* which waits */
    return status;
}

static aule_status are_expected(const Vulkan *v, const Side *s, const float *told, AuSink sink)
{
    for (uint32_t n = 0; n < s->side * s->side; n++)
        if (told[n] != (float)n)
            return rt_fail(
                sink, AULE_ERROR_UNSUPPORTED,
                "vulkan:%u: the same component of two matrices of %ux%u is not at the same row and "
                "column (%g at %u, %u), "
                "which kernels with 'positions' rely on; compile for an architecture without it",
                v->index, s->side, s->side, (double)told[n], n / s->side, n % s->side);
    return AULE_OK;
}

static aule_status try(Vulkan *v, const Side *s, AuSink sink)
{
    VulkanBuffer *told = NULL;
    const size_t bytes = sizeof(float) * s->side * s->side;
    float numbers[MOST];
    pthread_mutex_lock(&v->lock);
    aule_status status = rt_vulkan_buffer(v, bytes, true, &told, sink);
    pthread_mutex_unlock(&v->lock);
    if (status) return status;
    memset(told->mapped, 0xff, bytes); /* NaN */
    status = run(v, s, told, sink);
    memcpy(numbers, told->mapped, bytes);
    pthread_mutex_lock(&v->lock);
    rt_vulkan_buffer_end(v, told);
    pthread_mutex_unlock(&v->lock);
    return status ? status : are_expected(v, s, numbers, sink);
}

aule_status rt_vulkan_positions(Vulkan *v, const aule_variant_v1 *variant, AuSink sink)
{
    static const char word[] = "positions";
    const uint32_t lanes = rt_vulkan_asked_lanes(variant);
    if (!variant->features || !rt_has_word(variant->features, word, sizeof word - 1))
        return AULE_OK;
    for (uint32_t n = 0; n < SIDES; n++) {
        if (sides[n].lanes != lanes || atomic_load(&v->positions) >> n & 1) continue;
        const aule_status status = try(v, &sides[n], sink);
        if (status) return status;
        atomic_fetch_or(&v->positions, 1u << n);
    }
    return AULE_OK;
}
