/* Files made to hurt who reads them: what is said twice at one place, tables that speak of endless work, files that become shorter while they
 * are read. What it takes is counted, in reads of the file, and grows with the file by no more than it does.
 *     hostile_test
 *     hostile_test KIND FILE    only writes such a file */
#include "case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../runtime/elf_image.h"
#include "../../runtime/elf_pages.h"
#include "hostile.h"

static char scratch[] = "/tmp/aule-hostile-XXXXXX";

static void expect_open(const Hostile *h, aule_status status, const char *text)
{
    aule_module *module = NULL;
    aule_error *error = NULL;
    hostile_write(h, scratch);
    const aule_status found = aule_module_open(scratch, NULL, &module, &error);
    if (status) {
        expect_error(found, &error, status, text);
        assert_null(module);
        return;
    }
    if (found) fail_msg("%s", aule_error_message(error));
    char *words;
    assert_int_equal(aule_describe_module(module, &words, NULL), AULE_OK);
    aule_text_free(words);
    aule_module_close(module);
}

/* ---- places that are two things */

/* Variants of an attention, which are nothing yet; where they are. */
static size_t place_variants(Hostile *h, uint32_t variants)
{
    char arch[32];
    static const size_t texts[] = {
        offsetof(aule_variant_v1, operation), offsetof(aule_variant_v1, target),
        offsetof(aule_variant_v1, features), offsetof(aule_variant_v1, schedule)};
    const size_t text = hostile_text(h, "cpu"),
                 rows = hostile_place(h, variants * sizeof(aule_variant_v1));
    for (uint32_t n = 0; n < variants; n++) {
        const size_t at = rows + n * sizeof(aule_variant_v1);
        hostile_u32(h, at, sizeof(aule_variant_v1));
        hostile_u32(h, at + offsetof(aule_variant_v1, dtype), AULE_F32);
        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
            hostile_point(h, at + texts[i], text);
        snprintf(arch, sizeof arch, "arch%u", n);
        hostile_point(h, at + offsetof(aule_variant_v1, arch), hostile_text(h, arch));
    }
    return rows;
}

static void set_variants(Hostile *h, size_t attention, uint32_t variants, size_t rows)
{
    hostile_u32(h, attention + offsetof(aule_attention_v1, variant_count), variants);
    hostile_point(h, attention + offsetof(aule_attention_v1, variants), rows);
}

/* The pointer to a launch's host kernel is the name of the first size, its grid's first words are the name of the second: so when a host kernel is
 * taken out, a size is left without a name. Unless [apart]. */
static void make_overlap(Hostile *h, bool apart, const char *tensor_name)
{
    hostile_begin(h, 0);
    const size_t attention = hostile_module(h, 1), name = hostile_text(h, "name"),
                 launch = hostile_place(h, sizeof(aule_launch_v1)),
                 host = launch + offsetof(aule_launch_v1, host);
    const size_t sizes = apart ? hostile_place(h, 16) : host;
    hostile_u32(h, launch, sizeof(aule_launch_v1));
    hostile_point(h, launch + offsetof(aule_launch_v1, entry), name);
    hostile_point(h, host, name);
    /* Words of expressions are looked at when they are computed: these are a name. */
    for (size_t n = 0; n < 3; n++) {
        const size_t grid = launch + offsetof(aule_launch_v1, grid) + n * sizeof(aule_expr);
        hostile_point(h, grid, name);
        hostile_u32(h, grid + offsetof(aule_expr, length), 1);
    }
    if (apart) hostile_point(h, sizes, name);
    if (apart) hostile_point(h, sizes + 8, name);
    hostile_u32(h, attention + offsetof(aule_attention_v1, size_count), 2);
    hostile_point(h, attention + offsetof(aule_attention_v1, sizes), sizes);
    /* A tensor of the first size: who describes it reads that size's name. */
    const size_t tensor = hostile_place(h, sizeof(aule_tensor_v1)),
                 axis = hostile_place(h, sizeof(aule_expr)), code = hostile_place(h, 4);
    hostile_u32(h, code, AULE_E_SIZE);
    hostile_point(h, axis, code);
    hostile_u32(h, axis + offsetof(aule_expr, length), 1);
    hostile_u32(h, tensor, sizeof(aule_tensor_v1));
    hostile_point(h, tensor + offsetof(aule_tensor_v1, name), hostile_text(h, tensor_name));
    hostile_u32(h, tensor + offsetof(aule_tensor_v1, rank), 1);
    hostile_point(h, tensor + offsetof(aule_tensor_v1, axes), axis);
    hostile_u32(h, attention + offsetof(aule_attention_v1, tensor_count), 1);
    hostile_point(h, attention + offsetof(aule_attention_v1, tensors), tensor);
    const size_t variant = place_variants(h, 1);
    hostile_u32(h, variant + offsetof(aule_variant_v1, launch_count), 1);
    hostile_point(h, variant + offsetof(aule_variant_v1, launches), launch);
    set_variants(h, attention, 1, variant);
    hostile_end(h);
}

static void test_overlap(void **state)
{
    (void)state;
    Hostile h = {0};
    make_overlap(&h, true, "q");
    expect_open(&h, AULE_OK, NULL);
    hostile_free(&h);
    make_overlap(&h, false, "q");
    expect_open(&h, AULE_ERROR_ARTIFACT, "a size without a name");
    hostile_free(&h);
}

/* Names that would be files elsewhere, or orders to a terminal. */
static void test_names(void **state)
{
    (void)state;
    static const char *const bad[] = {"../o", "/o", "a/b", "o\n", "\x1b[2J", "o\x7f"};
    Hostile h = {0};
    for (size_t n = 0; n < sizeof bad / sizeof *bad; n++) {
        make_overlap(&h, true, bad[n]);
        expect_open(&h, AULE_ERROR_ARTIFACT, "a tensor of the signature");
        hostile_free(&h);
    }
    make_overlap(&h, true,
                 "gr\xc3\xb6\xc3\x9f"
                 "e.2");
    expect_open(&h, AULE_OK, NULL);
    hostile_free(&h);
}

/* What else files say goes to terminals as it is, but for orders to them. */
static void test_said(void **state)
{
    (void)state;
    Hostile h = {0};
    hostile_begin(&h, 0);
    const size_t first = hostile_module(&h, 1), variants = place_variants(&h, 1);
    hostile_point(&h, h.module + offsetof(aule_module_v1, producer), hostile_text(&h, "a\x1b[2Jb"));
    hostile_point(&h, variants + offsetof(aule_variant_v1, schedule),
                  hostile_text(&h, "c\rd\te\x7f"));
    set_variants(&h, first, 1, variants);
    hostile_end(&h);
    hostile_write(&h, scratch);
    hostile_free(&h);
    aule_module *module;
    char *text;
    assert_int_equal(aule_module_open(scratch, NULL, &module, NULL), AULE_OK);
    assert_int_equal(aule_describe_module(module, &text, NULL), AULE_OK);
    assert_non_null(strstr(text, " by a?[2Jb, "));
    assert_non_null(strstr(text, "'c?d\te?'"));
    aule_text_free(text);
    aule_module_close(module);
    aule_error *error = NULL;
    assert_int_equal(aule_module_open("/\x1b[2J", NULL, &module, &error), AULE_ERROR_FILE);
    assert_non_null(strstr(aule_error_message(error), "/?[2J: cannot be read"));
    aule_error_free(error);
}

/* ---- endless work */

/* All attentions have the same variants. */
static void make_shared(Hostile *h, uint32_t attentions, uint32_t variants)
{
    hostile_begin(h, 0);
    const size_t first = hostile_module(h, attentions), rows = place_variants(h, variants);
    for (uint32_t n = 0; n < attentions; n++)
        set_variants(h, first + n * sizeof(aule_attention_v1), variants, rows);
    hostile_end(h);
}

static void test_shared(void **state)
{
    (void)state;
    Hostile h = {0};
    make_shared(&h, 20, 20);
    expect_open(&h, AULE_OK, NULL);
    hostile_free(&h);
    make_shared(&h, 4000, 4000);
    expect_open(&h, AULE_ERROR_ARTIFACT, "damaged artifact");
    hostile_free(&h);
}

/* The name that needs no word behind it, of as many as there may be: "name", last. */
static void test_many_names(void **state)
{
    (void)state;
    enum { MANY = 65535 };
    Hostile h = {0};
    hostile_begin(&h, 0);
    const size_t first = hostile_module(&h, MANY), layout = hostile_text(&h, "name@layout"),
                 plain = hostile_text(&h, "name"), other = hostile_text(&h, "other");
    for (uint32_t n = 0; n < MANY; n++)
        hostile_point(&h, first + n * sizeof(aule_attention_v1) + offsetof(aule_attention_v1, name),
                      n + 1 < MANY ? layout : plain);
    const size_t length = h.length, pointers = h.pointer_count;
    for (int round = 0; round < 2; round++) { /* then with one of another name */
        aule_module *module;
        aule_attention *found = NULL;
        aule_error *error = NULL;
        h.length = length;
        h.pointer_count = pointers;
        if (round) hostile_point(&h, first + offsetof(aule_attention_v1, name), other);
        hostile_end(&h);
        hostile_write(&h, scratch);
        assert_int_equal(aule_module_open(scratch, NULL, &module, NULL), AULE_OK);
        const aule_status status = aule_module_find(module, NULL, &found, &error);
        if (round)
            expect_error(status, &error, AULE_ERROR_NAME,
                         "several attentions, name one of other, ");
        else
            assert_int_equal(status, AULE_OK);
        assert_ptr_equal(found, round ? NULL : aule_module_attention(module, MANY - 1));
        aule_module_close(module);
    }
    hostile_free(&h);
}

/* A file in memory that counts, and that after so many reads has only its first half. */
typedef struct Counted {
    const Hostile *of;
    uint64_t reads, whole;
} Counted;

static bool read_counted(void *user, uint64_t offset, void *to, size_t bytes)
{
    Counted *c = user;
    if (c->reads++ >= c->whole && offset + bytes > c->of->length / 2) return false;
    memcpy(to, c->of->at + offset, bytes);
    return true;
}

static aule_status check_counted(Counted *c, AuElfImage *image, const char *text)
{
    aule_error *error = NULL;
    AuElfLibrary library;
    const AuSink sink = {rt_memory(NULL), &error};
    const AuElfFile file = {
        .path = "counted", .length = c->of->length, .read = read_counted, .user = c};
    aule_status status = rt_check_library(&file, "aule_module_v1", &library, sink);
    if (!status) status = rt_read_image(&file, &library, image, sink);
    if (text && !strstr(aule_error_message(error), text)) fail_msg("%s", aule_error_message(error));
    if (status) assert_null(image->memory);
    aule_error_free(error);
    return status;
}

static uint64_t count_reads(Hostile *h, const char *text)
{
    AuElfImage image = {.memory = NULL};
    Counted c = {h, 0, UINT64_MAX};
    hostile_end(h);
    assert_int_equal(check_counted(&c, &image, text), text ? AULE_ERROR_ARTIFACT : AULE_OK);
    rt_free_image(&image);
    hostile_free(h);
    return c.reads;
}

static void make_segments(Hostile *h, uint32_t segments, uint32_t pointers)
{
    hostile_begin(h, segments);
    hostile_module(h, 1);
    const size_t at = hostile_place(h, 8);
    while (h->pointer_count < pointers) hostile_point(h, at, at);
}

/* A relocation costs the same in a file of many segments as in one of few, and there are no more than a few. */
static void test_segments(void **state)
{
    (void)state;
    enum { POINTERS = 20000, HEADS = 100 };
    Hostile h = {0};
    make_segments(&h, 0, POINTERS);
    const uint64_t few = count_reads(&h, NULL);
    make_segments(&h, AU_SEGMENTS_MOST - 1, POINTERS);
    assert_in_range(count_reads(&h, NULL), few, few + HEADS);
    assert_in_range(few, POINTERS, POINTERS + HEADS);
    make_segments(&h, AU_SEGMENTS_MOST, POINTERS);
    assert_in_range(count_reads(&h, "more than 16 segments"), 1, HEADS);
    make_segments(&h, 60000, POINTERS);
    assert_in_range(count_reads(&h, "more than 16 segments"), 60000, 60000 + HEADS);
}

/* Symbols of one hash that follow each other in a ring, in a table that says that it has 2^32. */
static void test_ring(void **state)
{
    (void)state;
    Hostile h = {.chain = UINT32_MAX};
    make_segments(&h, 0, 10);
    assert_in_range(count_reads(&h, "without the symbol"), 1, 100);
    h.chain = 8;
    make_segments(&h, 0, 10);
    assert_in_range(count_reads(&h, "without the symbol"), 1, 100);
}

/* ---- files that become shorter */

static void test_cut_after(void **state)
{
    (void)state;
    Hostile h = {0};
    make_overlap(&h, true, "q");
    Counted all = {&h, 0, UINT64_MAX};
    AuElfImage image = {.memory = NULL};
    assert_int_equal(check_counted(&all, &image, NULL), AULE_OK);
    rt_free_image(&image);
    for (uint64_t n = 0; n < all.reads; n++) {
        Counted c = {&h, 0, n};
        assert_int_equal(check_counted(&c, &image, ""), AULE_ERROR_ARTIFACT);
    }
    hostile_free(&h);
}

/* A mapped file would end the process here. */
static void test_cut_file(void **state)
{
    (void)state;
    enum { BYTES = 100000, PAGE = 4096 };
    unsigned char found[2 * PAGE];
    FILE *file = fopen(scratch, "wb+");
    assert_non_null(file);
    for (int n = 0; n < BYTES; n++) fputc(n % 251, file);
    fflush(file);
    AuElfPages *pages = rt_elf_pages(rt_memory(NULL), fileno(file));
    assert_non_null(pages);
    for (size_t at = 0; at + sizeof found <= BYTES; at += 1021) {
        const size_t bytes = at % 7 ? 1 + at % 300 : sizeof found;
        assert_true(rt_elf_read_pages(pages, at, found, bytes));
        for (size_t n = 0; n < bytes; n++) assert_int_equal(found[n], (at + n) % 251);
    }
    assert_true(rt_elf_read_pages(pages, BYTES - 9, found, 9));
    assert_false(rt_elf_read_pages(pages, BYTES - 9, found, 10));
    assert_int_equal(ftruncate(fileno(file), PAGE), 0);
    assert_false(rt_elf_read_pages(pages, 5 * PAGE, found, sizeof found));
    assert_false(rt_elf_read_pages(pages, 3 * PAGE, found, 8));
    rt_free(pages);
    fclose(file);
}

static int write_one(const char *kind, const char *path)
{
    Hostile h = {0};
    if (strcmp(kind, "overlap") == 0)
        make_overlap(&h, false, "q");
    else if (strcmp(kind, "shared") == 0)
        make_shared(&h, 60000, 60000);
    else if (strcmp(kind, "variants") == 0)
        make_shared(&h, 1, 65535);
    else {
        const bool ring = strcmp(kind, "ring") == 0;
        if (ring) h.chain = UINT32_MAX;
        make_segments(&h, ring ? 0 : 60000, 200000);
        hostile_end(&h);
    }
    hostile_write(&h, path);
    hostile_free(&h);
    return 0;
}

int main(int count, char **arguments)
{
    if (count == 3) return write_one(arguments[1], arguments[2]);
    if (count != 1) return 2;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_overlap),    cmocka_unit_test(test_names),
        cmocka_unit_test(test_said),       cmocka_unit_test(test_shared),
        cmocka_unit_test(test_many_names), cmocka_unit_test(test_segments),
        cmocka_unit_test(test_ring),       cmocka_unit_test(test_cut_after),
        cmocka_unit_test(test_cut_file),
    };
    const int file = mkstemp(scratch);
    if (file < 0) return 2;
    close(file);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(scratch);
    return failed;
}
