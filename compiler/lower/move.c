/* move.c - loads, stores and copies.
 * A fragment's load or store visits the registers of each lane. A copy between memories runs along
 * the last axis of its source with the lanes, so that neighbours in memory are neighbours in lanes;
 * where lanes are elements of a vector, the code exists twice: once knowing that the last axis is
 * contiguous (whole vectors), once for any stride. So do loads of modules that ask for it (option
 * contiguous): OpenCL's compilers for processors make vectors of work-items. */
#include "internal.h"

typedef struct Move {
    const AuTileStmt *s;
    const AuTileExpr *ref;   /* the memory side of a load or store */
    const AuTileVar *var;    /* load */
    const AuTileExpr *value; /* store */
    const char
        *pair_axis; /* load: the two elements of a pair share a register; NULL: each has its own */
    AuVal *first;   /* of pairs whose second element comes later, in the order of points */
    uint32_t first_count, taken;
    bool contiguous; /* load: the last axis of the memory is */
} Move;

static AuVal when_value(AuLower *l, const AuTileExpr *when, const AuPoint *p)
{
    const AuVal none = {0};
    return when ? lower_as(l, lower_eval(l, when, p), AU_I1) : none;
}

static AuVal number_of(AuLower *l, AuScalar scalar, double value)
{
    if (scalar == AU_F32) return kernel_f32(l->k, value);
    if (scalar == AU_I1) return kernel_i1(l->k, value != 0);
    return lower_as(l,
                    scalar == AU_F16 || scalar == AU_BF16 ? kernel_f32(l->k, value)
                                                          : kernel_i32(l->k, (int32_t)value),
                    scalar);
}

static AuVal pad_value(AuLower *l, const AuTileExpr *pad, AuScalar scalar)
{
    const AuPoint nowhere = {.count = 0};
    return pad ? lower_as(l, lower_eval(l, pad, &nowhere), scalar) : number_of(l, scalar, 0);
}

/* Points come in the same order for the first and for the second elements of pairs. */
static void store_pair(AuLower *l, Move *m, const AuPoint *p, AuVal v)
{
    int32_t which = 0;
    for (uint32_t n = 0; n < p->count; n++)
        if (p->at[n].axis == m->pair_axis) which = p->at[n].within;
    if (which == 0)
        m->first[m->first_count++] = v;
    else
        kernel_store(l->k, lower_var_array(l, m->var),
                     lower_pair_register(l, m->var->type, p, m->pair_axis),
                     lower_pair(l, m->first[m->taken++], v), (AuVal){0});
}

static void load_point(AuLower *l, const AuPoint *p, void *user)
{
    Move *m = user;
    AuLowerMemory *place = lower_memory(l, m->ref->memory);
    const AuScalar scalar = lower_scalar(m->ref->memory->type.elem);
    AuVal inside, none = {0};
    const AuVal at = lower_address(l, m->ref, p, OUTSIDE_TESTED, &inside, m->contiguous);
    inside = lower_both(l, inside, when_value(l, m->s->load.when, p));
    inside = lower_both(l, inside, place->present); /* what was not passed reads as padding */
    const AuVal other = inside.i ? pad_value(l, m->s->load.pad, scalar) : none;
    AuVal v = kernel_load(l->k, place->mem, at, 1, inside, other);
    v = lower_decoded(l, m->ref->memory->type.elem, v);
    v = lower_as(l, v, lower_scalar(m->var->type->elem));
    if (m->pair_axis) {
        store_pair(l, m, p, v);
        return;
    }
    kernel_store(l->k, lower_var_array(l, m->var),
                 m->var->type->count ? lower_register(l, m->var->type, p) : kernel_i32(l->k, 0), v,
                 none);
}

void lower_each_load(AuLower *l, const AuTileStmt *s)
{
    if (s->load.halves) {
        lower_refuse(l, "halves of bytes, lane by lane");
        return;
    }
    Move m = {.s = s,
              .ref = s->load.source,
              .var = s->var,
              .pair_axis = lower_count(l, s->var)->pair_axis};
    AuSpaces spaces = {.count = 0};
    if (s->var->type->count) spaces = lower_spaces(l, s->var->type);
    if (m.pair_axis) {
        lower_by_pairs(&spaces, m.pair_axis);
        m.first = AU_NEW_ARRAY(l->arena, AuVal, lower_registers(s->var->type));
    }
    const AuTileMemory *from = m.ref->memory;
    const uint32_t last = from->type.count - 1;
    if (!l->module->options.contiguous || from->space != TILE_GLOBAL || m.pair_axis ||
        !from->type.count || !lower_view_axis(m.ref, last)) {
        lower_each(l, &spaces, load_point, &m);
        return;
    }
    kernel_if(l->k,
              kernel_op2(l->k, AU_K_EQ, lower_memory(l, from)->strides[last], kernel_i64(l->k, 1)));
    m.contiguous = true;
    lower_each(l, &spaces, load_point, &m);
    kernel_else(l->k);
    m.contiguous = false;
    lower_each(l, &spaces, load_point, &m);
    kernel_end(l->k);
}

static void store_point(AuLower *l, const AuPoint *p, void *user)
{
    const Move *m = user;
    AuLowerMemory *place = lower_memory(l, m->ref->memory);
    AuVal inside;
    const AuVal at = lower_address(l, m->ref, p, OUTSIDE_TESTED, &inside, false);
    inside =
        lower_both(l, lower_both(l, inside, when_value(l, m->s->move.when, p)), place->present);
    inside = lower_both(l, inside, lower_holds(l, m->value->type));
    const AuVal v = lower_encoded(l, m->ref->memory->type.elem, lower_eval(l, m->value, p));
    if (m->s->move.op == TILE_ATOMIC_ADD) {
        const AuVal operands[3] = {at, v, inside};
        kernel_emit(l->k, (AuInstr){.op = AU_K_ATOMIC_ADD, .mem = place->mem, .span = l->span},
                    operands, inside.i ? 3 : 2);
    } else {
        kernel_store(l->k, place->mem, at, v, inside);
    }
}

/* Copies hold no fragment: their points count elements, `reg` is not used. */
typedef struct Copy {
    const AuTileStmt *s;
    const AuTileExpr *from, *to;
    const AuTileType *type; /* of the source's view */
    bool contiguous;
    enum { COPY_TESTED, COPY_INSIDE, COPY_OUTSIDE } row; /* what is known of the present one */
    int32_t width;                                       /* neighbours that a lane takes together */
    AuPoint point;
    AuVal in_row; /* lanes past the end of the last axis, i1; none: all inside */
} Copy;

static void copy_element(AuLower *l, Copy *c)
{
    AuLowerMemory *from = lower_memory(l, c->from->memory), *to = lower_memory(l, c->to->memory);
    const AuScalar scalar = lower_scalar(c->from->memory->type.elem);
    AuVal inside = {0}, target_inside, none = {0}, at = {0};
    const bool from_global = c->from->memory->space == TILE_GLOBAL;
    if (c->row != COPY_OUTSIDE)
        at = lower_address(l, c->from, &c->point,
                           c->row == COPY_INSIDE ? OUTSIDE_TRUSTED : OUTSIDE_TESTED, &inside,
                           c->contiguous && from_global);
    const AuVal target = lower_address(l, c->to, &c->point, OUTSIDE_TESTED, &target_inside, false);
    if (c->row == COPY_OUTSIDE) {
        const AuVal v = pad_value(l, c->s->move.pad, lower_scalar(c->to->memory->type.elem));
        kernel_store(l->k, to->mem, target, v, c->in_row);
        return;
    }
    const AuVal when = when_value(l, c->s->move.when, &c->point);
    /* A guard belongs to the side that may be outside: the source of a padded copy, else the
     * destination. */
    if (c->s->move.pad && c->row == COPY_TESTED)
        inside = lower_both(l, inside, when);
    else if (!c->s->move.pad)
        target_inside = lower_both(l, target_inside, when);
    inside = lower_both(l, inside, c->in_row);
    AuVal v = kernel_load(l->k, from->mem, at, (uint32_t)c->width, inside,
                          inside.i ? pad_value(l, c->s->move.pad, scalar) : none);
    if (c->from->memory->type.elem != c->to->memory->type.elem)
        v = lower_encoded(l, c->to->memory->type.elem,
                          lower_decoded(l, c->from->memory->type.elem, v));
    kernel_store(l->k, to->mem, target, v, lower_both(l, target_inside, c->in_row));
}

/* Numbers that stay what they are fill a register of the machine: of a row that is inside, to one whose elements lie side by side. */
static int32_t neighbours(AuLower *l, const Copy *c, int32_t lanes)
{
    enum { LANE = 4 }; /* bytes */
    const AuTileAxis *last = &c->type->axes[c->type->count - 1];
    const AuTileMemory *to = c->to->memory;
    const AuLowerMemory *place = lower_memory(l, to);
    const int32_t bytes = tile_elem(to->type.elem)->bytes;
    const bool plain = !place->packed && !place->pair_axis && !place->part &&
                       place->swizzle_span <= 16 &&
                       lower_view_axis(c->to, to->type.count - 1) == last->name;
    if (c->row != COPY_INSIDE || to->space != TILE_PRIVATE_MEMORY || !plain || bytes >= LANE)
        return 1;
    if (c->from->memory->type.elem != to->type.elem) return 1;
    return last->size % (lanes * LANE / bytes) ? 1 : LANE / bytes;
}

/* One turn of a row, or all of them. */
static void copy_turn(AuLower *l, Copy *c, AuVal index)
{
    const AuTileAxis *last = &c->type->axes[c->type->count - 1];
    c->point.at[c->point.count++] = (AuCoord){.axis = last->name, .index = index};
    copy_element(l, c);
    c->point.count--;
}

/* Cores seldom meet rows whose elements lie apart, each of which is an access of memory, and zeros: little code is better there than all turns
 * written out. */
static bool is_loop(const AuLower *l, const Copy *c, int32_t size, int32_t lanes)
{
    enum { FEW = 2 };
    const bool seldom =
        c->row == COPY_OUTSIDE || (!c->contiguous && c->from->memory->space == TILE_GLOBAL);
    return l->r.unit->vectors && seldom && size % lanes == 0 && size > FEW * lanes;
}

/* Along the last axis, a vector of lanes at a time. */
static void copy_row(AuLower *l, Copy *c)
{
    AuKernel *k = l->k;
    const AuTileAxis *last = &c->type->axes[c->type->count - 1];
    c->width = neighbours(l, c, (int32_t)k->lanes);
    const AuVal lane = c->width == 1
                           ? kernel_lane(k)
                           : kernel_op2(k, AU_K_MUL, kernel_lane(k), kernel_i32(k, c->width));
    const int32_t lanes = (int32_t)k->lanes * c->width;
    if (is_loop(l, c, last->size, lanes)) {
        const AuVal at =
            kernel_for(k, kernel_i32(k, 0), kernel_i32(k, last->size), lanes, AU_UNROLL_NEVER);
        c->in_row = (AuVal){0};
        copy_turn(l, c, kernel_op2(k, AU_K_ADD, lane, at));
        kernel_end(k);
        return;
    }
    for (int32_t first = 0; first < last->size; first += lanes) {
        const AuVal index = kernel_op2(k, AU_K_ADD, lane, kernel_i32(k, first));
        c->in_row = first + lanes > last->size
                        ? kernel_op2(k, AU_K_LT, index, kernel_i32(k, last->size))
                        : (AuVal){0};
        copy_turn(l, c, index);
    }
}

/* Whether the source has a row, where that is one question for all of it and nothing else is asked; none: it has. */
static bool asks_once(AuLower *l, const Copy *c, AuVal *inside)
{
    const uint32_t last = c->from->memory->type.count - 1;
    AuVal there = {0};
    if (!c->contiguous || !c->s->move.pad || c->point.count + 1 != c->type->count) return false;
    if (c->type->axes[c->point.count].name != lower_view_axis(c->from, last)) return false;
    if (lower_may_be_outside(c->from, last)) return false;
    AuPoint first = c->point;
    first.at[first.count++] =
        (AuCoord){.axis = c->type->axes[c->point.count].name, .index = kernel_i32(l->k, 0)};
    lower_address(l, c->to, &first, OUTSIDE_TESTED, &there, false);
    if (there.i) return false;
    lower_address(l, c->from, &first, OUTSIDE_TESTED, inside, true);
    *inside = lower_both(l, *inside, when_value(l, c->s->move.when, &first));
    return true;
}

static void copy_rows(AuLower *l, Copy *c)
{
    AuVal inside = {0};
    if (!asks_once(l, c, &inside) || !inside.i) {
        copy_row(l, c);
        return;
    }
    kernel_if(l->k, inside);
    c->row = COPY_INSIDE;
    copy_row(l, c);
    kernel_else(l->k);
    c->row = COPY_OUTSIDE;
    copy_row(l, c);
    kernel_end(l->k);
    c->row = COPY_TESTED;
}

static void copy_axes(AuLower *l, Copy *c, uint32_t depth)
{
    AuKernel *k = l->k;
    if (depth + 1 >= c->type->count) {
        copy_rows(l, c);
        return;
    }
    const AuTileAxis *axis = &c->type->axes[depth];
    const AuVal index =
        kernel_for(k, kernel_i32(k, 0), kernel_i32(k, axis->size), 1, AU_UNROLL_NEVER);
    c->point.at[c->point.count++] = (AuCoord){.axis = axis->name, .index = index};
    copy_axes(l, c, depth + 1);
    c->point.count--;
    kernel_end(k);
}

void lower_each_copy(AuLower *l, const AuTileStmt *s)
{
    AuKernel *k = l->k;
    Copy c = {.s = s, .from = s->move.source, .to = s->move.dest, .type = s->move.source->type};
    if (!c.type->count || s->move.is_async) {
        lower_refuse(l, s->move.is_async ? "an asynchronous copy" : "a copy of a single element");
        return;
    }
    const AuLowerMemory *from = lower_memory(l, c.from->memory);
    const uint32_t last = c.from->memory->type.count - 1;
    if (!l->r.unit->vectors || c.from->memory->space != TILE_GLOBAL) {
        copy_axes(l, &c, 0);
        return;
    }
    kernel_if(k, kernel_op2(k, AU_K_EQ, from->strides[last], kernel_i64(k, 1)));
    c.contiguous = true;
    copy_axes(l, &c, 0);
    kernel_else(k);
    c.contiguous = false;
    copy_axes(l, &c, 0);
    kernel_end(k);
}

void lower_each_store(AuLower *l, const AuTileStmt *s)
{
    Move m = {.s = s, .ref = s->move.dest, .value = s->move.source};
    const AuTileType *type = s->move.source->type;
    const AuSpaces spaces = type->count ? lower_spaces(l, type) : (AuSpaces){.count = 0};
    if (s->move.dest->memory->space != TILE_GLOBAL ||
        !lower_memory(l, s->move.dest->memory)->present.i) {
        lower_each(l, &spaces, store_point, &m);
        return;
    }
    kernel_if(l->k, lower_memory(l, s->move.dest->memory)->present);
    lower_each(l, &spaces, store_point, &m);
    kernel_end(l->k);
}

/* ---- what will be read soon */

static void prefetch_rows(AuLower *l, const AuTileExpr *view, AuPoint *p)
{
    enum { LINE = 64 }; /* bytes, of x86 and of most AArch64 */
    AuKernel *k = l->k;
    const uint32_t n = p->count;
    const AuTileAxis *axis = &view->type->axes[n];
    const bool last = n + 1 == view->type->count;
    const int32_t line = LINE / tile_elem(view->memory->type.elem)->bytes;
    const AuVal none = {0}, at = last ? none
                                      : kernel_for(k, kernel_i32(k, 0), kernel_i32(k, axis->size),
                                                   1, AU_UNROLL_NEVER);
    for (int32_t first = 0; first < (last ? axis->size : 1); first += line) {
        p->at[p->count++] =
            (AuCoord){.axis = axis->name, .index = last ? kernel_i32(k, first) : at};
        if (last)
            kernel_prefetch(k, lower_memory(l, view->memory)->mem,
                            lower_address(l, view, p, OUTSIDE_CLAMPED, NULL, true));
        else
            prefetch_rows(l, view, p);
        p->count--;
    }
    if (!last) kernel_end(k);
}

/* By cores, and by blocks where products take them: the lanes of others read on while they wait. Rows whose elements do not lie side by side are left as they are. */
void lower_prefetch(AuLower *l, const AuTileStmt *s)
{
    const AuTileExpr *view = s->ahead.view;
    const AuLowerMemory *from = lower_memory(l, view->memory);
    AuPoint p = {.count = 0};
    if (l->module->caps->loads & TILE_LOADS_BLOCK) lower_blocks_ahead(l, s);
    if (!l->r.unit->vectors) return;
    kernel_if(l->k, kernel_op2(l->k, AU_K_EQ, from->strides[view->memory->type.count - 1],
                               kernel_i64(l->k, 1)));
    prefetch_rows(l, view, &p);
    kernel_end(l->k);
}
