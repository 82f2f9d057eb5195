/* Building: what folds and what must not, types, names, misuse; and the meaning of single
 * operations. */
#include "kernel_test.h"

#include <math.h>

static bool is_constant(const AuKernel *k, AuVal v, int64_t imm)
{
    return kernel_at(k, v)->op == AU_K_CONST && kernel_at(k, v)->imm == imm;
}

static void integers_fold(void **state)
{
    (void)state;
    Bench b = bench_new();
    AuKernel *k = kernel_new(b.arena, "k", 8, 1);
    const AuVal x = kernel_lane(k), zero = kernel_i32(k, 0), one = kernel_i32(k, 1),
                seven = kernel_i32(k, 7), minus = kernel_i32(k, -2);
    assert_int_equal(kernel_op2(k, AU_K_ADD, x, zero).i, x.i);
    assert_int_equal(kernel_op2(k, AU_K_MUL, one, x).i, x.i);
    assert_int_equal(kernel_op2(k, AU_K_MAX, x, x).i, x.i);
    assert_true(is_constant(k, kernel_op2(k, AU_K_MUL, x, zero), 0));
    assert_true(is_constant(k, kernel_op2(k, AU_K_SUB, x, x), 0));
    assert_true(is_constant(k, kernel_op2(k, AU_K_IDIV, kernel_i32(k, -1), seven), -1));
    assert_true(is_constant(k, kernel_op2(k, AU_K_IMOD, kernel_i32(k, -1), seven), 6));
    assert_true(is_constant(k, kernel_op2(k, AU_K_IMOD, seven, minus), -1));
    assert_true(is_constant(k, kernel_op2(k, AU_K_ADD, kernel_i32(k, INT32_MAX), one), INT32_MIN));
    assert_true(is_constant(k, kernel_op2(k, AU_K_SHL, one, kernel_i32(k, 33)), 2));
    assert_true(is_constant(k, kernel_op2(k, AU_K_USHR, minus, one), 0x7fffffff));
    assert_true(is_constant(k, kernel_op2(k, AU_K_SHR, minus, one), -1));
    assert_true(is_constant(k, kernel_cvt(k, kernel_i64(k, 0x180000000), AU_I32), INT32_MIN));
    assert_int_equal(kernel_op3(k, AU_K_SELECT, kernel_i1(k, true), x, seven).i, x.i);
    bench_free(&b);
}

/* Only what holds for every float, -0, infinities and NaN among them. */
static void floats_fold_exactly(void **state)
{
    (void)state;
    Bench b = bench_new();
    AuKernel *k = kernel_new(b.arena, "k", 8, 1);
    const AuVal x = kernel_arg(k, "x", AU_ARG_F32, 0, 0, 0), zero = kernel_f32(k, 0),
                minus_zero = kernel_f32(k, -0.0), one = kernel_f32(k, 1);
    assert_int_equal(kernel_op2(k, AU_K_MUL, x, one).i, x.i);
    assert_int_equal(kernel_op2(k, AU_K_SUB, x, zero).i, x.i);
    assert_int_equal(kernel_op2(k, AU_K_ADD, x, minus_zero).i, x.i);
    assert_int_not_equal(kernel_op2(k, AU_K_ADD, x, zero).i, x.i);
    assert_int_not_equal(kernel_op2(k, AU_K_SUB, x, minus_zero).i, x.i);
    assert_int_equal(kernel_at(k, kernel_op2(k, AU_K_MUL, x, zero))->op, AU_K_MUL);
    assert_int_equal(kernel_at(k, kernel_op2(k, AU_K_SUB, x, x))->op, AU_K_SUB);
    assert_int_equal(kernel_at(k, kernel_op2(k, AU_K_EQ, x, x))->op, AU_K_EQ);
    const AuInstr *sum =
        kernel_at(k, kernel_op2(k, AU_K_ADD, kernel_f32(k, 0.1), kernel_f32(k, 0.2)));
    assert_true(sum->op == AU_K_CONST && sum->number == (double)(0.1f + 0.2f));
    const AuInstr *fused = kernel_at(k, kernel_op3(k, AU_K_FMA, kernel_f32(k, 1 + 0x1p-23),
                                                   kernel_f32(k, 1 - 0x1p-23), kernel_f32(k, -1)));
    assert_true(fused->op == AU_K_CONST && fused->number == -0x1p-46); /* rounded once */
    bench_free(&b);
}

static void names_are_kept_apart(void **state)
{
    (void)state;
    Bench b = bench_new();
    AuKernel *k = kernel_new(b.arena, "k", 8, 1);
    const AuMemory m = {.name = "tile", .space = AU_LANE, .scalar = AU_F32, .count = 4};
    assert_string_equal(k->mems[kernel_memory(k, m).i].name, "tile");
    assert_string_equal(k->mems[kernel_memory(k, m).i].name, "tile.2");
    assert_string_equal(k->mems[kernel_memory(k, m).i].name, "tile.3");
    const AuVal once = kernel_arg(k, "S", AU_ARG_I32, 3, 2, 0),
                twice = kernel_arg(k, "S", AU_ARG_I32, 3, 2, 0);
    assert_int_equal(k->arg_count, 1);
    assert_true(kernel_at(k, once)->imm == 0 && kernel_at(k, twice)->imm == 0);
    kernel_arg(k, "S", AU_ARG_I32, 3, 2, 1);
    assert_int_equal(k->arg_count, 2);
    bench_free(&b);
}

static bool verifies(Bench *b, const AuKernel *k, AuCode code)
{
    AuDiags *diags = au_diags_new(b->arena);
    const bool good = kernel_verify(k, diags);
    if (!good) assert_int_equal(diags->first->code, code);
    return good;
}

static void misuse_is_refused(void **state)
{
    (void)state;
    Bench b = bench_new();
    AuKernel *open = kernel_new(b.arena, "k", 8, 1), *shut = kernel_new(b.arena, "k", 8, 1),
             *other = kernel_new(b.arena, "k", 8, 1);
    kernel_if(open, kernel_i1(open, true));
    assert_false(verifies(&b, open, AU_E0803));
    kernel_end(open);
    assert_true(verifies(&b, open, AU_E0803));
    kernel_end(shut);
    assert_false(verifies(&b, shut, AU_E0803));
    kernel_for(other, kernel_i32(other, 0), kernel_i32(other, 1), 1, AU_UNROLL_AUTO);
    kernel_else(other);
    kernel_end(other);
    assert_false(verifies(&b, other, AU_E0803));
    AuKernel *deep = kernel_new(b.arena, "k", 8, 1);
    for (int n = 0; n < 100; n++) kernel_if(deep, kernel_i1(deep, true));
    for (int n = 0; n < 100; n++) kernel_end(deep);
    assert_false(verifies(&b, deep, AU_E0803));
    AuKernel *tangled = kernel_new(b.arena, "k", 8, 1);
    kernel_lane(tangled);
    tangled->instrs[1].next = 1;
    assert_false(verifies(&b, tangled, AU_E0803));
    const AuMemory bad[] = {
        {.name = "m", .space = AU_LANE, .scalar = AU_F32},
        {.name = "m", .space = AU_LANE, .scalar = AU_VOID, .count = 1},
        {.name = "m", .space = AU_SHARED, .scalar = AU_F32, .count = 1, .align = 24},
        {.name = "m", .space = AU_SHARED, .scalar = AU_F32, .count = 1, .swizzle = 48},
        {.name = "m", .space = AU_EXEC, .scalar = AU_F32, .count = 1, .swizzle = 128},
        {.name = "m", .space = AU_GLOBAL, .scalar = AU_F32},
    };
    for (size_t n = 0; n < sizeof bad / sizeof *bad; n++) {
        AuKernel *k = kernel_new(b.arena, "k", 8, 1);
        kernel_memory(k, bad[n]);
        assert_false(verifies(&b, k, AU_E0807));
    }
    const uint32_t shapes[][2] = {{0, 1}, {8, 0}, {2000, 1}, {32, 65}};
    for (size_t n = 0; n < sizeof shapes / sizeof *shapes; n++)
        assert_false(verifies(&b, kernel_new(b.arena, "k", shapes[n][0], shapes[n][1]), AU_E0808));
    bench_free(&b);
}

/* Every f16 and bf16 value survives the way to f32 and back; between two of them the nearest is
 * taken, the even one in the middle. */
static void halves_round_to_nearest_even(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        const uint16_t half = (uint16_t)bits;
        const float f16 = kernel_from_f16(half), bf16 = kernel_from_bf16(half);
        assert_true(isnan(f16)
                        ? (kernel_to_f16(f16) & 0x7c00) == 0x7c00 && kernel_to_f16(f16) & 0x3ff
                        : kernel_to_f16(f16) == half);
        assert_true(isnan(bf16) ? isnan(kernel_from_bf16(kernel_to_bf16(bf16)))
                                : kernel_to_bf16(bf16) == half);
        if ((bits & 0x7fff) < 0x7bff) { /* both neighbours are finite */
            const double next = (double)kernel_from_f16((uint16_t)(half + 1)),
                         middle = ((double)f16 + next) / 2;
            assert_true((double)(float)middle == middle);
            assert_int_equal(kernel_to_f16((float)middle), bits & 1 ? half + 1 : half);
            assert_int_equal(kernel_to_f16(nextafterf((float)middle, f16)), half);
            assert_int_equal(kernel_to_f16(nextafterf((float)middle, (float)next)), half + 1);
        }
    }
    assert_true(kernel_from_f16(0x3c00) == 1 && kernel_from_f16(1) == 0x1p-24f &&
                kernel_from_f16(0x7bff) == 65504);
    assert_int_equal(kernel_to_f16(65519.99f), 0x7bff);
    assert_int_equal(kernel_to_f16(65520), 0x7c00);
    assert_int_equal(kernel_to_bf16(1 + 0x1p-8f), 0x3f80);
    assert_int_equal(kernel_to_bf16(1 + 0x3p-8f), 0x3f82);
    assert_int_equal(kernel_to_bf16(INFINITY), 0x7f80);
}

static int64_t of_i64(AuKOp op, int64_t a, int64_t b)
{
    return (int64_t)kernel_evaluate(op, AU_I64, AU_I64, (uint64_t)a, (uint64_t)b, 0);
}

static void wide_integers(void **state)
{
    (void)state;
    static const int64_t values[] = {0,
                                     1,
                                     -1,
                                     7,
                                     -7,
                                     INT64_MAX,
                                     INT64_MIN,
                                     0x123456789abcdef,
                                     -0x7edcba987654321,
                                     1ll << 32,
                                     0xffffffff};
    enum { COUNT = sizeof values / sizeof *values };
    for (size_t n = 0; n < COUNT * COUNT; n++) {
        const int64_t a = values[n % COUNT], b = values[n / COUNT];
        __extension__ typedef unsigned __int128 Wide;
        assert_true(of_i64(AU_K_MULHI, a, b) == (int64_t)((Wide)(uint64_t)a * (uint64_t)b >> 64));
        if (b == 0 || (a == INT64_MIN && b == -1)) continue;
        const int64_t q = of_i64(AU_K_IDIV, a, b), r = of_i64(AU_K_IMOD, a, b);
        assert_true((int64_t)((uint64_t)q * (uint64_t)b + (uint64_t)r) == a);
        assert_true(r == 0 || (r < 0) == (b < 0));
        assert_true(b > 0 ? r < b : r > b);
    }
}

static void floats_become_integers_toward_zero(void **state)
{
    (void)state;
    const struct {
        float from;
        int32_t to;
    } cases[] = {
        {1.9f, 1}, {-1.9f, -1}, {2147483520, 2147483520}, {-2147483648.0f, INT32_MIN}, {-0.5f, 0}};
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        uint32_t bits;
        memcpy(&bits, &cases[n].from, sizeof bits);
        assert_int_equal((int32_t)kernel_evaluate(AU_K_CVT, AU_F32, AU_I32, bits, 0, 0),
                         cases[n].to);
    }
}

/* `late` stays in its loop, and so does what is made of it; the same sum without it moves before the loop. */
static void late_stays_in_its_loop(void **state)
{
    (void)state;
    Bench b = bench_new();
    AuKernel *k = kernel_new(b.arena, "k", 8, 1);
    const AuMem out = kernel_memory(
        k, (AuMemory){.name = "out", .space = AU_GLOBAL, .scalar = AU_I64, .writes = true});
    const AuVal x = kernel_arg(k, "x", AU_ARG_I64, 0, 0, 0),
                turn = kernel_for(k, kernel_i32(k, 0), kernel_i32(k, 9), 1, AU_UNROLL_NEVER),
                late = kernel_op2(k, AU_K_ADD, kernel_op1(k, AU_K_LATE, x), kernel_i64(k, 5)),
                early = kernel_op2(k, AU_K_MUL, x, kernel_i64(k, 3)),
                at = kernel_op2(k, AU_K_MUL, kernel_cvt(k, turn, AU_I64), kernel_i64(k, 2));
    kernel_store(k, out, at, late, (AuVal){0});
    kernel_store(k, out, kernel_op2(k, AU_K_ADD, at, kernel_i64(k, 1)), early, (AuVal){0});
    kernel_end(k);
    kernel_simplify(k);
    bool in_loop[AU_K_COUNT] = {false};
    for (uint32_t i = kernel_at(k, turn)->body; i; i = k->instrs[i].next)
        in_loop[k->instrs[i].op] = true;
    assert_true(in_loop[AU_K_LATE]);
    for (uint32_t i = kernel_at(k, turn)->body; i; i = k->instrs[i].next)
        assert_true(k->instrs[i].op != AU_K_MUL || kernel_operand(k, &k->instrs[i], 0).i != x.i);
    assert_true(in_loop[AU_K_ADD]);
    bench_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_fold),
        cmocka_unit_test(floats_fold_exactly),
        cmocka_unit_test(names_are_kept_apart),
        cmocka_unit_test(misuse_is_refused),
        cmocka_unit_test(halves_round_to_nearest_even),
        cmocka_unit_test(wide_integers),
        cmocka_unit_test(late_stays_in_its_loop),
        cmocka_unit_test(floats_become_integers_toward_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
