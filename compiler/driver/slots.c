/* slots.c - see slots.h. */
#include "slots.h"
#include "operations.h"
#include "tensors.h"

/* Bytes of an element in memory; what kernels load is of that size too. */
static uint32_t element_bytes(const AuVariant *v, AuDtype dtype)
{
    switch (dtype) {
    case AU_DT_OPERAND: return v->operand == TILE_F32 ? 4 : 2;
    case AU_DT_F32:
    case AU_DT_I32: return 4;
    case AU_DT_F16:
    case AU_DT_BF16: return 2;
    case AU_DT_I64: return 8;
    case AU_DT_U8:
    case AU_DT_BOOL: return 1;
    }
    return 0;
}

/* What stands against the address of a tensor; NULL: nothing. */
static const char *wrong_address(const AuVariant *v, const AuKernel *k, const AuArg *arg,
                                 const AuTensorRow *row)
{
    const bool has_numbers = !v->target->has_handles || v->target->sees_addresses;
    if (arg->kind == AU_ARG_I64 && has_numbers) return NULL; /* how it is aligned is looked at */
    if (arg->kind != AU_ARG_POINTER) return "an address that is no pointer";
    const AuMemory *m = &k->mems[arg->mem.i];
    if (kernel_scalar_bytes(m->scalar) != (row->stored ? 1 : element_bytes(v, row->dtype)))
        return "elements of another size than the tensor's";
    if (m->writes && !operation_writes(v->operation, row->role, row->flags))
        return "the address of a tensor that the operation only reads, to be written";
    return NULL;
}

/* A tensor that is a part of k, or of no use to the operation, is never passed: it has neither address nor strides. */
static const char *wrong_tensor(const AuVariant *v, const AuKernel *k, const AuArg *arg)
{
    if (arg->source_index >= v->tensor_count) return "a tensor that the table does not have";
    const AuTensorRow *row = &v->tensors[arg->source_index];
    if (row->flags & AULE_TENSOR_IN_K) return "a tensor that is a part of the keys";
    if (!operation_takes(v->operation, row->role, row->flags))
        return "a tensor that the operation is not given";
    if (arg->source == AULE_SLOT_TENSOR) return wrong_address(v, k, arg, row);
    if (arg->source == AULE_SLOT_PRESENT)
        return arg->kind == AU_ARG_I32 ? NULL : "whether a tensor was passed, not as an i32";
    if (arg->kind != AU_ARG_I64) return "a stride that is no i64";
    return arg->source_dim < row->rank ? NULL
                                       : "the stride of an axis that the tensor does not have";
}

static const char *wrong_size(const AuVariant *v, const AuArg *arg)
{
    if (arg->source_index >= v->attn->size_count) return "a size that the table does not have";
    return arg->kind == AU_ARG_I32 || arg->kind == AU_ARG_I64 ? NULL : "a size that is no integer";
}

static AuArgKind kind_of_param(AuDtype dtype)
{
    return dtype == AU_DT_F32 ? AU_ARG_F32 : dtype == AU_DT_I64 ? AU_ARG_I64 : AU_ARG_I32;
}

static const char *wrong_param(const AuVariant *v, const AuArg *arg)
{
    if (arg->source_index >= v->attn->param_count)
        return "a parameter that the table does not have";
    return arg->kind == kind_of_param(v->attn->params[arg->source_index].dtype)
               ? NULL
               : "a parameter of another type than the table's";
}

static const char *wrong_region(const AuVariant *v, const AuArg *arg)
{
    if (arg->source_index >= v->schedule->region_count)
        return "a region that the workspace does not have";
    return arg->kind == AU_ARG_POINTER ? NULL : "a region that is no pointer";
}

static const char *wrong_slot(const AuVariant *v, const AuKernel *k, const AuArg *arg)
{
    switch (arg->source) {
    case AULE_SLOT_TENSOR:
    case AULE_SLOT_STRIDE:
    case AULE_SLOT_PRESENT: return wrong_tensor(v, k, arg);
    case AULE_SLOT_SIZE: return wrong_size(v, arg);
    case AULE_SLOT_PARAM: return wrong_param(v, arg);
    case AULE_SLOT_WORKSPACE: return wrong_region(v, arg);
    }
    return "something that no launch passes";
}

bool slots_verify(AuDiags *diags, const AuVariant *v, const AuKernel *k)
{
    if (k->arg_count > AULE_MAX_SLOTS) {
        au_error(diags, AU_E0608, v->attn->span, "%s takes %u arguments; there is room for %d",
                 k->name, k->arg_count, AULE_MAX_SLOTS);
        return false;
    }
    for (uint32_t n = 0; n < k->arg_count; n++) {
        const char *why = wrong_slot(v, k, &k->args[n]);
        if (!why) continue;
        au_error(
            diags, AU_E0609, v->attn->span,
            "a fault of the compiler, not of the script: kernel %s takes, as argument '%s', %s",
            k->name, k->args[n].name, why);
        return false;
    }
    return true;
}
