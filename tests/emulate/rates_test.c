/* rates_test.c - cycles that the emulator counts: of instructions by their text (rates.def), of accesses to LDS by their addresses (banks.c). Numbers
 * are written down here a second time, from the documents. */
#include "inside.h" /* before cmocka, whose macro is called fail, too */

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

typedef struct World {
    Emulator e;
    Wave w;
} World;

static World *world_new(const char *machine)
{
    World *world = calloc(1, sizeof *world);
    snprintf(world->e.machine, sizeof world->e.machine, "%s", machine);
    world->e.family = strncmp(machine, "gfx9", 4) == 0    ? CDNA
                      : strcmp(machine, "gfx1030") == 0   ? RDNA2
                      : strncmp(machine, "gfx11", 5) == 0 ? RDNA3
                                                          : RDNA4;
    world->w.e = &world->e;
    world->w.family = world->e.family;
    return world;
}

static uint32_t cycles(const char *machine, const char *text)
{
    World *world = world_new(machine);
    Inst in = {.count = 0};
    if (!decode_text(&in, text)) fail_msg("%s is not read", text);
    const uint32_t count = cycles_of(&world->w, &in);
    free(in.second);
    free(world);
    return count;
}

static void test_instructions(void **state)
{
    static const struct {
        const char *machine, *text;
        uint32_t cycles;
    } known[] = {
        {"gfx942", "v_add_f32_e32 v0, v1, v2", 4},
        {"gfx942", "v_exp_f32_e32 v0, v1", 16},
        {"gfx950", "v_exp_f32_e32 v0, v1", 8},
        {"gfx90a", "v_rcp_iflag_f32_e32 v0, v1", 16},
        {"gfx908", "v_sqrt_f32_e64 v0, |v1|", 16},
        {"gfx1100", "v_exp_f32_e32 v0, v1", 4},
        {"gfx1200", "v_add_f32_e32 v0, v1, v2", 1},
        {"gfx1030", "v_log_f32_e32 v0, v1", 4},
        {"gfx942", "v_mul_lo_u32 v0, v1, v2", 16},
        {"gfx1100", "v_mul_hi_u32 v0, v1, v2", 4},
        {"gfx942", "v_mul_hi_u32_u24_e32 v0, v1, v2", 4},
        {"gfx1200", "v_mad_co_u64_u32 v[0:1], null, v2, v3, v[4:5]", 4},
        {"gfx908", "v_fma_f64 v[0:1], v[2:3], v[4:5], v[6:7]", 8},
        {"gfx90a", "v_fma_f64 v[0:1], v[2:3], v[4:5], v[6:7]", 4},
        {"gfx1100", "v_fma_f64 v[0:1], v[2:3], v[4:5], v[6:7]", 16},
        {"gfx942", "v_cvt_f16_f32_e32 v0, v1", 16},
        {"gfx950", "v_cvt_pk_f16_f32 v0, v1, v2", 4},
        {"gfx908", "v_mfma_f32_32x32x8f16 a[0:15], v[0:1], v[2:3], a[0:15]", 64},
        {"gfx90a", "v_mfma_f32_16x16x16f16 v[0:3], v[4:5], v[6:7], v[0:3]", 32},
        {"gfx942", "v_mfma_f32_32x32x8_bf16 v[0:15], v[16:17], v[18:19], v[0:15]", 32},
        {"gfx942", "v_mfma_f32_32x32x2_f32 v[0:15], v16, v18, v[0:15]", 64},
        {"gfx950", "v_mfma_f32_32x32x16_f16 v[0:15], v[16:19], v[20:23], v[0:15]", 32},
        {"gfx1100", "v_wmma_f32_16x16x16_f16 v[0:7], v[8:15], v[16:23], v[0:7]", 32},
        {"gfx1200", "v_wmma_f32_16x16x16_f16 v[0:7], v[8:11], v[12:15], v[0:7]", 16},
        {"gfx1100", "v_dual_mul_f32 v0, v1, v2 :: v_dual_mov_b32 v3, v4", 1},
        {"gfx942", "s_add_u32 s0, s1, s2", 4},
        {"gfx942", "s_nop 0", 4},
        {"gfx942", "s_nop 7", 32},
        {"gfx1100", "s_nop 1", 2},
        {"gfx942", "s_waitcnt vmcnt(0)", 4},
    };
    unsigned wrong = 0;
    (void)state;
    for (size_t n = 0; n < sizeof known / sizeof *known; n++) {
        const uint32_t got = cycles(known[n].machine, known[n].text);
        if (got == known[n].cycles) continue;
        printf("%s, %s: %u cycles, not %u\n", known[n].machine, known[n].text, (unsigned)got,
               (unsigned)known[n].cycles);
        wrong++;
    }
    assert_int_equal(wrong, 0);
}

/* All lanes, [stride] bytes apart, eight of them in a row of [pitch]. */
static void expect_banks(const char *machine, uint32_t stride, uint32_t pitch, unsigned bytes,
                         unsigned cycles, unsigned conflicts)
{
    World *world = world_new(machine);
    Vec address = {.undef = 0};
    for (uint32_t lane = 0; lane < LANES; lane++)
        address.u[lane] = lane % 8 * stride + lane / 8 * pitch;
    lds_banks(&world->w, &address, 0, bytes, ~0ull);
    assert_int_equal(world->e.counts.bank_cycles, cycles);
    assert_int_equal(world->e.counts.conflicts, conflicts);
    free(world);
}

static void test_banks(void **state)
{
    (void)state;
    expect_banks("gfx942", 4, 32, 4, 2, 0);
    expect_banks("gfx950", 4, 32, 4, 2, 0);
    expect_banks("gfx942", 16, 128, 16, 8, 0);
    expect_banks("gfx950", 16, 128, 16, 8, 0);
    expect_banks("gfx942", 128, 1024, 4, 64, 62); /* one bank */
    expect_banks("gfx950", 128, 1024, 4, 64, 62); /* two */
    expect_banks("gfx942", 16, 256, 16, 8, 0);    /* groups of one row */
    expect_banks("gfx950", 16, 256, 16, 16, 8);   /* of two rows, in the same 32 banks of 64 */
    expect_banks("gfx942", 0, 0, 4, 2, 0);        /* one word */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_instructions),
                                       cmocka_unit_test(test_banks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
