/* metal.h - what the files of the MSL target share. */
#ifndef AU_CODEGEN_METAL_H
#define AU_CODEGEN_METAL_H

#include "cprint.h"

enum { METAL_HELPERS = 30 };
extern const AuCHelper metal_helpers[METAL_HELPERS];
extern const AuCDialect metal_dialect;

#endif
