/* rowfunc.c - functions of a whole row of channels: sum, mean, l2norm, rmsnorm, rope. In a row mod the row is the one whose
 * element is modified, in `linear` it is the row of keys or values that the argument is made of. */
#include "check.h"

enum { CHANNELS = AU_AX_C | AU_AX_K | AU_AX_V };

/* The width of the row, as i32; none if it cannot be told. */
static AuExpr width_of(const AuCheck *c, uint8_t axes)
{
    switch (c->site) {
    case AU_SITE_Q_MOD: return check_axis(c, AU_ROLE_Q, 3);
    case AU_SITE_K_MOD: return check_axis(c, AU_ROLE_K, 3);
    case AU_SITE_V_MOD:
    case AU_SITE_OUT_MOD: return check_axis(c, AU_ROLE_V, 3);
    default: return check_axis(c, axes & AU_AX_V ? AU_ROLE_V : AU_ROLE_K, 3);
    }
}

static AuValue square_sum(AuCheck *c, AuValue x, AuSpan span)
{
    return value_unary(c, AU_OP_ROW_SUM_C, value_binary(c, AU_OP_MUL, x, x, span), span);
}

/* x / sqrt(s + eps) */
static AuValue normalised(AuCheck *c, const AuAst *e, AuValue x, AuValue s, const AuValue *args)
{
    const AuValue eps = e->args.count > 1 ? value_to_f32(c, args[1], e->args.items[1]->span, "eps")
                                          : value_float(c, 1e-6, e->span);
    const AuValue root =
        value_unary(c, AU_OP_SQRT, value_binary(c, AU_OP_ADD, s, eps, e->span), e->span);
    return value_binary(c, AU_OP_DIV, x, root, e->span);
}

static bool integer_argument(AuCheck *c, const AuAst *e, uint32_t n, AuValue v, const char *what)
{
    if (v.type == AU_T_I32) return true;
    if (v.type != AU_T_NONE)
        check_error(c, AU_E0318, e->args.items[n]->span, "%s of %s is an integer, found %s", what,
                    e->name, value_type_text(v.type));
    return false;
}

/* What can be said of first and count now; the rest is checked at launch. */
static bool rope_range_is_good(AuCheck *c, const AuAst *e, AuValue first, AuValue count,
                               AuValue width)
{
    int64_t f = 0, n = 0, w = 0;
    const AuNode *size = attn_at(c->a, width.e);
    const bool know_first = value_constant(c, first, &f), know_count = value_constant(c, count, &n);
    if (size->op == AU_OP_SIZE) w = c->a->sizes[size->integer].fixed;
    if (know_first && f < 0)
        check_error(c, AU_E0318, e->span, "the first channel of %s is %lld", e->name, (long long)f);
    else if (know_count && (n <= 0 || n % 2))
        check_error(c, AU_E0318, e->span,
                    "%s turns pairs of channels: count is even and positive, found %lld", e->name,
                    (long long)n);
    else if (know_first && know_count && w > 0 && f + n > w)
        check_error(c, AU_E0318, e->span, "%s turns channels up to %lld, the row has %lld", e->name,
                    (long long)(f + n), (long long)w);
    else
        return true;
    return false;
}

static AuValue rope(AuCheck *c, const AuAst *e, AuValue x, AuExpr row_width, const AuValue *args,
                    bool interleaved)
{
    const AuSpan s = e->span;
    const uint32_t n = e->args.count;
    const AuValue width = value_of(c, row_width);
    const AuValue position =
        value_number(c, args[1], e->args.items[1]->span, "the position of rope");
    const AuValue theta = n > 2 ? value_to_f32(c, args[2], e->args.items[2]->span, "theta")
                                : value_float(c, 10000.0, s);
    const AuValue first = n > 3 ? args[3] : value_int(c, 0, s);
    const AuValue count = n > 4 ? args[4] : width;
    if (n > 3 && !integer_argument(c, e, 3, first, "first")) return value_none();
    if (n > 4 && !integer_argument(c, e, 4, count, "count")) return value_none();
    if (position.type == AU_T_NONE || theta.type == AU_T_NONE) return value_none();
    const AuValue rest[] = {position, theta, first, count};
    for (uint32_t i = 0; i < 4; i++) {
        if (!(value_axes(c, rest[i]) & CHANNELS)) continue;
        check_error(c, AU_E0318, e->args.items[i + 1]->span,
                    "this argument of %s is the same for all channels of a row", e->name);
        return value_none();
    }
    if (!rope_range_is_good(c, e, first, count, width)) return value_none();
    const AuExpr list[] = {x.e, position.e, theta.e, first.e, count.e};
    return value_of(c, attn_node(c->a, AU_OP_ROPE, list, 5, interleaved, 0, s));
}

AuValue check_row_function(AuCheck *c, const AuAst *e, const AuBuiltin *f, const AuValue *args)
{
    const char *what = au_format(c->arena, "'%s'", f->name);
    const AuValue x = value_to_f32(c, args[0], e->args.items[0]->span, what);
    if (x.type == AU_T_NONE) return x;
    const uint8_t axes = value_axes(c, x) & CHANNELS;
    const AuExpr width = width_of(c, axes);
    if (!axes || (axes & AU_AX_K && axes & AU_AX_V)) {
        check_error(
            c, AU_E0318, e->args.items[0]->span,
            axes ? "%s goes along one row; this depends on a channel of keys and one of values"
                 : "%s goes along the channels of a row; this is the same for all of them",
            what);
        return value_none();
    }
    if (!width.i) return value_none(); /* q, k or v is missing, which is reported */
    const AuValue real_width = {attn_op1(c->a, AU_OP_TO_F32, width, e->span), AU_T_F32, 0, {0}};
    switch (f->build) {
    case AU_BUILD_SUM: return value_unary(c, AU_OP_ROW_SUM_C, x, e->span);
    case AU_BUILD_MEAN:
        return value_binary(c, AU_OP_DIV, value_unary(c, AU_OP_ROW_SUM_C, x, e->span), real_width,
                            e->span);
    case AU_BUILD_L2NORM: return normalised(c, e, x, square_sum(c, x, e->span), args);
    case AU_BUILD_RMSNORM:
        return normalised(
            c, e, x, value_binary(c, AU_OP_DIV, square_sum(c, x, e->span), real_width, e->span),
            args);
    case AU_BUILD_ROPE: return rope(c, e, x, width, args, false);
    default: return rope(c, e, x, width, args, true);
    }
}
