/* query_lines.c - rows of q that no sequence of a call has (`S=padded:rows`): o is 0 there and finals are those of rows without a pair, as
 * of rows behind a length (docs/dev/serving.md). One kernel marks the rows that sequences have in memory that is zero before, the next one
 * asks it of each row: time grows with the batch, where to look for a row in the list would be the square of it. */
#include "key_layout.h"

/* Sequences whose rows a block marks. */
enum { MARKED = 32 };

static void marks_argument(Lanes *x, AuTileMode mode)
{
    tile_arg(x->t, "taken", mode, "i32[line:%s]", lanes_row_batch(x, LANES_QUERIES));
}

/* Numbers are clamped, as kernels that read q do it. Of a list that says a row twice, which is wrong, two blocks write the same. */
static void mark_lines(Lanes *x)
{
    AuTileBuild *t = x->t;
    const char *sequences = lanes_axis(x, 0, 0);
    tile_layout(t, "lines_along_lanes", tile_text(t, "lane:%d@1", x->p->caps->lanes), NULL);
    tile_kernel(t, "taken");
    lanes_arguments(x);
    marks_argument(x, TILE_INOUT);
    tile_grid(t, "some: cdiv(%s, %d)", sequences, MARKED);
    tile_role(t, "core", 0, lanes_executor(x), 0);
    tile_frag(t, "place", "i32[s:%d] @ lines_along_lanes = 0", MARKED);
    tile_frag(t, "mark", "i32[s:%d] @ lines_along_lanes = 1", MARKED);
    tile_set(t, "n", "some * %d + iota(s:%d)", MARKED, MARKED);
    tile_set(t, "number", "min(n, %s - 1)", sequences);
    tile_set(t, "place", "%s", lanes_query_line_of(x, "number"));
    tile_store(t, "mark -> taken[place] when n < %s", sequences);
    tile_end(t);
    tile_end(t);
    lanes_zeroed_region(x, "taken");
}

static void store_nothing(Lanes *x)
{
    AuTileBuild *t = x->t;
    const char *place = "line, h, i", *when = tile_text(t, "i < %s", lanes_axis(x, 0, 2));
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
    mark_lines(x);
    tile_kernel(t, "rest_lines");
    lanes_arguments(x);
    marks_argument(x, TILE_IN);
    lanes_written_arguments(x);
    tile_grid(t, "mb: cdiv(%s, %d), h: %s, line: %s", lanes_axis(x, 0, 2), x->block,
              lanes_axis(x, 0, 1), lanes_row_batch(x, LANES_QUERIES));
    tile_let(t, "b", "0"); /* hooks may ask for a sequence: the first one */
    lanes_let_key_length(x);
    tile_role(t, "core", 0, lanes_executor(x), 0);
    tile_if(t, "taken[line] == 0");
    tile_frag(t, "acc", "f32[e:%d, q:%d] @ %s.C = 0.0", x->p->e, x->rows, x->atom->name);
    tile_frag(t, "row_like", "f32[q:%d] like acc = 0.0", x->rows);
    tile_set(t, "i", "mb * %d + iota(q:%d)", x->rows, x->rows);
    lanes_begin_states(x);
    store_nothing(x);
    tile_end(t);
    tile_end(t);
    tile_end(t);
}
