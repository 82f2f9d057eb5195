#include "sofile.h"

static bool is_script(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot && strcmp(dot, ".attn") == 0;
}

static aule_status check_head(const AuElfFile *file, Elf64_Ehdr *head, AuSink sink)
{
    if (!rt_elf_read(file, 0, head, ELF_MAGIC_BYTES) ||
        memcmp(head->e_ident, ELF_MAGIC, ELF_MAGIC_BYTES) != 0)
        return rt_fail(sink, AULE_ERROR_ARTIFACT,
                       "%s: not an aule artifact: not a shared library (%zu bytes, no ELF magic)%s",
                       file->path, file->length,
                       is_script(file->path) ? ": a script, of which aulec makes one" : "");
    if (!rt_elf_read(file, 0, head, sizeof *head))
        return rt_fail(sink, AULE_ERROR_ARTIFACT,
                       "%s: truncated: %zu bytes, its head alone takes %zu", file->path,
                       file->length, sizeof *head);
    if (head->e_ident[EI_CLASS] != ELFCLASS64 || head->e_ident[EI_DATA] != ELFDATA2LSB)
        return rt_fail(sink, AULE_ERROR_ARTIFACT,
                       "%s: not an aule artifact: not 64-bit little-endian ELF", file->path);
    if (!rt_elf_machine(head->e_machine))
        return rt_fail(sink, AULE_ERROR_ARTIFACT,
                       "%s: for %s machines (%u in ELF), artifacts are for x86-64 and AArch64",
                       file->path, head->e_machine == EM_386 ? "i386" : "other", head->e_machine);
    if (head->e_type != ET_DYN)
        return rt_fail(sink, AULE_ERROR_ARTIFACT,
                       "%s: not an aule artifact: an ELF file of type %u, not a shared library",
                       file->path, head->e_type);
    return AULE_OK;
}

/* The last byte that the headers speak of must be there. */
static aule_status check_whole(const AuElfFile *file, const Elf64_Ehdr *head, AuSink sink)
{
    uint64_t end = head->e_shoff + (uint64_t)head->e_shnum * sizeof(Elf64_Shdr);
    bool sane = head->e_phentsize == sizeof(Elf64_Phdr) &&
                (head->e_shnum == 0 || head->e_shentsize == sizeof(Elf64_Shdr));
    for (unsigned i = 0; sane && i < head->e_phnum; i++) {
        Elf64_Phdr segment;
        uint64_t at = head->e_phoff + i * sizeof segment, last;
        if (!rt_elf_read(file, at, &segment, sizeof segment)) {
            end = at + sizeof segment;
            break;
        }
        sane = !__builtin_add_overflow(segment.p_offset, segment.p_filesz, &last);
        if (sane && segment.p_type == PT_LOAD && last > end) end = last;
    }
    if (!sane)
        return rt_fail(sink, AULE_ERROR_ARTIFACT, "%s: damaged: its ELF headers make no sense",
                       file->path);
    if (end > file->length)
        return rt_fail(sink, AULE_ERROR_ARTIFACT,
                       "%s: truncated: %zu bytes, its headers speak of %llu", file->path,
                       file->length, (unsigned long long)end);
    return AULE_OK;
}

/* ---- what a loader takes as it stands, and dies of where it is wrong */

/* Is [bytes] at a loaded address within a segment that has all of [flags]? Asked in many places: in each of them it would be 6 KB of libaule. */
static __attribute__((noinline)) bool is_within(const AuElfLoads *loads, uint64_t at,
                                                uint64_t bytes, uint32_t flags)
{
    for (uint32_t i = 0; i < loads->count; i++) {
        const Elf64_Phdr *segment = &loads->of[i];
        if ((segment->p_flags & flags) == flags && at >= segment->p_vaddr &&
            bytes <= segment->p_memsz && at - segment->p_vaddr <= segment->p_memsz - bytes)
            return true;
    }
    return false;
}

/* What is only read once it is relocated: linkers round its end up to that of a page, where the segment may end before. */
static bool relro_fits(const AuElfLoads *loads, const Elf64_Phdr *part)
{
    enum { PAGE = 4096, LARGEST_PAGE = 65536 };
    for (uint32_t n = 0; n < loads->count; n++) {
        const Elf64_Phdr *s = &loads->of[n];
        const uint64_t page = s->p_align > PAGE && s->p_align <= LARGEST_PAGE ? s->p_align : PAGE,
                       skipped = part->p_vaddr - s->p_vaddr;
        if (part->p_vaddr >= s->p_vaddr && skipped < s->p_memsz)
            return part->p_memsz <=
                   s->p_memsz - skipped + (page - (s->p_vaddr + s->p_memsz) % page) % page;
    }
    return false;
}

/* Is what a header speaks of besides the segments, the loader's own tables among it, where a segment has it? */
static bool is_in_segments(const AuElfLoads *loads, const Elf64_Phdr *part)
{
    uint64_t offset, left;
    const bool read = part->p_type == PT_DYNAMIC || part->p_type == PT_PHDR;
    if (part->p_type == PT_GNU_RELRO) return relro_fits(loads, part);
    if (!read && part->p_type != PT_TLS) return true;
    if (!is_within(loads, part->p_vaddr, part->p_memsz, 0)) return false;
    return !read || (rt_elf_place(loads, part->p_vaddr, &offset, &left) &&
                     offset == part->p_offset && part->p_filesz <= left);
}

/* Code is in the file; only what is written may begin as zeros. */
static bool lacks_code(const Elf64_Phdr *segment)
{
    return (segment->p_flags & (PF_X | PF_W)) == PF_X && segment->p_filesz != segment->p_memsz;
}

/* Segments ascend, lie in pages as their bytes in the file do, and are not longer there than in memory. */
static bool segments_fit(const AuElfFile *file, const Elf64_Ehdr *head, const AuElfLoads *loads)
{
    enum { PAGE = 4096 };
    uint64_t end = 0, last;
    Elf64_Phdr segment;
    for (unsigned i = 0; i < head->e_phnum; i++) {
        if (!rt_elf_part(file, head, i, &segment) || !is_in_segments(loads, &segment)) return false;
        if (segment.p_type != PT_LOAD) continue;
        if (!(segment.p_flags & PF_R) || segment.p_vaddr < end ||
            segment.p_filesz > segment.p_memsz || lacks_code(&segment) ||
            (segment.p_vaddr - segment.p_offset) % PAGE ||
            (segment.p_align & (segment.p_align - 1)) ||
            __builtin_add_overflow(segment.p_vaddr, segment.p_memsz, &last))
            return false;
        end = last;
    }
    return end < (uint64_t)1 << 47;
}

/* Is that a place of the lists of functions that run when it is loaded and unloaded? */
static bool is_called(const AuElfDynamic *d, uint64_t at)
{
    return at - d->at[DT_INIT_ARRAY] < d->at[DT_INIT_ARRAYSZ] ||
           at - d->at[DT_FINI_ARRAY] < d->at[DT_FINI_ARRAYSZ];
}

/* Who asks for a symbol by name means another library's or one that is there. Else it is the file's first byte to the loader, and is called. */
static bool symbol_fits(const AuElfLibrary *l, const Elf64_Sym *symbol)
{
    const unsigned how = symbol->st_info >> 4, what = symbol->st_info & 15u;
    if (how != STB_GLOBAL && how != STB_WEAK && how != STB_GNU_UNIQUE) return false;
    return symbol->st_shndx == SHN_UNDEF ||
           (symbol->st_value &&
            is_within(&l->loads, symbol->st_value, 0, what == STT_FUNC ? PF_X : 0));
}

static bool relocation_fits(const AuElfLibrary *l, const Elf64_Rela *r)
{
    const AuElfMachine *machine = rt_elf_machine(l->head.e_machine);
    const AuElfDynamic *d = &l->dynamic;
    const uint32_t kind = rt_elf_kind(r);
    const uint32_t written = d->at[DT_TEXTREL] ? 0 : PF_W;
    Elf64_Sym symbol;
    if (!is_within(&l->loads, r->r_offset, sizeof(uint64_t), written)) return false;
    if (kind == machine->relative)
        return is_within(&l->loads, (uint64_t)r->r_addend, 0, is_called(d, r->r_offset) ? PF_X : 0);
    if (kind == machine->called) return is_within(&l->loads, (uint64_t)r->r_addend, 1, PF_X);
    const bool named = rt_elf_names_symbol(machine, kind);
    return (d->threads || named) &&
           rt_elf_row(&d->symbols, rt_elf_row_of(r), &symbol, sizeof symbol) &&
           (!named || symbol_fits(l, &symbol)) && symbol.st_name < d->names.bytes &&
           rt_elf_has_version(&l->versions, rt_elf_row_of(r));
}

static bool table_fits(const AuElfFile *file, const AuElfLibrary *l, uint64_t at, uint64_t bytes,
                       uint64_t relative)
{
    AuElfTable table;
    Elf64_Rela r;
    if (!bytes) return true;
    if (bytes % sizeof r || !rt_elf_table(file, &l->loads, at, &table) || bytes > table.bytes)
        return false;
    for (uint64_t n = 0; n < bytes / sizeof r; n++)
        if (!rt_elf_row(&table, n, &r, sizeof r) || !relocation_fits(l, &r) ||
            (n < relative && rt_elf_kind(&r) != rt_elf_machine(l->head.e_machine)->relative))
            return false;
    return true;
}

/* Entries of the dynamic section that come together, and what they must say. */
static bool entries_fit(const AuElfDynamic *d)
{
    const uint64_t *at = d->at;
    return d->ends && !d->filters && !at[DT_RELA] == !at[DT_RELASZ] &&
           !at[DT_JMPREL] == !at[DT_PLTRELSZ] &&
           (!at[DT_RELA] || at[DT_RELAENT] == sizeof(Elf64_Rela)) &&
           (!at[DT_JMPREL] || at[DT_PLTREL] == DT_RELA) && at[DT_SYMENT] == sizeof(Elf64_Sym) &&
           at[DT_STRSZ] > 0 && at[DT_STRSZ] <= d->names.bytes && !at[DT_REL] &&
           d->relative <= at[DT_RELASZ] / sizeof(Elf64_Rela);
}

/* Functions that run when it is loaded and unloaded. */
static bool functions_fit(const AuElfLoads *loads, const AuElfDynamic *d)
{
    static const struct {
        int array, bytes;
    } lists[] = {{DT_INIT_ARRAY, DT_INIT_ARRAYSZ}, {DT_FINI_ARRAY, DT_FINI_ARRAYSZ}};
    for (int n = 0; n < 2; n++)
        if (!d->at[lists[n].array] != !d->at[lists[n].bytes] ||
            (d->at[lists[n].array] &&
             !is_within(loads, d->at[lists[n].array], d->at[lists[n].bytes], 0)))
            return false;
    return (!d->at[DT_INIT] || is_within(loads, d->at[DT_INIT], 1, PF_X)) &&
           (!d->at[DT_FINI] || is_within(loads, d->at[DT_FINI], 1, PF_X));
}

static bool loads(const AuElfFile *file, AuElfLibrary *l)
{
    const uint64_t *at = l->dynamic.at;
    return segments_fit(file, &l->head, &l->loads) && entries_fit(&l->dynamic) &&
           functions_fit(&l->loads, &l->dynamic) &&
           rt_elf_versions(file, &l->loads, &l->dynamic, &l->versions) &&
           rt_elf_have_versions(&l->versions, &l->dynamic) &&
           table_fits(file, l, at[DT_RELA], at[DT_RELASZ], l->dynamic.relative) &&
           table_fits(file, l, at[DT_JMPREL], at[DT_PLTRELSZ], 0);
}

aule_status rt_check_library(const AuElfFile *file, const char *symbol, AuElfLibrary *found,
                             AuSink sink)
{
    aule_status status = check_head(file, &found->head, sink);
    if (!status) status = check_whole(file, &found->head, sink);
    if (status) return status;
    if (!rt_elf_loads(file, &found->head, &found->loads))
        return rt_fail(sink, AULE_ERROR_ARTIFACT,
                       "%s: damaged: its ELF headers make no sense: more than %d segments",
                       file->path, AU_SEGMENTS_MOST);
    if (!rt_elf_dynamic(file, &found->head, &found->loads, &found->dynamic) ||
        !rt_elf_symbol(&found->dynamic, symbol, &found->symbol))
        return rt_fail(sink, AULE_ERROR_ARTIFACT,
                       "%s: not an aule artifact: a shared library without the symbol %s",
                       file->path, symbol);
    if (!loads(file, found))
        return rt_fail(sink, AULE_ERROR_ARTIFACT,
                       "%s: damaged: its tables for the loader speak of what is not in it",
                       file->path);
    return AULE_OK;
}
