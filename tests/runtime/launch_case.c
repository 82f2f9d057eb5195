#include "launch_case.h"

#include <stdio.h>
#include <time.h>

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

void launch_measure_any(void (*function)(void *context), void *context, const char *what)
{
    enum { ROUNDS = 20000, REPEATS = 10 };
    double least = 1e30;
    for (int repeat = 0; repeat < REPEATS; repeat++) {
        const double begin = now();
        for (int i = 0; i < ROUNDS; i++) function(context);
        const double each = (now() - begin) / ROUNDS;
        if (each < least) least = each;
    }
    printf("%-48s %8.0f ns\n", what, least);
}

typedef struct Warm {
    const aule_plan *plan;
    const aule_run *run;
} Warm;

static void run_plan(void *context)
{
    const Warm *w = context;
    assert_int_equal(aule_plan_run(w->plan, w->run, NULL), AULE_OK);
}

void launch_measure_plan(const aule_plan *plan, const aule_run *run, const char *what)
{
    launch_measure_any(run_plan, &(Warm){plan, run}, what);
}

void launch_measure(Fixture *f, Case *c, const char *what)
{
    aule_plan *plan;
    assert_int_equal(aule_plan_new(f->attention, f->device, &c->call, &plan, NULL), AULE_OK);
    launch_measure_plan(plan, &c->run, what);
    aule_plan_free(plan);
}
