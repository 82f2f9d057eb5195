/* The golden kernels as MSL: their text, which can be read when the printer changes, and that the shim takes it. `block` is not here: it
 * counts blocks, which no schedule makes and MSL 3.0 cannot. */
#include <stdlib.h>

#include "data.h"
#include "metal_compile.h"
#include "target.h"

static const char *const kernels[] = {"attention", "loops", "words"};
enum { KERNELS = sizeof kernels / sizeof *kernels };

static const char *msl(Bench *b, const char *name)
{
    AuText text = {.arena = b->arena}, shown = {.arena = b->arena};
    AuBlob blob = {0};
    const AuTarget *t = &au_target_metal;
    file_read(au_format(b->arena, "%s/%s.kir", getenv("AU_KERNELS"), name), &text);
    AuKernel *k = bench_kernel(b, au_text_str(&text));
    if (t->emit(b->arena, b->diags, &k, 1, &t->archs[0], AU_CODE_FINAL, 2, &blob))
        return blob.bytes;
    au_diags_render(b->diags, &shown);
    fail_msg("%s", au_text_str(&shown));
    return NULL;
}

static void text_is_as_recorded(void **state)
{
    (void)state;
    Bench b = bench_new();
    golden_expect(&b, "attention.metal", msl(&b, "attention"));
    bench_free(&b);
}

static void it_is_compiled(void **state)
{
    (void)state;
    for (size_t n = 0; n < KERNELS; n++) {
        char why[4096] = "";
        Bench b = bench_new();
        MetalText *compiled =
            metal_compile(msl(&b, kernels[n]), n % 2 ? 310 : 300, why, sizeof why);
        if (!compiled) fail_msg("%s: %s", kernels[n], why);
        metal_forget(compiled);
        bench_free(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(text_is_as_recorded),
                                       cmocka_unit_test(it_is_compiled)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
