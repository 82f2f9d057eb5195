/* own_loads.c - operands of products that come straight from tensors by loads of the lanes' own, for machines on which a tile in shared memory
 * costs more than it saves (TILE_LOADS_OWN).
 *
 * A lane loads what it has of an instruction's operand, neighbours along the last axis as one vector. Its registers are constants apart, so it
 * has one address, to which each load adds what all lanes share. Products are there twice (matrix.c), behind one condition that is the same for
 * the warp: of a view that is inside as a whole, in rows that consist of vectors, no load is tested; of any other, the last tile of a sequence
 * above all, each element is loaded where it is inside, and 0 elsewhere. */
#include "matrix.h"

enum { FREE, CONTRACTED };

/* Dimensions of both axes; false: others than scalars are beside them. */
static bool find_dimensions(MatrixOperand *x)
{
    const AuTileExpr *e = x->e;
    uint32_t found = 0;
    for (uint32_t n = 0; n < e->memory->type.count; n++) {
        const AuTileExpr *index = e->has_index ? e->args.at[n] : NULL;
        const bool spans = !index || index->op == TILE_X_ALL || index->op == TILE_X_SPAN;
        if (!spans && index->type->count) return false;
        if (!spans) continue;
        x->view.dimension[lower_view_axis(e, n) == x->free_name ? FREE : CONTRACTED] = n;
        found++;
    }
    return found == 2;
}

bool lower_is_view(AuLower *l, MatrixOperand *x)
{
    const AuTileExpr *e = x->e;
    x->view.sides = 2;
    return l->module->caps->loads & TILE_LOADS_OWN && e->op == TILE_X_REF &&
           e->memory->space == TILE_GLOBAL && !lower_memory(l, e->memory)->packed && !x->turned &&
           find_dimensions(x);
}

AuVal lower_is_whole_view(AuLower *l, const MatrixOperand *x)
{
    const AuLowerMemory *place = lower_memory(l, x->e->memory);
    return lower_both(l, lower_both(l, lower_view_inside(l, x->e), place->by_vectors),
                      place->present);
}

void lower_begin_view(AuLower *l, MatrixOperand *x, bool tested)
{
    const AuPoint p = {.at = {lower_coord(l, &x->free_axis, 0), lower_coord(l, &x->k_axis, 0)},
                       .count = 2};
    x->view.tested = tested;
    x->view.first = lower_address(l, x->e, &p, OUTSIDE_TRUSTED, NULL, !tested);
    for (int n = 0; n < 2; n++) x->view.at[n] = lower_position(l, x->e, x->view.dimension[n], &p);
}

/* How far the lane's element is behind its first one along an axis. */
static int32_t offset_of(const AuTileAxis *axis, int32_t reg)
{
    return tile_axis_offset(axis->places, reg) - tile_axis_offset(axis->places, 0);
}

/* Is the element inside: i1; none: it is. */
static AuVal is_inside(AuLower *l, const AuTileExpr *e, const MatrixView *v, const int32_t *offsets)
{
    AuKernel *k = l->k;
    const AuPoint nowhere = {.count = 0};
    AuVal inside = lower_memory(l, e->memory)->present;
    for (uint32_t n = 0; n < e->memory->type.count; n++) {
        if (!lower_may_be_outside(e, n)) continue;
        AuVal at = {0};
        for (int side = 0; side < v->sides; side++)
            if (v->dimension[side] == n)
                at = kernel_op2(k, AU_K_ADD, v->at[side], kernel_i32(k, offsets[side]));
        if (!at.i) at = lower_position(l, e, n, &nowhere);
        const AuVal begin = lower_begin(l, e, n);
        inside = lower_both(l, inside, kernel_op2(k, AU_K_LT, at, lower_end(l, e, n)));
        if (begin.i) inside = lower_both(l, inside, kernel_op2(k, AU_K_LE, begin, at));
    }
    return inside;
}

/* How far that element is behind the lane's first one in memory. */
static AuVal behind_first(AuLower *l, const AuTileExpr *e, const MatrixView *v,
                          const int32_t *offsets)
{
    AuKernel *k = l->k;
    const AuLowerMemory *place = lower_memory(l, e->memory);
    const uint32_t last = e->memory->type.count - 1;
    AuVal sum = kernel_i64(k, 0);
    for (int n = 0; n < v->sides; n++) {
        const uint32_t dimension = v->dimension[n];
        AuVal by = kernel_i64(k, offsets[n]);
        if (dimension != last || v->tested)
            by = kernel_op2(k, AU_K_MUL, place->strides[dimension], by);
        sum = kernel_op2(k, AU_K_ADD, sum, by);
    }
    return sum;
}

/* The lane's elements from register [i] of the instruction on. */
static AuVal load_at(AuLower *l, const MatrixOperand *x, int32_t tile, int32_t part, int32_t i,
                     int32_t wide)
{
    const AuTileMemory *m = x->e->memory;
    int32_t regs[2], offsets[2];
    AuVal inside = {0}, other = {0};
    lower_in_piece(&x->piece, tile, part, i, &regs[FREE], &regs[CONTRACTED]);
    for (int n = 0; n < 2; n++) offsets[n] = offset_of(n ? &x->k_axis : &x->free_axis, regs[n]);
    if (x->view.tested) inside = is_inside(l, x->e, &x->view, offsets);
    if (inside.i) other = lower_padding(l, NULL, lower_scalar(m->type.elem));
    const AuVal at =
        kernel_op2(l->k, AU_K_ADD, x->view.first, behind_first(l, x->e, &x->view, offsets));
    return kernel_load(l->k, lower_memory(l, m)->mem, at, (uint32_t)wide, inside, other);
}

AuVal lower_own_elements(AuLower *l, const MatrixOperand *x, int32_t tile, int32_t part)
{
    AuVal v[16];
    const int32_t all = matrix_elements(x), wide = x->view.tested ? 1 : x->beside;
    for (int32_t i = 0; i < all; i += wide) {
        const AuVal loaded = load_at(l, x, tile, part, i, wide);
        if (wide == all) return loaded;
        for (int32_t n = 0; n < wide; n++)
            v[i + n] = wide > 1 ? kernel_element(l->k, loaded, (uint32_t)n) : loaded;
    }
    return kernel_vec(l->k, v, (uint32_t)all);
}

/* ---- numbers of rows or columns of a fragment, in a loop beside such products (the option row_steps): one address of a lane, not one a number */

static bool find_row(AuLower *l, const AuTileStmt *s, MatrixView *v)
{
    const AuTileExpr *e = s->load.source;
    const AuTileType *type = &e->memory->type;
    uint32_t found = 0;
    if (!l->module->options.row_steps || e->memory->space != TILE_GLOBAL ||
        lower_memory(l, e->memory)->packed || s->var->type->count != 1 || s->load.when ||
        !s->load.pad || !lower_is_zero(s->load.pad) || type->elem != TILE_F32 ||
        !s->var->type->axes[0].places)
        return false;
    for (uint32_t n = 0; n < type->count; n++) {
        const AuTileExpr *index = e->has_index ? e->args.at[n] : NULL;
        if (index && index->op != TILE_X_ALL && index->op != TILE_X_SPAN) {
            if (index->type->count) return false;
            continue;
        }
        v->dimension[0] = n;
        found++;
    }
    return found == 1;
}

bool lower_load_row(AuLower *l, const AuTileStmt *s)
{
    AuKernel *k = l->k;
    const AuTileExpr *e = s->load.source;
    MatrixView v = {.sides = 1, .tested = true};
    if (!find_row(l, s, &v)) return false;
    const AuTileAxis *axis = &s->var->type->axes[0];
    const AuPoint first = {.at = {lower_coord(l, axis, 0)}, .count = 1};
    const AuVal other = lower_padding(l, NULL, AU_F32), none = {0};
    v.first = lower_address(l, e, &first, OUTSIDE_TRUSTED, NULL, false);
    v.at[0] = lower_position(l, e, v.dimension[0], &first);
    for (int32_t reg = 0; reg < tile_axis_registers(axis->places); reg++) {
        const int32_t behind = offset_of(axis, reg);
        const AuPoint here = {.at = {lower_coord(l, axis, reg)}, .count = 1};
        const AuVal at = kernel_op2(k, AU_K_ADD, v.first, behind_first(l, e, &v, &behind)),
                    inside = is_inside(l, e, &v, &behind);
        const AuVal one =
            kernel_load(k, lower_memory(l, e->memory)->mem, at, 1, inside, inside.i ? other : none);
        kernel_store(k, lower_var_array(l, s->var), lower_register(l, s->var->type, &here), one,
                     none);
    }
    return true;
}
