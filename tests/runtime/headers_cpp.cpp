// The public headers compile as C++11.
#include "aule/aule.h"

static_assert(sizeof(aule_module_v1) > 0, "complete");

extern "C" aule_status headers_use_cpp(aule_module *module, aule_attention **attention)
{
    return aule_module_find(module, nullptr, attention, nullptr);
}
