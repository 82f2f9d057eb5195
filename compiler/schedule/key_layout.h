/* key_layout.h - keys and values that lie padded or in pages (docs/dev/serving.md): views of them, and where those of a sequence end. */
#ifndef AU_SCHEDULE_KEY_LAYOUT_H
#define AU_SCHEDULE_KEY_LAYOUT_H

#include "rows.h"

bool lanes_keys_are_paged(const Lanes *x);
/* Of paged keys: rows that a line of the table has room for; the type of k (1) or v (2) as it lies in memory. */
const char *lanes_most_keys(Lanes *x);
const char *lanes_paged_type(Lanes *x, const char *elem, uint32_t n);
/* After the grid, in kernels that have `b`: lets kv_length, the keys of the sequence. Nothing for dense keys. */
void lanes_let_key_length(Lanes *x);
/* Where the keys of a sequence end: "kv_length", of dense keys the extent of T. */
const char *lanes_key_end(Lanes *x);
/* Rows of k or v in pages. */
LanesRows lanes_paged_rows(Lanes *x, const char *tensor, const char *head, const char *columns);
/* The view of such rows, whose numbers are the tile [rows], an axis kv. Page numbers are clamped: the caller excludes
 * rows from kv_length on, and where there are rows there is a page. */
AuTileHandle lanes_at_pages(Lanes *x, LanesRows view, const char *rows);

#endif
