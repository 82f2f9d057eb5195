/* lanes.h - what the kernels of the schedules `lanes` and `warps` share: their arguments, rows and
 * lists, and the parts of forward
 * kernels that do not ask how fragments lie. */
#ifndef AU_SCHEDULE_LANES_H
#define AU_SCHEDULE_LANES_H

#include "schedule.h"

/* Whose rows: what parts of kernels that are alike for both need to know. */
typedef enum LanesSide { LANES_QUERIES, LANES_KEYS } LanesSide;

/* Of packed queries: a kernel for the sequences that have few rows, or for the others (warps_mixed.c), or for those of these that are short. */
typedef enum LanesOnly { LANES_ALL, LANES_FEW, LANES_MANY, LANES_SHORT } LanesOnly;
/* Of processors, a chunk of no more rows has blocks of fewer, by the list of those for more (LANES_SHORT, lanes_mixed.c). */
enum { LANES_SHORT_ROWS = 32 };

/* 2^13, by which weights are multiplied before they are rounded to f16, and the sums divided: then weights keep all their bits down to 2^-27
 * instead of 2^-14. For weights that are at most 1 by proof; where scores are so large that products summed in another order make them
 * more, there is room up to 8. Gradients of scores have no bound (docs/dev/performance-notes.md). */
#define LANES_WEIGHT_FACTOR "8192.0"
#define LANES_WEIGHT_SHARE  "0.0001220703125"

/* When groups share keys (key_groups.h): of each group the least number of keys that it reads again, an expression, NULL: groups of two share any. A key counts
 * as many parts as sequences do not read it, less a weight for each item of so many of the group's rows; as often, of all heads, at least. */
typedef struct LanesSharing {
    const char *least;
    int32_t item_weight, item_rows, least_of_heads;
} LanesSharing;

typedef struct Lanes {
    AuTileBuild *t;
    const AuProblem *p;
    const AuShape *shape;
    const AuTileAtom *atom;
    const AuTileAtom *
        pair_atom; /* lanes_backward: of scores and dP, whose operands are `held`, in pairs of channels; NULL: `atom` */
    AuSchedule *out;
    const char *operand; /* "bf16" */
    const char *held; /* element type of the operands of products: the operand type where the atom
                         takes it, else f32 */
    bool on_cpu, own_v;
    bool weights_scaled; /* by LANES_WEIGHT_FACTOR */
    bool values_in_rows; /* products take V as rows of e: v_rows writes it so once */
    bool matrix;         /* backward: the kernel of keys is one of matrix units of a core */
    bool by_channel;     /* in that kernel: Q and dO as rows of d and e, too: q_across, do_across */
    bool
        values_beside; /* values are channels of the keys, and in a tile of their own all the same: products
                            read keys in pairs of channels, values in pairs of keys */
    AuArena *arena;
    bool query_in_memory; /* products take queries from memory: q_rows changes them once */
    bool
        longest_first; /* blocks of the last query rows begin: with a causal mask they work longest */
    LanesSide own;     /* backward: whose rows a block owns; those of the other pass */
    bool makes_dk, makes_dv; /* what a kernel makes whose blocks own keys */
    bool with_dq;            /* backward: gradients of keys and of queries in one kernel */
    bool
        values_joined; /* backward: gradients of values that are channels of the keys are in theirs */
    bool
        heads_apart; /* backward: a block has one query head; gradients of keys are added in memory */
    bool
        heads_in_parts; /* backward, with_dq: the query heads of a group are shared out among blocks,
                            each with sums of its own for dK and dV */
    int32_t rows, block; /* query rows of an executor, of a block */
    int32_t resident;    /* blocks of a few queries that are on a processor at once */
    bool
        ends_rows, /* a block of them whose rows have one part alone stores results, not what another kernel joins */
        rows_follow; /* the block's queries are asked for behind its first keys, which are more */
    int32_t part_least; /* keys of their parts at least; 0: a tile */
    int32_t
        key_parts; /* of a tile, executors [self % key_parts] have each one; 0: the shape says it */
    int32_t item_rows[2]; /* of an item of the list of queries, of keys; 0: `block` */
    bool rows_across;     /* kernels of rows: a row lies along lanes (layouts across_d, across_e) */
    bool via_shared;      /* sums become operands on a way through shared memory */
    bool sums_in_rows;    /* backward: sums of dQ lie as its rows do, not in pieces of products */
    bool sums_by_units;   /* backward: dQ is added out of shared memory, by bulk reductions */
    const AuTileAtom *sum_atom; /* of whose C pieces the sums of dQ consist; NULL: of `atom`'s */
    bool too_many;              /* regions of the workspace */
    bool in_role;               /* names are set, not let (key_groups.h) */
    bool lists_groups;          /* which group a sequence is of say lists (key_groups.h) */
    bool of_group;              /* keys are those that a group of sequences shares (key_groups.h) */
    bool
        rows_know_cuts; /* rows say which keys they see all of: uncut_low, uncut_high; a tile that cuts none of a warp's is not masked */
    int32_t shared_tile; /* of so many keys are whole tiles of them; 0: each sequence has its own */
    LanesSharing sharing;
    LanesOnly only;    /* whose rows; those of others do not exist to the kernel */
    bool leaves_short; /* LANES_MANY: not those of LANES_SHORT */
    bool lists_many;   /* of LANES_MANY: sequences have a list that has no others (work_list.c) */
    bool
        is_exact; /* maxima do not lie behind, though the option says so for kernels beside these */
    const AuShape *group_shape; /* warps: of the kernel of such keys; NULL: there is none */
    bool
        makes_elements; /* codes become elements in tiles of the kernel, not before it (key_storage.h) */
    bool codes_are_operands; /* as they lie, halves of bytes, too (warps_operands.c) */
    bool scales_ahead
        [2]; /* of tokens' keys, values: a lane has that of one key, a tile ahead (warps_scales.c) */
} Lanes;

/* lanes_shape.c: of the schedules `lanes`; what multiplies in forward kernels, NULL: nothing does. */
Lanes lanes_begin(AuArena *arena, AuTileBuild *t, const AuProblem *p, AuSchedule *out);
const AuTileAtom *lanes_forward_atom(const AuProblem *p, AuTileExecutor on);

const char *lanes_tensor(Lanes *x, uint32_t n); /* the name of a tensor of the script */
const char *lanes_axis(Lanes *x, uint32_t tensor, uint32_t axis); /* extent of an axis, as text */
const char *lanes_elem(Lanes *x, uint32_t tensor);                /* its element type */
const char *lanes_type(Lanes *x, const char *elem,
                       uint32_t tensor);              /* "f32[x0:H]", elements of that type */
void lanes_arguments(Lanes *x);                       /* tensors and parameters of the script */
void lanes_param_arguments(Lanes *x);                 /* parameters alone */
void lanes_region(Lanes *x, const char *name);        /* an argument that lies in the workspace */
void lanes_work_region(Lanes *x, const char *name);   /* a list of work (AuSchedule.work) */
void lanes_zeroed_region(Lanes *x, const char *name); /* that is zero before the first launch */
AuTileExecutor lanes_executor(const Lanes *x);
void lanes_key_bounds(
    Lanes *x); /* lets n_low, f_low, f_high, n_high: tiles of keys for the block's rows */
void lanes_bounds(Lanes *x, int32_t rows,
                  int32_t keys); /* the same for blocks and tiles of that many */
/* Limits of a span of keys ("k") or queries ("q"): " from k_low to k_high", which the caller defines by the mask's range; "" without
 * a mask. What is beyond them takes no part in any pair of the block: its weights are 0, and copies pad there, since 0 times a NaN
 * or an infinity would be NaN. */
const char *lanes_limits(const Lanes *x, const char *of);
const char *lanes_end_limit(const Lanes *x,
                            const char *of); /* the end alone: " from 0 to k_high" */
bool lanes_mask_by_head(const Lanes *x);     /* does the mask ask for the head? */
/* "key_range(..)" of the rows of block mb, or of all rows; its results are k_low, k_high, k_full_low, k_full_high. */
const char *lanes_range_of_rows(Lanes *x, int32_t rows);
const char *lanes_range_of_all(Lanes *x, const char *head);
/* Lets them for the rows of a block of a few queries, of heads that share `hk`, in kernels that have `group`: what some of these see, and what all do. */
void lanes_let_range_of_block(Lanes *x);

/* lanes_rows.c: queries (0), keys (1) or values (2) with their row mod applied, once a row, or values transposed; into
 * NAME_changed. */
void lanes_rows_kernel(Lanes *x, uint32_t n);
int32_t lanes_block_rows(const Lanes *x); /* rows of a block of those kernels */
const char *lanes_row_layout(Lanes *x,
                             const char *channels); /* of fragments [channels, rows] there */
/* The type of NAME_changed; NULL: there is none. */
const char *lanes_changed_type(Lanes *x, uint32_t n);
/* "k_changed" or "k": what products take. */
const char *lanes_changed_name(Lanes *x, uint32_t n);
/* Arguments of a kernel of products: those that there are, from operand [first] on. */
void lanes_changed_arguments(Lanes *x, uint32_t first);
/* lanes_lists.c: for masks that depend on data, the key tiles of each block of rows as lists. */
void lanes_list_kernels(Lanes *x);
const char *lanes_list_type(Lanes *x, bool counts);
void lanes_list_arguments(Lanes *x);
/* The tiles of a block by such lists: `list` over [of]partial_index[b, head, block, :] and so on. */
void lanes_list_segments(Lanes *x, const char *list, const char *of, const char *head,
                         const char *block);
/* Of blocks of keys the tiles of queries. */
void lanes_query_lists(Lanes *x, int32_t queries, int32_t keys);
void lanes_query_list_arguments(Lanes *x, int32_t queries, int32_t keys);
bool lanes_list_by_head(
    const Lanes *x); /* else all heads share the lists: their head axis has one element */

/* ---- forward_parts.c */
/* Warps with the same rows (backward: keys), of which each makes all weights, and sums of a part of the channels; 1: none shares its rows so. */
int32_t schedule_row_sharers(const AuShape *s);
/* Executors with keys of their own, those with the same rows counted once; 1: all have the same keys. */
int32_t schedule_key_groups(const AuShape *s);
const char *
lanes_group(Lanes *x); /* the executor's number, those with the same rows counted once */
const char *lanes_first_row(Lanes *x); /* the executor's first query row */
/* `raw` of row [row] as q_mod changes it, rounded to the operand type, as backward has it: weights of both must be the same. As it is held. */
const char *lanes_modified_query(Lanes *x, const char *row);
int32_t lanes_keys(const Lanes *x); /* keys of a tile whose scores an executor has */
/* ", state0, state1": what follows other results or arguments; the same of another name. */
const char *lanes_states(Lanes *x);
const char *lanes_states_called(Lanes *x, const char *name);
uint32_t lanes_dot_tensor(const AuProblem *p, uint32_t n, bool key_side);
int32_t lanes_dot_width(const AuProblem *p, uint32_t n);
/* Why matrix units that take [unit] channels at once have no form for them; NULL: they do. */
const char *lanes_dot_refusal(AuArena *arena, const AuProblem *p, int32_t unit);
bool lanes_keeps_output(const Lanes *x); /* the output before out_mod, for backward */
/* The grid of [blocks] of rows, their number called [block], of all heads, those that work longest first; of so many heads after the other, [section]. */
void lanes_grid_by_work(Lanes *x, const char *block, const char *blocks, const char *head,
                        const char *heads, const char *batch);
void lanes_grid_by_sections(Lanes *x, const char *block, const char *blocks, const char *head,
                            const char *heads, const char *batch, const char *section);
void lanes_key_heads(Lanes *x); /* lets hk and hv: the heads that head h has keys and values of */
/* Of kernels whose blocks have rows of all query heads that share keys and values: how many such groups there are, one for each head of keys, or of values where
 * these are more; how many heads each has; what the block's is called, "hk", or "hs", where values have heads of their own; then lets hk and hv. */
const char *lanes_groups(Lanes *x);
const char *lanes_heads_of_group(Lanes *x);
const char *lanes_group_name(const Lanes *x);
void lanes_let_heads_of_keys(Lanes *x);
void lanes_result_arguments(Lanes *x); /* o, finals, what gradients need */
void lanes_forward_head(Lanes *x);     /* kernel, arguments, grid, lets */
void lanes_forward_head_of(Lanes *x,
                           const char *head);  /* without hk; what the grid calls its heads */
void lanes_key_tiles(Lanes *x, AuTileHow how); /* the list `keys` of tiles; down: from the last */
/* Kernels of lanes: a tile of [rows] keys or queries in pieces, whose pairs a lane has at once; how many rows each has. Between beginning and
 * end, which write nothing where a tile is one piece, that of a tile in memory, "K[piece * 8 +: 8, :]", and its number among all,
 * of a tile [number]. */
int32_t schedule_piece(const AuShape *s, int32_t rows);
int32_t lanes_piece(const Lanes *x, int32_t rows);
void lanes_begin_pieces(Lanes *x, int32_t rows);
void lanes_end_pieces(Lanes *x, int32_t rows);
const char *lanes_piece_of(Lanes *x, int32_t rows, const char *tile);
const char *lanes_columns_of(Lanes *x, int32_t rows, const char *tile, const char *columns);
void lanes_scores(Lanes *x); /* score_mod and mask on the product `score`; declares j */
typedef enum AuLanesMasked {
    LANES_MASK_NOWHERE,
    LANES_MASK_PARTIAL,
    LANES_MASK_ALWAYS
} AuLanesMasked;
/* The same of the tile of that number, outside of a loop over tiles too. */
void lanes_scores_of(Lanes *x, const char *tile, AuLanesMasked masked);
void lanes_mask_scores(Lanes *x);    /* the mask alone, of the keys j */
void lanes_online(Lanes *x);         /* online_fwd and weight_mod: p, scale, states */
void lanes_scale_sums(Lanes *x);     /* acc, by what a larger maximum asks for */
const char *lanes_weights(Lanes *x); /* online_fwd; scales acc; the weights as an operand */
/* Of those heads and queries of the rows, and states ", a, b"; of h, i and the states. */
void lanes_end_of(Lanes *x, const char *sums, const char *h, const char *i, const char *states);
void lanes_end(Lanes *x, const char *sums); /* `out` and finals from sums and states */
void lanes_results(Lanes *x);               /* the same from acc, and out_mod */
void lanes_store_finals(Lanes *x);
/* Of rows that are of no sequence, at "0, h, rows": 0, and the finals. */
void lanes_store_rest(Lanes *x, const char *place);
void lanes_store_zeros(Lanes *x, const char *place, const char *columns);
void lanes_store_finals_at(Lanes *x, const char *place);
void lanes_store_finals_when(Lanes *x, const char *place, const char *when); /* of single rows */
/* Instead of both, of the operation `unfinished`: sums and states as they are, at "b, h, rows". */
void lanes_store_part(Lanes *x, const char *place);
void lanes_written_arguments(Lanes *x); /* what the operation writes: results, or a part */
void lanes_result_arguments(Lanes *x);  /* o, [o_kept,] finals */
/* acc and states become those joined with part `part` of these tensors, whose names are "acc", "state%u", at [at], "part, b, h, rows". */
void lanes_join_part(Lanes *x, const char *acc, const char *state, const char *at);
void lanes_part_regions(Lanes *x, const char *name); /* NAME_acc, NAME_state0.. */
const char *lanes_part_place(Lanes *x);              /* of the executor's rows in [part, b, h, q] */
/* The tensors of a part, which are written; of so many parts, which are read: "part_acc_parts", "part_0_parts".. */
void lanes_part_arguments(Lanes *x, const char *parts);
/* `row_like`, a number a row, the queries' numbers i, and the states. */
void lanes_declare_rows(Lanes *x);
void lanes_begin_states(Lanes *x);
/* The kernels before forward's, that kernel, and what follows. NULL after an error. */
AuSchedule *lanes_forward_built(Lanes *x, AuDiags *diags, void (*kernel)(Lanes *x));
/* What was written, read, hooks inlined and verified; NULL after an error. */
AuSchedule *lanes_built(Lanes *x, AuDiags *diags);

/* ---- lanes_forward.c, lanes_decode.c, lanes_packed.c: what begins a module (false: a diagnostic says why not), and kernels in one */
bool lanes_forward_begin(AuArena *arena, AuDiags *diags, const AuProblem *p, AuSchedule *out,
                         Lanes *x);
void lanes_forward_kernel(Lanes *x);
void lanes_decode_begin(Lanes *x);
/* Keys that sequences share are read once, where there are such and these kernels can. */
void lanes_decode_share_keys(Lanes *x);
void lanes_decode_kernels(Lanes *x);
/* Instructions of loops over registers there; others stay loops, whose loads no compiler brings forward. */
enum { LANES_PACKED_WRITTEN = 20000 };
void lanes_packed_begin(Lanes *x);
void lanes_packed_lists(Lanes *x); /* kernels of lists that the others read */
void lanes_packed_kernels(Lanes *x);

#endif
