/* shapes_test.c - every key of every schedule with small, large and odd values, on a processor, on OpenCL and on matrix units: kernels come
 * of it, or an error at the row that names what was written and says with what it does, which then does. Nothing ends in an error from
 * inside. */
#include "aule/aulec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char script[] = "attention a {\n"
                             "    q: [B, H, S, D];\n"
                             "    k: [B, H, T, D];\n"
                             "    v: [B, H, T, D];\n"
                             "    mask(b, h, i, j) = j <= q_pos;\n"
                             "    online softmax;\n"
                             "}\n";

typedef struct Key {
    const char *schedule, *name;
    int least, most;
} Key;
static const Key keys[] = {
#define KEY(schedule, name, member, least, most) {schedule, name, least, most},
#include "shape_keys.def"
};
enum { KEYS = sizeof keys / sizeof *keys };

typedef struct Machine {
    const char *schedules, *target, *arch, *dtype;
} Machine;
static const Machine machines[] = {
    {"lanes", "cpu", "x86-64-v3", "f32"},
    {"lanes", "opencl", "generic", "f32"},
    {"warps", "cuda", "sm_90", "bf16"},
    {"warps", "metal", "apple9", "f16"},
};
enum { MACHINES = sizeof machines / sizeof *machines };

/* Few queries with keys in parts are for processors, or for warps; kernels of few queries beside many have the shapes that are asked of each; of Apple's, those that
 * no other machine has. */
static bool is_made_on(const Key *key, const Machine *m)
{
    return strncmp(key->schedule, m->schedules, 5) == 0 && !strstr(key->schedule, "_mixed") &&
           (strcmp(key->schedule, "warps_back_far") == 0) == (strcmp(m->target, "metal") == 0) &&
           (strcmp(key->schedule, "lanes_decode") != 0 || strcmp(m->target, "cpu") == 0) &&
           (strcmp(key->schedule, "lanes_packed") != 0 || strcmp(m->target, "cpu") != 0);
}

/* The diagnostics, "" if there are kernels. */
static aulec_status make(const Machine *m, const char *row, char *said, size_t room)
{
    aulec_result *result;
    const aulec_options options = {.struct_size = sizeof options,
                                   .targets = m->target,
                                   .archs = m->arch,
                                   .dtypes = m->dtype,
                                   .widths = strstr(row, "warps_wide") ? "D=384" : "D=64",
                                   .no_gradients = strstr(row, "_forward") ||
                                                   strstr(row, "_append") ||
                                                   strstr(row, "warps_wide"),
                                   .append = strstr(row, "_append") != NULL,
                                   .emit = AULEC_EMIT_KERNEL_IR,
                                   .shape = row};
    const aulec_status status = aulec_compile("a.attn", script, strlen(script), &options, &result);
    snprintf(said, room, "%s", aulec_result_diagnostics(result));
    aulec_result_free(result);
    return status;
}

/* "with keys=64 it does": does it? */
static bool is_true(const Machine *m, const char *schedule, const char *said)
{
    char row[100], ignored[2000];
    const char *with = strstr(said, "note: with "), *end = with ? strstr(with, " it does") : NULL;
    if (!end || strstr(with, " or ")) return false; /* one key was given, so one can be changed */
    with += strlen("note: with ");
    snprintf(row, sizeof row, "%s: %.*s", schedule, (int)(end - with), with);
    return make(m, row, ignored, sizeof ignored) == AULEC_OK;
}

static bool try(const Machine *m, const Key *key, int value)
{
    char row[100], said[4000], expected[200];
    snprintf(row, sizeof row, "%s: %s=%d", key->schedule, key->name, value);
    snprintf(expected, sizeof expected, "<shape>:1:1: error E0811: %s does not do for %s ", row,
             m->dtype);
    const aulec_status status = make(m, row, said, sizeof said);
    if (status == AULEC_OK) return true;
    if (status != AULEC_ERROR_USAGE || strncmp(said, expected, strlen(expected)) != 0 ||
        !is_true(m, key->schedule, said))
        fail_msg("%s on %s: %s", row, m->arch, said);
    return false;
}

static void test_each_key(void **state)
{
    static const int values[] = {1, 3, 17, 48};
    uint32_t made = 0, refused = 0;
    (void)state;
    for (uint32_t m = 0; m < MACHINES; m++)
        for (uint32_t k = 0; k < KEYS; k++) {
            if (!is_made_on(&keys[k], &machines[m])) continue;
            for (uint32_t n = 0; n <= 4; n++) {
                const int value = n == 4 ? keys[k].most : values[n];
                if (value < keys[k].least || (value >= keys[k].most && n < 4)) continue;
                *(try(&machines[m], &keys[k], value) ? &made : &refused) += 1;
            }
        }
    assert_in_range(made, 60, 200);
    assert_in_range(refused, 30, 200);
}

/* Several keys that no change of one makes good; a schedule for which there is no use. */
static void test_rows(void **state)
{
    static const struct {
        uint32_t machine;
        const char *row, *words[3];
    } all[] = {
        {1,
         "lanes_backward: keys=1024 queries=1024",
         {"E0811", "lanes_backward: keys=1024 queries=1024 does not do",
          "the compiler's own is lanes_backward: "}},
        {0,
         "warps_forward: keys=64",
         {"no matrix unit for operands of f32", "the compiler's own is lanes_forward: "}},
        {0,
         "lanes_forward: executors=17 keys=9",
         {"17 executors where a block has one", "with executors=1 it does"}},
        {0, "", {"error E0601: there is no row"}},
        {0, "# none\n", {"error E0601: there is no row"}},
        {0,
         "lanes_forward: keys=32\nlanes_forward: keys=64",
         {"<shape>:2:1: error E0601: a shape of lanes_forward is given twice"}},
        {0,
         "warps_backward: keys=64\n",
         {"'keys' is no key of warps_backward; expected warps, rows"}},
        {0,
         "lanes_forward: keys=32\nwarps_backward: queries=64",
         {"<shape>:2:1: error E0601: warps_backward makes no kernel here"}},
        {0, "group_forward: stages=2", {"error E0601: group_forward makes no kernel here"}},
        {2, "group_backward: held=0", {"error E0601: group_backward makes no kernel here"}},
    };
    char said[4000];
    (void)state;
    for (uint32_t n = 0; n < sizeof all / sizeof *all; n++) {
        const Machine *m = &machines[all[n].machine];
        assert_int_equal(make(m, all[n].row, said, sizeof said), AULEC_ERROR_USAGE);
        for (uint32_t w = 0; w < 3 && all[n].words[w]; w++)
            if (!strstr(said, all[n].words[w])) fail_msg("no '%s' in %s", all[n].words[w], said);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_key),
                                       cmocka_unit_test(test_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
