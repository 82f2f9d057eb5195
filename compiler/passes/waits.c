/* waits.c - who waits for a product does so where it is asked for.
 *
 * A schedule waits before it calls a hook that reads the product. Once the hook stands in its place, what it does first may read nothing
 * of it: the weights of a backward are made of scores alone, while the product with output gradients still runs.
 *
 * Loads in front of the wait go along, so that what they bring takes no registers before. */
#include "pass.h"

/* Product [var] of the role, or NULL: a copy's token, or memory that products write. */
static const AuTileStmt *product_of(const AuTileStmts *body, const AuTileVar *var)
{
    const AuTileStmt *found = NULL;
    for (uint32_t n = 0; n < body->count && !found; n++) {
        AuTileStmt *s = body->at[n];
        const AuTileParts parts = tile_parts(s);
        for (uint32_t i = 0; i < parts.body_count && !found; i++)
            found = product_of(parts.bodies[i], var);
        if (s->kind == TILE_S_PRODUCT && s->product.is_async && !s->product.dest && s->var == var)
            found = s;
    }
    return found;
}

/* Does the statement touch the sums of a product, or an operand in registers that the unit reads? */
static bool touches(Pass *p, const AuTileStmts *body, AuTileStmt *s, const AuTileVar *var)
{
    bool found = false;
    const AuTileStmts one = {.at = &s, .count = 1};
    for (uint32_t n = 0; n < body->count && !found; n++) {
        const AuTileStmt *of = body->at[n];
        const AuTileParts parts = tile_parts(body->at[n]);
        for (uint32_t i = 0; i < parts.body_count && !found; i++)
            found = touches(p, parts.bodies[i], s, var);
        if (of->kind == TILE_S_PRODUCT && of->var == var && of->product.a->op == TILE_X_NAME)
            found = tile_count_uses(&one, of->product.a->var) > 0;
    }
    return found || tile_count_uses(&one, var) > 0;
}

/* Numbers alone, of numbers and of memory. */
static bool is_plain(AuTileStmt *s)
{
    const AuTileParts parts = tile_parts(s);
    bool plain = s->kind == TILE_S_ASSIGN || s->kind == TILE_S_LOAD || s->kind == TILE_S_IF ||
                 s->kind == TILE_S_ON;
    for (uint32_t n = 0; n < parts.body_count; n++)
        for (uint32_t i = 0; i < parts.bodies[n]->count && plain; i++)
            plain = is_plain(parts.bodies[n]->at[i]);
    return plain;
}

static bool may_pass(Pass *p, const AuTileStmt *wait, AuTileStmt *s)
{
    bool may = is_plain(s);
    for (uint32_t n = 0; n < wait->wait.names.count && may; n++) {
        const AuTileVar *var = wait->wait.vars[n];
        may = product_of(&p->role->body, var) && !touches(p, &p->role->body, s, var);
    }
    return may;
}

static void exchange(AuTileStmts *body, uint32_t n)
{
    AuTileStmt *s = body->at[n];
    body->at[n] = body->at[n + 1];
    body->at[n + 1] = s;
}

/* Loads in front of a wait that has moved from there follow it, as far as to who asks for them. */
static void follow(AuTileStmts *body, uint32_t from, uint32_t wait)
{
    uint32_t first = wait;
    for (uint32_t n = from; n-- > 0 && body->at[n]->kind == TILE_S_LOAD;) {
        const AuTileVar *var = body->at[n]->var;
        uint32_t at = n;
        for (; at + 1 < first; at++) {
            const AuTileStmts next = {.at = &body->at[at + 1], .count = 1};
            if (tile_count_uses(&next, var)) break;
            exchange(body, at);
        }
        first = at;
    }
}

static void walk(Pass *p, AuTileStmts *body)
{
    for (uint32_t n = 0; n < body->count; n++) {
        const AuTileParts parts = tile_parts(body->at[n]);
        for (uint32_t i = 0; i < parts.body_count; i++) walk(p, parts.bodies[i]);
    }
    for (uint32_t n = body->count; n-- > 0;) {
        AuTileStmt *wait = body->at[n];
        if (wait->kind != TILE_S_WAIT) continue;
        uint32_t at = n;
        for (; at + 1 < body->count && may_pass(p, wait, body->at[at + 1]); at++)
            exchange(body, at);
        if (at > n) follow(body, n, at);
    }
}

void pass_waits(Pass *p) { walk(p, &p->role->body); }
