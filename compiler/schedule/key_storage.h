/* key_storage.h - keys and values that lie in memory as codes of 8 bits, with scales (docs/dev/serving.md). Copies and loads make numbers of codes;
 * a scale that is one for all channels multiplies scores and, of values, weights or sums, instead of elements. */
#ifndef AU_SCHEDULE_KEY_STORAGE_H
#define AU_SCHEDULE_KEY_STORAGE_H

#include "lanes.h"

bool lanes_is_stored(const Lanes *x, uint32_t n);          /* k (1) or v (2) */
const char *lanes_stored_elem(const Lanes *x, uint32_t n); /* "e4m3" */
/* The scale of the tokens [rows], an index, of head [head]; where it is one a head, of the head. */
const char *lanes_scale_of(Lanes *x, uint32_t n, const char *head, const char *rows);
/* In a kernel whose products take codes as they are: score becomes that of the elements, */
void lanes_scale_scores(Lanes *x);
/* p those weights that values have a scale a token for, as operands of the product with them, */
void lanes_scale_weights(Lanes *x);
/* and acc, once all keys are in it, the sum of the elements. */
void lanes_scale_values(Lanes *x);

#endif
