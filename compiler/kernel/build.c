/* build.c - constructs kernels: a cursor in a tree of open regions, instructions appended at it.
 * Types follow from operands; operations on constants fold at once (fold.c), so that lowerings may
 * write arithmetic freely. Nothing is refused here: what is wrong gets a type that does not fit, or
 * `misbuilt`, and kernel_verify says so. */
#include "internal.h"

#include <string.h>

enum { DEEPEST = sizeof((AuKernel *)0)->stack / sizeof *((AuKernel *)0)->stack };

AuKernel *kernel_new(AuArena *arena, const char *name, uint32_t lanes, uint32_t warps)
{
    AuKernel *k = AU_NEW(arena, AuKernel);
    *k = (AuKernel){.arena = arena, .name = name, .lanes = lanes, .warps = warps};
    AU_PUSH(arena, k->instrs, k->instr_count, k->instr_capacity, (AuInstr){0});
    AU_PUSH(arena, k->mems, k->mem_count, k->mem_capacity, (AuMemory){0});
    return k;
}

/* Names are made unique, since the text form knows memories by name. */
AuMem kernel_memory(AuKernel *k, AuMemory memory)
{
    const char *wanted = memory.name;
    for (uint32_t n = 1, copy = 2; n < k->mem_count; n++)
        if (strcmp(k->mems[n].name, memory.name) == 0) {
            memory.name = au_format(k->arena, "%s.%u", wanted, copy++);
            n = 0;
        }
    AU_PUSH(k->arena, k->mems, k->mem_count, k->mem_capacity, memory);
    return (AuMem){k->mem_count - 1};
}

AuMem kernel_tensor(AuKernel *k, const char *name, AuScalar scalar, bool reads, bool writes,
                    uint32_t source, uint32_t index)
{
    const AuMem mem = kernel_memory(k, (AuMemory){.name = name,
                                                  .space = AU_GLOBAL,
                                                  .scalar = scalar,
                                                  .reads = reads,
                                                  .writes = writes,
                                                  .arg = k->arg_count});
    const AuArg arg = {
        .name = name, .kind = AU_ARG_POINTER, .mem = mem, .source = source, .source_index = index};
    AU_PUSH(k->arena, k->args, k->arg_count, k->arg_capacity, arg);
    return mem;
}

/* ---- instructions */

void kernel_link(AuKernel *k, uint32_t i)
{
    struct AuBuildPoint *at = &k->stack[k->depth];
    k->instrs[i].next = 0;
    if (at->last)
        k->instrs[at->last].next = i;
    else if (!at->owner)
        k->body = i;
    else if (at->other)
        k->instrs[at->owner].other = i;
    else
        k->instrs[at->owner].body = i;
    at->last = i;
}

AuVal kernel_append(AuKernel *k, AuInstr in, const AuVal *operands, uint32_t count)
{
    in.first = k->operand_count;
    in.count = (uint8_t)count;
    if (!in.span.source) in.span = k->at;
    for (uint32_t n = 0; n < count; n++)
        AU_PUSH(k->arena, k->operands, k->operand_count, k->operand_capacity, operands[n]);
    AU_PUSH(k->arena, k->instrs, k->instr_count, k->instr_capacity, in);
    kernel_link(k, k->instr_count - 1);
    return (AuVal){k->instr_count - 1};
}

AuVal kernel_emit(AuKernel *k, AuInstr in, const AuVal *operands, uint32_t count)
{
    if (!in.type.width) in.type = kernel_type_of(k, &in, operands);
    if (in.type.scalar == AU_VOID) return kernel_append(k, in, operands, count);
    const AuFold fold = kernel_fold(k, &in, operands);
    if (fold.value.i) return fold.value;
    if (!fold.instr.op) return kernel_append(k, in, operands, count);
    AuInstr folded = fold.instr;
    folded.text = in.text;
    folded.span = in.span;
    return kernel_append(k, folded, fold.operands, fold.count);
}

static AuVal constant(AuKernel *k, AuScalar scalar, uint64_t bits)
{
    return kernel_append(k, kernel_const_of((AuKType){(uint8_t)scalar, 1}, bits), NULL, 0);
}

AuVal kernel_i1(AuKernel *k, bool value) { return constant(k, AU_I1, value); }
AuVal kernel_i32(AuKernel *k, int32_t value) { return constant(k, AU_I32, (uint32_t)value); }
AuVal kernel_i64(AuKernel *k, int64_t value) { return constant(k, AU_I64, (uint64_t)value); }

AuVal kernel_f32(AuKernel *k, double value)
{
    const AuInstr in = {.op = AU_K_CONST, .type = {AU_F32, 1}, .number = (float)value};
    return kernel_append(k, in, NULL, 0);
}

AuVal kernel_arg(AuKernel *k, const char *name, AuArgKind kind, uint32_t source, uint32_t index,
                 uint32_t dim)
{
    uint32_t n = 0;
    for (; n < k->arg_count; n++) {
        const AuArg *a = &k->args[n];
        if (a->kind == kind && a->source == source && a->source_index == index &&
            a->source_dim == dim && strcmp(a->name, name) == 0)
            break;
    }
    if (n == k->arg_count) {
        const AuArg arg = {
            .name = name, .kind = kind, .source = source, .source_index = index, .source_dim = dim};
        AU_PUSH(k->arena, k->args, k->arg_count, k->arg_capacity, arg);
    }
    return kernel_emit(k, (AuInstr){.op = AU_K_ARG, .imm = n, .text = k->args[n].name}, NULL, 0);
}

AuVal kernel_block(AuKernel *k, uint32_t dim)
{
    return kernel_emit(k, (AuInstr){.op = AU_K_BLOCK, .imm = dim}, NULL, 0);
}
AuVal kernel_blocks(AuKernel *k, uint32_t dim)
{
    return kernel_emit(k, (AuInstr){.op = AU_K_BLOCKS, .imm = dim}, NULL, 0);
}
AuVal kernel_warp(AuKernel *k) { return kernel_emit(k, (AuInstr){.op = AU_K_WARP}, NULL, 0); }
AuVal kernel_lane(AuKernel *k) { return kernel_emit(k, (AuInstr){.op = AU_K_LANE}, NULL, 0); }

AuVal kernel_op1(AuKernel *k, AuKOp op, AuVal a)
{
    return kernel_emit(k, (AuInstr){.op = (uint8_t)op}, (AuVal[]){a}, 1);
}

AuVal kernel_op2(AuKernel *k, AuKOp op, AuVal a, AuVal b)
{
    return kernel_emit(k, (AuInstr){.op = (uint8_t)op}, (AuVal[]){a, b}, 2);
}

AuVal kernel_op3(AuKernel *k, AuKOp op, AuVal a, AuVal b, AuVal c)
{
    return kernel_emit(k, (AuInstr){.op = (uint8_t)op}, (AuVal[]){a, b, c}, 3);
}

static AuVal change_type(AuKernel *k, AuKOp op, AuVal a, AuScalar to)
{
    const AuKType type = {(uint8_t)to, kernel_at(k, a)->type.width};
    return kernel_emit(k, (AuInstr){.op = (uint8_t)op, .type = type}, (AuVal[]){a}, 1);
}

AuVal kernel_cvt(AuKernel *k, AuVal a, AuScalar to) { return change_type(k, AU_K_CVT, a, to); }
AuVal kernel_bitcast(AuKernel *k, AuVal a, AuScalar to)
{
    return change_type(k, AU_K_BITCAST, a, to);
}

AuVal kernel_load(AuKernel *k, AuMem mem, AuVal index, uint32_t width, AuVal mask, AuVal other)
{
    const AuInstr in = {
        .op = AU_K_LOAD, .mem = mem, .type = {(uint8_t)k->mems[mem.i].scalar, (uint8_t)width}};
    return kernel_emit(k, in, (AuVal[]){index, mask, other}, mask.i ? other.i ? 3 : 2 : 1);
}

void kernel_store(AuKernel *k, AuMem mem, AuVal index, AuVal value, AuVal mask)
{
    kernel_emit(k, (AuInstr){.op = AU_K_STORE, .mem = mem}, (AuVal[]){index, value, mask},
                mask.i ? 3 : 2);
}

AuVal kernel_vec(AuKernel *k, const AuVal *elements, uint32_t width)
{
    const AuKType type = {kernel_at(k, elements[0])->type.scalar, (uint8_t)width};
    return kernel_emit(k, (AuInstr){.op = AU_K_VEC, .type = type}, elements, width);
}

AuVal kernel_element(AuKernel *k, AuVal vector, uint32_t which)
{
    return kernel_emit(k, (AuInstr){.op = AU_K_ELEMENT, .imm = which}, (AuVal[]){vector}, 1);
}

AuVal kernel_both(AuKernel *k, AuVal words, uint32_t bit)
{
    return kernel_emit(k, (AuInstr){.op = AU_K_BOTH, .imm = bit}, (AuVal[]){words}, 1);
}

AuVal kernel_dot2(AuKernel *k, AuVal c, AuVal a, AuVal b)
{
    return kernel_emit(k, (AuInstr){.op = AU_K_DOT2}, (AuVal[]){c, a, b}, 3);
}

void kernel_matmul(AuKernel *k, const AuMatmul *x)
{
    const int32_t numbers[6] = {x->rows,     x->vectors,  x->depth,
                                x->c_stride, x->a_stride, x->b_stride};
    AuVal operands[10] = {x->c_at, x->a_at, x->b_at};
    for (uint32_t n = 0; n < 6; n++) operands[3 + n] = kernel_i32(k, numbers[n]);
    operands[9] = kernel_i1(k, x->add);
    kernel_emit(k, (AuInstr){.op = AU_K_MATMUL, .mem = x->c, .also = {x->a, x->b}}, operands, 10);
}

AuMatmul kernel_matmul_of(const AuKernel *k, const AuInstr *in)
{
    int32_t numbers[7];
    for (uint32_t n = 0; n < 7; n++)
        numbers[n] = (int32_t)kernel_at(k, kernel_operand(k, in, 3 + n))->imm;
    return (AuMatmul){
        .c = in->mem,
        .a = in->also[0],
        .b = in->also[1],
        .c_at = kernel_operand(k, in, 0),
        .a_at = kernel_operand(k, in, 1),
        .b_at = kernel_operand(k, in, 2),
        .rows = numbers[0],
        .vectors = numbers[1],
        .depth = numbers[2],
        .c_stride = numbers[3],
        .a_stride = numbers[4],
        .b_stride = numbers[5],
        .add = numbers[6] & 1,
    };
}

AuVal kernel_slice(AuKernel *k, AuVal vector, uint32_t first, uint32_t width)
{
    const AuKType type = {kernel_at(k, vector)->type.scalar, (uint8_t)width};
    return kernel_emit(k, (AuInstr){.op = AU_K_SLICE, .type = type, .imm = first},
                       (AuVal[]){vector}, 1);
}

AuVal kernel_mma(AuKernel *k, AuMatrix row, AuVal c, AuVal a, AuVal b)
{
    return kernel_emit(k, (AuInstr){.op = AU_K_MMA, .imm = row}, (AuVal[]){c, a, b}, 3);
}

AuVal kernel_load_matrix(AuKernel *k, AuMem mem, AuVal index, uint32_t count, bool transposed)
{
    const AuScalar scalar = k->mems[mem.i].scalar;
    const AuKType type = {(uint8_t)scalar, (uint8_t)(count * 4 / kernel_scalar_bytes(scalar))};
    const AuInstr in = {
        .op = AU_K_LOAD_MATRIX, .type = type, .mem = mem, .imm = count + (transposed ? 8 : 0)};
    return kernel_emit(k, in, &index, 1);
}

AuVal kernel_load_turned(AuKernel *k, AuMem mem, AuVal index, uint32_t n)
{
    const AuInstr in = {.op = AU_K_LOAD_MATRIX,
                        .type = {(uint8_t)k->mems[mem.i].scalar, (uint8_t)n},
                        .mem = mem,
                        .imm = 16 + n};
    return kernel_emit(k, in, &index, 1);
}

AuVal kernel_block_load(AuKernel *k, const AuSurface *of, AuVal column, AuVal row, uint32_t width,
                        bool across)
{
    const AuInstr in = {.op = of->step.i ? AU_K_BLOCK_GATHER : AU_K_BLOCK_LOAD,
                        .type = {(uint8_t)k->mems[of->mem.i].scalar, (uint8_t)width},
                        .mem = of->mem,
                        .imm = across};
    AuVal operands[7];
    uint32_t count = 0;
    operands[count++] = of->first;
    operands[count++] = of->columns;
    operands[count++] = of->rows;
    operands[count++] = of->pitch;
    if (of->step.i) operands[count++] = of->step;
    operands[count++] = column;
    operands[count++] = row;
    return kernel_emit(k, in, operands, count);
}

void kernel_block_ahead(AuKernel *k, const AuSurface *of, AuVal column, AuVal row, uint32_t rows)
{
    const AuInstr in = {.op = AU_K_BLOCK_AHEAD, .mem = of->mem, .imm = rows};
    const AuVal operands[] = {of->first, of->columns, of->rows, of->pitch, column, row};
    kernel_emit(k, in, operands, sizeof operands / sizeof *operands);
}

void kernel_store_matrix(AuKernel *k, AuMem mem, AuVal index, AuVal value, bool transposed)
{
    const uint32_t count = kernel_at(k, value)->type.width / 2u;
    const AuInstr in = {.op = AU_K_STORE_MATRIX, .mem = mem, .imm = count + (transposed ? 8 : 0)};
    kernel_emit(k, in, (AuVal[]){index, value}, 2);
}

void kernel_copy_async(AuKernel *k, AuMem to, AuVal to_at, AuMem from, AuVal from_at,
                       AuVal bytes_valid, uint32_t bytes, AuVal mask)
{
    const AuInstr in = {.op = AU_K_COPY_ASYNC, .mem = to, .also = {from}, .imm = bytes};
    kernel_emit(k, in, (AuVal[]){to_at, from_at, bytes_valid, mask}, mask.i ? 4 : 3);
}

void kernel_copy_direct(AuKernel *k, AuMem to, AuVal to_at, AuMem from, AuVal from_at,
                        uint32_t bytes, AuVal mask)
{
    kernel_copy_async(k, to, to_at, from, from_at, kernel_i32(k, (int32_t)bytes),
                      bytes + KERNEL_DIRECT, mask);
}

void kernel_copy_commit(AuKernel *k) { kernel_emit(k, (AuInstr){.op = AU_K_COPY_COMMIT}, NULL, 0); }

void kernel_prefetch(AuKernel *k, AuMem mem, AuVal index)
{
    kernel_emit(k, (AuInstr){.op = AU_K_PREFETCH, .mem = mem}, &index, 1);
}

void kernel_hint(AuKernel *k, uint32_t what)
{
    kernel_emit(k, (AuInstr){.op = AU_K_HINT, .imm = what}, NULL, 0);
}

void kernel_copy_wait(AuKernel *k, uint32_t groups)
{
    kernel_emit(k, (AuInstr){.op = AU_K_COPY_WAIT, .imm = groups}, NULL, 0);
}

void kernel_barrier(AuKernel *k, uint32_t scope)
{
    kernel_emit(k, (AuInstr){.op = AU_K_BARRIER, .imm = scope}, NULL, 0);
}

void kernel_note(AuKernel *k, const char *text)
{
    kernel_append(k, (AuInstr){.op = AU_K_NOTE, .text = text}, NULL, 0);
}

/* ---- structure */

void kernel_open(AuKernel *k, AuVal owner)
{
    if (k->depth + 1 >= DEEPEST)
        k->misbuilt = true; /* what follows lands in the region above */
    else
        k->stack[++k->depth] = (struct AuBuildPoint){.owner = owner.i};
}

AuVal kernel_for(AuKernel *k, AuVal low, AuVal high, int32_t step, AuUnroll unroll)
{
    const AuInstr in = {
        .op = AU_K_FOR, .imm = step, .unroll = (uint8_t)unroll, .type = {AU_I32, 1}};
    const AuVal loop = kernel_append(k, in, (AuVal[]){low, high}, 2);
    kernel_open(k, loop);
    return loop;
}

void kernel_if(AuKernel *k, AuVal condition)
{
    kernel_open(k, kernel_append(k, (AuInstr){.op = AU_K_IF}, (AuVal[]){condition}, 1));
}

void kernel_else(AuKernel *k)
{
    struct AuBuildPoint *at = &k->stack[k->depth];
    if (!at->owner || at->other || k->instrs[at->owner].op != AU_K_IF)
        k->misbuilt = true;
    else
        *at = (struct AuBuildPoint){.owner = at->owner, .other = true};
}

void kernel_end(AuKernel *k)
{
    if (k->depth == 0)
        k->misbuilt = true;
    else
        k->depth--;
}
