/* Every operation of the kernel IR in every type on every OpenCL device here, compared with the interpreter. */
#include <math.h>

#include "opencl.h"

enum { LANES = 32, BLOCKS = 12, RUNS = LANES * BLOCKS, MOST_DEVICES = 8 };

static ClDevice devices[MOST_DEVICES];
static uint32_t device_count;

static int find_devices(void **state)
{
    (void)state;
    device_count = cl_devices(devices, MOST_DEVICES);
    for (uint32_t n = 0; n < device_count; n++) print_message("device: %s\n", devices[n].name);
    return 0;
}

static int close_devices(void **state)
{
    (void)state;
    cl_close(devices, device_count);
    return 0;
}

static const char *shown(Bench *b, const void *data, AuScalar scalar, uint64_t n)
{
    switch (scalar) {
    case AU_I32: return au_format(b->arena, "%d", ((const int32_t *)data)[n]);
    case AU_I64: return au_format(b->arena, "%lld", (long long)((const int64_t *)data)[n]);
    case AU_U8: return au_format(b->arena, "%u", ((const uint8_t *)data)[n]);
    case AU_F32:
    case AU_F16:
    case AU_BF16: return au_format(b->arena, "%.9g", (double)test_float(data, scalar, n));
    case AU_I1:
    case AU_VOID:
    case AU_SCALARS: break;
    }
    return "?";
}

/* ---- every operation */

/* What OpenCL C 1.2 allows (section 7.4), in units in the last place; 0: exact. The two helpers: three roundings more than exp. */
static int bound_of(AuKOp op)
{
    switch ((int)op) {
    case AU_K_DIV:
    case AU_K_SQRT:
    case AU_K_EXP:
    case AU_K_EXP2:
    case AU_K_EXPM1:
    case AU_K_LOG:
    case AU_K_LOG2: return 3;
    case AU_K_RSQRT:
    case AU_K_LOG1P: return 2;
    case AU_K_SIN:
    case AU_K_COS: return 4;
    case AU_K_TANH: return 5;
    case AU_K_SIGMOID:
    case AU_K_SOFTPLUS: return 8;
    case AU_K_POW:
    case AU_K_ERF: return 16;
    }
    return 0;
}

typedef struct Ops {
    AuKernel *k;
    uint32_t width;
    AuVal index;           /* of this lane in its operands */
    AuMem out[AU_SCALARS]; /* results by type, one stretch of RUNS * width after the other */
    uint32_t made[AU_SCALARS];
    AuKOp which[AU_SCALARS][128];
} Ops;

static AuVal constant(Ops *o, AuScalar scalar, int64_t value)
{
    const AuInstr in = {.op = AU_K_CONST,
                        .type = {(uint8_t)scalar, (uint8_t)o->width},
                        .imm = value,
                        .number = (float)value};
    return kernel_emit(o->k, in, NULL, 0);
}

static void keep(Ops *o, AuKOp op, AuVal value)
{
    AuScalar scalar = kernel_at(o->k, value)->type.scalar;
    if (scalar == AU_I1)
        value =
            kernel_op3(o->k, AU_K_SELECT, value, constant(o, AU_I32, 1), constant(o, AU_I32, 0));
    if (scalar == AU_I1) scalar = AU_I32;
    const int32_t stretch = (int32_t)(o->made[scalar] * RUNS * o->width);
    o->which[scalar][o->made[scalar]++] = op;
    kernel_store(o->k, o->out[scalar],
                 kernel_op2(o->k, AU_K_ADD, o->index, kernel_i32(o->k, stretch)), value,
                 (AuVal){0});
}

static AuVal operand(Ops *o, const char *name, AuScalar scalar)
{
    return kernel_load(o->k, kernel_tensor(o->k, name, scalar, true, false, 0, 0), o->index,
                       o->width, (AuVal){0}, (AuVal){0});
}

static void all_rules(Ops *o, AuScalar of)
{
    AuKernel *k = o->k;
    const AuVal a = operand(o, "a", of), b = operand(o, "b", of), c = operand(o, "c", of);
    /* Angles in the range for which aule promises accuracy; PoCL 3.1 loses small ones that share a vector with 1e30. */
    const AuVal bounded =
        of == AU_F32 ? kernel_op2(k, AU_K_MIN, kernel_op2(k, AU_K_MAX, a, constant(o, of, -100000)),
                                  constant(o, of, 100000))
                     : a;
    const AuVal less = kernel_op2(k, AU_K_LT, a, b), more = kernel_op2(k, AU_K_LT, c, a);
    for (int op = AU_K_NONE + 1; op < AU_K_COUNT; op++) {
        const AuKOpInfo *info = kernel_op_info((AuKOp)op);
        const bool integer = of != AU_F32;
        const bool angle = op == AU_K_SIN || op == AU_K_COS,
                   condition = info->rule == AU_R_LOGIC || info->rule == AU_R_SELECT;
        const AuVal x = condition ? less
                        : angle   ? bounded
                                  : a,
                    y = info->rule == AU_R_LOGIC ? more : b;
        if (info->rule == AU_R_CORE || info->rule == AU_R_CVT || info->flags & AU_KF_CODE) continue;
        if ((info->rule == AU_R_FLOAT && integer) || (info->rule == AU_R_INT && !integer)) continue;
        if (info->count == 1) keep(o, (AuKOp)op, kernel_op1(k, (AuKOp)op, x));
        if (info->count == 2) keep(o, (AuKOp)op, kernel_op2(k, (AuKOp)op, x, y));
        if (info->count == 3)
            keep(o, (AuKOp)op, kernel_op3(k, (AuKOp)op, x, info->rule == AU_R_SELECT ? a : b, c));
    }
}

static void all_conversions(Ops *o, AuScalar of)
{
    AuKernel *k = o->k;
    const AuVal a = operand(o, "d", of);
    static const uint32_t to[AU_SCALARS] = {
        [AU_F32] = 1 << AU_I32 | 1 << AU_I64 | 1 << AU_I1 | 1 << AU_F16 | 1 << AU_BF16,
        [AU_I32] = 1 << AU_F32 | 1 << AU_I64 | 1 << AU_I1 | 1 << AU_U8,
        [AU_I64] = 1 << AU_F32 | 1 << AU_I32 | 1 << AU_I1,
    };
    for (int s = AU_I1; s < AU_SCALARS; s++)
        if (to[of] >> s & 1) keep(o, AU_K_CVT, kernel_cvt(k, a, (AuScalar)s));
    if (of == AU_F32) keep(o, AU_K_BITCAST, kernel_bitcast(k, a, AU_I32));
    if (of == AU_I32) keep(o, AU_K_BITCAST, kernel_bitcast(k, a, AU_F32));
    const AuVal negative = kernel_op2(k, AU_K_LT, a, constant(o, of, 0));
    if (of == AU_F32) keep(o, AU_K_CVT, kernel_cvt(k, negative, AU_F32));
    keep(o, AU_K_CVT, kernel_cvt(k, negative, AU_I64));
    /* Types that are only stored: with both ways of reading them, as numbers and, where a SELECT stands in between, as bits. */
    static const AuScalar stored[] = {AU_F16, AU_BF16, AU_U8};
    for (size_t n = 0; n < 3; n++) {
        const AuVal h = operand(o, kernel_scalar_name(stored[n]), stored[n]);
        const AuVal picked = kernel_op3(k, AU_K_SELECT, negative, h, constant(o, stored[n], 1));
        keep(o, AU_K_LOAD, h);
        keep(o, AU_K_CVT, kernel_cvt(k, h, AU_F32));
        keep(o, AU_K_CVT, kernel_cvt(k, picked, AU_F32));
        if (stored[n] == AU_U8)
            keep(o, AU_K_CVT, kernel_cvt(k, h, AU_I32));
        else if (of == AU_F32)
            keep(o, AU_K_CVT, kernel_op3(k, AU_K_SELECT, negative, kernel_cvt(k, a, stored[n]), h));
    }
}

static Ops all_operations(Bench *b, AuScalar of, uint32_t width)
{
    static const AuScalar kept[] = {AU_F32, AU_I32, AU_I64, AU_F16, AU_BF16, AU_U8};
    Ops o = {.k = kernel_new(b->arena, "operations", LANES, 1), .width = width};
    for (size_t n = 0; n < sizeof kept / sizeof *kept; n++) {
        const char *name = au_format(b->arena, "out_%s", kernel_scalar_name(kept[n]));
        o.out[kept[n]] = kernel_tensor(o.k, name, kept[n], false, true, 0, 0);
    }
    const AuVal block = kernel_op2(o.k, AU_K_MUL, kernel_block(o.k, 0), kernel_i32(o.k, LANES));
    const AuVal run = kernel_op2(o.k, AU_K_ADD, block, kernel_lane(o.k));
    o.index = kernel_op2(o.k, AU_K_MUL, run, kernel_i32(o.k, (int32_t)width));
    all_rules(&o, of);
    all_conversions(&o, of);
    return o;
}

/* Buffers for a run: what the kernel only reads is filled, what it writes is as long as the results. */
static AuKBuffer *buffers_of(Bench *b, const Ops *o, uint32_t seed)
{
    const AuKernel *k = o->k;
    AuKBuffer *buffers = AU_NEW_ARRAY(b->arena, AuKBuffer, k->arg_count);
    for (uint32_t n = 0; n < k->arg_count; n++) {
        const AuMemory *m = &k->mems[k->args[n].mem.i];
        const uint64_t stretches = m->writes ? o->made[m->scalar] : 1;
        buffers[n].count = stretches * RUNS * o->width;
        buffers[n].data = au_alloc(b->arena, buffers[n].count * kernel_scalar_bytes(m->scalar) + 1);
        buffers[n].initialised = !m->writes;
        if (!m->writes) test_fill(buffers[n].data, m->scalar, buffers[n].count, seed + n);
    }
    return buffers;
}

static void expect_equal(Bench *b, const Ops *o, const AuKBuffer *want, const AuKBuffer *have,
                         const ClDevice *d)
{
    const AuKernel *k = o->k;
    for (uint32_t n = 0; n < k->arg_count; n++) {
        const AuMemory *m = &k->mems[k->args[n].mem.i];
        if (!m->writes) continue;
        for (uint64_t at = 0; at < want[n].count; at++) {
            const AuKOp op = o->which[m->scalar][at / (RUNS * o->width)];
            /* Functions that are not exact may flush results below the normal numbers. */
            const float within = bound_of(op) ? 1.2e-38f : -1;
            if (test_same(want[n].data, have[n].data, m->scalar, at, bound_of(op), within))
                continue;
            fail_msg("%s: %s, result %u of type %s x%u: element %u is %s, not %s", d->name,
                     kernel_op_info(op)->text, (unsigned)(at / (RUNS * o->width)),
                     kernel_scalar_name(m->scalar), o->width, (unsigned)(at % (RUNS * o->width)),
                     shown(b, have[n].data, m->scalar, at), shown(b, want[n].data, m->scalar, at));
        }
    }
}

static void operations(AuScalar of, uint32_t width)
{
    if (!device_count) skip();
    Bench b = bench_new();
    const Ops o = all_operations(&b, of, width);
    if (!kernel_verify(o.k, b.diags)) fail_msg("%s", b.diags->first->message);
    const char *source = opencl_source(&b, o.k), *why;
    const uint64_t *slots = AU_NEW_ARRAY(b.arena, uint64_t, o.k->arg_count);
    AuKRun run = {.slots = slots,
                  .buffers = buffers_of(&b, &o, 7),
                  .grid = {BLOCKS, 1, 1},
                  .check_all_written = true};
    if (!kernel_run(o.k, &run, b.arena, &why)) fail_msg("interpreter: %s", why);
    for (uint32_t n = 0; n < device_count; n++) {
        AuKRun on_device = run;
        on_device.buffers = buffers_of(&b, &o, 7);
        cl_run(&b, &devices[n], o.k, source, &on_device);
        expect_equal(&b, &o, run.buffers, on_device.buffers, &devices[n]);
    }
    bench_free(&b);
}

static void floats(void **state)
{
    (void)state;
    operations(AU_F32, 1);
}
static void float_vectors(void **state)
{
    (void)state;
    operations(AU_F32, 4);
}
static void integers(void **state)
{
    (void)state;
    operations(AU_I32, 1);
}
static void integer_vectors(void **state)
{
    (void)state;
    operations(AU_I32, 2);
}
static void long_integers(void **state)
{
    (void)state;
    operations(AU_I64, 1);
}
static void long_integer_vectors(void **state)
{
    (void)state;
    operations(AU_I64, 2);
}

/* The language promises it, OpenCL does not: devices that compute otherwise must not go unnoticed. */
static void powers_of_two(void **state)
{
    (void)state;
    if (!device_count) skip();
    Bench b = bench_new();
    AuKernel *k = bench_kernel(
        &b,
        "kernel powers lanes 64 warps 4\nmemory @o: global f32 writes\narg o: pointer @o\n{\n"
        "  %1 = lane.i32\n  %2 = warp.i32\n  %3 = mul.i32 %2, 64\n  %4 = add.i32 %3, %1\n"
        "  %5 = sub.i32 %4, 126\n  %6 = cvt.f32 %5\n  %7 = exp2.f32 %6\n  store @o[%4], %7\n}\n");
    for (uint32_t d = 0; d < device_count; d++) {
        float o[256] = {0};
        AuKBuffer buffer = {.data = o, .count = 256};
        const AuKRun run = {.buffers = &buffer, .grid = {1, 1, 1}};
        cl_run(&b, &devices[d], k, opencl_source(&b, k), &run);
        for (int n = 0; n < 254; n++)
            if (o[n] != ldexpf(1, n - 126))
                fail_msg("%s: exp2(%d) is %.9g", devices[d].name, n - 126, (double)o[n]);
    }
    bench_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(floats),        cmocka_unit_test(float_vectors),
        cmocka_unit_test(integers),      cmocka_unit_test(integer_vectors),
        cmocka_unit_test(long_integers), cmocka_unit_test(long_integer_vectors),
        cmocka_unit_test(powers_of_two),
    };
    return cmocka_run_group_tests(tests, find_devices, close_devices);
}
