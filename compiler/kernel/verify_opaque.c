/* verify_opaque.c - matrices whose elements lie nobody knows how. */
#include "verify.h"

const char *verify_matrices(const AuKernel *k, const AuMemory *m)
{
    AuMatrixShape s = {.lanes = k->lanes, .operands = m->use == AU_MATRIX_C ? AU_VOID : m->scalar};
    if (m->use == AU_MATRIX_A) s.m = m->rows, s.k = m->columns;
    if (m->use == AU_MATRIX_B) s.k = m->rows, s.n = m->columns;
    if (m->use == AU_MATRIX_C) s.m = m->rows, s.n = m->columns;
    if (!((F32 | HALF) >> m->scalar & 1)) return "has matrices of elements that no instruction has";
    if (!m->rows || !m->columns) return "has matrices without elements";
    if (!kernel_has_matrix(s)) return "has matrices that no instruction has";
    if (kernel_has_matrices_of_block(k) && k->warps != 1)
        return "has matrices of a block, which has several executors";
    return NULL;
}

static const AuMemory *memory(const AuVerifier *v, AuMem mem) { return &v->k->mems[mem.i]; }

/* Operand [n] is the index of a matrix. */
static bool check_matrix(AuVerifier *v, uint32_t i, uint32_t n, AuMem mem)
{
    const AuInstr *in = &v->k->instrs[i], *at = kernel_at(v->k, kernel_operand(v->k, in, n));
    const AuMemory *m = memory(v, mem);
    if (m->space != AU_MATRIX)
        verify_wrong(v, AU_E0807, i, "@%s holds no matrices", m->name);
    else if (!verify_wants(v, i, n, I32, 1, "which matrix, i32"))
        return false;
    else if (v->lanes.kind[kernel_operand(v->k, in, n).i] != AU_UNIFORM)
        verify_wrong(v, AU_E0806, i, "which matrix must be the same in all lanes");
    else if (at->op == AU_K_CONST && (at->imm < 0 || at->imm >= (int64_t)m->count))
        verify_wrong(v, AU_E0808, i, "@%s has %u matrices", m->name, m->count);
    else
        return true;
    return false;
}

/* Sums may become operands; else only the type differs. */
static bool converts(const AuMemory *to, const AuMemory *from)
{
    return to->use == from->use || (to->use == AU_MATRIX_A && from->use == AU_MATRIX_C);
}

static void check_one_kind(AuVerifier *v, uint32_t i, AuMem a, AuMem b, bool same_type)
{
    const AuMemory *x = memory(v, a), *y = memory(v, b);
    if (x->rows != y->rows || x->columns != y->columns ||
        (same_type ? x->scalar != y->scalar || x->use != y->use : !converts(x, y)))
        verify_wrong(v, AU_E0804, i, "matrices of @%s and @%s are not of one kind", x->name,
                     y->name);
}

static void check_move(AuVerifier *v, uint32_t i)
{
    const AuInstr *in = &v->k->instrs[i];
    const bool load = in->op == AU_K_MATRIX_LOAD;
    const AuMem matrix = load ? in->mem : in->also[0], other = load ? in->also[0] : in->mem;
    const uint32_t at = load ? 1 : 0;
    const AuMemory *m = memory(v, other);
    verify_range(v, i, 0, 1);
    if (!check_matrix(v, i, load ? 0 : 1, matrix)) return;
    verify_wants(v, i, at, INT, 1, "an index, i32 or i64");
    verify_wants(v, i, 2, I32, 1, "a stride, i32");
    for (uint32_t n = 0; n < 3; n++)
        if (v->lanes.kind[kernel_operand(v->k, in, n).i] != AU_UNIFORM)
            verify_wrong(v, AU_E0806, i, "places and strides must be the same in all lanes");
    if (m->space == AU_LANE || m->space == AU_MATRIX || m->space == AU_TENSOR)
        verify_wrong(v, AU_E0807, i, "@%s is no memory that all lanes see", m->name);
    else if (m->scalar != memory(v, matrix)->scalar)
        verify_wrong(v, AU_E0807, i, "@%s holds %s, not %s", m->name, kernel_scalar_name(m->scalar),
                     kernel_scalar_name(memory(v, matrix)->scalar));
    else if (m->swizzle)
        verify_wrong(v, AU_E0807, i, "@%s is swizzled, and rows are taken as they lie", m->name);
    else if (m->space == AU_GLOBAL && (load ? !m->reads : !m->writes))
        verify_wrong(v, AU_E0807, i, "@%s is not declared as %s", m->name,
                     load ? "read" : "written");
}

/* A surface of a tensor and a place in it. */
static void check_block(AuVerifier *v, uint32_t i)
{
    const AuInstr *in = &v->k->instrs[i];
    const AuMemory *m = memory(v, in->also[0]);
    const bool gathers = in->op == AU_K_MATRIX_BLOCK_GATHER;
    if (!check_matrix(v, i, 0, in->mem)) return;
    verify_wants(v, i, 1, INT, 1, "an index, i32 or i64");
    for (uint32_t n = 2; n < in->count; n++) {
        const bool apart = gathers && (n == 4 || n == 5); /* elements from row to row, .. */
        verify_wants(v, i, n, apart ? I64 : I32, 1, apart ? "i64" : "i32");
    }
    for (uint32_t n = 1; n < in->count; n++)
        if (v->lanes.kind[kernel_operand(v->k, in, n).i] != AU_UNIFORM)
            verify_wrong(v, AU_E0806, i, "operand %u must be the same in all lanes", n + 1);
    if (m->space != AU_GLOBAL || !(HALF >> m->scalar & 1) || !m->reads || m->writes)
        verify_wrong(v, AU_E0807, i, "@%s must be global memory of f16 or bf16 that is only read",
                     m->name);
    else if (m->scalar != memory(v, in->mem)->scalar)
        verify_wrong(v, AU_E0807, i, "@%s holds %s, not %s", m->name, kernel_scalar_name(m->scalar),
                     kernel_scalar_name(memory(v, in->mem)->scalar));
    else if (in->imm & ~1)
        verify_wrong(v, AU_E0808, i, "#%lld is none of 0, 1", (long long)in->imm);
}

static void check_mul(AuVerifier *v, uint32_t i)
{
    const AuInstr *in = &v->k->instrs[i];
    const AuMem mems[3] = {in->mem, in->also[0], in->also[1]};
    for (uint32_t n = 0; n < 3; n++)
        if (!check_matrix(v, i, n, mems[n])) return;
    const AuMemory *c = memory(v, mems[0]), *a = memory(v, mems[1]), *b = memory(v, mems[2]);
    const AuMatrixShape s = {v->k->lanes, a->rows, b->columns, a->columns, a->scalar};
    if (c->use != AU_MATRIX_C || a->use != AU_MATRIX_A || b->use != AU_MATRIX_B ||
        c->scalar != AU_F32 || a->scalar != b->scalar || c->rows != a->rows ||
        c->columns != b->columns || a->columns != b->rows || !kernel_has_matrix(s))
        verify_wrong(v, AU_E0804, i, "no instruction multiplies these");
}

static void check_elements(AuVerifier *v, uint32_t i)
{
    const AuInstr *in = &v->k->instrs[i];
    const bool scale = in->op == AU_K_MATRIX_SCALE, map = in->op == AU_K_MATRIX_MAP;
    if (!check_matrix(v, i, 0, in->mem) || !check_matrix(v, i, 1, in->also[0]) ||
        (map && !check_matrix(v, i, 2, in->also[1])))
        return;
    check_one_kind(v, i, in->mem, in->also[0], in->op != AU_K_MATRIX_CVT);
    if (map) check_one_kind(v, i, in->mem, in->also[1], true);
    if (map && in->imm != AU_K_ADD && in->imm != AU_K_SUB && in->imm != AU_K_MUL &&
        in->imm != AU_K_DIV)
        verify_wrong(v, AU_E0808, i, "is none of add, sub, mul, div");
    if (!scale) return;
    verify_wants(v, i, 2, F32, 1, "a factor, f32");
    if (v->lanes.kind[kernel_operand(v->k, in, 2).i] != AU_UNIFORM)
        verify_wrong(v, AU_E0806, i, "the factor must be the same in all lanes");
}

static void check_fill(AuVerifier *v, uint32_t i)
{
    const AuInstr *in = &v->k->instrs[i];
    if (!check_matrix(v, i, 0, in->mem) || !verify_wants(v, i, 1, F32, 1, "a number, f32")) return;
    if (v->lanes.kind[kernel_operand(v->k, in, 1).i] != AU_UNIFORM)
        verify_wrong(v, AU_E0806, i, "the number must be the same in all lanes");
}

/* Rows become rows of as many matrices; where these may have any number of columns, of as many as the result has. So do columns. */
static void check_reduce(AuVerifier *v, uint32_t i)
{
    const AuInstr *in = &v->k->instrs[i];
    if (!check_matrix(v, i, 0, in->mem) || !check_matrix(v, i, 1, in->also[0])) return;
    const AuMemory *to = memory(v, in->mem), *from = memory(v, in->also[0]);
    const bool columns = in->op == AU_K_MATRIX_REDUCE_COLUMNS;
    const bool along = (columns ? to->columns == from->columns : to->rows == from->rows) &&
                       to->use == from->use && to->scalar == from->scalar;
    if (!along || !kernel_has_matrices_of_block(v->k))
        check_one_kind(v, i, in->mem, in->also[0], true);
    if (memory(v, in->mem)->use != AU_MATRIX_C || memory(v, in->mem)->scalar != AU_F32)
        verify_wrong(v, AU_E0804, i, "only rows of sums are reduced");
    if (in->imm != AU_K_ADD && in->imm != AU_K_MAX && in->imm != AU_K_MAXNAN)
        verify_wrong(v, AU_E0808, i, "is none of add, max, maxnan");
}

static void check_any(AuVerifier *v, uint32_t i)
{
    const AuInstr *in = &v->k->instrs[i];
    if (check_matrix(v, i, 0, in->mem) &&
        (memory(v, in->mem)->use != AU_MATRIX_C || memory(v, in->mem)->scalar != AU_F32))
        verify_wrong(v, AU_E0804, i, "only sums are asked");
}

static void check_each(AuVerifier *v, uint32_t i)
{
    const AuInstr *in = &v->k->instrs[i];
    if (!check_matrix(v, i, 0, in->mem)) return;
    const AuMemory *m = memory(v, in->mem);
    if (v->each) verify_wrong(v, AU_E0803, i, "stands in a function of an element");
    if (m->scalar != AU_F32) verify_wrong(v, AU_E0804, i, "elements are f32");
    if (m->rows * m->columns % v->k->lanes)
        verify_wrong(v, AU_E0808, i, "%u x %u elements do not divide among %u lanes", m->rows,
                     m->columns, v->k->lanes);
}

/* Values from outside are the same in all lanes, since no lane has an element as its own. */
static void check_outside(AuVerifier *v, uint32_t i)
{
    const AuInstr *in = &v->k->instrs[i];
    for (uint32_t n = 0; n < in->count; n++) {
        const uint32_t x = kernel_operand(v->k, in, n).i;
        if (v->state[x] != 3 && v->lanes.kind[x] != AU_UNIFORM)
            verify_wrong(
                v, AU_E0806, i,
                "operand %u differs from lane to lane, and no lane is known to have the element",
                n + 1);
    }
}

static uint32_t last_of(const AuKernel *k, uint32_t first)
{
    while (first && k->instrs[first].next) first = k->instrs[first].next;
    return first;
}

void verify_place(AuVerifier *v, uint32_t i)
{
    const AuInstr *in = &v->k->instrs[i], *each = &v->k->instrs[v->each];
    const uint32_t flags = kernel_op_info(in->op)->flags;
    if (!v->each) {
        verify_wrong(v, AU_E0803, i, "stands in no function of an element");
        return;
    }
    check_outside(v, i);
    if (flags & (AU_KF_LANES | AU_KF_ORDER | AU_KF_AGENTS) || in->op == AU_K_LANE)
        verify_wrong(v, AU_E0803, i, "is no part of a function of an element");
    if (in->op == AU_K_ATOMIC_ADD)
        verify_wrong(v, AU_E0803, i, "may happen twice, as functions of an element are called");
    if (flags & AU_KF_MEM && in->mem.i && memory(v, in->mem)->space == AU_LANE)
        verify_wrong(v, AU_E0807, i, "an element is no lane's, and @%s is",
                     memory(v, in->mem)->name);
    if (in->op == AU_K_MATRIX_GET && check_matrix(v, i, 0, in->mem))
        check_one_kind(v, i, in->mem, each->mem, true);
    if (in->op == AU_K_MATRIX_PUT && verify_wants(v, i, 0, F32, 1, "an element, f32") &&
        last_of(v->k, each->body) != i)
        verify_wrong(v, AU_E0803, i, "is not the last of its function");
}

void verify_opaque(AuVerifier *v, uint32_t i)
{
    switch ((int)v->k->instrs[i].op) {
    case AU_K_MATRIX_FILL: check_fill(v, i); return;
    case AU_K_MATRIX_LOAD:
    case AU_K_MATRIX_STORE: check_move(v, i); return;
    case AU_K_MATRIX_BLOCK_LOAD:
    case AU_K_MATRIX_BLOCK_GATHER: check_block(v, i); return;
    case AU_K_MATRIX_MUL: check_mul(v, i); return;
    case AU_K_MATRIX_MAP:
    case AU_K_MATRIX_SCALE:
    case AU_K_MATRIX_CVT: check_elements(v, i); return;
    case AU_K_MATRIX_REDUCE:
    case AU_K_MATRIX_REDUCE_COLUMNS: check_reduce(v, i); return;
    case AU_K_MATRIX_EACH: check_each(v, i); return;
    case AU_K_MATRIX_ANY: check_any(v, i); return;
    }
}
