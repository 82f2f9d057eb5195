/* vulkan_layout_ours.c - what runtime/backends/vulkan_api.h says (vulkan_layout.def). */
#include <stddef.h>

#include "../../runtime/backends/vulkan_api.h"

extern const size_t vulkan_ours[];
const size_t vulkan_ours[] = {
#define SIZE(type)             sizeof(type),
#define AT(type, ours, theirs) offsetof(type, ours),
#define NUMBER(ours, theirs)   (size_t)(ours),
#include "vulkan_layout.def"
};
