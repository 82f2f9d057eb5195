/* elf.c - an image as a shared library (ELF) without a linker: one symbol, relocations of the file's own addresses, nothing that runs. So it is one on
 * every system, and the same bytes; loaders take it as they take a linker's, and libaule reads it where none does (runtime/elf_image.c).
 * What is read alone lies in front; the image and the dynamic section, which a loader writes once, in a segment behind. */
#include "target.h"
#include "text.h"

#include <string.h>

#include "aule/elf64.h"

/* A shared library is for some machine, if only as a container: the one that it is made on. */
#if defined(__aarch64__)
enum { MACHINE = EM_AARCH64, RELATIVE = R_AARCH64_RELATIVE };
#else
enum { MACHINE = EM_X86_64, RELATIVE = R_X86_64_RELATIVE };
#endif

enum { PAGE = 65536, ALIGN = 64 }; /* of the largest pages that there are; of an image */

typedef enum Section {
    NONE,
    SYMBOLS,
    HASH,
    NAMES,
    RELOCATIONS,
    IMAGE,
    DYNAMIC,
    SECTION_NAMES,
    SECTIONS
} Section;

typedef struct Library {
    AuText bytes;
    Elf64_Shdr sections[SECTIONS];
    const AuImage *image;
    const char *symbol;
    uint64_t shift; /* of addresses behind what is read alone, beyond their places in the file */
} Library;

/* In the order of Section. */
static const struct {
    const char *name;
    uint32_t type, link, info; /* link: whose names; info: the first symbol that is not local */
    uint64_t flags, align, row;
} kinds[SECTIONS] = {
    {"", 0, 0, 0, 0, 0, 0},
    {".dynsym", SHT_DYNSYM, NAMES, 1, SHF_ALLOC, 8, sizeof(Elf64_Sym)},
    {".hash", SHT_HASH, SYMBOLS, 0, SHF_ALLOC, 8, sizeof(uint32_t)},
    {".dynstr", SHT_STRTAB, 0, 0, SHF_ALLOC, 1, 0},
    {".rela.dyn", SHT_RELA, SYMBOLS, 0, SHF_ALLOC, 8, sizeof(Elf64_Rela)},
    {".data.rel.ro", SHT_PROGBITS, 0, 0, SHF_ALLOC | SHF_WRITE, ALIGN, 0},
    {".dynamic", SHT_DYNAMIC, NAMES, 0, SHF_ALLOC | SHF_WRITE, 8, sizeof(Elf64_Dyn)},
    {".shstrtab", SHT_STRTAB, 0, 0, 0, 1, 0},
};

static void pad(Library *l, uint64_t align)
{
    static const char zeros[ALIGN] = {0};
    au_text_bytes(&l->bytes, zeros, (align - l->bytes.length % align) % align);
}

static void add(Library *l, const void *bytes, size_t length)
{
    au_text_bytes(&l->bytes, bytes, length);
}

static void begin(Library *l, Section s)
{
    if (kinds[s].align > 1) pad(l, kinds[s].align);
    l->sections[s] = (Elf64_Shdr){.sh_type = kinds[s].type,
                                  .sh_flags = kinds[s].flags,
                                  .sh_addr = kinds[s].flags ? l->bytes.length + l->shift : 0,
                                  .sh_offset = l->bytes.length,
                                  .sh_link = kinds[s].link,
                                  .sh_info = kinds[s].info,
                                  .sh_addralign = kinds[s].align,
                                  .sh_entsize = kinds[s].row};
}

static void end(Library *l, Section s)
{
    l->sections[s].sh_size = l->bytes.length - l->sections[s].sh_offset;
}

/* ---- sections. Addresses of the image are known before it is there: it begins behind the relocations, of which there are so many. */

static uint64_t image_address(const Library *l)
{
    const uint64_t at = l->sections[RELOCATIONS].sh_offset +
                        (uint64_t)l->image->fix_count * sizeof(Elf64_Rela),
                   place = (at + ALIGN - 1) / ALIGN * ALIGN;
    return (place + PAGE - 1) / PAGE * PAGE + place % PAGE;
}

static void add_symbols(Library *l)
{
    const Elf64_Sym rows[2] = {{.st_name = 0},
                               {.st_name = 1,
                                .st_info = STB_GLOBAL << 4 | STT_OBJECT,
                                .st_shndx = IMAGE,
                                .st_size = l->image->length}};
    begin(l, SYMBOLS);
    add(l, rows, sizeof rows);
    end(l, SYMBOLS);
    /* one bucket of symbol 1, behind which there is none */
    const uint32_t hash[] = {1, 2, 1, 0, 0};
    begin(l, HASH);
    add(l, hash, sizeof hash);
    end(l, HASH);
    begin(l, NAMES);
    add(l, "", 1);
    add(l, l->symbol, strlen(l->symbol) + 1);
    end(l, NAMES);
}

static void set_symbol(Library *l)
{
    Elf64_Sym *row = (Elf64_Sym *)(void *)(l->bytes.at + l->sections[SYMBOLS].sh_offset) + 1;
    row->st_value = l->sections[IMAGE].sh_addr;
}

static void add_relocations(Library *l)
{
    begin(l, RELOCATIONS);
    const uint64_t first = image_address(l);
    for (uint32_t n = 0; n < l->image->fix_count; n++) {
        const AuImageFix *fix = &l->image->fixes[n];
        const Elf64_Rela row = {first + fix->at, RELATIVE, (int64_t)(first + fix->offset)};
        add(l, &row, sizeof row);
    }
    end(l, RELOCATIONS);
}

static void add_image(Library *l)
{
    const uint64_t at = image_address(l);
    pad(l, ALIGN);
    l->shift = at - l->bytes.length;
    begin(l, IMAGE);
    add(l, l->image->bytes, l->image->length);
    end(l, IMAGE);
}

static void add_dynamic(Library *l)
{
    const Elf64_Shdr *s = l->sections;
    const Elf64_Dyn rows[] = {
        {DT_HASH, s[HASH].sh_addr},          {DT_STRTAB, s[NAMES].sh_addr},
        {DT_SYMTAB, s[SYMBOLS].sh_addr},     {DT_STRSZ, s[NAMES].sh_size},
        {DT_SYMENT, sizeof(Elf64_Sym)},      {DT_RELA, s[RELOCATIONS].sh_addr},
        {DT_RELASZ, s[RELOCATIONS].sh_size}, {DT_RELAENT, sizeof(Elf64_Rela)},
        {DT_RELACOUNT, l->image->fix_count}, {DT_NULL, 0}};
    begin(l, DYNAMIC);
    add(l, rows, sizeof rows);
    end(l, DYNAMIC);
}

static void add_section_headers(Library *l)
{
    begin(l, SECTION_NAMES);
    for (Section s = NONE; s < SECTIONS; s++) {
        l->sections[s].sh_name = (uint32_t)(l->bytes.length - l->sections[SECTION_NAMES].sh_offset);
        add(l, kinds[s].name, strlen(kinds[s].name) + 1);
    }
    end(l, SECTION_NAMES);
    pad(l, 8);
    add(l, l->sections, sizeof l->sections);
}

/* ---- the head */

enum { PARTS = 5 };
typedef struct Head {
    Elf64_Ehdr file;
    Elf64_Phdr parts[PARTS];
} Head;

/* A loader makes what it has written read-only up to the last whole page: so the segment is that long in memory. */
static Head head_of(const Library *l)
{
    const Elf64_Shdr *s = l->sections;
    const uint64_t read = s[IMAGE].sh_offset,
                   written = s[DYNAMIC].sh_offset + s[DYNAMIC].sh_size - read,
                   at = s[IMAGE].sh_addr, last = (at + written + PAGE - 1) / PAGE * PAGE;
    Head head = {.file = {.e_type = ET_DYN,
                          .e_machine = MACHINE,
                          .e_version = EV_CURRENT,
                          .e_phoff = offsetof(Head, parts),
                          .e_shoff = l->bytes.length - sizeof l->sections,
                          .e_ehsize = sizeof(Elf64_Ehdr),
                          .e_phentsize = sizeof(Elf64_Phdr),
                          .e_phnum = PARTS,
                          .e_shentsize = sizeof(Elf64_Shdr),
                          .e_shnum = SECTIONS,
                          .e_shstrndx = SECTION_NAMES},
                 .parts = {{PT_LOAD, PF_R, 0, 0, 0, read, read, PAGE},
                           {PT_LOAD, PF_R | PF_W, read, at, at, written, last - at, PAGE},
                           {PT_DYNAMIC, PF_R | PF_W, s[DYNAMIC].sh_offset, s[DYNAMIC].sh_addr,
                            s[DYNAMIC].sh_addr, s[DYNAMIC].sh_size, s[DYNAMIC].sh_size, 8},
                           {PT_GNU_RELRO, PF_R, read, at, at, written, last - at, 1},
                           {PT_GNU_STACK, PF_R | PF_W, 0, 0, 0, 0, 0, 0}}};
    memcpy(head.file.e_ident, ELF_MAGIC, ELF_MAGIC_BYTES);
    head.file.e_ident[EI_CLASS] = ELFCLASS64;
    head.file.e_ident[EI_DATA] = ELFDATA2LSB;
    head.file.e_ident[EI_VERSION] = EV_CURRENT;
    return head;
}

bool au_data_library(AuArena *arena, AuDiags *diags, const AuImage *image, const char *symbol,
                     AuBlob *out)
{
    Library l = {.bytes = {.arena = arena}, .image = image, .symbol = symbol};
    const Head none = {.file = {.e_type = 0}};
    if (!au_image_is_sound(diags, image)) return false;
    for (uint32_t n = 0; n < image->fix_count; n++)
        if (image->fixes[n].symbol) {
            au_error(diags, AU_E0004, (AuSpan){0}, "'%s' is no data", image->fixes[n].symbol);
            return false;
        }
    add(&l, &none, sizeof none);
    add_symbols(&l);
    add_relocations(&l);
    add_image(&l);
    add_dynamic(&l);
    set_symbol(&l);
    add_section_headers(&l);
    const Head head = head_of(&l);
    memcpy(l.bytes.at, &head, sizeof head);
    *out = (AuBlob){l.bytes.at, l.bytes.length};
    return true;
}
