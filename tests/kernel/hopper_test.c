/* A forward for Hopper, written by hand (examples/hopper_forward.kernel): it computes softmax(Q K') V
 * in many schedules, and none of its waits, fences, arrivals and copies can be left out unseen. */
#include "deletions.h"

#include <math.h>
#include <stdlib.h>

enum { QUERIES = 100, KEYS = 248, WIDTH = 64, HEADS = 2 };
static uint16_t q[HEADS * QUERIES * WIDTH], k[HEADS * KEYS * WIDTH], v[HEADS * KEYS * WIDTH],
    o[HEADS * QUERIES * WIDTH];
static float wanted[HEADS * QUERIES * WIDTH];

static void fill(uint16_t *to, uint32_t count, uint32_t seed, float scale, float middle)
{
    for (uint32_t n = 0; n < count; n++) {
        seed = seed * 1664525 + 1013904223;
        to[n] = kernel_to_bf16(middle + ((float)(seed >> 8) / 0x1p23f - 1) * scale);
    }
}

static double dot(const uint16_t *a, const uint16_t *b)
{
    double sum = 0;
    for (uint32_t d = 0; d < WIDTH; d++)
        sum += (double)kernel_from_bf16(a[d]) * (double)kernel_from_bf16(b[d]);
    return sum;
}

static void one_row(uint32_t head, uint32_t row)
{
    const uint32_t at = (head * QUERIES + row) * WIDTH;
    double weight[KEYS], most = -INFINITY, total = 0, out[WIDTH] = {0};
    for (uint32_t j = 0; j < KEYS; j++) {
        weight[j] = dot(q + at, k + (head * KEYS + j) * WIDTH) / sqrt(WIDTH);
        most = fmax(most, weight[j]);
    }
    for (uint32_t j = 0; j < KEYS; j++) {
        weight[j] = exp(weight[j] - most);
        total += weight[j];
        for (uint32_t e = 0; e < WIDTH; e++)
            out[e] += weight[j] * (double)kernel_from_bf16(v[(head * KEYS + j) * WIDTH + e]);
    }
    for (uint32_t e = 0; e < WIDTH; e++) wanted[at + e] = (float)(out[e] / total);
}

static int plain_formula(void **state)
{
    (void)state;
    fill(q, HEADS * QUERIES * WIDTH, 1, 1.5f, 0);
    fill(k, HEADS * KEYS * WIDTH, 2, 1.5f, 0);
    fill(v, HEADS * KEYS * WIDTH, 3, 1, 1);
    for (uint32_t head = 0; head < HEADS; head++)
        for (uint32_t row = 0; row < QUERIES; row++) one_row(head, row);
    return 0;
}

static void prepare(AuKRun *run)
{
    static AuKBuffer buffers[5] = {{q, HEADS * QUERIES * WIDTH, true},
                                   {k, HEADS * KEYS * WIDTH, true},
                                   {v, HEADS * KEYS * WIDTH, true},
                                   {o, HEADS * QUERIES * WIDTH, false}};
    static const AuKMap maps[4] = {{{WIDTH, QUERIES, HEADS}, {1, WIDTH, QUERIES * WIDTH}},
                                   {{WIDTH, KEYS, HEADS}, {1, WIDTH, KEYS * WIDTH}},
                                   {{WIDTH, KEYS, HEADS}, {1, WIDTH, KEYS * WIDTH}},
                                   {{WIDTH, QUERIES, HEADS}, {1, WIDTH, QUERIES * WIDTH}}};
    static const uint64_t slots[5] = {0, 0, 0, 0, KEYS};
    run->buffers = buffers;
    run->slots = slots;
    run->maps = maps;
    run->grid[1] = HEADS;
}

/* Results near 1 are rounded to bf16, by up to 2^-8, and so are weights, whose errors average out. */
static bool is_right(const AuKRun *run)
{
    (void)run;
    for (uint32_t n = 0; n < HEADS * QUERIES * WIDTH; n++)
        if (!(fabsf(kernel_from_bf16(o[n]) - wanted[n]) < 0.008f)) return false;
    return true;
}

static const char *example(Bench *b)
{
    FILE *file = fopen(AU_EXAMPLES "/hopper_forward.kernel", "rb");
    if (!file) fail_msg("the example cannot be read");
    AuText text = {.arena = b->arena};
    char part[4096];
    for (size_t n; (n = fread(part, 1, sizeof part, file)) > 0;) au_text_bytes(&text, part, n);
    fclose(file);
    return au_text_str(&text);
}

static void forward_needs_every_line(void **state)
{
    (void)state;
    Bench b = bench_new();
    const char *seeds = getenv("AULE_TEST_SEEDS");
    const Subject subject = {example(&b), prepare, is_right,
                             seeds ? (uint32_t)strtoul(seeds, NULL, 10) : 1};
    assert_int_equal(try_deletions(&subject), 68);
    bench_free(&b);
}

static void forward_is_right_in_many_schedules(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 6; seed++) {
        Bench b = bench_new();
        const Subject subject = {example(&b), prepare, is_right, 0};
        const char *why = outcome(&b, &subject, subject.text, seed);
        if (why) fail_msg("seed %d: %s", (int)seed, why);
        bench_free(&b);
    }
}

static void text_and_passes_keep_it(void **state)
{
    (void)state;
    Bench b = bench_new();
    AuKernel *kernel = bench_kernel(&b, example(&b));
    const char *printed = bench_print(&b, kernel);
    assert_string_equal(bench_print(&b, bench_kernel(&b, printed)), printed);
    for (uint32_t pass = 0; pass < 2; pass++) {
        AuKRun run = {.grid = {1, 1, 1}, .seed = pass, .check_all_written = true};
        const char *why = NULL;
        if (pass == 0)
            kernel_simplify(kernel);
        else
            kernel_unroll(kernel, 4000);
        assert_true(kernel_verify(kernel, b.diags));
        prepare(&run);
        if (!kernel_run(kernel, &run, b.arena, &why)) fail_msg("%s", why);
        assert_true(is_right(&run));
    }
    bench_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward_is_right_in_many_schedules),
        cmocka_unit_test(text_and_passes_keep_it),
        cmocka_unit_test(forward_needs_every_line),
    };
    return cmocka_run_group_tests(tests, plain_formula, NULL);
}
