/* How fast host code is: product tiles of several shapes, and functions of vectors. `tile_bench [ARCH]`, on one core; numbers that
 * decided something are in docs/dev/performance-notes.md. */
#include "target.h"
#include "tile_kernel.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

typedef void (*Kernel)(const uint64_t *slots, uint32_t x, uint32_t y, uint32_t z);

typedef struct Built {
    Kernel run;
    double ms; /* to compile and link */
} Built;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static Built build(AuArena *arena, AuKernel *k, const AuArch *arch)
{
    static const unsigned char bytes[8] = {0};
    const AuImageFix fix = {0, k->name, 0};
    const AuImage image = {bytes, sizeof bytes, &fix, 1};
    AuDiags *diags = au_diags_new(arena);
    AuBlob objects[2], library;
    const double start = now();
    if (!kernel_verify(k, diags) ||
        !au_target_cpu.emit(arena, diags, &k, 1, arch, AU_CODE_FINAL, 2, &objects[0]) ||
        !au_image_object(arena, diags, &image, "aule_module_v1", arch, &objects[1]) ||
        !au_link_shared(arena, diags, objects, 2, "aule_module_v1", arch, &library)) {
        AuText text = {.arena = arena};
        au_diags_render(diags, &text);
        fprintf(stderr, "%s", au_text_str(&text));
        exit(1);
    }
    const double ms = 1e3 * (now() - start);
    const int file = memfd_create("bench", 0);
    if (write(file, library.bytes, library.length) < 0) exit(1);
    void *handle = dlopen(au_format(arena, "/proc/self/fd/%d", file), RTLD_NOW);
    const Kernel *kernel = handle ? dlsym(handle, "aule_module_v1") : NULL;
    if (!kernel) exit(1);
    return (Built){*kernel, ms};
}

/* The shortest of many runs, in seconds. */
static double best(Kernel run, const uint64_t *slots)
{
    double least = 1e9;
    for (int n = 0; n < 12; n++) {
        const double start = now();
        run(slots, 0, 0, 0);
        const double took = now() - start;
        if (took < least) least = took;
    }
    return least;
}

static void *zeroed(size_t bytes)
{
    void *memory = aligned_alloc(64, bytes);
    if (!memory) exit(1);
    return memset(memory, 0, bytes);
}

static void time_tile(const AuArch *arch, const TileShape *shape)
{
    enum { OFTEN = 3000 };
    AuArena *arena = au_arena_new(NULL);
    const Built built = build(arena, tile_kernel(arena, shape), arch);
    void *buffers[3];
    for (int n = 0; n < 3; n++) buffers[n] = zeroed(TILE * 256 * sizeof(float));
    const uint64_t slots[4] = {(uintptr_t)buffers[0], (uintptr_t)buffers[1], (uintptr_t)buffers[2],
                               OFTEN};
    const double rows = TILE / shape->rows * shape->rows;
    const double flops = 2 * rows * TILE * shape->depth * OFTEN;
    printf("%-15s %2u x %u%-5s d %3u  %6.1f GFLOP/s, compiled in %.0f ms\n", arch->name,
           shape->rows, shape->vectors, shape->dot ? " dot2" : "", shape->depth,
           1e-9 * flops / best(built.run, slots), built.ms);
    for (int n = 0; n < 3; n++) free(buffers[n]);
    au_arena_free(arena);
}

/* o[n] = op(a[n]) over an array that the first cache holds. */
static void time_function(const AuArch *arch, AuKOp op, uint32_t lanes)
{
    enum { COUNT = 2048, OFTEN = 2000 };
    AuArena *arena = au_arena_new(NULL);
    AuKernel *k = kernel_new(arena, "function", lanes, 1);
    const AuVal none = {0}, zero = kernel_i32(k, 0);
    const AuMem a = kernel_tensor(k, "a", AU_F32, true, false, 0, 0),
                o = kernel_tensor(k, "o", AU_F32, false, true, 0, 0);
    kernel_for(k, zero, kernel_i32(k, OFTEN), 1, AU_UNROLL_NEVER);
    AuVal n = kernel_for(k, zero, kernel_i32(k, COUNT), (int32_t)(2 * lanes), AU_UNROLL_NEVER);
    AuVal u =
        kernel_for(k, zero, kernel_i32(k, (int32_t)(2 * lanes)), (int32_t)lanes, AU_UNROLL_FULL);
    AuVal at = kernel_op2(k, AU_K_ADD, kernel_op2(k, AU_K_ADD, n, u), kernel_lane(k));
    AuVal x = kernel_load(k, a, at, 1, none, none);
    AuVal y = kernel_op_info(op)->count == 1 ? kernel_op1(k, op, x) : kernel_op2(k, op, x, x);
    kernel_store(k, o, at, y, none);
    for (int depth = 0; depth < 3; depth++) kernel_end(k);
    kernel_legalize_math(k, au_target_cpu.native_math);
    const Built built = build(arena, k, arch);
    void *buffers[2] = {zeroed(COUNT * sizeof(float)), zeroed(COUNT * sizeof(float))};
    const uint64_t slots[2] = {(uintptr_t)buffers[0], (uintptr_t)buffers[1]};
    const double seconds = best(built.run, slots);
    printf("%-15s %-8s %5.2f ns a vector of %u, %.2f G elements/s\n", arch->name,
           kernel_op_info(op)->text, 1e9 * seconds * lanes / (COUNT * (double)OFTEN), lanes,
           1e-9 * COUNT * (double)OFTEN / seconds);
    free(buffers[0]);
    free(buffers[1]);
    au_arena_free(arena);
}

int main(int count, char **arguments)
{
    static const uint32_t shapes[][2] = {{4, 2}, {6, 2}, {8, 2}, {12, 2}, {14, 2}, {3, 4},
                                         {4, 4}, {5, 4}, {6, 4}, {7, 4},  {12, 1}, {24, 1}};
    for (uint32_t n = 0; n < au_target_cpu.arch_count; n++) {
        const AuArch *arch = &au_target_cpu.archs[n];
        const bool wanted =
            count > 1 ? !strcmp(arguments[1], arch->name) : !strncmp(arch->name, "x86", 3);
        if (!wanted) continue;
        const bool dot = strstr(arch->features, "bf16") != NULL;
        const uint32_t lanes = strcmp(arch->caps, "avx2") == 0   ? 8
                               : strcmp(arch->caps, "neon") == 0 ? 4
                                                                 : 16;
        for (uint32_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            const TileShape shape = {lanes, shapes[s][0], shapes[s][1], 4, 64, dot};
            time_tile(arch, &shape);
        }
        for (AuKOp op = AU_K_RSQRT; op <= AU_K_COS && !dot; op++) time_function(arch, op, lanes);
    }
    return 0;
}
