/* walk.c - the statements of a role, in order: runs of assignments are gathered for fuse.c, loops and
 * branches opened and closed, everything else handed to the file that lowers it. A scalar that a loop
 * or branch sets must outlive it: it is a cell. */
#include "internal.h"

static bool is_assignment(const AuTileStmt *s)
{
    return s->kind == TILE_S_ASSIGN || (s->kind == TILE_S_FRAG && s->frag.init);
}

static bool is_in_run(const AuTileStmt *s)
{
    if (is_assignment(s)) return true;
    if (s->kind != TILE_S_ON) return false;
    for (uint32_t n = 0; n < s->on.body.count; n++)
        if (!is_assignment(s->on.body.at[n])) return false;
    return true;
}

/* A run as it is in one segment, `on` of other segments left out. */
static void emit_run(AuLower *l, AuTileStmt *const *at, uint32_t count, const char *segment)
{
    AuTileStmts run = {0};
    for (uint32_t n = 0; n < count; n++) {
        if (at[n]->kind != TILE_S_ON)
            AU_PUSH(l->arena, run.at, run.count, run.capacity, at[n]);
        else if (at[n]->on.segment == segment)
            for (uint32_t m = 0; m < at[n]->on.body.count; m++)
                AU_PUSH(l->arena, run.at, run.count, run.capacity, at[n]->on.body.at[m]);
    }
    if (run.count && l->in_warps) lower_improve(l, &run);
    if (run.count) lower_assignments(l, run.at, run.count);
}

/* Where the segment matters the run exists once for each kind, under one uniform branch a tile; the
 * products around it once. */
static void run_of_assignments(AuLower *l, AuTileStmt *const *at, uint32_t count)
{
    const char *asked = NULL;
    l->run = at, l->run_count = count;
    for (uint32_t n = 0; n < count; n++)
        if (at[n]->kind == TILE_S_ON) asked = at[n]->on.segment;
    if (!asked || l->only_segment || !l->in_segment.i) {
        emit_run(l, at, count, l->only_segment);
        return;
    }
    const bool before = l->in_branch;
    l->in_branch = true;
    kernel_if(l->k, l->in_segment);
    emit_run(l, at, count, l->asked_segment);
    kernel_else(l->k);
    emit_run(l, at, count, l->other_segment);
    kernel_end(l->k);
    l->in_branch = before;
}

void lower_bind_value(AuLower *l, const AuTileVar *var, AuVal value)
{
    AuHeld *held = lower_held(l, var);
    held->as = HELD_VALUE;
    held->value = value;
}

static void range_loop(AuLower *l, const AuTileStmt *s)
{
    const AuPoint nowhere = {.count = 0};
    const AuVal low = lower_as(l, lower_eval(l, s->loop.low, &nowhere), AU_I32),
                high = lower_as(l, lower_eval(l, s->loop.high, &nowhere), AU_I32);
    const AuMarks marks = lower_marks(l);
    AuPartialSums sums = {.count = 0};
    AuTileStmts body = s->loop.body;
    if (l->in_warps) lower_order_loop(l, s), body = lower_sums_begin(l, &body, &sums);
    lower_bind_value(l, s->var, kernel_for(l->k, low, high, 1, AU_UNROLL_NEVER));
    lower_walk(l, &body);
    kernel_end(l->k);
    if (l->in_warps) lower_sums_end(l, &sums);
    lower_join_marks(l, &marks);
}

/* ---- loops over tiles */

enum {
    HEAVY = 96
}; /* nodes of expressions for a pair, from which on code for all segments is one */

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

/* The segment whose tiles are all that `on` is there for, if it only ever masks: x = where(c, x, y). In
 * the tiles of other segments such a c is true, or they would not be others; so its code does for
 * all. NULL: there is none. */
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

/* One loop over all segments; which one a tile belongs to is known from its number. [only]: all tiles
 * take this segment's code; NULL: each its own. */
static void joined_loop(AuLower *l, const AuTileStmt *s, const AuTileStmts *body, AuTiles *tiles,
                        const char *only)
{
    AuKernel *k = l->k;
    const char *first = tiles->at[0].s->name;
    l->only_segment = first;
    for (uint32_t n = 1; n < tiles->count; n++)
        if (tiles->at[n].s->name != first)
            l->only_segment = NULL, l->other_segment = tiles->at[n].s->name;
    l->asked_segment = first;
    if (only) l->only_segment = only;
    if (l->in_warps) lower_order_loop(l, s);
    lower_follow_from(l, tiles, kernel_i32(k, 0));
    tiles->turn = kernel_for(k, kernel_i32(k, 0), tiles->total, 1, AU_UNROLL_NEVER);
    const AuVal tile = lower_tile_at(l, tiles, tiles->turn, &l->in_segment),
                followed = lower_follow(l, tiles);
    lower_bind_value(l, s->var, followed.i ? followed : tile);
    lower_walk(l, body);
    kernel_end(k);
}

/* A loop for each segment: nothing in it asks which one it is in. */
static void loop_of_segment(AuLower *l, const AuTileStmt *s, const AuTileStmts *body,
                            AuTiles *tiles, uint32_t n)
{
    AuKernel *k = l->k;
    const AuMarks marks = lower_marks(l);
    l->only_segment = tiles->at[n].s->name;
    lower_order_loop(l, s);
    lower_follow_from(l, tiles, tiles->start[n]);
    const AuVal t = kernel_for(k, kernel_i32(k, 0), tiles->at[n].count, 1, AU_UNROLL_NEVER);
    tiles->turn = kernel_op2(k, AU_K_ADD, tiles->start[n], t);
    const AuVal tile = lower_follow(l, tiles);
    lower_bind_value(l, s->var, tile.i ? tile : lower_tile_of_segment(l, &tiles->at[n], t));
    lower_walk(l, body);
    kernel_end(k);
    lower_join_marks(l, &marks);
}

static void list_loop(AuLower *l, const AuTileStmt *s)
{
    const AuLower outer = *l;
    AuTiles *tiles = s->loop.low ? NULL : lower_tiles(l, s->loop.list);
    if (!tiles) {
        lower_refuse(l, "this loop over tiles");
        return;
    }
    const AuTiles before = *tiles;
    const AuMarks marks = lower_marks(l);
    AuPartialSums sums = {.count = 0};
    AuTileStmts body = s->loop.body;
    if (l->in_warps) body = lower_sums_begin(l, &body, &sums);
    tiles->var = s->var;
    const char *only =
        l->in_warps && weight_of(&s->loop.body) > HEAVY ? masking_segment(&s->loop.body) : NULL;
    if (l->in_warps && l->how->split_segments && !only)
        for (uint32_t n = 0; n < tiles->count; n++) loop_of_segment(l, s, &body, tiles, n);
    else
        joined_loop(l, s, &body, tiles, only);
    if (l->in_warps) lower_sums_end(l, &sums);
    lower_join_marks(l, &marks);
    *tiles = before;
    l->tiles_count = outer.tiles_count;
    l->only_segment = outer.only_segment, l->asked_segment = outer.asked_segment,
    l->other_segment = outer.other_segment;
    l->in_segment = outer.in_segment;
}

static void branch(AuLower *l, const AuTileStmt *s)
{
    const AuPoint nowhere = {.count = 0};
    const bool before = l->in_branch;
    const AuMarks marks = lower_marks(l);
    l->in_branch = true;
    kernel_if(l->k, lower_as(l, lower_eval(l, s->branch.test, &nowhere), AU_I1));
    lower_walk(l, &s->branch.then);
    const AuMarks after = lower_marks(l);
    lower_set_marks(l, &marks);
    if (s->branch.other.count) {
        kernel_else(l->k);
        lower_walk(l, &s->branch.other);
    }
    kernel_end(l->k);
    lower_join_marks(l, &after);
    l->in_branch = before;
}

static const char *text_of(AuLower *l, const AuTileStmt *s)
{
    AuText text = {.arena = l->arena};
    tile_print_stmt(s, &text);
    return au_text_str(&text);
}

static void note(AuLower *l, const AuTileStmt *s) { kernel_note(l->k, text_of(l, s)); }

/* Executors whose lanes are threads: barriers of the whole block; among fewer, or of one executor
 * with itself, nothing is known. */
static void synchronise(AuLower *l, const AuTileStmt *s)
{
    if (s->barrier.barrier && l->in_warps &&
        s->barrier.barrier->count_value != (int32_t)l->k->warps)
        lower_refuse(l, "a barrier of some of the executors");
    if (l->k->warps > 1 || (!l->in_warps && l->role->on == TILE_ON_WARP)) lower_barrier(l, 0);
}

static void statement(AuLower *l, const AuTileStmt *s)
{
    l->span = s->span;
    if (l->in_warps) lower_order(l, s);
    switch (s->kind) {
    case TILE_S_FRAG: break; /* its array is made when it is first used */
    case TILE_S_PRIVATE: lower_add_buffer(l, s->memory); break;
    case TILE_S_LOAD: note(l, s), lower_load(l, s); break;
    case TILE_S_MOVE: note(l, s), lower_move(l, s); break;
    case TILE_S_PRODUCT: note(l, s), lower_product(l, s); break;
    case TILE_S_WAIT: lower_wait(l, s); break;
    case TILE_S_SYNC: synchronise(l, s); break;
    case TILE_S_FOR:
        if (s->loop.list_name)
            list_loop(l, s);
        else
            range_loop(l, s);
        break;
    case TILE_S_IF: branch(l, s); break;
    case TILE_S_ON: lower_refuse(l, "`on` with more than assignments"); break;
    case TILE_S_CONVERT:
    case TILE_S_ACQUIRE:
    case TILE_S_WAIT_STAGE:
    case TILE_S_COMMIT:
    case TILE_S_RELEASE:
    case TILE_S_ARRIVE: lower_refuse(l, "`%s`", text_of(l, s)); break;
    case TILE_S_ASSIGN:
    case TILE_S_RETURN: break;
    }
}

/* Only numbers, rows and the variable itself: what a product can compute where it loads its
 * accumulator. */
static bool is_plain(const AuTileExpr *e)
{
    if (e->op == TILE_X_REF || e->op == TILE_X_IOTA || e->op == TILE_X_REDUCE_MAX ||
        e->op == TILE_X_REDUCE_SUM || e->op == TILE_X_CUMSUM)
        return false;
    if (e->op == TILE_X_NAME && e->var && e->var->type->count && tile_is_virtual(e->var->type))
        return false;
    for (uint32_t n = 0; n < e->args.count; n++)
        if (e->args.at[n] && !is_plain(e->args.at[n])) return false;
    return true;
}

/* `acc = acc * scale` before `acc += a b`: one pass less over the accumulator. */
static bool goes_into_product(const AuTileStmt *s, const AuTileStmt *next)
{
    return s->kind == TILE_S_ASSIGN && next->kind == TILE_S_PRODUCT && next->product.add &&
           !next->product.dest && next->product.atom->k == 1 && s->var == next->var &&
           is_plain(s->assign.value);
}

void lower_walk(AuLower *l, const AuTileStmts *body)
{
    for (uint32_t n = 0; n < body->count && !l->failed;) {
        uint32_t end = n;
        while (end < body->count && is_in_run(body->at[end])) end++;
        const bool into =
            end > n && end < body->count && goes_into_product(body->at[end - 1], body->at[end]);
        if (end - into > n) run_of_assignments(l, body->at + n, end - into - n);
        l->start = into ? body->at[end - 1]->assign.value : NULL;
        if (into || end == n) statement(l, body->at[end++]);
        l->start = NULL;
        n = end;
    }
}
