/* product.c - C[m, n] (+)= A[m, k] B[k, n] by matrix units of a core (lower_core_product),
 * else by multiply-adds: A from memory, one number for all lanes; B and C in arrays of the lane, n
 * along the lanes. A block of rows and columns of C stays in registers while k runs; all rows pass
 * by one panel of columns of B, which stays in the first cache:
 *
 *     for columns { for rows { c = 0; for k { b = B[k, columns]; for row { a = A[row, k];
 * c[row, :] = fma(a, b, c[row, :]) } } C = c or C + c } }
 *
 * What a product adds is summed apart and added at once: so a sum over many tiles has the rounding errors of a tile's
 * depth and of the number of tiles, not of all its terms one after the other. A serial one begins with what there is: made in pieces, it
 * is the same as at once.
 *
 * With rows r and n-registers w a step loads r + w numbers for r w multiply-adds; r comes from the
 * schedule's shape (16 to 28 accumulators fill the 32 registers of AVX-512 and
 * hide the latency of its two units).
 *
 * A machine that multiplies and adds two f32 of neighbouring registers (`pairs` in caps.def) does so along the axis of A whose
 * numbers are neighbours in memory: two steps of k, whose sums are two until the end, or two rows, to which one number of B goes. */
#include "internal.h"

typedef enum Twos { ONE_BY_ONE, TWO_STEPS, TWO_ROWS } Twos;

typedef struct Product {
    const AuTileStmt *s;
    const AuTileType *c_type, *b_type;
    const AuTileVar *c, *b;
    const AuTileExpr *a;
    const char *m_axis, *n_axis, *k_axis;
    int32_t rows, depth, wide; /* extents of m and k; registers of n */
    int32_t columns;           /* registers of n in a block */
    AuMem block;
    bool pairs; /* k in pairs: dot2 */
    Twos twos;
    bool grouped; /* n is held in groups of `columns` */
} Product;

/* A register of a fragment: number [i] along the first axis, column [c] of block [j] along n. */
static AuPoint point_at(AuLower *l, const Product *x, const char *axis, AuVal i, AuVal j, int32_t c)
{
    const AuVal none = {0},
                column =
                    x->grouped
                        ? j
                        : kernel_op2(l->k, AU_K_ADD,
                                     kernel_op2(l->k, AU_K_MUL, j, kernel_i32(l->k, x->columns)),
                                     kernel_i32(l->k, c));
    return (AuPoint){.at = {{axis, none, i, 0}, {x->n_axis, none, column, c}}, .count = 2};
}

static AuVal register_at(AuLower *l, const Product *x, const AuTileType *type, const char *axis,
                         AuVal i, AuVal j, int32_t c)
{
    const AuPoint p = point_at(l, x, axis, i, j, c);
    return lower_register(l, type, &p);
}

/* What the product is added to. */
static AuVal former_of(AuLower *l, const Product *x, AuVal row, AuVal column, int32_t c)
{
    const AuPoint p = point_at(l, x, x->m_axis, row, column, c);
    const AuVal none = {0};
    if (l->r.start) return lower_as(l, lower_eval(l, l->r.start, &p), AU_F32);
    return kernel_load(l->k, lower_var_array(l, x->c), lower_register(l, x->c_type, &p), 1, none,
                       none);
}

static AuVal load_a(AuLower *l, const Product *x, AuVal row, AuVal k_index)
{
    const bool alone = !x->pairs && x->twos == ONE_BY_ONE;
    const AuPoint p = {
        .at = {{.axis = x->m_axis, .index = row}, {.axis = x->k_axis, .index = k_index}},
        .count = 2};
    const AuVal none = {0}, at = lower_address(l, x->a, &p, OUTSIDE_CLAMPED, NULL, false);
    const AuVal v =
        kernel_load(l->k, lower_memory(l, x->a->memory)->mem, at, alone ? 1 : 2, none, none);
    return alone ? lower_as(l, v, AU_F32) : v;
}

/* B in pairs is held as i32, two numbers each. */
static AuVal load_b(AuLower *l, const Product *x, AuVal k_index, AuVal column, int32_t c)
{
    AuKernel *k = l->k;
    const AuVal none = {0};
    const AuMem mem = lower_var_array(l, x->b);
    const AuVal at = register_at(l, x, x->b_type, x->k_axis, k_index, column, c);
    if (!x->pairs) return lower_as(l, kernel_load(k, mem, at, 1, none, none), AU_F32);
    const AuVal next = register_at(l, x, x->b_type, x->k_axis,
                                   kernel_op2(k, AU_K_ADD, k_index, kernel_i32(k, 1)), column, c);
    const AuVal both[2] = {kernel_load(k, mem, at, 1, none, none),
                           kernel_load(k, mem, next, 1, none, none)};
    return kernel_vec(k, both, 2);
}

static void step(AuLower *l, const Product *x, AuVal first_row, int32_t rows, AuVal column,
                 AuVal k_index)
{
    AuKernel *k = l->k;
    const AuVal none = {0};
    AuVal b[16];
    for (int32_t c = 0; c < x->columns; c++) b[c] = load_b(l, x, k_index, column, c);
    for (int32_t r = 0; r < rows; r++) {
        const AuVal a = load_a(l, x, kernel_op2(k, AU_K_ADD, first_row, kernel_i32(k, r)), k_index);
        for (int32_t c = 0; c < x->columns; c++) {
            const AuVal at = kernel_i32(k, r * x->columns + c);
            const AuVal sum = kernel_load(k, x->block, at, 1, none, none);
            kernel_store(k, x->block, at,
                         x->pairs ? kernel_dot2(k, sum, a, b[c])
                                  : kernel_op3(k, AU_K_FMA, a, b[c], sum),
                         none);
        }
    }
}

/* Rows in twos are even. */
static void step_of_two(AuLower *l, const Product *x, AuVal first_row, int32_t rows, AuVal column,
                        AuVal k_index)
{
    AuKernel *k = l->k;
    const AuVal none = {0}, at_b = register_at(l, x, x->b_type, x->k_axis, k_index, column, 0);
    const bool steps = x->twos == TWO_STEPS;
    AuVal b = kernel_load(k, lower_var_array(l, x->b), at_b, steps ? 2 : 1, none, none);
    if (!steps) b = kernel_vec(k, (AuVal[]){b, b}, 2);
    for (int32_t r = 0; r < rows; r += steps ? 1 : 2) {
        const AuVal a = load_a(l, x, kernel_op2(k, AU_K_ADD, first_row, kernel_i32(k, r)), k_index);
        const AuVal at = kernel_i32(k, steps ? 2 * r : r);
        const AuVal sums = kernel_load(k, x->block, at, 2, none, none);
        kernel_store(k, x->block, at, kernel_op3(k, AU_K_FMA, a, b, sums), none);
    }
}

/* What the product adds to a number of C. */
static AuVal sum_of(AuLower *l, const Product *x, int32_t at)
{
    AuKernel *k = l->k;
    const AuVal none = {0};
    if (x->twos != TWO_STEPS) return kernel_load(k, x->block, kernel_i32(k, at), 1, none, none);
    const AuVal sums = kernel_load(k, x->block, kernel_i32(k, 2 * at), 2, none, none);
    return kernel_op2(k, AU_K_ADD, kernel_element(k, sums, 0), kernel_element(k, sums, 1));
}

/* Where a tile passes in pieces sums are scaled for each of them, which costs nothing beside the addition. */
static AuVal added(AuLower *l, AuVal former, AuVal sum)
{
    AuKernel *k = l->k;
    const AuInstr in = *kernel_at(k, former);
    if (!l->module->caps->pair_rows || in.op != AU_K_MUL)
        return kernel_op2(k, AU_K_ADD, former, sum);
    return kernel_op3(k, AU_K_FMA, kernel_operand(k, &in, 0), kernel_operand(k, &in, 1), sum);
}

/* With [former], or with 0 where that is none. */
static void begin_sum(AuLower *l, const Product *x, int32_t at, AuVal former)
{
    const int32_t each = x->twos == TWO_STEPS ? 2 : 1;
    for (int32_t n = 0; n < each; n++)
        kernel_store(l->k, x->block, kernel_i32(l->k, at * each + n),
                     former.i && !n ? former : kernel_f32(l->k, 0), (AuVal){0});
}

/* Sums of a block begin, and end where C has them. */
static void each_sum(AuLower *l, const Product *x, AuVal first_row, int32_t rows, AuVal column,
                     bool ends)
{
    AuKernel *k = l->k;
    const AuVal none = {0};
    for (int32_t r = 0; r < rows; r++)
        for (int32_t c = 0; c < x->columns; c++) {
            const int32_t at = r * x->columns + c;
            const AuVal row = kernel_op2(k, AU_K_ADD, first_row, kernel_i32(k, r)),
                        reg = register_at(l, x, x->c_type, x->m_axis, row, column, c);
            const bool serial = x->s->product.serial;
            if (!ends) {
                begin_sum(l, x, at, serial ? former_of(l, x, row, column, c) : none);
                continue;
            }
            AuVal sum = sum_of(l, x, at);
            if (x->s->product.add && !serial) sum = added(l, former_of(l, x, row, column, c), sum);
            kernel_store(k, lower_var_array(l, x->c), reg, sum, none);
        }
}

static void block(AuLower *l, const Product *x, AuVal first_row, int32_t rows, AuVal column)
{
    AuKernel *k = l->k;
    each_sum(l, x, first_row, rows, column, false);
    const AuVal k_index = kernel_for(k, kernel_i32(k, 0), kernel_i32(k, x->depth),
                                     x->pairs || x->twos == TWO_STEPS ? 2 : 1, AU_UNROLL_AUTO);
    if (x->twos == ONE_BY_ONE)
        step(l, x, first_row, rows, column, k_index);
    else
        step_of_two(l, x, first_row, rows, column, k_index);
    kernel_end(k);
    each_sum(l, x, first_row, rows, column, true);
}

/* Does a load of two elements give a pair along the axis that k runs along? In memory that lies in pairs along another it would
 * give neighbours of that one, in tensors whatever the strides say. */
static bool has_pairs(AuLower *l, const Product *x)
{
    const AuTileMemory *m = x->a->memory;
    const AuLowerMemory *place = lower_memory(l, m);
    const uint32_t n = lower_contracted_dimension(x->s);
    if (m->space == TILE_GLOBAL || place->packed) return false;
    if (!place->pair_axis && n + 1 != m->type.count) return false;
    if (!place->pair_axis && place->swizzle_span <= 16) return true;
    return (!place->pair_axis || place->pair_axis == m->type.axes[n].name) &&
           m->type.axes[n].size % 2 == 0 &&
           lower_starts_at(x->a->has_index ? x->a->args.at[n] : NULL, 2);
}

/* Along which axis numbers of A are neighbours, where the machine takes two. */
static Twos twos_of(AuLower *l, const Product *x)
{
    const AuTileMemory *m = x->a->memory;
    const AuLowerMemory *place = lower_memory(l, m);
    const uint32_t last = m->type.count - 1;
    const char *axis = lower_view_axis(x->a, last);
    if (!l->module->caps->pairs || x->pairs || x->wide != 1 || m->space == TILE_GLOBAL ||
        place->packed || place->pair_axis || place->swizzle_span > 16 || m->type.elem != TILE_F32 ||
        x->b_type->elem != TILE_F32 || m->type.axes[last].size % 2 != 0 ||
        !lower_starts_at(x->a->has_index ? x->a->args.at[last] : NULL, 2))
        return ONE_BY_ONE;
    if (axis == x->k_axis && x->depth % 2 == 0) return TWO_STEPS;
    return axis == x->m_axis && x->rows % 2 == 0 ? TWO_ROWS : ONE_BY_ONE;
}

static bool prepare(AuLower *l, Product *x)
{
    const AuTileStmt *s = x->s;
    if (s->product.is_async || s->product.dest) {
        lower_refuse(l, "an asynchronous product");
        return false;
    }
    if (s->product.b->op != TILE_X_NAME || !s->product.b->var || s->product.a->op != TILE_X_REF) {
        lower_refuse(l, "a product whose operands are not memory and a fragment");
        return false;
    }
    x->a = s->product.a, x->b = s->product.b->var, x->c = s->var;
    x->c_type = x->c->type, x->b_type = x->b->type, x->k_axis = s->product.contracted;
    for (uint32_t n = 0; n < 2; n++)
        if (x->b_type->axes[n].name != x->k_axis) x->n_axis = x->b_type->axes[n].name;
    for (uint32_t n = 0; n < 2; n++)
        if (x->c_type->axes[n].name != x->n_axis) x->m_axis = x->c_type->axes[n].name;
    const AuTileAxis *m = tile_axis(x->c_type, x->m_axis), *n = tile_axis(x->c_type, x->n_axis);
    x->rows = m->size, x->depth = tile_axis(x->b_type, x->k_axis)->size,
    x->wide = tile_axis_registers(n->places);
    x->columns = x->wide % l->module->options.product_columns == 0
                     ? l->module->options.product_columns
                     : x->wide;
    x->grouped = lower_is_grouped(l, n);
    x->pairs = s->product.atom->k == 2;
    x->twos = twos_of(l, x);
    if (x->pairs && !has_pairs(l, x)) {
        lower_refuse(l, "%s takes pairs along %s, which are no neighbours in %s",
                     s->product.atom->name, x->k_axis, x->a->memory->name);
        return false;
    }
    if (!lower_is_of_lane(m) || x->columns > TILE_MOST_COLUMNS) {
        lower_refuse(l, "a product with this layout");
        return false;
    }
    return true;
}

/* Is the axis that k runs along the last of A's memory, so that a row of A lies as it is
 * multiplied? */
static bool has_rows(AuLower *l, const Product *x)
{
    const AuTileType *type = &x->a->memory->type;
    return type->count == 2 && type->axes[1].name == x->k_axis &&
           x->a->memory->space == TILE_PRIVATE_MEMORY && !lower_memory(l, x->a->memory)->pair_axis;
}

/* One block, two by two tiles where there are as many: rows of 16, and 16 columns along the lanes.
 */
static void matrix_block(AuLower *l, const Product *x, AuVal first_row, int32_t rows, AuVal column,
                         int32_t c)
{
    const AuVal none = {0}, zero = kernel_i32(l->k, 0),
                j = x->grouped ? column : kernel_i32(l->k, c);
    const AuPoint a = {
        .at = {{.axis = x->m_axis, .index = first_row}, {.axis = x->k_axis, .index = zero}},
        .count = 2};
    const AuPoint b = {.at = {{x->k_axis, none, zero, 0}, {x->n_axis, none, j, c}}, .count = 2};
    kernel_matmul(l->k, &(AuMatmul){
                            .c = lower_var_array(l, x->c),
                            .c_at = register_at(l, x, x->c_type, x->m_axis, first_row, column, c),
                            .c_stride = x->columns,
                            .a = lower_memory(l, x->a->memory)->mem,
                            .a_at = lower_address(l, x->a, &a, OUTSIDE_CLAMPED, NULL, false),
                            .a_stride = x->a->memory->type.axes[1].size,
                            .b = lower_var_array(l, x->b),
                            .b_at = lower_pair_register(l, x->b_type, &b, x->k_axis),
                            .b_stride = x->columns,
                            .rows = rows,
                            .vectors = x->columns - c < 2 ? 1 : 2,
                            .depth = x->depth,
                            .add = x->s->product.add,
                        });
}

void lower_core_product(AuLower *l, const AuTileStmt *s)
{
    enum { ROWS = 32 };
    AuKernel *k = l->k;
    Product product = {.s = s}, *x = &product;
    if (!prepare(l, x)) return;
    const int32_t whole = x->rows / ROWS * ROWS, groups = x->wide / x->columns;
    /* So that rows of C and of B are [columns] apart, grouped or not. */
    if (!has_rows(l, x) || x->c_type->axes[0].name != x->m_axis ||
        x->b_type->axes[0].name != x->k_axis || (groups > 1 && !x->grouped)) {
        lower_refuse(l, "a matrix product with this layout");
        return;
    }
    const AuVal column = kernel_for(k, kernel_i32(k, 0), kernel_i32(k, groups), 1, AU_UNROLL_NEVER);
    const AuVal first =
        kernel_for(k, kernel_i32(k, 0), kernel_i32(k, whole), ROWS, AU_UNROLL_NEVER);
    for (int32_t c = 0; c < x->columns; c += 2) matrix_block(l, x, first, ROWS, column, c);
    kernel_end(k);
    for (int32_t c = 0; c < x->columns && whole < x->rows; c += 2)
        matrix_block(l, x, kernel_i32(k, whole), x->rows - whole, column, c);
    kernel_end(k);
}

void lower_block_product(AuLower *l, const AuTileStmt *s)
{
    AuKernel *k = l->k;
    Product x = {.s = s};
    if (!prepare(l, &x)) return;
    const int32_t rows = l->module->options.product_rows < x.rows ? l->module->options.product_rows
                                                                  : x.rows,
                  whole = x.rows / rows * rows;
    x.block = lower_array(l, "block", AU_F32,
                          (uint32_t)(rows * x.columns * (x.twos == TWO_STEPS ? 2 : 1)));
    const AuVal column =
        kernel_for(k, kernel_i32(k, 0), kernel_i32(k, x.wide / x.columns), 1, AU_UNROLL_NEVER);
    const AuVal first =
        kernel_for(k, kernel_i32(k, 0), kernel_i32(k, whole), rows, AU_UNROLL_NEVER);
    block(l, &x, first, rows, column);
    kernel_end(k);
    if (whole < x.rows) block(l, &x, kernel_i32(k, whole), x.rows - whole, column);
    kernel_end(k);
}
