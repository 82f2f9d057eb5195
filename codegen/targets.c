/* targets.c - the table of code generators (target.h), those of this build. */
#include "target.h"

#include <string.h>

static const AuTarget *const targets[] = {
#ifdef AU_WITH_LLVM
    &au_target_cpu,    &au_target_cuda,           &au_target_hip,
#endif
#ifdef AU_WITH_OPENCL
    &au_target_opencl, &au_target_metal,
#endif
#ifdef AU_WITH_SPIRV
    &au_target_vulkan, &au_target_opencl_modules, &au_target_levelzero,
#endif
};
enum { TARGETS = sizeof targets / sizeof *targets };

const AuTarget *const *au_targets(uint32_t *count)
{
    *count = TARGETS;
    return targets;
}

const AuTarget *au_target(const char *name)
{
    for (uint32_t n = 0; n < TARGETS; n++)
        if (strcmp(targets[n]->name, name) == 0) return targets[n];
    return NULL;
}
