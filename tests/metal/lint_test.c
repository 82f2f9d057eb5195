/* lint_test.c - planted mistakes of MSL that g++ takes with the shim's headers, each found by the linter; and text that is right. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>
#include <stdio.h>

#include "metal_lint.h"

#define BEGIN                                                                                      \
    "#include <metal_stdlib>\nusing namespace metal;\n"                                            \
    "float twice(float a)\n{\n    return a + a;\n}\n"                                              \
    "void put(device float *a, float b)\n{\n    a[0] = b;\n}\n"                                    \
    "struct turn_slots {\n    device const float *a;\n    device float *b;\n    alignas(8) int "   \
    "n;\n};\n"
#define ENTRY                                                                                      \
    "[[max_total_threads_per_threadgroup(64)]] kernel void turn(\n"                                \
    "    constant turn_slots &slots [[buffer(0)]], threadgroup uchar *shared "                     \
    "[[threadgroup(0)]],\n"                                                                        \
    "    uint3 block_at [[threadgroup_position_in_grid]],\n"                                       \
    "    uint simdgroup [[simdgroup_index_in_threadgroup]])\n{\n"
#define LOCALS                                                                                     \
    "    threadgroup float *const x = (threadgroup float *)(shared + 0); // 64\n"                  \
    "    thread float row[4];\n    const int me = int(simdgroup);\n    float4 four = "             \
    "float4(0.0f);\n    half2 two = half2(half(1.0f));\n    long far = 3L;\n"                      \
    "    row[0] = slots.a[me];\n    x[me] = row[0];\n"

/* [says] is a part of what is found, NULL where nothing may be. */
typedef struct Case {
    const char *text, *says;
} Case;

/* Lines of a kernel. */
static const Case lines[] = {
    {"slots.b[me] = fma(x[me], twice(row[1]), 2.0f) + float(two[1]) * four[3];", NULL},
    {"const float2 p = float2(*(threadgroup const packed_float2 *)(x + 2)) * 0.5f;", NULL},
    {"if (me < 3 && (far & 1L) == 0L) slots.b[me] = as_type<float>(as_type<int>(row[0]) + 1);",
     NULL},
    {"put(slots.b + me, simd_shuffle_xor(row[0], ushort(1)));", NULL},
    {"threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);", NULL},
    /* address spaces */
    {"float *y = row;", "a pointer without an address space"},
    {"const float &y = row[0];", "a reference without an address space"},
    {"device float *y = row;", "a pointer to thread memory becomes one to device memory"},
    {"thread float *y = slots.b;", "a pointer to device memory becomes one to thread memory"},
    {"device float *y = (device float *)x;",
     "a pointer to threadgroup memory becomes one to device memory"},
    {"put(row, 1.0f);", "an argument: a pointer to thread memory becomes one to device memory"},
    {"put(x + 1, 1.0f);", "an argument: a pointer to threadgroup memory becomes one to device"},
    {"device const float *y = me < 1 ? slots.a : x;", "?:: a pointer to threadgroup memory"},
    {"*(thread packed_float2 *)(slots.b + 2) = packed_float2(four[0], four[1]);",
     "a pointer to device memory becomes one to thread memory"},
    {"device float *y = slots.b; thread float *z = row; z = y;",
     "=: a pointer to device memory becomes one to thread memory"},
    {"device float y = 1.0f;", "lies in device memory"},
    {"constant float y = 1.0f;", "lies in constant memory"},
    {"threadgroup float y = 1.0f;", "with a first value"},
    {"threadgroup float y[9000];", "36000 bytes of threadgroup memory"},
    {"device threadgroup float *y = x;", "in device and threadgroup memory"},
    {"slots.b[me] = slots.n[0];", "an element of what has none"},
    /* words */
    {"int half = 3;", "'half' is a word of the language"},
    {"int kernel = 3;", "'kernel' is a word of the language"},
    {"int uchar4 = 3;", "'uchar4' is a word of the language"},
    {"int INFINITY = 3;", "'INFINITY' is a word of the language"},
    {"int _Mine = 3;", "is a name that compilers keep"},
    {"float min = 3.0f; min = min(min, 2.0f);", "is a variable and is called"},
    /* numbers */
    {"slots.b[0] = 1.0 * row[0];", "'1.0': a real number ends in f"},
    {"far = 3LL;", "an integer ends in"},
    {"double y = 1.0f;", "expected"},
    {"int y = 3 % 2.0f;", "'%' of a real number"},
    /* vectors */
    {"slots.b[0] = four[4];", "a vector of 4 has no element 4"},
    {"thread float *y = &four[1];", "the address of a vector's element"},
    {"float4 y = int4(1);", "by itself"},
    {"float4 y = four * float4(two[0], 1.0f, 2.0f);", "a vector of 4 is made of 3 numbers"},
    {"float2 y = two * float2(1.0f);", "of vectors of different types"},
    {"float4 y = four < four ? four : four;", "select is meant"},
    {"if (four < four) far = 1L;", "a condition that is no one value"},
    {"float8 y;", "nothing is called 'float8'"},
    {"packed_bool2 y;", "nothing is called"},
    {"slots.b[0] = as_type<float>(far);", "as many bytes"},
    /* functions */
    {"far = min(far, 3);", "no function min takes these types"},
    {"row[0] = max(row[0], 0);", "no function max takes these types"},
    {"row[0] = fma(row[0], two[0], row[1]);", "no function fma takes these types"},
    {"row[0] = fma(row[0], row[1]);", "fma takes 3 arguments"},
    {"far = simd_shuffle(far, ushort(1));", "no function simd_shuffle takes these types"},
    {"row[0] = erf(row[0]);", "'erf' is no function of MSL 3.0"},
    {"row[0] = twice(row[0], row[1]);", "no function 'twice' takes 2 arguments"},
    {"turn(slots, shared, block_at, simdgroup);", "a kernel is called"},
    {"atomic_fetch_add_explicit((threadgroup atomic_float *)x, 1.0f, memory_order_relaxed);",
     "atomic_float is of device memory alone"},
    {"atomic_fetch_add_explicit((device atomic_float *)slots.b, 1.0f, memory_order_seq_cst);",
     "nothing is called 'memory_order_seq_cst'"},
    {"atomic_thread_fence(mem_flags::mem_device, memory_order_relaxed);", "no function of MSL 3.0"},
    {"simdgroup_matrix<float, 8, 8> y; simdgroup_load(y, slots.a, 8uL);", NULL},
    {"simdgroup_matrix<half, 8, 8> y; simdgroup_load(y, slots.a, 8uL);",
     "no function simdgroup_load takes these types"},
    {"simdgroup_matrix<float, 8, 8> y; simdgroup_load(y, row, 8uL);",
     "no function simdgroup_load takes these types"},
    {"simdgroup_matrix<int, 8, 8> y;", "of half, bfloat and float"},
    {"simdgroup_matrix<float, 16, 16> y;", "expected 8"},
    {"threadgroup float *const y = (threadgroup float *)(shared + 32764); // 2",
     "y ends at 32772 of 32768 bytes"},
    {"threadgroup float *const y = (threadgroup float *)(shared + 16384) + simdgroup * 4096; // "
     "4096",
     "y ends at 49152 of 32768 bytes"},
    {"threadgroup float *const y = (threadgroup float *)(shared + 2); // 2", "y is not aligned"},
    {"threadgroup float *const y = (threadgroup float *)(shared + 4);", "are not told"},
    /* what of C++ is not there */
    {"auto y = [](int a) { return a; };", "expected"},
    {"static int y = 1;", "expected"},
    {"goto end;", "expected"},
    {"device float *device *y;", "a pointer to a pointer"},
};

/* Whole texts, behind BEGIN. */
static const Case texts[] = {
    {ENTRY "}\n", NULL},
    {"constant float half_of_it = 0.5f;\n" ENTRY "}\n", NULL},
    {"float counter = 1.0f;\n", "not in constant memory"},
    {"constant float none;\n", "without a value"},
    {"int down(int a)\n{\n    return a ? down(a - 1) : 0;\n}\n", "'down' calls itself"},
    {"int there(int a);\nint here(int a)\n{\n    return there(a);\n}\n"
     "int there(int a)\n{\n    return here(a);\n}\n",
     "'here' calls itself"},
    {"float fmax(float a, float b)\n{\n    return a;\n}\n", "'fmax' is a function of the library"},
    {"float of(float *a)\n{\n    return a[0];\n}\n", "a pointer without an address space"},
    {"float of(threadgroup float a)\n{\n    return a;\n}\n", "a parameter lies in threadgroup"},
    {"float of(float a)\n{\n    threadgroup float b[4];\n    return a;\n}\n",
     "a threadgroup variable outside of a kernel"},
    {"device float *of(threadgroup float *a)\n{\n    return a;\n}\n",
     "return: a pointer to threadgroup memory becomes one to device memory"},
    {"float of(float a)\n{\n    return;\n}\n", "a function returns nothing"},
    {"kernel void k(device float *a [[buffer(31)]])\n{\n}\n", "index 31: there are 31"},
    {"kernel void k(device float *a [[buffer(3)]], device float *b [[buffer(3)]])\n{\n}\n",
     "index 3 is taken twice"},
    {"kernel void k(device float *a)\n{\n}\n", "without an attribute"},
    {"kernel void k(threadgroup float *a [[buffer(0)]])\n{\n}\n", "a buffer of threadgroup memory"},
    {"kernel void k(device float *a [[threadgroup(0)]])\n{\n}\n",
     "a threadgroup argument of device"},
    {"kernel void k(int a [[thread_index_in_simdgroup]])\n{\n}\n", "has another type"},
    {"kernel void k(uint a [[thread_index_in_warp]])\n{\n}\n", "is no attribute"},
    {"kernel void k(uint3 a [[threadgroup_position_in_grid]], uint2 b [[threadgroups_per_grid]])\n"
     "{\n}\n",
     "several widths"},
    {"kernel float k(device float *a [[buffer(0)]])\n{\n    return a[0];\n}\n",
     "a kernel returns something"},
    {"[[max_total_threads_per_threadgroup(2048)]] kernel void k(device float *a [[buffer(0)]])\n"
     "{\n}\n",
     "2048 threads"},
    {"struct s {\n    threadgroup float *a;\n};\n", "a member in, or of, threadgroup memory"},
    {"struct s {\n    float *a;\n};\n", "a pointer without an address space"},
    {"struct s {\n    int a;\n};\nstruct s {\n    int b;\n};\n", "a second struct 's'"},
    {"#include <vector>\n", "is no line of the preprocessor"},
    {"#error \"no\"\n", "is no line of the preprocessor"},
    {"void fence()\n{\n#if __METAL_VERSION__ < 320\n#error \"3.2\"\n#endif\n}\n", "'#error"},
    {"template <class T> T of(T a) { return a; }\n", "expected"},
};

static void check_version(const char *text, unsigned version, const char *says)
{
    char why[2000];
    const unsigned wrong = metal_lint(text, version, why, sizeof why);
    if (says && (!wrong || !strstr(why, says)))
        fail_msg("expected '%s', found '%s'\n%s", says, why, text);
    if (!says && wrong) fail_msg("%s\n%s", why, text);
}

static void check(const char *text, const char *says) { check_version(text, 300, says); }

/* What the versions of the language have in place of each other. */
static void test_versions(void **state)
{
    static const char ways[] =
        BEGIN "float of(ushort a)\n{\n#if __METAL_VERSION__ >= 310\n    return "
              "float(as_type<bfloat>(a));\n"
              "#else\n    return as_type<float>(uint(a) << 16);\n#endif\n}\n";
    static const char wrong_then[] = BEGIN
        "float of(float a)\n{\n#if __METAL_VERSION__ >= 310\n    return b;\n#else\n    return a;\n"
        "#endif\n}\n";
    static const char wrong_else[] = BEGIN
        "float of(float a)\n{\n#if __METAL_VERSION__ < 310\n    return b;\n#else\n    return a;\n"
        "#endif\n}\n";
    static const char early[] = BEGIN "void of()\n{\n    simdgroup_matrix<bfloat, 8, 8> m;\n}\n";
    (void)state;
    check_version(ways, 300, NULL);
    check_version(ways, 310, NULL);
    check_version(wrong_then, 300, NULL);
    check_version(wrong_then, 310, "b");
    check_version(wrong_else, 310, NULL);
    check_version(wrong_else, 300, "b");
    check_version(early, 300, "bfloat begins with MSL 3.1");
    check_version(early, 310, NULL);
}

static void test_lines(void **state)
{
    char text[4096];
    (void)state;
    for (size_t n = 0; n < sizeof lines / sizeof *lines; n++) {
        snprintf(text, sizeof text, BEGIN ENTRY LOCALS "    %s\n}\n", lines[n].text);
        check(text, lines[n].says);
    }
}

static void test_texts(void **state)
{
    char text[4096];
    (void)state;
    for (size_t n = 0; n < sizeof texts / sizeof *texts; n++) {
        snprintf(text, sizeof text, BEGIN "%s", texts[n].text);
        check(text, texts[n].says);
    }
}

/* A block of more slots than a launch can hand over. */
static void test_slots(void **state)
{
    char text[32000] = "struct s {\n";
    (void)state;
    for (int n = 0; n < 513; n++)
        snprintf(text + strlen(text), 64, "    long stride_of_a_long_name_%d;\n", n);
    strcat(text, "};\n");
    check(text, "a parameter block of 4104 bytes: setBytes takes 4096");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lines), cmocka_unit_test(test_texts),
                                       cmocka_unit_test(test_slots),
                                       cmocka_unit_test(test_versions)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
