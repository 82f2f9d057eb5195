/* rows.h - rows of tensors, and tiles of them, of queries and of keys alike: forward and backward, lanes and warps. */
#ifndef AU_SCHEDULE_ROWS_H
#define AU_SCHEDULE_ROWS_H

#include "lanes.h"

/* A view but for its rows: `k[b, hk, <rows>, :]`. */
typedef struct LanesRows {
    const char *before, *after;
    const char *
        head; /* rows in pages (key_layout.h): what stands between page and slot, ", hk, "; else NULL */
    bool in_sequence; /* they count those of a sequence, also where the side's rows are packed */
} LanesRows;
/* The view of such rows: "n * 64 +: 64". */
AuTileHandle lanes_at(Lanes *x, LanesRows view, const char *rows);

/* Where such rows end: with the sequence; where the mask's range begins and ends; where that ends. */
typedef enum LanesLimit { LANES_TO_SEQUENCE, LANES_TO_RANGE, LANES_TO_END } LanesLimit;
/* The span of rows of a sequence, "n * 64 +: 64", as a view has them. */
const char *lanes_view_span(Lanes *x, LanesSide side, LanesRows view, const char *rows,
                            LanesLimit limit);

/* tensor[b, head, <rows>, columns], a tensor with rows of queries. */
LanesRows lanes_rows(Lanes *x, const char *tensor, const char *head, const char *columns);
/* What products take of q (0), k (1) or v (2), as mods have left it. Values that are channels of the keys: those channels. */
LanesRows lanes_operand_rows(Lanes *x, uint32_t n, const char *columns);
/* Values that are channels of the keys: [width] of them from channel [first] on. */
LanesRows lanes_values_in_keys(Lanes *x, int32_t first, int32_t width);
/* Of keys (1) or values (2) as they are passed the elements that an index of memory says, one for each lane along the channels. */
LanesRows lanes_rows_by_index(Lanes *x, uint32_t n, const char *index);
/* One side of a further product; its axes become [q or kv, p<n>]. */
LanesRows lanes_dot_rows(Lanes *x, uint32_t n, LanesSide side, const char *columns);
/* Do its rows count those of a sequence where the side's rows are packed? So do those of a tensor that is the same for all sequences. */
bool lanes_dot_is_in_sequence(const AuProblem *p, uint32_t n, LanesSide side);
/* Has a head of queries rows of keys of its own there, which others of the same keys have not? */
bool lanes_dot_has_own_keys(const AuProblem *p, uint32_t n);
/* The same of another tensor of that shape. */
LanesRows lanes_dot_rows_of(Lanes *x, const char *name, uint32_t n, LanesSide side,
                            const char *columns);

/* ---- terms: the products that scores are made of, q k' (0) and each further product of score_mod */
typedef struct LanesTerm {
    const char *number; /* "", "0", "1": behind the names of its tiles, fragments and tokens */
    const char *score;  /* "score", "dot0": the product */
    const char *axis;   /* of its channels: "d", "p0" */
    int32_t width;
} LanesTerm;
uint32_t lanes_term_count(const Lanes *x);
LanesTerm lanes_term(Lanes *x, uint32_t n);
AuTileHandle lanes_term_name(Lanes *x, const char *name, uint32_t n); /* "K", "K0" */
const char *lanes_term_names(Lanes *x, const char *name);             /* "tk, tk0": of all */
const char *lanes_score_names(Lanes *x);                              /* "score, dot0" */
LanesRows lanes_term_rows(Lanes *x, uint32_t n, LanesSide side, const char *columns);
/* Declares the products, of type [pair]. */
void lanes_declare_scores(Lanes *x, const char *pair);
typedef AuTileHandle LanesOperand(Lanes *x, uint32_t term);
void lanes_score_products(Lanes *x, LanesOperand *left, LanesOperand *right);

/* ---- tiles */

/* Memory of the block where its executors share tiles, else of the executor. */
bool lanes_shares_tiles(const Lanes *x);
AuTileHandle lanes_memory(Lanes *x, AuTileHandle name, const char *type);
/* Copies tile `m` of queries or `n` of keys to [to]: of tiles that are shared each executor copies some rows. */
void lanes_copy_tile(Lanes *x, LanesSide side, LanesRows view, AuTileHandle to);
/* [count] keys (1) or values (2) from [first] on of tile `n`: what is read, padded with 0, and " when .." of those that the sequence and the mask's range
 * have, or "". */
typedef struct LanesSome {
    AuTileHandle rows;
    const char *when;
} LanesSome;
LanesSome lanes_some(Lanes *x, uint32_t n, const char *first, int32_t count, const char *columns);
LanesSome lanes_some_of(Lanes *x, LanesRows view, const char *first, int32_t count);
/* On a processor: [count] keys (1) or values (2) from [first] on of tile `n`, to as many rows of [to]. */
void lanes_copy_some(Lanes *x, uint32_t n, const char *first, int32_t count, AuTileHandle to);
/* [count] keys (1) or values (2) from [first] on of tile [tile] will be copied soon. */
void lanes_prefetch(Lanes *x, uint32_t n, const char *tile, const char *first, int32_t count);

/* The role of the block's executors, with its memories: shared ones before it, others in it. */
void lanes_core(Lanes *x, void (*memories)(Lanes *x));

/* 0 where the condition does not hold. */
void lanes_mask(Lanes *x, AuTileHandle value, AuTileHandle condition);

#endif
