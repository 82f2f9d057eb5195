/* emit.c - a kernel as one LLVM function: its frame, regions, loops, and the way of each instruction to its file.
 *
 * void NAME(const uint64_t *slots, uint32_t x, uint32_t y, uint32_t z), one block of the grid a call (aule_cpu_kernel).
 * Loops that are to be unrolled are copied here, so that arrays of lanes get constant indices before any LLVM pass runs and
 * SROA alone makes them registers. Rolled loops are emitted in the form loop passes want: guard, body, test at the end.
 * The kernel is verified and has no MATH operation left; what breaks that is a fault of the compiler (E0004). */
#include "emit.h"

#include <llvm-c/DebugInfo.h>

#include <string.h>

enum {
    MOST_COPIES = 1 << 12,  /* of a loop's body */
    MOST_EMITTED = 1 << 16, /* instructions: beyond, loops stay loops */
    MOST_WRITTEN = 70000, /* the same for loops that only a device wants written out: all or none */
    MOST_LANE_BYTES =
        4000, /* four times its registers: arrays beyond stay in memory, loops loops */
    PHASE_LENGTH = 63
};

static void emit_region(AuEmit *e, uint32_t first);

void emit_fault(AuEmit *e, const AuInstr *in, const char *what)
{
    if (!e->failed)
        au_error(e->diags, AU_E0004, in ? in->span : (AuSpan){0}, "%s code of kernel '%s': %s%s%s",
                 e->device ? "device" : "host", e->k->name, what, in ? ": " : "",
                 in ? kernel_op_info((AuKOp)in->op)->text : "");
    e->failed = true;
}

/* ---- blocks */

LLVMBasicBlockRef emit_block(AuEmit *e, const char *name)
{
    const char *full = *e->phase ? au_format(e->arena, "%s.%s", e->phase, name) : name;
    return LLVMAppendBasicBlockInContext(e->context, e->function, full);
}

LLVMBasicBlockRef emit_when(AuEmit *e, LLVMValueRef condition)
{
    LLVMBasicBlockRef then = emit_block(e, "when"), after = emit_block(e, "after");
    LLVMBuildCondBr(e->builder, condition, then, after);
    LLVMPositionBuilderAtEnd(e->builder, then);
    return after;
}

void emit_when_end(AuEmit *e, LLVMBasicBlockRef after)
{
    LLVMBuildBr(e->builder, after);
    LLVMPositionBuilderAtEnd(e->builder, after);
}

/* Names of blocks: "softmax: rescale acc" -> softmax_rescale_acc */
static void emit_note(AuEmit *e, const char *text)
{
    char *name = au_alloc(e->arena, PHASE_LENGTH + 1);
    uint32_t length = 0;
    for (const char *c = text; *c && length < PHASE_LENGTH; c++) {
        const bool plain = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
                           (*c >= '0' && *c <= '9') || *c == '.';
        if (plain)
            name[length++] = *c;
        else if (length && name[length - 1] != '_')
            name[length++] = '_';
    }
    e->phase = "";
    LLVMBasicBlockRef block = emit_block(e, length ? name : "phase");
    e->phase = name;
    LLVMBuildBr(e->builder, block);
    LLVMPositionBuilderAtEnd(e->builder, block);
}

/* ---- regions */

/* Emits a region whose blocks do not dominate what follows: forms made inside are forgotten. */
static void emit_inside(AuEmit *e, uint32_t first)
{
    const uint32_t mark = e->trail_count;
    emit_region(e, first);
    if (e->device) e->device->end(e);
    emit_forget(e, mark);
}

static void emit_if(AuEmit *e, const AuInstr *in)
{
    LLVMBasicBlockRef then = emit_block(e, "then"), after = emit_block(e, "after");
    LLVMBasicBlockRef other = in->other ? emit_block(e, "else") : after;
    LLVMBuildCondBr(e->builder, emit_base(e, kernel_operand(e->k, in, 0)), then, other);
    LLVMPositionBuilderAtEnd(e->builder, then);
    emit_inside(e, in->body);
    LLVMBuildBr(e->builder, after);
    if (in->other) {
        LLVMPositionBuilderAtEnd(e->builder, other);
        emit_inside(e, in->other);
        LLVMBuildBr(e->builder, after);
    }
    LLVMPositionBuilderAtEnd(e->builder, after);
}

static bool uses_lane_arrays(const AuEmit *e, uint32_t first)
{
    for (uint32_t i = first; i; i = e->k->instrs[i].next) {
        const AuInstr *in = &e->k->instrs[i];
        if ((kernel_op_info((AuKOp)in->op)->flags & AU_KF_MEM) &&
            e->k->mems[in->mem.i].space == AU_LANE && e->k->mems[in->mem.i].count > 1)
            return true;
        if (uses_lane_arrays(e, in->body) || uses_lane_arrays(e, in->other)) return true;
    }
    return false;
}

/* Whether a device, which has no stack to speak of, wants a loop written out, so that arrays become
 * registers. */
static bool is_written_out(const AuEmit *e, const AuInstr *in)
{
    if (e->written) return e->written[in - e->k->instrs];
    return e->writes_out && (in->unroll == AU_UNROLL_AUTO || uses_lane_arrays(e, in->body));
}

/* Instructions of a region if all such loops are written out. */
static uint64_t written_size(const AuEmit *e, uint32_t first)
{
    uint64_t size = 0;
    for (uint32_t i = first; i; i = e->k->instrs[i].next) {
        const AuInstr *in = &e->k->instrs[i];
        const uint64_t body = written_size(e, in->body) + written_size(e, in->other);
        const uint64_t turns = kernel_turns(e->k, in);
        const bool full = turns && (in->unroll == AU_UNROLL_FULL || is_written_out(e, in));
        size += 1 + (full ? turns : 1) * body;
    }
    return size;
}

/* Whether the arrays of lanes can become registers at all, and the code that makes them such is bearable. */
static bool is_worth_writing(const AuEmit *e)
{
    uint64_t bytes = 0;
    for (uint32_t n = 0; n < e->k->mem_count; n++)
        if (e->k->mems[n].space == AU_LANE)
            bytes += (uint64_t)e->k->mems[n].count * kernel_scalar_bytes(e->k->mems[n].scalar);
    return bytes <= MOST_LANE_BYTES && written_size(e, e->k->body) <= MOST_WRITTEN;
}

/* Copies of a loop that is to be unrolled and can be; 0: it stays a loop (or runs never, low tells).
 */
static bool unrolls(const AuEmit *e, const AuInstr *in, LLVMValueRef low, LLVMValueRef high,
                    int64_t *first, int64_t *copies)
{
    if (!LLVMIsAConstantInt(low) || !LLVMIsAConstantInt(high)) return false;
    const int64_t from = LLVMConstIntGetSExtValue(low), to = LLVMConstIntGetSExtValue(high);
    const int64_t step = in->imm, span = step > 0 ? to - from : from - to;
    const int64_t size = step > 0 ? step : -step;
    *first = from;
    *copies = span > 0 ? (span + size - 1) / size : 0;
    if (*copies <= 1) return true;
    const bool wanted = in->unroll == AU_UNROLL_FULL || is_written_out(e, in);
    return wanted && *copies <= MOST_COPIES && (e->writes_out || e->emitted < MOST_EMITTED);
}

/* ptxas unrolls what it can; a loop that the lowering wants as a loop says so. */
static void keep_loop(AuEmit *e, LLVMValueRef branch)
{
    LLVMMetadataRef text = LLVMMDStringInContext2(e->context, "llvm.loop.unroll.disable",
                                                  strlen("llvm.loop.unroll.disable"));
    LLVMMetadataRef self = LLVMTemporaryMDNode(e->context, NULL, 0);
    LLVMMetadataRef parts[2] = {self, LLVMMDNodeInContext2(e->context, &text, 1)};
    LLVMMetadataRef node = LLVMMDNodeInContext2(e->context, parts, 2);
    LLVMMetadataReplaceAllUsesWith(self, node);
    LLVMSetMetadata(branch, LLVMGetMDKindIDInContext(e->context, "llvm.loop", 9),
                    LLVMMetadataAsValue(e->context, node));
}

/* Whether the variable's last step can leave 32 bits: it goes beyond the bound, which is near their end or not known. */
static bool may_wrap(const AuEmit *e, const AuInstr *in, LLVMValueRef high)
{
    if (!e->device || in->imm == 1 || in->imm == -1) return false;
    if (!LLVMIsAConstantInt(high)) return true;
    const int64_t end = LLVMConstIntGetSExtValue(high) + in->imm;
    return end > INT32_MAX || end < INT32_MIN;
}

/* Whether there is another turn. What is left is asked where the next value itself may have wrapped. */
static LLVMValueRef emit_again(AuEmit *e, const AuInstr *in, LLVMValueRef at, LLVMValueRef next,
                               LLVMValueRef high)
{
    LLVMBuilderRef b = e->builder;
    const bool up = in->imm > 0;
    if (!may_wrap(e, in, high))
        return LLVMBuildICmp(b, up ? LLVMIntSLT : LLVMIntSGT, next, high, "");
    LLVMValueRef left = up ? LLVMBuildSub(b, high, at, "") : LLVMBuildSub(b, at, high, "");
    const unsigned long long step = (unsigned long long)(up ? in->imm : -in->imm);
    return LLVMBuildICmp(b, LLVMIntUGT, left, LLVMConstInt(LLVMTypeOf(at), step, false), "");
}

/* On hosts the variable runs in 64 bits, where it cannot wrap and addresses want it; i32 users get its low half. */
static void emit_loop(AuEmit *e, AuVal v, const AuInstr *in, LLVMValueRef low, LLVMValueRef high)
{
    LLVMBuilderRef b = e->builder;
    const LLVMIntPredicate more = in->imm > 0 ? LLVMIntSLT : LLVMIntSGT;
    LLVMTypeRef type = e->device ? e->element[AU_I32] : e->i64;
    if (!e->device) {
        low = LLVMBuildSExt(b, low, type, "");
        high = LLVMBuildSExt(b, high, type, "");
    }
    LLVMBasicBlockRef before = LLVMGetInsertBlock(b), body = emit_block(e, "loop");
    LLVMBasicBlockRef after = emit_block(e, "done");
    LLVMBuildCondBr(b, LLVMBuildICmp(b, more, low, high, ""), body, after);

    LLVMPositionBuilderAtEnd(b, body);
    LLVMValueRef at = LLVMBuildPhi(b, type, in->text ? in->text : "i");
    LLVMAddIncoming(at, &low, &before, 1);
    emit_set(e, v, e->device ? at : LLVMBuildTrunc(b, at, e->element[AU_I32], ""), false);
    if (!e->device) e->forms[v.i].index = at;
    emit_inside(e, in->body);
    LLVMValueRef step = LLVMConstInt(type, (unsigned long long)in->imm, true);
    LLVMValueRef next =
        may_wrap(e, in, high) ? LLVMBuildAdd(b, at, step, "") : LLVMBuildNSWAdd(b, at, step, "");
    LLVMBasicBlockRef end = LLVMGetInsertBlock(b);
    LLVMValueRef again = LLVMBuildCondBr(b, emit_again(e, in, at, next, high), body, after);
    if (e->device && in->unroll == AU_UNROLL_NEVER) keep_loop(e, again);
    LLVMAddIncoming(at, &next, &end, 1);
    LLVMPositionBuilderAtEnd(b, after);
}

static void emit_for(AuEmit *e, AuVal v, const AuInstr *in)
{
    LLVMValueRef low = emit_base(e, kernel_operand(e->k, in, 0));
    LLVMValueRef high = emit_base(e, kernel_operand(e->k, in, 1));
    int64_t first = 0, copies = 0;
    if (!unrolls(e, in, low, high, &first, &copies)) {
        emit_loop(e, v, in, low, high);
        return;
    }
    for (int64_t n = 0; n < copies; n++) {
        emit_set(e, v, emit_int(e, AU_I32, first + n * in->imm, 1), false);
        emit_region(e, in->body);
    }
}

/* ---- instructions */

static LLVMValueRef constant(AuEmit *e, const AuInstr *in)
{
    const AuScalar scalar = (AuScalar)in->type.scalar;
    const float number = in->number;
    LLVMValueRef one = NULL;
    if (scalar == AU_F16 || scalar == AU_BF16) {
        const uint16_t bits = scalar == AU_F16 ? kernel_to_f16(number) : kernel_to_bf16(number);
        one = LLVMConstInt(LLVMInt16TypeInContext(e->context), bits, false);
        one = LLVMConstBitCast(one, e->element[scalar]);
    } else if (scalar == AU_F32)
        one = LLVMConstReal(e->element[AU_F32], in->number);
    else
        return emit_int(e, scalar, in->imm, in->type.width);
    LLVMValueRef all[16];
    for (uint32_t n = 0; n < in->type.width; n++) all[n] = one;
    return in->type.width == 1 ? one : LLVMConstVector(all, in->type.width);
}

/* An argument's slot: 64 bits, i32 and f32 in the low half. Slots do not change while the kernel runs. */
LLVMValueRef emit_argument(AuEmit *e, uint32_t index, LLVMTypeRef type)
{
    LLVMValueRef at = LLVMConstInt(e->i64, index, false);
    LLVMValueRef slots = LLVMGetParam(e->function, 0);
    LLVMValueRef slot = LLVMBuildInBoundsGEP2(e->builder, e->i64, slots, &at, 1, "");
    LLVMValueRef v = LLVMBuildLoad2(e->builder, type, slot, e->k->args[index].name);
    LLVMSetMetadata(v, LLVMGetMDKindIDInContext(e->context, "invariant.load", 14),
                    LLVMMetadataAsValue(e->context, LLVMMDNodeInContext2(e->context, NULL, 0)));
    return v;
}

static void emit_value_op(AuEmit *e, AuVal v, const AuInstr *in)
{
    const bool wide = emit_kind(e, v) == AU_VARYING;
    LLVMValueRef operands[3] = {NULL, NULL, NULL};
    AuScalar of = AU_VOID;
    for (uint32_t n = 0; n < in->count && n < 3; n++) {
        const AuVal operand = kernel_operand(e->k, in, n);
        operands[n] = emit_form(e, operand, wide);
        of = (AuScalar)kernel_at(e->k, operand)->type.scalar;
    }
    LLVMValueRef value = e->device ? e->device->op(e, in, of, operands) : NULL;
    if (!value) value = emit_op(e, in, of, operands);
    if (value)
        emit_set(e, v, value, wide);
    else
        emit_fault(e, in, "an operation that should have been expanded");
}

static void emit_instr(AuEmit *e, AuVal v)
{
    const AuInstr *in = kernel_at(e->k, v);
    e->emitted++;
    emit_lines_at(e, in->span);
    if (e->device && e->device->instruction(e, v)) return;
    switch ((AuKOp)in->op) {
    case AU_K_CONST: emit_set(e, v, constant(e, in), false); return;
    case AU_K_ARG:
        emit_set(e, v, emit_argument(e, (uint32_t)in->imm, e->element[in->type.scalar]), false);
        return;
    case AU_K_BLOCK:
        emit_set(e, v, LLVMGetParam(e->function, 1 + (unsigned)in->imm), false);
        return;
    case AU_K_WARP:
    case AU_K_LANE: emit_set(e, v, emit_int(e, AU_I32, 0, 1), false); return;
    case AU_K_LOAD: emit_load(e, v); return;
    case AU_K_STORE: emit_store(e, v); return;
    case AU_K_ATOMIC_ADD: emit_atomic_add(e, v); return;
    case AU_K_ATOMIC_INC: emit_atomic_inc(e, v); return;
    case AU_K_MATMUL: emit_matmul(e, v); return;
    case AU_K_VEC: emit_vec(e, v); return;
    case AU_K_ELEMENT: emit_element(e, v); return;
    case AU_K_DOT2: emit_dot2(e, v); return;
    case AU_K_SHUFFLE_XOR:
    case AU_K_SHUFFLE: emit_shuffle(e, v); return;
    case AU_K_ANY:
        emit_set(e, v, emit_any(e, emit_wide(e, kernel_operand(e->k, in, 0))), false);
        return;
    case AU_K_SLICE: emit_slice(e, v); return;
    case AU_K_MMA:
    case AU_K_LOAD_MATRIX:
    case AU_K_COPY_ASYNC:
    case AU_K_BLOCKS:
    case AU_K_COPY_COMMIT:
    case AU_K_COPY_WAIT: emit_fault(e, in, "an operation of GPUs"); return;
    case AU_K_ELECT:
    case AU_K_SYNC:
    case AU_K_ARRIVE:
    case AU_K_MBAR_INIT:
    case AU_K_MBAR_ARRIVE:
    case AU_K_MBAR_EXPECT:
    case AU_K_MBAR_WAIT:
    case AU_K_FENCE_INIT:
    case AU_K_FENCE_PROXY:
    case AU_K_MATRIX_FILL:
    case AU_K_MATRIX_LOAD:
    case AU_K_MATRIX_STORE:
    case AU_K_MATRIX_MUL:
    case AU_K_MATRIX_MAP:
    case AU_K_MATRIX_SCALE:
    case AU_K_MATRIX_CVT:
    case AU_K_WGMMA:
    case AU_K_WGMMA_FENCE:
    case AU_K_WGMMA_COMMIT:
    case AU_K_WGMMA_WAIT:
    case AU_K_TENSOR_ALLOC:
    case AU_K_TENSOR_FREE:
    case AU_K_TENSOR_LOAD:
    case AU_K_TENSOR_STORE:
    case AU_K_TENSOR_WAIT:
    case AU_K_TENSOR_FENCE:
    case AU_K_TENSOR_MUL:
    case AU_K_TENSOR_COMMIT:
    case AU_K_TMA_LOAD:
    case AU_K_TMA_STORE:
    case AU_K_TMA_REDUCE_ADD:
    case AU_K_BULK_LOAD:
    case AU_K_BULK_STORE:
    case AU_K_BULK_REDUCE_ADD:
    case AU_K_BULK_COMMIT:
    case AU_K_BULK_WAIT:
    case AU_K_REGISTERS: emit_fault(e, in, "an operation that no generator has yet"); return;
    case AU_K_BARRIER: return; /* one executor, its lanes in step */
    case AU_K_FOR: emit_for(e, v, in); return;
    case AU_K_IF: emit_if(e, in); return;
    case AU_K_NOTE: emit_note(e, in->text); return;
    case AU_K_NONE:
    case AU_K_COUNT: emit_fault(e, in, "no such operation"); return;
#define OP(NAME, text, count, rule, flags, meaning, opencl) case AU_K_##NAME:
#include "ops.def"
#undef OP
        emit_value_op(e, v, in);
        return;
    }
}

static void emit_region(AuEmit *e, uint32_t first)
{
    for (uint32_t i = first; i && !e->failed; i = e->k->instrs[i].next) emit_instr(e, (AuVal){i});
}

/* ---- functions */

void emit_attribute(AuEmit *e, unsigned at, const char *name, const char *value)
{
    const unsigned kind = value ? 0 : LLVMGetEnumAttributeKindForName(name, strlen(name));
    LLVMAddAttributeAtIndex(e->function, at,
                            value ? LLVMCreateStringAttribute(e->context, name,
                                                              (unsigned)strlen(name), value,
                                                              (unsigned)strlen(value))
                                  : LLVMCreateEnumAttribute(e->context, kind, 0));
}

static void open_function(AuEmit *e)
{
    LLVMTypeRef i32 = e->element[AU_I32], types[4] = {e->ptr, i32, i32, i32};
    LLVMTypeRef signature = LLVMFunctionType(LLVMVoidTypeInContext(e->context), types, 4, false);
    e->function = LLVMAddFunction(e->module, e->k->name, signature);
    static const char *const names[4] = {"slots", "x", "y", "z"};
    for (unsigned n = 0; n < 4; n++)
        LLVMSetValueName2(LLVMGetParam(e->function, n), names[n], strlen(names[n]));
    const unsigned function = (unsigned)LLVMAttributeFunctionIndex;
    emit_attribute(e, function, "nounwind", NULL);
    emit_attribute(e, function, "no-builtins",
                   ""); /* no memset or memcpy is made of loops: there is no libc */
    emit_attribute(e, function, "target-cpu", e->host->cpu);
    emit_attribute(e, function, "target-features", e->host->features);
    emit_attribute(e, function, "prefer-vector-width", "512");
    emit_attribute(e, function, "min-legal-vector-width", "512");
    emit_attribute(e, 1, "noalias", NULL);
    emit_attribute(e, 1, "readonly", NULL);
    LLVMPositionBuilderAtEnd(e->builder, emit_block(e, "entry"));
}

/* false: refused. */
static bool open_host(AuEmit *e)
{
    const AuKernel *k = e->k;
    if (k->lanes < 1 || k->lanes > AU_MOST_LANES || (k->lanes & (k->lanes - 1)))
        emit_fault(e, NULL, "the lanes of host code are a power of two up to 64");
    else if (k->warps != 1)
        emit_fault(e, NULL, "a block has more than one executor");
    if (e->failed) return false;
    open_function(e);
    emit_places(e);
    emit_tiles_open(e);
    return !e->failed;
}

/* A thread of a device is a lane that is alone. */
static AuLanes one_lane(AuEmit *e)
{
    AuKernel alone = *e->k;
    alone.lanes = alone.warps = 1;
    return kernel_lanes(&alone, e->arena);
}

void emit_kernel(AuEmit *e, const AuKernel *k)
{
    e->k = k;
    e->lanes = e->device ? one_lane(e) : kernel_lanes(k, e->arena);
    e->forms = AU_NEW_ARRAY(e->arena, AuForms, k->instr_count);
    e->places = AU_NEW_ARRAY(e->arena, AuEmitMemory, k->mem_count);
    e->trail_count = 0;
    e->emitted = 0;
    e->phase = "";
    e->written = e->device ? kernel_written(k, e->arena) : NULL;
    e->writes_out = e->device && (e->written || is_worth_writing(e));
    if (!(e->device ? e->device->open(e) : open_host(e))) return;
    emit_lines_kernel(e);
    emit_region(e, k->body);
    if (e->device)
        e->device->end(e);
    else
        emit_tiles_close(e);
    LLVMBuildRetVoid(e->builder);
    LLVMSetCurrentDebugLocation2(e->builder, NULL); /* of this function */
}

/* ---- modules */

void emit_open(AuEmit *e, const AuHost *host, LLVMModuleRef module)
{
    LLVMContextRef c = e->context = LLVMGetModuleContext(module);
    e->host = host;
    e->device = host->device;
    e->module = module;
    e->builder = LLVMCreateBuilderInContext(c);
    e->i64 = LLVMInt64TypeInContext(c);
    e->ptr = LLVMPointerTypeInContext(c, 0);
    e->element[AU_VOID] = LLVMVoidTypeInContext(c);
    e->element[AU_I1] = LLVMInt1TypeInContext(c);
    e->element[AU_I32] = LLVMInt32TypeInContext(c);
    e->element[AU_I64] = e->i64;
    e->element[AU_F32] = LLVMFloatTypeInContext(c);
    e->element[AU_F16] = e->device ? LLVMHalfTypeInContext(c) : LLVMInt16TypeInContext(c);
    e->element[AU_BF16] = e->device ? LLVMBFloatTypeInContext(c) : LLVMInt16TypeInContext(c);
    e->element[AU_U8] = LLVMInt8TypeInContext(c);
}

void emit_close(AuEmit *e) { LLVMDisposeBuilder(e->builder); }
