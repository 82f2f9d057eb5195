/* hook_writer.c - a node of the attention's graph becomes an expression where it is used; a node
 * that is used more than once becomes an assignment of the hook, so that shared work stays shared.
 */
#include "hook_writer.h"

#include <math.h>
#include <string.h>

enum { MOST_EXPRESSIONS = 20000 }; /* of all hooks: some thirty times those of long scripts */

static const AuTileOp op_map[AU_OP_COUNT] = {
    // clang-format off
    [AU_OP_ADD] = TILE_X_ADD, [AU_OP_SUB] = TILE_X_SUB, [AU_OP_MUL] = TILE_X_MUL, [AU_OP_DIV] = TILE_X_DIV, [AU_OP_IDIV] = TILE_X_DIV,
    [AU_OP_MOD] = TILE_X_MOD, [AU_OP_NEG] = TILE_X_NEG, [AU_OP_MIN] = TILE_X_MIN, [AU_OP_MAX] = TILE_X_MAX, [AU_OP_ABS] = TILE_X_ABS,
    [AU_OP_SIGN] = TILE_X_SIGN, [AU_OP_FLOOR] = TILE_X_FLOOR, [AU_OP_CEIL] = TILE_X_CEIL,
    [AU_OP_LOGADDEXP] = TILE_X_LOGADDEXP, [AU_OP_BAND] = TILE_X_BAND, [AU_OP_BOR] = TILE_X_BOR, [AU_OP_BXOR] = TILE_X_BXOR,
    [AU_OP_BNOT] = TILE_X_BNOT, [AU_OP_SHL] = TILE_X_SHL, [AU_OP_SHR] = TILE_X_SHR, [AU_OP_LT] = TILE_X_LT, [AU_OP_LE] = TILE_X_LE,
    [AU_OP_EQ] = TILE_X_EQ, [AU_OP_NE] = TILE_X_NE, [AU_OP_AND] = TILE_X_AND, [AU_OP_OR] = TILE_X_OR, [AU_OP_NOT] = TILE_X_NOT,
    [AU_OP_WHERE] = TILE_X_WHERE, [AU_OP_TO_F32] = TILE_X_TO_F32, [AU_OP_TO_I32] = TILE_X_TO_I32,
#define SCALAR(NAME, ...) [AU_OP_##NAME] = TILE_X_##NAME,
#include "scalars.def"
    // clang-format on
};

/* A reduction over the keys of a tile, in which pairs that take no part do not count. */
static AuTileExpr *row_reduction(AuHookWriter *w, AuExpr e, bool is_max)
{
    AuTileExpr *x = writer_expr(w, attn_arg(w->attn, e, 0));
    if (w->guard_ok) {
        AuTileExpr *ok =
            writer_op2(w, TILE_X_NE, writer_variable(w, "s"), writer_number(w, -(double)INFINITY));
        x = writer_op3(w, TILE_X_WHERE, ok, x, writer_number(w, is_max ? -(double)INFINITY : 0));
    }
    return writer_op1(w, is_max ? TILE_X_ROWMAX : TILE_X_ROWSUM, x);
}

/* The indices of one side of a product: is one of them the axis of its rows [itself], or at least made of it? */
static bool side_is(const AuAttn *a, AuExpr dot, bool of_keys, bool itself)
{
    const AuNode *n = attn_at(a, dot);
    const uint32_t queries = a->tensors[n->integer].rank - 1;
    const uint32_t from = of_keys ? queries : 0, end = of_keys ? n->count : queries;
    const uint8_t axis = of_keys ? AU_AX_KV : AU_AX_Q;
    uint32_t made = 0, same = 0;
    for (uint32_t i = from; i < end; i++) {
        const AuNode *index = attn_at(a, attn_arg(a, dot, i));
        made += (index->axes & axis) != 0;
        same += index->op == AU_OP_INDEX && index->integer == axis;
    }
    return itself ? made == 1 && same == 1 : made > 0;
}

bool writer_can_dot(AuHookWriter *w, AuExpr dot, bool backward)
{
    if (side_is(w->attn, dot, false, backward) && side_is(w->attn, dot, true, true)) return true;
    if (!w->failed)
        au_error(w->diags, AU_E0811, attn_at(w->attn, dot)->span,
                 "kernels multiply the rows at q_idx and kv_idx themselves: gather the rows that "
                 "an index chooses before the call, pass the product with a fixed row as an input");
    w->failed = true;
    return false;
}

static AuTileExpr *dot(AuHookWriter *w, AuExpr e)
{
    AuHooks *h = w->hooks;
    if (!writer_can_dot(w, e, false)) return writer_number(w, 0);
    uint32_t n = 0;
    while (n < h->dot_count && h->dots[n].i != e.i) n++;
    if (n == sizeof h->dots / sizeof *h->dots) {
        au_error(w->diags, AU_E0811, attn_at(w->attn, e)->span,
                 "more than %u products `dot` in one attention", n);
        w->failed = true;
        return writer_number(w, 0);
    }
    if (n == h->dot_count) h->dots[h->dot_count++] = e;
    return writer_variable(w, au_format(writer_module(w)->arena, "dot%u", n));
}

/* A parameter comes in two words; an input lies in memory as one number. */
static AuTileExpr *seed_word(AuHookWriter *w, const AuNode *n)
{
    AuTileModule *m = writer_module(w);
    if (n->integer2 >= 0)
        return writer_variable(w, au_format(m->arena, "%s_%s",
                                            hooks_name(m->arena, w->attn->params[n->integer2].name),
                                            n->integer ? "high" : "low"));
    AuTileExpr *seed = writer_node(w, TILE_X_REF, n->span);
    seed->name = writer_name(w, hooks_name(m->arena, w->attn->tensors[~n->integer2].name));
    return writer_op1(w, n->integer ? TILE_X_HIGH : TILE_X_TO_I32, seed);
}

/* Both sides are the value, so that a NaN in [like] does no harm. */
AuTileExpr *writer_spread(AuHookWriter *w, AuTileExpr *value, const char *like, const char *name)
{
    AuTileExpr *x = writer_assign(w, name, value);
    return writer_op3(w, TILE_X_WHERE,
                      writer_op2(w, TILE_X_GT, writer_variable(w, like), writer_number(w, 0)), x,
                      writer_variable(w, x->name));
}

AuTileExpr *writer_where_seen(AuHookWriter *w, AuTileExpr *value)
{
    AuTileExpr *seen = writer_op2(w, TILE_X_GT, writer_variable(w, "seen"), writer_number(w, 0));
    return writer_op3(w, TILE_X_WHERE, seen, value, writer_number(w, 0));
}

bool writer_is_of_tile(AuHookWriter *w, AuExpr e)
{
    bool *is = AU_NEW_ARRAY(writer_module(w)->arena, bool, e.i + 1);
    for (uint32_t i = 1; i <= e.i; i++) {
        const AuNode *n = &w->attn->nodes[i];
        is[i] = n->op == AU_OP_ELEMENT || n->op == AU_OP_DELEMENT || n->op == AU_OP_SCORE ||
                n->op == AU_OP_DWEIGHT || (w->whole.i && i == w->whole.i);
        const bool elementwise = n->op != AU_OP_ROW_SUM_C && n->op != AU_OP_INPUT;
        for (uint32_t k = 0; k < n->count && elementwise; k++)
            is[i] |= is[attn_arg(w->attn, (AuExpr){i}, k).i];
    }
    return is[e.i];
}

AuTileExpr *writer_row_value(AuHookWriter *w, AuExpr e, const char *name)
{
    AuTileExpr *value = writer_expr(w, e);
    return writer_is_of_tile(w, e) ? value : writer_spread(w, value, "x", name);
}

static AuTileExpr *dropout(AuHookWriter *w, AuExpr e)
{
    AuTileExpr *a[4];
    for (uint32_t n = 0; n < 4; n++) a[n] = writer_expr(w, attn_arg(w->attn, e, n));
    AuTileExpr *uniform = writer_node(w, TILE_X_CALL, attn_at(w->attn, e)->span);
    uniform->name = writer_name(w, "philox_uniform");
    for (uint32_t n = 0; n < 3; n++)
        writer_add_arg(w, uniform, writer_variable(w, (const char *const[]){"b", "h", "i"}[n]));
    writer_add_arg(w, uniform, writer_position(w, AU_AX_KV));
    for (uint32_t n = 2; n < 4; n++) writer_add_arg(w, uniform, a[n]);
    AuTileExpr *keep = writer_op2(w, TILE_X_GE, uniform, a[1]);
    return writer_op3(
        w, TILE_X_WHERE, keep,
        writer_op2(w, TILE_X_DIV, a[0], writer_op2(w, TILE_X_SUB, writer_number(w, 1), a[1])),
        writer_number(w, 0));
}

static AuTileExpr *numbered(AuHookWriter *w, const char *name, int32_t n)
{
    return writer_variable(w, au_format(writer_module(w)->arena, "%s%d", name, n));
}

/* One of 64 bits comes in two words, of which an expression reads the low one. */
static AuTileExpr *param(AuHookWriter *w, const AuParam *p)
{
    const char *name = hooks_name(writer_module(w)->arena, p->name);
    return writer_variable(
        w, p->dtype == AU_DT_I64 ? au_format(writer_module(w)->arena, "%s_low", name) : name);
}

static AuTileExpr *leaf_or_special(AuHookWriter *w, AuExpr e)
{
    const AuNode n = *attn_at(w->attn, e);
    switch ((int)n.op) {
    case AU_OP_F32: return writer_number(w, n.number);
    case AU_OP_I32: {
        AuTileExpr *x = writer_integer(w, n.integer);
        if (n.type == AU_T_BOOL) x->op = TILE_X_BOOL;
        return x;
    }
    case AU_OP_SIZE:
        if (writer_batch(w, &n)) return writer_batch(w, &n);
        return writer_is_length(w, &n)         ? writer_variable(w, "length")
               : writer_is_key_length(w, &n)   ? writer_key_length(w)
               : writer_is_query_length(w, &n) ? writer_query_length(w)
                                               : writer_size(w, &w->attn->sizes[n.integer]);
    case AU_OP_INDEX: return writer_position(w, n.integer);
    case AU_OP_KV_H: return writer_key_head(w);
    case AU_OP_PARAM: return param(w, &w->attn->params[n.integer]);
    case AU_OP_INPUT: return writer_input(w, e);
    case AU_OP_TENSOR: return writer_tensor(w, e);
    case AU_OP_SCORE: return writer_variable(w, "s");
    case AU_OP_WEIGHT: return writer_variable(w, "p");
    case AU_OP_ELEMENT: return writer_element(w, "x", w->row_tensor);
    case AU_OP_DELEMENT: return writer_element(w, "dx", w->gradient_tensor);
    case AU_OP_DWEIGHT: return writer_variable(w, "dp");
    case AU_OP_DELTA: return writer_variable(w, "delta");
    case AU_OP_STATE: return numbered(w, "state", n.integer);
    case AU_OP_STATE_B: return numbered(w, "other", n.integer);
    case AU_OP_FINAL: return numbered(w, "final", n.integer);
    case AU_OP_DFINAL: return numbered(w, "dfinal", n.integer);
    case AU_OP_ADJOINT: return numbered(w, "adjoint", n.integer);
    case AU_OP_PASS: return numbered(w, "pass", n.integer);
    case AU_OP_ROWMAX: return row_reduction(w, e, true);
    case AU_OP_ROWSUM: return row_reduction(w, e, false);
    case AU_OP_ROW_SUM_C: {
        AuTileExpr *sum =
            writer_op1(w, TILE_X_REDUCE_SUM, writer_row_value(w, attn_arg(w->attn, e, 0), "each"));
        AU_PUSH(writer_module(w)->arena, sum->names.at, sum->names.count, sum->names.capacity,
                writer_name(w, w->channel));
        return sum;
    }
    case AU_OP_DOT: return dot(w, e);
    case AU_OP_ROPE: return writer_rope(w, e);
    case AU_OP_DROPOUT: return dropout(w, e);
    case AU_OP_SEED_WORD: return seed_word(w, &n);
    case AU_OP_STOP_GRAD: return writer_expr(w, attn_arg(w->attn, e, 0));
    default: break;
    }
    AuTileExpr *x = writer_node(w, op_map[n.op], n.span);
    for (uint32_t i = 0; i < n.count; i++)
        writer_add_arg(w, x, writer_expr(w, attn_arg(w->attn, e, i)));
    return x;
}

/* Rotations of several kinds in each other ask for a row at twice as many channels with each. */
static bool is_too_much(AuHookWriter *w, AuExpr e)
{
    if (w->hooks->expressions <= MOST_EXPRESSIONS) return false;
    if (!w->failed && w->diags)
        au_error(w->diags, AU_E0813, attn_at(w->attn, e)->span,
                 "this makes functions of more than %d operations in kernels", MOST_EXPRESSIONS);
    w->failed = true;
    return true;
}

AuTileExpr *writer_expr(AuHookWriter *w, AuExpr e)
{
    AuChannel *const at = attn_at(w->attn, e)->axes & AU_AX_C ? w->at : NULL;
    AuTileExpr **done = at ? &at->done[e.i] : &w->done[e.i];
    if (*done) return *done;
    if (is_too_much(w, e)) return writer_number(w, 0);
    AuTileExpr *x = leaf_or_special(w, e);
    x->span = attn_at(w->attn, e)->span;
    /* Sums over a row are always named: what is written for a partner channel shares them. */
    if (x->args.count == 0 || (w->uses[e.i] < 2 && attn_at(w->attn, e)->op != AU_OP_ROW_SUM_C))
        return x;
    const char *name = at ? au_format(writer_module(w)->arena, "t%u_%u", e.i, at->number)
                          : au_format(writer_module(w)->arena, "t%u", e.i);
    return *done = writer_assign(w, name, x);
}
