/* group_kernel.h - kernels that multiply two matrices with a product of a group: operands stored along and across the contracted axis,
 * in three swizzles, and in registers. For the interpreter, and for generators whose results are compared with it. */
#ifndef AU_GROUP_KERNEL_H
#define AU_GROUP_KERNEL_H

#include "kernel.h"

#include <string.h>

enum { GROUP_MOST = 64 * 256, GROUP_DEPTH = 32 };

static inline float group_value(uint32_t seed, uint32_t r, uint32_t k)
{
    return (float)((int32_t)((r * 37 + k * 101 + seed * 7) % 13) - 6) / 2;
}

typedef struct GroupCase {
    AuGroupMatrix row;
    int32_t columns, swizzle;
    bool in_lanes;
} GroupCase;

static inline uint16_t group_half(AuScalar scalar, float x)
{
    return scalar == AU_F16 ? kernel_to_f16(x) : kernel_to_bf16(x);
}

/* Rows of the extent, GROUP_DEPTH deep, as the product wants them; gives the number of elements. */
static inline uint32_t group_lay_out(const GroupCase *c, bool b, uint16_t *to, uint32_t *step,
                                     uint32_t *stride)
{
    const AuGroupOp op = kernel_group_matrix(c->row);
    const bool turned = b ? op.b_turned : op.a_turned;
    const uint32_t line = (uint32_t)c->swizzle / 2,
                   extent = b ? (uint32_t)c->columns : (uint32_t)op.atom->m;
    uint32_t most = 0;
    *stride = turned ? GROUP_DEPTH * line : 0;
    *step = turned ? 16 * line : line > 16 ? 16 : extent * line;
    memset(to, 0, GROUP_MOST * sizeof *to);
    for (uint32_t r = 0; r < extent; r++)
        for (uint32_t k = 0; k < GROUP_DEPTH; k++) {
            const uint32_t at = turned ? r / line * *stride + k * line + r % line
                                       : k / line * extent * line + r * line + k % line;
            to[at] = group_half(op.scalar, group_value(b, r, k));
            if (at >= most) most = at + 1;
        }
    return (most + 127) / 128 * 128;
}

/* "Register fragments for wgmma .m64k16, matrix A": element i of a lane. */
static inline void group_lay_out_lanes(AuScalar scalar, uint16_t *to)
{
    for (uint32_t t = 0; t < 128; t++)
        for (uint32_t i = 0; i < 16; i++) {
            const uint32_t g = t % 32 / 4, q = t % 4, e = i % 8;
            to[t * 16 + i] =
                group_half(scalar, group_value(0, 16 * (t / 32) + g + 8 * (e / 2 % 2),
                                               i / 8 * 16 + 2 * q + e % 2 + 8 * (e / 4)));
        }
}

static inline const char *group_text(AuArena *arena, const GroupCase *c, const uint32_t sizes[2],
                                     const uint32_t steps[2], const uint32_t strides[2])
{
    const AuGroupOp op = kernel_group_matrix(c->row);
    const char *t = kernel_scalar_name(op.scalar);
    AuText text = {.arena = arena};
    au_text_add(&text,
                "kernel k lanes 32 warps 4 group 4\nmemory @x: global %s reads\n"
                "memory @y: global %s reads\nmemory @out: global f32 writes\n"
                "memory @a: shared %s[%u] align 1024 swizzle %d\n"
                "memory @b: shared %s[%u] align 1024 swizzle %d\n"
                "memory @c: lane f32[%d]\nmemory @w: lane %s[18]\n"
                "arg x: pointer @x\narg y: pointer @y\narg out: pointer @out\n{\n"
                "%%1 = lane.i32\n%%2 = warp.i32\n%%3 = mul.i32 %%2, 32\n%%4 = add.i32 %%3, %%1\n",
                t, t, t, sizes[0], c->swizzle, t, sizes[1], c->swizzle, c->columns / 2 + 3, t);
    if (c->in_lanes)
        au_text_add(&text,
                    "%%5 = mul.i32 %%4, 16\nfor %%6 = 0 to 16 step 1 {\n%%7 = add.i32 "
                    "%%5, %%6\n%%8 = load.%s @x[%%7]\n%%9 = add.i32 %%6, 2\nstore "
                    "@w[%%9], %%8\n}\n",
                    t);
    else
        au_text_add(&text,
                    "for %%6 = 0 to %u step 128 {\n%%7 = add.i32 %%4, %%6\n%%8 = load.%s "
                    "@x[%%7]\nstore @a[%%7], %%8\n}\n",
                    sizes[0], t);
    au_text_add(&text,
                "for %%10 = 0 to %u step 128 {\n%%11 = add.i32 %%4, %%10\n%%12 = load.%s "
                "@y[%%11]\nstore @b[%%11], %%12\n}\nfence_proxy\nbarrier #0\nwgmma_fence\n",
                sizes[1], t);
    for (uint32_t n = 0; n < 2; n++)
        au_text_add(&text, "wgmma @c[3], @%s[%u], @b[%u], %s, %d, %u, %u #%s\n",
                    c->in_lanes ? "w" : "a", c->in_lanes ? 2 + 8 * n : n * steps[0], n * steps[1],
                    n ? "true" : "false", c->columns, strides[0], strides[1], op.text);
    au_text_add(&text,
                "wgmma_commit\nwgmma_wait @c, @w #0\n%%13 = mul.i32 %%4, %d\nfor %%14 = 0 to %d "
                "step 1 {\n%%15 = add.i32 %%14, 3\n%%16 = load.f32 @c[%%15]\n%%17 = add.i32 %%13, "
                "%%14\nstore @out[%%17], %%16\n}\n}\n",
                c->columns / 2, c->columns / 2);
    return au_text_str(&text);
}

#endif
