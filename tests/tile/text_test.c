/* text_test.c - reader and printer: every example survives printing and reading; garbage gives an error with a position. */
#include "support.h"

static const char *printed(Session *s, const AuTileModule *m)
{
    AuText text = {.arena = s->arena};
    tile_print(m, &text);
    return au_text_str(&text);
}

static void test_round_trip(void **state)
{
    (void)state;
    for (const char *const *name = example_names; *name; name++) {
        Session s = session_begin();
        AuTileModule *one = read_text(&s, *name, example_text(s.arena, *name));
        if (!one) fail_msg("%s", session_errors(&s));
        const char *text = printed(&s, one);
        AuTileModule *two = read_text(&s, "printed", text);
        if (!two) fail_msg("%s", session_errors(&s));
        assert_true(tile_equal(one, two));
        assert_string_equal(text, printed(&s, two));
        session_end(&s);
    }
}

static void test_hooks_round_trip(void **state)
{
    (void)state;
    static const char *const files[] = {"common.hooks", "causal_softmax.hooks"};
    for (size_t i = 0; i < 2; i++) {
        Session s = session_begin();
        AuTileModule *one = read_text(&s, files[i], example_text(s.arena, files[i]));
        if (!one) fail_msg("%s", session_errors(&s));
        AuTileModule *two = read_text(&s, "printed", printed(&s, one));
        assert_true(two && tile_equal(one, two));
        session_end(&s);
    }
}

static void test_precedence(void **state)
{
    (void)state;
    static const struct {
        const char *text, *printed;
    } cases[] = {
        {"a - (b - c)", "a - (b - c)"},
        {"(a - b) - c", "a - b - c"},
        {"a + b * c << 1 & 7 | x ^ y", "a + b * c << 1 & 7 | x ^ y"},
        {"-(a + b) * -1", "-(a + b) * -1"},
        {"!(a && b) || c == d", "!(a && b) || c == d"},
        {"max(a, b, 1e-6)", "max(a, max(b, 1e-06))"},
        {"where(a < b, -inf, ~c)", "where(a < b, -inf, ~c)"},
        {"x[a, :, b +: 2 * c] as [q, d]", "x[a, :, b +: 2 * c] as [q, d]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Session s = session_begin();
        const char *text = au_format(s.arena, "fn f(a) = %s\n", cases[i].text);
        AuTileModule *m = read_text(&s, "precedence", text);
        if (!m) fail_msg("%s", session_errors(&s));
        AuText out = {.arena = s.arena};
        tile_print_expr(m->fns.at[0]->body.at[0]->ret.items.at[0], &out);
        assert_string_equal(au_text_str(&out), cases[i].printed);
        session_end(&s);
    }
}

static void test_equal_sees_differences(void **state)
{
    (void)state;
    static const char *const changes[][2] = {
        {"pad 0", "pad 1"},
        {"iota(q:16)", "iota(q:8)"},
        {"barrier all of 4", "barrier all of 3"},
        {"role mma[4] on warp", "role mma[4] on block"},
        {"wait tv\n", "wait tk\n"},
        {"swizzle 128", "swizzle 64"},
        {"partial: down(n_high", "partial: range(n_high"},
        {"mma16816.A", "mma16816.B"},
        {"lse: out", "lse: inout"},
        {"frag row: f32[q:16] like score = 0.0", "frag row: f32[q:16] like score = 0.5"},
        {"acc += mma16816", "acc = mma16816"},
        {"j < T &&", "j <= T &&"},
        {":] clip", ":]"},
        {"grid(mb: cdiv(S, M), h: H", "grid(mb: cdiv(S, M), g: H"},
        {"sync all", "arrive all"},
    };
    Session s = session_begin();
    const char *text = example_text(s.arena, example_names[0]);
    AuTileModule *one = read_text(&s, "one", text);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        AuTileModule *two =
            read_text(&s, "two", replaced(s.arena, text, changes[i][0], changes[i][1]));
        if (!two || tile_equal(one, two)) fail_msg("%s, %s", changes[i][0], changes[i][1]);
    }
    const char *backward = example_text(s.arena, "mma_sync_backward.tile");
    AuTileModule *two =
        read_text(&s, "two", replaced(s.arena, backward, "packed mma16816.C", "packed mma16816.A"));
    assert_true(two && !tile_equal(read_text(&s, "one", backward), two));
    session_end(&s);
}

static void test_errors_have_places(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"target sm_90b\n", "1:8: error E0708: no target is called sm_90b"},
        {"kernel k() grid() { }\n", "a kernel needs a target"},
        {"fn f(x) = x +\n", "1:14: error E0701: expected a name, found the end of the line"},
        {"fn f(x) = ?\n", "1:11: error E0701: a character that the tiled IR does not know"},
        {"fn f(x) = exp(x, x)\n", "1:11: error E0703: exp takes 1 argument, found 2"},
        {"fn f(x) = reduce_sum(x)\n", "reduce_sum takes 1 argument and names of axes"},
        {"layout l = rows(lane:8@)\n", "expected digits like"},
        {"target sm_80\nkernel k() grid() {\n role m on warp {\n  frag x: f32[q:16] @ mma.C\n "
         "}\n}\n",
         "4:21: error E0702: no matrix instruction is called mma"},
        {"target sm_80\nkernel k(x: in f32[q:16, d:8] packed 16) grid() { }\n",
         "2:38: error E0701: expected a name, found 16"},
        {"target sm_80\nkernel k() grid() {\n role m on wrap { }\n}\n",
         "3:12: error E0701: expected thread, warp, warpgroup or block, found wrap"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Session s = session_begin();
        assert_null(read_text(&s, "bad", cases[i].text));
        if (!strstr(session_errors(&s), cases[i].message))
            fail_msg("expected %s, got %s", cases[i].message, session_errors(&s));
        assert_int_equal(s.diags->errors, 1);
        session_end(&s);
    }
}

static void test_depth_is_limited(void **state)
{
    (void)state;
    Session s = session_begin();
    AuText text = {.arena = s.arena};
    au_text_add(&text, "fn f(x) = ");
    for (int i = 0; i < 100000; i++) au_text_add(&text, "(");
    assert_null(read_text(&s, "deep", au_text_str(&text)));
    assert_non_null(strstr(session_errors(&s), "nested more than 200 deep"));
    session_end(&s);
}

/* Cut and corrupted examples: an error or a module, never a crash or a hang. */
static void test_garbage(void **state)
{
    (void)state;
    uint32_t random = 12345;
    for (int n = 0; n < 600; n++) {
        Session s = session_begin();
        const char *text = example_text(s.arena, example_names[n % 12]);
        char *broken = au_strndup(s.arena, text, strlen(text));
        const size_t length = strlen(broken);
        for (int i = 0; i < 4; i++) {
            random = random * 1664525u + 1013904223u;
            const char byte = "(){}[],.:@=+-x1 \n\""[random >> 24 & 15];
            broken[(random >> 4) % length] = byte;
        }
        if (n % 3 == 0) broken[random % length] = 0;
        AuTileModule *m =
            tile_read(s.arena, s.diags, au_source_add(s.diags, "broken", broken, strlen(broken)));
        assert_true(m != NULL || s.diags->errors == 1);
        session_end(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_hooks_round_trip),
        cmocka_unit_test(test_precedence),
        cmocka_unit_test(test_equal_sees_differences),
        cmocka_unit_test(test_errors_have_places),
        cmocka_unit_test(test_depth_is_limited),
        cmocka_unit_test(test_garbage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
