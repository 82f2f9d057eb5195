/* Random kernels: whatever passes do, and printing and reading, every output must stay the same bit
 * for bit (NaN is NaN). Programs are grown without folding, from constants that folds and algebra
 * look for, with loops, branches and memories. */
#include "internal.h"
#include "kernel_test.h"

#include <math.h>

enum { LANES = 4, WARPS = 2, OUTPUTS = 6, MOST = 400 };

typedef struct Grower {
    AuKernel *k;
    uint64_t random;
    AuVal ints[MOST], floats[MOST], flags[MOST];
    uint32_t int_count, float_count, flag_count; /* in sight */
    AuMem in, own, shared;
    uint32_t budget;
} Grower;

static uint32_t draw(Grower *g, uint32_t below)
{
    g->random = g->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((g->random >> 32) * below >> 32);
}

static AuVal raw(Grower *g, AuKOp op, AuScalar type, int64_t imm, AuMem mem, const AuVal *operands,
                 uint32_t count)
{
    const AuInstr in = {.op = (uint8_t)op, .type = {(uint8_t)type, 1}, .imm = imm, .mem = mem};
    return kernel_append(g->k, in, operands, count);
}

static AuVal raw_constant(Grower *g, AuScalar type, int64_t imm, double number)
{
    const AuInstr in = {
        .op = AU_K_CONST, .type = {(uint8_t)type, 1}, .imm = imm, .number = (float)number};
    return kernel_append(g->k, in, NULL, 0);
}

static AuVal an_int(Grower *g)
{
    static const int32_t known[] = {0, 1, 2, -1, 3, 8, 31, 64, INT32_MIN, INT32_MAX, 7};
    if (draw(g, 3) == 0)
        return raw_constant(g, AU_I32, known[draw(g, sizeof known / sizeof *known)], 0);
    return g->ints[draw(g, g->int_count)];
}

static AuVal a_float(Grower *g)
{
    static const double known[] = {0, -0.0, 1, -1, 0.5, 2, INFINITY, 1e-30, 3};
    if (draw(g, 3) == 0)
        return raw_constant(g, AU_F32, 0,
                            (double)(float)known[draw(g, sizeof known / sizeof *known)]);
    return g->floats[draw(g, g->float_count)];
}

static AuVal a_flag(Grower *g)
{
    return draw(g, 5) == 0 ? raw_constant(g, AU_I1, draw(g, 2), 0)
                           : g->flags[draw(g, g->flag_count)];
}

static const AuMem no_memory = {0};

static void keep(AuVal *values, uint32_t *count, AuVal v)
{
    if (*count < MOST) values[(*count)++] = v;
}

static void grow_int(Grower *g)
{
    static const AuKOp ops[] = {AU_K_ADD, AU_K_SUB,  AU_K_MUL, AU_K_IDIV, AU_K_IMOD, AU_K_MULHI,
                                AU_K_MIN, AU_K_MAX,  AU_K_AND, AU_K_OR,   AU_K_XOR,  AU_K_SHL,
                                AU_K_SHR, AU_K_USHR, AU_K_ADD, AU_K_SUB,  AU_K_MUL};
    const AuVal x = an_int(g), y = an_int(g);
    const uint32_t kind = draw(g, 24);
    AuVal v;
    if (kind == 0)
        v = raw(g, AU_K_NEG, AU_I32, 0, no_memory, &x, 1);
    else if (kind == 1)
        v = raw(g, AU_K_ABS, AU_I32, 0, no_memory, &x, 1);
    else if (kind == 2)
        v = raw(g, AU_K_SELECT, AU_I32, 0, no_memory, (AuVal[]){a_flag(g), x, y}, 3);
    else if (kind == 5)
        v = raw(g, AU_K_LATE, AU_I32, 0, no_memory, &x, 1);
    else if (kind == 3)
        v = raw(g, AU_K_SHUFFLE_XOR, AU_I32, 1 + draw(g, 3), no_memory, &x, 1);
    else if (kind == 4) {
        const AuVal wide = raw(g, AU_K_CVT, AU_I64, 0, no_memory, &x, 1),
                    more = raw(g, AU_K_MUL, AU_I64, 0, no_memory, (AuVal[]){wide, wide}, 2);
        v = raw(g, AU_K_CVT, AU_I32, 0, no_memory, &more, 1);
    } else
        v = raw(g, ops[draw(g, sizeof ops / sizeof *ops)], AU_I32, 0, no_memory, (AuVal[]){x, y},
                2);
    keep(g->ints, &g->int_count, v);
}

static void grow_float(Grower *g)
{
    static const AuKOp ops[] = {AU_K_ADD, AU_K_SUB, AU_K_MUL, AU_K_DIV, AU_K_MUL, AU_K_ADD};
    const AuVal x = a_float(g), y = a_float(g), z = a_float(g), i = an_int(g);
    AuVal v;
    switch (draw(g, 10)) {
    case 0: v = raw(g, AU_K_FMA, AU_F32, 0, no_memory, (AuVal[]){x, y, z}, 3); break;
    case 1: v = raw(g, AU_K_NEG, AU_F32, 0, no_memory, &x, 1); break;
    case 2: v = raw(g, AU_K_FLOOR, AU_F32, 0, no_memory, &x, 1); break;
    case 3: v = raw(g, AU_K_CVT, AU_F32, 0, no_memory, &i, 1); break;
    case 4: v = raw(g, AU_K_SELECT, AU_F32, 0, no_memory, (AuVal[]){a_flag(g), x, y}, 3); break;
    case 5: v = raw(g, AU_K_SHUFFLE, AU_F32, 0, no_memory, (AuVal[]){x, i}, 2); break;
    default:
        v = raw(g, ops[draw(g, sizeof ops / sizeof *ops)], AU_F32, 0, no_memory, (AuVal[]){x, y},
                2);
    }
    keep(g->floats, &g->float_count, v);
}

static void grow_flag(Grower *g)
{
    static const AuKOp compares[] = {AU_K_LT, AU_K_LE, AU_K_EQ, AU_K_NE};
    const AuKOp op = compares[draw(g, 4)];
    AuVal v;
    switch (draw(g, 5)) {
    case 0: v = raw(g, op, AU_I1, 0, no_memory, (AuVal[]){a_float(g), a_float(g)}, 2); break;
    case 1: v = raw(g, AU_K_LAND, AU_I1, 0, no_memory, (AuVal[]){a_flag(g), a_flag(g)}, 2); break;
    case 2: v = raw(g, AU_K_LOR, AU_I1, 0, no_memory, (AuVal[]){a_flag(g), a_flag(g)}, 2); break;
    case 3: v = raw(g, AU_K_LNOT, AU_I1, 0, no_memory, (AuVal[]){a_flag(g)}, 1); break;
    default: v = raw(g, op, AU_I1, 0, no_memory, (AuVal[]){an_int(g), an_int(g)}, 2);
    }
    keep(g->flags, &g->flag_count, v);
}

/* All places stay within 8 elements of a memory. */
static AuVal an_index(Grower *g, uint32_t count)
{
    const AuVal seven = raw_constant(g, AU_I32, count - 1, 0), i = an_int(g);
    return raw(g, AU_K_AND, AU_I32, 0, no_memory, (AuVal[]){i, seven}, 2);
}

static void grow_memory(Grower *g)
{
    const AuVal i = an_index(g, 8);
    AuVal operands[3] = {i, a_float(g), a_flag(g)};
    switch (draw(g, 3)) {
    case 0: raw(g, AU_K_STORE, AU_VOID, 0, g->own, operands, draw(g, 2) + 2); break;
    case 1:
        keep(g->floats, &g->float_count, raw(g, AU_K_LOAD, AU_F32, 0, g->own, operands, 1));
        break;
    case 2:
        keep(g->floats, &g->float_count, raw(g, AU_K_LOAD, AU_F32, 0, g->in, operands, 1));
        break;
    }
}

static void grow(Grower *g, uint32_t length);

static void grow_region(Grower *g)
{
    const Grower before = *g;
    const uint32_t length = 2 + draw(g, 10);
    if (g->k->depth > 4) return;
    if (draw(g, 2)) {
        const int32_t low = (int32_t)draw(g, 3), high = (int32_t)draw(g, 6);
        const bool down = draw(g, 2);
        const AuVal a = raw_constant(g, AU_I32, low, 0), b = raw_constant(g, AU_I32, high, 0);
        const AuVal v = kernel_for(g->k, down ? b : a, down ? a : b,
                                   down ? -1 - (int32_t)draw(g, 2) : 1 + (int32_t)draw(g, 2),
                                   (AuUnroll)draw(g, 3));
        keep(g->ints, &g->int_count, v);
        grow(g, length);
    } else {
        const AuVal c = a_flag(g);
        kernel_if(g->k, raw(g, AU_K_ANY, AU_I1, 0, no_memory, &c, 1));
        grow(g, length);
        g->int_count = before.int_count, g->float_count = before.float_count,
        g->flag_count = before.flag_count;
        if (draw(g, 2)) {
            kernel_else(g->k);
            grow(g, length);
        }
    }
    kernel_end(g->k);
    g->int_count = before.int_count, g->float_count = before.float_count,
    g->flag_count = before.flag_count;
}

static void grow(Grower *g, uint32_t length)
{
    while (length-- && g->budget) {
        g->budget--;
        const uint32_t what = draw(g, 12);
        if (what < 4)
            grow_int(g);
        else if (what < 7)
            grow_float(g);
        else if (what < 9)
            grow_flag(g);
        else if (what < 11)
            grow_memory(g);
        else
            grow_region(g);
    }
}

/* out[thread * OUTPUTS + n]: the last values of each type, and the lane's memory. */
static AuKernel *grow_kernel(Bench *b, uint64_t seed)
{
    Grower *g = AU_NEW(b->arena, Grower);
    g->random = seed * 2 + 1, g->budget = 120;
    AuKernel *k = g->k = kernel_new(b->arena, "random", LANES, WARPS);
    g->in = kernel_tensor(k, "in", AU_F32, true, false, 0, 0);
    const AuMem out = kernel_tensor(k, "out", AU_F32, false, true, 0, 1);
    g->own =
        kernel_memory(k, (AuMemory){.name = "own", .space = AU_LANE, .scalar = AU_F32, .count = 8});
    keep(g->ints, &g->int_count, kernel_arg(k, "n", AU_ARG_I32, 0, 2, 0));
    keep(g->floats, &g->float_count, kernel_arg(k, "x", AU_ARG_F32, 0, 3, 0));
    keep(g->ints, &g->int_count, kernel_lane(k));
    keep(g->ints, &g->int_count, kernel_warp(k));
    keep(g->ints, &g->int_count, kernel_block(k, 0));
    keep(g->flags, &g->flag_count, kernel_op2(k, AU_K_LT, g->ints[1], g->ints[0]));
    for (int n = 0; n < 8; n++)
        kernel_store(k, g->own, kernel_i32(k, n), kernel_f32(k, n), (AuVal){0});
    grow(g, 60);
    const AuVal warp =
        kernel_op3(k, AU_K_SELECT, kernel_i1(k, true), kernel_warp(k), kernel_i32(k, 0));
    AuVal thread = kernel_op2(
        k, AU_K_ADD, kernel_op2(k, AU_K_MUL, kernel_block(k, 0), kernel_i32(k, WARPS)), warp);
    thread = kernel_op2(k, AU_K_ADD, kernel_op2(k, AU_K_MUL, thread, kernel_i32(k, LANES)),
                        kernel_lane(k));
    const AuVal base = kernel_op2(k, AU_K_MUL, thread, kernel_i32(k, OUTPUTS));
    const AuVal results[OUTPUTS] = {
        g->floats[g->float_count - 1],
        g->floats[g->float_count / 2],
        kernel_cvt(k, g->ints[g->int_count - 1], AU_F32),
        kernel_cvt(k, g->ints[g->int_count / 2], AU_F32),
        kernel_cvt(k, g->flags[g->flag_count - 1], AU_F32),
        kernel_load(k, g->own, kernel_i32(k, 3), 1, (AuVal){0}, (AuVal){0})};
    for (int n = 0; n < OUTPUTS; n++)
        kernel_store(k, out, kernel_op2(k, AU_K_ADD, base, kernel_i32(k, n)), results[n],
                     (AuVal){0});
    return k;
}

typedef struct Result {
    float out[2 * WARPS * LANES * OUTPUTS];
} Result;

static Result run(Bench *b, const AuKernel *k, uint64_t seed)
{
    Result r;
    float in[8] = {1, -2, 0.25f, NAN, 3e38f, -0.0f, 7, 1e-40f};
    AuDiags *diags = au_diags_new(b->arena);
    if (!kernel_verify(k, diags)) fail_msg("seed %d: %s", (int)seed, diags->first->message);
    AuKBuffer buffers[4] = {{in, 8, true}, {r.out, sizeof r.out / sizeof *r.out, false}};
    const float x = 1.75f;
    uint64_t slots[4] = {0, 0, 5, 0};
    memcpy(&slots[3], &x, sizeof x);
    const AuKRun given = {.slots = slots,
                          .buffers = buffers,
                          .grid = {2, 1, 1},
                          .seed = seed,
                          .check_all_written = true};
    const char *why = NULL;
    if (!kernel_run(k, &given, b->arena, &why))
        fail_msg("seed %d: %s\n%s", (int)seed, why, bench_print(b, k));
    return r;
}

static void expect_same(const Result *a, const Result *b, const char *pass, uint64_t seed)
{
    for (size_t n = 0; n < sizeof a->out / sizeof *a->out; n++)
        if (memcmp(&a->out[n], &b->out[n], sizeof(float)) != 0 &&
            !(isnan(a->out[n]) && isnan(b->out[n])))
            fail_msg("%s, seed %d: output %d was %.9g and is %.9g", pass, (int)seed, (int)n,
                     (double)a->out[n], (double)b->out[n]);
}

static uint32_t size_of(const AuKernel *k, uint32_t first)
{
    uint32_t size = 0;
    for (uint32_t i = first; i; i = k->instrs[i].next)
        if (k->instrs[i].op != AU_K_CONST)
            size += 1 + size_of(k, k->instrs[i].body) + size_of(k, k->instrs[i].other);
    return size;
}

static void passes_keep_results(void **state)
{
    (void)state;
    uint64_t before = 0, after = 0;
    for (uint64_t seed = 0; seed < 250; seed++) {
        Bench b = bench_new();
        AuKernel *k = grow_kernel(&b, seed);
        const Result plain = run(&b, k, seed);
        const char *text = bench_print(&b, k);
        AuKernel *again = bench_read(&b, text);
        assert_non_null(again);
        const Result read = run(&b, again, seed + 1);
        expect_same(&plain, &read, "reading", seed);
        before += size_of(k, k->body);
        kernel_simplify(k);
        after += size_of(k, k->body);
        const Result simple = run(&b, k, seed + 2);
        expect_same(&plain, &simple, "simplify", seed);
        kernel_unroll(again, 2000);
        const Result unrolled = run(&b, again, seed);
        expect_same(&plain, &unrolled, "unroll", seed);
        kernel_simplify(again);
        const Result both = run(&b, again, seed);
        expect_same(&plain, &both, "unroll and simplify", seed);
        /* Twice changes nothing. */
        const char *once = bench_print(&b, k);
        kernel_simplify(k);
        const Result twice = run(&b, k, seed);
        expect_same(&plain, &twice, "simplify again", seed);
        assert_true(strlen(bench_print(&b, k)) <= strlen(once) + 64);
        bench_free(&b);
    }
    assert_true(after * 10 < before * 7); /* it does something */
}

/* What the analysis calls uniform is the same in all lanes of the run: each claim is turned into a
 * branch on it. */
static void lane_analysis_tells_the_truth(void **state)
{
    (void)state;
    uint32_t checked = 0;
    for (uint64_t seed = 0; seed < 200; seed++) {
        Bench b = bench_new();
        AuKernel *k = grow_kernel(&b, seed);
        const AuLanes lanes = kernel_lanes(k, b.arena);
        const uint32_t count = k->instr_count;
        for (uint32_t i = k->body, next; i && i < count; i = next) { /* of the outermost region */
            next = k->instrs[i].next;
            const AuInstr in = k->instrs[i];
            if (lanes.kind[i] == AU_VARYING || in.type.scalar != AU_I32 || in.op == AU_K_FOR)
                continue;
            /* value - stride * lane must be the same for all: bounds of a loop, which the
             * interpreter compares */
            const AuVal lane = kernel_lane(k), stride = kernel_i32(k, (int32_t)lanes.stride[i]);
            AuVal base = kernel_op2(k, AU_K_SUB, (AuVal){i}, kernel_op2(k, AU_K_MUL, lane, stride));
            base = kernel_op2(k, AU_K_AND, base, kernel_i32(k, 1));
            kernel_for(k, base, base, 1, AU_UNROLL_AUTO);
            kernel_end(k);
            checked++;
        }
        float in[8] = {1, 2, 3, 4, 5, 6, 7, 8};
        Result r;
        AuKBuffer buffers[4] = {{in, 8, true}, {r.out, sizeof r.out / sizeof *r.out, false}};
        const uint64_t slots[4] = {0, 0, 5, 0};
        const AuKRun given = {.slots = slots, .buffers = buffers, .grid = {2, 1, 1}, .seed = seed};
        const char *why = NULL;
        if (!kernel_run(k, &given, b.arena, &why)) fail_msg("seed %d: %s", (int)seed, why);
        bench_free(&b);
    }
    assert_true(checked > 2000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(passes_keep_results),
                                       cmocka_unit_test(lane_analysis_tells_the_truth)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
