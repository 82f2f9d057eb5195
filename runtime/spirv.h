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

/* What a module says of a loop, bits: SPIR-V, 3.23, Loop Control. */
enum { RT_SPIRV_UNROLL = 1, RT_SPIRV_DONT_UNROLL = 2 };

/* All loops of a module say no [less] from now on, and say [more]. Words behind an instruction of a wrong length stay as they are. */
void rt_spirv_mark_loops(uint32_t *words, size_t count, uint32_t less, uint32_t more);

#endif
