/* verify.c - what every pass and generator may rely on (docs/dev/kernel-ir.md 3 to 5): structure,
 * types, scopes, memories, and that control flow is uniform. Reports all violations, each with the
 * instruction in its text form. Not: what depends on values (bounds, races, uninitialised reads),
 * which the interpreter finds. */
#include "verify.h"

#include <string.h>

void verify_wrong(AuVerifier *v, AuCode code, uint32_t i, const char *format, ...)
{
    AuText text = {.arena = v->diags->arena};
    va_list arguments;
    kernel_print_instr(v->k, (AuVal){i}, &text);
    va_start(arguments, format);
    const char *what = au_vformat(v->diags->arena, format, arguments);
    va_end(arguments);
    au_error(v->diags, code, v->k->instrs[i].span, "'%s': %s", au_text_str(&text), what);
    v->good = false;
}

const char *verify_type_text(const AuVerifier *v, AuKType t)
{
    const char *scalar = kernel_scalar_name(t.scalar);
    return t.width == 1 ? scalar : au_format(v->diags->arena, "%sx%u", scalar, t.width);
}

AuKType verify_type_at(const AuVerifier *v, const AuInstr *in, uint32_t n)
{
    return kernel_at(v->k, kernel_operand(v->k, in, n))->type;
}

static bool is_width(uint32_t width)
{
    return width == 1 || width == 2 || width == 4 || width == 8 || width == 16;
}

/* Operand n has one of the scalars in the set (bits by AuScalar) and the width. */
bool verify_wants(AuVerifier *v, uint32_t i, uint32_t n, uint32_t scalars, uint32_t width,
                  const char *what)
{
    const AuInstr *in = &v->k->instrs[i];
    const AuKType t = verify_type_at(v, in, n);
    if ((scalars >> t.scalar & 1) && t.width == width) return true;
    verify_wrong(v, AU_E0804, i, "operand %u must be %s, it is %s", n + 1, what,
                 verify_type_text(v, t));
    return false;
}

/* ---- operations on values */

static void check_same(AuVerifier *v, uint32_t i, uint32_t from, uint32_t scalars, const char *what)
{
    const AuInstr *in = &v->k->instrs[i];
    const AuKType first = verify_type_at(v, in, from);
    if (!verify_wants(v, i, from, scalars, first.width, what)) return;
    for (uint32_t n = from + 1; n < in->count; n++)
        if (!kernel_same_type(verify_type_at(v, in, n), first))
            verify_wrong(v, AU_E0804, i, "operands must be of one type, they are %s and %s",
                         verify_type_text(v, first), verify_type_text(v, verify_type_at(v, in, n)));
}

static bool is_conversion(AuScalar of, AuScalar to)
{
    const uint32_t from = 1u << of, into = 1u << to;
    if (from & NUMBER)
        return (into & NUMBER) || (into & I1) || (from & F32 && into & HALF) ||
               (from & I32 && to == AU_U8);
    if (from & HALF) return into & F32 || of == to;
    return (of == AU_U8 || of == AU_I1) && (into & NUMBER || of == to);
}

static void check_cvt(AuVerifier *v, uint32_t i)
{
    const AuInstr *in = &v->k->instrs[i];
    const AuKType of = verify_type_at(v, in, 0), to = in->type;
    const bool bits = of.scalar == to.scalar || (of.scalar == AU_F32 && to.scalar == AU_I32) ||
                      (of.scalar == AU_I32 && to.scalar == AU_F32);
    if (of.width != to.width || !(in->op == AU_K_CVT ? is_conversion(of.scalar, to.scalar) : bits))
        verify_wrong(v, AU_E0804, i, "there is no such change from %s to %s",
                     verify_type_text(v, of), verify_type_text(v, to));
}

static void check_rule(AuVerifier *v, uint32_t i, AuKRule rule)
{
    const AuInstr *in = &v->k->instrs[i];
    switch (rule) {
    case AU_R_SAME: check_same(v, i, 0, NUMBER, "i32, i64 or f32"); break;
    case AU_R_FLOAT: check_same(v, i, 0, F32, "f32"); break;
    case AU_R_INT: check_same(v, i, 0, INT, "i32 or i64"); break;
    case AU_R_LOGIC: check_same(v, i, 0, I1, "i1"); break;
    case AU_R_CMP:
        if (in->op == AU_K_EQ || in->op == AU_K_NE)
            check_same(v, i, 0, NUMBER | I1, "i1, i32, i64 or f32");
        else
            check_same(v, i, 0, NUMBER, "i32, i64 or f32");
        break;
    case AU_R_SELECT:
        verify_wants(v, i, 0, I1, verify_type_at(v, in, 1).width, "i1 of the same width");
        check_same(v, i, 1, ANY_SCALAR, "a value");
        break;
    case AU_R_CVT: check_cvt(v, i); break;
    case AU_R_DECODE: check_same(v, i, 0, 1u << AU_U8, "u8"); break;
    case AU_R_ENCODE: check_same(v, i, 0, F32, "f32"); break;
    case AU_R_CORE: break;
    }
}

/* ---- memory */

static void check_mode(AuVerifier *v, uint32_t i, const AuMemory *m)
{
    const uint32_t flags = kernel_op_info(v->k->instrs[i].op)->flags;
    if (m->space != AU_GLOBAL) return;
    if (flags & AU_KF_READ && !m->reads)
        verify_wrong(v, AU_E0807, i, "@%s is not declared as read", m->name);
    if (flags & AU_KF_WRITE && !m->writes)
        verify_wrong(v, AU_E0807, i, "@%s is not declared as written", m->name);
}

static void check_constant_index(AuVerifier *v, uint32_t i, const AuMemory *m, uint32_t width)
{
    const AuInstr *index = kernel_at(v->k, kernel_operand(v->k, &v->k->instrs[i], 0));
    if (index->op != AU_K_CONST || m->space == AU_GLOBAL) return;
    if (index->imm < 0 || index->imm + (int64_t)width > (int64_t)m->count)
        verify_wrong(v, AU_E0808, i, "@%s has %u elements", m->name, m->count);
}

static void check_access(AuVerifier *v, uint32_t i)
{
    const AuInstr *in = &v->k->instrs[i];
    const AuMemory *m = &v->k->mems[in->mem.i];
    const bool load = in->op == AU_K_LOAD, inc = in->op == AU_K_ATOMIC_INC,
               add = in->op == AU_K_ATOMIC_ADD;
    const AuKType moved = load || inc ? in->type : verify_type_at(v, in, 1);
    const uint32_t mask = load || inc ? 1 : 2;
    verify_wants(v, i, 0, INT, 1, "an index, i32 or i64");
    if (moved.scalar != m->scalar)
        verify_wrong(v, AU_E0807, i, "@%s holds %s, not %s", m->name, kernel_scalar_name(m->scalar),
                     kernel_scalar_name(moved.scalar));
    if ((inc && m->scalar != AU_I32) || (add && m->scalar != AU_I32 && m->scalar != AU_F32))
        verify_wrong(v, AU_E0807, i, "this atomic operation does not exist for %s",
                     kernel_scalar_name(m->scalar));
    if ((inc || add) && (m->space == AU_LANE || m->space == AU_EXEC || inc * moved.width > 1))
        verify_wrong(v, AU_E0807, i,
                     "atomic operations are for single elements of global or shared memory");
    if (add && moved.width != 1 &&
        (moved.width > 4 || m->scalar != AU_F32 || m->space != AU_GLOBAL))
        verify_wrong(v, AU_E0807, i, "vectors are added to global memory only, 2 or 4 of f32");
    if (in->count > mask) verify_wants(v, i, mask, I1, 1, "a mask, i1");
    if (in->count > mask + 1 && !kernel_same_type(verify_type_at(v, in, mask + 1), in->type))
        verify_wrong(v, AU_E0804, i, "lanes without the mask must get %s",
                     verify_type_text(v, in->type));
    if (m->space == AU_MATRIX)
        verify_wrong(v, AU_E0807, i, "elements of @%s have no index", m->name);
    if (m->space == AU_TENSOR)
        verify_wrong(v, AU_E0807, i, "@%s is moved by tensor_load and tensor_store", m->name);
    if (v->objects[in->mem.i])
        verify_wrong(v, AU_E0807, i, "@%s holds barriers, which nothing else may touch", m->name);
    check_mode(v, i, m);
    check_constant_index(v, i, m, moved.width);
}

static void check_prefetch(AuVerifier *v, uint32_t i)
{
    verify_wants(v, i, 0, INT, 1, "an index, i32 or i64");
    if (v->k->mems[v->k->instrs[i].mem.i].space != AU_GLOBAL)
        verify_wrong(v, AU_E0807, i, "what is not global memory is near");
}

/* ---- other operations of core.def */

void verify_range(AuVerifier *v, uint32_t i, int64_t low, int64_t high)
{
    const int64_t imm = v->k->instrs[i].imm;
    if (imm < low || imm > high)
        verify_wrong(v, AU_E0808, i, "#%lld is not in %lld..%lld", (long long)imm, (long long)low,
                     (long long)high);
}

static void check_uniform(AuVerifier *v, uint32_t i)
{
    const AuInstr *in = &v->k->instrs[i];
    for (uint32_t n = 0; n < in->count; n++)
        if (v->lanes.kind[kernel_operand(v->k, in, n).i] != AU_UNIFORM)
            verify_wrong(v, AU_E0806, i, "%s must be the same in all lanes; use masks, or any",
                         in->op == AU_K_IF ? "the condition" : "the bounds");
}

/* Lanes whose numbers differ in bits. */
static void check_bits(AuVerifier *v, uint32_t i)
{
    if (v->k->lanes & (v->k->lanes - 1))
        verify_wrong(v, AU_E0808, i, "needs a power of two of lanes, there are %u", v->k->lanes);
}

static void check_lanes(AuVerifier *v, uint32_t i)
{
    const AuInstr *in = &v->k->instrs[i];
    verify_wants(v, i, 0, in->op == AU_K_ANY ? I1 : I32 | F32, 1,
                 in->op == AU_K_ANY ? "i1" : "i32 or f32");
    if (in->op == AU_K_SHUFFLE) verify_wants(v, i, 1, I32, 1, "a lane, i32");
    if (in->op == AU_K_SHUFFLE_XOR) verify_range(v, i, 1, (int64_t)v->k->lanes - 1);
    if (in->op == AU_K_SHUFFLE_XOR) check_bits(v, i);
}

/* Words of lanes side by side: numbers of 32 bits, or pairs of such of 16. */
static void check_both(AuVerifier *v, uint32_t i)
{
    const AuInstr *in = &v->k->instrs[i];
    const AuKType of = verify_type_at(v, in, 0);
    const bool words = (1u << of.scalar & (I32 | F32)) != 0,
               pairs = (1u << of.scalar & HALF) && of.width % 2 == 0;
    if ((!words && !pairs) || !is_width(2u * of.width))
        verify_wrong(v, AU_E0804, i,
                     "operand 1 must be i32 or f32, or f16 or bf16 by pairs, it is %s",
                     verify_type_text(v, of));
    if (in->imm < 1 || in->imm >= (int64_t)v->k->lanes || (in->imm & (in->imm - 1)))
        verify_wrong(v, AU_E0808, i, "%lld is no bit of the number of a lane of %u",
                     (long long)in->imm, v->k->lanes);
    check_bits(v, i);
}

static void check_vec(AuVerifier *v, uint32_t i)
{
    const AuInstr *in = &v->k->instrs[i];
    if (in->count != in->type.width)
        verify_wrong(v, AU_E0804, i, "%u elements for a vector of %u", in->count, in->type.width);
    for (uint32_t n = 0; n < in->count; n++)
        verify_wants(v, i, n, 1u << in->type.scalar, 1, "of the vector's scalar type");
}

static void check_dot2(AuVerifier *v, uint32_t i)
{
    const AuInstr *in = &v->k->instrs[i];
    verify_wants(v, i, 0, F32, 1, "f32");
    if (verify_wants(v, i, 1, HALF, 2, "a pair of f16 or bf16") &&
        !kernel_same_type(verify_type_at(v, in, 1), verify_type_at(v, in, 2)))
        verify_wrong(v, AU_E0804, i, "the pairs must be of one type");
}

static void check_barrier(AuVerifier *v, uint32_t i)
{
    verify_range(v, i, 0, 1);
    if (v->k->instrs[i].imm == 0 && v->differs)
        verify_wrong(
            v, AU_E0806, i,
            "executors of the block do not all come here: what is around it differs between them");
}

static void check_for(AuVerifier *v, uint32_t i)
{
    const AuInstr *in = &v->k->instrs[i];
    verify_wants(v, i, 0, I32, 1, "i32");
    verify_wants(v, i, 1, I32, 1, "i32");
    if (in->imm == 0 || in->imm != (int32_t)in->imm)
        verify_wrong(v, AU_E0808, i, "a step that gets nowhere");
    check_uniform(v, i);
}

static void check_core(AuVerifier *v, uint32_t i)
{
    const AuInstr *in = &v->k->instrs[i];
    if (kernel_op_info(in->op)->flags & AU_KF_AGENTS) verify_agent(v, i);
    if (kernel_op_info(in->op)->flags & AU_KF_OPAQUE) verify_opaque(v, i);
    if (v->each || kernel_op_info(in->op)->flags & AU_KF_PLACE) verify_place(v, i);
    switch ((int)in->op) {
    case AU_K_ARG:
        verify_range(v, i, 0, (int64_t)v->k->arg_count - 1);
        if ((uint64_t)in->imm < v->k->arg_count && v->k->args[in->imm].kind == AU_ARG_POINTER)
            verify_wrong(v, AU_E0807, i, "a pointer is no value; its memory is loaded and stored");
        break;
    case AU_K_BLOCK:
    case AU_K_BLOCKS: verify_range(v, i, 0, 2); break;
    case AU_K_LOAD:
    case AU_K_STORE:
    case AU_K_ATOMIC_ADD:
    case AU_K_ATOMIC_INC: check_access(v, i); break;
    case AU_K_PREFETCH: check_prefetch(v, i); break;
    case AU_K_VEC: check_vec(v, i); break;
    case AU_K_ELEMENT: verify_range(v, i, 0, (int64_t)verify_type_at(v, in, 0).width - 1); break;
    case AU_K_SLICE: verify_slice(v, i); break;
    case AU_K_DOT2: check_dot2(v, i); break;
    case AU_K_MMA: verify_mma(v, i); break;
    case AU_K_LOAD_MATRIX:
    case AU_K_STORE_MATRIX: verify_rows_of_matrix(v, i); break;
    case AU_K_BLOCK_LOAD:
    case AU_K_BLOCK_GATHER:
    case AU_K_BLOCK_AHEAD: verify_block(v, i); break;
    case AU_K_COPY_ASYNC: verify_copy(v, i); break;
    case AU_K_COPY_WAIT: verify_range(v, i, 0, 7); break;
    case AU_K_HINT: verify_range(v, i, 0, KERNEL_HINTS - 1); break;
    case AU_K_MATMUL: verify_matmul(v, i); break;
    case AU_K_SHUFFLE_XOR:
    case AU_K_SHUFFLE:
    case AU_K_ANY: check_lanes(v, i); break;
    case AU_K_BOTH: check_both(v, i); break;
    case AU_K_BARRIER: check_barrier(v, i); break;
    case AU_K_FOR: check_for(v, i); break;
    case AU_K_IF:
        if (verify_wants(v, i, 0, I1, 1, "a condition, i1")) check_uniform(v, i);
        break;
    case AU_K_NOTE:
        if (!in->text) verify_wrong(v, AU_E0804, i, "has no text");
        break;
    }
}

/* ---- the walk */

/* Everything that later checks read without asking: counts, operands in sight, the type. */
static bool check_frame(AuVerifier *v, uint32_t i)
{
    const AuInstr *in = &v->k->instrs[i];
    const AuKOpInfo *info = kernel_op_info(in->op);
    bool good = true;
    for (uint32_t n = 0; n < in->count; n++) {
        const uint32_t x = kernel_operand(v->k, in, n).i;
        if (x && (v->state[x] == 1 || v->state[x] == 3)) continue;
        good = false;
        verify_wrong(v, AU_E0805, i, "operand %u %s", n + 1,
                     v->state[x] == 2 ? "belongs to a region that has ended"
                                      : "is not made before");
    }
    if (!good) return false;
    const bool result = info->flags & AU_KF_RESULT;
    if (result != (in->type.scalar != AU_VOID) || (result && !is_width(in->type.width))) {
        verify_wrong(v, AU_E0804, i, "the result cannot be %s", verify_type_text(v, in->type));
        return false;
    }
    const AuVal *operands = v->k->operands + in->first;
    if (result && !kernel_same_type(kernel_type_of(v->k, in, operands), in->type)) {
        verify_wrong(v, AU_E0804, i, "the result is %s",
                     verify_type_text(v, kernel_type_of(v->k, in, operands)));
        return false;
    }
    return true;
}

/* Links and counts are followed by everything, the printer of messages included, so they come
 * before all. */
static bool is_tree(const AuKernel *k, uint8_t *met, uint32_t first, uint32_t depth)
{
    for (uint32_t i = first; i; i = k->instrs[i].next) {
        if (i >= k->instr_count || met[i] || depth > sizeof k->stack / sizeof *k->stack)
            return false;
        const AuInstr *in = &k->instrs[i];
        met[i] = 1;
        if (in->op == AU_K_NONE || in->op >= AU_K_COUNT || in->type.scalar >= AU_SCALARS)
            return false;
        if (in->count < kernel_op_info(in->op)->count || in->count > kernel_op_info(in->op)->most)
            return false;
        if ((uint64_t)in->first + in->count > k->operand_count) return false;
        for (uint32_t n = 0; n < in->count; n++)
            if (kernel_operand(k, in, n).i >= k->instr_count) return false;
        if (kernel_op_info(in->op)->flags & AU_KF_MEM && (!in->mem.i || in->mem.i >= k->mem_count))
            return false;
        if (in->mem.i >= k->mem_count || in->also[0].i >= k->mem_count ||
            in->also[1].i >= k->mem_count)
            return false;
        for (uint32_t n = 0; n < kernel_further(kernel_op_info(in->op)); n++)
            if (!in->also[n].i || in->also[n].i >= k->mem_count) return false;
        if (!is_tree(k, met, in->body, depth + 1) || !is_tree(k, met, in->other, depth + 1))
            return false;
    }
    return true;
}

static void region(AuVerifier *v, uint32_t first)
{
    v->begun = false;
    for (uint32_t i = first; i; i = v->k->instrs[i].next) {
        const AuInstr *in = &v->k->instrs[i];
        const AuKRule rule = kernel_op_info(in->op)->rule;
        if (check_frame(v, i)) {
            if (rule == AU_R_CORE)
                check_core(v, i);
            else
                check_rule(v, i, rule);
            verify_grids(v, i);
            if (v->each && rule != AU_R_CORE) verify_place(v, i);
        }
        v->state[i] = v->each ? 3 : 1;
        if (kernel_op_info(in->op)->flags & (AU_KF_MEM | AU_KF_ORDER)) v->begun = true;
        if (!(kernel_op_info(in->op)->flags & AU_KF_REGION)) continue;
        const bool before = v->differs, group_before = v->differs_in_group;
        for (uint32_t n = 0; n < in->count; n++) {
            const uint32_t x = kernel_operand(v->k, in, n).i;
            if (v->block.kind[x] != AU_UNIFORM) v->differs = true;
            if (v->k->group && v->group.kind[x] != AU_UNIFORM) v->differs_in_group = true;
        }
        const uint32_t each = v->each;
        if (in->op == AU_K_MATRIX_EACH) v->each = i;
        v->depth++;
        region(v, in->body);
        region(v, in->other);
        v->depth--;
        v->each = each;
        v->differs = before;
        v->differs_in_group = group_before;
        v->begun = true;
    }
    for (uint32_t i = first; i; i = v->k->instrs[i].next) v->state[i] = 2;
}

static void check_memory(AuVerifier *v, uint32_t n)
{
    const AuKernel *k = v->k;
    const AuMemory *m = &k->mems[n];
    const char *what = NULL;
    if (m->scalar == AU_VOID || m->scalar >= AU_SCALARS)
        what = "has no element type";
    else if (m->align & (m->align - 1))
        what = "has an alignment that is not a power of two";
    else if (m->space == AU_GLOBAL && (m->arg >= k->arg_count || k->args[m->arg].mem.i != n))
        what = "is no argument";
    else if (m->earlier && m->space != AU_GLOBAL)
        what = "is the block's own, of which no earlier kernel knows";
    else if (m->space != AU_GLOBAL && !m->count)
        what = "has no elements";
    else if (m->swizzle &&
             (m->space != AU_SHARED || (m->swizzle != 32 && m->swizzle != 64 && m->swizzle != 128)))
        what = "has a swizzle that does not exist";
    else if (m->swizzle && (uint64_t)m->count * kernel_scalar_bytes(m->scalar) % m->swizzle)
        what = "ends inside of a row of its swizzle";
    if (!what && m->space == AU_TENSOR) what = verify_tensor_memory(k, m);
    if (!what && m->space == AU_MATRIX) what = verify_matrices(k, m);
    if (!what) return;
    au_error(v->diags, AU_E0807, m->span, "memory @%s %s", m->name, what);
    v->good = false;
}

bool kernel_verify(const AuKernel *k, AuDiags *diags)
{
    AuVerifier v = {.k = k, .diags = diags, .good = true};
    const AuSpan nowhere = {0};
    v.state = AU_NEW_ARRAY(diags->arena, uint8_t, k->instr_count);
    if (k->misbuilt || k->depth || !is_tree(k, v.state, k->body, 0)) {
        au_error(diags, AU_E0803, nowhere, "kernel %s: regions are not closed, too deep or tangled",
                 k->name);
        return false;
    }
    memset(v.state, 0, k->instr_count);
    if (!k->lanes || k->lanes > 1024 || !k->warps || k->warps > 64 || k->lanes * k->warps > 2048) {
        au_error(diags, AU_E0808, nowhere, "kernel %s: %u lanes in %u executors", k->name, k->lanes,
                 k->warps);
        return false;
    }
    if (k->group && k->warps % k->group) {
        au_error(diags, AU_E0808, nowhere, "kernel %s: groups of %u in %u executors", k->name,
                 k->group, k->warps);
        return false;
    }
    for (uint32_t n = 1; n < k->mem_count; n++) check_memory(&v, n);
    for (uint32_t n = 0; n < k->map_count; n++) verify_map(&v, &k->maps[n]);
    v.lanes = kernel_lanes(k, diags->arena);
    v.block = kernel_lanes_of(k, diags->arena, AU_OF_BLOCK);
    if (k->group) v.group = kernel_lanes_of(k, diags->arena, AU_OF_GROUP);
    verify_find_objects(&v);
    region(&v, k->body);
    return v.good;
}
