/* Which devices the demo runs a module on (demo/call.c): those that have all words of one variant's features; of others it says what the module
 * was compiled for and what they are. */
#include "case.h"

#include "../../demo/call.h"

#include <string.h>

static aule_device_info device(const char *backend, const char *driver, const char *features)
{
    return (aule_device_info){.struct_size = sizeof(aule_device_info),
                              .backend = backend,
                              .name = "A device",
                              .driver = driver,
                              .features = features};
}

static void test_fits(void **state)
{
    static const struct {
        const char *backend, *features, *said; /* NULL: it is for the device */
    } rows[] = {
        {"cuda", "sm_80 ptx71 ptx70", NULL},
        {"cuda", "ptx87 ptx70  sm_80", NULL},
        {"cuda", "sm_80",
         "compiled for sm_70 sm_72 sm_75 sm_80 sm_86 sm_87 sm_90 sm_120, not for A device (D 1)"},
        {"cuda", "sm_801 ptx70 sm_8",
         "compiled for sm_70 sm_72 sm_75 sm_80 sm_86 sm_87 sm_90 sm_120, not for A device (D 1)"},
        {"cuda", "",
         "compiled for sm_70 sm_72 sm_75 sm_80 sm_86 sm_87 sm_90 sm_120, not for A device (D 1)"},
        {"hip", "gfx1030 gfx10-3-generic", "nothing was compiled for hip"},
    };
    const Fixture *f = *state;
    for (size_t n = 0; n < sizeof rows / sizeof *rows; n++) {
        const aule_device_info info = device(rows[n].backend, "D 1", rows[n].features);
        AuWhy why = {""};
        assert_int_equal(call_fits(f->module, &info, &why), !rows[n].said);
        if (rows[n].said) assert_string_equal(why.text, rows[n].said);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_fits)};
    return cmocka_run_group_tests(tests, fixture_open, fixture_close);
}
