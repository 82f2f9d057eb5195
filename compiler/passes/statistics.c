/* statistics.c - what is made of a row's statistics alone is made where they come into shared memory, a row a lane.
 *
 *     copy lse[b, h, m * 32 + self * 8 +: 8] -> row0[self * 8 +: 8] pad 0
 *     sync all
 *     final0 = load row0[0 +: 32] like score
 *     exponent = final0 * c + 13.0
 *     far = !(abs(exponent) <= 16384.0)
 *     if anywhere(far) { .. far .. }
 *
 * becomes, with `option passing`,
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
 * So do stages of a pipeline whose producer stores rows from its lanes' registers: it makes and stores the exponent, too, and consumers load it
 * from the stage (statistics_rows.c).
 *
 * Exponents of rows that are far come in as a constant (statistics_far.c).
 *
 * Where rows are registers of the pairs, each operation on a row costs as much as one on pairs. What is more, ptxas puts it between products that
 * were to start, which then wait for loads. Loads that nobody reads any more go, and with them what nobody loads. */
#include "statistics.h"

/* ---- what there is */

static bool same_rows(const AuTileStmt *a, const AuTileStmt *b)
{
    const AuTileExpr *of = a->load.source, *other = b->load.source;
    return of->args.count == other->args.count && a->load.layout.kind == b->load.layout.kind &&
           a->load.layout.name == b->load.layout.name &&
           (!of->args.count || tile_same_expr(of->args.at[0], other->args.at[0]));
}

static uint32_t uses_from(const AuTileStmts *body, uint32_t n, const AuTileVar *var)
{
    const AuTileStmts rest = {.at = body->at + n, .count = body->count - n};
    return tile_count_uses(&rest, var);
}

/* ---- what is made */

/* Do all rows of which the expression is made come in together, by the same copies or in the same stage? */
static StatsMade *together(Stats *x, const AuTileExpr *e)
{
    StatsMade *first = NULL;
    for (uint32_t n = 0; n < x->made_count; n++) {
        StatsMade *m = &x->made[n];
        if (!m->var || !tile_count_reads(e, m->var)) continue;
        if (!first) first = m;
        if (m->source->memory->pipe != first->source->memory->pipe) return NULL;
    }
    return first;
}

static void push_load(Stats *x, AuTileStmt *load, const AuTileStmt *behind)
{
    x->behind[x->loads.count] = behind;
    pass_push(x->p, &x->loads, load);
}

/* What has been made so before, in this half of a branch or the other, with that constant for far rows; NULL: nothing. */
static StatsMade *made_before(Stats *x, const AuTileStmt *s, const AuTileExpr *far)
{
    for (uint32_t n = 0; n < x->made_count; n++) {
        StatsMade *m = &x->made[n];
        if (m->of && m->var && tile_same_expr(m->of, tile_assigned(s)) &&
            (far ? m->far && tile_same_expr(m->far, far) : !m->far))
            return m;
    }
    return NULL;
}

/* Instead of the assignment a load in front of all, or what the other half of a branch has loaded so, which becomes the value; NULL: nothing
 * is to be assigned; the assignment itself where there is no room. */
static AuTileStmt *make(Stats *x, AuTileStmt *s)
{
    StatsFar far = {0};
    const bool is_far = stats_find_far(x, &far);
    const StatsMade *before = made_before(x, s, is_far ? far.constant : NULL),
                    *of = together(x, tile_assigned(s));
    if (before) {
        StatsMade *m = &x->made[x->made_count++];
        *m = *before;
        m->var = s->var, m->first = NULL;
        return pass_assignment(x->p, s->var->name, pass_name(x->p, before->var->name, s->span),
                               s->span);
    }
    StatsMade m = {.var = s->var,
                   .first = s->var,
                   .of = tile_assigned(s),
                   .far = is_far ? far.constant : NULL,
                   .behind = of ? of->behind : NULL,
                   .opens = of ? of->opens : NULL,
                   .source = of ? of->source : NULL};
    const bool can = of && stats_can_say(x, tile_assigned(s), of->source);
    AuTileStmt *comes_in = is_far ? stats_near(x, s, &far) : s;
    const AuTileMemory *memory = can ? stats_rows_of(x, comes_in, of->source, &m.lanes) : NULL;
    if (!memory) return s;
    m.load = stats_load_of(x, of->load, s->var->name,
                           stats_place_in(x, of->load->load.source, memory), false);
    push_load(x, m.load, m.behind);
    x->made[x->made_count++] = m;
    return NULL;
}

/* ---- tests of rows in branches */

/* What was made, a row a lane; loaded once for all who ask, as early as can be: ptxas puts the test between products that are to start. */
static const char *asked_of(Stats *x, const StatsMade *m)
{
    for (uint32_t n = 0; n < x->made_count; n++)
        if (x->made[n].load == m->load && x->made[n].asked) return x->made[n].asked;
    const char *name = stats_new_name(x, m->var->name, "asked");
    push_load(x, stats_load_of(x, m->load, name, m->load->load.source, true), m->opens);
    for (uint32_t n = 0; n < x->made_count; n++)
        if (x->made[n].load == m->load) x->made[n].asked = name;
    return name;
}

/* The test is asked a row a lane, of what is loaded so. What it is for each pair's row, the branch asks itself. */
static AuTileStmt *ask(Stats *x, AuTileStmt *s, AuTileStmt *branch)
{
    Pass *p = x->p;
    const char *names[STATS_MOST];
    const StatsMade *far = NULL;
    for (uint32_t n = 0; n < x->made_count; n++) {
        StatsMade *m = &x->made[n];
        names[n] = NULL;
        if (!m->var || !tile_count_reads(tile_assigned(s), m->var)) continue;
        names[n] = asked_of(x, m);
        if (m->far) far = m;
    }
    const char *asked = stats_new_name(x, s->var->name, "asked");
    AuTileExpr *test;
    if (far) {
        test = stats_ask_far(x, names[far - x->made], far->far);
        stats_leave_branch(x, far->var, branch);
    } else {
        AuTileStmts then = {0};
        test = stats_over(x, tile_assigned(s), names);
        pass_push(p, &then, s);
        for (uint32_t n = 0; n < branch->branch.then.count; n++)
            pass_push(p, &then, branch->branch.then.at[n]);
        branch->branch.then = then;
    }
    branch->branch.test =
        pass_expr(p, TILE_X_ANYWHERE, pass_name(p, asked, s->span), NULL, s->span);
    return pass_assignment(p, asked, test, s->span);
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
    const AuTileVar *before[STATS_MOST];
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
    x->body = body, x->at = n;
    return e && s->var && e->op != TILE_X_NAME && e->type->count == 1 &&
           stats_are_of_rows(x, e, &names) && names &&
           tile_count_uses(&x->p->role->body, s->var) == uses_from(body, n, s->var);
}

static void look(Stats *x, AuTileStmts *body, uint32_t from)
{
    AuTileStmts out = {0};
    for (uint32_t n = 0; n < body->count; n++) {
        AuTileStmt *s = body->at[n], *instead = s;
        const bool rows = n >= from && is_made_of_rows(x, body, n);
        AuTileStmt *branch =
            rows && s->var->type->elem == TILE_BOOL ? stats_only_branch(x, body, n, s->var) : NULL;
        if (branch)
            instead = ask(x, s, branch);
        else if (rows && s->var->type->elem == TILE_F32 && x->made_count < STATS_MOST)
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

/* Where the stage is waited for that the load at [n] reads; the first statement where that was before the loop or in the turn before. */
static const AuTileStmt *opens(const AuTileStmts *body, uint32_t n)
{
    const AuTileVar *handle = body->at[n]->load.source->var;
    for (uint32_t i = 0; i < n; i++)
        if (body->at[i]->kind == TILE_S_WAIT_STAGE && body->at[i]->var == handle)
            return body->at[i];
    return body->at[0];
}

/* The body itself, or that of a loop in it over parts of the rows, in which sources are loaded; how many statements of it there are up to the last
 * load. NULL: rows are not loaded, or not the same ones. */
static AuTileStmts *loads_in(Stats *x, AuTileStmts *body, uint32_t *count)
{
    for (uint32_t n = 0; n < body->count; n++) {
        AuTileStmt *s = body->at[n];
        if (x->source_count < STATS_MOST) stats_add_stage(x, s);
        StatsSource *source = stats_loaded(x, s);
        if (!source || x->made_count == STATS_MOST / 2) continue;
        if (x->made_count && !same_rows(x->made[0].load, s)) return NULL;
        x->made[x->made_count++] = (StatsMade){.var = s->var,
                                               .load = s,
                                               .behind = source->fill ? s : NULL,
                                               .opens = source->fill ? opens(body, n) : NULL,
                                               .source = source};
        *count = n + 1;
    }
    if (x->made_count) return body;
    for (uint32_t n = 0; n < body->count; n++) {
        AuTileStmt *s = body->at[n];
        if (s->kind != TILE_S_FOR || s->loop.list_name) continue;
        AuTileStmts *pairs = loads_in(x, &s->loop.body, count);
        if (pairs || x->made_count) return pairs;
    }
    return NULL;
}

static void loop(Stats *x, AuTileStmts *body)
{
    const AuTileStmt *last_copy = NULL;
    x->source_count = x->made_count = 0;
    x->writes = x->loads = (AuTileStmts){0};
    for (uint32_t n = 0; n < body->count; n++) {
        AuTileStmt *s = body->at[n];
        if (x->source_count && stats_loaded(x, s)) break;
        if (!stats_is_copy(x, s) || x->source_count == STATS_MOST) continue;
        x->sources[x->source_count++] = (StatsSource){.memory = s->move.dest->memory, .copy = s};
        last_copy = s;
    }
    uint32_t first = 0;
    AuTileStmts *pairs = loads_in(x, body, &first);
    if (!pairs) return;
    const uint32_t loads = x->made_count;
    const AuTileStmt *last_load = pairs->at[first - 1];
    look(x, pairs, first);
    if (x->made_count == loads && !x->loads.count) return;
    stats_put_in(x, body, pairs, last_copy, last_load);
}

static void walk(Stats *x, AuTileStmts *body)
{
    for (uint32_t n = 0; n < body->count; n++) {
        const AuTileParts parts = tile_parts(body->at[n]);
        for (uint32_t i = 0; i < parts.body_count; i++) walk(x, parts.bodies[i]);
        if (body->at[n]->kind == TILE_S_FOR) loop(x, &body->at[n]->loop.body);
    }
}

void pass_statistics(Pass *p)
{
    Stats x = {.p = p};
    walk(&x, &p->role->body);
    for (uint32_t n = 0; n < x.touched_count; n++) stats_leave_out(&x, x.touched[n]);
}
