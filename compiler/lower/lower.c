/* lower.c - one kernel: arguments, memories, and the walk over the statements of its role. See
 * lower.h. */
#include "internal.h"

#include "aule/artifact.h"

void lower_refuse(AuLower *l, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const char *what = au_vformat(l->arena, format, arguments);
    va_end(arguments);
    if (!l->failed)
        au_error(l->diags, AU_E0810, l->span, "kernel %s for %s: %s", l->tile->name,
                 l->module->caps->name, what);
    l->failed = true;
}

AuScalar lower_scalar(AuTileElem elem)
{
    switch (elem) {
    case TILE_F32: return AU_F32;
    case TILE_F16: return AU_F16;
    case TILE_BF16: return AU_BF16;
    case TILE_I32: return AU_I32;
    case TILE_BOOL: return AU_I1;
    case TILE_I64: return AU_I64;
    case TILE_U8: return AU_U8;
    }
    return AU_VOID;
}

/* ---- variables */

static bool is_of_kernel(const AuTileVar *var)
{
    return var->origin == TILE_FROM_LET || var->origin == TILE_FROM_GRID ||
           var->origin == TILE_FROM_PARAM || var->origin == TILE_FROM_SIZE;
}

AuHeld *lower_held(AuLower *l, const AuTileVar *var)
{
    return is_of_kernel(var) ? &l->kernel_vars[var->slot] : &l->role_vars[var->slot];
}

AuTileVar *lower_new_var(AuLower *l, const char *name, const AuTileType *type)
{
    if (l->new_vars == LOWER_NEW_VARS) return NULL;
    AuTileVar *var = AU_NEW(l->arena, AuTileVar);
    *var = (AuTileVar){.name = name,
                       .kind = TILE_VALUE,
                       .origin = TILE_FROM_BODY,
                       .type = type,
                       .slot = l->role->vars.count + l->new_vars++};
    lower_held(l, var)->defs = 1;
    return var;
}

static void count_uses(AuLower *l, const AuTileExpr *e)
{
    if (!e) return;
    if (e->op == TILE_X_NAME && e->var) lower_held(l, e->var)->uses++;
    for (uint32_t n = 0; n < e->args.count; n++) count_uses(l, e->args.at[n]);
}

static void count_statements(AuLower *l, const AuTileStmts *body);

static void count_statement(AuLower *l, const AuTileStmt *s)
{
    if (s->var && s->kind != TILE_S_FRAG) lower_held(l, s->var)->defs++;
    switch (s->kind) {
    case TILE_S_FRAG:
        if (s->frag.init) lower_held(l, s->var)->defs++;
        count_uses(l, s->frag.init);
        break;
    case TILE_S_ASSIGN: count_uses(l, s->assign.value); break;
    case TILE_S_LOAD:
        count_uses(l, s->load.source), count_uses(l, s->load.when), count_uses(l, s->load.pad);
        break;
    case TILE_S_MOVE:
        count_uses(l, s->move.source), count_uses(l, s->move.dest), count_uses(l, s->move.when);
        break;
    case TILE_S_PRODUCT:
        count_uses(l, s->product.a), count_uses(l, s->product.b);
        if (!s->product.add && lower_held(l, s->var)->defs == 1)
            lower_held(l, s->var)->restarted = true;
        if (s->product.add) lower_held(l, s->var)->uses++;
        if (s->product.atom->k > 2 && s->product.b->var)
            lower_held(l, s->product.b->var)->pair_axis = s->product.contracted;
        break;
    case TILE_S_FOR:
        count_uses(l, s->loop.low), count_uses(l, s->loop.high), count_statements(l, &s->loop.body);
        break;
    case TILE_S_IF:
        count_uses(l, s->branch.test), count_statements(l, &s->branch.then),
            count_statements(l, &s->branch.other);
        break;
    case TILE_S_ON: count_statements(l, &s->on.body); break;
    case TILE_S_PRIVATE:
    case TILE_S_CONVERT:
    case TILE_S_WAIT:
    case TILE_S_ACQUIRE:
    case TILE_S_WAIT_STAGE:
    case TILE_S_COMMIT:
    case TILE_S_RELEASE:
    case TILE_S_SYNC:
    case TILE_S_ARRIVE:
    case TILE_S_RETURN: break;
    }
}

static void count_statements(AuLower *l, const AuTileStmts *body)
{
    for (uint32_t n = 0; n < body->count; n++) count_statement(l, body->at[n]);
}

/* ---- memories */

AuPlace *lower_place(AuLower *l, const AuTileMemory *memory)
{
    for (uint32_t n = 0; n < l->place_count; n++)
        if (l->places[n].memory == memory) return &l->places[n];
    lower_refuse(l, "memory %s is not declared", memory->name);
    return &l->places[0];
}

static AuVal extent_of(AuLower *l, const AuTileAxis *axis)
{
    const AuPoint nowhere = {.count = 0};
    return axis->size ? kernel_i32(l->k, axis->size)
                      : lower_as(l, lower_eval(l, axis->extent, &nowhere), AU_I32);
}

static void add_argument(AuLower *l, const AuTileMemory *m)
{
    AuKernel *k = l->k;
    const AuLowerTensor *t = NULL;
    for (uint32_t n = 0; n < l->how->tensor_count; n++)
        if (l->how->tensors[n].name == m->name) t = &l->how->tensors[n];
    if (!t) {
        lower_refuse(l, "nothing is known of argument %s", m->name);
        return;
    }
    AuPlace p = {.memory = m};
    p.mem = kernel_tensor(k, m->name, lower_scalar(m->type.elem), m->mode != TILE_OUT,
                          m->mode != TILE_IN, t->slot, t->index);
    if (t->optional) {
        const AuVal there = kernel_arg(k, au_format(l->arena, "%s_present", m->name), AU_ARG_I32,
                                       AULE_SLOT_PRESENT, t->index, 0);
        p.present = kernel_op2(k, AU_K_NE, there, kernel_i32(k, 0));
    }
    AuVal step = kernel_i64(k, 1);
    for (uint32_t n = m->type.count; n-- > 0;) {
        p.extents[n] = extent_of(l, &m->type.axes[n]);
        if (t->slot == AULE_SLOT_TENSOR) {
            p.strides[n] =
                kernel_arg(k, au_format(l->arena, "%s_stride_%s", m->name, m->type.axes[n].name),
                           AU_ARG_I64, AULE_SLOT_STRIDE, t->index, n);
        } else {
            p.strides[n] = step;
            step = kernel_op2(k, AU_K_MUL, step, lower_as(l, p.extents[n], AU_I64));
        }
    }
    if (l->in_warps) {
        k->mems[p.mem.i].align = 16; /* by_vectors guards what relies on it */
        lower_vector_condition(l, &p, t);
    }
    AU_PUSH(l->arena, l->places, l->place_count, l->place_capacity, p);
}

/* The axis along which a product takes the memory's elements in pairs, if that is not where they
 * are neighbours anyway. */
static const char *pair_axis(const AuTileStmts *body, const AuTileMemory *m)
{
    for (uint32_t n = 0; n < body->count; n++) {
        const AuTileStmt *s = body->at[n];
        const char *found = s->kind == TILE_S_FOR  ? pair_axis(&s->loop.body, m)
                            : s->kind == TILE_S_IF ? pair_axis(&s->branch.then, m)
                                                   : NULL;
        if (s->kind == TILE_S_PRODUCT && s->product.atom->k == 2 && s->product.a->memory == m &&
            m->type.axes[m->type.count - 1].name != s->product.contracted)
            found = s->product.contracted;
        if (found) return found;
    }
    return NULL;
}

/* From row to row, in elements. `swizzle` asks that rows begin in different banks: with pieces of 16
 * bytes as units that is an odd pitch, whose addresses are a lane's base plus constants; the pattern
 * of tensor-map copies would cost an operation for each column. */
static int32_t pitch_of(const AuLower *l, const AuTileMemory *m)
{
    const int32_t bytes = tile_elem(m->type.elem)->bytes,
                  row = m->type.axes[m->type.count - 1].size * bytes;
    const bool spread = l->in_warps && m->swizzle_bytes && m->type.count > 1 && row % 16 == 0;
    return (spread ? (row / 16 | 1) * 16 : row) / bytes;
}

static void add_buffer(AuLower *l, const AuTileMemory *m)
{
    AuKernel *k = l->k;
    AuPlace p = {.memory = m, .pair_axis = pair_axis(&l->role->body, m)};
    int32_t step = 1;
    for (uint32_t n = m->type.count; n-- > 0;) {
        const AuTileAxis *axis = &m->type.axes[n];
        p.extents[n] = kernel_i32(k, axis->size);
        if (!p.pair_axis) p.strides[n] = kernel_i32(k, step);
        step *= n + 1 == m->type.count ? pitch_of(l, m) : axis->size;
    }
    const int32_t count = step;
    if (p.pair_axis) { /* [pairs, other axes.., 2] */
        step = 2;
        for (uint32_t n = m->type.count; n-- > 0;) {
            if (m->type.axes[n].name == p.pair_axis) continue;
            p.strides[n] = kernel_i32(k, step);
            step *= m->type.axes[n].size;
        }
        for (uint32_t n = 0; n < m->type.count; n++)
            if (m->type.axes[n].name == p.pair_axis) p.strides[n] = kernel_i32(k, step);
    }
    p.mem = kernel_memory(k, (AuMemory){.name = m->name,
                                        .space = m->space == TILE_SHARED ? AU_SHARED : AU_EXEC,
                                        .scalar = lower_scalar(m->type.elem),
                                        .count = (uint32_t)count,
                                        .align = 64,
                                        .reads = true,
                                        .writes = true,
                                        .span = m->span});
    if (l->in_warps) lower_vector_condition(l, &p, NULL);
    AU_PUSH(l->arena, l->places, l->place_count, l->place_capacity, p);
}

/* ---- statements */

static void walk(AuLower *l, const AuTileStmts *body);

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

static void bind_value(AuLower *l, const AuTileVar *var, AuVal value)
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
    bind_value(l, s->var, kernel_for(l->k, low, high, 1, AU_UNROLL_NEVER));
    walk(l, &body);
    kernel_end(l->k);
    if (l->in_warps) lower_sums_end(l, &sums);
    lower_join_marks(l, &marks);
}

/* One loop over all segments; which one a tile belongs to is known from its number. */
static void joined_loop(AuLower *l, const AuTileStmt *s, const AuTileStmts *body, AuTiles *tiles)
{
    AuKernel *k = l->k;
    const char *first = tiles->at[0].s->name;
    l->only_segment = first;
    for (uint32_t n = 1; n < tiles->count; n++)
        if (tiles->at[n].s->name != first)
            l->only_segment = NULL, l->other_segment = tiles->at[n].s->name;
    l->asked_segment = first;
    if (l->in_warps) lower_order_loop(l, s);
    tiles->turn = kernel_for(k, kernel_i32(k, 0), tiles->total, 1, AU_UNROLL_NEVER);
    bind_value(l, s->var, lower_tile_at(l, tiles, tiles->turn, &l->in_segment));
    walk(l, body);
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
    const AuVal t = kernel_for(k, kernel_i32(k, 0), tiles->at[n].count, 1, AU_UNROLL_NEVER);
    tiles->turn = kernel_op2(k, AU_K_ADD, tiles->start[n], t);
    bind_value(l, s->var, lower_tile_of_segment(l, &tiles->at[n], t));
    walk(l, body);
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
    if (l->in_warps && l->how->split_segments)
        for (uint32_t n = 0; n < tiles->count; n++) loop_of_segment(l, s, &body, tiles, n);
    else
        joined_loop(l, s, &body, tiles);
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
    walk(l, &s->branch.then);
    const AuMarks after = lower_marks(l);
    lower_set_marks(l, &marks);
    if (s->branch.other.count) {
        kernel_else(l->k);
        walk(l, &s->branch.other);
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
    case TILE_S_PRIVATE: add_buffer(l, s->memory); break;
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

static void walk(AuLower *l, const AuTileStmts *body)
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

/* ---- the kernel */

static void bind_scalar(AuLower *l, const AuTileVar *var)
{
    AuKernel *k = l->k;
    if (var->origin == TILE_FROM_GRID) {
        bind_value(l, var, kernel_block(k, var->axis));
        return;
    }
    for (uint32_t n = 0; n < l->how->scalar_count; n++) {
        const AuLowerScalar *s = &l->how->scalars[n];
        if (s->name != var->name) continue;
        const AuArgKind kind = s->is_i64 ? AU_ARG_I64 : s->is_f32 ? AU_ARG_F32 : AU_ARG_I32;
        AuVal v = kernel_arg(k, var->name, kind, s->slot, s->index, 0);
        if (s->word == 2) v = kernel_op2(k, AU_K_SHR, v, kernel_i64(k, 32));
        if (s->is_i64) v = kernel_cvt(k, v, AU_I32);
        bind_value(l, var, v);
        return;
    }
    lower_refuse(l, "nothing is known of %s", var->name);
}

static bool has_matrix(const AuTileStmts *body)
{
    for (uint32_t n = 0; n < body->count; n++) {
        const AuTileStmt *s = body->at[n];
        if ((s->kind == TILE_S_PRODUCT && lower_is_matrix(s->product.atom)) ||
            (s->kind == TILE_S_FOR && has_matrix(&s->loop.body)) ||
            (s->kind == TILE_S_IF &&
             (has_matrix(&s->branch.then) || has_matrix(&s->branch.other))) ||
            (s->kind == TILE_S_MOVE && s->move.is_async))
            return true;
    }
    return false;
}

/* Is a variable spread over the lanes otherwise than all lanes along one axis, vector by vector? */
static bool has_spread(const AuLower *l)
{
    for (uint32_t v = 0; v < l->role->vars.count; v++) {
        const AuTileVar *var = l->role->vars.at[v];
        for (uint32_t n = 0; var->kind == TILE_VALUE && n < var->type->count; n++) {
            const AuTilePlaces *places = var->type->axes[n].places;
            if (!places || places->lanes == 1) continue;
            const AuTileDigit *first = &places->digits.at[0];
            if (places->lanes < l->module->caps->lanes ||
                (first->unit == TILE_UNIT_REG && first->size > 1))
                return true;
        }
    }
    return false;
}

static void prepare_warps(AuLower *l)
{
    const uint32_t vars = l->role->vars.count + 1;
    l->age = AU_NEW_ARRAY(l->arena, int32_t, vars);
    l->filled = AU_NEW_ARRAY(l->arena, const AuTileMemory *, vars);
    for (uint32_t n = 0; n < vars; n++) l->age[n] = -1;
    for (uint32_t n = 0; n < l->tile->lists.count; n++) lower_tiles(l, l->tile->lists.at[n]);
}

static void lower_role(AuLower *l)
{
    const AuTileKernel *t = l->tile;
    const AuPoint nowhere = {.count = 0};
    for (uint32_t n = 0; n < t->vars.count; n++)
        if (t->vars.at[n]->origin != TILE_FROM_LET) bind_scalar(l, t->vars.at[n]);
    for (uint32_t n = 0; n < t->args.count; n++)
        if (t->args.at[n]->mode != TILE_PARAM) add_argument(l, t->args.at[n]);
    for (uint32_t n = 0; n < t->lets.count && !l->failed; n++)
        bind_value(l, t->lets.at[n]->var, lower_eval(l, t->lets.at[n]->assign.value, &nowhere));
    for (uint32_t n = 0; n < t->shared.count; n++) add_buffer(l, t->shared.at[n]);
    for (uint32_t n = 0; n < l->role->vars.count; n++)
        if (l->role->vars.at[n]->origin == TILE_FROM_SELF)
            bind_value(l, l->role->vars.at[n],
                       l->k->warps > 1 ? kernel_warp(l->k) : kernel_i32(l->k, 0));
    count_statements(l, &l->role->body);
    if (l->in_warps) prepare_warps(l);
    walk(l, &l->role->body);
    const AuTileExpr one = {.op = TILE_X_INT, .integer = 1};
    for (uint32_t n = 0; n < 3; n++)
        l->k->grid[n] = lower_launch_expr(l, n < t->grid.count ? t->grid.at[n].extent : &one);
}

AuKernel *lower_kernel(AuArena *arena, AuDiags *diags, const AuTileModule *module,
                       const AuTileKernel *kernel, const AuLowering *how)
{
    AuLower *l = AU_NEW(arena, AuLower);
    AuLowering *own =
        AU_NEW(arena, AuLowering); /* schedules of matrix units say nothing of blocks */
    *own = *how;
    if (!own->product_rows) own->product_rows = 4;
    if (!own->product_columns) own->product_columns = 1;
    *l = (AuLower){.arena = arena,
                   .diags = diags,
                   .module = module,
                   .tile = kernel,
                   .how = own,
                   .span = kernel->span};
    if (kernel->roles.count != 1 || kernel->pipes.count || kernel->grid.count > 3) {
        lower_refuse(l, "several roles, pipelines or more than three axes of the grid");
        return NULL;
    }
    l->role = kernel->roles.at[0];
    l->kernel_vars = AU_NEW_ARRAY(arena, AuHeld, kernel->vars.count + 1);
    l->role_vars = AU_NEW_ARRAY(arena, AuHeld, l->role->vars.count + LOWER_NEW_VARS);
    const uint32_t warps = l->role->on == TILE_ON_THREAD ? 1 : (uint32_t)l->role->many_value;
    l->k = kernel_new(arena, kernel->name, (uint32_t)module->caps->lanes, warps ? warps : 1);
    l->k->banner = how->banner;
    l->in_warps = l->role->on == TILE_ON_WARP && (has_matrix(&l->role->body) || has_spread(l));
    lower_role(l);
    return l->failed ? NULL : l->k;
}
