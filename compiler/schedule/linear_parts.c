/* linear_parts.c - see linear.h. */
#include "linear.h"
#include "shapes.h"

#include <string.h>

/* Instructions of a kernel for a GPU: assemblers take more than a second for twice as many. */
enum { MOST_WRITTEN = 6000 };

bool lin_has(const Linear *l, AuSlot slot) { return l->slots[slot].value.i != 0; }

bool lin_problem_has(const AuProblem *p, AuSlot slot) { return p->hooks->slots[slot].value.i != 0; }

bool lin_problem_is_fed(const AuProblem *p)
{
    return p->hooks->normal->feedback != AU_FEEDBACK_NONE;
}

bool lin_problem_is_own(const AuProblem *p)
{
    return p->hooks->normal->feedback == AU_FEEDBACK_OWN;
}

bool lin_problem_by_channel(const AuProblem *p)
{
    return p->hooks->normal->decay == AU_DECAY_VECTOR;
}

bool lin_decays(const Linear *l) { return l->n->decay != AU_DECAY_NONE; }
bool lin_decays_by_token(const Linear *l) { return l->n->decay == AU_DECAY_SCALAR; }

Linear lin_begin(AuArena *arena, AuTileBuild *t, const AuProblem *p, AuSchedule *out)
{
    Linear l = {.x = {.t = t, .p = p, .shape = &out->shape, .out = out, .arena = arena},
                .n = p->hooks->normal,
                .slots = p->hooks->slots,
                .chunk = out->shape.key_tile,
                .parts = 1,
                .rows = out->shape.key_tile,
                .columns = out->shape.query_registers * p->caps->lanes,
                .has_norm = p->hooks->slots[AU_SLOT_NORM].value.i != 0};
    l.x.on_cpu = p->caps->has_private;
    l.rows_along = l.asks_heads = l.x.on_cpu;
    l.spread = l.chunk < p->caps->lanes ? p->caps->lanes : l.chunk;
    l.x.operand = tile_elem(p->operand)->name;
    l.x.atom = tile_best_atom(p->caps, TILE_F32, lanes_executor(&l.x));
    l.x.held = "f32";
    l.tokens = lanes_axis(&l.x, 0, 2);
    l.heads = hooks_heads(p->hooks, p->attn);
    return l;
}

void lin_read_along(Linear *l)
{
    l->rows_along = true;
    tile_layout(l->x.t, "a_row_along", "reg", tile_text(l->x.t, "lane:%d@1", l->x.p->caps->lanes));
}

static void layouts(Linear *l)
{
    tile_layout(l->x.t, "along_lanes", tile_text(l->x.t, "lane:%d@1", l->x.p->caps->lanes), NULL);
    tile_layout(l->x.t, "in_registers", "reg", NULL);
    tile_layout(l->x.t, "a_token_a_lane", "reg",
                tile_text(l->x.t, "lane:%d@1", l->x.p->caps->lanes));
    if (l->rows_along) lin_read_along(l);
}

/* Of cu_seqlens, of the states of a step, of its slots (driver/tensors.c); at most 0: not passed. */
static const char *own_size(Linear *l, uint32_t which)
{
    const AuAttn *a = l->x.p->attn;
    return hooks_name(l->x.arena, a->sizes[a->linear->own_sizes - 1 + which].name);
}
enum { OF_SEQUENCES, OF_POOL, OF_SLOTS };

/* The states that there are of a call: one a batch or sequence, or a pool. */
static const char *states(Linear *l)
{
    if (l->is_step) return own_size(l, OF_POOL);
    return tile_text(l->x.t, "max(%s - 1, %s)", own_size(l, OF_SEQUENCES), lanes_axis(&l->x, 0, 0));
}

static void state_arguments(Linear *l)
{
    static const char *const names[] = {"state_in", "state_out", "sum_in", "sum_out"},
                             *const pools[] = {"pool_state", "pool_sum"};
    const AuTileMode modes[] = {TILE_IN, TILE_OUT};
    for (uint32_t n = 0; n < 2u + 2u * l->has_norm; n += 1 + l->is_step) {
        const char *columns = n < 2 ? tile_text(l->x.t, ", e:%d", l->x.p->e) : "";
        tile_arg(l->x.t, l->is_step ? pools[n / 2] : names[n],
                 l->is_step ? TILE_INOUT : modes[n % 2], "f32[b:%s, h:%s, d:%d%s]", states(l),
                 l->heads, l->x.p->d, columns);
    }
}

const char *lin_padded(const Linear *l) { return l->x.p->e % l->columns ? " pad 0" : ""; }
const char *lin_clipped(const Linear *l) { return l->x.p->e % l->columns ? " clip" : ""; }

const char *lin_sequences(Linear *l) { return states(l); }

void lin_sequences_argument(Linear *l)
{
    tile_arg(l->x.t, "cu_seqlens", TILE_IN, "i32[n:%s]", own_size(l, OF_SEQUENCES));
}

void lin_output_argument(Linear *l)
{
    Lanes *x = &l->x;
    tile_arg(x->t, "o", TILE_OUT, "%s[b:%s, h:%s, q:%s, e:%d]", x->operand, lanes_axis(x, 0, 0),
             l->heads, l->tokens, x->p->e);
}

void lin_begin_kernel(Linear *l, const char *name)
{
    tile_kernel(l->x.t, name);
    lanes_arguments(&l->x);
    lin_sequences_argument(l);
}

void lin_head(Linear *l)
{
    Lanes *x = &l->x;
    const char *batch = lanes_axis(x, 0, 0);
    tile_kernel(x->t, l->is_step ? "tokens" : "forward");
    lanes_arguments(x);
    lin_output_argument(l);
    tile_arg(x->t, l->is_step ? "slots" : "cu_seqlens", TILE_IN, "i32[n:%s]",
             own_size(l, l->is_step ? OF_SLOTS : OF_SEQUENCES));
    state_arguments(l);
    tile_grid(x->t, "vb: cdiv(%d, %d), h: %s, %s", x->p->e, l->columns, l->heads,
              l->is_step    ? tile_text(x->t, "b: %s", batch)
              : l->segments ? tile_text(x->t, "ns: %s * %s", states(l), l->segments)
                            : tile_text(x->t, "n: %s", states(l)));
}

/* All tokens, and which state is theirs; outside of the pool it reads as 0 and is not written. */
static void find_slot(Linear *l)
{
    AuTileBuild *t = l->x.t;
    tile_load(t, "given_slot", "slots[b] pad 0");
    tile_set(t, "slot", "where(%s > 0, given_slot, b)", own_size(l, OF_SLOTS));
    tile_set(t, "n", "clamp(slot, 0, max(%s - 1, 0))", own_size(l, OF_POOL));
    tile_set(t, "is_kept", "slot == n && %s > 0", own_size(l, OF_POOL));
    tile_set(t, "start", "0");
    tile_set(t, "end", "%s", l->tokens);
    tile_set(t, "length", "end");
}

/* The tokens of the block's sequence, and its batch. Where cu_seqlens is wrong they are a part of the tensor all the same. */
void lin_find_sequence(Linear *l)
{
    AuTileBuild *t = l->x.t;
    const char *packed = own_size(l, OF_SEQUENCES);
    tile_load(t, "given_start", "cu_seqlens[n] pad 0");
    tile_load(t, "given_end", "cu_seqlens[n + 1] pad 0");
    tile_set(t, "start", "where(%s > 0, clamp(given_start, 0, %s), 0)", packed, l->tokens);
    tile_set(t, "end", "where(%s > 0, clamp(given_end, start, %s), %s)", packed, l->tokens,
             l->tokens);
    tile_set(t, "length", "end - start");
    tile_set(t, "b", "where(%s > 0, 0, n)", packed);
}

/* Where a step's slot is none, nothing is read or written. */
const char *lin_if_kept(const Linear *l) { return l->is_step ? " when is_kept" : ""; }

void lin_load_state(Linear *l)
{
    tile_load(l->x.t, "state", "%s[n, h, %s, vb * %d +: %d]%s%s",
              l->is_step ? "pool_state" : "state_in", lin_own_channels(l), l->columns, l->columns,
              l->is_step ? lin_padded(l) : " pad 0", lin_if_kept(l));
}

void lin_store_state(Linear *l)
{
    tile_store(l->x.t, "state -> %s[n, h, %s, vb * %d +: %d]%s%s",
               l->is_step ? "pool_state" : "state_out", lin_own_channels(l), l->columns, l->columns,
               l->is_step ? lin_clipped(l) : " clip", lin_if_kept(l));
}

void lin_memory(Linear *l, const char *name, const char *type)
{
    if (l->x.on_cpu)
        tile_private(l->x.t, name, "%s", type);
    else
        tile_shared(l->x.t, name, "%s", type);
}

void lin_role(Linear *l)
{
    if (l->parts > 1) tile_barrier(l->x.t, "all", 0, l->parts);
    tile_role(l->x.t, "core", l->parts > 1 ? l->parts : 0, lanes_executor(&l->x), 0);
    l->is_step ? find_slot(l) : lin_find_sequence(l);
}

void lin_chunks(Linear *l)
{
    tile_for_range(l->x.t, "chunk", "0", tile_text(l->x.t, "cdiv(length, %d)", l->chunk));
    tile_set(l->x.t, "first", "start + chunk * %d", l->chunk);
    if (l->parts > 1) tile_set(l->x.t, "own_first", "first + %s", lin_own_place(l));
}

/* ---- executors that share a chunk */

const char *lin_own_first(const Linear *l) { return l->parts > 1 ? "own_first" : "first"; }

const char *lin_own_place(Linear *l)
{
    return l->parts > 1 ? tile_text(l->x.t, "self * %d", l->rows) : "0";
}

const char *lin_own_channels(Linear *l)
{
    const int32_t channels = l->x.p->d / l->parts;
    return l->parts > 1 ? tile_text(l->x.t, "self * %d +: %d", channels, channels) : ":";
}

const char *lin_rows_place(Linear *l, const char *tokens, int32_t count, bool has_channels)
{
    const char *others = has_channels ? ", :" : "";
    if (l->parts == 1)
        return count == l->chunk ? "" : tile_text(l->x.t, "[0 +: %d%s] clip", count, others);
    const char *more =
        count > l->rows ? tile_text(l->x.t, " clip when iota(%s:%d) < %d", tokens, count, l->rows)
                        : "";
    return tile_text(l->x.t, "[%s +: %d%s]%s", lin_own_place(l), count, others, more);
}

/* ---- tensors as they are passed in */

/* The extent of a tensor's heads, of which each serves a group. */
static const char *head_of(Linear *l, uint32_t tensor, uint32_t axis)
{
    const char *own = lanes_axis(&l->x, tensor, axis);
    if (strcmp(own, l->heads) == 0) return "h";
    for (uint32_t n = 0; l->names_heads && n < 3; n++)
        if (strcmp(own, lanes_axis(&l->x, n, 1)) == 0) return tile_text(l->x.t, "head_of_%u", n);
    return tile_text(l->x.t, "h / (%s / %s)", l->heads, own);
}

void lin_name_heads(Linear *l)
{
    l->names_heads = false;
    for (uint32_t n = 0; n < 3; n++)
        tile_set(l->x.t, tile_text(l->x.t, "head_of_%u", n), "%s", head_of(l, n, 1));
    l->names_heads = true;
}

/* [rows] of tokens along the axis [tokens]; NULL: one token. */
static const char *view_of(Linear *l, AuExpr node, const char *tokens, const char *channel,
                           const char *columns, const char *rows)
{
    AuAttn *a = l->x.p->attn;
    const AuNode *n = attn_at(a, node);
    const bool in_k = n->integer == 2 && a->v_in_k;
    const uint32_t tensor = in_k ? 1 : (uint32_t)n->integer;
    uint8_t bits[8];
    AuText view = {.arena = l->x.arena}, names = {.arena = l->x.arena};
    attn_tensor_axes(a, n, bits);
    au_text_add(&view, "%s[", lanes_tensor(&l->x, tensor));
    for (uint32_t i = 0; i < a->tensors[tensor].rank; i++) {
        const char *comma = names.length ? ", " : "";
        if (i) au_text_add(&view, ", ");
        if (bits[i] == AU_AX_B)
            au_text_add(&view, "b");
        else if (bits[i] == AU_AX_H)
            au_text_add(&view, "%s", head_of(l, tensor, i));
        else if (bits[i] == AU_AX_TOK) {
            au_text_add(&view, tokens ? "%s from start to end" : "%s", rows);
            if (tokens) au_text_add(&names, "%s%s", comma, tokens);
        } else if (bits[i]) {
            au_text_add(&view, "%s", columns);
            au_text_add(&names, "%s%s", comma, channel);
        } else
            au_text_add(&view, "0");
    }
    au_text_add(&view, names.length ? "] as [%s]" : "]", au_text_str(&names));
    return au_text_str(&view);
}

const char *lin_view(Linear *l, AuExpr node, const char *tokens, const char *channel,
                     const char *columns, const char *rows)
{
    return view_of(l, node, tokens, channel, columns, rows);
}

const char *lin_token_view(Linear *l, AuExpr node, const char *channel, const char *columns)
{
    return view_of(l, node, NULL, channel, columns, "t");
}

const char *lin_columns(Linear *l, AuExpr node, const char *first, int32_t width)
{
    const AuAttn *a = l->x.p->attn;
    const int32_t from = attn_at(a, node)->integer == 2 && a->v_in_k ? a->v_first : 0;
    if (!first && !from && width == 0) return ":";
    if (!first) return tile_text(l->x.t, "%d +: %d", from, width);
    return from ? tile_text(l->x.t, "%d + %s +: %d from %d to %d", from, first, width, from,
                            from + l->x.p->e)
                : tile_text(l->x.t, "%s +: %d", first, width);
}

const char *lin_elem(Linear *l, AuExpr node)
{
    return lanes_elem(&l->x, (uint32_t)attn_at(l->x.p->attn, node)->integer);
}

/* ---- rows in memory */

LinearRows lin_rows(const Linear *l, AuSlot slot)
{
    const int32_t d = l->x.p->d, e = l->x.p->e;
    switch (slot) {
    case AU_SLOT_Q: return (LinearRows){slot, "Q", "q", "d", d, false, NULL};
    case AU_SLOT_K: return (LinearRows){slot, "K", "kv", "d", d, false, NULL};
    case AU_SLOT_V: return (LinearRows){slot, "V", "kv", "e", e, false, NULL};
    case AU_SLOT_WRITE: return (LinearRows){slot, "W", "kv", "", 0, false, NULL};
    case AU_SLOT_ERASE: return (LinearRows){slot, "E", "kv", "", 0, false, NULL};
    case AU_SLOT_READS: return (LinearRows){slot, "X", "kv", "d", d, false, NULL};
    case AU_SLOT_WRITES: return (LinearRows){slot, "B", "kv", "d", d, false, NULL};
    case AU_SLOT_BONUS: return (LinearRows){slot, "Bonus", "kv", "d", d, false, NULL};
    case AU_SLOT_SKIP: return (LinearRows){slot, "Skip", "q", "e", e, false, NULL};
    case AU_SLOT_LOG_DECAY:
        return l->n->decay == AU_DECAY_VECTOR ? (LinearRows){slot, "G", "kv", "d", d, false, NULL}
                                              : (LinearRows){slot, "G", "kv", "", 0, false, NULL};
    case AU_SLOT_NORM:
    case AU_SLOT_COUNT: break;
    }
    return (LinearRows){slot, "", "", "", 0, false, NULL};
}

static const char *guarded(Linear *l, const char *tokens, const char *value, int32_t count)
{
    return tile_text(l->x.t, "where(%s + iota(%s:%d) < end, %s, 0.0)", lin_own_first(l), tokens,
                     count, value);
}

const char *lin_guarded(Linear *l, const char *tokens, const char *value)
{
    return guarded(l, tokens, value, l->spread);
}

const char *lin_floored(Linear *l, const char *name)
{
    const double floor = recurrence_floor(true);
    if (l->n->log_decay.low >= floor) return name;
    const char *least = tile_number(l->x.t, floor);
    return tile_text(l->x.t, "where(%s < %s, %s, %s)", name, least, least, name);
}

void lin_meet(Linear *l)
{
    if (!l->x.on_cpu) tile_sync(l->x.t, l->parts > 1 ? "all" : "self");
}

int32_t lin_numbers(const AuProblem *p)
{
    const AuHookSlot *s = p->hooks->slots;
    const int32_t d = p->d, e = p->e;
    int32_t numbers = 2 * d + e + 4; /* q, k, v; sums, factors */
    if (s[AU_SLOT_READS].value.i) numbers += 2 * d;
    if (s[AU_SLOT_BONUS].value.i) numbers += d;
    if (s[AU_SLOT_SKIP].value.i) numbers += e;
    if (p->hooks->has_out_mod) numbers += e + p->caps->lanes;
    if (s[AU_SLOT_NORM].value.i) numbers += p->caps->lanes;
    return numbers + (p->hooks->normal->decay == AU_DECAY_VECTOR ? d : 4);
}

int32_t lin_tokens(const AuProblem *p, int32_t most, int32_t numbers, bool square)
{
    int32_t tokens = most;
    if (p->caps->has_private) return most;
    while (tokens > 1 &&
           4 * tokens * (numbers + (square ? tokens : 0)) + 64 > p->caps->shared_bytes)
        tokens /= 2;
    return tokens;
}

int32_t lin_strip(const AuProblem *p, int32_t vectors, int32_t most)
{
    if (!p->caps->has_private) most = 1;
    return vectors < most || lin_takes_all_columns(p) ? vectors : most;
}

void lin_wide_strip(const AuProblem *p, AuShape *out)
{
    const AuTileCaps *caps = p->caps;
    const int32_t vectors = (p->e + caps->lanes - 1) / caps->lanes;
    const int32_t block = caps->has_private ? caps->registers / 8 : 4;
    int32_t whole = vectors, most = block;
    if (vectors > (caps->has_private ? block : TILE_MOST_COLUMNS))
        whole = (vectors + block - 1) / block * block;
    if (caps->has_private) {
        while (most * caps->lanes < 128 && 4 * most * p->d < caps->private_words) most *= 2;
    }
    out->query_registers = lin_strip(p, whole, most);
    out->product_columns = out->query_registers < block ? out->query_registers : block;
}

void lin_rate(Linear *l)
{
    tile_set(l->x.t, "given_rate", "slot_log_decay(b, h)");
    tile_set(l->x.t, "rate", "%s", lin_floored(l, "given_rate"));
}

/* Rounded once, however the machine approximates exp: a factor next to 1 is multiplied by itself for every token, and so is its error. Near 0, where
 * states last, by the series; its next term is below 2^-27. */
void lin_factor(Linear *l)
{
    static const char series[] =
        "1.0 + rate * (1.0 + rate * (0.5 + rate * (0.16666667 + rate * (0.041666667 "
        "+ rate * 0.0083333333))))";
    tile_set(l->x.t, "kept", "where(rate > -0.125, %s, exp(rate))", series);
}

void lin_count(Linear *l) { tile_set(l->x.t, "count", "min(%d, end - first)", l->chunk); }

void lin_rows_memory(Linear *l, const LinearRows *r)
{
    const char *width = *r->channel ? tile_text(l->x.t, ", %s:%d", r->channel, r->width) : "";
    lin_memory(l, r->memory, tile_text(l->x.t, "f32[%s:%d%s]", r->tokens, l->chunk, width));
}

/* Do rows of so many channels lie along the lanes? */
static bool lies_along(const Linear *l, int32_t width)
{
    return l->rows_along && width % l->x.p->caps->lanes == 0;
}

/* Of such rows: lanes that are threads have no more of them than the chunk. */
static int32_t along(const Linear *l) { return l->x.on_cpu ? l->spread : l->rows; }

const char *lin_rows_layout(const Linear *l, const char *channel, int32_t width, const char *tokens)
{
    if (lies_along(l, width))
        return tile_text(l->x.t, "%s:%d, %s:%d] @ a_row_along", tokens, along(l), channel, width);
    return tile_text(l->x.t, "%s:%d, %s:%d] @ a_token_a_lane", channel, width, tokens, l->spread);
}

/* Channels that are read of each token: a slot that is a number may sum over a row. */
static int32_t width_of(const Linear *l, const LinearRows *r)
{
    if (r->first) return r->width;
    return l->slots[r->slot].channel == AU_AX_K ? l->x.p->d : l->x.p->e;
}

static const char *fragment(Linear *l, const LinearRows *r, const char *elem)
{
    const uint8_t channel = l->slots[r->slot].channel;
    if (!channel) return tile_text(l->x.t, "%s[%s:%d] @ along_lanes", elem, r->tokens, l->spread);
    return tile_text(l->x.t, "%s[%s", elem,
                     lin_rows_layout(l, channel == AU_AX_K ? "d" : "e", width_of(l, r), r->tokens));
}

/* Is the tensor copied? Where executors share a chunk it passes through registers, so that one wait is enough for all rows. */
static bool is_copied(const Linear *l, const LinearRows *r)
{
    return l->slots[r->slot].is_plain && !r->as_factor &&
           (l->parts == 1 || !lies_along(l, width_of(l, r)));
}

void lin_rows_declare(Linear *l, const LinearRows *r)
{
    const AuHookSlot *s = &l->slots[r->slot];
    if (is_copied(l, r)) return;
    const char *raw = tile_text(l->x.t, "raw_%s", r->memory);
    if (s->held.i)
        tile_frag(l->x.t, raw, "%s", fragment(l, r, lin_elem(l, s->held)));
    else
        tile_frag(l->x.t, raw, "%s = 0.0", fragment(l, r, "f32"));
}

/* Tokens of the fragment: those of the chunk, but where each has a lane, all lanes. */
static int32_t spread_of(const Linear *l, const LinearRows *r)
{
    return l->slots[r->slot].channel && lies_along(l, width_of(l, r)) ? along(l) : l->spread;
}

/* What the slot's hook makes of the fragment. */
static const char *called(Linear *l, const LinearRows *r, const char *raw)
{
    const AuHookSlot *s = &l->slots[r->slot];
    if (!s->name) return tile_text(l->x.t, "f32(%s)", raw);
    const char *channel = !s->channel             ? "0"
                          : s->channel == AU_AX_K ? tile_text(l->x.t, "iota(d:%d)", l->x.p->d)
                                                  : tile_text(l->x.t, "iota(e:%d)", l->x.p->e);
    return tile_text(l->x.t, "%s(f32(%s), b, h, %s + iota(%s:%d), %s)", s->name, raw,
                     lin_own_first(l), r->tokens, spread_of(l, r), channel);
}

/* The tensor's rows, of all of its channels or of a strip. */
static const char *rows_view(Linear *l, const LinearRows *r, int32_t count)
{
    const AuHookSlot *s = &l->slots[r->slot];
    const bool is_value = s->channel == AU_AX_V, is_part_of_keys = l->x.p->attn->v_in_k && is_value;
    const int32_t width = r->first ? r->width : is_part_of_keys ? l->x.p->e : 0;
    return lin_view(l, s->held, r->tokens, is_value ? "e" : "d",
                    lin_columns(l, s->held, r->first, width),
                    tile_text(l->x.t, "%s +: %d", lin_own_first(l), count));
}

void lin_rows_bring(Linear *l, const LinearRows *r)
{
    if (is_copied(l, r) || !l->slots[r->slot].held.i) return;
    tile_load(l->x.t, tile_text(l->x.t, "raw_%s", r->memory), "%s pad 0",
              rows_view(l, r, spread_of(l, r)));
}

void lin_rows_make(Linear *l, const LinearRows *r)
{
    AuTileBuild *t = l->x.t;
    const bool has_channels = *r->channel != 0;
    if (is_copied(l, r)) {
        tile_copy(t, "%s -> %s%s pad 0", rows_view(l, r, l->rows), r->memory,
                  lin_rows_place(l, r->tokens, l->rows, has_channels));
        return;
    }
    const char *raw = tile_text(t, "raw_%s", r->memory), *made = tile_text(t, "made_%s", r->memory);
    tile_set(t, made, "%s", called(l, r, raw));
    if (r->slot == AU_SLOT_LOG_DECAY) tile_set(t, made, "%s", lin_floored(l, made));
    if (r->as_factor) tile_set(t, made, "exp(%s)", made);
    tile_store(t, "%s -> %s%s", guarded(l, r->tokens, made, spread_of(l, r)), r->memory,
               lin_rows_place(l, r->tokens, spread_of(l, r), has_channels));
}

void lin_rows_load(Linear *l, const LinearRows *r)
{
    lin_rows_bring(l, r);
    lin_rows_make(l, r);
}

bool lin_takes_all_columns(const AuProblem *p)
{
    return p->hooks->has_out_mod || p->hooks->slots[AU_SLOT_NORM].value.i;
}

const char *schedule_linear_fit(const AuProblem *p, const AuShape *s)
{
    if (lin_takes_all_columns(p) && s->query_registers * p->caps->lanes < p->e)
        return "an out_mod or a norm, which take all columns of values";
    return NULL;
}

AuSchedule *lin_schedule(AuArena *arena, AuDiags *diags, const AuProblem *p, const AuShape *shape,
                         const char *name, void (*kernel)(Linear *))
{
    AuSchedule *out = AU_NEW(arena, AuSchedule);
    out->shape = *shape;
    out->name = shape_text(arena, name, shape);
    Linear l = lin_begin(arena, schedule_begin(arena, diags, p, out), p, out);
    if (!l.x.on_cpu) tile_written(l.x.t, MOST_WRITTEN);
    if (!l.x.on_cpu && !tile_exchange_words(p->caps)) tile_set_option(l.x.t, "late_strides", 1);
    layouts(&l);
    kernel(&l);
    return lanes_built(&l.x, diags);
}
