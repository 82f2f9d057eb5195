/* runs.c - the runs of assignments of a role: what stands between products, copies and loops, and is lowered as one piece. */
#include "pass.h"

#include <string.h>

typedef struct Change {
    AuTileStmts *body, now;
} Change;

/* Bodies change when all have been seen, so that counts are those of the program before the pass. */
typedef struct Runs {
    Pass *p;
    PassRun change;
    TILE_LIST(Change) changes;
} Runs;

static void learn(Pass *p, const AuTileStmts *run)
{
    for (uint32_t n = 0; n < run->count; n++) {
        const AuTileStmt *s = run->at[n];
        AuTileExpr *value = tile_assigned(s);
        if (value && s->var->slot < p->role->vars.count && tile_is_homeless(s->var->type))
            p->formulas[s->var->slot] = value;
    }
}

/* What a schedule wrote under `if anywhere(x)` is no part of a run to passes, which make such branches themselves. */
static bool is_of_run(const AuTileStmt *s) { return s->kind != TILE_S_IF && tile_is_in_run(s); }

static void walk(Runs *r, AuTileStmts *body);

static void inner(Runs *r, AuTileStmt *s)
{
    Pass *p = r->p;
    const AuTileParts parts = tile_parts(s);
    const bool alone = s->kind == TILE_S_FOR && s->loop.segment, before = p->in_branch;
    p->in_branch |= tile_asks(s);
    if (alone) p->counts = tile_count_role(p->arena, p->role, s);
    for (uint32_t n = 0; n < parts.body_count; n++) {
        p->beside = s->kind == TILE_S_ON ? parts.bodies[1 - n] : NULL;
        walk(r, parts.bodies[n]);
    }
    p->beside = NULL;
    p->in_branch = before;
    if (alone) p->counts = tile_count_role(p->arena, p->role, NULL);
}

static void walk(Runs *r, AuTileStmts *body)
{
    Pass *p = r->p;
    AuTileStmts out = {0};
    for (uint32_t n = 0; n < body->count;) {
        uint32_t end = n;
        while (end < body->count && is_of_run(body->at[end])) end++;
        if (end > n && end < body->count && tile_starts_product(body->at[end - 1], body->at[end]))
            end--;
        AuTileStmts run = {0};
        for (uint32_t i = n; i < end; i++) pass_push(p, &run, body->at[i]);
        p->run = (AuTileStmts){.at = body->at + n, .count = end - n};
        p->after = (AuTileStmts){.at = body->at + end, .count = body->count - end};
        if (run.count) r->change(p, &run), learn(p, &run);
        for (uint32_t i = 0; i < run.count; i++) pass_push(p, &out, run.at[i]);
        if (end < body->count) inner(r, body->at[end]), pass_push(p, &out, body->at[end]);
        n = end + 1;
    }
    const Change change = {body, out};
    AU_PUSH(p->arena, r->changes.at, r->changes.count, r->changes.capacity, change);
}

void pass_each_run(Pass *p, PassRun change)
{
    Runs r = {.p = p, .change = change};
    p->formulas = AU_NEW_ARRAY(p->arena, AuTileExpr *, p->role->vars.count + 1);
    p->counts = tile_count_role(p->arena, p->role, NULL);
    walk(&r, &p->role->body);
    for (uint32_t n = 0; n < r.changes.count; n++) *r.changes.at[n].body = r.changes.at[n].now;
}

/* ---- variables */

static bool is_taken(const Pass *p, const char *name)
{
    const AuTileKernel *k = p->kernel;
    bool taken = false;
    for (uint32_t n = 0; n < p->role->vars.count; n++) taken |= p->role->vars.at[n]->name == name;
    for (uint32_t n = 0; n < p->new_names.count; n++) taken |= p->new_names.at[n] == name;
    for (uint32_t n = 0; n < k->vars.count; n++) taken |= k->vars.at[n]->name == name;
    for (uint32_t n = 0; n < k->args.count; n++) taken |= k->args.at[n]->name == name;
    for (uint32_t n = 0; n < k->shared.count; n++) taken |= k->shared.at[n]->name == name;
    return taken;
}

AuTileVar *pass_new_var(Pass *p, const char *name, const AuTileType *type)
{
    AuNames *names = p->module->names;
    const char *fresh = au_name(names, name);
    for (uint32_t n = 2; is_taken(p, fresh); n++)
        fresh = au_name(names, au_format(p->arena, "%s_%u", name, n));
    AU_PUSH(p->arena, p->new_names.at, p->new_names.count, p->new_names.capacity, fresh);
    AuTileVar *var = AU_NEW(p->arena, AuTileVar);
    *var = (AuTileVar){.name = fresh,
                       .kind = TILE_VALUE,
                       .origin = TILE_FROM_BODY,
                       .type = type,
                       .slot = UINT32_MAX};
    return var;
}

AuTileType pass_written_type(Pass *p, const AuTileType *type)
{
    AuTileType out = {.elem = type->elem,
                      .count = type->count,
                      .axes = AU_NEW_ARRAY(p->arena, AuTileAxis, type->count)};
    for (uint32_t n = 0; n < type->count; n++)
        out.axes[n] = (AuTileAxis){.name = type->axes[n].name,
                                   .extent = pass_number(p, type->axes[n].size, (AuSpan){0})};
    return out;
}

const AuTileCount *pass_count(const Pass *p, const AuTileVar *var)
{
    static const AuTileCount fresh = {.defs = 1};
    return var->slot < p->role->vars.count ? &p->counts[var->slot] : &fresh;
}

AuTileExpr *pass_formula(const Pass *p, const AuTileVar *var)
{
    const bool known = !tile_is_of_kernel(var) && var->slot < p->role->vars.count;
    return known ? p->formulas[var->slot] : NULL;
}

static bool reads(AuTileStmt *s, const AuTileVar *var)
{
    const AuTileParts parts = tile_parts(s);
    uint32_t found = tile_count_reads(parts.dest, var) + (parts.adds && s->var == var);
    for (uint32_t n = 0; n < parts.read_count; n++) found += tile_count_reads(*parts.reads[n], var);
    return found > 0;
}

static bool sets(const AuTileStmt *s, const AuTileVar *var)
{
    return s->var == var && (s->kind == TILE_S_PRODUCT || tile_assigned(s));
}

/* Does each body that reads the variable set it before, itself, so that no value passes from one into another? */
static bool is_of_bodies(const AuTileStmts *body, const AuTileVar *var)
{
    bool is_set = false;
    for (uint32_t n = 0; n < body->count; n++) {
        AuTileStmt *s = body->at[n];
        const AuTileParts parts = tile_parts(s);
        if (!is_set && reads(s, var)) return false;
        is_set |= sets(s, var);
        for (uint32_t i = 0; i < parts.body_count; i++) {
            if (!is_of_bodies(parts.bodies[i], var)) return false;
            is_set &= !tile_count_uses(parts.bodies[i], var);
        }
    }
    return true;
}

/* Is it read after the run, in the same body, before that sets it anew? */
static bool is_read_after(const Pass *p, const AuTileVar *var)
{
    for (uint32_t n = 0; n < p->after.count; n++) {
        AuTileStmt *s = p->after.at[n];
        if (reads(s, var)) return true;
        if (sets(s, var)) return false;
    }
    return false;
}

bool pass_ends_in_run(const Pass *p, const AuTileVar *var)
{
    const AuTileCount *count = pass_count(p, var);
    uint32_t reads_here = tile_count_reads_in(p->run.at, p->run.count, var);
    if (p->beside) reads_here += tile_count_reads_in(p->beside->at, p->beside->count, var);
    if ((count->restarted || count->defs == 1) && count->uses == reads_here) return true;
    return var->slot < p->role->vars.count && is_of_bodies(&p->role->body, var) &&
           !is_read_after(p, var);
}
