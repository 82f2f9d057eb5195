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

static aule_status check_head(const File *file, Elf64_Ehdr *head, AuSink sink)
{
    if (!read_at(file, 0, head, SELFMAG) || memcmp(head->e_ident, ELFMAG, SELFMAG) != 0)
        return rt_fail(sink, AULE_ERROR_ARTIFACT,
                       "%s: not an aule artifact: not a shared library (%zu bytes, no ELF magic)",
                       file->path, file->length);
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

static bool symbol_is(const File *file, const Elf64_Shdr *names, uint32_t at, const char *symbol)
{
    size_t length = strlen(symbol) + 1;
    return at < names->sh_size && length <= names->sh_size - at &&
           names->sh_offset <= file->length && names->sh_size <= file->length - names->sh_offset &&
           memcmp(file->bytes + names->sh_offset + at, symbol, length) == 0;
}

/* Does a table of dynamic symbols define [symbol]? Without section headers it cannot be known here. */
static bool may_export(const File *file, const Elf64_Ehdr *head, const char *symbol)
{
    if (head->e_shnum == 0) return true;
    for (unsigned i = 0; i < head->e_shnum; i++) {
        Elf64_Shdr table, names;
        if (!read_at(file, head->e_shoff + i * sizeof table, &table, sizeof table)) return false;
        if (table.sh_type != SHT_DYNSYM || table.sh_link >= head->e_shnum ||
            !read_at(file, head->e_shoff + table.sh_link * sizeof names, &names, sizeof names))
            continue;
        Elf64_Sym entry;
        for (uint64_t at = 0; at + sizeof entry <= table.sh_size; at += sizeof entry) {
            if (!read_at(file, table.sh_offset + at, &entry, sizeof entry)) return false;
            if (entry.st_shndx != SHN_UNDEF && symbol_is(file, &names, entry.st_name, symbol))
                return true;
        }
    }
    return false;
}

static aule_status check_file(const File *file, const char *symbol, AuSink sink)
{
    Elf64_Ehdr head;
    aule_status status = check_head(file, &head, sink);
    if (!status) status = check_whole(file, &head, sink);
    if (!status && !may_export(file, &head, symbol))
        status = rt_fail(sink, AULE_ERROR_ARTIFACT,
                         "%s: not an aule artifact: a shared library without the symbol %s",
                         file->path, symbol);
    return status;
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
    int opened = open(path, O_RDONLY | O_CLOEXEC);
    if (opened < 0)
        return rt_fail(sink, AULE_ERROR_FILE, "%s: cannot be read: %s", path, strerror(errno));
    aule_status status = check_open_file(path, opened, symbol, sink);
    if (status)
        close(opened);
    else
        *fd = opened;
    return status;
}
