/* query_lines.c - rows of q that no sequence of a call has (`S=padded:rows`): o is 0 there and finals are those of rows without a pair, as
 * of rows behind a length (docs/dev/serving.md). */
#include "key_layout.h"

/* Sets having, 1 where a sequence has the row [line]. Numbers are clamped, as kernels that read q do it. */
static void look_for_sequence(Lanes *x)
{
    AuTileBuild *t = x->t;
    tile_set(t, "having", "0");
    tile_for_range(t, "other", "0", lanes_axis(x, 0, 0));
    tile_set(t, "having", "where(%s == line, 1, having)", lanes_query_line_of(x, "other"));
    tile_end(t);
}

/* What is counted in a loop no branch asks for: each row is stored or not. */
static void store_nothing(Lanes *x)
{
    AuTileBuild *t = x->t;
    const char *place = "line, h, i",
               *when = tile_text(t, "having == 0 && i < %s", lanes_axis(x, 0, 2));
    if (!x->p->unfinished) {
        lanes_end(x, "acc");
        tile_store(t, "%s(acc) -> o[%s, :] as [q, e] when %s", x->operand, place, when);
        lanes_store_finals_when(x, place, when);
        return;
    }
    tile_store(t, "acc -> part_acc[%s, :] as [q, e] when %s", place, when);
    for (uint32_t n = 0; n < x->p->hooks->state_count; n++)
        tile_store(t, "state%u -> part_%u[%s] as [q] when %s", n, n, place, when);
}

void lanes_lines_kernel(const Lanes *of)
{
    Lanes own = *of, *x = &own;
    AuTileBuild *t = x->t;
    if (!x->p->attn->queries.has_rows) return;
    x->atom = tile_best_atom(x->p->caps, TILE_F32, lanes_executor(x));
    x->rows = x->block = x->p->caps->lanes;
    tile_kernel(t, "rest_lines");
    lanes_arguments(x);
    lanes_written_arguments(x);
    tile_grid(t, "mb: cdiv(%s, %d), h: %s, line: %s", lanes_axis(x, 0, 2), x->block,
              lanes_axis(x, 0, 1), lanes_row_batch(x, LANES_QUERIES));
    tile_let(t, "b", "0"); /* hooks may ask for a sequence: the first one */
    lanes_let_key_length(x);
    tile_role(t, "core", 0, lanes_executor(x), 0);
    tile_frag(t, "acc", "f32[e:%d, q:%d] @ %s.C = 0.0", x->p->e, x->rows, x->atom->name);
    tile_frag(t, "row_like", "f32[q:%d] like acc = 0.0", x->rows);
    look_for_sequence(x);
    tile_set(t, "i", "mb * %d + iota(q:%d)", x->rows, x->rows);
    lanes_begin_states(x);
    store_nothing(x);
    tile_end(t);
    tile_end(t);
}
