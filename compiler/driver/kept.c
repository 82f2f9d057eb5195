/* kept.c - what stays of a variant once its kernels have become code: copies of what the artifact, its descriptor and searches for other shapes ask
 * for. Hooks, tiled programs, texts and kernels are freed, each variant's by itself. */
#include "driver.h"
#include "shapes.h"

#include <string.h>

static const char *text(AuArena *arena, const char *from)
{
    return from ? au_format(arena, "%s", from) : NULL;
}

static AuLaunchExpr code(AuArena *arena, AuLaunchExpr e)
{
    if (!e.code) return e;
    uint32_t *words = AU_NEW_ARRAY(arena, uint32_t, e.length);
    memcpy(words, e.code, e.length * sizeof *words);
    return (AuLaunchExpr){words, e.length};
}

static AuSchedule *schedule(AuArena *arena, const AuSchedule *from)
{
    AuSchedule *s = AU_NEW(arena, AuSchedule);
    *s = *from;
    s->module = s->written = NULL;
    s->called = (AuTileNames){0};
    s->name = text(arena, from->name);
    for (uint32_t n = 0; n < from->region_count; n++) s->regions[n] = text(arena, from->regions[n]);
    return s;
}

/* A row of shapes that were made while building; what says that it was matched is the caller's. */
static const AuShapeRow *row(AuArena *arena, const AuVariant *v, const AuShapes *given)
{
    if (!v->row || v->shapes == given) return v->row;
    AuShapeRow *copy = AU_NEW(arena, AuShapeRow);
    *copy = *v->row;
    copy->machine = text(arena, copy->machine);
    copy->operand = text(arena, copy->operand);
    copy->schedule = text(arena, copy->schedule);
    return copy;
}

void variant_keep(AuArena *arena, AuVariant *v, const AuShapes *given)
{
    AuCheck *checks = AU_NEW_ARRAY(arena, AuCheck, v->checks.count + 1);
    if (v->checks.count) memcpy(checks, v->checks.at, v->checks.count * sizeof *checks);
    v->launches = artifact_launches(arena, v);
    memset(v->kernels, 0, sizeof v->kernels);
    v->bindings = (AuLowering){0};
    v->schedule = schedule(arena, v->schedule);
    v->checks = (AuChecks){.at = checks, .count = v->checks.count};
    v->row = row(arena, v, given);
    v->shapes = given;
    v->features = text(arena, v->features);
    v->condition = code(arena, v->condition);
    for (uint32_t n = 0; n < v->schedule->region_count; n++)
        v->workspace[n] = code(arena, v->workspace[n]);
}
