/* What objects of a call are as tensors (aule_objects_read): words are equal for calls that one plan takes in turn and for no others; objects that cannot
 * be read, that have no memory, and room that is too small by any number of words, are told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "aule/aule.h"

enum { OBJECTS = 3, ROOM = 64 };

static int64_t shapes[OBJECTS][2], strides[OBJECTS][2];
static DLTensor tensors[OBJECTS];
static uint64_t addresses[OBJECTS + 1], words[ROOM + 1];
static int calls;

static int read_tensor(void *object, DLTensor *tensor)
{
    calls++;
    *tensor = *(DLTensor *)object;
    return tensor->ndim < 0 ? -1 : 0;
}

static void *objects[OBJECTS];

static aule_objects reset(void)
{
    for (int i = 0; i < OBJECTS; i++) {
        shapes[i][0] = 4, shapes[i][1] = 8;
        strides[i][0] = 8, strides[i][1] = 1;
        tensors[i] = (DLTensor){.data = (void *)(uintptr_t)(0x1000 * (i + 1)),
                                .device = {kDLCUDA, 1},
                                .ndim = 2,
                                .dtype = {kDLFloat, 32, 1},
                                .shape = shapes[i],
                                .strides = strides[i]};
        objects[i] = &tensors[i];
    }
    return (aule_objects){.struct_size = sizeof(aule_objects),
                          .read = read_tensor,
                          .none = words, /* any address that is no tensor's */
                          .objects = objects,
                          .count = OBJECTS,
                          .addresses = addresses,
                          .words = words,
                          .word_count = ROOM};
}

static size_t first_count;
static uint64_t first[ROOM];

/* Reads again after a change of the first tensor: whether that is another call. */
static bool differs(const aule_objects *of)
{
    const size_t count = aule_objects_read(of);
    return count != first_count || memcmp(words, first, count * sizeof *words) != 0;
}

static void test_words(void **state)
{
    (void)state;
    aule_objects of = reset();
    first_count = aule_objects_read(&of);
    assert_in_range(first_count, 1, ROOM);
    memcpy(first, words, sizeof first);
    assert_int_equal(addresses[0], 0x1000);
    assert_int_equal(addresses[2], 0x3000);
    assert_int_equal(addresses[OBJECTS], 0);
    assert_false(differs(&of));
    tensors[0].data = (void *)0x7770; /* elsewhere */
    tensors[0].byte_offset = 0x10;
    assert_false(differs(&of));
    assert_int_equal(addresses[0], 0x7780);
    tensors[0].byte_offset = 8; /* where no boxes are copied to */
    assert_true(differs(&of));
#define OTHER(change)                                                                              \
    do {                                                                                           \
        of = reset();                                                                              \
        assert_false(differs(&of));                                                                \
        change;                                                                                    \
        assert_true(differs(&of));                                                                 \
    } while (0)
    OTHER(shapes[0][0]++);
    OTHER(shapes[2][1] += INT64_C(1) << 32);
    OTHER(strides[1][0]++);
    OTHER(strides[1][1] = -1);
    OTHER(tensors[0].device.device_id = 0);
    OTHER(tensors[0].device.device_type = kDLCPU);
    OTHER(tensors[0].dtype.bits = 16);
    OTHER(tensors[0].dtype.code = kDLInt);
    OTHER(tensors[0].dtype.lanes = 2);
    OTHER(tensors[0].ndim = 1);
    OTHER(tensors[0].strides = NULL);
    OTHER(objects[1] = words);
    OTHER(of.count--);
    /* Which of them there is none of */
    of = reset();
    objects[1] = words;
    first_count = aule_objects_read(&of);
    memcpy(first, words, sizeof first);
    assert_int_equal(addresses[1], 0);
    of = reset();
    objects[2] = words;
    assert_true(differs(&of));
}

static void test_what_is_not_read(void **state)
{
    (void)state;
    aule_objects of = reset();
    const size_t needed = aule_objects_read(&of);
    for (size_t room = 0; room < needed; room++) {
        memset(words, 0xa5, sizeof words);
        of.word_count = room;
        assert_int_equal(aule_objects_read(&of), 0);
        assert_int_equal(words[room], UINT64_C(0xa5a5a5a5a5a5a5a5));
    }
    of.word_count = needed;
    assert_int_equal(aule_objects_read(&of), needed);
    tensors[1].data = NULL;
    assert_int_equal(aule_objects_read(&of), 0);
    of = reset();
    tensors[1].ndim = -1; /* the reader fails, and is not asked of those behind */
    calls = 0;
    assert_int_equal(aule_objects_read(&of), 0);
    assert_int_equal(calls, 2);
    of = reset();
    of.struct_size = sizeof of - 1;
    assert_int_equal(aule_objects_read(&of), 0);
    of = reset();
    of.count = 0;
    assert_int_equal(aule_objects_read(&of), 1);
    assert_int_equal(addresses[0], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_what_is_not_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
