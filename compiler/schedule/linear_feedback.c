/* linear_feedback.c - recurrences in chunks, feedback `key` (the delta rule): what keys write, for a whole chunk at once.
 *
 *     F = K K' kept, below the diagonal        R = w V - erase since (K S)
 *     U = (1 + erase F)^-1 R, by forward substitution; then as where nothing is fed back, with U in place of w V
 *
 * Where keys are nearly equal and strengths near 2, sums of U alternate, and what rounds F counts: products summed in f32 as they come
 * make the error of the state three times that of the recurrence. So K is split, K = H + L, on a grid so coarse that H H' is exact
 * whatever the order of its sum; F has then one rounding. Its inverse as a matrix costs as much again, hence substitution.
 * The read is after the token, so that keys read where queries do. */
#include "linear.h"

bool lin_is_fed(const Linear *l) { return l->n->feedback == AU_FEEDBACK_KEY; }

/* Whole vectors of key channels. */
static int32_t across(const Linear *l)
{
    const int32_t lanes = l->x.p->caps->lanes;
    return (l->x.p->d + lanes - 1) / lanes * lanes;
}

void lin_fed_memory(Linear *l)
{
    const int32_t C = l->chunk;
    if (!lin_is_fed(l)) return;
    lin_memory(l, "F", tile_text(l->x.t, "f32[q:%d, kv:%d]", C, C));
    lin_memory(l, "U", tile_text(l->x.t, "f32[q:%d, e:%d]", C, l->columns));
    lin_memory(l, "High", tile_text(l->x.t, "f32[q:%d, d:%d]", C, l->x.p->d));
    lin_memory(l, "Low", tile_text(l->x.t, "f32[q:%d, d:%d]", C, l->x.p->d));
}

void lin_fed_declare(Linear *l)
{
    AuTileBuild *t = l->x.t;
    const char *atom = l->x.atom->name;
    const int32_t C = l->chunk, D = l->x.p->d;
    if (!lin_is_fed(l)) return;
    tile_frag(t, "between", "f32[q:%d, kv:%d] @ %s.C", C, C, atom);
    tile_frag(t, "rest", "f32[q:%d, kv:%d] @ %s.C", C, C, atom);
    tile_frag(t, "keys", "f32[q:%d, d:%d] @ %s.B", C, across(l), atom);
    tile_frag(t, "high", "f32[q:%d, d:%d] @ %s.B", C, across(l), atom);
    tile_frag(t, "key_high", "f32[d:%d, kv:%d] @ %s.B", D, C, atom);
    tile_frag(t, "key_low", "f32[d:%d, kv:%d] @ %s.B", D, C, atom);
    tile_frag(t, "solved", "f32[q:%d, e:%d] @ %s.C", C, l->columns, atom);
    tile_frag(t, "fed", "f32[q:%d, e:%d] @ %s.C", C, l->columns, atom);
    tile_frag(t, "line", "f32[q:%d] like fed", C);
    tile_frag(t, "fed_row", "f32[e:%d] like fed", l->columns);
    tile_frag(t, "erase_rows", "f32[q:%d] like fed", C);
    if (lin_has(l, AU_SLOT_WRITE)) tile_frag(t, "write_rows", "f32[q:%d] like fed", C);
}

/* A number so large that what is added to it and taken away again lies on a grid where sums of [width] products of such
 * numbers, none above `largest`, have at most 24 bits. */
static double coarse(int32_t width)
{
    double factor = 0x1p12;
    for (int32_t covered = 1; covered < width; covered *= 4) factor *= 2;
    return factor;
}

void lin_fed_keys(Linear *l)
{
    AuTileBuild *t = l->x.t;
    if (!lin_is_fed(l)) return;
    tile_load(t, "keys", "K[:, 0 +: %d] as [q, d] pad 0", across(l));
    tile_set(t, "coarse", "reduce_max(abs(keys), q, d) * %s", tile_number(t, coarse(l->x.p->d)));
    tile_set(t, "high", "(keys + coarse) - coarse");
    tile_store(t, "high -> High[:, 0 +: %d] clip", across(l));
    tile_store(t, "keys - high -> Low[:, 0 +: %d] clip", across(l));
    tile_set(t, "key_high", "(key + coarse) - coarse");
    tile_set(t, "key_low", "key - key_high");
    lin_meet(l);
    tile_product(t, "rest", l->x.atom, TILE_START, "High", "key_low");
    tile_product(t, "rest", l->x.atom, TILE_ADD, "Low", "key");
    tile_product(t, "between", l->x.atom, TILE_START, "High", "key_high");
    tile_set(t, "between", "where(j < i_q, (between + rest)%s, 0.0)",
             l->n->decay == AU_DECAY_NONE ? "" : " * kept");
    tile_store(t, "between -> F");
    tile_load(t, "erase_rows", "E as [q]");
    if (lin_has(l, AU_SLOT_WRITE)) tile_load(t, "write_rows", "W as [q]");
}

void lin_fed(Linear *l, const char *written)
{
    AuTileBuild *t = l->x.t;
    tile_load(t, "solved", "V[:, vb * %d +: %d] as [q, e] pad 0", l->columns, l->columns);
    tile_product(t, "fed", l->x.atom, TILE_START, "K as [q, d]", "state");
    tile_set(t, "fed", "solved%s - fed * (erase_rows%s)",
             lin_has(l, AU_SLOT_WRITE) ? " * write_rows" : "",
             l->n->decay == AU_DECAY_NONE ? "" : " * since_rows");
    tile_store(t, "fed -> U");
    lin_meet(l);
    tile_for_range(t, "reader", "0", tile_text(t, "%d", l->chunk));
    tile_load(t, "line", "F[reader, :] as [q]"); /* 0 from the reader's own on */
    tile_load(t, "solved", "U");
    tile_load(t, "fed_row", "U[reader, :]");
    tile_load(t, "erase", "E[reader]");
    tile_set(t, "fed_row", "fed_row - erase * reduce_sum(line * solved, q)");
    lin_meet(l);
    tile_store(t, "fed_row -> U[reader, :]");
    lin_meet(l);
    tile_end(t);
    tile_load(t, written, "U as [kv, e]");
}
