/* linear.h - what schedules of recurrences share (docs/dev/recurrences.md, "Kernels"): a block owns a head and a strip of
 * value columns, the state of which it carries over chunks of tokens. Rows of a chunk, slots applied, lie in its memory. */
#ifndef AU_SCHEDULE_LINEAR_H
#define AU_SCHEDULE_LINEAR_H

#include "lanes.h"

/* Backward by warps: the part of a chunk's gradients that an executor has, and of `t`, `c`, `c_d`. */
typedef struct LinearPart {
    const char *rows, *key_columns, *value_columns; /* "first + 16 +: 16", "0 +: 64" */
} LinearPart;

typedef struct Linear {
    Lanes x;
    const AuNormal *n;
    const AuHookSlot *slots;
    const char *tokens, *heads; /* extents, as text */
    int32_t chunk;              /* tokens */
    int32_t parts;              /* executors that share out key channels, and the chunk's rows */
    int32_t rows;               /* of a chunk, that one of them brings and finishes */
    int32_t spread;             /* as many, or lanes if those are more: what a token a lane takes */
    int32_t columns;            /* of values: a strip, whole vectors */
    bool has_norm;
    bool is_step; /* states are a pool's, in place */
    bool
        rows_along; /* rows of slots lie with channels along the lanes where these are whole vectors; else a token a lane */
    bool names_heads; /* those of q, k and v that serve the block's have names: one division each */
    bool asks_heads;  /* backward: the kernel asks whether heads are shared, where they may be */
    bool
        in_parts; /* backward: warps share out a row's channels, so that sums over them are in parts */
    bool
        stores_reads; /* backward: what is read by the output's own places, each element once, is stored, too */
    bool in_strips;       /* backward: a block goes over strips of columns one after another */
    const char *segments; /* of a sequence: their number, as text; NULL: no kernel knows of them */
    const LinearPart *of_warps; /* NULL: an executor has all of a chunk */
} Linear;

/* What schedules_forward kernels of all classes are made of, in the order of their text. */
void lin_head(Linear *l); /* kernel, arguments, grid, lets */
void lin_output_argument(Linear *l);
/* Into `state`, where one is passed, else 0; and out of it. */
const char *lin_if_kept(const Linear *l); /* " when .."; "" */
void lin_load_state(Linear *l);
void lin_store_state(Linear *l);
/* A block then has all columns of values: an out_mod may look at all of them, and the state of a norm is read and written
 * once, so that it may be in one place. */
bool lin_takes_all_columns(const AuProblem *p);
/* Vectors of columns that a block of the forward has: on a processor up to [most], else one, so that the state of 128 key channels
 * lies in registers and there are as many blocks as can be. */
int32_t lin_strip(const AuProblem *p, int32_t vectors, int32_t most);
/* Strips of columns, and of them what a product takes at once: on processors few strips, since each goes through the pairs of tokens
 * again; whole register blocks. */
void lin_wide_strip(const AuProblem *p, AuShape *out);
/* "f32[q:32, d:64]" as memory of the block: before the role where its executors share it. */
void lin_memory(Linear *l, const char *name, const char *type);
void lin_role(Linear *l);
/* " pad 0" and " clip" of a strip of columns of what has all of them; "" where strips make them up exactly, which no mask costs then. */
const char *lin_padded(const Linear *l);
const char *lin_clipped(const Linear *l);
/* How many there are, as text; packed ones, or one a batch. */
const char *lin_sequences(Linear *l);
void lin_sequences_argument(Linear *l); /* cu_seqlens */
/* A kernel beside the forward: its name, the script's arguments, cu_seqlens. */
void lin_begin_kernel(Linear *l, const char *name);
/* What lin_role does once a role has begun: `start`, `end`, `length`, `b` of the sequence `n`. */
void lin_find_sequence(Linear *l);
void lin_name_heads(Linear *l); /* names_heads from here on */
/* The loop over the sequence's chunks: `chunk`, and its token `first` in the tensors. `start`, `end` and `length` are the
 * sequence's, `n` its number and that of its state, `b` its batch. */
void lin_chunks(Linear *l);

/* Rows of the tensor of a TENSOR node, as "first +: 32", channels [columns], with the axes named; what is not the sequence's is outside. */
const char *lin_view(Linear *l, AuExpr node, const char *tokens, const char *channel,
                     const char *columns, const char *rows);
/* The same of token t, which has no axis then. */
const char *lin_token_view(Linear *l, AuExpr node, const char *channel, const char *columns);
/* Channels of that tensor: all, or [width] from [first] on; of values that are channels of the keys those. */
const char *lin_columns(Linear *l, AuExpr node, const char *first, int32_t width);
const char *lin_elem(Linear *l, AuExpr node); /* its element type */

/* A slot's rows of the chunk. */
typedef struct LinearRows {
    AuSlot slot;
    const char *memory;  /* [tokens:C, width], or [tokens:C] */
    const char *tokens;  /* the axis: "q", "kv" */
    const char *channel; /* "d", "e"; "": a number a token */
    int32_t width;
    bool as_factor;    /* of log decays: exp of them */
    const char *first; /* of a strip of columns, "vb * 32"; NULL: all columns */
} LinearRows;
bool lin_has(const Linear *l, AuSlot slot);
/* Before there is a kernel: */
bool lin_problem_has(const AuProblem *p, AuSlot slot);
bool lin_problem_is_fed(const AuProblem *p);     /* either feedback */
bool lin_problem_is_own(const AuProblem *p);     /* feedback `own` */
bool lin_problem_by_channel(const AuProblem *p); /* decays by a number a channel */
bool lin_decays(const Linear *l);
bool lin_decays_by_token(const Linear *l); /* by a number for each of them */
void lin_rows_memory(Linear *l, const LinearRows *r);
/* "d:64, kv:16] @ a_token_a_lane" or how rows lie otherwise. */
const char *lin_rows_layout(const Linear *l, const char *channel, int32_t width,
                            const char *tokens);
void lin_rows_declare(Linear *l, const LinearRows *r); /* fragments, before the loop */
/* A slot's rows and the memory that schedules have for them. */
LinearRows lin_rows(const Linear *l, AuSlot slot);
/* Loads them, what lies behind the last token as 0; in two steps: the tensor's rows, if there is one, into registers; slots applied, into
 * memory. */
void lin_rows_load(Linear *l, const LinearRows *r);
void lin_rows_bring(Linear *l, const LinearRows *r);
void lin_rows_make(Linear *l, const LinearRows *r);
/* The floor of a log decay, where it is not proved to be above. */
const char *lin_floored(Linear *l, const char *name);
void lin_read_along(Linear *l); /* before the kernel: sets rows_along */
void lin_meet(Linear *l);       /* lanes that are threads: what each has stored is there for all */
void lin_rate(Linear *l);       /* a decay of the head: its logarithm, `rate` */
void lin_factor(Linear *l);     /* `kept`, exp of that */
void lin_count(Linear *l);      /* `count` tokens of the chunk */
/* "where(first + iota(kv:32) < T, x, 0.0)" */
const char *lin_guarded(Linear *l, const char *tokens, const char *value);
/* An executor's first token, and its place in the chunk; "first" and "0" where there is one executor. */
const char *lin_own_first(const Linear *l);
const char *lin_own_place(Linear *l);
/* Key channels of an executor, "self * 32 +: 32"; ":". */
const char *lin_own_channels(Linear *l);
/* Tokens of a chunk, at most [most], whose rows of so many numbers, beside [square] by tokens, memory has room for. */
int32_t lin_tokens(const AuProblem *p, int32_t most, int32_t numbers, bool square);
/* Numbers that lin_rows_memory keeps of a token, for all slots that there are. */
int32_t lin_numbers(const AuProblem *p);
/* Where an executor's rows go in memory, [count] of them along the axis [tokens]: where these are more than it has, those that lanes have
 * beyond are left out of a store: "[0 +: 32, :] clip"; "". */
const char *lin_rows_place(Linear *l, const char *tokens, int32_t count, bool has_channels);
/* linear_out.c: the output of the chunk from `acc`, [q, e], and sums in the memory `Sums`. */
void lin_output_memory(Linear *l);
void lin_output_declare(Linear *l);
void lin_store_output(Linear *l);
/* With a norm, in chunks: `sum_state` [d, n] from where it is kept, whose columns are all the same, `sum` [q, n] and `one` [kv, n]; and
 * the state out again, by way of the keys' memory. */
void lin_sums_declare(Linear *l);
void lin_sums_store(Linear *l);
/* ---- linear_kept.c: of decays of a head or token, `until`, `until_rows` (as [values] lie) and `whole`; all: `kept`, `since`,
 * `since_rows` (as `score` lies), too, by way of the memory A. Of a token's decay G has the logarithms; of a head's there are `count`, and
 * the places j and i_q. */
void lin_kept_memory(Linear *l);
void lin_kept_declare(Linear *l, const char *values);
void lin_kept(Linear *l, bool all);
/* ---- linear_feedback.c: feedback `key` in chunks of keys in `key` and K, strengths in E and W, places j and i_q. */
bool lin_is_fed(const Linear *l);
void lin_fed_memory(Linear *l);
void lin_fed_declare(Linear *l); /* after `score`; nothing without feedback */
void lin_fed_keys(Linear *l);    /* F, of `kept`: what keys have of keys before */
/* [written] [kv, e], what keys write of the values' strip vb, from `state` before the chunk. */
void lin_fed(Linear *l, const char *written);
/* ---- linear_feedback_back.c: gradients with feedback `key`; nothing is declared without it. Between these the backward in chunks
 * does what it does without feedback, with what keys write in place of values. */
void lin_fed_back_memory(Linear *l);
void lin_fed_back_declare(Linear *l);
void lin_fed_back_forwards(Linear *l); /* the fragment `written` of a strip, from `state` */
void lin_fed_back_written(Linear *l);  /* `Written` of the chunk, from its state */
void lin_fed_back_solve(Linear *l);    /* dx_V, of what is written, becomes that of w V */
void lin_fed_back_borders(Linear *l);  /* dx_K and `run` */
void lin_fed_back_pairs(Linear *l);    /* dx_K and pairs for the decays */
void lin_fed_back_state(Linear *l);    /* of a strip */
void lin_fed_back_rows(Linear *l);     /* of values and strengths */
/* ---- linear_back.c: gradients of slots into those of tensors */
/* Arguments: those of the script, the gradient of the output, states and their gradients, and where gradients go. Grid. */
void lin_back_head(Linear *l, const char *name);
/* The same without a grid, and with states or without. */
void lin_back_arguments(Linear *l, const char *name, bool has_states);
/* Do several places add to the gradient of a tensor? */
bool lin_sums_gradients(AuArena *arena, const AuProblem *p);
/* Loops in place of axes of the grid, where sums must have one order; how many to end. */
uint32_t lin_back_loops(Linear *l);
/* `at`, where the state before `chunk` is kept, and `count`; the same where `back` counts chunks from the last one on. */
void lin_back_chunk(Linear *l);
void lin_back_chunk_again(Linear *l);
/* Tensors get what the gradient of the slot's rows, which is where they were, makes of it. Rows along kv. */
void lin_rows_back_declare(Linear *l, const LinearRows *r);
void lin_rows_back(Linear *l, const LinearRows *r);
/* The same where the gradient is in the fragment dx_MEMORY already; or in [dx], and the slot's rows in [raw]. */
void lin_rows_back_from(Linear *l, const LinearRows *r);
void lin_rows_back_of(Linear *l, const LinearRows *r, const char *raw, const char *dx);
bool lin_has_gradient(const Linear *l, AuSlot slot); /* of anything that the slot reads */
/* Tokens and channels of the chunk, by which hooks and reads know places: t, i; c of values, c_d of keys. Along the axis kv. */
void lin_places(Linear *l);
/* Results of a hook, "value_Q0, value_Q1", [of] of which they are; and where they go. */
const char *lin_value_names(Linear *l, const AuInputGrads *in, const char *of);
void lin_add_gradients(Linear *l, const AuInputGrads *in, const char *of, const char *channel);
/* ---- linear_out_back.c: from the gradient of the output, `do`, to that of what q reads, in the memory D, and of the sums of a
 * norm, in Dsums; both 0 behind the end. What q read is in O, sums in Sums, where lin_needs_output; [kv, ..] all. */
bool lin_needs_output(const Linear *l);
/* `change`, the gradient of `finished`, becomes that of what goes in; `dsum`, that of the norm's sum, comes of [dnorm]; what inputs get of both. */
void lin_out_mod_back(Linear *l);
void lin_norm_back(Linear *l, const char *dnorm);
bool lin_has_dsum(const Linear *l); /* is that not proved to be 0? */
void lin_out_back_memory(Linear *l);
void lin_out_back_declare(Linear *l);
void lin_out_back(Linear *l);
/* Sums become gradients: a kernel each. */
void lin_sum_kernels(Linear *l);

/* What is known before anything is written. */
Linear lin_begin(AuArena *arena, AuTileBuild *t, const AuProblem *p, AuSchedule *out);
/* A schedule that is one kernel: what all of them begin and end with, around [kernel]. */
AuSchedule *lin_schedule(AuArena *arena, AuDiags *diags, const AuProblem *p, const AuShape *shape,
                         const char *name, void (*kernel)(Linear *));

#endif
