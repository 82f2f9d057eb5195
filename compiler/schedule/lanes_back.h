/* lanes_back.h - the backward kernels of the schedule `lanes`, and those before and after the products that
 * all schedules share.
 *
 * In the order of their launches (those that the attention does not need are left out):
 *   q_rows, k_rows, v_rows   rows changed by mods (lanes_rows.c)
 *   preprocess_out           dO' from dO and O'; gradients of inputs of out_mod
 *   q_across, do_across      the same by channel, for matrix units (lanes_matrix.c)
 *   row_pass                 sums over the keys that adjoints need
 *   preprocess               delta and adjoints of each row; gradients of the online function's parameters
 *   classes.., compact..     lists of tiles, for masks of data
 *   dkdv                     dK', dV' (and dQ'): a block owns keys
 *   dq                       dQ': a block owns queries
 *   dq_joined, dk_joined, dv_joined   sums of parts (lanes_parts.c)
 *   convert_dq, convert_dk, convert_dv   the mods' gradients, rounded to the operand type
 *   sums_N                   gradients of input N from sums of f32
 *
 * Arguments: those of the script; o, o_kept, do, final_NAME, dfinal_NAME; dq, dk, dv, grad_N; in the workspace
 * do_changed, adjoint_NAME, pass_N, dq_sum, dk_sum, dv_sum, dq_parts, dk_parts, dv_parts, sum_N (N the tensor's
 * number). */
#ifndef AU_SCHEDULE_LANES_BACK_H
#define AU_SCHEDULE_LANES_BACK_H

#include "rows.h"
#include "warps_back.h"

/* ---- back_parts.c */
/* Of queries, keys, values: their gradients, and the sums that kernels of rows finish. */
extern const char *const back_gradient_names[3], *const back_sum_names[3]; /* "dq", "dq_sum" */
const char *back_gradient(const Lanes *x,
                          uint32_t n); /* of the two what the pairs are summed into */
void back_argument(Lanes *x, const char *name,
                   AuTileMode mode);    /* one of those above, by its name */
bool back_dq_is_packed(const Lanes *x); /* dq_sum, in pieces of the product's */
const AuTileAtom *back_sum_atom(const Lanes *x);
const char *back_sum_tiles(Lanes *x); /* and how many tiles of queries that has */
/* Where they begin in a packed sequence, and "b, h, rows" of them. */
const char *back_sum_start(Lanes *x);
const char *back_sum_place(Lanes *x, const char *head, const char *rows);
void back_statistics(Lanes *x);                     /* arguments: finals and adjoints */
void back_begin_kernel(Lanes *x, const char *name); /* with arguments of the script, and: */
void back_changed(Lanes *x);                        /* arguments: rows that products take */
const char *back_sum(Lanes *x, uint32_t tensor);    /* "sum_3" */
/* Where many pairs add to an element, rows add to parts of it in turn, which the last kernel joins; 1: there are none. */
int32_t back_sum_parts(const Lanes *x, uint32_t tensor);
void back_sum_argument(Lanes *x, uint32_t tensor, AuTileMode mode);
/* With an axis more, of [times], 0 or 1, as the call's sizes are: there is no such sum, or it has index 0. "1": no such axis. */
void back_sum_argument_of(Lanes *x, uint32_t tensor, AuTileMode mode, const char *times);
bool back_has_dots(const Lanes *x, uint32_t tensor); /* do further products add to its gradient? */
/* Is the gradient of queries, keys or values finished by a kernel of rows? */
bool back_has_rows(const Lanes *x, uint32_t n);
/* Adds to the sums of the tensor that is read: value at the read's indices. [axes]: the names among i, j, c
 * whose axes the value has, first the one along the lanes. */
void back_scatter(Lanes *x, const AuInputGrad *g, AuTileHandle value, const char *axes,
                  bool of_keys, const char *when);
/* Is a read among [inputs] at an index that is made of such a node? */
bool back_reads_by(const Lanes *x, const AuInputGrads *inputs, AuOp op);
/* Before pairs are added: the score, where indices are made of it, by the name that hooks have for it. */
void back_name_pair(Lanes *x);
/* The elements that it adds to, as a view. */
const char *back_scatter_view(Lanes *x, const AuInputGrad *g, const char *axes, bool of_keys);
/* Is there a gradient of an input that pairs read with the query among its indices? */
bool back_sums_by_query(const AuProblem *p);
uint8_t back_read_axes(const Lanes *x,
                       const AuInputGrad *g); /* AuAxisBits that its indices depend on */
uint32_t
back_dot(const Lanes *x,
         uint32_t n); /* the number, among those of the hooks, of product n with a gradient */
bool back_wants(const Lanes *x, uint32_t tensor); /* a gradient of that tensor */

/* Which kernel adds to the sums of a tensor. */
bool back_sums_keys(const Lanes *x, uint32_t tensor);
bool back_sums_queries(const Lanes *x, uint32_t tensor);
bool back_heads_agree(const Lanes *x); /* of keys and of values */

/* Is the adjoint of final n stored as 0 for rows without a pair; is the n-th statistic that pairs read such a one? */
bool back_is_paired(const Lanes *x, uint32_t final);
bool back_row_is_paired(const Lanes *x, uint32_t n);

/* ---- back_order.c: grids whose axes are loops where sums must have one order */
enum { BACK_MOST_READS = 64 };
typedef struct BackAxis {
    const char *name, *extent; /* of the grid */
    uint8_t bit;               /* AuAxisBit */
} BackAxis;
/* Whose sums a kernel adds to. */
typedef enum BackSums {
    BACK_SUMS_NOTHING,
    BACK_SUMS_KEYS,
    BACK_SUMS_QUERIES,
    BACK_SUMS_ROWS,
    BACK_SUMS_OUT,
    BACK_SUMS_DQ,
    BACK_SUMS_DK,
    BACK_SUMS_DV
} BackSums;
void back_grid(Lanes *x, const BackAxis *axes, uint32_t count, BackSums sums);
/* The same of rows, by blocks of [rows], by heads, by sequences, with what hooks ask of these (key_layout.h); of packed rows those of the
 * list of work, whose axes are no loops. [times]: 0 or 1, as the call's sizes are; NULL: 1. */
void back_row_grid(Lanes *x, LanesSide side, int32_t rows, const BackAxis axes[3], BackSums sums,
                   const char *times);
/* After the role's beginning; how many blocks are to be ended. */
uint32_t back_loops(Lanes *x, const BackAxis *axes, uint32_t count, BackSums sums);

/* Does nobody else add where a pair does, in this tile or at this time? Then sums need no atomic operations. */
bool back_is_alone(const Lanes *x, const AuInputGrad *g);

/* ---- back_rows.c, back_results.c: kernels before and after the products */
void back_before(Lanes *x); /* all but row_pass and preprocess */
void back_adjoints(Lanes *x);
void back_after(Lanes *x);
/* Lists of work of packed rows, before all other kernels; why the layout has no such gradients; NULL: it has. */
void back_work_kernels(Lanes *x);
const char *back_layout_refusal(const AuProblem *p);
/* A sum of f32 as the tensor's own elements, the argument [name]: a block a row of its last axis. */
void back_sum_kernel(Lanes *x, uint32_t n, const char *name, const char *times);

/* ---- lanes_pairs.c */
/* "hook(score, dp, b, h, i, j, ..)", with these for the statistics of rows; NULL: the variables that hold them */
const char *lanes_pair_results(Lanes *x); /* "p, ds, ddot0.., value0..": what it gives */
const char *lanes_pair_hook(Lanes *x, const char *hook, bool adjoints, const char *const *rows);
const char *lanes_unmasked(Lanes *x);
void lanes_row_parts(Lanes *x); /* part0, ..: what a pair adds to sums over its row */
/* Of kernels of the schedule `lanes` whose blocks own x->own: rows of an executor, keys of a block. */
int32_t lanes_own_count(const Lanes *x);
int32_t lanes_block_keys(const Lanes *x);
const char *lanes_own_first(Lanes *x);
const char *lanes_own_rows(Lanes *x); /* "first +: count" */
/* Operands of own rows: "[axis:width, rows:count] @ ..B", what is loaded for `name`, which has another name where it is converted. */
const char *lanes_own_type(Lanes *x, const char *axis, int32_t width);
const char *lanes_own_raw(Lanes *x, const char *name, const char *elem);
void lanes_declare_own(Lanes *x, AuTileHandle name, const char *elem, const char *axis,
                       int32_t width);
void lanes_load_own(Lanes *x, const char *name, const char *elem, LanesRows view);
const char *lanes_pair_type(Lanes *x);
/* Does the kernel add the n-th gradient of an input that pairs read? */
bool lanes_has_value(const Lanes *x, uint32_t n);
bool lanes_is_summed(const Lanes *x, uint32_t n); /* over what passes, before it is added */
void lanes_mask_pairs(Lanes *x, bool weights, bool ds);
/* A tile of what passes: its memories, queries and output gradients or keys and values; its copies; S, dP and scores of further products, and the rows' numbers. */
void lanes_passing_memories(Lanes *x);
void lanes_copy_passing(Lanes *x);
void lanes_pair_products(Lanes *x, bool dp);
const char *lanes_passing_piece(Lanes *x, const char *tile); /* of a tile's name */
/* A walk over the tiles that the rows of the block meet: what brings each; of its pieces a beginning, what is made of the pairs
 * (masked: some take no part), the rest, NULL: nothing. */
typedef struct LanesWalk {
    /* " && ..": what else there must be for all pairs of a tile to take part; NULL: nothing. */
    const char *whole;
    void (*bring)(Lanes *x);
    void (*begin)(Lanes *x);
    void (*pairs)(Lanes *x, bool masked);
    void (*rest)(Lanes *x);
} LanesWalk;
void lanes_walk(Lanes *x, const LanesWalk *w);
/* Sums over what passes: of further products' gradients and of inputs'; where they were read. [again]: for another head then. */
void lanes_declare_dot_gradient(Lanes *x, uint32_t n);
void lanes_declare_total(Lanes *x, uint32_t n);
void lanes_dot_gradients(Lanes *x);
void lanes_scatter(Lanes *x, bool again);

/* ---- lanes_keys.c, lanes_queries.c, lanes_parts.c */
/* With dQ in the kernel of keys: the sums of one gradient in parts, "dq_parts", a part of each block that adds to
 * an element; how many parts, their type, and the width of dQ's. */
bool lanes_in_parts(const Lanes *x, uint32_t n); /* queries 0, keys 1, values 2 */
const char *lanes_parts(Lanes *x, uint32_t n);
const char *lanes_parts_name(uint32_t n);
const char *lanes_parts_type(Lanes *x, uint32_t n);
int32_t lanes_padded_width(
    const Lanes *
        x); /* channels along the lanes: whole registers, and whole blocks of them where there are many */
BackAxis lanes_parts_axis(Lanes *x); /* of the grid: all parts that there are */
/* Of keys (1) or values (2), where it is in parts and where it is whole: the arguments; what the kernel has summed. */
void lanes_gradient_argument(Lanes *x, uint32_t n);
void lanes_store_gradient(Lanes *x, uint32_t n, const char *heads);
/* dQ in the kernel of keys: memories and fragments. */
void lanes_query_memories(Lanes *x);
void lanes_declare_query_gradients(Lanes *x);
/* A loop over the query heads of the block, whose heads are those of keys (1) or of values (2): all of a group, or every n-th. */
void lanes_begin_heads(Lanes *x, uint32_t of);
/* The block's part, its sums 0, and a loop over its tiles of keys. */
void lanes_begin_parts(Lanes *x);
void lanes_load_key_rows(Lanes *x);   /* keys as rows of dQ's product, too */
void lanes_query_gradients(Lanes *x); /* of a tile of queries */
void lanes_dkdv(Lanes *x, bool dk, bool dv);
void lanes_dq(Lanes *x);
void lanes_row_pass(Lanes *x);

/* ---- lanes_matrix.c: matrix units of a core */
/* The one that multiplies the operands of the kernel of keys; NULL: none does, or not such widths. */
const AuTileAtom *lanes_back_atom(const AuProblem *p, const AuShape *shape);
/* Vectors of memory that the kernel of keys takes then. */
int32_t lanes_matrix_words(const AuProblem *p, const AuShape *shape);
void lanes_across_arguments(Lanes *x, AuTileMode mode); /* q_across, do_across */
void lanes_across_kernels(Lanes *x);
/* In the kernel of keys: tiles of rows by channel and their copies; P and dS as operands, of pairs of the type [pair]. */
void lanes_across_memories(Lanes *x);
void lanes_across_copies(Lanes *x);
void lanes_across_declare(Lanes *x, const char *pair);
void lanes_across_pairs(Lanes *x, bool masked);

#endif
