/* verify_tensor.c - tensor memory. */
#include "verify.h"

enum { LEAST_COLUMNS = 32, MOST_MOVED = 128, WORD = 4 };

const char *verify_tensor_memory(const AuKernel *k, const AuMemory *m)
{
    if (!((F32 | HALF) >> m->scalar & 1)) return "has elements that no product takes";
    if (m->rows != AU_TENSOR_ROWS) return "has tiles of other than 128 rows";
    if (!m->columns || m->columns * kernel_scalar_bytes(m->scalar) % WORD)
        return "has rows that are no whole number of columns of 32 bits";
    if (m->count % (m->rows * m->columns)) return "is no whole number of tiles";
    if (k->lanes != 32) return "is of machines with 32 lanes";
    return NULL;
}

static void check_columns(AuVerifier *v, uint32_t i)
{
    const int64_t columns = v->k->instrs[i].imm;
    if (columns < LEAST_COLUMNS || columns > AU_TENSOR_COLUMNS || columns & (columns - 1))
        verify_wrong(v, AU_E0808, i, "#%lld is none of 32, 64, 128, 256 and 512 columns",
                     (long long)columns);
    else if (kernel_tensor_columns(v->k) > (uint32_t)columns)
        verify_wrong(v, AU_E0808, i, "the kernel's tensor memory is %u columns wide",
                     kernel_tensor_columns(v->k));
}

/* Between a lane's registers and its own row. */
static void check_move(AuVerifier *v, uint32_t i)
{
    const AuInstr *in = &v->k->instrs[i];
    const bool load = in->op == AU_K_TENSOR_LOAD;
    const AuMemory *lanes = &v->k->mems[load ? in->mem.i : in->also[0].i],
                   *tensor = &v->k->mems[load ? in->also[0].i : in->mem.i];
    const int64_t reg = verify_constant(v, in, load ? 0 : 1), count = in->imm,
                  words = count * kernel_scalar_bytes(tensor->scalar) / WORD;
    verify_wants(v, i, load ? 1 : 0, INT, 1, "an index, i32 or i64");
    if (lanes->space != AU_LANE || tensor->space != AU_TENSOR || lanes->scalar != tensor->scalar)
        verify_wrong(v, AU_E0807, i,
                     "moves go between tensor memory and memory of lanes of the same elements");
    else if (words < 1 || words > MOST_MOVED || words & (words - 1) ||
             words * WORD != count * kernel_scalar_bytes(tensor->scalar))
        verify_wrong(v, AU_E0808, i, "#%lld are not 1, 2, 4 .. 128 registers", (long long)count);
    else if (reg < 0 || reg + count > (int64_t)lanes->count)
        verify_wrong(v, AU_E0808, i, "registers of @%s are at a constant i32, and there are %u",
                     lanes->name, lanes->count);
}

static void check_wait(AuVerifier *v, uint32_t i)
{
    const AuInstr *in = &v->k->instrs[i];
    const AuMem named[3] = {in->mem, in->also[0], in->also[1]};
    verify_range(v, i, 0, 1);
    for (uint32_t n = 0; n < 3; n++)
        if (named[n].i && (in->imm || v->k->mems[named[n].i].space != AU_LANE))
            verify_wrong(v, AU_E0807, i, "@%s is no memory of lanes that a load may fill",
                         v->k->mems[named[n].i].name);
}

static void check_tensor_operand(AuVerifier *v, uint32_t i, uint32_t n, AuMem mem, AuScalar scalar)
{
    const AuMemory *m = &v->k->mems[mem.i];
    verify_wants(v, i, n, INT, 1, "an index, i32 or i64");
    verify_uniform(v, i, n, "the place of an operand");
    if (m->space != AU_TENSOR || m->scalar != scalar)
        verify_wrong(v, AU_E0807, i, "@%s must be tensor memory of %s", m->name,
                     kernel_scalar_name(scalar));
}

static void check_product(AuVerifier *v, uint32_t i)
{
    const AuInstr *in = &v->k->instrs[i];
    verify_range(v, i, 0, AU_GROUP_MATRICES - 1);
    if ((uint64_t)in->imm >= AU_GROUP_MATRICES) return;
    const AuGroupOp op = kernel_group_matrix((AuGroupMatrix)in->imm);
    const int64_t columns = verify_constant(v, in, 4), a_stride = verify_constant(v, in, 5),
                  b_stride = verify_constant(v, in, 6);
    if (!op.atom->tensor) {
        verify_wrong(v, AU_E0808, i, "%s has its sums in memory of lanes", op.text);
        return;
    }
    if (columns < 1 || columns > 256 || columns % op.atom->n || a_stride < 0 || b_stride < 0) {
        verify_wrong(v, AU_E0808, i,
                     "columns are a constant, a multiple of %d up to 256, strides too", op.atom->n);
        return;
    }
    check_tensor_operand(v, i, 0, in->mem, AU_F32);
    if (v->k->mems[in->also[0].i].space != AU_TENSOR)
        verify_shared_operand(v, i, 1, in->also[0], &op, op.a_turned, op.atom->m, a_stride);
    else if (op.a_turned)
        verify_wrong(v, AU_E0807, i, "A in tensor memory is always by rows");
    else
        check_tensor_operand(v, i, 1, in->also[0], op.scalar);
    verify_shared_operand(v, i, 2, in->also[1], &op, op.b_turned, columns, b_stride);
    if (verify_wants(v, i, 3, I1, 1, "i1")) verify_uniform(v, i, 3, "whether it adds");
    verify_wants(v, i, 7, I1, 1, "a mask, i1");
}

void verify_tensor(AuVerifier *v, uint32_t i)
{
    switch ((int)v->k->instrs[i].op) {
    case AU_K_TENSOR_ALLOC:
    case AU_K_TENSOR_FREE: check_columns(v, i); return;
    case AU_K_TENSOR_LOAD:
    case AU_K_TENSOR_STORE: check_move(v, i); return;
    case AU_K_TENSOR_WAIT: check_wait(v, i); return;
    case AU_K_TENSOR_MUL: check_product(v, i); return;
    }
}
