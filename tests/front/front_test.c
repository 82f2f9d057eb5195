/* front_test.c - the front end as a whole: the scripts of the examples, meaning of expressions. Hard scripts are in robust_test.c. */
#include "harness.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HEAD "q: [B, H, S, D]; k: [B, H, T, D]; v: [B, H, T, E]; "

static Compiled compile(const char *text) { return compile_text("test.attn", text, strlen(text)); }

/* Compiles an attention with these items; prints the diagnostics if there is an error. */
static Compiled compile_good(const char *text)
{
    Compiled c = compile(text);
    if (c.diags->errors) print_error("%s\n%s", text, diagnostics_of(&c));
    assert_int_equal(c.diags->errors, 0);
    for (uint32_t i = 0; i < c.count; i++) {
        if (!attn_verify(c.attns[i], c.diags)) print_error("%s\n%s", text, diagnostics_of(&c));
        assert_int_equal(c.diags->errors, 0);
    }
    return c;
}

/* What a score_mod becomes: the expression, as the attention IR prints it. */
static void assert_score(const char *expression, const char *expected)
{
    AuArena *arena = au_arena_new(NULL);
    const char *text = au_format(
        arena,
        "const c = 3; const half = 0.5; fn twice(x) = x + x; attention a { " HEAD
        "input bias: f32[H, S, T]; input table: i32[128]; input flag: bool[B]; input one: f32[]; "
        "param n: i32 = 4; param causal: bool; "
        "score_mod(s, b, h, i, j) = %s; online identity; }",
        expression);
    Compiled c = compile_good(text);
    AuText out = {.arena = c.arena};
    attn_print_expr(c.attns[0], c.attns[0]->score_mod, &out);
    assert_string_equal(au_text_str(&out), expected);
    au_arena_free(c.arena);
    au_arena_free(arena);
}

static void expressions(void **state)
{
    (void)state;
    assert_score("s * 2", "$score * 2.0"); /* a number is converted now, */
    assert_score("s * c", "$score * 3.0");
    assert_score("s * n", "$score * to_f32(n)"); /* a value when it is known */
    assert_score("s + f32(7 / 2)", "$score + to_f32(7 / 2)");
    assert_score("s + (1 - 2 * 3) % 4", "$score + to_f32((1 - 2 * 3) % 4)");
    assert_score("1 - 2 - 3 + s", "to_f32(1 - 2 - 3) + $score");
    assert_score("-s + -3 + -half", "-$score + -3.0 + -0.5");
    assert_score("0x10 + s", "16.0 + $score");
    assert_score("s + (1 << 3 | 4 ^ 2)", "$score + to_f32(1 << 3 | 4 ^ 2)");
    assert_score("s * pi + nan", "$score * 3.141592653589793 + nan");
    assert_score("s % 2", "$score % 2.0");
    assert_score("s + q_pos - kv_h", "$score + to_f32(q_idx + (T - S)) - to_f32(kv_h)");
}

static void conditions(void **state)
{
    (void)state;
    assert_score("where(causal, s, -inf)", "where(causal, $score, -inf)");
    assert_score("where(flag[b] == causal, s, half)",
                 "where(where(flag[b], causal, !causal), $score, 0.5)");
    assert_score("where(flag[b] != causal, s, half)",
                 "where(where(flag[b], !causal, causal), $score, 0.5)");
    assert_score("where(!(i >= j) || i != j, s, 0)",
                 "where(!(kv_idx <= q_idx) || q_idx != kv_idx, $score, 0.0)");
    assert_score("where(i > j && true, s, 1)", "where(kv_idx < q_idx && true, $score, 1.0)");
    assert_score("s + f32(i < j)", "$score + to_f32(q_idx < kv_idx)");
}

static void functions(void **state)
{
    (void)state;
    assert_score("clamp(s, 0, 1)", "min(max($score, 0.0), 1.0)");
    assert_score("f32(clamp(j - i, 0, n))", "to_f32(min(max(kv_idx - q_idx, 0), n))");
    assert_score("relu(s)", "max(0.0, $score)"); /* 0 first: its derivative at the tie is 0 */
    assert_score("elu(s)", "where(0.0 < $score, $score, expm1($score))");
    assert_score("silu(s)", "$score * sigmoid($score)");
    assert_score("gelu(s)", "0.5 * $score * (1.0 + erf($score * 0.7071067811865476))");
    assert_score("min(i, j) + max(s, 1) + sign(i)",
                 "to_f32(min(q_idx, kv_idx)) + max($score, 1.0) + to_f32(sign(q_idx))");
    assert_score("s + i32(s)", "$score + to_f32(to_i32($score))");
    assert_score("stop_grad(s) + pow(2, s)", "stop_grad($score) + pow(2.0, $score)");
    assert_score("twice(s * 2)", "$score * 2.0 + $score * 2.0");
}

static void reads(void **state)
{
    (void)state;
    assert_score("s + bias[h, i, j] + one + one[]",
                 "$score + bias[h, q_idx, kv_idx] + one[] + one[]");
    assert_score("s + table[abs(i - j) & 127]",
                 "$score + to_f32(table[abs(q_idx - kv_idx) & 127])");
    assert_score("s + dot(q[.., i], k[.., j])", "$score + dot(q[b, h, q_idx], k[b, h, kv_idx])");
    assert_score("s + dot(k[b, h, j], q[b, h, i])",
                 "$score + dot(q[b, h, q_idx], k[b, h, kv_idx])");
}

/* ---- the examples */

static void compile_folder(const char *folder, uint32_t least)
{
    AuArena *arena = au_arena_new(NULL);
    uint32_t count;
    char **names = list_files(arena, folder, ".attn", &count);
    assert_true(count >= least);
    for (uint32_t i = 0; i < count; i++) {
        size_t length;
        Compiled c =
            compile_good(read_bytes(arena, au_format(arena, "%s/%s", folder, names[i]), &length));
        assert_true(c.count >= 1);
        for (uint32_t n = 0; n < c.count; n++)
            assert_true((c.attns[n]->online != NULL) != (c.attns[n]->linear != NULL));
        au_arena_free(c.arena);
    }
    au_arena_free(arena);
}

static void examples(void **state)
{
    (void)state;
    compile_folder(AU_EXAMPLES, 17);
    compile_folder(AU_EXAMPLES "/../scripts", 10); /* further attentions of the literature */
}

static char *without(AuArena *arena, const char *text, const char *word, const char *other)
{
    AuText out = {.arena = arena};
    for (const char *at; (at = strstr(text, word)); text = at + strlen(word))
        au_text_add(&out, "%.*s%s", (int)(at - text), text, other);
    au_text_add(&out, "%s", text);
    return out.at;
}

/* The library's softmax and one spelled out in the script are the same attention. */
static void spelled_out(void **state)
{
    (void)state;
    AuArena *arena = au_arena_new(NULL);
    size_t length;
    Compiled mha = compile_good(read_bytes(arena, AU_EXAMPLES "/mha.attn", &length));
    Compiled own =
        compile_good(read_bytes(arena, AU_EXAMPLES "/softmax_spelled_out.attn", &length));
    const char *text = without(arena, without(arena, ir_of(&own), "mha_spelled_out", "mha"),
                               "my_softmax", "softmax");
    assert_string_equal(ir_of(&mha), text);
    au_arena_free(mha.arena);
    au_arena_free(own.arena);
    au_arena_free(arena);
}

/* ---- sizes, conditions of the launch */

static void sizes(void **state)
{
    (void)state;
    Compiled c = compile_good(
        "const R = 16; attention a { q: [B, 2 * G, S, 4 * R]; k: [B, G, T, 4 * R]; v = k[.., 0:R * "
        "2]; "
        "input table: f32[2 * G, 2 * R + 1]; input x: f32[G + S]; "
        "score_mod(s, b, h, i) = s + table[h, 0] + x[i]; online softmax; require T % 2 == 0; }");
    const AuAttn *a = c.attns[0];
    const int32_t heads = attn_size_of(a, "q_heads"), width = attn_size_of(a, "64"),
                  values = attn_size_of(a, "32");
    assert_true(heads >= 0 && a->sizes[heads].fixed == -1);
    assert_true(width >= 0 && a->sizes[width].fixed == 64);
    assert_true(values >= 0 && a->sizes[values].fixed == 32);
    assert_true(a->v_in_k && a->v_first == 0 && a->v_last == 32);
    assert_int_equal(a->require_count,
                     3); /* G divides 2 G, that size is 2 G, and the script's own */
    assert_int_equal(attn_at(a, a->tensors[3].axes[1])->integer, 33);
    au_arena_free(c.arena);
}

static void heads(void **state)
{
    (void)state;
    Compiled c = compile_good(
        "attention a { q: [B, H, S, D]; k: [B, Hk, T, D]; v: [B, Hk, T, D]; online softmax; }"
        "attention c { q: [B, 32, S, D]; k: [B, 8, T, D]; v: [B, 1, T, D]; online softmax; }");
    assert_int_equal(c.count, 2);
    assert_int_equal(c.attns[0]->require_count, 1);
    assert_int_equal(c.attns[1]->require_count, 0);
    au_arena_free(c.arena);
}

static void own_before_library(void **state)
{
    (void)state;
    Compiled c = compile_good("online softmax { online_fwd(s) { return s, 2.0; } "
                              "online_fwd_epilogue(o) = o; forward(s) = s; }"
                              "attention a { " HEAD " online softmax; }");
    assert_int_equal(c.attns[0]->online->scale_count, 0);
    au_arena_free(c.arena);
}

static void choosing_one(void **state)
{
    (void)state;
    Compiled c = compile_good("attention a { " HEAD "online softmax; } attention c { " HEAD
                              "online identity; }");
    assert_ptr_equal(front_select(c.diags, c.script, c.attns, c.count, "c"), c.attns[1]);
    assert_int_equal(c.diags->errors, 0);
    assert_null(front_select(c.diags, c.script, c.attns, c.count, "d"));
    assert_null(front_select(c.diags, c.script, c.attns, c.count, NULL));
    assert_int_equal(c.diags->errors, 2);
    au_arena_free(c.arena);
}

static void seeds(void **state)
{
    (void)state;
    Compiled c = compile_good(
        "attention a { " HEAD
        "input seed: i64[]; weight_mod(p) = dropout(p, 0.5, seed[]); online softmax; }"
        "attention c { " HEAD
        "param n: i32; param seed: i64; weight_mod(p) = dropout(p, 0.5, seed); online softmax; }");
    static const int32_t expected[] = {~3, 1}; /* tensor 3, param 1 */
    for (uint32_t i = 0; i < 2; i++) {
        const AuAttn *a = c.attns[i];
        const AuNode *low = attn_at(a, attn_arg(a, a->weight_mod, 2)),
                     *high = attn_at(a, attn_arg(a, a->weight_mod, 3));
        assert_int_equal(low->op, AU_OP_SEED_WORD);
        assert_int_equal(low->integer, 0);
        assert_int_equal(high->integer, 1);
        assert_int_equal(low->integer2, expected[i]);
        assert_int_equal(high->integer2, expected[i]);
    }
    au_arena_free(c.arena);
}

/* ---- recurrences */

static void slots(void **state)
{
    (void)state;
    Compiled c = compile_good(
        "attention a { q: [B, H, T, D]; k: [B, H, T, D]; v: [B, H, T, D]; input u: f32[H, D]; "
        "input w: f32[B, H, T, D]; "
        "let g = exp(-exp(w)); linear { read = before; bonus = u; decay = g; skip = g * v; } }");
    const AuAttn *a = c.attns[0];
    assert_true(a->linear->read_before);
    /* keys and values have one width here: the slot says which is meant */
    assert_int_equal(attn_at(a, a->linear->decay)->axes, AU_AX_B | AU_AX_H | AU_AX_TOK | AU_AX_K);
    assert_int_equal(attn_at(a, a->linear->skip)->axes, AU_AX_B | AU_AX_H | AU_AX_TOK | AU_AX_V);
    assert_int_equal(attn_at(a, a->linear->bonus)->axes, AU_AX_H | AU_AX_K);
    au_arena_free(c.arena);
}

/* Sizes that are equal numbers are told apart by the usual order of axes. */
static void slots_of_numbers(void **state)
{
    (void)state;
    Compiled c = compile_good("attention a { q: [B, 8, T, 8]; k: [B, 8, T, 8]; v: [B, 8, T, 8]; "
                              "input w: f32[B, 8, T, 8]; input u: f32[8, 8]; "
                              "let g = sigmoid(l2norm(w)); linear { decay = g; bonus = u; read = "
                              "before; skip = g * v; } }");
    const AuAttn *a = c.attns[0];
    assert_int_equal(attn_at(a, a->linear->decay)->axes, AU_AX_B | AU_AX_H | AU_AX_TOK | AU_AX_K);
    assert_int_equal(attn_at(a, a->linear->skip)->axes, AU_AX_B | AU_AX_H | AU_AX_TOK | AU_AX_V);
    assert_int_equal(attn_at(a, a->linear->bonus)->axes, AU_AX_H | AU_AX_K);
    au_arena_free(c.arena);
}

static void decays(void **state)
{
    (void)state;
    static const struct {
        const char *decay;
        AuCode code; /* AU_CODE_COUNT: proved */
    } cases[] = {
        {"sigmoid(g)", AU_CODE_COUNT},
        {"exp(-exp(g) * softplus(g))", AU_CODE_COUNT},
        {"pow(sigmoid(g), 1.0 / 16.0)", AU_CODE_COUNT},
        {"1.0 - exp2(-5.0 - h)", AU_CODE_COUNT},
        {"exp(min(g, 0.0))", AU_CODE_COUNT},
        {"sigmoid(g) * exp(-abs(g))", AU_CODE_COUNT},
        {"exp2(-relu(g))", AU_CODE_COUNT},
        {"clamp(g, 0.0, 1.0)", AU_CODE_COUNT},
        {"1.0 / (1.0 + exp(g))", AU_CODE_COUNT},
        {"exp(g)", AU_N0401},
        {"g", AU_N0401},
        {"exp(sigmoid(g))", AU_N0401},
        {"sigmoid(g) * g", AU_N0401},
        {"1.5", AU_E0410},
        {"2.0 + exp(g)", AU_E0410},
        {"-1.0 - sigmoid(g)", AU_E0410},
        {"nan", AU_E0410},
        {"sqrt(-1.0)", AU_E0410},
        {"log(1.0 - 3.0)", AU_E0410},
    };
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        AuArena *arena = au_arena_new(NULL);
        Compiled c = compile(au_format(arena,
                                       "attention a { q: [B, H, T, K]; k: [B, H, T, K]; v: [B, H, "
                                       "T, V]; input g: f32[B, H, T]; linear { decay = %s; } }",
                                       cases[i].decay));
        const AuDiag *first = c.diags->first;
        while (first && first->code == AU_N0402)
            first = first->next; /* of logarithms: attn linear */
        const AuCode found = first ? first->code : AU_CODE_COUNT;
        if (found != cases[i].code) print_error("%s\n%s", cases[i].decay, diagnostics_of(&c));
        assert_int_equal(found, cases[i].code);
        au_arena_free(c.arena);
        au_arena_free(arena);
    }
}

/* Of a compilation's part, whose memory and texts do not stay. */
static void diagnostics_are_taken(void **state)
{
    (void)state;
    static const char script[] = "first\nsecond\n", own[] = "one\ntwo\nthree\n";
    AuArena *arena = au_arena_new(NULL), *part = au_arena_beside(arena);
    AuDiags *all = au_diags_new(arena);
    const uint32_t source = au_source_add(all, "x.attn", script, sizeof script - 1);
    const AuSpan there = {source, 6, 12};
    au_warning(all, AU_W0601, there, "said before");
    AuDiags said = *all;
    said.arena = part, said.source_capacity = said.source_count;
    said.first = said.last = NULL, said.errors = said.warnings = 0;
    au_source_add(&said, "unused.tile", own, sizeof own - 1);
    const uint32_t text = au_source_add(&said, "own.tile", own, sizeof own - 1);
    au_warning(&said, AU_W0601, there, "%s", "said before");
    AuDiag *error = au_error(&said, AU_E0811, (AuSpan){text, 8, 13}, "a %s", "mistake");
    au_add_note(&said, error, there, "of this");
    au_diags_take(all, &said);
    assert_ptr_not_equal(all->sources[text].text, said.sources[text].text);
    assert_ptr_not_equal(all->last->message, error->message);
    au_arena_free(part);
    assert_int_equal(all->errors, 1);
    assert_int_equal(all->warnings, 1); /* once a place */
    AuText out = {.arena = arena};
    au_diags_render(all, &out);
    assert_non_null(strstr(au_text_str(&out), "own.tile:3:1: error E0811: a mistake"));
    assert_non_null(strstr(au_text_str(&out), "three"));
    assert_non_null(strstr(au_text_str(&out), "x.attn:2:1: note: of this"));
    au_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(diagnostics_are_taken),
        cmocka_unit_test(expressions),
        cmocka_unit_test(conditions),
        cmocka_unit_test(functions),
        cmocka_unit_test(reads),
        cmocka_unit_test(examples),
        cmocka_unit_test(spelled_out),
        cmocka_unit_test(sizes),
        cmocka_unit_test(heads),
        cmocka_unit_test(own_before_library),
        cmocka_unit_test(choosing_one),
        cmocka_unit_test(slots),
        cmocka_unit_test(decays),
        cmocka_unit_test(seeds),
        cmocka_unit_test(slots_of_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
