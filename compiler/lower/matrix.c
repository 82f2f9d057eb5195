/* matrix.c - C[m, n] (+)= A[m, k] B[k, n] by the matrix instructions of a warp (mma.sync).
 *
 * In:  C a fragment; A and B fragments or expressions of them, whose axes lie as the instruction has
 * them, or memory. Out: straight code; all sums are values while k runs.
 * Shared memory is read by load_matrix (ldmatrix), two by two tiles of 8 rows of 16 bytes at a
 * time: all of A's rows of a step, or two columns of B. Memory whose last axis is the free one is
 * transposed on the way, if its elements have 16 bits. Lanes' addresses differ from tile to tile by
 * constants. What cannot be read so, other memory or rows that are no multiple of a vector, is read
 * element by element, or by what a lane takes at once where that lies side by side; or, where the machine
 * has loads that lanes turn and the last axis is the free one, piece by piece.
 * Operands are read a little ahead of the products that take them, which hides their way. */
#include "matrix.h"

#include <string.h>

/* ---- operands */

static void in_piece(const MatrixOperand *x, int32_t tile, int32_t part, int32_t i, int32_t *free,
                     int32_t *k)
{
    lower_in_piece(&x->piece, tile, part, i, free, k);
    if (x->crossed) *k = (*k & ~3) + (*k & 1) * 2 + (*k >> 1 & 1);
}

static AuPoint point_of(AuLower *l, const MatrixOperand *x, int32_t tile, int32_t part, int32_t i)
{
    int32_t free, k;
    in_piece(x, tile, part, i, &free, &k);
    return (AuPoint){.at = {lower_coord(l, &x->free_axis, free), lower_coord(l, &x->k_axis, k)},
                     .count = 2};
}

/* Elements that lie side by side in the fragment's array, as one vector; none: they do not. */
static AuVal side_by_side(AuLower *l, const MatrixOperand *x, const AuTileVar *var, int32_t tile,
                          int32_t part)
{
    const AuTileType *type = var->type;
    const AuVal none = {0};
    uint32_t first = 0;
    for (int32_t i = 0; i < matrix_elements(x); i++) {
        int32_t free, k, regs[2];
        in_piece(x, tile, part, i, &free, &k);
        for (uint32_t n = 0; n < 2; n++) regs[n] = type->axes[n].name == x->k_name ? k : free;
        const uint32_t number = lower_register_number(type, regs);
        if (i == 0) first = number;
        if (number != first + (uint32_t)i) return none;
    }
    if (first % (uint32_t)matrix_elements(x) || lower_held(l, var)->as != HELD_ARRAY) return none;
    return kernel_load(l->k, lower_held(l, var)->mem, kernel_i32(l->k, (int32_t)first),
                       (uint32_t)matrix_elements(x), none, none);
}

static bool is_rounding(const AuTileExpr *e)
{
    return e->op == TILE_X_TO_F16 || e->op == TILE_X_TO_BF16;
}

static AuVal from_fragment(AuLower *l, const MatrixOperand *x, int32_t tile, int32_t part)
{
    const AuTileExpr *e = x->e, *inner = is_rounding(e) ? e->args.at[0] : e;
    if (inner->op == TILE_X_NAME && inner->var && inner->var->type->count == 2) {
        const AuVal v = side_by_side(l, x, inner->var, tile, part);
        if (v.i) return inner == e ? v : kernel_cvt(l->k, v, lower_scalar(e->type->elem));
    }
    AuVal v[16];
    for (int32_t i = 0; i < matrix_elements(x); i++) {
        const AuPoint p = point_of(l, x, tile, part, i);
        v[i] = lower_as(l, lower_eval(l, e, &p), lower_scalar(e->type->elem));
    }
    return kernel_vec(l->k, v, (uint32_t)matrix_elements(x));
}

static AuVal from_elements(AuLower *l, const MatrixOperand *x, int32_t tile, int32_t part)
{
    AuVal v[16], none = {0};
    const AuMem mem = lower_memory(l, x->e->memory)->mem;
    const int32_t wide = x->beside;
    for (int32_t i = 0; i < matrix_elements(x); i += wide) {
        const AuPoint p = point_of(l, x, tile, part, i);
        const AuVal all =
            kernel_load(l->k, mem, lower_address(l, x->e, &p, OUTSIDE_TRUSTED, NULL, false),
                        (uint32_t)wide, none, none);
        if (wide == matrix_elements(x)) return all;
        for (int32_t n = 0; n < wide; n++)
            v[i + n] = wide > 1 ? kernel_element(l->k, all, (uint32_t)n) : all;
    }
    return kernel_vec(l->k, v, (uint32_t)matrix_elements(x));
}

/* By loads that lanes turn: a lane names neighbours along the free axis and gets some along the other. */
static AuVal from_pieces(AuLower *l, const MatrixOperand *x, int32_t tile, int32_t part)
{
    AuVal v[16];
    const AuMem mem = lower_memory(l, x->e->memory)->mem;
    const int32_t n = x->pieces;
    for (int32_t i = 0; i < matrix_elements(x); i += n) {
        int32_t free, k;
        lower_in_piece(&x->piece, tile, part, i, &free, &k);
        const AuPoint p = {
            .at = {lower_coord(l, &x->named_free, free * n), lower_coord(l, &x->named_k, k / n)},
            .count = 2};
        const AuVal all = kernel_load_turned(
            l->k, mem, lower_address(l, x->e, &p, OUTSIDE_TRUSTED, NULL, false), (uint32_t)n);
        if (n == matrix_elements(x)) return all;
        for (int32_t e = 0; e < n; e++) v[i + e] = kernel_element(l->k, all, (uint32_t)e);
    }
    return kernel_vec(l->k, v, (uint32_t)matrix_elements(x));
}

/* [first] along the free axis, [k] along the other; 2 or 4 matrices: each lane says where a row
 * begins. Their order is that of the instruction's registers: of A rows first, of B along k first. */
static AuVal ldmatrix_tile(AuLower *l, const MatrixOperand *x, int32_t first, int32_t k_first,
                           uint32_t count)
{
    AuKernel *k = l->k;
    const int32_t vector = MATRIX_VECTOR / tile_elem(x->e->memory->type.elem)->bytes;
    const AuVal lane = kernel_lane(k), one = kernel_i32(k, 1),
                row = kernel_op2(k, AU_K_AND, lane, kernel_i32(k, MATRIX_ROWS - 1));
    const AuVal low = kernel_op2(k, AU_K_AND, kernel_op2(k, AU_K_SHR, lane, kernel_i32(k, 3)), one),
                high =
                    kernel_op2(k, AU_K_AND, kernel_op2(k, AU_K_SHR, lane, kernel_i32(k, 4)), one);
    const AuVal of_free = x->use == TILE_A ? low : high, of_k = x->use == TILE_A ? high : low;
    AuVal free = kernel_op2(k, AU_K_MUL, of_free, kernel_i32(k, MATRIX_ROWS)),
          along = kernel_op2(k, AU_K_MUL, of_k, kernel_i32(k, vector));
    if (x->transposed)
        along = kernel_op2(k, AU_K_ADD, along, row);
    else
        free = kernel_op2(k, AU_K_ADD, free, row);
    const bool steps = lower_has_steps(l, x->e);
    const AuVal start = kernel_i32(k, steps ? 0 : first),
                k_start = kernel_i32(k, steps ? 0 : k_first);
    const AuPoint p = {
        .at = {{.axis = x->free_name, .index = kernel_op2(k, AU_K_ADD, free, start)},
               {.axis = x->k_name, .index = kernel_op2(k, AU_K_ADD, along, k_start)}},
        .count = 2};
    AuVal at = lower_address(l, x->e, &p, OUTSIDE_TRUSTED, NULL, false);
    if (steps)
        at = lower_step(l, x->e, at, x->transposed ? k_first : first,
                        x->transposed ? first : k_first);
    return kernel_load_matrix(k, lower_memory(l, x->e->memory)->mem, at, count, x->transposed);
}

/* Tiles [first, first + count) of an operand along its free axis, in one step: out[tile * parts + part],
 * tiles counted from [first]. */
static void ldmatrix_tiles(AuLower *l, const Matrix *x, const MatrixOperand *o, int32_t first,
                           int32_t count, int32_t step, AuVal *out)
{
    const uint32_t size = (uint32_t)matrix_elements(o);
    const int32_t at_once = o->use == TILE_A ? 1 : 2,
                  rows = o->use == TILE_A ? x->atom->m : x->atom->n;
    for (int32_t t = 0; t < count; t += at_once) {
        const int32_t here = count - t < at_once ? count - t : at_once;
        const AuVal all =
            ldmatrix_tile(l, o, (first + t) * rows, step * x->step, here == at_once ? 4 : 2);
        for (int32_t s = 0; s < here * x->parts; s++)
            out[t * x->parts + s] = kernel_slice(l->k, all, (uint32_t)s * size, size);
    }
}

static void read_tiles(AuLower *l, const Matrix *x, const MatrixOperand *o, int32_t first,
                       int32_t count, int32_t step, AuVal *out)
{
    if (o->by_ldmatrix) {
        ldmatrix_tiles(l, x, o, first, count, step, out);
        return;
    }
    for (int32_t t = 0; t < count; t++)
        for (int32_t s = 0; s < x->parts; s++)
            out[t * x->parts + s] =
                (o->e->op != TILE_X_REF ? from_fragment
                 : o->by_blocks         ? lower_block
                 : o->by_lanes          ? lower_own_elements
                 : o->pieces            ? from_pieces
                                        : from_elements)(l, o, first + t, step * x->parts + s);
}

/* ---- what is asked for, and whether it can be done */

/* Does the index along a dimension of shared memory begin at a multiple of the vector, or count rows? */
static bool suits_ldmatrix(AuLower *l, const Matrix *m, MatrixOperand *x)
{
    const AuTileExpr *e = x->e;
    if (e->op != TILE_X_REF || e->memory->space != TILE_SHARED || e->type->count != 2) return false;
    const AuTileType *type = &e->memory->type;
    const uint32_t last = type->count - 1;
    const int32_t bytes = tile_elem(type->elem)->bytes;
    const AuTileExpr *index = e->has_index ? e->args.at[last] : NULL;
    const AuLowerMemory *place = lower_memory(l, e->memory);
    if (x->use == TILE_A ? m->atom->m != 2 * MATRIX_ROWS : m->atom->n != MATRIX_ROWS) return false;
    if (!kernel_at(l->k, place->by_vectors)->imm || !lower_starts_at(index, MATRIX_VECTOR / bytes))
        return false;
    x->transposed = e->type->axes[1].name == x->free_name;
    return bytes == 2 || !x->transposed;
}

/* How what lanes take of shared memory, whose last axis is the free one, comes by loads that they turn. */
static void choose_pieces(AuLower *l, MatrixOperand *x)
{
    const AuTileCaps *caps = l->module->caps;
    const AuTileExpr *e = x->e;
    const int32_t n = caps->turned;
    x->pieces = 0;
    if (!(caps->loads & TILE_LOADS_TURNED) || e->op != TILE_X_REF || x->turned ||
        e->memory->space != TILE_SHARED || e->type->count != 2 ||
        tile_elem(e->memory->type.elem)->bytes != 2 || x->piece.packed % n ||
        !lower_in_vectors(l, e, x->free_name, n) ||
        !lower_is_known(l, lower_memory(l, e->memory)->by_vectors, true))
        return;
    x->named_free = x->free_axis, x->named_k = x->k_axis;
    x->named_free.places = tile_named_places(l->arena, x->free_axis.places, true, n);
    x->named_k.places = tile_named_places(l->arena, x->k_axis.places, false, n);
    if (x->named_free.places && x->named_k.places) x->pieces = n;
}

static bool prepare_operand(AuLower *l, const Matrix *m, MatrixOperand *x)
{
    const int32_t free_side = x->use == TILE_A ? 0 : 1, k_side = 1 - free_side;
    const AuTileAtom *atom = m->atom;
    x->turned = atom->turns && x->e->op == TILE_X_REF && x->e->type->count == 2 &&
                x->e->type->axes[1].name == x->free_name;
    const AuTilePlaces *(*const places)(AuArena *, const AuTileAtom *, AuTileUse, int, int32_t) =
        x->turned ? tile_turned_places : tile_atom_places;
    x->free_axis =
        (AuTileAxis){.name = x->free_name,
                     .size = x->free_extent,
                     .places = places(l->arena, atom, x->use, free_side, x->free_extent)};
    x->k_axis = (AuTileAxis){.name = x->k_name,
                             .size = x->depth,
                             .places = places(l->arena, atom, x->use, k_side, x->depth)};
    if (!x->free_axis.places || !x->k_axis.places ||
        !lower_piece(l, atom, x->use, x->turned, &x->piece))
        return false;
    x->by_lanes = lower_is_view(l, x);
    x->by_ldmatrix =
        (l->module->caps->loads & TILE_LOADS_MATRIX) && !atom->turns && suits_ldmatrix(l, m, x);
    x->beside = x->by_ldmatrix ? 1 : matrix_beside(l, x, x->k_axis.places);
    return true;
}

/* What the kernel IR calls the atom for these operands. Forms of an instruction follow each other: of B first, then of A. */
static bool find_row(const AuTileAtom *atom, AuScalar scalar, int form, AuMatrix *row)
{
    for (uint32_t n = 0; n < kernel_matrix_count(); n++) {
        const AuMatrixOp op = kernel_matrix((AuMatrix)n);
        *row = (AuMatrix)(n + (uint32_t)form);
        if (tile_same_instruction(op.atom, atom) && op.types[AU_MATRIX_A].scalar == scalar)
            return true;
    }
    return false;
}

/* False: an operand in a tensor that no block is. */
static bool takes_blocks(AuLower *l, MatrixOperand *x)
{
    x->by_blocks = x->e->op == TILE_X_REF && x->e->memory->space == TILE_GLOBAL && !x->by_lanes;
    return !x->by_blocks || lower_takes_blocks(l, x);
}

static bool prepare(AuLower *l, const AuTileStmt *s, Matrix *x)
{
    const AuTileType *c = s->var->type;
    const char *k = s->product.contracted, *m = NULL, *n = NULL;
    for (uint32_t i = 0; i < c->count; i++)
        *(tile_axis(s->product.a->type, c->axes[i].name) ? &m : &n) = c->axes[i].name;
    if (c->count != 2 || !m || !n || s->product.is_async || s->product.dest) return false;
    const AuTileAxis *depth = tile_axis(s->product.a->type, k);
    const int32_t rows = tile_axis(c, m)->size, columns = tile_axis(c, n)->size;
    x->atom = s->product.atom;
    x->depth = depth->size, x->tiles_m = rows / x->atom->m, x->tiles_n = columns / x->atom->n;
    x->a = (MatrixOperand){.e = s->product.a, .use = TILE_A, .free_name = m, .k_name = k};
    x->b = (MatrixOperand){.e = s->product.b, .use = TILE_B, .free_name = n, .k_name = k};
    x->a.free_extent = rows, x->b.free_extent = columns, x->a.depth = x->b.depth = x->depth;
    if (!prepare_operand(l, x, &x->a) || !prepare_operand(l, x, &x->b) ||
        !lower_piece(l, x->atom, TILE_C, false, &x->c) ||
        !find_row(x->atom, lower_scalar(s->product.a->type->elem), x->b.turned + 2 * x->a.turned,
                  &x->row))
        return false;
    if (!matrix_choose_orders(l, x, tile_axis(c, m), tile_axis(c, n))) return false;
    const int32_t both = 2 * MATRIX_VECTOR / tile_elem(s->product.a->type->elem)->bytes;
    if (x->depth % both) x->a.by_ldmatrix = x->b.by_ldmatrix = false;
    choose_pieces(l, &x->a);
    choose_pieces(l, &x->b);
    if (!takes_blocks(l, &x->a) || !takes_blocks(l, &x->b)) return false;
    x->step = x->a.by_ldmatrix || x->b.by_ldmatrix ? both : x->atom->k;
    x->parts = x->step / x->atom->k;
    return true;
}

/* ---- a fragment from shared memory, read as the product would */

/* The atom that the fragment is an operand of: as the statement says, or operand A of the machine's own if it lies so. */
static const AuTileAtom *atom_of_load(AuLower *l, const AuTileStmt *s, AuTileUse *use)
{
    const AuTileType *type = s->var->type;
    const AuTileLayoutRef *layout = &s->load.layout;
    *use = layout->use;
    if (type->count != 2) return NULL;
    if (layout->kind == TILE_OF_ATOM) return layout->use == TILE_C ? NULL : layout->atom;
    const AuTileAtom *atom = tile_best_atom(l->module->caps, type->elem, TILE_ON_WARP);
    *use = TILE_A;
    for (int n = 0; atom && n < 2; n++) {
        const AuTilePlaces *places =
            tile_atom_places(l->arena, atom, TILE_A, n, type->axes[n].size);
        if (!places || !type->axes[n].places || !tile_same_places(places, type->axes[n].places))
            return NULL;
    }
    return atom;
}

bool lower_load_by_ldmatrix(AuLower *l, const AuTileStmt *s)
{
    const AuTileType *type = s->var->type;
    AuTileUse use;
    const AuTileAtom *atom = atom_of_load(l, s, &use);
    if (!atom || !tile_is_of_warp(atom) || s->load.pad || s->load.when ||
        s->load.source->op != TILE_X_REF || type->elem != s->load.source->memory->type.elem)
        return false;
    const uint32_t free = use == TILE_A ? 0 : 1;
    Matrix m = {.atom = atom};
    MatrixOperand o = {.e = s->load.source,
                       .use = use,
                       .free_name = type->axes[free].name,
                       .k_name = type->axes[1 - free].name,
                       .free_extent = type->axes[free].size,
                       .depth = type->axes[1 - free].size};
    if (!prepare_operand(l, &m, &o) || !o.by_ldmatrix) return false;
    m.step = 2 * MATRIX_VECTOR / tile_elem(type->elem)->bytes;
    m.parts = m.step / m.atom->k;
    m.tiles_m = o.free_extent / m.atom->m, m.tiles_n = o.free_extent / m.atom->n;
    if (o.depth % m.step) return false;
    const int32_t tiles = o.use == TILE_A ? m.tiles_m : m.tiles_n;
    AuVal *parts = AU_NEW_ARRAY(l->arena, AuVal, (size_t)(tiles * m.parts) + 1), none = {0};
    for (int32_t step = 0; step < o.depth / m.step; step++) {
        ldmatrix_tiles(l, &m, &o, 0, tiles, step, parts);
        for (int32_t n = 0; n < tiles * m.parts; n++)
            for (int32_t i = 0; i < matrix_elements(&o); i++) {
                int32_t at_free, at_k, regs[2];
                lower_in_piece(&o.piece, n / m.parts, step * m.parts + n % m.parts, i, &at_free,
                               &at_k);
                regs[free] = at_free, regs[1 - free] = at_k;
                kernel_store(l->k, lower_var_array(l, s->var),
                             kernel_i32(l->k, (int32_t)lower_register_number(type, regs)),
                             kernel_element(l->k, parts[n], (uint32_t)i), none);
            }
    }
    return true;
}

/* ---- the product */

/* Where in the array of C element [i] of a tile is. */
static AuVal sum_at(AuLower *l, const Matrix *x, const AuTileType *type, int32_t tile, int32_t i)
{
    int32_t regs[2], row, column;
    lower_in_piece(&x->c, tile % x->tiles_m, tile / x->tiles_m, i, &row, &column);
    if (x->rows) row = x->rows[row];
    if (x->columns) column = x->columns[column];
    for (uint32_t n = 0; n < 2; n++) regs[n] = type->axes[n].name == x->a.free_name ? row : column;
    return kernel_i32(l->k, (int32_t)lower_register_number(type, regs));
}

/* The elements of a tile follow each other in the order of the instruction, but where its operands lie otherwise. */
static AuVal load_sums(AuLower *l, const Matrix *x, const AuTileVar *var, int32_t tile)
{
    const AuVal none = {0};
    const AuMem sums = lower_var_array(l, var);
    const uint32_t width = (uint32_t)lower_piece_elements(&x->c);
    AuVal v[16];
    if (!x->rows && !x->columns)
        return kernel_load(l->k, sums, sum_at(l, x, var->type, tile, 0), width, none, none);
    for (uint32_t i = 0; i < width; i++)
        v[i] = kernel_load(l->k, sums, sum_at(l, x, var->type, tile, (int32_t)i), 1, none, none);
    return kernel_vec(l->k, v, width);
}

static void store_sums(AuLower *l, const Matrix *x, const AuTileVar *var, int32_t tile, AuVal all)
{
    const AuVal none = {0};
    const AuMem sums = lower_var_array(l, var);
    const int32_t width = lower_piece_elements(&x->c);
    if (!x->rows && !x->columns) {
        kernel_store(l->k, sums, sum_at(l, x, var->type, tile, 0), all, none);
        return;
    }
    for (int32_t i = 0; i < width; i++)
        kernel_store(l->k, sums, sum_at(l, x, var->type, tile, i),
                     kernel_element(l->k, all, (uint32_t)i), none);
}

static AuVal zeros(AuLower *l, uint32_t count)
{
    AuVal all[16]; /* what a vector holds */
    for (uint32_t i = 0; i < count; i++) all[i] = kernel_f32(l->k, 0);
    return kernel_vec(l->k, all, count);
}

/* The order of the work: step by step along k, in a step columns by pairs. What the next pair takes
 * of B is read before the products of this one, what the next step takes of A before its last ones; blocks that
 * lanes gather, which nothing hides anyway, right before their own. */
static void products(AuLower *l, const Matrix *x, AuVal *c)
{
    const int32_t steps = x->depth / x->step, pairs = (x->tiles_n + 1) / 2,
                  of_a = x->tiles_m * x->parts, ahead = x->b.by_blocks && !l->r.by_blocks ? 0 : 1;
    AuVal *const a = AU_NEW_ARRAY(l->arena, AuVal, (size_t)of_a * 2 + 1);
    AuVal b[2][8];
    for (int32_t u = -ahead; u < steps * pairs; u++) {
        const int32_t next = u + ahead, of = next / pairs, pair = next % pairs * 2;
        if (next < steps * pairs) {
            const int32_t count = x->tiles_n - pair < 2 ? 1 : 2;
            if (pair == 0) read_tiles(l, x, &x->a, 0, x->tiles_m, of, a + of % 2 * of_a);
            read_tiles(l, x, &x->b, pair, count, of, b[next % 2]);
        }
        if (u < 0) continue;
        const AuVal *const rows = a + u / pairs % 2 * of_a;
        for (int32_t n = u % pairs * 2; n < x->tiles_n && n < u % pairs * 2 + 2; n++)
            for (int32_t s = 0; s < x->parts; s++)
                for (int32_t m = 0; m < x->tiles_m; m++) {
                    AuVal *sum = &c[n * x->tiles_m + m];
                    *sum = kernel_mma(l->k, x->row, *sum, rows[m * x->parts + s],
                                      b[u % 2][n % 2 * x->parts + s]);
                }
    }
}

/* Around the products of a statement: first of its processor, in front of them; a border behind them. */
static void give_hints(AuLower *l, bool before)
{
    const uint32_t hints = (uint32_t)l->module->options.hints;
    if (hints & TILE_HINTS_PRIORITY)
        kernel_hint(l->k, before ? KERNEL_HINT_FIRST : KERNEL_HINT_IN_TURN);
    if (!before && hints & TILE_HINTS_BORDER) kernel_hint(l->k, KERNEL_HINT_BORDER);
}

static void add_products(AuLower *l, const AuTileStmt *s, const Matrix *x)
{
    const int32_t count = x->tiles_m * x->tiles_n;
    AuVal *c = AU_NEW_ARRAY(l->arena, AuVal, (size_t)count + 1);
    const AuVal none = {0},
                zero = s->product.add ? none : zeros(l, (uint32_t)lower_piece_elements(&x->c));
    for (int32_t i = 0; i < count; i++) c[i] = s->product.add ? load_sums(l, x, s->var, i) : zero;
    give_hints(l, true);
    products(l, x, c);
    give_hints(l, false);
    for (int32_t i = 0; i < count; i++) store_sums(l, x, s->var, i, c[i]);
}

/* Operands straight from tensors. Strides of elements that are tested are made beside them: that way is seldom taken, and has no room in registers. */
static void add_products_of_views(AuLower *l, const AuTileStmt *s, Matrix *x, bool tested)
{
    MatrixOperand *const of[] = {&x->a, &x->b};
    AuStrides known[2];
    for (int n = 0; n < 2; n++) {
        if (of[n]->by_lanes && tested) known[n] = lower_strides_late(l, of[n]->e);
        if (of[n]->by_lanes) lower_begin_view(l, of[n], tested);
    }
    add_products(l, s, x);
    for (int n = 2; n-- > 0;) /* the other way round: both may be of one tensor */
        if (of[n]->by_lanes && tested) lower_strides_again(l, of[n]->e, &known[n]);
}

void lower_matrix_product(AuLower *l, const AuTileStmt *s)
{
    Matrix x = {0};
    if (!prepare(l, s, &x)) {
        lower_refuse(l, "this product by %s", s->product.atom->name);
        return;
    }
    if (!x.a.by_lanes && !x.b.by_lanes) {
        add_products(l, s, &x);
        return;
    }
    AuVal whole = {0};
    if (x.a.by_lanes) whole = lower_is_whole_view(l, &x.a);
    if (x.b.by_lanes) whole = lower_both(l, whole, lower_is_whole_view(l, &x.b));
    kernel_if(l->k, whole);
    add_products_of_views(l, s, &x, false);
    kernel_else(l->k);
    add_products_of_views(l, s, &x, true);
    kernel_end(l->k);
}
