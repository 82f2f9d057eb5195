/* exec.h - whole scripts on real devices against the f64 oracle: compile, load, call, compare.
 * The rule of numerics: the error against f64 is at most twice that of the plain formula computed
 * in the same operand type (four times for gradients), plus a few roundings of the largest result; every
 * element is written and finite. */
#ifndef AU_TESTS_EXEC_H
#define AU_TESTS_EXEC_H

#include <stdbool.h>
#include <stdint.h>

typedef struct ExecCase {
    const char *script; /* under the folder of scripts */
    const char *sizes;  /* "B=1 H=2 Hk=1 S=33 T=57 D=64 E=64" */
    const char *params; /* "window=16 rate=0.5", or NULL */
    const char *how; /* words: odd (strides that are not those of a contiguous tensor), heads_inside
                        ([B, S, H, D] in memory), nan (padding is NaN), big (scores of deviation 9),
                        huge (one key of magnitude 1e4), far_queries (every third is of magnitude 1e4), sorted (integer inputs ascend), long (they
                        reach 89, else 1), far_front, far_back, far_head, far_all (`bias` is -1e4 .. -inf there, far_bias), flat
                        (queries are 0), scaled (output gradients are 4096 times as large, as with a loss scale, and dv is as exact
                        as its operands are, however small weights are), poison (a query and a bias are NaN), unseen, later (NaN where no query looks, exec_unseen.c),
                        few, decode (kernels for few queries, or for few rows of a group of heads, where there are such),
                        parts (of `parts=N` among the sizes: unfinished of N sets of keys and combine in place of forward; a param
                        `first` is the number of a set's first key),
                        neighbours (the same bits of a sequence's results whatever else is in the call, exec_neighbours.c),
                        paged (keys in pages of `slots=N` among the sizes, exec_pages.c), padded (keys that end before their tensor),
                        invariant (kernels for calls whose results do not depend on the batch),
                        groups (the first `shared=N` keys are the same in neighbouring sequences, exec_groups.c; weighed: only where it saves
                        more than it costs),
                        wide (gradients by group_back_wide in a shape that its rule does not take),
                        opaque, opaque_forward (gradients by matrices_backward, results by matrices_forward, and by nothing else),
                        repeat (sums in one order, and the same bits twice), checked (kernels that check indices, on devices),
                        driver (gradients on OpenCL devices in the quick round, too),
                        or NULL */
} ExecCase;

typedef struct ExecSuite ExecSuite;

/* [device]: what aule_device_open takes, and behind a / the architecture that is compiled for. NULL: it cannot be opened. */
ExecSuite *exec_open(const char *device, const char *scripts);
void exec_close(ExecSuite *suite);
/* Runs a case in one operand type: "f32", "tf32" (f32, multiplied as that), "f16", "bf16"; false: prints what was
 * expected and found. */
bool exec_run(ExecSuite *suite, const ExecCase *c, const char *dtype);
/* How many did; the exit status of who ran them, which it prints. */
typedef struct ExecTally {
    unsigned passed, failed, seen; /* seen: those of the other parts, too */
    bool stops;                    /* exec_all: at the first failure */
} ExecTally;
/* AULE_TEST_PART=N/K: part K, from 0 on, of N of a program's runs; without K it is what AULE_TEST_TURN, a number of any size, leaves when
 * divided by N, else part 0. They are drawn, so that parts do not go in step with types and
 * rungs that take turns. The suite `full` has such parts of what `slow` has whole. Is the next run one of them? */
bool exec_is_in_part(ExecTally *tally);
int exec_report(const ExecTally *tally);
/* All cases on one device, in the types that [choose] gives, turn after turn of a case; NULL: none in that turn. false: the device cannot
 * be opened. */
enum { EXEC_TURNS = 4 };
typedef const char *ExecChoice(const void *of, unsigned n, unsigned turn);
bool exec_all(ExecTally *tally, const char *device, const char *scripts, const ExecCase *cases,
              unsigned count, ExecChoice *choose, const void *of);

/* From now on with other numbers, and beside a plain formula whose sums over keys, queries and pairs are exact: the products of
 * libraries, which sum in parts, come near that. */
void exec_be_strict(ExecSuite *suite, uint64_t seed);
/* From now on interpreters run each variant in [orders] orders of blocks and threads: results that differ in a bit are a failure. */
void exec_be_ordered(ExecSuite *suite, uint32_t orders);
/* From now on failures are not printed, but told: what stood against the last run, "" nothing. */
void exec_be_quiet(ExecSuite *suite);
const char *exec_trouble(const ExecSuite *suite);
/* The error of a result of the last run over its bound, and the result's name; 0: there is no such number. */
double exec_error(const ExecSuite *suite, uint32_t n, const char **name);

#endif
