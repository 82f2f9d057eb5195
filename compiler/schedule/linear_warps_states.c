/* linear_warps_states.c - what the workspace has of each chunk, who goes over all chunks at once, and the states before chunks, in operands'
 * type: the kernel `states` makes them by the forward of `linear_warps`, kernels of `linear_warps_backward` read them. */
#include "linear_warps.h"

enum { HALVINGS = 24 /* of as many sequences as there may be */ };

/* Chunks of sequences that are packed begin anywhere: each sequence has a place more than its tokens ask for. */
void lw_chunk_argument(LinearWarps *w, const char *name, AuTileMode mode, const char *elem,
                       const char *axes)
{
    Linear *l = &w->l;
    const char *batch = lanes_axis(&l->x, 0, 0);
    tile_arg(l->x.t, name, mode, "%s[b:%s, h:%s, n:cdiv(%s, %d) + %s - %s + 1, %s]", elem, batch,
             l->heads, l->tokens, l->chunk, lin_sequences(l), batch, axes);
}

void lw_kept_argument(LinearWarps *w, const char *name, AuTileMode mode, bool of_columns)
{
    AuTileBuild *t = w->l.x.t;
    lw_chunk_argument(w, name, mode, w->l.x.operand,
                      of_columns ? tile_text(t, "e:%d, kv:%d", w->kept_columns, w->l.chunk)
                                 : tile_text(t, "d:%d, e:%d", w->d, w->kept_columns));
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
    lin_begin_kernel(l, "states");
    tile_arg(t, "state_in", TILE_IN, "f32[b:%s, h:%s, d:%d, e:%d]", lin_sequences(l), l->heads,
             l->x.p->d, l->x.p->e);
    if (w->in_two)
        tile_arg(t, "state_out", TILE_OUT, "f32[b:%s, h:%s, d:%d, e:%d]", lin_sequences(l),
                 l->heads, l->x.p->d, l->x.p->e);
    lw_states_argument(w, TILE_INOUT);
    if (l->has_norm) {
        tile_arg(t, "sum_in", TILE_IN, "f32[b:%s, h:%s, d:%d]", lin_sequences(l), l->heads,
                 l->x.p->d);
        if (w->in_two)
            tile_arg(t, "sum_out", TILE_OUT, "f32[b:%s, h:%s, d:%d]", lin_sequences(l), l->heads,
                     l->x.p->d);
        lw_sums_argument(w, TILE_INOUT);
    }
    if (w->keeps_written) lw_kept_argument(w, "updates", TILE_INOUT, true);
    tile_grid(t, "vb: %d, h: %s, %s: %s%s", (w->kept_columns + w->e - 1) / w->e, l->heads,
              l->segments ? "ns" : "n", lin_sequences(l),
              l->segments ? tile_text(t, " * %s", l->segments) : "");
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

void lw_issue_kept(LinearWarps *w, const char *token, const char *tensor, const char *memory,
                   int32_t rows)
{
    AuTileBuild *t = w->l.x.t;
    const int32_t share = rows / w->l.x.shape->executors;
    warps_issue(&w->l.x, TILE_NAME(token),
                tile_part(t, "%s[b, h, place, self * %d +: %d, :]", tensor, share, share),
                tile_part(t, "%s[self * %d +: %d, :]", memory, share, share));
}

void lw_keep_declare(LinearWarps *w)
{
    tile_frag(w->l.x.t, "row_kept", "%s[e:%d, d:%d] @ across_e", w->l.x.operand, w->e,
              w->d / w->l.x.shape->executors);
}

/* ---- kernels whose blocks have a chunk each */

/* The grid's place among all chunks: the sequence's number, n, and the chunk's in it. Packed sequences begin where lw_place_of_states says,
 * so that n is the last one that begins there or before. */
void lw_find_chunk(LinearWarps *w)
{
    Linear *l = &w->l;
    AuTileBuild *t = l->x.t;
    const char *each = tile_text(t, "cdiv(%s, %d)", l->tokens, l->chunk);
    tile_set(t, "n", "where($cu_seqlens_count > 0, 0, item / max(%s, 1))", each);
    tile_set(t, "above", "$cu_seqlens_count - 1");
    tile_for_range(t, "turn", "0", tile_text(t, "where($cu_seqlens_count > 2, %d, 0)", HALVINGS));
    tile_set(t, "middle", "(n + above) / 2");
    tile_load(t, "begins", "cu_seqlens[middle] pad 0");
    tile_set(t, "is_before", "clamp(begins, 0, %s) / %d + middle <= item && middle < above",
             l->tokens, l->chunk);
    tile_set(t, "above", "where(is_before, above, middle)");
    tile_set(t, "n", "where(is_before, middle, n)");
    tile_end(t);
    lin_find_sequence(l);
    tile_set(t, "chunk", "where($cu_seqlens_count > 0, item - start / %d - n, item %% max(%s, 1))",
             l->chunk, each);
    tile_set(t, "first", "start + chunk * %d", l->chunk);
}

void lw_chunks_grid(LinearWarps *w)
{
    Linear *l = &w->l;
    const char *batch = lanes_axis(&l->x, 0, 0);
    tile_grid(l->x.t, "item: %s * cdiv(%s, %d) + %s - %s, h: %s", batch, l->tokens, l->chunk,
              lin_sequences(l), batch, l->heads);
}

void lw_begin_chunk(LinearWarps *w)
{
    tile_if(w->l.x.t, "chunk >= 0 && chunk < cdiv(length, %d)", w->l.chunk);
}
