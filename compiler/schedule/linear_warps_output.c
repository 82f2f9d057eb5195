/* linear_warps_output.c - see linear_warps.h: what q reads, from a chunk's rows and the state before it, in `acc`: for the output, and once more for
 * gradients of what stands behind it. */
#include "linear_warps.h"

/* Strengths of writes belong to pairs and keys, but where they are in what is written, or in keys and pairs as they were made. */
bool lw_has_strength(const LinearWarps *w)
{
    return lin_has(&w->l, AU_SLOT_WRITE) && !lw_is_fed(w) && !w->has_decayed;
}

/* By a number a token at most. */
bool lw_decays(const LinearWarps *w) { return lw_decay(w) != AU_DECAY_NONE && !lw_by_channel(w); }

/* Pairs pass through memory. */
bool lw_has_pairs(const LinearWarps *w)
{
    return lw_has_output(w) && (w->l.x.via_shared || lw_by_channel(w));
}

const char *lw_out_column(LinearWarps *w)
{
    return lw_begins(w, tile_text(w->l.x.t, "self / %d", w->row_groups), w->e / w->out_columns,
                     w->out_columns);
}

/* Places of the warp's rows: tokens of the output have the name elsewhere where both are in one kernel. */
static const char *reader(const LinearWarps *w) { return w->makes_given ? "reader" : "i"; }

static const char *queries(LinearWarps *w)
{
    return tile_text(w->l.x.t, "Q[%s%s +: %d, :]", warps_stage(&w->l.x, false), lw_row(w),
                     LINEAR_ROWS);
}

/* score becomes A. */
static void weights(LinearWarps *w)
{
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const char *sees = tile_text(t, l->n->before ? "j < %s" : "j <= %s", reader(w)), *kept = "",
               *strength = "";
    tile_product(t, "score", l->x.atom, TILE_START, queries(w),
                 tile_text(t, "K[%s:, :]", warps_stage(&l->x, false)));
    if (l->n->decay == AU_DECAY_SCALAR) {
        tile_load(t, "since", "G[%s +: %d] as [q]", lw_row(w), LINEAR_ROWS);
        tile_load(t, "at_writer", "G[%d +: %d]", w->has_since, l->chunk);
        kept = " * exp(since - at_writer)"; /* perhaps inf where nothing is seen: left out below */
    } else if (l->n->decay == AU_DECAY_CONSTANT)
        kept = tile_text(t, " * exp(f32(%s%s - j) * rate)", reader(w), l->n->before ? " - 1" : "");
    if (lw_has_strength(w)) {
        tile_load(t, "strength_of_pair", "W");
        strength = " * strength_of_pair";
    }
    tile_set(t, "score", "where(%s, score%s%s, 0.0)", sees, kept, strength);
}

/* What is kept of the state for each row. */
static const char *since(LinearWarps *w)
{
    if (!lw_decays(w)) return "";
    if (w->l.n->decay == AU_DECAY_SCALAR) return " * exp(since)";
    return tile_text(w->l.x.t, " * exp(f32(%s%s) * rate)", reader(w), w->l.n->before ? "" : " + 1");
}

/* The recurrence over a column of ones. */
static void sums(LinearWarps *w)
{
    AuTileBuild *t = w->l.x.t;
    tile_set(t, "sum_pairs", "fill(sum_pairs, 0.0)");
    tile_for_range(t, "part", "0", tile_text(t, "%d", w->d / LINEAR_ROWS));
    tile_load(t, "query_part", "Q[%s%s +: %d, part * %d +: %d]", warps_stage(&w->l.x, false),
              lw_row(w), LINEAR_ROWS, LINEAR_ROWS, LINEAR_ROWS);
    tile_load(t, "sum_part", "Sums[part * %d +: %d]", LINEAR_ROWS, LINEAR_ROWS);
    tile_set(t, "sum_pairs", "sum_pairs + f32(query_part) * sum_part");
    tile_end(t);
    tile_set(t, "sum", "reduce_sum(sum_pairs, d)%s + %s", since(w),
             lw_by_channel(w)
                 ? "sum_near" /* of what the product takes: an error of a weight is one of both */
                 : tile_text(t, "reduce_sum(f32(%s(score)), kv)", w->l.x.operand));
    if (!w->makes_given) tile_set(t, "norms", "slot_norm(sum, b, h, first + i, 0)");
}

/* Adds the product with what is written: the values, or with feedback two halves of U. */
void lw_add_written(LinearWarps *w, const char *acc, const char *a, const char *columns)
{
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const char *values = tile_text(t, "V[%s:, %s]", warps_stage(&l->x, false), columns);
    if (!lin_is_fed(l) || w->makes_given) {
        if (lin_is_fed(l)) values = tile_text(t, "Uh[%s, :]", columns);
        tile_product(t, acc, l->x.atom, TILE_ADD, a, values);
        return;
    }
    lw_add_halves(w, acc, a, "U", tile_text(t, "[%s, :]", columns));
}

/* Of pairs that are as they were made for gradients of values, which strengths belong to. */
static const char *weighed_pairs(LinearWarps *w, const char *pairs)
{
    AuTileBuild *t = w->l.x.t;
    if (!w->makes_given || w->in_two || !w->has_decayed || !lin_has(&w->l, AU_SLOT_WRITE))
        return pairs;
    tile_frag(t, "weighed", "%s[q:%d, kv:%d] @ %s.A", w->l.x.operand, LINEAR_ROWS, w->l.chunk,
              w->l.x.atom->name);
    tile_frag(t, "strength_of_weighed", "f32[kv:%d] like weighed", w->l.chunk);
    tile_load(t, "weighed", "%s", pairs);
    tile_load(t, "strength_of_weighed", "W");
    tile_set(t, "weighed", "%s(f32(weighed) * strength_of_weighed)", w->l.x.operand);
    return "weighed";
}

static void read_state(LinearWarps *w)
{
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    tile_product(t, "acc", l->x.atom, TILE_START, queries(w),
                 tile_text(t, "S[:, %s +: %d]", lw_out_column(w), w->out_columns));
    if (lw_decays(w)) tile_set(t, "acc", "acc%s", since(w));
    const char *weight = tile_text(t, "%s(score)", l->x.operand);
    if (lw_has_pairs(w)) {
        const char *own = w->has_decayed
                              ? tile_text(t, "P[%s%s +: %d, :]", warps_stage(&l->x, false),
                                          lw_row(w), LINEAR_ROWS)
                              : tile_text(t, "P[%s, :]", lw_pair_rows(w));
        if (!lw_by_channel(w)) tile_store(t, "%s -> %s", weight, own);
        weight = weighed_pairs(w, own);
    }
    const char *columns = tile_text(t, "%s +: %d", lw_out_column(w), w->out_columns);
    lw_add_written(w, "acc", weight, columns);
    if (lw_is_own(w)) lw_own_read(w, columns);
}

void lw_output(LinearWarps *w)
{
    if (!lw_by_channel(w))
        weights(w);
    else if (!lw_shares_pairs(w) && !w->has_decayed)
        lw_vector_weights(w);
    if (w->l.has_norm) sums(w);
    read_state(w);
}
