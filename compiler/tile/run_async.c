/* run_async.c - copies, sums and products of the interpreter, at once or in flight. An operation in flight reads and writes memory
 * when it ends, not when it is issued; what it will write holds nothing meanwhile. For the order of accesses it is an actor of its
 * own, that begins where its issuer stands and that `wait` joins. */
#include "machine.h"

#include "numeric.h"

static AsyncOp *launch(Agent *a, const AuTileStmt *s)
{
    Machine *m = a->m;
    AsyncOp *op = AU_NEW(m->block, AsyncOp);
    *op = (AsyncOp){
        .stmt = s, .agent = a, .number = m->op_count++, .clock = copy_clock(m, &a->clock)};
    mark_op(m, &op->clock, op->number);
    tick(a);
    AU_PUSH(m->block, m->pending.at, m->pending.count, m->pending.capacity, op);
    return op;
}

static Actor actor_of(AsyncOp *op) { return (Actor){true, op->number, 1, &op->clock}; }

/* Nobody knows what is there until the operation ends. */
static void poison(const Region *r)
{
    Memory *m = r->memory;
    for (int64_t n = 0; n < r->count; n++) {
        if (r->ok && !r->ok[n]) continue;
        m->init[r->offset[n]] = 0;
        if (m->f) m->f[r->offset[n]] = NAN;
    }
}

static bool deposit(Agent *a, const Region *r, AccessKind kind, const Tile *data,
                    const int64_t *order, const AuTileStmt *s)
{
    Memory *m = r->memory;
    for (int64_t n = 0; n < r->count; n++) {
        if (r->ok && !r->ok[n]) continue;
        const int64_t from = order ? order[n] : n, to = r->offset[n];
        if (kind == ADD && !m->init[to]) {
            a->stmt = s;
            return run_error(a, AU_E0707, NULL, "%s is added to before it was set", m->name);
        }
        if (m->f)
            m->f[to] = round_to(m->elem, kind == ADD ? data->f[from] + m->f[to] : data->f[from]);
        else
            m->i[to] = kind == ADD ? m->i[to] + data->i[from] : data->i[from];
        m->init[to] = 1;
    }
    return true;
}

/* ---- moves */

static bool reads_memory(const AuTileStmt *s)
{
    return s->move.op == TILE_COPY || s->move.op == TILE_REDUCE_ADD;
}

static AccessKind kind_of(const AuTileStmt *s)
{
    return s->move.op == TILE_COPY || s->move.op == TILE_STORE ? WRITE : ADD;
}

static bool pad_of(Agent *a, const AuTileExpr *pad, float *out)
{
    Tile t;
    *out = 0;
    if (!pad) return true;
    if (!eval(a, pad, &t)) return false;
    *out = t.f ? *t.f : (float)*t.i;
    return true;
}

/* Elements that are not stored need not be there. */
static void drop_unstored(Machine *m, Region *source, const Region *dest, const int64_t *order)
{
    if (!dest->ok) return;
    uint8_t *ok = AU_NEW_ARRAY(m->block, uint8_t, source->count);
    for (int64_t n = 0; n < dest->count; n++) {
        const int64_t from = order ? order[n] : n;
        ok[from] = dest->ok[n] && (!source->ok || source->ok[from]);
    }
    source->ok = ok;
    find_box(source);
}

static bool copy_now(Agent *a, const Region *source, const Region *dest, const int64_t *order,
                     const AuTileStmt *s)
{
    float pad;
    if (!pad_of(a, s->move.pad, &pad)) return false;
    Tile data = new_tile(a->m, s->move.source->type);
    return fetch(a, source, pad, s, &data) && deposit(a, dest, kind_of(s), &data, order, s);
}

/* A guard belongs to the side that may be outside: the source of a padded copy, else the destination. */
static bool resolve_move(Agent *a, const AuTileStmt *s, AsyncOp *op)
{
    Tile guard_tile, *guard = NULL;
    if (s->move.when) {
        if (!eval(a, s->move.when, &guard_tile)) return false;
        guard = &guard_tile;
    }
    AuArena *arena = s->move.is_async ? a->m->block : NULL;
    const bool pads = s->move.pad != NULL;
    if (!resolve(a, arena, s->move.dest, pads ? NULL : guard, s->move.clip, &op->dest))
        return false;
    if (!reads_memory(s)) return true;
    if (!resolve(a, arena, s->move.source, pads ? guard : NULL, pads, &op->source)) return false;
    op->order = permutation(a->m->block, s->move.source->type, s->move.dest->type);
    if (s->move.clip || (guard && !pads)) drop_unstored(a->m, &op->source, &op->dest, op->order);
    return true;
}

static bool store_now(Agent *a, const AuTileStmt *s, const AsyncOp *op)
{
    Tile value, all = new_tile(a->m, s->move.dest->type);
    if (!eval(a, s->move.source, &value)) return false;
    spread(s->move.dest->type, &all, &value);
    return touch(a, &op->dest, kind_of(s), me(a), s) &&
           deposit(a, &op->dest, kind_of(s), &all, NULL, s);
}

bool run_move(Agent *a, const AuTileStmt *s)
{
    AsyncOp now = {0};
    if (!resolve_move(a, s, &now)) return false;
    if (!reads_memory(s)) return store_now(a, s, &now);
    if (!s->move.is_async)
        return touch(a, &now.source, READ, me(a), s) && touch(a, &now.dest, kind_of(s), me(a), s) &&
               copy_now(a, &now.source, &now.dest, now.order, s);
    AsyncOp *op = launch(a, s);
    op->source = now.source;
    op->dest = now.dest;
    op->order = now.order;
    if (!touch(a, &op->source, READ, actor_of(op), s) ||
        !touch(a, &op->dest, kind_of(s), actor_of(op), s))
        return false;
    if (kind_of(s) == WRITE) poison(&op->dest);
    if (s->var) {
        a->vars[s->var->slot].flight = op;
        return true;
    }
    const Var *handle = &a->vars[s->move.dest->var->slot];
    op->landing = handle->ring;
    op->stage = handle->stage;
    op->landing->landing[op->stage]++;
    return true;
}

/* ---- products */

/* The operand row by row: [rows, cols] of floats in scratch, rounded as the instruction does. */
static bool matrix(Agent *a, const AuTileExpr *e, const Region *view, const Tile *tile,
                   const char *rows, const AuTileStmt *s, float **out)
{
    Tile data = *tile;
    if (e->op == TILE_X_REF) {
        data = new_tile(a->m, e->type);
        if (!fetch(a, view, 0, s, &data)) return false;
    }
    AuTileAxis axes[2];
    const bool first = data.type->axes[0].name == rows;
    axes[0] = data.type->axes[first ? 0 : 1];
    axes[1] = data.type->axes[first ? 1 : 0];
    const AuTileType type = {.elem = TILE_F32, .count = 2, .axes = axes};
    Tile ordered = new_tile(a->m, &type);
    spread(&type, &ordered, &data);
    for (int64_t n = 0; s->product.atom->rounds && n < tile_elements(&type); n++)
        ordered.f[n] = round_tf32(ordered.f[n]);
    *out = ordered.f;
    return true;
}

/* c += a b, summed in the order of k. */
static void multiply(float *restrict c, const float *restrict a, const float *restrict b, int64_t m,
                     int64_t n, int64_t k)
{
    for (int64_t i = 0; i < m; i++)
        for (int64_t x = 0; x < k; x++) {
            const float factor = a[i * k + x];
            for (int64_t j = 0; j < n; j++) c[i * n + j] += factor * b[x * n + j];
        }
}

static bool compute(AsyncOp *op, float *c)
{
    const AuTileStmt *s = op->stmt;
    const AuTileType *result = s->product.result;
    const int64_t m = result->axes[0].size, n = result->axes[1].size;
    const int64_t k = tile_axis(s->product.a->type, s->product.contracted)->size;
    float *left, *right;
    if (!matrix(op->agent, s->product.a, &op->a_view, &op->a, result->axes[0].name, s, &left))
        return false;
    if (!matrix(op->agent, s->product.b, &op->b_view, &op->b, s->product.contracted, s, &right))
        return false;
    multiply(c, left, right, m, n, k);
    return true;
}

/* Warps take 0 for what is outside of a tensor. */
static bool is_padded(const AuTileStmt *s, const AuTileExpr *e)
{
    return e->memory->space == TILE_GLOBAL && tile_is_of_warp(s->product.atom);
}

static bool read_operand(Agent *a, const AuTileStmt *s, const AuTileExpr *e, bool keeps,
                         Region *view, Tile *tile)
{
    if (e->op == TILE_X_REF)
        return resolve(a, keeps ? a->m->block : NULL, e, NULL, is_padded(s, e), view);
    Tile value;
    if (!eval(a, e, &value)) return false;
    *tile = value;
    if (!keeps) return true;
    *tile = stored_tile(a->m->block, value.type); /* registers as they are now */
    spread(value.type, tile, &value);
    return true;
}

static bool touch_operands(Agent *a, const AsyncOp *op, Actor actor)
{
    const AuTileStmt *s = op->stmt;
    return (s->product.a->op != TILE_X_REF || touch(a, &op->a_view, READ, actor, s)) &&
           (s->product.b->op != TILE_X_REF || touch(a, &op->b_view, READ, actor, s));
}

/* Does it add to a product in flight, behind which the unit begins it? */
static bool is_chained(const Agent *a, const AuTileStmt *s)
{
    const AsyncOp *flight = a->vars[s->var->slot].flight;
    uint32_t before = 0;
    for (const AsyncOp *op = flight; op; op = op->sums) before++;
    return s->product.add && s->product.is_async && !s->product.dest && flight &&
           flight->stmt->kind == TILE_S_PRODUCT && before <= TILE_MOST_CHAINED;
}

/* What the product adds to, in the order of its result; zeros if it starts. */
static bool begin_result(Agent *a, const AuTileStmt *s, Tile *c)
{
    const Var *var = &a->vars[s->var->slot];
    if (is_chained(a, s)) return true; /* what is in flight gives it when it ends */
    if (var->flight)
        return run_error(a, AU_E0705, var->flight->stmt, "%s is in flight; wait for it first",
                         s->product.name);
    if (!s->product.add) return true;
    if (!var->set)
        return run_error(a, AU_E0707, NULL, "fragment %s has no value yet", s->product.name);
    spread(s->product.result, c, &var->tile);
    return true;
}

static bool product_now(Agent *a, const AuTileStmt *s)
{
    AsyncOp op = {.stmt = s, .agent = a};
    Tile c = new_tile(a->m, s->product.result);
    memset(c.f, 0, 4 * (size_t)tile_elements(c.type));
    return begin_result(a, s, &c) && read_operand(a, s, s->product.a, false, &op.a_view, &op.a) &&
           read_operand(a, s, s->product.b, false, &op.b_view, &op.b) &&
           touch_operands(a, &op, me(a)) && compute(&op, c.f) &&
           set_var(a, &a->vars[s->var->slot], s->var->type, &c);
}

/* Into tensor memory: starts after the products issued before it, adds to what they left. */
static bool begin_in_memory(Agent *a, AsyncOp *op, Tile *c)
{
    const AuTileStmt *s = op->stmt;
    bool adds = s->product.add;
    if (adds && s->product.when && !eval_truth(a, s->product.when, &adds)) return false;
    op->before = a->last_product;
    a->last_product = op;
    if (op->before) join(a->m, &op->clock, &op->before->clock);
    if (!touch_operands(a, op, actor_of(op)) || !touch(a, &op->dest, WRITE, actor_of(op), s))
        return false;
    if (adds) {
        Tile data = new_tile(a->m, s->product.dest->type);
        if (!fetch(a, &op->dest, 0, s, &data)) return false;
        spread(s->product.result, c, &data);
    }
    poison(&op->dest);
    return true;
}

bool run_product(Agent *a, const AuTileStmt *s)
{
    if (!s->product.is_async) return product_now(a, s);
    AsyncOp now = {.stmt = s};
    Tile c = stored_tile(a->m->block, s->product.result);
    if (!read_operand(a, s, s->product.a, true, &now.a_view, &now.a) ||
        !read_operand(a, s, s->product.b, true, &now.b_view, &now.b))
        return false;
    if (s->product.dest ? !resolve(a, a->m->block, s->product.dest, NULL, false, &now.dest)
                        : !begin_result(a, s, &c))
        return false;
    AsyncOp *op = launch(a, s);
    op->a = now.a, op->b = now.b, op->a_view = now.a_view, op->b_view = now.b_view,
    op->dest = now.dest;
    op->result = c.f;
    if (is_chained(a, s)) {
        op->before = op->sums = a->vars[s->var->slot].flight;
        join(a->m, &op->clock, &op->before->clock);
    }
    if (s->product.dest ? !begin_in_memory(a, op, &c) : !touch_operands(a, op, actor_of(op)))
        return false;
    a->vars[s->var->slot].flight = op;
    a->vars[s->var->slot].posted = NULL;
    return true;
}

/* ---- the end of an operation */

static bool finish_product(AsyncOp *op)
{
    const AuTileStmt *s = op->stmt;
    if (op->sums) {
        const Tile of = {op->sums->stmt->product.result, op->sums->result, NULL};
        Tile to = {s->product.result, op->result, NULL};
        spread(s->product.result, &to, &of);
    }
    if (!compute(op, op->result)) return false;
    if (!s->product.dest) return true;
    const Tile c = {s->product.result, op->result, NULL};
    Tile all = new_tile(op->agent->m, s->product.dest->type);
    spread(s->product.dest->type, &all, &c);
    return deposit(op->agent, &op->dest, WRITE, &all, NULL, s);
}

bool finish_op(Machine *m, AsyncOp *op)
{
    m->scratch.used = 0;
    const AuTileStmt *before = op->agent->stmt;
    const bool is_move = op->stmt->kind == TILE_S_MOVE;
    const bool ok = is_move ? copy_now(op->agent, &op->source, &op->dest, op->order, op->stmt)
                            : finish_product(op);
    if (!ok) return false;
    op->agent->stmt = before;
    op->done = true;
    if (op->landing) {
        join(m, &op->landing->full[op->stage], &op->clock);
        op->landing->landing[op->stage]--;
        settle(op->landing, op->stage);
    }
    for (uint32_t i = 0; i < op->signals.count; i++)
        signal_stage(m, &op->signals.at[i], &op->clock);
    return true;
}
