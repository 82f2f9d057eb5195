#include "hostile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__aarch64__)
enum { OTHER = EM_X86_64, OTHER_RELATIVE = R_X86_64_RELATIVE };
#else
enum { OTHER = EM_AARCH64, OTHER_RELATIVE = R_AARCH64_RELATIVE };
#endif
#define SYMBOL "aule_module_v1"

static void grow(void **rows, size_t count, size_t *room, size_t bytes)
{
    if (count <= *room) return;
    while (count > *room) *room = *room ? *room * 2 : 4096;
    *rows = realloc(*rows, *room * bytes);
    if (!*rows) abort();
}

size_t hostile_place(Hostile *h, size_t bytes)
{
    const size_t at = h->length;
    void *rows = h->at;
    h->length += (bytes + 7) / 8 * 8;
    grow(&rows, h->length, &h->room, 1);
    h->at = rows;
    memset(h->at + at, 0, h->length - at);
    return at;
}

void hostile_begin(Hostile *h, uint32_t segments)
{
    h->segments = segments;
    hostile_place(h, sizeof(Elf64_Ehdr) + (segments + 2) * sizeof(Elf64_Phdr));
}

size_t hostile_text(Hostile *h, const char *text)
{
    const size_t at = hostile_place(h, strlen(text) + 1);
    memcpy(h->at + at, text, strlen(text));
    return at;
}

void hostile_point(Hostile *h, size_t at, size_t to)
{
    void *rows = h->pointers;
    grow(&rows, h->pointer_count + 1, &h->pointer_room, sizeof *h->pointers);
    h->pointers = rows;
    h->pointers[h->pointer_count++] = (Elf64_Rela){at, OTHER_RELATIVE, (int64_t)to};
}

void hostile_u32(Hostile *h, size_t at, uint32_t value) { memcpy(h->at + at, &value, 4); }

size_t hostile_module(Hostile *h, uint32_t attentions)
{
    const size_t text = hostile_text(h, "hostile"),
                 module = hostile_place(h, sizeof(aule_module_v1)),
                 first = hostile_place(h, attentions * sizeof(aule_attention_v1));
    const aule_module_v1 head = {.magic = AULE_MAGIC,
                                 .version_major = AULE_VERSION_MAJOR,
                                 .struct_size = sizeof head,
                                 .attention_count = attentions};
    h->module = module;
    memcpy(h->at + module, &head, sizeof head);
    hostile_point(h, module + offsetof(aule_module_v1, attentions), first);
    hostile_point(h, module + offsetof(aule_module_v1, producer), text);
    hostile_point(h, module + offsetof(aule_module_v1, source_name), text);
    for (uint32_t n = 0; n < attentions; n++) {
        const size_t at = first + n * sizeof(aule_attention_v1);
        hostile_u32(h, at, sizeof(aule_attention_v1));
        hostile_point(h, at + offsetof(aule_attention_v1, name), text);
        hostile_point(h, at + offsetof(aule_attention_v1, formula), text);
    }
    return first;
}

static size_t copy(Hostile *h, const void *bytes, size_t length)
{
    const size_t at = hostile_place(h, length);
    memcpy(h->at + at, bytes, length);
    return at;
}

static void add_heads(Hostile *h, size_t dynamic, size_t dynamic_bytes)
{
    const Elf64_Phdr empty = {.p_type = PT_LOAD, .p_flags = PF_R, .p_align = 4096},
                     all = {.p_type = PT_LOAD,
                            .p_flags = PF_R | PF_W | PF_X,
                            .p_filesz = h->length,
                            .p_memsz = h->length,
                            .p_align = 4096},
                     table = {.p_type = PT_DYNAMIC,
                              .p_flags = PF_R,
                              .p_offset = dynamic,
                              .p_vaddr = dynamic,
                              .p_filesz = dynamic_bytes,
                              .p_memsz = dynamic_bytes};
    const Elf64_Ehdr head = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                             .e_type = ET_DYN,
                             .e_machine = OTHER,
                             .e_version = EV_CURRENT,
                             .e_phoff = sizeof head,
                             .e_ehsize = sizeof head,
                             .e_phentsize = sizeof empty,
                             .e_phnum = (uint16_t)(h->segments + 2)};
    unsigned char *at = h->at + sizeof head;
    memcpy(h->at, &head, sizeof head);
    for (uint32_t n = 0; n < h->segments; n++, at += sizeof empty) memcpy(at, &empty, sizeof empty);
    memcpy(at, &all, sizeof all);
    memcpy(at + sizeof all, &table, sizeof table);
}

void hostile_end(Hostile *h)
{
    const uint32_t ring = h->chain ? 2 : 1;
    const Elf64_Sym symbols[] = {{.st_name = 0},
                                 {.st_name = ring,
                                  .st_info = STB_GLOBAL << 4 | STT_OBJECT,
                                  .st_shndx = 1,
                                  .st_value = h->module,
                                  .st_size = sizeof(aule_module_v1)}};
    const uint32_t hash[] = {1, h->chain ? h->chain : 2, 1, 0, h->chain ? 1 : 0};
    const size_t symbols_at = copy(h, symbols, sizeof symbols),
                 hash_at = copy(h, hash, sizeof hash),
                 names_at = copy(h, "\0" SYMBOL, sizeof SYMBOL + 1),
                 pointers_at = copy(h, h->pointers, h->pointer_count * sizeof *h->pointers);
    const Elf64_Dyn dynamic[] = {{DT_SYMTAB, symbols_at},
                                 {DT_SYMENT, sizeof *symbols},
                                 {DT_HASH, hash_at},
                                 {DT_STRTAB, names_at},
                                 {DT_STRSZ, sizeof SYMBOL + 1},
                                 {DT_RELA, pointers_at},
                                 {DT_RELASZ, h->pointer_count * sizeof *h->pointers},
                                 {DT_RELAENT, sizeof *h->pointers},
                                 {DT_NULL, 0}};
    add_heads(h, copy(h, dynamic, sizeof dynamic), sizeof dynamic);
}

void hostile_write(const Hostile *h, const char *path)
{
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(h->at, 1, h->length, file) != h->length || fclose(file) != 0) abort();
}

void hostile_free(Hostile *h)
{
    free(h->at);
    free(h->pointers);
    *h = (Hostile){0};
}
