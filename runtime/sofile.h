/* sofile.h - is a file a whole shared library that exports an artifact? Answered from its bytes alone, so that nothing of a foreign or
 * damaged file is ever mapped or run. */
#ifndef AU_RUNTIME_SOFILE_H
#define AU_RUNTIME_SOFILE_H

#include "elf_versions.h"

typedef struct AuElfLibrary {
    Elf64_Ehdr head;
    AuElfLoads loads;
    AuElfDynamic dynamic;
    AuElfVersions versions;
    Elf64_Sym symbol;
} AuElfLibrary;

/* What it takes grows with the file, by no more. AULE_ERROR_ARTIFACT says why not. */
aule_status rt_check_library(const AuElfFile *file, const char *symbol, AuElfLibrary *found,
                             AuSink sink);

#endif
