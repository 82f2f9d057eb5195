/* statistics.c - what is made of a row's statistics alone is made where they come into shared memory, a row a lane, with `option passing`.
 *
 *     copy lse[b, h, m * 32 + self * 8 +: 8] -> row0[self * 8 +: 8] pad 0
 *     sync all
 *     final0 = load row0[0 +: 32] like score
 *     exponent = final0 * c + 13.0
 *     far = !(abs(exponent) <= 16384.0)
 *     if anywhere(far) { .. far .. }
 *
 * becomes
 *
 *     row0_all = load lse[b, h, m * 32 + self * 8 +: 8] @ along_lanes pad 0
 *     store row0_all -> row0[self * 8 +: 8]
 *     exponent_all = row0_all * c + 13.0
 *     store exponent_all -> exponent_rows[self * 8 +: 8]
 *     sync all
 *     final0 = load row0[0 +: 32] like score
 *     exponent = load exponent_rows[0 +: 32] like score
 *     exponent_asked = load exponent_rows[0 +: 32] @ along_lanes
 *     far_asked = !(abs(exponent_asked) <= 16384.0)
 *     if anywhere(far_asked) { far = !(abs(exponent) <= 16384.0)  .. far .. }
 *
 * Where rows are registers of the pairs, each operation on a row costs as much as one on pairs. Loads that nobody reads any more go, and
 * with them what nobody loads. */
#include "pass.h"

#include <string.h>

enum { MOST = 8 };
static const char lanes_layout[] = "along_lanes";

/* A copy of rows into shared memory. */
typedef struct Source {
    AuTileStmt *copy;
    const char *lanes; /* the rows, a row a lane; NULL: not made yet */
} Source;

/* What is made of rows: [var] in pairs' registers, [lanes] where rows come in, [asked] a row a lane again. */
typedef struct Made {
    const AuTileVar *var;   /* as it is known: NULL after it is set anew */
    const AuTileVar *first; /* that is loaded in front of all; NULL: another's value */
    const AuTileExpr *of;   /* what the assignment had; NULL: it is a source itself */
    AuTileStmt *load;       /* of the memory, like the pairs */
    const char *lanes, *asked;
} Made;

typedef struct Stats {
    Pass *p;
    Source sources[MOST];
    Made made[MOST];
    uint32_t source_count, made_count;
    AuTileStmts writes, loads; /* new: behind the copies, behind the loads */
} Stats;

/* ---- what there is */

static bool is_copy_of_rows(const AuTileStmt *s)
{
    if (s->kind != TILE_S_MOVE || s->move.op != TILE_COPY || s->move.is_async || s->move.clip ||
        s->move.when)
        return false;
    const AuTileExpr *from = s->move.source, *to = s->move.dest;
    return from->memory->space == TILE_GLOBAL && to->memory->space == TILE_SHARED &&
           !to->memory->pipe && to->memory->type.count == 1 && to->memory->type.elem == TILE_F32 &&
           from->memory->type.elem == TILE_F32 && to->has_index;
}

/* The source that a load reads, all of it; NULL: none. */
static Source *loaded(Stats *x, const AuTileStmt *s)
{
    if (s->kind != TILE_S_LOAD || s->load.pad || s->load.when || s->load.across || !s->var ||
        s->var->type->count != 1 || s->load.layout.kind == TILE_NO_LAYOUT)
        return NULL;
    for (uint32_t n = 0; n < x->source_count; n++)
        if (x->sources[n].copy->move.dest->memory == s->load.source->memory) return &x->sources[n];
    return NULL;
}

static bool same_rows(const AuTileStmt *a, const AuTileStmt *b)
{
    const AuTileExpr *of = a->load.source, *other = b->load.source;
    return of->args.count == other->args.count && a->load.layout.kind == b->load.layout.kind &&
           a->load.layout.name == b->load.layout.name &&
           (!of->args.count || tile_same_expr(of->args.at[0], other->args.at[0]));
}

static Made *known(Stats *x, const AuTileVar *var)
{
    for (uint32_t n = 0; n < x->made_count; n++)
        if (x->made[n].var == var) return &x->made[n];
    return NULL;
}

/* Is the expression made of what is known, and numbers? [names] counts what is known. */
static bool is_of_rows(Stats *x, const AuTileExpr *e, uint32_t *names)
{
    if (e->op == TILE_X_NAME) {
        ++*names;
        return e->var && known(x, e->var);
    }
    const AuTileSyntax syntax = tile_op(e->op)->syntax;
    if (syntax == TILE_SYNTAX_LEAF) return true;
    if (syntax == TILE_SYNTAX_SPECIAL || tile_op(e->op)->result == TILE_RESULT_OWN) return false;
    for (uint32_t n = 0; n < e->args.count; n++)
        if (!is_of_rows(x, e->args.at[n], names)) return false;
    return true;
}

static uint32_t uses_from(const AuTileStmts *body, uint32_t n, const AuTileVar *var)
{
    const AuTileStmts rest = {.at = body->at + n, .count = body->count - n};
    return tile_count_uses(&rest, var);
}

/* ---- what is made */

static const char *new_name(Stats *x, const char *of, const char *what)
{
    static const AuTileType type = {.elem = TILE_F32};
    return pass_new_var(x->p, au_format(x->p->arena, "%s_%s", of, what), &type)->name;
}

/* The expression over lanes: names of what is known by those of [names], one for each that is known. */
static AuTileExpr *over(Stats *x, const AuTileExpr *e, const char *const *names)
{
    if (e->op == TILE_X_NAME) return pass_name(x->p, names[known(x, e->var) - x->made], e->span);
    AuTileExpr *copy = AU_NEW(x->p->arena, AuTileExpr);
    *copy = *e;
    copy->args = (AuTileExprs){0};
    for (uint32_t n = 0; n < e->args.count; n++)
        AU_PUSH(x->p->arena, copy->args.at, copy->args.count, copy->args.capacity,
                over(x, e->args.at[n], names));
    return copy;
}

static AuTileExpr *place_in(Stats *x, const AuTileExpr *ref, const AuTileMemory *memory)
{
    AuTileExpr *e = AU_NEW(x->p->arena, AuTileExpr);
    *e = *ref;
    e->name = memory->name;
    e->memory = NULL;
    return e;
}

static AuTileStmt *load_of(Stats *x, const AuTileStmt *like, const char *name, AuTileExpr *source,
                           bool lanes)
{
    AuTileStmt *s = AU_NEW(x->p->arena, AuTileStmt);
    *s = *like;
    s->var = NULL;
    s->load.name = name;
    s->load.source = source;
    if (lanes)
        s->load.layout = (AuTileLayoutRef){.kind = TILE_NAMED,
                                           .span = s->span,
                                           .name = au_name(x->p->module->names, lanes_layout)};
    return s;
}

static AuTileStmt *store_of(Stats *x, const AuTileStmt *copy, const char *name,
                            const AuTileMemory *memory)
{
    AuTileStmt *s = AU_NEW(x->p->arena, AuTileStmt);
    *s = (AuTileStmt){.kind = TILE_S_MOVE, .span = copy->span};
    s->move.op = TILE_STORE;
    s->move.source = pass_name(x->p, name, copy->span);
    s->move.dest = place_in(x, copy->move.dest, memory);
    return s;
}

/* Rows of a copy pass through lanes' registers: the load in front of everything that is made of them, the store beside it. */
static void bring(Stats *x, Source *of)
{
    const AuTileStmt *copy = of->copy;
    const AuTileMemory *memory = copy->move.dest->memory;
    if (of->lanes) return;
    of->lanes = new_name(x, memory->name, "all");
    AuTileStmt *load = AU_NEW(x->p->arena, AuTileStmt);
    *load = (AuTileStmt){.kind = TILE_S_LOAD, .span = copy->span};
    load->load.name = of->lanes;
    load->load.source = copy->move.source;
    load->load.pad = copy->move.pad;
    load->load.layout = (AuTileLayoutRef){
        .kind = TILE_NAMED, .span = copy->span, .name = au_name(x->p->module->names, lanes_layout)};
    pass_push(x->p, &x->writes, load);
    pass_push(x->p, &x->writes, store_of(x, copy, of->lanes, memory));
}

static const char *lanes_of(Stats *x, Made *m)
{
    if (!m->lanes) {
        Source *of = loaded(x, m->load);
        bring(x, of);
        m->lanes = of->lanes;
    }
    return m->lanes;
}

/* A memory of rows like the first source's, with what the assignment makes. */
static AuTileMemory *rows_of(Stats *x, const AuTileStmt *s, const char *lanes)
{
    Pass *p = x->p;
    const char *names[MOST];
    const AuTileStmt *copy = x->sources[0].copy;
    for (uint32_t n = 0; n < x->made_count; n++)
        names[n] =
            tile_count_reads(tile_assigned(s), x->made[n].var) ? lanes_of(x, &x->made[n]) : NULL;
    AuTileMemory *memory = AU_NEW(p->arena, AuTileMemory);
    *memory = *copy->move.dest->memory;
    memory->name = new_name(x, s->var->name, "rows");
    AU_PUSH(p->arena, p->kernel->shared.at, p->kernel->shared.count, p->kernel->shared.capacity,
            memory);
    AuTileExpr *value = over(x, tile_assigned(s), names);
    pass_push(p, &x->writes, pass_assignment(p, lanes, value, s->span));
    pass_push(p, &x->writes, store_of(x, copy, lanes, memory));
    return memory;
}

/* Instead of the assignment a load in front of all, or what the other half of a branch has loaded so, which becomes the value; NULL: nothing
 * is to be assigned. */
static AuTileStmt *make(Stats *x, const AuTileStmt *s)
{
    for (uint32_t n = 0; n < x->made_count; n++) {
        if (!x->made[n].of || !x->made[n].var || !tile_same_expr(x->made[n].of, tile_assigned(s)))
            continue;
        Made *m = &x->made[x->made_count++];
        *m = x->made[n];
        m->var = s->var, m->first = NULL;
        return pass_assignment(x->p, s->var->name, pass_name(x->p, x->made[n].var->name, s->span),
                               s->span);
    }
    Made m = {.var = s->var,
              .first = s->var,
              .of = tile_assigned(s),
              .lanes = new_name(x, s->var->name, "all")};
    AuTileExpr *view = x->made[0].load->load.source;
    view = place_in(x, view, rows_of(x, s, m.lanes));
    m.load = load_of(x, x->made[0].load, s->var->name, view, false);
    pass_push(x->p, &x->loads, m.load);
    x->made[x->made_count++] = m;
    return NULL;
}

/* ---- tests of rows in branches */

/* The one `if anywhere(var)` behind statement [n], in which all that reads the variable stands; NULL: there is none. */
static AuTileStmt *only_branch(const Stats *x, const AuTileStmts *body, uint32_t n,
                               const AuTileVar *var)
{
    for (uint32_t i = n + 1; i < body->count; i++) {
        AuTileStmt *s = body->at[i];
        const AuTileStmts one = {.at = &s, .count = 1};
        const uint32_t here = tile_count_uses(&one, var);
        if (!here) continue;
        if (s->kind != TILE_S_IF || s->branch.test->op != TILE_X_ANYWHERE ||
            s->branch.other.count || s->branch.test->args.at[0]->op != TILE_X_NAME ||
            s->branch.test->args.at[0]->var != var)
            return NULL;
        return tile_count_uses(&x->p->role->body, var) == here + 1 ? s : NULL;
    }
    return NULL;
}

/* What was made, a row a lane; loaded once for all who ask. */
static const char *asked_of(Stats *x, const Made *m)
{
    for (uint32_t n = 0; n < x->made_count; n++)
        if (x->made[n].load == m->load && x->made[n].asked) return x->made[n].asked;
    const char *name = new_name(x, m->var->name, "asked");
    pass_push(x->p, &x->loads, load_of(x, m->load, name, m->load->load.source, true));
    for (uint32_t n = 0; n < x->made_count; n++)
        if (x->made[n].load == m->load) x->made[n].asked = name;
    return name;
}

/* The test is asked a row a lane, of what is loaded so. What it is for each pair's row, the branch asks itself. */
static AuTileStmt *ask(Stats *x, AuTileStmt *s, AuTileStmt *branch)
{
    Pass *p = x->p;
    const char *names[MOST];
    for (uint32_t n = 0; n < x->made_count; n++) {
        Made *m = &x->made[n];
        names[n] = NULL;
        if (m->var && tile_count_reads(tile_assigned(s), m->var)) names[n] = asked_of(x, m);
    }
    const char *asked = new_name(x, s->var->name, "asked");
    AuTileStmts then = {0};
    pass_push(p, &then, s);
    for (uint32_t n = 0; n < branch->branch.then.count; n++)
        pass_push(p, &then, branch->branch.then.at[n]);
    branch->branch.then = then;
    branch->branch.test =
        pass_expr(p, TILE_X_ANYWHERE, pass_name(p, asked, s->span), NULL, s->span);
    return pass_assignment(p, asked, over(x, tile_assigned(s), names), s->span);
}

/* ---- bodies */

static void forget(Stats *x, AuTileStmt *s)
{
    const AuTileStmts one = {.at = &s, .count = 1};
    for (uint32_t n = 0; n < x->made_count; n++) {
        const AuTileVar *var = x->made[n].var;
        if (var && tile_count_uses(&one, var) > tile_count_reads_in(&s, 1, var))
            x->made[n].var = NULL;
    }
}

static void look(Stats *x, AuTileStmts *body, uint32_t from);

/* Each half knows what was known before it. */
static void look_in_half(Stats *x, AuTileStmts *body)
{
    const AuTileVar *before[MOST];
    const uint32_t count = x->made_count;
    for (uint32_t n = 0; n < count; n++) before[n] = x->made[n].var;
    look(x, body, 0);
    for (uint32_t n = 0; n < x->made_count; n++)
        x->made[n].var = n < count ? before[n] : x->made[n].first;
}

/* Is it an assignment of what is made of rows alone, the first of its variable? */
static bool is_made_of_rows(Stats *x, const AuTileStmts *body, uint32_t n)
{
    const AuTileStmt *s = body->at[n];
    const AuTileExpr *e = s->kind == TILE_S_ASSIGN ? tile_assigned(s) : NULL;
    uint32_t names = 0;
    return e && s->var && e->op != TILE_X_NAME && e->type->count == 1 && is_of_rows(x, e, &names) &&
           names && tile_count_uses(&x->p->role->body, s->var) == uses_from(body, n, s->var);
}

static void look(Stats *x, AuTileStmts *body, uint32_t from)
{
    AuTileStmts out = {0};
    for (uint32_t n = 0; n < body->count; n++) {
        AuTileStmt *s = body->at[n], *instead = s;
        const bool rows = n >= from && is_made_of_rows(x, body, n);
        AuTileStmt *branch =
            rows && s->var->type->elem == TILE_BOOL ? only_branch(x, body, n, s->var) : NULL;
        if (branch)
            instead = ask(x, s, branch);
        else if (rows && s->var->type->elem == TILE_F32 && x->made_count < MOST)
            instead = make(x, s);
        if (instead) pass_push(x->p, &out, instead);
        if (n < from || instead != s) continue;
        if (s->kind == TILE_S_ON) {
            look_in_half(x, &s->on.body);
            look_in_half(x, &s->on.other);
        }
        forget(x, s);
    }
    *body = out;
}

/* ---- what is left out */

static bool is_read_by_others(const Stats *x, const AuTileMemory *memory)
{
    bool found = false;
    for (uint32_t n = 0; n < x->p->kernel->roles.count; n++)
        found |= tile_reads_memory(&x->p->kernel->roles.at[n]->body, memory);
    return found;
}

static void leave_out_memory(Stats *x, AuTileStmts *body, const AuTileMemory *memory)
{
    AuTileKernel *k = x->p->kernel;
    uint32_t count = 0;
    for (uint32_t n = 0; n < body->count; n++) {
        const AuTileStmt *s = body->at[n];
        if (s->kind != TILE_S_MOVE || s->move.dest->name != memory->name)
            body->at[count++] = body->at[n];
    }
    body->count = count;
    count = 0;
    for (uint32_t n = 0; n < k->shared.count; n++)
        if (k->shared.at[n] != memory) k->shared.at[count++] = k->shared.at[n];
    k->shared.count = count;
}

/* Loads that nobody reads go, and memory that nobody loads. */
static void leave_out(Stats *x, AuTileStmts *body)
{
    uint32_t count = 0;
    for (uint32_t n = 0; n < body->count; n++) {
        AuTileStmt *s = body->at[n];
        if (!loaded(x, s) || tile_count_uses(&x->p->role->body, s->var) > 1) body->at[count++] = s;
    }
    body->count = count;
    for (uint32_t n = 0; n < x->source_count; n++) {
        const AuTileMemory *memory = x->sources[n].copy->move.dest->memory;
        if (x->sources[n].lanes && !is_read_by_others(x, memory)) leave_out_memory(x, body, memory);
    }
}

/* What is new stands where the last copy stood, and behind the last load. */
static void put_in(Stats *x, AuTileStmts *body, uint32_t last_copy, uint32_t last_load)
{
    AuTileStmts out = {0};
    for (uint32_t n = 0; n < body->count; n++) {
        bool brought = false;
        for (uint32_t i = 0; i < x->source_count; i++)
            brought |= x->sources[i].copy == body->at[n] && x->sources[i].lanes;
        if (!brought) pass_push(x->p, &out, body->at[n]);
        for (uint32_t i = 0; n == last_copy && i < x->writes.count; i++)
            pass_push(x->p, &out, x->writes.at[i]);
        for (uint32_t i = 0; n == last_load && i < x->loads.count; i++)
            pass_push(x->p, &out, x->loads.at[i]);
    }
    *body = out;
}

static void loop(Pass *p, AuTileStmts *body)
{
    Stats x = {.p = p};
    uint32_t last_copy = 0, last_load = 0;
    for (uint32_t n = 0; n < body->count; n++) {
        AuTileStmt *s = body->at[n];
        if (is_copy_of_rows(s) && x.source_count < MOST && !x.made_count) {
            x.sources[x.source_count++] = (Source){.copy = s};
            last_copy = n;
        }
        if (!loaded(&x, s) || x.made_count == MOST / 2) continue;
        if (x.made_count && !same_rows(x.made[0].load, s)) return;
        x.made[x.made_count++] = (Made){.var = s->var, .load = s};
        last_load = n;
    }
    if (!x.made_count) return;
    const uint32_t loads = x.made_count;
    look(&x, body, last_load + 1);
    if (x.made_count == loads) return;
    put_in(&x, body, last_copy, last_load);
    leave_out(&x, body);
}

static void walk(Pass *p, AuTileStmts *body)
{
    for (uint32_t n = 0; n < body->count; n++) {
        const AuTileParts parts = tile_parts(body->at[n]);
        for (uint32_t i = 0; i < parts.body_count; i++) walk(p, parts.bodies[i]);
        if (body->at[n]->kind == TILE_S_FOR) loop(p, &body->at[n]->loop.body);
    }
}

/* Is there a layout of a row a lane, and room for what may be made? */
static bool can(const Pass *p)
{
    enum { ROOM = 2048 };
    bool layout = false;
    for (uint32_t n = 0; n < p->module->layouts.count; n++)
        layout |= strcmp(p->module->layouts.at[n]->name, lanes_layout) == 0;
    return p->module->options.passing && layout &&
           p->kernel->shared_used + ROOM <= p->module->caps->shared_bytes;
}

void pass_statistics(Pass *p)
{
    if (can(p)) walk(p, &p->role->body);
}
