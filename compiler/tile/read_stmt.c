/* read_stmt.c - statements of the text form. The first word decides, else `names =`. */
#include "reader.h"

#include <string.h>

AuTileStmt *new_stmt(Reader *r, AuTileStmtKind kind, uint32_t begin)
{
    AuTileStmt *s = AU_NEW(r->arena, AuTileStmt);
    s->kind = kind;
    s->span = span_from(r, begin);
    return s;
}

static void read_names(Reader *r, AuTileNames *names)
{
    do {
        const char *name = take_name(r);
        AU_PUSH(r->arena, names->at, names->count, names->capacity, name);
    } while (accept(r, ","));
}

static AuTileExpr *read_ring(Reader *r)
{
    if (!accept(r, "[")) return NULL;
    AuTileExpr *index = read_expr(r);
    expect(r, "]");
    return index;
}

/* ---- parts */

static void read_atom_name(Reader *r, AuTileLayoutRef *layout)
{
    static const char letters[] = "ABC";
    layout->atom = tile_atom(layout->name);
    const uint32_t begin = token(r)->begin;
    const char *use = take_name(r);
    const char *letter = strchr(letters, use[0]);
    if (!layout->atom) {
        au_error(r->diags, AU_E0702, layout->span, "no matrix instruction is called %s",
                 layout->name);
    } else if (use[0] && letter && !use[1]) {
        layout->use = (AuTileUse)(letter - letters);
        return;
    } else if (!r->failed) {
        au_error(r->diags, AU_E0701, span_from(r, begin), "expected A, B or C, found %s", use);
    }
    r->failed = true;
    r->at = r->count - 1;
}

AuTileLayoutRef read_operand(Reader *r)
{
    AuTileLayoutRef layout = {.kind = TILE_OF_ATOM};
    const uint32_t begin = token(r)->begin;
    layout.name = take_name(r);
    layout.span = span_from(r, begin);
    expect(r, ".");
    if (!r->failed) read_atom_name(r, &layout);
    return layout;
}

/* like x, @ along_lanes, @ wgmma.C */
static AuTileLayoutRef read_layout(Reader *r)
{
    AuTileLayoutRef layout = {0};
    const uint32_t begin = token(r)->begin;
    if (accept(r, "like"))
        layout.kind = TILE_LIKE;
    else if (accept(r, "@"))
        layout.kind = TILE_NAMED;
    else
        return layout;
    layout.name = take_name(r);
    layout.span = span_from(r, begin);
    if (layout.kind == TILE_NAMED && accept(r, ".")) {
        layout.kind = TILE_OF_ATOM;
        read_atom_name(r, &layout);
    }
    return layout;
}

static AuTileStmt *read_transfer(Reader *r, uint32_t begin, bool is_async, const char *token_name)
{
    AuTileStmt *s = new_stmt(r, TILE_S_MOVE, begin);
    uint32_t op = 0;
    while (op < 4 && !accept(r, tile_move_names[op])) op++;
    if (op == 4) fail(r, "copy, store, atomic_add or reduce_add");
    s->move.op = op == 4 ? TILE_COPY : (AuTileMoveOp)op;
    s->move.is_async = is_async;
    s->move.token = token_name;
    const bool from_memory = s->move.op == TILE_COPY || s->move.op == TILE_REDUCE_ADD;
    s->move.source = from_memory ? read_ref(r) : read_expr(r);
    expect(r, "->");
    s->move.dest = read_ref(r);
    for (;;) {
        if (accept(r, "pad"))
            s->move.pad = read_expr(r);
        else if (accept(r, "clip"))
            s->move.clip = true;
        else if (accept(r, "when"))
            s->move.when = read_expr(r);
        else
            break;
    }
    s->span = span_from(r, begin);
    return s;
}

static bool is_product(const Reader *r)
{
    return token(r)->kind == TOKEN_NAME && is_second(r, "(") && tile_atom(token(r)->text);
}

static AuTileStmt *read_product(Reader *r, uint32_t begin, const char *name, bool is_async,
                                bool add)
{
    AuTileStmt *s = new_stmt(r, TILE_S_PRODUCT, begin);
    s->product.name = name;
    s->product.is_async = is_async;
    s->product.add = add;
    if (!is_product(r)) {
        fail(r, "a matrix product");
        return s;
    }
    s->product.atom = tile_atom(take_name(r));
    expect(r, "(");
    s->product.a = read_expr(r);
    expect(r, ",");
    s->product.b = read_expr(r);
    expect(r, ")");
    if (is_async && !add && (is(r, "add") || is(r, "->"))) { /* into tensor memory */
        s->product.add = accept(r, "add");
        expect(r, "->");
        s->product.dest = read_ref(r);
        if (accept(r, "when")) s->product.when = read_expr(r);
    } else
        s->product.serial = add && !is_async && accept(r, "serial");
    s->span = span_from(r, begin);
    return s;
}

static AuTileStmt *read_load(Reader *r, uint32_t begin, const char *name)
{
    AuTileStmt *s = new_stmt(r, TILE_S_LOAD, begin);
    s->load.name = name;
    s->load.source = read_ref(r);
    s->load.layout = read_layout(r);
    for (;;) {
        if (accept(r, "across")) {
            const AuTileAxis axis = read_axis(r);
            s->load.across = axis.name;
            s->load.across_extent = axis.extent;
        } else if (accept(r, "pad")) {
            s->load.pad = read_expr(r);
        } else if (accept(r, "when")) {
            s->load.when = read_expr(r);
        } else if (accept(r, "paired")) {
            s->load.paired = true;
        } else if (accept(r, "halves")) {
            s->load.halves = true;
        } else {
            break;
        }
    }
    s->span = span_from(r, begin);
    return s;
}

/* ---- statements by their first word */

static AuTileStmt *read_frag(Reader *r, uint32_t begin)
{
    AuTileStmt *s = new_stmt(r, TILE_S_FRAG, begin);
    s->frag.name = take_name(r);
    expect(r, ":");
    s->frag.type = read_type(r);
    s->frag.layout = read_layout(r);
    if (accept(r, "=")) s->frag.init = read_expr(r);
    s->span = span_from(r, begin);
    return s;
}

static AuTileStmt *read_private(Reader *r, uint32_t begin)
{
    AuTileStmt *s = new_stmt(r, TILE_S_PRIVATE, begin);
    s->memory = read_memory(r, TILE_PRIVATE_MEMORY);
    s->span = span_from(r, begin);
    return s;
}

static AuTileStmt *read_wait(Reader *r, uint32_t begin)
{
    AuTileStmt *s = new_stmt(r, TILE_S_WAIT, begin);
    read_names(r, &s->wait.names);
    if (accept(r, "but")) s->wait.but = read_expr(r);
    s->span = span_from(r, begin);
    return s;
}

static AuTileStmt *read_close(Reader *r, uint32_t begin, AuTileStmtKind kind)
{
    AuTileStmt *s = new_stmt(r, kind, begin);
    read_names(r, &s->close.names);
    if (accept(r, "after")) s->close.after = take_name(r);
    s->span = span_from(r, begin);
    return s;
}

static AuTileStmt *read_barrier(Reader *r, uint32_t begin, AuTileStmtKind kind)
{
    AuTileStmt *s = new_stmt(r, kind, begin);
    s->barrier.name = take_name(r);
    s->barrier.index = read_ring(r);
    s->span = span_from(r, begin);
    return s;
}

/* `fence self` */
static AuTileStmt *read_fence(Reader *r, uint32_t begin)
{
    AuTileStmt *s = new_stmt(r, TILE_S_SYNC, begin);
    if (!is(r, "self")) fail(r, "self");
    s->barrier.name = take_name(r);
    s->barrier.fences = true;
    s->span = span_from(r, begin);
    return s;
}

static AuTileStmt *read_for(Reader *r, uint32_t begin)
{
    AuTileStmt *s = new_stmt(r, TILE_S_FOR, begin);
    s->loop.var_name = take_name(r);
    expect(r, "in");
    if (is(r, "range") && is_second(r, "(")) {
        expect(r, "range");
        expect(r, "(");
        s->loop.low = read_expr(r);
        expect(r, ",");
        s->loop.high = read_expr(r);
        expect(r, ")");
    } else {
        s->loop.list_name = take_name(r);
        s->loop.segment = read_ring(r);
        if (accept(r, "from")) s->loop.low = read_expr(r);
        if (accept(r, "to")) s->loop.high = read_expr(r);
    }
    s->span = span_from(r, begin);
    read_block(r, &s->loop.body);
    return s;
}

static AuTileStmt *read_if(Reader *r, uint32_t begin)
{
    AuTileStmt *s = new_stmt(r, TILE_S_IF, begin);
    s->branch.test = read_expr(r);
    s->span = span_from(r, begin);
    read_block(r, &s->branch.then);
    if (accept(r, "else")) read_block(r, &s->branch.other);
    return s;
}

static AuTileStmt *read_on(Reader *r, uint32_t begin)
{
    AuTileStmt *s = new_stmt(r, TILE_S_ON, begin);
    s->on.segment = take_name(r);
    s->span = span_from(r, begin);
    read_block(r, &s->on.body);
    if (accept(r, "else")) read_block(r, &s->on.other);
    return s;
}

static AuTileStmt *read_part(Reader *r, uint32_t begin, AuTileStmtKind kind)
{
    AuTileStmt *s = new_stmt(r, kind, begin);
    s->part.name = take_name(r);
    expect(r, "lanes");
    s->part.lanes = read_expr(r);
    s->span = span_from(r, begin);
    return s;
}

static AuTileStmt *read_return(Reader *r, uint32_t begin)
{
    AuTileStmt *s = new_stmt(r, TILE_S_RETURN, begin);
    do {
        AuTileExpr *e = read_expr(r);
        AU_PUSH(r->arena, s->ret.items.at, s->ret.items.count, s->ret.items.capacity, e);
    } while (accept(r, ","));
    s->span = span_from(r, begin);
    return s;
}

static AuTileStmt *read_stage(Reader *r, uint32_t begin, const char *name, AuTileStmtKind kind)
{
    AuTileStmt *s = new_stmt(r, kind, begin);
    s->stage.name = name;
    s->stage.pipe_name = take_name(r);
    s->stage.index = read_ring(r);
    if (accept(r, "turn")) s->stage.turn = read_expr(r);
    s->span = span_from(r, begin);
    return s;
}

static AuTileStmt *read_convert(Reader *r, uint32_t begin, const char *name)
{
    AuTileStmt *s = new_stmt(r, TILE_S_CONVERT, begin);
    s->convert.name = name;
    AuTileExpr *source = new_expr(r, TILE_X_NAME, token(r)->begin);
    source->name = take_name(r);
    s->convert.source = source;
    s->convert.layout = read_layout(r);
    s->span = span_from(r, begin);
    return s;
}

/* What follows `name =` when it is more than an expression; NULL: an expression follows. */
static AuTileStmt *read_special(Reader *r, uint32_t begin, const char *name)
{
    if (accept(r, "async")) {
        if (is(r, "copy") || is(r, "reduce_add")) return read_transfer(r, begin, true, name);
        return read_product(r, begin, name, true, false);
    }
    if (is_product(r)) return read_product(r, begin, name, false, false);
    if (is_second(r, "(") || is_second(r, "[")) return NULL;
    if (accept(r, "load")) return read_load(r, begin, name);
    if (accept(r, "acquire")) return read_stage(r, begin, name, TILE_S_ACQUIRE);
    if (accept(r, "wait")) return read_stage(r, begin, name, TILE_S_WAIT_STAGE);
    if (accept(r, "convert")) return read_convert(r, begin, name);
    return NULL;
}

static AuTileStmt *read_assignment(Reader *r, uint32_t begin)
{
    AuTileNames names = {0};
    const char *name = take_name(r);
    AU_PUSH(r->arena, names.at, names.count, names.capacity, name);
    if (accept(r, "+=")) {
        const bool is_async = accept(r, "async");
        return read_product(r, begin, name, is_async, true);
    }
    if (accept(r, ",")) read_names(r, &names);
    expect(r, "=");
    AuTileStmt *special = names.count == 1 ? read_special(r, begin, name) : NULL;
    if (special) return special;
    AuTileStmt *s = new_stmt(r, TILE_S_ASSIGN, begin);
    s->assign.names = names;
    s->assign.value = read_expr(r);
    s->span = span_from(r, begin);
    return s;
}

static AuTileStmt *read_prefetch(Reader *r, uint32_t begin)
{
    AuTileStmt *s = new_stmt(r, TILE_S_PREFETCH, begin);
    s->ahead.view = read_ref(r);
    s->span = span_from(r, begin);
    return s;
}

AuTileStmt *read_statement(Reader *r)
{
    const uint32_t begin = token(r)->begin;
    if (is_second(r, "=") || is_second(r, ","))
        return read_assignment(r, begin); /* any name may be assigned */
    if (accept(r, "frag")) return read_frag(r, begin);
    if (accept(r, "private")) return read_private(r, begin);
    if (accept(r, "async")) return read_transfer(r, begin, true, NULL);
    for (uint32_t op = 0; op < 4; op++)
        if (is(r, tile_move_names[op])) return read_transfer(r, begin, false, NULL);
    if (accept(r, "prefetch")) return read_prefetch(r, begin);
    if (accept(r, "wait")) return read_wait(r, begin);
    if (accept(r, "commit")) return read_close(r, begin, TILE_S_COMMIT);
    if (accept(r, "release")) return read_close(r, begin, TILE_S_RELEASE);
    if (accept(r, "sync")) return read_barrier(r, begin, TILE_S_SYNC);
    if (accept(r, "fence")) return read_fence(r, begin);
    if (accept(r, "arrive")) return read_barrier(r, begin, TILE_S_ARRIVE);
    if (accept(r, "for")) return read_for(r, begin);
    if (accept(r, "if")) return read_if(r, begin);
    if (accept(r, "on")) return read_on(r, begin);
    if (accept(r, "part")) return read_part(r, begin, TILE_S_PART);
    if (accept(r, "join")) return read_part(r, begin, TILE_S_JOIN);
    if (accept(r, "return")) return read_return(r, begin);
    return read_assignment(r, begin);
}

void read_block(Reader *r, AuTileStmts *out)
{
    if (!enter(r)) return;
    expect(r, "{");
    skip_lines(r);
    while (!is(r, "}") && !r->failed) {
        AuTileStmt *s = read_statement(r);
        AU_PUSH(r->arena, out->at, out->count, out->capacity, s);
        if (!is(r, "}") && token(r)->kind != TOKEN_NEWLINE) fail(r, "the end of the statement");
        skip_lines(r);
    }
    expect(r, "}");
    leave(r);
}
