/* forward_parts.c - what forward kernels of all schedules have in common: arguments, tiles of keys, scores, the online
 * function, results. Schedules differ in layouts, memories and the order of copies and barriers. */
#include "key_layout.h"
#include "key_storage.h"

#include <string.h>

int32_t schedule_row_sharers(const AuShape *s) { return s->column_parts > 1 ? s->column_parts : 1; }

int32_t schedule_key_groups(const AuShape *s)
{
    return s->keys_apart ? s->executors / schedule_row_sharers(s) : 1;
}

const char *lanes_group(Lanes *x)
{
    const int32_t sharers = schedule_row_sharers(x->shape);
    return sharers > 1 ? tile_text(x->t, "self / %d", sharers) : "self";
}

const char *lanes_first_row(Lanes *x)
{
    if (x->on_cpu || x->shape->keys_apart) return tile_text(x->t, "mb * %d", x->block);
    return tile_text(x->t, "mb * %d + %s * %d", x->block, lanes_group(x), x->rows);
}

const char *lanes_modified_query(Lanes *x, const char *row)
{
    const char *rounded = tile_text(x->t, "%s(q_mod(f32(raw), b, h, %s, 0, c))", x->operand, row);
    return strcmp(x->held, x->operand) ? tile_text(x->t, "%s(%s)", x->held, rounded) : rounded;
}

int32_t lanes_keys(const Lanes *x)
{
    const int32_t parts = x->key_parts ? x->key_parts : schedule_key_groups(x->shape);
    return lanes_piece(x, x->shape->key_tile) / parts;
}

/* ---- pieces of a tile */

int32_t schedule_piece(const AuShape *s, int32_t rows)
{
    return s->pair_rows && rows % s->pair_rows == 0 ? s->pair_rows : rows;
}

int32_t lanes_piece(const Lanes *x, int32_t rows) { return schedule_piece(x->shape, rows); }

void lanes_begin_pieces(Lanes *x, int32_t rows)
{
    const int32_t piece = lanes_piece(x, rows);
    if (piece < rows) tile_for_range(x->t, "piece", "0", tile_text(x->t, "%d", rows / piece));
}

void lanes_end_pieces(Lanes *x, int32_t rows)
{
    if (lanes_piece(x, rows) < rows) tile_end(x->t);
}

const char *lanes_columns_of(Lanes *x, int32_t rows, const char *tile, const char *columns)
{
    const int32_t piece = lanes_piece(x, rows);
    if (piece == rows) return tile_text(x->t, "%s[:, %s]", tile, columns);
    return tile_text(x->t, "%s[piece * %d +: %d, %s]", tile, piece, piece, columns);
}

const char *lanes_piece_of(Lanes *x, int32_t rows, const char *tile)
{
    return lanes_piece(x, rows) == rows ? tile : lanes_columns_of(x, rows, tile, ":");
}

const char *lanes_states_called(Lanes *x, const char *name)
{
    AuText text = {.arena = x->arena};
    for (uint32_t n = 0; n < x->p->hooks->state_count; n++) au_text_add(&text, ", %s%u", name, n);
    return au_text_str(&text);
}

const char *lanes_states(Lanes *x) { return lanes_states_called(x, "state"); }

/* ---- further products of score_mod: dot(x[.., q_idx], y[.., kv_idx]) */

uint32_t lanes_dot_tensor(const AuProblem *p, uint32_t n, bool key_side)
{
    const AuNode *dot = attn_at(p->attn, p->hooks->dots[n]);
    return (uint32_t)(key_side ? dot->integer2 : dot->integer);
}

int32_t lanes_dot_width(const AuProblem *p, uint32_t n)
{
    AuAttn *a = p->attn;
    const AuTensor *t = &a->tensors[lanes_dot_tensor(p, n, false)];
    return (int32_t)hooks_expr(p->hooks, a, t->axes[t->rank - 1])->integer;
}

const char *lanes_dot_refusal(AuArena *arena, const AuProblem *p, int32_t unit)
{
    for (uint32_t n = 0; n < p->hooks->dot_count; n++) {
        if (lanes_dot_width(p, n) % unit)
            return au_format(arena, "a further product of width %d, no multiple of %d",
                             lanes_dot_width(p, n), unit);
        for (int side = 0; side < 2; side++)
            if (p->attn->tensors[lanes_dot_tensor(p, n, side)].dtype != AU_DT_OPERAND)
                return "a further product of tensors that have another type than q and k";
    }
    return NULL;
}

/* ---- the kernel's parts, in the order of its text */

/* Blocks begin in the order of the grid. With a mask their work differs: the longest of all heads begin first and the
 * shortest fill what is left at the end, where head after head the last one's longest blocks would begin late. (Longest
 * processing time first, Graham 1969.) An entry of the batch after the other, whose heads share the L2. */
void lanes_grid_by_work(Lanes *x, const char *block, const char *blocks, const char *head,
                        const char *heads, const char *batch)
{
    if (x->longest_first)
        tile_grid(x->t, "%s: %s, %s: %s, b: %s", head, heads, block, blocks, batch);
    else
        tile_grid(x->t, "%s: %s, %s: %s, b: %s", block, blocks, head, heads, batch);
}

/* Where a head's blocks come back to the same rows of memory again and again, all heads at once are too many for the second cache: so many
 * heads as it holds are a section, and the longest of a section begin first. The last section may have fewer. */
void lanes_grid_by_sections(Lanes *x, const char *block, const char *blocks, const char *head,
                            const char *heads, const char *batch, const char *section)
{
    AuTileBuild *t = x->t;
    if (!x->longest_first) {
        lanes_grid_by_work(x, block, blocks, head, heads, batch);
        return;
    }
    tile_grid(t, "at: %s * (%s), b: %s", heads, blocks, batch);
    tile_let(t, "section", "clamp(%s, 1, max(%s, 1))", section, heads);
    tile_let(t, "section_head", "at / (section * (%s)) * section", blocks);
    tile_let(t, "section_heads", "min(section, %s - section_head)", heads);
    tile_let(t, "section_at", "at - section_head * (%s)", blocks);
    tile_let(t, head, "section_head + section_at %% section_heads");
    tile_let(t, block, "section_at / section_heads");
}

void lanes_key_heads(Lanes *x)
{
    static const char *const names[] = {"hk", "hv"};
    for (uint32_t n = 0; n < (x->own_v ? 2u : 1u); n++)
        tile_let(x->t, names[n], "h / (%s / %s)", lanes_axis(x, 0, 1), lanes_axis(x, n + 1, 1));
}

const char *lanes_groups(Lanes *x)
{
    if (!schedule_has_value_heads(x->p->attn)) return lanes_axis(x, 1, 1);
    return tile_text(x->t, "max(%s, %s)", lanes_axis(x, 1, 1), lanes_axis(x, 2, 1));
}

const char *lanes_heads_of_group(Lanes *x)
{
    return tile_text(x->t, "(%s / %s)", lanes_axis(x, 0, 1), lanes_groups(x));
}

const char *lanes_group_name(const Lanes *x)
{
    return schedule_has_value_heads(x->p->attn) ? "hs" : "hk";
}

void lanes_let_heads_of_keys(Lanes *x)
{
    static const char *const names[] = {"hk", "hv"};
    if (!schedule_has_value_heads(x->p->attn)) {
        if (x->own_v) tile_let(x->t, "hv", "hk");
        return;
    }
    for (uint32_t n = 0; n < 2; n++)
        tile_let(x->t, names[n], "hs / (%s / %s)", lanes_groups(x), lanes_axis(x, n + 1, 1));
}

/* What is kept for gradients is given where there are any. */
static bool gives_final(const Lanes *x, uint32_t n)
{
    return x->p->grads || !x->p->attn->online->finals[n].kept;
}

void lanes_result_arguments(Lanes *x)
{
    AuTileBuild *t = x->t;
    AuAttn *a = x->p->attn;
    const char *s = lanes_axis(x, 0, 2), *heads = lanes_axis(x, 0, 1),
               *batch = lanes_row_batch(x, LANES_QUERIES);
    tile_arg(t, "o", TILE_OUT, "%s[b:%s, h:%s, q:%s, e:%d]", x->operand, batch, heads, s, x->p->e);
    if (lanes_keeps_output(x))
        tile_arg(t, "o_kept", TILE_OUT, "%s[b:%s, h:%s, q:%s, e:%d]", x->operand, batch, heads, s,
                 x->p->e);
    for (uint32_t f = 0; f < a->online->final_count; f++)
        if (gives_final(x, f))
            tile_arg(t, tile_text(t, "final_%s", a->online->finals[f].name), TILE_OUT,
                     "f32[b:%s, h:%s, q:%s]", batch, heads, s);
}

void lanes_part_arguments(Lanes *x, const char *parts)
{
    AuTileBuild *t = x->t;
    const char *rows =
        tile_text(t, "f32[%sb:%s, h:%s, q:%s", parts ? tile_text(t, "part:%s, ", parts) : "",
                  lanes_row_batch(x, LANES_QUERIES), lanes_axis(x, 0, 1), lanes_axis(x, 0, 2));
    const char *suffix = parts ? "_parts" : "";
    const AuTileMode how = parts ? TILE_IN : TILE_OUT;
    tile_arg(t, tile_text(t, "part_acc%s", suffix), how, "%s, e:%d]", rows, x->p->e);
    for (uint32_t n = 0; n < x->p->hooks->state_count; n++)
        tile_arg(t, tile_text(t, "part_%u%s", n, suffix), how, "%s]", rows);
}

void lanes_written_arguments(Lanes *x)
{
    if (x->p->unfinished)
        lanes_part_arguments(x, NULL);
    else
        lanes_result_arguments(x);
}

/* Of packed queries: blocks that there are, in the list's order. */
static void grid_of_items(Lanes *x, const char *head, const char *heads)
{
    const char *items = lanes_work_blocks(x, LANES_QUERIES);
    const int32_t pieces = lanes_item_rows(x, LANES_QUERIES) / x->block;
    if (x->only == LANES_SHORT)
        tile_grid(x->t, "piece: %d, item: %s, %s: %s", LANES_SHORT_ROWS / x->block, items, head,
                  heads);
    else if (x->longest_first)
        tile_grid(x->t, "%s: %s, item: %s", head, heads, items);
    else
        tile_grid(x->t, "item: %s, %s: %s", items, head, heads);
    lanes_let_work(x, LANES_QUERIES);
    if (x->only == LANES_SHORT)
        tile_let(x->t, "mb", "turn * %d + piece", pieces);
    else if (x->longest_first)
        tile_let(x->t, "mb", "cdiv(q_length, %d) - 1 - turn", x->block);
    else
        tile_let(x->t, "mb", "turn");
}

void lanes_forward_head_of(Lanes *x, const char *head)
{
    AuTileBuild *t = x->t;
    const char *s = lanes_axis(x, 0, 2), *heads = lanes_axis(x, 0, 1), *batch = lanes_axis(x, 0, 0);
    tile_kernel(t, x->only == LANES_SHORT ? "short" : "forward");
    lanes_arguments(x);
    lanes_changed_arguments(x, 0);
    if (x->p->hooks->needs_lists) lanes_list_arguments(x);
    if (lanes_is_packed(x, LANES_QUERIES)) lanes_work_argument(x, LANES_QUERIES);
    lanes_written_arguments(x);
    if (lanes_is_packed(x, LANES_QUERIES)) {
        grid_of_items(x, head, heads);
    } else {
        const char *blocks = tile_text(t, "cdiv(%s, %d)", s, x->block);
        lanes_grid_by_work(x, x->longest_first ? "turn" : "mb", blocks, head, heads, batch);
        if (x->longest_first) tile_let(t, "mb", "%s - 1 - turn", blocks);
        lanes_let_key_length(x);
    }
}

void lanes_forward_head(Lanes *x)
{
    lanes_forward_head_of(x, "h");
    lanes_key_heads(x);
}

void lanes_key_tiles(Lanes *x, AuTileHow how)
{
    AuTileBuild *t = x->t;
    if (x->p->hooks->needs_lists) {
        tile_let(t, "k_low, k_high, k_full_low, k_full_high", "%s",
                 lanes_range_of_rows(x, x->block));
        lanes_list_segments(x, "keys", "", "h", "mb");
        return;
    }
    lanes_key_bounds(x);
    tile_list(t, "keys");
    const bool down = how == TILE_DOWN;
    tile_segment(t, "partial", how, down ? "n_high" : "n_low", down ? "f_high" : "f_low");
    tile_segment(t, "full", how, down ? "f_high" : "f_low", down ? "f_low" : "f_high");
    tile_segment(t, "partial", how, down ? "f_low" : "f_high", down ? "n_low" : "n_high");
}

void lanes_mask_scores(Lanes *x)
{
    tile_set(x->t, "score", "where(j < %s%s, score, -inf)", lanes_key_end(x),
             x->p->hooks->has_mask ? " && mask(b, h, i, j)" : "");
}

/* In tiles of a segment that may be cut, or of those where one is. */
static void mask_cut_tiles(Lanes *x, const char *tile)
{
    AuTileBuild *t = x->t;
    const int32_t keys = x->shape->key_tile;
    tile_on_segment(t, "partial");
    if (x->rows_know_cuts) {
        tile_set(t, "cut", "uncut_low > %s * %d || uncut_high < %s * %d + %d", tile, keys, tile,
                 keys, keys);
        tile_if(t, "anywhere(cut)");
    }
    lanes_mask_scores(x);
    if (x->rows_know_cuts) tile_end(t);
    tile_end(t);
}

void lanes_scores_of(Lanes *x, const char *tile, AuLanesMasked masked)
{
    AuTileBuild *t = x->t;
    const int32_t keys = x->shape->key_tile, own = lanes_keys(x);
    const char *part = x->key_parts                  ? tile_text(t, "self %% %d", x->key_parts)
                       : lanes_piece(x, keys) < keys ? "piece"
                                                     : lanes_group(x);
    tile_set(t, "j", "%s * %d%s + iota(kv:%d)", tile, keys,
             own < keys ? tile_text(t, " + %s * %d", part, own) : "", own);
    lanes_scale_scores(x);
    if (x->p->attn->score_mod.i) {
        AuText dots = {.arena = x->arena};
        for (uint32_t n = 0; n < x->p->hooks->dot_count; n++) au_text_add(&dots, ", dot%u", n);
        tile_set(t, "score", "score_mod(score, b, h, i, j%s)", au_text_str(&dots));
    }
    if (masked == LANES_MASK_PARTIAL)
        mask_cut_tiles(x, tile);
    else if (masked != LANES_MASK_NOWHERE)
        lanes_mask_scores(x);
}

void lanes_scores(Lanes *x) { lanes_scores_of(x, "n", LANES_MASK_PARTIAL); }

void lanes_online(Lanes *x)
{
    const AuHooks *h = x->p->hooks;
    const char *states = lanes_states(x);
    tile_set(x->t, tile_text(x->t, "p%s%s", h->has_scale ? ", scale" : "", states),
             "online_fwd(score, b, h, i%s)", states);
    if (h->has_weight_mod) tile_set(x->t, "p", "weight_mod(p, score, b, h, i, j)");
    lanes_scale_weights(x);
}

/* Most tiles of long rows have no larger maximum than those before: where no row of a warp has one, the factors are 1. */
void lanes_scale_sums(Lanes *x)
{
    AuTileBuild *t = x->t;
    if (!x->p->hooks->has_scale) return;
    if (x->shape->grown) {
        tile_set(t, "grown", "scale != 1.0");
        tile_if(t, "anywhere(grown)");
    }
    tile_set(t, "acc", "acc * scale");
    if (x->shape->grown) tile_end(t);
}

const char *lanes_weights(Lanes *x)
{
    AuTileBuild *t = x->t;
    lanes_online(x);
    lanes_scale_sums(x);
    if (strcmp(x->held, "f32") == 0) return "p";
    if (x->weights_scaled)
        tile_set(t, "weight", "%s(p * %s)", x->held, LANES_WEIGHT_FACTOR);
    else
        tile_set(t, "weight", "%s(p)", x->held);
    return "weight";
}

bool lanes_keeps_output(const Lanes *x) { return x->p->grads && x->p->grads->keeps_output; }

void lanes_end_of(Lanes *x, const char *sums, const char *h, const char *i, const char *states)
{
    const AuOnline *online = x->p->attn->online;
    AuText names = {.arena = x->arena};
    au_text_add(&names, "out");
    for (uint32_t n = 0; n < online->final_count; n++) au_text_add(&names, ", final%u", n);
    tile_set(x->t, au_text_str(&names), "online_end(%s, b, %s, %s%s)", sums, h, i, states);
}

void lanes_end(Lanes *x, const char *sums) { lanes_end_of(x, sums, "h", "i", lanes_states(x)); }

void lanes_results(Lanes *x)
{
    AuTileBuild *t = x->t;
    lanes_end(x, "acc");
    if (x->p->hooks->has_out_mod) {
        if (lanes_keeps_output(x))
            tile_store(t, "%s(out) -> o_kept[%s, :] clip", x->operand, lanes_query_place(x));
        tile_set(t, "ce", "iota(e:%d)", x->p->e);
        if (x->p->hooks->asks_for_pairs) /* the last state is the flag */
            tile_set(t, "out", "out_mod(out, b, h, i, 0, ce, state%u)",
                     x->p->hooks->state_count - 1);
        else
            tile_set(t, "out", "out_mod(out, b, h, i, 0, ce)");
    }
}

static void store_finals(Lanes *x, const char *place, const char *how)
{
    const AuOnline *online = x->p->attn->online;
    for (uint32_t n = 0; n < online->final_count; n++)
        if (gives_final(x, n))
            tile_store(x->t, "final%u -> final_%s[%s] %s", n, online->finals[n].name, place, how);
}

void lanes_store_finals_at(Lanes *x, const char *place) { store_finals(x, place, "clip"); }

void lanes_store_finals_when(Lanes *x, const char *place, const char *when)
{
    store_finals(x, place, tile_text(x->t, "as [q] when %s", when));
}

void lanes_store_finals(Lanes *x) { lanes_store_finals_at(x, lanes_query_place(x)); }

void lanes_store_zeros(Lanes *x, const char *place, const char *columns)
{
    tile_store(x->t, "%s(acc) -> o[%s, %s] clip", x->operand, place, columns);
    if (lanes_keeps_output(x))
        tile_store(x->t, "%s(acc) -> o_kept[%s, %s] clip", x->operand, place, columns);
}

void lanes_store_rest(Lanes *x, const char *place)
{
    lanes_store_zeros(x, place, ":");
    lanes_store_finals_at(x, place);
}

void lanes_store_part(Lanes *x, const char *place)
{
    AuTileBuild *t = x->t;
    tile_store(t, "acc -> part_acc[%s, :] clip", place);
    for (uint32_t n = 0; n < x->p->hooks->state_count; n++)
        tile_store(t, "state%u -> part_%u[%s] clip", n, n, place);
}

void lanes_part_regions(Lanes *x, const char *name)
{
    lanes_region(x, tile_text(x->t, "%s_acc", name));
    for (uint32_t n = 0; n < x->p->hooks->state_count; n++)
        lanes_region(x, tile_text(x->t, "%s_state%u", name, n));
}

const char *lanes_part_place(Lanes *x)
{
    return tile_text(x->t, "part, b, h, %s +: %d", lanes_first_row(x), x->rows);
}

void lanes_join_part(Lanes *x, const char *acc, const char *state, const char *at)
{
    AuTileBuild *t = x->t;
    const char *states = lanes_states(x), *pad = x->block > 1 ? " pad 0" : "";
    const char *rows = tile_text(t, "[%s", at);
    tile_load(t, "further", "%s%s, :]%s", acc, rows, pad);
    for (uint32_t n = 0; n < x->p->hooks->state_count; n++)
        tile_load(t, tile_numbered(t, "other", n), "%s%s] like row_like%s", tile_text(t, state, n),
                  rows, pad);
    tile_set(t, tile_text(t, "before, behind%s", states), "online_join(b, h, i%s%s)", states,
             lanes_states_called(x, "other"));
    tile_set(t, "acc", "acc * before + further * behind");
}

void lanes_declare_rows(Lanes *x)
{
    tile_frag(x->t, "row_like", "f32[q:%d] like score = 0.0", x->rows);
    tile_set(x->t, "i", "%s + iota(q:%d)", lanes_first_row(x), x->rows);
}

void lanes_begin_states(Lanes *x)
{
    if (x->p->hooks->state_count)
        tile_set(x->t, lanes_states(x) + 2, "online_init(row_like, b, h, i)");
}

/* ---- the module */

AuSchedule *lanes_forward_built(Lanes *x, AuDiags *diags, void (*kernel)(Lanes *x))
{
    lanes_work_kernels(x);
    for (uint32_t n = 0; n < 3; n++) lanes_rows_kernel(x, n);
    if (x->p->hooks->needs_lists && !schedule_packs_rows(x->p)) lanes_list_kernels(x);
    kernel(x);
    lanes_rest_kernel(x);
    lanes_lines_kernel(x);
    return lanes_built(x, diags);
}

AuSchedule *lanes_built(Lanes *x, AuDiags *diags)
{
    AuSchedule *out = x->out;
    if (x->too_many) {
        au_error(diags, AU_E0811, x->p->attn->span,
                 "more than %d regions of workspace, of which each input with a gradient takes one",
                 AULE_MAX_REGIONS);
        return NULL;
    }
    out->written = tile_built(x->t);
    if (!out->written) return NULL;
    const AuTileModule *hooks[2] = {hooks_common(x->arena, diags), x->p->hooks->module};
    if (!hooks[0]) return NULL;
    out->module =
        tile_expand(x->arena, diags, out->written,
                    &(AuTileExpansion){.hooks = hooks, .hook_count = 2, .called = &out->called});
    return out->module && tile_verify(diags, out->module, TILE_ALL_RULES) ? out : NULL;
}
