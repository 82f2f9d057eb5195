/* by_place.c - fragments of an instruction whose elements lie nobody knows where, but which computes with functions of an element, its row and
 * its column (atoms.h, by_place): memories of space matrix, one matrix of the instruction's extent behind the other, rows of them first.
 *
 * An assignment is a function for each matrix; all matrices that it reads give the element at the same place. A row of numbers, one a row of
 * the fragment, is a column of matrices in each of which a row has its number everywhere, and so for columns. A reduction of rows first joins,
 * element by element, the matrices side by side, then reduces one. Truth values are 1 and 0.
 * Where matrices may have any multiples of the instruction's extents (atoms.h, multiples) a fragment is one matrix (by_place_wide.c).
 *
 * Not: numbers that must be integers, reductions over rows of rows, sums in memory (functions may be called twice for an element). */
#include "by_place.h"

/* ---- matrices */

static const AuTileAtom *atom_of(const AuLower *l)
{
    const AuTileAtom *atom = NULL;
    for (uint32_t n = 0; (atom = tile_atom_at(n)); n++)
        if (atom->by_place && tile_has_atom(l->module->caps, atom)) return atom;
    return NULL;
}

AuCut lower_cut_by_place(AuLower *l, const AuTileType *type)
{
    const AuTileAtom *atom = atom_of(l);
    AuCut c = {.rows = 1, .columns = 1, .height = atom->m, .width = atom->n};
    for (uint32_t n = 0; n < type->count; n++) {
        const AuTileAxis *axis = &type->axes[n];
        const int32_t by_place = axis->places ? axis->places->by_place : 0;
        if (atom->multiples && by_place) *(by_place > 0 ? &c.height : &c.width) = axis->size;
        if (by_place > 0)
            c.rows = axis->size / c.height, c.row_axis = axis->name;
        else if (by_place < 0)
            c.columns = axis->size / c.width, c.column_axis = axis->name;
    }
    if (type->elem == TILE_I32) lower_refuse(l, "integers that lie as %s has its sums", atom->name);
    return c;
}

bool by_place_is_half(const AuTileType *type)
{
    return type->elem == TILE_F16 || type->elem == TILE_BF16;
}

static AuMem held_matrices(AuLower *l, const AuTileVar *var, AuTileUse use, AuTileElem elem)
{
    AuHeld *held = lower_held(l, var);
    if (held->as == HELD_ARRAY) return held->mem;
    const AuCut cut = lower_cut_by_place(l, var->type);
    *held = (AuHeld){.as = HELD_ARRAY, .mem = lower_matrices(l, var->name, &cut, use, elem)};
    return held->mem;
}

AuMem lower_var_matrices(AuLower *l, const AuTileVar *var)
{
    const bool half = by_place_is_half(var->type);
    return held_matrices(l, var, half ? TILE_A : TILE_C, half ? var->type->elem : TILE_F32);
}

bool by_place_stays_wide(const AuLower *l, AuTileElem elem)
{
    return elem == TILE_BF16 && !atom_of(l)->joins;
}

/* Of a variable of 16 bits that was assigned, and is no operand yet. */
static AuMem rounded_matrices(AuLower *l, const AuTileVar *var)
{
    const bool wide = by_place_stays_wide(l, var->type->elem);
    return held_matrices(l, var, wide ? TILE_C : by_place_rounded_use(l),
                         wide ? TILE_F32 : var->type->elem);
}

bool by_place_is_wide(AuLower *l, const AuTileVar *var)
{
    const AuHeld *held = lower_held(l, var);
    return held->as == HELD_ARRAY && held->mem.i && l->k->mems[held->mem.i].scalar == AU_F32;
}

AuTileUse by_place_rounded_use(const AuLower *l) { return atom_of(l)->joins ? TILE_A : TILE_C; }

/* ---- positions, where components alone are reached: matrices whose elements are their row, and their column */

/* 2^23 + n has n in its low bits. */
enum { NUMBERS = 1 << 23, NUMBER_BITS = 0x4b000000 };

/* A column, or a row, of these numbers everywhere is a load with stride 0. They come first in the kernel. */
void lower_positions(AuLower *l)
{
    const AuTileAtom *atom = atom_of(l);
    AuKernel *k = l->k;
    const AuCut one = {.rows = 1, .columns = 1, .height = atom->m, .width = atom->n};
    const int32_t most = atom->m > atom->n ? atom->m : atom->n;
    const AuMem numbers = kernel_memory(k, (AuMemory){.name = "numbers",
                                                      .space = AU_SHARED,
                                                      .scalar = AU_F32,
                                                      .count = (uint32_t)most,
                                                      .align = 64,
                                                      .reads = true,
                                                      .writes = true,
                                                      .span = l->span});
    const AuVal zero = kernel_i32(k, 0), lane = kernel_lane(k);
    const AuVal first = kernel_op2(k, AU_K_EQ, kernel_warp(k), zero);
    const AuVal number = kernel_op2(k, AU_K_ADD, lane, kernel_i32(k, NUMBERS));
    kernel_store(
        k, numbers, lane, kernel_cvt(k, number, AU_F32),
        kernel_op2(k, AU_K_LAND, first, kernel_op2(k, AU_K_LT, lane, kernel_i32(k, most))));
    kernel_barrier(k, 0);
    l->row_numbers = lower_matrices(l, "row_numbers", &one, TILE_C, TILE_F32);
    l->column_numbers = lower_matrices(l, "column_numbers", &one, TILE_C, TILE_F32);
    const AuOpaque from = {numbers, zero};
    kernel_matrix_move(k, AU_K_MATRIX_LOAD, by_place_matrix(l, l->row_numbers, 0), from, zero,
                       true);
    kernel_matrix_move(k, AU_K_MATRIX_LOAD, by_place_matrix(l, l->column_numbers, 0), from, zero,
                       false);
}

bool lower_wants_positions(const AuLower *l, const AuTileStmts *body)
{
    const AuTileAtom *atom = atom_of(l);
    return atom && !atom->joins && tile_is_by_place(body);
}

static AuVal position(AuLower *l, AuMem numbers, AuKOp op)
{
    if (!numbers.i) return kernel_matrix_place(l->k, op);
    const AuVal number = kernel_matrix_get(l->k, by_place_matrix(l, numbers, 0));
    return kernel_op2(l->k, AU_K_SUB, kernel_bitcast(l->k, number, AU_I32),
                      kernel_i32(l->k, NUMBER_BITS));
}

/* Of these matrices the one that meets the matrix (i, j) of another cut. */
static int32_t meeting(const AuCut *cut, int32_t i, int32_t j)
{
    return (cut->row_axis ? i : 0) * cut->columns + (cut->column_axis ? j : 0);
}

/* ---- what an expression reads */

static bool is_reduction(const AuTileExpr *e) { return tile_is_max(e) || tile_is_sum(e); }

static void add_reads(ByPlace *b, AuTileExpr *e)
{
    if (is_reduction(e)) {
        AU_PUSH(b->l->arena, b->reductions.at, b->reductions.count, b->reductions.capacity, e);
        return;
    }
    for (uint32_t n = 0; n < e->args.count; n++)
        if (e->args.at[n]) add_reads(b, e->args.at[n]);
    if (e->op != TILE_X_NAME || !e->var || e->var->kind != TILE_VALUE) return;
    for (uint32_t n = 0; n < b->vars.count; n++)
        if (b->vars.at[n] == e->var) return;
    AU_PUSH(b->l->arena, b->vars.at, b->vars.count, b->vars.capacity, e->var);
    const AuHeld *held = lower_held(b->l, e->var);
    if (held->as == HELD_FORMULA) add_reads(b, (AuTileExpr *)(uintptr_t)held->formula);
}

/* ---- functions of an element */

static void know(AuLower *l, AuKnown known)
{
    AU_PUSH(l->arena, l->r.known, l->r.known_count, l->r.known_capacity, known);
}

void by_place_know_cells(ByPlace *b)
{
    AuLower *l = b->l;
    if (atom_of(l)->multiples) by_place_widen(b);
    for (uint32_t n = 0; n < b->vars.count; n++) {
        const AuHeld *held = lower_held(l, b->vars.at[n]);
        if (held->as == HELD_CELL || (held->as == HELD_ARRAY && !b->vars.at[n]->type->count))
            know(l, (AuKnown){.var = b->vars.at[n],
                              .value = kernel_load(l->k, held->mem, kernel_i32(l->k, 0), 1,
                                                   (AuVal){0}, (AuVal){0})});
    }
}

static AuVal read(AuLower *l, AuMem mem, const AuCut *cut, int32_t i, int32_t j, bool truth)
{
    const AuVal v = kernel_matrix_get(l->k, by_place_matrix(l, mem, meeting(cut, i, j)));
    return truth ? kernel_op2(l->k, AU_K_NE, v, kernel_f32(l->k, 0)) : v;
}

static void know_elements(ByPlace *b, int32_t i, int32_t j)
{
    AuLower *l = b->l;
    for (uint32_t n = 0; n < b->vars.count; n++) {
        const AuTileVar *var = b->vars.at[n];
        if (!tile_has_places(var->type) || lower_held(l, var)->as == HELD_FORMULA) continue;
        const bool half = by_place_is_half(var->type);
        if (half && !by_place_is_wide(l, var)) {
            lower_refuse(l, "elements of %s, which is an operand", var->name);
            return;
        }
        const AuCut cut = lower_cut_by_place(l, var->type);
        const AuMem mem = by_place_wide(b, var, NULL, lower_var_matrices(l, var), &cut);
        const AuVal value = read(l, mem, &cut, i, j, var->type->elem == TILE_BOOL);
        know(l, (AuKnown){.var = var, .value = half ? kernel_cvt(l->k, value, AU_BF16) : value});
    }
    for (uint32_t n = 0; n < b->reductions.count; n++)
        for (uint32_t m = 0; m < b->reduced.count; m++) {
            const Reduced *r = &b->reduced.at[m];
            if (r->e != b->reductions.at[n]) continue;
            const AuMem mem = by_place_wide(b, NULL, r->e, r->mem, &r->cut);
            know(l, (AuKnown){.reduction = r->e, .value = read(l, mem, &r->cut, i, j, false)});
        }
}

static AuPoint point_of(ByPlace *b, int32_t i, int32_t j)
{
    AuKernel *k = b->l->k;
    AuPoint p = {.count = 0};
    if (b->cut.row_axis)
        p.at[p.count++] =
            (AuCoord){.axis = b->cut.row_axis,
                      .index = kernel_op2(k, AU_K_ADD, b->row, kernel_i32(k, i * b->cut.height))};
    if (b->cut.column_axis)
        p.at[p.count++] =
            (AuCoord){.axis = b->cut.column_axis,
                      .index = kernel_op2(k, AU_K_ADD, b->column, kernel_i32(k, j * b->cut.width))};
    return p;
}

void by_place_open(ByPlace *b, AuOpaque of)
{
    kernel_matrix_each(b->l->k, of);
    b->row = position(b->l, b->l->row_numbers, AU_K_MATRIX_ROW);
    b->column = position(b->l, b->l->column_numbers, AU_K_MATRIX_COLUMN);
}

void by_place_at_element(ByPlace *b, int32_t i, int32_t j, AtPoint what, void *user)
{
    AuLower *l = b->l;
    const uint32_t before = l->r.known_count;
    know_elements(b, i, j);
    const AuPoint p = point_of(b, i, j);
    lower_visit(l, &p);
    what(b, &p, user);
    lower_leave(l);
    l->r.known_count = before;
}

typedef struct Value {
    const AuTileExpr *e;
    AuVal value;
} Value;

static void evaluate(ByPlace *b, const AuPoint *p, void *user)
{
    Value *v = user;
    v->value = lower_as(b->l, lower_eval(b->l, v->e, p), AU_F32);
}

static AuVal element(ByPlace *b, const AuTileExpr *e, int32_t i, int32_t j)
{
    Value v = {.e = e};
    by_place_at_element(b, i, j, evaluate, &v);
    return v.value;
}

/* ---- reductions */

static AuKOp operation_of(const AuTileExpr *reduction)
{
    if (tile_is_sum(reduction)) return AU_K_ADD;
    return reduction->op == TILE_X_REDUCE_MAXNAN ? AU_K_MAXNAN : AU_K_MAX;
}

static void prepare(ByPlace *b, AuTileExpr *e);

/* Do columns keep their parts of it? */
static bool stays_in_parts(const ByPlace *b, const AuTileExpr *reduction)
{
    return (b->in_parts && tile_is_sum(reduction)) || (b->asked && tile_is_max(reduction));
}

void by_place_begin(ByPlace *b, AuTileExpr *e, const AuTileType *type)
{
    prepare(b, e);
    b->vars.count = b->reductions.count = 0;
    b->cut = lower_cut_by_place(b->l, type);
    add_reads(b, e);
}

static void reduce(ByPlace *b, AuTileExpr *e)
{
    AuLower *l = b->l;
    AuTileExpr *x = e->args.at[0];
    const AuKOp op = operation_of(e);
    by_place_begin(b, x, x->type);
    const AuCut of = b->cut;
    AuCut to = of;
    to.columns = 1, to.column_axis = NULL;
    if (e->op == TILE_X_REDUCE_TOP || !of.row_axis || !of.column_axis ||
        !tile_axis(e->type, of.row_axis) || tile_axis(e->type, of.column_axis)) {
        lower_refuse(l, "this reduction of matrices whose elements lie nobody knows where");
        return;
    }
    if (atom_of(l)->multiples) to.width = atom_of(l)->n;
    const AuMem mem =
        lower_matrices(l, tile_is_max(e) ? "row_max" : "row_sum", &to, TILE_C, TILE_F32);
    AuCut side = of; /* all matrices of a row as one */
    side.columns = 1;
    const AuMem all_of =
        atom_of(l)->multiples ? lower_matrices(l, "rows", &side, TILE_C, TILE_F32) : mem;
    const uint32_t before = l->r.known_count;
    by_place_know_cells(b);
    for (int32_t i = 0; i < of.rows && !l->failed; i++) {
        by_place_open(b, by_place_matrix(l, all_of, i));
        AuVal all = element(b, x, i, 0);
        for (int32_t j = 1; j < of.columns; j++)
            all = kernel_op2(l->k, op, all, element(b, x, i, j));
        kernel_matrix_put(l->k, all);
        kernel_end(l->k);
        const AuOpaque joined = by_place_matrix(l, all_of, i);
        if (stays_in_parts(b, e)) continue;
        if (atom_of(l)->joins)
            kernel_matrix_reduce(l->k, op, by_place_matrix(l, mem, i), joined, false);
        else
            by_place_reduce(l, &of, op, joined);
    }
    l->r.known_count = before;
    const Reduced done = {e, mem, to, stays_in_parts(b, e)};
    AU_PUSH(l->arena, b->reduced.at, b->reduced.count, b->reduced.capacity, done);
}

static AuTileExpr *known_reduction(const ByPlace *b, const AuTileExpr *e)
{
    for (uint32_t n = 0; n < b->reduced.count; n++)
        if (b->reduced.at[n].in_parts == stays_in_parts(b, e) &&
            tile_same_expr(b->reduced.at[n].e, e))
            return b->reduced.at[n].e;
    return NULL;
}

/* Reductions in the expression are computed, those that are known already are taken. */
static void prepare(ByPlace *b, AuTileExpr *e)
{
    for (uint32_t n = 0; n < e->args.count && !b->l->failed; n++) {
        AuTileExpr *arg = e->args.at[n];
        if (!arg) continue;
        if (!is_reduction(arg)) {
            prepare(b, arg);
            continue;
        }
        AuTileExpr *known = known_reduction(b, arg);
        if (known)
            e->args.at[n] = known;
        else
            reduce(b, arg);
    }
}

static void forget(ByPlace *b, const AuTileVar *var)
{
    uint32_t kept = 0;
    for (uint32_t n = 0; n < b->reduced.count; n++)
        if (!tile_count_reads(b->reduced.at[n].e, var)) b->reduced.at[kept++] = b->reduced.at[n];
    b->reduced.count = kept;
    by_place_forget_wide(b, var);
}

/* ---- assignments */

AuTileExpr *by_place_rooted(AuLower *l, AuTileExpr *e)
{
    if (!is_reduction(e)) return e;
    AuTileExpr *root = AU_NEW(l->arena, AuTileExpr);
    *root = (AuTileExpr){.op = TILE_X_TO_F32, .type = e->type, .span = e->span};
    AU_PUSH(l->arena, root->args.at, root->args.count, root->args.capacity, e);
    return root;
}

bool by_place_rounds(const AuTileExpr *e)
{
    return e->op == TILE_X_TO_F16 || e->op == TILE_X_TO_BF16;
}

static void fill(ByPlace *b, const AuTileVar *var, const AuTileExpr *e)
{
    AuLower *l = b->l;
    const AuPoint nowhere = {.count = 0};
    const AuVal all = lower_as(l, lower_eval(l, e, &nowhere), AU_F32);
    const AuMem mem = lower_var_matrices(l, var);
    for (int32_t n = 0; n < b->cut.rows * b->cut.columns; n++)
        kernel_matrix_fill(l->k, by_place_matrix(l, mem, n), all);
}

void by_place_compute(ByPlace *b, AuMem to, AuTileElem elem, AuTileExpr *e)
{
    AuLower *l = b->l;
    const bool half = elem != TILE_F32 && !by_place_stays_wide(l, elem);
    const AuMem sums = half ? lower_matrices(l, "exact", &b->cut, TILE_C, TILE_F32) : to;
    by_place_know_cells(b);
    for (int32_t i = 0; i < b->cut.rows && !l->failed; i++)
        for (int32_t j = 0; j < b->cut.columns; j++) {
            const int32_t n = i * b->cut.columns + j;
            by_place_open(b, by_place_matrix(l, sums, n));
            AuVal v = element(b, e, i, j);
            if (elem == TILE_BF16) /* how devices round to it is not said */
                v = kernel_cvt(l->k, kernel_cvt(l->k, v, AU_BF16), AU_F32);
            kernel_matrix_put(l->k, v);
            kernel_end(l->k);
            if (half)
                kernel_matrix_cvt(l->k, by_place_matrix(l, to, n), by_place_matrix(l, sums, n));
        }
}

static bool is_asked_in(const AuTileStmts *body, const AuTileVar *var)
{
    bool found = false;
    for (uint32_t n = 0; n < body->count && !found; n++) {
        AuTileStmt *s = body->at[n];
        const AuTileParts parts = tile_parts(s);
        found = tile_asks(s) && s->branch.test->args.at[0]->var == var;
        for (uint32_t i = 0; i < parts.body_count; i++) found |= is_asked_in(parts.bodies[i], var);
    }
    return found;
}

/* !(reduce_max(x) < limit) that a vote alone asks for: true in all columns of a row, or in that of the largest. */
static bool is_only_asked(const AuLower *l, const AuTileVar *var, const AuTileExpr *value)
{
    return value->op == TILE_X_NOT && value->args.at[0]->op == TILE_X_LT && atom_of(l)->joins &&
           !atom_of(l)->multiples && lower_count(l, var)->uses == 1 &&
           is_asked_in(&l->r.role->body, var);
}

static void assign(ByPlace *b, const AuTileStmt *s)
{
    AuLower *l = b->l;
    const bool half = by_place_is_half(s->var->type);
    AuTileExpr *e = by_place_rooted(l, tile_assigned(s));
    if (half && by_place_rounds(e)) e = by_place_rooted(l, e->args.at[0]);
    b->in_parts = lower_held(l, s->var)->in_parts;
    b->asked = is_only_asked(l, s->var, e);
    by_place_begin(b, e, s->var->type);
    b->in_parts = b->asked = false;
    const uint32_t before = l->r.known_count;
    if (!half && !e->type->count)
        fill(b, s->var, e);
    else if (!l->failed)
        by_place_compute(b, half ? rounded_matrices(l, s->var) : lower_var_matrices(l, s->var),
                         half ? s->var->type->elem : TILE_F32, e);
    l->r.known_count = before;
    forget(b, s->var);
}

static void branch(ByPlace *b, const AuTileStmt *s);

static bool has_places(const AuTileStmt *s)
{
    if (s->kind == TILE_S_IF) return tile_has_places(s->branch.test->args.at[0]->type);
    return s->var && s->var->kind == TILE_VALUE && tile_has_places(s->var->type) &&
           !tile_is_homeless(s->var->type);
}

bool lower_has_places(AuTileStmt *const *statements, uint32_t count)
{
    bool found = false;
    for (uint32_t n = 0; n < count && !found; n++) found = has_places(statements[n]);
    return found;
}

static void statement(ByPlace *b, const AuTileStmt *s)
{
    AuText text = {.arena = b->l->arena};
    if (s->kind == TILE_S_IF) {
        branch(b, s);
        return;
    }
    tile_print_stmt(s, &text);
    kernel_note(b->l->k, au_text_str(&text));
    if (s->kind == TILE_S_LOAD) {
        lower_move_by_place(b->l, s);
        forget(b, s->var);
    } else
        assign(b, s);
}

/* Where a row asks for it. What is reduced in the branch nobody knows behind it. */
static void branch(ByPlace *b, const AuTileStmt *s)
{
    AuLower *l = b->l;
    const AuTileVar *test = s->branch.test->args.at[0]->var;
    const AuCut cut = lower_cut_by_place(l, test->type);
    const AuMem mem = lower_var_matrices(l, test);
    ByPlace inside = {.l = l};
    AuVal any = {0};
    for (int32_t n = 0; n < cut.rows * cut.columns; n++) {
        const AuVal one = kernel_matrix_any(l->k, by_place_matrix(l, mem, n));
        any = any.i ? kernel_op2(l->k, AU_K_LOR, any, one) : one;
    }
    kernel_if(l->k, any);
    for (uint32_t n = 0; n < s->branch.then.count && !l->failed; n++) {
        statement(&inside, s->branch.then.at[n]);
        forget(b, s->branch.then.at[n]->var);
    }
    kernel_end(l->k);
}

/* ---- sums that wait while a loop runs: each column of a row's matrix has a part */

void lower_part_by_place(AuLower *l, const AuTileVar *var)
{
    AuKernel *k = l->k;
    ByPlace b = {.l = l, .cut = lower_cut_by_place(l, var->type)};
    const AuMem mem = lower_var_matrices(l, var);
    lower_held(l, var)->in_parts = true;
    for (int32_t n = 0; n < b.cut.rows; n++) {
        by_place_open(&b, by_place_matrix(l, mem, n));
        const AuVal whole = kernel_matrix_get(k, by_place_matrix(l, mem, n));
        const AuVal first = kernel_op2(k, AU_K_EQ, b.column, kernel_i32(k, 0));
        kernel_matrix_put(k, kernel_op3(k, AU_K_SELECT, first, whole, kernel_f32(k, 0)));
        kernel_end(k);
    }
}

void lower_join_by_place(AuLower *l, const AuTileVar *var)
{
    const AuCut cut = lower_cut_by_place(l, var->type);
    const AuMem mem = lower_var_matrices(l, var);
    lower_held(l, var)->in_parts = false;
    for (int32_t n = 0; n < cut.rows; n++)
        kernel_matrix_reduce(l->k, AU_K_ADD, by_place_matrix(l, mem, n), by_place_matrix(l, mem, n),
                             false);
}

void lower_by_place(AuLower *l, AuTileStmt *const *statements, uint32_t count)
{
    ByPlace b = {.l = l};
    for (uint32_t n = 0; n < count && !l->failed; n++) {
        lower_at_statement(l, statements[n]);
        if (!has_places(statements[n])) {
            lower_assignments(l, statements + n, 1);
            continue;
        }
        statement(&b, statements[n]);
    }
}
