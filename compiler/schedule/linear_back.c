/* linear_back.c - recurrences, backward: what the gradient of a slot's value gives to the tensors and inputs that the slot reads
 * (slot_NAME_back, out_back). Where one place alone makes a tensor's gradient, each element once, it is stored; else it
 * is added to a sum of f32 in the workspace, of the tensor's own shape: heads that are shared have no copies. */
#include "linear.h"
#include "lanes_back.h"

#include <ctype.h>
#include <string.h>

enum { CHANNELS = AU_AX_C | AU_AX_K | AU_AX_V, TOKENS = AU_AX_TOK | AU_AX_Q | AU_AX_KV };

static const AuNormalGrads *grads(const Linear *l) { return l->x.p->grads->normal; }

static const AuTensor *tensor_of(const Linear *l, uint32_t n) { return &l->x.p->attn->tensors[n]; }

/* Values that are channels of the keys give theirs to those. */
static uint32_t target(const Linear *l, const AuInputGrad *g)
{
    return g->tensor == 2 && l->x.p->attn->v_in_k ? 1 : g->tensor;
}

static bool is_wanted(const Linear *l, uint32_t n)
{
    return tensor_of(l, n)->grad && !(n == 2 && l->x.p->attn->v_in_k);
}

static const char *gradient_name(Linear *l, uint32_t n)
{
    return n < 3 ? back_gradient_names[n] : tile_text(l->x.t, "grad_%u", n);
}

/* ---- who adds to a tensor */

static const AuInputGrads *inputs_of(const Linear *l, uint32_t place)
{
    return place < AU_SLOT_COUNT ? &grads(l)->slot[place] : &grads(l)->out.inputs;
}

static uint32_t contributions(const Linear *l, uint32_t tensor, const AuInputGrad **last)
{
    uint32_t count = 0;
    for (uint32_t s = 0; s <= AU_SLOT_COUNT; s++)
        for (uint32_t n = 0; n < inputs_of(l, s)->count; n++)
            if (target(l, &inputs_of(l, s)->at[n]) == tensor)
                *last = &inputs_of(l, s)->at[n], count++;
    return count;
}

static bool has_all_heads(Linear *l, uint32_t tensor, uint32_t axis)
{
    return strcmp(lanes_axis(&l->x, tensor, axis), l->heads) == 0;
}

/* AuAxisBits of the tensor's own axes in which [g] has an element of its own: heads only if none are shared. */
static uint8_t own_axes(Linear *l, const AuInputGrad *g)
{
    const AuAttn *a = l->x.p->attn;
    const AuNode *read = attn_at(a, g->read);
    uint8_t bits[8], own = 0;
    if (read->op != AU_OP_TENSOR) {
        for (uint32_t n = 0; n < read->count; n++) {
            const AuNode *index = attn_at(a, attn_arg(a, g->read, n));
            if (index->op == AU_OP_INDEX) own |= (uint8_t)index->integer;
        }
        return own;
    }
    attn_tensor_axes(a, read, bits);
    for (uint32_t n = 0; n < tensor_of(l, target(l, g))->rank; n++)
        if (bits[n] != AU_AX_H || has_all_heads(l, target(l, g), n)) own |= bits[n];
    return own;
}

/* What the tensor's axes are where it is read: AuAxisBits. */
static void axes_where_read(const Linear *l, const AuInputGrad *g, uint8_t bits[8])
{
    const AuAttn *a = l->x.p->attn;
    const AuNode *read = attn_at(a, g->read);
    if (read->op == AU_OP_TENSOR)
        attn_tensor_axes(a, read, bits);
    else
        for (uint32_t n = 0; n < read->count; n++)
            bits[n] = (uint8_t)attn_at(a, attn_arg(a, g->read, n))->integer;
}

/* "gate[b, h, i, c]", of a tensor that has just those: each element is read once, by its own place of the output. */
static bool reads_each(Linear *l, const AuInputGrad *g)
{
    const AuAttn *a = l->x.p->attn;
    const AuNode *read = attn_at(a, g->read);
    const char *columns = au_format(l->x.arena, "%d", l->x.p->e);
    uint8_t seen = 0;
    if (!l->stores_reads || read->count != 4 || !(attn_at(a, g->value)->axes & CHANNELS))
        return false;
    for (uint32_t n = 0; n < read->count; n++) {
        const AuNode *index = attn_at(a, attn_arg(a, g->read, n));
        const uint8_t axis = (uint8_t)index->integer;
        const char *own = lanes_axis(&l->x, g->tensor, n), *extent = axis == AU_AX_B
                                                                         ? lanes_axis(&l->x, 0, 0)
                                                                     : axis == AU_AX_H ? l->heads
                                                                     : axis & TOKENS   ? l->tokens
                                                                     : axis & CHANNELS ? columns
                                                                                       : "";
        if (index->op != AU_OP_INDEX || seen & axis || strcmp(own, extent) != 0) return false;
        seen |= axis;
    }
    return true;
}

/* Is it summed over the channels of a slot's rows, which warps share out? Each has a part of the sum then. */
static bool is_in_parts(const Linear *l, const AuInputGrad *g)
{
    if (!l->in_parts || attn_at(l->x.p->attn, g->value)->axes & CHANNELS) return false;
    for (uint32_t s = 0; s < AU_SLOT_COUNT; s++)
        for (uint32_t n = 0; n < inputs_of(l, s)->count; n++)
            if (&inputs_of(l, s)->at[n] == g) return l->x.p->hooks->slots[s].channel != 0;
    return false;
}

/* Where it has the axes [needed] as its own. */
static bool is_stored_with(Linear *l, uint32_t tensor, uint8_t needed)
{
    const AuInputGrad *g = NULL;
    if (l->in_strips || contributions(l, tensor, &g) != 1 || g->tensor != tensor) return false;
    if (is_in_parts(l, g)) return false;
    if (attn_at(l->x.p->attn, g->read)->op != AU_OP_TENSOR) return reads_each(l, g);
    return (own_axes(l, g) & needed) == needed &&
           !(attn_at(l->x.p->attn, g->value)->axes & CHANNELS &
             ~attn_at(l->x.p->attn, g->read)->axes);
}

static bool is_stored(Linear *l, uint32_t tensor)
{
    return is_stored_with(l, tensor, AU_AX_B | AU_AX_H | AU_AX_TOK);
}

/* Heads that the tensor has, which heads may share, and which are all of them in most calls: those store, and there is no sum, which the
 * call's sizes say. NULL: not so, as where the script says both numbers. */
static const char *heads_stored(Linear *l, uint32_t tensor)
{
    const AuInputGrad *g = NULL;
    uint8_t bits[8];
    if (!l->asks_heads || is_stored(l, tensor) || !is_stored_with(l, tensor, AU_AX_B | AU_AX_TOK))
        return NULL;
    contributions(l, tensor, &g);
    attn_tensor_axes(l->x.p->attn, attn_at(l->x.p->attn, g->read), bits);
    for (uint32_t n = 0; n < tensor_of(l, tensor)->rank; n++) {
        const char *own = lanes_axis(&l->x, tensor, n);
        const bool both_known = isdigit((unsigned char)*own) && isdigit((unsigned char)*l->heads);
        if (bits[n] == AU_AX_H) return both_known ? NULL : own;
    }
    return NULL;
}

/* How many sums the tensor has in a call, 0 or 1. */
static const char *sums_of(Linear *l, uint32_t tensor)
{
    const char *own = heads_stored(l, tensor);
    return own ? tile_text(l->x.t, "min(%s - %s, 1)", l->heads, own) : "1";
}

bool lin_sums_gradients(AuArena *arena, const AuProblem *p)
{
    const AuInputGrad *g;
    Linear l = {.x = {.p = p, .arena = arena, .operand = tile_elem(p->operand)->name},
                .heads = hooks_heads(p->hooks, p->attn),
                .has_norm = p->hooks->slots[AU_SLOT_NORM].value.i != 0};
    l.tokens = lanes_axis(&l.x, 0, 2);
    l.stores_reads = lin_needs_output(&l);
    l.in_parts = true;
    for (uint32_t n = 0; n < p->attn->tensor_count; n++)
        if (is_wanted(&l, n) && contributions(&l, n, &g) && !is_stored(&l, n)) return true;
    return false;
}

/* ---- the kernel */

/* Do blocks that differ along the axis add to one element? */
static bool is_shared_along(Linear *l, uint8_t axis)
{
    for (uint32_t s = 0; s <= AU_SLOT_COUNT; s++)
        for (uint32_t n = 0; n < inputs_of(l, s)->count; n++)
            if (!(own_axes(l, &inputs_of(l, s)->at[n]) & axis)) return true;
    return false;
}

static bool is_loop(Linear *l, uint8_t axis)
{
    return l->x.p->deterministic && is_shared_along(l, axis);
}

static void state_argument(Linear *l, const char *name, AuTileMode mode, bool of_sums)
{
    const char *columns = of_sums ? "" : tile_text(l->x.t, ", e:%d", l->x.p->e);
    tile_arg(l->x.t, name, mode, "f32[b:%s, h:%s, d:%d%s]", lin_sequences(l), l->heads, l->x.p->d,
             columns);
}

void lin_back_arguments(Linear *l, const char *name, bool has_states)
{
    Lanes *x = &l->x;
    const char *batch = lanes_axis(x, 0, 0);
    tile_kernel(x->t, name);
    lanes_arguments(x);
    tile_arg(x->t, "do", TILE_IN, "%s[b:%s, h:%s, q:%s, e:%d]", x->operand, batch, l->heads,
             l->tokens, x->p->e);
    lin_sequences_argument(l);
    for (uint32_t sums = 0; has_states && sums < 1u + l->has_norm; sums++) {
        state_argument(l, sums ? "sum_in" : "state_in", TILE_IN, sums);
        state_argument(l, sums ? "dsum_out" : "dstate_out", TILE_IN, sums);
        state_argument(l, sums ? "dsum_in" : "dstate_in", TILE_OUT, sums);
    }
    for (uint32_t n = 0; n < x->p->attn->tensor_count; n++) {
        const AuInputGrad *g;
        if (!is_wanted(l, n)) continue;
        if (is_stored(l, n) || heads_stored(l, n))
            tile_arg(x->t, gradient_name(l, n), TILE_OUT, "%s", lanes_type(x, lanes_elem(x, n), n));
        if (!is_stored(l, n) && contributions(l, n, &g))
            back_sum_argument_of(x, n, TILE_INOUT, sums_of(l, n));
    }
}

void lin_back_head(Linear *l, const char *name)
{
    Lanes *x = &l->x;
    lin_back_arguments(l, name, true);
    const char *heads = is_loop(l, AU_AX_H) ? "" : tile_text(x->t, "h: %s", l->heads),
               *sequences = is_loop(l, AU_AX_B) ? "" : tile_text(x->t, "n: %s", lin_sequences(l));
    tile_grid(x->t, "%s%s%s", *heads || *sequences ? heads : "one: 1",
              *heads && *sequences ? ", " : "", sequences);
}

void lin_back_chunk(Linear *l)
{
    tile_set(l->x.t, "at", "start / %d + n + chunk", l->chunk);
    lin_meet(l);
    lin_count(l);
}

void lin_back_chunk_again(Linear *l)
{
    tile_set(l->x.t, "chunk", "cdiv(length, %d) - 1 - back", l->chunk);
    tile_set(l->x.t, "first", "start + chunk * %d", l->chunk);
    lin_back_chunk(l);
}

uint32_t lin_back_loops(Linear *l)
{
    uint32_t open = 0;
    if (is_loop(l, AU_AX_B)) tile_for_range(l->x.t, "n", "0", lin_sequences(l)), open++;
    if (is_loop(l, AU_AX_H)) tile_for_range(l->x.t, "h", "0", l->heads), open++;
    return open;
}

/* ---- gradients of tensors */

void lin_places(Linear *l)
{
    AuTileBuild *t = l->x.t;
    tile_set(t, "t", "first + iota(kv:%d)", l->spread);
    tile_set(t, "i", "t");
    tile_set(t, "c", "iota(e:%d)", l->x.p->e);
    tile_set(t, "c_d", "iota(d:%d)", l->x.p->d);
}

static const char *channel_index(const char *channel) { return *channel == 'd' ? "c_d" : "c"; }

const char *lin_value_names(Linear *l, const AuInputGrads *in, const char *of)
{
    AuText text = {.arena = l->x.arena};
    for (uint32_t n = 0; n < in->count; n++)
        au_text_add(&text, "%svalue_%s%u", n ? ", " : "", of, n);
    return in->count ? au_text_str(&text) : "";
}

static const char *inside(Linear *l)
{
    if (l->of_warps || l->spread == l->chunk) return "t < end";
    return tile_text(l->x.t, "t < end && t < first + %d", l->chunk);
}

/* Channels that a tile has beyond the tensor's are nobody's. */
static const char *inside_channels(Linear *l, const char *channel)
{
    const AuProblem *p = l->x.p;
    const int32_t most = *channel == 'd' ? p->d : p->e;
    if (!l->of_warps || !*channel) return "";
    return tile_text(l->x.t, "%s < %d", channel_index(channel), most);
}

/* Where a slot's tensor has what it was given: "sum_1[b, h / (..), t, 2 + c]". */
static const char *element_of(Linear *l, const AuInputGrad *g, const char *channel)
{
    AuAttn *a = l->x.p->attn;
    const uint32_t tensor = target(l, g);
    uint8_t bits[8];
    AuText at = {.arena = l->x.arena};
    attn_tensor_axes(a, attn_at(a, g->read), bits);
    au_text_add(&at, "%s[%s", back_sum(&l->x, tensor), heads_stored(l, tensor) ? "0, " : "");
    for (uint32_t n = 0; n < a->tensors[tensor].rank; n++) {
        const char *own = lanes_axis(&l->x, tensor, n);
        if (n) au_text_add(&at, ", ");
        if (bits[n] == AU_AX_B)
            au_text_add(&at, "b");
        else if (bits[n] == AU_AX_H && has_all_heads(l, tensor, n))
            au_text_add(&at, "h");
        else if (bits[n] == AU_AX_H)
            au_text_add(&at, "h / (%s / %s)", l->heads, own);
        else if (bits[n] & TOKENS)
            au_text_add(&at, "t");
        else if (bits[n])
            au_text_add(&at, "%d + %s", g->tensor != tensor ? a->v_first : 0,
                        channel_index(channel));
        else
            au_text_add(&at, "0");
    }
    au_text_add(&at, "%s]", a->tensors[tensor].rank ? "" : "0");
    return au_text_str(&at);
}

static const char *read_element(Linear *l, const AuInputGrad *g)
{
    const AuTileExpr *read = hooks_read(l->x.p->hooks, l->x.p->attn, g->read, false);
    AuText at = {.arena = l->x.arena};
    au_text_add(&at, "%s[", back_sum(&l->x, g->tensor));
    tile_print_args(&read->args, &at);
    au_text_add(&at, "%s]", read->args.count ? "" : "0");
    return au_text_str(&at);
}

static uint8_t axes_of_read(const Linear *l, const AuInputGrad *g)
{
    const AuNode *read = attn_at(l->x.p->attn, g->read);
    return read->op == AU_OP_TENSOR ? read->axes : back_read_axes(&l->x, g);
}

/* The slot's rows of [name], which is as the tensor; no other token's, and nothing behind the last one. */
static const char *rows_view(Linear *l, const AuInputGrad *g, const char *name, const char *channel)
{
    uint8_t bits[8];
    AuText view = {.arena = l->x.arena}, names = {.arena = l->x.arena};
    axes_where_read(l, g, bits);
    au_text_add(&view, "%s[", name);
    for (uint32_t n = 0; n < tensor_of(l, g->tensor)->rank; n++) {
        const char *comma = names.length ? ", " : "";
        if (n) au_text_add(&view, ", ");
        if (bits[n] & TOKENS) {
            au_text_add(&view, "%s from start to end",
                        l->of_warps ? l->of_warps->rows
                                    : tile_text(l->x.t, "first +: %d", l->spread));
            au_text_add(&names, "%skv", comma);
        } else if (bits[n] & CHANNELS) {
            au_text_add(&view, "%s",
                        !l->of_warps      ? ":"
                        : *channel == 'd' ? l->of_warps->key_columns
                                          : l->of_warps->value_columns);
            au_text_add(&names, "%s%s", comma, channel);
        } else
            au_text_add(&view, "%s", bits[n] == AU_AX_B ? "b" : bits[n] == AU_AX_H ? "h" : "0");
    }
    return tile_text(l->x.t, "%s] as [%s]", au_text_str(&view), au_text_str(&names));
}

static const char *of_chunk(Linear *l)
{
    return l->of_warps || l->spread == l->chunk
               ? ""
               : tile_text(l->x.t, " when iota(kv:%d) < %d", l->spread, l->chunk);
}

static void store_gradient(Linear *l, const AuInputGrad *g, const char *value, const char *channel)
{
    tile_store(l->x.t, "%s(%s) -> %s clip%s", lanes_elem(&l->x, g->tensor), value,
               rows_view(l, g, gradient_name(l, g->tensor), channel), of_chunk(l));
}

/* When no other block adds to the rows: as many heads as the recurrence has, which is known when it runs. NULL: one always does, or
 * other executors of this block do. */
static const char *when_alone(Linear *l, const AuInputGrad *g)
{
    const AuAttn *a = l->x.p->attn;
    const AuNode *read = attn_at(a, g->read);
    const uint8_t rest = AU_AX_B | AU_AX_TOK;
    uint8_t bits[8];
    if (!l->x.on_cpu || read->op != AU_OP_TENSOR || g->tensor != target(l, g)) return NULL;
    if ((own_axes(l, g) & rest) != rest || attn_at(a, g->value)->axes & CHANNELS & ~read->axes)
        return NULL;
    attn_tensor_axes(a, read, bits);
    for (uint32_t n = 0; n < tensor_of(l, g->tensor)->rank; n++)
        if (bits[n] == AU_AX_H)
            return tile_text(l->x.t, "%s == %s", l->heads, lanes_axis(&l->x, g->tensor, n));
    return NULL;
}

/* By whole vectors: nobody else is at these rows. */
static void add_alone(Linear *l, const AuInputGrad *g, const char *value, const char *channel)
{
    AuTileBuild *t = l->x.t;
    const char *view = rows_view(l, g, back_sum(&l->x, g->tensor), channel),
               *before = tile_text(t, "before_%s", value);
    tile_load(t, before, "%s like %s pad 0", view, value);
    tile_store(t, "%s + %s -> %s clip%s", before, value, view, of_chunk(l));
}

/* Axes that the tensor lacks are summed first. */
static void add_gradient(Linear *l, const AuInputGrad *g, uint32_t n, const char *of,
                         const char *channel)
{
    AuTileBuild *t = l->x.t;
    const uint8_t read = axes_of_read(l, g), has = attn_at(l->x.p->attn, g->value)->axes;
    const bool whole = attn_at(l->x.p->attn, g->read)->op == AU_OP_TENSOR;
    const char *value = tile_text(t, "value_%s%u", of, n);
    if (!is_wanted(l, target(l, g))) return;
    if (is_stored(l, target(l, g))) {
        store_gradient(l, g, value, channel);
        return;
    }
    const char *own = heads_stored(l, target(l, g)),
               *alone = own ? tile_text(t, "%s == %s", l->heads, own) : when_alone(l, g);
    if (alone) {
        tile_if(t, "%s", alone);
        own ? store_gradient(l, g, value, channel) : add_alone(l, g, value, channel);
        tile_else(t);
    }
    const bool by_token = read & TOKENS, by_channel = read & CHANNELS;
    const char *sum = value;
    if (!by_token) {
        sum = tile_text(t, "over_tokens_%s%u", of, n);
        tile_set(t, sum, "reduce_sum(where(%s, %s, 0.0), kv)", inside(l), value);
    }
    if (*channel && has & CHANNELS && !by_channel) {
        const char *row = sum;
        sum = tile_text(t, "over_channels_%s%u", of, n);
        tile_set(t, sum, "reduce_sum(%s, %s)", row, channel);
    }
    const bool in_turn = l->x.p->deterministic && !l->x.on_cpu && by_token && !whole;
    const char *channels = by_channel ? inside_channels(l, channel) : "";
    const char *when =
        by_token    ? tile_text(t, " when %s%s%s", inside(l), *channels ? " && " : "", channels)
        : *channels ? tile_text(t, " when %s", channels)
                    : "";
    if (in_turn) {
        tile_for_range(t, "owner", "0", tile_text(t, "%d", l->x.p->caps->lanes));
        when = tile_text(t, "%s && t %% %d == owner", when, l->x.p->caps->lanes);
    }
    tile_atomic_add(t, "%s -> %s%s", sum, whole ? element_of(l, g, channel) : read_element(l, g),
                    when);
    if (in_turn) tile_end(t);
    if (alone) tile_end(t);
}

void lin_add_gradients(Linear *l, const AuInputGrads *in, const char *of, const char *channel)
{
    for (uint32_t n = 0; n < in->count; n++) add_gradient(l, &in->at[n], n, of, channel);
}

/* ---- rows of a slot */

static const char *held_channel(const AuHookSlot *s)
{
    return !s->channel ? "" : s->channel == AU_AX_V ? "e" : "d";
}

void lin_rows_back_declare(Linear *l, const LinearRows *r)
{
    if (!grads(l)->slot[r->slot].count) return;
    if (*r->channel)
        tile_frag(l->x.t, tile_text(l->x.t, "dx_%s", r->memory), "f32[%s",
                  lin_rows_layout(l, r->channel, r->width, r->tokens));
    else
        tile_frag(l->x.t, tile_text(l->x.t, "dx_%s", r->memory), "f32[%s:%d] @ along_lanes",
                  r->tokens, l->spread);
}

void lin_rows_back_of(Linear *l, const LinearRows *r, const char *raw, const char *dx)
{
    AuTileBuild *t = l->x.t;
    const AuInputGrads *in = &grads(l)->slot[r->slot];
    const AuHookSlot *s = &l->slots[r->slot];
    if (!in->count) return;
    if (!s->back)
        tile_set(t, lin_value_names(l, in, r->memory), "%s", dx);
    else {
        const char *x =
            s->is_scalar && r->slot == AU_SLOT_LOG_DECAY ? dx : tile_text(t, "f32(%s)", raw);
        tile_set(t, lin_value_names(l, in, r->memory), "%s(%s, %s, b, h, t, %s)", s->back, x, dx,
                 s->channel ? channel_index(held_channel(s)) : "0");
    }
    lin_add_gradients(l, in, r->memory, held_channel(s));
}

void lin_rows_back_from(Linear *l, const LinearRows *r)
{
    lin_rows_back_of(l, r, tile_text(l->x.t, "raw_%s", r->memory),
                     tile_text(l->x.t, "dx_%s", r->memory));
}

bool lin_has_gradient(const Linear *l, AuSlot slot) { return grads(l)->slot[slot].count != 0; }

void lin_rows_back(Linear *l, const LinearRows *r)
{
    AuTileBuild *t = l->x.t;
    const char *dx = tile_text(t, "dx_%s", r->memory);
    if (!grads(l)->slot[r->slot].count) return;
    tile_load(t, dx, "%s[0 +: %d%s] pad 0", r->memory, l->spread, *r->channel ? ", :" : "");
    if (l->in_strips && strcmp(r->channel, "e") == 0) /* of other strips there are values */
        tile_set(t, dx, "where(c >= vb * %d && c < vb * %d + %d, %s, 0.0)", l->columns, l->columns,
                 l->columns, dx);
    lin_rows_back_from(l, r);
}

/* ---- sums */

void lin_sum_kernels(Linear *l)
{
    for (uint32_t n = 0; n < l->x.p->attn->tensor_count; n++) {
        if (!is_wanted(l, n) || is_stored(l, n)) continue;
        back_sum_kernel(&l->x, n, gradient_name(l, n), sums_of(l, n));
        lanes_zeroed_region(&l->x, back_sum(&l->x, n));
    }
}
