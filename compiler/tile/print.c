/* print.c - the text form of the tiled IR. What it prints reads back as the same nodes; comments are not kept. */
#include "tile.h"

static const char *indent(uint32_t depth)
{
    static const char spaces[] = "                                                            ";
    const size_t room = sizeof spaces - 1, wanted = 4 * (size_t)depth;
    return spaces + room - (wanted < room ? wanted : room);
}

/* ---- parts */

static void print_extent(const AuTileAxis *axis, AuText *out)
{
    if (axis->extent)
        tile_print_expr(axis->extent, out);
    else if (axis->size)
        au_text_add(out, "%d", axis->size);
    else
        au_text_add(out, "?");
}

void tile_print_type(const AuTileType *type, AuText *out)
{
    au_text_add(out, "%s", tile_elem(type->elem)->name);
    for (uint32_t i = 0; i < type->count; i++) {
        au_text_add(out, "%s%s:", i ? ", " : "[", type->axes[i].name);
        print_extent(&type->axes[i], out);
    }
    if (type->count) au_text_add(out, "]");
}

/* "mma16816.C" */
static const char *operand_text(const AuTileLayoutRef *layout, const AuText *out)
{
    return au_format(out->arena, "%s.%s", layout->atom->name, tile_use_names[layout->use]);
}

static void print_layout(const AuTileLayoutRef *layout, AuText *out)
{
    if (layout->kind == TILE_LIKE) au_text_add(out, " like %s", layout->name);
    if (layout->kind == TILE_NAMED) au_text_add(out, " @ %s", layout->name);
    if (layout->kind == TILE_OF_ATOM) au_text_add(out, " @ %s", operand_text(layout, out));
}

/* " word expression", or nothing. */
static void print_option(const char *word, const AuTileExpr *e, AuText *out)
{
    if (!e) return;
    au_text_add(out, " %s ", word);
    tile_print_expr(e, out);
}

/* "[expression]", or nothing. */
static void print_many(const AuTileExpr *e, AuText *out)
{
    if (!e) return;
    au_text_add(out, "[");
    tile_print_expr(e, out);
    au_text_add(out, "]");
}

static void print_packed(const AuTileMemory *m, AuText *out)
{
    if (m->packed.kind) au_text_add(out, " packed %s", operand_text(&m->packed, out));
}

static void print_memory(const AuTileMemory *m, AuText *out)
{
    au_text_add(out, "%s: ", m->name);
    tile_print_type(&m->type, out);
    print_option("swizzle", m->swizzle, out);
    print_option("span", m->swizzle_span, out);
    print_packed(m, out);
    if (m->space == TILE_TENSOR) au_text_add(out, " tensor");
}

/* ---- statements */

static void print_load(const AuTileStmt *s, AuText *out)
{
    au_text_add(out, "%s = load ", s->load.name);
    tile_print_expr(s->load.source, out);
    print_layout(&s->load.layout, out);
    if (s->load.across) {
        au_text_add(out, " across %s:", s->load.across);
        tile_print_expr(s->load.across_extent, out);
    }
    print_option("pad", s->load.pad, out);
    print_option("when", s->load.when, out);
    if (s->load.paired) au_text_add(out, " paired");
    if (s->load.halves) au_text_add(out, " halves");
}

static void print_move(const AuTileStmt *s, AuText *out)
{
    if (s->move.token) au_text_add(out, "%s = ", s->move.token);
    au_text_add(out, "%s%s ", s->move.is_async ? "async " : "", tile_move_names[s->move.op]);
    tile_print_expr(s->move.source, out);
    au_text_add(out, " -> ");
    tile_print_expr(s->move.dest, out);
    print_option("pad", s->move.pad, out);
    if (s->move.clip) au_text_add(out, " clip");
    print_option("when", s->move.when, out);
}

static void print_product(const AuTileStmt *s, AuText *out)
{
    const bool adds = s->product.add && !s->product.dest;
    au_text_add(out, "%s %s %s%s(", s->product.name, adds ? "+=" : "=",
                s->product.is_async ? "async " : "", s->product.atom->name);
    tile_print_expr(s->product.a, out);
    au_text_add(out, ", ");
    tile_print_expr(s->product.b, out);
    au_text_add(out, s->product.serial ? ") serial" : ")");
    if (!s->product.dest) return;
    au_text_add(out, "%s -> ", s->product.add ? " add" : "");
    tile_print_expr(s->product.dest, out);
    print_option("when", s->product.when, out);
}

static void print_for(const AuTileStmt *s, AuText *out)
{
    au_text_add(out, "for %s in ", s->loop.var_name);
    if (s->loop.list_name) {
        au_text_add(out, "%s", s->loop.list_name);
        print_many(s->loop.segment, out);
        print_option("from", s->loop.low, out);
        print_option("to", s->loop.high, out);
        return;
    }
    au_text_add(out, "range(");
    tile_print_expr(s->loop.low, out);
    au_text_add(out, ", ");
    tile_print_expr(s->loop.high, out);
    au_text_add(out, ")");
}

static void print_frag(const AuTileStmt *s, AuText *out)
{
    au_text_add(out, "frag %s: ", s->frag.name);
    tile_print_type(&s->frag.type, out);
    print_layout(&s->frag.layout, out);
    print_option("=", s->frag.init, out);
}

static void print_close(const AuTileStmt *s, const char *word, AuText *out)
{
    au_text_add(out, "%s ", word);
    tile_print_names(&s->close.names, "", out);
    if (s->close.after) au_text_add(out, " after %s", s->close.after);
}

static void print_stage(const AuTileStmt *s, const char *word, AuText *out)
{
    au_text_add(out, "%s = %s %s", s->stage.name, word, s->stage.pipe_name);
    print_many(s->stage.index, out);
    print_option("turn", s->stage.turn, out);
}

static void print_barrier(const AuTileStmt *s, const char *word, AuText *out)
{
    au_text_add(out, "%s %s", word, s->barrier.name);
    print_many(s->barrier.index, out);
}

static void print_part(const AuTileStmt *s, const char *word, AuText *out)
{
    au_text_add(out, "%s %s", word, s->part.name);
    print_option("lanes", s->part.lanes, out);
}

void tile_print_stmt(const AuTileStmt *s, AuText *out)
{
    switch (s->kind) {
    case TILE_S_FRAG: print_frag(s, out); break;
    case TILE_S_PRIVATE:
        au_text_add(out, "private ");
        print_memory(s->memory, out);
        break;
    case TILE_S_ASSIGN:
        tile_print_names(&s->assign.names, "", out);
        print_option("=", s->assign.value, out);
        break;
    case TILE_S_CONVERT:
        au_text_add(out, "%s = convert %s", s->convert.name, s->convert.source->name);
        print_layout(&s->convert.layout, out);
        break;
    case TILE_S_LOAD: print_load(s, out); break;
    case TILE_S_MOVE: print_move(s, out); break;
    case TILE_S_PREFETCH:
        au_text_add(out, "prefetch ");
        tile_print_expr(s->ahead.view, out);
        break;
    case TILE_S_PRODUCT: print_product(s, out); break;
    case TILE_S_WAIT:
        au_text_add(out, "wait ");
        tile_print_names(&s->wait.names, "", out);
        print_option("but", s->wait.but, out);
        break;
    case TILE_S_ACQUIRE: print_stage(s, "acquire", out); break;
    case TILE_S_WAIT_STAGE: print_stage(s, "wait", out); break;
    case TILE_S_COMMIT: print_close(s, "commit", out); break;
    case TILE_S_RELEASE: print_close(s, "release", out); break;
    case TILE_S_SYNC: print_barrier(s, s->barrier.fences ? "fence" : "sync", out); break;
    case TILE_S_ARRIVE: print_barrier(s, "arrive", out); break;
    case TILE_S_PART: print_part(s, "part", out); break;
    case TILE_S_JOIN: print_part(s, "join", out); break;
    case TILE_S_FOR: print_for(s, out); break;
    case TILE_S_IF:
        au_text_add(out, "if ");
        tile_print_expr(s->branch.test, out);
        break;
    case TILE_S_ON: au_text_add(out, "on %s", s->on.segment); break;
    case TILE_S_RETURN:
        au_text_add(out, "return ");
        tile_print_args(&s->ret.items, out);
        break;
    }
}

static void print_body(const AuTileStmts *body, uint32_t depth, AuText *out);

static void print_whole_stmt(AuTileStmt *s, uint32_t depth, AuText *out)
{
    au_text_add(out, "%s", indent(depth));
    tile_print_stmt(s, out);
    const AuTileParts parts = tile_parts(s);
    for (uint32_t i = 0; i < parts.body_count; i++) {
        if (i && !parts.bodies[i]->count) continue;
        au_text_add(out, "%s", i ? " else" : "");
        print_body(parts.bodies[i], depth, out);
    }
    au_text_add(out, "\n");
}

static void print_body(const AuTileStmts *body, uint32_t depth, AuText *out)
{
    au_text_add(out, " {\n");
    for (uint32_t i = 0; i < body->count; i++) print_whole_stmt(body->at[i], depth + 1, out);
    au_text_add(out, "%s}", indent(depth));
}

/* ---- kernels and modules */

static void print_segments(const AuTileList *list, AuText *out)
{
    au_text_add(out, "    tiles %s = ", list->name);
    for (uint32_t i = 0; i < list->segments.count; i++) {
        const AuTileSegment *g = &list->segments.at[i];
        au_text_add(out, "%s%s: %s(", i ? ", " : "", g->name, tile_how_names[g->how]);
        tile_print_expr(g->a, out);
        au_text_add(out, ", ");
        tile_print_expr(g->b, out);
        au_text_add(out, ")");
    }
    au_text_add(out, "\n");
}

static const char *whose(const AuTilePipe *p, AuTileEach each, bool one)
{
    return p->each == each ? "each " : one ? "one " : "";
}

static void print_pipe(const AuTilePipe *p, AuText *out)
{
    au_text_add(out, "    pipeline %s", p->name);
    print_many(p->stages, out);
    au_text_add(out, " %s%s -> %s%s", whose(p, TILE_EACH_PRODUCER, p->one_producer),
                p->producer_name, whose(p, TILE_EACH_CONSUMER, p->one_consumer), p->consumer_name);
    if (p->also_name) au_text_add(out, ", %s", p->also_name);
    au_text_add(out, " {");
    for (uint32_t i = 0; i < p->tiles.count; i++) {
        au_text_add(out, "%s", i ? ", " : " ");
        print_memory(p->tiles.at[i], out);
    }
    au_text_add(out, " }\n");
}

static void print_signature(const AuTileKernel *k, AuText *out)
{
    au_text_add(out, "kernel %s(", k->name);
    for (uint32_t i = 0; i < k->args.count; i++) {
        const AuTileMemory *m = k->args.at[i];
        au_text_add(out, "%s%s: ", i ? ", " : "", m->name);
        if (m->mode != TILE_PARAM) au_text_add(out, "%s ", tile_mode_names[m->mode]);
        tile_print_type(&m->type, out);
        print_packed(m, out);
    }
    au_text_add(out, ")\ngrid(");
    for (uint32_t i = 0; i < k->grid.count; i++) {
        au_text_add(out, "%s%s: ", i ? ", " : "", k->grid.at[i].name);
        tile_print_expr(k->grid.at[i].extent, out);
    }
    au_text_add(out, ")");
    if (k->resident) au_text_add(out, " resident %d", k->resident);
    if (k->written) au_text_add(out, " written %d", k->written);
    if (k->is_coarse) au_text_add(out, " coarse");
    au_text_add(out, " {\n");
}

static void print_kernel(const AuTileKernel *k, AuText *out)
{
    print_signature(k, out);
    for (uint32_t i = 0; i < k->lets.count; i++) {
        au_text_add(out, "    let ");
        tile_print_stmt(k->lets.at[i], out);
        au_text_add(out, "\n");
    }
    for (uint32_t i = 0; i < k->lists.count; i++) print_segments(k->lists.at[i], out);
    for (uint32_t i = 0; i < k->shared.count; i++) {
        au_text_add(out, "    shared ");
        print_memory(k->shared.at[i], out);
        au_text_add(out, "\n");
    }
    for (uint32_t i = 0; i < k->pipes.count; i++) print_pipe(k->pipes.at[i], out);
    for (uint32_t i = 0; i < k->barriers.count; i++) {
        au_text_add(out, "    barrier %s", k->barriers.at[i]->name);
        print_many(k->barriers.at[i]->many, out);
        print_option("of", k->barriers.at[i]->count, out);
        au_text_add(out, "\n");
    }
    for (uint32_t i = 0; i < k->roles.count; i++) {
        const AuTileRole *role = k->roles.at[i];
        au_text_add(out, "    role %s", role->name);
        print_many(role->many, out);
        au_text_add(out, " on %s", tile_executor_name(role->on));
        print_option("regs", role->regs, out);
        if (role->is_exact) au_text_add(out, " exact");
        print_body(&role->body, 1, out);
        au_text_add(out, "\n");
    }
    au_text_add(out, "}\n");
}

static void print_digits(const char *word, const AuTileDigits *digits, AuText *out)
{
    static const char *const units[] = {"reg", "lane", "warp"};
    au_text_add(out, " %s(", word);
    for (uint32_t i = 0; i < digits->count; i++) {
        const AuTileDigit d = digits->at[i];
        au_text_add(out, "%s%s", i ? " " : "", units[d.unit]);
        if (d.size) au_text_add(out, ":%d", d.size);
        if (d.unit != TILE_UNIT_REG && (d.unit == TILE_UNIT_LANE || d.stride != 1))
            au_text_add(out, "@%d", d.stride);
    }
    au_text_add(out, ")");
}

void tile_print(const AuTileModule *m, AuText *out)
{
    if (m->caps) au_text_add(out, "target %s\n", m->caps->name);
    const AuTileModule *plain = tile_module_new(m->arena, NULL);
    for (uint32_t i = 0; i < TILE_OPTION_COUNT; i++) {
        AuTileOptions has = m->options, otherwise = plain->options;
        const char *name = tile_option_names[i];
        if (*tile_option(&has, name) != *tile_option(&otherwise, name))
            au_text_add(out, "option %s = %d\n", name, *tile_option(&has, name));
    }
    for (uint32_t i = 0; i < m->consts.count; i++) {
        au_text_add(out, "const %s", m->consts.at[i].name);
        print_option("=", m->consts.at[i].value, out);
        au_text_add(out, "\n");
    }
    for (uint32_t i = 0; i < m->layouts.count; i++) {
        au_text_add(out, "layout %s =", m->layouts.at[i]->name);
        print_digits("rows", &m->layouts.at[i]->rows, out);
        if (m->layouts.at[i]->has_cols) print_digits("cols", &m->layouts.at[i]->cols, out);
        au_text_add(out, "\n");
    }
    for (uint32_t i = 0; i < m->fns.count; i++) {
        const AuTileFn *fn = m->fns.at[i];
        au_text_add(out, "fn %s(", fn->name);
        tile_print_names(&fn->params, "", out);
        au_text_add(out, ")");
        print_body(&fn->body, 0, out);
        au_text_add(out, "\n");
    }
    for (uint32_t i = 0; i < m->kernels.count; i++) print_kernel(m->kernels.at[i], out);
}
