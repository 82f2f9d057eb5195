/* dpas.c - Intel's matrix units: a product of a subgroup of 16 lanes is a function that the compiler of the device knows by its name
 * (cl_intel_subgroup_matrix_multiply_accumulate, which is older than the instruction of SPIR-V's extension and is taken by all of Intel's
 * compilers). Operand A comes as 16-bit elements, B in words of two neighbours along k, the lower one first.
 *
 * For devices that have no such units but subgroups of 16 lanes, the module brings a body for the function (flavour->products_have_bodies), which
 * multiplies by what lanes tell each other: Intel's device for processors executes so what surrounds the products. */
#include "emit.h"

enum { ROWS = 8, DEEP = 16, PAIRS = DEEP / 2, LANES = 16 };

typedef struct Product {
    AuMatrix which;
    const char *name;
    bool half; /* operands are f16, else bf16 */
} Product;
static const Product products[SPV_PRODUCTS] = {
    {AU_MATRIX_DPAS_F16, "_Z38intel_sub_group_f16_f16_matrix_mad_k16Dv8_sDv8_iDv8_f", true},
    {AU_MATRIX_DPAS_BF16, "_Z40intel_sub_group_bf16_bf16_matrix_mad_k16Dv8_sDv8_iDv8_f", false},
};

typedef struct Types {
    SpvId word, number, small, a, b, c; /* i32, f32, i16; vectors of a lane's operands and sums */
} Types;

static Types types_of(SpvModule *m)
{
    Types t = {.word = spirv_scalar(m, AU_I32),
               .number = spirv_scalar(m, AU_F32),
               .small = spirv_int(m, 16)};
    spirv_capability(m, SPV_CAP_Int16);
    spirv_capability(m, SPV_CAP_Vector16);
    t.a = spirv_type(m, SPV_TypeVector, SPV_WORDS(t.small, ROWS));
    t.b = spirv_type(m, SPV_TypeVector, SPV_WORDS(t.word, PAIRS));
    t.c = spirv_type(m, SPV_TypeVector, SPV_WORDS(t.number, ROWS));
    return t;
}

/* ---- the body */

/* The element of A in that lane as a float. */
static SpvId element_of(SpvModule *m, const Types *t, const Product *p, SpvId bits)
{
    if (!p->half) {
        const SpvId all = spirv_make2(m, SPV_ShiftLeftLogical, t->word, bits, spirv_u32(m, 16));
        return spirv_make1(m, SPV_Bitcast, t->number, all);
    }
    return spirv_help(m, SPV_FROM_F16, &bits);
}

/* sums[r] += A[r, k] B[k, lane], for k that a loop counts. */
static void add_column(SpvModule *m, const Types *t, const Product *p, const SpvId *rows, SpvId b,
                       SpvId k, const SpvId *sums)
{
    const SpvId one = spirv_u32(m, 1),
                pair = spirv_make2(m, SPV_ShiftRightLogical, t->word, k, one);
    const SpvId words = spirv_make2(m, SPV_VectorExtractDynamic, t->word, b, pair);
    const SpvId odd = spirv_make2(m, SPV_BitwiseAnd, t->word, k, one);
    const SpvId by = spirv_make2(m, SPV_ShiftLeftLogical, t->word, odd, spirv_u32(m, 4));
    const SpvId up = spirv_make2(m, SPV_ShiftRightLogical, t->word, words, by);
    const SpvId low = spirv_make2(m, SPV_BitwiseAnd, t->word, up, spirv_u32(m, 0xffff));
    const SpvId right = element_of(m, t, p, low);
    for (uint32_t r = 0; r < ROWS; r++) {
        const SpvId there = spirv_make2(m, SPV_SubgroupShuffleINTEL, t->word, rows[r], k);
        const SpvId left = element_of(m, t, p, there);
        const SpvId so_far = spirv_make1(m, SPV_Load, t->number, sums[r]);
        const SpvId more = spirv_make2(m, SPV_FMul, t->number, left, right);
        spirv_do(m, SPV_Store,
                 SPV_WORDS(sums[r], spirv_make2(m, SPV_FAdd, t->number, so_far, more)));
    }
}

static SpvId body(SpvModule *m, const Types *t, const Product *p, SpvId a, SpvId b, SpvId c)
{
    SpvId rows[ROWS], sums[ROWS];
    for (uint32_t r = 0; r < ROWS; r++) {
        const SpvId small = spirv_make2(m, SPV_CompositeExtract, t->small, a, r);
        rows[r] = spirv_make1(m, SPV_UConvert, t->word, small);
        sums[r] = spirv_variable(m, t->number);
        spirv_do(m, SPV_Store,
                 SPV_WORDS(sums[r], spirv_make2(m, SPV_CompositeExtract, t->number, c, r)));
    }
    const SpvTurns turns = spirv_open_turns(m, DEEP);
    add_column(m, t, p, rows, b, turns.now, sums);
    spirv_close_turns(m, &turns);
    for (uint32_t r = 0; r < ROWS; r++) sums[r] = spirv_make1(m, SPV_Load, t->number, sums[r]);
    return spirv_make(m, SPV_CompositeConstruct, t->c, sums, ROWS);
}

/* ---- the function */

static SpvId function(SpvModule *m, const Types *t, uint32_t n)
{
    const Product *p = &products[n];
    const SpvSignature takes = {t->c, (SpvId[]){t->a, t->b, t->c}, 3};
    SpvOwnFunction f;
    if (m->products[n]) return m->products[n];
    if (!m->flavour->products_have_bodies)
        return m->products[n] = spirv_known_function(m, p->name, p->name, &takes);
    spirv_helper(m, SPV_FROM_F16); /* functions do not stand in each other */
    spirv_begin_function(m, &f, "matrix_product", &takes);
    const SpvId result = body(m, t, p, f.given[0], f.given[1], f.given[2]);
    return m->products[n] = spirv_end_function(m, &f, result);
}

/* ---- products */

static SpvId left(SpvEmit *e, const Types *t, AuVal a)
{
    SpvId all[ROWS];
    for (uint32_t r = 0; r < ROWS; r++)
        all[r] = spirv_make1(e->m, SPV_UConvert, t->small, spirv_value(e, a, r));
    return spirv_make(e->m, SPV_CompositeConstruct, t->a, all, ROWS);
}

static SpvId right(SpvEmit *e, const Types *t, AuVal b)
{
    SpvModule *m = e->m;
    SpvId all[PAIRS];
    for (uint32_t n = 0; n < PAIRS; n++) {
        if (e->words[b.i]) { /* a block that came so */
            all[n] = e->words[b.i][n];
            continue;
        }
        const SpvId high = spirv_make2(m, SPV_ShiftLeftLogical, t->word,
                                       spirv_value(e, b, 2 * n + 1), spirv_u32(m, 16));
        all[n] = spirv_make2(m, SPV_BitwiseOr, t->word, spirv_value(e, b, 2 * n), high);
    }
    return spirv_make(m, SPV_CompositeConstruct, t->b, all, PAIRS);
}

static SpvId sums(SpvEmit *e, const Types *t, AuVal c)
{
    SpvId all[ROWS];
    for (uint32_t r = 0; r < ROWS; r++) all[r] = spirv_value(e, c, r);
    return spirv_make(e->m, SPV_CompositeConstruct, t->c, all, ROWS);
}

void spirv_product(SpvEmit *e, AuVal v)
{
    SpvModule *m = e->m;
    const AuInstr *in = kernel_at(e->k, v);
    uint32_t n = 0;
    while (n < SPV_PRODUCTS && products[n].which != (AuMatrix)in->imm) n++;
    if (n == SPV_PRODUCTS || e->k->lanes != LANES) {
        spirv_lacks(e, in);
        return;
    }
    const Types t = types_of(m);
    const SpvId called = function(m, &t, n);
    const SpvId c = sums(e, &t, kernel_operand(e->k, in, 0)),
                a = left(e, &t, kernel_operand(e->k, in, 1)),
                b = right(e, &t, kernel_operand(e->k, in, 2));
    const SpvId all = spirv_make(m, SPV_FunctionCall, t.c, SPV_WORDS(called, a, b, c));
    for (uint32_t r = 0; r < ROWS; r++)
        spirv_set(e, v, r, spirv_make2(m, SPV_CompositeExtract, t.number, all, r));
}
