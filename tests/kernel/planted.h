/* planted.h - kernels with one mistake each, which the verifier or the interpreter must name. */
#ifndef AU_KERNEL_PLANTED_H
#define AU_KERNEL_PLANTED_H

#include "kernel_test.h"

typedef struct Mistake {
    AuCode code; /* 0: of the interpreter */
    const char *name, *text, *message;
} Mistake;

/* [prepare] fills in what a kernel runs on; each runs, or is verified, in [seeds] schedules. */
static inline void try_mistakes(const Mistake *mistakes, size_t count, uint64_t seeds,
                                void (*prepare)(AuKRun *run))
{
    for (size_t n = 0; n < count; n++)
        for (uint64_t seed = 0; seed < seeds; seed++) {
            const Mistake *m = &mistakes[n];
            Bench b = bench_new();
            AuKernel *k = m->code ? bench_read(&b, m->text) : bench_kernel(&b, m->text);
            AuKRun run = {.grid = {1, 1, 1}, .seed = seed};
            const char *why = NULL;
            if (!k) fail_msg("%s: %s", m->name, b.diags->first->message);
            prepare(&run);
            if (m->code ? kernel_verify(k, b.diags) : kernel_run(k, &run, b.arena, &why))
                fail_msg("%s, seed %d: nothing was found", m->name, (int)seed);
            if (m->code) assert_int_equal(b.diags->first->code, m->code);
            if (m->code) why = b.diags->first->message;
            if (!strstr(why, m->message)) fail_msg("%s, seed %d: %s", m->name, (int)seed, why);
            bench_free(&b);
        }
}

#endif
