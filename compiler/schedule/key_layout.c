/* key_layout.c - see key_layout.h. */
#include "key_layout.h"
#include "key_storage.h"
#include "warps.h"

static const AuRowLayout *layout(const Lanes *x) { return &x->p->attn->keys; }

const char *lanes_size(Lanes *x, uint32_t n)
{
    return hooks_name(x->arena, x->p->attn->sizes[n].name);
}

bool lanes_keys_are_paged(const Lanes *x) { return layout(x)->layout == AU_LAYOUT_PAGED; }

bool lanes_rows_are_paged(Lanes *x, uint32_t operand)
{
    return lanes_keys_are_paged(x) && !lanes_changed_type(x, operand);
}

bool lanes_has_pages(Lanes *x)
{
    bool of_dots = false;
    for (uint32_t n = 0; n < x->p->hooks->dot_count; n++)
        of_dots |= lanes_dot_rows(x, n, LANES_KEYS, ":").head != NULL;
    return of_dots || lanes_rows_are_paged(x, 1) || (x->own_v && lanes_rows_are_paged(x, 2));
}

const char *lanes_most_keys(Lanes *x)
{
    if (layout(x)->is_csr)
        return hooks_name(x->arena, x->p->attn->params[layout(x)->most_keys].name);
    return tile_text(x->t, "%s * %s", lanes_size(x, layout(x)->entries),
                     lanes_size(x, layout(x)->slots));
}

const char *lanes_paged_type(Lanes *x, const char *elem, uint32_t n)
{
    return tile_text(x->t, "%s[page:%s, h:%s, slot:%s, %s:%d]", elem,
                     lanes_size(x, layout(x)->pages), lanes_axis(x, n, 1),
                     lanes_size(x, layout(x)->slots), n == 1 ? "d" : "e",
                     lanes_stored_width(x, n, n == 1 ? x->p->d : x->p->e));
}

bool schedule_inputs_have_keys(const AuAttn *a)
{
    for (uint32_t n = 3; n < a->tensor_count; n++)
        for (uint32_t k = 0; k < a->tensors[n].rank && !a->tensors[n].as_keys; k++)
            if (a->tensors[n].axes[k].i == a->tensors[1].axes[2].i) return true;
    return false;
}

bool lanes_is_packed(const Lanes *x, LanesSide side)
{
    const AuAttn *a = x->p->attn;
    return (side == LANES_KEYS ? &a->keys : &a->queries)->layout == AU_LAYOUT_PACKED;
}

bool lanes_queries_are_padded(const Lanes *x)
{
    return x->p->attn->queries.layout == AU_LAYOUT_PADDED;
}

static bool has_query_lines(const Lanes *x) { return x->p->attn->queries.has_rows; }

const char *lanes_row_batch(Lanes *x, LanesSide side)
{
    if (side == LANES_QUERIES && has_query_lines(x))
        return lanes_size(x, x->p->attn->queries.lines);
    return lanes_is_packed(x, side) ? "1" : lanes_axis(x, side == LANES_KEYS, 0);
}

const char *lanes_row_b(const Lanes *x, LanesSide side)
{
    if (side == LANES_QUERIES && has_query_lines(x)) return "q_line";
    return lanes_is_packed(x, side) ? "0" : "b";
}

/* What is known of a sequence's keys has names of its own where it is a group's first. */
static const char *of_keys(Lanes *x, const char *what)
{
    return tile_text(x->t, "%s_%s", x->of_group ? "shared" : "kv", what);
}

static const char *sequence(const Lanes *x) { return x->of_group ? "leader" : "b"; }

const char *lanes_key_line(const Lanes *x)
{
    if (!layout(x)->has_rows) return sequence(x);
    return x->of_group ? "shared_line" : "kv_line";
}

const char *lanes_key_lines(Lanes *x)
{
    if (layout(x)->is_csr) return tile_text(x->t, "(%s - 1)", lanes_size(x, layout(x)->ends));
    return layout(x)->has_rows ? lanes_size(x, layout(x)->lines) : lanes_row_batch(x, LANES_KEYS);
}

const char *lanes_page_entry(Lanes *x, const char *page)
{
    const char *table = lanes_tensor(x, layout(x)->table);
    if (layout(x)->is_csr) return tile_text(x->t, "%s[%s + %s]", table, of_keys(x, "pages"), page);
    return tile_text(x->t, "%s[%s, %s]", table, lanes_key_line(x), page);
}

const char *lanes_key_b(const Lanes *x)
{
    return layout(x)->has_rows ? "kv_line" : lanes_row_b(x, LANES_KEYS);
}

static const char *prefix(LanesSide side) { return side == LANES_KEYS ? "kv" : "q"; }

const char *lanes_row_start(const Lanes *x, LanesSide side)
{
    if (!lanes_is_packed(x, side)) return "";
    return side == LANES_KEYS ? "kv_start + " : "q_start + ";
}

const char *lanes_row_span(Lanes *x, LanesSide side, const char *rows, const char *low,
                           const char *high)
{
    const char *of = prefix(side);
    if (side == LANES_QUERIES && !high && lanes_queries_are_padded(x))
        return tile_text(x->t, "%s from 0 to q_length", rows);
    if (!lanes_is_packed(x, side))
        return high ? tile_text(x->t, "%s from %s to %s", rows, low, high) : rows;
    if (!high) return tile_text(x->t, "%s_start + %s from %s_start to %s_end", of, rows, of, of);
    return tile_text(x->t, "%s_start + %s from %s_start + %s to %s_start + %s", of, rows, of, low,
                     of, high);
}

const char *lanes_place(Lanes *x, LanesSide side, const char *head, const char *rows)
{
    return tile_text(x->t, "%s, %s, %s", lanes_row_b(x, side), head,
                     lanes_row_span(x, side, rows, NULL, NULL));
}

const char *lanes_row_place(Lanes *x, LanesSide side, const char *head, const char *row)
{
    return tile_text(x->t, "%s, %s, %s%s", lanes_row_b(x, side), head, lanes_row_start(x, side),
                     row);
}

const char *lanes_query_place(Lanes *x)
{
    return lanes_place(x, LANES_QUERIES, "h",
                       tile_text(x->t, "%s +: %d", lanes_first_row(x), x->rows));
}

const char *lanes_passing_end(Lanes *x, LanesSide own, const char *block, int32_t rows)
{
    const bool keys = own == LANES_KEYS;
    const char *end = keys ? lanes_key_end(x) : lanes_query_end(x),
               *passing = keys ? lanes_query_end(x) : lanes_key_end(x);
    if (!(keys ? x->p->attn->keys : x->p->attn->queries).layout) return passing;
    return tile_text(x->t, "where(%s >= 0 && %s * %d < %s, %s, 0)", block, block, rows, end,
                     passing);
}

const char *lanes_query_end(Lanes *x)
{
    return x->p->attn->queries.layout ? "q_length" : lanes_axis(x, 0, 2);
}

/* So many rows of a sequence a call says that there are at most; NULL: it does not. */
static const char *said_most(Lanes *x, LanesSide side)
{
    const AuAttn *a = x->p->attn;
    const AuRowLayout *rows = side == LANES_KEYS ? &a->keys : &a->queries;
    if (!rows->says_most) return NULL;
    return rows->most ? lanes_size(x, rows->most - 1)
                      : hooks_name(x->arena, a->params[rows->most_rows].name);
}

/* As of calls that have no others (lanes_decode.c, warps_decode.c), but of multiply-adds, whose calls may have more (lanes_packed.c). */
const char *lanes_few_queries(Lanes *x)
{
    const bool on_cpu = x->p->caps->has_private;
    if (!on_cpu && x->atom->m == 1)
        return tile_text(x->t, "min(max(%d * %s / max(%s, 1), 1), %d)", LANES_PACKED_BESIDE,
                         lanes_groups(x), lanes_axis(x, 0, 1), LANES_PACKED_QUERIES);
    return tile_text(x->t, "min(%d * %s / max(%s, 1), %d)",
                     on_cpu ? schedule_lanes_decode_rows(x->p) : WARPS_DECODE_ROWS, lanes_groups(x),
                     lanes_axis(x, 0, 1), on_cpu ? SCHEDULE_DECODE_QUERIES : WARPS_DECODE_QUERIES);
}

const char *lanes_most_queries(Lanes *x)
{
    if (!lanes_is_packed(x, LANES_QUERIES)) return lanes_axis(x, 0, 2);
    const char *most = x->only ? lanes_few_queries(x) : said_most(x, LANES_QUERIES);
    return tile_text(x->t, "max(%s, 1)", most);
}

const char *lanes_key_room(Lanes *x)
{
    const char *most = lanes_is_packed(x, LANES_KEYS) ? said_most(x, LANES_KEYS) : NULL;
    return most ? most : lanes_axis(x, 1, 2);
}

const char *lanes_query_line_of(Lanes *x, const char *b)
{
    const AuRowLayout *queries = &x->p->attn->queries;
    return tile_text(x->t, "clamp(%s[%s], 0, %s - 1)", lanes_tensor(x, queries->rows), b,
                     lanes_size(x, queries->lines));
}

/* Clamped to the rows that there are, and to begin no later than they end: no numbers make an address outside. */
static const char *start_of(Lanes *x, LanesSide side, const char *b)
{
    const AuRowLayout *rows = side == LANES_KEYS ? &x->p->attn->keys : &x->p->attn->queries;
    return tile_text(x->t, "clamp(%s[%s], 0, %s)", lanes_tensor(x, rows->starts), b,
                     lanes_axis(x, side == LANES_KEYS, 2));
}

static const char *end_of(Lanes *x, LanesSide side, const char *b, const char *start)
{
    const AuRowLayout *rows = side == LANES_KEYS ? &x->p->attn->keys : &x->p->attn->queries;
    return tile_text(x->t, "clamp(%s[%s + 1], %s, %s)", lanes_tensor(x, rows->starts), b, start,
                     lanes_axis(x, side == LANES_KEYS, 2));
}

/* Where kernels have room for as many rows as a call says, those of so many; sequences whose rows are others' have none. */
static const char *length_in_room(Lanes *x, LanesSide side, const char *length)
{
    const LanesOnly only = side == LANES_KEYS ? LANES_ALL : x->only;
    if (only == LANES_FEW)
        return tile_text(x->t, "where(%s <= %s, %s, 0)", length, lanes_few_queries(x), length);
    const char *most = schedule_packs_rows(x->p) && !only ? said_most(x, side) : NULL;
    return most ? tile_text(x->t, "min(%s, %s)", length, most) : length;
}

/* Of kernels for some sequences: has this one as many rows? */
static const char *is_own(Lanes *x)
{
    const char *few = lanes_few_queries(x);
    if (x->only == LANES_SHORT)
        return tile_text(x->t, "q_all - q_start > %s && q_all - q_start <= %d", few,
                         LANES_SHORT_ROWS);
    if (!x->leaves_short) return tile_text(x->t, "q_all - q_start > %s", few);
    return tile_text(x->t, "q_all - q_start > max(%s, %d)", few, LANES_SHORT_ROWS);
}

static void let_packed(Lanes *x, LanesSide side)
{
    const bool some = side == LANES_QUERIES && (x->only == LANES_MANY || x->only == LANES_SHORT);
    const char *of = prefix(side), *start = tile_text(x->t, "%s_start", of);
    tile_let(x->t, start, "%s", start_of(x, side, "b"));
    tile_let(x->t, tile_text(x->t, "%s_%s", of, some ? "all" : "end"), "%s",
             end_of(x, side, "b", start));
    if (some) tile_let(x->t, "q_end", "where(%s, q_all, q_start)", is_own(x));
    tile_let(x->t, tile_text(x->t, "%s_length", of), "%s",
             length_in_room(x, side, tile_text(x->t, "%s_end - %s_start", of, of)));
}

const char *lanes_queries_of(Lanes *x, const char *b, const char *start)
{
    if (lanes_queries_are_padded(x) && x->p->attn->queries.has_no_lengths)
        return lanes_axis(x, 0, 2);
    if (lanes_queries_are_padded(x))
        return tile_text(x->t, "clamp(%s[%s], 0, %s)", lanes_tensor(x, x->p->attn->queries.lengths),
                         b, lanes_axis(x, 0, 2));
    return length_in_room(x, LANES_QUERIES,
                          tile_text(x->t, "%s - %s", end_of(x, LANES_QUERIES, b, start), start));
}

const char *lanes_query_start_of(Lanes *x, const char *b) { return start_of(x, LANES_QUERIES, b); }

/* Of a kernel, or in a role. */
void lanes_put(Lanes *x, const char *name, const char *value)
{
    if (x->in_role)
        tile_set(x->t, name, "%s", value);
    else
        tile_let(x->t, name, "%s", value);
}

/* Where the sequence's pages begin in the list of all; the room that they have. */
static const char *let_pages(Lanes *x)
{
    const AuRowLayout *keys = layout(x);
    const char *starts = lanes_tensor(x, keys->table_starts), *all = lanes_size(x, keys->entries),
               *line = lanes_key_line(x), *first = of_keys(x, "pages"),
               *end = of_keys(x, "pages_end");
    lanes_put(x, first, tile_text(x->t, "clamp(%s[%s], 0, %s)", starts, line, all));
    lanes_put(x, end, tile_text(x->t, "clamp(%s[%s + 1], %s, %s)", starts, line, first, all));
    return tile_text(x->t, "min((%s - %s) * %s, %s)", end, first, lanes_size(x, keys->slots),
                     lanes_most_keys(x));
}

/* Of what the table has room for: there are pages, and inputs end where they have no more for a sequence. */
static const char *room_in_pages(Lanes *x, const char *room)
{
    const AuAttn *a = x->p->attn;
    const char *some = tile_text(x->t, "%s * min(%s, 1)", room, lanes_size(x, a->keys.pages));
    if (!schedule_inputs_have_keys(a) || a->keys.has_positions) return some;
    return tile_text(x->t, "min(%s, %s)", some,
                     lanes_size(x, (uint32_t)attn_at(a, a->tensors[1].axes[2])->integer));
}

/* Clamped to what there is room for. */
static const char *length_of(Lanes *x, const char *b, const char *room)
{
    return tile_text(x->t, "min(max(%s[%s], 0), %s)", lanes_tensor(x, layout(x)->lengths), b, room);
}

const char *lanes_length_of(Lanes *x)
{
    return length_of(x, "b", room_in_pages(x, lanes_most_keys(x)));
}

/* Where the rows of a side are some of a sequence's: which. [sets]: of each sequence that the tile `b` says. */
static void put_positions(Lanes *x, LanesSide side, bool sets)
{
    const AuRowLayout *rows = side == LANES_KEYS ? layout(x) : &x->p->attn->queries;
    const char *of = prefix(side), *whole = tile_text(x->t, "%s_whole", of),
               *first = tile_text(x->t, "%s_first", of);
    if (!rows->has_positions) return;
    const char *values[2] = {
        tile_text(x->t, "max(%s[b], 0)", lanes_tensor(x, rows->whole)),
        tile_text(x->t, "clamp(%s[b], 0, %s)", lanes_tensor(x, rows->first), whole)};
    for (uint32_t n = 0; n < 2; n++)
        if (sets)
            tile_set(x->t, n ? first : whole, "%s", values[n]);
        else
            tile_let(x->t, n ? first : whole, "%s", values[n]);
}

void lanes_set_key_lengths(Lanes *x)
{
    AuTileBuild *t = x->t;
    if (has_query_lines(x)) tile_set(t, "q_line", "%s", lanes_query_line_of(x, "b"));
    put_positions(x, LANES_QUERIES, true);
    if (lanes_is_packed(x, LANES_KEYS)) {
        tile_set(t, "kv_start", "%s", start_of(x, LANES_KEYS, "b"));
        tile_set(
            t, "kv_length", "%s",
            length_in_room(x, LANES_KEYS,
                           tile_text(t, "%s - kv_start", end_of(x, LANES_KEYS, "b", "kv_start"))));
        return;
    }
    put_positions(x, LANES_KEYS, true);
    tile_set(t, "kv_length", "%s",
             lanes_keys_are_paged(x) ? lanes_length_of(x) : length_of(x, "b", lanes_axis(x, 1, 2)));
}

static void let_key_length(Lanes *x)
{
    const AuAttn *a = x->p->attn;
    const char *room = lanes_axis(x, 1, 2), *b = sequence(x), *length = of_keys(x, "length");
    if (a->keys.has_rows)
        lanes_put(x, lanes_key_line(x),
                  tile_text(x->t, "clamp(%s[%s], 0, %s - 1)", lanes_tensor(x, a->keys.rows), b,
                            lanes_key_lines(x)));
    if (a->keys.is_csr) room = let_pages(x);
    put_positions(x, LANES_KEYS, false);
    if (lanes_keys_are_paged(x)) room = room_in_pages(x, room);
    lanes_put(x, length, a->keys.has_no_lengths ? room : length_of(x, b, room));
}

void lanes_let_leader_length(Lanes *x)
{
    const bool before = x->of_group;
    x->of_group = true;
    let_key_length(x);
    x->of_group = before;
}

void lanes_let_key_length(Lanes *x)
{
    if (lanes_is_packed(x, LANES_QUERIES)) let_packed(x, LANES_QUERIES);
    if (lanes_queries_are_padded(x))
        tile_let(x->t, "q_length", "%s", lanes_queries_of(x, "b", NULL));
    if (has_query_lines(x)) tile_let(x->t, "q_line", "%s", lanes_query_line_of(x, "b"));
    put_positions(x, LANES_QUERIES, false);
    if (lanes_is_packed(x, LANES_KEYS))
        let_packed(x, LANES_KEYS);
    else if (layout(x)->layout)
        let_key_length(x);
}

const char *lanes_key_end(Lanes *x)
{
    if (x->of_group) return "prefix_end";
    return layout(x)->layout ? "kv_length" : lanes_axis(x, 1, 2);
}

LanesRows lanes_paged_rows(Lanes *x, const char *tensor, const char *head, const char *columns)
{
    return (LanesRows){.before = tile_text(x->t, "%s[", tensor),
                       .after = tile_text(x->t, ", %s]", columns),
                       .head = tile_text(x->t, ", %s, ", head)};
}

AuTileHandle lanes_at_pages(Lanes *x, LanesRows view, const char *rows)
{
    const char *slots = lanes_size(x, layout(x)->slots), *pages = lanes_size(x, layout(x)->pages);
    return tile_part(x->t, "%sclamp(%s, 0, %s - 1)%s%s %% %s%s", view.before,
                     lanes_page_entry(x, tile_text(x->t, "%s / %s", rows, slots)), pages, view.head,
                     rows, slots, view.after);
}

/* Rows of queries are rows of products with matrix units of warps, else their columns. */
static void sums_of_rows(Lanes *x, const char *name, const char *axis, int32_t count,
                         const char *value)
{
    const char *rows = tile_text(x->t, "q:%d", x->rows),
               *others = tile_text(x->t, "%s:%d", axis, count);
    tile_frag(x->t, tile_part(x->t, "%s", name), "f32[%s, %s] @ %s.C%s",
              x->query_in_memory ? rows : others, x->query_in_memory ? others : rows, x->atom->name,
              value);
}

/* Packed, those behind the last sequence; padded, those behind each. */
static void rest_grid(Lanes *x)
{
    AuTileBuild *t = x->t;
    const char *blocks = tile_text(t, "cdiv(%s, %d)", lanes_axis(x, 0, 2), x->block),
               *heads = lanes_axis(x, 0, 1);
    if (lanes_queries_are_padded(x)) {
        tile_grid(t, "mb: %s, h: %s, b: %s", blocks, heads, lanes_axis(x, 0, 0));
        return;
    }
    tile_grid(t, "mb: %s, h: %s", blocks, heads);
    /* hooks may ask for a sequence: the last one */
    tile_let(t, "b", "%s - 2", lanes_size(x, x->p->attn->queries.ends));
}

/* Of kernels of groups of warps each warp by itself. */
static Lanes of_single_warps(const Lanes *x)
{
    Lanes own = *x;
    if (!x->sum_atom) return own;
    own.atom = x->sum_atom;
    own.rows = own.atom->m;
    own.block = own.rows * x->shape->executors;
    return own;
}

void lanes_rest_kernel(Lanes *of)
{
    Lanes own = of_single_warps(of), *x = &own;
    AuTileBuild *t = x->t;
    if (!x->p->attn->queries.layout || schedule_packs_rows(x->p)) return;
    const char *all = lanes_axis(x, 0, 2),
               *end = lanes_queries_are_padded(x) ? "q_length" : "q_end";
    tile_kernel(t, "rest");
    lanes_arguments(x);
    lanes_written_arguments(x);
    rest_grid(x);
    lanes_let_key_length(x);
    tile_role(t, "core", lanes_shares_tiles(x) ? x->shape->executors : 0, lanes_executor(x), 0);
    const int32_t sharers = schedule_row_sharers(x->shape);
    const char *first = sharers > 1 ? tile_text(t, "self %% %d == 0 && ", sharers) : "";
    tile_if(t, "%smb * %d + %d > %s", first, x->block, x->block, end);
    sums_of_rows(x, "score", "kv", x->shape->key_tile, "");
    sums_of_rows(x, "acc", "e", x->p->e, " = 0.0");
    lanes_declare_rows(x);
    lanes_begin_states(x);
    const char *rows = tile_text(t, "%s, h, %s +: %d from %s to %s", lanes_row_b(x, LANES_QUERIES),
                                 lanes_first_row(x), x->rows, end, all);
    if (x->p->unfinished) {
        lanes_store_part(x, rows);
    } else {
        lanes_end(x, "acc");
        lanes_store_rest(x, rows);
    }
    tile_end(t);
    tile_end(t);
    tile_end(t);
}

/* ---- rows of no sequence, of kernels for few queries: the kernel that joins parts has a block for each row that a sequence may have */

void lanes_begin_own_row(Lanes *x)
{
    if (x->p->attn->queries.layout) tile_if(x->t, "mb < q_length");
}

/* Zeros, and finals as rows without a pair have them, at a row of o. */
static void write_nothing(Lanes *x, const char *place, const char *columns, const char *finals)
{
    AuTileBuild *t = x->t;
    tile_set(t, "acc", "fill(acc, 0.0)");
    lanes_begin_states(x);
    lanes_end(x, "acc");
    lanes_store_zeros(x, place, columns);
    if (finals) tile_if(t, finals);
    lanes_store_finals_at(x, place);
    if (finals) tile_end(t);
}

/* Of padded queries the row itself; of packed ones, where no other kernels have sequences and the rest, every so many that lie between the sequence's last and where the next one begins, behind the last
 * sequence up to the end. */
void lanes_end_own_row(Lanes *x, const char *columns, const char *finals)
{
    AuTileBuild *t = x->t;
    if (!x->p->attn->queries.layout) return;
    if (lanes_queries_are_padded(x)) {
        tile_else(t);
        write_nothing(x, lanes_row_place(x, LANES_QUERIES, "h", "mb +: 1"), columns, finals);
        tile_end(t);
        return;
    }
    tile_end(t);
    if (x->only) return;
    const char *most = lanes_most_queries(x);
    tile_set(t, "behind_end", "where(b == %s - 1, %s, q_end)", lanes_axis(x, 0, 0),
             lanes_axis(x, 0, 2));
    tile_set(t, "behind_first", "q_start + q_length + mb");
    tile_for_range(t, "turn_behind", "0",
                   tile_text(t, "cdiv(behind_end - behind_first, %s)", most));
    write_nothing(x, tile_text(t, "0, h, behind_first + turn_behind * %s +: 1", most), columns,
                  finals);
    tile_end(t);
}
