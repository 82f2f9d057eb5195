/* emit.c - a kernel as one LLVM function: its frame, and the way of each instruction to its file.
 *
 * void NAME(const uint64_t *slots, uint32_t x, uint32_t y, uint32_t z), one block of the grid a call (aule_cpu_kernel).
 * The kernel is verified and has no MATH operation left; what breaks that is a fault of the compiler (E0004). */
#include "emit.h"

#include <string.h>

enum { PHASE_LENGTH = 63 };

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

void emit_instr(AuEmit *e, AuVal v)
{
    const AuInstr *in = kernel_at(e->k, v);
    e->emitted++;
    emit_lines_at(e, in->span);
    if (e->device && e->device->instruction(e, v)) return;
    switch ((int)in->op) {
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
    case AU_K_PREFETCH: emit_prefetch(e, in); return;
    case AU_K_ATOMIC_ADD: emit_atomic_add(e, v); return;
    case AU_K_ATOMIC_INC: emit_atomic_inc(e, v); return;
    case AU_K_MATMUL: emit_matmul(e, v); return;
    case AU_K_VEC: emit_vec(e, v); return;
    case AU_K_ELEMENT: emit_element(e, v); return;
    case AU_K_DOT2: emit_dot2(e, v); return;
    case AU_K_SHUFFLE_XOR:
    case AU_K_SHUFFLE: emit_shuffle(e, v); return;
    case AU_K_BOTH: emit_both(e, v); return;
    case AU_K_ANY:
        emit_set(e, v, emit_any(e, emit_wide(e, kernel_operand(e->k, in, 0))), false);
        return;
    case AU_K_SLICE: emit_slice(e, v); return;
    case AU_K_MMA:
    case AU_K_LOAD_MATRIX:
    case AU_K_STORE_MATRIX:
    case AU_K_COPY_ASYNC:
    case AU_K_BLOCKS:
    case AU_K_COPY_COMMIT:
    case AU_K_COPY_WAIT: emit_fault(e, in, "an operation of GPUs"); return;
    case AU_K_BARRIER: return; /* one executor, its lanes in step */
    case AU_K_HINT: return;
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
    default: emit_fault(e, in, "an operation that no generator has yet");
    }
}

void emit_region(AuEmit *e, uint32_t first)
{
    for (uint32_t i = first; i && !e->failed; i = e->k->instrs[i].next) {
        const uint32_t last = e->k->part_count ? emit_part(e, i) : 0;
        if (last)
            i = last;
        else
            emit_instr(e, (AuVal){i});
    }
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

void emit_host_attributes(AuEmit *e, const char *features)
{
    const unsigned function = (unsigned)LLVMAttributeFunctionIndex;
    emit_attribute(e, function, "nounwind", NULL);
    emit_attribute(e, function, "no-builtins",
                   ""); /* no memset or memcpy is made of loops: there is no libc */
    emit_attribute(e, function, "target-cpu", e->host->cpu);
    emit_attribute(e, function, "target-features", features);
    emit_attribute(e, function, "prefer-vector-width", "512");
    emit_attribute(e, function, "min-legal-vector-width", "512");
}

static void open_function(AuEmit *e)
{
    LLVMTypeRef i32 = e->element[AU_I32], types[4] = {e->ptr, i32, i32, i32};
    LLVMTypeRef signature = LLVMFunctionType(LLVMVoidTypeInContext(e->context), types, 4, false);
    e->function = LLVMAddFunction(e->module, e->k->name, signature);
    static const char *const names[4] = {"slots", "x", "y", "z"};
    for (unsigned n = 0; n < 4; n++)
        LLVMSetValueName2(LLVMGetParam(e->function, n), names[n], strlen(names[n]));
    emit_host_attributes(e, e->host->features);
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
    e->emitted = e->begun = e->longest = 0;
    e->phase = "";
    e->written = e->device ? kernel_written(k, e->arena, KERNEL_LANE_WORDS) : NULL;
    e->indexing = e->device && e->device->keeps_long && e->device->keeps_long(k)
                      ? kernel_indexing(k, e->arena)
                      : NULL;
    e->writes_out = e->device && (e->written || emit_is_worth_writing(e));
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
