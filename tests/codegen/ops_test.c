/* Every operation of ops.def on the host, in every type, as uniform, affine and varying value and as vectors of a lane. */
#include "host.h"

#include "caps.h"

#include <math.h>

enum { BLOCKS = 8 };

typedef struct Row {
    AuKOp op;
    uint8_t rule;
} Row;
static const Row rows[] = {
#define R_SAME                                              AU_R_SAME
#define R_FLOAT                                             AU_R_FLOAT
#define R_INT                                               AU_R_INT
#define R_LOGIC                                             AU_R_LOGIC
#define R_CMP                                               AU_R_CMP
#define R_SELECT                                            AU_R_SELECT
#define R_CVT                                               AU_R_CVT
#define R_DECODE                                            AU_R_DECODE
#define R_ENCODE                                            AU_R_ENCODE
#define OP(NAME, text, count, rule, flags, meaning, opencl) {AU_K_##NAME, rule},
#include "ops.def"
#undef OP
};
enum { ROWS = sizeof rows / sizeof *rows };

static bool takes(uint8_t rule, AuScalar scalar)
{
    const bool is_int = scalar == AU_I32 || scalar == AU_I64;
    switch ((AuKRule)rule) {
    case AU_R_SAME: return is_int || scalar == AU_F32;
    case AU_R_FLOAT: return scalar == AU_F32;
    case AU_R_INT: return is_int;
    case AU_R_LOGIC: return scalar == AU_I1;
    case AU_R_CMP:
    case AU_R_SELECT: return is_int || scalar == AU_F32;
    case AU_R_DECODE:
    case AU_R_ENCODE:
    case AU_R_CVT:
    case AU_R_CORE: return false;
    }
    return false;
}

/* Where a case reads its operands: every lane its own, or one place a block. */
typedef enum Shape { EACH_LANE, EACH_BLOCK, PAIRS, SHAPES } Shape;
static const char *const shape_names[SHAPES] = {"varying", "uniform", "vectors"};

static AuVal position(Case *c, Shape shape)
{
    if (shape == EACH_BLOCK) return kernel_block(c->k, 0);
    AuVal place = case_place(c);
    return shape == PAIRS ? kernel_op2(c->k, AU_K_MUL, place, kernel_i32(c->k, 2)) : place;
}

static AuVal operand(Host *host, Case *c, AuScalar scalar, Shape shape, uint32_t n)
{
    static const char *const names[] = {"a", "b", "c"};
    const uint32_t width = shape == PAIRS ? 2 : 1, count = BLOCKS * host->lanes * width;
    const AuMem mem = case_tensor(host, c, names[n], scalar, count, true, false);
    if (n) { /* edges of one operand meet all of the other */
        char *data = case_data(c, mem);
        const uint32_t bytes = kernel_scalar_bytes(scalar);
        for (uint32_t i = 0; i < count; i++) {
            const uint32_t j = host_random(host, count);
            char kept[8];
            memcpy(kept, data + i * bytes, bytes);
            memcpy(data + i * bytes, data + j * bytes, bytes);
            memcpy(data + j * bytes, kept, bytes);
        }
    }
    return kernel_load(c->k, mem, position(c, shape), width, (AuVal){0}, (AuVal){0});
}

static void result(Host *host, Case *c, AuScalar scalar, Shape shape, AuVal value)
{
    const uint32_t width = shape == PAIRS ? 2 : 1;
    const AuMem mem = case_tensor(host, c, "o", scalar, BLOCKS * host->lanes * width, false, true);
    c->grid[0] = BLOCKS;
    AuVal mask = {0}; /* of lanes that would meet, the first */
    if (shape == EACH_BLOCK)
        mask = kernel_op2(c->k, AU_K_EQ, kernel_lane(c->k), kernel_i32(c->k, 0));
    kernel_store(c->k, mem, position(c, shape), value, mask);
}

/* min and max may give either operand where one is a NaN, or both are zero. */
static void keep_comparable(Host *host, Case *c, Shape shape)
{
    for (uint32_t a = 0; a < 2; a++) {
        float *data = case_data(c, (AuMem){a + 1});
        for (uint64_t n = 0; n < BLOCKS * host->lanes * (shape == PAIRS ? 2 : 1); n++)
            if (data[n] == 0 || data[n] != data[n]) data[n] = 1.25f;
    }
}

static void add_op(Host *host, const Row *row, AuScalar scalar, Shape shape)
{
    const AuKOpInfo *info = kernel_op_info(row->op);
    Case *c =
        host_case(host, "%s.%s %s", info->text, kernel_scalar_name(scalar), shape_names[shape]);
    AuVal in[3] = {{0}};
    for (uint32_t n = 0; n < info->count; n++)
        in[n] = operand(host, c, row->rule == AU_R_SELECT && n == 0 ? AU_I1 : scalar, shape, n);
    if (host->gpu && scalar == AU_F32 && (row->op == AU_K_MIN || row->op == AU_K_MAX))
        keep_comparable(host, c, shape);
    AuVal v = info->count == 1   ? kernel_op1(c->k, row->op, in[0])
              : info->count == 2 ? kernel_op2(c->k, row->op, in[0], in[1])
                                 : kernel_op3(c->k, row->op, in[0], in[1], in[2]);
    result(host, c, row->rule == AU_R_CMP ? AU_I1 : scalar, shape, v);
}

/* Values that do not fit an integer may become any: they are left out. */
static void keep_convertible(Case *c, AuMem mem, AuScalar from, uint64_t count)
{
    void *data = case_data(c, mem);
    for (uint64_t n = 0; n < count; n++) {
        const float x = from == AU_F32   ? ((float *)data)[n]
                        : from == AU_F16 ? kernel_from_f16(((uint16_t *)data)[n])
                                         : kernel_from_bf16(((uint16_t *)data)[n]);
        if (x >= 0 && x < 255) continue;
        if (from == AU_F32)
            ((float *)data)[n] = 41.75f;
        else
            ((uint16_t *)data)[n] = from == AU_F16 ? kernel_to_f16(41.75f) : kernel_to_bf16(41.75f);
    }
}

static bool is_float(AuScalar s) { return s == AU_F32 || s == AU_F16 || s == AU_BF16; }

static void add_conversion(Host *host, AuScalar from, AuScalar to, Shape shape)
{
    Case *c = host_case(host, "cvt %s to %s %s", kernel_scalar_name(from), kernel_scalar_name(to),
                        shape_names[shape]);
    AuVal x = operand(host, c, from, shape, 0);
    if (is_float(from) && !is_float(to) && to != AU_I1)
        keep_convertible(c, (AuMem){1}, from, BLOCKS * host->lanes * (shape == PAIRS ? 2 : 1));
    result(host, c, to, shape, kernel_cvt(c->k, x, to));
    if (!kernel_verify(c->k, au_diags_new(host->arena)))
        host->count--; /* the IR has no such conversion */
}

static void add_bitcast(Host *host, AuScalar from, AuScalar to, Shape shape)
{
    Case *c = host_case(host, "bitcast %s to %s %s", kernel_scalar_name(from),
                        kernel_scalar_name(to), shape_names[shape]);
    result(host, c, to, shape, kernel_bitcast(c->k, operand(host, c, from, shape, 0), to));
}

/* Division by constants of either sign, powers of two among them, as uniform, affine and varying dividend. */
static void add_division(Host *host, AuKOp op, AuScalar scalar, int64_t by)
{
    Case *c = host_case(host, "%s.%s by %lld", kernel_op_info(op)->text, kernel_scalar_name(scalar),
                        (long long)by);
    AuVal d = scalar == AU_I32 ? kernel_i32(c->k, (int32_t)by) : kernel_i64(c->k, by);
    AuVal v = kernel_op2(c->k, op, operand(host, c, scalar, EACH_LANE, 0), d);
    AuVal w = kernel_op2(c->k, op, operand(host, c, scalar, EACH_BLOCK, 1), d);
    result(host, c, scalar, EACH_LANE, kernel_op2(c->k, AU_K_XOR, v, w));
    AuVal place = case_place(c);
    if (scalar == AU_I64) place = kernel_cvt(c->k, place, AU_I64);
    place = kernel_op2(c->k, AU_K_SUB, place,
                       scalar == AU_I64 ? kernel_i64(c->k, 50) : kernel_i32(c->k, 50));
    result(host, c, scalar, EACH_LANE, kernel_op2(c->k, op, place, d));
}

/* Affine values through every operation that keeps them so, and out of them. */
static void add_affine(Host *host, AuScalar scalar)
{
    Case *c = host_case(host, "affine %s", kernel_scalar_name(scalar));
    AuKernel *k = c->k;
    const bool wide = scalar == AU_I64;
    AuVal lane = wide ? kernel_cvt(k, kernel_lane(k), AU_I64) : kernel_lane(k);
    AuVal block = wide ? kernel_cvt(k, kernel_block(k, 0), AU_I64) : kernel_block(k, 0);
    AuVal three = wide ? kernel_i64(k, 3) : kernel_i32(k, 3);
    AuVal x = kernel_op2(k, AU_K_ADD, kernel_op2(k, AU_K_MUL, lane, three), block);
    AuVal y = kernel_op2(k, AU_K_SUB, block, kernel_op2(k, AU_K_SHL, lane, three));
    AuVal odd = kernel_op2(
        k, AU_K_EQ, kernel_op2(k, AU_K_AND, block, wide ? kernel_i64(k, 1) : kernel_i32(k, 1)),
        wide ? kernel_i64(k, 1) : kernel_i32(k, 1));
    result(host, c, scalar, EACH_LANE, x);
    result(host, c, scalar, EACH_LANE, y);
    result(host, c, scalar, EACH_LANE, kernel_op1(k, AU_K_NEG, x));
    result(host, c, scalar, EACH_LANE,
           kernel_op3(k, AU_K_SELECT, odd, x, kernel_op2(k, AU_K_ADD, x, three)));
    result(host, c, scalar, EACH_LANE, kernel_op3(k, AU_K_SELECT, odd, x, y));
    result(host, c, scalar, EACH_LANE, kernel_op2(k, AU_K_MUL, x, y));
    result(host, c, scalar, EACH_LANE, kernel_op2(k, AU_K_MIN, x, y));
    result(host, c, AU_F32, EACH_LANE, kernel_cvt(k, x, AU_F32));
    /* a divisor that is a constant vector, zero in one lane */
    result(host, c, scalar, EACH_LANE, kernel_op2(k, AU_K_IDIV, x, lane));
    result(host, c, scalar, EACH_LANE, kernel_op2(k, AU_K_IMOD, x, lane));
}

/* Every code of numbers of 8 bits, one a lane and as vectors of [width]; floats around what they mean to codes. By instructions where the
 * architecture has them, else by arithmetic. */
static void add_codes(Host *host, AuKOp op, uint32_t width)
{
    enum { CODES = 256 };
    Case *c = host_case(host, "%s of %u", kernel_op_info(op)->text, width);
    const bool decodes = kernel_op_info(op)->rule == AU_R_DECODE;
    const AuMem in =
                    case_tensor(host, c, "a", decodes ? AU_U8 : AU_F32, CODES * width, true, false),
                out =
                    case_tensor(host, c, "o", decodes ? AU_F32 : AU_U8, CODES * width, false, true);
    void *data = case_data(c, in);
    for (uint32_t n = 0; n < CODES * width; n++)
        if (decodes)
            ((uint8_t *)data)[n] = (uint8_t)n;
        else if (n >= 32 && n < 32 + CODES / 2)
            ((float *)data)[n] =
                (n % 2 ? -1.0f : 1.0f) * ldexpf(1 + (float)(n % 7) / 8, (int)n / 8 - 12);
    const AuVal at = kernel_op2(c->k, AU_K_MUL, case_place(c), kernel_i32(c->k, (int32_t)width)),
                none = {0};
    kernel_store(c->k, out, at, kernel_op1(c->k, op, kernel_load(c->k, in, at, width, none, none)),
                 none);
    const AuTileCaps *caps = tile_caps(host->arch->caps);
    kernel_legalize_codes(c->k, caps->converts | caps->decodes, caps->converts);
    c->grid[0] = CODES / host->lanes;
}

/* Codes that become numbers of 16 bits, which hold them exactly; [twins]: those of two vectors by turns. */
static void add_halfwords(Host *host, AuKOp op, AuScalar to, uint32_t width, bool twins)
{
    enum { CODES = 256, MOST = 16 };
    Case *c = host_case(host, "%s of %u as %s%s", kernel_op_info(op)->text, width,
                        kernel_scalar_name(to), twins ? ", by turns" : "");
    const AuMem in = case_tensor(host, c, "a", AU_U8, CODES * width, true, false),
                out = case_tensor(host, c, "o", AU_F32, CODES * width, false, true);
    uint8_t *data = case_data(c, in);
    for (uint32_t n = 0; n < CODES * width; n++) data[n] = (uint8_t)(n * 7 + n / CODES);
    AuKernel *k = c->k;
    const AuVal at = kernel_op2(k, AU_K_MUL, case_place(c), kernel_i32(k, (int32_t)width)),
                none = {0};
    AuVal codes = kernel_load(k, in, at, width, none, none), v[MOST];
    if (twins) {
        const AuVal parts[2] = {kernel_slice(k, codes, 0, width / 2),
                                kernel_slice(k, codes, width / 2, width / 2)};
        for (uint32_t n = 0; n < width; n++) v[n] = kernel_element(k, parts[n % 2], n / 2);
        codes = kernel_vec(k, v, width);
    }
    const AuVal numbers = kernel_cvt(k, kernel_op1(k, op, codes), to);
    kernel_store(k, out, at, kernel_cvt(k, numbers, AU_F32), none);
    const AuTileCaps *caps = tile_caps(host->arch->caps);
    kernel_legalize_codes(k, caps->converts | caps->decodes, caps->converts);
    c->grid[0] = CODES / host->lanes;
}

static void fill_cases(Host *host)
{
    static const AuScalar types[] = {AU_I1, AU_I32, AU_I64, AU_F32, AU_F16, AU_BF16, AU_U8};
    enum { TYPES = sizeof types / sizeof *types };
    for (uint32_t shape = 0; shape < SHAPES; shape++) {
        for (uint32_t r = 0; r < ROWS; r++)
            for (uint32_t t = 0; t < TYPES; t++)
                if (takes(rows[r].rule, types[t]) &&
                    !(kernel_op_info(rows[r].op)->flags & AU_KF_MATH))
                    add_op(host, &rows[r], types[t], (Shape)shape);
        for (uint32_t from = 0; from < TYPES; from++)
            for (uint32_t to = 0; to < TYPES; to++)
                if (from != to) add_conversion(host, types[from], types[to], (Shape)shape);
        add_bitcast(host, AU_F32, AU_I32, (Shape)shape);
        add_bitcast(host, AU_I32, AU_F32, (Shape)shape);
    }
    static const int64_t divisors[] = {1, 2, 64, 3, 7, 1000, -1, -2, -5, INT32_MIN};
    for (uint32_t n = 0; n < sizeof divisors / sizeof *divisors; n++)
        for (uint32_t wide = 0; wide < 2; wide++) {
            add_division(host, AU_K_IDIV, wide ? AU_I64 : AU_I32, divisors[n]);
            add_division(host, AU_K_IMOD, wide ? AU_I64 : AU_I32, divisors[n]);
        }
    add_affine(host, AU_I32);
    add_affine(host, AU_I64);
    for (uint32_t op = AU_K_FROM_E4M3; op <= AU_K_TO_I8; op++)
        for (uint32_t width = 1; width <= 16; width *= 4) add_codes(host, (AuKOp)op, width);
    for (uint32_t op = AU_K_FROM_E4M3; op <= AU_K_FROM_I4_HIGH; op++)
        for (uint32_t width = 1; width <= 16; width *= 2)
            for (uint32_t how = 0; how < (width < 8 ? 2 : 4); how++)
                add_halfwords(host, (AuKOp)op, how % 2 ? AU_BF16 : AU_F16, width, how / 2);
}

static void on_arch(const char *arch)
{
    Host *host = host_new(arch);
    if (!host) skip();
    fill_cases(host);
    assert_true(host->count > 250);
    host_run(host);
    host_free(host);
}

static void test_avx2(void **state) { (void)state, on_arch("x86-64-v3"); }
static void test_avx512(void **state) { (void)state, on_arch("x86-64-v4"); }
static void test_avx512_bf16(void **state) { (void)state, on_arch("x86-64-v4-bf16"); }
static void test_aarch64(void **state) { (void)state, on_arch("aarch64"); }
static void test_cuda_first(void **state) { (void)state, on_arch("sm_70"); }
static void test_cuda(void **state) { (void)state, on_arch("sm_80"); }
static void test_cuda_codes(void **state) { (void)state, on_arch("sm_89"); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_avx2),        cmocka_unit_test(test_avx512),
        cmocka_unit_test(test_avx512_bf16), cmocka_unit_test(test_aarch64),
        cmocka_unit_test(test_cuda),        cmocka_unit_test(test_cuda_first),
        cmocka_unit_test(test_cuda_codes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
