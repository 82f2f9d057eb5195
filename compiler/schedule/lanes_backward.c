/* lanes_backward.c - backward by multiply-adds, for every machine: the order of kernels (lanes_back.h), and their
 * shape. On a CPU one kernel of products makes dK', dV' and dQ', else dQ' has its own; nothing but gradients of inputs is
 * summed in any order. */
#include "lanes_back.h"

static int32_t widths_of_dots(const AuProblem *p)
{
    int32_t sum = 0;
    for (uint32_t n = 0; n < p->hooks->dot_count; n++) sum += lanes_dot_width(p, n);
    return sum;
}

static bool heads_agree(const AuProblem *p)
{
    return p->attn->v_in_k || p->attn->tensors[1].axes[1].i == p->attn->tensors[2].axes[1].i;
}

/* Can the kernel of keys make the gradients of queries, too? Not those of what is read by query. */
static bool can_join(const AuProblem *p)
{
    bool good = p->caps->has_private && p->grads->dot_count == 0;
    for (uint32_t n = 0; n < p->grads->pairs.count; n++) {
        const AuExpr read = p->grads->pairs.at[n].read;
        for (uint32_t i = 0; i < attn_at(p->attn, read)->count; i++)
            good = good && !(attn_at(p->attn, attn_arg(p->attn, read, i))->axes & AU_AX_Q);
    }
    return good && heads_agree(p);
}

const char *schedule_lanes_back_refusal(const AuProblem *p, const AuShape *s)
{
    if (s->with_dq && (s->by_gradient || !can_join(p)))
        return "gradients of queries have a kernel of their own";
    if (!s->by_gradient && !heads_agree(p)) return "keys and values have other heads";
    if (p->deterministic && s->executors > 1)
        return "executors that add to the same sums, which has no order";
    return NULL;
}

/* Numbers that a lane holds of each of its rows: both operands, what they are converted from; the sum of each gradient of an input; and
 * of each pair with what passes. */
typedef struct Held {
    int32_t rows, raw, totals, pairs;
} Held;

static Held held(const AuProblem *p)
{
    const int32_t totals = (int32_t)p->grads->pairs.count, rows = p->d + p->e + widths_of_dots(p);
    return (Held){rows, p->operand == TILE_F32 ? 0 : (rows + 1) / 2, totals,
                  4 + 2 * (int32_t)p->hooks->dot_count + totals};
}

/* In the kernel of keys. */
static int32_t key_registers(const AuProblem *p, const AuShape *s)
{
    if (lanes_back_atom(p, s)) return lanes_matrix_words(p, s);
    const Held h = held(p);
    const int32_t dq = s->with_dq ? (p->d + p->caps->lanes - 1) / p->caps->lanes *
                                        (s->query_tile + s->key_registers * p->caps->lanes)
                                  : 0;
    const int32_t own = s->by_gradient ? h.rows + p->d : 2 * h.rows; /* dk has more than dv */
    return s->key_registers *
               (own + h.raw + h.totals + h.pairs * schedule_piece(s, s->query_tile)) +
           dq;
}

/* And in that of queries. */
static int32_t query_registers(const AuProblem *p, const AuShape *s)
{
    const Held h = held(p);
    return s->query_registers * (h.rows + h.raw + p->d + widths_of_dots(p) + h.totals +
                                 h.pairs * schedule_piece(s, s->key_tile) + 32);
}

/* Of a GPU a quarter of what fragments may declare: memory that stands for registers costs. */
static int32_t most_words(const AuTileCaps *caps)
{
    return caps->has_private ? caps->private_words : caps->private_words / 4;
}

/* Halves tiles until the kernel of keys fits. */
static bool fit_keys(const AuProblem *p, AuShape *s, int32_t least_tile)
{
    while (key_registers(p, s) > most_words(p->caps)) {
        if (s->key_registers > 1)
            s->key_registers /= 2;
        else if (s->query_tile > least_tile)
            s->query_tile /= 2;
        else
            return false;
    }
    return true;
}

/* A CPU: tiles of 64 by 64, of 128 keys where a matrix unit multiplies: what a tile of queries brings, and the sums of dQ that it
 * changes, are then for twice the products. A GPU: a row a lane, tiles as large as shared memory allows. */
AuShape schedule_lanes_back_shape(const AuProblem *p)
{
    const AuTileCaps *caps = p->caps;
    AuShape s = schedule_lanes_shape(p);
    if (p->deterministic) s.executors = 1; /* that add to the same sums */
    const int32_t row_bytes = 4 * (p->d + p->e + widths_of_dots(p));
    s.key_registers = caps->has_private ? 64 / caps->lanes : 1;
    s.query_registers = caps->has_private ? 64 / caps->lanes : 1;
    s.pair_rows = caps->pair_rows;
    s.query_tile = s.key_tile = caps->has_private ? 64 : 32;
    s.product_columns = caps->has_private ? caps->registers / 8 : 1;
    while (!caps->has_private && s.query_tile > 1 &&
           s.query_tile * row_bytes > caps->shared_bytes) {
        s.query_tile /= 2, s.key_tile /= 2;
        if (s.executors > s.query_tile) s.executors = s.query_tile; /* each brings whole rows */
    }
    AuShape joined = s;
    joined.with_dq = true;
    if (can_join(p) && lanes_back_atom(p, &joined)) joined.key_registers = 128 / caps->lanes;
    if (can_join(p) && fit_keys(p, &joined, 32)) return joined;
    AuShape both = s;
    if (heads_agree(p) && fit_keys(p, &both, 8))
        s = both;
    else
        s.by_gradient = true, fit_keys(p, &s, 4);
    while (s.query_registers > 1 && query_registers(p, &s) > most_words(caps))
        s.query_registers /= 2;
    return s;
}

/* On a GPU scores and dP contract channels, in which what passes and what a lane holds lie as neighbours: in pairs they are as exact as one by
 * one, of half the registers and half the shared memory. Gradients contract queries or keys with weights that stay f32. Operands of
 * further products may be of another type. */
static const AuTileAtom *pair_atom(const AuProblem *p)
{
    const AuTileAtom *atom = tile_best_atom(p->caps, p->operand, TILE_ON_WARP);
    const bool fits = !p->caps->has_private && atom && atom->m == 1 && atom->k == 2 &&
                      p->d % 2 == 0 && p->e % 2 == 0 && p->attn->v_first % 2 == 0;
    return fits && !p->hooks->dot_count ? atom : NULL;
}

AuSchedule *schedule_lanes_backward(AuArena *arena, AuDiags *diags, const AuProblem *p,
                                    const AuShape *shape)
{
    const bool through_values = p->attn->v_in_k && p->hooks->has_v_mod;
    AuSchedule *out = schedule_new(
        arena, diags, p, "lanes_backward", shape,
        through_values ? "gradients through v_mod, where the values are channels of the keys"
                       : back_layout_refusal(p));
    if (!out) return NULL;
    Lanes x = lanes_begin(arena, schedule_begin(arena, diags, p, out), p, out);
    x.held = "f32";
    x.query_in_memory = true;
    x.with_dq = shape->with_dq;
    x.heads_in_parts = x.with_dq && p->attn->tensors[0].axes[1].i != p->attn->tensors[1].axes[1].i;
    x.atom = tile_best_atom(p->caps, TILE_F32, lanes_executor(&x));
    tile_layout(x.t, "along_lanes", tile_text(x.t, "lane:%d@1", p->caps->lanes), NULL);
    x.item_rows[LANES_KEYS] = lanes_block_keys(&x);
    back_work_kernels(&x);
    back_before(&x);
    if (p->hooks->needs_lists) {
        lanes_list_kernels(&x);
        lanes_query_lists(&x, shape->query_tile, lanes_block_keys(&x));
    }
    const AuTileAtom *plain = x.atom, *matrix = lanes_back_atom(p, shape), *pairs = pair_atom(p);
    const char *held = pairs ? x.operand : "f32";
    x.pair_atom = pairs, x.held = held;
    lanes_row_pass(&x);
    back_adjoints(&x);
    x.matrix = matrix != NULL;
    if (matrix) x.atom = matrix, x.held = x.operand, x.by_channel = true;
    if (matrix) lanes_across_kernels(&x);
    lanes_dkdv(&x, true, !shape->by_gradient);
    x.atom = plain, x.held = held, x.by_channel = false;
    if (shape->by_gradient) lanes_dkdv(&x, false, true);
    if (!x.with_dq) lanes_dq(&x);
    back_after(&x);
    return lanes_built(&x, diags);
}
