/* transfer.c - loads, stores and copies of executors whose lanes are threads.
 *
 * Memory moves in pieces: 16 bytes a lane between memories, in fragments as much as a lane holds side
 * by side. Pieces ask for a contiguous last axis and for rows and a base that are multiples of 16
 * bytes: of shared memory and workspace known here, of tensors at the launch, so there the code
 * exists twice under one uniform branch, the other time element by element.
 * Asynchronous copies pad with zeros by the number of bytes that a lane's piece has in the tensor. */
#include "internal.h"

#include "aule/artifact.h"

enum { PIECE = 16, MOST_WRITTEN_OUT = 32 };

/* ---- what is known of alignment */

/* The largest power of two that divides the expression for sure, at most 64. */
static int32_t divisor(const AuTileExpr *e)
{
    enum { MOST = 64 };
    if (e->op == TILE_X_INT) {
        int32_t d = 1;
        while (d < MOST && e->integer % (2 * d) == 0) d *= 2;
        return d;
    }
    if (e->op != TILE_X_MUL && e->op != TILE_X_ADD && e->op != TILE_X_SUB) return 1;
    const int32_t a = divisor(e->args.at[0]), b = divisor(e->args.at[1]);
    if (e->op == TILE_X_MUL) return a * b < MOST ? a * b : MOST;
    return a < b ? a : b;
}

bool lower_starts_at(const AuTileExpr *index, int32_t unit)
{
    if (!index || index->op == TILE_X_ALL) return true;
    return index->op == TILE_X_SPAN && divisor(index->args.at[0]) % unit == 0;
}

static bool is_known(AuLower *l, AuVal v, bool value)
{
    const AuInstr *in = kernel_at(l->k, v);
    return in->op == AU_K_CONST && (in->imm & 1) == value;
}

void lower_vector_condition(AuLower *l, AuPlace *place, const AuLowerTensor *from)
{
    AuKernel *k = l->k;
    const AuTileMemory *m = place->memory;
    const int32_t bytes = tile_elem(m->type.elem)->bytes;
    place->by_vectors = kernel_i1(k, false);
    if (!m->type.count || place->pair_axis) return;
    const uint32_t last = m->type.count - 1;
    if (!from || from->slot != AULE_SLOT_TENSOR) { /* all elements side by side, or rows spread */
        const AuVal pitch = last ? place->strides[last - 1] : kernel_i64(k, 0);
        const AuInstr *in = kernel_at(k, pitch);
        place->by_vectors = kernel_i1(k, in->op == AU_K_CONST && in->imm * bytes % PIECE == 0);
        return;
    }
    AuVal all = kernel_arg(k, au_format(l->arena, "%s_address", m->name), AU_ARG_I64,
                           AULE_SLOT_TENSOR, from->index, 0);
    for (uint32_t n = 0; n < last; n++)
        all = kernel_op2(k, AU_K_OR, all,
                         kernel_op2(k, AU_K_MUL, place->strides[n], kernel_i64(k, bytes)));
    const AuVal low = kernel_op2(k, AU_K_AND, all, kernel_i64(k, PIECE - 1));
    place->by_vectors = lower_both(l, kernel_op2(k, AU_K_EQ, low, kernel_i64(k, 0)),
                                   kernel_op2(k, AU_K_EQ, place->strides[last], kernel_i64(k, 1)));
}

/* Do the view's elements along its last axis lie side by side, beginning at a multiple of [unit],
 * and its axis there is [axis]? */
static bool in_pieces(AuLower *l, const AuTileExpr *ref, const char *axis, int32_t unit)
{
    const uint32_t last = ref->memory->type.count - 1;
    const AuTileType *view = ref->type;
    if (!view->count || view->axes[view->count - 1].name != axis ||
        is_known(l, lower_place(l, ref->memory)->by_vectors, false))
        return false;
    return lower_starts_at(ref->has_index ? ref->args.at[last] : NULL, unit);
}

/* Is a piece inside as a whole, if its first element is? */
static bool is_whole(const AuTileExpr *ref, int32_t unit)
{
    const uint32_t last = ref->memory->type.count - 1;
    const AuTileAxis *axis = &ref->memory->type.axes[last];
    return !lower_may_be_outside(ref, last) || (axis->size && axis->size % unit == 0);
}

static AuVal condition(AuLower *l, const AuTileExpr *when, const AuPoint *p)
{
    return when ? lower_as(l, lower_eval(l, when, p), AU_I1) : (AuVal){0};
}

static AuVal padding(AuLower *l, const AuTileExpr *pad, AuScalar scalar)
{
    const AuPoint nowhere = {.count = 0};
    const bool real = scalar == AU_F32 || scalar == AU_F16 || scalar == AU_BF16;
    if (pad) return lower_as(l, lower_eval(l, pad, &nowhere), scalar);
    return lower_as(l, real ? kernel_f32(l->k, 0) : kernel_i32(l->k, 0), scalar);
}

static bool is_zero(const AuTileExpr *e)
{
    return !e || (e->op == TILE_X_INT && !e->integer) || (e->op == TILE_X_FLOAT && e->number == 0);
}

/* ---- copies between memories */

typedef struct Transfer {
    const AuTileStmt *s;
    const AuTileExpr *from, *to;
    const AuTileType *type; /* of the source's view */
    int32_t unit;           /* elements a lane moves at once */
    int32_t units;          /* of them along the last axis */
    int32_t total;
} Transfer;

/* Number [flat] of the pieces, the last axis fastest. */
static AuPoint piece_at(AuLower *l, const Transfer *x, AuVal flat)
{
    AuKernel *k = l->k;
    AuPoint p = {.count = x->type->count};
    for (uint32_t n = x->type->count; n-- > 0;) {
        const bool last = n + 1 == x->type->count;
        const AuVal size = kernel_i32(k, last ? x->units : x->type->axes[n].size);
        const AuVal at = n ? kernel_op2(k, AU_K_IMOD, flat, size) : flat;
        if (n) flat = kernel_op2(k, AU_K_IDIV, flat, size);
        p.at[n] =
            (AuCoord){.axis = x->type->axes[n].name,
                      .index = last ? kernel_op2(k, AU_K_MUL, at, kernel_i32(k, x->unit)) : at};
    }
    return p;
}

/* How many bytes of a piece the tensor has. */
static AuVal bytes_valid(AuLower *l, const Transfer *x, const AuPoint *p, AuVal inside)
{
    AuKernel *k = l->k;
    const AuTileMemory *m = x->from->memory;
    const uint32_t last = m->type.count - 1;
    const int32_t bytes = tile_elem(m->type.elem)->bytes;
    AuVal valid = kernel_i32(k, PIECE);
    if (!is_whole(x->from, x->unit)) {
        const AuTileExpr *index = x->from->has_index ? x->from->args.at[last] : NULL;
        AuVal at = p->at[p->count - 1].index;
        if (index && index->op == TILE_X_SPAN)
            at = kernel_op2(k, AU_K_ADD, at,
                            lower_as(l, lower_eval(l, index->args.at[0], p), AU_I32));
        const AuVal left =
            kernel_op2(k, AU_K_MUL, kernel_op2(k, AU_K_SUB, lower_place(l, m)->extents[last], at),
                       kernel_i32(k, bytes));
        valid = kernel_op2(k, AU_K_MIN, valid, left);
    }
    return inside.i ? kernel_op3(k, AU_K_SELECT, inside, valid, kernel_i32(k, 0)) : valid;
}

/* One lane's piece; [mine]: whether this lane has one, none: all have. */
static void move_piece(AuLower *l, const Transfer *x, AuVal flat, AuVal mine)
{
    AuKernel *k = l->k;
    const AuPoint p = piece_at(l, x, flat);
    AuPlace *from = lower_place(l, x->from->memory), *to = lower_place(l, x->to->memory);
    AuVal inside = {0}, target_inside = {0}, none = {0};
    const AuVal at = lower_piece_address(
        l, x->from, &p, x->s->move.pad ? OUTSIDE_TESTED : OUTSIDE_TRUSTED, &inside, x->unit);
    const AuVal target = lower_piece_address(
        l, x->to, &p, x->s->move.clip ? OUTSIDE_TESTED : OUTSIDE_TRUSTED, &target_inside, x->unit);
    const AuVal when = condition(l, x->s->move.when, &p);
    if (x->s->move.pad)
        inside = lower_both(l, inside, when);
    else
        target_inside = lower_both(l, target_inside, when);
    target_inside = lower_both(l, lower_both(l, target_inside, mine), to->present);
    if (x->s->move.is_async) {
        kernel_copy_async(k, to->mem, target, from->mem, at, bytes_valid(l, x, &p, inside), PIECE,
                          target_inside);
        return;
    }
    inside = lower_both(l, lower_both(l, inside, mine), to->present);
    kernel_store(k, to->mem, target, kernel_load(k, from->mem, at, (uint32_t)x->unit, inside, none),
                 target_inside);
}

static void move_element(AuLower *l, const Transfer *x, AuVal flat, AuVal mine)
{
    AuKernel *k = l->k;
    const AuPoint p = piece_at(l, x, flat);
    AuPlace *from = lower_place(l, x->from->memory), *to = lower_place(l, x->to->memory);
    const AuScalar scalar = lower_scalar(x->from->memory->type.elem);
    AuVal inside = {0}, target_inside = {0}, none = {0};
    const AuVal at = lower_address(
        l, x->from, &p, x->s->move.pad ? OUTSIDE_TESTED : OUTSIDE_TRUSTED, &inside, false);
    const AuVal target = lower_address(
        l, x->to, &p, x->s->move.clip ? OUTSIDE_TESTED : OUTSIDE_TRUSTED, &target_inside, false);
    const AuVal when = condition(l, x->s->move.when, &p);
    if (x->s->move.pad)
        inside = lower_both(l, inside, when);
    else
        target_inside = lower_both(l, target_inside, when);
    inside = lower_both(l, lower_both(l, inside, mine), to->present);
    target_inside = lower_both(l, lower_both(l, target_inside, mine), to->present);
    AuVal v = kernel_load(k, from->mem, at, 1, inside,
                          inside.i ? padding(l, x->s->move.pad, scalar) : none);
    v = lower_as(l, v, lower_scalar(x->to->memory->type.elem));
    kernel_store(k, to->mem, target, v, target_inside);
}

static void all_pieces(AuLower *l, const Transfer *x,
                       void (*move)(AuLower *l, const Transfer *x, AuVal flat, AuVal mine))
{
    AuKernel *k = l->k;
    const int32_t lanes = (int32_t)k->lanes, turns = (x->total + lanes - 1) / lanes;
    const bool ragged = x->total % lanes != 0,
               written_out = x->unit > 1 && turns <= MOST_WRITTEN_OUT;
    for (int32_t t = 0; t < (written_out ? turns : 1); t++) {
        const AuVal turn =
            written_out ? kernel_i32(k, t)
                        : kernel_for(k, kernel_i32(k, 0), kernel_i32(k, turns), 1, AU_UNROLL_NEVER);
        const AuVal flat = kernel_op2(
            k, AU_K_ADD, kernel_op2(k, AU_K_MUL, turn, kernel_i32(k, lanes)), kernel_lane(k));
        const bool tested = ragged && (!written_out || t + 1 == turns);
        move(l, x, flat,
             tested ? kernel_op2(k, AU_K_LT, flat, kernel_i32(k, x->total)) : (AuVal){0});
        if (!written_out) kernel_end(k);
    }
}

static void by_elements(AuLower *l, Transfer x)
{
    x.unit = 1;
    x.units = x.type->axes[x.type->count - 1].size;
    x.total = (int32_t)tile_elements(x.type);
    all_pieces(l, &x, move_element);
}

void lower_transfer(AuLower *l, const AuTileStmt *s)
{
    AuKernel *k = l->k;
    Transfer x = {.s = s, .from = s->move.source, .to = s->move.dest, .type = s->move.source->type};
    if (!x.type->count || x.type->count > 6) {
        lower_refuse(l, "a copy of this shape");
        return;
    }
    const AuTileElem elem = x.from->memory->type.elem;
    const AuTileAxis *last = &x.type->axes[x.type->count - 1];
    x.unit = PIECE / tile_elem(elem)->bytes;
    x.units = last->size / x.unit;
    x.total = (int32_t)tile_elements(x.type) / x.unit;
    const bool pieces = elem == x.to->memory->type.elem && last->size % x.unit == 0 &&
                        is_zero(s->move.pad) && in_pieces(l, x.from, last->name, x.unit) &&
                        in_pieces(l, x.to, last->name, x.unit) && is_whole(x.to, x.unit) &&
                        (s->move.is_async || is_whole(x.from, x.unit));
    const AuVal both = lower_both(l, lower_place(l, x.from->memory)->by_vectors,
                                  lower_place(l, x.to->memory)->by_vectors);
    if (!pieces)
        by_elements(l, x);
    else if (is_known(l, both, true))
        all_pieces(l, &x, move_piece);
    else {
        kernel_if(k, both);
        all_pieces(l, &x, move_piece);
        kernel_else(k);
        by_elements(l, x);
        kernel_end(k);
    }
    if (s->move.is_async) lower_issue(l, s);
}

/* ---- fragments: loads, stores, sums */

typedef struct Registers {
    const AuTileStmt *s;
    const AuTileExpr *ref;
    const AuTileType *type;  /* of the fragment */
    const AuTileVar *var;    /* load */
    const AuTileExpr *value; /* store, atomic_add */
    int32_t wide;            /* elements that lie side by side in the lane and in memory */
    uint32_t fast;           /* their axis */
    bool atomic;
} Registers;

/* The point of the fragment's registers; along the fast axis one of [wide] further on. */
static AuPoint registers_at(AuLower *l, const Registers *x, const int32_t *regs, int32_t further)
{
    AuPoint p = {.count = x->type->count};
    for (uint32_t n = 0; n < p.count; n++)
        p.at[n] = lower_coord(l, &x->type->axes[n],
                              regs[n] + (x->wide > 1 && n == x->fast ? further : 0));
    return p;
}

static void load_registers(AuLower *l, const Registers *x, const int32_t *regs)
{
    AuKernel *k = l->k;
    const AuPlace *place = lower_place(l, x->ref->memory);
    const AuScalar scalar = lower_scalar(x->ref->memory->type.elem);
    const AuPoint first = registers_at(l, x, regs, 0);
    const AuTileExpr *pad = x->s->load.pad;
    const AuOutside outside = pad ? OUTSIDE_TESTED : OUTSIDE_TRUSTED;
    AuVal inside = {0}, none = {0};
    const AuVal at = x->wide > 1 ? lower_piece_address(l, x->ref, &first, outside, &inside, x->wide)
                                 : lower_address(l, x->ref, &first, outside, &inside, false);
    inside = lower_both(l, inside, condition(l, x->s->load.when, &first));
    const AuVal other = inside.i && x->wide == 1 ? padding(l, pad, scalar) : none;
    const AuVal v = kernel_load(k, place->mem, at, (uint32_t)x->wide, inside, other);
    for (int32_t i = 0; i < x->wide; i++) {
        const AuPoint p = registers_at(l, x, regs, i);
        const AuVal one = x->wide > 1 ? kernel_element(k, v, (uint32_t)i) : v;
        kernel_store(k, lower_var_array(l, x->var), lower_register(l, x->type, &p),
                     lower_as(l, one, lower_scalar(x->type->elem)), none);
    }
}

static void store_registers(AuLower *l, const Registers *x, const int32_t *regs)
{
    AuKernel *k = l->k;
    const AuPlace *place = lower_place(l, x->ref->memory);
    const AuScalar scalar = lower_scalar(x->ref->memory->type.elem);
    const AuPoint first = registers_at(l, x, regs, 0);
    const AuOutside outside = x->s->move.clip ? OUTSIDE_TESTED : OUTSIDE_TRUSTED;
    AuVal inside = {0}, v[16];
    const AuVal at = x->wide > 1 ? lower_piece_address(l, x->ref, &first, outside, &inside, x->wide)
                                 : lower_address(l, x->ref, &first, outside, &inside, false);
    inside = lower_both(l, inside, condition(l, x->s->move.when, &first));
    inside = lower_both(l, inside, lower_holds(l, x->type));
    for (int32_t i = 0; i < x->wide; i++) {
        const AuPoint p = registers_at(l, x, regs, i);
        v[i] = lower_as(l, lower_eval(l, x->value, &p), scalar);
    }
    const AuVal all = x->wide > 1 ? kernel_vec(k, v, (uint32_t)x->wide) : v[0];
    if (!x->atomic) {
        kernel_store(k, place->mem, at, all, inside);
        return;
    }
    const AuVal operands[3] = {at, all, inside};
    kernel_emit(k, (AuInstr){.op = AU_K_ATOMIC_ADD, .mem = place->mem, .span = l->span}, operands,
                inside.i ? 3 : 2);
}

static void all_registers(AuLower *l, const Registers *x)
{
    int32_t regs[TILE_MAX_AXES] = {0};
    for (;;) {
        if (x->var)
            load_registers(l, x, regs);
        else
            store_registers(l, x, regs);
        uint32_t n = x->type->count;
        while (n-- > 0) {
            regs[n] += n == x->fast ? x->wide : 1;
            if (regs[n] < tile_axis_registers(x->type->axes[n].places)) break;
            regs[n] = 0;
        }
        if (n >= x->type->count || l->failed) return;
    }
}

/* How many of a lane's registers are neighbours in memory. */
static void widen(AuLower *l, Registers *x, const AuTileExpr *when)
{
    enum { MOST_ADDED = 2 };
    const AuTileType *view = x->ref->type;
    x->wide = 1, x->fast = TILE_MAX_AXES;
    const AuTileElem elem = x->ref->memory->type.elem;
    if (!view->count || when || (x->atomic && elem != TILE_F32)) return;
    const char *name = view->axes[view->count - 1].name;
    for (uint32_t n = 0; n < x->type->count; n++)
        if (x->type->axes[n].name == name) x->fast = n;
    if (x->fast == TILE_MAX_AXES) return;
    const AuTileDigit *first = &x->type->axes[x->fast].places->digits.at[0];
    if (first->unit != TILE_UNIT_REG) return;
    const int32_t most = x->atomic ? MOST_ADDED : PIECE / tile_elem(elem)->bytes;
    int32_t wide = 1;
    while (wide * 2 <= most && first->size % (wide * 2) == 0 && is_whole(x->ref, wide * 2) &&
           in_pieces(l, x->ref, name, wide * 2))
        wide *= 2;
    x->wide = wide;
}

static void move_registers(AuLower *l, Registers *x, const AuTileExpr *when)
{
    for (uint32_t n = 0; n < x->type->count; n++)
        if (!x->type->axes[n].places) {
            lower_refuse(l, "axis %s has no layout here", x->type->axes[n].name);
            return;
        }
    widen(l, x, when);
    const AuPlace *place = lower_place(l, x->ref->memory);
    const bool guarded = !x->var && place->present.i;
    if (guarded) kernel_if(l->k, place->present);
    if (x->wide == 1 || is_known(l, place->by_vectors, true))
        all_registers(l, x);
    else {
        kernel_if(l->k, place->by_vectors);
        all_registers(l, x);
        kernel_else(l->k);
        x->wide = 1;
        all_registers(l, x);
        kernel_end(l->k);
    }
    if (guarded) kernel_end(l->k);
}

void lower_fragment_load(AuLower *l, const AuTileStmt *s)
{
    if (lower_load_squares(l, s)) return;
    Registers x = {.s = s, .ref = s->load.source, .type = s->var->type, .var = s->var};
    if (!is_zero(s->load.pad)) {
        x.wide = 1, x.fast = TILE_MAX_AXES;
        all_registers(l, &x);
        return;
    }
    move_registers(l, &x, s->load.when);
}

void lower_fragment_move(AuLower *l, const AuTileStmt *s)
{
    Registers x = {.s = s,
                   .ref = s->move.dest,
                   .type = s->move.source->type,
                   .value = s->move.source,
                   .atomic = s->move.op == TILE_ATOMIC_ADD};
    move_registers(l, &x, s->move.when);
}
