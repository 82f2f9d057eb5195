/* key_groups.h - prefixes: neighbouring sequences that have the same first keys, on the same pages (docs/dev/serving.md). A kernel
 * `prefix` has these keys for the rows of all of a group, `keys` each sequence's own, and what joins parts begins with the prefix's. */
#ifndef AU_SCHEDULE_KEY_GROUPS_H
#define AU_SCHEDULE_KEY_GROUPS_H

#include "key_layout.h"

/* Are there such keys, and may kernels for few queries read them once? Do these? */
bool lanes_may_share_keys(Lanes *x);
bool lanes_shares_keys(const Lanes *x);

/* ---- in kernels of a sequence `b`, after lanes_let_key_length */
/* Lets own_low: where the sequence's own keys begin; 0: it has all by itself. Nothing where no keys are shared. */
void lanes_let_own_keys(Lanes *x);
/* "k_low", or from where the sequence's own keys begin on. */
const char *lanes_own_low(Lanes *x);

/* ---- the kernel `prefix`: rows of a group's sequences in items of Lanes.block */
/* Rows of queries of a sequence that share a head of keys. */
const char *lanes_group_rows(Lanes *x);
/* How many items; blocks of a grid of them, none where there are no rows. */
const char *lanes_group_items(Lanes *x);
const char *lanes_group_blocks(Lanes *x);
/* Of all sequences' rows: arguments `shared_acc`, `shared_state0`.., in [parts]. */
void lanes_shared_arguments(Lanes *x, AuTileMode mode, const char *parts);
/* After a grid that has `item`: lets leader, the group's first sequence, shared_end, the keys that it shares, 0 for an item without rows,
 * and the item's rows first_row .. last_row, numbered over all sequences. [x] then reads keys by the leader. */
void lanes_let_item(Lanes *x);

#endif
