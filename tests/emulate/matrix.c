/* matrix.c - MFMA and WMMA, from AMD's documents of the instruction sets ("matrix arithmetic instructions", CDNA1 to CDNA4; "WMMA", RDNA3 and
 * RDNA4), not from the compiler's tables: here a row is a row of the first source. Products are exact, sums are of f32, along k in order. */
#include "inside.h"

enum { F16, BF16, F32 };
typedef struct Shape {
    const char *name;
    uint8_t m, n, k, type;
} Shape;
static const Shape shapes[] = {
    {"v_mfma_f32_32x32x8f16", 32, 32, 8, F16},
    {"v_mfma_f32_32x32x8_f16", 32, 32, 8, F16},
    {"v_mfma_f32_16x16x16f16", 16, 16, 16, F16},
    {"v_mfma_f32_16x16x16_f16", 16, 16, 16, F16},
    {"v_mfma_f32_32x32x8bf16_1k", 32, 32, 8, BF16},
    {"v_mfma_f32_32x32x8_bf16", 32, 32, 8, BF16},
    {"v_mfma_f32_16x16x16bf16_1k", 16, 16, 16, BF16},
    {"v_mfma_f32_16x16x16_bf16", 16, 16, 16, BF16},
    {"v_mfma_f32_32x32x4bf16", 32, 32, 4, BF16},
    {"v_mfma_f32_16x16x8bf16", 16, 16, 8, BF16},
    {"v_mfma_f32_32x32x16_f16", 32, 32, 16, F16},
    {"v_mfma_f32_32x32x16_bf16", 32, 32, 16, BF16},
    {"v_mfma_f32_16x16x32_f16", 16, 16, 32, F16},
    {"v_mfma_f32_16x16x32_bf16", 16, 16, 32, BF16},
    {"v_mfma_f32_32x32x2f32", 32, 32, 2, F32},
    {"v_mfma_f32_32x32x2_f32", 32, 32, 2, F32},
    {"v_mfma_f32_16x16x4f32", 16, 16, 4, F32},
    {"v_mfma_f32_16x16x4_f32", 16, 16, 4, F32},
    {"v_wmma_f32_16x16x16_f16", 16, 16, 16, F16},
    {"v_wmma_f32_16x16x16_bf16", 16, 16, 16, BF16},
};

/* A product of matrices as numbers, with what is not known of them. */
typedef struct Product {
    double a[32][32], b[32][32]; /* row of A, k; column of B, k */
    float c[32][32];
    bool a_undef[32], b_undef[32], c_undef[32][32];
} Product;

static double element(const Wave *w, const Operand *o, int lane, unsigned index, int type,
                      bool *undef)
{
    const bool high = type != F32 && index % 2;
    const unsigned reg = o->reg + (type == F32 ? index : index / 2);
    const uint32_t word = w->v[reg][lane];
    uint32_t bits = type == F32 ? word : high ? word >> 16 : word & 0xffff;
    *undef |= (w->undef[high][reg] | (type == F32 ? w->undef[1][reg] : 0)) >> lane & 1;
    if (type == F16) {
        /* CDNA2's multiplies take denormals for 0 */
        if (strcmp(w->e->machine, "gfx90a") == 0 && !(bits & 0x7c00)) bits &= 0x8000;
        return (double)float_of_half(bits);
    }
    if (type == BF16) {
        bits <<= 16;
        const bool flushes =
            strcmp(w->e->machine, "gfx90a") == 0 || strcmp(w->e->machine, "gfx908") == 0;
        if (flushes && !(bits & 0x7f800000)) bits &= 0x80000000;
    }
    return (double)float_of(bits);
}

/* Which k an element of a source is: "i = l % 32, k = 4 (l / 32) + v". */
static unsigned k_of(const Wave *w, const Shape *s, unsigned lane, unsigned v)
{
    if (w->family == CDNA) {
        const unsigned groups = LANES / s->m, each = s->k / groups;
        return each * (lane / s->m) + v;
    }
    if (w->family == RDNA3) return v; /* both halves of the wave hold all of k */
    return 8 * (v / 4) + 4 * (lane / 16) + v % 4;
}

static unsigned elements_of(const Wave *w, const Shape *s)
{
    return w->family == RDNA3 ? s->k : s->m * s->k / w->lanes;
}

/* Which row of the result: a lane has one column. */
static unsigned row_of(const Wave *w, const Shape *s, unsigned lane, unsigned v)
{
    if (w->family == CDNA) {
        const unsigned groups = LANES / s->n; /* of four rows */
        return 4 * groups * (v / 4) + 4 * (lane / s->n) + v % 4;
    }
    return w->family == RDNA3 ? 2 * v + lane / 16 : 8 * (lane / 16) + v;
}

static bool differ(double a, double b) { return memcmp(&a, &b, sizeof a) != 0; }

static void gather(Wave *w, const Inst *in, const Shape *s, Product *p)
{
    const unsigned lanes = w->lanes;
    for (unsigned lane = 0; lane < lanes; lane++)
        for (unsigned v = 0; v < elements_of(w, s); v++) {
            const unsigned k = k_of(w, s, lane, v);
            const unsigned i = lane % s->m, j = lane % s->n;
            const double a = element(w, &in->o[1], (int)lane, v, s->type, &p->a_undef[i]);
            const double b = element(w, &in->o[2], (int)lane, v, s->type, &p->b_undef[j]);
            const bool copy = w->family == RDNA3 && lane >= 16;
            if (copy && (differ(a, p->a[i][k]) || differ(b, p->b[j][k])))
                fail(w, "the halves of the wave hold different operands in lane %u", lane);
            p->a[i][k] = a;
            p->b[j][k] = b;
        }
    const Operand *c = &in->o[3];
    for (unsigned lane = 0; lane < lanes; lane++)
        for (unsigned v = 0; v < s->m * s->n / lanes; v++) {
            const unsigned row = row_of(w, s, lane, v), column = lane % s->n;
            p->c[row][column] = c->kind == O_REAL ? c->real : 0;
            if (c->kind == O_VECTOR)
                p->c[row][column] =
                    (float)element(w, c, (int)lane, v, F32, &p->c_undef[row][column]);
        }
}

static void multiply(const Shape *s, Product *p)
{
    for (unsigned row = 0; row < s->m; row++)
        for (unsigned k = 0; k < s->k; k++)
            for (unsigned column = 0; column < s->n; column++)
                p->c[row][column] =
                    (float)((double)p->c[row][column] + p->a[row][k] * p->b[column][k]);
}

static void run_product(Wave *w, const Inst *in)
{
    const Shape *s = &shapes[in->op->more];
    const unsigned results = s->m * s->n / w->lanes,
                   sources = (elements_of(w, s) + 1) / (s->type == F32 ? 1 : 2);
    static _Thread_local Product p;
    if (in->count != 4 || in->o[0].kind != O_VECTOR || in->o[1].kind != O_VECTOR ||
        in->o[2].kind != O_VECTOR || (in->o[3].kind == O_NUMBER && in->o[3].number != 0) ||
        in->o[3].kind == O_SCALAR || strstr(in->text, "cbsz") || strstr(in->text, "blgp") ||
        strstr(in->text, "neg_")) {
        fail(w, "operands that are not modelled");
        return;
    }
    vector_ready(w, in->o[0].reg, results);
    vector_ready(w, in->o[1].reg, sources);
    vector_ready(w, in->o[2].reg, sources);
    if (in->o[3].kind == O_VECTOR) vector_ready(w, in->o[3].reg, results);
    if (w->e->failed) return;
    memset(&p, 0, sizeof p);
    gather(w, in, s, &p);
    multiply(s, &p);
    for (unsigned lane = 0; lane < w->lanes; lane++)
        for (unsigned v = 0; v < results; v++) {
            const unsigned row = row_of(w, s, lane, v), column = lane % s->n,
                           reg = in->o[0].reg + v;
            const uint64_t bit = 1ull << lane;
            const bool undef = p.a_undef[row] || p.b_undef[column] || p.c_undef[row][column];
            memcpy(&w->v[reg][lane], &p.c[row][column], sizeof(float));
            for (int half = 0; half < 2; half++)
                w->undef[half][reg] =
                    undef ? w->undef[half][reg] | bit : w->undef[half][reg] & ~bit;
            w->v_pending[reg] = (Pending){0};
        }
}

// clang-format off
#define M(n, name) {name, "", run_product, NULL, n, EMU_MATRIX},
const Op matrix_ops[] = {
    M(0, "v_mfma_f32_32x32x8f16") M(1, "v_mfma_f32_32x32x8_f16") M(2, "v_mfma_f32_16x16x16f16") M(3, "v_mfma_f32_16x16x16_f16")
    M(4, "v_mfma_f32_32x32x8bf16_1k") M(5, "v_mfma_f32_32x32x8_bf16") M(6, "v_mfma_f32_16x16x16bf16_1k") M(7, "v_mfma_f32_16x16x16_bf16")
    M(8, "v_mfma_f32_32x32x4bf16") M(9, "v_mfma_f32_16x16x8bf16") M(10, "v_mfma_f32_32x32x16_f16") M(11, "v_mfma_f32_32x32x16_bf16")
    M(12, "v_mfma_f32_16x16x32_f16") M(13, "v_mfma_f32_16x16x32_bf16") M(14, "v_mfma_f32_32x32x2f32") M(15, "v_mfma_f32_32x32x2_f32")
    M(16, "v_mfma_f32_16x16x4f32") M(17, "v_mfma_f32_16x16x4_f32") M(18, "v_wmma_f32_16x16x16_f16") M(19, "v_wmma_f32_16x16x16_bf16")
    {NULL, NULL, NULL, NULL, 0, 0},
};
// clang-format on
