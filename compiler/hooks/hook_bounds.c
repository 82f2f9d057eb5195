/* hook_bounds.c - what a mask can be for all pairs of a tile at once, by intervals: schedules that make lists of tiles ask this before they
 * try every pair.
 *
 *   mask_row0(b, h, i), ..                     integers that the mask reads of a row; mask_key0(b, h, j) of a key
 *   mask_bounds(b, h, i, i_last, j, j_last, row0_low, row0_high, .., key0_low, ..)
 *                                              may, must: can a pair of rows i to i_last and keys j to j_last take part; do all
 *
 * An expression is between two others, which are exact at the ends of the tile or wide enough. Of each it is known below which power of two
 * it stays, so that no bound wraps around: positions and lengths are below 2^29, or the function knows nothing. What is read is compared
 * and not computed with. What has no rule may be anything: the function is right for every mask and useful for those whose data are the same in
 * long runs (documents, regions). Masks of more than MOST_NODES operations have none: each bound of theirs costs what a pair does. */
#include "hook_writer.h"

enum { LENGTH_BITS = 29, MOST_BITS = 31, ANY_BITS = 32, MOST_READS = 4, MOST_NODES = 64 };

/* Of an integer: low <= x <= high, and |x| < 2^bits. Of a truth value: low is what it must be, high what it may be. */
typedef struct Bounds {
    AuTileExpr *low, *high; /* NULL: anything */
    int32_t bits;
} Bounds;

typedef struct Bounder {
    AuHookWriter *w;
    AuExpr reads[2][MOST_READS]; /* of rows, of keys */
    uint32_t counts[2];
    Bounds *of; /* by node */
    bool *done; /* by node: is it there? */
    uint32_t nodes;
} Bounder;

static const uint8_t axes_of[2] = {AU_AX_Q, AU_AX_KV};
static const char *const read_names[2] = {"row", "key"};

static AuTileExpr *truth(Bounder *x, bool value)
{
    AuTileExpr *e = writer_integer(x->w, value);
    e->op = TILE_X_BOOL;
    return e;
}

static bool is_truth(const AuTileExpr *e, bool value)
{
    return e->op == TILE_X_BOOL && (e->integer != 0) == value;
}

static AuTileExpr *both(Bounder *x, AuTileExpr *a, AuTileExpr *b)
{
    if (is_truth(a, false) || is_truth(b, true)) return a;
    if (is_truth(b, false) || is_truth(a, true)) return b;
    return writer_op2(x->w, TILE_X_AND, a, b);
}

static AuTileExpr *either(Bounder *x, AuTileExpr *a, AuTileExpr *b)
{
    if (is_truth(a, true) || is_truth(b, false)) return a;
    if (is_truth(b, true) || is_truth(a, false)) return b;
    return writer_op2(x->w, TILE_X_OR, a, b);
}

static AuTileExpr *no(Bounder *x, AuTileExpr *a)
{
    if (a->op == TILE_X_BOOL) return truth(x, !a->integer);
    return writer_op1(x->w, TILE_X_NOT, a);
}

static Bounds anything(Bounder *x, AuType type)
{
    if (type != AU_T_BOOL) return (Bounds){.bits = ANY_BITS};
    return (Bounds){truth(x, false), truth(x, true), 1};
}

/* ---- what has no arguments */

static int32_t bits_of(int64_t value)
{
    int32_t bits = 0;
    for (int64_t n = value < 0 ? -value : value; n; n /= 2) bits++;
    return bits;
}

static Bounds index_bounds(Bounder *x, const AuNode *n)
{
    static const char *const last[2] = {"i_last", "j_last"};
    for (uint32_t side = 0; side < 2; side++)
        if (n->integer == axes_of[side])
            return (Bounds){writer_position(x->w, n->integer), writer_variable(x->w, last[side]),
                            LENGTH_BITS};
    return anything(x, n->type);
}

/* Is the size the length of the rows or of the keys, which the function asks for? */
static bool is_length(const AuAttn *a, const AuNode *n)
{
    for (uint32_t t = 0; t < 2; t++) {
        const AuNode *length = attn_at(a, a->tensors[t].axes[2]);
        if (length->op == AU_OP_SIZE && length->integer == n->integer) return true;
    }
    return false;
}

static Bounds read_bounds(Bounder *x, AuExpr e)
{
    const AuNode *n = attn_at(x->w->attn, e);
    const uint8_t sides = n->axes & (AU_AX_Q | AU_AX_KV);
    const uint32_t side = sides == AU_AX_KV;
    if (sides == (AU_AX_Q | AU_AX_KV) || x->counts[side] == MOST_READS) return anything(x, n->type);
    const uint32_t number = x->counts[side]++;
    x->reads[side][number] = e;
    AuTileExpr *ends[2];
    for (uint32_t k = 0; k < 2; k++)
        ends[k] = writer_variable(x->w, au_format(writer_module(x->w)->arena, "%s%u_%s",
                                                  read_names[side], number, k ? "high" : "low"));
    if (n->type == AU_T_BOOL) /* read as 0 and 1 */
        for (uint32_t k = 0; k < 2; k++)
            ends[k] = writer_op2(x->w, TILE_X_GT, ends[k], writer_integer(x->w, 0));
    return (Bounds){ends[0], ends[1], ANY_BITS};
}

/* The same for all pairs. */
static Bounds of_all_pairs(Bounder *x, AuExpr e)
{
    const AuNode n = *attn_at(x->w->attn, e);
    AuTileExpr *value = writer_expr(x->w, e);
    int32_t bits = ANY_BITS;
    if (n.op == AU_OP_I32) bits = bits_of(n.integer);
    if (n.op == AU_OP_SIZE && is_length(x->w->attn, &n)) bits = LENGTH_BITS;
    return (Bounds){value, value, bits};
}

/* ---- truth values */

static Bounds comparison(Bounder *x, AuOp op, Bounds a, Bounds b)
{
    if (!a.low || !b.low) return anything(x, AU_T_BOOL);
    AuHookWriter *w = x->w;
    if (op == AU_OP_LT || op == AU_OP_LE) {
        const AuTileOp o = op == AU_OP_LT ? TILE_X_LT : TILE_X_LE;
        return (Bounds){writer_op2(w, o, a.high, b.low), writer_op2(w, o, a.low, b.high), 1};
    }
    AuTileExpr *same = both(x, writer_op2(w, TILE_X_EQ, a.low, b.high),
                            writer_op2(w, TILE_X_EQ, a.high, b.low)),
               *meet = both(x, writer_op2(w, TILE_X_LE, a.low, b.high),
                            writer_op2(w, TILE_X_LE, b.low, a.high));
    if (op == AU_OP_EQ) return (Bounds){same, meet, 1};
    return (Bounds){no(x, meet), no(x, same), 1};
}

static Bounds logic(Bounder *x, AuOp op, const Bounds *a)
{
    switch ((int)op) {
    case AU_OP_AND: return (Bounds){both(x, a[0].low, a[1].low), both(x, a[0].high, a[1].high), 1};
    case AU_OP_OR:
        return (Bounds){either(x, a[0].low, a[1].low), either(x, a[0].high, a[1].high), 1};
    case AU_OP_NOT: return (Bounds){no(x, a[0].high), no(x, a[0].low), 1};
    }
    /* where: each of the two that may be chosen */
    return (Bounds){both(x, either(x, a[1].low, no(x, a[0].high)), either(x, a[2].low, a[0].low)),
                    either(x, both(x, a[1].high, a[0].high), both(x, a[2].high, no(x, a[0].low))),
                    1};
}

/* ---- integers */

static Bounds quotient(Bounder *x, Bounds a, Bounds by)
{
    AuHookWriter *w = x->w;
    if (by.low != by.high) return anything(x, AU_T_I32); /* not the same for all pairs */
    AuTileExpr *positive = writer_op2(w, TILE_X_GT, by.low, writer_integer(w, 0)),
               *d = writer_op2(w, TILE_X_MAX, by.low, writer_integer(w, 1));
    AuTileExpr *ends[2] = {a.low, a.high};
    for (int32_t n = 0; n < 2; n++) {
        const int64_t most = (1LL << a.bits) - 1;
        ends[n] = writer_op3(w, TILE_X_WHERE, positive, writer_op2(w, TILE_X_DIV, ends[n], d),
                             writer_integer(w, n ? most : -most));
    }
    return (Bounds){ends[0], ends[1], a.bits};
}

static Bounds magnitude(Bounder *x, Bounds a)
{
    AuHookWriter *w = x->w;
    AuTileExpr *less = writer_op1(w, TILE_X_NEG, a.low), *more = writer_op1(w, TILE_X_NEG, a.high);
    return (Bounds){
        writer_op2(w, TILE_X_MAX, writer_op2(w, TILE_X_MAX, a.low, more), writer_integer(w, 0)),
        writer_op2(w, TILE_X_MAX, a.high, less), a.bits};
}

static Bounds arithmetic(Bounder *x, AuOp op, Bounds a, Bounds b)
{
    AuHookWriter *w = x->w;
    const int32_t bits = a.bits > b.bits ? a.bits : b.bits;
    if (op == AU_OP_MIN || op == AU_OP_MAX) {
        const AuTileOp o = op == AU_OP_MIN ? TILE_X_MIN : TILE_X_MAX;
        return (Bounds){writer_op2(w, o, a.low, b.low), writer_op2(w, o, a.high, b.high), bits};
    }
    if (a.bits > MOST_BITS) return anything(x, AU_T_I32);
    if (op == AU_OP_IDIV) return quotient(x, a, b);
    if (op == AU_OP_ABS) return magnitude(x, a);
    if (op == AU_OP_NEG)
        return (Bounds){writer_op1(w, TILE_X_NEG, a.high), writer_op1(w, TILE_X_NEG, a.low),
                        a.bits};
    if (bits + 1 > MOST_BITS) return anything(x, AU_T_I32);
    if (op == AU_OP_ADD)
        return (Bounds){writer_op2(w, TILE_X_ADD, a.low, b.low),
                        writer_op2(w, TILE_X_ADD, a.high, b.high), bits + 1};
    return (Bounds){writer_op2(w, TILE_X_SUB, a.low, b.high),
                    writer_op2(w, TILE_X_SUB, a.high, b.low), bits + 1};
}

/* Bounds of a node are named, so that no expression doubles with each that is made of it. */
static Bounds named(Bounder *x, uint32_t node, Bounds b)
{
    if (!b.low) return b;
    AuTileExpr **ends[2] = {&b.low, &b.high};
    const bool same = b.low == b.high;
    for (uint32_t n = 0; n < 2; n++) {
        if ((*ends[n])->args.count)
            *ends[n] = writer_assign(
                x->w, au_format(writer_module(x->w)->arena, "t%u_%s", node, n ? "high" : "low"),
                *ends[n]);
        if (same) {
            b.high = b.low;
            break;
        }
    }
    return b;
}

static Bounds bounds_of(Bounder *x, AuExpr e);

static Bounds of_operation(Bounder *x, AuExpr e)
{
    const AuNode n = *attn_at(x->w->attn, e);
    Bounds a[3] = {{0}};
    bool known = n.count > 0 && n.count <= 3, truths = known, integers = known;
    for (uint32_t k = 0; k < n.count && k < 3; k++) {
        const AuExpr arg = attn_arg(x->w->attn, e, k);
        a[k] = bounds_of(x, arg);
        known &= a[k].low != NULL;
        truths &= attn_at(x->w->attn, arg)->type == AU_T_BOOL;
        integers &= attn_at(x->w->attn, arg)->type == AU_T_I32;
    }
    if (!known) return anything(x, n.type);
    switch ((int)n.op) {
    case AU_OP_LT:
    case AU_OP_LE:
    case AU_OP_EQ:
    case AU_OP_NE: return integers ? comparison(x, n.op, a[0], a[1]) : anything(x, n.type);
    case AU_OP_AND:
    case AU_OP_OR:
    case AU_OP_NOT:
    case AU_OP_WHERE: return truths ? logic(x, n.op, a) : anything(x, n.type);
    case AU_OP_ADD:
    case AU_OP_SUB:
    case AU_OP_MIN:
    case AU_OP_MAX:
    case AU_OP_NEG:
    case AU_OP_ABS:
    case AU_OP_IDIV: return integers ? arithmetic(x, n.op, a[0], a[1]) : anything(x, n.type);
    }
    return anything(x, n.type);
}

static Bounds bounds_of(Bounder *x, AuExpr e)
{
    const AuNode n = *attn_at(x->w->attn, e);
    if (x->done[e.i]) return x->of[e.i];
    x->nodes++;
    Bounds b;
    if (n.type != AU_T_I32 && n.type != AU_T_BOOL)
        b = anything(x, n.type);
    else if (!(n.axes & (AU_AX_Q | AU_AX_KV)))
        b = of_all_pairs(x, e);
    else if (n.op == AU_OP_INDEX)
        b = index_bounds(x, &n);
    else if (n.op == AU_OP_INPUT)
        b = read_bounds(x, e);
    else
        b = of_operation(x, e);
    x->done[e.i] = true;
    return x->of[e.i] = named(x, e.i, b);
}

/* ---- the functions */

/* Lengths for which no bound wraps around. */
static AuTileExpr *are_short(Bounder *x)
{
    const AuAttn *a = x->w->attn;
    AuTileExpr *all = truth(x, true);
    for (uint32_t t = a->tensors[0].axes[2].i == a->tensors[1].axes[2].i; t < 2; t++)
        all = both(x, all,
                   writer_op2(x->w, TILE_X_LT, writer_expr(x->w, a->tensors[t].axes[2]),
                              writer_integer(x->w, 1 << LENGTH_BITS)));
    return all;
}

static void write_reads(Bounder *x)
{
    static const char *const params[2][3] = {{"b", "h", "i"}, {"b", "h", "j"}};
    AuHookWriter *w = x->w;
    for (uint32_t side = 0; side < 2; side++)
        for (uint32_t n = 0; n < x->counts[side]; n++) {
            const AuExpr read = x->reads[side][n];
            writer_begin(w, au_format(writer_module(w)->arena, "mask_%s%u", read_names[side], n),
                         params[side], 3);
            AuTileExpr *value = writer_expr(w, read);
            if (attn_at(w->attn, read)->type == AU_T_BOOL)
                value =
                    writer_op3(w, TILE_X_WHERE, value, writer_integer(w, 1), writer_integer(w, 0));
            writer_finish(w, &value, 1);
        }
}

static void add_reads(Bounder *x)
{
    AuArena *arena = writer_module(x->w)->arena;
    AuTileFn *fn = x->w->fn;
    for (uint32_t side = 0; side < 2; side++)
        for (uint32_t n = 0; n < 2 * x->counts[side]; n++)
            AU_PUSH(arena, fn->params.at, fn->params.count, fn->params.capacity,
                    writer_name(x->w, au_format(arena, "%s%u_%s", read_names[side], n / 2,
                                                n % 2 ? "high" : "low")));
}

void writer_mask_bounds(AuHookWriter *w)
{
    static const char *const params[] = {"b", "h", "i", "i_last", "j", "j_last"};
    AuAttn *a = w->attn;
    AuHooks *h = w->hooks;
    if (h->has_bounds || a->keys.has_positions || a->queries.has_positions || w->failed) return;
    Bounder x = {.w = w,
                 .of = AU_NEW_ARRAY(a->arena, Bounds, a->node_count),
                 .done = AU_NEW_ARRAY(a->arena, bool, a->node_count)};
    writer_begin(w, "mask_bounds", params, sizeof params / sizeof *params);
    const Bounds all = bounds_of(&x, a->mask);
    AuTileExpr *few = are_short(&x);
    AuTileExpr *items[2] = {either(&x, all.high, no(&x, few)), both(&x, all.low, few)};
    h->has_bounds =
        (!is_truth(all.high, true) || !is_truth(all.low, false)) && x.nodes <= MOST_NODES;
    if (!h->has_bounds) { /* nobody asks */
        writer_module(w)->fns.count--;
        return;
    }
    add_reads(&x);
    writer_finish(w, items, 2);
    write_reads(&x);
    for (uint32_t side = 0; side < 2; side++) h->bound_reads[side] = x.counts[side];
}
