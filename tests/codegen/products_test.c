/* Products of groups that would end one before the next: kernel_verify_products refuses small kernels of each kind, and where ptxas is
 * found it says of most of them what it does to them (C7512 to C7519), and nothing of those that are not refused. What is refused and has
 * no code of ptxas is wrong by the rules of the IR, or right in such small kernels alone. */
#include "host.h"

#define HEAD                                                                                       \
    "memory @s: shared bf16[16384] align 1024 swizzle 128\nmemory @a: lane bf16[8]\n"              \
    "memory @i: global bf16 align 16 reads\nmemory @o: global f32 writes\narg i: pointer @i\n"     \
    "arg o: pointer @o\narg n: i32\n{\n%1 = lane.i32\n%2 = arg.i32 #2\n%3 = mul.i32 %1, 16\n"
#define SMALL                                                                                      \
    "kernel k lanes 32 warps 4 group 4\nmemory @c: lane f32[32]\nmemory @d: lane f32[32]\n" HEAD
#define SUMS(c, add)                                                                               \
    "wgmma @" #c "[0], @s[0], @s[4096], " add ", 64, 0, 0 #wgmma_bf16_row_col\n"                   \
    "wgmma @" #c "[0], @s[16], @s[4112], true, 64, 0, 0 #wgmma_bf16_row_col\n"
#define START(c) "wgmma_fence\n" SUMS(c, "false") "wgmma_commit\n"
#define ADD(c)   "wgmma_fence\n" SUMS(c, "true") "wgmma_commit\n"
#define START_OF_LANES(c)                                                                          \
    "wgmma_fence\nwgmma @" #c "[0], @a[0], @s[4096], true, 64, 0, 0 #wgmma_bf16_row_row\n"         \
    "wgmma_commit\n"
#define WAIT(what, number) "wgmma_wait " what " #" #number "\n"
/* Numbers of values are used once, so each use of these has its own. */
#define EACH(n, columns, body) "for %" #n " = 0 to " #columns " step 1 unroll full {\n" body "}\n"
#define SCALE(c, n)                                                                                \
    EACH(n##0, 32,                                                                                 \
         "%" #n "1 = load.f32 @" #c "[%" #n "0]\n%" #n "2 = mul.f32 %" #n "1, 3.0\n"               \
         "store @" #c "[%" #n "0], %" #n "2\n")
#define ZERO(c, n) EACH(n##0, 32, "store @" #c "[%" #n "0], 0.0\n")
#define LEAVE(c, n)                                                                                \
    EACH(n##0, 32,                                                                                 \
         "%" #n "1 = load.f32 @" #c "[%" #n "0]\n%" #n "2 = add.i32 %3, %" #n "0\n"                \
         "store @o[%" #n "2], %" #n "1\n")
#define LANES_FROM_MEMORY "%5 = load.bf16x8 @i[%3]\nstore @a[0], %5\n"
#define LANES_FROM(c, n)                                                                           \
    "%" #n "0 = load.f32x8 @" #c "[0]\n%" #n "1 = cvt.bf16x8 %" #n "0\nstore @a[0], %" #n "1\n"
#define SWAP                                                                                       \
    EACH(80, 32,                                                                                   \
         "%81 = load.f32 @c[%80]\n%82 = load.f32 @d[%80]\nstore @c[%80], %82\n"                    \
         "store @d[%80], %81\n")
#define TURNS(body)     "for %4 = 0 to %2 step 1 unroll never {\n" body "}\n"
#define SOMETIMES(body) "%7 = lt.i32 5, %2\nif %7 {\n" body "}\n"
#define END             "}\n"

typedef struct Kind {
    const char *name, *kernel;
    const char *refused;   /* "": it is right */
    const char *assembler; /* its code; "": it says nothing */
} Kind;

/* clang-format off */
static const Kind kinds[] = {
    {"one after the other", SMALL START(c) START(d) WAIT("@c", 1) SCALE(c, 1) WAIT("@d", 0) LEAVE(c, 2) LEAVE(d, 3) END, "", ""},
    {"a loop at rest", SMALL LANES_FROM_MEMORY ZERO(c, 1) TURNS(START(d) START_OF_LANES(c) WAIT("@d", 1) SCALE(d, 2) WAIT("@c, @a", 0) LANES_FROM(d, 3) SCALE(c, 4)) LEAVE(c, 5) END, "", ""},
    {"a branch beside products", SMALL START(c) START(d) WAIT("@c", 1) SOMETIMES(SCALE(c, 1)) WAIT("@d", 0) LEAVE(c, 2) LEAVE(d, 3) END, "", ""},
    {"all in a branch", SMALL SOMETIMES(START(c) WAIT("@c", 0) LEAVE(c, 1)) END, "", ""},
    {"sums are read", SMALL START(c) LEAVE(c, 1) WAIT("@c", 0) END, "= load.f32 @c[%4]': a product in flight adds to @c", "C7517"},
    {"sums are read behind the wait for others", SMALL START(c) START(d) WAIT("@c", 1) LEAVE(d, 1) WAIT("@d", 0) LEAVE(c, 2) END, "a product in flight adds to @d", "C7514"},
    {"sums are scaled", SMALL ZERO(c, 1) TURNS(START(d) ADD(c) WAIT("@d", 1) SCALE(d, 2) SCALE(c, 3) WAIT("@c", 0)) LEAVE(c, 4) END, "a product in flight adds to @c", "C7514"},
    {"sums are written", SMALL START(c) ZERO(c, 1) WAIT("@c", 0) LEAVE(c, 2) END, "a product in flight adds to @c", ""},
    {"sums are touched in a branch", SMALL START(c) START(d) WAIT("@c", 1) SOMETIMES(SCALE(d, 1)) WAIT("@d", 0) LEAVE(c, 2) LEAVE(d, 3) END, "a product in flight adds to @d", "C7514"},
    {"operands are written", SMALL LANES_FROM_MEMORY ZERO(c, 1) TURNS(START(d) START_OF_LANES(c) WAIT("@d", 1) LANES_FROM(d, 2) WAIT("@c, @a", 0)) LEAVE(c, 3) END, "a product in flight reads @a", "C7513"},
    {"sums are scaled beside another product", SMALL ZERO(c, 1) TURNS(START(d) SCALE(c, 2) ADD(c) WAIT("@d", 1) SCALE(d, 3) WAIT("@c", 0)) LEAVE(c, 4) END, "lanes wrote @c beside a product that is still in flight", "C7517"},
    {"registers without a fence", SMALL ZERO(c, 1) SUMS(c, "true") "wgmma_commit\n" WAIT("@c", 0) LEAVE(c, 2) END, "lanes have used @c since the last wgmma_fence", "C7519"},
    {"over a back edge", SMALL ZERO(c, 1) ZERO(d, 2) START(c) TURNS(WAIT("@c", 0) EACH(60, 32, "%61 = load.f32 @c[%60]\nstore @d[%60], %61\n") START(c) SCALE(d, 3)) WAIT("@c", 0) LEAVE(c, 4) LEAVE(d, 5) END, "a turn ends with a product in flight that began in it", "C7517"},
    {"sums that change places", SMALL ZERO(c, 1) ZERO(d, 2) TURNS(ADD(c) ADD(d) WAIT("@c, @d", 0) SWAP) LEAVE(c, 3) LEAVE(d, 4) END, "sums of @d become those of @c", "C7517"},
    {"a product of before the loop", SMALL START(c) TURNS(WAIT("@c", 0) SCALE(c, 1)) WAIT("@c", 0) LEAVE(c, 2) END, "a turn waits for a product that began before the loop", ""},
    {"started on one way", SMALL ZERO(c, 1) ZERO(d, 2) TURNS(ADD(c) SOMETIMES(ADD(d)) WAIT("@c", 1) SCALE(c, 3) WAIT("@d", 0)) LEAVE(c, 4) LEAVE(d, 5) END, "its two ways end with other products in flight", "C7514"},
    {"waited for on one way", SMALL ZERO(c, 1) TURNS(START(d) ADD(c) SOMETIMES(WAIT("@d", 1) SCALE(d, 2)) WAIT("@c, @d", 0) SCALE(c, 3)) LEAVE(c, 4) LEAVE(d, 5) END, "its two ways end with other products in flight", "C7514"},
    {"never waited for", SMALL START(c) END, "nobody waits for it", "C7517"},
    {"never committed", SMALL "wgmma_fence\n" SUMS(c, "false") WAIT("@c", 0) LEAVE(c, 1) END, "products behind the last wgmma_commit are not waited for", ""},
};
/* clang-format on */

/* Two chains of sums of so many columns, in lanes that have so many registers; 0: what they begin with. */
static const char *of_registers(AuArena *arena, int registers, int columns)
{
    const int each = columns / 2;
    const char *asks = registers ? au_format(arena, "registers #%d\n", registers) : "";
    return au_format(
        arena,
        "kernel k lanes 32 warps 12 group 4\nmemory @c: lane f32[%d]\nmemory @d: lane "
        "f32[%d]\n%s"
        "%%4 = warp.i32\n%%5 = idiv.i32 %%4, 4\n%%6 = eq.i32 %%5, 0\nif %%6 {\n%s} else {\n%s"
        "for %%10 = 0 to %d step 1 unroll full {\nstore @c[%%10], 0.0\n}\n"
        "for %%20 = 0 to %%2 step 1 unroll never {\nwgmma_fence\n"
        "wgmma @d[0], @s[0], @s[4096], false, %d, 0, 0 #wgmma_bf16_row_col\nwgmma_commit\n"
        "wgmma_fence\nwgmma @c[0], @s[0], @s[8192], true, %d, 0, 0 #wgmma_bf16_row_col\n"
        "wgmma_commit\nwgmma_wait @d #1\n"
        "for %%30 = 0 to %d step 1 unroll full {\n%%31 = load.f32 @d[%%30]\n"
        "%%32 = exp2.f32 %%31\nstore @d[%%30], %%32\n}\nwgmma_wait @c #0\n"
        "for %%40 = 0 to %d step 1 unroll full {\n%%41 = load.f32 @c[%%40]\n"
        "%%42 = load.f32 @d[%%40]\n%%43 = fma.f32 %%41, 0.5, %%42\nstore @c[%%40], %%43\n}\n}\n"
        "for %%50 = 0 to %d step 1 unroll full {\n%%51 = load.f32 @c[%%50]\n"
        "%%52 = add.i32 %%3, %%50\nstore @o[%%52], %%51\n}\n}\n}\n",
        each, each, HEAD, registers ? "registers #24\n" : "", asks, each, columns, columns, each,
        each, each);
}

static const AuArch *hopper(void)
{
    for (uint32_t n = 0; n < au_target_cuda.arch_count; n++)
        if (strcmp(au_target_cuda.archs[n].name, "sm_90a") == 0) return &au_target_cuda.archs[n];
    return NULL;
}

static void check(const Kind *kind)
{
    enum { REGISTERS = 65536 };
    AuArena *arena = au_arena_new(NULL);
    AuDiags *diags = au_diags_new(arena), *emission = au_diags_new(arena);
    AuText text = {.arena = arena}, listing = {.arena = arena};
    AuBlob code;
    AuKernel *k = kernel_read(arena, au_names_new(arena), diags,
                              au_source_add(diags, "test", kind->kernel, strlen(kind->kernel)));
    const bool read = k && kernel_verify(k, diags),
               good = read && kernel_verify_products(k, REGISTERS, diags);
    au_diags_render(diags, &text);
    if (!read || good != !*kind->refused || !strstr(au_text_str(&text), kind->refused))
        fail_msg("%s: %s", kind->name, au_text_str(&text));
    if (!good && !strstr(au_text_str(&text), "error E0809")) fail_msg("%s: no E0809", kind->name);
    if (*PTXAS) {
        assert_true(au_target_cuda.emit(arena, emission, &k, 1, hopper(), AU_CODE_FINAL, 2, &code));
        assert_int_equal(device_assemble(arena, hopper(), &code, &listing), 0);
        const char *said = au_text_str(&listing), *any = strstr(said, "(C75");
        if (*kind->assembler ? !strstr(said, kind->assembler) : any != NULL)
            fail_msg("%s: ptxas says %s", kind->name, said);
    }
    au_arena_free(arena);
}

static void kinds_are_refused(void **state)
{
    (void)state;
    for (size_t n = 0; n < sizeof kinds / sizeof *kinds; n++) check(&kinds[n]);
}

/* To the register: what two products in flight may hold is what the assembler lets them. */
static void registers_are_counted(void **state)
{
    (void)state;
    static const struct {
        int registers, columns;
        const char *refused, *assembler;
    } cases[] = {{0, 128, "", ""},
                 {0, 144, "hold 144 registers beside 24 others, where a lane has 168", "C7512"},
                 {240, 208, "", ""},
                 {240, 216, "hold 216 registers beside 24 others, where a lane has 240", "C7512"}};
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        AuArena *arena = au_arena_new(NULL);
        check(&(Kind){
            au_format(arena, "%d columns in %d registers", cases[n].columns, cases[n].registers),
            of_registers(arena, cases[n].registers, cases[n].columns), cases[n].refused,
            cases[n].assembler});
        au_arena_free(arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(kinds_are_refused),
                                       cmocka_unit_test(registers_are_counted)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
