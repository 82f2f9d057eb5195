/* key_storage.h - keys and values that lie in memory as codes of 8 bits, with scales (docs/dev/serving.md). Copies and loads make numbers of codes;
 * a scale that is one for all channels multiplies scores and, of values, weights or sums, instead of elements. */
#ifndef AU_SCHEDULE_KEY_STORAGE_H
#define AU_SCHEDULE_KEY_STORAGE_H

#include "lanes.h"

bool lanes_is_stored(const Lanes *x, uint32_t n); /* k (1) or v (2) */
AuTileElem schedule_stored_elem(const AuStorage *s);
const char *
lanes_stored_elem(const Lanes *x,
                  uint32_t n); /* "e4m3"; of codes of 4 bits that of the byte that has two */
bool lanes_stores_halves(const Lanes *x, uint32_t n); /* two codes in a byte? */
/* Elements of memory that so many channels of it are. */
int32_t lanes_stored_width(const Lanes *x, uint32_t n, int32_t width);
/* The scale of the tokens [rows], an index, of head [head]; where it is one a head, of the head. */
const char *lanes_scale_of(Lanes *x, uint32_t n, const char *head, const char *rows);
/* The same of tokens at that page and slot. */
const char *lanes_scale_in_page(Lanes *x, uint32_t n, const char *head, const char *page,
                                const char *slot);
/* Where lanes have it ahead (Lanes.scales_ahead): its name. Of values it is as often as large as weights have it. */
AuTileHandle lanes_scale_ahead(uint32_t n);
int32_t lanes_weight_range(const Lanes *x);
const char *lanes_value_head(const Lanes *x); /* of values and of their scales */
/* Is row [j] of the sequence one that pairs of the block may have? */
const char *lanes_key_inside(Lanes *x, const char *j);
/* In a kernel whose products take codes as they are: score becomes that of the elements, */
void lanes_scale_scores(Lanes *x);
/* p those weights that values have a scale a token for, as operands of the product with them, */
void lanes_scale_weights(Lanes *x);
/* and acc, once all keys are in it, the sum of the elements. */
void lanes_scale_values(Lanes *x);
void lanes_scale_values_of(Lanes *x, const char *sums); /* the same of other sums */

/* ---- key_elements.c: codes that become elements before products take them (attn_stores_parts) */

/* Which elements: indices, of channels of k or v; where all have the scale of one group, its number, else NULL. */
typedef struct LanesPlace {
    const char *head, *rows, *channel, *group;
} LanesPlace;
/* The index of such a channel in memory. */
const char *lanes_stored_index(Lanes *x, uint32_t n, const char *channel);
/* The number that the code of that channel is, of what was read; */
const char *lanes_number_of(Lanes *x, uint32_t n, const char *raw, const char *channel);
/* its scale, its zero point (NULL: there are none), and the element of such a number. */
const char *lanes_scale_at(Lanes *x, uint32_t n, LanesPlace at);
const char *lanes_zero_at(Lanes *x, uint32_t n, LanesPlace at);
const char *lanes_element_of(Lanes *x, uint32_t n, const char *number, LanesPlace at);

/* Can kernels whose lanes lie along rows make them? Widths that are no whole vectors they leave to the kernel of rows before them. */
bool lanes_makes_elements(const AuProblem *p);
/* Tiles of codes beside those that products read: bytes that a key has of them in the kernels of a problem. */
int32_t schedule_code_bytes(const AuProblem *p);
/* Does this kernel have one of k or v? Else a kernel before it wrote elements, or they are none that need it. */
bool lanes_has_codes(Lanes *x, uint32_t n);
/* Declares it: "K_codes", "V_codes", */
void lanes_code_memory(Lanes *x, uint32_t n);
/* copies tile `n` of keys to it, and makes the elements of the tile [to] of the rows that the executor has copied. Where lanes are threads
 * they meet between the two. */
void lanes_copy_codes(Lanes *x, uint32_t n);
const char *lanes_codes_of(uint32_t n); /* the memory where they come to lie */
void lanes_make_rows(Lanes *x, uint32_t n, const char *to);
/* The same of codes that came otherwise, */
typedef struct LanesElements {
    const char *to, *after; /* "K", " as [kv, e]": the tile */
    const char *layout;
    int32_t width, rows; /* of the tile; rows at a time */
    int32_t columns; /* channels at a time: those of a group, so that a row has one scale; or all */
    bool
        by_halves; /* of bytes that have two codes a load makes both; else each channel reads its byte */
} LanesElements;
void lanes_make_elements(Lanes *x, uint32_t n, LanesElements e);
/* Channels that have one scale; all, where there are no groups. */
int32_t schedule_scale_width(const AuProblem *p, uint32_t n, int32_t width);

#endif
