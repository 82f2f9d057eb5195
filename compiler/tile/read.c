/* read.c - the text form of the tiled IR: files and kernels. read_stmt.c has statements, read_expr.c expressions. */
#include "reader.h"

#include <string.h>

/* ---- kernels */

AuTileMemory *read_memory(Reader *r, AuTileSpace space)
{
    AuTileMemory *m = AU_NEW(r->arena, AuTileMemory);
    const uint32_t begin = token(r)->begin;
    m->space = space;
    m->mode = TILE_INOUT;
    m->name = take_name(r);
    expect(r, ":");
    m->type = read_type(r);
    if (space == TILE_SHARED && accept(r, "swizzle")) m->swizzle = read_expr(r);
    if (m->swizzle && accept(r, "span")) m->swizzle_span = read_expr(r);
    if (space == TILE_SHARED && !m->swizzle && accept(r, "packed")) m->packed = read_operand(r);
    if (space == TILE_SHARED && accept(r, "tensor")) m->space = TILE_TENSOR;
    m->span = span_from(r, begin);
    return m;
}

void read_arg(Reader *r, AuTileKernel *k)
{
    AuTileMemory *m = AU_NEW(r->arena, AuTileMemory);
    const uint32_t begin = token(r)->begin;
    m->name = take_name(r);
    expect(r, ":");
    for (uint32_t mode = TILE_IN; mode <= TILE_INOUT; mode++)
        if (accept(r, tile_mode_names[mode])) m->mode = (AuTileMode)mode;
    m->type = read_type(r);
    if (accept(r, "packed")) m->packed = read_operand(r);
    m->span = span_from(r, begin);
    AU_PUSH(r->arena, k->args.at, k->args.count, k->args.capacity, m);
}

static void read_args(Reader *r, AuTileKernel *k)
{
    expect(r, "(");
    while (!is(r, ")") && !r->failed) {
        read_arg(r, k);
        if (!accept(r, ",")) break;
    }
    expect(r, ")");
}

/* Something else stands at [t], and nothing behind it is read. */
static void refuse(Reader *r, const Token *t, const char *expected)
{
    au_error(r->diags, AU_E0701, (AuSpan){r->source, t->begin, t->end}, "expected %s", expected);
    r->failed = true;
    r->at = r->count - 1;
}

/* A positive number. */
static int32_t read_count(Reader *r)
{
    const Token *t = token(r);
    const AuTileExpr *value = read_expr(r);
    if (r->failed) return 0;
    if (value->op == TILE_X_INT && value->integer > 0 && value->integer <= INT16_MAX)
        return (int32_t)value->integer;
    refuse(r, t, "a number");
    return 0;
}

void read_grid(Reader *r, AuTileKernel *k)
{
    expect(r, "grid");
    expect(r, "(");
    while (!is(r, ")") && !r->failed) {
        const AuTileAxis axis = read_axis(r);
        const AuTileGridAxis g = {axis.name, axis.extent};
        AU_PUSH(r->arena, k->grid.at, k->grid.count, k->grid.capacity, g);
        if (!accept(r, ",")) break;
    }
    expect(r, ")");
    if (accept(r, "resident")) k->resident = read_count(r);
    if (accept(r, "written")) k->written = read_count(r);
    if (accept(r, "coarse")) k->is_coarse = true;
}

AuTileSegment read_segment(Reader *r)
{
    AuTileSegment g = {0};
    const uint32_t begin = token(r)->begin;
    g.name = take_name(r);
    expect(r, ":");
    uint32_t how = 0;
    while (how < 3 && !accept(r, tile_how_names[how])) how++;
    if (how == 3) fail(r, "range, down or list");
    g.how = how == 3 ? TILE_RANGE : (AuTileHow)how;
    expect(r, "(");
    g.a = g.how == TILE_INDEX_LIST ? read_ref(r) : read_expr(r);
    expect(r, ",");
    g.b = read_expr(r);
    expect(r, ")");
    g.span = span_from(r, begin);
    return g;
}

static void read_list(Reader *r, AuTileKernel *k)
{
    AuTileList *list = AU_NEW(r->arena, AuTileList);
    const uint32_t begin = token(r)->begin;
    list->name = take_name(r);
    expect(r, "=");
    do {
        if (list->segments.count) skip_lines(r);
        const AuTileSegment g = read_segment(r);
        AU_PUSH(r->arena, list->segments.at, list->segments.count, list->segments.capacity, g);
    } while (accept(r, ","));
    list->span = span_from(r, begin);
    AU_PUSH(r->arena, k->lists.at, k->lists.count, k->lists.capacity, list);
}

static void read_let(Reader *r, AuTileKernel *k)
{
    const uint32_t begin = token(r)->begin;
    AuTileStmt *s = new_stmt(r, TILE_S_ASSIGN, begin);
    do {
        const char *name = take_name(r);
        AU_PUSH(r->arena, s->assign.names.at, s->assign.names.count, s->assign.names.capacity,
                name);
    } while (accept(r, ","));
    expect(r, "=");
    s->assign.value = read_expr(r);
    s->span = span_from(r, begin);
    AU_PUSH(r->arena, k->lets.at, k->lets.count, k->lets.capacity, s);
}

static void read_pipe(Reader *r, AuTileKernel *k)
{
    AuTilePipe *p = AU_NEW(r->arena, AuTilePipe);
    const uint32_t begin = token(r)->begin;
    p->name = take_name(r);
    expect(r, "[");
    p->stages = read_expr(r);
    expect(r, "]");
    if (accept(r, "each"))
        p->each = TILE_EACH_PRODUCER;
    else
        p->one_producer = accept(r, "one");
    p->producer_name = take_name(r);
    expect(r, "->");
    if (accept(r, "each"))
        p->each = TILE_EACH_CONSUMER;
    else
        p->one_consumer = accept(r, "one");
    p->consumer_name = take_name(r);
    if (accept(r, ",")) p->also_name = take_name(r);
    p->span = span_from(r, begin);
    expect(r, "{");
    skip_lines(r);
    while (!is(r, "}") && !r->failed) {
        AuTileMemory *m = read_memory(r, TILE_SHARED);
        m->pipe = p;
        AU_PUSH(r->arena, p->tiles.at, p->tiles.count, p->tiles.capacity, m);
        if (!accept(r, ",") && !is(r, "}") && token(r)->kind != TOKEN_NEWLINE) fail(r, ", or }");
        skip_lines(r);
    }
    expect(r, "}");
    AU_PUSH(r->arena, k->pipes.at, k->pipes.count, k->pipes.capacity, p);
}

static AuTileExpr *read_many(Reader *r)
{
    if (!accept(r, "[")) return NULL;
    AuTileExpr *many = read_expr(r);
    expect(r, "]");
    return many;
}

static void read_barrier(Reader *r, AuTileKernel *k)
{
    AuTileBarrier *b = AU_NEW(r->arena, AuTileBarrier);
    const uint32_t begin = token(r)->begin;
    b->name = take_name(r);
    b->many = read_many(r);
    expect(r, "of");
    b->count = read_expr(r);
    b->span = span_from(r, begin);
    AU_PUSH(r->arena, k->barriers.at, k->barriers.count, k->barriers.capacity, b);
}

static void read_role(Reader *r, AuTileKernel *k)
{
    AuTileRole *role = AU_NEW(r->arena, AuTileRole);
    const uint32_t begin = token(r)->begin;
    role->name = take_name(r);
    role->many = read_many(r);
    expect(r, "on");
    uint32_t on = 0;
    while (on < TILE_EXECUTOR_COUNT && !accept(r, tile_executor_name((AuTileExecutor)on))) on++;
    if (on == TILE_EXECUTOR_COUNT)
        fail(r, "thread, warp, warpgroup or block");
    else
        role->on = (AuTileExecutor)on;
    if (accept(r, "regs")) role->regs = read_expr(r);
    role->is_exact = accept(r, "exact");
    role->span = span_from(r, begin);
    AU_PUSH(r->arena, k->roles.at, k->roles.count, k->roles.capacity, role);
    read_block(r, &role->body);
}

void read_item(Reader *r, AuTileKernel *k)
{
    if (accept(r, "let"))
        read_let(r, k);
    else if (accept(r, "tiles"))
        read_list(r, k);
    else if (accept(r, "pipeline"))
        read_pipe(r, k);
    else if (accept(r, "barrier"))
        read_barrier(r, k);
    else if (accept(r, "role"))
        read_role(r, k);
    else if (accept(r, "shared")) {
        AuTileMemory *m = read_memory(r, TILE_SHARED);
        AU_PUSH(r->arena, k->shared.at, k->shared.count, k->shared.capacity, m);
    } else
        fail(r, "let, tiles, shared, pipeline, barrier or role");
    end_line(r);
}

static void read_kernel(Reader *r)
{
    AuTileKernel *k = AU_NEW(r->arena, AuTileKernel);
    const uint32_t begin = token(r)->begin;
    k->name = take_name(r);
    k->span = span_from(r, begin);
    read_args(r, k);
    skip_lines(r);
    read_grid(r, k);
    skip_lines(r);
    expect(r, "{");
    skip_lines(r);
    while (!is(r, "}") && !r->failed) read_item(r, k);
    expect(r, "}");
    AuTileModule *m = r->module;
    AU_PUSH(r->arena, m->kernels.at, m->kernels.count, m->kernels.capacity, k);
}

/* ---- files */

static void read_fn(Reader *r)
{
    AuTileFn *fn = AU_NEW(r->arena, AuTileFn);
    const uint32_t begin = token(r)->begin;
    fn->name = take_name(r);
    expect(r, "(");
    while (!is(r, ")") && !r->failed) {
        const char *param = take_name(r);
        AU_PUSH(r->arena, fn->params.at, fn->params.count, fn->params.capacity, param);
        if (!accept(r, ",")) break;
    }
    expect(r, ")");
    fn->span = span_from(r, begin);
    if (accept(r, "=")) {
        AuTileStmt *s = new_stmt(r, TILE_S_RETURN, token(r)->begin);
        AuTileExpr *e = read_expr(r);
        s->span = e->span;
        AU_PUSH(r->arena, s->ret.items.at, s->ret.items.count, s->ret.items.capacity, e);
        AU_PUSH(r->arena, fn->body.at, fn->body.count, fn->body.capacity, s);
    } else {
        read_block(r, &fn->body);
    }
    AuTileModule *m = r->module;
    AU_PUSH(r->arena, m->fns.at, m->fns.count, m->fns.capacity, fn);
}

static void read_consts(Reader *r)
{
    do {
        AuTileConst c = {0};
        const uint32_t begin = token(r)->begin;
        c.name = take_name(r);
        expect(r, "=");
        c.value = read_expr(r);
        c.span = span_from(r, begin);
        AuTileModule *m = r->module;
        AU_PUSH(r->arena, m->consts.at, m->consts.count, m->consts.capacity, c);
    } while (accept(r, ","));
}

static AuTileDigits read_digits(Reader *r)
{
    AuText text = {.arena = r->arena};
    AuTileDigits digits = {0};
    expect(r, "(");
    const uint32_t begin = token(r)->begin;
    while (!is(r, ")") && token(r)->kind != TOKEN_END) {
        const bool glued = is(r, ":") || is(r, "@") || token(r)->kind == TOKEN_INT;
        au_text_add(&text, "%s%s", glued || !text.length ? "" : " ", token(r)->text);
        r->at++;
    }
    if (!tile_digits(au_text_str(&text), &digits) && !r->failed) {
        au_error(r->diags, AU_E0704, span_from(r, begin),
                 "expected digits like lane:8@4 reg:2 (%d at most), found %s", TILE_MAX_DIGITS,
                 au_text_str(&text));
        r->failed = true;
        r->at = r->count - 1;
    }
    expect(r, ")");
    return digits;
}

static void read_layout_definition(Reader *r)
{
    AuTileLayout *layout = AU_NEW(r->arena, AuTileLayout);
    const uint32_t begin = token(r)->begin;
    layout->name = take_name(r);
    expect(r, "=");
    expect(r, "rows");
    layout->rows = read_digits(r);
    layout->has_cols = accept(r, "cols");
    if (layout->has_cols) layout->cols = read_digits(r);
    layout->span = span_from(r, begin);
    AuTileModule *m = r->module;
    AU_PUSH(r->arena, m->layouts.at, m->layouts.count, m->layouts.capacity, layout);
}

static void read_option(Reader *r)
{
    const Token *t = token(r);
    int32_t *option = tile_option(&r->module->options, take_name(r));
    expect(r, "=");
    const AuTileExpr *value = read_expr(r);
    if (r->failed) return;
    if (option && value->op == TILE_X_INT) {
        *option = (int32_t)value->integer;
        return;
    }
    refuse(r, t, "an option and a number");
}

static void read_target(Reader *r)
{
    const Token *t = token(r);
    const char *name = take_name(r);
    r->module->caps = tile_caps(name);
    if (!r->module->caps && !r->failed) {
        au_error(r->diags, AU_E0708, (AuSpan){r->source, t->begin, t->end},
                 "no target is called %s", name);
        r->failed = true;
        r->at = r->count - 1;
    }
}

void read_definition(Reader *r)
{
    if (accept(r, "target"))
        read_target(r);
    else if (accept(r, "option"))
        read_option(r);
    else if (accept(r, "const"))
        read_consts(r);
    else if (accept(r, "layout"))
        read_layout_definition(r);
    else if (accept(r, "fn"))
        read_fn(r);
    else if (accept(r, "kernel"))
        read_kernel(r);
    else
        fail(r, "target, option, const, layout, fn or kernel");
    end_line(r);
}

AuTileModule *tile_module_new(AuArena *arena, const AuTileCaps *caps)
{
    AuTileModule *m = AU_NEW(arena, AuTileModule);
    m->arena = arena;
    m->names = au_names_new(arena);
    m->caps = caps;
#define OPTION(name, otherwise) m->options.name = otherwise;
    TILE_OPTIONS(OPTION)
#undef OPTION
    return m;
}

AuTileModule *tile_read(AuArena *arena, AuDiags *diags, uint32_t source)
{
    AuTileModule *m = tile_module_new(arena, NULL);
    Reader reader = {
        .arena = arena, .diags = diags, .names = m->names, .module = m, .source = source};
    Reader *r = &reader;
    if (!lex(r)) return NULL;
    skip_lines(r);
    while (token(r)->kind != TOKEN_END) read_definition(r);
    if (m->kernels.count && !m->caps && !r->failed)
        au_error(diags, AU_E0708, m->kernels.at[0]->span,
                 "a kernel needs a target: `target sm_90a`");
    return r->failed || (m->kernels.count && !m->caps) ? NULL : m;
}
