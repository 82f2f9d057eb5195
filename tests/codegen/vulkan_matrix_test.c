/* Kernels whose lanes are a subgroup, and cooperative matrices: the tiled example of KHR's matrices, lowered, as SPIR-V, on the first Vulkan device
 * against the interpreter of the kernel IR. Skipped where the device cannot promise subgroups of 8 lanes and 8x8x8 matrices (Mesa's device
 * for processors from 26.1 on has them, tests/tools/vulkan-device.sh). With the name of a folder as argument the modules are written
 * there, for the validator. */
#include <string.h>

#include "data.h"
#include "emit.h"
#include "lowered.h"
#include "vulkan_device.h"

static VulkanDevice device;
static bool is_open;
static const char *folder;

/* The example is for subgroups of 32 lanes and matrices of 16; here a row lies in two lanes, too. */
static const char *text_of_8(AuArena *arena, const char *text)
{
    static const char *const words[][2] = {
        {"target vulkan", "target vulkan8"},
        {"M = 64, N = 32, D = 64, E = 64", "M = 32, N = 16, D = 24, E = 16"},
        {"rows(lane:16@1) cols(reg:16 lane:2@16)", "rows(reg:2 lane:4@1) cols(reg:8 lane:2@4)"},
        {"self * 8 +: 8", "self * 4 +: 4"},
        {"self * 16", "self * 8"},
        {"+: 16", "+: 8"},
        {"q:16", "q:8"},
        {"coop16", "coop8"},
    };
    for (size_t n = 0; n < sizeof words / sizeof *words; n++)
        text = replaced(arena, text, words[n][0], words[n][1]);
    return text;
}

typedef struct Trial {
    const char *name, *features;
    bool runs;
    const SpvFlavour *flavour; /* NULL: that of KHR's matrices */
} Trial;

static SpvWords module_of(Session *s, const Trial *t, const AuKernel *k)
{
    const SpvFlavour *flavour = t->flavour ? t->flavour : &spirv_shader_subgroups;
    SpvWords words = {0};
    AuText text = {.arena = s->arena};
    kernel_print(k, &text); /* the emitter changes what it gets */
    const uint32_t source = au_source_add(s->diags, "kernel", au_text_str(&text), text.length);
    AuKernel *own = kernel_read(s->arena, au_names_new(s->arena), s->diags, source);
    if (!own || !spirv_kernels(s->arena, s->diags, flavour, &own, 1, &words))
        fail_msg("%s", session_errors(s));
    return words;
}

static void write_module(Session *s, const Trial *t, const AuKernel *k, SpvWords words)
{
    if (!folder) return;
    FILE *file = fopen(au_format(s->arena, "%s/%s-%s.spv", folder, t->name, k->name), "wb");
    if (!file || fwrite(words.at, 4, words.count, file) != words.count || fclose(file))
        fail_msg("a module cannot be written to %s", folder);
}

/* Sums of matrices may be in any order, and weights are rounded to f16 between two products. */
static void compare(const AuKernel *k, const AuMemory *m, const void *want, const void *have,
                    uint64_t count)
{
    const float within = m->scalar == AU_F16 ? 0x1p-9f : 0x1p-12f;
    for (uint64_t n = 0; n < count; n++)
        if (!test_same(want, have, m->scalar, n, 0, within))
            fail_msg("%s: element %u of %s is %g, expected %g", k->name, (unsigned)n, m->name,
                     (double)test_float(have, m->scalar, n),
                     (double)test_float(want, m->scalar, n));
}

static void on_device(Session *s, const Trial *t, const AuKernel *k, const AuKRun *run)
{
    const SpvWords words = module_of(s, t, k);
    const VulkanCode code = {.module = words.at,
                             .bytes = (size_t)words.count * 4,
                             .entry = k->name,
                             .threads = k->lanes * k->warps,
                             .slots = k->arg_count,
                             .features = t->features};
    uint64_t *slots = AU_NEW_ARRAY(s->arena, uint64_t, k->arg_count + 1);
    void **before = AU_NEW_ARRAY(s->arena, void *, k->arg_count + 1);
    uint64_t *bytes = AU_NEW_ARRAY(s->arena, uint64_t, k->arg_count + 1);
    const char *why;
    write_module(s, t, k, words);
    if (!t->runs) return;
    for (uint32_t n = 0; n < k->arg_count; n++) {
        slots[n] = run->slots[n];
        if (k->args[n].kind != AU_ARG_POINTER) continue;
        bytes[n] = run->buffers[n].count * kernel_scalar_bytes(k->mems[k->args[n].mem.i].scalar);
        before[n] = au_alloc(s->arena, bytes[n]);
        memcpy(before[n], run->buffers[n].data, bytes[n]);
        slots[n] = vulkan_buffer(&device, before[n], bytes[n]);
        if (!slots[n]) fail_msg("%s", device.error);
    }
    if (!kernel_run(k, run, s->arena, &why)) fail_msg("%s: interpreter: %s", k->name, why);
    if (!vulkan_run(&device, &code, slots, run->grid)) fail_msg("%s: %s", k->name, device.error);
    for (uint32_t n = 0; n < k->arg_count; n++) {
        if (k->args[n].kind != AU_ARG_POINTER) continue;
        const AuMemory *m = &k->mems[k->args[n].mem.i];
        if (!vulkan_read(&device, slots[n], before[n], bytes[n])) fail_msg("%s", device.error);
        if (m->writes) compare(k, m, run->buffers[n].data, before[n], run->buffers[n].count);
        vulkan_free(&device, slots[n]);
    }
}

typedef struct Visit {
    Session *s;
    const Trial *t;
} Visit;

static void visit(const AuKernel *k, const AuKRun *run, void *user)
{
    const Visit *v = user;
    on_device(v->s, v->t, k, run);
}

static void forward(const Trial *t, bool of_8, int32_t heads, int32_t rows, int32_t keys)
{
    static const char file[] = "coopmat_forward.tile";
    const Size sizes[] = {{"B", 1}, {"H", heads}, {"Hk", 1}, {"S", rows}, {"T", keys}, {NULL, 0}};
    Session s = session_begin();
    const char *text = example_text(s.arena, file);
    const Lowered lowered = {.file = file,
                             .text = of_8 ? text_of_8(s.arena, text) : text,
                             .hooks = {"common.hooks", "causal_softmax.hooks"},
                             .sizes = sizes};
    Visit v = {&s, t};
    lowered_visit(&s, &lowered, visit, &v);
    session_end(&s);
}

static void matrices_of_8(void **state)
{
    (void)state;
    static const char needs[] = "lanes8 coopmat8x8x8_f16";
    const bool runs = is_open && vulkan_has(&device, needs);
    forward(&(Trial){"coop8", needs, runs, NULL}, true, 2, 70, 101);
    if (runs) {
        forward(&(Trial){"coop8", needs, runs, NULL}, true, 1, 1, 1);
        forward(&(Trial){"coop8", needs, runs, NULL}, true, 1, 33, 7);
    } else {
        print_message("no Vulkan device with %s: %s\n", needs, device.error);
        skip();
    }
}

/* Functions of an element: what they take of the kernel, of memory and of other matrices; reductions by each operation, sums that become
 * operands, a branch that matrices decide, vectors that stay words by way of an array of the lane. */
static const char places[] =
    "kernel places lanes 8 warps 2\n"
    "memory @a: global f16 align 16 reads\nmemory @b: global f32 reads\n"
    "memory @o: global f32 writes\nmemory @h: global f16 align 16 writes\n"
    "memory @s: shared f16[128]\nmemory @l: lane f16[8]\n"
    "memory @x: matrix f16[2] shape 8 8 a\nmemory @y: matrix f16[1] shape 8 8 b\n"
    "memory @c: matrix f32[5] shape 8 8 c\n"
    "arg a: pointer @a\narg b: pointer @b\narg o: pointer @o\narg h: pointer @h\narg f: f32\n{\n"
    "  %1 = lane.i32\n  %2 = warp.i32\n  %3 = block.i32 #0\n  %4 = arg.f32 #4\n"
    "  %5 = mul.i32 %2, 64\n  %6 = mul.i32 %1, 8\n  %7 = add.i32 %5, %6\n"
    "  %8 = mul.i32 %3, 128\n  %9 = add.i32 %7, %8\n"
    "  %10 = load.f16x8 @a[%9]\n"
    "  %11 = element.f16 %10 #0\n  store @l[0], %11\n  %12 = element.f16 %10 #1\n  store @l[1], "
    "%12\n"
    "  %13 = element.f16 %10 #2\n  store @l[2], %13\n  %14 = element.f16 %10 #3\n  store @l[3], "
    "%14\n"
    "  %15 = element.f16 %10 #4\n  store @l[4], %15\n  %16 = element.f16 %10 #5\n  store @l[5], "
    "%16\n"
    "  %17 = element.f16 %10 #6\n  store @l[6], %17\n  %18 = element.f16 %10 #7\n  store @l[7], "
    "%18\n"
    "  %19 = eq.i32 %3, 1\n"
    "  if %19 {\n    store @l[3], %14\n    %20 = load.f16 @l[6]\n    store @l[4], %20\n  }\n"
    "  %21 = load.f16 @l[0]\n  %22 = load.f16 @l[1]\n  %23 = load.f16 @l[2]\n  %24 = load.f16 "
    "@l[3]\n"
    "  %25 = load.f16 @l[4]\n  %26 = load.f16 @l[5]\n  %27 = load.f16 @l[6]\n  %28 = load.f16 "
    "@l[7]\n"
    "  %29 = vec.f16x8 %21, %22, %23, %24, %25, %26, %27, %28\n"
    "  store @s[%7], %29\n  store @h[%9], %29\n  barrier #0\n"
    "  matrix_load @x[0], @s[%5], 8 #0\n  matrix_load @y[0], @s[%5], 8 #1\n"
    "  matrix_fill @c[0], 0.0\n  matrix_mul @c[0], @x[0], @y[0]\n"
    "  matrix_reduce @c[1], @c[0] #max\n  matrix_reduce @c[2], @c[0] #add\n"
    "  matrix_reduce @c[3], @c[0] #maxnan\n"
    "  %30 = cvt.f32 %2\n"
    "  matrix_each @c[4] {\n"
    "    %40 = matrix_row.i32\n    %41 = matrix_column.i32\n    %42 = matrix_get.f32 @c[0]\n"
    "    %43 = matrix_get.f32 @c[1]\n    %44 = matrix_get.f32 @c[2]\n    %45 = matrix_get.f32 "
    "@c[3]\n"
    "    %46 = sub.f32 %43, %42\n    %47 = mul.f32 %46, %4\n    %48 = add.f32 %47, %30\n"
    "    %49 = load.f32 @b[%41]\n    %50 = add.f32 %48, %49\n    %51 = add.f32 %44, %45\n"
    "    %52 = le.i32 %41, %40\n    %53 = select.f32 %52, %50, %51\n    %54 = mul.f32 %53, 0.125\n"
    "    matrix_put %54\n  }\n"
    "  %31 = matrix_any.i1 @c[4]\n"
    "  if %31 {\n    matrix_cvt @x[1], @c[4]\n  } else {\n    matrix_cvt @x[1], @c[0]\n  }\n"
    "  matrix_fill @c[0], 1.0\n  matrix_mul @c[0], @x[1], @y[0]\n"
    "  %32 = add.i32 %5, %8\n"
    "  matrix_each @c[0] {\n"
    "    %60 = matrix_row.i32\n    %61 = matrix_column.i32\n    %62 = matrix_get.f32 @c[0]\n"
    "    %63 = mul.i32 %60, 8\n    %64 = add.i32 %63, %61\n    %65 = add.i32 %64, %32\n"
    "    %66 = lt.i32 %60, 8\n    store @o[%65], %62 if %66\n  }\n"
    "}\n";

/* Components, whose places are told by matrices of numbers: weights become f16 where they lie, and an operand by way of shared memory. */
static const char components[] =
    "kernel components lanes 8 warps 2\n"
    "memory @a: global f16 align 16 reads\nmemory @b: global f32 reads\n"
    "memory @o: global f32 writes\nmemory @h: global f16 align 16 writes\n"
    "memory @s: shared f16[128] align 64 reads writes\n"
    "memory @numbers: shared f32[8] align 64 reads writes\n"
    "memory @rows: matrix f32[1] shape 8 8 c\nmemory @columns: matrix f32[1] shape 8 8 c\n"
    "memory @x: matrix f16[2] shape 8 8 a\nmemory @y: matrix f16[1] shape 8 8 b\n"
    "memory @c: matrix f32[2] shape 8 8 c\nmemory @w: matrix f16[1] shape 8 8 c\n"
    "arg a: pointer @a\narg b: pointer @b\narg o: pointer @o\narg h: pointer @h\narg f: f32\n{\n"
    "  %1 = lane.i32\n  %2 = warp.i32\n  %3 = block.i32 #0\n  %4 = arg.f32 #4\n"
    "  %5 = mul.i32 %2, 64\n  %6 = mul.i32 %1, 8\n  %7 = add.i32 %5, %6\n"
    "  %8 = mul.i32 %3, 128\n  %9 = add.i32 %7, %8\n  %10 = add.i32 %5, %8\n"
    "  %11 = load.f16x8 @a[%9]\n  store @s[%7], %11\n  store @h[%9], %11\n"
    "  %12 = cvt.f32 %1\n  %13 = eq.i32 %2, 0\n  store @numbers[%1], %12 if %13\n  barrier #0\n"
    "  matrix_load @rows[0], @numbers[0], 0 #1\n  matrix_load @columns[0], @numbers[0], 0 #0\n"
    "  matrix_load @x[0], @s[%5], 8 #0\n  matrix_load @y[0], @s[%5], 8 #1\n"
    "  matrix_fill @c[0], 0.0\n  matrix_mul @c[0], @x[0], @y[0]\n"
    "  %14 = load.f32 @b[3]\n"
    "  matrix_each @c[1] {\n"
    "    %40 = matrix_get.f32 @rows[0]\n    %41 = matrix_get.f32 @columns[0]\n"
    "    %42 = matrix_get.f32 @c[0]\n    %43 = mul.f32 %42, %4\n    %44 = add.f32 %43, %14\n"
    "    %45 = le.f32 %41, %40\n    %46 = select.f32 %45, %44, %41\n"
    "    %47 = mul.f32 %46, 0.125\n    matrix_put %47\n  }\n"
    "  matrix_cvt @w[0], @c[1]\n  barrier #0\n  matrix_store @s[%5], @w[0], 8 #0\n  barrier #0\n"
    "  matrix_load @x[1], @s[%5], 8 #0\n"
    "  matrix_fill @c[0], 1.0\n  matrix_mul @c[0], @x[1], @y[0]\n"
    "  matrix_store @o[%10], @c[0], 8 #0\n"
    "}\n";

/* As sums that become bf16 do: each component is stored where it lies. */
static const char scattered[] =
    "kernel scattered lanes 8 warps 2\n"
    "memory @a: global f16 align 16 reads\nmemory @b: global f32 reads\n"
    "memory @o: global f32 writes\nmemory @h: global f16 align 16 writes\n"
    "memory @s: shared f16[128] align 64 reads writes\n"
    "memory @numbers: shared f32[8] align 64 reads writes\n"
    "memory @rows: matrix f32[1] shape 8 8 c\nmemory @columns: matrix f32[1] shape 8 8 c\n"
    "memory @x: matrix f16[2] shape 8 8 a\nmemory @y: matrix f16[1] shape 8 8 b\n"
    "memory @c: matrix f32[2] shape 8 8 c\n\n"
    "arg a: pointer @a\narg b: pointer @b\narg o: pointer @o\narg h: pointer @h\narg f: f32\n{\n"
    "  %1 = lane.i32\n  %2 = warp.i32\n  %3 = block.i32 #0\n  %4 = arg.f32 #4\n"
    "  %5 = mul.i32 %2, 64\n  %6 = mul.i32 %1, 8\n  %7 = add.i32 %5, %6\n"
    "  %8 = mul.i32 %3, 128\n  %9 = add.i32 %7, %8\n  %10 = add.i32 %5, %8\n"
    "  %11 = load.f16x8 @a[%9]\n  store @s[%7], %11\n  store @h[%9], %11\n"
    "  %12 = cvt.f32 %1\n  %13 = eq.i32 %2, 0\n  store @numbers[%1], %12 if %13\n  barrier #0\n"
    "  matrix_load @rows[0], @numbers[0], 0 #1\n  matrix_load @columns[0], @numbers[0], 0 #0\n"
    "  matrix_load @x[0], @s[%5], 8 #0\n  matrix_load @y[0], @s[%5], 8 #1\n"
    "  matrix_fill @c[0], 0.0\n  matrix_mul @c[0], @x[0], @y[0]\n"
    "  %14 = load.f32 @b[3]\n"
    "  matrix_each @c[1] {\n"
    "    %40 = matrix_get.f32 @rows[0]\n    %41 = matrix_get.f32 @columns[0]\n"
    "    %42 = matrix_get.f32 @c[0]\n    %43 = mul.f32 %42, %4\n    %44 = add.f32 %43, %14\n"
    "    %45 = le.f32 %41, %40\n    %46 = select.f32 %45, %44, %41\n"
    "    %47 = mul.f32 %46, 0.125\n    matrix_put %47\n  }\n"
    "  barrier #0\n"
    "  matrix_each @c[1] {\n"
    "    %60 = matrix_get.f32 @rows[0]\n    %61 = matrix_get.f32 @columns[0]\n"
    "    %62 = matrix_get.f32 @c[1]\n    %63 = mul.f32 %60, 8.0\n    %64 = add.f32 %63, %61\n"
    "    %65 = cvt.i32 %64\n    %66 = add.i32 %65, %5\n    %67 = cvt.f16 %62\n"
    "    store @s[%66], %67\n  }\n  barrier #0\n"
    "  matrix_load @x[1], @s[%5], 8 #0\n"
    "  matrix_fill @c[0], 1.0\n  matrix_mul @c[0], @x[1], @y[0]\n"
    "  matrix_store @o[%10], @c[0], 8 #0\n"
    "}\n";

/* The text on numbers of few bits, so that products and sums are exact; the factor is a parameter. */
static void emit_and_run(const Trial *t, const char *name, const char *text)
{
    enum { N = 256 };
    static uint16_t a[N], h[N];
    static float b[8], o[N];
    AuKBuffer buffers[5] = {{a, N, true}, {b, 8, true}, {o, N, false}, {h, N, false}};
    uint64_t slots[5] = {0};
    const float factor = -0.5f;
    Session s = session_begin();
    for (uint32_t n = 0; n < N; n++)
        a[n] = kernel_to_f16((float)((int32_t)(n * 37 % 64) - 32) / 16);
    for (uint32_t n = 0; n < 8; n++) b[n] = (float)n / 4;
    memcpy(&slots[4], &factor, sizeof factor);
    const uint32_t source = au_source_add(s.diags, name, text, strlen(text));
    AuKernel *k = kernel_read(s.arena, au_names_new(s.arena), s.diags, source);
    if (!k || !kernel_verify(k, s.diags)) fail_msg("%s", session_errors(&s));
    const AuKRun run = {.buffers = buffers, .slots = slots, .grid = {2, 1, 1}};
    on_device(&s, t, k, &run);
    session_end(&s);
}

static void of_elements(const Trial *t, const char *name, const char *text)
{
    emit_and_run(t, name, text);
    if (!t->runs) skip();
}

/* Shared memory that vectors, single elements and matrices read and write: as words of four, as single words (rows 10 apart), and as elements (9 apart, or
 * nothing but single elements stored). */
static const char widths[] =
    "kernel widths lanes 8 warps 2\n"
    "memory @a: global f16 align 16 reads\nmemory @b: global f32 reads\n"
    "memory @o: global f32 writes\nmemory @h: global f16 align 16 writes\n"
    "memory @s: shared f16[128] align 64 reads writes\nmemory @t: shared f16[160] align 64 reads "
    "writes\n"
    "memory @u: shared f16[160] align 64 reads writes\nmemory @w: shared f16[128] align 64 reads "
    "writes\n"
    "memory @x: matrix f16[1] shape 8 8 a\nmemory @y: matrix f16[3] shape 8 8 b\n"
    "memory @c: matrix f32[1] shape 8 8 c\n"
    "arg a: pointer @a\narg b: pointer @b\narg o: pointer @o\narg h: pointer @h\narg f: f32\n{\n"
    "  %1 = lane.i32\n  %2 = warp.i32\n  %3 = block.i32 #0\n"
    "  %5 = mul.i32 %2, 64\n  %6 = mul.i32 %1, 8\n  %7 = add.i32 %5, %6\n"
    "  %8 = mul.i32 %3, 128\n  %9 = add.i32 %7, %8\n"
    "  %10 = load.f16x8 @a[%9]\n  store @s[%7], %10\n"
    "  %11 = mul.i32 %2, 80\n  %12 = mul.i32 %1, 10\n  %13 = add.i32 %11, %12\n"
    "  %14 = element.f16 %10 #0\n  %15 = element.f16 %10 #1\n  %16 = element.f16 %10 #2\n"
    "  %17 = element.f16 %10 #3\n  %18 = element.f16 %10 #4\n  %19 = element.f16 %10 #5\n"
    "  %20 = element.f16 %10 #6\n  %21 = element.f16 %10 #7\n"
    "  %22 = vec.f16x2 %14, %15\n  store @t[%13], %22\n"
    "  %23 = vec.f16x2 %16, %17\n  %24 = add.i32 %13, 2\n  store @t[%24], %23\n"
    "  %25 = vec.f16x2 %18, %19\n  %26 = add.i32 %13, 4\n  store @t[%26], %25\n"
    "  %27 = vec.f16x2 %20, %21\n  %28 = add.i32 %13, 6\n  store @t[%28], %27\n"
    "  %29 = mul.i32 %2, 72\n  %30 = mul.i32 %1, 9\n  %31 = add.i32 %29, %30\n"
    "  store @u[%31], %10\n"
    "  store @w[%7], %14\n  %32 = add.i32 %7, 1\n  store @w[%32], %15\n"
    "  barrier #0\n"
    "  %33 = mul.i32 %1, 9\n  %34 = add.i32 %5, %33\n  %35 = load.f16 @w[%7]\n"
    "  store @s[%34], %35\n"
    "  %36 = mul.i32 %1, 11\n  %37 = add.i32 %11, %36\n  %38 = lt.i32 %1, 7\n"
    "  store @t[%37], %35 if %38\n"
    "  barrier #0\n"
    "  matrix_load @x[0], @s[%5], 8 #0\n  matrix_load @y[0], @s[%5], 8 #1\n"
    "  matrix_load @y[1], @t[%11], 10 #1\n  matrix_load @y[2], @u[%29], 9 #0\n"
    "  matrix_fill @c[0], 0.0\n  matrix_mul @c[0], @x[0], @y[0]\n"
    "  matrix_mul @c[0], @x[0], @y[1]\n  matrix_mul @c[0], @x[0], @y[2]\n"
    "  %39 = add.i32 %5, %8\n  matrix_store @o[%39], @c[0], 8 #0\n"
    "  %40 = add.i32 %34, 0\n  %41 = load.f16 @s[%40]\n  %42 = add.i32 %13, 1\n"
    "  %43 = load.f16 @t[%42]\n  %44 = load.f16x8 @s[%7]\n  store @h[%9], %44\n"
    "  %45 = add.i32 %9, 1\n  barrier #0\n  store @h[%9], %43\n  store @h[%45], %41\n"
    "}\n";

/* Matrices straight from a tensor, cut at each of its borders, by rows and by columns; of any surface: steps, and one row that repeats. */
static const char surfaces[] =
    "kernel surfaces lanes 8 warps 2\n"
    "memory @a: global f16 align 16 reads\nmemory @b: global f32 reads\n"
    "memory @o: global f32 writes\nmemory @h: global f16 align 16 writes\n"
    "memory @x: matrix f16[2] shape 8 8 a\nmemory @y: matrix f16[2] shape 8 8 b\n"
    "memory @c: matrix f32[2] shape 8 8 c\n"
    "arg a: pointer @a\narg b: pointer @b\narg o: pointer @o\narg h: pointer @h\narg f: f32\n{\n"
    "  %1 = lane.i32\n  %2 = warp.i32\n  %3 = block.i32 #0\n"
    "  %4 = mul.i32 %3, 2\n  %5 = add.i32 %4, %2\n  %6 = mul.i32 %5, 64\n"
    "  %7 = mul.i32 %1, 8\n  %8 = add.i32 %6, %7\n"
    "  %9 = load.f16x8 @a[%8]\n  store @h[%8], %9\n"
    "  %10 = mul.i32 %5, 4\n  %11 = sub.i32 %10, 3\n  %12 = mul.i32 %5, 3\n  %13 = sub.i32 5, %12\n"
    "  matrix_block_load @x[0], @a[0], 13, 15, 16, %11, %13 #0\n"
    "  matrix_block_load @y[0], @a[8], 11, 14, 17, %13, %11 #1\n"
    "  matrix_block_gather @x[1], @a[3], 5, 7, 31l, 3l, %13, %11 #0\n"
    "  matrix_block_gather @y[1], @a[5], 9, 12, 0l, 2l, %11, %13 #1\n"
    "  matrix_fill @c[0], 0.0\n  matrix_mul @c[0], @x[0], @y[0]\n"
    "  matrix_fill @c[1], 1.0\n  matrix_mul @c[1], @x[1], @y[1]\n"
    "  matrix_map @c[0], @c[0], @c[1] #sub\n"
    "  matrix_store @o[%6], @c[0], 8 #0\n"
    "}\n";

static void matrices_of_tensors(void **state)
{
    (void)state;
    static const char needs[] = "lanes8 coopmat8x8x8_f16 nv2";
    const Trial t = {"surfaces", needs, is_open && vulkan_has(&device, needs),
                     &spirv_shader_places};
    of_elements(&t, "surfaces", surfaces);
}

/* By the instruction, where a device has it; else it is emitted, for the validator. */
static void matrices_of_tensors_by_the_unit(void **state)
{
    (void)state;
    static const char needs[] = "lanes8 coopmat8x8x8_f16 nv2 tensors";
    const Trial t = {"tensors", needs, is_open && vulkan_has(&device, needs),
                     &spirv_shader_tensors};
    emit_and_run(&t, "surfaces", surfaces);
}

static void words_in_shared_memory(void **state)
{
    (void)state;
    static const char needs[] = "lanes8 coopmat8x8x8_f16";
    const Trial t = {"words", needs, is_open && vulkan_has(&device, needs), &spirv_shader_words};
    of_elements(&t, "widths", widths);
}

static void shared_memory_laid_out(void **state)
{
    (void)state;
    static const char needs[] = "lanes8 coopmat8x8x8_f16 layout16";
    const Trial t = {"layout", needs, is_open && vulkan_has(&device, needs),
                     &spirv_shader_laid_out};
    of_elements(&t, "widths", widths);
}

static void functions_of_an_element(void **state)
{
    (void)state;
    static const char needs[] = "lanes8 coopmat8x8x8_f16 nv2";
    const Trial t = {"places", needs, is_open && vulkan_has(&device, needs), &spirv_shader_places};
    of_elements(&t, "places", places);
}

/* Before the first of them the loader tries where components lie (vulkan_positions.c). */
static void loops_over_components(void **state)
{
    (void)state;
    static const char needs[] = "lanes8 coopmat8x8x8_f16 positions";
    const Trial t = {"components", needs, is_open && vulkan_has(&device, needs),
                     &spirv_shader_components};
    of_elements(&t, "components", components);
}

static void components_that_are_stored(void **state)
{
    (void)state;
    static const char needs[] = "lanes8 coopmat8x8x8_f16 positions";
    const Trial t = {"components", needs, is_open && vulkan_has(&device, needs),
                     &spirv_shader_components};
    of_elements(&t, "scattered", scattered);
}

/* As devices have them; here they are emitted, for the validator. */
static void matrices_of_16(void **state)
{
    (void)state;
    forward(&(Trial){"coop16", "lanes32 coopmat16x16x16_f16", false, NULL}, false, 1, 70, 37);
}

int main(int argc, char **argv)
{
    if (argc > 1) folder = argv[1];
    is_open = vulkan_open(&device);
    const struct CMUnitTest tests[] = {cmocka_unit_test(matrices_of_8),
                                       cmocka_unit_test(matrices_of_16),
                                       cmocka_unit_test(functions_of_an_element),
                                       cmocka_unit_test(matrices_of_tensors),
                                       cmocka_unit_test(matrices_of_tensors_by_the_unit),
                                       cmocka_unit_test(loops_over_components),
                                       cmocka_unit_test(components_that_are_stored),
                                       cmocka_unit_test(words_in_shared_memory),
                                       cmocka_unit_test(shared_memory_laid_out)};
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    if (is_open) vulkan_close(&device);
    return failed;
}
