/* levelzero_layout_ours.c - what runtime/backends/levelzero_api.h says (levelzero_layout.def). */
#include <stddef.h>

#include "../../runtime/backends/levelzero_api.h"

extern const size_t levelzero_ours[];
const size_t levelzero_ours[] = {
#define SIZE(type)      sizeof(type),
#define AT(type, field) offsetof(type, field),
#define NUMBER(name)    (size_t)(name),
#include "levelzero_layout.def"
};
