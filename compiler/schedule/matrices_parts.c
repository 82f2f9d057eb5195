/* matrices_parts.c - see matrices.h. */
#include "matrices.h"

enum { F32_BYTES = 4 };

const AuTileAtom *matrices_atom(const AuProblem *p)
{
    const AuTileAtom *atom = warps_atom(p);
    return atom && (atom->opaque || atom->by_place) ? atom : NULL;
}

int32_t matrices_unit(const AuTileAtom *atom) { return atom->k > atom->n ? atom->k : atom->n; }

MatrixPieces matrices_pieces(const Lanes *x, const char *name, const char *rows, const char *axis,
                             int32_t channels, int32_t columns)
{
    int32_t width = columns < channels ? columns : channels;
    while (channels % width) width -= matrices_unit(x->atom);
    return (MatrixPieces){name, rows, axis, width, channels / width};
}

const char *matrices_channels(Lanes *x, const MatrixPieces *p, int32_t n)
{
    return tile_text(x->t, "%d +: %d", n * p->width, p->width);
}

static AuTileHandle piece(Lanes *x, const MatrixPieces *p, int32_t n)
{
    return tile_numbered(x->t, p->name, (uint32_t)n);
}

static AuTileHandle piece_rows(Lanes *x, const char *memory, const MatrixPieces *p)
{
    return warps_own_rows(x, TILE_NAME(memory), p->width,
                          tile_text(x->t, "%s, %s", p->rows, p->axis));
}

static AuTileHandle pair_rows(Lanes *x, const char *memory, const char *rows, const char *passing,
                              int32_t columns)
{
    return warps_own_rows(x, TILE_NAME(memory), columns, tile_text(x->t, "%s, %s", rows, passing));
}

/* ---- declarations */

void matrices_layout(Lanes *x)
{
    const int32_t rows = x->atom->m, lanes = x->p->caps->lanes / rows;
    tile_layout(x->t, "rows_over_lanes", tile_text(x->t, "lane:%d@1 reg", rows),
                lanes > 1 ? tile_text(x->t, "reg:4 lane:%d@%d reg", lanes, rows) : "reg");
}

/* Rows of an odd number of 16 bytes: lanes that hold rows meet on no bank. */
void matrices_memories(Lanes *x, const char *rows, const char *passing, int32_t columns)
{
    warps_tile(x, TILE_NAME("P"), rows, x->block, passing, columns, 1);
    tile_shared(x->t, TILE_NAME("scores"), "f32[%s:%d, %s:%d]%s", rows, x->block, passing, columns,
                warps_swizzle(x, F32_BYTES * columns));
}

int32_t matrices_row_bytes(const AuProblem *p, int32_t columns)
{
    const int32_t f32 = F32_BYTES * columns;
    return warps_row_bytes(p, 0, columns) + tile_pitch_bytes(f32, tile_swizzle_span(f32, 0));
}

void matrices_declare_pairs(Lanes *x, const char *rows, const char *passing, int32_t columns,
                            const char *const *names)
{
    const char *extent = tile_text(x->t, "[%s:%d, %s:%d]", rows, x->rows, passing, columns);
    const char *pair = x->atom->by_place ? tile_text(x->t, "f32%s @ %s.C", extent, x->atom->name)
                                         : tile_text(x->t, "f32%s @ rows_over_lanes", extent);
    if (!x->atom->by_place) tile_frag(x->t, "raw", "f32%s @ %s.C", extent, x->atom->name);
    if (!x->atom->joins) tile_frag(x->t, "left", "%s%s @ %s.A", x->operand, extent, x->atom->name);
    for (; *names; names++) tile_frag(x->t, *names, "%s", pair);
}

void matrices_declare_operands(Lanes *x, const MatrixPieces *p)
{
    for (int32_t n = 0; n < p->count; n++)
        tile_frag(x->t, piece(x, p, n), "%s[%s:%d, %s:%d] @ %s.A", x->operand, p->rows, x->rows,
                  p->axis, p->width, x->atom->name);
}

void matrices_declare_sums(Lanes *x, const MatrixPieces *p)
{
    for (int32_t n = 0; n < p->count; n++)
        tile_frag(x->t, piece(x, p, n), "f32[%s:%d, %s:%d] @ %s.C = 0.0", p->rows, x->rows, p->axis,
                  p->width, x->atom->name);
}

/* ---- between memory, matrices and lanes */

void matrices_bring(Lanes *x, const MatrixPieces *p, int32_t n, AuTileHandle from)
{
    const AuTileHandle through = piece_rows(x, "P", p);
    tile_copy(x->t, "%v -> %v pad 0", from, through);
    tile_load(x->t, piece(x, p, n), "%v", through);
}

void matrices_multiply(Lanes *x, const char *pairs, const MatrixPieces *p, AuTileHandle tile,
                       const char *passing, int32_t columns)
{
    AuTileBuild *t = x->t;
    const char *sums = x->atom->by_place ? pairs : "raw";
    for (int32_t n = 0; n < p->count; n++)
        tile_product(t, sums, x->atom, n ? TILE_ADD : TILE_START, piece(x, p, n),
                     tile_part(t, "%v[:, %s]", tile, matrices_channels(x, p, n)));
    if (x->atom->by_place) return;
    const AuTileHandle through = pair_rows(x, "scores", p->rows, passing, columns);
    tile_store(t, "raw -> %v", through);
    tile_load(t, pairs, "%v", through);
}

const char *matrices_take_left(Lanes *x, const char *pairs, const char *rows, const char *passing,
                               int32_t columns)
{
    if (x->atom->joins) return pairs;
    const AuTileHandle through = pair_rows(x, "P", rows, passing, columns);
    tile_store(x->t, "%s -> %v", pairs, through);
    tile_load(x->t, "left", "%v", through);
    return "left";
}

void matrices_add(Lanes *x, const MatrixPieces *p, int32_t n, const char *left, AuTileHandle tile)
{
    tile_product(x->t, piece(x, p, n), x->atom, TILE_ADD, left, tile);
}

void matrices_take_piece(Lanes *x, const char *as, const MatrixPieces *p, int32_t n)
{
    const AuTileHandle through = piece_rows(x, "scores", p);
    tile_store(x->t, "%v -> %v", piece(x, p, n), through);
    tile_load(x->t, as, "%v @ rows_over_lanes", through);
}

/* ---- shapes */

/* Do rows and the tile divide into matrices, and the tile among subgroups? */
static bool divides(const AuProblem *p, const AuShape *s, int32_t tile)
{
    const AuTileAtom *atom = matrices_atom(p);
    return s->rows == atom->m && tile % matrices_unit(atom) == 0 && tile % s->executors == 0 &&
           s->executors * p->caps->lanes <= p->caps->threads;
}

const char *matrices_block_refusal(AuArena *arena, const AuProblem *p, const MatrixBlock *b)
{
    enum {
        SCORES_SHARE = 8
    }; /* of a lane's registers: beside scores are weights, and what functions make of both */
    const AuTileAtom *atom = matrices_atom(p);
    const AuShape *s = b->shape;
    const int32_t most = p->caps->registers / SCORES_SHARE;
    if (!divides(p, s, b->tile))
        return au_format(arena, "%d rows or %s for %d subgroups do not divide into %s", s->rows,
                         b->passing, s->executors, atom->name);
    if (s->rows * b->tile > most * p->caps->lanes)
        return au_format(arena, "%d scores a lane of %d", s->rows * b->tile / p->caps->lanes, most);
    if (b->held > p->caps->registers)
        return au_format(arena, "widths %d and %d take %d registers of sums and operands of %d",
                         p->d, p->e, b->held, p->caps->registers);
    return b->bytes <= p->caps->shared_bytes
               ? NULL
               : au_format(arena, "widths %d and %d take %d bytes of shared memory of %d", p->d,
                           p->e, b->bytes, p->caps->shared_bytes);
}

bool matrices_shape(AuArena *arena, const AuProblem *p,
                    const char *(*fit)(AuArena *arena, const AuProblem *p, AuShape *s),
                    AuShape *out, const char **why)
{
    static const int32_t subgroups[] = {8, 4, 2, 1}, tiles[] = {64, 32, 16, 8};
    const AuTileAtom *atom = matrices_atom(p);
    int32_t best = 0;
    if (!atom) return false;
    for (uint32_t n = 0; n < 4 * 4; n++) {
        const int32_t tile = tiles[n % 4], pairs = subgroups[n / 4] * atom->m * tile;
        AuShape s = {
            .executors = subgroups[n / 4], .rows = atom->m, .key_tile = tile, .query_tile = tile};
        if (!divides(p, &s, tile)) continue; /* says nothing of the attention */
        const char *refused = fit(arena, p, &s);
        if (refused && !best) *why = refused;
        if (refused || pairs <= best) continue;
        best = pairs, *out = s, *why = NULL;
    }
    return best > 0;
}
