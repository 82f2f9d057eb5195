/* vulkan_positions.c - do the components of a subgroup's matrices of one type lie alike, those of matrices loaded with stride 0 among them?
 *
 * Kernels with the word `positions` reach components one by one (VK_KHR_cooperative_matrix), and take their row and column from matrices
 * of row and of column numbers, at the same component. The extension says nothing of where a component lies, and so not that one
 * number means the same place in two matrices, either. A kernel makes 16 row + column so, component by component, and stores it by
 * rows, which is specified. It runs before the first such variant is chosen; where other numbers come, none is, and the error of a call that has no
 * other says why. The modules are what
 * the emitter makes of tests/golden/spirv/positions16.kir and positions8.kir; `spirv text` of the tests compares them. */
#include "vulkan.h"

#include <stdio.h>

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
_Static_assert(sizeof sides / sizeof *sides == VULKAN_SIDES, "a state of each");
enum { MOST = 16 * 16 };

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

/* What is wrong with what the kernel told; "": nothing. */
static void look(const Side *s, const float *told, char *said, size_t bytes)
{
    *said = 0;
    for (uint32_t n = 0; n < s->side * s->side && !*said; n++)
        if (told[n] != (float)n)
            snprintf(said, bytes,
                     "the same component of two matrices of %ux%u is not at the same row and "
                     "column (%g at %u, %u)",
                     s->side, s->side, (double)told[n], n / s->side, n % s->side);
}

static aule_status try(Vulkan *v, const Side *s, AuSink sink)
{
    const uint32_t index = (uint32_t)(s - sides);
    VulkanBuffer *told = NULL;
    const size_t bytes = sizeof(float) * s->side * s->side;
    char said[sizeof v->positions_said[0]];
    pthread_mutex_lock(&v->lock);
    aule_status status = rt_vulkan_buffer(v, bytes, true, &told, sink);
    pthread_mutex_unlock(&v->lock);
    if (status) return status;
    memset(told->mapped, 0xff, bytes); /* NaN */
    status = run(v, s, told, sink);
    look(s, (const float *)(const void *)told->mapped, said, sizeof said);
    pthread_mutex_lock(&v->lock);
    rt_vulkan_buffer_end(v, told);
    if (!status && atomic_load(&v->positions[index]) == VULKAN_POSITIONS_UNKNOWN) {
        memcpy(v->positions_said[index], said, sizeof said);
        atomic_store(&v->positions[index],
                     *said ? VULKAN_POSITIONS_OTHER : VULKAN_POSITIONS_EXPECTED);
    }
    pthread_mutex_unlock(&v->lock);
    return status;
}

aule_status rt_vulkan_confirm(void *state, const aule_variant_v1 *variant, AuSink sink)
{
    static const char word[] = "positions";
    Vulkan *v = state;
    const uint32_t lanes = rt_vulkan_asked_lanes(variant);
    if (!variant->features || !rt_has_word(variant->features, word, sizeof word - 1))
        return AULE_OK;
    for (uint32_t n = 0; n < VULKAN_SIDES; n++) {
        if (sides[n].lanes != lanes) continue;
        aule_status status = AULE_OK;
        if (atomic_load(&v->positions[n]) == VULKAN_POSITIONS_UNKNOWN)
            status = try(v, &sides[n], sink);
        if (status) return status;
        if (atomic_load(&v->positions[n]) == VULKAN_POSITIONS_OTHER)
            return rt_fail(sink, AULE_ERROR_UNSUPPORTED,
                           "vulkan:%u: %s, which kernels with 'positions' rely on", v->index,
                           v->positions_said[n]);
    }
    return AULE_OK;
}
