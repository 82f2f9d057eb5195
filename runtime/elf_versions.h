/* elf_versions.h - versions of symbols (LSB, "Symbol Versioning"): which of another library's a symbol is. Loaders follow these tables without
 * holding them against anything, and end the process where they lead nowhere. */
#ifndef AU_RUNTIME_ELF_VERSIONS_H
#define AU_RUNTIME_ELF_VERSIONS_H

#include "elf_file.h"

typedef struct AuElfVersions {
    AuElfTable of_symbols; /* a number for each; no file: there are none */
    uint32_t most;         /* the largest number that the tables give */
} AuElfVersions;

/* false: the tables speak of what is not there. */
bool rt_elf_versions(const AuElfFile *file, const AuElfLoads *loads, const AuElfDynamic *d,
                     AuElfVersions *versions);
/* Is the symbol's version one of them? */
bool rt_elf_has_version(const AuElfVersions *versions, uint32_t symbol);
/* Those of all symbols that are found by name. */
bool rt_elf_have_versions(const AuElfVersions *versions, const AuElfDynamic *d);

#endif
