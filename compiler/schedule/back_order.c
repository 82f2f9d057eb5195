/* back_order.c - sums in one order. Blocks of a grid add to the sums of an input in any order, unless they add to
 * different elements: along an axis that every read of the tensor has as the same one of its indices. With
 * --deterministic the other axes of the grid are loops inside the block. */
#include "key_layout.h"
#include "lanes_back.h"

/* The indices of a read, of an input or of one side of a product. */
typedef struct Read {
    uint32_t tensor;
    AuExpr at[8];
    uint32_t count;
} Read;

static Read read_of(const Lanes *x, uint32_t tensor, AuExpr node, uint32_t first, uint32_t count)
{
    Read r = {.tensor = tensor, .count = count};
    for (uint32_t n = 0; n < count && n < 8; n++) r.at[n] = attn_arg(x->p->attn, node, first + n);
    return r;
}

static uint32_t add_inputs(const Lanes *x, Read *reads, uint32_t count, const AuInputGrads *inputs,
                           uint8_t with, uint8_t without)
{
    for (uint32_t n = 0; n < inputs->count && count < BACK_MOST_READS; n++) {
        const AuInputGrad *g = &inputs->at[n];
        const uint8_t axes = back_read_axes(x, g);
        if ((axes & with) == with && !(axes & without))
            reads[count++] = read_of(x, g->tensor, g->read, 0, attn_at(x->p->attn, g->read)->count);
    }
    return count;
}

static uint32_t add_products(const Lanes *x, Read *reads, uint32_t count, bool key_side)
{
    for (uint32_t n = 0; n < x->p->grads->dot_count && count < BACK_MOST_READS; n++) {
        const uint32_t dot = back_dot(x, n), tensor = lanes_dot_tensor(x->p, dot, key_side);
        const uint32_t queries = x->p->attn->tensors[lanes_dot_tensor(x->p, dot, false)].rank - 1;
        if (back_wants(x, tensor))
            reads[count++] = read_of(x, tensor, x->p->hooks->dots[dot], key_side ? queries : 0,
                                     x->p->attn->tensors[tensor].rank - 1);
    }
    return count;
}

static uint32_t reads_of(const Lanes *x, BackSums sums, Read *reads)
{
    const AuGrads *g = x->p->grads;
    switch (sums) {
    case BACK_SUMS_KEYS:
        return add_products(x, reads, add_inputs(x, reads, 0, &g->pairs, 0, AU_AX_Q), true);
    case BACK_SUMS_QUERIES:
        return add_products(x, reads, add_inputs(x, reads, 0, &g->pairs, AU_AX_Q, 0), false);
    case BACK_SUMS_ROWS: return add_inputs(x, reads, 0, &g->rows, 0, 0);
    case BACK_SUMS_OUT: return add_inputs(x, reads, 0, &g->out.inputs, 0, 0);
    case BACK_SUMS_DQ: return add_inputs(x, reads, 0, &g->q.inputs, 0, 0);
    case BACK_SUMS_DK: return add_inputs(x, reads, 0, &g->k.inputs, 0, 0);
    case BACK_SUMS_DV: return add_inputs(x, reads, 0, &g->v.inputs, 0, 0);
    case BACK_SUMS_NOTHING: break;
    }
    return 0;
}

/* Is index [d] of the read the axis itself? Of heads: the query head or the key head, whichever [op] says. */
static bool is_axis(const AuAttn *a, const Read *r, uint32_t d, uint8_t bit, AuOp *op)
{
    if (d >= r->count) return false;
    const AuNode *n = attn_at(a, r->at[d]);
    const bool same =
        (n->op == AU_OP_INDEX && n->integer == bit) || (n->op == AU_OP_KV_H && bit == AU_AX_H);
    if (!same || (*op && *op != n->op)) return false;
    *op = n->op;
    return true;
}

static bool divides(const Lanes *x, const Read *reads, uint32_t count, uint32_t tensor, uint8_t bit)
{
    for (uint32_t d = 0; d < 8; d++) {
        bool all = true;
        AuOp op = AU_NO_OP;
        for (uint32_t n = 0; n < count; n++)
            if (reads[n].tensor == tensor) all = all && is_axis(x->p->attn, &reads[n], d, bit, &op);
        if (all) return true;
    }
    return false;
}

/* Sums of pairs at their query and key (a learned bias) are worth an order on a CPU, where it costs little: blocks
 * of queries add to different rows, without atomic operations. */
static bool has_order(const Lanes *x, BackSums sums, const Read *reads, uint32_t count)
{
    bool pairs = false;
    if (x->p->deterministic) return true;
    if (!x->on_cpu || sums != BACK_SUMS_QUERIES || attn_has_layout(x->p->attn)) return false;
    for (uint32_t n = 0; n < count; n++) {
        if (!divides(x, reads, count, reads[n].tensor, AU_AX_Q)) return false;
        pairs |= divides(x, reads, count, reads[n].tensor, AU_AX_KV);
    }
    return pairs;
}

static bool is_loop(const Lanes *x, const BackAxis *axis, BackSums sums)
{
    Read reads[BACK_MOST_READS];
    const uint32_t count = reads_of(x, sums, reads);
    if (!has_order(x, sums, reads, count)) return false;
    for (uint32_t n = 0; n < count; n++)
        if (!divides(x, reads, count, reads[n].tensor, axis->bit)) return true;
    return false;
}

bool back_is_alone(const Lanes *x, const AuInputGrad *g)
{
    Read reads[BACK_MOST_READS];
    const uint32_t count = reads_of(x, BACK_SUMS_QUERIES, reads);
    return x->on_cpu && has_order(x, BACK_SUMS_QUERIES, reads, count) &&
           divides(x, reads, count, g->tensor, AU_AX_Q) &&
           divides(x, reads, count, g->tensor, AU_AX_KV);
}

void back_grid(Lanes *x, const BackAxis *axes, uint32_t count, BackSums sums)
{
    AuText grid = {.arena = x->arena};
    for (uint32_t n = 0; n < count; n++)
        if (!is_loop(x, &axes[n], sums))
            au_text_add(&grid, "%s%s: %s", grid.length ? ", " : "", axes[n].name, axes[n].extent);
    tile_grid(x->t, "%s", grid.length ? au_text_str(&grid) : "one: 1");
}

/* Packed rows: blocks of the list of work, each of as many parts as it has of [rows] rows. */
static void grid_of_items(Lanes *x, LanesSide side, int32_t rows, const BackAxis *axes,
                          const char *times)
{
    AuTileBuild *t = x->t;
    const int32_t parts = lanes_item_rows(x, side) / rows;
    const char *items = lanes_work_blocks(x, side);
    lanes_work_argument(x, side);
    tile_grid(t, "%s%s: %s, item: %s", parts > 1 ? tile_text(t, "slice: %d, ", parts) : "",
              axes[1].name, axes[1].extent, times ? tile_text(t, "%s * %s", items, times) : items);
    lanes_let_work(x, side);
    if (parts > 1)
        tile_let(t, axes[0].name, "turn * %d + slice", parts);
    else
        tile_let(t, axes[0].name, "turn");
}

void back_row_grid(Lanes *x, LanesSide side, int32_t rows, const BackAxis axes[3], BackSums sums,
                   const char *times)
{
    if (lanes_is_packed(x, side)) {
        grid_of_items(x, side, rows, axes, times);
        return;
    }
    BackAxis some[3] = {axes[0], axes[1], axes[2]};
    if (times) some[0].extent = tile_text(x->t, "%s * %s", some[0].extent, times);
    back_grid(x, some, 3, sums);
    lanes_let_key_length(x);
}

uint32_t back_loops(Lanes *x, const BackAxis *axes, uint32_t count, BackSums sums)
{
    uint32_t open = 0;
    for (uint32_t n = count; n-- > 0;) {
        if (!is_loop(x, &axes[n], sums)) continue;
        tile_for_range(x->t, axes[n].name, "0", axes[n].extent);
        open++;
    }
    return open;
}
