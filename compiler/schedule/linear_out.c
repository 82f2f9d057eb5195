/* linear_out.c - see linear.h: what the output of a chunk passes through, norm, skip and out_mod, until it is stored. */
#include "linear.h"

void lin_output_memory(Linear *l)
{
    const LinearRows skip = lin_rows(l, AU_SLOT_SKIP);
    if (lin_has(l, AU_SLOT_SKIP)) lin_rows_memory(l, &skip);
    if (l->has_norm) {
        lin_memory(l, "Sums", tile_text(l->x.t, "f32[q:%d, n:%d]", l->chunk, l->x.p->caps->lanes));
        lin_memory(l, "Norms", tile_text(l->x.t, "f32[q:%d]", l->chunk));
    }
    if (l->x.p->hooks->has_out_mod)
        lin_memory(l, "Out", tile_text(l->x.t, "f32[q:%d, e:%d]", l->chunk, l->columns));
}

void lin_output_declare(Linear *l)
{
    const LinearRows skip = lin_rows(l, AU_SLOT_SKIP);
    if (lin_has(l, AU_SLOT_SKIP)) lin_rows_declare(l, &skip);
    if (lin_has(l, AU_SLOT_SKIP))
        tile_frag(l->x.t, "skipped", "f32[q:%d, e:%d] like acc", l->rows, l->columns);
    if (l->has_norm) {
        tile_frag(l->x.t, "sums", "f32[q:%d] @ along_lanes", l->spread);
        tile_frag(l->x.t, "norms", "f32[q:%d] like acc", l->chunk);
    }
    if (l->x.p->hooks->has_out_mod)
        tile_frag(l->x.t, "out", "f32[e:%d, q:%d] @ a_token_a_lane", l->x.p->e, l->spread);
}

void lin_store_output(Linear *l)
{
    AuTileBuild *t = l->x.t;
    const LinearRows skip = lin_rows(l, AU_SLOT_SKIP);
    if (l->has_norm) {
        lin_meet(l);
        tile_load(t, "sums", "Sums[0 +: %d, 0] pad 1", l->spread);
        tile_set(t, "sums", "slot_norm(sums, b, h, first + iota(q:%d), 0)", l->spread);
        tile_store(t, "sums -> Norms%s", lin_rows_place(l, "q", l->spread, false));
        lin_meet(l);
        tile_load(t, "norms", "Norms");
        tile_set(t, "acc", "acc / norms");
    }
    if (lin_has(l, AU_SLOT_SKIP)) {
        lin_rows_load(l, &skip);
        lin_meet(l);
        tile_load(t, "skipped", "Skip[%s, vb * %d +: %d] pad 0",
                  l->parts > 1 ? tile_text(t, "%s +: %d", lin_own_place(l), l->rows) : ":",
                  l->columns, l->columns);
        tile_set(t, "acc", "acc + skipped");
    }
    if (!l->x.p->hooks->has_out_mod) {
        tile_store(t, "%s(acc) -> o[b, h, %s +: %d from start to end, vb * %d +: %d] clip",
                   l->x.operand, lin_own_first(l), l->rows, l->columns, l->columns);
        return;
    }
    tile_store(t, "acc -> Out");
    lin_meet(l);
    tile_load(t, "out", "Out[0 +: %d, 0 +: %d] pad 0", l->spread, l->x.p->e);
    tile_set(t, "out", "out_mod(out, b, h, first + iota(q:%d), 0, iota(e:%d))", l->spread,
             l->x.p->e);
    tile_store(
        t, "%s(out) -> o[b, h, first +: %d from start to end, :] clip%s", l->x.operand, l->spread,
        l->spread == l->chunk ? "" : tile_text(t, " when iota(q:%d) < %d", l->spread, l->chunk));
}

/* ---- sums of a norm, in chunks on the lanes of a vector */

void lin_sums_declare(Linear *l)
{
    AuTileBuild *t = l->x.t;
    const char *atom = l->x.atom->name;
    const int32_t C = l->chunk, D = l->x.p->d, lanes = l->x.p->caps->lanes;
    if (!l->has_norm) return;
    tile_frag(t, "sum_state", "f32[d:%d, n:%d] @ %s.C = 0.0", D, lanes, atom);
    tile_frag(t, "sum_row", "f32[d:%d] like sum_state", D);
    tile_load(t, "sum_row", "sum_in[n, h, :]");
    tile_set(t, "sum_state", "sum_state + sum_row");
    tile_frag(t, "sum", "f32[q:%d, n:%d] @ %s.C", C, lanes, atom);
    tile_frag(t, "one", "f32[kv:%d, n:%d] @ %s.B = 0.0", C, lanes, atom);
}

void lin_sums_store(Linear *l)
{
    AuTileBuild *t = l->x.t;
    if (!l->has_norm) return;
    lin_meet(l);
    tile_store(t, "sum_state -> K[0 +: %d, :] as [n, d]", l->x.p->caps->lanes);
    lin_meet(l);
    tile_load(t, "sum_row", "K[0, :]");
    tile_store(t, "sum_row -> sum_out[n, h, :]");
}
