/* matrix_test.c - programs of warps with matrix units, lowered, against the interpreter of the tiled
 * IR: the example of mma.sync, and small programs for what it does not have. */
#include "lowered.h"

static const char causal[] = "causal_softmax.hooks", common[] = "common.hooks";

/* Whatever the order of vectors in rows of shared memory. */
static void check(const Lowered *t)
{
    for (int32_t span = 16; span <= 128; span *= 2) {
        Session s = session_begin();
        Lowered one = *t;
        one.swizzle_span = span;
        lowered_check(&s, &one);
        session_end(&s);
    }
}

static void forward(int32_t heads, int32_t key_heads, int32_t rows, int32_t keys, bool odd)
{
    const Size sizes[] = {{"B", 1},    {"H", heads}, {"Hk", key_heads},
                          {"S", rows}, {"T", keys},  {NULL, 0}};
    check(&(Lowered){
        .file = "mma_sync_forward.tile", .hooks = {common, causal}, .sizes = sizes, .odd = odd});
}

static void test_forward(void **state)
{
    (void)state;
    forward(2, 1, 70, 101, false);
    forward(1, 1, 1, 1, false);
    forward(1, 1, 130, 90, false);
}

static void test_forward_with_strides(void **state)
{
    (void)state;
    forward(1, 1, 20, 40, true);
}

static void backward(int32_t heads, int32_t key_heads, int32_t rows, int32_t keys, bool odd)
{
    const Size sizes[] = {{"B", 1},    {"H", heads}, {"Hk", key_heads},
                          {"S", rows}, {"T", keys},  {NULL, 0}};
    check(&(Lowered){
        .file = "mma_sync_backward.tile", .hooks = {common, causal}, .sizes = sizes, .odd = odd});
}

/* Transposed operands, scores through shared memory, sums into global memory. */
static void test_backward(void **state)
{
    (void)state;
    backward(2, 1, 37, 70, false);
    backward(1, 1, 70, 37, true);
}

/* A loop for each segment of the tile list. */
static void test_split(void **state)
{
    (void)state;
    const Size sizes[] = {{"B", 1}, {"H", 2}, {"Hk", 2}, {"S", 70}, {"T", 101}, {NULL, 0}};
    check(&(Lowered){
        .file = "mma_sync_forward.tile", .hooks = {common, causal}, .sizes = sizes, .split = true});
    check(&(Lowered){.file = "mma_sync_backward.tile",
                     .hooks = {common, causal},
                     .sizes = sizes,
                     .split = true});
}

/* Tensors in the pieces of an operand: as a fragment of that layout, rows by lanes, and element by element, which all must mean the
 * same elements; the test knows where each lies. */
static void test_packed(void **state)
{
    (void)state;
    static const char program[] =
        "target %s\n"
        "layout across = rows(lane:2@16 reg) cols(reg:4 lane:16@1)\n"
        "kernel add(x: in f32[h:H, q:S, d:64], y: inout f32[h:H, q:cdiv(S, 32) * 32, d:64] packed "
        "mma16816.C,\n"
        "           w: out f32[h:H, q:cdiv(S, 32) * 32, d:64] packed mma16816.C)\n"
        "grid(m: cdiv(S, 32), h: H) {\n"
        "    role r[2] on warp {\n"
        "        frag part: f32[q:32, d:32] @ mma16816.C\n"
        "        part = load x[h, m * 32 +: 32, self * 32 +: 32] pad 0\n"
        "        atomic_add part -> y[h, m * 32 +: 32, self * 32 +: 32]\n"
        "        part = 2.0 * part\n"
        "        atomic_add part -> y[h, m * 32 +: 32, self * 32 +: 32] clip\n"
        "        store part -> w[h, m * 32 +: 32, self * 32 +: 32]\n"
        "    }\n"
        "}\n"
        "kernel take(x: in f32[h:H, q:S, d:64], y: in f32[h:H, q:cdiv(S, 32) * 32, d:64] packed "
        "mma16816.C,\n"
        "            w: in f32[h:H, q:cdiv(S, 32) * 32, d:64] packed mma16816.C, z: out f32[h:H, "
        "q:S, d:64],\n"
        "            v: out f32[h:H, q:S, d:64])\n"
        "grid(m: cdiv(S, 16), h: H) {\n"
        "    role r on warp {\n"
        "        given = load y[h, m * 16 +: 16, :] @ across\n"
        "        i = m * 16 + iota(q:16)\n"
        "        c = iota(d:64)\n"
        "        store given + w[h, i, 63 - c] -> z[h, m * 16 +: 16, :] clip\n"
        "        frag part: f32[q:16, d:64] @ mma16816.C\n"
        "        part = load w[h, m * 16 +: 16, :]\n"
        "        store part -> v[h, m * 16 +: 16, :] clip\n"
        "    }\n"
        "}\n";
    const Size sizes[] = {{"H", 2}, {"S", 41}, {NULL, 0}};
    static const char *const targets[] = {"sm_80", "sm_90"};
    for (uint32_t n = 0; n < 2; n++) {
        Session s = session_begin();
        const Lowered t = {.file = targets[n],
                           .text = au_format(s.arena, program, targets[n]),
                           .sizes = sizes,
                           .tolerance = 1e-6};
        lowered_check(&s, &t);
        AuText text = {.arena = s.arena};
        kernel_print(lowered_kernel(&s, &t, lowered_module(&s, &t), 0), &text);
        const bool wide = strstr(au_text_str(&text), "f32x4") != NULL;
        assert_true(wide == (n == 1)); /* four at once where a sum takes them */
        session_end(&s);
    }
}

/* Operands of f32, rounded by the unit: squares of shared memory; a fragment that lies as sums do, with rows of V in its order;
 * both operands element by element. What is left of the two interpreters' differences is the order of sums. */
static void test_tf32(void **state)
{
    (void)state;
    static const char text[] =
        "target sm_80\n"
        "kernel products(q: in f32[q:16, d:24], k: in f32[kv:32, d:24], v: in f32[kv:32, e:8],\n"
        "                w: in f32[q:16, kv:32], s: out f32[q:16, kv:32], o: out f32[q:16, e:8],\n"
        "                g: out f32[d:16, e:8])\n"
        "grid(m: 1) {\n"
        "    shared Q: f32[q:16, d:24] swizzle 32\n"
        "    shared K: f32[kv:32, d:24] swizzle 32\n"
        "    shared V: f32[kv:32, e:8] swizzle 32\n"
        "    role r on warp {\n"
        "        copy q[:, :] -> Q[:, :]\n"
        "        copy k[:, :] -> K[:, :]\n"
        "        copy v[:, :] -> V[:, :]\n"
        "        score = mma1688tf32(Q, K)\n"
        "        store score -> s[:, :]\n"
        "        weight = load w[:, :] like score\n"
        "        acc = mma1688tf32(weight, V)\n"
        "        store acc -> o[:, :]\n"
        "        back = mma1688tf32(K[:, 0 +: 16], V)\n"
        "        store back -> g[:, :]\n"
        "    }\n}\n";
    const Size sizes[] = {{NULL, 0}};
    check(&(Lowered){.file = "tf32", .text = text, .sizes = sizes, .tolerance = 0x1p-20});
}

/* Quad pairs of lanes: every form of the instruction, by what is the last axis of A and of B. */
static void test_quad_pairs(void **state)
{
    (void)state;
    static const char text[] =
        "target sm_70\n"
        "kernel products(q: in f16[q:32, d:24], k: in f16[kv:48, d:24], v: in f16[kv:48, e:16],\n"
        "                w: in f16[q:32, kv:48], s: out f32[q:32, kv:48], o: out f32[q:32, e:16],\n"
        "                g: out f32[d:16, e:16], h: out f32[e:16, q:32])\n"
        "grid(m: 1) {\n"
        "    shared Q: f16[q:32, d:24] swizzle 16\n"
        "    shared K: f16[kv:48, d:24] swizzle 16\n"
        "    shared V: f16[kv:48, e:16] swizzle 32\n"
        "    shared W: f16[q:32, kv:48] swizzle 32\n"
        "    role r on warp {\n"
        "        copy q[:, :] -> Q[:, :]\n"
        "        copy k[:, :] -> K[:, :]\n"
        "        copy v[:, :] -> V[:, :]\n"
        "        copy w[:, :] -> W[:, :]\n"
        "        score = mma884(Q, K)\n"
        "        store score -> s[:, :]\n"
        "        acc = mma884(W, V)\n"
        "        store acc -> o[:, :]\n"
        "        back = mma884(K[:, 4 +: 16], V)\n"
        "        store back -> g[:, :]\n"
        "        turned = mma884(V, W)\n"
        "        store turned -> h[:, :]\n"
        "    }\n}\n";
    const Size sizes[] = {{NULL, 0}};
    const Lowered t = {.file = "m8n8k4", .text = text, .sizes = sizes, .tolerance = 0x1p-20};
    check(&t);
    Session s = session_begin();
    AuText printed = {.arena = s.arena};
    kernel_print(lowered_kernel(&s, &t, lowered_module(&s, &t), 0), &printed);
    static const char *const forms[] = {"row_col", "row_row", "col_row", "col_col", "load.f16x4"};
    for (size_t n = 0; n < sizeof forms / sizeof *forms; n++)
        if (!strstr(au_text_str(&printed), forms[n])) fail_msg("no %s", forms[n]);
    session_end(&s);
}

/* Pages by a table, tiles of indices that a loop moves on, states that warps join. */
static void decode(int32_t heads, int32_t key_heads, int32_t rows)
{
    const Size sizes[] = {{"B", 2},   {"H", heads}, {"Hk", key_heads}, {"S", rows},
                          {"P", 200}, {"Pmax", 13}, {NULL, 0}};
    Session s = session_begin();
    lowered_check(
        &s, &(Lowered){
                .file = "decode.tile", .hooks = {common, causal}, .sizes = sizes, .integers = 200});
    session_end(&s);
}

/* Codes that become operands in registers: keys whose channels lie side by side in a lane, values whose channels lie as the sums do, whole bytes and
 * halves of them, by an instruction and by the same with its operands exchanged, whose weights lanes exchange. */
static void test_codes_as_operands(void **state)
{
    (void)state;
    static const char text[] =
        "target %s\n"
        "layout of_query = rows(lane:8@4 reg) cols(reg:%d lane:4@1)\n"
        "layout of_key = rows(lane:8@4 reg) cols(reg:%d lane:4@1)\n"
        "layout of_value = rows(reg:2 lane:4@1 reg:2) cols(reg:8 lane:8@4)\n"
        "layout of_sums = rows(%s) cols(%s)\n"
        "kernel products(q: in bf16[q:%d, d:%d], k: in %s[kv:32, d:64], v: in %s[kv:32, e:%d],\n"
        "                s: out f32[q:%d, kv:32], o: out f32[q:%d, e:64])\n"
        "grid(m: 1) {\n"
        "    shared Q: bf16[q:%d, d:%d]\n"
        "    shared K: %s[kv:32, d:64] swizzle 64\n"
        "    shared V: %s[kv:32, e:%d]\n"
        "    role r on warp {\n"
        "        copy q[:, :] -> Q[:, :]\n"
        "        copy k[:, :] -> K[:, :]\n"
        "        copy v[:, :] -> V[:, :]\n"
        "        query = load Q[:, :] @ of_query\n"
        "        frag keys: bf16[kv:32, d:%d] @ of_key\n"
        "        frag values: bf16[kv:32, e:64] @ of_value\n"
        "        frag acc: f32[q:%d, e:64] @ of_sums = 1.0\n"
        "        keys = load K[:, :]%s\n"
        "        score = %s(query, keys)\n"
        "        store score -> s[:, :]\n"
        "        frag weight: bf16[q:%d, kv:32] like score\n"
        "        weight = bf16(score)\n"
        "        rows = convert weight @ %s.A\n"
        "        values = load V[:, :]%s\n"
        "        acc += %s(rows, values)\n"
        "        store acc -> o[:, :]\n"
        "    }\n}\n";
    static const char *const targets[] = {"sm_80", "sm_90"}, *const codes[] = {"e4m3", "i8", "i8"};
    const Size none[] = {{NULL, 0}};
    for (int n = 0; n < 12; n++) {
        Session s = session_begin();
        const bool halves = n % 3 == 2, narrow = n / 6;
        const char *code = codes[n % 3], *how = halves ? " halves" : "",
                   *atom = narrow ? "mma81616" : "mma16816";
        const int rows = narrow ? 8 : 16, width = halves ? 128 : 64, e = halves ? 32 : 64;
        lowered_check(&s, &(Lowered){.file = atom,
                                     .text = au_format(
                                         s.arena, text, targets[n / 3 % 2], width / 4, width / 4,
                                         narrow ? "reg:2 lane:4@1" : "lane:8@4 reg:2",
                                         narrow ? "reg:8 lane:8@4" : "reg:16 lane:4@1", rows, width,
                                         code, code, e, rows, rows, rows, width, code, code, e,
                                         width, rows, how, atom, rows, atom, how, atom),
                                     .sizes = none,
                                     .tolerance = 0x1p-20});
        session_end(&s);
    }
}

/* Rows at places that lanes hold, one a lane, in another order of lanes, and several a lane; some of no page, some that are left out. */
static void test_gather(void **state)
{
    (void)state;
    static const char program[] =
        "target sm_80\n"
        "const D = %d\n"
        "layout held = rows(%s)\n"
        "layout across = rows(reg) cols(reg:2 lane:4@1 reg)\n"
        "kernel gather(k: in f16[page:P, h:2, slot:7, d:D], table: in i32[h:2, n:%d], o: out "
        "f16[h:2, kv:%d, d:D])\n"
        "grid(h: 2) {\n"
        "    shared K: f16[kv:%d, d:D] swizzle 32\n"
        "    role r on warp {\n"
        "        frag page: i32[kv:%d] @ held = 0\n"
        "        frag slot: i32[kv:%d] @ held = 0\n"
        "        j = iota(kv:%d)\n"
        "        page = table[h, j]\n"
        "        slot = (3 * j + h) %% 7\n"
        "        %scopy k[page, h, slot, :] as [kv, d] -> K[:, :] pad 0 when j != 5 + h\n"
        "        %s\n"
        "        row = load K[:, :] @ across\n"
        "        store row -> o[h, :, :]\n"
        "    }\n}\n";
    static const struct {
        const char *layout;
        int32_t rows, width;
    } cases[] = {{"lane:32@1", 32, 64}, {"lane:16@1", 16, 128},        {"lane:32@1", 32, 24},
                 {"lane:24@1", 24, 64}, {"lane:8@4 lane:4@1", 32, 64}, {"lane:16@1 reg", 48, 32},
                 {"lane:32@1", 8, 512}};
    for (size_t n = 0; n < 2 * sizeof cases / sizeof *cases; n++) {
        const int32_t rows = cases[n / 2].rows;
        const bool async = n % 2 == 0;
        const Size sizes[] = {{"P", 6}, {NULL, 0}};
        for (int32_t odd = 0; odd < 2; odd++) {
            Session s = session_begin();
            const char *text = au_format(s.arena, program, cases[n / 2].width, cases[n / 2].layout,
                                         rows, rows, rows, rows, rows, rows,
                                         async ? "t = async " : "", async ? "wait t" : "sync self");
            lowered_check(
                &s, &(Lowered){
                        .file = "gather", .text = text, .sizes = sizes, .integers = 8, .odd = odd});
            session_end(&s);
        }
    }
}

static void test_decode(void **state)
{
    (void)state;
    decode(4, 1, 1);
    decode(8, 2, 3);
}

/* Running sums of gates, a state that a loop over chunks carries. */
static void test_linear(void **state)
{
    (void)state;
    static const int32_t keys[] = {1, 64, 65, 150};
    for (size_t n = 0; n < sizeof keys / sizeof *keys; n++) {
        const Size sizes[] = {
            {"B", 1}, {"H", 2}, {"T", keys[n]}, {"V", n % 2 ? 32 : 40}, {NULL, 0}};
        check(&(Lowered){.file = "linear_forward.tile", .sizes = sizes});
    }
}

/* Neighbours in registers or in lanes; of a warp and of a core. */
static void test_running_sums(void **state)
{
    (void)state;
    static const char program[] =
        "target %s\n"
        "layout mixed = rows(reg:2 lane:%d@1 reg)\n"
        "layout lanes = rows(lane:%d@1)\n"
        "kernel sums(x: in f32[h:H, kv:64], y: out f32[h:H, kv:64], z: out f32[h:H, kv:64])\n"
        "grid(h: H) {\n"
        "    role r on %s {\n"
        "        g = load x[h, :] @ mixed\n"
        "        g = cumsum(g * 0.5, kv)\n"
        "        store g -> y[h, :]\n"
        "        k = load x[h, :] @ lanes\n"
        "        k = cumsum(k, kv)\n"
        "        store k -> z[h, :]\n"
        "    }\n"
        "}\n";
    static const struct {
        const char *name, *executor;
        int lanes;
    } targets[] = {{"sm_80", "warp", 32}, {"gfx90a", "warp", 64}, {"avx512", "thread", 16}};
    const Size sizes[] = {{"H", 3}, {NULL, 0}};
    for (size_t n = 0; n < sizeof targets / sizeof *targets; n++) {
        Session s = session_begin();
        const int lanes = targets[n].lanes;
        const char *text = au_format(s.arena, program, targets[n].name, lanes < 32 ? lanes : 32,
                                     lanes, targets[n].executor);
        lowered_check(
            &s, &(Lowered){
                    .file = targets[n].name, .text = text, .sizes = sizes, .tolerance = 0x1p-20});
        session_end(&s);
    }
}

/* Waves without shared memory: operands from tensors; weights as the next operand, or by an exchange of the halves; 64 lanes; matrices whose elements lie nobody knows how. */
static void test_waves(void **state)
{
    (void)state;
    static const char *const files[] = {"wmma_forward.tile", "wmma11_forward.tile",
                                        "mfma_forward.tile", "coopmat_forward.tile"};
    const Size sizes[] = {{"B", 1}, {"H", 2}, {"Hk", 1}, {"S", 70}, {"T", 101}, {NULL, 0}},
               one[] = {{"B", 1}, {"H", 1}, {"Hk", 1}, {"S", 1}, {"T", 1}, {NULL, 0}};
    for (size_t n = 0; n < sizeof files / sizeof *files; n++) {
        check(&(Lowered){.file = files[n], .hooks = {common, causal}, .sizes = sizes});
        check(&(Lowered){.file = files[n], .hooks = {common, causal}, .sizes = one});
    }
}

/* Fragments of 16 bits to shared memory by rows of matrices: sums, operands, rows and columns exchanged, a part of a tile that is wider
 * than its swizzle, half as many matrices; what begins inside of a vector goes by lanes. */
static const char stores[] =
    "target %s\n"
    "option matrix_stores = 1\n"
    "kernel turn(x: in bf16[q:128, d:48], y: out bf16[q:128, d:48], z: out bf16[d:48, q:128],\n"
    "            w: out bf16[q:128, d:48], v: out bf16[q:128, d:48], u: out bf16[n:2, q:128, "
    "d:8])\n"
    "grid(m: 1) {\n"
    "    shared A: bf16[q:128, d:48] swizzle 32\n"
    "    shared B: bf16[d:48, q:128] swizzle 128\n"
    "    shared C: bf16[q:128, d:80] swizzle 32\n"
    "    shared D: bf16[q:128, d:64] swizzle 128\n"
    "    role r[2] on %s {\n"
    "        part = load x[self * 64 +: 64, :] @ %s.C\n"
    "        operand = load x[self * 64 +: 64, :] @ %s.A\n"
    "        narrow = load x[self * 64 +: 64, 40 +: 8] @ %s.C\n"
    "        store bf16(2.0 * f32(part)) -> A[self * 64 +: 64, :]\n"
    "        store operand -> B[:, self * 64 +: 64]\n"
    "        store operand -> C[self * 64 +: 64, 16 +: 48]\n"
    "        store part -> D[self * 64 +: 64, 0 +: 48]\n"
    "        store narrow -> C[self * 64 +: 64, 64 +: 8]\n"
    "        store narrow -> D[self * 64 +: 64, 52 +: 8]\n"
    "        sync self\n"
    "        first = load A[self * 64 +: 64, :] like part\n"
    "        store first -> y[self * 64 +: 64, :]\n"
    "        second = load C[self * 64 +: 64, 16 +: 48] like part\n"
    "        store second -> w[self * 64 +: 64, :]\n"
    "        third = load D[self * 64 +: 64, 0 +: 48] like part\n"
    "        store third -> v[self * 64 +: 64, :]\n"
    "        fourth = load B[:, self * 64 +: 64] like operand\n"
    "        store fourth -> z[:, self * 64 +: 64]\n"
    "        fifth = load C[self * 64 +: 64, 64 +: 8] like narrow\n"
    "        store fifth -> u[0, self * 64 +: 64, :]\n"
    "        last = load D[self * 64 +: 64, 52 +: 8] like narrow\n"
    "        store last -> u[1, self * 64 +: 64, :]\n"
    "    }\n"
    "}\n";

static uint32_t lines_with(const char *text, const char *first, const char *second)
{
    uint32_t count = 0;
    for (const char *at = text; (at = strstr(at, first)); at += strlen(first)) {
        const char *found = strstr(at, second);
        count += found && found < strchr(at, '\n');
    }
    return count;
}

/* What is said of the kernel with [instead] for the first [what] of its stores. */
static const char *changed_store(Session *s, const LoweredBench *bench, const char *text,
                                 const char *what, const char *instead)
{
    const char *at = strstr(strstr(text, "store_matrix"), what);
    const char *other =
        au_format(s->arena, "%.*s%s%s", (int)(at - text), text, instead, at + strlen(what));
    AuKernel *k = kernel_read(s->arena, au_names_new(s->arena), s->diags,
                              au_source_add(s->diags, "changed", other, strlen(other)));
    assert_true(k && kernel_verify(k, s->diags));
    return lowered_run(bench, s->arena, k, 1);
}

static void test_matrix_stores(void **state)
{
    (void)state;
    static const struct {
        const char *target, *executor, *atom;
        uint32_t rows; /* of a lane, by two */
    } cases[] = {{"sm_90a", "warpgroup", "wgmma", 1},
                 {"sm_90", "warp", "mma16816", 4},
                 {"sm_89", "warp", "mma16816", 0}};
    const Size none[] = {{NULL, 0}};
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        Session s = session_begin();
        const char *atom = cases[n].atom;
        const Lowered t = {.file = cases[n].target,
                           .text = au_format(s.arena, stores, cases[n].target, cases[n].executor,
                                             atom, atom, atom),
                           .sizes = none};
        const LoweredBench *bench = lowered_bench(&s, &t);
        AuText all = {.arena = s.arena};
        kernel_print(lowered_bench_kernel(bench, 0), &all);
        const char *text = au_text_str(&all);
        assert_null(lowered_run(bench, s.arena, NULL, 0));
        assert_int_equal(lines_with(text, "store_matrix @", "#4"), 9 * cases[n].rows);
        assert_int_equal(lines_with(text, "store_matrix @B", "#12"), 3 * cases[n].rows);
        assert_int_equal(lines_with(text, "store_matrix @C", "#2"), cases[n].rows);
        if (cases[n].rows) { /* planted */
            assert_non_null(changed_store(&s, bench, text, "#12", "#4"));
            assert_non_null(changed_store(&s, bench, text, "#4", "#12"));
        }
        session_end(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forward),       cmocka_unit_test(test_forward_with_strides),
        cmocka_unit_test(test_backward),      cmocka_unit_test(test_split),
        cmocka_unit_test(test_packed),        cmocka_unit_test(test_tf32),
        cmocka_unit_test(test_quad_pairs),    cmocka_unit_test(test_decode),
        cmocka_unit_test(test_gather),        cmocka_unit_test(test_waves),
        cmocka_unit_test(test_linear),        cmocka_unit_test(test_running_sums),
        cmocka_unit_test(test_matrix_stores), cmocka_unit_test(test_codes_as_operands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
