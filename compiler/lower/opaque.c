/* opaque.c - fragments whose elements lie nobody knows how (cooperative matrices): memories of space matrix, one matrix of the
 * instruction's extent behind the other, rows of them first.
 *
 * They are filled, loaded, stored, multiplied, and combined element by element with their like or with one number. */
#include "internal.h"

typedef struct Tiles {
    AuCut cut;
    AuMem mem;
} Tiles;

static uint32_t use_of(AuTileUse use)
{
    return use == TILE_A ? AU_MATRIX_A : use == TILE_B ? AU_MATRIX_B : AU_MATRIX_C;
}

/* The matrices of so many rows and columns: one, where that may be. */
static AuCut cut(const AuTileAtom *atom, AuTileUse use, int32_t rows, int32_t columns)
{
    AuCut c = {.height = atom->multiples ? rows : tile_atom_extent(atom, use, 0),
               .width = atom->multiples ? columns : tile_atom_extent(atom, use, 1)};
    c.rows = rows / c.height, c.columns = columns / c.width;
    return c;
}

AuMem lower_matrices(AuLower *l, const char *name, const AuCut *cut, AuTileUse use, AuTileElem elem)
{
    return kernel_memory(l->k, (AuMemory){.name = name,
                                          .space = AU_MATRIX,
                                          .scalar = lower_scalar(elem),
                                          .count = (uint32_t)(cut->rows * cut->columns),
                                          .rows = (uint32_t)cut->height,
                                          .columns = (uint32_t)cut->width,
                                          .use = use_of(use),
                                          .span = l->span});
}

/* The variable's matrices, made at its first use. */
static Tiles tiles_of(AuLower *l, const AuTileVar *var)
{
    const AuTileType *type = var->type;
    AuHeld *held = lower_held(l, var);
    if (!type->opaque) return (Tiles){lower_cut_by_place(l, type), lower_var_matrices(l, var)};
    Tiles t = {.cut = cut(type->opaque, type->use, type->axes[0].size, type->axes[1].size)};
    t.cut.row_axis = type->axes[0].name, t.cut.column_axis = type->axes[1].name;
    if (held->as != HELD_ARRAY)
        *held = (AuHeld){.as = HELD_ARRAY,
                         .mem = lower_matrices(l, var->name, &t.cut, type->use, type->elem)};
    t.mem = held->mem;
    return t;
}

static AuOpaque at(AuLower *l, const Tiles *t, int32_t n)
{
    return (AuOpaque){t->mem, kernel_i32(l->k, n)};
}

/* ---- memory */

/* The matrix whose first element is at that row and column. */
static void move_at(AuLower *l, AuKOp op, AuOpaque matrix, const AuTileExpr *ref, const AuCut *cut,
                    int32_t row, int32_t column)
{
    AuKernel *k = l->k;
    const AuLowerMemory *place = lower_memory(l, ref->memory);
    const uint32_t last = ref->memory->type.count - 1;
    const AuTileType *view = ref->type;
    const bool vector = view->count == 1; /* each row, or column, is this one */
    const bool turned =
        vector ? view->axes[0].name == cut->row_axis : view->axes[1].name == cut->row_axis;
    if (ref->memory->space == TILE_GLOBAL && op == AU_K_MATRIX_LOAD && view->count == 2) {
        lower_matrix_of_tensor(l, matrix, ref, cut, row, column);
        return;
    }
    AuPoint p = {.at = {{.axis = cut->row_axis, .index = kernel_i32(k, row)},
                        {.axis = cut->column_axis, .index = kernel_i32(k, column)}},
                 .count = 2};
    AuVal stride = kernel_i32(k, 0);
    if (!vector) stride = lower_as(l, place->strides[last - 1], AU_I32);
    if (place->swizzle_span > 16 || (view->count != 2 && op == AU_K_MATRIX_STORE) ||
        view->count > 2 || lower_view_axis(ref, last) == NULL ||
        ref->memory->space != TILE_SHARED) {
        lower_refuse(l, "a matrix in memory that lies like %s", ref->memory->name);
        return;
    }
    const AuOpaque memory = {place->mem, lower_address(l, ref, &p, OUTSIDE_TRUSTED, NULL, false)};
    const bool load = op == AU_K_MATRIX_LOAD;
    kernel_matrix_move(k, op, load ? matrix : memory, load ? memory : matrix, stride, turned);
}

void lower_matrix_move(AuLower *l, AuKOp op, AuOpaque matrix, const AuTileExpr *ref,
                       const AuCut *cut, int32_t n)
{
    move_at(l, op, matrix, ref, cut, n / cut->columns * cut->height, n % cut->columns * cut->width);
}

static void move_all(AuLower *l, AuKOp op, const AuTileVar *var, const AuTileExpr *ref)
{
    const Tiles t = tiles_of(l, var);
    for (int32_t n = 0; n < t.cut.rows * t.cut.columns && !l->failed; n++)
        lower_matrix_move(l, op, at(l, &t, n), ref, &t.cut, n);
}

/* ---- the product */

static bool is_matrix(const AuTileExpr *e)
{
    return e->op == TILE_X_NAME && e->var &&
           (e->var->type->opaque || tile_has_places(e->var->type));
}

/* Operand A: loaded matrix by matrix of a column of them, or there already. */
typedef struct Left {
    const AuTileExpr *ref; /* NULL: there */
    Tiles tiles;
} Left;

static AuOpaque left_at(AuLower *l, const Left *left, int32_t row, int32_t depth)
{
    return at(l, &left->tiles, left->ref ? row : row * left->tiles.cut.columns + depth);
}

static void product(AuLower *l, const AuTileStmt *s)
{
    const AuTileAtom *atom = s->product.atom;
    const AuTileExpr *a = s->product.a, *b = s->product.b;
    const char *m = s->var->type->axes[0].name, *n = s->var->type->axes[1].name,
               *k = s->product.contracted;
    const Tiles c = tiles_of(l, s->var);
    if ((a->op != TILE_X_REF && !is_matrix(a)) || b->op != TILE_X_REF || !tile_axis(a->type, m)) {
        lower_refuse(l, "a product of %s whose operands are not in memory", atom->name);
        return;
    }
    const int32_t depth = tile_axis(a->type, k)->size;
    Left left = {.ref = a->op == TILE_X_REF ? a : NULL};
    if (!left.ref) left.tiles = tiles_of(l, a->var);
    if (!left.ref && !a->var->type->opaque) left.tiles.mem = lower_operand_matrices(l, a->var);
    const int32_t deep = atom->multiples ? depth : atom->k;
    Tiles right = {.cut = cut(atom, TILE_B, deep, c.cut.width)};
    right.cut.row_axis = k, right.cut.column_axis = n;
    right.mem = lower_matrices(l, "right", &right.cut, TILE_B, b->type->elem);
    if (left.ref) {
        left.tiles.cut = cut(atom, TILE_A, c.cut.rows * c.cut.height, deep);
        left.tiles.cut.row_axis = m, left.tiles.cut.column_axis = k;
        left.tiles.mem = lower_matrices(l, "left", &left.tiles.cut, TILE_A, a->type->elem);
    }
    for (int32_t i = 0; i < c.cut.rows * c.cut.columns && !s->product.add; i++)
        kernel_matrix_fill(l->k, at(l, &c, i), kernel_f32(l->k, 0));
    for (int32_t d = 0; d < depth && !l->failed; d += deep) {
        for (int32_t i = 0; i < c.cut.rows && left.ref; i++)
            move_at(l, AU_K_MATRIX_LOAD, left_at(l, &left, i, 0), a, &left.tiles.cut,
                    i * c.cut.height, d);
        for (int32_t j = 0; j < c.cut.columns; j++) {
            move_at(l, AU_K_MATRIX_LOAD, at(l, &right, 0), b, &right.cut, d, j * c.cut.width);
            for (int32_t i = 0; i < c.cut.rows; i++)
                kernel_matrix_mul(l->k, at(l, &c, i * c.cut.columns + j),
                                  left_at(l, &left, i, d / deep), at(l, &right, 0));
        }
    }
}

/* ---- element by element */

static AuKOp operation_of(AuTileOp op)
{
    return op == TILE_X_ADD   ? AU_K_ADD
           : op == TILE_X_SUB ? AU_K_SUB
           : op == TILE_X_MUL ? AU_K_MUL
           : op == TILE_X_DIV ? AU_K_DIV
                              : AU_K_NONE;
}

static void assign(AuLower *l, const AuTileStmt *s)
{
    const AuTileExpr *e = tile_assigned(s);
    const AuPoint nowhere = {.count = 0};
    const Tiles to = tiles_of(l, s->var);
    const AuKOp op = operation_of(e->op);
    const bool pair = op != AU_K_NONE && is_matrix(e->args.at[0]) && is_matrix(e->args.at[1]);
    const uint32_t which = op == AU_K_MUL && is_matrix(e->args.at[1]);
    const bool scales = op == AU_K_MUL && !pair && is_matrix(e->args.at[which]) &&
                        !e->args.at[1 - which]->type->count;
    if (!pair && !scales && e->type->count) {
        lower_refuse(l, "this expression of matrices whose elements lie nobody knows how");
        return;
    }
    AuVal factor = {0};
    if (!pair)
        factor = lower_as(l, lower_eval(l, scales ? e->args.at[1 - which] : e, &nowhere), AU_F32);
    for (int32_t n = 0; n < to.cut.rows * to.cut.columns; n++) {
        if (!pair && !scales) {
            kernel_matrix_fill(l->k, at(l, &to, n), factor);
            continue;
        }
        const Tiles x = tiles_of(l, e->args.at[scales ? which : 0]->var);
        if (scales) {
            kernel_matrix_scale(l->k, at(l, &to, n), at(l, &x, n), factor);
            continue;
        }
        const Tiles y = tiles_of(l, e->args.at[1]->var);
        kernel_matrix_map(l->k, op, at(l, &to, n), at(l, &x, n), at(l, &y, n));
    }
}

bool lower_is_of_tensor(const AuTileStmt *s)
{
    const AuTileExpr *e = s->load.source;
    const AuTileElem elem = s->var->type->elem;
    return e->op == TILE_X_REF && e->memory->space == TILE_GLOBAL && !s->load.when &&
           (elem == TILE_F16 || elem == TILE_BF16);
}

bool lower_is_opaque(const AuTileStmt *s)
{
    const bool stores = s->kind == TILE_S_MOVE && s->move.op != TILE_COPY;
    if (stores) return is_matrix(s->move.source) || tile_has_places(s->move.source->type);
    return s->var && s->var->kind == TILE_VALUE &&
           (s->var->type->opaque || tile_has_places(s->var->type));
}

void lower_opaque(AuLower *l, const AuTileStmt *s)
{
    const bool places =
        tile_has_places(s->kind == TILE_S_MOVE ? s->move.source->type : s->var->type);
    if (places && (s->kind == TILE_S_LOAD || s->kind == TILE_S_MOVE))
        lower_move_by_place(l, s);
    else if (s->kind == TILE_S_LOAD && !s->load.pad && !s->load.when)
        move_all(l, AU_K_MATRIX_LOAD, s->var, s->load.source);
    else if (s->kind == TILE_S_MOVE && !s->move.clip && !s->move.when)
        move_all(l, AU_K_MATRIX_STORE, s->move.source->var, s->move.dest);
    else if (s->kind == TILE_S_PRODUCT)
        product(l, s);
    else if (places && s->kind == TILE_S_PART)
        lower_part_by_place(l, s->var);
    else if (places && s->kind == TILE_S_JOIN)
        lower_join_by_place(l, s->var);
    else if (tile_assigned(s))
        assign(l, s);
    else if (s->kind != TILE_S_FRAG)
        lower_refuse(l, "matrices whose elements lie nobody knows how, on their way");
}
