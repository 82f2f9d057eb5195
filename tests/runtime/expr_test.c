/* Launch expressions: each operation on integers and floats, and what must be refused. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "aule/aule.h"

static const int64_t sizes[] = {10, -7};
static const aule_value params[] = {{.type = AULE_VALUE_FLOAT, .f = 0.5},
                                    {.type = AULE_VALUE_INT, .i = 3}};

#define SIZE(i)  (AULE_E_SIZE | (uint32_t)(i) << 8)
#define PARAM(i) (AULE_E_PARAM | (uint32_t)(i) << 8)
#define INT(i)   AULE_E_CONST_INT, (uint32_t)(i), ((i) < 0 ? UINT32_MAX : 0)
#define EVALUATE(value, error, ...)                                                                \
    evaluate((const uint32_t[]){__VA_ARGS__}, sizeof((const uint32_t[]){__VA_ARGS__}) / 4, value,  \
             error)

static aule_status evaluate(const uint32_t *code, size_t length, aule_value *value,
                            aule_error **error)
{
    aule_expr expr = {code, (uint32_t)length};
    return aule_evaluate(&expr, sizes, 2, params, 2, value, error);
}

#define EXPECT_INT(expected, ...)                                                                  \
    do {                                                                                           \
        aule_value found;                                                                          \
        assert_int_equal(EVALUATE(&found, NULL, __VA_ARGS__), AULE_OK);                            \
        assert_int_equal(found.type, AULE_VALUE_INT);                                              \
        assert_true(found.i == (expected));                                                        \
    } while (0)

#define EXPECT_FLOAT(expected, ...)                                                                \
    do {                                                                                           \
        aule_value found;                                                                          \
        assert_int_equal(EVALUATE(&found, NULL, __VA_ARGS__), AULE_OK);                            \
        assert_int_equal(found.type, AULE_VALUE_FLOAT);                                            \
        assert_true(fabs(found.f - (expected)) <= 1e-15 * fabs(expected));                         \
    } while (0)

#define EXPECT_ERROR(status, text, ...)                                                            \
    do {                                                                                           \
        aule_value found;                                                                          \
        aule_error *error = NULL;                                                                  \
        assert_int_equal(EVALUATE(&found, &error, __VA_ARGS__), status);                           \
        assert_non_null(strstr(aule_error_message(error), text));                                  \
        aule_error_free(error);                                                                    \
    } while (0)

static void test_integers(void **state)
{
    (void)state;
    EXPECT_INT(10, SIZE(0));
    EXPECT_INT(3, SIZE(0), SIZE(1), AULE_E_ADD);
    EXPECT_INT(17, SIZE(0), SIZE(1), AULE_E_SUB);
    EXPECT_INT(-70, SIZE(0), SIZE(1), AULE_E_MUL);
    EXPECT_INT(-2, SIZE(0), SIZE(1), AULE_E_DIV); /* floors */
    EXPECT_INT(-4, SIZE(0), SIZE(1), AULE_E_MOD);
    EXPECT_INT(-3, SIZE(1), PARAM(1), AULE_E_DIV);
    EXPECT_INT(2, SIZE(1), PARAM(1), AULE_E_MOD);
    EXPECT_INT(3, SIZE(0), PARAM(1), AULE_E_DIV);
    EXPECT_INT(1, SIZE(0), PARAM(1), AULE_E_MOD);
    EXPECT_INT(0, SIZE(0), INT(-1), AULE_E_MOD);
    EXPECT_INT(7, SIZE(1), AULE_E_NEG);
    EXPECT_INT(7, SIZE(1), AULE_E_ABS);
    EXPECT_INT(-7, SIZE(0), SIZE(1), AULE_E_MIN);
    EXPECT_INT(10, SIZE(0), SIZE(1), AULE_E_MAX);
    EXPECT_INT(0, SIZE(0), SIZE(1), AULE_E_LT);
    EXPECT_INT(1, SIZE(0), SIZE(0), AULE_E_LE);
    EXPECT_INT(1, SIZE(0), INT(10), AULE_E_EQ);
    EXPECT_INT(1, SIZE(0), SIZE(1), AULE_E_NE);
    EXPECT_INT(1, SIZE(0), SIZE(1), AULE_E_AND);
    EXPECT_INT(1, SIZE(0), INT(0), AULE_E_OR);
    EXPECT_INT(0, SIZE(0), AULE_E_NOT);
    EXPECT_INT(10, INT(1), SIZE(0), SIZE(1), AULE_E_SELECT);
    EXPECT_INT(-7, INT(0), SIZE(0), SIZE(1), AULE_E_SELECT);
    EXPECT_INT(1ll << 33, AULE_E_CONST_INT, 0, 2);
    EXPECT_INT(-7, SIZE(1), AULE_E_TO_INT);
}

static void test_floats(void **state)
{
    (void)state;
    EXPECT_INT(INT32_MAX, AULE_E_PROCESSORS);
    EXPECT_INT(0, AULE_E_PROCESSORS, INT(0), AULE_E_MIN);
    EXPECT_FLOAT(0.5, PARAM(0));
    EXPECT_FLOAT(10.0, SIZE(0), AULE_E_TO_FLOAT);
    EXPECT_FLOAT(10.5, SIZE(0), AULE_E_TO_FLOAT, PARAM(0), AULE_E_ADD);
    EXPECT_FLOAT(9.5, SIZE(0), AULE_E_TO_FLOAT, PARAM(0), AULE_E_SUB);
    EXPECT_FLOAT(5.0, SIZE(0), AULE_E_TO_FLOAT, PARAM(0), AULE_E_MUL);
    EXPECT_FLOAT(20.0, SIZE(0), AULE_E_TO_FLOAT, PARAM(0), AULE_E_DIV);
    EXPECT_FLOAT(-0.5, PARAM(0), AULE_E_NEG);
    EXPECT_FLOAT(0.5, PARAM(0), AULE_E_NEG, AULE_E_ABS);
    EXPECT_FLOAT(1 / sqrt(10), SIZE(0), AULE_E_TO_FLOAT, AULE_E_RSQRT);
    EXPECT_FLOAT(sqrt(10), SIZE(0), AULE_E_TO_FLOAT, AULE_E_SQRT);
    EXPECT_FLOAT(exp(0.5), PARAM(0), AULE_E_EXP);
    EXPECT_FLOAT(exp2(0.5), PARAM(0), AULE_E_EXP2);
    EXPECT_FLOAT(log(0.5), PARAM(0), AULE_E_LOG);
    EXPECT_FLOAT(-1.0, PARAM(0), AULE_E_LOG2);
    EXPECT_FLOAT(pow(10, 0.5), SIZE(0), AULE_E_TO_FLOAT, PARAM(0), AULE_E_POW);
    EXPECT_FLOAT(tanh(0.5), PARAM(0), AULE_E_TANH);
    EXPECT_FLOAT(sin(0.5), PARAM(0), AULE_E_SIN);
    EXPECT_FLOAT(cos(0.5), PARAM(0), AULE_E_COS);
    EXPECT_FLOAT(0.0, PARAM(0), AULE_E_FLOOR);
    EXPECT_FLOAT(1.0, PARAM(0), AULE_E_CEIL);
    EXPECT_INT(0, PARAM(0), AULE_E_TO_INT);
    EXPECT_INT(0, PARAM(0), AULE_E_NEG, AULE_E_TO_INT); /* toward zero */
    EXPECT_INT(1, PARAM(0), PARAM(0), AULE_E_LE);
}

static void test_no_result(void **state)
{
    (void)state;
    EXPECT_ERROR(AULE_ERROR_REQUIRE, "divides by zero", SIZE(0), INT(0), AULE_E_DIV);
    EXPECT_ERROR(AULE_ERROR_REQUIRE, "divides by zero", SIZE(0), INT(0), AULE_E_MOD);
    EXPECT_ERROR(AULE_ERROR_REQUIRE, "divides by zero", PARAM(0), INT(0), AULE_E_TO_FLOAT,
                 AULE_E_DIV);
    EXPECT_ERROR(AULE_ERROR_REQUIRE, "leaves 64 bits", AULE_E_CONST_INT, UINT32_MAX, INT32_MAX,
                 INT(1), AULE_E_ADD);
    EXPECT_ERROR(AULE_ERROR_REQUIRE, "leaves 64 bits", AULE_E_CONST_INT, 0, 1u << 31, INT(-1),
                 AULE_E_DIV);
    EXPECT_ERROR(AULE_ERROR_REQUIRE, "leaves 64 bits", AULE_E_CONST_INT, 0, 1u << 31, AULE_E_ABS);
    EXPECT_ERROR(AULE_ERROR_REQUIRE, "leaves 64 bits", AULE_E_CONST_FLOAT, 0, 0x7ff00000u,
                 AULE_E_TO_INT);
    EXPECT_ERROR(AULE_ERROR_REQUIRE, "leaves 64 bits", AULE_E_CONST_FLOAT, 0, 0x7ff80000u,
                 AULE_E_TO_INT);
}

static void test_damaged(void **state)
{
    (void)state;
    EXPECT_ERROR(AULE_ERROR_ARTIFACT, "mixes integers and floats", SIZE(0), PARAM(0), AULE_E_ADD);
    EXPECT_ERROR(AULE_ERROR_ARTIFACT, "mixes integers and floats", SIZE(0), AULE_E_EXP);
    EXPECT_ERROR(AULE_ERROR_ARTIFACT, "mixes integers and floats", PARAM(0), AULE_E_NOT);
    EXPECT_ERROR(AULE_ERROR_ARTIFACT, "mixes integers and floats", PARAM(0), SIZE(0), SIZE(0),
                 AULE_E_SELECT);
    EXPECT_ERROR(AULE_ERROR_ARTIFACT, "not well formed", SIZE(2));
    EXPECT_ERROR(AULE_ERROR_ARTIFACT, "not well formed", PARAM(2));
    EXPECT_ERROR(AULE_ERROR_ARTIFACT, "not well formed", SIZE(0), AULE_E_ADD);
    EXPECT_ERROR(AULE_ERROR_ARTIFACT, "not well formed", AULE_E_NEG);
    EXPECT_ERROR(AULE_ERROR_ARTIFACT, "not well formed", AULE_E_TO_INT);
    EXPECT_ERROR(AULE_ERROR_ARTIFACT, "not well formed", SIZE(0), SIZE(0), AULE_E_SELECT);
    EXPECT_ERROR(AULE_ERROR_ARTIFACT, "not well formed", SIZE(0), SIZE(0));
    EXPECT_ERROR(AULE_ERROR_ARTIFACT, "not well formed", AULE_E_CONST_INT, 1);
    EXPECT_ERROR(AULE_ERROR_ARTIFACT, "not well formed", 200);
    EXPECT_ERROR(AULE_ERROR_ARTIFACT, "not well formed", 9);

    uint32_t deep[65];
    for (int i = 0; i < 65; i++) deep[i] = SIZE(0);
    aule_value value;
    assert_int_equal(evaluate(deep, 65, &value, NULL), AULE_ERROR_ARTIFACT);
    assert_int_equal(evaluate(NULL, 0, &value, NULL), AULE_ERROR_ARTIFACT);
    assert_int_equal(aule_evaluate(NULL, NULL, 0, NULL, 0, &value, NULL), AULE_ERROR_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_integers),
        cmocka_unit_test(test_floats),
        cmocka_unit_test(test_no_result),
        cmocka_unit_test(test_damaged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
