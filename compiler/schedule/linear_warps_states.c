/* linear_warps_states.c - the state before each chunk, in operands' type, in the workspace: the kernel `states` makes them by the forward of
 * `linear_warps`, `reverse` of `linear_warps_backward` reads them. */
#include "linear_warps.h"

/* Chunks of sequences that are packed begin anywhere: each sequence has a place more than its tokens ask for. */
void lw_kept_argument(LinearWarps *w, const char *name, AuTileMode mode, bool of_columns)
{
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const char *batch = lanes_axis(&l->x, 0, 0),
               *each = of_columns ? tile_text(t, "e:%d, kv:%d", w->kept_columns, l->chunk)
                                  : tile_text(t, "d:%d, e:%d", w->d, w->kept_columns);
    tile_arg(t, name, mode, "%s[b:%s, h:%s, n:cdiv(%s, %d) + %s - %s + 1, %s]", l->x.operand, batch,
             l->heads, l->tokens, l->chunk, lin_sequences(l), batch, each);
}

void lw_states_argument(LinearWarps *w, AuTileMode mode)
{
    lw_kept_argument(w, "states", mode, false);
}

void lw_place_of_states(LinearWarps *w, const char *name, const char *chunk)
{
    tile_set(w->l.x.t, name, "start / %d + n - b + %s", w->l.chunk, chunk);
}

void lw_states_head(LinearWarps *w)
{
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    tile_kernel(t, "states");
    lanes_arguments(&l->x);
    lin_sequences_argument(l);
    tile_arg(t, "state_in", TILE_IN, "f32[b:%s, h:%s, d:%d, e:%d]", lin_sequences(l), l->heads,
             l->x.p->d, l->x.p->e);
    lw_states_argument(w, TILE_INOUT);
    if (w->keeps_written) lw_kept_argument(w, "updates", TILE_INOUT, true);
    tile_grid(t, "vb: %d, h: %s, n: %s", (w->kept_columns + w->e - 1) / w->e, l->heads,
              lin_sequences(l));
}

/* What lies in [memory] as an operand, by whole rows: sums' own places in a row are 4 bytes each. */
void lw_keep_rows(LinearWarps *w, const char *memory, const char *tensor)
{
    AuTileBuild *t = w->l.x.t;
    const int32_t rows = w->d / w->l.x.shape->executors;
    tile_load(t, "row_kept", "%s[self * %d +: %d, :]", memory, rows, rows);
    tile_store(t, "row_kept -> %s[b, h, place, self * %d +: %d, vb * %d +: %d] as [d, e] clip",
               tensor, rows, rows, w->e, w->e);
}

void lw_keep_declare(LinearWarps *w)
{
    tile_frag(w->l.x.t, "row_kept", "%s[e:%d, d:%d] @ across_e", w->l.x.operand, w->e,
              w->d / w->l.x.shape->executors);
}
