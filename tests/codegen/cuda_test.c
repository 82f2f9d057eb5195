/* The target cuda: its PTX of small kernels, what it needs proofs for, what it refuses; and cases for a GPU machine of what only
 * GPUs have (host.h). */
#include "host.h"
#include "matrix_kernel.h"

#include <math.h>

static const AuArch *arch_named(const char *name)
{
    for (uint32_t n = 0; n < au_target_cuda.arch_count; n++)
        if (strcmp(au_target_cuda.archs[n].name, name) == 0) return &au_target_cuda.archs[n];
    return NULL;
}

/* The code of a kernel, or NULL with what is wrong in [said]. */
static const char *ptx_of(AuArena *arena, AuKernel *k, const char *arch, const char **said)
{
    AuDiags *diags = au_diags_new(arena);
    AuBlob code;
    AuText text = {.arena = arena};
    kernel_legalize_math(k, au_target_cuda.native_math);
    const bool good =
        kernel_verify(k, diags) &&
        au_target_cuda.emit(arena, diags, &k, 1, arch_named(arch), AU_CODE_FINAL, 2, &code);
    au_diags_render(diags, &text);
    *said = au_text_str(&text);
    return good ? code.bytes : NULL;
}

static AuKernel *read_kernel(AuArena *arena, const char *text)
{
    AuDiags *diags = au_diags_new(arena);
    AuKernel *k = kernel_read(arena, au_names_new(arena), diags,
                              au_source_add(diags, "test", text, strlen(text)));
    assert_non_null(k);
    return k;
}

/* ---- text */

static void small_kernels_as_ptx(void **state)
{
    static const struct {
        const char *arch;
        AuMatrix which;
        bool by_rows;
    } rows[] = {{"sm_75", AU_MATRIX_M16N8K8_F16, true}, {"sm_80", AU_MATRIX_M16N8K16_BF16, false}};
    (void)state;
    for (size_t n = 0; n < 2; n++) {
        AuArena *arena = au_arena_new(NULL);
        const char *said, *name = kernel_matrix(rows[n].which).text;
        AuKernel *k = matrix_kernel(arena, rows[n].which, rows[n].by_rows);
        kernel_simplify(k);
        const char *ptx = ptx_of(arena, k, rows[n].arch, &said);
        if (n == 0) { /* there are no asynchronous copies before sm_80 */
            assert_null(ptx);
            assert_non_null(strstr(said, "asynchronous copies need sm_80"));
            au_arena_free(arena);
            continue;
        }
        if (!ptx) fail_msg("%s", said);
        const char *path = au_format(arena, "%s/%s-%s.ptx", AU_GOLDEN, name, rows[n].arch);
        if (getenv("AU_UPDATE")) {
            FILE *file = fopen(path, "wb");
            if (!file || fputs(ptx, file) < 0 || fclose(file)) fail_msg("%s", path);
        }
        static char golden[1 << 16];
        FILE *file = fopen(path, "rb");
        if (!file) fail_msg("%s cannot be read", path);
        golden[fread(golden, 1, sizeof golden - 1, file)] = 0;
        fclose(file);
        assert_string_equal(ptx, golden);
        au_arena_free(arena);
    }
}

/* What must be in the code of a kernel, and what must not. */
typedef struct Claim {
    const char *name, *arch, *kernel, *has, *lacks, *said;
} Claim;

#define HEAD(warps, more)                                                                          \
    "kernel k lanes 32 warps " warps "\nmemory @a: global f32 " more " reads\n"                    \
    "memory @o: global f32 align 16 reads writes\n"                                                \
    "memory @l: lane f32[8]\nmemory @s: shared f32[64]\nmemory @big: shared f32[20000]\n"          \
    "arg a: pointer @a\narg o: pointer @o\narg n: i32\n{\n%1 = lane.i32\n%2 = mul.i32 %1, 4\n"
#define SMALL(more)                                                                                \
    "kernel k lanes 32 warps 2\nmemory @a: global f32 " more " reads\n"                            \
    "memory @o: global f32 align 16 reads writes\nmemory @l: lane f32[8]\n"                        \
    "memory @s: shared f32[64] swizzle 128\nmemory @t: shared f32[64] align 128\n"                 \
    "arg a: pointer @a\narg o: pointer @o\narg n: i32\n{\n%1 = lane.i32\n%2 = mul.i32 %1, 4\n"     \
    "%3 = arg.i32 #2\n%4 = warp.i32\n"
#define BOX                                                                                        \
    "kernel k lanes 32 warps 2\nmemory @b: global f32 reads writes\nmemory @t: shared f32[256] "   \
    "align 1024 swizzle 128\nmemory @m: shared i64[1]\narg b: pointer @b\nmap B: @b box 32 8 "     \
    "swizzle 128\n{\n%1 = block.i32 #0\n%2 = mul.i32 %1, 256\n%3 = elect.i1\n"
#define GROUP                                                                                      \
    "kernel k lanes 32 warps 4 group 4\nmemory @s: shared bf16[4096] align 1024 swizzle 128\n"     \
    "memory @c: lane f32[32]\nmemory @o: global f32 writes\narg o: pointer @o\n{\n%1 = lane.i32\n"
#define LEAVE                                                                                      \
    "for %20 = 0 to 32 step 1 {\n%21 = load.f32 @c[%20]\n%22 = add.i32 %1, %20\nstore @o[%22], "   \
    "%21\n}\n}\n"
#define FOUR "%9 = const.f32x4 1.0\n"

/* clang-format off */
static const Claim claims[] = {
    {"aligned by stride and base", "sm_70", SMALL("align 16") "%10 = load.f32x4 @a[%2]\nstore @o[%2], %10\n}\n", "ld.global.nc.v4.b32", "ld.global.b32", ""},
    {"nothing is known of the base", "sm_70", SMALL("") "%10 = load.f32x4 @a[%2]\nstore @o[%2], %10\n}\n", "ld.global.nc.b32", "ld.global.nc.v4", ""},
    {"nothing is known of the index", "sm_70", SMALL("align 16") "%10 = load.f32x4 @a[%3]\nstore @o[%2], %10\n}\n", "st.global.v4.b32", "ld.global.nc.v4", ""},
    {"a stride made even", "sm_70", SMALL("align 16") "%10 = shr.i32 %3, 1\n%11 = shl.i32 %10, 1\n%12 = mul.i32 %1, %11\n%13 = load.f32x2 @a[%12]\nstore @o[%2], %13\n}\n", "ld.global.nc.v2.b32", "", ""},
    {"tensors that are written are not constant", "sm_80", SMALL("") "%10 = load.f32 @o[%1]\nstore @o[%2], %10\n}\n", "ld.global.b32", "ld.global.nc", ""},
    {"constants end up in the address", "sm_80", SMALL("") "%10 = add.i32 %3, 5\n%11 = mul.i32 %10, 8\n%12 = load.f32 @a[%11]\n%13 = mul.i32 %3, 8\n%14 = load.f32 @a[%13]\n%15 = add.f32 %12, %14\nstore @o[%1], %15\n}\n", "+160]", "", ""},
    {"vectors are added at once", "sm_90", SMALL("") FOUR "atomic_add @o[%2], %9\n}\n", "red.relaxed.gpu.global.add.v4.f32", "atom.", ""},
    {"vectors are added one by one", "sm_80", SMALL("") FOUR "atomic_add @o[%2], %9\n}\n", "add.f32", "v4.f32", ""},
    {"a block of executors", "sm_80", SMALL("") "barrier #0\nbarrier #1\n}\n", ".reqntid 64", "", ""},
    {"a counter releases and acquires", "sm_70", "kernel k lanes 32 warps 1\nmemory @n: global i32 reads writes\narg n: pointer @n\n{\n%1 = lane.i32\n%2 = eq.i32 %1, 0\n%3 = atomic_inc.i32 @n[0] if %2\nstore @n[%1], %3\n}\n", "fence.acq_rel.gpu", "", ""},
    {"the barrier of a block", "sm_80", SMALL("") "barrier #0\n}\n", "bar.sync", "bar.warp.sync", ""},
    {"one executor waits for itself", "sm_80", HEAD("1", "") "store @s[%1], 1.0\nbarrier #0\n}\n", "bar.warp.sync", "bar.sync", ""},
    {"much shared memory comes with the launch", "sm_80", HEAD("1", "") "store @big[%1], 1.0\nbarrier #0\n}\n", ".extern .shared .align 128 .b8 shared_memory[]", "", ""},
    {"loops over arrays are written out", "sm_80", SMALL("") "for %10 = 0 to 8 step 1 unroll never {\n%11 = load.f32 @a[%10]\nstore @l[%10], %11\n}\n%12 = load.f32 @l[7]\nstore @o[%1], %12\n}\n", "+28]", ".local", ""},
    {"a loop ends whose last step leaves 32 bits", "sm_80", SMALL("") "for %10 = 0 to %3 step 2 unroll never {\nstore @o[%10], 1.0\n}\n}\n", "setp.gt.u32", "", ""},
    {"arrays beyond all registers keep their loops", "sm_80", "kernel k lanes 32 warps 1\nmemory @a: global f32 reads\nmemory @o: global f32 writes\nmemory @l: lane f32[2000]\narg a: pointer @a\narg o: pointer @o\n{\n%1 = lane.i32\n"
        "for %2 = 0 to 2000 step 1 unroll never {\n%3 = load.f32 @a[%2]\nstore @l[%2], %3\n}\n%4 = load.f32 @l[7]\nstore @o[%1], %4\n}\n", ".local", "+7996]", "N0801"},
    {"arrays in local memory are said", "sm_80", SMALL("") "store @l[0], 1.0\n%10 = load.f32 @l[%3]\nstore @o[%1], %10\n}\n", ".local", "", "N0801"},
    {"pairs are rounded at once", "sm_80", "kernel k lanes 32 warps 1\nmemory @a: global f32 reads\nmemory @o: global bf16 align 16 writes\narg a: pointer @a\narg o: pointer @o\n{\n%1 = lane.i32\n%2 = mul.i32 %1, 2\n"
        "%3 = load.f32x2 @a[%2]\n%4 = cvt.bf16x2 %3\nstore @o[%2], %4\n}\n", "cvt.rn.bf16x2.f32", "cvt.rn.bf16.f32", ""},
    {"exp is one function of the hardware", "sm_70", SMALL("") "%10 = load.f32 @a[%1]\n%11 = exp.f32 %10\nstore @o[%1], %11\n}\n", "ex2.approx.ftz.f32", "call", ""},
    {"masked loads are predicated", "sm_80", SMALL("align 16") "%10 = lt.i32 %1, %3\n%11 = load.f32x4 @a[%2] if %10\nstore @o[%2], %11\n}\n", "ld.global.nc.v4.b32", "bra", ""},
    {"masked stores are predicated", "sm_80", SMALL("") "%10 = lt.i32 %1, %3\nstore @o[%2], 1.0 if %10\n}\n", "st.global.b32", "bra", ""},
    {"masked sums are predicated", "sm_80", SMALL("") "%10 = lt.i32 %1, %3\natomic_add @o[%1], 1.0 if %10\n}\n", "red.relaxed.gpu.global.add.f32", "bra", ""},
    {"masked stores are as narrow as they must", "sm_80", SMALL("") "%10 = lt.i32 %1, %3\n%11 = const.f32x4 1.0\nstore @o[%3], %11 if %10\n}\n", "st.global.b32", "st.global.v4", ""},
    {"a tile is read again by the next product", "sm_80", SMALL("") "%10 = load.f32 @s[%1]\nstore @o[%1], %10\nnote \"next\"\n%11 = load.f32 @s[%1]\nstore @o[%2], %11\n}\n", "bar.warp.sync", "", ""},
    {"the constant of an index comes last", "sm_80", SMALL("") "for %10 = 0 to %3 step 1 unroll never {\n%11 = add.i32 %2, 7\n%12 = add.i32 %10, %11\n%13 = cvt.f32 %12\nstore @o[%10], %13\n}\n}\n", ", 7;", "", ""},
    {"quad pairs multiply", "sm_70", "kernel k lanes 32 warps 1\nmemory @a: global f16 align 16 reads\nmemory @o: global f32 align 16 writes\narg a: pointer @a\narg o: pointer @o\n{\n%1 = lane.i32\n%2 = mul.i32 %1, 8\n"
        "%3 = load.f16x4 @a[%2]\n%4 = const.f32x8 0.0\n%5 = mma.f32x8 %4, %3, %3 #m8n8k4_f16_col_row\nstore @o[%2], %5\n}\n", "mma.sync.aligned.m8n8k4.col.row.f32.f16.f16.f32", "", ""},
    {"matrices of a later GPU", "sm_70", SMALL("") "%10 = load_matrix.f32 @s[%2] #1\nstore @o[%1], %10\n}\n", NULL, NULL, "ldmatrix needs sm_75"},
    {"matrices to memory", "sm_90", "kernel k lanes 32 warps 1\nmemory @a: global bf16 align 16 reads\nmemory @s: shared bf16[256] swizzle 128\narg a: pointer @a\n{\n%1 = lane.i32\n%2 = mul.i32 %1, 8\n%3 = load.bf16x8 @a[%2]\n"
        "store_matrix @s[%2], %3 #12\n}\n", "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16", "st.shared", ""},
    {"matrices to memory of a later GPU", "sm_89", "kernel k lanes 32 warps 1\nmemory @s: shared f16[256] align 16\n{\n%1 = lane.i32\n%2 = mul.i32 %1, 8\n%3 = const.f16x2 1.0\nstore_matrix @s[%2], %3 #1\n}\n", NULL, NULL, "stmatrix needs sm_90"},
    {"barriers in memory", "sm_90", "kernel k lanes 32 warps 1\nmemory @m: shared i64[1]\n{\n%1 = elect.i1\nmbar_init @m[0], 1 if %1\n}\n", "mbarrier.init.shared::cta.b64", "bra", ""},
    {"barriers in memory of a later GPU", "sm_80", "kernel k lanes 32 warps 1\n{\n%1 = elect.i1\n}\n", NULL, NULL, "needs sm_90: elect"},
    {"fences of units", "sm_90", SMALL("") "fence_proxy\n}\n", "fence.proxy.async.shared::cta;", "minnctapersm", ""},
    {"fences of units that share tensors with lanes", "sm_90", SMALL("") "%10 = elect.i1\nstore @o[%2], 1.0\nfence_proxy\nbarrier #0\nbulk_store @o[0], @t[0], 16 if %10\n}\n", "fence.proxy.async;", "", ""},
    {"named barriers", "sm_80", SMALL("") "sync 3 #64\narrive %4 #64\n}\n", "bar.arrive", "", ""},
    {"products of a group", "sm_90", "kernel k lanes 32 warps 4 group 4\n{\nwgmma_fence\n}\n", NULL, NULL, "products of groups need sm_90a"},
    {"registers that change hands", "sm_90", "kernel k lanes 32 warps 4 group 4\n{\nregisters #40\n}\n", NULL, NULL, "registers that change hands need sm_90a"},
    {"registers of few lanes", "sm_90a", "kernel k lanes 32 warps 8 group 4\n{\nregisters #240\n}\n", "setmaxnreg.dec.sync.aligned.u32", ".inc.", ""},
    {"registers of many lanes", "sm_90a", "kernel k lanes 32 warps 12 group 4\n{\nregisters #240\n}\n", ".minnctapersm 1", ".dec.", ""},
    {"a box is one instruction", "sm_90", BOX "tma_load @t[%2], @b[%1, 3], @m[0] if %3 #B\n}\n", "@%p1 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes", "bra", ""},
    {"a map is a parameter", "sm_90", BOX "tma_store @b[0, 3], @t[0] if %3 #B\n}\n", ".param .align 64 .b8 k_param_1[128]", "", ""},
    {"a chain of products is one piece", "sm_90a", GROUP "wgmma_fence\nfor %10 = 0 to 64 step 16 unroll full {\nwgmma @c[0], @s[%10], @s[%10], true, 64, 0, 0 #wgmma_bf16_row_col\n}\nwgmma_commit\nwgmma_wait @c #0\n" LEAVE, "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16", "call", ""},
    {"matrices without elements", "sm_90", "kernel k lanes 32 warps 1\nmemory @c: matrix f32[1] shape 16 16 c\n{\nmatrix_fill @c[0], 0.0\n}\n", NULL, NULL, "no generator has yet: matrix_fill"},
};
/* clang-format on */

static void claims_hold(void **state)
{
    (void)state;
    for (size_t n = 0; n < sizeof claims / sizeof *claims; n++) {
        const Claim *c = &claims[n];
        AuArena *arena = au_arena_new(NULL);
        const char *said, *ptx = ptx_of(arena, read_kernel(arena, c->kernel), c->arch, &said);
        if (!ptx != !c->has) fail_msg("%s: %s", c->name, said);
        if (!strstr(said, c->said) || (!*c->said && *said)) fail_msg("%s: %s", c->name, said);
        if (ptx && !strstr(ptx, c->has)) fail_msg("%s: no %s in\n%s", c->name, c->has, ptx);
        if (ptx && *c->lacks && strstr(ptx, c->lacks))
            fail_msg("%s: %s in\n%s", c->name, c->lacks, ptx);
        au_arena_free(arena);
    }
}

static void other_blocks_are_refused(void **state)
{
    (void)state;
    AuArena *arena = au_arena_new(NULL);
    const char *said;
    assert_null(
        ptx_of(arena, read_kernel(arena, "kernel k lanes 16 warps 1\n{\n}\n"), "sm_80", &said));
    assert_non_null(strstr(said, "device code of kernel 'k'"));
    au_arena_free(arena);
}

/* ---- cases */

static AuVal none(void) { return (AuVal){0}; }

/* Products of NVIDIA's instructions that load_matrix feeds, through copies. */
static void add_product(Host *host, AuMatrix which, bool by_rows)
{
    const AuMatrixOp info = kernel_matrix(which);
    const AuMatrixOp *op = &info;
    const AuScalar scalar = (AuScalar)op->types[AU_MATRIX_A].scalar;
    const uint32_t counts[3] = {(uint32_t)op->atom->m * (uint32_t)op->atom->k,
                                (uint32_t)op->atom->n * (uint32_t)op->atom->k,
                                (uint32_t)op->atom->m * (uint32_t)op->atom->n};
    if (strncmp(op->text, "m16n8", 5) != 0 || (by_rows && scalar == AU_F32))
        return; /* of quad pairs: see claims; the other vendors' */
    Case *c = host_case(host, "%s, b by %s", op->text, by_rows ? "rows" : "columns");
    const char *name = c->k->name;
    c->k = matrix_kernel(host->arena, which, by_rows);
    c->k->name = name;
    for (uint32_t a = 0; a < 3; a++) {
        const AuScalar of = a == 2 ? AU_F32 : scalar;
        c->bytes[a] = counts[a] * kernel_scalar_bytes(of);
        c->buffers[a] = (AuKBuffer){au_alloc(host->arena, c->bytes[a]), counts[a], true};
        for (uint32_t n = 0; n < counts[a]; n++) { /* sums are exact in any order */
            const float x = (float)(int32_t)(host_random(host, 65) - 32) / 8;
            if (of == AU_F32)
                ((float *)c->buffers[a].data)[n] = x;
            else
                ((uint16_t *)c->buffers[a].data)[n] =
                    of == AU_F16 ? kernel_to_f16(x) : kernel_to_bf16(x);
        }
    }
    c->slots[3] = by_rows ? 12 : 4;
}

/* Functions, within their bounds of docs/dev/kernel-ir.md 7. */
static void add_function(Host *host, AuKOp op, float ulps, float low, float high)
{
    enum { BLOCKS = 128 };
    Case *c =
        host_case(host, "%s from %g to %g", kernel_op_info(op)->text, (double)low, (double)high);
    const uint32_t count = BLOCKS * 32;
    c->grid[0] = BLOCKS;
    c->ulps = ulps;
    const AuMem a = case_tensor(host, c, "a", AU_F32, count, true, false);
    float *data = case_data(c, a);
    for (uint32_t n = 0; n < count; n++)
        data[n] = low + (high - low) * ((float)host_random(host, 1 << 24) * 0x1p-24f);
    const float edges[] = {0, 1, -1, INFINITY, -INFINITY, NAN, 2, -2, 10, -10};
    for (uint32_t n = 0; n < 10; n++)
        if (!(edges[n] < low)) data[n] = edges[n];
    const AuMem o = case_tensor(host, c, "o", AU_F32, count, false, true);
    AuVal x = kernel_load(c->k, a, case_place(c), 1, none(), none());
    kernel_store(c->k, o, case_place(c), kernel_op1(c->k, op, x), none());
}

/* Executors that pass values through shared memory, ordered by the barrier of the block; places swizzled. */
static void add_block(Host *host, uint32_t swizzle, uint32_t warps)
{
    Case *c = host_case(host, "shared memory of %u executors, swizzle %u", warps, swizzle);
    AuKernel *k = c->k;
    const uint32_t count = warps * 32 * 4;
    k->warps = warps;
    c->grid[0] = 3;
    const AuMem a = case_tensor(host, c, "a", AU_F32, 3 * count, true, false);
    const AuMem o = case_tensor(host, c, "o", AU_F32, 3 * count, false, true);
    const AuMem s = kernel_memory(
        k,
        (AuMemory){
            .name = "s", .space = AU_SHARED, .scalar = AU_F32, .count = count, .swizzle = swizzle});
#define OP(op, x, y) kernel_op2(k, AU_K_##op, x, y)
    AuVal thread = OP(ADD, OP(MUL, kernel_warp(k), kernel_i32(k, 32)), kernel_lane(k));
    AuVal own = OP(MUL, thread, kernel_i32(k, 4));
    AuVal base = OP(MUL, kernel_block(k, 0), kernel_i32(k, (int32_t)count));
    kernel_store(k, s, own, kernel_load(k, a, OP(ADD, base, own), 4, none(), none()), none());
    kernel_barrier(k, 0);
    for (int32_t n = 0; n < 4; n++) { /* reads a column of the others */
        AuVal from = OP(AND, OP(ADD, OP(MUL, thread, kernel_i32(k, 33)), kernel_i32(k, 77 * n)),
                        kernel_i32(k, (int32_t)count - 1));
        AuVal v = kernel_load(k, s, from, 1, none(), none());
        kernel_store(k, o, OP(ADD, base, OP(ADD, own, kernel_i32(k, n))), v, none());
    }
#undef OP
}

/* The last block to come adds what all have left. */
static void add_last_block(Host *host)
{
    enum { BLOCKS = 64 };
    Case *c = host_case(host, "the last block");
    AuKernel *k = c->k;
    c->grid[0] = BLOCKS;
    const AuMem parts = case_tensor(host, c, "parts", AU_F32, BLOCKS, true, true);
    const AuMem counter = case_tensor(host, c, "counter", AU_I32, 1, true, true);
    const AuMem o = case_tensor(host, c, "o", AU_F32, 1, true, true);
    memset(case_data(c, counter), 0, 4);
    memset(case_data(c, parts), 0, 4 * BLOCKS);
    memset(case_data(c, o), 0, 4);
    const AuMem sum =
        kernel_memory(k, (AuMemory){.name = "sum", .space = AU_LANE, .scalar = AU_F32, .count = 1});
    AuVal zero = kernel_i32(k, 0), first = kernel_op2(k, AU_K_EQ, kernel_lane(k), zero);
    kernel_store(k, parts, kernel_block(k, 0), kernel_cvt(k, kernel_block(k, 0), AU_F32), first);
    kernel_barrier(k, 0);
    AuVal taken[2] = {zero, first};
    AuVal n = kernel_emit(k, (AuInstr){.op = AU_K_ATOMIC_INC, .type = {AU_I32, 1}, .mem = counter},
                          taken, 2);
    AuVal of_first[2] = {n, zero};
    n = kernel_emit(k, (AuInstr){.op = AU_K_SHUFFLE, .type = {AU_I32, 1}}, of_first, 2);
    kernel_if(k, kernel_op2(k, AU_K_EQ, n, kernel_i32(k, BLOCKS - 1)));
    kernel_store(k, sum, zero, kernel_f32(k, 0), none());
    AuVal i = kernel_for(k, zero, kernel_i32(k, BLOCKS), 1, AU_UNROLL_NEVER);
    kernel_store(k, sum, zero,
                 kernel_op2(k, AU_K_ADD, kernel_load(k, sum, zero, 1, none(), none()),
                            kernel_load(k, parts, i, 1, none(), none())),
                 none());
    kernel_end(k);
    kernel_store(k, o, zero, kernel_load(k, sum, zero, 1, none(), none()), first);
    kernel_end(k);
}

static void add_vector_sums(Host *host, uint32_t width)
{
    Case *c = host_case(host, "sums of vectors [%u]", width);
    AuKernel *k = c->k;
    c->grid[0] = 7;
    const uint32_t count = 8 * width;
    const AuMem o = case_tensor(host, c, "o", AU_F32, count, true, true);
    c->k->mems[o.i].align = 16;
    memset(case_data(c, o), 0, 4 * count);
    AuVal parts[4];
    for (int32_t n = 0; n < 4; n++)
        parts[n] = kernel_cvt(k, kernel_op2(k, AU_K_ADD, case_place(c), kernel_i32(k, n)), AU_F32);
    AuVal place = kernel_op2(k, AU_K_MUL, kernel_op2(k, AU_K_AND, case_place(c), kernel_i32(k, 7)),
                             kernel_i32(k, (int32_t)width));
    AuVal operands[2] = {place, width == 1 ? parts[0] : kernel_vec(k, parts, width)};
    kernel_emit(k, (AuInstr){.op = AU_K_ATOMIC_ADD, .mem = o}, operands, 2);
}

static void fill_cases(Host *host)
{
    for (uint32_t n = 0; n < 2 * AU_MATRICES; n++) add_product(host, (AuMatrix)(n / 2), n % 2);
    for (uint32_t n = 0; n < 4; n++) add_block(host, n ? 16u << n : 0, 1u << n);
    for (uint32_t width = 1; width <= 4; width *= 2) add_vector_sums(host, width);
    add_last_block(host);
    add_function(host, AU_K_EXP, 3, -87, 88);
    add_function(host, AU_K_EXP, 3, -1, 1);
    add_function(host, AU_K_EXP2, 2, -126, 127);
    add_function(host, AU_K_EXP2, 2, -1, 1);
    add_function(host, AU_K_RSQRT, 2, 1e-30f, 10);
    add_function(host, AU_K_RSQRT, 2, 1, 1e30f);
    static const struct {
        AuKOp op;
        float ulps, low, high;
    } expanded[] = {
        {AU_K_LOG, 2, 1e-3f, 3},     {AU_K_LOG2, 2, 1e-30f, 1e30f}, {AU_K_TANH, 4, -9, 9},
        {AU_K_TANH, 4, -1, 1},       {AU_K_SIGMOID, 4, -20, 20},    {AU_K_SIGMOID, 4, -1, 1},
        {AU_K_SOFTPLUS, 4, -20, 20}, {AU_K_ERF, 4, -4, 4},          {AU_K_SIN, 4, -100, 100},
        {AU_K_COS, 4, -100, 100},    {AU_K_EXPM1, 4, -10, 10},      {AU_K_LOG1P, 4, -0.9f, 10}};
    for (size_t n = 0; n < sizeof expanded / sizeof *expanded; n++)
        add_function(host, expanded[n].op, expanded[n].ulps, expanded[n].low, expanded[n].high);
    for (uint32_t n = 0; n < host->count; n++)
        kernel_legalize_math(host->cases[n]->k, host->target->native_math);
}

static void cases_for(const char *arch)
{
    Host *host = host_new(arch);
    if (!host) skip();
    fill_cases(host);
    host_run(host);
    host_free(host);
}

static void cases_sm_80(void **state) { (void)state, cases_for("sm_80"); }
static void cases_sm_90(void **state) { (void)state, cases_for("sm_90"); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_kernels_as_ptx),
        cmocka_unit_test(claims_hold),
        cmocka_unit_test(other_blocks_are_refused),
        cmocka_unit_test(cases_sm_80),
        cmocka_unit_test(cases_sm_90),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
