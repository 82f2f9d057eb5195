/* What goes on by itself on a GPU of sm_90a, and executors that go different ways: cases for a GPU machine (host.h), assembled here,
 * where ptxas must not make products wait for each other. */
#include "host.h"
#include "group_kernel.h"

static AuKernel *read_kernel(Host *host, const char *text)
{
    AuKernel *k = kernel_read(host->arena, au_names_new(host->arena), host->diags,
                              au_source_add(host->diags, "case", text, strlen(text)));
    host_check(host, k != NULL);
    return k;
}

static void *give(Host *host, Case *c, uint32_t argument, uint64_t count, uint32_t bytes)
{
    c->bytes[argument] = count * bytes;
    c->buffers[argument] = (AuKBuffer){au_alloc(host->arena, count * bytes + 1), count, true};
    memset(c->buffers[argument].data, 0, count * bytes);
    return c->buffers[argument].data;
}

/* ---- products of groups */

static void add_product(Host *host, GroupCase g)
{
    const AuGroupOp op = kernel_group_matrix(g.row);
    Case *c = host_case(host, "%s, %d columns, swizzle %d%s", op.text, g.columns, g.swizzle,
                        g.in_lanes ? ", A in registers" : "");
    uint32_t sizes[2], steps[2], strides[2];
    uint16_t *x = give(host, c, 0, GROUP_MOST, 2), *y = give(host, c, 1, GROUP_MOST, 2);
    give(host, c, 2, 64 * (uint32_t)g.columns, 4);
    sizes[0] = group_lay_out(&g, false, x, &steps[0], &strides[0]);
    sizes[1] = group_lay_out(&g, true, y, &steps[1], &strides[1]);
    if (g.in_lanes) group_lay_out_lanes(op.scalar, x);
    case_kernel(c, read_kernel(host, group_text(host->arena, &g, sizes, steps, strides)));
}

/* No generator has sums in tensor memory. */
static void products(void **state)
{
    (void)state;
    static const int32_t columns[] = {8, 40, 128, 256};
    Host *host = host_new("sm_90a");
    if (!host) skip();
    for (uint32_t row = 0; row < AU_GROUP_MATRICES; row++)
        for (uint32_t n = 0; n < 4 && !kernel_group_matrix((AuGroupMatrix)row).atom->tensor; n++)
            for (int32_t swizzle = 32; swizzle <= 128; swizzle *= 2) {
                GroupCase g = {(AuGroupMatrix)row, columns[n], swizzle, false};
                add_product(host, g);
                g.in_lanes = !kernel_group_matrix(g.row).a_turned;
                if (g.in_lanes) add_product(host, g);
            }
    host_run(host);
    host_free(host);
}

/* ---- boxes of tensors */

typedef struct Box {
    const char *type, *more; /* of the map behind its box */
    AuScalar scalar;
    uint32_t rank, swizzle;
} Box;

enum { ROW = 40, OTHER = 5 }; /* extents of the tensor: of rows, of all other axes */

/* A block brings the box at (8, -1, ..), writes each element as it lies, and sends it off at (0, 1, ..) into `o`, adding. */
static const char *box_text(Host *host, const Box *b, uint32_t columns, uint32_t elements)
{
    AuText t = {.arena = host->arena}, box = t, in = t, out = t;
    for (uint32_t d = 0; d < b->rank; d++) {
        au_text_add(&box, " %u", d ? 2 : columns);
        au_text_add(&in, d ? ", -1" : "8");
        au_text_add(&out, d ? ", 1" : "0");
    }
    const char *swizzle = b->swizzle ? au_format(host->arena, " swizzle %u", b->swizzle) : "";
    const uint32_t bytes = elements * kernel_scalar_bytes(b->scalar);
    au_text_add(
        &t,
        "kernel k lanes 32 warps 4\nmemory @x: global %s reads\nmemory @o: global %s writes\n"
        "memory @y: global %s reads writes\nmemory @m: shared i64[1]\n"
        "memory @s: shared %s[%u] align 1024%s\narg x: pointer @x\narg o: pointer @o\n"
        "arg y: pointer @y\nmap X: @x box%s%s%s\nmap Y: @y box%s%s\n{\n",
        b->type, b->type, b->type, b->type, elements, swizzle, au_text_str(&box), swizzle, b->more,
        au_text_str(&box), swizzle);
    au_text_add(&t,
                "%%1 = lane.i32\n%%2 = warp.i32\n%%3 = elect.i1\n%%4 = eq.i32 %%2, 0\nif %%4 {\n"
                "mbar_init @m[0], 1 if %%3\nfence_init\n}\nbarrier #0\nif %%4 {\n"
                "mbar_expect @m[0], %u if %%3\ntma_load @s[0], @x[%s], @m[0] if %%3 #X\n}\n"
                "mbar_wait @m[0], 0\n%%5 = mul.i32 %%2, 32\n%%6 = add.i32 %%5, %%1\n"
                "for %%7 = 0 to %u step 128 {\n%%8 = add.i32 %%6, %%7\n%%9 = lt.i32 %%8, %u\n"
                "%%10 = load.%s @s[%%8] if %%9\nstore @o[%%8], %%10 if %%9\n}\nbarrier #0\n",
                bytes, au_text_str(&in), elements, elements, b->type);
    const bool sum = b->scalar == AU_F32;
    au_text_add(&t, "if %%4 {\ntma_%s @y[%s], @s[0] if %%3 #Y\nbulk_commit\nbulk_wait #0\n}\n}\n",
                sum ? "reduce_add" : "store", au_text_str(&out));
    return au_text_str(&t);
}

static void put_number(AuScalar scalar, void *at, uint32_t n, float x)
{
    const uint16_t half = scalar == AU_F16 ? kernel_to_f16(x) : kernel_to_bf16(x);
    const int32_t whole = (int32_t)x;
    if (scalar == AU_F32) memcpy((char *)at + 4 * n, &x, 4);
    if (scalar == AU_I32) memcpy((char *)at + 4 * n, &whole, 4);
    if (scalar == AU_F16 || scalar == AU_BF16) memcpy((char *)at + 2 * n, &half, 2);
}

static void add_box(Host *host, Box b)
{
    Case *c = host_case(host, "boxes of %s in %u dimensions, swizzle %u%s", b.type, b.rank,
                        b.swizzle, b.more);
    const uint32_t bytes = kernel_scalar_bytes(b.scalar);
    const uint32_t columns = (b.swizzle ? b.swizzle : 48) / bytes;
    uint32_t elements = columns, extent = ROW;
    AuKMap *maps = AU_NEW_ARRAY(host->arena, AuKMap, 2);
    for (uint32_t d = 0; d < b.rank; d++) {
        maps[0].size[d] = maps[1].size[d] = d ? OTHER : ROW;
        maps[0].stride[d] = maps[1].stride[d] = d ? extent : 1;
        if (d) elements *= 2, extent *= OTHER;
    }
    maps[0].size[0] -= 2; /* the last two of each row are outside of what is loaded */
    c->maps = maps;
    void *x = give(host, c, 0, extent, bytes), *y = give(host, c, 2, extent, bytes);
    give(host, c, 1, elements, bytes);
    for (uint32_t n = 0; n < extent; n++) {
        put_number(b.scalar, x, n, (float)(n * 7 % 61) - 30);
        put_number(b.scalar, y, n, (float)(n % 5));
    }
    case_kernel(c, read_kernel(host, box_text(host, &b, columns, elements)));
}

static void boxes(void **state)
{
    (void)state;
    Host *host = host_new("sm_90a");
    if (!host) skip();
    for (uint32_t rank = 1; rank <= AU_MAP_RANK; rank++)
        for (uint32_t swizzle = 16; swizzle <= 128; swizzle *= 2) {
            const uint32_t pattern = swizzle == 16 ? 0 : swizzle;
            add_box(host, (Box){"bf16", "", AU_BF16, rank, pattern});
            add_box(host, (Box){"f32", "", AU_F32, rank, pattern});
        }
    add_box(host, (Box){"f16", " fill nan", AU_F16, 2, 64});
    add_box(host, (Box){"f32", " fill nan", AU_F32, 3, 32});
    add_box(host, (Box){"i32", "", AU_I32, 2, 128});
    host_run(host);
    host_free(host);
}

/* ---- rows of bytes, and lanes that wait for each other */

#define HEAD                                                                                       \
    "kernel k lanes 32 warps 8 group 4\nmemory @x: global f32 align 16 reads\n"                    \
    "memory @o: global f32 align 16 reads writes\nmemory @s: shared f32[256] align 128\n"          \
    "memory @m: shared i64[4]\narg x: pointer @x\narg o: pointer @o\narg n: i32\n{\n"              \
    "%1 = lane.i32\n%2 = warp.i32\n%3 = elect.i1\n%4 = eq.i32 %2, 0\n%5 = mul.i32 %2, 32\n"        \
    "%6 = add.i32 %5, %1\n%7 = arg.i32 #2\n"
#define OBJECTS                                                                                    \
    "if %4 {\nfor %8 = 0 to 4 step 1 {\nmbar_init @m[%8], %7 if %3\n}\nfence_init\n}\nbarrier "    \
    "#0\n"

typedef struct Named {
    const char *name, *text;
    int32_t n; /* the argument */
} Named;

/* clang-format off */
static const Named named[] = {
    {"rows of bytes in", HEAD OBJECTS "if %4 {\nmbar_expect @m[0], 1024 if %3\nbulk_load @s[0], @x[0], @m[0], 512 if %3\nbulk_load @s[128], @x[256], @m[0], 512 if %3\n}\n"
        "mbar_wait @m[0], 0\n%20 = load.f32 @s[%6]\nstore @o[%6], %20\n}\n", 1},
    {"rows of bytes out", HEAD "%20 = load.f32 @x[%6]\nstore @s[%6], %20\nfence_proxy\nbarrier #0\nif %4 {\nbulk_store @o[0], @s[0], 1024 if %3\nbulk_commit\nbulk_wait #0\n}\n}\n", 0},
    {"rows of bytes are added", HEAD "%20 = load.f32 @x[%6]\nstore @s[%6], %20\nfence_proxy\nbarrier #0\n%21 = and.i32 %2, 3\n%22 = mul.i32 %21, 64\n"
        "bulk_reduce_add @o[%22], @s[%22], 256 if %3\nbulk_commit\nbulk_wait #16\n}\n", 0},
    {"sums that lanes and units share", HEAD "%20 = load.f32 @x[%6]\nstore @s[%6], %20\natomic_add @o[%6], %20\nfence_proxy\nbarrier #0\nif %4 {\nbulk_reduce_add @o[0], @s[0], 1024 if %3\nbulk_commit\nbulk_wait #0\n}\n}\n", 0},
    {"phases of objects", HEAD OBJECTS "%9 = sub.i32 7, %2\n%10 = mul.i32 %9, 32\n%11 = add.i32 %10, %1\nfor %12 = 0 to 12 step 1 unroll never {\n%13 = and.i32 %12, 1\n%14 = add.i32 %13, 2\n%15 = shr.i32 %12, 1\n"
        "%16 = sub.i32 %15, 1\nmbar_wait @m[%14], %16\n%20 = load.f32 @x[%6]\n%21 = cvt.f32 %12\n%22 = add.f32 %20, %21\nstore @s[%6], %22\nbarrier #1\nmbar_arrive @m[%13] if %3\n"
        "mbar_wait @m[%13], %15\n%23 = load.f32 @s[%11]\n%24 = load.f32 @o[%6]\n%25 = add.f32 %24, %23\nstore @o[%6], %25\nbarrier #1\nmbar_arrive @m[%14] if %3\nbarrier #0\n}\n}\n", 8},
    {"named barriers", HEAD "%9 = idiv.i32 %2, 4\n%10 = add.i32 %9, 1\nfor %12 = 0 to 6 step 1 unroll never {\n%13 = load.f32 @x[%6]\n%14 = cvt.f32 %12\n%15 = add.f32 %13, %14\nstore @s[%6], %15\nsync %10 #128\n"
        "%16 = xor.i32 %6, 96\n%17 = load.f32 @s[%16]\n%18 = load.f32 @o[%6]\n%19 = add.f32 %17, %18\nstore @o[%6], %19\nsync %10 #128\n}\n}\n", 0},
    {"half of them only come", HEAD "%9 = lt.i32 %2, 4\nif %9 {\n%20 = load.f32 @x[%6]\nstore @s[%6], %20\narrive 3 #256\n} else {\nsync 3 #256\n%10 = sub.i32 %6, 128\n%21 = load.f32 @s[%10]\nstore @o[%6], %21\n}\n}\n", 0},
    {"registers change hands", HEAD "%9 = idiv.i32 %2, 4\n%10 = eq.i32 %9, 0\nif %10 {\nregisters #24\n} else {\nregisters #240\n%20 = load.f32 @x[%6]\nstore @o[%6], %20\n}\n}\n", 0},
};
/* clang-format on */

static void barriers(void **state)
{
    (void)state;
    Host *host = host_new("sm_90a");
    if (!host) skip();
    for (size_t n = 0; n < sizeof named / sizeof *named; n++) {
        Case *c = host_case(host, "%s", named[n].name);
        float *x = give(host, c, 0, 512, 4);
        give(host, c, 1, 256, 4);
        for (int i = 0; i < 512; i++) x[i] = (float)(i * 37 % 101);
        c->slots[2] = (uint32_t)named[n].n;
        case_kernel(c, read_kernel(host, named[n].text));
    }
    host_run(host);
    host_free(host);
}

/* ---- a forward by hand */

enum { QUERIES = 100, KEYS = 248, WIDTH = 64, HEADS = 2 };

static void fill(uint16_t *to, uint32_t count, uint32_t seed, float middle)
{
    for (uint32_t n = 0; n < count; n++) {
        seed = seed * 1664525 + 1013904223;
        to[n] = kernel_to_bf16(middle + ((float)(seed >> 8) / 0x1p23f - 1) * 1.5f);
    }
}

static const char *file_text(Host *host, const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file) fail_msg("%s cannot be read", path);
    AuText text = {.arena = host->arena};
    char part[4096];
    for (size_t n; (n = fread(part, 1, sizeof part, file)) > 0;) au_text_bytes(&text, part, n);
    fclose(file);
    return au_text_str(&text);
}

static void forward(void **state)
{
    (void)state;
    static const AuKMap maps[4] = {{{WIDTH, QUERIES, HEADS}, {1, WIDTH, QUERIES * WIDTH}},
                                   {{WIDTH, KEYS, HEADS}, {1, WIDTH, KEYS * WIDTH}},
                                   {{WIDTH, KEYS, HEADS}, {1, WIDTH, KEYS * WIDTH}},
                                   {{WIDTH, QUERIES, HEADS}, {1, WIDTH, QUERIES * WIDTH}}};
    Host *host = host_new("sm_90a");
    if (!host) skip();
    Case *c = host_case(host, "a forward by hand");
    fill(give(host, c, 0, HEADS * QUERIES * WIDTH, 2), HEADS * QUERIES * WIDTH, 1, 0);
    fill(give(host, c, 1, HEADS * KEYS * WIDTH, 2), HEADS * KEYS * WIDTH, 2, 0);
    fill(give(host, c, 2, HEADS * KEYS * WIDTH, 2), HEADS * KEYS * WIDTH, 3, 1);
    give(host, c, 3, HEADS * QUERIES * WIDTH, 2);
    c->slots[4] = KEYS;
    c->maps = maps;
    c->grid[1] = HEADS;
    c->slack = 0x1p-8f;
    AuKernel *k = read_kernel(host, file_text(host, AU_EXAMPLES "/hopper_forward.kernel"));
    kernel_legalize_math(k, au_target_cuda.native_math);
    case_kernel(c, k);
    host_run(host);
    host_free(host);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products),
        cmocka_unit_test(boxes),
        cmocka_unit_test(barriers),
        cmocka_unit_test(forward),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
