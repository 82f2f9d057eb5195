/* statistics_rows.c - where rows come into shared memory: there the pass has made what is made of them alone (statistics.c).
 *
 * By copies of the role itself, which become loads of a row a lane and stores. Or through a pipeline whose producer does that anyway:
 *
 *     row0_all = load lse[b, h, m * 64 +: 64] @ rows_along_lanes pad 0
 *     y = acquire query
 *     store row0_all -> y.row0
 *     exponent_all = row0_all * c + 13.0          is new, in front of each commit, with a tile of the stage
 *     store exponent_all -> y.exponent_rows
 *     commit y */
#include "statistics.h"

#include <string.h>

static const char lanes_layout[] = "along_lanes", rows_layout[] = "rows_along_lanes";

/* ---- what there is */

static bool has_layout(const Pass *p, const char *name)
{
    bool found = false;
    for (uint32_t n = 0; n < p->module->layouts.count; n++)
        found |= strcmp(p->module->layouts.at[n]->name, name) == 0;
    return found;
}

bool stats_is_copy(const Stats *x, const AuTileStmt *s)
{
    if (!x->p->module->options.passing || !has_layout(x->p, lanes_layout)) return false;
    if (s->kind != TILE_S_MOVE || s->move.op != TILE_COPY || s->move.is_async || s->move.clip ||
        s->move.when)
        return false;
    const AuTileExpr *from = s->move.source, *to = s->move.dest;
    return from->memory->space == TILE_GLOBAL && to->memory->space == TILE_SHARED &&
           !to->memory->pipe && to->memory->type.count == 1 && to->memory->type.elem == TILE_F32 &&
           from->memory->type.elem == TILE_F32 && to->has_index;
}

static bool is_load_of_rows(const AuTileStmt *s)
{
    return s->kind == TILE_S_LOAD && !s->load.pad && !s->load.when && !s->load.across && s->var &&
           s->var->type->count == 1 && s->load.layout.kind != TILE_NO_LAYOUT;
}

StatsSource *stats_loaded(Stats *x, const AuTileStmt *s)
{
    if (!is_load_of_rows(s)) return NULL;
    for (uint32_t n = 0; n < x->source_count; n++)
        if (x->sources[n].memory == s->load.source->memory) return &x->sources[n];
    return NULL;
}

/* The first store into the memory; [other]: does the role fill it in another way, too, or from other registers? */
static AuTileStmt *store_into(AuTileStmts *body, const AuTileMemory *memory, bool *other)
{
    AuTileStmt *first = NULL;
    for (uint32_t n = 0; n < body->count; n++) {
        AuTileStmt *s = body->at[n], *found = NULL;
        const AuTileParts parts = tile_parts(s);
        for (uint32_t i = 0; i < parts.body_count; i++) {
            found = store_into(parts.bodies[i], memory, other);
            if (!first) first = found;
        }
        if (!parts.dest || parts.dest->memory != memory) continue;
        *other |= s->kind != TILE_S_MOVE || s->move.op != TILE_STORE || s->move.clip ||
                  s->move.when || s->move.source->op != TILE_X_NAME || !s->move.source->var ||
                  (first && first->move.source->var != s->move.source->var);
        if (!first) first = s;
    }
    return first;
}

void stats_add_stage(Stats *x, const AuTileStmt *s)
{
    if (!is_load_of_rows(s) || stats_loaded(x, s)) return;
    const AuTileMemory *memory = s->load.source->memory;
    if (!memory->pipe || !has_layout(x->p, rows_layout) || memory->type.elem != TILE_F32 ||
        memory->type.count != 1 || memory->pipe->producer == x->p->role)
        return;
    bool other = false;
    AuTileStmt *fill = store_into(&memory->pipe->producer->body, memory, &other);
    if (!fill || other) return;
    x->sources[x->source_count++] =
        (StatsSource){.memory = memory, .fill = fill, .lanes = fill->move.source->name};
}

StatsMade *stats_known(Stats *x, const AuTileVar *var)
{
    for (uint32_t n = 0; n < x->made_count; n++)
        if (x->made[n].var == var) return &x->made[n];
    return NULL;
}

/* ---- what is made */

const char *stats_new_name(Stats *x, const char *of, const char *what)
{
    static const AuTileType type = {.elem = TILE_F32};
    return pass_new_var(x->p, au_format(x->p->arena, "%s_%s", of, what), &type)->name;
}

AuTileExpr *stats_over(Stats *x, const AuTileExpr *e, const char *const *names)
{
    const StatsMade *known = e->op == TILE_X_NAME ? stats_known(x, e->var) : NULL;
    if (known) return pass_name(x->p, names[known - x->made], e->span);
    const AuTileExpr *means = e->op == TILE_X_NAME ? stats_meaning(x, e->var) : NULL;
    if (means) return stats_over(x, means, names);
    if (e->op == TILE_X_NAME) return pass_name(x->p, e->name, e->span);
    AuTileExpr *copy = AU_NEW(x->p->arena, AuTileExpr);
    *copy = *e;
    copy->args = (AuTileExprs){0};
    for (uint32_t n = 0; n < e->args.count; n++)
        AU_PUSH(x->p->arena, copy->args.at, copy->args.count, copy->args.capacity,
                stats_over(x, e->args.at[n], names));
    return copy;
}

AuTileExpr *stats_place_in(const Stats *x, const AuTileExpr *view, const AuTileMemory *memory)
{
    AuTileExpr *e = AU_NEW(x->p->arena, AuTileExpr);
    *e = *view;
    *(memory->pipe ? &e->field : &e->name) = memory->name;
    e->memory = NULL;
    return e;
}

static AuTileLayoutRef layout_of_lanes(const Stats *x, bool of_stage, AuSpan span)
{
    return (AuTileLayoutRef){
        .kind = TILE_NAMED,
        .span = span,
        .name = au_name(x->p->module->names, of_stage ? rows_layout : lanes_layout)};
}

AuTileStmt *stats_load_of(Stats *x, const AuTileStmt *like, const char *name, AuTileExpr *source,
                          bool lanes)
{
    AuTileStmt *s = AU_NEW(x->p->arena, AuTileStmt);
    *s = *like;
    s->var = NULL;
    s->load.name = name;
    s->load.source = source;
    if (lanes) s->load.layout = layout_of_lanes(x, source->field != NULL, s->span);
    return s;
}

/* As the copy or the store [like] has it, from lanes' registers to the same rows of a memory. */
static AuTileStmt *store_of(Stats *x, const AuTileStmt *like, const char *name,
                            const AuTileMemory *memory)
{
    AuTileStmt *s = AU_NEW(x->p->arena, AuTileStmt);
    *s = (AuTileStmt){.kind = TILE_S_MOVE, .span = like->span};
    s->move.op = TILE_STORE;
    s->move.source = pass_name(x->p, name, like->span);
    s->move.dest = stats_place_in(x, like->move.dest, memory);
    return s;
}

/* Rows of a copy pass through lanes' registers: the load in front of everything that is made of them, the store beside it. */
static void bring(Stats *x, StatsSource *of)
{
    const AuTileStmt *copy = of->copy;
    if (of->lanes) return;
    of->lanes = stats_new_name(x, of->memory->name, "all");
    AuTileStmt *load = AU_NEW(x->p->arena, AuTileStmt);
    *load = (AuTileStmt){.kind = TILE_S_LOAD, .span = copy->span};
    load->load.name = of->lanes;
    load->load.source = copy->move.source;
    load->load.pad = copy->move.pad;
    load->load.layout = layout_of_lanes(x, false, copy->span);
    pass_push(x->p, &x->writes, load);
    pass_push(x->p, &x->writes, store_of(x, copy, of->lanes, of->memory));
}

static const char *lanes_of(Stats *x, StatsMade *m)
{
    if (!m->lanes) {
        bring(x, m->source);
        m->lanes = m->source->lanes;
    }
    return m->lanes;
}

/* A memory like the source's; NULL: there is no room. */
static AuTileMemory *new_memory(Stats *x, const StatsSource *source, const char *name)
{
    enum { ALIGNED = 128 }; /* no memory of numbers begins at a rounder place */
    Pass *p = x->p;
    const AuTileMemory *of = source->memory;
    const int32_t bytes =
        ALIGNED + of->stages * of->type.axes[0].size * tile_elem(of->type.elem)->bytes;
    if (p->kernel->shared_used + bytes > p->module->caps->shared_bytes) return NULL;
    p->kernel->shared_used += bytes; /* the verifier counts again */
    AuTileMemory *memory = AU_NEW(p->arena, AuTileMemory);
    *memory = *of;
    memory->name = name;
    if (of->pipe)
        AU_PUSH(p->arena, of->pipe->tiles.at, of->pipe->tiles.count, of->pipe->tiles.capacity,
                memory);
    else
        AU_PUSH(p->arena, p->kernel->shared.at, p->kernel->shared.count, p->kernel->shared.capacity,
                memory);
    return memory;
}

/* ---- in a pipeline's producer */

static bool commits(const AuTileStmt *s, const char *handle)
{
    bool found = false;
    for (uint32_t n = 0; s->kind == TILE_S_COMMIT && n < s->close.names.count; n++)
        found |= s->close.names.at[n] == handle;
    return found;
}

/* Each stage that the source's rows are stored to has another tile stored in front of its commit: of what the assignment makes, over lanes. */
static void fill_stages(Stats *x, AuTileStmts *body, const StatsSource *source,
                        const AuTileStmt *made, const char *const *names, const StatsKept *to)
{
    AuTileStmts out = {0};
    const AuTileStmt *store = NULL;
    for (uint32_t n = 0; n < body->count; n++) {
        AuTileStmt *s = body->at[n];
        const AuTileParts parts = tile_parts(s);
        for (uint32_t i = 0; i < parts.body_count; i++)
            fill_stages(x, parts.bodies[i], source, made, names, to);
        if (s->kind == TILE_S_MOVE && s->move.dest->memory == source->memory) store = s;
        if (store && commits(s, store->move.dest->name)) {
            AuTileExpr *value = stats_over(x, tile_assigned(made), names);
            pass_push(x->p, &out, pass_assignment(x->p, to->lanes, value, made->span));
            pass_push(x->p, &out, store_of(x, store, to->lanes, to->memory));
            store = NULL;
        }
        pass_push(x->p, &out, s);
    }
    *body = out;
}

static const StatsKept *kept(const Stats *x, const AuTileExpr *value)
{
    for (uint32_t n = 0; n < x->kept_count; n++)
        if (tile_same_expr(x->kept[n].value, value)) return &x->kept[n];
    return NULL;
}

static const StatsKept *rows_of_stage(Stats *x, const AuTileStmt *s, const StatsSource *source,
                                      const char *const *names)
{
    AuTileExpr *value = stats_over(x, tile_assigned(s), names);
    const StatsKept *before = kept(x, value);
    if (before || x->kept_count == STATS_MOST) return before;
    StatsKept *k = &x->kept[x->kept_count];
    *k = (StatsKept){.memory = new_memory(x, source, stats_new_name(x, s->var->name, "rows")),
                     .value = value,
                     .lanes = stats_new_name(x, s->var->name, "all")};
    if (!k->memory) return NULL;
    x->kept_count++;
    fill_stages(x, &source->memory->pipe->producer->body, source, s, names, k);
    return k;
}

const AuTileMemory *stats_rows_of(Stats *x, const AuTileStmt *s, StatsSource *source,
                                  const char **lanes)
{
    Pass *p = x->p;
    const char *names[STATS_MOST];
    for (uint32_t n = 0; n < x->made_count; n++)
        names[n] =
            tile_count_reads(tile_assigned(s), x->made[n].var) ? lanes_of(x, &x->made[n]) : NULL;
    if (source->fill) {
        const StatsKept *k = rows_of_stage(x, s, source, names);
        if (k) *lanes = k->lanes;
        return k ? k->memory : NULL;
    }
    *lanes = stats_new_name(x, s->var->name, "all");
    AuTileMemory *memory = new_memory(x, source, stats_new_name(x, s->var->name, "rows"));
    if (!memory) return NULL;
    AuTileExpr *value = stats_over(x, tile_assigned(s), names);
    pass_push(p, &x->writes, pass_assignment(p, *lanes, value, s->span));
    pass_push(p, &x->writes, store_of(x, source->copy, *lanes, memory));
    return memory;
}

/* ---- what is left out */

static bool is_read_by_others(const Stats *x, const AuTileMemory *memory)
{
    bool found = false;
    for (uint32_t n = 0; n < x->p->kernel->roles.count; n++)
        found |= tile_reads_memory(&x->p->kernel->roles.at[n]->body, memory);
    return found;
}

/* Stores of lanes' registers into a stage keep the memory; others, which the pass has made, its name. */
static void leave_out_stores(AuTileStmts *body, const AuTileMemory *memory)
{
    uint32_t count = 0;
    for (uint32_t n = 0; n < body->count; n++) {
        AuTileStmt *s = body->at[n];
        const AuTileParts parts = tile_parts(s);
        for (uint32_t i = 0; i < parts.body_count; i++) leave_out_stores(parts.bodies[i], memory);
        const AuTileExpr *dest = s->kind == TILE_S_MOVE ? s->move.dest : NULL;
        if (!dest || (dest->field ? dest->field : dest->name) != memory->name)
            body->at[count++] = s;
    }
    body->count = count;
}

static void leave_out_memory(Stats *x, AuTileStmts *body, const AuTileMemory *memory)
{
    AuTileKernel *k = x->p->kernel;
    uint32_t count = 0;
    leave_out_stores(memory->pipe ? &memory->pipe->producer->body : body, memory);
    AuTileMemory **all = memory->pipe ? memory->pipe->tiles.at : k->shared.at;
    uint32_t *of = memory->pipe ? &memory->pipe->tiles.count : &k->shared.count;
    for (uint32_t n = 0; n < *of; n++)
        if (all[n] != memory) all[count++] = all[n];
    *of = count;
}

/* Loads of the memory into the variable go. */
static void leave_out_loads(AuTileStmts *body, const AuTileMemory *memory, const AuTileVar *var)
{
    uint32_t count = 0;
    for (uint32_t n = 0; n < body->count; n++) {
        AuTileStmt *s = body->at[n];
        const AuTileParts parts = tile_parts(s);
        for (uint32_t i = 0; i < parts.body_count; i++)
            leave_out_loads(parts.bodies[i], memory, var);
        if (s->kind != TILE_S_LOAD || s->var != var || s->load.source->memory != memory)
            body->at[count++] = s;
    }
    body->count = count;
}

/* How often the variable is loaded from the memory; the first one that is: into [*var]. */
static uint32_t count_loads(const AuTileStmts *body, const AuTileMemory *memory, AuTileVar **var)
{
    uint32_t count = 0;
    for (uint32_t n = 0; n < body->count; n++) {
        AuTileStmt *s = body->at[n];
        const AuTileParts parts = tile_parts(s);
        for (uint32_t i = 0; i < parts.body_count; i++)
            count += count_loads(parts.bodies[i], memory, var);
        if (s->kind != TILE_S_LOAD || !s->var || s->load.source->memory != memory) continue;
        if (!*var) *var = s->var;
        count += s->var == *var;
    }
    return count;
}

void stats_leave_out(Stats *x, const AuTileMemory *memory)
{
    AuTileVar *var = NULL;
    AuTileStmts *body = &x->p->role->body;
    const uint32_t loads = count_loads(body, memory, &var);
    if (var && tile_count_uses(body, var) == loads) leave_out_loads(body, memory, var);
    if (!is_read_by_others(x, memory)) leave_out_memory(x, body, memory);
}

static void touch(Stats *x, const AuTileMemory *memory)
{
    for (uint32_t n = 0; n < x->touched_count; n++)
        if (x->touched[n] == memory) return;
    if (x->touched_count < 2 * STATS_MOST) x->touched[x->touched_count++] = memory;
}

static void put_writes_in(Stats *x, AuTileStmts *body, const AuTileStmt *last)
{
    AuTileStmts out = {0};
    for (uint32_t n = 0; n < body->count; n++) {
        bool brought = false;
        for (uint32_t i = 0; i < x->source_count; i++)
            brought |= x->sources[i].copy == body->at[n] && x->sources[i].lanes;
        if (!brought) pass_push(x->p, &out, body->at[n]);
        for (uint32_t i = 0; body->at[n] == last && i < x->writes.count; i++)
            pass_push(x->p, &out, x->writes.at[i]);
    }
    *body = out;
}

void stats_put_in(Stats *x, AuTileStmts *body, AuTileStmts *pairs, const AuTileStmt *last_copy,
                  const AuTileStmt *last_load)
{
    put_writes_in(x, body, last_copy);
    AuTileStmts out = {0};
    for (uint32_t n = 0; n < pairs->count; n++) {
        const AuTileStmt *s = pairs->at[n];
        pass_push(x->p, &out, pairs->at[n]);
        for (uint32_t i = 0; i < x->loads.count; i++)
            if (x->behind[i] ? x->behind[i] == s : s == last_load)
                pass_push(x->p, &out, x->loads.at[i]);
    }
    *pairs = out;
    for (uint32_t n = 0; n < x->source_count; n++)
        if (x->sources[n].lanes) touch(x, x->sources[n].memory);
}
