/* Tiled programs with roles, pipelines, copies of boxes and products of groups, lowered, as PTX of sm_90a: assembled here, where ptxas
 * must not make products wait for each other, and cases for a GPU machine (host.h), a case for each kernel of a program. */
#include "host.h"
#include "lowered.h"

static const char causal[] = "causal_softmax.hooks", common[] = "common.hooks";
static const char slopes[] =
    "fn slope_grad(dp, p, s, delta, b, h, i, j) = -abs(i + (T - S) - j) * p * (dp - delta)\n";

typedef struct Shape {
    int32_t heads, key_heads, rows, keys;
} Shape;

typedef struct Program {
    Host *host;
    const char *name;
} Program;

/* The kernel and copies of what it is given; the session and its arena end before the cases run. */
static void add_case(const AuKernel *given, const AuKRun *run, void *user)
{
    const Program *p = user;
    Host *host = p->host;
    Case *c = host_case(host, "%s, %s", p->name, given->name);
    AuText text = {.arena = host->arena};
    kernel_print(given, &text);
    AuKernel *k = kernel_read(host->arena, au_names_new(host->arena), host->diags,
                              au_source_add(host->diags, "case", au_text_str(&text), text.length));
    host_check(host, k != NULL);
    for (uint32_t n = 0; n < 3; n++) c->grid[n] = run->grid[n];
    AuKMap *maps = AU_NEW_ARRAY(host->arena, AuKMap, k->map_count + 1);
    for (uint32_t n = 0; n < k->map_count; n++) maps[n] = run->maps[n];
    c->maps = maps;
    c->slack =
        0x1p-7f; /* a unit of bf16, to which outputs are rounded; sums in any order are nearer */
    for (uint32_t n = 0; n < k->arg_count; n++) {
        c->slots[n] = run->slots[n];
        if (k->args[n].kind != AU_ARG_POINTER) continue;
        const AuMemory *mem = &k->mems[k->args[n].mem.i];
        const uint64_t count = run->buffers[n].count;
        c->bytes[n] = count * kernel_scalar_bytes(mem->scalar);
        void *data = au_alloc(host->arena, c->bytes[n]);
        memcpy(data, run->buffers[n].data, c->bytes[n]);
        c->buffers[n] = (AuKBuffer){data, count, true};
    }
    kernel_legalize_math(k, au_target_cuda.native_math);
    case_kernel(c, k);
}

static void add_program(Host *host, const char *file, const char *text, const char *hooks,
                        Shape shape, const AuTileOverride *consts, uint32_t const_count)
{
    const Size sizes[] = {{"B", 1},          {"H", shape.heads}, {"Hk", shape.key_heads},
                          {"S", shape.rows}, {"T", shape.keys},  {NULL, 0}};
    Session s = session_begin();
    Program p = {host, au_format(host->arena, "%s of %d, %d rows, %d keys", file, shape.heads,
                                 shape.rows, shape.keys)};
    const Lowered t = {.file = file,
                       .text = text,
                       .hooks = {common, causal, hooks},
                       .sizes = sizes,
                       .consts = consts,
                       .const_count = const_count};
    lowered_visit(&s, &t, add_case, &p);
    session_end(&s);
}

static void forward(void **state)
{
    (void)state;
    static const AuTileOverride groups[] = {{"W", 3}}, keys[] = {{"N", 80}},
                                stage[] = {{"N", 176}, {"STAGES", 1}},
                                wide[] = {{"D", 128}, {"E", 128}};
    static const char file[] = "hopper_forward.tile";
    const Shape shape = {1, 1, 150, 211};
    Host *host = host_new("sm_90a");
    if (!host) skip();
    add_program(host, file, NULL, NULL, (Shape){2, 1, 150, 150}, NULL, 0);
    add_program(host, file, NULL, NULL, (Shape){1, 1, 1, 1}, NULL, 0);
    add_program(host, file, NULL, NULL, (Shape){1, 1, 70, 331}, NULL, 0);
    add_program(host, file, NULL, NULL, (Shape){1, 1, 200, 70}, NULL, 0);
    const char *text =
        replaced(host->arena, example_text(host->arena, file), "regs 240", "regs 160");
    add_program(host, file, text, NULL, shape, groups, 1);
    add_program(host, file, NULL, NULL, shape, keys, 1);
    add_program(host, file, NULL, NULL, shape, stage, 2);
    add_program(host, file, NULL, NULL, shape, wide, 2);
    host_run(host);
    host_free(host);
}

static void backward(void **state)
{
    (void)state;
    static const char file[] = "hopper_backward.tile";
    Host *host = host_new("sm_90a");
    if (!host) skip();
    /* Rows' statistics come as boxes, so four rows are 16 bytes. */
    add_program(host, file, NULL, slopes, (Shape){2, 1, 72, 150}, NULL, 0);
    add_program(host, file, NULL, slopes, (Shape){1, 1, 4, 1}, NULL, 0);
    add_program(host, file, NULL, slopes, (Shape){2, 2, 132, 40}, NULL, 0);
    host_run(host);
    host_free(host);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(forward), cmocka_unit_test(backward)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
