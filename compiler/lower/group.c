/* group.c - C[m, n] (+)= A[m, k] B[k, n] by a group of warps, beside which it goes on (wgmma), and waits for what goes on.
 *
 * A lies in registers as the instruction has it, or, as B does, in shared memory whose rows are those of the swizzle. An operand stored
 * along k walks inside of its rows; one stored across k is in parts as wide as the swizzle where it is wider. A product is a chain of
 * instructions along k, for each 64 rows, behind a fence for the registers, and one group; C and A are the unit's until a wait names
 * them. With C in tensor memory (tcgen05) one lane issues the chain, for each 128 rows; A lies there too, or in shared memory, and it
 * is stages that its end hands on. */
#include "internal.h"

enum { MOST_COLUMNS = 256 };

typedef struct Operand {
    const AuTileExpr *e;
    const char *free_name, *k_name;
    bool turned; /* in shared memory: stored across k */
} Operand;

typedef struct Product {
    const AuTileStmt *s;
    const AuTileAtom *atom;
    const AuTileType *type; /* of C */
    Operand a, b;
    int32_t rows, columns, depth;
    AuGroupMatrix row;
} Product;

/* ---- operands */

/* Begins the index along an axis where units may begin to read: at whole rows of eight, at whole parts or at steps of the product. */
static bool starts(const AuTileExpr *e, uint32_t n, int32_t unit)
{
    const AuTileExpr *index = e->has_index ? e->args.at[n] : NULL;
    return lower_starts_at(index, unit);
}

static bool prepare_shared(AuLower *l, const Product *x, Operand *o)
{
    enum { ROWS = 8 };
    const AuTileType *type = &o->e->memory->type;
    const uint32_t last = type->count - 1;
    const AuLowerMemory *place = lower_memory(l, o->e->memory);
    const AuMemory *mem = &l->k->mems[place->mem.i];
    if (o->e->memory->space == TILE_TENSOR) return true; /* by rows, from their beginning */
    if (o->e->memory->space != TILE_SHARED || o->e->type->count != 2 || !mem->swizzle) {
        lower_refuse(l, "operand %s of %s has no swizzle", o->e->memory->name, x->atom->name);
        return false;
    }
    o->turned = o->e->type->axes[1].name == o->free_name;
    const int32_t part = (int32_t)mem->swizzle / tile_elem(type->elem)->bytes;
    if (!starts(o->e, last, o->turned ? part : x->atom->k) || !starts(o->e, last - 1, ROWS)) {
        lower_refuse(l, "operand %s of %s begins inside of a row of its swizzle",
                     o->e->memory->name, x->atom->name);
        return false;
    }
    return true;
}

static bool is_in_registers(const Operand *o)
{
    return o->e->op == TILE_X_NAME && o->e->var && o->e->var->is_fragment;
}

static bool prepare_operand(AuLower *l, const Product *x, Operand *o)
{
    if (o->e->op == TILE_X_REF) return prepare_shared(l, x, o);
    if (is_in_registers(o)) return true;
    lower_refuse(l, "an operand of %s that is no fragment", x->atom->name);
    return false;
}

static bool find_row(const Product *x, AuScalar scalar, AuGroupMatrix *row)
{
    for (int n = 0; n < AU_GROUP_MATRICES; n++) {
        const AuGroupOp op = kernel_group_matrix((AuGroupMatrix)n);
        *row = (AuGroupMatrix)n;
        if (tile_same_instruction(op.atom, x->atom) && op.scalar == scalar &&
            op.a_turned == x->a.turned && op.b_turned == x->b.turned)
            return true;
    }
    return false;
}

static bool prepare(AuLower *l, Product *x)
{
    const AuTileStmt *s = x->s;
    const char *m = NULL, *n = NULL, *k = s->product.contracted;
    x->type = s->product.dest ? s->product.dest->type : s->var->type;
    for (uint32_t i = 0; i < x->type->count; i++)
        *(tile_axis(s->product.a->type, x->type->axes[i].name) ? &m : &n) = x->type->axes[i].name;
    if (x->type->count != 2 || !m || !n) {
        lower_refuse(l, "this product by %s", x->atom->name);
        return false;
    }
    x->a = (Operand){.e = s->product.a, .free_name = m, .k_name = k};
    x->b = (Operand){.e = s->product.b, .free_name = n, .k_name = k};
    x->rows = tile_axis(x->type, m)->size, x->columns = tile_axis(x->type, n)->size;
    x->depth = tile_axis(s->product.a->type, k)->size;
    if (!prepare_operand(l, x, &x->a) || !prepare_operand(l, x, &x->b)) return false;
    if (find_row(x, lower_scalar(s->product.a->type->elem), &x->row)) return true;
    lower_refuse(l, "%s of such operands", x->atom->name);
    return false;
}

/* Where the operand begins for [free] and [k]. */
static AuVal shared_at(AuLower *l, const Operand *o, int32_t free, int32_t k)
{
    const AuPoint p = {.at = {{.axis = o->free_name, .index = kernel_i32(l->k, free)},
                              {.axis = o->k_name, .index = kernel_i32(l->k, k)}},
                       .count = 2};
    return lower_address(l, o->e, &p, OUTSIDE_TRUSTED, NULL, false);
}

/* The first of a lane's registers of a fragment for row [m] and column [n] of it. */
static AuVal register_at(AuLower *l, const AuTileType *type, const char *first_name, int32_t m,
                         int32_t n)
{
    int32_t regs[TILE_MAX_AXES];
    for (uint32_t i = 0; i < 2; i++) {
        const int32_t index = type->axes[i].name == first_name ? m : n;
        regs[i] = lower_register_on(type->axes[i].places, index);
    }
    return kernel_i32(l->k, (int32_t)lower_register_number(type, regs));
}

/* From one part of the columns to the next. */
static int32_t stride_of(AuLower *l, const Operand *o)
{
    return o->turned ? lower_memory(l, o->e->memory)->part_step : 0;
}

static AuMem memory_of(AuLower *l, const Operand *o)
{
    return o->e->op == TILE_X_REF ? lower_memory(l, o->e->memory)->mem
                                  : lower_var_array(l, o->e->var);
}

/* ---- the product */

/* Whether the product adds to what is there: a constant, or `when`. */
static AuVal adds(AuLower *l, const AuTileStmt *s)
{
    if (!s->product.add || !s->product.when) return kernel_i1(l->k, s->product.add);
    return lower_eval(l, s->product.when, &(AuPoint){.count = 0});
}

/* Where the sums of row [m] and column [n] are: in tensor memory, or a lane's registers. */
static AuVal sums_at(AuLower *l, const Product *x, int32_t m, int32_t n)
{
    if (!x->s->product.dest) return register_at(l, x->type, x->a.free_name, m, n);
    const AuPoint p = {.at = {{.axis = x->a.free_name, .index = kernel_i32(l->k, m)},
                              {.axis = x->b.free_name, .index = kernel_i32(l->k, n)}},
                       .count = 2};
    return lower_address(l, x->s->product.dest, &p, OUTSIDE_TRUSTED, NULL, false);
}

static void chain(AuLower *l, const Product *x, int32_t m, int32_t n, int32_t columns)
{
    AuKernel *k = l->k;
    const AuTileExpr *dest = x->s->product.dest;
    for (int32_t at = 0; at < x->depth; at += x->atom->k) {
        const AuGroupProduct product = {
            .c = dest ? lower_memory(l, dest->memory)->mem : lower_var_array(l, x->s->var),
            .c_at = sums_at(l, x, m, n),
            .a = memory_of(l, &x->a),
            .a_at = x->a.e->op == TILE_X_REF ? shared_at(l, &x->a, m, at)
                                             : register_at(l, x->a.e->type, x->a.free_name, m, at),
            .b = memory_of(l, &x->b),
            .b_at = shared_at(l, &x->b, n, at),
            .add = at > 0 ? kernel_i1(k, true) : adds(l, x->s),
            .columns = columns,
            .a_stride = stride_of(l, &x->a),
            .b_stride = stride_of(l, &x->b)};
        if (dest)
            kernel_tensor_mul(k, x->row, &product, lower_one_lane(l));
        else
            kernel_wgmma(k, x->row, &product);
    }
}

void lower_group_product(AuLower *l, const AuTileStmt *s)
{
    Product x = {.s = s, .atom = s->product.atom};
    if (!prepare(l, &x)) return;
    if (!s->product.dest) kernel_wgmma_fence(l->k);
    for (int32_t m = 0; m < x.rows; m += x.atom->m)
        for (int32_t n = 0; n < x.columns; n += MOST_COLUMNS)
            chain(l, &x, m, n, x.columns - n < MOST_COLUMNS ? x.columns - n : MOST_COLUMNS);
    if (!s->product.dest) kernel_wgmma_commit(l->k);
}

/* ---- waits */

typedef struct Flights {
    const AuTileVar *var;
    const AuTileStmt *first;         /* what starts it */
    TILE_LIST(AuTileVar *) operands; /* fragments that it reads */
} Flights;

static void find_flights(AuLower *l, Flights *f, const AuTileStmts *body)
{
    for (uint32_t n = 0; n < body->count; n++) {
        AuTileStmt *s = body->at[n];
        const AuTileParts parts = tile_parts(s);
        for (uint32_t i = 0; i < parts.body_count; i++) find_flights(l, f, parts.bodies[i]);
        const bool async = (s->kind == TILE_S_PRODUCT && s->product.is_async) ||
                           (s->kind == TILE_S_MOVE && s->move.is_async);
        if (!async || s->var != f->var) continue;
        if (!f->first) f->first = s;
        AuTileVar *a =
            s->kind == TILE_S_PRODUCT && s->product.a->op == TILE_X_NAME ? s->product.a->var : NULL;
        for (uint32_t i = 0; a && i < f->operands.count; i++)
            if (f->operands.at[i] == a) a = NULL;
        if (a) AU_PUSH(l->arena, f->operands.at, f->operands.count, f->operands.capacity, a);
    }
}

static void add_memory(AuLower *l, AuMem *mems, uint32_t *count, const AuTileVar *var,
                       uint32_t groups)
{
    enum { MOST_NAMED = 3 };
    mems[(*count)++] = lower_var_array(l, var);
    if (*count < MOST_NAMED) return;
    kernel_wgmma_wait(l->k, mems, *count, groups);
    *count = 0;
}

static void wait_for_products(AuLower *l, const AuTileStmt *s, uint32_t groups)
{
    AuMem mems[4];
    uint32_t count = 0;
    for (uint32_t n = 0; n < s->wait.names.count; n++) {
        Flights f = {.var = s->wait.vars[n]};
        find_flights(l, &f, &l->r.role->body);
        add_memory(l, mems, &count, f.var, groups);
        for (uint32_t i = 0; i < f.operands.count; i++)
            add_memory(l, mems, &count, f.operands.at[i], groups);
    }
    if (count) kernel_wgmma_wait(l->k, mems, count, groups);
}

/* Are tensors read again that the copies write? Else it is enough that they have left shared memory. */
static bool leads_back(AuLower *l, const AuTileStmt *s)
{
    bool read = false;
    for (uint32_t n = 0; n < s->wait.names.count; n++) {
        Flights f = {.var = s->wait.vars[n]};
        find_flights(l, &f, &l->r.role->body);
        for (uint32_t i = 0; f.first && i < l->tile->roles.count; i++)
            read |= tile_reads_memory(&l->tile->roles.at[i]->body, f.first->move.dest->memory);
    }
    return read;
}

/* The pass `order` has split waits by who makes what is waited for. */
void lower_wait(AuLower *l, const AuTileStmt *s)
{
    Flights f = {.var = s->wait.vars[0]};
    find_flights(l, &f, &l->r.role->body);
    if (!s->wait.but || !f.first) {
        lower_refuse(l, "a wait for %s, which is no copy and no product", s->wait.names.at[0]);
        return;
    }
    const uint32_t groups = (uint32_t)s->wait.but->integer;
    if (f.first->kind == TILE_S_PRODUCT) {
        wait_for_products(l, s, groups);
    } else if (lower_is_bulk(f.first)) {
        kernel_bulk_wait(l->k, groups, !leads_back(l, s));
    } else {
        kernel_copy_wait(l->k, groups);
    }
}
