/* linear_warps_segments.c - long sequences where heads are few: a sequence is cut into segments of as many chunks each, so that there is a
 * block for each processor. The state before a segment is what the segments before it make of the sequence's own:
 *
 *     ends      the state that a segment makes of none, and what it keeps of one: `spans`, the sum of its log decays; with feedback T, its
 *               matrix, S -> T S, which the recurrence makes of the identity, without values, as if that were more columns of values
 *     chain     from segment to segment: ends[s] = what is kept of ends[s - 1] + ends[s], from the state passed in on
 *     forward   each segment from the state that is then there
 *
 * One segment is the forward alone: the others have no blocks. */
#include "linear_warps.h"

enum {
    PROCESSORS = 128, /* of the machines that this is for; no size of a call says it */
    CHUNKS = 8,       /* of a segment at least: less is lost in launches */
    FEWEST = 3,       /* segments: two cost what they save */
    CHAIN_WARPS = 2,
    CHAIN_ROWS = 8, /* of the state, a warp */
    CHAIN_COLUMNS =
        16, /* of a block, with feedback: blocks are few, and each waits for the segment before */
    MOST_WARPS = 16 /* of a chain with feedback, 16 rows each */
};

/* Norms have a state more; with feedback sums have to be operands where they are, and with feedback `key` where decays are a channel's the
 * forward makes the inverse together with what queries read. */
bool lw_takes_segments(const LinearWarps *w)
{
    if (w->l.has_norm) return false;
    if (lw_inverts(w) && !lw_is_own(w)) return false;
    return !lw_is_fed(w) || (!w->l.x.via_shared && w->d <= MOST_WARPS * LINEAR_ROWS);
}

static int32_t strips(int32_t width, const LinearWarps *w) { return (width + w->e - 1) / w->e; }

static int32_t value_strips(const LinearWarps *w) { return strips(w->l.x.p->e, w); }

/* Those of T, behind those of values. */
static int32_t all_strips(const LinearWarps *w)
{
    return value_strips(w) + (lw_is_fed(w) ? strips(w->d, w) : 0);
}

/* As many as there are processors for, by the sizes of a call. */
const char *lw_segments(LinearWarps *w)
{
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const char *most =
        tile_text(t, "min(cdiv(%s, %d) / %d, %d / max(%s * %s * %d, 1))", l->tokens, l->chunk,
                  CHUNKS, PROCESSORS * linear_warps_blocks(l->x.p, l->x.shape),
                  lanes_axis(&l->x, 0, 0), l->heads, value_strips(w));
    return tile_text(t, "max(%s * min(%s / %d, 1), 1)", most, most, FEWEST);
}

static const char *count(LinearWarps *w) { return w->l.segments; }

static bool has_spans(const LinearWarps *w)
{
    return !lw_is_fed(w) && (w->l.n->decay == AU_DECAY_SCALAR || w->l.n->decay == AU_DECAY_VECTOR);
}

/* Of all sequences together: the last segment of each has no place, and they do not overlap. */
static const char *axes(LinearWarps *w)
{
    Linear *l = &w->l;
    return tile_text(l->x.t, "b:%s, n:%s - 1, h:%s", lanes_axis(&l->x, 0, 0), count(w), l->heads);
}

void lw_ends_argument(LinearWarps *w, AuTileMode mode)
{
    tile_arg(w->l.x.t, "ends", mode, "f32[%s, d:%d, e:%d]", axes(w), w->d, all_strips(w) * w->e);
}

static void arguments(LinearWarps *w, AuTileMode mode)
{
    lw_ends_argument(w, mode);
    if (has_spans(w))
        tile_arg(w->l.x.t, "spans", mode, "f32[%s%s]", axes(w),
                 lw_by_channel(w) ? tile_text(w->l.x.t, ", d:%d", w->d) : "");
}

void lw_ends_head(LinearWarps *w)
{
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    lin_begin_kernel(l, "ends");
    arguments(w, TILE_INOUT);
    tile_grid(t, "strip: %d, h: %s, ns: %s * (%s - 1)", all_strips(w), l->heads, lin_sequences(l),
              count(w));
}

/* Of the block: the sequence `n`, its segment. */
void lw_begin_segment(LinearWarps *w)
{
    AuTileBuild *t = w->l.x.t;
    const char *in_grid = tile_text(t, w->makes_ends ? "(%s - 1)" : "%s", count(w));
    tile_set(t, "n", "ns / max(%s, 1)", in_grid);
    tile_set(t, "segment", "ns %% max(%s, 1)", in_grid);
    if (w->makes_ends) tile_set(t, "vb", "min(strip, %d)", value_strips(w) - 1);
}

/* Of the sequence: the number of its last segment, and where in the workspace its first one is. */
static void find_segments(LinearWarps *w)
{
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    tile_set(t, "per_segment", "max(cdiv(cdiv(%s, %d), %s), 1)", l->tokens, l->chunk, count(w));
    tile_set(t, "last_segment", "max(cdiv(cdiv(length, %d), per_segment) - 1, 0)", l->chunk);
    tile_set(t, "place_of_segments", "start / (per_segment * %d)", l->chunk);
}

/* The chunks of the block's: none of a segment that is not there, or of the last one where ends are made. */
void lw_find_segment(LinearWarps *w)
{
    AuTileBuild *t = w->l.x.t;
    find_segments(w);
    tile_set(t, "first_chunk", "segment * per_segment");
    tile_set(t, "end_chunk", "where(segment %s last_segment, min(cdiv(length, %d), %s), %s)",
             w->makes_ends ? "<" : "<=", w->l.chunk, "first_chunk + per_segment", "first_chunk");
}

static const char *end_view(LinearWarps *w, const char *segment, const char *strip)
{
    return tile_text(w->l.x.t, "ends[b, place_of_segments + %s, h, %s +: %d, %s * %d + %s +: %d]",
                     segment, lw_state_row(w), w->channels, strip, w->e, lw_state_column(w),
                     w->columns);
}

/* What the state begins as where it is no sequence's. */
void lw_load_end(LinearWarps *w)
{
    AuTileBuild *t = w->l.x.t;
    tile_if(t, "segment > 0 && segment <= last_segment");
    tile_load(t, "state", "%s", end_view(w, "segment - 1", "vb"));
    tile_end(t);
}

/* Nothing; of a strip behind those of values, columns of the identity. */
void lw_begin_end(LinearWarps *w)
{
    AuTileBuild *t = w->l.x.t;
    if (lw_is_fed(w))
        tile_set(
            t, "state", "where(%s + iota(d:%d) == (strip - %d) * %d + %s + iota(e:%d), 1.0, 0.0)",
            lw_state_row(w), w->channels, value_strips(w), w->e, lw_state_column(w), w->columns);
    if (!has_spans(w)) return;
    if (lw_by_channel(w))
        tile_frag(t, "passed", "f32[d:%d] like state = 0.0", w->channels);
    else
        tile_set(t, "passed", "0.0");
}

void lw_pass_chunk(LinearWarps *w)
{
    if (has_spans(w))
        tile_set(w->l.x.t, "passed", "passed + %s", lw_by_channel(w) ? "whole" : "total");
}

/* What stands between is for strips of values: T is made without them. */
void lw_begin_values(LinearWarps *w)
{
    if (w->makes_ends) tile_if(w->l.x.t, "strip < %d", value_strips(w));
}

void lw_end_values(LinearWarps *w)
{
    if (w->makes_ends) tile_end(w->l.x.t);
}

/* The same of values that are part of a sum. */
const char *lw_values_of_end(LinearWarps *w, const char *values)
{
    if (!w->makes_ends) return values;
    return tile_text(w->l.x.t, "where(strip < %d, %s, 0.0)", value_strips(w), values);
}

void lw_store_end(LinearWarps *w)
{
    AuTileBuild *t = w->l.x.t;
    tile_if(t, "segment < last_segment");
    tile_store(t, "state -> %s", end_view(w, "segment", "strip"));
    if (has_spans(w)) {
        tile_if(t, "strip == 0 && %s == 0", lw_by_channel(w) ? lw_state_column(w) : "self");
        if (lw_by_channel(w))
            tile_store(t, "passed -> spans[b, place_of_segments + segment, h, %s +: %d]",
                       lw_state_row(w), w->channels);
        else
            tile_store(t, "passed -> spans[b, place_of_segments + segment, h]");
        tile_end(t);
    }
    tile_end(t);
}

/* ---- the chain */

static void chain_head(LinearWarps *w, const char *blocks)
{
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    lin_begin_kernel(l, "chain");
    tile_arg(t, "state_in", TILE_IN, "f32[b:%s, h:%s, d:%d, e:%d]", lin_sequences(l), l->heads,
             l->x.p->d, l->x.p->e);
    arguments(w, TILE_INOUT);
    tile_grid(t, "%s, h: %s, n: %s * min(%s - 1, 1)", blocks, l->heads, lin_sequences(l), count(w));
}

static void begin_chain(LinearWarps *w, int32_t warps)
{
    tile_role(w->l.x.t, "core", warps, TILE_ON_WARP, 0);
    lin_find_sequence(&w->l);
    find_segments(w);
}

/* What segments keep of a row of the state: a factor. */
static const char *factor(LinearWarps *w, const char *rows)
{
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    if (l->n->decay == AU_DECAY_NONE) return "";
    if (l->n->decay == AU_DECAY_CONSTANT)
        return tile_text(t, " * exp(f32(per_segment * %d) * rate)", l->chunk);
    tile_load(t, "span", "spans[b, place_of_segments + s, h%s]",
              lw_by_channel(w) ? tile_text(t, ", %s", rows) : "");
    return lw_by_channel(w) ? " * exp2(span)" : " * exp(span)";
}

/* Rows of the state, a warp some of them. */
static void chain_of_rows(LinearWarps *w)
{
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const int32_t rows_of_block = CHAIN_WARPS * CHAIN_ROWS, n = value_strips(w);
    chain_head(w, tile_text(t, "part: %d", w->d / rows_of_block * n));
    begin_chain(w, CHAIN_WARPS);
    const char *rows =
        tile_text(t, "part / %d * %d + self * %d +: %d", n, rows_of_block, CHAIN_ROWS, CHAIN_ROWS);
    const char *columns = tile_text(t, "part %% %d * %d +: %d", n, w->e, w->e),
               *view = tile_text(t, "ends[b, place_of_segments + s, h, %s, %s]", rows, columns);
    tile_frag(t, "carried", "f32[e:%d, d:%d] @ across_e", w->e, CHAIN_ROWS);
    tile_frag(t, "end_state", "f32[e:%d, d:%d] like carried", w->e, CHAIN_ROWS);
    if (lw_by_channel(w)) tile_frag(t, "span", "f32[d:%d] like carried", CHAIN_ROWS);
    if (l->n->decay == AU_DECAY_CONSTANT) lin_rate(l);
    tile_load(t, "carried", "state_in[n, h, %s, %s] pad 0", rows, columns);
    tile_for_range(t, "s", "0", "last_segment");
    tile_load(t, "end_state", "%s", view);
    tile_set(t, "carried", "carried%s + end_state", factor(w, rows));
    lin_meet(l); /* narrow strips are in several lanes */
    tile_store(t, "carried -> %s", view);
    for (uint32_t open = 0; open < 3; open++) tile_end(t);
}

/* T S, both as two numbers an element; a block has columns of S, a warp rows of T. */
static void chain_of_matrices(LinearWarps *w)
{
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const char *type = l->x.operand,
               *own = tile_text(t, "self * %d +: %d", LINEAR_ROWS, LINEAR_ROWS),
               *columns = tile_text(t, "vb * %d +: %d", CHAIN_COLUMNS, CHAIN_COLUMNS),
               *at = "ends[b, place_of_segments + s, h";
    chain_head(w, tile_text(t, "vb: %d", value_strips(w) * w->e / CHAIN_COLUMNS));
    warps_tile(&l->x, TILE_NAME("Sh"), "d", w->d, "e", CHAIN_COLUMNS, 1);
    warps_tile(&l->x, TILE_NAME("Sl"), "d", w->d, "e", CHAIN_COLUMNS, 1);
    tile_barrier(t, "all", 0, w->d / LINEAR_ROWS);
    begin_chain(w, w->d / LINEAR_ROWS);
    tile_frag(t, "state", "f32[d:%d, e:%d] @ %s.C", LINEAR_ROWS, CHAIN_COLUMNS, l->x.atom->name);
    tile_frag(t, "kept", "f32[d:%d, m:%d] @ %s.C", LINEAR_ROWS, w->d, l->x.atom->name);
    tile_load(t, "state", "state_in[n, h, %s, %s] pad 0", own, columns);
    tile_for_range(t, "s", "0", "last_segment");
    tile_load(t, "kept", "%s, %s, %d +: %d] as [d, m]", at, own, value_strips(w) * w->e, w->d);
    tile_sync(t, "all");
    lw_store_halves(w, "state", "S", tile_text(t, "[%s, :]", own));
    tile_load(t, "state", "%s, %s, %s]", at, own, columns);
    tile_sync(t, "all");
    const char *halves[] = {tile_text(t, "%s(kept)", type),
                            tile_text(t, "%s(kept - f32(%s(kept)))", type, type)};
    for (uint32_t n = 0; n < LINEAR_HALVES_MET; n++)
        tile_product(t, "state", l->x.atom, TILE_ADD, halves[*lw_half(n, false) == 'l'],
                     tile_text(t, "S%s[:, :] as [m, e]", lw_half(n, true)));
    tile_store(t, "state -> %s, %s, %s]", at, own, columns);
    for (uint32_t open = 0; open < 3; open++) tile_end(t);
}

/* What is there before the forward; both need the numbers a token, ends inverses, too. */
void lw_segment_kernels(LinearWarps *w)
{
    if (!w->l.segments) return;
    LinearWarps ends = *w;
    ends.makes_ends = true;
    lw_forward_kernel(&ends);
    lw_is_fed(w) ? chain_of_matrices(w) : chain_of_rows(w);
    lanes_region(&w->l.x, "ends");
    if (has_spans(w)) lanes_region(&w->l.x, "spans");
}
