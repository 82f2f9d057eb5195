/* text_test.c - what the lowering of warps writes: waits as late as they may be, barriers only where
 * lanes of one executor meet, few instructions for a pair; and what it refuses. */
#include "lowered.h"

static const Size sizes[] = {{"B", 1}, {"H", 1}, {"Hk", 1}, {"S", 64}, {"T", 128}, {NULL, 0}};

static const char *text_of(Session *s, const Lowered *t)
{
    AuText text = {.arena = s->arena};
    kernel_print(lowered_kernel(s, t, lowered_module(s, t), 0), &text);
    return au_text_str(&text);
}

static uint32_t count(const char *text, const char *what)
{
    uint32_t n = 0;
    for (const char *at = text; (at = strstr(at, what)); at += strlen(what)) n++;
    return n;
}

/* Three tiles in flight: a wait for the oldest leaves two, the last ones fewer. */
static const char pipeline[] =
    "target sm_80\n"
    "kernel forward(k: in bf16[kv:T, d:64], o: out f32[kv:T, d:64])\n"
    "grid(nb: 1) {\n"
    "    shared K: bf16[stage:3, kv:32, d:64] swizzle 128\n"
    "    role core[1] on warp {\n"
    "        a = async copy k[0 +: 32, :] -> K[0, :, :] pad 0\n"
    "        b = async copy k[32 +: 32, :] -> K[1, :, :] pad 0\n"
    "        for n in range(0, 3) {\n"
    "            c = async copy k[n * 32 + 64 +: 32, :] -> K[2, :, :] pad 0\n"
    "            wait a\n"
    "            x = load K[0, :, :] @ mma16816.A\n"
    "            a = async copy k[n * 32 +: 32, :] -> K[0, :, :] pad 0\n"
    "            wait c\n"
    "        }\n"
    "        wait a\n"
    "        wait b\n"
    "        y = load K[1, :, :] @ mma16816.A\n"
    "        store f32(y) -> o[0 +: 32, :] clip\n"
    "    }\n"
    "}\n";

static void test_waits(void **state)
{
    (void)state;
    Session s = session_begin();
    const char *text =
        text_of(&s, &(Lowered){.file = "pipeline", .text = pipeline, .sizes = sizes});
    /* In the loop: c alone is after a, then a after c. After it, which may not have run, both may be
     * the last. */
    assert_int_equal(count(text, "copy_wait #1"), 2);
    assert_int_equal(count(text, "copy_wait #0"), 2);
    session_end(&s);
}

/* Weights that lanes of gfx11 exchange: 16 x 32 are 16 numbers a lane, which pass by 4 at once; none asks a lane for one number. Of f32 a
 * word is a number. */
static const char halves[] = "target gfx1100\n"
                             "kernel turn(x: in %s[q:16, kv:32], o: out %s[q:16, kv:32])\n"
                             "grid(mb: 1) {\n"
                             "    role core[1] on warp {\n"
                             "        sums = load x[:, :] @ wmma11.C\n"
                             "        rows = convert sums @ wmma11.A\n"
                             "        store rows -> o[:, :]\n"
                             "    }\n"
                             "}\n";

static void test_halves(void **state)
{
    (void)state;
    static const char *const elements[] = {"f16", "bf16", "f32"};
    for (size_t n = 0; n < sizeof elements / sizeof *elements; n++) {
        Session s = session_begin();
        const Lowered program = {.file = elements[n],
                                 .text = au_format(s.arena, halves, elements[n], elements[n]),
                                 .sizes = sizes};
        const char *text = text_of(&s, &program);
        assert_int_equal(count(text, au_format(s.arena, "both.%sx8 ", elements[n])), 4);
        assert_int_equal(count(text, "shuffle"), 0);
        lowered_check(&s, &program);
        session_end(&s);
    }
}

/* A warp that reads what it wrote itself. */
static const char exchange[] =
    "target sm_80\n"
    "kernel turn(q: in bf16[q:S, d:32], k: in bf16[kv:T, d:32], o: out f32[q:S, e:16])\n"
    "grid(mb: cdiv(S, 16)) {\n"
    "    shared X: bf16[q:16, kv:16] swizzle 32\n"
    "    shared K: bf16[kv:16, d:32] swizzle 64\n"
    "    role core[1] on warp {\n"
    "        frag score: f32[q:16, kv:16] @ mma16816.C\n"
    "        frag acc: f32[q:16, e:16] @ mma16816.C = 0.0\n"
    "        query = load q[mb * 16 +: 16, :] @ mma16816.A pad 0\n"
    "        for n in range(0, 2) {\n"
    "            copy k[n * 16 +: 16, :] -> K[:, :] pad 0\n"
    "            score = mma16816(query, K[:, :])\n"
    "            store bf16(score) -> X[:, :]\n"
    "            acc += mma16816(X[:, :], K[:, 16 +: 16] as [kv, e])\n"
    "        }\n"
    "        store acc -> o[mb * 16 +: 16, :] clip\n"
    "    }\n"
    "}\n";

static void test_barriers(void **state)
{
    (void)state;
    Session s = session_begin();
    const Lowered t = {.file = "exchange", .text = exchange, .sizes = sizes};
    const char *text = text_of(&s, &t);
    assert_int_equal(count(text, "barrier #0"), 0);
    /* around the copy, after the store */
    assert_int_equal(count(text, "barrier #1"), 3);
    lowered_check(&s, &t);
    session_end(&s);
}

/* Hints stand around each product and mean nothing. */
static void test_hints(void **state)
{
    (void)state;
    Session s = session_begin();
    const Lowered plain = {.file = "exchange", .text = exchange, .sizes = sizes};
    const Lowered t = {.file = "exchange",
                       .text = au_format(s.arena, "target sm_80\noption hints = 3\n%s",
                                         strchr(exchange, '\n') + 1),
                       .sizes = sizes};
    const char *text = text_of(&s, &t);
    const uint32_t products = count(text, "hint #1");
    assert_true(products >= 2);
    assert_int_equal(count(text, "hint #0"), products);
    assert_int_equal(count(text, "hint #2"), products);
    assert_int_equal(count(text_of(&s, &plain), "hint"), 0);
    lowered_check(&s, &t);
    session_end(&s);
}

/* Rows of a core: the third block has four of its eight. */
static const char rows_of_core[] = "target avx512\n"
                                   "layout along = rows(lane:16@1)\n"
                                   "kernel scaled(k: in bf16[kv:T, d:64], o: out f32[kv:T, d:64])\n"
                                   "grid(nb: cdiv(T, 8)) {\n"
                                   "    role core on thread {\n"
                                   "        private K: bf16[kv:8, d:64]\n"
                                   "        frag x: bf16[d:64] @ along\n"
                                   "        frag y: f32[d:64] @ along = 0.0\n"
                                   "        prefetch k[nb * 8 + 8 +: 8, :]\n"
                                   "        copy k[nb * 8 +: 8, :] -> K pad 0\n"
                                   "        for n in range(0, 8) {\n"
                                   "            x = load K[n, :]\n"
                                   "            y = fma(f32(x), 0.1, y)\n"
                                   "            store y -> o[nb * 8 + n, :] clip\n"
                                   "        }\n"
                                   "    }\n"
                                   "}\n";

/* Numbers of 16 bits are copied a whole register at a time where rows are there and lie side by side; what is rounded once is, whatever is beside it. */
static void test_cores(void **state)
{
    (void)state;
    Session s = session_begin();
    const Size few[] = {{"T", 20}, {NULL, 0}};
    Lowered t = {
        .file = "rows", .text = rows_of_core, .sizes = few, .of_core = true, .tolerance = 1e-30};
    const char *text = text_of(&s, &t);
    assert_int_equal(count(text, "= load.bf16x2 @k"), 64 / (2 * 16));
    assert_int_equal(count(text, "prefetch @k"), 2);
    assert_int_equal(count(text, "= fma.f32"), 1); /* a loop */
    assert_int_equal(count(text, "= add.f32"), 0);
    lowered_check(&s, &t);
    t.odd = true;
    lowered_check(&s, &t);
    session_end(&s);
}

/* The loop over full tiles of mma_sync_forward.tile. */
static const char *full_loop(Session *s, const Lowered *t)
{
    const char *text = text_of(s, t);
    const char *loops = strstr(text, "\n  for %"),
               *full = loops ? strstr(loops + 1, "\n  for %") : NULL;
    assert_non_null(full);
    const char *end = strstr(full, "\n  }\n");
    assert_non_null(end);
    AuText body = {.arena = s->arena};
    au_text_bytes(&body, full, (size_t)(end - full));
    return au_text_str(&body);
}

enum { PAIRS = 16 * 32 / 32 }; /* of a lane */

/* The branch of rows that are far from 0, which other warps pass by. */
static const char *branch_of(Session *s, const char *loop)
{
    const char *vote = strstr(loop, "= any.i1"), *begin = vote ? strstr(vote, "if %") : NULL,
               *end = begin ? strstr(begin, "\n    }") : NULL;
    assert_non_null(end);
    AuText body = {.arena = s->arena};
    au_text_bytes(&body, begin, (size_t)(end - begin));
    return au_text_str(&body);
}

/* The loop of a causal softmax: one exp2 a pair, no other function, no selection in full tiles but in the branch. */
static void test_pairs(void **state)
{
    (void)state;
    Session s = session_begin();
    const char *inside = full_loop(&s, &(Lowered){.file = "mma_sync_forward.tile",
                                                  .hooks = {"common.hooks", "causal_softmax.hooks"},
                                                  .sizes = sizes,
                                                  .split = true});
    assert_int_equal(count(inside, "= exp2.f32"), PAIRS);
    assert_int_equal(count(inside, "= exp.f32"), 2); /* the factor of the rows */
    assert_int_equal(count(inside, "= mma.f32x4"), 2 * PAIRS);
    const char *branch = branch_of(&s, inside);
    assert_int_equal(count(branch, "= select.f32"), PAIRS + 2);
    assert_int_equal(count(branch, "= exp2.f32"), 0);
    assert_int_equal(count(inside, "= any.i1"), 1);
    assert_true(count(inside, "= select.f32") - PAIRS - 2 <= 10); /* of rows */
    assert_int_equal(count(inside, "shuffle_xor"), 4); /* maxima; sums wait for the end */
    session_end(&s);
}

/* A slope times the distance of positions costs a pair one multiply-add: a lane converts the place of its first column, to which those of the
 * others are added as numbers, and the results are those of the program as it is written. */
static void test_distances(void **state)
{
    (void)state;
    static const struct {
        const char *score;
        uint32_t fma, conversions;
    } cases[] = {
        {"s * rsqrt(D) - 0.25 * f32(i - j)", 2 * PAIRS, 1},
        {"s * rsqrt(D) + f32(j - i) / 16.0 + f32(i + (T - S) - j) * 0.125", 3 * PAIRS, 2},
        {"s * exp2(-0.125 * f32(i - j))", PAIRS, 1},
    };
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        Session s = session_begin();
        const char *causal = example_text(s.arena, "causal_softmax.hooks");
        const Lowered t = {
            .file = "mma_sync_forward.tile",
            .hooks = {"common.hooks", replaced(s.arena, causal, "s * rsqrt(D)\n",
                                               au_format(s.arena, "%s\n", cases[n].score))},
            .sizes = sizes,
            .split = true};
        const char *inside = full_loop(&s, &t);
        assert_int_equal(count(inside, "= cvt.f32 "), cases[n].conversions);
        assert_int_equal(count(inside, "= fma.f32"), cases[n].fma + 2); /* and two of rows */
        lowered_check(&s, &t);
        session_end(&s);
    }
}

/* Tiles from a list in memory, copied a turn ahead. */
static const char ahead[] =
    "target sm_80\n"
    "kernel walk(k: in bf16[b:B, kv:T, d:64], order: in i32[n:Hk], o: out f32[kv:S, d:64])\n"
    "grid(b: B) {\n"
    "    tiles keys = full: list(order[:], Hk)\n"
    "    shared K: bf16[stage:2, kv:32, d:64] swizzle 128\n"
    "    role core[1] on warp {\n"
    "        frag sum: f32[kv:32, d:64] @ mma16816.A = 0.0\n"
    "        at = 0\n"
    "        a = async copy k[b, first(keys) * 32 +: 32, :] -> K[at, :, :] pad 0\n"
    "        for n in keys {\n"
    "            wait a\n"
    "            a = async copy k[b, next(n) * 32 +: 32, :] -> K[1 - at, :, :] pad 0\n"
    "            x = load K[at, :, :] @ mma16816.A\n"
    "            sum = sum + f32(x)\n"
    "            at = 1 - at\n"
    "        }\n"
    "        wait a\n"
    "        store sum -> o[0 +: 32, :] clip\n"
    "    }\n"
    "}\n";

/* In the loop: one read of the list, for the turn after the next; the copy's address is the lane's plus the tile's first row times
 * the distance of rows, in vectors of 8. */
static void test_ahead(void **state)
{
    (void)state;
    Session s = session_begin();
    const Size few[] = {{"B", 1}, {"S", 32}, {"T", 100}, {"Hk", 5}, {NULL, 0}};
    const Lowered t = {.file = "ahead", .text = ahead, .sizes = few};
    const char *loop = strstr(text_of(&s, &t), "\n  for %");
    assert_non_null(loop);
    const char *copy = strstr(loop, "note \"a = async copy"), *slow = strstr(loop, "    } else {");
    assert_true(copy && slow && copy < slow);
    AuText fast = {.arena = s.arena};
    au_text_bytes(&fast, copy, (size_t)(slow - copy));
    assert_int_equal(count(loop, "@order["), 1);
    assert_int_equal(count(au_text_str(&fast), "= mul.i64"), 2);
    lowered_check(&s, &t);
    session_end(&s);
}

/* Addresses in rows of swizzle spans: of one vector a base and constants; of two load_matrix needs no more, only copies, whose lanes
 * walk down the rows, turn vectors; of eight every place of a vector is an operation, which loads share. */
static void test_swizzle_spans(void **state)
{
    (void)state;
    static const int32_t spans[] = {16, 32, 128};
    uint32_t operations[3], loads[3];
    for (size_t n = 0; n < 3; n++) {
        Session s = session_begin();
        const char *text = text_of(&s, &(Lowered){.file = "mma_sync_forward.tile",
                                                  .hooks = {"common.hooks", "causal_softmax.hooks"},
                                                  .sizes = sizes,
                                                  .swizzle_span = spans[n]});
        operations[n] = count(text, "= xor.i32"), loads[n] = count(text, "load_matrix");
        session_end(&s);
    }
    assert_int_equal(operations[0], 0);
    assert_true(operations[1] > 0 && operations[1] < operations[2]);
    assert_true(loads[0] > 0 && loads[0] == loads[1] && loads[0] == loads[2]);
}

static void refuses_in(const char *text, const char *old, const char *with, const char *what)
{
    Session s = session_begin();
    const Lowered t = {.file = "text", .text = replaced(s.arena, text, old, with), .sizes = sizes};
    AuTileModule *m = lowered_module(&s, &t);
    assert_null(lowered_try(&s, &t, m, 0));
    if (!strstr(session_errors(&s), what)) fail_msg("%s", session_errors(&s));
    session_end(&s);
}

static void refuses(const char *old, const char *with, const char *what)
{
    refuses_in(exchange, old, with, what);
}

/* Keys in pairs of keys, which a product that sums over channels cannot read; pairs from the odd on; and tensors, whose
 * strides nobody knows. */
static const char in_pairs[] = "target avx512bf16\n"
                               "kernel forward(k: in bf16[kv:T, d:16], w: in bf16[x:16, q:16],\n"
                               "               o: out f32[e:16, q:16])\n"
                               "grid(nb: 1) {\n"
                               "    role core on thread {\n"
                               "        private K: bf16[kv:32, d:16]\n"
                               "        frag query: bf16[d:16, q:16] @ dot2.B\n"
                               "        frag keys: bf16[kv:16, q:16] @ dot2.B\n"
                               "        frag acc: f32[e:16, q:16] @ dot2.C = 0.0\n"
                               "        query = load w[:, :] as [d, q] pad 0\n"
                               "        keys = load w[:, :] as [kv, q] pad 0\n"
                               "        copy k[0 +: 32, :] -> K pad 0\n"
                               "        acc += dot2(K[16 +: 16, :] as [kv, e], keys)\n"
                               "        store acc -> o[:, :] clip\n"
                               "    }\n"
                               "}\n";

static void test_pair_refusals(void **state)
{
    (void)state;
    static const char product[] = "acc += dot2(K[16 +: 16, :] as [kv, e], keys)";
    refuses_in(in_pairs, product,
               "acc += dot2(K[16 +: 16, :] as [kv, e], keys)\n"
               "        acc += dot2(K[16 +: 16, :] as [e, d], query)",
               "dot2 takes pairs along d, which are no neighbours in K");
    refuses_in(in_pairs, product, "acc += dot2(K[15 +: 16, :] as [kv, e], keys)",
               "dot2 takes pairs along kv, which are no neighbours in K");
    refuses_in(in_pairs, product, "acc += dot2(k[0 +: 16, :] as [e, d], query)",
               "dot2 takes pairs along d, which are no neighbours in k");
    Session s = session_begin();
    const Lowered even = {.file = "text", .text = in_pairs, .sizes = sizes};
    assert_true(count(text_of(&s, &even), "load.bf16x2 @K") > 0);
    session_end(&s);
}

/* A row of G for each token, some channels of it: a view's axes are those of its vectors and spans in order, so that naming them as they
 * are called changes nothing. */
static const char gathered[] = "target sm_80\n"
                               "kernel forward(k: in f32[kv:T, d:32], o: out f32[q:16, d:16])\n"
                               "grid(nb: 1) {\n"
                               "    shared G: f32[kv:32, d:32]\n"
                               "    role core[1] on warp {\n"
                               "        frag rows: f32[d:16, q:16] @ mma16816.C\n"
                               "        copy k[0 +: 32, :] -> G[:, :] pad 0\n"
                               "        rows = load G[iota(q:16) / 2 | 1, 8 +: 16]\n"
                               "        store rows -> o[0 +: 16, :] as [q, d]\n"
                               "    }\n"
                               "}\n";

/* Less what notes say. */
static const char *without_notes(AuArena *arena, const char *text)
{
    AuText out = {.arena = arena};
    while (*text) {
        const char *end = strchr(text, '\n');
        const int length = end ? (int)(end - text) : (int)strlen(text);
        if (!memmem(text, (size_t)length, "note ", 5)) au_text_add(&out, "%.*s\n", length, text);
        text += length + (end != NULL);
    }
    return au_text_str(&out);
}

static void test_named_axes(void **state)
{
    (void)state;
    Session s = session_begin();
    const Lowered plain = {.file = "text", .text = gathered, .sizes = sizes},
                  named = {.file = "text",
                           .text = replaced(s.arena, gathered, "8 +: 16]", "8 +: 16] as [q, d]"),
                           .sizes = sizes};
    const char *text = without_notes(s.arena, text_of(&s, &plain));
    assert_true(count(text, "load.f32 @G") > 0);
    assert_string_equal(text, without_notes(s.arena, text_of(&s, &named)));
    session_end(&s);
}

static void test_refusals(void **state)
{
    (void)state;
    refuses("store acc -> o", "store 2.0 * cumsum(acc, e) -> o", "a running sum inside");
    Session s = session_begin(); /* of a value of two axes there is one */
    const Lowered rows = {.file = "text",
                          .text = replaced(s.arena, exchange, "store acc -> o",
                                           "acc = cumsum(acc, e)\n        store acc -> o"),
                          .sizes = sizes},
                  none = {.file = "text", .text = exchange, .sizes = sizes};
    assert_true(count(text_of(&s, &rows), "shuffle") > count(text_of(&s, &none), "shuffle"));
    session_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_waits),         cmocka_unit_test(test_halves),
        cmocka_unit_test(test_barriers),      cmocka_unit_test(test_hints),
        cmocka_unit_test(test_pairs),         cmocka_unit_test(test_distances),
        cmocka_unit_test(test_swizzle_spans), cmocka_unit_test(test_ahead),
        cmocka_unit_test(test_refusals),      cmocka_unit_test(test_pair_refusals),
        cmocka_unit_test(test_named_axes),    cmocka_unit_test(test_cores),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
