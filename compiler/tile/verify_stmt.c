/* verify_stmt.c - types of statements: what they declare and set, products, copies, and what the target has for them. A role is
 * walked once: a variable keeps its type, so loops need no second look. */
#include "verify.h"

#include <string.h>

/* ---- declarations and assignments */

static bool do_frag(Verify *v, AuTileStmt *s)
{
    AuTileType *type = sized(v, &s->frag.type);
    if (!type || is_too_large(v, s->span, type)) return false;
    if (tile_elem(type->elem)->memory_only)
        return verify_error(v, AU_E0703, s->span, "no fragment has elements of %s",
                            tile_elem(type->elem)->name);
    if (!place(v, &s->frag.layout, type)) return false;
    s->frag.type = *type;
    s->var = declare(v, s->frag.name, TILE_VALUE, type);
    if (!s->var) return false;
    v->fragment_registers += tile_registers(type, v->module->caps->lanes);
    if (v->fragment_registers > v->role->fragment_registers)
        v->role->fragment_registers = v->fragment_registers;
    if (!s->frag.init) return true;
    const AuTileType *init = type_of(v, s->frag.init);
    return init && fits(v, s->var, init);
}

static bool do_private(Verify *v, AuTileStmt *s)
{
    AuTileMemory *m = s->memory;
    if (!v->module->caps->has_private)
        return verify_error(v, AU_E0708, s->span, "%s has no private memory",
                            v->module->caps->name);
    if (find_var(v, m->name) || find_memory(v, m->name))
        return verify_error(v, AU_E0702, s->span, "%s is the name of something else already",
                            m->name);
    const AuTileType *type = sized(v, &m->type);
    if (!type || is_too_large(v, s->span, type)) return false;
    m->type = *type;
    m->stages = 1;
    AU_PUSH(v->arena, v->privates.at, v->privates.count, v->privates.capacity, m);
    return true;
}

static bool do_assign(Verify *v, AuTileStmt *s)
{
    const AuTileType *type = type_of(v, s->assign.value);
    if (!type) return false;
    s->var = set_value(v, s->assign.names.at[0], type);
    return s->var != NULL;
}

static bool do_convert(Verify *v, AuTileStmt *s)
{
    const AuTileType *from = type_of(v, s->convert.source);
    if (!from) return false;
    if (from->opaque)
        return verify_error(v, AU_E0704, s->span,
                            "an opaque fragment cannot be converted; go through shared memory");
    AuTileType *type = new_type(v, from->elem, from->count);
    for (uint32_t i = 0; i < from->count; i++) type->axes[i] = from->axes[i];
    if (!place(v, &s->convert.layout, type)) return false;
    s->var = set_value(v, s->convert.name, type);
    return s->var != NULL;
}

/* ---- memory */

/* The guard `when`: scalars, or axes of the view. */
static bool check_guard(Verify *v, AuTileExpr *when, const AuTileType *view)
{
    if (!when) return true;
    const AuTileType *type = type_of(v, when);
    if (!type) return false;
    for (uint32_t i = 0; i < type->count; i++) {
        const AuTileAxis *axis = tile_axis(view, type->axes[i].name);
        if (!axis || axis->size != type->axes[i].size)
            return verify_error(v, AU_E0703, when->span, "the guard is %s, the view is %s",
                                tile_type_text(v, type), tile_type_text(v, view));
    }
    return true;
}

static bool is_zero(const AuTileExpr *e)
{
    return (e->op == TILE_X_INT && e->integer == 0) || (e->op == TILE_X_FLOAT && e->number == 0);
}

/* Of codes 0 alone pads: it is the code 0 of every type. */
static bool check_pad(Verify *v, const AuTileMemory *from, AuTileExpr *pad)
{
    if (!pad) return true;
    if (tile_elem(from->type.elem)->is_code && !is_zero(pad))
        return verify_error(v, AU_E0703, pad->span, "elements of %s can only be padded with 0",
                            tile_elem(from->type.elem)->name);
    return expect_scalar(v, pad, "the padding");
}

/* A warp reaches only its own quarter of the rows of tensor memory, a lane a row. */
static bool by_row(Verify *v, const AuTileMemory *m, const AuTileType *view, const AuTileType *tile)
{
    if (m->space != TILE_TENSOR) return true;
    AuTileDigits digits;
    const AuTileAxis *row = view->count ? tile_axis(tile, view->axes[0].name) : NULL;
    if (v->role->on == TILE_ON_WARPGROUP && row && row->places &&
        tile_digits("lane:32@1 warp:4", &digits) &&
        tile_same_places(row->places, tile_places(v->arena, &digits, row->size)))
        return true;
    return verify_error(
        v, AU_E0704, v->stmt->span,
        "tensor memory is reached by a warpgroup, a lane a row: axis %s is laid out otherwise",
        view->count ? view->axes[0].name : "");
}

/* Codes read as f32; a fragment of 16 bits that is declared holds every one exactly, too. */
static bool holds_codes(const AuTileMemory *m, AuTileElem elem)
{
    return tile_elem(m->type.elem)->is_code && (elem == TILE_F16 || elem == TILE_BF16);
}

/* Of bytes in shared memory, whose last axis so has twice as many numbers. */
static bool take_halves(Verify *v, AuTileStmt *s, AuTileType *type)
{
    const AuTileMemory *m = s->load.source->memory;
    if (m->type.elem != TILE_I8 || m->space != TILE_SHARED || !type->count || s->load.across ||
        s->load.pad || s->load.when)
        return verify_error(v, AU_E0703, s->span,
                            "halves are those of i8 in shared memory, all of them");
    type->axes[type->count - 1].size *= 2;
    return true;
}

static bool do_load(Verify *v, AuTileStmt *s)
{
    const AuTileType *view = type_of_view(v, s->load.source);
    if (!view || !check_guard(v, s->load.when, view) ||
        !check_pad(v, s->load.source->memory, s->load.pad))
        return false;
    AuTileType *type = new_type(v, view->elem, view->count + (s->load.across != NULL));
    for (uint32_t i = 0; i < view->count; i++)
        type->axes[i] = (AuTileAxis){.name = view->axes[i].name, .size = view->axes[i].size};
    if (s->load.across) {
        AuTileAxis *axis = &type->axes[view->count];
        axis->name = s->load.across;
        if (!constant(v, s->load.across_extent, "an extent", &axis->size)) return false;
    }
    if (s->load.halves && !take_halves(v, s, type)) return false;
    if (is_too_large(v, s->span, type)) return false;
    const AuTileVar *old = find_var(v, s->load.name);
    if (old && old->kind == TILE_VALUE && holds_codes(s->load.source->memory, old->type->elem))
        type->elem = old->type->elem;
    AuTileLayoutRef layout = s->load.layout;
    if (layout.kind == TILE_NO_LAYOUT && old && old->kind == TILE_VALUE)
        layout = (AuTileLayoutRef){.kind = TILE_LIKE, .name = s->load.name, .span = s->span};
    else if (layout.kind == TILE_NO_LAYOUT && type->count)
        return verify_error(v, AU_E0704, s->span,
                            "a load needs a layout (@ or like), or a declared fragment");
    if (!place(v, &layout, type) || !by_row(v, s->load.source->memory, view, type)) return false;
    s->var = set_value(v, s->load.name, type);
    return s->var != NULL;
}

static bool needs_copies(Verify *v, const char *what, uint32_t kinds)
{
    if (v->module->caps->copies & kinds) return true;
    return verify_error(v, AU_E0708, v->stmt->span, "%s cannot be async on %s", what,
                        v->module->caps->name);
}

static bool check_async_move(Verify *v, AuTileStmt *s)
{
    const bool copies = s->move.op == TILE_COPY;
    if (!copies && s->move.op != TILE_REDUCE_ADD)
        return verify_error(v, AU_E0708, s->span, "%s is never async", tile_move_names[s->move.op]);
    if (!needs_copies(v, tile_move_names[s->move.op], copies ? ~0u : TILE_COPIES_BULK))
        return false;
    const AuTileElem from = copies ? s->move.source->memory->type.elem : s->move.source->type->elem,
                     to = copies ? s->move.dest->memory->type.elem : s->move.dest->type->elem;
    if (from != to)
        return verify_error(v, AU_E0703, s->span, "an async copy does not convert: %s -> %s",
                            tile_elem(from)->name, tile_elem(to)->name);
    const AuTileExpr *pad = s->move.pad;
    if (pad && !is_zero(pad))
        return verify_error(v, AU_E0708, pad->span, "an async copy can only pad with 0");
    if (copies && s->move.dest->memory->pipe) {
        if (s->move.token)
            return verify_error(v, AU_E0706, s->span,
                                "a copy into a stage reports to the pipeline, not to a token");
        return true;
    }
    if (!s->move.token)
        return verify_error(v, AU_E0705, s->span,
                            "an async copy needs a token, or a stage as its destination");
    s->var = set_handle(v, s->move.token, TILE_TOKEN);
    return s->var != NULL;
}

static bool do_prefetch(Verify *v, AuTileStmt *s)
{
    const AuTileType *view = type_of_view(v, s->ahead.view);
    if (!view) return false;
    return (s->ahead.view->memory->space == TILE_GLOBAL && view->count) ||
           verify_error(v, AU_E0703, s->span, "rows of a tensor are prefetched, nothing else");
}

static bool do_move(Verify *v, AuTileStmt *s)
{
    const AuTileType *dest = type_of_view(v, s->move.dest);
    if (!dest) return false;
    const AuTileMemory *m = s->move.dest->memory;
    if (m->mode == TILE_IN) return verify_error(v, AU_E0703, s->span, "%s is read only", m->name);
    const bool reads = s->move.op == TILE_COPY || s->move.op == TILE_REDUCE_ADD;
    const AuTileType *source = reads ? type_of_view(v, s->move.source) : type_of(v, s->move.source);
    if (!source) return false;
    if (source->elem != dest->elem && s->move.op != TILE_COPY)
        return verify_error(v, AU_E0703, s->span, "%s value, %s memory",
                            tile_elem(source->elem)->name, tile_elem(m->type.elem)->name);
    if (s->move.op != TILE_COPY && s->move.op != TILE_STORE && tile_elem(m->type.elem)->is_code)
        return verify_error(v, AU_E0703, s->span, "nothing is added to elements of %s",
                            tile_elem(m->type.elem)->name);
    if (!reads && !by_row(v, m, dest, source)) return false;
    if (!same_axes(source, dest) && (source->count || reads))
        return verify_error(v, AU_E0703, s->span, "%s -> %s", tile_type_text(v, source),
                            tile_type_text(v, dest));
    if (!check_guard(v, s->move.when, dest) ||
        !check_pad(v, reads ? s->move.source->memory : m, s->move.pad))
        return false;
    if (s->move.pad && !reads)
        return verify_error(v, AU_E0703, s->span, "only a load or copy pads");
    return !s->move.is_async || check_async_move(v, s);
}

/* ---- waits, stages, barriers */

static bool do_wait(Verify *v, AuTileStmt *s)
{
    s->wait.vars = AU_NEW_ARRAY(v->arena, AuTileVar *, s->wait.names.count);
    for (uint32_t i = 0; i < s->wait.names.count; i++) {
        s->wait.vars[i] = find_var_of_role(v, s->wait.names.at[i]);
        if (!s->wait.vars[i] || s->wait.vars[i]->kind == TILE_STAGE)
            return verify_error(v, AU_E0705, s->span, "%s is not in flight", s->wait.names.at[i]);
    }
    const AuTileExpr *but = s->wait.but;
    return !but || (but->op == TILE_X_INT && but->integer >= 0) ||
           verify_error(v, AU_E0703, s->span, "a wait leaves a number of copies in flight");
}

static bool do_stage(Verify *v, AuTileStmt *s, bool produces)
{
    AuTilePipe *pipe = NULL;
    for (uint32_t i = 0; i < v->kernel->pipes.count; i++)
        if (v->kernel->pipes.at[i]->name == s->stage.pipe_name) pipe = v->kernel->pipes.at[i];
    if (!pipe) return verify_error(v, AU_E0702, s->span, "no pipeline %s", s->stage.pipe_name);
    const AuTileRole *side = produces ? pipe->producer : pipe->consumer;
    if (side != v->role && (produces || pipe->also != v->role))
        return verify_error(v, AU_E0706, s->span, "role %s is no %s of %s", v->role->name,
                            produces ? "producer" : "consumer", pipe->name);
    /* `each` on the other side: this role chooses among its rings. */
    const bool chooses = pipe->each == (produces ? TILE_EACH_CONSUMER : TILE_EACH_PRODUCER);
    if (chooses != (s->stage.index != NULL))
        return verify_error(v, AU_E0706, s->span, "%s %s index here", pipe->name,
                            chooses ? "needs an" : "takes no");
    if (s->stage.index && !expect_scalar(v, s->stage.index, "the number of a ring")) return false;
    if (s->stage.turn && !expect_scalar(v, s->stage.turn, "the turn of a stage")) return false;
    s->stage.pipe = pipe;
    s->var = set_handle(v, s->stage.name, TILE_STAGE);
    if (s->var) v->pipe_of[s->var->slot] = pipe;
    return s->var != NULL;
}

static bool do_close(Verify *v, AuTileStmt *s)
{
    s->close.vars = AU_NEW_ARRAY(v->arena, AuTileVar *, s->close.names.count);
    for (uint32_t i = 0; i < s->close.names.count; i++) {
        s->close.vars[i] = find_var_of_role(v, s->close.names.at[i]);
        if (!s->close.vars[i] || s->close.vars[i]->kind != TILE_STAGE)
            return verify_error(v, AU_E0706, s->span, "%s is no stage", s->close.names.at[i]);
    }
    if (!s->close.after) return true;
    if (!v->module->caps->tensor_bytes)
        return verify_error(v, AU_E0708, s->span, "%s cannot signal when a product ends",
                            v->module->caps->name);
    s->close.after_var = find_var_of_role(v, s->close.after);
    if (!s->close.after_var || s->close.after_var->kind != TILE_TOKEN)
        return verify_error(v, AU_E0705, s->span, "%s is not in flight", s->close.after);
    return true;
}

static bool do_barrier(Verify *v, AuTileStmt *s)
{
    for (uint32_t i = 0; i < v->kernel->barriers.count; i++)
        if (v->kernel->barriers.at[i]->name == s->barrier.name)
            s->barrier.barrier = v->kernel->barriers.at[i];
    const AuTileBarrier *b = s->barrier.barrier;
    if (!b && s->kind == TILE_S_SYNC && strcmp(s->barrier.name, "self") == 0)
        return !s->barrier.index ||
               verify_error(v, AU_E0703, s->span, "an executor is one with itself");
    if (!b) return verify_error(v, AU_E0702, s->span, "no barrier %s", s->barrier.name);
    if ((b->many != NULL) != (s->barrier.index != NULL))
        return verify_error(v, AU_E0703, s->span, "%s %s index", b->name,
                            b->many ? "needs an" : "takes no");
    return !s->barrier.index || expect_scalar(v, s->barrier.index, "the number of a barrier");
}

/* ---- blocks */

static bool walk(Verify *v, AuTileStmts *body);

/* A block whose variables end with it, unless `lasting`. */
static bool walk_block(Verify *v, AuTileStmts *body, bool lasting)
{
    const uint32_t vars = v->visible.count, privates = v->privates.count;
    const int32_t registers = v->fragment_registers;
    const bool ok = walk(v, body);
    if (!lasting) v->visible.count = vars, v->fragment_registers = registers;
    v->privates.count = privates;
    return ok;
}

static bool do_for(Verify *v, AuTileStmt *s)
{
    if (s->loop.low && !expect_scalar(v, s->loop.low, "the begin of a loop")) return false;
    if (s->loop.high && !expect_scalar(v, s->loop.high, "the end of a loop")) return false;
    for (uint32_t i = 0; s->loop.list_name && i < v->kernel->lists.count; i++)
        if (v->kernel->lists.at[i]->name == s->loop.list_name)
            s->loop.list = v->kernel->lists.at[i];
    if (s->loop.list_name && !s->loop.list)
        return verify_error(v, AU_E0702, s->span, "no tile list %s", s->loop.list_name);
    const AuTileExpr *segment = s->loop.segment;
    if (segment && (segment->op != TILE_X_INT || segment->integer < 0 ||
                    segment->integer >= (int64_t)s->loop.list->segments.count))
        return verify_error(v, AU_E0702, s->span, "%s has segments 0 to %u", s->loop.list_name,
                            s->loop.list->segments.count - 1);
    s->var = declare(v, s->loop.var_name, TILE_VALUE, new_type(v, TILE_I32, 0));
    if (!s->var) return false;
    s->var->origin = TILE_FROM_LOOP;
    s->var->list = s->loop.list;
    const AuTileExpr *low = s->loop.low, *high = s->loop.high;
    const bool runs = !s->loop.list && low && high && low->op == TILE_X_INT &&
                      high->op == TILE_X_INT && low->integer < high->integer;
    if (s->loop.list)
        AU_PUSH(v->arena, v->loops.at, v->loops.count, v->loops.capacity, s->loop.list);
    const uint32_t at = v->visible.count - 1;
    const AuTileStmt *outer = v->loop;
    if (segment) v->loop = s;
    const bool ok = walk_block(v, &s->loop.body, runs);
    v->loop = outer;
    v->loops.count -= s->loop.list != NULL;
    for (uint32_t i = at; i + 1 < v->visible.count; i++) v->visible.at[i] = v->visible.at[i + 1];
    v->visible.count--;
    return ok;
}

static bool do_on(Verify *v, AuTileStmt *s)
{
    bool found = false;
    for (uint32_t i = 0; i < v->loops.count; i++)
        for (uint32_t g = 0; g < v->loops.at[i]->segments.count; g++)
            found |= v->loops.at[i]->segments.at[g].name == s->on.segment;
    if (!found)
        return verify_error(v, AU_E0702, s->span, "no loop has a segment %s", s->on.segment);
    /* One of two ways is gone: what both set lasts (flow.c). */
    const bool both = s->on.other.count > 0;
    return walk_block(v, &s->on.body, both) && walk_block(v, &s->on.other, both);
}

/* Parts of a sum lie in lanes that hold copies of it. */
static bool do_part(Verify *v, AuTileStmt *s)
{
    s->var = find_var_of_role(v, s->part.name);
    if (!constant(v, s->part.lanes, "the lanes of a sum", &s->part.bits)) return false;
    if (!s->var || s->var->kind != TILE_VALUE || s->var->type->elem != TILE_F32)
        return verify_error(v, AU_E0703, s->span, "%s is no sum", s->part.name);
    for (uint32_t n = 0; n < s->var->type->count; n++) {
        const AuTilePlaces *places = s->var->type->axes[n].places;
        if (!places || (tile_lane_bits(places) & (uint32_t)s->part.bits))
            return verify_error(v, AU_E0704, s->span, "%s lies in these lanes", s->part.name);
    }
    return s->part.bits < v->module->caps->lanes ||
           verify_error(v, AU_E0704, s->span, "there are %d lanes", v->module->caps->lanes);
}

static bool do_if(Verify *v, AuTileStmt *s)
{
    return expect_scalar(v, s->branch.test, "a condition") &&
           walk_block(v, &s->branch.then, false) && walk_block(v, &s->branch.other, false);
}

static bool do_stmt(Verify *v, AuTileStmt *s)
{
    switch (s->kind) {
    case TILE_S_FRAG: return do_frag(v, s);
    case TILE_S_PRIVATE: return do_private(v, s);
    case TILE_S_ASSIGN: return do_assign(v, s);
    case TILE_S_CONVERT: return do_convert(v, s);
    case TILE_S_LOAD: return do_load(v, s);
    case TILE_S_MOVE: return do_move(v, s);
    case TILE_S_PREFETCH: return do_prefetch(v, s);
    case TILE_S_PRODUCT: return verify_product(v, s);
    case TILE_S_WAIT: return do_wait(v, s);
    case TILE_S_ACQUIRE: return do_stage(v, s, true);
    case TILE_S_WAIT_STAGE: return do_stage(v, s, false);
    case TILE_S_COMMIT:
    case TILE_S_RELEASE: return do_close(v, s);
    case TILE_S_SYNC:
    case TILE_S_ARRIVE: return do_barrier(v, s);
    case TILE_S_PART:
    case TILE_S_JOIN: return do_part(v, s);
    case TILE_S_FOR: return do_for(v, s);
    case TILE_S_IF: return do_if(v, s);
    case TILE_S_ON: return do_on(v, s);
    case TILE_S_RETURN: return verify_error(v, AU_E0703, s->span, "return outside of a hook");
    }
    return false;
}

static bool walk(Verify *v, AuTileStmts *body)
{
    for (uint32_t i = 0; i < body->count; i++) {
        v->stmt = body->at[i];
        if (!do_stmt(v, body->at[i])) return false;
    }
    return true;
}

bool verify_role(Verify *v, AuTileRole *role)
{
    v->role = role;
    v->visible.count = v->privates.count = v->loops.count = 0;
    v->loop = NULL;
    role->vars.count = 0;
    role->fragment_registers = v->fragment_registers = 0;
    const AuTileStmt nowhere = {.span = role->span};
    v->stmt = &nowhere;
    AuTileVar *self =
        declare(v, au_name(v->module->names, "self"), TILE_VALUE, new_type(v, TILE_I32, 0));
    if (!self) return false;
    self->origin = TILE_FROM_SELF;
    return walk(v, &role->body);
}
