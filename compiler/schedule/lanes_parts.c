/* lanes_parts.c - sums in parts, where one kernel makes all gradients: a block has a part of dQ, that of its keys;
 * where query heads share keys, a part of dK and dV, too, that of its query heads. Both are as many as give all cores
 * something to do; heads come first, since parts of dK and dV are smaller than those of the group's dQ.
 *
 * A block owns all keys of a head, or every n-th tile of them, one after the other; dS goes through
 * memory for dQ += dS K, whose channels lie along the lanes, into sums of its own (dq_parts[part]). So five products
 * make all gradients, and nothing is summed in any order. Where query heads share keys, a block has some heads of a
 * group, and sums of dK and dV of its own, too: that takes less memory than as many more parts of dQ. */
#include "key_layout.h"
#include "lanes_back.h"

/* As many blocks at least, if there are heads and tiles. */
enum { BLOCKS = 16 };

bool lanes_in_parts(const Lanes *x, uint32_t n)
{
    return n == 0 ? x->with_dq && x->on_cpu : x->heads_in_parts;
}

static const char *parts_of_heads(Lanes *x)
{
    return tile_text(x->t, "min(%s / %s, cdiv(%d, max(%s * %s, 1)))", lanes_axis(x, 0, 1),
                     lanes_axis(x, 1, 1), BLOCKS, lanes_axis(x, 1, 0), lanes_axis(x, 1, 1));
}

const char *lanes_parts(Lanes *x, uint32_t n)
{
    if (n) return parts_of_heads(x);
    const char *heads = x->heads_in_parts ? tile_text(x->t, " * %s", parts_of_heads(x)) : "";
    return tile_text(x->t, "min(cdiv(%s, %d), cdiv(%d, max(%s * %s%s, 1)))", lanes_axis(x, 1, 2),
                     lanes_block_keys(x), BLOCKS, lanes_axis(x, 1, 0), lanes_axis(x, 1, 1), heads);
}

const char *lanes_parts_name(uint32_t n)
{
    static const char *const names[3] = {"dq_parts", "dk_parts", "dv_parts"};
    return names[n];
}

/* One part of dK or dV is the gradient itself. */
const char *lanes_parts_type(Lanes *x, uint32_t n)
{
    static const char *const rows[3] = {"q", "kv", "kv"}, *const channels[3] = {"d", "d", "e"};
    const int32_t widths[3] = {lanes_padded_width(x), x->p->d, x->p->e};
    const char *parts = lanes_parts(x, n);
    if (n) parts = tile_text(x->t, "%s * min(%s - 1, 1)", parts, parts);
    return tile_text(x->t, "f32[part:%s, b:%s, h:%s, %s:%s, %s:%d]", parts,
                     lanes_row_batch(x, n ? LANES_KEYS : LANES_QUERIES), lanes_axis(x, n, 1),
                     rows[n], lanes_axis(x, n, 2), channels[n], widths[n]);
}

BackAxis lanes_parts_axis(Lanes *x)
{
    if (!x->heads_in_parts) return (BackAxis){"part", lanes_parts(x, 0), AU_AX_KV};
    return (BackAxis){"turn", tile_text(x->t, "(%s) * (%s)", lanes_parts(x, 0), lanes_parts(x, 1)),
                      AU_AX_KV | AU_AX_H};
}

/* ---- dK and dV */

void lanes_gradient_argument(Lanes *x, uint32_t n)
{
    back_argument(x, back_gradient(x, n), TILE_OUT);
    if (lanes_in_parts(x, n))
        tile_arg(x->t, lanes_parts_name(n), TILE_OUT, "%s", lanes_parts_type(x, n));
}

void lanes_store_gradient(Lanes *x, uint32_t n, const char *heads)
{
    AuTileBuild *t = x->t;
    const char *sums = tile_text(t, "%s_acc", back_gradient_names[n]);
    const char *value = back_has_rows(x, n) ? sums : tile_text(t, "%s(%s)", x->operand, sums);
    const char *rows = tile_text(t, "%s, :", lanes_place(x, LANES_KEYS, heads, lanes_own_rows(x)));
    if (lanes_in_parts(x, n)) {
        tile_if(t, "head_parts > 1");
        tile_store(t, "%s -> %s[heads, %s] clip", sums, lanes_parts_name(n), rows);
        tile_else(t);
    }
    tile_store(t, "%s -> %s[%s] clip", value, back_gradient(x, n), rows);
    if (lanes_in_parts(x, n)) tile_end(t);
}

/* ---- dQ in the kernel of keys */

/* Sums of dQ are blocks of registers along the lanes: what is too wide for one block is whole blocks. */
int32_t lanes_padded_width(const Lanes *x)
{
    const int32_t lanes = x->p->caps->lanes, block = x->shape->product_columns;
    int32_t registers = (x->p->d + lanes - 1) / lanes;
    if (registers > TILE_MOST_COLUMNS) registers = (registers + block - 1) / block * block;
    return registers * lanes;
}

void lanes_query_memories(Lanes *x)
{
    const int32_t keys = lanes_own_count(x);
    lanes_memory(x, TILE_NAME("K"),
                 tile_text(x->t, "%s[kv:%d, c:%d]", x->held, keys, lanes_padded_width(x)));
    lanes_memory(x, TILE_NAME("dS"),
                 tile_text(x->t, "%s[q:%d, kv:%d]", x->held, x->shape->query_tile, keys));
}

void lanes_declare_query_gradients(Lanes *x)
{
    const int32_t wide = lanes_padded_width(x);
    tile_frag(x->t, "rows", "%s[kv:%d, c:%d] @ %s.B", x->held, lanes_own_count(x), wide,
              x->atom->name);
    tile_frag(x->t, "dq", "f32[q:%d, c:%d] @ %s.C = 0.0", x->shape->query_tile, wide,
              x->atom->name);
}

/* A loop over the query heads of the block: all of a group, or every n-th. */
void lanes_begin_heads(Lanes *x, uint32_t of)
{
    AuTileBuild *t = x->t;
    const char *group = tile_text(t, "%s / %s", lanes_axis(x, 0, 1), lanes_axis(x, of, 1));
    tile_for_range(t, "g", "0",
                   x->heads_in_parts ? tile_text(t, "cdiv(%s - heads, head_parts)", group) : group);
    tile_set(t, "h", "%s * (%s) + %s", of == 1 ? "hk" : "hv", group,
             x->heads_in_parts ? "heads + g * head_parts" : "g");
}

static const char *query_sums(Lanes *x)
{
    const int32_t m = x->shape->query_tile;
    return tile_text(x->t, "dq_parts[part, %s, :] as [q, c]",
                     lanes_place(x, LANES_QUERIES, "h", tile_text(x->t, "m * %d +: %d", m, m)));
}

/* The sums begin with zeros that the block writes itself: all cores do, and what is written is near. */
static void clear_query_sums(Lanes *x)
{
    AuTileBuild *t = x->t;
    const int32_t m = x->shape->query_tile;
    lanes_begin_heads(x, 1);
    tile_set(t, "dq", "fill(dq, 0.0)");
    tile_for_range(t, "m", "0", tile_text(t, "cdiv(%s, %d)", lanes_query_end(x), m));
    tile_store(t, "dq -> %s clip", query_sums(x));
    tile_end(t);
    tile_end(t);
}

/* Gradients of padded rows are written, too. */
static const char *rows_to_walk(Lanes *x)
{
    return lanes_is_packed(x, LANES_KEYS) ? "kv_length" : lanes_axis(x, 1, 2);
}

/* The block's part, and a loop over its tiles of keys. */
void lanes_begin_parts(Lanes *x)
{
    AuTileBuild *t = x->t;
    tile_set(t, "parts", "%s", lanes_parts(x, 0));
    if (x->heads_in_parts) {
        tile_set(t, "head_parts", "%s", lanes_parts(x, 1));
        tile_set(t, "part", "turn %% parts");
        tile_set(t, "heads", "turn / parts");
    }
    clear_query_sums(x);
    tile_for_range(
        t, "round", "0",
        tile_text(t, "cdiv(cdiv(%s, %d) - part, parts)", rows_to_walk(x), lanes_block_keys(x)));
    tile_set(t, "nb", "part + round * parts");
    tile_set(t, "dk_acc", "fill(dk_acc, 0.0)");
    tile_set(t, "dv_acc", "fill(dv_acc, 0.0)");
}

/* Keys as rows of dQ's product, too: none that no query sees, of the head if the mask asks for it. */
void lanes_load_key_rows(Lanes *x)
{
    AuTileBuild *t = x->t;
    if (x->p->attn->mask.i)
        tile_set(t, "k_low, k_high, k_full_low, k_full_high", "%s",
                 lanes_range_of_all(x, lanes_mask_by_head(x) ? "h" : "0"));
    const char *start = lanes_row_start(x, LANES_KEYS);
    tile_copy(t, "%s[%s, hk, %s%s +: %d%s, 0 +: %d] as [kv, c] -> K pad 0",
              lanes_changed_name(x, 1), lanes_row_b(x, LANES_KEYS), start, lanes_own_first(x),
              lanes_own_count(x), lanes_limits(x, "k"), lanes_padded_width(x));
    tile_load(t, "rows", "K");
    tile_load(t, "key", "K[:, 0 +: %d] as [kv, d]", x->p->d);
}

void lanes_query_gradients(Lanes *x)
{
    AuTileBuild *t = x->t;
    const char *sums = query_sums(x);
    const AuTileHandle ds =
        x->by_channel ? tile_part(t, "%s(ds_unmasked)", x->held) : TILE_NAME("ds");
    tile_store(t, "%v -> dS", ds);
    tile_load(t, "dq", "%s pad 0", sums);
    tile_product(t, "dq", x->atom, TILE_ADD, "dS", "rows");
    tile_store(t, "dq -> %s clip", sums);
}
