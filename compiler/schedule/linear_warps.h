/* linear_warps.h - the parts of the schedule `linear_warps`: recurrences on the matrix units of a warp. */
#ifndef AU_SCHEDULE_LINEAR_WARPS_H
#define AU_SCHEDULE_LINEAR_WARPS_H

#include "linear.h"
#include "warps.h"

/* Who has what. A chunk's rows are shared out among [row_groups] warps, 16 rows each; what warps there are more share the value columns
 * of the output. Of the state, a warp has [channels] of the keys' and [columns] of the values'. */
typedef struct LinearWarps {
    Linear l;
    int32_t d, e;         /* channels of a tile of keys, padded; value columns of a block */
    int32_t row_groups;   /* of 16 rows of a chunk */
    int32_t out_columns;  /* of an executor's part of the output */
    int32_t state_groups; /* of rows of the state, the others share its columns */
    int32_t channels, columns;
    int32_t holders;   /* warps that have a part of the state, the first ones */
    int32_t share;     /* rows of a chunk that an executor brings */
    int32_t solved;    /* feedback: columns that a warp solves for */
    bool has_since;    /* places in the sums of log decays lie one behind those of their tokens */
    bool keeps_states; /* makes states before each chunk, in the workspace, and nothing else */
    bool
        rounds_written; /* feedback: U is one number, as values are, where nothing goes on from it */
    bool makes_given; /* backward: makes the output of chunks once more, and of it what is given */
    bool in_two;      /* forward: who keeps states gives out the last, who makes what is given o */
    bool makes_ends;  /* of segments, in the workspace, and no output */
    bool makes_inverse; /* feedback: that of each chunk, in the workspace, and nothing else */
    bool keeps_written; /* with states: what is written, in the workspace, as one number */
    bool makes_pairs;   /* those of queries with keys, in the workspace, and has_decayed */
    bool
        has_decayed; /* decays a channel: queries and keys are there as chains take them, and `totals` */
    bool keeps_key_pairs; /* with pairs: those of keys with keys, in the workspace */
    bool makes_rows;      /* with inverses: slots of queries and keys, in the workspace */
    bool has_rows;        /* they are there */
    bool without_keys, without_values, without_inverse; /* backward: not brought with a chunk */
    bool without_strengths; /* pairs for gradients of values, which strengths belong to */
    int32_t kept_columns;   /* of states there, padded */
} LinearWarps;

enum {
    LINEAR_ROWS = 16,
    LINEAR_HALVES_MET = 3,
    LINEAR_APART_BLOCKS =
        2, /* of a processor, of chunks apart: one has work while the other waits */
    LINEAR_F32 = 4,
    LINEAR_ROW_GAP = 4 /* between rows of f32, so that a fragment's lie in banks of their own */
};

/* linear_warps_shape.c */
void linear_warps_complete(const AuProblem *p, AuShape *shape);
int32_t linear_warps_row_groups(const AuShape *s);
int32_t linear_warps_state_groups(const AuProblem *p, const AuShape *s);
int32_t linear_warps_solved(const AuShape *s); /* feedback: columns that a warp solves for */
int32_t linear_warps_blocks(const AuProblem *p, const AuShape *s); /* of a processor, by rule */
int32_t linear_warps_channels(const AuProblem *p); /* padded to the depth of a product */
int32_t linear_warps_padded(int32_t width);        /* likewise */
/* Why matrix units of warps do not take the recurrence; NULL: they do. */
const char *linear_warps_refusal(AuArena *arena, const AuProblem *p);

/* linear_warps.c */
LinearWarps lw_begin(AuArena *arena, AuTileBuild *t, const AuProblem *p, AuSchedule *out,
                     const AuShape *s);
void lw_layouts(LinearWarps *w);
void lw_forward_kernel(LinearWarps *w);
/* linear_warps_vector.c: decays a channel, and with feedback `own` all as if they were that. */
AuDecayClass lw_decay(const LinearWarps *w);
bool linear_warps_by_channel(const AuProblem *p); /* linear_warps_shape.c */
bool lw_by_channel(const LinearWarps *w);
bool lw_is_own(const LinearWarps *w);               /* feedback `own` */
bool lw_is_fed(const LinearWarps *w);               /* either feedback */
int32_t linear_warps_rows_of_own(int32_t channels); /* that tiles are made of at once */
/* Does a kernel without a chain make rows as the state takes them, and pairs, for those that are chains? */
bool linear_warps_rows_apart(const AuProblem *p);
int32_t linear_warps_levels(int32_t tokens); /* halves of a chunk, halves of those, .. */
void lw_vector_memories(LinearWarps *w);
void lw_vector_layouts(LinearWarps *w);
/* What rows take, what pairs do, and both beside the state. */
void lw_vector_declare_rows(LinearWarps *w);
void lw_vector_declare_pairs(LinearWarps *w);
void lw_vector_declare(LinearWarps *w);
/* Running sums of log decays, for all behind the next barrier; what products take, behind another one. */
void lw_vector_sums(LinearWarps *w);
void lw_vector_make(LinearWarps *w);
/* Readers and writers that meet: the tiles that have their levels, the memory where pairs go, and where those of a token with itself are. */
typedef struct LinearPairs {
    const char *readers, *writers;
    const char *memory; /* NULL: what is fed back, to where it is inverted */
    const char *own;    /* NULL: a token does not see itself */
    bool of_keys;       /* what keys write: strengths are factors of it */
} LinearPairs;
/* The pairs of the executor's rows, 0 staying of what no row sees; of queries with keys, to P; of keys with keys, times `erase`. */
void lw_vector_pairs(LinearWarps *w, const LinearPairs *pairs);
void lw_vector_weights(LinearWarps *w);
/* Are the pairs of a group of rows made once for all its executors? Then by those between begin and tile_end. */
bool lw_shares_pairs(const LinearWarps *w);
void lw_begin_sharers(LinearWarps *w);
/* Rows of P that are the executor's. */
const char *lw_pair_rows(LinearWarps *w);
void lw_vector_key_pairs(LinearWarps *w);
/* The kernel of pairs: tiles of keys as readers take the place of those of queries, when their pairs are made. */
bool lw_in_turn(const LinearWarps *w);
void lw_vector_make_keys(LinearWarps *w);
int32_t lw_vector_rows(const LinearWarps *w); /* of a chunk, that tiles are made of at once */
/* Of the rows being made: sums before their tokens, in `row_before`; pairs of tokens with themselves, to [memory]. */
void lw_vector_load_before(LinearWarps *w);
void lw_vector_own_pairs(LinearWarps *w, const char *rows, const char *reader, const char *writer,
                         const char *memory);

/* linear_warps_own.c: feedback `own`. */
void lw_own_memories(LinearWarps *w);
void lw_own_declare(LinearWarps *w);
/* Of the executor's rows of the chunk, what products take. */
void lw_own_make(LinearWarps *w);
/* Pairs of the executor's rows but those that are inverted, by executors that share them out. */
void lw_own_pairs(LinearWarps *w);
void lw_own_right(LinearWarps *w); /* what M meets */
/* What readers have of b: onto `acc`, and of the state, onto it. */
void lw_own_read(LinearWarps *w, const char *columns);
void lw_own_write(LinearWarps *w);
void lw_own_keep_pairs(LinearWarps *w); /* of the kernel of pairs, by who made them */
/* Rows that read for what is fed back, and those that write it, with either feedback, as chains take them. */
const char *lw_fed_readers(const LinearWarps *w);
const char *lw_fed_writers(const LinearWarps *w);

bool lw_has_output(const LinearWarps *w);

/* linear_warps_output.c: what q reads, in `acc`, and with a norm `sum`, where `state` lies in S and its sums in Sums; its columns. */
bool lw_has_strength(const LinearWarps *w); /* of pairs and keys */
bool lw_decays(const LinearWarps *w);
bool lw_has_pairs(const LinearWarps *w); /* in memory */
const char *lw_out_column(LinearWarps *w);
void lw_add_written(LinearWarps *w, const char *acc, const char *a, const char *columns);
void lw_output(LinearWarps *w);

const char *lw_row(LinearWarps *w); /* the first of the executor's rows */
const char *lw_begins(LinearWarps *w, const char *part, int32_t parts, int32_t size);
/* Of its part of the state; what stands between is for warps that have one. */
const char *lw_state_row(LinearWarps *w);
const char *lw_state_column(LinearWarps *w);
void lw_begin_state(LinearWarps *w);
void lw_end_state(LinearWarps *w);

/* Of a backward, where executors have roles: those of a group of rows share its columns. The first half of them makes gradients of
 * queries, the other one those of keys, and all those of values. */
typedef struct LinearBack {
    LinearWarps w;
    LinearPart part;
    int32_t parts;      /* of a group of rows: executors */
    int32_t key_parts;  /* half of them: parts of the keys' channels, */
    int32_t key_strips; /* each of strips, one after another, so that registers do */
    int32_t key_columns, value_columns; /* of a strip; of a part */
    int32_t pair_parts, pair_columns;   /* of a group's pairs */
    bool has_rate;         /* the log decay, a number a token at most, has a gradient */
    bool has_rates;        /* one of a number a channel does */
    bool is_fed;           /* feedback `key`; of the kernel `carry` either */
    bool is_own;           /* of the kernel `chunks`: feedback `own` */
    int32_t rows;          /* that gradients of slots are made of at once; 0: LINEAR_ROWS */
    const char *first_row; /* of them */
    bool is_apart;         /* the kernel of chunks: T, U and y of a chunk are there */
    int32_t rounds;        /* then: that S and T come in */
    int32_t blocks;        /* of a processor, of chunks whose decays are a channel's */
    int32_t erase_sums;    /* that strengths of erasing are the sums of */
    bool
        is_staged; /* gradients of keys and queries meet in memory: slots sum over channels that several warps have */
} LinearBack;

/* linear_warps_states.c: an argument that has [axes] of each chunk, in [elem]; `states` among them, where in it chunk `chunk` is, and the
 * beginning of the kernel that makes them. */
void lw_chunk_argument(LinearWarps *w, const char *name, AuTileMode mode, const char *elem,
                       const char *axes);
void lw_states_head(LinearWarps *w);
void lw_states_argument(LinearWarps *w, AuTileMode mode);
void lw_place_of_states(LinearWarps *w, const char *name, const char *chunk);
/* From the block's memory, behind a barrier, to place `place`; a chunk's rows from there to memory. */
void lw_keep_declare(LinearWarps *w);
void lw_keep_rows(LinearWarps *w, const char *memory, const char *tensor);
void lw_issue_kept(LinearWarps *w, const char *token, const char *tensor, const char *memory,
                   int32_t rows);
/* The same of gradients of states behind chunks; U or y, [e, kv]. */
void lw_kept_argument(LinearWarps *w, const char *name, AuTileMode mode, bool of_columns);
/* A block's chunk among all of the call's: the grid `item`, `h`; `n`, `chunk`, `first` and what lin_find_sequence says; what stands between
 * begin and tile_end is for a chunk that there is. */
void lw_chunks_grid(LinearWarps *w);
void lw_find_chunk(LinearWarps *w);
void lw_begin_chunk(LinearWarps *w);
/* Rows of a strip of the state that lanes of a warp move at once, 16 bytes each. */
int32_t linear_warps_rows_at_once(const AuProblem *p, const AuShape *s);
int32_t linear_warps_key_parts(const AuShape *s);
bool linear_warps_is_staged(const AuProblem *p, const AuShape *s);
int32_t linear_warps_key_strips(const AuProblem *p, const AuShape *s);
int32_t linear_warps_value_columns(const AuProblem *p, const AuShape *s); /* all, padded */
int32_t linear_warps_state_parts(const AuProblem *p, const AuShape *s);
/* linear_warps_back_shape.c, of the kernel of states: do tokens and widths divide among warps; columns of a strip, and parts of it. */
bool linear_warps_states_divide(const AuProblem *p, const AuShape *s);
void linear_warps_strips(const AuProblem *p, AuShape *s);
/* Feedback: are chunks made apart from the chain of T, as `carry` and `chunks`? */
bool linear_warps_is_apart(const AuProblem *p, const AuShape *s);
/* Shapes of the kernels that are chains then, `states` and `carry`, and of that of chunks. */
AuShape linear_warps_chain_shape(const AuProblem *p, const AuShape *s);
AuShape linear_warps_apart_shape(const AuProblem *p, const AuShape *s);
int32_t linear_warps_apart_rounds(const AuProblem *p, const AuShape *s);

/* linear_warps_given.c: something stands behind the read (lin_needs_output). The kernel `outputs`, which makes the gradient of what q reads,
 * `given`, of that of the output, and of the norm's sums, `dsums`, for the kernels behind it, of what [states] kept; forward, in two
 * kernels, the output. */
void lw_make_given(AuArena *arena, AuTileBuild *t, const AuProblem *p, AuSchedule *out,
                   const LinearWarps *states);
void lw_given_argument(LinearWarps *w, AuTileMode mode); /* nothing where nothing stands there */
AuShape linear_warps_given_shape(const AuProblem *p, const AuShape *s);
int32_t linear_warps_given_blocks(const AuProblem *p, const AuShape *s); /* of a processor */
/* Why it has no room beside chunks of [s]; NULL where it has, or where nothing stands there. */
const char *linear_warps_given_refusal(AuArena *arena, const AuProblem *p, const AuShape *s);
/* linear_warps_two.c: forward, where one kernel would need all columns of values in a block and has no room: `states` and `outputs`. Why
 * not by [s], which is completed, "" where nothing stands behind the read; by rule; the kernels. */
const char *linear_warps_two_fit(AuArena *arena, const AuProblem *p, AuShape *s);
bool linear_warps_two_shape(AuArena *arena, const AuProblem *p, AuShape *out, const char **why);
void lw_two_kernels(AuArena *arena, AuTileBuild *t, const AuProblem *p, AuSchedule *out,
                    LinearWarps *states);
/* linear_warps_shape.c: is a shape that does for the problem one of two kernels? */
bool linear_warps_is_in_two(AuArena *arena, const AuProblem *p, const AuShape *s);
/* linear_warps_sums.c: a norm's sums before chunks, z, which `states` keeps. */
void lw_sums_argument(LinearWarps *w, AuTileMode mode);
void lw_keep_sums(LinearWarps *w);
/* `reverse`, in the order of its text; nothing without a norm. */
void lw_sums_arguments(LinearBack *b);
void lw_sums_memories(LinearBack *b);
void lw_sums_declare(LinearBack *b);
void lw_sums_move(LinearBack *b, bool in);
void lw_sums_issue(LinearBack *b, const char *chunk);
void lw_sums_issue_state(LinearBack *b); /* of `chunk_of_state`, at `place` */
void lw_sums_share(LinearBack *b);
void lw_sums_of_pairs(LinearBack *b); /* onto `dscore` */
void lw_sums_of_kept(LinearBack *b, const char *columns);
void lw_sums_of_rows(LinearBack *b, bool of_keys, const char *columns); /* onto `dx` */
void lw_sums_of_border(LinearBack *b, const char *kept);
const char *lw_sums_passed(LinearBack *b);
void lw_sums_of_state(LinearBack *b, const char *since);
int32_t lw_sums_of_strengths(const LinearBack *b); /* parts of sums in Ones */
/* linear_warps_carry.c, linear_warps_apart.c: the two kernels. */
void lw_carry_kernel(LinearWarps *w);
void lw_apart_kernel(LinearBack *b);
/* The gradient of the output that comes with a chunk, the block's columns; of kernels that go back over chunks, T, the gradient of the state
 * behind each, in `dstate` and as an operand in memory. */
void lw_given_memory(LinearWarps *w);
void lw_issue_given(LinearWarps *w, const char *chunk, const char *stage);
void lw_move_gradient(LinearWarps *w, bool in);
void lw_share_gradient(LinearWarps *w);
/* Of values, of y: the rows' own fragments, and gradients of values, of their strengths and of what skips the state. */
void lw_written_declare(LinearBack *b);
void lw_written_back(LinearBack *b);
/* Rows that the executor has brought, some at a time with channels along the lanes, until tile_end: those rows, for a tile. */
const char *lw_begin_rows(LinearBack *b);
/* Of these rows a slot of values, all columns, places in `t` and `c`: the tensor's into [raw], the slot's into [to]. */
void lw_load_columns(LinearBack *b, AuSlot slot, const char *raw, const char *to);
int32_t lw_slot_rows(const LinearWarps *w); /* how many */

/* linear_warps_channels.c: decays a channel, gradients: the kernel `chunks`. */
void lw_channels_kernel(LinearBack *b);
int32_t linear_warps_channels_blocks(const AuProblem *p, const AuShape *s);
/* Of sums that decays get, as operands; NULL: the machine has none. */
const AuTileAtom *linear_warps_sums_atom(const AuProblem *p);

/* linear_warps_pairs.c: decays a channel, both directions: the kernel `pairs_of_chunks` and its regions, for chains in chunks of [s]. */
void lw_make_pairs(AuArena *arena, AuTileBuild *t, const AuProblem *p, AuSchedule *out,
                   const AuShape *s, bool for_gradients);
/* Matrices of pairs there, and where others have them: of queries with keys; with feedback `own` of queries with rows that write, of rows
 * that read with keys. */
typedef struct LinearKept {
    const char *memory, *token, *tensor;
} LinearKept;
enum { LINEAR_KEPT_PAIRS, LINEAR_KEPT_WRITERS, LINEAR_KEPT_READERS, LINEAR_KEPT };
const LinearKept *lw_kept(int which);
const LinearKept *lw_kept_of_chain(const LinearWarps *w); /* what comes with a chunk; NULL */
void lw_pairs_argument(LinearWarps *w, const LinearKept *kept, AuTileMode mode);
void lw_key_pairs_argument(LinearWarps *w, AuTileMode mode); /* A(k, k) */
/* What channels keep over a chunk, its logarithm; of the channels of the warp's part of the state, in `whole`. */
void lw_totals_argument(LinearWarps *w, AuTileMode mode);
void lw_load_total(LinearWarps *w);
AuShape linear_warps_pairs_shape(const AuProblem *p, const AuShape *s);
int32_t linear_warps_shared_of_pairs(const AuProblem *p, const AuShape *s);

/* linear_warps_backward.c */
void lw_pairs_of_queries(LinearBack *b, bool apart);

/* linear_warps_rows_back.c: gradients of the chunk's rows. First where they are: rows of the chunk that are an executor's, "at, 16 +: 16" in
 * a tile of stages; the first of its channels of keys, in a strip; the first of its columns of values. */
const char *lw_own_rows(LinearBack *b);
const char *lw_key_column(LinearBack *b);
const char *lw_value_column(LinearBack *b);
/* " * exp(..)": what rows of a fragment keep until the chunk's end or since its start; sums of log decays are loaded into [sums]. */
const char *lw_kept_of_rows(LinearBack *b, bool until, const char *sums);
/* What the slot's gradient, the fragment [dx], gives to tensors; [like]: a fragment that lies as it does. */
void lw_gradient(LinearBack *b, AuSlot slot, const char *dx, const char *like);
/* Of queries or of keys: through the states at the chunk's ends, then through pairs. */
void lw_rows_back(LinearBack *b, bool of_keys);
void lw_values_back(LinearBack *b);
/* Behind a barrier, where gradients were left in memory: whole rows, of queries by the first executors, of keys by as many more. */
void lw_staged_rows(LinearBack *b);

/* linear_warps_key_back.c: gradients with feedback `key`, in the order of their text; Yh and Yl have what U gets, Z the pairs of keys. */
void lw_key_back_memories(LinearBack *b);
void lw_key_back_declare(LinearBack *b);
/* Y, of P: first what is without it. */
void lw_key_back_right(LinearBack *b);
void lw_key_back_solve(LinearBack *b);
void lw_key_back_pairs(LinearBack *b);  /* Z, behind a barrier */
void lw_key_back_rows(LinearBack *b);   /* `dx`: of keys as readers and as writers, without pairs */
void lw_key_back_values(LinearBack *b); /* `dvalue` */
void lw_key_back_state(LinearBack *b);

/* linear_warps_gates.c: gradients of numbers a token, log decays and strengths of writes. */
void lw_gates_memories(LinearBack *b);
void lw_gates_of_pairs(LinearBack *b); /* of score and what dscore is before it is kept */
void lw_gates_of_rows(LinearBack *b, const char *dx, bool of_keys,
                      bool of_start);  /* what `dx` reaches a border of the chunk by */
void lw_gates_of_state(LinearBack *b); /* what passes the chunk, before the state's gradient does */
void lw_gates_back(LinearBack *b);     /* behind a barrier */

/* linear_warps_segments.c: where heads are few, segments of a sequence at once. */
bool lw_takes_segments(const LinearWarps *w);
const char *lw_segments(LinearWarps *w); /* how many, as text */
void lw_segment_kernels(LinearWarps *w); /* before the forward: the state before each segment */
void lw_ends_head(LinearWarps *w);
void lw_ends_argument(LinearWarps *w, AuTileMode mode);
/* Before and behind lin_find_sequence: what of it is the block's, `first_chunk` to `end_chunk`. */
void lw_begin_segment(LinearWarps *w);
void lw_find_segment(LinearWarps *w);
void lw_load_end(LinearWarps *w);  /* forward: the state before a segment that is not the first */
void lw_begin_end(LinearWarps *w); /* the kernel of ends, in order */
void lw_pass_chunk(LinearWarps *w);
void lw_store_end(LinearWarps *w);
void lw_begin_values(LinearWarps *w);
void lw_end_values(LinearWarps *w);
const char *lw_values_of_end(LinearWarps *w, const char *values);

/* linear_warps_rows.c: tiles of q, k and v in the block's memory, of the operands' type, slots applied, and what is a number a token. */
void lw_memories(LinearWarps *w);
void lw_declare(LinearWarps *w);
/* Starts to bring chunk [chunk] to the stage, as far as tensors can be copied. */
void lw_issue(LinearWarps *w, const char *chunk, const char *stage);
void lw_wait(LinearWarps *w);
/* What of the chunk's rows is not as copied, by who copied it. */
void lw_change(LinearWarps *w);
bool lw_has_tensor(LinearWarps *w, AuExpr held); /* does V have that tensor's rows as they are? */
/* Rows in the workspace, of who makes or reads them. */
void lw_make_rows(LinearWarps *w);
void lw_rows_arguments(LinearWarps *w);
void lw_rows_regions(LinearWarps *w);

/* linear_warps_numbers.c: a number a token: sums of log decays, G, strengths of writes, W, of erasing, E; the kernel that makes them. */
void lw_numbers_kernel(LinearWarps *w);
bool lw_has_numbers(const LinearWarps *w);
void lw_numbers_argument(LinearWarps *w, AuTileMode mode);
void lw_numbers_memories(LinearWarps *w);
void lw_numbers_declare(LinearWarps *w);
void lw_numbers_issue(LinearWarps *w); /* of the chunk that lw_issue brings, to registers */
void lw_numbers(LinearWarps *w); /* from there to memory, for others behind the next barrier */

/* linear_warps_inverse.c; feedback `key`: the kernel that makes M of each chunk in the workspace, and what others read it by. */
void lw_inverse_kernel(AuArena *arena, AuTileBuild *t, const AuProblem *p, AuSchedule *out,
                       bool makes_rows);
void lw_inverses_argument(LinearWarps *w, AuTileMode mode);
bool lw_inverts(const LinearWarps *w); /* the forward itself: no such kernel */
void lw_inverse_memories(LinearWarps *w);
void lw_inverse_declare(LinearWarps *w);
void lw_inverse_make(LinearWarps *w); /* M, for others; two barriers */
AuShape linear_warps_inverse_shape(const AuProblem *p, const AuShape *whole);
int32_t linear_warps_shared_of_inverse(const AuProblem *p, const AuShape *whole);
/* Of kernels whose chunks do not wait for each other: blocks of a sequence and head, [least] of them, where heads are few so many that there
 * are [blocks] in all; a loop over the chunks of block [part] of [parts], one in so many. */
const char *lw_parts(LinearWarps *w, int32_t least, int32_t blocks);
void lw_begin_parts(LinearWarps *w, const char *parts);
void lw_key_keep_pairs(LinearWarps *w, const char *pairs, const char *columns, bool near);

/* linear_warps_key.c; feedback `key`; what is written lies in Uh and Ul, [e, kv], two numbers an element. */
void lw_key_memories(LinearWarps *w);
void lw_key_declare(LinearWarps *w);
void lw_key_issue(LinearWarps *w, const char *stage); /* M of the chunk that lw_issue brings */
void lw_key_wait(LinearWarps *w);
void lw_key_solve(LinearWarps *w); /* others read U behind the next barrier */
const char *
lw_half(uint32_t product,
        bool of_b); /* "h", "l": of two numbers, in one of the products that they take */
void lw_store_halves(LinearWarps *w, const char *value, const char *memory, const char *view);
void lw_add_halves(LinearWarps *w, const char *acc, const char *a, const char *memory,
                   const char *view);
/* What stands between is for warps that solve for columns of values. */
const char *lw_solved_columns(LinearWarps *w);
void lw_begin_solvers(LinearWarps *w);
void lw_end_solvers(LinearWarps *w);
/* Rows and columns of a half of M, "h" or "l". */
const char *lw_inverse_view(LinearWarps *w, const char *half, const char *rows,
                            const char *columns);
/* [solved] = [right] M, with M as [kv, q], or its transpose, as [q, kv]; to the memories NAMEh and NAMEl. */
void lw_key_multiply(LinearWarps *w, const char *as, const char *to);
/* The same as one number an element in the workspace, [kept], and in memory times [factor], "" or " * ..", a number a token. */
void lw_key_multiply_by(LinearWarps *w, const char *as, const char *to, const char *kept,
                        const char *factor);

#endif
