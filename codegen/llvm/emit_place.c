/* emit_place.c - where memories lie, and addresses in them.
 *
 * GLOBAL memories are the pointers of slots; SHARED and EXEC ones are arrays on the stack, aligned to 64; LANE ones are arrays
 * of vectors, <lanes x T> each, or of scalars where every lane holds the same. Constant indices let SROA make them registers.
 * Aliasing: a global memory that the kernel writes overlaps no other global memory; each is an alias scope of its own. */
#include "emit.h"

#include <string.h>

/* ---- memories */

LLVMTypeRef emit_stored(const AuEmit *e, AuScalar scalar, uint32_t count)
{
    LLVMTypeRef one = e->element[scalar == AU_I1 ? AU_U8 : scalar];
    return count == 1 ? one : LLVMVectorType(one, count);
}

LLVMValueRef emit_lane_array(AuEmit *e, const AuMemory *mem, bool vectors)
{
    LLVMTypeRef element = emit_stored(e, mem->scalar, vectors ? e->k->lanes : 1);
    LLVMValueRef array =
        LLVMBuildAlloca(e->builder, LLVMArrayType2(element, mem->count), mem->name);
    LLVMSetAlignment(array, mem->align > 64 ? mem->align : 64);
    return array;
}

static LLVMMetadataRef scope_of(AuEmit *e, LLVMMetadataRef domain, const AuMemory *mem)
{
    LLVMMetadataRef parts[2] = {LLVMMDStringInContext2(e->context, mem->name, strlen(mem->name)),
                                domain};
    return LLVMMDNodeInContext2(e->context, parts, 2);
}

/* Memories of which an access may be in doubt: those of lanes are registers or the stack. */
static bool has_scope(const AuEmit *e, const AuMemory *mem)
{
    return mem->space == AU_GLOBAL || (e->device && mem->space != AU_LANE);
}

static bool is_written(const AuMemory *mem) { return mem->writes || mem->space != AU_GLOBAL; }

void emit_scopes(AuEmit *e)
{
    const AuKernel *k = e->k;
    LLVMMetadataRef name = LLVMMDStringInContext2(e->context, k->name, strlen(k->name));
    LLVMMetadataRef domain = LLVMMDNodeInContext2(e->context, &name, 1);
    LLVMMetadataRef *others = AU_NEW_ARRAY(e->arena, LLVMMetadataRef, k->mem_count);
    for (uint32_t m = 1; m < k->mem_count; m++) {
        if (!has_scope(e, &k->mems[m])) continue;
        uint32_t count = 0;
        for (uint32_t n = 1; n < k->mem_count; n++)
            if (n != m && has_scope(e, &k->mems[n]) &&
                (is_written(&k->mems[n]) || is_written(&k->mems[m])))
                others[count++] = scope_of(e, domain, &k->mems[n]);
        LLVMMetadataRef own = scope_of(e, domain, &k->mems[m]);
        e->places[m].scope =
            LLVMMetadataAsValue(e->context, LLVMMDNodeInContext2(e->context, &own, 1));
        e->places[m].others =
            LLVMMetadataAsValue(e->context, LLVMMDNodeInContext2(e->context, others, count));
    }
}

void emit_places(AuEmit *e)
{
    for (uint32_t m = 1; m < e->k->mem_count; m++) {
        const AuMemory *mem = &e->k->mems[m];
        AuEmitMemory *place = &e->places[m];
        switch (mem->space) {
        case AU_GLOBAL: place->base = emit_argument(e, mem->arg, e->ptr); break;
        case AU_SHARED:
        case AU_EXEC: place->base = emit_lane_array(e, mem, false); break;
        case AU_MATRIX:
        case AU_TENSOR: break; /* whoever names it is refused */
        case AU_LANE:
            place->single = e->lanes.same[m];
            place->base = emit_lane_array(e, mem, !place->single);
            break;
        }
    }
    emit_scopes(e);
}

LLVMValueRef emit_mark(AuEmit *e, LLVMValueRef access, AuMem mem)
{
    const AuEmitMemory *place = &e->places[mem.i];
    if (!place->scope || LLVMIsConstant(access)) return access;
    LLVMSetMetadata(access, LLVMGetMDKindIDInContext(e->context, "alias.scope", 11), place->scope);
    LLVMSetMetadata(access, LLVMGetMDKindIDInContext(e->context, "noalias", 7), place->others);
    return access;
}

/* ---- addresses */

LLVMValueRef emit_step(AuEmit *e, LLVMTypeRef type, LLVMValueRef base, LLVMValueRef index)
{
    return LLVMBuildGEP2(e->builder, type, base, &index, 1, "");
}

/* The indices of all lanes as <lanes x i64>: what varies is extended, so that targets see 32-bit offsets. */
static LLVMValueRef wide_index(AuEmit *e, AuVal index)
{
    const uint32_t lanes = e->k->lanes;
    if (emit_kind(e, index) == AU_VARYING)
        return LLVMBuildSExt(e->builder, emit_wide(e, index), LLVMVectorType(e->i64, lanes), "");
    return emit_ramp(e, AU_I64, lanes,
                     emit_kind(e, index) == AU_AFFINE ? e->lanes.stride[index.i] : 0);
}

/* Pointers of all lanes, [width] neighbours each: <lanes * width x ptr>. */
LLVMValueRef emit_pointers(AuEmit *e, AuMem mem, AuVal index, uint32_t width)
{
    const uint32_t lanes = e->k->lanes;
    LLVMTypeRef type = emit_stored(e, e->k->mems[mem.i].scalar, 1);
    LLVMValueRef base = e->places[mem.i].base, at = wide_index(e, index);
    const bool vectors = e->k->mems[mem.i].space == AU_LANE && !e->places[mem.i].single;
    const bool varies = emit_kind(e, index) == AU_VARYING;
    if (vectors) { /* element index * lanes + lane */
        if (!varies)
            at = LLVMBuildAdd(e->builder, at, emit_splat(e, emit_index(e, index), 1, lanes), "");
        at = LLVMBuildMul(e->builder, at, emit_int(e, AU_I64, lanes, lanes), "");
        at = LLVMBuildAdd(e->builder, at, emit_ramp(e, AU_I64, lanes, 1), "");
    } else if (!varies)
        base = emit_step(e, type, base, emit_index(e, index));
    if (width > 1) {
        const uint32_t count = lanes * width, step = vectors ? lanes : 1;
        at = emit_spread(e, at, width, count);
        for (uint32_t n = 0; n < count; n++)
            e->list[n] = LLVMConstInt(e->i64, n % width * step, false);
        at = LLVMBuildAdd(e->builder, at, LLVMConstVector(e->list, count), "");
    }
    return emit_step(e, type, base, at);
}

LLVMValueRef emit_address(AuEmit *e, AuMem mem, AuVal index)
{
    return emit_step(e, emit_stored(e, e->k->mems[mem.i].scalar, 1), e->places[mem.i].base,
                     emit_index(e, index));
}
