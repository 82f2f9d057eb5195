#include "elf_image.h"

#include <sys/mman.h>

/* Artifacts have no memory beyond their bytes but the gaps between segments, which linkers make up to 2 MB long. */
enum { MOST_GAPS = 64 << 20 };
/* Code in libraries reaches no further, so linkers make none that are longer. */
#define MOST ((uint64_t)1 << 31)

typedef struct Reader {
    const AuElfFile *file;
    const AuElfLibrary *library;
    const AuElfMachine *machine;
    AuElfImage *image;
    AuElfFile loaded; /* the image as a file, whose offsets are addresses less [first] */
    uint64_t first;   /* address of the image's first byte, as the file counts them */
} Reader;

/* Are so many bytes from that address of the file's on in the image? Where. */
static bool find(const Reader *r, uint64_t at, uint64_t bytes, uint64_t *offset)
{
    *offset = at - r->first;
    return at >= r->first && *offset <= r->image->bytes && bytes <= r->image->bytes - *offset;
}

/* ---- segments */

/* Segments ascend. */
static bool measure(Reader *r, uint64_t *bytes)
{
    enum { PAGE = 4096 };
    const AuElfLoads *loads = &r->library->loads;
    uint64_t end = 0;
    for (uint32_t n = 0; n < loads->count; n++) {
        const Elf64_Phdr *segment = &loads->of[n];
        if (n == 0) r->first = segment->p_vaddr / PAGE * PAGE;
        if (segment->p_vaddr < end ||
            __builtin_add_overflow(segment->p_vaddr, segment->p_memsz, &end))
            return false;
    }
    *bytes = end - r->first;
    return loads->count > 0 && *bytes > 0 && *bytes <= MOST &&
           *bytes <= (uint64_t)r->file->length + MOST_GAPS;
}

static bool copy_segments(Reader *r)
{
    AuSegments *known = &r->image->segments;
    for (uint32_t n = 0; n < r->library->loads.count; n++) {
        const Elf64_Phdr *segment = &r->library->loads.of[n];
        uint64_t to;
        if (segment->p_filesz > segment->p_memsz ||
            !find(r, segment->p_vaddr, segment->p_memsz, &to) ||
            !rt_elf_read(r->file, segment->p_offset, r->image->memory + to, segment->p_filesz))
            return false;
        if (!(segment->p_flags & PF_R)) continue;
        known->of[known->count].begin = (uintptr_t)r->image->memory + to;
        known->of[known->count].end = (uintptr_t)r->image->memory + to + segment->p_memsz;
        known->of[known->count++].runs = (segment->p_flags & PF_X) != 0;
    }
    return true;
}

/* ---- relocations. The tables are read from the image, which nobody else changes. */

static bool image_table(const Reader *r, uint64_t at, uint64_t bytes, AuElfTable *table)
{
    *table = (AuElfTable){&r->loaded, 0, bytes};
    return find(r, at, bytes, &table->offset);
}

/* What an address of the file's is here, 0 if it is none of the image's. */
static uint64_t here(const Reader *r, uint64_t at)
{
    uint64_t offset;
    return find(r, at, 0, &offset) ? (uint64_t)(uintptr_t)r->image->memory + offset : 0;
}

/* Symbols of other libraries are no addresses here, as is what only a loader knows: nothing of it is called. */
static uint64_t value_of(const Reader *r, const Elf64_Rela *relocation)
{
    const uint32_t kind = rt_elf_kind(relocation);
    AuElfTable symbols;
    Elf64_Sym symbol;
    if (kind == r->machine->relative) return here(r, (uint64_t)relocation->r_addend);
    if (!rt_elf_names_symbol(r->machine, kind) ||
        !image_table(r, r->library->dynamic.at[DT_SYMTAB], 0, &symbols))
        return 0;
    symbols.bytes = r->image->bytes - symbols.offset;
    if (!rt_elf_row(&symbols, rt_elf_row_of(relocation), &symbol, sizeof symbol) ||
        symbol.st_shndx == SHN_UNDEF)
        return 0;
    return here(r, symbol.st_value + (uint64_t)relocation->r_addend);
}

static bool relocate(const Reader *r, int table_tag, int bytes_tag)
{
    const uint64_t *at = r->library->dynamic.at;
    AuElfTable table;
    Elf64_Rela relocation;
    if (!at[bytes_tag]) return true;
    if (!image_table(r, at[table_tag], at[bytes_tag], &table)) return false;
    for (uint64_t n = 0; n < at[bytes_tag] / sizeof relocation; n++) {
        uint64_t to;
        if (!rt_elf_row(&table, n, &relocation, sizeof relocation) ||
            !find(r, relocation.r_offset, sizeof to, &to))
            return false;
        const uint64_t value = value_of(r, &relocation);
        memcpy(r->image->memory + to, &value, sizeof value);
    }
    return true;
}

/* ---- the whole */

static bool fill(Reader *r)
{
    uint64_t offset;
    r->loaded =
        (AuElfFile){.path = r->file->path, .bytes = r->image->memory, .length = r->image->bytes};
    if (!copy_segments(r) || !relocate(r, DT_RELA, DT_RELASZ) ||
        !relocate(r, DT_JMPREL, DT_PLTRELSZ) ||
        !find(r, r->library->symbol.st_value, r->library->symbol.st_size, &offset))
        return false;
    r->image->symbol = r->image->memory + offset;
    return true;
}

aule_status rt_read_image(const AuElfFile *file, const AuElfLibrary *library, AuElfImage *image,
                          AuSink sink)
{
    Reader r = {.file = file, .library = library, .image = image};
    uint64_t bytes = 0;
    *image = (AuElfImage){.memory = NULL};
    r.machine = rt_elf_machine(library->head.e_machine);
    if (!r.machine || !measure(&r, &bytes))
        return rt_fail(sink, AULE_ERROR_ARTIFACT, "%s: damaged: its segments are no artifact's",
                       file->path);
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return rt_fail_memory(sink);
    image->memory = memory;
    image->bytes = bytes;
    if (fill(&r)) return AULE_OK;
    rt_free_image(image);
    return rt_fail(sink, AULE_ERROR_ARTIFACT,
                   "%s: damaged: its relocations speak of what is not in it", file->path);
}

bool rt_seal_image(const AuElfImage *image)
{
    return mprotect(image->memory, image->bytes, PROT_READ) == 0;
}

void rt_free_image(AuElfImage *image)
{
    if (image->memory) munmap(image->memory, image->bytes);
    *image = (AuElfImage){.memory = NULL};
}
