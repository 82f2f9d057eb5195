/* Command queues and command buffers on the double of Apple's libraries: the device's own and the caller's, and where it is told that a
 * launch has failed. */
#include "metal_case.h"
#include "metal_double.h"

#include "../../runtime/backends/metal.h"

#include <stdlib.h>

static CaseModule sample;
static aule_launch_v1 launches[2];

typedef OnDevice Setup;

static aule_status run_all(Setup *s, aule_error **error)
{
    return on_device_run(s, "metal:0", error);
}

static void open_case(Setup *s) { on_device_begin(s, &sample.module, FORWARD_TENSORS); }
static void close_case(Setup *s)
{
    on_device_end(s);
    metal_case_nothing_left();
}

/* ---- launches that fail, which is told when they are waited for */

/* The n-th of those that a run commits (a fill, weigh, divide), each by three calls. */
static void run_failing(Setup *s, int n)
{
    metal_double()->calls = 0;
    metal_double()->fail_at = 3 * n;
    assert_int_equal(aule_plan_run(s->plan, &s->c->run, NULL), AULE_OK);
    if (n) assert_string_equal(metal_double()->failed, "commit");
    metal_double()->fail_at = 0;
    metal_double()->failed = NULL;
}

static void expect_failed(Setup *s, void *queue, const char *text)
{
    aule_error *error = NULL;
    assert_int_equal(aule_device_synchronize(s->device, queue, &error), AULE_ERROR_DRIVER);
    assert_string_equal(aule_error_message(error), text);
    aule_error_free(error);
    assert_int_equal(aule_device_synchronize(s->device, queue, NULL), AULE_OK); /* told once */
}

static const char of_fill[] = "metal:0: a command buffer failed: the GPU was told to fail",
                  of_weigh[] = "metal:0: a command buffer failed: the GPU was told to fail; it has "
                               "the kernel weigh",
                  of_divide[] = "metal:0: a command buffer failed: the GPU was told to fail; it "
                                "has the kernel divide";

/* The first is told, with its kernel, whether the GPU is quick or has all to do yet. */
static void test_which_launch_failed(void **state)
{
    (void)state;
    for (int slow = 0; slow < 2; slow++) {
        Setup s;
        open_case(&s);
        assert_int_equal(run_all(&s, NULL), AULE_OK);
        metal_double()->slow = slow;
        run_failing(&s, 1);
        expect_failed(&s, NULL, of_fill);
        run_failing(&s, 2);
        expect_failed(&s, NULL, of_weigh);
        run_failing(&s, 3);
        run_failing(&s, 2);
        for (int n = 0; n < METAL_SENT / 3; n++) /* as many as are remembered of each queue */
            run_failing(&s, 0);
        expect_failed(&s, NULL, of_divide);
        run_failing(&s, 1); /* the oldest of a list that is full */
        for (int n = 0; n < METAL_SENT; n++) run_failing(&s, 0);
        run_failing(&s, 3);
        expect_failed(&s, NULL, of_fill);
        for (int n = 0; n < METAL_SENT; n++) run_failing(&s, 0);
        run_failing(&s, 3);
        expect_failed(&s, NULL, of_divide);
        metal_double()->slow = 0;
        close_case(&s);
    }
}

/* A device that a plan runs on again after a launch failed on it. */
static void test_a_failed_launch_is_told_once(void **state)
{
    (void)state;
    Setup s;
    aule_error *error = NULL;
    open_case(&s);
    if (run_all(&s, &error)) fail_msg("%s", aule_error_message(error));
    metal_double()->gpu_fails = 1;
    assert_int_equal(aule_plan_run(s.plan, &s.c->run, &error), AULE_OK);
    expect_error(aule_device_synchronize(s.device, NULL, &error), &error, AULE_ERROR_DRIVER,
                 "a command buffer failed: the GPU was told to fail; it has the kernel weigh");
    metal_double()->gpu_fails = 0;
    assert_int_equal(aule_plan_run(s.plan, &s.c->run, &error), AULE_OK);
    assert_int_equal(aule_device_synchronize(s.device, NULL, &error), AULE_OK);
    close_case(&s);
}

/* ---- queues and command buffers of the caller's */

typedef struct Caller {
    MetalApi m;
    MetalId all, device, queue, commands;
    Setup s;
} Caller;

static void begin_caller(Caller *c, uint32_t kind)
{
    AuText why = {.memory = rt_memory(NULL)};
    open_case(&c->s);
    assert_true(rt_metal_begin(&c->m, &why));
    c->all = c->m.MTLCopyAllDevices();
    c->device = METAL_CALL(&c->m, c->all, object_at, 0);
    c->queue = METAL_GET(&c->m, c->device, new_queue);
    const aule_device_options options = {
        .struct_size = sizeof options, .queue_kind = kind, .context = c->device};
    assert_int_equal(aule_device_open("metal:0", &options, &c->s.device, NULL), AULE_OK);
    assert_int_equal(
        case_place(c->s.c, c->s.device, FORWARD_TENSORS, c->s.buffers, &c->s.workspace, NULL),
        AULE_OK);
    assert_int_equal(aule_plan_new(aule_module_attention(c->s.module, 0), c->s.device,
                                   &c->s.c->call, &c->s.plan, NULL),
                     AULE_OK);
}

static void end_caller(Caller *c)
{
    METAL_GET(&c->m, c->queue, release);
    METAL_GET(&c->m, c->all, release);
    close_case(&c->s);
}

static void test_queue_of_the_caller(void **state)
{
    Caller c;
    (void)state;
    begin_caller(&c, AULE_QUEUE_DEFAULT);
    c.s.c->run.queue = c.queue;
    assert_int_equal(aule_plan_run(c.s.plan, &c.s.c->run, NULL), AULE_OK);
    assert_int_equal(aule_device_synchronize(c.s.device, c.queue, NULL), AULE_OK);
    assert_int_equal(case_fetch(c.s.c, FORWARD_TENSORS, c.s.buffers, NULL), AULE_OK);
    assert_true(case_is_right(c.s.c));
    end_caller(&c);
}

/* What a launch on the caller's queue did is told where that queue is waited for, not where another one is. */
static void test_failures_of_a_queue(void **state)
{
    (void)state;
    for (int slow = 0; slow < 2; slow++) {
        Caller c;
        aule_event *event;
        aule_error *error = NULL;
        begin_caller(&c, AULE_QUEUE_DEFAULT);
        assert_int_equal(aule_plan_run(c.s.plan, &c.s.c->run, NULL), AULE_OK);
        metal_double()->slow = slow;
        c.s.c->run.queue = c.queue;
        run_failing(&c.s, 3);
        run_failing(&c.s, 2);
        assert_int_equal(aule_device_synchronize(c.s.device, NULL, NULL), AULE_OK);
        expect_failed(&c.s, c.queue, of_divide);
        for (int n = 0; n < METAL_SENT; n++) run_failing(&c.s, 0);
        run_failing(&c.s, 2);
        expect_failed(&c.s, c.queue, of_weigh);
        run_failing(&c.s,
                    0); /* an event's commands fail: any kernel before them may have done it */
        metal_double()->calls = 0;
        metal_double()->fail_at = 2;
        assert_int_equal(aule_event_record(c.s.device, c.queue, &event, NULL), AULE_OK);
        metal_double()->fail_at = 0;
        expect_error(aule_event_wait(event, &error), &error, AULE_ERROR_DRIVER,
                     "told to fail; launched last and not seen done: weigh, divide");
        aule_event_free(event);
        run_failing(&c.s, 3); /* nobody asks */
        metal_double()->slow = 0;
        end_caller(&c);
    }
}

/* Two runs and what the caller puts between them are one command buffer, which nobody but the caller commits. */
static void test_commands_of_the_caller(void **state)
{
    Caller c;
    aule_error *error = NULL;
    aule_event *event = NULL;
    (void)state;
    begin_caller(&c, AULE_QUEUE_RECORDED);
    void *pool = c.m.objc_autoreleasePoolPush();
    c.s.c->run.queue = c.commands = METAL_GET(&c.m, c.queue, commands);
    for (int n = 0; n < 2; n++) {
        assert_int_equal(aule_plan_run(c.s.plan, &c.s.c->run, NULL), AULE_OK);
        METAL_GET(&c.m, METAL_GET(&c.m, c.commands, compute), end);
    }
    expect_error(aule_device_synchronize(c.s.device, c.commands, &error), &error,
                 AULE_ERROR_UNSUPPORTED, "a command buffer of the caller's cannot be waited for");
    expect_error(aule_event_record(c.s.device, c.commands, &event, &error), &error,
                 AULE_ERROR_UNSUPPORTED, "no event can be recorded in a command buffer");
    METAL_GET(&c.m, c.commands, commit);
    METAL_GET(&c.m, c.commands, wait);
    assert_int_equal(METAL_GET(&c.m, c.commands, status), METAL_STATUS_COMPLETED);
    expect_error(aule_plan_run(c.s.plan, &c.s.c->run, &error), &error, AULE_ERROR_USAGE,
                 "the caller's command buffer is committed");
    c.m.objc_autoreleasePoolPop(pool);
    assert_int_equal(case_fetch(c.s.c, FORWARD_TENSORS, c.s.buffers, NULL), AULE_OK);
    assert_true(case_is_right(c.s.c));
    /* copies and what names no queue go on the device's own */
    c.s.c->run.queue = NULL;
    case_forget(c.s.c);
    assert_int_equal(aule_plan_run(c.s.plan, &c.s.c->run, NULL), AULE_OK);
    assert_int_equal(aule_device_synchronize(c.s.device, NULL, NULL), AULE_OK);
    assert_int_equal(case_fetch(c.s.c, FORWARD_TENSORS, c.s.buffers, NULL), AULE_OK);
    assert_true(case_is_right(c.s.c));
    end_caller(&c);
}

/* What another device made is refused by both names before anything is added to it; of one GPU there may be two objects. */
static void test_things_of_another_device(void **state)
{
    (void)state;
    for (uint32_t kind = AULE_QUEUE_DEFAULT; kind <= AULE_QUEUE_RECORDED; kind++) {
        Caller c;
        aule_error *error = NULL;
        metal_double()->two = 1;
        begin_caller(&c, kind);
        void *pool = c.m.objc_autoreleasePoolPush();
        MetalId second = METAL_CALL(&c.m, c.all, object_at, 1),
                queue = METAL_GET(&c.m, second, new_queue);
        const bool recorded = kind == AULE_QUEUE_RECORDED;
        c.s.c->run.queue = recorded ? METAL_GET(&c.m, queue, commands) : queue;
        const char *said = recorded ? "metal:0: the given command buffer is of 'second of two "
                                      "GPUs', the device is 'double of a GPU'"
                                    : "metal:0: the given queue is of 'second of two GPUs', the "
                                      "device is 'double of a GPU'";
        aule_event *event;
        expect_error(aule_plan_run(c.s.plan, &c.s.c->run, &error), &error, AULE_ERROR_USAGE, said);
        if (!recorded) {
            expect_error(aule_device_synchronize(c.s.device, queue, &error), &error,
                         AULE_ERROR_USAGE, said);
            expect_error(aule_event_record(c.s.device, queue, &event, &error), &error,
                         AULE_ERROR_USAGE, said);
        }
        metal_double()->alike = 1;
        assert_int_equal(aule_plan_run(c.s.plan, &c.s.c->run, NULL), AULE_OK);
        metal_double()->alike = 0;
        c.m.objc_autoreleasePoolPop(pool);
        METAL_GET(&c.m, queue, release);
        end_caller(&c);
        metal_double()->two = 0;
    }
}

/* So is a tensor's buffer. */
static void test_tensor_of_another_device(void **state)
{
    (void)state;
    Caller c;
    aule_error *error = NULL;
    aule_device *second;
    aule_buffer *buffer;
    metal_double()->two = 1;
    begin_caller(&c, AULE_QUEUE_DEFAULT);
    assert_int_equal(aule_device_open("metal:1", NULL, &second, NULL), AULE_OK);
    assert_int_equal(aule_buffer_new(second, c.s.c->bytes[T_Q], &buffer, NULL), AULE_OK);
    void *const was = c.s.c->tensors[T_Q].data;
    c.s.c->tensors[T_Q].data = aule_buffer_data(buffer);
    aule_plan *plan;
    expect_error(aule_plan_new(aule_module_attention(c.s.module, 0), c.s.device, &c.s.c->call,
                               &plan, &error),
                 &error, AULE_ERROR_TENSOR,
                 "q: its buffer is of 'second of two GPUs', the device is 'double of a GPU'");
    c.s.c->tensors[T_Q].data = was;
    aule_buffer_free(buffer);
    aule_device_close(second);
    end_caller(&c);
    metal_double()->two = 0;
}

static void test_kinds_of_queues(void **state)
{
    aule_error *error = NULL;
    aule_device *device = NULL;
    const aule_device_options options = {.struct_size = sizeof options,
                                         .queue_kind = AULE_QUEUE_COMMANDS};
    (void)state;
    expect_error(aule_device_open("metal:0", &options, &device, &error), &error, AULE_ERROR_USAGE,
                 "metal has 0 (MTLCommandQueue) and AULE_QUEUE_RECORDED (MTLCommandBuffer)");
    metal_case_nothing_left();
}

int main(void)
{
    metal_case_module(&sample, launches, metal_case_code);
    metal_double()->keeps = 1;
    if (setenv("AULE_CACHE_MAX", "0", 1) != 0) return 1; /* nothing on disk */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_failed_launch_is_told_once),
        cmocka_unit_test(test_which_launch_failed),
        cmocka_unit_test(test_queue_of_the_caller),
        cmocka_unit_test(test_failures_of_a_queue),
        cmocka_unit_test(test_commands_of_the_caller),
        cmocka_unit_test(test_kinds_of_queues),
        cmocka_unit_test(test_things_of_another_device),
        cmocka_unit_test(test_tensor_of_another_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
