/* bench.h - what `aule bench` and `aule bench --serve` have in common. */
#ifndef AU_TOOLS_BENCH_H
#define AU_TOOLS_BENCH_H

#include "session.h"

enum { BENCH_MOST_RUNS = 1000 };

typedef struct AuTimes {
    double at[BENCH_MOST_RUNS]; /* milliseconds, sorted */
    int count;
    double processor; /* milliseconds of a run that all threads of the process worked, the mean */
} AuTimes;

/* Runs of these steps: some first that are not counted, then nine at least and half a second. */
int bench_measure(AuSession *session, AuDirection from, AuDirection to, AuTimes *times);
void bench_print_text(const char *text); /* as JSON */

/* serve.c: bench --serve. */
int command_bench_serve(AuOptions *options);

/* serve_dense.c: the largest difference between o of the sequences of a session over pages and dense calls of some of them, over the
 * largest value; infinite where one is not a number. [rows]: of each sequence, [starts] its first in q (NULL: q is no packed one). */
typedef struct AuServed {
    AuOptions *options;
    const char *shape;                  /* sizes that are the script's own, "H=32,Hk=8" */
    const char *batch, *queries, *keys; /* the script's names of B, S and T */
    int64_t sequences, page, entries;
    const int64_t *lengths; /* keys of each sequence */
} AuServed;
int serve_compare(const AuServed *served, AuSession *over_pages, const int64_t *rows,
                  const int64_t *starts, double *difference);

#endif
