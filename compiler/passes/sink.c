/* sink.c - a load of which only seldom taken branches read stands in them.
 *
 * The backward of softmax reads a row `rest` for rows far from 0 alone (references.c). Loaded where the schedule says so, it takes a register
 * a column and accesses of shared memory for every tile; a branch that is hardly ever taken may well load what it needs. */
#include "pass.h"

/* Is it a branch that hardly any executor takes? */
static bool is_seldom(const AuTileStmt *s) { return tile_asks(s) && !s->branch.other.count; }

/* Does nothing in it write memory, wait for others, or run more than once? A load may then stand behind it as well as before it. */
static bool keeps_memory(AuTileStmt *s)
{
    const AuTileParts parts = tile_parts(s);
    bool keeps = s->kind == TILE_S_ASSIGN || s->kind == TILE_S_FRAG || s->kind == TILE_S_LOAD ||
                 s->kind == TILE_S_WAIT || s->kind == TILE_S_IF || s->kind == TILE_S_ON;
    for (uint32_t n = 0; n < parts.body_count; n++)
        for (uint32_t i = 0; i < parts.bodies[n]->count && keeps; i++)
            keeps = keeps_memory(parts.bodies[n]->at[i]);
    return keeps;
}

/* Reads of the variable in seldom branches; with [load] it is put in front of them. */
static uint32_t in_branches(Pass *p, AuTileStmt *const *body, uint32_t count, const AuTileVar *var,
                            AuTileStmt *load)
{
    uint32_t reads = 0;
    for (uint32_t n = 0; n < count; n++) {
        const AuTileParts parts = tile_parts(body[n]);
        if (!is_seldom(body[n])) {
            for (uint32_t i = 0; i < parts.body_count; i++)
                reads += in_branches(p, parts.bodies[i]->at, parts.bodies[i]->count, var, load);
            continue;
        }
        AuTileStmts *then = &body[n]->branch.then;
        const uint32_t here = tile_count_reads_in(then->at, then->count, var);
        reads += here;
        if (!load || !here) continue;
        AuTileStmts with = {0};
        const AuTileStmts one = {.at = (AuTileStmt *[]){load}, .count = 1};
        tile_copy_body(p->diags, p->module, &one, &with);
        for (uint32_t i = 0; i < then->count; i++) pass_push(p, &with, then->at[i]);
        *then = with;
    }
    return reads;
}

/* The statements behind [n] before which the load at [n] may as well stand. */
static uint32_t reach(const AuTileStmts *body, uint32_t n)
{
    uint32_t end = n + 1;
    while (end < body->count && keeps_memory(body->at[end])) end++;
    return end - n - 1;
}

/* Sums of a group of warps leave few registers: what a branch loads again takes none until then. */
static bool repeats(const Pass *p, AuTileStmt **behind, uint32_t count, const AuTileVar *var)
{
    const AuTileStmts all = {.at = behind, .count = count};
    return p->role->on == TILE_ON_WARPGROUP &&
           tile_count_uses(&all, var) == tile_count_reads_in(behind, count, var);
}

static bool sinks(Pass *p, AuTileStmts *body, uint32_t n)
{
    AuTileStmt *s = body->at[n];
    if (s->kind != TILE_S_LOAD || !s->var) return false;
    const uint32_t all = tile_count_uses(&p->role->body, s->var);
    const uint32_t reads = tile_count_reads_in(p->role->body.at, p->role->body.count, s->var);
    const uint32_t count = reach(body, n);
    if (!reads) return false;
    AuTileStmt **behind = body->at + n + 1;
    /* It is set once, and read there alone. */
    const bool moves = all == reads + 1 && in_branches(p, behind, count, s->var, NULL) == reads;
    if (!moves && !repeats(p, behind, count, s->var)) return false;
    in_branches(p, behind, count, s->var, s);
    return moves;
}

static void walk(Pass *p, AuTileStmts *body)
{
    uint32_t count = 0;
    for (uint32_t n = 0; n < body->count; n++) {
        const AuTileParts parts = tile_parts(body->at[n]);
        for (uint32_t i = 0; i < parts.body_count; i++) walk(p, parts.bodies[i]);
        if (!sinks(p, body, n)) body->at[count++] = body->at[n];
    }
    body->count = count;
}

void pass_sink(Pass *p) { walk(p, &p->role->body); }
