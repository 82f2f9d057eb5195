/* by_place_wide.c - numbers of rows, or of columns, where a fragment is one matrix, as large as it is (atoms.h, multiples). They are a matrix, too, as narrow as
 * may be. In a function meet elements of matrices of one kind alone; so where such numbers meet a larger fragment they are widened, by a reduction of rows,
 * or columns, whose numbers are all the same, once until they change. */
#include "by_place.h"

static bool fits(const ByPlace *b, const AuCut *cut)
{
    return cut->height == b->cut.height && cut->width == b->cut.width;
}

static const Widened *found(const ByPlace *b, const AuTileVar *var, const AuTileExpr *reduction)
{
    for (uint32_t n = 0; n < b->wide.count; n++) {
        const Widened *w = &b->wide.at[n];
        if (w->var == var && w->reduction == reduction && w->height == b->cut.height &&
            w->width == b->cut.width)
            return w;
    }
    return NULL;
}

static void widen(ByPlace *b, const AuTileVar *var, const AuTileExpr *reduction, AuMem mem,
                  const AuCut *cut)
{
    AuLower *l = b->l;
    if (fits(b, cut) || found(b, var, reduction)) return;
    const bool columns = cut->column_axis != NULL;
    if (columns ? cut->width != b->cut.width : cut->height != b->cut.height) {
        lower_refuse(l, "fragments of different tiles, each one matrix");
        return;
    }
    const Widened w = {var, reduction, b->cut.height, b->cut.width,
                       lower_matrices(l, var ? var->name : "row", &b->cut, TILE_C, TILE_F32)};
    kernel_matrix_reduce(l->k, AU_K_MAX, by_place_matrix(l, w.mem, 0), by_place_matrix(l, mem, 0),
                         columns);
    AU_PUSH(l->arena, b->wide.at, b->wide.count, b->wide.capacity, w);
}

void by_place_widen(ByPlace *b)
{
    AuLower *l = b->l;
    for (uint32_t n = 0; n < b->vars.count && !l->failed; n++) {
        const AuTileVar *var = b->vars.at[n];
        if (!tile_has_places(var->type) || lower_held(l, var)->as == HELD_FORMULA ||
            by_place_is_half(var->type))
            continue;
        const AuCut cut = lower_cut_by_place(l, var->type);
        widen(b, var, NULL, lower_var_matrices(l, var), &cut);
    }
    for (uint32_t n = 0; n < b->reductions.count; n++)
        for (uint32_t m = 0; m < b->reduced.count && !l->failed; m++) {
            const Reduced *r = &b->reduced.at[m];
            if (r->e == b->reductions.at[n]) widen(b, NULL, r->e, r->mem, &r->cut);
        }
}

AuMem by_place_wide(const ByPlace *b, const AuTileVar *var, const AuTileExpr *reduction, AuMem mem,
                    const AuCut *cut)
{
    const Widened *w = fits(b, cut) ? NULL : found(b, var, reduction);
    return w ? w->mem : mem;
}

void by_place_forget_wide(ByPlace *b, const AuTileVar *var)
{
    uint32_t kept = 0;
    for (uint32_t n = 0; n < b->wide.count; n++) {
        const Widened *w = &b->wide.at[n];
        const bool reads = w->var ? w->var == var : tile_count_reads(w->reduction, var) > 0;
        if (!reads) b->wide.at[kept++] = *w;
    }
    b->wide.count = kept;
}
