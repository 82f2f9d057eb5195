/* internal.h - a run of a case: what the ways to execute it share. */
#ifndef AU_TESTS_EXEC_INTERNAL_H
#define AU_TESTS_EXEC_INTERNAL_H

#include "exec.h"

#include "front.h"
#include "gradient.h"
#include "oracle.h"
#include "schedule.h"
#include "aule/aule.h"

enum { MOST_TENSORS = 40, MOST_SIZES = 32 };

struct ExecSuite {
    const char *name;    /* "cpu", "kernel-ir:x86-64-v3" */
    aule_device *device; /* NULL: interpreted */
    const aule_device_info *info;
    const char *arch; /* the only one that is compiled for; NULL: as by default */
    const char *scripts;
    uint64_t seed;
    uint32_t
        orders; /* of blocks and threads, in which interpreters run each variant (exec_orders.c); 0: one */
    uint32_t order; /* the present one */
    bool is_strict, is_quiet;
    char trouble[400]; /* what stood against the last run; "" nothing */
    struct {
        char name[32];
        double error;        /* over its bound */
    } results[MOST_TENSORS]; /* of the last run */
    uint32_t result_count;
};

/* A tensor as the oracle sees it, and as the kernel does. */
typedef struct Tensor {
    const char *name;
    AuDtype dtype; /* never OPERAND */
    uint32_t rank;
    int64_t shape[8], strides[8];
    size_t elements, span; /* of the shape; of the memory */
    double *values;        /* C order */
    unsigned char *bytes;  /* the memory's content */
    aule_buffer *buffer;   /* where the device is not the host */
    DLTensor dl;
    uint32_t role; /* aule_role */
    bool output;   /* of the present operation */
    bool absent;   /* not passed */
} Tensor;

typedef struct Run {
    ExecSuite *suite;
    const ExecCase *c;
    const char *dtype;
    AuArena *arena;
    AuNames *names;
    AuDiags *diags;
    AuAttn *attn;
    const AuGrads *grads;  /* NULL: forward only */
    AuOperation operation; /* the present one */
    int64_t sizes[MOST_SIZES];
    double params[MOST_SIZES];
    int64_t params_i64[MOST_SIZES];
    Tensor tensors[MOST_TENSORS];
    uint32_t tensor_count;
    Tensor scales[2], zeros[2]; /* of k, v as codes */
    int64_t *cu_seqlens;        /* of a recurrence; NULL: not packed */
    int64_t
        chunk; /* of kernels of a recurrence whose products round what they multiply; 0: they do not */
    int64_t back_chunk; /* likewise, of gradients */
    uint64_t random;
    bool has_others; /* what no sequence has are numbers, not NaN */
} Run;

bool exec_has(const Run *r, const char *word);                      /* in the case's `how` */
bool exec_fail(const Run *r, const char *what, const char *detail); /* prints; false */
size_t exec_bytes_of(AuDtype d);
size_t exec_memory_index(const Tensor *t,
                         size_t n); /* element n in C order: where it is in memory, in elements */
double exec_get(const unsigned char *at, AuDtype d);
void exec_put(unsigned char *at, AuDtype d, double v);
AuDtype exec_dtype_of(const char *name);
bool exec_is_tf32(const Run *r); /* tensors of f32 that products take as tf32 */
const char *exec_widths(Run *r); /* "D=64;E=64", as aulec takes them */

/* exec_tensors.c: adds one, filled and where the device has it; does the operation make it? */
bool exec_add_tensor(Run *r, const char *name, AuDtype dtype, const int64_t *shape, uint32_t rank,
                     uint32_t role);
void exec_fill(Run *r, Tensor *t, uint32_t index); /* with other numbers, each time */
bool exec_is_made(uint32_t role, AuOperation operation);
/* exec_check.c: are the results near the oracle's? */
bool exec_check(Run *r);

/* exec_unseen.c: what the words `unseen` and `later` put into the tensors; whether a result may be what it is because of `later`. */
bool exec_plant(Run *r);
bool exec_may_be_later(const Run *r, const Tensor *t, size_t n, double got);
/* exec_device.c: compiled, loaded, called. exec_ir.c: interpreted. Outputs end in the tensors'
 * bytes. */
bool exec_on_device(Run *r, const char *text, size_t length);
bool exec_interpreted(Run *r, const AuScript *script);
bool exec_interpret_operation(Run *r, const AuScript *script, AuOperation operation);
struct AuVariant;
struct AuLaunchExpr;
struct AuTarget;
struct AuArch;
/* A variant, as the suite's name says: as the schedule made it, after the passes, or as kernels; of the architecture of that name. */
bool exec_run_variant(Run *r, const struct AuVariant *v);
/* The same in the suite's present order. */
bool exec_run_once(Run *r, const struct AuVariant *v);
bool exec_find_arch(AuArena *arena, const char *name, const struct AuTarget **target,
                    const struct AuArch **arch);
/* exec_kernels.c: its kernels on the interpreter of the kernel IR; with the word `work` as calls that are given lists of work, too, whose outputs
 * are then as they were. A launch expression of the run's sizes and parameters. */
bool exec_run_kernels(Run *r, const struct AuVariant *v);
bool exec_given_work(Run *r, const struct AuVariant *v);
/* exec_shares.c: lists of equal parts, for [room] of them, are those of the rule. */
bool exec_shares_are_right(Run *r, const struct AuVariant *v, const int32_t *share_of, int64_t room,
                           const int32_t *share_at);
int64_t exec_evaluate(Run *r, struct AuLaunchExpr e);
/* exec_parts.c: forward as attentions of some of the keys, which are joined. */
bool exec_in_parts(Run *r, const AuScript *script);
/* exec_pages.c: the run with its keys in pages, `slots=N` of a page among the sizes; padded. */
Run *exec_paged(Run *r, AuAttn *paged);
/* In place of sequence [b] and its key, the page and the slot; the row of a cache that the sequence has. [r]: the dense run. */
void exec_place_in_pages(const Run *r, int64_t *b, int64_t *key);
int64_t exec_line_of(const Run *r, int64_t b);
int64_t exec_query_line_of(const Run *r,
                           int64_t b); /* the row of q that sequence b has (`lines`) */
Run *exec_padded(Run *r, AuAttn *padded);
/* `positions`: keys and values, and scales of tokens, at odd positions alone. */
Run *exec_odd_keys(Run *r, const AuAttn *attn);
/* exec_turns.c: `turns`: the queries of one of two ranks; in their layout, with their positions; its results among all. */
enum { EXEC_RANKS = 2 };
Run *exec_turn(Run *r, int64_t rank);
void exec_say_turn(const Run *r, Run *laid_out, int64_t rank);
void exec_join_turn(Run *r, const Run *of_rank, int64_t rank);
/* exec_neighbours.c: `neighbours`: the same bits of a sequence's results in calls of others, which the function runs; what lies in a layout where no
 * sequence has a row becomes numbers. */
typedef bool ExecVariant(Run *r, struct AuVariant *v);
bool exec_has_own_bits(Run *r, struct AuVariant *v, ExecVariant *run);
void exec_be_among_others(Run *laid_out);
/* With packed queries, and keys that are packed, padded or paged. */
Run *exec_packed(Run *r, AuAttn *packed);
/* With padded queries, and keys that are dense, padded or paged. */
Run *exec_ragged(Run *r, AuAttn *ragged);
/* exec_lengths.c: where the case has the word `lengths`, lengths of padded rows into a call, and NaN behind them; the oracle of each sequence by itself. */
typedef bool ExecOracle(Run *r, AuDtype round_to, double *const *results);
void exec_set_lengths(Run *r, Run *out);
bool exec_ask_by_sequence(Run *r, AuDtype round_to, double *const *results, ExecOracle *ask);
/* Results in a layout as those of [r]; false: rows of no sequence are not 0. */
bool exec_unpack(Run *r, const Run *packed);
/* exec_groups.c: keys that sequences share, 0: none; the first sequence of the group of [b]; k or v of which the first rows become those of
 * that one; the lists; a run of other lengths with groups and without. */
int64_t exec_shared(const Run *r);
int64_t exec_leader(const Run *r, int64_t b);
void exec_share_rows(Run *r, Tensor *t);
void exec_add_groups(const Run *r, Run *out);
/* Are elements as near as sums in other parts are? */
bool exec_are_near(Run *r, const Tensor *a, const Tensor *b, const char *how, const char *other);
/* exec_rows.c: kernels for few queries in a layout, of sequences with numbers of rows of their own, against such for any number; such
 * numbers into the list of a call. */
void exec_own_rows(const Run *r, Run *out);
bool exec_uneven_rows(Run *r, const struct AuVariant *few, const struct AuVariant *any);
bool exec_uneven_groups(Run *r, const struct AuVariant *with, const struct AuVariant *without);
/* exec_inputs.c: inputs of such a run, and their gradients, which are 0 where no sequence has an element. */
void exec_pack_inputs(const Run *r, Run *packed);
bool exec_unpack_input(Run *r, const Run *packed, Tensor *to, const Tensor *from);
Tensor exec_new_tensor(Run *r, const char *name, AuDtype dtype, const int64_t *shape,
                       uint32_t rank);
void exec_put_at(Tensor *t, size_t n, double value);
/* Behind the tensors that the run's attention has beside the script's. */
void exec_add_outputs(const Run *r, Run *out);
/* A tensor with an element a key, as keys lie. */
Tensor exec_key_rows(Run *r, const AuAttn *a, const Tensor *dense);
/* A tensor with an element a sequence, as rows of caches lie; and as sequences are numbered where nothing has rows of caches. */
Tensor exec_lines(Run *r, const Tensor *dense);
Tensor exec_sequences(Run *r, const AuAttn *a, const Tensor *dense);
/* exec_storage.c: what the case's words say, false: operands; the run with codes, whose elements [r] has then; with the scales. */
bool exec_storage(const Run *r, AuStorage storage[2]);
Run *exec_stored(Run *r, const AuAttn *attn);
Run *exec_with_scales(Run *stored, Run *laid_out, AuAttn *attn);
#define EXEC_NONE UINT32_MAX
/* The n-th tensor of a role; EXEC_NONE: there are fewer. */
uint32_t exec_find_role(const Run *r, uint32_t role, uint32_t n);
/* exec_linear.c: the oracle of recurrences; arrays of gradients by tensor; which state of the pool is a sequence's in a step. */
bool exec_recurrence(Run *r, AuOracleCall call, double *const *results, const char **why);
int64_t exec_slot(const Run *r, size_t sequence);
void exec_gradients_of(const Run *r, double *const *results, double **grads);
/* Before an operation: which tensors it makes; what the one before made is read back as values. */
void exec_begin(Run *r, AuOperation operation);

#endif
