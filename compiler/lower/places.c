/* places.c - memories of a kernel: tensors and workspace with their strides, shared and private tiles
 * with the order of their elements. */
#include "internal.h"

#include <string.h>

#include "aule/artifact.h"

AuLowerMemory *lower_memory(AuLower *l, const AuTileMemory *memory)
{
    for (uint32_t n = 0; n < l->place_count; n++)
        if (l->places[n].memory == memory) return &l->places[n];
    lower_refuse(l, "memory %s is not declared", memory->name);
    return &l->places[0];
}

static AuVal extent_of(AuLower *l, const AuTileAxis *axis)
{
    return axis->size ? kernel_i32(l->k, axis->size) : lower_integer(l, axis->extent);
}

const char *lower_plain_name(AuLower *l, const char *name)
{
    const char *mark = strchr(name, '$');
    return mark ? au_format(l->arena, "%.*s%s", (int)(mark - name), name, mark + 1) : name;
}

void lower_add_argument(AuLower *l, const AuTileMemory *m)
{
    AuKernel *k = l->k;
    const AuLowerTensor *t = NULL;
    for (uint32_t n = 0; n < l->how->tensor_count; n++)
        if (l->how->tensors[n].name == m->name) t = &l->how->tensors[n];
    if (!t) {
        lower_refuse(l, "nothing is known of argument %s", m->name);
        return;
    }
    AuLowerMemory p = {.memory = m};
    const char *name = lower_plain_name(l, m->name);
    p.mem = kernel_tensor(k, name, lower_scalar(m->type.elem), m->mode != TILE_OUT,
                          m->mode != TILE_IN, t->slot, t->index);
    if (t->optional) {
        const AuVal there = kernel_arg(k, au_format(l->arena, "%s_present", name), AU_ARG_I32,
                                       AULE_SLOT_PRESENT, t->index, 0);
        p.present = kernel_op2(k, AU_K_NE, there, kernel_i32(k, 0));
    }
    AuVal step = kernel_i64(k, 1);
    const bool mapped = l->vector_access && lower_has_map(l, m);
    for (uint32_t n = m->type.count; n-- > 0;) {
        p.extents[n] = extent_of(l, &m->type.axes[n]);
        if (mapped && n + 1 == m->type.count) {
            p.strides[n] = step;
            step = kernel_op2(k, AU_K_MUL, step, lower_as(l, p.extents[n], AU_I64));
        } else if (t->slot == AULE_SLOT_TENSOR) {
            p.strides[n] =
                kernel_arg(k, au_format(l->arena, "%s_stride_%s", name, m->type.axes[n].name),
                           AU_ARG_I64, AULE_SLOT_STRIDE, t->index, n);
        } else {
            p.strides[n] = step;
            step = kernel_op2(k, AU_K_MUL, step, lower_as(l, p.extents[n], AU_I64));
        }
    }
    if (m->packed.kind) p.packed = lower_pack(l, m);
    if (l->vector_access) {
        k->mems[p.mem.i].align = 16; /* by_vectors guards what relies on it */
        if (mapped)
            p.by_vectors = kernel_i1(k, true);
        else
            lower_vector_condition(l, &p, t);
    }
    AU_PUSH(l->arena, l->places, l->place_count, l->place_capacity, p);
}

uint32_t lower_contracted_dimension(const AuTileStmt *product)
{
    const AuTileExpr *a = product->product.a;
    uint32_t n = 0;
    while (n + 1 < a->memory->type.count && lower_view_axis(a, n) != product->product.contracted)
        n++;
    return n;
}

/* The axis along which a product takes the memory's elements in pairs, if that is not where they
 * are neighbours anyway. A product that contracts another one refuses the memory. */
static const char *pair_axis(const AuTileStmts *body, const AuTileMemory *m)
{
    for (uint32_t n = 0; n < body->count; n++) {
        const AuTileStmt *s = body->at[n];
        const AuTileParts parts = tile_parts(body->at[n]);
        const char *found = NULL;
        for (uint32_t part = 0; part < parts.body_count && !found; part++)
            found = pair_axis(parts.bodies[part], m);
        if (s->kind == TILE_S_PRODUCT && s->product.atom->k == 2 && s->product.a->memory == m &&
            lower_contracted_dimension(s) + 1 < m->type.count)
            found = m->type.axes[lower_contracted_dimension(s)].name;
        if (found) return found;
    }
    return NULL;
}

/* From row to row, in elements. */
static int32_t pitch_of(const AuTileMemory *m, int32_t span)
{
    const int32_t bytes = tile_elem(m->type.elem)->bytes;
    return tile_pitch_bytes(m->type.axes[m->type.count - 1].size * bytes, span) / bytes;
}

/* Shared memory as units of their own copy and multiply it: rows as wide as the swizzle, in parts where they are longer, one stage
 * behind the other. */
static void add_tile(AuLower *l, const AuTileMemory *m)
{
    enum { ROWS = 8, UNSWIZZLED = 128 };
    AuKernel *k = l->k;
    const uint32_t last = m->type.count - 1, swizzle = (uint32_t)m->swizzle_bytes;
    const int32_t bytes = tile_elem(m->type.elem)->bytes, row = m->type.axes[last].size;
    AuLowerMemory p = {.memory = m, .swizzle_span = 16};
    int32_t step = row;
    if (swizzle && row * bytes % (int32_t)swizzle != 0)
        lower_refuse(l, "rows of %s, which are none of its swizzle of %u bytes", m->name, swizzle);
    if (swizzle && row * bytes > (int32_t)swizzle) {
        p.part = step = (int32_t)swizzle / bytes;
        p.part_step = p.part * (last ? m->type.axes[last - 1].size : 1);
    }
    for (uint32_t n = m->type.count; n-- > 0;) {
        p.extents[n] = kernel_i32(k, m->type.axes[n].size);
        p.strides[n] = kernel_i32(k, n == last ? 1 : step);
        if (n < last) step *= m->type.axes[n].size;
        if (p.part && n + 1 == last) step *= row / p.part;
    }
    p.stage = step;
    if (m->packed.kind) p.packed = lower_pack(l, m);
    const int32_t stages = m->pipe ? m->pipe->rings * m->pipe->stage_count : 1;
    if (stages > 1 && (uint32_t)(step * bytes) % (swizzle ? ROWS * swizzle : UNSWIZZLED))
        lower_refuse(l, "stages of %s that begin between rows of eight", m->name);
    p.mem = kernel_memory(k, (AuMemory){.name = m->name,
                                        .space = AU_SHARED,
                                        .scalar = lower_scalar(m->type.elem),
                                        .count = (uint32_t)(step * stages),
                                        .align = swizzle ? ROWS * swizzle : UNSWIZZLED,
                                        .swizzle = swizzle,
                                        .reads = true,
                                        .writes = true,
                                        .span = m->span});
    if (l->vector_access) lower_vector_condition(l, &p, NULL);
    AU_PUSH(l->arena, l->places, l->place_count, l->place_capacity, p);
}

void lower_add_buffer(AuLower *l, const AuTileMemory *m)
{
    AuKernel *k = l->k;
    if (m->space == TILE_TENSOR) {
        lower_add_tensor(l, m);
        return;
    }
    if (m->pipe || (l->k->group && m->space == TILE_SHARED)) {
        add_tile(l, m);
        return;
    }
    AuLowerMemory p = {.memory = m,
                       .pair_axis = pair_axis(&l->r.role->body, m),
                       .swizzle_span = m->swizzle_span_bytes};
    int32_t step = 1;
    for (uint32_t n = m->type.count; n-- > 0;) {
        const AuTileAxis *axis = &m->type.axes[n];
        p.extents[n] = kernel_i32(k, axis->size);
        if (!p.pair_axis) p.strides[n] = kernel_i32(k, step);
        step *= n + 1 == m->type.count ? pitch_of(m, p.swizzle_span) : axis->size;
    }
    const int32_t count = step;
    if (p.pair_axis) { /* [pairs, other axes.., 2] */
        step = 2;
        for (uint32_t n = m->type.count; n-- > 0;) {
            if (m->type.axes[n].name == p.pair_axis) continue;
            p.strides[n] = kernel_i32(k, step);
            step *= m->type.axes[n].size;
        }
        for (uint32_t n = 0; n < m->type.count; n++)
            if (m->type.axes[n].name == p.pair_axis) p.strides[n] = kernel_i32(k, step);
    }
    p.mem =
        kernel_memory(k, (AuMemory){.name = m->name,
                                    .space = m->space == TILE_SHARED ? AU_SHARED : AU_EXEC,
                                    .scalar = lower_scalar(m->type.elem),
                                    .count = (uint32_t)count,
                                    .align = p.swizzle_span == TILE_MOST_SPAN ? TILE_MOST_SPAN : 64,
                                    .reads = true,
                                    .writes = true,
                                    .span = m->span});
    if (l->vector_access) lower_vector_condition(l, &p, NULL);
    AU_PUSH(l->arena, l->places, l->place_count, l->place_capacity, p);
}
