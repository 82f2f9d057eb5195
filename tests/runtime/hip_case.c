#include "hip_case.h"

#include <string.h>

void hip_module(CaseModule *m)
{
    static const char code[] =
        "cubin sm_90\n.entry weigh()\n.entry divide()\n.entry gradients()\n.entry move_sums()\n";
    case_module(m, &(aule_variant_v1){.target = "hip",
                                      .arch = "gfx942",
                                      .features = "gfx942",
                                      .code_format = AULE_CODE_HSACO,
                                      .code = code,
                                      .code_bytes = sizeof code});
}

void hip_open(Setup *s, CaseModule *m, const char *id, void *context)
{
    aule_error *error = NULL;
    aule_device_options options = {.struct_size = sizeof options, .context = context};
    memset(s, 0, sizeof *s);
    hip_module(m);
    assert_int_equal(aule_module_from(&m->module, NULL, &s->module, &error), AULE_OK);
    s->attention = aule_module_attention(s->module, 0);
    if (aule_device_open(id, &options, &s->device, &error))
        fail_msg("%s", aule_error_message(error));
    s->c = case_new();
    cuda_place(s);
}
