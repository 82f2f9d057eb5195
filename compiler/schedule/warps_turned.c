/* warps_turned.c - tiles in shared memory whose rows are the columns of the tensor: operand B of a product that contracts the tensor's rows, such
 * as values in P V.
 *
 * An instruction's operand B wants several numbers of a lane along the contracted axis, side by side. Where nothing exchanges rows and
 * columns on the way from shared memory (ldmatrix does, and loads that lanes turn), a tile stored as the tensor lies would be read a number at a time. So
 * it is turned while it is copied: a lane loads vectors of a few rows and stores what columns have of these rows, in registers one below the
 * other, as vectors. Such lanes follow each other along the rows, so that what they store at once lies side by side in shared memory. */
#include "key_layout.h"
#include "warps.h"

bool warps_passes(const AuProblem *p)
{
    const AuTileAtom *atom = warps_atom(p);
    if (!atom || atom->opaque || atom->by_place || atom->turns || atom->rounds ||
        warps_copy_ahead(p) || (p->caps->loads & TILE_LOADS_MATRIX))
        return false;
    const AuTilePlaces *along = tile_atom_places(p->attn->arena, atom, TILE_B, 0, atom->k);
    return along && along->digits.count && along->digits.at[0].unit == TILE_UNIT_REG;
}

bool warps_turns(const AuProblem *p)
{
    return warps_passes(p) && !(p->caps->loads & TILE_LOADS_TURNED);
}

bool warps_passes_ahead(const AuProblem *p) { return warps_passes(p) && p->caps->passes_ahead; }

bool warps_forward_passes(const AuProblem *p, const AuShape *s)
{
    return warps_passes_ahead(p) && !s->direct;
}

/* What a lane takes of a tile: the largest block of which there is one for each lane. */
typedef struct Block {
    int32_t rows, columns;
} Block;

static Block block_of(int32_t lanes, int32_t rows, int32_t columns)
{
    static const Block blocks[] = {{4, 8}, {4, 4}, {2, 8}, {2, 4}, {2, 2}, {1, 2}, {1, 1}};
    for (uint32_t n = 0; n < sizeof blocks / sizeof *blocks; n++) {
        const Block b = blocks[n];
        if (rows % b.rows == 0 && columns % b.columns == 0 &&
            rows / b.rows * (columns / b.columns) >= lanes)
            return b;
    }
    return (Block){1, 1};
}

/* Lanes that share out so many blocks evenly. */
static int32_t lanes_of(int32_t lanes, int32_t blocks)
{
    const int32_t power = blocks & -blocks;
    return power < lanes ? power : lanes;
}

void warps_passing_layout(Lanes *x, const char *name, int32_t rows, int32_t columns)
{
    enum { VECTOR = 16 };
    const int32_t vector = VECTOR / tile_elem(x->p->operand)->bytes, lanes = x->p->caps->lanes,
                  across = lanes_of(lanes, columns / vector), down = lanes_of(lanes / across, rows);
    tile_layout(x->t, name, tile_text(x->t, "lane:%d@%d reg", down, across),
                tile_text(x->t, "reg:%d lane:%d@1 reg", vector, across));
}

void warps_turned_layout(Lanes *x, const char *name, int32_t rows, int32_t columns)
{
    const int32_t lanes = x->p->caps->lanes;
    const Block b = block_of(lanes, rows, columns);
    const int32_t down = lanes_of(lanes, rows / b.rows),
                  across = lanes_of(lanes / down, columns / b.columns);
    tile_layout(x->t, name, tile_text(x->t, "reg:%d lane:%d@1 reg", b.rows, down),
                tile_text(x->t, "reg:%d lane:%d@%d reg", b.columns, across, down));
}

void warps_pass_tiles(Lanes *x)
{
    tile_set_option(x->t, "together", 1);
    tile_set_option(x->t, "passing", 1);
    tile_set_option(x->t, "late_strides", 1);
}
