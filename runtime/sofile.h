/* sofile.h - is a file a whole shared library for this machine that exports an artifact? Answered from its bytes alone, so that nothing
 * of a foreign or damaged file is ever mapped or run. */
#ifndef AU_RUNTIME_SOFILE_H
#define AU_RUNTIME_SOFILE_H

#include "base.h"

/* Opens [path] for reading if it is; the descriptor is the caller's. AULE_ERROR_FILE, AULE_ERROR_ARTIFACT. */
aule_status rt_open_library(const char *path, const char *symbol, int *fd, AuSink sink);

#endif
