/* expand_copy.c - tile_expand's copies of declarations and statements, every expression through expand_expr. */
#include "expand.h"

#include "fold.h"

#include <string.h>

/* ---- parts */

static AuTileType copy_type(Expand *x, const AuTileType *type)
{
    AuTileType copy = *type;
    copy.axes = AU_NEW_ARRAY(x->arena, AuTileAxis, type->count);
    for (uint32_t i = 0; i < type->count; i++) {
        AuTileExpr *extent = expand_expr(x, NULL, type->axes[i].extent);
        copy.axes[i] = (AuTileAxis){.name = keep(x, type->axes[i].name), .extent = extent};
        if (extent->op == TILE_X_INT && extent->integer > 0 && extent->integer <= INT32_MAX)
            copy.axes[i].size = (int32_t)extent->integer;
    }
    return copy;
}

static AuTileLayoutRef copy_layout(Expand *x, const AuTileLayoutRef *layout)
{
    AuTileLayoutRef copy = *layout;
    copy.name = keep(x, layout->name);
    return copy;
}

static AuTileNames copy_names(Expand *x, const AuTileNames *names)
{
    AuTileNames copy = {0};
    for (uint32_t i = 0; i < names->count; i++) {
        const char *name = keep(x, names->at[i]);
        AU_PUSH(x->arena, copy.at, copy.count, copy.capacity, name);
    }
    return copy;
}

static AuTileMemory *copy_memory(Expand *x, const AuTileMemory *m)
{
    AuTileMemory *copy = AU_NEW(x->arena, AuTileMemory);
    *copy = *m;
    copy->name = keep(x, m->name);
    copy->type = copy_type(x, &m->type);
    copy->swizzle = expand_expr(x, NULL, m->swizzle);
    copy->swizzle_span = expand_expr(x, NULL, m->swizzle_span);
    copy->packed = copy_layout(x, &m->packed);
    return copy;
}

/* ---- statements */

static void copy_body(Expand *x, const AuTileStmts *body, AuTileStmts *out);

/* [at]: the field, still as it is in the statement that is copied. */
static void copy_field(Expand *x, AuTileFieldKind kind, void *at)
{
    AuTileExpr **expr = at;
    AuTileMemory **memory = at;
    const char **name = at;
    AuTileStmts *body = at;
    switch (kind) {
    case TILE_F_READ:
    case TILE_F_DEST:
    case TILE_F_CONST: *expr = expand_expr(x, NULL, *expr); break;
    case TILE_F_NEW:
    case TILE_F_NAME: *name = keep(x, *name); break;
    case TILE_F_NEWS:
    case TILE_F_NAMES: *(AuTileNames *)at = copy_names(x, at); break;
    case TILE_F_BODY: {
        const AuTileStmts from = *body;
        *body = (AuTileStmts){0};
        copy_body(x, &from, body);
        break;
    }
    case TILE_F_TYPE: *(AuTileType *)at = copy_type(x, at); break;
    case TILE_F_LAYOUT: *(AuTileLayoutRef *)at = copy_layout(x, at); break;
    case TILE_F_MEMORY: *memory = copy_memory(x, *memory); break;
    case TILE_F_ITEMS: /* of a return, which hooks alone have */
    case TILE_F_ATOM:
    case TILE_F_FLAG:
    case TILE_F_NUMBER:
    case TILE_F_END: break;
    }
}

/* Statements of hooks come before the statement that calls them, so it is added last. */
static void copy_stmt(Expand *x, const AuTileStmt *from)
{
    x->span = from->span;
    if (from->kind == TILE_S_ASSIGN) {
        expand_assign(x, from);
        return;
    }
    if (from->kind == TILE_S_RETURN)
        expand_error(x, AU_E0703, from->span, "return outside of a hook");
    AuTileStmts *out = x->emit;
    AuTileStmt *s = AU_NEW(x->arena, AuTileStmt);
    *s = *from;
    for (const AuTileField *f = tile_fields(s->kind); f->kind; f++)
        copy_field(x, f->kind, (char *)s + f->at);
    AU_PUSH(x->arena, out->at, out->count, out->capacity, s);
}

static void copy_body(Expand *x, const AuTileStmts *body, AuTileStmts *out)
{
    AuTileStmts *before = x->emit;
    x->emit = out;
    for (uint32_t i = 0; i < body->count; i++) copy_stmt(x, body->at[i]);
    x->emit = before;
}

void tile_copy_body(AuDiags *diags, AuTileModule *module, const AuTileStmts *from, AuTileStmts *to)
{
    Expand x = {.arena = module->arena, .diags = diags, .in = module, .out = module};
    copy_body(&x, from, to);
}

/* ---- what is called something in a kernel */

static void take_exprs(Expand *x, const AuTileExpr *e)
{
    if (!e) return;
    if (e->op == TILE_X_NAME) take(x, e->name);
    for (uint32_t i = 0; i < e->args.count; i++) take_exprs(x, e->args.at[i]);
}

static void take_body(Expand *x, const AuTileStmts *body);

static void take_field(Expand *x, AuTileFieldKind kind, const void *at)
{
    if (kind == TILE_F_NEW) take(x, *(const char *const *)at);
    if (kind == TILE_F_MEMORY) take(x, (*(AuTileMemory *const *)at)->name);
    if (kind == TILE_F_BODY) take_body(x, at);
    const AuTileNames *names = at;
    for (uint32_t n = 0; kind == TILE_F_NEWS && n < names->count; n++) take(x, names->at[n]);
}

static void take_body(Expand *x, const AuTileStmts *body)
{
    for (uint32_t i = 0; i < body->count; i++)
        for (const AuTileField *f = tile_fields(body->at[i]->kind); f->kind; f++)
            take_field(x, f->kind, (const char *)body->at[i] + f->at);
}

static void take_names(Expand *x, const AuTileKernel *k)
{
    x->taken = (AuTileNames){0};
    take(x, "self");
    for (uint32_t i = 0; i < k->args.count; i++) {
        take(x, k->args.at[i]->name);
        for (uint32_t a = 0; a < k->args.at[i]->type.count; a++)
            take_exprs(x, k->args.at[i]->type.axes[a].extent);
    }
    for (uint32_t i = 0; i < k->grid.count; i++) take(x, k->grid.at[i].name);
    for (uint32_t i = 0; i < k->lists.count; i++) take(x, k->lists.at[i]->name);
    for (uint32_t i = 0; i < k->shared.count; i++) take(x, k->shared.at[i]->name);
    for (uint32_t i = 0; i < k->pipes.count; i++) take(x, k->pipes.at[i]->name);
    for (uint32_t i = 0; i < k->barriers.count; i++) take(x, k->barriers.at[i]->name);
    take_body(x, &k->lets);
    for (uint32_t i = 0; i < k->roles.count; i++) take_body(x, &k->roles.at[i]->body);
}

/* ---- kernels */

static void copy_list(Expand *x, const AuTileList *list, AuTileKernel *out)
{
    AuTileList *copy = AU_NEW(x->arena, AuTileList);
    copy->name = keep(x, list->name);
    copy->span = x->span = list->span;
    x->emit = &out->lets; /* bounds that call hooks */
    for (uint32_t i = 0; i < list->segments.count; i++) {
        AuTileSegment g = list->segments.at[i];
        g.name = keep(x, g.name);
        g.a = expand_expr(x, NULL, g.a);
        g.b = expand_expr(x, NULL, g.b);
        AU_PUSH(x->arena, copy->segments.at, copy->segments.count, copy->segments.capacity, g);
    }
    x->emit = NULL;
    AU_PUSH(x->arena, out->lists.at, out->lists.count, out->lists.capacity, copy);
}

static void copy_pipe(Expand *x, const AuTilePipe *p, AuTileKernel *out)
{
    AuTilePipe *copy = AU_NEW(x->arena, AuTilePipe);
    *copy = (AuTilePipe){.name = keep(x, p->name),
                         .producer_name = keep(x, p->producer_name),
                         .consumer_name = keep(x, p->consumer_name),
                         .also_name = p->also_name ? keep(x, p->also_name) : NULL,
                         .span = p->span,
                         .stages = expand_expr(x, NULL, p->stages),
                         .each = p->each,
                         .one_producer = p->one_producer,
                         .one_consumer = p->one_consumer};
    for (uint32_t i = 0; i < p->tiles.count; i++) {
        AuTileMemory *m = copy_memory(x, p->tiles.at[i]);
        m->pipe = copy;
        AU_PUSH(x->arena, copy->tiles.at, copy->tiles.count, copy->tiles.capacity, m);
    }
    AU_PUSH(x->arena, out->pipes.at, out->pipes.count, out->pipes.capacity, copy);
}

static void copy_role(Expand *x, const AuTileRole *role, AuTileKernel *out)
{
    AuTileRole *copy = AU_NEW(x->arena, AuTileRole);
    *copy = (AuTileRole){.name = keep(x, role->name),
                         .span = role->span,
                         .many = expand_expr(x, NULL, role->many),
                         .regs = expand_expr(x, NULL, role->regs),
                         .is_exact = role->is_exact,
                         .on = role->on};
    x->tuples = NULL;
    copy_body(x, &role->body, &copy->body);
    AU_PUSH(x->arena, out->roles.at, out->roles.count, out->roles.capacity, copy);
}

static void copy_kernel(Expand *x, const AuTileKernel *k)
{
    AuTileKernel *out = AU_NEW(x->arena, AuTileKernel);
    out->name = keep(x, k->name);
    out->span = k->span;
    x->tuples = NULL;
    x->emit = NULL;
    take_names(x, k);
    for (uint32_t i = 0; i < k->args.count; i++) {
        AuTileMemory *m = copy_memory(x, k->args.at[i]);
        AU_PUSH(x->arena, out->args.at, out->args.count, out->args.capacity, m);
    }
    out->resident = k->resident;
    out->written = k->written;
    out->is_coarse = k->is_coarse;
    for (uint32_t i = 0; i < k->grid.count; i++) {
        const AuTileGridAxis g = {keep(x, k->grid.at[i].name),
                                  expand_expr(x, NULL, k->grid.at[i].extent)};
        AU_PUSH(x->arena, out->grid.at, out->grid.count, out->grid.capacity, g);
    }
    copy_body(x, &k->lets, &out->lets);
    for (uint32_t i = 0; i < k->lists.count; i++) copy_list(x, k->lists.at[i], out);
    for (uint32_t i = 0; i < k->shared.count; i++) {
        AuTileMemory *m = copy_memory(x, k->shared.at[i]);
        AU_PUSH(x->arena, out->shared.at, out->shared.count, out->shared.capacity, m);
    }
    for (uint32_t i = 0; i < k->pipes.count; i++) copy_pipe(x, k->pipes.at[i], out);
    for (uint32_t i = 0; i < k->barriers.count; i++) {
        AuTileBarrier *b = AU_NEW(x->arena, AuTileBarrier);
        *b = (AuTileBarrier){.name = keep(x, k->barriers.at[i]->name),
                             .span = k->barriers.at[i]->span,
                             .many = expand_expr(x, NULL, k->barriers.at[i]->many),
                             .count = expand_expr(x, NULL, k->barriers.at[i]->count)};
        AU_PUSH(x->arena, out->barriers.at, out->barriers.count, out->barriers.capacity, b);
    }
    for (uint32_t i = 0; i < k->roles.count; i++) copy_role(x, k->roles.at[i], out);
    AU_PUSH(x->arena, x->out->kernels.at, x->out->kernels.count, x->out->kernels.capacity, out);
}

/* ---- the module */

static void expand_consts(Expand *x)
{
    const AuTileModule *in = x->in;
    x->consts = AU_NEW_ARRAY(x->arena, AuTileExpr *, in->consts.count);
    for (uint32_t i = 0; i < in->consts.count; i++) {
        const AuTileConst *c = &in->consts.at[i];
        AuTileExpr *value = expand_expr(x, NULL, c->value);
        for (uint32_t n = 0; x->expansion && n < x->expansion->const_count; n++) {
            const AuTileOverride *other = &x->expansion->consts[n];
            if (strcmp(other->name, c->name) != 0) continue;
            *value = (AuTileExpr){.op = TILE_X_INT, .span = c->span, .integer = other->value};
        }
        if (!is_literal(value)) expand_error(x, AU_E0703, c->span, "%s is not constant", c->name);
        x->consts[i] = value;
    }
}

/* A hook is assignments and then a return, and hides no function of the language. */
static void check_fns(Expand *x, const AuTileModule *m)
{
    for (uint32_t f = 0; f < m->fns.count; f++) {
        const AuTileFn *fn = m->fns.at[f];
        for (uint32_t i = 0; i < fn->body.count; i++) {
            const bool last = i + 1 == fn->body.count;
            if (fn->body.at[i]->kind != (last ? TILE_S_RETURN : TILE_S_ASSIGN))
                expand_error(x, AU_E0703, fn->body.at[i]->span,
                             "a hook consists of assignments and a return at the end");
        }
        if (!fn->body.count)
            expand_error(x, AU_E0703, fn->span, "the hook %s returns nothing", fn->name);
        for (uint32_t op = 0; op < TILE_OP_COUNT; op++)
            if (tile_op((AuTileOp)op)->syntax == TILE_SYNTAX_FN &&
                strcmp(tile_op((AuTileOp)op)->text, fn->name) == 0)
                expand_error(x, AU_E0702, fn->span, "%s is a function of the language", fn->name);
    }
}

static AuTileModule *expand_all(Expand *x)
{
    const AuTileModule *in = x->in;
    AuTileModule *out = x->out;
    out->expanded = true;
    out->options = in->options;
    check_fns(x, in);
    for (uint32_t i = 0; x->expansion && i < x->expansion->hook_count; i++)
        check_fns(x, x->expansion->hooks[i]);
    if (x->failed) return NULL;
    expand_consts(x);
    for (uint32_t i = 0; i < in->layouts.count; i++) {
        AuTileLayout *layout = AU_NEW(x->arena, AuTileLayout);
        *layout = *in->layouts.at[i];
        layout->name = keep(x, layout->name);
        AU_PUSH(x->arena, out->layouts.at, out->layouts.count, out->layouts.capacity, layout);
    }
    for (uint32_t i = 0; i < in->kernels.count && !x->failed; i++)
        copy_kernel(x, in->kernels.at[i]);
    return x->failed ? NULL : out;
}

AuTileModule *tile_expand(AuArena *arena, AuDiags *diags, const AuTileModule *module,
                          const AuTileExpansion *expansion)
{
    Expand x = {.arena = arena,
                .diags = diags,
                .in = module,
                .out = tile_module_new(arena, module->caps),
                .expansion = expansion};
    return expand_all(&x);
}

AuTileModule *tile_copy_module(AuArena *arena, AuDiags *diags, const AuTileModule *module)
{
    Expand x = {
        .arena = arena, .diags = diags, .in = module, .out = tile_module_new(arena, module->caps)};
    x.out->names = module->names;
    return expand_all(&x);
}
