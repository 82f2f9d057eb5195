/* elf_file.h - steps through a file of ELF, which may be anything: nothing is read beyond its end. */
#ifndef AU_RUNTIME_ELF_FILE_H
#define AU_RUNTIME_ELF_FILE_H

#include "aule/elf64.h"

#include "base.h"
#include "segments.h"

typedef struct AuElfFile {
    const char *path; /* for messages */
    const unsigned char
        *bytes; /* NULL: by [read], which says whether all of them are still there */
    size_t length;
    bool (*read)(void *user, uint64_t offset, void *to, size_t bytes);
    void *user;
} AuElfFile;

/* The segments that are loaded. Linkers make four or five; a file with more than these is none of artifacts, so that nothing that asks for the
 * segment of an address takes longer for a file that has many. */
typedef struct AuElfLoads {
    Elf64_Phdr of[AU_SEGMENTS_MOST];
    uint32_t count;
} AuElfLoads;

/* Structures are copied out: nothing says that they are aligned. */
bool rt_elf_read(const AuElfFile *file, uint64_t offset, void *to, size_t bytes);
bool rt_elf_part(const AuElfFile *file, const Elf64_Ehdr *head, uint32_t n, Elf64_Phdr *part);
/* Where the loaded address [at] is in the file, and how many bytes of the file follow it there. */
bool rt_elf_place(const AuElfLoads *loads, uint64_t at, uint64_t *offset, uint64_t *left);
/* false: they are too many, or not there. */
bool rt_elf_loads(const AuElfFile *file, const Elf64_Ehdr *head, AuElfLoads *loads);

/* Machines that artifacts are made for. Their relocations: an address of the file's own, what a function of the file says, and those of
 * symbols, which are all that there are in a library without variables of threads. */
typedef struct AuElfMachine {
    uint16_t number; /* EM_ */
    const char *name;
    uint32_t relative, called, of_symbols[3];
} AuElfMachine;
const AuElfMachine *rt_elf_machine(unsigned number); /* NULL: none of them */
bool rt_elf_names_symbol(const AuElfMachine *machine, uint32_t kind);
static inline uint32_t rt_elf_kind(const Elf64_Rela *r) { return (uint32_t)r->r_info; }
static inline uint32_t rt_elf_row_of(const Elf64_Rela *r) { return (uint32_t)(r->r_info >> 32); }

/* A table at a loaded address; nothing of it is read beyond its segment in the file. */
typedef struct AuElfTable {
    const AuElfFile *file;
    uint64_t offset, bytes;
} AuElfTable;
bool rt_elf_table(const AuElfFile *file, const AuElfLoads *loads, uint64_t at, AuElfTable *table);
bool rt_elf_at(const AuElfTable *table, uint64_t offset, void *to, size_t bytes);
bool rt_elf_row(const AuElfTable *table, uint64_t row, void *to, size_t bytes);

/* What the file's dynamic section says. */
typedef struct AuElfDynamic {
    AuElfTable symbols, names, hash, gnu_hash, entries;
    uint64_t at[ELF_TAGS]; /* values by tag */
    uint64_t relative;     /* so many relocations, the first, are of the file's own addresses */
    uint64_t versions, needs, definitions; /* addresses of tables of versions; 0: none */
    bool threads;                          /* it has variables of threads */
    bool ends, filters; /* its entries have an end; names are looked for in another library first */
} AuElfDynamic;
bool rt_elf_dynamic(const AuElfFile *file, const Elf64_Ehdr *head, const AuElfLoads *loads,
                    AuElfDynamic *d);

/* Are two names of the table the same? */
bool rt_elf_same_name(const AuElfDynamic *d, uint32_t a, uint32_t b);
/* The symbols that may be found by name: from [first] on, before [end]. */
bool rt_elf_found_by_name(const AuElfDynamic *d, uint32_t *first, uint32_t *end);
/* The symbol of that name, if the file defines it. */
bool rt_elf_symbol(const AuElfDynamic *d, const char *symbol, Elf64_Sym *found);

#endif
