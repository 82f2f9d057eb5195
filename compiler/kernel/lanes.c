/* lanes.c - which values are the same in all lanes, and which differ by a constant from lane to
 * lane. One walk in the order of execution suffices for values, since loop variables are uniform by
 * the rules of the language. Memories of lanes are what loops carry: each is taken to hold the same
 * in all lanes until a store says otherwise, and the walk is repeated until nothing changes (at
 * most once for each memory). */
#include "internal.h"

typedef struct Analysis {
    const AuKernel *k;
    AuLanes l;
    AuLaneScope scope;
    bool changed; /* a memory turned out to differ */
} Analysis;

static AuLaneKind kind_of(const Analysis *a, AuVal v) { return (AuLaneKind)a->l.kind[v.i]; }
static bool is_uniform(const Analysis *a, AuVal v) { return kind_of(a, v) == AU_UNIFORM; }

static bool all_uniform(const Analysis *a, const AuInstr *in, uint32_t from)
{
    for (uint32_t n = from; n < in->count; n++)
        if (!is_uniform(a, kernel_operand(a->k, in, n))) return false;
    return true;
}

static void set(Analysis *a, uint32_t i, AuLaneKind kind, int64_t stride)
{
    a->l.kind[i] = (uint8_t)(kind == AU_AFFINE && stride == 0 ? AU_UNIFORM : kind);
    a->l.stride[i] = kind == AU_AFFINE ? stride : 0;
}

/* Stride of a uniform or affine value; false: varying, or no scalar integer. */
static bool stride_of(const Analysis *a, AuVal v, int64_t *stride)
{
    *stride = a->l.stride[v.i];
    return kind_of(a, v) != AU_VARYING;
}

static bool constant_of(const Analysis *a, AuVal v, int64_t *value)
{
    const AuInstr *in = kernel_at(a->k, v);
    *value = in->imm;
    return in->op == AU_K_CONST && (in->type.scalar == AU_I32 || in->type.scalar == AU_I64);
}

/* Where one factor is constant and the other affine. */
static bool product_stride(const Analysis *a, AuVal x, AuVal y, int64_t *stride)
{
    int64_t factor;
    if (constant_of(a, x, &factor))
        return stride_of(a, y, stride) && !__builtin_mul_overflow(*stride, factor, stride);
    if (constant_of(a, y, &factor))
        return stride_of(a, x, stride) && !__builtin_mul_overflow(*stride, factor, stride);
    return false;
}

static bool affine_stride(const Analysis *a, const AuInstr *in, int64_t *stride)
{
    int64_t other, shift;
    const AuVal x = kernel_operand(a->k, in, 0),
                y = in->count > 1 ? kernel_operand(a->k, in, 1) : x;
    if ((in->type.scalar != AU_I32 && in->type.scalar != AU_I64) || in->type.width != 1)
        return false;
    switch ((int)in->op) {
    case AU_K_ADD:
        return stride_of(a, x, stride) && stride_of(a, y, &other) &&
               !__builtin_add_overflow(*stride, other, stride);
    case AU_K_SUB:
        return stride_of(a, x, stride) && stride_of(a, y, &other) &&
               !__builtin_sub_overflow(*stride, other, stride);
    case AU_K_NEG:
        return stride_of(a, x, &other) && !__builtin_sub_overflow((int64_t)0, other, stride);
    case AU_K_MUL: return product_stride(a, x, y, stride);
    case AU_K_SHL:
        return constant_of(a, y, &shift) && shift >= 0 && shift < 32 && stride_of(a, x, &other) &&
               !__builtin_mul_overflow(other, (int64_t)1 << shift, stride);
    case AU_K_CVT: {
        const AuScalar of = kernel_at(a->k, x)->type.scalar;
        return (of == AU_I32 || of == AU_I64) && stride_of(a, x, stride);
    }
    case AU_K_SELECT:
        return is_uniform(a, x) && stride_of(a, y, stride) &&
               stride_of(a, kernel_operand(a->k, in, 2), &other) && *stride == other;
    }
    return false;
}

/* Memories of which every lane (executor) has its own. */
static bool is_own(const Analysis *a, const AuMemory *m)
{
    return m->space == AU_LANE || (a->scope && m->space == AU_EXEC);
}

static void differs(Analysis *a, AuMem mem)
{
    if (!a->l.same[mem.i]) return;
    a->l.same[mem.i] = false;
    a->changed = true;
}

/* Every lane has a column of its own, in rows that lie as vectors of lanes. */
static void matrix_product(Analysis *a, const AuInstr *in)
{
    differs(a, in->mem);
    differs(a, in->also[1]);
}

static void memory_access(Analysis *a, uint32_t i, const AuInstr *in)
{
    if (in->op == AU_K_MATMUL) {
        matrix_product(a, in);
        return;
    }
    const AuMemory *m = &a->k->mems[in->mem.i];
    const bool uniform = all_uniform(a, in, 0);
    const bool own = is_own(a, m);
    if (kernel_op_info(in->op)->flags & AU_KF_WRITE && own &&
        (!uniform || in->op == AU_K_WGMMA || in->op == AU_K_TENSOR_LOAD))
        differs(a, in->mem);
    if (in->op == AU_K_COPY_ASYNC || kernel_op_info(in->op)->flags & (AU_KF_AGENTS | AU_KF_OPAQUE))
        return;
    if (in->op == AU_K_LOAD)
        set(a, i, uniform && (!own || a->l.same[in->mem.i]) ? AU_UNIFORM : AU_VARYING, 0);
    else
        set(a, i, AU_VARYING, 0); /* atomics give each lane its own */
}

/* Which group an executor belongs to: warp / group, as division or shift, or a comparison with the
 * first executor of a group. */
static bool is_of_group(const Analysis *a, const AuInstr *in)
{
    const int64_t group = a->k->group;
    int64_t c;
    if (in->count != 2) return false;
    const AuVal x = kernel_operand(a->k, in, 0), y = kernel_operand(a->k, in, 1);
    const bool left = kernel_at(a->k, x)->op == AU_K_WARP;
    if (!(left ? constant_of(a, y, &c)
               : kernel_at(a->k, y)->op == AU_K_WARP && constant_of(a, x, &c)))
        return false;
    switch ((int)in->op) {
    case AU_K_IDIV: return left && c > 0 && c % group == 0;
    case AU_K_SHR:
    case AU_K_USHR: return left && c >= 0 && c < 16 && (1 << c) % group == 0;
    case AU_K_LT: return (left ? c : c + 1) % group == 0; /* warp < c, c < warp */
    case AU_K_LE: return (left ? c + 1 : c) % group == 0;
    }
    return false;
}

static void instruction(Analysis *a, uint32_t i)
{
    const AuInstr *in = &a->k->instrs[i];
    int64_t stride;
    if (kernel_op_info(in->op)->flags & AU_KF_PLACE) { /* nobody knows whose the element is */
        set(a, i, AU_VARYING, 0);
        return;
    }
    if (in->op == AU_K_MATRIX_ANY) {
        set(a, i, a->scope && a->k->warps > 1 ? AU_VARYING : AU_UNIFORM, 0);
        return;
    }
    if (kernel_op_info(in->op)->flags & AU_KF_MEM) {
        memory_access(a, i, in);
        return;
    }
    switch ((int)in->op) {
    case AU_K_LANE: set(a, i, a->scope && a->k->warps > 1 ? AU_VARYING : AU_AFFINE, 1); return;
    case AU_K_WARP: set(a, i, a->scope && a->k->warps > 1 ? AU_VARYING : AU_UNIFORM, 0); return;
    case AU_K_FOR:
    case AU_K_ANY:
        set(a, i, a->scope && !all_uniform(a, in, 0) ? AU_VARYING : AU_UNIFORM, 0);
        return;
    case AU_K_ELECT:
    case AU_K_MMA: set(a, i, AU_VARYING, 0); return;
    case AU_K_SHUFFLE: /* from one lane to all */
        set(a, i,
            all_uniform(a, in, a->scope ? 0 : 1) || is_uniform(a, kernel_operand(a->k, in, 0))
                ? AU_UNIFORM
                : AU_VARYING,
            0);
        return;
    }
    if (all_uniform(a, in, 0) || (a->scope == AU_OF_GROUP && is_of_group(a, in)))
        set(a, i, AU_UNIFORM, 0);
    else if (affine_stride(a, in, &stride))
        set(a, i, AU_AFFINE, stride);
    else
        set(a, i, AU_VARYING, 0);
}

static void region(Analysis *a, uint32_t first)
{
    for (uint32_t i = first; i; i = a->k->instrs[i].next) {
        const AuInstr *in = &a->k->instrs[i];
        instruction(a, i);
        if (!(kernel_op_info(in->op)->flags & AU_KF_REGION)) continue;
        region(a, in->body);
        region(a, in->other);
    }
}

AuLanes kernel_lanes_of(const AuKernel *k, AuArena *arena, AuLaneScope scope)
{
    Analysis a = {.k = k, .scope = scope};
    a.l = (AuLanes){AU_NEW_ARRAY(arena, uint8_t, k->instr_count),
                    AU_NEW_ARRAY(arena, int64_t, k->instr_count),
                    AU_NEW_ARRAY(arena, bool, k->mem_count)};
    if (k->lanes == 1 && !(scope && k->warps > 1)) { /* everything is uniform */
        for (uint32_t m = 1; m < k->mem_count; m++) a.l.same[m] = k->mems[m].space == AU_LANE;
        return a.l;
    }
    for (uint32_t m = 1; m < k->mem_count; m++) a.l.same[m] = is_own(&a, &k->mems[m]);
    do {
        a.changed = false;
        region(&a, k->body);
    } while (a.changed);
    return a.l;
}

AuLanes kernel_lanes(const AuKernel *k, AuArena *arena)
{
    return kernel_lanes_of(k, arena, AU_OF_EXECUTOR);
}
