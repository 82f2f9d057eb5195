/* metal_test.c - the double of Metal against planted mistakes: what the shim is for is found, and only that. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "metal_compile.h"
#include "metal_double.h"
#include "metal_texts.h"

#define HEAD                                                                                       \
    "#include <metal_stdlib>\nusing namespace metal;\n"                                            \
    "struct turn_slots {\n    device const float *a;\n    device float *b;\n    alignas(8) int "   \
    "n;\n};\n"                                                                                     \
    "[[max_total_threads_per_threadgroup(64)]] kernel void turn(\n"                                \
    "    constant turn_slots &slots [[buffer(0)]], threadgroup uchar *shared "                     \
    "[[threadgroup(0)]],\n"                                                                        \
    "    uint3 block_at [[threadgroup_position_in_grid]], uint3 grid_blocks "                      \
    "[[threadgroups_per_grid]],\n"                                                                 \
    "    uint simdgroup [[simdgroup_index_in_threadgroup]], uint thread_in_simdgroup "             \
    "[[thread_index_in_simdgroup]])\n"                                                             \
    "{\n    threadgroup float *const x = (threadgroup float *)shared;\n"                           \
    "    const int me = int(simdgroup * 32 + thread_in_simdgroup);\n"
#define BARRIER "    threadgroup_barrier(mem_flags::mem_threadgroup);\n"
#define FILL    "    x[me] = slots.a[me];\n"
#define GIVE    "    slots.b[me] = x[63 - me];\n"
#define OWN     "    simdgroup_barrier(mem_flags::mem_threadgroup);\n"
#define OTHER   "    const float y = x[me ^ 31];\n"
#define HALVES  "    threadgroup packed_half2 *const h = (threadgroup packed_half2 *)shared;\n"
#define FAR                                                                                        \
    "    device const half *const p = (device const half *)slots.a;\n    const int at = 2 * me + " \
    "2;\n"
#define PAIRS "    threadgroup ushort *const c = (threadgroup ushort *)shared;\n"

typedef struct Case {
    const char *body, *says; /* what is found; NULL: nothing, b is a turned round */
    unsigned shared;
} Case;

static const Case cases[] = {
    {FILL BARRIER GIVE "}\n", NULL, 256},
    {FILL GIVE "}\n", "threadgroup memory is ", 256},
    {FILL "    simdgroup_barrier(mem_flags::mem_threadgroup);\n" GIVE "}\n",
     "threadgroup memory is ", 256},
    {"    if (me < 63) x[me] = slots.a[me];\n" BARRIER GIVE "}\n", "nobody has written", 256},
    {FILL BARRIER GIVE "}\n", "written outside of every buffer", 128},
    {"    x[me] = slots.a[me + 1];\n" BARRIER GIVE "}\n", "read outside of every buffer", 256},
    {FILL BARRIER "    slots.b[me + slots.n] = x[63 - me];\n}\n", "written outside of every buffer",
     256},
    {FILL "    if (simdgroup == 0)\n    " BARRIER GIVE "}\n", "threadgroup memory is ", 256},
    {FILL BARRIER "    if (simdgroup == 0)\n    " BARRIER GIVE "}\n", "do not come together", 256},
    {FILL BARRIER "    if (me != 5)\n    " BARRIER GIVE "}\n", "do not come together", 256},
    {FILL BARRIER "    float y = x[63 - me];\n    if (me & 1) y = simd_shuffle_xor(y, 1);\n    "
                  "slots.b[me] = y;\n}\n",
     "do not come together", 256},
    {FILL "    if (simdgroup == 0)\n    " BARRIER
          "    else\n        simdgroup_barrier(mem_flags::mem_threadgroup);\n" GIVE "}\n",
     "", 256},
    /* Of a simdgroup's threads. */
    {FILL OWN OTHER BARRIER "    x[me ^ 31] = y;\n" BARRIER GIVE "}\n", NULL, 256},
    {FILL OTHER BARRIER "    x[me ^ 31] = y;\n" BARRIER GIVE "}\n", "threadgroup memory is ", 256},
    {FILL BARRIER OTHER "    x[me] = y;\n}\n", "threadgroup memory is ", 256},
    {FILL BARRIER OTHER OWN "    x[me] = y;\n" BARRIER "    slots.b[me ^ 31] = x[63 - me];\n}\n",
     NULL, 256},
    {FILL BARRIER "    const float y = me < 32 ? x[0] : 0.0f;\n    if (me == 5) x[0] = y;\n}\n",
     "threadgroup memory is ", 256},
    /* Less than four bytes: what neighbours do is told apart, also of memory that was touched by words before. */
    {"    shared[me] = uchar(me);\n" BARRIER "    slots.b[me] = float(shared[63 - me]);\n}\n", NULL,
     64},
    {"    shared[me] = uchar(me);\n    slots.b[me] = float(shared[63 - me]);\n}\n",
     "threadgroup memory is ", 64},
    {PAIRS FILL BARRIER "    c[me] = ushort(slots.a[me]);\n" BARRIER
                        "    slots.b[me] = float(c[63 - me]);\n}\n",
     NULL, 256},
    {PAIRS FILL BARRIER
     "    c[me] = ushort(slots.a[me]);\n    slots.b[me] = float(c[63 - me]);\n}\n",
     "threadgroup memory is ", 256},
    {FILL "    slots.b[me] = float(shared[(me ^ 1) * 4]);\n}\n", "threadgroup memory is ", 256},
    {PAIRS "    c[2 * me] = 1;\n" BARRIER "    slots.b[me] = x[me];\n}\n", "nobody has written",
     256},
    {PAIRS "    c[2 * me] = 1;\n" BARRIER
           "    slots.b[63 - me] = float(c[2 * me]) * float(me);\n}\n",
     NULL, 256},
    /* Vectors are one access. */
    {"    const float4 y = float4(*(device const packed_float4 *)(slots.a + me));\n    slots.b[me] "
     "= y[0];\n}\n",
     "16 bytes", 256},
    {"    *(device packed_float4 *)(slots.b + me) = packed_float4(float4(0.0f));\n}\n",
     "written outside of every buffer", 256},
    {PAIRS "    c[2 * me] = 1;\n" BARRIER
           "    const half2 y = half2(*((threadgroup const packed_half2 *)shared + me));\n"
           "    slots.b[me] = float(y[0]);\n}\n",
     "nobody has written", 256},
    {FILL "    *(threadgroup packed_float4 *)(x + (me & 60)) = packed_float4(float4(1.0f));\n}\n",
     "threadgroup memory is written", 256},
    {HALVES "    h[me] = packed_half2(half2(half(0.0f), half(slots.a[me])));\n" BARRIER
            "    const half2 y = half2(h[63 - me]);\n    slots.b[me] = float(y[1]);\n}\n",
     NULL, 256},
    {HALVES "    h[me] = packed_half2(half2(half(0.0f), half(slots.a[me])));\n"
            "    const half2 y = half2(h[63 - me]);\n    slots.b[me] = float(y[1]);\n}\n",
     "threadgroup memory is ", 256},
    {"    threadgroup half *const h = (threadgroup half *)shared;\n    h[me] = "
     "half(slots.a[me]);\n" BARRIER
     "    const half y = h[63 - me];\n    slots.b[me] = float(y);\n}\n",
     NULL, 128},
    {"    threadgroup half *const h = (threadgroup half *)shared;\n    h[me] = half(slots.a[me]);\n"
     "    const half y = h[63 - me];\n    slots.b[me] = float(y);\n}\n",
     "threadgroup memory is ", 128},
    /* Each way in which a half comes from memory; the last is not there. */
    {FAR "    slots.b[me] = float(p[at]);\n}\n", "2 bytes", 256},
    {FAR "    slots.b[me] = float(half2(p[at], p[0])[0]);\n}\n", "2 bytes", 256},
    {FAR "    slots.b[me] = float(half2(p[0], p[at])[0]);\n}\n", "2 bytes", 256},
    {FAR "    slots.b[me] = float(half2(p[at])[0]);\n}\n", "2 bytes", 256},
    {FAR "    slots.b[me] = float(half4(p[0], p[0], p[0], p[at])[0]);\n}\n", "2 bytes", 256},
    {FAR "    slots.b[me] = float(half4(p[at])[1]);\n}\n", "2 bytes", 256},
    {FAR "    slots.b[me] = float(simd_shuffle(p[at], ushort(0)));\n}\n", "2 bytes", 256},
    {FAR "    slots.b[me] = float(simd_shuffle_xor(p[at], 1));\n}\n", "2 bytes", 256},
    {FAR "    slots.b[me] = float(as_type<ushort>(p[at]));\n}\n", "2 bytes", 256},
    {FAR "    slots.b[me] = float(me < 64 ? p[at] : half(0.0f));\n}\n", "2 bytes", 256},
    {FAR "    slots.b[me] = float(int(p[at]));\n}\n", "2 bytes", 256},
    {FAR "    const half y = p[at];\n    slots.b[me] = float(y);\n}\n", "2 bytes", 256},
    {FAR "    ((device half *)slots.b)[at] = half(1.0f);\n}\n", "2 bytes", 256},
};

static void run_case(const Case *c)
{
    char text[4096], why[4096] = "";
    float a[64], b[64];
    snprintf(text, sizeof text, HEAD "%s", c->body);
    MetalText *compiled = metal_compile(text, 300, why, sizeof why);
    if (!compiled) fail_msg("%s\n%s", why, text);
    for (int n = 0; n < 64; n++) a[n] = (float)n, b[n] = -1;
    struct {
        const float *a;
        float *b;
        int64_t n;
    } slots = {a, b, 1};
    /* The arrays lie side by side on the stack: what goes over the end of one must not hit the other by luck. */
    const ShimBuffer buffers[] = {{(uintptr_t)a, sizeof a}, {(uintptr_t)b, sizeof b}};
    float *apart = malloc(4096);
    slots.b = apart;
    const ShimBuffer far[] = {buffers[0], {(uintptr_t)apart, sizeof b}};
    const ShimLaunch launch = {.kernel = "turn",
                               .slots = &slots,
                               .slot_bytes = sizeof slots,
                               .shared_bytes = c->shared,
                               .grid = {1, 1, 1},
                               .threads = 64,
                               .buffers = far,
                               .buffer_count = 2};
    const int wrong = metal_run(compiled, &launch, why, sizeof why);
    if (c->says && (!wrong || !strstr(why, c->says)))
        fail_msg("expected '%s', found '%s'\n%s", c->says, why, text);
    if (!c->says && wrong) fail_msg("%s\n%s", why, text);
    for (int n = 0; n < 64 && !c->says; n++) assert_true(apart[n] == (float)(63 - n));
    free(apart);
    metal_forget(compiled);
}

static void test_planted(void **state)
{
    (void)state;
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) run_case(&cases[n]);
}

/* Wrong text, and a name that the shim does not know. */
static void test_refused(void **state)
{
    char why[4096] = "";
    (void)state;
    assert_null(metal_compile(HEAD
                              "    threadgroup float *y = slots.b;\n    device float *z = x;\n}\n",
                              300, why, sizeof why));
    assert_non_null(strstr(why, "volatile"));
}

/* A text is compiled once: without a compiler it is found again, and no other. */
static void test_kept(void **state)
{
    char text[4096], why[4096] = "", path[METAL_PATH];
    (void)state;
    snprintf(text, sizeof text, HEAD FILL BARRIER GIVE "}\n// %ld\n", (long)getpid());
    if (!metal_text_place(text, "", ".so", path, sizeof path))
        skip(); /* a build folder that nobody may write */
    char *search = strdup(getenv("PATH"));
    metal_forget(metal_compile(text, 300, why, sizeof why));
    setenv("PATH", "/nowhere", 1);
    MetalText *again = metal_compile(text, 300, why, sizeof why),
              *other = metal_compile(text, 310, why, sizeof why);
    setenv("PATH", search, 1);
    free(search);
    assert_non_null(again);
    if (METAL_CXX[0] != '/') assert_null(other);
    metal_forget(again), metal_forget(other);
}

static void test_places(void **state)
{
    char one[METAL_PATH], other[METAL_PATH];
    (void)state;
    if (!metal_text_place("a", "b", ".so", one, sizeof one)) skip();
    metal_text_place("a", "b", ".so", other, sizeof other);
    assert_string_equal(one, other);
    metal_text_place("ab", "", ".so", other, sizeof other);
    assert_string_not_equal(one, other);
    metal_text_place("a", "c", ".so", other, sizeof other);
    assert_string_not_equal(one, other);
}

static void test_room(void **state)
{
    enum { FILES = 5, STAY = 3 };
    char folder[] = "/tmp/aule-metal-XXXXXX", path[64];
    (void)state;
    assert_non_null(mkdtemp(folder));
    for (int n = 0; n < FILES; n++) {
        snprintf(path, sizeof path, "%s/%d.so", folder, n);
        close(open(path, O_CREAT | O_WRONLY, 0600));
        const struct timespec when = {1000 - n, 0};
        utimensat(AT_FDCWD, path, (struct timespec[]){when, when}, 0);
    }
    snprintf(path, sizeof path, "%s/%d.so", folder, FILES - 1);
    metal_text_used(path); /* the oldest is the newest now */
    metal_text_make_room(folder, ".so", STAY);
    for (int n = 0; n < FILES; n++) {
        snprintf(path, sizeof path, "%s/%d.so", folder, n);
        assert_int_equal(access(path, F_OK) == 0, n < STAY - 1 || n == FILES - 1);
        unlink(path);
    }
    rmdir(folder);
}

/* The letter of a type, as Objective-C's own encoding has it where it has one. */
static char letter_of(const char *type, size_t length)
{
    static const struct {
        const char *type;
        char letter;
    } all[] = {{"MetalId", '@'},   {"uint64_t", 'Q'},   {"int64_t", 'q'}, {"MetalBool", 'B'},
               {"double", 'd'},    {"void", 'v'},       {"uint8_t", 'C'}, {"const char *", '*'},
               {"MetalSize", 'S'}, {"MetalRange", 'R'}, {"void *", '^'},  {"const void *", '^'},
               {"MetalId *", '^'}, {"MetalSel", ':'}};
    for (size_t n = 0; n < sizeof all / sizeof *all; n++)
        if (strlen(all[n].type) == length && strncmp(all[n].type, type, length) == 0)
            return all[n].letter;
    fail_msg("a type without a letter: %s", type);
    return 0;
}

/* Of "(MetalId, MetalSel, uint64_t)" "@:Q". */
static void letters_of(const char *types, char *letters)
{
    for (const char *at = types; *at && *at != ')';) {
        at += strspn(at, "(, ");
        const size_t length = strcspn(at, ",)");
        *letters++ = letter_of(at, length);
        at += length;
    }
    *letters = 0;
}

/* What the backend's calls are typed by has the types that the double has of Apple's documents. */
static void test_messages(void **state)
{
    static const struct {
        const char *selector, *result, *types;
    } ours[] = {
#define MESSAGE(name, selector, result, arguments) {selector, #result, #arguments},
#include "../../runtime/backends/metal_api.def"
    };
    unsigned count;
    const MetalDoubleMessage *theirs = metal_double_messages(&count);
    (void)state;
    for (size_t n = 0; n < sizeof ours / sizeof *ours; n++) {
        char letters[16];
        unsigned found = 0;
        letters_of(ours[n].types, letters);
        for (unsigned k = 0; k < count; k++) {
            if (strcmp(theirs[k].selector, ours[n].selector) != 0) continue;
            found++;
            assert_int_equal(letter_of(ours[n].result, strlen(ours[n].result)), theirs[k].types[0]);
            assert_memory_equal(letters, "@:", 2);
            assert_string_equal(letters + 2, theirs[k].types + 1);
        }
        if (!found) fail_msg("nobody has %s", ours[n].selector);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_planted), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_kept),    cmocka_unit_test(test_places),
        cmocka_unit_test(test_room),    cmocka_unit_test(test_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
