/* cuda_text.c - instructions that are written as text: what LLVM has no intrinsic for, what is predicated, and what must stay one piece. */
#include "cuda.h"

CudaText cuda_text(AuEmit *e)
{
    return (CudaText){.e = e, .text = {.arena = e->arena}, .how = {.arena = e->arena}};
}

uint32_t cuda_result(CudaText *t, const char *constraint, LLVMTypeRef type)
{
    au_text_add(&t->how, "%s%s", t->how.length ? "," : "", constraint);
    AU_PUSH(t->e->arena, t->results, t->result_count, t->result_capacity, type);
    return t->result_count - 1;
}

uint32_t cuda_take(CudaText *t, const char *constraint, LLVMValueRef v)
{
    au_text_add(&t->how, "%s%s", t->how.length ? "," : "", constraint);
    AU_PUSH(t->e->arena, t->types, t->count, t->capacity, LLVMTypeOf(v));
    AU_PUSH(t->e->arena, t->values, t->value_count, t->value_capacity, v);
    return t->result_count + t->count - 1;
}

/* $1, $2 */
void cuda_list(AuText *text, uint32_t first, uint32_t count)
{
    for (uint32_t n = 0; n < count; n++) au_text_add(text, "%s$%u", n ? ", " : "", first + n);
}

LLVMValueRef cuda_build(CudaText *t, CudaEffect effect)
{
    AuEmit *e = t->e;
    if (effect != CUDA_NONE) au_text_add(&t->how, "%s~{memory}", t->how.length ? "," : "");
    LLVMTypeRef result = e->element[AU_VOID];
    if (t->result_count == 1) result = t->results[0];
    if (t->result_count > 1)
        result = LLVMStructTypeInContext(e->context, t->results, t->result_count, false);
    LLVMTypeRef type = LLVMFunctionType(result, t->types, t->count, false);
    LLVMValueRef code =
        LLVMGetInlineAsm(type, au_text_str(&t->text), t->text.length, au_text_str(&t->how),
                         t->how.length, effect != CUDA_NONE, false, LLVMInlineAsmDialectATT, false);
    LLVMValueRef call = LLVMBuildCall2(e->builder, type, code, t->values, t->count, "");
    if (effect == CUDA_TOGETHER) {
        const unsigned kind = LLVMGetEnumAttributeKindForName("convergent", 10);
        LLVMAddCallSiteAttribute(call, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                                 LLVMCreateEnumAttribute(e->context, kind, 0));
    }
    return call;
}

LLVMValueRef cuda_result_at(const CudaText *t, LLVMValueRef call, uint32_t n)
{
    return t->result_count > 1 ? LLVMBuildExtractValue(t->e->builder, call, n, "") : call;
}

/* @$3 in front of an instruction, or nothing. */
void cuda_when(CudaText *t, LLVMValueRef mask)
{
    if (!gpu_always(mask)) au_text_add(&t->text, "@$%u ", cuda_take(t, "b", mask));
}

/* The low half of an address in shared memory, where it is all of it. */
CudaShared cuda_shared(AuEmit *e, AuMem mem, AuVal index)
{
    const GpuPlace at = gpu_line(e, mem, index);
    return (CudaShared){LLVMBuildPtrToInt(e->builder, at.base, e->element[AU_I32], ""), at.offset};
}

/* [$2+16] */
void cuda_at(CudaText *t, CudaShared at)
{
    const uint32_t base = cuda_take(t, "r", at.base);
    if (at.offset)
        au_text_add(&t->text, "[$%u+%lld]", base, (long long)at.offset);
    else
        au_text_add(&t->text, "[$%u]", base);
}
