/* operations.c - see command.h. The table is that of the interface, which the library reads, too. */
#include <string.h>

#include "command.h"

#include "aule/artifact.h"

enum {
#define OPERATION(NAME, text) OF_##NAME,
#include "aule/operations.def"
    OPERATIONS
};

enum { NONE, READ, WRITTEN };

static const char *const names[] = {
#define OPERATION(NAME, text) text,
#include "aule/operations.def"
};

static const unsigned char uses[OPERATIONS][AULE_ROLES] = {
#define PART(NAME, ROLE, what, when) [OF_##NAME][AULE_ROLE_##ROLE] = what,
#include "aule/operations.def"
};

static unsigned char use(const char *operation, uint32_t role)
{
    for (int n = 0; n < OPERATIONS; n++)
        if (strcmp(names[n], operation) == 0 && role < AULE_ROLES) return uses[n][role];
    return NONE;
}

bool operation_takes(const char *operation, uint32_t role) { return use(operation, role) != NONE; }
bool operation_writes(const char *operation, uint32_t role)
{
    return use(operation, role) == WRITTEN;
}
