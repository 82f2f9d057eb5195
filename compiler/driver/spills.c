/* spills.c - shapes that do not keep registers in memory, where the generator can tell.
 *
 * Rules of shapes count fragments, and what beside them was seen to do for the scripts that were tried. What a script's own functions take only the
 * register allocator knows: where it says that code of a rule's shape spills, kernels are made once more with tiles of fewer keys, and stay if they spill
 * less. Who asks for a shape gets it. */
#include "compile.h"

#include <string.h>

enum { LEAST_KEYS = 16 };

/* Whose tiles may have any number of keys, and sums of as many pairs of which a lane has a part. */
static const char schedule[] = "warps_forward";

static uint32_t spilled(const AuVariant *v) { return v->target->spilled(&v->code); }

/* The power of two below. */
static int32_t fewer(int32_t keys)
{
    int32_t power = LEAST_KEYS;
    while (2 * power < keys) power *= 2;
    return power;
}

/* The same with fewer keys; false: there is none. [via]: and weights by way of shared memory, which then has room for them. */
static bool make_with(AuJob *job, const AuVariant *v, bool via, AuVariant *out)
{
    const int32_t keys = v->schedule->shape.key_tile;
    if (!v->target->spilled || !v->asked || (v->row && !v->row->own) || keys <= LEAST_KEYS ||
        strncmp(v->schedule->name, schedule, sizeof schedule - 1) != 0 || !spilled(v))
        return false;
    AuShapeRow row = {.which = SHAPES_FORCED,
                      .schedule = schedule,
                      .own = true,
                      .matched = AU_NEW(job->arena, bool)};
    for (uint32_t n = 0; n < SHAPE_KEYS; n++) row.values[n] = v->row ? v->row->values[n] : -1;
    for (uint32_t n = 0; n < SHAPE_KEYS; n++) {
        if (shape_is_key(n, schedule, "keys")) row.values[n] = fewer(keys);
        if (via && shape_is_key(n, schedule, "via")) row.values[n] = 1;
    }
    const AuDiags before = *job->diags;
    *out = *v->asked;
    out->asked = v->asked;
    out->shapes = shapes_without(job->arena, out->shapes, v->row, &row);
    const bool good = emission_build(job, job->diags, out, variant_try) && out->schedule &&
                      out->schedule->shape.key_tile < keys;
    au_diags_back(job->diags, &before);
    return good;
}

/* An exchange of lanes pays by larger tiles: of 64 keys softcap at width 64 is 1297 cycles of 32 x 32 pairs on gfx1100, and 1244 by way of LDS. */
static bool make(AuJob *job, const AuVariant *v, AuVariant *out)
{
    return (v->schedule->shape.exchanges && make_with(job, v, true, out)) ||
           make_with(job, v, false, out);
}

/* One step down for each of those that spill and that a step has not failed; false: no step did any good. */
static bool step(AuJob *job, AuVariant **variants, uint32_t count, bool *failed)
{
    bool better = false;
    uint32_t tried = 0;
    AuVariant *made = AU_NEW_ARRAY(job->arena, AuVariant, count + 1),
              **at = AU_NEW_ARRAY(job->arena, AuVariant *, count + 1);
    uint32_t *of = AU_NEW_ARRAY(job->arena, uint32_t, count + 1);
    for (uint32_t n = 0; n < count; n++) {
        failed[n] = failed[n] || !make(job, variants[n], &made[tried]);
        if (!failed[n]) at[tried] = &made[tried], of[tried++] = n;
    }
    if (!tried) return false;
    const AuDiags before = *job->diags;
    emission_wait(job);
    au_diags_back(job->diags, &before);
    for (uint32_t n = 0; n < tried; n++) {
        AuVariant *v = variants[of[n]];
        failed[of[n]] = !emission_take(at[n]) || spilled(at[n]) >= spilled(v);
        if (failed[of[n]]) continue;
        at[n]->schedule->name =
            au_format(job->arena, "%s # keys=%d: %u registers in memory", at[n]->schedule->name,
                      v->schedule->shape.key_tile, spilled(v));
        *v = *at[n];
        better = true;
    }
    return better;
}

void spills_avoid(AuJob *job, AuVariant **variants, uint32_t count)
{
    bool *failed = AU_NEW_ARRAY(job->arena, bool, count + 1);
    while (step(job, variants, count, failed)) {}
}
