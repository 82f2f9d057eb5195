/* equal.c - are two modules the same program? Everything that is written is compared; places in sources and what the verifier
 * fills in are not. The modules may have interned their names separately. */
#include "tile.h"

#include <string.h>

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static bool same_names(const AuTileNames *a, const AuTileNames *b)
{
    if (a->count != b->count) return false;
    for (uint32_t i = 0; i < a->count; i++)
        if (!same_text(a->at[i], b->at[i])) return false;
    return true;
}

static bool same_expr(const AuTileExpr *a, const AuTileExpr *b);

static bool same_exprs(const AuTileExprs *a, const AuTileExprs *b)
{
    if (a->count != b->count) return false;
    for (uint32_t i = 0; i < a->count; i++)
        if (!same_expr(a->at[i], b->at[i])) return false;
    return true;
}

static bool same_expr(const AuTileExpr *a, const AuTileExpr *b)
{
    if (!a || !b) return a == b;
    return a->op == b->op && same_text(a->name, b->name) && same_text(a->field, b->field) &&
           a->has_index == b->has_index && a->integer == b->integer &&
           memcmp(&a->number, &b->number, sizeof a->number) == 0 &&
           same_names(&a->names, &b->names) && same_exprs(&a->args, &b->args);
}

static bool same_type(const AuTileType *a, const AuTileType *b)
{
    if (a->elem != b->elem || a->count != b->count) return false;
    for (uint32_t i = 0; i < a->count; i++)
        if (!same_text(a->axes[i].name, b->axes[i].name) ||
            !same_expr(a->axes[i].extent, b->axes[i].extent))
            return false;
    return true;
}

static bool same_layout(const AuTileLayoutRef *a, const AuTileLayoutRef *b)
{
    return a->kind == b->kind && same_text(a->name, b->name) && a->atom == b->atom &&
           a->use == b->use;
}

static bool same_memory(const AuTileMemory *a, const AuTileMemory *b)
{
    return same_text(a->name, b->name) && a->space == b->space && a->mode == b->mode &&
           same_type(&a->type, &b->type) && same_expr(a->swizzle, b->swizzle) &&
           same_expr(a->swizzle_span, b->swizzle_span) && same_layout(&a->packed, &b->packed);
}

static bool same_body(const AuTileStmts *a, const AuTileStmts *b);

static bool same_field(AuTileFieldKind kind, const void *a, const void *b)
{
    switch (kind) {
    case TILE_F_READ:
    case TILE_F_DEST:
    case TILE_F_CONST: return same_expr(*(AuTileExpr *const *)a, *(AuTileExpr *const *)b);
    case TILE_F_NEW:
    case TILE_F_NAME: return same_text(*(const char *const *)a, *(const char *const *)b);
    case TILE_F_NEWS:
    case TILE_F_NAMES: return same_names(a, b);
    case TILE_F_BODY: return same_body(a, b);
    case TILE_F_ITEMS: return same_exprs(a, b);
    case TILE_F_TYPE: return same_type(a, b);
    case TILE_F_LAYOUT: return same_layout(a, b);
    case TILE_F_MEMORY: return same_memory(*(AuTileMemory *const *)a, *(AuTileMemory *const *)b);
    case TILE_F_ATOM: return *(const AuTileAtom *const *)a == *(const AuTileAtom *const *)b;
    case TILE_F_FLAG: return *(const bool *)a == *(const bool *)b;
    case TILE_F_NUMBER: return *(const AuTileMoveOp *)a == *(const AuTileMoveOp *)b;
    case TILE_F_END: break;
    }
    return false;
}

static bool same_stmt(const AuTileStmt *a, const AuTileStmt *b)
{
    if (a->kind != b->kind) return false;
    for (const AuTileField *f = tile_fields(a->kind); f->kind; f++)
        if (!same_field(f->kind, (const char *)a + f->at, (const char *)b + f->at)) return false;
    return true;
}

static bool same_body(const AuTileStmts *a, const AuTileStmts *b)
{
    if (a->count != b->count) return false;
    for (uint32_t i = 0; i < a->count; i++)
        if (!same_stmt(a->at[i], b->at[i])) return false;
    return true;
}

/* ---- declarations. Each compares all of one list. */

#define SAME_LISTS(a, b, same)                                                                     \
    do {                                                                                           \
        if ((a).count != (b).count) return false;                                                  \
        for (uint32_t n = 0; n < (a).count; n++)                                                   \
            if (!(same((a).at[n], (b).at[n]))) return false;                                       \
    } while (0)

static bool same_list(const AuTileList *a, const AuTileList *b)
{
#define SAME_SEGMENT(x, y)                                                                         \
    (same_text((x).name, (y).name) && (x).how == (y).how && same_expr((x).a, (y).a) &&             \
     same_expr((x).b, (y).b))
    if (!same_text(a->name, b->name)) return false;
    SAME_LISTS(a->segments, b->segments, SAME_SEGMENT);
    return true;
}

static bool same_pipe(const AuTilePipe *a, const AuTilePipe *b)
{
    if (!same_text(a->name, b->name) || !same_text(a->producer_name, b->producer_name) ||
        !same_text(a->consumer_name, b->consumer_name) || !same_text(a->also_name, b->also_name) ||
        a->each != b->each || a->one_producer != b->one_producer ||
        a->one_consumer != b->one_consumer || !same_expr(a->stages, b->stages))
        return false;
    SAME_LISTS(a->tiles, b->tiles, same_memory);
    return true;
}

static bool same_barrier(const AuTileBarrier *a, const AuTileBarrier *b)
{
    return same_text(a->name, b->name) && same_expr(a->many, b->many) &&
           same_expr(a->count, b->count);
}

static bool same_role(const AuTileRole *a, const AuTileRole *b)
{
    return same_text(a->name, b->name) && a->on == b->on && same_expr(a->many, b->many) &&
           same_expr(a->regs, b->regs) && a->is_exact == b->is_exact &&
           same_body(&a->body, &b->body);
}

static bool same_kernel(const AuTileKernel *a, const AuTileKernel *b)
{
#define SAME_GRID(x, y) (same_text((x).name, (y).name) && same_expr((x).extent, (y).extent))
    if (!same_text(a->name, b->name) || a->resident != b->resident || a->written != b->written ||
        a->is_coarse != b->is_coarse || !same_body(&a->lets, &b->lets))
        return false;
    SAME_LISTS(a->args, b->args, same_memory);
    SAME_LISTS(a->grid, b->grid, SAME_GRID);
    SAME_LISTS(a->lists, b->lists, same_list);
    SAME_LISTS(a->shared, b->shared, same_memory);
    SAME_LISTS(a->pipes, b->pipes, same_pipe);
    SAME_LISTS(a->barriers, b->barriers, same_barrier);
    SAME_LISTS(a->roles, b->roles, same_role);
    return true;
}

static bool same_fn(const AuTileFn *a, const AuTileFn *b)
{
    return same_text(a->name, b->name) && same_names(&a->params, &b->params) &&
           same_body(&a->body, &b->body);
}

static bool same_digits(const AuTileDigits *a, const AuTileDigits *b)
{
    if (a->count != b->count) return false;
    for (uint32_t i = 0; i < a->count; i++)
        if (a->at[i].unit != b->at[i].unit || a->at[i].size != b->at[i].size ||
            a->at[i].stride != b->at[i].stride)
            return false;
    return true;
}

static bool same_definition(const AuTileLayout *a, const AuTileLayout *b)
{
    return same_text(a->name, b->name) && a->has_cols == b->has_cols &&
           same_digits(&a->rows, &b->rows) && same_digits(&a->cols, &b->cols);
}

bool tile_equal(const AuTileModule *a, const AuTileModule *b)
{
#define SAME_CONST(x, y) (same_text((x).name, (y).name) && same_expr((x).value, (y).value))
    if (a->caps != b->caps || memcmp(&a->options, &b->options, sizeof a->options) != 0)
        return false;
    SAME_LISTS(a->consts, b->consts, SAME_CONST);
    SAME_LISTS(a->layouts, b->layouts, same_definition);
    SAME_LISTS(a->fns, b->fns, same_fn);
    SAME_LISTS(a->kernels, b->kernels, same_kernel);
    return true;
}
