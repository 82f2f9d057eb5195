/* planted_test.c - kernels lowered from programs whose executors go different ways, less one line that orders something or brings it
 * (a wait, a fence, an arrival, a copy, a product), or with a wait for another phase: the interpreter of the kernel IR finds it, or
 * the numbers are wrong. */
#include "lowered.h"

static const char causal[] = "causal_softmax.hooks", common[] = "common.hooks";
static const char slopes[] =
    "fn slope_grad(dp, p, s, delta, b, h, i, j) = -abs(i + (T - S) - j) * p * (dp - delta)\n";

/* What orders or brings something: without such a line a kernel is wrong. */
static bool is_needed_kind(const char *line)
{
    static const char *const kinds[] = {"mbar_", "fence_", "barrier #", "sync ",     "arrive ",
                                        "wgmma", "tma_",   "bulk_",     "copy_wait", "tensor_"};
    while (*line == ' ') line++;
    for (size_t n = 0; n < sizeof kinds / sizeof *kinds; n++)
        if (strncmp(line, kinds[n], strlen(kinds[n])) == 0) return true;
    return false;
}

/* Lines that a kernel does without: so many that contain the text. */
typedef struct Spare {
    const char *text;
    uint32_t count;
} Spare;

typedef struct Planted {
    LoweredBench *bench;
    uint32_t which;
    const Spare *spare; /* text NULL at the end */
    uint32_t phases;    /* waits that the one for another phase is as good as: they are spare */
} Planted;

/* What is found in the kernel with this text, under one of three schedules; NULL: nothing is. */
static const char *found_in(const Planted *p, Session *s, const char *text)
{
    AuKernel *k = kernel_read(s->arena, au_names_new(s->arena), s->diags,
                              au_source_add(s->diags, "changed", text, strlen(text)));
    if (!k || !kernel_verify(k, s->diags)) return "refused";
    for (uint64_t seed = 0; seed < 3; seed++) {
        const char *why = lowered_run(p->bench, s->arena, k, seed);
        if (why) return why;
    }
    return NULL;
}

/* Nothing is found without the line: is it one of the spare ones? */
static bool is_spare(const Planted *p, const char *line, const char *end, uint32_t *met)
{
    for (uint32_t n = 0; p->spare[n].text; n++)
        if (memmem(line, (size_t)(end - line), p->spare[n].text, strlen(p->spare[n].text)))
            return ++met[n] <= p->spare[n].count;
    return false;
}

/* Takes out each line that orders anything, in turn. */
static void try_deletions(const Planted *p)
{
    Session s = session_begin();
    AuText all = {.arena = s.arena};
    uint32_t count = 0, wrong = 0, met[16] = {0};
    kernel_print(lowered_bench_kernel(p->bench, p->which), &all);
    const char *text = au_text_str(&all);
    for (const char *line = text; *line;) {
        const char *end = strchr(line, '\n') + 1;
        if (is_needed_kind(line)) {
            Session one = session_begin();
            const char *without = au_format(one.arena, "%.*s%s", (int)(line - text), text, end);
            if (!found_in(p, &one, without) && !is_spare(p, line, end, met)) {
                print_error("without '%.*s' nothing is found\n", (int)(end - line - 1), line);
                wrong++;
            }
            count++;
            session_end(&one);
        }
        line = end;
    }
    session_end(&s);
    for (uint32_t n = 0; p->spare[n].text; n++)
        if (met[n] < p->spare[n].count) fail_msg("no spare '%s'", p->spare[n].text);
    if (wrong) fail_msg("%u of %u lines", wrong, count);
    assert_true(count > 50);
}

/* Each wait for a phase becomes one for the phase before, and one for that after. */
static void try_phases(const Planted *p)
{
    Session s = session_begin();
    AuText all = {.arena = s.arena};
    uint32_t count = 0, missed = 0;
    kernel_print(lowered_bench_kernel(p->bench, p->which), &all);
    const char *text = au_text_str(&all);
    for (const char *at = text; (at = strstr(at, "mbar_wait")); at++) {
        const char *comma = strstr(at, "], ") + 1, *end = strchr(comma, '\n');
        for (int32_t step = -1; step <= 1; step += 2) {
            Session one = session_begin();
            const char *other = au_format(
                one.arena, "%.*s%%99999 = add.i32 %.*s, %d\n%.*s, %%99999%s", (int)(at - text),
                text, (int)(end - comma - 2), comma + 2, step, (int)(comma - at), at, end);
            const char *why = found_in(p, &one, other);
            if (!why || strcmp(why, "refused") == 0)
                print_error("'%.*s' and %d: %s\n", (int)(end - at), at, step,
                            why ? why : "nothing is found"),
                    missed++;
            count++;
            session_end(&one);
        }
    }
    session_end(&s);
    if (missed != p->phases || !count) fail_msg("%u of %u phases", missed, count);
}

static void planted(const char *file, const char *hooks, const Size *sizes, uint32_t which,
                    const Spare *spare, uint32_t phases)
{
    Session s = session_begin();
    const Lowered t = {.file = file, .hooks = {common, causal, hooks}, .sizes = sizes};
    const Planted p = {lowered_bench(&s, &t), which, spare, phases};
    try_deletions(&p);
    try_phases(&p);
    session_end(&s);
}

/* Spare: the queries come once, and nobody fills the last stages again; one fence serves two products; a warp stores into rows of
 * queries that no other warp reads. */
static void test_forward_needs_its_order(void **state)
{
    (void)state;
    const Size sizes[] = {{"B", 1}, {"H", 1}, {"Hk", 1}, {"S", 128}, {"T", 250}, {NULL, 0}};
    static const Spare spare[] = {{"@queries_empty", 2},
                                  {"mbar_arrive @value_empty", 1},
                                  {"wgmma_fence", 1},
                                  {"sync %", 1},
                                  {"fence_proxy", 1},
                                  {"barrier #1", 1},
                                  {NULL, 0}};
    planted("hopper_forward.tile", NULL, sizes, 0, spare, 0);
}

/* Spare: keys come once; who has freed queries has freed gradients before; one fence serves several products; other barriers of the
 * warp, or of the group, lie near. */
static void test_backward_needs_its_order(void **state)
{
    (void)state;
    const Size sizes[] = {{"B", 1}, {"H", 2}, {"Hk", 1}, {"S", 150}, {"T", 128}, {NULL, 0}};
    static const Spare spare[] = {
        {"@keys_empty", 2}, {"mbar_wait @grad_empty", 1}, {"wgmma_fence", 3}, {"sync %", 1},
        {"barrier #1", 3},  {"fence_proxy", 1},           {NULL, 0}};
    planted("hopper_backward.tile", slopes, sizes, 1, spare, 0);
}

/* Spare: what comes once, or is the last of its ring; who may store weights knows that the product which read the last ones is done,
 * and who may touch the sums, that the weights are there; lanes have rows of their own; other fences and barriers lie near. */
static void test_tensor_memory_needs_its_order(void **state)
{
    (void)state;
    const Size sizes[] = {{"B", 1}, {"H", 1}, {"Hk", 1}, {"S", 150}, {"T", 250}, {NULL, 0}};
    static const Spare spare[] = {{"@queries_empty", 2},
                                  {"mbar_wait @added_full", 1},
                                  {"mbar_wait @scores_empty", 2},
                                  {"mbar_wait @weights_full", 2},
                                  {"tensor_commit @value_empty", 1},
                                  {"tensor_commit @weights_empty", 2},
                                  {"mbar_arrive @added_empty", 1},
                                  {"sync %", 3},
                                  {"fence_proxy", 2},
                                  {"barrier #1", 1},
                                  {"barrier #0", 1},
                                  {"tensor_fence", 8},
                                  {NULL, 0}};
    planted("blackwell_forward.tile", NULL, sizes, 0, spare, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forward_needs_its_order),
        cmocka_unit_test(test_backward_needs_its_order),
        cmocka_unit_test(test_tensor_memory_needs_its_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
