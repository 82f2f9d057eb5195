/* back_parts.c - arguments of backward kernels, and sums at the indices of what was read. */
#include "key_layout.h"
#include "lanes_back.h"

#include <string.h>

static const char *const row_names[3] = {"q", "kv", "kv"};
static const char *const channels[3] = {"d", "d", "e"};

static const char *of_rows(Lanes *x, const char *elem, uint32_t n)
{
    return tile_text(x->t, "%s[b:%s, h:%s, %s:%s, %s:%d]", elem,
                     lanes_row_batch(x, n ? LANES_KEYS : LANES_QUERIES), lanes_axis(x, n, 1),
                     row_names[n], lanes_axis(x, n, 2), channels[n], n == 2 ? x->p->e : x->p->d);
}

static const char *of_outputs(Lanes *x, const char *elem)
{
    return tile_text(x->t, "%s[b:%s, h:%s, q:%s, e:%d]", elem, lanes_row_batch(x, LANES_QUERIES),
                     lanes_axis(x, 0, 1), lanes_axis(x, 0, 2), x->p->e);
}

/* Of statistics: finals, adjoints, sums of the extra pass. */
static const char *of_statistics(Lanes *x)
{
    return tile_text(x->t, "f32[b:%s, h:%s, q:%s]", lanes_row_batch(x, LANES_QUERIES),
                     lanes_axis(x, 0, 1), lanes_axis(x, 0, 2));
}

/* Tiles of packed queries begin where a whole number of them does, as items of a list of work: starts[b] / tile + b. */
const char *back_sum_tiles(Lanes *x)
{
    const int32_t m = x->shape->query_tile;
    const char *rows = lanes_axis(x, 0, 2);
    return lanes_is_packed(x, LANES_QUERIES)
               ? tile_text(x->t, "(%s / %d + %s)", rows, m, lanes_axis(x, 0, 0))
               : tile_text(x->t, "cdiv(%s, %d)", rows, m);
}

const char *back_sum_start(Lanes *x)
{
    const int32_t m = x->shape->query_tile;
    return back_dq_is_packed(x) ? tile_text(x->t, "(q_start / %d + b) * %d", m, m) : "q_start";
}

const char *back_sum_place(Lanes *x, const char *head, const char *rows)
{
    if (!lanes_is_packed(x, LANES_QUERIES)) return tile_text(x->t, "b, %s, %s", head, rows);
    return tile_text(x->t, "0, %s, %s + %s", head, back_sum_start(x), rows);
}

bool back_dq_is_packed(const Lanes *x) { return x->rows_across && x->with_dq && !x->sums_in_rows; }

const AuTileAtom *back_sum_atom(const Lanes *x) { return x->sum_atom ? x->sum_atom : x->atom; }

/* The sums of dQ that blocks of keys add to: whole tiles of queries as warps hold them, so that no part of a sum is outside, and
 * one takes whole lines. */
static const char *of_packed_sums(Lanes *x)
{
    const int32_t m = x->shape->query_tile;
    const AuTileAtom *atom = back_sum_atom(x);
    return tile_text(x->t, "f32[b:%s, h:%s, q:%s * %d, d:%d] packed %s.C",
                     lanes_row_batch(x, LANES_QUERIES), lanes_axis(x, 0, 1), back_sum_tiles(x), m,
                     warps_padded(atom, x->p->d), atom->name);
}

const char *const back_gradient_names[3] = {"dq", "dk", "dv"}, *const back_sum_names[3] = {
                                                                   "dq_sum", "dk_sum", "dv_sum"};

const char *back_gradient(const Lanes *x, uint32_t n)
{
    return (back_has_rows(x, n) ? back_sum_names : back_gradient_names)[n];
}

void back_argument(Lanes *x, const char *name, AuTileMode mode)
{
    static const char *const outputs[] = {"o", "o_kept", "do", "do_changed"};
    for (uint32_t n = 0; n < 3; n++) {
        const bool sums = strcmp(name, back_sum_names[n]) == 0;
        if (!sums && strcmp(name, back_gradient_names[n]) != 0) continue;
        tile_arg(x->t, name, mode, "%s",
                 n == 0 && sums && back_dq_is_packed(x) ? of_packed_sums(x)
                                                        : of_rows(x, sums ? "f32" : x->operand, n));
        return;
    }
    for (uint32_t n = 0; n < sizeof outputs / sizeof *outputs; n++)
        if (strcmp(name, outputs[n]) == 0) {
            tile_arg(x->t, name, mode, "%s", of_outputs(x, x->operand));
            return;
        }
    tile_arg(x->t, name, mode, "%s", of_statistics(x));
}

void back_statistics(Lanes *x)
{
    for (uint32_t n = 0; n < back_row_count(x, true); n++)
        back_argument(x, back_row_name(x, n), TILE_IN);
}

void back_changed(Lanes *x)
{
    lanes_changed_arguments(x, 0);
    back_argument(x, back_output_gradient(x), TILE_IN);
}

void back_begin_kernel(Lanes *x, const char *name)
{
    tile_kernel(x->t, name);
    lanes_arguments(x);
    back_changed(x);
}

const char *back_sum(Lanes *x, uint32_t tensor) { return tile_text(x->t, "sum_%u", tensor); }

/* Does a pair read what many other pairs read, too: a table by distance, and not its own element? */
static bool is_shared_by_pairs(const Lanes *x, const AuInputGrad *g)
{
    const AuAttn *a = x->p->attn;
    const AuNode *read = attn_at(a, g->read);
    const uint8_t both = AU_AX_Q | AU_AX_KV;
    if ((back_read_axes(x, g) & both) != both) return false;
    for (uint32_t n = 0; n < read->count; n++) {
        const AuNode *at = attn_at(a, attn_arg(a, g->read, n));
        if (at->op == AU_OP_INDEX && (at->integer & both)) return false;
    }
    return true;
}

/* Or what all pairs of a head read, on devices whose lanes add up their own pairs: thousands of them to one number would be
 * rounded as often. */
static bool is_shared_by_heads(const Lanes *x, const AuInputGrad *g)
{
    return !x->on_cpu && !x->rows_across && !(back_read_axes(x, g) & (AU_AX_Q | AU_AX_KV));
}

int32_t back_sum_parts(const Lanes *x, uint32_t tensor)
{
    enum { PARTS = 16, MOST_RANK = 7 };
    bool shared = false, own = false;
    for (uint32_t n = 0; n < x->p->grads->pairs.count; n++) {
        const AuInputGrad *g = &x->p->grads->pairs.at[n];
        if (g->tensor != tensor) continue;
        const bool is = is_shared_by_pairs(x, g) || is_shared_by_heads(x, g);
        shared |= is, own |= !is;
    }
    return shared && !own && tensor >= 3 && !back_has_dots(x, tensor) &&
                   x->p->attn->tensors[tensor].rank <= MOST_RANK
               ? PARTS
               : 1;
}

void back_sum_argument(Lanes *x, uint32_t tensor, AuTileMode mode)
{
    back_sum_argument_of(x, tensor, mode, "1");
}

void back_sum_argument_of(Lanes *x, uint32_t tensor, AuTileMode mode, const char *times)
{
    const bool scalar = x->p->attn->tensors[tensor].rank == 0;
    const int32_t parts = back_sum_parts(x, tensor);
    const char *type = scalar ? "f32[x0:1]" : lanes_type(x, "f32", tensor);
    if (parts > 1) type = tile_text(x->t, "f32[parts:%d, %s", parts, type + strlen("f32["));
    if (strcmp(times, "1") != 0)
        type = tile_text(x->t, "f32[times:%s, %s", times, type + strlen("f32["));
    tile_arg(x->t, back_sum(x, tensor), mode, "%s", type);
}

/* ---- what has a gradient */

uint32_t back_dot(const Lanes *x, uint32_t n)
{
    for (uint32_t i = 0; i < x->p->hooks->dot_count; i++)
        if (x->p->hooks->dots[i].i == x->p->grads->dots[n].i) return i;
    return 0;
}

bool back_wants(const Lanes *x, uint32_t tensor) { return x->p->attn->tensors[tensor].grad; }

/* Do products beside q k add to this tensor's gradient? */
bool back_has_dots(const Lanes *x, uint32_t tensor)
{
    for (uint32_t n = 0; n < x->p->grads->dot_count; n++)
        for (uint32_t side = 0; side < 2; side++)
            if (lanes_dot_tensor(x->p, back_dot(x, n), side) == tensor) return true;
    return false;
}

bool back_has_rows(const Lanes *x, uint32_t n)
{
    const AuHooks *h = x->p->hooks;
    if (back_has_dots(x, n)) return true;
    switch (n) {
    case 0: return h->has_q_mod || (x->with_dq && !lanes_in_parts(x, 0));
    case 1: return h->has_k_mod || x->heads_apart || (x->p->attn->v_in_k && !x->values_joined);
    default: return h->has_v_mod || x->heads_apart || x->p->attn->v_in_k;
    }
}

/* Of queries: those of further products, and what pairs read at indices with the query; else keys, and what they read without it. */
static bool sums(const Lanes *x, uint32_t tensor, bool of_queries)
{
    const AuGrads *g = x->p->grads;
    bool found = false;
    for (uint32_t n = 0; n < g->dot_count; n++)
        found |=
            lanes_dot_tensor(x->p, back_dot(x, n), !of_queries) == tensor && back_wants(x, tensor);
    for (uint32_t n = 0; n < g->pairs.count; n++)
        found |= g->pairs.at[n].tensor == tensor &&
                 of_queries == ((back_read_axes(x, &g->pairs.at[n]) & AU_AX_Q) != 0);
    return found;
}

bool back_sums_keys(const Lanes *x, uint32_t tensor) { return sums(x, tensor, false); }

bool back_sums_queries(const Lanes *x, uint32_t tensor) { return sums(x, tensor, true); }

bool back_heads_agree(const Lanes *x)
{
    const AuAttn *a = x->p->attn;
    return a->v_in_k || a->tensors[1].axes[1].i == a->tensors[2].axes[1].i;
}

static uint8_t axes_of_read(const AuAttn *a, const AuInputGrad *g)
{
    uint8_t axes = 0;
    for (uint32_t n = 0; n < attn_at(a, g->read)->count; n++)
        axes |= attn_at(a, attn_arg(a, g->read, n))->axes;
    return axes;
}

uint8_t back_read_axes(const Lanes *x, const AuInputGrad *g) { return axes_of_read(x->p->attn, g); }

bool back_sums_by_query(const AuProblem *p)
{
    bool found = false;
    for (uint32_t n = 0; n < p->grads->pairs.count; n++)
        found |= (axes_of_read(p->attn, &p->grads->pairs.at[n]) & AU_AX_Q) != 0;
    return found;
}

bool back_reads_by(const Lanes *x, const AuInputGrads *inputs, AuOp op)
{
    const AuAttn *a = x->p->attn;
    bool *mark = AU_NEW_ARRAY(x->arena, bool, a->node_count);
    for (uint32_t n = 0; n < inputs->count; n++)
        for (uint32_t i = 0; i < attn_at(a, inputs->at[n].read)->count; i++)
            attn_mark(a, attn_arg(a, inputs->at[n].read, i), mark);
    return attn_has_marked(a, mark, op);
}

void back_name_pair(Lanes *x)
{
    if (back_reads_by(x, &x->p->grads->pairs, AU_OP_SCORE)) tile_set(x->t, "s", "score");
}

/* An index vector that only has the axes adds nothing to the last index. */
const char *back_scatter_view(Lanes *x, const AuInputGrad *g, const char *axes, bool of_keys)
{
    const AuTileExpr *read = hooks_read(x->p->hooks, x->p->attn, g->read, of_keys);
    AuText at = {.arena = x->arena};
    const int32_t parts = back_sum_parts(x, g->tensor);
    au_text_add(&at, "%s[", back_sum(x, g->tensor));
    if (parts > 1 && *axes && *axes != 'c')
        au_text_add(&at, "%c %% %d, ", *axes, parts);
    else if (parts > 1)
        au_text_add(&at, "0, ");
    tile_print_args(&read->args, &at);
    if (!read->args.count) au_text_add(&at, "0");
    for (const char *a = axes; *a; a++) au_text_add(&at, " + 0 * %c", *a);
    au_text_add(&at, "]");
    return au_text_str(&at);
}

/* Rows that the read does not tell apart are added among the lanes, where these can exchange, then as one: [axes] without those. */
static const char *join_rows(Lanes *x, const AuInputGrad *g, AuTileHandle *value, const char *axes,
                             const char *when)
{
    const bool of_queries = axes[0] == 'i';
    AuInputGrad read = *g;
    const AuInputGrads one = {.at = &read, .count = 1};
    if (back_reads_by(x, &one, AU_OP_ELEMENT)) return axes; /* each row its own elements */
    const bool exchange = x->on_cpu || x->rows_across;
    if (!exchange || (axes[1] && axes[1] != 'c'))
        return axes; /* or pairs, which are joined already */
    if (back_read_axes(x, g) & (of_queries ? AU_AX_Q : AU_AX_KV)) return axes;
    *value = tile_set(x->t, tile_part(x->t, "sum_%v", *value), "reduce_sum(where(%s, %v, 0.0), %s)",
                      when, *value, of_queries ? "q" : "kv");
    return axes + 1;
}

void back_scatter(Lanes *x, const AuInputGrad *g, AuTileHandle value, const char *axes,
                  bool of_keys, const char *when)
{
    const char *all = axes;
    axes = join_rows(x, g, &value, axes, when);
    const char *view = back_scatter_view(x, g, axes, of_keys);
    const char *and_so = axes == all ? tile_text(x->t, " when %s", when) : "";
    const bool one_by_one = x->p->deterministic && !x->on_cpu && *axes;
    if (one_by_one) { /* lanes of a block one after the other */
        tile_for_range(x->t, "owner", "0", tile_text(x->t, "%d", x->p->caps->lanes));
        and_so = tile_text(x->t, " %s %c %% %d == owner",
                           axes == all ? tile_text(x->t, "when %s &&", when) : "when", axes[0],
                           x->p->caps->lanes);
    }
    tile_atomic_add(x->t, "%v -> %s%s", value, view, and_so);
    if (one_by_one) tile_end(x->t);
}
