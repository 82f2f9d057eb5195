/* verify_test.c - tile_expand and tile_verify on small programs: what they make, what they refuse and where they say it is; what the
 * verifier leaves for the lowering. */
#include "run.h"
#include "support.h"

static AuTileModule *expanded(Session *s, const char *text)
{
    AuTileModule *m = read_text(s, "test.tile", text);
    if (!m) fail_msg("%s", session_errors(s));
    return tile_expand(s->arena, s->diags, m, NULL);
}

/* A kernel on sm_80 with these statements in its role. */
static const char *kernel_of(Session *s, const char *head, const char *statements)
{
    return au_format(s->arena,
                     "target sm_80\n%skernel k(x: in f32[q:S, d:64], y: out f32[q:S, d:64], n: "
                     "i32)\ngrid(m: cdiv(S, 16)) {\n"
                     "    shared A: bf16[q:16, d:64]\n    role r on warp {\n%s    }\n}\n",
                     head, statements);
}

static void check_body(const char *head, const char *statements, const char *wanted)
{
    Session s = session_begin();
    AuTileModule *m = expanded(&s, kernel_of(&s, head, statements));
    if (!m) fail_msg("%s", session_errors(&s));
    const AuTileStmts *body = &m->kernels.at[0]->roles.at[0]->body;
    AuText text = {.arena = s.arena};
    for (uint32_t i = 0; i < body->count; i++) {
        tile_print_stmt(body->at[i], &text);
        au_text_add(&text, "\n");
    }
    assert_string_equal(au_text_str(&text), wanted);
    session_end(&s);
}

static void test_expansion(void **state)
{
    (void)state;
    check_body("const N = 8, M = 2 * N\n", "a = iota(q:M) / (N - 4) + 7 % 4\n",
               "a = iota(q:16) / 4 + 3\n");
    check_body("", "a = where(1 < 2, f32(3), 0.5) * rsqrt(64)\n", "a = 0.375\n");
    check_body("fn f(a, b) = a * b + a\n", "c = f(1.5, x[0, 0])\n", "c = 1.5 * x[0, 0] + 1.5\n");
    check_body("fn f(a, b) = a * b + a\n", "c = f(n + 1, 2)\n", "a = n + 1\nc = a * 2 + a\n");
    check_body("fn f(a) {\n t = a * a\n t = t + 1\n return t * t\n}\n", "t = f(n)\n",
               "t_2 = n * n\nt_3 = t_2 + 1\nt = t_3 * t_3\n");
    check_body("fn f(a, b) = (b, a)\n", "p, q = f(n, 2)\n", "p = 2\nq = n\n");
    check_body("", "a = 1\nb = 2\na, b = (b, a)\n",
               "a = 1\nb = 2\nb_2 = a\na = b\nb = b_2\n"); /* all at once */
    check_body("fn g(s) {\n a, b = s\n return (b, a + b)\n}\n",
               "s = (1, (2, 3))\ns = (4, (5, 6))\n",
               "s_0 = 1\ns_1_0 = 2\ns_1_1 = 3\ns_0 = 4\ns_1_0 = 5\ns_1_1 = 6\n");
    check_body("", "s_0 = 5\ns = (1, 2)\n", "s_0 = 5\ns_0_2 = 1\ns_1 = 2\n"); /* names stay apart */
    check_body("fn f(a) = 2 * a\n", "frag z: f32[q:f(8)]\n", "frag z: f32[q:16]\n");
    check_body("fn f(s) = max(s, rowmax(s))\n", "a = f(iota(kv:4))\n",
               "s = iota(kv:4)\na = max(s, reduce_max(s, kv))\n");
}

static void test_expansion_refuses(void **state)
{
    (void)state;
    static const char *const cases[][3] = {
        {"", "a = f(1)\n", "6:13: error E0702: no function or hook is called f"},
        {"fn f(a) = a\n", "a = f(1, 2)\n", "error E0703: f takes 1 arguments, found 2"},
        {"fn f(a) = g(a)\nfn g(a) = f(a)\n", "a = f(1)\n", "calls itself"},
        {"fn f(a) {\n b = a\n}\n", "a = f(1)\n", "a hook consists of assignments and a return"},
        {"fn f(a) {\n sync all\n return a\n}\n", "a = 1\n",
         "a hook consists of assignments and a return"},
        {"fn exp(a) = a\n", "a = 1\n", "exp is a function of the language"},
        {"const N = S\n", "a = 1\n", "N is not constant"},
        {"", "a, b = 1\n", "2 names for 1 values"},
        {"", "a = (1, 2) + 1\n", "a tuple is no operand"},
        {"", "s = (1, 2)\ns = 1\n", "a tuple of 1 values where 2 are expected"},
        {"", "return 1\n", "return outside of a hook"},
        {"fn f(a) = a\nconst N = f(1)\n", "a = N\n", "a hook cannot be called here"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Session s = session_begin();
        const char *text =
            kernel_of(&s, cases[i][0], au_format(s.arena, "        %s", cases[i][1]));
        if (expanded(&s, text)) fail_msg("%s%s was expanded", cases[i][0], cases[i][1]);
        if (!strstr(session_errors(&s), cases[i][2]))
            fail_msg("expected %s, got %s", cases[i][2], session_errors(&s));
        session_end(&s);
    }
}

static void test_verifier_refuses(void **state)
{
    (void)state;
    static const char *const cases[][3] = {
        {"", "a = b\n", "E0702: unknown name b"},
        {"", "a = iota(q:4) + iota(q:8)\n", "E0703: axis q is 4 in one operand and 8 in another"},
        {"", "a = n & 1.5\n", "E0703: & takes integers"},
        {"", "a = 5000000000\n", "E0703: 5000000000 does not fit i32"},
        {"", "a = iota(q:2000000)\n", "E0709: an extent is at most 1048576"},
        {"", "a = iota(q:1000000) * iota(d:1000000)\n", "E0709: a tile has at most"},
        {"", "a = iota(q:n)\n", "E0703: an extent must be positive and known when compiling: n"},
        {"", "a = reduce_sum(iota(q:4), d)\n", "E0703: reduce_sum: i32[q:4] has no axis d"},
        {"", "a = x[0]\n", "E0703: x has 2 dimensions, found 1 indices"},
        {"", "a = x[:, 0]\n", "E0703: the size of q is not known when compiling: give a span"},
        {"", "a = x[0, 1.5]\n", "E0703: an index is i32"},
        {"", "a = y[0, 0]\n", "E0703: y is written by this kernel: load it"},
        {"", "a = A[0, 0]\n", "E0703: A is written by this kernel: load it"},
        {"", "a = 1\na = 1.5\n", "E0703: a is i32, the value is f32"},
        {"", "self = 1\n", "E0703: self cannot be assigned"},
        {"", "x = 1\n", "E0702: x is the name of something else already"},
        {"", "a = load x[0 +: 4, :]\n", "E0704: a load needs a layout"},
        {"", "a = load x[0 +: 4, :] @ strange\n", "E0702: unknown layout strange"},
        {"layout l = rows(lane:8@1)\n", "frag a: f32[q:12] @ l\n",
         "E0704: the digits of l do not divide axis q of 12"},
        {"layout l = rows(lane:8@1)\n", "frag a: f32[q:8, d:8, e:8] @ l\n",
         "E0704: l is a layout of one or two axes"},
        {"", "frag a: f32[q:12, d:8] @ mma16816.C\n",
         "E0704: axis q of 12 is no multiple of 16 (mma16816.C)"},
        {"", "frag a: f32[q:64, d:8] @ wgmma.C\n", "E0708: sm_80 has no wgmma"},
        {"", "frag a: i64[q:16]\n", "E0703: no fragment has elements of i64"},
        {"layout l = rows(lane:8@1)\nlayout m = rows(reg:2 lane:8@1)\n",
         "frag a: f32[q:16] @ l = 0.0\nfrag b: f32[q:16] @ m = 0.0\na = a + b\n",
         "E0704: axis q lives in other lanes in one operand than in another"},
        {"layout l = rows(lane:8@1)\n",
         "frag a: f32[q:8] @ l = 0.0\nfrag b: f32[d:8] @ l = 0.0\nc = a * b\n",
         "E0704: the axes come from different layouts and share lanes"},
        {"layout l = rows(lane:8@1)\n", "frag a: f32[q:8] @ l = 0.0\nj = 1.0 * iota(q:8)\nj = a\n",
         "E0704: axis q of j has no home"},
        {"layout l = rows(lane:8@1)\n", "frag a: f32[q:8] @ l\nb = a\n",
         "E0707: fragment a has no value yet"},
        {"layout l = rows(lane:8@1)\n", "if n > 0 {\n b = 1\n}\nc = b\n", "E0702: unknown name b"},
        {"", "store 1 -> y[0 +: 4, :]\n", "E0703: i32 value, f32 memory"},
        {"", "store 1.0 -> x[0 +: 4, :]\n", "E0703: x is read only"},
        {"", "prefetch x[0, 0]\n", "E0703: rows of a tensor are prefetched, nothing else"},
        {"", "copy x[0 +: 4, :] -> y[0 +: 8, :]\n", "E0703: f32[q:4, d:64] -> f32[q:8, d:64]"},
        {"", "t = async copy x[0 +: 16, :] -> A\nwait t\n",
         "E0703: an async copy does not convert: f32 -> bf16"},
        {"", "sync all\n", "E0702: no barrier all"},
        {"", "z = acquire p\n", "E0702: no pipeline p"},
        {"", "wait z\n", "E0705: z is not in flight"},
        {"", "for i in keys {\n}\n", "E0702: no tile list keys"},
        {"", "a = first(keys)\n", "E0702: keys is no tile list"},
        {"", "on partial {\n}\n", "E0702: no loop has a segment partial"},
        {"", "private P: f32[q:4]\n", "E0708: sm_80 has no private memory"},
        {"", "p = mma16816(A, A)\n", "E0703: operands must have two axes each and one in common"},
        {"",
         "frag b: bf16[d:64, kv:8] @ mma16816.B = bf16(0.0)\nfrag c: f32[q:16, kv:8] @ mma16816.C "
         "= 0.0\n"
         "c += mma16816(A, b) serial\n",
         "E0703: the order in which mma16816 adds is its own"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Session s = session_begin();
        AuTileModule *m = expanded(&s, kernel_of(&s, cases[i][0], cases[i][1]));
        if (!m) fail_msg("%s", session_errors(&s));
        assert_false(tile_verify(s.diags, m, TILE_ALL_RULES));
        if (!strstr(session_errors(&s), cases[i][2]))
            fail_msg("expected %s, got %s", cases[i][2], session_errors(&s));
        session_end(&s);
    }
}

/* What is never in scope at once shares registers: two loops, both ways of a branch; what stands around them is there, too. */
static void test_registers_in_scope(void **state)
{
    (void)state;
    static const struct {
        const char *statements;
        int32_t registers;
    } rows[] = {
        {"for i in range(0, n) {\nfrag a: f32[q:16, z:16] @ mma16816.C = 0.0\n}\n"
         "for i in range(0, n) {\nfrag b: f32[q:16, d:64] @ mma16816.C = 0.0\n}\n",
         32},
        {"frag f: f32[q:16, z:8] @ mma16816.C = 0.0\n"
         "if n > 0 {\nfrag a: f32[q:16, z:16] @ mma16816.C = 0.0\n"
         "for i in range(0, n) {\nfrag b: f32[q:16, z:32] @ mma16816.C = 0.0\n}\n"
         "} else {\nfrag c: f32[q:16, z:16] @ mma16816.C = 0.0\n}\n",
         4 + 8 + 16},
    };
    for (unsigned n = 0; n < sizeof rows / sizeof *rows; n++) {
        Session s = session_begin();
        AuTileModule *m = expanded(&s, kernel_of(&s, "", rows[n].statements));
        if (!m || !tile_verify(s.diags, m, TILE_ALL_RULES)) fail_msg("%s", session_errors(&s));
        assert_int_equal(m->kernels.at[0]->roles.at[0]->fragment_registers, rows[n].registers);
        session_end(&s);
    }
}

/* Packed tensors consist of pieces of an operand that the target has. */
static void test_packed_refuses(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"q:S, d:64] packed mma16816.C",
         "E0704: p consists of pieces: axis q must be a multiple of 16"},
        {"q:cdiv(S, 8) * 8, d:64] packed mma16816.C", "E0704: p consists of pieces: axis q"},
        {"q:cdiv(S, 16) * 16, d:60] packed mma16816.C", "axis d must be a multiple of 8"},
        {"q:16] packed mma16816.C", "E0703: p is packed and has no rows and columns"},
        {"q:16, d:48] packed fma32.C", "axis d must be a multiple of 32"},
        {"q:64, d:64] packed wgmma.C", "E0708: sm_80 has no wgmma"},
        {"q:cdiv(S, 16) * 16, d:64] packed mma16816.C", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Session s = session_begin();
        AuTileModule *m = expanded(
            &s, au_format(s.arena,
                          "target sm_80\nkernel k(x: in f32[q:S], p: inout f32[%s)\ngrid(m: 1) {\n"
                          "    role r on warp {\n    a = 1\n    }\n}\n",
                          cases[i][0]));
        if (!m) fail_msg("%s", session_errors(&s));
        if (tile_verify(s.diags, m, TILE_ALL_RULES) != !*cases[i][1] ||
            (*cases[i][1] && !strstr(session_errors(&s), cases[i][1])))
            fail_msg("%s: expected %s, got %s", cases[i][0], cases[i][1], session_errors(&s));
        session_end(&s);
    }
}

/* What the lowering reads: types with places on every expression, variables with slots, indices spelled out, needs of the kernel. */
static void test_what_is_filled_in(void **state)
{
    (void)state;
    Session s = session_begin();
    AuTileModule *m = expanded(&s, kernel_of(&s, "",
                                             "frag f: f32[q:16, d:64] @ mma16816.C = 0.0\n"
                                             "frag g: bf16[q:16, d:64] @ mma16816.A\n"
                                             "g = load A\nf += mma16816(g, A as [z, d])\n"));
    if (!m) fail_msg("%s", session_errors(&s));
    assert_false(tile_verify(s.diags, m, TILE_ALL_RULES)); /* f is [q, d], the product [q, z] */
    session_end(&s);

    s = session_begin();
    m = expanded(
        &s,
        kernel_of(
            &s, "",
            "frag f: f32[q:16, z:16] @ mma16816.C = 0.0\nfrag g: bf16[q:16, d:64] @ mma16816.A\n"
            "g = load A\nf += mma16816(g, A as [z, d])\nr = reduce_max(f, z) + m\n"));
    if (!tile_verify(s.diags, m, TILE_ALL_RULES)) fail_msg("%s", session_errors(&s));
    const AuTileKernel *k = m->kernels.at[0];
    const AuTileRole *role = k->roles.at[0];
    assert_int_equal(k->threads, 32);
    assert_int_equal(k->shared_used, 16 * 64 * 2);
    assert_int_equal(role->fragment_registers, 8 + 16);
    assert_string_equal(k->vars.at[0]->name, "S");
    assert_int_equal(k->vars.at[0]->origin, TILE_FROM_SIZE);
    assert_string_equal(k->vars.at[1]->name, "n");
    assert_int_equal(k->vars.at[1]->origin, TILE_FROM_PARAM);
    assert_int_equal(k->vars.at[1]->arg, 2);
    assert_string_equal(k->vars.at[2]->name, "m");
    const AuTileStmt *load = role->body.at[2], *product = role->body.at[3], *row = role->body.at[4];
    assert_int_equal(load->load.source->args.count, 2);
    assert_int_equal(load->load.source->args.at[1]->op, TILE_X_ALL);
    assert_ptr_equal(load->load.source->memory, k->shared.at[0]);
    assert_string_equal(load->var->name, "g");
    assert_string_equal(product->product.contracted, "d");
    assert_int_equal(product->product.b->type->elem, TILE_BF16);
    const AuTileType *r = row->assign.value->type;
    assert_int_equal(r->count, 1);
    assert_int_equal(r->axes[0].places->lanes, 8);
    assert_int_equal(tile_axis_registers(r->axes[0].places), 2);
    assert_true(row->var->is_fragment);
    assert_int_equal(row->var->slot, 3); /* self, f, g, r */
    session_end(&s);
}

static void test_launch_arguments(void **state)
{
    (void)state;
    static const char text[] =
        "target sm_80\nlayout l = rows(reg) cols(lane:32@1)\n"
        "kernel k(x: in f32[q:S, d:64], y: out f32[q:S, d:64], n: i32)\ngrid(m: S) {\n    role r "
        "on warp {\n"
        "        a = load x[m +: 1, :] @ l\n        store a * n -> y[m +: 1, :]\n    }\n}\n";
    float x[2 * 64], y[2 * 64];
    for (int i = 0; i < 128; i++) x[i] = (float)i;
    const AuTileScalar n = {"n", 3};
    for (int wrong = 0; wrong < 6; wrong++) {
        static const char *const messages[] = {NULL,
                                               "no tensor is called y",
                                               "axis d of y is 64, the tensor has 32",
                                               "parameter n has no value",
                                               "y has 2 axes of f32, the tensor has 1",
                                               "axis q of y is 2, the tensor has 1"};
        Session s = session_begin();
        AuTileModule *m = expanded(&s, text);
        if (!tile_verify(s.diags, m, TILE_ALL_RULES)) fail_msg("%s", session_errors(&s));
        AuTileTensor tensors[2] = {{.name = "x", .rank = 2, .shape = {2, 64}, .f32 = x},
                                   {.name = wrong == 1 ? "z" : "y",
                                    .rank = wrong == 4 ? 1 : 2,
                                    .shape = {2, 64},
                                    .f32 = y,
                                    .fresh = true}};
        if (wrong == 2) tensors[1].shape[1] = 32;
        if (wrong == 5) tensors[1].shape[0] = 1;
        const AuTileLaunch launch = {
            .tensors = tensors, .tensor_count = 2, .params = &n, .param_count = wrong != 3};
        assert_int_equal(tile_run(s.diags, m, &launch), wrong == 0);
        if (wrong == 0)
            for (int i = 0; i < 128; i++) assert_true(y[i] == 3 * x[i]);
        else if (!strstr(session_errors(&s), messages[wrong]))
            fail_msg("expected %s, got %s", messages[wrong], session_errors(&s));
        if (wrong) assert_int_equal(s.diags->first->code, AU_E0714);
        session_end(&s);
    }
}

/* A pipeline that `one` instance has stages of: the same one each time, whom the others need not help. */
static void test_one_instance(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"self == 0", ""},
        {"self >= 0", ": stages of p are those of make["},
        {"self == 2", "deadlock"},
    };
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        Session s = session_begin();
        const char *text = au_format(
            s.arena,
            "target sm_90a\nlayout l = rows(reg) cols(lane:32@1)\n"
            "kernel k(x: in f32[q:2, d:64], y: out f32[q:2, d:64])\ngrid() {\n"
            "    pipeline p[1] one make -> take { T: f32[q:1, d:64] }\n"
            "    role make[2] on warp {\n        if %s {\n"
            "            a = load x[self +: 1, :] @ l\n            r = acquire p\n"
            "            store a -> r.T[:, :]\n            commit r\n        }\n    }\n"
            "    role take on warp {\n        r = wait p\n        a = load r.T[:, :] @ l\n"
            "        release r\n        store a -> y[0 +: 1, :]\n    }\n}\n",
            cases[n][0]);
        float x[2 * 64], y[2 * 64] = {0};
        for (int i = 0; i < 128; i++) x[i] = (float)i;
        AuTileModule *m = expanded(&s, text);
        if (!m || !tile_verify(s.diags, m, TILE_ALL_RULES)) fail_msg("%s", session_errors(&s));
        AuTileTensor tensors[2] = {{.name = "x", .rank = 2, .shape = {2, 64}, .f32 = x},
                                   {.name = "y", .rank = 2, .shape = {2, 64}, .f32 = y}};
        const AuTileLaunch launch = {.tensors = tensors, .tensor_count = 2};
        assert_int_equal(tile_run(s.diags, m, &launch), n == 0);
        if (n == 0)
            assert_memory_equal(x, y, 64 * sizeof *x);
        else if (!strstr(session_errors(&s), cases[n][1]))
            fail_msg("expected %s, got %s", cases[n][1], session_errors(&s));
        session_end(&s);
    }
}

/* A pipeline whose stages two roles have, one after the other or at once: a stage is free when both have released it. */
static void test_two_roles_have_stages(void **state)
{
    (void)state;
    static const char *const cases[][3] = {
        {"take, other", "r", ""},
        {"take, other", "r0", "deadlock"}, /* who has none of the tiles but the first */
        {"take", "r", "E0706: role other is no consumer of p"},
        {"take, take", "r", "E0706: stages of p are those of all instances of two roles"},
        {"each take, other", "r", "E0706: stages of p are those of all instances of two roles"},
        {"one take, other", "r", "E0706: stages of p are those of all instances of two roles"},
        {"take, nobody", "r", "E0702: no role nobody"},
    };
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        Session s = session_begin();
        const char *turns = strcmp(cases[n][1], "r") == 0 ? "4" : "1";
        const char *text = au_format(
            s.arena,
            "target sm_90a\nlayout l = rows(reg) cols(lane:32@1)\n"
            "kernel k(x: in f32[q:4, d:64], y: out f32[q:4, d:64], z: inout f32[q:4, d:64])\n"
            "grid() {\n    pipeline p[2] make -> %s { T: f32[q:1, d:64] }\n"
            "    role make on warp {\n        for i in range(0, 4) {\n"
            "            a = load x[i +: 1, :] @ l\n            r = acquire p\n"
            "            store a -> r.T[:, :]\n            commit r\n        }\n    }\n"
            "    role take on warp {\n        for i in range(0, 4) {\n            r = wait p\n"
            "            a = load r.T[:, :] @ l\n            release r\n"
            "            store a -> y[i +: 1, :]\n        }\n    }\n"
            "    role other on warp {\n        for i in range(0, %s) {\n            r = wait p\n"
            "            a = load r.T[:, :] @ l\n            release r\n"
            "            store a * 2.0 -> z[i +: 1, :]\n        }\n    }\n}\n",
            cases[n][0], turns);
        float x[4 * 64], y[4 * 64] = {0}, z[4 * 64] = {0};
        for (int i = 0; i < 4 * 64; i++) x[i] = (float)i;
        AuTileModule *m = expanded(&s, text);
        if (!m) fail_msg("%s", session_errors(&s));
        AuTileTensor tensors[3] = {{.name = "x", .rank = 2, .shape = {4, 64}, .f32 = x},
                                   {.name = "y", .rank = 2, .shape = {4, 64}, .f32 = y},
                                   {.name = "z", .rank = 2, .shape = {4, 64}, .f32 = z}};
        const AuTileLaunch launch = {.tensors = tensors, .tensor_count = 3};
        const bool good = tile_verify(s.diags, m, TILE_ALL_RULES) && tile_run(s.diags, m, &launch);
        assert_int_equal(good, !*cases[n][2]);
        if (good)
            for (int i = 0; i < 4 * 64; i++) assert_true(y[i] == x[i] && z[i] == 2 * x[i]);
        else if (!strstr(session_errors(&s), cases[n][2]))
            fail_msg("expected %s, got %s", cases[n][2], session_errors(&s));
        session_end(&s);
    }
}

/* Memories of numbers of 8 bits: they read as f32, copies convert unless they go on by themselves, and nothing multiplies or adds to them. */
static void test_codes(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"x = load k[0 +: 16, :] pad 0\n", ""},
        {"copy k[0 +: 16, :] -> A[:, :] pad 0\n", ""},
        {"t = async copy k[0 +: 16, :] -> C[:, :] pad 0\nwait t\n", ""},
        {"x = load k[0 +: 16, :] pad 0\nx = x * k[3, 4]\nstore x -> o[0 +: 16, :] clip\n", ""},
        {"x = load k[0 +: 16, :] pad 1\n", "E0703: elements of e4m3 can only be padded with 0"},
        {"t = async copy k[0 +: 16, :] -> A[:, :] pad 0\nwait t\n",
         "E0703: an async copy does not convert: e4m3 -> bf16"},
        {"t = async copy k[0 +: 16, :] -> B[:, :] pad 0\nwait t\n",
         "E0703: an async copy does not convert: e4m3 -> i8"},
        {"atomic_add x -> o[0 +: 16, :] clip\n", "E0703: nothing is added to elements of e5m2"},
        {"frag c: e4m3[kv:16] like x\n", "E0703: no fragment has elements of e4m3"},
        {"frag s: f32[d:64, e:64] @ mma1688tf32.C = 0.0\ns += mma1688tf32(C[:, :] as [kv, d], C[:, "
         ":] as [kv, e])\n",
         "of mma1688tf32 cannot be stored as e4m3"},
        /* as they are held exactly; two integers a byte */
        {"frag h: bf16[kv:16, d:64] @ mma16816.C\nh = load C[:, :]\nx = f32(h)\n", ""},
        {"h = load B[:, :] @ mma16816.C halves\nstore h -> w[:, :]\n", ""},
        {"frag h: f16[kv:16, d:128] @ mma16816.C\nh = load B[:, :] halves\nstore f32(h) -> w[:, "
         ":]\n",
         ""},
        {"h = load C[:, :] @ mma16816.C halves\n",
         "E0703: halves are those of i8 in shared memory"},
        {"h = load k[0 +: 16, :] @ mma16816.C halves\n", "E0703: halves are those of i8"},
        {"h = load B[:, :] @ mma16816.C pad 0 halves\n", "E0703: halves are those of i8"},
        {"x = load B[:, :] halves\n", "E0704: x has no axis d of 128"},
        /* a free axis that lies as the sums do, and not as the instruction has it */
        {"frag a: bf16[q:16, kv:16] @ mma16816.A = bf16(0.0)\nfrag v: bf16[kv:16, d:64] @ "
         "by_row\nv = "
         "load C[:, :]\n"
         "frag s: f32[q:16, d:64] @ of_sums = 0.0\ns += mma16816(a, v)\n",
         ""},
        {"frag a: bf16[q:16, kv:16] @ mma16816.A = bf16(0.0)\nfrag v: bf16[kv:16, d:64] @ "
         "by_row\nv = "
         "load C[:, :]\n"
         "frag s: f32[q:16, d:64] @ mma16816.C = 0.0\ns += mma16816(a, v)\n",
         "E0704: axis d of operand B is not where mma16816.B wants it"},
        {"frag a: bf16[q:16, kv:16] @ mma16816.A = bf16(0.0)\nfrag v: bf16[kv:16, d:64] @ "
         "by_row\nv = "
         "load C[:, :]\n"
         "s = mma16816(a, v)\n",
         "E0704: axis d of operand B is not where mma16816.B wants it"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Session s = session_begin();
        const char *text = au_format(
            s.arena,
            "target sm_80\n"
            "layout by_row = rows(reg:2 lane:4@1 reg:2) cols(reg:8 lane:8@4)\n"
            "layout of_sums = rows(lane:8@4 reg:2) cols(reg:16 lane:4@1)\n"
            "kernel k(k: in e4m3[kv:T, d:64], o: out e5m2[kv:T, d:64], w: out f32[kv:16, d:128])\n"
            "grid(m: 1) {\n"
            "    shared A: bf16[kv:16, d:64]\n    shared C: e4m3[kv:16, d:64]\n    shared B: "
            "i8[kv:16, d:64]\n"
            "    role r on warp {\n    frag x: f32[kv:16, d:64] @ mma16816.C = 0.0\n%s    }\n}\n",
            cases[i][0]);
        AuTileModule *m = expanded(&s, text);
        const bool good = m && tile_verify(s.diags, m, TILE_ALL_RULES);
        if (good != !*cases[i][1] || (!good && !strstr(session_errors(&s), cases[i][1])))
            fail_msg("%s: expected '%s', got '%s'", cases[i][0], cases[i][1], session_errors(&s));
        session_end(&s);
    }
}

/* Runs the kernel of test_chained_products on ones; [checks]: acc is of one product or two. */
static bool ran_chain(Session *s, AuTileModule *m, bool checks)
{
    static float x[64 * 64], v[64 * 64], y[64 * 64];
    for (int i = 0; i < 64 * 64; i++) x[i] = v[i] = 1;
    AuTileTensor tensors[3] = {
        {.name = "x", .rank = 2, .shape = {64, 64}, .f32 = x},
        {.name = "v", .rank = 2, .shape = {64, 64}, .f32 = v},
        {.name = "y", .rank = 2, .shape = {64, 64}, .f32 = y, .fresh = true}};
    const AuTileScalar n = {"n", 3};
    const AuTileLaunch launch = {
        .tensors = tensors, .tensor_count = 3, .params = &n, .param_count = 1};
    if (!tile_run(s->diags, m, &launch)) return false;
    for (int i = 0; checks && i < 64 * 64; i++) assert_true(y[i] == 128);
    return true;
}

/* Products that are added to one in flight. What is refused the interpreter refuses, too, when the order was not looked at before. */
static void test_chained_products(void **state)
{
    (void)state;
    static const char *const cases[][3] = {
        {"acc = async wgmma(u, z.V)\nacc += async wgmma(w, z.V)\nwait acc\n", "", ""},
        {"acc = async wgmma(u, z.V)\nif n > 0 {\nacc += async wgmma(w, z.V)\n}\nwait acc\nw = u\n",
         "", ""},
        {"for i in range(0, 3) {\nacc = async wgmma(u, z.V)\nacc += async wgmma(w, z.V)\nwait "
         "acc\n}\n",
         "", ""},
        {"acc = async wgmma(u, z.V)\nfor i in range(0, 3) {\nwait acc\nacc = async wgmma(u, z.V)\n"
         "acc += async wgmma(w, z.V)\n}\nwait acc\n",
         "", ""},
        {"acc = async wgmma(u, z.V)\nw = u\nacc += async wgmma(w, z.V)\nwait acc\n", "", ""},
        {"acc = async wgmma(u, z.V)\nu = w\nacc += async wgmma(w, z.V)\nwait acc\n",
         "still reads it", "still reads it"},
        {"acc = async wgmma(u, z.V)\nacc += async wgmma(w, z.V)\nu = w\nwait acc\n",
         "still reads it", "still reads it"},
        {"acc = async wgmma(u, z.V)\nacc = async wgmma(w, z.V)\nwait acc\n",
         "written while in flight", "acc is in flight"},
        {"acc = async wgmma(u, z.V)\nacc = acc * 2.0\nwait acc\n", "acc is in flight",
         "acc is in flight"},
        {"acc = async wgmma(u, z.V)\nacc = zero\nacc += async wgmma(w, z.V)\nwait acc\n",
         "written while in flight", "written while in flight"},
        {"acc = async wgmma(u, z.V)\nacc += async wgmma(w, z.V)\nacc += async wgmma(w, z.V)\n"
         "acc += async wgmma(w, z.V)\nacc += async wgmma(w, z.V)\nwait acc\n",
         "acc is in flight", "acc is in flight"},
        {"acc = async wgmma(u, z.V)\nacc += async wgmma(w, z.V)\n", "still reads the stage",
         "acc is in flight"},
        {"acc = async wgmma(u, z.V)\nacc += async wgmma(w, t.V)\nrelease z\nwait acc\n",
         "still reads the stage", NULL},
        {"acc = async wgmma(u, z.V)\nif n > 0 {\nacc += async wgmma(w, z.V)\n}\nw = u\nwait acc\n",
         "still reads it", "still reads it"},
        {"if n > 0 {\nacc = async wgmma(w, z.V)\n} else {\nacc = async wgmma(u, z.V)\n}\nw = u\n"
         "wait acc\n",
         "still reads it", "still reads it"},
        {"acc = async wgmma(u, z.V)\nfor i in range(0, n) {\nw = u\nwait acc\nacc = async wgmma(w, "
         "z.V)\n"
         "}\nwait acc\n",
         "still reads it", "still reads it"},
        {"acc = async wgmma(u, z.V)\nfor i in range(0, n) {\nwait acc\nacc = async wgmma(w, z.V)\n"
         "}\nw = u\nwait acc\n",
         "still reads it", "still reads it"},
        {"acc = async wgmma(u, z.V)\nfor i in range(0, 5) {\nacc += async wgmma(w, z.V)\n}\nwait "
         "acc\n",
         "each iteration adds to acc in flight", "acc is in flight"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int typed = 0; typed < 2; typed++) {
            Session s = session_begin();
            const char *text = au_format(
                s.arena,
                "target sm_90a\nkernel k(x: in bf16[q:64, d:64], v: in bf16[d:64, e:64], y: out "
                "f32[q:64, e:64], n: i32)\ngrid() {\n"
                "    pipeline p[2] load -> mma { V: bf16[d:64, e:64] swizzle 128 }\n"
                "    role load on warp {\n        for i in range(0, 2) {\n        s = acquire p\n"
                "        async copy v -> s.V pad 0\n        commit s\n        }\n    }\n    role "
                "mma on warpgroup {\n"
                "    frag acc: f32[q:64, e:64] @ wgmma.C\n"
                "    frag zero: f32[q:64, e:64] @ wgmma.C = 0.0\n    z = wait p\n    t = wait p\n"
                "    u = load x @ wgmma.A\n    w = load x @ wgmma.A\n%s"
                "    release z, t\n    store acc -> y\n    }\n}\n",
                cases[i][0]);
            AuTileModule *m = expanded(&s, text);
            if (!m) fail_msg("%s", session_errors(&s));
            const char *wanted = cases[i][1 + typed];
            bool good = tile_verify(s.diags, m, typed ? TILE_TYPES_ONLY : TILE_ALL_RULES);
            if (typed && !good) fail_msg("%s: %s", cases[i][0], session_errors(&s));
            if (good && wanted && (typed || !*wanted)) good = ran_chain(&s, m, !*wanted);
            if (wanted && (good != !*wanted || !strstr(session_errors(&s), wanted)))
                fail_msg("%s (%s): expected '%s', got '%s'", cases[i][0],
                         typed ? "interpreter" : "verifier", wanted, session_errors(&s));
            session_end(&s);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_expansion),
        cmocka_unit_test(test_expansion_refuses),
        cmocka_unit_test(test_codes),
        cmocka_unit_test(test_verifier_refuses),
        cmocka_unit_test(test_what_is_filled_in),
        cmocka_unit_test(test_registers_in_scope),
        cmocka_unit_test(test_packed_refuses),
        cmocka_unit_test(test_launch_arguments),
        cmocka_unit_test(test_one_instance),
        cmocka_unit_test(test_two_roles_have_stages),
        cmocka_unit_test(test_chained_products),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
