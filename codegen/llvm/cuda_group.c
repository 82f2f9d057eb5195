/* cuda_group.c - products of groups of warps (wgmma), which go on by themselves.
 *
 * From its fence to its commit a chain of products is one piece of text: nothing can come between its instructions, and their
 * registers are the text's operands, the sums tied to results. So products are collected here and written when the chain ends. A wait
 * is a text through which the registers go that it settles, and those that are read behind it, so that nothing that reads them moves
 * above it; what overwrites registers that a product was reading reads such values too.
 *
 * Operands in shared memory are descriptors of 64 bits, PTX ISA, "Matrix Descriptor": the low word has the address and the leading
 * offset, from one part of the columns to the next where the operand is stored across the contracted axis; the high word has the
 * stride offset, from eight rows of a swizzle to the next eight, and the swizzle. A step adds to the low word. */
#include "cuda.h"

#include <string.h>

enum {
    A_REGISTERS = 4, /* of a product, 32 bits each */
    UNIT = 16,       /* bytes that addresses of descriptors count in */
    ADDRESS_BITS = 0x3fff,
    LEADING_SHIFT = 16, /* in the low word */
    SWIZZLE_SHIFT = 30, /* in the high word */
    ROWS = 8
};

typedef struct Place { /* an operand in shared memory */
    LLVMValueRef low;  /* i32; NULL: it is in registers */
    uint32_t add, high;
} Place;

typedef struct Sums { /* registers of a memory of lanes */
    AuMem mem;
    uint32_t first, count;
    bool fresh; /* the first product does not add */
} Sums;

typedef struct Product {
    AuGroupMatrix row;
    uint32_t sums, columns; /* sums: which of the chain's */
    LLVMValueRef add;
    LLVMValueRef a[A_REGISTERS];
    Place place_a, b;
} Product;

struct CudaChain {
    bool fence, commit;
    Product *products;
    uint32_t count, capacity;
    Sums *sums;
    uint32_t sum_count, sum_capacity;
};

/* ---- registers */

static LLVMValueRef register_at(AuEmit *e, AuMem mem, uint32_t n)
{
    LLVMTypeRef type = emit_stored(e, e->k->mems[mem.i].scalar, 1);
    return emit_step(e, type, e->places[mem.i].base, LLVMConstInt(e->i64, n, false));
}

/* 32 bits of a memory of lanes, from element [n] on. */
static LLVMValueRef load_register(AuEmit *e, AuMem mem, uint32_t n)
{
    const AuScalar scalar = e->k->mems[mem.i].scalar;
    const uint32_t bytes = kernel_scalar_bytes(scalar);
    LLVMValueRef v =
        LLVMBuildLoad2(e->builder, emit_stored(e, scalar, 4 / bytes), register_at(e, mem, n), "");
    LLVMSetAlignment(v, bytes);
    return bytes == 4 ? v : LLVMBuildBitCast(e->builder, v, e->element[AU_I32], "");
}

static void store_register(AuEmit *e, AuMem mem, uint32_t n, LLVMValueRef v)
{
    const AuScalar scalar = e->k->mems[mem.i].scalar;
    const uint32_t bytes = kernel_scalar_bytes(scalar);
    if (bytes < 4) v = LLVMBuildBitCast(e->builder, v, emit_stored(e, scalar, 4 / bytes), "");
    LLVMValueRef store = LLVMBuildStore(e->builder, v, register_at(e, mem, n));
    LLVMSetAlignment(store, bytes);
}

/* ---- operands */

static uint32_t high_word(uint32_t swizzle)
{
    const uint32_t kind = swizzle == 128 ? 1 : swizzle == 64 ? 2 : 3;
    return kind << SWIZZLE_SHIFT | ROWS * swizzle / UNIT;
}

/* [stride]: in elements, for an operand stored across the contracted axis; 0: along it, or in one part. */
static Place place_of(AuEmit *e, AuMem mem, AuVal index, int64_t stride)
{
    LLVMBuilderRef b = e->builder;
    const AuMemory *m = &e->k->mems[mem.i];
    CudaShared at = cuda_shared(e, mem, index);
    const int64_t odd = at.offset & (UNIT - 1);
    if (odd) at.base = LLVMBuildAdd(b, at.base, gpu_i32(e, (uint32_t)odd), "");
    LLVMValueRef low = LLVMBuildLShr(b, at.base, gpu_i32(e, 4), "");
    const int64_t leading = stride ? stride * kernel_scalar_bytes(m->scalar) / UNIT : 1;
    return (Place){.low = LLVMBuildAnd(b, low, gpu_i32(e, ADDRESS_BITS), ""),
                   .add = (uint32_t)((at.offset - odd) / UNIT + (leading << LEADING_SHIFT)),
                   .high = high_word(m->swizzle)};
}

static int64_t constant(AuEmit *e, const AuInstr *in, uint32_t n)
{
    return kernel_at(e->k, kernel_operand(e->k, in, n))->imm;
}

/* Which of the chain's sums; a chain that has overlapping ones is none. */
static uint32_t sums_of(AuEmit *e, CudaChain *c, Sums s)
{
    for (uint32_t n = 0; n < c->sum_count; n++) {
        const Sums *o = &c->sums[n];
        if (o->mem.i == s.mem.i && o->first == s.first && o->count == s.count) return n;
    }
    AU_PUSH(e->arena, c->sums, c->sum_count, c->sum_capacity, s);
    return c->sum_count - 1;
}

static bool overlaps(const CudaChain *c, const Sums *s)
{
    for (uint32_t n = 0; c && n < c->sum_count; n++) {
        const Sums *o = &c->sums[n];
        const bool same = o->first == s->first && o->count == s->count;
        if (o->mem.i == s->mem.i && !same && o->first < s->first + s->count &&
            s->first < o->first + o->count)
            return true;
    }
    return false;
}

static CudaChain *chain_of(AuEmit *e)
{
    CudaKernel *k = (CudaKernel *)e->gpu;
    if (!k->chain) k->chain = AU_NEW(e->arena, CudaChain);
    return k->chain;
}

static bool is_false(LLVMValueRef v)
{
    return LLVMIsAConstantInt(v) && !LLVMConstIntGetZExtValue(v);
}

static void collect(AuEmit *e, const AuInstr *in)
{
    Product x = {.row = (AuGroupMatrix)in->imm,
                 .columns = (uint32_t)constant(e, in, 4),
                 .add = emit_base(e, kernel_operand(e->k, in, 3))};
    const Sums s = {in->mem, (uint32_t)constant(e, in, 0), x.columns / 2, is_false(x.add)};
    if (overlaps(cuda_kernel(e)->chain, &s)) cuda_group_flush(e);
    CudaChain *c = chain_of(e);
    x.sums = sums_of(e, c, s);
    const AuVal a = kernel_operand(e->k, in, 1);
    if (e->k->mems[in->also[0].i].space == AU_LANE)
        for (uint32_t n = 0; n < A_REGISTERS; n++)
            x.a[n] = load_register(e, in->also[0], (uint32_t)constant(e, in, 1) + 2 * n);
    else
        x.place_a = place_of(e, in->also[0], a, constant(e, in, 5));
    x.b = place_of(e, in->also[1], kernel_operand(e->k, in, 2), constant(e, in, 6));
    AU_PUSH(e->arena, c->products, c->count, c->capacity, x);
}

/* ---- the text of a chain */

static void describe(CudaText *t, const char *name, const Place *p)
{
    au_text_add(&t->text, "add.s32 x, $%u, %u;\nmov.b64 %s, {x, 0x%x};\n",
                cuda_take(t, "r", p->low), p->add, name, p->high);
}

/* What adds: 1, 0, or a predicate. */
static const char *scale_of(CudaText *t, LLVMValueRef add)
{
    if (LLVMIsAConstantInt(add)) return is_false(add) ? "0" : "1";
    return au_format(t->e->arena, "$%u", cuda_take(t, "b", add));
}

/* [first]: the result that is the sums' first register. */
static void write_product(CudaText *t, const Product *x, uint32_t first)
{
    const AuGroupOp op = kernel_group_matrix(x->row);
    const char *type = op.scalar == AU_F16 ? "f16" : "bf16", *scale = scale_of(t, x->add);
    uint32_t a = 0;
    if (x->place_a.low)
        describe(t, "da", &x->place_a);
    else
        for (uint32_t n = 0; n < A_REGISTERS; n++) {
            const uint32_t at = cuda_take(t, "r", x->a[n]);
            if (!n) a = at;
        }
    describe(t, "db", &x->b);
    au_text_add(&t->text, "wgmma.mma_async.sync.aligned.m64n%uk%d.f32.%s.%s {", x->columns,
                op.atom->k, type, type);
    cuda_list(&t->text, first, x->columns / 2);
    au_text_add(&t->text, "}, ");
    if (x->place_a.low) {
        au_text_add(&t->text, "da, db, %s, 1, 1, %d, %d;\n", scale, op.a_turned, op.b_turned);
        return;
    }
    au_text_add(&t->text, "{");
    cuda_list(&t->text, a, A_REGISTERS);
    au_text_add(&t->text, "}, db, %s, 1, 1, %d;\n", scale, op.b_turned);
}

/* The sums as results, and as operands those that are added to. */
static void take_sums(CudaText *t, const CudaChain *c, uint32_t *first)
{
    AuEmit *e = t->e;
    for (uint32_t n = 0; n < c->sum_count; n++) {
        first[n] = t->result_count;
        for (uint32_t i = 0; i < c->sums[n].count; i++) cuda_result(t, "=f", e->element[AU_F32]);
    }
    for (uint32_t n = 0; n < c->sum_count; n++)
        for (uint32_t i = 0; !c->sums[n].fresh && i < c->sums[n].count; i++)
            cuda_take(t, au_format(e->arena, "%u", first[n] + i),
                      load_register(e, c->sums[n].mem, c->sums[n].first + i));
}

void cuda_group_flush(AuEmit *e)
{
    const CudaChain *c = cuda_kernel(e)->chain;
    if (!c) return;
    ((CudaKernel *)e->gpu)->chain = NULL;
    CudaText t = cuda_text(e);
    uint32_t *first = AU_NEW_ARRAY(e->arena, uint32_t, c->sum_count + 1);
    take_sums(&t, c, first);
    au_text_add(&t.text, "{\n");
    if (c->count) au_text_add(&t.text, ".reg .b64 da, db;\n.reg .b32 x;\n");
    if (c->fence) au_text_add(&t.text, "wgmma.fence.sync.aligned;\n");
    for (uint32_t n = 0; n < c->count; n++)
        write_product(&t, &c->products[n], first[c->products[n].sums]);
    if (c->commit) au_text_add(&t.text, "wgmma.commit_group.sync.aligned;\n");
    au_text_add(&t.text, "}");
    LLVMValueRef call = cuda_build(&t, CUDA_TOGETHER);
    for (uint32_t n = 0; n < c->sum_count; n++)
        for (uint32_t i = 0; i < c->sums[n].count; i++)
            store_register(e, c->sums[n].mem, c->sums[n].first + i,
                           cuda_result_at(&t, call, first[n] + i));
}

/* ---- waits */

typedef struct Tied {
    AuMem mem;
    uint32_t element;
} Tied;

typedef struct Ties {
    Tied *at;
    uint32_t count, capacity;
    bool **seen; /* of each memory of lanes: tied already, or written behind the wait */
} Ties;

static void tie(AuEmit *e, Ties *t, AuMem mem, uint32_t element)
{
    const uint32_t step = 4 / kernel_scalar_bytes(e->k->mems[mem.i].scalar);
    const Tied one = {mem, element};
    if (t->seen[mem.i][element]) return;
    for (uint32_t n = 0; n < step; n++) t->seen[mem.i][element + n] = true;
    AU_PUSH(e->arena, t->at, t->count, t->capacity, one);
}

static void tie_all(AuEmit *e, Ties *t, AuMem mem)
{
    if (!mem.i) return;
    const AuMemory *m = &e->k->mems[mem.i];
    const uint32_t step = 4 / kernel_scalar_bytes(m->scalar);
    for (uint32_t n = 0; n + step <= m->count; n += step) tie(e, t, mem, n);
}

/* An access behind the wait: what is read there of f32 goes through it, unless it is written before. */
static void follow(AuEmit *e, Ties *t, const AuInstr *in)
{
    const AuMemory *m = &e->k->mems[in->mem.i];
    const bool load = in->op == AU_K_LOAD;
    if ((!load && in->op != AU_K_STORE) || m->space != AU_LANE || m->scalar != AU_F32) return;
    const AuInstr *at = kernel_at(e->k, kernel_operand(e->k, in, 0));
    if (at->op != AU_K_CONST) return;
    const AuKType type = load ? in->type : kernel_at(e->k, kernel_operand(e->k, in, 1))->type;
    for (uint32_t n = 0; n < type.width && at->imm + n < m->count; n++)
        if (load)
            tie(e, t, in->mem, (uint32_t)at->imm + n);
        else
            t->seen[in->mem.i][at->imm + n] = true;
}

static bool ends_the_wait(const AuInstr *in)
{
    return kernel_op_info((AuKOp)in->op)->flags & (AU_KF_GROUP | AU_KF_REGION);
}

static void wait(AuEmit *e, const AuInstr *in)
{
    Ties ties = {.seen = AU_NEW_ARRAY(e->arena, bool *, e->k->mem_count)};
    for (uint32_t m = 1; m < e->k->mem_count; m++)
        ties.seen[m] = AU_NEW_ARRAY(e->arena, bool, e->k->mems[m].count + 1);
    tie_all(e, &ties, in->mem);
    tie_all(e, &ties, in->also[0]);
    tie_all(e, &ties, in->also[1]);
    for (uint32_t i = in->next; i && !ends_the_wait(&e->k->instrs[i]); i = e->k->instrs[i].next)
        follow(e, &ties, &e->k->instrs[i]);
    CudaText t = cuda_text(e);
    for (uint32_t n = 0; n < ties.count; n++) {
        const bool f32 = e->k->mems[ties.at[n].mem.i].scalar == AU_F32;
        cuda_result(&t, f32 ? "=f" : "=r", e->element[f32 ? AU_F32 : AU_I32]);
    }
    for (uint32_t n = 0; n < ties.count; n++)
        cuda_take(&t, au_format(e->arena, "%u", n),
                  load_register(e, ties.at[n].mem, ties.at[n].element));
    au_text_add(&t.text, "wgmma.wait_group.sync.aligned %d;", (int)in->imm);
    LLVMValueRef call = cuda_build(&t, CUDA_TOGETHER);
    for (uint32_t n = 0; n < ties.count; n++)
        store_register(e, ties.at[n].mem, ties.at[n].element, cuda_result_at(&t, call, n));
}

bool cuda_group(AuEmit *e, AuVal v)
{
    const AuInstr *in = kernel_at(e->k, v);
    const bool product = in->op == AU_K_WGMMA || in->op == AU_K_WGMMA_FENCE ||
                         in->op == AU_K_WGMMA_COMMIT || in->op == AU_K_WGMMA_WAIT;
    if (!product) return false;
    if (!cuda_host(e)->groups) {
        emit_fault(e, in, "products of groups need sm_90a");
        return true;
    }
    switch ((int)in->op) {
    case AU_K_WGMMA_FENCE:
        cuda_group_flush(e);
        chain_of(e)->fence = true;
        break;
    case AU_K_WGMMA: collect(e, in); break;
    case AU_K_WGMMA_COMMIT:
        chain_of(e)->commit = true;
        cuda_group_flush(e);
        break;
    case AU_K_WGMMA_WAIT:
        cuda_group_flush(e);
        wait(e, in);
        break;
    }
    return true;
}
