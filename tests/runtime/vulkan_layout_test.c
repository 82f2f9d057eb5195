/* The structures and numbers of runtime/backends/vulkan_api.h beside those of the specification's header (package libvulkan-dev). */
#include <stddef.h>
#include <stdio.h>

#include <vulkan/vulkan_core.h>

extern const size_t vulkan_ours[];

static const struct {
    const char *name;
    size_t value;
} theirs[] = {
#define SIZE(type)              {#type, sizeof(type)},
#define AT(type, ours, theirs_) {#type "." #theirs_, offsetof(type, theirs_)},
#define NUMBER(ours, theirs_)   {#theirs_, (size_t)(theirs_)},
#include "vulkan_layout.def"
};

int main(void)
{
    int wrong = 0;
    for (size_t n = 0; n < sizeof theirs / sizeof *theirs; n++) {
        if (vulkan_ours[n] == theirs[n].value) continue;
        fprintf(stderr, "%s: %zu, the specification has %zu\n", theirs[n].name, vulkan_ours[n],
                theirs[n].value);
        wrong++;
    }
    return wrong != 0;
}
