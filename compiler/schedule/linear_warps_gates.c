/* linear_warps_gates.c - backward by `linear_warps_backward`: gradients of numbers a token, log decays and strengths of writes.
 *
 * The log decay of token t gets what spans it: pairs A dA whose writer is before it and whose reader sees it behind, readers behind it
 * from the chunk's start, writers before it to the chunk's end, and what passes, whole <S, T>. All sums run up from nothing. Executors have
 * parts of the pairs: each makes running sums over its writers, and sums of whole rows, which readers have of all parts before. */
#include "linear_warps.h"

/* Sums that executors leave for those that put them together. */
void lw_gates_memories(LinearBack *b)
{
    Linear *l = &b->w.l;
    AuTileBuild *t = l->x.t;
    const int32_t edges = b->key_parts * b->key_strips;
    if (lin_has(l, AU_SLOT_WRITE))
        tile_shared(t, "Strengths", "f32[p:%d, kv:%d]", b->parts, l->chunk);
    if (b->is_fed) tile_shared(t, "Erases", "f32[p:%d, kv:%d]", b->erase_sums, l->chunk);
    if (!b->has_rate) return;
    tile_shared(t, "Starts", "f32[p:%d, kv:%d]", (1 + b->is_fed) * edges, l->chunk);
    tile_shared(t, "Ends", "f32[p:%d, kv:%d]", edges, l->chunk);
    tile_shared(t, "Crossing", "f32[p:%d, kv:%d]", (1 + b->is_fed) * b->w.row_groups, l->chunk);
    tile_shared(t, "Totals", "f32[p:%d, q:%d]", b->pair_parts, l->chunk);
    tile_shared(t, "Passed", "f32[p:%d]", b->w.holders);
}

void lw_gates_of_pairs(LinearBack *b)
{
    LinearWarps *w = &b->w;
    AuTileBuild *t = w->l.x.t;
    const char *part = tile_text(t, "self / %d", w->row_groups);
    if (!b->has_rate) return;
    tile_set(t, "pair", "score * where(%s, dscore, 0.0)", w->l.n->before ? "j < i" : "j <= i");
    tile_set(t, "of_reader", "reduce_sum(pair, kv)");
    tile_store(t, "of_reader -> Totals[%s, %s +: %d]", part, lw_row(w), LINEAR_ROWS);
    tile_set(t, "pair", "cumsum(pair, kv)");
    tile_set(t, "crossing", "reduce_sum(where(%s, pair, 0.0), q)",
             w->l.n->before ? "j + 1 < i" : "j < i");
    tile_store(t, "crossing -> Crossing[self %% %d, %s * %d +: %d]", w->row_groups, part,
               b->pair_columns, b->pair_columns);
}

void lw_gates_of_rows(LinearBack *b, const char *dx, bool of_keys, bool of_start)
{
    LinearWarps *w = &b->w;
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const char *own = of_keys ? "own_key" : "own_query",
               *edge = of_keys ? of_start ? "key_from_start" : "to_end" : "from_start";
    if (!b->has_rate) return;
    if (!of_keys || of_start || !b->is_fed) {
        tile_frag(t, own, "%s[kv:%d, d:%d] like dx", l->x.operand, LINEAR_ROWS, b->key_columns);
        tile_load(t, own, "%s[%s%s +: %d, %s +: %d] as [kv, d]", of_keys ? "K" : "Q",
                  warps_stage(&l->x, false), lw_row(w), LINEAR_ROWS, lw_key_column(b),
                  b->key_columns);
    }
    tile_set(t, edge, "reduce_sum(f32(%s) * %s, d)", own, dx);
    tile_store(t, "%s -> %s[%s(%s) / %d, %s +: %d]", edge, of_start ? "Starts" : "Ends",
               of_keys && of_start ? tile_text(t, "%d + ", b->key_parts * b->key_strips) : "",
               lw_key_column(b), b->key_columns, lw_row(w), LINEAR_ROWS);
}

void lw_gates_of_state(LinearBack *b)
{
    LinearWarps *w = &b->w;
    AuTileBuild *t = w->l.x.t;
    if (!b->has_rate) return;
    tile_frag(t, "old", "%s[d:%d, e:%d] like dstate", w->l.x.operand, w->channels, w->columns);
    tile_load(t, "old", "S[%s +: %d, %s +: %d]", lw_state_row(w), w->channels, lw_state_column(w),
              w->columns);
    const char *of_sums = lw_sums_passed(b), *open = *of_sums ? "(" : "",
               *close = *of_sums ? ")" : "";
    tile_set(t, "passed", "%sreduce_sum(f32(old) * dstate, d, e)%s%s * whole", open, of_sums,
             close);
    tile_store(t, "passed -> Passed[self]");
}

/* Of whom a sum is put together at once. */
static int32_t rows_of(const LinearBack *b) { return b->is_apart ? b->rows : LINEAR_ROWS; }
static const char *like(const LinearBack *b) { return b->is_apart ? "row_dx" : "dx"; }
static const char *first_row(LinearBack *b) { return b->is_apart ? b->first_row : lw_row(&b->w); }

static void decays_back(LinearBack *b)
{
    LinearWarps *w = &b->w;
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const char *row = b->is_apart ? "row_of_gate" : "row",
               *behind = tile_text(t, l->n->before ? "r > %s" : "r >= %s", row);
    const int32_t edges = b->key_parts * b->key_strips;
    if (b->is_apart)
        tile_frag(t, "spread", "f32[r:%d, kv:%d] @ across_r = 0.0", l->chunk, b->rows);
    else
        tile_frag(t, "spread", "f32[kv:%d, r:%d] @ %s.C = 0.0", LINEAR_ROWS, l->chunk,
                  l->x.atom->name);
    tile_frag(t, "sums", "f32[r:%d] like spread", l->chunk);
    tile_set(t, "r", "iota(r:%d)", l->chunk);
    for (int32_t n = 0; n < (1 + b->is_fed) * edges; n++) {
        tile_load(t, "sums", "Starts[%d, :] as [r]", n);
        tile_set(t, "spread", "spread + where(%s, sums, 0.0)", behind);
    }
    for (int32_t n = 0; n < edges; n++) {
        tile_load(t, "sums", "Ends[%d, :] as [r]", n);
        tile_set(t, "spread", "spread + where(r < %s, sums, 0.0)", row);
    }
    for (int32_t n = 0; n < (1 + b->is_fed) * w->row_groups; n++) {
        tile_load(t, "sums", "Crossing[%d, :] as [r]", n);
        tile_set(t, "spread", "spread + where(r + 1 == %s, sums, 0.0)", row);
    }
    for (int32_t n = 1; n < b->pair_parts; n++) {
        tile_load(t, "sums", "Totals[%d, :] as [r]", n - 1);
        tile_set(t, "spread", "spread + where(%s && %s > %d, sums, 0.0)", behind, row,
                 n * b->pair_columns);
    }
    tile_set(t, "dg", "reduce_sum(spread, r)");
    for (int32_t n = 0; n < w->holders; n++) {
        tile_load(t, "passed_of", "Passed[%d]", n);
        tile_set(t, "dg", "dg + passed_of");
    }
}

static void number_back(LinearBack *b, AuSlot slot, const char *dx)
{
    Linear *l = &b->w.l;
    const LinearRows r = lin_rows(l, slot);
    lin_rows_back_of(l, &r, "no_rows", dx);
}

/* Sums of [parts] executors over their columns. */
static void strength_back(LinearBack *b, AuSlot slot, const char *memory, int32_t parts)
{
    LinearWarps *w = &b->w;
    AuTileBuild *t = w->l.x.t;
    const char *dx = slot == AU_SLOT_ERASE ? "derase" : "dw";
    if (!lin_has_gradient(&w->l, slot)) return;
    tile_frag(t, dx, "f32[kv:%d] like %s = 0.0", rows_of(b), like(b));
    for (int32_t n = 0; n < parts; n++) {
        tile_load(t, "part_of_sum", "%s[%d, %s +: %d]", memory, n, first_row(b), rows_of(b));
        tile_set(t, dx, "%s %s part_of_sum", dx, slot == AU_SLOT_ERASE ? "-" : "+");
    }
    for (int32_t n = 0; slot == AU_SLOT_WRITE && n < lw_sums_of_strengths(b); n++) {
        tile_load(t, "part_of_sum", "Ones[%d, %s +: %d]", n, first_row(b), rows_of(b));
        tile_set(t, dx, "%s + part_of_sum", dx);
    }
    number_back(b, slot, dx);
}

/* The first executor of each group of rows; of chunks apart all, some rows each (lw_apart_kernel). */
void lw_gates_back(LinearBack *b)
{
    LinearWarps *w = &b->w;
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const bool of_strength = lin_has_gradient(l, AU_SLOT_WRITE),
               of_erase = b->is_fed && lin_has_gradient(l, AU_SLOT_ERASE);
    if (!b->has_rate && !of_strength && !of_erase) return;
    if (b->is_apart)
        tile_set(t, "row_of_gate", "%s + iota(kv:%d)", first_row(b), rows_of(b));
    else
        tile_if(t, "self < %d", w->row_groups);
    tile_frag(t, "no_rows", "f32[kv:%d] like %s = 0.0", rows_of(b), like(b));
    if (of_strength || of_erase)
        tile_frag(t, "part_of_sum", "f32[kv:%d] like %s", rows_of(b), like(b));
    if (b->has_rate) {
        decays_back(b);
        number_back(b, AU_SLOT_LOG_DECAY, "dg");
    }
    if (of_strength) strength_back(b, AU_SLOT_WRITE, "Strengths", b->parts);
    if (of_erase) strength_back(b, AU_SLOT_ERASE, "Erases", b->erase_sums);
    if (!b->is_apart) tile_end(t);
}
