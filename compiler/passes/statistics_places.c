/* statistics_places.c - what is known of rows without loading them: distances of their places from the block's, times numbers that are the same
 * for all of them (slopes of heads).
 *
 *     h = hk * G + g
 *     for m in queries {
 *         i = m * 64 + iota(q:64)
 *         shift = slope[h] * f32(i - nb * 128)
 *         exponent = (final0 - shift) * c
 *
 * The producer of the stage that brings final0 has loops over the same heads and tiles, so it makes the exponent from row0_all and
 * slope[hk * G + g] * f32(m * 64 + iota(q:64) - nb * 128): what a name of the role's stands for is written out. Numbers of executors (`self`) are
 * another role's, and nothing with them is made there. */
#include "statistics.h"

/* The last statement that sets the variable, of those before [count]; how many there are. */
static AuTileExpr *set_in(const AuTileStmts *body, uint32_t count, const AuTileVar *var,
                          uint32_t *times)
{
    AuTileExpr *value = NULL;
    for (uint32_t n = 0; n < count; n++) {
        const AuTileParts parts = tile_parts(body->at[n]);
        if (body->at[n]->var == var && tile_assigned(body->at[n])) {
            value = tile_assigned(body->at[n]);
            ++*times;
        }
        for (uint32_t i = 0; i < parts.body_count; i++) {
            AuTileExpr *inner = set_in(parts.bodies[i], parts.bodies[i]->count, var, times);
            if (inner) value = inner;
        }
    }
    return value;
}

AuTileExpr *stats_meaning(const Stats *x, const AuTileVar *var)
{
    uint32_t here = 0, all = 0;
    if (!var || var->origin != TILE_FROM_BODY) return NULL;
    AuTileExpr *near = set_in(x->body, x->at, var, &here);
    if (here == 1) return near;
    AuTileExpr *value = set_in(&x->p->role->body, x->p->role->body.count, var, &all);
    return all == 1 ? value : NULL;
}

static bool is_of_kernel(const AuTileVar *var)
{
    return var->origin == TILE_FROM_LET || var->origin == TILE_FROM_GRID ||
           var->origin == TILE_FROM_PARAM || var->origin == TILE_FROM_SIZE;
}

/* A walk over an expression with its names written out, which is twice as long with each that stands for two of another one: so it ends somewhere. */
typedef struct Walk {
    Stats *x;
    const char *axis;
    uint32_t *names; /* NULL: what is known of rows does not count, places do alone */
    uint32_t left;   /* nodes */
} Walk;

static bool walk(Walk *w, const AuTileExpr *e);

static bool walk_all(Walk *w, const AuTileExpr *e)
{
    for (uint32_t n = 0; n < e->args.count; n++)
        if (!walk(w, e->args.at[n])) return false;
    return true;
}

static bool walk_name(Walk *w, const AuTileVar *var)
{
    if (!var) return false;
    if (w->names && stats_known(w->x, var)) {
        ++*w->names;
        return true;
    }
    if (is_of_kernel(var) || var->origin == TILE_FROM_LOOP) return true;
    const AuTileExpr *means = stats_meaning(w->x, var);
    if (!means) return false;
    uint32_t *names = w->names;
    w->names = NULL;
    const bool is = walk(w, means);
    w->names = names;
    return is;
}

static bool walk(Walk *w, const AuTileExpr *e)
{
    if (!w->left) return false;
    w->left--;
    switch ((int)e->op) {
    case TILE_X_NAME: return walk_name(w, e->var);
    case TILE_X_IOTA: return e->name == w->axis;
    case TILE_X_REF: /* an element of an input */
        return e->memory && e->memory->space == TILE_GLOBAL && !e->type->count && walk_all(w, e);
    case TILE_X_TO_F32:
    case TILE_X_TO_I32: return walk_all(w, e);
    }
    if (tile_op(e->op)->syntax == TILE_SYNTAX_LEAF) return true;
    return tile_op(e->op)->syntax != TILE_SYNTAX_SPECIAL &&
           tile_op(e->op)->result != TILE_RESULT_OWN && walk_all(w, e);
}

bool stats_are_of_rows(Stats *x, const AuTileExpr *e, uint32_t *names)
{
    enum { MOST = 64 };
    Walk w = {x, e->type->axes[0].name, names, MOST};
    return walk(&w, e);
}

/* The loop that declares the variable. */
static const AuTileStmt *loop_of(const AuTileStmts *body, const AuTileVar *var)
{
    const AuTileStmt *found = NULL;
    for (uint32_t n = 0; n < body->count && !found; n++) {
        const AuTileParts parts = tile_parts(body->at[n]);
        if (body->at[n]->kind == TILE_S_FOR && body->at[n]->var == var) found = body->at[n];
        for (uint32_t i = 0; i < parts.body_count && !found; i++)
            found = loop_of(parts.bodies[i], var);
    }
    return found;
}

static bool same_turns(const AuTileStmt *a, const AuTileStmt *b)
{
    return a->loop.var_name == b->loop.var_name && a->loop.list == b->loop.list &&
           (a->loop.list || (tile_same_expr(a->loop.low, b->loop.low) &&
                             tile_same_expr(a->loop.high, b->loop.high)));
}

/* Does the statement stand in a loop like that one? */
static bool stands_in(const AuTileStmts *body, const AuTileStmt *s, const AuTileStmt *like, bool in)
{
    for (uint32_t n = 0; n < body->count; n++) {
        const AuTileStmt *at = body->at[n];
        const AuTileParts parts = tile_parts(body->at[n]);
        if (at == s) return in;
        const bool same = at->kind == TILE_S_FOR && same_turns(at, like);
        for (uint32_t i = 0; i < parts.body_count; i++)
            if (stands_in(parts.bodies[i], s, like, in || same)) return true;
    }
    return false;
}

bool stats_can_say(Stats *x, const AuTileExpr *e, const StatsSource *source)
{
    if (e->op == TILE_X_NAME && e->var && !stats_known(x, e->var)) {
        if (is_of_kernel(e->var)) return true;
        const AuTileStmt *loop = loop_of(&x->p->role->body, e->var);
        if (e->var->origin == TILE_FROM_LOOP)
            return source->fill && loop &&
                   stands_in(&source->memory->pipe->producer->body, source->fill, loop, false);
        const AuTileExpr *means = stats_meaning(x, e->var);
        return means && stats_can_say(x, means, source);
    }
    for (uint32_t n = 0; n < e->args.count; n++)
        if (!stats_can_say(x, e->args.at[n], source)) return false;
    return true;
}
