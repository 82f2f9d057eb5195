#include "metal_case.h"

#include <string.h>

void metal_case_module(CaseModule *sample, aule_launch_v1 launches[2], const char *code)
{
    case_module(sample, &(aule_variant_v1){.target = "metal",
                                           .arch = "apple7",
                                           .features = "apple7",
                                           .operation = "forward",
                                           .code_format = AULE_CODE_MSL,
                                           .code = code,
                                           .code_bytes = strlen(code)});
    for (uint32_t n = 0; n < sample->attention.variant_count; n++) {
        aule_variant_v1 *v = &sample->variants[n];
        if (strcmp(v->target, "metal") != 0) continue;
        memcpy(launches, v->launches, 2 * sizeof *launches);
        for (int k = 0; k < 2; k++) launches[k].block[0] = 32;
        v->launches = launches;
    }
}
