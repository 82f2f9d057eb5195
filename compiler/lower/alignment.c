/* alignment.c - what is known of a view of memory: does it begin at whole vectors, do its rows consist of them, is a vector inside as a
 * whole? What a launch decides is a condition (by_vectors) that code asks; what the program decides is known here. */
#include "internal.h"

#include "aule/artifact.h"

#include <string.h>

enum { VECTOR = 16 }; /* bytes */

bool lower_starts_at(const AuTileExpr *index, int32_t unit)
{
    if (!index || index->op == TILE_X_ALL) return true;
    return index->op == TILE_X_SPAN && tile_divisor(index->args.at[0]) % unit == 0;
}

bool lower_is_known(AuLower *l, AuVal v, bool value)
{
    const AuInstr *in = kernel_at(l->k, v);
    return in->op == AU_K_CONST && (in->imm & 1) == value;
}

void lower_vector_condition(AuLower *l, AuLowerMemory *place, const AuLowerTensor *from)
{
    AuKernel *k = l->k;
    const AuTileMemory *m = place->memory;
    const int32_t bytes = tile_elem(m->type.elem)->bytes;
    place->by_vectors = kernel_i1(k, false);
    if (!m->type.count || place->pair_axis || place->packed) return;
    const uint32_t last = m->type.count - 1;
    if (!from || from->slot != AULE_SLOT_TENSOR) { /* all elements side by side, or rows spread */
        const AuVal pitch = last ? place->strides[last - 1] : kernel_i64(k, 0);
        const AuInstr *in = kernel_at(k, pitch);
        if (tile_takes_surfaces(l->module->caps)) /* regions begin at multiples of 64 bytes */
            place->address = kernel_i64(k, 0);
        place->by_vectors = kernel_i1(k, in->op == AU_K_CONST && in->imm * bytes % VECTOR == 0);
        return;
    }
    AuVal all = kernel_arg(k, au_format(l->arena, "%s_address", lower_plain_name(l, m->name)),
                           AU_ARG_I64, AULE_SLOT_TENSOR, from->index, 0);
    place->address = all;
    for (uint32_t n = 0; n < last; n++)
        all = kernel_op2(k, AU_K_OR, all,
                         kernel_op2(k, AU_K_MUL, place->strides[n], kernel_i64(k, bytes)));
    const AuVal low = kernel_op2(k, AU_K_AND, all, kernel_i64(k, VECTOR - 1));
    place->by_vectors = lower_both(l, kernel_op2(k, AU_K_EQ, low, kernel_i64(k, 0)),
                                   kernel_op2(k, AU_K_EQ, place->strides[last], kernel_i64(k, 1)));
}

AuStrides lower_strides_late(AuLower *l, const AuTileExpr *ref)
{
    AuLowerMemory *place = lower_memory(l, ref->memory);
    AuStrides known;
    memcpy(known.at, place->strides, sizeof known.at);
    if (!l->module->options.late_strides || ref->memory->space != TILE_GLOBAL) return known;
    for (uint32_t n = 0; n < ref->memory->type.count; n++)
        place->strides[n] = kernel_op1(l->k, AU_K_LATE, place->strides[n]);
    return known;
}

void lower_strides_again(AuLower *l, const AuTileExpr *ref, const AuStrides *known)
{
    memcpy(lower_memory(l, ref->memory)->strides, known->at, sizeof known->at);
}

/* Do the view's elements along its last axis lie side by side, beginning at a multiple of [unit],
 * and its axis there is [axis]? */
bool lower_in_vectors(AuLower *l, const AuTileExpr *ref, const char *axis, int32_t unit)
{
    const uint32_t last = ref->memory->type.count - 1;
    const AuTileType *view = ref->type;
    if (!view->count || view->axes[view->count - 1].name != axis ||
        lower_is_known(l, lower_memory(l, ref->memory)->by_vectors, false))
        return false;
    return lower_starts_at(ref->has_index ? ref->args.at[last] : NULL, unit);
}

/* Is a vector inside as a whole, if its first element is? */
bool lower_is_whole(const AuTileExpr *ref, int32_t unit)
{
    const uint32_t last = ref->memory->type.count - 1;
    const AuTileAxis *axis = &ref->memory->type.axes[last];
    return !lower_may_be_outside(ref, last) || (axis->size && axis->size % unit == 0);
}

AuVal lower_when(AuLower *l, const AuTileExpr *when, const AuPoint *p)
{
    return when ? lower_as(l, lower_eval(l, when, p), AU_I1) : (AuVal){0};
}

AuVal lower_padding(AuLower *l, const AuTileExpr *pad, AuScalar scalar)
{
    const AuPoint nowhere = {.count = 0};
    const bool real = scalar == AU_F32 || scalar == AU_F16 || scalar == AU_BF16;
    if (pad) return lower_as(l, lower_eval(l, pad, &nowhere), scalar);
    return lower_as(l, real ? kernel_f32(l->k, 0) : kernel_i32(l->k, 0), scalar);
}

bool lower_is_zero(const AuTileExpr *e)
{
    return !e || (e->op == TILE_X_INT && !e->integer) || (e->op == TILE_X_FLOAT && e->number == 0);
}
