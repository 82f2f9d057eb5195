/* The structures and numbers of runtime/backends/levelzero_api.h beside those of the specification's header (package libze-dev), and the places
 * of functions in the tables that the double fills (levelzero/driver.c). */
#include <stddef.h>
#include <stdio.h>

#include <level_zero/ze_api.h>
#include <level_zero/ze_ddi.h>

extern const size_t levelzero_ours[];

static const struct {
    const char *name;
    size_t value;
} theirs[] = {
#define SIZE(type)      {#type, sizeof(type)},
#define AT(type, field) {#type "." #field, offsetof(type, field)},
#define NUMBER(name)    {#name, (size_t)(name)},
#include "levelzero_layout.def"
};

static const struct {
    const char *name;
    size_t ours, theirs;
} tables[] = {
#define IN(table, place, field, function)                                                          \
    {#table "." #field, (place) * sizeof(void *), offsetof(ze_##table##_dditable_t, field)},
#include "levelzero/tables.def"
};

int main(void)
{
    int wrong = 0;
    for (size_t n = 0; n < sizeof theirs / sizeof *theirs; n++) {
        if (levelzero_ours[n] == theirs[n].value) continue;
        fprintf(stderr, "%s: %zu, the specification has %zu\n", theirs[n].name, levelzero_ours[n],
                theirs[n].value);
        wrong++;
    }
    for (size_t n = 0; n < sizeof tables / sizeof *tables; n++) {
        if (tables[n].ours == tables[n].theirs) continue;
        fprintf(stderr, "%s: %zu, the specification has %zu\n", tables[n].name, tables[n].ours,
                tables[n].theirs);
        wrong++;
    }
    return wrong != 0;
}
