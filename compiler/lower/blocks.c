/* blocks.c - operands of products that come straight from tensors, for machines that load blocks of a matrix by coordinates (TILE_LOADS_BLOCK), or
 * whole matrices that lie nobody knows how (TILE_LOADS_TENSOR).
 *
 * The two dimensions of a view that are no scalars are a surface: the last one its columns, the other one its rows, and it begins where the scalars
 * say. What is before the view's limits or behind them is outside of the surface, and 0, so that no lane tests an index. A surface must be aligned as
 * the unit wants it, which the launch decides: so a program whose products take such operands exists twice (lower.c), once by the unit, and
 * once by loads of the lanes' own, of any surface. */
#include "matrix.h"

#include "aule/artifact.h"

/* ---- surfaces */

/* Dimensions of rows and columns of the view's memory; false: others than scalars are beside them, or there are no two. */
static bool find_dimensions(const AuTileExpr *ref, uint32_t *rows, uint32_t *columns)
{
    uint32_t found = 0, count = ref->memory->type.count;
    for (uint32_t n = 0; n < count; n++) {
        const AuTileExpr *index = ref->has_index ? ref->args.at[n] : NULL;
        const bool spans = !index || index->op == TILE_X_ALL || index->op == TILE_X_SPAN;
        if (!spans && index->type->count) return false;
        if (!spans) continue;
        *(found++ ? columns : rows) = n;
    }
    return found == 2 && *columns == count - 1;
}

/* Does the surface begin at a multiple of so many bytes, and its rows at one of as many, as the launch passes them? */
static AuVal is_aligned(AuLower *l, const AuTileExpr *ref, uint32_t rows, uint32_t columns,
                        int32_t align, int32_t apart)
{
    AuKernel *k = l->k;
    const AuLowerMemory *place = lower_memory(l, ref->memory);
    const AuVal bytes = kernel_i64(k, tile_elem(ref->memory->type.elem)->bytes),
                zero = kernel_i64(k, 0),
                pitch = kernel_op2(k, AU_K_MUL, place->strides[rows], bytes);
    const bool cut = lower_begin(l, ref, rows).i != 0;
    AuVal whole = place->address;
    for (uint32_t n = 0; n < columns; n++)
        if (n != rows || cut)
            whole =
                kernel_op2(k, AU_K_OR, whole, kernel_op2(k, AU_K_MUL, place->strides[n], bytes));
    const AuVal lines = kernel_op2(k, AU_K_AND, whole, kernel_i64(k, align - 1)),
                parts = kernel_op2(k, AU_K_AND, pitch, kernel_i64(k, apart - 1));
    return lower_both(l, kernel_op2(k, AU_K_EQ, lines, zero), kernel_op2(k, AU_K_EQ, parts, zero));
}

/* Rows that lie beside each other, neither too long nor too many. */
static AuVal is_in_range(AuLower *l, const AuTileExpr *ref, uint32_t rows, uint32_t columns)
{
    AuKernel *k = l->k;
    const AuLowerMemory *place = lower_memory(l, ref->memory);
    const int32_t bytes = tile_elem(ref->memory->type.elem)->bytes;
    const AuVal width = lower_as(l, place->extents[columns], AU_I64), pitch = place->strides[rows],
                least = kernel_i64(k, AU_BLOCK_ALIGN / bytes),
                most = kernel_i64(k, AU_BLOCK_MOST / bytes);
    AuVal good = kernel_op2(k, AU_K_EQ, place->strides[columns], kernel_i64(k, 1));
    good = lower_both(l, good, kernel_op2(k, AU_K_LE, least, width));
    good = lower_both(l, good, kernel_op2(k, AU_K_LE, width, pitch));
    good = lower_both(l, good, kernel_op2(k, AU_K_LE, pitch, most));
    return lower_both(l, good,
                      kernel_op2(k, AU_K_LE, place->extents[rows], kernel_i32(k, AU_BLOCK_MOST)));
}

/* The same where units count elements in 32 bits, and take as many rows of any length. */
static AuVal is_countable(AuLower *l, const AuTileExpr *ref, uint32_t rows, uint32_t columns)
{
    AuKernel *k = l->k;
    const AuLowerMemory *place = lower_memory(l, ref->memory);
    const AuVal pitch = place->strides[rows], most = kernel_i64(k, AU_TENSOR_MOST),
                width = lower_as(l, place->extents[columns], AU_I64),
                all = kernel_op2(k, AU_K_MUL, lower_as(l, place->extents[rows], AU_I64), pitch);
    AuVal good = kernel_op2(k, AU_K_EQ, place->strides[columns], kernel_i64(k, 1));
    good = lower_both(l, good, kernel_op2(k, AU_K_LE, width, pitch));
    good = lower_both(l, good, kernel_op2(k, AU_K_LE, pitch, most));
    return lower_both(l, good, kernel_op2(k, AU_K_LE, all, most));
}

/* Can loads of whole matrices see the view as a surface: i1; none: they never can. */
static AuVal suits_matrices(AuLower *l, const AuTileExpr *ref)
{
    uint32_t rows, columns;
    const AuLowerMemory *place = lower_memory(l, ref->memory);
    if (tile_elem(ref->memory->type.elem)->bytes != 2 || !place->address.i || place->packed ||
        !find_dimensions(ref, &rows, &columns))
        return (AuVal){0};
    return lower_both(l, is_aligned(l, ref, rows, columns, AU_TENSOR_ALIGN, 1),
                      is_countable(l, ref, rows, columns));
}

/* Can the unit see the view as a surface: i1; none: it never can. */
static AuVal suits(AuLower *l, const AuTileExpr *ref)
{
    uint32_t rows, columns;
    const AuVal none = {0};
    if (l->module->caps->loads & TILE_LOADS_TENSOR) return suits_matrices(l, ref);
    const AuTileMemory *m = ref->memory;
    const AuLowerMemory *place = lower_memory(l, m);
    enum { EVEN = 2 };
    if (!(l->module->caps->loads & TILE_LOADS_BLOCK) || l->k->lanes != AU_BLOCK_LANES ||
        tile_elem(m->type.elem)->bytes != 2 || !place->address.i || place->packed ||
        place->present.i || !find_dimensions(ref, &rows, &columns) || !m->type.axes[columns].size ||
        m->type.axes[columns].size % EVEN ||
        !lower_starts_at(ref->has_index ? ref->args.at[columns] : NULL, EVEN))
        return none;
    return lower_both(l, is_aligned(l, ref, rows, columns, AU_BLOCK_ALIGN, AU_BLOCK_PITCH),
                      is_in_range(l, ref, rows, columns));
}

typedef struct Surface {
    AuSurface of;
    AuVal begin; /* of the limits; none: there is nothing before */
    uint32_t rows, columns;
} Surface;

static Surface surface_of(AuLower *l, const AuTileExpr *ref, bool by_unit)
{
    AuKernel *k = l->k;
    const AuLowerMemory *place = lower_memory(l, ref->memory);
    const AuPoint nowhere = {.count = 0};
    Surface x = {.of = {.mem = place->mem, .first = kernel_i64(k, 0)}};
    find_dimensions(ref, &x.rows, &x.columns);
    x.begin = lower_begin(l, ref, x.rows);
    for (uint32_t n = 0; n < ref->memory->type.count; n++) {
        if (n == x.columns || (n == x.rows && !x.begin.i)) continue;
        const AuVal at = n == x.rows ? x.begin : lower_position(l, ref, n, &nowhere);
        x.of.first =
            kernel_op2(k, AU_K_ADD, x.of.first,
                       kernel_op2(k, AU_K_MUL, lower_as(l, at, AU_I64), place->strides[n]));
    }
    x.of.columns = place->extents[x.columns];
    x.of.pitch = place->strides[x.rows];
    if (by_unit)
        x.of.pitch = lower_as(l, x.of.pitch, AU_I32);
    else
        x.of.step = place->strides[x.columns];
    x.of.rows = lower_end(l, ref, x.rows);
    if (x.begin.i) x.of.rows = kernel_op2(k, AU_K_SUB, x.of.rows, x.begin);
    return x;
}

/* Row and column of the surface that are so many behind the view's first. */
static void place_in(AuLower *l, const AuTileExpr *ref, const Surface *x, int32_t row,
                     int32_t column, AuVal *at_row, AuVal *at_column)
{
    const AuPoint p = {
        .at = {{.axis = lower_view_axis(ref, x->rows), .index = kernel_i32(l->k, row)},
               {.axis = lower_view_axis(ref, x->columns), .index = kernel_i32(l->k, column)}},
        .count = 2};
    *at_row = lower_position(l, ref, x->rows, &p);
    *at_column = lower_position(l, ref, x->columns, &p);
    if (x->begin.i) *at_row = kernel_op2(l->k, AU_K_SUB, *at_row, x->begin);
}

/* ---- matrices that lie nobody knows how */

void lower_matrix_of_tensor(AuLower *l, AuOpaque matrix, const AuTileExpr *ref, const AuCut *cut,
                            int32_t row, int32_t column)
{
    AuKernel *k = l->k;
    const AuLowerMemory *place = lower_memory(l, ref->memory);
    const AuVal none = kernel_i32(k, 0);
    AuVal at_row, at_column;
    uint32_t rows, columns;
    if (place->packed || !find_dimensions(ref, &rows, &columns)) {
        lower_refuse(l, "a matrix in a tensor that is read like %s", ref->memory->name);
        return;
    }
    Surface s = surface_of(l, ref, l->r.by_blocks);
    const bool turned = lower_view_axis(ref, columns) == cut->row_axis;
    place_in(l, ref, &s, turned ? column : row, turned ? row : column, &at_row, &at_column);
    s.of.rows = kernel_op2(k, AU_K_MAX, s.of.rows, none);
    if (place->present.i) s.of.rows = kernel_op3(k, AU_K_SELECT, place->present, s.of.rows, none);
    kernel_matrix_block(k, matrix, &s.of, at_column, at_row, turned);
}

/* ---- operands */

/* Along an axis: do its lanes have as many indices side by side, one each? */
static bool goes_along_lanes(const AuTilePlaces *places)
{
    const AuTileDigit *first = places->digits.at;
    return places->digits.count && first->unit == TILE_UNIT_LANE && first->size == AU_BLOCK_LANES &&
           first->stride == 1;
}

/* Are the registers that a lane has of one instruction side by side? */
static bool goes_along_registers(const AuTilePlaces *places, int32_t count)
{
    for (int32_t n = 0; n < count; n++)
        if (tile_axis_offset(places, n) != n) return false;
    return true;
}

bool lower_takes_blocks(AuLower *l, const MatrixOperand *x)
{
    enum { OF_COLUMN = 8, BOTH = 16 };
    const int32_t all = matrix_elements(x);
    uint32_t rows, columns;
    if (l->k->lanes != AU_BLOCK_LANES || tile_elem(x->e->memory->type.elem)->bytes != 2 ||
        lower_memory(l, x->e->memory)->present.i || x->turned || x->crossed ||
        (x->piece.free != 1 && x->piece.k != 1) || (all != OF_COLUMN && all != BOTH) ||
        !find_dimensions(x->e, &rows, &columns))
        return false;
    const bool k_in_lanes = x->piece.k == 1;
    const AuTilePlaces *lanes = k_in_lanes ? x->k_axis.places : x->free_axis.places,
                       *registers = k_in_lanes ? x->free_axis.places : x->k_axis.places;
    const char *in_lanes = k_in_lanes ? x->k_name : x->free_name;
    return goes_along_lanes(lanes) && goes_along_registers(registers, all) &&
           (lower_view_axis(x->e, columns) == in_lanes || all == BOTH);
}

AuVal lower_block(AuLower *l, const MatrixOperand *x, int32_t tile, int32_t part)
{
    int32_t free, k;
    AuVal row, column;
    const Surface s = surface_of(l, x->e, l->r.by_blocks);
    const bool rows_are_free = lower_view_axis(x->e, s.rows) == x->free_name,
               rows_are_lanes = rows_are_free == (x->piece.free == 1);
    lower_in_piece(&x->piece, tile, part, 0, &free, &k);
    free = tile_axis_offset(x->free_axis.places, free), k = tile_axis_offset(x->k_axis.places, k);
    place_in(l, x->e, &s, rows_are_free ? free : k, rows_are_free ? k : free, &row, &column);
    return kernel_block_load(l->k, &s.of, column, row, (uint32_t)matrix_elements(x),
                             rows_are_lanes);
}

/* ---- fragments that are operands, loaded once */

static bool is_operand(AuLower *l, const AuTileStmt *s, MatrixOperand *x)
{
    const AuTileLayoutRef *layout = &s->load.layout;
    const AuTileExpr *e = s->load.source;
    const AuTileType *type = s->var->type;
    if (layout->kind != TILE_OF_ATOM || layout->use == TILE_C || type->count != 2 ||
        e->op != TILE_X_REF || e->memory->space != TILE_GLOBAL || e->memory->mode != TILE_IN ||
        s->load.when || !s->load.pad || !lower_is_zero(s->load.pad) || s->load.halves ||
        e->memory->type.elem != type->elem || !tile_is_of_warp(layout->atom))
        return false;
    const uint32_t free = layout->use == TILE_A ? 0 : 1;
    *x = (MatrixOperand){.e = e,
                         .use = layout->use,
                         .free_name = type->axes[free].name,
                         .k_name = type->axes[1 - free].name,
                         .free_extent = type->axes[free].size,
                         .depth = type->axes[1 - free].size,
                         .free_axis = type->axes[free],
                         .k_axis = type->axes[1 - free]};
    return lower_piece(l, layout->atom, layout->use, false, &x->piece) && lower_takes_blocks(l, x);
}

bool lower_load_by_blocks(AuLower *l, const AuTileStmt *s)
{
    MatrixOperand x;
    const AuVal none = {0};
    const AuTileType *type = s->var->type;
    if (!l->r.of_surfaces || !is_operand(l, s, &x)) return false;
    const uint32_t free = x.use == TILE_A ? 0 : 1;
    const int32_t tiles = tile_axis_registers(x.free_axis.places) / x.piece.free,
                  parts = tile_axis_registers(x.k_axis.places) / x.piece.k;
    for (int32_t n = 0; n < tiles * parts; n++) {
        const AuVal all = lower_block(l, &x, n / parts, n % parts);
        for (int32_t i = 0; i < matrix_elements(&x); i++) {
            int32_t at_free, at_k, regs[2];
            lower_in_piece(&x.piece, n / parts, n % parts, i, &at_free, &at_k);
            regs[free] = at_free, regs[1 - free] = at_k;
            kernel_store(l->k, lower_var_array(l, s->var),
                         kernel_i32(l->k, (int32_t)lower_register_number(type, regs)),
                         kernel_element(l->k, all, (uint32_t)i), none);
        }
    }
    return true;
}

/* ---- what a program asks */

static AuVal all_suit(AuLower *l, const AuTileStmts *body, AuVal so_far, bool *never);

static AuVal also_suits(AuLower *l, const AuTileExpr *e, AuVal so_far, bool *never)
{
    const AuVal here = suits(l, e);
    *never = *never || !here.i;
    return here.i ? lower_both(l, so_far, here) : so_far;
}

static AuVal statement_suits(AuLower *l, const AuTileStmt *s, AuVal so_far, bool *never)
{
    MatrixOperand x;
    if (s->kind == TILE_S_LOAD &&
        (lower_is_opaque(s) ? lower_is_of_tensor(s) : is_operand(l, s, &x)))
        return also_suits(l, s->load.source, so_far, never);
    if (s->kind != TILE_S_PRODUCT || !tile_is_of_warp(s->product.atom)) return so_far;
    for (uint32_t side = 0; side < 2; side++) {
        const AuTileExpr *e = side ? s->product.b : s->product.a;
        if (e->op == TILE_X_REF && e->memory->space == TILE_GLOBAL)
            so_far = also_suits(l, e, so_far, never);
    }
    return so_far;
}

static AuVal all_suit(AuLower *l, const AuTileStmts *body, AuVal so_far, bool *never)
{
    for (uint32_t n = 0; n < body->count && !*never; n++) {
        const AuTileParts parts = tile_parts(body->at[n]);
        for (uint32_t part = 0; part < parts.body_count; part++)
            so_far = all_suit(l, parts.bodies[part], so_far, never);
        so_far = statement_suits(l, body->at[n], so_far, never);
    }
    return so_far;
}

/* Does a product take an operand from a tensor? */
static bool takes_tensors(const AuTileStmts *body)
{
    for (uint32_t n = 0; n < body->count; n++) {
        const AuTileStmt *s = body->at[n];
        const AuTileParts parts = tile_parts(body->at[n]);
        for (uint32_t part = 0; part < parts.body_count; part++)
            if (takes_tensors(parts.bodies[part])) return true;
        if (s->kind != TILE_S_PRODUCT || !tile_is_of_warp(s->product.atom)) continue;
        const AuTileExpr *const both[] = {s->product.a, s->product.b};
        for (uint32_t side = 0; side < 2; side++)
            if (both[side]->op == TILE_X_REF && both[side]->memory->space == TILE_GLOBAL)
                return true;
    }
    return false;
}

AuVal lower_blocks_suit(AuLower *l, const AuTileStmts *body, bool *any)
{
    const AuVal none = {0};
    bool never = false;
    *any = tile_takes_surfaces(l->module->caps) && takes_tensors(body);
    if (!*any) return none;
    const AuVal suit = all_suit(l, body, none, &never);
    return never || !suit.i || lower_is_known(l, suit, false) ? none : suit;
}

/* ---- what will be loaded soon */

void lower_blocks_ahead(AuLower *l, const AuTileStmt *s)
{
    const AuTileExpr *view = s->ahead.view;
    uint32_t rows, columns;
    if (!l->r.by_blocks || !suits(l, view).i || !find_dimensions(view, &rows, &columns)) return;
    AuKernel *k = l->k;
    Surface x = surface_of(l, view, true);
    const int32_t height = view->type->axes[0].size, width = view->type->axes[1].size;
    int32_t step = 32;
    while (step > 8 && height % step) step /= 2;
    x.of.rows = kernel_op2(k, AU_K_MAX, x.of.rows, kernel_i32(k, 1));
    for (int32_t row = 0; row < height; row += step)
        for (int32_t column = 0; column < width; column += AU_BLOCK_COLUMNS) {
            AuVal at_row, at_column;
            place_in(l, view, &x, row, column, &at_row, &at_column);
            kernel_block_ahead(k, &x.of, at_column, at_row, (uint32_t)step);
        }
}
