/* Executors that go different ways: a ring in shared memory between one that fills and two that
 * empty it, run in many schedules, with every wait, arrival and barrier taken out once. */
#include "deletions.h"
#include "planted.h"

static float in[24], out[8];

static void prepare(AuKRun *run)
{
    static AuKBuffer buffers[2] = {{in, 24, true}, {out, 8, false}};
    static const uint64_t slots[2] = {0};
    for (int n = 0; n < 24; n++) in[n] = (float)(n * n % 17);
    run->buffers = buffers;
    run->slots = slots;
}

/* Each consumer sums the six tiles; the second adds what the first has, its lanes turned round. */
static bool is_right(const AuKRun *run)
{
    (void)run;
    float sum[4] = {0};
    for (int n = 0; n < 24; n++) sum[n % 4] += in[(n & ~3) + ((n % 4) ^ 1)];
    for (int l = 0; l < 4; l++)
        if (out[l] != sum[l] || out[4 + l] != sum[l] + sum[3 - l]) return false;
    return true;
}

static const char ring[] =
    "kernel ring lanes 4 warps 3\n"
    "memory @in: global f32 reads\nmemory @out: global f32 writes\n"
    "memory @ring: shared f32[8]\nmemory @given: shared f32[4]\n"
    "memory @full: shared i64[2]\nmemory @empty: shared i64[2]\nmemory @sum: lane f32[1]\n"
    "arg in: pointer @in\narg out: pointer @out\n{\n"
    "  %1 = lane.i32\n  %2 = warp.i32\n  %3 = elect.i1\n  %4 = eq.i32 %2, 0\n"
    "  if %4 {\n    for %5 = 0 to 2 step 1 {\n"
    "      mbar_init @full[%5], 1 if %3 //! uninitialised\n"
    "      mbar_init @empty[%5], 2 if %3 //! uninitialised\n"
    "    }\n  }\n"
    "  barrier #0 //! race|uninitialised\n"
    "  if %4 {\n"
    "    for %6 = 0 to 6 step 1 {\n"
    "      %7 = and.i32 %6, 1\n      %8 = shr.i32 %6, 1\n      %9 = sub.i32 %8, 1\n"
    "      mbar_wait @empty[%7], %9 //! race|phase\n"
    "      %10 = mul.i32 %7, 4\n      %11 = add.i32 %10, %1\n"
    "      %12 = mul.i32 %6, 4\n      %13 = add.i32 %12, %1\n      %14 = load.f32 @in[%13]\n"
    "      store @ring[%11], %14 //! uninitialised\n"
    "      barrier #1 //! race\n"
    "      mbar_arrive @full[%7] if %3 //! deadlock\n"
    "    }\n"
    "  } else {\n"
    "    store @sum[0], 0.0\n    %15 = xor.i32 %1, 1\n"
    "    for %16 = 0 to 6 step 1 {\n"
    "      %17 = and.i32 %16, 1\n      %18 = shr.i32 %16, 1\n"
    "      mbar_wait @full[%17], %18 //! race|uninitialised|phase\n"
    "      %19 = mul.i32 %17, 4\n      %20 = add.i32 %19, %15\n      %21 = load.f32 @ring[%20]\n"
    "      barrier #1 //! race\n"
    "      mbar_arrive @empty[%17] if %3 //! deadlock\n"
    "      %22 = load.f32 @sum[0]\n      %23 = add.f32 %22, %21\n      store @sum[0], %23\n"
    "    }\n"
    "    %24 = load.f32 @sum[0]\n    %25 = eq.i32 %2, 1\n"
    "    if %25 {\n"
    "      store @out[%1], %24\n"
    "      store @given[%1], %24 //! uninitialised\n"
    "      arrive 3 #8 //! deadlock\n"
    "    } else {\n"
    "      sync 3 #8 //! race|uninitialised|phase\n"
    "      %26 = sub.i32 3, %1\n      %27 = load.f32 @given[%26]\n      %28 = add.f32 %24, %27\n"
    "      %29 = add.i32 %1, 4\n      store @out[%29], %28\n"
    "    }\n  }\n}\n";

static const Subject subject = {ring, prepare, is_right, 20};

static void rings_run_and_need_every_line(void **state)
{
    (void)state;
    assert_int_equal(try_deletions(&subject), 13);
}

static void text_and_passes_keep_them(void **state)
{
    (void)state;
    try_text_and_passes(&subject);
}

/* ---- single mistakes */

#define HEAD                                                                                       \
    "kernel k lanes 4 warps 8 group 4\nmemory @x: shared f32[64]\nmemory @m: shared i64[2]\n"      \
    "memory @n: shared i32[2]\n{\n%1 = lane.i32\n%2 = warp.i32\n%3 = elect.i1\n"                   \
    "%4 = eq.i32 %2, 0\n%5 = idiv.i32 %2, 4\n%6 = eq.i32 %5, 0\n%7 = land.i1 %3, %4\n"
#define INIT "mbar_init @m[0], 1 if %7\nbarrier #0\n"

/* clang-format off */
static const Mistake mistakes[] = {
    {AU_E0806, "barrier by lane", HEAD "sync %1 #8\n}\n", "the barrier must be the same in all lanes"},
    {AU_E0808, "part of an executor", HEAD "sync 1 #6\n}\n", "no number of executors"},
    {AU_E0808, "barrier of nobody", HEAD "arrive 1 #0\n}\n", "#0 is not in 4..32"},
    {AU_E0808, "the block's barrier by name", HEAD "sync 0 #8\n}\n", "there are barriers 1 to 15"},
    {AU_E0807, "barrier of 32 bits", HEAD "mbar_init @n[0], 1 if %7\n}\n", "must be shared memory of i64"},
    {AU_E0807, "loads from barriers", HEAD INIT "%8 = load.i64 @m[0]\n}\n", "holds barriers"},
    {AU_E0808, "barrier outside", HEAD "mbar_init @m[2], 1 if %7\n}\n", "@m has 2 elements"},
    {AU_E0806, "phase by lane", HEAD INIT "mbar_wait @m[0], %1\n}\n", "the phase must be the same"},
    {AU_E0808, "registers by threes", HEAD "registers #27\n}\n", "no multiple of 8"},
    {AU_E0803, "registers too late", HEAD "barrier #1\nregisters #24\n}\n", "the first of its region"},
    {AU_E0806, "registers of one executor", HEAD "if %4 {\nregisters #24\n}\n}\n", "executors of the group do not all come here"},
    {AU_E0808, "registers without groups", "kernel k lanes 4 warps 4\n{\nregisters #24\n}\n", "the kernel has none"},
    {AU_E0808, "groups that do not fit", "kernel k lanes 4 warps 4 group 3\n{\n}\n", "groups of 3 in 4"},
    {0, "wrong phase", HEAD INIT "mbar_wait @m[0], 1\n}\n", "phase: waits for 1 where 0 is"},
    {0, "nobody arrives", HEAD INIT "mbar_wait @m[0], 0\n}\n", "deadlock: there wait executor 0 for phase 0 (1 arrivals"},
    {0, "barrier that is not set up", HEAD "mbar_arrive @m[0] if %7\n}\n", "uninitialised: @m[0]"},
    {0, "set up twice", HEAD INIT "mbar_init @m[0], 1 if %7\n}\n", "initialised twice"},
    {0, "all lanes arrive", HEAD INIT "if %4 {\nmbar_arrive @m[0]\n}\nmbar_wait @m[0], 0\n}\n", "phase: waits for 0 where"},
    {0, "bytes that nobody brings", HEAD INIT "mbar_expect @m[0], 16 if %7\n}\n", "phase: 16 bytes of @m[0] are left over"},
    {0, "arrivals after the last", HEAD INIT "mbar_expect @m[0], 16 if %7\nmbar_arrive @m[0] if %7\n}\n", "phase: more than 1 arrivals"},
    {0, "barrier of different sizes", HEAD "if %4 {\narrive 1 #8\n}\nif %6 {\nsync 1 #16\n}\n}\n", "phase: "},
    {0, "one who does not come", HEAD "if %4 {\nsync 1 #8\n}\n}\n", "deadlock: there wait executor 0 for barrier 1 (4 of 8 lanes"},
    {0, "arrivals without anybody who waits", HEAD "if %4 {\narrive 1 #8\n}\n}\n", "4 lanes are left over at barrier 1"},
    {0, "arrival of one lane for all", HEAD "store @x[%1], 1.0 if %4\n" INIT "%8 = add.i32 %1, 8\nif %4 {\nstore @x[%8], 1.0\nmbar_arrive @m[0] if %3\n}\nmbar_wait @m[0], 0\n%9 = load.f32 @x[11]\n%10 = load.f32 @x[8]\n}\n", "race: @x["},
    {0, "increments", "kernel k lanes 4 warps 1\nmemory @n: global i32 reads writes\narg n: pointer @n\n{\n%1 = atomic_inc.i32 @n[0]\nfence_proxy\n}\n", "limits: atomic_inc"},
};
/* clang-format on */

static void prepare_mistake(AuKRun *run)
{
    static int32_t count;
    static AuKBuffer buffer = {&count, 1, true};
    static const uint64_t slot = 0;
    count = 0;
    run->buffers = &buffer;
    run->slots = &slot;
    run->grid[0] = 2;
}

static void mistakes_are_found(void **state)
{
    (void)state;
    try_mistakes(mistakes, sizeof mistakes / sizeof *mistakes, 10, prepare_mistake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rings_run_and_need_every_line),
        cmocka_unit_test(text_and_passes_keep_them),
        cmocka_unit_test(mistakes_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
