/* run_memory.c - memories of the interpreter: which elements a view selects, whether they may be touched now (vector clocks), and
 * whether there is anything in them. */
#include "machine.h"

#include "numeric.h"

Memory *new_memory(AuArena *arena, const AuTileMemory *decl, uint32_t stages, const int64_t *sizes)
{
    Memory *m = AU_NEW(arena, Memory);
    *m = (Memory){.name = decl->name,
                  .elem = decl->type.elem,
                  .space = decl->space,
                  .mode = decl->mode,
                  .decl = decl,
                  .count = 1};
    if (decl->pipe) m->name = au_format(arena, "%s.%s", decl->pipe->name, decl->name);
    if (stages) {
        m->axis[0] = "stage";
        m->size[m->rank++] = stages;
    }
    for (uint32_t i = 0; i < decl->type.count; i++) {
        m->axis[m->rank] = decl->type.axes[i].name;
        m->size[m->rank++] = sizes ? sizes[i] : decl->type.axes[i].size;
    }
    for (uint32_t i = m->rank; i-- > 0; m->count *= m->size[i]) m->stride[i] = m->count;
    m->init = AU_NEW_ARRAY(arena, uint8_t, m->count);
    if (is_floats(&decl->type))
        m->f = AU_NEW_ARRAY(arena, float, m->count);
    else
        m->i = AU_NEW_ARRAY(arena, int32_t, m->count);
    return m;
}

/* ---- views */

/* One dimension: a scalar or span (`low`, along `axis` or not at all), or positions in a tile. */
typedef struct Dim {
    int64_t low;
    int64_t first, last; /* what is before the first position, and from the last on, is outside */
    int axis;            /* of the view; -1: a scalar */
    bool is_tile;
    Tile tile;
    int64_t step[2 * TILE_MAX_RANK]; /* of the tile along each axis of the view */
} Dim;

typedef struct View {
    Memory *memory;
    uint32_t rank, axes;
    Dim dims[TILE_MAX_RANK + 1];
    const char *raw[2 * TILE_MAX_RANK]; /* names of the axes before `as` */
    int64_t size[2 * TILE_MAX_RANK];
    bool any_tile;
} View;

static int view_axis(View *v, const char *name, int64_t size)
{
    for (uint32_t i = 0; i < v->axes; i++)
        if (v->raw[i] == name) return (int)i;
    v->raw[v->axes] = name;
    v->size[v->axes] = size;
    return (int)v->axes++;
}

static Memory *memory_of(Agent *a, const AuTileExpr *e)
{
    if (e->field) {
        const Ring *ring = a->vars[e->var->slot].ring;
        for (uint32_t i = 0; i < ring->pipe->tiles.count; i++)
            if (ring->pipe->tiles.at[i] == e->memory) return ring->tiles[i];
    }
    for (uint32_t i = 0; a->role && i < a->memories.count; i++)
        if (a->memories.at[i]->decl == e->memory) return a->memories.at[i];
    const AuTileKernel *k = a->m->kernel;
    for (uint32_t i = 0; i < k->args.count; i++)
        if (k->args.at[i] == e->memory) return a->m->args[i];
    for (uint32_t i = 0; i < k->shared.count; i++)
        if (k->shared.at[i] == e->memory) return a->m->shared[i];
    return NULL;
}

static bool read_limits(Agent *a, const AuTileExpr *span, Dim *dim)
{
    int64_t first, last;
    if (!eval_integer(a, span->args.at[2], &first) || !eval_integer(a, span->args.at[3], &last))
        return false;
    if (first > dim->first) dim->first = first;
    if (last < dim->last) dim->last = last;
    return true;
}

static bool read_dim(Agent *a, const AuTileExpr *index, uint32_t d, View *v)
{
    Dim *dim = &v->dims[d];
    *dim = (Dim){.axis = -1, .last = v->memory->size[d]};
    if (index->op == TILE_X_ALL) {
        dim->axis = view_axis(v, v->memory->axis[d], v->memory->size[d]);
        return true;
    }
    if (index->op == TILE_X_SPAN) {
        dim->axis = view_axis(v, v->memory->axis[d], index->args.at[1]->integer);
        return eval_integer(a, index->args.at[0], &dim->low) &&
               (!tile_is_limited(index) || read_limits(a, index, dim));
    }
    if (!eval(a, index, &dim->tile)) return false;
    dim->is_tile = dim->tile.type->count > 0;
    v->any_tile |= dim->is_tile;
    if (!dim->is_tile) dim->low = *dim->tile.i;
    for (uint32_t i = 0; i < dim->tile.type->count; i++)
        view_axis(v, dim->tile.type->axes[i].name, dim->tile.type->axes[i].size);
    return true;
}

static bool read_view(Agent *a, const AuTileExpr *e, View *v)
{
    *v = (View){.memory = memory_of(a, e)};
    uint32_t d = 0;
    if (e->field) {
        v->dims[d] = (Dim){.axis = -1, .low = a->vars[e->var->slot].stage};
        v->dims[d].last = v->memory->size[d], d++;
    }
    for (uint32_t i = 0; i < e->args.count; i++, d++)
        if (!read_dim(a, e->args.at[i], d, v)) return false;
    v->rank = d;
    for (uint32_t i = 0; i < v->rank; i++) {
        Dim *dim = &v->dims[i];
        for (uint32_t x = 0; dim->is_tile && x < v->axes; x++) {
            int64_t step = 1;
            for (uint32_t n = dim->tile.type->count; n-- > 0; step *= dim->tile.type->axes[n].size)
                if (dim->tile.type->axes[n].name == v->raw[x]) dim->step[x] = step;
        }
    }
    return true;
}

static int64_t position(const Dim *dim, const int64_t *index, uint32_t axes)
{
    if (!dim->is_tile) return dim->low + (dim->axis >= 0 ? index[dim->axis] : 0);
    int64_t at = 0;
    for (uint32_t x = 0; x < axes; x++) at += dim->step[x] * index[x];
    return dim->tile.i[at];
}

static bool next_index(const View *v, int64_t *index)
{
    for (uint32_t x = v->axes; x-- > 0;) {
        if (++index[x] < v->size[x]) return true;
        index[x] = 0;
    }
    return false;
}

/* Everything inside, all dimensions scalars and spans: no need to look at elements. */
static bool is_plain(const View *v)
{
    for (uint32_t d = 0; d < v->rank; d++) {
        const Dim *dim = &v->dims[d];
        const int64_t size = dim->axis >= 0 ? v->size[dim->axis] : 1;
        if (dim->is_tile || dim->low < dim->first || dim->low + size > dim->last) return false;
    }
    return true;
}

static void plain_region(const View *v, Region *r)
{
    int64_t step[2 * TILE_MAX_RANK] = {0}, index[2 * TILE_MAX_RANK] = {0}, base = 0;
    for (uint32_t d = 0; d < v->rank; d++) {
        const Dim *dim = &v->dims[d];
        base += dim->low * v->memory->stride[d];
        if (dim->axis >= 0) step[dim->axis] += v->memory->stride[d];
        r->box.low[d] = dim->low;
        r->box.high[d] = dim->low + (dim->axis >= 0 ? v->size[dim->axis] : 1);
    }
    const int64_t length = v->axes ? v->size[v->axes - 1] : 1,
                  last = v->axes ? step[v->axes - 1] : 0;
    for (int64_t n = 0; n < r->count; n += length) {
        int64_t at = base;
        for (uint32_t x = 0; x + 1 < v->axes; x++) at += index[x] * step[x];
        for (int64_t i = 0; i < length; i++) r->offset[n + i] = at + i * last;
        for (uint32_t x = v->axes - (v->axes > 0); x-- > 0;) {
            if (++index[x] < v->size[x]) break;
            index[x] = 0;
        }
    }
}

/* Element by element: those outside, and those that the guard excludes, do not take part. */
static bool careful_region(Agent *a, const View *v, const uint8_t *guard, bool lenient, Region *r)
{
    int64_t index[2 * TILE_MAX_RANK] = {0};
    for (int64_t n = 0; n < r->count; n++, next_index(v, index)) {
        int64_t at = 0;
        bool inside = true;
        r->ok[n] = guard ? guard[n] : 1;
        for (uint32_t d = 0; d < v->rank; d++) {
            const int64_t p = position(&v->dims[d], index, v->axes);
            const bool fits = p >= v->dims[d].first && p < v->dims[d].last;
            if (!fits && r->ok[n] && !lenient)
                return run_error(
                    a, AU_E0710, NULL,
                    "%s runs from 0 to %lld in %s, position %lld is outside; say pad, clip or when",
                    v->memory->axis[d], (long long)v->memory->size[d] - 1, v->memory->name,
                    (long long)p);
            inside &= fits;
            at += p * v->memory->stride[d];
        }
        r->ok[n] &= inside;
        r->offset[n] = inside ? at : 0;
    }
    return true;
}

void find_box(Region *r)
{
    const Memory *m = r->memory;
    r->empty = true;
    for (int64_t n = 0; n < r->count; n++) {
        if (r->ok && !r->ok[n]) continue;
        int64_t rest = r->offset[n];
        for (uint32_t d = 0; d < m->rank; d++) {
            const int64_t p = rest / m->stride[d];
            rest -= p * m->stride[d];
            if (r->empty || p < r->box.low[d]) r->box.low[d] = p;
            if (r->empty || p >= r->box.high[d]) r->box.high[d] = p + 1;
        }
        r->empty = false;
    }
}

/* Indices that two tiles give, a head and a query of each row, say. */
static int64_t scattered_rows(const View *v)
{
    uint32_t tiles = 0;
    for (uint32_t d = 0; d < v->rank; d++) tiles += v->dims[d].is_tile;
    return tiles > 1 && v->axes ? v->size[0] : 0;
}

bool resolve(Agent *a, AuArena *arena, const AuTileExpr *view, const Tile *guard, bool lenient,
             Region *out)
{
    View v;
    if (!read_view(a, view, &v)) return false;
    *out = (Region){.memory = v.memory, .count = 1};
    for (uint32_t x = 0; x < v.axes; x++) out->count *= v.size[x];
    const size_t bytes = sizeof(int64_t) * (size_t)out->count;
    out->offset = arena ? au_alloc(arena, bytes) : scratch(a->m, bytes);
    if (!guard && is_plain(&v)) {
        plain_region(&v, out);
        return true;
    }
    uint8_t *chosen = NULL;
    if (guard) { /* its axes are those after `as` */
        AuTileType type = *view->type;
        type.elem = TILE_BOOL;
        Tile all = new_tile(a->m, &type);
        spread(&type, &all, guard);
        chosen = scratch(a->m, (size_t)out->count);
        for (int64_t n = 0; n < out->count; n++) chosen[n] = all.i[n] != 0;
    }
    out->ok = arena ? au_alloc(arena, (size_t)out->count) : scratch(a->m, (size_t)out->count);
    if (!careful_region(a, &v, chosen, lenient, out)) return false;
    find_box(out);
    out->rows = scattered_rows(&v);
    return true;
}

bool gather(Agent *a, const AuTileExpr *view, Tile *out)
{
    Region r;
    if (!resolve(a, NULL, view, NULL, true, &r)) return false;
    *out = new_tile(a->m, view->type);
    for (int64_t n = 0; n < r.count; n++) {
        const bool ok = !r.ok || r.ok[n];
        if (out->f)
            out->f[n] = ok ? r.memory->f[r.offset[n]] : 0;
        else
            out->i[n] = ok ? r.memory->i[r.offset[n]] : 0;
    }
    return true;
}

bool fetch(Agent *a, const Region *r, float pad, const AuTileStmt *stmt, Tile *out)
{
    const Memory *m = r->memory;
    for (int64_t n = 0; n < r->count; n++) {
        const bool ok = !r->ok || r->ok[n];
        const int64_t at = r->offset[n];
        if (ok && !m->init[at]) {
            a->stmt = stmt;
            return run_error(a, AU_E0707, NULL, "%s is read where nothing was written", m->name);
        }
        if (out->f)
            out->f[n] = ok ? m->f[at] : pad;
        else
            out->i[n] = ok ? m->i[at] : (int32_t)pad;
    }
    return true;
}

/* ---- clocks */

Clock new_clock(Machine *m)
{
    return (Clock){.agents = AU_NEW_ARRAY(m->block, uint32_t, m->agent_count)};
}

static void widen(Machine *m, Clock *clock, uint32_t words)
{
    if (words <= clock->words) return;
    const uint32_t room = words * 2;
    uint64_t *ops = AU_NEW_ARRAY(m->block, uint64_t, room);
    if (clock->words) memcpy(ops, clock->ops, sizeof *ops * clock->words);
    clock->ops = ops;
    clock->words = room;
}

void join(Machine *m, Clock *into, const Clock *from)
{
    for (uint32_t i = 0; i < m->agent_count; i++)
        if (into->agents[i] < from->agents[i]) into->agents[i] = from->agents[i];
    uint32_t used = from->words;
    while (used && !from->ops[used - 1]) used--;
    widen(m, into, used);
    for (uint32_t i = 0; i < used; i++) into->ops[i] |= from->ops[i];
}

Clock copy_clock(Machine *m, const Clock *clock)
{
    Clock copy = new_clock(m);
    join(m, &copy, clock);
    return copy;
}

void mark_op(Machine *m, Clock *clock, uint32_t number)
{
    widen(m, clock, number / 64 + 1);
    clock->ops[number / 64] |= 1ull << number % 64;
}

void tick(Agent *a) { a->clock.agents[a->number] = ++a->time; }

Actor me(Agent *a) { return (Actor){false, a->number, a->time, &a->clock}; }

static bool is_ordered(const Machine *m, const Access *before, const Clock *clock)
{
    if (before->block != m->block_number) return false;
    const uint32_t n = before->actor.number;
    if (!before->actor.is_op) return clock->agents[n] >= before->actor.time;
    return n / 64 < clock->words && clock->ops[n / 64] >> n % 64 & 1;
}

static bool overlap(const Box *a, const Box *b, uint32_t rank)
{
    for (uint32_t d = 0; d < rank; d++)
        if (a->low[d] >= b->high[d] || b->low[d] >= a->high[d]) return false;
    return true;
}

static bool contains(const Box *outer, const Box *inner, uint32_t rank)
{
    for (uint32_t d = 0; d < rank; d++)
        if (inner->low[d] < outer->low[d] || inner->high[d] > outer->high[d]) return false;
    return true;
}

static bool same_actor(const Actor *a, const Actor *b)
{
    return a->is_op == b->is_op && a->number == b->number;
}

static bool touch_box(Agent *a, const Region *r, AccessKind kind, Actor actor,
                      const AuTileStmt *stmt)
{
    static const char *const kinds[] = {"read", "write", "sum"};
    Memory *m = r->memory;
    if (m->mode == TILE_IN || m->space == TILE_PRIVATE_MEMORY || r->empty) return true;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < m->log.count; i++) {
        const Access *before = &m->log.at[i];
        bool keep = true;
        if (overlap(&r->box, &before->box, m->rank)) {
            const bool commutes = kind == before->kind && kind != WRITE;
            if (!commutes && !is_ordered(a->m, before, actor.clock)) {
                a->stmt = stmt;
                return run_error(a, AU_E0711, before->stmt,
                                 "%s of %s is not ordered after the %s by %s", kinds[kind], m->name,
                                 kinds[before->kind], before->agent);
            }
            const bool covers = contains(&r->box, &before->box, m->rank);
            const bool again = kind == before->kind && kind != WRITE && covers &&
                               before->block == a->m->block_number &&
                               same_actor(&actor, &before->actor) &&
                               contains(&before->box, &r->box, m->rank);
            keep = !(kind == WRITE && covers) && !again;
        }
        if (keep) m->log.at[kept++] = m->log.at[i];
    }
    m->log.count = kept;
    const Access access = {a->m->block_number, actor, r->box, kind, a->name, stmt};
    AU_PUSH(a->m->arena, m->log.at, m->log.count, m->log.capacity, access);
    return true;
}

bool touch(Agent *a, const Region *r, AccessKind kind, Actor actor, const AuTileStmt *stmt)
{
    if (!r->rows || kind == READ) return touch_box(a, r, kind, actor, stmt);
    const int64_t of_row = r->count / r->rows;
    for (int64_t n = 0; n < r->rows; n++) {
        Region row = {.memory = r->memory,
                      .count = of_row,
                      .offset = r->offset + n * of_row,
                      .ok = r->ok ? r->ok + n * of_row : NULL};
        find_box(&row);
        if (!touch_box(a, &row, kind, actor, stmt)) return false;
    }
    return true;
}
