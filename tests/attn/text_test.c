/* text_test.c - the text form: what is printed reads back equal, and broken texts are refused, all errors in one run. */
#include "support.h"

#include <stdio.h>
#include <string.h>

static const char *const files[] = {"mha.air", "everything.air", "gated_delta_net.air"};

/* A golden text is what its attention prints: the form is stable. */
static void test_golden(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        Bench b = bench_new();
        const char *text = bench_file(&b, files[i]);
        bench_expect(&b, files[i], bench_print(&b, bench_read(&b, text)));
        bench_free(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_golden)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
