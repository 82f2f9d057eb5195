/* key_groups.h - prefixes: neighbouring sequences that have the same first keys, on the same pages (docs/dev/serving.md). A kernel
 * `prefix` has these keys for the rows of all of a group, `keys` each sequence's own, and what joins parts begins with the prefix's. */
#ifndef AU_SCHEDULE_KEY_GROUPS_H
#define AU_SCHEDULE_KEY_GROUPS_H

#include "key_layout.h"

/* Are there such keys, and may kernels for few queries read them once? Do these? */
bool lanes_may_share_keys(Lanes *x);
bool lanes_shares_keys(const Lanes *x);

/* ---- does it pay (Lanes.sharing)? What a sequence that does not read a key counts. 1, or where shapes alone say that no group shares, whatever lists say,
 * 0: kernels of shared keys have no blocks then. */
enum { LANES_SHARING_PARTS = 16 };
const char *lanes_may_share(Lanes *x);

/* ---- in kernels of a sequence `b`, after lanes_let_key_length */
/* Lets own_low: where the sequence's own keys begin; 0: it has all by itself. Nothing where no keys are shared. */
void lanes_let_own_keys(Lanes *x);
/* "k_low", or from where the sequence's own keys begin on. */
const char *lanes_own_low(Lanes *x);

/* ---- lists, where Lanes.lists_groups says so: the kernel `members`, which searches for the group of each sequence and of each item, before all others;
 * arguments of those that read them instead of searching. [x]: what builds `prefix`. */
void lanes_group_lists(Lanes *x);
void lanes_members_argument(Lanes *x);
void lanes_group_items_argument(Lanes *x);

/* ---- the kernel `prefix`: rows of a group's sequences in items of Lanes.block */
/* Rows of queries of a sequence that share a head of keys; as many as a sequence may have. */
const char *lanes_group_rows(Lanes *x);
/* How many items; blocks of a grid of them, none where there are no rows. */
const char *lanes_group_items(Lanes *x);
const char *lanes_group_blocks(Lanes *x);
/* Those that have rows, if groups are alike: of one group all but one. */
const char *lanes_group_full_blocks(Lanes *x);
/* Of all sequences' rows: arguments `shared_acc`, `shared_state0`.., in [parts]. */
void lanes_shared_arguments(Lanes *x, AuTileMode mode, const char *parts);
/* After a grid that has `item`: lets leader, the group's first sequence, shared_end, the keys that it shares, 0 for an item without rows,
 * and the item's rows first_row .. last_row, numbered over all sequences. [x] then reads keys by the leader. */
void lanes_let_item(Lanes *x);
/* .. and is there anything to do for it? Of a list one number says so, which asks for no others that depend on each other. */
const char *lanes_has_item(const Lanes *x);
/* Has an item several blocks of rows, one after the other? Then turns, of them that are first_row + turn * turn_rows and the rows behind it. */
bool lanes_has_turns(const Lanes *x);
/* In the role: of row [r], one or a tile of them, sets `b`, kv_length, and, where sequences have rows of their own, q_start and q_length. */
void lanes_name_group_rows(Lanes *x, const char *r);
/* "r % rows": the number of such a row in its sequence, query after query, all heads of each. */
const char *lanes_row_in_sequence(Lanes *x, const char *r);
/* Of the sequences of such rows: do they have the keys that are shared? */
const char *lanes_takes_part(const Lanes *x);
/* The number of row [row] of sequence `b` among those, in kernels that have own_low. */
const char *lanes_group_place(Lanes *x, const char *row);

#endif
