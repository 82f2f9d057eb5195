/* linear_warps_rows_back.c - backward by `linear_warps_backward`: gradients of a chunk's rows, of queries, keys, values and what skips the
 * state. Of P and R, the pairs and their gradients in shared memory:
 *
 *     dQ = (dO S') since + R K       dK = (V T') until w + R' Q       dV = w ((K T) until + P' dO)       dskip = dO
 *
 * each row then through its slot's hook and out. With feedback, what reaches keys and values comes from linear_warps_key_back.c. */
#include "linear_warps.h"

/* ---- who has what */

const char *lw_value_column(LinearBack *b)
{
    return lw_begins(&b->w, tile_text(b->w.l.x.t, "self / %d", b->w.row_groups), b->parts,
                     b->value_columns);
}

const char *lw_key_column(LinearBack *b)
{
    const char *part =
        lw_begins(&b->w, tile_text(b->w.l.x.t, "self / %d %% %d", b->w.row_groups, b->key_parts),
                  b->key_parts, b->key_strips * b->key_columns);
    if (b->key_strips == 1) return part;
    return tile_text(b->w.l.x.t, "%s + strip * %d", part, b->key_columns);
}

const char *lw_own_rows(LinearBack *b)
{
    return tile_text(b->w.l.x.t, "%s%s +: %d", warps_stage(&b->w.l.x, false), lw_row(&b->w),
                     LINEAR_ROWS);
}

const char *lw_kept_of_rows(LinearBack *b, bool until, const char *sums)
{
    LinearWarps *w = &b->w;
    AuTileBuild *t = w->l.x.t;
    if (!lin_decays(&b->w.l) || lw_by_channel(w)) return ""; /* of a channel's: operands have it */
    if (lin_decays_by_token(&b->w.l)) {
        tile_load(t, sums, "G[%d + %s +: %d] as [kv]", until ? w->has_since : 0, lw_row(w),
                  LINEAR_ROWS);
        return tile_text(t, until ? " * exp(total - %s)" : " * exp(%s)", sums);
    }
    if (until) return " * exp(f32(max(count - 1 - row, 0)) * rate)";
    return w->l.n->before ? " * exp(f32(row) * rate)" : " * exp(f32(row + 1) * rate)";
}

/* ---- rows through their slots */

/* The rows of a slot where the gradient's are, for its hook. */
static const char *raw_rows(LinearBack *b, AuSlot slot, const char *like)
{
    Linear *l = &b->w.l;
    AuTileBuild *t = l->x.t;
    const AuHookSlot *s = &l->slots[slot];
    const bool of_keys = *lin_rows(l, slot).channel == 'd';
    const int32_t width = of_keys ? b->key_columns : b->value_columns;
    const char *name = tile_text(t, "rows_of_%s", lin_rows(l, slot).memory),
               *channel = of_keys ? "d" : "e",
               *first = !of_keys          ? lw_value_column(b)
                        : width == b->w.d ? "0"
                                          : lw_key_column(b);
    if (!s->back) return name;
    tile_frag(t, name, "%s[kv:%d, %s:%d] like %s%s", s->held.i ? lin_elem(l, s->held) : "f32",
              b->rows ? b->rows : LINEAR_ROWS, channel, width, like, s->held.i ? "" : " = 0.0");
    if (s->held.i)
        tile_load(t, name, "%s pad 0",
                  lin_view(l, s->held, "kv", channel, lin_columns(l, s->held, first, width),
                           b->part.rows));
    return name;
}

void lw_gradient(LinearBack *b, AuSlot slot, const char *dx, const char *like)
{
    Linear *l = &b->w.l;
    const LinearRows r = lin_rows(l, slot);
    if (lin_has_gradient(l, slot)) lin_rows_back_of(l, &r, raw_rows(b, slot, like), dx);
}

static void gradient(LinearBack *b, AuSlot slot, const char *dx) { lw_gradient(b, slot, dx, dx); }

/* Where the slot sums over channels that others have, all of them go on behind a barrier. */
static void rows_made(LinearBack *b, bool of_keys)
{
    if (b->is_staged)
        tile_store(b->w.l.x.t, "dx -> Staged[%d, %s +: %d, %s +: %d]", of_keys, lw_row(&b->w),
                   LINEAR_ROWS, lw_key_column(b), b->key_columns);
    else
        gradient(b, of_keys ? AU_SLOT_K : AU_SLOT_Q, "dx");
}

/* ---- queries and keys */

/* Of queries or keys through the state at one end of the chunk. */
static void borders_back(LinearBack *b, bool of_keys, const char *columns)
{
    LinearWarps *w = &b->w;
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const char *strength = "";
    tile_product(t, "dx", l->x.atom, TILE_START,
                 tile_text(t, "%s[%s, :] as [kv, e]", of_keys ? "V" : "D", lw_own_rows(b)),
                 tile_text(t, "%s[%s, :]", of_keys ? "T" : "S", columns));
    lw_sums_of_rows(b, of_keys, columns);
    const char *kept = lw_kept_of_rows(b, of_keys, "of_dx");
    if (of_keys && lin_has(&b->w.l, AU_SLOT_WRITE)) {
        tile_load(t, "strength_of_row", "W[%s +: %d]", lw_row(w), LINEAR_ROWS);
        strength = " * strength_of_row";
    }
    if (*kept || *strength) tile_set(t, "dx", "dx%s%s", kept, strength);
    lw_gates_of_rows(b, "dx", of_keys, !of_keys);
    if (of_keys) lw_sums_of_border(b, kept);
}

void lw_rows_back(LinearBack *b, bool of_keys)
{
    LinearWarps *w = &b->w;
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const char *columns = tile_text(t, "%s +: %d", lw_key_column(b), b->key_columns),
               *stage = warps_stage(&l->x, false);
    if (b->key_strips > 1) tile_for_range(t, "strip", "0", tile_text(t, "%d", b->key_strips));
    if (!b->is_staged) tile_set(t, "c_d", "%s + iota(d:%d)", lw_key_column(b), b->key_columns);
    if (of_keys && b->is_fed)
        lw_key_back_rows(b);
    else
        borders_back(b, of_keys, columns);
    if (of_keys)
        tile_product(t, "dx", l->x.atom, TILE_ADD,
                     tile_text(t, "R[:, %s +: %d]", lw_row(w), LINEAR_ROWS),
                     tile_text(t, "Q[%s:, %s]", stage, columns));
    else
        tile_product(t, "dx", l->x.atom, TILE_ADD,
                     tile_text(t, "R[%s +: %d, :] as [kv, q]", lw_row(w), LINEAR_ROWS),
                     tile_text(t, "K[%s:, %s] as [q, d]", stage, columns));
    rows_made(b, of_keys);
    if (b->key_strips > 1) tile_end(t);
}

void lw_staged_rows(LinearBack *b)
{
    LinearWarps *w = &b->w;
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    if (!b->is_staged) return;
    const LinearPart part = b->part;
    const int32_t columns = b->key_columns;
    b->part.key_columns = tile_text(t, "0 +: %d", w->d);
    b->key_columns = w->d;
    tile_set(t, "c_d", "iota(d:%d)", w->d);
    tile_if(t, "self < %d", 2 * w->row_groups);
    tile_frag(t, "whole_rows", "f32[kv:%d, d:%d] @ %s.C", LINEAR_ROWS, w->d, l->x.atom->name);
    for (int32_t of_keys = 0; of_keys < 2; of_keys++) {
        if (of_keys)
            tile_else(t);
        else
            tile_if(t, "self < %d", w->row_groups);
        tile_load(t, "whole_rows", "Staged[%d, %s +: %d, :]", of_keys, lw_row(w), LINEAR_ROWS);
        gradient(b, of_keys ? AU_SLOT_K : AU_SLOT_Q, "whole_rows");
    }
    tile_end(t);
    tile_end(t);
    b->part = part;
    b->key_columns = columns;
}

/* ---- values */

static void values_of_chunk(LinearBack *b, const char *columns)
{
    LinearWarps *w = &b->w;
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const char *stage = warps_stage(&l->x, false);
    tile_product(t, "dvalue", l->x.atom, TILE_START, tile_text(t, "K[%s, :]", lw_own_rows(b)),
                 tile_text(t, "T[:, %s]", columns));
    const char *kept = lw_kept_of_rows(b, true, "of_value");
    if (*kept) tile_set(t, "dvalue", "dvalue%s", kept);
    tile_product(t, "dvalue", l->x.atom, TILE_ADD,
                 tile_text(t, "P[:, %s +: %d]", lw_row(w), LINEAR_ROWS),
                 tile_text(t, "D[%s:, %s]", stage, columns));
    if (b->is_own)
        tile_product(t, "dvalue", l->x.atom, TILE_ADD,
                     tile_text(t, "Px[:, %s +: %d]", lw_row(w), LINEAR_ROWS),
                     tile_text(t, "Yh[%s, :] as [e, q]", columns));
}

void lw_values_back(LinearBack *b)
{
    LinearWarps *w = &b->w;
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const char *columns = tile_text(t, "%s +: %d", lw_value_column(b), b->value_columns);
    if (b->is_fed)
        lw_key_back_values(b);
    else
        values_of_chunk(b, columns);
    if (lin_has(&b->w.l, AU_SLOT_WRITE)) {
        tile_frag(t, "value", "%s[kv:%d, e:%d] like dvalue", l->x.operand, LINEAR_ROWS,
                  b->value_columns);
        tile_load(t, "value", "V[%s, %s]", lw_own_rows(b), columns);
        tile_set(t, "of_strength", "reduce_sum(f32(value) * dvalue, e)");
        tile_store(t, "of_strength -> Strengths[self / %d, %s +: %d]", w->row_groups, lw_row(w),
                   LINEAR_ROWS);
        tile_load(t, "strength_of_value", "W[%s +: %d]", lw_row(w), LINEAR_ROWS);
        tile_set(t, "dvalue", "dvalue * strength_of_value");
    }
    gradient(b, AU_SLOT_V, "dvalue");
    if (!lin_has(l, AU_SLOT_SKIP) || lin_needs_output(l)) return; /* that of `outputs` */
    tile_frag(t, "given", "%s[kv:%d, e:%d] like dvalue", l->x.operand, LINEAR_ROWS,
              b->value_columns);
    tile_load(t, "given", "D[%s, %s] as [kv, e]", lw_own_rows(b), columns);
    tile_set(t, "dvalue", "f32(given)");
    gradient(b, AU_SLOT_SKIP, "dvalue");
}
