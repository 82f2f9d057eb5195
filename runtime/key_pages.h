/* key_pages.h - what lists of a call say of keys in a layout, read where memory is the host's: sequences.c, and groups.c for keys that
 * sequences share. */
#ifndef RT_KEY_PAGES_H
#define RT_KEY_PAGES_H

#include "plan.h"

/* Rows that are positions of a longer sequence: row j of sequence b is first[b] + every * j of whole[b]. */
typedef struct AuPositions {
    int32_t first, whole; /* tensors; -1: row j is position j, and there are no others */
    int64_t every;        /* positions from a row to the next */
    const char *rows;     /* what they are */
} AuPositions;

/* What a call gives of keys in pages; with no table, of padded ones. */
typedef struct AuKeyPages {
    int32_t table;        /* tensor; -1: none */
    int32_t starts;       /* tensor, of a table that is one list; -1: it has a row for each */
    int32_t rows;         /* tensor; -1: sequence b has row b of the table, or of k */
    int64_t lines;        /* rows of the table, or of k */
    int64_t pages, slots; /* of k: how many, rows of one */
    int64_t room;         /* keys of a sequence at most; in a table that is one list, of a page */
    AuPositions positions;
    int64_t most; /* keys that the call says there are at most */
} AuKeyPages;

/* The first tensor of that flag and rank, i32; -1: there is none. */
int32_t rt_list_of(const aule_attention_v1 *a, uint32_t flag, uint32_t rank);
/* Is [name] what tensor [index] is called, but for its end? "T_most" beside "T_starts". */
bool rt_is_beside(const aule_plan *plan, uint32_t index, const char *end, const char *name,
                  const char *instead);
/* An element of such a tensor. */
int64_t rt_i32_at(const aule_plan *plan, uint32_t index, const aule_address *at, int64_t row,
                  int64_t column);
/* Which row of the table, or of k, sequence b has. */
aule_status rt_line_of(const aule_plan *plan, const AuKeyPages *p, const aule_address *at,
                       int64_t b, int64_t *line, AuSink sink);
/* The page in that entry of a row of the table, or of the list that is all of it. */
int64_t rt_page_at(const aule_plan *plan, const AuKeyPages *p, const aule_address *table,
                   int64_t line, int64_t entry);
/* append.c: places of rows that go to the ends of sequences with these lengths, a tensor: no two are one. Pages and lengths are right. */
aule_status rt_check_new_places(const aule_plan *plan, const AuKeyPages *pages, uint32_t lengths,
                                const aule_address *at, AuSink sink);
/* groups.c: what is said of keys that sequences share, of [count] sequences, whose own lists are right. */
aule_status rt_check_groups(const aule_plan *plan, const AuKeyPages *p, const aule_address *at,
                            int64_t count, AuSink sink);

#endif
