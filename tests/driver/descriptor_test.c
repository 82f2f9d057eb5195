/* descriptor_test.c - the tables of the artifact's structures have a row for every member: from row to row there are no gaps but those
 * of alignment, up to the structure's end. */
#include "descriptor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Bytes of one, and how they are aligned. */
static uint32_t bytes_of(const AuStructMember *m)
{
    switch (m->kind) {
    case AU_M_U16: return 2;
    case AU_M_SIZE:
    case AU_M_U32: return 4;
    case AU_M_INLINE: return m->of->bytes;
    case AU_M_MAGIC:
    case AU_M_U64:
    case AU_M_I64:
    case AU_M_TEXT:
    case AU_M_WORDS:
    case AU_M_CODE:
    case AU_M_HOST:
    case AU_M_LIST: return 8;
    case AU_M_END: break;
    }
    return 0;
}

static uint32_t aligned(uint32_t at, uint32_t to) { return (at + to - 1) / to * to; }

static void is_whole(const AuStruct *type)
{
    uint32_t end = 0, widest = 1;
    for (const AuStructMember *m = type->members; m->kind; m++) {
        const uint32_t bytes = bytes_of(m), align = m->kind == AU_M_INLINE ? 8 : bytes;
        /* a text of 8 characters is aligned as one */
        if (m->at != aligned(end, m->kind == AU_M_MAGIC ? 1 : align))
            fail_msg("%s: a member before offset %u has no row", type->name, m->at);
        end = m->at + m->many * bytes;
        if (align > widest) widest = align;
        if (m->of) is_whole(m->of);
    }
    if (aligned(end, widest) != type->bytes)
        fail_msg("%s: a member from offset %u on has no row", type->name, end);
}

static void every_member_has_a_row(void **state)
{
    (void)state;
    is_whole(&descriptor_module);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_member_has_a_row)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
