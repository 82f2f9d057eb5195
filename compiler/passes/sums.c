/* sums.c - sums of rows that lie in parts while a loop runs (tile/linear.c):
 *
 *     part x lanes 3
 *     for .. { .. x = where(any, x * f + reduce_sum(p, kv), x) .. }
 *     join x lanes 3
 *
 * In the loop nothing else reads x or sets it. */
#include "pass.h"

enum { MOST_SUMS = 8 }; /* of a loop */

/* May the variable that the statement sets lie in parts while the loop around it runs? [set]: by slot, what is set before the loop. */
static bool can_wait(const AuTileStmts *body, const AuTileStmt *s, const bool *set, uint32_t *bits)
{
    if (s->kind != TILE_S_ASSIGN || !s->var || s->var->kind != TILE_VALUE ||
        s->var->type->elem != TILE_F32 || !set[s->var->slot])
        return false;
    return tile_is_linear(s->assign.value, s->var, bits) &&
           tile_count_uses(body, s->var) == 1 + tile_count_reads(s->assign.value, s->var);
}

static AuTileStmt *part(Pass *p, AuTileStmtKind kind, const AuTileStmt *of, uint32_t bits)
{
    AuTileStmt *s = AU_NEW(p->arena, AuTileStmt);
    *s = (AuTileStmt){.kind = kind, .span = of->span, .var = of->var};
    s->part.name = of->assign.names.at[0];
    s->part.lanes = pass_number(p, bits, of->span);
    return s;
}

static void sums_in(Pass *p, AuTileStmts *body, bool *set);

/* The loop with its sums, into [out]. */
static void loop(Pass *p, AuTileStmt *s, const bool *set, AuTileStmts *out)
{
    AuTileStmts joins = {0};
    const AuTileStmts *body = &s->loop.body;
    for (uint32_t n = 0; n < body->count; n++) {
        uint32_t bits = 0;
        if (joins.count == MOST_SUMS || !can_wait(body, body->at[n], set, &bits)) continue;
        pass_push(p, out, part(p, TILE_S_PART, body->at[n], bits));
        pass_push(p, &joins, part(p, TILE_S_JOIN, body->at[n], bits));
    }
    pass_push(p, out, s);
    for (uint32_t n = 0; n < joins.count; n++) pass_push(p, out, joins.at[n]);
}

static void sums_in(Pass *p, AuTileStmts *body, bool *set)
{
    AuTileStmts out = {0};
    for (uint32_t n = 0; n < body->count; n++) {
        AuTileStmt *s = body->at[n];
        const AuTileParts parts = tile_parts(s);
        if (s->kind == TILE_S_FOR)
            loop(p, s, set, &out);
        else
            pass_push(p, &out, s);
        for (uint32_t i = 0; i < parts.body_count; i++) sums_in(p, parts.bodies[i], set);
        const bool declares = s->kind == TILE_S_FRAG && !s->frag.init;
        if (s->var && !declares) set[s->var->slot] = true;
    }
    *body = out;
}

void pass_sums(Pass *p)
{
    sums_in(p, &p->role->body, AU_NEW_ARRAY(p->arena, bool, p->role->vars.count + 1));
}
