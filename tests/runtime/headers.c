/* The public headers compile as C99, and hold together. */
#include "aule/aule.h"

int headers_use(const aule_module_v1 *module);

int headers_use(const aule_module_v1 *module)
{
    aule_call call = {0};
    call.struct_size = sizeof call;
    return (int)module->attention_count + (int)sizeof(DLTensor);
}
