/* lanes_append.c - the operation `append`: rows of k_new and v_new go to their places in the cache.
 *
 * An executor has a row of a head, whose channels lie along its lanes, so that memory moves rows whole. Where a row goes is a number for the
 * whole executor: the slot that the call gives, or the place of its token among the last of the sequence. What is no place is passed by,
 * whatever the numbers are: of writes a clamped address would be another sequence's row.
 *
 * Rows of keys that further products read are rows of a cache of their own, which a kernel of their own moves.
 *
 * Row mods are applied where the cache holds what they make (rows_are_new). Rows become codes of 8 bits on the way where the cache has those: divided by the scale that is given, or by one that is made of the row
 * and written beside it. */
#include "key_layout.h"
#include "key_storage.h"
#include "lanes_append.h"

static const char *new_size(Lanes *x, AuNewSize which)
{
    const AuAttn *a = x->p->attn;
    return hooks_name(x->arena, a->sizes[a->new_sizes - 1 + which].name);
}

static bool queries_are_packed(const Lanes *x) { return lanes_is_packed(x, LANES_QUERIES); }

/* Rows of the cache as slots number them: of a page, or of a sequence; how many such there are. */
static const char *slot_rows(Lanes *x)
{
    return lanes_keys_are_paged(x) ? lanes_size(x, x->p->attn->keys.slots) : lanes_axis(x, 1, 2);
}

/* Of sequences as many as k has: lists of queries need not be there. */
static const char *slot_batch(Lanes *x)
{
    AuAttn *a = x->p->attn;
    AuText text = {.arena = x->arena};
    if (lanes_keys_are_paged(x)) return lanes_size(x, a->keys.pages);
    if (a->keys.has_rows) return lanes_size(x, a->keys.lines);
    tile_print_expr(hooks_expr(x->p->hooks, a, a->tensors[1].axes[0]), &text);
    return au_text_str(&text);
}

/* ---- one row of k (1), of v (2), of an input that has rows of keys */

static LanesAppended side_of(Lanes *x, uint32_t n)
{
    AuAttn *a = x->p->attn;
    if (n < 3)
        return n == 1 ? (LanesAppended){1, "k", "k_new", "d", x->p->d}
                      : (LanesAppended){2, "v", "v_new", "e", x->p->e};
    const char *name = lanes_tensor(x, n);
    return (LanesAppended){n, name, tile_text(x->t, "%s_new", name), "x3",
                           (int32_t)hooks_expr(x->p->hooks, a, a->tensors[n].axes[3])->integer};
}

static bool is_input(const LanesAppended *s) { return s->n > 2; }

static const AuStorage *storage(const Lanes *x, const LanesAppended *s)
{
    static const AuStorage as_operand;
    return is_input(s) ? &as_operand : &x->p->attn->storage[s->n - 1];
}

/* Is the row what a mod makes of the one that is given? */
static bool is_changed(const Lanes *x, const LanesAppended *s)
{
    const AuHooks *h = x->p->hooks;
    return x->p->attn->rows_are_new && !is_input(s) && (s->n == 1 ? h->has_k_mod : h->has_v_mod);
}

/* The lanes of a row: all, or of rows that a mod may sum over as many as divide them. */
static int32_t lanes_of_row(const Lanes *x, const LanesAppended *s)
{
    int32_t lanes = x->p->caps->lanes;
    while (is_changed(x, s) && s->width % lanes) lanes /= 2;
    return lanes;
}

/* All lanes have as many channels, the last of them perhaps none of the row. */
static int32_t lanes_width(const Lanes *x, const LanesAppended *s)
{
    const int32_t lanes = lanes_of_row(x, s);
    return (s->width + lanes - 1) / lanes * lanes;
}

/* Do lanes see each other's values, as those of warps do, so that each also moves several neighbours at once? */
static bool has_warps(const AuProblem *p)
{
    return !p->caps->has_private && p->caps->lanes > 1 && !tile_exchange_words(p->caps);
}

/* As many neighbouring channels a lane as 16 bytes are; else one, as vectors of a processor have them. */
static void layout(Lanes *x, const LanesAppended *s)
{
    if (lanes_appends_parts(x, s)) {
        lanes_append_layout(x, s);
        return;
    }
    enum { BYTES = 16 };
    const int32_t lanes = lanes_of_row(x, s), each = lanes_width(x, s) / lanes;
    int32_t together = has_warps(x->p) ? BYTES / tile_elem(x->p->operand)->bytes : 1;
    while (each % together) together /= 2;
    const char *rest = each > together ? " reg" : "";
    tile_layout(x->t, tile_text(x->t, "row_of_%s", s->cache),
                together > 1 ? tile_text(x->t, "reg:%d lane:%d@1%s", together, lanes, rest)
                             : tile_text(x->t, "lane:%d@1%s", lanes, rest),
                NULL);
}

static const char *cache_type(Lanes *x, const LanesAppended *s)
{
    const char *elem = lanes_elem(x, s->n);
    if (is_input(s)) return lanes_type(x, elem, s->n);
    if (lanes_keys_are_paged(x)) return lanes_paged_type(x, elem, s->n);
    return tile_text(x->t, "%s[b:%s, h:%s, kv:%s, %s:%d]", elem, slot_batch(x),
                     lanes_axis(x, s->n, 1), lanes_axis(x, s->n, 2), s->axis,
                     lanes_stored_width(x, s->n, s->width));
}

static void arguments(Lanes *x, const LanesAppended *s)
{
    AuTileBuild *t = x->t;
    const AuTensor *of = &x->p->attn->tensors[s->n];
    const uint32_t scale = storage(x, s)->scale, zero = storage(x, s)->zero;
    const char *elem = of->dtype == AU_DT_OPERAND ? x->operand : lanes_elem(x, s->n);
    tile_arg(t, s->cache, TILE_INOUT, "%s", cache_type(x, s));
    tile_arg(t, s->given, TILE_IN, "%s[m:%s, h:%s, n:%s, %s:%d]", elem, new_size(x, AU_NEW_BATCH),
             lanes_axis(x, s->n, 1), new_size(x, AU_NEW_ROWS), s->axis, s->width);
    const AuTileMode mode = storage(x, s)->by_token ? TILE_INOUT : TILE_IN;
    if (lanes_is_stored(x, s->n))
        tile_arg(t, lanes_tensor(x, scale), mode, "%s", lanes_type(x, lanes_elem(x, scale), scale));
    if (lanes_is_stored(x, s->n) && storage(x, s)->has_zero)
        tile_arg(t, lanes_tensor(x, zero), mode, "%s", lanes_type(x, lanes_elem(x, zero), zero));
}

/* What the mod makes of row n of the new ones, which is row j of the sequence; rounded as the cache has it. */
static const char *changed(Lanes *x, const LanesAppended *s, const char *row)
{
    AuTileBuild *t = x->t;
    tile_set(t, tile_text(t, "c_of_%s", s->cache), "iota(%s:%d)", s->axis, s->width);
    tile_set(t, tile_text(t, "changed_%s", s->cache), "%s_mod(f32(%s), b, h, n, j, c_of_%s)",
             s->cache, row, s->cache);
    return tile_text(t, "%s(changed_%s)", x->operand, s->cache);
}

/* All channels of a row, as lanes have them: some of the last lanes may have none. */
static const char *columns(Lanes *x, const LanesAppended *s)
{
    const int32_t width = lanes_width(x, s);
    return width == s->width ? ":" : tile_text(x->t, "0 +: %d", width);
}

static bool is_whole(const Lanes *x, const LanesAppended *s)
{
    return lanes_width(x, s) == s->width;
}

/* k_new[from, :] */
static void bring(Lanes *x, const LanesAppended *s, const char *from)
{
    tile_load(x->t, tile_text(x->t, "row_%s", s->cache), "%s[%s, %s]%s", s->given, from,
              columns(x, s), is_whole(x, s) ? "" : " pad 0");
}

/* To k[place, :]. */
static void leave(Lanes *x, const LanesAppended *s, const char *place)
{
    AuTileBuild *t = x->t;
    const char *row = tile_text(t, "row_%s", s->cache);
    if (is_changed(x, s)) row = changed(x, s, row);
    if (lanes_is_stored(x, s->n))
        row = tile_text(t, "f32(%s) / %s", row, lanes_scale_of_row(x, s, row, place));
    tile_store(t, "%s -> %s[%s, %s]%s", row, s->cache, place, columns(x, s),
               is_whole(x, s) ? "" : " clip");
}

/* ---- which row an executor has, and where it goes */

typedef struct Sides {
    LanesAppended at[2];
    uint32_t count;
} Sides;

static void move_all(Lanes *x, const Sides *sides, const char *from, const char *place)
{
    for (uint32_t n = 0; n < sides->count; n++)
        if (!lanes_appends_parts(x, &sides->at[n])) bring(x, &sides->at[n], from);
    for (uint32_t n = 0; n < sides->count; n++) {
        if (lanes_appends_parts(x, &sides->at[n]))
            lanes_append_parts(x, &sides->at[n], from, place);
        else
            leave(x, &sides->at[n], place);
    }
}

/* Row j of page or sequence p is slot p * rows + j. */
static void to_slots(Lanes *x, const Sides *sides)
{
    AuTileBuild *t = x->t;
    const char *rows = slot_rows(x);
    tile_if(t, "n < %s", new_size(x, AU_NEW_ROWS));
    tile_set(t, "slot", "narrow(slots[m, n])");
    tile_set(t, "page", "slot / max(%s, 1)", rows);
    tile_if(t, "slot >= 0 && page < where(%s > 0, %s, 0)", rows, slot_batch(x));
    tile_set(t, "j", "slot - page * %s", rows);
    move_all(x, sides, "m, h, n", "page, h, j");
    tile_end(t);
    tile_end(t);
}

/* The sequence of row n of packed ones, by halves: the last one that begins at or before it. */
static void find_sequence(Lanes *x)
{
    enum { HALVES = 31 };
    AuTileBuild *t = x->t;
    const char *starts = lanes_tensor(x, x->p->attn->queries.starts),
               *ends = lanes_size(x, x->p->attn->queries.ends);
    tile_set(t, "b", "0");
    tile_set(t, "behind", "%s - 1", ends);
    tile_for_range(t, "half", "0", tile_text(t, "%d", HALVES));
    tile_if(t, "behind - b > 1");
    tile_set(t, "middle", "b + (behind - b) / 2");
    tile_set(t, "is_before", "%s[middle] <= n", starts);
    tile_set(t, "b", "where(is_before, middle, b)");
    tile_set(t, "behind", "where(is_before, behind, middle)");
    tile_end(t);
    tile_end(t);
    tile_set(t, "first", "%s[b]", starts);
    tile_set(t, "count", "%s[b + 1] - first", starts);
    tile_set(t, "token", "n - first");
}

/* The last of [count] new tokens is the sequence's last. */
static void to_the_end(Lanes *x, const Sides *sides)
{
    AuTileBuild *t = x->t;
    const AuRowLayout *keys = &x->p->attn->keys;
    const bool packed = queries_are_packed(x);
    const char *room = lanes_keys_are_paged(x) ? lanes_most_keys(x) : lanes_axis(x, 1, 2);
    const char *length = keys->layout && !keys->has_no_lengths
                             ? tile_text(t, "max(%s[b], 0)", lanes_tensor(x, keys->lengths))
                             : room;
    const char *line = keys->has_rows ? "line" : "b";
    const char *from = packed ? "0, h, n" : "b, h, n";
    tile_if(t, "n < %s", new_size(x, AU_NEW_ROWS));
    if (packed) find_sequence(x);
    if (keys->has_rows) tile_set(t, line, "%s[b]", lanes_tensor(x, keys->rows));
    tile_set(t, "j", "%s - %s", length,
             packed ? "count + token" : tile_text(t, "%s + n", new_size(x, AU_NEW_ROWS)));
    const char *own = packed ? "token >= 0 && token < count && " : "";
    if (keys->has_rows)
        own = tile_text(t, "%sline >= 0 && line < %s && ", own, lanes_size(x, keys->lines));
    tile_if(t, "%sj >= 0 && j < %s", own, room);
    if (lanes_keys_are_paged(x)) {
        const char *slots = lanes_size(x, keys->slots);
        tile_set(t, "page", "%s[%s, j / %s]", lanes_tensor(x, keys->table), line, slots);
        tile_if(t, "page >= 0 && page < %s", lanes_size(x, keys->pages));
        move_all(x, sides, from, tile_text(t, "page, h, j %% %s", slots));
        tile_end(t);
    } else {
        move_all(x, sides, from, tile_text(t, "%s, h, j", line));
    }
    tile_end(t);
    tile_end(t);
}

/* ---- the kernels */

static void list_arguments(Lanes *x)
{
    AuTileBuild *t = x->t;
    const AuAttn *a = x->p->attn;
    if (x->p->by_slots) {
        tile_arg(t, "slots", TILE_IN, "i64[m:%s, n:%s]", new_size(x, AU_NEW_BATCH),
                 new_size(x, AU_SLOTS_ROWS));
        return;
    }
    const AuRowLayout *keys = &a->keys;
    const uint32_t lists[] = {keys->layout && !keys->has_no_lengths ? keys->lengths : 0,
                              lanes_keys_are_paged(x) ? keys->table : 0,
                              keys->has_rows ? keys->rows : 0,
                              queries_are_packed(x) ? a->queries.starts : 0};
    for (uint32_t n = 0; n < sizeof lists / sizeof *lists; n++)
        if (lists[n])
            tile_arg(t, lanes_tensor(x, lists[n]), TILE_IN, "%s", lanes_type(x, "i32", lists[n]));
}

/* What row mods read. */
static void mod_arguments(Lanes *x)
{
    const AuAttn *a = x->p->attn;
    const bool *read = hooks_read_by_mods(x->arena, a);
    if (!a->rows_are_new) return;
    for (uint32_t n = 3; n < a->tensor_count; n++)
        if (read[n])
            tile_arg(x->t, lanes_tensor(x, n), TILE_IN, "%s", lanes_type(x, lanes_elem(x, n), n));
    lanes_param_arguments(x);
}

static void kernel(Lanes *x, const char *name, const Sides *sides)
{
    AuTileBuild *t = x->t;
    const bool by_slots = x->p->by_slots;
    const int32_t turns = x->shape->rows, executors = x->shape->executors, rows = turns * executors;
    const char *heads = lanes_axis(x, sides->at[0].n, 1);
    tile_kernel(t, name);
    for (uint32_t n = 0; n < sides->count; n++) arguments(x, &sides->at[n]);
    list_arguments(x);
    mod_arguments(x);
    const char *blocks =
        tile_text(t, "some: cdiv(%s * %s, %d)", new_size(x, AU_NEW_ROWS), heads, rows);
    if (!by_slots && queries_are_packed(x))
        tile_grid(t, "%s", blocks);
    else
        tile_grid(t, "%s, %s: %s", blocks, by_slots ? "m" : "b", new_size(x, AU_NEW_BATCH));
    tile_role(t, "core", executors > 1 ? executors : 0, lanes_executor(x), 0);
    for (uint32_t n = 0; n < sides->count; n++) {
        const LanesAppended *s = &sides->at[n];
        if (lanes_appends_parts(x, s))
            lanes_append_fragments(x, s);
        else
            tile_frag(t, tile_text(t, "row_%s", s->cache), "%s[%s:%d] @ row_of_%s",
                      is_input(s) ? lanes_elem(x, s->n) : x->operand, s->axis, lanes_width(x, s),
                      s->cache);
    }
    if (turns > 1) tile_for_range(t, "turn", "0", tile_text(t, "%d", turns));
    tile_set(t, "row", "some * %d%s%s", rows,
             turns > 1 ? tile_text(t, " + turn * %d", executors) : "",
             executors > 1 ? " + self" : "");
    tile_set(t, "n", "row / %s", heads);
    tile_set(t, "h", "row %% %s", heads);
    if (by_slots)
        to_slots(x, sides);
    else
        to_the_end(x, sides);
    if (turns > 1) tile_end(t);
    tile_end(t);
    tile_end(t);
}

/* Keys and values of as many heads are moved together. */
static void kernels(Lanes *x)
{
    const AuAttn *a = x->p->attn;
    const LanesAppended k = side_of(x, 1), v = side_of(x, 2);
    layout(x, &k);
    if (!a->v_in_k) layout(x, &v);
    if (a->v_in_k)
        kernel(x, "keys", &(Sides){{k}, 1});
    else if (a->tensors[1].axes[1].i == a->tensors[2].axes[1].i)
        kernel(x, "rows", &(Sides){{k, v}, 2});
    else {
        kernel(x, "keys", &(Sides){{k}, 1});
        kernel(x, "values", &(Sides){{v}, 1});
    }
    for (uint32_t n = 3; n < a->tensor_count; n++) {
        if (!a->tensors[n].as_keys) continue;
        const LanesAppended rows = side_of(x, n);
        layout(x, &rows);
        kernel(x, tile_text(x->t, "rows_of_%u", n), &(Sides){{rows}, 1});
    }
}

/* ---- the shape: a warp has a row; a thread has so many in turn. Lanes that exchange by way of memory meet for that, and not all executors
 * of a block come by there. */

const char *schedule_lanes_append_fit(AuArena *arena, const AuProblem *p, AuShape *s)
{
    if (!has_warps(p) && s->executors > 1)
        return au_format(arena, "%d executors where a block has one", s->executors);
    return s->executors * p->caps->lanes > p->caps->threads && s->executors > 1
               ? au_format(arena, "%d lanes of a block, of which there are %d",
                           s->executors * p->caps->lanes, p->caps->threads)
               : NULL;
}

bool schedule_lanes_append_shape(AuArena *arena, const AuProblem *p, AuShape *s, const char **why)
{
    *s = (AuShape){.executors = has_warps(p) ? 4 : 1, .rows = p->caps->has_private ? 32 : 1};
    *why = schedule_lanes_append_fit(arena, p, s);
    return !*why;
}

AuSchedule *schedule_lanes_append(AuArena *arena, AuDiags *diags, const AuProblem *p,
                                  const AuShape *shape)
{
    AuSchedule *out = schedule_new(arena, diags, p, "lanes_append", shape, NULL);
    Lanes x = lanes_begin(arena, schedule_begin(arena, diags, p, out), p, out);
    kernels(&x);
    return lanes_built(&x, diags);
}
