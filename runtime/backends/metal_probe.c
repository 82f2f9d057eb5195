/* metal_probe.c - where a matrix of a simdgroup has its elements.
 *
 * Kernels on matrices reach the two elements of a thread by thread_elements(), and compute with rows and columns that atoms.def gives them
 * (simdgroup8). Apple's specification does not say which they are, so a small kernel asks each device once, by simdgroup_load, which is
 * specified: of a matrix whose elements are their numbers, 8 r + c, every thread tells its two. Where they are others, code that has
 * matrices is not chosen; where there is no other, the error says why. */
#include "metal.h"

#include "../descriptor.h"

static const char code[] =
    "// MSL 3.0. Of matrices whose elements are 8 r + c each thread tells its two.\n"
    "#include <metal_stdlib>\n"
    "#include <metal_simdgroup_matrix>\n"
    "using namespace metal;\n"
    "struct places_slots {\n"
    "    device float *numbers;\n"
    "};\n"
    "[[max_total_threads_per_threadgroup(32)]] kernel void places(\n"
    "    constant places_slots &slots [[buffer(0)]],\n"
    "    uint3 block_at [[threadgroup_position_in_grid]],\n"
    "    uint3 grid_blocks [[threadgroups_per_grid]],\n"
    "    uint simdgroup [[simdgroup_index_in_threadgroup]],\n"
    "    uint thread_in_simdgroup [[thread_index_in_simdgroup]])\n"
    "{\n"
    "    device float *const numbers = slots.numbers;\n"
    "    device half *const halves = (device half *)(numbers + 64);\n"
    "    const int lane = int(thread_in_simdgroup);\n"
    "    simdgroup_matrix<float, 8, 8> whole;\n"
    "    simdgroup_matrix<half, 8, 8> small;\n"
    "    simdgroup_load(whole, numbers, 8uL);\n"
    "    simdgroup_load(small, halves, 8uL);\n"
    "    numbers[96 + lane * 2] = whole.thread_elements()[0];\n"
    "    numbers[96 + lane * 2 + 1] = whole.thread_elements()[1];\n"
    "    numbers[160 + lane * 2] = float(small.thread_elements()[0]);\n"
    "    numbers[160 + lane * 2 + 1] = float(small.thread_elements()[1]);\n"
    "}\n";

enum { SIDE = 8, ALL = SIDE * SIDE, HALVES = ALL, TOLD = 96, NUMBERS = TOLD + 2 * ALL };

static const aule_slot_v1 slot = {.kind = AULE_SLOT_TENSOR, .type = AULE_SLOT_PTR};
static const aule_launch_v1 launch = {.struct_size = sizeof launch,
                                      .entry = "places",
                                      .block = {32, 1, 1},
                                      .slot_count = 1,
                                      .slots = &slot};
static const aule_variant_v1 variant = {.struct_size = sizeof variant,
                                        .target = "metal",
                                        .code_format = AULE_CODE_MSL,
                                        .schedule = "places of a matrix",
                                        .code = code,
                                        .code_bytes = sizeof code - 1,
                                        .launch_count = 1,
                                        .launches = &launch};

/* As the row simdgroup8 has them: rows r1 r2 in bits 1, 2 of the lane and r4 in bit 4, columns c1 the element, c2 in bit 0, c4 in bit 3. */
static uint32_t number_of(uint32_t lane, uint32_t element)
{
    const uint32_t row = (lane >> 1 & 3) | (lane >> 4 & 1) << 2;
    const uint32_t column = element | (lane & 1) << 1 | (lane >> 3 & 1) << 2;
    return row * SIDE + column;
}

/* Whole numbers below 64 as f16. */
static uint16_t half_of(uint32_t number)
{
    uint32_t power = 0;
    if (!number) return 0;
    while (number >> (power + 1)) power++;
    return (uint16_t)((power + 15) << 10 | ((number << (10 - power)) & 0x3ff));
}

static void write_numbers(float *numbers)
{
    uint16_t halves[ALL];
    memset(numbers, 0xff, NUMBERS * sizeof *numbers);
    for (uint32_t n = 0; n < ALL; n++) {
        numbers[n] = (float)n;
        halves[n] = half_of(n);
    }
    memcpy(numbers + HALVES, halves, sizeof halves);
}

/* What the threads told; false: other places than expected, said in [why]. */
static bool are_expected(const float *told, AuText *why)
{
    for (uint32_t n = 0; n < 2 * ALL; n++) {
        const uint32_t element = n % ALL, number = number_of(element / 2, element % 2);
        if (told[n] == (float)number) continue;
        rt_text_add(why, "element %u of thread %u of a matrix of %s is not at row %u, column %u",
                    element % 2, element / 2, n < ALL ? "float" : "half", number / SIDE,
                    number % SIDE);
        if (told[n] >= 0 && told[n] < ALL)
            rt_text_add(why, ", but at row %u, column %u", (unsigned)told[n] / SIDE,
                        (unsigned)told[n] % SIDE);
        return false;
    }
    return true;
}

static aule_status ask(Metal *d, const MetalApi *m, MetalId buffer, void *program, AuSink sink)
{
    const uint64_t slots[1] = {(uint64_t)(uintptr_t)buffer};
    const int64_t offsets[1] = {0};
    const AuLaunch given = {.grid = {1, 1, 1}, .slots = slots, .offsets = offsets};
    float *numbers = METAL_GET(m, buffer, contents);
    AuText why = {.memory = d->memory};
    if (!numbers)
        return rt_fail(sink, AULE_ERROR_DRIVER, "metal:%u: contents: gave none", d->index);
    write_numbers(numbers);
    aule_status status = rt_metal_launch(d, program, NULL, &given, sink);
    if (!status) status = rt_metal_finish(d, sink);
    if (status) return status;
    d->places = are_expected(numbers + TOLD, &why) ? METAL_PLACES_EXPECTED : METAL_PLACES_OTHER;
    snprintf(d->places_said, sizeof d->places_said, "%s", rt_text_str(&why));
    rt_text_free(&why);
    return AULE_OK;
}

static aule_status probe(Metal *d, AuSink sink)
{
    const MetalApi *m = &d->api;
    void *program;
    aule_status status = rt_metal_load_any(d, &variant, &program, sink);
    if (status) return status;
    MetalId buffer = METAL_CALL(m, d->device, new_buffer, (uint64_t)(NUMBERS * sizeof(float)), 0);
    if (buffer)
        status = ask(d, m, buffer, program, sink);
    else
        status = rt_fail(sink, AULE_ERROR_MEMORY, "metal:%u: no buffer of %u bytes", d->index,
                         (unsigned)(NUMBERS * sizeof(float)));
    if (buffer) METAL_GET(m, buffer, release);
    rt_metal_unload(d, program);
    return status;
}

static bool has_matrices(const aule_variant_v1 *v)
{
    static const char word[] = "thread_elements";
    const size_t length = sizeof word - 1, bytes = (size_t)v->code_bytes;
    const char *text = v->code;
    for (size_t n = 0; n + length <= bytes; n++)
        if (text[n] == word[0] && memcmp(text + n, word, length) == 0) return true;
    return false;
}

/* What it takes to read the code is spared where places are as they should be. */
static aule_status confirm(Metal *d, const aule_variant_v1 *v, AuSink sink)
{
    aule_status status = AULE_OK;
    if (d->places == METAL_PLACES_EXPECTED || !has_matrices(v)) return AULE_OK;
    if (d->places == METAL_PLACES_UNKNOWN) status = probe(d, sink);
    if (!status && d->places == METAL_PLACES_OTHER)
        status = rt_fail(sink, AULE_ERROR_UNSUPPORTED,
                         "metal:%u: '%s' wants matrices of a simdgroup as M1 to M4 have them: %s",
                         d->index, v->schedule ? v->schedule : "", d->places_said);
    return status;
}

aule_status rt_metal_confirm(void *state, const aule_variant_v1 *of, AuSink sink)
{
    Metal *d = state;
    void *pool = d->api.objc_autoreleasePoolPush();
    pthread_mutex_lock(&d->probing);
    const aule_status status = confirm(d, of, sink);
    pthread_mutex_unlock(&d->probing);
    d->api.objc_autoreleasePoolPop(pool);
    return status;
}
