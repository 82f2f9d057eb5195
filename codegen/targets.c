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

static const char *const of_llvm[] = {"cpu", "cuda", "hip"};

bool au_target_needs_llvm(const char *name)
{
    for (size_t n = 0; n < sizeof of_llvm / sizeof *of_llvm; n++)
        if (strcmp(of_llvm[n], name) == 0) return !au_target(name);
    return false;
}

const AuArch *au_object_arch(void)
{
#ifdef AU_WITH_LLVM
    return &au_target_cpu.archs[0];
#else
    return NULL;
#endif
}

bool au_image_is_sound(AuDiags *diags, const AuImage *image)
{
    for (uint32_t n = 0; n < image->fix_count; n++) {
        const AuImageFix *fix = &image->fixes[n];
        if (fix->at % 8 == 0 && fix->at + 8 <= image->length &&
            (fix->symbol || fix->offset <= image->length))
            continue;
        au_error(diags, AU_E0004, (AuSpan){0},
                 "address %u of an image of %llu bytes lies outside of it", n,
                 (unsigned long long)image->length);
        return false;
    }
    return true;
}
