/* matrix_store.c - fragments of 16 bits to shared memory by store_matrix (stmatrix): rows of eight elements of up to four matrices of
 * eight rows at once, where lanes by themselves store two elements each.
 *
 * In:  a fragment that lies as sums and operands A of matrix units do: a lane has two neighbours of a row, four lanes a row, eight rows a
 * warp. Out: a store_matrix for two of a lane's rows and two of its pairs of columns, or for four pairs where a lane has one row.
 * Memory whose last axis is that of the rows is stored across. Anything else lanes store by themselves (registers.c). */
#include "internal.h"

enum { ROWS = 8, PAIR = 2, MOST_MATRICES = 4, VECTOR = 8 /* elements of a row of a matrix */ };

typedef struct MatrixStore {
    const AuTileStmt *s;
    const AuTileExpr *ref;
    const AuTileType *type;
    uint32_t row, column;        /* axes of the fragment */
    int32_t rows, pairs;         /* registers of a lane: rows, pairs of columns */
    int32_t down, across;        /* matrices at once */
    int32_t row_step, pair_step; /* from one matrix to the next */
    bool transposed;
} MatrixStore;

/* ---- does it lie so? */

/* The only digit of lanes is this one. */
static bool has_lanes(const AuTilePlaces *places, uint32_t at, int32_t size, int32_t stride)
{
    for (uint32_t n = 0; n < places->digits.count; n++) {
        const AuTileDigit *d = &places->digits.at[n];
        const bool lanes = d->unit == TILE_UNIT_LANE && d->size > 1;
        if (lanes != (n == at) || (lanes && (d->size != size || d->stride != stride))) return false;
    }
    return at < places->digits.count;
}

static bool are_rows(const AuTilePlaces *places) { return has_lanes(places, 0, ROWS, 4); }

static bool are_columns(const AuTilePlaces *places)
{
    const AuTileDigit *pair = &places->digits.at[0];
    return has_lanes(places, 1, 4, 1) && pair->unit == TILE_UNIT_REG && pair->size == PAIR;
}

/* The distance of registers [every] apart, the same for [count] of them from any multiple on; 0: it differs. */
static int32_t step_of(const AuTilePlaces *places, int32_t every, int32_t count)
{
    int32_t step = 0;
    for (int32_t r = 0; r + every < tile_axis_registers(places); r += every) {
        if ((r / every + 1) % count == 0) continue;
        const int32_t here = tile_axis_offset(places, r + every) - tile_axis_offset(places, r);
        if (here % ROWS || (step && here != step)) return 0;
        step = here;
    }
    return step ? step : ROWS; /* one: nobody asks */
}

static bool finds_axes(MatrixStore *x)
{
    const AuTileAxis *axes = x->type->axes;
    if (x->type->count != 2 || !axes[0].places || !axes[1].places) return false;
    for (x->row = 0; x->row < 2; x->row++) {
        x->column = 1 - x->row;
        if (are_rows(axes[x->row].places) && are_columns(axes[x->column].places)) return true;
    }
    return false;
}

/* Rows of the matrices are whole vectors of the memory, which is known to be made of them. */
static bool is_of_vectors(AuLower *l, const AuTileExpr *ref)
{
    const uint32_t last = ref->memory->type.count - 1;
    const AuLowerMemory *place = lower_memory(l, ref->memory);
    return place->mem.i && lower_is_known(l, place->by_vectors, true) && !place->packed &&
           lower_starts_at(ref->has_index ? ref->args.at[last] : NULL, VECTOR);
}

static bool plan(AuLower *l, MatrixStore *x)
{
    const AuTileExpr *ref = x->ref;
    if (!l->module->options.matrix_stores || !l->module->caps->matrix_stores) return false;
    if (x->s->move.op != TILE_STORE || x->s->move.clip || x->s->move.when) return false;
    if (ref->memory->space != TILE_SHARED || ref->memory->type.elem != x->type->elem ||
        tile_elem(x->type->elem)->bytes != PAIR || ref->type->count != 2)
        return false;
    if (!finds_axes(x) || lower_holds(l, x->type).i || !is_of_vectors(l, ref)) return false;
    const AuTilePlaces *rows = x->type->axes[x->row].places,
                       *columns = x->type->axes[x->column].places;
    x->transposed = ref->type->axes[1].name == x->type->axes[x->row].name;
    x->rows = tile_axis_registers(rows), x->pairs = tile_axis_registers(columns) / PAIR;
    x->down = x->rows % 2 ? 1 : 2, x->across = MOST_MATRICES / x->down;
    x->row_step = step_of(rows, 1, x->down);
    x->pair_step = step_of(columns, PAIR, x->across);
    return x->row_step && x->pair_step;
}

/* ---- how it is stored */

/* Where the row of a matrix begins that this lane says: lanes 8 n to 8 n + 7 those of matrix n, matrices beside each other last. */
static AuVal row_address(AuLower *l, const MatrixStore *x, int32_t row, int32_t pair)
{
    AuKernel *k = l->k;
    const AuTileAxis *axes = x->type->axes;
    const AuVal in_matrix = kernel_op2(k, AU_K_AND, kernel_lane(k), kernel_i32(k, ROWS - 1)),
                matrix = kernel_op2(k, AU_K_SHR, kernel_lane(k), kernel_i32(k, 3)),
                down = kernel_op2(k, AU_K_AND, matrix, kernel_i32(k, x->down - 1)),
                across = kernel_op2(k, AU_K_SHR, matrix, kernel_i32(k, x->down - 1));
    AuVal begin[2];
    begin[x->row] = kernel_op2(k, AU_K_MUL, down, kernel_i32(k, x->row_step));
    begin[x->column] = kernel_op2(k, AU_K_MUL, across, kernel_i32(k, x->pair_step));
    const uint32_t walked = x->transposed ? x->column : x->row;
    begin[walked] = kernel_op2(k, AU_K_ADD, begin[walked], in_matrix);
    const int32_t regs[2] = {x->row ? pair * PAIR : row, x->row ? row : pair * PAIR};
    AuPoint p = {.count = 2};
    for (uint32_t n = 0; n < 2; n++) {
        const AuVal of_warp = lower_warp_part(l, axes[n].places),
                    first = kernel_i32(k, tile_axis_offset(axes[n].places, regs[n]));
        p.at[n] = (AuCoord){
            .axis = axes[n].name,
            .index = kernel_op2(k, AU_K_ADD, kernel_op2(k, AU_K_ADD, begin[n], of_warp), first)};
    }
    return lower_address(l, x->ref, &p, OUTSIDE_TRUSTED, NULL, true);
}

/* [across] pairs of columns of the lane's rows from [row] on. */
static void store_at(AuLower *l, const MatrixStore *x, int32_t row, int32_t pair, int32_t across)
{
    const AuTileAxis *axes = x->type->axes;
    AuVal v[MOST_MATRICES * PAIR];
    uint32_t count = 0;
    for (int32_t c = 0; c < across; c++)
        for (int32_t r = 0; r < x->down; r++)
            for (int32_t i = 0; i < PAIR; i++) {
                const int32_t column = (pair + c) * PAIR + i;
                AuPoint p = {.count = 2};
                p.at[x->row] = lower_coord(l, &axes[x->row], row + r);
                p.at[x->column] = lower_coord(l, &axes[x->column], column);
                v[count++] =
                    lower_as(l, lower_eval(l, x->s->move.source, &p), lower_scalar(x->type->elem));
            }
    kernel_store_matrix(l->k, lower_memory(l, x->ref->memory)->mem, row_address(l, x, row, pair),
                        kernel_vec(l->k, v, count), x->transposed);
}

bool lower_store_by_matrices(AuLower *l, const AuTileStmt *s)
{
    MatrixStore x = {.s = s, .ref = s->move.dest, .type = s->move.source->type};
    if (!plan(l, &x)) return false;
    for (int32_t pair = 0; pair < x.pairs;) {
        int32_t across = x.across;
        while (across > x.pairs - pair) across /= 2;
        for (int32_t row = 0; row < x.rows && !l->failed; row += x.down)
            store_at(l, &x, row, pair, across);
        pair += across;
    }
    return true;
}
