#include "sofile.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__x86_64__)
enum { MACHINE = EM_X86_64 };
#elif defined(__aarch64__)
enum { MACHINE = EM_AARCH64 };
#else
enum { MACHINE = EM_NONE };
#endif

typedef struct File {
    const char *path;
    const unsigned char *bytes;
    size_t length;
} File;

static const char *machine_name(unsigned machine)
{
    return machine == EM_X86_64    ? "x86-64"
           : machine == EM_AARCH64 ? "AArch64"
           : machine == EM_386     ? "i386"
                                   : "another";
}

/* Structures are copied out: nothing says that they are aligned. */
static bool read_at(const File *file, uint64_t offset, void *to, size_t bytes)
{
    if (offset > file->length || bytes > file->length - offset) return false;
    memcpy(to, file->bytes + offset, bytes);
    return true;
}

static bool is_script(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot && strcmp(dot, ".attn") == 0;
}

static aule_status check_head(const File *file, Elf64_Ehdr *head, AuSink sink)
{
    if (!read_at(file, 0, head, SELFMAG) || memcmp(head->e_ident, ELFMAG, SELFMAG) != 0)
        return rt_fail(sink, AULE_ERROR_ARTIFACT,
                       "%s: not an aule artifact: not a shared library (%zu bytes, no ELF magic)%s",
                       file->path, file->length,
                       is_script(file->path) ? ": a script, of which aulec makes one" : "");
    if (!read_at(file, 0, head, sizeof *head))
        return rt_fail(sink, AULE_ERROR_ARTIFACT,
                       "%s: truncated: %zu bytes, its head alone takes %zu", file->path,
                       file->length, sizeof *head);
    if (head->e_ident[EI_CLASS] != ELFCLASS64 || head->e_ident[EI_DATA] != ELFDATA2LSB)
        return rt_fail(sink, AULE_ERROR_ARTIFACT,
                       "%s: not an aule artifact: not 64-bit little-endian ELF", file->path);
    if (head->e_machine != MACHINE)
        return rt_fail(sink, AULE_ERROR_ARTIFACT,
                       "%s: for %s machines, this one is %s: compile it for this machine",
                       file->path, machine_name(head->e_machine), machine_name(MACHINE));
    if (head->e_type != ET_DYN)
        return rt_fail(sink, AULE_ERROR_ARTIFACT,
                       "%s: not an aule artifact: an ELF file of type %u, not a shared library",
                       file->path, head->e_type);
    return AULE_OK;
}

/* The last byte that the headers speak of must be there. */
static aule_status check_whole(const File *file, const Elf64_Ehdr *head, AuSink sink)
{
    uint64_t end = head->e_shoff + (uint64_t)head->e_shnum * sizeof(Elf64_Shdr);
    bool sane = head->e_phentsize == sizeof(Elf64_Phdr) &&
                (head->e_shnum == 0 || head->e_shentsize == sizeof(Elf64_Shdr));
    for (unsigned i = 0; sane && i < head->e_phnum; i++) {
        Elf64_Phdr segment;
        uint64_t at = head->e_phoff + i * sizeof segment, last;
        if (!read_at(file, at, &segment, sizeof segment)) {
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

/* ---- the table of dynamic symbols, as the loader finds it: by program headers, since a file may do without others */

/* Where the loaded address [at] is in the file, and how many bytes of the file follow it there. */
static bool find_in_file(const File *file, const Elf64_Ehdr *head, uint64_t at, uint64_t *offset,
                         uint64_t *left)
{
    Elf64_Phdr segment;
    for (unsigned i = 0; i < head->e_phnum; i++) {
        if (!read_at(file, head->e_phoff + i * sizeof segment, &segment, sizeof segment))
            return false;
        if (segment.p_type != PT_LOAD || at < segment.p_vaddr ||
            at - segment.p_vaddr >= segment.p_filesz)
            continue;
        *offset = segment.p_offset + (at - segment.p_vaddr);
        *left = segment.p_filesz - (at - segment.p_vaddr);
        return true;
    }
    return false;
}

/* A table at a loaded address; nothing of it is read beyond its segment in the file. */
typedef struct Table {
    const File *file;
    uint64_t offset, bytes;
} Table;

static bool find_table(const File *file, const Elf64_Ehdr *head, uint64_t at, Table *table)
{
    table->file = file;
    return at != 0 && find_in_file(file, head, at, &table->offset, &table->bytes);
}

static bool read_row(const Table *table, uint64_t row, void *to, size_t bytes)
{
    return row < table->bytes / bytes &&
           read_at(table->file, table->offset + row * bytes, to, bytes);
}

typedef struct Dynamic {
    Table symbols, names, hash, gnu_hash;
    uint64_t at[DT_NUM]; /* values by tag */
    uint64_t relative;   /* so many relocations, the first, are of the file's own addresses */
    bool threads;        /* it has variables of threads */
    bool ends, filters; /* its entries have an end; names are looked for in another library first */
} Dynamic;

static bool find_dynamic(const File *file, const Elf64_Ehdr *head, Dynamic *d)
{
    Elf64_Phdr segment = {0};
    Elf64_Dyn entry;
    uint64_t gnu_hash = 0;
    *d = (Dynamic){0};
    for (unsigned i = 0; i < head->e_phnum; i++) {
        Elf64_Phdr next;
        if (!read_at(file, head->e_phoff + i * sizeof next, &next, sizeof next)) return false;
        if (next.p_type == PT_DYNAMIC && segment.p_type != PT_DYNAMIC) segment = next;
        d->threads |= next.p_type == PT_TLS;
    }
    if (segment.p_type != PT_DYNAMIC) return false;
    const Table dynamic = {file, segment.p_offset, segment.p_filesz};
    for (uint64_t n = 0; !d->ends && read_row(&dynamic, n, &entry, sizeof entry); n++) {
        d->ends = entry.d_tag == DT_NULL;
        d->filters |= entry.d_tag == DT_FILTER || entry.d_tag == DT_AUXILIARY;
        if (entry.d_tag > 0 && entry.d_tag < DT_NUM) d->at[entry.d_tag] = entry.d_un.d_ptr;
        if (entry.d_tag == DT_GNU_HASH) gnu_hash = entry.d_un.d_ptr;
        if (entry.d_tag == DT_RELACOUNT) d->relative = entry.d_un.d_val;
    }
    find_table(file, head, d->at[DT_HASH], &d->hash);
    find_table(file, head, gnu_hash, &d->gnu_hash);
    return find_table(file, head, d->at[DT_SYMTAB], &d->symbols) &&
           find_table(file, head, d->at[DT_STRTAB], &d->names);
}

/* Does row [row] of the symbols define [symbol]? */
static bool defines(const Dynamic *d, uint32_t row, const char *symbol)
{
    Elf64_Sym entry;
    char name[64];
    const size_t length = strlen(symbol) + 1;
    if (length > sizeof name || !read_row(&d->symbols, row, &entry, sizeof entry) ||
        entry.st_shndx == SHN_UNDEF || entry.st_name > d->names.bytes ||
        length > d->names.bytes - entry.st_name)
        return false;
    return read_at(d->names.file, d->names.offset + entry.st_name, name, length) &&
           memcmp(name, symbol, length) == 0;
}

/* Symbols that hash alike are a chain; no chain is longer than the table. */
static bool in_hash(const Dynamic *d, const char *symbol)
{
    uint32_t h = 0, buckets, count, row;
    for (const char *c = symbol; *c; c++) {
        h = (h << 4) + (unsigned char)*c;
        h = (h ^ (h >> 24 & 0xf0)) & 0x0fffffff;
    }
    if (!read_row(&d->hash, 0, &buckets, sizeof buckets) || buckets == 0 ||
        !read_row(&d->hash, 1, &count, sizeof count) ||
        !read_row(&d->hash, 2 + h % buckets, &row, sizeof row))
        return false;
    for (uint32_t n = 0; n < count && row != 0; n++) {
        if (defines(d, row, symbol)) return true;
        if (!read_row(&d->hash, 2 + (uint64_t)buckets + row, &row, sizeof row)) return false;
    }
    return false;
}

/* The head: buckets, the first symbol in them, words of a filter, which stands before the buckets. */
static bool in_gnu_hash(const Dynamic *d, const char *symbol)
{
    uint32_t h = 5381, head[3], row, hash;
    for (const char *c = symbol; *c; c++) h = h * 33 + (unsigned char)*c;
    for (uint64_t n = 0; n < 3; n++)
        if (!read_row(&d->gnu_hash, n, &head[n], sizeof head[n])) return false;
    const uint64_t buckets = 4 + 2 * (uint64_t)head[2], chains = buckets + head[0];
    if (head[0] == 0 || !read_row(&d->gnu_hash, buckets + h % head[0], &row, sizeof row) ||
        row < head[1])
        return false;
    do {
        if (!read_row(&d->gnu_hash, chains + (row - head[1]), &hash, sizeof hash)) return false;
        if ((hash | 1) == (h | 1) && defines(d, row, symbol)) return true;
        row++;
    } while (!(hash & 1));
    return false;
}

static bool exports(const Dynamic *d, const char *symbol)
{
    return d->gnu_hash.file && d->gnu_hash.bytes ? in_gnu_hash(d, symbol) : in_hash(d, symbol);
}

/* ---- what a loader takes as it stands, and dies of where it is wrong */

/* Is [bytes] at a loaded address within a segment that has all of [flags]? */
static bool is_within(const File *file, const Elf64_Ehdr *head, uint64_t at, uint64_t bytes,
                      uint32_t flags)
{
    Elf64_Phdr segment;
    for (unsigned i = 0; i < head->e_phnum; i++)
        if (read_at(file, head->e_phoff + i * sizeof segment, &segment, sizeof segment) &&
            segment.p_type == PT_LOAD && (segment.p_flags & flags) == flags &&
            at >= segment.p_vaddr && bytes <= segment.p_memsz &&
            at - segment.p_vaddr <= segment.p_memsz - bytes)
            return true;
    return false;
}

/* Is what a header speaks of besides the segments, the loader's own tables among it, where a segment has it? */
static bool is_in_segments(const File *file, const Elf64_Ehdr *head, const Elf64_Phdr *part)
{
    uint64_t offset, left;
    const bool read = part->p_type == PT_DYNAMIC || part->p_type == PT_PHDR;
    if (!read && part->p_type != PT_GNU_RELRO && part->p_type != PT_TLS) return true;
    if (!is_within(file, head, part->p_vaddr, part->p_memsz, 0)) return false;
    return !read || (find_in_file(file, head, part->p_vaddr, &offset, &left) &&
                     offset == part->p_offset && part->p_filesz <= left);
}

/* Segments ascend, lie in pages as their bytes in the file do, and are not longer there than in memory. */
static bool segments_fit(const File *file, const Elf64_Ehdr *head)
{
    enum { PAGE = 4096 };
    uint64_t end = 0, last;
    Elf64_Phdr segment;
    for (unsigned i = 0; i < head->e_phnum; i++) {
        if (!read_at(file, head->e_phoff + i * sizeof segment, &segment, sizeof segment) ||
            !is_in_segments(file, head, &segment))
            return false;
        if (segment.p_type != PT_LOAD) continue;
        if (!(segment.p_flags & PF_R) || segment.p_vaddr < end ||
            segment.p_filesz > segment.p_memsz || (segment.p_vaddr - segment.p_offset) % PAGE ||
            (segment.p_align & (segment.p_align - 1)) ||
            __builtin_add_overflow(segment.p_vaddr, segment.p_memsz, &last))
            return false;
        end = last;
    }
    return end < (uint64_t)1 << 47;
}

/* Of relocations: an address of the file's own, what a function of the file says, and those of symbols, which are all that there are
 * in a library without variables of threads. */
#if defined(__aarch64__)
enum { RELATIVE = R_AARCH64_RELATIVE, CALLED = R_AARCH64_IRELATIVE };
static const uint32_t of_symbols[] = {R_AARCH64_ABS64, R_AARCH64_GLOB_DAT, R_AARCH64_JUMP_SLOT};
#else
enum { RELATIVE = R_X86_64_RELATIVE, CALLED = R_X86_64_IRELATIVE };
static const uint32_t of_symbols[] = {R_X86_64_64, R_X86_64_GLOB_DAT, R_X86_64_JUMP_SLOT};
#endif

static bool relocation_fits(const File *file, const Elf64_Ehdr *head, const Dynamic *d,
                            const Elf64_Rela *r)
{
    const uint32_t row = (uint32_t)ELF64_R_SYM(r->r_info), kind = (uint32_t)ELF64_R_TYPE(r->r_info);
    const uint32_t written = d->at[DT_TEXTREL] ? 0 : PF_W;
    Elf64_Sym symbol;
    bool known = d->threads;
    if (!is_within(file, head, r->r_offset, sizeof(uint64_t), written)) return false;
    if (kind == RELATIVE) return is_within(file, head, (uint64_t)r->r_addend, 0, 0);
    if (kind == CALLED) return is_within(file, head, (uint64_t)r->r_addend, 1, PF_X);
    for (size_t n = 0; n < sizeof of_symbols / sizeof *of_symbols; n++)
        known |= kind == of_symbols[n];
    return known && read_row(&d->symbols, row, &symbol, sizeof symbol) &&
           symbol.st_name < d->names.bytes;
}

static bool table_fits(const File *file, const Elf64_Ehdr *head, const Dynamic *d, uint64_t at,
                       uint64_t bytes, uint64_t relative)
{
    Table table;
    Elf64_Rela r;
    if (!bytes) return true;
    if (bytes % sizeof r || !find_table(file, head, at, &table) || bytes > table.bytes)
        return false;
    for (uint64_t n = 0; n < bytes / sizeof r; n++)
        if (!read_row(&table, n, &r, sizeof r) || !relocation_fits(file, head, d, &r) ||
            (n < relative && ELF64_R_TYPE(r.r_info) != RELATIVE))
            return false;
    return true;
}

/* Entries of the dynamic section that come together, and what they must say. */
static bool entries_fit(const Dynamic *d)
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
static bool functions_fit(const File *file, const Elf64_Ehdr *head, const Dynamic *d)
{
    static const struct {
        int array, bytes;
    } lists[] = {{DT_INIT_ARRAY, DT_INIT_ARRAYSZ}, {DT_FINI_ARRAY, DT_FINI_ARRAYSZ}};
    for (int n = 0; n < 2; n++)
        if (!d->at[lists[n].array] != !d->at[lists[n].bytes] ||
            (d->at[lists[n].array] &&
             !is_within(file, head, d->at[lists[n].array], d->at[lists[n].bytes], 0)))
            return false;
    return (!d->at[DT_INIT] || is_within(file, head, d->at[DT_INIT], 1, PF_X)) &&
           (!d->at[DT_FINI] || is_within(file, head, d->at[DT_FINI], 1, PF_X));
}

static bool loads(const File *file, const Elf64_Ehdr *head, const Dynamic *d)
{
    return segments_fit(file, head) && entries_fit(d) && functions_fit(file, head, d) &&
           table_fits(file, head, d, d->at[DT_RELA], d->at[DT_RELASZ], d->relative) &&
           table_fits(file, head, d, d->at[DT_JMPREL], d->at[DT_PLTRELSZ], 0);
}

static aule_status check_file(const File *file, const char *symbol, AuSink sink)
{
    Elf64_Ehdr head;
    Dynamic d;
    aule_status status = check_head(file, &head, sink);
    if (!status) status = check_whole(file, &head, sink);
    if (status) return status;
    if (!find_dynamic(file, &head, &d) || !exports(&d, symbol))
        return rt_fail(sink, AULE_ERROR_ARTIFACT,
                       "%s: not an aule artifact: a shared library without the symbol %s",
                       file->path, symbol);
    if (!loads(file, &head, &d))
        return rt_fail(sink, AULE_ERROR_ARTIFACT,
                       "%s: damaged: its tables for the loader speak of what is not in it",
                       file->path);
    return AULE_OK;
}

static aule_status check_open_file(const char *path, int fd, const char *symbol, AuSink sink)
{
    struct stat facts;
    if (fstat(fd, &facts) != 0)
        return rt_fail(sink, AULE_ERROR_FILE, "%s: cannot be read: %s", path, strerror(errno));
    if (!S_ISREG(facts.st_mode))
        return rt_fail(sink, AULE_ERROR_FILE, "%s: cannot be read: not a file", path);
    File file = {path, (const unsigned char *)"", (size_t)facts.st_size};
    if (file.length == 0) return check_file(&file, symbol, sink);
    void *map = mmap(NULL, file.length, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED)
        return rt_fail(sink, AULE_ERROR_FILE, "%s: cannot be read: %s", path, strerror(errno));
    file.bytes = map;
    aule_status status = check_file(&file, symbol, sink);
    munmap(map, file.length);
    return status;
}

aule_status rt_open_library(const char *path, const char *symbol, int *fd, AuSink sink)
{
    /* Opening does not wait for whoever writes to a pipe. */
    int opened = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (opened < 0)
        return rt_fail(sink, AULE_ERROR_FILE, "%s: cannot be read: %s", *path ? path : "''",
                       strerror(errno));
    aule_status status = check_open_file(path, opened, symbol, sink);
    if (status)
        close(opened);
    else
        *fd = opened;
    return status;
}
