/* verify_matrix.c - products of matrices, between memories and in registers, and asynchronous copies. */
#include "verify.h"

/* A memory of the product: space, elements, and where its index is known, that all rows are inside. */
static void check_matrix(AuVerifier *v, uint32_t i, uint32_t n, AuMem mem, AuSpace space,
                         AuScalar scalar, int64_t last)
{
    const AuInstr *in = &v->k->instrs[i], *at = kernel_at(v->k, kernel_operand(v->k, in, n));
    const AuMemory *m = &v->k->mems[mem.i];
    verify_wants(v, i, n, INT, 1, "an index, i32 or i64");
    if (v->lanes.kind[kernel_operand(v->k, in, n).i] != AU_UNIFORM)
        verify_wrong(v, AU_E0806, i, "the place in @%s must be the same in all lanes", m->name);
    if (m->space != space || m->scalar != scalar)
        verify_wrong(v, AU_E0807, i, "@%s must be %s memory of %s", m->name,
                     space == AU_LANE ? "lane" : "exec", kernel_scalar_name(scalar));
    else if (at->op == AU_K_CONST && (at->imm < 0 || at->imm >= (int64_t)m->count - last))
        verify_wrong(v, AU_E0808, i, "@%s has %u elements", m->name, m->count);
}

void verify_matmul(AuVerifier *v, uint32_t i)
{
    const AuInstr *in = &v->k->instrs[i];
    for (uint32_t n = 3; n < in->count; n++)
        if (!verify_wants(v, i, n, n == 9 ? I1 : I32, 1, n == 9 ? "i1" : "i32")) return;
    for (uint32_t n = 3; n < in->count; n++)
        if (kernel_at(v->k, kernel_operand(v->k, in, n))->op != AU_K_CONST) {
            verify_wrong(v, AU_E0808, i, "operand %u must be a constant", n + 1);
            return;
        }
    const AuMatmul x = kernel_matmul_of(v->k, in);
    if ((x.rows != 16 && x.rows != 32) || (x.vectors != 1 && x.vectors != 2) || x.depth < 32 ||
        x.depth % 32 || x.depth > AU_MOST_DEPTH) {
        verify_wrong(v, AU_E0808, i,
                     "there are 16 or 32 rows, 1 or 2 vectors, 32 to %d deep in steps of 32",
                     AU_MOST_DEPTH);
        return;
    }
    if (x.c_stride < x.vectors || x.a_stride < x.depth || x.b_stride < x.vectors) {
        verify_wrong(v, AU_E0808, i, "rows overlap");
        return;
    }
    const int64_t rows = x.rows - 1, pairs = x.depth / 2 - 1;
    check_matrix(v, i, 0, x.c, AU_LANE, AU_F32, rows * x.c_stride + x.vectors - 1);
    check_matrix(v, i, 1, x.a, AU_EXEC, AU_BF16, rows * x.a_stride + x.depth - 1);
    check_matrix(v, i, 2, x.b, AU_LANE, AU_I32, pairs * x.b_stride + x.vectors - 1);
}

/* ---- in registers */

static bool needs_lanes(AuVerifier *v, uint32_t i, uint32_t lanes)
{
    if (v->k->lanes == lanes) return true;
    verify_wrong(v, AU_E0808, i, "needs executors of %u lanes, there are %u", lanes, v->k->lanes);
    return false;
}

void verify_slice(AuVerifier *v, uint32_t i)
{
    const AuInstr *in = &v->k->instrs[i];
    const AuKType of = verify_type_at(v, in, 0);
    if (of.scalar != in->type.scalar || of.width < in->type.width)
        verify_wrong(v, AU_E0804, i, "a part of %s cannot be %s", verify_type_text(v, of),
                     verify_type_text(v, in->type));
    else if (in->imm < 0 || in->imm % in->type.width || in->imm + in->type.width > of.width)
        verify_wrong(v, AU_E0808, i, "there is no part at #%lld", (long long)in->imm);
}

void verify_mma(AuVerifier *v, uint32_t i)
{
    static const AuMatrixOperand order[3] = {AU_MATRIX_C, AU_MATRIX_A, AU_MATRIX_B};
    const AuInstr *in = &v->k->instrs[i];
    const int64_t last = (int64_t)kernel_matrix_count() - 1;
    verify_range(v, i, 0, last);
    if (in->imm < 0 || in->imm > last) return;
    const AuMatrixOp op = kernel_matrix((AuMatrix)in->imm);
    if (!needs_lanes(v, i, (uint32_t)op.atom->lanes)) return;
    for (uint32_t n = 0; n < 3; n++) {
        const AuKType t = op.types[order[n]];
        verify_wants(v, i, n, 1u << t.scalar, t.width, verify_type_text(v, t));
    }
}

static bool is_aligned_to(const AuMemory *m, uint32_t bytes)
{
    return m->swizzle || m->align >= bytes || kernel_scalar_bytes(m->scalar) >= bytes;
}

/* load_matrix of pieces that lanes turn. */
static void verify_turned(AuVerifier *v, uint32_t i)
{
    const AuInstr *in = &v->k->instrs[i];
    const AuMemory *m = &v->k->mems[in->mem.i];
    const uint32_t n = kernel_turned(in->imm);
    if (v->k->lanes % (AU_TURNED_ELEMENTS / n))
        verify_wrong(v, AU_E0808, i, "needs executors of whole %u lanes, there are %u",
                     AU_TURNED_ELEMENTS / n, v->k->lanes);
    else if (m->space != AU_SHARED || !(HALF >> m->scalar & 1) || !is_aligned_to(m, 2 * n))
        verify_wrong(v, AU_E0807, i,
                     "@%s must be shared memory of f16 or bf16, aligned to %u bytes", m->name,
                     2 * n);
    else if (in->type.scalar != m->scalar || in->type.width != n)
        verify_wrong(v, AU_E0804, i, "the result is %u elements of %s", n,
                     kernel_scalar_name(m->scalar));
}

/* load_matrix and store_matrix, which is for 16 bits. */
void verify_rows_of_matrix(AuVerifier *v, uint32_t i)
{
    const AuInstr *in = &v->k->instrs[i];
    const AuMemory *m = &v->k->mems[in->mem.i];
    const bool stores = in->op == AU_K_STORE_MATRIX;
    const AuKType moved = stores ? verify_type_at(v, in, 1) : in->type;
    const int64_t count = in->imm & 7;
    verify_wants(v, i, 0, INT, 1, "an index, i32 or i64");
    if (!stores && kernel_turned(in->imm)) {
        verify_turned(v, i);
        return;
    }
    if (!needs_lanes(v, i, AU_LOAD_MATRIX_LANES)) return;
    if (m->space != AU_SHARED || !((stores ? HALF : HALF | F32) >> m->scalar & 1) ||
        !is_aligned_to(m, 16))
        verify_wrong(v, AU_E0807, i, "@%s must be shared memory of f16%s, aligned to 16 bytes",
                     m->name, stores ? " or bf16" : ", bf16 or f32");
    else if ((in->imm & ~15) || (count != 1 && count != 2 && count != 4) ||
             (in->imm & 8 && m->scalar == AU_F32))
        verify_wrong(v, AU_E0808, i, "#%lld is none of 1, 2, 4, and for 16 bits 9, 10, 12",
                     (long long)in->imm);
    else if (moved.scalar != m->scalar || moved.width * kernel_scalar_bytes(m->scalar) != count * 4)
        verify_wrong(v, AU_E0804, i, "the %s is %lld times 4 bytes of %s",
                     stores ? "value" : "result", (long long)count, kernel_scalar_name(m->scalar));
}

/* block_load, block_gather and block_ahead: a surface and a place in it, the same in all lanes. */
void verify_block(AuVerifier *v, uint32_t i)
{
    const AuInstr *in = &v->k->instrs[i];
    const AuMemory *m = &v->k->mems[in->mem.i];
    const bool loads = in->op != AU_K_BLOCK_AHEAD, gathers = in->op == AU_K_BLOCK_GATHER;
    verify_wants(v, i, 0, INT, 1, "an index, i32 or i64");
    for (uint32_t n = 1; n < in->count; n++) {
        const bool apart = gathers && (n == 3 || n == 4); /* elements from row to row, .. */
        verify_wants(v, i, n, apart ? I64 : I32, 1, apart ? "i64" : "i32");
    }
    for (uint32_t n = 0; n < in->count; n++)
        if (v->lanes.kind[kernel_operand(v->k, in, n).i] != AU_UNIFORM)
            verify_wrong(v, AU_E0806, i, "operand %u must be the same in all lanes", n + 1);
    if (!needs_lanes(v, i, AU_BLOCK_LANES)) return;
    if (m->space != AU_GLOBAL || !(HALF >> m->scalar & 1) || !m->reads || m->writes)
        verify_wrong(v, AU_E0807, i, "@%s must be global memory of f16 or bf16 that is only read",
                     m->name);
    else if (loads && (in->imm & ~1))
        verify_wrong(v, AU_E0808, i, "#%lld is none of 0, 1", (long long)in->imm);
    else if (!loads && in->imm != 8 && in->imm != 16 && in->imm != 32)
        verify_wrong(v, AU_E0808, i, "#%lld is none of 8, 16, 32", (long long)in->imm);
    else if (loads && (in->type.scalar != m->scalar ||
                       (in->type.width != 16 && (in->type.width != 8 || in->imm))))
        verify_wrong(v, AU_E0804, i, "the result is 16 elements of %s, or 8 of a column",
                     kernel_scalar_name(m->scalar));
}

/* Lanes write one behind the other. */
static void check_direct(AuVerifier *v, uint32_t i)
{
    const AuInstr *in = &v->k->instrs[i], *valid = kernel_at(v->k, kernel_operand(v->k, in, 2));
    const uint32_t bytes = kernel_copied(in->imm);
    if (v->lanes.kind[kernel_operand(v->k, in, 0).i] != AU_UNIFORM)
        verify_wrong(v, AU_E0806, i, "the place of a direct copy must be the same in all lanes");
    if (valid->op != AU_K_CONST || valid->imm != bytes)
        verify_wrong(v, AU_E0807, i, "a direct copy brings all of its %u bytes", bytes);
}

void verify_copy(AuVerifier *v, uint32_t i)
{
    const AuInstr *in = &v->k->instrs[i];
    const AuMemory *to = &v->k->mems[in->mem.i], *from = &v->k->mems[in->also[0].i];
    const uint32_t bytes = kernel_copied(in->imm);
    verify_wants(v, i, 0, INT, 1, "an index, i32 or i64");
    verify_wants(v, i, 1, INT, 1, "an index, i32 or i64");
    verify_wants(v, i, 2, I32, 1, "a number of bytes, i32");
    if (in->count > 3) verify_wants(v, i, 3, I1, 1, "a mask, i1");
    if (in->imm < 0 || (bytes != 4 && bytes != 8 && bytes != 16) ||
        in->imm > KERNEL_DIRECT + (int64_t)bytes)
        verify_wrong(v, AU_E0808, i, "#%lld is none of 4, 8, 16, nor direct with them",
                     (long long)in->imm);
    else if (to->space != AU_SHARED || from->space != AU_GLOBAL || to->scalar != from->scalar)
        verify_wrong(v, AU_E0807, i, "copies go from global to shared memory of the same elements");
    else if (!from->reads)
        verify_wrong(v, AU_E0807, i, "@%s is not declared as read", from->name);
    else if (!is_aligned_to(to, bytes))
        verify_wrong(v, AU_E0807, i, "@%s is not aligned to %u bytes", to->name, bytes);
    else if (to->swizzle && kernel_is_direct(in->imm))
        verify_wrong(v, AU_E0807, i, "@%s is swizzled, and lanes write one behind the other",
                     to->name);
    else if (kernel_is_direct(in->imm))
        check_direct(v, i);
}
