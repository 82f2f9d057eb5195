/* key_layout.h - keys and values that lie padded, packed or in pages, and packed queries (docs/dev/serving.md): views of them, and where
 * those of a sequence begin and end. */
#ifndef AU_SCHEDULE_KEY_LAYOUT_H
#define AU_SCHEDULE_KEY_LAYOUT_H

#include "rows.h"

bool lanes_keys_are_paged(const Lanes *x);
/* Rows of k (1) or v (2) that lie in the table's pages: those that k_mod or v_mod changed lie in the workspace, row after row. Are there any? */
bool lanes_rows_are_paged(Lanes *x, uint32_t operand);
bool lanes_has_pages(Lanes *x);
/* The name of size [n] of the attention. */
const char *lanes_size(Lanes *x, uint32_t n);
/* Of paged keys: rows that a line of the table has room for; the type of k (1) or v (2) as it lies in memory. */
const char *lanes_most_keys(Lanes *x);
/* Keys that there is room for in a sequence; of packed ones as many as the call says, or all. */
const char *lanes_key_room(Lanes *x);
const char *lanes_paged_type(Lanes *x, const char *elem, uint32_t n);
/* After the grid, in kernels that have `b`: lets kv_length, the keys of the sequence, of packed ones kv_start and kv_end; of packed
 * queries q_length, q_start, q_end. Nothing for dense ones. */
void lanes_let_key_length(Lanes *x);
/* Lets shared_length, that of the keys of sequence `leader`, and where its pages are. */
void lanes_let_leader_length(Lanes *x);
/* Names [value], anew in a role of warps, which names it again for each block of a list. */
void lanes_put(Lanes *x, const char *name, const char *value);
/* What kv_length is of the sequences `b`, a number or a tile of them. */
const char *lanes_length_of(Lanes *x);
/* Sets kv_length, and what rows that are positions have, of the sequences that the tile `b` says: as many keys as a kernel of one finds, or, where pages are
 * a list, no fewer. */
void lanes_set_key_lengths(Lanes *x);
/* What q_start and q_length are of sequence [b], or a tile of them, whose rows begin at [start]; padded ones have no start. */
const char *lanes_query_start_of(Lanes *x, const char *b);
const char *lanes_queries_of(Lanes *x, const char *b, const char *start);
/* Of padded keys, or of a table: the row that a kernel's sequence has, as an index; how many there are. */
const char *lanes_key_line(const Lanes *x);
/* The row of q that sequence [b] has, where `rows` say it; in kernels of a sequence it is `q_line`. */
const char *lanes_query_line_of(Lanes *x, const char *b);
const char *lanes_key_lines(Lanes *x);
/* The batch of k and v as they lie: an index, as an extent; lanes_row_b and lanes_row_batch are those of rows that kernels wrote. */
const char *lanes_key_b(const Lanes *x);
/* What the table says of the sequence's page [page], an expression; not clamped. */
const char *lanes_page_entry(Lanes *x, const char *page);
bool lanes_is_packed(const Lanes *x, LanesSide side);
/* Queries of which each sequence has fewer than there is room for. */
bool lanes_queries_are_padded(const Lanes *x);
/* The batch in memory of such rows as an extent or, of a kernel's sequence, as an index. */
const char *lanes_row_batch(Lanes *x, LanesSide side);
const char *lanes_row_b(const Lanes *x, LanesSide side);
/* What stands before a row's number in its sequence where rows are packed: "kv_start + "; else "". */
const char *lanes_row_start(const Lanes *x, LanesSide side);
/* The span "n * 64 +: 64" of rows of the sequence as it lies in memory; [limits]: " from a to b", or "". */
const char *lanes_row_span(Lanes *x, LanesSide side, const char *rows, const char *low,
                           const char *high);
/* "b, h, rows": rows of the sequence, a span of which ends where the sequence does, or one row. */
const char *lanes_place(Lanes *x, LanesSide side, const char *head, const char *rows);
const char *lanes_row_place(Lanes *x, LanesSide side, const char *head, const char *row);
/* "b, h, mb * 64 +: 64": the executor's rows of q, o and finals. */
const char *lanes_query_place(Lanes *x);
/* How many queries a sequence has at most: of packed ones what the call says (kernels for few queries), one at least. */
const char *lanes_most_queries(Lanes *x);
/* So many are few, of batches that have both (warps_mixed.c, lanes_mixed.c), in kernels that have an atom. */
const char *lanes_few_queries(Lanes *x);
/* Kernels for few queries, which are packed or padded: rows of no sequence, behind that of the block's row `mb`, are written. In the kernel that joins
 * parts, a block a row of each sequence: begins what is for rows of it; ends that, and writes others with [columns] of o; finals, where [finals] says so. */
void lanes_begin_own_row(Lanes *x);
void lanes_end_own_row(Lanes *x, const char *columns, const char *finals);
/* Where the queries of a sequence end: "q_length", of dense ones the extent of S. */
const char *lanes_query_end(Lanes *x);
/* ---- work_list.c: which blocks of rows of packed sequences there are. Item starts[b] / block + b + n is block n of sequence b, and
 * total / block + sequences is no less than there are: known from shapes, whatever the starts are. */
/* Before the others: kernels that write the lists, each item's sequence; of keys where there are kernels of their rows. */
void lanes_work_kernels(Lanes *x);
void lanes_work_kernel(Lanes *x, LanesSide side);
int32_t lanes_item_rows(const Lanes *x, LanesSide side); /* of an item */
/* Of sequences of many rows beside others (Lanes.lists_many): the kernel of their list, before theirs; have they one? */
void lanes_many_kernel(Lanes *x);
bool lanes_lists_many(const Lanes *x);
/* What a role does of a block: nothing of one that is left over of that list. */
void lanes_begin_listed(Lanes *x);
void lanes_end_listed(Lanes *x);
/* Lists that kernels of a warp a sequence write: i32[what:2, AXIS:..], whose place it is, and a number of it. */
typedef struct LanesList {
    const char *name, *axis, *number; /* what the kernel calls that number */
} LanesList;
void lanes_list_fragments(Lanes *x, const LanesList *list); /* of its kernel, before the next one */
/* Places [first] and on, as many as [count], where [when]: sequence [b], and [number], of place first + n. */
void lanes_write_list(Lanes *x, const LanesList *list, const char *count, const char *first,
                      const char *b, const char *number, const char *when);
void lanes_work_argument(Lanes *x, LanesSide side);
const char *lanes_work_items(Lanes *x, LanesSide side); /* how many */
/* Blocks of a grid over them: none without any row, since what a mod reads at an index of its own is clamped to a row that there is. */
const char *lanes_work_blocks(Lanes *x, LanesSide side);
/* After a grid that has `item`: lets `b`, what lanes_let_key_length does, and `turn`, the number of the item's block in its sequence:
 * behind the last for an item that has none. */
void lanes_let_work(Lanes *x, LanesSide side);
/* A kernel that writes rows of o and finals that are of no sequence: 0, and finals as rows without a pair have them. */
void lanes_rest_kernel(Lanes *x);
/* Of rows of q by `rows`, which more than the sequences have: those of no sequence (query_lines.c). */
void lanes_lines_kernel(const Lanes *x);
/* Where what passes by block [block] of so many rows of a side ends: at the sequence's end, or, where the block has no rows of it, at 0. */
const char *lanes_passing_end(Lanes *x, LanesSide own, const char *block, int32_t rows);
/* Where the keys of a sequence end: "kv_length", of dense keys the extent of T. */
const char *lanes_key_end(Lanes *x);
/* Rows of k or v in pages. */
LanesRows lanes_paged_rows(Lanes *x, const char *tensor, const char *head, const char *columns);
/* The view of such rows, whose numbers are the tile [rows], an axis kv. Page numbers are clamped: the caller excludes
 * rows from kv_length on, and where there are rows there is a page. */
AuTileHandle lanes_at_pages(Lanes *x, LanesRows view, const char *rows);

#endif
