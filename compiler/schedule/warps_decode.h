/* warps_decode.h - what kernels for a few queries share: rows of all heads of a group in one tile, each block a part of their keys. */
#ifndef AU_SCHEDULE_WARPS_DECODE_H
#define AU_SCHEDULE_WARPS_DECODE_H

#include "warps.h"

/* warps_decode_parts.c. The kernel `keys`, of a part of a head's keys: of its list `keys` of tiles [roles] make sums and states, and store
 * them as `part_acc` and `part_state0`..; and the kernel `forward`, which joins a row's parts. Of a block's rows (Lanes.block) and how many
 * blocks are on a processor (Lanes.resident). The kernel of a list of parts has been before. */
void warps_kernels_behind_lists(Lanes *x, void (*memories)(Lanes *x), void (*roles)(Lanes *x));
/* Of values that no warp holds: those with the kernel of their list, or, of any number of queries, warps_whole_kernel. */
void warps_wide_kernels(Lanes *x, void (*memories)(Lanes *x), void (*roles)(Lanes *x));
/* One role of warps, which meet at the barrier `all`, and do [part] of a block that has something to do. */
void warps_core_role(Lanes *x, void (*part)(Lanes *x));
/* In each role: what a block does that has a part of the list, and rows. */
void warps_begin_part(Lanes *x);
void warps_end_part(Lanes *x);
/* ---- warps_whole.c: of any number of queries blocks have all keys of their rows */
bool warps_is_whole(const Lanes *x);
/* Why a block does not end rows of all heads of a group, of values that no warp holds; NULL: it does. */
const char *warps_whole_refusal(const AuProblem *p);
/* The block's first row, row r being of query r / group of those from first_query on ("mb * 64 + ", or ""), and of head r % group. */
const char *warps_first_row(Lanes *x);
const char *warps_first_query(Lanes *x);
const char *warps_whole_condition(Lanes *x); /* has the block a row? */
/* The kernel `forward`, with the list `keys` of tiles and the numbers of those between which no pair is masked, full_tile and rest_tile. */
void warps_whole_kernel(Lanes *x, void (*memories)(Lanes *x), void (*roles)(Lanes *x));
/* At the end of a role: names all rows of the block; stores the output of such sums, from states end0.., [columns] of it; finals. */
void warps_name_all_rows(Lanes *x);
void warps_end_whole(Lanes *x, const char *sums, const char *columns);
void warps_store_whole_finals(Lanes *x);
/* warps_decode.c: kernels for a few queries of values that a warp holds; before them those of their lists. */
void warps_decode_lists(Lanes *x);
void warps_decode_kernels(Lanes *x);
/* The first of the executor's rows: of the block's, or where executors have some each, of its own. */
const char *warps_own_first_row(Lanes *x);
/* Sums and states of the executor's rows: of one executor, or joined, each warp's channels of them; results where Lanes.ends_rows. */
void warps_store_part(Lanes *x);
/* The same of one warp whose sums are acc0, acc1 .., so many channels each. */
void warps_store_cuts(Lanes *x, int32_t width);
enum { WARPS_PROCESSORS = 132 }; /* that blocks are made for: an H200 */
enum { WARPS_WIDE = 256 };       /* channels, above which several warps have each some of a row's */
/* Of the kernels that decode_parts makes: parts of a row; where they do not depend on the batch, of so many keys; what a block leaves of each; does each
 * row know by itself that its block has ended it? */
const char *warps_parts(Lanes *x);
const char *warps_own_parts(Lanes *x, const char *keys);
void warps_part_arguments(Lanes *x, AuTileMode mode);
bool warps_ends_by_data(const Lanes *x);
/* warps_row_parts.c: the kernel that joins them, `forward`, or beside many `few`; how often a row waits for parts that are loaded together, of so many. */
void warps_join_kernel(Lanes *given);
const char *warps_rounds_of(Lanes *x, const char *parts);
/* Are all rows ended by the block that has all of their keys, since nobody could join parts (schedule_joins_parts)? */
bool warps_ends_all_rows(const Lanes *x);
/* May rows be ended by the block of their one part (Lanes.ends_rows)? Where they may: is this one it? */
bool warps_may_end_rows(const AuProblem *p);
const char *warps_is_whole_part(Lanes *x);
/* As many parts as fill the processors with so many [blocks], an expression, each; at most as there are tiles of keys. */
const char *warps_parts_for(Lanes *x, const char *blocks);
/* warps_shares.c, where parts are those of a list (AuProblem.balanced): its kernel, the lists as arguments, how many parts there is room for. */
void warps_share_kernel(Lanes *x);
void warps_share_arguments(Lanes *x, AuTileMode mode);
const char *warps_share_slots(Lanes *x);
/* AuShape.part_start by rule: no lists of sequences that are as long as their windows. */
int32_t warps_part_start(const AuProblem *p);
/* Blocks of rows of a sequence and head of keys. Where a block's sums lie: "span, b, hk", of a list "slot, hk". */
const char *warps_row_blocks(Lanes *x);
const char *warps_part_place(const Lanes *x);
/* Lets first_tile, last_tile: those of part `span`, of so many of the tiles n_low .. n_high. */
void warps_let_share(Lanes *x, const char *parts);
/* The list `keys` of the tiles first_tile, full_tile, rest_tile, last_tile; which of its segments may have some. */
typedef struct WarpsSegments {
    bool before, full, behind;
} WarpsSegments;
void warps_part_tiles(Lanes *x, const WarpsSegments *has);
/* warps_prefix.c, of keys that sequences share: whether there are some (Lanes.group_shape); the kernel of them, if so; what it leaves, as
 * arguments; how many parts of them a sequence has, in kernels that have own_low. */
void warps_prefix_begin(Lanes *x);
void warps_prefix_begin_as(Lanes *x, const AuShape *shape); /* the same, of that shape */
void warps_prefix_lists(const Lanes *x); /* which group sequences and items are of */
void warps_prefix_kernel(const Lanes *x);
/* The same of other memories and products: [part] names the rows of the executor, walks the list `keys`, and stores what comes of it. */
void warps_prefix_kernel_of(const Lanes *x, void (*memories)(Lanes *x), void (*part)(Lanes *x));
void warps_prefix_name_rows(Lanes *x);
void warps_prefix_store(Lanes *x);
/* The same of one warp whose sums are acc0, acc1 .., so many channels each. */
void warps_prefix_store_cuts(Lanes *x, int32_t width);
void warps_prefix_arguments(const Lanes *x, AuTileMode mode);
const char *warps_prefix_parts(const Lanes *x);
/* Lanes.rows rows from [first] on: `r`, and the head `h` and the query `i` of each. */
void warps_name_rows(Lanes *x, const char *first);
/* The same of so many rows, by names that begin with [prefix]. */
void warps_name_rows_as(Lanes *x, const char *prefix, const char *first, int32_t count);
/* Why blocks of such rows would not do, whatever their shape; NULL: they would. */
const char *warps_packed_refusal(AuArena *arena, const AuProblem *p);
/* The same, but for what a call does not say of packed rows. */
const char *warps_grouped_refusal(AuArena *arena, const AuProblem *p);

#endif
