/* Numbers of 8 bits: every code against what f16 says of it, every float of a sweep against the nearest code, and the arithmetic that
 * kernels have in their place against both. */
#include "kernel_test.h"

#include "codes.h"

#include <math.h>
#include <stdlib.h>

enum { LANES = 256 };
static const AuTileElem elems[] = {TILE_E4M3, TILE_E5M2, TILE_I8};

static float same_in_f16(AuTileElem elem, uint32_t code)
{
    if (elem == TILE_I8) return (float)(int8_t)code;
    if (elem == TILE_E5M2) return kernel_from_f16((uint16_t)(code << 8));
    if ((code & 0x7f) == 0x7f) return NAN;
    return 256 * kernel_from_f16((uint16_t)((code & 0x80) << 8 | (code & 0x7f) << 7));
}

static bool are_equal(float a, float b)
{
    return isnan(a) ? isnan(b) : a == b && !signbit(a) == !signbit(b);
}

static void codes_are_numbers(void **state)
{
    (void)state;
    for (uint32_t n = 0; n < 3; n++)
        for (uint32_t code = 0; code < 256; code++) {
            const float value = machine_decode(elems[n], (uint8_t)code);
            if (!are_equal(value, same_in_f16(elems[n], code)))
                fail_msg("%s: %02x is %g", tile_elem(elems[n])->name, code, (double)value);
            assert_true(are_equal(kernel_from_bf16(kernel_to_bf16(value)), value));
            assert_true(are_equal(kernel_from_f16(kernel_to_f16(value)), value));
        }
    assert_true(machine_decode(TILE_E4M3, 0x01) == 0x1p-9f);
    assert_true(machine_decode(TILE_E4M3, 0x38) == 1);
    assert_true(machine_decode(TILE_E4M3, 0x7e) == 448);
    assert_true(isinf(machine_decode(TILE_E5M2, 0x7c)));
    assert_true(machine_decode(TILE_E5M2, 0x7b) == 57344);
    assert_true(machine_decode(TILE_I8, 0x80) == -128);
}

/* By looking at all codes: of two as near, the even one. */
static float nearest(AuTileElem elem, float x)
{
    double best = INFINITY;
    uint32_t found = 0;
    const double most = elem == TILE_I8     ? 127
                        : elem == TILE_E4M3 ? 448
                                            : 57344,
                 least = elem == TILE_I8 ? -128 : -most,
                 at = x < least  ? least
                      : x > most ? most
                                 : x;
    for (uint32_t code = 0; code < 256; code++) {
        const double value = (double)machine_decode(elem, (uint8_t)code), far = fabs(value - at);
        if (!isfinite(value) || far > best || (far == best && (code & 1))) continue;
        best = far, found = code;
    }
    return machine_decode(elem, (uint8_t)found);
}

static float float_at(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* A sweep through all patterns, and what lies around each code and half way to the next. */
static uint32_t arguments(AuTileElem elem, float *x)
{
    uint32_t count = 0;
    for (uint32_t bits = 0; bits < UINT32_MAX - 1000003; bits += 1000003)
        x[count++] = float_at(bits);
    for (uint32_t code = 0; code < 256; code++) {
        const float value = machine_decode(elem, (uint8_t)code),
                    next = machine_decode(elem, (uint8_t)(code + 1)), middle = (value + next) / 2;
        x[count++] = value, x[count++] = middle;
        x[count++] = nextafterf(middle, INFINITY), x[count++] = nextafterf(middle, -INFINITY);
    }
    x[count++] = INFINITY, x[count++] = -INFINITY, x[count++] = NAN, x[count++] = -0.0f;
    return count;
}
enum { MOST = 8192 };

static void floats_become_the_nearest(void **state)
{
    (void)state;
    static float x[MOST];
    for (uint32_t n = 0; n < 3; n++) {
        const uint32_t count = arguments(elems[n], x);
        assert_true(count <= MOST);
        for (uint32_t i = 0; i < count; i++) {
            const uint8_t code = machine_encode(elems[n], x[i]);
            const float got = machine_decode(elems[n], code);
            if (isnan(x[i]))
                assert_int_equal(code, elems[n] == TILE_I8 ? 0 : 0x7f);
            else if (got != nearest(elems[n], x[i]))
                fail_msg("%s: %.9g became %g", tile_elem(elems[n])->name, (double)x[i],
                         (double)got);
            else if (elems[n] != TILE_I8)
                assert_int_equal(signbit(got) != 0, signbit(x[i]) != 0);
        }
    }
}

/* ---- kernels: by the operation, and by the arithmetic in its place */

static AuKernel *kernel_of(Bench *b, AuKOp op, uint32_t width, bool expanded)
{
    AuKernel *k = kernel_new(b->arena, "codes", LANES / width, 1);
    const bool decodes = kernel_op_info(op)->rule == AU_R_DECODE;
    const AuMem x = kernel_tensor(k, "x", decodes ? AU_U8 : AU_F32, true, false, 0, 0),
                out = kernel_tensor(k, "out", decodes ? AU_F32 : AU_U8, false, true, 0, 1);
    const AuVal lane = kernel_op2(k, AU_K_ADD,
                                  kernel_op2(k, AU_K_MUL, kernel_block(k, 0),
                                             kernel_i32(k, (int32_t)(LANES / width))),
                                  kernel_lane(k)),
                i = kernel_op2(k, AU_K_MUL, lane, kernel_i32(k, (int32_t)width)), none = {0};
    kernel_store(k, out, i, kernel_op1(k, op, kernel_load(k, x, i, width, none, none)), none);
    if (expanded) kernel_legalize_codes(k, 0, 0);
    kernel_simplify(k);
    assert_true(kernel_verify(k, b->diags));
    return k;
}

static void run(Bench *b, const AuKernel *k, void *x, void *out, uint32_t count)
{
    AuKBuffer buffers[] = {{x, count, true}, {out, count, true}};
    const uint64_t slots[] = {0, 0};
    const AuKRun how = {
        .slots = slots, .buffers = buffers, .grid = {count / LANES, 1, 1}, .lockstep = true};
    const char *why = NULL;
    if (!kernel_run(k, &how, b->arena, &why)) fail_msg("%s", why);
}

static void kernels_compute_them(void **state)
{
    (void)state;
    static float x[MOST], values[256];
    static uint8_t codes[256], made[MOST];
    for (uint32_t i = 0; i < 256; i++) codes[i] = (uint8_t)i;
    for (uint32_t which = 0; which < 3 * 2 * 2; which++) {
        Bench b = bench_new();
        const uint32_t n = which / 4, width = which % 2 ? 4 : 1;
        const bool expanded = which / 2 % 2;
        run(&b, kernel_of(&b, (AuKOp)(AU_K_FROM_E4M3 + n), width, expanded), codes, values, 256);
        for (uint32_t i = 0; i < 256; i++)
            if (!are_equal(values[i], machine_decode(elems[n], (uint8_t)i)))
                fail_msg("%s: %02x is %g", tile_elem(elems[n])->name, i, (double)values[i]);
        uint32_t count = arguments(elems[n], x);
        while (count % LANES) x[count++] = 0;
        run(&b, kernel_of(&b, (AuKOp)(AU_K_TO_E4M3 + n), width, expanded), x, made, count);
        for (uint32_t i = 0; i < count; i++)
            if (made[i] != machine_encode(elems[n], x[i]))
                fail_msg("%s: %.9g became %02x", tile_elem(elems[n])->name, (double)x[i], made[i]);
        bench_free(&b);
    }
}

/* Both halves of all bytes. */
static void halves_are_integers(void **state)
{
    (void)state;
    static float values[256];
    static uint8_t codes[256];
    for (uint32_t i = 0; i < 256; i++) codes[i] = (uint8_t)i;
    for (uint32_t which = 0; which < 2 * 2 * 2; which++) {
        Bench b = bench_new();
        const int half = (int)(which & 1);
        run(&b,
            kernel_of(&b, half ? AU_K_FROM_I4_HIGH : AU_K_FROM_I4, which & 2 ? 4 : 1, which & 4),
            codes, values, 256);
        for (int i = 0; i < 256; i++) {
            const int code = i >> 4 * half & 15, want = code < 8 ? code : code - 16;
            if (values[i] != (float)want)
                fail_msg("half %d of %02x is %g", half, (unsigned)i, (double)values[i]);
            assert_true(machine_decode_half((uint8_t)i, half) == (float)want);
        }
        bench_free(&b);
    }
}

static void constants_fold(void **state)
{
    (void)state;
    Bench b = bench_new();
    AuKernel *k = kernel_new(b.arena, "codes", 1, 1);
    const AuVal one = kernel_op1(k, AU_K_TO_E4M3, kernel_f32(k, 1));
    assert_int_equal(kernel_at(k, one)->op, AU_K_CONST);
    assert_int_equal(kernel_at(k, one)->imm, 0x38);
    const AuVal back = kernel_op1(k, AU_K_FROM_E4M3, one);
    assert_int_equal(kernel_at(k, back)->op, AU_K_CONST);
    assert_true(kernel_at(k, back)->number == 1);
    bench_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_are_numbers),    cmocka_unit_test(floats_become_the_nearest),
        cmocka_unit_test(kernels_compute_them), cmocka_unit_test(constants_fold),
        cmocka_unit_test(halves_are_integers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
