/* Array files: every type and order of .npy, every type of .safetensors, cut at every byte, damaged, foreign, huge; writing replaces a file
 * as a whole or not at all; conversions against all 65536 halves. */
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <cmocka.h>

#include "array.h"

static char scratch[] = "/tmp/aule-array-XXXXXX";

/* A version 1 file of this header text and data. */
static size_t make_npy(unsigned char *out, const char *header, const void *data, size_t bytes)
{
    size_t length = strlen(header);
    memcpy(out, "\x93NUMPY\x01\x00", 8);
    out[8] = (unsigned char)(length & 255);
    out[9] = (unsigned char)(length >> 8);
    memcpy(out + 10, header, length);
    memcpy(out + 10 + length, data, bytes);
    return 10 + length + bytes;
}

static bool parse_npy(AuArray *array, const unsigned char *bytes, size_t length, AuWhy *why)
{
    /* A copy of just this length, so that reading past its end is seen. */
    AuFile file = {malloc(length ? length : 1), length};
    memcpy(file.bytes, bytes, length);
    why->text[0] = 0;
    bool fine = npy_parse(array, &file, "x.npy", why);
    file_free(&file);
    assert_true(fine || why->text[0]);
    return fine;
}

static void test_npy_types(void **state)
{
    (void)state;
    // clang-format off
    static const struct { const char *descr; uint32_t dtype, bytes; } types[] = {
        {"<f4", AULE_F32, 4}, {"<f2", AULE_F16, 2}, {"<i4", AULE_I32, 4}, {"<i8", AULE_I64, 8}, {"|u1", AULE_U8, 1}, {"|b1", AULE_BOOL, 1},
        {"|V2", AULE_BF16, 2}, {"<V2", AULE_BF16, 2}, {"<u2", AULE_BF16, 2}, {"<f8", ARRAY_F64, 8}, {"=f4", AULE_F32, 4}, {"f4", AULE_F32, 4}, {">u1", AULE_U8, 1},
    };
    // clang-format on
    unsigned char file[512], data[48];
    for (size_t i = 0; i < sizeof data; i++) data[i] = (unsigned char)i;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        char header[128];
        AuArray array;
        AuWhy why;
        snprintf(header, sizeof header,
                 "{'descr': '%s', 'fortran_order': False, 'shape': (2, 3), }\n", types[i].descr);
        size_t length = make_npy(file, header, data, 6 * types[i].bytes);
        if (!parse_npy(&array, file, length, &why)) fail_msg("%s", why.text);
        assert_int_equal(array.dtype, types[i].dtype);
        assert_true(array.rank == 2 && array.shape[0] == 2 && array.shape[1] == 3 &&
                    array.strides[0] == 3 && array.strides[1] == 1);
        assert_memory_equal(array.data, data, 6 * types[i].bytes);
        assert_int_equal((uintptr_t)array.data % 64, 0);
        array_free(&array);
    }
}

static void test_npy_layouts(void **state)
{
    (void)state;
    // clang-format off
    static const struct { const char *header; int rank; int64_t shape[3], strides[3]; } cases[] = {
        {"{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3, 4), }", 3, {2, 3, 4}, {1, 2, 6}},
        {"{'shape': (24,), 'fortran_order': False, 'descr': '|u1'}", 1, {24}, {1}},
        {"{\"descr\":\"|u1\",\"fortran_order\":False,\"shape\":(24L,1,1)}", 3, {24, 1, 1}, {1, 1, 1}},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (4, 6)}   \n\n", 2, {4, 6}, {6, 1}},
    };
    // clang-format on
    unsigned char file[512], data[24] = {1, 2, 3};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        AuArray array;
        AuWhy why;
        if (!parse_npy(&array, file, make_npy(file, cases[i].header, data, 24), &why))
            fail_msg("%s", why.text);
        assert_int_equal(array.rank, cases[i].rank);
        assert_memory_equal(array.shape, cases[i].shape, (size_t)array.rank * 8);
        assert_memory_equal(array.strides, cases[i].strides, (size_t)array.rank * 8);
        array_free(&array);
    }
    AuArray scalar, nothing;
    AuWhy why;
    assert_true(parse_npy(
        &scalar, file,
        make_npy(file, "{'descr': '|u1', 'fortran_order': False, 'shape': ()}", data, 1), &why));
    assert_true(scalar.rank == 0 && scalar.bytes == 1);
    array_free(&scalar);
    assert_true(parse_npy(
        &nothing, file,
        make_npy(file, "{'descr': '|u1', 'fortran_order': False, 'shape': (3, 0)}", data, 0),
        &why));
    assert_true(nothing.rank == 2 && nothing.bytes == 0);
    array_free(&nothing);
    /* Version 2: a longer field for the header's length. */
    const char *header = "{'descr': '|u1', 'fortran_order': False, 'shape': (24,)}";
    unsigned char wide[256] = "\x93NUMPY\x02";
    wide[8] = (unsigned char)strlen(header);
    memcpy(wide + 12, header, strlen(header));
    assert_true(parse_npy(&scalar, wide, 12 + strlen(header) + 24, &why));
    array_free(&scalar);
}

static void test_npy_refusals(void **state)
{
    (void)state;
#define HEAD(descr, order, shape)                                                                  \
    "{'descr': " descr ", 'fortran_order': " order ", 'shape': " shape "}"
    // clang-format off
    static const struct { const char *header, *text; } cases[] = {
        {HEAD("'<c8'", "False", "(3,)"), "x.npy: dtype is '<c8', expected f8, f4, f2, V2 (bf16), i4, i8, u1, i1 or b1"},
        {HEAD("'<f8'", "False", "(3,)"), "x.npy: truncated: it has 12 bytes of data, its shape needs 24"},
        {HEAD("'<f4'", "False", "(0, 4611686018427387904, 8)"), "its shape is too large for memory"},
        {HEAD("'>f4'", "False", "(3,)"), "x.npy: dtype is '>f4', big-endian, expected '<f4'"},
        {HEAD("'O'", "False", "(3,)"), "dtype is 'O'"},
        {HEAD("''", "False", "(3,)"), "dtype is ''"},
        {HEAD("[('a', '<f4')]", "False", "(3,)"), "the dtype is not a simple one"},
        {HEAD("'<f4'", "Maybe", "(3,)"), "fortran_order is neither True nor False"},
        {HEAD("'<f4'", "False", "3"), "the shape is not a tuple"},
        {HEAD("'<f4'", "False", "(-3,)"), "the shape is not of whole numbers"},
        {HEAD("'<f4'", "False", "(3 4)"), "the shape does not end"},
        {HEAD("'<f4'", "False", "(3,"), "the shape is not of whole numbers"},
        {HEAD("'<f4'", "False", "(99999999999999999999,)"), "the shape is not of whole numbers"},
        {HEAD("'<f4'", "False", "(4000000000,4000000000,4000000000)"), "x.npy: its shape is too large for memory"},
        {HEAD("'<f4'", "False", "(9223372036854775807,)"), "too large for memory"},
        {HEAD("'<f4'", "False", "(1,1,1,1,1,1,1,1,1)"), "more than 8 axes"},
        {HEAD("'<f4'", "False", "(4,)"), "x.npy: truncated: it has 12 bytes of data, its shape needs 16"},
        {HEAD("'<f4'", "False", "(2,)"), "x.npy: it has 12 bytes of data, its shape needs only 8"},
        {"{'descr': '<f4', 'shape': (3,)}", "descr, fortran_order or shape is missing"},
        {"{'descr': '<f4', 'descr': '<f4'}", "an unknown key"},
        {"{'what': 3}", "an unknown key"},
        {"{'descr': '<f4' 'shape'}", "it does not end"},
        {"{'descr': '<f4", "the dtype is not a simple one"},
        {"{'descr'", "a key is missing"},
        {"{", "a key is missing"},
        {"", "it is not a dict"},
        {"[]", "it is not a dict"},
    };
    // clang-format on
    unsigned char file[1024], data[12] = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        AuArray array;
        AuWhy why;
        assert_false(parse_npy(&array, file, make_npy(file, cases[i].header, data, 12), &why));
        if (!strstr(why.text, cases[i].text))
            fail_msg("%s: '%s' instead of '%s'", cases[i].header, why.text, cases[i].text);
    }
    AuArray array;
    AuWhy why;
    assert_false(parse_npy(&array, (const unsigned char *)"\x93NUMPY\x04\x00\x00\x00", 10, &why));
    assert_non_null(strstr(why.text, ".npy version 4, expected 1 to 3"));
    assert_false(parse_npy(&array, (const unsigned char *)"PK\x03\x04 a zip, perhaps", 20, &why));
    assert_non_null(strstr(why.text, "x.npy: not a .npy file: its magic is wrong"));
}

/* Every prefix is refused, every damaged byte is either refused or harmless. */
static void fuzz(bool (*parse)(AuArray *array, const unsigned char *bytes, size_t length,
                               AuWhy *why),
                 const unsigned char *bytes, size_t length, uint32_t seed)
{
    unsigned char *copy = malloc(length);
    AuArray array;
    AuWhy why;
    for (size_t cut = 0; cut < length; cut++) assert_false(parse(&array, bytes, cut, &why));
    for (int i = 0; i < 20000; i++) {
        memcpy(copy, bytes, length);
        for (int flips = 0; flips < 1 + i % 4; flips++) {
            seed = seed * 1664525u + 1013904223u;
            copy[(seed >> 8) % (length < 200 ? length : 200)] = (unsigned char)(seed >> 24);
        }
        if (parse(&array, copy, length, &why)) array_free(&array);
    }
    free(copy);
}

static void test_npy_fuzz(void **state)
{
    (void)state;
    unsigned char file[512], data[24] = {0};
    size_t length = make_npy(
        file, "{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3), }         \n", data, 24);
    fuzz(parse_npy, file, length, 7);
}

/* ---- .safetensors */

static size_t make_safetensors(unsigned char *out, const char *header, const void *data,
                               size_t bytes)
{
    size_t length = strlen(header);
    for (int i = 0; i < 8; i++) out[i] = (unsigned char)(length >> 8 * i);
    memcpy(out + 8, header, length);
    if (bytes) memcpy(out + 8 + length, data, bytes);
    return 8 + length + bytes;
}

static bool parse_safetensors(AuArray *array, const unsigned char *bytes, size_t length, AuWhy *why)
{
    AuFile file = {malloc(length ? length : 1), length};
    memcpy(file.bytes, bytes, length);
    why->text[0] = 0;
    bool fine = safetensors_parse(array, &file, "x.safetensors", "q", why);
    file_free(&file);
    assert_true(fine || why->text[0]);
    return fine;
}

static const char good[] =
    "{\"__metadata__\":{\"by\":\"\\u00e9 \\\"hand\\\"\",\"n\":[1,-2.5e3,true,null,{}]},"
    "\"k\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[0,8]},"
    "\"q\":{\"dtype\":\"F32\",\"shape\":[2, 3],\"data_offsets\":[8, 32]}}  ";

static void test_safetensors(void **state)
{
    (void)state;
    unsigned char file[1024], data[32];
    for (size_t i = 0; i < sizeof data; i++) data[i] = (unsigned char)i;
    AuArray array;
    AuWhy why;
    size_t length = make_safetensors(file, good, data, 32);
    if (!parse_safetensors(&array, file, length, &why)) fail_msg("%s", why.text);
    assert_true(array.dtype == AULE_F32 && array.rank == 2 && array.shape[0] == 2 &&
                array.shape[1] == 3);
    assert_memory_equal(array.data, data + 8, 24);
    array_free(&array);

    static const char *const names[] = {"F32", "F16", "BF16", "I32", "I64", "U8", "BOOL"};
    static const uint32_t dtypes[] = {AULE_F32, AULE_F16, AULE_BF16, AULE_I32,
                                      AULE_I64, AULE_U8,  AULE_BOOL};
    for (int i = 0; i < 7; i++) {
        char header[128];
        uint32_t bytes = array_dtype_bytes(dtypes[i]);
        snprintf(header, sizeof header,
                 "{\"q\":{\"dtype\":\"%s\",\"shape\":[],\"data_offsets\":[0,%u]}}", names[i],
                 bytes);
        if (!parse_safetensors(&array, file, make_safetensors(file, header, data, bytes), &why))
            fail_msg("%s", why.text);
        assert_true(array.dtype == dtypes[i] && array.rank == 0);
        array_free(&array);
    }
}

static void test_safetensors_refusals(void **state)
{
    (void)state;
#define Q(dtype, shape, offsets)                                                                   \
    "{\"q\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}}"
    // clang-format off
    static const struct { const char *header, *text; } cases[] = {
        {Q("C64", "[3]", "[0,12]"), "x.safetensors:q: dtype is C64, expected F64, F32, F16, BF16, I32, I64, U8 or BOOL"},
        {Q("F32", "[4]", "[0,16]"), "x.safetensors:q: truncated: its data end at byte 16, the file's at 12"},
        {Q("F32", "[4]", "[0,12]"), "truncated: it has 12 bytes of data, its shape needs 16"},
        {Q("F32", "[2]", "[0,12]"), "it has 12 bytes of data, its shape needs only 8"},
        {Q("F32", "[3]", "[12,0]"), "its data end before they begin"},
        {Q("F32", "[3]", "[0,99999999999999999999]"), "damaged .safetensors header"},
        {Q("F32", "[-3]", "[0,12]"), "damaged"},
        {Q("F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), "damaged"},
        {Q("F32", "[4000000000,4000000000,4000000000]", "[0,12]"), "its shape is too large for memory"},
        {"{\"q\":{\"dtype\":\"F32\",\"shape\":[3]}}", "damaged"},
        {"{\"k\":{},\"v\":[]}", "x.safetensors: no tensor 'q', it has k, v"},
        {"{}", "no tensor 'q', it has none"},
        {"[]", "damaged"}, {"{\"q\"", "damaged"}, {"{\"q\":}", "damaged"}, {"{\"a\":\"\\x\"}", "damaged"}, {"{\"a\":\"\\u12g4\"}", "damaged"},
        {"{\"a\":1}}", "damaged"}, {"", "damaged"}, {"{\"a\":[1,2}", "damaged"},
    };
    // clang-format on
    unsigned char file[2048], data[12] = {0};
    AuArray array;
    AuWhy why;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_false(parse_safetensors(&array, file,
                                       make_safetensors(file, cases[i].header, data, 12), &why));
        if (!strstr(why.text, cases[i].text))
            fail_msg("%s: '%s' instead of '%s'", cases[i].header, why.text, cases[i].text);
    }
    /* Nesting without end must not take the stack. */
    static unsigned char deep[100000];
    memset(deep + 8, '[', sizeof deep - 8);
    memcpy(deep + 8, "{\"a\":", 5);
    for (int i = 0; i < 8; i++) deep[i] = (unsigned char)((sizeof deep - 8) >> 8 * i);
    assert_false(parse_safetensors(&array, deep, sizeof deep, &why));
    /* A header that claims to be larger than any file. */
    memset(deep, 0xff, 8);
    assert_false(parse_safetensors(&array, deep, 100, &why));
    assert_non_null(strstr(why.text, "truncated"));
}

static void test_safetensors_fuzz(void **state)
{
    (void)state;
    unsigned char file[1024], data[32] = {0};
    fuzz(parse_safetensors, file, make_safetensors(file, good, data, 32), 11);
}

/* ---- writing */

static void test_writes_what_it_reads(void **state)
{
    (void)state;
    for (uint32_t dtype = AULE_F32; dtype <= AULE_BOOL; dtype++)
        for (int32_t rank = 0; rank <= 4; rank++) {
            int64_t shape[4] = {2, 3, 1, 5};
            AuArray array, back;
            AuWhy why;
            assert_true(array_new(&array, dtype, rank, shape, &why));
            for (size_t i = 0; i < array.bytes; i++)
                ((unsigned char *)array.data)[i] = (unsigned char)(i * 7 % 2);
            if (!array_write(&array, scratch, &why)) fail_msg("%s", why.text);
            if (!array_read(&back, scratch, "q", &why)) fail_msg("%s", why.text);
            assert_true(back.dtype == dtype && back.rank == rank && back.bytes == array.bytes);
            assert_memory_equal(back.data, array.data, array.bytes);
            array_free(&array);
            array_free(&back);
        }
}

/* The file as NumPy writes it, byte for byte. */
static void test_golden_file(void **state)
{
    (void)state;
    static const char header[] =
        "\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1), }"
        "                                                          \n";
    AuArray array;
    AuWhy why;
    AuFile file;
    float values[] = {1.5f, -2};
    assert_int_equal(sizeof header - 1, 128);
    assert_true(array_new(&array, AULE_F32, 2, (int64_t[]){2, 1}, &why));
    memcpy(array.data, values, 8);
    assert_true(array_write(&array, scratch, &why));
    assert_true(file_read(&file, scratch, &why));
    assert_int_equal(file.length, 136);
    assert_memory_equal(file.bytes, header, 128);
    assert_memory_equal(file.bytes + 128, values, 8);
    file_free(&file);
    array_free(&array);
}

/* No room: the message says so, the old file stays, nothing is left beside it. */
static void test_full_disk(void **state)
{
    (void)state;
    AuArray small, large;
    AuWhy why;
    AuFile before, after;
    char path[64];
    struct rlimit old, tight = {4096, 4096};
    assert_true(array_new(&small, AULE_U8, 1, (int64_t[]){10}, &why));
    assert_true(array_new(&large, AULE_U8, 1, (int64_t[]){100000}, &why));
    assert_true(array_write(&small, scratch, &why));
    assert_true(file_read(&before, scratch, &why));
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    tight.rlim_max = old.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
    bool fine = array_write(&large, scratch, &why);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_false(fine);
    assert_non_null(strstr(why.text, "cannot be written: File too large"));
    assert_true(file_read(&after, scratch, &why));
    assert_int_equal(after.length, before.length);
    assert_memory_equal(after.bytes, before.bytes, before.length);
    assert_false(array_write(&small, "/dev/full/o.npy", &why));
    assert_false(array_write(&small, "/nonexistent/o.npy", &why));
    assert_non_null(
        strstr(why.text, "/nonexistent/o.npy: cannot be written: No such file or directory"));
    snprintf(path, sizeof path, "ls %s.* >/dev/null 2>&1", scratch);
    assert_int_not_equal(system(path), 0);
    file_free(&before);
    file_free(&after);
    array_free(&small);
    array_free(&large);
}

static void test_unreadable(void **state)
{
    (void)state;
    AuArray array;
    AuWhy why;
    assert_false(array_read(&array, "/nonexistent/q.npy", "q", &why));
    assert_string_equal(why.text, "/nonexistent/q.npy: cannot be read: No such file or directory");
    assert_false(array_read(&array, "/tmp", "q", &why));
    assert_string_equal(why.text, "/tmp: cannot be read: not a file");
    assert_false(array_read(&array, "/nonexistent/a.safetensors:q", "q", &why));
    assert_string_equal(why.text,
                        "/nonexistent/a.safetensors: cannot be read: No such file or directory");
}

/* ---- conversions */

static void test_halves(void **state)
{
    (void)state;
    for (uint32_t half = 0; half < 65536; half++) {
        float value = array_from_half((uint16_t)half);
        if (isnan(value))
            assert_true((half & 0x7fff) > 0x7c00);
        else
            assert_int_equal(array_to_half(value), half);
    }
    static const struct {
        float value;
        uint16_t half, bfloat;
    } cases[] = {
        {1.0f, 0x3c00, 0x3f80},
        {65504.0f, 0x7bff, 0x4780},
        {65519.0f, 0x7bff, 0x4780},
        {65520.0f, 0x7c00, 0x4780},
        {1.0f + 0x1p-11f, 0x3c00, 0x3f80},
        {1.0f + 0x3p-11f, 0x3c02, 0x3f80},
        {0x1p-25f, 0x0000, 0x3300},
        {0x1.8p-25f, 0x0001, 0x3340},
        {-0.0f, 0x8000, 0x8000},
        {INFINITY, 0x7c00, 0x7f80},
        {1.0f + 0x1p-8f, 0x3c04, 0x3f80},
        {1.0f + 0x3p-8f, 0x3c0c, 0x3f82},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(array_to_half(cases[i].value), cases[i].half);
        assert_int_equal(array_to_bfloat(cases[i].value), cases[i].bfloat);
    }
    assert_true((array_to_half(NAN) & 0x7fff) > 0x7c00 && (array_to_bfloat(NAN) & 0x7fff) > 0x7f80);
}

/* f64 is rounded once: by way of f32, what lies just beside the middle of two halves would go to the even one. */
static void test_doubles(void **state)
{
    (void)state;
    static const struct {
        double value;
        float single;
        uint16_t half, bfloat;
    } cases[] = {
        {1 + 0x1p-11 + 0x1p-40, 1 + 0x1p-11f, 0x3c01, 0x3f80},
        {1 + 0x1p-11 - 0x1p-40, 1 + 0x1p-11f, 0x3c00, 0x3f80},
        {-1 - 0x1p-8 - 0x1p-40, -1 - 0x1p-8f, 0xbc04, 0xbf81},
        {1 + 0x3p-11 - 0x1p-40, 1 + 0x3p-11f, 0x3c01, 0x3f80},
        {0x1p-25 + 0x1p-60, 0x1p-25f, 0x0001, 0x3300},
        {65520 - 0x1p-30, 65520, 0x7bff, 0x4780},
        {1e300, INFINITY, 0x7c00, 0x7f80},
        {-1e-300, -0.0f, 0x8000, 0x8000},
        {0, 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static const uint32_t types[] = {AULE_F32, AULE_F16, AULE_BF16};
        for (int n = 0; n < 3; n++) {
            const int64_t one = 1;
            AuArray array;
            AuWhy why;
            assert_true(array_new(&array, ARRAY_F64, 1, &one, &why));
            memcpy(array.data, &cases[i].value, sizeof cases[i].value);
            assert_true(array_convert(&array, types[n], &why));
            const void *want = n == 0   ? (const void *)&cases[i].single
                               : n == 1 ? (const void *)&cases[i].half
                                        : (const void *)&cases[i].bfloat;
            assert_memory_equal(array.data, want, array_dtype_bytes(types[n]));
            array_free(&array);
        }
    }
}

int main(void)
{
    int fd = mkstemp(scratch);
    if (fd < 0) return 2;
    close(fd);
    signal(SIGXFSZ, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_npy_types),        cmocka_unit_test(test_npy_layouts),
        cmocka_unit_test(test_npy_refusals),     cmocka_unit_test(test_npy_fuzz),
        cmocka_unit_test(test_safetensors),      cmocka_unit_test(test_safetensors_refusals),
        cmocka_unit_test(test_safetensors_fuzz), cmocka_unit_test(test_writes_what_it_reads),
        cmocka_unit_test(test_golden_file),      cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_unreadable),       cmocka_unit_test(test_halves),
        cmocka_unit_test(test_doubles),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(scratch);
    return failed;
}
