/* What objects, libraries and texts of the host target consist of: no foreign symbols, one export, the same bytes again. */
#include "host.h"

#include "tile_kernel.h"

#include <dlfcn.h>
#include <elf.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static const TileShape tile_512 = {.lanes = 16, .rows = 6, .vectors = 4, .unroll = 4, .depth = 64};

typedef struct World {
    AuArena *arena;
    AuDiags *diags;
} World;

static World open_world(void)
{
    World w = {.arena = au_arena_new(NULL)};
    w.diags = au_diags_new(w.arena);
    return w;
}

static bool emit(World *w, AuKernel *k, const char *arch, AuCodeStage stage, AuBlob *out)
{
    return au_target_cpu.emit(w->arena, w->diags, &k, 1, host_arch(arch), stage, 2, out);
}

static const char *complaints(World *w)
{
    AuText text = {.arena = w->arena};
    au_diags_render(w->diags, &text);
    return au_text_str(&text);
}

/* ---- ELF */

static const Elf64_Shdr *section(const AuBlob *elf, uint32_t type, uint32_t nth)
{
    const Elf64_Ehdr *head = elf->bytes;
    const Elf64_Shdr *sections = (const void *)((const char *)elf->bytes + head->e_shoff);
    for (uint32_t n = 0; n < head->e_shnum; n++)
        if (sections[n].sh_type == type && !nth--) return &sections[n];
    return NULL;
}

/* Counts the symbols of a table, other than the first, that are undefined, or global and defined; *last names one of them. */
static uint32_t symbols(const AuBlob *elf, uint32_t table, bool undefined, const char **last)
{
    const Elf64_Ehdr *head = elf->bytes;
    const char *start = elf->bytes;
    const Elf64_Shdr *sections = (const void *)(start + head->e_shoff),
                     *at = section(elf, table, 0);
    if (!at) return 0;
    const Elf64_Sym *all = (const void *)(start + at->sh_offset);
    uint32_t count = 0;
    for (uint64_t n = 1; n < at->sh_size / sizeof *all; n++) {
        const bool is_undefined = all[n].st_shndx == SHN_UNDEF;
        if (is_undefined != undefined || (!undefined && ELF64_ST_BIND(all[n].st_info) == STB_LOCAL))
            continue;
        count++;
        *last = start + sections[at->sh_link].sh_offset + all[n].st_name;
    }
    return count;
}

static bool needs_library(const AuBlob *elf)
{
    const Elf64_Shdr *at = section(elf, SHT_DYNAMIC, 0);
    const Elf64_Dyn *all = (const void *)((const char *)elf->bytes + at->sh_offset);
    for (uint64_t n = 0; n < at->sh_size / sizeof *all; n++)
        if (all[n].d_tag == DT_NEEDED) return true;
    return false;
}

/* ---- objects and libraries */

/* Loops that clear, copy and convert, and everything else for which compilers like to call libraries. */
static AuKernel *tempting_kernel(AuArena *arena, uint32_t lanes)
{
    AuKernel *k = kernel_new(arena, "tempting", lanes, 1);
    const AuVal none = {0}, zero = kernel_i32(k, 0), lane = kernel_lane(k);
    const AuMem a = kernel_tensor(k, "a", AU_F32, true, false, 0, 0),
                o = kernel_tensor(k, "o", AU_F32, false, true, 0, 0);
    const AuMem h = kernel_tensor(k, "h", AU_F16, true, true, 0, 0),
                b = kernel_tensor(k, "b", AU_BF16, true, true, 0, 0);
    const AuMem big = kernel_memory(
        k, (AuMemory){.name = "big", .space = AU_EXEC, .scalar = AU_F32, .count = 4096});
    const AuMem i = kernel_tensor(k, "i", AU_I64, true, true, 0, 0);
    AuVal n = kernel_for(k, zero, kernel_i32(k, 4096), 1, AU_UNROLL_NEVER);
    kernel_store(k, big, n, kernel_f32(k, 0), none);
    kernel_end(k);
    n = kernel_for(k, zero, kernel_i32(k, 4096), 1, AU_UNROLL_NEVER);
    kernel_store(k, o, n, kernel_load(k, big, n, 1, none, none), none);
    kernel_end(k);
    AuVal x = kernel_load(k, a, lane, 1, none, none), y = kernel_load(k, a, zero, 1, none, none);
    static const AuKOp plain[] = {AU_K_FLOOR, AU_K_CEIL, AU_K_RINT, AU_K_SQRT};
    for (size_t op = 0; op < sizeof plain / sizeof *plain; op++)
        x = kernel_op1(k, plain[op], x), y = kernel_op1(k, plain[op], y);
    x = kernel_op3(k, AU_K_FMA, x, y,
                   kernel_cvt(k, kernel_load(k, h, zero, 1, none, none), AU_F32));
    y = kernel_op3(k, AU_K_FMA, y, y,
                   kernel_cvt(k, kernel_load(k, b, zero, 1, none, none), AU_F32));
    kernel_store(k, h, lane, kernel_cvt(k, x, AU_F16), none);
    kernel_store(k, b, zero, kernel_cvt(k, y, AU_BF16), kernel_op2(k, AU_K_EQ, lane, zero));
    AuVal w = kernel_load(k, i, lane, 1, none, none), v = kernel_load(k, i, zero, 1, none, none);
    w = kernel_op2(k, AU_K_MULHI, kernel_op2(k, AU_K_IDIV, w, v), kernel_op2(k, AU_K_IMOD, v, w));
    kernel_store(k, i, lane, kernel_op2(k, AU_K_ADD, w, kernel_cvt(k, x, AU_I64)), none);
    AuVal operands[2] = {lane, kernel_cvt(k, w, AU_F32)};
    const AuMem sum = kernel_tensor(k, "sum", AU_F32, true, true, 0, 0);
    kernel_emit(k, (AuInstr){.op = AU_K_ATOMIC_ADD, .mem = sum}, operands, 2);
    return k;
}

static void test_objects_need_nothing(void **state)
{
    (void)state;
    World w = open_world();
    for (uint32_t n = 0; n < au_target_cpu.arch_count; n++)
        for (uint32_t lanes = 4; lanes <= 32; lanes *= 2) {
            AuBlob object;
            const char *name = "";
            assert_true(emit(&w, tempting_kernel(w.arena, lanes), au_target_cpu.archs[n].name,
                             AU_CODE_FINAL, &object));
            const uint32_t foreign = symbols(&object, SHT_SYMTAB, true, &name);
            if (foreign)
                fail_msg("%s: %u symbols are not defined, one is %s", au_target_cpu.archs[n].name,
                         foreign, name);
            assert_int_equal(symbols(&object, SHT_SYMTAB, false, &name), 1);
            assert_string_equal(name, "tempting");
        }
    au_arena_free(w.arena);
}

static bool link_tile(World *w, const char *arch, AuBlob *library)
{
    static const unsigned char bytes[24] = {'a', 'u', 'l', 'e'};
    const AuImageFix fixes[2] = {{16, NULL, 4}, {8, "tile", 0}}; /* in any order */
    const AuImage image = {bytes, sizeof bytes, fixes, 2};
    AuBlob objects[2];
    TileShape shape = tile_512;
    shape.lanes = 8;
    return emit(w, tile_kernel(w->arena, &shape), arch, AU_CODE_FINAL, &objects[0]) &&
           au_image_object(w->arena, w->diags, &image, "aule_module_v1", host_arch(arch),
                           &objects[1]) &&
           au_link_shared(w->arena, w->diags, objects, 2, "aule_module_v1", host_arch(arch),
                          library);
}

static void test_library(void **state)
{
    (void)state;
    World w = open_world();
    for (uint32_t n = 0; n < au_target_cpu.arch_count; n++) {
        AuBlob library, again;
        const char *name = "";
        if (!link_tile(&w, au_target_cpu.archs[n].name, &library)) fail_msg("%s", complaints(&w));
        assert_int_equal(symbols(&library, SHT_DYNSYM, true, &name), 0);
        assert_int_equal(symbols(&library, SHT_DYNSYM, false, &name), 1);
        assert_string_equal(name, "aule_module_v1");
        assert_null(section(&library, SHT_SYMTAB, 0));
        assert_false(needs_library(&library));
        assert_true(library.length < 8192);
        assert_true(link_tile(&w, au_target_cpu.archs[n].name, &again));
        assert_int_equal(library.length, again.length);
        assert_memory_equal(library.bytes, again.bytes, library.length);
    }
    au_arena_free(w.arena);
}

/* What a loader makes of it: addresses that point into it, in memory that is no longer written to. */
static void expect_loads(const AuBlob *library, const AuImage *image)
{
    char path[] = "/tmp/aule-data-XXXXXX";
    const int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, library->bytes, library->length), library->length);
    close(file);
    void *loaded = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    unlink(path);
    if (!loaded) fail_msg("%s", dlerror());
    const unsigned char *at = dlsym(loaded, "aule_module_v1");
    assert_non_null(at);
    assert_int_equal((uintptr_t)at % 64, 0);
    for (uint32_t n = 0; n < image->fix_count; n++) {
        const void *target;
        memcpy(&target, at + image->fixes[n].at, sizeof target);
        assert_ptr_equal(target, at + image->fixes[n].offset);
    }
    const uint64_t last = image->length - 1;
    if (!image->fix_count) assert_memory_equal(at, image->bytes, image->length);
    assert_int_equal(at[last], image->bytes[last]);
    dlclose(loaded);
}

/* Data alone, without a linker: of lengths around pages, with many addresses and with none. */
static void test_data_library(void **state)
{
    (void)state;
    static const uint64_t lengths[] = {9, 24, 4095, 4097, 65535, 65536, 65537, 300001};
    for (uint32_t n = 0; n < sizeof lengths / sizeof *lengths; n++) {
        World w = open_world();
        unsigned char *bytes = AU_NEW_ARRAY(w.arena, unsigned char, lengths[n]);
        for (uint64_t i = 0; i < lengths[n]; i++) bytes[i] = (unsigned char)(i * 7 + 1);
        AuImageFix fixes[200] = {{0, NULL, 0}};
        AuImage image = {bytes, lengths[n], fixes, 0};
        for (uint64_t at = 0; at + 16 < lengths[n] && image.fix_count < 200; at += 8 * n)
            fixes[image.fix_count++] = (AuImageFix){at, NULL, lengths[n] - at};
        if (n == 0) image.fix_count = 0;
        AuBlob library, again;
        const char *name = "";
        assert_true(au_data_library(w.arena, w.diags, &image, "aule_module_v1", &library));
        assert_int_equal(symbols(&library, SHT_DYNSYM, true, &name), 0);
        assert_int_equal(symbols(&library, SHT_DYNSYM, false, &name), 1);
        assert_string_equal(name, "aule_module_v1");
        assert_false(needs_library(&library));
        expect_loads(&library, &image);
        assert_true(au_data_library(w.arena, w.diags, &image, "aule_module_v1", &again));
        assert_int_equal(library.length, again.length);
        assert_memory_equal(library.bytes, again.bytes, library.length);
        fixes[0] = (AuImageFix){0, "tile", 0};
        image.fix_count = 1;
        assert_false(au_data_library(w.arena, w.diags, &image, "aule_module_v1", &again));
        assert_non_null(strstr(complaints(&w), "'tile' is no data"));
        au_arena_free(w.arena);
    }
}

static void test_faults_are_diagnostics(void **state)
{
    (void)state;
    World w = open_world();
    static const unsigned char bytes[16] = {0};
    const AuImageFix missing = {8, "nowhere", 0}, outside = {16, NULL, 0}, crooked = {4, NULL, 0};
    const AuArch *arch = host_arch("x86-64-v3");
    AuBlob object, library;
    AuImage image = {bytes, sizeof bytes, &outside, 1};
    assert_false(au_image_object(w.arena, w.diags, &image, "m", arch, &object));
    image.fixes = &crooked;
    assert_false(au_image_object(w.arena, w.diags, &image, "m", arch, &object));
    image.fixes = &missing;
    assert_true(au_image_object(w.arena, w.diags, &image, "m", arch, &object));
    assert_false(au_link_shared(w.arena, w.diags, &object, 1, "m", arch, &library));
    assert_non_null(strstr(complaints(&w), "nowhere"));

    AuKernel *two = kernel_new(w.arena, "two_executors", 8, 2);
    assert_false(emit(&w, two, "x86-64-v3", AU_CODE_FINAL, &object));
    assert_non_null(strstr(complaints(&w), "'two_executors': a block has more than one executor"));
    AuKernel *k = kernel_new(w.arena, "raw", 8, 1);
    const AuMem a = kernel_tensor(k, "a", AU_F32, true, true, 0, 0);
    AuVal v = kernel_load(k, a, kernel_lane(k), 1, (AuVal){0}, (AuVal){0});
    kernel_store(k, a, kernel_lane(k), kernel_op1(k, AU_K_TANH, v), (AuVal){0});
    assert_false(emit(&w, k, "x86-64-v3", AU_CODE_FINAL, &object));
    assert_non_null(strstr(complaints(&w), "should have been expanded: tanh"));
    au_arena_free(w.arena);
}

/* ---- texts */

static uint32_t count_of(const char *text, const char *part)
{
    uint32_t count = 0;
    for (const char *at = text; (at = strstr(at, part)); at++) count++;
    return count;
}

static void test_texts_explain_themselves(void **state)
{
    (void)state;
    World w = open_world();
    AuBlob text;
    assert_true(emit(&w, tile_kernel(w.arena, &tile_512), "x86-64-v4", AU_CODE_IR, &text));
    assert_memory_equal(text.bytes, "; product tile\n; S = K Q\n", 25);
    assert_non_null(strstr(text.bytes, "S_K_Q.loop:"));
    assert_non_null(strstr(text.bytes, "define void @tile("));
    assert_true(emit(&w, tile_kernel(w.arena, &tile_512), "x86-64-v4", AU_CODE_ASSEMBLY, &text));
    assert_memory_equal(text.bytes, "# product tile\n# S = K Q\n", 25);
    assert_non_null(strstr(text.bytes, "%S_K_Q.loop"));
    au_arena_free(w.arena);
}

/* The tile is fast where its sums stay in registers: one product a sum and step, nothing on the stack. */
static void test_tiles_stay_in_registers(void **state)
{
    (void)state;
    static const struct {
        const char *arch, *product;
        TileShape shape;
    } rows[] = {{"x86-64-v4", "vfmadd231ps", {16, 6, 4, 4, 64, false}},
                {"x86-64-v4", "vfmadd231ps", {16, 12, 2, 2, 64, false}},
                {"x86-64-v3", "vfmadd231ps", {8, 6, 2, 4, 64, false}},
                {"x86-64-v4-bf16", "vdpbf16ps", {16, 6, 4, 4, 64, true}},
                {"aarch64", "fmla\t", {4, 6, 4, 4, 64, false}}};
    for (uint32_t n = 0; n < sizeof rows / sizeof *rows; n++) {
        World w = open_world();
        AuBlob text;
        assert_true(
            emit(&w, tile_kernel(w.arena, &rows[n].shape), rows[n].arch, AU_CODE_ASSEMBLY, &text));
        const TileShape *s = &rows[n].shape;
        assert_int_equal(count_of(text.bytes, rows[n].product), s->rows * s->vectors * s->unroll);
        if (*rows[n].arch == 'x') /* AArch64 also calls saving the caller's registers a spill */
            assert_int_equal(count_of(text.bytes, "Spill") + count_of(text.bytes, "Reload"), 0);
        au_arena_free(w.arena);
    }
}

/* ---- threads */

static void *work(void *failed)
{
    World w = open_world();
    AuBlob first = {0}, library = {0};
    bool good = link_tile(&w, "x86-64-v4", &first);
    for (int n = 0; n < 4 && good; n++)
        good = link_tile(&w, n & 1 ? "aarch64" : "x86-64-v4", &library) &&
               (n & 1 || (library.length == first.length &&
                          !memcmp(library.bytes, first.bytes, first.length)));
    au_arena_free(w.arena);
    return good ? NULL : failed;
}

static void test_threads(void **state)
{
    (void)state;
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    static char failed;
    for (int n = 0; n < THREADS; n++)
        assert_int_equal(pthread_create(&threads[n], NULL, work, &failed), 0);
    bool good = true;
    for (int n = 0; n < THREADS; n++) {
        void *result = NULL;
        pthread_join(threads[n], &result);
        good = good && !result;
    }
    assert_true(good);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_objects_need_nothing),
                                       cmocka_unit_test(test_library),
                                       cmocka_unit_test(test_data_library),
                                       cmocka_unit_test(test_faults_are_diagnostics),
                                       cmocka_unit_test(test_texts_explain_themselves),
                                       cmocka_unit_test(test_tiles_stay_in_registers),
                                       cmocka_unit_test(test_threads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
