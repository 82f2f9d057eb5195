/* ranges_test.c - mask ranges against brute force: masks we know by name, and random ones. Always:
 * no pair outside of [low, high), every pair in [full_low, full_high). Where the result calls
 * itself exact: every column of [low, high) has a pair in the tile, and every column of it outside
 * of the full range lacks one, so that no tile of columns is visited that is empty and none is
 * tested that is full. */
#include "support.h"

#include <stdio.h>
#include <string.h>

#include "eval.h"

typedef struct Place {
    Case *c;
    int64_t b, h, i, j;
} Place;

static void leaf(void *user, AuProgram *p, AuEvalStep *s, uint32_t count)
{
    const Place *at = user;
    const AuNode *n = s->node;
    (void)p, (void)count;
    if (n->op == AU_OP_SIZE)
        s->value[0] = (double)at->c->sizes[n->integer];
    else if (n->op == AU_OP_PARAM)
        s->value[0] = at->c->params[n->integer];
    else if (n->op == AU_OP_INDEX)
        s->value[0] = (double)(n->integer == AU_AX_B   ? at->b
                               : n->integer == AU_AX_H ? at->h
                               : n->integer == AU_AX_Q ? at->i
                                                       : at->j);
    else if (n->op == AU_OP_INPUT) { /* one axis each, and clamped like the kernels do */
        const int64_t last = (int64_t)at->c->counts[n->integer] - 1,
                      index = (int64_t)s->args[0]->value[0];
        s->value[0] = at->c->tensors[n->integer][index < 0 ? 0 : index > last ? last : index];
    } else
        fail_msg("leaf %d", n->op);
}

/* Compares one tile of rows [i0, i1). Returns what is wrong, NULL: nothing. */
static const char *check_tile(AuProgram *mask, AuProgram *range, Place *at, bool keys, bool exact,
                              int64_t i0, int64_t i1, int64_t columns)
{
    at->i = i0, at->j = i1;
    attn_program_run(range, AU_CHANGED_ALL, 1);
    double end[4];
    for (int n = 0; n < 4; n++) end[n] = range->roots[n]->value[0];
    if (!(0 <= end[0] && end[0] <= end[2] && end[2] <= end[3] && end[3] <= end[1] &&
          end[1] <= (double)columns))
        return "the ends are out of order";
    for (int64_t column = 0; column < columns; column++) {
        bool some = false, all = true;
        for (int64_t row = i0; row < i1; row++) {
            at->i = keys ? row : column, at->j = keys ? column : row;
            attn_program_run(mask, AU_CHANGED_ALL, 1);
            const bool ok = mask->roots[0]->value[0] != 0;
            some |= ok, all &= ok;
        }
        const bool visited = end[0] <= (double)column && (double)column < end[1];
        const bool full = end[2] <= (double)column && (double)column < end[3];
        if (some && !visited) return "a pair is left out";
        if (full && !all) return "a pair that does not take part is in the full range";
        if (exact && visited && !some) return "a column without a pair is visited";
        if (exact && visited && all && !full) return "a full column is not known to be full";
    }
    return NULL;
}

static void check_mask(Bench *b, Case *c, bool keys, AuRange *r)
{
    AuAttn *a = c->a;
    if (keys)
        attn_key_range(a, r);
    else
        attn_query_range(a, r);
    Place at = {c, 0, 0, 0, 0};
    const AuExpr ends[4] = {r->low, r->high, r->full_low, r->full_high};
    AuProgram *mask = attn_program_new(b->arena, a, &a->mask, 1, 0, 1, leaf, &at);
    AuProgram *range = attn_program_new(b->arena, a, ends, 4, 0, 1, leaf, &at);
    const int64_t S = c->sizes[attn_size_of(a, "S")], T = c->sizes[attn_size_of(a, "T")];
    const int64_t rows = keys ? S : T, columns = keys ? T : S, tiles[] = {1, 3, 4, 16};
    for (at.b = 0; at.b < 2; at.b++)
        for (at.h = 0; at.h < 2; at.h++)
            for (size_t t = 0; t < 4; t++)
                for (int64_t i0 = 0; i0 < rows; i0 += tiles[t]) {
                    const int64_t i1 = i0 + tiles[t] < rows ? i0 + tiles[t] : rows;
                    const char *wrong =
                        check_tile(mask, range, &at, keys, r->exact, i0, i1, columns);
                    if (!wrong) continue;
                    AuText text = {.arena = b->arena};
                    attn_print_expr(a, a->mask, &text);
                    for (int n = 0; n < 4; n++) {
                        au_text_add(&text, "\n  ");
                        attn_print_expr(a, ends[n], &text);
                    }
                    for (uint32_t i = 0; i < a->param_count; i++)
                        au_text_add(&text, "\n%s = %g", a->params[i].name, c->params[i]);
                    fail_msg("%s\n%s range, S = %d, T = %d, rows %d to %d\nmask %s", wrong,
                             keys ? "key" : "query", (int)S, (int)T, (int)i0, (int)i1,
                             au_text_str(&text));
                }
}

static Case *new_case(Bench *b, const char *mask, Random *r)
{
    const char *text =
        bench_softmax(b,
                      "param p: i32 = 3\nparam w: i32 = 5\nparam flag: bool = true\n"
                      "input length: i32[B]\ninput window: i32[H]\ninput table: i32[T]",
                      au_format(b->arena, "mask = %s", mask));
    Case *c = case_new(b, bench_read(b, text),
                       au_format(b->arena, "B=2 H=2 Hk=1 D=1 E=1 S=%u T=%u",
                                 1 + random_below(r, 19), 1 + random_below(r, 19)),
                       1);
    case_param(c, "p", random_below(r, 26) - 5.0);
    case_param(c, "w", random_below(r, 20) - 3.0);
    case_param(c, "flag", random_below(r, 2));
    for (size_t n = 0; n < 2; n++)
        case_tensor(c, "length")[n] = random_below(r, 22),
                       case_tensor(c, "window")[n] = random_below(r, 9);
    for (size_t n = 0; n < c->counts[5]; n++) case_tensor(c, "table")[n] = random_below(r, 3);
    return c;
}

#define POS "(q_idx + (T - S))"

/* Masks that models use, and whether both of their ranges are exact and without lists. */
static const struct {
    const char *mask;
    bool keys_exact, queries_exact, lists;
} known[] = {
    {"true", true, true, false},
    {"kv_idx <= " POS, true, true, false}, /* causal */
    {"kv_idx <= q_idx", true, true, false},
    {POS " - kv_idx < w && kv_idx <= " POS, true, true, false}, /* sliding window */
    {"abs(q_idx - kv_idx) <= w", true, true, false},            /* band */
    {"kv_idx <= " POS " || kv_idx < p", true, true, false},     /* prefix, window of rows */
    {"kv_idx < length[b]", true, true, false},                  /* padded batch */
    {"kv_idx < length[b] && kv_idx <= " POS, true, true, false},
    {"kv_idx < length[b] && q_idx < length[b]", true, true, false},
    {"(kv_idx <= " POS " || kv_idx < p) && kv_idx < length[b]", true, true, false},
    {POS " - kv_idx < window[h] && kv_idx <= " POS, true, true, false}, /* a window a head */
    {"kv_idx < p && (!flag || kv_idx <= " POS ")", true, true, false},
    {"kv_idx / 4 <= q_idx / 4", true, true, false}, /* causal by blocks */
    {"kv_idx / 4 == q_idx / 4", true, true, false}, /* blocks */
    {"max(kv_idx, p) <= q_idx", true, true, false},
    {"kv_idx <= p * q_idx", true, false, false}, /* a coefficient of the launch */
    {POS " - kv_idx < w && kv_idx <= " POS " || kv_idx < p && kv_idx <= " POS, false, false,
     true},                                                        /* window and first keys */
    {"table[kv_idx] == 1 && kv_idx <= q_idx", false, false, true}, /* data */
    {"(q_idx - kv_idx) % 3 == 0", false, false, true},
};

static void test_known_masks(void **state)
{
    (void)state;
    Random r = {11};
    for (size_t m = 0; m < sizeof known / sizeof *known; m++) {
        for (int round = 0; round < 12; round++) {
            Bench b = bench_new();
            Case *c = new_case(&b, known[m].mask, &r);
            AuRange keys, queries;
            check_mask(&b, c, true, &keys);
            check_mask(&b, c, false, &queries);
            if (keys.exact != known[m].keys_exact || queries.exact != known[m].queries_exact ||
                keys.needs_lists != known[m].lists)
                fail_msg("%s: keys %s, queries %s, %s", known[m].mask,
                         keys.exact ? "exact" : "not exact", queries.exact ? "exact" : "not exact",
                         keys.needs_lists ? "lists" : "no lists");
            bench_free(&b);
        }
    }
}

/* Of masks by data: does a tile of few queries need nearly all keys whatever data are? */
static const struct {
    const char *mask;
    bool most;
} by_data[] = {
    {"kv_idx < T - S || table[kv_idx] == 1", true}, /* a tree of drafts */
    {"kv_idx < T - S - 5 || table[kv_idx] == 1 && kv_idx <= " POS, true},
    {"table[kv_idx] == 1 && kv_idx <= q_idx", false},
    {"kv_idx < p || table[kv_idx] == 1", false}, /* as many as a parameter says */
    {"kv_idx < T - S - p || table[kv_idx] == 1", false},
    {"kv_idx < length[b] || table[kv_idx] == 1", false},
    {"T - S <= kv_idx || table[kv_idx] == 1", false}, /* the last ones */
    {"(q_idx - kv_idx) % 3 == 0", false},
};

static void test_masks_by_data(void **state)
{
    (void)state;
    Random r = {13};
    for (size_t m = 0; m < sizeof by_data / sizeof *by_data; m++) {
        Bench b = bench_new();
        Case *c = new_case(&b, by_data[m].mask, &r);
        AuRange keys;
        check_mask(&b, c, true, &keys);
        if (!keys.needs_lists || attn_range_is_most(c->a, &keys) != by_data[m].most)
            fail_msg("%s: %s", by_data[m].mask, keys.needs_lists ? "the other way" : "no lists");
        bench_free(&b);
    }
}

/* ---- random masks */

static const char *random_of(Random *r, const char *const *choices, uint32_t count)
{
    return choices[random_below(r, count)];
}

static const char *random_row(Random *r)
{
    static const char *const choices[] = {"q_idx",
                                          POS,
                                          "2 * q_idx",
                                          "-q_idx",
                                          "q_idx / 4",
                                          "q_idx * p",
                                          "5",
                                          "p",
                                          "w - 3",
                                          "length[b]",
                                          "max(q_idx, p)",
                                          "min(" POS ", w)",
                                          "abs(q_idx - 5)",
                                          "q_idx / 4 * 4",
                                          "window[h] + q_idx",
                                          "where(flag, q_idx, p)",
                                          "q_idx % 5",
                                          "3 - q_idx / 3"};
    return random_of(r, choices, sizeof choices / sizeof *choices);
}

static const char *random_column(Random *r)
{
    static const char *const choices[] = {
        "kv_idx",          "kv_idx",          "kv_idx / 4",
        "-kv_idx",         "kv_idx + 3",      "2 * kv_idx",
        "max(kv_idx, w)",  "abs(kv_idx - 6)", "kv_idx - window[h]",
        "(kv_idx + 1) / 3"};
    return random_of(r, choices, sizeof choices / sizeof *choices);
}

static const char *random_mask(AuArena *m, Random *r, uint32_t depth)
{
    static const char *const compare[] = {"<", "<=", "==", "!="};
    const char *x, *y;
    const uint32_t what = random_below(r, depth ? 14 : 7);
    if (what < 5) {
        x = random_column(r), y = random_row(r);
        if (random_below(r, 3) == 0) x = au_format(m, "%s - %s", x, random_row(r));
        if (random_below(r, 2)) return au_format(m, "%s %s %s", x, random_of(r, compare, 3), y);
        return au_format(m, "%s %s %s", y, random_of(r, compare, 4), x);
    }
    if (what == 5) return "flag";
    if (what == 6) return random_below(r, 3) ? "abs(q_idx - kv_idx) < w" : "table[kv_idx] == 1";
    x = random_mask(m, r, depth - 1), y = random_mask(m, r, depth - 1);
    if (what < 10) return au_format(m, "(%s) && (%s)", x, y);
    if (what < 12) return au_format(m, "(%s) || (%s)", x, y);
    if (what == 12) return au_format(m, "!(%s)", x);
    return au_format(m, "where(%s, %s, %s)", random_below(r, 2) ? "flag" : "kv_idx < p", x, y);
}

static void test_random_masks(void **state)
{
    (void)state;
    Random r = {5};
    uint32_t exact = 0, count = 0;
    for (int n = 0; n < 400; n++) {
        Bench b = bench_new();
        const char *mask = random_mask(b.arena, &r, random_below(&r, 4));
        for (int simple = 0; simple < 2; simple++) {
            Case *c = new_case(&b, mask, &r);
            AuRange range;
            if (simple) attn_simplify(c->a);
            for (int keys = 0; c->a->mask.i && keys < 2; keys++) {
                check_mask(&b, c, keys, &range);
                exact += range.exact;
                count++;
            }
        }
        bench_free(&b);
    }
    if (exact * 3 < count) fail_msg("only %u of %u ranges are exact", exact, count);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_known_masks),
                                       cmocka_unit_test(test_masks_by_data),
                                       cmocka_unit_test(test_random_masks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
