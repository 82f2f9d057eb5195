#include "elf_file.h"

bool rt_elf_read(const AuElfFile *file, uint64_t offset, void *to, size_t bytes)
{
    if (offset > file->length || bytes > file->length - offset) return false;
    if (!file->bytes) return file->read && file->read(file->user, offset, to, bytes);
    memcpy(to, file->bytes + offset, bytes);
    return true;
}

bool rt_elf_part(const AuElfFile *file, const Elf64_Ehdr *head, uint32_t n, Elf64_Phdr *part)
{
    return rt_elf_read(file, head->e_phoff + n * sizeof *part, part, sizeof *part);
}

const AuElfMachine *rt_elf_machine(unsigned number)
{
    static const AuElfMachine known[] = {
        {EM_X86_64,
         "x86-64",
         R_X86_64_RELATIVE,
         R_X86_64_IRELATIVE,
         {R_X86_64_64, R_X86_64_GLOB_DAT, R_X86_64_JUMP_SLOT}},
        {EM_AARCH64,
         "AArch64",
         R_AARCH64_RELATIVE,
         R_AARCH64_IRELATIVE,
         {R_AARCH64_ABS64, R_AARCH64_GLOB_DAT, R_AARCH64_JUMP_SLOT}}};
    for (size_t n = 0; n < sizeof known / sizeof *known; n++)
        if (known[n].number == number) return &known[n];
    return NULL;
}

bool rt_elf_names_symbol(const AuElfMachine *machine, uint32_t kind)
{
    for (size_t n = 0; n < sizeof machine->of_symbols / sizeof *machine->of_symbols; n++)
        if (machine->of_symbols[n] == kind) return true;
    return false;
}

/* ---- the table of dynamic symbols, as the loader finds it: by program headers, since a file may do without others */

bool rt_elf_loads(const AuElfFile *file, const Elf64_Ehdr *head, AuElfLoads *loads)
{
    Elf64_Phdr segment;
    loads->count = 0;
    for (unsigned i = 0; i < head->e_phnum; i++) {
        if (!rt_elf_part(file, head, i, &segment)) return false;
        if (segment.p_type != PT_LOAD) continue;
        if (loads->count == AU_SEGMENTS_MOST) return false;
        loads->of[loads->count++] = segment;
    }
    return true;
}

bool rt_elf_place(const AuElfLoads *loads, uint64_t at, uint64_t *offset, uint64_t *left)
{
    for (uint32_t i = 0; i < loads->count; i++) {
        const Elf64_Phdr *segment = &loads->of[i];
        if (at < segment->p_vaddr || at - segment->p_vaddr >= segment->p_filesz) continue;
        *offset = segment->p_offset + (at - segment->p_vaddr);
        *left = segment->p_filesz - (at - segment->p_vaddr);
        return true;
    }
    return false;
}

bool rt_elf_table(const AuElfFile *file, const AuElfLoads *loads, uint64_t at, AuElfTable *table)
{
    table->file = file;
    return at != 0 && rt_elf_place(loads, at, &table->offset, &table->bytes);
}

bool rt_elf_at(const AuElfTable *table, uint64_t offset, void *to, size_t bytes)
{
    return offset <= table->bytes && bytes <= table->bytes - offset &&
           rt_elf_read(table->file, table->offset + offset, to, bytes);
}

bool rt_elf_row(const AuElfTable *table, uint64_t row, void *to, size_t bytes)
{
    return row < table->bytes / bytes && rt_elf_at(table, row * bytes, to, bytes);
}

bool rt_elf_dynamic(const AuElfFile *file, const Elf64_Ehdr *head, const AuElfLoads *loads,
                    AuElfDynamic *d)
{
    Elf64_Phdr segment = {0};
    Elf64_Dyn entry;
    uint64_t gnu_hash = 0;
    *d = (AuElfDynamic){0};
    for (unsigned i = 0; i < head->e_phnum; i++) {
        Elf64_Phdr next;
        if (!rt_elf_part(file, head, i, &next)) return false;
        if (next.p_type == PT_DYNAMIC && segment.p_type != PT_DYNAMIC) segment = next;
        d->threads |= next.p_type == PT_TLS;
    }
    if (segment.p_type != PT_DYNAMIC) return false;
    d->entries = (AuElfTable){file, segment.p_offset, segment.p_filesz};
    for (uint64_t n = 0; !d->ends && rt_elf_row(&d->entries, n, &entry, sizeof entry); n++) {
        d->ends = entry.d_tag == DT_NULL;
        d->filters |= entry.d_tag == DT_FILTER || entry.d_tag == DT_AUXILIARY;
        if (entry.d_tag > 0 && entry.d_tag < ELF_TAGS) d->at[entry.d_tag] = entry.d_val;
        if (entry.d_tag == DT_GNU_HASH) gnu_hash = entry.d_val;
        if (entry.d_tag == DT_RELACOUNT) d->relative = entry.d_val;
        if (entry.d_tag == DT_VERSYM) d->versions = entry.d_val;
        if (entry.d_tag == DT_VERNEED) d->needs = entry.d_val;
        if (entry.d_tag == DT_VERDEF) d->definitions = entry.d_val;
    }
    rt_elf_table(file, loads, d->at[DT_HASH], &d->hash);
    rt_elf_table(file, loads, gnu_hash, &d->gnu_hash);
    return rt_elf_table(file, loads, d->at[DT_SYMTAB], &d->symbols) &&
           rt_elf_table(file, loads, d->at[DT_STRTAB], &d->names);
}

/* Does row [row] of the symbols define [symbol]? */
static bool defines(const AuElfDynamic *d, uint32_t row, const char *symbol, Elf64_Sym *found)
{
    Elf64_Sym entry;
    char name[64];
    const size_t length = strlen(symbol) + 1;
    if (length > sizeof name || !rt_elf_row(&d->symbols, row, &entry, sizeof entry) ||
        entry.st_shndx == SHN_UNDEF || !rt_elf_at(&d->names, entry.st_name, name, length))
        return false;
    *found = entry;
    return memcmp(name, symbol, length) == 0;
}

/* Symbols that hash alike are a chain; no chain is longer than the table, whose head may say that it is longer than the file. */
static bool in_hash(const AuElfDynamic *d, const char *symbol, Elf64_Sym *found)
{
    uint32_t h = 0, buckets, count, row;
    for (const char *c = symbol; *c; c++) {
        h = (h << 4) + (unsigned char)*c;
        h = (h ^ (h >> 24 & 0xf0)) & 0x0fffffff;
    }
    if (!rt_elf_row(&d->hash, 0, &buckets, sizeof buckets) || buckets == 0 ||
        !rt_elf_row(&d->hash, 1, &count, sizeof count) ||
        !rt_elf_row(&d->hash, 2 + h % buckets, &row, sizeof row))
        return false;
    if (count > d->hash.bytes / sizeof row) return false;
    for (uint32_t n = 0; n < count && row != 0; n++) {
        if (defines(d, row, symbol, found)) return true;
        if (!rt_elf_row(&d->hash, 2 + (uint64_t)buckets + row, &row, sizeof row)) return false;
    }
    return false;
}

/* The head: buckets, the first symbol in them, words of a filter, which stands before the buckets. */
static bool in_gnu_hash(const AuElfDynamic *d, const char *symbol, Elf64_Sym *found)
{
    uint32_t h = 5381, head[3], row, hash;
    for (const char *c = symbol; *c; c++) h = h * 33 + (unsigned char)*c;
    for (uint64_t n = 0; n < 3; n++)
        if (!rt_elf_row(&d->gnu_hash, n, &head[n], sizeof head[n])) return false;
    const uint64_t buckets = 4 + 2 * (uint64_t)head[2], chains = buckets + head[0];
    if (head[0] == 0 || !rt_elf_row(&d->gnu_hash, buckets + h % head[0], &row, sizeof row) ||
        row < head[1])
        return false;
    do {
        if (!rt_elf_row(&d->gnu_hash, chains + (row - head[1]), &hash, sizeof hash)) return false;
        if ((hash | 1) == (h | 1) && defines(d, row, symbol, found)) return true;
        row++;
    } while (!(hash & 1));
    return false;
}

bool rt_elf_symbol(const AuElfDynamic *d, const char *symbol, Elf64_Sym *found)
{
    return d->gnu_hash.file && d->gnu_hash.bytes ? in_gnu_hash(d, symbol, found)
                                                 : in_hash(d, symbol, found);
}

bool rt_elf_same_name(const AuElfDynamic *d, uint32_t a, uint32_t b)
{
    enum { LONGEST = 256 };
    char x, y;
    for (uint64_t n = 0; n < LONGEST; n++) {
        if (!rt_elf_row(&d->names, a + n, &x, 1) || !rt_elf_row(&d->names, b + n, &y, 1) || x != y)
            return false;
        if (!x) return true;
    }
    return false;
}

/* By the table that is asked: the first table says how many symbols there are, the second where its last chain begins. */
bool rt_elf_found_by_name(const AuElfDynamic *d, uint32_t *first, uint32_t *end)
{
    uint32_t head[3], row, hash = 0;
    *first = *end = 0;
    if (!d->gnu_hash.file || !d->gnu_hash.bytes)
        return rt_elf_row(&d->hash, 1, end, sizeof *end) && *end <= d->hash.bytes / sizeof *end;
    for (uint64_t n = 0; n < 3; n++)
        if (!rt_elf_row(&d->gnu_hash, n, &head[n], sizeof head[n])) return false;
    const uint64_t buckets = 4 + 2 * (uint64_t)head[2], chains = buckets + head[0];
    for (uint32_t n = 0; n < head[0]; n++) {
        if (!rt_elf_row(&d->gnu_hash, buckets + n, &row, sizeof row)) return false;
        if (row > *end) *end = row;
    }
    *first = head[1];
    if (*end < *first) return *end == 0;
    for (; !(hash & 1); ++*end)
        if (!rt_elf_row(&d->gnu_hash, chains + (*end - *first), &hash, sizeof hash)) return false;
    return true;
}
