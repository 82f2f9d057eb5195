/* emit_parts.c - pieces of hosts' kernels that are functions (compiler/kernel/parts.c), which all objects that have the same one call.
 *
 * void NAME(memories by address, values). A function is seen within what is linked alone. Of a memory whose elements are vectors of lanes the
 * address is as the kernel has it; no two arguments overlap. Values come in the form that they have: a scalar of lane 0, or all lanes. */
#include "emit.h"

#include <string.h>

/* What of a kernel's function is another's while a part is emitted. */
typedef struct Outside {
    LLVMValueRef function;
    LLVMBasicBlockRef block;
    AuForms *forms;
    AuEmitMemory *places;
    uint32_t emitted;
} Outside;

static bool is_wide(const AuEmit *e, AuVal v) { return emit_kind(e, v) == AU_VARYING; }

static LLVMTypeRef signature_of(AuEmit *e, const AuPart *p)
{
    LLVMTypeRef *types = AU_NEW_ARRAY(e->arena, LLVMTypeRef, p->memory_count + p->value_count + 1);
    uint32_t count = 0;
    while (count < p->memory_count) types[count++] = e->ptr;
    for (uint32_t n = 0; n < p->value_count; n++) {
        const AuKType t = kernel_at(e->k, p->values[n])->type;
        const uint32_t lanes = is_wide(e, p->values[n]) ? e->k->lanes : 1;
        types[count++] = emit_type(e, (AuScalar)t.scalar, t.width * lanes);
    }
    return LLVMFunctionType(LLVMVoidTypeInContext(e->context), types, count, false);
}

static void mark_memories(AuEmit *e, const AuPart *p)
{
    for (uint32_t n = 0; n < p->memory_count; n++) {
        const char *name = e->k->mems[p->memories[n].i].name;
        LLVMSetValueName2(LLVMGetParam(e->function, n), name, strlen(name));
        emit_attribute(e, n + 1, "noalias", NULL);
        emit_attribute(e, n + 1, "captures", NULL); /* nowhere */
    }
}

/* Numbers that are constants are such in a part, too. */
static void take_constants(AuEmit *e, const Outside *o)
{
    for (uint32_t i = 1; i < e->k->instr_count; i++)
        if (e->k->instrs[i].op == AU_K_CONST && o->forms[i].base)
            e->forms[i].base = o->forms[i].base;
}

static void copy_register(AuEmit *e, AuMem mem, LLVMValueRef to, LLVMValueRef from, bool single)
{
    const AuMemory *m = &e->k->mems[mem.i];
    LLVMTypeRef type = emit_stored(e, m->scalar, single ? 1 : e->k->lanes);
    for (uint32_t n = 0; n < m->count; n++) {
        LLVMValueRef at = LLVMConstInt(e->i64, n, false);
        LLVMValueRef v = LLVMBuildLoad2(e->builder, type, emit_step(e, type, from, at), "");
        LLVMBuildStore(e->builder, v, emit_step(e, type, to, at));
    }
}

static LLVMValueRef address_of(const AuEmit *e, uint32_t n) { return LLVMGetParam(e->function, n); }

static void take_memory(AuEmit *e, const Outside *o, AuMem mem, LLVMValueRef base)
{
    const bool single = o->places[mem.i].single;
    if (!base) base = emit_lane_array(e, &e->k->mems[mem.i], !single);
    e->places[mem.i] = (AuEmitMemory){.base = base, .single = single};
}

static void take_memories(AuEmit *e, const AuPart *p, const Outside *o)
{
    for (uint32_t n = 0; n < p->memory_count; n++)
        take_memory(e, o, p->memories[n], p->copied[n] ? NULL : address_of(e, n));
    for (uint32_t n = 0; n < p->own_count; n++) take_memory(e, o, p->own[n], NULL);
    for (uint32_t n = 0; n < p->memory_count; n++)
        if (p->copied[n])
            copy_register(e, p->memories[n], e->places[p->memories[n].i].base, address_of(e, n),
                          e->places[p->memories[n].i].single);
}

static void give_registers(AuEmit *e, const AuPart *p)
{
    for (uint32_t n = 0; n < p->memory_count; n++)
        if (p->copied[n])
            copy_register(e, p->memories[n], address_of(e, n), e->places[p->memories[n].i].base,
                          e->places[p->memories[n].i].single);
}

static void take_values(AuEmit *e, const AuPart *p)
{
    for (uint32_t n = 0; n < p->value_count; n++) {
        const AuVal v = p->values[n];
        const AuKType type = kernel_at(e->k, v)->type;
        LLVMValueRef value = LLVMGetParam(e->function, p->memory_count + n);
        if (is_wide(e, v)) {
            e->forms[v.i].wide = value;
            continue;
        }
        e->forms[v.i].base = value;
        if (type.width > 1) continue;
        if (type.scalar == AU_I32)
            e->forms[v.i].index = LLVMBuildSExt(e->builder, value, e->i64, "");
        if (type.scalar == AU_I64) e->forms[v.i].index = value;
    }
}

static void emit_piece(AuEmit *e, const AuPart *p)
{
    for (uint32_t i = p->first, n = 0; !e->failed; i = e->k->instrs[i].next) {
        if (n < p->made_count && p->made[n].i == i)
            n++;
        else
            emit_instr(e, (AuVal){i});
        if (i == p->last) return;
    }
}

static void define(AuEmit *e, const AuPart *p, LLVMValueRef function)
{
    const AuKernel *k = e->k;
    const Outside o = {e->function, LLVMGetInsertBlock(e->builder), e->forms, e->places,
                       e->emitted};
    const uint32_t mark = e->trail_count;
    const char *phase = e->phase;
    e->function = function;
    e->forms = AU_NEW_ARRAY(e->arena, AuForms, k->instr_count);
    e->places = AU_NEW_ARRAY(e->arena, AuEmitMemory, k->mem_count);
    e->emitted = 0;
    e->phase = "";
    e->in_part = true;
    emit_host_attributes(e, p->plain ? e->host->plain : e->host->features);
    mark_memories(e, p);
    LLVMPositionBuilderAtEnd(e->builder, emit_block(e, "entry"));
    take_constants(e, &o);
    take_memories(e, p, &o);
    take_values(e, p);
    emit_piece(e, p);
    give_registers(e, p);
    LLVMBuildRetVoid(e->builder);
    e->in_part = false;
    e->phase = phase;
    e->trail_count = mark;
    e->emitted = o.emitted;
    e->places = o.places;
    e->forms = o.forms;
    e->function = o.function;
    LLVMPositionBuilderAtEnd(e->builder, o.block);
}

static const AuPart *part_at(const AuEmit *e, uint32_t first)
{
    for (uint32_t n = 0; n < e->k->part_count; n++)
        if (e->k->parts[n].first == first) return &e->k->parts[n];
    return NULL;
}

uint32_t emit_part(AuEmit *e, uint32_t first)
{
    const AuPart *p = e->device || e->in_part ? NULL : part_at(e, first);
    if (!p) return 0;
    LLVMTypeRef signature = signature_of(e, p);
    LLVMValueRef function = LLVMGetNamedFunction(e->module, p->name);
    for (uint32_t n = 0; n < p->made_count; n++) emit_instr(e, p->made[n]);
    if (!function) {
        function = LLVMAddFunction(e->module, p->name, signature);
        LLVMSetVisibility(function, LLVMHiddenVisibility);
        if (p->is_first) define(e, p, function);
    }
    LLVMValueRef *arguments =
        AU_NEW_ARRAY(e->arena, LLVMValueRef, p->memory_count + p->value_count + 1);
    uint32_t count = 0;
    for (uint32_t n = 0; n < p->memory_count; n++)
        arguments[count++] = e->places[p->memories[n].i].base;
    for (uint32_t n = 0; n < p->value_count; n++)
        arguments[count++] = emit_form(e, p->values[n], is_wide(e, p->values[n]));
    LLVMBuildCall2(e->builder, signature, function, arguments, count, "");
    return p->last;
}
