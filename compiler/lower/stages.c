/* stages.c - pipelines as barriers in memory.
 *
 *     x = acquire p turn n        mbar_wait empty[n % stages], n / stages - 1
 *     commit x                    mbar_arrive full[..], or mbar_expect of the bytes that copies bring
 *     x = wait p turn n           mbar_wait full[n % stages], n / stages
 *     release x                   mbar_arrive empty[..]
 *
 * A handle is the number of a barrier, which is the place of the stage as well: its ring's first and n % stages more. One lane of a
 * warp arrives for all. Where a role's lanes themselves read or write the stage they meet before; what they wrote is fenced, since
 * units may read it or write there next; what they copied asynchronously has landed first. A producer whose lanes write nothing arrives once an executor, all others once a warp:
 * each warp of a group ends its own part of a product. */
#include "internal.h"

/* ---- what a role's lanes do with the tiles of a pipeline */

typedef struct Touch {
    bool read, written;
} Touch;

/* Is it a tile of the pipeline, got by that handle? NULL: by any. */
static bool is_of(const AuTileExpr *e, const AuTilePipe *pipe, const AuTileVar *handle)
{
    return e->memory && e->memory->pipe == pipe && (!handle || e->var == handle);
}

static void touch_expr(Touch *t, const AuTileExpr *e, const AuTilePipe *pipe,
                       const AuTileVar *handle)
{
    if (!e) return;
    t->read |= e->op == TILE_X_REF && is_of(e, pipe, handle);
    for (uint32_t n = 0; n < e->args.count; n++) touch_expr(t, e->args.at[n], pipe, handle);
}

static void touch_body(Touch *t, const AuTileStmts *body, const AuTilePipe *pipe,
                       const AuTileVar *handle)
{
    for (uint32_t n = 0; n < body->count; n++) {
        AuTileStmt *s = body->at[n];
        const AuTileParts parts = tile_parts(s);
        for (uint32_t i = 0; i < parts.body_count; i++)
            touch_body(t, parts.bodies[i], pipe, handle);
        if (lower_is_bulk(s) || (s->kind == TILE_S_PRODUCT && s->product.is_async)) continue;
        for (uint32_t i = 0; i < parts.read_count; i++)
            touch_expr(t, *parts.reads[i], pipe, handle);
        t->written |= parts.dest && is_of(parts.dest, pipe, handle);
    }
}

/* A pipeline without tiles passes on the right to whatever the program means: all that lanes did counts. */
static Touch touch_of(const AuTileRole *role, const AuTilePipe *pipe, const AuTileVar *handle)
{
    Touch t = {!pipe->tiles.count, !pipe->tiles.count};
    touch_body(&t, &role->body, pipe, handle);
    return t;
}

/* Are tiles of the pipeline in tensor memory, or may they be: what one without tiles passes on? */
static bool is_of_tensor(const AuLower *l, const AuTilePipe *pipe)
{
    bool found = !pipe->tiles.count && lower_has_tensor(l);
    for (uint32_t n = 0; n < pipe->tiles.count; n++)
        found |= pipe->tiles.at[n]->space == TILE_TENSOR;
    return found;
}

/* What lanes store there goes no way that a proxy fence is for. */
static bool is_only_tensor(const AuTilePipe *pipe)
{
    bool all = pipe->tiles.count > 0;
    for (uint32_t n = 0; n < pipe->tiles.count; n++) all &= pipe->tiles.at[n]->space == TILE_TENSOR;
    return all;
}

/* ---- barriers */

static const AuPipePlan *plan_of(const AuLower *l, const AuTilePipe *pipe)
{
    const AuPipePlan *p = l->pipes;
    while (p->pipe != pipe) p++;
    return p;
}

static const AuRolePlan *role_plan(const AuLower *l, const AuTileRole *role)
{
    const AuRolePlan *p = l->plans;
    while (p->role != role) p++;
    return p;
}

static bool arrives_by_warps(const AuTilePipe *pipe, const AuTileRole *role, bool fills)
{
    return !fills || touch_of(role, pipe, NULL).written;
}

static uint32_t arrivals_of(const AuLower *l, const AuTilePipe *pipe, const AuTileRole *role,
                            bool fills)
{
    const AuRolePlan *plan = role_plan(l, role);
    return (tile_pipe_is_alone(pipe, fills) ? 1 : plan->many) *
           (arrives_by_warps(pipe, role, fills) ? plan->warps : 1);
}

/* Arrivals that make a phase complete. */
static uint32_t arrivals(const AuLower *l, const AuTilePipe *pipe, bool fills)
{
    const uint32_t first = arrivals_of(l, pipe, fills ? pipe->producer : pipe->consumer, fills);
    return first + (pipe->also && !fills ? arrivals_of(l, pipe, pipe->also, false) : 0);
}

static AuMem objects(AuLower *l, const AuTilePipe *pipe, const char *what)
{
    const char *name = au_format(l->arena, "%s_%s", pipe->name, what);
    return kernel_memory(l->k, (AuMemory){.name = name,
                                          .space = AU_SHARED,
                                          .scalar = AU_I64,
                                          .count = (uint32_t)(pipe->rings * pipe->stage_count),
                                          .reads = true,
                                          .writes = true,
                                          .span = pipe->span});
}

void lower_add_pipes(AuLower *l)
{
    AuKernel *k = l->k;
    const uint32_t count = l->tile->pipes.count;
    if (!count) return;
    l->pipes = AU_NEW_ARRAY(l->arena, AuPipePlan, count);
    for (uint32_t n = 0; n < count; n++) {
        const AuTilePipe *pipe = l->tile->pipes.at[n];
        l->pipes[n] = (AuPipePlan){pipe, objects(l, pipe, "full"), objects(l, pipe, "empty")};
        for (uint32_t i = 0; i < pipe->tiles.count; i++) lower_add_buffer(l, pipe->tiles.at[i]);
    }
    kernel_if(k, kernel_op2(k, AU_K_EQ, kernel_warp(k), kernel_i32(k, 0)));
    for (uint32_t n = 0; n < count; n++) {
        const AuPipePlan *p = &l->pipes[n];
        for (int32_t i = 0; i < p->pipe->rings * p->pipe->stage_count; i++) {
            const AuVal at = kernel_i32(k, i);
            kernel_mbar_init(k, p->full, at, arrivals(l, p->pipe, true), l->elected);
            kernel_mbar_init(k, p->empty, at, arrivals(l, p->pipe, false), l->elected);
        }
    }
    kernel_fence(k, AU_K_FENCE_INIT);
    kernel_end(k);
    kernel_barrier(k, 0);
}

/* ---- stages */

AuMem lower_filled(AuLower *l, const AuTilePipe *pipe) { return plan_of(l, pipe)->full; }

AuVal lower_stage_of(AuLower *l, const AuTileVar *handle)
{
    const AuHeld *held = lower_held(l, handle);
    if (held->as == HELD_VALUE) return held->value;
    if (held->as == HELD_CELL)
        return kernel_load(l->k, held->mem, kernel_i32(l->k, 0), 1, (AuVal){0}, (AuVal){0});
    lower_refuse(l, "stage %s is not known here", handle->name);
    return kernel_i32(l->k, 0);
}

/* Handles are no values to the tiled IR, so their cells are made here. */
static void set_stage(AuLower *l, const AuTileVar *handle, const AuTilePipe *pipe, AuVal place)
{
    AuHeld *held = lower_held(l, handle);
    if (lower_count(l, handle)->defs == 1 && !l->r.in_branch) {
        *held = (AuHeld){.as = HELD_VALUE, .value = place};
    } else {
        if (held->as != HELD_CELL)
            *held = (AuHeld){.as = HELD_CELL, .mem = lower_array(l, handle->name, AU_I32, 1)};
        kernel_store(l->k, held->mem, kernel_i32(l->k, 0), place, (AuVal){0});
    }
    held->pipe = pipe;
    held->bytes = 0;
    held->by_lanes = false;
    held->depth = l->k->depth;
}

void lower_open_stage(AuLower *l, const AuTileStmt *s)
{
    AuKernel *k = l->k;
    const AuTilePipe *pipe = s->stage.pipe;
    const AuPipePlan *p = plan_of(l, pipe);
    const bool fills = s->kind == TILE_S_ACQUIRE;
    const bool own = pipe->each == (fills ? TILE_EACH_PRODUCER : TILE_EACH_CONSUMER);
    if (!s->stage.turn) {
        lower_refuse(l, "a stage of %s whose turn is not said", pipe->name);
        return;
    }
    const AuVal turn = lower_integer(l, s->stage.turn), stages = kernel_i32(k, pipe->stage_count);
    AuVal ring = own ? l->r.self : kernel_i32(k, 0);
    if (s->stage.index) ring = lower_integer(l, s->stage.index);
    const AuVal place = kernel_op2(k, AU_K_ADD, kernel_op2(k, AU_K_MUL, ring, stages),
                                   kernel_op2(k, AU_K_IMOD, turn, stages));
    AuVal phase = kernel_op2(k, AU_K_IDIV, turn, stages);
    if (fills) phase = kernel_op2(k, AU_K_SUB, phase, kernel_i32(k, 1));
    set_stage(l, s->var, pipe, place);
    kernel_mbar_wait(k, fills ? p->empty : p->full, place, phase);
    if (is_of_tensor(l, pipe)) kernel_fence(k, AU_K_TENSOR_FENCE);
}

/* Of the bytes that copies bring one lane says how many they are. */
static void fill(AuLower *l, const AuPipePlan *p, const AuHeld *held, AuVal place, bool by_warps)
{
    AuKernel *k = l->k;
    const AuVal one = lower_one_lane(l);
    if (!held->bytes) {
        kernel_mbar_arrive(k, p->full, place, by_warps ? l->elected : one);
        return;
    }
    kernel_mbar_expect(k, p->full, place, kernel_i32(k, held->bytes), one);
    if (!by_warps || l->r.plan->warps == 1) return;
    const AuVal other = kernel_op2(k, AU_K_NE, l->r.warp, kernel_i32(k, 0));
    kernel_mbar_arrive(k, p->full, place, lower_both(l, l->elected, other));
}

/* What lanes did with the stages is done, and units see it, for all of them at once. */
static void end_touches(AuLower *l, const AuTileStmt *s)
{
    AuKernel *k = l->k;
    const bool fills = s->kind == TILE_S_COMMIT;
    bool by_lanes = false, tensor = false, fence = false, meet = false;
    for (uint32_t n = 0; n < s->close.names.count; n++) {
        const AuTileVar *handle = s->close.vars[n];
        const AuHeld *held = lower_held(l, handle);
        const Touch touch = touch_of(l->r.role, held->pipe, handle);
        by_lanes |= held->by_lanes;
        tensor |= is_of_tensor(l, held->pipe);
        fence |= touch.written && !is_only_tensor(held->pipe);
        meet |= touch.written || (touch.read && !fills);
    }
    if (by_lanes) kernel_copy_wait(k, 0);
    if (tensor) kernel_fence(k, AU_K_TENSOR_FENCE);
    if (fence) kernel_fence(k, AU_K_FENCE_PROXY);
    if (meet) kernel_barrier(k, 1);
}

static void hand_over(AuLower *l, const AuTileVar *handle, bool fills)
{
    AuKernel *k = l->k;
    const AuHeld *held = lower_held(l, handle);
    const AuVal place = lower_stage_of(l, handle);
    if (fills && held->bytes && held->depth != k->depth)
        lower_refuse(l, "a stage of %s committed in another branch than it was filled in",
                     held->pipe->name);
    if (fills)
        fill(l, plan_of(l, held->pipe), held, place, arrives_by_warps(held->pipe, l->r.role, true));
    else
        kernel_mbar_arrive(k, plan_of(l, held->pipe)->empty, place, l->elected);
}

/* Whoever waits is told by the product itself. */
static void hand_over_after(AuLower *l, const AuTileVar *handle, bool fills)
{
    const AuPipePlan *p = plan_of(l, lower_held(l, handle)->pipe);
    kernel_tensor_commit(l->k, fills ? p->full : p->empty, lower_stage_of(l, handle),
                         lower_one_lane(l));
}

void lower_close_stage(AuLower *l, const AuTileStmt *s)
{
    const bool fills = s->kind == TILE_S_COMMIT;
    if (!s->close.after) end_touches(l, s);
    for (uint32_t n = 0; n < s->close.names.count && !l->failed; n++)
        (s->close.after ? hand_over_after : hand_over)(l, s->close.vars[n], fills);
}
