/* opaque.c - fragments whose elements lie nobody knows how (cooperative matrices): memories of space matrix, one matrix of the
 * instruction's extent behind the other, rows of them first.
 *
 * They are filled, loaded, stored, multiplied, and combined element by element with their like or with one number. */
#include "internal.h"

typedef struct Tiles {
    const AuTileAtom *atom;
    AuMem mem;
    int32_t rows, columns; /* of matrices */
    int32_t height, width; /* of one */
} Tiles;

static uint32_t use_of(AuTileUse use)
{
    return use == TILE_A ? AU_MATRIX_A : use == TILE_B ? AU_MATRIX_B : AU_MATRIX_C;
}

/* The matrices of so many rows and columns; their memory is not set. */
static Tiles cut(const AuTileAtom *atom, AuTileUse use, int32_t rows, int32_t columns)
{
    Tiles t = {.atom = atom,
               .height = tile_atom_extent(atom, use, 0),
               .width = tile_atom_extent(atom, use, 1)};
    t.rows = rows / t.height, t.columns = columns / t.width;
    return t;
}

static Tiles new_tiles(AuLower *l, const char *name, const AuTileAtom *atom, AuTileUse use,
                       AuTileElem elem, int32_t rows, int32_t columns)
{
    Tiles t = cut(atom, use, rows, columns);
    t.mem = kernel_memory(l->k, (AuMemory){.name = name,
                                           .space = AU_MATRIX,
                                           .scalar = lower_scalar(elem),
                                           .count = (uint32_t)(t.rows * t.columns),
                                           .rows = (uint32_t)t.height,
                                           .columns = (uint32_t)t.width,
                                           .use = use_of(use),
                                           .span = l->span});
    return t;
}

/* The variable's matrices, made at its first use. */
static Tiles tiles_of(AuLower *l, const AuTileVar *var)
{
    const AuTileType *type = var->type;
    AuHeld *held = lower_held(l, var);
    const int32_t rows = type->axes[0].size, columns = type->axes[1].size;
    Tiles t = cut(type->opaque, type->use, rows, columns);
    if (held->as != HELD_ARRAY)
        *held = (AuHeld){
            .as = HELD_ARRAY,
            .mem = new_tiles(l, var->name, t.atom, type->use, type->elem, rows, columns).mem};
    t.mem = held->mem;
    return t;
}

static AuOpaque at(AuLower *l, const Tiles *t, int32_t n)
{
    return (AuOpaque){t->mem, kernel_i32(l->k, n)};
}

/* ---- memory: the matrix at that row and column, whose axes are called so */

static void move(AuLower *l, AuKOp op, const Tiles *t, int32_t n, const AuTileExpr *ref,
                 const char *row_name, const char *column_name, int32_t row, int32_t column)
{
    AuKernel *k = l->k;
    const AuLowerMemory *place = lower_memory(l, ref->memory);
    const uint32_t last = ref->memory->type.count - 1;
    const AuTileType *view = ref->type;
    const bool vector = view->count == 1; /* each row, or column, is this one */
    const bool turned = vector ? view->axes[0].name == row_name : view->axes[1].name == row_name;
    AuPoint p = {.at = {{.axis = row_name, .index = kernel_i32(k, row)},
                        {.axis = column_name, .index = kernel_i32(k, column)}},
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
    kernel_matrix_move(k, op, load ? at(l, t, n) : memory, load ? memory : at(l, t, n), stride,
                       turned);
}

static void move_all(AuLower *l, AuKOp op, const AuTileVar *var, const AuTileExpr *ref)
{
    const Tiles t = tiles_of(l, var);
    const AuTileAxis *axes = var->type->axes;
    for (int32_t n = 0; n < t.rows * t.columns && !l->failed; n++)
        move(l, op, &t, n, ref, axes[0].name, axes[1].name, n / t.columns * t.height,
             n % t.columns * t.width);
}

/* ---- the product */

static void product(AuLower *l, const AuTileStmt *s)
{
    const AuTileAtom *atom = s->product.atom;
    const AuTileExpr *a = s->product.a, *b = s->product.b;
    const char *m = s->var->type->axes[0].name, *n = s->var->type->axes[1].name,
               *k = s->product.contracted;
    const Tiles c = tiles_of(l, s->var);
    if (a->op != TILE_X_REF || b->op != TILE_X_REF || !tile_axis(a->type, m)) {
        lower_refuse(l, "a product of %s whose operands are not in memory", atom->name);
        return;
    }
    const int32_t depth = tile_axis(a->type, k)->size;
    const Tiles left =
                    new_tiles(l, "left", atom, TILE_A, a->type->elem, c.rows * c.height, atom->k),
                right = new_tiles(l, "right", atom, TILE_B, b->type->elem, atom->k, c.width);
    for (int32_t i = 0; i < c.rows * c.columns && !s->product.add; i++)
        kernel_matrix_fill(l->k, at(l, &c, i), kernel_f32(l->k, 0));
    for (int32_t d = 0; d < depth && !l->failed; d += atom->k) {
        for (int32_t i = 0; i < c.rows; i++)
            move(l, AU_K_MATRIX_LOAD, &left, i, a, m, k, i * c.height, d);
        for (int32_t j = 0; j < c.columns; j++) {
            move(l, AU_K_MATRIX_LOAD, &right, 0, b, k, n, d, j * c.width);
            for (int32_t i = 0; i < c.rows; i++)
                kernel_matrix_mul(l->k, at(l, &c, i * c.columns + j), at(l, &left, i),
                                  at(l, &right, 0));
        }
    }
}

/* ---- element by element */

static bool is_matrix(const AuTileExpr *e)
{
    return e->op == TILE_X_NAME && e->var && e->var->type->opaque;
}

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
    for (int32_t n = 0; n < to.rows * to.columns; n++) {
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

bool lower_is_opaque(const AuTileStmt *s)
{
    const bool stores = s->kind == TILE_S_MOVE && s->move.op == TILE_STORE;
    if (stores) return is_matrix(s->move.source);
    return s->var && s->var->kind == TILE_VALUE && s->var->type->opaque;
}

void lower_opaque(AuLower *l, const AuTileStmt *s)
{
    if (s->kind == TILE_S_LOAD && !s->load.pad && !s->load.when)
        move_all(l, AU_K_MATRIX_LOAD, s->var, s->load.source);
    else if (s->kind == TILE_S_MOVE && !s->move.clip && !s->move.when)
        move_all(l, AU_K_MATRIX_STORE, s->move.source->var, s->move.dest);
    else if (s->kind == TILE_S_PRODUCT)
        product(l, s);
    else if (tile_assigned(s))
        assign(l, s);
    else if (s->kind != TILE_S_FRAG)
        lower_refuse(l, "matrices whose elements lie nobody knows how, on their way");
}
