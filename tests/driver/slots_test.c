/* slots_test.c - arguments that the compiler would have mistaken: each is an error with a code before anything is written. */
#include "slots.h"
#include "tensors.h"

#include "aule/artifact.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { Q, K, V, BIAS, O, LSE, DO, DQ, TENSORS };
static const AuTensorRow tensors[TENSORS] = {
    [Q] = {.name = "q", .role = AULE_ROLE_Q, .dtype = AU_DT_OPERAND, .rank = 4},
    [K] = {.name = "k", .role = AULE_ROLE_K, .dtype = AU_DT_OPERAND, .rank = 4},
    [V] = {.name = "v",
           .role = AULE_ROLE_V,
           .dtype = AU_DT_OPERAND,
           .rank = 4,
           .flags = AULE_TENSOR_IN_K},
    [BIAS] = {.name = "bias", .role = AULE_ROLE_INPUT, .dtype = AU_DT_I32, .rank = 1},
    [O] = {.name = "o", .role = AULE_ROLE_OUTPUT, .dtype = AU_DT_OPERAND, .rank = 4},
    [LSE] = {.name = "lse", .role = AULE_ROLE_FINAL, .dtype = AU_DT_F32, .rank = 3},
    [DO] = {.name = "do", .role = AULE_ROLE_DOUT, .dtype = AU_DT_OPERAND, .rank = 4},
    [DQ] = {.name = "dq", .role = AULE_ROLE_GRAD, .dtype = AU_DT_OPERAND, .rank = 4},
};
enum { SIZES = 3, REGIONS = 2 };
enum { F16, F32, I32, F16_WRITTEN, F32_WRITTEN, MEMORIES };

typedef struct Row {
    AuOperation operation;
    AuArgKind kind;
    uint32_t memory, source, index, dim;
    const char *why; /* NULL: as it should be */
} Row;

#define POINTER(operation, memory, index, why)                                                     \
    {                                                                                              \
        AU_##operation, AU_ARG_POINTER, memory, AULE_SLOT_TENSOR, index, 0, why                    \
    }
#define OTHER(kind, slot, index, dim, why)                                                         \
    {                                                                                              \
        AU_FORWARD, AU_ARG_##kind, F16, AULE_SLOT_##slot, index, dim, why                          \
    }

// clang-format off
static const Row rows[] = {
    POINTER(FORWARD, F16, Q, NULL),
    POINTER(FORWARD, I32, BIAS, NULL),
    POINTER(FORWARD, F16_WRITTEN, O, NULL),
    POINTER(FORWARD, F32_WRITTEN, LSE, NULL),
    POINTER(BACKWARD, F32, LSE, NULL),
    POINTER(BACKWARD, F16, DO, NULL),
    POINTER(BACKWARD, F16_WRITTEN, DQ, NULL),
    OTHER(I64, STRIDE, Q, 3, NULL),
    OTHER(I32, PRESENT, LSE, 0, NULL),
    OTHER(I32, SIZE, SIZES - 1, 0, NULL),
    OTHER(I64, SIZE, 0, 0, NULL),
    OTHER(F32, PARAM, 0, 0, NULL),
    OTHER(I64, PARAM, 1, 0, NULL),
    OTHER(I32, PARAM, 2, 0, NULL),
    OTHER(POINTER, WORKSPACE, REGIONS - 1, 0, NULL),

    POINTER(FORWARD, F16, TENSORS, "a tensor that the table does not have"),
    POINTER(FORWARD, F16, UINT32_MAX, "a tensor that the table does not have"),
    POINTER(FORWARD, F16, V, "a tensor that is a part of the keys"),
    POINTER(FORWARD, F16, DO, "a tensor that the operation is not given"),
    POINTER(FORWARD, F16_WRITTEN, DQ, "a tensor that the operation is not given"),
    POINTER(FORWARD, F32, Q, "elements of another size"),
    POINTER(BACKWARD, F16, LSE, "elements of another size"),
    POINTER(FORWARD, F16_WRITTEN, Q, "only reads, to be written"),
    POINTER(BACKWARD, F16_WRITTEN, O, "only reads, to be written"),
    OTHER(I64, TENSOR, Q, 0, "an address that is no pointer"),
    OTHER(I64, STRIDE, Q, 4, "the stride of an axis that the tensor does not have"),
    OTHER(I64, STRIDE, LSE, 3, "the stride of an axis that the tensor does not have"),
    OTHER(I32, STRIDE, Q, 0, "a stride that is no i64"),
    OTHER(I64, STRIDE, V, 0, "a tensor that is a part of the keys"),
    OTHER(I64, STRIDE, DQ, 0, "a tensor that the operation is not given"),
    OTHER(I64, PRESENT, LSE, 0, "not as an i32"),
    OTHER(I32, PRESENT, TENSORS, 0, "a tensor that the table does not have"),
    OTHER(I32, SIZE, SIZES, 0, "a size that the table does not have"),
    OTHER(F32, SIZE, 0, 0, "a size that is no integer"),
    OTHER(I32, PARAM, 3, 0, "a parameter that the table does not have"),
    OTHER(I32, PARAM, 0, 0, "a parameter of another type"),
    OTHER(F32, PARAM, 2, 0, "a parameter of another type"),
    OTHER(POINTER, WORKSPACE, REGIONS, 0, "a region that the workspace does not have"),
    OTHER(I64, WORKSPACE, 0, 0, "a region that is no pointer"),
    {AU_FORWARD, AU_ARG_I32, F16, 0, 0, 0, "something that no launch passes"},
    {AU_FORWARD, AU_ARG_I32, F16, AULE_SLOT_PRESENT + 1, 0, 0, "something that no launch passes"},
};
// clang-format on
enum { ROWS = sizeof rows / sizeof *rows };

/* NULL: the kernel is taken; else what was reported. */
static const char *said(AuArena *arena, AuOperation operation, AuArg *args, uint32_t count)
{
    AuParam params[] = {{.name = "rate", .dtype = AU_DT_F32},
                        {.name = "seed", .dtype = AU_DT_I64},
                        {.name = "causal", .dtype = AU_DT_BOOL}};
    AuMemory memories[MEMORIES] = {
        [F16] = {.scalar = AU_F16, .reads = true},
        [F32] = {.scalar = AU_F32, .reads = true},
        [I32] = {.scalar = AU_I32, .reads = true},
        [F16_WRITTEN] = {.scalar = AU_F16, .writes = true},
        [F32_WRITTEN] = {.scalar = AU_F32, .writes = true},
    };
    AuDiags *diags = au_diags_new(arena);
    AuAttn attn = {.name = "a", .size_count = SIZES, .param_count = 3, .params = params};
    AuSchedule schedule = {.region_count = REGIONS};
    const AuVariant v = {.attn = &attn,
                         .target = au_target("opencl"),
                         .operation = operation,
                         .operand = TILE_F16,
                         .tensors = tensors,
                         .tensor_count = TENSORS,
                         .schedule = &schedule};
    const AuKernel k = {.name = "kernel",
                        .mems = memories,
                        .mem_count = MEMORIES,
                        .args = args,
                        .arg_count = count};
    if (slots_verify(diags, &v, &k)) {
        assert_int_equal(diags->errors, 0);
        return NULL;
    }
    AuText text = {.arena = arena};
    au_diags_render(diags, &text);
    assert_int_equal(diags->errors, 1);
    return au_text_str(&text);
}

static AuArg arg_of(const Row *row)
{
    return (AuArg){.name = "x",
                   .kind = row->kind,
                   .mem = {row->memory},
                   .source = row->source,
                   .source_index = row->index,
                   .source_dim = row->dim};
}

static void test_each_mistake(void **state)
{
    (void)state;
    AuArena *arena = au_arena_new(NULL);
    for (uint32_t n = 0; n < ROWS; n++) {
        AuArg good = arg_of(&rows[0]), args[] = {good, arg_of(&rows[n]), good};
        const bool backward = rows[n].operation == AU_BACKWARD;
        const char *text = said(arena, rows[n].operation, args, backward ? 2 : 3);
        const bool as_expected = rows[n].why ? text && strstr(text, rows[n].why) &&
                                                   strstr(text, "error E0609") &&
                                                   strstr(text, "argument 'x'")
                                             : !text;
        if (!as_expected)
            fail_msg("row %u: %s, expected %s", n, text ? text : "taken",
                     rows[n].why ? rows[n].why : "no error");
    }
    au_arena_free(arena);
}

static void test_room(void **state)
{
    (void)state;
    AuArena *arena = au_arena_new(NULL);
    AuArg args[AULE_MAX_SLOTS + 1];
    for (uint32_t n = 0; n <= AULE_MAX_SLOTS; n++) args[n] = arg_of(&rows[0]);
    assert_null(said(arena, AU_FORWARD, args, AULE_MAX_SLOTS));
    const char *text = said(arena, AU_FORWARD, args, AULE_MAX_SLOTS + 1);
    assert_non_null(text);
    assert_non_null(strstr(text, "error E0608"));
    au_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_mistake),
                                       cmocka_unit_test(test_room)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
