/* linear_feedback_back.c - gradients of recurrences in chunks, feedback `key`. What keys write, U, is made again; no derivative
 * of the inverse is formed:
 *
 *     Y = (1 + erase F)^-T dU, by substitution from the last row to the first
 *     d(w V) = Y      derase = -Y . recalled, recalled = since (K S) + F U      dF = -erase Y U', below the diagonal
 *     keys as readers, beside what they get as writers: -erase since (S Y') + K' (dF kept)'      T gets -(K since erase)' Y
 *
 * Keys read at the places of queries, so that sums of pairs and readers for the decays are those of both. */
#include "linear.h"

void lin_fed_back_memory(Linear *l)
{
    const char *rows = tile_text(l->x.t, "f32[kv:%d, e:%d]", l->chunk, l->x.p->e);
    if (!lin_is_fed(l)) return;
    lin_fed_memory(l);
    lin_memory(l, "Written", rows);
    lin_memory(l, "Y", rows);
}

void lin_fed_back_declare(Linear *l)
{
    AuTileBuild *t = l->x.t;
    const char *atom = l->x.atom->name;
    const int32_t C = l->chunk;
    if (!lin_is_fed(l)) return;
    lin_fed_declare(l);
    tile_frag(t, "dbetween", "f32[q:%d, kv:%d] @ %s.C", C, C, atom);
    tile_frag(t, "recalled", "f32[e:%d, kv:%d] @ %s.C", l->x.p->e, C, atom);
    tile_frag(t, "dreader", "f32[d:%d, kv:%d] @ %s.C", l->x.p->d, C, atom);
    tile_frag(t, "erased", "f32[kv:%d] @ along_lanes", C);
    tile_frag(t, "dx_E", "f32[kv:%d] @ along_lanes", C);
    if (!lin_has(l, AU_SLOT_WRITE)) return;
    tile_frag(t, "strength", "f32[kv:%d] @ along_lanes", C);
    tile_frag(t, "dx_W", "f32[kv:%d] @ along_lanes", C);
}

void lin_fed_back_forwards(Linear *l)
{
    tile_load(l->x.t, "key", "K");
    lin_fed_keys(l);
    lin_fed(l, "written");
}

static void begin_strips(Linear *l)
{
    const int32_t strips = (l->x.p->e + l->columns - 1) / l->columns;
    tile_for_range(l->x.t, "vb", "0", tile_text(l->x.t, "%d", strips));
}

void lin_fed_back_written(Linear *l)
{
    AuTileBuild *t = l->x.t;
    lin_fed_keys(l);
    tile_load(t, "erased", "E");
    begin_strips(l);
    tile_load(t, "state", "states[b, h, at, :, vb * %d +: %d]%s", l->columns, l->columns,
              lin_padded(l));
    lin_fed(l, "written");
    tile_store(t, "written -> Written[:, vb * %d +: %d]%s", l->columns, l->columns, lin_clipped(l));
    tile_end(t);
}

void lin_fed_back_solve(Linear *l)
{
    AuTileBuild *t = l->x.t;
    const int32_t W = l->columns;
    tile_store(t, "dx_V -> Y");
    begin_strips(l);
    tile_for_range(t, "turn", "0", tile_text(t, "%d", l->chunk));
    tile_set(t, "writer", "%d - turn", l->chunk - 1);
    tile_load(t, "line", "F[:, writer] as [q]"); /* 0 up to the writer's own */
    tile_load(t, "solved", "Y[:, vb * %d +: %d] as [q, e]%s", W, W, lin_padded(l));
    tile_load(t, "fed_row", "Y[writer, vb * %d +: %d]%s", W, W, lin_padded(l));
    tile_set(t, "fed_row", "fed_row - reduce_sum(line * erase_rows * solved, q)");
    tile_store(t, "fed_row -> Y[writer, vb * %d +: %d]%s", W, W, lin_clipped(l));
    tile_end(t);
    tile_end(t);
    tile_load(t, "dx_V", "Y");
}

void lin_fed_back_borders(Linear *l)
{
    AuTileBuild *t = l->x.t;
    const bool decays = l->n->decay != AU_DECAY_NONE;
    tile_product(t, "dreader", l->x.atom, TILE_START, "states[b, h, at, :, :] as [d, e]", "dx_V");
    tile_set(t, "dreader", "-dreader * (erased%s)", decays ? " * since" : "");
    tile_set(t, "dx_K", "dx_K + dreader");
    if (decays) tile_set(t, "run", "run + reduce_sum(key * dreader, d)");
}

void lin_fed_back_pairs(Linear *l)
{
    AuTileBuild *t = l->x.t;
    const bool decays = l->n->decay != AU_DECAY_NONE;
    tile_product(t, "dbetween", l->x.atom, TILE_START, "Y as [q, e]", "value");
    tile_set(t, "dbetween", "-dbetween * erase_rows");
    tile_load(t, "between", "F");
    if (decays) tile_set(t, "score", "score + between * dbetween");
    tile_set(t, "dbetween", "where(j < i_q, dbetween%s, 0.0)", decays ? " * kept" : "");
    tile_store(t, "dbetween -> A");
    tile_load(t, "turned", "A as [kv, q]");
    tile_product(t, "dx_K", l->x.atom, TILE_ADD, "K as [q, d]", "dbetween");
    tile_product(t, "dx_K", l->x.atom, TILE_ADD, "K as [q, d]", "turned");
}

void lin_fed_back_state(Linear *l)
{
    AuTileBuild *t = l->x.t;
    tile_load(t, "rows", "Y[:, vb * %d +: %d] as [q, e]%s", l->columns, l->columns, lin_padded(l));
    tile_set(t, "rows", "-rows * (erase_rows%s)",
             l->n->decay == AU_DECAY_NONE ? "" : " * since_rows");
    tile_product(t, "change_of_state", l->x.atom, TILE_ADD, "K as [q, d]", "rows");
}

void lin_fed_back_rows(Linear *l)
{
    AuTileBuild *t = l->x.t;
    tile_product(t, "recalled", l->x.atom, TILE_START, "states[b, h, at, :, :] as [d, e]", "key");
    if (l->n->decay != AU_DECAY_NONE) tile_set(t, "recalled", "recalled * since");
    tile_load(t, "turned", "F as [kv, q]");
    tile_product(t, "recalled", l->x.atom, TILE_ADD, "Written as [q, e]", "turned");
    tile_set(t, "dx_E", "-reduce_sum(dx_V * recalled, e)");
    if (!lin_has(l, AU_SLOT_WRITE)) return;
    tile_load(t, "value", "V");
    tile_load(t, "strength", "W");
    tile_set(t, "dx_W", "reduce_sum(dx_V * value, e)");
    tile_set(t, "dx_V", "dx_V * strength");
}
