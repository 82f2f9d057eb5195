/* lanes_rows.c - arguments of the lanes schedule's kernels, and the kernel that changes rows of
 * keys or values once for all queries, or transposes values for matrix units. A lane holds a row;
 * reductions over its channels (norms) run in registers. */
#include "key_layout.h"
#include "key_storage.h"

enum {
    HEADS_ASKED = 8 /* of a group, by blocks that have rows in turns; of more it may be all keys */
};

const char *lanes_tensor(Lanes *x, uint32_t n)
{
    static const char *const roles[] = {"q", "k", "v"};
    return n < 3 ? roles[n] : hooks_name(x->arena, x->p->attn->tensors[n].name);
}

static const char *extent(Lanes *x, AuExpr e)
{
    AuText text = {.arena = x->arena};
    tile_print_expr(hooks_expr(x->p->hooks, x->p->attn, e), &text);
    return au_text_str(&text);
}

const char *lanes_axis(Lanes *x, uint32_t tensor, uint32_t axis)
{
    const AuAttn *a = x->p->attn;
    const AuRowLayout *queries = &a->queries;
    if (axis == 0 && tensor < 3 && queries->layout == AU_LAYOUT_PACKED)
        return tile_text(x->t, "(%s - 1)", hooks_name(x->arena, a->sizes[queries->ends].name));
    if (axis == 2 && (tensor == 1 || tensor == 2) && lanes_keys_are_paged(x))
        return lanes_most_keys(x);
    return extent(x, tensor < 3 ? a->tensors[tensor].axes[axis]
                                : attn_input_extent(x->p->attn, tensor, axis));
}

const char *lanes_elem(Lanes *x, uint32_t tensor)
{
    if (lanes_is_stored(x, tensor)) return lanes_stored_elem(x, tensor);
    switch (x->p->attn->tensors[tensor].dtype) {
    case AU_DT_OPERAND: return x->operand;
    case AU_DT_F32: return "f32";
    case AU_DT_F16: return "f16";
    case AU_DT_BF16: return "bf16";
    case AU_DT_I32: return "i32";
    case AU_DT_I64: return "i64";
    case AU_DT_U8:
    case AU_DT_BOOL: return "u8";
    }
    return "f32";
}

/* Axis names of inputs are their own: x0, x1, ..; the four of q, k, v are those of the products. */
const char *lanes_type(Lanes *x, const char *elem, uint32_t n)
{
    static const char *const axes[3][4] = {
        {"b", "h", "q", "d"}, {"b", "h", "kv", "d"}, {"b", "h", "kv", "e"}};
    const AuTensor *tensor = &x->p->attn->tensors[n];
    if ((n == 1 || n == 2) && lanes_keys_are_paged(x)) return lanes_paged_type(x, elem, n);
    AuText text = {.arena = x->arena};
    au_text_add(&text, "%s", elem);
    for (uint32_t a = 0; a < tensor->rank; a++) {
        const bool batch = n < 3 && a == 0;
        const char *own = n < 3 ? extent(x, tensor->axes[a]) : lanes_axis(x, n, a);
        if (a == 3 && lanes_stores_halves(x, n)) own = tile_text(x->t, "%s / 2", own);
        au_text_add(&text, "%s%s:%s", a ? ", " : "[",
                    n < 3 ? axes[n][a] : tile_text(x->t, "x%u", a),
                    !batch ? own
                    : n    ? lanes_key_lines(x)
                           : lanes_row_batch(x, LANES_QUERIES));
    }
    au_text_add(&text, "%s", tensor->rank ? "]" : "");
    return au_text_str(&text);
}

void lanes_arguments(Lanes *x)
{
    const AuAttn *a = x->p->attn;
    for (uint32_t n = 0; n < a->tensor_count; n++)
        if (!(n == 2 && a->v_in_k))
            tile_arg(x->t, lanes_tensor(x, n), TILE_IN, "%s", lanes_type(x, lanes_elem(x, n), n));
    lanes_param_arguments(x);
}

void lanes_param_arguments(Lanes *x)
{
    const AuAttn *a = x->p->attn;
    for (uint32_t n = 0; n < a->param_count; n++) {
        const AuParam *p = &a->params[n];
        const char *name = hooks_name(x->arena, p->name);
        if (p->dtype != AU_DT_I64)
            tile_arg(x->t, name, TILE_PARAM, "%s", p->dtype == AU_DT_F32 ? "f32" : "i32");
        else
            for (uint32_t word = 0; word < 2; word++)
                tile_arg(x->t, tile_text(x->t, "%s_%s", name, word ? "high" : "low"), TILE_PARAM,
                         "i32");
    }
}

static void add_region(Lanes *x, const char *name, bool zeroed)
{
    AuSchedule *out = x->out;
    if (out->region_count == AULE_MAX_REGIONS) {
        x->too_many = true;
        return;
    }
    out->zeroed[out->region_count] = zeroed;
    out->regions[out->region_count++] = name;
}

void lanes_region(Lanes *x, const char *name) { add_region(x, name, false); }

void lanes_work_region(Lanes *x, const char *name)
{
    if (x->out->region_count < AULE_MAX_REGIONS) x->out->work[x->out->region_count] = true;
    add_region(x, name, false);
}

void lanes_zeroed_region(Lanes *x, const char *name) { add_region(x, name, true); }

AuTileExecutor lanes_executor(const Lanes *x) { return x->on_cpu ? TILE_ON_THREAD : TILE_ON_WARP; }

const char *lanes_limits(const Lanes *x, const char *of)
{
    const bool keys_end = x->p->attn->keys.layout && *of == 'k',
               queries_end = lanes_queries_are_padded(x) && *of == 'q';
    if (*of == 'k' && lanes_is_packed(x, LANES_KEYS))
        return x->p->attn->mask.i ? " from kv_start + k_low to kv_start + min(k_high, kv_length)"
                                  : " from kv_start to kv_end";
    if (*of == 'q' && lanes_is_packed(x, LANES_QUERIES))
        return x->p->attn->mask.i ? " from q_start + q_low to q_start + min(q_high, q_length)"
                                  : " from q_start to q_end";
    return x->p->attn->mask.i ? tile_text(x->t, " from %s_low to %s_high", of, of)
           : keys_end         ? " from 0 to kv_length"
           : queries_end      ? " from 0 to q_length"
                              : "";
}

/* Tiles begin at the sequence's first row, so that none has rows of the one before. */
const char *lanes_end_limit(const Lanes *x, const char *of)
{
    const bool mask = x->p->attn->mask.i != 0;
    if (*of == 'k' && lanes_is_packed(x, LANES_KEYS))
        return mask ? " from 0 to kv_start + min(k_high, kv_length)" : " from 0 to kv_end";
    if (*of == 'q' && lanes_is_packed(x, LANES_QUERIES))
        return mask ? " from 0 to q_start + min(q_high, q_length)" : " from 0 to q_end";
    if (*of == 'k' && x->p->attn->keys.layout && !mask) return " from 0 to kv_length";
    if (*of == 'q' && lanes_queries_are_padded(x) && !mask) return " from 0 to q_length";
    return x->p->attn->mask.i ? tile_text(x->t, " from 0 to %s_high", of) : "";
}

bool lanes_mask_by_head(const Lanes *x)
{
    const AuAttn *a = x->p->attn;
    return a->mask.i && (attn_at(a, a->mask)->axes & AU_AX_H);
}

const char *lanes_range_of_rows(Lanes *x, int32_t rows)
{
    return tile_text(x->t, "key_range(b, h, mb * %d, min(mb * %d + %d, %s))", rows, rows, rows,
                     lanes_query_end(x));
}

const char *lanes_range_of_all(Lanes *x, const char *head)
{
    return tile_text(x->t, "key_range(b, %s, 0, %s)", head, lanes_query_end(x));
}

/* Heads that a block of such rows asks for their ranges: [count] of the group's from number [first] on, which are those of its rows where [known] holds, NULL:
 * always. Beside many a block has rows in turns: of multiply-adds they are of the same heads where a query's rows are whole blocks, and of other ones where they
 * are not; of matrix units it has all rows of its sequence. */
typedef struct Asked {
    const char *first, *known;
    int32_t count;
} Asked;

static Asked heads_asked(Lanes *x)
{
    AuTileBuild *t = x->t;
    if (!x->only) return (Asked){tile_text(t, "mb * %d", x->block), NULL, x->block};
    if (x->atom->m > 1) return (Asked){"0", tile_text(t, "group <= %d", x->block), x->block};
    const char *few = tile_text(t, "group <= %d", HEADS_ASKED);
    return (Asked){tile_text(t, "where(%s, 0, first_block * %d)", few, x->block),
                   tile_text(t, "(%s || group %% %d == 0)", few, x->block), HEADS_ASKED};
}

/* The ends of their ranges joined by [join], where these are known, else [all]. Then no tile is one that all rows see, from the first one on: of
 * masks that begin with the first key nobody looks before that. */
static const char *end_of_heads(Lanes *x, const Asked *asked, const char *end, const char *join,
                                const char *all)
{
    const char *of_all = tile_text(x->t, "%s0", end);
    for (int32_t n = 1; n < asked->count; n++)
        of_all = tile_text(x->t, "%s(%s, %s%d)", join, of_all, end, n);
    return asked->known ? tile_text(x->t, "where(%s, %s, %s)", asked->known, of_all, all) : of_all;
}

/* Head number [n] of those, one behind the other around the group: a remainder once. */
static void let_asked_head(Lanes *x, const Asked *asked, int32_t n)
{
    const char *name = tile_text(x->t, "asked%d", n),
               *before = tile_text(x->t, "asked%d + 1", n - 1);
    if (n)
        tile_let(x->t, name, "where(%s < group, %s, 0)", before, before);
    else
        tile_let(x->t, name, "(%s) %% max(group, 1)", asked->first);
}

void lanes_let_range_of_block(Lanes *x)
{
    AuTileBuild *t = x->t;
    if (!lanes_mask_by_head(x)) {
        tile_let(t, "k_low, k_high, k_full_low, k_full_high", "%s", lanes_range_of_all(x, "0"));
        return;
    }
    const char *end = lanes_key_end(x);
    const Asked asked = heads_asked(x);
    for (int32_t n = 0; n < asked.count; n++) {
        let_asked_head(x, &asked, n);
        tile_let(
            t, tile_text(t, "low_of%d, high_of%d, full_low_of%d, full_high_of%d", n, n, n, n), "%s",
            lanes_range_of_all(x, tile_text(t, "%s * group + asked%d", lanes_group_name(x), n)));
    }
    tile_let(t, "k_low", "%s", end_of_heads(x, &asked, "low_of", "min", "0"));
    tile_let(t, "k_high", "%s", end_of_heads(x, &asked, "high_of", "max", end));
    tile_let(t, "k_full_low", "%s", end_of_heads(x, &asked, "full_low_of", "max", "0"));
    tile_let(t, "k_full_high", "%s", end_of_heads(x, &asked, "full_high_of", "min", "0"));
}

void lanes_bounds(Lanes *x, int32_t rows, int32_t keys)
{
    const char *last = lanes_key_end(x);
    if (x->p->attn->queries.layout) { /* blocks of no row have nothing to do */
        tile_let(x->t, "visible", "where(mb >= 0 && mb * %d < q_length, %s, 0)", rows, last);
        last = "visible";
    }
    tile_let(x->t, "k_low, k_high, k_full_low, k_full_high", "%s", lanes_range_of_rows(x, rows));
    tile_let(x->t, "n_low, f_low, f_high, n_high",
             "key_tiles(k_low, k_high, k_full_low, k_full_high, %s, %d)", last, keys);
}

void lanes_key_bounds(Lanes *x) { lanes_bounds(x, x->block, x->shape->key_tile); }

static bool is_changed(const Lanes *x, uint32_t n)
{
    const AuHooks *h = x->p->hooks;
    return n == 0 ? h->has_q_mod && x->query_in_memory : n == 1 ? h->has_k_mod : h->has_v_mod;
}

/* Codes that the products' kernel has no tile for; values that are channels of the keys are so with them. */
static bool has_parts(const Lanes *x, uint32_t n)
{
    return lanes_is_stored(x, n) && !x->makes_elements && !(n == 2 && x->p->attn->v_in_k) &&
           attn_stores_parts(&x->p->attn->storage[n - 1]);
}

/* Names and widths of the rows of q, k and v. */
typedef struct Rows {
    const char *tensor, *rows, *channels, *positions; /* q, axis names, indices for the row mod */
    int32_t width;
} Rows;

static Rows rows_of(const Lanes *x, uint32_t n)
{
    switch (n) {
    case 0: return (Rows){"q", "q", "d", "j, 0", x->p->d};
    case 1: return (Rows){"k", "kv", "d", "0, j", x->p->d};
    default: return (Rows){"v", "kv", "e", "0, j", x->p->e};
    }
}

const char *lanes_changed_type(Lanes *x, uint32_t n)
{
    const bool transposed = n == 2 && x->values_in_rows;
    const bool apart = n == 2 && schedule_values_apart(x->p);
    if (!is_changed(x, n) && !transposed && !apart && !has_parts(x, n)) return NULL;
    const Rows r = rows_of(x, n);
    const LanesSide side = n ? LANES_KEYS : LANES_QUERIES;
    const char *batch = lanes_row_batch(x, side), *heads = lanes_axis(x, n, 1),
               *length = lanes_axis(x, n, 2);
    const char *row = tile_text(x->t, "%s:%s", r.rows, length),
               *channel = tile_text(x->t, "%s:%d", r.channels, r.width);
    return tile_text(x->t, "%s[b:%s, h:%s, %s, %s]", x->operand, batch, heads,
                     transposed ? channel : row, transposed ? row : channel);
}

const char *lanes_changed_name(Lanes *x, uint32_t n)
{
    const char *tensor = rows_of(x, n).tensor;
    return lanes_changed_type(x, n) ? tile_text(x->t, "%s_changed", tensor) : tensor;
}

void lanes_changed_arguments(Lanes *x, uint32_t first)
{
    for (uint32_t n = first; n < 3; n++)
        if (lanes_changed_type(x, n))
            tile_arg(x->t, lanes_changed_name(x, n), TILE_IN, "%s", lanes_changed_type(x, n));
}

int32_t lanes_block_rows(const Lanes *x) { return x->rows_across ? 8 : x->p->caps->lanes; }

/* A row a lane; or spread over lanes, so that a warp moves whole rows, where lanes can exchange sums. */
const char *lanes_row_layout(Lanes *x, const char *channels)
{
    if (x->rows_across) return tile_text(x->t, "across_%s", channels);
    return tile_text(x->t, "%s.C", tile_best_atom(x->p->caps, TILE_F32, lanes_executor(x))->name);
}

/* As memory has them, of the row's channels `c`. */
static const char *channels_of(Lanes *x, uint32_t n, int32_t width)
{
    if (lanes_stores_halves(x, n)) return lanes_stored_index(x, n, "c");
    return n == 2 && x->p->attn->v_in_k ? tile_text(x->t, "%d +: %d", x->p->attn->v_first, width)
                                        : ":";
}

static void load_pages(Lanes *x, uint32_t n, int32_t width)
{
    AuTileBuild *t = x->t;
    const bool in_k = n == 2 && x->p->attn->v_in_k;
    const int32_t lanes = lanes_block_rows(x);
    const char *columns = channels_of(x, n, width);
    LanesRows view = lanes_paged_rows(x, n == 1 || in_k ? "k" : "v", "h", columns);
    if (in_k) view.after = tile_text(t, "%s as [kv, e]", view.after);
    tile_set(t, "at", "nb * %d + iota(kv:%d)", lanes, lanes);
    tile_load(t, "raw", "%v pad 0 when at < kv_length", lanes_at_pages(x, view, "at"));
}

/* Blocks of [lanes] rows; packed ones as parts of the list's blocks. */
static void grid_of_rows(Lanes *x, uint32_t n, LanesSide side, int32_t lanes)
{
    AuTileBuild *t = x->t;
    if (!lanes_is_packed(x, side)) {
        tile_grid(t, "nb: cdiv(%s, %d), h: %s, b: %s", lanes_axis(x, n, 2), lanes,
                  lanes_axis(x, n, 1), lanes_axis(x, n, 0));
        lanes_let_key_length(x);
        return;
    }
    lanes_work_argument(x, side);
    /* Of gradients items may be smaller than blocks: what is twice there is clipped. */
    const int32_t parts = (schedule_packs_rows(x->p) ? lanes_item_rows(x, side) : x->block) / lanes;
    tile_grid(t, "part: %d, h: %s, item: %s", parts, lanes_axis(x, n, 1),
              lanes_work_blocks(x, side));
    lanes_let_work(x, side);
    tile_let(t, "nb", "turn * %d + part", parts);
}

void lanes_rows_kernel(Lanes *x, uint32_t n)
{
    if (!lanes_changed_type(x, n)) return;
    AuTileBuild *t = x->t;
    const Rows r = rows_of(x, n);
    const int32_t lanes = lanes_block_rows(x);
    const char *changed = lanes_changed_name(x, n),
               *rows = tile_text(t, "nb * %d +: %d", lanes, lanes);
    const LanesSide side = n ? LANES_KEYS : LANES_QUERIES;
    const char *b = lanes_row_b(x, side), *span = lanes_row_span(x, side, rows, NULL, NULL);
    const bool padded = n > 0 && x->p->attn->keys.layout == AU_LAYOUT_PADDED;
    const char *ends = padded ? tile_text(t, "%s from 0 to kv_length", rows) : NULL;
    tile_kernel(t, tile_text(t, "%s_rows", r.tensor));
    lanes_arguments(x);
    tile_arg(t, changed, TILE_OUT, "%s", lanes_changed_type(x, n));
    grid_of_rows(x, n, side, lanes);
    tile_role(t, "core", 0, lanes_executor(x), 0);
    tile_frag(t, "raw", "%s[%s:%d, %s:%d] @ %s", lanes_is_stored(x, n) ? "f32" : x->operand,
              r.channels, r.width, r.rows, lanes, lanes_row_layout(x, r.channels));
    const bool parts = lanes_is_stored(x, n) && attn_stores_parts(&x->p->attn->storage[n - 1]);
    if (parts) tile_set(t, "c", "iota(%s:%d)", r.channels, r.width);
    if (n > 0 && lanes_keys_are_paged(x))
        load_pages(x, n, r.width);
    else if (n == 2 && x->p->attn->v_in_k)
        tile_load(t, "raw", "k[%s, h, %s, %s] as [kv, e] pad 0", lanes_key_b(x), span,
                  channels_of(x, n, r.width));
    else
        tile_load(t, "raw", "%s[%s, h, %s, %s] pad 0", r.tensor, n ? lanes_key_b(x) : b,
                  ends ? ends : span, channels_of(x, n, r.width));
    if (lanes_is_stored(x, n)) {
        tile_set(t, "token", "nb * %d + iota(kv:%d)", lanes, lanes);
        tile_set(t, "raw", "%s",
                 lanes_element_of(x, n, lanes_number_of(x, n, "raw", "c"),
                                  (LanesPlace){.head = "h", .rows = "token", .channel = "c"}));
    }
    if (is_changed(x, n)) {
        tile_set(t, "j", "nb * %d + iota(%s:%d)", lanes, r.rows, lanes);
        if (!parts) tile_set(t, "c", "iota(%s:%d)", r.channels, r.width);
        tile_set(t, "out", "%s_mod(f32(raw), b, h, %s, c)", r.tensor, r.positions);
    }
    /* Padded rows are written, too: copies of whole tiles read some of them. */
    const char *to = n == 0 && lanes_queries_are_padded(x) ? rows : span;
    const char *view =
        tile_text(t, n == 2 && x->values_in_rows ? "[%s, h, :, %s]" : "[%s, h, %s, :]", b, to);
    tile_store(t, is_changed(x, n) ? "%s(out) -> %s%s clip" : "%s(raw) -> %s%s clip", x->operand,
               changed, view);
    tile_end(t);
    tile_end(t);
    lanes_region(x, changed);
}
