/* shadow.c - see shadow.h. The traces are those of FastTrack (Flanagan, Freund, PLDI 2009), with
 * the clocks of a grid. */
#include "shadow.h"

#include <string.h>

AuClock kernel_clock(AuArena *arena, uint32_t blocks, bool increments)
{
    AuClock c = {.arena = arena, .blocks = blocks, .block = UINT32_MAX};
    c.begins = AU_NEW_ARRAY(arena, uint32_t, blocks + 1);
    if (increments) c.seen = AU_NEW_ARRAY(arena, uint32_t, blocks);
    return c;
}

void kernel_clock_block(AuClock *c)
{
    c->block++;
    c->begin = c->epoch + 1;
    c->epoch += 2; /* so that there is a time before now that belongs to this block */
    c->begins[c->block] = c->begin;
    if (c->seen) memset(c->seen, 0, c->blocks * sizeof *c->seen);
}

void kernel_clock_barrier(AuClock *c) { c->epoch++; }

static uint32_t block_of(const AuClock *c, uint32_t epoch)
{
    uint32_t low = 0, high = c->block + 1; /* begins[low] <= epoch */
    while (high - low > 1) {
        const uint32_t middle = (low + high) / 2;
        if (c->begins[middle] <= epoch)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static bool happened_before(const AuClock *c, uint32_t epoch)
{
    return c->seen && c->seen[block_of(c, epoch)] > epoch;
}

void kernel_clock_increment(AuClock *c, uint64_t place)
{
    AuRelease *r = c->releases;
    while (r && r->place != place) r = r->next;
    if (!r) {
        r = AU_NEW(c->arena, AuRelease);
        *r = (AuRelease){place, AU_NEW_ARRAY(c->arena, uint32_t, c->blocks), c->releases};
        c->releases = r;
    }
    for (uint32_t b = 0; b < c->block; b++) {
        if (r->clock[b] > c->seen[b]) c->seen[b] = r->clock[b];
        r->clock[b] = c->seen[b];
    }
    r->clock[c->block] = c->epoch;
}

/* Is everything in the trace ordered before an access that happens now? */
static bool is_ordered(const AuClock *c, const AuTrace *t, AuAccess a)
{
    if (t->other && !happened_before(c, t->other)) return false;
    if (t->epoch == 0 || (t->epoch < c->epoch && t->epoch >= c->begin)) return true;
    if (t->epoch < c->begin) return happened_before(c, t->epoch);
    return t->exec == a.exec && (t->x < a.x || (t->lane == a.lane && a.lane != AU_MANY));
}

static AuTrace only(const AuClock *c, AuAccess a)
{
    return (AuTrace){c->epoch, a.x, 0, a.exec, a.lane};
}

static void include(const AuClock *c, AuTrace *t, AuAccess a)
{
    if (t->epoch != c->epoch) {
        const uint32_t other = t->epoch && t->epoch < c->begin ? t->epoch : t->other;
        *t = only(c, a);
        t->other = other;
    } else if (t->exec != a.exec)
        t->exec = t->lane = AU_MANY;
    else if (t->x < a.x)
        t->x = a.x, t->lane = a.lane;
    else if (t->lane != a.lane)
        t->lane = AU_MANY;
}

void kernel_shadow_increment(const AuClock *c, AuShadow *s, AuAccess a)
{
    s->atomic = true;
    include(c, &s->write, a);
    s->write.epoch = c->epoch - 1; /* whoever has seen the counter has seen this */
}

bool kernel_shadow_read(const AuClock *c, AuShadow *s, AuAccess a, const AuTrace **other)
{
    *other = &s->write;
    if (!is_ordered(c, &s->write, a)) return false;
    include(c, &s->read, a);
    return true;
}

bool kernel_shadow_write(const AuClock *c, AuShadow *s, AuAccess a, bool atomic,
                         const AuTrace **other)
{
    *other = &s->read;
    if (!is_ordered(c, &s->read, a)) return false;
    *other = &s->write;
    const bool commutes = atomic && s->atomic && s->write.epoch;
    if (!commutes && !is_ordered(c, &s->write, a)) return false;
    if (commutes)
        include(c, &s->write, a);
    else
        s->write = only(c, a);
    s->atomic = atomic;
    s->read = (AuTrace){0};
    return true;
}
