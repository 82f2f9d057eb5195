/* linear_warps_channels.c - gradients of decays a channel: the kernel `chunks`, which makes of the state S before a chunk, the
 * gradient T of that behind it and the pairs A, all kept by kernels before it, what the rows of the chunk get. Chunks do not wait for each
 * other: a block each.
 *
 *     pairs      R = dO (w V)'                                                                 16 readers and 16 writers a warp       barrier
 *     strips     gradients of queries, keys and decays (linear_warps_channels_strip.c)         16 channels of keys a warp             barrier
 *     values     dV = w ((K until) T + A' dO)                                                  16 rows and some columns a warp
 *     slots      queries, then keys, then what a bonus gets, through one memory, and decays    some rows a warp, channels along the lanes
 *
 * With feedback `key` U and y are kept, too: U stands where w V stands, there are pairs of keys, and values get y w:
 *
 *     pairs      R = dO U',  Z = e y U',  and of the strengths y U' A(k, k)
 *
 * With feedback `own` all that is there without feedback is, and more: linear_warps_own_back.c. */
#include "linear_warps_channels.h"

enum { UNIT = CHANNELS_UNIT };

/* Strips of channels, one after another where they are more than warps. Gradients of keys then lie in memory beside those of queries; else
 * they wait in registers until those have gone through their slots. */
static int32_t strips_of(const LinearBack *b) { return b->w.d / UNIT; }
static bool keeps_both(const LinearBack *b) { return strips_of(b) > b->w.l.x.shape->executors; }

/* ---- memories and fragments */

/* With feedback `own`, where queries read behind their token: that. */
static bool has_same(const LinearBack *b) { return b->is_own && !b->w.l.n->before; }

static void ones(LinearBack *b, const char *name, int32_t rows, int32_t columns)
{
    tile_shared(b->w.l.x.t, name, "bf16[u:%d, t:%d] swizzle 32", rows, columns);
}

static void memories(LinearBack *b)
{
    LinearWarps *w = &b->w;
    Linear *l = &w->l;
    const int32_t c = l->chunk;
    lw_memories(w);
    lw_given_memory(w);
    if (b->is_fed) {
        warps_tile(&l->x, TILE_NAME("Uh"), "e", w->e, "kv", c, 1);
        warps_tile(&l->x, TILE_NAME("Yh"), "e", w->e, "kv", c, 1);
        warps_tile(&l->x, TILE_NAME("Z"), "q", c, "kv", c, 1);
        warps_tile(&l->x, TILE_NAME("NearZ"), "q", CHANNELS_NEAR * c, "kv", UNIT, 1);
    } else {
        warps_tile(&l->x, TILE_NAME("T"), "d", w->d, "e", w->e, 1);
        warps_tile(&l->x, TILE_NAME("P"), "q", c, "kv", c, 1);
    }
    channels_own_memories(b);
    warps_tile(&l->x, TILE_NAME("R"), "q", c, "kv", c, 1);
    warps_tile(&l->x, TILE_NAME("Near"), "q", CHANNELS_NEAR * c, "kv", UNIT, 1);
    tile_shared(l->x.t, "Own", "f32[q:%d]", c);
    tile_shared(l->x.t, "G", "f32[kv:%d, d:%d]", c, w->d + LINEAR_ROW_GAP);
    tile_shared(l->x.t, "Made", "f32[p:%d, kv:%d, d:%d]",
                keeps_both(b) ? 2 + channels_has_bonus(b) + 2 * b->is_own : 1, c,
                w->d + LINEAR_ROW_GAP);
    if (b->has_rates) {
        ones(b, "Spans", CHANNELS_NEAR * UNIT, UNIT);
        ones(b, "Behind", c, c);
        ones(b, "Before", c, c);
        if (has_same(b)) ones(b, "Same", UNIT, UNIT);
    }
    lw_gates_memories(b);
    tile_barrier(l->x.t, "all", 0, l->x.shape->executors);
}

static void fragments(LinearBack *b)
{
    LinearWarps *w = &b->w;
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const char *atom = l->x.atom->name;
    tile_frag(t, "dscore", "f32[q:%d, kv:%d] @ %s.C", UNIT, UNIT, atom);
    if (channels_is_weighed(b)) tile_frag(t, "strength_of_pair", "f32[kv:%d] like dscore", UNIT);
    if (b->is_fed) {
        tile_frag(t, "key_pair", "%s[q:%d, kv:%d] like dscore", l->x.operand, UNIT, UNIT);
        tile_frag(t, "erase", "f32[q:%d] like dscore", UNIT);
        tile_frag(t, "no_erase", "f32[kv:%d] @ along_lanes = 0.0", UNIT);
        lw_written_declare(b);
    }
    channels_strip_declare(b);
    if (!b->is_fed) tile_frag(t, "dvalue", "f32[kv:%d, e:%d] @ %s.C", UNIT, b->value_columns, atom);
    if (channels_is_weighed(b)) tile_frag(t, "strength_of_value", "f32[kv:%d] like dvalue", UNIT);
    tile_frag(t, "row_dx", "f32[d:%d, kv:%d] @ across_d", w->d, lw_slot_rows(w));
    lw_vector_declare_rows(w);
    if (l->n->decay == AU_DECAY_CONSTANT) lin_rate(l);
    lw_declare(w);
}

/* ---- tiles of ones: [u, t], does what token u makes count for the log decay of token t? */

static void store_ones(LinearBack *b, const char *condition, const char *to, int32_t rows,
                       int32_t columns)
{
    AuTileBuild *t = b->w.l.x.t;
    tile_set(t, "u", "iota(u:%d)", rows);
    tile_set(t, "of_t", "iota(t:%d)", columns);
    tile_frag(t, "one", "f32[u:%d, t:%d] @ %s.C = 1.0", rows, columns, b->w.l.x.atom->name);
    tile_store(t, "bf16(where(%s, one, 0.0)) -> %s", condition, to);
}

/* By a warp each, as far as there are warps. */
static void make_ones(LinearBack *b)
{
    AuTileBuild *t = b->w.l.x.t;
    const int32_t c = b->w.l.chunk, warps = b->w.l.x.shape->executors;
    const char *behind = channels_is_before(b) ? "u > of_t" : "u >= of_t";
    if (!b->has_rates) return;
    for (int32_t n = 0; n < CHANNELS_NEAR; n++) {
        tile_if(t, "self == %d", n % warps);
        store_ones(b,
                   tile_text(t, "u / %d == of_t / %d && where((of_t & %d) != 0, %s, u < of_t)",
                             1 << n, 1 << n, 1 << n, behind),
                   tile_text(t, "Spans[%d +: %d, :]", n * UNIT, UNIT), UNIT, UNIT);
        tile_end(t);
    }
    for (int32_t n = 0; n < 2; n++) {
        tile_if(t, "self == %d", (CHANNELS_NEAR + n) % warps);
        store_ones(b, n ? "u < of_t" : behind, n ? "Before" : "Behind", c, c);
        tile_end(t);
    }
    if (!has_same(b)) return;
    tile_if(t, "self == %d", (CHANNELS_NEAR + 2) % warps);
    store_ones(b, "u == of_t", "Same", UNIT, UNIT);
    tile_end(t);
}

/* ---- copies */

static void bring(LinearBack *b)
{
    LinearWarps *w = &b->w;
    lw_issue(w, "chunk", "");
    lw_issue_given(w, "chunk", "");
    if (b->is_fed) {
        lw_issue_kept(w, "tt", "updates", "Uh", w->e);
        lw_issue_kept(w, "tp", "solutions", "Yh", w->e);
    } else {
        lw_issue_kept(w, "tt", "dstates", "T", w->d);
        lw_issue_kept(w, "tp", "kept_pairs", "P", w->l.chunk);
    }
    channels_own_issue(b);
    make_ones(b);
    lw_vector_sums(w);
    lw_wait(w);
    warps_wait(&w->l.x, "td");
    lw_change(w);
    lw_numbers(w);
    warps_wait(&w->l.x, "tt");
    warps_wait(&w->l.x, "tp");
    channels_own_wait(b);
}

/* ---- gradients of pairs, R: 16 readers and 16 writers a warp */

/* Of [dscore], those of each level to its rows of [memory]. */
static void near_levels(LinearBack *b, const char *memory, const char *rows)
{
    AuTileBuild *t = b->w.l.x.t;
    tile_set(t, "i", "iota(q:%d)", UNIT);
    tile_set(t, "j", "iota(kv:%d)", UNIT);
    for (int32_t n = 0; n < CHANNELS_NEAR; n++)
        tile_store(t,
                   "%s(where((i & %d) != 0 && i / %d == j / %d + 1, dscore, 0.0)) -> %s[%d + %s "
                   "+: %d, :]",
                   b->w.l.x.operand, 1 << n, 1 << n, 1 << n, memory, n * b->w.l.chunk, rows, UNIT);
}

static void near_pairs(LinearBack *b, const ChannelsPairs *kind, const char *rows)
{
    AuTileBuild *t = b->w.l.x.t;
    near_levels(b, kind->near, rows);
    if (!kind->own) return;
    tile_set(t, "of_own", "reduce_sum(where(i == j, dscore, 0.0), kv)");
    tile_store(t, "of_own -> %s[%s +: %d]", kind->own, rows, UNIT);
}

/* Of keys with keys before, Z; what strengths of erasing have of them, a sum a group of writers. */
static void key_pairs(LinearBack *b, const char *rows, const char *columns, const char *group,
                      const char *on_diagonal)
{
    LinearWarps *w = &b->w;
    AuTileBuild *t = w->l.x.t;
    tile_product(t, "dscore", w->l.x.atom, TILE_START,
                 tile_text(t, "Yh[:, %s +: %d] as [e, q]", rows, UNIT),
                 tile_text(t, "Uh[:, %s +: %d]", columns, UNIT));
    tile_load(t, "key_pair", "key_pairs[b, h, place, %s +: %d, %s +: %d]", rows, UNIT, columns,
              UNIT);
    tile_load(t, "erase", "E[%s +: %d] as [q]", rows, UNIT);
    tile_set(
        t, "of_erase",
        "reduce_sum(where(%s + iota(kv:%d) < %s + iota(q:%d), dscore * f32(key_pair), 0.0), kv)",
        columns, UNIT, rows, UNIT);
    tile_store(t, "of_erase -> Erases[%s, %s +: %d] as [q]", group, rows, UNIT);
    tile_set(t, "dscore", "dscore * -erase");
    tile_store(t, "%s(dscore) -> Z[%s +: %d, %s +: %d]", w->l.x.operand, rows, UNIT, columns, UNIT);
    tile_if(t, "%s", on_diagonal);
    near_levels(b, "NearZ", rows);
    tile_end(t);
}

static void pairs_of_kind(LinearBack *b, const ChannelsPairs *kind, const char *rows,
                          const char *columns, const char *on_diagonal)
{
    LinearWarps *w = &b->w;
    AuTileBuild *t = w->l.x.t;
    tile_product(t, "dscore", w->l.x.atom, TILE_START,
                 kind->of_solution ? tile_text(t, "Yh[:, %s +: %d] as [e, q]", rows, UNIT)
                                   : tile_text(t, "D[%s +: %d, :]", rows, UNIT),
                 b->is_fed || !kind->of_values ? tile_text(t, "Uh[:, %s +: %d]", columns, UNIT)
                                               : tile_text(t, "V[%s +: %d, :]", columns, UNIT));
    if (channels_is_weighed(b) && kind->of_values) {
        tile_load(t, "strength_of_pair", "W[%s +: %d]", columns, UNIT);
        tile_set(t, "dscore", "dscore * strength_of_pair");
    }
    tile_store(t, "%s(dscore) -> %s[%s +: %d, %s +: %d]", w->l.x.operand, kind->memory, rows, UNIT,
               columns, UNIT);
    tile_if(t, "%s", on_diagonal);
    near_pairs(b, kind, rows);
    tile_end(t);
}

/* Warps that have the same rows and columns. */
static int32_t makers_of(const LinearBack *b)
{
    const int32_t groups = channels_groups(b),
                  copies = b->w.l.x.shape->executors / (groups * groups);
    return copies < 1 ? 1 : copies < channels_kinds(b) ? copies : channels_kinds(b);
}

static void pairs(LinearBack *b)
{
    LinearWarps *w = &b->w;
    AuTileBuild *t = w->l.x.t;
    const int32_t groups = channels_groups(b), warps = w->l.x.shape->executors,
                  all = groups * groups, makers = makers_of(b), kinds = channels_kinds(b);
    const char *unit = all > warps  ? tile_text(t, "(turn_R * %d + self)", warps)
                       : makers > 1 ? tile_text(t, "(self %% %d)", all)
                                    : "self",
               *rows = tile_text(t, "%s / %d * %d", unit, groups, UNIT),
               *group = tile_text(t, "%s %% %d", unit, groups),
               *columns = tile_text(t, "%s * %d", group, UNIT),
               *on_diagonal = tile_text(t, "%s == %s / %d", group, unit, groups);
    if (all > warps)
        tile_for_range(t, "turn_R", "0", tile_text(t, "%d", (all + warps - 1) / warps));
    tile_if(t, "%s < %d && %s %% %d <= %s / %d", unit, all, unit, groups, unit, groups);
    for (int32_t n = 0; n < kinds; n++) {
        if (makers > 1) tile_if(t, "self / %d == %d", all, n % makers);
        pairs_of_kind(b, channels_kind(n), rows, columns, on_diagonal);
        if (makers > 1) tile_end(t);
    }
    if (b->is_fed) {
        key_pairs(b, rows, columns, group, on_diagonal);
        tile_else(t);
        tile_if(t, "%s < %d", unit, all);
        tile_store(t, "no_erase -> Erases[%s, %s +: %d]", group, rows, UNIT);
        tile_end(t);
    }
    tile_end(t);
    if (all > warps) tile_end(t);
}

/* ---- a chunk */

/* What stands until end_strip is for a strip of the warp's. */
static ChannelsStrip begin_strip(LinearBack *b)
{
    AuTileBuild *t = b->w.l.x.t;
    const int32_t strips = strips_of(b), warps = b->w.l.x.shape->executors;
    const char *unit = "self";
    if (strips > warps) {
        tile_for_range(t, "turn_S", "0", tile_text(t, "%d", (strips + warps - 1) / warps));
        unit = tile_text(t, "(turn_S * %d + self)", warps);
    }
    if (strips % warps) tile_if(t, "%s < %d", unit, strips);
    return (ChannelsStrip){unit, tile_text(t, "%s * %d +: %d", unit, UNIT, UNIT),
                           tile_text(t, "%s * %d", unit, UNIT)};
}

static void end_strip(LinearBack *b)
{
    const int32_t strips = strips_of(b), warps = b->w.l.x.shape->executors;
    if (strips % warps) tile_end(b->w.l.x.t);
    if (strips > warps) tile_end(b->w.l.x.t);
}

static void store_made(LinearBack *b, const ChannelsStrip *s, const char *name, int32_t to)
{
    AuTileBuild *t = b->w.l.x.t;
    for (int32_t g = 0; g < channels_groups(b); g++)
        tile_store(t, "%s -> Made[%d, %s, %s] as [q, d]", channels_numbered(b, name, g), to,
                   channels_tokens(b, g), s->channels);
}

/* With feedback `own`. */
static const struct {
    AuSlot slot;
    const char *gradient;
} own_rows[] = {{AU_SLOT_READS, "dx"}, {AU_SLOT_WRITES, "db"}};
enum { OWN_ROWS = sizeof own_rows / sizeof *own_rows };

static void strips(LinearBack *b)
{
    const ChannelsStrip s = begin_strip(b);
    channels_strip_back(b, &s);
    if (keeps_both(b)) store_made(b, &s, "dk", 1);
    if (keeps_both(b) && channels_has_bonus(b)) store_made(b, &s, "dbonus", 2);
    for (uint32_t n = 0; keeps_both(b) && b->is_own && n < OWN_ROWS; n++)
        store_made(b, &s, own_rows[n].gradient, 2 + (int32_t)n);
    end_strip(b);
}

static void rows_of_slot(LinearBack *b, AuSlot slot, const char *rows, const char *memory)
{
    tile_load(b->w.l.x.t, "row_dx", "%s%s, 0 +: %d]", memory, rows, b->w.d);
    lw_gradient(b, slot, "row_dx", "row_dx");
}

static void queries_back(LinearBack *b)
{
    const char *rows = lw_begin_rows(b);
    tile_set(b->w.l.x.t, "c_d", "iota(d:%d)", b->w.d);
    rows_of_slot(b, AU_SLOT_Q, rows, "Made[0, ");
    tile_end(b->w.l.x.t);
}

/* A number a token at most gets the sum over all channels. */
static void rates_back(LinearBack *b, const char *rows)
{
    Linear *l = &b->w.l;
    AuTileBuild *t = l->x.t;
    const LinearRows r = lin_rows(l, AU_SLOT_LOG_DECAY);
    if (l->n->decay == AU_DECAY_VECTOR) {
        rows_of_slot(b, AU_SLOT_LOG_DECAY, rows, "G[");
        return;
    }
    tile_load(t, "row_dx", "G[%s, 0 +: %d]", rows, b->w.d);
    tile_set(t, "dg_of_token", "reduce_sum(row_dx, d)");
    lin_rows_back_of(l, &r, "row_dx", "dg_of_token");
}

static void keys_back(LinearBack *b)
{
    const char *rows = lw_begin_rows(b);
    rows_of_slot(b, AU_SLOT_K, rows, keeps_both(b) ? "Made[1, " : "Made[0, ");
    if (b->has_rates) rates_back(b, rows);
    lw_gates_back(b);
    tile_end(b->w.l.x.t);
}

/* Of values, 16 rows and some columns a warp. */
static void values_back(LinearBack *b)
{
    LinearWarps *w = &b->w;
    AuTileBuild *t = w->l.x.t;
    b->rows = 0;
    b->part.rows = tile_text(t, "first + %s +: %d", lw_row(w), UNIT);
    tile_if(t, "self < %d",
            w->row_groups * b->parts); /* all, perhaps: `t` here is its own, no rows' */
    tile_set(t, "t", "first + %s + iota(kv:%d)", lw_row(w), UNIT);
    tile_set(t, "c", "%s + iota(e:%d)", lw_value_column(b), b->value_columns);
    lw_values_back(b);
    tile_end(t);
}

/* What has waited in registers, where the memory is free again. */
static void share_made(LinearBack *b, const char *name)
{
    AuTileBuild *t = b->w.l.x.t;
    if (!keeps_both(b)) {
        tile_sync(t, "all");
        const ChannelsStrip s = begin_strip(b);
        store_made(b, &s, name, 0);
        end_strip(b);
    }
    tile_sync(t, "all");
}

/* Of another slot, as keys are; [place] in memory where that has all. */
static void others_back(LinearBack *b, AuSlot slot, const char *gradient, int32_t place)
{
    AuTileBuild *t = b->w.l.x.t;
    if (!keeps_both(b)) share_made(b, gradient);
    const char *rows = lw_begin_rows(b);
    rows_of_slot(b, slot, rows, tile_text(t, "Made[%d, ", keeps_both(b) ? place : 0));
    tile_end(t);
}

static void chunk(LinearBack *b)
{
    AuTileBuild *t = b->w.l.x.t;
    lw_place_of_states(&b->w, "place", "chunk");
    bring(b);
    tile_sync(t, "all");
    pairs(b);
    tile_sync(t, "all");
    strips(b);
    tile_sync(t, "all");
    b->is_fed ? lw_written_back(b) : values_back(b);
    queries_back(b);
    share_made(b, "dk");
    keys_back(b);
    if (channels_has_bonus(b)) others_back(b, AU_SLOT_BONUS, "dbonus", 2);
    for (uint32_t n = 0; b->is_own && n < OWN_ROWS; n++)
        others_back(b, own_rows[n].slot, own_rows[n].gradient, 2 + (int32_t)n);
}

void lw_channels_kernel(LinearBack *b)
{
    LinearWarps *w = &b->w;
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    lin_back_arguments(l, "chunks", false);
    lw_states_argument(w, TILE_IN);
    lw_kept_argument(w, "dstates", TILE_IN, false);
    if (b->is_fed) {
        lw_key_pairs_argument(w, TILE_IN);
        lw_kept_argument(w, "updates", TILE_IN, true);
        lw_kept_argument(w, "solutions", TILE_IN, true);
    } else
        lw_pairs_argument(w, lw_kept(LINEAR_KEPT_PAIRS), TILE_IN);
    channels_own_arguments(b);
    lw_numbers_argument(w, TILE_IN);
    lw_given_argument(w, TILE_IN);
    lw_chunks_grid(w);
    if (b->blocks > 1) tile_resident(t, b->blocks);
    memories(b);
    tile_role(t, "core", l->x.shape->executors, TILE_ON_WARP, 0);
    lin_name_heads(l);
    lw_find_chunk(w);
    tile_set(t, "vb", "0");
    fragments(b);
    b->part = (LinearPart){NULL, tile_text(t, "0 +: %d", w->d),
                           tile_text(t, "%s +: %d", lw_value_column(b), b->value_columns)};
    l->of_warps = &b->part;
    lw_begin_chunk(w);
    chunk(b);
    for (uint32_t n = 0; n < 3; n++) tile_end(t);
}
