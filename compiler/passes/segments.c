/* segments.c - which code a tile takes: `on` stands in few places afterwards, or nowhere.
 *
 *     pairs of many operations, where a segment only masks     its code for all tiles, once
 *     option split                                             a loop for each segment, one after the other
 *     else                                                     on first { run } else { run }: one branch a tile for each run of
 *                                                              assignments; the products around it exist once
 *
 * Where `on` is gone a run of assignments is one piece, and so it is in each half of a branch: what follows looks at runs. */
#include "pass.h"

/* Nodes of expressions for a pair, from which on code for all segments is one. */
enum { HEAVY = 96 };

static uint32_t nodes_of(const AuTileExpr *e)
{
    uint32_t count = 1;
    for (uint32_t n = 0; e && n < e->args.count; n++) count += nodes_of(e->args.at[n]);
    return count;
}

/* Nodes of what the body computes for each element of tiles of two axes, in every segment. */
static uint32_t weight_of(const AuTileStmts *body)
{
    uint32_t count = 0;
    for (uint32_t n = 0; n < body->count; n++) {
        const AuTileStmt *s = body->at[n];
        if (s->kind == TILE_S_ASSIGN && s->var->type->count > 1) count += nodes_of(s->assign.value);
    }
    return count;
}

bool pass_is_heavy(const AuTileStmts *body) { return weight_of(body) > HEAVY; }

/* The segment whose tiles are all that `on` is there for, if it only ever masks: x = where(c, x, y). In the tiles of other segments
 * such a c is true, or they would not be others; so its code does for all. NULL: there is none. */
static const char *masking_segment(const AuTileStmts *body)
{
    const char *segment = NULL;
    for (uint32_t n = 0; n < body->count; n++) {
        const AuTileStmt *s = body->at[n];
        if (s->kind != TILE_S_ON) continue;
        if (segment && s->on.segment != segment) return NULL;
        segment = s->on.segment;
        for (uint32_t i = 0; i < s->on.body.count; i++) {
            const AuTileStmt *m = s->on.body.at[i];
            const AuTileExpr *e = m->kind == TILE_S_ASSIGN ? m->assign.value : NULL;
            if (!e || e->op != TILE_X_WHERE || e->args.at[1]->op != TILE_X_NAME ||
                e->args.at[1]->var != m->var)
                return NULL;
        }
    }
    return segment;
}

/* ---- in tiles of one segment */

/* The body without `on`: what is for that segment stays. */
static void resolve(Pass *p, AuTileStmts *body, const char *segment)
{
    AuTileStmts out = {0};
    for (uint32_t n = 0; n < body->count; n++) {
        AuTileStmt *s = body->at[n];
        const AuTileParts parts = tile_parts(s);
        for (uint32_t i = 0; i < parts.body_count && !pass_is_list_loop(s); i++)
            resolve(p, parts.bodies[i], segment);
        if (s->kind != TILE_S_ON) {
            pass_push(p, &out, s);
            continue;
        }
        const AuTileStmts *taken = s->on.segment == segment ? &s->on.body : &s->on.other;
        for (uint32_t i = 0; i < taken->count; i++) pass_push(p, &out, taken->at[i]);
    }
    *body = out;
}

/* ---- in tiles of all segments */

static bool is_in_run(const AuTileStmt *s)
{
    bool good = s->kind == TILE_S_ON && !s->on.other.count;
    for (uint32_t n = 0; good && n < s->on.body.count; n++)
        good = tile_assigned(s->on.body.at[n]) != NULL;
    return good || tile_assigned(s);
}

/* `frag x: .. = value` as a declaration, before the branch, and an assignment. */
static AuTileStmt *assignment(Pass *p, AuTileStmt *s, AuTileStmts *declarations)
{
    if (s->kind != TILE_S_FRAG) return s;
    AuTileStmt *set = pass_assignment(p, s->frag.name, s->frag.init, s->span);
    set->var = s->var;
    s->frag.init = NULL;
    pass_push(p, declarations, s);
    return set;
}

/* The run as it is in the tiles called as the first, and as it is in all others. */
static void branch(Pass *p, AuTileStmt *const *run, uint32_t count, const char *first,
                   AuTileStmts *out)
{
    AuTileStmt *on = AU_NEW(p->arena, AuTileStmt);
    AuTileStmts other = {0};
    *on = (AuTileStmt){.kind = TILE_S_ON, .span = run[0]->span};
    on->on.segment = first;
    for (uint32_t n = 0; n < count; n++) {
        if (run[n]->kind != TILE_S_ON) {
            AuTileStmt *s = assignment(p, run[n], out);
            pass_push(p, &on->on.body, s), pass_push(p, &other, s);
            continue;
        }
        AuTileStmts *half = run[n]->on.segment == first ? &on->on.body : &other;
        for (uint32_t i = 0; i < run[n]->on.body.count; i++)
            pass_push(p, half, run[n]->on.body.at[i]);
    }
    tile_copy_body(p->diags, p->module, &other, &on->on.other);
    pass_push(p, out, on);
}

static void branches(Pass *p, AuTileStmts *body, const char *first)
{
    AuTileStmts out = {0};
    for (uint32_t n = 0; n < body->count;) {
        uint32_t end = n;
        bool differs = false;
        for (; end < body->count && is_in_run(body->at[end]); end++)
            differs |= body->at[end]->kind == TILE_S_ON;
        const uint32_t last = end;
        if (end > n && end < body->count && tile_starts_product(body->at[end - 1], body->at[end]))
            end--;
        if (differs && end > n) {
            branch(p, body->at + n, end - n, first, &out);
            n = end;
        }
        for (; n < last || (n == last && n < body->count); n++) {
            const AuTileParts parts = tile_parts(body->at[n]);
            for (uint32_t i = 0; i < parts.body_count && !pass_is_list_loop(body->at[n]); i++)
                branches(p, parts.bodies[i], first);
            pass_push(p, &out, body->at[n]);
        }
    }
    *body = out;
}

/* ---- loops */

/* Segments that are called otherwise than the first. */
static uint32_t other_names(const AuTileList *list)
{
    uint32_t count = 0;
    for (uint32_t n = 1; n < list->segments.count; n++) {
        bool there = false;
        for (uint32_t i = 0; i < n; i++)
            there |= list->segments.at[i].name == list->segments.at[n].name;
        count += !there;
    }
    return count;
}

static void walk(Pass *p, AuTileStmts *body);

static void split(Pass *p, AuTileStmt *s, AuTileStmts *out)
{
    for (uint32_t n = 0; n < s->loop.list->segments.count; n++) {
        AuTileStmts one = {0};
        AuTileStmts all = {.at = &s, .count = 1};
        tile_copy_body(p->diags, p->module, &all, &one);
        one.at[0]->loop.segment = pass_number(p, n, s->span);
        resolve(p, &one.at[0]->loop.body, s->loop.list->segments.at[n].name);
        walk(p, &one.at[0]->loop.body);
        pass_push(p, out, one.at[0]);
    }
}

static void loop(Pass *p, AuTileStmt *s, AuTileStmts *out)
{
    const AuTileList *list = s->loop.list;
    const char *first = list->segments.at[0].name, *only = NULL;
    AuTileStmts *body = &s->loop.body;
    if (p->shares_rows && pass_is_heavy(body)) only = masking_segment(body);
    if (!only && p->shares_rows && p->module->options.split) {
        split(p, s, out);
        return;
    }
    const uint32_t others = other_names(list);
    if (only || !others)
        resolve(p, body, only ? only : first);
    else if (others == 1)
        branches(p, body, first);
    walk(p, body);
    pass_push(p, out, s);
}

static void walk(Pass *p, AuTileStmts *body)
{
    AuTileStmts out = {0};
    for (uint32_t n = 0; n < body->count; n++) {
        AuTileStmt *s = body->at[n];
        if (pass_is_list_loop(s)) {
            loop(p, s, &out);
            continue;
        }
        const AuTileParts parts = tile_parts(s);
        for (uint32_t i = 0; i < parts.body_count; i++) walk(p, parts.bodies[i]);
        pass_push(p, &out, s);
    }
    *body = out;
}

void pass_segments(Pass *p) { walk(p, &p->role->body); }
