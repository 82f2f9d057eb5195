/* operations.c - see operations.h. */
#include "operations.h"

#include <string.h>

typedef enum What { NONE, READ, WRITTEN } What;
typedef enum When { ALWAYS, UNLESS_MARKED, IF_GIVEN, UNLESS_KEPT, IF_JOINED, IF_CACHED } When;

static const struct {
    uint8_t what, when;
} parts[AU_OPERATIONS][AULE_ROLES] = {
#define PART(OPERATION, ROLE, what, when) [AU_##OPERATION][AULE_ROLE_##ROLE] = {what, when},
#include "aule/operations.def"
};

AuOperation operation_named(const char *name)
{
    uint32_t n = 0;
    while (n + 1 < AU_OPERATIONS && strcmp(schedule_operation((AuOperation)n), name) != 0) n++;
    return (AuOperation)n;
}

bool operation_takes(AuOperation operation, uint32_t role, uint32_t flags)
{
    const When when = (When)parts[operation][role].when;
    return parts[operation][role].what != NONE &&
           (when != IF_JOINED || flags & AULE_TENSOR_JOINED) &&
           (when != IF_CACHED || flags & AULE_TENSOR_CACHED);
}

bool operation_writes(AuOperation operation, uint32_t role, uint32_t flags)
{
    return parts[operation][role].what == WRITTEN ||
           (parts[operation][role].when == IF_CACHED && flags & AULE_TENSOR_APPENDED);
}

static bool keeps_output(const aule_attention_v1 *a)
{
    for (uint32_t n = 0; n < a->tensor_count; n++)
        if (a->tensors[n].role == AULE_ROLE_KEPT) return true;
    return false;
}

/* What a kept output stands in for is no argument of a function that is made for the operation. */
AuUse operation_use(AuOperation operation, const aule_attention_v1 *a, const aule_tensor_v1 *t)
{
    if (t->flags & AULE_TENSOR_IN_K || !operation_takes(operation, t->role, t->flags))
        return AU_UNUSED;
    switch ((When)parts[operation][t->role].when) {
    case IF_GIVEN: return AU_POSSIBLE;
    case IF_CACHED: return t->flags & AULE_TENSOR_LISTS ? AU_POSSIBLE : AU_NEEDED;
    case IF_JOINED:
    case ALWAYS: return AU_NEEDED;
    case UNLESS_MARKED: return t->flags & AULE_TENSOR_OPTIONAL ? AU_POSSIBLE : AU_NEEDED;
    case UNLESS_KEPT: return keeps_output(a) ? AU_UNUSED : AU_NEEDED;
    }
    return AU_NEEDED;
}
