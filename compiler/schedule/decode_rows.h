/* decode_rows.h - the products of lanes_decode: some query rows together with a tile of keys, then with one of values.
 *
 * Channels lie along the lanes. A vector of keys or values is read from the first cache once for all rows of a bundle, and sums stay in
 * registers: half of those of the machine, the other half has operands. Scores of a bundle's rows and keys are vectors of sums over
 * some channels each while the channels pass, and are added up over the lanes at the end.
 *
 *     S[rows, kv] = sum over d of Q[rows, d] K[kv, d]        ACC[rows, e] = ACC SCALE + sum over kv of S[rows, kv] V[kv, e]
 *
 * Memories, which the caller declares: Q f32[q, d], K [kv, d], V [kv, e], ACC f32[q, e], S f32[q, kv], SCALE f32[q]; Q0, K0 and S0 of a further product.
 * Values that are channels of the keys are those of K. */
#ifndef AU_SCHEDULE_DECODE_ROWS_H
#define AU_SCHEDULE_DECODE_ROWS_H

#include "lanes.h"

enum { DECODE_TOGETHER = 4 }; /* rows of a bundle; more would leave no registers for keys */

typedef struct DecodeBundle {
    int32_t rows;
    int32_t keys;     /* whose scores are under way together */
    int32_t channels; /* of the output, whose sums are */
} DecodeBundle;

/* Of the next tile as many rows come while this one is copied, and while scores become weights; the others with the products. */
int32_t decode_brought(const Lanes *x);
/* What is copied behind keys (1) or values (2) of tile `n`, and of which tile: values behind keys, keys of the next tile behind values, or behind
 * keys whose channels are the values. */
typedef struct DecodeNext {
    uint32_t of;
    const char *tile;
} DecodeNext;
DecodeNext decode_next(const Lanes *x, uint32_t n);
/* Element type of tiles of keys (1) or values (2): as they are passed, converted where they are multiplied, so that tiles of 16 bits have
 * twice as many keys. Codes become f32. */
const char *decode_tile_elem(Lanes *x, uint32_t n);
/* The same of keys of a product, q k' (0) or a further one. */
const char *decode_term_elem(Lanes *x, uint32_t term);
DecodeBundle decode_bundle(const Lanes *x, int32_t rows);
void decode_declare(Lanes *x, const DecodeBundle *of);
/* Of rows [first] .. of the block. */
void decode_scores(Lanes *x, const DecodeBundle *of, const char *first);
void decode_sums(Lanes *x, const DecodeBundle *of, const char *first);

#endif
