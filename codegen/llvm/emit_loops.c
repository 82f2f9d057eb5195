/* emit_loops.c - branches and loops, and which loops are unrolled.
 *
 * Loops that are to be unrolled are copied here, so that arrays of lanes get constant indices before any LLVM pass runs and
 * SROA alone makes them registers. Rolled loops are emitted in the form loop passes want: guard, body, test at the end. */
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

/* Emits a region whose blocks do not dominate what follows: forms made inside are forgotten. */
static void emit_inside(AuEmit *e, uint32_t first)
{
    const uint32_t mark = e->trail_count;
    emit_region(e, first);
    if (e->device) e->device->end(e);
    emit_forget(e, mark);
}

void emit_if(AuEmit *e, const AuInstr *in)
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

static uint64_t written_size(const AuEmit *e, uint32_t first);

/* Whether a device, which has no stack to speak of, wants a loop written out, so that arrays become
 * registers. They do without where its variable is no index of theirs: then a long one stays a loop, if the device keeps them. */
static bool is_written_out(const AuEmit *e, const AuInstr *in)
{
    enum { LONG = 1024 }; /* instructions of a turn */
    if (e->written) return e->written[in - e->k->instrs];
    if (!e->writes_out || in->unroll == AU_UNROLL_AUTO) return e->writes_out;
    if (e->indexing && e->indexing[in - e->k->instrs]) return true;
    return uses_lane_arrays(e, in->body) && (!e->indexing || written_size(e, in->body) <= LONG);
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

bool emit_is_worth_writing(const AuEmit *e)
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
    if (e->device && e->device->before_loop) e->device->before_loop(e, in);
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

/* After [turns] of a loop that is written out: another block, for passes whose time grows with a block's square. Vectors of turns stay together. */
static void begin_piece(AuEmit *e, int64_t turns)
{
    enum { VECTOR = 4 };
    if (!e->longest || turns % VECTOR || e->emitted - e->begun < e->longest) return;
    LLVMBasicBlockRef next = emit_block(e, "piece");
    LLVMBuildBr(e->builder, next);
    LLVMPositionBuilderAtEnd(e->builder, next);
    e->begun = e->emitted;
}

void emit_for(AuEmit *e, AuVal v, const AuInstr *in)
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
        begin_piece(e, n + 1);
    }
}
