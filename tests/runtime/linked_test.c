/* What a loader follows without looking, in a library that a linker made: versions of symbols, and what is only read once it is loaded.
 *     linked_test LIBRARY */
#include "case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../runtime/elf_image.h"

static const char *linked;

static bool takes(const unsigned char *bytes, size_t length, AuElfLibrary *library)
{
    const AuElfFile file = {.path = "linked", .bytes = bytes, .length = length};
    const AuSink sink = {rt_memory(NULL), NULL};
    return rt_check_library(&file, "aule_module_v1", library, sink) == AULE_OK;
}

static unsigned char *read_linked(size_t *length)
{
    enum { MOST = 1 << 22 };
    unsigned char *bytes = malloc(MOST);
    FILE *file = fopen(linked, "rb");
    assert_non_null(bytes);
    assert_non_null(file);
    *length = fread(bytes, 1, MOST, file);
    fclose(file);
    return bytes;
}

/* What is only read ends with its segment, or with the page in which that ends, as some linkers have it. */
static void test_relro(void **state)
{
    (void)state;
    enum { PAGE = 4096 };
    size_t length;
    unsigned char *bytes = read_linked(&length);
    AuElfLibrary library, other;
    assert_true(takes(bytes, length, &library));
    for (unsigned n = 0; n < library.head.e_phnum; n++) {
        unsigned char *at = bytes + library.head.e_phoff + n * sizeof(Elf64_Phdr);
        Elf64_Phdr part;
        memcpy(&part, at, sizeof part);
        if (part.p_type != PT_GNU_RELRO) continue;
        for (uint32_t i = 0; i < library.loads.count; i++) {
            const Elf64_Phdr *s = &library.loads.of[i];
            const uint64_t page = s->p_align > PAGE ? s->p_align : PAGE,
                           end = (s->p_vaddr + s->p_memsz + page - 1) / page * page;
            if (part.p_vaddr < s->p_vaddr || part.p_vaddr >= s->p_vaddr + s->p_memsz) continue;
            part.p_memsz = end - part.p_vaddr;
            memcpy(at, &part, sizeof part);
            assert_true(takes(bytes, length, &other));
            part.p_memsz++;
            memcpy(at, &part, sizeof part);
            assert_false(takes(bytes, length, &other));
        }
    }
    free(bytes);
}

static void test_versions(void **state)
{
    (void)state;
    size_t length;
    unsigned char *bytes = read_linked(&length);
    AuElfLibrary library, other;
    assert_true(takes(bytes, length, &library));
    uint64_t needs, left, of_symbols;
    if (!library.dynamic.needs) skip();
    assert_true(rt_elf_place(&library.loads, library.dynamic.needs, &needs, &left));
    assert_true(rt_elf_place(&library.loads, library.dynamic.versions, &of_symbols, &left));
    Elf64_Verneed first;
    memcpy(&first, bytes + needs, sizeof first);
    const uint64_t one = needs + first.vn_aux;
    const struct {
        uint64_t at;
        size_t bytes;
        uint32_t value;
    } bad[] = {{needs + offsetof(Elf64_Verneed, vn_version), 2, 2},
               {needs + offsetof(Elf64_Verneed, vn_file), 4, 0},
               {needs + offsetof(Elf64_Verneed, vn_file), 4, UINT32_MAX},
               {needs + offsetof(Elf64_Verneed, vn_aux), 4, UINT32_MAX},
               {needs + offsetof(Elf64_Verneed, vn_next), 4, UINT32_MAX - 3},
               {one + offsetof(Elf64_Vernaux, vna_name), 4, UINT32_MAX},
               {one + offsetof(Elf64_Vernaux, vna_next), 4, UINT32_MAX - 3},
               {of_symbols + sizeof(uint16_t), 2, 0x7fff}};
    for (size_t n = 0; n < sizeof bad / sizeof *bad; n++) {
        uint32_t before;
        memcpy(&before, bytes + bad[n].at, sizeof before);
        memcpy(bytes + bad[n].at, &bad[n].value, bad[n].bytes); /* little endian */
        if (takes(bytes, length, &other)) fail_msg("change %zu is taken", n);
        memcpy(bytes + bad[n].at, &before, sizeof before);
    }
    assert_true(takes(bytes, length, &other));
    free(bytes);
}

int main(int count, char **arguments)
{
    if (count != 2) return 2;
    linked = arguments[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_relro),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
