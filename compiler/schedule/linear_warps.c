/* linear_warps.c - recurrences forward, on the matrix units of a warp (mma.sync), by products over chunks of tokens:
 *
 *     A = Q K'   [q, kv], times what is kept between writer and reader, 0 where the reader does not see the writer
 *     O = (Q S) kept since the chunk's start + A V        S = S kept over the chunk + (K kept until its end)' V
 *
 * The state is the sums of its own product, f32, from the first chunk to the last; as an operand it lies in shared memory, rounded, made
 * anew for each chunk. A is made in the registers in which the next product takes it. Factors of rows and of columns are applied to sums;
 * what a writer keeps until the chunk's end is applied to its key as an operand. */
#include "linear_warps.h"

bool lw_has_output(const LinearWarps *w) { return !w->keeps_states && !w->makes_ends; }

/* "self % 4 * 16": which of the executors' parts, of that size; written where it is used, so that it is seen to be a multiple. */
const char *lw_begins(LinearWarps *w, const char *part, int32_t parts, int32_t size)
{
    if (parts == 1) return "0";
    return tile_text(w->l.x.t, "%s * %d", part, size);
}

static const char *part_of(LinearWarps *w, int32_t groups)
{
    return groups == w->l.x.shape->executors ? "self" : tile_text(w->l.x.t, "self %% %d", groups);
}

/* Of the chunk's rows and the output's columns. */
const char *lw_row(LinearWarps *w)
{
    return lw_begins(w, part_of(w, w->row_groups), w->row_groups, LINEAR_ROWS);
}

/* Of the state. */
const char *lw_state_row(LinearWarps *w)
{
    return lw_begins(w, part_of(w, w->state_groups), w->state_groups, w->channels);
}

const char *lw_state_column(LinearWarps *w)
{
    return lw_begins(w, tile_text(w->l.x.t, "self / %d", w->state_groups), w->e / w->columns,
                     w->columns);
}

/* Of the state each warp keeps some rows, 16 bytes a lane, where these are whole turns of its lanes; else what lies in its registers. */
static bool keeps_rows(const LinearWarps *w)
{
    const AuShape *s = w->l.x.shape;
    return w->keeps_states && w->d % (s->executors * linear_warps_rows_at_once(w->l.x.p, s)) == 0;
}

/* Does the state pass through memory, as an operand or to be kept by whole rows? */
static bool shares_state(const LinearWarps *w)
{
    return lw_has_output(w) || lw_is_fed(w) || keeps_rows(w);
}

/* Does what q reads take the norm's sums, too? */
static bool has_sums(const LinearWarps *w) { return w->l.has_norm && lw_has_output(w); }

static void memories(LinearWarps *w)
{
    Linear *l = &w->l;
    const int32_t warps = l->x.shape->executors;
    lw_memories(w);
    if (shares_state(w)) warps_tile(&l->x, TILE_NAME("S"), "d", w->d, "e", w->e, 1);
    if (lw_has_pairs(w))
        warps_tile(&l->x, TILE_NAME("P"), "q",
                   lw_shares_pairs(w) || w->has_decayed ? l->chunk : LINEAR_ROWS * warps, "kv",
                   l->chunk, w->has_decayed ? l->x.shape->stages : 1);
    else if (lw_kept_of_chain(w))
        warps_tile(&l->x, TILE_NAME(lw_kept_of_chain(w)->memory), "q", l->chunk, "kv", l->chunk,
                   l->x.shape->stages);
    if (has_sums(w)) tile_shared(l->x.t, "Sums", "f32[d:%d]", w->d);
    if (lw_is_fed(w)) lw_key_memories(w);
    if (lw_inverts(w)) lw_inverse_memories(w);
    if (lw_by_channel(w)) lw_vector_memories(w);
    tile_barrier(l->x.t, "all", 0, warps);
}

/* What follows is for warps that have a part of the state. */
void lw_begin_state(LinearWarps *w)
{
    if (w->holders < w->l.x.shape->executors) tile_if(w->l.x.t, "self < %d", w->holders);
}

void lw_end_state(LinearWarps *w)
{
    if (w->holders < w->l.x.shape->executors) tile_end(w->l.x.t);
}

static const char *state_view(LinearWarps *w, const char *tensor)
{
    return tile_text(w->l.x.t, "%s[n, h, %s +: %d, vb * %d + %s +: %d]", tensor, lw_state_row(w),
                     w->channels, w->e, lw_state_column(w), w->columns);
}

static const char *sum_view(LinearWarps *w, const char *tensor)
{
    return tile_text(w->l.x.t, "%s[n, h, %s +: %d]", tensor, lw_state_row(w), w->channels);
}

static void fragments(LinearWarps *w)
{
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const char *atom = l->x.atom->name;
    const bool scalar = lw_decay(w) == AU_DECAY_SCALAR;
    tile_frag(t, "state", "f32[d:%d, e:%d] @ %s.C = 0.0", w->channels, w->columns, atom);
    tile_frag(t, "key", "%s[d:%d, kv:%d] @ %s.A", l->x.operand, w->channels, l->chunk, atom);
    if (!lw_by_channel(w))
        tile_frag(t, "score", "f32[q:%d, kv:%d] @ %s.C", LINEAR_ROWS, l->chunk, atom);
    tile_frag(t, "acc", "f32[q:%d, e:%d] @ %s.C", LINEAR_ROWS, w->out_columns, atom);
    if (scalar) {
        tile_frag(t, "since", "f32[q:%d] like score", LINEAR_ROWS);
        tile_frag(t, "at_writer", "f32[kv:%d] like score", l->chunk);
        tile_frag(t, "until", "f32[kv:%d] like key", l->chunk);
    }
    if (lw_has_strength(w)) {
        if (!lw_by_channel(w)) tile_frag(t, "strength_of_pair", "f32[kv:%d] like score", l->chunk);
        tile_frag(t, "strength_of_key", "f32[kv:%d] like key", l->chunk);
    }
    if (l->has_norm) tile_frag(t, "sum_state", "f32[d:%d] like key = 0.0", w->channels);
    if (has_sums(w)) {
        tile_frag(t, "query_part", "%s[q:%d, d:%d] @ %s.C", l->x.operand, LINEAR_ROWS, LINEAR_ROWS,
                  atom);
        tile_frag(t, "sum_part", "f32[d:%d] like query_part", LINEAR_ROWS);
        tile_frag(t, "sum_pairs", "f32[q:%d, d:%d] @ %s.C = 0.0", LINEAR_ROWS, LINEAR_ROWS, atom);
    }
    if (lin_has(l, AU_SLOT_SKIP)) {
        const AuExpr held = l->slots[AU_SLOT_SKIP].held;
        tile_frag(t, "raw_skip", "%s[q:%d, e:%d] like acc%s", held.i ? lin_elem(l, held) : "f32",
                  LINEAR_ROWS, w->out_columns, held.i ? "" : " = 0.0");
    }
    if (l->n->decay == AU_DECAY_CONSTANT) lin_rate(l);
    if (lw_by_channel(w)) lw_vector_declare(w);
    if (lw_is_fed(w)) lw_key_declare(w);
    if (w->keeps_states && shares_state(w)) lw_keep_declare(w);
    if (lw_inverts(w)) lw_inverse_declare(w);
    lw_declare(w);
}

static void load_states(LinearWarps *w)
{
    if (w->makes_ends) {
        lw_begin_end(w);
        return;
    }
    lw_begin_state(w);
    tile_load(w->l.x.t, "state", "%s pad 0", state_view(w, "state_in"));
    if (w->l.segments) lw_load_end(w);
    if (w->l.has_norm) tile_load(w->l.x.t, "sum_state", "%s pad 0", sum_view(w, "sum_in"));
    lw_end_state(w);
}

/* ---- a chunk */

/* The state, as operand. */
static void share_state(LinearWarps *w)
{
    AuTileBuild *t = w->l.x.t;
    if (w->keeps_states && w->l.has_norm) lw_keep_sums(w);
    if (w->keeps_states && !shares_state(w))
        tile_store(t, "%s(state) -> states[b, h, place, %s +: %d, vb * %d + %s +: %d] clip",
                   w->l.x.operand, lw_state_row(w), w->channels, w->e, lw_state_column(w),
                   w->columns);
    if (!shares_state(w)) return;
    tile_store(t, "%s(state) -> S[%s +: %d, %s +: %d]", w->l.x.operand, lw_state_row(w),
               w->channels, lw_state_column(w), w->columns);
    if (!has_sums(w)) return;
    tile_if(t, "%s == 0", lw_state_column(w));
    tile_store(t, "sum_state -> Sums[%s +: %d]", lw_state_row(w), w->channels);
    tile_end(t);
}

static const char *out_rows(LinearWarps *w)
{
    return tile_text(w->l.x.t, "first + %s +: %d", lw_row(w), LINEAR_ROWS);
}

static void add_skip(LinearWarps *w)
{
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const AuHookSlot *s = &l->slots[AU_SLOT_SKIP];
    const char *first = tile_text(t, "vb * %d + %s", w->e, lw_out_column(w));
    if (lw_has_tensor(w, s->held))
        tile_load(t, "raw_skip", "V[%s%s +: %d, %s +: %d] as [q, e]", warps_stage(&l->x, false),
                  lw_row(w), LINEAR_ROWS, lw_out_column(w), w->out_columns);
    else if (s->held.i)
        tile_load(t, "raw_skip", "%s pad 0",
                  lin_view(l, s->held, "q", "e", lin_columns(l, s->held, first, w->out_columns),
                           out_rows(w)));
    if (s->name)
        tile_set(t, "skipped", "%s(f32(raw_skip), b, h, first + i, %s + iota(e:%d))", s->name,
                 first, w->out_columns);
    else
        tile_set(t, "skipped", "f32(raw_skip)");
    tile_set(t, "acc", "acc + skipped");
}

static void store_output(LinearWarps *w)
{
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    if (l->has_norm) tile_set(t, "acc", "acc / norms");
    if (lin_has(l, AU_SLOT_SKIP)) add_skip(w);
    if (l->x.p->hooks->has_out_mod)
        tile_set(t, "acc", "out_mod(acc, b, h, first + i, 0, iota(e:%d))", w->out_columns);
    tile_store(t, "%s(acc) -> o[b, h, %s from start to end, vb * %d + %s +: %d] clip", l->x.operand,
               out_rows(w), w->e, lw_out_column(w), w->out_columns);
}

static void write_state(LinearWarps *w)
{
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const char *kept = "", *strength = "", *whole = "", *of_sums = "";
    tile_load(t, "key", "K[%s:, %s +: %d]", warps_stage(&l->x, false), lw_state_row(w),
              w->channels);
    if (lw_decay(w) == AU_DECAY_SCALAR) {
        tile_load(t, "until", "G[%d +: %d]", w->has_since, l->chunk);
        tile_load(t, "total", "G[%d]", w->has_since + l->chunk - 1);
        kept = "exp(total - until)", whole = of_sums = " * exp(total)";
    } else if (lw_decay(w) == AU_DECAY_CONSTANT) {
        kept = "exp(f32(max(count - 1 - j, 0)) * rate)",
        whole = of_sums = " * exp(f32(count) * rate)";
    } else if (lw_by_channel(w)) {
        if (!w->has_decayed)
            tile_load(t, "whole", "G[%d, %s +: %d]", l->chunk - 1, lw_state_row(w), w->channels);
        whole = of_sums = " * exp2(whole)";
        if (l->has_norm) {
            tile_load(t, "whole_of_key", "G[%d, %s +: %d]", l->chunk - 1, lw_state_row(w),
                      w->channels);
            of_sums = " * exp2(whole_of_key)";
        }
    }
    if (lw_has_strength(w)) {
        tile_load(t, "strength_of_key", "W");
        strength = "strength_of_key";
    }
    if (w->keeps_written) kept = ""; /* of what is written */
    /* a factor a token first, which several channels have */
    if (*kept || *strength)
        tile_set(t, "key", "%s(f32(key) * (%s%s%s))", l->x.operand, kept,
                 *kept && *strength ? " * " : "", strength);
    if (*whole) tile_set(t, "state", "state%s", whole);
    if (w->makes_ends) lw_pass_chunk(w);
    if (l->has_norm) tile_set(t, "sum_state", "sum_state%s + reduce_sum(f32(key), kv)", of_sums);
    if (lw_is_own(w)) lw_begin_values(w);
    lw_add_written(w, "state", "key", tile_text(t, "%s +: %d", lw_state_column(w), w->columns));
    if (lw_is_own(w)) {
        lw_end_values(w);
        lw_own_write(w);
    }
}

/* Between two barriers everything that others wrote is read; in front of them each warp writes what is its own. */
static void chunk(LinearWarps *w)
{
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const bool ahead = warps_are_async(&l->x), two = l->x.shape->stages > 1;
    if (lw_decay(w) == AU_DECAY_CONSTANT) lin_count(l);
    if (w->keeps_states || w->has_decayed) lw_place_of_states(w, "place", "chunk");
    if (w->has_decayed) lw_load_total(w);
    if (!ahead) lw_issue(w, "chunk", "");
    lw_wait(w);
    lw_change(w);
    lw_numbers(w);
    if (lw_by_channel(w) && !w->has_decayed) lw_vector_sums(w);
    lw_begin_state(w);
    share_state(w);
    lw_end_state(w);
    tile_sync(t, "all");
    if (two) lw_issue(w, "chunk + 1", warps_stage(&l->x, true));
    if (w->keeps_states && shares_state(w)) lw_keep_rows(w, "S", "states");
    if (lw_by_channel(w) && !w->has_decayed) {
        lw_vector_make(w);
        tile_sync(t, "all");
    }
    if (lw_is_fed(w)) {
        if (lw_inverts(w)) lw_inverse_make(w);
        lw_key_solve(w);
        tile_sync(t, "all");
    }
    if (lw_has_output(w)) {
        lw_output(w);
        store_output(w);
    }
    lw_begin_state(w);
    write_state(w);
    lw_end_state(w);
    tile_sync(t, "all");
    if (ahead && !two) lw_issue(w, "chunk + 1", "");
    if (two) tile_set(t, "at", "1 - at");
}

static void store_states(LinearWarps *w)
{
    AuTileBuild *t = w->l.x.t;
    if (w->makes_ends) {
        lw_store_end(w);
        return;
    }
    if (w->l.segments) tile_if(t, "segment == last_segment");
    tile_store(t, "state -> %s clip", state_view(w, "state_out"));
    if (w->l.segments) tile_end(t);
    if (!w->l.has_norm) return;
    tile_if(t, "vb == 0 && %s == 0", lw_state_column(w));
    tile_store(t, "sum_state -> %s clip", sum_view(w, "sum_out"));
    tile_end(t);
}

static void chunks(LinearWarps *w)
{
    Linear *l = &w->l;
    if (!l->segments) {
        lin_chunks(l);
        return;
    }
    tile_for_range(l->x.t, "chunk", "first_chunk", "end_chunk");
    tile_set(l->x.t, "first", "start + chunk * %d", l->chunk);
}

void lw_forward_kernel(LinearWarps *w)
{
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    w->keeps_states ? lw_states_head(w) : w->makes_ends ? lw_ends_head(w) : lin_head(l);
    if (l->segments && !w->makes_ends) lw_ends_argument(w, TILE_IN);
    lw_numbers_argument(w, TILE_IN);
    if (lw_is_fed(w) && !lw_inverts(w)) lw_inverses_argument(w, TILE_IN);
    lw_rows_arguments(w);
    if (w->has_decayed) lw_totals_argument(w, TILE_IN);
    if (lw_kept_of_chain(w)) lw_pairs_argument(w, lw_kept_of_chain(w), TILE_IN);
    memories(w);
    tile_role(t, "core", l->x.shape->executors, TILE_ON_WARP, 0);
    if (l->segments) lw_begin_segment(w);
    lin_find_sequence(l);
    lin_name_heads(l);
    if (l->segments) lw_find_segment(w);
    tile_set(t, "i", "%s + iota(q:%d)", lw_row(w), LINEAR_ROWS);
    tile_set(t, "j", "iota(kv:%d)", l->chunk);
    fragments(w);
    load_states(w);
    if (l->x.shape->stages > 1) tile_set(t, "at", "0");
    if (warps_are_async(&l->x))
        lw_issue(w, l->segments ? "first_chunk" : "0", warps_stage(&l->x, false));
    chunks(w);
    chunk(w);
    tile_end(t);
    lw_wait(w);
    lw_begin_state(w);
    if (!w->keeps_states || w->in_two) store_states(w);
    lw_end_state(w);
    tile_end(t);
    tile_end(t);
    l->names_heads = false; /* in the kernels behind */
}

LinearWarps lw_begin(AuArena *arena, AuTileBuild *t, const AuProblem *p, AuSchedule *out,
                     const AuShape *s)
{
    LinearWarps w = {.l = lin_begin(arena, t, p, out)};
    w.l.x.shape = s;
    w.l.x.atom = warps_atom(p);
    w.l.x.via_shared = warps_sums_lie_apart(p);
    w.l.spread = w.l.chunk;
    w.l.columns = w.e = s->query_tile;
    w.d = linear_warps_channels(p);
    w.row_groups = linear_warps_row_groups(s);
    w.out_columns = w.e / (s->executors / w.row_groups);
    w.state_groups = linear_warps_state_groups(p, s);
    w.channels = w.d / w.state_groups;
    w.columns = w.e / s->column_parts;
    w.holders = w.state_groups * s->column_parts;
    w.share = w.l.chunk / s->executors;
    w.solved = linear_warps_solved(s);
    w.has_since = w.l.n->before;
    w.l.stores_reads = lin_needs_output(&w.l);
    w.l.in_parts = true;
    return w;
}

void lw_layouts(LinearWarps *w)
{
    const int32_t power = w->l.chunk & -w->l.chunk, lanes = w->l.x.p->caps->lanes;
    tile_layout(w->l.x.t, "along_lanes",
                tile_text(w->l.x.t, "lane:%d@1", power < lanes ? power : lanes), NULL);
    warps_across(&w->l.x, "across_d", w->d);
    warps_across(&w->l.x, "across_e", w->e);
    if (lw_is_fed(w))
        tile_layout(w->l.x.t, "a_column_a_lane", "reg",
                    tile_text(w->l.x.t, "lane:%d@1", LINEAR_ROWS));
    if (lw_by_channel(w)) lw_vector_layouts(w);
}

AuSchedule *schedule_linear_warps(AuArena *arena, AuDiags *diags, const AuProblem *p,
                                  const AuShape *shape)
{
    AuSchedule *out = schedule_new(arena, diags, p, "linear_warps", shape, NULL);
    AuTileBuild *t = schedule_begin(arena, diags, p, out);
    tile_set_option(t, "late_strides", 1);
    LinearWarps w = lw_begin(arena, t, p, out, &out->shape);
    lw_layouts(&w);
    lw_numbers_kernel(&w);
    if (linear_warps_is_in_two(arena, p, shape)) {
        lw_two_kernels(arena, t, p, out, &w);
        return lanes_built(&w.l.x, diags);
    }
    w.has_decayed = linear_warps_rows_apart(p);
    if (w.has_decayed) lw_make_pairs(arena, t, p, out, &out->shape, false);
    w.has_rows = lw_is_fed(&w) && !lw_by_channel(&w);
    if (w.has_rows) lw_inverse_kernel(arena, t, p, out, true);
    if (lw_takes_segments(&w)) w.l.segments = lw_segments(&w);
    lw_segment_kernels(&w);
    lw_forward_kernel(&w);
    return lanes_built(&w.l.x, diags);
}
