/* clocks.c - see clocks.h. */
#include "clocks.h"

#include <string.h>

AuVector clocks_vector(AuArena *arena, uint32_t execs)
{
    return (AuVector){.execs = execs,
                      .seen = AU_NEW_ARRAY(arena, AuReach, execs),
                      .fenced = AU_NEW_ARRAY(arena, AuReach, execs),
                      .products = AU_NEW_ARRAY(arena, uint32_t, execs)};
}

void clocks_reset(AuVector *v)
{
    memset(v->seen, 0, v->execs * sizeof *v->seen);
    memset(v->fenced, 0, v->execs * sizeof *v->fenced);
    memset(v->products, 0, v->execs * sizeof *v->products);
    if (v->words) memset(v->copies, 0, v->words * sizeof *v->copies);
}

/* Of two lanes only one can be kept: the later, so that what is lost is taken for unordered. */
static void reach_join(AuReach *into, AuReach from)
{
    if (from.all > into->all) into->all = from.all;
    if (from.one > into->one) into->one = from.one, into->lane = from.lane;
}

/* By powers of two, so that vectors that learn from each other stay of one size. */
static void need_words(AuArena *arena, AuVector *v, uint32_t words)
{
    uint32_t room = v->words ? v->words : 1;
    if (words <= v->words) return;
    while (room < words) room *= 2;
    uint64_t *larger = AU_NEW_ARRAY(arena, uint64_t, room);
    if (v->words) memcpy(larger, v->copies, v->words * sizeof *larger);
    v->copies = larger;
    v->words = room;
}

void clocks_join_copies(AuArena *arena, AuVector *into, const AuVector *from)
{
    need_words(arena, into, from->words);
    for (uint32_t w = 0; w < from->words; w++) into->copies[w] |= from->copies[w];
}

void clocks_join(AuArena *arena, AuVector *into, const AuVector *from)
{
    for (uint32_t e = 0; e < into->execs; e++) {
        reach_join(&into->seen[e], from->seen[e]);
        reach_join(&into->fenced[e], from->fenced[e]);
        if (from->products[e] > into->products[e]) into->products[e] = from->products[e];
    }
    clocks_join_copies(arena, into, from);
}

void clocks_add_copy(AuArena *arena, AuVector *v, uint32_t number)
{
    need_words(arena, v, number / 64 + 1);
    v->copies[number / 64] |= (uint64_t)1 << number % 64;
}

bool clocks_has_copy(const AuVector *v, uint32_t number)
{
    return number / 64 < v->words && v->copies[number / 64] >> number % 64 & 1;
}

/* ---- executors */

void clocks_begin(AuClocks *c)
{
    clocks_reset(&c->known);
    c->time = c->synced = 0;
    c->learnt_count = 0;
}

void clocks_lanes_meet(AuArena *arena, AuClocks *c)
{
    c->synced = ++c->time;
    for (uint32_t n = 0; n < c->learnt_count; n++)
        clocks_add_copy(arena, &c->known, c->learnt[n].number);
    c->learnt_count = 0;
}

void clocks_fence(AuClocks *c, uint32_t exec)
{
    memcpy(c->known.fenced, c->known.seen, c->known.execs * sizeof *c->known.fenced);
    c->known.fenced[exec] = (AuReach){.all = ++c->time};
}

void clocks_learn(AuArena *arena, AuClocks *c, uint32_t number, uint16_t lane)
{
    AU_PUSH(arena, c->learnt, c->learnt_count, c->learnt_capacity,
            ((struct AuLearnt){number, lane}));
}

void clocks_release(AuArena *arena, AuClocks *c, uint32_t exec, uint16_t lane, AuVector *to)
{
    const bool all = lane == AU_LANES_ALL;
    const AuReach own = {all ? c->time + 1 : c->synced, c->time + 1, lane};
    c->known.seen[exec] = own;
    clocks_join(arena, to, &c->known);
    for (uint32_t n = 0; n < c->learnt_count; n++)
        if (all || c->learnt[n].lane == lane) clocks_add_copy(arena, to, c->learnt[n].number);
    c->time++;
}

/* ---- accesses */

static bool reaches(AuReach r, const AuStamp *s)
{
    return r.all > s->time || (r.one > s->time && r.lane == s->lane && r.lane != AU_LANES_ALL);
}

static bool has_learnt(const AuClocks *c, uint32_t number, uint16_t lane)
{
    if (clocks_has_copy(&c->known, number)) return true;
    for (uint32_t n = 0; n < c->learnt_count; n++)
        if (c->learnt[n].number == number && c->learnt[n].lane == lane) return true;
    return false;
}

AuConflict clocks_after(const AuActor *a, const AuStamp *s, bool written)
{
    const AuClocks *c = a->by;
    if (s->kind == AU_NOBODY) return AU_NO_CONFLICT;
    if (s->block != a->stamp.block) return AU_UNORDERED;
    if (s->kind == AU_BY_COPY)
        return has_learnt(c, s->time, a->lane) ? AU_NO_CONFLICT : AU_UNORDERED;
    if (s->kind == AU_BY_PRODUCT && a->stamp.kind == AU_BY_PRODUCT && s->exec == a->exec)
        return AU_NO_CONFLICT; /* they are done in their order */
    if (s->kind == AU_BY_PRODUCT)
        return c->known.products[s->exec] > s->time ? AU_NO_CONFLICT : AU_UNORDERED;
    const bool own = s->exec == a->exec;
    if (own ? !((s->lane == a->lane && a->lane != AU_LANES_ALL) || s->time < c->synced)
            : !reaches(c->known.seen[s->exec], s))
        return AU_UNORDERED;
    return a->unit && written && !reaches(c->known.fenced[s->exec], s) ? AU_UNFENCED
                                                                       : AU_NO_CONFLICT;
}

/* One reader for each executor and way: what comes later covers what it has been ordered after. */
static bool replaces(const AuActor *a, AuStamp *s)
{
    if (s->kind != a->stamp.kind || s->exec != a->stamp.exec || s->block != a->stamp.block)
        return false;
    if (s->kind == AU_BY_COPY) return s->time == a->stamp.time;
    const bool several =
        s->kind == AU_BY_LANES && s->lane != a->stamp.lane && s->time >= a->by->synced;
    *s = a->stamp;
    if (several) s->lane = AU_LANES_ALL;
    return true;
}

AuConflict clocks_read(AuReaders *pool, AuMarks *m, const AuActor *a, AuStamp *other)
{
    *other = m->write;
    const AuConflict conflict = clocks_after(a, &m->write, true);
    if (conflict != AU_NO_CONFLICT) return conflict;
    for (AuReader *r = m->readers; r; r = r->next)
        if (replaces(a, &r->stamp)) return AU_NO_CONFLICT;
    AuReader *r = pool->free;
    if (r)
        pool->free = r->next;
    else
        r = AU_NEW(pool->arena, AuReader);
    *r = (AuReader){a->stamp, m->readers};
    m->readers = r;
    return AU_NO_CONFLICT;
}

AuConflict clocks_write(AuReaders *pool, AuMarks *m, const AuActor *a, bool atomic, AuStamp *other)
{
    AuConflict conflict;
    for (const AuReader *r = m->readers; r; r = r->next) {
        *other = r->stamp;
        conflict = clocks_after(a, &r->stamp, false);
        if (conflict != AU_NO_CONFLICT) return conflict;
    }
    *other = m->write;
    const bool commutes = atomic && m->atomic && m->write.kind != AU_NOBODY;
    conflict = commutes ? AU_NO_CONFLICT : clocks_after(a, &m->write, true);
    if (conflict != AU_NO_CONFLICT) return conflict;
    m->write = a->stamp;
    m->atomic = atomic;
    while (m->readers) {
        AuReader *r = m->readers;
        m->readers = r->next;
        r->next = pool->free;
        pool->free = r;
    }
    return AU_NO_CONFLICT;
}
