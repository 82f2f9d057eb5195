/* run_test.c - every example under random schedules, shapes and attentions against the reference. The argument is the number of
 * schedules; the first five of each are run twice and must agree bit for bit. */
#include "families.h"

#include <stdio.h>

static int schedules = 3;

static void run_example(const char *file, bool twice)
{
    double worst = 0;
    for (int n = 0; n < schedules; n++) {
        Session s = session_begin();
        const Trial t = {.file = file, .number = n, .twice = twice && n < 5};
        const Outcome out = run_trial(&s, &t);
        if (out.failed != PASSED) fail_msg("%s, schedule %d: %s", file, n, out.message);
        worst = out.worst > worst ? out.worst : worst;
        session_end(&s);
    }
    print_message("%-26s %3d schedules, worst error %.2f of the bound\n", file, schedules, worst);
}

static void test_example(void **state) { run_example(*state, true); }

/* Sums into memory commute, but not bit for bit. */
static void test_backward(void **state) { run_example(*state, false); }

int main(int argc, char **argv)
{
    if (argc > 1) schedules = atoi(argv[1]);
    struct CMUnitTest tests[EXAMPLE_COUNT] = {{0}};
    for (size_t i = 0; i < EXAMPLE_COUNT; i++) {
        const bool sums = strstr(example_names[i], "backward") != NULL;
        tests[i] = (struct CMUnitTest){example_names[i], sums ? test_backward : test_example, NULL,
                                       NULL, (void *)(uintptr_t)example_names[i]};
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
