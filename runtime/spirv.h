/* spirv.h - does a variant's code begin as a module that a backend may give its driver? The artifact may be damaged or made by hand, and
 * drivers need not look. Of a module that begins so the rest is the driver's to judge. */
#ifndef AU_RUNTIME_SPIRV_H
#define AU_RUNTIME_SPIRV_H

#include "aule/artifact.h"
#include "base.h"

/* Shader: what Vulkan's devices take of ours. Kernel: OpenCL's and Level Zero's. */
typedef enum AuSpirvFlavour { RT_SPIRV_SHADER, RT_SPIRV_KERNEL } AuSpirvFlavour;

/* NULL: it does; else what the code is. */
const char *rt_spirv_wrong(const aule_variant_v1 *variant, AuSpirvFlavour flavour);

#endif
