/* The last launches of a device: which are told, in which order, and what is forgotten (runtime/backends/recent.h). */
#include "case.h"

#include "../../runtime/backends/recent.h"

#include <pthread.h>
#include <string.h>

static const int queues[2];

static void expect_told(AuRecent *r, const void *queue, const char *told)
{
    AuText text = {.memory = rt_memory(NULL)};
    if (queue)
        rt_recent_tell_of(r, queue, &text);
    else
        rt_recent_tell(r, &text);
    assert_string_equal(rt_text_str(&text), told);
    rt_text_free(&text);
}

static void expect_name(AuRecent *r, uint64_t number, const char *name)
{
    AuText text = {.memory = rt_memory(NULL)};
    rt_recent_name(r, number, &text);
    assert_string_equal(rt_text_str(&text), name);
    rt_text_free(&text);
}

#define TOLD "; launched last and not seen done: "

/* Each name once, at its last place; what is done is not told. */
static void test_order(void **state)
{
    (void)state;
    AuRecent r;
    rt_recent_begin(&r);
    expect_told(&r, NULL, "");
    rt_recent_done(&r, &queues[0], 0);
    assert_int_equal(rt_recent_add(&r, &queues[0], "a"), 1);
    rt_recent_add(&r, &queues[0], "b");
    rt_recent_add(&r, &queues[1], "c");
    rt_recent_add(&r, &queues[0], "a");
    assert_int_equal(rt_recent_count(&r), 4);
    expect_told(&r, NULL, TOLD "b, c, a");
    expect_told(&r, &queues[0], TOLD "b, a");
    expect_told(&r, &queues[1], TOLD "c");
    rt_recent_done(&r, &queues[0], 2);
    expect_told(&r, NULL, TOLD "c, a");
    rt_recent_done(&r, &queues[1], 4);
    expect_told(&r, NULL, TOLD "a");
    expect_told(&r, &queues[1], "");
    rt_recent_done(&r, &queues[0], 4);
    expect_told(&r, NULL, "");
    rt_recent_end(&r);
}

/* What is older than the last launches is neither told nor named, and the number of names is bounded. */
static void test_bounds(void **state)
{
    (void)state;
    AuRecent r;
    char name[4] = "k00";
    rt_recent_begin(&r);
    rt_recent_add(&r, &queues[1], "old");
    for (int n = 0; n < RECENT_LAUNCHES; n++) {
        name[1] = (char)('0' + n % 20 / 10);
        name[2] = (char)('0' + n % 10);
        rt_recent_add(&r, &queues[0], name);
    }
    expect_told(&r, &queues[1], "");
    expect_told(&r, NULL, TOLD "k16, k17, k18, k19, k00, k01, k02, k03");
    expect_name(&r, 1, "");
    expect_name(&r, 2, "k00");
    expect_name(&r, RECENT_LAUNCHES + 1, "k03");
    expect_name(&r, RECENT_LAUNCHES + 2, "");
    rt_recent_done(&r, &queues[0], RECENT_LAUNCHES);
    expect_told(&r, NULL, TOLD "k03");
    rt_recent_end(&r);
}

/* Of a long name the end, which says most. */
static void test_long_names(void **state)
{
    (void)state;
    AuRecent r;
    char name[RECENT_NAME + 2];
    memset(name, 'x', sizeof name);
    strcpy(name + sizeof name - 5, "last");
    rt_recent_begin(&r);
    expect_name(&r, rt_recent_add(&r, NULL, name), name + 2);
    expect_name(&r, rt_recent_add(&r, NULL, name + 1), name + 2);
    expect_name(&r, rt_recent_add(&r, NULL, name + 2), name + 2);
    expect_name(&r, rt_recent_add(&r, NULL, name + 3), name + 3);
    rt_recent_end(&r);
}

static void *add_often(void *given)
{
    AuRecent *r = given;
    for (int n = 0; n < 2000; n++) {
        rt_recent_add(r, r, "one");
        if (n % 10 == 0) rt_recent_done(r, r, rt_recent_count(r));
        if (n % 100 == 0) expect_told(r, &queues[0], "");
    }
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    AuRecent r;
    pthread_t threads[4];
    rt_recent_begin(&r);
    for (int n = 0; n < 4; n++)
        assert_int_equal(pthread_create(&threads[n], NULL, add_often, &r), 0);
    for (int n = 0; n < 4; n++) pthread_join(threads[n], NULL);
    assert_int_equal(rt_recent_count(&r), 8000);
    rt_recent_done(&r, &r, 8000);
    expect_told(&r, NULL, "");
    rt_recent_end(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_long_names),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
