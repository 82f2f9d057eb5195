/* opencl.h - what the files of the OpenCL C target share. */
#ifndef AU_CODEGEN_OPENCL_H
#define AU_CODEGEN_OPENCL_H

#include "cprint.h"

enum { OPENCL_HELPERS = 19 };
extern const AuCHelper opencl_helpers[OPENCL_HELPERS];
extern const AuCDialect opencl_dialect;

#endif
