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
           same_expr(a->line, b->line) && same_layout(&a->packed, &b->packed);
}

static bool same_body(const AuTileStmts *a, const AuTileStmts *b);

static bool same_load(const AuTileStmt *a, const AuTileStmt *b)
{
    return same_text(a->load.name, b->load.name) && same_expr(a->load.source, b->load.source) &&
           same_layout(&a->load.layout, &b->load.layout) &&
           same_text(a->load.across, b->load.across) &&
           same_expr(a->load.across_extent, b->load.across_extent) &&
           same_expr(a->load.pad, b->load.pad) && same_expr(a->load.when, b->load.when);
}

static bool same_move(const AuTileStmt *a, const AuTileStmt *b)
{
    return a->move.op == b->move.op && a->move.is_async == b->move.is_async &&
           a->move.clip == b->move.clip && same_text(a->move.token, b->move.token) &&
           same_expr(a->move.source, b->move.source) && same_expr(a->move.dest, b->move.dest) &&
           same_expr(a->move.pad, b->move.pad) && same_expr(a->move.when, b->move.when);
}

static bool same_product(const AuTileStmt *a, const AuTileStmt *b)
{
    return same_text(a->product.name, b->product.name) && a->product.atom == b->product.atom &&
           a->product.is_async == b->product.is_async && a->product.add == b->product.add &&
           same_expr(a->product.a, b->product.a) && same_expr(a->product.b, b->product.b) &&
           same_expr(a->product.dest, b->product.dest) &&
           same_expr(a->product.when, b->product.when);
}

static bool same_stmt(const AuTileStmt *a, const AuTileStmt *b)
{
    if (a->kind != b->kind) return false;
    switch (a->kind) {
    case TILE_S_FRAG:
        return same_text(a->frag.name, b->frag.name) && same_type(&a->frag.type, &b->frag.type) &&
               same_layout(&a->frag.layout, &b->frag.layout) &&
               same_expr(a->frag.init, b->frag.init);
    case TILE_S_PRIVATE: return same_memory(a->memory, b->memory);
    case TILE_S_ASSIGN:
        return same_names(&a->assign.names, &b->assign.names) &&
               same_expr(a->assign.value, b->assign.value);
    case TILE_S_CONVERT:
        return same_text(a->convert.name, b->convert.name) &&
               same_expr(a->convert.source, b->convert.source) &&
               same_layout(&a->convert.layout, &b->convert.layout);
    case TILE_S_LOAD: return same_load(a, b);
    case TILE_S_MOVE: return same_move(a, b);
    case TILE_S_PRODUCT: return same_product(a, b);
    case TILE_S_WAIT:
        return same_names(&a->wait.names, &b->wait.names) && same_expr(a->wait.but, b->wait.but);
    case TILE_S_ACQUIRE:
    case TILE_S_WAIT_STAGE:
        return same_text(a->stage.name, b->stage.name) &&
               same_text(a->stage.pipe_name, b->stage.pipe_name) &&
               same_expr(a->stage.index, b->stage.index) && same_expr(a->stage.turn, b->stage.turn);
    case TILE_S_COMMIT:
    case TILE_S_RELEASE:
        return same_names(&a->close.names, &b->close.names) &&
               same_text(a->close.after, b->close.after);
    case TILE_S_SYNC:
    case TILE_S_ARRIVE:
        return same_text(a->barrier.name, b->barrier.name) &&
               same_expr(a->barrier.index, b->barrier.index) &&
               a->barrier.fences == b->barrier.fences;
    case TILE_S_FOR:
        return same_text(a->loop.var_name, b->loop.var_name) &&
               same_text(a->loop.list_name, b->loop.list_name) &&
               same_expr(a->loop.low, b->loop.low) && same_expr(a->loop.high, b->loop.high) &&
               same_expr(a->loop.segment, b->loop.segment) &&
               same_body(&a->loop.body, &b->loop.body);
    case TILE_S_IF:
        return same_expr(a->branch.test, b->branch.test) &&
               same_body(&a->branch.then, &b->branch.then) &&
               same_body(&a->branch.other, &b->branch.other);
    case TILE_S_ON:
        return same_text(a->on.segment, b->on.segment) && same_body(&a->on.body, &b->on.body) &&
               same_body(&a->on.other, &b->on.other);
    case TILE_S_PART:
    case TILE_S_JOIN:
        return same_text(a->part.name, b->part.name) && same_expr(a->part.lanes, b->part.lanes);
    case TILE_S_RETURN: return same_exprs(&a->ret.items, &b->ret.items);
    }
    return false;
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
        !same_text(a->consumer_name, b->consumer_name) || a->each != b->each ||
        !same_expr(a->stages, b->stages))
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
           same_expr(a->regs, b->regs) && same_body(&a->body, &b->body);
}

static bool same_kernel(const AuTileKernel *a, const AuTileKernel *b)
{
#define SAME_GRID(x, y) (same_text((x).name, (y).name) && same_expr((x).extent, (y).extent))
    if (!same_text(a->name, b->name) || !same_body(&a->lets, &b->lets)) return false;
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
