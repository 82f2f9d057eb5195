/* flow.c - the order of things inside one role: what is in flight is not touched, stages go acquired -> committed or waited ->
 * released on every path, fragments are set before use. Types are known. Control flow is structured, so one walk is enough:
 * branches must agree at their end, and a loop must leave flights and stages as it found them. */
#include "verify.h"

#include <string.h>

typedef enum StageState { NOT_A_STAGE, ACQUIRED, WAITED, COMMITTED, RELEASED } StageState;

/* Another operation that may be in flight behind a variable. Lists are never written again: copies of slots share them. */
typedef struct Flying {
    const AuTileStmt *stmt;
    const struct Flying *next;
} Flying;

/* One variable at one point of the role. */
typedef struct Slot {
    const AuTileStmt *flight; /* the operation in flight that the variable stands for */
    const Flying
        *others; /* with it: products that it adds to, and those of other paths to this point */
    uint32_t chained;         /* products that it adds to */
    const AuTileStmt *posted; /* in flight, but somebody else will be told when it ends (`after`) */
    const AuTilePipe *pipe;
    StageState stage;
    uint32_t parts; /* lanes that hold a part each of the variable, as bits; 0: it is whole */
    bool unset;
} Slot;

typedef struct Flow {
    AuArena *arena;
    AuDiags *diags;
    const AuTileRole *role;
    const AuTileStmt *stmt; /* at hand */
    Slot *slots;
    uint32_t count;
    bool again; /* within a loop's second walk */
} Flow;

/* Reports at the statement; `other` is shown in a note, or NULL. Returns false. */
static bool wrong(Flow *f, AuCode code, const AuTileStmt *other, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static bool wrong(Flow *f, AuCode code, const AuTileStmt *other, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const char *message = au_vformat(f->arena, format, arguments);
    va_end(arguments);
    AuDiag *diag = au_error(f->diags, code, f->stmt->span, "%s", message);
    if (other) au_add_note(f->diags, diag, other->span, "the other statement");
    return false;
}

static const char *stmt_text(Flow *f, const AuTileStmt *s)
{
    AuText text = {.arena = f->arena};
    tile_print_stmt(s, &text);
    return au_text_str(&text);
}

static bool is_held(const Slot *slot) { return slot->stage == ACQUIRED || slot->stage == WAITED; }

/* ---- reading */

static bool use_handle(Flow *f, const AuTileExpr *e, bool reads)
{
    const Slot *slot = &f->slots[e->var->slot];
    if (slot->stage == COMMITTED || slot->stage == RELEASED)
        return wrong(f, AU_E0706, NULL, "%s was %s; its stage of %s must not be used any more",
                     e->name, slot->stage == COMMITTED ? "committed" : "released",
                     slot->pipe->name);
    if (reads && slot->stage == ACQUIRED)
        return wrong(f, AU_E0706, NULL, "a producer does not read its stage: %s", e->name);
    return true;
}

static bool use_var(Flow *f, const AuTileVar *var)
{
    if (var->origin != TILE_FROM_BODY) return true; /* sizes and the like are always there */
    const Slot *slot = &f->slots[var->slot];
    if (slot->flight)
        return wrong(f, AU_E0705, slot->flight, "%s is in flight; wait for it first", var->name);
    if (slot->parts) return wrong(f, AU_E0706, NULL, "%s lies in parts; join it first", var->name);
    if (slot->unset) return wrong(f, AU_E0707, NULL, "fragment %s has no value yet", var->name);
    return true;
}

/* Every variable and stage that the expression reads. `writes`: of a view, the memory is written. */
static bool use(Flow *f, const AuTileExpr *e, bool writes)
{
    if (!e) return true;
    if (e->op == TILE_X_NAME && e->var && !use_var(f, e->var)) return false;
    if (e->op == TILE_X_REF && e->field && !use_handle(f, e, !writes)) return false;
    for (uint32_t i = 0; i < e->args.count; i++)
        if (!use(f, e->args.at[i], false)) return false;
    return true;
}

/* ---- writing */

static bool operand_is(const AuTileExpr *e, const AuTileVar *var)
{
    return e && (e->op == TILE_X_NAME || (e->op == TILE_X_REF && e->field)) && e->var == var;
}

/* Does the operation in flight use the variable: a fragment it reads, or a stage it reads or writes? */
static bool flight_uses(const AuTileStmt *flight, const AuTileVar *var)
{
    if (flight->kind == TILE_S_MOVE)
        return operand_is(flight->move.source, var) || operand_is(flight->move.dest, var);
    return operand_is(flight->product.a, var) || operand_is(flight->product.b, var) ||
           operand_is(flight->product.dest, var);
}

static const AuTileStmt *user_of(const Flow *f, const AuTileVar *var, bool posted_too)
{
    for (uint32_t i = 0; i < f->count; i++) {
        const AuTileStmt *flight = f->slots[i].flight,
                         *posted = posted_too ? f->slots[i].posted : NULL;
        if (flight && flight_uses(flight, var)) return flight;
        for (const Flying *o = flight ? f->slots[i].others : NULL; o; o = o->next)
            if (flight_uses(o->stmt, var)) return o->stmt;
        if (posted && flight_uses(posted, var)) return posted;
    }
    return NULL;
}

static bool set(Flow *f, const AuTileVar *var)
{
    Slot *slot = &f->slots[var->slot];
    if (is_held(slot))
        return wrong(f, AU_E0706, NULL, "%s still holds a stage of %s", var->name,
                     slot->pipe->name);
    if (slot->flight)
        return wrong(f, AU_E0705, slot->flight, "%s is written while in flight", var->name);
    const AuTileStmt *reader = user_of(f, var, false);
    if (reader)
        return wrong(f, AU_E0705, reader, "%s is written while `%s` still reads it", var->name,
                     stmt_text(f, reader));
    slot->unset = false;
    return true;
}

static bool start(Flow *f, const AuTileStmt *s)
{
    Slot *slot = &f->slots[s->var->slot];
    if (slot->flight)
        return wrong(f, AU_E0705, slot->flight, "%s is still in flight", s->var->name);
    slot->flight = s;
    slot->others = NULL;
    slot->chained = 0;
    slot->posted = NULL;
    return true;
}

/* A product in flight may be added to by the next, which the unit begins behind it: who waits, waits for the last. */
static bool is_chained(const Flow *f, const AuTileStmt *s)
{
    const Slot *slot = &f->slots[s->var->slot];
    return s->product.add && s->product.is_async && !s->product.dest && slot->flight &&
           slot->flight->kind == TILE_S_PRODUCT && slot->chained < TILE_MOST_CHAINED;
}

/* Another one that may be in flight with the slot's. */
static void add_flying(Flow *f, Slot *slot, const AuTileStmt *s)
{
    if (s == slot->flight) return;
    for (const Flying *o = slot->others; o; o = o->next)
        if (o->stmt == s) return;
    Flying *o = AU_NEW(f->arena, Flying);
    *o = (Flying){s, slot->others};
    slot->others = o;
}

static bool chain(Flow *f, const AuTileStmt *s)
{
    Slot *slot = &f->slots[s->var->slot];
    const AuTileStmt *before = slot->flight;
    slot->flight = s;
    slot->chained++;
    add_flying(f, slot, before);
    return true;
}

/* ---- statements */

/* What lies in parts may be scaled, and more parts be added: so each lane computes its own. */
static bool do_assign(Flow *f, const AuTileStmt *s)
{
    Slot *slot = &f->slots[s->var->slot];
    const uint32_t parts = slot->parts;
    uint32_t bits = 0;
    if (parts && (!tile_is_linear(s->assign.value, s->var, &bits) || bits != parts))
        return wrong(f, AU_E0706, NULL, "%s lies in parts, which cannot be set so", s->var->name);
    slot->parts = 0;
    const bool ok = use(f, s->assign.value, false) && set(f, s->var);
    slot->parts = parts;
    return ok;
}

static bool do_part(Flow *f, const AuTileStmt *s)
{
    Slot *slot = &f->slots[s->var->slot];
    const uint32_t bits = (uint32_t)s->part.bits;
    if (s->kind == TILE_S_PART && !use_var(f, s->var)) return false;
    if (s->kind == TILE_S_JOIN && slot->parts != bits)
        return wrong(f, AU_E0706, NULL, "%s does not lie in these parts", s->var->name);
    slot->parts = s->kind == TILE_S_PART ? bits : 0;
    return true;
}

static bool do_move(Flow *f, const AuTileStmt *s)
{
    if (!use(f, s->move.source, false) || !use(f, s->move.dest, true) ||
        !use(f, s->move.when, false) || !use(f, s->move.pad, false))
        return false;
    return !s->var || start(f, s);
}

static bool do_product(Flow *f, const AuTileStmt *s)
{
    if (!use(f, s->product.a, false) || !use(f, s->product.b, false) ||
        !use(f, s->product.when, false))
        return false;
    if (s->product.dest) return use(f, s->product.dest, true) && start(f, s);
    if (is_chained(f, s)) return chain(f, s);
    if (s->product.add && !use_var(f, s->var)) return false;
    return set(f, s->var) && (!s->product.is_async || start(f, s));
}

static bool do_wait(Flow *f, const AuTileStmt *s)
{
    for (uint32_t i = 0; i < s->wait.names.count; i++) {
        Slot *slot = &f->slots[s->wait.vars[i]->slot];
        if (!slot->flight)
            return wrong(f, AU_E0705, NULL, "%s is not in flight", s->wait.names.at[i]);
        slot->flight = NULL;
        slot->unset = false;
    }
    return true;
}

static bool do_open(Flow *f, const AuTileStmt *s)
{
    if (!use(f, s->stage.index, false) || !use(f, s->stage.turn, false) || !set(f, s->var))
        return false;
    Slot *slot = &f->slots[s->var->slot];
    slot->stage = s->kind == TILE_S_ACQUIRE ? ACQUIRED : WAITED;
    slot->pipe = s->stage.pipe;
    return true;
}

static bool do_close(Flow *f, const AuTileStmt *s)
{
    const bool commits = s->kind == TILE_S_COMMIT;
    for (uint32_t i = 0; i < s->close.names.count; i++) {
        Slot *slot = &f->slots[s->close.vars[i]->slot];
        if (slot->stage != (commits ? ACQUIRED : WAITED))
            return wrong(f, AU_E0706, NULL, "%s is no %s stage", s->close.names.at[i],
                         commits ? "acquired" : "waited");
        slot->stage = commits ? COMMITTED : RELEASED;
        const AuTileStmt *user = s->close.after ? NULL : user_of(f, s->close.vars[i], true);
        if (user) return wrong(f, AU_E0705, user, "`%s` still reads the stage", stmt_text(f, user));
    }
    if (!s->close.after) return true;
    Slot *token = &f->slots[s->close.after_var->slot];
    if (!token->flight && !token->posted)
        return wrong(f, AU_E0705, NULL, "%s is not in flight", s->close.after);
    if (token->flight) token->posted = token->flight;
    token->flight = NULL;
    return true;
}

/* ---- blocks */

static bool walk(Flow *f, const AuTileStmts *body);

static Slot *copy_slots(Flow *f, const Slot *slots)
{
    Slot *copy = AU_NEW_ARRAY(f->arena, Slot, f->count);
    memcpy(copy, slots, sizeof *copy * f->count);
    return copy;
}

static bool same_state(Flow *f, const Slot *a, const Slot *b, const AuTileStmt *s, const char *what)
{
    f->stmt = s;
    for (uint32_t i = 0; i < f->count; i++) {
        const char *name = f->role->vars.at[i]->name;
        const Slot *held = is_held(&a[i]) ? &a[i] : &b[i];
        if (a[i].parts != b[i].parts)
            return wrong(f, AU_E0706, NULL, "%s: %s in parts", what, name);
        if (!a[i].flight != !b[i].flight)
            return wrong(f, AU_E0705, a[i].flight ? a[i].flight : b[i].flight, "%s: %s in flight",
                         what, name);
        const bool differ =
            is_held(&a[i]) != is_held(&b[i]) ||
            (is_held(&a[i]) && (a[i].stage != b[i].stage || a[i].pipe != b[i].pipe));
        if (differ)
            return wrong(f, AU_E0705, NULL, "%s: %s holding a stage of %s", what, name,
                         held->pipe->name);
    }
    return true;
}

/* After two paths to one point that agree so far: whatever one of them leaves in flight may be. */
static void merge_flights(Flow *f, const Slot *other)
{
    for (uint32_t i = 0; i < f->count; i++) {
        Slot *slot = &f->slots[i];
        if (!slot->posted) slot->posted = other[i].posted;
        if (!slot->flight || !other[i].flight) continue;
        if (slot->chained < other[i].chained) slot->chained = other[i].chained;
        add_flying(f, slot, other[i].flight);
        for (const Flying *o = other[i].others; o; o = o->next) add_flying(f, slot, o->stmt);
    }
}

/* Both ways through; `other` NULL: the second way is empty. */
static bool branch(Flow *f, const AuTileStmt *s, const AuTileStmts *one, const AuTileStmts *other)
{
    Slot *before = copy_slots(f, f->slots);
    if (!walk(f, one)) return false;
    Slot *end = f->slots;
    f->slots = before;
    if (other && !walk(f, other)) return false;
    for (uint32_t i = 0; i < f->count; i++) f->slots[i].unset |= end[i].unset;
    if (!same_state(f, end, f->slots, s, "only one path leaves")) return false;
    merge_flights(f, end);
    return true;
}

static bool leaves_flights(const Flow *f)
{
    for (uint32_t i = 0; i < f->count; i++)
        if (f->slots[i].flight) return true;
    return false;
}

/* What an iteration leaves in flight, the next one meets. Loops within were walked twice before: once is enough for them. */
static bool walk_again(Flow *f, const AuTileStmt *s)
{
    if (f->again || !leaves_flights(f)) return true;
    const Slot *before = copy_slots(f, f->slots);
    f->again = true;
    const bool ok = walk(f, &s->loop.body);
    f->again = false;
    if (!ok) return false;
    f->stmt = s;
    for (uint32_t i = 0; i < f->count; i++)
        if (f->slots[i].flight && f->slots[i].chained > before[i].chained)
            return wrong(f, AU_E0705, f->slots[i].flight,
                         "each iteration adds to %s in flight; wait for it first",
                         f->role->vars.at[i]->name);
    return true;
}

static bool do_for(Flow *f, const AuTileStmt *s)
{
    const AuTileExpr *low = s->loop.low, *high = s->loop.high;
    if (!use(f, low, false) || !use(f, high, false)) return false;
    Slot *before = copy_slots(f, f->slots);
    if (!walk(f, &s->loop.body)) return false;
    if (!same_state(f, before, f->slots, s, "the loop body begins and ends differently"))
        return false;
    if (!walk_again(f, s)) return false;
    const bool runs = !s->loop.list && low && high && low->op == TILE_X_INT &&
                      high->op == TILE_X_INT && low->integer < high->integer;
    if (runs) return true;
    const Slot *end = f->slots;
    f->slots = before;
    merge_flights(f, end);
    return true;
}

static bool do_stmt(Flow *f, const AuTileStmt *s)
{
    f->stmt = s;
    switch (s->kind) {
    case TILE_S_FRAG:
        f->slots[s->var->slot] = (Slot){.unset = true}; /* also where it was one of another block */
        return use(f, s->frag.init, false) && (!s->frag.init || set(f, s->var));
    case TILE_S_PRIVATE: return true;
    case TILE_S_ASSIGN: return do_assign(f, s);
    case TILE_S_CONVERT: return use(f, s->convert.source, false) && set(f, s->var);
    case TILE_S_LOAD:
        return use(f, s->load.source, false) && use(f, s->load.when, false) &&
               use(f, s->load.pad, false) && set(f, s->var);
    case TILE_S_MOVE: return do_move(f, s);
    case TILE_S_PREFETCH: return use(f, s->ahead.view, false);
    case TILE_S_PRODUCT: return do_product(f, s);
    case TILE_S_WAIT: return do_wait(f, s);
    case TILE_S_ACQUIRE:
    case TILE_S_WAIT_STAGE: return do_open(f, s);
    case TILE_S_COMMIT:
    case TILE_S_RELEASE: return do_close(f, s);
    case TILE_S_SYNC:
    case TILE_S_ARRIVE: return use(f, s->barrier.index, false);
    case TILE_S_FOR: return do_for(f, s);
    case TILE_S_IF:
        return use(f, s->branch.test, false) && branch(f, s, &s->branch.then, &s->branch.other);
    case TILE_S_ON: return branch(f, s, &s->on.body, &s->on.other);
    case TILE_S_PART:
    case TILE_S_JOIN: return do_part(f, s);
    case TILE_S_RETURN: return false;
    }
    return false;
}

static bool walk(Flow *f, const AuTileStmts *body)
{
    for (uint32_t i = 0; i < body->count; i++)
        if (!do_stmt(f, body->at[i])) return false;
    return true;
}

bool verify_flow(AuArena *arena, AuDiags *diags, const AuTileRole *role)
{
    Flow flow = {.arena = arena, .diags = diags, .role = role, .count = role->vars.count};
    Flow *f = &flow;
    f->slots = AU_NEW_ARRAY(arena, Slot, f->count);
    for (uint32_t i = 0; i < f->count; i++)
        f->slots[i].unset = role->vars.at[i]->origin == TILE_FROM_BODY;
    if (!walk(f, &role->body)) return false;
    const AuTileStmt end = {.span = role->span};
    for (uint32_t i = 0; i < f->count; i++) {
        const char *name = role->vars.at[i]->name;
        f->stmt = f->slots[i].flight ? f->slots[i].flight : &end;
        if (f->slots[i].flight) return wrong(f, AU_E0705, NULL, "%s is never waited for", name);
        if (is_held(&f->slots[i]))
            return wrong(f, AU_E0706, NULL, "%s still holds a stage of %s at the end", name,
                         f->slots[i].pipe->name);
    }
    return true;
}
