/* by_place_move.c - such fragments and memory: operands and rounded sums go as whole matrices where they lie so, all else element by element,
 * which may happen twice, so that nothing is added. By elements go sums that are rounded to bf16, too, where they do not become operands by themselves: no
 * device need have sums of bf16. */
#include "by_place.h"

static void load_point(ByPlace *b, const AuPoint *p, void *user)
{
    AuLower *l = b->l;
    const AuTileStmt *s = user;
    const AuTileExpr *ref = s->load.source;
    const AuLowerMemory *place = lower_memory(l, ref->memory);
    AuVal inside, other = {0};
    const AuVal at = lower_address(l, ref, p, OUTSIDE_TESTED, &inside, false);
    inside = lower_both(l, inside, lower_when(l, s->load.when, p));
    inside = lower_both(l, inside, place->present);
    if (inside.i) other = lower_padding(l, s->load.pad, lower_scalar(ref->memory->type.elem));
    const AuVal v = kernel_load(l->k, place->mem, at, 1, inside, other);
    kernel_matrix_put(l->k, lower_as(l, lower_decoded(l, ref->memory->type.elem, v), AU_F32));
}

static void load(ByPlace *b, const AuTileStmt *s)
{
    AuLower *l = b->l;
    const AuMem mem = lower_var_matrices(l, s->var);
    b->cut = lower_cut_by_place(l, s->var->type);
    for (int32_t n = 0; n < b->cut.rows * b->cut.columns && !l->failed; n++) {
        if (by_place_is_half(s->var->type)) {
            lower_matrix_move(l, AU_K_MATRIX_LOAD, by_place_matrix(l, mem, n), s->load.source,
                              &b->cut, n);
            continue;
        }
        by_place_open(b, by_place_matrix(l, mem, n));
        by_place_at_element(b, n / b->cut.columns, n % b->cut.columns, load_point,
                            (void *)(uintptr_t)s);
        kernel_end(l->k);
    }
}

static void store_point(ByPlace *b, const AuPoint *p, void *user)
{
    AuLower *l = b->l;
    const AuTileStmt *s = user;
    const AuTileExpr *ref = s->move.dest;
    const AuLowerMemory *place = lower_memory(l, ref->memory);
    AuVal inside;
    const AuVal at = lower_address(l, ref, p, OUTSIDE_TESTED, &inside, false);
    inside = lower_both(l, inside, lower_when(l, s->move.when, p));
    inside = lower_both(l, inside, place->present);
    const AuVal zero = kernel_i32(l->k, 0); /* one of those that are alike */
    if (!b->cut.column_axis)
        inside = lower_both(l, inside, kernel_op2(l->k, AU_K_EQ, b->column, zero));
    if (!b->cut.row_axis) inside = lower_both(l, inside, kernel_op2(l->k, AU_K_EQ, b->row, zero));
    kernel_store(l->k, place->mem, at,
                 lower_encoded(l, ref->memory->type.elem, lower_eval(l, s->move.source, p)),
                 inside);
}

/* Whole matrices, of sums as they are or rounded, into shared memory of their type. */
static void store_whole(ByPlace *b, const AuTileStmt *s, AuTileExpr *e)
{
    AuLower *l = b->l;
    const AuTileElem elem = s->move.dest->memory->type.elem;
    const AuMem mem = lower_matrices(l, "whole", &b->cut,
                                     elem == TILE_F32 ? TILE_C : by_place_rounded_use(l), elem);
    by_place_compute(b, mem, elem, e);
    for (int32_t n = 0; n < b->cut.rows * b->cut.columns && !l->failed; n++)
        lower_matrix_move(l, AU_K_MATRIX_STORE, by_place_matrix(l, mem, n), s->move.dest, &b->cut,
                          n);
}

static void store_operand(ByPlace *b, const AuTileStmt *s, const AuTileVar *var)
{
    AuLower *l = b->l;
    const AuCut cut = lower_cut_by_place(l, var->type);
    for (int32_t n = 0; n < cut.rows * cut.columns && !l->failed; n++)
        lower_matrix_move(l, AU_K_MATRIX_STORE, by_place_matrix(l, lower_var_matrices(l, var), n),
                          s->move.dest, &cut, n);
}

static void store(ByPlace *b, const AuTileStmt *s)
{
    AuLower *l = b->l;
    const AuTileExpr *ref = s->move.dest;
    const bool whole = ref->memory->space == TILE_SHARED && ref->type->count == 2 &&
                       !s->move.clip && !s->move.when &&
                       !by_place_stays_wide(l, ref->memory->type.elem);
    if (whole && s->move.source->op == TILE_X_NAME && by_place_is_half(s->move.source->type)) {
        store_operand(b, s, s->move.source->var);
        return;
    }
    AuTileExpr *e = by_place_rooted(l, s->move.source);
    if (by_place_rounds(e) && whole) e = by_place_rooted(l, e->args.at[0]);
    by_place_begin(b, e, s->move.source->type);
    if (l->failed) return;
    const uint32_t before = l->r.known_count;
    if (whole)
        store_whole(b, s, e);
    else {
        const AuMem any = lower_matrices(l, "any", &b->cut, TILE_C, TILE_F32);
        by_place_know_cells(b);
        for (int32_t n = 0; n < b->cut.rows * b->cut.columns && !l->failed; n++) {
            kernel_matrix_fill(l->k, by_place_matrix(l, any, n), kernel_f32(l->k, 0));
            by_place_open(b, by_place_matrix(l, any, n));
            by_place_at_element(b, n / b->cut.columns, n % b->cut.columns, store_point,
                                (void *)(uintptr_t)s);
            kernel_end(l->k);
        }
    }
    l->r.known_count = before;
}

void lower_move_by_place(AuLower *l, const AuTileStmt *s)
{
    ByPlace b = {.l = l};
    if (s->kind == TILE_S_LOAD)
        load(&b, s);
    else if (s->move.op == TILE_STORE)
        store(&b, s);
    else
        lower_refuse(l, "a sum in memory of matrices whose elements lie nobody knows where");
}
