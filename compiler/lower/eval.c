/* eval.c - one element of an expression: kernel IR for the value at a point.
 * In:  an expression whose reductions have been computed (fuse.c), a point with an index for each
 * of its axes. Out: a value; f32, i32 or i1 by the expression's type, storage types where a memory
 * or a rounding gave them. Indices into read-only tensors are clamped to the tensor, so that what a
 * `where` does not choose may be read without harm. */
#include "internal.h"

#include <math.h>
#include <string.h>

static AuScalar scalar_of(AuLower *l, AuVal v) { return (AuScalar)kernel_at(l->k, v)->type.scalar; }

AuVal lower_as(AuLower *l, AuVal v, AuScalar to)
{
    AuKernel *k = l->k;
    const AuScalar from = scalar_of(l, v);
    if (from == to) return v;
    if (from == AU_I1) {
        if (to == AU_F32) return kernel_op3(k, AU_K_SELECT, v, kernel_f32(k, 1), kernel_f32(k, 0));
        return lower_as(l, kernel_op3(k, AU_K_SELECT, v, kernel_i32(k, 1), kernel_i32(k, 0)), to);
    }
    if (to == AU_I1) {
        AuVal zero = kernel_i32(k, 0);
        if (from == AU_I64) zero = kernel_i64(k, 0);
        if (from == AU_F32) zero = kernel_f32(k, 0);
        if (from == AU_U8 || from == AU_F16 || from == AU_BF16)
            v = lower_as(l, v, from == AU_U8 ? AU_I32 : AU_F32),
            zero = lower_as(l, zero, scalar_of(l, v));
        return kernel_op2(k, AU_K_NE, v, zero);
    }
    return kernel_cvt(k, v, to);
}

AuVal lower_decoded(AuLower *l, AuTileElem elem, AuVal v)
{
    if (!tile_elem(elem)->is_code) return v;
    return kernel_op1(l->k,
                      elem == TILE_E4M3   ? AU_K_FROM_E4M3
                      : elem == TILE_E5M2 ? AU_K_FROM_E5M2
                                          : AU_K_FROM_I8,
                      v);
}

AuVal lower_encoded(AuLower *l, AuTileElem elem, AuVal v)
{
    if (!tile_elem(elem)->is_code) return lower_as(l, v, lower_scalar(elem));
    return kernel_op1(l->k,
                      elem == TILE_E4M3   ? AU_K_TO_E4M3
                      : elem == TILE_E5M2 ? AU_K_TO_E5M2
                                          : AU_K_TO_I8,
                      lower_as(l, v, AU_F32));
}

/* Arithmetic knows f32, i32 and i1 only. */
static AuVal arithmetic(AuLower *l, AuVal v)
{
    switch (scalar_of(l, v)) {
    case AU_F16:
    case AU_BF16: return lower_as(l, v, AU_F32);
    case AU_I64:
    case AU_U8: return lower_as(l, v, AU_I32);
    case AU_VOID:
    case AU_I1:
    case AU_I32:
    case AU_F32:
    case AU_SCALARS: return v;
    }
    return v;
}

AuVal lower_both(AuLower *l, AuVal a, AuVal b)
{
    if (!a.i) return b;
    if (!b.i) return a;
    return kernel_op2(l->k, AU_K_LAND, a, b);
}

static AuVal f32_floor_mod(AuLower *l, AuVal a, AuVal b)
{
    AuKernel *k = l->k;
    const AuVal q = kernel_op1(k, AU_K_FLOOR, kernel_op2(k, AU_K_DIV, a, b));
    return kernel_op2(k, AU_K_SUB, a, kernel_op2(k, AU_K_MUL, q, b));
}

/* log(e^a + e^b) = max + log1p(e^-|a - b|); equal infinities have no difference. */
static AuVal logaddexp(AuLower *l, AuVal a, AuVal b)
{
    AuKernel *k = l->k;
    const AuVal far = kernel_op1(k, AU_K_ABS, kernel_op2(k, AU_K_SUB, a, b));
    const AuVal more =
        kernel_op1(k, AU_K_LOG1P, kernel_op1(k, AU_K_EXP, kernel_op1(k, AU_K_NEG, far)));
    const AuVal equal = kernel_op2(k, AU_K_EQ, a, b);
    const AuVal add =
        kernel_op3(k, AU_K_SELECT, equal, kernel_f32(k, 0.69314718055994530942), more);
    return kernel_op2(k, AU_K_ADD, kernel_op2(k, AU_K_MAX, a, b), add);
}

static AuVal sign(AuLower *l, AuVal a)
{
    AuKernel *k = l->k;
    const bool real = scalar_of(l, a) == AU_F32;
    const AuVal zero = real ? kernel_f32(k, 0) : kernel_i32(k, 0),
                one = real ? kernel_f32(k, 1) : kernel_i32(k, 1);
    const AuVal minus = real ? kernel_f32(k, -1) : kernel_i32(k, -1);
    const AuVal below = kernel_op3(k, AU_K_SELECT, kernel_op2(k, AU_K_LT, a, zero), minus, zero);
    return kernel_op3(k, AU_K_SELECT, kernel_op2(k, AU_K_LT, zero, a), one, below);
}

/* The operation of the kernel IR that is this one of the tiled IR, on f32 or on i32; AU_K_NONE:
 * made of several. */
static AuKOp simple_op(AuTileOp op, bool real)
{
    // clang-format off
    switch ((int)op) {
    case TILE_X_ADD: return AU_K_ADD;         case TILE_X_SUB: return AU_K_SUB;   case TILE_X_MUL: return AU_K_MUL;
    case TILE_X_DIV: return real ? AU_K_DIV : AU_K_IDIV;
    case TILE_X_MOD: return real ? AU_K_NONE : AU_K_IMOD;
    case TILE_X_MIN: return AU_K_MIN;         case TILE_X_MAX: return AU_K_MAX;   case TILE_X_ABS: return AU_K_ABS;
    case TILE_X_NEG: return AU_K_NEG;
    case TILE_X_EQ: return AU_K_EQ;           case TILE_X_NE: return AU_K_NE;     case TILE_X_LT: return AU_K_LT;
    case TILE_X_LE: return AU_K_LE;
    case TILE_X_BOR: return AU_K_OR;          case TILE_X_BXOR: return AU_K_XOR;  case TILE_X_BAND: return AU_K_AND;
    case TILE_X_SHL: return AU_K_SHL;         case TILE_X_SHR: return AU_K_SHR;   case TILE_X_MULHI: return AU_K_MULHI;
    case TILE_X_FLOOR: return AU_K_FLOOR;     case TILE_X_CEIL: return AU_K_CEIL;
#define SCALAR(NAME, ...) case TILE_X_##NAME: return AU_K_##NAME;
#include "scalars.def"
    default: return AU_K_NONE;
    }
    // clang-format on
}

/* Operations whose arguments are f32 whatever was written. */
static bool is_real_function(AuTileOp op) { return tile_op(op)->result == TILE_RESULT_F32; }

static AuVal composed(AuLower *l, AuTileOp op, const AuVal *a, bool real)
{
    AuKernel *k = l->k;
    switch ((int)op) {
    case TILE_X_GT: return kernel_op2(k, AU_K_LT, a[1], a[0]);
    case TILE_X_GE: return kernel_op2(k, AU_K_LE, a[1], a[0]);
    case TILE_X_MOD: return f32_floor_mod(l, a[0], a[1]);
    case TILE_X_BNOT: return kernel_op2(k, AU_K_XOR, a[0], kernel_i32(k, -1));
    case TILE_X_CLAMP: return kernel_op2(k, AU_K_MIN, kernel_op2(k, AU_K_MAX, a[0], a[1]), a[2]);
    case TILE_X_CDIV: {
        const AuVal up =
            kernel_op2(k, AU_K_SUB, kernel_op2(k, AU_K_ADD, a[0], a[1]), kernel_i32(k, 1));
        return kernel_op2(k, AU_K_IDIV, up, a[1]);
    }
    case TILE_X_SIGN: return sign(l, a[0]);
    case TILE_X_RELU: return kernel_op2(k, AU_K_MAX, a[0], kernel_f32(k, 0));
    case TILE_X_FMA: return kernel_op3(k, AU_K_FMA, a[0], a[1], a[2]);
    case TILE_X_LOGADDEXP: return logaddexp(l, a[0], a[1]);
    default:
        lower_refuse(l, "operation %d has no lowering (%s)", (int)op, real ? "f32" : "i32");
        return kernel_i32(k, 0);
    }
}

/* a * b + c, a * b - c and c - a * b are one instruction of a GPU; none: it is none of these. */
static AuVal multiply_add(AuLower *l, const AuTileExpr *e, const AuPoint *p)
{
    AuKernel *k = l->k;
    const AuVal none = {0};
    const bool fuses = l->r.unit->fuses || l->module->options.fused;
    if (!fuses || (e->op != TILE_X_ADD && e->op != TILE_X_SUB)) return none;
    const uint32_t at = e->args.at[0]->op == TILE_X_MUL ? 0 : 1;
    const AuTileExpr *product = e->args.at[at];
    if (product->op != TILE_X_MUL || !e->type || e->type->elem != TILE_F32 || !product->type ||
        product->type->elem != TILE_F32)
        return none;
    AuVal v[3];
    for (uint32_t n = 0; n < 2; n++)
        v[n] = lower_as(l, arithmetic(l, lower_eval(l, product->args.at[n], p)), AU_F32);
    v[2] = lower_as(l, arithmetic(l, lower_eval(l, e->args.at[1 - at], p)), AU_F32);
    if (e->op == TILE_X_SUB) v[at ? 0 : 2] = kernel_op1(k, AU_K_NEG, v[at ? 0 : 2]);
    return kernel_op3(k, AU_K_FMA, v[0], v[1], v[2]);
}

static AuVal numeric(AuLower *l, const AuTileExpr *e, const AuPoint *p)
{
    const AuVal fused = multiply_add(l, e, p);
    if (fused.i) return fused;
    AuVal a[3] = {{0}};
    bool real = is_real_function(e->op);
    for (uint32_t n = 0; n < e->args.count && n < 3; n++) {
        a[n] = arithmetic(l, lower_eval(l, e->args.at[n], p));
        real |= scalar_of(l, a[n]) == AU_F32;
    }
    for (uint32_t n = 0; n < e->args.count && n < 3; n++)
        a[n] = lower_as(l, a[n], real ? AU_F32 : AU_I32);
    if (!real && (e->op == TILE_X_FLOOR || e->op == TILE_X_CEIL)) return a[0];
    const AuKOp op = simple_op(e->op, real);
    if (op == AU_K_NONE) return composed(l, e->op, a, real);
    return e->args.count == 1 ? kernel_op1(l->k, op, a[0]) : kernel_op2(l->k, op, a[0], a[1]);
}

/* An i64 that does not fit is told from what its low half would be. */
static AuVal narrow(AuLower *l, const AuTileExpr *e, const AuPoint *p)
{
    AuKernel *k = l->k;
    const AuVal v = lower_eval(l, e->args.at[0], p);
    if (scalar_of(l, v) != AU_I64) return lower_as(l, arithmetic(l, v), AU_I32);
    const AuVal low = kernel_cvt(k, v, AU_I32);
    return kernel_op3(k, AU_K_SELECT, kernel_op2(k, AU_K_EQ, kernel_cvt(k, low, AU_I64), v), low,
                      kernel_i32(k, -1));
}

static AuVal high(AuLower *l, const AuTileExpr *e, const AuPoint *p)
{
    AuKernel *k = l->k;
    AuVal v = lower_eval(l, e->args.at[0], p);
    if (scalar_of(l, v) != AU_I64) v = kernel_cvt(k, lower_as(l, arithmetic(l, v), AU_I32), AU_I64);
    return kernel_cvt(k, kernel_op2(k, AU_K_SHR, v, kernel_i64(k, 32)), AU_I32);
}

static AuVal logic(AuLower *l, const AuTileExpr *e, const AuPoint *p)
{
    const AuVal a = lower_as(l, lower_eval(l, e->args.at[0], p), AU_I1);
    if (e->op == TILE_X_NOT) return kernel_op1(l->k, AU_K_LNOT, a);
    const AuVal b = lower_as(l, lower_eval(l, e->args.at[1], p), AU_I1);
    return kernel_op2(l->k, e->op == TILE_X_AND ? AU_K_LAND : AU_K_LOR, a, b);
}

static AuVal where(AuLower *l, const AuTileExpr *e, const AuPoint *p)
{
    const AuVal c = lower_as(l, lower_eval(l, e->args.at[0], p), AU_I1);
    AuVal a = arithmetic(l, lower_eval(l, e->args.at[1], p)),
          b = arithmetic(l, lower_eval(l, e->args.at[2], p));
    const AuScalar sa = scalar_of(l, a), sb = scalar_of(l, b);
    const AuScalar to = sa == AU_F32 || sb == AU_F32 ? AU_F32
                        : sa == AU_I1 && sb == AU_I1 ? AU_I1
                                                     : AU_I32;
    a = lower_as(l, a, to), b = lower_as(l, b, to);
    if (to == AU_I1) { /* (c && a) || (!c && b) */
        const AuVal no = kernel_op2(l->k, AU_K_LAND, kernel_op1(l->k, AU_K_LNOT, c), b);
        return kernel_op2(l->k, AU_K_LOR, kernel_op2(l->k, AU_K_LAND, c, a), no);
    }
    return kernel_op3(l->k, AU_K_SELECT, c, a, b);
}

const AuCoord *lower_coordinate(AuLower *l, const AuPoint *p, const char *axis)
{
    for (uint32_t n = 0; n < p->count; n++)
        if (p->at[n].axis == axis) return &p->at[n];
    lower_refuse(l, "axis %s has no place here", axis);
    return NULL;
}

/* What the fused loops computed at this point already. */
static AuVal known_value(AuLower *l, const AuTileVar *var, const AuTileExpr *reduction,
                         const AuPoint *p)
{
    for (uint32_t n = l->r.known_count; n-- > 0;) {
        const AuKnown *x = &l->r.known[n];
        if ((var && x->var != var) || (reduction && x->reduction != reduction)) continue;
        if (x->value.i) return x->value;
        return kernel_load(l->k, x->mem, lower_register(l, x->type, p), 1, (AuVal){0}, (AuVal){0});
    }
    return (AuVal){0};
}

void lower_visit(AuLower *l, const AuPoint *p)
{
    l->r.point = p;
    l->r.visits++;
}

void lower_leave(AuLower *l) { l->r.point = NULL; }

/* Evaluated once a visit: formulas are made of formulas, each used any number of times. */
static AuVal formula(AuLower *l, AuHeld *held, const AuPoint *p)
{
    if (p != l->r.point) return lower_eval(l, held->formula, p);
    if (held->visit != l->r.visits) {
        held->value = lower_eval(l, held->formula, p);
        held->visit = l->r.visits;
    }
    return held->value;
}

static AuVal read_var(AuLower *l, const AuTileVar *var, const AuPoint *p)
{
    const AuVal known = known_value(l, var, NULL, p);
    if (known.i) return known;
    const AuHeld *held = lower_held(l, var);
    const AuVal none = {0};
    switch (held->as) {
    case HELD_VALUE: return held->value;
    case HELD_CELL: return kernel_load(l->k, held->mem, kernel_i32(l->k, 0), 1, none, none);
    case HELD_ARRAY:
        if (lower_count(l, var)->pair_axis) break; /* only products read those */
        return kernel_load(l->k, held->mem, lower_register(l, var->type, p), 1, none, none);
    case HELD_FORMULA: return formula(l, lower_held(l, var), p);
    case HELD_NOT: break;
    }
    lower_refuse(l, "variable %s has no value here", var->name);
    return kernel_i32(l->k, 0);
}

/* An element of a memory inside an expression. */
static AuVal gather(AuLower *l, const AuTileExpr *e, const AuPoint *p)
{
    const AuLowerMemory *place = lower_memory(l, e->memory);
    const AuVal none = {0}, at = lower_address(l, e, p, OUTSIDE_CLAMPED, NULL, false);
    return lower_decoded(l, e->memory->type.elem, kernel_load(l->k, place->mem, at, 1, none, none));
}

/* A sum, and the numbers in it apart; what is made of very many is left whole, since values stand in sums more than once. */
typedef struct Apart {
    AuKernel *k;
    int64_t number;
    uint32_t left; /* values to look at */
} Apart;

/* The sum without its numbers, which count as often as [sign] says; none: it has no more than these. */
static AuVal without_numbers(Apart *x, AuVal v, int sign)
{
    const AuInstr in = *kernel_at(x->k, v);
    if (in.op == AU_K_CONST) {
        x->number += sign * in.imm;
        return (AuVal){0};
    }
    if ((in.op != AU_K_ADD && in.op != AU_K_SUB) || x->left < 2) return v;
    x->left -= 2;
    const bool less = in.op == AU_K_SUB;
    const AuVal a = kernel_operand(x->k, &in, 0), b = kernel_operand(x->k, &in, 1);
    AuVal first = without_numbers(x, a, sign);
    const AuVal second = without_numbers(x, b, less ? -sign : sign);
    if (first.i == a.i && second.i == b.i) return v;
    if (!second.i) return first;
    if (!first.i && !less) return second;
    if (!first.i) first = kernel_i32(x->k, 0);
    return kernel_op2(x->k, in.op, first, second);
}

/* A place, or a distance of places, as a number: f32(x + 24) is f32(x) + 24, which is as exact below 2^24. So a tile has one conversion a lane, and
 * an addition a register, of what is often a number known now. */
static AuVal number_of_place(AuLower *l, const AuTileExpr *e, const AuPoint *p)
{
    enum { MOST = 1 << 16, VALUES = 32 };
    const AuVal v = lower_eval(l, e, p);
    if (e->type->elem != TILE_I32 || !tile_is_virtual(e->type) ||
        kernel_at(l->k, v)->type.scalar != AU_I32)
        return lower_as(l, v, AU_F32);
    Apart x = {.k = l->k, .left = VALUES};
    const AuVal rest = without_numbers(&x, v, 1);
    if (!rest.i || !x.number || x.number > MOST || x.number < -MOST) return lower_as(l, v, AU_F32);
    return kernel_op2(l->k, AU_K_ADD, lower_as(l, rest, AU_F32),
                      kernel_f32(l->k, (double)x.number));
}

static AuVal reduction(AuLower *l, const AuTileExpr *e, const AuPoint *p)
{
    const AuVal v = known_value(l, NULL, e, p);
    if (v.i) return v;
    lower_refuse(l, "a reduction is used where it was not computed");
    return kernel_f32(l->k, 0);
}

static AuVal rounded(AuLower *l, AuVal v, AuScalar to)
{
    return scalar_of(l, v) == to ? v : lower_as(l, lower_as(l, v, AU_F32), to);
}

static AuVal value_of(AuLower *l, const AuTileExpr *e, const AuPoint *p)
{
    AuKernel *k = l->k;
    switch ((int)e->op) {
    case TILE_X_INT: return kernel_i32(k, (int32_t)e->integer);
    case TILE_X_FLOAT: return kernel_f32(k, e->number);
    case TILE_X_BOOL: return kernel_i1(k, e->integer != 0);
    case TILE_X_NAME: return read_var(l, e->var, p);
    case TILE_X_REF: return gather(l, e, p);
    case TILE_X_NARROW: return narrow(l, e, p);
    case TILE_X_HIGH: return high(l, e, p);
    case TILE_X_AND:
    case TILE_X_OR:
    case TILE_X_NOT: return logic(l, e, p);
    case TILE_X_WHERE: return where(l, e, p);
    case TILE_X_TO_F32: return number_of_place(l, e->args.at[0], p);
    case TILE_X_TO_F16: return rounded(l, lower_eval(l, e->args.at[0], p), AU_F16);
    case TILE_X_TO_BF16: return rounded(l, lower_eval(l, e->args.at[0], p), AU_BF16);
    case TILE_X_TO_I32: return lower_as(l, arithmetic(l, lower_eval(l, e->args.at[0], p)), AU_I32);
    case TILE_X_TO_BOOL: return lower_as(l, lower_eval(l, e->args.at[0], p), AU_I1);
    case TILE_X_FILL: return lower_as(l, lower_eval(l, e->args.at[1], p), AU_F32);
    case TILE_X_REDUCE_MAX:
    case TILE_X_REDUCE_MAXNAN:
    case TILE_X_REDUCE_TOP:
    case TILE_X_REDUCE_SUM:
    case TILE_X_ROWMAX:
    case TILE_X_ROWSUM: return reduction(l, e, p);
    case TILE_X_IOTA: {
        const AuCoord *c = lower_coordinate(l, p, e->name);
        return c ? c->index : kernel_i32(k, 0);
    }
    case TILE_X_FIRST: return lower_first_tile(l, e->list);
    case TILE_X_NEXT: return lower_next_tile(l, e->var);
    case TILE_X_COUNT: {
        const AuTiles *tiles = lower_tiles(l, e->list);
        return tiles ? tiles->total : kernel_i32(k, 0);
    }
    case TILE_X_CUMSUM:
        lower_refuse(l, "a running sum inside of an expression");
        return kernel_f32(k, 0);
    case TILE_X_ANYWHERE:
        if (e->args.at[0]->op == TILE_X_NAME && e->args.at[0]->type->count)
            return lower_is_anywhere(l, e->args.at[0]->var);
        break;
    case TILE_X_TUPLE:
    case TILE_X_CALL:
    case TILE_X_ALL:
    case TILE_X_SPAN: break;
    default: return numeric(l, e, p);
    }
    lower_refuse(l, "this expression has no lowering here");
    return kernel_i32(k, 0);
}

static AuVal value_at(AuLower *l, const AuTileExpr *e, const AuPoint *p)
{
    const AuSpan before = l->k->at;
    lower_at(l, e->span);
    const AuVal v = value_of(l, e, p);
    l->k->at = before;
    return v;
}

AuVal lower_integer(AuLower *l, const AuTileExpr *e)
{
    const AuPoint nowhere = {.count = 0};
    return lower_as(l, lower_eval(l, e, &nowhere), AU_I32);
}

AuVal lower_eval(AuLower *l, const AuTileExpr *e, const AuPoint *p)
{
    if (l->r.point) return value_at(l, e, p);
    lower_visit(l, p);
    const AuVal v = value_at(l, e, p);
    lower_leave(l);
    return v;
}
