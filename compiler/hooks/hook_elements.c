/* hook_elements.c - what a hook reads: sizes and positions, elements of tensors where indices of the script say, and the partner of a
 * channel that a rotation turns. */
#include "hook_writer.h"

#include <string.h>

AuTileExpr *writer_size(AuHookWriter *w, const AuSize *s)
{
    return s->fixed >= 0 ? writer_integer(w, s->fixed)
                         : writer_variable(w, hooks_name(writer_module(w)->arena, s->name));
}

bool writer_is_length(const AuHookWriter *w, const AuNode *n)
{
    const AuNode *length = attn_at(w->attn, w->attn->tensors[0].axes[2]);
    return w->of_sequence && length->op == AU_OP_SIZE && n->integer == length->integer;
}

bool writer_is_key_length(const AuHookWriter *w, const AuNode *n)
{
    const AuNode *length = attn_at(w->attn, w->attn->tensors[1].axes[2]);
    return w->attn->keys.layout && !w->of_extents && length->op == AU_OP_SIZE &&
           n->integer == length->integer;
}

bool writer_is_query_length(const AuHookWriter *w, const AuNode *n)
{
    const AuNode *length = attn_at(w->attn, w->attn->tensors[0].axes[2]);
    return w->attn->queries.layout && !w->of_extents && length->op == AU_OP_SIZE &&
           n->integer == length->integer;
}

AuTileExpr *writer_batch(AuHookWriter *w, const AuNode *n)
{
    const AuNode *batch = attn_at(w->attn, w->attn->tensors[0].axes[0]);
    const AuRowLayout *queries = &w->attn->queries;
    if (queries->layout != AU_LAYOUT_PACKED || w->of_extents || batch->op != AU_OP_SIZE ||
        n->integer != batch->integer)
        return NULL;
    return writer_op2(w, TILE_X_SUB, writer_size(w, &w->attn->sizes[queries->ends]),
                      writer_integer(w, 1));
}

AuTileExpr *writer_key_length(AuHookWriter *w)
{
    return writer_variable(w, w->attn->keys.has_positions ? "kv_whole" : "kv_length");
}

AuTileExpr *writer_query_length(AuHookWriter *w)
{
    return writer_variable(w, w->attn->queries.has_positions ? "q_whole" : "q_length");
}

static AuTileExpr *every(AuHookWriter *w, const AuRowLayout *rows)
{
    return writer_variable(w,
                           hooks_name(writer_module(w)->arena, w->attn->params[rows->every].name));
}

/* Of a row of keys or of queries. */
static AuTileExpr *position_of(AuHookWriter *w, bool of_keys, AuTileExpr *row)
{
    const AuRowLayout *rows = of_keys ? &w->attn->keys : &w->attn->queries;
    if (!rows->has_positions) return row;
    return writer_op2(w, TILE_X_ADD, writer_variable(w, of_keys ? "kv_first" : "q_first"),
                      writer_op2(w, TILE_X_MUL, every(w, rows), row));
}

/* Ranges are asked for of the rows from i to before j, which are queries both: of the position before which the last one is. */
static AuTileExpr *position_in_range(AuHookWriter *w, int32_t axis, AuTileExpr *at)
{
    if (!w->attn->queries.has_positions || axis == AU_AX_Q) return position_of(w, false, at);
    AuTileExpr *last = writer_op2(w, TILE_X_SUB, at, writer_integer(w, 1));
    return writer_op2(w, TILE_X_ADD, position_of(w, false, last), writer_integer(w, 1));
}

AuTileExpr *writer_row_of(AuHookWriter *w, AuTileExpr *position)
{
    if (!w->attn->keys.has_positions) return position;
    AuTileExpr *behind = writer_op2(
        w, TILE_X_MAX, writer_op2(w, TILE_X_SUB, position, writer_variable(w, "kv_first")),
        writer_integer(w, 0));
    return writer_op2(w, TILE_X_MIN, writer_op2(w, TILE_X_CDIV, behind, every(w, &w->attn->keys)),
                      writer_variable(w, "kv_length"));
}

static AuTileExpr *index_expr(AuHookWriter *w, int32_t axis);

AuTileExpr *writer_position(AuHookWriter *w, int32_t axis)
{
    AuTileExpr *at = index_expr(w, axis);
    if (w->in_range && (axis == AU_AX_Q || axis == AU_AX_KV)) return position_in_range(w, axis, at);
    if (axis == AU_AX_KV) return position_of(w, true, at);
    if (axis == AU_AX_Q && w->attn->queries.has_positions) return position_of(w, false, at);
    const bool is_token = axis == AU_AX_TOK || axis == AU_AX_Q;
    return w->of_sequence && is_token ? writer_op2(w, TILE_X_SUB, at, writer_variable(w, "start"))
                                      : at;
}

/* Is the axis the length of the sequences, so that what is read is the token's own (E0505)? */
static bool is_own_token(const AuHookWriter *w, AuExpr axis)
{
    return w->of_sequence && axis.i == w->attn->tensors[0].axes[2].i;
}

/* Positions of the hooks' parameters need no clamping: kernels pass them inside the axes or guard
 * what they read. Where rows of queries are some of a sequence's, callers' numbers say which. */
static bool is_position(const AuHookWriter *w, const AuNode *n)
{
    if (n->op == AU_OP_INDEX && n->integer == AU_AX_Q && w->attn->queries.has_positions)
        return false;
    return n->op == AU_OP_INDEX || n->op == AU_OP_KV_H;
}

/* An element in memory as arithmetic takes it. */
static AuTileExpr *read_as(AuHookWriter *w, AuTileExpr *ref, AuDtype dtype)
{
    if (dtype == AU_DT_BOOL) return writer_op2(w, TILE_X_NE, ref, writer_integer(w, 0));
    const bool whole = dtype == AU_DT_I32 || dtype == AU_DT_I64 || dtype == AU_DT_U8;
    return writer_op1(w, whole ? TILE_X_TO_I32 : TILE_X_TO_F32, ref);
}

/* Element [at] of what a sequence has of the axis, as it lies in memory. */
static AuTileExpr *packed_at(AuHookWriter *w, AuInputPlace place, AuTileExpr *at)
{
    if (place != AU_PLACE_QUERIES && place != AU_PLACE_KEYS) return at;
    return writer_op2(w, TILE_X_ADD,
                      writer_variable(w, place == AU_PLACE_KEYS ? "kv_start" : "q_start"), at);
}

/* What lies behind the rows or keys that the sequence has is others', and must not be seen: there inputs are as of the last one, as reads beyond a dense
 * tensor are. */
static AuTileExpr *guarded(AuHookWriter *w, AuExpr axis, const AuNode *index, AuTileExpr *at)
{
    const AuAttn *a = w->attn;
    const bool rows = w->guards_rows && index->integer == AU_AX_Q,
               keys = w->guards_keys && index->integer == AU_AX_KV,
               of_sequence = axis.i == a->tensors[0].axes[2].i || axis.i == a->tensors[1].axes[2].i;
    if (index->op != AU_OP_INDEX || !(rows || keys) || !of_sequence) return at;
    AuTileExpr *length = rows ? writer_query_length(w) : writer_key_length(w);
    return writer_op2(w, TILE_X_MIN, at, writer_op2(w, TILE_X_SUB, length, writer_integer(w, 1)));
}

AuTileExpr *writer_input(AuHookWriter *w, AuExpr e)
{
    const AuNode n = *attn_at(w->attn, e);
    const AuTensor *t = &w->attn->tensors[n.integer];
    AuTileExpr *ref = writer_node(w, TILE_X_REF, n.span);
    ref->name = writer_name(w, hooks_name(writer_module(w)->arena, t->name));
    ref->has_index = n.count > 0;
    for (uint32_t i = 0; i < n.count; i++) {
        const AuExpr index = attn_arg(w->attn, e, i);
        const AuInputPlace place = attn_input_place(w->attn, (uint32_t)n.integer, i);
        if (place == AU_PLACE_ONE) {
            writer_add_arg(w, ref, writer_integer(w, 0));
            continue;
        }
        AuTileExpr *at = is_own_token(w, t->axes[i])
                             ? index_expr(w, attn_at(w->attn, index)->integer)
                             : writer_expr(w, index);
        if (!is_position(w, attn_at(w->attn, index)) && attn_at(w->attn, index)->op != AU_OP_I32) {
            AuTileExpr *last =
                writer_op2(w, TILE_X_SUB, writer_expr(w, t->axes[i]), writer_integer(w, 1));
            at = writer_op3(w, TILE_X_CLAMP, at, writer_integer(w, 0), last);
        }
        at = guarded(w, t->axes[i], attn_at(w->attn, index), at);
        writer_add_arg(w, ref, packed_at(w, place, at));
    }
    return read_as(w, ref, t->dtype);
}

AuTileExpr *writer_key_head(AuHookWriter *w)
{
    const AuAttn *a = w->attn;
    if (w->own_head) return writer_variable(w, "h");
    return writer_op2(w, TILE_X_DIV, writer_variable(w, "h"),
                      writer_op2(w, TILE_X_DIV, writer_expr(w, a->tensors[0].axes[1]),
                                 writer_expr(w, a->tensors[1].axes[1])));
}

static AuTileExpr *index_expr(AuHookWriter *w, int32_t axis)
{
    switch (axis) {
    case AU_AX_B: return writer_variable(w, "b");
    case AU_AX_H: return writer_variable(w, "h");
    case AU_AX_Q: return writer_variable(w, "i");
    case AU_AX_KV: return writer_variable(w, "j");
    case AU_AX_C: return w->at ? w->at->index : writer_variable(w, "c");
    case AU_AX_TOK: return writer_variable(w, "t");
    default: break;
    }
    w->failed = true;
    return writer_integer(w, 0);
}

/* Fewer heads are shared in groups. */
static AuTileExpr *group_of(AuHookWriter *w, AuExpr extent)
{
    const AuExpr all = attn_heads(w->attn);
    if (all.i == extent.i) return writer_variable(w, "h");
    return writer_op2(w, TILE_X_DIV, writer_variable(w, "h"),
                      writer_op2(w, TILE_X_DIV, writer_expr(w, all), writer_expr(w, extent)));
}

AuTileExpr *writer_tensor(AuHookWriter *w, AuExpr e)
{
    if (e.i == w->whole.i) return writer_variable(w, "x");
    static const char *const roles[] = {"q", "k", "v"};
    const AuNode n = *attn_at(w->attn, e);
    const bool in_k = n.integer == 2 && w->attn->v_in_k;
    const AuTensor *t = &w->attn->tensors[n.integer];
    uint8_t bits[8];
    AuTileExpr *ref = writer_node(w, TILE_X_REF, n.span);
    ref->name = writer_name(w, n.integer < 3 ? roles[in_k ? 1 : n.integer]
                                             : hooks_name(writer_module(w)->arena, t->name));
    ref->has_index = t->rank > 0;
    attn_tensor_axes(w->attn, &n, bits);
    for (uint32_t i = 0; i < t->rank; i++) {
        AuTileExpr *at = writer_integer(w, 0);
        if (bits[i] == AU_AX_B || bits[i] == AU_AX_TOK)
            at = index_expr(w, bits[i]);
        else if (bits[i] == AU_AX_H)
            at = group_of(w, t->axes[i]);
        else if (bits[i])
            at = in_k ? writer_op2(w, TILE_X_ADD, writer_variable(w, "c"),
                                   writer_integer(w, w->attn->v_first))
                      : writer_variable(w, "c");
        writer_add_arg(w, ref, at);
    }
    return read_as(w, ref, t->dtype);
}

/* The row of the table, or of the cache, that the sequence has. */
static AuTileExpr *key_line(AuHookWriter *w)
{
    return writer_variable(w, w->attn->keys.has_rows ? "kv_line" : "b");
}

/* The row of q that the sequence has. */
static AuTileExpr *query_line(AuHookWriter *w)
{
    return writer_variable(w, w->attn->queries.has_rows ? "q_line" : "b");
}

/* Which page of k or v the row [i] of sequence b lies on; clamped, as schedules clamp it. */
static AuTileExpr *page_of(AuHookWriter *w, AuTileExpr *i, AuTileExpr *slots)
{
    const AuRowLayout *keys = &w->attn->keys;
    AuTileExpr *ref = writer_node(w, TILE_X_REF, (AuSpan){0});
    ref->name =
        writer_name(w, hooks_name(writer_module(w)->arena, w->attn->tensors[keys->table].name));
    ref->has_index = true;
    AuTileExpr *page = writer_op2(w, TILE_X_DIV, i, slots);
    if (keys->is_csr)
        page = writer_op2(w, TILE_X_ADD, writer_variable(w, "kv_pages"), page);
    else
        writer_add_arg(w, ref, key_line(w));
    writer_add_arg(w, ref, page);
    AuTileExpr *pages = writer_size(w, &w->attn->sizes[keys->pages]);
    return writer_op3(w, TILE_X_CLAMP, ref, writer_integer(w, 0),
                      writer_op2(w, TILE_X_SUB, pages, writer_integer(w, 1)));
}

/* The channels of a group share a scale. */
static AuTileExpr *scale_group(AuHookWriter *w, const AuStorage *stored, AuTileExpr *channel)
{
    if (!stored->channels) return writer_integer(w, 0);
    return writer_op2(w, TILE_X_DIV, channel, writer_integer(w, stored->channels));
}

/* The scale or the zero point, a tensor, of the row on a page; NULL: where there are none. */
static AuTileExpr *scale_of(AuHookWriter *w, const AuStorage *stored, uint32_t tensor,
                            AuTileExpr *page, AuTileExpr *row, AuTileExpr *channel)
{
    AuTileExpr *ref = writer_node(w, TILE_X_REF, (AuSpan){0});
    ref->name = writer_name(w, hooks_name(writer_module(w)->arena, w->attn->tensors[tensor].name));
    ref->has_index = true;
    const bool packed = w->attn->keys.layout == AU_LAYOUT_PACKED;
    AuTileExpr *line = packed ? writer_integer(w, 0) : page;
    writer_add_arg(w, ref,
                   stored->by_token && line ? line
                   : page || packed         ? writer_variable(w, "b")
                                            : key_line(w));
    writer_add_arg(w, ref, writer_variable(w, w->row_h));
    writer_add_arg(w, ref, stored->by_token ? row : writer_integer(w, 0));
    writer_add_arg(w, ref, scale_group(w, stored, channel));
    return w->attn->tensors[tensor].dtype == AU_DT_F32 ? ref : writer_op1(w, TILE_X_TO_F32, ref);
}

/* Of the two codes in a byte, read as a number, that of the channel. */
static AuTileExpr *half_of(AuHookWriter *w, AuTileExpr *byte, AuTileExpr *channel)
{
    AuTileExpr *sixteenth = writer_number(w, 1.0 / 16), *eight = writer_number(w, 8),
               *high = writer_op1(w, TILE_X_FLOOR, writer_op2(w, TILE_X_MUL, byte, sixteenth)),
               *above = writer_op1(
                   w, TILE_X_FLOOR,
                   writer_op2(w, TILE_X_MUL, writer_op2(w, TILE_X_ADD, byte, eight), sixteenth)),
               *low = writer_op2(w, TILE_X_SUB, byte,
                                 writer_op2(w, TILE_X_MUL, above, writer_number(w, 16)));
    AuTileExpr *is_low =
        writer_op2(w, TILE_X_EQ, writer_op2(w, TILE_X_MOD, channel, writer_integer(w, 2)),
                   writer_integer(w, 0));
    return writer_op3(w, TILE_X_WHERE, is_low, low, high);
}

static bool is_one_of(const char *name, const char *const *names, uint32_t count)
{
    while (count--)
        if (strcmp(name, names[count]) == 0) return true;
    return false;
}

/* Where packed rows of the sequence begin, a name that kernels let: sums of dQ may have tiles of their own. */
static const char *start_of(const char *tensor, bool of_keys)
{
    return of_keys ? "kv_start" : strcmp(tensor, "dq_sum") == 0 ? "dq_start" : "q_start";
}

/* Of a row that is new: k_new[b, h, i, ..], of packed ones k_new[0, h, i, ..], where kernels pass its number among the new rows for i. */
static AuTileExpr *new_element(AuHookWriter *w, const char *tensor)
{
    const bool packed = w->attn->queries.layout == AU_LAYOUT_PACKED;
    AuTileExpr *ref = writer_node(w, TILE_X_REF, (AuSpan){0});
    ref->name = writer_name(w, *tensor == 'k' ? "k_new" : "v_new");
    ref->has_index = true;
    writer_add_arg(w, ref, packed ? writer_integer(w, 0) : writer_variable(w, "b"));
    writer_add_arg(w, ref, writer_variable(w, w->row_h));
    writer_add_arg(w, ref, writer_variable(w, "i"));
    writer_add_arg(w, ref, w->at->index);
    return writer_op1(w, TILE_X_TO_F32, ref);
}

AuTileExpr *writer_element(AuHookWriter *w, const char *argument, const char *tensor)
{
    if (!w->at) return writer_variable(w, argument);
    const bool of_keys = is_one_of(tensor, (const char *[]){"k", "v", "dk_sum", "dv_sum"}, 4);
    const AuRowLayout *rows = of_keys ? &w->attn->keys : &w->attn->queries;
    const bool paged = of_keys && rows->layout == AU_LAYOUT_PAGED,
               packed = rows->layout == AU_LAYOUT_PACKED;
    if (of_keys && w->attn->rows_are_new) return new_element(w, tensor);
    AuTileExpr *ref = writer_node(w, TILE_X_REF, (AuSpan){0});
    ref->name = writer_name(w, tensor);
    ref->has_index = true;
    AuTileExpr *row = writer_variable(w, w->row_i),
               *slots = paged ? writer_size(w, &w->attn->sizes[rows->slots]) : NULL;
    if (packed) row = writer_op2(w, TILE_X_ADD, writer_variable(w, start_of(tensor, of_keys)), row);
    writer_add_arg(w, ref,
                   paged     ? page_of(w, row, slots)
                   : packed  ? writer_integer(w, 0)
                   : of_keys ? key_line(w)
                             : query_line(w));
    writer_add_arg(w, ref, writer_variable(w, w->row_h));
    writer_add_arg(w, ref, paged ? writer_op2(w, TILE_X_MOD, row, slots) : row);
    const AuStorage *stored = of_keys ? &w->attn->storage[*tensor == 'v'] : NULL;
    AuTileExpr *channel = w->at->index;
    const bool halves = stored && attn_stores_halves(stored);
    writer_add_arg(w, ref,
                   halves ? writer_op2(w, TILE_X_DIV, channel, writer_integer(w, 2)) : channel);
    AuTileExpr *element = writer_op1(w, TILE_X_TO_F32, ref);
    if (!stored || !stored->as) return element;
    AuTileExpr *rows_of = paged ? writer_op2(w, TILE_X_MOD, row, slots) : row,
               *page = paged ? page_of(w, row, slots) : NULL;
    if (halves) element = half_of(w, element, channel);
    if (stored->has_zero)
        element = writer_op2(w, TILE_X_SUB, element,
                             scale_of(w, stored, stored->zero, page, rows_of, channel));
    return writer_op2(w, TILE_X_MUL, element,
                      scale_of(w, stored, stored->scale, page, rows_of, channel));
}

/* Does the rotation [e] make the channel of the one it is the partner of? */
static bool is_made_by(const AuHookWriter *w, const AuChannel *channel, AuExpr e)
{
    return channel->first.i == attn_arg(w->attn, e, 3).i &&
           channel->count.i == attn_arg(w->attn, e, 4).i &&
           channel->interleaved == attn_at(w->attn, e)->integer;
}

/* The partner of the present channel in the rotation [e], at [index]; NULL: the hook's own channel. A channel is the partner of its
 * partner, so that rotations of one kind need two channels, however many there are. */
static AuChannel *partner_in(AuHookWriter *w, AuExpr e, AuTileExpr *index)
{
    AuArena *arena = writer_module(w)->arena;
    if (w->at && is_made_by(w, w->at, e)) return w->at->of;
    for (uint32_t n = 0; n < w->channels.count; n++)
        if (w->channels.at[n]->of == w->at && is_made_by(w, w->channels.at[n], e))
            return w->channels.at[n];
    AuChannel *channel = AU_NEW(arena, AuChannel);
    *channel = (AuChannel){.of = w->at,
                           .first = attn_arg(w->attn, e, 3),
                           .count = attn_arg(w->attn, e, 4),
                           .interleaved = attn_at(w->attn, e)->integer,
                           .number = w->channels.count + 1,
                           .done = AU_NEW_ARRAY(arena, AuTileExpr *, w->attn->node_count)};
    channel->index = writer_assign(w, au_format(arena, "partner%u", channel->number), index);
    AU_PUSH(arena, w->channels.at, w->channels.count, w->channels.capacity, channel);
    return channel;
}

/* The expression [x] of the row at the partner of the present channel. */
static AuTileExpr *at_partner(AuHookWriter *w, AuExpr x, AuExpr e, AuTileExpr *index)
{
    AuChannel *const before = w->at;
    w->at = partner_in(w, e, index);
    AuTileExpr *out = writer_expr(w, x);
    w->at = before;
    return out;
}

/* Pairs (j, j + count / 2), or (2 j, 2 j + 1) interleaved, turned by position * theta^(-2 j /
 * count); channels outside first .. first + count pass. Su et al., RoFormer, 2021, equation 34. */
AuTileExpr *writer_rope(AuHookWriter *w, AuExpr e)
{
    const AuNode n = *attn_at(w->attn, e);
    const AuExpr x = attn_arg(w->attn, e, 0);
    if (!w->row_tensor || strcmp(w->row_tensor, "o") == 0) {
        if (!w->failed)
            au_error(w->diags, AU_E0811, n.span,
                     w->row_tensor ? "a rotation of the output, of which no kernel has the partner "
                                     "of a channel: turn it after the call"
                                   : "a rotation in a slot of a recurrence, of which no kernel has "
                                     "the partner of a channel: turn the rows before the call");
        w->failed = true;
        return writer_number(w, 0);
    }
    AuTileExpr *position = writer_expr(w, attn_arg(w->attn, e, 1)),
               *theta = writer_expr(w, attn_arg(w->attn, e, 2));
    AuTileExpr *first = writer_expr(w, attn_arg(w->attn, e, 3)),
               *count = writer_expr(w, attn_arg(w->attn, e, 4));
    AuTileExpr *c = writer_op2(w, TILE_X_SUB, index_expr(w, AU_AX_C), first),
               *half = writer_op2(w, TILE_X_DIV, count, writer_integer(w, 2)), *pair, *low,
               *partner;
    if (n.integer) {
        pair = writer_op2(w, TILE_X_DIV, c, writer_integer(w, 2));
        low = writer_op2(w, TILE_X_EQ, writer_op2(w, TILE_X_MOD, c, writer_integer(w, 2)),
                         writer_integer(w, 0));
        partner =
            writer_op3(w, TILE_X_WHERE, low, writer_op2(w, TILE_X_ADD, c, writer_integer(w, 1)),
                       writer_op2(w, TILE_X_SUB, c, writer_integer(w, 1)));
    } else {
        low = writer_op2(w, TILE_X_LT, c, half);
        pair = writer_op3(w, TILE_X_WHERE, low, c, writer_op2(w, TILE_X_SUB, c, half));
        partner = writer_op3(w, TILE_X_WHERE, low, writer_op2(w, TILE_X_ADD, c, half),
                             writer_op2(w, TILE_X_SUB, c, half));
    }
    AuTileExpr *exponent = writer_op2(
        w, TILE_X_DIV,
        writer_op2(w, TILE_X_MUL, writer_number(w, -2), writer_op1(w, TILE_X_TO_F32, pair)),
        writer_op1(w, TILE_X_TO_F32, count));
    AuTileExpr *angle = writer_op2(w, TILE_X_MUL, writer_op1(w, TILE_X_TO_F32, position),
                                   writer_op2(w, TILE_X_POW, theta, exponent));
    AuTileExpr *own = writer_expr(w, x),
               *there = at_partner(w, x, e, writer_op2(w, TILE_X_ADD, partner, first));
    AuTileExpr *sine = writer_op2(w, TILE_X_MUL, there, writer_op1(w, TILE_X_SIN, angle));
    AuTileExpr *turned =
        writer_op2(w, TILE_X_ADD, writer_op2(w, TILE_X_MUL, own, writer_op1(w, TILE_X_COS, angle)),
                   writer_op3(w, TILE_X_WHERE, low, writer_op1(w, TILE_X_NEG, sine), sine));
    AuTileExpr *inside =
        writer_op2(w, TILE_X_AND, writer_op2(w, TILE_X_GE, c, writer_integer(w, 0)),
                   writer_op2(w, TILE_X_LT, c, count));
    return writer_op3(w, TILE_X_WHERE, inside, turned, own);
}
