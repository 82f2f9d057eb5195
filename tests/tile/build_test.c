/* build_test.c - a schedule written with build.h makes the very nodes of the example file; expansion says what it should. */
#include "build.h"
#include "support.h"

/* mma_sync_forward.tile, as a schedule would build it. */
static AuTileModule *build_mma_forward(Session *s)
{
    const AuTileAtom *mma = tile_atom("mma16816");
    AuTileBuild *t = tile_build(s->arena, s->diags, tile_caps("sm_80"), "mma_forward");
    const char *dtype = "bf16", *rows = "mb * M + self * 16 +: 16";
    tile_const(t, "M", 64);
    tile_const(t, "N", 32);
    tile_const(t, "D", 64);
    tile_const(t, "E", 64);
    tile_kernel(t, "forward");
    tile_arg(t, "q", TILE_IN, "%s[b:B, h:H, q:S, d:D]", dtype);
    tile_arg(t, "k", TILE_IN, "%s[b:B, h:Hk, kv:T, d:D]", dtype);
    tile_arg(t, "v", TILE_IN, "%s[b:B, h:Hk, kv:T, e:E]", dtype);
    tile_arg(t, "o", TILE_OUT, "%s[b:B, h:H, q:S, e:E]", dtype);
    tile_arg(t, "lse", TILE_OUT, "f32[b:B, h:H, q:S]");
    tile_grid(t, "mb: cdiv(S, M), h: H, b: B");
    tile_let(t, "hk", "h / (H / Hk)");
    tile_let(t, "n_low, f_low, f_high, n_high", "key_tiles(mb * M, min(mb * M + M, S), N)");
    tile_list(t, "keys");
    tile_segment(t, "partial", TILE_DOWN, "n_high", "f_high");
    tile_segment(t, "full", TILE_DOWN, "f_high", "f_low");
    tile_segment(t, "partial", TILE_DOWN, "f_low", "n_low");
    tile_shared(t, "K", "%s[kv:N, d:D] swizzle 128", dtype);
    tile_shared(t, "V", "%s[kv:N, e:E] swizzle 128", dtype);
    tile_barrier(t, "all", 0, 4);
    tile_role(t, "mma", 4, TILE_ON_WARP, 0);
    tile_frag(t, "score", "f32[q:16, kv:N] @ %s.C", mma->name);
    tile_frag(t, "query", "%s[q:16, d:D] @ %s.A", dtype, mma->name);
    tile_frag(t, "acc", "f32[q:16, e:E] @ %s.C = 0.0", mma->name);
    tile_frag(t, "row", "f32[q:16] like score = 0.0");
    tile_set(t, "i", "mb * M + self * 16 + iota(q:16)");
    tile_set(t, "state", "online_init(row, h)");
    tile_load(t, "query", "q[b, h, %s, :] pad 0", rows);
    const char *share = "self * (N / 4) +: N / 4";
    tile_async_copy(t, "tk", "k[b, hk, first(keys) * N + %s, :] -> K[%s, :] pad 0", share, share);
    tile_for_tiles(t, "n", "keys", NULL);
    tile_wait(t, "tk");
    tile_sync(t, "all");
    tile_async_copy(t, "tv", "v[b, hk, n * N + %s, :] -> V[%s, :] pad 0", share, share);
    tile_product(t, "score", mma, TILE_START, "query", "K");
    tile_set(t, "j", "n * N + iota(kv:N)");
    tile_set(t, "score", "score_mod(score, b, h, i, j)");
    tile_on_segment(t, "partial");
    tile_set(t, "score", "where(j < T && mask(b, h, i, j), score, masked())");
    tile_end(t);
    tile_set(t, "p, scale, state", "online_fwd(score, state)");
    tile_set(t, "acc", "acc * scale");
    tile_wait(t, "tv");
    tile_sync(t, "all");
    tile_async_copy(t, "tk", "k[b, hk, next(n) * N + %s, :] -> K[%s, :] pad 0", share, share);
    tile_product(t, "acc", mma, TILE_ADD, tile_text(t, "%s(p)", dtype), "V");
    tile_end(t);
    tile_wait(t, "tk");
    tile_set(t, "out, final", "online_end(acc, state)");
    tile_store(t, "%s(out) -> o[b, h, %s, :] clip", dtype, rows);
    tile_store(t, "final -> lse[b, h, %s] clip", rows);
    tile_end(t);
    tile_end(t);
    return tile_built(t);
}

static void test_builds_the_example(void **state)
{
    (void)state;
    Session s = session_begin();
    AuTileModule *built = build_mma_forward(&s);
    if (!built) fail_msg("%s", session_errors(&s));
    AuTileModule *file = read_text(&s, "file", example_text(s.arena, "mma_sync_forward.tile"));
    assert_true(tile_equal(built, file));
    session_end(&s);
}

/* Every other call, in a program that makes no sense but reads. */
static void test_builds_every_statement(void **state)
{
    (void)state;
    static const char expected[] =
        "target sm_100a\n"
        "layout rows_ = rows(lane:32@1 warp:4) cols(reg)\n"
        "layout one = rows(lane:32@1)\n"
        "fn f(a, b) {\n    c = a + 1e-06\n    return c, b\n}\n"
        "kernel k(x: i32)\ngrid() {\n"
        "    pipeline p[2] a -> each c { S: f32[q:128] tensor }\n"
        "    pipeline o[1] one a -> one c { }\n"
        "    barrier turn[2] of 2\n"
        "    role a[2] on warpgroup regs 240 {\n"
        "        private P: f32[q:8]\n"
        "        y = convert z @ one\n"
        "        s = acquire p[1]\n"
        "        t = async tcgen05(x.Q, y.K) add -> s.S when step > 0\n"
        "        commit s after t\n"
        "        u = wait p\n"
        "        release u\n"
        "        t = async reduce_add x.dQ -> dq[b, :] clip\n"
        "        atomic_add g -> d[h]\n"
        "        copy a_ -> b_\n"
        "        for i in range(0, 4) {\n"
        "            if i == 0 {\n                arrive turn[1]\n"
        "            } else {\n                sync turn[0]\n            }\n"
        "        }\n"
        "        for n in keys from 1 {\n"
        "            acc += async wgmma(w, z.V)\n        }\n"
        "    }\n}\n";
    Session s = session_begin();
    AuTileBuild *t = tile_build(s.arena, s.diags, tile_caps("sm_100a"), "all");
    tile_layout(t, "rows_", "lane:32@1 warp:4", "reg");
    tile_layout(t, "one", "lane:32@1", NULL);
    tile_fn(t, "f", "a, b");
    tile_set(t, "c", "a + %s", tile_number(t, 1e-6));
    tile_return(t, "c, b");
    tile_end(t);
    tile_kernel(t, "k");
    tile_arg(t, "x", TILE_PARAM, "i32");
    tile_grid(t, "%s", "");
    tile_pipeline(t, "p", 2, "a", "each c", "S: f32[q:%d] tensor", 128);
    tile_pipeline(t, "o", 1, "one a", "one c", "");
    tile_barrier(t, "turn", 2, 2);
    tile_role(t, "a", 2, TILE_ON_WARPGROUP, 240);
    tile_private(t, "P", "f32[q:8]");
    tile_convert(t, "y", "z", "@ one");
    tile_acquire(t, "s", "p[1]");
    tile_product_into(t, "t", tile_atom("tcgen05"), TILE_ADD, "x.Q", "y.K", "s.S when step > 0");
    tile_commit(t, "s after t");
    tile_wait_stage(t, "u", "p");
    tile_release(t, "u");
    tile_async_reduce_add(t, "t", "x.dQ -> dq[b, :] clip");
    tile_atomic_add(t, "g -> d[h]");
    tile_copy(t, "a_ -> b_");
    tile_for_range(t, "i", "0", "4");
    tile_if(t, "i == %d", 0);
    tile_arrive(t, "turn[%d]", 1);
    tile_else(t);
    tile_sync(t, "turn[0]");
    tile_end(t);
    tile_end(t);
    tile_for_tiles(t, "n", "keys", "1");
    tile_product(t, "acc", tile_atom("wgmma"), TILE_ADD, "w", "z.V");
    tile_end(t);
    tile_end(t);
    tile_end(t);
    AuTileModule *m = tile_built(t);
    if (!m) fail_msg("%s", session_errors(&s));
    AuText text = {.arena = s.arena};
    tile_print(m, &text);
    assert_string_equal(au_text_str(&text), expected);
    session_end(&s);
}

static void test_says_what_is_open(void **state)
{
    (void)state;
    Session s = session_begin();
    AuTileBuild *t = tile_build(s.arena, s.diags, tile_caps("sm_80"), "open");
    tile_kernel(t, "k");
    tile_grid(t, "%s", "");
    assert_null(tile_built(t));
    assert_non_null(strstr(session_errors(&s), "open: 1 blocks are not closed"));
    session_end(&s);
}

/* What is wrong is said with the line of the call: a statement that does not read, one that does not verify, and a template whose holes
 * and arguments do not agree. */
static void test_errors_have_the_line(void **state)
{
    (void)state;
    Session s = session_begin();
    AuTileBuild *t = tile_build(s.arena, s.diags, tile_caps("sm_80"), "wrong");
    tile_kernel(t, "k");
    tile_grid(t, "b: 1");
    tile_role(t, "core", 0, TILE_ON_WARP, 0);
    const int line = __LINE__ + 1;
    tile_set(t, "x", "1 + ");
    tile_set(t, "y", "also wrong +");
    tile_end(t);
    tile_end(t);
    assert_null(tile_built(t));
    const char *place = au_format(s.arena, "build_test.c:%d:", line);
    assert_non_null(strstr(session_errors(&s), place));
    assert_int_equal(s.diags->errors, 1);
    session_end(&s);
}

static AuTileBuild *in_role(Session *s)
{
    AuTileBuild *t = tile_build(s->arena, s->diags, tile_caps("sm_80"), "wrong");
    tile_kernel(t, "k");
    tile_grid(t, "b: 1");
    tile_role(t, "core", 0, TILE_ON_WARP, 0);
    return t;
}

static void test_later_errors_have_the_line(void **state)
{
    (void)state;
    Session s = session_begin();
    AuTileBuild *t = in_role(&s);
    const int line = __LINE__ + 1;
    tile_set(t, "x", "nowhere + 1");
    tile_end(t);
    tile_end(t);
    AuTileModule *m = tile_built(t);
    assert_non_null(m);
    assert_false(tile_verify(s.diags, m, TILE_ALL_RULES));
    const char *place = au_format(s.arena, "build_test.c:%d:", line);
    assert_non_null(strstr(session_errors(&s), place));
    session_end(&s);
}

static void test_templates(void **state)
{
    (void)state;
    Session s = session_begin();
    AuTileBuild *t = in_role(&s);
    const AuTileHandle x = tile_set(t, "x", "%d", 1), y = tile_numbered(t, "y", 7);
    assert_string_equal(tile_text(t, "%v %% %v, %s[%u] %c", x, y, "z", 3, 'c'), "x % y7, z[3] c");
    assert_string_equal(session_errors(&s), "");
    const AuTileTemplate wrong[] = {TILE_TEMPLATE("%s", x),   TILE_TEMPLATE("%v", "x"),
                                    TILE_TEMPLATE("%d", "x"), TILE_TEMPLATE("%d"),
                                    TILE_TEMPLATE("x", 1),    TILE_TEMPLATE("%"),
                                    TILE_TEMPLATE("%f", 1),   TILE_TEMPLATE(x)};
    for (size_t n = 0; n < sizeof wrong / sizeof *wrong; n++)
        assert_null(tile_fill(s.arena, wrong[n]));
    tile_set(t, "z", "%s", x);
    tile_end(t);
    tile_end(t);
    assert_null(tile_built(t));
    assert_non_null(strstr(session_errors(&s), "a template and what it is given do not agree"));
    session_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_builds_the_example),
        cmocka_unit_test(test_builds_every_statement),
        cmocka_unit_test(test_says_what_is_open),
        cmocka_unit_test(test_errors_have_the_line),
        cmocka_unit_test(test_later_errors_have_the_line),
        cmocka_unit_test(test_templates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
