/* sums.c - sums of rows that lie in parts while a loop runs (tile/linear.c):
 *
 *     part x lanes 3
 *     for .. { .. x = where(any, x * f + reduce_sum(p, kv), x) .. }
 *     join x lanes 3
 *
 * In the loop nothing else reads x or sets it. Of matrices whose elements lie nobody knows where, columns have the parts; there the statement may stand in a loop
 * within the loop, too. */
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

/* What is found of a loop: sums that can wait, in their order. */
typedef struct Waiting {
    Pass *p;
    const AuTileStmts *loop;
    bool *set;
    bool deep; /* in loops within it, too */
    AuTileStmts parts, joins;
} Waiting;

static void find_sums(Waiting *w, const AuTileStmts *body)
{
    for (uint32_t n = 0; n < body->count; n++) {
        AuTileStmt *s = body->at[n];
        uint32_t bits = 0;
        if (w->deep && s->kind == TILE_S_FOR) find_sums(w, &s->loop.body);
        if (w->joins.count == MOST_SUMS || !can_wait(w->loop, s, w->set, &bits)) continue;
        pass_push(w->p, &w->parts, part(w->p, TILE_S_PART, s, bits));
        pass_push(w->p, &w->joins, part(w->p, TILE_S_JOIN, s, bits));
        if (w->deep)
            w->set[s->var->slot] = false; /* not once more, by the loop that it stands in */
    }
}

static void push_all(Pass *p, AuTileStmts *out, const AuTileStmts *from)
{
    for (uint32_t n = 0; n < from->count; n++) pass_push(p, out, from->at[n]);
}

/* The loop with its sums, into [out]. */
static void loop(Pass *p, AuTileStmt *s, bool *set, AuTileStmts *out)
{
    Waiting w = {
        .p = p, .loop = &s->loop.body, .set = set, .deep = tile_is_by_place(&p->role->body)};
    find_sums(&w, &s->loop.body);
    push_all(p, out, &w.parts);
    pass_push(p, out, s);
    push_all(p, out, &w.joins);
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

/* Matrices whose elements lie nobody knows where, and which their executor joins, one for some columns. */
static bool has_columns(const AuTileStmts *body)
{
    bool all = true;
    for (uint32_t n = 0; n < body->count && all; n++) {
        AuTileStmt *s = body->at[n];
        const AuTileParts parts = tile_parts(s);
        const AuTileAtom *atom = s->kind == TILE_S_PRODUCT ? s->product.atom : NULL;
        all = !atom || !atom->by_place || (atom->joins && !atom->multiples);
        for (uint32_t i = 0; i < parts.body_count; i++) all &= has_columns(parts.bodies[i]);
    }
    return all;
}

void pass_sums(Pass *p)
{
    if (!has_columns(&p->role->body)) return;
    sums_in(p, &p->role->body, AU_NEW_ARRAY(p->arena, bool, p->role->vars.count + 1));
}
