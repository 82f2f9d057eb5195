/* warps_back.h - backward on the matrix units of warps, beyond what all schedules share (lanes_back.h). */
#ifndef AU_SCHEDULE_WARPS_BACK_H
#define AU_SCHEDULE_WARPS_BACK_H

#include "warps.h"

/* Bytes of tiles' rows that stay together: more than a vector where much is copied, since addresses then take registers, of which
 * backward has none to spare. On an H200 spans of 32 bytes make width 256 6 % faster. */
int32_t warps_back_swizzle_span(const AuProblem *p);

/* Statistics of rows that pairs read: finals, then, if [adjoints], the adjoints of finals. */
enum { BACK_MOST_ROWS = 64 };
uint32_t back_row_count(const Lanes *x, bool adjoints);
const char *back_row_name(Lanes *x, uint32_t n);     /* the tensor */
const char *back_row_variable(Lanes *x, uint32_t n); /* the fragment */
const char *back_output_gradient(Lanes *x);          /* dO', as [b, h, q, e] */
void back_load_statistics(Lanes *x, bool adjoints); /* of the executor's own queries, from memory */

/* Is dQ summed by a kernel whose blocks own queries, whatever the shape? In one order; or since nobody adds to memory where elements lie nobody knows where. */
bool warps_dq_is_apart(const AuProblem *p);
/* Heads that share keys, but not their values or their tiles of queries. */
bool warps_heads_apart(const AuProblem *p);
/* Why this schedule does not have the attention's gradients; NULL: it has. */
const char *warps_back_refusal(AuArena *arena, const AuProblem *p);
/* What else blocks add to in any order, and has no other form for --deterministic; NULL: nothing. */
const char *warps_refusal_of_order(const AuProblem *p);
/* The same of a shape. */
const char *schedule_warps_back_refusal(AuArena *arena, const AuProblem *p, const AuShape *shape);
Lanes warps_back_begin(AuArena *arena, AuTileBuild *t, const AuProblem *p, AuSchedule *out);
/* The same for kernels whose blocks own queries, of that shape; lists of work of packed queries are then of such blocks. */
Lanes warps_back_of_queries(Lanes *x, const AuShape *shape);
/* Of a warp whose operands come straight from tensors: numbers of sums, of operands that stay in registers, of what pairs have, and of operands made
 * of them. */
typedef struct WarpsFar {
    int32_t sums, held, pairs, made;
} WarpsFar;
/* Does a lane hold them, so that nothing is spilled? */
bool warps_far_fits(const AuProblem *p, const WarpsFar *needs);
/* The pieces of a gradient of queries, [query_tile, width], of which each warp makes one a turn. */
typedef struct WarpsPieces {
    int32_t rows, channels, beside, count; /* of each; pieces beside each other, all */
} WarpsPieces;
WarpsPieces warps_dq_pieces(const Lanes *x, int32_t width);
/* The list `queries` of tiles that the keys of the block meet; and the limits of both. */
void back_query_tiles(Lanes *x);

/* ---- warps_back_few.c: rows of all heads that share keys that its kernels take; 0: none of the
 * problem, *why says why if the machine has such kernels */
int32_t schedule_warps_back_few_limit(AuArena *arena, const AuProblem *p, const char **why);

/* ---- warps_gradients.c: the kernel of a block of keys, on units of warps and of groups of them */
void warps_back_head(Lanes *x); /* name, arguments, grid, lets, the list `queries` of tiles */
/* Extents of its fragments: queries of S' and dP', channels of dK and of dV, a piece of dQ. */
typedef struct WarpsBackTiles {
    int32_t queries, d, e, dq_rows, dq_channels;
} WarpsBackTiles;
void warps_back_fragments(Lanes *x,
                          WarpsBackTiles tiles); /* and those of inputs; the keys' numbers j */
void warps_open_heads(Lanes *x);
void warps_end_heads(Lanes *x);
/* The hook of pairs, masked on partial tiles; p and ds as operands `weight` and `ds_operand`. [rows]: see lanes_pair_hook. */
void warps_pair_gradients(Lanes *x, const char *const *rows);
void warps_end_weights(Lanes *x); /* what dv_acc then wants at the end */
/* dK (1) or dV (2) of the warp's keys of block `nb`, the channels [columns], as a view. */
const char *warps_gradient_place(Lanes *x, uint32_t n, const char *columns);
/* dk_acc or dv_acc to there; rounded elements by way of shared memory [through], if it has a text. */
void warps_store_gradient(Lanes *x, uint32_t n, const char *columns, AuTileHandle through);

/* ---- warps_tiles.c */
/* Do weights and dS' become operands in shared memory? Other warps take them too, or they do not lie as operands do. */
bool warps_back_via_shared(const Lanes *x);
bool warps_has_ds(const Lanes *x);
bool warps_is_split(
    const Lanes *x); /* do several warps share keys, and each makes some of their pairs? */
/* Do several have the same keys, and each makes all their pairs, for its part of the channels? */
bool warps_repeats_pairs(const Lanes *x);
int32_t warps_part_of(const Lanes *x, int32_t whole);
const char *warps_part_from(Lanes *x,
                            int32_t whole); /* where the warp's part of so many columns begins */
int32_t warps_keys_width(const Lanes *x);   /* columns of tiles of keys and queries, */
int32_t warps_values_width(const Lanes *x); /* of output gradients */
bool warps_back_passes(const Lanes *x);     /* Do tiles of queries pass through registers? */
bool warps_back_turns(const Lanes *x);
/* Do both orders fit because the shape is small alone? Then registers are few, too, for what a lane has of them: products are paced. */
bool warps_is_cramped(const Lanes *x);
/* Do a warp's turned keys stay in registers, since shared memory has no room for them? */
bool warps_turned_keys_are_held(const Lanes *x);
/* Where warps_back_turns: bytes of all tiles. */
int32_t warps_turned_bytes(const Lanes *x);
bool warps_keys_are_direct(const Lanes *x);
bool warps_keys_are_shared(const Lanes *x);
void warps_back_layouts(Lanes *x);
/* Where warps_back_passes: the warp's share of tile [m] to registers, and of the tile at hand from there to shared memory. */
void warps_load_queries(Lanes *x, const char *m);
void warps_store_queries(Lanes *x);
/* Shape `far`, as operands: so many rows from [from] on of the tile of queries (0) or output gradients (2); of them, the warp's part of the
 * channels. And asks for the warp's share of tile [m]. */
AuTileHandle warps_far_queries(Lanes *x, uint32_t n, const char *from, int32_t count);
AuTileHandle warps_far_part(Lanes *x, uint32_t n, const char *from, int32_t count);
void warps_ask_for_queries(Lanes *x, const char *m);
void warps_back_memories(Lanes *x); /* and the role */
void warps_issue_keys(Lanes *x);    /* keys and values, once; waited for */
/* The warp's share of tile [m] of queries and of what belongs to them; the tokens of all of it. */
void warps_issue_queries(Lanes *x, const char *m, const char *stage);
const char *warps_query_tokens(Lanes *x);
/* With two stages, the next tile: after the first products, which need not wait for what that costs. */
void warps_issue_next(Lanes *x);
/* Where values are channels of the keys: zeros in the other channels of output gradients, once. */
void warps_clear_other_channels(Lanes *x);

/* ---- warps_pairs.c */
/* Opens what is for warps with keys of the sequence; false: it is for all. */
bool warps_begin_keys(Lanes *x);
int32_t warps_pair_columns(const Lanes *x); /* queries whose pairs a warp has at once */
void warps_hold_keys(Lanes *x);             /* keys and values in registers, once */
/* Pairs of the warp's keys, part after part; dK and dV of them, unless warps share keys. */
void warps_walk_pairs(Lanes *x);
/* Around sums of pairs, where warps repeat them. */
void warps_begin_once(Lanes *x);
void warps_end_once(Lanes *x);
/* dK and dV of the queries [queries] of the tile, an index. */
void warps_key_gradients(Lanes *x, const char *queries);

/* ---- warps_pieces.c */
const char *warps_own_keys(Lanes *x);  /* where the warp's keys begin in the block */
void warps_hold_turned_keys(Lanes *x); /* once */
bool warps_is_paced(const Lanes *x);   /* do products say how far ahead operands may be read? */
int32_t warps_paced(const Lanes *x);   /* products that operands are read ahead for */
int32_t warps_held_turned_keys(const Lanes *x, const WarpsPieces *p); /* registers of a lane */
void warps_query_gradients(Lanes *x); /* of a tile, further products' too */
/* Before the first tile there is none that is late; after the last there is one. */
void warps_begin_late(Lanes *x);
void warps_end_late(Lanes *x);
/* Is a tile's made under the products of the next one? */
bool warps_dq_is_late(const Lanes *x);
int32_t warps_dq_turns(const Lanes *x, const WarpsPieces *p);
/* Where the warp's piece of that turn begins. True: not every warp has one, and there is a block to be ended. */
bool warps_begin_piece(Lanes *x, const WarpsPieces *p, int32_t turn, const char **row,
                       const char **channel);

/* ---- warps_queries.c: kernels whose blocks own queries; of [x] with a shape of their own */
bool warps_queries_shape(const AuProblem *p, AuShape *out);
bool warps_far_queries_shape(const AuProblem *p, AuShape *out); /* operands straight from tensors */
void warps_row_pass(Lanes *x);
void warps_dq(Lanes *x);
/* Parts of theirs: arguments, grid, the list `keys` of tiles; sums over a row's keys, of pairs masked on partial tiles; dS as the operand
 * `ds_operand`. */
void warps_queries_head(Lanes *x, bool row_pass);
/* Scores and dP of its rows and a tile of keys; sums of a row, or dQ; the rows' numbers. */
void warps_query_fragments(Lanes *x, bool row_pass);
void warps_declare_passes(Lanes *x);
void warps_add_passes(Lanes *x);
void warps_store_passes(Lanes *x);
void warps_query_pairs(Lanes *x);

/* ---- warps_inputs.c: gradients of inputs that pairs read, in the order of the kernel's text */
/* Values that a lane keeps of each pair: no sum takes them where they are made. */
int32_t warps_kept_values(const Lanes *x);
void warps_declare_totals(Lanes *x);
/* Memory by way of which totals get to lanes, of matrices whose elements lie nobody knows where. */
int32_t warps_totals_bytes(const Lanes *x);
void warps_totals_layout(Lanes *x);
void warps_totals_memory(Lanes *x);
void warps_guard_values(Lanes *x, AuTileHandle unmasked);
void warps_add_values(Lanes *x); /* of a tile */
void warps_add_totals(Lanes *x); /* of a head */
/* And of further products: memories, fragments (of pairs: [pair]), copies, products. */
void warps_dot_memories(Lanes *x);
void warps_declare_dots(Lanes *x, const char *pair);
void warps_issue_dot_keys(Lanes *x); /* of a head; waited for */
void warps_issue_dot_queries(Lanes *x, const char *rows, LanesLimit limit, const char *to);
void warps_dot_products(Lanes *x, const char *keys, const char *queries);
void warps_dot_key_gradients(Lanes *x, const char *ds_operand, const char *queries);
void warps_dot_query_gradients(Lanes *x);
void warps_add_dot_keys(Lanes *x, const char *rows); /* of a head */

#endif
