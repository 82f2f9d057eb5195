/* matrix_order.c - in what order lanes take the operands of a product by matrix instructions: along the contracted axis any order does that both have,
 * along the others one that the sums have, too. */
#include "matrix.h"

int32_t matrix_beside(AuLower *l, const MatrixOperand *x, const AuTilePlaces *k)
{
    const int32_t all = matrix_elements(x), run = lower_neighbours(k);
    const bool along_k = x->piece.packed == all;
    if (x->e->op != TILE_X_REF || (!along_k && x->piece.free < all)) return 1;
    const int32_t wide = along_k && run < all ? run : all;
    return lower_in_vectors(l, x->e, along_k ? x->k_name : x->free_name, wide) &&
                   (x->by_lanes || /* the launch decides (own_loads.c) */
                    lower_is_known(l, lower_memory(l, x->e->memory)->by_vectors, true))
               ? wide
               : 1;
}

/* The order of the contracted axis, common to both operands: the instruction's own, unless a fragment lies otherwise; or, if
 * nothing is read by ldmatrix, that of the columns of C, in which a lane reads neighbours and lanes meet on no bank. */
static void choose_order(AuLower *l, Matrix *x)
{
    const AuTilePlaces *columns = tile_atom_places(l->arena, x->atom, TILE_C, 1, x->depth);
    const MatrixOperand *of = x->a.e->op == TILE_X_REF && x->b.e->op != TILE_X_REF ? &x->b : &x->a;
    const bool fragment = of->e->op != TILE_X_REF;
    const AuTileAxis *k = fragment ? tile_axis(of->e->type, of->k_name) : NULL;
    if (x->a.by_ldmatrix || x->b.by_ldmatrix || !columns ||
        !tile_contraction_matches(x->atom, columns, NULL, x->depth))
        columns = NULL;
    const AuTilePlaces *order = fragment ? (k ? k->places : NULL) : columns;
    if (!order || tile_same_places(order, of->k_axis.places)) return;
    x->a.k_axis.places = x->b.k_axis.places = order;
    x->a.by_ldmatrix = x->b.by_ldmatrix = false;
    x->a.beside = matrix_beside(l, &x->a, order), x->b.beside = matrix_beside(l, &x->b, order);
}

static bool comes_by_halves(AuLower *l, const MatrixOperand *x)
{
    return x->e->op == TILE_X_NAME && x->e->var && lower_held(l, x->e->var)->by_halves &&
           tile_axis_registers(x->k_axis.places) % 4 == 0 &&
           lower_neighbours(x->k_axis.places) % 4 == 0;
}

/* The lower halves of two bytes become a register's two numbers together, as do the upper ones: so that none changes its place, products take the
 * channels in that order. */
static void cross(AuLower *l, Matrix *x)
{
    if (x->a.e->op == TILE_X_REF || x->b.e->op == TILE_X_REF) return;
    x->a.crossed = x->b.crossed = comes_by_halves(l, &x->a) || comes_by_halves(l, &x->b);
}

/* Does the operand lie as the product takes it? Memory is read so. */
static bool is_in_place(const MatrixOperand *x)
{
    if (x->e->op == TILE_X_REF) return true;
    const AuTileAxis *k = tile_axis(x->e->type, x->k_name),
                     *free = tile_axis(x->e->type, x->free_name);
    return k && free && k->places && free->places &&
           tile_same_places(k->places, x->k_axis.places) &&
           tile_same_places(free->places, x->free_axis.places);
}

/* Along a free axis that lies as the operand's, other than the instruction has it: which register of the sums each of the instruction's is. Of
 * those that the operand has in the same lanes the first is the first, and so on. */
static const int32_t *registers_of_sums(AuLower *l, const Matrix *x, const MatrixOperand *o,
                                        const AuTileAxis *sums)
{
    const int side = o->use == TILE_A ? 0 : 1;
    const AuTilePlaces *own = tile_atom_places(l->arena, x->atom, TILE_C, side, sums->size),
                       *operand = tile_atom_places(l->arena, x->atom, o->use, side, sums->size),
                       *lies = o->free_axis.places;
    const int32_t count = tile_axis_registers(own);
    int32_t *out = AU_NEW_ARRAY(l->arena, int32_t, (size_t)count + 1);
    bool *taken = AU_NEW_ARRAY(l->arena, bool, (size_t)count + 1);
    for (int32_t q = 0; q < count; q++) {
        const int32_t place = operand->place[tile_axis_offset(own, q)];
        int32_t r = 0;
        while (r < count && (taken[r] || lies->place[tile_axis_offset(sums->places, r)] != place))
            r++;
        if (r == count) return NULL;
        taken[r] = true, out[q] = r;
    }
    return out;
}

/* A fragment's own order along its free axis, which the sums have, too; false: they have not. */
static bool choose_free_order(AuLower *l, const Matrix *x, MatrixOperand *o, const AuTileAxis *sums,
                              const int32_t **registers)
{
    const AuTileAxis *own = o->e->op == TILE_X_REF ? NULL : tile_axis(o->e->type, o->free_name);
    if (!own || !own->places || tile_same_places(own->places, o->free_axis.places)) return true;
    o->free_axis.places = own->places;
    *registers = registers_of_sums(l, x, o, sums);
    return *registers != NULL;
}

bool matrix_choose_orders(AuLower *l, Matrix *x, const AuTileAxis *rows, const AuTileAxis *columns)
{
    choose_order(l, x);
    if (!choose_free_order(l, x, &x->a, rows, &x->rows) ||
        !choose_free_order(l, x, &x->b, columns, &x->columns) || !is_in_place(&x->a) ||
        !is_in_place(&x->b))
        return false;
    cross(l, x);
    return true;
}
